//! What the paper tells of a queue that is made for another rate: a run of its own.

use crate::host::{Error, Host};
use crate::runs::{Planned, Run, run_all, simulate};
use weir_config::Document;
use weir_units::Rate;

/// The rate for which the queue was made, and the one that it gets, in Mbit/s.
const RATES: [u64; 2] = [50, 2];

/// Largest delays of a queue of 625 kB at both rates, in ms. Nothing if the runs were interrupted.
pub fn oversized(host: &dyn Host) -> Result<Option<[f64; 2]>, Error> {
    let (name, text) = scenario_file!("asqm_text.toml");
    let scenario = Document::parse(name, text).and_then(|file| file.scenario()).map_err(Error::input)?;
    let planned = |rate: u64| {
        let mut scenario = scenario.clone();
        scenario.link.shape.rate = Some(Rate::from_mbps(rate));
        Planned { case: rate, seed: 0, scenario }
    };
    let plan = RATES.map(planned);
    let runs: Vec<Run<u64, f64>> = run_all(&plan, host, |planned, progress| {
        let most = |recording: weir_measure::result::Recording, ()| {
            recording.summary.links.first().map_or(f64::NAN, |link| link.delay_ms.max)
        };
        simulate(planned, (), progress, most)
    })?;
    let delays: Vec<f64> = runs.iter().map(|run| run.values).collect();
    Ok(<[f64; 2]>::try_from(delays).ok())
}
