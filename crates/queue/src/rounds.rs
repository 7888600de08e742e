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

/// No more quanta are to be had now.
#[derive(Debug)]
pub(super) struct Over;

/// Which of the two lists one is on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum RoundList {
    Idle,
    New,
    Old,
    /// On neither: it waits for something other than its turn.
    Suspended,
}

/// What rounds know of one flow or host.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    /// Bytes that it may still send in this round. One packet may exceed it.
    deficit: i64,
    /// What it has to send: packets of a flow, flows of a host.
    pub waiting: u32,
    /// Bytes of these packets, where they are kept here. Queues hold less than 2^32 bytes.
    pub bytes: u32,
    next: Option<Number>,
    place: RoundList,
}

impl Turn {
    pub const IDLE: Turn = Turn { deficit: 0, waiting: 0, bytes: 0, next: None, place: RoundList::Idle };

    /// Whether it is on neither list, and waits for nothing.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.place == RoundList::Idle
    }

    /// Whether it waits for something other than its turn.
    #[inline]
    pub fn is_suspended(&self) -> bool {
        self.place == RoundList::Suspended
    }

    /// A packet of so many bytes came.
    #[inline]
    pub fn stored(&mut self, len: Bytes) {
        self.waiting += 1;
        self.bytes += len.get() as u32;
    }

    /// A packet of so many bytes was taken out.
    #[inline]
    pub fn taken(&mut self, len: Bytes) {
        self.waiting -= 1;
        self.bytes -= len.get() as u32;
    }

    /// Its turn ends, whatever is left of its quantum.
    #[inline]
    pub fn end(&mut self) {
        self.deficit = 0;
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
    /// Whoever came last; nobody that counts while there is no head.
    tail: Option<Number>,
}

impl Line {
    #[inline]
    fn push(&mut self, turns: &mut [Turn], number: Number) {
        turns[number.index()].next = None;
        match self.tail {
            Some(tail) if self.head.is_some() => turns[tail.index()].next = Some(number),
            _ => self.head = Some(number),
        }
        self.tail = Some(number);
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
        turn.place = RoundList::New;
        self.new.push(turns, Number::of(index));
    }

    /// Whose turn it is: the first with something left of its quantum and something to send. Those before it
    /// go to the end of the old ones with a fresh quantum, so that the search ends, or leave. `left`
    /// counts those that are idle now.
    #[inline]
    pub fn choose(&mut self, turns: &mut [Turn], quantum: i64, left: &mut u32) -> Option<usize> {
        self.choose_while(turns, |_| Some(quantum), left).unwrap_or_default()
    }

    /// The same, where each has a quantum of its own; none ends the search, and is an error.
    #[inline]
    pub fn choose_while(
        &mut self,
        turns: &mut [Turn],
        mut quantum: impl FnMut(usize) -> Option<i64>,
        left: &mut u32,
    ) -> Result<Option<usize>, Over> {
        loop {
            let from_new = self.new.head.is_some();
            let Some(number) = self.new.head.or(self.old.head) else { return Ok(None) };
            let turn = &mut turns[number.index()];
            if turn.deficit <= 0 {
                turn.deficit += quantum(number.index()).ok_or(Over)?;
            } else if turn.waiting > 0 {
                return Ok(Some(number.index()));
            } else if !from_new || self.old.head.is_none() {
                turn.place = RoundList::Idle;
                *left += 1;
                self.drop_first(from_new, turn.next);
                continue;
            }
            // A new one that ran empty passes through the old ones, too, or it could starve them by coming
            // again and again (RFC 8290 section 4.2).
            turn.place = RoundList::Old;
            self.drop_first(from_new, turn.next);
            self.old.push(turns, number);
        }
    }

    /// The one that was just chosen leaves the lists, with what is left of its quantum, until it is resumed.
    #[inline]
    pub fn suspend(&mut self, turns: &mut [Turn], index: usize) {
        let turn = &mut turns[index];
        turn.place = RoundList::Suspended;
        self.drop_first(self.new.head.is_some(), turn.next);
    }

    /// One that was idle has something to send, but not before it is resumed.
    pub fn put_off(&mut self, turns: &mut [Turn], index: usize, quantum: i64) {
        let turn = &mut turns[index];
        (turn.deficit, turn.place) = (quantum, RoundList::Suspended);
    }

    /// Takes one off lists that are given up, with what is left of its quantum, until it is resumed.
    pub fn put_aside(&mut self, turns: &mut [Turn], index: usize) {
        (turns[index].place, turns[index].next) = (RoundList::Suspended, None);
    }

    /// One that was suspended goes to the end of the old ones, or it could starve them by coming again and
    /// again.
    #[inline]
    pub fn resume(&mut self, turns: &mut [Turn], index: usize) {
        turns[index].place = RoundList::Old;
        self.old.push(turns, Number::of(index));
    }

    #[inline]
    fn drop_first(&mut self, from_new: bool, next: Option<Number>) {
        let line = if from_new { &mut self.new } else { &mut self.old };
        line.head = next;
    }

    /// Those whose turn comes next, if none comes or goes: the new ones, then the old ones.
    #[inline]
    pub fn coming<'a>(&self, turns: &'a [Turn]) -> impl Iterator<Item = usize> + use<'a> {
        let line = |head| {
            std::iter::successors(head, |number: &Number| turns[number.index()].next).map(Number::index)
        };
        line(self.new.head).chain(line(self.old.head))
    }

    /// The first of the new ones, else of the old ones.
    #[inline]
    pub fn first(&self) -> Option<usize> {
        self.new.head.or(self.old.head).map(Number::index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUANTUM: i64 = 1500;

    fn join(rounds: &mut Rounds, turns: &mut [Turn], index: usize, packets: u32) {
        rounds.join(turns, index, QUANTUM);
        turns[index].waiting = packets;
    }

    #[test]
    fn newcomers_go_first_and_everybody_gets_a_quantum() {
        let mut turns = [Turn::IDLE; 4];
        let mut rounds = Rounds::default();
        for index in 0..3 {
            join(&mut rounds, &mut turns, index, 100);
        }
        let (mut order, mut left) = (Vec::new(), 0);
        for step in 0..9 {
            if step == 4 {
                join(&mut rounds, &mut turns, 3, 100);
                assert_eq!(rounds.coming(&turns).collect::<Vec<_>>(), [3, 0, 1, 2]);
            }
            let index = rounds.choose(&mut turns, QUANTUM, &mut left).unwrap();
            turns[index].charge(Bytes::new(1500));
            order.push(index);
        }
        assert_eq!((order, left), (vec![0, 1, 2, 0, 3, 1, 2, 3, 0], 0));
    }

    #[test]
    fn a_new_one_that_ran_empty_passes_through_the_old_ones() {
        let mut turns = [Turn::IDLE; 2];
        let (mut rounds, mut left) = (Rounds::default(), 0);
        join(&mut rounds, &mut turns, 0, 1);
        turns[0].charge(Bytes::new(1500));
        join(&mut rounds, &mut turns, 1, 0);
        // The first becomes old; the second is empty and goes behind it.
        assert_eq!(rounds.choose(&mut turns, QUANTUM, &mut left), Some(0));
        assert!(left == 0 && !turns[1].is_idle());
        turns[0].waiting = 0;
        assert_eq!(rounds.choose(&mut turns, QUANTUM, &mut left), None);
        assert!(left == 2 && turns.iter().all(Turn::is_idle));
        // With nobody behind it, a new one leaves at once.
        join(&mut rounds, &mut turns, 1, 0);
        assert_eq!(rounds.choose(&mut turns, QUANTUM, &mut left), None);
        assert_eq!(left, 3);
    }
}
