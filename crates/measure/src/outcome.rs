//! Quality of outcome: how near network conditions are to what an application needs (draft-ietf-ippm-qoo).

use weir_units::Duration;

/// Conditions that are optimal for an application, and those that are unacceptable to it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Requirements {
    /// Round-trip times: up to the first conditions are optimal, from the second on unacceptable.
    pub delay: [Duration; 2],
    /// The same for the share of packets that is lost.
    pub loss: [f64; 2],
}

impl Requirements {
    /// The score of a round-trip time and a share of lost packets, from 0 to 1: 1 where both are optimal, 0
    /// where one is unacceptable, in between the smaller of both by linear interpolation. What was not
    /// measured is left out; `None` where nothing was.
    pub fn score(&self, delay: Option<Duration>, loss: Option<f64>) -> Option<f64> {
        let of = |value: f64, [optimal, unacceptable]: [f64; 2]| {
            ((unacceptable - value) / (unacceptable - optimal)).clamp(0.0, 1.0)
        };
        let delays = self.delay.map(|delay| delay.as_secs_f64());
        let delay = delay.map(|delay| of(delay.as_secs_f64(), delays));
        let loss = loss.map(|loss| of(loss, self.loss));
        delay.into_iter().chain(loss).reduce(f64::min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_score_is_that_of_the_worse_of_both() {
        let ms = Duration::from_millis;
        let needs = Requirements { delay: [ms(100), ms(300)], loss: [0.01, 0.05] };
        for (delay, loss, score) in [
            (Some(20), Some(0.0), Some(1.0)),
            (Some(100), Some(0.01), Some(1.0)),
            (Some(150), Some(0.0), Some(0.75)),
            (Some(150), Some(0.04), Some(0.25)),
            (Some(300), Some(0.0), Some(0.0)),
            (Some(9000), None, Some(0.0)),
            (None, Some(0.02), Some(0.75)),
            (None, Some(1.0), Some(0.0)),
            (None, None, None),
        ] {
            let got = needs.score(delay.map(ms), loss);
            assert!(
                got.zip(score).map_or(got == score, |(got, score)| (got - score).abs() < 1e-9),
                "{delay:?} {loss:?}: {got:?}"
            );
        }
    }
}
