//! What a sensor counts.

use weir_units::Bytes;

/// What a sensor saw.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Data packets it was told of.
    pub data_packets: u64,
    /// Their bytes.
    pub data_bytes: Bytes,
    /// Probes sent.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: Bytes,
    /// Probes that came back, each counted once.
    pub returned: u64,
    /// Probes given up.
    pub lost: u64,
    /// Of those that came back, given up before.
    pub late: u64,
    /// Of those that came back, overtaken by a probe sent later.
    pub reordered: u64,
    /// Of those that came back, with another class than they were sent in.
    pub remapped: u64,
    /// Replies to a probe that was back already.
    pub duplicated: u64,
    /// Replies with a wrong nonce or timestamp.
    pub forged: u64,
    /// Replies to no recent probe.
    pub unknown: u64,
    /// Replies from the future.
    pub future: u64,
}
