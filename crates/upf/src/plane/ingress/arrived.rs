//! A packet on its way to a queue.

use weir_dataplane::Frame;
use weir_units::Time;

/// A packet whose session is known.
#[derive(Clone, Copy)]
pub(in crate::plane) struct Arrived {
    pub frame: Frame,
    /// Of its flow, the same for both directions.
    pub hash: u32,
    /// Its traffic class octet.
    pub tos: u8,
    /// Hops that it may still go.
    pub hops: u8,
    pub at: Time,
    /// Where it came in.
    pub port: usize,
}
