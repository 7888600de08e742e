//! An AQM of one's own on the bottleneck of a simulated network, beside CoDel:
//! `cargo run -p weir-examples --example own_aqm`.

use std::ops::ControlFlow;
use weir_aqm::{Aqm, Cause, Chance, Moment, Packet, Verdict};
use weir_config::Scenario;
use weir_sim::{Outcome, queue_of, run, run_prepared};
use weir_units::Duration;

/// Signals with a probability that grows with the queueing delay, from 0 at no delay to 10 % at 50 ms.
struct Ramp;

impl Aqm for Ramp {
    // Without this declaration the line below that reads random bits does not compile.
    const USES_RANDOM: bool = true;

    fn on_enqueue(&mut self, m: &Moment, p: &Packet) -> Verdict {
        let delay = m.queue.delay.as_secs_f64() / 0.050;
        if Chance::new(0.1 * delay.min(1.0)).hits(m.random_bits::<Self>()) {
            // A mark where the packet is ECN-capable, else a drop.
            Verdict::signal(p, true, Cause::Chance)
        } else {
            Verdict::Forward
        }
    }
}

const SCENARIO: &str = r#"
    title = "Four flows"
    [link]
    rate = "50Mbit/s"
    buffer = "200ms"
    [path]
    rtt = "30ms"
    [aqm]
    name = "codel"
    [[flows]]
    count = 4
    [run]
    duration = "20s"
    warmup = "5s"
"#;

fn print(name: &str, outcome: &Outcome) -> f64 {
    let link = &outcome.recording.summary.links[0];
    println!("{name}: {:.1} % used, 95 % delay {:.2} ms", 100.0 * link.utilization, link.delay_ms.p95);
    link.utilization
}

/// Runs the example.
pub fn main() {
    let scenario = Scenario::parse("example.toml", SCENARIO).expect("the scenario is valid");
    let go_on = &mut |_: weir_sim::Progress<'_>| ControlFlow::Continue(());
    let codel = run(&scenario, 1, go_on).expect("it runs");
    let rate = scenario.rate();
    let room = rate.bytes_in(Duration::from_millis(200));
    let prepare = |network: &mut weir_sim::Simulation<()>| {
        network.links_mut()[0].queue = queue_of(Ramp, room, rate, 1);
    };
    let ramp = run_prepared(&scenario, 1, prepare, go_on).expect("it runs");
    assert!(print("CoDel", &codel) > 0.9 && print("Ramp", &ramp) > 0.9);
}
