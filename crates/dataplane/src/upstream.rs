//! What a direction learns of the bottlenecks behind it from the packets that pass: those that leave it
//! towards users, and the acknowledgements that come back at the port where they left.
//!
//! The arithmetic is that of `weir-sense`; here is who is measured, and what is told to whom. All memory is
//! taken when it is made.

mod told;
mod users;

pub use told::UpstreamNow;

use crate::Received;
use crate::frames::{Arena, Note};
use users::Users;
use weir_config::Upstream;
use weir_measure::{Distribution, Window};
use weir_queue::Hosts;
use weir_sense::bottleneck::{PathConfig, PathModel};
use weir_sense::{Bottleneck, Coverage, FLOWS, FLOWS_EACH, Flows, PacketInfo, Suspicions, Way};
use weir_units::{Bytes, Duration, Rate, Time};
use weir_wire::frame;
use weir_wire::transport::Transport;

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
    /// A round-trip time that enters means, and what a sender counts beside it.
    pub rtt: Option<Duration>,
    pub held: Duration,
    /// What the flow has in flight, after an acknowledgement.
    pub in_flight: Option<Bytes>,
    /// How long senders need to answer, if that changed.
    pub reaction: Option<Duration>,
    /// The rate to send at, where it follows a bottleneck.
    pub rate: Option<Follows>,
}

/// The rate of a bottleneck, and whom it holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Follows {
    /// The direction sends at it; that is its own rate where nothing holds it back.
    Direction(Rate),
    /// The user of the packet is sent to at it; `None` where nothing holds the user back.
    User(Option<Rate>),
}

/// What a direction that observes knows.
pub struct Observer {
    setup: ObserverSetup,
    measured: Measured,
    /// The four variables, where no rate follows.
    path: PathModel,
    /// The bottleneck that the direction follows; users have theirs with their places.
    bottleneck: Option<Bottleneck>,
    coverage: Coverage,
    unreadable: u64,
    rtt: Distribution,
    samples: u64,
}

impl Observer {
    /// Nothing is known yet at `start`.
    pub fn new(setup: ObserverSetup, start: Time) -> Observer {
        let follows = setup.mode.law().map(|law| (start, law));
        Observer {
            setup,
            measured: setup.users.map_or_else(
                || Measured::All(Box::default()),
                |users| Measured::Each(Users::new(users as usize, follows)),
            ),
            path: PathModel::new(PathConfig::default()),
            bottleneck: follows
                .filter(|_| setup.users.is_none())
                .map(|(start, law)| Bottleneck::new(start, law)),
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
            Measured::Each(users) => (users.room(), FLOWS_EACH),
        }
    }

    /// A packet comes in, before any queue.
    pub fn arrived(&mut self, now: Time, hosts: Hosts, len: Bytes) {
        let place = match &self.measured {
            Measured::Each(users) if self.follows_users() => users.find(self.user(hosts)),
            _ => None,
        };
        if let Some(bottleneck) = self.bottleneck_at(place) {
            bottleneck.arrived(now, len);
        }
    }

    /// A packet came in that has a transport which contradicts itself.
    pub fn unreadable(&mut self) {
        self.unreadable += 1;
    }

    /// Whether each user is held to a rate of its own.
    pub fn follows_users(&self) -> bool {
        self.setup.mode.follows() && self.setup.users.is_some()
    }

    /// The round-trip time behind to a user, as it was measured last.
    pub fn rtt_of(&self, now: Time, user: u32) -> Option<Duration> {
        match &self.measured {
            Measured::All(_) => None,
            Measured::Each(users) => users.rtt(now, user),
        }
    }

    fn user(&self, hosts: Hosts) -> u32 {
        hosts.user(self.setup.by_sender)
    }

    /// The bottleneck behind a user who has this place, or behind all of them.
    fn bottleneck_at(&mut self, place: Option<usize>) -> Option<&mut Bottleneck> {
        match &mut self.measured {
            Measured::All(_) => self.bottleneck.as_mut(),
            Measured::Each(users) => users.bottleneck(place?),
        }
    }

    /// A packet leaves towards its user at `now`. `waiting` says whether others wait for the same bottleneck.
    pub fn forwarded(&mut self, now: Time, note: &Note, waiting: bool) -> Learned {
        let transport = note.transport.unwrap_or(Transport::Other);
        let (sensed, place) = self.sense(now, Way::ToUser, note, &transport, waiting);
        self.coverage.bytes += note.len.get();
        self.coverage.live += if sensed.seen.live { note.len.get() } else { 0 };
        self.learn(now, sensed, place)
    }

    /// A packet comes back from a user; its hashes are those of the packets that it answers.
    pub fn answered(&mut self, now: Time, note: &Note, waiting: bool) -> Learned {
        let Some(transport) = &note.transport else { return Learned::default() };
        let (sensed, place) = self.sense(now, Way::FromUser, note, transport, waiting);
        self.learn(now, sensed, place)
    }

    /// What a packet teaches, and the place of its user. What shows nothing takes no place.
    fn sense(
        &mut self,
        now: Time,
        way: Way,
        note: &Note,
        transport: &Transport,
        waiting: bool,
    ) -> (weir_sense::Learned, Option<usize>) {
        let user = self.user(note.hosts);
        let packet = PacketInfo { flow: note.flow, len: note.len, transport };
        match &mut self.measured {
            Measured::All(flows) => {
                let bottleneck = self.bottleneck.as_mut();
                let mut observer = weir_sense::Observer { flows: &mut **flows, bottleneck };
                (observer.observe(now, way, &packet, waiting), None)
            }
            Measured::Each(users) => {
                let shows = *transport != Transport::Other;
                let place = if shows { users.of(now, user) } else { users.find(user) };
                let sensed = place.map(|at| users.observer(at).observe(now, way, &packet, waiting));
                (sensed.unwrap_or_default(), place)
            }
        }
    }

    fn learn(&mut self, now: Time, sensed: weir_sense::Learned, place: Option<usize>) -> Learned {
        let weir_sense::Learned { seen, rtt, in_flight, reaction } = sensed;
        if let Some(rtt) = rtt.filter(|_| self.setup.measured.contains(now)) {
            self.rtt.record(rtt);
            self.samples += 1;
        }
        if let (None, Some(rtt)) = (self.bottleneck_at(place), seen.rtt) {
            self.path.sample(now, rtt, seen.enters_mean);
        }
        let held = seen.rtt.map_or(Duration::ZERO, |rtt| rtt.held);
        Learned { rtt, held, in_flight, reaction, rate: self.follows(place) }
    }

    /// The rate that follows from what is known; of a user without a place nothing is.
    fn follows(&mut self, place: Option<usize>) -> Option<Follows> {
        let own = self.setup.own;
        match &mut self.measured {
            Measured::All(_) => {
                let bottleneck = self.bottleneck.as_ref()?;
                Some(Follows::Direction(bottleneck.rate(own).unwrap_or(own)))
            }
            Measured::Each(_) if !self.setup.mode.follows() => None,
            Measured::Each(users) => {
                Some(Follows::User(place.and_then(|at| users.bottleneck(at)?.rate(own))))
            }
        }
    }

    /// Takes a decision about the rate of the direction, where that follows; to be called from time to time.
    /// Users who have packets are looked at with each of them.
    pub fn look(&mut self, now: Time, waiting: bool) -> Option<Rate> {
        let own = self.setup.own;
        let bottleneck = self.bottleneck.as_mut()?;
        bottleneck.look(now, waiting);
        Some(bottleneck.rate(own).unwrap_or(own))
    }

    fn path(&self) -> &PathModel {
        self.bottleneck.as_ref().map_or(&self.path, |bottleneck| bottleneck.follower().path())
    }

    fn suspicions(&self) -> Suspicions {
        match &self.measured {
            Measured::All(flows) => *flows.suspicions(),
            Measured::Each(users) => users.suspicions(),
        }
    }
}

/// Reads the transports of frames that came in, once for all who observe.
pub(crate) fn note_transports(received: &[Received], arena: &mut Arena) {
    for r in received {
        let datagram = frame::transport(arena.bytes(r.frame));
        let note = arena.note(r.frame);
        note.transport = datagram.map(|datagram| datagram.transport);
        note.ports = datagram.map_or((0, 0), |datagram| datagram.ports);
    }
}

#[cfg(test)]
mod tests;
