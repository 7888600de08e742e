//! The queue in packets of mean size, for laws whose gains are meant per packet.

use crate::View;
use weir_units::{Bytes, Duration, Rate};

/// How many packets a queue holds: its bytes over the mean size, or what is counted.
pub(crate) fn length(queue: &View, mean: Bytes, count_bytes: bool) -> f64 {
    if count_bytes { queue.backlog.get() as f64 / mean.get() as f64 } else { f64::from(queue.packets) }
}

/// How many packets the link sends in that time.
pub(crate) fn sent_in(time: Duration, rate: Rate, mean: Bytes) -> f64 {
    rate.as_bps_f64() * time.as_secs_f64() / (8.0 * mean.get() as f64)
}
