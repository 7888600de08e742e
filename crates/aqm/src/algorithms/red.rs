//! RED: random early detection (Floyd and Jacobson, IEEE/ACM ToN 1(4), 1993), gentle (Floyd, 2000) and
//! adaptive (Floyd, Gummadi and Shenker, "Adaptive RED", 2001).
//!
//! An average of the queue is compared with two thresholds. Between them an arriving packet is signalled with
//! a probability that rises to `max_p`; the *gentle* form lets it rise on to 1 at twice the upper threshold
//! instead of jumping. *Adaptive* RED moves `max_p` so that the average stays in the middle fifth. Signals
//! are spread evenly by counting the packets between them.
//!
//! ```text
//! avg = (1 - w)^(m + 1) * avg + w * q            m packets could have left while the queue was empty
//! pb  = 0                                                          avg < min
//!     = max_p * (avg - min) / (max - min)                          avg < max
//!     = max_p + (1 - max_p) * (avg - max) / max                    avg < 2 max, gentle
//!     = 1                                                          else
//! pa  = 0, pb / (2 - count * pb), 1     for count * pb < 1, < 2, else; with `wait`
//!     = pb / (1 - count * pb), 1        for count * pb < 1, else
//! ```
//!
//! Here the queue is the time that its bytes take at the link's rate, so that thresholds are delays around
//! the set point `target`, and the weight `w = 1 - exp(-s / memory)` follows from the time `s` of a mean
//! packet: the same parameters hold for links of all rates.

use crate::Chance;
use crate::{Algorithm, Aqm, Cause, Moment, Packet, Setpoint, Share, Verdict, View};
use weir_units::{Bytes, Duration, Rate, Time};

const TARGET_MIN: Duration = Duration::from_micros(1);
const TARGET_MAX: Duration = Duration::from_secs(10);

crate::params! {
    /// Parameters of RED.
    pub struct Params {
        /// Delay in the middle between both thresholds (Adaptive RED section 4: `min` is half of it).
        target: Duration = Duration::from_millis(5), TARGET_MIN => TARGET_MAX;
        /// Distance of the thresholds from `target`, as a share of it. Half makes the upper three times the
        /// lower one (Adaptive RED section 4).
        spread: Share = Share(0.5), Share(0.01) => Share(0.95);
        /// The lower threshold is at least so many mean packets, and the upper one grows by the same factor
        /// (Adaptive RED section 4: five packets).
        min_packets: u32 = 5, 0 => 1000;
        /// Probability of a signal at the upper threshold; where it is adapted, at the start.
        max_p: Share = Share(0.1), Share(0.001) => Share(1.0);
        /// Time constant of the average: ten round-trip times of 100 ms (Adaptive RED section 4).
        memory: Duration = Duration::from_secs(1), Duration::from_millis(1) => Duration::from_secs(1000);
        /// Whether the probability rises to 1 between the upper threshold and twice that, instead of jumping.
        gentle: bool = true, false => true;
        /// Whether `max_p` is adapted, from 1 % to 50 %, so that the average stays near `target`.
        adaptive: bool = true, false => true;
        /// Whether signals keep a distance of at least half of the mean one (`wait` of the simulator ns-2).
        wait: bool = true, false => true;
        /// Whether the queue's bytes are counted (RFC 7141 section 2.1) and not its packets.
        count_bytes: bool = true, false => true;
        /// Whether the probability of a packet is in proportion to its size (byte mode; Floyd and Jacobson,
        /// section 7). RFC 7141 section 2.2 advises against it.
        byte_mode: bool = false, false => true;
        /// Size of a mean packet.
        mean_packet: Bytes = Bytes::new(1538), Bytes::new(64) => Bytes::new(65_536);
        /// Whether ECN-capable packets are marked instead of dropped.
        ecn: bool = true, false => true;
        /// Whether they are marked also while the average is above the upper threshold; RFC 3168 section 7
        /// wants drops there.
        mark_above: bool = false, false => true;
    }
}

/// Adaptive RED (section 3): how often `max_p` moves, its limits, its steps, and the share of the way between
/// the thresholds that is too low or too high.
const ADAPT_EVERY: Duration = Duration::from_millis(500);
const MAX_P_BOTTOM: f64 = 0.01;
const MAX_P_TOP: f64 = 0.5;
const MAX_P_STEP: f64 = 0.01;
const MAX_P_FACTOR: f64 = 0.9;
const MARGIN: f64 = 0.4;

/// What follows from parameters and the link's rate; in seconds on the link.
#[derive(Clone, Debug, Default)]
struct Scale {
    rate: Rate,
    /// Time of a byte.
    byte: f64,
    /// Time of a mean packet.
    packet: f64,
    /// Lower threshold.
    min: f64,
    /// Upper threshold.
    max: f64,
    /// Weight of one packet in the average.
    w: f64,
}

/// See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct Red {
    params: Params,
    scale: Scale,
    max_p: f64,
    /// Average queue in seconds on the link.
    avg: f64,
    /// Mean packets since the last signal; `None` while the average is below the lower threshold.
    count: Option<f64>,
    /// Since when the queue is empty.
    idle_since: Option<Time>,
    adapted: Time,
}

impl Algorithm for Red {
    const NAME: &'static str = "red";
    const SUMMARY: &'static str =
        "Signals at random between two thresholds of an average queue, gently above them; adapts its probability.";
    const SOURCE: &'static str =
        "Floyd and Jacobson, ToN 1(4), 1993; Floyd, Gummadi and Shenker, Adaptive RED, 2001";
    const SETPOINT: Option<&'static str> = Some("target");
    type Params = Params;

    fn new(params: &Params, start: Time) -> Self {
        Red {
            params: params.clone(),
            scale: Scale::default(),
            max_p: params.max_p.0,
            avg: 0.0,
            count: None,
            idle_since: Some(start),
            adapted: start,
        }
    }
}

impl Red {
    /// Thresholds and weight for a rate that is not zero.
    #[cold]
    fn rescale(&mut self, rate: Rate) {
        let byte = 8.0 / rate.as_bps_f64();
        let packet = byte * self.params.mean_packet.get() as f64;
        let (target, spread) = (self.params.target.as_secs_f64(), self.params.spread.0);
        let min = (target * (1.0 - spread)).max(f64::from(self.params.min_packets) * packet);
        let max = min * (1.0 + spread) / (1.0 - spread);
        let w = -libm::expm1(-packet / self.params.memory.as_secs_f64());
        self.scale = Scale { rate, byte, packet, min, max, w };
    }

    /// The queue in seconds on the link.
    fn length(&self, queue: &View) -> f64 {
        if self.params.count_bytes {
            queue.backlog.get() as f64 * self.scale.byte
        } else {
            f64::from(queue.packets) * self.scale.packet
        }
    }

    /// Moves the average on by one arrival.
    fn observe(&mut self, m: &Moment) {
        // An average of zero stays there without the power.
        if let Some(since) = self.idle_since.take()
            && self.avg > 0.0
        {
            let packets = libm::floor(m.now.since(since).as_secs_f64() / self.scale.packet);
            self.avg *= libm::pow(1.0 - self.scale.w, packets);
        }
        self.avg += self.scale.w * (self.length(&m.queue) - self.avg);
        if self.params.adaptive && m.now.since(self.adapted) >= ADAPT_EVERY {
            self.adapt(m.now);
        }
    }

    #[cold]
    fn adapt(&mut self, now: Time) {
        self.adapted = now;
        let Scale { min, max, .. } = self.scale;
        let margin = MARGIN * (max - min);
        if self.avg > max - margin && self.max_p < MAX_P_TOP {
            self.max_p += MAX_P_STEP.min(self.max_p / 4.0);
        } else if self.avg < min + margin && self.max_p > MAX_P_BOTTOM {
            self.max_p *= MAX_P_FACTOR;
        }
    }

    /// Probability by the average alone, where that is not below the lower threshold.
    fn by_average(&self) -> f64 {
        let Scale { min, max, .. } = self.scale;
        if self.avg < max {
            self.max_p * (self.avg - min) / (max - min)
        } else if self.params.gentle && self.avg < 2.0 * max {
            self.max_p + (1.0 - self.max_p) * (self.avg - max) / max
        } else {
            1.0
        }
    }

    /// Probability that spreads signals evenly, `count` packets after the last.
    fn by_count(&self, pb: f64, count: f64) -> f64 {
        let past = count * pb;
        match self.params.wait {
            true if past < 1.0 => 0.0,
            true if past < 2.0 => pb / (2.0 - past),
            false if past < 1.0 => pb / (1.0 - past),
            _ => 1.0,
        }
    }

    /// The packet in mean packets, where sizes matter.
    fn size(&self, p: &Packet) -> f64 {
        if self.params.byte_mode { p.len.get() as f64 / self.params.mean_packet.get() as f64 } else { 1.0 }
    }

    /// Takes an arrival into the average. Whether that is at the lower threshold or above, so that
    /// [`Red::decide`] is to be asked: a queue under RED and a rule of its own, such as CHOKe, asks it apart.
    #[inline]
    pub fn arrival(&mut self, m: &Moment) -> bool {
        if m.queue.rate != self.scale.rate {
            // Without a rate there is no delay to compare; the host's buffer limits an unshaped link.
            if m.queue.rate == Rate::ZERO {
                return false;
            }
            self.rescale(m.queue.rate);
        }
        self.observe(m);
        if self.avg < self.scale.min || m.queue.packets <= 1 {
            self.count = None;
            return false;
        }
        true
    }

    /// Decides about an arrival for which [`Red::arrival`] was true.
    #[inline]
    pub fn decide(&mut self, m: &Moment, p: &Packet) -> Verdict {
        let size = self.size(p);
        let Some(before) = self.count else {
            self.count = Some(size);
            return Verdict::Forward;
        };
        let count = before + size;
        let pb = self.by_average();
        if !Chance::new(self.by_count(pb, count) * size).hits(m.random_bits::<Self>()) {
            self.count = Some(count);
            return Verdict::Forward;
        }
        self.count = Some(0.0);
        let may_mark = self.params.ecn && (self.params.mark_above || self.avg < self.scale.max);
        Verdict::signal(p, may_mark, Cause::Chance)
    }
}

impl Aqm for Red {
    const USES_RANDOM: bool = true;

    fn on_enqueue(&mut self, m: &Moment, p: &Packet) -> Verdict {
        if self.arrival(m) { self.decide(m, p) } else { Verdict::Forward }
    }

    fn on_empty(&mut self, now: Time) {
        self.idle_since = Some(now);
    }

    /// An arrival like others, and a signal.
    fn on_overflow(&mut self, m: &Moment, _p: &Packet) {
        if m.queue.rate != Rate::ZERO && m.queue.rate == self.scale.rate {
            self.observe(m);
        }
        self.count = self.count.map(|_| 0.0);
    }

    fn setpoint(&mut self) -> Option<&mut dyn Setpoint> {
        Some(self)
    }

    fn gauges(&self, plot: &mut dyn FnMut(&'static str, f64)) {
        plot("average_ms", self.avg * 1e3);
        plot("max_p", self.max_p);
        plot("count", self.count.unwrap_or(0.0));
    }
}

impl Setpoint for Red {
    fn get(&self) -> Duration {
        self.params.target
    }

    fn set(&mut self, to: Duration) -> Duration {
        self.params.target = to.clamp(TARGET_MIN, TARGET_MAX);
        if self.scale.rate != Rate::ZERO {
            self.rescale(self.scale.rate);
        }
        self.params.target
    }
}

#[cfg(test)]
mod tests;
