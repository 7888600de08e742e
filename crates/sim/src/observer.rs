//! What a link learns of bottlenecks behind it from the packets that pass: the code of
//! `weir-sense`, given what it would have read.

use crate::dice::Dice;
use crate::flow::Shows;
use crate::packet::Body;
use weir_config::{NetworkLink, Upstream};
use weir_measure::result::Observed;
use weir_queue::Hosts;
use weir_sense::bottleneck::{FollowLaw, Follower, PathModel};
use weir_sense::{Bottleneck, Coverage, FLOWS, FLOWS_EACH, Flows, Learned, PacketInfo, Suspicions, Way};
use weir_tcp::Ack;
use weir_units::{Bytes, Duration, Rate, Time};
use weir_wire::quic::QuicPackets;
use weir_wire::tcp::{Segment, Stamps};
use weir_wire::transport::Transport;

/// What a link that observes knows.
pub struct Observer {
    mode: Upstream,
    measured: Measured,
    /// The rate of the link when nothing holds it back.
    own: Rate,
    coverage: Coverage,
}

/// Who is measured.
enum Measured {
    /// All flows together: there is one bottleneck.
    All(Box<Of<FLOWS>>),
    /// The flows of each user, by the number of the user.
    Each(Vec<Of<FLOWS_EACH>>),
}

/// Flows behind one bottleneck.
struct Of<const N: usize> {
    flows: Flows<N>,
    /// The bottleneck that a rate follows, where one does.
    bottleneck: Option<Bottleneck>,
}

impl<const N: usize> Of<N> {
    fn new(now: Time, law: Option<FollowLaw>) -> Of<N> {
        Of { flows: Flows::default(), bottleneck: law.map(|law| Bottleneck::new(now, law)) }
    }

    fn observe(&mut self, now: Time, way: Way, packet: &PacketInfo<'_>, waiting: bool) -> Learned {
        let bottleneck = self.bottleneck.as_mut();
        weir_sense::Observer { flows: &mut self.flows, bottleneck }.observe(now, way, packet, waiting)
    }
}

/// The rate of a bottleneck, and whom it holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Follows {
    /// The link sends at it; that is its own rate where nothing holds it back.
    Link(Rate),
    /// The user of the packet is sent to at it; `None` where nothing holds the user back.
    User(Option<Rate>),
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
        let measured = match setup.queue.user_key() {
            None => Measured::All(Box::new(Of::new(Time::ZERO, mode.law()))),
            Some(_) => Measured::Each(Vec::new()),
        };
        Some(Box::new(Observer { mode, measured, own: setup.rate, coverage: Coverage::default() }))
    }

    /// Which share of the bytes was measured.
    pub fn coverage(&self) -> Coverage {
        self.coverage
    }

    /// What did not add up, of the flows behind one bottleneck.
    pub fn suspicions(&self) -> Option<&Suspicions> {
        match &self.measured {
            Measured::All(all) => Some(all.flows.suspicions()),
            Measured::Each(_) => None,
        }
    }

    /// The bottleneck that the rate of the link follows, where it does.
    pub fn follower(&self) -> Option<&Follower> {
        match &self.measured {
            Measured::All(all) => all.bottleneck.as_ref().map(Bottleneck::follower),
            Measured::Each(_) => None,
        }
    }

    /// Whether each user is held to a rate of its own.
    pub(crate) fn follows_users(&self) -> bool {
        self.mode.follows() && matches!(self.measured, Measured::Each(_))
    }

    /// What it learned, for results; round-trip times are not collected here.
    pub(crate) fn observed(&self) -> Observed {
        let ms = |time: Option<Duration>| time.map(Duration::as_millis_f64);
        let path = self.follower().map(Follower::path);
        let (rate, users, memory) = match &self.measured {
            Measured::All(all) => {
                (all.bottleneck.as_ref().and_then(|b| b.rate(self.own)), 1, size_of::<Flows<FLOWS>>())
            }
            Measured::Each(each) => (None, each.len() as u32, size_of_val(&**each)),
        };
        Observed {
            mode: self.mode.to_string(),
            path_rtt_ms: ms(path.and_then(PathModel::path_rtt)),
            average_rtt_ms: ms(path.and_then(PathModel::average)),
            target_rtt_ms: ms(path.and_then(PathModel::target_rtt)),
            rate_bps: rate.map(|rate| rate.as_bps_f64()),
            bytes: self.coverage.bytes,
            live_bytes: self.coverage.live,
            users,
            memory_bytes: memory as u64,
            ..Observed::default()
        }
    }

    /// A packet comes in.
    pub(crate) fn arrived(&mut self, now: Time, body: &Body, hosts: Hosts, len: Bytes) {
        let bottleneck = match &mut self.measured {
            Measured::All(all) => all.bottleneck.as_mut(),
            Measured::Each(each) => {
                each.get_mut(hosts.receiver as usize).and_then(|of| of.bottleneck.as_mut())
            }
        };
        if let (Some(bottleneck), Body::Data(_)) = (bottleneck, body) {
            bottleneck.arrived(now, len);
        }
    }

    /// What a packet teaches, and the rate that follows from it where one does. `waiting` says whether others
    /// wait for the same bottleneck. The flows of one `[[flows]]` table are those of one user.
    pub(crate) fn observe(
        &mut self,
        now: Time,
        way: Way,
        hosts: Hosts,
        packet: &PacketInfo<'_>,
        waiting: bool,
    ) -> (Learned, Option<Follows>) {
        let (law, own) = (self.mode.law(), self.own);
        let (learned, rate) = match &mut self.measured {
            Measured::All(all) => {
                let learned = all.observe(now, way, packet, waiting);
                let rate = all.bottleneck.as_ref().map(|b| Follows::Link(b.rate(own).unwrap_or(own)));
                (learned, rate)
            }
            Measured::Each(each) => {
                let user = hosts.receiver as usize;
                if user >= each.len() {
                    each.resize_with(user + 1, || Of::new(now, law));
                }
                let of = &mut each[user];
                let learned = of.observe(now, way, packet, waiting);
                (learned, of.bottleneck.as_ref().map(|b| Follows::User(b.rate(own))))
            }
        };
        if way == Way::ToUser {
            self.coverage.bytes += packet.len.get();
            self.coverage.live += if learned.seen.live { packet.len.get() } else { 0 };
        }
        (learned, rate)
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
            Shows::Spin => quic(segment.spin, is_first(segment)),
            Shows::RandomBit => quic(random_bit(segment.sent, "spin.data"), is_first(segment)),
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
            Shows::RandomBit => quic(random_bit(ack.echo, "spin.ack"), ack.next <= 2),
            Shows::Nothing => Transport::Other,
        }
    }
}

fn is_first(segment: &weir_tcp::Segment) -> bool {
    segment.seq == 0 && !segment.retransmission
}

/// A bit that is random from packet to packet: the first one of the dice of when that, or what it answers,
/// was sent.
fn random_bit(sent: Time, name: &str) -> bool {
    Dice::of(sent.as_nanos(), name).bits() & 1 == 1
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
    use weir_sense::trace;

    #[test]
    fn what_is_learned_of_a_trace_is_what_all_hosts_learn() {
        let mut observer = Observer {
            mode: Upstream::Follow,
            measured: Measured::All(Box::new(Of::new(Time::ZERO, Some(FollowLaw::default())))),
            own: Rate::from_mbps(1000),
            coverage: Coverage::default(),
        };
        let mut expected = trace::learned();
        for step in trace::trace() {
            let (len, transport) = (Bytes::new(step.packet().len() as u64), step.transport());
            let info = PacketInfo { flow: step.flow, len, transport: &transport };
            let learned = match step.way {
                Way::ToUser => {
                    let Measured::All(all) = &mut observer.measured else { unreachable!() };
                    all.bottleneck.as_mut().unwrap().arrived(step.at, len);
                    observer.observe(step.at, Way::ToUser, Hosts::UNKNOWN, &info, false).0
                }
                Way::FromUser => observer.observe(step.at, Way::FromUser, Hosts::UNKNOWN, &info, false).0,
            };
            assert_eq!(Some(learned), expected.next(), "{step:?}");
        }
    }
}
