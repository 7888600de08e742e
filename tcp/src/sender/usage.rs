//! Whether the window is used: what waits for a larger burst, whether the window may grow, and what an idle time
//! leaves of it.

use super::Sender;
use weir_units::{Duration, Time};

impl Sender {
    /// Whether to wait until a larger burst can be cut: a full one, or a third of the window.
    pub(super) fn defers(&mut self, room: u32, peer: u64, in_flight: u32) -> bool {
        if self.burst_left > 0 {
            return false;
        }
        let has = if self.unlimited { u64::MAX } else { self.unsent.div_ceil(u64::from(self.mss)) };
        let wanted = u64::from(self.burst.min((self.window.cwnd / 3).max(1))).min(has);
        if in_flight > 0 && u64::from(room).min(peer) < wanted {
            return true;
        }
        self.burst_left = self.burst;
        false
    }

    /// Nothing more leaves at this moment: notes whether the window is why (RFC 7661, in Linux's form).
    #[inline]
    pub(super) fn pause(&mut self, cwnd_limited: bool) {
        self.burst_left = 0;
        let out = self.board.out();
        let cwnd_limited = cwnd_limited || self.board.in_flight() >= self.window.cwnd;
        if cwnd_limited || self.board.una >= self.limit_end || (!self.cwnd_limited && out > self.most_out) {
            self.cwnd_limited = cwnd_limited;
            self.most_out = out;
            self.limit_end = self.board.nxt;
        }
        if cwnd_limited {
        } else if let Some(rates) = &mut self.rates
            && self.board.pending == 0
        {
            rates.on_app_limited(self.board.in_flight());
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
        self.remember_ssthresh();
        let least = self.initial_window.min(self.window.cwnd);
        let halvings = (idle.as_nanos() / rto.as_nanos().max(1)).min(31) as u32;
        self.window.cwnd = (self.window.cwnd >> halvings).max(least);
        self.cwnd_limited = false;
    }

    /// A flow that was not congested may come back to three quarters of its window in slow start.
    pub(super) fn remember_ssthresh(&mut self) {
        let kept = self.window.cwnd / 4 * 3;
        self.window.ssthresh = self.window.ssthresh.map(|s| s.max(kept));
    }
}
