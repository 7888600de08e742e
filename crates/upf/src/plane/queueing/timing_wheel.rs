//! Timing wheel of queues that may send later, and a ready list at each port of queues that may send now.

use std::num::NonZeroU32;
use weir_units::{Duration, Time};

/// Nanoseconds of a slot of the wheel are two to this: 16 us. Departures are computed in link time, so that
/// it changes no rate; a packet is late by this at most.
const SLOT_BITS: u32 = 14;
/// Slots of the wheel, 67 ms; whoever may send later than that is looked at again then.
const SLOTS: usize = 4096;
/// Most ports.
pub const PORTS_MAX: usize = 4;

/// What those at a port wait with.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Class {
    /// Packets within a guaranteed rate; they go first.
    Guaranteed,
    /// All others.
    Ordinary,
}

/// Where somebody stands: a slot of the wheel, or a line.
type Place = u32;

/// A number that takes no more memory for being absent: there is a node for each session twice.
#[derive(Clone, Copy, Default)]
struct Slim(Option<NonZeroU32>);

impl Slim {
    #[inline]
    fn of(number: Option<u32>) -> Slim {
        Slim(number.and_then(|number| NonZeroU32::new(number + 1)))
    }

    #[inline]
    fn get(self) -> Option<u32> {
        self.0.map(|number| number.get() - 1)
    }
}

#[derive(Clone, Copy, Default)]
struct Node {
    /// A [`Place`].
    place: Slim,
    next: Slim,
    before: Slim,
}

#[derive(Clone, Copy, Default)]
struct Ends {
    first: Option<u32>,
    last: Option<u32>,
}

/// The wheel and the lines. Everybody is at one place at most; all memory is there from the start.
pub struct TimingWheel {
    nodes: Box<[Node]>,
    places: Box<[Ends]>,
    /// The slot that is looked at next, counted from the beginning of time.
    hand: u64,
    /// How many are in the wheel.
    waiting: u32,
    /// How many are in lines.
    lined: u32,
}

fn line(port: usize, class: Class) -> Place {
    (SLOTS + port * 2 + class as usize) as Place
}

impl TimingWheel {
    /// For so many, numbered from zero.
    pub fn new(count: usize) -> TimingWheel {
        let places = vec![Ends::default(); SLOTS + 2 * PORTS_MAX].into();
        TimingWheel { nodes: vec![Node::default(); count].into(), places, hand: 0, waiting: 0, lined: 0 }
    }

    /// Memory for one.
    pub const BYTES: usize = size_of::<Node>();

    fn put(&mut self, who: u32, place: Place) {
        self.remove(who);
        let ends = &mut self.places[place as usize];
        let is_later = (place as usize) < SLOTS;
        let (place, before) = (Slim::of(Some(place)), Slim::of(ends.last));
        self.nodes[who as usize] = Node { place, next: Slim::default(), before };
        match ends.last.replace(who) {
            Some(last) => self.nodes[last as usize].next = Slim::of(Some(who)),
            None => ends.first = Some(who),
        }
        *(if is_later { &mut self.waiting } else { &mut self.lined }) += 1;
    }

    /// Takes somebody from the wheel or a line, if it is there.
    pub fn remove(&mut self, who: u32) {
        let node = std::mem::take(&mut self.nodes[who as usize]);
        let Some(place) = node.place.get() else { return };
        match node.before.get() {
            Some(before) => self.nodes[before as usize].next = node.next,
            None => self.places[place as usize].first = node.next.get(),
        }
        match node.next.get() {
            Some(next) => self.nodes[next as usize].before = node.before,
            None => self.places[place as usize].last = node.before.get(),
        }
        *(if (place as usize) < SLOTS { &mut self.waiting } else { &mut self.lined }) -= 1;
    }

    /// Somebody may send at `due`.
    pub fn later(&mut self, who: u32, due: Time) {
        let slot = (due.as_nanos() >> SLOT_BITS).clamp(self.hand, self.hand + SLOTS as u64 - 1);
        let place = (slot % SLOTS as u64) as Place;
        if self.nodes[who as usize].place.get() != Some(place) {
            self.put(who, place);
        }
    }

    /// Somebody waits for a port, behind the others.
    pub fn line_up(&mut self, who: u32, port: usize, class: Class) {
        self.put(who, line(port, class));
    }

    /// Whether nobody waits for any port.
    #[inline]
    pub fn are_lines_empty(&self) -> bool {
        self.lined == 0
    }

    /// Whether somebody waits for a port, and with what.
    pub fn lined_up(&self, who: u32) -> Option<Class> {
        let place = self.nodes[who as usize].place.get()?.checked_sub(SLOTS as Place)?;
        Some(if place % 2 == 0 { Class::Guaranteed } else { Class::Ordinary })
    }

    /// Whether somebody is in the wheel.
    #[inline]
    pub fn is_later(&self, who: u32) -> bool {
        self.nodes[who as usize].place.get().is_some_and(|place| (place as usize) < SLOTS)
    }

    /// The first of those that wait for a port.
    pub fn first_at(&self, port: usize) -> Option<u32> {
        let first = |class| self.places[line(port, class) as usize].first;
        first(Class::Guaranteed).or_else(|| first(Class::Ordinary))
    }

    /// Somebody who may send by now, in about the order of their times.
    pub fn pop_due(&mut self, now: Time) -> Option<u32> {
        let last = now.as_nanos() >> SLOT_BITS;
        if self.waiting == 0 {
            self.hand = self.hand.max(last);
            return None;
        }
        // The present slot is left until it is over: whoever is put off within it would come again at once.
        while self.hand < last {
            let first = self.places[(self.hand % SLOTS as u64) as usize].first;
            if let Some(who) = first {
                self.remove(who);
                return Some(who);
            }
            // A stall of more than a round finds everybody within one round.
            self.hand = (self.hand + 1).max((last + 1).saturating_sub(SLOTS as u64));
        }
        None
    }

    /// When to look again, at the latest `most` from now.
    pub fn next(&self, now: Time, most: Duration) -> Time {
        let end = now + most;
        if self.waiting == 0 {
            return end;
        }
        // The end of a slot.
        let due = |slot: u64| Time::from_nanos((slot + 1) << SLOT_BITS);
        let mut slots = (self.hand..self.hand + SLOTS as u64).take_while(|slot| due(*slot) < end);
        slots.find(|slot| self.places[(slot % SLOTS as u64) as usize].first.is_some()).map_or(end, due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: u64) -> Time {
        Time::from_nanos(us * 1000)
    }

    #[test]
    fn everybody_comes_when_due_and_once() {
        let mut agenda = TimingWheel::new(100);
        for who in 0..100u32 {
            agenda.later(who, at(u64::from(who * 37 % 100) * 500));
        }
        agenda.later(7, at(1_000_000));
        agenda.remove(8);
        let mut seen = Vec::new();
        for us in (0..2_000_000).step_by(100) {
            while let Some(who) = agenda.pop_due(at(us)) {
                if who == 7 && us < 1_000_000 {
                    // Beyond the horizon: it is looked at, and put off.
                    agenda.later(7, at(1_000_000));
                    continue;
                }
                let due = if who == 7 { 1_000_000 } else { u64::from(who * 37 % 100) * 500 };
                assert!(us >= due && us <= due + 120, "{who}: {us} for {due}");
                seen.push(who);
            }
        }
        assert_eq!((seen.len(), agenda.waiting, agenda.lined), (99, 0, 0));
    }

    #[test]
    fn a_stall_loses_nobody() {
        let mut agenda = TimingWheel::new(10);
        (0..10).for_each(|who| agenda.later(who, at(u64::from(who) * 6000)));
        let end = Time::from_nanos(3_600_000_000_000);
        assert_eq!(std::iter::from_fn(|| agenda.pop_due(end)).count(), 10);
        agenda.later(3, end);
        assert_eq!((agenda.pop_due(end), agenda.pop_due(end + Duration::from_micros(20))), (None, Some(3)));
    }

    #[test]
    fn guaranteed_packets_go_first_and_others_in_turn() {
        let mut agenda = TimingWheel::new(5);
        for (who, class) in [(0, Class::Ordinary), (1, Class::Ordinary), (2, Class::Guaranteed)] {
            agenda.line_up(who, 1, class);
        }
        assert_eq!((agenda.first_at(0), agenda.first_at(1)), (None, Some(2)));
        agenda.line_up(2, 1, Class::Ordinary);
        assert_eq!((agenda.first_at(1), agenda.lined_up(2)), (Some(0), Some(Class::Ordinary)));
        agenda.line_up(0, 1, Class::Ordinary);
        assert_eq!(agenda.first_at(1), Some(1));
        agenda.line_up(0, 1, Class::Guaranteed);
        assert_eq!((agenda.first_at(1), agenda.lined_up(3)), (Some(0), None));
        assert!(!agenda.are_lines_empty());
        (0..3).for_each(|who| agenda.remove(who));
        assert!(agenda.are_lines_empty());
    }
}
