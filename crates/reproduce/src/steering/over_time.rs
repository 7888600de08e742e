//! What a run over time shows: the set point before, between and after the changes of traffic, and the
//! virtual queue.

use crate::experiment::{between, samples};
use crate::statistics::{mean, most};
use weir_measure::result::{LinkSample, Recording};

/// When 34 flows come in figure 7a, and when they leave, in seconds.
pub const COME_S: f64 = 180.0;
/// See [`COME_S`].
pub const LEAVE_S: f64 = 260.0;
/// Period of figure 7b; flows are there in its first half.
pub const PERIOD_S: f64 = 40.0;

/// What figure 7a says of the set point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Transition {
    /// Mean set point of two flows over 40 s before the others come, in ms.
    pub before_ms: f64,
    /// Set point just before they leave, in ms.
    pub low_ms: f64,
    /// Largest set point afterwards, in ms.
    pub regained_ms: f64,
    /// Signals from their coming until the set point was at most [`LOW_MS`], if it was.
    pub down: Option<u64>,
    /// Seconds from their leaving to the next signal, which is when the two have filled the link again.
    pub reclaimed_s: Option<f64>,
    /// Signals from then until the set point was back at two thirds of what it was before, if it was.
    pub up: Option<u64>,
    /// When that was, in seconds.
    pub raised_s: Option<f64>,
    /// Whether the set point moved while nothing was signalled; also where fewer than two samples are without
    /// a signal, as nothing shows then that it did not.
    pub moved_unsignalled: bool,
}

impl Transition {
    /// Whether the set point was raised with fewer signals than it was lowered.
    pub fn is_raised_quicker(&self) -> bool {
        self.up.zip(self.down).is_some_and(|(up, down)| up < down)
    }
}

/// The set point that 36 flows must not exceed before 34 of them leave.
pub const LOW_MS: f64 = 3.0;

/// Reads figure 7a.
pub fn transition(recording: &Recording) -> Transition {
    let end = f64::INFINITY;
    let before_ms = mean(between(recording, COME_S - 40.0, COME_S).map(|s| s.setpoint_ms));
    let low = between(recording, COME_S, LEAVE_S).last();
    let low_ms = low.map_or(f64::NAN, |s| s.setpoint_ms);
    // What was on its way when the flows stopped is over after a round-trip time or two.
    let calm = LEAVE_S + 0.5;
    let signal = between(recording, calm, end).find(|s| s.drops + s.marks > 0).map(|s| s.t_s);
    let quiet = between(recording, calm, signal.unwrap_or(end));
    let sample_s = samples(recording).first().map_or(0.0, |s| s.t_s);
    let before_signal = quiet.filter(|s| s.t_s < signal.unwrap_or(end) - sample_s / 2.0);
    let still: Vec<f64> = before_signal.map(|s| s.setpoint_ms).collect();
    let lowered = signals_until(recording, COME_S, |s| s.setpoint_ms <= LOW_MS);
    let raised = signals_until(recording, calm, |s| s.setpoint_ms >= before_ms * 2.0 / 3.0);
    Transition {
        before_ms,
        low_ms,
        regained_ms: most(between(recording, LEAVE_S, end).map(|s| s.setpoint_ms)),
        down: lowered.map(|(signals, _)| signals),
        reclaimed_s: signal.map(|at| at - LEAVE_S),
        up: raised.map(|(signals, _)| signals),
        raised_s: raised.map(|(_, at)| at),
        moved_unsignalled: still.len() < 2 || still.iter().any(|v| *v != still[0]),
    }
}

/// Signals after a time, up to and with the sample that is wanted, and the time of that in seconds. A signal
/// is the step in which the law moves.
fn signals_until(
    recording: &Recording,
    from: f64,
    wanted: impl Fn(&LinkSample) -> bool,
) -> Option<(u64, f64)> {
    let mut signals = 0;
    for sample in between(recording, from, f64::INFINITY) {
        signals += sample.drops + sample.marks;
        if wanted(sample) {
            return Some((signals, sample.t_s));
        }
    }
    None
}

/// Largest set point of each whole period of figure 7b, in ms: from where 34 flows leave to where they leave
/// again, as a raise at their coming belongs to the time before.
pub fn peaks(recording: &Recording) -> Vec<f64> {
    let end = samples(recording).last().map_or(0.0, |s| s.t_s);
    // The last sample may lie a little before the end of the run.
    let periods = ((end + 1.0 - COME_S) / PERIOD_S - 0.5).max(0.0) as u32;
    let from = |n: u32| COME_S + (f64::from(n) + 0.5) * PERIOD_S;
    (0..periods).map(|n| most(between(recording, from(n), from(n + 1)).map(|s| s.setpoint_ms))).collect()
}

/// The set point of the virtual queue in figure 8b, the default, in seconds.
const THRESHOLD_S: f64 = 200e-6;

/// What figure 8b says of the virtual queue, over the measured part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VirtualQueue {
    /// Share of the time in which it was in charge.
    pub in_charge: f64,
    /// Share of that time in which it was empty.
    pub empty: f64,
    /// Backlog that 99 % of the samples do not exceed, in kB.
    pub p99_kb: f64,
    /// Mean rate delivered, in bit/s.
    pub delivered_bps: f64,
    /// Mean rate of the virtual queue, in bit/s.
    pub virtual_bps: f64,
    /// Share of the samples in which it was longer than its set point, of [`THRESHOLD_S`].
    pub long: f64,
    /// Share of that time in which more was delivered than the virtual queue would have, sample by sample.
    pub above: f64,
    /// Time, in ms, that 99 in 100 stretches of such samples do not exceed.
    pub stretch_p99_ms: f64,
}

/// Reads figure 8b.
pub fn virtual_queue(recording: &Recording) -> VirtualQueue {
    let all: Vec<&LinkSample> = between(recording, recording.summary.warmup_s, f64::INFINITY).collect();
    let mine: Vec<&LinkSample> = all.iter().copied().filter(|s| s.virtual_rate_bps > 0.0).collect();
    let mut backlog: Vec<u64> = mine.iter().map(|s| s.virtual_backlog_bytes).collect();
    backlog.sort_unstable();
    let p99 = backlog.get(backlog.len() * 99 / 100).map_or(f64::NAN, |b| *b as f64 / 1e3);
    VirtualQueue {
        in_charge: mine.len() as f64 / all.len() as f64,
        empty: mean(mine.iter().map(|s| s.virtual_empty)),
        p99_kb: p99,
        delivered_bps: mean(mine.iter().map(|s| s.delivered_bps)),
        virtual_bps: mean(mine.iter().map(|s| s.virtual_rate_bps)),
        long: mean(mine.iter().map(|s| f64::from(u8::from(is_long(s))))),
        above: mean(mine.iter().map(|s| f64::from(u8::from(is_above(s))))),
        stretch_p99_ms: stretch_p99_ms(&all),
    }
}

fn is_above(sample: &LinkSample) -> bool {
    sample.virtual_rate_bps > 0.0 && sample.delivered_bps > sample.virtual_rate_bps
}

/// Of the times, in ms, for which more was delivered than the virtual queue would have in every sample: what
/// 99 in 100 do not exceed; NaN where there are none.
fn stretch_p99_ms(samples: &[&LinkSample]) -> f64 {
    let stretches = samples.chunk_by(|a, b| is_above(a) == is_above(b)).filter(|part| is_above(part[0]));
    let mut lengths: Vec<usize> = stretches.map(|part| part.len()).collect();
    lengths.sort_unstable();
    let length = lengths.get(lengths.len() * 99 / 100).map_or(f64::NAN, |length| *length as f64);
    let between = samples.windows(2).next().map_or(f64::NAN, |pair| pair[1].t_s - pair[0].t_s);
    length * between * 1e3
}

fn is_long(sample: &LinkSample) -> bool {
    sample.virtual_backlog_bytes as f64 * 8.0 > sample.virtual_rate_bps * THRESHOLD_S
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A recording with a sample each second, whose set point and signals are given by the time.
    pub fn recording(
        seconds: u32,
        setpoint_ms: impl Fn(f64) -> f64,
        signalled: impl Fn(f64) -> bool,
    ) -> Recording {
        let sample = |t: u32| {
            let t_s = f64::from(t);
            let (setpoint_ms, drops) = (setpoint_ms(t_s), u64::from(signalled(t_s)));
            LinkSample { t_s, setpoint_ms, drops, ..LinkSample::default() }
        };
        Recording { link_samples: vec![(1..=seconds).map(sample).collect()], ..Recording::default() }
    }

    /// What the paper draws: 11 ms, 1 ms with 36 flows from 20 s on, 10 ms from 20 s after they have left.
    pub fn as_in_the_paper(t: f64) -> f64 {
        match t {
            t if t <= 190.0 => 11.0,
            t if t <= 200.0 => 5.0,
            t if t <= 280.0 => 1.0,
            t if t <= 285.0 => 5.0,
            _ => 10.0,
        }
    }

    #[test]
    fn a_transition_is_read_as_drawn() {
        let seen = transition(&recording(380, as_in_the_paper, |t| !(260.0..278.0).contains(&t)));
        let expected = Transition {
            before_ms: 11.0,
            low_ms: 1.0,
            regained_ms: 10.0,
            down: Some(21),
            reclaimed_s: Some(18.0),
            up: Some(9),
            raised_s: Some(286.0),
            moved_unsignalled: false,
        };
        assert_eq!(seen, expected);
        let restless = recording(380, |t| t, |t| !(260.0..278.0).contains(&t));
        assert!(transition(&restless).moved_unsignalled);
        let always_signalled = recording(380, as_in_the_paper, |_| true);
        assert!(transition(&always_signalled).moved_unsignalled, "no time without a signal");
        assert_eq!(peaks(&recording(340, as_in_the_paper, |_| true)), [1.0, 1.0, 10.0]);
    }

    /// Every other sample is above the virtual rate, and ten are in a row.
    #[test]
    fn one_long_stretch_in_more_than_a_hundred_does_not_count() {
        let of = |single: usize| {
            let mut seen = recording(2 * single as u32 + 11, |_| 0.2, |_| false);
            for (i, s) in seen.link_samples[0].iter_mut().enumerate() {
                let is_above = if i < 2 * single { i % 2 == 1 } else { i > 2 * single };
                (s.virtual_rate_bps, s.delivered_bps) = (9.5e9, if is_above { 9.6e9 } else { 9.4e9 });
            }
            virtual_queue(&seen).stretch_p99_ms
        };
        assert_eq!([of(100), of(98)], [1000.0, 10_000.0]);
    }

    #[test]
    fn a_virtual_queue_is_read_where_it_is_in_charge() {
        let mut seen = recording(100, |_| 0.2, |_| false);
        for (i, s) in seen.link_samples[0].iter_mut().enumerate() {
            s.virtual_rate_bps = if i < 50 { 9.5e9 } else { 0.0 };
            s.virtual_backlog_bytes = 1000 * i as u64;
            s.virtual_empty = if i < 25 { 0.5 } else { 0.0 };
            s.delivered_bps = if i < 50 { 9.4e9 } else { 1.0 };
        }
        assert!(virtual_queue(&seen).stretch_p99_ms.is_nan());
        let mut swinging = seen.clone();
        for i in [3, 10, 11, 12, 49, 50] {
            swinging.link_samples[0][i].delivered_bps = 9.6e9;
        }
        let found = virtual_queue(&swinging);
        assert_eq!(
            (found.above, found.stretch_p99_ms),
            (0.1, 3000.0),
            "without a virtual queue none is above"
        );
        let found = virtual_queue(&seen);
        assert_eq!((found.in_charge, found.empty), (0.5, 0.25));
        assert_eq!(found.long, 0.0, "50 kB are less than 0.2 ms of 9.5 Gbit/s");
        assert_eq!((found.p99_kb, found.delivered_bps, found.virtual_bps), (49.0, 9.4e9, 9.5e9));
    }
}
