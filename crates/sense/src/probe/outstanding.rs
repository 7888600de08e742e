//! Which probes are on their way.

use weir_units::Time;

/// Probes that can be told apart at once; older ones are given up. At the highest default rate this is four
/// seconds of probes.
pub const WINDOW: usize = 4096;

/// What became of a probe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    Unused,
    Underway,
    Returned,
    Lost,
}

/// A probe that came back for the first time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Arrival {
    pub sent: Time,
    pub dscp: u8,
    /// It had been given up.
    pub was_lost: bool,
    /// One sent later came back before.
    pub reordered: bool,
}

/// What the table knows about a sequence number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum KnownProbe {
    /// Not one of the last [`WINDOW`] probes.
    No,
    /// It came back already.
    Returned,
    /// Sent then, and not back yet.
    Sent(Time),
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    sent: Time,
    fate: Fate,
    dscp: u8,
}

/// The last [`WINDOW`] probes. Numbers count up from zero; sixteen bits of them travel, and the window
/// divides 65536, so that a number that travelled finds its entry.
#[derive(Clone, Debug)]
pub(super) struct Outstanding {
    entries: [Entry; WINDOW],
    /// The number of the next probe.
    next: u64,
    /// No probe before this one is underway.
    oldest: u64,
    /// The newest probe that came back.
    newest_back: Option<u64>,
}

impl Outstanding {
    pub fn new() -> Outstanding {
        let unused = Entry { sent: Time::ZERO, fate: Fate::Unused, dscp: 0 };
        Outstanding { entries: [unused; WINDOW], next: 0, oldest: 0, newest_back: None }
    }

    fn slot(number: u64) -> usize {
        number as usize % WINDOW
    }

    /// Numbers a probe; true if the one whose place it takes never came back.
    pub fn push(&mut self, sent: Time, dscp: u8) -> (u16, bool) {
        let entry = &mut self.entries[Self::slot(self.next)];
        let gave_up = entry.fate == Fate::Underway;
        *entry = Entry { sent, fate: Fate::Underway, dscp };
        let sequence = self.next as u16;
        self.next += 1;
        self.oldest = self.oldest.max(self.next.saturating_sub(WINDOW as u64));
        self.pass();
        (sequence, gave_up)
    }

    /// The number behind a sequence that travelled, if it is one of the last [`WINDOW`].
    fn number(&self, sequence: u16) -> Option<u64> {
        let back = (self.next as u16).wrapping_sub(1).wrapping_sub(sequence);
        let number = self.next.checked_sub(1 + u64::from(back))?;
        (usize::from(back) < WINDOW).then_some(number)
    }

    /// What is known of a sequence that came in.
    pub fn look_up(&self, sequence: u16) -> KnownProbe {
        let Some(number) = self.number(sequence) else { return KnownProbe::No };
        let entry = self.entries[Self::slot(number)];
        match entry.fate {
            Fate::Unused => KnownProbe::No,
            Fate::Returned => KnownProbe::Returned,
            Fate::Underway | Fate::Lost => KnownProbe::Sent(entry.sent),
        }
    }

    /// Notes the return of a probe that [`Outstanding::look_up`] knows as sent.
    pub fn take(&mut self, sequence: u16) -> Option<Arrival> {
        let number = self.number(sequence)?;
        let reordered = self.newest_back.is_some_and(|newest| newest > number);
        let entry = &mut self.entries[Self::slot(number)];
        let was_lost = entry.fate == Fate::Lost;
        entry.fate = Fate::Returned;
        let arrival = Arrival { sent: entry.sent, dscp: entry.dscp, was_lost, reordered };
        self.newest_back = Some(self.newest_back.map_or(number, |newest| newest.max(number)));
        self.pass();
        Some(arrival)
    }

    /// The time of sending of the oldest probe underway, and whether a later one is back already.
    pub fn oldest(&self) -> Option<(Time, bool)> {
        (self.oldest < self.next).then(|| {
            let passed = self.newest_back.is_some_and(|newest| newest > self.oldest);
            (self.entries[Self::slot(self.oldest)].sent, passed)
        })
    }

    /// Gives up the oldest probe underway.
    pub fn give_up_oldest(&mut self) {
        if self.oldest < self.next {
            self.entries[Self::slot(self.oldest)].fate = Fate::Lost;
            self.pass();
        }
    }

    /// Moves past what is no longer underway. Each probe is passed once, so this costs one step per probe.
    fn pass(&mut self) {
        while self.oldest < self.next && self.entries[Self::slot(self.oldest)].fate != Fate::Underway {
            self.oldest += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ns: u64) -> Time {
        Time::from_nanos(ns)
    }

    #[test]
    fn probes_are_known_once_and_only_within_the_window() {
        let mut table = Outstanding::new();
        assert_eq!(table.look_up(0), KnownProbe::No);
        assert_eq!(table.look_up(u16::MAX), KnownProbe::No);
        for n in 0..WINDOW as u64 + 1 {
            let (sequence, gave_up) = table.push(at(n), 0);
            assert_eq!((sequence, gave_up), (n as u16, n == WINDOW as u64));
        }
        assert_eq!(table.look_up(0), KnownProbe::No, "its place was taken");
        assert_eq!(table.look_up(1), KnownProbe::Sent(at(1)));
        assert!(table.take(1).is_some());
        assert_eq!(table.look_up(1), KnownProbe::Returned);
        assert_eq!(table.look_up(WINDOW as u16 + 1), KnownProbe::No, "not sent yet");
        assert_eq!(table.oldest(), Some((at(2), false)));
    }

    #[test]
    fn sequences_wrap() {
        let mut table = Outstanding::new();
        for n in 0..200_000u64 {
            let (sequence, _) = table.push(at(n), 0);
            assert_eq!(table.look_up(sequence), KnownProbe::Sent(at(n)));
            assert_eq!(table.take(sequence).map(|a| (a.sent, a.reordered)), Some((at(n), false)));
            assert_eq!(table.oldest(), None);
        }
    }

    #[test]
    fn what_was_overtaken_is_told_and_what_was_given_up_may_still_come() {
        let mut table = Outstanding::new();
        for n in 0..3 {
            table.push(at(n), 0);
        }
        assert!(table.take(1).is_some_and(|a| !a.reordered));
        assert_eq!(table.oldest(), Some((at(0), true)));
        table.give_up_oldest();
        assert_eq!(table.oldest(), Some((at(2), false)));
        assert!(table.take(0).is_some_and(|a| a.was_lost && a.reordered));
        table.give_up_oldest();
        table.give_up_oldest();
        assert_eq!(table.oldest(), None);
    }
}
