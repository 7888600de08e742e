//! Axes with ticks at round numbers.

use crate::number::{compact, drawable};

/// A scale from values to places between two ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Axis {
    lo: f64,
    hi: f64,
    log: bool,
    /// Where `lo` and `hi` are drawn.
    ends: (f64, f64),
}

/// A labelled place on an axis.
pub(crate) struct Tick {
    pub(crate) at: f64,
    pub(crate) label: String,
}

impl Axis {
    /// A linear axis; a range that is empty or has no numbers becomes one of length one.
    pub(crate) fn linear(lo: f64, hi: f64, ends: (f64, f64)) -> Axis {
        let lo = if drawable(lo) { lo } else { 0.0 };
        // Relative, because a range of a few bits of a large number has no room for ticks.
        let shortest = (lo.abs() * 1e-9).max(1e-9);
        let hi = if drawable(hi) && hi - lo > shortest { hi } else { lo + lo.abs().max(1.0) };
        Axis { lo, hi, log: false, ends }
    }

    /// A linear axis from `lo` to a round number not below `hi`.
    pub(crate) fn rounded(lo: f64, hi: f64, ends: (f64, f64), ticks: usize) -> Axis {
        let axis = Axis::linear(lo, hi, ends);
        let step = nice_step(axis.hi - axis.lo, ticks);
        // Values just below a tick do not need another one.
        let hi = axis.lo + ((axis.hi - axis.lo) / step - 1e-6).ceil() * step;
        Axis { hi, ..axis }
    }

    /// A logarithmic axis around the positive values `lo` to `hi`, ended by round numbers.
    pub(crate) fn log(lo: f64, hi: f64, ends: (f64, f64)) -> Axis {
        let hi = if drawable(hi) && hi > 1e-9 { hi } else { 1.0 };
        let lo = if drawable(lo) && lo > 1e-9 && lo < hi { lo } else { hi / 10.0 };
        let below = log_steps(lo / 10.0, hi).into_iter().rfind(|v| *v <= lo).unwrap_or(lo);
        let above = log_steps(lo, hi * 10.0).into_iter().find(|v| *v >= hi).unwrap_or(hi);
        Axis { lo: below, hi: above, log: true, ends }
    }

    /// Where `v` is drawn; values off the scale land on its ends.
    pub(crate) fn place(&self, v: f64) -> f64 {
        let share = if self.log {
            (v.max(self.lo).ln() - self.lo.ln()) / (self.hi.ln() - self.lo.ln())
        } else {
            (v - self.lo) / (self.hi - self.lo)
        };
        self.ends.0 + share.clamp(0.0, 1.0) * (self.ends.1 - self.ends.0)
    }

    /// About `count` ticks at round values, in order.
    pub(crate) fn ticks(&self, count: usize) -> Vec<Tick> {
        let values = if self.log { self.log_ticks(count) } else { self.linear_ticks(count) };
        let decimals = if self.log { 6 } else { decimals_of(nice_step(self.hi - self.lo, count)) };
        let tick = |v| Tick { at: self.place(v), label: label(v, decimals, self.log) };
        values.into_iter().map(tick).collect()
    }

    /// The step between about `count` ticks at round values over a range of that length.
    pub(crate) fn step(length: f64, count: usize) -> f64 {
        nice_step(length, count)
    }

    fn linear_ticks(&self, count: usize) -> Vec<f64> {
        let step = nice_step(self.hi - self.lo, count);
        let first = (self.lo / step - 1e-6).ceil();
        let last = (self.hi / step + 1e-6).floor();
        let steps = (last - first).clamp(0.0, 100.0) as usize;
        (0..=steps).map(|i| (first + i as f64) * step).collect()
    }

    fn log_ticks(&self, count: usize) -> Vec<f64> {
        let all = log_steps(self.lo, self.hi);
        if all.len() <= count * 2 {
            return all;
        }
        all.into_iter().filter(|v| is_power_of_ten(*v)).collect()
    }
}

fn label(v: f64, decimals: usize, log: bool) -> String {
    if log { compact(v, decimals) } else { format!("{:.decimals$}", if v == 0.0 { 0.0 } else { v }) }
}

fn is_power_of_ten(v: f64) -> bool {
    let exponent = v.log10();
    (exponent - exponent.round()).abs() < 1e-6
}

/// 1, 2 and 5 times powers of ten from `lo` to `hi`.
fn log_steps(lo: f64, hi: f64) -> Vec<f64> {
    let first = lo.log10().floor() as i32;
    let last = hi.log10().ceil() as i32;
    let decade = |exponent: i32| [1.0, 2.0, 5.0].map(|m| m * 10f64.powi(exponent));
    let inside = |v: &f64| *v >= lo * 0.999_999 && *v <= hi * 1.000_001;
    (first..=last).flat_map(decade).filter(inside).collect()
}

/// The smallest of 1, 2 and 5 times a power of ten that cuts `length` into at most `count` parts.
fn nice_step(length: f64, count: usize) -> f64 {
    let raw = length / count.max(1) as f64;
    let power = 10f64.powf(raw.log10().floor());
    let multiple = [1.0, 2.0, 5.0].into_iter().find(|m| m * power >= raw * 0.999_999).unwrap_or(10.0);
    multiple * power
}

fn decimals_of(step: f64) -> usize {
    (-(step.log10() + 1e-9).floor()).clamp(0.0, 12.0) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: Axis, count: usize) -> Vec<String> {
        axis.ticks(count).into_iter().map(|t| t.label).collect()
    }

    #[test]
    fn ticks_are_round() {
        let ends = (0.0, 100.0);
        assert_eq!(labels(Axis::linear(0.0, 9.7, ends), 5), ["0", "2", "4", "6", "8"]);
        assert_eq!(labels(Axis::rounded(0.0, 9.7, ends, 5), 5), ["0", "2", "4", "6", "8", "10"]);
        assert_eq!(labels(Axis::linear(0.97, 1.0, ends), 3), ["0.97", "0.98", "0.99", "1.00"]);
        assert_eq!(labels(Axis::log(0.7, 30.0, ends), 5), ["0.5", "1", "2", "5", "10", "20", "50"]);
        assert_eq!(labels(Axis::log(0.001, 1000.0, ends), 4).len(), 7);
    }

    #[test]
    fn senseless_ranges_still_have_an_axis() {
        let bad = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, 0.0, 1e18, 1e-300, 1e300];
        for lo in bad {
            for hi in bad {
                for axis in [
                    Axis::linear(lo, hi, (0.0, 1.0)),
                    Axis::rounded(lo, hi, (0.0, 1.0), 5),
                    Axis::log(lo, hi, (0.0, 1.0)),
                ] {
                    assert!(axis.ticks(5).len() <= 101, "{lo} {hi}");
                    assert!(axis.place(0.5).is_finite(), "{lo} {hi}");
                }
            }
        }
    }
}
