//! UDP datagrams (RFC 768).

use crate::TooShort;
use crate::bytes::room;
use crate::checksum::{finish, finish_nonzero, pseudo, sum};
use crate::ip::UDP;

/// Length of the header in bytes.
pub const HEADER_LEN: usize = 8;
/// Offset of the checksum in the header.
pub const CHECKSUM_AT: usize = 6;

/// A whole datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Datagram<'a> {
    header: &'a [u8; HEADER_LEN],
    /// As long as the datagram.
    bytes: &'a [u8],
}

impl<'a> Datagram<'a> {
    /// Reads a datagram from its header on; bytes behind its length belong to nobody. `None` if its length is
    /// less than that of the header or more than that of the slice.
    #[inline(always)]
    pub fn read(bytes: &'a [u8]) -> Option<Datagram<'a>> {
        let header: &[u8; HEADER_LEN] = bytes.first_chunk()?;
        let len = usize::from(u16::from_be_bytes([header[4], header[5]]));
        let bytes = bytes.get(..len).filter(|_| len >= HEADER_LEN)?;
        Some(Datagram { header, bytes })
    }

    /// Source and destination port.
    #[inline(always)]
    pub fn ports(&self) -> (u16, u16) {
        let [a, b, c, d, ..] = *self.header;
        (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]))
    }

    /// Length in bytes, with the header.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Never: a datagram has a header.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// What it carries.
    #[inline(always)]
    pub fn payload(&self) -> &'a [u8] {
        self.bytes.get(HEADER_LEN..).unwrap_or(&[])
    }

    /// Whether it says that it has no checksum. Over IPv6 that is wrong (RFC 8200 section 8.1).
    #[inline(always)]
    pub fn is_without_checksum(&self) -> bool {
        self.header[CHECKSUM_AT..] == [0, 0]
    }

    /// Whether its checksum is right between these addresses (both, one behind the other).
    pub fn has_right_checksum(&self, addresses: &[u8]) -> bool {
        finish(pseudo(addresses, UDP, self.len()) + sum(self.bytes)) == 0
    }
}

/// The ports of a datagram; the rest of its header follows from its length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Port of the sender.
    pub source: u16,
    /// Port of the receiver.
    pub destination: u16,
}

impl Header {
    /// Writes the header in front of the payload that stands behind it in `out`, without a checksum, as it is
    /// allowed over IPv4.
    ///
    /// # Errors
    ///
    /// If `out` is shorter than [`HEADER_LEN`] or longer than a datagram can be.
    #[inline(always)]
    pub fn write_without_checksum(&self, out: &mut [u8]) -> Result<usize, TooShort> {
        let len = u16::try_from(out.len()).map_err(|_| TooShort)?;
        let head: &mut [u8; HEADER_LEN] = room(out)?;
        head[..2].copy_from_slice(&self.source.to_be_bytes());
        head[2..4].copy_from_slice(&self.destination.to_be_bytes());
        head[4..6].copy_from_slice(&len.to_be_bytes());
        head[CHECKSUM_AT..].fill(0);
        Ok(HEADER_LEN)
    }

    /// Writes the header with the checksum over IPv4.
    ///
    /// # Errors
    ///
    /// As [`Header::write_without_checksum`].
    pub fn write_v4(&self, from: [u8; 4], to: [u8; 4], out: &mut [u8]) -> Result<usize, TooShort> {
        self.write(sum(&from) + sum(&to), out)
    }

    /// Writes the header with the checksum over IPv6.
    ///
    /// # Errors
    ///
    /// As [`Header::write_without_checksum`].
    pub fn write_v6(&self, from: [u8; 16], to: [u8; 16], out: &mut [u8]) -> Result<usize, TooShort> {
        self.write(sum(&from) + sum(&to), out)
    }

    fn write(&self, addresses: u64, out: &mut [u8]) -> Result<usize, TooShort> {
        let len = self.write_without_checksum(out)?;
        let checksum = finish_nonzero(addresses + pseudo(&[], UDP, out.len()) + sum(out));
        out[CHECKSUM_AT..HEADER_LEN].copy_from_slice(&checksum.to_be_bytes());
        Ok(len)
    }
}
