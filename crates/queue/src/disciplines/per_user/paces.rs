//! Rates of users: when each may send again, and who waits for that.
//!
//! A user whose time has not come is on no list of the rounds; a heap keeps those in the order of their
//! times. Each is in it at most once, so that its memory is that of the start.

use crate::Shaper;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use weir_units::{Bytes, Duration, Rate, Time};

/// One shaper for each user.
pub(super) struct Paces {
    shapers: Box<[Shaper]>,
    /// How far ahead of its rate each may be: the time that a burst takes.
    bursts: Box<[Duration]>,
    /// Who waits, with the time that is waited for.
    held: BinaryHeap<Reverse<(Time, u32)>>,
    /// Packets of those who wait.
    packets: u32,
    catch_up: Duration,
}

impl Paces {
    /// Nobody is held to a rate.
    pub fn new(users: usize, catch_up: Duration) -> Paces {
        Paces {
            shapers: vec![Shaper::new(Rate::ZERO, catch_up); users].into(),
            bursts: vec![Duration::ZERO; users].into(),
            held: BinaryHeap::with_capacity(users),
            packets: 0,
            catch_up,
        }
    }

    /// Memory of them all.
    pub fn bytes(&self) -> usize {
        let each = size_of::<Shaper>() + size_of::<Duration>() + size_of::<Reverse<(Time, u32)>>();
        self.shapers.len() * each
    }

    /// A place has a new user.
    pub fn reset(&mut self, at: usize) {
        self.shapers[at] = Shaper::new(Rate::ZERO, self.catch_up);
        self.bursts[at] = Duration::ZERO;
    }

    /// Rate and burst of a user from its next packet on.
    pub fn set_plan(&mut self, at: usize, rate: Option<Rate>, burst: Duration) {
        self.set_rate(at, rate);
        self.bursts[at] = burst;
    }

    /// Nobody waits.
    pub fn clear(&mut self) {
        self.held.clear();
        self.packets = 0;
    }

    /// The rate of a user from its next packet on; `None` for no limit.
    #[inline]
    pub fn set_rate(&mut self, at: usize, rate: Option<Rate>) {
        let rate = rate.map_or(Rate::ZERO, |rate| rate.max(Rate::from_bps(1)));
        if self.shapers[at].rate() != rate {
            self.shapers[at].set_rate(rate);
        }
    }

    /// The rate that a user is held to.
    #[inline]
    pub fn rate(&self, at: usize) -> Option<Rate> {
        Some(self.shapers[at].rate()).filter(|rate| *rate != Rate::ZERO)
    }

    /// When a user may send again, if that is after `now`.
    #[inline]
    pub fn not_before(&self, at: usize, now: Time) -> Option<Time> {
        // The virtual scheduling algorithm of ITU-T I.371, annex A, with the burst as its limit.
        Some(self.shapers[at].departure(Time::ZERO) - self.bursts[at]).filter(|due| *due > now)
    }

    /// A user sent a packet that arrived then. What it could not send because of others is made up for a
    /// little.
    #[inline]
    pub fn sent(&mut self, at: usize, now: Time, arrived: Time, len: Bytes) {
        let shaper = &mut self.shapers[at];
        shaper.looked(now);
        shaper.sent(shaper.departure(arrived), len);
    }

    /// A user with so many packets waits until `due`.
    pub fn hold(&mut self, at: usize, due: Time, packets: u32) {
        self.held.push(Reverse((due, at as u32)));
        self.packets += packets;
    }

    /// A packet came for a user who waits.
    #[inline]
    pub fn stored(&mut self) {
        self.packets += 1;
    }

    /// Somebody whose time has come, and the time; `waiting` tells how many packets a user has.
    #[inline]
    pub fn release(&mut self, now: Time, waiting: impl Fn(usize) -> u32) -> Option<(usize, Time)> {
        let Reverse((due, at)) = *self.held.peek().filter(|Reverse((due, _))| *due <= now)?;
        self.held.pop();
        self.packets -= waiting(at as usize);
        Some((at as usize, due))
    }

    /// Packets of those who wait.
    #[inline]
    pub fn packets(&self) -> u32 {
        self.packets
    }

    /// When the first of those who wait may send.
    #[inline]
    pub fn first(&self) -> Option<Time> {
        self.held.peek().map(|Reverse((due, _))| *due)
    }
}
