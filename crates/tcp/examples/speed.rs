//! Prints the cost of a segment: sender, receiver and its share of an ACK, without a network.
//!
//! `cargo run --release -p weir-tcp --example speed`

use std::collections::VecDeque;
use std::time::Instant;
use weir_tcp::{Ack, Congestion, Receiver, ReceiverConfig, Segment, Sender, SenderConfig};
use weir_units::{Duration, Time};

/// A pipe of constant length in segments, which moves by one segment per tick.
struct Pipe {
    segments: VecDeque<Option<Segment>>,
    acks: VecDeque<(u64, Ack)>,
}

/// Runs `ticks` segments through a path whose window is `window`; every `loss`-th segment is lost.
fn run(name: &str, window: u32, loss: Option<u64>, ticks: u64) -> (f64, u64, u64) {
    let receiver_config = ReceiverConfig { window, ..ReceiverConfig::default() };
    let congestion = Congestion::by_name(name).expect("a name of the list");
    let initial_window = if loss.is_some() { window } else { 10 };
    let config = SenderConfig { initial_window, ..SenderConfig::default() };
    let mut sender = Sender::new(&config, congestion, Time::ZERO);
    let mut receiver = Receiver::new(&receiver_config, Time::ZERO);
    sender.set_unlimited(true);
    let length = if loss.is_some() { u64::from(window) } else { u64::from(window) / 2 };
    let mut pipe = Pipe { segments: VecDeque::new(), acks: VecDeque::new() };
    let (mut sent, mut lost) = (0u64, 0u64);
    let mut started = Instant::now();
    let warm = if loss.is_some() { 0 } else { length * 40 };
    for tick in 0..warm + ticks {
        if tick == warm {
            started = Instant::now();
            sent = 0;
        }
        // A segment per microsecond.
        let now = Time::ZERO + Duration::from_micros(tick);
        while pipe.acks.front().is_some_and(|(due, _)| *due <= tick) {
            if let Some((_, ack)) = pipe.acks.pop_front() {
                sender.on_ack(now, &ack);
            }
        }
        if sender.next_timeout().is_some_and(|t| t <= now) {
            sender.on_timeout(now);
        }
        while let Some(segment) = sender.poll(now) {
            sent += 1;
            let drop = loss.is_some_and(|every| (sent * 2_654_435_761) >> 7 & 0xf_ffff < 0x10_0000 / every);
            lost += u64::from(drop);
            pipe.segments.push_back((!drop).then_some(segment));
        }
        let served = pipe.segments.pop_front().flatten();
        let mut ack = served.and_then(|s| receiver.on_segment(now, &s));
        if ack.is_none() && receiver.next_timeout().is_some_and(|t| t <= now) {
            ack = receiver.on_timeout(now);
        }
        if let Some(ack) = ack {
            pipe.acks.push_back((tick + length, ack));
        }
    }
    let nanos = started.elapsed().as_nanos() as f64;
    (nanos / sent as f64, sent, lost)
}

/// Flows that start with a window of `window` and lose one segment in a thousand for five round trips.
fn in_recovery(name: &str, window: u32) {
    let (mut nanos, mut sent, mut lost) = (0.0, 0, 0);
    for _ in 0..20 {
        let (ns, s, l) = run(name, window, Some(1000), 5 * u64::from(window));
        nanos += ns * s as f64;
        sent += s;
        lost += l;
    }
    println!(
        "{name:8} loss 0.1 %, window {window:6} {:7.1} ns per segment ({sent} sent, {lost} lost)",
        nanos / sent as f64
    );
}

fn main() {
    for name in weir_tcp::congestion::names() {
        for window in [1000, 50_000] {
            let (ns, sent, _) = run(name, window, None, 5_000_000);
            println!("{name:8} no loss, window {window:9} {ns:7.1} ns per segment ({sent} sent)");
        }
        in_recovery(name, 20_000);
    }
}
