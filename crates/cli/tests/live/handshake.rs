//! Short transfers with their handshakes, from SYN to the last byte: the kernel's TCP beside the simulator.

#[allow(dead_code, reason = "each file of tests uses a part of it")]
use crate::common;

use common::*;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use weir_config::{AqmConfig, Channel, Scenario};
use weir_dataplane::{DirectionSetup, Loop, Setup};
use weir_lab::{Side, Testbed, TestbedConfig, in_netns, netns};

const RATE: &str = "100Mbit/s";
/// Transfers of which the median is taken: on a machine that is late by milliseconds now and then, one of
/// tens of milliseconds is late by a tenth.
const EACH: usize = 3;

/// What a transfer takes in the simulator, in seconds.
fn simulated(bytes: usize, rtt_ms: u64) -> f64 {
    let text = format!(
        "title = \"x\"\nlink = {{ rate = \"{RATE}\" }}\npath.rtt = \"{rtt_ms}ms\"\naqm.name = \"tail_drop\"\n\
         [[flows]]\ntransfer = \"{bytes}B\"\nevery = \"2s\"\nhandshake = true\n[run]\nduration = \"5s\"\n"
    );
    let scenario = Scenario::parse("x", &text).unwrap();
    let outcome = weir_sim::run(&scenario, 1, &mut |_| ControlFlow::Continue(())).unwrap();
    outcome.recording.summary.flows[0].transfers.unwrap().mean_s.unwrap()
}

/// A delay line each way in the testbed's bottleneck, while `body` runs.
fn delayed<T>(testbed: &Testbed, rtt_ms: u64, body: impl FnOnce() -> T) -> T {
    let way = |name: &str, rate: Option<&str>| {
        let delay = weir_units::Duration::from_micros(rtt_ms * 500);
        let mut channel = Channel { delay, ..Channel::unshaped() };
        channel.link.rate = rate.map(|rate| weir_units::parse_rate(rate).unwrap());
        channel.aqm = rate.and_then(|_| AqmConfig::new("tail_drop"));
        DirectionSetup::new(name, channel)
    };
    let setup = Setup::in_namespace(netns::PORTS, [way("there", Some(RATE)), way("back", None)]);
    let (stop, (opened, opening)) = (Arc::<AtomicBool>::default(), mpsc::channel());
    let (stopped, namespace) = (stop.clone(), testbed.bottleneck().to_string());
    let thread = std::thread::spawn(move || {
        let run = || {
            let (looping, handle) = Loop::open(setup).unwrap();
            opened.send(handle).unwrap();
            looping.run(&stopped).unwrap();
        };
        in_netns(&namespace, run).unwrap();
    });
    let _handle = opening.recv().unwrap();
    let result = body();
    stop.store(true, Ordering::Relaxed);
    thread.join().unwrap();
    result
}

/// What a transfer takes through the testbed, and what of it the handshake does; every byte has to arrive.
fn transferred(testbed: &Testbed, bytes: usize) -> (f64, f64) {
    let to = netns::address(Side::Receiver, false, false);
    let listener = in_netns(testbed.receiver(), || TcpListener::bind((to, 0)).unwrap()).unwrap();
    let target = listener.local_addr().unwrap();
    let receiving = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let (mut buffer, mut received) = (vec![0; 1 << 20], 0);
        while received < bytes {
            let n = stream.read(&mut buffer).unwrap();
            assert!(n > 0, "the connection ended after {received} of {bytes} bytes");
            received += n;
        }
        (received, Instant::now())
    });
    let data = vec![7; bytes];
    // The way into the namespace is no part of it.
    let connect = || {
        let start = Instant::now();
        (TcpStream::connect(target).unwrap(), start, start.elapsed().as_secs_f64())
    };
    let (mut stream, start, connected) = in_netns(testbed.sender(), connect).unwrap();
    stream.write_all(&data).unwrap();
    let (received, end) = receiving.join().unwrap();
    assert_eq!(received, bytes);
    (end.duration_since(start).as_secs_f64(), connected)
}

#[test]
fn short_transfers_take_as_long_as_in_the_kernel() {
    let Some(_turn) = turn() else { return };
    judged(|attempt| {
        let testbed = Testbed::new(TestbedConfig::default()).unwrap();
        for rtt_ms in [20, 100] {
            delayed(&testbed, rtt_ms, || {
                for bytes in [10_000, 100_000, 1_000_000] {
                    let runs: Vec<(f64, f64)> = (0..EACH)
                        .map(|_| {
                            // No connection meets the packets of the one before.
                            std::thread::sleep(Duration::from_millis(150));
                            transferred(&testbed, bytes)
                        })
                        .collect();
                    // Half a round trip for the data, and a whole one before it for the handshake.
                    let least = rtt_ms as f64 * 1e-3;
                    // Past a loop that does not turn for 0.2 s the kernel forwards, and delays nothing.
                    let is_whole = runs.iter().all(|(took, opened)| *opened >= least && *took >= 1.5 * least);
                    attempt.holds(format_args!("{runs:?}"), "the length of the path", is_whole);
                    let mut took: Vec<f64> = runs.iter().map(|(took, _)| *took).collect();
                    took.sort_by(f64::total_cmp);
                    let median = weir_measure::median(&took).unwrap();
                    let ratio = simulated(bytes, rtt_ms) / median;
                    attempt.within(
                        format!("{bytes} B at {rtt_ms} ms, {median:.4} s, simulated / real"),
                        ratio,
                        0.9..1.1,
                    );
                }
            });
        }
        testbed.close().unwrap();
    });
}
