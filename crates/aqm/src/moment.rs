//! When a question is asked, with random bits for those algorithms that declare that they need them.

use crate::{Aqm, View};
use weir_units::Time;

/// When a question is asked, and of which queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Moment {
    /// The time of the host. It never runs backwards.
    pub now: Time,
    /// The queue in question.
    pub queue: View,
    /// Out of reach of algorithms, which have to say for which of them they read it.
    bits: u64,
}

impl Moment {
    /// A moment with uniformly distributed random bits, fresh at each call to an algorithm with
    /// [`Aqm::USES_RANDOM`]; for others any number will do.
    #[inline]
    pub const fn new(now: Time, queue: View, bits: u64) -> Moment {
        Moment { now, queue, bits }
    }

    /// Uniformly distributed random bits for algorithm `A`, which is `Self` where an algorithm asks.
    ///
    /// An algorithm without [`Aqm::USES_RANDOM`] that asks for them does not compile, because hosts roll no
    /// dice for it:
    ///
    /// ```compile_fail
    /// use weir_aqm::{Aqm, Cause, Chance, Moment, Packet, Verdict};
    ///
    /// struct DropHalf;
    /// impl Aqm for DropHalf {
    ///     fn on_enqueue(&mut self, m: &Moment, _: &Packet) -> Verdict {
    ///         if Chance::new(0.5).hits(m.random_bits::<Self>()) { Verdict::Drop(Cause::Chance) } else { Verdict::Forward }
    ///     }
    /// }
    /// # let _used: fn(&mut DropHalf, &Moment, &Packet) -> Verdict = DropHalf::on_enqueue;
    /// ```
    ///
    /// The same with the declaration:
    ///
    /// ```
    /// use weir_aqm::{Aqm, Cause, Chance, Moment, Packet, Verdict};
    ///
    /// struct DropHalf;
    /// impl Aqm for DropHalf {
    ///     const USES_RANDOM: bool = true;
    ///     fn on_enqueue(&mut self, m: &Moment, _: &Packet) -> Verdict {
    ///         if Chance::new(0.5).hits(m.random_bits::<Self>()) { Verdict::Drop(Cause::Chance) } else { Verdict::Forward }
    ///     }
    /// }
    /// # let _used: fn(&mut DropHalf, &Moment, &Packet) -> Verdict = DropHalf::on_enqueue;
    /// ```
    #[inline]
    pub fn random_bits<A: Aqm>(&self) -> u64 {
        const {
            assert!(
                A::USES_RANDOM,
                "an algorithm that reads `Moment::random_bits` must declare `const USES_RANDOM: bool = true`"
            );
        }
        self.bits
    }

    /// The same moment with other random bits, made from these: for the second of two questions that a host
    /// took for one.
    #[inline]
    pub fn again(self) -> Moment {
        // The mixing step of SplitMix64.
        let mixed = (self.bits ^ (self.bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Moment { bits: mixed ^ (mixed >> 31), ..self }
    }
}
