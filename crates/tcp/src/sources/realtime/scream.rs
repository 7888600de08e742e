//! SCReAM (RFC 8298): a window for what may be in flight, by delay, loss and ECN, and the rate that an
//! encoder is asked for.
//!
//! Numbers of sections are those of the RFC. It has no reaction to L4S marks: CE is that of RFC 3168.

use super::history::{Greatest, History, Metered};
use weir_units::{Duration, Time};

/// What can be chosen; the rest are the constants of section 4.1.1.1.
#[derive(Clone, Debug)]
pub struct ScreamConfig {
    /// `TARGET_BITRATE_MIN` and `TARGET_BITRATE_MAX` in bit/s.
    pub rate: (f64, f64),
    /// `QDELAY_TARGET_LO` and `QDELAY_TARGET_HI`; where they are equal, competing flows are not compensated.
    pub delay: (Duration, Duration),
    /// `RAMP_UP_SPEED` in bit/s each second.
    pub ramp_up: f64,
}

const QDELAY_WEIGHT: f64 = 0.1;
const QDELAY_TREND_TH: f64 = 0.2;
const QDELAY_TREND_LO: f64 = 0.2;
const T_RESUME_FAST_INCREASE: Duration = Duration::from_secs(5);
const MIN_CWND: f64 = 3000.0;
const MAX_BYTES_IN_FLIGHT_HEAD_ROOM: f64 = 1.1;
const GAIN: f64 = 1.0;
const BETA_LOSS: f64 = 0.8;
const BETA_ECN: f64 = 0.9;
const BETA_R: f64 = 0.9;
/// `RATE_ADJUST_INTERVAL`, and how long the rates of section 4.1.3 are counted.
const RATE_ADJUST_INTERVAL: Duration = Duration::from_millis(200);
const PRE_CONGESTION_GUARD: f64 = 0.1;
const TX_QUEUE_SIZE_FACTOR: f64 = 1.0;
const RTP_QDELAY_TH: f64 = 0.02;
const TARGET_RATE_SCALE_RTP_QDELAY: f64 = 0.95;
const RATE_PACE_MIN: f64 = 50_000.0;
/// How often the queueing delay goes into the histories of sections 4.1.2 and 4.1.2.3.
const QDELAY_SAMPLE: Duration = Duration::from_millis(50);
/// Weight of one round trip in the loss event rate, which the RFC leaves open.
const LOSS_WEIGHT: f64 = 0.01;
/// The shortest delay is that of this to twice this time (RFC 6817, section 3.4.2: minutes).
const BASE_HISTORY: Duration = Duration::from_secs(300);

/// What a report said, in sum.
#[derive(Clone, Copy, Debug, Default)]
pub struct Heard {
    /// From the sending of the newest packet to the arrival of the report.
    pub rtt: Duration,
    /// From the sending of the newest packet to its arrival.
    pub one_way: Duration,
    /// Bytes up to the newest packet that were not acknowledged before, lost ones included.
    pub newly_acked: u64,
    /// Bytes that arrived, of these.
    pub received: u64,
    /// Bytes in flight with the report.
    pub in_flight: u64,
    /// Whether packets were newly taken for lost.
    pub lost: bool,
    /// Whether any of the new packets carried CE.
    pub marked: bool,
}

/// The state of section 4.1.1.2.
#[derive(Clone, Debug)]
pub struct Scream {
    config: ScreamConfig,
    qdelay_target: f64,
    qdelay: f64,
    fraction_avg: f64,
    fractions: History<20>,
    trend: f64,
    trend_mem: f64,
    norms: History<200>,
    sampled: Time,
    /// Shortest one-way delay of the current and of the last `BASE_HISTORY`.
    base: [Duration; 2],
    base_since: Time,
    in_fast_increase: bool,
    /// Since when the trend has been low.
    low_since: Option<Time>,
    cwnd: f64,
    mss: f64,
    in_flight: Greatest,
    target_bitrate: f64,
    last_max: f64,
    adjusted: Time,
    transmitted: Metered,
    acked: Metered,
    media: Metered,
    srtt: Option<f64>,
    loss_event_rate: f64,
    /// The last reduction, and whether a loss was one since the last round trip was counted.
    reduced: Option<Time>,
    counted: Time,
    lost_this_rtt: bool,
}

impl Scream {
    /// At `start`, with packets of up to `mss` bytes.
    pub fn new(config: &ScreamConfig, mss: u32, start: Time) -> Scream {
        Scream {
            qdelay_target: config.delay.0.as_secs_f64(),
            qdelay: 0.0,
            fraction_avg: 0.0,
            fractions: History::default(),
            trend: 0.0,
            trend_mem: 0.0,
            norms: History::default(),
            sampled: start,
            base: [Duration::MAX; 2],
            base_since: start,
            in_fast_increase: true,
            low_since: None,
            cwnd: MIN_CWND.max(2.0 * f64::from(mss)),
            mss: f64::from(mss),
            in_flight: Greatest::default(),
            target_bitrate: config.rate.0,
            last_max: 1.0,
            adjusted: start,
            transmitted: Metered::new(start),
            acked: Metered::new(start),
            media: Metered::new(start),
            srtt: None,
            loss_event_rate: 0.0,
            reduced: None,
            counted: start,
            lost_this_rtt: false,
            config: config.clone(),
        }
    }

    /// The rate that the encoder is asked for, in bit/s.
    pub fn target_bitrate(&self) -> f64 {
        self.target_bitrate
    }

    /// The congestion window in bytes.
    pub fn window(&self) -> f64 {
        self.cwnd
    }

    /// Target of the queueing delay in seconds.
    pub fn delay_target(&self) -> f64 {
        self.qdelay_target
    }

    /// The smoothed round-trip time in seconds; before the first one, a guess.
    fn srtt(&self) -> f64 {
        self.srtt.unwrap_or(0.1)
    }

    /// Whether a packet of `size` bytes may leave with so much in flight: section 4.1.2.5.
    pub fn lets_out(&self, in_flight: u64, size: u32) -> bool {
        let slack = if self.qdelay <= self.qdelay_target { self.mss } else { 0.0 };
        in_flight as f64 + f64::from(size) <= self.cwnd + slack
    }

    /// The distance to the packet after one of `size` bytes: section 4.1.2.6.
    pub fn pace(&self, size: u32) -> Duration {
        let rate = RATE_PACE_MIN.max(self.cwnd * 8.0 / self.srtt());
        Duration::from_secs(1).mul_f64(f64::from(size) * 8.0 / rate)
    }

    /// The encoder made so many bytes.
    pub fn on_frame(&mut self, bytes: u64) {
        self.media.count(bytes);
    }

    /// A packet left.
    pub fn on_sent(&mut self, now: Time, size: u32, in_flight: u64) {
        self.transmitted.count(u64::from(size));
        self.in_flight.note(now, in_flight);
    }

    /// A report came: sections 4.1.2.1 to 4.1.2.3 and 4.1.2.7.
    pub fn on_report(&mut self, now: Time, heard: &Heard) {
        self.measures(now, heard);
        let srtt = self.srtt();
        let is_event = heard.lost || heard.marked;
        let is_new = self.reduced.is_none_or(|at| now.since(at).as_secs_f64() > srtt);
        if is_event && is_new {
            self.reduced = Some(now);
            self.in_fast_increase = false;
            // The text names the trend alone; without this a loss would end nothing that it resumes at once.
            self.low_since = None;
            self.last_max = self.target_bitrate;
            let (window, rate) = if heard.lost { (BETA_LOSS, BETA_R) } else { (BETA_ECN, BETA_ECN) };
            self.lost_this_rtt |= heard.lost;
            self.cwnd = (self.cwnd * window).max(MIN_CWND);
            self.target_bitrate = (rate * self.target_bitrate).max(self.config.rate.0);
            // The rate change procedure is left: section 4.1.3.
            self.adjusted = now;
        } else if !is_event {
            self.updates_window(now, heard);
        }
        if now.since(self.counted).as_secs_f64() >= srtt {
            let event = f64::from(u8::from(std::mem::take(&mut self.lost_this_rtt)));
            self.loss_event_rate += LOSS_WEIGHT * (event - self.loss_event_rate);
            self.counted = now;
        }
        if self.trend < QDELAY_TREND_LO {
            let since = *self.low_since.get_or_insert(now);
            self.in_fast_increase |= now.since(since) >= T_RESUME_FAST_INCREASE;
        } else {
            self.low_since = None;
        }
    }

    /// Delays, their trend, and how many bytes arrived.
    fn measures(&mut self, now: Time, heard: &Heard) {
        self.acked.count(heard.received);
        let rtt = heard.rtt.as_secs_f64();
        self.srtt = Some(self.srtt.map_or(rtt, |srtt| srtt + (rtt - srtt) / 8.0));
        if now.since(self.base_since) >= BASE_HISTORY {
            self.base = [Duration::MAX, self.base[0]];
            self.base_since = now;
        }
        self.base[0] = self.base[0].min(heard.one_way);
        let shortest = self.base[0].min(self.base[1]);
        self.qdelay = heard.one_way.saturating_sub(shortest).as_secs_f64();
        if now.since(self.sampled) < QDELAY_SAMPLE {
            return;
        }
        self.sampled = now;
        // Section 4.1.2: the autocorrelation of the last second, times the average.
        let fraction = self.qdelay / self.qdelay_target;
        self.fraction_avg += QDELAY_WEIGHT * (fraction - self.fraction_avg);
        self.fractions.push(fraction);
        self.trend = (self.fractions.correlation() * self.fraction_avg).clamp(0.0, 1.0);
        self.trend_mem = (0.99 * self.trend_mem).max(self.trend);
        self.norms.push(self.qdelay / self.config.delay.0.as_secs_f64());
        self.adjusts_delay_target();
    }

    /// Section 4.1.2.3: flows that fill the queue must not starve it.
    fn adjusts_delay_target(&mut self) {
        let (low, high) = (self.config.delay.0.as_secs_f64(), self.config.delay.1.as_secs_f64());
        let variance = self.norms.variance();
        let new = (self.norms.mean_of_last(50) + libm::sqrt(variance)) * low;
        self.qdelay_target = if self.loss_event_rate > 0.002 {
            1.5 * new
        } else if variance < 0.2 {
            new
        } else if new < low {
            new.max(self.qdelay_target * 0.5)
        } else {
            self.qdelay_target * 0.9
        };
        self.qdelay_target = self.qdelay_target.clamp(low, high);
    }

    /// Section 4.1.2.2.
    fn updates_window(&mut self, now: Time, heard: &Heard) {
        let (acked, in_flight) =
            (heard.newly_acked as f64, heard.in_flight as f64 + heard.newly_acked as f64);
        if self.in_fast_increase {
            if self.trend < QDELAY_TREND_TH {
                if in_flight * 1.5 + acked > self.cwnd {
                    self.cwnd += acked;
                }
                return;
            }
            self.in_fast_increase = false;
            self.last_max = self.target_bitrate;
        }
        let off_target = (self.qdelay_target - self.qdelay) / self.qdelay_target;
        let is_unused = in_flight * 1.25 + acked <= self.cwnd;
        if off_target <= 0.0 || !is_unused {
            self.cwnd += GAIN * off_target * acked * self.mss / self.cwnd;
        }
        let most = self.in_flight.of_last_5s(now) as f64 * MAX_BYTES_IN_FLIGHT_HEAD_ROOM;
        self.cwnd = self.cwnd.min(most).max(MIN_CWND);
    }

    /// When the rate is adjusted next.
    pub fn next_adjustment(&self) -> Time {
        self.adjusted + RATE_ADJUST_INTERVAL
    }

    /// Section 4.1.3, with so many bytes waiting in the sending host.
    pub fn adjusts_rate(&mut self, now: Time, waiting: u64) {
        let interval = now.since(self.adjusted).as_secs_f64();
        self.adjusted = now;
        let [transmitted, acked, media] =
            [&mut self.transmitted, &mut self.acked, &mut self.media].map(|m| m.rate(now));
        let ramp_up = self.config.ramp_up.min(self.target_bitrate / 2.0);
        let scale = (self.target_bitrate - self.last_max) / self.last_max * 4.0;
        let scale = (scale * scale).clamp(0.2, 1.0);
        let current = transmitted.max(acked);
        let queue = waiting as f64 * 8.0;
        if self.in_fast_increase {
            self.target_bitrate += ramp_up * interval * scale;
        } else {
            let mut change =
                current * (1.0 - PRE_CONGESTION_GUARD * self.trend) - TX_QUEUE_SIZE_FACTOR * queue;
            if change > 0.0 {
                change = (change * scale).min(ramp_up * interval);
            }
            self.target_bitrate += change;
            if queue > RTP_QDELAY_TH * current {
                self.target_bitrate *= TARGET_RATE_SCALE_RTP_QDELAY;
            }
        }
        let limit = current.max(media).max(self.media.median()) * (2.0 - self.trend_mem);
        let (least, most) = self.config.rate;
        self.target_bitrate = self.target_bitrate.min(limit).max(least).min(most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_loss_it_is_five_seconds_until_it_rises_fast_again() {
        let at = |ms: u64| Time::ZERO + Duration::from_millis(ms);
        let delay = Duration::from_millis(100);
        let config = ScreamConfig { rate: (100e3, 2e6), delay: (delay, delay), ramp_up: 200e3 };
        let mut scream = Scream::new(&config, 1200, Time::ZERO);
        let heard = Heard {
            rtt: Duration::from_millis(40),
            one_way: Duration::from_millis(20),
            newly_acked: 1200,
            received: 1200,
            ..Heard::default()
        };
        (0..200).for_each(|n| scream.on_report(at(50 * n), &heard));
        assert!(scream.in_fast_increase);
        scream.on_report(at(10_000), &Heard { lost: true, ..heard });
        assert!(!scream.in_fast_increase);
        for ms in (10_050..=20_000).step_by(50) {
            scream.on_report(at(ms), &heard);
            assert_eq!(scream.in_fast_increase, ms >= 15_000, "at {ms} ms");
        }
    }
}
