//! Congestion controls of the caller's own, outside the list.

use super::{AckSample, CongestionControl, Env, ReductionCause, Window};
use crate::EcnMode;
use std::fmt::{self, Debug};
use weir_units::{Duration, Time};

/// A congestion control outside the list, with its parameters at their defaults. Two are equal if their names
/// are.
#[derive(Clone, Copy)]
pub struct Own {
    pub(super) name: &'static str,
    pub(super) ecn: EcnMode,
    pub(super) paced: bool,
    pub(super) wants_rate: bool,
    pub(super) owns_window: bool,
    pub(super) owns_marks: bool,
    pub(super) new: fn(&Env) -> Box<dyn State>,
}

impl Own {
    /// The congestion control `C`.
    pub fn of<C: CongestionControl + Clone + Debug + Send + 'static>() -> Own {
        Own {
            name: C::NAME,
            ecn: C::ECN,
            paced: C::PACED,
            wants_rate: C::WANTS_RATE,
            owns_window: C::OWNS_WINDOW,
            owns_marks: C::OWNS_MARKS,
            new: |env| Box::new(C::new(&C::Params::default(), env)),
        }
    }
}

impl Debug for Own {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Own").field(&self.name).finish()
    }
}

impl PartialEq for Own {
    fn eq(&self, other: &Own) -> bool {
        self.name == other.name
    }
}

impl Eq for Own {}

/// The state of a flow under such a congestion control.
pub(crate) trait State: Debug + Send {
    fn on_sample(&mut self, window: &mut Window, sample: &AckSample);
    fn grow(&mut self, window: &mut Window, sample: &AckSample);
    fn ssthresh(&mut self, window: &Window, cause: ReductionCause) -> u32;
    fn on_timeout(&mut self);
    fn on_idle(&mut self, now: Time, idle: Duration);
    fn on_undo(&mut self);
    fn pacing_rate(&self, window: &Window, srtt: Option<Duration>, out: u32) -> Option<f64>;
    fn boxed_clone(&self) -> Box<dyn State>;
}

impl<C: CongestionControl + Clone + Debug + Send + 'static> State for C {
    fn on_sample(&mut self, window: &mut Window, sample: &AckSample) {
        CongestionControl::on_sample(self, window, sample);
    }
    fn grow(&mut self, window: &mut Window, sample: &AckSample) {
        CongestionControl::grow(self, window, sample);
    }
    fn ssthresh(&mut self, window: &Window, cause: ReductionCause) -> u32 {
        CongestionControl::ssthresh(self, window, cause)
    }
    fn on_timeout(&mut self) {
        CongestionControl::on_timeout(self);
    }
    fn on_idle(&mut self, now: Time, idle: Duration) {
        CongestionControl::on_idle(self, now, idle);
    }
    fn on_undo(&mut self) {
        CongestionControl::on_undo(self);
    }
    fn pacing_rate(&self, window: &Window, srtt: Option<Duration>, out: u32) -> Option<f64> {
        CongestionControl::pacing_rate(self, window, srtt, out)
    }
    fn boxed_clone(&self) -> Box<dyn State> {
        Box::new(self.clone())
    }
}

impl Clone for Box<dyn State> {
    fn clone(&self) -> Self {
        (**self).boxed_clone()
    }
}
