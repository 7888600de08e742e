//! What packets tell of a bottleneck behind the base station, for as many at once as there is room: of each
//! session that of its non-GBR flows, and that of each GBR flow.

use weir_aqm::Sample;
use weir_queue::Shaper;
use weir_sense::bottleneck::FollowLaw;
use weir_sense::{Bottleneck, Flows, Learned, Observer, PacketInfo, Way};
use weir_units::{Bytes, Duration, Rate, Time};
use weir_wire::transport::{self, Transport};

/// Number of a session, and of a bottleneck in it.
pub type PathOf = (u32, u8);

/// Flows behind one bottleneck that are followed at once.
const FLOWS: usize = 16;
/// A place may be given to another after so long without packets.
const IDLE: Duration = Duration::from_secs(30);
/// Most places that are looked at for an idle one.
const SWEEP_MAX: usize = 8;

/// What is known of one bottleneck.
struct Learner {
    owner: PathOf,
    flows: Flows<FLOWS>,
    bottleneck: Bottleneck,
    active: Time,
    /// The rate that was told last.
    rate: Option<Rate>,
}

/// All that is learnt.
pub struct Learners {
    law: FollowLaw,
    places: Vec<Option<Learner>>,
    free: Vec<u32>,
    hand: usize,
}

/// What follows from a packet.
#[derive(Default)]
pub struct Learnt {
    /// For algorithms that ask for it; up to three.
    pub samples: [Option<Sample>; 3],
    /// The rate that the bottleneck allows; `None` inside for no limit.
    pub rate: Option<Option<Rate>>,
    /// How long packets may wait for that rate.
    pub tolerated: Option<Duration>,
}

impl Learnt {
    /// Whether nothing follows.
    pub fn is_nothing(&self) -> bool {
        self.rate.is_none() && self.samples.iter().all(Option::is_none)
    }
}

impl Learners {
    /// Room for so many bottlenecks, whose rates are found by this law.
    pub fn new(count: u32, law: FollowLaw) -> Learners {
        let places = (0..count).map(|_| None).collect();
        Learners { law, places, free: (0..count).rev().collect(), hand: 0 }
    }

    /// A place for a bottleneck, and whose it was.
    #[cold]
    pub fn take(&mut self, owner: PathOf, now: Time) -> Option<(u32, Option<PathOf>)> {
        let law = self.law;
        let fresh = || Learner {
            owner,
            flows: Flows::default(),
            bottleneck: Bottleneck::new(now, law),
            active: now,
            rate: None,
        };
        if let Some(at) = self.free.pop() {
            self.places[at as usize] = Some(fresh());
            return Some((at, None));
        }
        for _ in 0..SWEEP_MAX.min(self.places.len()) {
            self.hand = (self.hand + 1) % self.places.len();
            let Some(place) = &mut self.places[self.hand] else { continue };
            if now.since(place.active) >= IDLE {
                let former = place.owner;
                *place = fresh();
                return Some((self.hand as u32, Some(former)));
            }
        }
        None
    }

    /// A place is its owner's under another number.
    pub fn own(&mut self, at: u32, owner: PathOf) {
        if let Some(learner) = &mut self.places[at as usize] {
            learner.owner = owner;
        }
    }

    /// Whether a flow is one that is followed there.
    #[inline]
    pub fn knows(&self, at: u32, flow: u32) -> bool {
        self.places[at as usize].as_ref().is_some_and(|learner| learner.flows.knows(flow))
    }

    /// Least that is ever sent: the rate that is guaranteed; zero for none.
    #[inline]
    pub fn guarantee(&mut self, at: u32, least: Rate) {
        if let Some(learner) = &mut self.places[at as usize] {
            learner.bottleneck.set_rate_min((least > Rate::ZERO).then_some(least));
        }
    }

    /// Gives a place back.
    pub fn give(&mut self, at: u32) {
        if self.places[at as usize].take().is_some() {
            self.free.push(at);
        }
    }

    /// A packet to the user equipment came in, before any queue.
    #[inline]
    pub fn arrived(&mut self, at: u32, now: Time, len: u16) {
        if let Some(learner) = &mut self.places[at as usize] {
            learner.bottleneck.arrived(now, Bytes::new(u64::from(len)));
        }
    }

    /// A packet to the user equipment goes out.
    #[inline]
    pub fn forwarded(&mut self, at: u32, now: Time, flow: u32, packet: &[u8], waiting: bool) -> Learnt {
        let Some(learner) = &mut self.places[at as usize] else { return Learnt::default() };
        learner.observe(now, Way::ToUser, flow, packet, waiting)
    }

    /// A packet passes here without waiting, from the user equipment or to it; `waiting` if others wait that
    /// are to it.
    #[inline(never)]
    pub fn passed(
        &mut self,
        at: u32,
        is_up: bool,
        now: Time,
        flow: u32,
        packet: &[u8],
        waiting: bool,
    ) -> Learnt {
        if is_up {
            return self.returned(at, now, flow, packet, waiting);
        }
        self.arrived(at, now, packet.len() as u16);
        self.forwarded(at, now, flow, packet, waiting)
    }

    /// A packet from the user equipment passes.
    #[inline]
    pub fn returned(&mut self, at: u32, now: Time, flow: u32, packet: &[u8], waiting: bool) -> Learnt {
        let Some(learner) = &mut self.places[at as usize] else { return Learnt::default() };
        learner.observe(now, Way::FromUser, flow, packet, waiting)
    }
}

impl Learner {
    #[inline(always)]
    fn observe(&mut self, now: Time, way: Way, flow: u32, packet: &[u8], waiting: bool) -> Learnt {
        self.active = now;
        // What contradicts itself shows nothing, and takes its time at the bottleneck all the same.
        let (len, transport) = match transport::read(packet) {
            Some(datagram) => (u64::from(datagram.len), datagram.transport),
            None => (packet.len() as u64, Transport::Other),
        };
        let info = PacketInfo { flow, len: Bytes::new(len), transport: &transport };
        let mut observer = Observer { flows: &mut self.flows, bottleneck: Some(&mut self.bottleneck) };
        let learned = observer.observe(now, way, &info, waiting);
        self.learnt(flow, &learned)
    }

    /// What follows for queues and rate. The rate is told with news of flows, and when it changed.
    #[inline(always)]
    fn learnt(&mut self, flow: u32, learned: &Learned) -> Learnt {
        let rate = self.bottleneck.rate(Rate::ZERO);
        let is_news = learned.seen.rtt.is_some() || learned.seen.delivered > Bytes::ZERO || rate != self.rate;
        self.rate = rate;
        let in_flight = learned.in_flight.map(|bytes| Sample::Inflight { flow, bytes });
        let samples = [learned.rtt.map(Sample::Rtt), in_flight, learned.reaction.map(Sample::Reaction)];
        let tolerated = if samples.iter().any(Option::is_some) { self.tolerated() } else { None };
        Learnt { samples, rate: is_news.then_some(rate), tolerated }
    }

    /// A queue that is too short for what senders fall to leaves the bottleneck idle, by the length of their
    /// whole path. The other half of it is not seen: twice what is tolerated before the bottleneck stands
    /// for both. Of a short path that is more than the path, because radio links deliver in bursts; there
    /// are none here.
    fn tolerated(&self) -> Option<Duration> {
        let path = self.bottleneck.follower().path();
        path.target_queue_delay().zip(path.path_rtt()).map(|(delay, path)| delay.saturating_mul(2).min(path))
    }
}

/// Brings the shaper for a bottleneck to a new rate.
pub fn follow(shaper: &mut Option<Shaper>, rate: Option<Rate>, catch_up: Duration) {
    match (shaper.as_mut(), rate) {
        (Some(shaper), Some(rate)) if shaper.rate() != rate => shaper.set_rate(rate),
        (None, Some(rate)) => *shaper = Some(Shaper::new(rate, catch_up)),
        (Some(_), None) => *shaper = None,
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::PacketBuilder;
    use weir_sense::trace;

    const USER: [u8; 4] = [10, 45, 0, 5];
    const SERVER: [u8; 4] = [198, 51, 100, 9];

    fn data(port: u16, seq: u32, len: usize) -> Vec<u8> {
        let mut packet = Vec::new();
        let builder = PacketBuilder::ipv4(SERVER, USER, 64).tcp(443, port, seq, 1000).ack(1);
        builder.write(&mut packet, &vec![0; len]).unwrap();
        packet
    }

    fn ack(port: u16, number: u32) -> Vec<u8> {
        let mut packet = Vec::new();
        let builder = PacketBuilder::ipv4(USER, SERVER, 64).tcp(port, 443, 1, 1000).ack(number);
        builder.write(&mut packet, &[]).unwrap();
        packet
    }

    /// 10 Mbit/s of full segments, each acknowledged after 20 ms, beside a flow of segments of one byte.
    #[test]
    fn a_segment_of_one_byte_does_not_multiply_what_another_flow_delivers() {
        const PAYLOAD: u32 = 1460;
        let mut learners = Learners::new(1, FollowLaw::default());
        let (at, _) = learners.take((0, 0), Time::ZERO).unwrap();
        for n in 0..500u32 {
            let now = Time::from_nanos(1_200_000 * u64::from(n));
            learners.passed(at, false, now, 1, &data(5000, n * PAYLOAD, PAYLOAD as usize), false);
            learners.passed(at, false, now, 2, &data(5001, n, 1), false);
            if let Some(acked) = n.checked_sub(16) {
                learners.passed(at, true, now, 1, &ack(5000, (acked + 1) * PAYLOAD), false);
            }
        }
        let now = Time::from_nanos(600_000_000);
        let mut follower = *learners.places[at as usize].as_ref().unwrap().bottleneck.follower();
        let bandwidth = follower.bandwidth(now).unwrap();
        assert!((9.0..13.0).contains(&(bandwidth.as_bps_f64() / 1e6)), "{bandwidth:?} of 10 Mbit/s");
    }

    /// A radio of 10 Mbit/s that becomes four times as slow: the article's rule goes on from the largest rate
    /// of before, ours from what is delivered now.
    #[test]
    fn the_rate_that_is_told_is_that_of_the_law() {
        const PAYLOAD: u32 = 1460;
        let told = |law| {
            let mut learners = Learners::new(1, law);
            let (at, _) = learners.take((0, 0), Time::ZERO).unwrap();
            let (mut free, mut back, mut rates) = (0, std::collections::VecDeque::new(), Vec::new());
            for n in 0..1500u32 {
                let now = 1_200_000 * u64::from(n);
                while back.front().is_some_and(|(due, _)| *due <= now) {
                    let (due, number) = back.pop_front().unwrap();
                    let learnt =
                        learners.passed(at, true, Time::from_nanos(due), 1, &ack(5000, number), true);
                    rates.extend(learnt.rate.flatten());
                }
                learners.passed(
                    at,
                    false,
                    Time::from_nanos(now),
                    1,
                    &data(5000, n * PAYLOAD, PAYLOAD as usize),
                    true,
                );
                let takes = if n < 500 { 1_190_000 } else { 4_760_000 };
                free = now.max(free) + takes;
                back.push_back((free + 20_000_000, (n + 1) * PAYLOAD));
            }
            rates
        };
        let [ours, largest] = [FollowLaw::Delivered, FollowLaw::Largest].map(told);
        assert!(!ours.is_empty() && !largest.is_empty() && ours != largest, "{ours:?} {largest:?}");
    }

    #[test]
    fn what_is_learned_of_a_trace_is_what_all_hosts_learn() {
        let mut learners = Learners::new(1, FollowLaw::default());
        let (at, _) = learners.take((0, 0), Time::ZERO).unwrap();
        let mut expected = trace::learned();
        for step in trace::trace() {
            let is_up = step.way == Way::FromUser;
            let learnt = learners.passed(at, is_up, step.at, step.flow, step.packet(), false);
            let learned = expected.next().unwrap();
            let in_flight = learned.in_flight.map(|bytes| Sample::Inflight { flow: step.flow, bytes });
            let samples = [learned.rtt.map(Sample::Rtt), in_flight, learned.reaction.map(Sample::Reaction)];
            assert_eq!(learnt.samples, samples, "{step:?}");
        }
    }
}
