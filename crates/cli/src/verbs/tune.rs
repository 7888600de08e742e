//! `weir tune`: the open parameters of the steering law, searched by Optuna in the Python package `weir`.

use crate::output::{Done, Failure, Output};
use std::ffi::OsString;
use std::process::{Command, ExitCode, ExitStatus};

/// Search the open parameters of the steering law over a set of scenarios, with Optuna.
///
/// The objective is stated: utilization less a price for each ms of 95 % delay, or with `--objective NAME`
/// a column such as one of the scenarios' `run.objectives`, on average over scenarios and seeds. Results are
/// the Pareto front of delay over utilization as a figure, and lines for a scenario. It takes the Python
/// package of Weir, which makes the runs: `pip install './python[tune]'`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Scenario files and options; `weir tune -- --help` lists them.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true, value_name = "SCENARIO")]
    arguments: Vec<OsString>,
}

const EXAMPLES: &str = "Examples:
  weir tune data/scenarios/demo.toml
  weir tune a.toml b.toml --trials 200 --seeds 5 --price 0.01 --out out/tune
  weir tune a.toml --search policy.margin=0..4 --search policy.memory_rate=1s..20s
  weir tune a.toml --objective power             an objective of the scenario, or another column of its sweeps
  weir tune a.toml --dask tcp://scheduler:8786   on the workers of a cluster
  WEIR_PYTHON=venv/bin/python weir tune a.toml   with the Python that has the package; else python3";

/// Runs the verb.
pub fn main(arguments: Arguments, output: &Output) -> Done {
    // Behind a scenario, options are those of Python. That one counts for what fails here, too.
    let mut output = *output;
    output.json |= arguments.arguments.iter().any(|argument| argument == "--json");
    Ok(tune(&arguments, &output).unwrap_or_else(|failure| output.failed(&failure)))
}

fn tune(arguments: &Arguments, output: &Output) -> Done {
    let python = std::env::var_os("WEIR_PYTHON").unwrap_or_else(|| "python3".into());
    let name = python.to_string_lossy().into_owned();
    let missing = |said: &str| {
        Failure::Failed(format!(
            "`weir tune` takes the Python package weir with Optuna, which {name} lacks: {said}. Remedy: python3 -m venv \
             venv && venv/bin/pip install './python[tune]', and WEIR_PYTHON=venv/bin/python"
        ))
    };
    let asked = Command::new(&python).args(["-c", "import weir.tune"]).output();
    let asked = asked.map_err(|e| missing(&e.to_string()))?;
    if !asked.status.success() {
        let said = String::from_utf8_lossy(&asked.stderr);
        return Err(missing(said.lines().last().unwrap_or("it says nothing").trim()));
    }
    let json = output.json.then_some("--json");
    let told =
        Command::new(&python).args(["-m", "weir", "tune"]).args(json).args(&arguments.arguments).status();
    let told = told.map_err(|e| missing(&e.to_string()))?;
    match told.code() {
        // What failed Python has told.
        Some(code) => Ok(u8::try_from(code).map_or(ExitCode::FAILURE, ExitCode::from)),
        None => Err(killed(told, &name)),
    }
}

/// What it means that Python ended without an exit status. It could not say so itself.
fn killed(told: ExitStatus, name: &str) -> Failure {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&told) {
        // From a terminal, or from whoever ends programs in order.
        if matches!(signal, libc::SIGINT | libc::SIGTERM) {
            return Failure::Interrupted(format!("{name} was interrupted by signal {signal}"));
        }
        return Failure::Failed(format!(
            "{name} ended by signal {signal}. Remedy: if memory ran out, which `dmesg` tells, fewer runs at \
             a time with --jobs; else install anew: venv/bin/pip install --force-reinstall './python[tune]'"
        ));
    }
    Failure::Failed(format!("{name} ended without an exit status: {told}"))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn only_a_request_to_end_is_an_interruption() {
        let requests = [libc::SIGINT, libc::SIGTERM];
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGKILL, libc::SIGSEGV] {
            let failure = killed(ExitStatus::from_raw(signal), "python3");
            assert_eq!(matches!(failure, Failure::Interrupted(_)), requests.contains(&signal), "{failure:?}");
            assert!(failure.text().contains(&format!("by signal {signal}")), "{failure:?}");
        }
    }
}
