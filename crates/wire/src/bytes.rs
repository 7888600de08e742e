//! Numbers within slices, in network byte order.

use crate::TooShort;

/// Two bytes; `None` if the slice ends before.
#[inline(always)]
pub fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(array(bytes, at)?))
}

/// Four bytes; `None` if the slice ends before.
#[inline(always)]
pub fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(array(bytes, at)?))
}

/// `N` bytes; `None` if the slice ends before.
#[inline(always)]
pub fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

/// `N` bytes of a header whose length is known when it is compiled; zeros beyond it.
#[inline(always)]
pub fn field<const N: usize, const LEN: usize>(header: &[u8; LEN], at: usize) -> [u8; N] {
    match header.get(at..) {
        Some(rest) => rest.first_chunk().copied().unwrap_or([0; N]),
        None => [0; N],
    }
}

/// The first `N` bytes of what is written to.
#[inline(always)]
pub fn room<const N: usize>(out: &mut [u8]) -> Result<&mut [u8; N], TooShort> {
    out.first_chunk_mut().ok_or(TooShort)
}
