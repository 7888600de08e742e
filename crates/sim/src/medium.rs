//! A medium that links share: they take turns, or are classes of one shaper.

use weir_queue::Class;
use weir_units::{Bytes, Time};

/// The links of a medium, and whose turn it is.
#[derive(Debug)]
pub struct Medium {
    /// Numbers of the links, in order.
    members: Vec<usize>,
    /// Position of the one that is asked first.
    turn: usize,
    /// What each may send, where they are classes.
    classes: Vec<Class>,
}

impl Medium {
    /// A medium of these links; the first is asked first.
    pub fn new(members: Vec<usize>) -> Medium {
        Medium { members, turn: 0, classes: Vec::new() }
    }

    /// A shaper of these links, each with its class.
    pub fn of_classes(members: Vec<usize>, classes: Vec<Class>) -> Medium {
        Medium { members, turn: 0, classes }
    }

    /// Its links.
    pub fn members(&self) -> &[usize] {
        &self.members
    }

    /// Whether its links are classes.
    pub fn has_classes(&self) -> bool {
        !self.classes.is_empty()
    }

    /// The first link from the turn on that has something to send and may. The turn passes to the one behind
    /// it.
    pub fn next(&mut self, now: Time, waits: impl Fn(usize) -> bool) -> Option<usize> {
        if self.has_classes() {
            return self.next_class(now, waits);
        }
        let place = self.places_by_turn().find(|place| waits(self.members[*place]))?;
        self.turn = (place + 1) % self.members.len();
        Some(self.members[place])
    }

    fn places_by_turn(&self) -> impl Iterator<Item = usize> + use<> {
        let (turn, count) = (self.turn, self.members.len());
        (0..count).map(move |i| (turn + i) % count)
    }

    fn next_class(&self, now: Time, waits: impl Fn(usize) -> bool) -> Option<usize> {
        let (members, classes) = (&self.members, &self.classes);
        for (member, class) in members.iter().zip(classes) {
            class.set_waiting(class.ready() <= now && waits(*member));
        }
        let waiting = || self.places_by_turn().filter(|at| classes[*at].is_waiting());
        // Who is below its committed rate borrows from nobody, and goes first.
        let own = waiting().find(|at| classes[*at].owns(now));
        own.or_else(|| waiting().find(|at| classes[*at].is_next())).map(|place| members[place])
    }

    /// A packet of a link was sent.
    pub fn sent(&mut self, now: Time, link: usize, len: Bytes) {
        let Some(place) = self.members.iter().position(|member| *member == link) else { return };
        let count = self.members.len();
        if let Some(class) = self.classes.get_mut(place) {
            class.sent(now, len);
            self.turn = (place + 1) % count;
        }
    }

    /// When the first of the links that wait may send; `None` if none waits.
    pub fn ready(&self, waits: impl Fn(usize) -> bool) -> Option<Time> {
        let waiting = self.members.iter().zip(&self.classes).filter(|(member, _)| waits(**member));
        waiting.map(|(_, class)| class.ready()).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_units::{Duration, Rate};

    const LEN: Bytes = Bytes::new(1000);

    #[test]
    fn those_that_wait_take_turns() {
        let mut medium = Medium::new(vec![3, 5, 8]);
        let order: Vec<_> = (0..4).map(|_| medium.next(Time::ZERO, |_| true)).collect();
        assert_eq!(order, [Some(3), Some(5), Some(8), Some(3)]);
        let order: Vec<_> = (0..3).map(|_| medium.next(Time::ZERO, |link| link != 5)).collect();
        assert_eq!(order, [Some(8), Some(3), Some(8)]);
        assert_eq!(medium.next(Time::ZERO, |_| false), None);
        assert_eq!(medium.next(Time::ZERO, |_| true), Some(3), "nobody's turn was lost");
    }

    /// Mbit/s that each of three classes has in a second of a shaper of that rate.
    fn shares(rate: u64, classes: [(u64, u64); 3], waits: [bool; 3]) -> [f64; 3] {
        let mbps = Rate::from_mbps;
        let classes = classes.map(|(committed, ceiling)| (mbps(committed), mbps(ceiling)));
        let mut medium = Medium::of_classes(vec![0, 1, 2], Class::siblings(mbps(rate), &classes));
        let (mut now, mut sent) = (Time::ZERO, [0.0; 3]);
        while now < Time::ZERO + Duration::from_secs(1) {
            match medium.next(now, |link| waits[link]) {
                Some(link) => {
                    medium.sent(now, link, LEN);
                    sent[link] += 0.008;
                    now += mbps(rate).time_for(LEN);
                }
                None => {
                    now = medium
                        .ready(|link| waits[link])
                        .expect("somebody waits")
                        .max(now + Duration::from_nanos(1))
                }
            }
        }
        sent
    }

    fn are(found: [f64; 3], wanted: [f64; 3]) {
        let near = found.iter().zip(wanted).all(|(found, wanted)| (found - wanted).abs() < 0.2);
        assert!(near, "{found:?} for {wanted:?}");
    }

    #[test]
    fn classes_borrow_what_others_leave_up_to_their_ceilings() {
        let usual = [(8, 16), (8, 16), (8, 16)];
        // Alone a class is a link of its ceiling; two fill the shaper; three share what is left.
        are(shares(30, usual, [true, false, false]), [16.0, 0.0, 0.0]);
        are(shares(30, usual, [true, true, false]), [15.0, 15.0, 0.0]);
        are(shares(30, usual, [true; 3]), [10.0; 3]);
        // The committed rate is there for each, and what is left goes in proportion to it.
        are(shares(30, [(16, 30), (8, 30), (1, 30)], [true, true, false]), [20.0, 10.0, 0.0]);
        are(shares(20, [(12, 20), (2, 20), (2, 20)], [true; 3]), [15.0, 2.5, 2.5]);
        // Nobody is above its ceiling, though the shaper has room.
        are(shares(100, usual, [true; 3]), [16.0; 3]);
    }
}
