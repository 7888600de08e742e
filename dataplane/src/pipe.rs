//! One direction: queue, shaper and delay line, in link time.
//!
//! Frames carry the time at which the kernel received them. Departures are computed at the time at which
//! the emulated link would have sent, between the arrivals that came before and after, so that a late turn
//! of the loop changes neither rates nor sojourn times. A late turn does delay the frame itself, unless a
//! delay line follows that is longer than the lateness.

use crate::frames::{Arena, Frame};
use crate::headers::{self, Headers, Kind};
use crate::meter::{Meter, Standing};
use crate::port::Port;
use crate::sensing::EXPEDITED;
use crate::{Received, charge};
use std::collections::VecDeque;
use weir_aqm::{Aqm, Cause, Packet, Sample};
use weir_queue::{Arrival, Counters, Departure, Discipline, Hosts, Limits, Shaper, Single};
use weir_scenario::Accounting;
use weir_units::{Bytes, Duration, Rate, Time};

/// What the queue stores.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    frame: Frame,
    kind: Kind,
    network: u16,
}

/// A direction, whichever algorithm is on it: the loop makes one call per batch.
pub trait Pipe: Send {
    /// Takes received frames, lets packets depart, and hands those whose time has come to the port.
    /// Returns whether there was anything to do.
    fn turn(&mut self, now: Time, received: &[Received], arena: &mut Arena, out: &mut Port) -> bool;
    /// When the next packet departs or leaves the delay line.
    fn next_event(&self) -> Option<Time>;
    /// The counts and distributions of this direction.
    fn meter(&mut self) -> &mut Meter;
    /// What happened to packets so far.
    fn counters(&self) -> Counters;
    /// The other port's MTU was changed.
    fn set_longest(&mut self, longest: Longest);
    /// Something was learned that the algorithm may want to know.
    fn learn(&mut self, now: Time, sample: Sample);
    /// Closes a sampling period.
    fn sample(&mut self, now: Time);
}

/// What a direction is made of, apart from its queue.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Rate of the emulated link; zero for unshaped.
    pub rate: Rate,
    /// How bytes are counted.
    pub accounting: Accounting,
    /// Lost time that the shaper makes up for.
    pub catch_up: Duration,
    /// Propagation delay added after the queue.
    pub delay: Duration,
    /// Most frames in the delay line.
    pub line_max: usize,
    /// What the other port can send.
    pub longest: Longest,
    /// Secret of the hashes of flows and hosts.
    pub hash_seed: u64,
    /// Room for packets of the class EF, if they have a queue of their own.
    pub expedited: Option<Limits>,
}

/// What manages the packets of the class EF: nothing does.
struct Unmanaged;

impl Aqm for Unmanaged {}

/// The queue of the class EF: it goes first, and no algorithm is asked.
type Expedited = Single<Unmanaged, Held>;

/// The longest frames that a port can send.
#[derive(Clone, Copy, Debug)]
pub struct Longest {
    /// Bytes of the network packet, which is the port's MTU.
    pub packet: u32,
    /// Bytes of the frame, with as many VLAN tags as the port takes.
    pub frame: u32,
}

/// A direction with a queue of type `D`.
pub struct Direction<D> {
    queue: D,
    expedited: Option<Expedited>,
    standing: fn(&mut D, Time) -> Standing,
    shape: Shape,
    shaper: Shaper,
    line: VecDeque<(Time, Frame)>,
    last: Time,
    meter: Meter,
}

impl<D: Discipline<Held>> Direction<D> {
    /// An empty direction.
    pub fn new(
        queue: D,
        standing: fn(&mut D, Time) -> Standing,
        shape: Shape,
        meter: Meter,
        now: Time,
    ) -> Self {
        let shaper = Shaper::new(shape.rate, shape.catch_up);
        let line = VecDeque::with_capacity(shape.line_max);
        let expedited = shape.expedited.map(|limits| Single::new(Unmanaged, limits, shape.rate, 0));
        Direction { queue, expedited, standing, shape, shaper, line, last: now, meter }
    }

    fn arrive(&mut self, at: Time, frame: Frame, arena: &mut Arena) {
        let bytes = arena.bytes(frame);
        let Headers { kind, network, ecn, flow, sender, receiver } =
            headers::read_seeded(bytes, self.shape.hash_seed);
        match kind {
            Kind::Runt => {
                self.meter.faults.runt += 1;
                return arena.give(frame.addr);
            }
            Kind::Malformed => self.meter.faults.malformed += 1,
            _ => {}
        }
        let Longest { packet, frame: longest } = self.shape.longest;
        if frame.len > longest || frame.len - u32::from(network) > packet {
            self.meter.faults.too_long += 1;
            return arena.give(frame.addr);
        }
        let len = charge(self.shape.accounting, frame.len, network);
        let held = Held { frame, kind, network };
        let hosts = Hosts { sender, receiver };
        let arrival = Arrival { len, flow, hosts, ecn };
        if let Some(expedited) = &mut self.expedited
            && is_expedited(arena.bytes(frame), kind, network)
        {
            let mut free = |_: &Packet, held: Held, _: Cause| arena.give(held.frame.addr);
            return expedited.enqueue(at, arrival, held, &mut free);
        }
        let mut free = |_: &Packet, held: Held, _: Cause| arena.give(held.frame.addr);
        self.queue.enqueue(at, arrival, held, &mut free);
    }

    /// When the packet arrived that leaves next, as far as is known.
    fn head_arrived(&self) -> Option<Time> {
        let first = self.expedited.as_ref().and_then(Expedited::head_arrived);
        let [first, second] = [first, self.queue.head_arrived()];
        first.into_iter().chain(second).min()
    }

    /// The packet that the link sends at `at`.
    fn next(&mut self, at: Time, arena: &mut Arena) -> Option<Departure<Held>> {
        let mut free = |_: &Packet, held: Held, _: Cause| arena.give(held.frame.addr);
        if let Some(expedited) = &mut self.expedited
            && expedited.head_arrived().is_some_and(|arrived| arrived <= at)
        {
            return expedited.dequeue(at, &mut free);
        }
        self.queue.dequeue(at, &mut free)
    }

    fn packets(&self) -> u32 {
        self.queue.packets() + self.expedited.as_ref().map_or(0, Expedited::packets)
    }

    /// Lets packets leave the queue up to link time `until`.
    fn depart(&mut self, until: Time, arena: &mut Arena, out: &mut Port) {
        while let Some(arrived) = self.head_arrived() {
            let at = if self.shape.rate == Rate::ZERO { until } else { self.shaper.departure(arrived) };
            if at > until {
                return;
            }
            if self.shape.delay == Duration::ZERO && out.room() == 0 {
                // The port is the bottleneck now: time it costs is queueing delay.
                self.shaper.blocked(until);
                return;
            }
            let Some(departure) = self.next(at, arena) else { return };
            let Held { frame, kind, network } = departure.item;
            self.shaper.sent(at, departure.packet.len);
            let (queue, expedited) = (&self.queue, &self.expedited);
            let counters = || all_counters(queue, expedited.as_ref());
            self.meter.departed(at, departure.packet.len, departure.sojourn, counters);
            if departure.marked {
                headers::mark(arena.bytes(frame), kind, network);
            }
            if self.shape.delay == Duration::ZERO {
                out.push(frame);
            } else if self.line.len() < self.shape.line_max {
                self.line.push_back((at + self.shape.delay, frame));
            } else {
                self.meter.faults.delay_line_full += 1;
                arena.give(frame.addr);
            }
        }
    }

    fn release(&mut self, now: Time, out: &mut Port) -> bool {
        let mut any = false;
        while let Some(&(due, frame)) = self.line.front() {
            if due > now || out.room() == 0 {
                break;
            }
            self.line.pop_front();
            self.meter.released(due, now);
            out.push(frame);
            any = true;
        }
        any
    }
}

impl<D: Discipline<Held> + Send> Pipe for Direction<D> {
    fn turn(&mut self, now: Time, received: &[Received], arena: &mut Arena, out: &mut Port) -> bool {
        self.shaper.looked(now);
        for r in received {
            // Stamps come from other processors and several queues; link time only moves forward.
            let at = r.arrived.clamp(self.last, now.max(self.last));
            if self.shape.rate != Rate::ZERO {
                self.depart(at, arena, out);
            }
            self.arrive(at, r.frame, arena);
            self.last = at;
        }
        let before = self.packets();
        self.depart(now.max(self.last), arena, out);
        let departed = self.packets() != before;
        let released = self.release(now, out);
        self.last = self.last.max(now);
        departed || released || !received.is_empty()
    }

    fn next_event(&self) -> Option<Time> {
        let departure = self.head_arrived().map(|arrived| self.shaper.departure(arrived));
        let release = self.line.front().map(|(due, _)| *due);
        match (departure, release) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    fn meter(&mut self) -> &mut Meter {
        &mut self.meter
    }

    fn counters(&self) -> Counters {
        all_counters(&self.queue, self.expedited.as_ref())
    }

    fn set_longest(&mut self, longest: Longest) {
        self.shape.longest = longest;
    }

    fn learn(&mut self, now: Time, sample: Sample) {
        // What other processors stamped may be a little ahead; to the algorithm time only moves forward.
        self.queue.sample(now.max(self.last), sample);
    }

    fn sample(&mut self, now: Time) {
        let standing = (self.standing)(&mut self.queue, now);
        let expedited = self.expedited.as_ref().map_or(Bytes::ZERO, Expedited::backlog);
        let backlog: Bytes = self.queue.backlog() + expedited;
        let counters = all_counters(&self.queue, self.expedited.as_ref());
        self.meter.sample(now, backlog, standing, &counters);
    }
}

/// What happened to the packets of both queues.
fn all_counters(queue: &impl Discipline<Held>, expedited: Option<&Expedited>) -> Counters {
    expedited.map_or(*queue.counters(), |expedited| queue.counters().plus(expedited.counters()))
}

/// Whether a packet is of the class EF (RFC 3246).
fn is_expedited(frame: &[u8], kind: Kind, network: u16) -> bool {
    let ip = &frame[usize::from(network)..];
    match kind {
        Kind::Ipv4 => ip[1] >> 2 == EXPEDITED,
        Kind::Ipv6 => (ip[0] & 15) << 2 | ip[1] >> 6 == EXPEDITED,
        Kind::Other | Kind::Malformed | Kind::Runt => false,
    }
}
