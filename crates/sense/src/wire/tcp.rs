//! The numbers of a TCP segment (RFC 9293 section 3.1) and its options.

use super::{be16, be32};

const HEADER_MIN: usize = 20;

/// What an observer needs of a TCP segment.
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
    /// From where to where the first SACK block goes: it holds what made the receiver send this (RFC 2018 section 4),
    /// which arrived before something else, or twice.
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
}

pub(super) fn read(bytes: &[u8]) -> Option<Segment> {
    let header = usize::from(bytes.get(12)? >> 4) * 4;
    if header < HEADER_MIN {
        return None;
    }
    let flags = *bytes.get(13)?;
    let options = bytes.get(HEADER_MIN..header)?;
    let flag = |bit: u8| flags >> bit & 1 == 1;
    let mut segment = Segment {
        seq: be32(bytes, 4)?,
        ack: if flag(4) { Some(be32(bytes, 8)?) } else { None },
        len: (bytes.len() - header) as u32,
        window: be16(bytes, 14)?,
        fin: flag(0),
        syn: flag(1),
        rst: flag(2),
        sacked: None,
        stamps: None,
    };
    read_options(options, &mut segment);
    Some(segment)
}

/// Options up to the first that is malformed: what follows it cannot be found.
fn read_options(mut rest: &[u8], segment: &mut Segment) {
    const END: u8 = 0;
    const NOTHING: u8 = 1;
    const SACK: u8 = 5;
    const TIMESTAMPS: u8 = 8;
    while let Some((kind, after)) = rest.split_first() {
        if *kind == NOTHING {
            rest = after;
            continue;
        }
        // The length counts kind and length themselves, so each round consumes at least two bytes.
        let Some(len) = after.first().map(|len| usize::from(*len)).filter(|len| *len >= 2) else { return };
        let Some(option) = rest.get(..len).filter(|_| *kind != END) else { return };
        match (*kind, len) {
            (SACK, 10 | 18 | 26 | 34) => segment.sacked = be32(option, 2).zip(be32(option, 6)),
            (TIMESTAMPS, 10) => {
                let both = be32(option, 2).zip(be32(option, 6));
                segment.stamps = both.map(|(value, echo)| Stamps { value, echo });
            }
            _ => {}
        }
        rest = &rest[len..];
    }
}
