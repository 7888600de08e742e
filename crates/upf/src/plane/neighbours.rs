//! Who is on the links of the ports: ARP (RFC 826) and neighbour discovery (RFC 4861), as far as a router needs them.

use super::packet::{ICMPV6, IPV6_LEN, icmp_v6_checksum};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weir_units::{Duration, Time};

/// An address on a link.
pub type Card = [u8; 6];

/// Where a frame goes, and where it comes from, as they stand in it.
pub type Cards = [u8; 12];

const BROADCAST: Card = [0xff; 6];
pub(super) const ETHERNET: usize = 14;
pub(super) const TYPE_IPV4: u16 = 0x0800;
pub(super) const TYPE_IPV6: u16 = 0x86dd;
const TYPE_ARP: u16 = 0x0806;
/// Most neighbours that are known or asked for; more are not asked for.
pub const NEIGHBOURS_MAX: usize = 4096;
/// One is asked again after this, known or not.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// What is known is confirmed after this.
const CONFIRM: Duration = Duration::from_secs(30);
/// What was not confirmed for this long is not known any more.
const FORGET: Duration = Duration::from_secs(120);
/// Longest question or answer.
pub const MESSAGE_MAX: usize = ETHERNET + IPV6_LEN + 32;

/// Somebody on a link.
#[derive(Clone, Copy, Debug)]
struct Neighbour {
    card: Option<Card>,
    confirmed: Time,
    asked: Option<Time>,
    is_fixed: bool,
}

/// What is known of the link of one port.
pub struct Link {
    card: Card,
    own: Vec<(IpAddr, u8)>,
    /// The number of the first of them, which most packets are for.
    first: Option<u128>,
    gateways: Vec<IpAddr>,
    known: HashMap<IpAddr, Neighbour>,
    /// What was found lately, so that most packets need no search.
    recent: Box<[Option<Recent>; RECENT]>,
}

#[derive(Clone, Copy)]
struct Recent {
    host: u128,
    cards: Cards,
    until: Time,
}

/// Places for what was found lately, and how long it holds.
const RECENT: usize = 64;
const RECENT_FOR: Duration = Duration::from_millis(500);

/// An address of either family as a number (RFC 4291 section 2.5.5.2).
pub fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => number_of(false, u128::from(u32::from(address))),
        IpAddr::V6(address) => u128::from(address),
    }
}

/// The same for an address as packets are read.
#[inline]
pub fn number_of(is_v6: bool, address: u128) -> u128 {
    if is_v6 { address } else { 0xffff_0000_0000 | address }
}

fn address_of(number: u128) -> IpAddr {
    let address = Ipv6Addr::from(number);
    address.to_ipv4_mapped().map_or(address.into(), IpAddr::from)
}

/// What to do to reach somebody.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// Send to this card.
    Known(Card),
    /// Send there, and ask whether it still holds.
    Confirm(Card, IpAddr),
    /// Ask for this address.
    Ask(IpAddr),
    /// It was asked for already.
    Wait,
    /// There is no way.
    Nowhere,
}

fn contains(own: IpAddr, length: u8, other: IpAddr) -> bool {
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
    /// A link with nobody known but those that are given. Addresses are ours, with the length of the prefix on the link;
    /// all others go by a gateway of their family.
    pub fn new(card: Card, own: &[(IpAddr, u8)], gateways: &[IpAddr], fixed: &[(IpAddr, Card)]) -> Link {
        let mut known = HashMap::with_capacity(NEIGHBOURS_MAX);
        for (address, card) in fixed {
            let neighbour =
                Neighbour { card: Some(*card), confirmed: Time::ZERO, asked: None, is_fixed: true };
            known.insert(*address, neighbour);
        }
        let first = own.first().map(|(address, _)| number(*address));
        Link {
            card,
            own: own.to_vec(),
            first,
            gateways: gateways.to_vec(),
            known,
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

    /// The card that a packet to a host goes to, if it was found lately.
    #[inline]
    pub fn recent(&self, host: u128, now: Time) -> Option<&Cards> {
        let place = &self.recent[host as usize % RECENT];
        place.as_ref().filter(|recent| recent.host == host && now < recent.until).map(|recent| &recent.cards)
    }

    /// How a host is reached, by its number.
    #[cold]
    pub fn search(&mut self, host: u128, now: Time) -> Reach {
        let reach = self.reach(address_of(host), now);
        if let Reach::Known(card) | Reach::Confirm(card, _) = reach {
            let cards = cards(card, self.card);
            self.recent[host as usize % RECENT] = Some(Recent { host, cards, until: now + RECENT_FOR });
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
            self.known.retain(|_, neighbour| neighbour.card.is_some());
            if self.known.len() >= NEIGHBOURS_MAX {
                return Reach::Nowhere;
            }
        }
        let unknown = Neighbour { card: None, confirmed: now, asked: None, is_fixed: false };
        let neighbour = self.known.entry(next).or_insert(unknown);
        let may_ask = neighbour.asked.is_none_or(|asked| now.since(asked) >= ASK_AGAIN);
        let age = now.since(neighbour.confirmed);
        if age >= FORGET && !neighbour.is_fixed {
            neighbour.card = None;
        }
        match neighbour.card {
            Some(card) if neighbour.is_fixed || age < CONFIRM || !may_ask => Reach::Known(card),
            _ if !may_ask => Reach::Wait,
            card => {
                neighbour.asked = Some(now);
                card.map_or(Reach::Ask(next), |card| Reach::Confirm(card, next))
            }
        }
    }

    /// Somebody told its card. Only those that were asked for are noted.
    fn learn(&mut self, address: IpAddr, card: Card, now: Time) -> Option<IpAddr> {
        let neighbour = self.known.get_mut(&address).filter(|n| !n.is_fixed && card[0] & 1 == 0)?;
        neighbour.asked = None;
        (neighbour.card, neighbour.confirmed) = (Some(card), now);
        Some(address)
    }

    /// Writes the question for an address; the length of the frame.
    pub fn write_question(&self, out: &mut [u8], wanted: IpAddr) -> Option<usize> {
        match (wanted, self.own(wanted.is_ipv6())?) {
            (IpAddr::V4(wanted), IpAddr::V4(own)) => {
                Some(write_arp(out, BROADCAST, 1, (self.card, own), ([0; 6], wanted)))
            }
            (IpAddr::V6(wanted), IpAddr::V6(own)) => {
                let last = wanted.octets();
                let card = [0x33, 0x33, 0xff, last[13], last[14], last[15]];
                let group = 0xff02_0000_0000_0000_0000_0001_ff00_0000 | u128::from(wanted) & 0xff_ffff;
                let message = Discovery { kind: SOLICITATION, flags: 0, wanted, option: 1, card: self.card };
                Some(message.write(out, card, own, Ipv6Addr::from(group)))
            }
            _ => None,
        }
    }

    /// Reads a frame. What is about neighbours is noted, and answered where it asks for us; `None` for other frames.
    pub fn take(&mut self, frame: &[u8], now: Time, answer: &mut [u8]) -> Option<Told> {
        match u16::from_be_bytes([*frame.get(12)?, *frame.get(13)?]) {
            TYPE_ARP => Some(self.take_arp(&frame[ETHERNET..], now, answer).unwrap_or_default()),
            TYPE_IPV6 => self.take_discovery(frame, now, answer),
            _ => None,
        }
    }

    fn take_arp(&mut self, arp: &[u8], now: Time, answer: &mut [u8]) -> Option<Told> {
        // Ethernet and IPv4, six and four octets.
        let arp: &[u8; 28] = arp.first_chunk()?;
        if arp[..6] != [0, 1, 8, 0, 6, 4] {
            return None;
        }
        let sender: Card = arp[8..14].try_into().ok()?;
        let [from, wanted] = [14, 24].map(|at| Ipv4Addr::new(arp[at], arp[at + 1], arp[at + 2], arp[at + 3]));
        let learnt = self.learn(from.into(), sender, now);
        let answered = match u16::from_be_bytes([arp[6], arp[7]]) {
            1 if self.is_own(wanted.into()) => {
                Some(write_arp(answer, sender, 2, (self.card, wanted), (sender, from)))
            }
            _ => None,
        };
        Some(Told { learnt, answered })
    }

    fn take_discovery(&mut self, frame: &[u8], now: Time, answer: &mut [u8]) -> Option<Told> {
        let ip = &frame[ETHERNET..];
        let end = IPV6_LEN + usize::from(u16::from_be_bytes([*ip.get(4)?, *ip.get(5)?]));
        let packet = ip.get(..end)?;
        // A hop limit of 255 says that it comes from this link (RFC 4861 section 7.1).
        if packet[6] != ICMPV6 || packet[7] != 255 || packet.len() < IPV6_LEN + 24 {
            return None;
        }
        let message = &packet[IPV6_LEN..];
        if !matches!(message[0], SOLICITATION | ADVERTISEMENT) {
            return None;
        }
        if icmp_v6_checksum(packet) != 0 {
            return Some(Told::default());
        }
        let address = |bytes: &[u8]| Some(Ipv6Addr::from(*bytes.first_chunk::<16>()?));
        let (from, wanted) = (address(&packet[8..])?, address(&message[8..])?);
        let card = option(&message[24..], if message[0] == SOLICITATION { 1 } else { 2 });
        if message[0] == ADVERTISEMENT {
            let learnt = card.and_then(|card| self.learn(wanted.into(), card, now));
            return Some(Told { learnt, answered: None });
        }
        let learnt = card.and_then(|card| self.learn(from.into(), card, now));
        let asked = self.is_own(wanted.into()) && !from.is_unspecified();
        let sender: Card = frame[6..12].try_into().ok()?;
        let answered = asked.then(|| {
            let advertisement =
                Discovery { kind: ADVERTISEMENT, flags: 0xe0, wanted, option: 2, card: self.card };
            advertisement.write(answer, card.unwrap_or(sender), wanted, from)
        });
        Some(Told { learnt, answered })
    }
}

/// What a frame about neighbours told.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Told {
    /// Whose card is known now.
    pub learnt: Option<IpAddr>,
    /// Length of the answer that was written.
    pub answered: Option<usize>,
}

/// Begins a frame.
#[inline]
pub fn write_ethernet(out: &mut [u8], cards: &Cards, kind: u16) {
    let head: &mut [u8; ETHERNET] = out.first_chunk_mut().expect("there is room for a header");
    head[..12].copy_from_slice(cards);
    head[12..].copy_from_slice(&kind.to_be_bytes());
}

fn cards(to: Card, from: Card) -> Cards {
    let mut cards = [0; 12];
    cards[..6].copy_from_slice(&to);
    cards[6..].copy_from_slice(&from);
    cards
}

/// What a header says of the family.
#[inline]
pub fn kind_of(is_v6: bool) -> u16 {
    if is_v6 { TYPE_IPV6 } else { TYPE_IPV4 }
}

fn write_arp(
    out: &mut [u8],
    to: Card,
    operation: u16,
    own: (Card, Ipv4Addr),
    other: (Card, Ipv4Addr),
) -> usize {
    write_ethernet(out, &cards(to, own.0), TYPE_ARP);
    let arp = &mut out[ETHERNET..ETHERNET + 28];
    arp[..6].copy_from_slice(&[0, 1, 8, 0, 6, 4]);
    arp[6..8].copy_from_slice(&operation.to_be_bytes());
    for (at, (card, address)) in [(8, own), (18, other)] {
        arp[at..at + 6].copy_from_slice(&card);
        arp[at + 6..at + 10].copy_from_slice(&address.octets());
    }
    ETHERNET + 28
}

const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;

struct Discovery {
    kind: u8,
    flags: u8,
    wanted: Ipv6Addr,
    option: u8,
    card: Card,
}

impl Discovery {
    fn write(&self, out: &mut [u8], to: Card, from: Ipv6Addr, destination: Ipv6Addr) -> usize {
        write_ethernet(out, &cards(to, self.card), TYPE_IPV6);
        let packet = &mut out[ETHERNET..MESSAGE_MAX];
        packet[..8].copy_from_slice(&[0x60, 0, 0, 0, 0, 32, ICMPV6, 255]);
        packet[8..24].copy_from_slice(&from.octets());
        packet[24..40].copy_from_slice(&destination.octets());
        packet[40..48].copy_from_slice(&[self.kind, 0, 0, 0, self.flags, 0, 0, 0]);
        packet[48..64].copy_from_slice(&self.wanted.octets());
        packet[64..66].copy_from_slice(&[self.option, 1]);
        packet[66..72].copy_from_slice(&self.card);
        let checksum = icmp_v6_checksum(packet);
        packet[42..44].copy_from_slice(&checksum.to_be_bytes());
        MESSAGE_MAX
    }
}

/// The card in the option of a kind.
fn option(mut options: &[u8], wanted: u8) -> Option<Card> {
    while let [kind, units, ..] = options {
        let len = usize::from(*units) * 8;
        let option = options.get(..len).filter(|option| !option.is_empty())?;
        if *kind == wanted {
            return option[2..8].try_into().ok();
        }
        options = &options[len..];
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Card = [2, 0, 0, 0, 0, 1];
    const OTHER: Card = [2, 0, 0, 0, 0, 2];

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
}
