//! Ramp: signals with a probability that grows with the queueing delay. This file is compiled as a part of
//! `weir-aqm`, which `crate` means here.

use crate::{Algorithm, Aqm, Cause, Chance, Moment, Packet, Verdict};
use weir_units::{Duration, Time};

pub use Ramp as Outside;

/// Share of the packets that is signalled at `steep` and beyond.
const MOST: f64 = 0.1;

crate::params! {
    /// Parameters of Ramp.
    pub struct Params {
        /// Queueing delay at which one packet in ten is signalled.
        steep: Duration = Duration::from_millis(50), Duration::from_millis(1) => Duration::from_secs(10);
    }
}

/// See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct Ramp {
    params: Params,
}

impl Algorithm for Ramp {
    const NAME: &'static str = "ramp";
    const SUMMARY: &'static str = "Signals with a probability that grows with the queueing delay.";
    const SOURCE: &'static str = "none";
    const SETPOINT: Option<&'static str> = None;
    type Params = Params;

    fn new(params: &Params, _start: Time) -> Self {
        Ramp { params: params.clone() }
    }
}

impl Aqm for Ramp {
    const USES_RANDOM: bool = true;

    fn on_enqueue(&mut self, m: &Moment, p: &Packet) -> Verdict {
        let delay = m.queue.delay.as_secs_f64() / self.params.steep.as_secs_f64();
        if Chance::new(MOST * delay.min(1.0)).hits(m.random_bits::<Self>()) {
            Verdict::signal(p, true, Cause::Chance)
        } else {
            Verdict::Forward
        }
    }
}
