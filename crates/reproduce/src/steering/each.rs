//! Figure 5 for other algorithms than the paper's: what steering adds to each that has a set point.

use super::cases::{Case, FIVE, Measured, Part, Values};
use super::sim::measure;
use super::{Arguments, Arm, folder};
use crate::claim::percent;
use crate::figure::{Figure, axis, series as curve};
use crate::host::{Error, Host, Report};
use crate::journal::{Done, Journal};
use crate::publish::Outcome;
use crate::runs::Planned;
use serde_json::{Value, json};
use weir_aqm::{Algorithm, Visitor};
use weir_config::{Document, Scenario, nearest};
use weir_measure::result::LinkSummary;
use weir_report::chart::{Look, Plot, PlotSeries};
use weir_report::html::{Grid, GridCell};
use weir_report::table;

/// Stands for every algorithm that has a set point.
const ALL: &str = "all";
/// The set point of the static algorithms, as in the paper.
const STATIC: &str = "2.5ms";
/// Numbers of flows that are shown.
const FLOWS: [u32; 3] = [2, 9, 36];
/// The rate, unless one is given.
const RATE: &str = "1Gbit/s";
/// The policy of the figure.
const UTILIZATION_LOW: f64 = 0.99;

/// The table of the scenario files that names what is steered.
const AQM_TABLE: &str = "[aqm]\nname = \"gsp\"\n";

/// An algorithm, or a discipline with one, that can be steered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct SteerableAqm {
    name: &'static str,
    setpoint: &'static str,
    queue: Queue,
}

/// Where the algorithm works.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Queue {
    /// In a single FIFO, under the name of the algorithm.
    Single,
    /// This one in each FIFO of a FlowQueue.
    Flows(&'static str),
    /// In a discipline of that name, which brings it.
    Own,
}

/// Disciplines whose set point is steered as well.
const DISCIPLINES: [SteerableAqm; 2] = [
    SteerableAqm { name: "fq_codel", setpoint: "target", queue: Queue::Flows("codel") },
    SteerableAqm { name: "dualpi2", setpoint: "target", queue: Queue::Own },
];

impl SteerableAqm {
    /// Its tables in a scenario file, with a set point or the default.
    fn tables(&self, at: Option<&str>) -> String {
        let SteerableAqm { name, setpoint, queue } = self;
        let at = at.map_or(String::new(), |at| format!("{setpoint} = \"{at}\"\n"));
        match queue {
            Queue::Single => format!("[aqm]\nname = \"{name}\"\n{at}"),
            Queue::Flows(aqm) => format!("[queue]\ndiscipline = \"flow\"\n\n[aqm]\nname = \"{aqm}\"\n{at}"),
            Queue::Own => format!("[queue]\ndiscipline = \"{name}\"\n{at}"),
        }
    }
}

#[derive(Clone)]
struct Ask;

impl Visitor for Ask {
    type Output = Option<SteerableAqm>;
    fn visit<A: Algorithm>(self) -> Option<SteerableAqm> {
        Some(SteerableAqm { name: A::NAME, setpoint: A::SETPOINT?, queue: Queue::Single })
    }
}

/// Runs every algorithm that was named with a static set point and steered.
pub fn main(arguments: &Arguments, host: &dyn Host) -> Result<Report, Error> {
    if arguments.figure.value != [Part::Five] || arguments.arm != Arm::Sim {
        let remedy = "choose --figure 5 --arm sim, or leave it out";
        return Err(Error::Input(format!("--aqm is for figure 5 in the simulator: {remedy}")));
    }
    let algorithms = named(&arguments.aqm)?;
    let plan = plan(&algorithms, arguments)?;
    let folder = folder(arguments, "figure5-each");
    host.prepare(&folder)?;
    let Done { runs, origins } =
        Journal::begin(&folder, arguments.resume, host)?.simulate(&plan, host, measure)?;
    let measured = Measured::new(&runs);
    let rows = rows(&algorithms, &measured);
    let cells: Vec<Vec<String>> = rows.iter().map(Row::cells).collect();
    let short = if arguments.quick { " (short form)" } else { "" };
    let outcome = Outcome {
        title: format!("AQM Steering, figure 5 for other algorithms, simulated{short}"),
        notes: vec![NOTE.to_string()],
        about: json!({
            "paper": "steering", "figure": "5", "arm": "sim", "quick": arguments.quick,
            "aqm": arguments.aqm.join(","),
            "rows": rows.iter().map(Row::json).collect::<Vec<_>>(),
        }),
        runs: json!(runs),
        origins,
        figures: charts(&algorithms, &measured),
        text: format!("{}\n{NOTE}", table::aligned(&HEADER, &cells)),
        grids: vec![grid(cells)],
        ..Outcome::default()
    };
    outcome.deliver(&folder, host.files(&folder)?, host)
}

/// The algorithms of these names.
fn named(names: &[String]) -> Result<Vec<SteerableAqm>, Error> {
    let mut all = Vec::new();
    weir_aqm::visit_all(Ask, |found| all.extend(found));
    all.extend(DISCIPLINES);
    let (every, names): (Vec<&str>, Vec<&str>) =
        names.iter().map(|name| name.trim()).partition(|name| *name == ALL);
    let mut chosen = Vec::new();
    for name in names {
        let found = all.iter().find(|a| a.name == name).copied().ok_or_else(|| unknown(name, &all))?;
        if !chosen.contains(&found) {
            chosen.push(found);
        }
    }
    Ok(if every.is_empty() { chosen } else { all })
}

fn unknown(name: &str, all: &[SteerableAqm]) -> Error {
    let names: Vec<&str> = all.iter().map(|a| a.name).collect();
    let what = match weir_aqm::names().contains(&name) {
        true => "has no set point to steer".to_string(),
        false => nearest(name, names.iter().copied())
            .map_or("is no algorithm".into(), |meant| format!("is no algorithm: did you mean `{meant}`?")),
    };
    Error::Input(format!("--aqm: `{name}` {what}; name one of {} or `{ALL}`", names.join(", ")))
}

fn plan(algorithms: &[SteerableAqm], arguments: &Arguments) -> Result<Vec<Planned<Case>>, Error> {
    let mut plan = Vec::new();
    for algorithm in algorithms {
        for is_steered in [false, true] {
            for flows in FLOWS.into_iter().filter(|n| !arguments.quick || *n != FLOWS[1]) {
                let scenario = scenario(algorithm, is_steered, flows, arguments)?;
                let case = Case::of(Part::Five, &scenario);
                let case = Case { series: series(algorithm.name, is_steered), ..case };
                plan.extend(Planned::repeated(&case, &scenario, arguments.seeds.unwrap_or(1)));
            }
        }
    }
    Ok(plan)
}

fn scenario(
    algorithm: &SteerableAqm,
    is_steered: bool,
    flows: u32,
    arguments: &Arguments,
) -> Result<Scenario, Error> {
    let [steered, fixed] = FIVE;
    let (file, text) = if is_steered { steered } else { fixed };
    // Nothing is swept here.
    let (text, _) = text.split_once("[sweep]").unwrap_or((text, ""));
    let tables = algorithm.tables((!is_steered).then_some(STATIC));
    let text = text.replace(AQM_TABLE, &tables);
    let mut document = Document::parse(file, &text).map_err(Error::input)?;
    let rate = arguments.rate.as_deref().unwrap_or(RATE);
    let count = flows.to_string();
    let quick = Part::Five.quick_changes(is_steered).iter().filter(|_| arguments.quick).copied();
    for (key, value) in [("link.rate", rate), ("flows.0.count", &count)].into_iter().chain(quick) {
        document.set(key, value).map_err(Error::input)?;
    }
    document.scenario().map_err(Error::input)
}

/// Name of a curve.
fn series(name: &str, is_steered: bool) -> String {
    if is_steered { format!("{name}, steered") } else { format!("{name}, {STATIC}") }
}

/// One line of the table: an algorithm with a number of flows, both ways.
struct Row {
    name: &'static str,
    flows: u32,
    fixed: LinkSummary,
    steered: LinkSummary,
}

impl Row {
    /// What became of the policy.
    fn policy(&self) -> Policy {
        let link = &self.steered;
        let is_busy = link.utilization >= UTILIZATION_LOW;
        let is_at_end = link.setpoint_ms.is_some_and(|ms| ms >= TARGET_MAX_MS);
        match (link.delay_ms.p95 <= TARGET_MAX_MS, is_busy, is_at_end) {
            (true, true, _) => Policy::Held,
            (true, false, true) => Policy::Limited,
            _ => Policy::Missed,
        }
    }

    fn cells(&self) -> Vec<String> {
        let ms = |value: f64| format!("{value:.2} ms");
        let (fixed, steered) = (&self.fixed, &self.steered);
        vec![
            self.name.to_string(),
            self.flows.to_string(),
            percent(fixed.utilization),
            percent(steered.utilization),
            ms(fixed.delay_ms.mean),
            ms(steered.delay_ms.mean),
            ms(fixed.delay_ms.p95),
            ms(steered.delay_ms.p95),
            steered.setpoint_ms.map_or("–".into(), ms),
            self.policy().word().to_string(),
        ]
    }

    fn json(&self) -> Value {
        let side = |link: &LinkSummary| {
            json!({
                "utilization": link.utilization, "delay_mean_ms": link.delay_ms.mean,
                "delay_p95_ms": link.delay_ms.p95, "setpoint_ms": link.setpoint_ms,
            })
        };
        json!({
            "aqm": self.name, "flows": self.flows, "static": side(&self.fixed),
            "steered": side(&self.steered), "policy": self.policy().word(),
        })
    }
}

/// What became of the policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Policy {
    /// The link is as busy as wanted, with no more delay than allowed.
    Held,
    /// It is not, but the set point is as high as the policy allows.
    Limited,
    /// Neither.
    Missed,
}

impl Policy {
    fn word(self) -> &'static str {
        match self {
            Policy::Held => "held",
            Policy::Limited => "limited",
            Policy::Missed => "missed",
        }
    }
}

const HEADER: [&str; 10] = [
    "AQM",
    "flows",
    "util static",
    "util steered",
    "mean static",
    "mean steered",
    "p95 static",
    "p95 steered",
    "set point",
    "policy",
];
/// Largest set point of the policy of the figure.
const TARGET_MAX_MS: f64 = 30.0;

/// The lines of which both runs were made.
fn rows(algorithms: &[SteerableAqm], measured: &Measured) -> Vec<Row> {
    let found = measured.rows();
    let link = |series: String, flows: u32| {
        found.iter().find(|(name, n, _)| *name == series && *n == flows).map(|(.., link)| link.clone())
    };
    let mut rows = Vec::new();
    for SteerableAqm { name, .. } in algorithms {
        for flows in measured.flows() {
            let both = link(series(name, false), flows).zip(link(series(name, true), flows));
            rows.extend(both.map(|(fixed, steered)| Row { name, flows, fixed, steered }));
        }
    }
    rows
}

fn grid(rows: Vec<Vec<String>>) -> Grid {
    let row = |cells: Vec<String>| {
        let last = cells.len() - 1;
        let cell = |(i, text): (usize, String)| match i {
            0 => GridCell::Text(text),
            i if i == last && text == Policy::Held.word() => GridCell::Good(text),
            i if i == last && text == Policy::Missed.word() => GridCell::Bad(text),
            i if i == last => GridCell::Text(text),
            _ => GridCell::Number(text),
        };
        cells.into_iter().enumerate().map(cell).collect()
    };
    Grid {
        title: "Static and steered".into(),
        note: "Means over the runs; the set point is that of the first run at its end.".into(),
        header: HEADER.iter().map(|name| name.to_string()).collect(),
        rows: rows.into_iter().map(row).collect(),
        folded: false,
    }
}

/// A chart for each number of flows: 95 % delay to the left, utilization to the right.
fn charts(algorithms: &[SteerableAqm], measured: &Measured) -> Vec<Figure> {
    let chart = |flows: u32| {
        let curve = |is_steered: bool, on_right: bool| {
            let (of, factor): (fn(&Values) -> f64, f64) = match on_right {
                true => (|v| v.link.utilization, 100.0),
                false => (|v| v.link.delay_ms.p95, 1.0),
            };
            let at = |(i, a): (usize, &SteerableAqm)| {
                measured.at(&series(a.name, is_steered), flows).plotted(i as f64, factor, of)
            };
            let kind = if is_steered { "steered" } else { "static" };
            let quantity = if on_right { "utilization" } else { "95 % delay" };
            let points = algorithms.iter().enumerate().map(at);
            PlotSeries { on_right, ..curve(&format!("{quantity}, {kind}"), Look::Points, points) }
        };
        let plot = Plot {
            title: format!("What steering adds: {flows} flows ({})", measured.rate()),
            subtitle: format!("Static set point {STATIC}; steered: 99 %, at most 30 ms."),
            x: "Algorithm".into(),
            categories: algorithms.iter().map(|a| a.name.to_string()).collect(),
            left: axis("95 % delay (ms)", 0.0, 30.0),
            right: Some(axis("Utilization (%)", 90.0, 100.0)),
            series: vec![curve(false, false), curve(true, false), curve(false, true), curve(true, true)],
        };
        Figure { file: format!("each-{flows}-flows"), plot }
    };
    measured.flows().into_iter().map(chart).collect()
}

const NOTE: &str = "Static: a set point of 2.5 ms. Steered: utilization at least 99 %, set point at most 30 ms. The policy is \
                    held if the link is that busy and 95 % of the delays are within 30 ms; limited if it is not and the \
                    set point is at its upper end. CUBIC, round-trip time 50 ms, parameters at their defaults.";

#[cfg(test)]
mod tests {
    use super::super::tests::arguments;
    use super::*;
    use weir_measure::result::Spread;

    fn names(names: &[&str]) -> Result<Vec<SteerableAqm>, Error> {
        named(&names.iter().map(|n| n.to_string()).collect::<Vec<_>>())
    }

    fn told(given: &[&str]) -> String {
        match names(given) {
            Err(Error::Input(text)) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn names_are_those_of_algorithms_with_a_set_point() {
        assert_eq!(names(&["pie", "pie", "gsp"]).unwrap().len(), 2);
        assert!(names(&["all"]).unwrap().len() >= 9);
        assert!(told(&["hull"]).contains("`hull` has no set point"));
        assert!(told(&["coddel"]).contains("did you mean `codel`?"));
        assert!(told(&["all", "coddel"]).contains("did you mean `codel`?"));
    }

    #[test]
    fn every_set_point_is_that_of_the_paper_or_steered() {
        let plan = plan(&names(&["all"]).unwrap(), &arguments("5", false)).unwrap();
        for planned in &plan {
            let setpoint = ["target", "limit"].iter().find_map(|key| planned.scenario.aqm.get(key));
            let setpoint = setpoint.map(|s| s.to_string());
            let is_static = setpoint.as_deref() == Some(STATIC) && planned.scenario.policy.is_none();
            assert!(is_static || planned.case.series.ends_with("steered"), "{}", planned.case.series);
            assert_eq!(planned.scenario.policy.is_some(), planned.case.series.ends_with("steered"));
            assert_eq!(planned.scenario.flows[0].count, planned.case.flows);
            assert!(planned.scenario.sweep.axes.is_empty());
        }
        assert_eq!(plan.len() % 6, 0);
        let disciplines = ["codel", "fq_codel", "dualpi2"].map(|name| {
            let mine = plan.iter().find(|p| p.case.series == series(name, true)).unwrap();
            (mine.scenario.queue.discipline.as_str(), mine.scenario.aqm.name.as_str())
        });
        assert_eq!(disciplines, [("single", "codel"), ("flow", "codel"), ("dualpi2", "dualpi2")]);
    }

    #[test]
    fn a_policy_is_held_limited_or_missed() {
        let outcome = |(utilization, p95, setpoint_ms)| {
            let delay_ms = Spread { p95, ..Spread::default() };
            let steered = LinkSummary {
                utilization,
                delay_ms,
                setpoint_ms: Some(setpoint_ms),
                ..LinkSummary::default()
            };
            Row { name: "gsp", flows: 2, fixed: LinkSummary::default(), steered }.policy()
        };
        let cases =
            [(0.995, 9.0, 8.0), (0.98, 9.0, 8.0), (0.98, 25.0, 30.0), (1.0, 80.0, 2.5), (0.98, 31.0, 30.0)];
        use Policy::*;
        assert_eq!(cases.map(outcome), [Held, Missed, Limited, Missed, Missed]);
    }
}
