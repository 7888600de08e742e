//! How the line behind a link differs from one that keeps packets, their delay and their order.

use crate::frames::Frame;
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use std::collections::VecDeque;
use weir_config::disorder::{HeldBack, Losses};
use weir_config::{Step, Variation};
use weir_units::{Duration, Rate, Time};

/// How a link differs from one of constant rate that loses nothing. Links between real ports have none of it.
#[derive(Clone, Debug, Default)]
pub struct Impairments {
    /// Changes of the rate, trace, jitter, loss and reordering; times count from the origin of the run.
    pub variation: Variation,
}

impl Impairments {
    /// Whether packets need a line, be it without delay: by a trace they leave after they were taken.
    pub fn need_line(&self) -> bool {
        let variation = &self.variation;
        let is_varied = variation.jitter > Duration::ZERO || variation.trace().is_some();
        is_varied || variation.losses().is_some() || variation.reorder.is_some()
    }

    /// Most time that a packet may take in addition to the delay of its link.
    pub fn longest(&self) -> Duration {
        let held_back = self.variation.reorder.as_ref().map_or(Duration::ZERO, |reorder| reorder.delay);
        self.variation.jitter + held_back
    }
}

/// Frames on their way behind the link, in the order in which they arrive.
pub struct Line {
    frames: VecDeque<(Time, Frame)>,
    /// Those that are held back, in the order in which they arrive: all for the same time.
    late: VecDeque<(Time, Frame)>,
    most: usize,
    delay: Duration,
    jitter: Duration,
    losses: Option<Losses>,
    held_back: Option<HeldBack>,
    last: Time,
    dice: SplitMix64,
}

/// What became of a frame that was to be sent over a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sent {
    /// It is under way.
    UnderWay,
    /// It is under way, and others may overtake it.
    HeldBack,
    /// It is lost, as some are.
    Lost,
    /// There was no room for it.
    Full,
}

impl Line {
    /// An empty line for at most so many frames.
    pub fn new(most: usize, delay: Duration, impairments: Option<&Impairments>, seed: u64) -> Line {
        let variation = impairments.map(|i| &i.variation);
        let held_back = variation.and_then(Variation::held_back);
        Line {
            frames: VecDeque::with_capacity(most),
            late: VecDeque::with_capacity(if held_back.is_some() { most } else { 0 }),
            most,
            delay,
            jitter: variation.map_or(Duration::ZERO, |v| v.jitter),
            losses: variation.and_then(Variation::losses),
            held_back,
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
        let mut roll = || self.dice.next_u64();
        if self.losses.as_mut().is_some_and(|losses| losses.hits(&mut roll)) {
            return Sent::Lost;
        }
        if self.frames.len() + self.late.len() >= self.most {
            return Sent::Full;
        }
        let held_back = self.held_back.as_mut().map_or(Duration::ZERO, |held| held.delay(&mut roll));
        // The order is kept, however long a packet takes, but for those that are to be overtaken.
        self.last = self.last.max(at + self.delay + self.jitter());
        if held_back > Duration::ZERO {
            self.late.push_back((self.last + held_back, frame));
            return Sent::HeldBack;
        }
        self.frames.push_back((self.last, frame));
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
        self.frames.front().into_iter().chain(self.late.front()).map(|(due, _)| *due).min()
    }

    /// The first frame, if it has arrived by `now`, and when it did.
    pub fn arrived(&mut self, now: Time) -> Option<(Time, Frame)> {
        let first = self.first().filter(|due| *due <= now)?;
        let is_late = self.frames.front().is_none_or(|(due, _)| *due > first);
        if is_late { self.late.pop_front() } else { self.frames.pop_front() }
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
    use weir_config::disorder::Reorder;

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
        let lossy = through(Impairments { variation }, 10_000);
        assert!((8800..9200).contains(&lossy.len()) && lossy.is_sorted_by_key(|(n, _)| *n));
        assert!(lossy.iter().all(|(_, d)| (20..=28).contains(&(d.as_nanos() / 1_000_000))));
        assert!(lossy.iter().any(|(_, d)| d.as_nanos() > 25_000_000));
        let reorder = Reorder { share: Some(Share(0.02)), every: None, delay: Duration::from_micros(3500) };
        let variation = Variation { reorder: Some(reorder), ..Variation::default() };
        let mixed = through(Impairments { variation }, 10_000);
        let overtaken: Vec<_> =
            mixed.iter().filter(|(_, delay)| *delay > Duration::from_millis(20)).collect();
        assert!((150..250).contains(&overtaken.len()), "{}", overtaken.len());
        assert!(overtaken.iter().all(|(_, delay)| delay.as_nanos() == 23_500_000));
        // Each comes when it is due: behind the three that left within 3.5 ms of it.
        assert!(mixed.is_sorted_by_key(|(n, delay)| ms(*n) + *delay) && mixed.len() == 10_000);
        let variation = Variation { loss_packets: vec![2, 3, 9], ..Variation::default() };
        let listed = through(Impairments { variation }, 10);
        assert_eq!(listed.iter().map(|(n, _)| *n).collect::<Vec<_>>(), [0, 3, 4, 5, 6, 7, 9]);
    }

    #[test]
    fn a_line_without_room_says_so() {
        let mut line = Line::new(2, Duration::from_millis(1), None, 0);
        let sent: Vec<Sent> = (0..4).map(|n| line.send(ms(0), Frame { addr: n, len: 0 })).collect();
        assert_eq!(sent, [Sent::UnderWay, Sent::UnderWay, Sent::Full, Sent::Full]);
        assert_eq!(line.arrived(ms(0)), None);
        assert_eq!(line.arrived(ms(1)).map(|(_, frame)| frame.addr), Some(0));
    }
}
