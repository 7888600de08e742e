use super::*;
use weir_sense::trace;
use weir_wire::quic::QuicPackets;
use weir_wire::tcp::Segment;

const LEN: Bytes = Bytes::new(1538);
const MSS: u32 = 1448;

fn at(us: u64) -> Time {
    Time::ZERO + Duration::from_micros(us)
}

fn observer(mode: Upstream, users: Option<u32>) -> Observer {
    let measured = Window { from: Time::ZERO, until: Time::from_nanos(u64::MAX) };
    let setup = ObserverSetup { mode, users, by_sender: false, own: Rate::from_mbps(1000), measured };
    Observer::new(setup, Time::ZERO)
}

fn note(user: u32, transport: Transport) -> Note {
    let hosts = Hosts { sender: 1, receiver: user };
    Note { transport: Some(transport), ports: (1, 2), flow: user, hosts, len: LEN }
}

fn data(user: u32, n: u32) -> Note {
    let segment = Segment { seq: n.wrapping_mul(MSS), ack: Some(1), len: MSS, ..Segment::default() };
    note(user, Transport::Tcp(segment))
}

fn ack(user: u32, n: u32) -> Note {
    let segment = Segment { seq: 1, ack: Some((n + 1).wrapping_mul(MSS)), ..Segment::default() };
    note(user, Transport::Tcp(segment))
}

/// The rate of a direction that has at most 25 Mbit/s.
fn direction(learned: Learned, before: Rate) -> Rate {
    let rate = match learned.rate {
        Some(Follows::Direction(rate)) => rate,
        other => {
            assert_eq!(other, None);
            before
        }
    };
    rate.min(Rate::from_mbps(25))
}

/// A link of 20 Mbit/s behind, with a FIFO and 40 ms of path: when a packet that leaves at `now` is
/// acknowledged.
struct Bottleneck {
    free: u64,
}

impl Bottleneck {
    fn ack_of(&mut self, now_us: u64) -> u64 {
        self.free = self.free.max(now_us) + 615;
        self.free + 40_000
    }
}

#[test]
fn a_rate_that_follows_is_that_of_the_bottleneck_by_the_accounting_of_the_link() {
    let mut o = observer(Upstream::Follow, None);
    let (mut behind, mut acks, mut now, mut next) = (Bottleneck { free: 0 }, Vec::new(), 0u64, 0u32);
    let (mut rate, mut settled) = (Rate::from_mbps(25), None);
    while now < 6_000_000 {
        let gap = LEN.get() * 8_000_000 / rate.as_bps();
        now += gap.max(1);
        while acks.first().is_some_and(|(due, _)| *due <= now) {
            let (due, n) = acks.remove(0);
            rate = direction(o.answered(at(due), &ack(7, n), true), rate);
        }
        o.arrived(at(now), Hosts { sender: 1, receiver: 7 }, LEN);
        rate = direction(o.forwarded(at(now), &data(7, next), true), rate);
        acks.push((behind.ack_of(now), next));
        next += 1;
        settled = settled.or((now > 3_000_000).then_some(next));
    }
    let told = o.now();
    let [path, average, target] = told.model.unwrap();
    assert!((40.0..42.0).contains(&path.as_millis_f64()) && average < target.saturating_mul(2), "{told:?}");
    assert!(told.rate.is_some_and(|rate| rate < Rate::from_mbps(25)), "{told:?}");
    let sent = f64::from(next - settled.unwrap()) * LEN.get() as f64 * 8.0 / 3e6;
    assert!((18.0..21.0).contains(&sent), "{sent} Mbit/s for 20");
    assert!(told.coverage.share().unwrap() > 0.99);
    let summary = o.summary();
    assert_eq!((summary.mode.as_str(), summary.users), ("follow", 1));
    assert!(
        summary.samples > 100 && summary.rtt_ms.unwrap().p50 > 40.0 && summary.suspicions.is_empty(),
        "{summary:?}"
    );
}

#[test]
fn each_user_is_measured_by_itself() {
    let mut o = observer(Upstream::Inform, Some(16));
    for (user, rtt_us) in [(1, 10_000), (2, 200_000)] {
        assert_eq!(o.forwarded(at(0), &data(user, 0), false), Learned::default());
        let learned = o.answered(at(rtt_us), &ack(user, 0), false);
        assert_eq!(learned.in_flight, Some(Bytes::ZERO));
        assert_eq!((learned.rate, learned.reaction), (None, None));
        // A segment alone may have been acknowledged late: what follows is measured.
        for n in 1..3 {
            o.forwarded(at(rtt_us), &data(user, n), false);
        }
        let learned = o.answered(at(2 * rtt_us), &ack(user, 2), false);
        assert_eq!(learned.rtt, Some(Duration::from_micros(rtt_us)), "user {user}");
    }
    let told = o.now();
    assert_eq!((told.users, told.follows), (Some(2), false));
    assert!(told.line().starts_with("2 users, "), "{}", told.line());
    assert_eq!(o.summary().path_rtt_ms, None, "there is no model of all users together");
    assert!(o.bytes() < 16 * 8192 && o.room() == (16, 8));
}

#[test]
fn a_connection_whose_spin_bit_stands_still_counts_as_delivered_when_it_is_sent() {
    let mut o = observer(Upstream::Follow, None);
    let silent = Transport::Quic(QuicPackets { spin: Some(false), ..QuicPackets::default() });
    for n in 0..200u64 {
        o.forwarded(at(1000 * n), &note(3, silent), false);
    }
    let told = o.now();
    assert_eq!((told.model, told.rate, told.coverage.live), (None, None, 0));
    assert!(told.line().starts_with("no RTT yet, rate not held"), "{}", told.line());
}

/// Two users behind links of 20 Mbit/s and of a slower one, each served at the rate that it is told; what
/// each sent in the second half, in Mbit/s.
#[test]
fn each_user_follows_a_bottleneck_of_its_own() {
    let mut o = observer(Upstream::Follow, Some(16));
    let cost_us = [615u64, 2 * 615];
    let mut free = [0u64; 2];
    let mut next = [(0u64, 0u32); 2];
    let mut rates = [None::<Rate>; 2];
    let mut acks: Vec<(u64, usize, u32)> = Vec::new();
    let mut sent = [0u64; 2];
    let user = |user: usize| user as u32 + 1;
    let told = |learned: Learned| match learned.rate {
        Some(Follows::User(rate)) => rate,
        other => panic!("{other:?}"),
    };
    while next.iter().all(|(now, _)| *now < 6_000_000) {
        let of = if next[0].0 <= next[1].0 { 0 } else { 1 };
        let (now, n) = next[of];
        acks.sort_unstable();
        while acks.first().is_some_and(|(due, ..)| *due <= now) {
            let (due, of, n) = acks.remove(0);
            rates[of] = told(o.answered(at(due), &ack(user(of), n), true));
        }
        o.arrived(at(now), Hosts { sender: 1, receiver: user(of) }, LEN);
        rates[of] = told(o.forwarded(at(now), &data(user(of), n), true));
        free[of] = free[of].max(now) + cost_us[of];
        acks.push((free[of] + 40_000, of, n));
        sent[of] += if now > 3_000_000 { LEN.get() } else { 0 };
        let rate = rates[of].unwrap_or(Rate::from_mbps(25)).min(Rate::from_mbps(25));
        next[of] = (now + (LEN.get() * 8_000_000 / rate.as_bps()).max(1), n + 1);
    }
    let mbps = sent.map(|bytes| bytes as f64 * 8.0 / 3e6);
    assert!((18.0..21.0).contains(&mbps[0]) && (9.0..10.5).contains(&mbps[1]), "{mbps:?} for 20 and 10");
    let now = o.now();
    assert_eq!((now.users, now.held, now.model, now.rate), (Some(2), Some(2), None, None));
    assert!(now.line().starts_with("2 users, 2 held to a rate, "), "{}", now.line());
    // Who shows nothing has no place, and is held by nothing.
    let flood = o.forwarded(at(6_000_000), &note(9, Transport::Other), true);
    assert_eq!(flood.rate, Some(Follows::User(None)));
}

#[test]
fn spoofed_acknowledgements_of_many_users_take_no_rate_from_others() {
    let mut o = observer(Upstream::Follow, Some(64));
    let bytes = o.bytes();
    for n in 0..100_000u32 {
        let user = n.wrapping_mul(2_654_435_761);
        o.answered(at(u64::from(n)), &ack(user, n), false);
    }
    assert_eq!(o.bytes(), bytes);
    assert_eq!(o.now().held, Some(0));
    // Those who measured nothing make room after a while.
    let later = 100_000 + 3_000_000;
    let learned = o.forwarded(at(later), &data(7, 0), false);
    assert_eq!(learned.rate, Some(Follows::User(None)));
    assert!(o.answered(at(later + 10_000), &ack(7, 0), false).in_flight.is_some());
}

#[test]
fn what_is_learned_of_a_trace_is_what_all_hosts_learn() {
    let mut o = observer(Upstream::Follow, None);
    let mut expected = trace::learned();
    for step in trace::trace() {
        let hosts = Hosts { sender: 1, receiver: 2 };
        let (len, transport) = (Bytes::new(step.packet().len() as u64), Some(step.transport()));
        let note = Note { transport, ports: (1, 2), flow: step.flow, hosts, len };
        let learned = match step.way {
            Way::ToUser => {
                o.arrived(step.at, hosts, len);
                o.forwarded(step.at, &note, false)
            }
            Way::FromUser => o.answered(step.at, &note, false),
        };
        let weir_sense::Learned { rtt, in_flight, reaction, .. } = expected.next().unwrap();
        assert_eq!(
            (learned.rtt, learned.in_flight, learned.reaction),
            (rtt, in_flight, reaction),
            "{step:?}"
        );
    }
}
