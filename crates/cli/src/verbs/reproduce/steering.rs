//! Policy-oriented AQM Steering (Bless et al., 2018), section V: figures 5 to 8.

mod claims;
mod draw;
mod each;
mod figures;
#[cfg(feature = "live")]
mod lab;
mod measured;
mod over_time;
mod paper;
mod sim;

use super::{claim, percent};
use crate::output::{Done, Failure, Output};
use std::path::PathBuf;
use weir_scenario::Scenario;

/// Policy-oriented AQM Steering (Bless et al., 2018).
///
/// In the lab the host's scheduling jitter during the runs is printed beside the results; the same figure at a
/// lower rate (--rate 200Mbit/s) tells what is the host's and what is the algorithm's. The simulator has no host,
/// and gives the same numbers everywhere.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The figure; the lab has 5 and 8.
    #[arg(long, value_enum)]
    figure: FigureName,
    /// Where to run: `lab` is real TCP in network namespaces on this machine, `sim` the simulator.
    #[arg(long, value_enum, default_value_t = Arm::DEFAULT)]
    arm: Arm,
    /// A short form with fewer and shorter runs (lab, figure 5: at 200 Mbit/s; simulator: at 1 Gbit/s), and wider
    /// margins.
    #[arg(long)]
    quick: bool,
    /// Rate of the link, instead of the scenario's; the simulator takes 10 Gbit/s and 1 Gbit/s otherwise.
    #[arg(long, value_name = "RATE")]
    rate: Option<String>,
    #[cfg(feature = "live")]
    /// How often each point is run in the lab, otherwise once; the figure shows the mean and the range.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: Option<u32>,
    /// How often each point is run in the simulator, with other random numbers each time; otherwise 3, or 1 in the
    /// short form. The paper has 10.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    seeds: Option<u32>,
    /// With `--figure 5 --arm sim`: what steering adds to other algorithms, instead of the paper's claims. Names from
    /// `weir list`, `fq_codel` and `dualpi2`, between commas, or `all` for every one with a set point; at 1 Gbit/s with 2,
    /// 9 and 36 flows, one run per point.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    aqm: Vec<String>,
    /// Directory for the results.
    #[arg(long, value_name = "DIR", default_value = "out/reproduce")]
    out: PathBuf,
}

const EXAMPLES: &str = "Examples:
  weir reproduce steering --figure 5 --arm sim --quick
  weir reproduce steering --figure all --arm sim --rate 1Gbit/s --seeds 10
  weir reproduce steering --figure 5 --arm sim --aqm pie,codel   what steering adds to other algorithms
  sudo weir reproduce steering --figure 5 --arm lab --runs 3     with real TCP";

/// Figures of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum FigureName {
    /// Throughput and 95 % delay over the number of flows.
    #[value(name = "5")]
    Five,
    /// The same with short transfers of 64 MB between.
    #[value(name = "6")]
    Six,
    /// Both parts of figure 7.
    #[value(name = "7")]
    Seven,
    /// The set point when 34 flows come, and leave after 80 s.
    #[value(name = "7a")]
    SevenA,
    /// The set point when 34 flows come and leave every 20 s.
    #[value(name = "7b")]
    SevenB,
    /// Both parts of figure 8.
    #[value(name = "8")]
    Eight,
    /// Throughput and delay with a utilization target of 95 % and a virtual queue.
    #[value(name = "8a")]
    EightA,
    /// That virtual queue over time.
    #[value(name = "8b")]
    EightB,
    /// All of them.
    #[value(name = "all")]
    All,
}

/// Where to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Arm {
    /// Real TCP in network namespaces.
    Lab,
    /// The simulator.
    Sim,
}

impl Arm {
    /// Without it: live links, if the program has them.
    const DEFAULT: Arm = if cfg!(feature = "live") { Arm::Lab } else { Arm::Sim };
}

/// Repeats the figures.
pub fn main(arguments: Arguments, output: &Output) -> Done {
    check_arm(&arguments)?;
    let done = match arguments.arm {
        _ if !arguments.aqm.is_empty() => each::main(&arguments, output),
        #[cfg(feature = "live")]
        Arm::Lab => lab::main(&arguments, output),
        #[cfg(not(feature = "live"))]
        Arm::Lab => Err(Failure::input("this program was made without live links: choose --arm sim")),
        Arm::Sim => sim::main(&arguments, output),
    };
    done.map_err(|failure| blame(failure, arguments.rate.as_deref()))
}

/// Refuses options of the other arm: whoever gave one believes that it does something.
fn check_arm(arguments: &Arguments) -> Result<(), Failure> {
    let refused = |option: &str, arm: &str, here: &str| {
        Err(Failure::Input(format!("{option} is for --arm {arm}: choose that, or {here}")))
    };
    match arguments.arm {
        Arm::Lab if arguments.seeds.is_some() => refused("--seeds", "sim", "use --runs in the lab"),
        #[cfg(feature = "live")]
        Arm::Sim if arguments.runs.is_some() => refused("--runs", "lab", "use --seeds in the simulator"),
        _ => Ok(()),
    }
}

/// Scenarios get the rate as a key; whoever gave `--rate` wrote no key and is told of the option.
fn blame(failure: Failure, rate: Option<&str>) -> Failure {
    match (failure, rate) {
        (Failure::Input(text), Some(rate)) => {
            let set = format!("--set link.rate={rate}: ");
            Failure::Input(text.replace(&set, &format!("--rate {rate}: ")))
        }
        (other, _) => other,
    }
}

/// Where the results go: named after what was run, and after what makes it another run.
fn folder(arguments: &Arguments, what: &str) -> PathBuf {
    let quick = if arguments.quick { "-quick" } else { "" };
    let rate = arguments.rate.as_ref().map_or(String::new(), |r| format!("-{}", r.replace('/', "p")));
    arguments.out.join(format!("steering-{what}{rate}{quick}"))
}

/// Name of the curve that a scenario belongs to, as in the paper.
fn series(scenario: &Scenario) -> String {
    let name = match scenario.aqm.name.as_str() {
        "tail_drop" => "TD".to_string(),
        other => other.to_uppercase(),
    };
    match (&scenario.policy, scenario.aqm.setpoint()) {
        (Some(_), _) => format!("{name}-AS"),
        (None, Some(setpoint)) => format!("{name} {setpoint}"),
        (None, None) => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Arguments for the simulator.
    pub fn arguments(figure: FigureName, quick: bool) -> Arguments {
        let out = PathBuf::from("out");
        Arguments {
            figure,
            arm: Arm::Sim,
            quick,
            rate: None,
            #[cfg(feature = "live")]
            runs: None,
            seeds: None,
            aqm: Vec::new(),
            out,
        }
    }

    #[test]
    fn options_of_the_other_arm_are_refused() {
        let of = |arguments: Arguments| match check_arm(&arguments) {
            Err(Failure::Input(text)) => text,
            other => panic!("{other:?}"),
        };
        let plain = || arguments(FigureName::Five, true);
        let seeds = Arguments { arm: Arm::Lab, seeds: Some(2), ..plain() };
        assert_eq!(of(seeds), "--seeds is for --arm sim: choose that, or use --runs in the lab");
        #[cfg(feature = "live")]
        assert!(of(Arguments { runs: Some(2), ..plain() }).starts_with("--runs is for --arm lab"));
        assert!(check_arm(&Arguments { seeds: Some(2), ..plain() }).is_ok());
    }

    #[test]
    fn the_option_is_blamed_and_not_the_key_it_sets() {
        let of = |text: &str| match blame(Failure::Input(text.into()), Some("0")) {
            Failure::Input(text) => text,
            other => panic!("{other:?}"),
        };
        assert_eq!(of("--set link.rate=0: key `link.rate`: is 0"), "--rate 0: key `link.rate`: is 0");
        assert_eq!(of("figure.toml:3: is wrong"), "figure.toml:3: is wrong");
    }
}
