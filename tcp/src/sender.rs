//! The sender: what may leave when, and what is made of ACKs.

mod ack;
mod info;
mod newreno;
mod recovery;
mod timer;

pub use info::SenderInfo;

use crate::config::{EcnMode, Pacing, Recovery, SenderConfig};
use crate::congestion::{Cause, Congestion, Control, Env, Window};
use crate::pacing::Pacer;
use crate::prr::Prr;
use crate::rate::RateSampler;
use crate::rtt::RttEstimator;
use crate::scoreboard::Scoreboard;
use crate::{Segment, congestion};
use recovery::Rack;
use timer::Timer;
use weir_units::{Duration, Ecn, Time};

/// State of loss recovery, as Linux names it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum State {
    /// All is well.
    Open,
    /// Something arrived out of order.
    Disorder,
    /// The window is being reduced after a mark or a loss that a tail probe repaired.
    Cwr,
    /// Losses are being repaired.
    Recovery,
    /// The retransmission timer expired.
    Loss,
}

/// A tail-loss probe that was not answered yet.
#[derive(Clone, Copy, Debug)]
struct Probe {
    /// `nxt` when it was sent.
    end: u64,
    /// Whether it was sent before.
    retransmission: bool,
}

/// What is needed to take a reduction back.
#[derive(Clone, Copy, Debug)]
struct Undo {
    cwnd: u32,
    ssthresh: Option<u32>,
    /// When the first retransmission of the episode left.
    retransmitted: Option<Time>,
}

/// What only a reduction needs; kept apart so that a flow without any is small, and kept until everything is
/// acknowledged, so that the next one allocates nothing.
#[derive(Clone, Debug, Default)]
struct Episode {
    prr: Prr,
    /// What stood before, where that may be taken back.
    undo: Option<Undo>,
}

/// The sending end of a flow. See the [crate's documentation](crate) for how to drive it.
#[derive(Clone, Debug)]
pub struct Sender {
    board: Scoreboard,
    window: Window,
    control: Control,
    state: State,
    /// Application data that has not been sent, in bytes.
    unsent: u64,
    unlimited: bool,
    mss: u32,
    burst: u32,
    /// Segments left of the burst under way.
    burst_left: u32,
    initial_window: u32,
    /// First segment that does not fit into the receiver.
    window_end: u64,
    ecn: EcnMode,
    spin: bool,
    sack: bool,
    slow_start_after_idle: bool,
    /// A reduction is to be told to the receiver (RFC 3168).
    send_cwr: bool,
    /// The next segment is a tail-loss probe, which the window does not hold back.
    probe_due: bool,
    /// The next retransmission leaves whatever the window (the fast retransmit of NewReno).
    force_resend: bool,
    /// The first ACK after a timeout decides whether the timeout was right.
    check_timeout: bool,
    cwnd_limited: bool,
    /// Most segments outstanding while the window was not the limit.
    most_out: u32,
    /// Until this is acknowledged, `cwnd_limited` stands.
    limit_end: u64,
    rtt: RttEstimator,
    rack: Rack,
    high_seq: u64,
    dup_acks: u32,
    /// Segments beyond the window that the first duplicate ACKs allow without SACK (RFC 3042).
    limited_transmit: u32,
    probe: Option<Probe>,
    /// Of the reduction under way or the last one.
    episode: Option<Box<Episode>>,
    timer: Option<Timer>,
    backoff: u8,
    pacer: Pacer,
    last_sent: Time,
    rates: Option<Box<RateSampler>>,
    ce_seen: u32,
    ack_number: Option<u32>,
    delivered: u64,
    totals: info::Totals,
    round: info::Round,
}

impl Sender {
    /// A sender at the start of a flow. The handshake is over, so that data may leave at once.
    pub fn new(config: &SenderConfig, congestion: Congestion, now: Time) -> Sender {
        let paced = match config.pacing {
            Pacing::Default => congestion.is_paced(),
            Pacing::On => true,
            Pacing::Off => false,
        };
        let initial_window = config.initial_window.max(1);
        let env = Env { now, hystart: config.hystart, paced, initial_window, seed: config.seed };
        let control = Control::new(congestion, &env);
        let rates = control.wants_rate().then(|| Box::new(RateSampler::new(now)));
        Sender {
            board: Scoreboard::new(),
            window: Window::new(initial_window),
            control,
            state: State::Open,
            unsent: 0,
            unlimited: false,
            mss: config.mss_payload.clamp(1, 65535),
            burst: config.burst.max(1),
            burst_left: 0,
            initial_window,
            window_end: u64::from(initial_window),
            ecn: config.ecn,
            spin: false,
            sack: config.recovery == Recovery::RackPrr,
            slow_start_after_idle: config.slow_start_after_idle,
            send_cwr: false,
            probe_due: false,
            force_resend: false,
            limited_transmit: 0,
            check_timeout: false,
            cwnd_limited: false,
            most_out: 0,
            limit_end: 0,
            rtt: RttEstimator::new(config.rto_min),
            rack: Rack::default(),
            high_seq: 0,
            dup_acks: 0,
            probe: None,
            episode: None,
            timer: None,
            backoff: 0,
            pacer: Pacer::new(paced, now),
            last_sent: now,
            rates,
            ce_seen: 0,
            ack_number: None,
            delivered: 0,
            totals: info::Totals::default(),
            round: info::Round::new(now),
        }
    }

    /// Appends `bytes` of application data. Segments are full but for the last before the data runs out.
    pub fn write(&mut self, bytes: u64) {
        self.unsent = self.unsent.saturating_add(bytes);
    }

    /// Starts or ends an application that always has data.
    pub fn set_unlimited(&mut self, on: bool) {
        self.unlimited = on;
    }

    /// Whether everything written was acknowledged, and no more will come by itself.
    pub fn is_done(&self) -> bool {
        self.unsent == 0 && !self.unlimited && self.board.una == self.board.nxt
    }

    /// The next segment that may leave now. To be called until it returns `None`.
    #[inline]
    pub fn poll(&mut self, now: Time) -> Option<Segment> {
        if self.probe_due {
            return self.send_probe(now);
        }
        if self.burst_left == 0 && !self.pacer.is_ready(now) {
            return None;
        }
        if self.board.pending > 0 {
            return self.resend(now);
        }
        self.send_new(now)
    }

    #[inline]
    fn send_new(&mut self, now: Time) -> Option<Segment> {
        if self.unsent == 0 && !self.unlimited {
            self.pause(false);
            return None;
        }
        let out = self.board.out();
        if out == 0 {
            self.restart_after_idle(now);
        }
        let in_flight = self.board.in_flight();
        let room = (self.window.cwnd + self.limited_transmit).saturating_sub(in_flight);
        let peer = self.window_end.saturating_sub(self.board.nxt);
        if room == 0 || peer == 0 || (self.burst > 1 && self.defers(room, peer, in_flight)) {
            self.pause(room == 0 || peer > u64::from(room));
            return None;
        }
        Some(self.emit_new(now))
    }

    #[inline]
    fn emit_new(&mut self, now: Time) -> Segment {
        let nothing_in_flight = self.board.out() == 0;
        let payload = if self.unlimited { self.mss } else { self.unsent.min(u64::from(self.mss)) as u32 };
        self.unsent = self.unsent.saturating_sub(u64::from(payload));
        let seq = self.board.send_new(now, payload);
        self.arm_after_send(now, nothing_in_flight);
        let ecn = match self.ecn {
            EcnMode::Off => Ecn::NotEct,
            EcnMode::Classic | EcnMode::Dctcp => Ecn::Ect0,
            EcnMode::Accurate => Ecn::Ect1,
        };
        let cwr = core::mem::take(&mut self.send_cwr);
        self.account_sent(now, seq, nothing_in_flight);
        Segment { seq, sent: now, payload, ecn, retransmission: false, cwr, spin: self.spin }
    }

    /// Bookkeeping that originals and retransmissions share.
    #[inline]
    fn account_sent(&mut self, now: Time, seq: u64, nothing_in_flight: bool) {
        self.last_sent = now;
        self.burst_left = self.burst_left.saturating_sub(1);
        self.pacer.on_sent(now);
        if self.state >= State::Cwr
            && let Some(episode) = &mut self.episode
        {
            episode.prr.out += 1;
        }
        if let Some(rates) = &mut self.rates {
            rates.on_sent(now, self.board.una, seq, nothing_in_flight);
        }
    }

    /// Sends the lowest lost segment again, if the window has room.
    fn resend(&mut self, now: Time) -> Option<Segment> {
        if self.board.in_flight() >= self.window.cwnd && !self.force_resend {
            self.pause(true);
            return None;
        }
        self.force_resend = false;
        let seq = self.board.next_lost()?;
        Some(self.emit_again(now, seq))
    }

    fn emit_again(&mut self, now: Time, seq: u64) -> Segment {
        self.board.send_again(now, seq);
        self.totals.retransmits += 1;
        if let Some(undo) = self.episode.as_mut().and_then(|e| e.undo.as_mut()) {
            undo.retransmitted = undo.retransmitted.or(Some(now));
        }
        self.account_sent(now, seq, false);
        if seq == self.board.una {
            self.arm_rto(now);
        }
        // Classic ECN must not be lost with a retransmission (RFC 3168 section 6.1.5); DCTCP and L4S do not care.
        let ecn = match self.ecn {
            EcnMode::Off | EcnMode::Classic => Ecn::NotEct,
            EcnMode::Dctcp => Ecn::Ect0,
            EcnMode::Accurate => Ecn::Ect1,
        };
        let payload = self.board.payload(seq);
        Segment { seq, sent: now, payload, ecn, retransmission: true, cwr: false, spin: self.spin }
    }

    /// New data if there is some, else the last segment once more (RFC 8985 section 7.3).
    fn send_probe(&mut self, now: Time) -> Option<Segment> {
        self.probe_due = false;
        let has_new = (self.unsent > 0 || self.unlimited) && self.board.nxt < self.window_end;
        let segment = if has_new {
            self.emit_new(now)
        } else if self.board.out() > 0 && !self.board.is_sacked(self.board.nxt - 1) {
            self.emit_again(now, self.board.nxt - 1)
        } else {
            return None;
        };
        self.probe = Some(Probe { end: self.board.nxt, retransmission: !has_new });
        self.totals.probes += 1;
        self.arm_rto(now);
        Some(segment)
    }

    /// Whether to wait until a larger burst can be cut: a full one, or a third of the window.
    fn defers(&mut self, room: u32, peer: u64, in_flight: u32) -> bool {
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
    fn pause(&mut self, cwnd_limited: bool) {
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
    fn is_cwnd_limited(&self) -> bool {
        self.cwnd_limited
            || (self.window.in_slow_start() && self.window.cwnd < self.most_out.saturating_mul(2))
    }

    /// The first segment after nothing was in flight.
    fn restart_after_idle(&mut self, now: Time) {
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
    fn remember_ssthresh(&mut self) {
        let kept = self.window.cwnd / 4 * 3;
        self.window.ssthresh = self.window.ssthresh.map(|s| s.max(kept));
    }

    /// What the congestion control makes of a reduction; applies to the window's threshold.
    fn reduce(&mut self, cause: Cause) {
        let ssthresh = self.control.ssthresh(&self.window, cause).max(congestion::CWND_MIN);
        self.totals.reductions += 1;
        self.episode.get_or_insert_default().prr = Prr::new(self.window.cwnd, ssthresh);
        if !self.control.owns_window() {
            self.window.ssthresh = Some(ssthresh);
        }
        self.send_cwr = matches!(self.ecn, EcnMode::Classic | EcnMode::Dctcp);
        self.window.restart_count();
    }
}
