//! A bump in the wire for trying things: `wire A B RATE_MBPS DELAY_MS AQM SECONDS [MODE]`.
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use weir_dataplane::*;
use weir_units::*;

fn main() {
    let arg: Vec<String> = std::env::args().collect();
    let rate: u64 = arg[3].parse().unwrap();
    let rate = (rate > 0).then(|| Rate::from_mbps(rate));
    let delay = Duration::from_millis(arg[4].parse().unwrap());
    let config = |rate: Option<Rate>, delay: Duration, aqm: &str| {
        let rate = rate.map_or(String::new(), |r| format!("rate = \"{r}\"\n"));
        let policy = if aqm == "steered" { "[a_to_b.policy]\n" } else { "" };
        let name = if aqm == "steered" { "gsp" } else { aqm };
        let text = format!(
            "[ports]\na = \"a\"\nb = \"b\"\n[a_to_b]\n{rate}delay = \"{delay}\"\ncatch_up = \"20ms\"\n{}{policy}",
            if rate.is_empty() { String::new() } else { format!("[a_to_b.aqm]\nname = \"{name}\"\n") },
        );
        weir_scenario::RunConfig::parse("arguments", &text).unwrap().a_to_b
    };
    let direction = |name: &str, aqm: &str| DirectionSetup {
        name: name.into(),
        channel: config(rate, delay, aqm),
    };
    let mode = match arg.get(7).map(String::as_str) {
        Some("native") => Some(Mode::XdpNative),
        Some("generic") => Some(Mode::XdpGeneric),
        Some("packet") => Some(Mode::AfPacket),
        _ => None,
    };
    let setup = Setup {
        ports: [arg[1].clone(), arg[2].clone()],
        mode,
        directions: [direction("a_to_b", &arg[5]), direction("b_to_a", "tail_drop")],
        fail_open_after: Duration::from_millis(200),
        core: Some(1),
        realtime: true,
        busy: true,
        journal: false,
        sample: Duration::from_millis(100),
        lead: Duration::ZERO,
        warmup: Duration::from_secs(2),
        duration: None,
    };
    let (wire, mut handle) = Loop::open(setup).unwrap();
    for line in wire.said() {
        eprintln!("{line}");
    }
    let stop = Arc::new(AtomicBool::new(false));
    let flag = stop.clone();
    let seconds: u64 = arg[6].parse().unwrap();
    std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_secs(seconds));
        flag.store(true, Ordering::Relaxed);
    });
    let outcome = wire.run(&stop).unwrap();
    println!("{outcome:#?}");
    for e in handle.events() {
        println!("{:.3} {} {:.2} -> {:.2} {:?}", e.t_s, e.rule, e.from, e.to, e.measured);
    }
}
