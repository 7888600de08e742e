//! `weir reflect`: turns the probes of another Weir around.

use crate::interrupt::{interrupted, is_cut_short};
use crate::log::{self, Entry};
use crate::output::{Done, Output, exit_status};
use crate::speaker::Speaker;
use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use weir_config::is_routed;
use weir_dataplane::{ReflectMode, Reflected, Reflector, ReflectorSetup, privileges};

/// Turn the probes of a `weir run` with `[sense]` around, until stopped.
///
/// For the far end of a link whose gateway does not bounce probes. What a peer sends to an address of the
/// interface goes back to it; probes of others are discarded, everything else is left alone. It is done by an
/// XDP program in the driver where that is available, which ends with this process. Needs root.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Interface where probes come in and go out.
    #[arg(long, value_name = "NAME")]
    interface: String,
    /// Who may send probes: the `sense.address` of a `weir run`. Can be repeated.
    #[arg(long, value_name = "ADDRESS", required = true, value_parser = host)]
    peer: Vec<IpAddr>,
    /// What probes are sent to, the `sense.target` of a `weir run`, instead of the addresses of the
    /// interface. Can be repeated.
    #[arg(long, value_name = "ADDRESS", value_parser = host)]
    address: Vec<IpAddr>,
    /// How probes are turned around.
    #[arg(long, value_enum, default_value = "auto")]
    mode: ModeChoice,
    /// How long to run, in seconds, instead of until stopped.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    duration: Option<u32>,
}

const EXAMPLES: &str = "Examples:
  weir reflect --interface eth0 --peer 203.0.113.7
  weir reflect --interface eth0 --address 2001:db8::1 --peer 2001:db8::7 --mode xdp-generic";

/// Reads an address that a probe can come from or go to, by the rule that `weir run` has for its own.
fn host(text: &str) -> Result<IpAddr, String> {
    let address = text.parse().map_err(|_| "it is no IP address; write one such as 192.0.2.1".to_string())?;
    if is_routed(&address) {
        return Ok(address);
    }
    Err("no probe comes from there; give an address of one host, and none that is valid on its link only"
        .into())
}

/// How probes are turned around.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum ModeChoice {
    /// The fastest that works.
    Auto,
    /// An XDP program in the driver.
    XdpNative,
    /// An XDP program behind the driver.
    XdpGeneric,
    /// This process, from a packet socket.
    User,
}

impl ModeChoice {
    fn mode(self) -> Option<ReflectMode> {
        match self {
            ModeChoice::Auto => None,
            ModeChoice::XdpNative => Some(ReflectMode::XdpNative),
            ModeChoice::XdpGeneric => Some(ReflectMode::XdpGeneric),
            ModeChoice::User => Some(ReflectMode::User),
        }
    }
}

/// Between two lines that tell how it goes.
const LINE_PERIOD: Duration = Duration::from_secs(10);

/// Runs the verb.
pub fn main(arguments: Arguments, output: &Output) -> Done {
    let stop = interrupted();
    let Arguments { interface, peer: peers, address: addresses, mode, duration } = arguments;
    let mode = mode.mode();
    let setup = ReflectorSetup { interface, peers, addresses, mode };
    let mut reflector = Reflector::open(&setup)?;
    log::about("reflect", &setup.interface);
    reflector.said().iter().for_each(|line| output.tell(&Entry::info("opening", line)));
    let open = format!("{}: reflecting, {}", setup.interface, reflector.mode());
    output.tell(&Entry::info("open", open).with("mode", reflector.mode()));
    let confined = privileges::confine(&[], &[]);
    confined.iter().for_each(|line| output.tell(&Entry::info("privileges", line)));
    match reflector.mode() {
        // The frames are read here; the sockets are open.
        ReflectMode::User => drop(privileges::leave_root()?),
        // The counters of the program are asked for with it, on kernels before 5.19.
        _ => privileges::keep(&[privileges::PROGRAMS])?,
    }
    // Its thread begins with what is left of rights.
    let mut speaker = Speaker::new(*output);
    let start = Instant::now();
    let end = duration.map(|s| Duration::from_secs(u64::from(s)));
    let (mut line_due, mut last) = (LINE_PERIOD, Reflected::default());
    while !stop.load(Ordering::Relaxed) && end.is_none_or(|end| start.elapsed() < end) {
        reflector.work(&stop)?;
        let now = reflector.reflected();
        if start.elapsed() >= line_due && now != last {
            let entry = Entry::debug("state", told(&now)).with("reflected", now.reflected);
            speaker.say(entry.with("refused", now.refused));
            (line_due, last) = (start.elapsed() + LINE_PERIOD, now);
        }
    }
    drop(speaker);
    let is_interrupted = is_cut_short(end.is_some());
    let counts = reflector.reflected();
    let json = serde_json::json!({
        "interface": setup.interface, "mode": reflector.mode().to_string(), "reflected": counts.reflected,
        "refused": counts.refused, "interrupted": is_interrupted,
    });
    output.result(&json, || told(&counts));
    Ok(exit_status(false, is_interrupted))
}

fn told(counts: &Reflected) -> String {
    format!("{} probes turned around, {} of strangers refused", counts.reflected, counts.refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_are_hosts_behind_routers() {
        for text in ["203.0.113.7", "2001:db8::7", "10.0.0.1"] {
            assert!(host(text).is_ok(), "{text}");
        }
        for text in
            ["0.0.0.0", "::", "127.0.0.1", "224.0.0.1", "255.255.255.255", "169.254.1.1", "fe80::1", "x"]
        {
            assert!(host(text).is_err(), "{text}");
        }
    }
}
