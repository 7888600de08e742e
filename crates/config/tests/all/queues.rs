//! The `queue` table: disciplines, their parameters, and what goes with what.

use crate::common;

use common::SMALL;
use weir_aqm::Value;
use weir_config::{RunConfig, Scenario};
use weir_units::Duration;

/// The small scenario, whose algorithm is said in each test.
fn text(more: &str) -> String {
    SMALL.replace("aqm.name = \"gsp\"\n", "") + more
}

fn small(more: &str) -> Scenario {
    common::read(&text(more))
}

fn refusal(more: &str) -> String {
    common::refusal(&text(more))
}

#[test]
fn names_that_others_use_lead_to_those_of_here() {
    let remedy = "write `aqm.name = \"codel\"` and `queue.discipline = \"flow\"`";
    let told = |name: &str| refusal(&format!("aqm.name = \"{name}\"\n"));
    assert!(told("fq_codel").contains(remedy), "{}", told("fq_codel"));
    assert!(told("FQ_CoDel").contains(remedy), "{}", told("FQ_CoDel"));
    assert!(refusal("queue.discipline = \"fq_codel\"\n").contains(remedy));
    assert!(told("CoDel").contains("did you mean \"codel\"?"), "{}", told("CoDel"));
}

#[test]
fn without_a_word_there_is_one_fifo() {
    let s = small("aqm.name = \"gsp\"");
    assert_eq!(s.queue.discipline, "single");
    assert_eq!(s.network().links[0].queue, s.queue);
    assert_eq!(small("aqm.name = \"gsp\"\nqueue.discipline = \"single\""), s);
}

#[test]
fn parameters_reach_the_discipline() {
    let s = small("aqm.name = \"codel\"\nqueue = { discipline = \"flow\", flows = 64, fair_senders = true }");
    let params: weir_queue::flow_queue::Params = s.queue.params();
    assert_eq!((params.flows, params.fair_senders, params.ways), (64, true, 1));
    assert_eq!(s.forward().queue, s.queue);
    assert_eq!(Scenario::parse("x", &s.to_toml()).unwrap(), s);
    let mut queue = s.queue.clone();
    queue.set("ways", Value::Count(8)).unwrap();
    assert_eq!(queue.params::<weir_queue::flow_queue::Params>().ways, 8);
    assert!(queue.set("ways", Value::Count(0)).is_err() && queue.set("way", Value::Count(1)).is_err());
}

#[test]
fn a_discipline_with_its_own_algorithm_takes_the_place_of_one() {
    let s = small("queue = { discipline = \"dualpi2\", target = \"20ms\" }");
    assert_eq!(s.aqm.name, "dualpi2");
    assert_eq!(s.aqm.setpoint(), Some(Duration::from_millis(20)));
    assert!(!s.to_toml().contains("[aqm]"), "{}", s.to_toml());
    assert_eq!(Scenario::parse("x", &s.to_toml()).unwrap(), s);
    let told = refusal("queue.discipline = \"dualpi2\"\naqm.name = \"codel\"");
    assert!(told.contains("small.toml:8: key `aqm`: does not go with the discipline dualpi2"), "{told}");
    let told = refusal("aqm.name = \"dualpi2\"");
    assert!(told.contains("queue.discipline = \"dualpi2\""), "{told}");
    // On links and directions as well.
    let links = "title = \"x\"\nrun.duration = \"5s\"\nflows = [{ from = \"a\", to = \"b\" }]\n[[links]]\n\
                 name = \"l\"\nfrom = \"a\"\nto = \"b\"\nrate = \"1Mbit/s\"\n[links.queue]\ndiscipline = \"dualpi2\"\n";
    let s = Scenario::parse("x", links).unwrap();
    assert_eq!(s.network().links[0].aqm.name, "dualpi2");
    assert_eq!((s.aqm.name.as_str(), s.queue.discipline.as_str()), ("dualpi2", "dualpi2"));
    assert_eq!(Scenario::parse("x", &s.to_toml()).unwrap(), s);
    let run =
        "ports = { a = \"x\", b = \"y\" }\n[a_to_b]\nrate = \"1Mbit/s\"\nqueue.discipline = \"dualpi2\"\n";
    let config = RunConfig::parse("x", run).unwrap();
    assert_eq!(config.a_to_b.aqm.as_ref().unwrap().name, "dualpi2");
    assert_eq!(RunConfig::parse("x", &config.to_toml()).unwrap(), config);
}

#[test]
fn what_is_wrong_is_told_with_its_place_and_remedy() {
    let told = refusal("aqm.name = \"gsp\"\nqueue.discipline = \"flows\"");
    assert!(
        told.contains("small.toml:8: key `queue.discipline`: there is no discipline \"flows\""),
        "{told}"
    );
    assert!(told.contains("did you mean \"flow\"?") && told.contains("single, flow, dualpi2"), "{told}");
    let told = refusal("aqm.name = \"gsp\"\nqueue = { discipline = \"flow\", quanta = 1 }");
    assert!(told.contains("key `queue.quanta`: is unknown; did you mean `quantum`?"), "{told}");
    let told = refusal("aqm.name = \"gsp\"\nqueue.flows = 7");
    assert!(told.contains("key `queue.flows`: is unknown"), "{told}");
    let told = refusal("aqm.name = \"gsp\"\nqueue = { discipline = \"flow\", flows = 70_000 }");
    assert!(told.contains("give a value in 1 .. 65536"), "{told}");
    let told = refusal("queue.discipline = \"flow\"");
    assert!(told.contains("key `aqm.name`: is missing"), "{told}");
}

#[test]
fn several_fifos_are_steered_without_a_virtual_queue() {
    let policy = "policy = { utilization_low = \"94%\", utilization_target = \"95%\" }";
    small(&format!("aqm.name = \"gsp\"\n{policy}"));
    for queue in ["aqm.name = \"gsp\"\nqueue.discipline = \"flow\"", "queue.discipline = \"dualpi2\""] {
        small(&format!("{queue}\n[policy]"));
        let told = refusal(&format!("{queue}\n{policy}"));
        assert!(told.contains("several FIFOs have no virtual queue in common"), "{told}");
    }
}

#[test]
fn a_queue_that_holds_no_packets_does_not_look_into_them() {
    let text = |filter| {
        format!(
            "buffer = \"1MB\"\naqm.name = \"codel\"\nqueue = {{ discipline = \"flow\", ack_filter = {filter} }}\n"
        )
    };
    let read = |filter: bool| weir_config::Document::parse("q", &text(filter)).unwrap().embedded();
    assert!(read(false).is_ok());
    let told = read(true).unwrap_err().to_string();
    assert!(told.contains("key `queue.ack_filter`: looks into packets"), "{told}");
}

#[test]
fn queue_protection_without_a_lane_is_refused_where_there_are_lanes() {
    for discipline in ["flow", "user"] {
        let queue = |more: &str| {
            format!(
                "aqm.name = \"gsp\"\nqueue = {{ discipline = \"{discipline}\", protection = true{more} }}\n"
            )
        };
        let told = refusal(&queue(""));
        assert!(told.contains("`queue.protection`") && told.contains("`nqb = true`"), "{told}");
        small(&queue(", nqb = true"));
    }
    let unused = refusal("aqm.name = \"gsp\"\nqueue = { discipline = \"flow\", nqb_buffer = \"5ms\" }\n");
    assert!(unused.contains("`queue.nqb_buffer`") && unused.contains("`nqb = true`"), "{unused}");
    // The low-latency queue is always there.
    small("queue = { discipline = \"dualpi2\", protection = true }\n");
}
