//! Many users behind one queue: time of a packet at a random one, beside DPDK's scheduler, and memory of an
//! idle one.

use crate::error::{Error, Result};
use crate::rows::Row;
use crate::sim::memory::allocated_by;
use crate::tools;
use std::process::Command;
use std::time::Instant;
use weir_aqm::algorithms::{codel, vaqm};
use weir_aqm::{Algorithm, Ecn, Packet, Sample};
use weir_queue::{AHEAD_MAX, Arrival, Discipline, Hosts, Limits, PerUser, Setup, per_user};
use weir_units::{Bytes, Duration, Rate, Time};

const PART: &str = "users";
const USERS: u32 = 100_000;
/// Users of DPDK's scheduler, as in its own example.
const PIPES: u32 = 4096;
/// Users that are active and measured: their packets are those of [`FLOWS`] flows each.
const ACTIVE: u32 = USERS / 100;
const FLOWS: u32 = 10;
/// Packets that wait at any time: those of a hundredth of the users.
const WAITING: u32 = USERS / 100;
/// Most nanoseconds of a packet, in and out.
const MOST_NANOS: f64 = 250.0;
/// Most bytes of an idle user.
const MOST_BYTES: f64 = 1024.0;
/// The best of so many rounds counts.
const ROUNDS: u32 = 5;

type Queue<A> = PerUser<A, u32>;

/// Measures with so many packets a round.
pub fn run(packets: u32) -> Vec<Row> {
    eprintln!("users: {USERS}");
    let mut rows = of::<codel::CoDel>(packets);
    rows.extend(of::<vaqm::Vaqm>(packets));
    let what = format!("DPDK rte_sched, {PIPES} pipes: a packet at a random pipe");
    rows.push(match scheduler(packets) {
        Ok(nanos) => Row::told(PART, what, nanos, "ns").times(ROUNDS),
        Err(error) => Row::skipped(PART, what, error.to_string()),
    });
    rows
}

/// Nanoseconds of a packet through DPDK's hierarchical scheduler.
fn scheduler(packets: u32) -> Result<f64> {
    let program = tools::peer("rte_sched")?;
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        let numbers = [PIPES, packets, WAITING].map(|n| n.to_string());
        let (said, _) = tools::output(Command::new(&program).args(numbers))?;
        let nanos = said.split_whitespace().next().and_then(|nanos| nanos.parse().ok());
        best = best.min(nanos.ok_or_else(|| Error::new(format!("rte_sched said {said}")))?);
    }
    Ok(best)
}

fn of<A: Algorithm>(packets: u32) -> Vec<Row> {
    let (mut queue, bytes) = allocated_by(build::<A>);
    let mut traffic = Traffic::default();
    for _ in 0..WAITING {
        let arrival = traffic.next(USERS);
        traffic.put(&mut queue, arrival);
    }
    traffic.measure(&mut queue);
    let mut best = |users: u32| {
        let rounds = (0..ROUNDS).map(|_| nanos(&mut queue, &mut traffic, packets, users));
        rounds.fold(f64::INFINITY, f64::min)
    };
    let (all, active) = (best(USERS), best(ACTIVE));
    let what = |what: &str| format!("{}, {USERS} users: {what}", A::NAME);
    let limited =
        |name: &str, ns: f64| Row::told(PART, what(name), ns, "ns").at_most(MOST_NANOS).times(ROUNDS);
    vec![
        limited("a packet at a random user", all),
        limited(&format!("the same of {ACTIVE} active ones with {FLOWS} flows each"), active),
        Row::told(PART, what("an idle user"), bytes as f64 / f64::from(USERS), "bytes").at_most(MOST_BYTES),
    ]
}

fn build<A: Algorithm>() -> Queue<A> {
    let params = per_user::Params { users: USERS, ..per_user::Params::default() };
    let limits = Limits { bytes: Bytes::new(100_000_000), packets: 100_000 };
    let setup = Setup { limits, rate: Rate::from_mbps(100_000), seed: 1, grows: true };
    PerUser::new(&params, A::new(&A::Params::default(), Time::ZERO), &setup)
}

/// Packets for users at random, one each 80 ns as at 100 Gbit/s with 1000 bytes.
#[derive(Default)]
struct Traffic {
    now: Time,
    state: u64,
}

impl Traffic {
    fn draw(&mut self) -> u64 {
        self.state =
            self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.state >> 32
    }

    /// A packet for one of the first `users`.
    fn next(&mut self, users: u32) -> Arrival {
        let user = ((self.draw() * u64::from(users)) >> 32) as u32;
        let flow = user * FLOWS + (self.state >> 16) as u32 % FLOWS;
        let hosts = Hosts { sender: 0, receiver: user };
        Arrival { len: Bytes::new(1000), flow, hosts, ecn: Ecn::NotEct, nqb: false }
    }

    fn put<A: Algorithm>(&mut self, queue: &mut Queue<A>, arrival: Arrival) {
        self.now += Duration::from_nanos(80);
        queue.enqueue(self.now, arrival, arrival.hosts.receiver, &mut |_: &Packet, _, _| {});
    }

    /// What is known of the active users: their path, and what their flows have in flight.
    fn measure<A: Algorithm>(&mut self, queue: &mut Queue<A>) {
        for user in 0..ACTIVE {
            queue.admit(self.now, user);
            queue.sample_of(user, self.now, Sample::Rtt(Duration::from_millis(40)));
            for flow in user * FLOWS..(user + 1) * FLOWS {
                let bytes = Bytes::new(10_000 + self.draw() % 10_000);
                queue.sample_of(user, self.now, Sample::Inflight { flow, bytes });
            }
        }
    }
}

/// One packet in and one out, again and again, for the first `users`. They come in batches of which the queue
/// is told before, as the dataplane does with the frames that it receives.
fn nanos<A: Algorithm>(queue: &mut Queue<A>, traffic: &mut Traffic, packets: u32, users: u32) -> f64 {
    let start = Instant::now();
    let batches = packets.div_ceil(AHEAD_MAX as u32);
    for _ in 0..batches {
        let batch: [Arrival; AHEAD_MAX] = std::array::from_fn(|_| traffic.next(users));
        queue.expect(&batch.map(|arrival| arrival.hosts));
        for arrival in batch {
            traffic.put(queue, arrival);
            let departure = queue.dequeue(traffic.now, &mut |_: &Packet, _, _| {});
            std::hint::black_box(departure);
        }
    }
    start.elapsed().as_nanos() as f64 / f64::from(batches * AHEAD_MAX as u32)
}
