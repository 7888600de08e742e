//! Policy-oriented AQM Steering (Bless et al., 2018), section V: figures 5 to 8.

mod bbr;
mod cases;
mod causes;
mod claims;
mod draw;
mod each;
#[cfg(feature = "live")]
mod lab;
mod over_time;
mod paper;
pub(crate) mod said;
mod sim;
mod text;
mod virtual_sweep;

use crate::choice::{Arm, Choice};
use crate::host::{Error, Host, Report};
pub use cases::Part;
use std::path::PathBuf;
pub use virtual_sweep::NAME as VIRTUAL_SWEEP;
use weir_config::Scenario;

/// What is to be repeated, and how.
#[derive(Clone, Debug)]
pub struct Arguments {
    /// One of [`FIGURES`]; the lab has all but what is told without a figure.
    pub figure: &'static Choice<&'static [Part]>,
    /// One of [`ARMS`].
    pub arm: Arm,
    /// A short form with fewer and shorter runs, and wider margins.
    pub quick: bool,
    /// Rate of the link, instead of the scenario's.
    pub rate: Option<String>,
    /// How often each point is run, in the simulator with other random numbers each time.
    pub seeds: Option<u32>,
    /// The only series whose points are run more often than once.
    pub series: Option<String>,
    /// Algorithms to which steering is added, instead of the paper's claims.
    pub aqm: Vec<String>,
    /// Runs that the folder of results has already are not made again.
    pub resume: bool,
    /// Folder in which that of the results is made.
    pub out: PathBuf,
}

/// Figures of the paper.
pub static FIGURES: [Choice<&[Part]>; 12] = [
    Choice::new("5", "Throughput and 95 % delay over the number of flows", &[Part::Five]),
    Choice::new("6", "The same with short transfers of 64 MB between", &[Part::Six]),
    Choice::new("7", "Both parts of figure 7", &[Part::SevenA, Part::SevenB]),
    Choice::new("7a", "The set point when 34 flows come, and leave after 80 s", &[Part::SevenA]),
    Choice::new("7b", "The set point when 34 flows come and leave every 20 s", &[Part::SevenB]),
    Choice::new("8", "Both parts of figure 8", &[Part::EightA, Part::EightB]),
    Choice::new(
        "8a",
        "Throughput and delay with a utilization target of 95 % and a virtual queue",
        &[Part::EightA],
    ),
    Choice::new("8b", "That virtual queue over time", &[Part::EightB]),
    Choice::new(
        "text",
        "What the paper says without a figure (A1, A2, A14 at 80 %, A18 to A20)",
        &[Part::Text],
    ),
    Choice::new(bbr::NAME, "What flows of BBR do to steered and other queues; not of the paper", &[]),
    Choice::new(
        virtual_sweep::NAME,
        "Values that the paper leaves open, judged by figures 8a and 8b together and at a target of 80 %",
        &[],
    ),
    Choice::new("all", "All of the paper; with --rate or --quick without what has no figure", &Part::ALL),
];

/// Where they can run.
pub static ARMS: [Choice<Arm>; 2] = [
    Choice::new("lab", "Real TCP in network namespaces", Arm::Lab),
    Choice::new("sim", "The simulator", Arm::Sim),
];

/// The rate with real TCP, unless one is given: what one processor can forward with room to spare.
pub const LAB_RATE: &str = "1Gbit/s";

/// Repeats the figures.
///
/// # Errors
///
/// If the arguments do not fit together, or a run or its files could not be made.
pub fn reproduce(arguments: &Arguments, host: &dyn Host) -> Result<Report, Error> {
    let done = match arguments.arm {
        _ if arguments.series.is_some()
            && (arguments.figure.value.is_empty() || !arguments.aqm.is_empty()) =>
        {
            Err(Error::input("--series is for the figures of the paper alone: leave it out"))
        }
        _ if arguments.figure.value == [Part::Text] && (arguments.rate.is_some() || arguments.quick) => {
            let what = "what the paper tells without a figure has rates and lengths of its own";
            Err(Error::input(format!("{what}: leave out --rate and --quick")))
        }
        _ if !arguments.aqm.is_empty() => each::main(arguments, host),
        _ if arguments.figure.name == bbr::NAME => bbr::main(arguments, host),
        _ if arguments.figure.name == virtual_sweep::NAME => virtual_sweep::main(arguments, host),
        Arm::Sim => sim::main(arguments, host),
        #[cfg(feature = "live")]
        _ => lab::main(arguments, host),
        #[cfg(not(feature = "live"))]
        _ => Err(crate::no_live_links()),
    };
    done.map_err(|failure| blame(failure, arguments.rate.as_deref()))
}

/// Scenarios get the rate as a key; whoever gave `--rate` wrote no key and is told of the option.
fn blame(failure: Error, rate: Option<&str>) -> Error {
    match (failure, rate) {
        (Error::Input(text), Some(rate)) => {
            let set = format!("--set link.rate={rate}: ");
            Error::Input(text.replace(&set, &format!("--rate {rate}: ")))
        }
        (other, _) => other,
    }
}

/// Where the results go: named after what was run, and after what makes it another run.
fn folder(arguments: &Arguments, what: &str) -> PathBuf {
    let quick = if arguments.quick { "-quick" } else { "" };
    // However it was spelled; one that is none is refused before anything is written.
    let named = |rate: &str| weir_units::parse_rate(rate).map_or(rate.to_string(), |rate| rate.to_string());
    let rate = arguments.rate.as_deref().map(named);
    let rate = rate.map_or(String::new(), |rate| format!("-{}", rate.replace('/', "p")));
    arguments.out.join(format!("steering-{what}{rate}{quick}"))
}

/// Packets of ordinary Ethernet.
const USUAL_MTU: u32 = 1500;

/// Name of the curve that a scenario belongs to, as in the paper.
fn series(scenario: &Scenario) -> String {
    let name = match scenario.aqm.name.as_str() {
        "tail_drop" => "TD".to_string(),
        other => other.to_uppercase(),
    };
    match (&scenario.policy, scenario.aqm.setpoint()) {
        (Some(_), _) if scenario.path.mtu > USUAL_MTU => format!("{name}-AS, MTU {}", scenario.path.mtu),
        (Some(_), _) => format!("{name}-AS"),
        (None, Some(setpoint)) => format!("{name} {setpoint}"),
        (None, None) => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choice::by_name;

    /// Arguments for the simulator.
    pub fn arguments(figure: &str, quick: bool) -> Arguments {
        let (figure, out) = (by_name(&FIGURES, figure).expect("a figure"), PathBuf::from("out"));
        let (rate, seeds, series, aqm, resume) = (None, None, None, Vec::new(), false);
        Arguments { figure, arm: Arm::Sim, quick, rate, seeds, series, aqm, resume, out }
    }

    #[test]
    fn a_folder_has_one_name_however_its_rate_is_spelled() {
        let at = |rate: &str| Arguments { rate: Some(rate.into()), ..arguments("5", false) };
        let of = |rate: &str| folder(&at(rate), "figure5-sim");
        for rate in ["1Gbit/s", "1000Mbit/s", "1 Gbit/s"] {
            assert_eq!(of(rate), PathBuf::from("out/steering-figure5-sim-1Gbitps"), "{rate}");
        }
    }

    #[test]
    fn the_option_is_blamed_and_not_the_key_it_sets() {
        let of = |text: &str| match blame(Error::Input(text.into()), Some("0")) {
            Error::Input(text) => text,
            other => panic!("{other:?}"),
        };
        assert_eq!(of("--set link.rate=0: key `link.rate`: is 0"), "--rate 0: key `link.rate`: is 0");
        assert_eq!(of("figure.toml:3: is wrong"), "figure.toml:3: is wrong");
    }
}
