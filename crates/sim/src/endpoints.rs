//! What hosts do: send, receive, acknowledge.

use crate::application::Application;
use crate::event::{Event, Rare, Side, Timer};
use crate::host::{Sink, Transmitter};
use crate::network::{Ended, Simulation};
use crate::packet::{Body, ConnectionId, Item, LightAck, Opening, StoreIndex};
use crate::tap::Tap;
use weir_tcp::sources::Told;
use weir_tcp::{Ack, EcnMode, Segment};
use weir_units::{Duration, Ecn, Time};

/// How long the first SYN waits for its answer; each further one twice as long (RFC 6298 sections 2.1 and
/// 5.5).
const SYN_TIMEOUT: Duration = Duration::from_secs(1);
/// SYNs after the first (`tcp_syn_retries` of Linux); then the connection is given up.
const SYN_RETRIES: u8 = 6;

impl<T: Tap> Simulation<T> {
    /// Data arrives behind the last link of its route.
    #[inline]
    pub(crate) fn deliver(&mut self, at: Time, item: &Item, segment: Segment) {
        let side = &mut self.hosts.inbound[item.connection as usize];
        let at = at + side.delay;
        // It is said at once what arrives then, which may be after the flow has stopped.
        if self.stops
            && self.kinds[self.flows[side.flow as usize].kind as usize].stop.is_some_and(|stop| stop <= at)
        {
            self.counts.late += 1;
            return;
        }
        let receiver = match &mut side.sink {
            Sink::Transport(receiver) if side.generation == item.generation => receiver,
            Sink::Datagrams(bytes) if side.generation == item.generation => {
                self.counts.delivered += 1;
                let before = *bytes;
                *bytes += u64::from(segment.payload);
                side.progress.note(&self.window, at, before, *bytes);
                return;
            }
            Sink::Stream(_) if side.generation == item.generation => {
                return self.deliver_to_application(at, item.connection, &segment);
            }
            Sink::Frames(_) if side.generation == item.generation => {
                return self.deliver_video(at, item.connection, &segment);
            }
            _ => {
                self.counts.late += 1;
                return;
            }
        };
        self.counts.delivered += 1;
        // A delayed acknowledgement that is due before this packet goes first.
        let earlier = receiver.next_timeout().filter(|due| *due < at);
        let first = earlier.and_then(|due| receiver.on_timeout(due).map(|ack| (due, ack)));
        let before = receiver.received_bytes();
        let mut ack = receiver.on_segment(at, &segment);
        if side.progress.note(&self.window, at, before, receiver.received_bytes()) {
            ack = self.has_what_it_wants(item.connection, &segment, ack);
        }
        if let Some((due, ack)) = first {
            self.answer(item.connection, due, &ack);
        }
        if let Some(ack) = ack {
            self.answer(item.connection, at, &ack);
        }
        self.arm_receiver(item.connection);
    }

    /// A datagram of a call or a game arrives.
    #[inline(never)]
    fn deliver_to_application(&mut self, at: Time, id: ConnectionId, segment: &Segment) {
        self.counts.delivered += 1;
        let side = &mut self.hosts.inbound[id as usize];
        let Sink::Stream(stream) = &mut side.sink else { return };
        let (stream, bytes) = &mut **stream;
        let before = *bytes;
        *bytes += u64::from(segment.payload);
        side.progress.note(&self.window, at, before, *bytes);
        let group = self.kinds[self.flows[side.flow as usize].kind as usize].group;
        stream.arrives(at, segment.seq, segment.sent, &mut self.pools[group as usize]);
    }

    /// A packet of real-time video arrives.
    #[inline(never)]
    fn deliver_video(&mut self, at: Time, id: ConnectionId, segment: &Segment) {
        self.counts.delivered += 1;
        let side = &mut self.hosts.inbound[id as usize];
        let Sink::Frames(frames) = &mut side.sink else { return };
        let Transmitter::Realtime(call) = &mut self.hosts.outbound[id as usize].transmitter else { return };
        let (frames, bytes) = &mut **frames;
        let before = *bytes;
        *bytes += u64::from(segment.payload);
        side.progress.note(&self.window, at, before, *bytes);
        let group = self.kinds[self.flows[side.flow as usize].kind as usize].group;
        let pool = &mut self.pools[group as usize];
        // A report that is due before this packet goes first.
        let earlier = call.ends.report_due().filter(|due| *due < at);
        let told = earlier.map(|due| (due, call.ends.report(due)));
        call.ends.arrives(at, segment, |fate| frames.tells(fate.made, fate.arrived, fate.bytes, pool));
        if let Some((due, told)) = told {
            self.reports(id, due, told);
        }
        self.arm_reports(id);
    }

    /// A report leaves at `at`; what it says is looked up by its number when it comes.
    fn reports(&mut self, id: ConnectionId, at: Time, told: Told) {
        let Told { number, packets } = told;
        let (next, echo, sacks) = (u64::from(number), at, [(0, 0); 3]);
        let ack = Ack { next, sacks, echo, window: packets, ce: 0, number, ece: false, spin: false };
        self.answer(id, at, &ack);
    }

    fn arm_reports(&mut self, id: ConnectionId) {
        let Transmitter::Realtime(call) = &self.hosts.outbound[id as usize].transmitter else { return };
        let Some(due) = call.ends.report_due() else { return };
        let side = &mut self.hosts.inbound[id as usize];
        if let Some(hand) = side.alarm.want(self.now, due) {
            let timer = Timer { connection: id, generation: side.generation, side: Side::Receiver, hand };
            self.wheel.insert(due, Event::Rare(Rare::Timer(timer)));
        }
    }

    /// Sends what may be sent of real-time video, and sees to the timer.
    fn pump_video(&mut self, id: ConnectionId) {
        loop {
            let side = &mut self.hosts.outbound[id as usize];
            let Transmitter::Realtime(call) = &mut side.transmitter else { return };
            let Some(segment) = call.poll(self.now) else { break };
            self.put(id, segment);
        }
        let side = &mut self.hosts.outbound[id as usize];
        let Transmitter::Realtime(call) = &side.transmitter else { return };
        let due = call.ends.next_timeout().max(self.now);
        if let Some(hand) = side.alarm.want(self.now, due) {
            let timer = Timer { connection: id, generation: side.generation, side: Side::Sender, hand };
            self.wheel.insert(due, Event::Rare(Rare::Timer(timer)));
        }
    }

    /// The last byte of what was asked for is there, or of a page of parallel objects any segment; `ack`
    /// leaves for it by itself. A reader asks for what comes next, or says that it got the last, and does
    /// not leave that to a delayed acknowledgement.
    #[cold]
    fn has_what_it_wants(&mut self, id: ConnectionId, segment: &Segment, ack: Option<Ack>) -> Option<Ack> {
        let Some(application) = self.hosts.outbound[id as usize].application.as_deref_mut() else {
            return ack;
        };
        let side = &mut self.hosts.inbound[id as usize];
        let Sink::Transport(receiver) = &mut side.sink else { return ack };
        let Some(page) = application.parallel() else {
            return if application.asks() { ack.or_else(|| receiver.answer()) } else { ack };
        };
        side.progress.expect(0);
        if !page.arrives(segment.seq, segment.payload, receiver.received_bytes()) {
            return ack;
        }
        let ack = ack.or_else(|| receiver.answer());
        if let Some(ack) = &ack {
            page.asks_with(ack.number);
        }
        ack
    }

    #[inline]
    fn arm_receiver(&mut self, id: ConnectionId) {
        let side = &mut self.hosts.inbound[id as usize];
        let Sink::Transport(receiver) = &side.sink else { return };
        let Some(due) = receiver.next_timeout() else { return };
        if let Some(hand) = side.alarm.want(self.now, due) {
            let timer = Timer { connection: id, generation: side.generation, side: Side::Receiver, hand };
            self.wheel.insert(due, Event::Rare(Rare::Timer(timer)));
        }
    }

    /// The receiving side sends an acknowledgement at `at`, which may lie ahead.
    #[inline]
    fn answer(&mut self, id: ConnectionId, at: Time, ack: &Ack) {
        self.counts.sent += 1;
        let ack = self.acks.close(ack);
        let side = &mut self.hosts.inbound[id as usize];
        let generation = side.generation;
        match side.entrance {
            None => {
                let event = Event::Acknowledge { connection: id, generation, ack };
                self.wheel.insert(side.back.arrival(at), event);
            }
            Some((_, links_left)) => {
                let body = Body::Ack(self.acks.keep(ack));
                self.wheel.insert(at, Event::Enter(Item { body, connection: id, generation, links_left }));
            }
        }
    }

    /// An acknowledgement left the last link of the way back.
    pub(crate) fn send_back(&mut self, at: Time, item: &Item, kept: StoreIndex) {
        let Item { connection, generation, .. } = *item;
        let event = Event::Acknowledge { connection, generation, ack: self.acks.fetch(kept) };
        let side = &mut self.hosts.inbound[connection as usize];
        self.wheel.insert(side.back.arrival(at), event);
    }

    /// An acknowledgement reaches the sending side.
    #[inline]
    pub(crate) fn acknowledge(&mut self, id: ConnectionId, generation: u16, ack: LightAck) {
        let ack = self.acks.open(ack);
        let side = &mut self.hosts.outbound[id as usize];
        match &mut side.transmitter {
            Transmitter::Transport(sender) if side.generation == generation => {
                self.counts.delivered += 1;
                sender.on_ack(self.now, &ack);
                if side.application.is_some() {
                    self.hears(id, ack.number);
                }
            }
            Transmitter::Realtime(call) if side.generation == generation => {
                self.counts.delivered += 1;
                call.ends.on_report(self.now, ack.number);
                return self.pump_video(id);
            }
            _ => {
                self.counts.late += 1;
                return;
            }
        }
        self.pump(id);
    }

    /// What a reader of a page of parallel objects asked for may have come with an acknowledgement.
    #[inline(never)]
    fn hears(&mut self, id: ConnectionId, number: u32) {
        let application = self.hosts.outbound[id as usize].application.as_deref_mut();
        if application.and_then(Application::parallel).is_some_and(|page| page.hears(number)) {
            self.run_application(id);
        }
    }

    /// Sends what may be sent, and sees to the timer.
    #[inline]
    pub(crate) fn pump(&mut self, id: ConnectionId) {
        loop {
            let side = &mut self.hosts.outbound[id as usize];
            let Transmitter::Transport(sender) = &mut side.transmitter else { return };
            let Some(segment) = sender.poll(self.now) else { break };
            self.put(id, segment);
        }
        let side = &mut self.hosts.outbound[id as usize];
        let Transmitter::Transport(sender) = &side.transmitter else { return };
        if sender.is_done() {
            return self.sent_all(id);
        }
        let Some(due) = sender.next_timeout() else { return };
        let due = due.max(self.now);
        if let Some(hand) = side.alarm.want(self.now, due) {
            let timer = Timer { connection: id, generation: side.generation, side: Side::Sender, hand };
            self.wheel.insert(due, Event::Rare(Rare::Timer(timer)));
        }
    }

    /// Everything was acknowledged: the application goes on, or the transfer is complete.
    #[cold]
    fn sent_all(&mut self, id: ConnectionId) {
        match self.hosts.outbound[id as usize].application.as_deref() {
            Some(Application::Web(_) | Application::Video(_)) => self.run_application(id),
            Some(Application::Limited(_) | Application::Page(..)) => {}
            None => self.completed(id),
        }
    }

    /// The time of an application, or of a datagram, has come.
    pub(crate) fn act(&mut self, id: ConnectionId, generation: u16) {
        let side = &mut self.hosts.outbound[id as usize];
        if side.generation != generation {
            return;
        }
        match &mut side.transmitter {
            Transmitter::Closed => {}
            Transmitter::Transport(_) => self.run_application(id),
            Transmitter::Realtime(_) => self.pump_video(id),
            Transmitter::Datagrams(sender) => {
                let segment = sender.send(self.now);
                let next = sender.next().max(self.now);
                self.put(id, segment);
                self.wheel.insert(next, Event::Rare(Rare::Act { connection: id, generation }));
            }
        }
    }

    /// Asks the application of a connection for data.
    fn run_application(&mut self, id: ConnectionId) {
        let side = &mut self.hosts.outbound[id as usize];
        let Transmitter::Transport(sender) = &mut side.transmitter else { return };
        let Some(application) = &mut side.application else { return };
        let pages = application.pages();
        let arrived = self.hosts.inbound[id as usize].progress.completed();
        let written = application.act(self.now, sender, arrived);
        if let Some((number, requested, bytes)) =
            application.pages().filter(|p| Some(p.0) != pages.map(|p| p.0))
        {
            debug_assert!(number > 0);
            let took = self.now.since(requested);
            self.ended.push(Ended { flow: side.flow, is_page: true, began: requested, took, bytes });
        }
        let event = Event::Rare(Rare::Act { connection: id, generation: side.generation });
        if let Some(next) = application.next() {
            self.wheel.insert(next.max(self.now), event);
        }
        if let Some(bytes) = written {
            sender.write(bytes);
            if application.parallel().is_some() {
                // Each segment is looked at.
                self.hosts.inbound[id as usize].progress.expect(0);
            } else if application.asks() {
                // All that was asked for before has arrived.
                let side = &mut self.hosts.inbound[id as usize];
                side.progress.expect(side.sink.received() + bytes);
            }
            self.pump(id);
        }
    }

    /// Puts a segment on the first link of its route.
    #[inline(always)]
    fn put(&mut self, id: ConnectionId, segment: Segment) {
        self.counts.sent += 1;
        let side = &self.hosts.outbound[id as usize];
        let mut item =
            Item { body: Body::Data(segment), connection: id, generation: side.generation, links_left: 0 };
        match side.entrance {
            Some((link, links_left)) => {
                item.links_left = links_left;
                let (ip, from) = (segment.payload + side.header, side.identity);
                self.enter(link, item, ip, from, segment.ecn);
            }
            None => self.deliver(self.now, &item, segment),
        }
    }

    /// Sends a SYN, before which `tries` were sent, and waits for its answer.
    #[cold]
    pub(crate) fn send_syn(&mut self, id: ConnectionId, tries: u8) {
        self.counts.sent += 1;
        let side = &self.hosts.outbound[id as usize];
        let kind = &self.kinds[self.flows[side.flow as usize].kind as usize];
        let ecn = tries == 0 && kind.sender.ecn != EcnMode::Off;
        let opening = Opening { sent: self.now, tries, is_answer: false, ecn };
        let (generation, identity, size) = (side.generation, side.identity, kind.headers.opening);
        let mut item = Item { body: Body::Opening(opening), connection: id, generation, links_left: 0 };
        let waits = SYN_TIMEOUT.saturating_mul(1 << tries);
        let event = Rare::Unanswered { connection: id, generation, tries };
        self.wheel.insert(self.now + waits, Event::Rare(event));
        match side.entrance {
            Some((link, links_left)) => {
                item.links_left = links_left;
                self.enter(link, item, size, identity, Ecn::NotEct);
            }
            None => self.opening_arrives(self.now, &item, opening),
        }
    }

    /// No answer came to a SYN, if the connection still waits for one.
    #[cold]
    pub(crate) fn unanswered(&mut self, id: ConnectionId, generation: u16, tries: u8) {
        let side = &self.hosts.outbound[id as usize];
        if side.generation == generation && side.is_opening && tries < SYN_RETRIES {
            self.send_syn(id, tries + 1);
        }
    }

    /// What opens a connection left the last link of its way.
    #[cold]
    pub(crate) fn opening_arrives(&mut self, at: Time, item: &Item, opening: Opening) {
        let Item { connection, generation, .. } = *item;
        let side = &mut self.hosts.inbound[connection as usize];
        if opening.is_answer {
            let event = Event::Opened { connection, generation, answer: opening };
            return self.wheel.insert(side.back.arrival(at), event);
        }
        if side.generation != generation || matches!(side.sink, Sink::Closed) {
            self.counts.late += 1;
            return;
        }
        self.counts.delivered += 1;
        self.counts.sent += 1;
        let at = at + side.delay;
        let answer = Opening { is_answer: true, ..opening };
        match side.entrance {
            None => {
                let event = Event::Opened { connection, generation, answer };
                self.wheel.insert(side.back.arrival(at), event);
            }
            Some((_, links_left)) => {
                let body = Body::Opening(answer);
                self.wheel.insert(at, Event::Enter(Item { body, connection, generation, links_left }));
            }
        }
    }

    /// The answer to a SYN reaches the sending side; those to further SYNs say nothing new.
    #[cold]
    pub(crate) fn opened(&mut self, id: ConnectionId, generation: u16, answer: Opening) {
        let side = &self.hosts.outbound[id as usize];
        if side.generation != generation || !side.is_opening {
            self.counts.late += 1;
            return;
        }
        self.counts.delivered += 1;
        self.established(id, self.now.since(answer.sent), answer.tries);
    }

    /// A timer's event came.
    pub(crate) fn ring(&mut self, timer: Timer) {
        match timer.side {
            Side::Sender => self.ring_sender(timer),
            Side::Receiver => self.ring_receiver(timer),
        }
    }

    fn ring_sender(&mut self, timer: Timer) {
        let Timer { connection, generation, hand, .. } = timer;
        let side = &mut self.hosts.outbound[connection as usize];
        if side.generation != generation || !side.alarm.rings(hand, self.now) {
            return;
        }
        let Transmitter::Transport(sender) = &mut side.transmitter else {
            return self.pump_video(connection);
        };
        if sender.next_timeout().is_some_and(|due| due <= self.now) {
            sender.on_timeout(self.now);
        }
        self.pump(connection);
    }

    /// A report of real-time video may be due.
    fn ring_viewer(&mut self, id: ConnectionId) {
        let Transmitter::Realtime(call) = &mut self.hosts.outbound[id as usize].transmitter else { return };
        if let Some(due) = call.ends.report_due().filter(|due| *due <= self.now) {
            let told = call.ends.report(due);
            self.reports(id, due, told);
        }
        self.arm_reports(id);
    }

    fn ring_receiver(&mut self, timer: Timer) {
        let Timer { connection, generation, hand, .. } = timer;
        let side = &mut self.hosts.inbound[connection as usize];
        if side.generation != generation || !side.alarm.rings(hand, self.now) {
            return;
        }
        let Sink::Transport(receiver) = &mut side.sink else { return self.ring_viewer(connection) };
        if let Some(due) = receiver.next_timeout().filter(|due| *due <= self.now)
            && let Some(ack) = receiver.on_timeout(due)
        {
            self.answer(connection, due, &ack);
        }
        self.arm_receiver(connection);
    }
}
