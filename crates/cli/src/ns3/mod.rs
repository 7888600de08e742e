//! A scenario in ns-3, an independent simulator with queues and TCP of its own: what of it is played there,
//! and a run.

mod queues;

use crate::interrupt::is_interrupted;
use crate::output::{Failure, Output};
use crate::results::{Planned, describe};
use queues::{Attribute, queue, room};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::Command;
use weir_config::{Arm, BOTTLENECK, Direction, Document, FlowGroup, IpVersion, Rtt, Scenario, Traffic};
use weir_measure::result::{FlowSummary, LinkSample, LinkSummary, Recording, Spread, Summary};
use weir_report::{terminal, write_atomic};
use weir_units::Duration;

/// What is built and run there.
const PROGRAM: &str = include_str!("dumbbell.cc");

/// Libraries of ns-3 that it takes.
const LIBRARIES: [&str; 7] =
    ["traffic-control", "applications", "point-to-point", "internet", "network", "stats", "core"];

/// What a reader of a comparison must know.
pub const NOTE: &str = "ns-3 has its own queues, TCP and random numbers: docs/ns3.md says what differs";

/// Congestion controls of both, by their name here and there.
const CONTROLS: [(&str, &str); 4] = [
    ("reno", "ns3::TcpLinuxReno"),
    ("cubic", "ns3::TcpCubic"),
    ("bbr", "ns3::TcpBbr"),
    ("dctcp", "ns3::TcpDctcp"),
];

/// Refuses a scenario of which ns-3 does not play all, and names what it does not.
pub fn check(document: &Document, scenario: &Scenario) -> Result<(), Failure> {
    let mut keys = scenario.unplayed(Arm::Row);
    let tables = [("links", !scenario.links.is_empty()), ("policy", scenario.policy.is_some())];
    let variation = &scenario.link.variation;
    let link = [
        ("link.steps", !variation.steps.is_empty()),
        ("link.trace", variation.trace().is_some()),
        ("link.jitter", variation.jitter > Duration::ZERO),
        ("link.loss", variation.loss.0 > 0.0),
        ("link.loss_bursts", variation.loss_bursts.is_some()),
        ("link.loss_every", variation.loss_every.is_some()),
        ("link.loss_packets", !variation.loss_packets.is_empty()),
        ("link.reorder", variation.reorder.is_some()),
        ("path.delay_ab", scenario.path.forward_delay() != scenario.path.reverse_delay()),
    ];
    let given = |keys: &mut Vec<String>, of: &[(&str, bool)], path: &str| {
        keys.extend(of.iter().filter(|(_, is)| *is).map(|(key, _)| format!("{path}{key}")));
    };
    given(&mut keys, &tables, "");
    given(&mut keys, &link, "");
    for (n, flows) in scenario.flows.iter().enumerate() {
        let tcp = flows.traffic().is_transported();
        let of = [
            ("transfer", flows.transfer.is_some()),
            ("direction", flows.direction != Direction::Forward),
            ("ip", flows.ip != IpVersion::V4),
            ("mtu", scenario.mtu(flows) != scenario.path.mtu),
            ("rtt", matches!(flows.rtt, Some(Rtt::Uniform(..)))),
            ("burst", flows.host.burst.is_some()),
            ("congestion", tcp && control(flows).is_none()),
            ("ecn", tcp && flows.ecn.is_on() != uses_ecn(scenario)),
        ];
        given(&mut keys, &of, &format!("flows.{n}."));
    }
    let attributes = queue(scenario);
    keys.extend(attributes.as_ref().err().into_iter().flatten().cloned());
    keys.sort();
    keys.dedup();
    if keys.is_empty() {
        return Ok(());
    }
    let keys: Vec<String> = keys.iter().map(|key| format!("`{key}`")).collect();
    Err(Failure::Input(format!(
        "{}: ns-3 does not play {} as it stands: remove or change that for this comparison (docs/ns3.md says what is played)",
        document.file(),
        keys.join(", ")
    )))
}

fn control(flows: &FlowGroup) -> Option<&'static str> {
    CONTROLS.iter().find(|(ours, _)| *ours == flows.congestion).map(|(_, theirs)| *theirs)
}

/// Whether flows use ECN: all those of TCP do as the first, as it is one switch in ns-3.
fn uses_ecn(scenario: &Scenario) -> bool {
    let mut tcp = scenario.flows.iter().filter(|flows| flows.traffic().is_transported());
    tcp.next().is_some_and(|flows| flows.ecn.is_on())
}

/// The program in ns-3.
pub struct Ns3 {
    program: PathBuf,
}

/// What it prints.
#[derive(Deserialize)]
struct Seen {
    utilization: f64,
    delay_mean_ms: f64,
    delay_p50_ms: f64,
    delay_p95_ms: f64,
    delay_p99_ms: f64,
    delay_max_ms: f64,
    packets: u64,
    drops: u64,
    overflows: u64,
    marks: u64,
    /// Group and bytes of each flow.
    flows: Vec<(u32, u64)>,
    samples: Vec<Sampled>,
}

/// Time in seconds; bytes that arrived, as IP packets, and that were sent, with ns-3's two bytes around
/// each; mean and largest delay in milliseconds; bytes stored; packets dropped, without room, and marked.
#[derive(Deserialize)]
struct Sampled(f64, f64, f64, f64, f64, u64, u64, u64, u64);

impl Ns3 {
    /// Builds the program below a folder for results, where that was not done before.
    pub fn build(out: &Path, output: &Output) -> Result<Ns3, Failure> {
        let folder = out.join("ns3-program");
        let (source, program) = (folder.join("dumbbell.cc"), folder.join("dumbbell"));
        let is_built =
            program.is_file() && std::fs::read_to_string(&source).is_ok_and(|text| text == PROGRAM);
        if !is_built {
            let made = std::fs::create_dir_all(&folder);
            made.map_err(|e| format!("cannot create {}: {e}", folder.display()))?;
            output.say("building the program for ns-3");
            write_atomic(&source, PROGRAM)?;
            // The program takes its name when it is whole.
            let new = folder.join("dumbbell.new");
            let compiler = std::env::var_os("CXX").unwrap_or_else(|| "c++".into());
            let mut command = Command::new(&compiler);
            command.args(["-O2", "-std=c++17"]).arg(&source).arg("-o").arg(&new);
            command.args(LIBRARIES.map(|library| format!("-lns3-{library}")));
            let ran = command.output().map_err(|e| missing(&format!("cannot start {compiler:?}: {e}")))?;
            if !ran.status.success() {
                let said = String::from_utf8_lossy(&ran.stderr);
                let why = said.lines().find(|line| line.contains("error")).or(said.lines().next());
                return Err(missing(why.unwrap_or("the compiler failed")));
            }
            std::fs::rename(&new, &program).map_err(|e| format!("cannot rename {}: {e}", new.display()))?;
        }
        Ok(Ns3 { program })
    }

    /// Runs a planned scenario there.
    pub fn run(&self, planned: &Planned, seed: u64, output: &Output) -> Result<Recording, Failure> {
        let scenario = &planned.scenario;
        output.say(format!("ns-3: {}", terminal(&scenario.title)));
        let mut command = Command::new(&self.program);
        command.args(arguments(scenario, seed));
        let ran = command.output().map_err(|e| format!("cannot start {}: {e}", self.program.display()))?;
        if is_interrupted() {
            return Err(Failure::Interrupted("interrupted".into()));
        }
        if !ran.status.success() {
            let said = String::from_utf8_lossy(&ran.stderr);
            return Err(format!("ns-3 failed: {}, {}; try `{command:?}`", ran.status, said.trim()).into());
        }
        let seen: Seen = serde_json::from_slice(&ran.stdout)
            .map_err(|e| format!("ns-3 printed what is no result: {e}; try `{command:?}`"))?;
        Ok(seen.recording(scenario))
    }
}

/// ns-3 is not there, or not as it has to be.
fn missing(why: &str) -> Failure {
    Failure::Failed(format!(
        "ns-3 cannot be used: {why}. Remedy: install the Debian packages `g++` and `libns3-dev` (`tools/install ns3`), or leave \
         --with ns3 out"
    ))
}

/// Bytes around an IP packet of the largest size on the link.
fn overhead(scenario: &Scenario) -> u64 {
    let mtu = scenario.path.mtu;
    scenario.link.shape.counting().of_ip(mtu).get() - u64::from(mtu)
}

fn arguments(scenario: &Scenario, seed: u64) -> Vec<String> {
    let full = u64::from(scenario.path.mtu) + overhead(scenario);
    let room = room(scenario).get() / full;
    let (kind, attributes) = queue(scenario).expect("it was checked");
    let group = |flows: &FlowGroup| {
        let rtt = match flows.rtt {
            Some(Rtt::Constant(rtt)) => rtt,
            _ => scenario.path.rtt,
        };
        let (control, rate) = match flows.traffic() {
            Traffic::Unresponsive(datagrams) => ("udp", datagrams.rate.as_bps()),
            _ => (control(flows).expect("it was checked"), 0),
        };
        let stop = flows.stop.unwrap_or(scenario.run.duration);
        let ns = |time: Duration| format!("{}ns", time.as_nanos());
        format!("{},{control},{},{},{},{rate}bps", flows.count, ns(rtt), ns(flows.start), ns(stop))
    };
    let groups: Vec<String> = scenario.flows.iter().map(group).collect();
    let mut arguments = vec![
        format!("--RngRun={seed}"),
        format!("--queue={kind}"),
        format!("--rate={}bps", scenario.rate().as_bps()),
        format!("--room={}", room.max(1)),
        format!("--mtu={}", scenario.path.mtu),
        format!("--overhead={}", overhead(scenario)),
        format!("--duration={}ns", scenario.run.duration.as_nanos()),
        format!("--warmup={}ns", scenario.run.warmup.as_nanos()),
        format!("--sample={}ns", scenario.run.sample.as_nanos()),
        format!("--ecn={}", uses_ecn(scenario)),
        format!("--groups={}", groups.join(";")),
    ];
    arguments.extend(attributes.iter().map(|Attribute(name, value)| format!("--{kind}::{name}={value}")));
    arguments
}

impl Seen {
    /// As the other arms have it.
    fn recording(self, scenario: &Scenario) -> Recording {
        let (duration, warmup) = (scenario.run.duration.as_secs_f64(), scenario.run.warmup.as_secs_f64());
        let rate = scenario.rate().as_bps_f64();
        let (mtu, around) = (f64::from(scenario.path.mtu), overhead(scenario) as f64);
        let link = LinkSummary {
            name: BOTTLENECK.to_string(),
            aqm: describe(scenario),
            rate_bps: Some(rate),
            accounting: scenario.link.shape.counting().to_string(),
            packets: self.packets,
            bytes: (self.utilization * rate * (duration - warmup) / 8.0).round() as u64,
            utilization: self.utilization,
            delay_ms: Spread {
                mean: self.delay_mean_ms,
                p50: self.delay_p50_ms,
                p95: self.delay_p95_ms,
                p99: self.delay_p99_ms,
                max: self.delay_max_ms,
            },
            drops: self.drops,
            overflows: self.overflows,
            marks: self.marks,
            ..LinkSummary::default()
        };
        let flow = |(id, (group, bytes)): (usize, &(u32, u64))| {
            let of = &scenario.flows[*group as usize];
            let stop = of.stop.unwrap_or(scenario.run.duration).as_secs_f64().min(duration);
            let active = stop - of.start.as_secs_f64().max(warmup);
            FlowSummary {
                id: id as u32,
                group: *group,
                congestion: of.congestion.clone(),
                bytes: *bytes,
                goodput_bps: if active > 0.0 { *bytes as f64 * 8.0 / active } else { 0.0 },
                ..FlowSummary::default()
            }
        };
        let period = scenario.run.sample.as_secs_f64();
        let sample =
            |Sampled(t_s, arrived, sent, mean, max, backlog, drops, overflows, marks): &Sampled| LinkSample {
                t_s: *t_s,
                arrived_bps: arrived * (mtu + around) / mtu * 8.0 / period,
                delivered_bps: sent * (mtu + around) / (mtu + 2.0) * 8.0 / period,
                delay_mean_ms: *mean,
                delay_max_ms: *max,
                backlog_bytes: *backlog,
                setpoint_ms: f64::NAN,
                drops: *drops,
                overflows: *overflows,
                marks: *marks,
                capacity_bps: rate,
                ..LinkSample::default()
            };
        let summary = Summary {
            title: scenario.title.clone(),
            arm: "ns3".into(),
            interrupted: false,
            duration_s: duration - warmup,
            warmup_s: warmup,
            links: vec![link],
            flows: self.flows.iter().enumerate().map(flow).collect(),
            warnings: vec![NOTE.into()],
            ..Summary::default()
        };
        let samples = self.samples.iter().map(sample).collect();
        Recording { summary, link_samples: vec![samples], ..Recording::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario(more: &str) -> (Document, Scenario) {
        let text = format!(
            "title = \"x\"\nlink.rate = \"10Mbit/s\"\npath.rtt = \"20ms\"\nrun = {{ duration = \"5s\", warmup = \"1s\" }}\n{more}"
        );
        let document = Document::parse("x.toml", &text).unwrap();
        let scenario = document.scenario().unwrap_or_else(|e| panic!("{e}"));
        (document, scenario)
    }

    fn refused(more: &str) -> String {
        let (document, scenario) = scenario(more);
        check(&document, &scenario).unwrap_err().text().to_string()
    }

    #[test]
    fn what_is_not_played_is_named() {
        let told = refused(
            "aqm.name = \"gsp\"\npolicy = {}\nflows = [{ transfer = \"1MB\", congestion = \"prague\" }, { direction = \"reverse\" }]",
        );
        let keys = "`aqm.name`, `flows.0.congestion`, `flows.0.transfer`, `flows.1.direction`, `flows.1.ecn`, `policy`";
        assert!(told.contains(keys), "{told}");
        let told = refused("aqm = { name = \"pie\", tune_steps = 2 }\nflows = [{}]");
        assert!(told.contains("`aqm.tune_steps`"), "{told}");
        let told = refused("aqm.name = \"pie\"\nqueue.discipline = \"flow\"\nflows = [{}]");
        assert!(told.contains("`aqm.name`"), "{told}");
    }

    #[test]
    fn a_scenario_becomes_arguments() {
        let (document, scenario) = scenario(
            "aqm = { name = \"codel\", target = \"10ms\" }\n\
             flows = [{ count = 2, congestion = \"reno\" }, { udp_rate = \"1Mbit/s\", start = \"2s\", stop = \"3s\" }]",
        );
        check(&document, &scenario).unwrap();
        let arguments = arguments(&scenario, 3);
        for expected in [
            "--RngRun=3",
            "--queue=ns3::CoDelQueueDisc",
            "--rate=10000000bps",
            // 100 ms of packets with 38 bytes around each.
            "--room=81",
            "--overhead=38",
            "--groups=2,ns3::TcpLinuxReno,20000000ns,0ns,5000000000ns,0bps;1,udp,20000000ns,2000000000ns,3000000000ns,1000000bps",
            "--ns3::CoDelQueueDisc::Target=10000000ns",
            "--ns3::CoDelQueueDisc::UseEcn=true",
        ] {
            assert!(arguments.iter().any(|a| a == expected), "{expected}: {arguments:?}");
        }
    }

    #[test]
    fn what_it_prints_becomes_a_recording() {
        let (_, scenario) = scenario("aqm.name = \"codel\"\nflows = [{ count = 2 }]");
        let text = r#"{"queue": "q", "utilization": 0.5, "delay_mean_ms": 1, "delay_p50_ms": 1, "delay_p95_ms": 2,
            "delay_p99_ms": 3, "delay_max_ms": 4, "packets": 5, "drops": 6, "overflows": 7, "marks": 8, "received": 0,
            "sent": 0, "dropped": 0, "left": 0, "flows": [[0, 500000], [0, 1000000]],
            "samples": [[0.1, 1500, 1502, 1.5, 2.5, 3000, 1, 2, 3]]}"#;
        let recording = serde_json::from_str::<Seen>(text).unwrap().recording(&scenario);
        let link = &recording.summary.links[0];
        assert_eq!((link.bytes, link.delay_ms.p95, link.overflows), (2_500_000, 2.0, 7));
        let goodput: Vec<f64> = recording.summary.flows.iter().map(|f| f.goodput_bps).collect();
        assert_eq!(goodput, [1e6, 2e6]);
        let sample = recording.link_samples[0][0];
        let near = |a: f64, b: f64| (a - b).abs() < 1e-6 * b;
        assert!(near(sample.arrived_bps, 123_040.0) && near(sample.delivered_bps, 123_040.0), "{sample:?}");
    }
}
