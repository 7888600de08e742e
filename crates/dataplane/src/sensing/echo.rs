//! Probes as ICMP echo requests (RFC 792, RFC 4443), for gateways that neither route packets back nor run a reflector.
//!
//! The identifier is the nonce, the sequence number that of the probe, and eight bytes of data hold the timestamp.

use weir_sense::checksum::{finish, sum};
use weir_sense::probe::{Addresses, HOPS, Stamp, TIMESTAMP_BITS};

/// Length of an echo request before its data.
pub const HEADER: usize = 8;
const DATA: usize = 8;
const IPV4_HEADER: usize = 20;
const IPV6_HEADER: usize = 40;
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;
/// Type of a request and of a reply, by IP version.
const V4: (u8, u8) = (8, 0);
const V6: (u8, u8) = (128, 129);

/// Writes a request from its network header on; returns its length. The buffer must have room.
pub fn write(addresses: Addresses, stamp: Stamp, packet: &mut [u8]) -> usize {
    match addresses {
        Addresses::V4 { source, destination } => {
            let (ip, message) = packet[..IPV4_HEADER + HEADER + DATA].split_at_mut(IPV4_HEADER);
            ip.fill(0);
            (ip[0], ip[1], ip[6], ip[8], ip[9]) = (0x45, stamp.dscp << 2, 0x40, HOPS, ICMP);
            ip[2..4].copy_from_slice(&((IPV4_HEADER + HEADER + DATA) as u16).to_be_bytes());
            ip[4..6].copy_from_slice(&stamp.sequence.to_be_bytes());
            ip[12..16].copy_from_slice(&source);
            ip[16..20].copy_from_slice(&destination);
            let checksum = finish(sum(ip));
            ip[10..12].copy_from_slice(&checksum.to_be_bytes());
            write_message(V4.0, stamp, 0, message);
            IPV4_HEADER + HEADER + DATA
        }
        Addresses::V6 { source, destination } => {
            let (ip, message) = packet[..IPV6_HEADER + HEADER + DATA].split_at_mut(IPV6_HEADER);
            ip[..4].copy_from_slice(&(6 << 28 | u32::from(stamp.dscp) << 22).to_be_bytes());
            ip[4..6].copy_from_slice(&((HEADER + DATA) as u16).to_be_bytes());
            (ip[6], ip[7]) = (ICMPV6, HOPS);
            ip[8..24].copy_from_slice(&source);
            ip[24..40].copy_from_slice(&destination);
            let pseudo = sum(&ip[8..40]) + u64::from(ICMPV6) + (HEADER + DATA) as u64;
            write_message(V6.0, stamp, pseudo, message);
            IPV6_HEADER + HEADER + DATA
        }
    }
}

fn write_message(kind: u8, stamp: Stamp, pseudo: u64, message: &mut [u8]) {
    message[..HEADER].fill(0);
    message[0] = kind;
    message[4..6].copy_from_slice(&stamp.nonce.to_be_bytes());
    message[6..8].copy_from_slice(&stamp.sequence.to_be_bytes());
    message[HEADER..].copy_from_slice(&stamp.sent.to_be_bytes());
    let checksum = finish(pseudo + sum(message));
    message[2..4].copy_from_slice(&checksum.to_be_bytes());
}

/// Reads a reply to a request of this form, from its network header on.
pub fn reply(ip: &[u8]) -> Option<Stamp> {
    read(ip, V4.1, V6.1)
}

/// Reads a request of this form, as routers quote it.
pub fn request(ip: &[u8]) -> Option<Stamp> {
    read(ip, V4.0, V6.0)
}

fn read(ip: &[u8], v4: u8, v6: u8) -> Option<Stamp> {
    let (header, protocol, len, kind, class) = match ip.first()? >> 4 {
        4 => (IPV4_HEADER, *ip.get(9)?, be16(ip, 2)?, v4, u16::from(*ip.get(1)?) << 4),
        6 => (IPV6_HEADER, *ip.get(6)?, be16(ip, 4)?.saturating_add(IPV6_HEADER as u16), v6, be16(ip, 0)?),
        _ => return None,
    };
    let is_plain = header == IPV6_HEADER || (ip[0] == 0x45 && be16(ip, 6)? & 0x3fff == 0);
    let wanted = if header == IPV4_HEADER { ICMP } else { ICMPV6 };
    if !is_plain || protocol != wanted || usize::from(len) != header + HEADER + DATA {
        return None;
    }
    let message = ip.get(header..header + HEADER + DATA)?;
    if message[0] != kind || message[1] != 0 {
        return None;
    }
    let sent = u64::from_be_bytes(message[HEADER..].try_into().ok()?);
    let dscp = (class >> 6) as u8 & 0x3f;
    let (nonce, sequence) = (be16(message, 4)?, be16(message, 6)?);
    // What does not fit was not written by us, and differs from every timestamp that was.
    (sent >> TIMESTAMP_BITS == 0).then_some(Stamp { sequence, nonce, sent, dscp })
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAMP: Stamp = Stamp { sequence: 0x1234, nonce: 0xbeef, sent: 0x0102_0304_0506, dscp: 10 };

    #[test]
    fn requests_are_what_an_independent_reader_expects() {
        let v4 = Addresses::V4 { source: [10, 9, 0, 2], destination: [10, 9, 0, 1] };
        let v6 = Addresses::V6 { source: [0xfd; 16], destination: [0xfe; 16] };
        for addresses in [v4, v6] {
            let mut packet = [0xaa; 64];
            let len = write(addresses, STAMP, &mut packet);
            let wire = packet;
            let read = etherparse::SlicedPacket::from_ip(&wire[..len]).unwrap();
            let checksum_is_right = match read.transport.unwrap() {
                etherparse::TransportSlice::Icmpv4(m) => {
                    let (header, data) = (m.header(), m.payload());
                    header.icmp_type.calc_checksum(data) == header.checksum
                }
                etherparse::TransportSlice::Icmpv6(m) => {
                    m.is_checksum_valid(packet[8..24].try_into().unwrap(), packet[24..40].try_into().unwrap())
                }
                other => panic!("{other:?}"),
            };
            assert!(checksum_is_right);
            assert_eq!(request(&packet[..len]), Some(STAMP));
            assert_eq!(reply(&packet[..len]), None);
            let message = len - HEADER - DATA;
            packet[message] = if addresses == v4 { V4.1 } else { V6.1 };
            assert_eq!(reply(&packet[..len]), Some(STAMP));
            for cut in 0..len {
                assert_eq!(reply(&packet[..cut]), None, "cut to {cut}");
            }
        }
    }
}
