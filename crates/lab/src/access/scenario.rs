//! Which networks of links the lab can make: access networks of homes with modems.

use super::{AccessConfig, Call, Connection, ConnectionResult, Home, ModemResult, Way, run};
use crate::error::{Error, Result};
use crate::exclusive::exclusive;
use crate::follow::{Follow, Playing};
use std::ops::ControlFlow;
use std::time::Duration;
use weir_config::{
    AqmConfig, Arm, Channel, Class, Datagrams, FlowGroup, Link, LinkConfig, Rtt, RunConfig, Scenario,
    SenseConfig, Timing, Traffic,
};
use weir_dataplane::Mode;
use weir_measure::result::{FlowSummary, Progress, Recording, Summary, Transfers};
use weir_units::{Bytes, Rate};
use weir_wire::dscp::Dscp;

/// Full frame of Ethernet without its check sequence: FIFOs below IP count packets.
const FRAME: Bytes = Bytes::new(1514);
/// Payload of UDP that fits into an IPv4 packet of 1500 bytes.
const CALL_MAX: Bytes = Bytes::new(1472);

/// What the lab makes of a scenario with `[[links]]`.
#[derive(Debug)]
pub struct Access {
    /// What is run.
    pub config: AccessConfig,
    /// Names of the limiters, by home.
    limiters: Vec<String>,
    /// The flows of the scenario.
    flows: Vec<Flow>,
    /// Links that are wires in the lab.
    wires: Vec<String>,
}

/// A flow of the scenario: its table, its home, and which of its connections or calls it is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Flow {
    group: u32,
    home: usize,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Connection(usize),
    Call(usize),
}

/// What a `[[flows]]` table asks for.
enum Asked {
    Connection(Connection),
    Call(Call),
}

fn refused(what: impl Into<String>) -> Error {
    let remedy =
        "the lab makes access networks as in `data/scenarios/asqm_upload.toml`; use `weir sim` for others";
    Error::invalid(what, remedy)
}

/// Gives the limiters their names in the scenario, and notes when the run was ended.
struct Noting<'a> {
    names: &'a [String],
    watch: &'a mut dyn Follow,
    interrupted: Option<f64>,
}

impl Follow for Noting<'_> {
    fn pass(&mut self, time: Duration, loops: &mut [Playing<'_>]) {
        self.watch.pass(time, &mut named(self.names, loops));
    }

    fn look(&mut self, progress: Progress<'_>, loops: &mut [Playing<'_>]) -> ControlFlow<()> {
        let t_s = progress.t_s;
        let next = self.watch.look(progress, &mut named(self.names, loops));
        if next.is_break() {
            self.interrupted = Some(t_s);
        }
        next
    }
}

fn named<'a>(names: &'a [String], loops: &'a mut [Playing<'_>]) -> Vec<Playing<'a>> {
    let all = loops.iter_mut().zip(names);
    let named = all.map(|(playing, name)| Playing {
        handle: &mut *playing.handle,
        names: [Some(name.as_str()), None],
        samples: playing.samples,
    });
    named.collect()
}

/// A limiter and what lies behind it.
struct Modem<'a> {
    limiter: &'a Link,
    fifo: &'a Link,
}

impl Modem<'_> {
    fn home(&self, way: Way) -> &str {
        match way {
            Way::Upload => &self.limiter.from,
            Way::Download => &self.fifo.to,
        }
    }
}

impl Access {
    /// Whether a scenario can only be an access network: no other network of the lab has media, or probes.
    pub fn is_meant(scenario: &Scenario) -> bool {
        scenario.links.iter().any(|link| link.medium.is_some() || link.sense.is_some())
    }

    /// Reads a scenario with `[[links]]`.
    ///
    /// # Errors
    ///
    /// If it is no access network, or its flows are none that the lab makes there: says which key.
    pub fn of(scenario: &Scenario) -> Result<Access> {
        let modems = modems(scenario)?;
        let Some(first) = modems.first() else {
            return Err(refused("none of the `links` has an algorithm with a link of a `medium` behind it"));
        };
        let way = if scenario.flows.iter().any(|flows| flows.from.as_ref() == Some(&first.limiter.from)) {
            Way::Upload
        } else {
            Way::Download
        };
        let nanos = |d: weir_units::Duration| Duration::from_nanos(d.as_nanos());
        let mut access = Access {
            config: AccessConfig {
                way,
                mode: None,
                homes: modems.iter().map(home).collect::<Result<_>>()?,
                shared: first.fifo.shape.rate.unwrap_or(Rate::ZERO),
                lent: first.limiter.shape.rate.unwrap_or(Rate::ZERO),
                fifo: packets(first.fifo)?,
                rtt: nanos(round_trip(scenario)?),
                duration: nanos(scenario.run.duration),
                warmup: nanos(scenario.run.warmup),
            },
            limiters: modems.iter().map(|modem| modem.limiter.name.clone()).collect(),
            flows: Vec::new(),
            wires: Vec::new(),
        };
        access.connect(scenario, &modems)?;
        let known =
            |link: &&Link| modems.iter().any(|m| m.limiter.name == link.name || m.fifo.name == link.name);
        access.wires =
            scenario.links.iter().filter(|link| !known(link)).map(|link| link.name.clone()).collect();
        Ok(access)
    }

    /// Gives each home its connections.
    fn connect(&mut self, scenario: &Scenario, modems: &[Modem]) -> Result<()> {
        for (number, group) in scenario.flows.iter().enumerate() {
            let node = match self.config.way {
                Way::Upload => &group.from,
                Way::Download => &group.to,
            };
            let homes = modems.iter().map(|m| m.home(self.config.way)).enumerate();
            let place = node.as_deref().and_then(|node| {
                homes.clone().find_map(|(home, name)| Some((home, machine(scenario, name, node)?)))
            });
            let Some((home, machine)) = place else {
                return Err(refused(format!("`flows.{number}` is not between a home and the server")));
            };
            self.config.homes[home].machines = self.config.homes[home].machines.max(machine + 1);
            let asked = asked(group)
                .map_err(|key| refused(format!("the lab of modems does not know `flows.{number}.{key}`")))?;
            for _ in 0..group.count {
                let Home { connections, calls, .. } = &mut self.config.homes[home];
                let kind = match &asked {
                    Asked::Connection(connection) => {
                        connections.push(Connection { machine, ..connection.clone() });
                        Kind::Connection(connections.len() - 1)
                    }
                    Asked::Call(call) => {
                        calls.push(Call { machine, ..*call });
                        Kind::Call(calls.len() - 1)
                    }
                };
                self.flows.push(Flow { group: number as u32, home, kind });
            }
        }
        Ok(())
    }

    /// Runs it and tells what came of it as any scenario does.
    pub fn record(
        mut self,
        scenario: &Scenario,
        mode: Option<Mode>,
        waiting: impl FnMut(Duration) -> ControlFlow<()>,
        watch: &mut dyn Follow,
    ) -> Result<Recording> {
        self.config.mode = mode;
        let mut noting = Noting { names: &self.limiters, watch, interrupted: None };
        let results = run(&self.config, || exclusive(waiting), &mut noting)?;
        let interrupted = noting.interrupted;
        Ok(self.recording(scenario, results, interrupted))
    }

    fn recording(&self, scenario: &Scenario, mut homes: Vec<ModemResult>, ended: Option<f64>) -> Recording {
        let warmup_s = scenario.run.warmup.as_secs_f64();
        let length_s = scenario.run.duration.as_secs_f64();
        let measured_s = (ended.unwrap_or(length_s) - warmup_s).max(0.0);
        let mut warnings = vec![format!(
            "links without queues here, as the lab has wires in their place: {}",
            self.wires.join(", ")
        )];
        warnings.extend(ended.map(|t_s| format!("interrupted at {t_s:.1} s of {length_s:.1} s")));
        for (home, name) in homes.iter_mut().zip(&self.limiters) {
            home.link.name.clone_from(name);
            warnings.extend(home.warnings.drain(..).map(|warning| format!("{name}: {warning}")));
        }
        let summary = Summary {
            title: scenario.title.clone(),
            arm: "lab".into(),
            interrupted: ended.is_some(),
            duration_s: measured_s,
            warmup_s,
            ports: homes.first().map(|home| home.ports.clone()).unwrap_or_default(),
            links: homes.iter().map(|home| home.link.clone()).collect(),
            flows: self.flows(scenario, &homes, measured_s),
            host: None,
            responsiveness: None,
            warnings,
        };
        let mut recording = Recording { summary, ..Recording::default() };
        for (home, name) in homes.into_iter().zip(&self.limiters) {
            recording.link_samples.push(home.samples);
            let named = |mut event: weir_measure::result::SteeringEvent| {
                event.link.clone_from(name);
                event
            };
            recording.events.extend(home.events.into_iter().map(named));
        }
        recording.events.sort_by(|a, b| a.t_s.total_cmp(&b.t_s));
        recording
    }

    fn flows(&self, scenario: &Scenario, homes: &[ModemResult], measured_s: f64) -> Vec<FlowSummary> {
        let flow = |(id, Flow { group, home, kind }): (usize, &Flow)| {
            let (asked, found) = (&self.config.homes[*home], &homes[*home]);
            let (sent, size) = match *kind {
                Kind::Connection(n) => (found.connections[n], asked.connections[n].size),
                Kind::Call(n) => (answered(&asked.calls[n], &found.calls_ms[n]), None),
            };
            FlowSummary {
                id: id as u32,
                group: *group,
                congestion: scenario.flows[*group as usize].congestion.clone(),
                bytes: sent.bytes,
                goodput_bps: sent.bytes as f64 * 8.0 / measured_s.max(1e-9),
                retransmits: sent.retransmits,
                rtt_ms: sent.rtt_ms,
                transfers: size.map(|_| Transfers {
                    completed: sent.completed as u32,
                    mean_s: (sent.completed > 0).then(|| sent.busy_s / sent.completed as f64),
                }),
            }
        };
        self.flows.iter().enumerate().map(flow).collect()
    }
}

/// The limiters with an algorithm, each with the link of the medium behind it.
fn modems(scenario: &Scenario) -> Result<Vec<Modem<'_>>> {
    let mut modems = Vec::new();
    for limiter in scenario.links.iter().filter(|link| link.aqm.is_some()) {
        let behind = |link: &&Link| link.from == limiter.to && link.medium.is_some() && link.aqm.is_none();
        let Some(fifo) = scenario.links.iter().find(behind) else {
            return Err(refused(format!("there is no link of a `medium` behind `{}`", limiter.name)));
        };
        let probed = limiter.sense.as_ref().is_none_or(|sense| sense.at == fifo.to);
        let plain = limiter.variation.changed().is_empty() && fifo.variation.changed().is_empty();
        let plain = plain && fifo.committed.is_none();
        if !probed || !plain || limiter.shape.rate.is_none() {
            let what =
                format!("`{}` is no limiter of constant rate that is sensed to `{}`", limiter.name, fifo.to);
            return Err(refused(what));
        }
        modems.push(Modem { limiter, fifo });
    }
    if let Some(first) = modems.first() {
        let medium = &first.fifo.medium;
        let members = scenario.links.iter().filter(|link| link.medium == *medium).count();
        if members != modems.len() || modems.iter().any(|modem| modem.fifo.medium != *medium) {
            return Err(refused("the links behind the limiters are not all those of one `medium`"));
        }
        // Limiters borrow from each other, or each has a link of its own.
        let lender = &first.limiter.medium;
        let members = scenario.links.iter().filter(|link| lender.is_some() && link.medium == *lender).count();
        let agree =
            |m: &Modem| m.limiter.medium == *lender && m.limiter.committed.is_some() == lender.is_some();
        if !modems.iter().all(agree) || lender.is_some() && members != modems.len() {
            return Err(refused("the limiters are not all the links of one `medium` with `committed` rates"));
        }
    }
    Ok(modems)
}

/// Which machine of a home a node is: the home's own node, or one with a wire to it.
fn machine(scenario: &Scenario, home: &str, node: &str) -> Option<u32> {
    if node == home {
        return Some(0);
    }
    let wires = scenario.links.iter().filter(|link| link.to == home && link.medium.is_none());
    let wires = wires.filter(|link| {
        link.aqm.is_none()
            && scenario.links.iter().any(|back| {
                back.from == home && back.to == link.from && back.medium.is_none() && back.aqm.is_none()
            })
    });
    wires.zip(1..).find(|(link, _)| link.from == node).map(|(_, number)| number)
}

fn home(modem: &Modem) -> Result<Home> {
    let Link { shape, queue, aqm, policy, sense, committed, .. } = modem.limiter;
    // The rate of a class is that of all together.
    let link = LinkConfig { rate: Some(modem.limiter.queue_rate()), ..shape.clone() };
    let a_to_b = Channel {
        link,
        queue: queue.clone(),
        aqm: aqm.clone(),
        policy: policy.clone(),
        ..Channel::unshaped()
    };
    let aqm = AqmConfig::fifo().name;
    let text = format!(
        "[ports]\na = \"a\"\nb = \"b\"\n[a_to_b]\naqm = {{ name = \"{aqm}\" }}\n[sense]\nport = \"b\"\n"
    );
    let usual = RunConfig::parse("limiter", &text).map_err(|e| refused(e.to_string()))?;
    let sensing = |usual: SenseConfig| {
        let sense = sense.clone()?;
        let (every, budget, rate_max) = (sense.every, sense.budget, sense.rate_max);
        let (hold, fall_back, rate) = (sense.hold, sense.fall_back, sense.rate);
        Some(SenseConfig { every, budget, rate_max, hold, fall_back, rate, ..usual })
    };
    let limiter =
        RunConfig { a_to_b, sense: usual.sense.iter().cloned().filter_map(sensing).collect(), ..usual };
    Ok(Home {
        limiter,
        committed: *committed,
        expedites: modem.limiter.expedite,
        machines: 1,
        connections: Vec::new(),
        calls: Vec::new(),
    })
}

/// Full frames that fit into the FIFO.
fn packets(fifo: &Link) -> Result<u32> {
    let bytes = fifo.shape.buffer_bytes().map_or(0, |room| room.get() / FRAME.get());
    u32::try_from(bytes.max(1)).map_err(|_| refused(format!("the buffer of `{}` is too large", fifo.name)))
}

/// One round-trip time, which all flows have.
fn round_trip(scenario: &Scenario) -> Result<weir_units::Duration> {
    let first = scenario.flows.first().and_then(|flows| flows.rtt);
    match first {
        Some(Rtt::Constant(rtt)) if scenario.flows.iter().all(|flows| flows.rtt == first) => Ok(rtt),
        _ => Err(refused("`flows` here need one `rtt`, the same for all")),
    }
}

/// What came of a call: the datagrams that came back.
fn answered(call: &Call, round_trips_ms: &[f64]) -> ConnectionResult {
    let count = round_trips_ms.len();
    ConnectionResult {
        bytes: (count * call.payload) as u64,
        rtt_ms: round_trips_ms.iter().sum::<f64>() / count.max(1) as f64,
        ..ConnectionResult::default()
    }
}

/// A connection or a call, or the key that the lab of modems does not play.
fn asked(group: &FlowGroup) -> std::result::Result<Asked, String> {
    let traffic = group.traffic();
    let is_call = matches!(traffic, Traffic::Unresponsive(_));
    // Datagrams have no congestion control, which `congestion` says too.
    let mut unplayed =
        group.unplayed(Arm::Modems).into_iter().filter(|key| !(is_call && key == "congestion"));
    if let Some(key) = unplayed.next() {
        return Err(key);
    }
    let dscp = match group.class {
        Class::Assured => Dscp::DEFAULT,
        Class::Expedited => Dscp::EXPEDITED,
        Class::NonQueueBuilding => Dscp::NQB,
    };
    if let Traffic::Unresponsive(Datagrams { rate, payload, timing: Timing::Cbr }) = traffic {
        let payload = payload.unwrap_or(CALL_MAX);
        let every = Duration::from_nanos(rate.time_for(payload).as_nanos());
        return Ok(Asked::Call(Call { dscp, payload: payload.get() as usize, every, machine: 0 }));
    }
    if dscp != Dscp::DEFAULT {
        return Err("class".into());
    }
    // The kernels there keep the threshold of slow start, so that it has to be asked for.
    if !group.host.ssthresh_saved {
        return Err("ssthresh_saved".into());
    }
    let nanos = |d: weir_units::Duration| Duration::from_nanos(d.as_nanos());
    let endless = Connection { congestion: group.congestion.clone(), ..Connection::default() };
    Ok(Asked::Connection(match traffic {
        Traffic::Transfers { size, pause, .. } => {
            Connection { size: Some(size.get()), pause: pause.map(nanos), ..endless }
        }
        // The keys of all other traffic are none that this arm plays.
        _ => endless,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const UPLOAD: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios/asqm_upload.toml"));
    const DOWNLOAD: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios/asqm_download.toml"));

    fn read(text: &str) -> Result<Access> {
        Access::of(&Scenario::parse("x", text).unwrap_or_else(|e| panic!("{e}")))
    }

    #[test]
    fn the_testbeds_of_the_paper_are_access_networks() {
        for (text, way, first) in
            [(UPLOAD, Way::Upload, "limit_up1"), (DOWNLOAD, Way::Download, "limit_down1")]
        {
            let Access { config, limiters, flows, wires } = read(text).unwrap();
            assert_eq!((config.way, config.shared, config.fifo), (way, Rate::from_mbps(48), 1000));
            assert_eq!((config.rtt, config.duration), (Duration::from_millis(100), Duration::from_secs(120)));
            assert_eq!((limiters[0].as_str(), limiters.len(), wires.len()), (first, 3, 8));
            let flow = |group, home, n| Flow { group, home, kind: Kind::Connection(n) };
            assert_eq!((flows.len(), flows[6], flows[10]), (30, flow(2, 0, 6), flow(3, 1, 0)));
            for home in &config.homes {
                let sizes: Vec<_> = home.connections.iter().map(|c| c.size).collect();
                let [file, page] = [Some(5_000_000), Some(700_000)];
                assert_eq!(sizes, [&[file; 5][..], &[None], &[page; 4]].concat());
                let limiter = &home.limiter;
                assert_eq!(limiter.a_to_b.link.rate, Some(Rate::from_mbps(16)));
                assert_eq!(limiter.a_to_b.aqm.as_ref().map(|aqm| aqm.name.as_str()), Some("asqm"));
                assert_eq!(limiter.sense.first().map(|sense| sense.every), Some(4));
            }
        }
    }

    const CALL: &str = "\n[[flows]]\nfrom = \"home2\"\nto = \"cdn\"\nrtt = \"100ms\"\nclass = \"ef\"\n\
                        udp_rate = \"80kbit/s\"\npacket = \"172B\"\n";

    #[test]
    fn datagrams_at_a_rate_are_calls_of_their_class() {
        let Access { config, flows, .. } = read(&format!("{UPLOAD}{CALL}")).unwrap();
        assert_eq!(flows[30], Flow { group: 9, home: 1, kind: Kind::Call(0) });
        let [without, home] = [&config.homes[0], &config.homes[1]];
        assert_eq!((without.calls.len(), home.connections.len(), home.expedites), (0, 10, true));
        let Call { dscp, payload, every, machine } = home.calls[0];
        assert_eq!((home.machines, machine), (1, 0));
        assert_eq!((dscp, payload, every), (Dscp::EXPEDITED, 172, Duration::from_micros(17_200)));
        let answered = answered(&home.calls[0], &[100.0, 300.0]);
        assert_eq!((answered.bytes, answered.rtt_ms), (344, 200.0));
        let poisson = read(&format!("{UPLOAD}{CALL}udp_pattern = \"poisson\"\n")).unwrap_err().to_string();
        assert!(poisson.contains("`flows.9.udp_pattern`"), "{poisson}");
    }

    #[test]
    fn a_node_with_a_wire_to_a_home_is_a_machine_of_it() {
        let wire = |from: &str, to: &str| {
            format!(
                "[[links]]\nname = \"{from}_{to}\"\nfrom = \"{from}\"\nto = \"{to}\"\nrate = \"1Gbit/s\"\n\n"
            )
        };
        for (text, own) in
            [(UPLOAD, "from = \"home2\"\nto = \"cdn\""), (DOWNLOAD, "from = \"cdn\"\nto = \"home2\"")]
        {
            let wires = wire("laptop", "home2") + &wire("home2", "laptop");
            let (links, flows) = text.split_once("[[flows]]").unwrap();
            let flows = flows.replacen(own, &own.replace("home2", "laptop"), 1);
            let with = |wires: &str| read(&format!("{links}{wires}[[flows]]{flows}"));
            let Access { config, wires: told, .. } = with(&wires).unwrap();
            assert_eq!(config.homes.iter().map(|home| home.machines).collect::<Vec<_>>(), [1, 2, 1]);
            let machines: Vec<u32> = config.homes[1].connections.iter().map(|c| c.machine).collect();
            assert_eq!(machines, [1, 1, 1, 1, 1, 0, 0, 0, 0, 0]);
            assert!(told.contains(&"laptop_home2".to_string()), "{told:?}");
        }
    }

    /// The limiters of `UPLOAD` as classes of a shaper.
    fn borrowing(text: &str) -> String {
        let class =
            "medium = \"limiters\"\ncommitted = \"8Mbit/s\"\nceil = \"16Mbit/s\"\nrate = \"40Mbit/s\"\n";
        let limiters = text.split("[[links]]\n").map(|link| match link.starts_with("name = \"limit_up") {
            true => link.replace("rate = \"16Mbit/s\"\n", class),
            false => link.to_string(),
        });
        limiters.collect::<Vec<_>>().join("[[links]]\n")
    }

    #[test]
    fn limiters_of_one_medium_borrow_from_each_other() {
        let text = borrowing(UPLOAD);
        let Access { config, .. } = read(&text).unwrap();
        let rates = |home: &Home| (home.committed, home.limiter.a_to_b.link.rate);
        let mbps = |rate| Some(Rate::from_mbps(rate));
        assert!(config.homes.iter().all(|home| rates(home) == (mbps(8), mbps(16))));
        assert_eq!(config.lent, Rate::from_mbps(40));
        let own = read(UPLOAD).unwrap().config;
        assert!(own.homes.iter().all(|home| rates(home) == (None, mbps(16))));
        let turns = text.replace("committed = \"8Mbit/s\"\nceil = \"16Mbit/s\"\n", "");
        let two = borrowing(UPLOAD).replacen("\"limiters\"", "\"others\"", 1);
        for text in [turns, two] {
            let told = read(&text).unwrap_err().to_string();
            assert!(told.contains("not all the links of one `medium` with `committed` rates"), "{told}");
        }
    }

    #[test]
    fn other_networks_and_flows_are_refused_by_name() {
        let told = |from: &str, to: &str| read(&UPLOAD.replacen(from, to, 1)).unwrap_err().to_string();
        for (from, to, what) in [
            ("medium = \"cable_up\"", "medium = \"other\"", "not all those of one `medium`"),
            (
                "rate = \"16Mbit/s\"",
                "rate = \"16Mbit/s\"\nloss = \"1%\"",
                "`limit_up1` is no limiter of constant rate",
            ),
            ("rtt = \"100ms\"", "rtt = \"50ms\"", "one `rtt`"),
            ("ssthresh_saved = true", "", "`flows.0.ssthresh_saved`"),
            ("ssthresh_saved = true", "ssthresh_saved = true\nhystart = false", "`flows.0.hystart`"),
            ("start_spread = \"2s\"", "start = \"2s\"", "`flows.0.start`"),
            ("start_spread = \"2s\"", "class = \"ef\"", "`flows.0.class`"),
            ("pause = \"0s\"", "every = \"1s\"", "`flows.0.every`"),
        ] {
            let told = told(from, to);
            assert!(told.contains(what), "{to}: {told}");
        }
    }
}
