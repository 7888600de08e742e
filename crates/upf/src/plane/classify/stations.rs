//! Base stations, and user-plane functions at the other end of N9, and whether one may send into the tunnel
//! of a session.
//!
//! A packet in a tunnel bears no proof of who sent it: whoever reaches N3 and guesses a tunnel sends in the
//! name of its user. So the host that it came from is compared with those to which the session sends. During
//! an Xn handover the new base station sends before session management names it here (TS 23.502 section
//! 4.9.1.2), and while a session is set up or its user equipment is idle none is named at all (sections 4.3.2
//! and 4.2.3).

use super::table::Table;
use crate::plane::live::Live;
use crate::plane::neighbour::table::{address_of, contains};
use crate::plane::setup::Sources;
use std::net::IpAddr;
use weir_wire::tunnel::Encapsulation;

/// Most base stations that are known at once; of others only their own sessions know.
const STATIONS_MAX: usize = 16_384;

/// Whose base station a host is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::plane) enum StationOf {
    /// That of the session, one of the configuration, or whoever sends where none is known.
    Session,
    /// Another session's.
    Others,
    /// Nobody's.
    Nobody,
}

/// See the [module documentation](self).
pub(in crate::plane) struct Stations {
    sources: Sources,
    given: Vec<(IpAddr, u8)>,
    /// How many sessions send to each.
    known: Table<u128>,
    seed: u64,
}

impl Stations {
    /// Which hosts may send, with those of the configuration, in a plane for so many sessions.
    pub fn new(sources: Sources, given: &[(IpAddr, u8)], sessions: usize, seed: u64) -> Stations {
        Stations { sources, given: given.to_vec(), known: Table::new(sessions.min(STATIONS_MAX), seed), seed }
    }

    /// A number for a host, for the table of flows: an IPv4 address itself, of IPv6 one that nobody can aim
    /// at.
    #[inline(always)]
    pub fn mark(&self, host: u128) -> u32 {
        let (high, low) = ((host >> 64) as u64, host as u64);
        if high == 0 { low as u32 } else { self.mixed(high, low) }
    }

    #[inline(never)]
    fn mixed(&self, high: u64, low: u64) -> u32 {
        let mixed = (high ^ self.seed).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed =
            (mixed ^ (mixed >> 29) ^ low ^ self.seed.rotate_left(32)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed >> 32) as u32
    }

    /// Whose base station a host is that sends into a tunnel of a session.
    pub fn of(&self, live: &Live, host: u128) -> StationOf {
        let mut own = hosts(live).peekable();
        let is_free = self.sources == Sources::Any || own.peek().is_none() || own.any(|own| own == host);
        let address = || address_of(host);
        if is_free || self.given.iter().any(|(given, length)| contains(*given, *length, address())) {
            return StationOf::Session;
        }
        match self.sources {
            Sources::Known if self.known.get(host).is_some() => StationOf::Others,
            _ => StationOf::Nobody,
        }
    }

    /// A session begins, with its rules.
    pub fn come(&mut self, live: &Live) {
        for host in hosts(live) {
            let count = self.known.get(host).unwrap_or(0);
            if count > 0 || self.known.has_room(1) {
                self.known.set(host, count + 1);
            }
        }
    }

    /// A session ends, or its rules do.
    pub fn go(&mut self, live: &Live) {
        for host in hosts(live) {
            match self.known.get(host) {
                Some(count @ 2..) => self.known.set(host, count - 1),
                Some(_) => self.known.remove(host),
                None => {}
            }
        }
    }
}

/// Where a session sends.
fn hosts(live: &Live) -> impl Iterator<Item = u128> + '_ {
    live.program.acts.iter().filter_map(|act| act.what.tunnel().map(Encapsulation::host))
}
