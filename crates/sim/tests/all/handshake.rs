//! Connections that are opened before they send.

use crate::common;

use common::{quiet, run, scenario};
use std::collections::BTreeMap;
use weir_sim::Body;
use weir_sim::tap::{LinkContext, Tap, TappedPacket};
use weir_units::{Duration, Ecn, Time};

const LINK: &str = "[link]\nrate = \"100Mbit/s\"\n[path]\nrtt = \"40ms\"\n[aqm]\nname = \"codel\"\n";

/// Seconds until a transfer of one segment was complete.
fn took(flows: &str) -> f64 {
    let text = quiet(LINK, &format!("[[flows]]\ntransfer = \"1kB\"\n{flows}"), "5s");
    run(&text, 1).recording.summary.flows[0].transfers.unwrap().mean_s.unwrap()
}

#[test]
fn data_leaves_a_round_trip_later() {
    let (open, opened) = (took(""), took("handshake = true\n"));
    // Half a round trip for the data itself, and the transmission times of SYN and data.
    assert!((0.020..0.0205).contains(&open), "{open}");
    assert!((0.060..0.0605).contains(&opened), "{opened}");
}

/// What passed the link of each flow: SYNs with the number of those before, and data with or without ECN.
#[derive(Default)]
struct Passed {
    syns: BTreeMap<u32, Vec<(Time, u8, bool)>>,
    /// When the first data left, and whether any of it bore ECN: what is sent again does not.
    data: BTreeMap<u32, (Time, bool)>,
    lost: u32,
}

impl Tap for Passed {
    fn on_drop(&mut self, _at: &LinkContext<'_>, seen: TappedPacket<'_>, _cause: weir_aqm::Cause) {
        self.lost += u32::from(matches!(seen.item.body, Body::Opening(_)));
    }
    fn on_depart(&mut self, at: &LinkContext<'_>, seen: TappedPacket<'_>, _sojourn: Duration, _marked: bool) {
        match seen.item.body {
            Body::Opening(opening) => {
                self.syns.entry(seen.flow).or_default().push((at.now, opening.tries, opening.ecn));
                assert_eq!(seen.packet.ecn, Ecn::NotEct, "what opens a connection bears no ECN");
            }
            Body::Data(segment) => {
                let (_, any) = self.data.entry(seen.flow).or_insert((at.now, false));
                *any |= segment.ecn == Ecn::Ect0;
            }
            _ => {}
        }
    }
}

/// Datagrams keep a short queue full for the first 900 ms, so that most first SYNs are lost.
#[test]
fn a_lost_syn_is_sent_again_after_a_second_and_without_ecn() {
    let text = quiet(
        "[link]\nrate = \"10Mbit/s\"\nbuffer = \"5ms\"\n[path]\nrtt = \"40ms\"\n[aqm]\nname = \"codel\"\n",
        "[[flows]]\ncount = 20\ntransfer = \"100kB\"\necn = true\nhandshake = true\nstart = \"100ms\"\n\
         [[flows]]\nudp_rate = \"200Mbit/s\"\nstop = \"900ms\"\n",
        "10s",
    );
    let mut simulation = weir_sim::build(&scenario(&text), 1, Passed::default()).unwrap();
    simulation.run_until(Time::from_nanos(10_000_000_000));
    simulation.finish();
    let passed = simulation.into_tap();
    assert!(passed.lost >= 10, "{} SYNs were lost", passed.lost);
    let mut again = 0;
    for flow in 0..20 {
        let (at, tries, ecn) = passed.syns[&flow][0];
        let (first_data, any_ecn) = passed.data[&flow];
        // Sent in the first 10 ms, and once more a second later.
        let sent = at.as_secs_f64() - f64::from(tries);
        assert!(tries <= 1 && (0.1..0.12).contains(&sent), "flow {flow}: {at:?} after {tries}");
        assert!(first_data.since(at).as_secs_f64() >= 0.04, "flow {flow}");
        assert_eq!((ecn, any_ecn), (tries == 0, tries == 0), "flow {flow}");
        again += u32::from(tries == 1);
    }
    assert_eq!(again, passed.lost);
}

/// The receiver's answer needs the way back; one that is lost there is asked for again.
#[test]
fn a_lost_answer_is_asked_for_again() {
    let links = "[[links]]\nname = \"there\"\nfrom = \"a\"\nto = \"b\"\nrate = \"100Mbit/s\"\ndelay = \"20ms\"\n\
                 [[links]]\nname = \"back\"\nfrom = \"b\"\nto = \"a\"\nrate = \"100Mbit/s\"\ndelay = \"20ms\"\nloss = \"50%\"\n";
    let flows = "[[flows]]\nfrom = \"a\"\nto = \"b\"\ncount = 40\ntransfer = \"1kB\"\nhandshake = true\n";
    let outcome = run(&quiet(links, flows, "120s"), 1);
    let transfers: Vec<_> = outcome.recording.summary.flows.iter().map(|f| f.transfers.unwrap()).collect();
    let at_once = transfers.iter().filter(|t| t.mean_s.is_some_and(|s| s < 0.1)).count();
    let later = transfers.iter().filter(|t| t.mean_s.is_some_and(|s| (1.0..1.1).contains(&s))).count();
    // Half, a quarter and so on: of 40, three standard deviations are 9.5 and 8.2.
    assert!((11..=29).contains(&at_once) && (2..=18).contains(&later), "{at_once}, {later}");
}

#[test]
fn quic_and_datagrams_have_no_such_handshake() {
    let refused = |flows: &str| {
        let text = quiet(LINK, &format!("[[flows]]\nhandshake = true\n{flows}"), "5s");
        weir_config::Scenario::parse("test.toml", &text).unwrap_err().to_string()
    };
    assert!(refused("protocol = \"quic\"\n").contains("key `flows.0.handshake`: is that of TCP"));
    assert!(refused("udp_rate = \"1Mbit/s\"\n").contains("flows.0.handshake`: says nothing about datagrams"));
    let refused = |flows: &str| {
        let text = quiet(LINK, &format!("[[flows]]\nspin = false\n{flows}"), "5s");
        weir_config::Scenario::parse("test.toml", &text).unwrap_err().to_string()
    };
    assert!(refused("").contains("key `flows.0.spin`: is that of QUIC, and `protocol` is \"tcp\""));
    assert!(refused("udp_rate = \"1Mbit/s\"\n").contains("flows.0.spin`: says nothing about datagrams"));
}

/// A run that ends while SYNs and their answers travel loses no packet, and a flow that stops before its
/// answer comes stays closed.
#[test]
fn runs_and_flows_may_end_within_a_handshake() {
    let link = "[link]\nrate = \"10Mbit/s\"\n[path]\nrtt = \"100ms\"\n[aqm]\nname = \"codel\"\n";
    let many = "[[flows]]\nhandshake = true\ntransfer = \"10kB\"\nevery = \"30ms\"\n";
    run(&quiet(link, many, "2s"), 1);
    run(&quiet(link, &format!("{many}stop = \"500ms\"\n"), "5s"), 1);
    let stopped = "[[flows]]\nhandshake = true\nstop = \"80ms\"\n";
    let outcome = run(&quiet(link, stopped, "5s"), 1);
    assert_eq!(outcome.recording.summary.flows[0].bytes, 0, "it sent after its stop");
}
