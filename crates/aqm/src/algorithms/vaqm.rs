//! vAQM without bitrate adjustment: signals for a queue that is elsewhere (M. Ihlar, A. Nazari, R. Skog, "Low
//! latency, high flexibility: virtual AQM", Ericsson Technology Review, 2018).
//!
//! The bottleneck, such as a radio link with a deep buffer, belongs to somebody else and lies between here
//! and the user. The host measures round-trip times to the user and tells them ([`Sample::Rtt`]), and what
//! each flow has in flight there ([`Sample::Inflight`]). While Average RTT stays above Target RTT for an
//! interval, packets that leave are signalled at times `interval / sqrt(count)` apart, as in CoDel (RFC 8289
//! section 5.3). The victim is the flow with the most in flight, because it contributes most to the queue.
//! The queue in which the packets are here does not matter.
//!
//! In slow start a flow doubles with each round trip, and an interval is many of them. So where the largest
//! flow grew by half within one, beyond what it ever had, the signal does not wait for the interval.
//!
//! A flow that shows no acknowledgements has in flight what it sends in a round trip. One that sends on after
//! three signals as before does not respond. Those that show nothing, which may be many, are judged as one as
//! well. All that do not respond are shaped together, to a rate that does not fill the bottleneck
//! ([`Aqm::shaped`]). Where the host cannot hold packets back, what they send beyond it is discarded.

mod flights;
mod hashes;
mod unresponsive;

use crate::{Algorithm, Aqm, Cause, Moment, Needs, Packet, Sample, Share, Verdict};
use flights::Flights;
use unresponsive::UnresponsiveFlows;
use weir_sense::Rtt;
use weir_sense::bottleneck::{PathConfig, PathModel};
use weir_units::{Duration, Rate, Time};

crate::params! {
    /// Parameters of vAQM.
    pub struct Params {
        /// Target Queue Delay as a share of Path RTT: the delay that is tolerated behind this place. A sender
        /// that halves its window, or takes three tenths of it, must not empty a queue that its whole path
        /// needs full.
        fraction: Share = Share(1.0), Share(0.01) => Share(1.0);
        /// Smallest Target Queue Delay.
        target_min: Duration = Duration::from_millis(5), Duration::from_micros(1) => Duration::from_secs(10);
        /// Largest Target Queue Delay.
        target_max: Duration = Duration::from_millis(100), Duration::from_micros(1) => Duration::from_secs(10);
        /// How long the smallest round-trip time counts as that of the path without a queue.
        window: Duration = Duration::from_secs(10), Duration::from_millis(100) => Duration::from_secs(600);
        /// The interval in Path RTTs: how long Average RTT must stand above Target RTT before the first
        /// signal.
        interval_paths: f64 = 8.0, 0.1 => 100.0;
        /// Smallest interval.
        interval_min: Duration = Duration::from_millis(20), Duration::from_micros(10) => Duration::from_secs(100);
        /// Largest interval.
        interval_max: Duration = Duration::from_millis(500), Duration::from_micros(10) => Duration::from_secs(100);
        /// Whether ECN-capable packets are marked instead of dropped.
        ecn: bool = true, false => true;
    }
}

/// Re-entry soon after the last dropping state resumes its rate (RFC 8289 section 5.4).
const RESUME_INTERVALS: u64 = 16;
/// How long the queue is held low to see the path behind it, before its smallest delay counts as that of the
/// path.
const VALIDATION: Duration = Duration::from_secs(2);
/// What of Target Queue Delay is tolerated meanwhile.
const VALIDATION_PART: u64 = 8;
/// What senders have in flight at most when round trips are compared with those before, in tenths of what
/// they had.
const LESS_FLIGHT_TENTHS: u64 = 7;
/// Round trips of at least so many tenths of those before are the same.
const SAME_RTT_TENTHS: u64 = 9;
/// Round-trip times older than this, and than four of them, say nothing about now.
const STALE: Duration = Duration::from_secs(1);
/// How many Average RTTs pass until a signal shows: one until the sender knows of it, one until what it sends
/// less comes through the queue, and one until the mean follows. Signals in between find the sender in the
/// recovery that it is in anyway, or punish it for a queue that it has left already: in a cell that fades,
/// one after the other.
const SHOWS_ROUNDS: u64 = 3;
/// When a flow that was signalled is judged: after two Average RTTs and this, at most [`PATIENCE_MAX`].
const PATIENCE: Duration = Duration::from_millis(200);
/// A buffer that is full for a second must not make detection wait for several.
const PATIENCE_MAX: Duration = Duration::from_secs(1);

/// See the [module documentation](self).
///
/// What a packet needs comes first: of a user who was not measured the first word, of others the memory of
/// few lines. Samples and signals are fewer than packets.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Vaqm {
    sampled: Option<Time>,
    /// When the next signal is due, in the dropping state.
    next: Option<Time>,
    held: UnresponsiveFlows,
    flights: Flights,
    model: PathModel,
    /// When the last signal was.
    signalled: Option<Time>,
    count: u32,
    last_count: u32,
    /// When Average RTT will have stood above Target RTT for an interval.
    first_above: Option<Time>,
    /// Whether the last round trip was longer than Target RTT, and whether the largest flow is in slow start.
    above: bool,
    growing: bool,
    /// The queue is held low because Path RTT is old.
    validating: Option<Validation>,
    interval_paths: f64,
    interval_min: Duration,
    interval_max: Duration,
    ecn: bool,
}

/// When the queue began to be held low, and how things stood.
#[derive(Clone, Copy, Debug)]
struct Validation {
    since: Time,
    flight: u64,
    rtt: Duration,
}

impl Algorithm for Vaqm {
    const NAME: &'static str = "vaqm";
    const SUMMARY: &'static str = "Signals the flow with the most in flight while the measured round-trip time says that a queue stands elsewhere.";
    const SOURCE: &'static str = "Ihlar, Nazari, Skog, Ericsson Technology Review 2018";
    const SETPOINT: Option<&'static str> = None;
    type Params = Params;

    fn new(params: &Params, _start: Time) -> Self {
        let config = PathConfig {
            fraction: params.fraction.0,
            delay_min: params.target_min,
            delay_max: params.target_max.max(params.target_min),
            window: params.window,
        };
        Vaqm {
            model: PathModel::new(config),
            flights: Flights::default(),
            held: UnresponsiveFlows::default(),
            sampled: None,
            validating: None,
            first_above: None,
            above: false,
            growing: false,
            next: None,
            signalled: None,
            count: 1,
            last_count: 1,
            interval_paths: params.interval_paths,
            interval_min: params.interval_min,
            interval_max: params.interval_max.max(params.interval_min),
            ecn: params.ecn,
        }
    }
}

impl Vaqm {
    fn interval(&self) -> Duration {
        let path = self.model.path_rtt().unwrap_or(Duration::ZERO);
        path.mul_f64(self.interval_paths).clamp(self.interval_min, self.interval_max)
    }

    fn spacing(&self) -> Duration {
        self.interval().mul_f64(1.0 / libm::sqrt(f64::from(self.count)))
    }

    fn on_rtt(&mut self, now: Time, rtt: Duration) {
        self.sampled = Some(now);
        self.model.sample(now, Rtt { rtt, held: Duration::ZERO, doubtful: false }, true);
        self.validate(now);
        // As in CoDel, one round trip without much of a queue says that none stands. The average would say so
        // only after several more signals.
        let target = self.target();
        self.above = rtt > target;
        if !self.above || self.average() <= target {
            self.held.calm(now, rtt, self.flights.rate());
            return self.calm();
        }
        self.held.queued();
        match self.first_above {
            None => self.first_above = Some(now + self.interval()),
            Some(due) if now >= due && self.next.is_none() => self.enter(now),
            Some(_) => {}
        }
    }

    /// Nothing here can drain the bottleneck at once: signals hold its queue low until the path is confirmed.
    /// When senders have much less in flight and round trips are as long as before, that is the path, and no
    /// queue.
    fn validate(&mut self, now: Time) {
        if !self.model.wants_drain(now) {
            self.validating = None;
            return;
        }
        let (rtt, flight) = (self.average(), self.flights.total(now, self.average()));
        let begins = Validation { since: now, flight, rtt };
        let began = self.validating.filter(|began| flight <= began.flight).unwrap_or(begins);
        self.validating = Some(began);
        let is_less = flight * 10 <= began.flight * LESS_FLIGHT_TENTHS && self.flights.has_all(now);
        if now.since(began.since) < VALIDATION || !is_less {
            return;
        }
        if rtt.as_nanos() * 10 < began.rtt.as_nanos() * SAME_RTT_TENTHS {
            self.validating = Some(begins);
            return;
        }
        self.model.age(now);
        self.validating = None;
    }

    /// Signals at once who is in slow start while a queue stands: an interval is many of its round trips.
    /// Once the average says so, too, those who leave slow start by themselves have done it.
    fn stop_start(&mut self, now: Time) {
        if self.growing && self.above && self.average() > self.target() {
            (self.growing, self.next) = (false, Some(now));
        }
    }

    /// Target RTT, as far as the path is known.
    fn target(&self) -> Duration {
        let path = self.model.path_rtt().unwrap_or(Duration::MAX);
        let tolerated = self.model.target_queue_delay().unwrap_or(Duration::ZERO);
        let part = if self.validating.is_some() { VALIDATION_PART } else { 1 };
        path + Duration::from_nanos(tolerated.as_nanos() / part)
    }

    fn calm(&mut self) {
        (self.first_above, self.next) = (None, None);
    }

    fn enter(&mut self, now: Time) {
        let delta = self.count.saturating_sub(self.last_count);
        let resume = self.interval().saturating_mul(RESUME_INTERVALS);
        let soon = self.signalled.is_some_and(|at| now.since(at) < resume);
        self.count = if delta > 1 && soon { delta } else { 1 };
        self.last_count = self.count;
        self.next = Some(now);
    }

    fn average(&self) -> Duration {
        self.model.average().unwrap_or(Duration::ZERO)
    }

    fn patience(&self) -> Duration {
        (self.average().saturating_mul(2) + PATIENCE).min(PATIENCE_MAX)
    }

    /// How long a flow that was signalled is spared, unless it is judged before.
    fn spared(&self) -> Duration {
        self.average().saturating_mul(SHOWS_ROUNDS).min(self.patience())
    }

    /// Counts a packet, judges who was signalled, and says whether it may pass.
    fn admits(&mut self, now: Time, p: &Packet) -> bool {
        let rtt = self.average();
        let is_held = self.held.holds(p.flow, &self.flights);
        if is_held {
            self.held.came(p.len, now);
        } else {
            self.flights.sent(p.flow, p.len, now, rtt);
            if let Some(flow) = self.flights.judge(now, rtt, self.held.room()) {
                self.held.begin(Some(flow), now, &self.flights);
            }
            if self.flights.judge_crowd(now, self.held.room()) {
                self.held.begin(None, now, &self.flights);
            }
        }
        self.look(now);
        let passes = !is_held || self.held.passes(p.len, now);
        if passes {
            self.flights.passed(p.len, now);
        }
        passes
    }

    /// Looks at the rate of those that do not respond.
    fn look(&mut self, now: Time) {
        if self.held.rate().is_some() {
            let (rtt, queued) = (self.average(), self.model.excess().is_some());
            self.held.look(now, &self.flights, self.patience(), rtt, queued);
        }
    }

    /// Whether nothing was measured for so long that the dropping state would act on the past.
    fn is_blind(&self, now: Time) -> bool {
        let memory = self.average().saturating_mul(4).max(STALE);
        self.sampled.is_none_or(|at| now.since(at) > memory)
    }
}

impl Aqm for Vaqm {
    const NEEDS: Needs = Needs::PassingPackets;
    const SHAPES: bool = true;

    fn on_dequeue(&mut self, m: &Moment, p: &Packet) -> Verdict {
        // Nothing is known of a path without a sample, and most packets of idle users come then.
        if self.sampled.is_none() {
            return Verdict::Forward;
        }
        if !self.admits(m.now, p) {
            return Verdict::Drop(Cause::SetPoint);
        }
        let Some(due) = self.next.filter(|due| *due <= m.now) else { return Verdict::Forward };
        if self.is_blind(m.now) {
            self.calm();
            return Verdict::Forward;
        }
        // A victim that sends nothing for a quarter of the interval is spared, and the next largest pays.
        let quarter = (self.interval().as_nanos() / 4).max(1);
        let spared = m.now.since(due).as_nanos() / quarter;
        let rtt = self.average();
        let held = |flow| self.held.holds(flow, &self.flights);
        let larger = self.flights.larger_than(p.flow, m.now, rtt, held);
        if larger as u64 > spared || held(p.flow) || !self.flights.may_pay(p.flow, m.now, rtt, held) {
            return Verdict::Forward;
        }
        self.flights.signalled(p.flow, m.now, self.spared(), self.patience(), rtt);
        self.next = Some(m.now + self.spacing());
        self.signalled = Some(m.now);
        self.count = self.count.saturating_add(1);
        Verdict::signal(p, self.ecn, Cause::SetPoint)
    }

    fn on_sample(&mut self, now: Time, s: Sample) {
        match s {
            Sample::Rtt(rtt) => {
                self.on_rtt(now, rtt);
                self.stop_start(now);
            }
            Sample::Inflight { flow, bytes } => {
                self.flights.note(flow, bytes, now, self.average());
                self.growing = self.flights.starts(now, self.average()).unwrap_or(self.growing);
                self.stop_start(now);
            }
            Sample::LinkRate(_) | Sample::Reaction(_) => {}
        }
    }

    #[inline]
    fn shaped(&self, p: &Packet) -> Option<Rate> {
        self.held.rate().filter(|_| self.held.holds(p.flow, &self.flights))
    }

    fn on_shaped(&mut self, now: Time, p: &Packet) {
        self.held.came(p.len, now);
        self.look(now);
    }

    fn on_shaped_sent(&mut self, now: Time, p: &Packet) {
        self.flights.passed(p.len, now);
    }

    fn gauges(&self, plot: &mut dyn FnMut(&'static str, f64)) {
        let seconds = |time: Option<Duration>| time.map_or(0.0, Duration::as_secs_f64);
        plot("path_rtt_s", seconds(self.model.path_rtt()));
        plot("average_rtt_s", seconds(self.model.average()));
        plot("target_rtt_s", seconds(self.model.target_rtt()));
        plot("dropping", f64::from(u8::from(self.next.is_some())));
        plot("count", f64::from(self.count));
        plot("held", f64::from(u8::from(self.held.rate().is_some())));
        plot("held_bps", self.held.rate().map_or(0.0, |rate| rate.as_bps() as f64));
        plot("held_discarded", f64::from(self.held.discarded()));
    }
}

#[cfg(test)]
mod tests;
