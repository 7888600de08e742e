//! GTP-U, the tunnels of the user plane (3GPP TS 29.281), with the PDU session container of 5G (TS 38.415).
//!
//! Messages are read from and written to byte slices: the payload of a UDP datagram. Reading never panics and
//! takes bounded time; what does not add up is told by its cause ([`Fault`]).

mod read;
mod write;

pub use read::read;
pub(crate) use write::of_way;
pub use write::{
    END_MARKER_LEN, SIGNALLING_MAX, header_len, write_echo_request, write_echo_response, write_end_marker,
    write_error_indication, write_header, write_supported_extensions,
};

use core::net::IpAddr;

/// The UDP port that tunnels are at.
pub const PORT: u16 = 2152;
/// The header that every message has.
pub const HEADER: usize = 8;
/// Most extension headers of one message; a longer chain is malformed.
pub const EXTENSIONS_MAX: usize = 8;

/// Message types.
mod kind {
    pub const ECHO_REQUEST: u8 = 1;
    pub const ECHO_RESPONSE: u8 = 2;
    pub const ERROR_INDICATION: u8 = 26;
    pub const SUPPORTED_EXTENSIONS: u8 = 31;
    pub const END_MARKER: u8 = 254;
    pub const G_PDU: u8 = 255;
}

/// Information elements.
mod element {
    pub const RECOVERY: u8 = 14;
    pub const TEID: u8 = 16;
    pub const PEER_ADDRESS: u8 = 133;
    pub const EXTENSION_TYPES: u8 = 141;
}

/// Bits of the first octet.
mod flag {
    pub const VERSION_1: u8 = 0x20;
    pub const PROTOCOL: u8 = 0x10;
    pub const EXTENSION: u8 = 0x04;
    pub const SEQUENCE: u8 = 0x02;
    pub const ANY: u8 = 0x07;
}

/// The extension header with the PDU session container.
pub const PDU_SESSION_CONTAINER: u8 = 0x85;

/// A message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Message {
    /// A packet in a tunnel (G-PDU).
    Packet(GPdu),
    /// Somebody asks whether we are there.
    EchoRequest {
        /// Comes back in the response.
        sequence: u16,
    },
    /// Somebody is there.
    EchoResponse {
        /// That of the request.
        sequence: u16,
    },
    /// The other end does not know a tunnel into which we sent.
    ErrorIndication {
        /// Its number there.
        teid: u32,
        /// Its host.
        peer: IpAddr,
    },
    /// Nothing more comes in this tunnel.
    EndMarker {
        /// Its number here.
        teid: u32,
    },
    /// The extension headers that the other end understands; nothing follows from it.
    SupportedExtensions,
}

/// A packet in a tunnel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GPdu {
    /// Number of the tunnel here.
    pub teid: u32,
    /// What its PDU session container says, if it has one.
    pub container: Option<Container>,
    /// Where the packet begins in the message.
    pub start: usize,
    /// Where it ends.
    pub end: usize,
}

/// A PDU session container.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Container {
    /// Which way the packet goes.
    pub way: Way,
    /// The QoS flow.
    pub qfi: u8,
}

/// Direction of a PDU session container.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// To the user equipment.
    Down,
    /// From it.
    Up,
}

/// Why a message is not understood.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Fault {
    /// It is shorter than its header, or than its length field says.
    Short,
    /// It is of another version, or of charging (GTP').
    Version,
    /// Its extension headers do not fit in it, or there are too many.
    Extension,
    /// It has an extension header that must be understood and is not.
    NotComprehended(u8),
    /// Its PDU session container contradicts itself.
    Container,
    /// Nobody knows its type.
    Kind(u8),
    /// An information element is missing or does not fit.
    Element,
}
