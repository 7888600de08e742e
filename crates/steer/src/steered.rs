//! The wrapper that steers an AQM and is an AQM again.

use crate::error::SteerError;
use crate::helm::Helm;
use crate::law::{Epoch, Law, Observer, SteeringLaw, TableState};
use crate::policy::Policy;
use weir_aqm::{Aqm, Guide, Moment, Needs, Packet, Sample, Setpoint, Verdict};
use weir_units::{Bytes, Duration, Rate, Time};

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
    helm: Helm<L, O>,
}

impl<A: Aqm + Clone, O: Observer> Steered<A, SteeringLaw, O> {
    /// Steers `aqm` by the law of AQM Steering.
    pub fn new(mut aqm: A, policy: &Policy, start: Time, observer: O) -> Result<Self, SteerError> {
        let helm = Helm::new(&mut aqm, policy, start, observer)?;
        Ok(Steered { aqm, helm })
    }

    /// Changes the policy of a queue in operation; an error changes nothing. It takes effect with the next
    /// arrival.
    pub fn set_policy(&mut self, policy: &Policy) -> Result<(), SteerError> {
        self.helm.set_policy(&mut self.aqm, policy)
    }
}

impl<A: Aqm + Clone, L: Law, O: Observer> Steered<A, L, O> {
    /// Steers `aqm` by another law.
    pub fn with_law(mut aqm: A, law: L, start: Time, observer: O) -> Result<Self, SteerError> {
        let helm = Helm::with_law(&mut aqm, law, start, observer)?;
        Ok(Steered { aqm, helm })
    }

    /// The inner algorithm.
    pub fn aqm(&self) -> &A {
        &self.aqm
    }

    /// What steers it.
    pub fn helm(&self) -> &Helm<L, O> {
        &self.helm
    }

    /// The law.
    pub fn law(&self) -> &L {
        self.helm.law()
    }

    /// The observer.
    pub fn observer(&self) -> &O {
        self.helm.observer()
    }

    /// The observer, to take what it collected.
    pub fn observer_mut(&mut self) -> &mut O {
        self.helm.observer_mut()
    }

    /// The set point in force.
    pub fn setpoint_now(&self) -> Duration {
        self.helm.setpoint_now()
    }

    /// What was seen since the last signal.
    pub fn epoch(&self, now: Time) -> Epoch {
        self.helm.epoch(now)
    }

    /// State of the queue relative to the set point (AQM Steering, Table I).
    pub fn table_state(&self, now: Time) -> TableState {
        self.helm.table_state(now)
    }

    /// Backlog at the last arrival and rate of the virtual queue, while that is the one that is controlled.
    pub fn virtual_queue(&self) -> Option<(Bytes, Rate)> {
        self.helm.virtual_queue()
    }
}

impl<A: Aqm + Clone, L: Law, O: Observer> Aqm for Steered<A, L, O> {
    const USES_RANDOM: bool = A::USES_RANDOM;
    const NEEDS: Needs = A::NEEDS;
    const SHAPES: bool = A::SHAPES;

    #[inline]
    fn on_enqueue(&mut self, m: &Moment, p: &Packet) -> Verdict {
        self.helm.enqueue(&mut self.aqm, &m.queue, m, p)
    }

    #[inline]
    fn on_dequeue(&mut self, m: &Moment, p: &Packet) -> Verdict {
        self.helm.dequeue(&mut self.aqm, &m.queue, m.now.since(p.arrived), m, p)
    }

    fn on_empty(&mut self, now: Time) {
        self.helm.on_empty(&mut self.aqm, true, now);
    }

    fn on_overflow(&mut self, m: &Moment, p: &Packet) {
        self.helm.on_overflow(&mut self.aqm, m, p);
    }

    fn next_wakeup(&self) -> Option<Time> {
        self.aqm.next_wakeup()
    }

    fn on_wakeup(&mut self, m: &Moment) {
        self.helm.on_wakeup(&mut self.aqm, m);
    }

    fn on_sample(&mut self, now: Time, s: Sample) {
        self.aqm.on_sample(now, s);
    }

    fn shaped(&self, p: &Packet) -> Option<Rate> {
        self.aqm.shaped(p)
    }

    fn on_shaped(&mut self, now: Time, p: &Packet) {
        self.aqm.on_shaped(now, p);
    }

    fn on_shaped_sent(&mut self, now: Time, p: &Packet) {
        self.aqm.on_shaped_sent(now, p);
    }

    /// `None`: the set point belongs to the law.
    fn setpoint(&mut self) -> Option<&mut dyn Setpoint> {
        None
    }

    fn gauges(&self, plot: &mut dyn FnMut(&'static str, f64)) {
        self.aqm.gauges(plot);
        self.helm.gauges(plot);
    }
}
