//! Flows: what they are made of, and what came of them.

use crate::packet::ConnectionId;
use std::sync::Arc;
use weir_config::{ExtraDelay, Traffic};
use weir_measure::Window;
use weir_tcp::sources::{PageConfig, VideoConfig, WebConfig};
use weir_tcp::{Ack, Congestion, ReceiverConfig, SenderConfig};
use weir_units::{Duration, Time};
use weir_wire::dscp::Dscp;

/// What flows of one kind have in common.
#[derive(Clone, Debug)]
pub struct FlowKind {
    /// Number of the `[[flows]]` table that they are of. Those of a table with `pairs` are several kinds.
    pub group: u32,
    /// Links that data passes, in order.
    pub forward: Vec<u32>,
    /// Links that acknowledgements pass, in order.
    pub back: Vec<u32>,
    /// What is sent.
    pub traffic: Traffic,
    /// Pages that readers load; `None` for other traffic.
    pub pages: Option<Arc<WebConfig>>,
    /// Pages of parallel objects that readers load; `None` for other traffic.
    pub parallel: Option<Arc<PageConfig>>,
    /// Video that players load; `None` for other traffic.
    pub video: Option<Arc<VideoConfig>>,
    /// Congestion control; `None` for datagrams.
    pub congestion: Option<Congestion>,
    /// The sending hosts.
    pub sender: SenderConfig,
    /// Number of the first kind between the same two hosts that remembers its connections, if this one does:
    /// they share what is remembered.
    pub memory: Option<u32>,
    /// The receiving hosts.
    pub receiver: ReceiverConfig,
    /// Whether connections are opened by a handshake before data is sent.
    pub handshake: bool,
    /// Sizes of headers.
    pub headers: Headers,
    /// Most random delay of an acknowledgement in the sending host.
    pub host_jitter: Duration,
    /// When the flows stop, if before the end.
    pub stop: Option<Time>,
    /// The DSCP with which their packets come to each link of `forward`.
    pub comes_forward: Vec<Dscp>,
    /// The same of the links of `back`.
    pub comes_back: Vec<Dscp>,
    /// What an observer can read of their packets.
    pub shows: Shows,
    /// Links on the way back, each with a link on the way there that begins at the same node and observes:
    /// it sees the acknowledgements that enter the other one.
    pub sights: Vec<(u32, u32)>,
}

/// What an observer can read of packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shows {
    /// The numbers of TCP.
    Tcp,
    /// The spin bit of QUIC.
    Spin,
    /// QUIC without it: a bit that is random.
    RandomBit,
    /// Nothing.
    Nothing,
}

/// Bytes of an IP packet besides the payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Headers {
    /// With data.
    pub data: u32,
    /// Of an acknowledgement without SACK blocks.
    pub ack: u32,
    /// Of a SYN, and of the answer; TCP alone has them.
    pub opening: u32,
    /// Whether SACK blocks take room.
    pub sacks: bool,
    /// Whether acknowledgements are reports, with room for each packet that they tell of.
    pub reports: bool,
}

impl Headers {
    /// TCP with timestamps over an IP header of that size. Largest segment, SACK and window scale are told in
    /// the SYN: 20 bytes of options.
    pub const fn tcp(ip: u32) -> Headers {
        Headers { data: ip + 32, ack: ip + 32, opening: ip + 40, sacks: true, reports: false }
    }

    /// UDP over an IP header of that size.
    pub const fn udp(ip: u32) -> Headers {
        Headers { data: ip + 8, ack: ip + 8, opening: 0, sacks: false, reports: false }
    }

    /// QUIC with a connection identifier of 8 bytes, packet numbers of 2 and an authentication tag of 16
    /// (RFC 9000 section 17.3.1, RFC 9001 section 5.3) and a frame header; acknowledgements with an ACK
    /// frame.
    pub const fn quic(ip: u32) -> Headers {
        Headers { data: ip + 8 + 27 + 8, ack: ip + 8 + 27 + 10, opening: 0, sacks: false, reports: false }
    }

    /// RTP, whose header counts as payload, over UDP; reports with 20 bytes of RTCP and two for each packet
    /// (RFC 8888, section 3.1).
    pub const fn rtp(ip: u32) -> Headers {
        Headers { ack: ip + 8 + 20, reports: true, ..Headers::udp(ip) }
    }

    /// Size of an acknowledgement with its SACK blocks (RFC 2018: 2 bytes, 8 for each, padded to 4). The
    /// window of a report is the number of packets that it tells of.
    pub fn ack_size(&self, ack: &Ack) -> u32 {
        if self.reports {
            return self.ack + (2 * ack.window).next_multiple_of(4);
        }
        let blocks = ack.sacks.iter().filter(|(first, end)| first != end).count() as u32;
        if self.sacks && blocks > 0 { self.ack + 4 + 8 * blocks } else { self.ack }
    }
}

/// A flow: one connection, or one after the other.
#[derive(Clone, Debug)]
pub struct Flow {
    /// Number of its [`FlowKind`].
    pub kind: u32,
    /// Delays beside those of the links.
    pub extra: ExtraDelay,
    /// The connection opened last, while it is open.
    pub latest: Option<ConnectionId>,
    /// Connections opened so far.
    pub opened: u32,
    /// Connections open now.
    pub open: u32,
    /// Transfers left out because too many were open.
    pub skipped: u32,
    /// What came of it.
    pub stats: FlowStats,
    active_since: Time,
}

/// What came of a flow.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct FlowStats {
    /// Bytes received in the measured part.
    pub bytes: u64,
    /// Time with a connection open in the measured part.
    pub active: Duration,
    /// Segments sent again by connections that are closed.
    pub retransmits: u64,
    /// Transfers that were completed.
    pub completed: u32,
    /// Time that completed transfers took, from their start to the arrival of the last byte.
    pub transfer_time: Duration,
    /// Sum of the smoothed RTTs at the samples, in seconds.
    pub rtt_sum: f64,
    /// Samples with an RTT.
    pub rtt_samples: u32,
}

impl Flow {
    /// A flow that has not started.
    pub fn new(kind: u32, extra: ExtraDelay) -> Flow {
        Flow {
            kind,
            extra,
            latest: None,
            opened: 0,
            open: 0,
            skipped: 0,
            stats: FlowStats::default(),
            active_since: Time::ZERO,
        }
    }

    /// A connection of it opens.
    pub fn opens(&mut self, now: Time, connection: ConnectionId) {
        if self.open == 0 {
            self.active_since = now;
        }
        self.open += 1;
        self.opened += 1;
        self.latest = Some(connection);
    }

    /// A connection of it closes.
    pub fn closes(&mut self, at: Time, connection: ConnectionId, window: Window) {
        self.open -= 1;
        if self.latest == Some(connection) {
            self.latest = None;
        }
        if self.open == 0 {
            let (from, until) = (self.active_since.max(window.from), at.min(window.until));
            self.stats.active += until.since(from);
        }
    }
}
