//! Steers queues of the Linux kernel.
//!
//! The kernel works the queue; this crate reads its counters, asks the same [`Law`](weir_steer::Law) that
//! steers the queues of Weir, and moves the target of the kernel's AQM over netlink, or the rate of the
//! shaper above it. The queue goes on with its last target when this program is gone, for whatever reason.
//!
//! ```text
//!  find > Place            which queue, which shaper above it, how it was found
//!  look > Counters > Polled<Law> > target, rate > journal > change > the next look reads it back
//! ```
//!
//! * [`find`] says what an interface has, and why something cannot be steered.
//! * [`Steerer`] holds any number of queues of any number of interfaces; [`Steerer::turn`] is one look at
//!   all of them.
//! * [`Journal`] has what was found before it is changed, so that a later start puts it back after a kill.
//!
//! * [`Probe`] reads how long each packet waits, by tracepoints.
//! * [`Egress`] keeps a virtual queue where nothing waits: GSP as a BPF program ([`program`]) at the egress
//!   of an interface, steered by the same law. No queue is changed. Or it puts a queue in BPF ([`qdisc`]) with
//!   a shaper at the root, before which GSP decides.
//!
//! The kernel is behind the trait [`Kernel`], which a program in memory can play.
#![forbid(unsafe_code)]

mod egress;
mod find;
mod journal;
mod place;
mod probe;
pub mod program;
pub mod qdisc;
mod steerer;

pub use egress::{Egress, EgressError, EgressReport, EgressSetup, QueueReport, STALE_AFTER, SteeredProgram};
pub use find::{Found, Refused, Steerable, find, steerable};
pub use journal::{JOURNALS, Journal, left_behind, remove_vanished, restore_dead, restore_everywhere};
pub use place::{DelaysTold, Left, Place, Report, Shaper};
pub use probe::{Delays, Probe, Unprobed};
pub use steerer::{Event, LinkRate, News, Setup, Standing, Steerer};
pub use weir_tc::{Error, Kind, Link};

use weir_tc::{Interface, Message};

/// Whom queues are asked of and changed by.
pub trait Kernel {
    /// The interfaces.
    fn interfaces(&mut self) -> Result<Vec<Interface>, Error>;
    /// The disciplines of an interface, with counters.
    fn disciplines(&mut self, interface: i32) -> Result<Vec<Message>, Error>;
    /// The classes of an interface.
    fn classes(&mut self, interface: i32) -> Result<Vec<Message>, Error>;
    /// Whether filters of anybody hang on the clsact discipline of an interface.
    fn has_filters(&mut self, interface: i32) -> Result<bool, Error>;
    /// Changes what is there.
    fn change(&mut self, message: &Message) -> Result<(), Error>;
    /// Makes something in the place of what is there.
    fn make(&mut self, message: &Message) -> Result<(), Error>;
}

impl Kernel for Link {
    fn interfaces(&mut self) -> Result<Vec<Interface>, Error> {
        Link::interfaces(self)
    }

    fn disciplines(&mut self, interface: i32) -> Result<Vec<Message>, Error> {
        Link::disciplines(self, interface)
    }

    fn classes(&mut self, interface: i32) -> Result<Vec<Message>, Error> {
        Link::classes(self, interface)
    }

    fn has_filters(&mut self, interface: i32) -> Result<bool, Error> {
        Link::has_filters(self, interface)
    }

    fn change(&mut self, message: &Message) -> Result<(), Error> {
        Link::change(self, message)
    }

    fn make(&mut self, message: &Message) -> Result<(), Error> {
        Link::make(self, message)
    }
}

impl<K: Kernel + ?Sized> Kernel for &mut K {
    fn interfaces(&mut self) -> Result<Vec<Interface>, Error> {
        (**self).interfaces()
    }

    fn disciplines(&mut self, interface: i32) -> Result<Vec<Message>, Error> {
        (**self).disciplines(interface)
    }

    fn classes(&mut self, interface: i32) -> Result<Vec<Message>, Error> {
        (**self).classes(interface)
    }

    fn has_filters(&mut self, interface: i32) -> Result<bool, Error> {
        (**self).has_filters(interface)
    }

    fn change(&mut self, message: &Message) -> Result<(), Error> {
        (**self).change(message)
    }

    fn make(&mut self, message: &Message) -> Result<(), Error> {
        (**self).make(message)
    }
}
