//! What is counted of packets that were not forwarded.

pub(super) mod faults;
