//! Ethernet frames (IEEE 802.3), without preamble and frame check sequence.

mod network;

pub use network::{Network, NoNetwork, network};

use crate::TooShort;
use crate::bytes::{be16, field, room};

/// Length of the header in bytes: both addresses and the type field.
pub const HEADER_LEN: usize = 14;
/// Type field of IPv4.
pub const IPV4: u16 = 0x0800;
/// Type field of ARP.
pub const ARP: u16 = 0x0806;
/// Type field of IPv6.
pub const IPV6: u16 = 0x86dd;

/// The address of an interface, as it stands in frames.
pub type MacAddr = [u8; 6];

/// Destination and source, as they stand at the beginning of a frame.
pub type Addresses = [u8; 12];

/// Both addresses of a frame.
pub fn addresses(destination: MacAddr, source: MacAddr) -> Addresses {
    let mut both = [0; 12];
    both[..6].copy_from_slice(&destination);
    both[6..].copy_from_slice(&source);
    both
}

/// Writes the header of a frame between these addresses; its length.
///
/// # Errors
///
/// If `out` is shorter than [`HEADER_LEN`].
#[inline(always)]
pub fn write(out: &mut [u8], addresses: &Addresses, ethertype: u16) -> Result<usize, TooShort> {
    let head: &mut [u8; HEADER_LEN] = room(out)?;
    head[..12].copy_from_slice(addresses);
    head[12..].copy_from_slice(&ethertype.to_be_bytes());
    Ok(HEADER_LEN)
}

/// The type field of a frame; `None` if it ends before.
#[inline(always)]
pub fn ethertype(frame: &[u8]) -> Option<u16> {
    be16(frame, HEADER_LEN - 2)
}

/// The type field of IP of a family.
#[inline(always)]
pub fn of_ip(is_v6: bool) -> u16 {
    if is_v6 { IPV6 } else { IPV4 }
}

/// Puts a header before an IP packet of a device whose frames have none, such as TUN, PPP or WireGuard: the
/// packet stands in `frame` behind the room for it. Addresses are zeros, the type is that of the packet's
/// version. Whether it is IP; else nothing is written.
#[inline]
pub fn cover(frame: &mut [u8]) -> bool {
    let is_v6 = match frame.get(HEADER_LEN).map(|first| first >> 4) {
        Some(4) => false,
        Some(6) => true,
        _ => return false,
    };
    write(frame, &[0; 12], of_ip(is_v6)).is_ok()
}

/// The type and the packet of a frame of IP without VLAN tags, for a device whose frames have no header;
/// `None` of everything else, which such a device cannot send.
#[inline]
pub fn uncover(frame: &[u8]) -> Option<(u16, &[u8])> {
    let kind = ethertype(frame).filter(|kind| matches!(*kind, IPV4 | IPV6))?;
    Some((kind, frame.get(HEADER_LEN..)?))
}

/// The address that every interface receives.
pub const BROADCAST: MacAddr = [0xff; 6];

/// The header of a frame; behind it there may be VLAN tags ([`network`] looks through them).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Which interface it is for.
    pub destination: MacAddr,
    /// Which interface sent it.
    pub source: MacAddr,
    /// What follows: a type from 1536 on, or the length of an 802.3 frame (RFC 894, RFC 1042).
    pub ethertype: u16,
}

impl Header {
    /// Reads the header; `None` of what is shorter than [`HEADER_LEN`].
    #[inline]
    pub fn read(frame: &[u8]) -> Option<Header> {
        let head: &[u8; HEADER_LEN] = frame.first_chunk()?;
        let ethertype = u16::from_be_bytes(field(head, 12));
        Some(Header { destination: field(head, 0), source: field(head, 6), ethertype })
    }

    /// Writes the header; its length.
    ///
    /// # Errors
    ///
    /// If `out` is shorter than [`HEADER_LEN`].
    #[inline(always)]
    pub fn write(&self, out: &mut [u8]) -> Result<usize, TooShort> {
        let head: &mut [u8; HEADER_LEN] = room(out)?;
        head[..6].copy_from_slice(&self.destination);
        head[6..12].copy_from_slice(&self.source);
        head[12..].copy_from_slice(&self.ethertype.to_be_bytes());
        Ok(HEADER_LEN)
    }
}

/// Whether an address is that of a group of interfaces (IEEE 802 section 8.2.2), broadcast included.
#[inline(always)]
pub fn is_group(address: &MacAddr) -> bool {
    address[0] & 1 != 0
}

/// Writes the headers of another frame up to its network header at `offset`, VLAN tags included, with another
/// destination if one is given, and with `ethertype` in front of the network header; their length.
///
/// # Errors
///
/// If `out` or `like` is shorter than `offset`, or `offset` less than [`HEADER_LEN`].
pub fn write_like(
    out: &mut [u8],
    like: &[u8],
    offset: usize,
    destination: Option<MacAddr>,
    ethertype: u16,
) -> Result<usize, TooShort> {
    let head = out.get_mut(..offset).filter(|_| offset >= HEADER_LEN).ok_or(TooShort)?;
    head.copy_from_slice(like.get(..offset).ok_or(TooShort)?);
    if let Some(destination) = destination {
        head[..6].copy_from_slice(&destination);
    }
    head[offset - 2..].copy_from_slice(&ethertype.to_be_bytes());
    Ok(offset)
}

/// Exchanges source and destination of a frame; one without a whole header stays as it is.
pub fn reverse(frame: &mut [u8]) {
    if let Some(head) = frame.first_chunk_mut::<HEADER_LEN>() {
        let (to, from) = head[..12].split_at_mut(6);
        to.swap_with_slice(from);
    }
}
