//! Sending packets: those that need not wait at once, and those that leave a queue.

pub(super) mod departing;
pub(super) mod express;
pub(super) mod pass;
