//! The Internet checksum (RFC 1071).

/// Sum of big-endian 16-bit words; an odd last byte is the high one.
pub fn sum(bytes: &[u8]) -> u64 {
    let pairs = bytes.chunks_exact(2);
    let last = pairs.remainder().first().map_or(0, |b| u64::from(*b) << 8);
    pairs.map(|p| u64::from(u16::from_be_bytes([p[0], p[1]]))).sum::<u64>() + last
}

/// The checksum of a sum. Zero for what holds its own, right checksum.
pub fn finish(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}
