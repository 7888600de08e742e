//! The flows of one user: a table of fixed size that turns packets into round-trip times and flights.

use crate::quic::QuicFlow;
use crate::rate::Bins;
use crate::tcp::TcpFlow;
use crate::{Rtt, Suspicions, Way, WindowedMin};
use weir_units::{Bytes, Duration, Time};
use weir_wire::transport::Transport;

/// A flow whose last round-trip time is older has none.
pub const LIVE: Duration = Duration::from_secs(2);
/// A flow that is not measured keeps its place for so long after its last packet: otherwise newcomers would
/// push each other out before any round trip is over.
pub const SILENT: Duration = Duration::from_millis(250);
/// How long the smallest round-trip time counts by which samples are thinned.
const SMALLEST: Duration = Duration::from_secs(10);
/// The rate of a flow that shows no acknowledgements is taken over this time.
const RATE_BIN: Duration = Duration::from_millis(50);

/// What one packet told.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Seen {
    /// A round-trip time between observer and user.
    pub rtt: Option<Rtt>,
    /// Whether it may enter a mean: it is not doubtful, and the first of its flow for a quarter of the
    /// smallest round-trip time. Otherwise a flow with many packets would speak for all.
    pub enters_mean: bool,
    /// Whether the flow's round-trip time is known and at most [`LIVE`] old.
    pub live: bool,
    /// Bytes of the flow between observer and user; `None` where nothing tells.
    pub in_flight: Option<Bytes>,
    /// Bytes that are now known to have arrived: acknowledged, or passed before an edge of the spin bit that
    /// came back. TCP counts payload.
    pub delivered: Bytes,
    /// The same with headers, as the lengths of packets count; `None` where neither acknowledgements nor a
    /// spin bit that is believed tell what arrives: such a flow is not measured.
    pub counted: Option<Bytes>,
}

/// Which share of bytes flows whose round-trip time is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Coverage {
    /// Bytes towards the user.
    pub bytes: u64,
    /// Those of flows with a round-trip time that is at most [`LIVE`] old.
    pub live: u64,
}

impl Coverage {
    /// The share; `None` before the first byte.
    pub fn share(&self) -> Option<f64> {
        (self.bytes > 0).then(|| self.live as f64 / self.bytes as f64)
    }
}

#[derive(Clone, Copy, Debug)]
#[allow(clippy::large_enum_variant, reason = "places are as large as the largest kind: nothing is allocated")]
enum Kind {
    Tcp(TcpFlow),
    Quic(QuicFlow, Bins),
    Silent,
}

/// Bytes of packets, and of the payload that TCP counts in them.
type Sizes = (u32, u32);

/// How much headers add to what TCP counts in a flow.
#[derive(Clone, Copy, Debug, Default)]
struct Overhead {
    /// Of the last segments.
    current: Sizes,
    /// Of the segments before, once they were many.
    former: Option<Sizes>,
}

impl Overhead {
    /// It is taken over so many bytes of payload.
    const PAYLOAD: u32 = 1 << 20;

    fn add(&mut self, len: u32, payload: u32) {
        if payload == 0 {
            return;
        }
        let (bytes, counted) = self.current;
        self.current = (bytes.saturating_add(len), counted.saturating_add(payload));
        if self.current.1 >= Overhead::PAYLOAD {
            self.former = Some(core::mem::take(&mut self.current));
        }
    }

    fn with_headers(&self, payload: Bytes) -> Bytes {
        match self.former.unwrap_or(self.current) {
            (_, 0) => payload,
            (bytes, counted) => {
                let scaled = u128::from(payload.get()) * u128::from(bytes) / u128::from(counted);
                Bytes::new(u64::try_from(scaled).unwrap_or(u64::MAX))
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    kind: Kind,
    overhead: Overhead,
    active: Time,
    entered: Option<Time>,
}

/// Round-trip times of the user, by any flow.
#[derive(Clone, Copy, Debug)]
struct UserRtts {
    latest: Option<Duration>,
    smallest: Option<Duration>,
}

/// Who came lately and found no place. A flow enters a full table with its second packet only, so that flows
/// of a single packet, however many, do not take the places that become free.
#[derive(Clone, Copy, Debug, Default)]
struct Door {
    /// A bit for each of 1024 hashes.
    seen: [u64; 16],
    noted: u16,
}

impl Door {
    /// It forgets everybody after so many, or it would soon know everybody.
    const MOST: u16 = 256;

    fn knows(&mut self, key: u32) -> bool {
        let hash = key.wrapping_mul(0x9e37_79b1) >> 22;
        let (word, bit) = (hash as usize / 64, 1u64 << (hash % 64));
        if self.seen[word] & bit != 0 {
            return true;
        }
        if self.noted == Door::MOST {
            *self = Door::default();
        }
        self.seen[word] |= bit;
        self.noted += 1;
        false
    }
}

/// The flows of a user, at most `N`. A flow that is measured keeps its place for as long as it is, and one
/// that sends; a newcomer takes that of the one which has been silent the longest, or is not tracked. So a
/// million flows cost the memory of `N`.
#[derive(Clone, Debug)]
pub struct Flows<const N: usize> {
    keys: [Option<u32>; N],
    slots: [Slot; N],
    door: Door,
    smallest: WindowedMin<Duration>,
    latest: Option<Duration>,
    suspicions: Suspicions,
    coverage: Coverage,
}

impl<const N: usize> Default for Flows<N> {
    fn default() -> Flows<N> {
        Flows {
            keys: [None; N],
            slots: [Slot::new(Time::ZERO); N],
            door: Door::default(),
            smallest: WindowedMin::new(SMALLEST),
            latest: None,
            suspicions: Suspicions::default(),
            coverage: Coverage::default(),
        }
    }
}

impl<const N: usize> Flows<N> {
    /// A packet of `len` bytes passes at `now`. `key` is a hash of its flow that is the same in both
    /// directions. What shows nothing takes no place.
    pub fn observe(&mut self, now: Time, way: Way, key: u32, len: u32, transport: &Transport) -> Seen {
        let shows = *transport != Transport::Other;
        let place = if shows { self.place(now, key) } else { None };
        if way == Way::ToUser {
            let live = place.is_some_and(|at| self.slots[at].is_live(now));
            self.coverage.bytes += u64::from(len);
            self.coverage.live += if live { u64::from(len) } else { 0 };
        }
        let Some(at) = place else {
            self.suspicions.untracked += u64::from(shows);
            return Seen::default();
        };
        let is_quic = matches!(transport, Transport::Quic(_));
        let smallest = if is_quic { self.smallest.get(now) } else { None };
        let known = UserRtts { latest: self.latest, smallest };
        let slot = &mut self.slots[at];
        slot.active = now;
        let mut seen = slot.take(now, way, len, transport, known, &mut self.suspicions);
        if let Some(Rtt { rtt, doubtful, .. }) = seen.rtt {
            self.smallest.insert(now, rtt);
            self.latest = Some(rtt);
            let smallest = self.smallest.get(now).unwrap_or(rtt);
            let quarter = Duration::from_nanos(smallest.as_nanos() / 4);
            let slot = &mut self.slots[at];
            seen.enters_mean = !doubtful && slot.entered.is_none_or(|last| now.since(last) >= quarter);
            slot.entered = if seen.enters_mean { Some(now) } else { slot.entered };
        }
        seen.live = self.slots[at].is_live(now);
        seen.counted = match transport {
            Transport::Tcp(_) => Some(self.slots[at].overhead.with_headers(seen.delivered)),
            Transport::Quic(_) => seen.live.then_some(seen.delivered),
            Transport::Other => None,
        };
        seen
    }

    fn place(&mut self, now: Time, key: u32) -> Option<usize> {
        if let Some(at) = self.keys.iter().position(|k| *k == Some(key)) {
            return Some(at);
        }
        let free = self.keys.iter().position(Option::is_none);
        let may_enter = free.is_some() || self.door.knows(key);
        let at = free.or_else(|| {
            let silent = |slot: &Slot| !slot.is_live(now) && now.since(slot.active) >= SILENT;
            let places = (0..N).filter(|at| may_enter && silent(&self.slots[*at]));
            places.min_by_key(|at| self.slots[*at].active)
        })?;
        self.keys[at] = Some(key);
        self.slots[at] = Slot::new(now);
        Some(at)
    }

    /// Whether a flow has a place.
    pub fn knows(&self, key: u32) -> bool {
        self.keys.contains(&Some(key))
    }

    /// The bytes in flight of a flow, where they are known.
    pub fn in_flight(&self, key: u32) -> Option<Bytes> {
        let at = self.keys.iter().position(|k| *k == Some(key))?;
        self.slots[at].in_flight(self.latest)
    }

    /// The round-trip time that was measured last, of a user who was active since [`LIVE`].
    pub fn rtt(&self, now: Time) -> Option<Duration> {
        self.latest.filter(|_| !self.is_idle(now, LIVE))
    }

    /// Whether nobody was active for `idle`, so that the table may be given to another user.
    pub fn is_idle(&self, now: Time, idle: Duration) -> bool {
        let used = self.keys.iter().zip(&self.slots).filter(|(key, _)| key.is_some());
        used.into_iter().all(|(_, slot)| now.since(slot.active) >= idle)
    }

    /// What did not add up so far.
    pub fn suspicions(&self) -> &Suspicions {
        &self.suspicions
    }

    /// How much of the traffic is measured.
    pub fn coverage(&self) -> Coverage {
        self.coverage
    }
}

impl Slot {
    fn new(now: Time) -> Slot {
        Slot { kind: Kind::Silent, overhead: Overhead::default(), active: now, entered: None }
    }

    fn is_live(&self, now: Time) -> bool {
        let measured = match &self.kind {
            Kind::Tcp(flow) => flow.measured_at(),
            Kind::Quic(flow, _) => flow.measured_at(),
            Kind::Silent => None,
        };
        measured.is_some_and(|at| now.since(at) < LIVE)
    }

    fn take(
        &mut self,
        now: Time,
        way: Way,
        len: u32,
        transport: &Transport,
        known: UserRtts,
        suspicions: &mut Suspicions,
    ) -> Seen {
        match transport {
            Transport::Tcp(segment) => {
                if !matches!(self.kind, Kind::Tcp(_)) {
                    (self.kind, self.overhead) = (Kind::Tcp(TcpFlow::default()), Overhead::default());
                }
                let Kind::Tcp(flow) = &mut self.kind else { return Seen::default() };
                let before = flow.delivered();
                let rtt = match way {
                    Way::ToUser => {
                        self.overhead.add(len, segment.len);
                        flow.forward(now, segment, suspicions);
                        None
                    }
                    Way::FromUser => flow.back(now, segment, suspicions),
                };
                let delivered = flow.delivered() - before;
                Seen { rtt, delivered, in_flight: Some(flow.in_flight()), ..Seen::default() }
            }
            Transport::Quic(packets) => {
                if !matches!(self.kind, Kind::Quic(..)) {
                    self.kind = Kind::Quic(QuicFlow::default(), Bins::new(RATE_BIN, now));
                }
                let Kind::Quic(flow, bins) = &mut self.kind else { return Seen::default() };
                if way == Way::ToUser {
                    bins.add(now, u64::from(len));
                }
                let before = flow.delivered();
                let of_handshake = if packets.handshake { flow.handshake(now, way) } else { None };
                let spin = packets.spin;
                let of_spin =
                    spin.and_then(|spin| flow.spin(now, way, len, spin, known.smallest, suspicions));
                let delivered = flow.delivered() - before;
                let rtt = of_handshake.or(of_spin);
                Seen { rtt, delivered, in_flight: self.in_flight(known.latest), ..Seen::default() }
            }
            Transport::Other => Seen::default(),
        }
    }

    /// Of QUIC what passed between an edge of the spin bit and its answer; before there is one, by Little's
    /// law, what is forwarded in a round-trip time is under way.
    fn in_flight(&self, latest: Option<Duration>) -> Option<Bytes> {
        match &self.kind {
            Kind::Tcp(flow) => Some(flow.in_flight()),
            Kind::Quic(flow, bins) => flow.in_flight().or_else(|| Some(bins.rate()?.bytes_in(latest?))),
            Kind::Silent => None,
        }
    }
}

#[cfg(test)]
mod tests;
