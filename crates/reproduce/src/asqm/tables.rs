//! Tables of what was measured.

use super::cases::{Algorithm, Study};
use super::measured::Measured;
use crate::runs::runs_each;
use weir_report::html::Rows;

const STUDIES: [(Study, &str); 10] = [
    (Study::OffPeak, "Off-peak: 48 Mbit/s for three modems of 16 (figures 4 to 9)"),
    (Study::Peak, "Peak hours: 21 Mbit/s for three modems of 16 (figures 10 to 15)"),
    (Study::Shortfall, "A slight shortfall: 24 to 23.5 Mbit/s for three modems of 8"),
    (Study::LongRtt, "Long round trips, off-peak"),
    (Study::Targets, "ASQM at peak hours, other targets"),
    (Study::Rates, "ASQM at peak hours, other rates"),
    (Study::HalfTarget, "ASQM off-peak, a target of 50 ms"),
    (Study::Kernel, "PIE and CoDel with the constants of Linux 3.15, off-peak"),
    (Study::Voice, "Peak hours with a call of class EF in each home"),
    (Study::Probing, "ASQM at peak hours, other ways of probing"),
];

const HEADER: [&str; 18] = [
    "AQM",
    "way",
    "RTT ms",
    "limit Mbit/s",
    "access Mbit/s",
    "target ms",
    "probes",
    "probes %",
    "error p95 ms",
    "modem Mbit/s",
    "least",
    "most",
    "deviation of 1 s",
    "RTT p50 ms",
    "p90",
    "p95",
    "p99",
    "EF p95 ms",
];

/// One table for each study that was run.
pub fn all(cases: &Measured) -> Vec<Rows> {
    let table = |(study, title): &(Study, &str)| {
        let rows: Vec<Vec<String>> = cases.study(*study).iter().map(row).collect();
        let header = HEADER.map(String::from).to_vec();
        let title = format!("{title}; {}", runs_each(&cases.study(*study)));
        (!rows.is_empty()).then_some(Rows { title, header, rows })
    };
    STUDIES.iter().filter_map(table).collect()
}

fn row(m: &Measured) -> Vec<String> {
    let (case, (least, most)) = (m.case(), m.bandwidth_range());
    let mbps = |kbps: u64| format!("{}", kbps as f64 / 1e3);
    let mut cells = vec![
        case.managed.name().to_string(),
        case.way.name().to_string(),
        case.rtt_ms.to_string(),
        mbps(case.limit_kbps),
        mbps(case.access_kbps),
        case.target_ms.to_string(),
        if case.managed == Algorithm::Asqm { case.probing.name() } else { "–".into() },
        m.overhead().map_or("–".into(), |share| format!("{:.3}", share * 100.0)),
        milliseconds(m.error_p95_ms()),
        format!("{:.2}", m.bandwidth()),
        format!("{:.2}", least),
        format!("{:.2}", most),
        format!("{:.2}", m.deviation()),
    ];
    cells.extend([0.5, 0.9, 0.95, 0.99].map(|share| format!("{:.0}", m.delay(share))));
    cells.push(milliseconds(m.voice_p95_ms()));
    cells
}

fn milliseconds(ms: f64) -> String {
    if ms.is_finite() { format!("{ms:.0}") } else { "–".into() }
}
