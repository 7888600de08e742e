//! Arithmetic of times and amounts, by all small cases.

use weir_queue::Shaper;
use weir_units::{Bytes, Duration, Rate, Time};

/// At a rate at which a byte takes eight nanoseconds, every sequence of five events: a packet of one, two or
/// three bytes, a look at the clock, a port that took nothing. The link never sends faster than its rate,
/// never idles while packets wait, and makes up for no more than it may.
#[test]
fn the_shaper_over_all_short_histories() {
    const EVENTS: u32 = 5;
    const STEP: u64 = 9;
    let takes = |len: Bytes| Duration::from_nanos(8 * len.get());
    let mut histories = 0u64;
    for catch_up in [0, 8, 40] {
        let catch_up = Duration::from_nanos(catch_up);
        for history in 0..EVENTS.pow(7) {
            let mut shaper = Shaper::new(Rate::from_mbps(1000), catch_up);
            let begin = Time::from_nanos(1000);
            let (mut now, mut sent, mut rest) = (begin, Duration::ZERO, history);
            shaper.looked(now);
            let first = shaper.departure(Time::ZERO);
            let mut last = first;
            for _ in 0..7 {
                let event = rest % EVENTS;
                rest /= EVENTS;
                match event {
                    0 => {
                        now += Duration::from_nanos(STEP);
                        shaper.looked(now);
                        assert!(shaper.departure(Time::ZERO) >= now - catch_up, "no more is made up for");
                    }
                    1 => shaper.blocked(now),
                    len => {
                        let at = shaper.departure(Time::ZERO);
                        assert!(at >= last, "departures are in order");
                        let len = Bytes::new(u64::from(len) - 1);
                        shaper.sent(at, len);
                        last = at;
                        sent += takes(len);
                        assert_eq!(
                            shaper.departure(Time::ZERO),
                            at + takes(len),
                            "busy for as long as it takes"
                        );
                    }
                }
            }
            assert!(shaper.departure(Time::ZERO).since(first) >= sent, "never faster than its rate");
            histories += 1;
        }
    }
    assert_eq!(histories, 3 * 78_125);
}

/// Every rate from 1 to 2000 bit/s and sizes around powers of two: what is left over of one packet is in the
/// next, so that after many the error is below a nanosecond each.
#[test]
fn fractions_of_a_nanosecond_are_not_lost() {
    for bps in (1..2000).map(|n| n * 499_979) {
        let mut shaper = Shaper::new(Rate::from_bps(bps), Duration::from_secs(1));
        let (mut bytes, count) = (0, 64);
        for n in 0..count {
            let len = [1, 63, 64, 65, 1538][n % 5];
            bytes += len;
            shaper.sent(shaper.departure(Time::ZERO), Bytes::new(len));
        }
        let exact = bytes as f64 * 8e9 / bps as f64;
        let got = shaper.departure(Time::ZERO).as_nanos() as f64;
        assert!((got - exact).abs() <= 1.0 + exact * 1e-6, "{bps}: {got} and not {exact}");
    }
}

/// Times saturate instead of wrapping, at all corners.
#[test]
fn times_at_their_ends() {
    let corners = [0, 1, 2, u64::MAX / 2, u64::MAX - 1, u64::MAX];
    for a in corners {
        for b in corners {
            let (time, other) = (Time::from_nanos(a), Time::from_nanos(b));
            assert_eq!(time.since(other).as_nanos(), a.saturating_sub(b));
            assert_eq!((time + Duration::from_nanos(b)).as_nanos(), a.saturating_add(b));
            assert_eq!((time - Duration::from_nanos(b)).as_nanos(), a.saturating_sub(b));
        }
    }
}
