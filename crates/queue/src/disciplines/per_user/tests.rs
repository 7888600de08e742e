use super::*;
use weir_aqm::Ecn;
use weir_aqm::algorithms::{codel, tail_drop, vaqm};
use weir_aqm::{Algorithm, Visitor as EachAlgorithm};

/// So fast that tail drop has no limit of its own here.
const MBPS: u64 = 10_000;

fn setup(packets: u32) -> Setup {
    let limits = Limits { bytes: Bytes::new(u64::from(packets) * 1500), packets };
    Setup { limits, rate: Rate::from_mbps(MBPS), seed: 1, grows: true }
}

fn queue<A: Algorithm>(users: u32, packets: u32) -> PerUser<A, u32> {
    let params = Params { users, idle: Duration::from_secs(10), ..Params::default() };
    PerUser::new(&params, A::new(&A::Params::default(), Time::ZERO), &setup(packets))
}

fn of(user: u32) -> Arrival {
    let hosts = Hosts { sender: 1, receiver: user };
    Arrival { len: Bytes::new(1500), flow: 7, hosts, ecn: Ecn::NotEct }
}

fn at(ms: u64) -> Time {
    Time::from_nanos(ms * 1_000_000)
}

/// Stores a packet; whether it was kept.
fn put<A: Algorithm>(queue: &mut PerUser<A, u32>, now: Time, user: u32) -> bool {
    let mut kept = true;
    queue.enqueue(now, of(user), user, &mut |_: &Packet, _, _| kept = false);
    kept
}

fn get<A: Algorithm>(queue: &mut PerUser<A, u32>, now: Time) -> Option<u32> {
    queue.dequeue(now, &mut |_: &Packet, _, _| {}).map(|d| d.item)
}

#[test]
fn users_take_turns_whatever_they_have_waiting() {
    let mut q = queue::<tail_drop::TailDrop>(4, 100);
    for user in [1, 1, 1, 1, 1, 1, 2, 2, 3] {
        assert!(put(&mut q, at(0), user));
    }
    let order: Vec<u32> = std::iter::from_fn(|| get(&mut q, at(1))).collect();
    // A quantum is 38 bytes more than a packet, and newcomers go first.
    assert_eq!(order.len(), 9);
    assert_eq!(order[..6].iter().filter(|user| **user == 1).count(), 3, "{order:?}");
    assert_eq!((q.packets(), q.backlog()), (0, Bytes::ZERO));
}

#[test]
fn a_flood_leaves_room_for_others() {
    let mut q = queue::<tail_drop::TailDrop>(100, 1000);
    let kept = (0..5000).filter(|_| put(&mut q, at(0), 1)).count();
    assert_eq!(kept, 500, "as much as is still free");
    let second = (0..5000).filter(|_| put(&mut q, at(0), 2)).count();
    assert_eq!(second, 250);
    for user in 3..50 {
        assert!(put(&mut q, at(0), user), "user {user}");
    }
    assert_eq!(q.counters().overflowed, 4500 + 4750);
}

#[test]
fn places_are_limited_and_given_to_others_after_idle_time() {
    let mut q = queue::<tail_drop::TailDrop>(8, 100);
    for user in 0..8 {
        assert!(put(&mut q, at(0), user));
    }
    assert!(!put(&mut q, at(1), 99) && !q.admit(at(1), 98));
    assert_eq!((q.refused(), q.users()), (1, 8));
    while get(&mut q, at(2)).is_some() {}
    assert!(!put(&mut q, at(5_000), 99), "nobody was idle for ten seconds");
    assert!(put(&mut q, at(9_000), 3) && get(&mut q, at(9_000)) == Some(3));
    let newcomers = (100..120).filter(|user| q.admit(at(12_000), *user)).count();
    assert_eq!(newcomers, 7, "all but the one that was active");
    assert!(put(&mut q, at(12_000), 3) && put(&mut q, at(12_000), 100));
    assert_eq!(q.users(), 8);
}

#[test]
fn whoever_comes_back_after_idle_time_starts_anew() {
    let mut q = queue::<vaqm::Vaqm>(8, 100);
    put(&mut q, at(0), 1);
    put(&mut q, at(0), 2);
    assert!(q.sample_of(1, at(0), Sample::Rtt(Duration::from_millis(50))));
    assert!(!q.sample_of(3, at(0), Sample::Rtt(Duration::from_millis(50))));
    let path = |q: &mut PerUser<vaqm::Vaqm, u32>, now, user| {
        while get(q, now).is_some() {}
        put(q, now, user);
        assert_eq!(get(q, now), Some(user));
        let mut seen = None;
        q.gauges(&mut |name, value| seen = if name == "path_rtt_s" { Some(value) } else { seen });
        seen.unwrap()
    };
    assert_eq!(path(&mut q, at(100), 1), 0.05);
    assert_eq!(path(&mut q, at(100), 2), 0.0, "another user");
    assert_eq!(path(&mut q, at(9_000), 1), 0.05);
    assert_eq!(path(&mut q, at(20_000), 1), 0.0);
}

#[test]
fn users_can_be_those_who_send() {
    let params = Params { by_sender: true, ..Params::default() };
    let codel = codel::CoDel::new(&codel::Params::default(), Time::ZERO);
    let mut q: PerUser<_, u32> = PerUser::new(&params, codel, &setup(100));
    put(&mut q, at(0), 1);
    put(&mut q, at(0), 2);
    assert_eq!(q.users(), 1);
}

#[test]
fn an_idle_user_costs_at_most_a_kilobyte_whatever_the_algorithm() {
    #[derive(Clone)]
    struct Size;
    impl EachAlgorithm for Size {
        type Output = (&'static str, usize);
        fn visit<A: Algorithm>(self) -> Self::Output {
            (A::NAME, PerUser::<A, u32>::bytes_per_user())
        }
    }
    weir_aqm::visit_all(Size, |(name, bytes)| assert!(bytes <= 1024, "{name}: {bytes}"));
}

/// What leaves in each of many rounds: users among a few and strangers come in batches, and some come back after long.
fn served(told: bool) -> Vec<(u32, Duration)> {
    let mut q = queue::<codel::CoDel>(60, 500);
    let (mut state, mut served) = (1u64, Vec::new());
    for round in 0..400 {
        let users: [u32; 24] = std::array::from_fn(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as u32 % if state >> 61 == 0 { 200 } else { 30 }
        });
        if told {
            q.expect(&users.map(|user| of(user).hosts));
        }
        for user in users {
            put(&mut q, at(200 * round), user);
        }
        let get = || q.dequeue(at(200 * round + 20), &mut |_: &Packet, _, _| {});
        served.extend(std::iter::from_fn(get).take(23).map(|d| (d.item, d.sojourn)));
    }
    served
}

#[test]
fn a_queue_that_is_told_what_comes_does_the_same() {
    let told = served(true);
    assert!(told.len() > 5000);
    assert_eq!(told, served(false));
}

/// A packet of a flow of user 1, or of another.
fn of_flow(user: u32, flow: u32) -> Arrival {
    Arrival { flow, ..of(user) }
}

fn store(q: &mut PerUser<codel::CoDel, u32>, now: Time, user: u32, flow: u32) {
    q.enqueue(now, of_flow(user, flow), flow, &mut |_: &Packet, _, _| panic!("there is room"));
}

/// A queue whose users are held to 12 Mbit/s: a packet each millisecond.
fn held(users: u32) -> PerUser<codel::CoDel, u32> {
    let mut q = queue::<codel::CoDel>(users, 100_000);
    q.make_paces(Duration::ZERO);
    for user in 1..=users {
        q.admit(at(0), user);
        q.set_rate_of(of(user).hosts, Some(Rate::from_mbps(12)));
    }
    q
}

/// What leaves in so many milliseconds from then on.
fn leaves(q: &mut PerUser<codel::CoDel, u32>, from: u64, ms: u64) -> Vec<u32> {
    (from..from + ms).filter_map(|ms| get(q, at(ms))).collect()
}

#[test]
fn flows_of_a_user_who_is_held_do_not_wait_for_each_other() {
    let mut q = held(2);
    (0..100).for_each(|_| store(&mut q, at(0), 1, 10));
    assert_eq!(leaves(&mut q, 0, 5), [10; 5]);
    store(&mut q, at(5), 1, 20);
    assert_eq!(leaves(&mut q, 5, 4), [20, 10, 10, 10], "a call passes a download");
    (0..50).for_each(|_| store(&mut q, at(9), 1, 30));
    let shares = leaves(&mut q, 9, 40);
    assert!(shares.iter().filter(|flow| **flow == 30).count().abs_diff(20) <= 1, "{shares:?}");
    assert!(leaves(&mut q, 49, 200).len() > 50 && q.packets() == 0);
}

#[test]
fn what_waited_before_a_user_was_held_goes_first() {
    let mut q = held(1);
    q.set_rate_of(of(1).hosts, None);
    (0..3).for_each(|_| store(&mut q, at(0), 1, 10));
    q.set_rate_of(of(1).hosts, Some(Rate::from_mbps(12)));
    store(&mut q, at(0), 1, 20);
    store(&mut q, at(0), 1, 10);
    assert_eq!(q.head(), Some(&10));
    assert_eq!(leaves(&mut q, 0, 5), [10, 10, 10, 20, 10], "no flow is reordered");
}

#[test]
fn places_for_flows_are_bounded_lent_to_who_has_packets_and_told_at_the_start() {
    let most = flows::SETS_MAX as u32;
    let mut q = held(most + 10);
    let bytes = q.bytes_of_users();
    assert!(bytes > queue::<codel::CoDel>(most + 10, 1).bytes_of_users() + 1024 * flows::SETS_MAX);
    for user in 1..=most + 10 {
        store(&mut q, at(0), user, 10);
        store(&mut q, at(0), user, 20);
    }
    let told_apart =
        |q: &PerUser<codel::CoDel, u32>| q.users.iter().filter(|user| user.set.is_some()).count();
    assert_eq!(told_apart(&q), flows::SETS_MAX, "the others have one FIFO");
    while get(&mut q, at(10)).is_some() {}
    while get(&mut q, at(20)).is_some() {}
    assert_eq!((q.packets(), told_apart(&q)), (0, flows::SETS_MAX));
    store(&mut q, at(30), most + 5, 10);
    assert!(q.users.iter().any(|user| user.key == most + 5 && user.set.is_some()));
    assert_eq!((told_apart(&q), q.bytes_of_users()), (flows::SETS_MAX, bytes));
}

#[test]
fn a_flow_begins_with_what_its_user_was_told() {
    let params = Params::default();
    let aqm = vaqm::Vaqm::new(&vaqm::Params::default(), Time::ZERO);
    let mut q: PerUser<_, u32> = PerUser::new(&params, aqm, &setup(100));
    q.make_paces(Duration::ZERO);
    q.admit(at(0), 1);
    q.set_rate_of(of(1).hosts, Some(Rate::from_mbps(12)));
    assert!(q.sample_of(1, at(0), Sample::Rtt(Duration::from_millis(50))));
    let path = |q: &PerUser<vaqm::Vaqm, u32>| {
        let mut seen = None;
        q.gauges(&mut |name, value| seen = if name == "path_rtt_s" { Some(value) } else { seen });
        seen
    };
    assert!(put(&mut q, at(1), 1) && get(&mut q, at(1)).is_some());
    assert!(q.users[0].set.is_some());
    assert_eq!(path(&q), Some(0.05));
    assert!(q.sample_of(1, at(2), Sample::Rtt(Duration::from_millis(40))));
    assert_eq!(path(&q), Some(0.04), "and hears what is told later");
}
