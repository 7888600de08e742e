//! Probes, shared media and expedited packets, against what follows from rates and delays.

use crate::common;

use common::{goodput, run, scenario};
use weir_measure::result::LinkSummary;
use weir_sim::tap::{LinkContext, Tap, TappedPacket};
use weir_sim::{Body, Outcome};
use weir_units::{Duration, Time};

/// A home behind a limiter of 16 Mbit/s and a modem of another rate; probes turn at the gateway.
fn home(aqm: &str, modem_rate: &str, flows: &str, seconds: u32) -> String {
    format!(
        "title = \"test\"\n\
        [[links]]\nname = \"limit\"\nfrom = \"home\"\nto = \"modem\"\nrate = \"16Mbit/s\"\naccounting = \"ip\"\n\
        buffer = \"1500kB\"\nexpedite = true\naqm = {{ name = \"{aqm}\" }}\nsense = {{ at = \"gateway\" }}\n\
        [[links]]\nname = \"modem\"\nfrom = \"modem\"\nto = \"gateway\"\nrate = \"{modem_rate}\"\n\
        accounting = \"ip\"\nbuffer = \"1500kB\"\ndelay = \"3ms\"\n\
        [[links]]\nname = \"back\"\nfrom = \"gateway\"\nto = \"home\"\nrate = \"100Mbit/s\"\naccounting = \"ip\"\n\
        delay = \"4ms\"\n{flows}[run]\nduration = \"{seconds}s\"\nwarmup = \"2s\"\nsample = \"100ms\"\n"
    )
}

const TO_GATEWAY: &str = "[[flows]]\nfrom = \"home\"\nto = \"gateway\"\n";

fn link<'a>(outcome: &'a Outcome, name: &str) -> &'a LinkSummary {
    outcome.recording.summary.links.iter().find(|l| l.name == name).unwrap()
}

#[test]
fn an_idle_path_is_measured_to_the_nanosecond() {
    // Eight datagrams a second leave each probe the links for itself; it passes them behind its datagram.
    let flows = format!("{TO_GATEWAY}udp_rate = \"94208bit/s\"\npacket = \"1472B\"\n");
    let outcome = run(&home("codel", "8Mbit/s", &flows, 20), 1);
    let sensing = link(&outcome, "limit").sensing.clone().unwrap();
    assert_eq!(sensing.state, "sensing");
    assert!((38..=40).contains(&sensing.sent), "{sensing:?}");
    assert!(sensing.sent - sensing.returned <= 1 && sensing.lost == 0, "{sensing:?}");
    // 1500 bytes at the limiter in front of it, its own 28 there; then 1500 - 28 bytes of waiting and 28 of
    // its own at half the rate, less what passed in the meantime; the way back; 3 + 4 ms.
    let (ns, limit, modem) = (1e9, 16e6, 8e6);
    let arrives = (1500.0 + 28.0) * 8.0 / limit;
    let datagram_leaves = 1500.0 * 8.0 / limit + 1500.0 * 8.0 / modem;
    let there = f64::max(arrives, datagram_leaves) + 28.0 * 8.0 / modem + 0.003;
    let whole = there + 28.0 * 8.0 / 100e6 + 0.004;
    let got = sensing.rtt_ms.unwrap() / 1e3;
    assert!((got - whole).abs() * ns < 10.0, "{got} for {whole}");
}

#[test]
fn probes_take_their_share_and_no_more() {
    let outcome = run(&home("asqm", "8Mbit/s", &format!("{TO_GATEWAY}count = 5\n"), 20), 1);
    let sensing = link(&outcome, "limit").sensing.clone().unwrap();
    assert!((0.0046..0.0047).contains(&sensing.share), "{sensing:?}");
    // They are packets: what the link carried is data and probes.
    let (limit, modem) = (link(&outcome, "limit"), link(&outcome, "modem"));
    assert!(limit.packets.abs_diff(modem.packets) < 1000);
    let data: f64 = goodput(&outcome, 0) * 5.0 * 1500.0 / 1448.0;
    let all = modem.bytes as f64 * 8.0 / 18.0;
    assert!((0.98..1.0).contains(&(data / all)), "{data} of {all}");
}

/// What only a sensor sees: a queue below the managed one.
#[test]
fn a_queue_below_is_held_by_asqm_and_not_seen_by_codel() {
    let p95 = |aqm| {
        let outcome = run(&home(aqm, "7Mbit/s", &format!("{TO_GATEWAY}rtt = \"50ms\"\ncount = 5\n"), 40), 1);
        let modem = link(&outcome, "modem");
        assert!(modem.utilization > 0.95, "{aqm}: {}", modem.utilization);
        modem.delay_ms.p95
    };
    let (asqm, codel) = (p95("asqm"), p95("codel"));
    assert!(codel > 1000.0, "{codel}");
    assert!(asqm < 250.0, "{asqm}");
}

/// An upload whose probes turn behind links that lose such a share of them each, three of them.
fn losing_probes(loss: &str, seconds: u32) -> Outcome {
    let lossy = |name: &str, from: &str, to: &str| {
        format!(
            "[[links]]\nname = \"{name}\"\nfrom = \"{from}\"\nto = \"{to}\"\nrate = \"100Mbit/s\"\nloss = \"{loss}\"\n"
        )
    };
    let more = [lossy("l1", "gateway", "x"), lossy("l2", "x", "y"), lossy("l3", "y", "z")].join("");
    let flows = format!("{TO_GATEWAY}rtt = \"50ms\"\ncount = 5\n");
    let text = home("asqm", "48Mbit/s", &flows, seconds).replace("at = \"gateway\"", "at = \"z\"").replace(
        "[[flows]]",
        &format!(
            "{more}[[links]]\nname = \"l4\"\nfrom = \"z\"\nto = \"home\"\nrate = \"100Mbit/s\"\n[[flows]]"
        ),
    );
    let outcome = run(&text, 1);
    let limit = link(&outcome, "limit");
    assert!(limit.utilization > 0.95, "{loss}: {}", limit.utilization);
    assert!(limit.delay_ms.p95 < 250.0, "{loss}: the own queue is held: {:?}", limit.delay_ms);
    outcome
}

/// Nearly all probes get lost.
#[test]
fn a_link_whose_probes_are_lost_keeps_its_traffic_and_says_so() {
    let outcome = losing_probes("90%", 40);
    let sensing = link(&outcome, "limit").sensing.clone().unwrap();
    assert!(sensing.lost > sensing.sent / 2, "{sensing:?}");
    let warnings = &outcome.recording.summary.warnings;
    assert!(warnings.iter().any(|w| w.contains("fell back to its own queue")), "{warnings:?}");
}

/// Up to half of the probes get lost: those that return are enough, all of the time.
#[test]
fn a_link_that_loses_probes_by_chance_is_sensed_without_a_break() {
    for (loss, of_all) in [("1.7%", 0.05), ("4.2%", 0.12), ("9.1%", 0.25), ("20.6%", 0.5)] {
        let outcome = losing_probes(loss, 15);
        let sensing = link(&outcome, "limit").sensing.clone().unwrap();
        let lost = sensing.lost as f64 / sensing.sent as f64;
        assert!((lost - of_all).abs() < 0.05, "{loss}: {sensing:?}");
        assert_eq!(sensing.state, "sensing", "{loss}");
        assert_eq!(outcome.recording.summary.warnings, Vec::<String>::new(), "{loss}");
    }
}

/// An algorithm at the head of a full queue discards probes as well as data, one in thirty here.
#[test]
fn some_losses_are_no_silence() {
    let flows = format!(
        "{TO_GATEWAY}rtt = \"100ms\"\ncount = 9\n{TO_GATEWAY}rtt = \"100ms\"\ntransfer = \"700kB\"\npause = \"0s\"\n"
    );
    let outcome = run(&home("codel", "48Mbit/s", &flows, 30), 1);
    let sensing = link(&outcome, "limit").sensing.clone().unwrap();
    assert!(sensing.lost > 20 && sensing.lost < sensing.sent / 10, "{sensing:?}");
    assert_eq!(sensing.state, "sensing");
    assert_eq!(outcome.recording.summary.warnings, Vec::<String>::new());
}

/// Longest wait at the first link of the flows of the second table.
#[derive(Default)]
struct Waits(Duration, u32);

impl Tap for Waits {
    fn on_depart(&mut self, at: &LinkContext<'_>, seen: TappedPacket<'_>, sojourn: Duration, _marked: bool) {
        if at.link == 0 && seen.flow == 5 && matches!(seen.item.body, Body::Data(_)) {
            self.0 = self.0.max(sojourn);
            self.1 += 1;
        }
    }
}

#[test]
fn expedited_packets_pass_the_managed_queue() {
    let waits = |class: &str| {
        let flows = format!(
            "{TO_GATEWAY}count = 5\nrtt = \"50ms\"\n{TO_GATEWAY}udp_rate = \"64kbit/s\"\npacket = \"160B\"\n{class}"
        );
        let mut simulation =
            weir_sim::build(&scenario(&home("asqm", "48Mbit/s", &flows, 10)), 1, Waits::default()).unwrap();
        simulation.run_until(Time::from_nanos(10_000_000_000));
        assert!(simulation.is_conserved());
        simulation.into_tap()
    };
    let (Waits(expedited, packets), Waits(managed, _)) = (waits("class = \"ef\"\n"), waits(""));
    assert!(packets >= 495, "{packets}");
    // One full packet may be on the wire.
    assert!(expedited <= Duration::from_micros(750), "{expedited}");
    assert!(managed > Duration::from_millis(50), "{managed}");
}

/// The longest wait of a small flow at the link behind one that does this to code points, beside downloads
/// that fill it.
fn waits_behind(class: &str, remarking: &str) -> Duration {
    let text = format!(
        "title = \"test\"\n\
        [[links]]\nname = \"first\"\nfrom = \"a\"\nto = \"b\"\nrate = \"100Mbit/s\"\n{remarking}\
        [[links]]\nname = \"second\"\nfrom = \"b\"\nto = \"c\"\nrate = \"10Mbit/s\"\nexpedite = true\n\
        [[links]]\nname = \"back\"\nfrom = \"c\"\nto = \"a\"\nrate = \"100Mbit/s\"\n\
        [[flows]]\nfrom = \"a\"\nto = \"c\"\ncount = 5\n\
        [[flows]]\nfrom = \"a\"\nto = \"c\"\nudp_rate = \"64kbit/s\"\npacket = \"160B\"\n{class}\
        [run]\nduration = \"5s\"\nsample = \"100ms\"\n"
    );
    let mut simulation = weir_sim::build(&scenario(&text), 1, Behind::default()).unwrap();
    simulation.run_until(Time::from_nanos(5_000_000_000));
    assert!(simulation.is_conserved());
    simulation.into_tap().0
}

/// The longest wait of flow 5 at the second link.
#[derive(Default)]
struct Behind(Duration);

impl Tap for Behind {
    fn on_depart(&mut self, at: &LinkContext<'_>, seen: TappedPacket<'_>, sojourn: Duration, _marked: bool) {
        if at.link == 1 && seen.flow == 5 {
            self.0 = self.0.max(sojourn);
        }
    }
}

#[test]
fn links_wash_and_remark_code_points_for_those_behind() {
    let (soon, late) = (Duration::from_millis(2), Duration::from_millis(50));
    let ef = "class = \"ef\"\n";
    assert!(waits_behind(ef, "") < soon);
    assert!(waits_behind(ef, "dscp = \"wash\"\n") > late);
    assert!(waits_behind(ef, "dscp = \"wash\"\nremark = [{ from = \"ef\", to = 46 }]\n") < soon);
    assert!(waits_behind("", "remark = [{ from = \"ef\", to = 46 }]\n") > late);
    assert!(waits_behind("", "remark = [{ from = \"default\", to = \"ef\" }]\n") > late, "all are EF then");
}

/// Two homes on one medium of 10 Mbit/s.
fn cable(flows: &str) -> Outcome {
    let link = |n: u32| {
        format!(
            "[[links]]\nname = \"mac{n}\"\nfrom = \"home{n}\"\nto = \"gateway\"\nmedium = \"cable\"\nrate = \"10Mbit/s\"\n\
            accounting = \"ip\"\nbuffer = \"150kB\"\n"
        )
    };
    let text = format!(
        "title = \"test\"\n{}{}{flows}[run]\nduration = \"20s\"\nwarmup = \"2s\"\n",
        link(1),
        link(2)
    );
    run(&text, 1)
}

fn from_home(n: u32, more: &str) -> String {
    format!("[[flows]]\nfrom = \"home{n}\"\nto = \"gateway\"\n{more}")
}

#[test]
fn those_who_share_a_medium_take_turns() {
    let both = cable(&format!(
        "{}{}",
        from_home(1, "udp_rate = \"8Mbit/s\"\npacket = \"1472B\"\n"),
        from_home(2, "udp_rate = \"40Mbit/s\"\npacket = \"1472B\"\n")
    ));
    for name in ["mac1", "mac2"] {
        assert!(
            (link(&both, name).utilization - 0.5).abs() < 0.001,
            "{name}: {}",
            link(&both, name).utilization
        );
    }
    let one = cable(&format!(
        "{}{}",
        from_home(1, "udp_rate = \"1472kbit/s\"\npacket = \"1472B\"\n"),
        from_home(2, "udp_rate = \"40Mbit/s\"\npacket = \"1472B\"\n")
    ));
    let [first, second] = ["mac1", "mac2"].map(|name| link(&one, name).utilization);
    assert!((first - 0.15).abs() < 0.001, "{first}");
    assert!((first + second - 1.0).abs() < 0.001, "{second}");
    // It waits for at most the packet that is being sent.
    assert!(link(&one, "mac1").delay_ms.max < 1.3, "{:?}", link(&one, "mac1").delay_ms);
}

#[test]
fn a_transfer_with_a_pause_follows_the_one_before() {
    let one = cable(&from_home(1, "transfer = \"1MB\"\npause = \"500ms\"\nrtt = \"10ms\"\n"));
    let transfers = one.recording.summary.flows[0].transfers.unwrap();
    // A megabyte takes about 0.86 s, with the start of the connection and half a second between two.
    assert!((12..=15).contains(&transfers.completed), "{transfers:?}");
}

/// The home with a gateway that does not answer from 15 s to 45 s, behind a modem of 7 Mbit/s: a link that
/// only probes pass lets one or two of them through in a second.
fn with_silence(sense: &str) -> Outcome {
    let text = home("asqm", "7Mbit/s", &format!("{TO_GATEWAY}rtt = \"50ms\"\ncount = 5\n"), 60)
        .replace("sense = { at = \"gateway\" }", &format!("sense = {{ at = \"far\", {sense} }}"));
    let far = "[[links]]\nname = \"out\"\nfrom = \"gateway\"\nto = \"far\"\nrate = \"100Mbit/s\"\nsteps = [ { at = \"15s\", \
               rate = \"1kbit/s\" }, { at = \"45s\", rate = \"100Mbit/s\" } ]\nbuffer = \"1kB\"\n\
               [[links]]\nname = \"in\"\nfrom = \"far\"\nto = \"gateway\"\nrate = \"100Mbit/s\"\n";
    run(&text.replacen("[[flows]]", &format!("{far}[[flows]]"), 1), 1)
}

#[test]
fn a_fall_back_rate_keeps_the_queue_here_while_the_gateway_is_silent() {
    let (without, with) = (with_silence("every = 4"), with_silence("fall_back_rate = \"6Mbit/s\""));
    let waits = |outcome: &Outcome| {
        let number = outcome.recording.summary.links.iter().position(|link| link.name == "modem").unwrap();
        let rows = &outcome.recording.link_samples[number];
        let late = rows.iter().filter(|row| (25.0..45.0).contains(&row.t_s));
        late.map(|row| row.delay_mean_ms).filter(|ms| ms.is_finite()).fold(0.0, f64::max)
    };
    let (without_ms, with_ms) = (waits(&without), waits(&with));
    println!("largest mean delay in the modem: {without_ms:.0} ms without, {with_ms:.1} ms with");
    assert!(without_ms > 200.0 && with_ms < 20.0, "{without_ms} {with_ms}");
    let shaped = link(&with, "limit").sensing.clone().unwrap().shaped.unwrap();
    assert!(shaped.fall_backs > 0 && !shaped.fallen_back, "{shaped:?}");
    assert_eq!((shaped.least_bps, shaped.rate_bps), (6e6, 16e6), "{shaped:?}");
    let warnings = &with.recording.summary.warnings;
    assert!(warnings.iter().any(|warning| warning.contains("at 6Mbit/s or less")), "{warnings:?}");
    assert_eq!(link(&without, "limit").sensing.clone().unwrap().shaped, None);
}

/// How a modem was used and what waited: its delivered rate in Mbit/s, and the 95th percentiles of the delays
/// in ms, there and at the limiter.
fn used(outcome: &Outcome) -> [f64; 3] {
    let (limit, modem) = (link(outcome, "limiter"), link(outcome, "modem"));
    let seconds = outcome.recording.summary.duration_s;
    [modem.bytes as f64 * 8.0 / seconds / 1e6, modem.delay_ms.p95, limit.delay_ms.p95]
}

/// The scenario of the repository with another modem, at a fixed rate with CoDel and with ASQM, and with
/// autorate.
fn beside(title: &str, change: impl Fn(&str) -> String) -> [[f64; 3]; 3] {
    let file = include_str!("../../../../data/scenarios/autorate.toml");
    let file = change(file.split_once("[sweep").unwrap().0);
    let (before, rest) = file.split_once(", autorate = ").unwrap();
    let fixed = [before, rest.split_once(" }").unwrap().1].concat();
    let [codel, asqm] = ["codel", "asqm"].map(|aqm| fixed.replace("codel", aqm));
    let told = |(name, text): (&str, String)| {
        let outcome = run(&text, 1);
        let [rate, below, own] = used(&outcome);
        println!(
            "{title}, {name}: {rate:.2} Mbit/s, 95 % delay {below:.1} ms in the modem, {own:.1} ms at the limiter"
        );
        println!("    {:?}", link(&outcome, "limiter").sensing.as_ref().unwrap().shaped);
        [rate, below, own]
    };
    let both = told(("autorate and ASQM", file.replace("codel", "asqm")));
    assert!(both[1] < 250.0, "{both:?}");
    [("fixed, CoDel", codel), ("fixed, ASQM", asqm), ("autorate, CoDel", file)].map(told)
}

/// On average the modem has 10.84 Mbit/s after the warm-up.
#[test]
fn autorate_follows_a_modem_that_steps_and_keeps_its_queue_short() {
    let [fixed, asqm, moved] = beside("steps", str::to_string);
    assert!(fixed[1] > 1_000.0, "{fixed:?}");
    assert!(moved[1] < 100.0 && moved[1] < asqm[1] && moved[2] < 100.0, "{moved:?} beside {asqm:?}");
    assert!(moved[0] > 0.9 * 10.84, "{moved:?}");
}

#[test]
fn autorate_follows_a_modem_of_a_trace() {
    let traced = |file: &str| {
        let steps = file.split_once("steps = [").unwrap().1.split_once("]\n").unwrap().0;
        file.replace(
            &format!("rate = \"18Mbit/s\"\nsteps = [{steps}]\n"),
            "trace = \"../../data/scenarios/traces/cellular.trace\"\n",
        )
        .replace("16Mbit/s", "22Mbit/s")
        .replace("20Mbit/s", "45Mbit/s")
    };
    let [fixed, asqm, moved] = beside("trace", traced);
    assert!(moved[1] < fixed[1] / 3.0, "{moved:?} beside {fixed:?}");
    assert!(moved[0] > 0.7 * fixed[0], "{moved:?} beside {fixed:?} and {asqm:?}");
}
