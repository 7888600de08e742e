//! A bottleneck behind and the rate that follows it: of a direction, or of a user.

use weir_sense::Seen;
use weir_sense::bottleneck::{FollowConfig, Follower};
use weir_wire::tcp::Segment;
use weir_wire::transport::Transport;
use weir_units::{Bytes, Duration, Rate, Time};

/// Least time that senders are given to answer.
const REACTION_MIN: Duration = Duration::from_millis(20);
/// The size of headers is taken over this many bytes of payload.
const PAYLOAD: u64 = 1 << 20;
/// An algorithm hears again how long senders need after this time: it may have been made anew since.
const REPEATED: Duration = Duration::from_secs(1);

/// What is known of a bottleneck.
#[derive(Clone)]
pub(super) struct Bottleneck {
    follower: Follower,
    /// What the algorithm was told that senders need to answer, and when.
    reaction: Option<(Duration, Time)>,
    /// Bytes of TCP's segments by the accounting of the link, and of their payload, which TCP counts.
    segments: (u64, u64),
}

impl Bottleneck {
    /// Nothing is known yet at `start`.
    pub fn new(start: Time) -> Bottleneck {
        Bottleneck {
            follower: Follower::new(FollowConfig::default(), start),
            reaction: None,
            segments: (0, 0),
        }
    }

    /// The rate to send at and the four variables.
    pub fn follower(&self) -> &Follower {
        &self.follower
    }

    /// A packet comes in, before any queue.
    pub fn arrived(&mut self, now: Time, len: Bytes) {
        self.follower.arrived(now, len);
    }

    /// A packet leaves towards the user.
    pub fn forwarded(&mut self, now: Time, transport: &Transport, len: Bytes, seen: &Seen) {
        if let Transport::Tcp(segment) = transport {
            self.weigh(segment, len);
        }
        self.follower.forwarded(now, len);
        if !is_counted(transport, seen) {
            self.follower.unseen(now, len);
        }
    }

    /// Learns from what was seen of a packet, and decides. `waiting` says whether packets wait for the rate.
    pub fn learn(&mut self, now: Time, transport: &Transport, seen: &Seen, waiting: bool) {
        self.follower.delivered(now, self.counted(transport, seen));
        if let Some(rtt) = seen.rtt {
            self.follower.sample(now, rtt, seen.enters_mean);
        }
        self.follower.look(now, waiting);
    }

    /// Takes a decision without news.
    pub fn look(&mut self, now: Time, waiting: bool) {
        self.follower.look(now, waiting);
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

    /// The other half of the path is not seen; twice what is tolerated on this one stands for both. Algorithms need
    /// not hear of a change by less than an eighth.
    pub fn news_of_reaction(&mut self, now: Time) -> Option<Duration> {
        let target = self.follower.path().target_rtt()?;
        let time = target.saturating_mul(2).max(REACTION_MIN);
        let is_news = self.reaction.is_none_or(|(told, at)| {
            time.as_nanos().abs_diff(told.as_nanos()) > told.as_nanos() / 8 || now.since(at) >= REPEATED
        });
        is_news.then(|| {
            self.reaction = Some((time, now));
            time
        })
    }

    /// The rate that it allows, where that is less than the direction's own; zero stands for one without a rate.
    pub fn rate(&self, own: Rate) -> Option<Rate> {
        self.follower.rate().filter(|rate| own == Rate::ZERO || *rate < own)
    }
}

/// Whether what the flow delivers is counted by its acknowledgements or spin bit: a QUIC connection without a
/// spin bit that is believed shows nothing.
pub(super) fn is_counted(transport: &Transport, seen: &Seen) -> bool {
    match transport {
        Transport::Tcp(_) => seen.in_flight.is_some(),
        Transport::Quic(_) => seen.live,
        Transport::Other => false,
    }
}
