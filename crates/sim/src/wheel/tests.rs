use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Odd numbers have a small form.
impl Compact for u32 {
    type Small = u16;

    fn small(self) -> Option<u16> {
        u16::try_from(self).ok().filter(|n| n % 2 == 1)
    }

    fn from_small(small: u16) -> u32 {
        small.into()
    }
}

const ALWAYS: Time = Time::from_nanos(u64::MAX);

fn drain(wheel: &mut Wheel<u32>) -> Vec<(u64, u32)> {
    let mut out = Vec::new();
    while let Some(time) = wheel.peek(ALWAYS) {
        out.push((time.as_nanos(), wheel.pop().expect("peeked")));
    }
    out
}

#[test]
fn equal_times_keep_the_order_of_insertion_on_every_way_through() {
    let mut wheel = Wheel::new(Duration::ZERO, Duration::ZERO);
    let far = (SLOTS_MAX << SHIFT_MIN) + 77;
    // Into the heap, then, after the wheel has turned, the same time onto the wheel, then into the batch.
    wheel.insert(Time::from_nanos(far), 0);
    wheel.insert(Time::from_nanos(far), 1);
    wheel.insert(Time::from_nanos(5_000_000), 9);
    assert_eq!(wheel.peek(ALWAYS), Some(Time::from_nanos(5_000_000)));
    assert_eq!(wheel.pop(), Some(9));
    wheel.insert(Time::from_nanos(far), 2);
    wheel.insert(Time::from_nanos(far), 3);
    assert_eq!(wheel.peek(ALWAYS), Some(Time::from_nanos(far)));
    wheel.insert(Time::from_nanos(far), 4);
    assert_eq!(drain(&mut wheel).iter().map(|(_, e)| *e).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
}

/// Every sequence of six steps, each an event at one of five distances from now, at the edges of batch, tick
/// and horizon, or the next event taken: what comes out is what a sorted list gives.
#[test]
fn all_short_histories_come_out_in_order() {
    const STEPS: u32 = 6;
    const TICK: u64 = 1 << SHIFT_MIN;
    let distances = [0, 1, TICK, (SLOTS_MAX - 1) * TICK, SLOTS_MAX * TICK];
    let choices = distances.len() as u32 + 1;
    for history in 0..choices.pow(STEPS) {
        let mut wheel = Wheel::new(Duration::ZERO, Duration::ZERO);
        let (mut listed, mut now, mut rest) = (BTreeMap::new(), TICK - 1, history);
        for number in 0..STEPS {
            let choice = (rest % choices) as usize;
            rest /= choices;
            if let Some(distance) = distances.get(choice) {
                wheel.insert(Time::from_nanos(now + distance), number);
                listed.insert((now + distance, number), ());
            } else if let Some(((time, event), ())) = listed.pop_first() {
                assert_eq!(wheel.peek(ALWAYS), Some(Time::from_nanos(time)), "history {history}");
                assert_eq!(wheel.pop(), Some(event), "history {history}");
                now = time;
            } else {
                assert_eq!(wheel.peek(ALWAYS), None, "history {history}");
            }
        }
        assert_eq!(drain(&mut wheel), listed.into_keys().collect::<Vec<_>>(), "history {history}");
    }
}

#[test]
fn nothing_is_loaded_before_it_may_be_needed() {
    let mut wheel = Wheel::new(Duration::ZERO, Duration::ZERO);
    wheel.insert(Time::from_nanos(1_000_000), 1);
    assert_eq!(wheel.peek(Time::from_nanos(10_000)), None);
    wheel.insert(Time::from_nanos(500_000), 2);
    assert_eq!(drain(&mut wheel), [(500_000, 2), (1_000_000, 1)]);
}

/// Time of the fastest packet and what the wheel then takes: that of a slow link is small, and that of a
/// fast one has the shortest ticks.
#[test]
fn ticks_grow_with_the_distance_of_events() {
    let wheel = |delay_ms, spacing_us| {
        let (delay, spacing) = (Duration::from_millis(delay_ms), Duration::from_micros(spacing_us));
        let wheel: Wheel<u32> = Wheel::new(delay, spacing);
        (1u64 << wheel.shift, wheel.heads.len())
    };
    assert_eq!(wheel(0, 0), (4096, 16_384));
    assert_eq!(wheel(50, 6), (4096, 16_384));
    assert_eq!(wheel(50, 60), (32_768, 2048));
    assert_eq!(wheel(50, 500), (262_144, 256));
    assert_eq!(wheel(300, 500), (262_144, 2048));
    assert_eq!(wheel(50, 1_000_000), (1 << 24, 64));
    // A long way at a high rate: ticks grow, as their number does not.
    assert_eq!(wheel(1000, 1), (131_072, 16_384));
}

#[test]
fn steady_use_allocates_nothing_more() {
    let mut wheel = Wheel::new(Duration::from_millis(50), Duration::ZERO);
    for n in 0..1000u32 {
        wheel.insert(Time::from_nanos(u64::from(n) * 10_000), n);
    }
    let nodes = wheel.nodes.capacity();
    for _ in 0..100_000 {
        let time = wheel.peek(ALWAYS).expect("never empty");
        let n = wheel.pop().expect("peeked");
        wheel.insert(time + Duration::from_micros(20_000 + u64::from(n % 7)), n);
    }
    assert_eq!((wheel.nodes.capacity(), wheel.iter().count()), (nodes, 1000));
}

proptest! {
    #[test]
    fn it_is_a_sorted_list(
        steps in proptest::collection::vec((0u64..200_000_000, 0u8..4), 1..400),
        spacing in 0u64..2_000_000,
    ) {
        let mut wheel = Wheel::new(Duration::from_millis(20), Duration::from_nanos(spacing));
        let mut model = BTreeMap::new();
        let (mut now, mut n) = (0, 0u32);
        for (ahead, pops) in steps {
            // Small distances test the batch, large ones the heap.
            let ahead = if ahead % 3 == 0 { ahead % 10_000 } else { ahead };
            wheel.insert(Time::from_nanos(now + ahead), n);
            model.insert((now + ahead, n), ());
            n += 1;
            for _ in 0..pops {
                // A look with a limit must never change what comes.
                let _ = wheel.peek(Time::from_nanos(now + ahead / 2));
                let want = model.pop_first().map(|(k, ())| k);
                let got = wheel.peek(ALWAYS).map(|t| (t.as_nanos(), wheel.pop().unwrap()));
                prop_assert_eq!(got, want);
                now = got.map_or(now, |(t, _)| t);
            }
        }
        let rest: Vec<_> = model.into_keys().collect();
        prop_assert_eq!(drain(&mut wheel), rest);
        prop_assert_eq!(wheel.iter().count(), 0);
    }
}
