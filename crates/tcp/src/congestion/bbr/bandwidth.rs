//! The largest value of the last round trips: of delivery rates the bottleneck's, of ACKs in excess their
//! aggregation.

/// Round trips that are remembered.
const ROUNDS: u32 = 10;

/// A running maximum. It ages with the rounds of its samples: while none is worth taking, as when the
/// application limits the flow, it stands.
#[derive(Clone, Debug, Default)]
pub(in crate::congestion) struct Bandwidth {
    /// Largest value of each round.
    rounds: [f64; ROUNDS as usize],
    /// The round of the last sample.
    newest: u32,
    max: f64,
}

impl Bandwidth {
    /// The largest; zero before the first sample.
    pub fn max(&self) -> f64 {
        self.max
    }

    /// The largest of the round of the last sample.
    pub fn latest(&self) -> f64 {
        self.rounds[self.newest as usize % ROUNDS as usize]
    }

    /// Takes a sample of a round, which is no earlier than the last one's.
    pub fn add(&mut self, round: u32, rate: f64) {
        let passed = round.saturating_sub(self.newest).min(ROUNDS);
        for step in 0..passed {
            self.rounds[(round - step) as usize % ROUNDS as usize] = 0.0;
        }
        self.newest = round;
        let slot = &mut self.rounds[round as usize % ROUNDS as usize];
        *slot = slot.max(rate);
        self.max = self.rounds.iter().copied().fold(0.0, f64::max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_of_ten_rounds_counts() {
        let mut bw = Bandwidth::default();
        bw.add(1, 500.0);
        bw.add(1, 300.0);
        for round in 2..=10 {
            bw.add(round, 100.0);
            assert_eq!(bw.max(), 500.0, "{round}");
        }
        bw.add(11, 100.0);
        assert_eq!(bw.max(), 100.0);
        bw.add(12, 900.0);
        assert_eq!(bw.max(), 900.0);
    }

    #[test]
    fn rounds_without_a_sample_count_when_the_next_comes() {
        let mut bw = Bandwidth::default();
        bw.add(3, 500.0);
        assert_eq!(bw.max(), 500.0);
        bw.add(12, 100.0);
        assert_eq!(bw.max(), 500.0);
        bw.add(1000, 50.0);
        assert_eq!(bw.max(), 50.0);
    }
}
