use super::*;

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// A session message around elements.
fn around(elements: &str) -> Vec<u8> {
    let elements = hex(elements);
    let mut message = hex("2132 0000 0000000000000007 00000500");
    let length = (message.len() - 4 + elements.len()) as u16;
    message[2..4].copy_from_slice(&length.to_be_bytes());
    message.extend(elements);
    message
}

fn decoded(elements: &str) -> Vec<Element> {
    let message = Pfcp.decode(&around(elements)).unwrap();
    assert_eq!((message.kind, message.seid, message.sequence), (50, Some(7), 5));
    message.elements
}

/// From TS 29.244 sections 8.2.7 to 8.2.9: rates in kbit/s, five octets each, uplink first.
#[test]
fn a_qer_is_read_as_the_standard_writes_it() {
    let wire = "0007002e 006d000400000001 0019000100 001a000a000000c35000000186a0 001b000a00000000000000002710 \
                007c000109";
    let elements = decoded(wire);
    let expected = vec![
        Element::number(ie::QER_ID, 1u32),
        Element::number(ie::GATE_STATUS, 0u32),
        Element::new(ie::MBR, Value::Rates { up: 50_000, down: 100_000 }),
        Element::new(ie::GBR, Value::Rates { up: 0, down: 10_000 }),
        Element::number(ie::QFI, 9u32),
    ];
    assert_eq!(elements, [Element::new(ie::CREATE_QER, Value::Group(expected))]);
    let mut out = Vec::new();
    elements.iter().for_each(|element| write(element, &mut out));
    assert_eq!(out, hex(wire));
}

#[test]
fn a_filter_bears_its_description_and_more() {
    let text: String =
        "permit out ip from 192.0.2.10 443 to assigned".bytes().map(|b| format!("{b:02x}")).collect();
    let read = |wire: &str| match decoded(wire).remove(0).value {
        Value::Flow(filter) => filter,
        other => panic!("{other:?}"),
    };
    let filter = read(&format!("00170031 0100002d {text}"));
    assert_eq!(filter.description.as_deref(), Some("permit out ip from 192.0.2.10 443 to assigned"));
    let filter = read("00170010 1e00 b8fc 00000102 012345 00000007 ff");
    assert_eq!(
        filter,
        FlowFilter {
            description: None,
            tos: Some((0xb8, 0xfc)),
            spi: Some(0x102),
            flow_label: Some(0x12345),
            id: Some(7),
        }
    );
}

#[test]
fn tunnels_and_addresses_are_read() {
    let elements = decoded(
        "0015 0009 01 12345678 c0000201  0015 0002 0d 03  005d 0005 06 0a2d0001  005d 0012 41 \
         20010db8000000000000000000000000 38  0054 000a 0100 00000abc c0000202  003c 0005 00 c0000203 \
         0016 0009 08 696e7465726e6574",
    );
    let values: Vec<Value> = elements.into_iter().map(|e| e.value).collect();
    let v4 = |text: &str| Some(text.parse().unwrap());
    let prefix = Some(("2001:db8::".parse().unwrap(), 56));
    let user = |v4, v6, is_destination| UserAddress { v4, v6, is_destination, is_chosen: false };
    assert_eq!(
        values,
        [
            Value::Tunnel(Tunnel::Given { teid: 0x1234_5678, v4: v4("192.0.2.1"), v6: None }),
            Value::Tunnel(Tunnel::Choose { v4: true, v6: false, id: Some(3) }),
            Value::UserAddress(user(v4("10.45.0.1"), None, true)),
            Value::UserAddress(user(None, prefix, false)),
            Value::OuterHeader { teid: 0xabc, address: "192.0.2.2".parse().unwrap() },
            Value::Node(NodeId::Address("192.0.2.3".parse().unwrap())),
            Value::Text("internet".to_string()),
        ]
    );
}

#[test]
fn what_is_wrong_stays_in_its_place() {
    let wrong = |wire: &str| decoded(wire).remove(0).value;
    assert_eq!(wrong("0038 0001 05"), Value::Incorrect(Fault::Length));
    assert_eq!(wrong("0015 0005 01 00000001"), Value::Incorrect(Fault::Length));
    assert_eq!(wrong("0054 0006 0400 c0000201"), Value::Incorrect(Fault::Length));
    assert_eq!(wrong("0054 0008 0400 c0000201 1234"), Value::Incorrect(Fault::Unsupported));
    assert_eq!(wrong("ffff 0003 000a 01"), Value::Octets(hex("000a01")));
    assert_eq!(wrong("0002 0000"), Value::Group(Vec::new()));
    // What is long enough and contradicts itself, or is not text.
    assert_eq!(wrong("0015 0006 08 00000001 00"), Value::Incorrect(Fault::Content));
    assert_eq!(wrong("0016 0002 ffff"), Value::Incorrect(Fault::Content));
    assert_eq!(wrong("0016 0000"), Value::Incorrect(Fault::Length));
}

/// What is wrong behind a header that can be read, and the elements before that.
fn broken(octets: &[u8]) -> (Flaw, usize) {
    match Pfcp.decode(octets) {
        Err(Malformed::Broken { message, flaw }) => {
            assert_eq!((message.kind, message.seid, message.sequence), (50, Some(7), 5));
            (flaw, message.elements.len())
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_no_message_is_told_apart() {
    let whole = around("0038 0002 0001");
    assert_eq!(Pfcp.decode(&whole[..15]), Err(Malformed::Short));
    assert_eq!(Pfcp.decode(&whole[..7]), Err(Malformed::Short));
    let other = hex("4001 0004 00000900");
    assert_eq!(Pfcp.decode(&other), Err(Malformed::Version { kind: 1, sequence: 9 }));
    assert_eq!(broken(&whole[..whole.len() - 1]), (Flaw::Length, 0));
    assert_eq!(broken(&[&whole[..], &[0]].concat()), (Flaw::Length, 0));
    assert_eq!(broken(&around("003c 0005 00 c0000203 0038 0003 0001")), (Flaw::Element(56), 1));
    assert_eq!(broken(&around("0038 00")), (Flaw::Length, 0));
    // Within a group it is the element there, or the group where that cannot be told.
    assert_eq!(broken(&around("0001 0006 0038 0003 0001")), (Flaw::Element(56), 0));
    assert_eq!(broken(&around("0001 0008 0038 0002 0001 00 1d")), (Flaw::Element(1), 0));
    let many = "0038 0002 0001".repeat(ELEMENTS_MAX + 1);
    assert_eq!(broken(&around(&many)), (Flaw::TooMuch, ELEMENTS_MAX));
    let deep =
        (0..=DEPTH_MAX).fold(String::new(), |inner, _| format!("0002 {:04x} {inner}", hex(&inner).len()));
    assert_eq!(broken(&around(&deep)), (Flaw::TooMuch, 0));
}

#[test]
fn a_message_may_say_that_another_follows() {
    let mut first = around("0038 0002 0001");
    let second = around("");
    let both = |first: &[u8]| [first, &second[..]].concat();
    assert_eq!(Pfcp.split(&both(&first)), (&both(&first)[..], &[][..]), "it does not say so");
    first[0] |= FOLLOW_ON;
    let bundle = both(&first);
    let (one, other) = Pfcp.split(&bundle);
    assert_eq!((one, other), (&first[..], &second[..]));
    assert!(Pfcp.decode(one).is_ok() && Pfcp.decode(other).is_ok());
    assert_eq!(Pfcp.split(&first), (&first[..], &[][..]), "it says so, and nothing does");
    for cut in 0..bundle.len() {
        let (one, other) = Pfcp.split(&bundle[..cut]);
        assert_eq!(one.len() + other.len(), cut);
    }
}

#[test]
fn what_is_written_reads_back() {
    let v4 = Some("192.0.2.1".parse().unwrap());
    let v6 = Some("2001:db8::1".parse().unwrap());
    let elements = vec![
        Element::new(ie::F_SEID, Value::Session { seid: 1 << 40, v4, v6 }),
        Element::new(ie::F_TEID, Value::Tunnel(Tunnel::Given { teid: 9, v4, v6 })),
        Element::new(ie::F_TEID, Value::Tunnel(Tunnel::Choose { v4: true, v6: true, id: Some(1) })),
        Element::new(
            ie::OUTER_HEADER_CREATION,
            Value::OuterHeader { teid: 1, address: "::1".parse().unwrap() },
        ),
        Element::new(ie::NODE_ID, Value::Node(NodeId::Name("smf.example".into()))),
        Element::new(ie::FAILED_RULE_ID, Value::FailedRule { kind: 0, id: 300 }),
        Element::new(ie::FAILED_RULE_ID, Value::FailedRule { kind: 2, id: 70_000 }),
        Element::number(ie::APPLY_ACTION, 0x0102u64),
        Element::new(900, Value::Octets(vec![1, 2])),
    ];
    let message = Message { kind: 51, seid: Some(3), sequence: 0xff_ffff, elements };
    let mut wire = Vec::new();
    Pfcp.encode(&message, &mut wire);
    assert_eq!(Pfcp.decode(&wire).unwrap(), message);
    let bare = Message { kind: 99, seid: None, sequence: 1, elements: Vec::new() };
    wire.clear();
    Pfcp.encode(&bare, &mut wire);
    assert_eq!((wire.len(), Pfcp.decode(&wire).unwrap()), (8, bare));
}
