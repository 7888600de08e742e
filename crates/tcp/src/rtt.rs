//! The estimate of the round-trip time and of the retransmission timeout (RFC 6298, as Linux refines it).

use crate::nanos::OptionNanos;
use weir_units::{Duration, Time};

/// How the retransmission timeout is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rto {
    /// As in Linux: the timeout adds at least `margin` to the smoothed RTT.
    Linux {
        /// 200 ms in Linux.
        margin: Duration,
    },
    /// As RFC 6298 has it, with the smallest timeout of rule 2.4 and a clock of coarse ticks.
    Rfc6298 {
        /// Smallest timeout: 1 s in the RFC.
        least: Duration,
        /// Granularity of the clock, G in the RFC: samples are whole ticks, to the nearest and at least one.
        clock: Duration,
    },
}

impl Default for Rto {
    fn default() -> Rto {
        Rto::Linux { margin: Duration::from_millis(200) }
    }
}

/// RFC 6298 with three differences of Linux: the deviation grows by an eighth only when a *short* RTT is far
/// off, since such a change needs no longer timeout; the timeout uses the largest deviation of the last round
/// trips; and that deviation is floored, not the sum, so that RTO >= SRTT + 200 ms.
#[derive(Clone, Debug)]
pub struct RttEstimator {
    /// Eight times the smoothed RTT in nanoseconds; zero before the first sample.
    srtt8: u64,
    /// Four times the mean deviation.
    dev4: u64,
    /// Largest `dev4` since the round began; with [`NO_ROUND`] the smallest timeout, as a flow is to stay
    /// small.
    peak4: u64,
    /// What the timeout adds to the smoothed RTT.
    margin: u64,
    /// What the margin is at least: of RFC 6298 a tick of the clock.
    floor: u64,
    round_end: u64,
    min: OptionNanos,
    min_at: Time,
}

/// In the place of the end of a round, which only Linux knows: the timeout is that of RFC 6298.
const NO_ROUND: u64 = u64::MAX;

/// Linux forgets the smallest RTT after this time (`tcp_min_rtt_wlen`).
const MIN_RTT_WINDOW: Duration = Duration::from_secs(300);

/// The timeout before the first sample (RFC 6298 rule 2.1).
const INITIAL_RTO: Duration = Duration::from_secs(1);

/// The longest timeout of Linux (`TCP_RTO_MAX`).
pub(crate) const RTO_MAX: Duration = Duration::from_secs(120);

impl RttEstimator {
    /// Without samples.
    pub fn new(rto: Rto) -> RttEstimator {
        let (floor, least) = match rto {
            Rto::Linux { margin } => (margin, None),
            Rto::Rfc6298 { least, clock } => (clock, Some(least.as_nanos())),
        };
        RttEstimator {
            srtt8: 0,
            dev4: 0,
            peak4: least.unwrap_or(0),
            margin: 0,
            floor: floor.as_nanos(),
            round_end: if least.is_some() { NO_ROUND } else { 0 },
            min: OptionNanos::NONE,
            min_at: Time::ZERO,
        }
    }

    /// Takes a sample. `una` and `nxt` are the first unacknowledged and the next segment: they delimit
    /// rounds.
    #[inline]
    pub fn sample(&mut self, rtt: Duration, una: u64, nxt: u64) {
        if self.least().is_some() {
            return self.sample_plain(rtt);
        }
        let rtt = rtt.as_nanos();
        if self.srtt8 == 0 {
            self.srtt8 = (rtt << 3).max(1);
            self.dev4 = rtt << 1;
            self.margin = self.dev4.max(self.floor);
            self.peak4 = self.margin;
            self.round_end = nxt;
            return;
        }
        let srtt = self.srtt8 >> 3;
        let error = rtt.abs_diff(srtt);
        let dev = self.dev4 >> 2;
        self.srtt8 = (self.srtt8 + rtt - srtt).max(1);
        self.dev4 = if error <= dev {
            self.dev4 - (dev - error)
        } else if rtt < srtt {
            self.dev4 + ((error - dev) >> 3)
        } else {
            self.dev4 + (error - dev)
        };
        self.peak4 = self.peak4.max(self.dev4);
        self.margin = self.margin.max(self.peak4);
        if una > self.round_end {
            self.margin -= (self.margin - self.peak4) >> 2;
            self.round_end = nxt;
            self.peak4 = self.floor;
        }
    }

    /// The smallest timeout of RFC 6298, where the timeout is not that of Linux.
    fn least(&self) -> Option<u64> {
        (self.round_end == NO_ROUND).then_some(self.peak4)
    }

    /// RFC 6298 rules 2.2 and 2.3, of a clock that tells whole ticks, and at least one.
    #[cold]
    fn sample_plain(&mut self, rtt: Duration) {
        let tick = self.floor.max(1);
        let rtt = ((rtt.as_nanos() + tick / 2) / tick).max(1) * tick;
        if self.srtt8 == 0 {
            (self.srtt8, self.dev4) = (rtt << 3, rtt << 1);
        } else {
            let srtt = self.srtt8 >> 3;
            self.dev4 = self.dev4 + rtt.abs_diff(srtt) - (self.dev4 >> 2);
            self.srtt8 = self.srtt8 + rtt - srtt;
        }
        self.margin = self.dev4.max(self.floor);
    }

    /// Takes a sample for the smallest RTT, which may be finer than those for the timeout.
    #[inline]
    pub fn sample_min(&mut self, now: Time, rtt: Duration) {
        match self.min.duration() {
            Some(min) if min < rtt && now.since(self.min_at) <= MIN_RTT_WINDOW => {}
            _ => {
                self.min = OptionNanos::lasting(rtt);
                self.min_at = now;
            }
        }
    }

    /// The smoothed RTT; `None` before the first sample.
    #[inline]
    pub fn srtt(&self) -> Option<Duration> {
        if self.srtt8 == 0 { None } else { Some(Duration::from_nanos(self.srtt8 >> 3)) }
    }

    /// The mean deviation: RTTVAR of RFC 6298.
    pub fn deviation(&self) -> Duration {
        Duration::from_nanos(self.dev4 >> 2)
    }

    /// The smallest RTT of the last five minutes.
    #[inline]
    pub fn min(&self) -> Option<Duration> {
        self.min.duration()
    }

    /// The least that the timeout adds to the smoothed RTT.
    #[inline]
    pub fn floor(&self) -> Duration {
        Duration::from_nanos(self.floor)
    }

    /// The retransmission timeout before any back-off.
    #[inline]
    pub fn rto(&self) -> Duration {
        let least = self.least().unwrap_or(0);
        let rto = self.srtt().map_or(INITIAL_RTO, |srtt| srtt + Duration::from_nanos(self.margin));
        rto.max(Duration::from_nanos(least)).min(RTO_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(d: Duration) -> f64 {
        d.as_millis_f64()
    }

    #[test]
    fn known_answers() {
        let mut e = RttEstimator::new(Rto::default());
        assert_eq!(e.rto(), Duration::from_secs(1));
        let expected =
            [(100, 100.0, 50.0), (120, 102.5, 42.5), (80, 99.6875, 37.5), (300, 124.7266, 78.2031)];
        for (seq, (rtt, srtt, var)) in expected.into_iter().enumerate() {
            e.sample(Duration::from_millis(rtt), seq as u64, seq as u64);
            assert!((ms(e.srtt().unwrap()) - srtt).abs() < 1e-3, "{e:?}");
            assert!((ms(e.deviation()) - var).abs() < 1e-3, "{e:?}");
        }
        // Four times 78.2 ms exceeds the floor and counts at once.
        assert!((ms(e.rto()) - 124.7266 - 4.0 * 78.2031).abs() < 1e-2);
    }

    #[test]
    fn known_answers_of_a_coarse_clock() {
        let (least, clock) = (Duration::from_secs(1), Duration::from_millis(100));
        let mut e = RttEstimator::new(Rto::Rfc6298 { least, clock });
        assert_eq!(e.rto(), Duration::from_secs(1));
        // 130 ms are one tick, 260 ms three: SRTT and RTTVAR by rules 2.2 and 2.3.
        let expected = [(130, 100.0, 50.0), (260, 125.0, 87.5), (10, 121.875, 71.875)];
        for (rtt, srtt, var) in expected {
            e.sample(Duration::from_millis(rtt), 0, 0);
            assert!((ms(e.srtt().unwrap()) - srtt).abs() < 1e-3, "{e:?}");
            assert!((ms(e.deviation()) - var).abs() < 1e-3, "{e:?}");
            assert_eq!(e.rto(), least, "it is the larger of the two");
        }
        let mut fine = RttEstimator::new(Rto::Rfc6298 { least: Duration::ZERO, clock });
        (0..100).for_each(|_| fine.sample(Duration::from_millis(300), 0, 0));
        // Without deviation the timeout is the smoothed RTT and a tick.
        assert!((ms(fine.rto()) - 400.0).abs() < 0.1, "{}", ms(fine.rto()));
    }

    #[test]
    fn the_margin_never_falls_below_its_floor() {
        let mut e = RttEstimator::new(Rto::default());
        for seq in 0..1000 {
            e.sample(Duration::from_millis(10), seq, seq);
        }
        assert!((ms(e.rto()) - 210.0).abs() < 0.1, "{}", ms(e.rto()));
    }

    #[test]
    fn a_sudden_short_rtt_hardly_widens_the_deviation() {
        let mut e = RttEstimator::new(Rto::default());
        for seq in 0..1000 {
            e.sample(Duration::from_millis(100), seq, seq);
        }
        e.sample(Duration::from_millis(20), 1000, 1000);
        assert!((ms(e.deviation()) - 2.5).abs() < 0.1, "{}", ms(e.deviation()));
        e.sample(Duration::from_millis(180), 1001, 1001);
        assert!(ms(e.deviation()) > 20.0);
    }
}
