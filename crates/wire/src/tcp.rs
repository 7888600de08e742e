//! TCP segments (RFC 9293 section 3.1) and their options.

use crate::TooShort;
use crate::bytes::{be16, be32, field};
use crate::checksum::{finish, pseudo, sum};
use crate::ip::TCP;

/// Length of a header without options in bytes.
pub const HEADER_MIN: usize = 20;
/// Length of a header with the most options in bytes.
pub const HEADER_MAX: usize = 60;
/// Offset of the checksum in the header.
pub const CHECKSUM_AT: usize = 16;
/// Most blocks of one SACK option (RFC 2018 section 3).
pub const SACK_BLOCKS_MAX: usize = 4;

/// Flag: the sender's stream ends.
pub const FIN: u8 = 0x01;
/// Flag: a connection is opened.
pub const SYN: u8 = 0x02;
/// Flag: the connection ends at once.
pub const RST: u8 = 0x04;
/// Flag: the receiver is to hand the data on.
pub const PSH: u8 = 0x08;
/// Flag: the acknowledgement number counts.
pub const ACK: u8 = 0x10;
/// Flag: the urgent pointer counts.
pub const URG: u8 = 0x20;
/// Flag: congestion was experienced (RFC 3168 section 6.1).
pub const ECE: u8 = 0x40;
/// Flag: the sender reduced its congestion window.
pub const CWR: u8 = 0x80;

/// What an observer needs of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Segment {
    /// Sequence number of its first byte.
    pub seq: u32,
    /// The next byte that its sender expects; `None` without the ACK flag.
    pub ack: Option<u32>,
    /// Bytes of payload.
    pub len: u32,
    /// The receive window as it is written, before scaling.
    pub window: u16,
    /// It opens a connection.
    pub syn: bool,
    /// It ends the sender's stream.
    pub fin: bool,
    /// It ends the connection at once.
    pub rst: bool,
    /// From where to where the first SACK block goes: it holds what made the receiver send this (RFC 2018
    /// section 4), which arrived before something else, or twice.
    pub sacked: Option<(u32, u32)>,
    /// The timestamps option (RFC 7323 section 3).
    pub stamps: Option<Stamps>,
}

/// Both fields of a timestamps option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamps {
    /// TSval: the clock of who sent it.
    pub value: u32,
    /// TSecr: a TSval of the other side that arrived there.
    pub echo: u32,
}

impl Segment {
    /// Sequence numbers that it takes: SYN and FIN have one each.
    pub fn span(&self) -> u32 {
        self.len + u32::from(self.syn) + u32::from(self.fin)
    }

    /// Reads a whole segment from its header on. `None` if its header is shorter than 20 bytes or longer than
    /// the slice. Options are read up to the first that is malformed: what follows it cannot be found.
    #[inline]
    pub fn read(bytes: &[u8]) -> Option<Segment> {
        let head: &[u8; HEADER_MIN] = bytes.first_chunk()?;
        let header_len = usize::from(head[12] >> 4) * 4;
        let options = bytes.get(HEADER_MIN..header_len)?;
        let flags = head[13];
        let mut segment = Segment {
            seq: u32::from_be_bytes(field(head, 4)),
            ack: (flags & ACK != 0).then(|| u32::from_be_bytes(field(head, 8))),
            len: (bytes.len() - header_len) as u32,
            window: u16::from_be_bytes([head[14], head[15]]),
            syn: flags & SYN != 0,
            fin: flags & FIN != 0,
            rst: flags & RST != 0,
            sacked: None,
            stamps: None,
        };
        for option in Options(options) {
            match option {
                TcpOption::Sack(blocks) => segment.sacked = blocks.first(),
                TcpOption::Stamps(stamps) => segment.stamps = Some(stamps),
                _ => {}
            }
        }
        Some(segment)
    }
}

/// An option of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TcpOption<'a> {
    /// Largest segment that the sender receives, in bytes of payload (RFC 9293 section 3.7.1).
    Mss(u16),
    /// By how many bits windows are shifted (RFC 7323 section 2).
    WindowScale(u8),
    /// SACK is understood (RFC 2018 section 2).
    SackPermitted,
    /// What was received beyond the acknowledgement (RFC 2018 section 3).
    Sack(SackBlocks<'a>),
    /// Timestamps (RFC 7323 section 3).
    Stamps(Stamps),
    /// Any other, or one of these with a length that is not its own.
    Other {
        /// Its kind.
        kind: u8,
        /// What follows kind and length.
        value: &'a [u8],
    },
}

/// The blocks of a SACK option: one to four.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SackBlocks<'a>(&'a [u8]);

impl SackBlocks<'_> {
    /// The first one: from which sequence number on, and the one behind its last.
    #[inline(always)]
    pub fn first(&self) -> Option<(u32, u32)> {
        be32(self.0, 0).zip(be32(self.0, 4))
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u32)> {
        self.0.chunks_exact(8).filter_map(|block| be32(block, 0).zip(be32(block, 4)))
    }
}

/// The options of a segment, without those that fill up, up to the end or the first that is malformed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options<'a>(&'a [u8]);

const END: u8 = 0;
const NO_OPERATION: u8 = 1;
const MSS: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;

impl<'a> Options<'a> {
    /// Those of a segment; none of what is no whole header.
    pub fn of(segment: &'a [u8]) -> Options<'a> {
        let header_len = segment.get(12).map_or(0, |octet| usize::from(octet >> 4) * 4);
        Options(segment.get(HEADER_MIN..header_len).unwrap_or(&[]))
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = TcpOption<'a>;

    #[inline(always)]
    fn next(&mut self) -> Option<TcpOption<'a>> {
        loop {
            let (kind, after) = self.0.split_first()?;
            if *kind == NO_OPERATION {
                self.0 = after;
                continue;
            }
            // The length counts kind and length themselves, so that each round consumes at least two bytes.
            let len = usize::from(*after.first()?);
            let option = self.0.get(..len).filter(|_| *kind != END && len >= 2)?;
            self.0 = self.0.get(len..)?;
            let value = option.get(2..)?;
            return Some(match (*kind, len) {
                (SACK, 10 | 18 | 26 | 34) => TcpOption::Sack(SackBlocks(value)),
                (TIMESTAMPS, 10) => {
                    TcpOption::Stamps(Stamps { value: be32(value, 0)?, echo: be32(value, 4)? })
                }
                (MSS, 4) => TcpOption::Mss(be16(value, 0)?),
                (WINDOW_SCALE, 3) => TcpOption::WindowScale(*value.first()?),
                (SACK_PERMITTED, 2) => TcpOption::SackPermitted,
                (kind, _) => TcpOption::Other { kind, value },
            });
        }
    }
}

/// What the header of a segment says.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Header<'a> {
    /// Port of the sender.
    pub source: u16,
    /// Port of the receiver.
    pub destination: u16,
    /// Sequence number of the first byte.
    pub seq: u32,
    /// The next byte that is expected; without meaning unless [`ACK`] is set.
    pub ack: u32,
    /// [`SYN`] and the like.
    pub flags: u8,
    /// The receive window, before scaling.
    pub window: u16,
    /// Largest segment that is received, in bytes of payload.
    pub mss: Option<u16>,
    /// By how many bits windows are shifted.
    pub window_scale: Option<u8>,
    /// SACK is understood.
    pub sack_permitted: bool,
    /// Timestamps.
    pub stamps: Option<Stamps>,
    /// SACK blocks, at most [`SACK_BLOCKS_MAX`], and as many as there is room for beside the other options.
    pub sacks: &'a [(u32, u32)],
}

impl Header<'_> {
    /// Length of the header with its options in bytes, 20 to 60 where the options fit.
    pub fn len(&self) -> usize {
        let option = |is_there: bool, len: usize| if is_there { len } else { 0 };
        HEADER_MIN
            + option(self.mss.is_some(), 4)
            + option(self.window_scale.is_some(), 4)
            + option(self.sack_permitted, 4)
            + option(self.stamps.is_some(), 12)
            + option(!self.sacks.is_empty(), 4 + 8 * self.sacks.len())
    }

    /// Never: a header has ports.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Writes the header in front of the payload that stands behind it in `out`, with the checksum over IPv4;
    /// its length.
    ///
    /// # Errors
    ///
    /// As [`Header::write`].
    pub fn write_v4(&self, from: [u8; 4], to: [u8; 4], out: &mut [u8]) -> Result<usize, TooShort> {
        self.write_summed(sum(&from) + sum(&to), out)
    }

    /// The same with the checksum over IPv6.
    ///
    /// # Errors
    ///
    /// As [`Header::write`].
    pub fn write_v6(&self, from: [u8; 16], to: [u8; 16], out: &mut [u8]) -> Result<usize, TooShort> {
        self.write_summed(sum(&from) + sum(&to), out)
    }

    fn write_summed(&self, addresses: u64, out: &mut [u8]) -> Result<usize, TooShort> {
        let len = self.write(out)?;
        let checksum = finish(addresses + pseudo(&[], TCP, out.len()) + sum(out));
        out[CHECKSUM_AT..CHECKSUM_AT + 2].copy_from_slice(&checksum.to_be_bytes());
        Ok(len)
    }

    /// Writes the header with zero for its checksum; its length. Each option is filled up to four bytes.
    ///
    /// # Errors
    ///
    /// If the options do not fit in a header, or the header in `out`.
    pub fn write(&self, out: &mut [u8]) -> Result<usize, TooShort> {
        let len = self.len();
        if len > HEADER_MAX {
            return Err(TooShort);
        }
        let mut out = Writer(out.get_mut(..len).ok_or(TooShort)?);
        out.put(self.source.to_be_bytes());
        out.put(self.destination.to_be_bytes());
        out.put(self.seq.to_be_bytes());
        out.put(self.ack.to_be_bytes());
        out.put([(len as u8 / 4) << 4, self.flags]);
        out.put(self.window.to_be_bytes());
        // Checksum and urgent pointer.
        out.put([0; 4]);
        if let Some(mss) = self.mss {
            out.put([MSS, 4]);
            out.put(mss.to_be_bytes());
        }
        if let Some(shift) = self.window_scale {
            out.put([NO_OPERATION, WINDOW_SCALE, 3, shift]);
        }
        if self.sack_permitted {
            out.put([NO_OPERATION, NO_OPERATION, SACK_PERMITTED, 2]);
        }
        if let Some(Stamps { value, echo }) = self.stamps {
            out.put([NO_OPERATION, NO_OPERATION, TIMESTAMPS, 10]);
            out.put(value.to_be_bytes());
            out.put(echo.to_be_bytes());
        }
        if !self.sacks.is_empty() {
            out.put([NO_OPERATION, NO_OPERATION, SACK, 2 + 8 * self.sacks.len() as u8]);
            for (first, end) in self.sacks {
                out.put(first.to_be_bytes());
                out.put(end.to_be_bytes());
            }
        }
        Ok(len)
    }
}

/// What is left of a buffer that is as long as what is written.
struct Writer<'a>(&'a mut [u8]);

impl Writer<'_> {
    fn put<const N: usize>(&mut self, bytes: [u8; N]) {
        if let Some((place, rest)) = core::mem::take(&mut self.0).split_first_chunk_mut() {
            (*place, self.0) = (bytes, rest);
        }
    }
}
