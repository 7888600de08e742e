//! What links do with packets: take them, discard them, send them on.

use crate::discipline::Discarded;
use crate::event::{Event, Rare};
use crate::flow::FlowKind;
use crate::hash::Decision;
use crate::host::Identity;
use crate::network::Simulation;
use crate::packet::{Body, Item, Opening};
use crate::service::NEVER;
use crate::tap::{LinkContext, Tap, TappedPacket};
use weir_queue::{Arrival, Departure, Hosts, memory};
use weir_sense::probe::Stamp;
use weir_tcp::Ack;
use weir_units::{Duration, Ecn, Rate, Time};
use weir_wire::dscp::Dscp;

impl<T: Tap> Simulation<T> {
    /// A packet arrives at a link, `ip` bytes long.
    #[inline(always)]
    pub(crate) fn enter(&mut self, number: u32, item: Item, ip: u32, from: Identity, ecn: Ecn) {
        let number = number as usize;
        let link = &mut self.links[number];
        let leader = link.leader;
        let hosts = Hosts { sender: from.host, receiver: from.host };
        let reads_dscp = link.expedited.is_some() || link.reads_nqb;
        let dscp = if reads_dscp { dscp_of(&self.kinds, from, &item) } else { Dscp::DEFAULT };
        let nqb = dscp == Dscp::NQB;
        let arrival = Arrival { len: link.counted(ip), flow: from.tuple, hosts, ecn, nqb };
        if let Some(observer) = &mut link.observer {
            observer.arrived(self.now, &item.body, hosts, arrival.len);
        }
        if matches!(item.body, Body::Ack(_)) && link.filters_acks && self.replaces(number, &arrival, &item) {
            return;
        }
        let link = &mut self.links[number];
        let watches = T::ACTIVE || link.prober.is_some();
        let before = if watches { link.queue.counters().enqueued } else { 0 };
        match &mut link.expedited {
            Some(lane) if dscp == Dscp::EXPEDITED => {
                lane.enqueue(self.now, &arrival, &item, &mut self.discarded)
            }
            _ => link.queue.enqueue(self.now, &arrival, &item, &mut self.discarded),
        }
        if watches && link.queue.counters().enqueued > before {
            self.stored(number, &arrival, &item, ip);
        }
        if !self.discarded.is_empty() {
            self.note_discarded(number);
        }
        // Who has a turn of its own, or a class that may send, does not wait for one that may not yet.
        if self.soonest.get(leader) == NEVER || self.has_turns {
            self.wake(leader);
        }
    }

    /// Whether an acknowledgement took the place of an older one that waits at a link. Those of TCP do, by
    /// the rules of [`weir_wire::PureAck`].
    #[cold]
    fn replaces(&mut self, number: usize, arrival: &Arrival, item: &Item) -> bool {
        let (acks, hosts, kinds, flows) = (&self.acks, &self.hosts, &self.kinds, &self.flows);
        let flow = hosts.inbound[item.connection as usize].flow as usize;
        if !kinds[flows[flow].kind as usize].headers.sacks {
            return false;
        }
        let replaces = |last: &Item, before: &Item| {
            let [Body::Ack(newest), Body::Ack(last_ack), Body::Ack(before_ack)] =
                [&item.body, &last.body, &before.body]
            else {
                return false;
            };
            let same =
                |other: &Item| (other.connection, other.generation) == (item.connection, item.generation);
            let [newest, last_ack, before_ack] = [newest, last_ack, before_ack].map(|kept| acks.look(*kept));
            let is_plain = |ack: &Ack| ack.sacks.iter().all(|block| block.0 == block.1);
            let counted = |ack: &Ack| (ack.ece, ack.ce);
            let follows =
                |ack: &Ack, earlier: &Ack| ack.next > earlier.next && counted(ack) == counted(earlier);
            same(last)
                && same(before)
                && [&newest, &last_ack, &before_ack].into_iter().all(is_plain)
                && follows(&newest, &last_ack)
                && follows(&last_ack, &before_ack)
        };
        let Some(replaced) = self.links[number].queue.replace(arrival, item, &replaces) else { return false };
        self.counts.filtered += 1;
        self.forget(replaced);
        true
    }

    /// Somebody wants to know that a packet was stored.
    #[cold]
    fn stored(&mut self, number: usize, arrival: &Arrival, item: &Item, ip: u32) {
        let is_probe = matches!(item.body, Body::Probe(_));
        if T::ACTIVE && !is_probe {
            self.show_enqueued(number, arrival, item);
        }
        if !is_probe {
            self.data_stored(number, ip);
        }
    }

    /// Whether anything waits for a link or the medium that it leads.
    #[inline]
    fn waits(&self, number: usize) -> bool {
        match &self.links[number].medium {
            None => self.links[number].waiting() > 0,
            Some(medium) => medium.members().iter().any(|member| self.links[*member].waiting() > 0),
        }
    }

    /// A link that had nothing to send looks again, or the medium that it leads.
    fn wake(&mut self, number: usize) {
        if self.links[number].turns.is_some() {
            return self.plan(number);
        }
        if !self.waits(number) {
            return;
        }
        let free_at = self.links[number].service.free_at(self.now);
        if free_at <= self.now {
            self.serve(number);
        } else {
            self.soonest.set(number, free_at);
        }
    }

    /// The next packet of the medium that a link leads, and the link it waited at.
    fn take_turn(&mut self, leader: usize) -> Option<(usize, Departure<Item>)> {
        loop {
            let mut medium = self.links[leader].medium.take()?;
            let next = medium.next(self.now, |member| self.links[member].waiting() > 0);
            self.links[leader].medium = Some(medium);
            let number = next?;
            if let Some(departure) = self.links[number].dequeue(self.now, &mut self.discarded) {
                return Some((number, departure));
            }
            // The algorithm discarded all that waited there.
            self.note_discarded(number);
        }
    }

    /// When a class that waits may send: nobody could just now. [`NEVER`] without classes.
    fn class_ready(&self, number: usize) -> Time {
        let waits = |member: usize| self.links[member].waiting() > 0;
        self.links[number].medium.as_ref().and_then(|medium| medium.ready(waits)).unwrap_or(NEVER)
    }

    /// A link may send its next packet, or the medium that it leads the next of one of its links.
    pub(crate) fn serve(&mut self, number: usize) {
        let now = self.now;
        let link = &mut self.links[number];
        if link.turns.is_some() {
            return self.take_turns(number);
        }
        let free_at = link.service.free_at(now);
        // The rate fell to zero meanwhile.
        if free_at > now {
            return self.soonest.set(number, free_at);
        }
        if link.medium.is_some() {
            return self.serve_medium(number);
        }
        let Some(departure) = link.dequeue(now, &mut self.discarded) else {
            // Users who are held to a rate may have to wait.
            let ready = if link.is_paced { link.queue.ready() } else { None };
            self.soonest.set(number, ready.filter(|ready| *ready > now).unwrap_or(NEVER));
            return self.note_discarded(number);
        };
        let sent = link.service.send(now, departure.packet.len);
        let next = if link.waiting() > 0 { link.service.free_at(now) } else { NEVER };
        self.soonest.set(number, next);
        self.leaves(number, &departure);
        self.transmit(number, departure, sent);
    }

    /// The medium that a link leads may send the next packet of one of its links.
    #[inline(never)]
    fn serve_medium(&mut self, leader: usize) {
        let now = self.now;
        let Some((from, departure)) = self.take_turn(leader) else {
            self.soonest.set(leader, self.class_ready(leader));
            return self.note_discarded(leader);
        };
        let len = departure.packet.len;
        let sent = self.links[leader].service.send(now, len);
        if let Some(medium) = &mut self.links[leader].medium {
            medium.sent(now, from, len);
        }
        let next = if self.waits(leader) { self.links[leader].service.free_at(now) } else { NEVER };
        self.soonest.set(leader, next);
        self.leaves(from, &departure);
        self.transmit_rarely(from, departure, sent);
    }

    /// A packet leaves the queue of a link, perhaps with others that are discarded.
    #[inline(always)]
    fn leaves(&mut self, number: usize, departure: &Departure<Item>) {
        let link = &mut self.links[number];
        let Departure { packet, sojourn, .. } = departure;
        link.meter.departed(self.now, packet.len, packet.ecn, *sojourn);
        if self.hosts.are_many()
            && let Some(head) = link.queue.head().filter(|head| !matches!(head.body, Body::Probe(_)))
        {
            memory::soon(&self.hosts.inbound[head.connection as usize]);
        }
        self.tell_discarded(number);
    }

    /// [`Self::transmit`] where packets are few: what they share is in the code once.
    #[inline(never)]
    pub(crate) fn transmit_rarely(&mut self, number: usize, departure: Departure<Item>, sent: Time) {
        self.transmit(number, departure, sent);
    }

    /// The transmission of a packet began and will end at `sent`.
    #[inline(always)]
    fn transmit(&mut self, number: usize, departure: Departure<Item>, sent: Time) {
        let Departure { packet, mut item, marked, sojourn } = departure;
        if T::ACTIVE {
            match &item.body {
                Body::Probe(stamp) => self.show_probe(number, &departure, stamp),
                Body::Data(_) | Body::Ack(_) | Body::Opening(_) => {
                    self.show_departed(number, &departure, sojourn)
                }
            }
        }
        self.counts.hops += 1;
        let decision = if marked { Decision::Marked } else { Decision::Departed };
        self.hash.note(decision, number as u32, self.now, packet.flow, self.acks.seq(&item.body));
        if marked && let Body::Data(segment) = &mut item.body {
            segment.ecn = Ecn::Ce;
        }
        if self.links[number].observer.is_some() {
            self.observe_forwarded(number, &item, &packet, sent);
        }
        if self.links[number].prober.is_some() {
            self.probe_leaves(number, &item, sent);
        }
        let Some(at) = self.links[number].arrival(sent) else {
            self.counts.lost += 1;
            self.hash.note(Decision::Lost, number as u32, self.now, packet.flow, self.acks.seq(&item.body));
            return self.forget(item);
        };
        if self.links[number].disorder.is_some() {
            return self.arrive_disordered(number, at, item);
        }
        if item.links_left > 0 {
            item.links_left -= 1;
            return self.wheel.insert(at, Event::Enter(item));
        }
        self.arrive_last(at, item);
    }

    /// A packet leaves a link behind which packets overtake each other, and would arrive `at`. It gets an
    /// event of its own also on its last link, since receivers take packets in order of their arrival.
    #[cold]
    fn arrive_disordered(&mut self, number: usize, at: Time, item: Item) {
        let Some(disorder) = &mut self.links[number].disorder else { return };
        let (at, twice) = disorder.roll(at);
        self.wheel.insert(at, Event::Arrive(item));
        if twice {
            self.counts.duplicated += 1;
            let copy = Item { body: self.copied(item.body), ..item };
            self.wheel.insert(at, Event::Arrive(copy));
        }
    }

    /// What the copy of a packet carries.
    fn copied(&mut self, body: Body) -> Body {
        match body {
            Body::Ack(kept) => Body::Ack(self.acks.keep_copy(kept)),
            Body::Data(_) | Body::Opening(_) | Body::Probe(_) => body,
        }
    }

    /// A packet arrives now behind a link that does not keep the order.
    pub(crate) fn arrive(&mut self, mut item: Item) {
        if item.links_left > 0 {
            item.links_left -= 1;
            return self.enter_next(item);
        }
        self.arrive_last(self.now, item);
    }

    /// A packet arrives, at `at`, behind the last link of its route.
    #[inline(always)]
    fn arrive_last(&mut self, at: Time, item: Item) {
        match item.body {
            Body::Data(segment) => self.deliver(at, &item, segment),
            Body::Ack(kept) => self.send_back(at, &item, kept),
            Body::Opening(opening) => self.opening_arrives(at, &item, opening),
            Body::Probe(_) => unreachable!("the way out of its last link is left to a probe"),
        }
    }

    /// A packet arrives at a link behind another one.
    pub(crate) fn enter_next(&mut self, item: Item) {
        if matches!(item.body, Body::Probe(_)) {
            return self.enter_probe(item);
        }
        let side = &self.hosts.inbound[item.connection as usize];
        let from = self.hosts.outbound[item.connection as usize].identity;
        let kind = &self.kinds[self.flows[side.flow as usize].kind as usize];
        let (route, ip, ecn) = match &item.body {
            Body::Data(segment) => (&kind.forward, segment.payload + kind.headers.data, segment.ecn),
            Body::Ack(kept) => (&kind.back, kind.headers.ack_size(&self.acks.look(*kept)), Ecn::NotEct),
            Body::Opening(opening) => {
                let route = if opening.is_answer { &kind.back } else { &kind.forward };
                (route, kind.headers.opening, Ecn::NotEct)
            }
            Body::Probe(_) => return,
        };
        // Its connection was closed, and another one has the number and a route of its own.
        if self.hosts.inbound[item.connection as usize].generation != item.generation {
            self.counts.late += 1;
            return self.forget(item);
        }
        let link = route[route.len() - 1 - usize::from(item.links_left)];
        if let Body::Ack(kept) = item.body
            && let Some((_, observing)) = kind.sights.iter().find(|(back, _)| *back == link)
        {
            self.observe_acknowledged(*observing as usize, &item, kept, ip);
        }
        self.enter(link, item, ip, from, ecn);
    }

    /// A packet is no more.
    fn forget(&mut self, item: Item) {
        if let Body::Ack(kept) = item.body {
            let ack = self.acks.fetch(kept);
            self.acks.open(ack);
        }
    }

    /// Notes what an algorithm discarded, if it did.
    #[inline(always)]
    pub(crate) fn tell_discarded(&mut self, number: usize) {
        if !self.discarded.is_empty() {
            self.note_discarded(number);
        }
    }

    #[cold]
    fn note_discarded(&mut self, number: usize) {
        let mut discarded = std::mem::take(&mut self.discarded);
        for Discarded { packet, item, cause } in discarded.drain(..) {
            self.counts.dropped += 1;
            self.hash.note(
                Decision::Dropped,
                number as u32,
                self.now,
                packet.flow,
                self.acks.seq(&item.body),
            );
            if T::ACTIVE && !matches!(item.body, Body::Probe(_)) {
                let flow = self.hosts.inbound[item.connection as usize].flow;
                let place = LinkContext { link: number, now: self.now, queue: &*self.links[number].queue };
                self.tap.on_drop(
                    &place,
                    TappedPacket { packet: &packet, item: &item, flow, acks: &self.acks },
                    cause,
                );
            }
            self.forget(item);
        }
        // The memory is kept for the next.
        self.discarded = discarded;
    }

    /// The counters of a link's queue are read; the law may move its set point, or the rate at which it is
    /// served.
    pub(crate) fn poll(&mut self, number: u32) {
        let link = number as usize;
        let served = self.links[link].queue.poll(self.now);
        if let Some(rate) = served {
            self.links[link].service.set_rate(rate);
            if self.soonest.get(link) == NEVER {
                self.wake(link);
            }
        }
        let period = self.links[link].poll_period;
        self.wheel.insert(self.now + period, Event::Rare(Rare::Poll(number)));
    }

    pub(crate) fn change_rate(&mut self, number: u32) {
        let (link, rate) = self.steps[number as usize];
        self.set_rate(link as usize, rate);
    }

    /// Changes the rate of a link, or of the medium that it leads, from now on; a packet in transmission is
    /// not touched. Zero stops it. A link that follows a trace has no rate to change.
    pub fn set_rate(&mut self, link: usize, rate: Rate) {
        self.links[link].service.set_rate(rate);
        let on_medium = self.links[link].medium.as_ref().map_or(vec![link], |m| m.members().to_vec());
        for member in on_medium {
            self.links[member].queue.set_rate(rate);
        }
        if self.soonest.get(link) == NEVER {
            self.wake(link);
        }
    }

    #[cold]
    fn show_enqueued(&mut self, number: usize, arrival: &Arrival, item: &Item) {
        let &Arrival { len, flow: tuple, ecn, .. } = arrival;
        let packet =
            weir_aqm::Packet { arrived: self.now, len, seq: self.acks.seq(&item.body), flow: tuple, ecn };
        let flow = self.hosts.inbound[item.connection as usize].flow;
        let place = LinkContext { link: number, now: self.now, queue: &*self.links[number].queue };
        self.tap.on_enqueue(&place, TappedPacket { packet: &packet, item, flow, acks: &self.acks });
    }

    #[cold]
    fn show_departed(&mut self, number: usize, departure: &Departure<Item>, sojourn: Duration) {
        let Departure { packet, item, marked, .. } = departure;
        let flow = self.hosts.inbound[item.connection as usize].flow;
        let place = LinkContext { link: number, now: self.now, queue: &*self.links[number].queue };
        let seen = TappedPacket { packet, item, flow, acks: &self.acks };
        if *marked {
            self.tap.on_mark(&place, seen);
        }
        self.tap.on_depart(&place, seen, sojourn, *marked);
    }

    #[cold]
    fn show_probe(&mut self, number: usize, departure: &Departure<Item>, stamp: &Stamp) {
        let place = LinkContext { link: number, now: self.now, queue: &*self.links[number].queue };
        self.tap.on_probe(&place, &departure.packet, stamp);
    }
}

/// The DSCP of a packet that enters a link. Flows of one table are those of one host; probes, which are no
/// flow's, go with the data that they measure.
fn dscp_of(kinds: &[FlowKind], from: Identity, item: &Item) -> Dscp {
    let Some(kind) = kinds.get(from.host as usize) else { return Dscp::DEFAULT };
    let on_the_way = match item.body {
        Body::Data(_) | Body::Opening(Opening { is_answer: false, .. }) => &kind.comes_forward,
        Body::Ack(_) | Body::Opening(Opening { is_answer: true, .. }) => &kind.comes_back,
        Body::Probe(_) => return Dscp::DEFAULT,
    };
    let place = on_the_way.len().checked_sub(1 + usize::from(item.links_left));
    place.and_then(|place| on_the_way.get(place)).copied().unwrap_or(Dscp::DEFAULT)
}
