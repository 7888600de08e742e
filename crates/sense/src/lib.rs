//! What packets tell of a path.
//!
//! Sans-IO: times and packets are arguments, estimates are values. No clock, no allocation, no dice, so that
//! the simulator and the live link sense with the same code.
//!
//! `weir_wire` reads packets, [`Flows`] turns those of a user into round-trip times and bytes in flight, and
//! [`bottleneck`] says what that means for the bottleneck on the way to the user. [`Observer`] joins both,
//! for every host that observes.
//!
//! ```
//! use weir_sense::WindowedMin;
//! use weir_units::{Duration, Time};
//!
//! // The least round-trip time of the last ten seconds: that of the path with its queues empty.
//! let mut base = WindowedMin::new(Duration::from_secs(10));
//! base.insert(Time::ZERO, Duration::from_millis(30));
//! base.insert(Time::from_nanos(1_000_000_000), Duration::from_millis(80));
//! assert_eq!(base.get(Time::from_nanos(2_000_000_000)), Some(Duration::from_millis(30)));
//! ```
#![no_std]
#![forbid(unsafe_code)]
#![deny(clippy::disallowed_methods)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

#[cfg(test)]
extern crate std;

pub mod bottleneck;
mod flows;
mod history;
mod observer;
pub mod probe;
mod quic;
mod rate;
mod recent;
mod srtt;
mod suspicions;
mod tcp;
mod timed;
#[cfg(any(test, feature = "test-trace"))]
pub mod trace;
mod windowed;

pub use flows::{Coverage, Flows, LIVE, SILENT, Seen};
pub use observer::{Bottleneck, Learned, Observer, PacketInfo};
pub use quic::QuicFlow;
pub use recent::{Came, Recent};
pub use srtt::Srtt;
pub use suspicions::Suspicions;
pub use tcp::TcpFlow;
pub use windowed::{WindowedMax, WindowedMin};

use weir_units::Duration;

/// Flows that a link measures at once where all share a bottleneck.
pub const FLOWS: usize = 64;
/// Flows of each user that a link measures at once where users have bottlenecks of their own.
pub const FLOWS_EACH: usize = 8;

/// Which way a packet goes, seen from the observer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// To the user, through the bottleneck in question.
    ToUser,
    /// From the user.
    FromUser,
}

/// A round-trip time that was measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rtt {
    /// The time.
    pub rtt: Duration,
    /// How long the receiver held an acknowledgement before that: it waits for another segment, and senders
    /// count that, too.
    pub held: Duration,
    /// It may hold a wait that has nothing to do with the path: good for a minimum, bad for a mean.
    pub doubtful: bool,
}
