//! What a scenario may ask of a live lab: a link or a row of links, or an access network with modems, and
//! what iperf3 and the kernel do.

use crate::access::Access;
use crate::chain::Chain;
use crate::error::{Error, Result};
use weir_config::{Arm, FlowGroup, Pacing, Rtt, Scenario};

/// Refuses a scenario that needs the simulator, and names all keys for which it does.
pub fn check(scenario: &Scenario) -> Result<()> {
    if Access::is_meant(scenario) && scenario.record.is_none() {
        return Access::of(scenario).map(drop);
    }
    let mut keys = Vec::new();
    for (i, flows) in scenario.flows.iter().enumerate() {
        let is_other = |rtt| scenario.links.is_empty() && rtt != Rtt::Constant(scenario.path.rtt);
        let other_rtt = flows.rtt.is_some_and(is_other);
        let other_mtu = flows.mtu.is_some_and(|mtu| mtu != scenario.path.mtu);
        let paths = [("rtt", other_rtt), ("mtu", other_mtu)];
        keys.extend(paths.iter().filter(|(_, other)| *other).map(|(key, _)| format!("flows.{i}.{key}")));
    }
    keys.extend(against_linux(&scenario.flows));
    keys.extend(scenario.unplayed(Arm::Row));
    keys.extend(other_bursts(&scenario.flows));
    refuse(&keys)?;
    if scenario.links.is_empty() { Ok(()) } else { Chain::of(scenario).map(drop) }
}

/// Refuses flows that iperf3 and the kernel cannot make.
pub fn check_flows(groups: &[FlowGroup]) -> Result<()> {
    let keys = |(i, flows): (usize, &FlowGroup)| {
        flows.unplayed(Arm::Row).into_iter().map(move |key| format!("flows.{i}.{key}"))
    };
    let unplayed = groups.iter().enumerate().flat_map(keys);
    let keys: Vec<String> = against_linux(groups).chain(unplayed).chain(other_bursts(groups)).collect();
    refuse(&keys)
}

/// What groups do without that Linux does: it negotiates the ECN that a congestion control is made for
/// whatever routes say, and a socket can ask for pacing, and not for none.
fn against_linux(groups: &[FlowGroup]) -> impl Iterator<Item = String> {
    let of = |key: &'static str, is: fn(&FlowGroup) -> bool| {
        let lacking = groups.iter().enumerate().filter(move |(_, flows)| is(flows));
        lacking.map(move |(i, _)| format!("flows.{i}.{key}"))
    };
    of("ecn", FlowGroup::lacks_ecn).chain(of("pacing", |flows| flows.host.pacing == Pacing::Off))
}

/// Groups whose bursts are not those of the first: they share an interface.
fn other_bursts(groups: &[FlowGroup]) -> impl Iterator<Item = String> {
    let first = groups.first().and_then(|flows| flows.host.burst);
    let others = groups.iter().enumerate().filter(move |(_, flows)| flows.host.burst != first);
    others.map(|(i, _)| format!("flows.{i}.burst"))
}

fn refuse(keys: &[String]) -> Result<()> {
    if keys.is_empty() {
        return Ok(());
    }
    let keys: Vec<String> = keys.iter().map(|key| format!("`{key}`")).collect();
    let what = format!("only the simulator knows {}", keys.join(", "));
    Err(Error::invalid(what, "use `weir sim`, or remove these keys for the lab"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario(link: &str, flows: &str, more: &str) -> Scenario {
        let text = format!(
            "title = \"x\"\nlink = {{ rate = \"10Mbit/s\"{link} }}\npath.rtt = \"20ms\"\naqm.name = \"gsp\"\n\
            flows = [{{ {flows} }}]\nrun.duration = \"5s\"\n{more}"
        );
        Scenario::parse("x", &text).unwrap_or_else(|e| panic!("{e}"))
    }

    #[test]
    fn what_only_the_simulator_knows_is_told_at_once() {
        let text = scenario(
            ", jitter = \"1ms\", loss = \"1%\", steps = [{ at = \"1s\", rate = \"5Mbit/s\" }]",
            "rtt = [\"20ms\", \"20ms\"], mtu = 1400, app_rate = \"1Mbit/s\", protocol = \"quic\", \
            start_spread = \"1s\", hystart = false, pacing = \"off\", burst = \"64kB\", ack_every = 1, \
            window = \"1MB\", recovery = \"newreno\"",
            "record = {}",
        );
        let told = check(&text).unwrap_err().to_string();
        assert_eq!(
            told,
            "only the simulator knows `flows.0.rtt`, `flows.0.mtu`, `flows.0.pacing`, `flows.0.protocol`, `flows.0.start_spread`, \
            `flows.0.app_rate`, `flows.0.hystart`, `flows.0.ack_every`, `flows.0.window`, `flows.0.recovery`, `record`: \
            use `weir sim`, or remove these keys for the lab"
        );
        let told = |flows: &str| check_flows(&scenario("", flows, "").flows).unwrap_err().to_string();
        assert!(
            told("congestion = \"dctcp\", ecn = false")
                .starts_with("only the simulator knows `flows.0.ecn`: use")
        );
        check_flows(&scenario("", "congestion = \"dctcp\"", "").flows).unwrap();
        for flows in ["pacing = \"on\"", "pacing = \"default\"", "pacing = \"on\", transfer = \"1MB\""] {
            check(&scenario("", flows, "")).unwrap_or_else(|e| panic!("{flows}: {e}"));
        }
        assert!(told("web = {}").starts_with("only the simulator knows `flows.0.web`: use"));
        let again = told("transfer = \"1MB\", pause = \"0s\", class = \"ef\"");
        assert!(again.starts_with("only the simulator knows `flows.0.pause`, `flows.0.class`: "), "{again}");
        let datagrams = "udp_rate = \"1Mbit/s\", udp_pattern = \"poisson\", packet = \"100B\"";
        assert!(
            told(datagrams).starts_with("only the simulator knows `flows.0.udp_pattern`, `flows.0.packet`: ")
        );
    }

    #[test]
    fn all_flows_have_one_burst() {
        let groups = |second: &str| {
            let flows = format!("burst = \"64kB\" }}, {{ {second}");
            scenario("", &flows, "").flows
        };
        check_flows(&groups(" burst = \"64kB\"")).unwrap();
        let told = check_flows(&groups("")).unwrap_err().to_string();
        assert!(told.starts_with("only the simulator knows `flows.1.burst`: use"), "{told}");
    }

    #[test]
    fn a_row_of_links_is_run_and_one_with_a_shared_medium_has_to_be_an_access_network() {
        let told = |more: &str| {
            let text = format!(
                "title = \"x\"\nlinks = [{{ name = \"l\", from = \"a\", to = \"b\", rate = \"1Mbit/s\"{more} }}]\n\
                 flows = [{{ from = \"a\", to = \"b\" }}]\nrun.duration = \"5s\"\n"
            );
            check(&Scenario::parse("x", &text).unwrap()).map_err(|e| e.to_string())
        };
        assert_eq!(told(", jitter = \"1ms\", loss = \"1%\""), Ok(()));
        let refused = told(", expedite = true").unwrap_err();
        assert!(
            refused.starts_with("only the simulator knows `links.0.expedite`: use `weir sim`"),
            "{refused}"
        );
        let refused = told(", medium = \"cable\"").unwrap_err();
        assert!(refused.starts_with("none of the `links` has an algorithm"), "{refused}");
    }

    #[test]
    fn what_says_no_more_than_the_default_is_run() {
        let flows = "rtt = \"20ms\", mtu = 1500, pacing = \"default\", protocol = \"tcp\"";
        check(&scenario(", loss = \"0%\"", flows, "")).unwrap();
        check(&scenario("", "udp_rate = \"1Mbit/s\", udp_pattern = \"cbr\"", "")).unwrap();
    }
}
