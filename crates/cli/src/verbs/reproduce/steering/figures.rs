//! The figures of the paper as scenario files, and what the short form and other rates change in them.

use super::{Arguments, FigureName, series};
use crate::output::Failure;
use weir_scenario::{Document, Scenario};

/// A figure, or the part of one that is an experiment of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Long-lived flows only.
    Five,
    /// With short transfers between.
    Six,
    /// 34 flows come and leave once.
    SevenA,
    /// They do so again and again.
    SevenB,
    /// A virtual queue, over the number of flows.
    EightA,
    /// A virtual queue, over time.
    EightB,
}

/// Name and content of a scenario file.
pub type File = (&'static str, &'static str);

macro_rules! scenario_file {
    ($name:literal) => {
        ($name, include_str!(concat!("../../../../../../data/scenarios/", $name)))
    };
}

/// Figure 5: steered, and with static set points.
pub const FIVE: [File; 2] =
    [scenario_file!("steering_figure5_sim.toml"), scenario_file!("steering_figure5_static_sim.toml")];
const SIX: [File; 2] =
    [scenario_file!("steering_figure6.toml"), scenario_file!("steering_figure6_static.toml")];
const SEVEN_A: [File; 1] = [scenario_file!("steering_figure7a.toml")];
const SEVEN_B: [File; 1] = [scenario_file!("steering_figure7b.toml")];
const EIGHT_A: [File; 1] = [scenario_file!("steering_figure8a.toml")];
const EIGHT_B: [File; 1] = [scenario_file!("steering_figure8b.toml")];

/// Without `--rate`: the rates of the paper, of which it shows the first.
const RATES: [&str; 2] = ["10Gbit/s", "1Gbit/s"];
const QUICK_RATE: &str = "1Gbit/s";
/// The rate at which the short transfers have the size of the file.
const FULL_RATE_BPS: f64 = 10e9;

impl Part {
    /// The parts that a name stands for.
    pub fn of(name: FigureName) -> Vec<Part> {
        use Part::*;
        match name {
            FigureName::Five => vec![Five],
            FigureName::Six => vec![Six],
            FigureName::Seven => vec![SevenA, SevenB],
            FigureName::SevenA => vec![SevenA],
            FigureName::SevenB => vec![SevenB],
            FigureName::Eight => vec![EightA, EightB],
            FigureName::EightA => vec![EightA],
            FigureName::EightB => vec![EightB],
            FigureName::All => vec![Five, Six, SevenA, SevenB, EightA, EightB],
        }
    }

    /// Its number in the paper.
    pub fn name(self) -> &'static str {
        match self {
            Part::Five => "5",
            Part::Six => "6",
            Part::SevenA => "7a",
            Part::SevenB => "7b",
            Part::EightA => "8a",
            Part::EightB => "8b",
        }
    }

    /// Whether it shows a run over time, and not results over the number of flows.
    pub fn is_over_time(self) -> bool {
        matches!(self, Part::SevenA | Part::SevenB | Part::EightB)
    }

    fn files(self) -> &'static [File] {
        match self {
            Part::Five => &FIVE,
            Part::Six => &SIX,
            Part::SevenA => &SEVEN_A,
            Part::SevenB => &SEVEN_B,
            Part::EightA => &EIGHT_A,
            Part::EightB => &EIGHT_B,
        }
    }

    /// Numbers of flows of the short form; of a figure over time, the only one.
    fn quick_flows(self) -> &'static [u32] {
        match self {
            Part::Five | Part::Six => &[2, 36],
            Part::EightA => &[2, 9, 36],
            Part::SevenA | Part::SevenB => &[2],
            Part::EightB => &[36],
        }
    }

    /// What the short form changes. Windows at 1 Gbit/s grow back in less than half of the time.
    pub fn quick_changes(self, steered: bool) -> &'static [(&'static str, &'static str)] {
        match (self, steered) {
            (Part::Five | Part::Six, false) => &[("run.duration", "50s"), ("run.warmup", "20s")],
            (Part::Five | Part::Six, true) => &[("run.duration", "120s"), ("run.warmup", "70s")],
            (Part::EightA, _) => &[("run.duration", "160s"), ("run.warmup", "60s")],
            (Part::EightB, _) => &[("run.duration", "65s"), ("run.warmup", "20s")],
            (Part::SevenA | Part::SevenB, _) => &[],
        }
    }
}

/// One run that a figure needs.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The figure.
    pub part: Part,
    /// The curve it belongs to.
    pub series: String,
    /// Number of long-lived flows.
    pub flows: u32,
    /// The random numbers.
    pub seed: u64,
    /// What is run.
    pub scenario: Scenario,
}

/// Every run that the arguments ask for, checked before the first one starts.
pub fn plan(arguments: &Arguments) -> Result<Vec<Planned>, Failure> {
    let default: &[&str] = if arguments.quick { &[QUICK_RATE] } else { &RATES };
    let rates = arguments.rate.as_deref().map_or(default.to_vec(), |rate| vec![rate]);
    let seeds = u64::from(arguments.seeds.unwrap_or(if arguments.quick { 1 } else { 3 }));
    let mut plan = Vec::new();
    for rate in rates {
        for part in Part::of(arguments.figure) {
            for file in part.files() {
                for point in points(part, file, rate, arguments.quick)? {
                    plan.extend((0..seeds).map(|seed| Planned { seed, ..point.clone() }));
                }
            }
        }
    }
    Ok(plan)
}

/// The points of one file at one rate, each with the first seed.
fn points(part: Part, (name, text): &File, rate: &str, quick: bool) -> Result<Vec<Planned>, Failure> {
    let mut document = Document::parse(name, text).map_err(Failure::input)?;
    document.set("link.rate", rate).map_err(Failure::input)?;
    let steered = document.has_table("policy");
    for (key, value) in part.quick_changes(steered).iter().filter(|_| quick) {
        document.set(key, value).map_err(Failure::input)?;
    }
    let mut scenario = document.scenario().map_err(Failure::input)?;
    if part == Part::Six {
        // A transfer stays about one bandwidth-delay product and the same share of the load.
        let full = scenario.flows[1].transfer.map_or(0.0, |size| size.get() as f64);
        let size = full * scenario.rate().as_bps_f64() / FULL_RATE_BPS;
        document.set("flows.1.transfer", &format!("{size:.0}B")).map_err(Failure::input)?;
        scenario = document.scenario().map_err(Failure::input)?;
    }
    let wanted = |flows: u32| !quick || part.quick_flows().contains(&flows);
    let planned = |scenario: Scenario| Planned {
        part,
        series: series(&scenario),
        flows: scenario.flows[0].count,
        seed: 0,
        scenario,
    };
    let points = scenario.expand().into_iter().map(|point| planned(point.scenario));
    Ok(points.filter(|p| wanted(p.flows)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::reproduce::steering::tests::arguments;

    #[test]
    fn the_full_plan_has_every_point_of_the_paper() {
        let plan = plan(&arguments(FigureName::All, false)).unwrap();
        let count = |part| plan.iter().filter(|p| p.part == part).count();
        let (rates, seeds) = (2, 3);
        assert_eq!(count(Part::Five), 5 * 8 * rates * seeds);
        assert_eq!(count(Part::Six), 5 * 3 * rates * seeds);
        assert_eq!(count(Part::EightA), 8 * rates * seeds);
        for part in [Part::SevenA, Part::SevenB, Part::EightB] {
            assert_eq!(count(part), rates * seeds, "{}", part.name());
        }
    }

    #[test]
    fn short_transfers_follow_the_rate() {
        let mut arguments = arguments(FigureName::Six, true);
        let size = |plan: Vec<Planned>| plan[0].scenario.flows[1].transfer.unwrap().get();
        assert_eq!(size(plan(&arguments).unwrap()), 6_400_000);
        arguments.rate = Some("10Gbit/s".into());
        assert_eq!(size(plan(&arguments).unwrap()), 64_000_000);
    }

    #[test]
    fn a_rate_that_is_none_is_refused() {
        let mut arguments = arguments(FigureName::Five, true);
        arguments.rate = Some("fast".into());
        assert!(matches!(plan(&arguments), Err(Failure::Input(_))));
    }
}
