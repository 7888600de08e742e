//! Every run that is needed, checked before the first one starts: the algorithm, and tail drop in the same
//! place.

use super::experiments::{EXPERIMENTS, Experiment};
use crate::output::Failure;
use crate::verbs::list::disciplines;
use weir_config::{Document, MAX_FLOWS, Scenario, Step, each_flow_of, nearest};
use weir_units::{Duration, Rate};

/// The rate that the scenario files are made for.
pub const FILE_RATE: Rate = Rate::from_bps(10_000_000);
/// The rates for which numbers of flows and windows stay sensible.
const RATES: [Rate; 2] = [Rate::from_bps(1_000_000), Rate::from_bps(1_000_000_000)];
/// By how much the short form shortens every time of a run.
const QUICK: u64 = 4;
/// Tables that say what an experiment is.
const FIXED: [&str; 8] = ["title", "link", "links", "path", "flows", "run", "record", "sweep"];

/// What is characterized, and how.
#[derive(Clone, Debug)]
pub struct Subject {
    /// Name of the algorithm, or of a discipline that brings its own.
    pub name: String,
    /// Keys that are set beside it, `aqm.target=5ms`.
    pub settings: Vec<(String, String)>,
    /// Rate of the link in the experiments with one rate.
    pub rate: Rate,
    /// Whether runs are short.
    pub quick: bool,
}

/// An experiment with the algorithm, and with tail drop.
#[derive(Clone, Debug)]
pub struct Pair {
    /// The experiment.
    pub experiment: &'static Experiment,
    /// With the algorithm.
    pub aqm: Scenario,
    /// With tail drop, which only the buffer limits.
    pub tail_drop: Scenario,
}

impl Subject {
    /// From what was given on the command line.
    pub fn new(name: &str, set: &[String], rate: Option<&str>, quick: bool) -> Result<Subject, Failure> {
        // FlowQueue over an algorithm, as everybody calls it.
        let (name, is_fair) = each_flow_of(name).map_or((name, false), |aqm| (aqm, true));
        let known = names();
        if !known.contains(&name) {
            let meant = nearest(name, known.iter().copied());
            let meant = meant.map_or(String::new(), |meant| format!("did you mean `{meant}`? "));
            let known = known.join(", ");
            return Err(Failure::Input(format!(
                "there is no algorithm `{name}`: {meant}name one of {known}"
            )));
        }
        let fair = is_fair.then(|| Ok(("queue.discipline".to_string(), "flow".to_string())));
        let settings =
            fair.into_iter().chain(set.iter().map(|text| setting(text))).collect::<Result<_, _>>()?;
        let rate = rate.map_or(Ok(FILE_RATE), read_rate)?;
        Ok(Subject { name: name.into(), settings, rate, quick })
    }
}

/// Everything that can be characterized by its name: algorithms, and disciplines that bring their own.
fn names() -> Vec<&'static str> {
    let own = disciplines().into_iter().filter(|discipline| discipline.brings_algorithm);
    weir_aqm::names().iter().copied().chain(own.map(|discipline| discipline.name)).collect()
}

fn setting(text: &str) -> Result<(String, String), Failure> {
    let Some((key, value)) = text.split_once('=') else {
        return Err(Failure::Input(format!("--set {text}: has no `=`: write it like `aqm.target=5ms`")));
    };
    let (key, value) = (key.trim(), value.trim());
    let table = key.split('.').next().unwrap_or(key);
    if FIXED.contains(&table) || key == "aqm" || key == "aqm.name" {
        return Err(Failure::Input(format!(
            "--set {key}: is what the experiments fix, so that algorithms can be compared: set parameters of the \
             algorithm or of its policy, such as `aqm.target=5ms`; for anything else run `weir sim` on \
             data/scenarios/rfc7928_*.toml"
        )));
    }
    Ok((key.to_string(), value.to_string()))
}

fn read_rate(text: &str) -> Result<Rate, Failure> {
    let rate = weir_units::parse_rate(text).map_err(|e| Failure::Input(format!("--rate {text}: {e}")))?;
    let [least, most] = RATES;
    if !(least..=most).contains(&rate) {
        return Err(Failure::Input(format!("--rate {text}: choose one from {least} to {most}")));
    }
    Ok(rate)
}

/// Every experiment.
pub fn plan(subject: &Subject) -> Result<Vec<Pair>, Failure> {
    let pair = |experiment: &'static Experiment| {
        let aqm = scenario(experiment, subject, true)?;
        Ok(Pair { experiment, aqm, tail_drop: scenario(experiment, subject, false)? })
    };
    EXPERIMENTS.iter().map(pair).collect()
}

fn scenario(experiment: &Experiment, subject: &Subject, is_managed: bool) -> Result<Scenario, Failure> {
    let (name, text) = experiment.file;
    let mut document = Document::parse(name, text).map_err(Failure::input)?;
    for (key, value) in experiment.changes {
        document.set(key, value).map_err(Failure::input)?;
    }
    if is_managed {
        let managed: &[&str] = if document.has_table("links") { &["links.0.", "links.1."] } else { &[""] };
        for place in managed {
            let (table, value) = if weir_aqm::names().contains(&subject.name.as_str()) {
                ("aqm", format!("{{ name = \"{}\" }}", subject.name))
            } else {
                document.unset(&format!("{place}aqm"));
                ("queue", format!("{{ discipline = \"{}\" }}", subject.name))
            };
            document.set(&format!("{place}{table}"), &value).map_err(Failure::input)?;
            for (key, value) in &subject.settings {
                document.set(&format!("{place}{key}"), value).map_err(Failure::input)?;
            }
        }
    }
    let mut scenario = document.scenario().map_err(Failure::input)?;
    let mut number = 0..;
    scenario.flows.retain(|_| number.next().is_some_and(|n| experiment.groups.has(n)));
    if let Some(period) = experiment.change_every {
        scenario.link.variation.steps = changes(&scenario, period.into());
    }
    scale(&mut scenario, experiment, subject.rate.as_bps_f64() / FILE_RATE.as_bps_f64());
    if subject.quick {
        shorten(&mut scenario, experiment.change_every.is_none());
    }
    assert!(scenario.flow_count() <= u64::from(MAX_FLOWS), "{} has too many flows", experiment.id);
    Ok(scenario)
}

/// The two rates of the scenario in turn, each for `period`.
fn changes(scenario: &Scenario, period: Duration) -> Vec<Step> {
    let rates: Vec<Rate> = scenario.link.variation.steps.iter().map(|step| step.rate).collect();
    let count = scenario.run.duration.as_nanos() / period.as_nanos();
    let step = |n: u64| Step {
        at: Duration::from_nanos(period.as_nanos() * n),
        rate: rates[(n as usize - 1) % rates.len()],
    };
    (1..count).map(step).collect()
}

/// Makes links faster. Then there are more flows, or datagrams come faster where their rate is that of the
/// link.
fn scale(scenario: &mut Scenario, experiment: &Experiment, factor: f64) {
    let faster = |rate: Rate| Rate::from_bps_f64(rate.as_bps_f64() * factor);
    let shapes = scenario.links.iter_mut().map(|link| &mut link.shape);
    for shape in shapes.chain([&mut scenario.link.shape]) {
        shape.rate = shape.rate.map(faster);
    }
    for step in &mut scenario.link.variation.steps {
        step.rate = faster(step.rate);
    }
    for flows in &mut scenario.flows {
        if experiment.is_crowd {
            flows.count = (f64::from(flows.count) * factor).round().max(1.0) as u32;
        } else {
            flows.udp_rate = flows.udp_rate.map(faster);
        }
    }
}

/// Makes every time of a run shorter, but for that between changes of the rate where they are quick.
fn shorten(scenario: &mut Scenario, steps_too: bool) {
    let short = |time: Duration| Duration::from_nanos(time.as_nanos() / QUICK);
    let run = &mut scenario.run;
    (run.duration, run.warmup) = (short(run.duration), short(run.warmup));
    for flows in &mut scenario.flows {
        flows.start = short(flows.start);
        flows.stop = flows.stop.map(short);
    }
    let steps = &mut scenario.link.variation.steps;
    for step in steps.iter_mut().filter(|_| steps_too) {
        step.at = short(step.at);
    }
    steps.retain(|step| step.at < run.duration);
}

/// Rate of the datagrams of a table of flows, where it sends such.
pub fn datagram_rate(scenario: &Scenario, group: usize) -> Option<f64> {
    Some(scenario.flows.get(group)?.traffic().datagrams()?.rate.as_bps_f64())
}

#[cfg(test)]
mod tests {
    use super::super::experiments::*;
    use super::*;
    use weir_config::Capacity;

    fn planned(rate: Option<&str>, quick: bool) -> Vec<Pair> {
        let set = ["aqm.target=7ms".to_string()];
        plan(&Subject::new("codel", &set, rate, quick).unwrap()).unwrap()
    }

    #[test]
    fn a_discipline_that_brings_its_algorithm_stands_everywhere() {
        let subject = Subject::new("dualpi2", &["queue.target=7ms".to_string()], None, true).unwrap();
        for pair in plan(&subject).unwrap() {
            let networks = [&pair.aqm, &pair.tail_drop].map(|s| s.network().links);
            let [ours, theirs] = networks.each_ref();
            assert!(ours.iter().any(|link| link.aqm.name == "dualpi2"), "{}", pair.experiment.id);
            assert!(theirs.iter().all(|link| link.aqm.name == "tail_drop"), "{}", pair.experiment.id);
        }
        let refused = Subject::new("flow", &[], None, true);
        assert!(matches!(refused, Err(Failure::Input(text)) if text.contains("dualpi2")));
    }

    fn of<'a>(plan: &'a [Pair], id: &str) -> &'a Scenario {
        &plan.iter().find(|p| p.experiment.id == id).unwrap().aqm
    }

    #[test]
    fn the_algorithm_stands_everywhere_and_tail_drop_beside_it() {
        for pair in planned(None, false) {
            let queues = |s: &Scenario| s.network().links.iter().map(|l| l.aqm.clone()).collect::<Vec<_>>();
            let target = |aqm: &weir_config::AqmConfig| aqm.get("target").map(|v| v.to_string());
            assert!(queues(&pair.aqm).iter().any(|q| q.name == "codel"), "{}", pair.experiment.id);
            for (ours, theirs) in queues(&pair.aqm).iter().zip(queues(&pair.tail_drop)) {
                assert_eq!(theirs.name, "tail_drop");
                assert!(ours.name == "tail_drop" || target(ours).as_deref() == Some("7ms"), "{ours:?}");
            }
            assert_eq!(pair.experiment.classes.len(), pair.aqm.flows.len(), "{}", pair.experiment.id);
        }
    }

    #[test]
    fn files_are_made_for_the_rate_that_scaling_starts_from() {
        let plan = planned(None, false);
        assert_eq!(of(&plan, RENO).rate(), FILE_RATE);
        // S = 166.7 packets; 0.036, 0.081 and 0.114 of it.
        assert_eq!(LEVELS.map(|id| of(&plan, id).flows[0].count), [6, 14, 19]);
        let fast = planned(Some("100Mbit/s"), false);
        assert_eq!(LEVELS.map(|id| of(&fast, id).flows[0].count), [60, 140, 190]);
        assert_eq!(datagram_rate(of(&fast, FLOOD), 0), Some(120e6));
        assert_eq!(of(&fast, RENO).flows[0].count, 1);
        assert_eq!(of(&fast, BOTH_WAYS).network().links[1].rate, Rate::from_bps(100_000_000));
    }

    #[test]
    fn capacity_is_what_a_varying_link_can_carry() {
        let capacity = |scenario: &Scenario| {
            let (link, run) = (&scenario.network().links[0], &scenario.run);
            let mean = Capacity::of_links(std::slice::from_ref(link))[0].mean_bps(run.warmup, run.duration);
            mean.unwrap() / link.rate.as_bps_f64()
        };
        for quick in [false, true] {
            let plan = planned(None, quick);
            assert_eq!(capacity(of(&plan, RENO)), 1.0);
            for id in [SLOW, FAST] {
                let share = capacity(of(&plan, id));
                assert!((share - 0.55).abs() < 0.01, "{id}: {share}");
            }
        }
    }

    #[test]
    fn the_short_form_shortens_what_happens_within() {
        let plan = planned(None, true);
        let varying = of(&plan, VARYING_LEVEL);
        assert_eq!(varying.run.duration, Duration::from_secs(35));
        assert_eq!(varying.flows[2].start, Duration::from_secs(15));
        assert_eq!(of(&plan, SLOW).link.variation.steps[0].at, Duration::from_secs(5));
        assert_eq!(of(&plan, FAST).link.variation.steps[0].at, Duration::from_millis(100));
    }

    #[test]
    fn what_the_experiments_fix_cannot_be_set() {
        let refused = |set: &str| match Subject::new("codel", &[set.to_string()], None, false) {
            Err(Failure::Input(text)) => text,
            other => panic!("{other:?}"),
        };
        for set in ["link.rate=1Gbit/s", "aqm.name=gsp", "aqm", "run.duration=1s", "flows.0.count=3"] {
            assert!(refused(set).starts_with("--set "), "{set}");
        }
    }
}
