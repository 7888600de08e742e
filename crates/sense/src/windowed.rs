//! The smallest and the largest of what was seen lately.

use weir_units::{Duration, Time};

/// Parts of the window that expire one after the other.
const SLOTS: usize = 4;

/// The best value of the last window: of each quarter the best is kept, and whole quarters expire. A value is
/// forgotten after at least three quarters of the window and at most all of it.
#[derive(Clone, Copy, Debug)]
struct Windowed<V> {
    quarter: Duration,
    slots: [Option<V>; SLOTS],
    /// The quarter, counted from the origin of the clock, that new values fall in.
    current: u64,
}

impl<V: Copy> Windowed<V> {
    fn new(window: Duration) -> Windowed<V> {
        let quarter = Duration::from_nanos((window.as_nanos() / SLOTS as u64).max(1));
        Windowed { quarter, slots: [None; SLOTS], current: 0 }
    }

    /// Forgets what is older than the window at `now`. A clock that runs backwards forgets nothing.
    fn expire(&mut self, now: Time) {
        let quarter = now.as_nanos() / self.quarter.as_nanos();
        let passed = quarter.saturating_sub(self.current);
        for behind in 0..passed.min(SLOTS as u64) {
            self.slots[(quarter - behind) as usize % SLOTS] = None;
        }
        self.current = self.current.max(quarter);
    }

    fn insert(&mut self, now: Time, value: V, is_better: fn(&V, &V) -> bool) {
        self.expire(now);
        let slot = &mut self.slots[self.current as usize % SLOTS];
        if slot.is_none_or(|old| is_better(&value, &old)) {
            *slot = Some(value);
        }
    }

    fn best(&self, is_better: fn(&V, &V) -> bool) -> Option<V> {
        self.slots.iter().flatten().copied().reduce(|a, b| if is_better(&b, &a) { b } else { a })
    }
}

/// The smallest value of the last window.
#[derive(Clone, Copy, Debug)]
pub struct WindowedMin<V>(Windowed<V>);

/// The largest value of the last window.
#[derive(Clone, Copy, Debug)]
pub struct WindowedMax<V>(Windowed<V>);

macro_rules! filter {
    ($name:ident, $better:expr) => {
        impl<V: Copy + PartialOrd> $name<V> {
            /// Nothing seen yet.
            pub fn new(window: Duration) -> $name<V> {
                $name(Windowed::new(window))
            }

            /// Takes a value seen at `now`.
            pub fn insert(&mut self, now: Time, value: V) {
                self.0.insert(now, value, $better);
            }

            /// The best value of the window that ends at `now`; `None` where the window saw nothing.
            pub fn get(&mut self, now: Time) -> Option<V> {
                self.0.expire(now);
                self.0.best($better)
            }

            /// Forgets everything.
            pub fn clear(&mut self) {
                self.0.slots = [None; SLOTS];
            }
        }
    };
}

filter!(WindowedMin, |a, b| a < b);
filter!(WindowedMax, |a, b| a > b);

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn the_smallest_is_kept_for_the_window_and_then_the_next_smallest_rules() {
        let mut min = WindowedMin::new(Duration::from_secs(10));
        assert_eq!(min.get(at(0)), None);
        min.insert(at(0), 50);
        min.insert(at(3_000), 70);
        min.insert(at(6_000), 90);
        assert_eq!(min.get(at(7_400)), Some(50), "within three quarters");
        assert_eq!(min.get(at(10_000)), Some(70), "the first quarter has gone");
        assert_eq!(min.get(at(12_500)), Some(90));
        assert_eq!(min.get(at(20_000)), None);
    }

    #[test]
    fn the_largest_mirrors_it() {
        let mut max = WindowedMax::new(Duration::from_secs(4));
        max.insert(at(100), 1.0);
        max.insert(at(200), 3.0);
        max.insert(at(300), 2.0);
        assert_eq!(max.get(at(400)), Some(3.0));
        max.clear();
        assert_eq!(max.get(at(400)), None);
    }

    #[test]
    fn long_silence_and_a_clock_running_backwards_are_survived() {
        let mut min = WindowedMin::new(Duration::from_nanos(1));
        min.insert(at(5), 5);
        min.insert(at(1), 1);
        assert_eq!(min.get(Time::from_nanos(u64::MAX)), None);
        min.insert(at(2), 7);
        assert_eq!(min.get(at(3)), Some(7));
    }
}
