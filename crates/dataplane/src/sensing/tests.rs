//! Probes among frames, and what a gateway may do to them; in memory, with times as arguments.

use super::frame::EXPEDITED;
use super::*;
use weir_config::RunConfig;
use weir_sense::probe::{Addresses, Probe};

const GATEWAY: [u8; 6] = [2, 0, 0, 0, 0, 1];
const OWN: [u8; 6] = [2, 0, 0, 0, 0, 2];
const HOST: [u8; 4] = [10, 9, 0, 2];

fn at(ms: u64) -> Time {
    Time::ZERO + Duration::from_millis(ms)
}

/// A sensor with its memory, and the samples that it gave.
struct Bench {
    sensing: Sensing,
    arena: Arena,
    samples: Vec<Duration>,
}

impl Bench {
    fn new(sense: &str) -> Bench {
        let text = format!(
            "[ports]\na = \"x\"\nb = \"y\"\n[a_to_b]\nrate = \"8Mbit/s\"\naqm = {{ name = \"gsp\" }}\n[sense]\nport = \
             \"b\"\n{sense}"
        );
        let config = RunConfig::parse("c.toml", &text).unwrap_or_else(|e| panic!("{e}")).sense.remove(0);
        let always = Window { from: Time::ZERO, until: at(1 << 40) };
        let sensing = Sensing::new(&config, 64, always);
        Bench { sensing, arena: Arena::new(4096, 256).unwrap(), samples: Vec::new() }
    }

    fn received(&mut self, bytes: &[u8], arrived: Time) -> Received {
        let frame = Frame { addr: self.arena.take().unwrap(), len: bytes.len() as u32 };
        self.arena.bytes(frame).copy_from_slice(bytes);
        Received { frame, arrived }
    }

    /// The probes that follow `count` frames like this one.
    fn send(&mut self, data: &[u8], count: usize, now: Time) -> Vec<Vec<u8>> {
        let mut probes = Vec::new();
        for _ in 0..count {
            let received = self.received(data, now);
            let out = self.sensing.follow(&[received], &mut self.arena).to_vec();
            for (n, r) in out.iter().enumerate() {
                let bytes = self.arena.bytes(r.frame).to_vec();
                self.arena.give(r.frame.addr);
                assert!(n > 0 || bytes == data, "data changed");
                probes.extend((n > 0).then_some(bytes));
            }
        }
        probes
    }

    /// Lets a frame come in at the gateway's port; whether it goes on.
    fn come_in(&mut self, frame: &[u8], now: Time) -> bool {
        let mut batch = vec![self.received(frame, now)];
        let samples = &mut self.samples;
        self.sensing.take(&mut batch, &mut self.arena, &mut |_, back| samples.extend(back.rtt));
        batch.iter().for_each(|r| self.arena.give(r.frame.addr));
        !batch.is_empty()
    }

    fn summary(&self) -> result::Sensing {
        self.sensing.summary(None)
    }

    fn wire(&self) -> result::SensedWire {
        self.summary().wire.unwrap()
    }
}

fn ipv4(len: usize, tos: u8) -> Vec<u8> {
    let mut ip = Vec::new();
    let builder = etherparse::PacketBuilder::ethernet2(OWN, GATEWAY).ipv4(HOST, [192, 0, 2, 1], 64);
    builder.udp(5000, 5001).write(&mut ip, &vec![0; len - 28]).unwrap();
    ip[15] = tos;
    ip
}

fn ipv6(len: usize) -> Vec<u8> {
    let mut ip = Vec::new();
    let builder = etherparse::PacketBuilder::ethernet2(OWN, GATEWAY).ipv6([0xfd; 16], [0x20; 16], 64);
    builder.udp(5000, 5001).write(&mut ip, &vec![0; len - 48]).unwrap();
    ip
}

/// What a router does: cards exchanged, a hop less.
fn routed(probe: &[u8]) -> Vec<u8> {
    let mut frame = probe.to_vec();
    let (to, from) = frame[..12].split_at_mut(6);
    to.swap_with_slice(from);
    let mut parsed = Probe::parse(&frame[14..]).unwrap();
    parsed.hops -= 1;
    parsed.write(&mut frame[14..]).unwrap();
    frame
}

/// The same with another stamp.
fn altered(probe: &[u8], change: impl Fn(&mut Probe)) -> Vec<u8> {
    let mut frame = routed(probe);
    let mut parsed = Probe::parse(&frame[14..]).unwrap();
    change(&mut parsed);
    parsed.write(&mut frame[14..]).unwrap();
    frame
}

#[test]
fn one_probe_follows_four_packets_in_their_class_and_its_return_is_a_sample() {
    let v6 = "address = \"fd09::2\"";
    for (sense, data, len) in [("", ipv4(1500, 0x2a), 42), (v6, ipv6(3000), 62)] {
        let mut bench = Bench::new(sense);
        let probes = bench.send(&data, 40, at(100));
        assert_eq!(probes.len(), 10);
        for probe in &probes {
            assert_eq!(probe.len(), len);
            assert_eq!((&probe[..12], &probe[12..14]), (&data[..12], &data[12..14]), "Ethernet header");
            let parsed = Probe::parse(&probe[14..]).unwrap();
            assert_eq!(parsed.addresses, parsed.addresses.reversed(), "to its own sender");
            assert_eq!(parsed.stamp.dscp, if len == 42 { 10 } else { 0 });
            assert_eq!(probe[15] & if len == 42 { 3 } else { 0x30 }, 0, "not ECN-capable");
            assert!(!bench.come_in(&routed(probe), at(125)), "it ends here");
        }
        assert_eq!(bench.samples, [Duration::from_millis(25); 10]);
        assert!(bench.come_in(&data, at(126)), "anything else goes on");
        let s = bench.summary();
        assert_eq!((s.sent, s.returned, s.lost, s.state.as_str()), (10, 10, 0, "sensing"));
    }
}

#[test]
fn probes_stay_below_half_a_percent_of_full_packets() {
    let mut bench = Bench::new("");
    let probes: usize = (0..4000).map(|n| bench.send(&ipv4(1500, 0), 1, at(2 * n)).len()).sum();
    assert_eq!(probes, 1000);
    assert!(bench.summary().share <= 0.0047, "{}", bench.summary().share);
    let mut small = Bench::new("");
    let probes: usize = (0..4000).map(|n| small.send(&ipv4(100, 0), 1, at(2 * n)).len()).sum();
    let s = small.summary();
    assert!(probes < 80 && s.share <= 0.005 && small.wire().budget_skipped > 900, "{s:?}");
}

#[test]
fn what_needs_no_aqm_or_goes_elsewhere_is_not_followed() {
    let expedited = ipv4(1500, EXPEDITED << 2);
    let mut multicast = ipv4(1500, 0);
    multicast[0] |= 1;
    let mut unspecified = ipv4(1500, 0);
    unspecified[26..30].fill(0);
    let arp = [&GATEWAY[..], &OWN, &[8, 6], &[0; 46]].concat();
    for frame in [expedited, multicast, unspecified, arp, vec![0; 13]] {
        assert_eq!(Bench::new("").send(&frame, 40, at(0)).len(), 0, "{frame:02x?}");
    }
    let mut elsewhere = Bench::new("gateway_mac = \"02:00:00:00:00:09\"");
    assert_eq!(elsewhere.send(&ipv4(1500, 0), 40, at(0)).len(), 0);
}

#[test]
fn configured_addresses_and_tags_are_used() {
    let mut bench = Bench::new("address = \"198.51.100.7\"\ngateway_mac = \"02:00:00:00:00:01\"");
    let mut tagged = ipv4(1500, 0);
    tagged.splice(12..12, [0x81, 0, 0x20, 5]);
    let probe = bench.send(&tagged, 4, at(0)).remove(0);
    assert_eq!(probe[..18], tagged[..18]);
    let own = [198, 51, 100, 7];
    let parsed = Probe::parse(&probe[18..]).unwrap();
    assert_eq!(parsed.addresses, Addresses::V4 { source: own, destination: own });
    // Behind a packet of the other version the probe is of its own.
    let mut probes = bench.send(&ipv6(1500), 8, at(0));
    let probe = probes.remove(0);
    assert_eq!(
        (&probe[12..14], Probe::parse(&probe[14..]).unwrap().addresses),
        (&[8, 0][..], parsed.addresses)
    );
    let mut far = Bench::new("mode = \"reflector\"\ntarget = \"203.0.113.5\"");
    let probe = far.send(&ipv4(1500, 0), 4, at(0)).remove(0);
    let there = Addresses::V4 { source: HOST, destination: [203, 0, 113, 5] };
    assert_eq!(Probe::parse(&probe[14..]).unwrap().addresses, there);
    let back = altered(&probe, |p| p.addresses = there.reversed());
    assert!(!far.come_in(&back, at(7)));
    assert_eq!(far.samples, [Duration::from_millis(7)]);
}

#[test]
fn without_an_address_probes_come_from_where_the_data_does_of_ipv4_if_there_is_both() {
    let mut bench = Bench::new("");
    let own = Addresses::V6 { source: [0xfd; 16], destination: [0xfd; 16] };
    for probe in bench.send(&ipv6(3000), 8, at(0)) {
        assert_eq!((&probe[12..14], Probe::parse(&probe[14..]).unwrap().addresses), (&[0x86, 0xdd][..], own));
        assert!(!bench.come_in(&routed(&probe), at(5)));
    }
    assert_eq!((bench.wire().sent_bytes, bench.samples.len()), (96, 2));
    let own = Addresses::V4 { source: HOST, destination: HOST };
    let both = [ipv4(1500, 0), ipv6(1500), ipv6(1500)];
    let probes: Vec<_> = both.iter().flat_map(|data| bench.send(data, 4, at(9))).collect();
    for probe in &probes {
        assert_eq!((&probe[12..14], Probe::parse(&probe[14..]).unwrap().addresses), (&[8, 0][..], own));
    }
    assert_eq!((probes.len(), bench.wire().sent_bytes), (3, 96 + 3 * 28));
    // A target says which version is meant.
    let mut far = Bench::new("mode = \"reflector\"\ntarget = \"2001:db8::1\"");
    assert_eq!(far.send(&ipv4(1500, 0), 8, at(0)).len(), 0);
    assert_eq!(far.send(&ipv6(3000), 4, at(0)).len(), 1);
}

#[test]
fn nothing_is_sent_before_the_gateway_is_known_and_what_was_due_follows_at_once() {
    let mut bench = Bench::new("");
    let request = [&[0xff; 6][..], &OWN, &[8, 6], &[0; 46]].concat();
    let mut solicitation = ipv6(72);
    solicitation[..6].copy_from_slice(&[0x33, 0x33, 0xff, 0, 0, 1]);
    let mut asked = ipv6(72);
    // A link-local address is nothing that a gateway sends to.
    asked[22..24].copy_from_slice(&[0xfe, 0x80]);
    for frame in [request, solicitation, asked] {
        assert_eq!(bench.send(&frame, 400, at(0)).len(), 0, "{frame:02x?}");
    }
    assert_eq!(bench.summary().state, "starting");
    assert_eq!(bench.send(&ipv4(1500, 0), 1, at(1)).len(), 1);
}

#[test]
fn silence_is_told_and_nothing_is_made_up() {
    let mut bench = Bench::new("fall_back = \"3s\"");
    let mut probes = bench.send(&ipv4(1500, 0), 40, at(0));
    probes.iter().for_each(|p| assert!(!bench.come_in(&routed(p), at(20))));
    bench.samples.clear();
    let mut news = Vec::new();
    // From now on the gateway drops all of them.
    for ms in (30..9_000).step_by(10) {
        probes.extend(bench.send(&ipv4(1500, 0), 1, at(ms)));
        bench.samples.extend(bench.sensing.look(at(ms)));
        news.extend(bench.sensing.news().map(|now| now.warning("a_to_b", None).unwrap()));
    }
    assert_eq!(bench.summary().state, "fallen back");
    assert!(news[0].contains("held") && news[1].contains("configured set point"), "{news:#?}");
    assert_eq!(news.len(), 2, "{news:#?}");
    let longest = bench.samples.iter().max().unwrap();
    assert!(*longest < Duration::from_secs(3), "an age above {longest}");
    assert_eq!(bench.samples.last(), Some(&Duration::from_millis(20)), "the last good value is held");
    // It comes back.
    bench.samples.clear();
    let mut probes = Vec::new();
    for ms in (9_000..10_000).step_by(10) {
        let sent = bench.send(&ipv4(1500, 0), 4, at(ms));
        sent.iter().for_each(|p| assert!(!bench.come_in(&routed(p), at(ms + 9))));
        probes.extend(sent);
    }
    assert!(
        !bench.samples.is_empty() && bench.samples.len() < probes.len(),
        "the first are not relied on yet"
    );
    assert!(bench.sensing.news().unwrap().warning("a_to_b", None).unwrap().contains("come back"));
}

#[test]
fn late_duplicated_and_reordered_returns_are_told_apart() {
    let mut bench = Bench::new("");
    let mut probes = bench.send(&ipv4(1500, 0), 40, at(0));
    probes.swap(3, 7);
    for (n, probe) in probes.iter().enumerate() {
        assert!(!bench.come_in(&routed(probe), at(20 + n as u64)));
    }
    assert!(bench.summary().reordered >= 1);
    for _ in 0..100 {
        probes.iter().for_each(|p| assert!(!bench.come_in(&routed(p), at(40))));
    }
    let s = bench.summary();
    assert_eq!((s.returned, s.duplicated, bench.samples.len()), (10, 1000, 10));
    // One is overtaken and given up before it comes.
    let late = bench.send(&ipv4(1500, 0), 4, at(100)).remove(0);
    let next = bench.send(&ipv4(1500, 0), 4, at(110)).remove(0);
    assert!(!bench.come_in(&routed(&next), at(120)));
    bench.sensing.look(at(2_000));
    assert_eq!(bench.summary().lost, 1);
    assert!(!bench.come_in(&routed(&late), at(2_100)));
    assert_eq!(bench.summary().late, 1);
}

#[test]
fn forged_replies_and_a_clock_that_jumped_move_nothing() {
    let mut bench = Bench::new("");
    let probes = bench.send(&ipv4(1500, 0), 40, at(50));
    for (n, probe) in probes.iter().enumerate() {
        assert!(!bench.come_in(&altered(probe, |p| p.stamp.nonce ^= 1), at(60)));
        assert!(!bench.come_in(&altered(probe, |p| p.stamp.sent += 1_000_000), at(60)), "clock ahead");
        assert!(!bench.come_in(&altered(probe, |p| p.stamp.sent /= 2), at(60)), "clock behind");
        assert!(!bench.come_in(&altered(probe, |p| p.stamp.sequence += 500), at(60)));
        assert_eq!(bench.samples.len(), n);
        assert!(!bench.come_in(&routed(probe), at(70)), "the true one still counts");
    }
    let s = bench.summary();
    assert_eq!((s.returned, s.forged), (10, 40), "{s:?}");
    // A copy that never saw a router, and a stranger's probe.
    assert!(bench.come_in(&probes[0], at(80)));
    let stranger = altered(&probes[0], |p| {
        p.stamp.nonce ^= 7;
        p.addresses = Addresses::V4 { source: [10, 9, 0, 77], destination: [10, 9, 0, 77] };
    });
    assert!(bench.come_in(&stranger, at(80)), "it belongs to somebody behind us");
}

#[test]
fn another_class_on_return_is_told() {
    let mut bench = Bench::new("");
    let probes = bench.send(&ipv4(1500, 0x28), 8, at(0));
    probes.iter().for_each(|p| assert!(!bench.come_in(&altered(p, |p| p.stamp.dscp = 0), at(9))));
    assert_eq!(bench.summary().remapped, 2);
}

#[test]
fn messages_of_routers_about_probes_end_here_and_others_go_on() {
    for (mode, data) in [("", ipv4(1500, 0)), ("mode = \"icmp\"\ntarget = \"10.9.0.1\"", ipv4(1500, 0))] {
        let mut bench = Bench::new(mode);
        let probe = bench.send(&data, 8, at(0)).remove(0);
        for (kind, code) in [(5u8, 1u8), (3, 13), (11, 0)] {
            let message = [&[kind, code, 0, 0, 0, 0, 0, 0][..], &probe[14..]].concat();
            let mut frame = Vec::new();
            let builder = etherparse::PacketBuilder::ethernet2(GATEWAY, OWN).ipv4([10, 9, 0, 1], HOST, 64);
            builder.write(&mut frame, etherparse::IpNumber::ICMP, &message).unwrap();
            assert!(!bench.come_in(&frame, at(1)), "{mode} {kind}");
            // The same about somebody else's packet.
            let at_nonce = frame.len() - if mode.is_empty() { 8 } else { 12 };
            frame[at_nonce] ^= 0xff;
            assert!(bench.come_in(&frame, at(1)), "{mode} {kind}");
        }
        let (s, returned) = (bench.wire(), bench.summary().returned);
        assert_eq!((s.redirects, s.refused, returned), (1, 2, 0));
    }
    let mut bench = Bench::new("address = \"fd09::2\"");
    let probe = bench.send(&ipv6(3000), 4, at(0)).remove(0);
    let options = [&[2, 1, 0, 0, 0, 0, 0, 0, 4, 7, 0, 0, 0, 0, 0, 0][..], &probe[14..]].concat();
    let redirect = [&[137, 0, 0, 0][..], &[0; 36], &options].concat();
    let mut frame = Vec::new();
    let builder = etherparse::PacketBuilder::ethernet2(GATEWAY, OWN).ipv6([0xfe; 16], [0xfd; 16], 255);
    builder.write(&mut frame, etherparse::IpNumber::IPV6_ICMP, &redirect).unwrap();
    assert!(!bench.come_in(&frame, at(1)));
    assert_eq!(bench.wire().redirects, 1);
    // An option of no length ends the search.
    let end = frame.len();
    frame[end - 48 - 16 + 1] = 0;
    assert!(bench.come_in(&frame, at(1)));
}

#[test]
fn whatever_comes_in_no_memory_is_kept() {
    let mut bench = Bench::new("");
    let probe = bench.send(&ipv4(1500, 0), 4, at(0)).remove(0);
    let reply = routed(&probe);
    // More than there are chunks: one that leaked would run the arena dry.
    for n in 0..2000usize {
        let mut frame = reply.clone();
        frame[n % reply.len()] ^= (n / reply.len()) as u8 + 1;
        bench.come_in(&frame, at(1));
        bench.come_in(&frame[..n % reply.len()], at(1));
    }
    assert!(!bench.come_in(&reply, at(2)));
    let free = std::iter::from_fn(|| bench.arena.take()).count();
    assert_eq!(free, 256);
}
