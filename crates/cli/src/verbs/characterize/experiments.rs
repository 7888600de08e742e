//! THE LIST of experiments: which scenario file of RFC 7928, and what is changed in it.

use std::time::Duration;

type File = (&'static str, &'static str);

macro_rules! scenario_file {
    ($name:literal) => {
        ($name, include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios/", $name)))
    };
}

/// One experiment of the guidelines.
#[derive(Debug)]
pub struct Experiment {
    /// Its name in tables, and in the rules.
    pub id: &'static str,
    /// Section of RFC 7928, or another RFC.
    pub section: &'static str,
    /// What is run.
    pub title: &'static str,
    /// The scenario file: its name and content.
    pub file: File,
    /// Keys that are set over the file.
    pub changes: &'static [(&'static str, &'static str)],
    /// The `[[flows]]` tables that are kept.
    pub groups: Groups,
    /// What the flows of each kept table are called.
    pub classes: &'static [&'static str],
    /// Time between two changes of the link's rate, where it is not that of the file.
    pub change_every: Option<Duration>,
    /// Whether there are more flows on a faster link, and not only faster ones.
    pub is_crowd: bool,
    /// Whether its delay is drawn over time.
    pub is_drawn: bool,
}

/// Which `[[flows]]` tables of a file take part.
#[derive(Clone, Copy, Debug)]
pub enum Groups {
    /// All.
    All,
    /// Those of these numbers.
    Only(&'static [usize]),
}

impl Groups {
    /// Whether a table takes part.
    pub fn has(self, number: usize) -> bool {
        match self {
            Groups::All => true,
            Groups::Only(kept) => kept.contains(&number),
        }
    }
}

/// An experiment as its file says it; the others say what differs.
const fn plain(
    id: &'static str,
    section: &'static str,
    title: &'static str,
    file: File,
    classes: &'static [&'static str],
) -> Experiment {
    Experiment {
        id,
        section,
        title,
        file,
        changes: &[],
        groups: Groups::All,
        classes,
        change_every: None,
        is_crowd: false,
        is_drawn: false,
    }
}

/// The same with more flows on faster links.
const fn crowd(experiment: Experiment) -> Experiment {
    Experiment { is_crowd: true, ..experiment }
}

const fn with(experiment: Experiment, changes: &'static [(&'static str, &'static str)]) -> Experiment {
    Experiment { changes, ..experiment }
}

const fn drawn(experiment: Experiment) -> Experiment {
    Experiment { is_drawn: true, ..experiment }
}

const fn bursts(
    id: &'static str,
    title: &'static str,
    groups: &'static [usize],
    classes: &'static [&'static str],
) -> Experiment {
    let whole = plain(id, "7.2", title, scenario_file!("rfc7928_bursts.toml"), classes);
    crowd(Experiment { groups: Groups::Only(groups), ..whole })
}

const fn nqb(
    id: &'static str,
    title: &'static str,
    groups: &'static [usize],
    classes: &'static [&'static str],
) -> Experiment {
    let whole = plain(id, "RFC 9956", title, scenario_file!("characterize_nqb.toml"), classes);
    Experiment { groups: Groups::Only(groups), ..whole }
}

const fn level(
    id: &'static str,
    section: &'static str,
    title: &'static str,
    changes: &'static [(&'static str, &'static str)],
) -> Experiment {
    crowd(with(plain(id, section, title, scenario_file!("rfc7928_level.toml"), &["Reno"]), changes))
}

const fn rtt(
    id: &'static str,
    title: &'static str,
    changes: &'static [(&'static str, &'static str)],
) -> Experiment {
    let classes = &["100 ms", "other"];
    with(plain(id, "6.2", title, scenario_file!("rfc7928_rtt.toml"), classes), changes)
}

const VARYING: &[&str] = &["Reno", "Reno, medium", "Reno, heavy", "Reno, medium", "Reno, heavy"];

/// One Reno flow.
pub const RENO: &str = "reno";
/// Short transfers beside it.
pub const SHORT: &str = "short";
/// The same with a smaller window at the start.
pub const SHORT_SMALL: &str = "short iw 3";
/// One CUBIC flow.
pub const CUBIC: &str = "cubic";
/// Datagrams above the link's rate.
pub const FLOOD: &str = "flood";
/// Datagrams beside a Reno flow.
pub const UNRESPONSIVE: &str = "unresponsive";
/// A LEDBAT flow beside a Reno flow.
pub const LBE: &str = "lbe";
/// Two flows with different round-trip times, with that of the second in milliseconds.
pub const RTTS: [(&str, f64); 5] =
    [("rtt 5", 5.0), ("rtt 20", 20.0), ("rtt 50", 50.0), ("rtt 200", 200.0), ("rtt 560", 560.0)];
/// The four cases of bursts.
pub const BURSTS: [&str; 4] = ["bursts 1", "bursts 2", "bursts 3", "bursts 4"];
/// Three levels of congestion.
pub const LEVELS: [&str; 3] = ["mild", "medium", "heavy"];
/// These levels one after the other.
pub const VARYING_LEVEL: &str = "levels";
/// A rate that changes slowly.
pub const SLOW: &str = "rate slow";
/// A rate that changes quickly.
pub const FAST: &str = "rate fast";
/// A mix of traffic.
pub const MIX: &str = "mix";
/// Traffic both ways.
pub const BOTH_WAYS: &str = "both ways";
/// Two managed queues in a row.
pub const IN_SERIES: &str = "in series";
/// Medium congestion where everybody uses ECN.
pub const ECN: &str = "ecn";
/// Medium congestion where half of the flows use ECN.
pub const ECN_HALF: &str = "ecn half";
/// Large and small packets.
pub const PACKETS: &str = "packets";
/// A flow that answers each mark a little beside one that does not.
pub const L4S: &str = "l4s";
/// What the flows of L4S are called.
pub const L4S_CLASS: &str = "L4S";
/// A game whose packets are marked NQB beside downloads.
pub const NQB: &str = "nqb";
/// The same beside a sender that claims NQB and builds a queue.
pub const NQB_MISUSED: &str = "nqb misused";

/// All experiments, in the order in which they are told.
pub static EXPERIMENTS: [Experiment; 31] = [
    plain(RENO, "5.1.1", "one Reno flow", scenario_file!("rfc7928_reno.toml"), &["Reno"]),
    plain(
        SHORT,
        "5.1.2",
        "transfers of 60 segments beside a Reno flow",
        scenario_file!("rfc7928_short.toml"),
        &["Reno", "short"],
    ),
    with(
        plain(
            SHORT_SMALL,
            "5.1.2",
            "the same with initial windows of 3 segments",
            scenario_file!("rfc7928_short.toml"),
            &["Reno", "short"],
        ),
        &[("flows.1.initial_window", "3")],
    ),
    plain(CUBIC, "5.2", "one CUBIC flow without HyStart", scenario_file!("rfc7928_cubic.toml"), &["CUBIC"]),
    plain(
        FLOOD,
        "5.3",
        "datagrams at 120 % of the rate",
        scenario_file!("rfc7928_flood.toml"),
        &["datagrams"],
    ),
    plain(
        UNRESPONSIVE,
        "5.3",
        "datagrams at 75 % beside a Reno flow",
        scenario_file!("rfc7928_unresponsive.toml"),
        &["Reno", "datagrams"],
    ),
    plain(LBE, "5.4", "LEDBAT beside a Reno flow", scenario_file!("rfc7928_lbe.toml"), &["Reno", "LEDBAT"]),
    rtt("rtt 5", "two Reno flows, 100 and 5 ms", &[("flows.1.rtt", "5ms")]),
    rtt("rtt 20", "two Reno flows, 100 and 20 ms", &[("flows.1.rtt", "20ms")]),
    rtt("rtt 50", "two Reno flows, 100 and 50 ms", &[("flows.1.rtt", "50ms")]),
    rtt("rtt 200", "two Reno flows, 100 and 200 ms", &[("flows.1.rtt", "200ms")]),
    rtt("rtt 560", "two Reno flows, 100 and 560 ms", &[("flows.1.rtt", "560ms")]),
    bursts("bursts 1", "case I: web, constant rate", &[1, 2], &["web", "constant rate"]),
    bursts("bursts 2", "case II: web, constant rate, bulk", &[1, 2, 3], &["web", "constant rate", "bulk"]),
    bursts("bursts 3", "case III: video, web, constant rate", &[0, 1, 2], &["video", "web", "constant rate"]),
    bursts(
        "bursts 4",
        "case IV: video, web, constant rate, bulk",
        &[0, 1, 2, 3],
        &["video", "web", "constant rate", "bulk"],
    ),
    level("mild", "8.2.2", "mild congestion", &[("flows.0.count", "6")]),
    level("medium", "8.2.3", "medium congestion", &[("flows.0.count", "14")]),
    level("heavy", "8.2.4", "heavy congestion", &[("flows.0.count", "19")]),
    drawn(crowd(plain(
        VARYING_LEVEL,
        "8.2.5",
        "congestion that varies every 20 s",
        scenario_file!("rfc7928_varying_level.toml"),
        VARYING,
    ))),
    drawn(crowd(plain(
        SLOW,
        "8.2.6",
        "ten times the rate and back, every 20 s",
        scenario_file!("rfc7928_capacity.toml"),
        &["Reno"],
    ))),
    Experiment {
        change_every: Some(Duration::from_millis(100)),
        ..crowd(plain(
            FAST,
            "8.2.6",
            "ten times the rate and back, every 100 ms",
            scenario_file!("rfc7928_capacity.toml"),
            &["Reno"],
        ))
    },
    crowd(plain(
        MIX,
        "9.1",
        "call, web, constant rate, video, bulk",
        scenario_file!("rfc7928_mix.toml"),
        &["call", "call back", "web", "constant rate", "video", "bulk"],
    )),
    crowd(plain(
        BOTH_WAYS,
        "9.2",
        "mild congestion both ways",
        scenario_file!("rfc7928_both_ways.toml"),
        &["there", "back"],
    )),
    crowd(plain(
        IN_SERIES,
        "10.2",
        "two managed queues in a row",
        scenario_file!("rfc7928_in_series.toml"),
        &["both queues", "second only"],
    )),
    with(
        crowd(plain(
            ECN,
            "4.5",
            "medium congestion, all use ECN",
            scenario_file!("rfc7928_ecn.toml"),
            &["ECN", "ECN"],
        )),
        &[("flows.1.ecn", "true")],
    ),
    crowd(plain(
        ECN_HALF,
        "4.5",
        "medium congestion, half use ECN",
        scenario_file!("rfc7928_ecn.toml"),
        &["ECN", "no ECN"],
    )),
    crowd(plain(
        PACKETS,
        "4.4",
        "packets of 1500 and 576 bytes",
        scenario_file!("rfc7928_packets.toml"),
        &["1500 bytes", "576 bytes"],
    )),
    plain(
        L4S,
        "RFC 9331",
        "a flow of L4S beside a CUBIC flow",
        scenario_file!("characterize_l4s.toml"),
        &[L4S_CLASS, "CUBIC"],
    ),
    nqb(NQB, "a game of NQB beside two downloads", &[0, 1], &["game", "CUBIC"]),
    nqb(
        NQB_MISUSED,
        "the same beside a sender that misuses NQB",
        &[0, 1, 2],
        &["game", "CUBIC", "datagrams"],
    ),
];

/// What the guidelines have and is not run, with the reason.
pub const LEFT_OUT: [(&str, &str); 3] = [
    ("2.4 synchronisation of losses", "not measured; it shows in the utilization"),
    ("8.3 sensitivity to parameters", "run it again with other parameters (--set)"),
    ("11 cost", "`weir-bench` counts instructions for each decision"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_name_is_that_of_one_experiment() {
        let ids: BTreeSet<&str> = EXPERIMENTS.iter().map(|e| e.id).collect();
        assert_eq!(ids.len(), EXPERIMENTS.len());
        let single = [
            RENO,
            SHORT,
            SHORT_SMALL,
            LBE,
            CUBIC,
            FLOOD,
            UNRESPONSIVE,
            VARYING_LEVEL,
            SLOW,
            FAST,
            MIX,
            BOTH_WAYS,
            IN_SERIES,
            ECN,
            ECN_HALF,
            PACKETS,
            L4S,
            NQB,
            NQB_MISUSED,
        ];
        let several = RTTS.iter().map(|(id, _)| *id).chain(BURSTS).chain(LEVELS);
        assert_eq!(single.into_iter().chain(several).collect::<BTreeSet<_>>(), ids);
    }
}
