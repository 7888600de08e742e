//! How fast the simulator is: packets per second of wall time in three scenarios.
//!
//! `cargo run --release -p weir-sim --example speed [NAME]`

use std::ops::ControlFlow;
use std::time::Instant;
use weir_scenario::Scenario;

struct Case {
    name: &'static str,
    text: &'static str,
}

const CASES: [Case; 4] = [
    Case {
        name: "20_codel_1g",
        text: "title = \"20 flows, CoDel, 1 Gbit/s\"\n[link]\nrate = \"1Gbit/s\"\n[path]\nrtt = \"50ms\"\n\
               [aqm]\nname = \"codel\"\n[[flows]]\ncount = 20\n[run]\nduration = \"60s\"\nwarmup = \"5s\"\n",
    },
    Case {
        name: "36_gsp_10g",
        text: "title = \"36 flows, GSP, 10 Gbit/s\"\n[link]\nrate = \"10Gbit/s\"\n[path]\nrtt = \"50ms\"\n\
               [aqm]\nname = \"gsp\"\n[policy]\n[[flows]]\ncount = 36\n[run]\nduration = \"10s\"\nwarmup = \"2s\"\n",
    },
    Case {
        name: "2_codel_100g",
        text: "title = \"2 flows, CoDel, 100 Gbit/s\"\n[link]\nrate = \"100Gbit/s\"\n[path]\nrtt = \"20ms\"\n\
               [aqm]\nname = \"codel\"\n[[flows]]\ncount = 2\n[run]\nduration = \"2s\"\nwarmup = \"500ms\"\n",
    },
    Case {
        name: "10000_codel_100g",
        text: "title = \"10000 flows, CoDel, 100 Gbit/s\"\n[link]\nrate = \"100Gbit/s\"\n[path]\nrtt = \"20ms\"\n\
               [aqm]\nname = \"codel\"\n[[flows]]\ncount = 10000\nstart_spread = \"100ms\"\n\
               [run]\nduration = \"2s\"\nwarmup = \"500ms\"\n",
    },
];

fn main() {
    let wanted = std::env::args().nth(1);
    for case in CASES.iter().filter(|c| wanted.as_ref().is_none_or(|w| c.name.contains(w.as_str()))) {
        let scenario = Scenario::parse(case.name, case.text).expect("the example's scenarios are valid");
        let start = Instant::now();
        let mut go_on = |_: weir_sim::Progress<'_>| ControlFlow::Continue(());
        let outcome = weir_sim::run(&scenario, 1, &mut go_on).expect("the example's scenarios run");
        let wall = start.elapsed().as_secs_f64();
        let link = &outcome.recording.summary.links[0];
        let simulated = scenario.run.duration.as_secs_f64();
        println!(
            "{:18} {:.2} M packets/s, {:.0} ns each, {:.1} x real time; utilization {:.4}, delay {:.2} ms, drops {}, \
             events per packet {:.2}, hash {:016x}",
            case.name,
            outcome.counts.hops as f64 / wall / 1e6,
            wall / outcome.counts.hops as f64 * 1e9,
            simulated / wall,
            link.utilization,
            link.delay_ms.mean,
            link.drops + link.overflows,
            outcome.counts.events as f64 / outcome.counts.hops as f64,
            outcome.trace_hash,
        );
    }
}
