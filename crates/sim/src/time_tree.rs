//! When each link acts next, and which is first.

use crate::service::NEVER;
use weir_units::Time;

/// A tournament of times: the first of them at once, a change in the logarithm of their number. Among equal
/// times the smallest number is first.
pub struct TimeTree {
    /// Node `i` has the earlier of `2i` and `2i + 1`; the leaves begin in the middle.
    tree: Vec<Time>,
}

impl TimeTree {
    /// For `count` numbers from 0, at none of which anything happens.
    pub fn new(count: usize) -> TimeTree {
        TimeTree { tree: vec![NEVER; 2 * count.next_power_of_two()] }
    }

    /// The earliest time; [`NEVER`] if nothing happens.
    #[inline]
    pub fn time(&self) -> Time {
        self.tree[1]
    }

    /// Whose time it is that is the earliest.
    #[inline]
    pub fn number(&self) -> usize {
        let leaves = self.tree.len() / 2;
        let mut at = 1;
        while at < leaves {
            at = 2 * at + usize::from(self.tree[2 * at] > self.tree[2 * at + 1]);
        }
        at - leaves
    }

    /// The time of a number.
    #[inline]
    pub fn get(&self, number: usize) -> Time {
        self.tree[self.tree.len() / 2 + number]
    }

    /// Sets the time of a number.
    #[inline]
    pub fn set(&mut self, number: usize, time: Time) {
        let mut at = self.tree.len() / 2 + number;
        self.tree[at] = time;
        while at > 1 {
            at /= 2;
            self.tree[at] = self.tree[2 * at].min(self.tree[2 * at + 1]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_found_whatever_their_number() {
        for count in 1..20 {
            let mut soonest = TimeTree::new(count);
            assert_eq!(soonest.time(), NEVER);
            let mut times = vec![NEVER; count];
            for step in 0..200usize {
                let (number, time) = (step * 7 % count, Time::from_nanos((step * 31 % 17) as u64));
                times[number] = time;
                soonest.set(number, time);
                let first = times.iter().enumerate().min_by_key(|(i, t)| (**t, *i)).unwrap();
                assert_eq!((soonest.number(), soonest.time()), (first.0, *first.1));
                assert_eq!(soonest.get(number), time);
            }
        }
    }
}
