//! The Internet checksum (RFC 1071), its incremental update (RFC 1624), and the pseudo-headers of TCP, UDP
//! and ICMPv6.

/// Sum of big-endian 16-bit words; an odd last byte is the high one.
#[inline]
pub fn sum(bytes: &[u8]) -> u64 {
    let pairs = bytes.chunks_exact(2);
    let last = pairs.remainder().first().map_or(0, |b| u64::from(*b) << 8);
    pairs.map(|p| u64::from(u16::from_be_bytes([p[0], p[1]]))).sum::<u64>() + last
}

/// The checksum of a sum. Zero for what holds its own, right checksum.
#[inline]
pub fn finish(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// The checksum of a sum as UDP sends it: zero would say that there is none (RFC 768, RFC 8200 section 8.1),
/// so that its complement is sent.
#[inline]
pub fn finish_nonzero(sum: u64) -> u16 {
    match finish(sum) {
        0 => 0xffff,
        other => other,
    }
}

/// Sum of a pseudo-header (RFC 9293 section 3.1, RFC 8200 section 8.1). `addresses` are source and
/// destination, one behind the other; `len` is the length of the transport's header and payload in bytes.
#[inline]
pub fn pseudo(addresses: &[u8], protocol: u8, len: usize) -> u64 {
    // The length of IPv6 has 32 bits, but no packet here is longer than 65575 bytes: its carry folds in all
    // the same.
    sum(addresses) + u64::from(protocol) + len as u64
}

/// A checksum after a word it covers went from `old` to `new` (RFC 1624 section 3, equation 3).
#[inline]
pub fn update(checksum: u16, old: u16, new: u16) -> u16 {
    let sum = u32::from(!checksum) + u32::from(!old) + u32::from(new);
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    !(sum as u16)
}
