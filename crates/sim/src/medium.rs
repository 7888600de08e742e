//! A medium that links share: they take turns.

/// The links of a medium, and whose turn it is.
#[derive(Clone, Debug)]
pub struct Medium {
    /// Numbers of the links, in order.
    members: Vec<usize>,
    /// Position of the one that is asked first.
    turn: usize,
}

impl Medium {
    /// A medium of these links; the first is asked first.
    pub fn new(members: Vec<usize>) -> Medium {
        Medium { members, turn: 0 }
    }

    /// Its links.
    pub fn members(&self) -> &[usize] {
        &self.members
    }

    /// The first link from the turn on that has something to send. The turn passes to the one behind it.
    pub fn next(&mut self, waits: impl Fn(usize) -> bool) -> Option<usize> {
        let count = self.members.len();
        let place = (0..count).map(|i| (self.turn + i) % count).find(|place| waits(self.members[*place]))?;
        self.turn = (place + 1) % count;
        Some(self.members[place])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_wait_take_turns() {
        let mut medium = Medium::new(vec![3, 5, 8]);
        let order: Vec<_> = (0..4).map(|_| medium.next(|_| true)).collect();
        assert_eq!(order, [Some(3), Some(5), Some(8), Some(3)]);
        let order: Vec<_> = (0..3).map(|_| medium.next(|link| link != 5)).collect();
        assert_eq!(order, [Some(8), Some(3), Some(8)]);
        assert_eq!(medium.next(|_| false), None);
        assert_eq!(medium.next(|_| true), Some(3), "nobody's turn was lost");
    }
}
