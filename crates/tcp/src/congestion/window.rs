//! The congestion window, how it grows, and how far it may fall.

use super::{CWND_MIN, ReductionCause};

/// The congestion window and what delimits slow start.
#[derive(Clone, Debug)]
pub struct Window {
    /// Segments that may be in flight.
    pub cwnd: u32,
    /// Where slow start ends; `None` before the first reduction.
    pub ssthresh: Option<u32>,
    /// The smallest window after a mark; at least 1.
    pub least: u32,
    /// Segments acknowledged towards the next growth by one.
    count: u32,
}

impl Window {
    /// The window at the start of a flow.
    pub fn new(cwnd: u32) -> Window {
        Window { cwnd: cwnd.max(1), ssthresh: None, least: CWND_MIN, count: 0 }
    }

    /// The smallest window after a reduction. What was lost is retransmitted, which a mark does not ask for:
    /// so only after a mark one segment may be enough.
    #[inline]
    pub fn floor(&self, cause: ReductionCause) -> u32 {
        if cause == ReductionCause::Mark { self.least } else { CWND_MIN }
    }

    /// Whether a mark cannot make it any smaller, since it is a single segment.
    #[inline]
    pub fn is_lowest(&self) -> bool {
        self.cwnd.max(self.least) == 1
    }

    /// Whether the window is below the slow-start threshold.
    #[inline]
    pub fn in_slow_start(&self) -> bool {
        self.ssthresh.is_none_or(|s| self.cwnd < s)
    }

    /// Grows by one per acknowledged segment up to the threshold; returns the segments left over.
    #[inline]
    pub fn slow_start(&mut self, acked: u32) -> u32 {
        let room = self.ssthresh.map_or(u32::MAX, |s| s.saturating_sub(self.cwnd));
        let used = acked.min(room);
        self.cwnd = self.cwnd.saturating_add(used);
        acked - used
    }

    /// Grows by one per `per` acknowledged segments.
    #[inline]
    pub fn grow(&mut self, acked: u32, per: u32) {
        let per = per.max(1);
        // What was saved up towards a slower growth buys one segment, not a burst.
        if self.count >= per {
            self.count = 0;
            self.cwnd = self.cwnd.saturating_add(1);
        }
        self.count += acked;
        if self.count >= per {
            self.cwnd = self.cwnd.saturating_add(self.count / per);
            self.count %= per;
        }
    }

    /// Forgets what was saved up towards growth.
    pub fn restart_count(&mut self) {
        self.count = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_start_stops_at_the_threshold() {
        let mut w = Window::new(10);
        assert_eq!(w.slow_start(10), 0);
        w.ssthresh = Some(25);
        assert_eq!(w.slow_start(10), 5);
        assert_eq!(w.cwnd, 25);
        assert!(!w.in_slow_start());
    }

    #[test]
    fn one_segment_is_the_floor_of_marks_alone_and_only_where_chosen() {
        let floors = |w: &Window| {
            [ReductionCause::Mark, ReductionCause::Loss, ReductionCause::Timeout].map(|cause| w.floor(cause))
        };
        let mut w = Window::new(1);
        assert_eq!((floors(&w), w.is_lowest()), ([2, 2, 2], false));
        w.least = 1;
        assert_eq!((floors(&w), w.is_lowest()), ([1, 2, 2], true));
        w.cwnd = 2;
        assert!(!w.is_lowest());
    }

    #[test]
    fn linear_growth_counts_acknowledged_segments() {
        let mut w = Window::new(10);
        for _ in 0..5 {
            w.grow(2, 10);
        }
        assert_eq!(w.cwnd, 11);
        w.grow(25, 10);
        assert_eq!(w.cwnd, 13);
    }
}
