//! Steering apart from what is steered: what was seen, the law, the virtual queue.

use crate::error::SteerError;
use crate::law::{Epoch, Law, Observer, SteeringLaw, TableState};
use crate::policy::{Policy, PolicyError};
use crate::virtual_queue::VirtualQueue;
use weir_aqm::{Aqm, Guide, Moment, Packet, Verdict, View};
use weir_units::{Bytes, Duration, Rate, Time};

/// What was seen since the last signal; see [`Epoch`].
#[derive(Clone, Copy, Debug)]
struct EpochCounters {
    start: Time,
    arrived: Bytes,
    /// The minimum of nothing is [`Duration::MAX`], so that a packet costs one compare.
    delay_min: Duration,
    ran_empty: bool,
}

impl EpochCounters {
    fn since(start: Time) -> EpochCounters {
        EpochCounters { start, arrived: Bytes::ZERO, delay_min: Duration::MAX, ran_empty: false }
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

/// Steers whichever algorithms a queue asks: the one of a FIFO, or those of many flows together.
///
/// What the law is told is measured at the queue as a whole: its bytes, its delay, whether it ran empty. The
/// set point that it finds is for all algorithms of the queue; each gets it before it is asked next.
///
/// See [`Steered`](crate::Steered) for how a signal becomes a raise, and for the virtual queue, which takes
/// the place of the queue as a whole and is therefore for one FIFO only.
#[derive(Clone, Debug)]
pub struct Helm<L = SteeringLaw, O = ()> {
    seen: EpochCounters,
    virtual_active: bool,
    /// Of the last arrival.
    last: Time,
    link: Rate,
    virtual_queue: VirtualQueue,
    law: L,
    observer: O,
}

impl<O: Observer> Helm<SteeringLaw, O> {
    /// Steers algorithms like `aqm` by the law of AQM Steering, and gives it its first set point.
    pub fn new<A: Aqm>(aqm: &mut A, policy: &Policy, start: Time, observer: O) -> Result<Self, SteerError> {
        let law = SteeringLaw::new(policy)?;
        within_reach(aqm, policy)?;
        Self::with_law(aqm, law, start, observer)
    }

    /// The same for a queue of several FIFOs.
    pub fn of_many<A: Aqm>(
        aqm: &mut A,
        policy: &Policy,
        start: Time,
        observer: O,
    ) -> Result<Self, SteerError> {
        if policy.uses_virtual_queue() {
            return Err(SteerError::ManyFifos);
        }
        Self::new(aqm, policy, start, observer)
    }

    /// Changes the policy of a queue in operation; an error changes nothing. `aqm` is one of its algorithms,
    /// or one like them: each gets the set point before it is asked next.
    pub fn set_policy<A: Aqm>(&mut self, aqm: &mut A, policy: &Policy) -> Result<(), SteerError> {
        policy.validate()?;
        within_reach(aqm, policy)?;
        self.adopt(policy)?;
        self.put_setpoint(aqm);
        Ok(())
    }

    /// Changes the policy of a queue in operation, in constant time and without allocating; an error changes
    /// nothing. Algorithms get their set point before they are asked next. Whether they take all set points
    /// that the policy allows must have been looked at before, as [`Helm::new`] does.
    pub fn adopt(&mut self, policy: &Policy) -> Result<(), PolicyError> {
        self.law.set_policy(policy)?;
        // As if the rate of the link had changed: the virtual queue learns of its new rate.
        self.link = Rate::ZERO;
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

impl<L: Law, O: Observer> Helm<L, O> {
    /// Steers algorithms like `aqm` by another law.
    pub fn with_law<A: Aqm>(aqm: &mut A, law: L, start: Time, observer: O) -> Result<Self, SteerError> {
        aqm.setpoint().ok_or(SteerError::NoSetpoint)?.set(law.setpoint());
        Ok(Self::to_come(law, start, observer))
    }

    /// The same for algorithms that are not there yet: each gets the set point before it is asked. Whether
    /// they take all set points that the law may find must have been looked at before, as [`Helm::new`] does.
    pub fn to_come(law: L, start: Time, observer: O) -> Self {
        // The queue is empty at the start.
        let seen = EpochCounters { delay_min: Duration::ZERO, ..EpochCounters::since(start) };
        let virtual_queue = VirtualQueue::new(start, Bytes::ZERO, Rate::ZERO);
        let (last, link) = (start, Rate::ZERO);
        Helm { seen, virtual_active: false, last, link, virtual_queue, law, observer }
    }

    /// An epoch begins now, whatever was seen before.
    pub fn begin(&mut self, now: Time) {
        (self.seen, self.last) = (EpochCounters::since(now), now);
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

    /// How long the virtual queue was empty while it was controlled, until the last arrival.
    pub fn virtual_empty_for(&self) -> Duration {
        self.virtual_queue.empty_for()
    }

    /// Inner variables of the law and of what it was told.
    pub fn gauges(&self, plot: &mut dyn FnMut(&'static str, f64)) {
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

    /// Asks; on a signal that the law turns into a raise, asks again as if not asked before.
    #[inline]
    fn decide<A: Aqm + Clone>(
        &mut self,
        aqm: &mut A,
        whole: &View,
        m: &Moment,
        p: &Packet,
        ask: impl Fn(&mut Self, &mut A) -> Verdict,
    ) -> Verdict {
        if self.seen.ran_empty && self.law.may_raise(whole.rate) {
            return self.decide_or_raise(aqm, whole, m, p, ask);
        }
        let verdict = ask(self, aqm);
        if verdict != Verdict::Forward {
            self.signalled(aqm, whole, m.now, p, verdict);
        }
        verdict
    }

    #[cold]
    fn decide_or_raise<A: Aqm + Clone>(
        &mut self,
        aqm: &mut A,
        whole: &View,
        m: &Moment,
        p: &Packet,
        ask: impl Fn(&mut Self, &mut A) -> Verdict,
    ) -> Verdict {
        let before = aqm.clone();
        let mut verdict = ask(self, aqm);
        if verdict != Verdict::Forward {
            let seen = self.seen.until(m.now, whole.rate);
            if self.law.raise(&seen, &mut self.observer) {
                *aqm = before;
                self.apply(aqm, whole, m.now);
                verdict = ask(self, aqm);
            }
        }
        if verdict != Verdict::Forward {
            self.signalled(aqm, whole, m.now, p, verdict);
        }
        verdict
    }

    /// A signal was given: the epoch ends. Signals at the same instant end one epoch, not several.
    #[cold]
    fn signalled<A: Aqm>(&mut self, aqm: &mut A, whole: &View, now: Time, p: &Packet, verdict: Verdict) {
        if matches!(verdict, Verdict::Drop(_)) && !self.law.counts_discarded() {
            self.seen.arrived -= p.len;
        }
        let seen = self.seen.until(now, whole.rate);
        self.law.signalled(&seen, &mut self.observer);
        if seen.length() > Duration::ZERO {
            self.seen = EpochCounters::since(now);
            // Nothing will be said of a queue that is empty already.
            if whole.packets == 0 {
                self.seen.delay_min = Duration::ZERO;
                self.seen.ran_empty = !self.virtual_active;
            }
        }
        self.apply(aqm, whole, now);
    }

    /// Puts into force what the law decided.
    fn apply<A: Aqm>(&mut self, aqm: &mut A, whole: &View, now: Time) {
        self.put_setpoint(aqm);
        match self.law.virtual_rate() {
            Some(rate) if self.virtual_active => self.virtual_queue.set_rate(rate),
            // The virtual queue starts as the real one stands, so that nothing jumps.
            Some(rate) => self.virtual_queue.restart(now, whole.backlog, rate),
            None => {}
        }
        self.virtual_active = self.law.virtual_rate().is_some();
    }

    fn put_setpoint<A: Aqm>(&self, aqm: &mut A) {
        if let Some(setpoint) = aqm.setpoint() {
            setpoint.set(self.law.setpoint());
        }
    }

    /// Gives an algorithm the set point that was found while others were asked.
    #[inline]
    fn bring_up<A: Aqm>(&self, aqm: &mut A) {
        if let Some(setpoint) = aqm.setpoint()
            && setpoint.get() != self.law.setpoint()
        {
            setpoint.set(self.law.setpoint());
        }
    }

    /// Brings the virtual queue to the present; what it finds empty is an empty queue.
    fn drain_virtual<A: Aqm>(&mut self, aqm: &mut A, m: &Moment) {
        if m.queue.rate != self.link {
            self.link = m.queue.rate;
            self.law.follow_link(self.link);
            self.apply(aqm, &m.queue, m.now);
        }
        let waited = !self.virtual_queue.is_empty();
        self.virtual_queue.drain(m.now);
        if self.virtual_queue.is_empty() {
            self.seen.ran_empty = true;
            if waited {
                aqm.on_empty(m.now);
            }
        }
    }

    /// The moment as the algorithm sees it while it controls the virtual queue.
    fn virtual_moment(&self, m: &Moment) -> Moment {
        // A link slower than its rate says would leave the virtual queue empty and the real one to grow.
        if self.law.virtual_guard().is_some_and(|most| m.queue.delay > most) {
            return *m;
        }
        let mut seen = *m;
        seen.queue = self.virtual_queue.view(m.queue.packets);
        seen
    }

    /// Asks about an arrival at whichever queue is controlled.
    fn ask_on_arrival<A: Aqm>(&self, aqm: &mut A, m: &Moment, p: &Packet) -> Verdict {
        if !self.virtual_active {
            return aqm.on_enqueue(m, p);
        }
        let m = self.virtual_moment(m);
        let verdict = aqm.on_enqueue(&m, p);
        if verdict != Verdict::Forward {
            return verdict;
        }
        // The virtual queue gives each packet its delay at once: this arrival is its departure as well.
        let leaving = Packet { arrived: m.now - m.queue.delay, ..*p };
        aqm.on_dequeue(&m.again(), &leaving)
    }

    #[cold]
    fn enqueue_virtual<A: Aqm + Clone>(&mut self, aqm: &mut A, m: &Moment, p: &Packet) -> Verdict {
        self.drain_virtual(aqm, m);
        let verdict = self.decide(aqm, &m.queue, m, p, |helm, aqm| helm.ask_on_arrival(aqm, m, p));
        if !matches!(verdict, Verdict::Drop(_)) {
            self.virtual_queue.add(p.len);
        }
        verdict
    }

    #[inline]
    pub(crate) fn enqueue<A: Aqm + Clone>(
        &mut self,
        aqm: &mut A,
        whole: &View,
        m: &Moment,
        p: &Packet,
    ) -> Verdict {
        self.note_arrival(m.now, p);
        if self.virtual_active {
            return self.enqueue_virtual(aqm, m, p);
        }
        self.link = whole.rate;
        let verdict = self.decide(aqm, whole, m, p, |_, aqm| aqm.on_enqueue(m, p));
        // The mark that switched to the virtual queue is on a packet that is not in its backlog yet.
        if matches!(verdict, Verdict::Mark(_)) && self.virtual_active {
            self.virtual_queue.add(p.len);
        }
        verdict
    }

    /// `delay` is that of the packet, or of the whole queue where it has more than one FIFO.
    #[inline]
    pub(crate) fn dequeue<A: Aqm + Clone>(
        &mut self,
        aqm: &mut A,
        whole: &View,
        delay: Duration,
        m: &Moment,
        p: &Packet,
    ) -> Verdict {
        if delay < self.seen.delay_min {
            self.seen.delay_min = delay;
        }
        if self.virtual_active {
            return Verdict::Forward;
        }
        self.decide(aqm, whole, m, p, |_, aqm| aqm.on_dequeue(m, p))
    }

    #[inline]
    fn note_arrival(&mut self, now: Time, p: &Packet) {
        self.seen.arrived += p.len;
        self.last = now;
    }
}

impl<A: Aqm + Clone, L: Law, O: Observer> Guide<A> for Helm<L, O> {
    #[inline]
    fn on_enqueue(&mut self, aqm: &mut A, whole: impl FnOnce() -> View, m: &Moment, p: &Packet) -> Verdict {
        self.bring_up(aqm);
        self.enqueue(aqm, &whole(), m, p)
    }

    #[inline]
    fn on_dequeue(&mut self, aqm: &mut A, whole: impl FnOnce() -> View, m: &Moment, p: &Packet) -> Verdict {
        self.bring_up(aqm);
        let whole = whole();
        self.dequeue(aqm, &whole, whole.delay, m, p)
    }

    fn on_overflow(&mut self, aqm: &mut A, m: &Moment, p: &Packet) {
        self.note_arrival(m.now, p);
        self.on_shed(aqm, m, p);
    }

    fn on_shed(&mut self, aqm: &mut A, m: &Moment, p: &Packet) {
        if !self.law.counts_discarded() {
            self.seen.arrived -= p.len;
        }
        if self.virtual_active {
            self.drain_virtual(aqm, m);
        }
        if self.virtual_active {
            aqm.on_overflow(&self.virtual_moment(m), p);
        } else {
            aqm.on_overflow(m, p);
        }
    }

    fn on_empty(&mut self, aqm: &mut A, all: bool, now: Time) {
        if all {
            self.seen.delay_min = Duration::ZERO;
        }
        // While the virtual queue decides, the real one is empty most of the time, and that means nothing.
        if !self.virtual_active {
            self.seen.ran_empty |= all;
            aqm.on_empty(now);
        }
    }

    fn on_beside(&mut self, now: Time, p: &Packet) {
        self.note_arrival(now, p);
    }

    fn on_idle(&mut self) {
        self.seen.delay_min = Duration::ZERO;
        self.seen.ran_empty |= !self.virtual_active;
    }

    fn on_wakeup(&mut self, aqm: &mut A, m: &Moment) {
        self.bring_up(aqm);
        if self.virtual_active {
            self.drain_virtual(aqm, m);
        }
        if self.virtual_active {
            aqm.on_wakeup(&self.virtual_moment(m));
        } else {
            aqm.on_wakeup(m);
        }
    }

    fn setpoint(&self) -> Option<Duration> {
        Some(self.law.setpoint())
    }

    fn gauges(&self, plot: &mut dyn FnMut(&'static str, f64)) {
        Helm::gauges(self, plot);
    }
}
