//! What was found for a packet, so that only the first of a flow is looked up.
//!
//! A table of fixed size that all sessions share. What stands in it names the rules of a session as they were
//! then, by a number that no other rules ever bear: after a change, or after another session took the place
//! of the former, none of it is found. A flow whose place was taken is looked up again, and that is all that
//! a sender gains who fills the table; the hash is a secret one, so that nobody can aim at the flow of
//! another.

use crate::plane::classify::lookup::Key;
use crate::plane::status::faults::Cause;

/// Flows that have the same hash and are kept.
const WAYS: usize = 4;
/// Fewest places, and most: 2 MiB.
const PLACES: [usize; 2] = [256, 32_768];

/// A packet, as far as rules can tell it from others; see [`Flow::new`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flow {
    words: Words,
    set: u64,
}

type Words = [u64; 6];

impl Flow {
    /// A packet whose flow has that hash, and that came in a tunnel from the user equipment (its number, the
    /// QoS flow where a container names one, and a number for the base station), or without from the data
    /// network. Flow labels and security parameter indices are not in it: where filters ask for them, every
    /// packet is looked up.
    #[inline(always)]
    pub fn new(key: &Key, hash: u32, tos: u8, tunnel: Option<(u32, Option<u8>, u32)>) -> Flow {
        let [a, b, c, d] = key.addresses();
        let (teid, station) = tunnel.map_or((0, 0), |(teid, _, station)| (teid, station));
        let qfi = match tunnel {
            None => 0,
            Some((_, None, _)) => 1,
            Some((_, Some(qfi), _)) => 2 | u64::from(qfi) << 2,
        };
        let (word, ports) = key.word_and_ports();
        let asked = u64::from(word) | u64::from(tos) << 16 | qfi << 24 | u64::from(station) << 32;
        let tunnel = u64::from(teid) << 32 | u64::from(ports);
        let words = [a, b, c, d, tunnel, asked];
        // Both directions have the same hash, and not the same places.
        Flow { words, set: u64::from(hash) ^ qfi }
    }
}

/// Whether both are the same, without a branch for each word.
#[inline(always)]
fn are_same(one: &Words, other: &Words) -> bool {
    one.iter().zip(other).fold(0, |differ, (one, other)| differ | (one ^ other)) == 0
}

/// What was found.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct RuleMatch {
    /// Number of the rules; none have zero.
    pub serial: u64,
    /// Whose they are.
    pub session: u32,
    /// Which of them matched, if one did.
    pub rule: Option<u16>,
}

/// Why a packet is of no session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotMet {
    /// Nobody has the tunnel or the address.
    Nobody,
    /// It must not come from there, or not go there.
    Refused(Cause),
}

/// A place.
#[derive(Clone, Copy, Default)]
#[repr(C, align(64))]
struct FlowSlot {
    words: Words,
    found: RuleMatch,
}

/// See the [module documentation](self).
pub struct Flows {
    places: Box<[[FlowSlot; WAYS]]>,
    mask: usize,
}

impl Flows {
    /// Room for about so many flows.
    pub fn new(count: usize) -> Flows {
        let sets = count.clamp(PLACES[0], PLACES[1]).next_power_of_two() / WAYS;
        Flows { places: vec![[FlowSlot::default(); WAYS]; sets].into(), mask: sets - 1 }
    }

    /// What was found for a packet like this. Whoever asks makes sure that the rules are still there.
    #[inline(always)]
    pub fn get(&self, flow: &Flow) -> Option<&RuleMatch> {
        let set = &self.places[flow.set as usize & self.mask];
        set.iter().find(|place| are_same(&place.words, &flow.words)).map(|place| &place.found)
    }

    /// Notes what was found. The oldest of those with the same hash makes room.
    pub fn note(&mut self, flow: Flow, found: RuleMatch) {
        let set = &mut self.places[flow.set as usize & self.mask];
        let at = set.iter().position(|place| place.words == flow.words).unwrap_or(WAYS - 1);
        set.copy_within(..at, 1);
        set[0] = FlowSlot { words: flow.words, found };
    }
}

#[cfg(test)]
mod tests;
