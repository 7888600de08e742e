//! A set point that is given from outside.

use weir_aqm::{Aqm, Guide, Moment, Packet, Verdict, View};
use weir_units::Duration;

/// Gives each algorithm of a queue this set point before it is asked; `None` leaves them their own.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ByHand(pub Option<Duration>);

impl ByHand {
    /// Brings an algorithm up to date.
    #[inline]
    pub fn put<A: Aqm>(&self, aqm: &mut A) {
        if let Some(wanted) = self.0
            && let Some(setpoint) = aqm.setpoint()
            && setpoint.get() != wanted
        {
            setpoint.set(wanted);
        }
    }
}

impl<A: Aqm> Guide<A> for ByHand {
    #[inline]
    fn on_enqueue(&mut self, aqm: &mut A, _: impl FnOnce() -> View, m: &Moment, p: &Packet) -> Verdict {
        self.put(aqm);
        aqm.on_enqueue(m, p)
    }

    #[inline]
    fn on_dequeue(&mut self, aqm: &mut A, _: impl FnOnce() -> View, m: &Moment, p: &Packet) -> Verdict {
        self.put(aqm);
        aqm.on_dequeue(m, p)
    }

    fn on_wakeup(&mut self, aqm: &mut A, m: &Moment) {
        self.put(aqm);
        aqm.on_wakeup(m);
    }

    fn setpoint(&self) -> Option<Duration> {
        self.0
    }
}
