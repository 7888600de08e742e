//! Writing packets as a capture (pcapng) that Wireshark and tcpdump read.
//!
//! The simulator carries no bytes, so headers are made up here: valid, with correct checksums, and with the
//! numbers of the simulation in them. Addresses and ports name the flow; sequence numbers count bytes.
//! Payload is cut off, as captures with a snapshot length do; lengths say what would be there. Each packet
//! has a comment with the decision and the inner variables of the algorithm.
//!
//! Format: draft-ietf-opsawg-pcapng (section header, interface description, enhanced packet blocks).

use crate::packet::Opening;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::{PcapNgBlock, PcapNgWriter};
use pcap_file::{DataLink, Endianness, PcapError};
use std::io::{self, Write};
use std::time::Duration;
use weir_tcp::{Ack, Segment};
use weir_units::{Ecn, Time};
use weir_wire::tcp::{ACK, CWR, ECE, PSH, SYN, Stamps};
use weir_wire::{TooShort, ip, ipv4, ipv6, tcp, udp};

/// Longest comment that an option can hold.
const COMMENT_MAX: usize = 60_000;
/// Times are in units of 10^-9 s.
const RESOLUTION: u8 = 9;

/// A packet as it stands in a capture.
pub struct Packet<'a> {
    /// Number of the link.
    pub link: u32,
    /// When it was seen.
    pub at: Time,
    /// What there is of it.
    pub bytes: &'a [u8],
    /// How long it is.
    pub length: u32,
    /// What is said about it.
    pub comment: &'a str,
}

/// Writes blocks of a capture.
pub struct Capture<W> {
    out: W,
    /// Encodes a block into memory, so that its length is known before it is written.
    encoder: PcapNgWriter<Vec<u8>>,
    written: u64,
}

impl<W: Write> Capture<W> {
    /// Begins a capture with an interface for each link.
    pub fn new(out: W, links: &[&str]) -> io::Result<Capture<W>> {
        // The same bytes on every machine.
        let encoder =
            PcapNgWriter::with_endianness(Vec::with_capacity(512), Endianness::Little).map_err(failure)?;
        let mut capture = Capture { out, encoder, written: 0 };
        for link in links {
            capture.encode(InterfaceDescriptionBlock {
                linktype: DataLink::RAW,
                snaplen: 0,
                options: vec![
                    InterfaceDescriptionOption::IfName((*link).into()),
                    InterfaceDescriptionOption::IfTsResol(RESOLUTION),
                ],
            })?;
        }
        capture.flush()?;
        Ok(capture)
    }

    /// Writes a packet, unless the capture became larger than `most` bytes. Returns whether it did.
    pub fn packet(&mut self, packet: &Packet<'_>, most: u64) -> io::Result<bool> {
        let Packet { link, at, bytes, length, comment } = *packet;
        let end = (0..=comment.len().min(COMMENT_MAX)).rev().find(|i| comment.is_char_boundary(*i));
        let comment = &comment[..end.unwrap_or(0)];
        let comment = (!comment.is_empty()).then(|| EnhancedPacketOption::Comment(comment.into()));
        self.encode(EnhancedPacketBlock {
            interface_id: link,
            timestamp: Duration::from_nanos(at.as_nanos()),
            original_len: length,
            data: bytes.into(),
            options: comment.into_iter().collect(),
        })?;
        if self.written + self.encoder.get_ref().len() as u64 > most {
            self.encoder.get_mut().clear();
            return Ok(false);
        }
        self.flush()?;
        Ok(true)
    }

    /// Writes what is left and gives the writer back.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }

    fn encode<'a>(&mut self, block: impl PcapNgBlock<'a>) -> io::Result<()> {
        self.encoder.write_pcapng_block(block).map(drop).map_err(failure)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.written += self.encoder.get_ref().len() as u64;
        self.out.write_all(self.encoder.get_ref())?;
        self.encoder.get_mut().clear();
        Ok(())
    }
}

fn failure(error: PcapError) -> io::Error {
    match error {
        PcapError::IoError(error) => error,
        error => io::Error::new(io::ErrorKind::InvalidInput, error),
    }
}

/// How a flow looks on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowHeaders {
    /// Number of the flow; becomes addresses.
    pub flow: u32,
    /// What tells connections of the flow apart; becomes the sender's port.
    pub connection: u32,
    /// IPv6 instead of IPv4.
    pub v6: bool,
    /// UDP instead of TCP, for datagrams and QUIC.
    pub udp: bool,
    /// Payload of a full segment: what sequence numbers are multiplied by.
    pub payload: u32,
}

const PORT_SENDER: u16 = 10_000;
const PORT_RECEIVER: u16 = 443;
/// Longest packet that a header can tell of.
const PACKET_MAX: usize = u16::MAX as usize;

impl FlowHeaders {
    /// Headers of a data packet, and its length with the payload. `ce` if it was marked on the way.
    pub fn data(&self, segment: &Segment, ce: bool) -> (Vec<u8>, u32) {
        let seq = (segment.seq as u32).wrapping_mul(self.payload).wrapping_add(1);
        let ecn = if ce { Ecn::Ce } else { segment.ecn };
        let flags = ACK | PSH | if segment.cwr { CWR } else { 0 };
        let stamps = Some(stamps(segment.sent, Time::ZERO));
        let header = tcp::Header { seq, ack: 1, flags, window: u16::MAX, stamps, ..self.tcp_header(true) };
        self.packet(true, ecn, header, segment.payload)
    }

    /// Headers of what opens a connection and leaves at `now`, and its length.
    pub fn opening(&self, opening: &Opening, now: Time) -> (Vec<u8>, u32) {
        // A SYN asks for ECN with both bits, the answer grants it with one (RFC 3168 section 6.1.1).
        let (flags, bits) = if opening.is_answer { (SYN | ACK, ECE) } else { (SYN, ECE | CWR) };
        let echo = if opening.is_answer { opening.sent } else { Time::ZERO };
        let header = tcp::Header {
            ack: u32::from(opening.is_answer),
            flags: flags | if opening.ecn { bits } else { 0 },
            window: u16::MAX,
            mss: u16::try_from(self.payload + 12).ok(),
            // The option is there as in Linux; windows stand as they are.
            window_scale: Some(0),
            sack_permitted: true,
            stamps: Some(stamps(now, echo)),
            ..self.tcp_header(!opening.is_answer)
        };
        self.packet(!opening.is_answer, Ecn::NotEct, header, 0)
    }

    /// Headers of an acknowledgement that leaves at `now`, and its length.
    pub fn ack(&self, ack: &Ack, now: Time) -> (Vec<u8>, u32) {
        let number = |segments: u64| (segments as u32).wrapping_mul(self.payload).wrapping_add(1);
        let flags = ACK | if ack.ece { ECE } else { 0 };
        let used = ack.sacks.iter().filter(|(first, end)| first != end);
        let blocks: Vec<(u32, u32)> = used.map(|(first, end)| (number(*first), number(*end))).collect();
        // Windows are not scaled, as there may be no handshake that would say how: more than the field holds
        // is its largest value.
        let window = u16::try_from(ack.window.saturating_mul(self.payload)).unwrap_or(u16::MAX);
        let header = tcp::Header {
            seq: 1,
            ack: number(ack.next),
            flags,
            window,
            stamps: Some(stamps(now, ack.echo)),
            sacks: &blocks,
            ..self.tcp_header(false)
        };
        self.packet(false, Ecn::NotEct, header, 0)
    }

    /// Headers of a packet with right checksums, as if its payload were zeros, and its length. A datagram
    /// takes nothing of `header`.
    fn packet(&self, data: bool, ecn: Ecn, header: tcp::Header<'_>, payload: u32) -> (Vec<u8>, u32) {
        let ip = if self.v6 { ipv6::HEADER_LEN } else { ipv4::HEADER_MIN };
        let headers = ip + if self.udp { udp::HEADER_LEN } else { header.len() };
        let length = headers as u32 + payload;
        let mut bytes = vec![0; (length as usize).clamp(headers, PACKET_MAX)];
        let (network, transport) = bytes.split_at_mut(ip);
        let written = match self.v6 {
            false => self.write_v4(network, transport, data, ecn, header),
            true => self.write_v6(network, transport, data, ecn, header),
        };
        debug_assert!(written.is_ok(), "as long as its headers");
        bytes.truncate(headers);
        (bytes, length)
    }

    fn write_v4(
        &self,
        network: &mut [u8],
        transport: &mut [u8],
        data: bool,
        ecn: Ecn,
        header: tcp::Header<'_>,
    ) -> Result<usize, TooShort> {
        let [source, destination] = self.in_order(data, [true, false].map(|sender| self.address4(sender)));
        let ip = ipv4::Header {
            traffic_class: ecn as u8,
            payload_len: transport.len() as u16,
            // Not to be fragmented, so that the identification means nothing (RFC 6864).
            dont_fragment: true,
            protocol: self.protocol(),
            ..ipv4::Header::new(source, destination)
        };
        ip.write(network)?;
        match self.udp {
            true => self.udp_header(data).write_v4(source, destination, transport),
            false => header.write_v4(source, destination, transport),
        }
    }

    fn write_v6(
        &self,
        network: &mut [u8],
        transport: &mut [u8],
        data: bool,
        ecn: Ecn,
        header: tcp::Header<'_>,
    ) -> Result<usize, TooShort> {
        let [source, destination] = self.in_order(data, [true, false].map(|sender| self.address6(sender)));
        let ip = ipv6::Header {
            traffic_class: ecn as u8,
            payload_len: transport.len() as u16,
            next_header: self.protocol(),
            ..ipv6::Header::new(source, destination)
        };
        ip.write(network)?;
        match self.udp {
            true => self.udp_header(data).write_v6(source, destination, transport),
            false => header.write_v6(source, destination, transport),
        }
    }

    fn protocol(&self) -> u8 {
        if self.udp { ip::UDP } else { ip::TCP }
    }

    /// What the sender and the receiver of data have, as source and destination of a packet.
    fn in_order<T>(&self, data: bool, [sender, receiver]: [T; 2]) -> [T; 2] {
        if data { [sender, receiver] } else { [receiver, sender] }
    }

    fn ports(&self, data: bool) -> [u16; 2] {
        let sender = PORT_SENDER.wrapping_add((self.connection % 50_000) as u16);
        self.in_order(data, [sender, PORT_RECEIVER])
    }

    fn tcp_header(&self, data: bool) -> tcp::Header<'_> {
        let [source, destination] = self.ports(data);
        tcp::Header { source, destination, ..tcp::Header::default() }
    }

    fn udp_header(&self, data: bool) -> udp::Header {
        let [source, destination] = self.ports(data);
        udp::Header { source, destination }
    }

    /// Private addresses: 10.0.0.0/9 sends, 10.128.0.0/9 receives.
    fn address4(&self, sender: bool) -> [u8; 4] {
        let [_, high, middle, low] = self.flow.to_be_bytes();
        [10, if sender { 0 } else { 0x80 } | (high & 0x7f), middle, low]
    }

    /// The same in fd00::/16 and fd80::/16.
    fn address6(&self, sender: bool) -> [u8; 16] {
        let [a, b, c, d] = self.address4(sender);
        [0xfd, if sender { 0 } else { 0x80 }, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, a, b, c, d]
    }
}

/// Timestamps in microseconds (RFC 7323 leaves the unit to the sender).
fn stamps(sent: Time, echo: Time) -> Stamps {
    let [value, echo] = [sent, echo].map(|time| (time.as_nanos() / 1000) as u32);
    Stamps { value, echo }
}
