//! Whether the window is used: what waits for a larger burst, whether the window may grow, and what an idle
//! time leaves of it.

use super::{Sender, State};
use weir_units::{Duration, Time};

/// After a pause this long, segments do not wait for others of their burst.
const BURST_PAUSE: Duration = Duration::from_millis(1);
/// Segments of the smallest burst (`tcp_min_tso_segs`).
const BURST_MIN: u32 = 2;

/// Whole milliseconds, which are as fine as a timeout needs and go on for weeks.
pub(super) fn millis(now: Time) -> u32 {
    (now.as_nanos() / 1_000_000) as u32
}

impl Sender {
    /// Whether to wait until a larger burst can be cut: a full one, or a third of the window.
    ///
    /// Nothing waits while losses are repaired, after a pause, or when the next ACK is far away: the burst
    /// would be no larger and only later.
    pub(super) fn defers(&mut self, now: Time, room: u32, peer: u64) -> bool {
        if self.burst_left > 0 {
            return false;
        }
        let burst = self.burst_now();
        let has = if self.unlimited { u64::MAX } else { self.unsent.div_ceil(u64::from(self.mss)) };
        let wanted = u64::from(burst.min((self.window.cwnd / 3).max(1))).min(has);
        if u64::from(room).min(peer) < wanted && self.may_wait(now) {
            return true;
        }
        self.burst_left = burst;
        false
    }

    fn may_wait(&self, now: Time) -> bool {
        if self.board.out() == 0 || self.state >= State::Recovery || now.since(self.last_sent) > BURST_PAUSE {
            return false;
        }
        let age = now.since(self.board.sent(self.board.una));
        self.rtt.srtt().is_none_or(|srtt| age.as_nanos() >= srtt.as_nanos() / 2)
    }

    /// Segments of a burst: what the pacing rate sends in 1/1024 s, and on short paths a share of the
    /// largest, which halves with every 512 us of the smallest RTT.
    fn burst_now(&self) -> u32 {
        let out = self.board.out();
        let Some(rate) = self.control.pacing_rate(&self.window, self.rtt.srtt(), out) else {
            return self.burst.into();
        };
        let largest = u32::from(self.burst);
        let halvings = self.rtt.min().map_or(0, |min| min.as_nanos() / 512_000);
        let near = u32::try_from(halvings).ok().and_then(|n| largest.checked_shr(n)).unwrap_or(0);
        let size = ((rate / 1024.0) as u32).saturating_add(near);
        size.max(BURST_MIN).min(largest)
    }

    /// Nothing more leaves at this moment: notes whether the window is why (RFC 7661, in Linux's form).
    #[inline]
    pub(super) fn pause(&mut self, now: Time, cwnd_limited: bool) {
        self.burst_left = 0;
        let in_flight = self.board.in_flight();
        let cwnd_limited = cwnd_limited || in_flight >= self.window.cwnd;
        // An ACK after which nothing could leave tells nothing about the use of the window.
        if core::mem::take(&mut self.sent_new) || (cwnd_limited && self.has_data()) {
            self.validate_window(now, cwnd_limited);
        }
        let starved = !self.unlimited && self.unsent < u64::from(self.mss);
        if let Some(rates) = &mut self.rates
            && starved
            && !cwnd_limited
            && self.board.pending == 0
        {
            rates.on_app_limited(in_flight);
        }
    }

    #[inline]
    fn validate_window(&mut self, now: Time, cwnd_limited: bool) {
        let out = self.board.out();
        if cwnd_limited || self.board.una >= self.limit_end || (!self.cwnd_limited && out > self.most_out) {
            self.cwnd_limited = cwnd_limited;
            self.most_out = out;
            self.limit_end = self.board.nxt;
        }
        if self.is_cwnd_limited() {
            self.used = 0;
            self.used_since = millis(now);
            return;
        }
        self.used = self.used.max(out);
        let since = millis(now).wrapping_sub(self.used_since);
        if Duration::from_millis(since.into()) >= self.rtt.rto() {
            self.shrink_to_use(now);
        }
    }

    /// A window that the application did not use up for a timeout says nothing about the path any more: it
    /// goes half of the way to what was used (RFC 2861 section 3.2).
    fn shrink_to_use(&mut self, now: Time) {
        let used = core::mem::take(&mut self.used).max(self.initial_window);
        self.used_since = millis(now);
        if self.slow_start_after_idle
            && self.state == State::Open
            && !self.has_data()
            && !self.control.owns_window()
            && used < self.window.cwnd
        {
            self.window.ssthresh = self.ssthresh_to_return();
            self.window.cwnd = used + (self.window.cwnd - used) / 2;
        }
    }

    /// Whether the window may grow: it was used up, or in slow start more than half of it was.
    #[inline]
    pub(super) fn is_cwnd_limited(&self) -> bool {
        self.cwnd_limited
            || (self.window.in_slow_start() && self.window.cwnd < self.most_out.saturating_mul(2))
    }

    /// The first segment after nothing was in flight.
    pub(super) fn restart_after_idle(&mut self, now: Time) {
        let idle = now.since(self.last_sent);
        if idle == Duration::ZERO || self.board.nxt == 0 {
            return;
        }
        self.control.on_idle(now, idle);
        let rto = self.rtt.rto();
        if !self.slow_start_after_idle || self.control.owns_window() || idle <= rto {
            return;
        }
        // One halving per timeout, down to the initial window; three quarters of it become the threshold.
        self.window.ssthresh = self.ssthresh_to_return();
        let least = self.initial_window.min(self.window.cwnd);
        let halvings = (idle.as_nanos() / rto.as_nanos().max(1)).min(31) as u32;
        self.window.cwnd = (self.window.cwnd >> halvings).max(least);
        self.used = 0;
        self.used_since = millis(now);
    }

    /// A flow that was not congested may come back to three quarters of its window in slow start.
    pub(super) fn ssthresh_to_return(&self) -> Option<u32> {
        let cwnd = self.window.cwnd;
        self.window.ssthresh.map(|s| s.max(cwnd / 2 + cwnd / 4))
    }
}
