//! Datagrams to messages and back.

mod pfcp;

pub use pfcp::Pfcp;

use crate::message::Message;

/// Most levels of elements within elements; a message of TS 29.244 has three.
pub const DEPTH_MAX: usize = 6;
/// Most elements of a message, those within others included.
pub const ELEMENTS_MAX: usize = 4096;

/// Turns datagrams into messages and back.
pub trait Codec {
    /// The first message of a datagram, and what follows it: a message may say that others do (Follow On).
    fn split<'a>(&self, datagram: &'a [u8]) -> (&'a [u8], &'a [u8]);

    /// Reads a message, which may be anything.
    fn decode(&self, octets: &[u8]) -> Result<Message, Malformed>;

    /// Writes a message behind what is in `out`.
    fn encode(&self, message: &Message, out: &mut Vec<u8>);
}

/// Why octets are no message (TS 29.244 section 7.6).
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Malformed {
    /// They are of another version of the protocol.
    #[error("of another version")]
    Version {
        /// What kind of message it would be here.
        kind: u8,
        /// Sequence number, where the answer can name it.
        sequence: u32,
    },
    /// They are too short for a header.
    #[error("too short for a header")]
    Short,
    /// The header can be read, and what follows cannot.
    #[error("{flaw}")]
    Broken {
        /// The header, and the elements before the flaw.
        message: Box<Message>,
        /// What is wrong.
        flaw: Flaw,
    },
}

/// What is wrong behind the header of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Flaw {
    /// The message is shorter than it says, or longer.
    #[error("of a length that it does not say")]
    Length,
    /// An element of this type ends behind what it is in, or its parts do not fill it.
    #[error("with an element of a length that does not fit")]
    Element(u16),
    /// There is more in it than a message has.
    #[error("of more elements than a message has")]
    TooMuch,
}
