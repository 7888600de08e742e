//! The round-trip time between an observer and one end of a QUIC connection, from what is visible without
//! keys.
//!
//! One side inverts the spin bit and the other reflects it (RFC 9000 section 17.4), so its edges travel round
//! and round: an edge passes towards the user and after some time one comes back from there. That time is the
//! half of the round trip on the user's side, whichever side inverts. Before the first edge the handshake
//! gives one sample: the user's first Handshake packet answers the first one that it gets.
//!
//! The bit may be off, random or a lie. After RFC 9312 section 4.2, an edge is believed when a second packet
//! of the new value follows (one that was overtaken flips the bit for a single packet) and when it is not
//! closer to the one before it than half of the last period. Samples are believed after two windows of
//! [`WINDOW`] edges that took turns between the directions, and left out when they are far from those before
//! or their edge was out of turn. At least one connection in sixteen has the bit off at an end (RFC 9000
//! section 17.4), where it may be random, and the other end goes on: windows with many faults count against
//! those without. Where a round-trip time to the same user is known, by the handshake to begin with, two in a
//! row that may be one are enough at first, as slow start fills a deep buffer before sixteen edges have
//! passed.

use crate::{Rtt, Srtt, Suspicions, Way};
use weir_units::{Bytes, Duration, Time};

/// Edges after which a connection is judged, again and again.
pub const WINDOW: u8 = 8;
/// Faults in a window that are forgiven: loss hides an edge now and then.
const FAULTS_MAX: u8 = 2;
/// So many windows more with few faults than with many are enough.
const TRUST: i8 = 2;
/// So many with many faults are remembered.
const DISTRUST: i8 = -8;
/// Samples in a row, without a fault, that are possible beside what is known of the user.
const POSSIBLE: u8 = 2;
/// A sample this many times the smoothed one and the one before is an application's pause, unless it repeats.
const OUTLIER: u64 = 4;
/// This many outliers in a row are the truth.
const OUTLIERS_MAX: u8 = 3;

/// A QUIC connection, as an observer sees it, joined at any moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct QuicFlow {
    to_user: Edges,
    from_user: Edges,
    /// Edges that the user has not answered yet, the newest first. Where the server is near it reflects an
    /// edge before the packet has passed that confirms it here, so that two may be under way.
    pending: [Option<Edge>; 2],
    /// Bytes that passed towards the user, and those before the last edge that was answered.
    forwarded: u64,
    delivered: u64,
    /// Those between the last such edge and its answer.
    in_flight: Option<u64>,
    judge: Judge,
    smoothed: Srtt,
    latest: Duration,
    outliers: u8,
    handshake: Handshake,
    measured_at: Option<Time>,
}

#[derive(Clone, Copy, Debug, Default)]
enum Handshake {
    #[default]
    Unseen,
    /// The first packet passed towards the user then.
    Asked(Time),
    Over,
}

/// An edge that a second packet confirmed.
#[derive(Clone, Copy, Debug)]
struct Edge {
    /// When the first packet of the new value passed.
    at: Time,
    /// Bytes that had passed before it.
    before: u64,
    /// It came too soon after the last one to be timed.
    close: bool,
}

/// The edges of one direction.
#[derive(Clone, Copy, Debug, Default)]
struct Edges {
    value: Option<bool>,
    /// When the first packet of another value passed, and bytes before it.
    candidate: Option<(Time, u64)>,
    last: Option<Time>,
    period: Duration,
}

/// What came of a packet with a spin bit.
enum SpinPeriod {
    Nothing,
    /// The bit flipped for one packet.
    Flicker,
    Edge(Edge),
}

impl Edges {
    fn see(&mut self, now: Time, spin: bool, before: u64) -> SpinPeriod {
        let Some(value) = self.value else {
            self.value = Some(spin);
            return SpinPeriod::Nothing;
        };
        if spin == value {
            return if self.candidate.take().is_some() { SpinPeriod::Flicker } else { SpinPeriod::Nothing };
        }
        let Some((at, before)) = self.candidate.take() else {
            self.candidate = Some((now, before));
            return SpinPeriod::Nothing;
        };
        self.value = Some(spin);
        // One that is rejected moves the period all the same, so that a path that became short is believed at
        // its second edge.
        let period = self.last.map_or(Duration::ZERO, |last| at.since(last));
        let close = period.saturating_mul(2) < self.period;
        (self.last, self.period) = (Some(at), period);
        SpinPeriod::Edge(Edge { at, before, close })
    }
}

/// Whether a spin bit is one.
#[derive(Clone, Copy, Debug, Default)]
struct Judge {
    edges: u8,
    faults: u8,
    /// Windows without too many faults less those with more, at most [`TRUST`]. A random bit passes one in
    /// twenty.
    trust: i8,
    /// Samples in a row that may be round-trip times of this user.
    possible: u8,
}

impl Judge {
    fn edge(&mut self, suspicions: &mut Suspicions) {
        self.edges += 1;
        if self.edges == WINDOW {
            let clean = self.faults <= FAULTS_MAX;
            suspicions.spin_distrusted += u64::from(!clean);
            let trust = if clean { TRUST.min(self.trust + 1) } else { DISTRUST.max(self.trust.min(1) - 1) };
            *self = Judge { edges: 0, faults: 0, trust, possible: self.possible };
        }
    }

    /// A sample is held beside the smallest round-trip time of the user: nothing is faster than that, but for
    /// jitter.
    fn compare(&mut self, rtt: Duration, smallest: Duration) {
        let is_possible = rtt.saturating_mul(8) >= smallest.saturating_mul(7);
        self.possible = if is_possible { self.possible.saturating_add(1) } else { 0 };
    }

    fn trusts(&self) -> bool {
        let is_known = self.trust == TRUST || self.trust >= 0 && self.possible >= POSSIBLE;
        is_known && self.faults <= FAULTS_MAX
    }

    fn fault(&mut self) {
        self.faults = self.faults.saturating_add(1);
        self.possible = 0;
    }
}

impl QuicFlow {
    /// A packet of `len` bytes with a short header and this spin bit passes. `smallest` is the smallest
    /// round-trip time that is known of the user, by any of its flows.
    pub fn spin(
        &mut self,
        now: Time,
        way: Way,
        len: u32,
        spin: bool,
        smallest: Option<Duration>,
        suspicions: &mut Suspicions,
    ) -> Option<Rtt> {
        // The first edge that is seen may be the answer to one that was not.
        let first = self.to_user.last.is_none() && self.from_user.last.is_none();
        let edges = match way {
            Way::ToUser => &mut self.to_user,
            Way::FromUser => &mut self.from_user,
        };
        let turn = edges.see(now, spin, self.forwarded);
        self.forwarded += if way == Way::ToUser { u64::from(len) } else { 0 };
        let edge = match turn {
            SpinPeriod::Nothing => return None,
            SpinPeriod::Flicker => {
                self.judge.fault();
                return None;
            }
            SpinPeriod::Edge(edge) => edge,
        };
        let (asked, in_turn) = match way {
            Way::ToUser => (None, self.ask(edge)),
            Way::FromUser => self.answer(edge),
        };
        if !(in_turn || first && way == Way::FromUser) {
            suspicions.spin_out_of_turn += 1;
            self.judge.fault();
        }
        self.judge.edge(suspicions);
        self.delivered = asked.map_or(self.delivered, |asked| self.delivered.max(asked.before));
        let timed = asked.filter(|asked| in_turn && !edge.close && !asked.close)?;
        let rtt = edge.at.since(timed.at);
        smallest.into_iter().for_each(|smallest| self.judge.compare(rtt, smallest));
        if !self.judge.trusts() {
            return None;
        }
        self.in_flight = Some(edge.before - timed.before);
        self.believe(now, rtt, suspicions)
    }

    /// An edge passes towards the user; whether at most one before it waits for its answer.
    fn ask(&mut self, edge: Edge) -> bool {
        let [newest, older] = self.pending;
        self.pending = [Some(edge), newest];
        older.is_none()
    }

    /// The edge that one from the user answers, the newest that passed before it, and whether none was passed
    /// over.
    fn answer(&mut self, edge: Edge) -> (Option<Edge>, bool) {
        let passed_before = |asked: &Edge| asked.at <= edge.at;
        let [newest, older] = self.pending;
        if let Some(asked) = newest.filter(passed_before) {
            self.pending = [None; 2];
            return (Some(asked), older.is_none());
        }
        self.pending = [newest, None];
        let asked = older.filter(passed_before);
        (asked, asked.is_some())
    }

    /// Bytes that had passed before an edge which the user answered: what is there for sure.
    pub fn delivered(&self) -> Bytes {
        Bytes::new(self.delivered)
    }

    /// Bytes that passed between the last edge that was timed and its answer: what was under way then. `None`
    /// before.
    pub fn in_flight(&self) -> Option<Bytes> {
        self.in_flight.map(Bytes::new)
    }

    fn believe(&mut self, now: Time, rtt: Duration, suspicions: &mut Suspicions) -> Option<Rtt> {
        // In slow start each is up to twice the one before, faster than any mean.
        let usual = self.smoothed.get().map_or(rtt, |smoothed| smoothed.max(self.latest));
        if rtt > usual.saturating_mul(OUTLIER) && self.outliers < OUTLIERS_MAX {
            self.outliers += 1;
            suspicions.spin_outliers += 1;
            return None;
        }
        if self.outliers == OUTLIERS_MAX {
            self.smoothed = Srtt::default();
        }
        self.outliers = 0;
        self.smoothed.sample(rtt);
        self.latest = rtt;
        self.measured_at = Some(now);
        Some(Rtt { rtt, held: Duration::ZERO, doubtful: false })
    }

    /// A datagram with a Handshake packet passes.
    pub fn handshake(&mut self, now: Time, way: Way) -> Option<Rtt> {
        match (way, self.handshake) {
            (Way::ToUser, Handshake::Unseen) => {
                self.handshake = Handshake::Asked(now);
                None
            }
            (Way::FromUser, Handshake::Asked(at)) => {
                self.handshake = Handshake::Over;
                self.measured_at = Some(now);
                Some(Rtt { rtt: now.since(at), held: Duration::ZERO, doubtful: false })
            }
            // A user who speaks first is the server, or the beginning was missed.
            (Way::FromUser, Handshake::Unseen) => {
                self.handshake = Handshake::Over;
                None
            }
            _ => None,
        }
    }

    /// When the last round-trip time was taken.
    pub fn measured_at(&self) -> Option<Time> {
        self.measured_at
    }
}

#[cfg(test)]
mod tests;
