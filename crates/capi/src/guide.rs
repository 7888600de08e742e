//! What stands above the algorithms of a queue that is guided: a set point given by hand, or steering.

use weir_aqm::{Aqm, Guide, Moment, Packet, Verdict, View};
use weir_steer::{ByHand, Helm, Move, Observer, SteeringLaw};
use weir_units::{Duration, Time};

/// Counts the moves of the law.
#[derive(Clone, Copy, Default, Debug)]
pub struct Moves(pub u64);

impl Observer for Moves {
    fn moved(&mut self, _: &Move) {
        self.0 += 1;
    }
}

/// Who moves the set point; it may change while packets wait.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant)]
pub enum Above {
    /// The program: every algorithm gets this one before it is asked.
    Hand(Duration),
    /// The law of AQM Steering.
    Law(Helm<SteeringLaw, Moves>),
}

impl Above {
    /// The helm, or the algorithm itself with the set point that it is to have.
    #[inline]
    fn helm<A: Aqm>(&mut self, aqm: &mut A) -> Option<&mut Helm<SteeringLaw, Moves>> {
        match self {
            Above::Hand(wanted) => {
                ByHand(Some(*wanted)).put(aqm);
                None
            }
            Above::Law(helm) => Some(helm),
        }
    }
}

impl<A: Aqm + Clone> Guide<A> for Above {
    #[inline]
    fn on_enqueue(&mut self, aqm: &mut A, whole: impl FnOnce() -> View, m: &Moment, p: &Packet) -> Verdict {
        match self.helm(aqm) {
            Some(helm) => Guide::on_enqueue(helm, aqm, whole, m, p),
            None => aqm.on_enqueue(m, p),
        }
    }

    #[inline]
    fn on_dequeue(&mut self, aqm: &mut A, whole: impl FnOnce() -> View, m: &Moment, p: &Packet) -> Verdict {
        match self.helm(aqm) {
            Some(helm) => Guide::on_dequeue(helm, aqm, whole, m, p),
            None => aqm.on_dequeue(m, p),
        }
    }

    fn on_overflow(&mut self, aqm: &mut A, m: &Moment, p: &Packet) {
        match self.helm(aqm) {
            Some(helm) => Guide::on_overflow(helm, aqm, m, p),
            None => aqm.on_overflow(m, p),
        }
    }

    fn on_shed(&mut self, aqm: &mut A, m: &Moment, p: &Packet) {
        match self.helm(aqm) {
            Some(helm) => Guide::on_shed(helm, aqm, m, p),
            None => aqm.on_overflow(m, p),
        }
    }

    fn on_empty(&mut self, aqm: &mut A, all: bool, now: Time) {
        match self.helm(aqm) {
            Some(helm) => Guide::on_empty(helm, aqm, all, now),
            None => aqm.on_empty(now),
        }
    }

    fn on_beside(&mut self, now: Time, p: &Packet) {
        if let Above::Law(helm) = self {
            Guide::<A>::on_beside(helm, now, p);
        }
    }

    fn on_idle(&mut self) {
        if let Above::Law(helm) = self {
            Guide::<A>::on_idle(helm);
        }
    }

    fn on_wakeup(&mut self, aqm: &mut A, m: &Moment) {
        match self.helm(aqm) {
            Some(helm) => Guide::on_wakeup(helm, aqm, m),
            None => aqm.on_wakeup(m),
        }
    }

    fn gauges(&self, plot: &mut dyn FnMut(&'static str, f64)) {
        if let Above::Law(helm) = self {
            helm.gauges(plot);
        }
    }
}
