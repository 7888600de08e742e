//! What stands in front of a packet in a tunnel: IP, UDP and GTP-U.

use super::gtpu::{self, Way};
use super::packet::{IPV4_MIN, IPV6_LEN};
use crate::rules::RemoteTunnel;
use std::net::IpAddr;
use weir_sense::checksum::{finish, sum};

const UDP: u8 = 17;
const UDP_LEN: usize = 8;
/// Hops that a packet in a tunnel may go.
const HOPS: u8 = 64;
/// The longest: IPv6, UDP, and GTP-U with a PDU session container.
pub const OVERHEAD_MAX: usize = IPV6_LEN + UDP_LEN + gtpu::header_len(true);
/// Where GTP-U begins over IPv4, and what stands in front of most packets.
const GTPU_V4: usize = IPV4_MIN + UDP_LEN;
const USUAL: usize = GTPU_V4 + gtpu::header_len(true);

/// The way into a tunnel, with as much of the headers as is the same for all packets.
#[derive(Clone, Copy, Debug)]
pub struct Outer {
    /// Sum of what the checksum is of and is the same for all: the IPv4 header, or the pseudo-header of UDP over IPv6.
    partial: u32,
    /// Bits of the packet's traffic class octet that are copied, and those that are set.
    tos: (u8, u8),
    is_v6: bool,
    /// All headers, with a PDU session container; lengths, traffic class, QoS flow and checksums are filled in.
    head: [u8; OVERHEAD_MAX],
}

impl Outer {
    /// From an address of ours, of the family of the other end. `dscp` is the traffic class octet; without it that of the
    /// packet is copied. ECN always is (RFC 6040, normal mode).
    pub fn new(local: IpAddr, remote: RemoteTunnel, dscp: Option<u8>) -> Outer {
        let mut head = [0; OVERHEAD_MAX];
        let (is_v6, partial) = match (local, remote.address) {
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                (head[0], head[6], head[7]) = (0x60, UDP, HOPS);
                head[8..24].copy_from_slice(&from.octets());
                head[24..40].copy_from_slice(&to.octets());
                (true, sum(&head[8..40]) + u64::from(UDP))
            }
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                // Not to be fragmented, so that an identification is not needed (RFC 6864).
                head[..10].copy_from_slice(&[0x45, 0, 0, 0, 0, 0, 0x40, 0, HOPS, UDP]);
                head[12..16].copy_from_slice(&from.octets());
                head[16..20].copy_from_slice(&to.octets());
                (false, sum(&head[..IPV4_MIN]))
            }
            _ => unreachable!("an address of the family of the other end"),
        };
        let at = if is_v6 { IPV6_LEN } else { IPV4_MIN };
        head[at..at + 2].copy_from_slice(&gtpu::PORT.to_be_bytes());
        head[at + 2..at + 4].copy_from_slice(&remote.port.to_be_bytes());
        let gtpu = &mut head[at + UDP_LEN..][..gtpu::header_len(true)];
        gtpu::write_header(gtpu, remote.teid, Some((Way::Down, 0)), 0);
        let tos = dscp.map_or((0xff, 0), |dscp| (3, dscp & 0xfc));
        // Sums of at most twenty words.
        Outer { partial: partial as u32, tos, is_v6, head }
    }

    /// The number of its host.
    #[inline]
    pub fn host(&self) -> u128 {
        let address = |at: usize| u128::from_be_bytes(*self.head[at..].first_chunk().expect("it is within"));
        // The last four bytes of sixteen that end with the destination.
        let host = if self.is_v6 { address(24) } else { address(4) & u128::from(u32::MAX) };
        super::neighbours::number_of(self.is_v6, host)
    }

    /// Whether it is reached by IPv6.
    #[inline]
    pub fn is_v6(&self) -> bool {
        self.is_v6
    }

    /// Bytes in front of the payload of UDP.
    #[inline]
    fn head_len(&self) -> usize {
        if self.is_v6 { IPV6_LEN + UDP_LEN } else { IPV4_MIN + UDP_LEN }
    }

    /// Bytes in front of a packet, with a PDU session container or without.
    #[inline]
    pub fn overhead(&self, container: bool) -> usize {
        self.head_len() + gtpu::header_len(container)
    }

    /// Number of the tunnel.
    fn teid(&self) -> u32 {
        let at = self.head_len() + 4;
        u32::from_be_bytes(*self.head[at..].first_chunk().expect("it is within"))
    }

    /// The traffic class octet in front of a packet with this one.
    #[inline]
    fn tos(&self, inner_tos: u8) -> u8 {
        inner_tos & self.tos.0 | self.tos.1
    }

    /// Writes the headers in front of a packet that stands at the end of `out`, behind exactly [`Outer::overhead`] bytes.
    #[inline(always)]
    pub fn write(&self, out: &mut [u8], qfi: Option<u8>, inner_tos: u8) {
        match qfi {
            Some(qfi) if !self.is_v6 => self.write_usual(out, qfi, inner_tos),
            _ => self.write_any(out, qfi, inner_tos),
        }
    }

    /// Over IPv4, with a PDU session container.
    #[inline(always)]
    fn write_usual(&self, out: &mut [u8], qfi: u8, inner_tos: u8) {
        let len = out.len() as u16;
        let head: &mut [u8; USUAL] = out.first_chunk_mut().expect("whoever calls left room");
        head.copy_from_slice(&self.head[..USUAL]);
        let message = len - (GTPU_V4 + gtpu::HEADER) as u16;
        head[GTPU_V4 + 2..GTPU_V4 + 4].copy_from_slice(&message.to_be_bytes());
        head[GTPU_V4 + 14] = qfi & 0x3f;
        self.fill_v4(head, len, self.tos(inner_tos));
    }

    #[inline(never)]
    fn write_any(&self, out: &mut [u8], qfi: Option<u8>, inner_tos: u8) {
        let (head_len, overhead) = (self.head_len(), self.overhead(qfi.is_some()));
        let container = qfi.map(|qfi| (Way::Down, qfi));
        let len = (out.len() - overhead) as u16;
        gtpu::write_header(&mut out[head_len..overhead], self.teid(), container, len);
        self.write_head(out, inner_tos);
    }

    /// Writes IP and UDP header in front of a payload of UDP.
    pub fn write_head(&self, out: &mut [u8], inner_tos: u8) {
        let (len, tos) = (out.len() as u16, self.tos(inner_tos));
        if self.is_v6 {
            return self.head_v6(out, tos);
        }
        let head: &mut [u8; GTPU_V4] = out.first_chunk_mut().expect("whoever calls left room");
        head.copy_from_slice(&self.head[..GTPU_V4]);
        self.fill_v4(head, len, tos);
    }

    /// Fills in what differs between packets over IPv4.
    #[inline(always)]
    fn fill_v4(&self, head: &mut [u8], len: u16, tos: u8) {
        let head: &mut [u8; GTPU_V4] = head.first_chunk_mut().expect("whoever calls left room");
        head[1] = tos;
        head[2..4].copy_from_slice(&len.to_be_bytes());
        let checksum = finish(u64::from(self.partial) + u64::from(tos) + u64::from(len));
        head[10..12].copy_from_slice(&checksum.to_be_bytes());
        // No checksum of UDP: the packet has its own (TS 29.281 section 4.4.2.1 leaves it open).
        head[24..26].copy_from_slice(&(len - IPV4_MIN as u16).to_be_bytes());
    }

    fn head_v6(&self, out: &mut [u8], tos: u8) {
        let len = (out.len() - IPV6_LEN) as u16;
        out[..IPV6_LEN + UDP_LEN].copy_from_slice(&self.head[..IPV6_LEN + UDP_LEN]);
        (out[0], out[1]) = (0x60 | tos >> 4, tos << 4);
        out[4..6].copy_from_slice(&len.to_be_bytes());
        out[IPV6_LEN + 4..IPV6_LEN + 6].copy_from_slice(&len.to_be_bytes());
        let checksum = match finish(u64::from(self.partial) + u64::from(len) + sum(&out[IPV6_LEN..])) {
            0 => 0xffff,
            other => other,
        };
        out[IPV6_LEN + 6..IPV6_LEN + 8].copy_from_slice(&checksum.to_be_bytes());
    }
}

/// A datagram for the port of tunnels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Datagram {
    /// Who sent it.
    pub from: u128,
    /// Whom it is for.
    pub to: u128,
    /// Whether it came over IPv6.
    pub is_v6: bool,
    /// Traffic class of the outer header.
    pub tos: u8,
    /// Source port.
    pub port: u16,
    /// Where the payload of UDP begins and ends.
    pub start: usize,
    /// See `start`.
    pub end: usize,
}

/// Why an IP packet holds no message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoDatagram {
    /// Its headers contradict themselves or its length.
    Malformed,
    /// It is a fragment, and nothing is put together here.
    Fragment,
    /// It is something else than UDP for this port.
    Other,
    /// Its checksum is wrong, or missing over IPv6.
    Checksum,
}

/// Reads the outer headers of an IP packet.
#[inline(always)]
pub fn read(packet: &[u8]) -> Result<Datagram, NoDatagram> {
    let (from, to, is_v6, tos, at, end) = match packet.first().map(|first| first >> 4) {
        Some(4) => {
            let ip: &[u8; IPV4_MIN] = packet.first_chunk().ok_or(NoDatagram::Malformed)?;
            if ip[9] != UDP {
                return Err(NoDatagram::Other);
            }
            if u16::from_be_bytes([ip[6], ip[7]]) & 0x3fff != 0 {
                return Err(NoDatagram::Fragment);
            }
            let word =
                |at: usize| u128::from(u32::from_be_bytes([ip[at], ip[at + 1], ip[at + 2], ip[at + 3]]));
            let end = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
            (word(12), word(16), false, ip[1], usize::from(ip[0] & 15) * 4, end)
        }
        Some(6) => {
            let ip: &[u8; IPV6_LEN] = packet.first_chunk().ok_or(NoDatagram::Malformed)?;
            match ip[6] {
                UDP => {}
                44 => return Err(NoDatagram::Fragment),
                _ => return Err(NoDatagram::Other),
            }
            let word =
                |at: usize| u128::from_be_bytes(*ip[at..].first_chunk().expect("the header is long enough"));
            let tos = (u16::from_be_bytes([ip[0], ip[1]]) >> 4) as u8;
            let end = IPV6_LEN + usize::from(u16::from_be_bytes([ip[4], ip[5]]));
            (word(8), word(24), true, tos, IPV6_LEN, end)
        }
        _ => return Err(NoDatagram::Malformed),
    };
    let udp = packet.get(at..end).filter(|_| at >= IPV4_MIN).ok_or(NoDatagram::Malformed)?;
    let head: &[u8; UDP_LEN] = udp.first_chunk().ok_or(NoDatagram::Malformed)?;
    if u16::from_be_bytes([head[2], head[3]]) != gtpu::PORT {
        return Err(NoDatagram::Other);
    }
    let len = usize::from(u16::from_be_bytes([head[4], head[5]]));
    let udp = udp.get(..len).filter(|udp| udp.len() >= UDP_LEN).ok_or(NoDatagram::Malformed)?;
    if !has_right_checksum(packet, udp, is_v6) {
        return Err(NoDatagram::Checksum);
    }
    let port = u16::from_be_bytes([head[0], head[1]]);
    Ok(Datagram { from, to, is_v6, tos, port, start: at + UDP_LEN, end: at + len })
}

/// Over IPv4 there may be none; over IPv6 there must be one, because nothing else covers the addresses.
#[inline]
fn has_right_checksum(packet: &[u8], udp: &[u8], is_v6: bool) -> bool {
    if udp[6..8] == [0, 0] {
        return !is_v6;
    }
    let addresses = if is_v6 { &packet[8..40] } else { &packet[12..20] };
    finish(sum(addresses) + u64::from(UDP) + udp.len() as u64 + sum(udp)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::SlicedPacket;

    fn wrapped(remote: &str, dscp: Option<u8>, inner: &[u8], tos: u8) -> Vec<u8> {
        let remote = RemoteTunnel { teid: 0x1234_5678, address: remote.parse().unwrap(), port: 2152 };
        let local = if remote.address.is_ipv4() { "192.0.2.1" } else { "2001:db8::1" };
        let outer = Outer::new(local.parse().unwrap(), remote, dscp);
        let mut out = vec![0xff; outer.overhead(true)];
        out.extend(inner);
        outer.write(&mut out, Some(9), tos);
        out
    }

    #[test]
    fn tunnels_have_right_headers_over_both_families() {
        for (remote, overhead) in [("192.0.2.2", 44), ("2001:db8::2", 64)] {
            for len in [0, 1, 57, 1400] {
                let inner = vec![0xa7; len];
                let out = wrapped(remote, None, &inner, 0xba);
                assert_eq!(out.len(), overhead + len);
                let parsed = SlicedPacket::from_ip(&out).unwrap();
                assert!(matches!(parsed.transport, Some(etherparse::TransportSlice::Udp(_))));
                let found = read(&out).unwrap();
                assert_eq!((found.tos, found.end, found.port), (0xba, out.len(), gtpu::PORT));
                if !found.is_v6 {
                    assert_eq!(finish(sum(&out[..20])), 0);
                }
                let Ok(gtpu::Message::Packet(packet)) = gtpu::read(&out[found.start..]) else { panic!() };
                assert_eq!(&out[found.start + packet.start..], inner);
                assert_eq!(packet.container.map(|c| c.qfi), Some(9));
            }
        }
    }

    #[test]
    fn a_marking_leaves_ecn_alone() {
        assert_eq!(wrapped("192.0.2.2", Some(0xb8), &[0; 20], 0x2b)[1], 0xbb);
        assert_eq!(read(&wrapped("2001:db8::2", Some(0x28), &[0; 20], 0x02)).unwrap().tos, 0x2a);
    }

    #[test]
    fn what_is_no_message_is_told_apart() {
        let good = wrapped("2001:db8::2", None, &[7; 50], 0);
        let change = |at: usize, value: u8| {
            let mut bad = good.clone();
            bad[at] = value;
            read(&bad).unwrap_err()
        };
        assert_eq!(change(80, 0), NoDatagram::Checksum);
        assert_eq!(change(6, 6), NoDatagram::Other);
        assert_eq!(change(6, 44), NoDatagram::Fragment);
        assert_eq!(change(5, 200), NoDatagram::Malformed);
        let mut none = good.clone();
        none[46..48].fill(0);
        assert_eq!(read(&none), Err(NoDatagram::Checksum), "IPv6 needs one");
        let mut v4 = wrapped("192.0.2.2", None, &[7; 50], 0);
        v4[7] = 1;
        assert_eq!(read(&v4), Err(NoDatagram::Fragment));
        assert!((0..v4.len()).all(|len| read(&v4[..len]).is_err()));
    }
}
