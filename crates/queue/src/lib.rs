//! Who holds packets: queue disciplines, their counters, and the shaper's arithmetic.
//!
//! This crate alone stores, frees, reorders and counts packets. Storage is allocated when a queue is made
//! and never again, unless it is made to grow. Packets are conserved ([`Counters::is_conserved`]), which is
//! asserted in debug builds after every step:
//!
//! ```text
//! arrived  = enqueued + dropped_in + overflowed + filtered
//! enqueued = dequeued + dropped_out + shed + queued
//! ```
//!
//! ```
//! use weir_aqm::algorithms::codel::{CoDel, Params};
//! use weir_aqm::{Algorithm, Ecn};
//! use weir_queue::{Arrival, Discipline, Hosts, Limits, Single};
//! use weir_units::{Bytes, Duration, Rate, Time};
//!
//! let codel = CoDel::new(&Params::default(), Time::ZERO);
//! let limits = Limits { bytes: Bytes::new(150_000), packets: 100 };
//! let mut queue = Single::new(codel, limits, Rate::from_mbps(10), 1);
//! let arrival = Arrival { len: Bytes::new(1500), flow: 0, hosts: Hosts::UNKNOWN, ecn: Ecn::NotEct, nqb: false };
//! let mut discarded = |_: &_, item: &str, cause| panic!("{item} was discarded: {cause:?}");
//! queue.enqueue(Time::ZERO, arrival, "packet", &mut discarded);
//! let departure = queue.dequeue(Time::ZERO + Duration::from_millis(3), &mut discarded).expect("one waits");
//! assert_eq!((departure.item, departure.sojourn), ("packet", Duration::from_millis(3)));
//! ```
#![deny(unsafe_code)]
#![deny(clippy::disallowed_methods)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

mod buckets;
mod class;
pub mod disciplines;
mod lanes;
mod management;
pub mod memory;
mod pool;
mod pooled;
mod protection;
mod rounds;
mod settle;
mod shaped;
mod shaper;
mod sojourns;
mod sum;

pub use choke::Choke;
pub use class::Class;
pub use disciplines::*;
pub use dual_pi2::DualPi2;
pub use flow_queue::{FlowQueue, SHED_BATCH_MAX};
pub use per_user::{PerUser, Plan, Plans, UserNow};
pub use pooled::{Pooled, Store};
pub use shaper::Shaper;
pub use single::Single;
pub use sojourns::Sojourns;

use weir_aqm::{Cause, Ecn, Packet, Sample};
use weir_units::{Bytes, Duration, Rate, Time};

/// Most head packets that one dequeue discards before a packet is sent unasked. It bounds the work of one
/// call when a law wants thousands of drops at once, as CoDel does after a time jump.
pub const DROPS_PER_DEQUEUE_MAX: u32 = 256;

/// Most packets that [`Discipline::expect`] is told of at once: what they need must stay in the cache until
/// it is their turn.
pub const AHEAD_MAX: usize = 32;

/// What a packet is when it arrives, before the queue numbers it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// Size by the link's byte accounting.
    pub len: Bytes,
    /// Hash of its flow.
    pub flow: u32,
    /// Whose flow it is.
    pub hosts: Hosts,
    /// Its ECN field.
    pub ecn: Ecn,
    /// Whether it asks for the non-queue-building behaviour (NQB, RFC 9956), by its DSCP; only read where
    /// the queue has a lane for it ([`Discipline::reads_nqb`]).
    pub nqb: bool,
}

/// Hashes of the addresses of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hosts {
    /// Of its source.
    pub sender: u32,
    /// Of its destination.
    pub receiver: u32,
}

impl Hosts {
    /// Where nobody asks for hosts: one host for all.
    pub const UNKNOWN: Hosts = Hosts { sender: 0, receiver: 0 };

    /// The one that counts as the user.
    pub fn user(&self, by_sender: bool) -> u32 {
        if by_sender { self.sender } else { self.receiver }
    }
}

/// A packet that leaves the queue to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Departure<T> {
    /// What the algorithm knew of it.
    pub packet: Packet,
    /// What the host stored.
    pub item: T,
    /// Whether the host must set CE.
    pub marked: bool,
    /// How long it waited.
    pub sojourn: Duration,
}

/// Where discarded packets go, so that the host gets its buffers back.
pub trait Outbox<T> {
    /// The queue discarded this packet.
    fn discarded(&mut self, packet: &Packet, item: T, cause: Cause);
}

impl<T, F: FnMut(&Packet, T, Cause)> Outbox<T> for F {
    fn discarded(&mut self, packet: &Packet, item: T, cause: Cause) {
        self(packet, item, cause)
    }
}

/// A queue with its management: what a link holds.
pub trait Discipline<T> {
    /// Whether [`Discipline::expect`] does anything: hosts that would have to find out more for it need not,
    /// then.
    const EXPECTS: bool = false;
    /// Packets of these hosts come next, at most [`AHEAD_MAX`], and about as many leave: asks for the memory
    /// that they need. What the queue does is the same without.
    fn expect(&self, _hosts: &[Hosts]) {}
    /// Takes a packet, or hands it to the outbox.
    fn enqueue(&mut self, now: Time, arrival: Arrival, item: T, out: &mut impl Outbox<T>);
    /// Whether [`Discipline::replace`] does anything.
    fn filters_acks(&self) -> bool {
        false
    }
    /// Whether the queue treats packets of NQB otherwise than others, so that [`Arrival::nqb`] is needed.
    fn reads_nqb(&self) -> bool {
        false
    }
    /// A packet arrives that may take the place of the one of its flow that would leave last: it does if
    /// `replaces(last, before)` says so of the last two that wait, and if it is as long. Returns what was
    /// replaced; on `None` nothing happened, and the packet is to be enqueued. At least two stay.
    fn replace(&mut self, _arrival: &Arrival, _item: &T, _replaces: impl FnOnce(&T, &T) -> bool) -> Option<T>
    where
        T: Copy,
    {
        None
    }
    /// The next packet to send, if any; discarded heads go to the outbox.
    fn dequeue(&mut self, now: Time, out: &mut impl Outbox<T>) -> Option<Departure<T>>;
    /// The time before which no packet could have left: that at which the one arrived that leaves next, or
    /// one after it, or that at which the first user who is held to a rate may send. `None` while the
    /// queue is empty.
    fn head_arrived(&self) -> Option<Time>;
    /// Bytes stored.
    fn backlog(&self) -> Bytes;
    /// Packets stored.
    fn packets(&self) -> u32;
    /// What happened so far.
    fn counters(&self) -> &Counters;
    /// The link's rate changed.
    fn set_rate(&mut self, rate: Rate);
    /// Something was measured outside, such as a round trip below this queue. Every algorithm of the queue is
    /// told.
    fn sample(&mut self, now: Time, sample: Sample);
    /// The same, measured for the user among these hosts: a queue with an algorithm for each user tells that
    /// one alone.
    fn sample_for(&mut self, now: Time, _hosts: Hosts, sample: Sample) {
        self.sample(now, sample);
    }
    /// The rate that the user among these hosts is held to from its next packet on, `None` for no limit;
    /// where rates of users were asked for ([`Managed::make_paces`]), else nothing happens.
    fn set_rate_of(&mut self, _hosts: Hosts, _rate: Option<Rate>) {}
    /// Packets stored for the user among these hosts; all of them where users are not told apart.
    fn packets_of(&self, _hosts: Hosts) -> u32 {
        self.packets()
    }
    /// What happened to users so far; none where users are not told apart.
    fn user_counters(&self) -> Option<UserCounters> {
        None
    }
}

/// What happened to users so far, where each has a place of a limited number.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct UserCounters {
    /// Places given to newcomers.
    pub placed: u64,
    /// Of these, taken from users who had sent little and were silent.
    pub displaced: u64,
    /// Packets of users without a place, who share one queue.
    pub shared: u64,
}

/// What happened to packets so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Packets that wanted in.
    pub arrived: u64,
    /// Bytes that wanted in.
    pub arrived_bytes: u64,
    /// Packets stored.
    pub enqueued: u64,
    /// Packets the algorithm discarded on arrival.
    pub dropped_in: u64,
    /// Arriving packets discarded for lack of room: by the host's limits or an algorithm's own.
    pub overflowed: u64,
    /// Arriving acknowledgements that took the place of an older one, which is no more.
    pub filtered: u64,
    /// Stored packets discarded for lack of room.
    pub shed: u64,
    /// Packets sent.
    pub dequeued: u64,
    /// Bytes sent.
    pub dequeued_bytes: u64,
    /// Stored packets the algorithm discarded: at the head, or drawn from within the queue.
    pub dropped_out: u64,
    /// Packets marked CE.
    pub marked: u64,
    /// Packets that queue protection sent to the classic queue (RFC 9957).
    pub sanctioned: u64,
}

impl Counters {
    /// Counts a packet that wants in, and numbers it.
    #[inline]
    pub(crate) fn arrive(&mut self, now: Time, arrival: &Arrival) -> Packet {
        let Arrival { len, flow, ecn, .. } = *arrival;
        let packet = Packet { arrived: now, len, seq: self.arrived, flow, ecn };
        self.arrived += 1;
        self.arrived_bytes += len.get();
        packet
    }

    /// What was decided about an arrival: whether it is stored with a mark, or why it is discarded.
    #[inline]
    pub(crate) fn admitted(&mut self, outcome: Result<bool, Cause>) {
        match outcome {
            Ok(marked) => {
                self.enqueued += 1;
                self.marked += u64::from(marked);
            }
            Err(Cause::Overflow) => self.overflowed += 1,
            Err(Cause::SetPoint | Cause::Chance) => self.dropped_in += 1,
        }
    }

    /// A packet is sent.
    #[inline]
    pub(crate) fn departure(&mut self, len: Bytes) {
        self.dequeued += 1;
        self.dequeued_bytes += len.get();
    }

    /// Those of two queues of one link together.
    pub fn plus(&self, other: &Counters) -> Counters {
        Counters {
            arrived: self.arrived + other.arrived,
            arrived_bytes: self.arrived_bytes + other.arrived_bytes,
            enqueued: self.enqueued + other.enqueued,
            dropped_in: self.dropped_in + other.dropped_in,
            overflowed: self.overflowed + other.overflowed,
            filtered: self.filtered + other.filtered,
            shed: self.shed + other.shed,
            dequeued: self.dequeued + other.dequeued,
            dequeued_bytes: self.dequeued_bytes + other.dequeued_bytes,
            dropped_out: self.dropped_out + other.dropped_out,
            marked: self.marked + other.marked,
            sanctioned: self.sanctioned + other.sanctioned,
        }
    }

    /// Whether no packet was lost or made up, with `queued` packets stored.
    pub fn is_conserved(&self, queued: u32) -> bool {
        self.arrived == self.enqueued + self.dropped_in + self.overflowed + self.filtered
            && self.enqueued == self.dequeued + self.dropped_out + self.shed + u64::from(queued)
    }

    /// Packets discarded for lack of room.
    pub fn overflows(&self) -> u64 {
        self.overflowed + self.shed
    }

    /// Packets the algorithm discarded.
    pub fn drops(&self) -> u64 {
        self.dropped_in + self.dropped_out
    }
}
