//! A test-only algorithm: signals every n-th packet. It proves that one file and one line in the list are
//! enough; it is compiled only with the feature `test-algorithm` and is no use on a network.

use crate::{Algorithm, Aqm, Cause, Moment, Packet, Setpoint, Verdict};
use weir_units::{Duration, Time};

crate::params! {
    /// Parameters of the test-only algorithm.
    pub struct Params {
        /// One packet of this many is signalled.
        n: u32 = 100, 1 => 1_000_000;
        /// Nothing is signalled while the last packet waited shorter than this.
        target: Duration = Duration::from_millis(1), Duration::ZERO => Duration::from_secs(10);
    }
}

/// See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct EveryNth {
    params: Params,
    seen: u32,
}

impl Algorithm for EveryNth {
    const NAME: &'static str = "every_nth";
    const SUMMARY: &'static str = "Signals every n-th packet; for tests only.";
    const SOURCE: &'static str = "none";
    const SETPOINT: Option<&'static str> = Some("target");
    type Params = Params;

    fn new(params: &Params, _start: Time) -> Self {
        EveryNth { params: params.clone(), seen: 0 }
    }
}

impl Aqm for EveryNth {
    fn on_enqueue(&mut self, m: &Moment, p: &Packet) -> Verdict {
        self.seen += 1;
        if self.seen < self.params.n {
            return Verdict::Forward;
        }
        self.seen = 0;
        if m.queue.delay > self.params.target {
            Verdict::signal(p, true, Cause::SetPoint)
        } else {
            Verdict::Forward
        }
    }

    fn setpoint(&mut self) -> Option<&mut dyn Setpoint> {
        Some(self)
    }
}

impl Setpoint for EveryNth {
    fn get(&self) -> Duration {
        self.params.target
    }
    fn set(&mut self, to: Duration) -> Duration {
        self.params.target = to.min(Duration::from_secs(10));
        self.params.target
    }
}
