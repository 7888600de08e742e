//! Queueing disciplines of the Linux kernel over netlink: a typed codec, and a socket.
//!
//! [`Message`] is what rtnetlink says of a discipline or class: kind, options, counters, statistics. It is
//! read into types and written again byte for byte; what is not known is kept as it came. The kinds are
//! listed in one place ([`Kind`]). Everything but the socket works anywhere, on recorded messages for
//! instance.
//!
//! ```
//! use weir_tc::{Action, Kind, Message, Options, Subject, TcAttribute};
//! use weir_units::Duration;
//!
//! // What `tc qdisc change dev DEV root codel target 3ms` asks for.
//! let target = Options::with_target(&Kind::Codel, Duration::from_millis(3), None).expect("CoDel has a target");
//! let mut change = Message::new(Subject::Discipline, Action::New, 7);
//! change.attributes = vec![TcAttribute::Kind(Kind::Codel), TcAttribute::Options(target)];
//!
//! let mut bytes = Vec::new();
//! change.encode(&mut bytes);
//! let read = Message::decode(&bytes).expect("what is written can be read");
//! assert_eq!(read.options().and_then(Options::target), Some(Duration::from_millis(3)));
//! ```
//!
//! The types are those of `include/uapi/linux/pkt_sched.h`, `gen_stats.h` and `rtnetlink.h`, under the same
//! names where they are names of fields.
#![forbid(unsafe_code)]

mod attribute;
mod handle;
mod kinds;
mod message;
#[cfg(target_os = "linux")]
mod socket;

pub use attribute::{Attribute, Nested, Raw, Value};
pub use handle::Handle;
pub use kinds::*;
pub use message::{
    Action, Basic, Counters, DecodeError, LegacyStats, Message, QueueStats, Rates32, Rates64, Stat,
    StatAttribute, Subject, TcAttribute,
};
#[cfg(target_os = "linux")]
pub use socket::{Error, Interface, Link, Told, Watch};
