//! How long packets of a queue waited, in little memory.

use weir_units::Duration;

/// Four classes for each doubling, from 16 us to 1.4 s.
const CLASSES: usize = 68;
/// The first class ends at two to this nanoseconds.
const FIRST: u32 = 14;

/// Counts of sojourn times by class. What a look reads of queues that are short lies within a cache line.
#[derive(Clone, Debug)]
#[repr(C, align(32))]
pub struct Sojourns {
    packets: u64,
    /// The highest class with any; looking at the others would take most of the time where there are many
    /// queues.
    highest: u8,
    counts: [u32; CLASSES],
}

impl Default for Sojourns {
    fn default() -> Sojourns {
        Sojourns { counts: [0; CLASSES], highest: 0, packets: 0 }
    }
}

fn class(sojourn: Duration) -> usize {
    let quarters = sojourn.as_nanos() >> (FIRST - 2);
    if quarters < 4 {
        return 0;
    }
    let doublings = quarters.ilog2() - 2;
    let within = (quarters >> doublings) & 3;
    (1 + 4 * doublings as usize + within as usize).min(CLASSES - 1)
}

/// Where a class ends.
fn end(class: usize) -> Duration {
    let Some(above) = class.checked_sub(1) else { return Duration::from_nanos(1 << FIRST) };
    Duration::from_nanos((5 + above as u64 % 4) << (FIRST - 2) << (above / 4))
}

impl Sojourns {
    /// A packet waited so long.
    #[inline]
    pub fn note(&mut self, sojourn: Duration) {
        let class = class(sojourn);
        let count = &mut self.counts[class];
        *count = count.saturating_add(1);
        self.packets += 1;
        self.highest = self.highest.max(class as u8);
    }

    /// So many packets did not wait.
    pub fn note_none(&mut self, packets: u64) {
        let fitting = u32::try_from(packets).unwrap_or(u32::MAX);
        self.counts[0] = self.counts[0].saturating_add(fitting);
        self.packets += packets;
    }

    /// The time below which 95 % stayed, at most a quarter too long; `None` without packets. Begins anew.
    pub fn take_p95(&mut self) -> Option<Duration> {
        let (mut found, mut left) = (None, self.packets);
        let above = self.packets.div_ceil(20);
        for class in (0..=usize::from(self.highest)).rev() {
            if left == 0 {
                break;
            }
            left = left.saturating_sub(u64::from(std::mem::take(&mut self.counts[class])));
            if found.is_none() && self.packets - left >= above {
                found = Some(end(class));
            }
        }
        (self.highest, self.packets) = (0, 0);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_95th_percentile_is_at_most_a_quarter_too_long() {
        for us in [1, 15, 17, 40, 1000, 14_990, 300_000] {
            let mut sojourns = Sojourns::default();
            (0..95).for_each(|_| sojourns.note(Duration::from_micros(us)));
            (0..5).for_each(|_| sojourns.note(Duration::from_millis(900)));
            let (got, exact) = (sojourns.take_p95().unwrap().as_nanos(), us * 1000);
            let one_more = (900_000_000..1_200_000_000).contains(&got);
            assert!(one_more, "{got}: the last five are the 95th");
            (0..96).for_each(|_| sojourns.note(Duration::from_micros(us)));
            (0..4).for_each(|_| sojourns.note(Duration::from_millis(900)));
            let got = sojourns.take_p95().unwrap().as_nanos();
            assert!(got >= exact && got <= (exact * 5 / 4).max(1 << FIRST), "{us} us: {got} ns");
            assert_eq!(sojourns.take_p95(), None);
        }
    }
}
