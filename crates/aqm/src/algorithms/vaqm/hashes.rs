//! Sets of flows that take the same room however many flows are in them.

/// Flows, by two bits for each among those of so many words: one may be taken for a member that is none, and
/// none is forgotten.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hashes<const WORDS: usize>([u64; WORDS]);

impl<const WORDS: usize> Default for Hashes<WORDS> {
    fn default() -> Self {
        Hashes([0; WORDS])
    }
}

impl<const WORDS: usize> Hashes<WORDS> {
    fn bits(flow: u32) -> [(usize, u64); 2] {
        let mixed = u64::from(flow).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        [mixed >> 48, mixed >> 32].map(|bit| ((bit >> 6) as usize % WORDS, 1 << (bit & 63)))
    }

    /// A flow belongs to them.
    pub fn insert(&mut self, flow: u32) {
        Self::bits(flow).into_iter().for_each(|(word, bit)| self.0[word] |= bit);
    }

    /// Whether it may.
    pub fn contains(&self, flow: u32) -> bool {
        Self::bits(flow).into_iter().all(|(word, bit)| self.0[word] & bit != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_flows_are_taken_for_others() {
        let mut hashes = Hashes::<4>::default();
        (0..32u32).for_each(|flow| hashes.insert(flow.wrapping_mul(0x85eb_ca6b)));
        let taken = (32..10_032u32).filter(|flow| hashes.contains(flow.wrapping_mul(0x85eb_ca6b))).count();
        // A share of (1 - (1 - 1/256)^64)^2 is expected: 4.9 %.
        assert!((300..700).contains(&taken), "{taken}");
    }
}
