//! Sensing on live interfaces: a plain Linux namespace is the gateway.
//!
//! These tests need root; without it they say so and pass. Each builds its own network namespaces.

#[allow(dead_code, reason = "each file of tests uses a part of it")]
mod common;

use common::*;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};
use weir_lab::{Testbed, in_netns};

/// Length of a datagram of data, as an IP packet.
const LEN: usize = 1500;
/// Their class: AF11.
const CLASS: i32 = 10 << 2;
const PROBE: u8 = 253;

/// A testbed whose receiver forwards, with a reverse path filter, as a gateway does.
fn with_gateway() -> Testbed {
    let testbed = testbed();
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
        ports(mode)
    )
}

/// Sends datagrams of a class over the link, one each millisecond.
fn data(testbed: &Testbed, class: i32, count: usize) {
    let socket = in_netns(testbed.sender(), || UdpSocket::bind("10.77.0.1:0")).unwrap().unwrap();
    // SAFETY: the pointer and length describe `class`.
    let code = unsafe {
        let pointer: *const i32 = &class;
        libc::setsockopt(socket.as_raw_fd(), libc::IPPROTO_IP, libc::IP_TOS, pointer.cast(), 4)
    };
    assert_eq!(code, 0);
    let start = Instant::now();
    for n in 0..count {
        std::thread::sleep(Duration::from_millis(n as u64).saturating_sub(start.elapsed()));
        // Nobody listens there, which the sender may be told.
        let _ = socket.send_to(&[0; LEN - 28], "10.77.0.2:7000");
    }
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
            (s["state"].as_str(), count("sent"), count("returned")),
            (Some("sensing"), 250, 250),
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
    assert_eq!((s["wire"]["data_packets"].as_u64(), s["sent"].as_u64()), (Some(2000), Some(500)), "{s}");
    assert_eq!((s["state"].as_str(), s["returned"].as_u64()), (Some("fallen back"), Some(0)), "{s}");
    assert!(ended.stderr.contains("configured set point"), "{}", ended.stderr);
    let warnings = json["warnings"].to_string();
    assert!(warnings.contains("fallen back"), "{warnings}");
    // The data went through all the same.
    assert_eq!(json["links"][0]["drops"], 0, "{json}");
    assert!(json["links"][0]["packets"].as_u64().unwrap() >= 2600, "{json}");
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

/// Runs `weir reflect` in the receiver's namespace for two seconds; what it printed, without blanks.
fn reflect(testbed: &Testbed, mode: &'static str, peer: &'static str) -> std::thread::JoinHandle<String> {
    let namespace = testbed.receiver().to_string();
    let reflecting = std::thread::spawn(move || {
        let arguments =
            ["--json", "reflect", "--interface", "rcv0", "--peer", peer, "--mode", mode, "--duration", "2"];
        let (ok, text) = try_exec(&namespace, env!("CARGO_BIN_EXE_weir"), &arguments);
        assert!(ok, "{text}");
        text.split_whitespace().collect()
    });
    std::thread::sleep(Duration::from_millis(700));
    reflecting
}

#[test]
fn a_reflector_turns_probes_of_its_peers_around_and_leaves_nothing_behind() {
    let Some(_turn) = turn() else { return };
    let far = "mode = \"reflector\"\naddress = \"10.77.0.1\"\ntarget = \"10.77.0.2\"";
    for mode in ["xdp-native", "xdp-generic", "user"] {
        let testbed = testbed();
        let before = state(testbed.receiver(), "rcv0");
        let weir = Weir::start(testbed.bottleneck(), &sensed("xdp-native", far));
        let reflecting = reflect(&testbed, mode, "10.77.0.1");
        data(&testbed, CLASS, 400);
        let told = reflecting.join().unwrap();
        let s = weir.interrupt().json()["links"][0]["sensing"].clone();
        assert!(told.contains("\"reflected\":100") && told.contains("\"refused\":0"), "{mode}: {told} {s}");
        assert_eq!(
            (s["returned"].as_u64(), s["lost"].as_u64(), s["remapped"].as_u64()),
            (Some(100), Some(0), Some(0)),
            "{s}"
        );
        assert_eq!(s["wire"]["refused"], 0, "nobody says that he does not know the protocol: {s}");
        assert_eq!(state(testbed.receiver(), "rcv0"), before, "{mode}");
    }
    let testbed = testbed();
    for mode in ["xdp-generic", "user"] {
        let weir = Weir::start(testbed.bottleneck(), &sensed("auto", far));
        let reflecting = reflect(&testbed, mode, "10.77.0.99");
        data(&testbed, CLASS, 400);
        let told = reflecting.join().unwrap();
        assert!(told.contains("\"reflected\":0") && told.contains("\"refused\":100"), "{mode}: {told}");
        assert_eq!(weir.interrupt().json()["links"][0]["sensing"]["returned"], 0);
    }
}
