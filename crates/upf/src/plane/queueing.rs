//! The queues of QoS flows: admission, AQM, rates, and when each may send.

pub(super) mod admit;
pub(super) mod bottleneck;
pub(super) mod bound;
pub(super) mod learn;
pub(super) mod parked;
pub(super) mod queue_pool;
pub(super) mod serve;
pub mod timing_wheel;
