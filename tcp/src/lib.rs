//! Transport models: what end hosts do, without sockets, clocks or threads.
//!
//! A [`Sender`] and a [`Receiver`] are plain values. Their host (the simulator, a test) tells them the time,
//! carries [`Segment`]s one way and [`Ack`]s the other, and calls them when a timer they named is due.
//! They behave like Linux, whose constants they use; where an RFC differs, the documentation says so.
#![forbid(unsafe_code)]

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
    /// The spin bit (RFC 9000 section 17.4), for QUIC-like flows.
    pub spin: bool,
}

/// An acknowledgement on its way back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ack {
    /// The first segment that has not arrived.
    pub next: u64,
    /// Ranges that arrived above `next`, first and one past the last, the newest first (RFC 2018).
    /// Unused ones are empty.
    pub sacks: [(u64, u64); 3],
    /// The `sent` of the segment that this answers (RFC 7323 section 4.3).
    pub echo: Time,
    /// Segments that fit into the receiver beyond `next`.
    pub window: u32,
    /// Segments that arrived with CE so far (accurate ECN feedback).
    pub ce: u32,
    /// ECN echo (RFC 3168).
    pub ece: bool,
    /// The spin bit as the receiver sends it.
    pub spin: bool,
}
