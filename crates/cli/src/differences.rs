//! What a simulation of a scenario and another arm with it differ in.

use serde::ser::{Serialize, SerializeMap, Serializer};
use weir_measure::result::{LinkSummary, Summary};
use weir_report::measured::Goodput;
use weir_report::table::aligned;

/// A value of a link by its name.
type OfLink = (&'static str, fn(&LinkSummary) -> f64);
/// A value of the flows' goodputs by its name; absent where no flow has one.
type OfGoodput = (&'static str, fn(Goodput) -> Option<f64>);

/// Throughput may differ by this share.
const THROUGHPUT_SHARE: f64 = 0.03;
/// The 95 % delay may differ by this share, or by the time below.
const DELAY_SHARE: f64 = 0.25;
/// Smaller differences of the 95 % delay are those of a live host.
const DELAY_MS: f64 = 0.5;

/// A quantity in both arms.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Its name, with the unit.
    pub name: &'static str,
    /// As simulated.
    pub sim: Option<f64>,
    /// Where else it was measured, such as `lab`.
    pub arm: &'static str,
    /// As measured there.
    pub there: Option<f64>,
    /// Simulated less measured, as a share of what was measured.
    pub share: Option<f64>,
    /// Whether the tolerance holds; none where there is no tolerance.
    pub within: Option<bool>,
}

/// As an object in which the value of the other arm has its name.
impl Serialize for Difference {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(5))?;
        map.serialize_entry("name", self.name)?;
        map.serialize_entry("sim", &self.sim)?;
        map.serialize_entry(self.arm, &self.there)?;
        map.serialize_entry("share", &self.share)?;
        map.serialize_entry("within", &self.within)?;
        map.end()
    }
}

/// The differences of the first links, and of the flows, between the simulation and an arm of that name.
pub fn differences(sim: &Summary, arm: &'static str, there: &Summary) -> Vec<Difference> {
    let link = |summary: &Summary, of: fn(&LinkSummary) -> f64| summary.links.first().map(of);
    let links: [OfLink; 8] = [
        ("utilization", |l| l.utilization),
        ("delay_mean_ms", |l| l.delay_ms.mean),
        ("delay_p50_ms", |l| l.delay_ms.p50),
        ("delay_p95_ms", |l| l.delay_ms.p95),
        ("delay_p99_ms", |l| l.delay_ms.p99),
        ("drops", |l| l.drops as f64),
        ("overflows", |l| l.overflows as f64),
        ("marks", |l| l.marks as f64),
    ];
    let flows = |summary: &Summary, of: fn(Goodput) -> Option<f64>| {
        Goodput::of(summary.flows.iter().map(|f| f.goodput_bps)).and_then(of)
    };
    let goodputs: [OfGoodput; 4] = [
        ("goodput_min_bps", |g| Some(g.min)),
        ("goodput_mean_bps", |g| Some(g.mean)),
        ("goodput_max_bps", |g| Some(g.max)),
        ("fairness", |g| g.fairness),
    ];
    let links = links.map(|(name, of)| Difference::of(name, arm, link(sim, of), link(there, of)));
    let flows = goodputs.map(|(name, of)| Difference::of(name, arm, flows(sim, of), flows(there, of)));
    links.into_iter().chain(flows).collect()
}

/// Whether every tolerance holds.
pub fn are_within(differences: &[Difference]) -> bool {
    differences.iter().all(|d| d.within != Some(false))
}

impl Difference {
    fn of(name: &'static str, arm: &'static str, sim: Option<f64>, there: Option<f64>) -> Difference {
        let both = sim.zip(there);
        let share = both.filter(|(_, there)| *there != 0.0).map(|(sim, there)| (sim - there) / there);
        let near = |most: f64| share.is_some_and(|s| s.abs() <= most) || both.is_some_and(|(s, t)| s == t);
        let within = match name {
            "utilization" => Some(near(THROUGHPUT_SHARE)),
            "delay_p95_ms" => {
                Some(near(DELAY_SHARE) || both.is_some_and(|(sim, there)| (sim - there).abs() <= DELAY_MS))
            }
            _ => None,
        };
        Difference { name, arm, sim, there, share, within }
    }

    fn row(&self) -> Vec<String> {
        let number = |value: Option<f64>| match value {
            Some(v) if self.name.ends_with("_bps") => format!("{:.3} Mbit/s", v / 1e6),
            Some(v) if ["drops", "overflows", "marks"].contains(&self.name) => format!("{v:.0}"),
            Some(v) => format!("{v:.3}"),
            None => "–".into(),
        };
        let share = self.share.map_or("–".into(), |s| format!("{:+.1} %", s * 100.0));
        let within = self.within.map_or("", |within| if within { "ok" } else { "OUTSIDE" });
        let name = self.name.trim_end_matches("_bps");
        vec![name.into(), number(self.sim), number(self.there), share, within.into()]
    }
}

/// The differences as a table for people.
pub fn show(differences: &[Difference]) -> String {
    let rows: Vec<Vec<String>> = differences.iter().map(Difference::row).collect();
    let arm = differences.first().map_or("", |d| d.arm);
    aligned(&["quantity", "sim", arm, "difference", "tolerance"], &rows)
}

/// What has a tolerance, of many points: a row for each, with what it is called.
pub fn overview<'a>(arm: &str, points: impl Iterator<Item = (&'a str, &'a [Difference])>) -> String {
    let rows: Vec<Vec<String>> = points.map(|(title, all)| overview_row(title, all)).collect();
    let columns = ["", "utilization", arm, "difference", "95 % delay ms", arm, "difference", "tolerance"];
    aligned(&columns, &rows)
}

fn overview_row(title: &str, differences: &[Difference]) -> Vec<String> {
    let bounded = differences.iter().filter(|d| d.within.is_some());
    let cells = bounded.flat_map(|d| d.row().into_iter().skip(1).take(3));
    let verdict = if are_within(differences) { "ok" } else { "OUTSIDE" };
    std::iter::once(title.to_string()).chain(cells).chain([verdict.to_string()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_measure::result::{FlowSummary, Spread};

    fn summary(utilization: f64, p95: f64) -> Summary {
        let delay_ms = Spread { p95, ..Spread::default() };
        let link = LinkSummary { utilization, delay_ms, ..LinkSummary::default() };
        let flows = vec![FlowSummary { goodput_bps: 1e6, ..FlowSummary::default() }];
        Summary { links: vec![link], flows, ..Summary::default() }
    }

    #[test]
    fn tolerances_are_shares_or_half_a_millisecond() {
        let within = |sim: (f64, f64), lab: (f64, f64)| {
            are_within(&differences(&summary(sim.0, sim.1), "lab", &summary(lab.0, lab.1)))
        };
        assert!(within((1.0, 10.0), (0.98, 12.0)));
        assert!(!within((1.0, 10.0), (0.96, 10.0)));
        assert!(!within((1.0, 10.0), (1.0, 14.0)));
        assert!(within((1.0, 1.0), (1.0, 1.49)), "small differences of the delay do not count");
        assert!(within((0.0, 0.0), (0.0, 0.0)), "nothing is like nothing");
        assert!(!within((0.5, 0.0), (0.0, 0.0)));
    }

    #[test]
    fn an_overview_has_a_row_for_each_point() {
        let points = [
            ("near", differences(&summary(1.0, 10.0), "lab", &summary(0.98, 12.0))),
            ("far", differences(&summary(1.0, 10.0), "lab", &summary(1.0, 20.0))),
        ];
        let text = overview("lab", points.iter().map(|(title, all)| (*title, all.as_slice())));
        let words = |of: &str| {
            let line = text.lines().find(|l| l.starts_with(of)).unwrap_or_else(|| panic!("{text}"));
            line.split_whitespace().skip(1).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(words("near"), "1.000 0.980 +2.0 % 10.000 12.000 -16.7 % ok");
        assert_eq!(words("far"), "1.000 1.000 +0.0 % 10.000 20.000 -50.0 % OUTSIDE");
    }

    #[test]
    fn the_table_names_what_is_outside() {
        let text = show(&differences(&summary(1.0, 10.0), "lab", &summary(0.9, 10.0)));
        let line = text.lines().find(|l| l.starts_with("utilization")).unwrap();
        assert!(line.contains("+11.1 %") && line.ends_with("OUTSIDE"), "{text}");
        assert!(text.lines().any(|l| l.starts_with("delay_p95_ms") && l.ends_with("ok")), "{text}");
        let words: Vec<&str> = text.split_whitespace().collect();
        assert!(words.join(" ").contains("goodput_min 1.000 Mbit/s 1.000 Mbit/s +0.0 %"), "{text}");
    }
}
