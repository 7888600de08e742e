//! A packet on its way out of a queue.

use crate::plane::queueing::queue_pool::BufferedPacket;
use weir_units::{Bytes, Time};

/// A packet that left its queue.
pub(in crate::plane) struct Departing {
    pub held: BufferedPacket,
    pub line: usize,
    pub at: Time,
    pub len: Bytes,
    pub marked: bool,
}
