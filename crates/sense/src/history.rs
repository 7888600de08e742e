//! How much had passed at a moment of the past.

use weir_units::{Duration, NANOS_PER_SEC, Rate, Time};

/// Moments that are remembered.
const MOMENTS: usize = 128;

/// A counter of bytes and what it was at moments at least `spacing` apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct History {
    moments: [(Time, u64); MOMENTS],
    /// The newest, and how many there are.
    newest: usize,
    known: usize,
    spacing: Duration,
    total: u64,
}

impl History {
    pub fn new(start: Time) -> History {
        History { moments: [(start, 0); MOMENTS], newest: 0, known: 1, spacing: Duration::ZERO, total: 0 }
    }

    /// From now on moments are so far apart; it reaches back [`MOMENTS`] times as far.
    pub fn set_spacing(&mut self, spacing: Duration) {
        self.spacing = spacing;
    }

    pub fn add(&mut self, now: Time, bytes: u64) {
        if now.since(self.moments[self.newest].0) >= self.spacing {
            self.newest = (self.newest + 1) % MOMENTS;
            self.moments[self.newest] = (now, self.total);
            self.known = (self.known + 1).min(MOMENTS);
        }
        self.total += bytes;
    }

    /// What had passed at `then`, in between two moments in proportion; `None` where that is too long ago.
    pub fn at(&self, then: Time) -> Option<u64> {
        let mut after: (Option<Time>, u64) = (None, self.total);
        for back in 0..self.known {
            let (at, total) = self.moments[(self.newest + MOMENTS - back) % MOMENTS];
            if at <= then {
                let (Some(end), most) = after else { return Some(self.total) };
                let span = end.since(at).as_nanos().max(1);
                let part = u128::from(most - total) * u128::from(then.since(at).as_nanos());
                return Some(total + (part / u128::from(span)) as u64);
            }
            after = (Some(at), total);
        }
        None
    }
}

/// The rate of what a link that is elsewhere delivers, from what was sent to it and from round-trip times
/// alone: what had been sent before a packet had arrived before it, so from one round trip to the next the
/// link delivered what lies between their packets. Whether the packets show acknowledgements does not matter,
/// as long as they keep their order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delivery {
    sent: History,
    /// When the last round trip that was used ended, and what had been sent before its packet.
    mark: Option<(Time, u64)>,
}

impl Delivery {
    pub fn new(start: Time) -> Delivery {
        Delivery { sent: History::new(start), mark: None }
    }

    pub fn set_spacing(&mut self, spacing: Duration) {
        self.sent.set_spacing(spacing);
    }

    pub fn sent(&mut self, now: Time, bytes: u64) {
        self.sent.add(now, bytes);
    }

    /// Whether it is known what had been sent before a packet whose round trip ends at `now`.
    pub fn reaches(&self, now: Time, rtt: Duration) -> bool {
        self.sent.at(now - rtt).is_some()
    }

    /// A round trip ends at `now`. Returns a rate over at least `width`; after more than `stale` it begins
    /// anew.
    pub fn round_trip(&mut self, now: Time, rtt: Duration, width: Duration, stale: Duration) -> Option<Rate> {
        let Some(arrived) = self.sent.at(now - rtt) else {
            self.mark = None;
            return None;
        };
        let Some((since, before)) = self.mark.filter(|(since, _)| now.since(*since) <= stale) else {
            self.mark = Some((now, arrived));
            return None;
        };
        let passed = now.since(since);
        if passed < width {
            return None;
        }
        self.mark = Some((now, arrived.max(before)));
        let seconds = passed.as_nanos() as f64 / NANOS_PER_SEC as f64;
        Some(Rate::from_bps_f64(arrived.saturating_sub(before) as f64 * 8.0 / seconds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn the_past_is_known_in_proportion_as_far_as_it_reaches() {
        let mut history = History::new(ms(0));
        history.set_spacing(Duration::from_millis(5));
        for n in 1..=1000 {
            history.add(ms(n), 1000);
        }
        let near = |then, wanted: u64| {
            let found = history.at(ms(then)).unwrap();
            assert!(found.abs_diff(wanted) <= 1000, "{found} at {then} ms");
        };
        near(1000, 1_000_000);
        near(777, 777_000);
        near(400, 400_000);
        assert_eq!(history.at(ms(300)), None, "128 times 5 ms");
    }

    #[test]
    fn what_a_link_delivers_shows_in_round_trips_alone() {
        // 20 Mbit/s are sent to a link of 10 that has a path of 40 ms and a queue that grows.
        let mut delivery = Delivery::new(ms(0));
        delivery.set_spacing(Duration::from_millis(5));
        let (width, stale) = (Duration::from_millis(40), Duration::from_millis(400));
        let mut found = 0;
        let mut arrivals = std::collections::VecDeque::new();
        for n in 1..600u64 {
            delivery.sent(ms(n), 2500);
            arrivals.push_back((40 + 2 * n, ms(n)));
            while let Some((at, sent)) = arrivals.pop_front_if(|(at, _)| *at <= n) {
                if let Some(rate) = delivery.round_trip(ms(at), ms(at).since(sent), width, stale) {
                    assert!((rate.as_bps_f64() / 10e6 - 1.0).abs() < 0.05, "{rate}");
                    found += 1;
                }
            }
        }
        assert!(found > 10, "{found}");
        // After a silence it begins anew.
        assert_eq!(delivery.round_trip(ms(2000), Duration::from_millis(40), width, stale), None);
    }
}
