//! What follows from a verdict, the same in every discipline: who is asked, what is counted, whether the
//! packet goes on.

use crate::{Counters, DROPS_PER_DEQUEUE_MAX};
use rand_core::RngCore;
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core;
use weir_aqm::{Aqm, Cause, Ecn, Guide, Moment, Packet, Verdict, View};

/// Whether a packet goes on with a new mark, or why it is discarded. Only packets that can carry a mark may
/// get one.
#[inline(always)]
pub(crate) fn settle(verdict: Verdict, packet: &Packet) -> Result<bool, Cause> {
    match verdict {
        Verdict::Forward => Ok(false),
        Verdict::Mark(_) => {
            assert!(packet.ecn != Ecn::NotEct, "an algorithm marked a packet that is not ECN-capable");
            Ok(true)
        }
        Verdict::Drop(cause) => Err(cause),
    }
}

/// Random bits for an algorithm that reads them.
#[inline(always)]
pub(crate) fn random_bits<A: Aqm>(dice: &mut SplitMix64) -> u64 {
    if A::USES_RANDOM { dice.next_u64() } else { 0 }
}

/// The algorithm of a packet, its guide, and the counters of the queue. Whoever holds the packets stores what
/// is admitted and sends what is released.
pub(crate) struct Decision<'q, A, G> {
    pub aqm: &'q mut A,
    pub guide: &'q mut G,
    pub counters: &'q mut Counters,
}

impl<A: Aqm, G: Guide<A>> Decision<'_, A, G> {
    /// Decides about an arrival: it is to be stored, with a mark or without, or discarded.
    #[inline(always)]
    pub fn admit(
        self,
        fits: bool,
        whole: impl FnOnce() -> View,
        m: &Moment,
        packet: &Packet,
    ) -> Result<bool, Cause> {
        let outcome = if fits {
            settle(self.guide.on_enqueue(self.aqm, whole, m, packet), packet)
        } else {
            self.guide.on_overflow(self.aqm, m, packet);
            Err(Cause::Overflow)
        };
        self.counters.admitted(outcome);
        outcome
    }

    /// Decides about a head that was taken out of its FIFO: it is to be sent, with a mark or without, or
    /// discarded. `drops` counts the heads that were discarded in the same dequeue.
    #[inline(always)]
    pub fn release(
        self,
        drops: &mut u32,
        whole: impl FnOnce() -> View,
        m: &Moment,
        packet: &Packet,
        was_marked: bool,
    ) -> Result<bool, Cause> {
        let verdict = if *drops < DROPS_PER_DEQUEUE_MAX {
            self.guide.on_dequeue(self.aqm, whole, m, packet)
        } else {
            Verdict::Forward
        };
        match settle(verdict, packet) {
            Ok(marks) => {
                self.counters.marked += u64::from(marks && !was_marked);
                self.counters.departure(packet.len);
                Ok(was_marked || marks)
            }
            Err(cause) => {
                *drops += 1;
                self.counters.dropped_out += 1;
                Err(cause)
            }
        }
    }
}
