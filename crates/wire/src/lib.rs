//! Packet headers, read and written in one place.
//!
//! | module | what | where it is defined |
//! | --- | --- | --- |
//! | [`ethernet`], [`vlan`] | frames, 802.1Q tags and QinQ | IEEE 802.3, 802.1Q |
//! | [`arp`], [`nd`] | address resolution | RFC 826, RFC 4861 |
//! | [`ipv4`], [`ipv6`], [`ip`] | packets, extension headers, fragments; both families alike | RFC 791, RFC 8200 |
//! | [`icmp`] | errors and echoes of both families | RFC 792, RFC 4443 |
//! | [`udp`], [`tcp`], [`quic`], [`transport`] | what transports show | RFC 768, RFC 9293, RFC 8999 |
//! | [`gtpu`], [`tunnel`] | tunnels of the 5G user plane, and what stands in front of them | TS 29.281, TS 38.415 |
//! | [`dscp`] | names of code points, and remarks of a link | RFC 2474 |
//! | [`checksum`] | the Internet checksum | RFC 1071, RFC 1624 |
//! | [`flow_hash`], [`frame`] | the hash of a flow; a frame as the packet path needs it | |
//!
//! **Reading** never panics and takes bounded time, whatever the bytes are: chains of headers are followed up
//! to a limit with a name ([`vlan::TAGS_MAX`], [`ipv6::EXTENSIONS_MAX`], [`gtpu::EXTENSIONS_MAX`],
//! [`quic::COALESCED_MAX`]). Readers take a slice that may be longer than the packet, because Ethernet pads
//! short frames, and refuse one that is shorter than the packet says.
//!
//! **Writing** goes into a slice of the caller and fails with [`TooShort`] if it has no room. What was
//! written reads as the same.
//!
//! Lengths are in bytes, ports and other numbers in host order, addresses in the order in which they are
//! sent.
//!
//! ```
//! use weir_wire::{ethernet, frame, ipv4, udp};
//!
//! // A datagram of four bytes from 10.0.0.1:5000 to 10.0.0.2:443, in a frame.
//! let mut bytes = [0; 46];
//! let ethernet = ethernet::Header { destination: [2; 6], source: [4; 6], ethertype: ethernet::IPV4 };
//! let ip = ipv4::Header {
//!     payload_len: 12,
//!     protocol: weir_wire::ip::UDP,
//!     traffic_class: 0b10,
//!     ..ipv4::Header::new([10, 0, 0, 1], [10, 0, 0, 2])
//! };
//! ethernet.write(&mut bytes)?;
//! ip.write(&mut bytes[14..])?;
//! bytes[42..].copy_from_slice(b"data");
//! udp::Header { source: 5000, destination: 443 }.write_v4(ip.source, ip.destination, &mut bytes[34..])?;
//!
//! let read = frame::read(&bytes);
//! assert_eq!((read.kind, read.network), (frame::Kind::Ipv4, 14));
//! assert_eq!(read.ecn, weir_units::Ecn::Ect0);
//! let packet = ipv4::Packet::read(&bytes[14..]).expect("it is whole");
//! assert_eq!(packet.header(), ip);
//! assert_eq!(udp::Datagram::read(packet.payload()).expect("it is whole").payload(), b"data");
//! # Ok::<(), weir_wire::TooShort>(())
//! ```
#![no_std]
#![forbid(unsafe_code)]
#![deny(clippy::disallowed_methods)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

#[cfg(test)]
extern crate std;

pub mod arp;
mod bytes;
pub mod checksum;
pub mod dscp;
pub mod ethernet;
pub mod flow_hash;
mod fragment;
pub mod frame;
pub mod gtpu;
pub mod icmp;
pub mod ip;
pub mod ipv4;
pub mod ipv6;
pub mod nd;
mod pure_ack;
pub mod quic;
pub mod tcp;
pub mod transport;
pub mod tunnel;
pub mod udp;
pub mod vlan;

pub use pure_ack::PureAck;

/// The buffer is too short for what is to be written. Nothing was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooShort;

impl core::fmt::Display for TooShort {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("the buffer is too short for the header that is to be written")
    }
}

impl core::error::Error for TooShort {}
