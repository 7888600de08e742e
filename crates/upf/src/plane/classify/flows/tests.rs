use super::*;

fn flow(number: u64, hash: u32) -> Flow {
    Flow { words: [number, 1, 2, 3, 4, 5], set: u64::from(hash) }
}

fn found(serial: u64) -> RuleMatch {
    RuleMatch { serial, session: 7, rule: Some(serial as u16) }
}

#[test]
fn a_place_is_a_line_of_the_cache_and_the_table_is_bounded() {
    assert_eq!(size_of::<FlowSlot>(), 64);
    for (count, places) in [(0, 256), (300, 512), (usize::MAX, 32_768)] {
        assert_eq!(Flows::new(count).places.as_flattened().len(), places);
    }
}

#[test]
fn the_oldest_of_one_hash_makes_room() {
    let mut flows = Flows::new(256);
    let ways = WAYS as u64;
    (1..=ways).for_each(|n| flows.note(flow(n, 3), found(n)));
    assert!((1..=ways).all(|n| flows.get(&flow(n, 3)) == Some(&found(n))));
    // One that is noted again takes its own place.
    flows.note(flow(2, 3), found(9));
    assert!((3..=ways).chain([1]).all(|n| flows.get(&flow(n, 3)) == Some(&found(n))));
    flows.note(flow(8, 3), found(8));
    assert_eq!((flows.get(&flow(1, 3)), flows.get(&flow(2, 3))), (None, Some(&found(9))));
    assert_eq!(flows.get(&flow(8, 4)), None);
}
