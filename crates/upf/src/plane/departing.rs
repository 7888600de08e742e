//! A packet on its way out of a queue.

use super::queue_pool::BufferedPacket;
use weir_units::{Bytes, Time};

/// A packet that left its queue.
pub(super) struct Departing {
    pub held: BufferedPacket,
    pub line: usize,
    pub at: Time,
    pub len: Bytes,
    pub marked: bool,
}
