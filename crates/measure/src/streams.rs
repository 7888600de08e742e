//! Datagrams that come at equal distances and are worth less the later they come: delay, jitter and loss.

use crate::distribution::{Distribution, Quantiles, Window};
use crate::emodel::{Speech, mos, rating};
use weir_sense::{Came, Recent};
use weir_units::{Duration, Time};

/// A datagram is lost when one that was sent later arrived before it, or when it was sent so long before
/// the end and never arrived.
const GIVEN_UP: Duration = Duration::from_secs(1);

/// Play-out follows the shortest delay of this to twice this time: receivers follow clocks and routes, and
/// with them a queue that stands.
const FOLLOWED: Duration = Duration::from_secs(5);

/// By what a datagram is too late, and what that means.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Judged {
    /// Speech, played from a buffer.
    Voice {
        /// It is too late when it comes this much later than after the shortest delay of late.
        playout: Duration,
        /// Delay from mouth to ear apart from network and buffer.
        coding: Duration,
        /// Factors of the codec: `Ie` and `Bpl`.
        factors: (f64, f64),
    },
    /// News of a game, too late after this delay.
    Game(Duration),
}

/// What the streams of a group have in common: their times, and each of them when it ends.
#[derive(Default)]
pub struct Pool {
    /// Delays from sender to receiver of what arrived.
    pub delays: Distribution,
    /// Differences of the delays of one and the next (RFC 3550, section 6.4.1: |D|).
    pub steps: Distribution,
    /// Each stream that ended.
    pub ended: Vec<Received>,
}

impl Pool {
    /// The distribution of the delays.
    pub fn quantiles(&self) -> Quantiles {
        self.delays.quantiles_ms()
    }
}

/// What was shown of a stream of frames in the measured part.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Shown {
    /// Bits of frames that arrived whole, per second.
    pub rate_bps: f64,
    /// How often the picture stood still.
    pub freezes: u64,
    /// Share of the time in which it did.
    pub frozen: f64,
}

/// What became of a stream.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Received {
    /// Datagrams of the measured part whose fate is known.
    pub sent: u64,
    /// Those that never arrived.
    pub lost: u64,
    /// Those that arrived too late.
    pub late: u64,
    /// Runs of lost or late ones.
    pub runs: u64,
    /// Rating of a call, and its delay from mouth to ear in milliseconds.
    pub call: Option<(f64, f64)>,
    /// What was shown of real-time video.
    pub shown: Option<Shown>,
}

impl Received {
    /// Share that was of no use, lost or late.
    pub fn useless(&self) -> f64 {
        (self.lost + self.late) as f64 / (self.sent as f64).max(1.0)
    }

    /// Length of the runs of useless datagrams, divided by what it would be if each were useless by chance.
    pub fn burst_ratio(&self) -> f64 {
        let mean = (self.lost + self.late) as f64 / (self.runs as f64).max(1.0);
        (mean * (1.0 - self.useless())).max(1.0)
    }

    /// Mean opinion score of a call.
    pub fn mos(&self) -> Option<f64> {
        self.call.map(|(r, _)| mos(r))
    }
}

/// The receiving side of a stream.
#[derive(Clone, Debug)]
pub struct Stream {
    judged: Judged,
    interval: Duration,
    window: Window,
    /// Numbers of the datagrams that came.
    numbers: Recent,
    /// Shortest delay since `since`, and in the time of equal length before it.
    recent: Duration,
    before: Duration,
    since: Time,
    /// Sum of the shortest delays that play-out followed, over the arrived.
    followed: Duration,
    longest: Duration,
    last: Option<Duration>,
    arrived: u64,
    /// Whether the one before was lost or late.
    in_run: bool,
    so_far: Received,
}

impl Stream {
    /// Of datagrams at these distances, numbered from 0.
    pub fn new(judged: Judged, interval: Duration, window: Window) -> Stream {
        let interval = interval.max(Duration::from_nanos(1));
        Stream {
            judged,
            interval,
            window,
            numbers: Recent::default(),
            recent: Duration::MAX,
            before: Duration::MAX,
            since: Time::ZERO,
            followed: Duration::ZERO,
            longest: Duration::ZERO,
            last: None,
            arrived: 0,
            in_run: false,
            so_far: Received::default(),
        }
    }

    /// A datagram arrives.
    pub fn arrives(&mut self, at: Time, number: u64, sent: Time, pool: &mut Pool) {
        let next = self.numbers.next();
        if self.numbers.note(number) == Came::Again {
            return;
        }
        let delay = at.since(sent);
        if at.since(self.since) >= FOLLOWED {
            let is_old = at.since(self.since) >= FOLLOWED.saturating_mul(2);
            self.before = if is_old { Duration::MAX } else { self.recent };
            (self.recent, self.since) = (Duration::MAX, at);
        }
        self.recent = self.recent.min(delay);
        let fastest = self.recent.min(self.before);
        self.longest = self.longest.max(delay);
        let is_measured = self.window.contains(sent);
        let is_overtaken = number < next;
        if is_overtaken && is_measured {
            // It had been taken for lost.
            self.so_far.lost = self.so_far.lost.saturating_sub(1);
            self.so_far.runs = self.so_far.runs.saturating_sub(1);
        } else if !is_overtaken {
            let since = sent.since(self.window.from).as_nanos() / self.interval.as_nanos();
            let missing = (number - next).min(if is_measured { since } else { 0 });
            self.so_far.lost += missing;
            self.notes_run(missing > 0, missing > 0);
        }
        let step = self.last.map(|last| delay.saturating_sub(last) + last.saturating_sub(delay));
        self.last = Some(delay);
        if !is_measured {
            return;
        }
        self.arrived += 1;
        self.followed += fastest;
        let is_late = match self.judged {
            Judged::Voice { playout, .. } => delay > fastest + playout,
            Judged::Game(bound) => delay > bound,
        };
        self.so_far.late += u64::from(is_late);
        self.notes_run(is_late, true);
        pool.delays.record(delay);
        if let Some(step) = step {
            pool.steps.record(step);
        }
    }

    /// Begins or ends a run; `decides` if what came says that there is none.
    fn notes_run(&mut self, is_useless: bool, decides: bool) {
        self.so_far.runs += u64::from(is_useless && !self.in_run);
        self.in_run = is_useless || (self.in_run && !decides);
    }

    /// The stream ends after `sent` datagrams, of which the next would have left at `next`.
    pub fn ends(mut self, sent: u64, next: Time, at: Time, pool: &mut Pool) {
        let step = self.interval.as_nanos();
        // What left within this time may still arrive, and so may what would have left at `next`.
        let ahead = next.since(at).as_nanos() / step;
        let open = GIVEN_UP.max(self.longest).as_nanos() / step + 1;
        let measured = at.min(self.window.until).since(self.window.from).as_nanos() / step;
        let unseen = (sent - self.numbers.next().min(sent)).saturating_sub(open.saturating_sub(ahead));
        let missing = unseen.min(measured.saturating_sub(open));
        self.so_far.lost += missing;
        self.notes_run(missing > 0, missing > 0);
        self.so_far.sent = self.arrived + self.so_far.lost;
        if self.so_far.sent == 0 {
            return;
        }
        if let Judged::Voice { playout, coding, factors: (ie, bpl) } = self.judged {
            let network_ms = self.followed.as_millis_f64() / (self.arrived as f64).max(1.0);
            let delay_ms = (coding + playout).as_millis_f64() + network_ms;
            let (loss, burst_ratio) = (self.so_far.useless(), self.so_far.burst_ratio());
            let r = rating(&Speech { delay_ms, loss, burst_ratio, ie, bpl });
            self.so_far.call = Some((r, delay_ms));
        }
        pool.ended.push(self.so_far);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn at(t: u64) -> Time {
        Time::ZERO + ms(t)
    }

    /// Packets each 20 ms for ten seconds, each with its delay, or none if it is lost.
    fn call(judged: Judged, from: u64, fate: impl Fn(u64) -> Option<u64>) -> (Received, Pool) {
        let window = Window { from: at(from), until: at(10_000) };
        let (mut stream, mut pool) = (Stream::new(judged, ms(20), window), Pool::default());
        for n in 0..500 {
            if let Some(delay) = fate(n) {
                stream.arrives(at(20 * n + delay), n, at(20 * n), &mut pool);
            }
        }
        stream.ends(500, at(10_000), at(10_000), &mut pool);
        (pool.ended[0], pool)
    }

    const VOICE: Judged = Judged::Voice {
        playout: Duration::from_millis(60),
        coding: Duration::from_millis(20),
        factors: (0.0, 25.1),
    };

    #[test]
    fn a_call_without_trouble_is_as_late_as_network_and_buffer_make_it() {
        let (call, pool) = call(VOICE, 1000, |_| Some(40));
        assert_eq!((call.sent, call.lost, call.late, call.runs), (450, 0, 0, 0));
        let (r, delay_ms) = call.call.unwrap();
        assert_eq!(delay_ms, 120.0);
        // 0.024 * 120 by Cole and Rosenbluth.
        assert!((r - (93.2 - 2.88)).abs() < 0.5 && (call.mos().unwrap() - 4.35).abs() < 0.02, "{r}");
        assert_eq!((pool.delays.count(), pool.steps.spread_ms().max), (450, 0.0));
    }

    #[test]
    fn lost_and_late_packets_are_counted_with_their_runs() {
        // Of each ten, two in a row are lost and one alone is 70 ms later than the others.
        let fate = |n| match n % 10 {
            3 | 4 => None,
            7 => Some(110),
            _ => Some(40),
        };
        let (call, pool) = call(VOICE, 0, fate);
        assert_eq!((call.sent, call.lost, call.late, call.runs), (500, 100, 50, 100));
        assert_eq!(call.useless(), 0.3);
        // Runs of 1.5, where chance would make runs of 1 / 0.7.
        assert!((call.burst_ratio() - 1.5 * 0.7).abs() < 1e-12);
        // Two of eight delays that follow each other differ by 70 ms.
        assert!((pool.steps.spread_ms().mean - 17.5).abs() < 0.2, "{}", pool.steps.spread_ms().mean);
        // Ppl 30, BurstR 1.05: 95 * 30 / (30 / 1.05 + 25.1).
        let r = call.call.unwrap().0;
        assert!((r - (93.2 - 2.88 - 2850.0 / (30.0 / 1.05 + 25.1))).abs() < 0.5, "{r}");
    }

    #[test]
    fn what_the_network_still_has_at_the_end_is_not_lost_and_what_it_never_gave_is() {
        // Nothing arrives from 9.2 s on: the next may come later.
        let (open, _) = call(VOICE, 0, |n| (n < 460).then_some(40));
        assert_eq!((open.sent, open.lost), (460, 0));
        // Nothing arrives after 5 s: all but those of the last second are lost.
        let (cut, _) = call(VOICE, 0, |n| (n < 250).then_some(40));
        assert_eq!((cut.sent, cut.lost, cut.runs), (449, 199, 1));
        // Losses before the measured part do not count, and one that reaches into it does.
        let (edge, _) = call(VOICE, 1000, |n| (!(40..60).contains(&n)).then_some(40));
        assert_eq!((edge.sent, edge.lost, edge.runs), (450, 10, 1));
        // Nothing at all.
        let (none, _) = call(VOICE, 0, |_| None);
        assert!(none.lost == none.sent && none.mos().unwrap() < 1.3, "{none:?}");
    }

    #[test]
    fn play_out_follows_a_delay_that_stands() {
        // From 4 s on everything is 100 ms later: too late until the short delays are forgotten, at 10 s at
        // the latest.
        let window = Window { from: at(0), until: at(30_000) };
        let (mut stream, mut pool) = (Stream::new(VOICE, ms(20), window), Pool::default());
        for n in 0..1500 {
            stream.arrives(at(20 * n + if n < 200 { 40 } else { 140 }), n, at(20 * n), &mut pool);
        }
        stream.ends(1500, at(30_000), at(30_000), &mut pool);
        let call = pool.ended[0];
        assert!((50..=300).contains(&call.late) && call.runs == 1, "{call:?}");
        // Two thirds of the time and more it plays 220 ms after the mouth, before that 120 ms.
        assert!((180.0..206.0).contains(&call.call.unwrap().1), "{call:?}");
    }

    #[test]
    fn news_of_a_game_is_late_after_its_bound_and_may_be_overtaken() {
        let game = Judged::Game(ms(50));
        let (late, _) = call(game, 0, |n| Some(if n % 4 == 0 { 51 } else { 50 }));
        assert_eq!((late.sent, late.late, late.lost, late.call), (500, 125, 0, None));
        let window = Window { from: at(0), until: at(10_000) };
        let (mut stream, mut pool) = (Stream::new(game, ms(20), window), Pool::default());
        for n in [0, 2, 1, 3] {
            stream.arrives(at(20 * n + 10), n, at(20 * n), &mut pool);
        }
        stream.ends(4, at(80), at(80), &mut pool);
        assert_eq!((pool.ended[0].sent, pool.ended[0].lost), (4, 0));
    }
}
