//! Response functions: the mean window at a given loss rate, against the laws of the literature.
//!
//! The laws are derived for a loss after every 1/p segments. Under such losses the models must meet them
//! closely; under independent ones, which come in clusters and gaps, Reno has a constant of its own.

use crate::link;

use link::*;
use weir_tcp::{ReceiverConfig, Recovery, Rto, SenderConfig};
use weir_units::Duration;

/// A receiver that answers each segment.
fn ack_each() -> ReceiverConfig {
    ReceiverConfig { ack_every: 1, ..ReceiverConfig::default() }
}

fn flow(name: &str, rtt: Duration, receiver: &ReceiverConfig) -> Link {
    flow_of(name, rtt, &SenderConfig::default(), receiver)
}

fn flow_of(name: &str, rtt: Duration, sender: &SenderConfig, receiver: &ReceiverConfig) -> Link {
    let mut link = Link::new(name, sender, receiver);
    link.sender.set_unlimited(true);
    link.delay = Duration::from_nanos(rtt.as_nanos() / 2);
    link
}

/// Mean segments per RTT where every `every`-th segment is lost, over the losses from the 15th to the 30th.
fn mean_window(name: &str, every: u64, rtt: Duration, receiver: &ReceiverConfig) -> f64 {
    let mut link = flow(name, rtt, receiver);
    link.judge =
        Box::new(
            move |s, _| {
                if s.seq % every == every / 2 && !s.retransmission { Fate::Drop } else { Fate::Pass }
            },
        );
    let mut reach = |segments: u64| {
        while link.receiver.received_segments() < segments {
            link.run_until(link.now + Duration::from_nanos(rtt.as_nanos() / 8));
        }
        (link.receiver.received_segments(), link.now)
    };
    let (first, start) = reach(15 * every);
    let (last, end) = reach(30 * every);
    assert_eq!(link.sender.info().timeouts, 0);
    (last - first) as f64 * rtt.as_secs_f64() / end.since(start).as_secs_f64()
}

/// Mean segments per RTT over some five hundred independent losses with probability `p`.
fn mean_window_at_random(p: f64, rtt: Duration, mut link: Link) -> f64 {
    link.judge = random_loss(p, 11);
    let warm = at(Duration::from_secs(100));
    link.run_until(warm);
    let before = link.receiver.received_segments();
    let seconds = (500.0 / (p * (1.3 / p.sqrt()) / rtt.as_secs_f64())).max(200.0);
    link.run_until(warm + Duration::from_secs_f64(seconds));
    (link.receiver.received_segments() - before) as f64 * rtt.as_secs_f64() / seconds
}

/// Measured over expected, for each of `cases`; tells all if one is outside of `bounds`.
fn hold<T: Copy + std::fmt::Debug>(
    cases: &[T],
    bounds: std::ops::Range<f64>,
    mut ratio: impl FnMut(T) -> f64,
) {
    let ratios: Vec<(T, f64)> = cases.iter().map(|case| (*case, ratio(*case))).collect();
    assert!(ratios.iter().all(|(_, r)| bounds.contains(r)), "{ratios:?} should be in {bounds:?}");
}

/// Mathis et al. 1997: sqrt(3/2) / sqrt(p).
fn reno_law(every: u64) -> f64 {
    (1.5 * every as f64).sqrt()
}

#[test]
fn reno_follows_the_square_root_law() {
    hold(&[1000u64, 3000, 10_000, 30_000], 0.95..1.03, |every| {
        mean_window("reno", every, ms(50), &ack_each()) / reno_law(every)
    });
}

/// With independent losses the constant is 1.31 (Ott et al. 1996).
#[test]
fn reno_has_its_constant_under_independent_losses() {
    hold(&[3e-4, 1e-3, 1e-2f64], 0.85..1.12, |p| {
        mean_window_at_random(p, ms(50), flow("reno", ms(50), &ack_each())) * p.sqrt() / 1.31
    });
}

/// Padhye et al. 1998, formula 30, with one segment per ACK and no limit by the receiver's window: segments
/// per round trip of Reno without SACK, whose timeouts count.
fn padhye(p: f64, rtt: f64, timeout: f64) -> f64 {
    let of_timeouts = timeout * (3.0 * (3.0 * p / 8.0).sqrt()).min(1.0) * p * (1.0 + 32.0 * p * p);
    rtt / (rtt * (2.0 * p / 3.0).sqrt() + of_timeouts)
}

#[test]
fn reno_without_sack_follows_its_law_under_independent_losses() {
    let rto = Rto::Linux { margin: ms(200) };
    let sender =
        SenderConfig { recovery: Recovery::NewReno, rto, initial_window: 1, ..SenderConfig::default() };
    hold(&[0.01, 0.03, 0.06f64], 0.92..1.09, |p| {
        let link = flow_of("reno", ms(100), &sender, &ack_each());
        mean_window_at_random(p, ms(100), link) / padhye(p, 0.1, 0.3)
    });
}

/// Two segments per ACK and growth by the segments that an ACK covers (RFC 3465): the law is that of one ACK
/// for each, where growth by ACKs would lose a factor of the square root of two.
#[test]
fn delayed_acks_do_not_change_the_square_root_law() {
    let each = mean_window("reno", 1000, ms(50), &ack_each());
    let delayed = mean_window("reno", 1000, ms(50), &ReceiverConfig::default());
    assert!((0.95..1.03).contains(&(delayed / each)), "{delayed} against {each}");
}

/// RFC 9438 section 5.1: (C (3 + beta) / (4 (1 - beta)))^(1/4) (RTT/p)^(3/4) segments, where that is far
/// above Reno.
fn cubic_law(every: u64, rtt: u64) -> f64 {
    (0.4f64 * 3.7 / 1.2).powf(0.25) * (every as f64 * rtt as f64 / 1000.0).powf(0.75)
}

/// Whole segments hold a plateau that the law has sinking by fractions, so that the mean is somewhat above
/// it.
#[test]
fn cubic_follows_its_response_function() {
    let cases = [(10_000u64, 100u64), (30_000, 100), (100_000, 100), (10_000, 300)];
    let windows = cases.map(|(every, rtt)| mean_window("cubic", every, ms(rtt), &ack_each()));
    let window = |case| windows[cases.iter().position(|c| *c == case).unwrap()];
    hold(&cases, 0.97..1.25, |(every, rtt)| window((every, rtt)) / cubic_law(every, rtt));
    // The exponent over a decade, which no constant can hide: Reno's would be a half.
    let slope = (windows[2] / windows[0]).log10();
    assert!((0.65..0.80).contains(&slope), "{slope}");
}

/// Where the cubic would be slower than Reno, CUBIC has Reno's mean window: its growth of 8/15 per round trip
/// makes up for falling by less (RFC 9438 section 4.3).
#[test]
fn cubic_is_no_slower_than_reno() {
    let cases = [(300u64, 10u64), (1000, 10), (3000, 20)];
    assert!(cases.iter().all(|(every, rtt)| cubic_law(*every, *rtt) < 0.8 * reno_law(*every)));
    hold(&cases, 0.80..1.10, |(every, rtt)| {
        mean_window("cubic", every, ms(rtt), &ack_each()) / reno_law(every)
    });
}
