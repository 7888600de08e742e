//! ASQM: active sense queue management.
//!
//! The queue that fills may lie below IP, in a modem whose link is slower than the rate it was sold with.
//! ASQM does not look at its own queue but at round trips that probes measured through everything below
//! ([`Sample::Rtt`]): when their smoothed value reaches the target it signals arriving packets at once and
//! then at times `interval / sqrt(n)` apart, until one of them lies below the target.
//!
//! Without samples for `silence` the sojourn time of its own queue takes their place, under the same law and
//! the same target.

use crate::{Algorithm, Aqm, Cause, Moment, Needs, Packet, Sample, Setpoint, Verdict};
use weir_sense::{Srtt, WindowedMin};
use weir_units::{Bytes, Duration, Time};

const TARGET_MIN: Duration = Duration::from_micros(100);
const TARGET_MAX: Duration = Duration::from_secs(10);

crate::params! {
    /// Parameters of ASQM.
    pub struct Params {
        /// Smoothed round trip at which signalling starts, and below which one sample ends it; the paper
        /// tried 10 to 500 ms.
        target: Duration = Duration::from_millis(100), TARGET_MIN => TARGET_MAX;
        /// Time from the first signal to the second.
        interval: Duration = Duration::from_millis(100), Duration::from_millis(1) => Duration::from_secs(10);
        /// Whether ECN-capable packets are marked instead of dropped.
        ecn: bool = true, false => true;
        /// Whether the smallest sample of the last 10 s is subtracted, so that the target means time in
        /// queues and not the round trip of the link.
        subtract_min: bool = false, false => true;
        /// After this time without a sample, the sojourn time of the own queue is taken for one.
        silence: Duration = Duration::from_secs(3), Duration::from_millis(100) => Duration::from_secs(3600);
    }
}

/// How long the smallest sample is remembered.
const BASE_WINDOW: Duration = Duration::from_secs(10);

/// Packets of at most this size, by the link's accounting, are not signalled: probes, and acknowledgements,
/// whose loss slows nobody down. The next larger one is.
const SMALL: Bytes = Bytes::new(120);

/// Departures to a sample of the own queue: as often as probes are sent.
const DEPARTURES_PER_SAMPLE: u32 = 4;

/// Where samples come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Source {
    /// From outside; the last one then.
    Probes(Time),
    /// The sojourn times of the own queue.
    OwnQueue,
}

/// See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct Asqm {
    params: Params,
    source: Source,
    srtt: Srtt,
    base: WindowedMin<Duration>,
    /// While signalling: when the next signal is due.
    next_signal: Option<Time>,
    /// Signals since signalling began.
    count: u32,
    departures: u32,
}

impl Algorithm for Asqm {
    const NAME: &'static str = "asqm";
    const SUMMARY: &'static str =
        "Signals arrivals, ever faster, while probes say that the path below is longer than a target.";
    const SOURCE: &'static str = "the paper on Active Sense Queue Management";
    const SETPOINT: Option<&'static str> = Some("target");
    type Params = Params;

    fn new(params: &Params, _start: Time) -> Self {
        Asqm {
            params: params.clone(),
            source: Source::OwnQueue,
            srtt: Srtt::default(),
            base: WindowedMin::new(BASE_WINDOW),
            next_signal: None,
            count: 0,
            departures: 0,
        }
    }
}

impl Asqm {
    /// One measured value of what is to be held at the target.
    fn measured(&mut self, now: Time, value: Duration) {
        let smoothed = self.srtt.sample(value);
        if value < self.params.target {
            self.next_signal = None;
            self.count = 0;
        } else if self.next_signal.is_none() && smoothed >= self.params.target {
            self.next_signal = Some(now);
            self.count = 0;
        }
    }

    /// Samples come from elsewhere now: what was seen before says nothing about that.
    fn turn_to(&mut self, source: Source) {
        self.source = source;
        self.srtt = Srtt::default();
        self.next_signal = None;
        self.count = 0;
    }

    /// Turns to the own queue if there was silence for too long; whether that is where samples come from.
    fn is_on_its_own(&mut self, now: Time) -> bool {
        if let Source::Probes(last) = self.source
            && now.since(last) >= self.params.silence
        {
            self.turn_to(Source::OwnQueue);
        }
        self.source == Source::OwnQueue
    }

    /// Whether a signal is due; the next one then is `interval / sqrt(n)` later. A law that fell behind,
    /// because nothing arrived meanwhile, does not catch up.
    fn is_due(&mut self, now: Time) -> bool {
        let Some(due) = self.next_signal.filter(|due| *due <= now) else { return false };
        self.count = self.count.saturating_add(1);
        let spacing = self.params.interval.mul_f64(1.0 / libm::sqrt(f64::from(self.count)));
        let from = if now.since(due) > spacing { now } else { due };
        self.next_signal = Some(from + spacing);
        true
    }
}

impl Aqm for Asqm {
    const NEEDS: Needs = Needs::Probes;

    fn on_enqueue(&mut self, m: &Moment, p: &Packet) -> Verdict {
        if self.is_on_its_own(m.now) && m.queue.packets == 0 {
            self.next_signal = None;
            self.count = 0;
        }
        if self.next_signal.is_none() || p.len <= SMALL || !self.is_due(m.now) {
            return Verdict::Forward;
        }
        Verdict::signal(p, self.params.ecn, Cause::SetPoint)
    }

    fn on_dequeue(&mut self, m: &Moment, p: &Packet) -> Verdict {
        if self.is_on_its_own(m.now) {
            self.departures += 1;
            if self.departures >= DEPARTURES_PER_SAMPLE {
                self.departures = 0;
                self.measured(m.now, m.now.since(p.arrived));
            }
        }
        Verdict::Forward
    }

    fn on_sample(&mut self, now: Time, s: Sample) {
        let Sample::Rtt(rtt) = s else { return };
        if self.is_on_its_own(now) {
            self.turn_to(Source::Probes(now));
        }
        self.source = Source::Probes(now);
        let value = if self.params.subtract_min {
            self.base.insert(now, rtt);
            rtt - self.base.get(now).unwrap_or(rtt)
        } else {
            rtt
        };
        self.measured(now, value);
    }

    fn setpoint(&mut self) -> Option<&mut dyn Setpoint> {
        Some(self)
    }

    fn gauges(&self, plot: &mut dyn FnMut(&'static str, f64)) {
        plot("srtt_ms", self.srtt.get().map_or(0.0, Duration::as_millis_f64));
        plot("signalling", f64::from(u8::from(self.next_signal.is_some())));
        plot("count", f64::from(self.count));
        plot("on_its_own", f64::from(u8::from(self.source == Source::OwnQueue)));
    }
}

impl Setpoint for Asqm {
    fn get(&self) -> Duration {
        self.params.target
    }

    fn set(&mut self, to: Duration) -> Duration {
        self.params.target = to.clamp(TARGET_MIN, TARGET_MAX);
        self.params.target
    }
}

#[cfg(test)]
mod tests;
