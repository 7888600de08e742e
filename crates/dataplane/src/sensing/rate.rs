//! What probes do to the rate of the direction whose packets they follow.

use super::frame::{Form, LONGEST};
use weir_sense::probe::{Shaped, Shaping, State};
use weir_units::{Rate, Time};

/// Keeps the rate of a direction by its probes.
pub struct SensedRate {
    shaping: Shaping,
    form: Form,
}

impl SensedRate {
    /// A rate that probes of this form move.
    pub fn new(shaping: Shaping, form: Form) -> SensedRate {
        SensedRate { shaping, form }
    }

    /// Whether a frame of so many bytes could be a probe: those are looked at when they leave.
    #[inline(always)]
    pub fn concerns(&self, len: u32) -> bool {
        len as usize <= LONGEST
    }

    /// A frame left the shaper, when `bytes` had left in all.
    #[cold]
    pub fn left(&mut self, at: Time, frame: &[u8], bytes: u64) {
        if let Some(stamp) = self.form.own(frame) {
            self.shaping.left(at, stamp.sequence, bytes);
        }
    }

    /// A probe came back for the first time.
    pub fn returned(&mut self, at: Time, sequence: u16) {
        self.shaping.returned(at, sequence);
    }

    /// The configured rate is another one.
    pub fn set_rate(&mut self, rate: Rate) {
        self.shaping.set_rate(rate);
    }

    /// The rate, if it is another one from now on.
    #[inline]
    pub fn look(&mut self, now: Time, state: State, bytes: u64) -> Option<Rate> {
        self.shaping.look(now, state, bytes)
    }

    /// The rate in force, and what became of it.
    pub fn told(&self) -> &Shaped {
        self.shaping.told()
    }
}
