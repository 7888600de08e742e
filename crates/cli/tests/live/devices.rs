//! `weir run` on devices that are not the plain end of a cable.
//!
//! These tests need root; without it they say so and pass. Each builds its own network namespaces.

#[allow(dead_code, reason = "each file of tests uses a part of it")]
use crate::common;

use common::*;
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::time::{Duration, Instant};
use weir_lab::in_netns;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// A TUN device; what is written arrives at it, what is sent there can be read.
struct Tun(File);

impl Tun {
    fn new(namespace: &str, name: &str) -> Tun {
        let open = || {
            let mut options = OpenOptions::new();
            options.read(true).write(true).custom_flags(libc::O_NONBLOCK);
            let file = options.open("/dev/net/tun").unwrap();
            // SAFETY: all-zero is a valid value of this plain struct.
            let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
            request.ifr_name.iter_mut().zip(name.bytes()).for_each(|(to, from)| *to = from as libc::c_char);
            request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as i16;
            const TUNSETIFF: libc::Ioctl = 0x4004_54ca;
            // SAFETY: the request is a valid `ifreq`.
            let code = unsafe { libc::ioctl(file.as_raw_fd(), TUNSETIFF, &mut request) };
            assert_eq!(code, 0, "{}", std::io::Error::last_os_error());
            file
        };
        let tun = Tun(in_netns(namespace, open).unwrap());
        exec(namespace, "ip", &["link", "set", "dev", name, "up"]);
        tun
    }

    fn send(&self, packet: &[u8]) {
        assert_eq!((&self.0).write(packet).unwrap(), packet.len());
    }

    /// Datagrams of these tests: so many, however long they take, and what else comes until none came for
    /// 0.3 s.
    fn take(&self, wanted: usize) -> Vec<Vec<u8>> {
        let (mut packets, mut last) = (Vec::new(), Instant::now());
        let mut bytes = vec![0; 16 << 10];
        while last.elapsed() < if packets.len() < wanted { PATIENCE } else { ms(300) } {
            match (&self.0).read(&mut bytes) {
                Ok(len) if len > 4 && bytes[..len].ends_with(&PAYLOAD) => {
                    packets.push(bytes[..len].to_vec());
                    last = Instant::now();
                }
                Ok(_) => {}
                Err(_) => std::thread::sleep(Duration::from_micros(200)),
            }
        }
        packets
    }
}

const PAYLOAD: [u8; 200] = [0x5a; 200];

/// An IP packet with a number before its payload.
fn packet(v6: bool, ecn: u8, number: u32) -> Vec<u8> {
    let mut ip = Vec::new();
    let payload = [&number.to_be_bytes()[..], &PAYLOAD].concat();
    let builder = if v6 {
        let [from, to] = [1, 2].map(|n| std::net::Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, n).octets());
        etherparse::PacketBuilder::ipv6(from, to, 64)
    } else {
        etherparse::PacketBuilder::ipv4([10, 99, 0, 1], [10, 99, 0, 2], 64)
    };
    builder.udp(5000, 5001).write(&mut ip, &payload).unwrap();
    if v6 {
        ip[1] |= ecn << 4;
    } else {
        ip[1] = 0x28 | ecn;
        let header = etherparse::Ipv4HeaderSlice::from_slice(&ip).unwrap().to_header();
        ip[10..12].copy_from_slice(&header.calc_header_checksum().to_be_bytes());
    }
    ip
}

fn number_of(packet: &[u8]) -> u32 {
    let at = packet.len() - PAYLOAD.len() - 4;
    u32::from_be_bytes(packet[at..at + 4].try_into().unwrap())
}

fn bare(mode: &str, more: &str) -> String {
    ports(mode).replace("\"a\"", "\"t0\"").replace("\"b\"", "\"t1\"") + more
}

#[test]
fn bare_ip_packets_are_classified_marked_and_forwarded_whole() {
    let Some(_turn) = turn_beside_others() else { return };
    until_decided(bare_packets_marked);
}

fn bare_packets_marked() -> Result<(), String> {
    let testbed = testbed();
    let bot = testbed.bottleneck();
    let (near, far) = (Tun::new(bot, "t0"), Tun::new(bot, "t1"));
    let aqm = "[a_to_b]\nrate = \"8Mbit/s\"\n\
               [a_to_b.aqm]\nname = \"gsp\"\ntarget = \"100us\"\ninterval = \"1ms\"\nadaptive = false\n";
    let weir = Weir::start(bot, &patient(&bare("auto", aqm)));
    assert!(weir.text("err").contains("t0 <-> t1: AF_PACKET"), "{}", weir.text("err"));
    assert!(
        weir.text("err").contains("a_to_b: its packets have no Ethernet headers"),
        "{}",
        weir.text("err")
    );
    let kinds: Vec<(bool, u8)> = [false, true].iter().flat_map(|v6| (0..3).map(|ecn| (*v6, ecn))).collect();
    let (mut sent, start) = (HashMap::new(), Instant::now());
    for number in 0..6000u32 {
        let kind = (number.wrapping_mul(0x9e37_79b9) >> 16) as usize % kinds.len();
        let (v6, ecn) = kinds[kind];
        let due = Duration::from_micros(u64::from(number) * 200);
        std::thread::sleep(due.saturating_sub(start.elapsed()));
        near.send(&packet(v6, ecn, number));
        sent.insert(number, kind);
    }
    let mut marked = vec![0u32; kinds.len()];
    let got = far.take(1);
    for got in &got {
        let number = number_of(got);
        let (v6, ecn) = kinds[sent[&number]];
        if *got != packet(v6, ecn, number) {
            assert!(ecn == 1 || ecn == 2, "a packet with ECN field {ecn} was changed");
            marked[sent[&number]] += 1;
            assert_eq!(*got, packet(v6, 3, number), "more than the mark changed, or the checksum is wrong");
        }
    }
    // And back.
    (0..100).for_each(|number| far.send(&packet(number % 2 == 0, 0, number)));
    let back: Vec<u32> = near.take(100).iter().map(|packet| number_of(packet)).collect();
    assert_eq!(back, (0..100).collect::<Vec<_>>());
    let ended = weir.interrupt();
    let json = ended.json();
    ended.not_bypassed()?;
    let numbers: Vec<u32> = got.iter().map(|packet| number_of(packet)).collect();
    in_order(&numbers).unwrap_or_else(|e| panic!("{e}: {json}"));
    assert_eq!(json["links"][0]["marks"], marked.iter().sum::<u32>(), "{json}");
    let drops = json["links"][0]["drops"].as_u64().unwrap();
    assert!(got.len() as u64 + drops <= 6000, "{json}");
    // A loop without a processor marks few, and not of each kind.
    ended.loop_was_there()?;
    for (count, (v6, ecn)) in marked.iter().zip(&kinds) {
        assert_eq!(*count > 0, *ecn == 1 || *ecn == 2, "v6 {v6} ECN {ecn}: {marked:?}");
    }
    assert!(drops > 0, "{json}");
    Ok(())
}

#[test]
fn the_overhead_of_the_link_is_counted_and_the_kernel_forwards_when_weir_is_killed() {
    let Some(_turn) = turn() else { return };
    let testbed = testbed();
    let bot = testbed.bottleneck();
    let (near, far) = (Tun::new(bot, "t0"), Tun::new(bot, "t1"));
    let states = || ["t0", "t1"].map(|port| state(bot, port));
    let found = states();
    // IP packets of 232 and 252 bytes.
    for (overhead, size) in
        [("pppoe-llcsnap", [6 * 53, 7 * 53]), ("docsis", [250, 270]), ("8 mpu 256", [256, 260])]
    {
        let overhead = overhead.replace("8 mpu", "overhead 8 mpu");
        let channel = format!(
            "[a_to_b]\nrate = \"50Mbit/s\"\nbuffer = \"1s\"\noverhead = \"{overhead}\"\naqm = {{ name = \"tail_drop\" }}\n"
        );
        let weir = Weir::start(bot, &patient(&bare("af_packet", &channel)));
        (0..200).for_each(|number| near.send(&packet(number % 2 == 1, 0, number)));
        assert_eq!(far.take(200).len(), 200);
        let json = weir.interrupt().json();
        let link = &json["links"][0];
        let counted = link["bytes"].as_u64().unwrap();
        // The kernel's own messages, such as router solicitations, are few.
        let others = link["packets"].as_u64().unwrap() - 200;
        let expected = 100 * (size[0] + size[1]);
        assert!(others < 20 && (expected..=expected + others * 371).contains(&counted), "{overhead}: {json}");
        assert!(others > 0 || counted == expected, "{overhead}: {json}");
        assert_eq!(states(), found, "{overhead}");
    }
    let mut weir = Weir::start(bot, &bare("auto", ""));
    weir.signal(libc::SIGKILL);
    weir.wait();
    std::thread::sleep(ms(300));
    (0..50).for_each(|number| near.send(&packet(number % 2 == 1, 0, number)));
    let numbers: Vec<u32> = far.take(50).iter().map(|packet| number_of(packet)).collect();
    assert_eq!(numbers, (0..50).collect::<Vec<_>>(), "the kernel forwards");
    try_exec(bot, env!("CARGO_BIN_EXE_weir"), &["doctor", "--clean"]);
    assert_eq!(states(), found);
    assert!(journals(bot).is_empty());
}

fn refused(namespace: &str, config: &str, says: &[&str]) {
    let ended = Weir::spawn(namespace, config, &[]).wait();
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    says.iter().for_each(|text| assert!(ended.stderr.contains(text), "`{text}`: {}", ended.stderr));
    assert!(journals(namespace).is_empty());
}

#[test]
fn what_cannot_be_ports_together_is_refused() {
    let Some(_turn) = turn_beside_others() else { return };
    let testbed = testbed();
    let bot = testbed.bottleneck();
    let ip = |words: &str| try_exec(bot, "ip", &words.split(' ').collect::<Vec<_>>());
    let pair = |a: &str, b: &str| format!("[ports]\na = \"{a}\"\nb = \"{b}\"\n");
    assert!(ip("link add p0 type veth peer name p1").0);
    for (a, b) in [("p0", "p1"), ("p1", "p0")] {
        let said = format!("{a} and {b} are both ends of one cable");
        refused(bot, &pair(a, b), &[&said, "Remedy: name interfaces that lead to different hosts"]);
    }
    // One whose other end is elsewhere is none of that, whatever numbers both have there.
    let both = Weir::spawn(bot, &(pair("a", "b") + "[run]\nduration = \"100ms\"\n"), &[]).wait();
    assert_eq!(both.code, Some(0), "{}", both.stderr);
    for kind in ["vlan id 5", "macvlan mode bridge"] {
        if !ip(&format!("link add link b name u0 type {kind}")).0 {
            say(format!("no interface of type {kind} here"));
            continue;
        }
        for (a, b) in [("u0", "b"), ("b", "u0")] {
            refused(bot, &pair(a, b), &["u0 sends and receives through b", "Remedy: name another interface"]);
        }
        ip("link del u0");
    }
    let _tun = Tun::new(bot, "t0");
    let _other = Tun::new(bot, "t1");
    refused(
        bot,
        &pair("t0", "b"),
        &["t0: it is a device of bare IP packets", "nobody here knows to whom on b"],
    );
    refused(bot, &bare("xdp-native", ""), &["`t0` has no Ethernet headers", "mode = \"af_packet\""]);
}

#[test]
fn devices_on_top_of_others_are_ports() {
    let Some(_turn) = turn_beside_others() else { return };
    for (kind, mode) in
        [("vlan id 5", "auto"), ("macvlan mode passthru", "auto"), ("macvlan mode passthru", "af_packet")]
    {
        let testbed = testbed();
        let bot = testbed.bottleneck();
        let add = format!("link add link b name u0 type {kind}");
        if !try_exec(bot, "ip", &add.split(' ').collect::<Vec<_>>()).0 {
            say(format!("no interface of type {kind} here"));
            continue;
        }
        for device in ["b", "u0"] {
            exec(bot, "ip", &["link", "set", "dev", device, "up"]);
        }
        let found = state(bot, "u0");
        let tag: &[u8] = if kind.starts_with("vlan") { &[0x81, 0, 0, 5] } else { &[] };
        let (near, far) = (Raw::open(testbed.sender(), "snd0"), Raw::open(testbed.receiver(), "rcv0"));
        let weir = Weir::start(bot, &patient(&ports(mode).replace("\"b\"", "\"u0\"")));
        let rest: &[u8] = &[&[0x88, 0xb5][..], &[7; 46]].concat();
        let addresses = [DESTINATION, SOURCE].concat();
        let (plain, tagged) = ([&addresses, rest].concat(), [&addresses, tag, rest].concat());
        for _ in 0..50 {
            near.send(&plain);
        }
        assert_eq!(far.take(50), vec![tagged.clone(); 50], "{kind}, {mode}");
        for _ in 0..50 {
            far.send(&tagged);
        }
        assert_eq!(near.take(50), vec![plain; 50], "{kind}, {mode}, back");
        assert_eq!(weir.interrupt().code, Some(0));
        assert_eq!(state(bot, "u0"), found, "{kind}, {mode}");
    }
}

#[test]
fn a_bond_is_a_port() {
    let Some(_turn) = turn_beside_others() else { return };
    let testbed = testbed();
    let bot = testbed.bottleneck();
    let made = try_exec(bot, "ip", &["link", "add", "bond0", "type", "bond", "mode", "active-backup"]);
    if !made.0 {
        return skipped(format!("no bonds here: {}", made.1.trim()));
    }
    exec(bot, "ip", &["link", "set", "dev", "b", "down"]);
    exec(bot, "ip", &["link", "set", "dev", "b", "master", "bond0"]);
    exec(bot, "ip", &["link", "set", "dev", "bond0", "up"]);
    let (near, far) = (Raw::open(testbed.sender(), "snd0"), Raw::open(testbed.receiver(), "rcv0"));
    refused(bot, &ports("xdp-native").replace("\"b\"", "\"bond0\""), &["`bond0` is a bond"]);
    for mode in ["auto", "xdp-generic", "af_packet"] {
        let weir = Weir::start(bot, &patient(&ports(mode).replace("\"b\"", "\"bond0\"")));
        let frame = [&DESTINATION[..], &SOURCE, &[0x88, 0xb5], &[7; 46]].concat();
        (0..50).for_each(|_| near.send(&frame));
        assert_eq!(far.take(50).len(), 50, "{mode}");
        (0..50).for_each(|_| far.send(&frame));
        assert_eq!(near.take(50).len(), 50, "{mode}, back");
        assert_eq!(weir.interrupt().code, Some(0));
    }
}

#[test]
fn addresses_that_a_port_is_given_while_it_runs_are_told() {
    let Some(_turn) = turn_beside_others() else { return };
    let testbed = testbed();
    let bot = testbed.bottleneck();
    exec(bot, "sh", &["-c", "echo 0 > /proc/sys/net/ipv6/conf/b/disable_ipv6"]);
    let weir = Weir::start(bot, &ports("auto"));
    exec(bot, "ip", &["link", "add", "other", "type", "ifb"]);
    for (address, device) in [("192.0.2.66/24", "other"), ("192.0.2.77/24", "a"), ("2001:db8::77/64", "b")] {
        exec(bot, "ip", &["addr", "add", address, "dev", device]);
    }
    let texts = ["a: it was given 192.0.2.77,", "b: it was given 2001:db8::77,"];
    for text in texts {
        weir.until(text);
    }
    // The kernel tells of one of IPv6 once more when it has proved unique.
    std::thread::sleep(ms(2000));
    // Taken away and given again, it is told again; what is not a port's never.
    exec(bot, "ip", &["addr", "del", "192.0.2.77/24", "dev", "a"]);
    exec(bot, "ip", &["addr", "add", "192.0.2.77/24", "dev", "a"]);
    until("the address is told again", || weir.text("err").matches(texts[0]).count() == 2);
    std::thread::sleep(ms(500));
    let ended = weir.interrupt();
    let warnings = ended.warnings();
    assert_eq!(warnings.len(), 3, "{warnings:?}");
    assert!(warnings[0].contains(texts[0]) && warnings[0].contains("Remedy"), "{warnings:?}");
    assert!(warnings[1].contains(texts[1]) && warnings[2].contains(texts[0]), "{warnings:?}");
    assert!(!ended.stderr.contains("192.0.2.66"), "{}", ended.stderr);
}
