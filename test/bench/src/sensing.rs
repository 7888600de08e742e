//! What probes cost a bump in the wire that does not shape, beside the same one without them.

use crate::error::{Error, Result};
use crate::forwarding::{Load, Options, offer, ready};
use crate::rows::{Row, all, median};
use crate::wire::{Manner, Weir, alone, channel};
use std::path::Path;
use weir_config::{Channel, RunConfig, SenseConfig};
use weir_lab::netns::{PORT_A, PORT_B};
use weir_lab::{Testbed, TestbedConfig, in_netns};
use weir_measure::result::Sensing;

const PART: &str = "sensing";
/// Connections, whose data probes follow and come back beside; and frames, each of which has to be looked at.
/// Probes behind the latter do not come back: nobody has the address that those frames go to.
const LOADS: [Load; 2] = [Load::Tcp(1), Load::Small];
/// Share of the rate that must be left.
const LEAST: f64 = 0.98;

/// Values of one kind of traffic, by round.
#[derive(Default)]
struct Values {
    blind: Vec<f64>,
    sensing: Vec<f64>,
    /// What became of the probes, in the last round.
    probes: Sensing,
}

/// Measures with and without probes, in turns.
pub fn run(options: Options) -> Vec<Row> {
    let blast = match ready() {
        Ok(blast) => blast,
        Err(error) => return vec![Row::skipped(PART, "everything", error.to_string())],
    };
    LOADS.into_iter().flat_map(|load| compare(load, turns(load, &blast, options))).collect()
}

/// Whoever is first takes turns as well, so that a machine that becomes slower hits both alike.
fn turns(load: Load, blast: &Path, options: Options) -> Result<Values> {
    let mut values = Values::default();
    for round in 0..options.rounds {
        let first = round % 2 == 0;
        for senses in [first, !first] {
            let (value, probes) = measure(senses, load, blast, options.seconds)?;
            let who = if senses { "with" } else { "without" };
            eprintln!("sensing: {}: round {round}: {who} probes {value:.3}", load.name());
            match probes {
                Some(probes) => {
                    values.sensing.push(value);
                    values.probes = probes;
                }
                None => values.blind.push(value),
            }
        }
    }
    Ok(values)
}

fn measure(senses: bool, load: Load, blast: &Path, seconds: u32) -> Result<(f64, Option<Sensing>)> {
    let _alone = alone()?;
    let testbed = Testbed::new(TestbedConfig::default())?;
    // A gateway forwards.
    in_netns(testbed.receiver(), || std::fs::write("/proc/sys/net/ipv4/ip_forward", "1"))??;
    let sense = if senses { Some(sense()?) } else { None };
    let manner = Manner { realtime: false, interrupts: load.best_interrupts(), sense };
    let weir = Weir::start(&testbed, channel("aqm = { name = \"gsp\" }")?, Channel::unshaped(), manner)?;
    let value = offer(&testbed, load, blast, seconds);
    let outcome = weir.finish()?;
    testbed.close()?;
    let [forward, _] = outcome.links;
    if senses && forward.sensing.is_none() {
        return Err(Error::new("the link was not sensed"));
    }
    Ok((value?, forward.sensing))
}

/// Probes as they are without further keys.
fn sense() -> Result<SenseConfig> {
    let text = format!(
        "[ports]\na = \"{PORT_A}\"\nb = \"{PORT_B}\"\n[a_to_b]\naqm = {{ name = \"gsp\" }}\n[sense]\nport = \"b\"\n"
    );
    let config = RunConfig::parse("bench", &text).map_err(|e| Error::new(e.to_string()))?;
    config.sense.into_iter().next().ok_or_else(|| Error::new("nothing is sensed"))
}

fn compare(load: Load, values: Result<Values>) -> Vec<Row> {
    let name = load.name();
    let values = match values {
        Ok(values) => values,
        Err(error) => return vec![Row::failed(PART, name, error.to_string())],
    };
    let row = |who: &str, values: &[f64]| {
        Row::told(PART, format!("{name}: {who} probes"), median(values), load.unit())
            .times(values.len() as u32)
            .note(format!("rounds: {}", all(values)))
    };
    let Values { blind, sensing, probes } = &values;
    // Rounds are compared one by one: what else the machine does changes more slowly.
    let ratios: Vec<f64> = sensing.iter().zip(blind).map(|(with, without)| with / without).collect();
    let ratio = Row::told(PART, format!("{name}: with / without"), median(&ratios), "").at_least(LEAST);
    let note = format!("of {} probes {} came back; rounds: {}", probes.sent, probes.returned, all(&ratios));
    vec![row("without", blind), row("with", sensing), ratio.times(ratios.len() as u32).note(note)]
}
