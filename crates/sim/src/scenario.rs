//! From a scenario to a simulation: kinds of flows, delays, starts.

use crate::application::{pages, parallel, video};
use crate::dice::Dice;
use crate::error::Error;
use crate::flow::{FlowKind, Headers, Shows};
use crate::network::{NetworkSetup, Simulation};
use crate::tap::Tap;
use std::collections::BTreeMap;
use weir_config::{
    Class, FlowGroup, IpVersion, Network, NetworkLink, Protocol, Recovery, Route, Rtt, Scenario, Traffic,
    Upstream,
};
use weir_measure::Window;
use weir_tcp::{Congestion, EcnMode, Pacing, ReceiverConfig, Rto, SenderConfig};
use weir_units::{Bytes, Duration, Time};
use weir_wire::dscp::Dscp;

/// Hosts never start at the same nanosecond: without a `start_spread`, flows start within this time.
pub const START_SPREAD: Duration = Duration::from_millis(10);

/// Most random delay of an acknowledgement in the host that receives it: interrupts and scheduling of a real
/// host. Without it, flows of equal round-trip times would keep their phases for ever, and a queue that
/// discards would always hit the same ones.
pub const HOST_JITTER: Duration = Duration::from_micros(10);

/// Receive window of flows whose data passes no link, so that nothing else would ever stop them: the largest
/// receive buffer that Linux gives by itself (`tcp_rmem`).
pub const UNHINDERED_WINDOW: Bytes = Bytes::new(6 << 20);

/// Rows of flow samples that one run keeps; beyond them flows are not sampled.
const FLOW_ROWS_MAX: u64 = 4_000_000;

/// Builds the network of a scenario with all its flows.
pub fn build<T: Tap>(scenario: &Scenario, seed: u64, tap: T) -> Result<Simulation<T>, Error> {
    let Network { links, routes } = scenario.network();
    let firsts = Memories::of(scenario, &routes);
    let kinds = routes.iter().map(|route| kind(scenario, route, &links, &firsts));
    let run = &scenario.run;
    let rows = scenario.flow_count() * (run.duration.as_nanos() / run.sample.as_nanos().max(1));
    let setup = NetworkSetup {
        links: &links,
        kinds: kinds.collect::<Result<Vec<_>, _>>()?,
        seed,
        window: Window { from: Time::ZERO + run.warmup, until: Time::ZERO + run.duration },
        settled: scenario.settled(),
        sample: run.sample,
        sample_flows: rows <= FLOW_ROWS_MAX,
        delay: routes.iter().map(|r| r.rtt.longest()).max().unwrap_or(Duration::ZERO),
    };
    let mut simulation = Simulation::new(setup, tap)?;
    simulation.expect_flows(scenario.flow_count() as usize);
    let mut made = vec![0; scenario.flows.len()];
    for (number, route) in routes.iter().enumerate() {
        let group = &scenario.flows[route.group];
        let spread = if group.start_spread > Duration::ZERO { group.start_spread } else { START_SPREAD };
        for _ in 0..group.count {
            let mut dice = Dice::of(seed, &format!("flows {} flow {}", route.group, made[route.group]));
            made[route.group] += 1;
            let rtt = match route.rtt {
                Rtt::Constant(rtt) => rtt,
                Rtt::Uniform(from, to) => from + dice.up_to(to - from),
            };
            let start = Time::ZERO + group.start + dice.up_to(spread);
            simulation.add_flow(number as u32, route.extra_delay(rtt), start);
        }
    }
    Ok(simulation)
}

fn kind(
    scenario: &Scenario,
    route: &Route,
    links: &[NetworkLink],
    memories: &Memories,
) -> Result<FlowKind, Error> {
    let group = &scenario.flows[route.group];
    let mtu = scenario.mtu(group);
    let traffic = group.traffic();
    let named = match traffic.is_transported() {
        false => None,
        true => Some(Congestion::by_name(&group.congestion).ok_or_else(|| unknown(&group.congestion))?),
    };
    let headers = headers(group);
    let ecn = ecn(group, named);
    let congestion = if ecn == EcnMode::Off { named.map(Congestion::without_ecn) } else { named };
    let numbers = |links: &[usize]| links.iter().map(|l| *l as u32).collect();
    Ok(FlowKind {
        group: route.group as u32,
        forward: numbers(&route.forward),
        back: numbers(&route.back),
        pages: match &traffic {
            Traffic::Web(web) => Some(pages(web)),
            _ => None,
        },
        parallel: match &traffic {
            Traffic::Page(page) => Some(parallel(page, group.protocol == Protocol::Quic)),
            _ => None,
        },
        video: match &traffic {
            Traffic::Video(config) => Some(video(config)),
            _ => None,
        },
        traffic,
        congestion,
        sender: sender(group, mtu - headers.data, ecn),
        memory: memories.of_route(group, route),
        receiver: receiver(group, route, mtu - headers.data, ecn),
        handshake: group.host.handshake,
        headers,
        host_jitter: HOST_JITTER,
        stop: group.stop.map(|stop| Time::ZERO + stop),
        comes_forward: code_points(group, &route.forward, links),
        comes_back: code_points(group, &route.back, links),
        shows: shows(group),
        sights: sights(route, links),
    })
}

/// Between which nodes hosts remember their connections, and the first kind of flows that does.
struct Memories<'a>(BTreeMap<(&'a str, &'a str), u32>);

impl<'a> Memories<'a> {
    fn of(scenario: &Scenario, routes: &'a [Route]) -> Memories<'a> {
        let mut firsts = BTreeMap::new();
        for (kind, route) in routes.iter().enumerate() {
            if scenario.flows[route.group].host.ssthresh_saved {
                firsts.entry((route.from.as_str(), route.to.as_str())).or_insert(kind as u32);
            }
        }
        Memories(firsts)
    }

    /// With which kind connections of these flows share what their host remembers, if it does.
    fn of_route(&self, group: &FlowGroup, route: &Route) -> Option<u32> {
        let first = self.0.get(&(route.from.as_str(), route.to.as_str())).copied();
        first.filter(|_| group.host.ssthresh_saved)
    }
}

/// The DSCP with which packets of these flows come to each of these links: one before may have changed it.
fn code_points(group: &FlowGroup, route: &[usize], links: &[NetworkLink]) -> Vec<Dscp> {
    let mut dscp = match group.class {
        Class::Assured => Dscp::DEFAULT,
        Class::Expedited => Dscp::EXPEDITED,
        Class::NonQueueBuilding => Dscp::NQB,
    };
    let entered = route.iter().map(|link| {
        let comes = dscp;
        dscp = links[*link].remarking.remarks().of(comes);
        comes
    });
    entered.collect()
}

/// What an observer can read of the packets of these flows.
fn shows(group: &FlowGroup) -> Shows {
    match (group.traffic().is_transported(), group.protocol) {
        (false, _) => Shows::Nothing,
        (true, Protocol::Tcp) => Shows::Tcp,
        (true, Protocol::Quic) if group.spin => Shows::Spin,
        (true, Protocol::Quic) => Shows::RandomBit,
    }
}

/// Where acknowledgements pass the node of a link that observes. A route visits each node once.
fn sights(route: &Route, links: &[NetworkLink]) -> Vec<(u32, u32)> {
    let observing = route.forward.iter().filter(|link| links[**link].upstream != Upstream::Off);
    let seen = |link: &usize| {
        let back = route.back.iter().find(|back| links[**back].from == links[*link].from)?;
        Some((*back as u32, *link as u32))
    };
    observing.filter_map(seen).collect()
}

fn unknown(name: &str) -> Error {
    Error::Congestion { name: name.into(), known: weir_tcp::congestion::names().join(", ") }
}

/// Sizes of the headers of these flows.
pub(crate) fn headers(group: &FlowGroup) -> Headers {
    let ip = match group.ip {
        IpVersion::V4 => 20,
        IpVersion::V6 => 40,
    };
    match (group.traffic().is_transported(), group.protocol) {
        (false, _) if group.realtime.is_some() => Headers::rtp(ip),
        (false, _) => Headers::udp(ip),
        (true, Protocol::Tcp) => Headers::tcp(ip),
        (true, Protocol::Quic) => Headers::quic(ip),
    }
}

/// With ECN a congestion control gets the kind that it is made for.
fn ecn(group: &FlowGroup, congestion: Option<Congestion>) -> EcnMode {
    match congestion.map_or(EcnMode::Off, Congestion::ecn) {
        _ if !group.ecn.is_on() => EcnMode::Off,
        EcnMode::Off => EcnMode::Classic,
        own => own,
    }
}

fn segments(bytes: Bytes, payload: u32) -> u32 {
    u32::try_from(bytes.get() / u64::from(payload)).unwrap_or(u32::MAX).max(1)
}

fn sender(group: &FlowGroup, payload: u32, ecn: EcnMode) -> SenderConfig {
    let host = &group.host;
    SenderConfig {
        mss_payload: payload,
        ecn,
        control: host.control.clone(),
        pacing: match host.pacing {
            weir_config::Pacing::Default => Pacing::Default,
            weir_config::Pacing::On => Pacing::On,
            weir_config::Pacing::Off => Pacing::Off,
        },
        burst: host.burst.map_or(1, |burst| segments(burst, payload)),
        recovery: match host.recovery {
            Recovery::Rack => weir_tcp::Recovery::RackPrr,
            Recovery::NewReno => weir_tcp::Recovery::NewReno,
        },
        window_min: host.window_min,
        rto: host.rto_min.map_or(Rto::default(), |least| Rto::Rfc6298 {
            least,
            clock: host.rto_clock.unwrap_or(Duration::from_nanos(1)),
        }),
        initial_window: host.initial_window,
        ..SenderConfig::default()
    }
}

/// Linux gathers SACKs for a twentieth of the round-trip time where that is less than its usual millisecond.
fn sack_delay(rtt: &Rtt) -> Duration {
    let (Rtt::Constant(shortest) | Rtt::Uniform(shortest, _)) = *rtt;
    Duration::from_nanos(shortest.as_nanos() / 20)
}

/// The window that Linux begins with: 16 bits of it go into a SYN-ACK, which has no scale.
const FIRST_RECEIVE_WINDOW: Bytes = Bytes::new(65_535);

/// What of a receive buffer holds payload: Linux counts 2304 bytes for a segment of 1448, in 256ths.
fn usable(buffer: Bytes) -> Bytes {
    Bytes::new(buffer.get() / 256 * 160)
}

fn receiver(group: &FlowGroup, route: &Route, payload: u32, ecn: EcnMode) -> ReceiverConfig {
    let usual = ReceiverConfig::default();
    let free = if route.forward.is_empty() { segments(UNHINDERED_WINDOW, payload) } else { usual.window };
    let grows_to = group.host.window_auto.map(|buffer| segments(usable(buffer), payload));
    let first = grows_to.map(|most| segments(FIRST_RECEIVE_WINDOW, payload).min(most));
    ReceiverConfig {
        paws: group.protocol == Protocol::Tcp,
        ack_every: group.host.ack_every,
        sack_delay: sack_delay(&route.rtt).min(usual.sack_delay),
        window: group.host.window.map(|window| segments(window, payload)).or(first).unwrap_or(free),
        window_most: grows_to,
        ecn,
        ..usual
    }
}
