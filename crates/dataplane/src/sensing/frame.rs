//! Probes as Ethernet frames: made after a frame of data, and found among frames that come in.

use std::net::IpAddr;
use weir_config::{MacAddress, SenseConfig, SenseMode};
use weir_sense::probe::{Addresses, IPV4_LEN, IPV6_LEN, PROTOCOL, Probe, Stamp};
use weir_units::Bytes;
use weir_wire::dscp::Dscp;
use weir_wire::ip::{self, ICMP, ICMPV6};
use weir_wire::{TooShort, ethernet, frame, icmp, vlan};

use super::echo;

/// Longest frame with a probe: Ethernet header, two VLAN tags, IPv6, ICMPv6 echo with eight bytes.
pub const LONGEST: usize =
    ethernet::HEADER_LEN + vlan::TAGS_MAX * vlan::TAG_LEN + IPV6_LEN + icmp::HEADER_LEN;
/// The class of traffic that needs no AQM (RFC 3246).
pub const EXPEDITED: u8 = Dscp::EXPEDITED.number();

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
pub enum ProbeFrame {
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
        let echo = if self.mode == SenseMode::Icmp { icmp::HEADER_LEN } else { 0 };
        echo + if is_v6 { IPV6_LEN } else { IPV4_LEN }
    }

    /// Reads a frame that a probe may follow: IP of a class that is managed, for one card.
    #[inline]
    pub fn follows(&self, frame: &[u8]) -> Option<Data> {
        let head = frame::Head::read(frame)?;
        let to = head.destination();
        if ethernet::is_group(to) || self.gateway_mac.is_some_and(|mac| mac.0 != *to) {
            return None;
        }
        let data = match head.is_untagged_ipv4() {
            true => {
                let network = ethernet::HEADER_LEN;
                // A header that says more than there is must not pay for probes.
                let len = Bytes::new(head.ipv4_len().min(frame.len() - network) as u64);
                Data { network, len, dscp: head.ipv4_traffic_class() >> 2 }
            }
            false => {
                let frame::Peek { network, traffic_class, len } = frame::peek(frame)?;
                Data { network, len: Bytes::new(len as u64), dscp: traffic_class >> 2 }
            }
        };
        (data.dscp != EXPEDITED).then_some(data)
    }

    /// The probe that is to follow a packet; none while it is not known where probes may come from.
    #[cold]
    pub fn plan(&self, data: &Data, of: &[u8]) -> Option<Plan> {
        let own = self.sender(of.get(data.network..)?)?;
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

    /// Where a probe behind this packet comes from.
    fn sender(&self, packet: &[u8]) -> Option<IpAddr> {
        if self.address.is_some() {
            return self.address;
        }
        let fits = |own: &IpAddr| self.target.is_none_or(|target| target.is_ipv6() == own.is_ipv6());
        let seen = ip::source(packet).and_then(host).filter(fits);
        // Where there is data of both versions probes are IPv4, which are smaller.
        let keeps = |last: &IpAddr| last.is_ipv4() && !seen.is_some_and(|own| own.is_ipv4());
        self.last.filter(keeps).or(seen).or(self.last)
    }

    /// Writes the probe that follows `data` behind the Ethernet header of its frame; returns the frame's
    /// length.
    ///
    /// # Errors
    ///
    /// If `into` is shorter than that.
    pub fn write(
        &mut self,
        plan: &Plan,
        data: &Data,
        of: &[u8],
        stamp: Stamp,
        into: &mut [u8],
    ) -> Result<usize, TooShort> {
        let own = source(plan.addresses);
        let ethertype = if own.is_ipv6() { ethernet::IPV6 } else { ethernet::IPV4 };
        let gateway = self.gateway_mac.map(|mac| mac.0);
        let network = ethernet::write_like(into, of, data.network, gateway, ethertype)?;
        self.last = Some(own);
        let packet = &mut into[network..];
        let len = match self.mode {
            SenseMode::Icmp => echo::write(plan.addresses, stamp, packet)?,
            _ => Probe::new(plan.addresses, stamp).write(packet)?,
        };
        Ok(network + len)
    }

    /// Looks whether a frame that goes out is a probe of this form.
    pub fn own(&self, frame: &[u8]) -> Option<Stamp> {
        let packet = frame::packet(frame)?;
        let stamp = match self.mode {
            SenseMode::Icmp => echo::request(packet)?,
            _ => Probe::parse(packet).ok()?.stamp,
        };
        (stamp.nonce == self.nonce).then_some(stamp)
    }

    /// Looks whether a frame that came in answers a probe of this form.
    pub fn find(&self, frame: &[u8]) -> Option<ProbeFrame> {
        let packet = frame::packet(frame)?;
        match ip::Packet::read(packet)?.upper()?.protocol {
            PROTOCOL if self.mode != SenseMode::Icmp => self.find_reply(packet),
            ICMP | ICMPV6 => self.find_message(packet),
            _ => None,
        }
    }

    fn find_reply(&self, packet: &[u8]) -> Option<ProbeFrame> {
        let probe = Probe::parse(packet).ok().filter(Probe::has_bounced)?;
        let to = source(probe.addresses.reversed());
        // What has neither our address nor our nonce belongs to somebody behind us.
        (probe.stamp.nonce == self.nonce || self.is_own(to)).then_some(ProbeFrame::Reply(probe.stamp))
    }

    fn is_own(&self, address: IpAddr) -> bool {
        self.address == Some(address) || self.last == Some(address)
    }

    /// Echo replies, and messages of routers that quote a probe.
    fn find_message(&self, packet: &[u8]) -> Option<ProbeFrame> {
        if let Some(stamp) = echo::reply(packet) {
            let is_ours = self.mode == SenseMode::Icmp && stamp.nonce == self.nonce;
            return is_ours.then_some(ProbeFrame::Reply(stamp));
        }
        let quoted = icmp::quoted(packet)?;
        let stamp = match self.mode {
            SenseMode::Icmp => echo::request(quoted.packet)?,
            _ => Probe::parse(quoted.packet).ok()?.stamp,
        };
        let found = if quoted.is_redirect { ProbeFrame::Redirect } else { ProbeFrame::Refused };
        (stamp.nonce == self.nonce).then_some(found)
    }
}

/// Whether a frame carries neither probes nor messages of routers, as almost all do: it is read no further.
#[inline]
pub fn is_plain_data(frame: &[u8]) -> bool {
    match frame::untagged_protocol(frame) {
        Some((is_v6, protocol)) => protocol != PROTOCOL && protocol != if is_v6 { ICMPV6 } else { ICMP },
        None => false,
    }
}

/// An address that replies can be sent to.
fn host(address: IpAddr) -> Option<IpAddr> {
    let elsewhere = match address {
        IpAddr::V4(v4) => v4.is_link_local() || v4.is_broadcast(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    };
    (!elsewhere && !address.is_unspecified() && !address.is_multicast()).then_some(address)
}

fn source(addresses: Addresses) -> IpAddr {
    match addresses {
        Addresses::V4 { source, .. } => source.into(),
        Addresses::V6 { source, .. } => source.into(),
    }
}
