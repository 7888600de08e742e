//! A medium that links share: they take turns, or are classes of one shaper.

use weir_units::{Bytes, Duration, Rate, Time};

/// The links of a medium, and whose turn it is.
#[derive(Clone, Debug)]
pub struct Medium {
    /// Numbers of the links, in order.
    members: Vec<usize>,
    /// Position of the one that is asked first.
    turn: usize,
    /// What each may send, where they are classes.
    classes: Vec<Class>,
}

/// Bytes that a class may send at once after a pause, beyond its rates: the burst that `tc` gives a class at
/// a kernel without timer ticks, a full frame.
const BURST: u64 = 1600;

/// A class of a hierarchical token bucket (tc-htb(8)): up to its committed rate it sends whatever the others
/// do, and up to its ceiling what they leave, in turns whose length is in proportion to the committed rates.
#[derive(Clone, Debug)]
pub struct Class {
    committed: Bucket,
    ceiling: Bucket,
    /// Bytes that it may still borrow in this turn.
    deficit: i64,
    quantum: i64,
}

/// A token bucket as the moment at which it will have tokens again.
#[derive(Clone, Debug)]
struct Bucket {
    rate: Rate,
    ready: Time,
}

impl Bucket {
    fn new(rate: Rate) -> Bucket {
        Bucket { rate, ready: Time::ZERO }
    }

    fn take(&mut self, now: Time, len: Bytes) {
        // A pause fills it up to the burst, and not further.
        let full = Duration::from_nanos(now.as_nanos()).saturating_sub(self.rate.time_for(Bytes::new(BURST)));
        self.ready = self.ready.max(Time::ZERO + full) + self.rate.time_for(len);
    }
}

impl Class {
    /// A class with a committed rate and a ceiling. Of classes with the same committed rate each borrows as
    /// much.
    pub fn new(committed: Rate, ceiling: Rate) -> Class {
        // A full frame for each 100 kbit/s would be long turns; classes need but the proportion.
        let quantum = i64::try_from(committed.as_bps() / 1000).unwrap_or(i64::MAX).max(1);
        Class { committed: Bucket::new(committed), ceiling: Bucket::new(ceiling), deficit: 0, quantum }
    }
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

    fn next_class(&mut self, now: Time, waits: impl Fn(usize) -> bool) -> Option<usize> {
        let (members, classes) = (&self.members, &mut self.classes);
        let order = (self.turn..members.len()).chain(0..self.turn);
        let able = |classes: &[Class], at: &usize| waits(members[*at]) && classes[*at].ceiling.ready <= now;
        // Who is below its committed rate borrows from nobody, and goes first.
        let own = order.clone().find(|at| able(classes, at) && classes[*at].committed.ready <= now);
        if let Some(place) = own {
            return Some(members[place]);
        }
        let rounds = |class: &Class| (class.quantum - class.deficit).max(0) / class.quantum;
        let rounds = order.clone().filter(|at| able(classes, at)).map(|at| rounds(&classes[at])).min()?;
        // When all have had their turns another round begins, for those that wait.
        for at in order.clone().filter(|_| rounds > 0) {
            if able(classes, &at) {
                classes[at].deficit += rounds * classes[at].quantum;
            }
        }
        order.clone().find(|at| able(classes, at) && classes[*at].deficit > 0).map(|place| members[place])
    }

    /// A packet of a link was sent.
    pub fn sent(&mut self, now: Time, link: usize, len: Bytes) {
        let Some(place) = self.members.iter().position(|member| *member == link) else { return };
        let count = self.members.len();
        let Some(class) = self.classes.get_mut(place) else { return };
        class.ceiling.take(now, len);
        if class.committed.ready <= now {
            class.committed.take(now, len);
            self.turn = (place + 1) % count;
            return;
        }
        class.deficit -= len.get() as i64;
        if class.deficit <= 0 {
            self.turn = (place + 1) % count;
        }
    }

    /// When the first of the links that wait may send; `None` if none waits.
    pub fn ready(&self, waits: impl Fn(usize) -> bool) -> Option<Time> {
        let waiting = self.members.iter().zip(&self.classes).filter(|(member, _)| waits(**member));
        waiting.map(|(_, class)| class.ceiling.ready).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let classes = classes.map(|(committed, ceiling)| Class::new(mbps(committed), mbps(ceiling)));
        let mut medium = Medium::of_classes(vec![0, 1, 2], classes.to_vec());
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
