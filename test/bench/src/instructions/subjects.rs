//! What is measured: algorithms in their forms, and the peers.

use super::workload::{FORMS, Form, NOTHING, PERIOD, REGIONS, Region, Run};
use super::{CEILINGS, FLOW_NS_MAX, ceiling, probes, tunnels};

/// Whose packets are counted.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Subject {
    /// An algorithm of the list in a form and a region.
    Weir { algorithm: String, form: &'static str, region: &'static str },
    /// Something of DPDK in a mode.
    Peer { algorithm: &'static str, mode: &'static str },
    /// Data beside the probe path, on its way out or in; without it for the loop alone.
    Probes { way: Option<probes::Way> },
    /// A packet of a user through the user plane; without a way the loop alone.
    Tunnels { way: Option<tunnels::Way> },
}

impl Subject {
    /// An algorithm of the list.
    pub fn weir(algorithm: &str, form: Form, region: Region) -> Subject {
        Subject::Weir { algorithm: algorithm.into(), form: form.name(), region: region.name() }
    }

    /// The same loop without an algorithm.
    pub fn empty(&self) -> Subject {
        match self {
            Subject::Weir { form, region, .. } => Subject::Weir { algorithm: NOTHING.into(), form, region },
            Subject::Peer { mode, .. } => Subject::Peer { algorithm: "none", mode },
            Subject::Probes { .. } => Subject::Probes { way: None },
            Subject::Tunnels { .. } => Subject::Tunnels { way: None },
        }
    }

    /// Its name in the table.
    pub fn name(&self) -> String {
        match self {
            Subject::Weir { algorithm, form, region } => format!("{algorithm}, {form}, {region}"),
            Subject::Peer { algorithm, mode } => format!("DPDK rte_{algorithm}, {mode}"),
            Subject::Probes { way } => format!("probe path, idle, {}", probes::name(*way)),
            Subject::Tunnels { way: Some(tunnels::Way::Plain) } => "plain forwarding, CoDel".into(),
            Subject::Tunnels { way } => format!("user plane, 16 rules, {}", tunnels::title(*way)),
        }
    }

    /// The peer that does the same kind of work.
    pub fn rival(&self) -> Subject {
        match self {
            Subject::Weir { form, .. } if *form == Form::Flow.name() => SCHEDULER,
            Subject::Peer { mode: FLOWS_MODE, .. } => SCHEDULER,
            _ => Subject::Peer { algorithm: "pie", mode: "marking" },
        }
    }

    /// Most instructions of a packet that are demanded, where another number is held.
    pub fn demanded(&self) -> Option<f64> {
        match self {
            Subject::Tunnels { way: Some(tunnels::Way::Up(_) | tunnels::Way::Down(_)) } => {
                Some(tunnels::DEMANDED)
            }
            _ => None,
        }
    }

    /// Packets of the shorter of two counted runs, where it is said how many the others get.
    pub fn packets(&self, others: u64) -> u64 {
        match self {
            Subject::Tunnels { .. } => others.min(tunnels::PACKETS),
            Subject::Weir { region, .. } if *region == Region::Hourly.name() => others.min(PERIOD / 8),
            _ => others,
        }
    }

    /// Most nanoseconds of a packet.
    pub fn time_max(&self) -> Option<f64> {
        let is_flow = |form: &str| form == Form::Flow.name();
        let named = |name: &str| CEILINGS.iter().any(|c| c.form == Form::Flow && c.algorithm == name);
        match self {
            Subject::Weir { algorithm, form, region }
                if is_flow(form) && *region == Region::Working.name() =>
            {
                named(algorithm).then_some(FLOW_NS_MAX)
            }
            _ => None,
        }
    }
}

/// The mode of DPDK's scheduler.
pub const FLOWS_MODE: &str = "flows";
/// DPDK's scheduler with as many flows as [`Form::Flow`] has.
pub const SCHEDULER: Subject = Subject::Peer { algorithm: "sched", mode: FLOWS_MODE };

/// Every algorithm in every form that it has, without a packet.
pub fn subjects() -> Vec<(Subject, Option<f64>)> {
    let mut subjects = Vec::new();
    for algorithm in weir_aqm::names() {
        for form in FORMS {
            for region in REGIONS {
                if (Run { form, region, packets: 0 }).with(algorithm).is_some() {
                    // After an hour every update is due with each packet: the ceiling is that of all others.
                    let line = if region == Region::Hourly { "" } else { algorithm };
                    subjects.push((Subject::weir(algorithm, form, region), Some(ceiling(form, line))));
                }
            }
        }
    }
    subjects
}

/// Both ways of the probe path.
pub fn probe_paths() -> impl Iterator<Item = (Subject, Option<f64>)> {
    let most = if cfg!(debug_assertions) { probes::CEILING_DEV } else { probes::CEILING };
    probes::WAYS.into_iter().map(move |way| (Subject::Probes { way: Some(way) }, Some(most)))
}

/// Both ways of the user plane, and forwarding without it.
pub fn user_plane() -> impl Iterator<Item = (Subject, Option<f64>)> {
    let subject = |way| (Subject::Tunnels { way: Some(way) }, Some(tunnels::ceiling(way)));
    tunnels::ways().map(subject)
}

/// What is measured of DPDK's RED and PIE.
pub fn peers() -> Vec<Subject> {
    let modes = ["marking", "below"];
    let of = |algorithm| modes.map(|mode| Subject::Peer { algorithm, mode });
    [of("red"), of("pie")].concat()
}
