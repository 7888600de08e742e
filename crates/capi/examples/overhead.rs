//! What the border to C costs: the same packets through a queue of Rust and through libweir, in batches of
//! 32.
//!
//! `overhead` prints nanoseconds a packet of both, in rounds that take turns, and their difference; with
//! `rust N` or `c N` it passes N packets one way and says nothing, for whoever counts instructions.

use ::weir_aqm::{Algorithm, Ecn, Packet, algorithms::codel};
use ::weir_queue::{Arrival, Discipline, FlowQueue, Hosts, Limits, Setup, flow_queue};
use std::hint::black_box;
use std::time::Instant;
use weir_capi::abi::*;
use weir_units::{Bytes, Duration, Rate, Time};

const BATCH: usize = 32;
const STEP_NS: u64 = 20_000;
const CONFIG: &std::ffi::CStr =
    c"rate = '10Gbit/s'\nbuffer = '10MB'\npackets = 4096\nqueue.discipline = 'flow'\naqm.name = 'codel'";

/// 32 packets of 40 flows or so.
fn flow(n: usize) -> u32 {
    (n as u32).wrapping_mul(0x9e37_79b9) % 40
}

/// Passes packets through a queue of Rust.
pub fn through_rust(packets: u64) -> u64 {
    let limits = Limits { bytes: Bytes::new(10_000_000), packets: 4096 };
    let setup = Setup { limits, rate: Rate::from_mbps(10_000), seed: 0, grows: false };
    let codel = codel::CoDel::new(&codel::Params::default(), Time::ZERO);
    let params = flow_queue::Params::default();
    let mut queue = FlowQueue::guided(&params, codel, (), &setup);
    let (mut now, mut sum) = (Time::ZERO, 0);
    let mut out = [(0u64, false, 0u64); BATCH];
    for round in 0..packets / BATCH as u64 {
        for n in 0..BATCH {
            let arrival = Arrival {
                len: Bytes::new(1514),
                flow: black_box(flow(n + round as usize)),
                hosts: Hosts::UNKNOWN,
                ecn: Ecn::NotEct,
                nqb: false,
            };
            queue.enqueue(now, arrival, n as u64, &mut |_: &Packet, cookie, _| sum += cookie);
        }
        now += Duration::from_nanos(STEP_NS);
        for out in &mut out {
            let gone = queue.dequeue(now, &mut |_: &Packet, cookie, _| sum += cookie);
            *out = gone.map_or((0, false, 0), |gone| (gone.item, gone.marked, gone.sojourn.as_nanos()));
        }
        sum += black_box(&out)[0].0;
    }
    sum
}

/// Passes packets through libweir.
pub fn through_c(packets: u64) -> u64 {
    let options = weir_options { config: CONFIG.as_ptr(), ..weir_options::new() };
    let mut queue = std::ptr::null_mut();
    let (mut now, mut sum) = (0, 0);
    let mut given = [weir_packet { length: 1514, ..weir_packet::default() }; BATCH];
    let mut out = [weir_departure::default(); BATCH];
    let mut verdicts = [0; BATCH];
    // SAFETY: all pointers are to variables of this function.
    unsafe {
        assert_eq!(weir_queue_create(&options, &mut queue), WEIR_OK);
        for round in 0..packets / BATCH as u64 {
            for (n, packet) in given.iter_mut().enumerate() {
                packet.cookie = n as u64;
                packet.flow = black_box(flow(n + round as usize));
            }
            weir_queue_enqueue(queue, now, given.as_ptr(), BATCH as u32, verdicts.as_mut_ptr());
            now += STEP_NS;
            let count = weir_queue_dequeue(queue, now, out.as_mut_ptr(), BATCH as u32);
            assert_eq!(count, BATCH as i32);
            sum += black_box(&out)[0].cookie;
        }
        weir_queue_destroy(&mut queue);
    }
    sum
}

fn nanoseconds(pass: fn(u64) -> u64, packets: u64) -> f64 {
    let start = Instant::now();
    black_box(pass(packets));
    start.elapsed().as_secs_f64() * 1e9 / packets as f64
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[1..] {
        ["rust", packets] => drop(black_box(through_rust(packets.parse().expect("a number")))),
        ["c", packets] => drop(black_box(through_c(packets.parse().expect("a number")))),
        _ => {
            const PACKETS: u64 = 640_000;
            let mut pairs: Vec<(f64, f64)> = (0..31)
                .map(|_| (nanoseconds(through_rust, PACKETS), nanoseconds(through_c, PACKETS)))
                .collect();
            pairs.sort_by(|a, b| (a.1 - a.0).total_cmp(&(b.1 - b.0)));
            let (rust, c) = pairs[pairs.len() / 2];
            println!(
                "FlowQueue, batches of 32: {rust:.1} ns a packet in Rust, {c:.1} through C, {:+.1}",
                c - rust
            );
        }
    }
}
