use super::*;
use crate::Ecn;

/// The link of the AVQ paper, SIGCOMM 2001: 10 Mbit/s, packets of 1000 bytes, thresholds of 37 and 75
/// packets.
const LINK: Rate = Rate::from_mbps(10);
const PACKET_S: f64 = 0.0008;

fn red(settings: impl FnOnce(&mut Params)) -> Red {
    let mut params = Params {
        target: Duration::from_micros(44_800),
        spread: Share(19.0 / 56.0),
        mean_packet: Bytes::new(1000),
        adaptive: false,
        ..Params::default()
    };
    settings(&mut params);
    let mut red = Red::new(&params, Time::ZERO);
    red.rescale(LINK);
    red
}

fn arrival(red: &mut Red, now: Time, packets: u32, dice: u64, p: Packet) -> Verdict {
    let backlog = Bytes::new(u64::from(packets) * 1000);
    let queue = View { backlog, packets, delay: Duration::ZERO, rate: LINK };
    red.on_enqueue(&Moment::new(now, queue, dice), &p)
}

fn packet(len: u64, ecn: Ecn) -> Packet {
    Packet { arrived: Time::ZERO, len: Bytes::new(len), seq: 0, flow: 0, ecn }
}

const PLAIN: Ecn = Ecn::NotEct;

#[test]
fn probabilities_by_the_average_computed_by_hand() {
    let mut red = red(|_| {});
    assert!((red.scale.min - 37.0 * PACKET_S).abs() < 1e-15, "{}", red.scale.min / PACKET_S);
    assert!((red.scale.max - 75.0 * PACKET_S).abs() < 1e-15, "{}", red.scale.max / PACKET_S);
    let rows = [(37.0, 0.0), (56.0, 0.05), (75.0, 0.1), (100.0, 0.4), (112.5, 0.55), (149.0, 0.988)];
    for (packets, pb) in rows {
        red.avg = packets * PACKET_S;
        assert!((red.by_average() - pb).abs() < 1e-12, "{} at {packets}", red.by_average());
    }
    red.avg = 150.001 * PACKET_S;
    assert_eq!(red.by_average(), 1.0);
    red.params.gentle = false;
    red.avg = 75.001 * PACKET_S;
    assert_eq!(red.by_average(), 1.0);
}

#[test]
fn probabilities_by_the_count_computed_by_hand() {
    let waits = red(|_| {});
    for (count, pa) in [(10.0, 0.0), (19.0, 0.0), (20.0, 0.05), (30.0, 0.1), (39.0, 1.0), (50.0, 1.0)] {
        assert!((waits.by_count(0.05, count) - pa).abs() < 1e-12, "{count}");
    }
    let hastens = red(|params| params.wait = false);
    for (count, pa) in [(0.0, 0.05), (10.0, 0.1), (15.0, 0.2), (19.0, 1.0), (20.0, 1.0), (90.0, 1.0)] {
        assert!((hastens.by_count(0.05, count) - pa).abs() < 1e-12, "{count}");
    }
}

#[test]
fn the_weight_is_that_of_a_packet_in_the_memory() {
    // 1250 packets per second and one second.
    assert!((red(|_| {}).scale.w - 0.000_799_68).abs() < 5e-9);
}

#[test]
fn signals_come_at_the_distance_that_the_count_makes() {
    let mut red = red(|_| {});
    // The average stands at 56 packets: pb = 0.05. With dice that never fall below a half, a packet is
    // signalled as soon as pa is above it: at 2 - 0.05 count < 0.1, so at the 39th.
    red.avg = 56.0 * PACKET_S;
    let mut signals = std::vec::Vec::new();
    for n in 1..=120u64 {
        let now = Time::from_nanos(n * 800_000);
        if arrival(&mut red, now, 56, 1 << 63, packet(1000, PLAIN)) == Verdict::Drop(Cause::Chance) {
            signals.push(n);
        }
    }
    // The first packet above the threshold has the number 1.
    assert_eq!(signals, [39, 78, 117]);
}

#[test]
fn nothing_is_signalled_below_the_lower_threshold_or_into_an_empty_queue() {
    let mut red = red(|_| {});
    red.avg = 36.9 * PACKET_S;
    assert_eq!(arrival(&mut red, Time::ZERO, 30, 0, packet(1000, PLAIN)), Verdict::Forward);
    red.avg = 300.0 * PACKET_S;
    for packets in [0, 1, 0, 1] {
        assert_eq!(arrival(&mut red, Time::ZERO, packets, 0, packet(1000, PLAIN)), Verdict::Forward);
    }
    // And the first above the threshold only starts the count.
    assert_eq!(arrival(&mut red, Time::ZERO, 300, 0, packet(1000, PLAIN)), Verdict::Forward);
    assert_eq!(arrival(&mut red, Time::ZERO, 300, 0, packet(1000, PLAIN)), Verdict::Drop(Cause::Chance));
}

#[test]
fn marks_end_at_the_upper_threshold_unless_wanted() {
    for (packets, mark_above, want) in [
        (74.0, false, Verdict::Mark(Cause::Chance)),
        (80.0, false, Verdict::Drop(Cause::Chance)),
        (80.0, true, Verdict::Mark(Cause::Chance)),
    ] {
        let mut red = red(|params| params.mark_above = mark_above);
        red.avg = packets * PACKET_S;
        red.count = Some(1000.0);
        assert_eq!(arrival(&mut red, Time::ZERO, 75, 0, packet(1000, Ecn::Ect0)), want);
    }
}

#[test]
fn in_byte_mode_small_packets_are_spared() {
    let mut red = red(|params| params.byte_mode = true);
    red.avg = 56.0 * PACKET_S;
    // At a count of 25 pa is 0.05 / 0.75 = 0.0667; a twentieth of it with 50 bytes.
    red.count = Some(25.0 - 0.05);
    let at = |p: f64| (p * (1u64 << 53) as f64) as u64 * 2048;
    let small = packet(50, PLAIN);
    assert_eq!(arrival(&mut red.clone(), Time::ZERO, 56, at(0.003_34), small), Verdict::Forward);
    assert_eq!(arrival(&mut red.clone(), Time::ZERO, 56, at(0.003_32), small), Verdict::Drop(Cause::Chance));
    red.count = Some(24.0);
    let full = packet(1000, PLAIN);
    assert_eq!(arrival(&mut red.clone(), Time::ZERO, 56, at(0.0668), full), Verdict::Forward);
    assert_eq!(arrival(&mut red, Time::ZERO, 56, at(0.0665), full), Verdict::Drop(Cause::Chance));
}

/// Single multiplications instead of a power: they differ by less than 1e-11 of the average after a hundred
/// thousand packets of idle time.
#[test]
fn idle_time_is_that_of_packets_that_could_have_left() {
    for packets in [0u32, 1, 7, 1250, 100_000] {
        let mut red = red(|_| {});
        let mut avg = 60.0 * PACKET_S;
        red.avg = avg;
        red.on_empty(Time::from_nanos(1_000_000));
        // Half a packet time more does not count.
        let now = Time::from_nanos(1_000_000 + u64::from(packets) * 800_000 + 400_000);
        let _ = arrival(&mut red, now, 0, 0, packet(1000, PLAIN));
        for _ in 0..=packets {
            avg -= red.scale.w * avg;
        }
        assert!((red.avg - avg).abs() <= 1e-11 * avg, "{} {avg} after {packets}", red.avg);
    }
}

#[test]
fn packets_or_bytes_are_counted() {
    for (count_bytes, seconds) in [(true, 0.008), (false, 0.08)] {
        let mut red = red(|params| (params.count_bytes, params.min_packets) = (count_bytes, 0));
        red.idle_since = None;
        let queue =
            View { backlog: Bytes::new(10_000), packets: 100, delay: Duration::ZERO, rate: LINK };
        let _ = red.on_enqueue(&Moment::new(Time::ZERO, queue, 0), &packet(100, PLAIN));
        assert!((red.avg - red.scale.w * seconds).abs() < 1e-15);
    }
}

#[test]
fn max_p_moves_as_adaptive_red_says() {
    let mut red = red(|params| params.adaptive = true);
    red.idle_since = None;
    // 0.4 of the way from 37 to 75 packets is 52.2, and 59.8 from above.
    let rows = [
        (60.0, 0.1, 0.11),
        (60.0, 0.02, 0.025),
        (60.0, 0.5, 0.5),
        (59.0, 0.1, 0.1),
        (53.0, 0.1, 0.1),
        (52.0, 0.1, 0.09),
        (52.0, 0.01, 0.01),
    ];
    let mut now = Time::ZERO;
    for (packets, before, after) in rows {
        (red.avg, red.max_p) = (packets * PACKET_S, before);
        now += Duration::from_millis(499);
        let _ = arrival(&mut red, now, packets as u32, u64::MAX, packet(1000, PLAIN));
        assert_eq!(red.max_p, before);
        now += Duration::from_millis(1);
        let _ = arrival(&mut red, now, packets as u32, u64::MAX, packet(1000, PLAIN));
        assert!((red.max_p - after).abs() < 1e-12, "{} at {packets}", red.max_p);
    }
}

#[test]
fn thresholds_follow_set_point_and_rate_and_have_a_floor() {
    let mut red = red(|params| params.spread = Share(0.5));
    red.set(Duration::from_millis(20));
    assert!((red.scale.min - 0.010).abs() < 1e-15 && (red.scale.max - 0.030).abs() < 1e-15);
    // Five packets of 0.8 ms.
    red.set(Duration::from_millis(2));
    assert!((red.scale.min - 0.004).abs() < 1e-15 && (red.scale.max - 0.012).abs() < 1e-15);
    red.rescale(Rate::from_mbps(100));
    assert!((red.scale.min - 0.001).abs() < 1e-15 && (red.scale.max - 0.003).abs() < 1e-15);
}
