//! What links do to the order and the number of packets, and what TCP makes of it.

use crate::common;

use common::{goodput, quiet, run, scenario};
use weir_sim::Body;
use weir_sim::tap::{LinkContext, Tap, TappedPacket};
use weir_units::{Duration, Time};

/// Numbers of the data packets that reach the second link, and when.
#[derive(Default)]
struct Reached(Vec<(u64, Time)>);

impl Tap for Reached {
    fn on_enqueue(&mut self, at: &LinkContext<'_>, seen: TappedPacket<'_>) {
        if let (1, Body::Data(segment)) = (at.link, seen.item.body) {
            self.0.push((segment.seq, at.now));
        }
    }
}

/// What a packet each millisecond becomes behind a link with these keys, of 1000 packets.
fn behind(keys: &str) -> Vec<(u64, Time)> {
    let text = format!(
        "title = \"x\"\n[[links]]\nname = \"one\"\nfrom = \"a\"\nto = \"b\"\nrate = \"100Mbit/s\"\ndelay = \"10ms\"\n{keys}\n\
         [[links]]\nname = \"two\"\nfrom = \"b\"\nto = \"c\"\nrate = \"1Gbit/s\"\n\
         [[flows]]\nfrom = \"a\"\nto = \"c\"\nrtt = \"30ms\"\nudp_rate = \"1Mbit/s\"\npacket = \"125B\"\n\
         [run]\nduration = \"1s\"\n"
    );
    let mut simulation = weir_sim::build(&scenario(&text), 1, Reached::default()).unwrap();
    simulation.run_until(Time::from_nanos(1_000_000_000));
    assert!(simulation.is_conserved());
    simulation.into_tap().0
}

#[test]
fn a_packet_that_is_held_back_comes_so_much_later_and_all_others_as_before() {
    let plain = behind("");
    let held = behind("reorder = { every = 10, delay = \"5500us\" }");
    assert!(plain.len() > 950 && plain.is_sorted());
    let order: Vec<u64> = held.iter().take(16).map(|(seq, _)| *seq).collect();
    assert_eq!(order, [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 14, 9, 15]);
    for (seq, at) in &held {
        let late = if (seq + 1) % 10 == 0 { Duration::from_micros(5500) } else { Duration::ZERO };
        assert_eq!(*at, plain[*seq as usize].1 + late, "packet {seq}");
    }
}

#[test]
fn packets_arrive_twice_as_often_as_the_file_says_and_copies_come_right_behind() {
    let twice = behind("duplicate = \"20%\"");
    assert!(twice.is_sorted());
    let copies = twice.windows(2).filter(|pair| pair[0] == pair[1]).count();
    let different = behind("").len();
    assert_eq!(twice.len(), different + copies);
    assert!((150..250).contains(&copies), "{copies}");
}

#[test]
fn packets_of_a_list_are_lost_and_every_so_many() {
    let came = behind("loss_packets = [1, 5, 6]\nloss_every = 100");
    let missing: Vec<u64> = (0..300).filter(|n| !came.iter().any(|(seq, _)| seq == n)).collect();
    assert_eq!(missing, [0, 4, 5, 99, 199, 299]);
    // A mean burst of ten packets that are all lost, a hundred packets apart.
    let came = behind("loss_bursts = { p = \"1%\", r = \"10%\" }");
    let gaps: Vec<u64> =
        came.windows(2).map(|pair| pair[1].0 - pair[0].0 - 1).filter(|gap| *gap > 0).collect();
    let mean = gaps.iter().sum::<u64>() as f64 / gaps.len() as f64;
    assert!(gaps.len() >= 4 && (4.0..20.0).contains(&mean), "{gaps:?}");
}

fn flow(link: &str, flows: &str) -> weir_sim::Outcome {
    let link = format!(
        "[link]\nrate = \"50Mbit/s\"\nbuffer = \"40ms\"\n{link}\n[path]\nrtt = \"40ms\"\n[aqm]\nname = \"tail_drop\"\n"
    );
    run(&quiet(&link, flows, "30s"), 1)
}

/// Without duplicate SACKs a packet that is overtaken for longer than a quarter of the round-trip time is
/// sent again each time, and the window halved; with them the reordering window grows.
#[test]
fn tcp_learns_how_far_packets_are_held_back() {
    let plain = goodput(&flow("", "[[flows]]\n"), 0);
    for (delay, part) in [("5ms", 0.97), ("15ms", 0.95), ("30ms", 0.9)] {
        let outcome = flow(&format!("reorder = {{ share = \"0.1%\", delay = \"{delay}\" }}"), "[[flows]]\n");
        let got = goodput(&outcome, 0) / plain;
        assert!((part..1.01).contains(&got), "{delay}: {got}");
        let again = outcome.recording.summary.flows[0].retransmits;
        let reordered =
            outcome.recording.summary.links[0].faults.iter().find(|(name, _)| name == "reordered");
        let reordered = reordered.expect("it is told").1;
        assert!(reordered > 80 && again < reordered * 3, "{delay}: {again} of {reordered}");
    }
}

/// Copies of data, and of acknowledgements, are no sign of anything to TCP.
#[test]
fn copies_cost_tcp_nothing_but_their_bytes() {
    let plain = flow("", "[[flows]]\n");
    let twice = flow("duplicate = \"5%\"", "[[flows]]\n");
    assert!(twice.counts.duplicated > 4000, "{:?}", twice.counts);
    assert!(goodput(&twice, 0) > 0.95 * goodput(&plain, 0), "{}", goodput(&twice, 0));
    let back = flow("duplicate = \"5%\"", "[[flows]]\ndirection = \"reverse\"\nwindow = \"200kB\"\n");
    assert!(goodput(&back, 0) > 30e6, "{}", goodput(&back, 0));
}

/// A receiver of a call takes a datagram once, and one that comes late is not lost.
#[test]
fn copies_of_datagrams_do_not_hide_lost_ones() {
    let call = |keys: &str| {
        let outcome = flow(keys, "[[flows]]\nvoice = {}\n");
        outcome.study.calls[0].datagrams.lost
    };
    assert_eq!(call("duplicate = \"50%\""), 0.0);
    assert_eq!(call("reorder = { every = 10, delay = \"30ms\" }"), 0.0);
    assert!((call("duplicate = \"50%\"\nloss_every = 10") - 0.1).abs() < 0.005);
}

/// What others of its frame overtook completes it, what a later frame overtook is lost, and copies
/// complete none.
#[test]
fn real_time_video_takes_packets_out_of_order_and_twice() {
    let lost = |one: &str| {
        let text = format!(
            "title = \"x\"\n[[links]]\nname = \"one\"\nfrom = \"a\"\nto = \"b\"\nrate = \"5Mbit/s\"\n{one}\n\
             [[links]]\nname = \"two\"\nfrom = \"b\"\nto = \"c\"\nrate = \"4Mbit/s\"\ndelay = \"10ms\"\n\
             [[flows]]\nfrom = \"a\"\nto = \"c\"\nrtt = \"30ms\"\nrealtime = {{}}\n\
             [run]\nduration = \"60s\"\nwarmup = \"20s\"\n"
        );
        run(&text, 1).study.realtimes.remove(0)
    };
    for (keys, most) in [
        // One packet in ten, by more than the distance of frames; the rate falls until each frame is a
        // packet.
        ("reorder = { every = 10, delay = \"50ms\" }", 0.12),
        ("reorder = { share = \"5%\", delay = \"5ms\" }", 0.05),
        ("duplicate = \"10%\"", 0.01),
    ] {
        let told = lost(keys);
        assert!(told.rate_bps > 100e3 && told.frames.lost <= most, "{keys}: {told:?}");
    }
}

/// What a closed connection left in queues knows no way when another connection has its number.
#[test]
fn packets_of_a_closed_connection_end_where_another_has_its_number() {
    let link = |name: &str, from: &str, to: &str| {
        format!(
            "[[links]]\nname = \"{name}\"\nfrom = \"{from}\"\nto = \"{to}\"\nrate = \"2Mbit/s\"\nbuffer = \"2s\"\n"
        )
    };
    let text = format!(
        "title = \"x\"\n{}{}{}[[flows]]\nfrom = \"a\"\nto = \"d\"\nrtt = \"30ms\"\nudp_rate = \"4Mbit/s\"\nstop = \"5s\"\n\
         [[flows]]\nfrom = \"a\"\nto = \"b\"\nrtt = \"30ms\"\nstart = \"5.01s\"\n[run]\nduration = \"10s\"\n",
        link("one", "a", "b"),
        link("two", "b", "c"),
        link("three", "c", "d")
    );
    let mut simulation = weir_sim::build(&scenario(&text), 1, ()).unwrap();
    simulation.run_until(Time::from_nanos(10_000_000_000));
    assert!(simulation.is_conserved());
}
