//! Rates and delays on a virtual clock.

use crate::rig::*;
use std::collections::VecDeque;
use weir_units::{Duration, Rate, Time};
use weir_upf::filter::{Endpoint, Filter, PortRange};
use weir_upf::plane::{ACCESS, CORE, PlaneSetup, Profile};
use weir_upf::rules::*;

/// From the slowest to the fastest.
const KBPS: [u64; 6] = [64, 1_000, 10_000, 100_000, 1_000_000, 10_000_000];
const LEN: usize = 1400;
/// Packets of a flood that leave.
const PACKETS: u64 = 12_000;
/// Packets of a flood at the slowest rates, where less would leave in ten minutes.
const PACKETS_SLOW: u64 = 1000;

/// 95 % of the packets wait less than this; where a packet alone takes longer, so long.
const DELAY: Duration = Duration::from_millis(15);
/// The longest packet there may be, for which a slow queue has room.
const LONGEST: usize = 1538;

/// What waits of which nothing is said.
fn ours() -> PlaneSetup {
    PlaneSetup { profile: Profile::self_learning(), packets: 32_768, ..setup() }
}

/// Times of sojourn are told at most a quarter too long, which the bound has room for and a packet's time has
/// not.
fn delay_max(kbps: u64) -> Duration {
    DELAY.max(time_for(kbps, LONGEST).mul_f64(1.25))
}

/// All queues with packets to the user equipment held the bound since they were last asked.
fn assert_delay(rig: &mut Rig, seid: u64, kbps: u64) {
    for flow in rig.0.flows(seid).iter().filter(|flow| !flow.is_uplink) {
        let Some(delay) = flow.sojourn_p95 else { continue };
        println!("QoS flow {:?} at {kbps} kbit/s: 95 % wait up to {delay}", flow.qfi);
        assert!(delay < delay_max(kbps), "QoS flow {:?} at {kbps} kbit/s: {delay}", flow.qfi);
    }
}

fn time_for(kbps: u64, bytes: usize) -> Duration {
    Duration::from_nanos(bytes as u64 * 8_000_000 / kbps)
}

/// Packets from a port of the server.
fn from_port(number: u32, port: u16) -> Vec<u8> {
    udp(SERVER, ue(number), (port, 9), LEN)
}

/// What left in a second of a flood at 1.3 times a rate, by the server's port: bits per second of IP packets.
fn flooded(rig: &mut Rig, kbps: u64, way: impl Fn(&mut Rig, u64)) -> Vec<(u16, f64)> {
    let packets = if kbps < 1000 { PACKETS_SLOW } else { PACKETS };
    let gap = Duration::from_nanos(time_for(kbps, LEN).as_nanos() * 10 / 13);
    let mut bytes = std::collections::BTreeMap::new();
    let (mut begin, mut end) = (Time::ZERO, Time::ZERO);
    for n in 0..packets {
        way(rig, n);
        rig.passes(gap);
        let now = rig.here().now;
        if n < packets / 10 {
            begin = now;
            rig.packets();
            continue;
        }
        for (_, _, packet) in rig.packets() {
            let ports = [20, 22].map(|at| u16::from_be_bytes([packet[at], packet[at + 1]]));
            *bytes.entry(ports[0].max(ports[1])).or_insert(0) += packet.len();
            end = now;
        }
    }
    let span = end.since(begin).as_secs_f64();
    bytes.into_iter().map(|(port, bytes)| (port, bytes as f64 * 8.0 / span)).collect()
}

fn assert_rate(what: &str, got: f64, kbps: u64) {
    let error = got / (kbps as f64 * 1e3) - 1.0;
    println!("{what} {kbps} kbit/s: {got:.0} bit/s, {:+.3} %", 100.0 * error);
    assert!(error.abs() < 0.01, "{what} {kbps} kbit/s: {got:.0} bit/s");
}

#[test]
fn an_aggregate_is_exact_over_all_its_flows_both_ways() {
    for kbps in KBPS {
        let mut rig = Rig::new(ours());
        rig.establish(session(5, Some(kbps)));
        let [one, other] = [1001, 1002].map(|port| from_port(5, port));
        let down = flooded(&mut rig, kbps, |rig, n| rig.comes(CORE, if n % 3 == 0 { &one } else { &other }));
        assert_rate("AMBR, down:", down.iter().map(|(_, rate)| rate).sum(), kbps);
        assert_delay(&mut rig, 5, kbps);
        rig.passes(Duration::from_secs(3));
        rig.packets();
        let packet = tunnelled(0x1005, Some(9), &udp(ue(5), SERVER, (9, 1001), LEN));
        let up = flooded(&mut rig, kbps, |rig, _| rig.comes(ACCESS, &packet));
        assert_rate("AMBR, up:", up[0].1, kbps);
    }
}

/// QoS flow 5 from port 5000 with a rate of its own.
fn with_flow(session: &mut Session, qer: Qer, also: &[u32]) {
    let ports = Box::new([PortRange { first: 5000, last: 5000 }]);
    let filter = Filter { remote: Endpoint { prefix: None, ports }, ..Filter::default() };
    let mut rule = pdr(10, Side::Core, session.seid as u32, 2, &[&[qer.id], also].concat());
    (rule.precedence, rule.filters) = (1, Box::new([filter]));
    session.pdrs.insert(0, rule);
    session.qers.push(qer);
}

#[test]
fn the_rate_of_a_flow_is_exact_within_the_aggregate_and_beside_it() {
    for kbps in KBPS {
        // Half of the aggregate at most for one flow; the other gets the rest.
        let mut rig = Rig::new(ours());
        let mut limited = session(5, Some(2 * kbps));
        with_flow(&mut limited, qer(3, Some(kbps), None, Some(5)), &[1]);
        rig.establish(limited);
        let [one, other] = [5000, 1002].map(|port| from_port(5, port));
        let flood = |rig: &mut Rig, _| {
            rig.comes(CORE, &one);
            rig.comes(CORE, &other);
        };
        let rates = flooded(&mut rig, kbps, flood);
        assert_eq!(rates.iter().map(|(port, _)| *port).collect::<Vec<_>>(), [1002, 5000]);
        assert_rate("MBR in an aggregate of twice:", rates[1].1, kbps);
        assert_rate("the rest of the aggregate:", rates[0].1, kbps);
        assert_delay(&mut rig, 5, kbps);
    }
}

#[test]
fn a_guaranteed_rate_holds_while_others_flood_the_port() {
    for kbps in KBPS.into_iter().filter(|kbps| *kbps >= 1000) {
        let mut setup = ours();
        // The port bears five times the guarantee, and twice as much comes: tunnel headers included.
        setup.access.rate = Some(Rate::from_bps(5 * kbps * 1000));
        let mut rig = Rig::new(setup);
        let mut guaranteed = session(5, None);
        with_flow(&mut guaranteed, qer(3, Some(kbps), Some(kbps), Some(5)), &[]);
        rig.establish(guaranteed);
        (6..10).for_each(|number| rig.establish(session(number, None)));
        let voice = from_port(5, 5000);
        let others: Vec<Vec<u8>> = (5..10).map(|number| from_port(number, 1002)).collect();
        let flood = |rig: &mut Rig, n: u64| {
            rig.comes(CORE, &voice);
            others.iter().for_each(|other| rig.comes(CORE, other));
            if n.is_multiple_of(2) {
                others.iter().for_each(|other| rig.comes(CORE, other));
            }
        };
        let rates = flooded(&mut rig, kbps, flood);
        assert_rate("GBR beside a flood:", rates[1].1, kbps);
        let rest = (5.0 * kbps as f64 * 1e3) * LEN as f64 / (LEN as f64 + 44.0) - kbps as f64 * 1e3;
        let error = rates[0].1 / rest - 1.0;
        println!("the others get {:+.2} % of what is left", 100.0 * error);
        assert!(error.abs() < 0.01, "the others get what is left: {error}");
        // At a megabit per second a turn of all sessions takes longer.
        if kbps > 1000 {
            (5..10).for_each(|seid| assert_delay(&mut rig, seid, kbps));
        }
    }
}

/// A sender that behaves about like TCP: it grows while packets arrive, and falls to 70 % in a round trip
/// with losses.
struct Sender {
    window: f64,
    threshold: f64,
    flight: u64,
    next: u64,
    /// The first packet whose fate is not known.
    expected: u64,
    recovering: Time,
    heard: Time,
}

const RTT: Duration = Duration::from_millis(20);

impl Sender {
    fn new() -> Sender {
        let (recovering, heard) = (Time::ZERO, Time::ZERO);
        Sender { window: 10.0, threshold: f64::MAX, flight: 0, next: 0, expected: 0, recovering, heard }
    }

    /// The receiver has packet `number`; what is older and did not come is lost.
    fn acknowledged(&mut self, number: u64, now: Time) {
        let Some(lost) = number.checked_sub(self.expected) else { return };
        (self.expected, self.heard) = (number + 1, now);
        self.flight = self.flight.saturating_sub(lost + 1);
        if lost > 0 && now >= self.recovering {
            self.window = (self.window * 0.7).max(2.0);
            (self.threshold, self.recovering) = (self.window, now + RTT);
        } else if self.window < self.threshold {
            self.window += 1.0;
        } else {
            self.window += (1.0 / self.window).max(0.02);
        }
    }

    fn wants(&mut self, now: Time) -> Option<u64> {
        if self.flight > 0 && now.since(self.heard) > Duration::from_secs(2) {
            (self.flight, self.window, self.expected, self.heard) = (0, 2.0, self.next, now);
        }
        ((self.flight as f64) < self.window).then(|| {
            (self.flight, self.next) = (self.flight + 1, self.next + 1);
            self.next - 1
        })
    }
}

/// What is between senders and receivers: takes packets and tells which left.
trait Middle {
    fn take(&mut self, now: Time, flow: usize, number: u64);
    fn left(&mut self, now: Time) -> Vec<(usize, u64)>;
}

/// Bits per second that four senders got through, after the first part.
fn transfer<M: Middle>(
    middle: &mut M,
    span: Duration,
    step: Duration,
    mut measured: impl FnMut(&mut M),
) -> f64 {
    let mut senders: Vec<Sender> = (0..4).map(|_| Sender::new()).collect();
    let mut acks: VecDeque<(Time, usize, u64)> = VecDeque::new();
    let start = Time::from_nanos(1_000_000_000);
    let (mut now, mut bits, mut is_measured) = (start, 0.0, false);
    while now < start + span {
        while let Some((_, flow, number)) = acks.front().copied().filter(|(at, ..)| *at <= now) {
            acks.pop_front();
            senders[flow].acknowledged(number, now);
        }
        for (flow, sender) in senders.iter_mut().enumerate() {
            // A few at a time, as a paced sender.
            for _ in 0..64 {
                let Some(number) = sender.wants(now) else { break };
                middle.take(now, flow, number);
            }
        }
        now += step;
        let is_late = now.since(start).as_nanos() > span.as_nanos() / 3;
        if is_late && !is_measured {
            measured(middle);
            is_measured = true;
        }
        for (flow, number) in middle.left(now) {
            acks.push_back((now + RTT, flow, number));
            bits += if is_late { LEN as f64 * 8.0 } else { 0.0 };
        }
    }
    bits / (span.as_secs_f64() * 2.0 / 3.0)
}

struct Queued {
    rig: Rig,
    packet: Vec<u8>,
}

impl Middle for Queued {
    fn take(&mut self, now: Time, flow: usize, number: u64) {
        self.rig.here().now = now;
        self.packet[28] = flow as u8;
        self.packet[29..37].copy_from_slice(&number.to_be_bytes());
        let packet = self.packet.clone();
        self.rig.comes(CORE, &packet);
    }

    fn left(&mut self, now: Time) -> Vec<(usize, u64)> {
        let before = self.rig.here().now;
        self.rig.passes(now.since(before));
        let packets = self.rig.packets();
        let number = |p: &[u8]| u64::from_be_bytes(p[29..37].try_into().unwrap());
        packets.iter().map(|(_, _, p)| (usize::from(p[28]), number(p))).collect()
    }
}

/// A token bucket that discards what is above its rate: what others do.
struct Policed {
    tokens: f64,
    depth: f64,
    rate: f64,
    looked: Time,
    passed: Vec<(usize, u64)>,
}

impl Middle for Policed {
    fn take(&mut self, now: Time, flow: usize, number: u64) {
        self.tokens = (self.tokens + now.since(self.looked).as_secs_f64() * self.rate).min(self.depth);
        self.looked = now;
        if self.tokens >= LEN as f64 {
            self.tokens -= LEN as f64;
            self.passed.push((flow, number));
        }
    }

    fn left(&mut self, _now: Time) -> Vec<(usize, u64)> {
        std::mem::take(&mut self.passed)
    }
}

/// TCP-like load: the queue stays short and the rate is used. A policer of the same rate, with a burst of 10
/// ms, is beside it.
#[test]
fn delay_stays_below_15_ms_and_a_policer_is_beside_it() {
    println!("    kbit/s  queue used  95 % wait  policer used");
    for kbps in KBPS.into_iter().chain([20_000]) {
        let span = Duration::from_millis(match kbps {
            0..1000 => 60_000,
            1000..1_000_000 => 12_000,
            1_000_000..10_000_000 => 1500,
            _ => 450,
        });
        let step = time_for(kbps, LEN).min(Duration::from_micros(500)).max(Duration::from_micros(50));
        let rate = kbps as f64 * 1e3;
        let mut queued = Queued { rig: Rig::new(ours()), packet: from_port(5, 1001) };
        queued.rig.establish(session(5, Some(kbps)));
        // What was measured before the first part was over is taken and thrown away.
        let got = transfer(&mut queued, span, step, |queued| drop(queued.rig.0.flows(5))) / rate;
        let flows = queued.rig.0.flows(5);
        let delay = flows.iter().find(|flow| !flow.is_uplink).unwrap().sojourn_p95.unwrap();
        let depth = (rate / 8.0 * 0.01).max(2.0 * LEN as f64);
        let looked = Time::from_nanos(1_000_000_000);
        let mut policed = Policed { tokens: depth, depth, rate: rate / 8.0, looked, passed: Vec::new() };
        let beside = transfer(&mut policed, span, step, |_| ()) / rate;
        println!("{kbps:10} {:9.1} % {delay:>10} {:11.1} %", 100.0 * got, 100.0 * beside);
        assert!(delay < delay_max(kbps), "{kbps} kbit/s: 95 % wait up to {delay}");
        assert!(got > 0.9 && got < 1.01 && got > beside - 0.005, "{kbps} kbit/s: {got} and {beside}");
    }
}
