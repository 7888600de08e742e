//! The cell in network namespaces, with the kernel's TCP and quinn's QUIC.

use super::Arguments;
use super::cases::{By, Case, Form, all};
use super::measured::{Run, quantile};
use super::results::{folder, publish};
use crate::interrupt::is_interrupted;
use crate::output::{Done, Failure, Output};
use crate::results::prepare;
use std::time::Duration;
use weir_lab::cell::{self, CellConfig, CellResult, LoadBy};
use weir_scenario::{RunConfig, TraceFile, Variation};

/// Phones, the one that loads pages among them.
const PHONES: u32 = 4;
/// Length of a run and its beginning, which is not measured, in seconds.
pub const LENGTH_S: (u64, u64) = (60, 12);
/// The same of the short form.
pub const QUICK_S: (u64, u64) = (24, 9);
/// Radio protocols repeat what is lost, as in the simulated cell.
const JITTER: weir_units::Duration = weir_units::Duration::from_millis(8);

/// The bump in the wire as a user of `weir run` would configure it; the way back to the server takes 20 ms.
fn core(form: Form) -> Result<RunConfig, Failure> {
    let there = match form {
        Form::Off => "",
        Form::Signals => {
            "upstream = \"inform\"\nqueue = { discipline = \"user\", users = 64 }\naqm = { name = \"vaqm\" }\n"
        }
        Form::Shaper => {
            "upstream = \"follow\"\nqueue = { discipline = \"user\", users = 64 }\naqm = { name = \"codel\", target = \"50ms\" }\n"
        }
    };
    parse("core", &format!("[a_to_b]\n{there}[b_to_a]\ndelay = \"20ms\"\n"))
}

/// The base station: phones take turns, and each has a FIFO of 1 MB. Its limit in time is none, so that this is the only one.
fn station() -> Result<RunConfig, Failure> {
    parse(
        "cell",
        "[a_to_b]\nrate = \"1Gbit/s\"\nbuffer = \"8MB\"\naccounting = \"ip\"\ndelay = \"20ms\"\ncatch_up = \"10ms\"\n\
         queue = { discipline = \"user\", users = 64, user_memory = \"1MB\" }\naqm = { name = \"tail_drop\", limit = \"60s\" }\n\
         [b_to_a]\ndelay = \"20ms\"\n",
    )
}

fn parse(name: &str, text: &str) -> Result<RunConfig, Failure> {
    let text = format!("[ports]\na = \"a\"\nb = \"b\"\n{text}");
    RunConfig::parse(name, &text).map_err(Failure::input)
}

/// A run of a case.
pub fn config(case: Case, quick: bool) -> Result<CellConfig, Failure> {
    let (length, warmup) = if quick { QUICK_S } else { LENGTH_S };
    let (path, trace) = case.signal.trace()?;
    let mut cell = station()?;
    cell.a_to_b.link.rate = None;
    Ok(CellConfig {
        phones: PHONES,
        by: match case.protocol {
            By::Tcp => LoadBy::Tcp,
            By::Quic => LoadBy::Quic,
        },
        core: core(case.form)?,
        cell,
        radio: Variation { trace: Some(TraceFile { path, trace }), jitter: JITTER, ..Variation::default() },
        duration: Duration::from_secs(length),
        warmup: Duration::from_secs(warmup),
    })
}

/// Repeats the test.
pub fn main(arguments: &Arguments, output: &Output) -> Done {
    let measure = |case: Case, go_on: &mut dyn FnMut() -> bool| {
        let result = cell::run(&config(case, arguments.quick)?, || waits(output), go_on)?;
        Ok((result, Vec::new()))
    };
    repeat(arguments, output, measure)
}

/// Says that the machine is taken.
pub fn waits(output: &Output) {
    output.say("waiting for another run on this machine to end");
}

/// Has every case measured as often as is wanted, says what came of each, with the lines that are given beside it, and
/// publishes all.
pub fn repeat(
    arguments: &Arguments,
    output: &Output,
    measure: impl Fn(Case, &mut dyn FnMut() -> bool) -> Result<(CellResult, Vec<String>), Failure>,
) -> Done {
    // Whoever may not do it need not hear how long it would take.
    cell::allowed()?;
    let folder = folder(arguments);
    prepare(&folder)?;
    let seeds = u64::from(arguments.seeds.unwrap_or(1));
    let cases: Vec<(Case, u64)> =
        all().into_iter().flat_map(|case| (0..seeds).map(move |n| (case, n))).collect();
    let seconds = if arguments.quick { QUICK_S.0 } else { LENGTH_S.0 } + 1;
    let minutes = (cases.len() as u64 * seconds) as f64 / 60.0;
    output.say(format!("{} runs, about {minutes:.0} min", cases.len()));
    let mut runs = Vec::new();
    for (n, (case, number)) in cases.iter().enumerate() {
        output.say(format!("[{}/{}] {} signal, {}", n + 1, cases.len(), case.signal.name(), case.series()));
        let (result, beside) = measure(*case, &mut || !is_interrupted())?;
        if is_interrupted() {
            output.say("interrupted: claims whose runs were not made are left out");
            break;
        }
        let run = run_of(*case, *number, result);
        output.say(format!(
            "  RTT p50 {:.0} ms, p95 {:.0} ms, page {:.2} s, {:.1} Mbit/s",
            run.rtt_median_ms,
            run.rtt_p95_ms,
            run.page_s.unwrap_or(f64::NAN),
            run.goodput_mbps
        ));
        beside.iter().for_each(|line| output.say(line));
        runs.push(run);
    }
    publish(runs, arguments, &folder, output)
}

/// What was measured, as claims ask for it.
fn run_of(case: Case, seed: u64, result: CellResult) -> Run {
    let mean =
        |values: &[f64]| (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
    let mut rtts_ms = result.rtts_ms;
    rtts_ms.sort_by(f64::total_cmp);
    Run {
        case,
        seed,
        rtt_median_ms: quantile(&rtts_ms, 0.5),
        rtt_p95_ms: quantile(&rtts_ms, 0.95),
        page_s: mean(&result.pages_s),
        image_s: mean(&result.images_s),
        goodput_mbps: result.goodput_bps / 1e6,
        trace_hash: None,
        rtts_ms,
    }
}

/// What stands under the claims.
pub fn note(quick: bool) -> String {
    let (length, warmup) = if quick { QUICK_S } else { LENGTH_S };
    format!(
        "The test of the article in network namespaces: four phones share a radio cell whose rate follows a trace, 62 Mbit/s on \
         average with a strong signal and 32 with a weak one, each with a drop-tail buffer of 1 MB in the base station. \
         Three download by the kernel's TCP without end; the fourth loads a page of 1 MB and an image of 16 MB again and \
         again, by TCP or by QUIC (quinn). Senders are CUBIC. vAQM is `weir run`'s data plane before the cell: it \
         signals, or shapes with CoDel at a rate that follows the cell; each phone has an instance of its own. \
         Round trips are the smoothed ones of the fourth phone's senders, the kernel's or quinn's. Runs of {length} s, of which \
         {} s are measured.",
        length - warmup
    )
}

#[cfg(test)]
mod tests {
    use super::super::cases::Signal;
    use super::*;

    #[test]
    fn every_case_is_a_valid_configuration() {
        for case in all() {
            let config = config(case, true).unwrap_or_else(|e| panic!("{e:?}"));
            assert_eq!(config.core.warnings(), Vec::<String>::new());
            assert!(config.radio.trace().is_some() && config.cell.a_to_b.link.rate.is_none());
            assert_eq!(
                config.core.a_to_b.upstream.as_str(),
                match case.form {
                    Form::Off => "off",
                    Form::Signals => "inform",
                    Form::Shaper => "follow",
                }
            );
        }
        assert!(
            Signal::Weak.trace().unwrap().1.average_rate() < Signal::Strong.trace().unwrap().1.average_rate()
        );
    }

    #[test]
    fn a_run_is_what_was_measured() {
        let case = all()[0];
        let result = CellResult {
            rtts_ms: vec![30.0, 10.0, 20.0],
            pages_s: vec![1.0, 2.0],
            goodput_bps: 5e7,
            ..CellResult::default()
        };
        let run = run_of(case, 0, result);
        assert_eq!(
            (run.rtt_median_ms, run.page_s, run.image_s, run.goodput_mbps),
            (20.0, Some(1.5), None, 50.0)
        );
    }
}
