//! When numbers and segments passed that the other side will name later.

use weir_units::Time;

/// Numbers that are under way, each with the moment at which it passed, in the order of a counter that wraps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timed<const N: usize> {
    entries: [(u32, Time); N],
    first: u8,
    len: u8,
}

/// How far `number` lies ahead of `other` on a counter that wraps; negative behind it.
pub(crate) fn ahead(number: u32, other: u32) -> i32 {
    number.wrapping_sub(other) as i32
}

impl<const N: usize> Timed<N> {
    pub const NONE: Timed<N> = Timed { entries: [(0, Time::ZERO); N], first: 0, len: 0 };

    /// Notes a number that is ahead of all others; without room it is left out.
    pub fn push(&mut self, number: u32, at: Time) {
        let len = usize::from(self.len);
        if len < N {
            self.entries[(usize::from(self.first) + len) % N] = (number, at);
            self.len += 1;
        }
    }

    /// The other side named `number`: forgets what is not ahead of it, and tells when exactly it passed.
    pub fn take(&mut self, number: u32) -> Option<Time> {
        let mut exact = None;
        while self.len > 0 {
            let (entry, at) = self.entries[usize::from(self.first)];
            if ahead(entry, number) > 0 {
                break;
            }
            exact = (entry == number).then_some(at);
            self.first = (self.first + 1) % N as u8;
            self.len -= 1;
        }
        exact
    }

    /// Notes a number even without room, in place of the newest.
    pub fn insist(&mut self, number: u32, at: Time) {
        self.len = self.len.min(N as u8 - 1);
        self.push(number, at);
    }

    pub fn clear(&mut self) {
        self.len = 0;
    }
}

/// Segments that are under way, each with the moment at which it passed, in the order of a counter that
/// wraps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flying<const N: usize> {
    segments: [Flight; N],
    len: u8,
}

#[derive(Clone, Copy, Debug)]
struct Flight {
    from: u32,
    /// One behind the last.
    to: u32,
    at: Time,
}

impl Flight {
    /// Whether it ends at or before `number`.
    fn ends_by(&self, number: u32) -> bool {
        ahead(self.to, number) <= 0
    }
}

impl<const N: usize> Flying<N> {
    pub const NONE: Flying<N> = Flying { segments: [Flight { from: 0, to: 0, at: Time::ZERO }; N], len: 0 };

    /// Notes a segment that is ahead of all others; without room it is left out.
    pub fn push(&mut self, from: u32, to: u32, at: Time) {
        if let Some(place) = self.segments.get_mut(usize::from(self.len)) {
            *place = Flight { from, to, at };
            self.len += 1;
        }
    }

    /// Everything before `number` arrived: when the first of what is noted of it passed, and when the segment
    /// did that ends there, where that is noted.
    pub fn take_before(&mut self, number: u32) -> Option<(Time, Option<Time>)> {
        let taken = self.take(|segment| segment.ends_by(number));
        taken.map(|(first, last)| (first.at, (last.to == number).then_some(last.at)))
    }

    /// What lies between these numbers arrived: when the first of what is noted of it passed.
    pub fn take_between(&mut self, from: u32, to: u32) -> Option<Time> {
        self.take(|segment| ahead(segment.from, from) >= 0 && segment.ends_by(to)).map(|(first, _)| first.at)
    }

    /// Nothing is known any more of what overlaps this.
    pub fn forget(&mut self, from: u32, to: u32) {
        self.take(|segment| !segment.ends_by(from) && ahead(segment.from, to) < 0);
    }

    /// The first and the last of those that are taken.
    fn take(&mut self, is_meant: impl Fn(&Flight) -> bool) -> Option<(Flight, Flight)> {
        let (mut taken, mut kept) = (None, 0);
        for at in 0..usize::from(self.len) {
            let segment = self.segments[at];
            if is_meant(&segment) {
                let (first, _) = taken.unwrap_or((segment, segment));
                taken = Some((first, segment));
            } else {
                self.segments[kept] = segment;
                kept += 1;
            }
        }
        self.len = kept as u8;
        taken
    }

    pub fn clear(&mut self) {
        self.len = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_number_itself_tells_its_time_across_the_wrap() {
        let mut timed = Timed::<4>::NONE;
        let start = u32::MAX - 15;
        for n in 0..6u32 {
            timed.push(start.wrapping_add(10 * n), Time::from_nanos(u64::from(n)));
        }
        assert_eq!(timed.take(start), Some(Time::from_nanos(0)));
        assert_eq!(timed.take(start.wrapping_add(15)), None, "the one at 10 lies behind it");
        assert_eq!(timed.take(start.wrapping_add(20)), Some(Time::from_nanos(2)));
        assert_eq!(timed.take(start.wrapping_add(20)), None, "named again");
        assert_eq!(timed.take(start.wrapping_add(30)), Some(Time::from_nanos(3)));
        assert_eq!(timed.take(start.wrapping_add(50)), None, "there was no room for it");
        for n in 6..12u32 {
            timed.insist(start.wrapping_add(10 * n), Time::from_nanos(u64::from(n)));
        }
        assert_eq!(timed.take(start.wrapping_add(110)), Some(Time::from_nanos(11)));
    }

    #[test]
    fn the_first_segment_of_what_arrived_tells_its_time_unless_it_is_forgotten() {
        let mut flying = Flying::<8>::NONE;
        let start = u32::MAX - 25;
        let number = |n: u32| start.wrapping_add(10 * n);
        let time = |n: u64| Some(Time::from_nanos(n));
        (0..10u32).for_each(|n| flying.push(number(n), number(n + 1), Time::from_nanos(n.into())));
        assert_eq!(flying.take_before(number(0)), None);
        assert_eq!(flying.take_before(number(2)), time(0).map(|first| (first, time(1))));
        assert_eq!(flying.take_between(number(4), number(6)), time(4));
        flying.forget(number(2), number(3));
        assert_eq!(flying.take_between(number(2), number(6)), time(3), "others were taken or forgotten");
        assert_eq!(flying.take_before(number(6).wrapping_add(9)), None, "not all of it arrived");
        assert_eq!(flying.take_before(number(7)), time(6).map(|first| (first, time(6))));
        assert_eq!(
            flying.take_before(number(10)),
            time(7).map(|first| (first, None)),
            "the ninth had no room"
        );
        assert_eq!(flying.take_before(number(10)), None, "the others had no room");
    }
}
