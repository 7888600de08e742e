//! One direction: queue, shaper and delay line, in link time.
//!
//! Frames carry the time at which the kernel received them. Departures are computed at the time at which
//! the emulated link would have sent, between the arrivals that came before and after, so that a late turn
//! of the loop changes neither rates nor sojourn times. A late turn does delay the frame itself, unless a
//! delay line follows that is longer than the lateness.

use crate::change::DirectionChange;
use crate::customers::{Classes, Made};
use crate::frames::{Arena, Frame, Note};
use crate::impairments::{Line, Sent, Steps};
use crate::meter::{Faults, Meter, Standing};
use crate::port::Port;
use crate::sensing::{Back, SensedRate};
use crate::service::Service;
use crate::upstream::{Follows, Learned, Observer, RttSample, UpstreamNow};
use crate::{Received, charge};
use rtrb::Producer;
use weir_aqm::{Aqm, Cause, Ecn, Packet, Sample};
use weir_config::Counting;
use weir_measure::result::Observed;
use weir_measure::{Octaves, Status};
use weir_queue::{
    AHEAD_MAX, Arrival, Counters, Departure, Discipline, Hosts, Limits, Managed, Single, UserCounters,
    UserNow,
};
use weir_sense::probe::{Shaped, State};
use weir_units::{Bytes, Duration, Rate, Time};
use weir_wire::PureAck;
use weir_wire::dscp::{Dscp, Remarks};
use weir_wire::flow_hash::Hashing;
use weir_wire::frame::{self, Headers, Kind};
use weir_wire::transport::Transport;

/// What the queue stores.
#[derive(Clone, Copy, Debug)]
pub struct PacedFrame {
    frame: Frame,
    kind: Kind,
    network: u16,
}

/// A direction, whichever algorithm is on it: the loop makes one call per batch.
pub trait Pipe: Send {
    /// Takes received frames, lets packets depart, and hands those whose time has come to the port.
    /// Returns whether there was anything to do.
    fn turn(&mut self, now: Time, received: &[Received], arena: &mut Arena, out: &mut Port) -> bool;
    /// The loop ends, and others forward from now on: hands what waits to the port at once, as far as it has
    /// room. Returns whether there was any.
    fn drain(&mut self, now: Time, arena: &mut Arena, out: &mut Port) -> bool;
    /// The kernel forwarded newer frames meanwhile: drops what waits, and counts it.
    fn forget(&mut self, now: Time, arena: &mut Arena);
    /// When the next packet departs or leaves the delay line.
    fn next_event(&mut self) -> Option<Time>;
    /// The counts and distributions of this direction.
    fn meter(&mut self) -> &mut Meter;
    /// What happened to packets so far.
    fn counters(&self) -> Counters;
    /// What happened to users so far, where each has a queue.
    fn user_counters(&self) -> Option<UserCounters>;
    /// The other port's MTU was changed.
    fn set_longest(&mut self, longest: Longest);
    /// Something was learned that the algorithm may want to know.
    fn learn(&mut self, now: Time, sample: Sample);
    /// Probes move its rate from now on.
    fn follow_probes(&mut self, rate: Box<SensedRate>);
    /// A probe that followed its packets came back.
    fn probe_back(&mut self, at: Time, back: Back);
    /// Looks whether probes, whose word is worth this, say another rate; the rate that is in force then.
    fn look_at_probes(&mut self, now: Time, state: State) -> Option<Rate>;
    /// What became of its rate, where probes have to do with it.
    fn shaped(&self) -> Option<Shaped>;
    /// Whether it observes the packets that pass.
    fn observes(&self) -> bool;
    /// Frames came in at the port where this direction's leave; acknowledgements of these are among them.
    fn answered(&mut self, now: Time, received: &[Received], arena: &mut Arena);
    /// How it stands with the bottlenecks behind, if it observes.
    fn upstream(&self) -> Option<UpstreamNow>;
    /// What it learned of them.
    fn observed(&self) -> Option<Observed>;
    /// What memory its observer and its users take, in words; nothing where there are none.
    fn said(&self) -> Option<String>;
    /// Closes a sampling period.
    fn sample(&mut self, now: Time);
    /// Puts a change into force, which was made for this direction. Packets stay where they are.
    fn change(&mut self, now: Time, change: &mut DirectionChange);
    /// How users stand, from a place on; how many there were.
    fn users(&mut self, from: usize, into: &mut [UserNow]) -> usize;
    /// How it stands.
    fn now(&mut self, now: Time) -> DirectionNow;
}

/// How a direction stands; counts are of the whole run.
#[derive(Clone, Copy, Debug, Default)]
pub struct DirectionNow {
    /// Its rate now; zero where it is not shaped.
    pub rate: Rate,
    /// What happened to packets.
    pub counters: Counters,
    /// What happened to users, where each has a queue.
    pub users: Option<UserCounters>,
    /// Bytes and packets that wait.
    pub backlog: Bytes,
    /// Packets that wait.
    pub packets: u32,
    /// How the algorithm stands.
    pub status: Status,
    /// Sojourn times.
    pub delays: Octaves,
    /// Packets that came in marked CE, as somebody before marked them.
    pub came_marked: u64,
    /// Frames that were not forwarded as they should.
    pub faults: Faults,
    /// Rows of samples and moves of the set point that nobody fetched in time.
    pub untold: (u64, u64),
}

/// What a direction is made of, apart from its queue.
pub struct Shape {
    /// What the algorithm is told about the link's rate; zero for unshaped.
    pub rate: Rate,
    /// When the link may send.
    pub service: Service,
    /// Time lost by a late look that rates make up for.
    pub catch_up: Duration,
    /// Changes of its rate.
    pub steps: Steps,
    /// How bytes are counted.
    pub counting: Counting,
    /// What lies behind the queue.
    pub line: Line,
    /// What the other port can send.
    pub longest: Longest,
    /// How flows and hosts are hashed, with a secret.
    pub hashing: Hashing,
    /// Room for packets of the class EF, if they have a queue of their own.
    pub expedited: Option<Limits>,
    /// Who learns from the packets that pass, if anybody does.
    pub observer: Option<Box<Observer>>,
    /// Where each round-trip time is told, if anybody wants them.
    pub rtts: Option<Producer<RttSample>>,
    /// What becomes of the DSCP of packets, if anything does.
    pub remarks: Option<Remarks>,
    /// What customers are entitled to, where there are some.
    pub plans: Option<Made>,
}

/// What manages the packets of the class EF: nothing does.
struct Unmanaged;

impl Aqm for Unmanaged {}

/// The queue of the class EF: it goes first, and no algorithm is asked.
type Expedited = Single<Unmanaged, PacedFrame>;

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
    works: Works<D>,
    shape: Shape,
    /// Whose packets are, where there are customers.
    classes: Option<Classes>,
    /// What keeps its rate by probes, where they do.
    sensed: Option<Box<SensedRate>>,
    last: Time,
    meter: Meter,
}

/// What only those know who know the algorithm of a queue of type `D`.
pub struct Works<D> {
    /// How the algorithm stands.
    pub standing: fn(&mut D, Time) -> Standing,
    /// Puts new parameters and new policies into force.
    pub change: fn(&mut D, Time, &mut DirectionChange),
}

impl<D: Managed<PacedFrame>> Direction<D> {
    /// An empty direction.
    pub fn new(mut queue: D, works: Works<D>, mut shape: Shape, meter: Meter, now: Time) -> Self {
        let mut first = DirectionChange::of_plans(shape.plans.take());
        if first.plans.is_some() {
            queue.make_plans(shape.catch_up);
            (works.change)(&mut queue, now, &mut first);
        }
        let classes = first.plans.map(|mut made| {
            queue.set_plans(&mut made.queue);
            made.classes
        });
        if shape.observer.as_ref().is_some_and(|observer| observer.follows_users()) {
            queue.make_paces(shape.catch_up);
        }
        let expedited = shape.expedited.map(|limits| Single::new(Unmanaged, limits, shape.rate, 0));
        Direction { queue, expedited, works, shape, classes, sensed: None, last: now, meter }
    }

    fn read(&self, r: &Received, arena: &mut Arena) -> Headers {
        let frame: &[u8] = arena.bytes(r.frame);
        let read = frame::read_hashed(frame, &self.shape.hashing);
        self.classes.as_ref().map_or(read, |classes| classes.keyed(frame, read, false))
    }

    /// Reads frames that come next, and tells the queue whose they are.
    fn read_ahead(&self, received: &[Received], arena: &mut Arena) -> [Headers; AHEAD_MAX] {
        let mut read = [Headers::NONE; AHEAD_MAX];
        let mut hosts = [Hosts::UNKNOWN; AHEAD_MAX];
        for (n, r) in received.iter().enumerate() {
            read[n] = self.read(r, arena);
            hosts[n] = Hosts { sender: read[n].sender, receiver: read[n].receiver };
        }
        self.queue.expect(&hosts[..received.len()]);
        read
    }

    /// Lets frames arrive, and packets before them depart.
    fn take_in(&mut self, now: Time, received: &[Received], arena: &mut Arena, out: &mut Port) {
        let ahead = D::EXPECTS.then(|| self.read_ahead(received, arena));
        for (n, r) in received.iter().enumerate() {
            // Stamps come from other processors and several queues; link time only moves forward.
            let at = r.arrived.clamp(self.last, now.max(self.last));
            if !self.shape.service.is_unshaped() {
                self.depart(at, now, arena, out);
            }
            let read = ahead.as_ref().map_or_else(|| self.read(r, arena), |ahead| ahead[n]);
            self.arrive(at, r.frame, read, arena);
            self.last = at;
        }
    }

    fn arrive(&mut self, at: Time, frame: Frame, read: Headers, arena: &mut Arena) {
        let Headers { kind, network, ecn, flow, sender, receiver } = read;
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
        let len = charge(self.shape.counting, frame.len, network);
        let held = PacedFrame { frame, kind, network };
        let hosts = Hosts { sender, receiver };
        self.meter.came_marked += u64::from(ecn == Ecn::Ce);
        // Read only where somebody asks, as it is a look at the frame for each packet.
        let reads_dscp = self.expedited.is_some() || self.queue.reads_nqb();
        let class = if reads_dscp { frame::traffic_class(arena.bytes(frame), kind, network) } else { None };
        let dscp = class.map(Dscp::of);
        let arrival = Arrival { len, flow, hosts, ecn, nqb: dscp == Some(Dscp::NQB) };
        if let Some(observer) = &mut self.shape.observer {
            observer.arrived(at, hosts, len);
            let note = arena.note(frame);
            *note = Note { flow, hosts, len, ..*note };
            if note.transport.is_none() && matches!(kind, Kind::Ipv4 | Kind::Ipv6) {
                observer.unreadable();
            }
        }
        if let Some(expedited) = &mut self.expedited
            && dscp == Some(Dscp::EXPEDITED)
        {
            let mut free = |_: &Packet, held: PacedFrame, _: Cause| arena.give(held.frame.addr);
            return expedited.enqueue(at, arrival, held, &mut free);
        }
        if self.queue.filters_acks() && self.replaces(&arrival, &held, arena) {
            return;
        }
        let mut free = |_: &Packet, held: PacedFrame, _: Cause| arena.give(held.frame.addr);
        self.queue.enqueue(at, arrival, held, &mut free);
    }

    /// Whether an acknowledgement took the place of an older one that waits.
    fn replaces(&mut self, arrival: &Arrival, held: &PacedFrame, arena: &mut Arena) -> bool {
        let Some((head, newest)) = pure_ack(held, arena) else { return false };
        // Customers behind other VLAN tags may have the same addresses.
        let replaces = |last: &PacedFrame, before: &PacedFrame| {
            let [last, before] =
                [last, before].map(|held| pure_ack(held, arena).filter(|(other, _)| *other == head));
            last.zip(before).is_some_and(|((_, last), (_, before))| newest.replaces(&last, &before))
        };
        let Some(replaced) = self.queue.replace(arrival, held, replaces) else { return false };
        arena.give(replaced.frame.addr);
        true
    }

    /// When the packet arrived that leaves next, as far as is known.
    fn head_arrived(&self) -> Option<Time> {
        let first = self.expedited.as_ref().and_then(Expedited::head_arrived);
        let [first, second] = [first, self.queue.head_arrived()];
        first.into_iter().chain(second).min()
    }

    /// The packet that the link sends at `at`.
    fn next(&mut self, at: Time, arena: &mut Arena) -> Option<Departure<PacedFrame>> {
        let mut free = |_: &Packet, held: PacedFrame, _: Cause| arena.give(held.frame.addr);
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

    /// Lets packets leave the queue up to link time `until`, at the moment `now` of the host.
    fn depart(&mut self, until: Time, now: Time, arena: &mut Arena, out: &mut Port) {
        while let Some(arrived) = self.head_arrived() {
            let unshaped = self.shape.service.is_unshaped();
            let at = if unshaped { until.max(arrived) } else { self.shape.service.departure(arrived) };
            if at > until {
                return;
            }
            if self.shape.line.is_none() && out.room() == 0 {
                // The port is the bottleneck now: time it costs is queueing delay.
                self.shape.service.blocked(until);
                return;
            }
            let Some(departure) = self.next(at, arena) else {
                // Those who were looked at may have to wait for their time, which can be before the end of
                // this look.
                if self.head_arrived().is_some_and(|next| next > at) {
                    continue;
                }
                return;
            };
            let frame = departure.item.frame;
            let leaves = self.shape.service.sent(at, departure.packet.len);
            let (queue, expedited) = (&self.queue, &self.expedited);
            let counters = || all_counters(queue, expedited.as_ref());
            self.meter.departed(at, &departure.packet, departure.sojourn, counters);
            if let Some(sensed) = &mut self.sensed
                && sensed.concerns(frame.len)
            {
                let bytes = all_counters(&self.queue, self.expedited.as_ref()).dequeued_bytes;
                sensed.left(at, arena.bytes(frame), bytes);
            }
            self.rewrite(&departure, arena);
            if self.shape.line.is_none() {
                self.leave(now, frame, arena, out);
                continue;
            }
            match self.shape.line.send(leaves, frame) {
                Sent::UnderWay => continue,
                Sent::HeldBack => {
                    self.meter.faults.reordered += 1;
                    continue;
                }
                Sent::Full => self.meter.faults.delay_line_full += 1,
                Sent::Lost => self.meter.faults.lost_behind_queue += 1,
            }
            arena.give(frame.addr);
        }
    }

    /// Changes what a packet that leaves the queue is to go on with: its mark and its DSCP.
    #[inline(always)]
    fn rewrite(&self, departure: &Departure<PacedFrame>, arena: &mut Arena) {
        let PacedFrame { frame, kind, network } = departure.item;
        if departure.marked {
            frame::mark(arena.bytes(frame), kind, network);
        }
        if let Some(remarks) = &self.shape.remarks {
            frame::remark(arena.bytes(frame), kind, network, remarks);
        }
    }

    /// A frame goes out at the port: from here on its round trip counts.
    fn leave(&mut self, now: Time, frame: Frame, arena: &mut Arena, out: &mut Port) {
        if let Some(observer) = &mut self.shape.observer {
            let note = *arena.note(frame);
            let waiting = is_waiting(&self.queue, observer, note.hosts);
            let learned = observer.forwarded(now, &note, waiting);
            self.apply(now, &note, learned);
        }
        out.push(frame);
    }

    /// Tells queue and shaper what was learned of the bottleneck behind.
    fn apply(&mut self, now: Time, note: &Note, learned: Learned) {
        let Note { hosts, flow, ports, .. } = *note;
        if let (Some(rtt), Some(ring)) = (learned.rtt, &mut self.shape.rtts) {
            // Whoever does not read does not watch.
            let _ = ring.push(RttSample { at: now, ports, rtt: rtt + learned.held });
        }
        // What other processors stamped may be a little ahead; to the algorithm time only moves forward.
        let now = now.max(self.last);
        if let Some(rtt) = learned.rtt {
            self.queue.sample_for(now, hosts, Sample::Rtt(rtt));
        }
        if let Some(bytes) = learned.in_flight {
            self.queue.sample_for(now, hosts, Sample::Inflight { flow, bytes });
        }
        if let Some(time) = learned.reaction {
            self.queue.sample_for(now, hosts, Sample::Reaction(time));
        }
        match learned.rate {
            Some(Follows::Direction(rate)) => self.set_rate(rate),
            Some(Follows::User(rate)) => self.queue.set_rate_of(hosts, rate),
            None => {}
        }
    }

    fn set_rate(&mut self, rate: Rate) {
        if rate != self.shape.rate {
            self.shape.rate = rate;
            self.shape.service.set_rate(rate);
            self.queue.set_rate(rate);
        }
    }

    fn release(&mut self, now: Time, arena: &mut Arena, out: &mut Port) -> bool {
        let mut any = false;
        while out.room() > 0 {
            let Some((due, frame)) = self.shape.line.arrived(now) else { break };
            self.meter.released(due, now);
            self.leave(now, frame, arena, out);
            any = true;
        }
        any
    }
}

impl<D: Managed<PacedFrame> + Send> Pipe for Direction<D> {
    fn turn(&mut self, now: Time, received: &[Received], arena: &mut Arena, out: &mut Port) -> bool {
        self.shape.service.looked(now);
        if let Some(rate) = self.shape.steps.due(now) {
            self.set_rate(rate);
        }
        for window in received.chunks(AHEAD_MAX) {
            self.take_in(now, window, arena, out);
        }
        let before = self.packets();
        self.depart(now.max(self.last), now, arena, out);
        let departed = self.packets() != before;
        let released = self.release(now, arena, out);
        self.last = self.last.max(now);
        departed || released || !received.is_empty()
    }

    fn drain(&mut self, now: Time, arena: &mut Arena, out: &mut Port) -> bool {
        let at = now.max(self.last);
        let before = out.room();
        // What is in the line went in before what is in the queue.
        while out.room() > 0
            && let Some((_, frame)) = self.shape.line.arrived(Time::from_nanos(u64::MAX))
        {
            self.leave(now, frame, arena, out);
        }
        // Who waits for a rate goes with the others.
        self.queue.let_go();
        while out.room() > 0
            && let Some(departure) = self.next(at, arena)
        {
            let frame = departure.item.frame;
            let (queue, expedited) = (&self.queue, &self.expedited);
            let counters = || all_counters(queue, expedited.as_ref());
            self.meter.departed(at, &departure.packet, departure.sojourn, counters);
            self.rewrite(&departure, arena);
            self.leave(now, frame, arena, out);
        }
        self.last = at;
        out.room() != before
    }

    fn forget(&mut self, now: Time, arena: &mut Arena) {
        let at = now.max(self.last);
        while let Some((_, frame)) = self.shape.line.arrived(Time::from_nanos(u64::MAX)) {
            self.meter.faults.stale += 1;
            arena.give(frame.addr);
        }
        self.queue.let_go();
        while let Some(departure) = self.next(at, arena) {
            self.meter.faults.stale += 1;
            arena.give(departure.item.frame.addr);
        }
        self.queue.hold_again();
        self.last = at;
    }

    fn next_event(&mut self) -> Option<Time> {
        let departure = self.head_arrived().map(|arrived| self.shape.service.departure(arrived));
        departure.into_iter().chain(self.shape.line.first()).min()
    }

    fn meter(&mut self) -> &mut Meter {
        &mut self.meter
    }

    fn counters(&self) -> Counters {
        all_counters(&self.queue, self.expedited.as_ref())
    }

    fn user_counters(&self) -> Option<UserCounters> {
        self.queue.user_counters()
    }

    fn set_longest(&mut self, longest: Longest) {
        self.shape.longest = longest;
    }

    fn learn(&mut self, now: Time, sample: Sample) {
        // What other processors stamped may be a little ahead; to the algorithm time only moves forward.
        self.queue.sample(now.max(self.last), sample);
    }

    fn follow_probes(&mut self, rate: Box<SensedRate>) {
        let first = rate.told().rate;
        self.sensed = Some(rate);
        self.set_rate(first);
    }

    fn probe_back(&mut self, at: Time, back: Back) {
        if let Some(sensed) = &mut self.sensed {
            sensed.returned(at, back.sequence);
        }
        if let Some(rtt) = back.rtt {
            self.learn(at, Sample::Rtt(rtt));
        }
    }

    fn look_at_probes(&mut self, now: Time, state: State) -> Option<Rate> {
        let sensed = self.sensed.as_mut()?;
        let bytes = all_counters(&self.queue, self.expedited.as_ref()).dequeued_bytes;
        let rate = sensed.look(now, state, bytes)?;
        self.meter.set_rate(now, rate);
        self.set_rate(rate);
        Some(rate)
    }

    fn shaped(&self) -> Option<Shaped> {
        self.sensed.as_ref().map(|sensed| *sensed.told())
    }

    fn observes(&self) -> bool {
        self.shape.observer.is_some()
    }

    fn answered(&mut self, now: Time, received: &[Received], arena: &mut Arena) {
        let Some(mut observer) = self.shape.observer.take() else { return };
        let hashing = self.shape.hashing.turned();
        for r in received {
            let note = *arena.note(r.frame);
            if matches!(note.transport, None | Some(Transport::Other)) {
                continue;
            }
            let frame: &[u8] = arena.bytes(r.frame);
            let read = frame::read_hashed(frame, &hashing);
            let read = self.classes.as_ref().map_or(read, |classes| classes.keyed(frame, read, true));
            let len = charge(self.shape.counting, r.frame.len, read.network);
            let hosts = Hosts { sender: read.sender, receiver: read.receiver };
            let ports = (note.ports.1, note.ports.0);
            let note = Note { flow: read.flow, ports, hosts, len, ..note };
            let at = r.arrived.min(now);
            let waiting = is_waiting(&self.queue, &observer, hosts);
            let learned = observer.answered(at, &note, waiting);
            self.apply(at, &note, learned);
        }
        self.shape.observer = Some(observer);
    }

    fn upstream(&self) -> Option<UpstreamNow> {
        self.shape.observer.as_ref().map(|observer| observer.now())
    }

    fn observed(&self) -> Option<Observed> {
        self.shape.observer.as_ref().map(|observer| observer.summary())
    }

    fn said(&self) -> Option<String> {
        let users = self.queue.bytes_of_users();
        let places = (users > 0).then(|| format!("{} for the users' queues", mebibytes(users)));
        let observer = self.shape.observer.as_ref().map(|observer| {
            let (users, flows) = observer.room();
            format!(
                "{} to measure up to {users} users with {flows} flows each at once",
                mebibytes(observer.bytes())
            )
        });
        let parts: Vec<String> = places.into_iter().chain(observer).collect();
        (!parts.is_empty())
            .then(|| format!("memory, taken at the start and never more: {}", parts.join(", ")))
    }

    fn sample(&mut self, now: Time) {
        let waiting = self.queue.packets() > 0;
        if let Some(rate) = self.shape.observer.as_mut().and_then(|observer| observer.look(now, waiting)) {
            self.set_rate(rate);
        }
        let standing = (self.works.standing)(&mut self.queue, now);
        let expedited = self.expedited.as_ref().map_or(Bytes::ZERO, Expedited::backlog);
        let backlog: Bytes = self.queue.backlog() + expedited;
        let counters = all_counters(&self.queue, self.expedited.as_ref());
        self.meter.sample(now, backlog, standing, &counters);
    }

    fn users(&mut self, from: usize, into: &mut [UserNow]) -> usize {
        let told = self.queue.tell_users(from, into);
        if let Some(observer) = &self.shape.observer {
            into[..told].iter_mut().for_each(|user| user.rtt = observer.rtt_of(self.last, user.key));
        }
        told
    }

    fn change(&mut self, now: Time, change: &mut DirectionChange) {
        // What other processors stamped may be a little ahead; to the algorithm time only moves forward.
        (self.works.change)(&mut self.queue, now.max(self.last), change);
        if let (Some(made), Some(classes)) = (&mut change.plans, &mut self.classes) {
            self.queue.set_plans(&mut made.queue);
            std::mem::swap(classes, &mut made.classes);
        }
        match (change.rate, &mut self.sensed) {
            // The next look puts it into force, if probes do not say otherwise.
            (Some(rate), Some(sensed)) => sensed.set_rate(rate),
            (Some(rate), None) => {
                self.meter.set_rate(now, rate);
                self.set_rate(rate);
            }
            (None, _) => {}
        }
        if let Some(remarks) = change.remarks {
            self.shape.remarks = changing(remarks);
        }
    }

    fn now(&mut self, now: Time) -> DirectionNow {
        let standing = (self.works.standing)(&mut self.queue, now.max(self.last));
        let expedited = self.expedited.as_ref().map_or(Bytes::ZERO, Expedited::backlog);
        DirectionNow {
            rate: self.shape.rate,
            counters: all_counters(&self.queue, self.expedited.as_ref()),
            users: self.queue.user_counters(),
            backlog: self.queue.backlog() + expedited,
            packets: self.packets(),
            status: standing.status,
            delays: self.meter.delays,
            came_marked: self.meter.came_marked,
            faults: self.meter.faults,
            untold: self.meter.lost(),
        }
    }
}

/// Whether packets wait for the bottleneck behind the user among these hosts.
fn is_waiting<T>(queue: &impl Discipline<T>, observer: &Observer, hosts: Hosts) -> bool {
    let packets = if observer.follows_users() { queue.packets_of(hosts) } else { queue.packets() };
    packets > 0
}

/// The acknowledgement in a frame, if it holds nothing else, behind its link-layer header with VLAN tags.
fn pure_ack<'a>(held: &PacedFrame, arena: &'a Arena) -> Option<(&'a [u8], PureAck<'a>)> {
    if !matches!(held.kind, Kind::Ipv4 | Kind::Ipv6) {
        return None;
    }
    let (head, packet) = arena.look(held.frame).split_at_checked(usize::from(held.network))?;
    Some((head, PureAck::read(packet)?))
}

/// What becomes of the DSCP of packets, if anything does.
pub fn changing(remarks: Remarks) -> Option<Remarks> {
    (!remarks.keeps_all()).then_some(remarks)
}

fn mebibytes(bytes: usize) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

/// What happened to the packets of both queues.
fn all_counters(queue: &impl Discipline<PacedFrame>, expedited: Option<&Expedited>) -> Counters {
    expedited.map_or(*queue.counters(), |expedited| queue.counters().plus(expedited.counters()))
}
