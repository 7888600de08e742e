//! Queues that ns-3 and Weir both have, and what their parameters are called there.

use weir_aqm::Value;
use weir_config::Scenario;
use weir_units::Bytes;

/// An attribute of a queue of ns-3 and its value.
#[derive(Debug)]
pub struct Attribute(pub &'static str, pub String);

/// How a parameter is said there.
enum Said {
    /// By an attribute with the same meaning.
    As(&'static str),
    /// It follows from others, or the queue there is made for it.
    Otherwise,
    /// Only its default is what is done there.
    Fixed,
}
use Said::{As, Fixed, Otherwise};

/// A queue of ns-3: discipline and algorithm here, its name there, the parameters of both.
struct Known {
    discipline: &'static str,
    aqm: &'static str,
    kind: &'static str,
    queue: &'static [(&'static str, Said)],
    parameters: &'static [(&'static str, Said)],
}

/// Parameters of CoDel, alone and in flow queues. ns-3 always has the kernel's Newton step.
const CODEL: &[(&str, Said)] = &[
    ("target", As("Target")),
    ("interval", As("Interval")),
    ("ecn", As("UseEcn")),
    ("mtu", Fixed),
    ("newton", Otherwise),
];

const KNOWN: [Known; 6] = [
    Known {
        discipline: "single",
        aqm: "tail_drop",
        kind: "ns3::FifoQueueDisc",
        queue: &[],
        parameters: &[("limit", Otherwise)],
    },
    Known { discipline: "single", aqm: "codel", kind: "ns3::CoDelQueueDisc", queue: &[], parameters: CODEL },
    Known {
        discipline: "flow",
        aqm: "codel",
        kind: "ns3::FqCoDelQueueDisc",
        // The quantum is the interface's largest packet.
        queue: &[
            ("flows", As("Flows")),
            ("quantum", Fixed),
            ("packets", Fixed),
            ("memory", Fixed),
            ("ways", Fixed),
            ("fair_senders", Fixed),
            ("fair_receivers", Fixed),
        ],
        parameters: CODEL,
    },
    Known {
        discipline: "single",
        aqm: "pie",
        kind: "ns3::PieQueueDisc",
        queue: &[],
        parameters: &[
            ("target", As("QueueDelayReference")),
            ("t_update", As("Tupdate")),
            ("alpha", As("A")),
            ("beta", As("B")),
            ("max_burst", As("MaxBurstAllowance")),
            ("ecn", As("UseEcn")),
            ("mark_ecnth", As("MarkEcnThreshold")),
            ("departure_rate", As("UseDequeueRateEstimator")),
            ("dq_threshold", As("DequeueThreshold")),
            ("activation", Fixed),
            ("derandomize", As("UseDerandomization")),
            ("cap", As("UseCapDropAdjustment")),
            ("tune_steps", Fixed),
            ("mean_packet", Fixed),
        ],
    },
    Known {
        discipline: "single",
        aqm: "cobalt",
        kind: "ns3::CobaltQueueDisc",
        queue: &[],
        parameters: &[
            ("target", As("Target")),
            ("interval", As("Interval")),
            ("increment", As("Increment")),
            ("decrement", As("Decrement")),
            ("ecn", As("UseEcn")),
            ("mtu", Fixed),
        ],
    },
    Known {
        discipline: "single",
        aqm: "red",
        kind: "ns3::RedQueueDisc",
        queue: &[],
        parameters: &[
            ("target", Otherwise),
            ("spread", Otherwise),
            ("min_packets", Otherwise),
            ("max_p", Otherwise),
            ("memory", Otherwise),
            ("gentle", As("Gentle")),
            ("adaptive", As("AdaptMaxP")),
            ("wait", As("Wait")),
            ("count_bytes", Fixed),
            ("byte_mode", Fixed),
            ("mean_packet", Fixed),
            ("ecn", As("UseEcn")),
            ("mark_above", Otherwise),
        ],
    },
];

/// Name and attributes of the queue of a scenario, or the keys that ns-3 does not play.
pub fn queue(scenario: &Scenario) -> Result<(&'static str, Vec<Attribute>), Vec<String>> {
    let (queue, aqm) = (&scenario.queue, &scenario.aqm);
    let known = KNOWN.iter().find(|k| k.discipline == queue.discipline && k.aqm == aqm.name);
    let Some(known) = known else { return Err(vec!["aqm.name".into()]) };
    let (mut attributes, mut unplayed) = (Vec::new(), Vec::new());
    let tables = [
        ("queue", known.queue, &queue.settings, &queue.given),
        ("aqm", known.parameters, &aqm.settings, &aqm.given),
    ];
    for (table, said, settings, given) in tables {
        for (name, value) in settings {
            match said.iter().find(|(ours, _)| ours == name).map(|(_, said)| said) {
                Some(As(attribute)) => attributes.push(Attribute(attribute, text(*value))),
                Some(Otherwise) => {}
                _ if given.contains(name) => unplayed.push(format!("{table}.{name}")),
                _ => {}
            }
        }
    }
    if known.kind.contains("Red") {
        attributes.extend(red(scenario));
    }
    if unplayed.is_empty() { Ok((known.kind, attributes)) } else { Err(unplayed) }
}

/// Bytes that the queue may hold: those of the link, or of an algorithm with a limit of its own.
pub fn room(scenario: &Scenario) -> Bytes {
    let room = scenario.link.shape.buffer.bytes(scenario.rate());
    match scenario.aqm.get("limit") {
        Some(Value::Duration(limit)) => room.min(scenario.rate().bytes_in(limit)),
        _ => room,
    }
}

/// A value as ns-3 reads it.
fn text(value: Value) -> String {
    match value {
        Value::Duration(time) => format!("{}ns", time.as_nanos()),
        Value::Bytes(bytes) => bytes.get().to_string(),
        Value::Rate(rate) => format!("{}bps", rate.as_bps()),
        Value::Share(share) => share.0.to_string(),
        Value::Number(number) => number.to_string(),
        Value::Count(count) => count.to_string(),
        Value::Flag(flag) => flag.to_string(),
    }
}

/// The thresholds in packets, and the weight of one packet in the average.
fn red(scenario: &Scenario) -> Vec<Attribute> {
    let share = |name: &str| match scenario.aqm.get(name) {
        Some(Value::Share(share)) => share.0,
        _ => 0.0,
    };
    let seconds = |name: &str| match scenario.aqm.get(name) {
        Some(Value::Duration(time)) => time.as_secs_f64(),
        _ => 0.0,
    };
    let least = match scenario.aqm.get("min_packets") {
        Some(Value::Count(packets)) => f64::from(packets),
        _ => 0.0,
    };
    let full = scenario.link.shape.counting().of_ip(scenario.path.mtu).get() as f64 * 8.0;
    let packet = full / scenario.rate().as_bps_f64();
    let spread = share("spread");
    let lower = (seconds("target") * (1.0 - spread) / packet).max(least);
    let upper = lower * (1.0 + spread) / (1.0 - spread);
    let weight = -(-packet / seconds("memory")).exp_m1();
    let hard = scenario.aqm.get("mark_above") != Some(Value::Flag(true));
    vec![
        Attribute("MinTh", lower.to_string()),
        Attribute("MaxTh", upper.to_string()),
        Attribute("QW", weight.to_string()),
        Attribute("LInterm", (1.0 / share("max_p")).to_string()),
        Attribute("Bottom", "0.01".into()),
        Attribute("MeanPktSize", scenario.path.mtu.to_string()),
        Attribute("LinkBandwidth", format!("{}bps", scenario.rate().as_bps())),
        Attribute("UseHardDrop", hard.to_string()),
    ]
}
