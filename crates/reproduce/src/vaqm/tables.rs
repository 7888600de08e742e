//! Tables of what was measured.

use super::cases::SIGNALS;
use super::measured::Measured;
use crate::runs::runs_each;
use crate::statistics::quantile;
use weir_report::html::Rows;

const HEADER: [&str; 12] = [
    "phone",
    "vAQM",
    "RTT p5 ms",
    "median",
    "p95",
    "p99",
    "least median of a run",
    "most",
    "page s",
    "image s",
    "all phones Mbit/s",
    "samples",
];

/// One table for each signal that was run, in the short form if `quick`.
pub fn all(cases: &Measured, quick: bool) -> Vec<Rows> {
    let table = |signal| {
        let mine = cases.only(|case| case.signal == signal).cases();
        let rows: Vec<Vec<String>> = mine.iter().map(|m| row(m, quick)).collect();
        let signal = if signal == SIGNALS[0] { "Strong" } else { "Weak" };
        let title = format!("{signal} signal; {}", runs_each(&mine));
        (!rows.is_empty()).then(|| Rows { title, header: HEADER.map(String::from).to_vec(), rows })
    };
    SIGNALS.into_iter().filter_map(table).collect()
}

fn row(m: &Measured, quick: bool) -> Vec<String> {
    let (case, rtts, (least, most)) = (m.case(), m.rtts_ms(), m.median_range_ms());
    let mut cells = vec![case.protocol.name().to_string(), case.form.name().to_string()];
    cells.extend([0.05, 0.5, 0.95, 0.99].map(|share| format!("{:.0}", quantile(&rtts, share))));
    cells.extend([least, most].map(|ms| format!("{ms:.0}")));
    cells.extend([m.page_s(), m.image_s()].map(|mean| seconds(mean, quick)));
    cells.push(format!("{:.2}", m.goodput_mbps()));
    cells.push(rtts.len().to_string());
    cells
}

/// A time, where there is one. An image takes about as long as the short form: that none was complete says
/// nothing of it.
fn seconds(value: f64, quick: bool) -> String {
    match (value.is_finite(), quick) {
        (true, _) => format!("{value:.2}"),
        (false, true) => "not in the short form".into(),
        (false, false) => "none was complete".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_short_form_is_not_blamed_for_what_it_has_no_time_for() {
        let told = |value| [false, true].map(|quick| seconds(value, quick));
        assert_eq!(told(1.234), ["1.23", "1.23"]);
        assert_eq!(told(f64::NAN), ["none was complete", "not in the short form"]);
    }
}
