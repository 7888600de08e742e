//! The same scenario and seed give the same bits, everywhere and whatever else is asked.

use crate::common;

use common::{quiet, run};
use weir_aqm::Needs;
use weir_config::{AqmConfig, Scenario};
use weir_measure::result::LinkSummary;
use weir_sim::Outcome;

const LINK: &str =
    "[link]\nrate = \"100Mbit/s\"\njitter = \"100us\"\nloss = \"0.1%\"\n[path]\nrtt = \"20ms\"\n";

fn mixed() -> String {
    let flows = "[[flows]]\ncount = 3\nrtt = [\"5ms\", \"50ms\"]\n[[flows]]\ncongestion = \"bbr\"\n\
                 [[flows]]\ntransfer = \"200kB\"\nevery = \"300ms\"\ncongestion = \"reno\"\nip = 6\n\
                 [[flows]]\nudp_rate = \"5Mbit/s\"\nudp_pattern = \"poisson\"\n\
                 [[flows]]\ncount = 2\n[flows.web]\n";
    quiet(&format!("{LINK}[aqm]\nname = \"codel\"\n"), flows, "10s")
}

fn steered() -> String {
    let link = format!("{LINK}[aqm]\nname = \"gsp\"\n[policy]\n");
    quiet(&link, "[[flows]]\ncount = 5\necn = true\n[[flows]]\ncongestion = \"dctcp\"\n", "10s")
}

fn several() -> String {
    let links = "[[links]]\nname = \"up\"\nfrom = \"a\"\nto = \"b\"\nrate = \"20Mbit/s\"\ndelay = \"3ms\"\n\
                 [links.aqm]\nname = \"codel\"\n\
                 [[links]]\nname = \"down\"\nfrom = \"b\"\nto = \"a\"\nrate = \"30Mbit/s\"\ndelay = \"4ms\"\n";
    let flows = "[[flows]]\ncount = 2\nfrom = \"a\"\nto = \"b\"\n[[flows]]\nfrom = \"b\"\nto = \"a\"\n";
    quiet(links, flows, "10s")
}

#[test]
fn two_runs_are_the_same_to_the_last_bit() {
    for text in [mixed(), steered(), several()] {
        let (a, b, other) = (run(&text, 1), run(&text, 1), run(&text, 2));
        assert_eq!((a.trace_hash, a.counts), (b.trace_hash, b.counts));
        assert_eq!(format!("{:?}", a.recording), format!("{:?}", b.recording));
        assert_ne!(a.trace_hash, other.trace_hash);
    }
}

/// Four flows and datagrams over a link of 20 Mbit/s whose queue is `tables`.
fn of_queue(tables: &str) -> String {
    let link = format!("[link]\nrate = \"20Mbit/s\"\n[path]\nrtt = \"20ms\"\n{tables}");
    quiet(&link, "[[flows]]\ncount = 4\necn = true\n[[flows]]\nudp_rate = \"2Mbit/s\"\n", "4s")
}

/// An algorithm that must be told of the path below gets such a path: a link of 20 Mbit/s with a deep buffer.
fn of_algorithm(name: &str) -> String {
    let told = match AqmConfig::new(name).expect("it is in the list").needs() {
        Needs::Nothing => return of_queue(&format!("[aqm]\nname = \"{name}\"\n")),
        Needs::Probes => "sense = { at = \"modem\" }",
        Needs::PassingPackets => "upstream = \"inform\"",
    };
    let link = |name: &str, from: &str, to: &str, more: &str| {
        format!("[[links]]\nname = \"{name}\"\nfrom = \"{from}\"\nto = \"{to}\"\ndelay = \"3ms\"\n{more}\n")
    };
    let managed = format!("rate = \"30Mbit/s\"\naqm = {{ name = \"{name}\" }}\n{told}");
    let links = [
        link("managed", "router", "head", &managed),
        link("below", "head", "modem", "rate = \"20Mbit/s\"\nbuffer = \"300ms\""),
        link("in", "server", "router", "rate = \"1Gbit/s\""),
        link("back", "modem", "router", "rate = \"1Gbit/s\""),
        link("out", "router", "server", "rate = \"1Gbit/s\""),
    ];
    let ends = "from = \"server\"\nto = \"modem\"\n";
    let flows = format!("[[flows]]\ncount = 4\necn = true\n{ends}[[flows]]\nudp_rate = \"2Mbit/s\"\n{ends}");
    quiet(&links.concat(), &flows, "4s")
}

fn of_discipline(name: &str) -> String {
    // One that brings an algorithm of its own is refused with another.
    let queue = format!("[queue]\ndiscipline = \"{name}\"\n");
    let over_codel = of_queue(&format!("[aqm]\nname = \"codel\"\n{queue}"));
    if Scenario::parse("test.toml", &over_codel).is_ok() { over_codel } else { of_queue(&queue) }
}

fn of_congestion_control(name: &str) -> String {
    let link = "[link]\nrate = \"20Mbit/s\"\n[path]\nrtt = \"20ms\"\n[aqm]\nname = \"codel\"\n";
    quiet(link, &format!("[[flows]]\ncount = 2\ncongestion = \"{name}\"\n"), "4s")
}

/// A download and an upload by radio, which contend, and an upstream of requests and grants behind them.
fn turns() -> String {
    let link = |name: &str, from: &str, to: &str, more: &str| {
        format!("[[links]]\nname = \"{name}\"\nfrom = \"{from}\"\nto = \"{to}\"\nbuffer = \"50ms\"\n{more}\n")
    };
    let wifi = "medium = \"air\"\nwifi = { phy_rate = \"65Mbit/s\" }";
    let links = [
        link("down", "ap", "phone", wifi),
        link("up", "phone", "ap", wifi),
        link("others", "laptop", "ap", wifi),
        link("upstream", "ap", "head", "rate = \"20Mbit/s\"\ngrants = {}"),
    ];
    let flows = "[[flows]]\nfrom = \"ap\"\nto = \"phone\"\nrtt = \"20ms\"\n\
                 [[flows]]\ncount = 2\nfrom = \"laptop\"\nto = \"head\"\nrtt = \"20ms\"\n";
    quiet(&links.concat(), flows, "4s")
}

/// The reference runs: of every algorithm, discipline and congestion control of the lists, and of some
/// networks.
fn reference_runs() -> Vec<(&'static str, &'static str, String)> {
    let networks =
        [("end_hosts", mixed()), ("steered", steered()), ("several_links", several()), ("turns", turns())];
    let algorithms = weir_aqm::names().iter().map(|name| ("aqm", *name, of_algorithm(name)));
    let disciplines = weir_queue::names().iter().map(|name| ("queue", *name, of_discipline(name)));
    let controls = weir_tcp::congestion::names().iter();
    let controls = controls.map(|name| ("congestion", *name, of_congestion_control(name)));
    let networks = networks.into_iter().map(|(name, text)| ("network", name, text));
    algorithms.chain(disciplines).chain(controls).chain(networks).collect()
}

/// What a person can compare, summed over all links, and the hash of every decision; the delay is that of the
/// first link.
fn fingerprint(kind: &str, name: &str, outcome: &Outcome) -> String {
    let links = &outcome.recording.summary.links;
    let sum = |of: fn(&LinkSummary) -> u64| links.iter().map(of).sum::<u64>();
    let (packets, drops) = (sum(|link| link.packets), sum(|link| link.drops));
    let (overflows, marks) = (sum(|link| link.overflows), sum(|link| link.marks));
    let (delay, hash) = (links[0].delay_ms.mean, outcome.trace_hash);
    format!("{kind:<11}{name:<14}{packets:>8}{drops:>7}{overflows:>10}{marks:>7}{delay:>14.3}  {hash:016x}\n")
}

const TABLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fingerprints.txt");
const WRITE_ANEW: &str = "WEIR_BLESS=1 cargo test -p weir-sim --test all determinism";

/// Lines that are in one text and not in the other.
fn difference(old: &str, new: &str) -> String {
    let missing = |from: &str, lines: &str, mark| {
        let others: Vec<&str> = from.lines().collect();
        let missing = lines.lines().filter(|line| !others.contains(line));
        missing.map(|line| format!("{mark} {line}\n")).collect::<String>()
    };
    missing(new, old, '-') + &missing(old, new, '+')
}

/// A debug build, a release build and every machine make the same table.
#[test]
fn the_fingerprints_are_those_of_every_machine() {
    let head = format!(
        "{:<11}{:<14}{:>8}{:>7}{:>10}{:>7}{:>14}  hash\n",
        "kind", "name", "packets", "drops", "overflows", "marks", "mean_delay_ms"
    );
    let runs = reference_runs();
    let lines = runs.iter().map(|(kind, name, text)| fingerprint(kind, name, &run(text, 1)));
    let new = head + &lines.collect::<String>();
    if std::env::var_os("WEIR_BLESS").is_some() {
        std::fs::write(TABLE, &new).unwrap();
    }
    let old = std::fs::read_to_string(TABLE).unwrap_or_default();
    assert!(
        old == new,
        "runs are not what they were. If a list grew, or behaviour was changed on purpose, `{WRITE_ANEW}` writes \
         {TABLE} anew:\n{}",
        difference(&old, &new)
    );
}
