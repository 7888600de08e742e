//! The arm with real TCP in network namespaces: figures 5 and 8.

use super::measured::{Run, Runs};
use super::{Arguments, FigureName, folder, percent, series};
use crate::interrupt::{is_interrupted, titled};
use crate::output::{Done, Failure, Output};
use crate::results::{file_set, policies_of, prepare, write as write_run};
use crate::verbs::lab;
use crate::verbs::reproduce::publish::{ended, keep_measured, status, with_note};
use serde::Serialize;
use std::path::Path;
use weir_report::chart::{Figure, FigurePoint, FigureSeries, figure};
use weir_report::{FileSet, html, table};
use weir_scenario::result::{Claim, HostJitter, LinkSummary, Recording};
use weir_scenario::{Document, Scenario};

const FIGURE_5: [(&str, &str); 2] = [
    ("steering_figure5.toml", include_str!("../../../../../../data/scenarios/steering_figure5.toml")),
    (
        "steering_figure5_static.toml",
        include_str!("../../../../../../data/scenarios/steering_figure5_static.toml"),
    ),
];
const FIGURE_8: [(&str, &str); 1] =
    [("steering_figure8.toml", include_str!("../../../../../../data/scenarios/steering_figure8.toml"))];

/// What the short form changes: the host has no part in the result at this rate, CUBIC's epochs are short,
/// and both ends of the range of flows are kept.
const QUICK: [(&str, &str); 3] = [("link.rate", "200Mbit/s"), ("run.duration", "14s"), ("run.warmup", "6s")];
const QUICK_FLOWS: [u32; 2] = [2, 36];
/// Steering converges while static set points are just there, and in a short run it must not remember its
/// start for ten seconds.
const QUICK_STEERED: [(&str, &str); 4] = [
    ("run.duration", "30s"),
    ("run.warmup", "18s"),
    ("policy.memory_rate", "2s"),
    ("policy.memory_depth", "2s"),
];

/// One point of a figure.
#[derive(Serialize)]
struct Point {
    series: String,
    flows: u32,
    run: u32,
    link: LinkSummary,
    host: HostJitter,
    warnings: Vec<String>,
    #[serde(skip)]
    recording: Recording,
    #[serde(skip)]
    scenario: Scenario,
}

/// Runs the figure and judges its claims.
pub fn main(arguments: &Arguments, output: &Output) -> Done {
    if !matches!(arguments.figure, FigureName::Five | FigureName::Eight) {
        return Err(Failure::input("the lab repeats figures 5 and 8: choose one of them, or --arm sim"));
    }
    let scenarios = scenarios(arguments)?;
    let folder = folder(arguments, &format!("figure{}-lab", number(arguments)));
    prepare(&folder)?;
    let seconds: f64 = scenarios.iter().map(|s| s.run.duration.as_secs_f64() + 2.0).sum();
    let runs = arguments.runs.unwrap_or(1);
    let total = scenarios.len() * runs as usize;
    output.say(format!("{total} runs, about {:.0} min", seconds * f64::from(runs) / 60.0));
    let mut points = Vec::new();
    'all: for run in 0..runs {
        for scenario in &scenarios {
            output.say(format!("[{}/{total}] {}", points.len() + 1, scenario.title));
            points.push(measure(scenario, run, output)?);
            if is_interrupted() {
                break 'all;
            }
        }
    }
    let margins = if arguments.quick { &Margins::QUICK } else { &Margins::FULL };
    let results = Results { runs: Runs { points: points.iter().collect() }, margins };
    let mut claims = match arguments.figure {
        FigureName::Five => results.claims_of_figure_5(),
        _ => results.claims_of_figure_8(),
    };
    keep_measured(&mut claims, &mut Vec::new(), output);
    write(&results, &claims, arguments, &folder)?;
    print(&results, &claims, arguments, &folder, output);
    Ok(status(&claims))
}

/// Every point of the figure as a scenario, with the options applied.
fn scenarios(arguments: &Arguments) -> Result<Vec<Scenario>, Failure> {
    let files: &[(&str, &str)] = match arguments.figure {
        FigureName::Five => &FIGURE_5,
        _ => &FIGURE_8,
    };
    let mut scenarios = Vec::new();
    for (name, text) in files {
        let mut document = Document::parse(name, text).map_err(Failure::input)?;
        if arguments.quick {
            let steered: &[_] = if document.has_table("policy") { &QUICK_STEERED } else { &[] };
            // At 200 Mbit/s 36 flows do not fill the link at all without a queue, virtual or real.
            let keeps_rate = arguments.figure == FigureName::Eight;
            let changes = QUICK.iter().filter(|(key, _)| !(keeps_rate && *key == "link.rate"));
            for (key, value) in changes.chain(steered) {
                document.set(key, value).map_err(Failure::input)?;
            }
        }
        if let Some(rate) = &arguments.rate {
            document.set("link.rate", rate).map_err(Failure::input)?;
        }
        let scenario = document.scenario().map_err(Failure::input)?;
        for mut point in scenario.expand().into_iter().map(|p| p.scenario) {
            let flows = point.flows[0].count;
            if arguments.quick && !QUICK_FLOWS.contains(&flows) {
                continue;
            }
            point.title = format!("{}, {flows} flows, {}", series(&point), point.rate());
            scenarios.push(point);
        }
    }
    Ok(scenarios)
}

fn measure(scenario: &Scenario, run: u32, output: &Output) -> Result<Point, Failure> {
    let recording = lab::record(scenario, None, output)?;
    let summary = &recording.summary;
    Ok(Point {
        series: series(scenario),
        flows: scenario.flows[0].count,
        run,
        link: summary.links.first().cloned().unwrap_or_default(),
        host: summary.host.unwrap_or_default(),
        warnings: summary.warnings.clone(),
        recording,
        scenario: scenario.clone(),
    })
}

/// How far a measurement may miss the paper's number on a machine that is no testbed.
struct Margins {
    /// Least utilization of GSP-AS with two flows.
    steered_two_flows: f64,
    /// What another curve may be above GSP-AS with two flows.
    above_static: f64,
    /// Most that GSP-AS with 36 flows may lose against tail drop 30 ms.
    against_tail_drop: f64,
    /// Share of the static set point's delay that GSP-AS stays below with 36 flows.
    share_of_static: f64,
    /// Range of the utilization with a target of 95 %.
    band: (f64, f64),
    /// Most mean delay of the real queue beside a virtual one, in ms.
    real_queue_ms: f64,
}

impl Margins {
    const FULL: Margins = Margins {
        steered_two_flows: 0.985,
        above_static: 0.0,
        against_tail_drop: 0.01,
        share_of_static: 0.5,
        band: (0.93, 0.96),
        real_queue_ms: 0.1,
    };
    /// Short runs contain some of the convergence, and a packet at 200 Mbit/s takes 0.06 ms by itself.
    const QUICK: Margins = Margins {
        steered_two_flows: 0.93,
        above_static: 0.02,
        against_tail_drop: 0.03,
        share_of_static: 0.9,
        band: (0.90, 0.97),
        real_queue_ms: 0.5,
    };
}

const STEERED: &str = "GSP-AS";
const STATIC: &str = "GSP 2.5ms";
const TAIL_DROP_LARGE: &str = "TD 30ms";

impl Run for Point {
    fn series(&self) -> &str {
        &self.series
    }
    fn flows(&self) -> u32 {
        self.flows
    }
    fn link(&self) -> &LinkSummary {
        &self.link
    }
}

struct Results<'a> {
    runs: Runs<'a, Point>,
    margins: &'a Margins,
}

impl Results<'_> {
    fn claims_of_figure_5(&self) -> Vec<Claim> {
        let (few, many) = (2, 36);
        let steered_few = self.runs.utilization(STEERED, few);
        let mut claims = vec![Claim {
            id: "A8".into(),
            text: "With 2 flows GSP-AS keeps the link busy".into(),
            expected: format!("utilization at least {}", percent(self.margins.steered_two_flows)),
            measured: percent(steered_few),
            held: steered_few >= self.margins.steered_two_flows,
        }];
        for other in self.runs.series().into_iter().filter(|s| ![STEERED, TAIL_DROP_LARGE].contains(s)) {
            let utilization = self.runs.utilization(other, few);
            claims.push(Claim {
                id: "A3".into(),
                text: format!("With 2 flows GSP-AS uses the link better than {other}"),
                expected: format!("above {} of {other}", percent(utilization - self.margins.above_static)),
                measured: percent(steered_few),
                held: steered_few > utilization - self.margins.above_static,
            });
        }
        claims.push(self.claim_delay_bound());
        claims.push(self.claim_delay_falls());
        let (steered, fixed) = (self.runs.p95(STEERED, many), self.runs.p95(STATIC, many));
        let share = self.margins.share_of_static;
        claims.push(Claim {
            id: "A6".into(),
            text: "With 36 flows the 95 % delay of GSP-AS lies far below that of the static set point".into(),
            expected: format!("below {share} of {fixed:.2} ms"),
            measured: format!("{steered:.2} ms"),
            held: steered < share * fixed,
        });
        let (steered, full) =
            (self.runs.utilization(STEERED, many), self.runs.utilization(TAIL_DROP_LARGE, many));
        claims.push(Claim {
            id: "A7".into(),
            text: "With 36 flows GSP-AS uses the link as tail drop with 30 ms does".into(),
            expected: format!("within {} of {}", percent(self.margins.against_tail_drop), percent(full)),
            measured: percent(steered),
            held: (full - steered) <= self.margins.against_tail_drop,
        });
        claims
    }

    fn claim_delay_bound(&self) -> Claim {
        let delays: Vec<f64> = self.runs.flows().iter().map(|n| self.runs.p95(STEERED, *n)).collect();
        Claim {
            id: "A5".into(),
            text: "The 95 % delay of GSP-AS stays below its bound for every number of flows".into(),
            expected: "below 30 ms".into(),
            measured: self.over_flows(&delays),
            held: !delays.is_empty() && delays.iter().all(|d| *d < 30.0),
        }
    }

    fn claim_delay_falls(&self) -> Claim {
        let delays: Vec<f64> = self.runs.flows().iter().map(|n| self.runs.p95(STEERED, *n)).collect();
        Claim {
            id: "A6".into(),
            text: "The 95 % delay of GSP-AS falls with the number of flows".into(),
            expected: "each below the one before".into(),
            measured: self.over_flows(&delays),
            held: delays.len() > 1 && delays.windows(2).all(|pair| pair[1] < pair[0]),
        }
    }

    fn over_flows(&self, delays: &[f64]) -> String {
        let each = |(n, d): (&u32, &f64)| format!("{d:.2} ms ({n})");
        self.runs.flows().iter().zip(delays).map(each).collect::<Vec<_>>().join(", ")
    }

    fn claims_of_figure_8(&self) -> Vec<Claim> {
        let (from, to) = self.margins.band;
        let mut claims = Vec::new();
        for flows in self.runs.flows() {
            let utilization = self.runs.utilization(STEERED, flows);
            claims.push(Claim {
                id: "A14".into(),
                text: format!("With {flows} flows the utilization target of 95 % is held"),
                expected: format!("between {} and {}", percent(from), percent(to)),
                measured: percent(utilization),
                held: (from..=to).contains(&utilization),
            });
            if flows < 9 {
                continue;
            }
            let mean = self.runs.mean(STEERED, flows, |l| l.delay_ms.mean);
            claims.push(Claim {
                id: "A15".into(),
                text: format!("With {flows} flows the real queue is practically empty"),
                expected: format!("mean below {} ms", self.margins.real_queue_ms),
                measured: format!("{mean:.3} ms"),
                held: mean < self.margins.real_queue_ms,
            });
        }
        claims
    }

    fn figure(&self, title: &str) -> Figure {
        let point = |series: &str, flows: u32, of: fn(&LinkSummary) -> f64| FigurePoint {
            value: self.runs.mean(series, flows, of),
            range: self.runs.range(series, flows, of),
        };
        let curve = |name: &str| FigureSeries {
            name: name.to_string(),
            utilization: self.runs.flows().iter().map(|n| point(name, *n, |l| l.utilization)).collect(),
            delay_p95_ms: self.runs.flows().iter().map(|n| point(name, *n, |l| l.delay_ms.p95)).collect(),
        };
        Figure {
            title: title.into(),
            subtitle: self.host_line(),
            x_name: "Number of flows".into(),
            categories: self.runs.flows().iter().map(u32::to_string).collect(),
            series: self.runs.series().into_iter().map(curve).collect(),
            log_delay: true,
            ..Figure::default()
        }
    }

    /// The host's part in the results, in a line.
    fn host_line(&self) -> String {
        let worst =
            |of: fn(&HostJitter) -> f64| self.runs.points.iter().map(|p| of(&p.host)).fold(0.0, f64::max);
        format!(
            "host: loop called late by at most {:.2} ms (99 %: {:.3} ms), frames left the delay line late by \
             {:.3} ms (99 %), stalled {:.3} % of the time; real-time class: {}, own core: {}",
            worst(|h| h.gap_ms.max),
            worst(|h| h.gap_ms.p99),
            worst(|h| h.late_ms.p99),
            worst(|h| h.stalled_share) * 100.0,
            self.runs.points.iter().all(|p| p.host.realtime),
            self.runs.points.iter().all(|p| p.host.own_core),
        )
    }
}

fn number(arguments: &Arguments) -> &'static str {
    if arguments.figure == FigureName::Five { "5" } else { "8" }
}

fn title(arguments: &Arguments) -> String {
    let short = if arguments.quick { " (short form)" } else { "" };
    format!("AQM Steering, figure {}, real TCP{short}", number(arguments))
}

fn write(results: &Results, claims: &[Claim], arguments: &Arguments, folder: &Path) -> Result<(), Failure> {
    let title = titled(&title(arguments));
    let mut files = file_set(folder)?;
    FileSet::withdraw(folder)?;
    for point in &results.runs.points {
        let name = format!("{}-{}-{}", point.series.replace(' ', "_"), point.flows, point.run);
        write_run(&point.recording, &point.scenario, &folder.join(&name))?;
        files.add_folder(name);
    }
    files.add("figure.svg", figure(&results.figure(&title)))?;
    let notes = with_note(&[results.host_line()]);
    let run = |p: &&Point| (format!("{}, {} flows", p.series, p.flows), policies_of(&p.scenario));
    let labels: Vec<_> = results.runs.points.iter().map(run).collect();
    let runs = results.runs.points.iter().zip(&labels);
    let runs = runs.map(|(p, (label, policies))| html::PageRun { label, recording: &p.recording, policies });
    let page =
        html::Page { title: &title, runs: runs.collect(), claims, notes: &notes, ..html::Page::default() };
    files.add("report.html", html::page(&page))?;
    let result = result_of(results, claims, arguments, folder);
    files.add("result.json", serde_json::to_string_pretty(&result)?)?;
    Ok(files.publish()?)
}

fn result_of(results: &Results, claims: &[Claim], arguments: &Arguments, folder: &Path) -> serde_json::Value {
    let result = serde_json::json!({
        "paper": "steering",
        "figure": number(arguments),
        "arm": "lab",
        "quick": arguments.quick,
        "claims": claims,
        "runs": results.runs.points,
    });
    ended(result, folder)
}

fn print(results: &Results, claims: &[Claim], arguments: &Arguments, folder: &Path, output: &Output) {
    let json = result_of(results, claims, arguments, folder);
    output.result(&json, || {
        let summaries = results.runs.points.iter().map(|p| {
            let mut summary = p.recording.summary.clone();
            // The way back is not what the figure is about.
            summary.links.truncate(1);
            summary
        });
        let summaries: Vec<_> = summaries.collect();
        format!(
            "{}\n{}\n\n{}\nResults: {}",
            table::results(&summaries, output.paint()),
            results.host_line(),
            table::claims(claims, output.paint()),
            folder.display()
        )
    });
}
