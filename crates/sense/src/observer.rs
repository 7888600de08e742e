//! What the packets of flows tell of a bottleneck behind the observer: the same for dataplane, simulator and
//! user plane.

use crate::bottleneck::{FollowConfig, FollowLaw, Follower};
use crate::{Flows, Seen, Way};
use weir_units::{Bytes, Duration, Rate, Time};
use weir_wire::transport::Transport;

/// Least time that senders are given to answer.
const REACTION_MIN: Duration = Duration::from_millis(20);
/// An algorithm hears again how long senders need after this time: it may have been made anew since.
const REACTION_REPEATED: Duration = Duration::from_secs(1);

/// A bottleneck behind, and the rate that follows it: of a link, or of a user.
#[derive(Clone, Debug)]
pub struct Bottleneck {
    follower: Follower,
    /// What the algorithm was told that senders need to answer, and when.
    reaction: Option<(Duration, Time)>,
}

impl Bottleneck {
    /// Nothing is known yet at `start`.
    pub fn new(start: Time, law: FollowLaw) -> Bottleneck {
        let config = FollowConfig { law, ..FollowConfig::default() };
        Bottleneck { follower: Follower::new(config, start), reaction: None }
    }

    /// The rate to send at and the four variables.
    pub fn follower(&self) -> &Follower {
        &self.follower
    }

    /// The rate that it allows, where that is less than the link's own; zero stands for one without a rate.
    #[inline(always)]
    pub fn rate(&self, own: Rate) -> Option<Rate> {
        self.follower.rate().filter(|rate| own == Rate::ZERO || *rate < own)
    }

    /// Least that is ever sent from now on; `None` for no such rate.
    #[inline]
    pub fn set_rate_min(&mut self, least: Option<Rate>) {
        self.follower.set_rate_min(least);
    }

    /// A packet comes in, before any queue.
    pub fn arrived(&mut self, now: Time, len: Bytes) {
        self.follower.arrived(now, len);
    }

    /// Takes a decision without news; to be called from time to time.
    pub fn look(&mut self, now: Time, waiting: bool) {
        self.follower.look(now, waiting);
    }

    /// A packet leaves towards the user. What no acknowledgement or spin bit counts is taken for delivered at
    /// once.
    #[inline(always)]
    fn forwarded(&mut self, now: Time, len: Bytes, seen: &Seen) {
        self.follower.forwarded(now, len);
        if seen.counted.is_none() {
            self.follower.unseen(now, len);
        }
    }

    /// Learns from what was seen of a packet, and decides.
    #[inline(always)]
    fn learn(&mut self, now: Time, seen: &Seen, waiting: bool) {
        if let Some(bytes) = seen.counted {
            self.follower.delivered(now, bytes);
        }
        if let Some(rtt) = seen.rtt {
            self.follower.sample(now, rtt, seen.enters_mean);
        }
        self.follower.look(now, waiting);
    }

    /// The other half of the path is not seen; twice what is tolerated on this one stands for both.
    /// Algorithms need not hear of a change by less than an eighth.
    #[inline(always)]
    fn news_of_reaction(&mut self, now: Time) -> Option<Duration> {
        self.follower.path().path_rtt()?;
        self.change_of_reaction(now)
    }

    fn change_of_reaction(&mut self, now: Time) -> Option<Duration> {
        let target = self.follower.path().target_rtt()?;
        let time = target.saturating_mul(2).max(REACTION_MIN);
        let is_news = self.reaction.is_none_or(|(told, at)| {
            let differs = time.as_nanos().abs_diff(told.as_nanos()) > told.as_nanos() / 8;
            differs || now.since(at) >= REACTION_REPEATED
        });
        is_news.then(|| {
            self.reaction = Some((time, now));
            time
        })
    }
}

/// A packet as an observer sees it.
#[derive(Clone, Copy, Debug)]
pub struct PacketInfo<'a> {
    /// Hash of its flow, the same in both directions.
    pub flow: u32,
    /// Its length by the accounting of the link.
    pub len: Bytes,
    /// What its transport shows.
    pub transport: &'a Transport,
}

/// What a packet taught.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Learned {
    /// What was seen of its flow.
    pub seen: Seen,
    /// A round-trip time that enters means.
    pub rtt: Option<Duration>,
    /// What the flow has in flight, after an acknowledgement.
    pub in_flight: Option<Bytes>,
    /// How long senders need to answer, if that changed or was not told for a second.
    pub reaction: Option<Duration>,
}

/// The flows of a user or of a link, and the bottleneck behind where its rate is followed.
#[derive(Debug)]
pub struct Observer<'a, const N: usize> {
    /// The flows.
    pub flows: &'a mut Flows<N>,
    /// The bottleneck.
    pub bottleneck: Option<&'a mut Bottleneck>,
}

impl<const N: usize> Observer<'_, N> {
    /// A packet passes: [`Observer::forwarded`] or [`Observer::answered`].
    #[inline(always)]
    pub fn observe(&mut self, now: Time, way: Way, packet: &PacketInfo<'_>, waiting: bool) -> Learned {
        match way {
            Way::ToUser => self.forwarded(now, packet, waiting),
            Way::FromUser => self.answered(now, packet, waiting),
        }
    }

    /// A packet leaves towards its user at `now`. `waiting` says whether others wait for the same bottleneck.
    #[inline(always)]
    pub fn forwarded(&mut self, now: Time, packet: &PacketInfo<'_>, waiting: bool) -> Learned {
        let seen = self.see(now, Way::ToUser, packet);
        if let Some(bottleneck) = &mut self.bottleneck {
            bottleneck.forwarded(now, packet.len, &seen);
        }
        self.learn(now, seen, waiting)
    }

    /// A packet comes back from a user; its flow is that of the packets that it answers. What shows nothing
    /// teaches nothing.
    #[inline(always)]
    pub fn answered(&mut self, now: Time, packet: &PacketInfo<'_>, waiting: bool) -> Learned {
        if *packet.transport == Transport::Other {
            return Learned::default();
        }
        let seen = self.see(now, Way::FromUser, packet);
        let in_flight = seen.in_flight.filter(|_| seen.delivered > Bytes::ZERO);
        Learned { in_flight, ..self.learn(now, seen, waiting) }
    }

    #[inline(always)]
    fn see(&mut self, now: Time, way: Way, packet: &PacketInfo<'_>) -> Seen {
        self.flows.observe(now, way, packet.flow, packet.len.get() as u32, packet.transport)
    }

    #[inline(always)]
    fn learn(&mut self, now: Time, seen: Seen, waiting: bool) -> Learned {
        let reaction = self.bottleneck.as_mut().and_then(|bottleneck| {
            bottleneck.learn(now, &seen, waiting);
            bottleneck.news_of_reaction(now)
        });
        let rtt = seen.rtt.filter(|_| seen.enters_mean).map(|rtt| rtt.rtt);
        Learned { seen, rtt, in_flight: None, reaction }
    }
}

#[cfg(test)]
mod tests;
