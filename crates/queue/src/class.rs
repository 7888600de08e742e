//! Classes of a hierarchical token bucket (tc-htb(8)): up to its committed rate each sends whatever the
//! others do, and up to its ceiling what they leave of a rate that all share.
//!
//! Of those that wait for what is left the one goes first that has borrowed least in proportion to its
//! committed rate, so that none has to know how much is left (start-time fair queueing: Goyal, Vin and Cheng,
//! 1996). Each class may be served by a thread of its own: what they share are atomic numbers, and nobody
//! waits for a lock. Who looks late misses turns, which the others have: that changes proportions, but not
//! committed rates and not the sum.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use weir_units::{Bytes, Duration, Rate, Time};

/// Bytes that may be sent at once after a pause, beyond the rates: the burst that `tc` gives a class at a
/// kernel without timer ticks, a full frame.
const BURST: Bytes = Bytes::new(1600);

/// A token bucket as the moment at which it will have tokens again.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    rate: Rate,
    ready: Time,
}

impl Bucket {
    fn new(rate: Rate) -> Bucket {
        Bucket { rate, ready: Time::ZERO }
    }

    /// The same after a packet has left. A pause has filled it up to the burst, and not further.
    fn without(self, at: Time, len: Bytes) -> Bucket {
        let full = Duration::from_nanos(at.as_nanos()).saturating_sub(self.rate.time_for(BURST));
        Bucket { ready: self.ready.max(Time::ZERO + full) + self.rate.time_for(len), ..self }
    }
}

/// What all classes share.
#[derive(Debug)]
struct Shared {
    rate: Rate,
    /// When the rate that they share has tokens again, in nanoseconds.
    ready: AtomicU64,
    /// The most that anybody had borrowed when it borrowed last, as time at its committed rate: nobody begins
    /// with less, or it would keep what it left to others while it had nothing to send.
    turn: AtomicU64,
    members: Box<[Member]>,
}

#[derive(Debug, Default)]
struct Member {
    /// What it has borrowed, as the nanoseconds that it takes at its committed rate.
    borrowed: AtomicU64,
    /// Whether it waits to borrow, and nothing but the others keeps it from that.
    waits: AtomicBool,
}

/// A class. A copy is the same class.
#[derive(Clone, Debug)]
pub struct Class {
    committed: Bucket,
    ceiling: Bucket,
    /// When the host looked last.
    looked: Time,
    shared: Arc<Shared>,
    /// Which of the members it is.
    place: usize,
}

impl Class {
    /// The classes of a shaper of `rate`, from their committed rates and their ceilings, in order.
    pub fn siblings(rate: Rate, classes: &[(Rate, Rate)]) -> Vec<Class> {
        let members = classes.iter().map(|_| Member::default()).collect();
        let shared = Arc::new(Shared { rate, ready: AtomicU64::new(0), turn: AtomicU64::new(0), members });
        let class = |(place, (committed, ceiling)): (usize, &(Rate, Rate))| Class {
            committed: Bucket::new(*committed),
            ceiling: Bucket::new(*ceiling),
            looked: Time::ZERO,
            shared: shared.clone(),
            place,
        };
        classes.iter().enumerate().map(class).collect()
    }

    /// The most that it may send.
    pub fn ceiling(&self) -> Rate {
        self.ceiling.rate
    }

    /// Changes the most that it may send.
    pub fn set_ceiling(&mut self, rate: Rate) {
        self.ceiling.rate = rate;
    }

    /// When its ceiling lets it send again.
    pub fn ready(&self) -> Time {
        self.ceiling.ready
    }

    /// Whether it may send without borrowing.
    pub fn owns(&self, at: Time) -> bool {
        self.ceiling.ready.max(self.committed.ready) <= at
    }

    fn member(&self) -> &Member {
        &self.shared.members[self.place]
    }

    /// Says whether it has something to send for which it must borrow.
    pub fn set_waiting(&self, waits: bool) {
        if waits && !self.is_waiting() {
            self.member().borrowed.fetch_max(self.shared.turn.load(Ordering::Acquire), Ordering::AcqRel);
        }
        self.member().waits.store(waits, Ordering::Release);
    }

    /// Whether it waits to borrow.
    pub fn is_waiting(&self) -> bool {
        self.member().waits.load(Ordering::Acquire)
    }

    /// Whether none of those that wait to borrow has borrowed less.
    pub fn is_next(&self) -> bool {
        let own = self.member().borrowed.load(Ordering::Acquire);
        let waiting = self.shared.members.iter().filter(|member| member.waits.load(Ordering::Acquire));
        waiting.map(|member| member.borrowed.load(Ordering::Acquire)).all(|borrowed| borrowed >= own)
    }

    /// A packet left at `at`: of its committed rate, where that had tokens, and borrowed otherwise.
    pub fn sent(&mut self, at: Time, len: Bytes) {
        if self.committed.ready <= at {
            self.committed = self.committed.without(at, len);
        } else {
            let cost = self.committed.rate.time_for(len).as_nanos();
            let before = self.member().borrowed.fetch_add(cost, Ordering::AcqRel);
            self.shared.turn.fetch_max(before, Ordering::AcqRel);
        }
        self.ceiling = self.ceiling.without(at, len);
        let Shared { rate, ready, .. } = &*self.shared;
        let taken = |ready: u64| {
            let bucket = Bucket { rate: *rate, ready: Time::from_nanos(ready) };
            Some(bucket.without(at, len).ready.as_nanos())
        };
        // Never refused, so that there is no error.
        let _ = ready.fetch_update(Ordering::AcqRel, Ordering::Acquire, taken);
        self.member().waits.store(false, Ordering::Release);
    }

    /// To be called when the host looks, before it asks when packets may leave: time lost beyond `catch_up`
    /// is given up.
    pub fn looked(&mut self, now: Time, catch_up: Duration) {
        self.looked = now;
        self.ceiling.ready = self.ceiling.ready.max(now - catch_up);
        // What waited may be gone without having left.
        self.member().waits.store(false, Ordering::Release);
    }

    /// The moment at which a packet that arrived then may leave, as the others stand; if one of them is to
    /// go first, later than the host's last look.
    pub fn departure(&self, arrived: Time) -> Time {
        let able = self.ceiling.ready.max(arrived);
        let own = self.committed.ready.max(able);
        let lent = Time::from_nanos(self.shared.ready.load(Ordering::Acquire)).max(able);
        let borrows = lent < own;
        self.set_waiting(borrows && able <= self.looked);
        match borrows {
            false => own,
            true if self.is_next() => lent,
            true => own.min(lent.max(self.looked) + self.shared.rate.time_for(BURST)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: u64 = 1514;

    fn classes(rate: u64, of: &[(u64, u64)]) -> Vec<Class> {
        let mbps = Rate::from_mbps;
        let of: Vec<_> = of.iter().map(|(committed, ceiling)| (mbps(*committed), mbps(*ceiling))).collect();
        Class::siblings(mbps(rate), &of)
    }

    /// A packet for each moment at which one may leave, up to `now`, while `waits` says so; how many.
    fn serve(class: &mut Class, now: Time, arrived: Time, mut left: u64) -> u64 {
        let before = left;
        class.looked(now, Duration::from_millis(5));
        while left > 0 && class.departure(arrived) <= now {
            class.sent(class.departure(arrived), Bytes::new(LEN));
            left -= 1;
        }
        before - left
    }

    /// Mbit/s that each has in two seconds; their hosts look late by up to `late_us`, in any order.
    fn rates(rate: u64, of: &[(u64, u64)], waits: &[bool], late_us: u64) -> Vec<f64> {
        let mut classes = classes(rate, of);
        let (mut sent, mut dice) = (vec![0; of.len()], 7u64);
        let mut due: Vec<u64> = vec![0; of.len()];
        for us in 0..2_000_000 {
            for place in 0..of.len() {
                if !waits[place] || due[place] > us {
                    continue;
                }
                let now = Time::ZERO + Duration::from_micros(us);
                sent[place] += serve(&mut classes[place], now, Time::ZERO, u64::MAX);
                dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let next = classes[place].departure(Time::ZERO).as_nanos() / 1000;
                due[place] = next.max(us + 1) + (dice >> 33) % late_us.max(1);
            }
        }
        sent.iter().map(|packets| (packets * LEN * 8) as f64 / 2e6).collect()
    }

    fn are(found: &[f64], wanted: &[f64]) {
        let near =
            found.iter().zip(wanted).all(|(found, wanted)| (found - wanted).abs() < 0.03 * wanted + 0.1);
        assert!(near, "{found:?} for {wanted:?}");
    }

    #[test]
    fn classes_of_hosts_of_their_own_share_what_is_left_in_proportion_to_their_committed_rates() {
        let usual = [(8, 16), (8, 16), (8, 16)];
        for late_us in [1, 300, 1500] {
            are(&rates(30, &usual, &[true, false, false], late_us), &[16.0, 0.0, 0.0]);
            are(&rates(30, &usual, &[true, true, false], late_us), &[15.0, 15.0, 0.0]);
            are(&rates(30, &usual, &[true; 3], late_us), &[10.0; 3]);
            are(&rates(100, &usual, &[true; 3], late_us), &[16.0; 3]);
            // Nothing is lost where hosts look late, and each has its committed rate.
            let late = rates(20, &[(12, 20), (2, 20), (2, 20)], &[true; 3], late_us);
            are(&[late.iter().sum()], &[20.0]);
            assert!(
                late.iter().zip([12.0, 2.0, 2.0]).all(|(found, committed)| *found >= committed),
                "{late:?}"
            );
        }
        // And in proportion, as far as they look in time.
        are(&rates(30, &[(16, 30), (8, 30), (1, 30)], &[true, true, false], 300), &[20.0, 10.0, 0.0]);
        are(&rates(20, &[(12, 20), (2, 20), (2, 20)], &[true; 3], 1), &[15.0, 2.5, 2.5]);
    }

    #[test]
    fn who_was_silent_gets_nothing_for_that_and_nobody_waits_for_it() {
        let mut classes = classes(20, &[(4, 20), (4, 20)]);
        let at = |ms: u64| Time::ZERO + Duration::from_millis(ms);
        let mut sent = [0, 0];
        for ms in 1..=2000 {
            // The second one has something to send in the second second.
            for place in 0..if ms > 1000 { 2 } else { 1 } {
                sent[place] += serve(&mut classes[place], at(ms), at(0), u64::MAX);
            }
            if ms == 1000 {
                are(&[(sent[0] * LEN * 8) as f64 / 1e6], &[20.0]);
                sent = [0, 0];
            }
        }
        are(&sent.map(|packets| (packets * LEN * 8) as f64 / 1e6), &[10.0, 10.0]);
        // It waited for its turn, and what waited was discarded: the next look of its host tells the other.
        classes[1].set_waiting(true);
        classes[1].looked(at(2000), Duration::ZERO);
        assert!(!classes[1].is_waiting() && classes[0].is_next());
    }

    #[test]
    fn the_committed_rate_goes_first_and_time_that_was_lost_is_given_up() {
        let mut classes = classes(16, &[(8, 16), (8, 16)]);
        let at = |ms: u64| Time::ZERO + Duration::from_millis(ms);
        // Alone it takes all there is, up to the moment.
        assert_eq!(serve(&mut classes[0], at(5), at(0), u64::MAX), 7);
        assert!(!classes[0].owns(at(5)));
        // The other is not kept from its own by that.
        assert_eq!(classes[1].departure(at(5)), at(5));
        let mut class = classes.remove(1);
        // A packet takes 0.757 ms at the ceiling; a second was lost.
        class.looked(at(1000), Duration::from_millis(5));
        assert_eq!(class.departure(at(0)), at(995));
        class.set_ceiling(Rate::from_mbps(8));
        assert_eq!((class.ceiling(), class.ready()), (Rate::from_mbps(8), at(995)));
    }
}
