//! What the queue disciplines do to flows.

use crate::common;

use common::{goodput, quiet, run, scenario};
use std::ops::ControlFlow;
use weir_measure::Distribution;
use weir_sim::Outcome;
use weir_sim::tap::{LinkContext, Tap, TappedPacket};
use weir_units::{Duration, Ecn, Time};

/// A link of 100 Mbit/s with what is to be known of its queue.
fn link(queue: &str) -> String {
    format!("[link]\nrate = \"100Mbit/s\"\nbuffer = \"250ms\"\n[path]\nrtt = \"20ms\"\n[queue]\n{queue}\n")
}

const FQ_CODEL: &str = "discipline = \"flow\"\nways = 8\n[aqm]\nname = \"codel\"";

fn jain(rates: &[f64]) -> f64 {
    let (sum, squares) = (rates.iter().sum::<f64>(), rates.iter().map(|r| r * r).sum::<f64>());
    sum * sum / (rates.len() as f64 * squares)
}

fn warm(text: &str, warmup: &str) -> String {
    text.replace("[run]\n", &format!("[run]\nwarmup = \"{warmup}\"\n"))
}

#[test]
fn flows_share_equally_whatever_their_congestion_control() {
    let flows = "[[flows]]\ncount = 4\n[[flows]]\ncount = 2\ncongestion = \"reno\"\n\
                 [[flows]]\ncount = 2\ncongestion = \"bbr\"\n";
    let outcome = run(&warm(&quiet(&link(FQ_CODEL), flows, "30s"), "10s"), 1);
    let rates: Vec<f64> = outcome.recording.summary.flows.iter().map(|f| f.goodput_bps).collect();
    assert!(jain(&rates) > 0.99, "{rates:?}");
    assert!(outcome.recording.summary.links[0].utilization > 0.97);
}

#[test]
fn a_long_round_trip_gets_what_it_can_use() {
    let flows = "[[flows]]\ncount = 4\ncongestion = \"reno\"\n\
                 [[flows]]\ncount = 4\nrtt = \"80ms\"\ncongestion = \"reno\"\n";
    let ratio = |queue: &str| {
        let outcome = run(&warm(&quiet(&link(queue), flows, "40s"), "10s"), 1);
        goodput(&outcome, 1) / goodput(&outcome, 0)
    };
    let (fair, shared) = (ratio(FQ_CODEL), ratio(&FQ_CODEL.replace("discipline = \"flow\"\nways = 8", "")));
    assert!(fair > 0.6 && shared < 0.4, "{fair} {shared}");
}

#[test]
fn senders_share_equally_whatever_the_number_of_their_flows() {
    let flows = "[[flows]]\n[[flows]]\ncount = 9\n";
    let share = |more: &str| {
        let queue = FQ_CODEL.replace("ways = 8", &format!("ways = 8\n{more}"));
        let outcome = run(&warm(&quiet(&link(&queue), flows, "20s"), "5s"), 1);
        goodput(&outcome, 0) / (goodput(&outcome, 0) + 9.0 * goodput(&outcome, 1))
    };
    let (flow, host) = (share(""), share("fair_senders = true"));
    assert!((flow - 0.1).abs() < 0.02 && (host - 0.5).abs() < 0.03, "{flow} {host}");
}

/// Sojourn times by kind of packet.
#[derive(Default)]
struct Delays {
    from: Time,
    low_latency: Distribution,
    small: Distribution,
    others: Distribution,
}

impl Tap for Delays {
    fn on_depart(&mut self, at: &LinkContext<'_>, seen: TappedPacket<'_>, sojourn: Duration, _marked: bool) {
        if at.now < self.from {
            return;
        }
        let kind = match seen.packet.ecn {
            Ecn::Ect1 | Ecn::Ce => &mut self.low_latency,
            _ if seen.packet.len.get() < 400 => &mut self.small,
            _ => &mut self.others,
        };
        kind.record(sojourn);
    }
}

fn delays(text: &str, from: Duration) -> (Outcome, Delays) {
    let tap = Delays { from: Time::ZERO + from, ..Delays::default() };
    weir_sim::run_with(&scenario(text), 1, tap, &mut |_| ControlFlow::Continue(())).unwrap()
}

#[test]
fn a_call_does_not_wait_behind_downloads() {
    // A packet of 200 bytes each 20 ms beside six downloads; one that is being sent takes 0.12 ms.
    let flows = "[[flows]]\ncount = 6\n[[flows]]\nudp_rate = \"80kbit/s\"\npacket = \"200B\"\n";
    let (_, fair) = delays(&quiet(&link(FQ_CODEL), flows, "20s"), Duration::from_secs(2));
    let single = FQ_CODEL.replace("discipline = \"flow\"\nways = 8", "");
    let (_, shared) = delays(&quiet(&link(&single), flows, "20s"), Duration::from_secs(2));
    let (fair, shared) = (fair.small.spread_ms(), shared.small.spread_ms());
    assert!(fair.max < 0.3, "{fair:?}");
    assert!(shared.p50 > 1.0, "{shared:?}");
}

#[test]
fn steering_moves_the_set_point_of_all_flows() {
    let flows = "[[flows]]\ncount = 2\nrtt = \"50ms\"\n";
    let utilization = |policy: &str| {
        let queue = FQ_CODEL.replace("\"codel\"", &format!("\"codel\"\ntarget = \"1ms\"{policy}"));
        let outcome = run(&warm(&quiet(&link(&queue), flows, "60s"), "20s"), 1);
        let raises = outcome.recording.events.iter().filter(|e| e.rule == "raise").count();
        let link = &outcome.recording.summary.links[0];
        (link.utilization, raises, link.setpoint_ms.unwrap())
    };
    let (fixed, none, at) = utilization("");
    let (steered, raises, set) = utilization("\n[policy]\ntarget_min = \"1ms\"\ntarget_min_up = \"1ms\"\n");
    assert_eq!((none, at), (0, 1.0));
    assert!(raises > 0 && set > 2.0 && steered > fixed, "{fixed} {steered} {raises} {set}");
    assert!(steered > 0.98, "{steered}");
}

const DUAL_PI2: &str = "discipline = \"dualpi2\"";

#[test]
fn low_latency_traffic_and_classic_traffic_live_side_by_side() {
    let flows = "[[flows]]\ncongestion = \"prague\"\n[[flows]]\ncongestion = \"cubic\"\n";
    let text = warm(&quiet(&link(DUAL_PI2), flows, "60s"), "10s");
    let (outcome, delays) = delays(&text, Duration::from_secs(10));
    let (prague, cubic) = (goodput(&outcome, 0), goodput(&outcome, 1));
    let (low, classic) = (delays.low_latency.spread_ms(), delays.others.spread_ms());
    assert!(low.p99 < 2.0, "{low:?}");
    assert!((8.0..25.0).contains(&classic.mean), "{classic:?}");
    assert!((0.5..2.0).contains(&(prague / cubic)), "{prague} {cubic}");
    assert!(outcome.recording.summary.links[0].utilization > 0.95);
}

#[test]
fn many_flows_of_both_kinds_share_fairly() {
    let flows =
        "[[flows]]\ncount = 5\ncongestion = \"prague\"\n[[flows]]\ncount = 5\ncongestion = \"cubic\"\n";
    let text = warm(&quiet(&link(DUAL_PI2), flows, "40s"), "10s");
    let (outcome, delays) = delays(&text, Duration::from_secs(10));
    let (prague, cubic) = (goodput(&outcome, 0), goodput(&outcome, 1));
    assert!(delays.low_latency.spread_ms().p99 < 2.0, "{:?}", delays.low_latency.spread_ms());
    assert!((0.5..2.0).contains(&(prague / cubic)), "{prague} {cubic}");
}

#[test]
fn steering_moves_the_target_of_the_classic_queue() {
    let flows = "[[flows]]\ncount = 2\nrtt = \"50ms\"\n";
    let text = warm(&quiet(&link(&format!("{DUAL_PI2}\n[policy]")), flows, "60s"), "20s");
    let outcome = run(&text, 1);
    let link = &outcome.recording.summary.links[0];
    assert_eq!(link.aqm, "dualpi2");
    assert!(!outcome.recording.events.is_empty());
    assert!(link.setpoint_ms.is_some_and(|ms| ms != 15.0) && link.utilization > 0.97, "{link:?}");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let flows = "[[flows]]\ncount = 3\n[[flows]]\ncount = 2\ncongestion = \"prague\"\n";
    for queue in [FQ_CODEL, DUAL_PI2] {
        let text = quiet(&link(queue), flows, "3s");
        assert_eq!(run(&text, 1).trace_hash, run(&text, 1).trace_hash);
        assert_ne!(run(&text, 1).trace_hash, run(&text, 2).trace_hash);
    }
}

#[test]
fn flows_use_ecn_where_they_say_so_whatever_their_congestion_control() {
    let marks = |control: &str, ecn: &str| {
        let link = "[link]\nrate = \"20Mbit/s\"\n[path]\nrtt = \"20ms\"\n[aqm]\nname = \"codel\"\n";
        let flows = format!("[[flows]]\ncount = 2\ncongestion = \"{control}\"\n{ecn}");
        let outcome = run(&quiet(link, &flows, "5s"), 1);
        let link = &outcome.recording.summary.links[0];
        assert!(link.marks + link.drops > 0 && link.utilization > 0.8, "{control}: {link:?}");
        (link.marks, outcome.trace_hash)
    };
    // LEDBAT fills no queue above CoDel's target.
    for control in weir_tcp::congestion::names().iter().filter(|name| **name != "ledbat") {
        assert_eq!(marks(control, "ecn = false\n").0, 0, "{control}");
        assert!(marks(control, "ecn = true\n").0 > 0, "{control}");
        let is_made_for_marks = ["dctcp", "prague"].contains(control);
        let usual = format!("ecn = {is_made_for_marks}\n");
        assert_eq!(marks(control, ""), marks(control, &usual), "{control}");
        if is_made_for_marks {
            // As in Linux, where they fall back to Reno.
            assert_eq!(marks(control, "ecn = false\n"), marks("reno", ""), "{control}");
        }
    }
}

/// The experiment of the CHOKe paper: datagrams at twice the link's rate beside 32 TCP flows. The paper's
/// figure for CHOKe is about 250 kbit/s of 1 Mbit/s, and no share is above 1/(e + 1) (Tang, Wang and Low,
/// 2004).
#[test]
fn choke_holds_an_unresponsive_flow_where_red_does_not() {
    let text = include_str!("../../../../data/scenarios/choke_paper.toml");
    let points = scenario(text).expand();
    let datagrams = |scheme: &str| {
        let of_it = |p: &&weir_config::Point| p.label().contains(scheme);
        let mut scenario = points.iter().find(of_it).expect(scheme).scenario.clone();
        scenario.run.duration = Duration::from_secs(100);
        let outcome = weir_sim::run(&scenario, 1, &mut |_| ControlFlow::Continue(())).expect("it is valid");
        (goodput(&outcome, 1) / 1e3, 32.0 * goodput(&outcome, 0) / 1e3)
    };
    let (red, choke) = (datagrams("RED"), datagrams("CHOKe"));
    assert!(red.0 > 700.0 && red.1 < 250.0, "kbit/s of datagrams and of TCP with RED: {red:?}");
    assert!((200.0..=269.0).contains(&choke.0) && choke.1 > 650.0, "with CHOKe: {choke:?}");
}

/// A flow that answers each mark a little, beside a classic one, each in a FIFO of its own: what they get,
/// and the delay of the first.
fn prague_beside_cubic(more: &str) -> ([f64; 2], weir_measure::result::Spread) {
    let flows = "[[flows]]\ncongestion = \"prague\"\n[[flows]]\ncongestion = \"cubic\"\n";
    let queue = FQ_CODEL.replace("ways = 8", &format!("ways = 8\n{more}"));
    let text = warm(&quiet(&link(&queue), flows, "30s"), "10s");
    let (outcome, delays) = delays(&text, Duration::from_secs(10));
    ([goodput(&outcome, 0), goodput(&outcome, 1)], delays.low_latency.spread_ms())
}

#[test]
fn a_shallow_threshold_keeps_l4s_short_in_a_fifo_of_its_own() {
    let ([prague, cubic], short) = prague_beside_cubic("l4s_threshold = \"1ms\"\n");
    let (_, long) = prague_beside_cubic("");
    println!("l4s: {short:?} with, {long:?} without; {prague} beside {cubic}");
    assert!(short.p99 < 3.0 && long.p99 > 2.0 * short.p99, "{short:?} {long:?}");
    assert!((0.8..1.25).contains(&(prague / cubic)), "{prague} {cubic}");
}

/// Downloads over a link whose way back has a fiftieth of its rate, beside an upload on it: their goodput,
/// that of the upload, and acknowledgements that were filtered.
fn asymmetric(filter: bool) -> (f64, f64, u64) {
    let text = format!(
        "title = \"test\"\n\
         [[links]]\nname = \"down\"\nfrom = \"server\"\nto = \"home\"\nrate = \"100Mbit/s\"\ndelay = \"10ms\"\n\
         buffer = \"100ms\"\nqueue = {{ discipline = \"flow\", ways = 8 }}\naqm = {{ name = \"codel\" }}\n\
         [[links]]\nname = \"up\"\nfrom = \"home\"\nto = \"server\"\nrate = \"2Mbit/s\"\ndelay = \"10ms\"\n\
         buffer = \"100ms\"\nqueue = {{ discipline = \"flow\", ways = 8, ack_filter = {filter} }}\n\
         aqm = {{ name = \"codel\" }}\n\
         [[flows]]\nfrom = \"server\"\nto = \"home\"\n\
         [[flows]]\nfrom = \"home\"\nto = \"server\"\n\
         [run]\nduration = \"30s\"\nwarmup = \"10s\"\nsample = \"100ms\"\n"
    );
    let outcome = run(&text, 1);
    let up = outcome.recording.summary.links.iter().find(|link| link.name == "up").unwrap();
    (goodput(&outcome, 0), goodput(&outcome, 1), up.acks_filtered)
}

#[test]
fn filtered_acknowledgements_let_a_download_use_its_link_beside_an_upload() {
    let ((plain, up, none), (filtered, up_filtered, count)) = (asymmetric(false), asymmetric(true));
    println!("ack filter: {plain} and {up} without, {filtered} and {up_filtered} with, {count} filtered");
    assert_eq!(none, 0);
    assert!(count > 10_000, "{count}");
    assert!(filtered > 90e6 && filtered > 1.15 * plain, "{plain} {filtered}");
    assert!(up_filtered > 0.9 * up, "{up} {up_filtered}");
}

#[test]
fn nothing_is_lost_or_made_up_where_acknowledgements_are_filtered() {
    let text = "title = \"test\"\n\
         [[links]]\nname = \"down\"\nfrom = \"a\"\nto = \"b\"\nrate = \"50Mbit/s\"\nloss = \"0.1%\"\n\
         [[links]]\nname = \"up\"\nfrom = \"b\"\nto = \"a\"\nrate = \"500kbit/s\"\nbuffer = \"200ms\"\n\
         queue = { discipline = \"flow\", ack_filter = true }\naqm = { name = \"codel\" }\n\
         [[flows]]\nfrom = \"a\"\nto = \"b\"\ncount = 3\n[[flows]]\nfrom = \"a\"\nto = \"b\"\nprotocol = \"quic\"\n\
         [run]\nduration = \"5s\"\nsample = \"100ms\"\n";
    let mut simulation = weir_sim::build(&scenario(text), 1, ()).unwrap();
    for second in 1..=5u64 {
        simulation.run_until(Time::from_nanos(second * 1_000_000_000));
        assert!(simulation.is_conserved());
    }
    assert!(simulation.counts().filtered > 1000, "{}", simulation.counts().filtered);
}

/// A game beside two downloads on 20 Mbit/s, with another player whose datagrams claim to build no queue as
/// well: what the first one's game is like, goodput of the datagrams and of a download, packets that were
/// sanctioned.
fn game_beside(queue: &str, udp_rate: &str) -> (weir_measure::applications::Datagrams, f64, f64, u64) {
    let text = format!(
        "title = \"test\"\nlink = {{ rate = \"20Mbit/s\", buffer = \"250ms\" }}\npath.rtt = \"30ms\"\n{queue}\n\
         [[flows]]\ngame = {{}}\nclass = \"nqb\"\n\
         [[flows]]\ncongestion = \"none\"\nudp_rate = \"{udp_rate}\"\npacket = \"1000B\"\nclass = \"nqb\"\n\
         [[flows]]\ncount = 2\n\
         [run]\nduration = \"30s\"\nwarmup = \"5s\"\nsample = \"100ms\"\n"
    );
    let mut outcome = run(&text, 1);
    let sanctioned = outcome.recording.summary.links[0].sanctioned;
    (outcome.study.games.remove(0), goodput(&outcome, 1), goodput(&outcome, 2), sanctioned)
}

/// As the flows of a tunnel do, all share a FIFO.
fn tunnel(more: &str) -> String {
    format!("queue = {{ discipline = \"flow\", flows = 1{more} }}\naqm = {{ name = \"codel\" }}")
}

#[test]
fn a_game_of_nqb_does_not_wait_behind_downloads_of_its_fifo_and_takes_nothing_from_them() {
    let (plain, _, before, _) = game_beside(&tunnel(""), "100kbit/s");
    let (game, datagrams, download, sanctioned) = game_beside(&tunnel(", nqb = true"), "100kbit/s");
    let [long, short] = [&plain, &game].map(|game| game.delay_ms.p99 - 15.0);
    println!("p99 of a game's queue: {long} ms, with a lane {short} ms; a download {before}, {download}");
    assert!(long > 8.0 && short < 1.5, "{long} {short}");
    assert!(game.lost == 0.0 && sanctioned == 0);
    assert!(download > 0.97 * before && datagrams > 90e3, "{before} {download} {datagrams}");
    // Who claims NQB and sends more than half gets half and loses the rest.
    let (_, datagrams, download, _) = game_beside(&tunnel(", nqb = true"), "15Mbit/s");
    assert!(datagrams < 10.1e6 && 2.0 * download > 9e6, "{datagrams} {download}");
}

#[test]
fn queue_protection_keeps_a_lane_short_for_those_who_build_no_queue() {
    let dualpi2 = |more: &str| format!("queue = {{ discipline = \"dualpi2\", nqb = true{more} }}");
    let in_fifo = |more: &str| tunnel(&format!(", nqb = true{more}"));
    for (queue, off, on) in [
        ("flow", in_fifo(""), in_fifo(", protection = true")),
        ("dualpi2", dualpi2(""), dualpi2(", protection = true")),
    ] {
        let rate = if queue == "flow" { "15Mbit/s" } else { "30Mbit/s" };
        let (harmed, _, _, none) = game_beside(&off, rate);
        let (game, _, _, sanctioned) = game_beside(&on, rate);
        let [long, short] = [&harmed, &game].map(|game| game.delay_ms.p99 - 15.0);
        println!(
            "{queue}: p99 {long} ms and {} lost, with protection {short} ms and {} lost, {sanctioned} sanctioned",
            harmed.lost, game.lost
        );
        assert!(none == 0 && sanctioned > 5000, "{none} {sanctioned}");
        assert!(short < 0.5 * long && game.lost <= harmed.lost, "{queue}: {harmed:?} {game:?}");
    }
}
