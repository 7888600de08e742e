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

use crate::checksum::{finish, sum};

/// The protocol number of probes, set aside for experiments by RFC 3692.
pub const PROTOCOL: u8 = 253;

/// Time to live or hop limit of a probe when it is sent. One that was bounced has less.
pub const HOPS: u8 = 64;

/// Length of an IPv4 probe in bytes.
pub const IPV4_LEN: usize = 28;

/// Length of an IPv6 probe in bytes.
pub const IPV6_LEN: usize = 48;

/// Bits of the timestamp that travel; it wraps after three days.
pub const TIMESTAMP_BITS: u32 = 48;

const IPV4_HEADER: usize = 20;
const IPV6_HEADER: usize = 40;
const PAYLOAD: usize = 8;
const DONT_FRAGMENT: u16 = 0x4000;
/// More fragments follow, or this one does not start at zero.
const FRAGMENT: u16 = 0x3fff;
const FLOW_LABEL: u32 = 0x000f_ffff;

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
    /// Neither IPv4 nor IPv6.
    NotIp,
    /// Another protocol, IP options or extension headers.
    OtherProtocol,
    /// Fewer bytes than a probe has.
    Truncated,
    /// The length in the header is not that of a probe.
    OtherLength,
    /// A fragment.
    Fragment,
    /// A flow label of more bits than a nonce has.
    FlowLabel,
    /// The checksum of the header is wrong.
    Checksum,
}

/// The buffer is too short for the probe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooShort;

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
        match self.addresses {
            Addresses::V4 { source, destination } => self.write_ipv4(packet, source, destination),
            Addresses::V6 { source, destination } => self.write_ipv6(packet, source, destination),
        }
        Ok(len)
    }

    fn write_ipv4(&self, packet: &mut [u8], source: [u8; 4], destination: [u8; 4]) {
        let s = &self.stamp;
        packet[0] = 0x45;
        packet[1] = s.dscp << 2;
        packet[2..4].copy_from_slice(&(IPV4_LEN as u16).to_be_bytes());
        packet[4..6].copy_from_slice(&s.sequence.to_be_bytes());
        packet[6..8].copy_from_slice(&DONT_FRAGMENT.to_be_bytes());
        packet[8] = self.hops;
        packet[9] = PROTOCOL;
        packet[10..12].fill(0);
        packet[12..16].copy_from_slice(&source);
        packet[16..20].copy_from_slice(&destination);
        let checksum = finish(sum(&packet[..IPV4_HEADER]));
        packet[10..12].copy_from_slice(&checksum.to_be_bytes());
        packet[IPV4_HEADER..].copy_from_slice(&payload(s.nonce, s.sent));
    }

    fn write_ipv6(&self, packet: &mut [u8], source: [u8; 16], destination: [u8; 16]) {
        let s = &self.stamp;
        let first = 6 << 28 | u32::from(s.dscp & 0x3f) << 22 | u32::from(s.nonce);
        packet[0..4].copy_from_slice(&first.to_be_bytes());
        packet[4..6].copy_from_slice(&(PAYLOAD as u16).to_be_bytes());
        packet[6] = PROTOCOL;
        packet[7] = self.hops;
        packet[8..24].copy_from_slice(&source);
        packet[24..40].copy_from_slice(&destination);
        packet[IPV6_HEADER..].copy_from_slice(&payload(s.sequence, s.sent));
    }

    /// Reads a packet from its network header on. Bytes behind it, as Ethernet pads short frames, are ignored.
    ///
    /// # Errors
    ///
    /// Says why it is not a probe. What comes from the wire is not to be trusted: a probe that is well formed
    /// may still be forged, which only the [`Sensor`](super::Sensor) that sent it can tell.
    pub fn parse(packet: &[u8]) -> Result<Probe, NotAProbe> {
        match packet.first().map(|first| first >> 4) {
            Some(4) => parse_ipv4(packet),
            Some(6) => parse_ipv6(packet),
            Some(_) => Err(NotAProbe::NotIp),
            None => Err(NotAProbe::Truncated),
        }
    }
}

fn parse_ipv4(packet: &[u8]) -> Result<Probe, NotAProbe> {
    let packet = packet.first_chunk::<IPV4_LEN>().ok_or(NotAProbe::Truncated)?;
    if packet[0] != 0x45 || packet[9] != PROTOCOL {
        return Err(NotAProbe::OtherProtocol);
    }
    if usize::from(be16(packet, 2)) != IPV4_LEN {
        return Err(NotAProbe::OtherLength);
    }
    if be16(packet, 6) & FRAGMENT != 0 {
        return Err(NotAProbe::Fragment);
    }
    if finish(sum(&packet[..IPV4_HEADER])) != 0 {
        return Err(NotAProbe::Checksum);
    }
    let (nonce, sent) = open_payload(packet, IPV4_HEADER);
    let addresses = Addresses::V4 { source: take(packet, 12), destination: take(packet, 16) };
    let stamp = Stamp { sequence: be16(packet, 4), nonce, sent, dscp: packet[1] >> 2 };
    Ok(Probe { addresses, hops: packet[8], stamp })
}

fn parse_ipv6(packet: &[u8]) -> Result<Probe, NotAProbe> {
    let packet = packet.first_chunk::<IPV6_LEN>().ok_or(NotAProbe::Truncated)?;
    if packet[6] != PROTOCOL {
        return Err(NotAProbe::OtherProtocol);
    }
    if usize::from(be16(packet, 4)) != PAYLOAD {
        return Err(NotAProbe::OtherLength);
    }
    let first = u32::from_be_bytes(take(packet, 0));
    let (sequence, sent) = open_payload(packet, IPV6_HEADER);
    let addresses = Addresses::V6 { source: take(packet, 8), destination: take(packet, 24) };
    let nonce = u16::try_from(first & FLOW_LABEL).map_err(|_| NotAProbe::FlowLabel)?;
    let stamp = Stamp { sequence, nonce, sent, dscp: (first >> 22) as u8 & 0x3f };
    Ok(Probe { addresses, hops: packet[7], stamp })
}

fn payload(upper: u16, sent: u64) -> [u8; PAYLOAD] {
    let low = sent & ((1 << TIMESTAMP_BITS) - 1);
    (u64::from(upper) << TIMESTAMP_BITS | low).to_be_bytes()
}

fn open_payload(packet: &[u8], at: usize) -> (u16, u64) {
    let word = u64::from_be_bytes(take(packet, at));
    ((word >> TIMESTAMP_BITS) as u16, word & ((1 << TIMESTAMP_BITS) - 1))
}

fn be16(packet: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(take(packet, at))
}

/// `N` bytes from `at` on; the caller knows that the packet has them.
fn take<const N: usize>(packet: &[u8], at: usize) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&packet[at..at + N]);
    bytes
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
            assert_eq!(Probe::parse(&buffer[..len - 1]), Err(NotAProbe::Truncated));
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
        assert_eq!(spoil(3, 29), NotAProbe::OtherLength);
        assert_eq!(spoil(6, 0x20), NotAProbe::Fragment);
        assert_eq!(spoil(13, 8), NotAProbe::Checksum);
        assert_eq!(Probe::parse(&[]), Err(NotAProbe::Truncated));
    }
}
