//! What the paper says in numbers, beside what was measured here. It shows 10 Gbit/s and calls 1 Gbit/s very
//! similar. "Scale" means that the number is only bounded by the axis of its figure.

use super::cases::{Measured, Part};
use super::claims::{STATIC, STEERED, TAIL_DROP_LARGE};
use super::over_time::{transition, virtual_queue};
use crate::claim::percent;
use crate::runs::counts;
use weir_report::html::Beside;

/// The rows of one figure at one rate.
pub fn beside(part: Part, m: &Measured) -> Vec<Beside> {
    let rows = match part {
        Part::Five => long_lived(m),
        Part::Six => with_short_flows(m),
        Part::SevenA => one_transition(m),
        Part::SevenB | Part::Text => Vec::new(),
        Part::EightA => headroom(m),
        Part::EightB => virtual_queue_in_detail(m),
    };
    let runs = match counts(&m.each()).as_str() {
        "0" | "1" => "one run".to_string(),
        many if part.is_over_time() => format!("the first of {many} runs"),
        many => format!("mean of {many} runs"),
    };
    let condition = format!("{}, {runs}", m.rate());
    let row = |(quantity, paper, ours): Row| Beside {
        figure: part.name().into(),
        quantity,
        paper: paper.into(),
        ours,
        condition: condition.clone(),
    };
    rows.into_iter().map(row).collect()
}

/// Quantity, paper, here.
type Row = (String, &'static str, String);

fn ms(value: f64) -> String {
    if value.is_finite() { format!("{value:.2} ms") } else { "–".into() }
}

fn long_lived(m: &Measured) -> Vec<Row> {
    let used = |series: &str, n: u32| percent(m.utilization(series, n));
    let mut rows = vec![
        ("GSP-AS, 2 flows: throughput".into(), "at least 99 %", used(STEERED, 2)),
        ("GSP-AS, 2 flows: 95 % delay".into(), "10 to 20 ms (figure)", ms(m.p95(STEERED, 2))),
        ("GSP-AS, 36 flows: throughput".into(), "at least 99 %", used(STEERED, 36)),
        ("GSP-AS, 36 flows: 95 % delay".into(), "0.825 ms", ms(m.p95(STEERED, 36))),
    ];
    for series in STATIC {
        rows.push((format!("{series}, 2 flows: throughput"), "88 to 100 % (scale)", used(series, 2)));
    }
    for series in &STATIC[1..] {
        rows.push((format!("{series}, 36 flows: 95 % delay"), "2.5 ms", ms(m.p95(series, 36))));
    }
    rows.push(("TD 30ms, 36 flows: throughput".into(), "100 %", used(TAIL_DROP_LARGE, 36)));
    rows.push(("TD 30ms, 36 flows: 95 % delay".into(), "about 30 ms", ms(m.p95(TAIL_DROP_LARGE, 36))));
    rows
}

fn with_short_flows(m: &Measured) -> Vec<Row> {
    let used = |series: &str| percent(m.utilization(series, 2));
    let mut rows = vec![
        ("GSP-AS, 2 flows: throughput".into(), "above that of TD 30ms", used(STEERED)),
        ("TD 30ms, 2 flows: throughput".into(), "below that of GSP-AS", used(TAIL_DROP_LARGE)),
    ];
    for series in STATIC {
        rows.push((
            format!("{series}, 2 flows: throughput"),
            "20 to 100 % (scale; AQMs 60 to 80 %)",
            used(series),
        ));
    }
    rows.push(("GSP-AS, 36 flows: 95 % delay".into(), "reduced", ms(m.p95(STEERED, 36))));
    rows
}

fn one_transition(m: &Measured) -> Vec<Row> {
    let of_curve = |(name, m): (&str, Measured)| {
        let Some(seen) = m.recording().map(transition) else { return Vec::new() };
        let reclaimed = seen.reclaimed_s.map_or("never".into(), |s| format!("{s:.1} s"));
        vec![
            (format!("{name}: set point with two flows, before"), "about 11 ms", ms(seen.before_ms)),
            (format!("{name}: set point with 36 flows, at their end"), "low", ms(seen.low_ms)),
            (format!("{name}: time in which two flows reclaim the link"), "18 s", reclaimed),
            (format!("{name}: set point with two flows, afterwards"), "about 10 ms", ms(seen.regained_ms)),
        ]
    };
    m.curves().into_iter().flat_map(of_curve).collect()
}

fn headroom(m: &Measured) -> Vec<Row> {
    let row = |n: u32| (format!("{n} flows: throughput"), "94 to 95 %", percent(m.utilization(STEERED, n)));
    let mut rows: Vec<Row> = m.flows().into_iter().map(row).collect();
    for n in m.flows().into_iter().filter(|n| *n >= 6) {
        let mean = m.mean_delay(STEERED, n);
        rows.push((
            format!("{n} flows: mean delay of the real queue"),
            "effectively zero",
            format!("{mean:.3} ms"),
        ));
    }
    rows
}

fn virtual_queue_in_detail(m: &Measured) -> Vec<Row> {
    let Some(seen) = m.recording().map(virtual_queue) else { return Vec::new() };
    let share = percent(seen.delivered_bps / seen.virtual_bps);
    vec![
        (
            "virtual queue, 99 % of the time below".into(),
            "800 kB (scale, 10 Gbit/s)",
            format!("{:.0} kB", seen.p99_kb),
        ),
        ("virtual queue empty".into(), "almost never", percent(seen.empty)),
        ("egress rate, of the virtual rate".into(), "close to it, not above", share),
    ]
}
