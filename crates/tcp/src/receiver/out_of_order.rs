//! What arrived out of order.

use super::right_sizing::RightSizing;
use crate::ranges::{Range, RangeSet};
use std::collections::BTreeMap;

/// What arrived out of order.
#[derive(Clone, Debug, Default)]
pub(super) struct OutOfOrder {
    /// What makes the window grow, if it does.
    pub(super) sizing: Option<RightSizing>,
    pub(super) ranges: RangeSet,
    /// Payload of a segment that waits, and of those that differ.
    pub(super) unit: u32,
    pub(super) odd: BTreeMap<u64, u32>,
    /// Ranges to report, the newest first.
    pub(super) recent: [Range; 3],
}

impl OutOfOrder {
    /// Payload of the segments from `next` up to `end`, which stop waiting.
    pub(super) fn take(&mut self, next: u64, end: u64) -> u64 {
        let mut bytes = (end - next) * u64::from(self.unit);
        while let Some(entry) = self.odd.first_entry().filter(|e| *e.key() < end) {
            bytes = bytes + u64::from(entry.remove()) - u64::from(self.unit);
        }
        self.ranges.remove_below(end);
        bytes
    }

    /// Moves a range to the front of those reported (RFC 2018 section 4).
    pub(super) fn remember(&mut self, range: Range, next: u64) {
        let old = core::mem::take(&mut self.recent);
        let others = old.into_iter().filter(|r| r.1 > next && (r.1 <= range.0 || range.1 <= r.0));
        let front = (range.0 > next).then_some(range);
        for (slot, r) in self.recent.iter_mut().zip(front.into_iter().chain(others)) {
            *slot = r;
        }
    }
}
