//! Networks that are described in one line.

use crate::common;

use common::{goodput, run};

/// A network and flows, over links of 10 Mbit/s.
fn text(network: &str, flows: &str, run: &str) -> String {
    format!(
        "title = \"x\"\nlink.rate = \"10Mbit/s\"\naqm.name = \"codel\"\nnetwork = {{ {network} }}\nflows = [{flows}]\n\
         run = {{ {run} }}\n"
    )
}

/// What is described and what is written out is the same network, bit for bit.
#[test]
fn a_description_is_the_network_that_it_stands_for() {
    let length = "duration = \"3s\"";
    let described = text("parking_lot = 2, delay = \"5ms\"", "{ pairs = \"long\", count = 2 }", length);
    let link = |name: &str, from: &str, to: &str| {
        format!(
            "[[links]]\nname = \"{name}\"\nfrom = \"{from}\"\nto = \"{to}\"\nrate = \"10Mbit/s\"\ndelay = \"5ms\"\n\
             aqm.name = \"codel\"\n"
        )
    };
    let links =
        [("hop1", "n0", "n1"), ("hop2", "n1", "n2"), ("hop1-back", "n1", "n0"), ("hop2-back", "n2", "n1")];
    let links: String = links.map(|(name, from, to)| link(name, from, to)).concat();
    let written = format!(
        "title = \"x\"\nflows = [{{ from = \"n0\", to = \"n2\", count = 2 }}]\nrun = {{ {length} }}\n{links}"
    );
    let (described, written) = (run(&described, 1), run(&written, 1));
    assert!(described.counts.delivered > 3000, "{:?}", described.counts);
    assert_eq!((described.trace_hash, described.counts), (written.trace_hash, written.counts));
}

/// The flow over all links of a parking lot competes on each of them; what is measured of a group is that of
/// all its pairs.
#[test]
fn a_parking_lot_gives_the_long_flow_less() {
    let flows = "{ pairs = \"long\" }, { pairs = \"cross\", count = 2 }";
    let outcome =
        run(&text("parking_lot = 3, delay = \"5ms\"", flows, "duration = \"20s\", warmup = \"5s\""), 1);
    let summary = &outcome.recording.summary;
    assert!(goodput(&outcome, 0) < 0.7 * goodput(&outcome, 1));
    let groups: Vec<u32> = summary.flows.iter().map(|flow| flow.group).collect();
    assert_eq!(groups, [0, 1, 1, 1, 1, 1, 1]);
    for link in &summary.links {
        let is_there = !link.name.ends_with("-back");
        assert_eq!(
            (link.utilization > 0.95, link.flows),
            (is_there, Some(if is_there { 3 } else { 0 })),
            "{}",
            link.name
        );
    }
}

/// A tree of more than ten thousand links: all transfers end, and each link has the flows of the leaves
/// below.
#[test]
fn ten_thousand_links_run() {
    let tree = "tree = [10, 20, 24], rates = [\"10Gbit/s\", \"1Gbit/s\"], delay = \"1ms\"";
    let flows = "{ pairs = \"leaves\", transfer = \"20kB\" }";
    let outcome = run(&text(tree, flows, "duration = \"500ms\", sample = \"500ms\""), 1);
    let summary = &outcome.recording.summary;
    assert_eq!(summary.links.len(), 2 * (10 + 200 + 4800));
    let completed: u32 = summary.flows.iter().filter_map(|flow| Some(flow.transfers?.completed)).sum();
    assert_eq!(completed, 4800);
    let flows = |name: &str| summary.links.iter().find(|link| link.name == name).unwrap().flows;
    assert_eq!(
        ["down-7", "down-7-20", "down-7-20-24", "up-7"].map(flows),
        [Some(480), Some(24), Some(1), Some(0)]
    );
    let shown = outcome.recording.shown();
    assert_eq!(shown.summary.links.len(), weir_measure::result::LINKS_SHOWN);
    assert!(shown.summary.warnings.last().unwrap().contains("of 10020 links the 40"));
}
