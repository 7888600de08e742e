//! A set of sequence numbers as sorted, disjoint, non-adjacent ranges.
//!
//! Ranges arrive at the back and are used up from the front; both are cheap in a double-ended queue.

use std::collections::VecDeque;

/// First number and one past the last.
pub(crate) type Range = (u64, u64);

#[derive(Clone, Debug, Default)]
pub(crate) struct RangeSet {
    ranges: VecDeque<Range>,
}

impl RangeSet {
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// One past the highest number.
    pub fn end(&self) -> Option<u64> {
        self.ranges.back().map(|r| r.1)
    }

    /// Adds `range`, tells `fresh` the parts that are new, and returns the range it has become part of.
    pub fn insert(&mut self, range: Range, mut fresh: impl FnMut(Range)) -> Range {
        let (start, end) = range;
        match self.ranges.back_mut() {
            Some(back) if back.1 == start => {
                back.1 = end;
                fresh(range);
                *back
            }
            Some(back) if back.1 > start => self.insert_inside(range, fresh),
            _ => {
                self.ranges.push_back(range);
                fresh(range);
                range
            }
        }
    }

    fn insert_inside(&mut self, (start, end): Range, mut fresh: impl FnMut(Range)) -> Range {
        let first = self.ranges.partition_point(|r| r.1 < start);
        let mut merged = (start, end);
        let mut covered = start;
        let mut next = first;
        while let Some(&r) = self.ranges.get(next).filter(|r| r.0 <= end) {
            if covered < r.0 {
                fresh((covered, r.0));
            }
            covered = covered.max(r.1);
            merged = (merged.0.min(r.0), merged.1.max(r.1));
            next += 1;
        }
        if covered < end {
            fresh((covered, end));
        }
        if next == first {
            self.ranges.insert(first, merged);
        } else {
            self.ranges[first] = merged;
            if next > first + 1 {
                self.ranges.drain(first + 1..next);
            }
        }
        merged
    }

    /// Forgets everything below `bound`.
    pub fn remove_below(&mut self, bound: u64) {
        while let Some(front) = self.ranges.front_mut() {
            if front.1 > bound {
                front.0 = front.0.max(bound);
                return;
            }
            self.ranges.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn agrees_with_a_set(inserts in proptest::collection::vec((0u64..60, 1u64..12), 0..40), bound in 0u64..70) {
            let mut set = RangeSet::default();
            let mut model = BTreeSet::new();
            for (start, len) in inserts {
                let mut told = BTreeSet::new();
                let merged = set.insert((start, start + len), |(a, b)| told.extend(a..b));
                let new: BTreeSet<u64> = (start..start + len).filter(|s| !model.contains(s)).collect();
                prop_assert_eq!(&told, &new);
                model.extend(start..start + len);
                prop_assert!((merged.0..merged.1).all(|s| model.contains(&s)));
                prop_assert!(!model.contains(&merged.1));
            }
            set.remove_below(bound);
            model.retain(|s| *s >= bound);
            let flat: Vec<u64> = set.ranges.iter().flat_map(|r| r.0..r.1).collect();
            prop_assert_eq!(flat, model.into_iter().collect::<Vec<_>>());
            prop_assert!(set.ranges.iter().zip(set.ranges.iter().skip(1)).all(|(a, b)| a.1 < b.0));
        }
    }
}
