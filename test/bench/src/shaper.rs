//! How exactly the shaper keeps its rate, counted at the receiver.

use crate::error::Result;
use crate::rows::Row;
use crate::tools;
use crate::traffic::{self, Flood};
use crate::wire::{Interrupts, Manner, Weir, alone, channel};
use std::path::Path;
use std::time::Duration;
use weir_config::Channel;
use weir_lab::{Testbed, TestbedConfig};

const PART: &str = "shaper";
const RATES_MBPS: [u32; 3] = [10, 100, 1000];
/// Largest deviation in percent.
const MOST_PERCENT: f64 = 0.5;
/// Frame with its check sequence, as the sender counts.
const FRAME: u32 = 1518;
/// What a frame takes on the line beyond the bytes that the receiver counts: check sequence, preamble, gap.
const UNCOUNTED: f64 = 24.0;
/// What is offered, as a multiple of the rate.
const OVERLOAD: f64 = 1.2;

/// Measures all rates over so many seconds each.
pub fn run(seconds: u32) -> Vec<Row> {
    let blast = ["ip", "tc"].iter().try_for_each(|t| tools::program(t).map(|_| ()));
    let blast = match blast.and_then(|()| tools::peer("udp_blast")) {
        Ok(blast) => blast,
        Err(error) => return vec![Row::skipped(PART, "everything", error.to_string())],
    };
    RATES_MBPS.into_iter().map(|rate| row(rate, &blast, seconds)).collect()
}

fn row(rate: u32, blast: &Path, seconds: u32) -> Row {
    eprintln!("shaper: {rate} Mbit/s");
    let what = format!("{rate} Mbit/s: deviation of the delivered rate");
    match measure(rate, blast, seconds) {
        Ok((delivered, stalled)) => {
            let percent = (delivered / f64::from(rate) - 1.0).abs() * 100.0;
            let note =
                format!("{delivered:.3} Mbit/s over {seconds} s; host stalled {:.2} %", stalled * 100.0);
            Row::told(PART, what, percent, "%").at_most(MOST_PERCENT).note(note)
        }
        Err(error) => Row::failed(PART, what, error.to_string()),
    }
}

/// Delivered rate in Mbit/s, by line accounting, and the share of time in which the host stalled.
fn measure(rate: u32, blast: &Path, seconds: u32) -> Result<(f64, f64)> {
    let _alone = alone()?;
    let testbed = Testbed::new(TestbedConfig::default())?;
    let keys = format!("rate = \"{rate}Mbit/s\"\ncatch_up = \"50ms\"\naqm = {{ name = \"gsp\" }}");
    let manner = Manner { realtime: true, interrupts: Interrupts::Kernel, sense: None };
    let weir = Weir::start(&testbed, channel(&keys)?, Channel::unshaped(), manner)?;
    let offered = f64::from(rate) * 1e6 * OVERLOAD / 8.0 / (f64::from(FRAME) - 4.0 + UNCOUNTED);
    let flood = Flood::start(&testbed, blast, FRAME, offered, f64::from(seconds) + 3.0)?;
    let arriving = traffic::arriving(&testbed, Duration::from_secs(1), Duration::from_secs(seconds.into()));
    flood.finish()?;
    let outcome = weir.finish()?;
    testbed.close()?;
    let (frames, bytes) = arriving?;
    Ok(((bytes + frames * UNCOUNTED) * 8.0 / 1e6, outcome.host.stalled_share))
}
