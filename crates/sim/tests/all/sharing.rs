//! How flows of different kinds and lengths share a link, against what follows from their laws; and that no
//! node makes packets or loses them.

use crate::common;

use common::{goodput, quiet, run, scenario};
use weir_sim::tap::{LinkContext, Tap, TappedPacket};
use weir_sim::{Body, Outcome};
use weir_units::{Duration, Time};

/// Four flows of 20 ms and four of 80 ms over a link that is too fast to matter and loses at random.
fn under_random_loss(congestion: &str, loss: &str) -> f64 {
    let link = format!(
        "[link]\nrate = \"10Gbit/s\"\nloss = \"{loss}\"\n[path]\nrtt = \"20ms\"\n[aqm]\nname = \"tail_drop\"\n"
    );
    let table = |rtt| format!("[[flows]]\ncongestion = \"{congestion}\"\nrtt = \"{rtt}ms\"\ncount = 4\n");
    let flows = format!("{}{}", table(20), table(80));
    let text = quiet(&link, &flows, "150s").replace("[run]\n", "[run]\nwarmup = \"50s\"\n");
    let outcome = run(&text, 1);
    goodput(&outcome, 0) / goodput(&outcome, 1)
}

/// At the same loss rate, Reno's window is the same for every RTT, and its rate in inverse proportion.
#[test]
fn reno_shares_in_inverse_proportion_to_the_round_trip_time() {
    let ratio = under_random_loss("reno", "0.03%");
    assert!((3.5..4.5).contains(&ratio), "{ratio}");
}

/// CUBIC's window grows with RTT^0.75 where it is on its cubic, so that little of the advantage is left:
/// 4^0.25 is 1.41, and somewhat more as the short flows are near Reno's window.
#[test]
fn cubic_shares_almost_without_regard_to_the_round_trip_time() {
    let ratio = under_random_loss("cubic", "0.003%");
    assert!((1.3..2.0).contains(&ratio), "{ratio}");
}

/// Where windows are small, CUBIC is as quick as Reno and no quicker (RFC 9438 section 4.3).
#[test]
fn reno_and_cubic_share_where_windows_are_small() {
    let link = "[link]\nrate = \"100Mbit/s\"\n[path]\nrtt = \"40ms\"\n[aqm]\nname = \"codel\"\n";
    let flows = "[[flows]]\ncongestion = \"reno\"\ncount = 4\n[[flows]]\ncongestion = \"cubic\"\ncount = 4\n";
    let text = quiet(link, flows, "100s").replace("[run]\n", "[run]\nwarmup = \"20s\"\n");
    let outcome = run(&text, 1);
    let (reno, cubic) = (goodput(&outcome, 0), goodput(&outcome, 1));
    assert!((0.8..2.0).contains(&(cubic / reno)), "{cubic} {reno}");
}

/// Remembers the spin bit of what departs.
#[derive(Default)]
struct Spin {
    last: bool,
    turns: Vec<Time>,
}

impl Tap for Spin {
    fn on_depart(&mut self, at: &LinkContext<'_>, seen: TappedPacket<'_>, _sojourn: Duration, _marked: bool) {
        if let Body::Data(segment) = seen.item.body
            && segment.spin != self.last
        {
            self.last = segment.spin;
            self.turns.push(at.now);
        }
    }
}

/// What an observer of the link reads off the spin bit is the round trip, queue included (RFC 9000 section
/// 17.4).
#[test]
fn the_spin_bit_of_quic_flows_tells_the_round_trip_time() {
    let text = quiet(
        "[link]\nrate = \"50Mbit/s\"\n[path]\nrtt = \"30ms\"\n[aqm]\nname = \"codel\"\n",
        "[[flows]]\nprotocol = \"quic\"\n",
        "20s",
    );
    let mut simulation = weir_sim::build(&scenario(&text), 1, Spin::default()).unwrap();
    simulation.run_until(Time::from_nanos(20_000_000_000));
    simulation.finish();
    let turns = simulation.into_tap().turns;
    let spans: Vec<f64> = turns.windows(2).skip(20).map(|w| w[1].since(w[0]).as_millis_f64()).collect();
    let mean = spans.iter().sum::<f64>() / spans.len() as f64;
    // 30 ms and a queue of some milliseconds; each turn waits for the next segment to leave.
    assert!(spans.len() > 400, "{}", spans.len());
    assert!(spans.iter().all(|s| (29.9..60.0).contains(s)), "{spans:?}");
    assert!((30.0..40.0).contains(&mean), "{mean}");
}

/// A QUIC packet carries fewer bytes of payload than a TCP packet of the same size has headers less.
#[test]
fn quic_flows_fill_a_link_with_their_own_headers() {
    let link = "[link]\nrate = \"20Mbit/s\"\n[path]\nrtt = \"20ms\"\n[aqm]\nname = \"codel\"\n";
    let text = quiet(link, "[[flows]]\nprotocol = \"quic\"\ncount = 2\n", "30s");
    let outcome = run(&text, 1);
    let link = &outcome.recording.summary.links[0];
    let carried: f64 = outcome.recording.summary.flows.iter().map(|f| f.goodput_bps).sum();
    let share = carried / (20e6 * link.utilization);
    // 1500 bytes at most, 63 of them headers, and 38 more on the line.
    let most = 1437.0 / 1538.0;
    assert!(link.utilization > 0.9 && (0.99 * most..1.005 * most).contains(&share), "{share} of {most}");
}

fn lossy_parking_lot() -> String {
    let links = "[[links]]\nname = \"first\"\nfrom = \"a\"\nto = \"b\"\nrate = \"50Mbit/s\"\ndelay = \"5ms\"\nloss = \"0.1%\"\n\
                 [links.aqm]\nname = \"codel\"\n\
                 [[links]]\nname = \"second\"\nfrom = \"b\"\nto = \"c\"\nrate = \"30Mbit/s\"\ndelay = \"5ms\"\njitter = \"1ms\"\n\
                 [links.aqm]\nname = \"gsp\"\n\
                 [[links]]\nname = \"back\"\nfrom = \"c\"\nto = \"a\"\nrate = \"2Mbit/s\"\ndelay = \"10ms\"\nbuffer = \"20ms\"\n\
                 [links.aqm]\nname = \"tail_drop\"\n";
    let flows = "[[flows]]\nfrom = \"a\"\nto = \"c\"\ncount = 3\n\
                 [[flows]]\nfrom = \"a\"\nto = \"c\"\nudp_rate = \"2Mbit/s\"\nudp_pattern = \"poisson\"\n\
                 [[flows]]\nfrom = \"a\"\nto = \"b\"\ntransfer = \"300kB\"\nevery = \"200ms\"\n\
                 [[flows]]\nfrom = \"b\"\nto = \"c\"\ncongestion = \"bbr\"\nstop = \"4s\"\n";
    quiet(links, flows, "6s")
}

/// At any moment and at every node what came in is what went out, waits, or was discarded for a reason.
#[test]
fn packets_are_conserved_at_every_node_at_any_time() {
    let mut simulation = weir_sim::build(&scenario(&lossy_parking_lot()), 3, ()).unwrap();
    for step in 1..=600u64 {
        simulation.run_until(Time::from_nanos(step * 9_987_654));
        assert!(simulation.is_conserved(), "at {step}: {:?}", simulation.counts());
    }
    let counts = simulation.counts();
    assert!(counts.dropped > 100 && counts.lost > 10 && counts.late > 0, "{counts:?}");
}

/// Rates of unresponsive sources, and what they leave: TCP takes the rest and no more.
#[test]
fn unresponsive_flows_get_what_they_send_and_the_rest_is_shared() {
    for pattern in ["cbr", "poisson"] {
        let link = "[link]\nrate = \"50Mbit/s\"\n[path]\nrtt = \"20ms\"\n[aqm]\nname = \"codel\"\n";
        let flows = format!(
            "[[flows]]\nudp_rate = \"20Mbit/s\"\nudp_pattern = \"{pattern}\"\n[[flows]]\ncount = 2\n"
        );
        let text = quiet(link, &flows, "60s").replace("[run]\n", "[run]\nwarmup = \"10s\"\n");
        let outcome: Outcome = run(&text, 1);
        let udp = goodput(&outcome, 0);
        let utilization = outcome.recording.summary.links[0].utilization;
        // CoDel drops its share of them too, which is less than one in a hundred.
        assert!((0.985..1.005).contains(&(udp / 20e6)), "{pattern}: {udp}");
        assert!(utilization > 0.95, "{pattern}: {utilization}");
    }
}
