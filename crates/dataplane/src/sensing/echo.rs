//! Probes as ICMP echo requests (RFC 792, RFC 4443), for gateways that neither route packets back nor run a
//! reflector.
//!
//! The identifier is the nonce, the sequence number that of the probe, and eight bytes of data hold the
//! timestamp.

use weir_sense::probe::{Addresses, HOPS, Stamp, TIMESTAMP_BITS};
use weir_wire::icmp::{Echo, HEADER_LEN};
use weir_wire::ip::{Fragment, ICMP, ICMPV6, Packet};
use weir_wire::{TooShort, ipv4, ipv6};

/// Length of the timestamp behind the header of an echo request.
const DATA: usize = 8;
const MESSAGE: usize = HEADER_LEN + DATA;

/// Writes a request from its network header on; returns its length.
///
/// # Errors
///
/// If `packet` is shorter than that.
pub fn write(addresses: Addresses, stamp: Stamp, packet: &mut [u8]) -> Result<usize, TooShort> {
    let (traffic_class, payload_len) = (stamp.dscp << 2, MESSAGE as u16);
    let echo = Echo { is_reply: false, identifier: stamp.nonce, sequence: stamp.sequence };
    let at = match addresses {
        Addresses::V4 { source, destination } => ipv4::Header {
            traffic_class,
            payload_len,
            identification: stamp.sequence,
            hops: HOPS,
            protocol: ICMP,
            ..ipv4::Header::new(source, destination)
        }
        .write(packet)?,
        Addresses::V6 { source, destination } => ipv6::Header {
            traffic_class,
            payload_len,
            next_header: ICMPV6,
            hops: HOPS,
            ..ipv6::Header::new(source, destination)
        }
        .write(packet)?,
    };
    let message = packet.get_mut(at..at + MESSAGE).ok_or(TooShort)?;
    message[HEADER_LEN..].copy_from_slice(&stamp.sent.to_be_bytes());
    match addresses {
        Addresses::V4 { .. } => echo.write_v4(message)?,
        Addresses::V6 { source, destination } => echo.write_v6(source, destination, message)?,
    };
    Ok(at + MESSAGE)
}

/// Reads a reply to a request of this form, from its network header on.
pub fn reply(packet: &[u8]) -> Option<Stamp> {
    read(packet, true)
}

/// Reads a request of this form, as routers quote it.
pub fn request(packet: &[u8]) -> Option<Stamp> {
    read(packet, false)
}

fn read(packet: &[u8], is_reply: bool) -> Option<Stamp> {
    let packet = Packet::read(packet)?;
    let upper = packet.upper()?;
    let (is_v6, protocol, header) = match packet {
        Packet::V4(_) => (false, ICMP, ipv4::HEADER_MIN),
        Packet::V6(_) => (true, ICMPV6, ipv6::HEADER_LEN),
    };
    let is_plain = upper.fragment == Fragment::Whole && upper.offset == header;
    if !is_plain || upper.protocol != protocol || upper.payload.len() != MESSAGE {
        return None;
    }
    let echo = Echo::read(is_v6, upper.payload).filter(|echo| echo.is_reply == is_reply)?;
    let sent = u64::from_be_bytes(*upper.payload.last_chunk::<DATA>()?);
    let dscp = packet.traffic_class() >> 2;
    // What does not fit was not written by us, and differs from every timestamp that was.
    let is_ours = sent >> TIMESTAMP_BITS == 0;
    is_ours.then_some(Stamp { sequence: echo.sequence, nonce: echo.identifier, sent, dscp })
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
            let len = write(addresses, STAMP, &mut packet).unwrap();
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
            let message = len - MESSAGE;
            packet[message] = if addresses == v4 { 0 } else { 129 };
            assert_eq!(reply(&packet[..len]), Some(STAMP));
            for cut in 0..len {
                assert_eq!(reply(&packet[..cut]), None, "cut to {cut}");
            }
        }
    }
}
