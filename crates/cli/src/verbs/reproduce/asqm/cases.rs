//! What is run: the testbed of the paper with one of three algorithms, at some rate and round-trip time.

use super::{Arguments, FigureName};
use crate::output::Failure;
use serde::Serialize;
use weir_aqm::Value;
use weir_scenario::{AqmConfig, Document, Rtt, Scenario};
use weir_units::{Duration, Rate};

/// An algorithm of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Managed {
    /// RFC 8289, its defaults.
    CoDel,
    /// RFC 8033, its defaults.
    Pie,
    /// The paper's own.
    Asqm,
}

/// All of them, in the order of the paper.
pub const MANAGED: [Managed; 3] = [Managed::CoDel, Managed::Pie, Managed::Asqm];

impl Managed {
    /// As the paper writes it.
    pub fn name(self) -> &'static str {
        match self {
            Managed::CoDel => "CoDel",
            Managed::Pie => "PIE",
            Managed::Asqm => "ASQM",
        }
    }

    fn key(self) -> &'static str {
        match self {
            Managed::CoDel => "codel",
            Managed::Pie => "pie",
            Managed::Asqm => "asqm",
        }
    }
}

/// Which way the data goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// From the homes; the algorithm is in the modems.
    Upload,
    /// To the homes; the algorithm is at the provider's side.
    Download,
}

impl Way {
    /// A word for it.
    pub fn name(self) -> &'static str {
        match self {
            Way::Upload => "upload",
            Way::Download => "download",
        }
    }
}

/// What a run belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Study {
    /// Figures 4 to 9.
    OffPeak,
    /// Figures 10 to 15.
    Peak,
    /// A link that delivers a little less than the limiters let through.
    Shortfall,
    /// Long round trips, off-peak.
    LongRtt,
    /// ASQM at peak hours with other targets.
    Targets,
    /// ASQM at peak hours of faster and slower links.
    Rates,
}

/// One case: all its runs differ in nothing but their random numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Case {
    /// What it belongs to.
    pub study: Study,
    /// Which way the data goes.
    pub way: Way,
    /// The algorithm.
    pub managed: Managed,
    /// Round-trip time of the flows, without queues.
    pub rtt_ms: u64,
    /// Rate of each limiter.
    pub limit_kbps: u64,
    /// Rate of the access link that the three modems share.
    pub access_kbps: u64,
    /// ASQM's target.
    pub target_ms: u64,
}

/// Rates of the paper, in kbit/s.
const LIMIT: u64 = 16_000;
const OFF_PEAK: u64 = 48_000;
const PEAK: u64 = 21_000;
const COMMITTED: u64 = 8_000;
/// ASQM's usual target.
pub const TARGET_MS: u64 = 100;

/// Round-trip times of the figures.
pub const RTTS: [u64; 3] = [50, 100, 200];
const QUICK_RTTS: [u64; 1] = [100];
/// The round-trip time of everything else.
pub const USUAL_RTT: u64 = 100;

const SHORTFALLS: [u64; 6] = [24_000, 23_900, 23_800, 23_700, 23_600, 23_500];
const LONG_RTTS: [u64; 9] = [10, 50, 100, 200, 250, 300, 500, 700, 1_000];
const TARGETS: [u64; 6] = [10, 20, 50, 100, 200, 500];
/// Committed rates; peak rate and access link keep their proportion to it.
const RATES: [u64; 5] = [1_000, 2_000, 8_000, 25_000, 50_000];

impl Case {
    fn of(study: Study, way: Way, managed: Managed) -> Case {
        let access_kbps = if study == Study::Peak { PEAK } else { OFF_PEAK };
        Case { study, way, managed, rtt_ms: USUAL_RTT, limit_kbps: LIMIT, access_kbps, target_ms: TARGET_MS }
    }

    /// The testbed as it is run, or a short form of it.
    pub fn scenario(&self, quick: bool) -> Result<Scenario, Failure> {
        let (name, text) = match self.way {
            Way::Upload => {
                ("asqm_upload.toml", include_str!("../../../../../../data/scenarios/asqm_upload.toml"))
            }
            Way::Download => {
                ("asqm_download.toml", include_str!("../../../../../../data/scenarios/asqm_download.toml"))
            }
        };
        let mut scenario =
            Document::parse(name, text).and_then(|file| file.scenario()).map_err(Failure::input)?;
        scenario.run.seeds = 1;
        if quick {
            scenario.run.duration = Duration::from_secs(20);
            scenario.run.warmup = Duration::from_secs(5);
        }
        for flows in &mut scenario.flows {
            flows.rtt = Some(Rtt::Constant(Duration::from_millis(self.rtt_ms)));
        }
        self.set_links(&mut scenario);
        Ok(scenario)
    }

    fn set_links(&self, scenario: &mut Scenario) {
        let kbps = |rate: u64| Some(Rate::from_bps(rate * 1_000));
        for link in &mut scenario.links {
            if link.medium.is_some() {
                link.shape.rate = kbps(self.access_kbps);
            } else if link.expedite {
                link.shape.rate = kbps(self.limit_kbps);
            }
            if link.sense.is_some() {
                link.aqm = Some(self.algorithm());
                link.sense = link.sense.take().filter(|_| self.managed == Managed::Asqm);
            }
        }
    }

    fn algorithm(&self) -> AqmConfig {
        let mut aqm = AqmConfig::new(self.managed.key()).expect("the list has the algorithms of the paper");
        if self.managed == Managed::Asqm {
            let target = Value::Duration(Duration::from_millis(self.target_ms));
            aqm.set("target", target).expect("the targets of the paper are allowed");
        }
        aqm
    }
}

/// One run.
#[derive(Clone, Debug)]
pub struct Planned {
    /// What of.
    pub case: Case,
    /// The random numbers.
    pub seed: u64,
    /// What is run.
    pub scenario: Scenario,
}

/// Every run that the arguments ask for, checked before the first one starts.
pub fn plan(arguments: &Arguments) -> Result<Vec<Planned>, Failure> {
    let mut plan = Vec::new();
    for case in cases(arguments) {
        let is_figure = matches!(case.study, Study::OffPeak | Study::Peak);
        let usual = if is_figure && !arguments.quick { 5 } else { 1 };
        let seeds = u64::from(arguments.seeds.unwrap_or(usual));
        let scenario = case.scenario(arguments.quick)?;
        plan.extend((0..seeds).map(|seed| Planned { case, seed, scenario: scenario.clone() }));
    }
    Ok(plan)
}

fn cases(arguments: &Arguments) -> Vec<Case> {
    let ways: &[Way] = if arguments.quick { &[Way::Upload] } else { &[Way::Upload, Way::Download] };
    let mut cases = Vec::new();
    for &way in ways {
        for (study, managed) in of_figure(arguments.figure) {
            let rtts = if arguments.quick { &QUICK_RTTS[..] } else { &RTTS };
            cases.extend(rtts.iter().map(|&rtt_ms| Case { rtt_ms, ..Case::of(study, way, managed) }));
        }
    }
    if matches!(arguments.figure, FigureName::Sweep | FigureName::All) {
        cases.extend(sweeps(arguments.quick));
    }
    cases
}

/// Load and algorithm of a figure. Claims compare figures, but only those that were asked for.
pub fn of_figure(figure: FigureName) -> Vec<(Study, Managed)> {
    let all = |study| MANAGED.map(|managed| (study, managed));
    match figure {
        FigureName::Four | FigureName::Five => vec![(Study::OffPeak, Managed::CoDel)],
        FigureName::Six | FigureName::Seven => vec![(Study::OffPeak, Managed::Pie)],
        FigureName::Eight | FigureName::Nine => vec![(Study::OffPeak, Managed::Asqm)],
        FigureName::Ten | FigureName::Eleven => vec![(Study::Peak, Managed::CoDel)],
        FigureName::Twelve | FigureName::Thirteen => vec![(Study::Peak, Managed::Pie)],
        FigureName::Fourteen | FigureName::Fifteen => vec![(Study::Peak, Managed::Asqm)],
        FigureName::All => [all(Study::OffPeak), all(Study::Peak)].concat(),
        FigureName::Sweep => Vec::new(),
    }
}

/// What the paper tells without a figure, for upload. The short form has the ends of each.
fn sweeps(quick: bool) -> Vec<Case> {
    fn ends<const N: usize>(values: [u64; N], quick: bool) -> Vec<u64> {
        if quick { vec![values[0], values[N - 1]] } else { values.to_vec() }
    }
    let mut cases = Vec::new();
    for managed in MANAGED {
        let of = |study| Case::of(study, Way::Upload, managed);
        // At the committed rate nobody borrows, or a shortfall would begin at twice of it.
        cases.extend(ends(SHORTFALLS, quick).into_iter().map(|access_kbps| Case {
            access_kbps,
            limit_kbps: COMMITTED,
            ..of(Study::Shortfall)
        }));
        let rtts = if quick { vec![USUAL_RTT, 500] } else { LONG_RTTS.to_vec() };
        cases.extend(rtts.into_iter().map(|rtt_ms| Case { rtt_ms, ..of(Study::LongRtt) }));
    }
    let of = |study| Case { access_kbps: PEAK, ..Case::of(study, Way::Upload, Managed::Asqm) };
    cases.extend(ends(TARGETS, quick).into_iter().map(|target_ms| Case { target_ms, ..of(Study::Targets) }));
    cases.extend(ends(RATES, quick).into_iter().map(|rate| Case {
        limit_kbps: rate * LIMIT / COMMITTED,
        access_kbps: rate * PEAK / COMMITTED,
        ..of(Study::Rates)
    }));
    cases
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use std::path::PathBuf;

    /// Arguments for a figure.
    pub fn arguments(figure: FigureName, quick: bool) -> Arguments {
        Arguments { figure, arm: super::super::Arm::Sim, quick, seeds: None, out: PathBuf::from("out") }
    }

    #[test]
    fn all_figures_are_two_loads_three_algorithms_three_round_trips_and_both_ways() {
        let plan = plan(&arguments(FigureName::All, false)).unwrap();
        let figures = plan.iter().filter(|p| matches!(p.case.study, Study::OffPeak | Study::Peak));
        assert_eq!(figures.count(), 2 * 3 * 3 * 2 * 5);
        assert!(plan.iter().all(|p| p.scenario.run.duration == Duration::from_secs(120)));
    }

    #[test]
    fn a_case_reaches_its_links() {
        let case = Case { rtt_ms: 200, ..Case::of(Study::Peak, Way::Download, Managed::Pie) };
        let scenario = case.scenario(false).unwrap();
        let named = |name: &str| scenario.links.iter().find(|l| l.name == name).unwrap();
        let limit = named("limit_down2");
        assert_eq!((limit.rate(), limit.sense.is_some()), (Rate::from_mbps(16), false));
        assert_eq!(limit.aqm.as_ref().map(|a| a.name.as_str()), Some("pie"));
        assert_eq!(named("mac_down3").rate(), Rate::from_mbps(21));
        assert_eq!(scenario.flows[0].rtt, Some(Rtt::Constant(Duration::from_millis(200))));
        let asqm = Case { target_ms: 50, managed: Managed::Asqm, ..case }.scenario(true).unwrap();
        let limit = asqm.links.iter().find(|l| l.name == "limit_down1").unwrap();
        assert_eq!(limit.aqm.as_ref().and_then(|a| a.setpoint()), Some(Duration::from_millis(50)));
        assert!(limit.sense.is_some());
    }
}
