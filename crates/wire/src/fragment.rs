//! Parts of a packet that was cut (RFC 791, RFC 8200 section 4.5).

/// Which part of a packet something is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fragment {
    /// All of it.
    Whole,
    /// The fragment with its beginning, and so with the header of its transport.
    First,
    /// Another fragment: what stands where a transport's header would be are data.
    Later,
}
