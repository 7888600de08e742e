//! What is run: the testbed of the paper with one of three algorithms, at some rate and round-trip time.

use super::{Arguments, Arm};
use crate::host::Error;
use crate::runs::{NestedCase, Planned, times};
use serde::Serialize;
use weir_aqm::{Share, Value};
use weir_config::{AqmConfig, Document, FlowGroup, Rtt, Scenario};
use weir_units::{Bytes, Duration, Rate};

/// An algorithm of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Algorithm {
    /// RFC 8289, its defaults.
    CoDel,
    /// RFC 8033, its defaults.
    Pie,
    /// The paper's own.
    Asqm,
}

/// All of them, in the order of the paper.
pub const ALGORITHMS: [Algorithm; 3] = [Algorithm::CoDel, Algorithm::Pie, Algorithm::Asqm];

impl Algorithm {
    /// As the paper writes it.
    pub fn name(self) -> &'static str {
        ["CoDel", "PIE", "ASQM"][self as usize]
    }

    /// As the list of algorithms has it.
    pub fn key(self) -> &'static str {
        ["codel", "pie", "asqm"][self as usize]
    }
}

/// Which way the data goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// From the homes; the algorithm is in the modems.
    Upload,
    /// To the homes; the algorithm is at the provider's side.
    Download,
}

impl Direction {
    /// A word for it.
    pub fn name(self) -> &'static str {
        ["upload", "download"][self as usize]
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
    /// ASQM off-peak with a target of 50 ms: the other reading of what the paper's figure 8 shows.
    HalfTarget,
    /// PIE and CoDel as in the kernel of the paper's modems, off-peak.
    Kernel,
    /// ASQM at peak hours with other ways of probing.
    Probing,
    /// Peak hours with a telephone in each home, in the class that no algorithm manages.
    Voice,
}

/// When probes are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Probing {
    /// One for so many data packets.
    pub every: u32,
    /// Probes in a second, at most.
    pub rate_max: u32,
    /// Bytes of probes for a million bytes of data, at most.
    pub budget_ppm: u32,
}

impl Probing {
    /// As the paper has it.
    pub const USUAL: Probing = Probing { every: 4, rate_max: 1000, budget_ppm: 5_000 };

    /// In proportion to packets.
    const fn of_packets(every: u32) -> Probing {
        Probing { every, rate_max: 100_000, budget_ppm: 100_000 }
    }

    /// At regular times while there is data.
    const fn periodic(rate_max: u32) -> Probing {
        Probing { every: 1, rate_max, budget_ppm: 100_000 }
    }

    /// In proportion to bytes.
    const fn of_bytes(budget_ppm: u32) -> Probing {
        Probing { every: 1, rate_max: 100_000, budget_ppm }
    }

    /// A few words for it.
    pub fn name(&self) -> String {
        match *self {
            Probing { every: 1, rate_max: 100_000, budget_ppm } if budget_ppm < 100_000 => {
                format!("{:.2} % of the bytes", f64::from(budget_ppm) / 1e4)
            }
            Probing { every: 1, rate_max, .. } if rate_max < 100_000 => format!("{rate_max} a second"),
            Probing { every, .. } => format!("1 in {every} packets"),
        }
    }
}

/// What a figure shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// End-to-end round trips.
    Delay,
    /// What a modem delivers in a second.
    Bandwidth,
}

/// A figure of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figure {
    /// Its number.
    pub number: usize,
    /// The load.
    pub study: Study,
    /// The algorithm.
    pub managed: Algorithm,
    /// What it shows.
    pub quantity: Quantity,
}

/// The figures of the paper: six for each load, two for each algorithm.
pub static FIGURES: [Figure; 12] = {
    let first =
        Figure { number: 4, study: Study::OffPeak, managed: Algorithm::CoDel, quantity: Quantity::Delay };
    let mut figures = [first; 12];
    let mut i = 0;
    while i < figures.len() {
        figures[i] = Figure {
            number: i + 4,
            study: if i < 6 { Study::OffPeak } else { Study::Peak },
            managed: ALGORITHMS[i % 6 / 2],
            quantity: if i % 2 == 0 { Quantity::Delay } else { Quantity::Bandwidth },
        };
        i += 1;
    }
    figures
};

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selection {
    /// Figures.
    pub figures: &'static [Figure],
    /// What the paper tells without a figure.
    pub sweeps: bool,
}

/// One case: all its runs differ in nothing but their random numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Case {
    /// What it belongs to.
    pub study: Study,
    /// Which way the data goes.
    pub way: Direction,
    /// The algorithm.
    pub managed: Algorithm,
    /// Round-trip time of the flows, without queues.
    pub rtt_ms: u64,
    /// Rate of each limiter.
    pub limit_kbps: u64,
    /// Rate of the access link that the three modems share.
    pub access_kbps: u64,
    /// ASQM's target.
    pub target_ms: u64,
    /// ASQM's probes.
    pub probing: Probing,
    /// Whether the limiters are classes of a shaper and borrow what is above the committed rate.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub borrows: bool,
    /// Machines behind each modem, between which the connections are divided.
    #[serde(skip_serializing_if = "is_one")]
    pub machines: u32,
}

/// As most runs are, which so stay as they are written.
fn is_one(machines: &u32) -> bool {
    *machines == 1
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
/// Ways of probing that are compared: in proportion to packets, periodic, in proportion to bytes.
const PROBINGS: [Probing; 9] = [
    Probing::of_packets(1),
    Probing::USUAL,
    Probing::of_packets(16),
    Probing::of_packets(64),
    Probing::periodic(100),
    Probing::periodic(10),
    Probing::periodic(2),
    Probing::of_bytes(5_000),
    Probing::of_bytes(500),
];
/// Parameters of PIE in Linux 3.15 (net/sched/sch_pie.c): target 20 ms, an update each 30 ms, 100 ms of
/// bursts, the delay from the rate of departures, measured over 10 000 bytes, and gains that are reduced in
/// two steps, at 10 and 1 %; no marks, no de-randomization. alpha and beta are the same as RFC 8033's. No
/// parameters are there for three rules of it: the rate is averaged, with 1/8, and not its inverse; the
/// probability decays only after two updates without any delay; and it grows by 2 % more above 250 ms. There
/// RFC 8033's are in use.
const PIE_OF_LINUX_3_15: [(&str, Value); 8] = [
    ("target", Value::Duration(Duration::from_millis(20))),
    ("t_update", Value::Duration(Duration::from_millis(30))),
    ("max_burst", Value::Duration(Duration::from_millis(100))),
    ("departure_rate", Value::Flag(true)),
    ("dq_threshold", Value::Bytes(Bytes::new(10_000))),
    ("derandomize", Value::Flag(false)),
    ("ecn", Value::Flag(false)),
    ("tune_steps", Value::Count(2)),
];
/// Parameters of CoDel in Linux 3.15 (include/net/codel.h): RFC 8289's, without marks, and with one step of
/// Newton's method for each signal.
const CODEL_OF_LINUX_3_15: [(&str, Value); 2] = [("ecn", Value::Flag(false)), ("newton", Value::Flag(true))];
/// Committed rates; peak rate and access link keep their proportion to it.
const RATES: [u64; 5] = [1_000, 2_000, 8_000, 25_000, 50_000];

impl Case {
    /// The usual one of a study.
    pub fn of(study: Study, way: Direction, managed: Algorithm) -> Case {
        let access_kbps = if matches!(study, Study::Peak | Study::Voice) { PEAK } else { OFF_PEAK };
        Case {
            study,
            way,
            managed,
            rtt_ms: USUAL_RTT,
            limit_kbps: LIMIT,
            access_kbps,
            target_ms: TARGET_MS,
            probing: Probing::USUAL,
            borrows: false,
            machines: 1,
        }
    }

    /// The rate that a limiter has without borrowing: half of what it has with it, and all where the paper
    /// stays at the committed rate.
    fn committed_kbps(&self) -> u64 {
        if self.study == Study::Shortfall { self.limit_kbps } else { self.limit_kbps / 2 }
    }

    /// The testbed as it is run, or a short form of it.
    pub fn scenario(&self, quick: bool) -> Result<Scenario, Error> {
        let (name, text) = match self.way {
            Direction::Upload => scenario_file!("asqm_upload.toml"),
            Direction::Download => scenario_file!("asqm_download.toml"),
        };
        let text = if self.study == Study::Voice { self.with_voice(text) } else { text.to_string() };
        let text = self.with_machines(&text);
        let mut scenario =
            Document::parse(name, &text).and_then(|file| file.scenario()).map_err(Error::input)?;
        scenario.flows = scenario.flows.iter().flat_map(|flows| self.divided(flows)).collect();
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

    /// The scenario with a call of 64 kbit/s and its headers in each home: a datagram of 160 bytes of voice
    /// and 12 of RTP each 20 ms, of class EF, which passes the limiter first and waits below IP as everything
    /// else does.
    fn with_voice(&self, text: &str) -> String {
        let call = |home: u32| {
            let (from, to) = match self.way {
                Direction::Upload => (format!("home{home}"), "cdn".to_string()),
                Direction::Download => ("cdn".to_string(), format!("home{home}")),
            };
            format!(
                "\n[[flows]]\nfrom = \"{from}\"\nto = \"{to}\"\nrtt = \"100ms\"\nclass = \"ef\"\nudp_rate = \"80kbit/s\"\n\
                 packet = \"172B\"\n"
            )
        };
        let calls: String = (1..=3).map(call).collect();
        text.replace("\n[run]", &format!("{calls}\n[run]"))
    }

    /// The scenario with a wire to each further machine of a home.
    fn with_machines(&self, text: &str) -> String {
        let wire = |from: &str, to: &str| {
            format!(
                "\n[[links]]\nname = \"{from}_{to}\"\nfrom = \"{from}\"\nto = \"{to}\"\nrate = \"1Gbit/s\"\n"
            )
        };
        let wires = (1..=3).flat_map(|home| (1..self.machines).map(move |number| (home, number)));
        let wires = wires.map(|(home, number)| {
            let (home, machine) = (format!("home{home}"), machine(&format!("home{home}"), number));
            wire(&machine, &home) + &wire(&home, &machine)
        });
        text.replacen("\n[[flows]]", &(wires.collect::<String>() + "\n[[flows]]"), 1)
    }

    /// Flows of a home, divided between its machines.
    fn divided(&self, flows: &FlowGroup) -> Vec<FlowGroup> {
        let part = |number: u32| {
            let mut part = flows.clone();
            part.count = (flows.count + self.machines - 1 - number) / self.machines;
            let end = match self.way {
                Direction::Upload => &mut part.from,
                Direction::Download => &mut part.to,
            };
            *end = end.as_deref().map(|home| machine(home, number));
            part
        };
        (0..self.machines).map(part).filter(|part| part.count > 0).collect()
    }

    fn set_links(&self, scenario: &mut Scenario) {
        let kbps = |rate: u64| Some(Rate::from_bps(rate * 1_000));
        for link in &mut scenario.links {
            if link.medium.is_some() {
                link.shape.rate = kbps(self.access_kbps);
            } else if link.expedite {
                link.shape.rate = kbps(self.limit_kbps);
                if self.borrows {
                    // One shaper for all limiters of a direction, with room for all of them.
                    let way = if link.name.starts_with("limit_up") { "up" } else { "down" };
                    link.medium = Some(format!("limiters_{way}"));
                    link.shape.rate = kbps(self.limit_kbps * 3);
                    (link.committed, link.ceil) = (kbps(self.committed_kbps()), kbps(self.limit_kbps));
                }
            }
            if link.sense.is_some() {
                link.aqm = Some(self.algorithm());
                link.sense = link.sense.take().filter(|_| self.managed == Algorithm::Asqm);
                if let Some(sense) = &mut link.sense {
                    sense.every = self.probing.every;
                    sense.rate_max = self.probing.rate_max;
                    sense.budget = Share(f64::from(self.probing.budget_ppm) / 1e6);
                }
            }
        }
    }

    fn algorithm(&self) -> AqmConfig {
        let mut aqm = AqmConfig::new(self.managed.key()).expect("the list has the algorithms of the paper");
        if self.managed == Algorithm::Asqm {
            let target = Value::Duration(Duration::from_millis(self.target_ms));
            aqm.set("target", target).expect("the targets of the paper are allowed");
        }
        let of_kernel: &[(&str, Value)] = match self.managed {
            Algorithm::Pie if self.study == Study::Kernel => &PIE_OF_LINUX_3_15,
            Algorithm::CoDel if self.study == Study::Kernel => &CODEL_OF_LINUX_3_15,
            _ => &[],
        };
        for (name, value) in of_kernel {
            aqm.set(name, *value).expect("parameters of the list");
        }
        aqm
    }

    /// How often it is run: where the arguments do not say it, as often as in the paper.
    pub fn times(&self, arguments: &Arguments) -> u32 {
        // In network namespaces what is beside the figures takes hours as it is.
        let is_repeated = matches!(self.study, Study::OffPeak | Study::Peak) || arguments.arm == Arm::Sim;
        times(arguments.seeds, arguments.quick, if is_repeated { 5 } else { 1 })
    }
}

/// The node of a machine of a home; the first is the home's own.
fn machine(home: &str, number: u32) -> String {
    if number == 0 { home.to_string() } else { format!("{home}_{}", number + 1) }
}

/// Every run that the arguments ask for, checked before the first one starts.
pub fn plan(arguments: &Arguments) -> Result<Vec<Planned<NestedCase<Case>>>, Error> {
    let mut plan = Vec::new();
    for case in cases(arguments) {
        let scenario = case.scenario(arguments.quick)?;
        plan.extend(Planned::repeated(&NestedCase { case }, &scenario, case.times(arguments)));
    }
    Ok(plan)
}

/// The cases that the arguments ask for.
pub fn cases(arguments: &Arguments) -> Vec<Case> {
    let ways: &[Direction] =
        if arguments.quick { &[Direction::Upload] } else { &[Direction::Upload, Direction::Download] };
    let mut cases = Vec::new();
    for &way in ways {
        for (study, managed) in of_figures(arguments.figure.value.figures) {
            let rtts = if arguments.quick { &QUICK_RTTS[..] } else { &RTTS };
            cases.extend(rtts.iter().map(|&rtt_ms| Case { rtt_ms, ..Case::of(study, way, managed) }));
        }
    }
    if arguments.figure.value.sweeps {
        cases.extend(sweeps(arguments.quick));
    }
    for case in &mut cases {
        (case.borrows, case.machines) = (arguments.borrow, arguments.machines);
    }
    cases
}

/// Load and algorithm of figures. Claims compare figures, but only those that were asked for.
pub fn of_figures(figures: &[Figure]) -> Vec<(Study, Algorithm)> {
    let mut pairs: Vec<(Study, Algorithm)> = figures.iter().map(|f| (f.study, f.managed)).collect();
    pairs.dedup();
    pairs
}

/// What the paper tells without a figure, for upload. The short form has the ends of each.
fn sweeps(quick: bool) -> Vec<Case> {
    fn ends<T: Copy, const N: usize>(values: [T; N], quick: bool) -> Vec<T> {
        if quick { vec![values[0], values[N - 1]] } else { values.to_vec() }
    }
    let mut cases = Vec::new();
    for managed in ALGORITHMS {
        let of = |study| Case::of(study, Direction::Upload, managed);
        // At the committed rate nobody borrows, or a shortfall would begin at twice of it.
        cases.extend(ends(SHORTFALLS, quick).into_iter().map(|access_kbps| Case {
            access_kbps,
            limit_kbps: COMMITTED,
            ..of(Study::Shortfall)
        }));
        let rtts = if quick { vec![USUAL_RTT, 500] } else { LONG_RTTS.to_vec() };
        cases.extend(rtts.into_iter().map(|rtt_ms| Case { rtt_ms, ..of(Study::LongRtt) }));
    }
    let of = |study| Case { access_kbps: PEAK, ..Case::of(study, Direction::Upload, Algorithm::Asqm) };
    cases.extend(ends(TARGETS, quick).into_iter().map(|target_ms| Case { target_ms, ..of(Study::Targets) }));
    cases.extend(ends(RATES, quick).into_iter().map(|rate| Case {
        limit_kbps: rate * LIMIT / COMMITTED,
        access_kbps: rate * PEAK / COMMITTED,
        ..of(Study::Rates)
    }));
    cases.extend(ALGORITHMS.map(|managed| Case::of(Study::Voice, Direction::Upload, managed)));
    cases.extend(ends(PROBINGS, quick).into_iter().map(|probing| Case { probing, ..of(Study::Probing) }));
    let rtts = if quick { &QUICK_RTTS[..] } else { &RTTS };
    for &rtt_ms in rtts {
        let of = |study, managed| Case { rtt_ms, ..Case::of(study, Direction::Upload, managed) };
        cases.push(Case { target_ms: TARGET_MS / 2, ..of(Study::HalfTarget, Algorithm::Asqm) });
        cases.extend([Algorithm::CoDel, Algorithm::Pie].map(|managed| of(Study::Kernel, managed)));
    }
    cases
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::asqm::{Arm, FIGURES};
    use crate::choice::by_name;
    use std::path::PathBuf;

    /// Arguments for a figure.
    pub fn arguments(figure: &str, quick: bool) -> Arguments {
        let figure = by_name(&FIGURES, figure).expect("a figure");
        let out = PathBuf::from("out");
        Arguments {
            figure,
            arm: Arm::Sim,
            quick,
            borrow: false,
            machines: 1,
            seeds: None,
            jobs: 1,
            resume: false,
            out,
        }
    }

    #[test]
    fn all_figures_are_two_loads_three_algorithms_three_round_trips_and_both_ways() {
        let plan = plan(&arguments("all", false)).unwrap();
        let figures = plan.iter().filter(|p| matches!(p.case.study, Study::OffPeak | Study::Peak));
        assert_eq!(figures.count(), 2 * 3 * 3 * 2 * 5);
        assert!(plan.iter().all(|p| p.scenario.run.duration == Duration::from_secs(120)));
    }

    #[test]
    fn a_call_in_each_home_is_of_the_class_that_is_not_managed() {
        for way in [Direction::Upload, Direction::Download] {
            let scenario = Case::of(Study::Voice, way, Algorithm::Asqm).scenario(true).unwrap();
            let calls = scenario.flows.iter().filter(|flows| flows.class == weir_config::Class::Expedited);
            assert_eq!(calls.count(), 3);
            let named = |name: &str| scenario.links.iter().find(|l| l.name == name).unwrap();
            assert_eq!(named("mac_up1").rate(), Rate::from_mbps(21));
        }
    }

    #[test]
    fn connections_of_a_home_are_divided_between_its_machines() {
        for way in [Direction::Upload, Direction::Download] {
            let one = Case::of(Study::Voice, way, Algorithm::Asqm);
            let two = Case { machines: 2, ..one }.scenario(true).unwrap();
            let at = |flows: &FlowGroup| match way {
                Direction::Upload => flows.from.clone(),
                Direction::Download => flows.to.clone(),
            };
            let of = |node: &str| {
                let mine = two.flows.iter().filter(|flows| at(flows).as_deref() == Some(node));
                mine.map(|flows| flows.count).collect::<Vec<_>>()
            };
            assert_eq!((of("home2"), of("home2_2")), (vec![3, 1, 2, 1], vec![2, 2]));
            // Whoever counts transfers and pages by their place finds them there.
            let sizes = |scenario: &Scenario| {
                let all = scenario.flows.iter();
                all.flat_map(|flows| vec![flows.transfer; flows.count as usize]).collect::<Vec<_>>()
            };
            assert_eq!(sizes(&two), sizes(&one.scenario(true).unwrap()));
            let again = Document::parse("again", &two.to_toml()).and_then(|file| file.scenario());
            assert!(again.is_ok(), "{again:?}");
        }
    }

    #[test]
    fn limiters_that_borrow_are_classes_of_one_shaper() {
        let mut arguments = arguments("all", true);
        arguments.borrow = true;
        for case in cases(&arguments) {
            let scenario = case.scenario(true).unwrap();
            // What is set is what the file could say.
            let text = scenario.to_toml();
            let read = Document::parse("again", &text).and_then(|file| file.scenario());
            assert!(read.is_ok(), "{read:?}");
            let network = scenario.network();
            let limiter = network.links.iter().find(|l| l.name == "limit_up2").unwrap();
            let kbps = |rate: u64| Rate::from_bps(rate * 1000);
            assert_eq!(
                (limiter.rate, limiter.medium_rate),
                (kbps(case.limit_kbps), kbps(3 * case.limit_kbps))
            );
            let share = if case.study == Study::Shortfall { 1 } else { 2 };
            assert_eq!(limiter.committed, Some(kbps(case.limit_kbps / share)));
            assert_eq!(network.links[limiter.medium].name, "limit_up1");
        }
    }

    #[test]
    fn a_case_reaches_its_links() {
        let case = Case { rtt_ms: 200, ..Case::of(Study::Peak, Direction::Download, Algorithm::Pie) };
        let scenario = case.scenario(false).unwrap();
        let named = |name: &str| scenario.links.iter().find(|l| l.name == name).unwrap();
        let limit = named("limit_down2");
        assert_eq!((limit.rate(), limit.sense.is_some()), (Rate::from_mbps(16), false));
        assert_eq!(limit.aqm.as_ref().map(|a| a.name.as_str()), Some("pie"));
        assert_eq!(named("mac_down3").rate(), Rate::from_mbps(21));
        assert_eq!(scenario.flows[0].rtt, Some(Rtt::Constant(Duration::from_millis(200))));
        let asqm = Case { target_ms: 50, managed: Algorithm::Asqm, ..case }.scenario(true).unwrap();
        let limit = asqm.links.iter().find(|l| l.name == "limit_down1").unwrap();
        assert_eq!(limit.aqm.as_ref().and_then(|a| a.setpoint()), Some(Duration::from_millis(50)));
        assert!(limit.sense.is_some());
    }
}
