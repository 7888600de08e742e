//! Looking at single packets: what a recorder implements.
//!
//! A simulation is compiled for its tap. Without one (`()`) nothing is left of the calls.

use crate::discipline::LinkQueue;
use crate::packet::{AckStore, Item};
use weir_aqm::{Cause, Packet};
use weir_sense::probe::Stamp;
use weir_units::{Duration, Time};

/// Where something happened: the link, and what its algorithm can tell about itself.
pub struct LinkContext<'a> {
    /// Number of the link.
    pub link: usize,
    /// When.
    pub now: Time,
    /// The queue afterwards, with the inner variables of its algorithm ([`LinkQueue::gauges`]).
    pub queue: &'a dyn LinkQueue,
}

/// A packet with what it carries.
#[derive(Clone, Copy)]
pub struct TappedPacket<'a> {
    /// What the algorithm knew of it.
    pub packet: &'a Packet,
    /// What it carries, and whose it is.
    pub item: &'a Item,
    /// Number of its flow.
    pub flow: u32,
    /// Where acknowledgements are kept.
    pub acks: &'a AckStore,
}

/// Looks at the packets of a run.
pub trait Tap {
    /// Whether anything is to be looked at; `false` removes the calls at compile time.
    const ACTIVE: bool = true;

    /// A packet was stored.
    fn on_enqueue(&mut self, at: &LinkContext<'_>, seen: TappedPacket<'_>) {
        let _ = (at, seen);
    }

    /// A packet was discarded.
    fn on_drop(&mut self, at: &LinkContext<'_>, seen: TappedPacket<'_>, cause: Cause) {
        let _ = (at, seen, cause);
    }

    /// A packet that departs now was marked CE.
    fn on_mark(&mut self, at: &LinkContext<'_>, seen: TappedPacket<'_>) {
        let _ = (at, seen);
    }

    /// The transmission of a packet begins; `marked` if it carries a mark of this link.
    fn on_depart(&mut self, at: &LinkContext<'_>, seen: TappedPacket<'_>, sojourn: Duration, marked: bool) {
        let _ = (at, seen, sojourn, marked);
    }

    /// The transmission of a probe begins. Of probes no more is shown.
    fn on_probe(&mut self, at: &LinkContext<'_>, packet: &Packet, stamp: &Stamp) {
        let _ = (at, packet, stamp);
    }
}

/// Looks at nothing.
impl Tap for () {
    const ACTIVE: bool = false;
}

impl<T: Tap> Tap for &mut T {
    const ACTIVE: bool = T::ACTIVE;

    fn on_enqueue(&mut self, at: &LinkContext<'_>, seen: TappedPacket<'_>) {
        (**self).on_enqueue(at, seen);
    }
    fn on_drop(&mut self, at: &LinkContext<'_>, seen: TappedPacket<'_>, cause: Cause) {
        (**self).on_drop(at, seen, cause);
    }
    fn on_mark(&mut self, at: &LinkContext<'_>, seen: TappedPacket<'_>) {
        (**self).on_mark(at, seen);
    }
    fn on_depart(&mut self, at: &LinkContext<'_>, seen: TappedPacket<'_>, sojourn: Duration, marked: bool) {
        (**self).on_depart(at, seen, sojourn, marked);
    }
    fn on_probe(&mut self, at: &LinkContext<'_>, packet: &Packet, stamp: &Stamp) {
        (**self).on_probe(at, packet, stamp);
    }
}
