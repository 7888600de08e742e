//! What did not add up.

/// Things that honest hosts do not do, or rarely; each was left out of every estimate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Suspicions {
    /// Acknowledgements of data that had not passed.
    pub acks_beyond: u64,
    /// Sequence numbers that jumped further than any window.
    pub sequence_jumps: u64,
    /// TSvals that went back further than reordering can take them.
    pub stamp_jumps: u64,
    /// Edges of the spin bit that did not take turns between the two directions.
    pub spin_out_of_turn: u64,
    /// Windows of edges after which the spin bit of a connection was not believed.
    pub spin_distrusted: u64,
    /// Round-trip times of the spin bit that were far from those before.
    pub spin_outliers: u64,
    /// Packets of flows that found no place in the table.
    pub untracked: u64,
}
