//! What a link learns of bottlenecks behind it from the packets that pass: the code of
//! `weir-sense`, given what it would have read.

use crate::flow::Shows;
use crate::link::Link;
use crate::network::Simulation;
use crate::packet::{Body, Item, StoreIndex};
use crate::tap::Tap;
use weir_aqm::{Packet, Sample};
use weir_measure::result::Observed;
use weir_config::{NetworkLink, Upstream};
use weir_sense::bottleneck::{FollowConfig, Follower, PathModel};
use weir_wire::quic::QuicPackets;
use weir_wire::tcp::{Segment, Stamps};
use weir_wire::transport::Transport;
use weir_sense::{Coverage, Flows, Seen, Suspicions, Way};
use weir_tcp::Ack;
use weir_units::{Bytes, Duration, Rate, Time};

/// Flows that a link follows at once.
const FLOWS: usize = 64;

/// Least time that senders are given to answer.
const REACTION_MIN: Duration = Duration::from_millis(20);

/// What a link that observes knows.
pub struct Observer {
    flows: Flows<FLOWS>,
    follower: Option<Follower>,
    /// The rate of the link when nothing holds it back.
    own: Rate,
    /// What the algorithm was told that senders need to answer.
    reaction: Duration,
}

/// A packet as an observer sees it.
struct Shown {
    shows: Shows,
    /// Bytes of a segment: sequence numbers count bytes on the wire and segments here.
    mss: u32,
    /// Bytes by the accounting of the link that observes.
    len: u32,
    /// The same of a full segment.
    full: u64,
}

impl Observer {
    /// What a link needs; `None` if it does not observe.
    pub fn of(setup: &NetworkLink) -> Option<Box<Observer>> {
        let follower = match setup.upstream {
            Upstream::Off => return None,
            Upstream::Inform => None,
            Upstream::Follow => Some(Follower::new(FollowConfig::default(), Time::ZERO)),
        };
        Some(Box::new(Observer {
            flows: Flows::default(),
            follower,
            own: setup.rate,
            reaction: Duration::ZERO,
        }))
    }

    /// Which share of the bytes was measured.
    pub fn coverage(&self) -> Coverage {
        self.flows.coverage()
    }

    /// What did not add up.
    pub fn suspicions(&self) -> &Suspicions {
        self.flows.suspicions()
    }

    /// The bottleneck that the rate follows, where it does.
    pub fn follower(&self) -> Option<&Follower> {
        self.follower.as_ref()
    }

    /// What it learned, for results; round-trip times are not collected here.
    pub(crate) fn observed(&self) -> Observed {
        let coverage = self.coverage();
        let ms = |time: Option<Duration>| time.map(Duration::as_millis_f64);
        let path = self.follower().map(Follower::path);
        let rate = self.follower().and_then(Follower::rate).filter(|rate| *rate < self.own);
        Observed {
            mode: if self.follower.is_some() { Upstream::Follow } else { Upstream::Inform }.to_string(),
            path_rtt_ms: ms(path.and_then(PathModel::path_rtt)),
            average_rtt_ms: ms(path.and_then(PathModel::average)),
            target_rtt_ms: ms(path.and_then(PathModel::target_rtt)),
            rate_bps: rate.map(|rate| rate.as_bps_f64()),
            bytes: coverage.bytes,
            live_bytes: coverage.live,
            users: 1,
            memory_bytes: size_of::<Flows<FLOWS>>() as u64,
            ..Observed::default()
        }
    }

    /// A packet comes in.
    pub(crate) fn arrived(&mut self, now: Time, body: &Body, len: Bytes) {
        if let (Some(follower), Body::Data(_)) = (&mut self.follower, body) {
            follower.arrived(now, len);
        }
    }
}

impl Shown {
    fn data(&self, segment: &weir_tcp::Segment) -> Transport {
        match self.shows {
            Shows::Tcp => Transport::Tcp(Segment {
                seq: (segment.seq as u32).wrapping_mul(self.mss),
                ack: Some(1),
                len: self.mss,
                stamps: Some(Stamps { value: clock(segment.sent), echo: 0 }),
                ..Segment::default()
            }),
            Shows::Spin => quic(segment.spin, segment.seq == 0 && !segment.retransmission),
            Shows::Nothing => Transport::Other,
        }
    }

    /// What is known to have arrived, by the accounting of the link: TCP's numbers count payload.
    fn counted(&self, delivered: Bytes) -> Bytes {
        match self.shows {
            Shows::Tcp => Bytes::new(delivered.get() * self.full / u64::from(self.mss.max(1))),
            Shows::Spin | Shows::Nothing => delivered,
        }
    }

    /// A SACK block in bytes; the first one is that of the segment which arrived last.
    fn block(&self, (from, to): (u64, u64)) -> Option<(u32, u32)> {
        let bytes = |segments: u64| (segments as u32).wrapping_mul(self.mss);
        (from < to).then(|| (bytes(from), bytes(to)))
    }

    fn ack(&self, ack: &Ack) -> Transport {
        match self.shows {
            Shows::Tcp => Transport::Tcp(Segment {
                seq: 1,
                ack: Some((ack.next as u32).wrapping_mul(self.mss)),
                sacked: self.block(ack.sacks[0]),
                stamps: Some(Stamps { value: 0, echo: clock(ack.echo) }),
                ..Segment::default()
            }),
            Shows::Spin => quic(ack.spin, ack.next <= 2),
            Shows::Nothing => Transport::Other,
        }
    }
}

/// Handshakes are not modelled: the first packet and its acknowledgement stand for them.
fn quic(spin: bool, handshake: bool) -> Transport {
    Transport::Quic(QuicPackets { spin: Some(spin), handshake, ..QuicPackets::default() })
}

/// The clock of timestamps: milliseconds, as in Linux.
fn clock(at: Time) -> u32 {
    (at.as_nanos() / 1_000_000) as u32
}

impl<T: Tap> Simulation<T> {
    /// A packet leaves a link that observes; its transmission ends at `sent`.
    #[cold]
    pub(crate) fn observe_forwarded(&mut self, number: usize, item: &Item, packet: &Packet, sent: Time) {
        let Body::Data(segment) = &item.body else { return };
        let flow = self.hosts.inbound[item.connection as usize].flow;
        let kind = &self.kinds[self.flows[flow as usize].kind as usize];
        let (mss, key, len) = (kind.sender.mss_payload, packet.flow, packet.len);
        let link = &mut self.links[number];
        let full = link.counted(mss + kind.headers.data).get();
        let shown = Shown { shows: kind.shows, mss, len: len.get() as u32, full };
        let Some(observer) = &mut link.observer else { return };
        let seen = observer.flows.observe(sent, Way::ToUser, key, shown.len, &shown.data(segment));
        if let Some(follower) = &mut observer.follower {
            follower.forwarded(sent, len);
            if shown.shows == Shows::Nothing {
                follower.unseen(sent, len);
            }
        }
        learn(link, sent, &seen, &shown);
    }

    /// An acknowledgement that passes the node of a link that observes.
    #[cold]
    pub(crate) fn observe_acknowledged(&mut self, number: usize, item: &Item, kept: StoreIndex, ip: u32) {
        let side = &self.hosts.outbound[item.connection as usize];
        if side.generation != item.generation {
            return;
        }
        let kind = &self.kinds[self.flows[side.flow as usize].kind as usize];
        let (mss, key) = (kind.sender.mss_payload, side.identity.tuple);
        let link = &mut self.links[number];
        let full = link.counted(mss + kind.headers.data).get();
        let shown = Shown { shows: kind.shows, mss, len: link.counted(ip).get() as u32, full };
        let ack = shown.ack(&self.acks.look(kept));
        let Some(observer) = &mut link.observer else { return };
        let seen = observer.flows.observe(self.now, Way::FromUser, key, shown.len, &ack);
        if let (Some(bytes), true) = (seen.in_flight, seen.delivered > Bytes::ZERO) {
            link.queue.sample(self.now, Sample::Inflight { flow: key, bytes });
        }
        learn(link, self.now, &seen, &shown);
    }
}

/// Passes on what was seen: to the algorithm, and to the rate if it follows.
fn learn(link: &mut Link, now: Time, seen: &Seen, shown: &Shown) {
    if let Some(rtt) = seen.rtt.filter(|_| seen.enters_mean) {
        link.queue.sample(now, Sample::Rtt(rtt.rtt));
    }
    let waiting = link.waiting() > 0;
    let Some(observer) = &mut link.observer else { return };
    let own = observer.own;
    let Some(follower) = &mut observer.follower else { return };
    follower.delivered(now, shown.counted(seen.delivered));
    if let Some(rtt) = seen.rtt {
        follower.sample(now, rtt, seen.enters_mean);
    }
    follower.look(now, waiting);
    let rate = follower.rate().unwrap_or(own).min(own);
    let reaction = reaction(follower.path()).filter(|time| differs(*time, observer.reaction));
    if let Some(time) = reaction {
        observer.reaction = time;
        link.queue.sample(now, Sample::Reaction(time));
    }
    if rate != link.service.rate() {
        link.service.set_rate(rate);
        link.queue.set_rate(rate);
    }
}

/// The other half of the path is not seen; twice what is tolerated on this one stands for both.
fn reaction(path: &PathModel) -> Option<Duration> {
    path.target_rtt().map(|target| target.saturating_mul(2).max(REACTION_MIN))
}

/// Whether two times differ by more than an eighth: algorithms need not hear of less.
fn differs(one: Duration, other: Duration) -> bool {
    one.as_nanos().abs_diff(other.as_nanos()) > one.as_nanos() / 8
}
