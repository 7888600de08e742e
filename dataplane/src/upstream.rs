//! What a direction learns of the bottlenecks behind it from the packets that pass: those that leave it towards users,
//! and the acknowledgements that come back at the port where they left.
//!
//! The arithmetic is that of `weir-sense`; here is who is measured, and what is told to whom. All memory is taken when
//! it is made.

mod told;
mod users;

pub use told::UpstreamNow;

use crate::frames::Note;
use users::Users;
use weir_queue::Hosts;
use weir_scenario::Upstream;
use weir_scenario::measure::{Distribution, Window};
use weir_sense::bottleneck::{FollowConfig, Follower, PathConfig, PathModel};
use weir_sense::wire::{Segment, Transport};
use weir_sense::{Coverage, Flows, Seen, Suspicions, Way};
use weir_units::{Bytes, Duration, Rate, Time};

/// Flows that are measured at once where there is one bottleneck.
pub const FLOWS: usize = 64;
/// Least time that senders are given to answer.
const REACTION_MIN: Duration = Duration::from_millis(20);
/// The size of headers is taken over this many bytes of payload.
const PAYLOAD: u64 = 1 << 20;

/// How a direction observes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ObserverSetup {
    /// What is done with what is learned; not [`Upstream::Off`].
    pub mode: Upstream,
    /// Most users, where each has an algorithm of its own.
    pub users: Option<u32>,
    /// Whether a user is whoever sends.
    pub by_sender: bool,
    /// The rate of the link when nothing holds it back; zero for unshaped.
    pub own: Rate,
    /// The part of the run that distributions are of.
    pub measured: Window,
}

/// Who is measured.
enum Measured {
    /// All flows together: there is one bottleneck.
    All(Box<Flows<FLOWS>>),
    /// The flows of each user.
    Each(Users),
}

/// A round-trip time of a flow, as it was measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RttSample {
    /// When, on the clock of the loop.
    pub at: Time,
    /// Port of who sends the data, and of the user.
    pub ports: (u16, u16),
    /// The time from the moment at which the data went out to that at which the acknowledgement came in.
    pub rtt: Duration,
}

/// What a packet taught, for the queue.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Learned {
    /// A round-trip time that enters means.
    pub rtt: Option<Duration>,
    /// What the flow has in flight, after an acknowledgement.
    pub in_flight: Option<Bytes>,
    /// How long senders need to answer, if that changed.
    pub reaction: Option<Duration>,
    /// The rate to send at, where it follows a bottleneck.
    pub rate: Option<Rate>,
}

/// What a direction that observes knows.
pub struct Observer {
    setup: ObserverSetup,
    measured: Measured,
    /// The four variables, where all flows share a bottleneck and its rate is not followed.
    path: PathModel,
    follower: Option<Follower>,
    /// What the algorithm was told that senders need to answer.
    reaction: Duration,
    /// Bytes of TCP's segments by the accounting of the link, and of their payload, which TCP counts.
    segments: (u64, u64),
    coverage: Coverage,
    unreadable: u64,
    rtt: Distribution,
    samples: u64,
}

impl Observer {
    /// Nothing is known yet at `start`.
    pub fn new(setup: ObserverSetup, start: Time) -> Observer {
        let follows = setup.mode == Upstream::Follow;
        Observer {
            setup,
            measured: setup.users.map_or_else(
                || Measured::All(Box::default()),
                |users| Measured::Each(Users::new(users as usize)),
            ),
            path: PathModel::new(PathConfig::default()),
            follower: follows.then(|| Follower::new(FollowConfig::default(), start)),
            reaction: Duration::ZERO,
            segments: (0, 0),
            coverage: Coverage::default(),
            unreadable: 0,
            rtt: Distribution::default(),
            samples: 0,
        }
    }

    /// Memory of what is measured.
    pub fn bytes(&self) -> usize {
        match &self.measured {
            Measured::All(_) => size_of::<Flows<FLOWS>>(),
            Measured::Each(users) => users.bytes(),
        }
    }

    /// How many users are measured at once at most, and how many flows of each.
    pub fn room(&self) -> (usize, usize) {
        match &self.measured {
            Measured::All(_) => (1, FLOWS),
            Measured::Each(users) => (users.room(), users::FLOWS_EACH),
        }
    }

    /// A packet comes in, before any queue.
    pub fn arrived(&mut self, now: Time, len: Bytes) {
        if let Some(follower) = &mut self.follower {
            follower.arrived(now, len);
        }
    }

    /// A packet came in that has a transport which contradicts itself.
    pub fn unreadable(&mut self) {
        self.unreadable += 1;
    }

    /// A packet leaves towards its user at `now`. `waiting` says whether others wait.
    pub fn forwarded(&mut self, now: Time, note: &Note, waiting: bool) -> Learned {
        let Note { transport, flow, hosts, len, .. } = note;
        let transport = transport.unwrap_or(Transport::Other);
        // What shows nothing takes no place.
        let seen = match &transport {
            Transport::Other => Seen::default(),
            shown => self.see(now, Way::ToUser, *flow, *hosts, *len, shown),
        };
        self.coverage.bytes += len.get();
        self.coverage.live += if seen.live { len.get() } else { 0 };
        if let Transport::Tcp(segment) = &transport {
            self.weigh(segment, *len);
        }
        if let Some(follower) = &mut self.follower {
            follower.forwarded(now, *len);
            if !is_counted(&transport, &seen) {
                follower.unseen(now, *len);
            }
        }
        self.learn(now, &seen, &transport, waiting)
    }

    /// A packet comes back from a user; its hashes are those of the packets that it answers.
    pub fn answered(&mut self, now: Time, note: &Note, waiting: bool) -> Learned {
        let Some(transport) = &note.transport else { return Learned::default() };
        let seen = self.see(now, Way::FromUser, note.flow, note.hosts, note.len, transport);
        let in_flight = seen.in_flight.filter(|_| seen.delivered > Bytes::ZERO);
        Learned { in_flight, ..self.learn(now, &seen, transport, waiting) }
    }

    fn see(
        &mut self,
        now: Time,
        way: Way,
        flow: u32,
        hosts: Hosts,
        len: Bytes,
        transport: &Transport,
    ) -> Seen {
        let len = len.get() as u32;
        match &mut self.measured {
            Measured::All(flows) => flows.observe(now, way, flow, len, transport),
            Measured::Each(users) => match users.of(now, hosts.user(self.setup.by_sender)) {
                Some(flows) => flows.observe(now, way, flow, len, transport),
                None => Seen::default(),
            },
        }
    }

    /// Learns how much headers add to what TCP counts.
    fn weigh(&mut self, segment: &Segment, len: Bytes) {
        if segment.len == 0 {
            return;
        }
        let (bytes, payload) = &mut self.segments;
        (*bytes, *payload) = (*bytes + len.get(), *payload + u64::from(segment.len));
        if *payload > PAYLOAD {
            (*bytes, *payload) = (*bytes / 2, *payload / 2);
        }
    }

    /// What is known to have arrived, by the accounting of the link.
    fn counted(&self, transport: &Transport, seen: &Seen) -> Bytes {
        let (bytes, payload) = self.segments;
        match transport {
            _ if !is_counted(transport, seen) => Bytes::ZERO,
            Transport::Tcp(_) if payload > 0 => {
                let scaled = u128::from(seen.delivered.get()) * u128::from(bytes) / u128::from(payload);
                Bytes::new(scaled as u64)
            }
            _ => seen.delivered,
        }
    }

    fn learn(&mut self, now: Time, seen: &Seen, transport: &Transport, waiting: bool) -> Learned {
        let rtt = seen.rtt.filter(|_| seen.enters_mean);
        if let Some(rtt) = rtt.filter(|_| self.setup.measured.contains(now)) {
            self.rtt.record(rtt.rtt);
            self.samples += 1;
        }
        let delivered = self.counted(transport, seen);
        if let Some(follower) = &mut self.follower {
            follower.delivered(now, delivered);
        }
        if let Some(rtt) = seen.rtt {
            match &mut self.follower {
                Some(follower) => follower.sample(now, rtt, seen.enters_mean),
                None => self.path.sample(now, rtt, seen.enters_mean),
            }
        }
        let rate = self.look(now, waiting);
        let reaction = if rate.is_some() { self.news_of_reaction() } else { None };
        Learned { rtt: rtt.map(|rtt| rtt.rtt), in_flight: None, reaction, rate }
    }

    /// Takes a decision about the rate, where it follows; to be called from time to time too.
    pub fn look(&mut self, now: Time, waiting: bool) -> Option<Rate> {
        let own = self.setup.own;
        let follower = self.follower.as_mut()?;
        follower.look(now, waiting);
        Some(match follower.rate() {
            None => own,
            Some(rate) if own == Rate::ZERO => rate,
            Some(rate) => rate.min(own),
        })
    }

    /// The other half of the path is not seen; twice what is tolerated on this one stands for both. Algorithms need
    /// not hear of a change by less than an eighth.
    fn news_of_reaction(&mut self) -> Option<Duration> {
        let target = self.path().target_rtt()?;
        let reaction = target.saturating_mul(2).max(REACTION_MIN);
        let change = reaction.as_nanos().abs_diff(self.reaction.as_nanos());
        if change <= self.reaction.as_nanos() / 8 {
            return None;
        }
        self.reaction = reaction;
        Some(reaction)
    }

    fn path(&self) -> &PathModel {
        self.follower.as_ref().map_or(&self.path, Follower::path)
    }

    fn suspicions(&self) -> Suspicions {
        match &self.measured {
            Measured::All(flows) => *flows.suspicions(),
            Measured::Each(users) => users.suspicions(),
        }
    }
}

/// Whether what the flow delivers is counted by its acknowledgements or spin bit: a QUIC connection without a
/// spin bit that is believed shows nothing.
fn is_counted(transport: &Transport, seen: &Seen) -> bool {
    match transport {
        Transport::Tcp(_) => seen.in_flight.is_some(),
        Transport::Quic(_) => seen.live,
        Transport::Other => false,
    }
}

#[cfg(test)]
mod tests;
