//! The two end hosts of a testbed.

/// An end host of the testbed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Side {
    /// The one on the `a` side, where forward data comes from.
    Sender,
    /// The one on the `b` side.
    Receiver,
}

impl Side {
    /// The end host on the other side.
    pub fn other(self) -> Side {
        match self {
            Side::Sender => Side::Receiver,
            Side::Receiver => Side::Sender,
        }
    }
}
