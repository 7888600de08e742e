//! The rate of a shaper whose packets probes follow: the configured one, less while probes do not come back,
//! or one that [`Autorate`] moves. For live links and simulator alike.

use super::autorate::{Autorate, AutorateConfig, Interval};
use super::{State, WINDOW};
use weir_units::{Duration, Rate, Time};

/// What was delivered is not told by probes that came back closer together.
const APART: Duration = Duration::from_millis(50);

/// How the rate of a shaper depends on its probes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ShapingSettings {
    /// The configured rate.
    pub rate: Rate,
    /// The rate while probes do not come back, if that is less than what would be in force.
    pub fall_back: Option<Rate>,
    /// Within what the rate moves; `None` for one that stays.
    pub autorate: Option<AutorateConfig>,
}

impl ShapingSettings {
    /// Whether probes have anything to do with the rate.
    pub fn is_moved(&self) -> bool {
        self.fall_back.is_some() || self.autorate.is_some()
    }
}

/// What became of the rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Shaped {
    /// The rate in force.
    pub rate: Rate,
    /// The least that was in force.
    pub least: Rate,
    /// The largest that was in force.
    pub largest: Rate,
    /// Whether it is what it is because probes do not come back.
    pub is_fallen_back: bool,
    /// How often that was so.
    pub fall_backs: u64,
    /// How often it was cut because packets waited below.
    pub cuts: u64,
}

/// A moment, and how much had left the shaper before: by then, or before a probe that left or came back then.
#[derive(Clone, Copy, Debug)]
struct Moment {
    at: Time,
    bytes: u64,
}

/// Keeps the rate of a shaper. Holds what it needs by value, about 64 KB.
#[derive(Clone, Debug)]
pub struct Shaping {
    settings: ShapingSettings,
    law: Option<Autorate>,
    told: Shaped,
    left: [Moment; WINDOW],
    /// The last probe that left, and the first of those that left and are not known to be back.
    last_left: Option<u16>,
    pending: Option<u16>,
    /// The last probe of the interval before, or the first of this one, and the last of this one.
    first_back: Option<Moment>,
    last_back: Option<Moment>,
    /// Least delay of this interval.
    delay: Option<Duration>,
    /// When this interval began, and how much had left by then.
    began: Moment,
    due: Time,
}

impl Shaping {
    /// A shaper that begins at the configured rate.
    pub fn new(settings: ShapingSettings, now: Time) -> Shaping {
        let law = settings.autorate.map(|config| Autorate::new(config, settings.rate));
        let rate = law.as_ref().map_or(settings.rate, Autorate::rate);
        let began = Moment { at: now, bytes: 0 };
        Shaping {
            settings,
            law,
            told: Shaped { rate, least: rate, largest: rate, ..Shaped::default() },
            left: [began; WINDOW],
            last_left: None,
            pending: None,
            first_back: None,
            last_back: None,
            delay: None,
            began,
            due: now,
        }
    }

    /// The rate in force, and what became of it.
    pub fn told(&self) -> &Shaped {
        &self.told
    }

    /// The configured rate is another one from now on.
    pub fn set_rate(&mut self, rate: Rate) {
        self.settings.rate = rate;
        if let Some(law) = &mut self.law {
            law.set_rate(rate);
        }
        self.due = Time::ZERO;
    }

    /// A probe left the shaper, when `bytes` had left in all.
    pub fn left(&mut self, at: Time, sequence: u16, bytes: u64) {
        self.left[usize::from(sequence) % WINDOW] = Moment { at, bytes };
        self.last_left = Some(sequence);
        self.pending = self.pending.or(Some(sequence));
    }

    /// A probe that left came back for the first time.
    pub fn returned(&mut self, now: Time, sequence: u16) {
        let Moment { at, bytes } = self.left[usize::from(sequence) % WINDOW];
        let delay = now.since(at);
        self.delay = Some(self.delay.map_or(delay, |least| least.min(delay)));
        self.pending = if self.last_left == Some(sequence) { None } else { Some(sequence.wrapping_add(1)) };
        let came = Moment { at: now, bytes };
        self.first_back = self.first_back.or(Some(came));
        self.last_back = Some(came);
    }

    /// When [`Shaping::look`] is due again; it may come late, and earlier when the state changes.
    /// `None` where only a change of the state matters.
    pub fn due(&self) -> Option<Time> {
        self.law.is_some().then_some(self.due)
    }

    /// As it was made.
    pub fn settings(&self) -> &ShapingSettings {
        &self.settings
    }

    /// Looks at what the probes say, when `bytes` had left the shaper in all; returns the rate if it is
    /// another one from now on.
    #[inline]
    pub fn look(&mut self, now: Time, state: State, bytes: u64) -> Option<Rate> {
        let falls_back = state == State::FallenBack;
        let comes_back = state == State::Sensing && self.told.is_fallen_back;
        if now < self.due && falls_back == self.told.is_fallen_back && !comes_back {
            return None;
        }
        self.decide(now, state, bytes)
    }

    #[cold]
    fn decide(&mut self, now: Time, state: State, bytes: u64) -> Option<Rate> {
        let was = self.told.rate;
        if state == State::FallenBack {
            self.told.fall_backs += u64::from(!self.told.is_fallen_back);
            self.told.is_fallen_back = true;
        } else if state == State::Sensing && self.told.is_fallen_back {
            self.told.is_fallen_back = false;
            // It goes on from what is in force: what the link delivered before may be long ago.
            if let Some(law) = &mut self.law {
                law.set_rate(was);
            }
        }
        if now >= self.due {
            self.end_interval(now, state, bytes);
        }
        let usual = self.law.as_ref().map_or(self.settings.rate, Autorate::rate);
        let rate = match self.told.is_fallen_back {
            true => usual.min(self.settings.fall_back.unwrap_or(self.settings.rate)),
            false => usual,
        };
        let told = &mut self.told;
        (told.rate, told.least, told.largest) = (rate, told.least.min(rate), told.largest.max(rate));
        told.cuts = self.law.as_ref().map_or(0, Autorate::cuts);
        (rate != was).then_some(rate)
    }

    fn end_interval(&mut self, now: Time, state: State, bytes: u64) {
        let Moment { at, bytes: before } = self.began;
        let seen = Interval {
            sent: rate_of(bytes.saturating_sub(before), now.since(at)),
            delivered: self.delivered(),
            delay: self.delay,
            overdue: self.pending.map(|first| now.since(self.left[usize::from(first) % WINDOW].at)),
        };
        self.due = match &mut self.law {
            None => Time::from_nanos(u64::MAX),
            Some(law) => {
                if state == State::Sensing {
                    law.step(now, self.settings.rate, &seen);
                }
                now + law.interval(now)
            }
        };
        // The next interval is told by what came back from the last of this one on.
        (self.first_back, self.last_back, self.delay) = (self.last_back, None, None);
        self.began = Moment { at: now, bytes };
    }

    fn delivered(&self) -> Option<Rate> {
        let (first, last) = self.first_back.zip(self.last_back)?;
        let time = last.at.since(first.at);
        let bytes = last.bytes.checked_sub(first.bytes)?;
        (time >= APART).then(|| rate_of(bytes, time))
    }
}

fn rate_of(bytes: u64, time: Duration) -> Rate {
    Rate::from_bps_f64(bytes as f64 * 8.0 / time.as_secs_f64().max(1e-9))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::boxed::Box;

    fn ms(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    fn shaping(fall_back: Option<u64>, autorate: bool) -> Box<Shaping> {
        let config = AutorateConfig {
            min: Rate::from_mbps(1),
            max: Rate::from_mbps(20),
            delay: Duration::from_millis(30),
        };
        let settings = ShapingSettings {
            rate: Rate::from_mbps(16),
            fall_back: fall_back.map(Rate::from_mbps),
            autorate: autorate.then_some(config),
        };
        Box::new(Shaping::new(settings, Time::ZERO))
    }

    #[test]
    fn silence_lowers_the_rate_once_and_returns_restore_it() {
        let mut shaping = shaping(Some(6), false);
        let mut look = |at, state| shaping.look(ms(at), state, 0);
        for (at, state) in [(1, State::Starting), (2, State::Sensing), (2_000, State::Holding)] {
            assert_eq!(look(at, state), None);
        }
        assert_eq!(look(5_000, State::FallenBack), Some(Rate::from_mbps(6)));
        assert_eq!(look(5_001, State::FallenBack), None);
        assert_eq!(look(6_000, State::Sensing), Some(Rate::from_mbps(16)));
        assert_eq!(look(9_000, State::FallenBack), Some(Rate::from_mbps(6)));
        assert_eq!(shaping.due(), None);
        let told = *shaping.told();
        assert_eq!((told.fall_backs, told.is_fallen_back, told.least), (2, true, Rate::from_mbps(6)));
        shaping.set_rate(Rate::from_mbps(4));
        assert_eq!(shaping.look(ms(9_001), State::FallenBack, 0), Some(Rate::from_mbps(4)), "less than that");
        shaping.set_rate(Rate::from_mbps(18));
        assert_eq!(shaping.look(ms(9_002), State::FallenBack, 0), Some(Rate::from_mbps(6)));
        assert_eq!(shaping.look(ms(9_003), State::Sensing, 0), Some(Rate::from_mbps(18)));
    }

    /// A link of 8 Mbit/s, 10 ms long, behind a shaper that a sender fills, with a probe after each packet.
    fn drive(shaping: &mut Shaping, from_ms: u64, to_ms: u64, link_bps: f64) -> f64 {
        let (mut bytes, mut free) = (0.0, ms(from_ms));
        let mut back: std::collections::VecDeque<(Time, u16)> = Default::default();
        let (mut now, mut number) = (ms(from_ms), 0u16);
        let mut worst = 0.0f64;
        while now < ms(to_ms) {
            now += Duration::from_secs_f64(1500.0 * 8.0 / shaping.told().rate.as_bps_f64());
            while let Some((at, sequence)) = back.front().copied().filter(|(at, _)| *at <= now) {
                shaping.returned(at, sequence);
                back.pop_front();
            }
            bytes += 1500.0;
            free = free.max(now) + Duration::from_secs_f64(1500.0 * 8.0 / link_bps);
            shaping.left(now, number, bytes as u64);
            back.push_back((free + Duration::from_millis(10), number));
            worst = if now > ms(to_ms - 1_000) { worst.max(free.since(now).as_millis_f64()) } else { 0.0 };
            number = number.wrapping_add(1);
            shaping.look(now, State::Sensing, bytes as u64);
        }
        worst
    }

    #[test]
    fn a_link_of_half_the_rate_is_found_and_its_queue_kept_short() {
        let mut shaping = shaping(None, true);
        let waits = drive(&mut shaping, 0, 6_000, 8e6);
        let rate = shaping.told().rate.as_bps_f64();
        assert!((7e6..9.5e6).contains(&rate), "{rate}");
        assert!(waits < 60.0, "{waits} ms");
        assert!(
            shaping.told().cuts > 0 && shaping.told().least >= Rate::from_mbps(4),
            "{:?}",
            shaping.told()
        );
    }

    #[test]
    fn an_autorate_that_falls_back_goes_on_from_there() {
        let mut shaping = shaping(None, true);
        drive(&mut shaping, 0, 4_000, 40e6);
        assert!(shaping.told().rate > Rate::from_mbps(18), "{:?}", shaping.told());
        assert_eq!(
            shaping.look(ms(9_000), State::FallenBack, 0),
            Some(Rate::from_mbps(16)),
            "the configured"
        );
        shaping.look(ms(9_100), State::Sensing, 0);
        assert!(shaping.told().rate <= Rate::from_mbps(16), "{:?}", shaping.told());
    }
}
