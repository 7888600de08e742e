//! Scripts for what is wrong on purpose: octets of good requests changed where it hurts, sequence numbers
//! that come again, filters that overlap.

use crate::bytes::Script;
use crate::sessions::{Bench, reads_back, request};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;
use weir_units::Duration;
use weir_upf::filter::{Endpoint, Filter, PortRange, Prefix};
use weir_upf::plane::classify::lookup::{Builder, FilterContext, Key};
use weir_wire::ip::{Fragment, Header};

/// Octets before the elements of a message about a session.
const HEADER: usize = 16;
/// Longest datagram.
const LONGEST: usize = 4000;

/// Good requests whose octets were changed: elements cut, doubled, put into each other, with lengths that are
/// wrong; and requests that come again, or others under their sequence number.
pub fn pfcp_octets(bytes: &[u8]) {
    let mut script = Script::new(bytes);
    let mut bench = Bench::associated();
    let mut former: Vec<Vec<u8>> = Vec::new();
    while let Some(what) = script.byte() {
        bench.pass(Duration::from_millis(u64::from(script.byte_or_zero())));
        if what % 8 == 7 && !former.is_empty() {
            let at = usize::from(script.byte_or_zero()) % former.len();
            bench.ask(&former[at].clone());
            continue;
        }
        let mut octets = request(&mut bench, what, &mut script);
        for _ in 0..script.byte_or_zero() % 4 {
            damage(&mut octets, &mut script);
        }
        reads_back(&octets);
        bench.ask(&octets);
        former.push(octets);
    }
}

/// Where elements are, also those within others.
fn elements(octets: &[u8], within: Range<usize>, found: &mut Vec<Range<usize>>) -> bool {
    let (mut at, before) = (within.start, found.len());
    while at + 4 <= within.end {
        let end = at + 4 + usize::from(u16::from_be_bytes([octets[at + 2], octets[at + 3]]));
        if end > within.end {
            break;
        }
        found.push(at..end);
        if end > at + 8 {
            elements(octets, at + 4..end, found);
        }
        at = end;
    }
    // What is no list of elements has none.
    if at != within.end {
        found.truncate(before);
    }
    at == within.end
}

fn damage(octets: &mut Vec<u8>, script: &mut Script) {
    let mut found = Vec::new();
    elements(octets, HEADER.min(octets.len())..octets.len(), &mut found);
    let end = octets.len();
    let at = usize::from(script.number());
    let element = if found.is_empty() { end..end } else { found[at % found.len()].clone() };
    match script.byte_or_zero() % 8 {
        0 if end > 0 => octets[at % end] = script.byte_or_zero(),
        1 => octets.truncate(at % (end + 1)),
        2 => drop(octets.drain(element)),
        3 => {
            let copy = octets[element.clone()].to_vec();
            octets.splice(element.start..element.start, copy);
        }
        // A length that is a little or much too large or too small.
        4 if element.len() >= 4 => octets[element.start + 2 + at % 2] ^= 1 << (script.byte_or_zero() % 8),
        // One within others of the same kind, as deep as there is room.
        5 if element.len() >= 4 => {
            let kind = [octets[element.start], octets[element.start + 1]];
            for _ in 0..script.byte_or_zero() % 40 {
                let length = (octets.len() - element.start) as u16;
                let head = [&kind[..], &length.to_be_bytes()].concat();
                octets.splice(element.start..element.start, head);
            }
        }
        // Another request under a number that was there.
        6 if end >= HEADER => octets[12..15].copy_from_slice(&[0, 0, script.byte_or_zero() % 4]),
        _ => octets.splice(element.start..element.start, script.some(at % 24).to_vec()).for_each(drop),
    }
    octets.truncate(LONGEST);
    if octets.len() >= 4 && !script.byte_or_zero().is_multiple_of(4) {
        let length = (octets.len() - 4) as u16;
        octets[2..4].copy_from_slice(&length.to_be_bytes());
    }
}

/// Filters that overlap: the first that a packet matches word for word is the one that is found, whatever
/// stands before it.
pub fn filters(bytes: &[u8]) {
    let mut script = Script::new(bytes);
    let mut builder = Builder::default();
    let mut all = Vec::new();
    for rule in 0..u16::from(script.byte_or_zero() % 40) {
        let filter = filter(&mut script);
        if builder.add(FilterContext { rule, is_local: None }, &filter).is_none() {
            break;
        }
        all.push(filter);
    }
    let filters = builder.build();
    for _ in 0..8 {
        let packet = inner(&mut script);
        let is_up = script.byte_or_zero() % 2 == 1;
        let unsuited = u16::from(script.byte_or_zero());
        let key = Key::new(&packet, is_up, false);
        let found = filters.find(&key, &packet, &[], |rule| rule != unsuited);
        let mut matching = all.iter().zip(0u16..).filter(|(filter, _)| says(filter, is_up, &packet));
        let expected = matching.find(|(_, rule)| *rule != unsuited).map(|(_, rule)| rule);
        assert_eq!(found, expected, "{packet:?} {all:?}");
    }
}

fn filter(script: &mut Script) -> Filter {
    let end = |script: &mut Script| {
        let low = u32::from(script.byte_or_zero() % 4);
        let prefix = match script.byte_or_zero() % 4 {
            0 => {
                let length = [0, 8, 31, 32][usize::from(script.byte_or_zero() % 4)];
                let kept = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
                Some(Prefix { address: Ipv4Addr::from((0x0a00_0000 | low) & kept).into(), length })
            }
            1 => {
                let length = [0, 64, 127, 128][usize::from(script.byte_or_zero() % 4)];
                let kept = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
                let address = Ipv6Addr::from((0xfd00 << 112 | u128::from(low)) & kept);
                Some(Prefix { address: address.into(), length })
            }
            _ => None,
        };
        let ports = (0..script.byte_or_zero() % 3).map(|_| {
            let first = u16::from(script.byte_or_zero() % 6);
            PortRange { first, last: (first + u16::from(script.byte_or_zero() % 3)).wrapping_sub(1) }
        });
        Endpoint { prefix, ports: ports.collect() }
    };
    Filter {
        protocol: [None, Some(17), Some(6), Some(1)][usize::from(script.byte_or_zero() % 4)],
        remote: end(script),
        local: end(script),
        tos: script.byte_or_zero().is_multiple_of(4).then(|| (script.byte_or_zero() % 4, 3)),
        flow_label: script.byte_or_zero().is_multiple_of(8).then(|| u32::from(script.byte_or_zero() % 2)),
        ..Filter::default()
    }
}

fn inner(script: &mut Script) -> Header {
    let is_v6 = script.byte_or_zero() % 2 == 1;
    let net: u128 = if is_v6 { 0xfd00 << 112 } else { 0x0a00_0000 };
    let protocol = [17, 6, 1][usize::from(script.byte_or_zero() % 3)];
    let port = |script: &mut Script| u16::from(script.byte_or_zero() % 8);
    Header {
        is_v6,
        source: net | u128::from(script.byte_or_zero() % 4),
        destination: net | u128::from(script.byte_or_zero() % 4),
        protocol,
        ports: (protocol != 1).then(|| (port(script), port(script))),
        fragment: Fragment::Whole,
        traffic_class: script.byte_or_zero() % 4,
        hops: 64,
        len: 1000,
        transport: 20,
        flow_label: if is_v6 { u32::from(script.byte_or_zero() % 2) } else { 0 },
    }
}

/// What a filter says, word for word.
fn says(filter: &Filter, is_up: bool, packet: &Header) -> bool {
    let address = |a: u128| -> IpAddr {
        if packet.is_v6 { Ipv6Addr::from(a).into() } else { Ipv4Addr::from(a as u32).into() }
    };
    let from = (address(packet.source), packet.ports.map(|(source, _)| source));
    let to = (address(packet.destination), packet.ports.map(|(_, destination)| destination));
    let (remote, local) = if is_up { (to, from) } else { (from, to) };
    let end = |end: &Endpoint, (address, port): (IpAddr, Option<u16>)| {
        end.prefix.is_none_or(|prefix| prefix.contains(address))
            && (end.ports.is_empty() || port.is_some_and(|port| end.ports.iter().any(|r| r.contains(port))))
    };
    let families = [&filter.remote, &filter.local].map(|end| end.prefix.map(|p| p.address.is_ipv6()));
    let is_family = |family: Option<bool>| family.is_none_or(|is_v6| is_v6 == packet.is_v6);
    families.into_iter().all(is_family)
        && filter.protocol.is_none_or(|protocol| protocol == packet.protocol)
        && end(&filter.remote, remote)
        && end(&filter.local, local)
        && filter.tos.is_none_or(|(value, mask)| packet.traffic_class & mask == value & mask)
        && filter.flow_label.is_none_or(|label| packet.is_v6 && packet.flow_label == label)
}
