//! Flows of one user whose radio resources differ: each has a bottleneck of its own behind the base station.

use crate::follows::{MSS, REST, Transfer};
use crate::rig::*;
use etherparse::{PacketBuilder, TcpOptionElement};
use std::collections::{BTreeMap, VecDeque};
use weir_units::{Bytes, Duration, Rate, Time};
use weir_upf::plane::{ACCESS, CORE, PlaneSetup, Profile};
use weir_upf::rules::*;

const SPAN: Duration = Duration::from_secs(20);
const WARM: Duration = Duration::from_secs(6);
pub const SECOND: u64 = 1_000_000_000;

/// A download in a flow of its own, and the radio resources of that flow: a buffer, which is endless if
/// nothing else is said, a rate and a path.
pub struct Bearer {
    user: u32,
    /// Port of the server, by which filters tell the flow.
    port: u16,
    /// Tunnel and QoS flow of its packets, and of its acknowledgements.
    down: (u32, Option<u8>),
    up: (u32, Option<u8>),
    /// With timestamps (RFC 7323), by which a segment that is sent again is timed, too.
    pub stamped: bool,
    /// A receiver acknowledges each second segment, or one after 40 ms.
    delays: bool,
    held: Vec<(Time, u32)>,
    /// The timestamp of the first of these.
    echo: u32,
    radio: Rate,
    path: Duration,
    /// A packet is lost that would wait longer for the radio.
    pub buffer: Duration,
    transfer: Transfer,
    free: Time,
    /// With the timestamp that is echoed.
    acks: VecDeque<(Time, u32, u32)>,
    heard: VecDeque<(Time, u32)>,
    /// When the first part ends.
    from: Time,
    /// After that: how long packets waited for the radio, and bits in each second that came to it.
    waits: Vec<Duration>,
    bits: Vec<f64>,
    /// Datagrams that came to it, by length.
    pub datagrams: BTreeMap<usize, u64>,
}

impl Bearer {
    /// In QoS flow `qfi` of a 5G session.
    pub fn new(user: u32, port: u16, qfi: u8, radio: Rate, path: Duration) -> Bearer {
        let start = Time::from_nanos(SECOND);
        let bits = vec![0.0; (SPAN - WARM).as_nanos().div_ceil(SECOND) as usize];
        Bearer {
            user,
            port,
            down: (0x2000 + user, Some(qfi)),
            up: (0x1000 + user, Some(qfi)),
            stamped: false,
            delays: false,
            held: Vec::new(),
            echo: 0,
            radio,
            path,
            buffer: Duration::MAX,
            transfer: Transfer::new(start),
            free: start,
            acks: VecDeque::new(),
            heard: VecDeque::new(),
            from: start + WARM,
            waits: Vec::new(),
            bits,
            datagrams: BTreeMap::new(),
        }
    }

    /// Of a segment or an acknowledgement, with timestamps if it has any.
    fn options(&self, value: u32, echo: u32) -> Vec<TcpOptionElement> {
        if self.stamped { vec![TcpOptionElement::Timestamp(value, echo)] } else { vec![] }
    }

    fn segment(&self, number: u32, now: Time) -> Vec<u8> {
        let mut packet = Vec::new();
        let options = self.options((now.as_nanos() / 1_000_000) as u32, 1);
        let builder = PacketBuilder::ipv4(SERVER.octets(), ue(self.user).octets(), 64);
        let builder = builder.tcp(self.port, 5000, number * MSS, 65_000).ack(1).options(&options).unwrap();
        builder.write(&mut packet, &[0x5a; MSS as usize]).unwrap();
        packet
    }

    fn acknowledgement(&self, whole: u32, echo: u32) -> Vec<u8> {
        let mut packet = Vec::new();
        let options = self.options(1, echo);
        let builder = PacketBuilder::ipv4(ue(self.user).octets(), SERVER.octets(), 64);
        let builder = builder.tcp(5000, self.port, 1, 65_000).ack(whole * MSS).options(&options).unwrap();
        builder.write(&mut packet, &[]).unwrap();
        tunnelled(self.up.0, self.up.1, &packet)
    }

    /// What the sender sends by now, and the receiver back.
    fn work(&mut self, rig: &mut Rig) {
        let now = rig.here().now;
        while let Some((_, number)) = self.heard.front().copied().filter(|(at, _)| *at <= now) {
            self.heard.pop_front();
            self.transfer.acknowledged(number, now);
        }
        for _ in 0..16 {
            let Some(number) = self.transfer.wants(now) else { break };
            rig.comes(CORE, &self.segment(number, now));
        }
        while let Some((_, number, echo)) = self.acks.front().copied().filter(|(at, ..)| *at <= now) {
            self.acks.pop_front();
            let before = self.transfer.whole();
            let whole = self.transfer.received(number);
            let is_usual = whole == before + 1;
            self.echo = if self.held.is_empty() { echo } else { self.echo };
            self.held.push((now, number));
            if !(self.delays && is_usual && self.held.len() == 1) {
                self.answers(whole, now, rig);
            }
        }
        if self.held.first().is_some_and(|(since, _)| now.since(*since) >= Duration::from_millis(40)) {
            self.answers(self.transfer.whole(), now, rig);
        }
    }

    /// The receiver acknowledges what it held back.
    fn answers(&mut self, whole: u32, now: Time, rig: &mut Rig) {
        rig.comes(ACCESS, &self.acknowledgement(whole, self.echo));
        self.heard.extend(self.held.drain(..).map(|(_, number)| (now + REST, number)));
    }

    /// A packet of the flow comes to the radio.
    fn takes(&mut self, packet: &[u8], now: Time) {
        let waits = self.free.since(now.min(self.free));
        if waits > self.buffer {
            return;
        }
        self.free = self.free.max(now) + self.radio.time_for(Bytes::new(packet.len() as u64));
        if packet[9] == 6 {
            let number = u32::from_be_bytes(packet[24..28].try_into().unwrap()) / MSS;
            let stamp = if self.stamped { packet[42..46].try_into().unwrap() } else { [0; 4] };
            self.acks.push_back((self.free + self.path, number, u32::from_be_bytes(stamp)));
        }
        if now > self.from {
            *self.datagrams.entry(packet.len()).or_default() += u64::from(packet[9] == 17);
            self.waits.push(waits);
            let second = (now.since(self.from).as_nanos() / SECOND) as usize;
            self.bits.get_mut(second).into_iter().for_each(|bits| *bits += packet.len() as f64 * 8.0);
        }
    }

    /// The first part ends now.
    pub fn measure(&mut self, now: Time) {
        self.from = now;
        self.datagrams.clear();
        self.waits.clear();
        self.bits.fill(0.0);
    }

    /// Mbit/s that came to the radio, over all and in the slowest and fastest second; what 95 % of the
    /// packets waited for it.
    pub fn told(&mut self) -> (f64, [f64; 2], Duration) {
        self.waits.sort_unstable();
        let waits = self.waits[self.waits.len() * 95 / 100];
        let mean = self.bits.iter().sum::<f64>() / self.bits.len() as f64 / 1e6;
        let [least, most] = [f64::min, f64::max]
            .map(|of: fn(f64, f64) -> f64| self.bits.iter().copied().reduce(of).unwrap() / 1e6);
        let (user, down) = (self.user, self.down);
        println!("{user} {down:x?}: {mean:.2} Mbit/s ({least:.2} to {most:.2}), {waits} before the radio");
        (mean, [least, most], waits)
    }
}

/// All bearers work for the whole time, beside what else comes from the data network.
fn run(rig: &mut Rig, bearers: &mut [Bearer], beside: impl FnMut(&mut Rig, Time)) {
    run_for(SPAN, rig, bearers, beside);
}

/// The same for so long.
pub fn run_for(
    span: Duration,
    rig: &mut Rig,
    bearers: &mut [Bearer],
    mut beside: impl FnMut(&mut Rig, Time),
) {
    let end = rig.here().now + span;
    while rig.here().now < end {
        bearers.iter_mut().for_each(|bearer| bearer.work(rig));
        let now = rig.here().now;
        beside(rig, now);
        rig.passes(Duration::from_micros(200));
        let now = rig.here().now;
        for (teid, qfi, packet) in rig.tunnelled() {
            let its = bearers.iter_mut().find(|bearer| bearer.down == (teid, qfi));
            its.expect("a flow of the test").takes(&packet, now);
        }
    }
}

/// The session of [`session`] with a GBR flow 5 beside it: what comes from port 81 of servers; of the
/// uplink, too, if it has rules of its own there.
fn with_gbr(gbr: u64, mbr: u64, has_uplink: bool) -> Session {
    let mut session = session(1, Some(1_000_000));
    let mut own = |id, side, far| {
        let mut rule = pdr(id, side, 1, far, &[3]);
        rule.precedence = 1;
        rule.filters = Box::new(["permit out ip from any 81 to assigned".parse().unwrap()]);
        session.pdrs.push(rule);
    };
    own(3, Side::Core, 2);
    if has_uplink {
        own(4, Side::Access, 1);
    }
    session.qers.push(qer(3, Some(mbr), Some(gbr), Some(5)));
    session.order();
    session
}

fn learning() -> Rig {
    let mut rig = Rig::new(PlaneSetup { profile: Profile::self_learning(), ..setup() });
    rig.here().now = Time::from_nanos(SECOND);
    rig
}

/// The same in a 4G gateway: the default bearer with tunnels 0x1001 and 0x2001, a dedicated GBR bearer with
/// 0x1002 and 0x2002, and no QoS flows.
fn bearers_of_4g(gbr: u64, mbr: u64) -> Session {
    let mut session = with_gbr(gbr, mbr, true);
    session.qers.iter_mut().for_each(|qer| qer.qfi = None);
    session.fars.push(forward(3, Side::Access, Some(remote(2))));
    for rule in session.pdrs.iter_mut().filter(|rule| rule.id >= 3) {
        match &mut rule.tunnel {
            Some(tunnel) => tunnel.teid = 0x1002,
            None => rule.far = Some(3),
        }
    }
    session
}

/// Two downloads of a user through bottlenecks that differ in rate and path; each queue stands here, and its
/// radio is kept busy. It is so where acknowledgements of the GBR flow come back in it, where they come back
/// in the other flow, and for bearers of 4G.
#[test]
fn a_gbr_flow_follows_its_own_bottleneck_beside_that_of_the_aggregate() {
    let usual = || Bearer::new(1, 80, 9, Rate::from_mbps(20), Duration::from_millis(40));
    let guaranteed = || Bearer::new(1, 81, 5, Rate::from_mbps(8), Duration::from_millis(15));
    let (gbr, mbr) = (2_000, 40_000);
    let alone = [usual(), Bearer { up: (0x1001, Some(9)), ..guaranteed() }];
    let of_4g = [
        Bearer { down: (0x2001, None), up: (0x1001, None), ..usual() },
        Bearer { down: (0x2002, None), up: (0x1002, None), ..guaranteed() },
    ];
    for (session, mut bearers) in [
        (with_gbr(gbr, mbr, true), [usual(), guaranteed()]),
        (with_gbr(gbr, mbr, false), alone),
        (bearers_of_4g(gbr, mbr), of_4g),
    ] {
        let mut rig = learning();
        rig.establish(session);
        run(&mut rig, &mut bearers, |_, _| ());
        let [(usual, _, usual_wait), (guaranteed, _, wait)] = bearers.each_mut().map(Bearer::told);
        assert!((17.5..20.5).contains(&usual) && (6.8..8.2).contains(&guaranteed), "{usual} {guaranteed}");
        let most = [60, 30].map(Duration::from_millis);
        assert!([usual_wait, wait].iter().zip(most).all(|(wait, most)| *wait < most), "{usual_wait} {wait}");
    }
}

/// A flood in a GBR flow behind a radio that gives less than it guaranteed: what is guaranteed is sent in
/// each second, and the other flow has its own rate. Behind one that gives more than the highest rate, that
/// is what is sent. Without the least rate 0.5 Mbit/s were, as the download beside the flood shows the radio.
#[test]
fn a_gbr_flow_is_never_shaped_below_what_is_guaranteed_nor_above_its_highest_rate() {
    for (radio, expected) in [(2, 4.0), (100, 10.0)] {
        let mut rig = learning();
        rig.establish(with_gbr(4_000, 10_000, true));
        let usual = Bearer::new(1, 80, 9, Rate::from_mbps(20), Duration::from_millis(40));
        let guaranteed = Bearer::new(1, 81, 5, Rate::from_mbps(radio), Duration::from_millis(40));
        let mut bearers = [usual, guaranteed];
        let (start, mut sent) = (rig.here().now, 0.0);
        run(&mut rig, &mut bearers, |rig, now| {
            while sent < now.since(start).as_secs_f64() * 12e6 {
                rig.comes(CORE, &udp(SERVER, ue(1), (81, 6000), 1300));
                sent += 1300.0 * 8.0;
            }
        });
        let [(usual, _, wait), (_, [least, most], _)] = bearers.each_mut().map(Bearer::told);
        assert!(least > expected * 0.98 && most < 10.1, "{least} to {most} for {expected} Mbit/s");
        assert!(usual > 17.5 && wait < Duration::from_millis(60), "beside it {usual} Mbit/s, {wait}");
    }
}

/// Forty flows that show nothing and answer nothing take half of the radio's rate beside a download: all wait
/// for the rate of the bottleneck, and none is policed. What is lost is what the algorithm drops to tell the
/// download.
#[test]
fn flows_that_do_not_respond_are_shaped_however_many_there_are() {
    let mut rig = learning();
    rig.establish(session(1, Some(1_000_000)));
    let mut bearers = [Bearer::new(1, 80, 9, Rate::from_mbps(20), Duration::from_millis(40))];
    let (start, mut sent, mut flow, mut measured) = (rig.here().now, 0.0, 0, 0u64);
    run(&mut rig, &mut bearers, |rig, now| {
        while sent < now.since(start).as_secs_f64() * 10e6 {
            rig.comes(CORE, &udp(SERVER, ue(1), (7000 + flow % 40, 6000), 1300));
            (sent, flow) = (sent + 1300.0 * 8.0, flow.wrapping_add(1));
            measured += u64::from(now.since(start) > WARM);
        }
    });
    let (mean, _, wait) = bearers[0].told();
    let share = bearers[0].datagrams[&1300] as f64 / measured as f64;
    println!("{:.2} % of {measured} datagrams", 100.0 * share);
    assert!((17.5..20.5).contains(&mean) && wait < Duration::from_millis(60), "{mean} {wait}");
    assert!(share > 0.97, "{share} of {measured} datagrams");
}

/// In a 4G gateway a packet to the user equipment goes into the tunnel of the bearer that its filter chooses,
/// without a PDU session container; each bearer has a queue, that with a guaranteed rate is outside the AMBR,
/// and a packet in the tunnel of another bearer than its filter says meets no rule.
#[test]
fn bearers_of_4g_have_their_tunnels_and_queues() {
    let mut rig = Rig::new(setup());
    let mut session = bearers_of_4g(1_000, 2_000);
    session.qers[0].mbr = Some(both(1_000));
    // A second dedicated bearer, under the AMBR as the default bearer.
    session.fars.push(forward(4, Side::Access, Some(remote(3))));
    for (id, side) in [(5, Side::Core), (6, Side::Access)] {
        let mut rule = pdr(id, side, 1, if side == Side::Core { 4 } else { 1 }, &[1]);
        rule.precedence = 2;
        rule.tunnel.iter_mut().for_each(|tunnel| tunnel.teid = 0x1003);
        rule.filters = Box::new(["permit out ip from any 82 to assigned".parse().unwrap()]);
        session.pdrs.push(rule);
    }
    session.order();
    rig.establish(session.clone());
    let down = |port| udp(SERVER, ue(1), (port, 6000), 1000);
    for port in [80, 81, 82] {
        rig.comes(CORE, &down(port));
        rig.passes(Duration::from_millis(50));
    }
    let got: Vec<_> =
        rig.tunnelled().into_iter().map(|(teid, qfi, packet)| (teid, qfi, packet.len())).collect();
    assert_eq!(got, [(0x2001, None, 1000), (0x2002, None, 1000), (0x2003, None, 1000)]);
    let up = |teid, port| tunnelled(teid, None, &udp(ue(1), SERVER, (6000, port), 100));
    for (teid, port, passes) in
        [(0x1001, 80, true), (0x1002, 81, true), (0x1003, 82, true), (0x1002, 80, false), (0x1003, 81, false)]
    {
        rig.comes(ACCESS, &up(teid, port));
        rig.passes(Duration::from_millis(50));
        assert_eq!(rig.packets().len(), usize::from(passes), "tunnel {teid:#x}, port {port}");
    }
    assert_eq!(rig.count(weir_upf::plane::Cause::NoRule), 2);
    // Twice the AMBR for those under it, which share it, and as much as is guaranteed beside them.
    rig.0.flows(1);
    for _ in 0..500 {
        [80, 82, 81].into_iter().for_each(|port| rig.comes(CORE, &down(port)));
        rig.passes(Duration::from_millis(8));
    }
    rig.packets();
    let flows = rig.0.flows(1);
    let rate = |teid: u32| {
        let of = |flow: &&FlowUsage| flow.bearer == Some(teid) && !flow.is_uplink;
        let flow = flows.iter().find(of).unwrap_or_else(|| panic!("{teid:#x}: {flows:?}"));
        assert!(flow.qfi.is_none());
        flow.bytes as f64 * 8.0 / 4.0 / 1e6
    };
    let [default, guaranteed, dedicated] = [0x2001, 0x2002, 0x2003].map(rate);
    println!("{default:.3} {guaranteed:.3} {dedicated:.3} Mbit/s");
    assert!([default, dedicated].iter().all(|rate| (0.48..0.52).contains(rate)), "{default} {dedicated}");
    assert!((0.98..1.02).contains(&guaranteed), "{guaranteed}");
    let mut uplink: Vec<_> = flows.iter().filter(|flow| flow.is_uplink).map(|flow| flow.bearer).collect();
    uplink.sort_unstable();
    assert_eq!(uplink, [Some(0x1001), Some(0x1002), Some(0x1003)]);
    // A handover to another base station: the bearers keep what waits for them.
    [80, 81, 82].into_iter().for_each(|port| (0..5).for_each(|_| rig.comes(CORE, &down(port))));
    let waits = rig.packets().len();
    let mut moved = session;
    for far in moved.fars.iter_mut().filter(|far| far.id != 1) {
        let forward = far.forward.as_mut().unwrap();
        forward.tunnel = forward.tunnel.map(|tunnel| RemoteTunnel { teid: tunnel.teid + 0x10, ..tunnel });
    }
    rig.0.modify(std::sync::Arc::new(moved), &[]).unwrap();
    rig.passes(Duration::from_secs(1));
    let got = rig.tunnelled();
    assert!(got.iter().all(|(teid, ..)| (0x2011..=0x2013).contains(teid)), "{got:?}");
    assert!(got.len() + waits >= 15, "{} and {waits} of 15, and what waited before", got.len());
}

/// What a rate of the rules leaves of a download, of five users each, with a bottleneck behind the base
/// station and without; and how long packets wait there.
fn slow_users(kbps: u64, radio: Rate, profile: Profile) -> (f64, Duration) {
    let mut rig = Rig::new(PlaneSetup { profile, ..setup() });
    rig.here().now = Time::from_nanos(SECOND);
    let mut users: Vec<Bearer> = (1..=5)
        .map(|user| {
            rig.establish(session(user, Some(kbps)));
            let path = Duration::from_millis(20 + 10 * u64::from(user));
            Bearer { delays: true, ..Bearer::new(user, 80, 9, radio, path) }
        })
        .collect();
    run(&mut rig, &mut users, |_, _| ());
    let told: Vec<_> = users.iter_mut().map(Bearer::told).collect();
    let share = told.iter().map(|(mean, ..)| mean).sum::<f64>() / 5.0 / (kbps as f64 / 1e3);
    (share, told.iter().map(|(_, _, wait)| *wait).max().unwrap())
}

/// Receivers that acknowledge each second segment, at rates at which a packet takes 3 to 190 ms: with nothing
/// behind, all that the rules allow passes, as without following; with half of it behind, the queue stands
/// here.
#[test]
fn slow_users_lose_nothing_where_nothing_is_behind_and_have_their_queue_here_where_something_is() {
    for kbps in [64, 1000, 2000, 4000, 6000] {
        let (share, _) = slow_users(kbps, Rate::from_mbps(50), Profile::self_learning());
        let without = Profile { follow: false, ..Profile::self_learning() };
        let (alone, _) = slow_users(kbps, Rate::from_mbps(50), without);
        println!(
            "{kbps} kbit/s, nothing behind: {share:.3} of the rate, {alone:.3} where nothing is followed"
        );
        assert!(share > alone - 0.01, "{kbps} kbit/s: {share} of {alone}");
    }
    for kbps in [2000, 4000, 6000] {
        let radio = Rate::from_bps(kbps * 500);
        let (share, wait) = slow_users(kbps, radio, Profile::self_learning());
        println!("{kbps} kbit/s, half of it behind: {share:.3} of the rate, {wait} before the radio");
        assert!(share > 0.42, "{kbps} kbit/s: {share} of the rate");
        assert!(wait < Duration::from_millis(100), "{kbps} kbit/s: {wait} before the radio");
    }
}
