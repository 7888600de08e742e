//! Whether enough probes come back.

/// Of the last 128 probes, so many must be back for the others to count as lost and not as held up.
const KEPT_FROM: u32 = 16;

/// So many must be back before a path that once did worse is relied on again.
const REGAINED_FROM: u32 = 64;

/// A judgement with hysteresis on the last 128 probes whose fate is known.
///
/// Few returns mean that samples are rare and old. The two limits lie so far apart that chance does not carry
/// a path of constant loss from one to the other: whatever the share of losses, more than four standard
/// deviations lie between the expected count and one of the limits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trust {
    /// A bit for each probe, set if it came back; the latest is the lowest.
    last: u128,
    holds: bool,
}

impl Trust {
    /// As if every second one had come back: what happens decides within a hundred probes.
    pub fn new() -> Trust {
        Trust { last: u128::MAX / 3, holds: true }
    }

    /// The fate of one more probe.
    pub fn note(&mut self, is_back: bool) {
        self.last = self.last << 1 | u128::from(is_back);
        let enough = if self.holds { KEPT_FROM } else { REGAINED_FROM };
        self.holds = self.last.count_ones() >= enough;
    }

    /// Whether the path is relied on.
    pub const fn holds(self) -> bool {
        self.holds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noted(mut trust: Trust, fates: impl IntoIterator<Item = bool>) -> Trust {
        fates.into_iter().for_each(|is_back| trust.note(is_back));
        trust
    }

    #[test]
    fn it_is_lost_below_an_eighth_and_regained_at_half() {
        let every = |n: usize| (0..1280).map(move |i| i % n == 0);
        assert!(noted(Trust::new(), every(8)).holds());
        let lost = noted(Trust::new(), every(9));
        assert!(!lost.holds());
        assert!(!noted(lost, every(3)).holds());
        let regained = noted(lost, every(2));
        assert!(regained.holds() && noted(regained, every(7)).holds());
    }

    #[test]
    fn it_takes_a_hundred_losses_at_the_start_and_64_returns_after_silence() {
        let losses = (1..).find(|n| !noted(Trust::new(), (0..*n).map(|_| false)).holds());
        assert_eq!(losses, Some(98));
        let silent = noted(Trust::new(), (0..1000).map(|_| false));
        let returns = (1..).find(|n| noted(silent, (0..*n).map(|_| true)).holds());
        assert_eq!(returns, Some(64));
    }
}
