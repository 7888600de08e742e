//! A player of adaptive video: segments over one connection, at rates that follow the buffer.

use std::sync::Arc;
use weir_units::{Bytes, Duration, Rate, Time};

/// What can be chosen about a player.
#[derive(Clone, Debug)]
pub struct VideoConfig {
    /// The rates there are, rising. At least one.
    pub rates: Vec<Rate>,
    /// Video in a segment. Above zero.
    pub segment: Duration,
    /// Video that the buffer holds at most; two segments or more.
    pub buffer: Duration,
    /// Up to here the lowest rate is chosen.
    pub reservoir: Duration,
    /// Above it the rate rises over so much of the buffer.
    pub cushion: Duration,
    /// With so much in the buffer play begins, and goes on after a stall.
    pub play_at: Duration,
}

impl VideoConfig {
    /// The rate of the next segment, by its place, after one of the place `before` with `level` in the
    /// buffer: BBA-0, algorithm 1 of Huang et al. (SIGCOMM 2014).
    pub fn choose(&self, before: usize, level: Duration) -> usize {
        let last = self.rates.len() - 1;
        if level <= self.reservoir {
            return 0;
        }
        if level >= self.reservoir + self.cushion {
            return last;
        }
        let (least, most) = (self.rates[0].as_bps_f64(), self.rates[last].as_bps_f64());
        let above = level.saturating_sub(self.reservoir).as_secs_f64() / self.cushion.as_secs_f64();
        let allowed = least + (most - least) * above;
        let rate = |place: usize| self.rates[place].as_bps_f64();
        let (up, down) = ((before + 1).min(last), before.saturating_sub(1));
        if allowed >= rate(up) {
            // max{R: R < f(B)}
            (0..=last).rev().find(|place| rate(*place) < allowed).unwrap_or(0)
        } else if allowed <= rate(down) {
            // min{R: R > f(B)}
            (0..=last).find(|place| rate(*place) > allowed).unwrap_or(last)
        } else {
            before
        }
    }

    /// Bytes of a segment at that rate.
    pub fn bytes(&self, place: usize) -> u64 {
        let bits =
            u128::from(self.rates[place].as_bps()) * u128::from(self.segment.as_nanos()) / 1_000_000_000;
        u64::try_from(bits / 8).unwrap_or(u64::MAX).max(1)
    }

    /// Bytes of data at the highest rate in the time of a segment.
    pub fn largest(&self) -> Bytes {
        Bytes::new(self.bytes(self.rates.len() - 1))
    }
}

/// What a player waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// Room in the buffer.
    Waiting(Time),
    /// The segment that was asked for.
    Loading,
}

/// What a player has shown so far, of what counts.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Shown {
    /// Segments that arrived.
    pub segments: u64,
    /// The sum of their rates in bit/s.
    pub rates_bps: f64,
    /// Segments of another rate than the one before.
    pub switches: u64,
    /// How often the buffer ran empty.
    pub stalls: u64,
    /// Time that the picture stood still.
    pub stalled: Duration,
    /// Time since the first picture.
    pub watched: Duration,
    /// Time times video in the buffer since then, in seconds squared.
    pub buffered: f64,
}

/// A player of video. It is asked on the sending side, which hears of the last byte of a segment by its
/// acknowledgement, and reckons its buffer by the times at which these bytes arrived.
#[derive(Clone, Debug)]
pub struct Video {
    /// Shared with all players of the same kind.
    config: Arc<VideoConfig>,
    stage: Stage,
    began: Time,
    /// What counts begins here.
    from: Time,
    /// Place of the rate of the last segment that was asked for, and of the one before.
    place: usize,
    before: Option<usize>,
    /// Video in the buffer at `at`.
    level: Duration,
    at: Time,
    is_playing: bool,
    startup: Option<Duration>,
    shown: Shown,
}

impl Video {
    /// A player that asks for its first segment at `start`; what happens from `from` on counts.
    pub fn new(config: Arc<VideoConfig>, start: Time, from: Time) -> Video {
        Video {
            config,
            stage: Stage::Waiting(start),
            began: start,
            from,
            place: 0,
            before: None,
            level: Duration::ZERO,
            at: start,
            is_playing: false,
            startup: None,
            shown: Shown::default(),
        }
    }

    /// When [`Video::poll`] has to be called; `None` while a segment is being transferred.
    pub fn next_timeout(&self) -> Option<Time> {
        match self.stage {
            Stage::Waiting(until) => Some(until),
            Stage::Loading => None,
        }
    }

    /// To be called when the time has come and when the sender is done, with the time at which the last
    /// byte had `arrived`: its acknowledgement stands for the next request. Returns the bytes to write now.
    pub fn poll(&mut self, now: Time, arrived: Option<Time>) -> Option<u64> {
        match (self.stage, arrived) {
            (Stage::Waiting(until), _) if now < until => None,
            (Stage::Waiting(_), _) => {
                self.stage = Stage::Loading;
                Some(self.config.bytes(self.place))
            }
            (Stage::Loading, None) => None,
            (Stage::Loading, Some(at)) => {
                self.arrives(at, now);
                let full = self.level + self.config.segment;
                // It is played while the next one has no room, so that the level then is known.
                let wait = full.saturating_sub(self.config.buffer);
                let place = self.config.choose(self.place, self.level.saturating_sub(wait));
                (self.before, self.place) = (Some(self.place), place);
                self.stage = Stage::Waiting(now + wait);
                self.poll(now, None)
            }
        }
    }

    /// A segment is complete at `at`; the sending side knows it at `now`.
    fn arrives(&mut self, at: Time, now: Time) {
        self.passes(at);
        self.level += self.config.segment;
        if at >= self.from {
            self.shown.segments += 1;
            self.shown.rates_bps += self.config.rates[self.place].as_bps_f64();
            self.shown.switches += u64::from(self.before.is_some_and(|before| before != self.place));
        }
        if !self.is_playing && self.level >= self.config.play_at {
            self.is_playing = true;
            // From request to picture: half of the round trip was before the first byte left.
            self.startup.get_or_insert(now.since(self.began));
        }
    }

    /// Time passes up to `to`.
    fn passes(&mut self, to: Time) {
        let passed = to.since(self.at);
        let left = if self.is_playing { self.level.min(passed) } else { Duration::ZERO };
        let empty = self.at + left;
        self.count(self.at, empty, true);
        if left < passed {
            if self.is_playing {
                self.is_playing = false;
                self.shown.stalls += u64::from(empty >= self.from);
            }
            self.level = self.level.saturating_sub(left);
            self.count(empty, to, false);
        } else {
            self.level = self.level.saturating_sub(left);
        }
        self.at = self.at.max(to);
    }

    /// Counts a span in which the picture moved or stood; before the first picture nothing counts.
    fn count(&mut self, begin: Time, end: Time, moved: bool) {
        if self.startup.is_none() || end <= self.from {
            return;
        }
        let begin = begin.max(self.from);
        let span = end.since(begin);
        self.shown.watched += span;
        let (mut mean, seconds) = (self.level.as_secs_f64(), span.as_secs_f64());
        if moved {
            // `level` is that of `self.at`, where the span, or a part of it that does not count, begins.
            mean -= begin.since(self.at).as_secs_f64() + seconds / 2.0;
        } else {
            self.shown.stalled += span;
        }
        self.shown.buffered += mean * seconds;
    }

    /// What was shown up to `end`, and how long the first picture took.
    pub fn ends(&mut self, end: Time) -> (Shown, Option<Duration>) {
        self.passes(end);
        (self.shown, self.startup)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(s: f64) -> Duration {
        Duration::from_secs_f64(s)
    }

    fn config() -> VideoConfig {
        VideoConfig {
            rates: [250, 500, 1000, 2000].map(|kbps| Rate::from_bps(kbps * 1000)).to_vec(),
            segment: s(4.0),
            buffer: s(40.0),
            reservoir: s(10.0),
            cushion: s(20.0),
            play_at: s(4.0),
        }
    }

    /// A player on a free link of that rate, without delay.
    fn plays(config: &VideoConfig, bps: f64, until: f64) -> (Shown, Option<Duration>, Vec<usize>) {
        let mut video = Video::new(Arc::new(config.clone()), Time::ZERO, Time::ZERO);
        let (mut now, mut places) = (Time::ZERO, Vec::new());
        let mut bytes = video.poll(now, None);
        while now < Time::ZERO + s(until) {
            let asked = match bytes {
                Some(bytes) => bytes,
                None => {
                    now = video.next_timeout().unwrap();
                    video.poll(now, None).unwrap()
                }
            };
            places.push(video.place);
            now += s(asked as f64 * 8.0 / bps);
            bytes = video.poll(now, Some(now));
        }
        let (shown, startup) = video.ends(now);
        (shown, startup, places)
    }

    #[test]
    fn rates_are_chosen_as_in_algorithm_1() {
        let c = config();
        // f(B) rises from 250 to 2000 kbit/s between 10 and 30 s: 87.5 kbit/s for each second.
        let at = |before: usize, level: f64| c.choose(before, s(level));
        assert_eq!([at(3, 10.0), at(0, 30.0), at(0, 0.0)], [0, 3, 0]);
        // At 12 s f is 425: below the next rate, so it stays; from 2 it falls to min{R > 425}.
        assert_eq!([at(0, 12.0), at(1, 12.0), at(2, 12.0)], [0, 1, 1]);
        // At 20 s f is 1125: from 0 and 1 up to max{R < 1125}, from 2 and 3 not at all.
        assert_eq!([at(0, 20.0), at(1, 20.0), at(2, 20.0), at(3, 20.0)], [2, 2, 2, 3]);
        // 3 is left only where f(B) <= 1000.
        assert_eq!([at(3, 18.6), at(3, 18.5)], [3, 2]);
        assert_eq!(c.bytes(3), 1_000_000);
    }

    #[test]
    fn between_two_steps_the_mean_rate_is_that_of_the_link() {
        let (shown, startup, places) = plays(&config(), 1.4e6, 4000.0);
        let mean = shown.rates_bps / shown.segments as f64;
        assert!((mean / 1.4e6 - 1.0).abs() < 0.01, "{mean}");
        assert!(places[50..].iter().all(|place| [2, 3].contains(place)));
        // The first segment: 4 s at 250 kbit/s.
        assert_eq!((shown.stalls, startup), (0, Some(s(1.0e6 / 1.4e6))));
        // Between f(B) = 1000, where 2000 is left, and f(B) = 2000, where it is taken.
        let buffer = shown.buffered / shown.watched.as_secs_f64();
        assert!((18.0..30.0).contains(&buffer), "{buffer}");
        assert!(shown.switches > 20, "{}", shown.switches);
    }

    #[test]
    fn a_fast_link_fills_the_buffer_and_a_slow_one_stalls() {
        let (fast, _, places) = plays(&config(), 100e6, 1000.0);
        assert!(places[20..].iter().all(|place| *place == 3));
        // The buffer is full when a segment arrives, and one shorter when the next is asked for.
        let buffer = fast.buffered / fast.watched.as_secs_f64();
        assert!((37.0..38.5).contains(&buffer) && fast.stalled == Duration::ZERO, "{buffer}");
        // Half of the lowest rate: each segment takes 8 s, of which 4 are played.
        let (slow, _, _) = plays(&config(), 125e3, 800.0);
        let stalled = slow.stalled.as_secs_f64() / slow.watched.as_secs_f64();
        assert!((stalled - 0.5).abs() < 0.01 && slow.stalls == 99, "{stalled} {}", slow.stalls);
    }

    #[test]
    fn what_was_before_the_measured_part_does_not_count() {
        let mut video = Video::new(Arc::new(config()), Time::ZERO, Time::ZERO + s(6.0));
        let at = |x: f64| Time::ZERO + s(x);
        assert_eq!(video.poll(at(0.0), None), Some(125_000));
        assert_eq!(video.poll(at(1.0), Some(at(1.0))), Some(125_000));
        // It stands from 5 s to 7 s, of which one second counts; then it plays until 10 s.
        assert_eq!(video.poll(at(7.0), Some(at(7.0))), Some(125_000));
        let (shown, startup) = video.ends(at(10.0));
        assert_eq!((shown.segments, shown.stalls, shown.stalled, shown.watched), (1, 0, s(1.0), s(4.0)));
        assert_eq!(startup, Some(s(1.0)));
        // Level 4 at 7 s and 1 at 10 s.
        assert!((shown.buffered - 7.5).abs() < 1e-9, "{}", shown.buffered);
    }
}
