//! Instructions of one enqueue and dequeue decision. Times are noisy, instructions are not:
//!
//! ```text
//! cargo build --release -p weir-steer --example instructions
//! for n in 100000 200000; do valgrind --tool=callgrind target/release/examples/instructions steered $n; done
//! ```
//!
//! The difference of the two totals, divided by 100000, is the cost of a packet. Forms: `plain` is GSP
//! alone, `steered` is GSP steered, `virtual` is GSP steered while it controls a virtual queue, `loop` is
//! the loop with nothing in it.

use std::hint::black_box;
use weir_aqm::algorithms::gsp::{Gsp, Params};
use weir_aqm::{Algorithm, Aqm, Ecn, Moment, Packet, Share, View};
use weir_steer::{Policy, Steered};
use weir_units::{Bytes, Duration, Rate, Time};

/// Packets of 1500 bytes back to back at 10 Gbit/s, through a queue 2 ms long.
fn run(aqm: &mut impl Aqm, packets: u64, delay: Duration) {
    let queue = View { backlog: Bytes::new(2_500_000), packets: 1667, delay, rate: Rate::from_mbps(10_000) };
    for seq in 0..packets {
        let now = Time::from_nanos(1200 * (seq + 1));
        let p = Packet { arrived: now, len: Bytes::new(1500), seq, flow: 1, ecn: Ecn::Ect0 };
        let m = Moment::new(now, queue, 0);
        let _ = black_box(aqm.on_enqueue(black_box(&m), black_box(&p)));
        let head = Packet { arrived: now - delay, ..p };
        let _ = black_box(aqm.on_dequeue(black_box(&m), black_box(&head)));
    }
}

struct Nothing;

impl Aqm for Nothing {}

fn main() {
    let mut args = std::env::args().skip(1);
    let form = args.next().expect("form: loop, plain, steered or virtual");
    let packets = args.next().and_then(|n| n.parse().ok()).expect("number of packets");
    let gsp = Gsp::new(&Params::default(), Time::ZERO);
    let delay = Duration::from_millis(2);
    let steered = |aim: f64| {
        let policy = Policy {
            utilization_low: Share(0.5),
            utilization_target: Share(aim),
            target_min_up: Duration::from_micros(if aim < 1.0 { 200 } else { 2500 }),
            ..Policy::default()
        };
        Steered::new(gsp.clone(), &policy, Time::ZERO, ()).expect("GSP can be steered")
    };
    match form.as_str() {
        "loop" => run(&mut Nothing, packets, delay),
        "plain" => run(&mut gsp.clone(), packets, delay),
        "steered" => run(&mut steered(1.0), packets, delay),
        "virtual" => {
            let mut aqm = steered(0.95);
            run(&mut aqm, packets, delay);
            println!("virtual queue: {:?}", aqm.virtual_queue());
        }
        other => panic!("no form {other}"),
    }
}
