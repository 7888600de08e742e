//! The packet path: from a frame that comes in to a packet that waits.

use super::classify::flows::{Flow, Flows, NotMet};
use super::classify::layout::{ACCESS, CORE, LOCAL};
use super::classify::lookup::Key;
use super::classify::stations::Stations;
use super::classify::table::{Table, UserTable};
use super::ingress::arrived::Arrived;
use super::io::{Io, shorter};
use super::live::Live;
use super::neighbour::table::{Link, number};
use super::queueing::learn::Learners;
use super::queueing::queue_pool::QueuePool;
use super::queueing::timing_wheel::TimingWheel;
use super::rate_limit::RateLimit;
use super::setup::{PlaneSetup, PortSetup};
use super::status::faults::{Cause, Faults};
use crate::rules::RemoteTunnel;
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weir_dataplane::Frame;
use weir_queue::Shaper;
use weir_units::{Duration, Rate, Time};
use weir_wire::ethernet::{self, HEADER_LEN as ETHERNET};
use weir_wire::flow_hash;
use weir_wire::gtpu::{self, Message};
use weir_wire::ip::{self, Header};
use weir_wire::tunnel::{self, NoDatagram, Tunnelled};

/// Packets that may wait for a neighbour's answer at each port.
pub(super) const PENDING_MAX: usize = 64;
/// Answers and errors are told at most so often, and so many at once.
const ANSWER_EVERY: Duration = Duration::from_millis(1);
const ANSWER_BURST: Duration = Duration::from_millis(20);
/// Things to be told that nobody fetched.
pub(super) const EVENTS_MAX: usize = 4096;

/// Something that control should hear of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PlaneEvent {
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
    /// Packets that wait for a neighbour, with the time until which they do.
    pub pending: VecDeque<(u128, Frame, Time)>,
}

/// The user plane, without ports of its own: frames and time come from whoever calls.
pub struct UserPlane {
    pub(super) setup: PlaneSetup,
    pub(super) sessions: Box<[Option<Box<Live>>]>,
    pub(super) free: Vec<u32>,
    pub(super) by_seid: Table<u64>,
    pub(super) by_teid: Table<u32>,
    pub(super) by_user: UserTable,
    pub(super) stations: Stations,
    /// What was found for packets of late, and the number of the rules that came last.
    pub(super) flows: Flows,
    pub(super) serial: u64,
    pub(super) agenda: TimingWheel,
    pub(super) waits: QueuePool,
    pub(super) learners: Learners,
    pub(super) ports: Vec<PortState>,
    pub(super) faults: Faults,
    pub(super) events: VecDeque<PlaneEvent>,
    pub(super) answers: RateLimit,
    /// Packets that wait for rules to change.
    pub(super) parked: u32,
    /// Where the look at sessions goes on, and when.
    pub(super) idle_hand: usize,
    pub(super) idle_due: Time,
}

/// What is known of the interface of a port.
#[derive(Clone, Copy, Debug, Default)]
pub struct PortInterface {
    /// Its address on the link.
    pub address: [u8; 6],
    /// Its largest packet.
    pub mtu: u32,
}

impl UserPlane {
    /// An empty one for ports in the order access, core, local. Tells what cannot be made.
    pub fn new(setup: PlaneSetup, cards: &[PortInterface], now: Time) -> Result<UserPlane, String> {
        let most = setup.sessions as usize;
        let seed = setup.seed;
        let ports = [Some(&setup.access), Some(&setup.core), setup.local.as_ref()];
        let port = |(port, card): (&PortSetup, &PortInterface)| PortState {
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
            stations: Stations::new(setup.sources, &setup.stations, most, seed.rotate_left(48)),
            // Some sessions have more than one tunnel or address.
            by_teid: Table::new(2 * most, seed.rotate_left(16)),
            by_user: UserTable::new(most + most / 4, seed.rotate_left(32)),
            flows: Flows::new(4 * setup.queues as usize),
            serial: 0,
            agenda: TimingWheel::new(2 * most),
            waits: QueuePool::new(&setup, now)?,
            learners: Learners::new(setup.learners, setup.follow_law),
            ports,
            faults: Faults::default(),
            events: VecDeque::with_capacity(EVENTS_MAX),
            answers: RateLimit::new(ANSWER_EVERY, ANSWER_BURST, now + ANSWER_BURST),
            parked: 0,
            idle_hand: 0,
            idle_due: now,
            setup,
        })
    }

    /// What was counted.
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// A port is another than before, of the same addresses: neighbours are asked for anew.
    pub(super) fn set_card(&mut self, port: usize, card: PortInterface) {
        let setup = [Some(&self.setup.access), Some(&self.setup.core), self.setup.local.as_ref()];
        if let Some(setup) = setup.into_iter().flatten().nth(port) {
            let link = Link::new(card.address, &setup.addresses, &setup.gateways, &setup.neighbours);
            (self.ports[port].link, self.ports[port].mtu) = (link, card.mtu);
        }
    }

    /// The memory of frames is gone: packets that wait are lost, and sessions stay.
    pub(super) fn forget_frames(&mut self) {
        self.ports.iter_mut().for_each(|port| port.pending.clear());
        for number in 0..self.sessions.len() {
            let Some(mut live) = self.sessions[number].take() else { continue };
            self.discard_waiting(&mut live);
            self.count_parked(&mut live);
            self.sessions[number] = Some(live);
        }
    }

    /// The MTU of a port was changed.
    pub(super) fn set_mtu(&mut self, port: usize, mtu: u32) {
        self.ports[port].mtu = mtu;
    }

    /// The oldest thing that happened and was not fetched.
    pub fn happened(&mut self) -> Option<PlaneEvent> {
        self.events.pop_front()
    }

    /// Tells control something; `false` if it has not fetched what was told before.
    pub(super) fn tell(&mut self, event: PlaneEvent) -> bool {
        let has_room = self.events.len() < EVENTS_MAX;
        if has_room {
            self.events.push_back(event);
        } else {
            self.faults.count(Cause::EventsLost);
        }
        has_room
    }

    /// A frame came in at a port.
    #[inline]
    pub fn receive(&mut self, port: usize, frame: Frame, at: Time, io: &mut impl Io) {
        let bytes = &*io.bytes(frame);
        if port == ACCESS
            && let Some(tunnelled) = tunnel::read_usual(bytes)
        {
            return self.uplink(frame, tunnelled, at, io);
        }
        match (ethernet::ethertype(bytes).unwrap_or(0), port) {
            (ethernet::IPV4 | ethernet::IPV6, ACCESS) => self.take_datagram(frame, at, io),
            (ethernet::IPV4 | ethernet::IPV6, _) => {
                if !self.downlink(port == LOCAL, shorter(frame, ETHERNET), at, io) {
                    self.not_for_users(port, frame, at, io);
                }
            }
            _ => self.about_neighbours(port, frame, at, io, Cause::NotIp),
        }
    }

    pub(super) fn refuse(&mut self, frame: Frame, cause: Cause, io: &mut impl Io) {
        self.faults.count(cause);
        io.give(frame);
    }

    /// Reads headers of any form.
    #[inline(never)]
    fn take_datagram(&mut self, frame: Frame, at: Time, io: &mut impl Io) {
        let packet = &io.bytes(frame)[ETHERNET..];
        let datagram = match tunnel::read(packet) {
            Ok(datagram) => datagram,
            Err(why) => return self.no_datagram(frame, why, at, io),
        };
        let message = gtpu::read(&packet[datagram.start..datagram.end]);
        let host = ip::mapped(datagram.is_v6, datagram.to);
        match message {
            Ok(Message::Packet(gpdu)) => {
                let tunnelled = Tunnelled::new(&datagram, gpdu);
                match self.is_from_core(gpdu.teid) {
                    true => self.downlink_tunnelled(frame, tunnelled, at, io),
                    false => self.uplink_any(frame, tunnelled, at, io),
                }
            }
            _ if self.ports[ACCESS].link.is_own_number(host) => self.path_message(frame, datagram, at, io),
            _ => self.refuse(frame, Cause::NotOurs, io),
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

    /// Something in a tunnel. The way of packets of the usual form is compiled for them.
    #[inline(always)]
    fn uplink(&mut self, frame: Frame, tunnelled: Tunnelled, at: Time, io: &mut impl Io) {
        let (start, end) = tunnelled.bounds();
        match Header::read_usual(&io.bytes(frame)[start..end]) {
            Some(inner) if tunnelled.tos & 3 != 3 => self.uplink_of(frame, tunnelled, inner, at, io),
            _ => self.uplink_any(frame, tunnelled, at, io),
        }
    }

    #[inline(never)]
    fn uplink_any(&mut self, frame: Frame, tunnelled: Tunnelled, at: Time, io: &mut impl Io) {
        let (start, end) = tunnelled.bounds();
        match Header::read(&io.bytes(frame)[start..end]) {
            // What the outer header says of congestion is looked at where the packet does not say it.
            Some(inner) if tunnelled.tos & 3 != 3 || inner.traffic_class & 3 == 3 => {
                self.uplink_of(frame, tunnelled, inner, at, io)
            }
            _ => self.uplink_odd(frame, tunnelled, at, io),
        }
    }

    /// Whether packets to user equipment come in a tunnel, from another user-plane function.
    fn is_from_core(&self, teid: u32) -> bool {
        let live = self.by_teid.get(teid).and_then(|session| self.sessions[session as usize].as_ref());
        live.is_some_and(|live| live.program.is_from_core(teid))
    }

    /// Something in a tunnel from another user-plane function (N9), for user equipment.
    #[inline(never)]
    fn downlink_tunnelled(&mut self, frame: Frame, tunnelled: Tunnelled, at: Time, io: &mut impl Io) {
        if !self.ports[ACCESS].link.is_own_number(tunnelled.host) {
            return self.refuse(frame, Cause::NotOurs, io);
        }
        let (start, end) = tunnelled.bounds();
        let Some(inner) = Header::read(&io.bytes(frame)[start..end]) else {
            return self.refuse(frame, Cause::InnerMalformed, io);
        };
        if tunnelled.tos & 3 == 3 && inner.traffic_class & 3 != 3 {
            return self.mark_tunnelled(frame, tunnelled, inner.traffic_class & 3 != 0, at, io);
        }
        self.decapsulated(frame, tunnelled, inner, false, at, io);
    }

    /// A packet for user equipment that came through congestion on N9 and does not say so (RFC 6040 section
    /// 4.2).
    #[cold]
    fn mark_tunnelled(
        &mut self,
        frame: Frame,
        tunnelled: Tunnelled,
        is_capable: bool,
        at: Time,
        io: &mut impl Io,
    ) {
        if !is_capable {
            return self.refuse(frame, Cause::InnerNotCapable, io);
        }
        let (start, end) = tunnelled.bounds();
        ip::mark(&mut io.bytes(frame)[start..end]);
        self.downlink_tunnelled(frame, tunnelled, at, io);
    }

    /// What is rare reads the packet again, so that nothing of it need be kept in memory for that.
    #[inline(always)]
    fn uplink_of(&mut self, frame: Frame, tunnelled: Tunnelled, inner: Header, at: Time, io: &mut impl Io) {
        if !self.ports[ACCESS].link.is_own_number(tunnelled.host) {
            return self.refuse(frame, Cause::NotOurs, io);
        }
        self.decapsulated(frame, tunnelled, inner, true, at, io);
    }

    /// What was in a tunnel to an address of this function, from user equipment or for it.
    #[inline(always)]
    fn decapsulated(
        &mut self,
        frame: Frame,
        tunnelled: Tunnelled,
        inner: Header,
        is_uplink: bool,
        at: Time,
        io: &mut impl Io,
    ) {
        let Tunnelled { from, gpdu, .. } = tunnelled;
        let port = if is_uplink { ACCESS } else { CORE };
        let key = Key::new(&inner, is_uplink, false);
        let hash = flow_hash::of_header(self.setup.seed, &inner, is_uplink);
        let tunnel = (gpdu.teid, gpdu.container.map(|c| c.qfi), self.stations.mark(from));
        let flow = Flow::new(&key, hash, inner.traffic_class, Some(tunnel));
        let packet = shorter(frame, tunnelled.bounds().0);
        let packet = Frame { len: inner.len, ..packet };
        let Header { traffic_class: tos, hops, .. } = inner;
        // Made where it is needed, so that none is in memory for most packets.
        let arrived = || Arrived { frame: packet, hash, tos, hops, at, port };
        if let Some((session, rule)) = self.recall(&flow) {
            if !self.express(session, rule, is_uplink, arrived(), (inner.is_v6, inner.destination), io) {
                self.matched(session, rule, is_uplink, arrived(), io);
            }
            return;
        }
        match self.look_up(flow, packet, is_uplink, Some((gpdu, from)), false, io) {
            Ok((session, rule)) => self.matched(session, rule, is_uplink, arrived(), io),
            Err(NotMet::Refused(cause)) => self.refuse(frame, cause, io),
            Err(NotMet::Nobody) => self.unknown_tunnel(frame, at, io),
        }
    }

    /// A packet that contradicts itself, or that came through congestion and does not say so (RFC 6040
    /// section 4.2).
    #[cold]
    #[inline(never)]
    fn uplink_odd(&mut self, frame: Frame, tunnelled: Tunnelled, at: Time, io: &mut impl Io) {
        if !self.ports[ACCESS].link.is_own_number(tunnelled.host) {
            return self.refuse(frame, Cause::NotOurs, io);
        }
        if self.by_teid.get(tunnelled.gpdu.teid).is_none() {
            return self.unknown_tunnel(frame, at, io);
        }
        let (start, end) = tunnelled.bounds();
        let bytes = &mut io.bytes(frame)[start..end];
        let Some(inner) = Header::read(bytes) else { return self.refuse(frame, Cause::InnerMalformed, io) };
        if inner.traffic_class & 3 == 0 {
            return self.refuse(frame, Cause::InnerNotCapable, io);
        }
        ip::mark(bytes);
        self.uplink_any(frame, tunnelled, at, io);
    }

    /// An IP packet for the user equipment; whether it was for one at all.
    #[inline(always)]
    pub(super) fn downlink(&mut self, is_local: bool, frame: Frame, at: Time, io: &mut impl Io) -> bool {
        match Header::read_usual(io.bytes(frame)) {
            Some(inner) => self.downlink_of(is_local, frame, inner, at, io),
            None => self.downlink_any(is_local, frame, at, io),
        }
    }

    #[inline(never)]
    fn downlink_any(&mut self, is_local: bool, frame: Frame, at: Time, io: &mut impl Io) -> bool {
        match Header::read(io.bytes(frame)) {
            Some(inner) => self.downlink_of(is_local, frame, inner, at, io),
            None => {
                self.refuse(frame, Cause::InnerMalformed, io);
                true
            }
        }
    }

    #[inline(always)]
    fn downlink_of(
        &mut self,
        is_local: bool,
        frame: Frame,
        inner: Header,
        at: Time,
        io: &mut impl Io,
    ) -> bool {
        let key = Key::new(&inner, false, is_local);
        let hash = flow_hash::of_header(self.setup.seed, &inner, false);
        let flow = Flow::new(&key, hash, inner.traffic_class, None);
        let packet = Frame { len: inner.len, ..frame };
        let Header { traffic_class: tos, hops, .. } = inner;
        let port = if is_local { LOCAL } else { CORE };
        let arrived = || Arrived { frame: packet, hash, tos, hops, at, port };
        if let Some((session, rule)) = self.recall(&flow) {
            if !self.express(session, rule, false, arrived(), (inner.is_v6, inner.destination), io) {
                self.matched(session, rule, false, arrived(), io);
            }
            return true;
        }
        let Ok((session, rule)) = self.look_up(flow, packet, false, None, is_local, io) else { return false };
        self.matched(session, rule, false, arrived(), io);
        true
    }

    #[cold]
    fn not_for_users(&mut self, port: usize, frame: Frame, at: Time, io: &mut impl Io) {
        self.about_neighbours(port, frame, at, io, Cause::NoUser);
    }
}

pub(super) fn address(is_v6: bool, address: u128) -> IpAddr {
    if is_v6 { Ipv6Addr::from(address).into() } else { Ipv4Addr::from(address as u32).into() }
}

/// The number of a tunnel's host.
pub(super) fn host_of(tunnel: &RemoteTunnel) -> u128 {
    number(tunnel.address)
}
