//! `weir run` with `upstream`: each user's round-trip times are measured from what passes, and told.
//!
//! These tests need root; without it they say so and pass.

#[allow(dead_code, reason = "each file of tests uses a part of it")]
use crate::common;

use common::*;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};
use weir_lab::{Testbed, TestbedConfig, in_netns};

/// Another user at the receiver.
const OTHER: &str = "10.77.0.21";

/// Sends from the sender to a user for a while, at the pace of who reads.
fn download(testbed: &Testbed, address: &str) -> JoinHandle<()> {
    let at = format!("{address}:9000");
    let listener = in_netns(testbed.receiver(), || TcpListener::bind(&at)).unwrap().unwrap();
    let mut stream = in_netns(testbed.sender(), || TcpStream::connect(&at)).unwrap().unwrap();
    let (mut accepted, _) = listener.accept().unwrap();
    let reader = std::thread::spawn(move || {
        let mut buffer = vec![0; 64 << 10];
        while accepted.read(&mut buffer).is_ok_and(|n| n > 0) {}
    });
    std::thread::spawn(move || {
        let end = Instant::now() + Duration::from_millis(1500);
        while Instant::now() < end {
            stream.write_all(&[0; 15_000]).unwrap();
            sleep(Duration::from_millis(5));
        }
        drop(stream);
        reader.join().unwrap();
    })
}

/// A TCP segment whose header says that it is shorter than one can be.
fn broken() -> Vec<u8> {
    let ip = [69, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0x66, 0x34, 10, 77, 0, 1, 10, 77, 0, 2];
    let mut frame = [&[0x02, 0x77, 0, 0, 0, 2, 0x02, 0x77, 0, 0, 0, 1, 8, 0][..], &ip, &[0; 20]].concat();
    frame[34 + 12] = 0x40;
    frame
}

#[test]
fn users_are_measured_by_themselves_and_broken_packets_are_counted() {
    let Some(_turn) = turn() else { return };
    for mode in ["xdp-native", "af_packet"] {
        judged(|attempt| two_users(mode, attempt));
    }
}

fn two_users(mode: &str, attempt: &mut Attempt) {
    let config = TestbedConfig { more_receivers: vec![OTHER.into()], ..TestbedConfig::default() };
    let testbed = Testbed::new(config).unwrap();
    let text = format!(
        "{}[a_to_b]\nupstream = \"inform\"\nqueue = {{ discipline = \"user\", users = 100 }}\n\
             aqm = {{ name = \"vaqm\" }}\n[b_to_a]\ndelay = \"5ms\"\n",
        patient(&ports(mode))
    );
    let weir = Weir::start(testbed.bottleneck(), &text);
    let raw = Raw::open(testbed.sender(), "snd0");
    (0..3).for_each(|_| raw.send(&broken()));
    // A twentieth of the bound is measured.
    attempt.tolerates(0.1);
    attempt.begin();
    let users: Vec<JoinHandle<()>> = ["10.77.0.2", OTHER].map(|user| download(&testbed, user)).into();
    users.into_iter().for_each(|user| user.join().unwrap());
    attempt.end();
    let ended = weir.interrupt();
    assert!(ended.stderr.contains("a_to_b: memory, taken at the start and never more: "), "{}", ended.stderr);
    assert!(ended.stderr.contains("to measure up to 104 users with 8 flows each"), "{}", ended.stderr);
    let json = ended.json();
    let seen = &json["links"][0]["upstream"];
    say(format!("{mode}: {seen}"));
    assert_eq!((seen["mode"].as_str(), seen["users"].as_u64()), (Some("inform"), Some(2)), "{seen}");
    assert!(seen["live_bytes"].as_f64().unwrap() > 0.9 * seen["bytes"].as_f64().unwrap(), "{seen}");
    assert!(seen["samples"].as_u64().unwrap() > 50, "{seen}");
    // Nothing lies behind but the host: the way back is delayed only after its acknowledgements were seen.
    attempt.within("median of round trips in ms", seen["rtt_ms"]["p50"].as_f64().unwrap(), ..3.0);
    assert_eq!(seen["suspicions"], serde_json::json!([["unreadable", 3]]), "{seen}");
    assert!(json["links"][1]["upstream"].is_null());
}
