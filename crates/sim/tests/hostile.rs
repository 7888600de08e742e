//! Users who lie to what measures them, or flood it: it takes no memory beyond what it has from the start,
//! says what happened, and others do not feel it.

#[path = "../../queue/tests/counting/mod.rs"]
mod counting;

use counting::calls;
use weir_aqm::algorithms::vaqm;
use weir_aqm::{Algorithm, Ecn, Packet, Sample};
use weir_queue::{Arrival, Discipline, Hosts, Limits, PerUser, Setup, Single, per_user};
use weir_sense::bottleneck::{FollowConfig, Follower};
use weir_sense::{Flows, Suspicions, Way};
use weir_units::{Bytes, Duration, Rate, Time};
use weir_wire::quic::QuicPackets;
use weir_wire::tcp::{Segment, Stamps};
use weir_wire::transport::Transport;

fn at(us: u64) -> Time {
    Time::from_nanos(us * 1_000)
}

/// Knuth's MMIX generator.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 32) as u32
    }

    fn flip(&mut self) -> bool {
        self.next() & 1 == 0
    }
}

/// What a user does in each millisecond, beside an honest flow over a path of 40 ms.
type Lie = fn(&mut Flows<16>, u64, &mut Dice);

/// What of it is counted.
type Counter = fn(&Suspicions) -> u64;

const HONEST: u32 = u32::MAX;

fn data(seq: u32, stamp: u32) -> Transport {
    let stamps = Some(Stamps { value: stamp, echo: 0 });
    Transport::Tcp(Segment { seq, len: 1000, ack: Some(1), stamps, ..Segment::default() })
}

fn ack(ack: u32, echo: u32) -> Transport {
    let stamps = Some(Stamps { value: 0, echo });
    Transport::Tcp(Segment { ack: Some(ack), stamps, ..Segment::default() })
}

fn spoofed_acks(flows: &mut Flows<16>, ms: u64, dice: &mut Dice) {
    flows.observe(at(ms * 1000), Way::ToUser, 1, 1052, &data(ms as u32 * 1000, ms as u32));
    let beyond = (ms as u32 + 1) * 1000 + 1 + dice.next() % 1_000_000;
    flows.observe(at(ms * 1000 + 1), Way::FromUser, 1, 52, &ack(beyond, ms as u32));
}

fn jumping_stamps(flows: &mut Flows<16>, ms: u64, dice: &mut Dice) {
    flows.observe(at(ms * 1000), Way::ToUser, 1, 1052, &data(ms as u32 * 1000, dice.next()));
    flows.observe(at(ms * 1000 + 1), Way::FromUser, 1, 52, &ack(0, dice.next()));
}

fn lying_spin(flows: &mut Flows<16>, ms: u64, dice: &mut Dice) {
    let quic = |spin| Transport::Quic(QuicPackets { spin: Some(spin), ..QuicPackets::default() });
    flows.observe(at(ms * 1000), Way::ToUser, 1, 1200, &quic(dice.flip()));
    flows.observe(at(ms * 1000 + 1), Way::FromUser, 1, 1200, &quic(dice.flip()));
}

fn a_million_flows(flows: &mut Flows<16>, ms: u64, _: &mut Dice) {
    for n in 0..50 {
        let key = (ms * 50 + n) as u32;
        flows.observe(at(ms * 1000 + n), Way::ToUser, key, 1052, &data(0, 0));
    }
}

/// Sixteen flows that are measured for ever, so that no other finds a place.
fn endless_flows(flows: &mut Flows<16>, ms: u64, _: &mut Dice) {
    for key in 1..=16 {
        flows.observe(at(ms * 1000), Way::ToUser, key, 1052, &data(ms as u32 * 1000, ms as u32));
        flows.observe(at(ms * 1000 + 500), Way::FromUser, key, 52, &ack((ms as u32 + 1) * 1000, ms as u32));
    }
}

/// Twenty seconds of it. Returns what was suspected, round-trip times of the honest flow, and calls of the
/// allocator.
fn lied(lie: Lie) -> (Suspicions, Vec<Duration>, u64) {
    let (mut flows, mut dice) = (Flows::<16>::default(), Dice(7));
    let mut rtts = Vec::with_capacity(100_000);
    let before = calls();
    for ms in 0..20_000u64 {
        lie(&mut flows, ms, &mut dice);
        flows.observe(at(ms * 1000 + 600), Way::ToUser, HONEST, 1052, &data(ms as u32 * 1000, ms as u32));
        if let Some(then) = ms.checked_sub(40) {
            let seen = flows.observe(
                at(ms * 1000 + 600),
                Way::FromUser,
                HONEST,
                52,
                &ack((then as u32 + 1) * 1000, then as u32),
            );
            rtts.extend(seen.rtt.map(|r| r.rtt));
        }
    }
    (*flows.suspicions(), rtts, calls() - before)
}

#[test]
fn lies_are_counted_cost_no_memory_and_do_not_hide_who_is_honest() {
    let cases: [(&str, Lie, Counter); 5] = [
        ("spoofed acknowledgements", spoofed_acks, |s| s.acks_beyond),
        ("timestamps that jump", jumping_stamps, |s| s.stamp_jumps),
        ("spin bits that lie", lying_spin, |s| s.spin_distrusted + s.spin_out_of_turn),
        ("a million flows", a_million_flows, |s| s.untracked),
        ("flows that never end", endless_flows, |s| s.untracked),
    ];
    for (what, lie, counter) in cases {
        let (suspicions, rtts, calls) = lied(lie);
        assert!(counter(&suspicions) >= 1000, "{what}: {suspicions:?}");
        assert_eq!(calls, 0, "{what} made it ask for memory");
        // Where all places are those of flows that are measured, a further one has none, and the others
        // serve.
        if what != "flows that never end" {
            assert!(rtts.len() > 1000, "{what}: {} round-trip times", rtts.len());
            assert!(rtts.iter().all(|rtt| *rtt == Duration::from_millis(40)), "{what}");
        }
    }
}

/// Round-trip times from nothing to a minute, in any order, at any time.
#[test]
fn a_follower_survives_any_round_trip_times_and_asks_for_no_memory() {
    let (mut follower, mut dice) = (Follower::new(FollowConfig::default(), at(0)), Dice(3));
    let (mut now, before) = (0u64, calls());
    for _ in 0..200_000 {
        now += u64::from(dice.next() % 5_000);
        follower.arrived(at(now), Bytes::new(u64::from(dice.next() % 100_000)));
        follower.forwarded(at(now), Bytes::new(u64::from(dice.next() % 100_000)));
        let rtt = Duration::from_micros(u64::from(dice.next() % 60_000_000) >> (dice.next() % 26));
        follower.sample(at(now), weir_sense::Rtt { rtt, held: Duration::ZERO, doubtful: false }, dice.flip());
        follower.look(at(now), dice.flip());
        let rate = follower.rate();
        assert!(rate.is_none_or(|rate| rate > Rate::ZERO), "{rate:?}");
    }
    assert_eq!(calls() - before, 0);
}

/// What the last user does.
#[derive(Clone, Copy, PartialEq)]
enum Guest {
    /// Sends more than its share, and shows what it has in flight.
    Greedy,
    /// Sends as much as that in a million flows, and every measurement is a lie.
    Hostile,
}

/// Mean delay of packets of 19 modest users at 20 Mbit/s, and what is discarded of them.
fn others(guest: Guest) -> (f64, u64) {
    const USERS: u32 = 20;
    let params = per_user::Params { users: 64, ..per_user::Params::default() };
    let limits = Limits { bytes: Bytes::new(1_000_000), packets: 1000 };
    let setup = Setup { limits, rate: Rate::from_mbps(20), seed: 1, grows: false };
    let aqm = vaqm::Vaqm::new(&vaqm::Params::default(), Time::ZERO);
    let mut queue: PerUser<_, u32> = PerUser::new(&params, aqm, &setup);
    let (mut dice, mut sum, mut count, mut lost) = (Dice(5), 0.0, 0u64, 0u64);
    let before = calls();
    // A packet of 1500 bytes takes 600 us. The others together send one in 1.2 ms, the guest two in 600 us.
    for slot in 0..50_000u64 {
        let now = at(slot * 600);
        let mut put = |user: u32, flow: u32| {
            let hosts = Hosts { sender: 0, receiver: user };
            let arrival = Arrival { len: Bytes::new(1500), flow, hosts, ecn: Ecn::NotEct, nqb: false };
            queue.enqueue(now, arrival, user, &mut |_: &Packet, item: u32, _| lost += u64::from(item != 0));
        };
        (0..2).for_each(|_| put(0, if guest == Guest::Hostile { dice.next() % 1_000_000 } else { 7 }));
        if slot % 2 == 0 {
            put(1 + dice.next() % (USERS - 1), 7);
        }
        let (rtt, flow, bytes) = match guest {
            Guest::Greedy => (50, 7, 60_000),
            Guest::Hostile => (dice.next() % 60_000, dice.next() % 1_000_000, dice.next()),
        };
        queue.sample_of(0, now, Sample::Rtt(Duration::from_millis(u64::from(rtt))));
        queue.sample_of(0, now, Sample::Inflight { flow, bytes: Bytes::new(u64::from(bytes)) });
        let departure = queue.dequeue(now, &mut |_: &Packet, item: u32, _| lost += u64::from(item != 0));
        if let Some(departure) = departure.filter(|d| d.item != 0) {
            sum += departure.sojourn.as_millis_f64();
            count += 1;
        }
    }
    assert_eq!(calls() - before, 0, "a user made the queue ask for memory");
    (sum / count as f64, lost)
}

#[test]
fn other_users_do_not_feel_a_hostile_one() {
    let [(usual, lost), (beside, more)] = [Guest::Greedy, Guest::Hostile].map(others);
    assert!((beside / usual - 1.0).abs() <= 0.1, "{usual} ms, {beside} ms beside a hostile user");
    assert_eq!((lost, more), (0, 0));
}

/// What leaves of floods and of a modest flow in Mbit/s, and what is discarded of the modest one, in the last
/// ten of twenty seconds in which 200 floods send 40 Mbit/s before a bottleneck of 20 Mbit/s.
fn flooded(queue: &mut impl Discipline<u32>) -> ([f64; 2], u64) {
    let hosts = Hosts { sender: 0, receiver: 0 };
    let arrival = |flow| Arrival { len: Bytes::new(1500), flow, hosts, ecn: Ecn::NotEct, nqb: false };
    // The bottleneck has room for a second.
    let (mut behind, mut left, mut lost, before) = (0u64, [0u64; 2], 0, calls());
    for ms in 0..25_000u64 {
        let (now, is_judged) = (at(ms * 1000), ms >= 15_000);
        let mut out = |_: &Packet, flow: u32, _| lost += u64::from(flow == 0 && is_judged);
        // The modest flow fills the bottleneck nearly, and takes little once there are others.
        let of_modest = if ms < 5000 { 3 } else { u64::from(ms % 30 == 0) };
        let of_floods = if ms < 5000 { 0 } else { 3 + u64::from(ms % 3 == 0) };
        (0..of_modest.min(1 + ms % 2)).for_each(|_| queue.enqueue(now, arrival(0), 0, &mut out));
        for n in 0..of_floods {
            let flow = 1 + (ms * 4 + n) as u32 % 200;
            queue.enqueue(now, arrival(flow), flow, &mut out);
        }
        while let Some(departure) =
            queue.head_arrived().filter(|due| *due <= now).and_then(|_| queue.dequeue(now, &mut out))
        {
            behind = (behind + 1500).min(2_500_000);
            left[usize::from(departure.item > 0)] += if is_judged { 1500 } else { 0 };
        }
        behind = behind.saturating_sub(2500);
        let rtt = Duration::from_micros(40_000 + behind * 1000 / 2500);
        queue.sample_for(now, hosts, Sample::Rtt(rtt));
        let bytes = Bytes::new(if ms < 5000 { 90_000 } else { 3_000 });
        queue.sample_for(now, hosts, Sample::Inflight { flow: 0, bytes });
    }
    assert_eq!(calls() - before, 0, "floods made the queue ask for memory");
    (left.map(|bytes| bytes as f64 * 8.0 / 1e7), lost)
}

#[test]
fn floods_are_shaped_together_in_a_queue_of_all_and_in_one_of_each_user() {
    let aqm = || vaqm::Vaqm::new(&vaqm::Params::default(), Time::ZERO);
    let limits = Limits { bytes: Bytes::new(4_000_000), packets: 4000 };
    let setup = Setup { limits, rate: Rate::from_mbps(1000), seed: 1, grows: false };
    let mut single = Single::guided(aqm(), (), &setup);
    let mut users = PerUser::new(&per_user::Params::default(), aqm(), &setup);
    for ([modest, floods], lost) in [flooded(&mut single), flooded(&mut users)] {
        // Together they are sent as one flow beside another one.
        assert!((8.0..10.5).contains(&floods), "{floods}");
        assert!(modest > 0.39 && lost == 0, "{modest}, {lost} lost");
    }
}
