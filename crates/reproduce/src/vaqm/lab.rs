//! The cell in network namespaces, with the kernel's TCP and quinn's QUIC.

use super::Arguments;
use super::cases::{Case, Transport, all};
use super::measured::{Run, Values};
use super::results::{folder, publish};
use crate::host::{Error, Host, Report, at_a_time, waits};
use crate::journal::{Attempt, Journal, STALLED_MAX};
use crate::runs::{NestedCase, Planned, lasting, times};
use crate::statistics::{mean, sorted};
use std::time::Duration;
use weir_config::{RunConfig, Upstream};
use weir_lab::SideBySide;
use weir_lab::cell::{self, CellConfig, CellResult, LoadBy};
use weir_units::Rate;

/// Length of a run and its beginning, which is not measured, in seconds. As long as a run in the simulator:
/// each page of QUIC begins with a slow start, so that runs differ more the shorter they are.
fn length(quick: bool) -> (u64, u64) {
    if quick { (24, 9) } else { (120, 10) }
}

/// What the bump in the wire has beside the scenario: all phones share it, so that each has an instance of
/// its own.
const CORE: &str =
    "upstream = \"inform\"\nqueue = { discipline = \"user\", users = 64 }\naqm = { name = \"vaqm\" }\n";
/// The same of the base station: phones take turns, and each has a FIFO of its own. Its limit in time is
/// none, so that its room is the only one.
const STATION: &str = "rate = \"1Gbit/s\"\nbuffer = \"8MB\"\ncatch_up = \"10ms\"\n\
    aqm = { name = \"tail_drop\", limit = \"60s\" }\n";

fn parse(name: &str, text: &str) -> Result<RunConfig, Error> {
    let text = format!("[ports]\na = \"a\"\nb = \"b\"\n[a_to_b]\n{text}");
    RunConfig::parse(name, &text).map_err(Error::input)
}

/// A run of a case: what its scenario says, as boxes before the phones.
pub fn config(case: Case, quick: bool) -> Result<CellConfig, Error> {
    let (length, warmup) = length(quick);
    let scenario = case.scenario(false)?;
    let named = |name: &str| scenario.links.iter().find(|link| link.name == name);
    let names = ["sense1", "radio1", "up1", "from_server", "to_server"];
    let [Some(sense), Some(radio), Some(up), Some(from_server), Some(to_server)] = names.map(named) else {
        return Err(Error::input(format!("{}: not the cell of the article", scenario.title)));
    };
    let mut core = parse("core", if sense.upstream == Upstream::Off { "" } else { CORE })?;
    if sense.upstream != Upstream::Off {
        core.a_to_b.upstream = sense.upstream;
        core.a_to_b.aqm.clone_from(&sense.aqm);
    }
    core.b_to_a.delay = from_server.delay + to_server.delay;
    let room = radio.shape.buffer.bytes(Rate::ZERO);
    let queue = format!("queue = {{ discipline = \"user\", users = 64, user_memory = \"{room}\" }}\n");
    let mut cell = parse("cell", &format!("{STATION}{queue}"))?;
    cell.a_to_b.link.rate = None;
    cell.a_to_b.link.accounting = radio.shape.accounting;
    cell.a_to_b.delay = radio.delay;
    cell.b_to_a.delay = up.delay;
    Ok(CellConfig {
        phones: scenario.links.iter().filter(|link| link.medium == radio.medium).count() as u32,
        by: match case.protocol {
            Transport::Tcp => LoadBy::Tcp,
            Transport::Quic => LoadBy::Quic,
        },
        core,
        cell,
        radio: radio.variation.clone(),
        duration: Duration::from_secs(length),
        warmup: Duration::from_secs(warmup),
    })
}

/// Repeats the test.
pub fn main(arguments: &Arguments, host: &dyn Host) -> Result<Report, Error> {
    let measure = |case: Case, turns: &SideBySide, go_on: &mut dyn FnMut() -> bool| {
        let turn = || turns.exclusive(waits(host));
        let result = cell::run(&config(case, arguments.quick)?, turn, go_on)?;
        Ok((result, None))
    };
    repeat(arguments, NOTE, host, measure)
}

/// Has every case measured as often as is wanted, says what came of each, with the line that is given beside
/// it, and publishes all.
pub fn repeat(
    arguments: &Arguments,
    note: &str,
    host: &dyn Host,
    measure: impl Fn(Case, &SideBySide, &mut dyn FnMut() -> bool) -> Result<(CellResult, Option<String>), Error>
    + Sync,
) -> Result<Report, Error> {
    // Whoever may not do it need not hear how long it would take.
    cell::allowed()?;
    let folder = folder(arguments);
    host.prepare(&folder)?;
    let title = |planned: &Planned<NestedCase<Case>>| {
        format!("{} signal, {}", planned.case.signal.name(), planned.case.series())
    };
    let journal = Journal::begin(&folder, arguments.resume, host)?;
    let most = |_: &Planned<NestedCase<Case>>| STALLED_MAX;
    let done = journal.live(&plan(arguments)?, arguments.jobs, host, title, most, |planned, turns| {
        let (mut result, beside) = measure(*planned.case, turns, &mut || !host.is_interrupted())?;
        let warnings = std::mem::take(&mut result.warnings);
        let stalled = format!("stalled {:.2} % of the time", result.stalled_share * 100.0);
        let values = values_of(result);
        let told = format!(
            "RTT p50 {:.0} ms, p95 {:.0} ms, page {:.2} s, {:.1} Mbit/s",
            values.rtt_median_ms,
            values.rtt_p95_ms,
            values.page_s.unwrap_or(f64::NAN),
            values.goodput_mbps
        );
        let warned = warnings.iter().map(|warning| format!("warning: {warning}"));
        let told = [format!("{told}, {stalled}")].into_iter().chain(beside).chain(warned);
        let told = told.collect::<Vec<_>>().join("\n  ");
        Ok(Attempt::new(Run { warnings: Some(warnings), ..Run::of(planned, values) }, told))
    })?;
    let (length, warmup) = length(arguments.quick);
    let note = format!("{note} Runs of {length} s, of which {} s are measured.", length - warmup);
    let note = std::iter::once(note).chain(at_a_time(arguments.jobs)).collect::<Vec<_>>().join(" ");
    publish(done, note, arguments, &folder, host)
}

/// Every run, with the length that it has here.
fn plan(arguments: &Arguments) -> Result<Vec<Planned<NestedCase<Case>>>, Error> {
    let seeds = times(arguments.seeds, arguments.quick, 5);
    let mut plan = Vec::new();
    for case in all() {
        let scenario = lasting(case.scenario(false)?, length(arguments.quick));
        plan.extend(Planned::repeated(&NestedCase { case }, &scenario, seeds));
    }
    // One of each first, so that a campaign that is ended has all cases.
    plan.sort_by_key(|planned| planned.seed);
    Ok(plan)
}

/// What was measured, as claims ask for it.
fn values_of(result: CellResult) -> Values {
    let means = [result.pages_s, result.images_s].map(|s| (!s.is_empty()).then(|| mean(s)));
    let stalled_share = Some(result.stalled_share);
    Values { stalled_share, ..Values::new(sorted(result.rtts_ms), means, result.goodput_bps / 1e6) }
}

/// What stands under the claims, but for the length of the runs.
const NOTE: &str = "The test of the article in network namespaces: four phones share a radio cell whose rate follows a trace, 62 Mbit/s on \
         average with a strong signal and 32 with a weak one, each with a drop-tail buffer of 1 MB in the base station. \
         Three download by the kernel's TCP without end; the fourth loads a page of 1 MB and an image of 16 MB again and \
         again, by TCP or by QUIC (quinn). Senders are CUBIC. vAQM is `weir run`'s data plane before the cell: it \
         signals, or shapes with CoDel at a rate that follows the cell; each phone has an instance of its own. \
         Round trips are the smoothed ones of the fourth phone's senders, the kernel's or quinn's.";

#[cfg(test)]
mod tests {
    use super::super::cases::{Form, Signal};
    use super::*;
    use crate::journal::Measurement;

    #[test]
    fn every_case_is_a_valid_configuration() {
        for case in all() {
            let config = config(case, true).unwrap_or_else(|e| panic!("{e:?}"));
            assert_eq!(config.core.warnings(), Vec::<String>::new());
            assert!(config.radio.trace().is_some() && config.cell.a_to_b.link.rate.is_none());
            let (core, cell, ms) = (&config.core, &config.cell, weir_units::Duration::from_millis);
            assert_eq!((config.phones, config.radio.jitter), (4, ms(8)));
            let delays = [core.b_to_a.delay, cell.a_to_b.delay, cell.b_to_a.delay];
            assert_eq!(delays, [ms(20); 3], "60 ms in all");
            let room = cell.a_to_b.queue.settings.iter().find(|(name, _)| *name == "user_memory");
            assert_eq!(room.map(|(_, room)| room.to_string()).as_deref(), Some("1MB"));
            assert_eq!(
                config.core.a_to_b.upstream.as_str(),
                match case.form {
                    Form::Off => "off",
                    Form::Signals => "inform",
                    Form::Shaper => "follow",
                    Form::Largest => "follow_largest",
                }
            );
        }
        let average = |signal| {
            let of_signal = all().into_iter().find(|case| case.signal == signal).unwrap();
            config(of_signal, true).unwrap().radio.trace().unwrap().average_rate()
        };
        assert!(average(Signal::Weak) < average(Signal::Strong));
    }

    /// A campaign that is ended after a while can be judged.
    #[test]
    fn every_case_is_run_once_before_one_is_run_again() {
        let (arm, out) = (super::super::Arm::Lab, "out".into());
        let plan = plan(&Arguments { arm, quick: false, seeds: None, jobs: 1, resume: false, out }).unwrap();
        let cases = all().len();
        assert_eq!(plan.len(), 5 * cases);
        assert!(plan.iter().enumerate().all(|(at, planned)| planned.seed == (at / cases) as u64));
    }

    #[test]
    fn a_run_is_what_was_measured() {
        let result = CellResult {
            rtts_ms: vec![30.0, 10.0, 20.0],
            pages_s: vec![1.0, 2.0],
            goodput_bps: 5e7,
            stalled_share: 0.07,
            ..CellResult::default()
        };
        let run = values_of(result);
        // A result of before, which does not tell it, is read all the same.
        let mut told = serde_json::to_value(&run).unwrap();
        assert_eq!((run.stalled_share(), told["stalled_share"].as_f64()), (Some(0.07), Some(0.07)));
        told.as_object_mut().unwrap().remove("stalled_share");
        assert_eq!(serde_json::from_value::<Values>(told).unwrap().stalled_share(), None);
        assert_eq!(
            (run.rtt_median_ms, run.page_s, run.image_s, run.goodput_mbps),
            (20.0, Some(1.5), None, 50.0)
        );
    }
}
