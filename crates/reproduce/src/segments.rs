//! Which segments of a connection have passed a link.

use std::collections::{BTreeMap, BTreeSet};

/// Segments that have passed, of every connection.
pub type Connections = BTreeMap<(u32, u32, u16), Segments>;

/// Segments of one connection that have passed.
#[derive(Default)]
pub struct Segments {
    /// All below have passed.
    next: u64,
    /// Those that have passed above a hole.
    beyond: BTreeSet<u64>,
}

impl Segments {
    /// Notes a segment. Returns how many become available to the receiving application with it; nothing if it
    /// has passed before.
    pub fn note(&mut self, seq: u64) -> Option<u64> {
        if seq < self.next || !self.beyond.insert(seq) {
            return None;
        }
        let before = self.next;
        while self.beyond.remove(&self.next) {
            self.next += 1;
        }
        Some(self.next - before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_counts_once_and_is_available_when_the_hole_is_filled() {
        let mut segments = Segments::default();
        let noted = [0, 1, 3, 4, 3, 2, 2, 5].map(|seq| segments.note(seq));
        assert_eq!(noted, [Some(1), Some(1), Some(0), Some(0), None, Some(3), None, Some(1)]);
    }
}
