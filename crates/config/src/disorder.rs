//! Packets that a link loses, or lets others overtake, and which they are.

use crate::problems::Problems;
use crate::schema::{Check, Here, absent, or, required, within};
use weir_aqm::Share;
use weir_units::Duration;

section! {
    /// Losses by a chain of two states (Gilbert, 1960; Elliott, 1963): a good one and a bad one, each with a
    /// probability of loss of its own.
    pub struct LossBursts {
        /// Probability that a packet in the good state is followed by one in the bad state.
        p: Share = required(within(Share(0.0), Share(1.0)));
        /// Probability that a packet in the bad state is followed by one in the good state.
        r: Share = required(within(Share(0.0), Share(1.0)));
        /// Probability that a packet in the bad state is not lost: zero in Gilbert's simple model.
        h: Share = or(Share(0.0), within(Share(0.0), Share(1.0)));
        /// Probability that a packet in the good state is not lost.
        k: Share = or(Share(1.0), within(Share(0.0), Share(1.0)));
    }
}

impl Check for LossBursts {
    fn check(&mut self, here: &Here, p: &mut Problems) {
        if self.p.0 > 0.0 && self.r.0 <= 0.0 {
            let problem = "is 0, so that the link would stay in the bad state for ever";
            here.wrong(p, "r", problem, "give the inverse of the mean length of a burst, such as \"20%\"");
        }
    }
}

section! {
    /// Packets that are held back behind the queue, so that what follows overtakes them.
    pub struct Reorder {
        /// Share of the packets that are held back.
        share: Option<Share> = absent("`every` says which", within(Share(0.0), Share(0.9)));
        /// Each packet whose number is a multiple of this is held back.
        every: Option<u32> = absent("`share` says how many", within(2, 1_000_000_000));
        /// For how long, in addition to the delay of the link and its jitter.
        delay: Duration = required(within(Duration::from_micros(1), Duration::from_secs(10)));
    }
}

impl Check for Reorder {
    fn check(&mut self, here: &Here, p: &mut Problems) {
        match (self.share, self.every) {
            (None, None) => {
                here.wrong(p, "share", "is missing", "add it, such as \"1%\", or `every`, such as 100");
            }
            (Some(_), Some(_)) => here.wrong(p, "every", "does not go with `share`", "remove one of the two"),
            _ => {}
        }
    }
}

/// A probability as the number of 2^64 below which a roll hits. The cast saturates, so that a probability
/// of 1 hits all but one roll in 2^64.
fn threshold(share: f64) -> u64 {
    (share * 18_446_744_073_709_551_616.0) as u64
}

/// Which packets of a link are lost. Dice are the caller's: 64 random bits for each roll.
#[derive(Clone, Debug)]
pub struct Losses {
    independent: u64,
    chain: Option<Chain>,
    every: Option<u32>,
    /// Rising; those before `next` have passed.
    numbers: Vec<u32>,
    next: usize,
    /// Packets so far.
    passed: u64,
}

#[derive(Clone, Copy, Debug)]
struct Chain {
    is_bad: bool,
    /// Of leaving the good and the bad state.
    leave: [u64; 2],
    /// Of a loss in the good and the bad state.
    lose: [u64; 2],
}

impl Losses {
    /// Independent ones of that share, those of a chain, each n-th, and those of rising numbers; `None` if
    /// there are none.
    pub fn new(
        share: Share,
        bursts: Option<&LossBursts>,
        every: Option<u32>,
        numbers: &[u32],
    ) -> Option<Losses> {
        let chain = bursts.map(|b| Chain {
            is_bad: false,
            leave: [threshold(b.p.0), threshold(b.r.0)],
            lose: [threshold(1.0 - b.k.0), threshold(1.0 - b.h.0)],
        });
        let independent = threshold(share.0);
        let loses = independent > 0 || chain.is_some() || every.is_some() || !numbers.is_empty();
        loses.then(|| Losses { independent, chain, every, numbers: numbers.to_vec(), next: 0, passed: 0 })
    }

    /// Whether the next packet is lost.
    #[inline]
    pub fn hits(&mut self, roll: &mut impl FnMut() -> u64) -> bool {
        self.passed += 1;
        let independent = self.independent > 0 && roll() < self.independent;
        // Each is asked whatever the others say, so that a packet is one step of all.
        let in_burst = self.chain.as_mut().is_some_and(|chain| chain.hits(roll));
        let every = self.every.is_some_and(|every| self.passed.is_multiple_of(u64::from(every)));
        let listed = self.numbers.get(self.next).is_some_and(|number| u64::from(*number) == self.passed);
        self.next += usize::from(listed);
        independent || in_burst || every || listed
    }
}

impl Chain {
    fn hits(&mut self, roll: &mut impl FnMut() -> u64) -> bool {
        let state = usize::from(self.is_bad);
        let is_lost = roll() < self.lose[state];
        if roll() < self.leave[state] {
            self.is_bad = !self.is_bad;
        }
        is_lost
    }
}

/// Which packets of a link are held back. Dice are the caller's: 64 random bits for each roll.
#[derive(Clone, Debug)]
pub struct HeldBack {
    share: u64,
    every: Option<u32>,
    /// Packets so far.
    passed: u64,
    delay: Duration,
}

impl HeldBack {
    /// Those that the keys of a link say.
    pub fn new(reorder: &Reorder) -> HeldBack {
        let share = threshold(reorder.share.map_or(0.0, |share| share.0));
        HeldBack { share, every: reorder.every, passed: 0, delay: reorder.delay }
    }

    /// How much later the next packet arrives; zero for nearly all.
    #[inline]
    pub fn delay(&mut self, roll: &mut impl FnMut() -> u64) -> Duration {
        self.passed += 1;
        let by_share = self.share > 0 && roll() < self.share;
        let by_number = self.every.is_some_and(|every| self.passed.is_multiple_of(u64::from(every)));
        if by_share || by_number { self.delay } else { Duration::ZERO }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Dice without a library: the generator of Knuth (MMIX), its upper bits mixed down.
    fn dice() -> impl FnMut() -> u64 {
        let mut state = 7u64;
        move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state ^ (state >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd)
        }
    }

    const NONE: Share = Share(0.0);

    fn pattern(losses: Option<Losses>, count: usize) -> Vec<bool> {
        let (mut losses, mut roll) = (losses.expect("it loses some"), dice());
        (0..count).map(|_| losses.hits(&mut roll)).collect()
    }

    fn lost(pattern: &[bool]) -> Vec<usize> {
        (0..pattern.len()).filter(|n| pattern[*n]).map(|n| n + 1).collect()
    }

    #[test]
    fn numbered_packets_are_lost_and_no_others() {
        assert!(Losses::new(NONE, None, None, &[]).is_none());
        let numbers = [1, 4, 5, 20];
        assert_eq!(lost(&pattern(Losses::new(NONE, None, None, &numbers), 30)), [1, 4, 5, 20]);
        let both = Losses::new(NONE, None, Some(7), &numbers);
        assert_eq!(lost(&pattern(both, 30)), [1, 4, 5, 7, 14, 20, 21, 28]);
    }

    /// Salsano et al. (2009), equations of the Gilbert-Elliott model: p/(p+r) of the packets meet the bad
    /// state, bursts of it last 1/r.
    #[test]
    fn bursts_have_the_share_and_the_length_of_the_chain() {
        let bursts = LossBursts { p: Share(0.01), r: Share(0.2), h: Share(0.0), k: Share(1.0) };
        let n = 1_000_000;
        let gilbert = pattern(Losses::new(NONE, Some(&bursts), None, &[]), n);
        let count = gilbert.iter().filter(|lost| **lost).count() as f64;
        let runs = gilbert.windows(2).filter(|pair| !pair[0] && pair[1]).count() as f64;
        assert!((count / n as f64 / (0.01 / 0.21) - 1.0).abs() < 0.03, "{count}");
        assert!((count / runs / 5.0 - 1.0).abs() < 0.03, "{}", count / runs);
        let elliott = LossBursts { h: Share(0.5), k: Share(0.999), ..bursts };
        let elliott = pattern(Losses::new(NONE, Some(&elliott), None, &[]), n);
        let share = elliott.iter().filter(|lost| **lost).count() as f64 / n as f64;
        let expected = (0.5 * 0.01 + 0.001 * 0.2) / 0.21;
        assert!((share / expected - 1.0).abs() < 0.03, "{share} {expected}");
    }

    #[test]
    fn packets_are_held_back_as_often_as_the_file_says() {
        let delay = Duration::from_millis(3);
        let held = |reorder| {
            let (mut held, mut roll) = (HeldBack::new(&reorder), dice());
            (0..100_000).map(|_| held.delay(&mut roll)).collect::<Vec<_>>()
        };
        let every = held(Reorder { share: None, every: Some(100), delay });
        assert!((1..).zip(&every).all(|(n, d)| (*d == delay) == (n % 100 == 0)));
        let share = held(Reorder { share: Some(Share(0.02)), every: None, delay });
        let count = share.iter().filter(|d| **d == delay).count();
        assert!((1850..2150).contains(&count), "{count}");
    }
}
