//! Requests of ours that wait for their answers: heartbeats and reports, sent again until they are answered
//! or given up.

use crate::rules::Seid;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use weir_units::{Duration, Time};

/// Most requests without an answer; what is beyond that is counted and not sent.
pub const OPEN_MAX: usize = 4096;
/// Of them kept for usage reports and heartbeats: error indications and packets without end from base
/// stations and the data network keep no charging from being told.
pub const RESERVED: usize = 1024;

/// What a request is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum About {
    /// Whether a peer is there.
    Heartbeat,
    /// A session.
    Report(Seid),
    /// What a session used.
    Usage(Seid),
    /// An association.
    Setup,
    /// Our end.
    Goodbye,
}

#[derive(Debug)]
struct Open {
    to: SocketAddr,
    about: About,
    datagram: Box<[u8]>,
    due: Time,
    tries_left: u32,
}

/// Requests of ours by their sequence numbers.
#[derive(Debug)]
pub struct Requests {
    open: BTreeMap<u32, Open>,
    next: u32,
    again: Duration,
    tries: u32,
}

/// What is due of a request.
pub enum Due {
    /// It is to be sent again.
    Again(SocketAddr, Box<[u8]>),
    /// It was sent often enough.
    GivenUp(SocketAddr, About),
}

impl Requests {
    /// Sends each `tries` times, `again` apart. Numbers begin at `first`.
    pub fn new(again: Duration, tries: u32, first: u32) -> Requests {
        Requests { open: BTreeMap::new(), next: first & 0xff_ffff, again, tries }
    }

    /// Whether one more may be sent.
    pub fn has_room(&self, about: About) -> bool {
        let reserved = if matches!(about, About::Report(_)) { RESERVED } else { 0 };
        self.open.len() < OPEN_MAX - reserved
    }

    /// The number of the next request; `None` if too many wait.
    pub fn number(&mut self, about: About) -> Option<u32> {
        if !self.has_room(about) {
            return None;
        }
        loop {
            let number = self.next;
            self.next = (self.next + 1) & 0xff_ffff;
            if !self.open.contains_key(&number) {
                return Some(number);
            }
        }
    }

    /// Notes a request that is sent now.
    pub fn note(&mut self, now: Time, number: u32, to: SocketAddr, about: About, datagram: &[u8]) {
        let (due, tries_left) = (now + self.again, self.tries - 1);
        self.open.insert(number, Open { to, about, datagram: datagram.into(), due, tries_left });
    }

    /// An answer came. Gives what it is about, if it answers anything.
    pub fn answered(&mut self, number: u32, from: SocketAddr) -> Option<About> {
        // Answers come from the address that was asked; some peers answer from another port.
        self.open.get(&number).filter(|open| open.to.ip() == from.ip())?;
        self.open.remove(&number).map(|open| open.about)
    }

    /// What is due by now.
    pub fn due(&mut self, now: Time) -> Vec<Due> {
        let numbers: Vec<u32> =
            self.open.iter().filter(|(_, open)| open.due <= now).map(|(number, _)| *number).collect();
        numbers.into_iter().filter_map(|number| self.turn(number, now)).collect()
    }

    fn turn(&mut self, number: u32, now: Time) -> Option<Due> {
        let open = self.open.get_mut(&number)?;
        if open.tries_left == 0 {
            let open = self.open.remove(&number)?;
            return Some(Due::GivenUp(open.to, open.about));
        }
        open.tries_left -= 1;
        open.due = now + self.again;
        Some(Due::Again(open.to, open.datagram.clone()))
    }

    /// Forgets what was asked of a peer.
    pub fn forget(&mut self, peer: std::net::IpAddr) {
        self.open.retain(|_, open| open.to.ip() != peer);
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.open.len()
    }
}
