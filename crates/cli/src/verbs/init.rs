//! `weir init`: a configuration of `weir run` with comments, from what is asked, told and found.

use crate::output::{Done, Failure, Output, warn};
use std::fs::{self, OpenOptions};
use std::io::{self, BufRead, ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use weir_config::RunConfig;
use weir_dataplane::PortSurvey;
use weir_units::{Rate, parse_rate};

/// Write a configuration of `weir run`, with comments.
///
/// On a terminal it asks for what is not given, with what it found as the default; elsewhere it takes what it
/// found, or says what is missing. Nothing of the machine is changed. Rates come from `--rate`, from
/// `--measure`, or from what the drivers tell, of which 95 % are taken.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The file, which must not be there yet; without it the configuration is printed.
    file: Option<PathBuf>,
    /// The port towards the users.
    #[arg(long, value_name = "PORT")]
    a: Option<String>,
    /// The port towards the network.
    #[arg(long, value_name = "PORT")]
    b: Option<String>,
    /// Rate of what enters at a and leaves at b, such as 40Mbit/s.
    #[arg(long, value_name = "RATE", value_parser = rate)]
    rate: Option<Rate>,
    /// Rate of the other direction, which is left alone without it.
    #[arg(long, value_name = "RATE", value_parser = rate)]
    rate_back: Option<Rate>,
    /// Look for so many seconds at what port b sends and receives, while a speed test fills the link, and
    /// take 95 % of the busiest second as the rates.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(2..=3600))]
    measure: Option<u64>,
    /// Utilization below which the set point is raised.
    #[arg(long, value_name = "SHARE", default_value = "99%")]
    utilization_low: String,
    /// Largest set point.
    #[arg(long, value_name = "DURATION", default_value = "30ms")]
    target_max: String,
    /// How packets get in and out: auto, xdp-native, xdp-generic or af_packet.
    #[arg(long, default_value = "auto")]
    mode: String,
    /// Put the interfaces back when the run ends, instead of leaving the kernel forwarding.
    #[arg(long)]
    put_back: bool,
    /// Ask nothing.
    #[arg(long, short)]
    yes: bool,
    /// Put it in the place of a file that is there.
    #[arg(long)]
    force: bool,
}

const EXAMPLES: &str = "Examples:
  weir init bridge.toml                                             asks
  weir init --a eth1 --b eth2 --rate 40Mbit/s --rate-back 100Mbit/s
  sudo weir init /etc/weir/run/home.toml --a eth1 --b eth2 --measure 30 && sudo systemctl start weir@home";

/// Of a measured or told rate, so that packets wait here.
const SHARE: f64 = 0.95;
/// Less than that is no speed test.
const BUSY_MIN: u64 = 100_000;

fn rate(text: &str) -> Result<Rate, String> {
    parse_rate(text).map_err(|error| error.to_string())
}

/// A rate, and where it comes from.
#[derive(Clone, Debug, PartialEq)]
struct Found {
    rate: Rate,
    from: String,
}

/// What the file will say.
#[derive(Debug)]
struct Plan {
    a: String,
    b: String,
    a_is: String,
    b_is: String,
    mode: String,
    mode_is: String,
    forward: Option<Found>,
    backward: Option<Found>,
    low: String,
    most: String,
    keep: bool,
}

/// Runs the verb.
pub fn main(arguments: Arguments, output: &Output) -> Done {
    if let Some(file) = arguments.file.as_deref().filter(|file| file.exists() && !arguments.force) {
        return Err(Failure::Input(format!(
            "{} is there already. Remedy: name another file, or give `--force`",
            file.display()
        )));
    }
    let asks = !arguments.yes && !output.json && std::io::stdin().is_terminal();
    let survey = weir_dataplane::survey();
    let plan = plan(&arguments, &survey, &mut |question, default| {
        if asks { ask(question, default) } else { default.map(String::from) }
    })?;
    let text = written(&plan);
    let name = arguments.file.as_deref().unwrap_or(Path::new("configuration"));
    // What was given may be wrong, and is told by its key.
    let config = RunConfig::parse(&name.display().to_string(), &text).map_err(Failure::input)?;
    let mut warnings = config.warnings();
    warnings.extend([&plan.a, &plan.b].into_iter().filter_map(|port| not_taken(port, &survey)));
    warnings.iter().for_each(|warning| warn(format!("warning: {warning}")));
    if let Some(file) = &arguments.file {
        write(file, &text, arguments.force)?;
    }
    let json = serde_json::json!({
        "file": arguments.file.as_deref().map(|file| file.to_string_lossy()), "toml": text, "a": plan.a, "b": plan.b, "mode_here": plan.mode_is, "warnings": warnings,
    });
    output.result(&json, || match &arguments.file {
        Some(file) => {
            let file = file.display();
            format!("{file} is written. Look at it, then: weir check {file}; sudo weir run {file}")
        }
        None => text.clone(),
    });
    Ok(ExitCode::SUCCESS)
}

/// A new file.
fn create(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(text.as_bytes()).inspect_err(|_| {
        let _ = fs::remove_file(path);
    })
}

/// A file that appears whole or not at all.
fn write(file: &Path, text: &str, replaces: bool) -> Result<(), Failure> {
    let done = match replaces {
        true => weir_report::write_chosen(file, text).map_err(|error| error.source),
        false => create(file, text),
    };
    done.map_err(|error| {
        let remedy = match error.kind() {
            ErrorKind::NotFound => "make its folder first",
            ErrorKind::PermissionDenied => "run it as who may write there",
            _ => "name another file",
        };
        Failure::Failed(format!("cannot write {}: {error}. Remedy: {remedy}", file.display()))
    })
}

/// What is asked for, given or found. `ask` gets a question and what is taken where nothing is answered.
fn plan(
    arguments: &Arguments,
    survey: &[PortSurvey],
    ask: &mut dyn FnMut(&str, Option<&str>) -> Option<String>,
) -> Result<Plan, Failure> {
    let [guess_a, guess_b] = guessed(survey);
    let mut port = |given: &Option<String>, option: &str, question: &str, guess: Option<String>| match given {
        Some(name) => Ok(name.clone()),
        None => ask(question, guess.as_deref()).ok_or_else(|| missing(survey, option)),
    };
    let a = port(&arguments.a, "--a", "Port towards the users", guess_a.filter(|_| arguments.b.is_none()))?;
    let b = port(&arguments.b, "--b", "Port towards the network", guess_b.filter(|name| *name != a))?;
    let known = |name: &str| survey.iter().find(|port| port.name == name);
    let is = |name: &str| match known(name) {
        Some(port) => format!(
            "driver {}, MTU {}{}",
            port.driver.as_deref().unwrap_or("unknown"),
            port.mtu,
            if port.link { "" } else { ", no link now" }
        ),
        None => "not on this machine now".to_string(),
    };
    let (a_is, b_is) = (is(&a), is(&b));
    let mode = |name: &str| known(name).and_then(|port| port.mode.clone());
    let mode_is = match (mode(&a), mode(&b)) {
        (Some(a), Some(b)) if a == b => format!("here {a}"),
        (Some(mode_a), Some(mode_b)) => format!("here {mode_a} for {a} and {mode_b} for {b}"),
        _ => "`weir doctor` says which".to_string(),
    };
    let measured = arguments.measure.map(|seconds| measure(&b, seconds)).transpose()?;
    let (up, down) = measured.unzip();
    let told = driver_rate(&b).map(|rate| share(rate, format!("95 % of the {rate} that the driver tells")));
    let given = |rate: Option<Rate>| rate.map(|rate| Found { rate, from: "As it was given".into() });
    let found = given(arguments.rate).or(up);
    let forward = match found {
        Some(found) => found,
        None => asked_rate(ask, &format!("Rate towards {b}, such as 40Mbit/s"), told.clone())?
            .ok_or_else(|| no_rate(&b))?,
    };
    let backward = match given(arguments.rate_back).or(down) {
        Some(found) => Some(found),
        None if arguments.rate.is_some() => None,
        None => asked_rate(ask, &format!("Rate towards {a}, or `none` to leave it alone"), told)?,
    };
    Ok(Plan {
        a,
        b,
        a_is,
        b_is,
        mode: arguments.mode.clone(),
        mode_is,
        forward: Some(forward),
        backward,
        low: arguments.utilization_low.clone(),
        most: arguments.target_max.clone(),
        keep: !arguments.put_back,
    })
}

/// A rate that was answered, or else the one that was found.
fn asked_rate(
    ask: &mut dyn FnMut(&str, Option<&str>) -> Option<String>,
    question: &str,
    found: Option<Found>,
) -> Result<Option<Found>, Failure> {
    let default = found.as_ref().map(|found| found.rate.to_string());
    let Some(answer) = ask(question, default.as_deref()) else { return Ok(None) };
    if answer == "none" {
        return Ok(None);
    }
    let rate = rate(&answer).map_err(Failure::Input)?;
    Ok(Some(match found.filter(|found| found.rate == rate) {
        Some(found) => found,
        None => Found { rate, from: "As it was given".into() },
    }))
}

/// The two ports that are meant, where only two can be: interfaces of devices that a run would take.
fn guessed(survey: &[PortSurvey]) -> [Option<String>; 2] {
    let can = |port: &&PortSurvey| {
        port.mode.is_some() && Path::new("/sys/class/net").join(&port.name).join("device").exists()
    };
    let found: Vec<&PortSurvey> = survey.iter().filter(can).collect();
    match found.as_slice() {
        [a, b] => [Some(a.name.clone()), Some(b.name.clone())],
        _ => [None, None],
    }
}

fn missing(survey: &[PortSurvey], option: &str) -> Failure {
    Failure::Input(format!(
        "it is not clear which port is meant. Remedy: name it with `{option}`; {}",
        taken(survey)
    ))
}

/// The ports that a run would take, in words.
fn taken(survey: &[PortSurvey]) -> String {
    let can = survey.iter().filter(|port| port.mode.is_some());
    let names: Vec<&str> = can.map(|port| port.name.as_str()).collect();
    let names = if names.is_empty() { "none".to_string() } else { names.join(", ") };
    format!("ports that a run would take: {names}")
}

/// Why a run would refuse a port as it is now.
fn not_taken(name: &str, survey: &[PortSurvey]) -> Option<String> {
    let found = survey.iter().find(|port| port.name == name);
    let why = match found {
        None => "is not on this machine now",
        Some(port) if port.mode.is_none() => {
            "is no port for `weir run` as it is now, which `weir doctor` explains"
        }
        Some(_) => return None,
    };
    Some(format!("{name} {why}; {}", taken(survey)))
}

fn no_rate(port: &str) -> Failure {
    Failure::Input(format!(
        "the rate behind {port} is not known. Remedy: give it with `--rate`, or let `--measure 30` look while a speed test \
         fills the link"
    ))
}

fn share(rate: Rate, from: String) -> Found {
    // In whole kbit/s, which are read easily.
    let kbps = (rate.as_bps_f64() * SHARE / 1000.0).floor() as u64;
    Found { rate: Rate::from_bps(kbps.max(1) * 1000), from }
}

/// The rate that the driver of an interface tells, which some do not.
pub fn driver_rate(name: &str) -> Option<Rate> {
    // A virtual interface tells 10 Gbit/s, which is no link's rate.
    let folder = Path::new("/sys/class/net").join(name);
    if !folder.join("device").exists() {
        return None;
    }
    let mbps: u64 = std::fs::read_to_string(folder.join("speed")).ok()?.trim().parse().ok()?;
    (mbps > 0).then(|| Rate::from_mbps(mbps))
}

/// What the busiest second of a port was: sent and received.
fn measure(port: &str, seconds: u64) -> Result<(Found, Found), Failure> {
    warn(format!(
        "looking at {port} for {seconds} s: fill the link in both directions now, with a speed test"
    ));
    let look = |name: &str| -> Result<u64, Failure> {
        let file = Path::new("/sys/class/net").join(port).join("statistics").join(name);
        let text = std::fs::read_to_string(&file).map_err(|error| {
            Failure::Input(format!(
                "{port} cannot be looked at: {error}. Remedy: name an interface that is there"
            ))
        })?;
        Ok(text.trim().parse().unwrap_or(0))
    };
    let both = || Ok::<_, Failure>([look("tx_bytes")?, look("rx_bytes")?]);
    let (mut last, mut most) = (both()?, [0u64; 2]);
    for _ in 0..seconds {
        let begun = std::time::Instant::now();
        std::thread::sleep(Duration::from_secs(1));
        let (now, took_s) = (both()?, begun.elapsed().as_secs_f64());
        for (most, (now, last)) in most.iter_mut().zip(now.iter().zip(last)) {
            let bps = now.saturating_sub(last) as f64 * 8.0 / took_s;
            *most = (*most).max(bps as u64);
        }
        last = now;
    }
    busiest(port, most, seconds)
}

fn busiest(port: &str, most: [u64; 2], seconds: u64) -> Result<(Found, Found), Failure> {
    let [sent, received] = most.map(Rate::from_bps);
    if most.iter().any(|bps| *bps < BUSY_MIN) {
        return Err(Failure::Failed(format!(
            "{port} sent {sent} and received {received} in its busiest second, which is no load to measure. Remedy: \
             let a speed test run in both directions meanwhile, or give `--rate` and `--rate-back`"
        )));
    }
    let of = |rate: Rate| share(rate, format!("95 % of {rate}, the busiest of {seconds} s at {port}"));
    Ok((of(sent), of(received)))
}

/// A line that somebody types; nothing is the default.
fn ask(question: &str, default: Option<&str>) -> Option<String> {
    let shown = default.map_or(String::new(), |default| format!(" [{default}]"));
    let _ = write!(std::io::stderr(), "{question}{shown}: ");
    let mut line = String::new();
    let _ = std::io::stdin().lock().read_line(&mut line);
    let line = line.trim();
    if line.is_empty() { default.map(String::from) } else { Some(line.to_string()) }
}

/// The file.
fn written(plan: &Plan) -> String {
    let back = match &plan.backward {
        Some(_) => include_str!("init/back.toml").to_string(),
        None => "# What enters at {b} and leaves at {a} is left alone; a table [b_to_a] like the one above manages it.\n".into(),
    };
    let rate = |found: &Option<Found>| found.as_ref().map_or(String::new(), |found| found.rate.to_string());
    let from = |found: &Option<Found>| found.as_ref().map_or(String::new(), |found| found.from.clone());
    let values = [
        ("{back}", back),
        ("{a}", plan.a.clone()),
        ("{b}", plan.b.clone()),
        ("{a_is}", plan.a_is.clone()),
        ("{b_is}", plan.b_is.clone()),
        ("{mode}", plan.mode.clone()),
        ("{mode_is}", plan.mode_is.clone()),
        ("{forward}", rate(&plan.forward)),
        ("{forward_is}", from(&plan.forward)),
        ("{backward}", rate(&plan.backward)),
        ("{backward_is}", from(&plan.backward)),
        ("{low}", plan.low.clone()),
        ("{most}", plan.most.clone()),
        ("{keep}", plan.keep.to_string()),
    ];
    let template = include_str!("init/run.toml").to_string();
    values.iter().fold(template, |text, (name, value)| text.replace(name, value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn arguments(words: &[&str]) -> Arguments {
        Program::try_parse_from([&["init"], words].concat()).unwrap().arguments
    }

    fn planned(words: &[&str], answers: &[&str]) -> Result<Plan, String> {
        let mut answers = answers.iter();
        plan(&arguments(words), &[], &mut |_, default| match answers.next() {
            Some(&"") | None => default.map(String::from),
            Some(answer) => Some(answer.to_string()),
        })
        .map_err(|failure| failure.text().to_string())
    }

    #[test]
    fn what_is_written_is_a_configuration_that_says_what_was_given() {
        let words =
            ["--a", "x", "--b", "y", "--rate", "40Mbit/s", "--rate-back", "100Mbit/s", "--target-max", "7ms"];
        let text = written(&planned(&words, &[]).unwrap());
        let values = RunConfig::parse("f", &text).unwrap().values();
        for (key, value) in [
            ("ports.a", "\"x\""),
            ("a_to_b.rate", "\"40Mbit/s\""),
            ("b_to_a.rate", "\"100Mbit/s\""),
            ("b_to_a.policy.target_max", "\"7ms\""),
            ("fail_open.keep_forwarding", "true"),
        ] {
            assert_eq!(values[key], value, "{key}\n{text}");
        }
        assert!(
            !text.contains('{') || !text.lines().any(|line| line.contains("{a}") || line.contains("_is}")),
            "{text}"
        );
        let one = written(&planned(&words[..6], &[]).unwrap());
        assert!(!RunConfig::parse("f", &one).unwrap().values().contains_key("b_to_a.rate"), "{one}");
    }

    #[test]
    fn what_is_not_given_is_asked_for() {
        let plan = planned(&[], &["lan", "wan", "5Mbit/s", "none"]).unwrap();
        assert_eq!((plan.a.as_str(), plan.b.as_str()), ("lan", "wan"));
        assert_eq!((plan.forward.unwrap().rate, plan.backward), (Rate::from_mbps(5), None));
        assert!(planned(&[], &[]).unwrap_err().contains("--a"));
        assert!(planned(&["--a", "x", "--b", "y"], &[]).unwrap_err().contains("--measure 30"));
        assert!(planned(&["--a", "x", "--b", "y"], &["5 furlongs"]).is_err());
    }

    #[test]
    fn rates_are_ninety_five_percent_of_the_busiest_second() {
        let (sent, received) = busiest("y", [40_000_000, 100_000_000], 30).unwrap();
        assert_eq!((sent.rate, received.rate), (Rate::from_bps(38_000_000), Rate::from_mbps(95)));
        assert!(busiest("y", [40_000_000, 5_000], 30).unwrap_err().text().contains("speed test"));
        assert!(measure("no-such-port", 2).unwrap_err().text().contains("no-such-port"));
    }
}
