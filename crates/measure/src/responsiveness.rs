//! Responsiveness under working conditions, in round trips per minute (RPM), as
//! draft-ietf-ippm-responsiveness-06 has it: what is computed, without sockets and clocks.
//!
//! Sections are cited by their titles.

use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// The parameters of a test ("Test Parameters", whose defaults these are).
#[derive(Clone, Debug, PartialEq)]
pub struct Parameters {
    /// Intervals that a moving average takes in (MAD).
    pub intervals: usize,
    /// Length of an interval in seconds (ID).
    pub interval_s: f64,
    /// Share of the samples that a trimmed mean takes in, the smallest ones (TMP).
    pub trimmed: f64,
    /// Standard deviation below which a value is stable, as a share of it (SDT).
    pub tolerance: f64,
    /// Connections at the beginning (INP).
    pub initial: usize,
    /// Connections that come in each interval (INC).
    pub increment: usize,
    /// Most connections (MNP).
    pub most: usize,
    /// Most pairs of probes in a second (MPS).
    pub probes_per_s: f64,
    /// Share of the capacity that probes may take (PTC).
    pub probe_share: f64,
}

impl Default for Parameters {
    fn default() -> Parameters {
        Parameters {
            intervals: 4,
            interval_s: 1.0,
            trimmed: 0.95,
            tolerance: 0.05,
            initial: 1,
            increment: 1,
            most: 16,
            probes_per_s: 100.0,
            probe_share: 0.05,
        }
    }
}

/// Bytes of a pair of probes: 5000 on a connection of its own, 1000 on a loaded one ("Measuring
/// Responsiveness").
const PAIR_BYTES: f64 = 6000.0;

impl Parameters {
    /// Pairs of probes in a second where so many bytes are received in one.
    pub fn pairs_per_s(&self, bytes_per_s: f64) -> f64 {
        (self.probe_share * bytes_per_s / PAIR_BYTES).clamp(1.0, self.probes_per_s)
    }
}

/// How sure a result is ("Confidence of Test-Results").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// There were fewer intervals than a moving average takes in.
    #[default]
    Low,
    /// There were enough, and it was not stable.
    Medium,
    /// It was stable.
    High,
}

/// Times of probes that were answered in an interval, in milliseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Probes {
    /// Handshakes of TCP on connections of their own (`tcp_f`).
    pub tcp_foreign: Vec<f64>,
    /// Requests there (`http_f`).
    pub http_foreign: Vec<f64>,
    /// Requests on loaded connections (`http_l`).
    pub http_loaded: Vec<f64>,
}

/// What came of a test.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Responsiveness {
    /// Round trips per minute: the mean of the next two.
    pub rpm: f64,
    /// The same of connections of their own.
    pub foreign_rpm: f64,
    /// The same of requests on loaded connections.
    pub loaded_rpm: f64,
    /// Trimmed mean of TCP's handshake on connections of their own, in ms.
    pub tcp_foreign_ms: f64,
    /// Trimmed mean of requests there, in ms.
    pub http_foreign_ms: f64,
    /// Trimmed mean of requests on loaded connections, in ms.
    pub http_loaded_ms: f64,
    /// Goodput of all loaded connections over the last intervals, in bit/s.
    pub goodput_bps: f64,
    /// Loaded connections at the end.
    pub connections: usize,
    /// Intervals until the result.
    pub intervals: usize,
    /// Probes that the result is made of, on connections of their own and on loaded ones.
    pub probes: [usize; 2],
    /// Whether the goodput was stable.
    pub goodput_confidence: Confidence,
    /// Whether the responsiveness was.
    pub confidence: Confidence,
}

/// Mean of the smallest values, of which `share` are taken in; none of nothing.
pub fn trimmed_mean(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    // Of few values at least one stays.
    let kept = ((sorted.len() as f64 * share).ceil() as usize).clamp(1, sorted.len().max(1));
    let kept = sorted.get(..kept)?;
    Some(kept.iter().sum::<f64>() / kept.len() as f64)
}

/// Standard deviation of values.
fn deviation(values: &[f64]) -> f64 {
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count).sqrt()
}

/// A value and whether it is stable ("Final Algorithm"): the standard deviation of the last ones is below a
/// share of the latest.
#[derive(Clone, Debug, Default)]
struct Tracked {
    values: VecDeque<f64>,
    told: usize,
    is_stable: bool,
}

impl Tracked {
    fn add(&mut self, value: f64, parameters: &Parameters) {
        self.told += 1;
        self.values.push_back(value);
        if self.values.len() > parameters.intervals {
            self.values.pop_front();
        }
        let is_full = self.values.len() == parameters.intervals;
        let spread = deviation(self.values.make_contiguous());
        self.is_stable |= is_full && spread < parameters.tolerance * value;
    }

    fn confidence(&self, parameters: &Parameters) -> Confidence {
        match (self.is_stable, self.told >= parameters.intervals) {
            (true, _) => Confidence::High,
            (false, true) => Confidence::Medium,
            (false, false) => Confidence::Low,
        }
    }
}

/// A test under way: is told of each interval, and says when it is over.
#[derive(Clone, Debug, Default)]
pub struct Test {
    parameters: Parameters,
    /// Bytes and probes of the last intervals.
    recent: VecDeque<(u64, Probes)>,
    goodput: Tracked,
    responsiveness: Tracked,
    intervals: usize,
    latest: Option<Responsiveness>,
}

impl Test {
    /// Nothing was measured yet.
    pub fn new(parameters: Parameters) -> Test {
        Test { parameters, ..Test::default() }
    }

    /// An interval in which so many bytes were received by so many loaded connections is over. Whether the
    /// test is.
    pub fn interval(&mut self, bytes: u64, probes: Probes, connections: usize) -> bool {
        let parameters = &self.parameters;
        self.intervals += 1;
        self.recent.push_back((bytes, probes));
        if self.recent.len() > parameters.intervals {
            self.recent.pop_front();
        }
        let received: u64 = self.recent.iter().map(|(bytes, _)| bytes).sum();
        let average = received as f64 * 8.0 / (self.recent.len() as f64 * parameters.interval_s);
        let was_saturated = self.goodput.is_stable;
        self.goodput.add(average, parameters);
        self.latest = self.computed(average, connections);
        if was_saturated && let Some(latest) = &self.latest {
            self.responsiveness.add(latest.rpm, &self.parameters);
        }
        self.responsiveness.is_stable
    }

    /// Of the probes of the last intervals; none where some kind was not answered at all. "Aggregating the
    /// Measurements", the TCP-only case.
    fn computed(&self, goodput_bps: f64, connections: usize) -> Option<Responsiveness> {
        let all = |of: fn(&Probes) -> &Vec<f64>| -> Vec<f64> {
            self.recent.iter().flat_map(|(_, probes)| of(probes)).copied().collect()
        };
        let mean = |values: &[f64]| trimmed_mean(values, self.parameters.trimmed);
        let (tcp, http) = (all(|probes| &probes.tcp_foreign), all(|probes| &probes.http_foreign));
        let loaded = all(|probes| &probes.http_loaded);
        let (tcp_foreign_ms, http_foreign_ms, http_loaded_ms) = (mean(&tcp)?, mean(&http)?, mean(&loaded)?);
        let foreign_rpm = 60_000.0 / ((tcp_foreign_ms + http_foreign_ms) / 2.0);
        let loaded_rpm = 60_000.0 / http_loaded_ms;
        Some(Responsiveness {
            rpm: (foreign_rpm + loaded_rpm) / 2.0,
            foreign_rpm,
            loaded_rpm,
            tcp_foreign_ms,
            http_foreign_ms,
            http_loaded_ms,
            goodput_bps,
            connections,
            probes: [http.len(), loaded.len()],
            ..Responsiveness::default()
        })
    }

    /// What came of it so far; none where no interval had answers to probes of each kind.
    pub fn result(&self) -> Option<Responsiveness> {
        Some(Responsiveness {
            intervals: self.intervals,
            goodput_confidence: self.goodput.confidence(&self.parameters),
            confidence: self.responsiveness.confidence(&self.parameters),
            ..self.latest.clone()?
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probes(tcp: f64, http: f64, loaded: f64) -> Probes {
        Probes { tcp_foreign: vec![tcp; 20], http_foreign: vec![http; 20], http_loaded: vec![loaded; 20] }
    }

    #[test]
    fn the_largest_twentieth_is_left_out_of_a_mean_and_nothing_of_few() {
        let mut values: Vec<f64> = (1..=100).map(f64::from).collect();
        // 1 to 95.
        assert_eq!(trimmed_mean(&values, 0.95), Some(48.0));
        values.reverse();
        assert_eq!(trimmed_mean(&values, 0.95), Some(48.0));
        assert_eq!(trimmed_mean(&values, 1.0), Some(50.5));
        assert_eq!(trimmed_mean(&[7.0], 0.95), Some(7.0));
        assert_eq!(trimmed_mean(&[1.0, 3.0], 0.95), Some(2.0));
        assert_eq!(trimmed_mean(&[], 0.95), None);
    }

    #[test]
    fn rounds_per_minute_are_the_mean_of_those_of_both_kinds_of_probes() {
        let mut test = Test::new(Parameters::default());
        assert_eq!(test.result(), None);
        // (20 + 40) / 2 = 30 ms are 2000 a minute, 60 ms are 1000.
        assert!(!test.interval(1_000_000, probes(20.0, 40.0, 60.0), 1));
        let result = test.result().unwrap();
        assert_eq!((result.foreign_rpm, result.loaded_rpm, result.rpm), (2000.0, 1000.0, 1500.0));
        assert_eq!((result.goodput_bps, result.probes), (8e6, [20, 20]));
        assert_eq!((result.goodput_confidence, result.confidence), (Confidence::Low, Confidence::Low));
    }

    #[test]
    fn it_ends_when_first_the_goodput_and_then_the_responsiveness_is_stable() {
        let mut test = Test::new(Parameters::default());
        let told: Vec<bool> = (0..8).map(|_| test.interval(1_000_000, probes(9.0, 11.0, 10.0), 1)).collect();
        // Four averages make the goodput stable; four values from the next interval on the rest.
        assert_eq!(told, [false, false, false, false, false, false, false, true]);
        let result = test.result().unwrap();
        assert_eq!((result.intervals, result.rpm), (8, 6000.0));
        assert_eq!((result.goodput_confidence, result.confidence), (Confidence::High, Confidence::High));
    }

    #[test]
    fn what_grows_is_not_stable_and_told_with_less_confidence() {
        let mut test = Test::new(Parameters::default());
        for n in 1..=12 {
            assert!(!test.interval(1_000_000 << n, probes(10.0, 10.0, 10.0), 1));
        }
        let result = test.result().unwrap();
        assert_eq!((result.goodput_confidence, result.confidence), (Confidence::Medium, Confidence::Low));
        let mut test = Test::new(Parameters::default());
        for n in 0..12 {
            let ms = 10.0 * f64::from(1 << n);
            assert!(!test.interval(1_000_000, probes(ms, ms, ms), 1));
        }
        let result = test.result().unwrap();
        assert_eq!((result.goodput_confidence, result.confidence), (Confidence::High, Confidence::Medium));
    }

    #[test]
    fn only_probes_of_the_last_intervals_count() {
        let mut test = Test::new(Parameters::default());
        test.interval(1, probes(1000.0, 1000.0, 1000.0), 1);
        for _ in 0..4 {
            test.interval(1, probes(10.0, 10.0, 10.0), 1);
        }
        assert_eq!(test.result().unwrap().rpm, 6000.0);
        // A kind that nobody answers leaves nothing to be computed.
        let mut test = Test::new(Parameters::default());
        test.interval(1, Probes { http_loaded: Vec::new(), ..probes(1.0, 1.0, 1.0) }, 1);
        assert_eq!(test.result(), None);
    }

    #[test]
    fn probes_take_a_twentieth_of_the_capacity_at_most() {
        let parameters = Parameters::default();
        assert_eq!(parameters.pairs_per_s(1.2e6), 10.0);
        assert_eq!(parameters.pairs_per_s(1e9), 100.0);
        assert_eq!(parameters.pairs_per_s(0.0), 1.0);
    }
}
