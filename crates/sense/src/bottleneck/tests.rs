use super::*;

fn at(ms: u64) -> Time {
    Time::from_nanos(ms * 1_000_000)
}

fn of(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn rtt(ms: u64) -> Rtt {
    Rtt { rtt: of(ms), held: Duration::ZERO, doubtful: false }
}

#[test]
fn the_four_variables() {
    let mut model = PathModel::new(PathConfig::default());
    assert_eq!((model.path_rtt(), model.target_rtt(), model.excess()), (None, None, None));
    model.sample(at(0), rtt(40), true);
    assert_eq!((model.average(), model.target_rtt()), (Some(of(40)), Some(of(60))));
    model.sample(at(10), rtt(200), true);
    assert_eq!((model.path_rtt(), model.average()), (Some(of(40)), Some(of(60))));
    assert_eq!(model.excess(), None, "at the target");
    model.sample(at(20), rtt(300), true);
    assert_eq!((model.average(), model.excess()), (Some(of(90)), Some(60.0 / 90.0)));
    // A doubtful one may be the smallest, and nothing else.
    model.sample(at(30), Rtt { rtt: of(30), held: Duration::ZERO, doubtful: true }, false);
    assert_eq!(
        (model.path_rtt(), model.average(), model.target_rtt()),
        (Some(of(30)), Some(of(90)), Some(of(45)))
    );
}

#[test]
fn what_is_tolerated_has_a_floor_and_a_cap() {
    let tolerated = |path| {
        let mut model = PathModel::new(PathConfig::default());
        model.sample(at(0), rtt(path), true);
        model.target_queue_delay()
    };
    assert_eq!((tolerated(2), tolerated(40), tolerated(600)), (Some(of(5)), Some(of(20)), Some(of(100))));
}

#[test]
fn a_longer_path_is_believed_when_the_old_minimum_is_old_and_nothing_queues() {
    let mut model = PathModel::new(PathConfig::default());
    model.sample(at(0), rtt(40), true);
    for n in 1..=100 {
        model.sample(at(n * 100), rtt(45), true);
        assert_eq!(model.path_rtt(), Some(of(40)), "at {} ms", n * 100);
    }
    model.sample(at(10_100), rtt(45), true);
    assert_eq!(model.path_rtt(), Some(of(45)));
    assert!(!model.wants_drain(at(10_200)));
}

#[test]
fn a_standing_queue_does_not_become_the_path() {
    let mut model = PathModel::new(PathConfig::default());
    model.sample(at(0), rtt(40), true);
    for n in 1..=300 {
        model.sample(at(n * 100), rtt(100), true);
    }
    assert_eq!(model.path_rtt(), Some(of(40)));
    assert!(model.wants_drain(at(30_000)));
    // Drained, it turns out that the path is 50 ms now.
    model.begins_drain(false);
    model.sample(at(30_100), rtt(70), true);
    model.sample(at(30_200), rtt(50), true);
    model.age(at(30_200));
    assert_eq!(model.path_rtt(), Some(of(50)));
    assert!(!model.wants_drain(at(30_300)));
    model.restart();
    assert_eq!(model.path_rtt(), None);
}
