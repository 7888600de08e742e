//! BBR's model of the path where it is hard to keep: without data, at short round trips, behind a small
//! receiver.

use crate::link;

use link::*;
use std::cell::Cell;
use std::rc::Rc;
use weir_tcp::{ReceiverConfig, SenderConfig};
use weir_units::Duration;

/// 10 000 segments per second, and a round trip of twice `delay`.
fn path(delay: Duration, receiver: &ReceiverConfig) -> Link {
    let mut link = Link::new("bbr", &SenderConfig::default(), receiver);
    link.service = Duration::from_micros(100);
    link.delay = delay;
    link.sender.set_unlimited(true);
    link
}

/// What the link carries, in bit/s.
const LINK: f64 = 10_000.0 * 1448.0 * 8.0;

fn paced(link: &Link) -> f64 {
    link.sender.info().pacing_rate.map_or(0.0, |r| r.as_bps_f64())
}

#[test]
fn the_estimate_outlives_a_time_with_little_data() {
    let mut link = path(ms(10), &ReceiverConfig::default());
    link.run_until(at(ms(2000)));
    link.sender.set_unlimited(false);
    for _ in 0..100 {
        link.run_until(link.now + ms(20));
        link.sender.write(5 * 1448);
    }
    assert!(paced(&link) > 0.7 * LINK, "{}", paced(&link));
}

/// Once in ten seconds, for 200 ms, which are a hundred round trips here, ten times what is remembered.
#[test]
fn probing_the_round_trip_time_costs_little_rate() {
    let mut link = path(ms(1), &ReceiverConfig::default());
    link.run_until(at(ms(2000)));
    let before = link.receiver.received_segments();
    let probed = Rc::new(Cell::new(Vec::<f64>::new()));
    let seen = probed.clone();
    link.watch = Box::new(move |now, sender| {
        if sender.info().cwnd == 4 {
            let mut times = seen.take();
            times.push(now.as_secs_f64());
            seen.set(times);
        }
    });
    link.run_until(at(Duration::from_secs(25)));
    let times = probed.take();
    assert!(times.iter().all(|t| (10.0..10.6).contains(t) || (20.0..21.2).contains(t)), "{times:?}");
    let first: Vec<f64> = times.into_iter().filter(|t| *t < 11.0).collect();
    let lasted = first[first.len() - 1] - first[0];
    assert!((0.2..0.22).contains(&lasted), "{lasted}");
    let share = (link.receiver.received_segments() - before) as f64 / 230_000.0;
    assert!(share > 0.94, "{share}");
}

/// What the receiver's window limits is no start-up that goes on for ever.
#[test]
fn a_small_receiver_ends_the_start() {
    let receiver = ReceiverConfig { window: 50, ..ReceiverConfig::default() };
    let mut link = path(ms(10), &receiver);
    link.run_until(at(Duration::from_secs(3)));
    let rate = 50.0 / 0.0201 * 1448.0 * 8.0;
    assert!(paced(&link) < 1.4 * rate, "{} against {rate}", paced(&link));
}

/// Two bandwidth-delay products at most, and room for three bursts of a millisecond.
#[test]
fn the_window_is_two_products_and_three_bursts() {
    let mut link = path(ms(10), &ReceiverConfig::default());
    link.run_until(at(Duration::from_secs(3)));
    let product = 201.0;
    let cwnd = f64::from(link.sender.info().cwnd);
    assert!((2.0 * product + 18.0..2.0 * product + 45.0).contains(&cwnd), "{cwnd}");
}

#[test]
fn after_a_pause_it_goes_on_at_its_rate() {
    let mut link = path(ms(10), &ReceiverConfig::default());
    link.run_until(at(ms(2000)));
    link.sender.set_unlimited(false);
    link.run_until(at(Duration::from_secs(15)));
    // The smallest round trip is older than ten seconds, but what follows the pause measures it by itself.
    link.sender.set_unlimited(true);
    let small = Rc::new(Cell::new(u32::MAX));
    let seen = small.clone();
    link.watch = Box::new(move |_, sender| seen.set(seen.get().min(sender.info().cwnd)));
    let before = link.receiver.received_segments();
    link.run_until(at(Duration::from_secs(16)));
    assert!(small.get() > 100, "{}", small.get());
    let share = (link.receiver.received_segments() - before) as f64 / 10_000.0;
    assert!(share > 0.9, "{share}");
}
