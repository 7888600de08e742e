//! What a session's packets tell of the bottleneck behind the base station, for as many sessions at once as there is room.

use weir_aqm::Sample;
use weir_queue::Shaper;
use weir_sense::bottleneck::{FollowConfig, Follower};
use weir_sense::{Flows, Seen, Way};
use weir_units::{Bytes, Duration, Rate, Time};
use weir_wire::transport::{self, Transport};

/// Flows of a session that are followed at once.
const FLOWS: usize = 16;
/// A place may be given to another session after so long without packets.
const IDLE: Duration = Duration::from_secs(30);
/// Most places that are looked at for an idle one.
const SWEEP_MAX: usize = 8;
/// Least time that senders are given to answer.
const REACTION_MIN: Duration = Duration::from_millis(20);

/// What is known of the bottleneck of one session.
struct Learner {
    owner: u32,
    flows: Flows<FLOWS>,
    follower: Follower,
    active: Time,
    /// Length and payload of the last segment: acknowledgements count payload, rates count packets.
    segment: (u64, u64),
    reaction: Duration,
}

/// All that is learnt.
pub struct Learners {
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
    /// Room for so many sessions.
    pub fn new(count: u32) -> Learners {
        Learners { places: (0..count).map(|_| None).collect(), free: (0..count).rev().collect(), hand: 0 }
    }

    /// A place for a session, and whose it was.
    #[cold]
    pub fn take(&mut self, owner: u32, now: Time) -> Option<(u32, Option<u32>)> {
        let fresh = || Learner {
            owner,
            flows: Flows::default(),
            follower: Follower::new(FollowConfig::default(), now),
            active: now,
            segment: (1, 1),
            reaction: Duration::ZERO,
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
            learner.follower.arrived(now, Bytes::new(u64::from(len)));
        }
    }

    /// A packet to the user equipment goes out.
    #[inline]
    pub fn forwarded(&mut self, at: u32, now: Time, flow: u32, packet: &[u8], waiting: bool) -> Learnt {
        let Some(learner) = &mut self.places[at as usize] else { return Learnt::default() };
        let Some(datagram) = transport::read(packet) else { return Learnt::default() };
        learner.active = now;
        if let Transport::Tcp(segment) = &datagram.transport
            && segment.len > 0
        {
            learner.segment = (u64::from(datagram.len), u64::from(segment.len));
        }
        let len = Bytes::new(u64::from(datagram.len));
        let seen = learner.flows.observe(now, Way::ToUser, flow, datagram.len, &datagram.transport);
        learner.follower.forwarded(now, len);
        if matches!(datagram.transport, Transport::Other) {
            learner.follower.unseen(now, len);
        }
        learner.learn(now, flow, &seen, waiting)
    }

    /// A packet passes here without waiting, from the user equipment or to it; `waiting` if others wait that are to it.
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
        let Some(datagram) = transport::read(packet) else { return Learnt::default() };
        learner.active = now;
        let seen = learner.flows.observe(now, Way::FromUser, flow, datagram.len, &datagram.transport);
        learner.learn(now, flow, &seen, waiting)
    }
}

impl Learner {
    fn learn(&mut self, now: Time, flow: u32, seen: &Seen, waiting: bool) -> Learnt {
        if seen.rtt.is_none() && seen.delivered == Bytes::ZERO {
            return Learnt::default();
        }
        let (len, payload) = self.segment;
        self.follower.delivered(now, Bytes::new(seen.delivered.get() * len / payload.max(1)));
        if let Some(rtt) = seen.rtt {
            self.follower.sample(now, rtt, seen.enters_mean);
        }
        self.follower.look(now, waiting);
        let rtt = seen.rtt.filter(|_| seen.enters_mean).map(|rtt| Sample::Rtt(rtt.rtt));
        let inflight = seen.in_flight.map(|bytes| Sample::Inflight { flow, bytes });
        let samples = [rtt, inflight, self.reaction()];
        Learnt { samples, rate: Some(self.follower.rate()), tolerated: self.tolerated() }
    }

    /// A queue that is too short for what senders fall to leaves the bottleneck idle, by the length of their whole path. The other
    /// half of it is not seen: twice what is tolerated before the bottleneck stands for both. Of a short path that is more
    /// than the path, because radio links deliver in bursts; there are none here.
    fn tolerated(&self) -> Option<Duration> {
        let path = self.follower.path();
        path.target_queue_delay().zip(path.path_rtt()).map(|(delay, path)| delay.saturating_mul(2).min(path))
    }

    /// The other half of the path is not seen; twice what is tolerated on this one stands for both. Algorithms need not hear
    /// of a change by less than an eighth.
    fn reaction(&mut self) -> Option<Sample> {
        let target = self.follower.path().target_rtt()?;
        let time = target.saturating_mul(2).max(REACTION_MIN);
        let differs = time.as_nanos().abs_diff(self.reaction.as_nanos()) > self.reaction.as_nanos() / 8;
        differs.then(|| {
            self.reaction = time;
            Sample::Reaction(time)
        })
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
