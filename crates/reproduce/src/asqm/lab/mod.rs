//! The access network in namespaces, with real TCP and an unmodified gateway.

mod draw;

use super::cases::{Algorithm, Case, Direction, RTTS, Selection, Study, cases as simulated};
use super::measured::{self, Measured, Run, Values};
use super::observer::Delays;
use super::{Arguments, claims, draw as paper, said, tables};
use crate::host::{Error, Host, Report, at_a_time, waits};
use crate::journal::{Attempt, Done, Journal, Measurement, STALLED_MAX};
use crate::publish::Outcome;
use crate::runs::{self, NestedCase, Planned, lasting};
use crate::said::{Experiments, tell};
use crate::statistics::{self, deviation, mean, quantile};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::ops::ControlFlow;
use std::time::Duration;
use weir_lab::access::{self, Access, AccessConfig, ModemResult};
use weir_lab::{Looking, SideBySide};
use weir_report::html::Rows;
use weir_report::table;
use weir_units::Rate;

/// Users of a home come behind its transfers and the connection without end.
const PAGES_FROM: usize = 6;

/// What the lab changes in the scenarios, which are those of the simulator.
struct Overrides {
    /// Length of a run, in seconds.
    length_s: u64,
    /// Its beginning, which is not measured.
    warmup_s: u64,
    /// Homes that take part; the shared link keeps its rate for each of them.
    homes: usize,
}

const FULL: Overrides = Overrides { length_s: 120, warmup_s: 10, homes: 3 };
const QUICK: Overrides = Overrides { length_s: 24, warmup_s: 10, homes: 1 };

impl Overrides {
    fn of(quick: bool) -> &'static Overrides {
        if quick { &QUICK } else { &FULL }
    }

    /// A case as the lab runs it.
    fn config(&self, case: &Case) -> Result<AccessConfig, Error> {
        let mut config = Access::of(&case.scenario(false)?)?.config;
        let all = config.homes.len() as u64;
        config.homes.truncate(self.homes);
        for rate in [&mut config.shared, &mut config.lent] {
            *rate = Rate::from_bps(rate.as_bps() * config.homes.len() as u64 / all);
        }
        config.duration = Duration::from_secs(self.length_s);
        config.warmup = Duration::from_secs(self.warmup_s);
        Ok(config)
    }
}

fn title(case: &Case) -> String {
    let way = if case.way == Direction::Download { ", download" } else { "" };
    let mbps = |kbps: u64| kbps as f64 / 1e3;
    let varied = match case.study {
        Study::Shortfall => format!(", access link {} Mbit/s", mbps(case.access_kbps)),
        Study::Targets | Study::HalfTarget => format!(", target {} ms", case.target_ms),
        Study::Rates => format!(", limit {} Mbit/s", mbps(case.limit_kbps)),
        Study::Probing => format!(", {}", case.probing.name()),
        Study::Kernel => ", constants of Linux 3.15".into(),
        Study::LongRtt => ", among long round trips".into(),
        Study::OffPeak | Study::Peak | Study::Voice => String::new(),
    };
    format!("{}, {}, RTT {} ms{way}{varied}", case.managed.name(), load_name(case.study), case.rtt_ms)
}

fn load_name(study: Study) -> &'static str {
    match study {
        Study::Peak | Study::Targets | Study::Rates | Study::Probing => "peak",
        Study::Voice => "peak with calls",
        Study::OffPeak | Study::Shortfall | Study::LongRtt | Study::HalfTarget | Study::Kernel => "off-peak",
    }
}

/// What the arguments ask for, as in the simulator; the short form has two runs, and two with calls where
/// what is told without a figure is asked for.
fn cases(arguments: &Arguments) -> Vec<Case> {
    if !arguments.quick {
        return simulated(arguments);
    }
    let Selection { figures, sweeps } = arguments.figure.value;
    let studies = [(Study::Peak, !figures.is_empty()), (Study::Voice, sweeps)];
    let asked = studies.into_iter().filter(|(_, asked)| *asked);
    let of = |study, managed| Case {
        rtt_ms: RTTS[0],
        borrows: arguments.borrow,
        machines: arguments.machines,
        ..Case::of(study, Direction::Upload, managed)
    };
    asked
        .flat_map(|(study, _)| [Algorithm::CoDel, Algorithm::Asqm].map(|managed| of(study, managed)))
        .collect()
}

/// What was measured of a run, over all its modems.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Point {
    title: String,
    is_download: bool,
    aqm: String,
    load: String,
    rtt_ms: u64,
    /// Mean throughput of a modem in Mbit/s, and the standard deviation of its seconds.
    mbps: f64,
    deviation_mbps: f64,
    /// Round trips of pings, in milliseconds.
    ping_p50_ms: f64,
    ping_p95_ms: f64,
    /// The same of the calls of class EF, where there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    call_p95_ms: Option<f64>,
    pages: u64,
    /// Probes: bytes for each byte of data, and how many of them came back.
    overhead: Option<f64>,
    returned: Option<f64>,
    state: Option<String>,
    /// Share of the time that the machine took away from the packet loops.
    stalled_share: f64,
    modems: Vec<weir_measure::result::LinkSummary>,
    #[serde(skip)]
    seen: Seen,
}

/// What claims and charts ask for besides.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Seen {
    /// In order of size.
    pings_ms: Vec<f64>,
    /// Throughput of modems in seconds, in order of size.
    bins_mbps: Vec<f64>,
    /// Of each modem: the mean of its seconds, and their standard deviation.
    bandwidths: Vec<f64>,
    deviations: Vec<f64>,
}

impl Measurement for Point {
    type Detail = Seen;
    fn detail(&mut self) -> &mut Seen {
        &mut self.seen
    }
    fn stalled_share(&self) -> Option<f64> {
        Some(self.stalled_share)
    }
}

type LabRun = runs::Run<NestedCase<Case>, Point>;

impl Point {
    fn of(case: &Case, modems: Vec<ModemResult>) -> Point {
        let sorted = |of: fn(&ModemResult) -> &Vec<f64>, unit: f64| {
            statistics::sorted(modems.iter().flat_map(|m| of(m).iter().map(move |v| v / unit)))
        };
        let (pings_ms, bins_mbps) = (sorted(|m| &m.pings_ms, 1.0), sorted(|m| &m.bins_bps, 1e6));
        let bandwidths = modems.iter().map(|m| mean(m.bins_bps.iter().copied()) / 1e6).collect();
        let deviations: Vec<f64> =
            modems.iter().map(|m| deviation(m.bins_bps.iter().copied()) / 1e6).collect();
        let sensing = || modems.iter().filter_map(|m| m.link.sensing.as_ref());
        let wires = || sensing().filter_map(|s| s.wire.as_ref());
        let sent: u64 = sensing().map(|s| s.sent).sum();
        let is_sensed = sent > 0;
        let calls_ms = statistics::sorted(modems.iter().flat_map(|m| m.calls_ms.concat()));
        let ratio = |a: u64, b: u64| a as f64 / b.max(1) as f64;
        Point {
            title: title(case),
            is_download: case.way == Direction::Download,
            aqm: case.managed.key().into(),
            load: load_name(case.study).replace('-', ""),
            rtt_ms: case.rtt_ms,
            mbps: mean(bins_mbps.iter().copied()),
            deviation_mbps: mean(deviations.iter().copied()),
            ping_p50_ms: quantile(&pings_ms, 0.5),
            ping_p95_ms: quantile(&pings_ms, 0.95),
            call_p95_ms: (!calls_ms.is_empty()).then(|| quantile(&calls_ms, 0.95)),
            pages: modems
                .iter()
                .flat_map(|m| m.connections.iter().skip(PAGES_FROM))
                .map(|c| c.completed)
                .sum(),
            overhead: is_sensed
                .then(|| ratio(wires().map(|w| w.sent_bytes).sum(), wires().map(|w| w.data_bytes).sum())),
            returned: is_sensed.then(|| ratio(sensing().map(|s| s.returned).sum(), sent)),
            state: sensing().next().map(|s| s.state.clone()),
            stalled_share: statistics::most(modems.iter().map(|m| m.stalled_share)),
            modems: modems.into_iter().map(|m| m.link).collect(),
            seen: Seen { pings_ms, bins_mbps, bandwidths, deviations },
        }
    }

    fn row(&self) -> Vec<String> {
        let share =
            |v: Option<f64>, digits: usize| v.map_or("–".into(), |v| format!("{:.digits$}", v * 100.0));
        vec![
            self.title.clone(),
            format!("{:.2}", self.mbps),
            format!("{:.2}", self.deviation_mbps),
            format!("{:.0}", self.ping_p50_ms),
            format!("{:.0}", self.ping_p95_ms),
            self.call_p95_ms.map_or("–".into(), |ms| format!("{ms:.0}")),
            self.pages.to_string(),
            share(self.overhead, 3),
            share(self.returned, 1),
        ]
    }
}

/// A run as the simulator has them, which claims, charts and tables ask for. Round trips are those of
/// pings.
fn simulated_run(LabRun { case, seed, values: point, .. }: &LabRun) -> Run {
    let Seen { pings_ms, bins_mbps, bandwidths, deviations } = &point.seen;
    let mut delays = Delays::default();
    pings_ms.iter().for_each(|ms| delays.note(*ms));
    Run {
        case: *case,
        seed: *seed,
        values: Values {
            bandwidth_mbps: bandwidths.clone(),
            deviation_mbps: deviations.clone(),
            overhead: point.overhead,
            error_p95_ms: None,
            voice_p95_ms: point.call_p95_ms,
            seen: measured::Seen { delays, seconds: bins_mbps.clone() },
        },
        trace_hash: None,
        warnings: None,
    }
}

const HEADER: [&str; 9] =
    ["run", "Mbit/s", "± in 1 s", "ping p50 ms", "p95 ms", "EF p95 ms", "pages", "probes %", "returned %"];

/// Runs the experiment and judges its claims.
pub fn main(arguments: &Arguments, host: &dyn Host) -> Result<Report, Error> {
    let quick = arguments.quick;
    let which = match (quick, arguments.figure.name) {
        (true, _) => "-quick".to_string(),
        (false, "all") => String::new(),
        (false, figure) => format!("-figure{figure}"),
    };
    let (named, how) = arguments.testbed();
    let folder = arguments.out.join(format!("asqm-lab{named}{which}"));
    host.prepare(&folder)?;
    let plan = plan(arguments)?;
    let overrides = Overrides::of(quick);
    plan.iter().try_for_each(|planned| overrides.config(&planned.case).map(drop))?;
    let journal = Journal::begin(&folder, arguments.resume, host)?;
    let title = |planned: &Planned<NestedCase<Case>>| title(&planned.case);
    let most = |_: &Planned<NestedCase<Case>>| STALLED_MAX;
    let Done { runs: points, origins } =
        journal.live(&plan, arguments.jobs, host, title, most, |planned, turns| {
            let config = overrides.config(&planned.case)?;
            let modems = run(&config, host, turns)?;
            let warnings = modems.iter().flat_map(|modem| modem.warnings.clone()).collect();
            let values = Point::of(&planned.case, modems);
            let told = values.row()[1..].join("  ");
            Ok(Attempt::new(LabRun { warnings: Some(warnings), ..LabRun::of(planned, values) }, told))
        })?;
    let rows: Vec<Vec<String>> = points.iter().map(|run| run.values.row()).collect();
    let runs: Vec<Run> = points.iter().map(simulated_run).collect();
    let measured = Measured::new(&runs);
    let mut claims = claims::all(&measured);
    if quick {
        // One modem for some seconds decides what is far apart.
        claims.iter_mut().filter(|c| !["B2", "B3", "B10", "B11"].contains(&c.id.as_str())).for_each(|c| {
            c.undecided = !c.held;
        });
    }
    tell(&mut claims, said::TABLE, &Experiments::new(host, quick))?;
    let mut figures = draw::figures(&points);
    figures.extend(paper::figures(arguments.figure.value.figures, &measured));
    let mut shown =
        vec![Rows { title: "Runs".into(), header: HEADER.map(str::to_string).to_vec(), rows: rows.clone() }];
    shown.extend(tables::all(&measured));
    let outcome = Outcome {
        title: format!("ASQM, real TCP{how}{}", if quick { " (short form)" } else { "" }),
        notes: notes(arguments),
        about: json!({ "paper": "asqm", "figure": arguments.figure.name, "arm": "lab", "quick": quick,
            "borrow": arguments.borrow, "machines": arguments.machines, "jobs": arguments.jobs,
        }),
        runs: json!(points),
        origins,
        claims: Some(claims),
        unjudged: said::UNJUDGED,
        figures,
        text: format!("{}\n", table::aligned(&HEADER, &rows)),
        tables: shown,
        last: Some(format!("Results: {}", folder.display())),
        ..Outcome::default()
    };
    outcome.deliver(&folder, host.files(&folder)?, host)
}

/// Every run, one after the other of each repetition, with the length that it has here.
fn plan(arguments: &Arguments) -> Result<Vec<Planned<NestedCase<Case>>>, Error> {
    let (cases, overrides) = (cases(arguments), Overrides::of(arguments.quick));
    let times = |case: &Case| u64::from(case.times(arguments));
    let mut plan = Vec::new();
    for seed in 0..cases.iter().map(times).max().unwrap_or(0) {
        for case in cases.iter().filter(|case| seed < times(case)) {
            let scenario = lasting(case.scenario(false)?, (overrides.length_s, overrides.warmup_s));
            plan.push(Planned { case: NestedCase { case: *case }, seed, scenario });
        }
    }
    Ok(plan)
}

/// What a reader should know.
fn notes(arguments: &Arguments) -> Vec<String> {
    let calls = arguments.figure.value.sweeps.then(|| CALLS.to_string());
    NOTES.map(str::to_string).into_iter().chain(calls).chain(at_a_time(arguments.jobs)).collect()
}

const NOTES: [&str; 2] = [
    "Each home has five transfers of 5 MB that repeat, one without end and pages of 700 kB of four users; the \
     limiter lets 16 Mbit/s through, and the modem's FIFO holds 1000 packets.",
    "What probes turn around at, the gateway for uploads and the home for downloads, is a Linux namespace with \
     ip_forward and a strict rp_filter.",
];
/// Only what is beside the figures has calls.
const CALLS: &str = "A call of class EF is 172 bytes each 17.2 ms, which the server sends back; beside what both ways take without \
    queues its round trip is what it waits below the limiter, whose lane for EF it passes first.";

fn run(config: &AccessConfig, host: &dyn Host, turns: &SideBySide) -> Result<Vec<ModemResult>, Error> {
    let mut looking =
        Looking(|_| if host.is_interrupted() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) });
    Ok(access::run(config, || turns.exclusive(waits(host)), &mut looking)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::asqm::cases::tests::arguments;
    use crate::choice::Arm;
    use weir_lab::access::Home;

    #[test]
    fn figures_are_run_five_times_and_what_is_beside_them_once() {
        let lab = |quick| Arguments { arm: Arm::Lab, ..arguments("all", quick) };
        let all = plan(&lab(false)).unwrap();
        let is_shown =
            |planned: &&Planned<NestedCase<Case>>| matches!(planned.case.study, Study::OffPeak | Study::Peak);
        let shown = all.iter().filter(is_shown).count();
        assert_eq!((shown, all.len() - shown), (36 * 5, 77));
        assert!(plan(&lab(true)).unwrap().iter().all(|planned| planned.seed == 0));
        assert_eq!(plan(&Arguments { seeds: Some(2), ..lab(false) }).unwrap().len(), 2 * (36 + 77));
    }

    #[test]
    fn the_words_of_a_case_tell_its_load_and_what_its_study_changes() {
        let all = cases(&arguments("all", false));
        let titles: std::collections::BTreeSet<String> = all.iter().map(title).collect();
        assert_eq!(titles.len(), all.len());
        for (study, load, varied) in [
            (Study::Targets, "peak", "target 500 ms"),
            (Study::Rates, "peak", "limit 100 Mbit/s"),
            (Study::Probing, "peak", "10 a second"),
            (Study::Shortfall, "off-peak", "access link 23.5 Mbit/s"),
        ] {
            let mut told = all.iter().filter(|case| case.study == study).map(title);
            assert!(
                told.any(|told| told.starts_with("ASQM, ")
                    && told.contains(&format!(", {load}, "))
                    && told.ends_with(varied)),
                "{study:?}"
            );
        }
    }

    #[test]
    fn the_lab_runs_the_scenarios_of_the_paper() {
        for (quick, modems, shared) in [(true, 1, [16, 7]), (false, 3, [48, 21])] {
            let wanted: Vec<Case> = cases(&arguments("all", quick));
            assert!(quick || wanted.iter().any(|case| case.study == Study::Shortfall));
            let of_figures = |case: &Case| matches!(case.study, Study::OffPeak | Study::Peak);
            for case in wanted.into_iter().filter(of_figures) {
                let config = Overrides::of(quick).config(&case).unwrap_or_else(|e| panic!("{e:?}"));
                let is_peak = usize::from(case.study == Study::Peak);
                assert_eq!((config.homes.len(), config.fifo), (modems, 1000));
                assert_eq!(config.shared, Rate::from_mbps(shared[is_peak]));
                assert_eq!(config.rtt, Duration::from_millis(case.rtt_ms));
                let Home { limiter, connections, expedites, .. } = &config.homes[0];
                assert!(expedites);
                assert_eq!((limiter.warnings(), connections.len()), (Vec::<String>::new(), 10));
                assert_eq!(!limiter.sense.is_empty(), case.managed == Algorithm::Asqm);
                let pages = connections.iter().skip(PAGES_FROM).map(|c| c.size);
                assert_eq!(pages.collect::<Vec<_>>(), [Some(700_000); 4]);
            }
        }
    }

    #[test]
    fn limiters_that_borrow_keep_their_part_of_the_rate_they_share() {
        for (quick, lent) in [(true, 16), (false, 48)] {
            let asked = Arguments { borrow: true, ..arguments("4-15", quick) };
            for case in cases(&asked) {
                let config = Overrides::of(quick).config(&case).unwrap_or_else(|e| panic!("{e:?}"));
                assert_eq!(config.lent, Rate::from_mbps(lent));
                let rates = |home: &Home| (home.committed, home.limiter.a_to_b.link.rate);
                let wanted = (Some(Rate::from_mbps(8)), Some(Rate::from_mbps(16)));
                assert!(config.homes.iter().all(|home| rates(home) == wanted));
            }
        }
    }

    fn of_case(case: &Case, modems: Vec<ModemResult>) -> LabRun {
        let (case, values) = (NestedCase { case: *case }, Point::of(case, modems));
        LabRun { case, seed: 0, values, trace_hash: None, warnings: None }
    }

    #[test]
    fn a_call_of_each_home_is_judged_beside_what_does_not_sense() {
        for (quick, homes) in [(true, 1), (false, 3)] {
            let cases = cases(&arguments("sweep", quick));
            let voice = cases.iter().filter(|case| case.study == Study::Voice);
            let config = |case: &Case| Overrides::of(quick).config(case).unwrap_or_else(|e| panic!("{e:?}"));
            for config in voice.clone().map(config) {
                assert!(
                    config.homes.iter().all(|home| home.calls.len() == 1 && home.connections.len() == 10)
                );
                assert_eq!(config.homes.len(), homes);
            }
            let judged = |asqm_ms: f64| {
                let of = |case: &Case| {
                    let ms = if case.managed == Algorithm::Asqm { asqm_ms } else { 1300.0 };
                    let of_call = ModemResult { calls_ms: vec![vec![ms; 9]], ..ModemResult::default() };
                    simulated_run(&of_case(case, vec![of_call]))
                };
                let runs: Vec<Run> = voice.clone().map(of).collect();
                claims::all(&Measured::new(&runs)).iter().map(|c| (c.id.clone(), c.held)).collect::<Vec<_>>()
            };
            let all = |held| vec![("B11".to_string(), held); voice.clone().count() - 1];
            assert_eq!((judged(200.0), judged(900.0)), (all(true), all(false)));
        }
    }

    #[test]
    fn claims_are_judged_on_what_was_measured() {
        let modem =
            |pings_ms: Vec<f64>| ModemResult { pings_ms, bins_bps: vec![6e6, 7e6], ..ModemResult::default() };
        let points = |asqm_ms: f64| {
            let [codel, asqm] = <[Case; 2]>::try_from(cases(&arguments("4-15", true))).expect("two");
            let of = |case, ms| of_case(case, vec![modem(vec![ms; 9])]);
            [of(&codel, 1400.0), of(&asqm, asqm_ms)]
        };
        let judged = |asqm_ms: f64, id: &str| -> Vec<bool> {
            let runs = points(asqm_ms).each_ref().map(simulated_run);
            let claims = claims::all(&Measured::new(&runs));
            claims.iter().filter(|c| c.id == id).map(|c| c.held).collect()
        };
        assert_eq!(judged(200.0, "B10"), [false], "they do not vary");
        assert_eq!(judged(200.0, "B11"), [true]);
        assert_eq!(judged(800.0, "B11"), [false]);
        let point = &points(200.0)[0].values;
        assert_eq!((point.mbps, point.deviation_mbps, point.ping_p95_ms), (6.5, 0.5, 1400.0));
    }
}
