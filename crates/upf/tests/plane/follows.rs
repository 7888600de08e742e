//! A bottleneck behind the base station that is followed.

use crate::rig::*;
use etherparse::PacketBuilder;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use weir_aqm::Value;
use weir_config::AqmConfig;
use weir_units::{Duration, Rate, Time};
use weir_upf::plane::{ACCESS, CORE, Profile};
use weir_upf::rules::Plane;

pub const MSS: u32 = 1400;
/// What the radio delivers, and how long the way there and back takes from the user-plane function on.
const RADIO: [Rate; 2] = [Rate::from_mbps(12), Rate::from_mbps(28)];
/// It changes each time.
const CHANGES: Duration = Duration::from_millis(100);
const PATH: Duration = Duration::from_millis(40);
/// The way between server and user-plane function, there and back.
pub const REST: Duration = Duration::from_millis(20);
const SPAN: Duration = Duration::from_secs(20);
const WARM: Duration = Duration::from_secs(5);

/// A sender and its receiver; what is lost is sent again.
pub struct Transfer {
    window: f64,
    threshold: f64,
    next: u32,
    /// Segments under way, by the order in which they were sent, and the other way round.
    flight: BTreeMap<u64, u32>,
    orders: BTreeMap<u32, u64>,
    sent: u64,
    again: VecDeque<u32>,
    recovering: Time,
    heard: Time,
    /// What the receiver has beyond what it acknowledges.
    beyond: BTreeSet<u32>,
    whole: u32,
}

impl Transfer {
    pub fn new(start: Time) -> Transfer {
        Transfer {
            window: 10.0,
            threshold: f64::MAX,
            next: 0,
            flight: BTreeMap::new(),
            orders: BTreeMap::new(),
            sent: 0,
            again: VecDeque::new(),
            recovering: start,
            heard: start,
            beyond: BTreeSet::new(),
            whole: 0,
        }
    }

    pub fn wants(&mut self, now: Time) -> Option<u32> {
        if now.since(self.heard) > Duration::from_secs(1) {
            self.orders.clear();
            self.again.extend(std::mem::take(&mut self.flight).into_values());
            (self.window, self.heard) = (2.0, now);
        }
        if self.flight.len() as f64 >= self.window {
            return None;
        }
        let number = self.again.pop_front().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        });
        self.flight.insert(self.sent, number);
        self.orders.insert(number, self.sent);
        self.sent += 1;
        Some(number)
    }

    /// The receiver gets a segment; up to where it has all.
    pub fn received(&mut self, number: u32) -> u32 {
        self.beyond.insert(number);
        while self.beyond.remove(&self.whole) {
            self.whole += 1;
        }
        self.whole
    }

    /// Up to where the receiver has all.
    pub fn whole(&self) -> u32 {
        self.whole
    }

    /// The sender hears of a segment that arrived.
    pub fn acknowledged(&mut self, number: u32, now: Time) {
        self.heard = now;
        let Some(order) = self.orders.remove(&number) else { return };
        self.flight.remove(&order);
        // What was sent before three others and did not arrive is lost.
        let later = self.flight.split_off(&order.saturating_sub(3));
        let lost: Vec<u32> = std::mem::replace(&mut self.flight, later).into_values().collect();
        if !lost.is_empty() && now >= self.recovering {
            self.window = (self.window * 0.7).max(2.0);
            (self.threshold, self.recovering) = (self.window, now + PATH + REST + Duration::from_millis(60));
        } else if lost.is_empty() && self.window < self.threshold {
            self.window += 1.0;
        } else if lost.is_empty() {
            self.window += 1.0 / self.window;
        }
        self.orders.retain(|number, _| !lost.contains(number));
        self.again.extend(lost);
    }
}

fn segment(number: u32) -> Vec<u8> {
    let mut packet = Vec::new();
    let builder =
        PacketBuilder::ipv4(SERVER.octets(), ue(1).octets(), 64).tcp(80, 5000, number * MSS, 65_000);
    builder.ack(1).write(&mut packet, &[0x5a; MSS as usize]).unwrap();
    packet
}

fn acknowledgement(whole: u32) -> Vec<u8> {
    let mut packet = Vec::new();
    let builder = PacketBuilder::ipv4(ue(1).octets(), SERVER.octets(), 64).tcp(5000, 80, 1, 65_000);
    builder.ack(whole * MSS).write(&mut packet, &[]).unwrap();
    tunnelled(0x1001, Some(9), &packet)
}

/// The share of the radio's rate that a download gets, and the delay that 95 % of its packets stay below in
/// its queue.
fn download(profile: Profile) -> (f64, Duration) {
    let mut rig = Rig::new(weir_upf::plane::PlaneSetup { profile, ..setup() });
    rig.establish(session(1, Some(1_000_000)));
    let start = rig.here().now;
    let mut transfer = Transfer::new(start);
    let (mut free, mut bits) = (start, 0.0);
    let mut acks: VecDeque<(Time, u32)> = VecDeque::new();
    let mut heard: VecDeque<(Time, u32)> = VecDeque::new();
    while rig.here().now < start + SPAN {
        let now = rig.here().now;
        while let Some((_, number)) = heard.front().copied().filter(|(at, _)| *at <= now) {
            heard.pop_front();
            transfer.acknowledged(number, now);
        }
        for _ in 0..16 {
            let Some(number) = transfer.wants(now) else { break };
            rig.comes(CORE, &segment(number));
        }
        while let Some((_, number)) = acks.front().copied().filter(|(at, _)| *at <= now) {
            acks.pop_front();
            let whole = transfer.received(number);
            rig.comes(ACCESS, &acknowledgement(whole));
            heard.push_back((now + REST, number));
        }
        rig.passes(Duration::from_micros(200));
        let now = rig.here().now;
        if now.since(start) > WARM && bits == 0.0 {
            rig.0.flows(1);
        }
        for (port, _, packet) in rig.packets() {
            if port != ACCESS {
                continue;
            }
            let number = u32::from_be_bytes(packet[24..28].try_into().unwrap()) / MSS;
            let phase = free.max(now).since(start).as_nanos() / CHANGES.as_nanos();
            let rate = RADIO[phase as usize % 2];
            free = free.max(now) + rate.time_for(weir_units::Bytes::new(packet.len() as u64));
            acks.push_back((free + PATH, number));
            if now.since(start) > WARM {
                bits += packet.len() as f64 * 8.0;
            }
        }
    }
    let flows = rig.0.flows(1);
    let delay = flows.iter().find(|flow| !flow.is_uplink).and_then(|flow| flow.sojourn_p95);
    let share = bits / (SPAN.as_secs_f64() - WARM.as_secs_f64()) / 2e7;
    println!("{:.1} % of the radio's rate, 95 % wait up to {:?}", 100.0 * share, delay);
    (share, delay.expect("packets waited"))
}

#[test]
fn a_queue_before_a_bottleneck_that_is_followed_stands_as_long_as_its_path_bears() {
    let (share, delay) = download(Profile::self_learning());
    let mut short = AqmConfig::new("codel").unwrap();
    short.set("target", Value::Duration(Duration::from_millis(5))).unwrap();
    let (chosen, short_delay) = download(Profile { follow: true, ..Profile::of(short) });
    assert!(share > 0.87 && share > chosen + 0.03, "{share} and {chosen} with a target that was chosen");
    assert!(delay < Duration::from_millis(60) && short_delay < delay, "{short_delay} {delay}");
}
