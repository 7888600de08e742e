//! The figures of the paper as scenario files, what the short form and other rates change in them, and what
//! is measured.

use super::{Arguments, series};
use crate::host::{Error, Host};
use crate::journal::{Journal, Measurement};
use crate::runs::{self, Planned};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::path::Path;
use weir_config::{Document, Scenario, nearest};
use weir_measure::result::{HostJitter, LinkSummary, Recording};
use weir_units::Rate;

/// A figure, or the part of one that is an experiment of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Part {
    /// Long-lived flows only.
    #[serde(rename = "5")]
    Five,
    /// With short transfers between.
    #[serde(rename = "6")]
    Six,
    /// 34 flows come and leave once.
    #[serde(rename = "7a")]
    SevenA,
    /// They do so again and again.
    #[serde(rename = "7b")]
    SevenB,
    /// A virtual queue, over the number of flows.
    #[serde(rename = "8a")]
    EightA,
    /// A virtual queue, over time.
    #[serde(rename = "8b")]
    EightB,
    /// What the paper says without a figure.
    #[serde(rename = "text")]
    Text,
}

/// Name and content of a scenario file.
pub type File = (&'static str, &'static str);
/// Keys of a scenario and the values that they are set to.
pub type Changes = &'static [(&'static str, &'static str)];

/// What is run for a part.
struct Experiment {
    /// Its number in the paper.
    name: &'static str,
    /// Its scenarios.
    files: &'static [File],
    /// Numbers of flows of the short form; of a figure over time, the only one.
    quick_flows: &'static [u32],
    /// What the short form changes where the set point is static, and where it is steered. Windows at 1
    /// Gbit/s grow back in less than half of the time.
    quick: [Changes; 2],
}

/// Figure 5: steered, and with static set points.
pub const FIVE: [File; 2] =
    [scenario_file!("steering_figure5_sim.toml"), scenario_file!("steering_figure5_static_sim.toml")];
const SHORT: [Changes; 2] =
    [&[("run.duration", "50s"), ("run.warmup", "20s")], &[("run.duration", "120s"), ("run.warmup", "70s")]];

static EXPERIMENTS: [Experiment; 7] = [
    Experiment { name: "5", files: &FIVE, quick_flows: &[2, 36], quick: SHORT },
    Experiment {
        name: "6",
        files: &[scenario_file!("steering_figure6.toml"), scenario_file!("steering_figure6_static.toml")],
        quick_flows: &[2, 36],
        quick: SHORT,
    },
    Experiment {
        name: "7a",
        files: &[scenario_file!("steering_figure7a.toml")],
        quick_flows: &[2],
        quick: [&[]; 2],
    },
    Experiment {
        name: "7b",
        files: &[scenario_file!("steering_figure7b.toml")],
        quick_flows: &[2],
        quick: [&[]; 2],
    },
    Experiment {
        name: "8a",
        files: &[scenario_file!("steering_figure8a.toml")],
        quick_flows: &[2, 9, 36],
        quick: [&[("run.duration", "160s"), ("run.warmup", "60s")]; 2],
    },
    Experiment {
        name: "8b",
        files: &[scenario_file!("steering_figure8b.toml")],
        quick_flows: &[36],
        quick: [&[("run.duration", "65s"), ("run.warmup", "20s")]; 2],
    },
    // Its scenarios have links of their own.
    Experiment { name: "text", files: &[], quick_flows: &[], quick: [&[]; 2] },
];

/// Packets of figure 7 besides those of 1500 bytes: how fast CUBIC has a link again depends on their size,
/// which the paper does not tell.
const JUMBO: Changes = &[("path.mtu", "9000")];

/// Without `--rate`: the rates of the paper, of which it shows the first.
const RATES: [&str; 2] = ["10Gbit/s", "1Gbit/s"];
const QUICK_RATE: &str = "1Gbit/s";
/// The rate at which the short transfers have the size of the file.
const FULL_RATE_BPS: f64 = 10e9;

impl Part {
    /// All of them.
    pub const ALL: [Part; 7] =
        [Part::Five, Part::Six, Part::SevenA, Part::SevenB, Part::EightA, Part::EightB, Part::Text];

    fn experiment(self) -> &'static Experiment {
        &EXPERIMENTS[self as usize]
    }

    /// Its number in the paper.
    pub fn name(self) -> &'static str {
        self.experiment().name
    }

    /// Whether it shows a run over time, and not results over the number of flows.
    pub fn is_over_time(self) -> bool {
        matches!(self, Part::SevenA | Part::SevenB | Part::EightB)
    }

    /// What the short form changes.
    pub fn quick_changes(self, is_steered: bool) -> Changes {
        self.experiment().quick[usize::from(is_steered)]
    }
}

/// A point of a curve of a figure at one rate.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Case {
    /// The figure.
    pub figure: Part,
    /// Rate of the link in bit/s.
    pub rate_bps: f64,
    /// The curve it belongs to.
    pub series: String,
    /// Number of long-lived flows.
    pub flows: u32,
}

impl Case {
    /// The point that a scenario belongs to.
    pub fn of(figure: Part, scenario: &Scenario) -> Case {
        let (rate_bps, flows) = (scenario.rate().as_bps_f64(), scenario.flows[0].count);
        Case { figure, rate_bps, series: series(scenario), flows }
    }

    /// The rate in words.
    pub fn rate(&self) -> String {
        Rate::from_bps_f64(self.rate_bps).to_string()
    }

    /// The rate by which runs are judged together; what is told without a figure is of several rates.
    pub fn judged_rate(&self) -> Option<u64> {
        (self.figure != Part::Text).then_some(self.rate_bps as u64)
    }
}

/// What is measured of a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Values {
    /// What the link did.
    pub link: LinkSummary,
    /// What the host did to a run in the lab.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<HostJitter>,
    /// Samples and moves: in the lab, and of figures over time.
    #[serde(skip)]
    pub recording: Option<Recording>,
}

impl Measurement for Values {
    type Detail = Option<Recording>;
    fn detail(&mut self) -> &mut Option<Recording> {
        &mut self.recording
    }
    #[cfg(feature = "live")]
    fn stalled_share(&self) -> Option<f64> {
        self.host.map(|host| host.stalled_share)
    }
}

/// One run.
pub type Run = runs::Run<Case, Values>;
/// Runs, mostly those of one figure at one rate.
pub type Measured<'a> = runs::Measured<'a, Case, Values>;

impl<'a> Measured<'a> {
    /// Numbers of flows, in rising order.
    pub fn flows(&self) -> Vec<u32> {
        let mut flows = self.keys(|case| case.flows);
        flows.sort_unstable();
        flows
    }

    /// Names of the curves, in the order of the plan.
    pub fn series(&self) -> Vec<&'a str> {
        self.keys(|case| case.series.as_str())
    }

    /// The runs of one point.
    pub fn at(&self, series: &str, flows: u32) -> Measured<'a> {
        self.only(|case| case.series == series && case.flows == flows)
    }

    /// Utilization as a share of one, mean over the runs of a point.
    pub fn utilization(&self, series: &str, flows: u32) -> f64 {
        self.at(series, flows).mean(|v| v.link.utilization)
    }

    /// Mean delay in milliseconds, mean over the runs of a point.
    pub fn mean_delay(&self, series: &str, flows: u32) -> f64 {
        self.at(series, flows).mean(|v| v.link.delay_ms.mean)
    }

    /// 95th percentile of the delay in milliseconds, mean over the runs of a point.
    pub fn p95(&self, series: &str, flows: u32) -> f64 {
        self.at(series, flows).mean(|v| v.link.delay_ms.p95)
    }

    /// Rate of the link in bit/s.
    pub fn rate_bps(&self) -> f64 {
        self.runs.first().map_or(0.0, |run| run.case.rate_bps)
    }

    /// The same in words.
    pub fn rate(&self) -> String {
        Rate::from_bps_f64(self.rate_bps()).to_string()
    }

    /// One row for each point: the means over its runs.
    pub fn rows(&self) -> Vec<(&'a str, u32, LinkSummary)> {
        let mut rows = Vec::new();
        for series in self.series() {
            for flows in self.flows() {
                rows.extend(self.at(series, flows).link().map(|link| (series, flows, link)));
            }
        }
        rows
    }

    /// The link of the first run, with the means over all of them.
    fn link(&self) -> Option<LinkSummary> {
        let mut link = self.runs.first()?.values.link.clone();
        link.utilization = self.mean(|v| v.link.utilization);
        link.delay_ms.mean = self.mean(|v| v.link.delay_ms.mean);
        link.delay_ms.p95 = self.mean(|v| v.link.delay_ms.p95);
        link.delay_ms.p99 = self.mean(|v| v.link.delay_ms.p99);
        link.delay_ms.max = self.mean(|v| v.link.delay_ms.max);
        link.drops = self.mean(|v| v.link.drops as f64).round() as u64;
        link.overflows = self.mean(|v| v.link.overflows as f64).round() as u64;
        Some(link)
    }

    /// The runs with their samples, of figures over time.
    pub fn recordings(&self) -> impl Iterator<Item = &'a Recording> {
        self.runs.iter().filter_map(|run| run.values.recording.as_ref())
    }

    /// The first of them, which is drawn.
    pub fn recording(&self) -> Option<&'a Recording> {
        self.recordings().next()
    }

    /// The curves apart, with their names.
    pub fn curves(&self) -> Vec<(&'a str, Measured<'a>)> {
        self.series().into_iter().map(|name| (name, self.only(|case| case.series == name))).collect()
    }
}

/// A scenario file with keys that are set.
pub fn document(
    (name, text): File,
    changes: impl IntoIterator<Item = (&'static str, &'static str)>,
) -> Result<Document, Error> {
    let mut document = Document::parse(name, text).map_err(Error::input)?;
    for (key, value) in changes {
        document.set(key, value).map_err(Error::input)?;
    }
    Ok(document)
}

/// How often each point is run.
pub fn seeds(arguments: &Arguments) -> u32 {
    runs::times(arguments.seeds, arguments.quick, 3)
}

/// What was asked for, as results tell it. Where one series has more runs than the others, their number is
/// told too, as the runs do not have one number.
pub fn about(arguments: &Arguments) -> Value {
    let Arguments { figure, arm, quick, series, .. } = arguments;
    let mut about = json!({ "paper": "steering", "figure": figure.name, "arm": arm.name(), "quick": quick });
    if let Some(series) = series {
        about["series"] = json!(series);
        about["seeds"] = json!(seeds(arguments));
    }
    about
}

/// Refuses a series that no run of the plan is of.
fn check_series(plan: &[Planned<Case>], series: &str) -> Result<(), Error> {
    let mut names: Vec<&str> = plan.iter().map(|planned| planned.case.series.as_str()).collect();
    if names.contains(&series) {
        return Ok(());
    }
    names.sort_unstable();
    names.dedup();
    let meant = nearest(series, names.iter().copied());
    let meant = meant.map_or(String::new(), |meant| format!(": did you mean `{meant}`?"));
    let names = names.join(", ");
    Err(Error::Input(format!("--series: `{series}` is none of this figure{meant}; name one of {names}")))
}

/// Begins the runs of a plan. Where a series is named, all of that one stay in it, and of others the first of
/// each point and what the folder has.
pub fn begin(
    plan: &mut Vec<Planned<Case>>,
    arguments: &Arguments,
    folder: &Path,
    host: &dyn Host,
) -> Result<Journal, Error> {
    let series = arguments.series.as_deref();
    series.map_or(Ok(()), |series| check_series(plan, series))?;
    host.prepare(folder)?;
    let journal = Journal::begin(folder, arguments.resume, host)?;
    if let Some(series) = series {
        plan.retain(|planned| planned.case.series == series || planned.seed == 0 || journal.has(planned));
    }
    Ok(journal)
}

/// Every run of the figures that the arguments ask for, checked before the first one starts.
pub fn plan(arguments: &Arguments) -> Result<Vec<Planned<Case>>, Error> {
    let default: &[&str] = if arguments.quick { &[QUICK_RATE] } else { &RATES };
    let rates = arguments.rate.as_deref().map_or(default.to_vec(), |rate| vec![rate]);
    let seeds = seeds(arguments);
    let mut plan = Vec::new();
    for &part in arguments.figure.value {
        for rate in &rates {
            for scenario in part_at(part, rate, arguments.quick)? {
                plan.extend(Planned::repeated(&Case::of(part, &scenario), &scenario, seeds));
            }
        }
    }
    Ok(plan)
}

/// The points of a part at one rate; figure 7 with packets of two sizes.
pub fn part_at(part: Part, rate: &str, quick: bool) -> Result<Vec<Scenario>, Error> {
    let sizes: &[Changes] = match part {
        Part::SevenA | Part::SevenB => &[&[], JUMBO],
        _ => &[&[]],
    };
    let mut scenarios = Vec::new();
    for &file in part.experiment().files {
        for changes in sizes {
            scenarios.extend(points(part, file, changes, rate, quick)?);
        }
    }
    Ok(scenarios)
}

/// The points of one file at one rate.
fn points(part: Part, file: File, changes: Changes, rate: &str, quick: bool) -> Result<Vec<Scenario>, Error> {
    let mut document = document(file, changes.iter().copied())?;
    document.set("link.rate", rate).map_err(Error::input)?;
    let is_steered = document.has_table("policy");
    for (key, value) in part.quick_changes(is_steered).iter().filter(|_| quick) {
        document.set(key, value).map_err(Error::input)?;
    }
    let mut scenario = document.scenario().map_err(Error::input)?;
    if part == Part::Six {
        // A transfer stays about one bandwidth-delay product and the same share of the load.
        let full = scenario.flows[1].transfer.map_or(0.0, |size| size.get() as f64);
        let size = full * scenario.rate().as_bps_f64() / FULL_RATE_BPS;
        document.set("flows.1.transfer", &format!("{size:.0}B")).map_err(Error::input)?;
        scenario = document.scenario().map_err(Error::input)?;
    }
    let wanted = |s: &Scenario| !quick || part.experiment().quick_flows.contains(&s.flows[0].count);
    Ok(scenario.expand().into_iter().map(|point| point.scenario).filter(wanted).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::tests::{Folder, Quiet};
    use crate::steering::tests::arguments;

    #[test]
    fn the_full_plan_has_every_point_of_the_paper() {
        let plan = plan(&arguments("all", false)).unwrap();
        let count = |part| plan.iter().filter(|p| p.case.figure == part).count();
        let (rates, seeds) = (2, 3);
        assert_eq!(count(Part::Five), 5 * 8 * rates * seeds);
        assert_eq!(count(Part::Six), 5 * 3 * rates * seeds);
        assert_eq!(count(Part::EightA), 8 * rates * seeds);
        assert_eq!(count(Part::EightB), rates * seeds);
        for part in [Part::SevenA, Part::SevenB] {
            assert_eq!(count(part), 2 * rates * seeds, "{}: two sizes of packets", part.name());
        }
        assert_eq!(count(Part::Text), 0, "its plan is one of its own");
    }

    #[test]
    fn short_transfers_follow_the_rate() {
        let mut arguments = arguments("6", true);
        let size = |plan: Vec<Planned<Case>>| plan[0].scenario.flows[1].transfer.unwrap().get();
        assert_eq!(size(plan(&arguments).unwrap()), 6_400_000);
        arguments.rate = Some("10Gbit/s".into());
        assert_eq!(size(plan(&arguments).unwrap()), 64_000_000);
    }

    #[test]
    fn one_series_is_run_more_often_than_the_others() {
        let folder = Folder::new("series");
        let mut arguments = arguments("5", true);
        arguments.seeds = Some(3);
        let whole = plan(&arguments).unwrap().len();
        let mut begun = |series: Option<&str>| {
            let mut plan = plan(&arguments).unwrap();
            arguments.series = series.map(String::from);
            begin(&mut plan, &arguments, &folder.0, &Quiet::default()).unwrap();
            plan
        };
        let (all, plan) = (begun(None), begun(Some("GSP-AS")));
        assert_eq!(all.len(), whole);
        let points = whole / 3;
        let steered = |p: &&Planned<Case>| p.case.series == "GSP-AS";
        assert_eq!(plan.iter().filter(steered).count(), 3 * points / 5);
        assert_eq!(plan.iter().filter(|p| !steered(p)).count(), 4 * points / 5, "the first of each");
    }

    #[test]
    fn a_series_that_is_none_is_refused() {
        let told = |series| match check_series(&plan(&arguments("5", true)).unwrap(), series) {
            Err(Error::Input(text)) => text,
            other => panic!("{other:?}"),
        };
        let text = told("GSP-As");
        assert!(
            text.starts_with("--series: `GSP-As` is none of this figure: did you mean `GSP-AS`?"),
            "{text}"
        );
        assert!(text.ends_with("name one of CODEL 2.5ms, GSP 2.5ms, GSP-AS, TD 2.5ms, TD 30ms"), "{text}");
    }

    #[test]
    fn a_rate_that_is_none_is_refused() {
        let mut arguments = arguments("5", true);
        arguments.rate = Some("fast".into());
        assert!(matches!(plan(&arguments), Err(Error::Input(_))));
    }
}
