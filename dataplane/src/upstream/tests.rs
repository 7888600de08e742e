use super::*;
use weir_sense::wire::QuicPackets;

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

/// A link of 20 Mbit/s behind, with a FIFO and 40 ms of path: when a packet that leaves at `now` is acknowledged.
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
            rate = o.answered(at(due), &ack(7, n), true).rate.unwrap_or(rate).min(Rate::from_mbps(25));
        }
        o.arrived(at(now), LEN);
        rate = o.forwarded(at(now), &data(7, next), true).rate.unwrap_or(rate).min(Rate::from_mbps(25));
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
    assert!(!is_counted(&silent, &Seen::default()) && !is_counted(&Transport::Other, &Seen::default()));
    for n in 0..200u64 {
        o.forwarded(at(1000 * n), &note(3, silent), false);
    }
    let told = o.now();
    assert_eq!((told.model, told.rate, told.coverage.live), (None, None, 0));
    assert!(told.line().starts_with("no RTT yet, rate not held"), "{}", told.line());
}
