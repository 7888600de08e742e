//! What the paper leaves open of the virtual queue: every combination of its set point, of how its rate
//! steps and of the memory of the rate, judged by A14, A15 and A16 at once, and by a second, lower target of
//! utilization.

use super::cases::{Case, File, Part, Run, Values, about, document};
use super::over_time::{VirtualQueue, virtual_queue};
use super::{Arguments, claims, folder};
use crate::choice::Arm;
use crate::claim::{percent, within};
use crate::host::{Error, Host, Report};
use crate::journal::{Done, Journal};
use crate::publish::Outcome;
use crate::runs::{self, Planned, simulate};
use serde::Serialize;
use serde_json::json;
use std::ops::RangeInclusive;
use weir_measure::result::Claim;
use weir_report::html::Rows;
use weir_sim::batch::Progress;

/// Name of the choice.
pub const NAME: &str = "virtual-sweep";

const FILE: File = scenario_file!("virtual_queue.toml");
/// Name of the axis of the policies, and its scheme that is the paper's.
const POLICIES: &str = "policy";
const PAPER: &str = "94 to 95 %";
/// The bounds of the other one.
const LOWER: RangeInclusive<f64> = 0.79..=0.80;
/// Numbers of flows, and the one of them whose virtual queue A16 is about.
const FLOWS: [u32; 4] = [2, 3, 6, MANY];
const MANY: u32 = 36;

const NOTE: &str = "GSP-AS at a round-trip time of 50 ms, 170 s after 130 s, CUBIC. A14: the utilization of 2, 3, 6 and 36 flows within 94 to 95 %; \
    A15: the real queue of 6 and 36 flows empty (mean and 95 %), and longer with 2 and with 3; A16: the virtual queue of 36 flows within the scale \
    of figure 8b in 99 % of the time, almost never empty, and the rate that leaves within 2 % of its own. The bounds are those of figures \
    8a and 8b. The last four: the same flows with a policy of 79 to 80 %. Combinations that hold most stand first.";

/// A point of the sweep.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Point {
    /// The values of the parameters, which the combinations differ in.
    #[serde(rename = "case")]
    values: Vec<String>,
    /// Which policy.
    policy: String,
    #[serde(flatten)]
    case: Case,
}

type Measured<'a> = runs::Measured<'a, Point, Values>;

/// Runs the sweep and puts its combinations into a table.
pub fn main(arguments: &Arguments, host: &dyn Host) -> Result<Report, Error> {
    if arguments.arm != Arm::Sim || arguments.quick {
        return Err(Error::input(format!(
            "figure {NAME} is a sweep of the simulator without a short form: choose --arm sim without --quick; \
             --rate and --seeds make it shorter"
        )));
    }
    let (names, plan) = plan(arguments)?;
    let folder = folder(arguments, &format!("{NAME}-sim"));
    host.prepare(&folder)?;
    let Done { runs, origins } =
        Journal::begin(&folder, arguments.resume, host)?.simulate(&plan, host, measure)?;
    let measured = Measured::new(&runs);
    let mut judged: Vec<Judged> =
        measured.by(|point| &point.values).into_iter().map(|(values, runs)| judge(values, &runs)).collect();
    judged.sort_by_key(|combination| std::cmp::Reverse(combination.held()));
    let header = names.into_iter().chain(HEADER.map(String::from)).collect();
    let outcome = Outcome {
        title: "AQM Steering, open values of the virtual queue, simulated".into(),
        notes: vec![NOTE.into()],
        about: about(arguments),
        tables: vec![Rows {
            title: format!("Means; {}", runs::runs_each(&measured.each())),
            header,
            rows: judged.iter().map(Judged::cells).collect(),
        }],
        runs: json!(runs),
        origins,
        ..Outcome::default()
    };
    outcome.deliver_with_tables(&folder, host)
}

const HEADER: [&str; 14] = [
    "2 flows",
    "3",
    "6",
    "36",
    "6 flows 95 % ms",
    "36",
    "virtual queue 99 % kB",
    "empty",
    "rate, of its own",
    "80 %: 2 flows",
    "3",
    "6",
    "36",
    "held: A14, A15, A16, 80 %",
];

/// Names of the parameters, and all runs.
fn plan(arguments: &Arguments) -> Result<(Vec<String>, Vec<Planned<Point>>), Error> {
    let rate = arguments.rate.as_deref().map(|rate| ("link.rate", rate));
    let mut file = document(FILE, [])?;
    if let Some((key, value)) = rate {
        file.set(key, value).map_err(Error::input)?;
    }
    let scenario = file.scenario().map_err(Error::input)?;
    let seeds = arguments.seeds.unwrap_or(scenario.run.seeds);
    let (mut names, mut plan) = (Vec::new(), Vec::new());
    for point in scenario.expand() {
        let of_policy = |(axis, _): &&(String, String)| axis == POLICIES;
        let policy =
            point.settings.iter().find(of_policy).map(|(_, value)| value.clone()).unwrap_or_default();
        let own = point.settings.iter().filter(|(axis, _)| axis != POLICIES && axis != "flows");
        let values;
        (names, values) = own.cloned().unzip();
        let case = Case::of(Part::EightA, &point.scenario);
        plan.extend(Planned::repeated(&Point { values, policy, case }, &point.scenario, seeds));
    }
    Ok((names, plan))
}

fn measure(
    planned: &Planned<Point>,
    progress: &dyn Progress,
) -> Result<Option<runs::Run<Point, Values>>, Error> {
    let is_shown = planned.case.case.flows == MANY && planned.case.policy == PAPER;
    simulate(planned, (), progress, |mut recording, ()| {
        recording.flow_samples.clear();
        let link = recording.summary.links.first().cloned().unwrap_or_default();
        Values { link, host: None, recording: is_shown.then_some(recording) }
    })
}

/// What became of a combination.
struct Judged {
    values: Vec<String>,
    /// What was measured, as it is shown.
    measured: Vec<String>,
    /// Claims A14, A15, A16, and those of the lower target.
    claims: [Vec<Claim>; 4],
}

impl Judged {
    fn held(&self) -> usize {
        self.claims.iter().flatten().filter(|claim| claim.held).count()
    }

    fn cells(&self) -> Vec<String> {
        let held = |claims: &Vec<Claim>| {
            format!("{} of {}", claims.iter().filter(|claim| claim.held).count(), claims.len())
        };
        let held = self.claims.iter().map(held).collect::<Vec<_>>().join(", ");
        self.values.iter().chain(&self.measured).cloned().chain([held]).collect()
    }
}

/// Judges the runs of a combination, as figures 8a and 8b are.
fn judge(values: &[String], runs: &Measured) -> Judged {
    let of = |is_wanted: &dyn Fn(&Point) -> bool| -> Vec<Run> {
        let wanted = runs.only(is_wanted).runs.into_iter();
        wanted.map(|run| with_case(run, run.case.case.clone())).collect()
    };
    let (usual, lower) = (of(&|p| p.policy == PAPER), of(&|p| p.policy != PAPER));
    let many = of(&|p| p.policy == PAPER && p.case.flows == MANY);
    let [usual, lower, many] = [&usual, &lower, &many].map(|runs| runs::Measured::new(runs));
    let (full, only) = (claims::Margins::FULL, |claims: &[Claim], id: &str| {
        claims.iter().filter(|claim| claim.id == id).cloned().collect::<Vec<_>>()
    });
    let figure = claims::of(Part::EightA, &usual, full);
    let detail = claims::of(Part::EightB, &many, full);
    let bounded = |n: &u32| {
        let text = format!("with {n} flows the utilization stays within its bounds");
        within("A14", text, LOWER, lower.utilization(claims::STEERED, *n), percent)
    };
    let used =
        |runs: &runs::Measured<Case, Values>| FLOWS.map(|n| percent(runs.utilization(claims::STEERED, n)));
    let delays = [6, MANY].map(|n| format!("{:.2}", usual.p95(claims::STEERED, n)));
    let queues: Vec<_> = many.recordings().map(virtual_queue).collect();
    let mean = |of: fn(&VirtualQueue) -> f64| crate::statistics::mean(queues.iter().map(of));
    let queue = [
        format!("{:.0}", mean(|q| q.p99_kb)),
        percent(mean(|q| q.empty)),
        percent(mean(|q| q.delivered_bps) / mean(|q| q.virtual_bps)),
    ];
    let measured = used(&usual).into_iter().chain(delays).chain(queue).chain(used(&lower)).collect();
    let claims = [
        only(&figure, "A14"),
        only(&figure, "A15"),
        // Its threshold is what the combinations differ in.
        only(&detail, "A16").into_iter().filter(|claim| claim.text != claims::AROUND).collect(),
        FLOWS.iter().map(bounded).collect(),
    ];
    Judged { values: values.to_vec(), measured, claims }
}

/// The same run of another case.
fn with_case(run: &runs::Run<Point, Values>, case: Case) -> Run {
    let runs::Run { seed, values, trace_hash, warnings, .. } = run.clone();
    Run { case, seed, values, trace_hash, warnings }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steering::over_time::tests::recording;
    use crate::steering::tests::arguments;
    use weir_measure::result::LinkSummary;

    #[test]
    fn every_combination_is_run_with_both_policies_and_all_flows() {
        let (names, plan) = plan(&Arguments { seeds: Some(2), ..arguments(NAME, false) }).expect("a plan");
        let combinations = plan.iter().map(|p| &p.case.values).collect::<std::collections::BTreeSet<_>>();
        assert_eq!(plan.len(), combinations.len() * 2 * FLOWS.len() * 2);
        assert!(
            plan.iter().all(|p| p.case.values.len() == names.len() && FLOWS.contains(&p.case.case.flows))
        );
        assert!(plan.iter().any(|p| p.case.policy == PAPER), "{:?}", plan[0].case);
    }

    #[test]
    fn a_combination_is_judged_by_the_claims_of_both_figures_and_the_lower_target() {
        let run = |flows: u32, policy: &str, utilization: f64| {
            let mut seen = recording(100, |_| 0.2, |_| false);
            for sample in &mut seen.link_samples[0] {
                (sample.virtual_rate_bps, sample.delivered_bps) = (0.97e9, 0.945e9);
                (sample.virtual_backlog_bytes, sample.virtual_empty) = (50_000, 0.01);
            }
            let mut link = LinkSummary { utilization, ..LinkSummary::default() };
            link.delay_ms.p95 = if flows < 6 { 0.5 } else { 0.05 };
            let case = Case { figure: Part::EightA, rate_bps: 1e9, series: claims::STEERED.into(), flows };
            let case = Point { values: vec!["200us".into()], policy: policy.into(), case };
            let values = Values { link, host: None, recording: (flows == MANY).then_some(seen) };
            runs::Run { case, seed: 0, values, trace_hash: None, warnings: None }
        };
        let of = |lower_of_two: f64| {
            let used = |n| if n == 2 { lower_of_two } else { 0.795 };
            let runs: Vec<_> =
                FLOWS.iter().flat_map(|n| [run(*n, PAPER, 0.945), run(*n, "79 to 80 %", used(*n))]).collect();
            judge(&["200us".into()], &Measured::new(&runs))
        };
        let (good, bad) = (of(0.799), of(0.786));
        // The rate that leaves is 97.4 % of the virtual one.
        assert_eq!(good.cells().last().unwrap(), "4 of 4, 4 of 4, 2 of 3, 4 of 4");
        assert_eq!(bad.cells().last().unwrap(), "4 of 4, 4 of 4, 2 of 3, 3 of 4");
        assert_eq!((good.held(), bad.held()), (14, 13));
        assert_eq!(good.cells().len(), 1 + HEADER.len());
        assert_eq!(good.cells()[7..10], ["50", "1.00 %", "97.42 %"]);
    }
}
