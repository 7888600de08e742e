//! The packet path: from a frame that comes in to a packet that waits.

use super::agenda::{Agenda, Class};
use super::faults::{Cause, Faults};
use super::gtpu::{self, Fault, GPdu, Message};
use super::io::{Io, longer, shorter};
use super::layout::{ACCESS, CORE, LOCAL, Rule, User, What};
use super::learn::{Learners, Learnt, follow};
use super::live::Live;
use super::lookup::Key;
use super::neighbours::{ETHERNET, Link, MESSAGE_MAX, TYPE_IPV4, TYPE_IPV6, number};
use super::outer::{self, Datagram, NoDatagram, Outer};
use super::packet::{self, Inner, Told};
use super::setup::{PlaneSetup, PortSetup};
use super::table::Table;
use super::waits::{Held, Waits};
use crate::rules::RemoteTunnel;
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weir_aqm::Packet;
use weir_dataplane::Frame;
use weir_queue::{Arrival, Hosts, Shaper};
use weir_units::{Bytes, Duration, Ecn, Rate, Time};

/// Answers and errors are told at most so often, and so many at once.
const TOLD_EVERY: Duration = Duration::from_millis(1);
const TOLD_BURST: Duration = Duration::from_millis(20);
/// Packets that may wait for a neighbour's answer at each port.
const PENDING_MAX: usize = 64;
/// Queue without a rate, which waits for the port alone.
const UNSHAPED_BUFFER: Bytes = Bytes::new(4 << 20);
/// Things to be told that nobody fetched.
pub(super) const EVENTS_MAX: usize = 4096;

/// Something that control should hear of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Happened {
    /// The other end does not know a tunnel.
    Unknown {
        /// Its number there.
        teid: u32,
        /// Its host.
        peer: IpAddr,
    },
    /// Nothing has passed for long.
    Inactive {
        /// Number of the session.
        seid: u64,
    },
    /// A meter has reached its bounds.
    Measured {
        /// Number of the session.
        seid: u64,
    },
    /// A packet waits that should be told of.
    Waiting {
        /// Number of the session.
        seid: u64,
        /// Number of the rule.
        pdr: u16,
    },
}

/// A port in the packet path.
pub(super) struct PortState {
    pub link: Link,
    pub mtu: u32,
    /// The link behind it; unshaped where the port itself is the limit.
    pub shaper: Shaper,
    /// Packets that wait for a neighbour.
    pub pending: VecDeque<(u128, Frame)>,
}

/// The user plane, without ports of its own: frames and time come from whoever calls.
pub struct UserPlane {
    pub(super) setup: PlaneSetup,
    pub(super) sessions: Box<[Option<Box<Live>>]>,
    pub(super) free: Vec<u32>,
    pub(super) by_seid: Table,
    pub(super) by_teid: Table,
    pub(super) by_v4: Table,
    pub(super) by_v6: Table,
    pub(super) agenda: Agenda,
    pub(super) waits: Waits,
    pub(super) learners: Learners,
    pub(super) ports: Vec<PortState>,
    pub(super) faults: Faults,
    pub(super) events: VecDeque<Happened>,
    told_until: Time,
    /// Where the search for sessions without packets goes on, and when.
    pub(super) idle_hand: usize,
    pub(super) idle_due: Time,
}

/// What is known of the interface of a port.
#[derive(Clone, Copy, Debug)]
pub struct Card {
    /// Its address on the link.
    pub address: [u8; 6],
    /// Its largest packet.
    pub mtu: u32,
}

impl UserPlane {
    /// An empty one for ports in the order access, core, local. Tells what cannot be made.
    pub fn new(setup: PlaneSetup, cards: &[Card], now: Time) -> Result<UserPlane, String> {
        let most = setup.sessions as usize;
        let seed = setup.seed;
        let ports = [Some(&setup.access), Some(&setup.core), setup.local.as_ref()];
        let port = |(port, card): (&PortSetup, &Card)| PortState {
            link: Link::new(card.address, &port.addresses, &port.gateways, &port.neighbours),
            mtu: card.mtu,
            shaper: Shaper::new(port.rate.unwrap_or(Rate::ZERO), setup.catch_up),
            pending: VecDeque::with_capacity(PENDING_MAX),
        };
        let ports = ports.into_iter().flatten().zip(cards).map(port).collect();
        Ok(UserPlane {
            sessions: (0..most).map(|_| None).collect(),
            free: (0..setup.sessions).rev().collect(),
            by_seid: Table::new(most, seed),
            // Some sessions have more than one tunnel or address.
            by_teid: Table::new(2 * most, seed.rotate_left(16)),
            by_v4: Table::new(most + most / 4, seed.rotate_left(32)),
            by_v6: Table::new(most + most / 4, seed.rotate_left(48)),
            agenda: Agenda::new(2 * most),
            waits: Waits::new(&setup, now)?,
            learners: Learners::new(setup.learners),
            ports,
            faults: Faults::default(),
            events: VecDeque::with_capacity(EVENTS_MAX),
            told_until: now,
            idle_hand: 0,
            idle_due: now,
            setup,
        })
    }

    /// What was counted.
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// The oldest thing that happened and was not fetched.
    pub fn happened(&mut self) -> Option<Happened> {
        self.events.pop_front()
    }

    pub(super) fn tell(&mut self, event: Happened) {
        if self.events.len() < EVENTS_MAX {
            self.events.push_back(event)
        } else {
            self.faults.count(Cause::EventsLost)
        }
    }

    /// A frame came in at a port.
    #[inline]
    pub fn receive(&mut self, port: usize, frame: Frame, at: Time, io: &mut impl Io) {
        let bytes = io.bytes(frame);
        let kind = bytes.get(12..ETHERNET).map_or(0, |kind| u16::from_be_bytes([kind[0], kind[1]]));
        match (kind, port) {
            (TYPE_IPV4 | TYPE_IPV6, ACCESS) => self.take_datagram(frame, at, io),
            (TYPE_IPV4 | TYPE_IPV6, _) => {
                if !self.downlink(port == LOCAL, shorter(frame, ETHERNET), at, io) {
                    self.not_for_users(port, frame, at, io);
                }
            }
            _ => self.about_neighbours(port, frame, at, io, Cause::NotIp),
        }
    }

    fn refuse(&mut self, frame: Frame, cause: Cause, io: &mut impl Io) {
        self.faults.count(cause);
        io.give(frame);
    }

    #[inline]
    fn take_datagram(&mut self, frame: Frame, at: Time, io: &mut impl Io) {
        let packet = &io.bytes(frame)[ETHERNET..];
        let datagram = match outer::read(packet) {
            Ok(datagram) => datagram,
            Err(why) => return self.no_datagram(frame, why, at, io),
        };
        let payload = &packet[datagram.start..datagram.end];
        let message = gtpu::read(payload);
        if !self.ports[ACCESS].link.is_own_number(super::neighbours::number_of(datagram.is_v6, datagram.to)) {
            return self.refuse(frame, Cause::NotOurs, io);
        }
        match message {
            Ok(Message::Packet(gpdu)) => self.uplink(frame, &datagram, &gpdu, at, io),
            other => self.path_message(frame, &datagram, other, at, io),
        }
    }

    #[cold]
    fn no_datagram(&mut self, frame: Frame, why: NoDatagram, at: Time, io: &mut impl Io) {
        match why {
            NoDatagram::Malformed => self.refuse(frame, Cause::OuterMalformed, io),
            NoDatagram::Fragment => self.refuse(frame, Cause::OuterFragment, io),
            NoDatagram::Checksum => self.refuse(frame, Cause::OuterChecksum, io),
            NoDatagram::Other => self.about_neighbours(ACCESS, frame, at, io, Cause::NotOurs),
        }
    }

    /// Everything but packets of users.
    #[cold]
    fn path_message(
        &mut self,
        frame: Frame,
        datagram: &Datagram,
        message: Result<Message, Fault>,
        at: Time,
        io: &mut impl Io,
    ) {
        io.give(frame);
        let mut answer = Vec::with_capacity(64);
        let mut port = gtpu::PORT;
        match message {
            Ok(Message::EchoRequest { sequence }) => {
                self.faults.count(Cause::Echo);
                gtpu::write_echo_response(&mut answer, sequence);
                port = datagram.port;
            }
            Ok(Message::ErrorIndication { teid, peer }) => {
                self.faults.count(Cause::IndicationReceived);
                self.tell(Happened::Unknown { teid, peer });
            }
            Ok(Message::EndMarker { .. }) => self.faults.count(Cause::EndMarkerReceived),
            Ok(Message::EchoResponse { .. } | Message::SupportedExtensions | Message::Packet(_)) => {}
            Err(Fault::NotComprehended(_)) => {
                self.faults.count(Cause::GtpNotComprehended);
                gtpu::write_supported_extensions(&mut answer);
            }
            Err(Fault::Short) => self.faults.count(Cause::GtpShort),
            Err(Fault::Version) => self.faults.count(Cause::GtpVersion),
            Err(Fault::Extension) => self.faults.count(Cause::GtpExtension),
            Err(Fault::Container) => self.faults.count(Cause::GtpContainer),
            Err(Fault::Kind(_)) => self.faults.count(Cause::GtpKind),
            Err(Fault::Element) => self.faults.count(Cause::GtpElement),
        }
        if !answer.is_empty() {
            self.answer(datagram, port, &answer, at, io);
        }
    }

    /// Whether one more answer may be told.
    fn may_tell(&mut self, at: Time) -> bool {
        self.told_until = self.told_until.max(at - TOLD_BURST);
        if self.told_until > at {
            self.faults.count(Cause::Hushed);
            return false;
        }
        self.told_until += TOLD_EVERY;
        true
    }

    /// Sends a message back to where a datagram came from.
    fn answer(&mut self, to: &Datagram, port: u16, message: &[u8], at: Time, io: &mut impl Io) {
        if !self.may_tell(at) {
            return;
        }
        let [own, address] = [to.to, to.from].map(|a| address(to.is_v6, a));
        let outer = Outer::new(own, RemoteTunnel { teid: 0, address, port }, None);
        let len = outer.overhead(false) - gtpu::HEADER + message.len();
        let Some(frame) = io.take(len) else { return self.faults.count(Cause::NoMemory) };
        let bytes = io.bytes(frame);
        bytes[len - message.len()..].copy_from_slice(message);
        outer.write_head(bytes, 0);
        self.send(ACCESS, frame, outer.host(), to.is_v6, at, io);
    }

    /// Something in a tunnel.
    #[inline]
    fn uplink(&mut self, frame: Frame, datagram: &Datagram, gpdu: &GPdu, at: Time, io: &mut impl Io) {
        let Some(session) = self.by_teid.get(u64::from(gpdu.teid)) else {
            return self.unknown_tunnel(frame, datagram, gpdu, at, io);
        };
        let cut = ETHERNET + datagram.start + gpdu.start;
        let len = (gpdu.end - gpdu.start) as u32;
        let frame = Frame { addr: frame.addr + cut as u64, len };
        let bytes = io.bytes(frame);
        let Some(inner) = packet::read(bytes) else { return self.refuse(frame, Cause::InnerMalformed, io) };
        // RFC 6040 section 4.2: what the outer header says of congestion is not lost.
        if datagram.tos & 3 == 3 && inner.tos & 3 != 3 {
            if inner.tos & 3 == 0 {
                return self.refuse(frame, Cause::InnerNotCapable, io);
            }
            packet::mark(bytes);
        }
        let bytes = &bytes[..usize::from(inner.len)];
        let frame = Frame { len: u32::from(inner.len), ..frame };
        let key = Key::new(&inner, true, false);
        let live = self.sessions[session as usize].as_ref().expect("tables name sessions that are there");
        let rules = &live.program.up;
        let qfi = gpdu.container.map_or(0, |container| 1 << container.qfi);
        let suits = |number: u16| {
            let rule = &rules.rules[usize::from(number)];
            rule.teid.is_some_and(|at| live.program.teids[usize::from(at)] == gpdu.teid)
                && (rule.qfis == u64::MAX || rule.qfis & qfi != 0)
                && live.program.is_of_user(rule, inner.is_v6, inner.source, inner.destination)
        };
        let found = rules.filters.find(&key, &inner, bytes, suits);
        self.matched(session, true, found, Arrived { frame, inner, key, at, port: ACCESS }, io);
    }

    #[cold]
    fn unknown_tunnel(&mut self, frame: Frame, to: &Datagram, gpdu: &GPdu, at: Time, io: &mut impl Io) {
        self.refuse(frame, Cause::NoTunnel, io);
        let mut message = Vec::with_capacity(32);
        gtpu::write_error_indication(&mut message, gpdu.teid, address(to.is_v6, to.to));
        self.faults.count(Cause::IndicationSent);
        self.answer(to, gtpu::PORT, &message, at, io);
    }

    /// An IP packet for the user equipment; whether it was for one at all.
    #[inline]
    pub(super) fn downlink(&mut self, is_local: bool, frame: Frame, at: Time, io: &mut impl Io) -> bool {
        let bytes = io.bytes(frame);
        let Some(inner) = packet::read(bytes) else {
            self.refuse(frame, Cause::InnerMalformed, io);
            return true;
        };
        let user = if inner.is_v6 {
            self.by_v6.get((inner.destination >> 64) as u64)
        } else {
            self.by_v4.get(inner.destination as u64)
        };
        let Some(session) = user else { return false };
        let bytes = &bytes[..usize::from(inner.len)];
        let frame = Frame { len: u32::from(inner.len), ..frame };
        let key = Key::new(&inner, false, is_local);
        let live = self.sessions[session as usize].as_ref().expect("tables name sessions that are there");
        let rules = &live.program.down;
        let suits = |number: u16| {
            let rule = &rules.rules[usize::from(number)];
            live.program.is_of_user(rule, inner.is_v6, inner.source, inner.destination)
        };
        let found = rules.filters.find(&key, &inner, bytes, suits);
        let port = if is_local { LOCAL } else { CORE };
        self.matched(session, false, found, Arrived { frame, inner, key, at, port }, io);
        true
    }

    #[cold]
    fn not_for_users(&mut self, port: usize, frame: Frame, at: Time, io: &mut impl Io) {
        self.about_neighbours(port, frame, at, io, Cause::NoUser);
    }

    /// A frame that may be about neighbours, else it is nothing for us.
    #[cold]
    fn about_neighbours(&mut self, port: usize, frame: Frame, at: Time, io: &mut impl Io, otherwise: Cause) {
        let mut answer = [0; MESSAGE_MAX];
        let told = self.ports[port].link.take(io.bytes(frame), at, &mut answer);
        let Some(told) = told else { return self.refuse(frame, otherwise, io) };
        io.give(frame);
        if let Some(len) = told.answered {
            self.send_frame(port, &answer[..len], io);
        }
        if told.learnt.is_some() {
            for _ in 0..self.ports[port].pending.len() {
                let Some((host, frame)) = self.ports[port].pending.pop_front() else { break };
                let is_v6 = io.bytes(frame)[0] >> 4 == 6;
                self.send(port, frame, host, is_v6, at, io);
            }
        }
    }

    fn send_frame(&mut self, port: usize, bytes: &[u8], io: &mut impl Io) {
        match io.take(bytes.len()) {
            Some(frame) => {
                io.bytes(frame).copy_from_slice(bytes);
                io.push(port, frame);
            }
            None => self.faults.count(Cause::NoMemory),
        }
    }

    /// Sends an IP packet to a host, or to the gateway to it.
    #[inline]
    pub(super) fn send(
        &mut self,
        port: usize,
        frame: Frame,
        host: u128,
        is_v6: bool,
        at: Time,
        io: &mut impl Io,
    ) {
        let state = &mut self.ports[port];
        let Some(card) = state.link.recent(host, at) else {
            return self.send_to_stranger(port, frame, host, is_v6, at, io);
        };
        state.shaper.sent(at, Bytes::new(u64::from(frame.len)));
        let frame = longer(frame, ETHERNET);
        let kind = if is_v6 { TYPE_IPV6 } else { TYPE_IPV4 };
        super::neighbours::write_ethernet(io.bytes(frame), card, state.link.card(), kind);
        io.push(port, frame);
    }

    #[cold]
    fn send_to_stranger(
        &mut self,
        port: usize,
        frame: Frame,
        host: u128,
        is_v6: bool,
        at: Time,
        io: &mut impl Io,
    ) {
        use super::neighbours::Reach;
        let reach = self.ports[port].link.search(host, at);
        if let Reach::Ask(wanted) | Reach::Confirm(_, wanted) = reach {
            let mut question = [0; MESSAGE_MAX];
            if let Some(len) = self.ports[port].link.write_question(&mut question, wanted) {
                self.send_frame(port, &question[..len], io);
            }
        }
        match reach {
            Reach::Known(_) | Reach::Confirm(..) => self.send(port, frame, host, is_v6, at, io),
            Reach::Ask(_) | Reach::Wait => {
                let pending = &mut self.ports[port].pending;
                let former = if pending.len() >= PENDING_MAX { pending.pop_front() } else { None };
                pending.push_back((host, frame));
                former.into_iter().for_each(|(_, frame)| self.refuse(frame, Cause::NoNeighbour, io));
            }
            Reach::Nowhere => self.refuse(frame, Cause::NoNeighbour, io),
        }
    }

    /// Asks for the neighbours that packets of a session will go to, before there are any.
    pub(super) fn look_for(&mut self, host: u128, port: usize, at: Time, io: &mut impl Io) {
        use super::neighbours::Reach;
        if let Reach::Ask(wanted) = self.ports[port].link.search(host, at) {
            let mut question = [0; MESSAGE_MAX];
            if let Some(len) = self.ports[port].link.write_question(&mut question, wanted) {
                self.send_frame(port, &question[..len], io);
            }
        }
    }
}

/// A packet whose session is known.
#[derive(Clone, Copy)]
struct Arrived {
    frame: Frame,
    inner: Inner,
    key: Key,
    at: Time,
    /// Where it came in.
    port: usize,
}

impl UserPlane {
    /// A packet met a rule, or none.
    #[inline]
    fn matched(&mut self, session: u32, is_up: bool, rule: Option<u16>, arrived: Arrived, io: &mut impl Io) {
        let there = "tables name sessions that are there";
        // What left before this one came is gone when its algorithm is asked.
        if self.sessions[session as usize].as_ref().expect(there).due[usize::from(is_up)] <= Some(arrived.at)
            && self.agenda.is_later(2 * session + u32::from(is_up))
        {
            self.serve(2 * session + u32::from(is_up), arrived.at, None, io);
        }
        let mut live = self.sessions[session as usize].take().expect(there);
        let outcome = self.admit(&mut live, session, is_up, rule, &arrived, io);
        let told = match outcome {
            Ok(()) => None,
            Err((cause, told)) => {
                self.faults.count(cause);
                let dropped = if is_up { &mut live.usage.dropped.up } else { &mut live.usage.dropped.down };
                *dropped += 1;
                Some(told)
            }
        };
        self.sessions[session as usize] = Some(live);
        match told {
            Some(Some(told)) => {
                self.tell_sender(arrived.frame, &arrived.inner, told, arrived.port, arrived.at, io)
            }
            Some(None) => io.give(arrived.frame),
            None => self.serve_or_wait(session, is_up, arrived.at, io),
        }
    }

    /// Brings a packet into its queue, or says why not and what its sender is told.
    #[inline]
    fn admit(
        &mut self,
        live: &mut Live,
        session: u32,
        is_up: bool,
        rule: Option<u16>,
        arrived: &Arrived,
        io: &mut impl Io,
    ) -> Result<(), (Cause, Option<Told>)> {
        let Arrived { frame, inner, key, at, .. } = *arrived;
        let rules = if is_up { &live.program.up } else { &live.program.down };
        let rule = &rules.rules[usize::from(rule.ok_or((Cause::NoRule, None))?)];
        let Rule { id, act, queue, qfi, is_open, meters, .. } = *rule;
        if !is_open {
            return Err((Cause::Gate, None));
        }
        let act = act.ok_or((Cause::Rule, None))?;
        let way = &live.program.acts[usize::from(act)];
        let (port, overhead) = match &way.what {
            What::Drop => return Err((Cause::Rule, None)),
            What::Buffer { tell } => {
                if *tell && !live.told_waiting {
                    live.told_waiting = true;
                    self.tell(Happened::Waiting { seid: live.program.seid, pdr: id });
                }
                (ACCESS, outer::OVERHEAD_MAX)
            }
            What::Plain(port) => (*port, 0),
            What::Tunnel(outer) => (ACCESS, outer.overhead(qfi.is_some())),
        };
        let most = self.ports[port].mtu as usize - overhead;
        if usize::from(inner.len) > most {
            return Err((Cause::TooBig, Some(Told::TooBig { most: most as u16 })));
        }
        if inner.hops <= 1 {
            return Err((Cause::Expired, Some(Told::Expired)));
        }
        packet::take_hop(io.bytes(frame));
        let held = Held {
            frame,
            flow: key.flow(self.setup.seed),
            act,
            generation: way.generation,
            qfi,
            tos: inner.tos,
            meters,
        };
        live.active = at;
        live.told_inactive = false;
        let plan = &live.program.queues[usize::from(queue)];
        if plan.learns {
            self.learn_of_arrival(live, session, is_up, &held, at, io);
        }
        self.enqueue(live, session, queue, held, at, io).then_some(()).ok_or((Cause::NoQueue, None))
    }

    /// Stores a packet, or lets the queue discard it; `false` if there is no queue to be had.
    #[inline]
    fn enqueue(
        &mut self,
        live: &mut Live,
        session: u32,
        queue: u8,
        held: Held,
        at: Time,
        io: &mut impl Io,
    ) -> bool {
        let plan = live.program.queues[usize::from(queue)];
        let place = match live.lines[usize::from(queue)].place {
            Some(place) => place,
            None => match self.place_for(live, session, queue, at) {
                Some(place) => place,
                None => return false,
            },
        };
        let (room, least) = self.setup.buffer;
        let room =
            if plan.rate == Rate::ZERO { UNSHAPED_BUFFER } else { plan.rate.bytes_in(room).max(least) };
        if live.lines.len() > 1 && self.waits.place(place).queue.packets() == 0 {
            // Whoever was idle may not make up for it.
            live.lines[usize::from(queue)].served = self.least_served(live, queue);
        }
        let (place, store) = self.waits.with_store(place);
        // Nobody takes more than what is left for others, so that there is always room for a flow with a guarantee.
        let is_greedy = plan.gbr == Rate::ZERO && place.queue.packets() >= store.free();
        let room = if is_greedy { Bytes::ZERO } else { room };
        place.active = at;
        live.lines[usize::from(queue)].asked = at;
        let ecn = Ecn::from_bits(held.tos);
        let arrival = Arrival {
            len: Bytes::new(u64::from(held.frame.len)),
            flow: held.flow,
            hosts: Hosts::UNKNOWN,
            ecn,
        };
        let mut dropped = 0;
        place.queue.enqueue(store, room, at, arrival, held, &mut |_: &Packet, held: Held, _| {
            dropped += 1;
            io.give(held.frame);
        });
        let dropped_of = &mut live.usage.dropped;
        *(if plan.is_up { &mut dropped_of.up } else { &mut dropped_of.down }) += dropped;
        true
    }

    /// What a line has sent, or the least of those that wait beside it if that is more.
    fn least_served(&mut self, live: &Live, queue: u8) -> u64 {
        let own = live.lines[usize::from(queue)].served;
        let is_up = live.program.queues[usize::from(queue)].is_up;
        let peers = live.program.queues.iter().zip(&live.lines).filter(|(plan, _)| plan.is_up == is_up);
        let waiting =
            peers.filter(|(_, line)| line.place.is_some_and(|at| self.waits.place(at).queue.packets() > 0));
        waiting.map(|(_, line)| line.served).min().map_or(own, |least| least.max(own))
    }

    /// A queue for a line that had none; it may have been somebody else's.
    #[cold]
    fn place_for(&mut self, live: &mut Live, session: u32, queue: u8, at: Time) -> Option<u32> {
        let plan = live.program.queues[usize::from(queue)];
        let (place, former) = self.waits.take((session, queue), plan.profile, plan.rate, at)?;
        if let Some(((session, queue), counters)) = former {
            let line = match &mut self.sessions[session as usize] {
                Some(former) => &mut former.lines[usize::from(queue)],
                // It was this session's own.
                None => &mut live.lines[usize::from(queue)],
            };
            line.past = line.past.plus(&counters);
            line.place = None;
        }
        live.lines[usize::from(queue)].place = Some(place);
        Some(place)
    }

    /// What is learnt before the queue: from the user equipment all, to it that something came.
    fn learn_of_arrival(
        &mut self,
        live: &mut Live,
        session: u32,
        is_up: bool,
        held: &Held,
        at: Time,
        io: &mut impl Io,
    ) {
        let learner = match live.learner {
            Some(learner) => learner,
            None => {
                let Some((learner, former)) = self.learners.take(session, at) else { return };
                let former = former.and_then(|former| self.sessions[former as usize].as_mut());
                former.into_iter().for_each(|former| (former.learner, former.bottleneck) = (None, None));
                live.learner = Some(learner);
                learner
            }
        };
        if is_up {
            let waiting = self.is_waiting(live);
            let learnt = self.learners.returned(learner, at, held.flow, io.bytes(held.frame), waiting);
            self.apply_learnt(live, &learnt, at);
        } else {
            self.learners.arrived(learner, at, held.frame.len as u16);
        }
    }

    /// Whether packets to the user equipment wait here.
    fn is_waiting(&mut self, live: &Live) -> bool {
        let down = live.program.queues.iter().zip(&live.lines).filter(|(plan, _)| !plan.is_up);
        let mut places = down.filter_map(|(_, line)| line.place);
        places.any(|place| self.waits.place(place).queue.packets() > 0)
    }

    /// Passes on what was learnt: to the algorithms of the queues to the user equipment, and to their rate.
    pub(super) fn apply_learnt(&mut self, live: &mut Live, learnt: &Learnt, at: Time) {
        if let Some(rate) = learnt.rate
            && live.program.queues.iter().any(|plan| plan.follows)
        {
            follow(&mut live.bottleneck, rate, self.setup.catch_up);
        }
        if learnt.samples.iter().all(Option::is_none) {
            return;
        }
        for (plan, line) in live.program.queues.iter().zip(&live.lines) {
            let Some(place) = line.place.filter(|_| plan.learns && !plan.is_up) else { continue };
            let queue = &mut self.waits.place(place).queue;
            learnt.samples.iter().flatten().for_each(|sample| queue.sample(at, *sample));
            if !plan.follows {
                continue;
            }
            let rate = live
                .bottleneck
                .as_ref()
                .map(Shaper::rate)
                .filter(|rate| *rate < plan.rate || plan.rate == Rate::ZERO);
            queue.set_rate(rate.unwrap_or(plan.rate));
        }
    }

    /// Tells the sender of a packet why it does not go on; the packet ends here.
    #[cold]
    fn tell_sender(
        &mut self,
        frame: Frame,
        inner: &Inner,
        told: Told,
        port: usize,
        at: Time,
        io: &mut impl Io,
    ) {
        let own = self.ports[if port == ACCESS { CORE } else { port }].link.own(inner.is_v6);
        let may = own.is_some() && inner.tells_errors(io.bytes(frame)) && self.may_tell(at);
        let answer = if may { io.take(1280) } else { None };
        if let (Some(answer), Some(own)) = (answer, own) {
            let about = io.bytes(frame).to_vec();
            let own = match own {
                IpAddr::V4(own) => u128::from(u32::from(own)),
                IpAddr::V6(own) => u128::from(own),
            };
            if let Some(len) = packet::write_error(io.bytes(answer), &about, told, own) {
                let answer = Frame { len: len as u32, ..answer };
                if port == ACCESS {
                    // It goes to the user equipment as what comes from the data network does.
                    if !self.downlink(false, answer, at, io) {
                        io.give(answer);
                    }
                } else {
                    let host = super::neighbours::number_of(inner.is_v6, inner.source);
                    self.send(port, answer, host, inner.is_v6, at, io);
                }
            } else {
                io.give(answer);
            }
        }
        io.give(frame);
    }

    /// A packet came into a queue: what may go goes, unless the session is in a line already.
    #[inline]
    fn serve_or_wait(&mut self, session: u32, is_up: bool, at: Time, io: &mut impl Io) {
        let who = 2 * session + u32::from(is_up);
        match self.agenda.lined_up(who) {
            None => self.serve(who, at, None, io),
            Some(Class::Guaranteed) => {}
            Some(Class::Ordinary) => self.move_up(who, at),
        }
    }
}

pub(super) fn address(is_v6: bool, address: u128) -> IpAddr {
    if is_v6 { Ipv6Addr::from(address).into() } else { Ipv4Addr::from(address as u32).into() }
}

/// The key by which a user is found.
pub(super) fn user_key(user: User) -> (bool, u64) {
    match user {
        User::V4(address) => (false, u64::from(address)),
        User::V6(prefix) => (true, prefix),
    }
}

/// The number of a tunnel's host.
pub(super) fn host_of(tunnel: &RemoteTunnel) -> u128 {
    number(tunnel.address)
}
