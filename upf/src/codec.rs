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
    /// Reads a datagram, which may be anything.
    fn decode(&self, datagram: &[u8]) -> Result<Message, Malformed>;

    /// Writes a message behind what is in `out`.
    fn encode(&self, message: &Message, out: &mut Vec<u8>);
}

/// Why a datagram is no message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Malformed {
    /// It is of another version of the protocol, and must be answered.
    #[error("of another version")]
    Version {
        /// Sequence number, where the answer can name it.
        sequence: u32,
    },
    /// It is shorter than it says, or longer.
    #[error("of a length that it does not say")]
    Length,
    /// An element ends behind the message.
    #[error("with an element that ends behind it")]
    Truncated,
    /// There is more in it than a message has.
    #[error("of more elements than a message has")]
    TooMuch,
}
