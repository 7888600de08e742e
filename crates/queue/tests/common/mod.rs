//! A queue with a clock, and packets for it.
#![allow(dead_code, reason = "each test file uses some of it")]

use std::collections::BTreeMap;
use weir_aqm::{Ecn, Packet};
use weir_queue::{Arrival, Departure, Discipline, Hosts, Limits, Setup};
use weir_units::{Bytes, Duration, Rate, Time};

pub const MTU: u64 = 1500;

pub fn setup(packets: u32) -> Setup {
    let limits = Limits { bytes: Bytes::new(10_000_000), packets };
    Setup { limits, rate: Rate::from_mbps(100), seed: 1, grows: false }
}

pub fn arrival(flow: u32, len: u64) -> Arrival {
    Arrival { len: Bytes::new(len), flow, hosts: Hosts::UNKNOWN, ecn: Ecn::NotEct, nqb: false }
}

/// Sender and receiver are one host here.
pub fn from_host(host: u32, flow: u32, len: u64) -> Arrival {
    Arrival { hosts: Hosts { sender: host, receiver: host }, ..arrival(flow, len) }
}

pub fn with_ecn(arrival: Arrival, capable: bool) -> Arrival {
    Arrival { ecn: if capable { Ecn::Ect0 } else { Ecn::NotEct }, ..arrival }
}

/// A queue, what it discarded, and what waits of each item.
pub struct Link<D> {
    pub queue: D,
    pub now: Time,
    pub lost: Vec<u32>,
    waiting: BTreeMap<u32, u32>,
}

impl<D: Discipline<u32>> Link<D> {
    pub fn new(queue: D) -> Self {
        Link { queue, now: Time::ZERO, lost: Vec::new(), waiting: BTreeMap::new() }
    }

    pub fn waiting(&self, item: u32) -> u32 {
        self.waiting.get(&item).copied().unwrap_or(0)
    }

    /// Returns whether nothing was discarded.
    pub fn enqueue(&mut self, arrival: Arrival, item: u32) -> bool {
        *self.waiting.entry(item).or_default() += 1;
        let before = self.lost.len();
        let Link { queue, lost, .. } = self;
        queue.enqueue(self.now, arrival, item, &mut |_: &Packet, item, _| lost.push(item));
        self.forget_lost(before);
        self.lost.len() == before
    }

    pub fn dequeue(&mut self) -> Option<Departure<u32>> {
        let before = self.lost.len();
        let Link { queue, lost, .. } = self;
        let departure = queue.dequeue(self.now, &mut |_: &Packet, item, _| lost.push(item));
        self.forget_lost(before);
        if let Some(departure) = &departure {
            *self.waiting.get_mut(&departure.item).expect("it was sent") -= 1;
        }
        departure
    }

    pub fn wait(&mut self, time: Duration) {
        self.now += time;
    }

    fn forget_lost(&mut self, before: usize) {
        for item in &self.lost[before..] {
            *self.waiting.get_mut(item).expect("it was sent") -= 1;
        }
    }
}
