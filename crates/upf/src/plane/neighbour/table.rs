//! Who is on the links of the ports: ARP (RFC 826) and neighbour discovery (RFC 4861), as far as a router
//! needs them.

use crate::plane::rate_limit::RateLimit;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weir_units::{Duration, Time};
use weir_wire::ethernet::{self, MacAddr};
use weir_wire::nd::{Kind, NoMessage};
use weir_wire::{TooShort, arp, ip, nd};

/// Most neighbours that are known or asked for; more are not asked for.
pub const NEIGHBOURS_MAX: usize = 4096;
/// One is asked again after this, known or not.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// Neighbours that are not known are asked for at most so often, and so many at once. A scan of a prefix on
/// the link so neither floods it nor takes the places of packets that wait for others.
const ASK_EVERY: Duration = Duration::from_millis(10);
const ASK_BURST: Duration = Duration::from_millis(310);
/// What is known is confirmed after this.
const CONFIRM: Duration = Duration::from_secs(30);
/// What was not confirmed for this long is not known any more.
const FORGET: Duration = Duration::from_secs(120);
/// Longest question or answer.
pub const MESSAGE_MAX: usize = ethernet::HEADER_LEN + nd::LEN;

/// Somebody on a link.
#[derive(Clone, Copy, Debug)]
struct Neighbour {
    mac: Option<MacAddr>,
    confirmed: Time,
    asked: Option<Time>,
    is_fixed: bool,
}

/// What is known of the link of one port.
pub struct Link {
    mac: MacAddr,
    own: Vec<(IpAddr, u8)>,
    /// The number of the first of them, which most packets are for.
    first: Option<u128>,
    gateways: Vec<IpAddr>,
    known: HashMap<IpAddr, Neighbour>,
    /// Of questions for those that are not known.
    questions: RateLimit,
    /// What was found lately, so that most packets need no search.
    recent: Box<[Option<Recent>; RECENT]>,
}

#[derive(Clone, Copy)]
struct Recent {
    host: u128,
    addresses: ethernet::Addresses,
    until: Time,
}

/// Places for what was found lately, and how long it holds.
const RECENT: usize = 64;
const RECENT_FOR: Duration = Duration::from_millis(500);

/// An address of either family as a number (RFC 4291 section 2.5.5.2).
pub fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => ip::mapped(false, u128::from(u32::from(address))),
        IpAddr::V6(address) => u128::from(address),
    }
}

/// The address of a number.
pub fn address_of(number: u128) -> IpAddr {
    let address = Ipv6Addr::from(number);
    address.to_ipv4_mapped().map_or(address.into(), IpAddr::from)
}

/// What to do to reach somebody.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// Send to this interface.
    Known(MacAddr),
    /// Send there, and ask whether it still holds.
    Confirm(MacAddr, IpAddr),
    /// Ask for this address.
    Ask(IpAddr),
    /// It was asked for already.
    Wait,
    /// There is no way.
    Nowhere,
}

/// Whether an address has the first bits of another.
pub fn contains(own: IpAddr, length: u8, other: IpAddr) -> bool {
    match (own, other) {
        (IpAddr::V4(a), IpAddr::V4(b)) => {
            (u32::from(a) ^ u32::from(b)).checked_shr(32 - u32::from(length)).unwrap_or(0) == 0
        }
        (IpAddr::V6(a), IpAddr::V6(b)) => {
            (u128::from(a) ^ u128::from(b)).checked_shr(128 - u32::from(length)).unwrap_or(0) == 0
        }
        _ => false,
    }
}

impl Link {
    /// A link with nobody known but those that are given. Addresses are ours, with the length of the prefix
    /// on the link; all others go by a gateway of their family.
    pub fn new(mac: MacAddr, own: &[(IpAddr, u8)], gateways: &[IpAddr], fixed: &[(IpAddr, MacAddr)]) -> Link {
        let mut known = HashMap::with_capacity(NEIGHBOURS_MAX);
        for (address, mac) in fixed {
            let neighbour = Neighbour { mac: Some(*mac), confirmed: Time::ZERO, asked: None, is_fixed: true };
            known.insert(*address, neighbour);
        }
        let first = own.first().map(|(address, _)| number(*address));
        Link {
            mac,
            own: own.to_vec(),
            first,
            gateways: gateways.to_vec(),
            known,
            questions: RateLimit::new(ASK_EVERY, ASK_BURST, Time::ZERO),
            recent: Box::new([None; RECENT]),
        }
    }

    /// Our address of a family.
    pub fn own(&self, is_v6: bool) -> Option<IpAddr> {
        self.own.iter().map(|(address, _)| *address).find(|address| address.is_ipv6() == is_v6)
    }

    /// Whether an address is ours, by its number.
    #[inline]
    pub fn is_own_number(&self, host: u128) -> bool {
        self.first == Some(host) || self.is_other_number(host)
    }

    #[inline(never)]
    fn is_other_number(&self, host: u128) -> bool {
        self.own.iter().any(|(address, _)| number(*address) == host)
    }

    /// Whether an address is ours.
    pub fn is_own(&self, address: IpAddr) -> bool {
        self.own.iter().any(|(own, _)| *own == address)
    }

    /// The addresses in front of a packet to a host, if they were found lately.
    #[inline]
    pub fn recent(&self, host: u128, now: Time) -> Option<&ethernet::Addresses> {
        let place = &self.recent[host as usize % RECENT];
        let is_it = |recent: &&Recent| recent.host == host && now < recent.until;
        place.as_ref().filter(is_it).map(|recent| &recent.addresses)
    }

    /// How a host is reached, by its number.
    #[cold]
    pub fn search(&mut self, host: u128, now: Time) -> Reach {
        let reach = self.reach(address_of(host), now);
        if let Reach::Known(mac) | Reach::Confirm(mac, _) = reach {
            let addresses = ethernet::addresses(mac, self.mac);
            self.recent[host as usize % RECENT] = Some(Recent { host, addresses, until: now + RECENT_FOR });
        }
        reach
    }

    /// How a host is reached.
    pub fn reach(&mut self, host: IpAddr, now: Time) -> Reach {
        let is_near = self.known.contains_key(&host)
            || self.own.iter().any(|(own, length)| contains(*own, *length, host));
        let gateway = || self.gateways.iter().copied().find(|gateway| gateway.is_ipv6() == host.is_ipv6());
        let next = if is_near { Some(host) } else { gateway() };
        let Some(next) = next else { return Reach::Nowhere };
        if !self.known.contains_key(&next) && self.known.len() >= NEIGHBOURS_MAX {
            self.known.retain(|_, neighbour| neighbour.mac.is_some());
            if self.known.len() >= NEIGHBOURS_MAX {
                return Reach::Nowhere;
            }
        }
        let unknown = Neighbour { mac: None, confirmed: now, asked: None, is_fixed: false };
        let neighbour = self.known.entry(next).or_insert(unknown);
        let may_ask = neighbour.asked.is_none_or(|asked| now.since(asked) >= ASK_AGAIN);
        let age = now.since(neighbour.confirmed);
        if age >= FORGET && !neighbour.is_fixed {
            neighbour.mac = None;
        }
        match neighbour.mac {
            Some(mac) if neighbour.is_fixed || age < CONFIRM || !may_ask => Reach::Known(mac),
            _ if !may_ask => Reach::Wait,
            Some(mac) => {
                neighbour.asked = Some(now);
                Reach::Confirm(mac, next)
            }
            None if self.questions.allows(now) => {
                neighbour.asked = Some(now);
                Reach::Ask(next)
            }
            None => {
                self.known.remove(&next);
                Reach::Nowhere
            }
        }
    }

    /// Learns a neighbour's MAC address. Only those that were asked for are noted.
    fn learn(&mut self, address: IpAddr, mac: MacAddr, now: Time) -> Option<IpAddr> {
        let is_learnt = |n: &&mut Neighbour| !n.is_fixed && !ethernet::is_group(&mac);
        let neighbour = self.known.get_mut(&address).filter(is_learnt)?;
        neighbour.asked = None;
        (neighbour.mac, neighbour.confirmed) = (Some(mac), now);
        Some(address)
    }

    /// Writes the question for an address; the length of the frame. `None` without an address of its family,
    /// or if `out` is shorter than [`MESSAGE_MAX`].
    pub fn write_question(&self, out: &mut [u8], wanted: IpAddr) -> Option<usize> {
        match (wanted, self.own(wanted.is_ipv6())?) {
            (IpAddr::V4(wanted), IpAddr::V4(own)) => {
                let question = arp::Message {
                    operation: arp::REQUEST,
                    sender_mac: self.mac,
                    sender: own.octets(),
                    target_mac: [0; 6],
                    target: wanted.octets(),
                };
                self.write_arp(out, ethernet::BROADCAST, &question).ok()
            }
            (IpAddr::V6(wanted), IpAddr::V6(own)) => {
                let group = nd::solicited_group(wanted.octets());
                let question = nd::Message {
                    source: own.octets(),
                    destination: group,
                    kind: Kind::Solicitation,
                    target: wanted.octets(),
                    mac: Some(self.mac),
                };
                self.write_discovery(out, nd::group_mac(group), &question).ok()
            }
            _ => None,
        }
    }

    /// Reads a frame. What is about neighbours is noted, and answered where it asks for us; `None` for other
    /// frames, and for messages that RFC 4861 section 7.1 has discarded.
    pub fn take(&mut self, frame: &[u8], now: Time, answer: &mut [u8]) -> Option<NeighbourUpdate> {
        let header = ethernet::Header::read(frame)?;
        let body = &frame[ethernet::HEADER_LEN..];
        match header.ethertype {
            ethernet::ARP => Some(self.take_arp(body, now, answer).unwrap_or_default()),
            ethernet::IPV6 => self.take_discovery(header.source, body, now, answer),
            _ => None,
        }
    }

    fn take_arp(&mut self, body: &[u8], now: Time, answer: &mut [u8]) -> Option<NeighbourUpdate> {
        let message = arp::Message::read(body)?;
        let learnt = self.learn(Ipv4Addr::from(message.sender).into(), message.sender_mac, now);
        let is_asked =
            message.operation == arp::REQUEST && self.is_own(Ipv4Addr::from(message.target).into());
        let reply = arp::Message {
            operation: arp::REPLY,
            sender_mac: self.mac,
            sender: message.target,
            target_mac: message.sender_mac,
            target: message.sender,
        };
        let answered = is_asked.then(|| self.write_arp(answer, message.sender_mac, &reply).ok()).flatten();
        Some(NeighbourUpdate { learnt, answered })
    }

    /// `from` is who sent the frame.
    fn take_discovery(
        &mut self,
        from: MacAddr,
        packet: &[u8],
        now: Time,
        answer: &mut [u8],
    ) -> Option<NeighbourUpdate> {
        let message = match nd::Message::read(packet) {
            Ok(message) => message,
            Err(NoMessage::Other | NoMessage::Invalid) => return None,
        };
        let [source, target] = [message.source, message.target].map(Ipv6Addr::from);
        if message.kind != Kind::Solicitation {
            let learnt = message.mac.and_then(|mac| self.learn(target.into(), mac, now));
            return Some(NeighbourUpdate { learnt, answered: None });
        }
        let learnt = message.mac.and_then(|mac| self.learn(source.into(), mac, now));
        let is_asked = self.is_own(target.into()) && !source.is_unspecified();
        let reply = nd::Message {
            source: message.target,
            destination: message.source,
            kind: Kind::Advertisement { flags: nd::ROUTER | nd::SOLICITED | nd::OVERRIDE },
            target: message.target,
            mac: Some(self.mac),
        };
        let to = message.mac.unwrap_or(from);
        let answered = is_asked.then(|| self.write_discovery(answer, to, &reply).ok()).flatten();
        Some(NeighbourUpdate { learnt, answered })
    }

    fn write_arp(&self, out: &mut [u8], to: MacAddr, message: &arp::Message) -> Result<usize, TooShort> {
        let at = ethernet::write(out, &ethernet::addresses(to, self.mac), ethernet::ARP)?;
        Ok(at + message.write(&mut out[at..])?)
    }

    fn write_discovery(&self, out: &mut [u8], to: MacAddr, message: &nd::Message) -> Result<usize, TooShort> {
        let at = ethernet::write(out, &ethernet::addresses(to, self.mac), ethernet::IPV6)?;
        Ok(at + message.write(&mut out[at..])?)
    }
}

/// What a frame about neighbours told.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NeighbourUpdate {
    /// Whose MAC address is known now.
    pub learnt: Option<IpAddr>,
    /// Length of the answer that was written.
    pub answered: Option<usize>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: MacAddr = [2, 0, 0, 0, 0, 1];
    const OTHER: MacAddr = [2, 0, 0, 0, 0, 2];

    fn links(one: &str, other: &str, length: u8) -> (Link, Link, IpAddr) {
        let [a, b]: [IpAddr; 2] = [one.parse().unwrap(), other.parse().unwrap()];
        (Link::new(ONE, &[(a, length)], &[], &[]), Link::new(OTHER, &[(b, length)], &[], &[]), b)
    }

    #[test]
    fn two_find_each_other() {
        for (one, other, length) in [("10.0.0.1", "10.0.0.2", 24), ("fd00::1", "fd00::2", 64)] {
            let (mut one, mut other, wanted) = links(one, other, length);
            let now = Time::from_nanos(5);
            assert_eq!(one.reach(wanted, now), Reach::Ask(wanted));
            assert_eq!(one.reach(wanted, now), Reach::Wait);
            let (mut question, mut answer, mut none) = ([0; MESSAGE_MAX], [0; MESSAGE_MAX], [0; MESSAGE_MAX]);
            let len = one.write_question(&mut question, wanted).unwrap();
            let told = other.take(&question[..len], now, &mut answer).unwrap();
            let len = told.answered.unwrap();
            assert_eq!(one.take(&answer[..len], now, &mut none).unwrap().learnt, Some(wanted));
            assert_eq!(one.reach(wanted, now), Reach::Known(OTHER));
            let later = now + CONFIRM;
            assert_eq!(one.reach(wanted, later), Reach::Confirm(OTHER, wanted));
            assert_eq!(one.reach(wanted, later), Reach::Known(OTHER), "it was asked just now");
            assert_eq!(one.reach(wanted, now + FORGET), Reach::Ask(wanted), "nobody answers");
            for len in 0..answer.len() {
                let _ = one.take(&answer[..len], now, &mut none);
            }
        }
    }

    #[test]
    fn strangers_go_by_the_gateway_and_are_not_noted() {
        let gateway: IpAddr = "10.0.0.254".parse().unwrap();
        let fixed = [(gateway, OTHER)];
        let mut link = Link::new(ONE, &[("10.0.0.1".parse().unwrap(), 24)], &[gateway], &fixed);
        let far: IpAddr = "192.0.2.1".parse().unwrap();
        assert_eq!(link.reach(far, Time::ZERO), Reach::Known(OTHER));
        assert_eq!(link.reach("2001:db8::1".parse().unwrap(), Time::ZERO), Reach::Nowhere);
        let (mut other, _, _) = links("10.0.0.7", "10.0.0.8", 24);
        let mut question = [0; MESSAGE_MAX];
        let len = other.write_question(&mut question, "10.0.0.1".parse().unwrap()).unwrap();
        assert_eq!(
            other.reach("10.0.0.1".parse().unwrap(), Time::ZERO),
            Reach::Ask("10.0.0.1".parse().unwrap())
        );
        let told = link.take(&question[..len], Time::ZERO, &mut [0; MESSAGE_MAX]).unwrap();
        assert!(told.learnt.is_none() && told.answered.is_some());
        assert_eq!(link.known.len(), 1);
    }

    #[test]
    fn a_scan_is_not_asked_for_without_end() {
        let mut link = Link::new(ONE, &[("10.0.0.1".parse().unwrap(), 16)], &[], &[]);
        let host = |n: u32| IpAddr::from(Ipv4Addr::from(0x0a00_0000 + n));
        // A thousand strangers in each of ten seconds.
        let scanned =
            (0..10_000).map(|n| link.reach(host(n + 2), Time::from_nanos(u64::from(n) * 1_000_000)));
        let asked = scanned.filter(|reach| matches!(reach, Reach::Ask(_))).count();
        assert!((1000..=1032).contains(&asked), "{asked}");
        assert!(link.known.len() <= 1032, "{}", link.known.len());
        // Somebody else is asked for a little later.
        let later = Time::from_nanos(10_010_000_000);
        assert_eq!(link.reach(host(60_000), later), Reach::Ask(host(60_000)));
    }
}
