//! PI: the proportional-integral controller of Hollot, Misra, Towsley and Gong ("On designing improved
//! controllers for AQM routers supporting TCP flows", INFOCOM 2001).
//!
//! ```text
//! every 1/f_s: p = p + a * (q - q_ref) - b * (q_old - q_ref), from 0 to 1;  q_old = q
//! ```
//!
//! Each arriving packet is signalled with probability `p`. The queue is counted in packets of mean size, and
//! the reference is the set point `target` at the link's rate.
//!
//! `a`, `b` and `f_s` follow from the fewest flows, the longest round-trip time and the link's rate by the
//! paper's rule ([`design`]), anew when the rate changes; or they are given. A number of flows that is chosen
//! for one rate makes the controller useless at a much higher one, so fast links count as having more of
//! them.

use crate::Chance;
use crate::packets;
use crate::sampling::Sampling;
use crate::{Algorithm, Aqm, Cause, Moment, Packet, Setpoint, Verdict};
use weir_units::{Bytes, Duration, Rate, Time};

const TARGET_MIN: Duration = Duration::from_micros(1);
const TARGET_MAX: Duration = Duration::from_secs(10);

/// Limits of the sampling period: hosts cannot keep a shorter one, and within a longer one queues come and go
/// unseen. More samples than designed do no harm.
const PERIOD_MIN: Duration = Duration::from_micros(100);
const PERIOD_MAX: Duration = Duration::from_millis(100);

crate::params! {
    /// Parameters of PI.
    pub struct Params {
        /// Queue that is aimed at, as the time its bytes take at the link's rate: `q_ref` of the paper, which
        /// compares at 53 ms (200 packets of 500 bytes at 15 Mbit/s). The default is that of PIE (RFC 8033
        /// section 4.2), which is derived from PI.
        target: Duration = Duration::from_millis(15), TARGET_MIN => TARGET_MAX;
        /// Whether gains and frequency follow from `flows`, `rtt` and the link's rate (section IV of the
        /// paper); else `a`, `b` and `frequency` hold.
        design: bool = true, false => true;
        /// Fewest flows with which the loop must be stable: N of the design, unless `flow_rate` says more.
        /// The default is the paper's example; fewer make the controller slower with the third power.
        flows: u32 = 60, 1 => 1_000_000;
        /// Highest rate of a flow: on a link that is faster than `flows` times this, the design is for as
        /// many flows as fill it at this rate, or it would be slower with the fourth power of the link's
        /// rate. The default is the paper's example, 3750 packets per second and 60 flows, with packets of
        /// 1538 bytes.
        flow_rate: Rate = Rate::from_bps(769_000), Rate::from_bps(1000) => Rate::from_bps(1_000_000_000_000);
        /// Longest round-trip time, with the queue, with which the loop must be stable: R of the design. The
        /// default is the paper's example; longer ones make the controller slower with the fifth power.
        rtt: Duration = Duration::from_millis(246), Duration::from_millis(1) => Duration::from_secs(10);
        /// Gain of the present queue, per packet, where it is not designed; the paper's example (section IV).
        a: f64 = 0.00001822, 0.0 => 1.0;
        /// Gain of the queue one sample ago, per packet, where it is not designed; the paper's example.
        b: f64 = 0.00001816, 0.0 => 1.0;
        /// Samples per second, where they are not designed; the paper's example.
        frequency: f64 = 160.0, 10.0 => 10_000.0;
        /// Size of the packets in which the queue is counted.
        mean_packet: Bytes = Bytes::new(1538), Bytes::new(64) => Bytes::new(65_536);
        /// Whether the queue's bytes are counted (RFC 7141 section 2.1) and not its packets.
        count_bytes: bool = true, false => true;
        /// Whether ECN-capable packets are marked instead of dropped.
        ecn: bool = true, false => true;
    }
}

impl Params {
    /// N of the design for a link of this rate.
    pub fn fewest_flows(&self, rate: Rate) -> f64 {
        f64::from(self.flows).max(rate.as_bps_f64() / self.flow_rate.as_bps_f64())
    }
}

/// What the controller multiplies by, and how often.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Gains {
    /// Gain of the present queue, per packet.
    pub a: f64,
    /// Gain of the queue one sample ago, per packet.
    pub b: f64,
    /// Samples per second.
    pub frequency: f64,
}

/// Gains that are stable for at least `flows` flows with round-trip times of at most `rtt` seconds on a link
/// of `packets` packets per second (section IV of the paper).
///
/// The controller's zero lies on the corner frequency of the TCP window, which is also where the loop's gain
/// becomes one; it is made discrete by the bilinear transform at a hundred times that frequency.
pub fn design(flows: f64, rtt: f64, packets: f64) -> Gains {
    let corner = 2.0 * flows / (rtt * rtt * packets);
    gains(flows, rtt, packets, 100.0 * corner)
}

/// The same at a given sampling frequency.
fn gains(flows: f64, rtt: f64, packets: f64, frequency: f64) -> Gains {
    let corner = 2.0 * flows / (rtt * rtt * packets);
    // |1 + j w R| / ((R C)^3 / (2 N)^2), the inverse of the plant's gain at that frequency.
    let lag = libm::sqrt(1.0 + (corner * rtt) * (corner * rtt));
    let window = rtt * packets;
    let gain = corner * lag * (2.0 * flows) * (2.0 * flows) / (window * window * window);
    let (integral, half) = (gain / corner, gain / (2.0 * frequency));
    Gains { a: integral + half, b: integral - half, frequency }
}

/// See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct Pi {
    params: Params,
    /// Rate for which the gains were made.
    rate: Rate,
    gains: Gains,
    sampling: Sampling,
    p: f64,
    q_old: f64,
}

impl Algorithm for Pi {
    const NAME: &'static str = "pi";
    const SUMMARY: &'static str =
        "Signals at random, with a probability that a proportional-integral controller holds the queue by.";
    const SOURCE: &'static str = "Hollot, Misra, Towsley and Gong, INFOCOM 2001";
    const SETPOINT: Option<&'static str> = Some("target");
    type Params = Params;

    fn new(params: &Params, start: Time) -> Self {
        let Params { a, b, frequency, .. } = *params;
        let gains = Gains { a, b, frequency };
        let sampling = Sampling::new(period(frequency), start);
        Pi { params: params.clone(), rate: Rate::ZERO, gains, sampling, p: 0.0, q_old: 0.0 }
    }
}

fn period(frequency: f64) -> Duration {
    Duration::from_secs_f64(1.0 / frequency).clamp(PERIOD_MIN, PERIOD_MAX)
}

impl Pi {
    /// Gains for a new rate, at a frequency that hosts can keep.
    fn redesign(&mut self, rate: Rate) {
        self.rate = rate;
        if !self.params.design || rate == Rate::ZERO {
            return;
        }
        let (flows, rtt) = (self.params.fewest_flows(rate), self.params.rtt.as_secs_f64());
        let packets = rate.as_bps_f64() / (8.0 * self.params.mean_packet.get() as f64);
        let period = period(design(flows, rtt, packets).frequency);
        self.gains = gains(flows, rtt, packets, 1.0 / period.as_secs_f64());
        self.sampling.set_period(period);
    }

    /// `steps` samples that were `q` each time.
    fn step(&mut self, q: f64, q_ref: f64, steps: f64) {
        let Gains { a, b, .. } = self.gains;
        let first = self.p + a * (q - q_ref) - b * (self.q_old - q_ref);
        // All further ones are alike, and after the first that is limited they all are.
        self.p = (first.clamp(0.0, 1.0) + (a - b) * (q - q_ref) * (steps - 1.0)).clamp(0.0, 1.0);
        self.q_old = q;
    }
}

impl Aqm for Pi {
    const USES_RANDOM: bool = true;

    fn on_enqueue(&mut self, m: &Moment, p: &Packet) -> Verdict {
        if Chance::new(self.p).hits(m.random_bits::<Self>()) {
            Verdict::signal(p, self.params.ecn, Cause::Chance)
        } else {
            Verdict::Forward
        }
    }

    fn next_wakeup(&self) -> Option<Time> {
        Some(self.sampling.due())
    }

    fn on_wakeup(&mut self, m: &Moment) {
        if m.queue.rate != self.rate {
            self.redesign(m.queue.rate);
        }
        let steps = self.sampling.pass(m.now, m.queue.packets == 0);
        // A link of unknown rate has no reference in packets; the host's buffer limits it.
        if m.queue.rate == Rate::ZERO {
            self.p = 0.0;
        } else {
            let Params { target, mean_packet, count_bytes, .. } = self.params;
            let q = packets::length(&m.queue, mean_packet, count_bytes);
            self.step(q, packets::sent_in(target, self.rate, mean_packet), steps);
        }
    }

    fn setpoint(&mut self) -> Option<&mut dyn Setpoint> {
        Some(self)
    }

    fn gauges(&self, plot: &mut dyn FnMut(&'static str, f64)) {
        plot("probability", self.p);
        plot("gain_a", self.gains.a);
        plot("gain_b", self.gains.b);
        plot("frequency_hz", self.gains.frequency);
    }
}

impl Setpoint for Pi {
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
