//! The steering law: when the set point moves, and how far.

use crate::policy::{Policy, PolicyError};
use crate::smooth::{TdrmUtemaCpa, UtemaVariance};
use weir_aqm::Value;
use weir_units::{Bytes, Duration, Rate, Time};

/// What was seen of a queue since its last congestion signal.
///
/// It can be made from single packets, as [`Steered`](crate::Steered) does, or from polled counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Epoch {
    /// When the last signal was given, or the start.
    pub start: Time,
    /// The end of what was seen.
    pub now: Time,
    /// Bytes that arrived after `start`; discarded ones if [`Law::counts_discarded`].
    pub arrived: Bytes,
    /// Smallest queueing delay: zero if the queue ran empty, `None` if nothing was seen.
    pub delay_min: Option<Duration>,
    /// Whether the queue that the AQM controls, real or virtual, ran empty.
    pub ran_empty: bool,
    /// Rate of the link. Zero if it is not known: then nothing is moved.
    pub link: Rate,
}

impl Epoch {
    /// Arrival rate in bit/s; `None` if no time passed.
    pub fn rate(&self) -> Option<f64> {
        let span = self.length();
        (span > Duration::ZERO).then(|| self.arrived.get() as f64 * 8.0 / span.as_secs_f64())
    }

    /// How long it lasted.
    pub fn length(&self) -> Duration {
        self.now.since(self.start)
    }
}

/// State of the queue relative to its set point (AQM Steering, Table I).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TableState {
    /// 1: persistently below. The link is no bottleneck and the AQM silent; moving is not necessary.
    Below = 1,
    /// 2: persistently above. The sources have not responded yet; moving is not useful.
    Above = 2,
    /// 3: fluctuating around it. The AQM is in control; the set point can be assessed and moved.
    Fluctuating = 3,
    /// 4, which the table does not have: for over a quarter of the last ten seconds the delay stayed above
    /// twice the set point though signals were given. The flows do not respond to single signals, as BBR does
    /// not, and no set point helps.
    Unresponsive = 4,
}

/// Which rule of the law moved something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rule {
    /// The set point was lowered by the standing delay (Algorithm 1).
    Lower,
    /// The set point was raised, because the link was not used well (Algorithm 2).
    Raise,
    /// The set point fell by a fixed factor on the way to the virtual queue (Algorithm 3).
    ToVirtual,
    /// The virtual queue took over (Algorithm 3).
    VirtualOn,
    /// The real queue took over again (Algorithm 4).
    VirtualOff,
    /// The rate of the virtual queue was lowered (Algorithm 3).
    RateDown,
    /// The rate of the virtual queue was raised (Algorithm 4).
    RateUp,
}

impl Rule {
    /// A name for traces and displays.
    pub fn name(self) -> &'static str {
        match self {
            Rule::Lower => "lower",
            Rule::Raise => "raise",
            Rule::ToVirtual => "to virtual",
            Rule::VirtualOn => "virtual on",
            Rule::VirtualOff => "virtual off",
            Rule::RateDown => "rate down",
            Rule::RateUp => "rate up",
        }
    }
}

/// What the law knew when it judged an epoch.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Assessment {
    /// When.
    pub time: Time,
    /// Arrival rate since the last signal (rate_bd).
    pub rate: Rate,
    /// Its average over the last epochs (rate_bd_avg).
    pub rate_avg: Rate,
    /// Below this rate the link is not used well (rate_target_min).
    pub rate_low: Rate,
    /// The rate that is aimed at (rate_target).
    pub rate_target: Rate,
    /// Rate of the link (rate_max).
    pub link: Rate,
    /// How far the delay dipped below the set point since the last signal, if it did.
    pub depth: Option<Duration>,
    /// Average of the depths.
    pub depth_avg: Duration,
    /// Variance of the depths, in seconds squared.
    pub depth_variance: f64,
    /// Number of depths seen.
    pub samples: u32,
    /// State of the queue relative to its set point.
    pub state: TableState,
}

/// Something that the law moved.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Move {
    /// Which rule.
    pub rule: Rule,
    /// What it was before: a set point, or a rate of the virtual queue. The virtual queue is switched on
    /// and off at the rate of the link.
    pub from: Value,
    /// What it is now.
    pub to: Value,
    /// What the law knew.
    pub why: Assessment,
}

/// Learns of what the law does, for traces and displays.
pub trait Observer {
    /// The law moved something.
    fn moved(&mut self, m: &Move);

    /// The law judged an epoch that ended with a signal, whether or not it will move something.
    fn assessed(&mut self, a: &Assessment) {
        let _ = a;
    }
}

/// Nobody looks.
impl Observer for () {
    fn moved(&mut self, _m: &Move) {}
}

impl<O: Observer + ?Sized> Observer for &mut O {
    fn moved(&mut self, m: &Move) {
        (**self).moved(m);
    }

    fn assessed(&mut self, a: &Assessment) {
        (**self).assessed(a);
    }
}

/// Decides where the set point belongs.
///
/// Who applies it, be it [`Steered`](crate::Steered) or somebody who polls the counters of a kernel queue,
/// does this when the AQM wants to signal:
///
/// 1. If [`Law::raise`] says yes, [`Law::setpoint`] has moved up and the signal is withheld where that is
///    still possible.
/// 2. Otherwise the signal is given, and [`Law::signalled`] told. Where signals can only be counted
///    afterwards, that is at the next poll.
/// 3. [`Law::setpoint`] and [`Law::virtual_rate`] say what is in force now.
pub trait Law {
    /// The set point in force, of whichever queue is controlled.
    fn setpoint(&self) -> Duration;

    /// Rate of the virtual queue while the AQM shall control that one; `None` while it is the real one.
    fn virtual_rate(&self) -> Option<Rate> {
        None
    }

    /// Delay above which the real queue is the one to look at, even while the virtual one is controlled.
    fn virtual_guard(&self) -> Option<Duration> {
        None
    }

    /// Whether bytes of discarded packets belong into [`Epoch::arrived`].
    fn counts_discarded(&self) -> bool {
        true
    }

    /// Whether [`Law::raise`] could say yes if the queue ran empty. Cheap: asked for single packets.
    fn may_raise(&self, link: Rate) -> bool;

    /// The AQM wants to signal: raises instead, if the queue ran empty and the link was not used well.
    fn raise(&mut self, seen: &Epoch, observer: &mut dyn Observer) -> bool;

    /// The AQM signalled; the epoch ends.
    fn signalled(&mut self, seen: &Epoch, observer: &mut dyn Observer);

    /// The rate of the link is this now.
    fn follow_link(&mut self, link: Rate);

    /// State of the queue, given what was seen since the last signal.
    fn state(&self, seen: &Epoch) -> TableState;

    /// Shows inner variables by name, for traces and displays.
    fn gauges(&self, plot: &mut dyn FnMut(&'static str, f64)) {
        let _ = plot;
    }
}

/// The law of AQM Steering, Algorithms 1 to 4.
///
/// ```text
/// signal wanted, and the queue ran empty, rate < u_low, average rate < u_low:
///     set point <- min(max(2 * set point, 2.5 ms), target_max)        raise, searched for
///     or, with the virtual queue:  rate <- rate + gain * (u_target - average rate)
/// otherwise, at the signal:
///     depth     <- set point - smallest delay                         if positive
///     standing  <- set point - (mean depth + margin * deviation)      lower, computed
///     set point <- max(set point - whole steps of standing, target_min)   if average rate > u_low
///     and, if average rate > u_target < 100 %:
///     set point <- max(0.75 * set point, virtual target), then on to the virtual queue
///     virtual rate <- max(u_target, rate + gain * (u_target - average rate))
/// ```
#[derive(Clone, Debug)]
pub struct SteeringLaw {
    policy: Policy,
    setpoint: Duration,
    /// Depth of the dips below the set point, in seconds.
    depth: UtemaVariance,
    /// In bit/s: of the real queue, and with the memory that counts while the virtual one is in use.
    rate_avg: TdrmUtemaCpa,
    virtual_avg: TdrmUtemaCpa,
    /// In bit/s, not rounded, so that small steps add up.
    virtual_rate: Option<f64>,
    link: Rate,
    /// A signal was given since the last raise, or since the start.
    signalled: bool,
    last_signal: Option<Time>,
    /// The delay did not fall below the set point in the last complete epoch.
    stayed_above: bool,
    /// Share of the last time, forgotten exponentially, whose epochs never came below twice the set point.
    unanswered: f64,
}

/// How many times `virtual_memory` the average rate remembers at most where signals are rare. A longer one
/// would settle later than flows come and go.
const LONGEST_MEMORY: u64 = 10;
/// Memory of whether signals are answered, in seconds: two hundred round-trip times of 50 ms, and one of
/// BBR's cycles of probing for the round trip.
const ANSWER_MEMORY_S: f64 = 10.0;
/// A larger share of the time without an answer is told. In the simulator flows of BBR have 0.34 to 0.78 of
/// it where there are several.
const UNANSWERED: f64 = 0.25;

impl SteeringLaw {
    /// The law with its set point at `target_min_up`, as far as the policy allows.
    pub fn new(policy: &Policy) -> Result<Self, PolicyError> {
        policy.validate()?;
        Ok(SteeringLaw {
            setpoint: policy.target_min_up.clamp(policy.target_min, policy.target_max),
            depth: UtemaVariance::new(policy.memory_depth),
            rate_avg: TdrmUtemaCpa::new(policy.memory_rate, policy.unbiased_rate),
            virtual_avg: TdrmUtemaCpa::new(policy.virtual_memory, policy.unbiased_rate),
            virtual_rate: None,
            link: Rate::ZERO,
            signalled: false,
            last_signal: None,
            stayed_above: false,
            unanswered: 0.0,
            policy: policy.clone(),
        })
    }

    /// Changes the policy of a queue in operation. What was measured so far is kept, the set point is moved
    /// into the new bounds, and a virtual queue that is not wanted any more is left.
    pub fn set_policy(&mut self, policy: &Policy) -> Result<(), PolicyError> {
        policy.validate()?;
        self.policy = policy.clone();
        self.setpoint = self.setpoint.clamp(policy.target_min, policy.target_max);
        self.depth.set_memory(policy.memory_depth);
        self.rate_avg.set_memory(policy.memory_rate);
        let (least, most) = (self.rate_target(self.link), self.link.as_bps_f64());
        self.virtual_rate = self.virtual_rate.filter(|_| policy.uses_virtual_queue());
        if let Some(rate) = &mut self.virtual_rate {
            *rate = rate.clamp(least, most);
            self.setpoint = policy.virtual_target;
        }
        Ok(())
    }

    /// The policy in force.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The set point within the bounds that the policy has for targets, for queues that have no other.
    pub fn bounded_setpoint(&self) -> Duration {
        self.setpoint.clamp(self.policy.target_min, self.policy.target_max)
    }

    /// The average arrival rate (rate_bd_avg) with the memory that counts for the queue that is controlled;
    /// `None` before the first signal.
    pub fn rate_avg(&self) -> Option<Rate> {
        self.average().map(Rate::from_bps_f64)
    }

    /// The same in bit/s.
    fn average(&self) -> Option<f64> {
        let average = if self.virtual_rate.is_some() { &self.virtual_avg } else { &self.rate_avg };
        average.rate()
    }

    /// The average depth of the dips below the set point; `None` before the first.
    pub fn depth_avg(&self) -> Option<Duration> {
        self.depth.mean().map(Duration::from_secs_f64)
    }

    /// The variance of the depths, in seconds squared (V_avg).
    pub fn depth_variance(&self) -> f64 {
        if self.policy.unbiased_variance { self.depth.variance_unbiased() } else { self.depth.variance() }
    }

    /// The rate below which a link is not used well (rate_target_min), in bit/s.
    fn rate_low(&self, link: Rate) -> f64 {
        self.policy.utilization_low.0 * link.as_bps_f64()
    }

    /// The rate that is aimed at (rate_target), in bit/s.
    fn rate_target(&self, link: Rate) -> f64 {
        self.policy.utilization_target.0 * link.as_bps_f64()
    }

    fn assess(&self, seen: &Epoch, rate: f64, depth: Option<Duration>, state: TableState) -> Assessment {
        Assessment {
            time: seen.now,
            rate: Rate::from_bps_f64(rate),
            rate_avg: Rate::from_bps_f64(self.average().unwrap_or(rate)),
            rate_low: Rate::from_bps_f64(self.rate_low(seen.link)),
            rate_target: Rate::from_bps_f64(self.rate_target(seen.link)),
            link: seen.link,
            depth,
            depth_avg: self.depth_avg().unwrap_or(Duration::ZERO),
            depth_variance: self.depth_variance(),
            samples: self.depth.count(),
            state,
        }
    }

    /// Notes whether the flows answered: a queue that between two signals never came below twice the set
    /// point was not answered.
    fn note_answer(&mut self, seen: &Epoch) {
        let kept = libm::exp(-seen.length().as_secs_f64() / ANSWER_MEMORY_S);
        let far = f64::from(u8::from(self.is_far_above(seen)));
        self.unanswered = kept * self.unanswered + (1.0 - kept) * far;
    }

    /// Whether the queue did not come below twice the set point.
    fn is_far_above(&self, seen: &Epoch) -> bool {
        seen.delay_min.is_some_and(|low| low > self.setpoint.saturating_mul(2))
    }

    /// Depth of the dip below the set point, if there was one: the AQM is in control (state 3).
    fn dip(&self, seen: &Epoch) -> Option<Duration> {
        seen.delay_min.filter(|low| *low < self.setpoint).map(|low| self.setpoint - low)
    }

    fn move_setpoint(&mut self, rule: Rule, to: Duration, why: &Assessment, observer: &mut dyn Observer) {
        let from = core::mem::replace(&mut self.setpoint, to);
        if from != to {
            observer.moved(&Move { rule, from: Value::Duration(from), to: Value::Duration(to), why: *why });
        }
    }

    fn move_rate(&mut self, rule: Rule, to: f64, why: &Assessment, observer: &mut dyn Observer) {
        let from = self.virtual_rate.replace(to);
        let [from, to] = [from.unwrap_or(to), to].map(|r| Value::Rate(Rate::from_bps_f64(r)));
        if from != to || rule == Rule::VirtualOn {
            observer.moved(&Move { rule, from, to, why: *why });
        }
    }

    /// Algorithm 2: the amount that is missing cannot be measured, so it is searched for.
    fn raise_setpoint(&mut self, why: &Assessment, observer: &mut dyn Observer) {
        let policy = &self.policy;
        let raised = self.setpoint.mul_f64(policy.raise_factor).max(policy.target_min_up);
        self.move_setpoint(Rule::Raise, raised.min(policy.target_max), why, observer);
    }

    /// Memory of the average rate over an epoch, while the virtual queue is in use.
    fn virtual_memory(&self, seen: &Epoch) -> Duration {
        let Policy { virtual_memory, virtual_signals, .. } = self.policy;
        let longest = virtual_memory.saturating_mul(LONGEST_MEMORY);
        seen.length().saturating_mul(u64::from(virtual_signals)).clamp(virtual_memory, longest)
    }

    /// Share of the difference by which an epoch moves the virtual rate.
    fn virtual_gain(&self, seen: &Epoch) -> f64 {
        let Policy { virtual_gain, virtual_by_time, .. } = self.policy;
        if !virtual_by_time {
            return virtual_gain;
        }
        let memory = self.virtual_memory(seen);
        virtual_gain * (1.0 - libm::exp(-seen.length().as_secs_f64() / memory.as_secs_f64()))
    }

    /// Algorithm 4: up to the rate of the link, and then back to the real queue.
    fn raise_rate(
        &mut self,
        seen: &Epoch,
        now: f64,
        rate_avg: f64,
        why: &Assessment,
        observer: &mut dyn Observer,
    ) {
        let link = why.link.as_bps_f64();
        let gain = self.virtual_gain(seen);
        let to = (now + gain * (self.rate_target(why.link) - rate_avg)).min(link);
        self.move_rate(Rule::RateUp, to, why, observer);
        if to >= link {
            self.virtual_rate = None;
            let link = Value::Rate(why.link);
            observer.moved(&Move { rule: Rule::VirtualOff, from: link, to: link, why: *why });
        }
    }

    /// Algorithm 1: what stands below the dips delays packets and serves nothing.
    fn lower(&mut self, why: &Assessment, observer: &mut dyn Observer) {
        let policy = &self.policy;
        let deep = self.depth.mean().unwrap_or(0.0) + policy.margin * libm::sqrt(self.depth_variance());
        let standing = self.setpoint.as_secs_f64() - deep;
        // A standing delay of exactly n steps must not become n - 1 by rounding.
        let steps = libm::floor(standing / policy.step_min.as_secs_f64() + 1e-9);
        let used_well = self.rate_avg.rate().is_some_and(|avg| avg > self.rate_low(why.link));
        if why.samples < policy.samples_min || steps < 1.0 || !used_well {
            return;
        }
        let down = policy.step_min.saturating_mul(steps as u64);
        let most = if policy.cap_step { self.setpoint.mul_f64(0.5) } else { self.setpoint };
        let to = (self.setpoint - down.min(most)).max(policy.target_min);
        self.move_setpoint(Rule::Lower, to, why, observer);
    }

    /// Algorithm 3: towards the virtual queue, and the adaptation of its rate.
    fn toward_virtual(&mut self, seen: &Epoch, rate: f64, why: &Assessment, observer: &mut dyn Observer) {
        let target = self.rate_target(why.link);
        // In the round that switches it is that of the real queue.
        let rate_avg = self.average().unwrap_or(rate);
        if !self.policy.uses_virtual_queue() || rate_avg <= target {
            return;
        }
        if self.virtual_rate.is_none() && rate > target {
            let goal = self.policy.virtual_target;
            let to = self.setpoint.mul_f64(self.policy.virtual_step).max(self.policy.target_min).max(goal);
            self.move_setpoint(Rule::ToVirtual, to, why, observer);
            if to <= goal {
                self.move_rate(Rule::VirtualOn, why.link.as_bps_f64(), why, observer);
            }
        }
        // Also in the round that switched.
        if let Some(now) = self.virtual_rate {
            let to = (now + self.virtual_gain(seen) * (target - rate_avg)).max(target);
            self.move_rate(Rule::RateDown, to, why, observer);
        }
    }
}

impl Law for SteeringLaw {
    fn setpoint(&self) -> Duration {
        self.setpoint
    }

    fn virtual_rate(&self) -> Option<Rate> {
        self.virtual_rate.map(Rate::from_bps_f64)
    }

    fn virtual_guard(&self) -> Option<Duration> {
        self.policy.virtual_guard.then_some(self.policy.target_max)
    }

    fn counts_discarded(&self) -> bool {
        self.policy.count_discarded
    }

    fn may_raise(&self, link: Rate) -> bool {
        self.signalled && self.average().is_some_and(|avg| avg < self.rate_low(link))
    }

    fn raise(&mut self, seen: &Epoch, observer: &mut dyn Observer) -> bool {
        self.follow_link(seen.link);
        let (Some(rate), Some(avg)) = (seen.rate(), self.average()) else { return false };
        let low = self.rate_low(seen.link);
        // The short-term rate alone would trigger too early, the average alone once too often.
        if !self.signalled || !seen.ran_empty || rate >= low || avg >= low {
            return false;
        }
        // One raise per signal: an idle phase after a raise must not cause another.
        self.signalled = false;
        let why = self.assess(seen, rate, self.dip(seen), TableState::Fluctuating);
        match self.virtual_rate {
            None => self.raise_setpoint(&why, observer),
            Some(now) => self.raise_rate(seen, now, avg, &why, observer),
        }
        true
    }

    fn signalled(&mut self, seen: &Epoch, observer: &mut dyn Observer) {
        self.follow_link(seen.link);
        self.signalled = true;
        self.last_signal = Some(seen.now);
        // A second signal at the same instant belongs to the same event and tells nothing new.
        let Some(rate) = seen.rate() else { return };
        self.note_answer(seen);
        let _ = self.rate_avg.sample(seen.length(), rate);
        let memory = self.virtual_memory(seen);
        let _ = self.virtual_avg.sample_over(seen.length(), rate, memory);
        let depth = self.dip(seen);
        self.stayed_above = depth.is_none();
        let state = if self.stayed_above { TableState::Above } else { TableState::Fluctuating };
        let real = self.virtual_rate.is_none();
        // The real queue's dips say nothing about a set point of the virtual queue.
        if let Some(depth) = depth.filter(|_| real) {
            self.depth.sample(seen.now, depth.as_secs_f64());
        }
        let why = self.assess(seen, rate, depth, state);
        observer.assessed(&why);
        if seen.link == Rate::ZERO {
            return;
        }
        if real && depth.is_some() {
            self.lower(&why, observer);
        }
        self.toward_virtual(seen, rate, &why, observer);
    }

    /// Utilization is what counts, so the past is restated as the same shares of the new rate.
    fn follow_link(&mut self, link: Rate) {
        if link == self.link || link == Rate::ZERO {
            return;
        }
        if self.link != Rate::ZERO {
            let factor = link.as_bps_f64() / self.link.as_bps_f64();
            self.rate_avg.scale(factor);
            self.virtual_avg.scale(factor);
            let (least, most) = (self.rate_target(link), link.as_bps_f64());
            self.virtual_rate = self.virtual_rate.map(|rate| (rate * factor).clamp(least, most));
        }
        self.link = link;
    }

    fn state(&self, seen: &Epoch) -> TableState {
        let dipped = self.dip(seen).is_some();
        let silent = self.last_signal.is_none_or(|t| seen.now.since(t) > self.policy.silence);
        if silent && (dipped || seen.delay_min.is_none()) {
            TableState::Below
        } else if !silent && self.unanswered > UNANSWERED && self.is_far_above(seen) {
            TableState::Unresponsive
        } else if !dipped && (silent || self.stayed_above) {
            TableState::Above
        } else {
            TableState::Fluctuating
        }
    }

    fn gauges(&self, plot: &mut dyn FnMut(&'static str, f64)) {
        if let Some(rate) = self.average() {
            plot("rate_avg_mbps", rate / 1e6);
        }
        if let Some(depth) = self.depth.mean() {
            plot("depth_avg_ms", depth * 1e3);
        }
        plot("depth_variance_ms2", self.depth_variance() * 1e6);
        if let Some(rate) = self.virtual_rate {
            plot("virtual_rate_mbps", rate / 1e6);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;
    use weir_aqm::Share;

    const LINK: Rate = Rate::from_mbps(10_000);
    const ORIGIN: Time = Time::from_nanos(1_000_000_000_000);

    #[derive(Default)]
    struct Diary {
        moves: Vec<Move>,
        assessments: Vec<Assessment>,
    }

    impl Observer for Diary {
        fn moved(&mut self, m: &Move) {
            self.moves.push(*m);
        }

        fn assessed(&mut self, a: &Assessment) {
            self.assessments.push(*a);
        }
    }

    impl Diary {
        fn rules(&self) -> Vec<Rule> {
            self.moves.iter().map(|m| m.rule).collect()
        }
    }

    fn ms(v: f64) -> Duration {
        Duration::from_secs_f64(v / 1e3)
    }

    fn gbps(v: f64) -> f64 {
        v * 1e9
    }

    fn law_at(policy: &Policy, setpoint_ms: f64) -> SteeringLaw {
        SteeringLaw { setpoint: ms(setpoint_ms), ..SteeringLaw::new(policy).unwrap() }
    }

    /// An epoch of one second that ends `t` seconds after the origin.
    fn epoch(t: f64, delay_min_ms: Option<f64>, rate: f64) -> Epoch {
        let now = ORIGIN + Duration::from_secs_f64(t);
        Epoch {
            start: now - Duration::from_secs(1),
            now,
            arrived: Bytes::new((rate / 8.0) as u64),
            delay_min: delay_min_ms.map(ms),
            ran_empty: delay_min_ms == Some(0.0),
            link: LINK,
        }
    }

    /// With steps of the virtual rate as the paper prints them.
    fn under_utilizing() -> Policy {
        Policy {
            utilization_low: Share(0.94),
            utilization_target: Share(0.95),
            virtual_gain: 2.0,
            virtual_by_time: false,
            ..Policy::default()
        }
    }

    #[test]
    fn lowering_from_the_first_dip_on() {
        let policy = Policy { samples_min: 1, ..Policy::default() };
        let mut law = law_at(&policy, 5.0);
        let mut diary = Diary::default();
        // t, smallest delay, mean depth, variance, set point afterwards; milliseconds.
        let rows = [
            (0.0, 3.9, 1.1, 0.0, 1.2),
            (1.0, 1.2, 1.1, 0.0, 1.2),
            (2.0, 4.0, 1.1, 0.0, 1.2),
            (3.0, 1.1, 0.52556, 0.244458, 1.2),
            (3.5, 0.9, 0.44063, 0.164359, 1.2),
            (4.0, 0.8, 0.42911, 0.118086, 1.0),
            (4.5, 0.4, 0.46835, 0.096134, 1.0),
            (5.0, 0.1, 0.55230, 0.106626, 1.0),
        ];
        for (t, low, mean, variance, setpoint) in rows {
            law.signalled(&epoch(t, Some(low), gbps(10.0)), &mut diary);
            let a = diary.assessments.last().unwrap();
            assert!((law.depth.mean().unwrap() * 1e3 - mean).abs() < 6e-6, "mean at {t}");
            assert!((a.depth_variance * 1e6 - variance).abs() < 6e-7, "variance at {t}");
            assert_eq!(law.setpoint(), ms(setpoint), "set point at {t}");
        }
        let states: Vec<u8> = diary.assessments.iter().map(|a| a.state as u8).collect();
        assert_eq!(states, [3, 2, 2, 3, 3, 3, 3, 3]);
        assert_eq!(diary.rules(), [Rule::Lower, Rule::Lower]);
        assert_eq!(diary.moves[1].from, Value::Duration(ms(1.2)));
        assert_eq!(diary.moves[1].to, Value::Duration(ms(1.0)));
        assert_eq!(diary.moves[1].why.depth, Some(ms(0.4)));
    }

    #[test]
    fn flows_that_do_not_respond_are_told_from_those_that_do() {
        let mut law = law_at(&Policy::default(), 2.5);
        let state = |law: &SteeringLaw, t: f64| law.state(&epoch(t + 0.05, Some(20.0), gbps(10.0)));
        let signal = |law: &mut SteeringLaw, t: f64, low_ms: f64| {
            law.signalled(
                &Epoch {
                    start: ORIGIN + Duration::from_secs_f64(t - 0.1),
                    ..epoch(t, Some(low_ms), gbps(10.0))
                },
                &mut (),
            );
        };
        // BBR: the queue stands at ten times the set point, whatever is signalled.
        (1..20).for_each(|n| signal(&mut law, f64::from(n) / 10.0, 25.0));
        assert_eq!(state(&law, 1.9), TableState::Above, "not so soon: CUBIC too needs some time");
        (20..120).for_each(|n| signal(&mut law, f64::from(n) / 10.0, 25.0));
        assert_eq!(state(&law, 11.9), TableState::Unresponsive);
        // They answer: the queue comes down between two signals.
        (120..260).for_each(|n| signal(&mut law, f64::from(n) / 10.0, 1.0));
        assert_eq!(state(&law, 25.9), TableState::Above);
        // A queue that hovers just above the set point is answered.
        for n in 260..400 {
            let low_ms = law.setpoint().as_secs_f64() * 1.5e3;
            signal(&mut law, f64::from(n) / 10.0, low_ms);
        }
        assert_eq!(state(&law, 39.9), TableState::Above);
    }

    #[test]
    fn a_standing_delay_of_whole_steps_is_not_rounded_down() {
        let policy = Policy { samples_min: 1, ..Policy::default() };
        let mut law = law_at(&policy, 1.0);
        // 0.6 / 0.2 is 2.9999999999999996 in binary floating point.
        law.signalled(&epoch(0.0, Some(0.6), gbps(10.0)), &mut ());
        assert_eq!(law.setpoint(), ms(0.4));
    }

    #[test]
    fn lowering_needs_samples_a_well_used_link_and_a_known_rate() {
        let policy = Policy::default();
        let mut law = law_at(&policy, 5.0);
        let mut setpoints = Vec::new();
        for n in 0..5 {
            law.signalled(&epoch(f64::from(n), Some(3.9), gbps(10.0)), &mut ());
            setpoints.push(law.setpoint());
        }
        assert_eq!(setpoints, [5.0, 5.0, 5.0, 5.0, 1.2].map(ms));

        let mut idle = law_at(&Policy { samples_min: 1, ..policy.clone() }, 5.0);
        idle.signalled(&epoch(0.0, Some(3.9), gbps(9.9)), &mut ());
        assert_eq!(idle.setpoint(), ms(5.0));

        let mut blind = law_at(&Policy { samples_min: 1, ..policy }, 5.0);
        blind.signalled(&Epoch { link: Rate::ZERO, ..epoch(0.0, Some(3.9), gbps(10.0)) }, &mut ());
        assert!(!blind.raise(&Epoch { link: Rate::ZERO, ..epoch(1.0, Some(0.0), 0.0) }, &mut ()));
        assert_eq!(blind.setpoint(), ms(5.0));
    }

    #[test]
    fn one_step_can_be_capped_at_half() {
        let policy = Policy { samples_min: 1, cap_step: true, ..Policy::default() };
        let mut law = law_at(&policy, 5.0);
        law.signalled(&epoch(0.0, Some(3.9), gbps(10.0)), &mut ());
        assert_eq!(law.setpoint(), ms(2.5));
    }

    #[test]
    fn raising_jumps_to_the_default_and_doubles_up_to_the_policy() {
        let mut law = law_at(&Policy::default(), 0.4);
        let mut diary = Diary::default();
        let mut setpoints = Vec::new();
        for n in 0..6 {
            let t = 10.0 * f64::from(n);
            law.signalled(&epoch(t, Some(0.0), gbps(5.0)), &mut diary);
            let seen = epoch(t + 1.0, Some(0.0), gbps(5.0));
            assert!(law.may_raise(LINK) && law.raise(&seen, &mut diary));
            setpoints.push(law.setpoint());
            // Not twice without a signal between.
            assert!(!law.may_raise(LINK) && !law.raise(&seen, &mut diary));
        }
        assert_eq!(setpoints, [2.5, 5.0, 10.0, 20.0, 30.0, 30.0].map(ms));
        assert_eq!(diary.rules(), [Rule::Raise; 5]);
    }

    #[test]
    fn raising_needs_an_empty_queue_and_both_rates_low() {
        let policy = Policy::default();
        let fresh = law_at(&policy, 2.5);
        let with_avg = |rate| {
            let mut law = fresh.clone();
            law.signalled(&epoch(0.0, None, rate), &mut ());
            law
        };
        let raises = |law: &SteeringLaw, seen: Epoch| law.clone().raise(&seen, &mut ());
        let low = epoch(1.0, Some(0.0), gbps(5.0));
        assert!(raises(&with_avg(gbps(5.0)), low));
        assert!(!raises(&fresh, low), "before the first signal");
        assert!(!raises(&with_avg(gbps(10.0)), low), "the average is high");
        assert!(!raises(&with_avg(gbps(5.0)), epoch(1.0, Some(0.0), gbps(9.95))), "the last epoch was good");
        assert!(!raises(&with_avg(gbps(5.0)), Epoch { ran_empty: false, ..low }), "never empty");
        assert!(!raises(&with_avg(gbps(5.0)), Epoch { start: low.now, ..low }), "no time passed");
    }

    /// Signals at 9.9 Gbit/s until the virtual queue is on; the set points on the way.
    fn way_to_virtual(from_ms: f64) -> (SteeringLaw, Diary, Vec<f64>) {
        let mut law = law_at(&under_utilizing(), from_ms);
        let mut diary = Diary::default();
        let mut setpoints = Vec::new();
        while law.virtual_rate().is_none() {
            law.signalled(&epoch(setpoints.len() as f64, None, gbps(9.9)), &mut diary);
            setpoints.push(law.setpoint().as_millis_f64());
        }
        (law, diary, setpoints)
    }

    #[test]
    fn nine_signals_lead_from_the_default_to_the_virtual_queue() {
        let (law, diary, setpoints) = way_to_virtual(2.5);
        let want = [1.875, 1.40625, 1.0546875, 0.7910, 0.5933, 0.4449, 0.3337, 0.2503, 0.2];
        assert_eq!(setpoints.len(), want.len());
        for (got, want) in setpoints.iter().zip(want) {
            assert!((got - want).abs() < 6e-5, "{got} for {want}");
        }
        let mut rules = std::vec![Rule::ToVirtual; 9];
        rules.extend([Rule::VirtualOn, Rule::RateDown]);
        assert_eq!(diary.rules(), rules);
        assert_eq!(diary.moves[9].to, Value::Rate(LINK));
        // 10 + 2 * (9.5 - 9.9), but not below the target.
        assert_eq!(law.virtual_rate(), Some(Rate::from_mbps(9_500)));
    }

    #[test]
    fn eighteen_signals_lead_from_the_largest_set_point_to_the_virtual_queue() {
        assert_eq!(way_to_virtual(30.0).2.len(), 18);
    }

    #[test]
    fn with_full_utilization_as_the_aim_the_virtual_queue_is_never_used() {
        let mut law = law_at(&Policy::default(), 0.2);
        for n in 0..100 {
            law.signalled(&epoch(f64::from(n), None, gbps(12.0)), &mut ());
            assert_eq!((law.virtual_rate(), law.setpoint()), (None, ms(0.2)));
        }
    }

    fn virtual_law(rate: f64) -> SteeringLaw {
        SteeringLaw { virtual_rate: Some(rate), link: LINK, ..law_at(&under_utilizing(), 0.2) }
    }

    #[test]
    fn the_virtual_rate_falls_while_too_much_is_carried() {
        // The first sample of an average is the average.
        for (avg, want) in [(9.8, 9_500), (9.6, 9_800), (9.5, 10_000), (9.45, 10_000)] {
            let mut law = virtual_law(gbps(10.0));
            law.signalled(&epoch(0.0, Some(0.0), gbps(avg)), &mut ());
            assert_eq!(law.virtual_rate(), Some(Rate::from_mbps(want)), "average {avg}");
            assert_eq!(law.setpoint(), ms(0.2));
            assert_eq!(law.depth.count(), 0);
        }
    }

    #[test]
    fn a_step_by_time_counts_as_much_as_the_average_forgets() {
        let fallen_by = |epochs: u32, virtual_signals: u32| {
            let policy =
                Policy { virtual_gain: 1.0, virtual_by_time: true, virtual_signals, ..under_utilizing() };
            let mut law = SteeringLaw { policy, ..virtual_law(gbps(10.0)) };
            for n in 1..=epochs {
                let now = ORIGIN + Duration::from_millis(u64::from(1000 / epochs * n));
                let start = now - Duration::from_millis(u64::from(1000 / epochs));
                let arrived = Bytes::new(9_800_000_000 / 8 / u64::from(epochs));
                law.signalled(&Epoch { start, now, arrived, ..epoch(1.0, Some(0.0), gbps(9.8)) }, &mut ());
            }
            10_000.0 - law.virtual_rate().unwrap().as_bps_f64() / 1e6
        };
        let near = |got: f64, want: f64| assert!((got - want).abs() < 0.01, "{got} for {want}");
        // (9.8 - 9.5) Gbit/s * (1 - exp(-1/4)): one second of a memory of 4.
        near(fallen_by(1, 0), 66.36);
        // Ten signals in that second move it as far, but for what exponentials are curved.
        near(fallen_by(10, 0), 74.07);
        // (9.8 - 9.5) Gbit/s * (1 - exp(-1/5)): one of five signals that are remembered.
        near(fallen_by(1, 5), 54.38);
        // And of a thousand, for which the longest memory of 40 s is too short.
        near(fallen_by(1, 1000), 7.41);
    }

    #[test]
    fn the_virtual_rate_rises_and_hands_back_to_the_real_queue() {
        for (avg, want) in [(9.3, Some(Rate::from_mbps(9_900))), (9.2, None)] {
            let mut law = virtual_law(gbps(9.5));
            let mut diary = Diary::default();
            law.signalled(&epoch(0.0, Some(0.0), gbps(avg)), &mut ());
            let mut seen = epoch(1.0, Some(0.0), gbps(avg));
            seen.link = LINK;
            assert!(law.raise(&seen, &mut diary));
            assert_eq!(law.virtual_rate(), want, "average {avg}");
            assert_eq!(law.setpoint(), ms(0.2));
            let back = want.is_none();
            assert_eq!(diary.rules().len(), 1 + usize::from(back));
            assert_eq!(diary.rules().contains(&Rule::VirtualOff), back);
        }
    }

    #[test]
    fn the_set_point_of_the_virtual_queue_stays() {
        let policy = Policy { samples_min: 1, virtual_target: ms(5.0), ..under_utilizing() };
        let real = SteeringLaw { link: LINK, ..law_at(&policy, 5.0) };
        for (virtual_rate, want) in [(None, 5.0 - 3.8), (Some(gbps(9.6)), 5.0)] {
            let mut law = SteeringLaw { virtual_rate, ..real.clone() };
            law.depth.sample(ORIGIN, 0.0011);
            law.signalled(&epoch(0.0, Some(3.9), gbps(9.45)), &mut ());
            assert_eq!(law.setpoint(), ms(want));
        }
    }

    #[test]
    fn a_new_policy_takes_effect_at_once() {
        let mut law = law_at(&Policy::default(), 20.0);
        law.signalled(&epoch(0.0, Some(3.9), gbps(9.9)), &mut ());
        let samples = law.depth.count();
        law.set_policy(&Policy { target_max: ms(10.0), ..Policy::default() }).unwrap();
        assert_eq!((law.setpoint(), law.depth.count()), (ms(10.0), samples));
        assert!(law.set_policy(&Policy { target_max: ms(0.1), ..Policy::default() }).is_err());
        assert_eq!(law.setpoint(), ms(10.0));

        let mut law = virtual_law(gbps(9.6));
        let higher = Policy { utilization_target: Share(0.98), ..under_utilizing() };
        law.set_policy(&higher).unwrap();
        assert_eq!(law.virtual_rate(), Some(Rate::from_mbps(9_800)));
        law.set_policy(&Policy::default()).unwrap();
        assert_eq!(law.virtual_rate(), None);
    }

    #[test]
    fn a_change_of_the_link_keeps_the_shares() {
        let mut law = virtual_law(gbps(9.6));
        law.signalled(&epoch(0.0, None, gbps(9.45)), &mut ());
        law.follow_link(Rate::from_mbps(1_000));
        assert_eq!(law.virtual_rate(), Some(Rate::from_mbps(960)));
        assert_eq!(law.rate_avg(), Some(Rate::from_mbps(945)));
        law.follow_link(Rate::ZERO);
        assert_eq!(law.virtual_rate(), Some(Rate::from_mbps(960)));
    }

    #[test]
    fn two_signals_at_one_instant_are_one_event() {
        let mut law = law_at(&under_utilizing(), 2.5);
        let mut diary = Diary::default();
        let seen = epoch(0.0, Some(0.1), gbps(9.9));
        law.signalled(&seen, &mut diary);
        law.signalled(&Epoch { start: seen.now, ..seen }, &mut diary);
        assert_eq!(diary.assessments.len(), 1);
    }

    #[test]
    fn the_states_of_table_one() {
        let mut law = law_at(&Policy::default(), 2.5);
        let state = |law: &SteeringLaw, t, low| law.state(&epoch(t, low, 0.0));
        assert_eq!(state(&law, 0.0, None), TableState::Below);
        law.signalled(&epoch(0.0, Some(1.0), gbps(10.0)), &mut ());
        assert_eq!(state(&law, 1.0, None), TableState::Fluctuating);
        law.signalled(&epoch(2.0, Some(2.6), gbps(10.0)), &mut ());
        assert_eq!(state(&law, 3.0, Some(9.0)), TableState::Above);
        assert_eq!(state(&law, 3.0, Some(2.0)), TableState::Fluctuating);
        assert_eq!(state(&law, 60.0, Some(2.0)), TableState::Below);
        assert_eq!(state(&law, 60.0, Some(9.0)), TableState::Above);
    }
}
