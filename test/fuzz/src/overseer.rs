//! A guide that asks every question twice and holds the answers against the contract.

use weir_aqm::{Aqm, Guide, Moment, Packet, Sample, Verdict, View};
use weir_units::{Duration, Time};

/// Stands above the algorithms of a queue and, where there is one, above their guide `G`. Panics if one
/// breaks the contract of [`Aqm`].
#[derive(Clone)]
pub struct Overseer<G> {
    inner: G,
    /// Of the set point, as declared.
    range: Option<(Duration, Duration)>,
    /// What the set point is moved to before the next question.
    pub move_to: Option<Duration>,
    /// What the algorithm is told before the next question.
    pub sample: Option<Sample>,
}

impl<G> Overseer<G> {
    /// Above algorithms whose set point has this range, if they have one.
    pub fn new(inner: G, range: Option<(Duration, Duration)>) -> Overseer<G> {
        Overseer { inner, range, move_to: None, sample: None }
    }

    /// Does to the algorithm what was asked for.
    fn meddle<A: Aqm>(&mut self, aqm: &mut A, now: Time) {
        if let Some(sample) = self.sample.take() {
            aqm.on_sample(now, sample);
        }
        let Some(to) = self.move_to.take() else { return };
        let setpoint = aqm.setpoint();
        assert_eq!(
            setpoint.is_some(),
            self.range.is_some(),
            "a set point that is there and not declared, or not there"
        );
        let (Some(setpoint), Some((min, max))) = (setpoint, self.range) else { return };
        let told = setpoint.set(to);
        assert_eq!(told, to.clamp(min, max), "the set point after it was set to {to}");
        assert_eq!(setpoint.get(), told, "the set point as it reads back");
    }

    /// Asks, and asks a copy the same; the answers and what is left behind must be the same.
    fn ask<A: Aqm + Clone, R: PartialEq + std::fmt::Debug>(
        &mut self,
        aqm: &mut A,
        question: impl Fn(&mut G, &mut A) -> R,
    ) -> R
    where
        G: Clone,
    {
        let (mut other_guide, mut other) = (self.inner.clone(), aqm.clone());
        let answer = question(&mut self.inner, aqm);
        assert_eq!(question(&mut other_guide, &mut other), answer, "a copy answers differently");
        assert_eq!(aqm.next_wakeup(), other.next_wakeup(), "a copy wants to be woken at another time");
        assert_eq!(gauges(aqm), gauges(&other), "a copy has other gauges");
        answer
    }

    fn judged(verdict: Verdict, p: &Packet) -> Verdict {
        let marked = matches!(verdict, Verdict::Mark(_));
        assert!(!marked || p.ecn.is_capable(), "a mark on a packet that is not ECN-capable");
        verdict
    }
}

/// Names and bits of all gauges.
fn gauges<A: Aqm>(aqm: &A) -> Vec<(&'static str, u64)> {
    let mut seen = Vec::new();
    aqm.gauges(&mut |name, value| {
        assert!(value.is_finite(), "the gauge {name} is {value}");
        seen.push((name, value.to_bits()));
    });
    seen
}

impl<A: Aqm + Clone, G: Guide<A> + Clone> Guide<A> for Overseer<G> {
    fn on_enqueue(&mut self, aqm: &mut A, whole: impl FnOnce() -> View, m: &Moment, p: &Packet) -> Verdict {
        self.meddle(aqm, m.now);
        let whole = whole();
        Self::judged(self.ask(aqm, |guide, aqm| guide.on_enqueue(aqm, || whole, m, p)), p)
    }

    fn on_dequeue(&mut self, aqm: &mut A, whole: impl FnOnce() -> View, m: &Moment, p: &Packet) -> Verdict {
        self.meddle(aqm, m.now);
        let whole = whole();
        Self::judged(self.ask(aqm, |guide, aqm| guide.on_dequeue(aqm, || whole, m, p)), p)
    }

    fn on_overflow(&mut self, aqm: &mut A, m: &Moment, p: &Packet) {
        self.ask(aqm, |guide, aqm| guide.on_overflow(aqm, m, p));
    }

    fn on_shed(&mut self, aqm: &mut A, m: &Moment, p: &Packet) {
        self.ask(aqm, |guide, aqm| guide.on_shed(aqm, m, p));
    }

    fn on_empty(&mut self, aqm: &mut A, all: bool, now: Time) {
        self.ask(aqm, |guide, aqm| guide.on_empty(aqm, all, now));
    }

    fn on_beside(&mut self, now: Time, p: &Packet) {
        self.inner.on_beside(now, p);
    }

    fn on_idle(&mut self) {
        self.inner.on_idle();
    }

    fn on_wakeup(&mut self, aqm: &mut A, m: &Moment) {
        self.ask(aqm, |guide, aqm| guide.on_wakeup(aqm, m));
        let next = aqm.next_wakeup();
        assert!(next.is_none_or(|due| due > m.now), "after a wakeup at {:?} it wants one at {next:?}", m.now);
    }
}
