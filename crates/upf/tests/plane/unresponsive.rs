//! Flows that do not respond to signals, before a bottleneck that is not ours: in a queue under vAQM that
//! signals, and in one whose rate follows the bottleneck.

use crate::bearers::{Bearer, SECOND, run_for};
use crate::rig::*;
use std::sync::Arc;
use weir_config::{AqmConfig, PolicyConfig};
use weir_steer::TableState;
use weir_units::{Duration, Rate, Time};
use weir_upf::plane::{CORE, PlaneSetup, Profile};
use weir_upf::rules::{Action, FlowUsage, Plane};

const START: Time = Time::from_nanos(SECOND);
const RADIO: Rate = Rate::from_mbps(20);
const SPAN: Duration = Duration::from_secs(14);

/// Datagrams to user equipment 1.
struct Datagrams {
    port: u16,
    flows: u16,
    len: usize,
    /// Bit/s of all flows together.
    rate: f64,
    /// How far apart bursts are.
    every: Duration,
    begin: Time,
    next: Time,
    bits: f64,
    turn: u16,
    sent: u64,
}

impl Datagrams {
    fn new(port: u16, flows: u16, len: usize, rate: f64) -> Datagrams {
        // Two seconds after a download began.
        let (begin, every) = (START + Duration::from_secs(2), Duration::ZERO);
        Datagrams { port, flows, len, rate, every, begin, next: begin, bits: 0.0, turn: 0, sent: 0 }
    }

    fn work(&mut self, rig: &mut Rig, now: Time) {
        if now < self.next {
            return;
        }
        self.next = now + self.every;
        while self.bits < now.since(self.begin).as_secs_f64() * self.rate {
            let mut packet = udp(SERVER, ue(1), (self.port + self.turn, 6000), self.len);
            // As RTP (RFC 3550), which cannot be taken for QUIC.
            packet[28] = 0x80;
            rig.comes(CORE, &packet);
            self.bits += self.len as f64 * 8.0;
            self.turn = (self.turn + 1) % self.flows;
            self.sent += 1;
        }
    }

    /// From now on at this rate, in bursts.
    fn go_on(&mut self, now: Time, rate: f64, every: Duration) {
        (self.rate, self.every, self.begin, self.bits, self.sent) = (rate, every, now, 0.0, 0);
    }
}

fn informing() -> Rig {
    let profile = Profile::of(AqmConfig::new("vaqm").unwrap());
    let mut rig = Rig::new(PlaneSetup { profile, ..setup() });
    rig.here().now = START;
    rig.establish(session(1, Some(1_000_000)));
    rig
}

/// A download, and so many floods of twice the radio's rate that are known not to respond.
fn flooded(rig: &mut Rig, flows: u16) -> ([Bearer; 1], Datagrams) {
    let mut bearers = [Bearer::new(1, 80, 9, RADIO, Duration::from_millis(40))];
    (bearers[0].buffer, bearers[0].stamped) = (Duration::from_millis(400), true);
    let mut floods = Datagrams::new(7000, flows, 1300, 2.0 * RADIO.as_bps_f64());
    // Those that are many are known late: the buffer of the radio leaves the download next to nothing.
    let known = Duration::from_secs(if flows > 10 { 50 } else { 15 });
    run_for(known, rig, &mut bearers, |rig, now| floods.work(rig, now));
    bearers[0].measure(rig.here().now);
    (bearers, floods)
}

fn down(rig: &mut Rig) -> FlowUsage {
    let flows = rig.0.flows(1);
    flows.into_iter().find(|flow| !flow.is_uplink).expect("the session has a way to the user equipment")
}

/// A queue that a policy steers tells its state: with nothing in it, and under a flood that no set point
/// holds. One that none steers has none.
#[test]
fn a_steered_queue_tells_that_its_flows_do_not_respond() {
    for policy in [Some(PolicyConfig::default()), None] {
        let profile = Profile { policy, ..Profile::of(AqmConfig::new("gsp").unwrap()) };
        let is_steered = profile.policy.is_some();
        let mut rig = Rig::new(PlaneSetup { profile, ..setup() });
        rig.here().now = START;
        rig.establish(session(1, Some(5_000)));
        let told = |state| is_steered.then_some(state);
        let mut flood = Datagrams::new(7000, 1, 1300, 1e6);
        let flow_for = |rig: &mut Rig, flood: &mut Datagrams, span| {
            let end = rig.here().now + Duration::from_secs(span);
            while rig.here().now < end {
                let now = rig.here().now;
                flood.work(rig, now);
                rig.passes(Duration::from_micros(200));
                rig.sent();
            }
            down(rig).state
        };
        assert_eq!(flow_for(&mut rig, &mut flood, 5), told(TableState::Below));
        flood.go_on(rig.here().now, 10e6, Duration::ZERO);
        assert_eq!(flow_for(&mut rig, &mut flood, 20), told(TableState::Unresponsive));
    }
}

/// All floods together leave the download its share and wait for a bounded time, and a call beside them loses
/// nothing.
#[test]
fn one_flood_ten_and_a_hundred_leave_a_download_its_share() {
    for flows in [1, 10, 100] {
        let mut rig = informing();
        let (mut bearers, mut floods) = flooded(&mut rig, flows);
        let mut call = Datagrams::new(9000, 1, 160, 20e3);
        call.go_on(rig.here().now, 20e3, Duration::ZERO);
        down(&mut rig);
        run_for(SPAN, &mut rig, &mut bearers, |rig, now| {
            floods.work(rig, now);
            call.work(rig, now);
        });
        let waited = down(&mut rig).sojourn_p95.unwrap();
        let (mean, _, wait) = bearers[0].told();
        let datagrams = bearers[0].datagrams[&1300] as f64 * 1300.0 * 8.0 / SPAN.as_secs_f64() / 1e6;
        let tcp = mean - datagrams;
        println!("{flows}: {tcp:.2} and {datagrams:.2} Mbit/s, which wait {waited}; {wait} before the radio");
        assert!(tcp > 9.0 && datagrams > 7.0, "{flows} floods: {tcp} Mbit/s beside {datagrams}");
        // Of each flow two packets may always wait. Delays are told up to a quarter too long.
        let rounds = Duration::from_secs_f64(2.0 * f64::from(flows) * 1300.0 * 8.0 / 9e6);
        let most = Duration::from_millis(100).max(rounds).mul_f64(1.25);
        assert!(waited <= most && wait < Duration::from_millis(100), "{waited} of {most}, {wait}");
        assert!(
            bearers[0].datagrams[&160] + 5 >= call.sent,
            "{} of {}",
            bearers[0].datagrams[&160],
            call.sent
        );
    }
}

/// Where the rate follows, each flow has a FIFO of its own: floods get no more than the download does, which
/// had 0.02 Mbit/s of one FIFO.
#[test]
fn floods_leave_a_download_its_share_of_a_rate_that_follows() {
    for flows in [1, 3] {
        let mut rig = Rig::new(PlaneSetup { profile: Profile::self_learning(), ..setup() });
        rig.here().now = START;
        rig.establish(session(1, Some(1_000_000)));
        let (mut bearers, mut floods) = flooded(&mut rig, flows);
        down(&mut rig);
        run_for(SPAN, &mut rig, &mut bearers, |rig, now| floods.work(rig, now));
        let queue = down(&mut rig);
        let (mean, _, wait) = bearers[0].told();
        let datagrams = bearers[0].datagrams[&1300] as f64 * 1300.0 * 8.0 / SPAN.as_secs_f64() / 1e6;
        let (tcp, share) = (mean - datagrams, 20.0 / f64::from(flows + 1));
        let waited = queue.sojourn_p95.unwrap();
        println!("{flows}: {tcp:.2} and {datagrams:.2} Mbit/s, which wait {waited}; {wait} before the radio");
        assert!(queue.backlog.0 > 10_000 && queue.backlog.1 > 10, "{:?}", queue.backlog);
        assert!(tcp > 0.8 * share, "{flows} floods: {tcp} Mbit/s of {share} beside {datagrams}");
    }
}

/// Ten floods that are known not to respond send from then on less than they may, in bursts: these wait for
/// the rate, and nothing is discarded. Held to the rate by discarding, 54 % of them arrived.
#[test]
fn bursts_of_flows_that_do_not_respond_wait_for_their_rate() {
    let mut rig = informing();
    let (mut bearers, mut floods) = flooded(&mut rig, 10);
    // What still waits leaves.
    run_for(Duration::from_millis(300), &mut rig, &mut bearers, |_, _| ());
    let now = rig.here().now;
    bearers[0].measure(now);
    floods.go_on(now, 7e6, Duration::from_millis(80));
    run_for(SPAN, &mut rig, &mut bearers, |rig, now| floods.work(rig, now));
    let (mean, _, wait) = bearers[0].told();
    let (came, sent) = (bearers[0].datagrams[&1300], floods.sent);
    println!("{mean:.2} Mbit/s, {wait} before the radio; {came} of {sent} datagrams");
    assert!(came as f64 > 0.99 * sent as f64 && mean > 18.0, "{came} of {sent} datagrams, {mean} Mbit/s");
}

/// A session that ends while floods wait gives all memory back, and so does one whose rules buffer for long.
#[test]
fn what_waits_for_its_rate_ends_with_its_session_and_with_the_time_of_buffers() {
    for is_over in [true, false] {
        let mut rig = informing();
        let none = rig.here().plane.occupancy();
        flooded(&mut rig, 10);
        let (_, free) = rig.here().plane.occupancy();
        assert!(none.1 - free > 20, "{free} of {} are free", none.1);
        if is_over {
            rig.0.remove(1).unwrap();
            assert_eq!(rig.here().plane.occupancy(), none);
            continue;
        }
        let mut buffers = session(1, Some(1_000_000));
        buffers.fars[1].action = Action::Buffer { tell: false };
        rig.0.modify(Arc::new(buffers), &[]).unwrap();
        rig.passes(Duration::from_millis(500));
        assert!(
            rig.tunnelled().is_empty() && rig.here().plane.occupancy().1 == free,
            "other rules keep them"
        );
        rig.passes(Duration::from_secs(40));
        assert_eq!(
            rig.here().plane.occupancy().1,
            none.1,
            "they were kept for as long as packets are buffered"
        );
    }
}

/// With little memory for packets and more flows than a shaper has FIFOs: what finds no room is discarded.
#[test]
fn more_floods_than_fifos_and_packets_leave_others_room() {
    let profile = Profile::of(AqmConfig::new("vaqm").unwrap());
    let mut rig = Rig::new(PlaneSetup { profile, packets: 64, learners: 1, ..setup() });
    rig.here().now = START;
    rig.establish(session(1, Some(1_000_000)));
    let (mut bearers, mut floods) = flooded(&mut rig, 10);
    floods.flows = 2000;
    run_for(SPAN, &mut rig, &mut bearers, |rig, now| floods.work(rig, now));
    let (mean, ..) = bearers[0].told();
    assert!(mean > 12.0, "{mean}");
}
