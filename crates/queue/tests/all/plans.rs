//! Customers below sites: each gets the smallest of its rate, its share of its site and its share of the
//! link; plans are exchanged while packets wait, and none is lost.

use crate::common;

use common::{from_host, setup};
use proptest::prelude::*;
use weir_aqm::algorithms::codel::{self, CoDel};
use weir_aqm::algorithms::tail_drop::{self, TailDrop};
use weir_aqm::{Algorithm, Aqm, Cause, Ecn, Guide, Moment, Packet, Verdict, View};
use weir_queue::{
    Arrival, Discipline, Hosts, Managed, PerUser, Plan, Plans, Setup, Shaper, UserNow, per_user,
};
use weir_units::{Bytes, Duration, Rate, Time};

const CATCH_UP: Duration = Duration::from_millis(10);
const LEN: u64 = 1000;
/// Packets of each that wait.
const BACKLOG: u32 = 8;

fn queue<A: Algorithm>(users: u32, aqm: A) -> PerUser<A, u32> {
    let params = per_user::Params { users, ..per_user::Params::default() };
    let mut queue = PerUser::new(&params, aqm, &setup(100_000));
    queue.make_plans(CATCH_UP);
    queue
}

fn endless() -> TailDrop {
    TailDrop::new(&tail_drop::Params { limit: Duration::from_secs(60) }, Time::ZERO)
}

fn at(ms: u64) -> Time {
    Time::from_nanos(ms * 1_000_000)
}

fn mbps(rate: u64) -> Option<Rate> {
    Some(Rate::from_mbps(rate))
}

fn plan(rate: u64, site: u32) -> Plan {
    Plan { rate: mbps(rate), site: Some(site), ..Plan::default() }
}

/// Users who always have packets, behind a link.
struct Bench {
    queue: PerUser<TailDrop, u32>,
    link: Shaper,
    sent: Vec<u64>,
    /// The next packet of each, to see that they leave in their order.
    next: Vec<(u64, u64)>,
}

impl Bench {
    fn new(link: Rate, users: u32) -> Bench {
        let (queue, users) = (queue(users, endless()), users as usize);
        Bench {
            queue,
            link: Shaper::new(link, Duration::ZERO),
            sent: vec![0; users],
            next: vec![(0, 0); users],
        }
    }

    fn put(&mut self, plans: Vec<Plan>, sites: &[Option<Rate>]) {
        self.queue.set_plans(&mut Plans::new(plans, sites));
        let waiting = self.queue.packets();
        assert!(self.queue.counters().is_conserved(waiting));
    }

    fn fill(&mut self, now: Time) {
        for user in 0..self.sent.len() as u32 {
            (0..BACKLOG).for_each(|_| self.store(now, user));
        }
    }

    fn store(&mut self, now: Time, user: u32) {
        let (stored, _) = &mut self.next[user as usize];
        *stored += 1;
        let mut lost = |_: &Packet, _, _| panic!("there is room");
        self.queue.enqueue(now, from_host(user, user, LEN), user, &mut lost);
    }

    /// Sends until then; bytes of each user meanwhile.
    fn run(&mut self, until: Time) -> Vec<u64> {
        let before = self.sent.clone();
        let mut seen = 0;
        loop {
            let head = self.queue.head_arrived().expect("packets wait");
            let now = self.link.departure(head);
            if now > until {
                return self.sent.iter().zip(&before).map(|(now, then)| now - then).collect();
            }
            let Some(departure) = self.queue.dequeue(now, &mut |_: &Packet, _, _| panic!("kept")) else {
                assert!(self.queue.head_arrived().is_some_and(|next| next > now), "time goes on");
                seen += 1;
                assert!(seen < 10_000_000, "it ends");
                continue;
            };
            self.link.sent(now, departure.packet.len);
            let user = departure.item as usize;
            self.sent[user] += departure.packet.len.get();
            self.next[user].1 += 1;
            self.store(now, departure.item);
        }
    }
}

/// What each gets: all grow together until their rate, their site or the link stops them.
fn shares(link: f64, plans: &[Plan], sites: &[Option<Rate>]) -> Vec<f64> {
    let mut shares = vec![0.0; plans.len()];
    let mut open: Vec<usize> = (0..plans.len()).collect();
    let of_site = |shares: &[f64], site: u32| -> f64 {
        plans.iter().zip(shares).filter(|(plan, _)| plan.site == Some(site)).map(|(_, share)| share).sum()
    };
    while !open.is_empty() {
        // How far all that are open can still grow.
        let link_room = (link - shares.iter().sum::<f64>()) / open.len() as f64;
        let room = |user: usize| {
            let own = plans[user].rate.map_or(f64::INFINITY, |rate| rate.as_bps_f64() - shares[user]);
            let site = plans[user].site.and_then(|site| {
                let rate = sites[site as usize]?.as_bps_f64();
                let open = open.iter().filter(|other| plans[**other].site == Some(site)).count();
                Some((rate - of_site(&shares, site)) / open as f64)
            });
            own.min(site.unwrap_or(f64::INFINITY)).min(link_room)
        };
        let rooms: Vec<f64> = open.iter().map(|user| room(*user)).collect();
        let step = rooms.iter().copied().fold(f64::INFINITY, f64::min);
        open.iter().for_each(|user| shares[*user] += step);
        let still = |(_, room): &(usize, f64)| *room > step + 1.0;
        open = open.iter().copied().zip(rooms).filter(still).map(|(user, _)| user).collect();
    }
    shares
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn everybody_gets_the_smallest_of_rate_share_of_the_site_and_share_of_the_link(
        // Rates in Mbit/s, 0 for none, and sites, 0 for none.
        users in prop::collection::vec((prop_oneof![1 => Just(0u64), 3 => 2..30u64], 0..4u32), 1..60),
        sites in prop::collection::vec(prop_oneof![1 => Just(0u64), 4 => 20..200u64], 3),
        link in 100..800u64,
    ) {
        let rate = |mbps: u64| (mbps > 0).then(|| Rate::from_mbps(mbps));
        let sites: Vec<Option<Rate>> = sites.into_iter().map(rate).collect();
        let plan = |(mbps, site): (u64, u32)| Plan { rate: rate(mbps), site: site.checked_sub(1), ..Plan::default() };
        let plans: Vec<Plan> = users.into_iter().map(plan).collect();
        let link = Rate::from_mbps(link);
        let due = shares(link.as_bps_f64(), &plans, &sites);
        let mut bench = Bench::new(link, plans.len() as u32);
        bench.put(plans.clone(), &sites);
        bench.fill(Time::ZERO);
        // The first round lets newcomers go first.
        bench.run(at(100));
        let got = bench.run(at(1100));
        for (user, (got, due)) in got.iter().zip(&due).enumerate() {
            let (got, due) = (*got as f64, due / 8.0);
            let off = (got - due).abs();
            prop_assert!(off <= 0.03 * due + 8.0 * LEN as f64, "user {user}, {:?}: {got} of {due}; {plans:?} {sites:?} {link}", plans[user]);
        }
        // No site sends more than its rate.
        for (site, rate) in sites.iter().enumerate() {
            let Some(rate) = rate else { continue };
            let sum: u64 = (0..plans.len()).filter(|user| plans[*user].site == Some(site as u32)).map(|user| got[user]).sum();
            prop_assert!(sum as f64 <= rate.as_bps_f64() / 8.0 * 1.011 + 2.0 * LEN as f64, "site {site}: {sum}");
        }
    }
}

#[test]
fn plans_are_exchanged_while_packets_wait_and_none_is_lost_or_reordered() {
    let mut bench = Bench::new(Rate::from_mbps(100), 6);
    bench.put((0..6).map(|user| plan(10, user % 2)).collect(), &[mbps(15), None]);
    bench.fill(Time::ZERO);
    bench.run(at(500));
    let close = |got: &[u64], mbit: &[f64]| {
        let of = |bytes: &u64| *bytes as f64 * 8.0 / 1e6;
        assert!(
            got.iter().zip(mbit).all(|(got, due)| (of(got) - due).abs() < 0.02 * due + 0.05),
            "{got:?} {mbit:?}"
        );
    };
    close(&bench.run(at(1500)), &[5.0, 10.0, 5.0, 10.0, 5.0, 10.0]);
    // Others are on the other site, one has a larger rate, one has no plan any more.
    let mut plans: Vec<Plan> = (0..5).map(|user| plan(10, (user + 1) % 2)).collect();
    plans[0].rate = mbps(20);
    bench.put(plans, &[mbps(8), mbps(30)]);
    bench.run(at(1600));
    let got = bench.run(at(2600));
    close(&got[..5], &[10.0, 4.0, 10.0, 4.0, 10.0]);
    assert!(got[5] * 8 > 60_000_000, "{got:?}");
    // Ten thousand times in a row, and no plans at the end.
    for change in 0..10_000u64 {
        bench.put(
            (0..6).map(|user| plan(1 + (change + user) % 20, (change % 3) as u32)).collect(),
            &[mbps(5), None, mbps(50)],
        );
        if change % 100 == 0 {
            bench.run(at(2600 + change / 100));
        }
    }
    bench.put(Vec::new(), &[]);
    bench.run(at(2900));
    for (stored, left) in &bench.next {
        assert_eq!(stored - left, u64::from(BACKLOG));
    }
    let waits: u32 =
        std::iter::from_fn(|| bench.queue.dequeue(at(5000), &mut |_: &Packet, _, _| {})).map(|_| 1).sum();
    assert_eq!((waits, bench.queue.packets()), (6 * BACKLOG, 0));
}

#[test]
fn a_burst_goes_at_once_and_then_the_rate_holds() {
    let mut q = queue(4, endless());
    let burst = Plan { rate: mbps(8), burst: Bytes::new(5 * LEN), ..Plan::default() };
    q.set_plans(&mut Plans::new(vec![burst, Plan { burst: Bytes::ZERO, ..burst }], &[]));
    let mut lost = |_: &Packet, _, _: Cause| panic!("there is room");
    for user in [0, 1] {
        (0..20).for_each(|_| q.enqueue(at(1000), from_host(user, user, LEN), user, &mut lost));
    }
    let mut sent = |now: Time| {
        let all = std::iter::from_fn(|| q.dequeue(now, &mut |_: &Packet, _, _| {})).map(|d| d.item);
        let all: Vec<u32> = all.collect();
        [0, 1].map(|user| all.iter().filter(|item| **item == user).count())
    };
    // A packet takes 1 ms.
    assert_eq!(sent(at(1000)), [6, 1]);
    assert_eq!(sent(at(1003)), [3, 3]);
    assert_eq!(sent(at(1004)), [1, 1]);
}

#[test]
fn a_host_that_ends_gets_all_at_once_and_plans_hold_again_where_it_does_not() {
    let mut q = queue(8, endless());
    q.set_plans(&mut Plans::new((0..4).map(|user| plan(8, user % 2)).collect(), &[mbps(8), None]));
    let mut lost = |_: &Packet, _, _: Cause| panic!("there is room");
    let fill = |q: &mut PerUser<TailDrop, u32>, now, lost: &mut _| {
        (0..4).for_each(|user| (0..20).for_each(|_| q.enqueue(now, from_host(user, user, LEN), user, lost)));
    };
    let all = |q: &mut PerUser<TailDrop, u32>, now| {
        std::iter::from_fn(|| q.dequeue(now, &mut |_: &Packet, _, _| panic!("kept"))).count()
    };
    fill(&mut q, at(0), &mut lost);
    assert_eq!(all(&mut q, at(0)), 3, "two users and a site");
    q.let_go();
    assert_eq!((all(&mut q, at(0)), q.packets()), (77, 0));
    q.hold_again();
    fill(&mut q, at(100), &mut lost);
    assert_eq!(all(&mut q, at(100)), 3);
    assert_eq!(q.head_arrived(), Some(at(101)));
}

#[test]
fn who_is_exempt_meets_no_algorithm_and_a_target_is_that_of_its_customer_alone() {
    let aqm = CoDel::new(&codel::Params::default(), Time::ZERO);
    let mut q = queue(4, aqm);
    let target = Duration::from_millis(400);
    let plans = || {
        let exempt = Plan { is_exempt: true, ..Plan::default() };
        Plans::new(vec![exempt, Plan { target: Some(target), ..Plan::default() }, Plan::default()], &[])
    };
    q.set_plans(&mut plans());
    // Each always has ten packets, of which one leaves in each step, so that it waited for about 100 ms.
    let (mut stored, mut dropped) = ([0u64; 4], [0u64; 4]);
    let hosts = |user: u32| Hosts { sender: user, receiver: user };
    for step in 0..400u64 {
        for user in 0..4 {
            let arrival = Arrival {
                len: Bytes::new(1500),
                flow: user,
                hosts: hosts(user),
                ecn: Ecn::NotEct,
                nqb: false,
            };
            while q.packets_of(hosts(user)) < 10 {
                q.enqueue(at(step * 10), arrival, user, &mut |_: &Packet, _, _| panic!("there is room"));
                stored[user as usize] += 1;
            }
        }
        let mut discarded = |_: &Packet, user: u32, _: Cause| dropped[user as usize] += 1;
        (0..4).for_each(|_| assert!(q.dequeue(at(step * 10 + 9), &mut discarded).is_some()));
    }
    assert_eq!((dropped[0], dropped[1]), (0, 0), "{dropped:?}");
    assert!(dropped[2] > 10 && dropped[3] > 10, "{dropped:?}");
    let mut told = [UserNow::default(); 8];
    assert_eq!(q.tell_users(0, &mut told), 4);
    let of = |key: u32| *told.iter().find(|user| user.key == key).unwrap();
    for user in 0..4 {
        let now = of(user);
        assert_eq!(now.dropped, dropped[user as usize]);
        assert_eq!(now.packets + now.dropped + u64::from(now.waiting), stored[user as usize]);
        assert_eq!((now.bytes, now.backlog.get()), (now.packets * 1500, u64::from(now.waiting) * 1500));
    }
    let mean = of(0).delays.as_nanos() / of(0).packets;
    assert!(
        (80_000_000..120_000_000).contains(&mean) && of(0).delay_max > Duration::from_millis(90),
        "{mean}"
    );
    // Nearly all waited for as long as the longest, up to a quarter of which may be added.
    let (p95, longest) = (of(0).delay_p95.unwrap(), of(0).delay_max);
    assert!(p95 > longest.mul_f64(0.9) && p95 < longest.mul_f64(1.26), "{p95} {longest}");
    // Delays are those since somebody asked last.
    assert_eq!(q.tell_users(0, &mut told), 4);
    assert_eq!((told[0].delay_max, told[0].delay_p95), (Duration::ZERO, None));
    // What is left of a target is that of all.
    q.set_plans(&mut Plans::new(Vec::new(), &[]));
    assert_eq!(q.tell_users(3, &mut told), 1);
    assert_eq!(q.setpoint(), Some(codel::Params::default().target));
}

#[test]
fn whoever_comes_and_goes_every_packet_leaves() {
    let mut q = queue(40, endless());
    let plans = |n: u64| {
        let plan = |user: u64| Plan {
            rate: mbps(1 + (user + n) % 5).filter(|_| !(user + n).is_multiple_of(3)),
            burst: Bytes::new(user % 4 * LEN),
            site: Some((user + n) as u32 % 4).filter(|site| *site < 3),
            ..Plan::default()
        };
        Plans::new((0..30).map(plan).collect(), &[mbps(6), None, mbps(20)])
    };
    let (mut dice, mut now, mut waits) = (1u64, Time::ZERO, 0u32);
    let mut link = Shaper::new(Rate::from_mbps(50), Duration::ZERO);
    for step in 0..60_000u64 {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let user = (dice >> 33) as u32 % 40;
        // Bursts of packets with times of silence between them.
        if step / 500 % 2 == 0 {
            let mut lost = |_: &Packet, _, _: Cause| panic!("there is room");
            q.enqueue(now, from_host(user, user, 64 + (dice >> 40) % 1400), user, &mut lost);
            waits += 1;
        }
        if step % 1000 == 999 {
            q.set_plans(&mut plans(step / 1000));
        }
        now += Duration::from_micros(200);
        // A link that is short at times.
        while q.head_arrived().is_some_and(|head| link.departure(head) <= now) {
            let at = link.departure(q.head_arrived().unwrap());
            match q.dequeue(at, &mut |_: &Packet, _, _| panic!("kept")) {
                Some(departure) => {
                    link.sent(at, departure.packet.len);
                    waits -= 1;
                }
                None => assert!(q.head_arrived().is_some_and(|next| next > at), "step {step}: time goes on"),
            }
        }
        assert_eq!(q.packets(), waits);
    }
    // What waits for a rate leaves in its time.
    while let Some(head) = q.head_arrived() {
        let at = link.departure(head);
        assert!(at < now + Duration::from_secs(20), "{} packets are stuck", q.packets());
        if let Some(departure) = q.dequeue(at, &mut |_: &Packet, _, _| panic!("kept")) {
            link.sent(at, departure.packet.len);
        } else {
            assert!(q.head_arrived().is_some_and(|next| next > at), "time goes on");
        }
    }
    assert_eq!((q.packets(), q.backlog()), (0, Bytes::ZERO));
}

/// Notes what a guide is told.
#[derive(Default)]
struct Told {
    /// The wholes that it would have been shown.
    wholes: Vec<View>,
    /// The rates that the algorithm would have been told.
    rates: Vec<Rate>,
    sent: u32,
    beside: u32,
    empty: u32,
}

impl<A: Aqm> Guide<A> for Told {
    fn on_enqueue(&mut self, _: &mut A, whole: impl FnOnce() -> View, m: &Moment, _: &Packet) -> Verdict {
        self.wholes.push(whole());
        self.rates.push(m.queue.rate);
        Verdict::Forward
    }
    fn on_dequeue(&mut self, _: &mut A, _: impl FnOnce() -> View, _: &Moment, _: &Packet) -> Verdict {
        self.sent += 1;
        Verdict::Forward
    }
    fn on_empty(&mut self, _: &mut A, all: bool, _: Time) {
        self.empty += u32::from(all);
    }
    fn on_beside(&mut self, _: Time, _: &Packet) {
        self.beside += 1;
    }
    fn on_idle(&mut self) {
        self.empty += 1;
    }
}

/// Three packets of each of three customers, of two flows of each, of which one leaves in a millisecond; when
/// the queue is empty.
fn three_of_each<A: Aqm + Clone>(q: &mut PerUser<A, u32, Told>) -> Time {
    let mut lost = |_: &Packet, _, _: Cause| panic!("there is room");
    for n in 0..3 {
        (0..3).for_each(|user| q.enqueue(at(0), from_host(user, 10 * user + n % 2, LEN), user, &mut lost));
    }
    let mut now = at(0);
    while q.packets() > 0 {
        let _ = q.dequeue(now, &mut lost);
        now += Duration::from_millis(1);
    }
    now
}

#[test]
fn a_guide_of_its_own_is_told_of_its_customer_alone_at_the_rate_of_that() {
    let params = per_user::Params { users: 4, ..per_user::Params::default() };
    let mut q = PerUser::guided(&params, endless(), Told::default(), &setup(1000));
    assert!(q.own_guides().is_none(), "there is no room before that for plans");
    q.make_plans(CATCH_UP);
    q.set_plans(&mut Plans::new(vec![Plan::default(), plan(8, 0)], &[None]));
    *q.own_guides().unwrap() = Box::new([None, Some(Box::default())]);
    let now = three_of_each(&mut q);
    let own = q.own_guides().unwrap()[1].take().unwrap();
    let seen: Vec<(u64, u32, Duration)> =
        own.wholes.iter().map(|view| (view.backlog.get(), view.packets, view.delay)).collect();
    let ms = Duration::from_millis;
    assert_eq!(seen, [(0, 0, ms(0)), (LEN, 1, ms(1)), (2 * LEN, 2, ms(2))]);
    assert!(own.wholes.iter().all(|view| view.rate == Rate::from_mbps(8)));
    assert_eq!((own.sent, own.beside, own.empty), (3, 0, 1));
    // That of all decides about the others; to it those of customer 1 fill the link from beside.
    let of_all = q.guide();
    assert_eq!((of_all.wholes.len(), of_all.sent, of_all.beside, of_all.empty), (6, 6, 3, 1));
    // Who has no guide of its own any more is under that of all again.
    q.enqueue(now, from_host(1, 10, LEN), 1, &mut |_: &Packet, _, _| panic!("there is room"));
    assert_eq!((q.guide().wholes.len(), q.guide().beside), (7, 3));
}

#[test]
fn what_passes_for_those_who_are_exempt_fills_the_link_to_the_guides() {
    let params = per_user::Params { users: 4, ..per_user::Params::default() };
    let mut q = PerUser::guided(&params, endless(), Told::default(), &setup(1000));
    q.make_plans(CATCH_UP);
    let exempt = Plan { is_exempt: true, ..plan(8, 0) };
    q.set_plans(&mut Plans::new(vec![exempt, exempt, Plan::default()], &[None]));
    *q.own_guides().unwrap() = Box::new([None, Some(Box::default())]);
    three_of_each(&mut q);
    // Nothing is decided about packets of customers 0 and 1, and all of them are counted.
    let own = q.own_guides().unwrap()[1].take().unwrap();
    assert_eq!((own.wholes.len(), own.sent, own.beside), (0, 0, 3));
    let of_all = q.guide();
    assert_eq!((of_all.wholes.len(), of_all.sent, of_all.beside), (3, 3, 6));
}

#[test]
fn the_flows_of_a_plan_with_one_fifo_wait_in_one_at_the_rate_of_the_plan() {
    let params = per_user::Params { users: 4, ..per_user::Params::default() };
    // The link is slower than the plan.
    let slow = Setup { rate: Rate::from_mbps(4), ..setup(1000) };
    let mut q = PerUser::guided(&params, endless(), Told::default(), &slow);
    q.make_plans(CATCH_UP);
    let plans = |is_one_fifo| {
        Plans::new(vec![Plan { is_one_fifo, burst: Bytes::new(20 * LEN), ..plan(8, 0) }], &[None])
    };
    q.set_plans(&mut plans(true));
    *q.own_guides().unwrap() = Box::new([Some(Box::default())]);
    let mut lost = |_: &Packet, _, _: Cause| panic!("there is room");
    // Four packets of one flow and one of another: the order in which they leave.
    let mut order = |q: &mut PerUser<_, u32, Told>, now: Time| -> Vec<u32> {
        for (n, flow) in [1, 1, 1, 1, 2].into_iter().enumerate() {
            q.enqueue(now, from_host(0, flow, LEN), n as u32, &mut lost);
        }
        let later = now + Duration::from_millis(50);
        std::iter::from_fn(|| q.dequeue(later, &mut lost).map(|departure| departure.item)).collect()
    };
    assert_eq!(order(&mut q, at(0)), [0, 1, 2, 3, 4]);
    let own = q.own_guides().unwrap()[0].as_ref().unwrap();
    assert!(own.rates.iter().all(|rate| *rate == Rate::from_mbps(8)), "{:?}", own.rates);
    // Told apart they take turns, and in one FIFO again once those that waited apart have left.
    q.set_plans(&mut plans(false));
    assert!(order(&mut q, at(100)).iter().position(|item| *item == 4) < Some(4));
    assert!(q.own_guides().unwrap()[0].as_ref().unwrap().rates.last() < Some(&Rate::from_mbps(8)));
    q.enqueue(at(200), from_host(0, 1, LEN), 7, &mut |_: &Packet, _, _| panic!("there is room"));
    q.set_plans(&mut plans(true));
    assert_eq!(order(&mut q, at(200)).len(), 6);
    assert_eq!(order(&mut q, at(300)), [0, 1, 2, 3, 4]);
}
