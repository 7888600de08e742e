//! Probes as Ethernet frames: made after a frame of data, and found among frames that come in.

use crate::headers::{ETHERTYPE_IPV4, ETHERTYPE_IPV6, network_of};
use std::net::IpAddr;
use weir_scenario::{MacAddress, SenseConfig, SenseMode};
use weir_sense::probe::{Addresses, PROTOCOL, Probe, Stamp};
use weir_units::Bytes;

use super::echo;

const ETHERNET: usize = 14;
const IPV4_HEADER: usize = 20;
/// The shortest frame with a header of IP.
const HEAD: usize = ETHERNET + IPV4_HEADER;
const IPV6_HEADER: usize = 40;
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;
/// Longest frame with a probe: Ethernet header, two VLAN tags, IPv6, ICMPv6 echo with eight bytes.
pub const LONGEST: usize = 14 + 8 + 40 + 16;
/// The class of traffic that needs no AQM (RFC 3246).
pub const EXPEDITED: u8 = 46;

/// A frame of data, as far as its probe needs it.
#[derive(Clone, Copy, Debug)]
pub struct Data {
    /// Offset of the network header.
    network: usize,
    /// Length of the IP packet.
    pub len: Bytes,
    /// Class: the upper six bits of the traffic class octet.
    pub dscp: u8,
}

/// A probe about to be sent.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    addresses: Addresses,
    /// Its length as an IP packet.
    pub len: usize,
}

/// What came in that has to do with probes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// A reply, or what pretends to be one.
    Reply(Stamp),
    /// A router tells of a shorter way for a probe.
    Redirect,
    /// A router or host tells that it does not pass a probe on.
    Refused,
}

/// What probes look like.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    mode: SenseMode,
    address: Option<IpAddr>,
    target: Option<IpAddr>,
    gateway_mac: Option<MacAddress>,
    nonce: u16,
    /// Whence the last probe went.
    last: Option<IpAddr>,
}

impl Form {
    /// As configured; probes carry `nonce`.
    pub fn new(config: &SenseConfig, nonce: u16) -> Form {
        let SenseConfig { mode, address, target, gateway_mac, .. } = *config;
        Form { mode, address, target, gateway_mac, nonce, last: None }
    }

    /// Length of the first probe as an IP packet, as far as can be said before there is data.
    pub fn first_len(&self) -> usize {
        self.len(self.address.or(self.target).is_some_and(|a| a.is_ipv6()))
    }

    fn len(&self, is_v6: bool) -> usize {
        let echo = if self.mode == SenseMode::Icmp { echo::HEADER } else { 0 };
        echo + if is_v6 { IPV6_HEADER + 8 } else { IPV4_HEADER + 8 }
    }

    /// Reads a frame that a probe may follow: IP of a class that is managed, for one card.
    #[inline]
    pub fn follows(&self, frame: &[u8]) -> Option<Data> {
        let head = frame.first_chunk::<HEAD>()?;
        let to = head.first_chunk::<6>()?;
        if to[0] & 1 != 0 || self.gateway_mac.is_some_and(|mac| mac.0 != *to) {
            return None;
        }
        // Almost all frames are IP without tags: those of IPv4 are read without a search for the header.
        let data = match be16(head, ETHERNET - 2) {
            ETHERTYPE_IPV4 if head[ETHERNET] >> 4 == 4 => {
                // A header that says more than there is must not pay for probes.
                let len = u64::from(be16(head, ETHERNET + 2)).min((frame.len() - ETHERNET) as u64);
                Data { network: ETHERNET, len: Bytes::new(len), dscp: head[ETHERNET + 1] >> 2 }
            }
            _ => read_data(frame)?,
        };
        (data.dscp != EXPEDITED).then_some(data)
    }

    /// The probe that is to follow a packet; none while it is not known where probes may come from.
    #[cold]
    pub fn plan(&self, data: &Data, of: &[u8]) -> Option<Plan> {
        let own = self.own(&of[data.network..])?;
        let addresses = match (own, self.target.unwrap_or(own)) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                Addresses::V4 { source: from.octets(), destination: to.octets() }
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                Addresses::V6 { source: from.octets(), destination: to.octets() }
            }
            _ => return None,
        };
        Some(Plan { addresses, len: self.len(own.is_ipv6()) })
    }

    /// Where a probe behind this packet comes from. The packet has a whole header of the version that it says.
    fn own(&self, ip: &[u8]) -> Option<IpAddr> {
        if self.address.is_some() {
            return self.address;
        }
        let source = if ip[0] >> 4 == 4 { v4(ip, 12) } else { v6(ip, 8) };
        let fits = |own: &IpAddr| self.target.is_none_or(|target| target.is_ipv6() == own.is_ipv6());
        let seen = host(source).filter(fits);
        // Where there is data of both versions probes are IPv4, which are smaller.
        let keeps = |last: &IpAddr| last.is_ipv4() && !seen.is_some_and(|own| own.is_ipv4());
        self.last.filter(keeps).or(seen).or(self.last)
    }

    /// Writes the probe that follows `data` behind the Ethernet header of its frame; returns the frame's length.
    pub fn write(&mut self, plan: &Plan, data: &Data, of: &[u8], stamp: Stamp, into: &mut [u8]) -> usize {
        let (network, addresses) = (data.network, plan.addresses);
        into[..network].copy_from_slice(&of[..network]);
        if let Some(mac) = self.gateway_mac {
            into[..6].copy_from_slice(&mac.0);
        }
        let own = source(addresses);
        let ethertype = if own.is_ipv6() { ETHERTYPE_IPV6 } else { ETHERTYPE_IPV4 };
        into[network - 2..network].copy_from_slice(&ethertype.to_be_bytes());
        self.last = Some(own);
        let ip = &mut into[network..];
        let len = match self.mode {
            SenseMode::Icmp => echo::write(addresses, stamp, ip),
            _ => Probe::new(addresses, stamp).write(ip).expect("a frame has room for a probe"),
        };
        network + len
    }

    /// Looks whether a frame that came in answers a probe of this form.
    pub fn find(&self, frame: &[u8]) -> Option<Found> {
        let (network, ethertype) = network_of(frame)?;
        let ip = &frame[network..];
        let protocol = match ethertype {
            ETHERTYPE_IPV4 => *ip.get(9)?,
            ETHERTYPE_IPV6 => *ip.get(6)?,
            _ => return None,
        };
        match protocol {
            PROTOCOL if self.mode != SenseMode::Icmp => self.find_reply(ip),
            ICMP | ICMPV6 => self.find_message(ip),
            _ => None,
        }
    }

    fn find_reply(&self, ip: &[u8]) -> Option<Found> {
        let probe = Probe::parse(ip).ok().filter(Probe::has_bounced)?;
        let to = source(probe.addresses.reversed());
        // What has neither our address nor our nonce belongs to somebody behind us.
        (probe.stamp.nonce == self.nonce || self.is_own(to)).then_some(Found::Reply(probe.stamp))
    }

    fn is_own(&self, address: IpAddr) -> bool {
        self.address == Some(address) || self.last == Some(address)
    }

    /// Echo replies, and messages of routers that quote a probe.
    fn find_message(&self, ip: &[u8]) -> Option<Found> {
        if let Some(stamp) = echo::reply(ip) {
            let is_ours = self.mode == SenseMode::Icmp && stamp.nonce == self.nonce;
            return is_ours.then_some(Found::Reply(stamp));
        }
        let (quoted, found) = quoted(ip)?;
        let stamp = match self.mode {
            SenseMode::Icmp => echo::request(quoted)?,
            _ => Probe::parse(quoted).ok()?.stamp,
        };
        (stamp.nonce == self.nonce).then_some(found)
    }
}

/// Whether a frame carries neither probes nor messages of routers, as almost all do: it is read no further.
#[inline]
pub fn is_plain_data(frame: &[u8]) -> bool {
    let Some(head) = frame.first_chunk::<HEAD>() else { return false };
    match be16(head, ETHERNET - 2) {
        ETHERTYPE_IPV4 => !matches!(head[ETHERNET + 9], PROTOCOL | ICMP),
        ETHERTYPE_IPV6 => !matches!(head[ETHERNET + 6], PROTOCOL | ICMPV6),
        _ => false,
    }
}

/// Reads any frame with data of IP: behind tags, too.
#[inline(never)]
fn read_data(frame: &[u8]) -> Option<Data> {
    let (network, ethertype) = network_of(frame)?;
    let ip = &frame[network..];
    let (dscp, len) = match ethertype {
        ETHERTYPE_IPV4 if ip.len() >= IPV4_HEADER && ip[0] >> 4 == 4 => (ip[1] >> 2, be16(ip, 2)),
        ETHERTYPE_IPV6 if ip.len() >= IPV6_HEADER && ip[0] >> 4 == 6 => {
            ((be16(ip, 0) >> 6) as u8 & 0x3f, be16(ip, 4).saturating_add(IPV6_HEADER as u16))
        }
        _ => return None,
    };
    // A header that says more than there is must not pay for probes.
    let len = Bytes::new(u64::from(len).min(ip.len() as u64));
    Some(Data { network, len, dscp })
}

/// An address that replies can be sent to.
fn host(address: IpAddr) -> Option<IpAddr> {
    let elsewhere = match address {
        IpAddr::V4(v4) => v4.is_link_local() || v4.is_broadcast(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    };
    (!elsewhere && !address.is_unspecified() && !address.is_multicast()).then_some(address)
}

fn v4(ip: &[u8], at: usize) -> IpAddr {
    let mut octets = [0; 4];
    octets.copy_from_slice(&ip[at..at + 4]);
    octets.into()
}

fn v6(ip: &[u8], at: usize) -> IpAddr {
    let mut octets = [0; 16];
    octets.copy_from_slice(&ip[at..at + 16]);
    octets.into()
}

fn source(addresses: Addresses) -> IpAddr {
    match addresses {
        Addresses::V4 { source, .. } => source.into(),
        Addresses::V6 { source, .. } => source.into(),
    }
}

fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// The packet that a message of a router quotes, and what the message says of it.
fn quoted(ip: &[u8]) -> Option<(&[u8], Found)> {
    const QUOTE: usize = 8;
    if ip[0] >> 4 == 4 {
        let message = ip.get(usize::from(ip[0] & 15) * 4..)?;
        // RFC 792: unreachable 3, redirect 5, time exceeded 11.
        let found = match *message.first()? {
            5 => Found::Redirect,
            3 | 11 => Found::Refused,
            _ => return None,
        };
        return Some((message.get(QUOTE..)?, found));
    }
    let message = ip.get(IPV6_HEADER..)?;
    match *message.first()? {
        // RFC 4443: unreachable 1, time exceeded 3, parameter problem 4.
        1 | 3 | 4 => Some((message.get(QUOTE..)?, Found::Refused)),
        137 => Some((redirected_header(message)?, Found::Redirect)),
        _ => None,
    }
}

/// The packet in the option "Redirected Header" of an ICMPv6 redirect (RFC 4861 section 4.6.3).
fn redirected_header(message: &[u8]) -> Option<&[u8]> {
    const OPTIONS: usize = 40;
    let mut options = message.get(OPTIONS..)?;
    loop {
        let len = usize::from(*options.get(1)?) * 8;
        if len == 0 {
            return None;
        }
        if options[0] == 4 {
            return options.get(8..len);
        }
        options = options.get(len..)?;
    }
}
