//! What can be chosen about the two ends of a flow.

use crate::congestion::{CWND_MIN, Parameters};
use crate::rtt::Rto;
use weir_units::Duration;

/// How the ends use the ECN field. Both ends of a flow need the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum EcnMode {
    /// Not at all.
    #[default]
    Off,
    /// RFC 3168: ECT(0); the receiver echoes until the sender says that it has reduced.
    Classic,
    /// RFC 8257: ECT(0); the receiver echoes the CE state of what it acknowledges.
    Dctcp,
    /// RFC 9331 and accurate ECN: ECT(1); the receiver counts.
    Accurate,
}

/// Whether segments are spread over the round trip.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Pacing {
    /// As the congestion control wants: BBR and Prague do, the others do not unless an `fq` qdisc is there.
    #[default]
    Default,
    /// Always: at the rate the congestion control asks for.
    On,
    /// Never: everything leaves as soon as the window has room.
    Off,
}

/// How losses are found and repaired.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Recovery {
    /// SACK, RACK-TLP (RFC 8985) and proportional rate reduction (RFC 6937), as Linux does.
    #[default]
    RackPrr,
    /// Without SACK: RFC 6582.
    NewReno,
}

/// What can be chosen about a sender. The default is a Linux host with offloads off and without `fq`.
#[derive(Clone, Debug)]
pub struct SenderConfig {
    /// Payload of a full segment in bytes: 1500 less 40 for headers and 12 for timestamps. 1 to 65535.
    pub mss_payload: u32,
    /// Segments sent in the first round trip (RFC 6928), and after an idle time. At least 1.
    pub initial_window: u32,
    /// Parameters of the congestion control.
    pub control: Parameters,
    /// Slow-start threshold to begin with, in segments; `None` to find out. Not for BBR.
    pub ssthresh: Option<u32>,
    /// Use of the ECN field.
    pub ecn: EcnMode,
    /// Whether segments are spread over the round trip.
    pub pacing: Pacing,
    /// Segments per burst of segmentation offload; 1 for none.
    pub burst: u32,
    /// How losses are found and repaired.
    pub recovery: Recovery,
    /// Segments of the smallest window after a mark: 2 as in Linux, or 1 as in RFC 3168, whose sender then
    /// answers further marks by waiting for its retransmission timer. 1 or 2. BBR has its own.
    pub window_min: u32,
    /// The retransmission timeout.
    pub rto: Rto,
    /// Whether the window shrinks back to the initial one over an idle time (RFC 5681 section 4.1).
    pub slow_start_after_idle: bool,
    /// Start of the dice of those congestion controls that need some.
    pub seed: u64,
}

impl Default for SenderConfig {
    fn default() -> SenderConfig {
        SenderConfig {
            mss_payload: 1448,
            initial_window: 10,
            control: Parameters::default(),
            ssthresh: None,
            ecn: EcnMode::Off,
            pacing: Pacing::Default,
            burst: 1,
            recovery: Recovery::RackPrr,
            window_min: CWND_MIN,
            rto: Rto::default(),
            slow_start_after_idle: true,
            seed: 0,
        }
    }
}

/// What can be chosen about a receiver. The default is a Linux host with offloads off.
#[derive(Clone, Debug)]
pub struct ReceiverConfig {
    /// Segments per ACK while all is well. With receive offload, the size of an aggregate. At least 1.
    pub ack_every: u32,
    /// Segments that fit into its buffer, at the start if the buffer grows. At least 1.
    pub window: u32,
    /// Segments that it may grow to with what arrives per round trip; `None` if it is constant.
    pub window_most: Option<u32>,
    /// How long an ACK may wait for its second segment. At most 4 s.
    pub delayed_ack: Duration,
    /// Segments that are acknowledged at once, at the start and after an idle time.
    pub quick_acks: u32,
    /// How long ACKs for segments out of order may be gathered after the third: in Linux a twentieth of the
    /// RTT, at most 1 ms. Zero sends each at once.
    pub sack_delay: Duration,
    /// Whether segments that had arrived before are reported (duplicate SACK, RFC 2883).
    pub dsack: bool,
    /// Whether segments are discarded whose timestamp is older than that of what arrived in order (RFC 7323
    /// section 5.3): what was held back on its way, if a retransmission overtook it. QUIC does not.
    pub paws: bool,
    /// Use of the ECN field.
    pub ecn: EcnMode,
}

impl Default for ReceiverConfig {
    fn default() -> ReceiverConfig {
        ReceiverConfig {
            ack_every: 2,
            window: 1 << 20,
            window_most: None,
            delayed_ack: Duration::from_millis(40),
            quick_acks: 16,
            sack_delay: Duration::from_millis(1),
            dsack: true,
            paws: true,
            ecn: EcnMode::Off,
        }
    }
}
