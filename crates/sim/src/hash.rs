//! A fingerprint of a run: every decision about every packet, in order.

use weir_units::Time;

/// What was decided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    /// A packet began its transmission.
    Departed = 1,
    /// The same, with CE set by this link.
    Marked = 2,
    /// A packet was discarded.
    Dropped = 3,
    /// A packet was lost behind the queue.
    Lost = 4,
}

/// A running 64-bit hash; equal runs give equal hashes, and any two decisions swapped or changed do not.
///
/// Multiply and rotate, as hash tables do it: two multiplications for each packet. It guards against
/// accidents, not against forgers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TraceHash(u64);

const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

impl Default for TraceHash {
    fn default() -> TraceHash {
        TraceHash(0x243f_6a88_85a3_08d3)
    }
}

impl TraceHash {
    /// Takes in one decision.
    #[inline]
    pub fn note(&mut self, decision: Decision, link: u32, time: Time, flow: u32, seq: u64) {
        let who = (u64::from(flow) << 32) ^ (u64::from(link) << 3) ^ decision as u64;
        let what = time.as_nanos() ^ seq.rotate_left(40) ^ who.wrapping_mul(0xd6e8_feb8_6659_fd93);
        self.0 = (self.0.rotate_left(23) ^ what).wrapping_mul(FACTOR);
    }

    /// The fingerprint so far.
    pub fn value(&self) -> u64 {
        self.0 ^ (self.0 >> 29)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_every_field_count() {
        let base = (Decision::Departed, 0, 5, 1, 9);
        let hash = |rows: &[(Decision, u32, u64, u32, u64)]| {
            let mut h = TraceHash::default();
            rows.iter().for_each(|(d, l, t, f, s)| h.note(*d, *l, Time::from_nanos(*t), *f, *s));
            h.value()
        };
        let others = [
            (Decision::Marked, 0, 5, 1, 9),
            (Decision::Departed, 1, 5, 1, 9),
            (Decision::Departed, 0, 6, 1, 9),
            (Decision::Departed, 0, 5, 2, 9),
            (Decision::Departed, 0, 5, 1, 8),
        ];
        for other in others {
            assert_ne!(hash(&[base]), hash(&[other]));
            assert_ne!(hash(&[base, other]), hash(&[other, base]));
        }
    }
}
