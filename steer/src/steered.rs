//! The wrapper that steers an AQM and is an AQM again.

use crate::law::{Epoch, Law, Observer, SteeringLaw, TableState};
use crate::policy::{Policy, PolicyError};
use crate::virtual_queue::VirtualQueue;
use core::fmt;
use weir_aqm::{Aqm, Moment, Packet, Sample, Setpoint, Verdict};
use weir_units::{Bytes, Duration, Rate, Time};

/// Why an AQM cannot be steered.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum SteerError {
    /// It has nothing that could be moved.
    NoSetpoint,
    /// The policy contradicts itself.
    Policy(PolicyError),
    /// The algorithm does not take a set point that the policy allows.
    OutOfReach {
        /// What the policy allows.
        wanted: Duration,
        /// What the algorithm made of it.
        got: Duration,
    },
}

impl fmt::Display for SteerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SteerError::NoSetpoint => {
                write!(f, "this algorithm has no set point: remove the policy or choose another algorithm")
            }
            SteerError::Policy(e) => e.fmt(f),
            SteerError::OutOfReach { wanted, got } if got > wanted => {
                write!(f, "this algorithm takes no set point below {got}: raise target_min from {wanted}")
            }
            SteerError::OutOfReach { wanted, got } => {
                write!(f, "this algorithm takes no set point above {got}: lower target_max from {wanted}")
            }
        }
    }
}

impl core::error::Error for SteerError {}

impl From<PolicyError> for SteerError {
    fn from(e: PolicyError) -> Self {
        SteerError::Policy(e)
    }
}

/// What was seen since the last signal; see [`Epoch`].
#[derive(Clone, Copy, Debug)]
struct Seen {
    start: Time,
    arrived: Bytes,
    /// The minimum of nothing is [`Duration::MAX`], so that a packet costs one compare.
    delay_min: Duration,
    ran_empty: bool,
}

impl Seen {
    fn since(start: Time) -> Seen {
        Seen { start, arrived: Bytes::ZERO, delay_min: Duration::MAX, ran_empty: false }
    }

    fn until(&self, now: Time, link: Rate) -> Epoch {
        Epoch {
            start: self.start,
            now,
            arrived: self.arrived,
            delay_min: (self.delay_min != Duration::MAX).then_some(self.delay_min),
            ran_empty: self.ran_empty,
            link,
        }
    }
}

/// An AQM whose set point is steered by a law.
///
/// When the inner algorithm wants to signal although the queue ran empty and the link was not used well, the
/// law raises the set point instead, and the algorithm is asked again as if it had not been asked before:
/// that very signal is deferred until the higher set point is exceeded. For this the algorithm is copied, but
/// only while a raise is possible at all.
///
/// With a utilization target below 100 % the law may switch to a virtual queue. The inner algorithm is then
/// asked on arrival about that queue, for both of its decisions, and real departures are not shown to it.
///
/// [`Aqm::setpoint`] is `None` here: the set point belongs to the law. [`Steered::setpoint_now`] shows it.
#[derive(Clone, Debug)]
pub struct Steered<A, L = SteeringLaw, O = ()> {
    aqm: A,
    seen: Seen,
    virtual_active: bool,
    /// Of the last arrival.
    last: Time,
    link: Rate,
    virtual_queue: VirtualQueue,
    law: L,
    observer: O,
}

impl<A: Aqm + Clone, O: Observer> Steered<A, SteeringLaw, O> {
    /// Steers `aqm` by the law of AQM Steering.
    pub fn new(aqm: A, policy: &Policy, start: Time, observer: O) -> Result<Self, SteerError> {
        let law = SteeringLaw::new(policy)?;
        let mut aqm = aqm;
        within_reach(&mut aqm, policy)?;
        Self::with_law(aqm, law, start, observer)
    }

    /// Changes the policy of a queue in operation; an error changes nothing. It takes effect with the next
    /// arrival.
    pub fn set_policy(&mut self, policy: &Policy) -> Result<(), SteerError> {
        policy.validate()?;
        within_reach(&mut self.aqm, policy)?;
        self.law.set_policy(policy)?;
        // As if the rate of the link had changed: the virtual queue learns of its new rate.
        self.link = Rate::ZERO;
        self.put_setpoint();
        if self.law.virtual_rate().is_none() {
            self.virtual_active = false;
        }
        Ok(())
    }
}

/// Whether the algorithm takes the set points that the policy allows; leaves the set point as it was.
fn within_reach(aqm: &mut impl Aqm, policy: &Policy) -> Result<(), SteerError> {
    let setpoint = aqm.setpoint().ok_or(SteerError::NoSetpoint)?;
    let before = setpoint.get();
    for wanted in [policy.target_min, policy.target_max] {
        let got = setpoint.set(wanted);
        setpoint.set(before);
        if got != wanted {
            return Err(SteerError::OutOfReach { wanted, got });
        }
    }
    Ok(())
}

impl<A: Aqm + Clone, L: Law, O: Observer> Steered<A, L, O> {
    /// Steers `aqm` by another law.
    pub fn with_law(aqm: A, law: L, start: Time, observer: O) -> Result<Self, SteerError> {
        let mut aqm = aqm;
        aqm.setpoint().ok_or(SteerError::NoSetpoint)?.set(law.setpoint());
        // The queue is empty at the start.
        let seen = Seen { delay_min: Duration::ZERO, ..Seen::since(start) };
        let virtual_queue = VirtualQueue::new(start, Bytes::ZERO, Rate::ZERO);
        let (last, link) = (start, Rate::ZERO);
        Ok(Steered { aqm, seen, virtual_active: false, last, link, virtual_queue, law, observer })
    }

    /// The inner algorithm.
    pub fn aqm(&self) -> &A {
        &self.aqm
    }

    /// The law.
    pub fn law(&self) -> &L {
        &self.law
    }

    /// The observer.
    pub fn observer(&self) -> &O {
        &self.observer
    }

    /// The observer, to take what it collected.
    pub fn observer_mut(&mut self) -> &mut O {
        &mut self.observer
    }

    /// The set point in force.
    pub fn setpoint_now(&self) -> Duration {
        self.law.setpoint()
    }

    /// What was seen since the last signal.
    pub fn epoch(&self, now: Time) -> Epoch {
        self.seen.until(now, self.link)
    }

    /// State of the queue relative to the set point (AQM Steering, Table I).
    pub fn table_state(&self, now: Time) -> TableState {
        self.law.state(&self.epoch(now))
    }

    /// Backlog at the last arrival and rate of the virtual queue, while that is the one that is controlled.
    pub fn virtual_queue(&self) -> Option<(Bytes, Rate)> {
        self.virtual_active.then(|| (self.virtual_queue.backlog(), self.virtual_queue.rate()))
    }

    /// Asks; on a signal that the law turns into a raise, asks again as if not asked before.
    #[inline]
    fn decide(&mut self, m: &Moment, p: &Packet, ask: impl Fn(&mut Self) -> Verdict) -> Verdict {
        if self.seen.ran_empty && self.law.may_raise(m.queue.rate) {
            return self.decide_or_raise(m, p, ask);
        }
        let verdict = ask(self);
        if verdict != Verdict::Forward {
            self.signalled(m, p, verdict);
        }
        verdict
    }

    #[cold]
    fn decide_or_raise(&mut self, m: &Moment, p: &Packet, ask: impl Fn(&mut Self) -> Verdict) -> Verdict {
        let before = self.aqm.clone();
        let mut verdict = ask(self);
        if verdict != Verdict::Forward {
            let seen = self.seen.until(m.now, m.queue.rate);
            if self.law.raise(&seen, &mut self.observer) {
                self.aqm = before;
                self.apply(m);
                verdict = ask(self);
            }
        }
        if verdict != Verdict::Forward {
            self.signalled(m, p, verdict);
        }
        verdict
    }

    /// A signal was given: the epoch ends. Signals at the same instant end one epoch, not several.
    #[cold]
    fn signalled(&mut self, m: &Moment, p: &Packet, verdict: Verdict) {
        if matches!(verdict, Verdict::Drop(_)) && !self.law.counts_discarded() {
            self.seen.arrived -= p.len;
        }
        let seen = self.seen.until(m.now, m.queue.rate);
        self.law.signalled(&seen, &mut self.observer);
        if seen.length() > Duration::ZERO {
            self.seen = Seen::since(m.now);
            // Nothing will be said of a queue that is empty already.
            if m.queue.packets == 0 {
                self.seen.delay_min = Duration::ZERO;
                self.seen.ran_empty = !self.virtual_active;
            }
        }
        self.apply(m);
    }

    /// Puts into force what the law decided.
    fn apply(&mut self, m: &Moment) {
        self.put_setpoint();
        match self.law.virtual_rate() {
            Some(rate) if self.virtual_active => self.virtual_queue.set_rate(rate),
            // The virtual queue starts as the real one stands, so that nothing jumps.
            Some(rate) => self.virtual_queue = VirtualQueue::new(m.now, m.queue.backlog, rate),
            None => {}
        }
        self.virtual_active = self.law.virtual_rate().is_some();
    }

    fn put_setpoint(&mut self) {
        if let Some(setpoint) = self.aqm.setpoint() {
            setpoint.set(self.law.setpoint());
        }
    }

    /// Brings the virtual queue to the present; what it finds empty is an empty queue.
    fn drain_virtual(&mut self, m: &Moment) {
        if m.queue.rate != self.link {
            self.link = m.queue.rate;
            self.law.follow_link(self.link);
            self.apply(m);
        }
        let waited = !self.virtual_queue.is_empty();
        self.virtual_queue.drain(m.now);
        if self.virtual_queue.is_empty() {
            self.seen.ran_empty = true;
            if waited {
                self.aqm.on_empty(m.now);
            }
        }
    }

    /// The moment as the inner algorithm sees it while it controls the virtual queue.
    fn virtual_moment(&self, m: &Moment) -> Moment {
        // A link slower than its rate says would leave the virtual queue empty and the real one to grow.
        if self.law.virtual_guard().is_some_and(|most| m.queue.delay > most) {
            return *m;
        }
        Moment { queue: self.virtual_queue.view(m.queue.packets), ..*m }
    }

    /// Asks about an arrival at whichever queue is controlled.
    fn ask_on_arrival(&mut self, m: &Moment, p: &Packet) -> Verdict {
        if !self.virtual_active {
            return self.aqm.on_enqueue(m, p);
        }
        let m = self.virtual_moment(m);
        let verdict = self.aqm.on_enqueue(&m, p);
        if verdict != Verdict::Forward {
            return verdict;
        }
        // The virtual queue gives each packet its delay at once: this arrival is its departure as well.
        let leaving = Packet { arrived: m.now - m.queue.delay, ..*p };
        self.aqm.on_dequeue(&Moment { dice: other_dice(m.dice), ..m }, &leaving)
    }

    #[cold]
    fn enqueue_virtual(&mut self, m: &Moment, p: &Packet) -> Verdict {
        self.drain_virtual(m);
        let verdict = self.decide(m, p, |steered| steered.ask_on_arrival(m, p));
        if !matches!(verdict, Verdict::Drop(_)) {
            self.virtual_queue.add(p.len);
        }
        verdict
    }

    #[inline]
    fn note_arrival(&mut self, m: &Moment, p: &Packet) {
        self.seen.arrived += p.len;
        self.last = m.now;
    }
}

/// Dice for the second of two questions that the host took for one (the mixing step of SplitMix64).
fn other_dice(dice: u64) -> u64 {
    let mixed = (dice ^ (dice >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

impl<A: Aqm + Clone, L: Law, O: Observer> Aqm for Steered<A, L, O> {
    const ROLLS: bool = A::ROLLS;

    #[inline]
    fn on_enqueue(&mut self, m: &Moment, p: &Packet) -> Verdict {
        self.note_arrival(m, p);
        if self.virtual_active {
            return self.enqueue_virtual(m, p);
        }
        self.link = m.queue.rate;
        let verdict = self.decide(m, p, |steered| steered.aqm.on_enqueue(m, p));
        // The mark that switched to the virtual queue is on a packet that is not in its backlog yet.
        if matches!(verdict, Verdict::Mark(_)) && self.virtual_active {
            self.virtual_queue.add(p.len);
        }
        verdict
    }

    #[inline]
    fn on_dequeue(&mut self, m: &Moment, p: &Packet) -> Verdict {
        let delay = m.now.since(p.arrived);
        if delay < self.seen.delay_min {
            self.seen.delay_min = delay;
        }
        if self.virtual_active {
            return Verdict::Forward;
        }
        self.decide(m, p, |steered| steered.aqm.on_dequeue(m, p))
    }

    fn on_empty(&mut self, now: Time) {
        self.seen.delay_min = Duration::ZERO;
        // While the virtual queue decides, the real one is empty most of the time, and that means nothing.
        if !self.virtual_active {
            self.seen.ran_empty = true;
            self.aqm.on_empty(now);
        }
    }

    fn on_overflow(&mut self, m: &Moment, p: &Packet) {
        self.note_arrival(m, p);
        if !self.law.counts_discarded() {
            self.seen.arrived -= p.len;
        }
        if self.virtual_active {
            self.drain_virtual(m);
        }
        if self.virtual_active {
            self.aqm.on_overflow(&self.virtual_moment(m), p);
        } else {
            self.aqm.on_overflow(m, p);
        }
    }

    fn next_wakeup(&self) -> Option<Time> {
        self.aqm.next_wakeup()
    }

    fn on_wakeup(&mut self, m: &Moment) {
        if self.virtual_active {
            self.drain_virtual(m);
        }
        if self.virtual_active {
            self.aqm.on_wakeup(&self.virtual_moment(m));
        } else {
            self.aqm.on_wakeup(m);
        }
    }

    fn on_sample(&mut self, now: Time, s: Sample) {
        self.aqm.on_sample(now, s);
    }

    /// `None`: the set point belongs to the law.
    fn setpoint(&mut self) -> Option<&mut dyn Setpoint> {
        None
    }

    fn gauges(&self, plot: &mut dyn FnMut(&'static str, f64)) {
        self.aqm.gauges(plot);
        plot("setpoint_ms", self.setpoint_now().as_millis_f64());
        if let Some(rate) = self.epoch(self.last).rate() {
            plot("rate_mbps", rate / 1e6);
        }
        self.law.gauges(plot);
        plot("table_state", f64::from(self.table_state(self.last) as u8));
        if let Some((backlog, _)) = self.virtual_queue() {
            plot("virtual_backlog_bytes", backlog.get() as f64);
        }
    }
}
