//! When numbers passed that the other side will name later.

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
    }
}
