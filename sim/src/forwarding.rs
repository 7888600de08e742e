//! What links do with packets: take them, discard them, send them on.

use crate::discipline::Discarded;
use crate::event::Event;
use crate::hash::Decision;
use crate::host::Identity;
use crate::network::Simulation;
use crate::packet::{Body, Item};
use crate::prefetch;
use crate::service::NEVER;
use crate::tap::{Place, Seen, Tap};
use weir_queue::{Arrival, Departure, Hosts};
use weir_units::{Duration, Ecn, Time};

impl<T: Tap> Simulation<T> {
    /// A packet arrives at a link, `ip` bytes long.
    #[inline(always)]
    pub(crate) fn enter(&mut self, number: u32, item: Item, ip: u32, from: Identity, ecn: Ecn) {
        let number = number as usize;
        let link = &mut self.links[number];
        let hosts = Hosts { sender: from.host, receiver: from.host };
        let arrival = Arrival { len: link.counted(ip), flow: from.tuple, hosts, ecn };
        let before = if T::ACTIVE { link.queue.counters().enqueued } else { 0 };
        if let Some(sensor) = &mut link.sensor {
            sensor.arrived(self.now, &item.body, arrival.len);
        }
        link.queue.enqueue(self.now, arrival, item, &mut self.discarded);
        if T::ACTIVE && link.queue.counters().enqueued > before {
            self.show_enqueued(number, &arrival, &item);
        }
        if !self.discarded.is_empty() {
            self.note_discarded(number);
        }
        if self.soonest.get(number) == NEVER {
            self.wake(number);
        }
    }

    /// A link that had nothing to send looks again.
    fn wake(&mut self, number: usize) {
        let link = &mut self.links[number];
        if link.queue.packets() == 0 {
            return;
        }
        let free_at = link.service.free_at(self.now);
        if free_at <= self.now {
            self.serve(number);
        } else {
            self.soonest.set(number, free_at);
        }
    }

    /// A link may send its next packet.
    pub(crate) fn serve(&mut self, number: usize) {
        let now = self.now;
        let link = &mut self.links[number];
        let free_at = link.service.free_at(now);
        // The rate fell to zero meanwhile.
        if free_at > now {
            return self.soonest.set(number, free_at);
        }
        let departure = link.queue.dequeue(now, &mut self.discarded);
        let Some(departure) = departure else {
            self.soonest.set(number, NEVER);
            return self.note_discarded(number);
        };
        let sent = link.service.send(now, departure.packet.len);
        link.meter.departed(now, departure.packet.len, departure.sojourn);
        if self.hosts.are_many()
            && let Some(head) = link.queue.head()
        {
            prefetch::soon(&self.hosts.inbound[head.connection as usize]);
        }
        let next = if link.queue.packets() > 0 { link.service.free_at(now) } else { NEVER };
        self.soonest.set(number, next);
        if !self.discarded.is_empty() {
            self.note_discarded(number);
        }
        self.transmit(number, departure, sent);
    }

    /// The transmission of a packet began and will end at `sent`.
    #[inline]
    fn transmit(&mut self, number: usize, departure: Departure<Item>, sent: Time) {
        let Departure { packet, mut item, marked, sojourn } = departure;
        if T::ACTIVE {
            self.show_departed(number, &departure, sojourn);
        }
        self.counts.hops += 1;
        let decision = if marked { Decision::Marked } else { Decision::Departed };
        self.hash.note(decision, number as u32, self.now, packet.flow, self.acks.seq(&item.body));
        if marked && let Body::Data(segment) = &mut item.body {
            segment.ecn = Ecn::Ce;
        }
        if self.links[number].sensor.is_some() {
            self.sense_forwarded(number, &item, &packet, sent);
        }
        let Some(at) = self.links[number].arrival(sent) else {
            self.counts.lost += 1;
            self.hash.note(Decision::Lost, number as u32, self.now, packet.flow, self.acks.seq(&item.body));
            return self.forget(item);
        };
        if item.links_left > 0 {
            item.links_left -= 1;
            return self.wheel.insert(at, Event::Enter(item));
        }
        match item.body {
            Body::Data(segment) => self.deliver(at, &item, segment),
            Body::Ack(kept) => self.send_back(at, &item, kept),
        }
    }

    /// A packet arrives at a link behind another one.
    pub(crate) fn enter_next(&mut self, item: Item) {
        let side = &self.hosts.inbound[item.connection as usize];
        let from = self.hosts.outbound[item.connection as usize].identity;
        let kind = &self.kinds[self.flows[side.flow as usize].kind as usize];
        let (route, ip, ecn) = match &item.body {
            Body::Data(segment) => (&kind.forward, segment.payload + kind.headers.data, segment.ecn),
            Body::Ack(kept) => (&kind.back, kind.headers.ack_size(&self.acks.look(*kept)), Ecn::NotEct),
        };
        let link = route[route.len() - 1 - usize::from(item.links_left)];
        if let Body::Ack(kept) = item.body
            && let Some((_, sensing)) = kind.sights.iter().find(|(back, _)| *back == link)
        {
            self.sense_acknowledged(*sensing as usize, &item, kept, ip);
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
            if T::ACTIVE {
                let flow = self.hosts.inbound[item.connection as usize].flow;
                let place = Place { link: number, now: self.now, queue: &*self.links[number].queue };
                self.tap.on_drop(
                    &place,
                    Seen { packet: &packet, item: &item, flow, acks: &self.acks },
                    cause,
                );
            }
            self.forget(item);
        }
        // The memory is kept for the next.
        self.discarded = discarded;
    }

    pub(crate) fn change_rate(&mut self, number: u32) {
        let (link, rate) = self.steps[number as usize];
        let link = link as usize;
        self.links[link].service.set_rate(rate);
        self.links[link].queue.set_rate(rate);
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
        let place = Place { link: number, now: self.now, queue: &*self.links[number].queue };
        self.tap.on_enqueue(&place, Seen { packet: &packet, item, flow, acks: &self.acks });
    }

    #[cold]
    fn show_departed(&mut self, number: usize, departure: &Departure<Item>, sojourn: Duration) {
        let Departure { packet, item, marked, .. } = departure;
        let flow = self.hosts.inbound[item.connection as usize].flow;
        let place = Place { link: number, now: self.now, queue: &*self.links[number].queue };
        let seen = Seen { packet, item, flow, acks: &self.acks };
        if *marked {
            self.tap.on_mark(&place, seen);
        }
        self.tap.on_depart(&place, seen, sojourn, *marked);
    }
}
