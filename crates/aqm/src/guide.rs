//! What may stand above the algorithms of a queue: steering, or nothing.

use crate::{Aqm, Moment, Packet, Verdict, View};
use weir_units::{Duration, Time};

/// Sees every question that a queue asks its algorithm, and may change the algorithm before it answers.
///
/// A queue may have one algorithm or one for each flow; there is one guide. `whole` is the queue behind the
/// link with all its flows; its delay is that of the packet in question if there is one FIFO, else the time
/// that everything stored takes at the link's rate; it is worked out for a guide that asks. `m` is the moment
/// as the algorithm sees it: of its flow.
///
/// The defaults ask the algorithm and do nothing else.
pub trait Guide<A: Aqm> {
    /// A packet wants in.
    #[inline]
    fn on_enqueue(&mut self, aqm: &mut A, whole: impl FnOnce() -> View, m: &Moment, p: &Packet) -> Verdict {
        let _ = whole;
        aqm.on_enqueue(m, p)
    }

    /// A packet left the FIFO and is about to be sent.
    #[inline]
    fn on_dequeue(&mut self, aqm: &mut A, whole: impl FnOnce() -> View, m: &Moment, p: &Packet) -> Verdict {
        let _ = whole;
        aqm.on_dequeue(m, p)
    }

    /// An arriving packet was discarded for lack of room.
    fn on_overflow(&mut self, aqm: &mut A, m: &Moment, p: &Packet) {
        aqm.on_overflow(m, p);
    }

    /// A stored packet was discarded for lack of room.
    fn on_shed(&mut self, aqm: &mut A, m: &Moment, p: &Packet) {
        aqm.on_overflow(m, p);
    }

    /// The FIFO of the algorithm ran empty; `all` if nothing else is stored either.
    fn on_empty(&mut self, aqm: &mut A, all: bool, now: Time) {
        let _ = all;
        aqm.on_empty(now);
    }

    /// A packet was stored beside the FIFOs of all algorithms, none of which is asked about it.
    fn on_beside(&mut self, now: Time, p: &Packet) {
        let _ = (now, p);
    }

    /// A packet from beside the FIFOs was the last one; their algorithms know that they are empty.
    fn on_idle(&mut self) {}

    /// The wakeup that the algorithm asked for.
    fn on_wakeup(&mut self, aqm: &mut A, m: &Moment) {
        aqm.on_wakeup(m);
    }

    /// The set point that its algorithms get before they are asked; `None` where they keep their own.
    fn setpoint(&self) -> Option<Duration> {
        None
    }

    /// Shows inner variables by name.
    fn gauges(&self, plot: &mut dyn FnMut(&'static str, f64)) {
        let _ = plot;
    }
}

/// Nobody: the algorithm keeps its set point.
impl<A: Aqm> Guide<A> for () {}

/// Where it is known only at run time whether there is a guide.
impl<A: Aqm, G: Guide<A>> Guide<A> for Option<G> {
    #[inline]
    fn on_enqueue(&mut self, aqm: &mut A, whole: impl FnOnce() -> View, m: &Moment, p: &Packet) -> Verdict {
        match self {
            Some(guide) => guide.on_enqueue(aqm, whole, m, p),
            None => aqm.on_enqueue(m, p),
        }
    }

    #[inline]
    fn on_dequeue(&mut self, aqm: &mut A, whole: impl FnOnce() -> View, m: &Moment, p: &Packet) -> Verdict {
        match self {
            Some(guide) => guide.on_dequeue(aqm, whole, m, p),
            None => aqm.on_dequeue(m, p),
        }
    }

    fn on_overflow(&mut self, aqm: &mut A, m: &Moment, p: &Packet) {
        match self {
            Some(guide) => guide.on_overflow(aqm, m, p),
            None => aqm.on_overflow(m, p),
        }
    }

    fn on_shed(&mut self, aqm: &mut A, m: &Moment, p: &Packet) {
        match self {
            Some(guide) => guide.on_shed(aqm, m, p),
            None => aqm.on_overflow(m, p),
        }
    }

    fn on_empty(&mut self, aqm: &mut A, all: bool, now: Time) {
        match self {
            Some(guide) => guide.on_empty(aqm, all, now),
            None => aqm.on_empty(now),
        }
    }

    fn on_beside(&mut self, now: Time, p: &Packet) {
        if let Some(guide) = self {
            guide.on_beside(now, p);
        }
    }

    fn on_idle(&mut self) {
        if let Some(guide) = self {
            guide.on_idle();
        }
    }

    fn on_wakeup(&mut self, aqm: &mut A, m: &Moment) {
        match self {
            Some(guide) => guide.on_wakeup(aqm, m),
            None => aqm.on_wakeup(m),
        }
    }

    fn setpoint(&self) -> Option<Duration> {
        self.as_ref().and_then(Guide::setpoint)
    }

    fn gauges(&self, plot: &mut dyn FnMut(&'static str, f64)) {
        if let Some(guide) = self {
            guide.gauges(plot);
        }
    }
}
