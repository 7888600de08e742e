//! Users who are held to rates: each gets the smaller of its rate and its share, and nothing of the link is
//! left unused that somebody may use.

use crate::common;

use common::{from_host, setup};
use proptest::prelude::*;
use weir_aqm::algorithms::tail_drop::{self, TailDrop};
use weir_aqm::{Algorithm, Packet};
use weir_queue::{Discipline, Hosts, Managed, PerUser, Shaper, per_user};
use weir_units::{Duration, Rate, Time};

const CATCH_UP: Duration = Duration::from_millis(10);
/// What a link sends in a test: many packets of the smallest share.
const PACKETS_EACH: u64 = 250;
const LEN_MEAN: u64 = 800;
/// Packets of each that wait. One that arrived just now could not have been sent before.
const BACKLOG: u32 = 8;

fn hosts(user: u32) -> Hosts {
    Hosts { sender: user, receiver: user }
}

fn queue(users: u32) -> PerUser<TailDrop, u32> {
    let params = per_user::Params { users, ..per_user::Params::default() };
    let endless = tail_drop::Params { limit: Duration::from_secs(60) };
    let mut queue = PerUser::new(&params, TailDrop::new(&endless, Time::ZERO), &setup(100_000));
    queue.make_paces(CATCH_UP);
    queue
}

/// Users who always have packets, behind a link.
struct Bench {
    queue: PerUser<TailDrop, u32>,
    link: Shaper,
    sent: Vec<u64>,
    dice: u64,
}

impl Bench {
    fn new(link: Rate, rates: &[Option<Rate>]) -> Bench {
        let (queue, sent) = (queue(rates.len() as u32), vec![0; rates.len()]);
        let mut bench = Bench { queue, link: Shaper::new(link, Duration::ZERO), sent, dice: 1 };
        for (user, rate) in rates.iter().enumerate() {
            (0..BACKLOG).for_each(|_| bench.store(Time::ZERO, user as u32));
            bench.queue.set_rate_of(hosts(user as u32), *rate);
        }
        bench
    }

    fn store(&mut self, now: Time, user: u32) {
        self.dice = self.dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let len = 64 + (self.dice >> 33) % (2 * (LEN_MEAN - 64));
        let mut lost = |_: &Packet, _, _| panic!("there is room");
        self.queue.enqueue(now, from_host(user, user, len), user, &mut lost);
    }

    /// Sends until then, and returns for how long the link did.
    fn run(&mut self, until: Time) -> Duration {
        let mut idle = Duration::ZERO;
        let mut free = Time::ZERO;
        loop {
            let head = self.queue.head_arrived().expect("packets wait");
            let now = self.link.departure(head);
            if now > until {
                return until.since(Time::ZERO) - idle;
            }
            let Some(departure) = self.queue.dequeue(now, &mut |_: &Packet, _, _| panic!("kept")) else {
                assert!(self.queue.head_arrived().is_some_and(|next| next > now), "time goes on");
                continue;
            };
            idle += now.since(free);
            self.link.sent(now, departure.packet.len);
            free = self.link.departure(Time::ZERO);
            self.sent[departure.item as usize] += departure.packet.len.get();
            self.store(now, departure.item);
        }
    }
}

/// What each gets of a link: the smaller of its rate and an equal share of what the others leave.
fn shares(link: f64, rates: &[Option<Rate>]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..rates.len()).collect();
    let wanted = |user: usize| rates[user].map_or(f64::INFINITY, |rate| rate.as_bps_f64());
    order.sort_by(|a, b| wanted(*a).total_cmp(&wanted(*b)));
    let (mut left, mut shares) = (link, vec![0.0; rates.len()]);
    for (n, user) in order.iter().enumerate() {
        shares[*user] = wanted(*user).min(left / (rates.len() - n) as f64);
        left -= shares[*user];
    }
    shares
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, ..ProptestConfig::default() })]

    #[test]
    fn everybody_gets_the_smaller_of_rate_and_share_and_the_link_is_used(
        // Rates in percent of an equal share, 0 for none; those about the share itself are left out.
        wanted in prop::collection::vec(prop_oneof![1 => Just(0u64), 4 => 20..80u64, 1 => 300..400u64], 1..1001),
        mbps in prop_oneof![Just(2u64), Just(10), Just(100)],
    ) {
        // A round takes less than what is made up for, or who waits after each packet gets one in a round and
        // no quantum.
        let link = Rate::from_mbps(mbps * wanted.len() as u64);
        let equal = link.as_bps_f64() / wanted.len() as f64;
        let rate = |percent: &u64| (*percent > 0).then(|| Rate::from_bps_f64(equal * *percent as f64 / 100.0));
        let rates: Vec<Option<Rate>> = wanted.iter().map(rate).collect();
        let shares = shares(link.as_bps_f64(), &rates);
        let smallest = shares.iter().copied().fold(f64::INFINITY, f64::min);
        let seconds = (PACKETS_EACH * LEN_MEAN * 8) as f64 / smallest;
        let mut bench = Bench::new(link, &rates);
        let busy = bench.run(Time::ZERO + Duration::from_secs_f64(seconds));
        for (user, share) in shares.iter().enumerate() {
            let (got, due) = (bench.sent[user] as f64, share * seconds / 8.0);
            prop_assert!((got - due).abs() <= 0.01 * due + 2.0 * 1538.0, "user {} of {:?}: {} of {}", user, rates[user], got, due);
        }
        let used = shares.iter().sum::<f64>() / link.as_bps_f64();
        let was = busy.as_secs_f64() / seconds;
        prop_assert!((was - used).abs() < 0.01 + 2.0 / PACKETS_EACH as f64, "used {} of {}", was, used);
    }
}

#[test]
fn who_must_wait_is_passed_over_and_the_host_hears_when_to_come_back() {
    let mut q = queue(4);
    let at = |us: u64| Time::from_nanos(us * 1000);
    let put = |q: &mut PerUser<TailDrop, u32>, us, user| {
        q.enqueue(at(us), from_host(user, 1, 1000), user, &mut |_: &Packet, _, _| panic!("kept"));
    };
    let get =
        |q: &mut PerUser<TailDrop, u32>, us| q.dequeue(at(us), &mut |_: &Packet, _, _| {}).map(|d| d.item);
    put(&mut q, 0, 1);
    q.set_rate_of(hosts(1), Some(Rate::from_mbps(8)));
    (0..2).for_each(|_| put(&mut q, 0, 1));
    (0..2).for_each(|_| put(&mut q, 0, 2));
    let order: Vec<Option<u32>> = (0..4).map(|_| get(&mut q, 0)).collect();
    assert_eq!(order, [Some(1), Some(2), Some(2), None]);
    assert_eq!((q.head_arrived(), q.packets_of(hosts(1)), q.packets()), (Some(at(1000)), 2, 2));
    // What comes meanwhile waits as well, and others do not.
    put(&mut q, 500, 1);
    assert_eq!((get(&mut q, 500), q.head_arrived()), (None, Some(at(1000))));
    put(&mut q, 600, 3);
    assert_eq!((q.head_arrived(), get(&mut q, 600)), (Some(at(600)), Some(3)));
    assert_eq!((get(&mut q, 999), get(&mut q, 1000), get(&mut q, 1000)), (None, Some(1), None));
    // A host that comes late makes up for it, and without a rate nobody waits beyond the next packet.
    assert_eq!((get(&mut q, 2300), q.head_arrived()), (Some(1), Some(at(2000))));
    q.set_rate_of(hosts(1), None);
    assert_eq!((get(&mut q, 2300), q.head_arrived()), (None, Some(at(3000))));
    assert_eq!((get(&mut q, 3000), q.head_arrived()), (Some(1), None));
    (0..3).for_each(|_| put(&mut q, 3000, 1));
    assert!((0..3).all(|_| get(&mut q, 3000) == Some(1)));
}
