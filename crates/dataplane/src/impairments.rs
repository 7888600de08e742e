//! How the line behind a link differs from one that keeps packets, their delay and their order.

use crate::frames::Frame;
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use std::collections::VecDeque;
use weir_config::{Step, Variation};
use weir_units::{Duration, Rate, Time};

/// A packet that is held back goes behind so many others.
const OVERTAKERS: u32 = 3;

/// How a link differs from one of constant rate that loses nothing. Links between real ports have none of it.
#[derive(Clone, Debug, Default)]
pub struct Impairments {
    /// Changes of the rate, trace, jitter and loss; times count from the origin of the run.
    pub variation: Variation,
    /// Share of the packets that the three behind them overtake, from 0 to 1.
    pub reorder: f64,
}

impl Impairments {
    /// Whether packets need a line, be it without delay: by a trace they leave after they were taken.
    pub fn need_line(&self) -> bool {
        let variation = &self.variation;
        let is_varied = variation.jitter > Duration::ZERO || variation.trace().is_some();
        is_varied || variation.loss.0 > 0.0 || self.reorder > 0.0
    }
}

/// Frames on their way behind the link, in the order in which they arrive.
pub struct Line {
    frames: VecDeque<(Time, Frame)>,
    most: usize,
    delay: Duration,
    jitter: Duration,
    loss: u64,
    reorder: u64,
    /// A frame that is held back, and how many go before it.
    held: Option<(u32, Frame)>,
    last: Time,
    dice: SplitMix64,
}

/// What became of a frame that was to be sent over a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sent {
    /// It is under way.
    UnderWay,
    /// It is lost, as some are.
    Lost,
    /// There was no room for it.
    Full,
}

impl Line {
    /// An empty line for at most so many frames.
    pub fn new(most: usize, delay: Duration, impairments: Option<&Impairments>, seed: u64) -> Line {
        let variation = impairments.map(|i| &i.variation);
        // The casts saturate: a share of one hits all but one roll in 2^64.
        let threshold = |share: f64| (share * 18_446_744_073_709_551_616.0) as u64;
        Line {
            frames: VecDeque::with_capacity(most),
            most,
            delay,
            jitter: variation.map_or(Duration::ZERO, |v| v.jitter),
            loss: threshold(variation.map_or(0.0, |v| v.loss.0)),
            reorder: threshold(impairments.map_or(0.0, |i| i.reorder)),
            held: None,
            last: Time::ZERO,
            dice: SplitMix64::seed_from_u64(seed),
        }
    }

    /// Whether there is none: frames go straight to the port.
    pub fn is_none(&self) -> bool {
        self.most == 0
    }

    /// A frame leaves the link at `at`.
    pub fn send(&mut self, at: Time, frame: Frame) -> Sent {
        if self.loss > 0 && self.dice.next_u64() < self.loss {
            return Sent::Lost;
        }
        if self.frames.len() + 2 > self.most {
            return Sent::Full;
        }
        if self.held.is_none() && self.reorder > 0 && self.dice.next_u64() < self.reorder {
            self.held = Some((OVERTAKERS, frame));
            return Sent::UnderWay;
        }
        // The order is kept, however long a packet takes.
        self.last = self.last.max(at + self.delay + self.jitter());
        self.frames.push_back((self.last, frame));
        if let Some((before, held)) = self.held.take() {
            match before {
                1 => self.frames.push_back((self.last, held)),
                _ => self.held = Some((before - 1, held)),
            }
        }
        Sent::UnderWay
    }

    fn jitter(&mut self) -> Duration {
        if self.jitter == Duration::ZERO {
            return Duration::ZERO;
        }
        let wide = u128::from(self.dice.next_u64()) * u128::from(self.jitter.as_nanos());
        Duration::from_nanos((wide >> 64) as u64)
    }

    /// When the first frame arrives.
    pub fn first(&self) -> Option<Time> {
        self.frames.front().map(|(due, _)| *due)
    }

    /// The first frame, if it has arrived by `now`, and when it did.
    pub fn arrived(&mut self, now: Time) -> Option<(Time, Frame)> {
        self.first().filter(|due| *due <= now)?;
        self.frames.pop_front()
    }
}

/// Changes of a link's rate that are still to come.
#[derive(Clone, Debug, Default)]
pub struct Steps {
    /// The last one first.
    later: Vec<Step>,
    origin: Time,
}

impl Steps {
    /// Those of a link, counted from `origin`.
    pub fn new(impairments: Option<&Impairments>, origin: Time) -> Steps {
        let later = impairments.map_or(Vec::new(), |i| i.variation.steps.iter().rev().copied().collect());
        Steps { later, origin }
    }

    /// The rate from now on, if it changed by `now`.
    pub fn due(&mut self, now: Time) -> Option<Rate> {
        let mut rate = None;
        while self.later.last().is_some_and(|step| self.origin + step.at <= now) {
            rate = self.later.pop().map(|step| step.rate);
        }
        rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_aqm::Share;

    fn ms(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    /// The numbers of the frames that come out of a line into which a frame goes each millisecond, and their
    /// delays.
    fn through(impairments: Impairments, count: u64) -> Vec<(u64, Duration)> {
        let mut line = Line::new(2 * count as usize, Duration::from_millis(20), Some(&impairments), 7);
        for n in 0..count {
            line.send(ms(n), Frame { addr: n, len: 0 });
        }
        std::iter::from_fn(|| line.arrived(Time::from_nanos(u64::MAX)))
            .map(|(due, frame)| (frame.addr, due.since(ms(frame.addr))))
            .collect()
    }

    #[test]
    fn a_line_delays_loses_and_reorders_as_often_as_it_is_to() {
        let plain = through(Impairments::default(), 100);
        assert!(
            plain.iter().enumerate().all(|(n, (k, d))| n as u64 == *k && *d == Duration::from_millis(20))
        );
        let variation =
            Variation { loss: Share(0.1), jitter: Duration::from_millis(8), ..Variation::default() };
        let lossy = through(Impairments { variation, reorder: 0.0 }, 10_000);
        assert!((8800..9200).contains(&lossy.len()) && lossy.is_sorted_by_key(|(n, _)| *n));
        assert!(lossy.iter().all(|(_, d)| (20..=28).contains(&(d.as_nanos() / 1_000_000))));
        assert!(lossy.iter().any(|(_, d)| d.as_nanos() > 25_000_000));
        let mixed = through(Impairments { reorder: 0.02, ..Impairments::default() }, 10_000);
        let overtaken = mixed.windows(2).filter(|pair| pair[1].0 < pair[0].0).count();
        assert!((150..230).contains(&overtaken), "{overtaken}");
    }

    #[test]
    fn a_line_without_room_says_so() {
        let mut line = Line::new(3, Duration::from_millis(1), None, 0);
        let sent: Vec<Sent> = (0..4).map(|n| line.send(ms(0), Frame { addr: n, len: 0 })).collect();
        assert_eq!(sent, [Sent::UnderWay, Sent::UnderWay, Sent::Full, Sent::Full]);
        assert_eq!(line.arrived(ms(0)), None);
        assert_eq!(line.arrived(ms(1)).map(|(_, frame)| frame.addr), Some(0));
    }
}
