//! DRR++: deficit round robin in which newcomers go first (RFC 8290 section 4.2).
//!
//! The same rounds serve flows and, with host fairness, hosts.

use std::num::NonZeroU32;
use weir_units::Bytes;

/// Number of a flow or host; starts with 1 so that "none" costs no space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Number(NonZeroU32);

impl Number {
    fn of(index: usize) -> Number {
        let number = u32::try_from(index + 1).ok().and_then(NonZeroU32::new);
        Number(number.expect("there are fewer than 2^32 flows"))
    }

    fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// Which of the two lists one is on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Idle,
    New,
    Old,
}

/// What rounds know of one flow or host.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    /// Bytes that it may still send in this round. One packet may exceed it.
    deficit: i64,
    next: Option<Number>,
    place: Place,
}

impl Turn {
    pub const IDLE: Turn = Turn { deficit: 0, next: None, place: Place::Idle };

    /// Whether it is on neither list.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.place == Place::Idle
    }

    /// It sent a packet.
    #[inline]
    pub fn charge(&mut self, len: Bytes) {
        self.deficit -= len.get() as i64;
    }
}

#[derive(Clone, Copy, Default, Debug)]
struct Line {
    head: Option<Number>,
    tail: Option<Number>,
}

impl Line {
    #[inline]
    fn push(&mut self, turns: &mut [Turn], number: Number) {
        turns[number.index()].next = None;
        match self.tail {
            Some(tail) => turns[tail.index()].next = Some(number),
            None => self.head = Some(number),
        }
        self.tail = Some(number);
    }

    #[inline]
    fn pop(&mut self, turns: &[Turn]) -> Option<Number> {
        let head = self.head?;
        self.head = turns[head.index()].next;
        if self.head.is_none() {
            self.tail = None;
        }
        Some(head)
    }
}

/// The two lists. The turns lie elsewhere, as the flows of several hosts share an array.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Rounds {
    new: Line,
    old: Line,
}

impl Rounds {
    /// One that was idle has something to send: it goes first, for one quantum.
    #[inline]
    pub fn join(&mut self, turns: &mut [Turn], index: usize, quantum: i64) {
        let turn = &mut turns[index];
        turn.deficit = quantum;
        turn.place = Place::New;
        self.new.push(turns, Number::of(index));
    }

    /// Whose turn it is: the first that has something left of its quantum. Those before it go to the end of
    /// the old ones with a fresh quantum, so that the search ends.
    #[inline]
    pub fn choose(&mut self, turns: &mut [Turn], quantum: i64) -> Option<usize> {
        loop {
            let from_new = self.new.head.is_some();
            let index = self.first()?;
            if turns[index].deficit > 0 {
                return Some(index);
            }
            let line = if from_new { &mut self.new } else { &mut self.old };
            let number = line.pop(turns)?;
            let turn = &mut turns[index];
            turn.deficit += quantum;
            turn.place = Place::Old;
            self.old.push(turns, number);
        }
    }

    /// The first of the new ones, else of the old ones.
    #[inline]
    pub fn first(&self) -> Option<usize> {
        self.new.head.or(self.old.head).map(Number::index)
    }

    /// The first has nothing to send. Returns whether it is idle now: a new one with old ones behind it first
    /// passes through their list, or it could starve them by coming again and again (RFC 8290 section 4.2).
    #[inline]
    pub fn retire_first(&mut self, turns: &mut [Turn]) -> bool {
        let was_new = self.new.head.is_some();
        let line = if was_new { &mut self.new } else { &mut self.old };
        let Some(number) = line.pop(turns) else { return false };
        let turn = &mut turns[number.index()];
        if was_new && self.old.head.is_some() {
            turn.place = Place::Old;
            self.old.push(turns, number);
            return false;
        }
        turn.place = Place::Idle;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUANTUM: i64 = 1500;

    #[test]
    fn newcomers_go_first_and_everybody_gets_a_quantum() {
        let mut turns = [Turn::IDLE; 4];
        let mut rounds = Rounds::default();
        for index in 0..3 {
            rounds.join(&mut turns, index, QUANTUM);
        }
        let mut order = Vec::new();
        for step in 0..9 {
            if step == 4 {
                rounds.join(&mut turns, 3, QUANTUM);
            }
            let index = rounds.choose(&mut turns, QUANTUM).unwrap();
            turns[index].charge(Bytes::new(1500));
            order.push(index);
        }
        assert_eq!(order, [0, 1, 2, 0, 3, 1, 2, 3, 0]);
    }

    #[test]
    fn a_new_one_that_ran_empty_passes_through_the_old_ones() {
        let mut turns = [Turn::IDLE; 2];
        let mut rounds = Rounds::default();
        rounds.join(&mut turns, 0, QUANTUM);
        turns[0].charge(Bytes::new(1500));
        rounds.join(&mut turns, 1, QUANTUM);
        // The first is old by now; the second is empty at once.
        assert_eq!(rounds.choose(&mut turns, QUANTUM), Some(1));
        assert!(!rounds.retire_first(&mut turns) && !turns[1].is_idle());
        assert_eq!(rounds.choose(&mut turns, QUANTUM), Some(0));
        assert!(rounds.retire_first(&mut turns) && turns[0].is_idle());
        assert!(rounds.retire_first(&mut turns) && turns[1].is_idle());
        assert_eq!(rounds.choose(&mut turns, QUANTUM), None);
    }
}
