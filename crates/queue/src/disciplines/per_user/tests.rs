use super::flows::Set;
use super::*;
use crate::shaped::tests::Odd;
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
    Arrival { len: Bytes::new(1500), flow: 7, hosts, ecn: Ecn::NotEct, nqb: false }
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

/// The place of a user, if it has one.
fn place_of<A: Algorithm>(q: &PerUser<A, u32>, user: u32) -> Option<usize> {
    q.table.find(user, |at| q.users[at].key)
}

fn counted<A: Algorithm>(q: &PerUser<A, u32>) -> UserCounters {
    q.user_counters().unwrap()
}

#[test]
fn who_finds_no_place_waits_with_others_who_have_none() {
    let mut q = queue::<tail_drop::TailDrop>(8, 1000);
    for user in 0..8 {
        assert!(put(&mut q, at(0), user));
    }
    for user in 100..150 {
        assert!(put(&mut q, at(1), user) && put(&mut q, at(1), user), "nobody without a place is shut out");
        assert!(!q.admit(at(1), user), "all who have a place have packets");
    }
    assert_eq!(q.users(), 8);
    assert_eq!(counted(&q), UserCounters { placed: 8, displaced: 0, shared: 100 });
    let order: Vec<u32> = std::iter::from_fn(|| get(&mut q, at(2))).collect();
    let first_half = &order[..20];
    assert!((0..8).all(|user| first_half.contains(&user)), "the shared queue takes one turn: {order:?}");
    let strangers: Vec<u32> = order.into_iter().filter(|user| *user >= 100).collect();
    assert_eq!(strangers, (100..150).flat_map(|user| [user, user]).collect::<Vec<_>>());
}

#[test]
fn the_shared_queue_has_the_room_of_one_user() {
    let mut q = queue::<tail_drop::TailDrop>(1, 1000);
    assert!(put(&mut q, at(0), 0));
    let kept = (1..5000).filter(|user| put(&mut q, at(0), *user)).count();
    assert_eq!(kept, 500, "as much as is still free");
    assert!(put(&mut q, at(0), 0), "whoever has a place finds room");
}

#[test]
fn places_go_first_to_whom_nobody_misses() {
    let mut q = queue::<tail_drop::TailDrop>(8, 100);
    // Users 0 to 3 send 100 packets each, 4 and 5 three, 6 and 7 one.
    for (user, packets) in [100, 100, 100, 100, 3, 3, 1, 1].into_iter().enumerate() {
        for _ in 0..packets {
            assert!(put(&mut q, at(0), user as u32) && get(&mut q, at(0)).is_some());
        }
    }
    assert_eq!(get(&mut q, at(0)), None);
    let mut comes = |now, user| {
        put(&mut q, at(now), user);
        while get(&mut q, at(now)).is_some() {}
        let has = |user| place_of(&q, user).is_some();
        (has(user), (0..8).filter(|user| has(*user)).collect::<Vec<_>>())
    };
    assert_eq!(comes(1, 20), (true, vec![0, 1, 2, 3, 4, 5, 7]));
    assert_eq!(comes(1, 20), (true, vec![0, 1, 2, 3, 4, 5, 7]));
    assert_eq!(comes(1, 21), (true, vec![0, 1, 2, 3, 4, 5]));
    assert_eq!(comes(1, 21), (true, vec![0, 1, 2, 3, 4, 5]));
    // Of ten seconds three packets keep a place for 312 ms, two for 156 ms, a hundred for all.
    assert_eq!(comes(100, 22), (false, vec![0, 1, 2, 3, 4, 5]));
    assert_eq!(comes(100, 22), (false, vec![0, 1, 2, 3, 4, 5]));
    assert_eq!(comes(200, 23), (false, vec![0, 1, 2, 3, 4, 5]), "not with the first packet");
    assert_eq!(comes(200, 23), (true, vec![0, 1, 2, 3, 4, 5]), "who sent the least");
    assert_eq!(comes(400, 24), (true, vec![0, 1, 2, 3, 4, 5]), "who sent one packet since");
    assert_eq!(comes(9_000, 24).1[..4], [0, 1, 2, 3]);
    for user in 30..50 {
        comes(9_900, user);
        comes(9_900, user);
    }
    assert_eq!(comes(9_999, 50).1, [0, 1, 2, 3], "those who talked keep theirs for the idle time");
    assert!(comes(20_001, 51).0 && comes(20_001, 51).0);
}

/// Newcomers come ten times a second among addresses that are sprayed, and send three packets in 300 ms; what
/// of theirs was kept, how many had a place by the end of it, and how many of those who talk all the time
/// lost theirs.
fn sprayed(per_second: u64, packets_each: u64) -> (usize, usize, usize) {
    let params = Params { users: 128, ..Params::default() };
    let codel = codel::CoDel::new(&codel::Params::default(), Time::ZERO);
    let mut q: PerUser<codel::CoDel, u32> = PerUser::new(&params, codel, &setup(10_000));
    let talks = |user: u32| user < 40;
    let (mut kept, mut placed) = (0, 0);
    let mut before = Vec::new();
    for ms in 0..60_000u64 {
        let now = at(ms);
        if ms % 500 == 0 {
            (0..40).for_each(|user| assert!(put(&mut q, now, user)));
        }
        if ms == 40_000 {
            before = (0..40).map(|user| place_of(&q, user)).collect();
            assert!(before.iter().all(Option::is_some));
        }
        if ms > 40_000 {
            let sprayed = |ms| ms * per_second / 1000;
            for n in sprayed(ms)..sprayed(ms + 1) {
                let user = 1_000_000 + (n / packets_each) as u32;
                assert!(put(&mut q, now, user), "the link is not full");
            }
            for begun in [ms, ms - 100, ms - 300].into_iter().filter(|begun| begun % 100 == 0) {
                kept += usize::from(put(&mut q, now, 1000 + begun as u32));
            }
            placed += usize::from(ms % 100 == 0 && place_of(&q, 700 + ms as u32).is_some());
        }
        while get(&mut q, now).is_some() {}
    }
    let lost = (0..40).filter(|user| place_of(&q, *user) != before[*user as usize] && talks(*user)).count();
    (kept, placed, lost)
}

#[test]
fn a_spray_of_addresses_shuts_nobody_out() {
    for per_second in [17, 100, 1000, 10_000] {
        for packets_each in [1, 2] {
            let (kept, placed, lost) = sprayed(per_second, packets_each);
            assert_eq!((kept, lost), (597, 0), "{per_second}/s, {packets_each} packets each");
            assert!(placed > 160 || per_second > 1000 || packets_each > 1, "{per_second}/s: {placed} of 199");
        }
    }
}

#[test]
fn no_flow_is_reordered_while_its_user_comes_to_a_place() {
    let mut held = 0;
    for seed in 1..200u64 {
        let mut q = queue::<tail_drop::TailDrop>(4, 400);
        if seed % 2 == 0 {
            q.make_paces(Duration::ZERO);
        }
        let mut state = seed;
        let mut draw = |most: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % most
        };
        let (mut stored, mut left) = ([0u32; 12], [0u32; 12]);
        let mut now = 0;
        let mut leaves = |q: &mut PerUser<_, u32>, now| {
            let Some(item) = get(q, now) else { return false };
            let (user, number) = ((item >> 16) as usize, item & 0xffff);
            assert_eq!(number, left[user], "user {user}, seed {seed}");
            left[user] += 1;
            true
        };
        for step in 0..2000 {
            let user = draw(if step % 400 < 200 { 12 } else { 3 }) as u32;
            for _ in 0..draw(4) {
                let item = user << 16 | stored[user as usize];
                let mut kept = true;
                q.enqueue(at(now), of(user), item, &mut |_: &Packet, _, _| kept = false);
                stored[user as usize] += u32::from(kept);
            }
            if seed % 3 == 0 && draw(20) == 0 {
                q.set_rate_of(of(user).hosts, Some(Rate::from_mbps(1 + draw(100))));
            }
            held += u32::from(q.users.iter().enumerate().any(|(at, _)| q.strangers.holds(at)));
            for _ in 0..draw(4) {
                leaves(&mut q, at(now));
            }
            now += draw(40);
        }
        (0..100_000).for_each(|ms| while leaves(&mut q, at(now + ms)) {});
        assert_eq!((q.packets(), q.active, q.head_arrived()), (0, 0, None), "seed {seed}");
        assert_eq!(stored, left);
    }
    assert!(held > 1000, "places that waited for the shared queue: {held}");
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

/// What leaves in each of many rounds: users among a few and strangers come in batches, and some come back
/// after long.
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
fn a_flow_beyond_those_told_apart_is_not_reordered_when_a_fifo_becomes_free() {
    let mut q = held(8);
    let put = |q: &mut PerUser<codel::CoDel, u32>, now: Time, flow: u32, item: u32| {
        let mut none = |_: &Packet, item: u32, _| panic!("{item} is lost");
        q.enqueue(now, of_flow(1, flow), item, &mut none);
    };
    (0..4).for_each(|number| put(&mut q, at(0), 0, number));
    // The ninth flow finds no FIFO and shares that of the first.
    (1..8).for_each(|flow| put(&mut q, at(0), flow, 10 * flow));
    put(&mut q, at(0), 8, 80);
    let mut order = Vec::new();
    let mut second = 81;
    for ms in 1..100 {
        while let Some(gone) = q.dequeue(at(ms), &mut |_: &Packet, _, _| {}) {
            order.push(gone.item);
        }
        // The FIFO of the second flow is empty then.
        if second == 81 && order.contains(&10) {
            put(&mut q, at(ms), 8, second);
            second += 1;
        }
    }
    let of_ninth: Vec<u32> = order.iter().copied().filter(|item| *item >= 80).collect();
    assert_eq!((of_ninth, order.len()), (vec![80, 81], 13), "{order:?}");
}

#[test]
fn a_flow_that_shared_a_fifo_has_one_of_its_own_when_its_packets_have_left() {
    let aqm = codel::CoDel::new(&codel::Params::default(), Time::ZERO);
    let (mut set, len) = (Set::new(&aqm), Bytes::new(1500));
    let come = |set: &mut Set<codel::CoDel>, flow: u32| {
        let fifo = set.flow_of(flow, &aqm);
        set.stored(fifo, len, 1538);
        fifo
    };
    let fifos: Vec<usize> = [0, 0, 1, 2, 3, 4, 5, 6, 7, 8].map(|flow| come(&mut set, flow)).into();
    assert_eq!(fifos, [0, 0, 1, 2, 3, 4, 5, 6, 7, 0], "the ninth flow finds none");
    set.left(1, len);
    set.left(0, len);
    assert_eq!(come(&mut set, 8), 0, "its first packet is there still");
    // What the ninth has are the second and the third of four.
    assert_eq!(come(&mut set, 0), 0);
    (0..3).for_each(|_| set.left(0, len));
    assert_eq!([come(&mut set, 8), come(&mut set, 0)], [1, 0]);
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

fn with_lanes(params: Params) -> PerUser<tail_drop::TailDrop, u32> {
    let params = Params { nqb: true, ..params };
    let aqm = tail_drop::TailDrop::new(&tail_drop::Params::default(), Time::ZERO);
    PerUser::new(&params, aqm, &setup(10_000))
}

/// Stores a packet of NQB, or another; whether it was kept.
fn offer(q: &mut PerUser<tail_drop::TailDrop, u32>, now: Time, user: u32, nqb: bool, item: u32) -> bool {
    let mut kept = true;
    let arrival = Arrival { nqb, ..of_flow(user, item) };
    q.enqueue(now, arrival, item, &mut |_: &Packet, _, _| kept = false);
    kept
}

#[test]
fn packets_of_nqb_do_not_wait_behind_others_of_their_user_and_get_no_more_than_these() {
    let mut q = with_lanes(Params::default());
    (0..50).for_each(|_| assert!(offer(&mut q, at(0), 1, false, 10)));
    assert!(offer(&mut q, at(0), 1, true, 20));
    assert_eq!((get(&mut q, at(1)), q.packets_of(of(1).hosts)), (Some(20), 50));
    // A user with both beside one with the classic FIFO alone: each user half, and each kind half of that.
    while get(&mut q, at(1)).is_some() {}
    let (mut sent, mut waiting) = ([0; 3], [0; 3]);
    for _ in 0..4000 {
        for (user, nqb, kind) in [(1, false, 0), (1, true, 1), (2, false, 2)] {
            while waiting[kind] < 5 {
                assert!(offer(&mut q, at(1), user, nqb, kind as u32));
                waiting[kind] += 1;
            }
        }
        let kind = get(&mut q, at(1)).unwrap() as usize;
        (sent[kind], waiting[kind]) = (sent[kind] + 1, waiting[kind] - 1);
    }
    assert!(u32::abs_diff(sent[2], 2000) <= 40 && u32::abs_diff(sent[0], sent[1]) <= 2, "{sent:?}");
    while get(&mut q, at(2)).is_some() {}
    assert!(q.counters().is_conserved(0));
}

#[test]
fn who_is_held_to_a_rate_has_a_lane_for_it_and_flows_beside_that() {
    let params = Params { l4s_threshold: Duration::from_millis(1), ..Params::default() };
    let mut q = with_lanes(params);
    q.make_paces(Duration::ZERO);
    q.admit(at(0), 1);
    q.set_rate_of(of(1).hosts, Some(Rate::from_mbps(12)));
    (0..50).for_each(|_| assert!(offer(&mut q, at(0), 1, false, 10)));
    (0..50).for_each(|_| assert!(offer(&mut q, at(0), 1, false, 11)));
    // 10 ms at 12 Mbit/s, and not at the link's rate.
    let stored = (0..50).filter(|_| offer(&mut q, at(0), 1, true, 20)).count();
    assert_eq!((stored, q.counters().overflowed), (10, 40));
    let order: Vec<u32> = (0..40).filter_map(|ms| get(&mut q, at(ms))).collect();
    assert_eq!(order[..6], [20, 10, 20, 10, 20, 11], "a quantum is 38 bytes more than a packet");
    assert_eq!(order.iter().filter(|item| **item == 20).count(), 10);
    assert!(order[30..].iter().filter(|item| **item == 10).count().abs_diff(5) <= 1, "{order:?}");
    while (40..200).filter_map(|ms| get(&mut q, at(ms))).count() > 0 {}
    assert!(q.packets() == 0 && q.head_arrived().is_none());
}

#[test]
fn packets_with_ect1_are_marked_above_a_shallow_threshold_with_a_lane_and_without() {
    for nqb in [false, true] {
        for (us, want) in [(500, 2), (1500, 1), (0, 0)] {
            let params = Params { l4s_threshold: Duration::from_micros(us), nqb, ..Params::default() };
            let aqm = tail_drop::TailDrop::new(&tail_drop::Params::default(), Time::ZERO);
            let mut q = PerUser::new(&params, aqm, &setup(100));
            for (ms, ecn) in [(0, Ecn::Ect1), (0, Ecn::Ect0), (0, Ecn::Ce), (1, Ecn::Ect1)] {
                q.enqueue(at(ms), Arrival { ecn, ..of(1) }, 0, &mut |_: &Packet, _, _| panic!("there is room"));
            }
            let marked = std::iter::from_fn(|| q.dequeue(at(2), &mut |_: &Packet, _, _| {})).filter(|d| d.marked);
            assert_eq!(marked.count(), want, "{nqb} {us}");
            assert_eq!(q.counters().marked, want as u64);
        }
    }
}

#[test]
fn who_has_no_place_has_no_lane_and_lanes_are_told_in_the_memory() {
    let params = Params { users: 1, ..Params::default() };
    let mut q = with_lanes(params);
    assert!(q.bytes_of_users() >= 2 * (PerUser::<tail_drop::TailDrop, u32>::bytes_per_user() + 24));
    assert!(offer(&mut q, at(0), 1, false, 10));
    for (nqb, item) in [(false, 20), (true, 21), (false, 22)] {
        assert!(offer(&mut q, at(0), 2, nqb, item));
    }
    let order: Vec<u32> = std::iter::from_fn(|| get(&mut q, at(0))).collect();
    let others: Vec<u32> = order.into_iter().filter(|item| *item >= 20).collect();
    assert_eq!((others, counted(&q).shared), (vec![20, 21, 22], 3));
}

#[test]
fn queue_protection_spares_who_sends_little() {
    let mut q = with_lanes(Params { protection: true, ..Params::default() });
    // 10 Gbit/s: 1500 packets are 1.8 ms, above the critical delay of 1 ms.
    for n in 0..2400 {
        assert!(offer(&mut q, at(n / 10), 1, true, 5));
        if n % 800 == 799 {
            assert!(offer(&mut q, at(n / 10), 1, true, 6));
        }
    }
    let sanctioned = q.counters().sanctioned;
    assert!((1540..1570).contains(&sanctioned), "{sanctioned}");
    let order: Vec<u32> = std::iter::from_fn(|| get(&mut q, at(0))).collect();
    let last = order.iter().rposition(|item| *item == 6).unwrap();
    assert!(last < 2 * 900, "{last}: it waits in the lane");
}

#[test]
fn each_user_has_a_shaper_for_flows_that_are_shaped_and_those_beyond_have_none() {
    let params = Params { users: 20, ..Params::default() };
    let mut q: PerUser<Odd, u32> = PerUser::new(&params, Odd, &setup(1000));
    let put = |q: &mut PerUser<Odd, u32>, now, user, flow, item| {
        q.enqueue(now, of_flow(user, flow), item, &mut |_: &Packet, _, _| panic!("there is room"));
    };
    let left = |q: &mut PerUser<Odd, u32>, now| {
        let mut none = |_: &Packet, _, _| panic!("nobody is late");
        std::iter::from_fn(|| q.dequeue(now, &mut none).map(|d| d.item)).collect::<Vec<u32>>()
    };
    for user in 0..20 {
        for flow in [1, 3, 2] {
            put(&mut q, at(0), user, flow, 10 * user + flow);
        }
    }
    // One of each that has a shaper, and all of the four others.
    let first = left(&mut q, at(0));
    assert_eq!(first.len(), 16 + 20 + 2 * 4, "{first:?}");
    assert_eq!((q.packets(), q.head_arrived()), (16, Some(at(1))));
    assert_eq!(left(&mut q, at(1)).len(), 16);
    assert_eq!((q.packets(), q.backlog(), q.head_arrived()), (0, Bytes::ZERO, None));
    // Now others have some.
    put(&mut q, at(2), 19, 1, 0);
    put(&mut q, at(2), 19, 1, 1);
    assert_eq!((left(&mut q, at(2)), q.packets_of(of_flow(19, 1).hosts)), (vec![0], 1));
    q.let_go();
    assert_eq!(left(&mut q, at(2)), [1]);
}

#[test]
fn what_is_shaped_takes_room_of_its_user_and_of_the_queue() {
    let mut q: PerUser<Odd, u32> = PerUser::new(&Params::default(), Odd, &setup(10));
    let mut stored = |user, flow| {
        (0..20).for_each(|n| q.enqueue(at(0), of_flow(user, flow), n, &mut |_: &Packet, _, _| {}));
        q.packets()
    };
    // Half of the room; then half of what is left.
    assert_eq!([stored(1, 1), stored(1, 2), stored(2, 2), stored(3, 3)], [5, 5, 8, 9]);
    assert!(q.counters().is_conserved(9));
}
