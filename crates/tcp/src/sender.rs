//! The sender: what may leave when, and what is made of ACKs.

mod ack;
mod hold;
mod info;
mod newreno;
mod recovery;
mod timer;
mod transmit;
mod usage;

pub use info::SenderInfo;

use crate::config::{EcnMode, Pacing, Recovery, SenderConfig};
use crate::congestion::{CWND_MIN, Congestion, Control, Env, ReductionCause, Window};
use crate::nanos::OptionNanos;
use crate::pacing::Pacer;
use crate::prr::Prr;
use crate::rate::RateSampler;
use crate::rtt::RttEstimator;
use crate::scoreboard::Scoreboard;
use recovery::Rack;
use timer::Timer;
use weir_units::{Duration, Time};

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
    /// The first segment outstanding when the episode began.
    begin: u64,
    /// Retransmissions, those in flight at the beginning included, of which the receiver did not
    /// say that they were in vain; nothing as long as there are none.
    needed: Option<u32>,
}

impl Undo {
    /// Whether everything sent again had arrived (RFC 3708 section 3).
    fn was_in_vain(&self) -> bool {
        self.needed == Some(0)
    }
}

/// What only a reduction needs; kept apart so that a flow without any is small, and kept until everything is
/// acknowledged, so that the next one allocates nothing.
#[derive(Clone, Debug, Default)]
struct Episode {
    prr: Prr,
    /// What stood before, where that may be taken back.
    undo: Option<Undo>,
    /// When the first retransmission left since the sender last had none to wait for. It outlives a
    /// repair that the next one follows at once (Linux's `retrans_stamp`).
    first_again: OptionNanos,
    /// Until then no new segment leaves, since the network marked the only one of the window.
    hold: OptionNanos,
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
    mss: u16,
    burst: u16,
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
    /// Whether new data left since the use of the window was last noted.
    sent_new: bool,
    /// Most segments outstanding while the window was not the limit.
    most_out: u32,
    /// Until this is acknowledged, `cwnd_limited` stands.
    limit_end: u64,
    /// Most segments outstanding since the window was last used up, or shrunk, and when that was, in ms.
    used: u32,
    used_since: u32,
    rtt: RttEstimator,
    rack: Rack,
    high_seq: u64,
    dup_acks: u16,
    /// Segments beyond the window that the first duplicate ACKs allow without SACK (RFC 3042).
    limited_transmit: u8,
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
        let mss = config.mss_payload.clamp(1, 65535);
        let env = Env { now, paced, initial_window, mss, seed: config.seed };
        let control = Control::new(congestion, &config.control, &env);
        let rates = control.wants_rate().then(|| Box::new(RateSampler::new(now)));
        let mut window = Window::new(initial_window);
        if !control.owns_window() {
            window.least = config.window_min.clamp(1, CWND_MIN);
            window.ssthresh = config.ssthresh.map(|ssthresh| ssthresh.max(CWND_MIN));
        }
        Sender {
            board: Scoreboard::new(),
            window,
            control,
            state: State::Open,
            unsent: 0,
            unlimited: false,
            mss: u16::try_from(mss).unwrap_or(u16::MAX),
            burst: u16::try_from(config.burst.max(1)).unwrap_or(u16::MAX),
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
            sent_new: false,
            used: 0,
            used_since: usage::millis(now),
            most_out: 0,
            limit_end: 0,
            rtt: RttEstimator::new(config.rto),
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

    /// What the next ACK and the next segment need and lies outside of the sender, for hosts of many that ask
    /// for memory before they need it.
    #[inline]
    pub fn records_ahead(&self) -> [Option<&impl Sized>; 2] {
        self.board.ahead()
    }

    /// The handshake, which was over when the sender was made, had taken `rtt`; `cautious` if so many of
    /// its packets were lost that the first window is one segment (RFC 5681 section 3.1).
    pub fn opened(&mut self, rtt: Duration, cautious: bool) {
        self.rtt.sample(rtt, 0, 0);
        if cautious && !self.control.owns_window() {
            self.window.cwnd = 1;
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

    /// Whether the application has data that has not left.
    #[inline]
    fn has_data(&self) -> bool {
        self.unsent > 0 || self.unlimited
    }

    /// Whether everything written was acknowledged, and no more will come by itself.
    pub fn is_done(&self) -> bool {
        !self.has_data() && self.board.una == self.board.nxt
    }

    /// Bytes of application data that have not left.
    pub fn unsent(&self) -> u64 {
        self.unsent
    }

    /// Bytes of application data that have not left and that two windows do not take: as long as there are
    /// some, more data makes no difference.
    pub fn surplus(&self) -> u64 {
        self.unsent.saturating_sub(2 * u64::from(self.window.cwnd) * u64::from(self.mss))
    }

    /// What the congestion control makes of a reduction; applies to the window's threshold.
    fn reduce(&mut self, cause: ReductionCause) {
        let ssthresh = self.control.ssthresh(&self.window, cause).max(self.window.floor(cause));
        self.totals.reductions += 1;
        self.episode.get_or_insert_default().prr = Prr::new(self.window.cwnd, ssthresh);
        if !self.control.owns_window() {
            self.window.ssthresh = Some(ssthresh);
        }
        self.send_cwr = matches!(self.ecn, EcnMode::Classic | EcnMode::Dctcp);
        self.window.restart_count();
    }
}
