//! A probe as it travels.
//!
//! | | IPv4 | IPv6 |
//! | --- | --- | --- |
//! | length | 20 + 8 bytes, no options, don't fragment | 40 + 8 bytes, no extension headers |
//! | protocol | 253 (RFC 3692: for experiments) | the same |
//! | sequence | identification | upper 16 bits of the payload |
//! | nonce | upper 16 bits of the payload | lower 16 bits of the flow label |
//! | timestamp | lower 48 bits of the payload, in ns | the same |
//!
//! A flow label that changed from probe to probe would send them through different queues wherever labels are
//! hashed, so on IPv6 the label carries what stays the same and the payload what changes.
//!
//! The ECN field is zero, or a queue below that marks would mark the probe where it discards data.

use weir_wire::ip::Packet;
use weir_wire::{TooShort, ip, ipv4, ipv6};

/// The protocol number of probes, set aside for experiments by RFC 3692.
pub const PROTOCOL: u8 = ip::EXPERIMENT;

/// Time to live or hop limit of a probe when it is sent. One that was bounced has less.
pub const HOPS: u8 = 64;

/// Length of an IPv4 probe in bytes.
pub const IPV4_LEN: usize = ipv4::HEADER_MIN + PAYLOAD;

/// Length of an IPv6 probe in bytes.
pub const IPV6_LEN: usize = ipv6::HEADER_LEN + PAYLOAD;

/// Bits of the timestamp that travel; it wraps after three days.
pub const TIMESTAMP_BITS: u32 = 48;

const PAYLOAD: usize = 8;

/// Where a probe goes from and to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Addresses {
    /// IPv4 addresses, as in the header.
    V4 {
        /// Source.
        source: [u8; 4],
        /// Destination.
        destination: [u8; 4],
    },
    /// IPv6 addresses, as in the header.
    V6 {
        /// Source.
        source: [u8; 16],
        /// Destination.
        destination: [u8; 16],
    },
}

impl Addresses {
    /// The way back: source and destination exchanged.
    pub const fn reversed(self) -> Addresses {
        match self {
            Addresses::V4 { source, destination } => {
                Addresses::V4 { source: destination, destination: source }
            }
            Addresses::V6 { source, destination } => {
                Addresses::V6 { source: destination, destination: source }
            }
        }
    }

    /// Length of a probe between these addresses in bytes.
    pub const fn probe_len(&self) -> usize {
        match self {
            Addresses::V4 { .. } => IPV4_LEN,
            Addresses::V6 { .. } => IPV6_LEN,
        }
    }
}

/// What tells one probe from all others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp {
    /// Its number, modulo 65536.
    pub sequence: u16,
    /// A secret of its sender, against forged replies.
    pub nonce: u16,
    /// The low [`TIMESTAMP_BITS`] of the time of sending in nanoseconds on the sender's clock.
    pub sent: u64,
    /// The class it was sent in: the upper six bits of the traffic class octet.
    pub dscp: u8,
}

/// A probe: a stamp between two addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Probe {
    /// Where from and where to.
    pub addresses: Addresses,
    /// Time to live or hop limit.
    pub hops: u8,
    /// What it carries.
    pub stamp: Stamp,
}

/// Why bytes are not a probe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotAProbe {
    /// No whole IPv4 or IPv6 packet.
    NotIp,
    /// Another protocol, IP options or extension headers.
    OtherProtocol,
    /// The length in the header is not that of a probe.
    OtherLength,
    /// A fragment.
    Fragment,
    /// A flow label of more bits than a nonce has.
    FlowLabel,
    /// The checksum of the header is wrong.
    Checksum,
}

impl Probe {
    /// A probe about to be sent.
    pub const fn new(addresses: Addresses, stamp: Stamp) -> Probe {
        Probe { addresses, hops: HOPS, stamp }
    }

    /// Whether it passed at least one router: a socket on the wire also sees the probes it sends.
    pub const fn has_bounced(&self) -> bool {
        self.hops < HOPS
    }

    /// Writes the packet from its network header on; returns its length.
    ///
    /// # Errors
    ///
    /// If `buffer` is shorter than [`Addresses::probe_len`].
    pub fn write(&self, buffer: &mut [u8]) -> Result<usize, TooShort> {
        let len = self.addresses.probe_len();
        let packet = buffer.get_mut(..len).ok_or(TooShort)?;
        let s = &self.stamp;
        match self.addresses {
            Addresses::V4 { source, destination } => {
                let header = ipv4::Header {
                    traffic_class: s.dscp << 2,
                    payload_len: PAYLOAD as u16,
                    identification: s.sequence,
                    hops: self.hops,
                    protocol: PROTOCOL,
                    ..ipv4::Header::new(source, destination)
                };
                let at = header.write(packet)?;
                packet[at..].copy_from_slice(&payload(s.nonce, s.sent));
            }
            Addresses::V6 { source, destination } => {
                let header = ipv6::Header {
                    traffic_class: s.dscp << 2,
                    flow_label: u32::from(s.nonce),
                    payload_len: PAYLOAD as u16,
                    next_header: PROTOCOL,
                    hops: self.hops,
                    ..ipv6::Header::new(source, destination)
                };
                let at = header.write(packet)?;
                packet[at..].copy_from_slice(&payload(s.sequence, s.sent));
            }
        }
        Ok(len)
    }

    /// Reads a packet from its network header on. Bytes behind it, as Ethernet pads short frames, are
    /// ignored.
    ///
    /// # Errors
    ///
    /// Says why it is not a probe. What comes from the wire is not to be trusted: a probe that is well formed
    /// may still be forged, which only the [`Sensor`](super::Sensor) that sent it can tell.
    pub fn parse(packet: &[u8]) -> Result<Probe, NotAProbe> {
        match Packet::read(packet).ok_or(NotAProbe::NotIp)? {
            Packet::V4(packet) => of_v4(&packet),
            Packet::V6(packet) => of_v6(&packet),
        }
    }
}

fn of_v4(packet: &ipv4::Packet<'_>) -> Result<Probe, NotAProbe> {
    if packet.header_len() != ipv4::HEADER_MIN || packet.protocol() != PROTOCOL {
        return Err(NotAProbe::OtherProtocol);
    }
    let (nonce, sent) = open_payload(packet.payload())?;
    if packet.is_fragment() {
        return Err(NotAProbe::Fragment);
    }
    if !packet.has_right_checksum() {
        return Err(NotAProbe::Checksum);
    }
    let addresses = Addresses::V4 { source: packet.source(), destination: packet.destination() };
    let sequence = packet.header().identification;
    let stamp = Stamp { sequence, nonce, sent, dscp: packet.traffic_class() >> 2 };
    Ok(Probe { addresses, hops: packet.hops(), stamp })
}

fn of_v6(packet: &ipv6::Packet<'_>) -> Result<Probe, NotAProbe> {
    if packet.next_header() != PROTOCOL {
        return Err(NotAProbe::OtherProtocol);
    }
    let (sequence, sent) = open_payload(packet.payload())?;
    let addresses = Addresses::V6 { source: packet.source(), destination: packet.destination() };
    let nonce = u16::try_from(packet.flow_label()).map_err(|_| NotAProbe::FlowLabel)?;
    let stamp = Stamp { sequence, nonce, sent, dscp: packet.traffic_class() >> 2 };
    Ok(Probe { addresses, hops: packet.hops(), stamp })
}

fn payload(upper: u16, sent: u64) -> [u8; PAYLOAD] {
    let low = sent & ((1 << TIMESTAMP_BITS) - 1);
    (u64::from(upper) << TIMESTAMP_BITS | low).to_be_bytes()
}

/// The upper 16 bits of a payload, and the timestamp.
fn open_payload(payload: &[u8]) -> Result<(u16, u64), NotAProbe> {
    let word = u64::from_be_bytes(payload.try_into().map_err(|_| NotAProbe::OtherLength)?);
    Ok(((word >> TIMESTAMP_BITS) as u16, word & ((1 << TIMESTAMP_BITS) - 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const V4: Addresses = Addresses::V4 { source: [10, 9, 0, 2], destination: [10, 9, 0, 2] };
    const V6: Addresses = Addresses::V6 { source: [0xfd; 16], destination: [1; 16] };
    const STAMP: Stamp = Stamp { sequence: 0xbeef, nonce: 0x1234, sent: 0x0102_0304_0506, dscp: 10 };

    fn written(addresses: Addresses) -> ([u8; 64], usize) {
        let mut buffer = [0xaa; 64];
        let len = Probe::new(addresses, STAMP).write(&mut buffer).unwrap();
        (buffer, len)
    }

    #[test]
    fn an_ipv4_probe_is_these_28_bytes() {
        let (buffer, len) = written(V4);
        let wanted = [
            0x45, 0x28, 0x00, 0x1c, 0xbe, 0xef, 0x40, 0x00, 0x40, 0xfd, 0x66, 0xb8, 10, 9, 0, 2, 10, 9, 0, 2,
            0x12, 0x34, 1, 2, 3, 4, 5, 6,
        ];
        assert_eq!(&buffer[..len], wanted);
        assert_eq!(buffer[len], 0xaa, "nothing is written behind it");
    }

    #[test]
    fn an_ipv6_probe_keeps_its_flow_label_and_counts_in_the_payload() {
        let (buffer, len) = written(V6);
        assert_eq!(len, 48);
        assert_eq!(&buffer[..8], [0x62, 0x80, 0x12, 0x34, 0, 8, 253, 64]);
        assert_eq!(&buffer[40..48], [0xbe, 0xef, 1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn both_families_are_read_back_padded_or_not() {
        for addresses in [V4, V6] {
            let (buffer, len) = written(addresses);
            let wanted = Probe::new(addresses, STAMP);
            assert_eq!(Probe::parse(&buffer[..len]), Ok(wanted));
            assert_eq!(Probe::parse(&buffer), Ok(wanted));
            assert_eq!(Probe::parse(&buffer[..len - 1]), Err(NotAProbe::NotIp));
            assert_eq!(wanted.write(&mut [0; 27]), Err(TooShort));
        }
    }

    #[test]
    fn a_bounced_probe_has_a_hop_less_and_a_new_checksum() {
        let (mut buffer, _) = written(V4);
        assert!(!Probe::parse(&buffer).unwrap().has_bounced());
        buffer[8] -= 1;
        assert_eq!(Probe::parse(&buffer), Err(NotAProbe::Checksum));
        // RFC 1141: a time to live one smaller makes the checksum 0x0100 larger.
        buffer[10] += 1;
        assert!(Probe::parse(&buffer).unwrap().has_bounced());
    }

    #[test]
    fn what_is_not_a_probe_is_named() {
        let spoil = |at: usize, byte: u8| {
            let (mut buffer, len) = written(V4);
            buffer[at] = byte;
            Probe::parse(&buffer[..len]).unwrap_err()
        };
        assert_eq!(spoil(0, 0x55), NotAProbe::NotIp);
        assert_eq!(spoil(0, 0x46), NotAProbe::OtherProtocol);
        assert_eq!(spoil(9, 17), NotAProbe::OtherProtocol);
        assert_eq!(spoil(3, 29), NotAProbe::NotIp, "it is longer than what there is");
        assert_eq!(spoil(3, 27), NotAProbe::OtherLength);
        assert_eq!(spoil(6, 0x20), NotAProbe::Fragment);
        assert_eq!(spoil(13, 8), NotAProbe::Checksum);
        assert_eq!(Probe::parse(&[]), Err(NotAProbe::NotIp));
    }
}
