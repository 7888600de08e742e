//! Transport models: what end hosts do, without sockets, clocks or threads.
//!
//! A [`Sender`] and a [`Receiver`] are plain values. Their host (the simulator, a test) tells them the time,
//! carries [`Segment`]s one way and [`Ack`]s the other, and calls them when a timer they named is due:
//!
//! ```text
//! sender.poll(now)        until None: segments to put on the link
//! receiver.on_segment(..) for each that arrives; an ACK at once, or none
//! sender.on_ack(..)       for each ACK that arrives; then poll again
//! next_timeout()          of both, whenever one of the above was called; on_timeout when due; then poll again
//! ```
//!
//! They behave like Linux, whose constants they use; `docs/tcp.md` says where they do not.
//! The sources of [`sources`] are what runs on top of a sender, or sends without one.
//!
//! ```
//! use weir_tcp::{Congestion, Sender, SenderConfig};
//! use weir_units::Time;
//!
//! let cubic = Congestion::by_name("cubic").expect("it is in the list");
//! let mut sender = Sender::new(&SenderConfig::default(), cubic, Time::ZERO);
//! sender.set_unlimited(true);
//! let first = sender.poll(Time::ZERO).expect("the initial window is open");
//! assert_eq!(first.seq, 0);
//! ```
#![forbid(unsafe_code)]
#![deny(clippy::disallowed_methods)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

mod config;
pub mod congestion;
mod memory;
mod nanos;
mod pacing;
mod prr;
mod ranges;
mod rate;
mod receiver;
mod ring;
mod rtt;
mod scoreboard;
mod sender;
pub mod sources;

pub use config::{EcnMode, Pacing, ReceiverConfig, Recovery, SenderConfig};
pub use congestion::Congestion;
pub use memory::PathMemory;
pub use prr::Prr;
pub use rate::{HeavyLoss, RateSample};
pub use receiver::Receiver;
pub use rtt::{Rto, RttEstimator};
pub use sender::{Sender, SenderInfo, State};

use weir_units::{Ecn, Time};

/// A data segment on its way. Sequence numbers count segments, not bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// Its number, from 0.
    pub seq: u64,
    /// When it was handed to the network: the timestamp option (RFC 7323).
    pub sent: Time,
    /// Bytes of payload.
    pub payload: u32,
    /// The ECN field it is sent with; the network may turn it into CE.
    pub ecn: Ecn,
    /// Whether it was sent before.
    pub retransmission: bool,
    /// Congestion window reduced (RFC 3168 section 6.1.2).
    pub cwr: bool,
    /// The spin bit (RFC 9000 section 17.4): the sender is the client and inverts what it last received.
    pub spin: bool,
}

/// An acknowledgement on its way back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ack {
    /// The first segment that has not arrived.
    pub next: u64,
    /// Ranges that arrived above `next`, first and one past the last, the newest first (RFC 2018).
    /// Unused ones are empty. One that lies below `next` or within the second comes first and reports what
    /// arrived twice (RFC 2883).
    pub sacks: [(u64, u64); 3],
    /// The `sent` of the segment that this answers (RFC 7323 section 4.3).
    pub echo: Time,
    /// Segments that fit into the receiver beyond `next`.
    pub window: u32,
    /// Segments that arrived with CE so far, modulo 2^32 (accurate ECN feedback).
    pub ce: u32,
    /// The number of this ACK, modulo 2^32: tells a late one from the newest, as QUIC's packet number does.
    pub number: u32,
    /// ECN echo (RFC 3168; with [`EcnMode::Dctcp`] as in RFC 8257).
    pub ece: bool,
    /// The spin bit: the receiver is the server and reflects what it last received.
    pub spin: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_carried_and_what_idles_is_small() {
        assert!(size_of::<Segment>() <= 40);
        assert!(size_of::<Ack>() <= 80);
        let idle = size_of::<Sender>() + size_of::<Receiver>();
        assert!(idle <= 700, "{idle}");
    }
}
