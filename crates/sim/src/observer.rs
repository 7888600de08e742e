//! What a link learns of bottlenecks behind it from the packets that pass: the code of
//! `weir-sense`, given what it would have read.

use crate::flow::Shows;
use crate::packet::Body;
use weir_config::{NetworkLink, Upstream};
use weir_measure::result::Observed;
use weir_sense::bottleneck::{Follower, PathModel};
use weir_sense::{Bottleneck, Coverage, Flows, Suspicions};
use weir_tcp::Ack;
use weir_units::{Bytes, Duration, Rate, Time};
use weir_wire::quic::QuicPackets;
use weir_wire::tcp::{Segment, Stamps};
use weir_wire::transport::Transport;

/// Flows that a link follows at once.
const FLOWS: usize = 64;

/// What a link that observes knows.
pub struct Observer {
    mode: Upstream,
    flows: Flows<FLOWS>,
    /// The bottleneck that the rate of the link follows, where it does.
    bottleneck: Option<Bottleneck>,
    /// The rate of the link when nothing holds it back.
    own: Rate,
}

/// A packet as an observer sees it.
pub(crate) struct Shown {
    pub shows: Shows,
    /// Bytes of a segment: sequence numbers count bytes on the wire and segments here.
    pub mss: u32,
}

impl Observer {
    /// What a link needs; `None` if it does not observe.
    pub fn of(setup: &NetworkLink) -> Option<Box<Observer>> {
        let mode = (setup.upstream != Upstream::Off).then_some(setup.upstream)?;
        let bottleneck = mode.law().map(|law| Bottleneck::new(Time::ZERO, law));
        Some(Box::new(Observer { mode, flows: Flows::default(), bottleneck, own: setup.rate }))
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
        self.bottleneck.as_ref().map(Bottleneck::follower)
    }

    /// What it learned, for results; round-trip times are not collected here.
    pub(crate) fn observed(&self) -> Observed {
        let coverage = self.coverage();
        let ms = |time: Option<Duration>| time.map(Duration::as_millis_f64);
        let path = self.follower().map(Follower::path);
        let rate = self.bottleneck.as_ref().and_then(|bottleneck| bottleneck.rate(self.own));
        Observed {
            mode: self.mode.to_string(),
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
        if let (Some(bottleneck), Body::Data(_)) = (&mut self.bottleneck, body) {
            bottleneck.arrived(now, len);
        }
    }

    /// The rate that the link sends at, where it follows.
    pub(crate) fn rate(&self) -> Option<Rate> {
        self.bottleneck.as_ref().map(|bottleneck| bottleneck.rate(self.own).unwrap_or(self.own))
    }

    /// What the dataplane and the user plane observe with, too.
    pub(crate) fn sense(&mut self) -> weir_sense::Observer<'_, FLOWS> {
        weir_sense::Observer { flows: &mut self.flows, bottleneck: self.bottleneck.as_mut() }
    }
}

impl Shown {
    pub fn data(&self, segment: &weir_tcp::Segment) -> Transport {
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

    /// A SACK block in bytes; the first one is that of the segment which arrived last.
    fn block(&self, (from, to): (u64, u64)) -> Option<(u32, u32)> {
        let bytes = |segments: u64| (segments as u32).wrapping_mul(self.mss);
        (from < to).then(|| (bytes(from), bytes(to)))
    }

    pub fn ack(&self, ack: &Ack) -> Transport {
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

#[cfg(test)]
mod tests {
    use super::*;
    use weir_sense::bottleneck::FollowLaw;
    use weir_sense::{PacketInfo, Way, trace};

    #[test]
    fn what_is_learned_of_a_trace_is_what_all_hosts_learn() {
        let bottleneck = Some(Bottleneck::new(Time::ZERO, FollowLaw::default()));
        let mut observer = Observer {
            mode: Upstream::Follow,
            flows: Flows::default(),
            bottleneck,
            own: Rate::from_mbps(1000),
        };
        let mut expected = trace::learned();
        for step in trace::trace() {
            let (len, transport) = (Bytes::new(step.packet().len() as u64), step.transport());
            let info = PacketInfo { flow: step.flow, len, transport: &transport };
            let learned = match step.way {
                Way::ToUser => {
                    observer.bottleneck.as_mut().unwrap().arrived(step.at, len);
                    observer.sense().forwarded(step.at, &info, false)
                }
                Way::FromUser => observer.sense().answered(step.at, &info, false),
            };
            assert_eq!(Some(learned), expected.next(), "{step:?}");
        }
    }
}
