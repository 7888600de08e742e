//! Writing packets as a capture (pcapng) that Wireshark and tcpdump read.
//!
//! The simulator carries no bytes, so headers are made up here: valid, with correct checksums, and with the
//! numbers of the simulation in them. Addresses and ports name the flow; sequence numbers count bytes. Payload
//! is cut off, as captures with a snapshot length do; lengths say what would be there. Each packet has a
//! comment with the decision and the inner variables of the algorithm.
//!
//! Format: draft-ietf-opsawg-pcapng (section header, interface description, enhanced packet blocks).

use std::io::{self, Write};
use weir_tcp::{Ack, Segment};
use weir_units::{Ecn, Time};

/// Link type of frames that begin with the IP header.
const LINKTYPE_RAW: u16 = 101;
const SECTION_HEADER: u32 = 0x0A0D_0D0A;
const INTERFACE: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
const OPTION_COMMENT: u16 = 1;
const OPTION_NAME: u16 = 2;
const OPTION_RESOLUTION: u16 = 9;
/// Longest comment that an option can hold.
const COMMENT_MAX: usize = 60_000;

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
    block: Vec<u8>,
    written: u64,
}

impl<W: Write> Capture<W> {
    /// Begins a capture with an interface for each link.
    pub fn new(out: W, links: &[&str]) -> io::Result<Capture<W>> {
        let mut capture = Capture { out, block: Vec::with_capacity(512), written: 0 };
        capture.begin();
        capture.u32(0x1A2B_3C4D);
        capture.u16(1);
        capture.u16(0);
        // The length of the section is not known.
        capture.block.extend_from_slice(&u64::MAX.to_le_bytes());
        capture.end(SECTION_HEADER)?;
        for link in links {
            capture.begin();
            capture.u16(LINKTYPE_RAW);
            capture.u16(0);
            capture.u32(0);
            capture.option(OPTION_NAME, link.as_bytes());
            // Times are in units of 10^-9 s.
            capture.option(OPTION_RESOLUTION, &[9]);
            capture.option(0, &[]);
            capture.end(INTERFACE)?;
        }
        Ok(capture)
    }

    /// Writes a packet, unless the capture became larger than `most` bytes. Returns whether it did.
    pub fn packet(&mut self, packet: &Packet<'_>, most: u64) -> io::Result<bool> {
        let Packet { link, at, bytes, length, comment } = *packet;
        self.begin();
        self.u32(link);
        self.u32((at.as_nanos() >> 32) as u32);
        self.u32(at.as_nanos() as u32);
        self.u32(bytes.len() as u32);
        self.u32(length);
        self.block.extend_from_slice(bytes);
        self.pad();
        if !comment.is_empty() {
            let end = (0..=comment.len().min(COMMENT_MAX)).rev().find(|i| comment.is_char_boundary(*i));
            self.option(OPTION_COMMENT, &comment.as_bytes()[..end.unwrap_or(0)]);
            self.option(0, &[]);
        }
        if self.written + self.length() > most {
            return Ok(false);
        }
        self.end(ENHANCED_PACKET)?;
        Ok(true)
    }

    /// Writes what is left and gives the writer back.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }

    fn begin(&mut self) {
        self.block.clear();
    }

    fn end(&mut self, kind: u32) -> io::Result<()> {
        self.written += self.length();
        let length = (self.length() as u32).to_le_bytes();
        self.out.write_all(&kind.to_le_bytes())?;
        self.out.write_all(&length)?;
        self.out.write_all(&self.block)?;
        self.out.write_all(&length)
    }

    /// Bytes of the block with what stands around it.
    fn length(&self) -> u64 {
        self.block.len() as u64 + 12
    }

    fn u16(&mut self, value: u16) {
        self.block.extend_from_slice(&value.to_le_bytes());
    }

    fn u32(&mut self, value: u32) {
        self.block.extend_from_slice(&value.to_le_bytes());
    }

    fn option(&mut self, code: u16, value: &[u8]) {
        self.u16(code);
        self.u16(value.len() as u16);
        self.block.extend_from_slice(value);
        self.pad();
    }

    fn pad(&mut self) {
        let padded = self.block.len().next_multiple_of(4);
        self.block.resize(padded, 0);
    }
}

/// How a flow looks on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Look {
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
const PROTOCOL_TCP: u8 = 6;
const PROTOCOL_UDP: u8 = 17;
const FLAG_ACK: u8 = 0x10;
const FLAG_PSH: u8 = 0x08;
const FLAG_ECE: u8 = 0x40;
const FLAG_CWR: u8 = 0x80;

impl Look {
    /// Headers of a data packet, and its length with the payload. `ce` if it was marked on the way.
    pub fn data(&self, segment: &Segment, ce: bool) -> (Vec<u8>, u32) {
        let seq = (segment.seq as u32).wrapping_mul(self.payload).wrapping_add(1);
        let ecn = if ce { Ecn::Ce } else { segment.ecn };
        let flags = FLAG_ACK | FLAG_PSH | if segment.cwr { FLAG_CWR } else { 0 };
        let transport = if self.udp {
            self.udp_header(true, segment.payload)
        } else {
            self.tcp_header(true, seq, 1, flags, u16::MAX, segment.sent, Time::ZERO, &[])
        };
        self.packet(true, ecn, transport, segment.payload)
    }

    /// Headers of an acknowledgement that leaves at `now`, and its length.
    pub fn ack(&self, ack: &Ack, now: Time) -> (Vec<u8>, u32) {
        let number = |segments: u64| (segments as u32).wrapping_mul(self.payload).wrapping_add(1);
        let flags = FLAG_ACK | if ack.ece { FLAG_ECE } else { 0 };
        let used = ack.sacks.iter().filter(|(first, end)| first != end);
        let blocks: Vec<(u32, u32)> = used.map(|(first, end)| (number(*first), number(*end))).collect();
        // No handshake is recorded that would say how windows are scaled: more than the field holds is its largest value.
        let window = u16::try_from(ack.window.saturating_mul(self.payload)).unwrap_or(u16::MAX);
        let transport = if self.udp {
            self.udp_header(false, 0)
        } else {
            self.tcp_header(false, 1, number(ack.next), flags, window, now, ack.echo, &blocks)
        };
        self.packet(false, Ecn::NotEct, transport, 0)
    }

    fn ports(&self, data: bool) -> [u8; 4] {
        let sender = PORT_SENDER.wrapping_add((self.connection % 50_000) as u16);
        let (from, to) = if data { (sender, PORT_RECEIVER) } else { (PORT_RECEIVER, sender) };
        let (from, to) = (from.to_be_bytes(), to.to_be_bytes());
        [from[0], from[1], to[0], to[1]]
    }

    #[allow(clippy::too_many_arguments, reason = "the fields of a header")]
    fn tcp_header(
        &self,
        data: bool,
        seq: u32,
        ack: u32,
        flags: u8,
        window: u16,
        sent: Time,
        echo: Time,
        sacks: &[(u32, u32)],
    ) -> Vec<u8> {
        let mut h = Vec::with_capacity(60);
        h.extend_from_slice(&self.ports(data));
        h.extend_from_slice(&seq.to_be_bytes());
        h.extend_from_slice(&ack.to_be_bytes());
        let options = 12 + if sacks.is_empty() { 0 } else { 4 + 8 * sacks.len() };
        h.push((((20 + options) / 4) << 4) as u8);
        h.push(flags);
        h.extend_from_slice(&window.to_be_bytes());
        h.extend_from_slice(&[0; 4]);
        // No operation twice, then timestamps in microseconds (RFC 7323 leaves the unit to the sender).
        h.extend_from_slice(&[1, 1, 8, 10]);
        h.extend_from_slice(&((sent.as_nanos() / 1000) as u32).to_be_bytes());
        h.extend_from_slice(&((echo.as_nanos() / 1000) as u32).to_be_bytes());
        if !sacks.is_empty() {
            h.extend_from_slice(&[1, 1, 5, 2 + 8 * sacks.len() as u8]);
            for (first, end) in sacks {
                h.extend_from_slice(&first.to_be_bytes());
                h.extend_from_slice(&end.to_be_bytes());
            }
        }
        h
    }

    fn udp_header(&self, data: bool, payload: u32) -> Vec<u8> {
        let mut h = self.ports(data).to_vec();
        h.extend_from_slice(&((payload + 8) as u16).to_be_bytes());
        h.extend_from_slice(&[0, 0]);
        h
    }

    /// Puts the IP header before a transport header and fills the checksums in, as if the payload were zeros.
    fn packet(&self, data: bool, ecn: Ecn, mut transport: Vec<u8>, payload: u32) -> (Vec<u8>, u32) {
        let protocol = if self.udp { PROTOCOL_UDP } else { PROTOCOL_TCP };
        let behind = transport.len() as u32 + payload;
        let (a, b) = (self.address(true), self.address(false));
        let (from, to) = if data { (a, b) } else { (b, a) };
        let mut sum = Checksum::default();
        sum.add(&from);
        sum.add(&to);
        sum.add(&behind.to_be_bytes());
        sum.add(&[0, protocol]);
        sum.add(&transport);
        // A checksum of zero means "none" in UDP, so it is sent as its complement.
        let value = match sum.value() {
            0 if self.udp => u16::MAX,
            value => value,
        };
        let at = if self.udp { 6 } else { 16 };
        transport[at..at + 2].copy_from_slice(&value.to_be_bytes());
        let mut bytes = if self.v6 {
            v6_header(ecn, behind, protocol, &from, &to)
        } else {
            v4_header(ecn, behind, protocol, &from, &to)
        };
        let length = bytes.len() as u32 + behind;
        bytes.extend_from_slice(&transport);
        (bytes, length)
    }

    /// Private addresses: 10.0.0.0/9 sends, 10.128.0.0/9 receives; fd00::/8 likewise.
    fn address(&self, sender: bool) -> Vec<u8> {
        let [_, high, middle, low] = self.flow.to_be_bytes();
        let side = if sender { 0 } else { 0x80 };
        let tail = [10, side | (high & 0x7f), middle, low];
        if !self.v6 {
            return tail.to_vec();
        }
        let mut address = vec![0xfd, side];
        address.resize(12, 0);
        address.extend_from_slice(&tail);
        address
    }
}

fn v4_header(ecn: Ecn, behind: u32, protocol: u8, from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut h = vec![0x45, ecn as u8];
    h.extend_from_slice(&((behind + 20) as u16).to_be_bytes());
    // Do not fragment, so that the identification means nothing (RFC 6864).
    h.extend_from_slice(&[0, 0, 0x40, 0, 64, protocol, 0, 0]);
    h.extend_from_slice(from);
    h.extend_from_slice(to);
    let mut sum = Checksum::default();
    sum.add(&h);
    h[10..12].copy_from_slice(&sum.value().to_be_bytes());
    h
}

fn v6_header(ecn: Ecn, behind: u32, protocol: u8, from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut h = vec![0x60, (ecn as u8) << 4, 0, 0];
    h.extend_from_slice(&(behind as u16).to_be_bytes());
    h.extend_from_slice(&[protocol, 64]);
    h.extend_from_slice(from);
    h.extend_from_slice(to);
    h
}

/// The Internet checksum (RFC 1071).
#[derive(Default)]
struct Checksum(u32);

impl Checksum {
    /// Adds bytes, padded to an even number.
    fn add(&mut self, bytes: &[u8]) {
        for pair in bytes.chunks(2) {
            self.0 += u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0));
        }
    }

    fn value(&self) -> u16 {
        let folded = (self.0 >> 16) + (self.0 & 0xffff);
        !((folded + (folded >> 16)) as u16)
    }
}
