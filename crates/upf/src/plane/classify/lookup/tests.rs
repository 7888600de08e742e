use super::*;
use crate::filter::Endpoint;
use proptest::prelude::*;
use weir_wire::flow_hash;
use weir_wire::ip::Fragment;

/// What a filter says, word for word.
fn says(filter: &Filter, is_up: bool, p: &Header) -> bool {
    let address = |a: u128| -> IpAddr {
        if p.is_v6 { std::net::Ipv6Addr::from(a).into() } else { std::net::Ipv4Addr::from(a as u32).into() }
    };
    let (source, destination) = p.ports.map_or((None, None), |(s, d)| (Some(s), Some(d)));
    let from = (address(p.source), source);
    let to = (address(p.destination), destination);
    let (remote, local) = if is_up { (to, from) } else { (from, to) };
    let end = |end: &Endpoint, (address, port): (IpAddr, Option<u16>)| {
        end.prefix.is_none_or(|prefix| prefix.contains(address))
            && (end.ports.is_empty() || port.is_some_and(|port| end.ports.iter().any(|r| r.contains(port))))
    };
    filter.protocol.is_none_or(|protocol| protocol == p.protocol)
        && end(&filter.remote, remote)
        && end(&filter.local, local)
        && filter.tos.is_none_or(|(value, mask)| p.traffic_class & mask == value & mask)
        && filter.flow_label.is_none_or(|label| p.is_v6 && p.flow_label == label)
        && filter.spi.is_none()
}

/// Few values, so that filters overlap and packets meet them.
fn prefix() -> impl Strategy<Value = Prefix> {
    let v4 = (0u32..4, prop::sample::select(vec![0u8, 8, 31, 32])).prop_map(|(low, length)| {
        let kept = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
        Prefix { address: std::net::Ipv4Addr::from((0x0a00_0000 | low) & kept).into(), length }
    });
    let v6 = (0u128..4, prop::sample::select(vec![0u8, 64, 127, 128])).prop_map(|(low, length)| {
        let kept = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
        Prefix { address: std::net::Ipv6Addr::from((0xfd00 << 112 | low) & kept).into(), length }
    });
    prop_oneof![v4, v6]
}

fn endpoint() -> impl Strategy<Value = Endpoint> {
    let range = (0u16..6, 0u16..3).prop_map(|(first, more)| PortRange { first, last: first + more });
    let ports = prop::collection::vec(range, 0..3).prop_map(Vec::into_boxed_slice);
    (prop::option::of(prefix()), ports).prop_map(|(prefix, ports)| Endpoint { prefix, ports })
}

fn filter() -> impl Strategy<Value = Filter> {
    let protocol = prop::option::of(prop::sample::select(vec![6u8, 17, 1]));
    let tos = prop::option::of((0u8..4, prop::sample::select(vec![1u8, 3])));
    (protocol, endpoint(), endpoint(), tos, prop::option::of(0u32..2)).prop_map(
        |(protocol, remote, local, tos, flow_label)| Filter {
            protocol,
            remote,
            local,
            tos,
            flow_label,
            ..Filter::default()
        },
    )
}

fn inner() -> impl Strategy<Value = Header> {
    let protocol = prop::sample::select(vec![6u8, 17, 1]);
    (any::<bool>(), 0u128..4, 0u128..4, protocol, 0u16..8, 0u16..8, 0u8..4, 0u32..2).prop_map(
        |(is_v6, source, destination, protocol, one, other, tos, label)| {
            let net: u128 = if is_v6 { 0xfd00 << 112 } else { 0x0a00_0000 };
            Header {
                is_v6,
                source: net | source,
                destination: net | destination,
                protocol,
                ports: (protocol != 1).then_some((one, other)),
                fragment: Fragment::Whole,
                traffic_class: tos,
                hops: 64,
                len: 1000,
                transport: 20,
                flow_label: if is_v6 { label } else { 0 },
            }
        },
    )
}

proptest! {
    /// Overlapping filters: the first of those that match is found, as if each were asked by itself.
    #[test]
    fn the_first_that_matches_wins(filters in prop::collection::vec(filter(), 0..40), p in inner(), is_up: bool) {
        let mut builder = Builder::default();
        for (rule, filter) in filters.iter().enumerate() {
            builder.add(FilterContext { rule: rule as u16, is_local: None }, filter).unwrap();
        }
        let found = builder.build().find(&Key::new(&p, is_up, false), &p, &[], |_| true);
        let expected = filters.iter().position(|filter| says(filter, is_up, &p));
        prop_assert_eq!(found.map(usize::from), expected);
    }

    #[test]
    fn both_directions_of_a_flow_have_one_hash(p in inner()) {
        let ports = p.ports.map(|(a, b)| (b, a));
        let back = Header { source: p.destination, destination: p.source, ports, ..p };
        prop_assert_eq!(flow_hash::of_header(7, &p, true), flow_hash::of_header(7, &back, false));
    }
}

#[test]
fn sides_are_told_apart_and_too_many_are_refused() {
    let mut builder = Builder::default();
    builder.add_any(FilterContext { rule: 0, is_local: Some(true) }).unwrap();
    builder.add_any(FilterContext { rule: 1, is_local: Some(false) }).unwrap();
    let filters = builder.build();
    let p = Header {
        is_v6: false,
        source: 1,
        destination: 2,
        protocol: 1,
        ports: None,
        fragment: Fragment::Whole,
        traffic_class: 0,
        hops: 1,
        len: 20,
        transport: 20,
        flow_label: 0,
    };
    let find = |is_local| filters.find(&Key::new(&p, false, is_local), &p, &[], |_| true);
    assert_eq!((find(true), find(false)), (Some(0), Some(1)));
    let suits = filters.find(&Key::new(&p, false, true), &p, &[], |rule| rule != 0);
    assert_eq!(suits, None);
    let ranges: Box<[PortRange]> = (0..40).map(|first| PortRange { first, last: first }).collect();
    let many = Endpoint { prefix: None, ports: ranges };
    let filter = Filter { remote: many.clone(), local: many, ..Filter::default() };
    assert_eq!(Builder::default().add(FilterContext { rule: 0, is_local: None }, &filter), None);
}
