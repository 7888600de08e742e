//! Moves of set points in the words and units of results.

use crate::result::SteeringEvent;
use weir_aqm::Value;
use weir_steer::Move;
use weir_units::{Duration, Rate, Time};

impl SteeringEvent {
    /// A move of the set point of `link`, in a run that began at `origin`.
    pub fn of(m: &Move, link: &str, origin: Time) -> SteeringEvent {
        let unit = if matches!(m.to, Value::Rate(_)) { "Mbit/s" } else { "ms" };
        SteeringEvent {
            t_s: m.why.time.since(origin).as_secs_f64(),
            link: link.into(),
            rule: m.rule.name().into(),
            from: number(m.from),
            to: number(m.to),
            unit: unit.into(),
            measured: measured(m),
        }
    }
}

fn number(value: Value) -> f64 {
    match value {
        Value::Duration(d) => d.as_millis_f64(),
        Value::Rate(r) => r.as_bps_f64() / 1e6,
        _ => f64::NAN,
    }
}

/// What the law knew; what it did not know is left out.
fn measured(m: &Move) -> Vec<(String, f64)> {
    let bps = |rate: Rate| rate.as_bps_f64();
    let why = &m.why;
    let all = [
        ("rate_bps", bps(why.rate)),
        ("rate_avg_bps", bps(why.rate_avg)),
        ("rate_low_bps", bps(why.rate_low)),
        ("rate_target_bps", bps(why.rate_target)),
        ("depth_ms", why.depth.map_or(f64::NAN, Duration::as_millis_f64)),
        ("depth_avg_ms", why.depth_avg.as_millis_f64()),
        ("depth_deviation_ms", why.depth_variance.max(0.0).sqrt() * 1e3),
        ("depth_samples", f64::from(why.samples)),
        ("table_state", f64::from(why.state as u8)),
    ];
    all.into_iter().filter(|(_, v)| v.is_finite()).map(|(name, v)| (name.to_string(), v)).collect()
}
