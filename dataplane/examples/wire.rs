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
    let direction = |name: &str, aqm: &str| DirectionSetup {
        name: name.into(),
        rate,
        accounting: Accounting::Line,
        buffer: rate.unwrap_or(Rate::from_mbps(1000)).bytes_in(Duration::from_millis(100)),
        delay,
        catch_up: Duration::from_millis(20),
        aqm: aqm.into(),
        settings: vec![],
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
        warmup: Duration::from_secs(2),
    };
    let (wire, _handle) = Loop::open(setup).unwrap();
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
}
