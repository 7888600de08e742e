//! `weir check`: is a file a valid scenario or configuration, and what is in force.

use crate::output::{Done, Failure, Output, warn};
use crate::results;
use crate::simulate::{Unknown, unknown};
use std::path::PathBuf;
use std::process::ExitCode;
use weir_config::{RunConfig, Scenario, SteerConfig, UpfConfig};

/// Validate a scenario (for `weir lab` and `weir sim`) or a configuration (for `weir run`, `weir steer` or
/// `weir upf`). All problems are told at once, each with its line and remedy. Ports and cores that a
/// configuration names and this machine lacks are warnings.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The file.
    file: PathBuf,
    /// Change a key before checking, such as `run.duration=5s`. Can be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Print the file with every parameter that is in force, its meaning and range.
    #[arg(long)]
    print: bool,
}

const EXAMPLES: &str = "Examples:
  weir check data/scenarios/demo.toml
  weir check bridge.toml --print                       every parameter in force, with meaning and range
  weir check data/scenarios/demo.toml --set aqm.name=codel  as it would be with another algorithm";

enum Checked {
    Scenario(Box<Scenario>),
    Config(Box<RunConfig>),
    Upf(Box<UpfConfig>),
    Steer(Box<SteerConfig>),
}

/// Runs the verb.
pub fn main(arguments: Arguments, output: &Output) -> Done {
    let document = results::document(&arguments.file, &arguments.set)?;
    // What no scenario has tells a configuration, also where the rest is missing; only a user-plane function
    // is told of sessions.
    let has_any = |names: &[&str]| names.iter().any(|name| document.has_table(name));
    let checked = if has_any(&["n3", "n4", "n6"]) {
        Checked::Upf(Box::new(document.upf_config().map_err(Failure::input)?))
    } else if has_any(&["queues", "steer"]) {
        Checked::Steer(Box::new(document.steer_config().map_err(Failure::input)?))
    } else if has_any(&["ports", "a_to_b", "b_to_a", "fail_open"]) {
        Checked::Config(Box::new(document.run_config().map_err(Failure::input)?))
    } else {
        Checked::Scenario(Box::new(document.scenario().map_err(Failure::input)?))
    };
    if let Checked::Config(config) = &checked {
        here::plans(config, &arguments.file)?;
    }
    let (kind, text, warnings, points) = match &checked {
        Checked::Scenario(s) => {
            let points = s.expand();
            let mut warnings = s.warnings();
            warnings.extend(not_simulated(points.iter().map(|p| &p.scenario)));
            ("scenario", s.to_toml(), warnings, points.len())
        }
        Checked::Config(c) => ("configuration", c.to_toml(), [c.warnings(), here::run(c)].concat(), 1),
        Checked::Steer(c) => ("configuration", c.to_toml(), here::steer(c), 1),
        Checked::Upf(c) => ("configuration", c.to_toml(), [c.warnings(), here::upf(c)].concat(), 1),
    };
    let file = arguments.file.display().to_string();
    let json = serde_json::json!({
        "file": file, "kind": kind, "valid": true, "points": points, "warnings": warnings, "in_force": text,
    });
    let told = warnings.iter().map(|warning| format!("warning: {warning}"));
    if arguments.print && !output.json {
        // What is printed is a file for the next program.
        told.for_each(warn);
        output.result(&json, || text.clone());
        return Ok(ExitCode::SUCCESS);
    }
    output.result(&json, || {
        let sweep = if points > 1 { format!(", {points} points") } else { String::new() };
        std::iter::once(format!("{file}: a valid {kind}{sweep}"))
            .chain(told)
            .map(|line| line + "\n")
            .collect()
    });
    Ok(ExitCode::SUCCESS)
}

/// What this machine lacks for a configuration.
#[cfg(feature = "live")]
mod here {
    use crate::control::customers::Customers;
    use crate::output::Failure;
    use crate::verbs::run::check_core;
    use std::collections::BTreeSet;
    use std::path::Path;
    use weir_config::{RunConfig, SteerConfig, UpfConfig};
    use weir_dataplane::Interface;
    use weir_lab::host;

    /// Refuses a file of plans that is wrong.
    pub fn plans(config: &RunConfig, file: &Path) -> Result<(), Failure> {
        Customers::open(config, file).map(drop)
    }

    pub fn run(config: &RunConfig) -> Vec<String> {
        let core = check_core(config, &host::cpus().allowed).err();
        let core = core.map(|failure| told(failure.text()));
        ports(&[&config.ports.a, &config.ports.b], true).into_iter().chain(core).collect()
    }

    pub fn steer(config: &SteerConfig) -> Vec<String> {
        let names: BTreeSet<&str> = config.queues.iter().map(|queue| queue.interface.as_str()).collect();
        names.into_iter().filter_map(|name| Interface::find(name).err()).map(told).collect()
    }

    pub fn upf(config: &UpfConfig) -> Vec<String> {
        let local = config.local.as_ref().map(|local| &local.port);
        ports(&[&config.n3.port, &config.n6.port].into_iter().chain(local).collect::<Vec<_>>(), false)
    }

    fn ports(names: &[&String], is_wire: bool) -> Vec<String> {
        let names: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
        weir_dataplane::problems_of_ports(&names, is_wire).into_iter().map(told).collect()
    }

    fn told(problem: impl std::fmt::Display) -> String {
        format!("on this machine: {problem}")
    }
}

/// A build without live links cannot run configurations, and knows no ports.
#[cfg(not(feature = "live"))]
mod here {
    use crate::output::Failure;
    use std::path::Path;
    use weir_config::{RunConfig, SteerConfig, UpfConfig};

    /// They are checked where they can be put into force.
    pub fn plans(_: &RunConfig, _: &Path) -> Result<(), Failure> {
        Ok(())
    }

    const UNSEEN: &str = "this build of weir looks at neither ports nor cores";

    pub fn run(_: &RunConfig) -> Vec<String> {
        vec![UNSEEN.into()]
    }

    pub fn steer(_: &SteerConfig) -> Vec<String> {
        vec![UNSEEN.into()]
    }

    pub fn upf(_: &UpfConfig) -> Vec<String> {
        vec![UNSEEN.into()]
    }
}

/// Congestion controls that only a kernel can have, or nobody: a slip would be told only when it is run.
fn not_simulated<'a>(points: impl Iterator<Item = &'a Scenario>) -> Vec<String> {
    let mut told = Vec::new();
    for Unknown { group, name, remedy } in points.flat_map(unknown) {
        let warning = format!(
            "key `flows.{group}.congestion`: the simulator has no congestion control `{name}`, so `weir sim` refuses \
             it; `weir lab` takes it if the kernel has it. Remedy: {remedy}"
        );
        if !told.contains(&warning) {
            told.push(warning);
        }
    }
    told
}
