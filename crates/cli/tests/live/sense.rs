//! Sensing on live interfaces: a plain Linux namespace is the gateway.
//!
//! These tests need root; without it they say so and pass. Each builds its own network namespaces.

#[allow(dead_code, reason = "each file of tests uses a part of it")]
use crate::common;

use common::*;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weir_lab::{NsChild, Testbed, TestbedConfig, in_netns};
use weir_sense::probe::Probe;

/// Length of a datagram of data, as an IP packet.
const LEN: usize = 1500;
/// Their class: AF11.
const CLASS: i32 = 10 << 2;
const PROBE: u8 = 253;

/// A testbed whose receiver forwards, with a reverse path filter, as a gateway does.
fn with_gateway() -> Testbed {
    gateway_of(testbed())
}

/// The same, with hosts that ask for each other's cards.
fn with_gateway_that_asks() -> Testbed {
    gateway_of(Testbed::new(TestbedConfig { static_neighbours: false, ..TestbedConfig::default() }).unwrap())
}

fn gateway_of(testbed: Testbed) -> Testbed {
    let settings =
        ["net.ipv4.ip_forward=1", "net.ipv4.conf.all.rp_filter=1", "net.ipv6.conf.all.forwarding=1"];
    exec(testbed.receiver(), "sysctl", &[&["-qw"][..], &settings].concat());
    testbed
}

/// A link that is sensed.
fn sensed(mode: &str, sense: &str) -> String {
    format!(
        "{}[a_to_b]\nrate = \"20Mbit/s\"\naccounting = \"ip\"\nbuffer = \"200ms\"\naqm = {{ name = \"asqm\" }}\n[sense]\nport \
         = \"b\"\n{sense}\n",
        patient(&ports(mode))
    )
}

/// Sends datagrams of a class over the link, one each millisecond.
fn data(testbed: &Testbed, class: i32, count: usize) {
    data_from((testbed.sender(), "10.77.0.1:0"), "10.77.0.2:7000", class, count);
}

/// The same from an address in a namespace to another one.
fn data_from((namespace, from): (&str, &'static str), to: &str, class: i32, count: usize) {
    let socket = in_netns(namespace, move || UdpSocket::bind(from)).unwrap().unwrap();
    // SAFETY: the pointer and length describe `class`.
    let code = unsafe {
        let pointer: *const i32 = &class;
        libc::setsockopt(socket.as_raw_fd(), libc::IPPROTO_IP, libc::IP_TOS, pointer.cast(), 4)
    };
    assert_eq!(code, 0);
    let mut due = Instant::now();
    for _ in 0..count {
        // What was missed while this thread had to wait is not made up for in a burst, which would overflow
        // the queue.
        due = (due + Duration::from_millis(1)).max(Instant::now() - Duration::from_millis(2));
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        // Nobody listens there, which the sender may be told.
        let _ = socket.send_to(&[0; LEN - 28], to);
    }
}

/// Probes that were due: those that were sent, and those that were over the budget. Packets that wait for a
/// busy processor come at once, and then some are; most are not.
fn due(s: &serde_json::Value) -> u64 {
    let (sent, skipped) = (s["sent"].as_u64().unwrap(), s["wire"]["budget_skipped"].as_u64().unwrap());
    assert!(sent > skipped, "{s}");
    sent + skipped
}

/// Frames that were on the wire, as far as they are IPv4.
fn seen(raw: &Raw) -> Vec<Vec<u8>> {
    std::iter::from_fn(|| raw.receive(Duration::from_millis(100))).filter(|f| f[12..14] == [8, 0]).collect()
}

#[test]
fn probes_bounce_off_a_plain_gateway_and_cost_less_than_half_a_percent() {
    let Some(_turn) = turn() else { return };
    for mode in ["xdp-native", "af_packet"] {
        let testbed = with_gateway();
        let (gateway, host) = (Raw::open(testbed.receiver(), "rcv0"), Raw::open(testbed.sender(), "snd0"));
        let weir = Weir::start(testbed.bottleneck(), &sensed(mode, ""));
        data(&testbed, CLASS, 1000);
        let (wire, back) = (seen(&gateway), seen(&host));
        let ended = weir.interrupt();
        let s = &ended.json()["links"][0]["sensing"];
        let count = |key: &str| s[key].as_u64().unwrap_or_else(|| panic!("{key}: {s}"));
        assert_eq!(
            (s["state"].as_str(), due(s), count("returned")),
            (Some("sensing"), 250, count("sent")),
            "{s}"
        );
        for none in ["lost", "duplicated", "reordered", "remapped", "forged"] {
            assert_eq!(count(none), 0, "{none}: {s}");
        }
        assert_eq!(s["wire"]["refused"], 0, "{s}");
        assert!(s["wire"]["redirects"].as_u64().unwrap() > 0, "Linux tells of a shorter way: {s}");
        // The wire between this link and the gateway.
        let ip_bytes = |probe: bool| -> usize {
            let of = wire.iter().filter(|f| (f[23] == PROBE) == probe && f[26..30] == [10, 77, 0, 1]);
            of.map(|f| usize::from(u16::from_be_bytes([f[16], f[17]]))).sum()
        };
        let share = ip_bytes(true) as f64 / ip_bytes(false) as f64;
        say(format!(
            "{mode}: {} bytes of probes, {share:.5} of the data; counted {}",
            ip_bytes(true),
            s["share"]
        ));
        assert!(share <= 0.0047 && (share - s["share"].as_f64().unwrap()).abs() < 1e-4, "{share} {s}");
        assert!(
            wire.iter().filter(|f| f[23] == PROBE).all(|f| f[15] == CLASS as u8),
            "same class, not ECN-capable"
        );
        // Neither probes nor talk about them reach the hosts.
        assert!(back.iter().all(|f| f[23] != PROBE && (f[23] != 1 || f[34] != 5)), "a probe got through");
    }
}

#[test]
fn expedited_traffic_gets_no_probes_and_a_gateway_that_drops_them_is_told() {
    let Some(_turn) = turn() else { return };
    let testbed = with_gateway();
    exec(testbed.receiver(), "sysctl", &["-qw", "net.ipv4.ip_forward=0"]);
    let weir = Weir::start(testbed.bottleneck(), &sensed("auto", "hold = \"500ms\"\nfall_back = \"1s\""));
    data(&testbed, 46 << 2, 200);
    data(&testbed, CLASS, 2000);
    let ended = weir.interrupt();
    let json = ended.json();
    let s = &json["links"][0]["sensing"];
    assert_eq!((s["wire"]["data_packets"].as_u64(), due(s)), (Some(2000), 500), "{s}");
    assert_eq!((s["state"].as_str(), s["returned"].as_u64()), (Some("fallen back"), Some(0)), "{s}");
    assert!(ended.stderr.contains("configured set point"), "{}", ended.stderr);
    let warnings = json["warnings"].to_string();
    assert!(warnings.contains("fallen back"), "{warnings}");
    // The data went through all the same.
    assert_eq!(json["links"][0]["drops"], 0, "{json}");
    assert!(json["links"][0]["packets"].as_u64().unwrap() >= 2200 + s["sent"].as_u64().unwrap(), "{json}");
}

#[test]
fn echo_requests_do_where_the_gateway_answers_them() {
    let Some(_turn) = turn() else { return };
    let testbed = with_gateway();
    let weir = Weir::start(testbed.bottleneck(), &sensed("auto", "mode = \"icmp\"\ntarget = \"10.77.0.2\""));
    data(&testbed, CLASS, 1000);
    let s = weir.interrupt().json()["links"][0]["sensing"].clone();
    let sent = s["sent"].as_u64().unwrap();
    // 36 bytes each: half a percent is reached before one in four.
    assert!((190..=210).contains(&sent) && s["share"].as_f64().unwrap() <= 0.005, "{s}");
    assert_eq!((s["returned"].as_u64(), s["remapped"].as_u64()), (Some(sent), Some(0)), "{s}");
}

/// `weir reflect` in the receiver's namespace.
struct Reflecting {
    child: NsChild,
    folder: Folder,
}

impl Reflecting {
    /// Waits until it works.
    fn start(testbed: &Testbed, mode: &str, peer: &str) -> Reflecting {
        let folder = Folder::new();
        let arguments = ["reflect", "--interface", "rcv0", "--peer", peer, "--mode", mode];
        let child = start_verb(testbed.receiver(), &folder, &arguments, "reflecting");
        Reflecting { child, folder }
    }

    /// Ends it when it had time for all that came; what it printed, without blanks.
    fn end(mut self) -> String {
        std::thread::sleep(Duration::from_millis(500));
        self.child.signal(libc::SIGINT).unwrap();
        let status = self.child.wait_until(Instant::now() + PATIENCE).unwrap();
        let read = |name: &str| std::fs::read_to_string(self.folder.path().join(name)).unwrap();
        assert!(status.is_some_and(|status| status.success()), "{}", read("err"));
        read("out").split_whitespace().collect()
    }
}

#[test]
fn a_reflector_turns_probes_of_its_peers_around_and_leaves_nothing_behind() {
    let Some(_turn) = turn() else { return };
    let far = "mode = \"reflector\"\naddress = \"10.77.0.1\"\ntarget = \"10.77.0.2\"";
    for mode in ["xdp-native", "xdp-generic", "user"] {
        let testbed = testbed();
        let before = state(testbed.receiver(), "rcv0");
        let weir = Weir::start(testbed.bottleneck(), &sensed("xdp-native", far));
        let reflecting = Reflecting::start(&testbed, mode, "10.77.0.1");
        data(&testbed, CLASS, 400);
        let told = reflecting.end();
        let s = weir.interrupt().json()["links"][0]["sensing"].clone();
        let sent = s["sent"].as_u64().unwrap();
        let reflected = format!("\"reflected\":{sent}");
        assert!(told.contains(&reflected) && told.contains("\"refused\":0"), "{mode}: {told} {s}");
        assert_eq!(
            (due(&s), s["returned"].as_u64(), s["lost"].as_u64(), s["remapped"].as_u64()),
            (100, Some(sent), Some(0), Some(0)),
            "{s}"
        );
        assert_eq!(s["wire"]["refused"], 0, "nobody says that he does not know the protocol: {s}");
        assert_eq!(state(testbed.receiver(), "rcv0"), before, "{mode}");
    }
    let testbed = testbed();
    for mode in ["xdp-generic", "user"] {
        let weir = Weir::start(testbed.bottleneck(), &sensed("auto", far));
        let reflecting = Reflecting::start(&testbed, mode, "10.77.0.99");
        data(&testbed, CLASS, 400);
        let told = reflecting.end();
        let s = weir.interrupt().json()["links"][0]["sensing"].clone();
        let refused = format!("\"refused\":{}", s["sent"]);
        assert!(told.contains("\"reflected\":0") && told.contains(&refused), "{mode}: {told} {s}");
        assert_eq!((due(&s), s["returned"].as_u64()), (100, Some(0)), "{s}");
    }
}

/// What a gateway made by hand sends back for a probe: cards exchanged, a hop less, with anything changed
/// that `change` changes of the packet before its checksum is set right.
fn returned(probe: &[u8], change: impl Fn(&mut Probe)) -> Vec<u8> {
    let mut frame = probe.to_vec();
    let (to, from) = frame[..12].split_at_mut(6);
    to.swap_with_slice(from);
    let mut parsed = Probe::parse(&frame[14..]).expect("a probe");
    parsed.hops -= 1;
    change(&mut parsed);
    parsed.write(&mut frame[14..]).expect("it has room");
    frame
}

#[test]
fn a_gateway_that_floods_forges_reorders_and_remaps_moves_nothing_but_the_counters() {
    let Some(_turn) = turn() else { return };
    judged(hostile_gateway);
}

fn hostile_gateway(attempt: &mut Attempt) {
    attempt.tolerates(0.1);
    let testbed = with_gateway();
    exec(testbed.receiver(), "sysctl", &["-qw", "net.ipv4.ip_forward=0"]);
    let (gateway, host) = (Raw::open(testbed.receiver(), "rcv0"), Raw::open(testbed.sender(), "snd0"));
    let weir = Weir::start(testbed.bottleneck(), &sensed("auto", ""));
    let is_over = Arc::<AtomicBool>::default();
    let over = is_over.clone();
    let answering = std::thread::spawn(move || {
        let (mut probes, mut kept) = (0, None);
        loop {
            let Some(frame) = gateway.receive(Duration::from_millis(500)) else {
                // Without data there are no probes, however long its thread waits for a processor.
                if over.load(Ordering::Relaxed) {
                    return probes;
                }
                continue;
            };
            if frame[12..14] != [8, 0] || frame[23] != PROBE {
                continue;
            }
            probes += 1;
            // Pairs change places, and all of them come back in another class.
            let Some(earlier) = kept.take() else {
                kept = Some(frame);
                continue;
            };
            // A hundred times as many: another secret, a clock that jumped an hour ahead or back, and copies.
            for n in 0..50 {
                gateway.send(&returned(&frame, |p| p.stamp.nonce ^= 1 + n));
                gateway.send(&returned(&earlier, |p| p.stamp.sent += 3_600_000_000_000));
                gateway.send(&returned(&earlier, |p| p.stamp.sent /= 2));
            }
            for _ in 0..51 {
                gateway.send(&returned(&frame, |p| p.stamp.dscp = 0));
            }
            gateway.send(&returned(&earlier, |p| p.stamp.dscp = 0));
        }
    });
    attempt.begin();
    data(&testbed, CLASS, 800);
    is_over.store(true, Ordering::Relaxed);
    let probes: u64 = answering.join().unwrap();
    attempt.end();
    let back = seen(&host);
    let ended = weir.interrupt();
    let json = ended.json();
    let s = &json["links"][0]["sensing"];
    let count = |key: &str| s[key].as_u64().unwrap_or_else(|| panic!("{key}: {s}"));
    assert_eq!((due(s), probes), (200, count("sent")), "{s}");
    attempt.holds(format_args!("state {}", s["state"]), "sensing", s["state"] == "sensing");
    let returned = count("returned");
    assert!(returned <= 200 && count("remapped") == returned && count("reordered") <= 100, "{s}");
    assert!(count("duplicated") <= 5000 && count("forged") <= 15000, "{s}");
    // How many of them the machine takes is a matter of its speed.
    for (name, least) in [("returned", 180), ("reordered", 80), ("duplicated", 1001), ("forged", 3001)] {
        attempt.within(name, count(name) as f64, f64::from(least)..);
    }
    // No reply that is not believed is a sample.
    attempt.within("round trip in ms", s["rtt_ms"].as_f64().unwrap(), ..200.0);
    assert!(back.iter().all(|f| f[23] != PROBE), "a reply got through");
    assert_eq!(
        (json["links"][0]["drops"].as_u64(), json["links"][0]["overflows"].as_u64()),
        (Some(0), Some(0)),
        "{json}"
    );
}

#[test]
fn a_route_that_flaps_is_told_and_probed_again_while_the_data_passes() {
    let Some(_turn) = turn() else { return };
    judged(flapping);
}

fn flapping(attempt: &mut Attempt) {
    // Times without a probe that comes back are told, and differ by a third at least from those that are not.
    attempt.tolerates(0.1);
    let testbed = with_gateway_that_asks();
    let weir = Weir::start(testbed.bottleneck(), &sensed("auto", "hold = \"500ms\"\nfall_back = \"1s\""));
    attempt.begin();
    let ip = |words: &str| exec(testbed.receiver(), "ip", &words.split(' ').collect::<Vec<_>>());
    for _ in 0..2 {
        data(&testbed, CLASS, 800);
        // The way back to the host goes, and with it what the gateway knew of its card.
        ip("route replace blackhole 10.77.0.1/32");
        ip("neigh flush dev rcv0");
        data(&testbed, CLASS, 1500);
        ip("route replace 10.77.0.1/32 dev rcv0 src 10.77.0.2");
    }
    data(&testbed, CLASS, 700);
    attempt.end();
    let ended = weir.interrupt();
    let json = ended.json();
    let s = &json["links"][0]["sensing"];
    assert_eq!(due(s), 1325, "{s}");
    attempt.holds(format_args!("state {}", s["state"]), "sensing", s["state"] == "sensing");
    attempt.within("probes came back", s["returned"].as_f64().unwrap(), 500.0..=600.0);
    for what in ["is held for now", "has fallen back", "probes come back"] {
        let times = ended.stderr.matches(what).count();
        assert!(times >= 2, "{what}: {}", ended.stderr);
        attempt.within(format!("`{what}` was told"), times as f64, 2.0..=2.0);
    }
    assert_eq!(json["links"][0]["drops"], 0, "{json}");
    assert!(json["links"][0]["packets"].as_u64().unwrap() >= 5300 + s["sent"].as_u64().unwrap(), "{json}");
}

#[test]
fn probes_over_ipv6_need_no_address_and_none_leaves_before_the_neighbour_is_known() {
    let Some(_turn) = turn() else { return };
    let testbed = with_gateway_that_asks();
    let gateway = Raw::open(testbed.receiver(), "rcv0");
    let weir = Weir::start(testbed.bottleneck(), &sensed("auto", ""));
    let socket = in_netns(testbed.sender(), || UdpSocket::bind("[fd77::1]:0")).unwrap().unwrap();
    for _ in 0..800 {
        let _ = socket.send_to(&[0; LEN - 48], "[fd77::2]:7000");
        std::thread::sleep(Duration::from_millis(1));
    }
    let wire: Vec<_> = std::iter::from_fn(|| gateway.receive(Duration::from_millis(100))).collect();
    let s = weir.interrupt().json()["links"][0]["sensing"].clone();
    let sent = s["sent"].as_u64().unwrap();
    // 48 bytes each: half a percent of the bytes is one in 6.4 packets.
    assert!((115..=130).contains(&sent) && s["share"].as_f64().unwrap() <= 0.005, "{s}");
    assert_eq!((s["returned"].as_u64(), s["lost"].as_u64()), (Some(sent), Some(0)), "{s}");
    let is_v6 = |f: &&Vec<u8>| f[12..14] == [0x86, 0xdd];
    let first = |wanted: fn(&[u8]) -> bool| wire.iter().filter(is_v6).position(|f| wanted(&f[14..]));
    let (asked, probed) = (first(|ip| ip[6] == 58 && ip[40] == 135), first(|ip| ip[6] == PROBE));
    assert!(asked.is_some() && asked < probed, "asked {asked:?}, probed {probed:?}");
}

#[test]
fn both_ports_of_one_box_are_sensed_each_by_probes_of_its_own() {
    let Some(_turn) = turn() else { return };
    let testbed = with_gateway();
    exec(testbed.sender(), "sysctl", &["-qw", "net.ipv4.ip_forward=1"]);
    let back =
        "[b_to_a]\nrate = \"20Mbit/s\"\naccounting = \"ip\"\nbuffer = \"200ms\"\naqm = { name = \"asqm\" }\n";
    let tables = "[[sense]]\nport = \"b\"\n[[sense]]\nport = \"a\"\nevery = 8\n";
    let both = sensed("auto", "").replace("[sense]\nport = \"b\"\n", &format!("{back}{tables}"));
    let weir = Weir::start(testbed.bottleneck(), &both);
    data(&testbed, CLASS, 800);
    data_from((testbed.receiver(), "10.77.0.2:0"), "10.77.0.1:7000", CLASS, 800);
    let (_, status) = ctl(weir.child.pid(), &["status"]);
    let ended = weir.interrupt();
    let json = ended.json();
    for (index, sent) in [(0, 200), (1, 100)] {
        let s = &json["links"][index]["sensing"];
        // A word of the hosts to each other may bring one more.
        assert!((sent..sent + 3).contains(&due(s)), "{index}: {s}");
        assert_eq!((&s["state"], &s["returned"]), (&"sensing".into(), &s["sent"]), "{index}: {s}");
        assert!((800..810).contains(&s["wire"]["data_packets"].as_u64().unwrap()), "{index}: {s}");
        let now = &status["links"][0]["directions"][index]["sensing"];
        assert_eq!((&now["state"], &now["not_believed"]), (&"sensing".into(), &0.into()), "{now}");
        assert!(now["sent"].as_u64().unwrap() >= sent / 2, "{now}");
    }
}
