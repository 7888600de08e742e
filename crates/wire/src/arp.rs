//! Address resolution of IPv4 on Ethernet (RFC 826).

use crate::TooShort;
use crate::bytes::{field, room};
use crate::ethernet::MacAddr;

/// Length of a message in bytes, behind the header of its frame.
pub const LEN: usize = 28;
/// Operation: who has an address?
pub const REQUEST: u16 = 1;
/// Operation: I have.
pub const REPLY: u16 = 2;
/// Ethernet and IPv4, addresses of six and of four bytes.
const ETHERNET_IPV4: [u8; 6] = [0, 1, 8, 0, 6, 4];

/// A message about IPv4 addresses on Ethernet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message {
    /// [`REQUEST`] or [`REPLY`]; others are passed on as they are.
    pub operation: u16,
    /// The interface that says it.
    pub sender_mac: MacAddr,
    /// Its address.
    pub sender: [u8; 4],
    /// The interface in question; without meaning in a request.
    pub target_mac: MacAddr,
    /// The address in question.
    pub target: [u8; 4],
}

impl Message {
    /// Reads a message from behind the header of its frame on; bytes behind it are padding. `None` if it is
    /// cut or about other kinds of addresses.
    pub fn read(bytes: &[u8]) -> Option<Message> {
        let arp: &[u8; LEN] = bytes.first_chunk()?;
        (arp[..6] == ETHERNET_IPV4).then(|| Message {
            operation: u16::from_be_bytes(field(arp, 6)),
            sender_mac: field(arp, 8),
            sender: field(arp, 14),
            target_mac: field(arp, 18),
            target: field(arp, 24),
        })
    }

    /// Writes the message; its length.
    ///
    /// # Errors
    ///
    /// If `out` is shorter than [`LEN`].
    pub fn write(&self, out: &mut [u8]) -> Result<usize, TooShort> {
        let arp: &mut [u8; LEN] = room(out)?;
        arp[..6].copy_from_slice(&ETHERNET_IPV4);
        arp[6..8].copy_from_slice(&self.operation.to_be_bytes());
        arp[8..14].copy_from_slice(&self.sender_mac);
        arp[14..18].copy_from_slice(&self.sender);
        arp[18..24].copy_from_slice(&self.target_mac);
        arp[24..].copy_from_slice(&self.target);
        Ok(LEN)
    }
}
