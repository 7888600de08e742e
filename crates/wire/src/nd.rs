//! Neighbour discovery of IPv6 (RFC 4861): solicitations and advertisements.

use crate::bytes::array;
use crate::checksum::{finish, pseudo, sum};
use crate::ethernet::MacAddr;
use crate::ip::ICMPV6;
use crate::{TooShort, ipv6};

/// Length of a written packet in bytes: IPv6 header, message, and one link-layer address.
pub const LEN: usize = ipv6::HEADER_LEN + MESSAGE + 8;
/// Hop limit of all messages: nobody who is not on the link can send them (section 7.1).
const HOPS: u8 = 255;
/// A message without options.
const MESSAGE: usize = 24;
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
const SOURCE_LINK_ADDRESS: u8 = 1;
const TARGET_LINK_ADDRESS: u8 = 2;

/// Flag of advertisements: the sender is a router (section 4.4).
pub const ROUTER: u8 = 0x80;
/// Flag of advertisements: the answer to a solicitation.
pub const SOLICITED: u8 = 0x40;
/// Flag of advertisements: what was known before is to be replaced.
pub const OVERRIDE: u8 = 0x20;

/// What a message is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Who has the target?
    Solicitation,
    /// I have.
    Advertisement {
        /// [`ROUTER`] and the like.
        flags: u8,
    },
}

/// A message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message {
    /// Who sent it; zeros while that has no address (duplicate address detection, RFC 4862).
    pub source: [u8; 16],
    /// Whom it is for.
    pub destination: [u8; 16],
    /// What it is.
    pub kind: Kind,
    /// The address in question.
    pub target: [u8; 16],
    /// In a solicitation the interface of its source, in an advertisement that of the target; may be left
    /// out.
    pub mac: Option<MacAddr>,
}

/// Why a packet is no message of neighbour discovery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoMessage {
    /// It is something else.
    Other,
    /// It breaks a rule of RFC 4861 section 7.1 and is to be discarded without a word: it comes from another
    /// link, has a wrong checksum, or contradicts itself.
    Invalid,
}

impl Message {
    /// Reads an IPv6 packet from its first byte on; bytes behind its length are padding.
    ///
    /// # Errors
    ///
    /// If it is something else, or not valid by RFC 4861 section 7.1.
    pub fn read(packet: &[u8]) -> Result<Message, NoMessage> {
        let ip = ipv6::Packet::read(packet).ok_or(NoMessage::Other)?;
        let message = ip.payload();
        let kind = match (ip.next_header(), message.first()) {
            (ICMPV6, Some(&SOLICITATION)) => Kind::Solicitation,
            (ICMPV6, Some(&ADVERTISEMENT)) => {
                Kind::Advertisement { flags: message.get(4).map_or(0, |f| f & 0xe0) }
            }
            _ => return Err(NoMessage::Other),
        };
        let target: [u8; 16] = array(message, 8).ok_or(NoMessage::Invalid)?;
        let is_for_many = ip.destination()[0] == 0xff;
        let contradicts = match kind {
            Kind::Solicitation => false,
            Kind::Advertisement { flags } => flags & SOLICITED != 0 && is_for_many,
        };
        let checksum = finish(pseudo(ip.addresses(), ICMPV6, message.len()) + sum(message));
        if ip.hops() != HOPS || message[1] != 0 || checksum != 0 || target[0] == 0xff || contradicts {
            return Err(NoMessage::Invalid);
        }
        let mac = link_address(&message[MESSAGE..], option_of(kind))?;
        let source = ip.source();
        // Who has no address asks the group of the target, and tells no interface (section 7.1.1).
        let is_anonymous = source == [0; 16] && kind == Kind::Solicitation;
        if is_anonymous && (mac.is_some() || ip.destination() != solicited_group(target)) {
            return Err(NoMessage::Invalid);
        }
        Ok(Message { source, destination: ip.destination(), kind, target, mac })
    }

    /// Writes the packet with its IPv6 header; its length.
    ///
    /// # Errors
    ///
    /// If `out` is shorter than the packet, at most [`LEN`].
    pub fn write(&self, out: &mut [u8]) -> Result<usize, TooShort> {
        let len = if self.mac.is_some() { LEN } else { LEN - 8 };
        let packet = out.get_mut(..len).ok_or(TooShort)?;
        let header = ipv6::Header {
            payload_len: (len - ipv6::HEADER_LEN) as u16,
            next_header: ICMPV6,
            hops: HOPS,
            ..ipv6::Header::new(self.source, self.destination)
        };
        let at = header.write(packet)?;
        let message = &mut packet[at..];
        let (kind, flags) = match self.kind {
            Kind::Solicitation => (SOLICITATION, 0),
            Kind::Advertisement { flags } => (ADVERTISEMENT, flags & 0xe0),
        };
        message[..8].copy_from_slice(&[kind, 0, 0, 0, flags, 0, 0, 0]);
        message[8..MESSAGE].copy_from_slice(&self.target);
        if let Some(mac) = self.mac {
            message[MESSAGE..MESSAGE + 2].copy_from_slice(&[option_of(self.kind), 1]);
            message[MESSAGE + 2..].copy_from_slice(&mac);
        }
        let addresses = sum(&self.source) + sum(&self.destination);
        let checksum = finish(addresses + pseudo(&[], ICMPV6, message.len()) + sum(message));
        message[2..4].copy_from_slice(&checksum.to_be_bytes());
        Ok(len)
    }
}

fn option_of(kind: Kind) -> u8 {
    match kind {
        Kind::Solicitation => SOURCE_LINK_ADDRESS,
        Kind::Advertisement { .. } => TARGET_LINK_ADDRESS,
    }
}

/// The group that everybody with an address like this listens to (RFC 4291 section 2.7.1).
pub fn solicited_group(address: [u8; 16]) -> [u8; 16] {
    let [.., a, b, c] = address;
    [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, a, b, c]
}

/// Where frames for a group go (RFC 2464 section 7).
pub fn group_mac(group: [u8; 16]) -> MacAddr {
    let [.., a, b, c, d] = group;
    [0x33, 0x33, a, b, c, d]
}

/// The address in the first option of a kind; all options have to be right.
fn link_address(mut options: &[u8], wanted: u8) -> Result<Option<MacAddr>, NoMessage> {
    let mut found = None;
    // Each option has eight bytes at least.
    while !options.is_empty() {
        let len = options.get(1).map_or(0, |units| usize::from(*units) * 8);
        let option = options.get(..len).filter(|option| !option.is_empty()).ok_or(NoMessage::Invalid)?;
        if option[0] == wanted && found.is_none() {
            found = array(option, 2);
        }
        options = &options[len..];
    }
    Ok(found)
}
