//! GTP-U as the specification draws it, and what is wrong of it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weir_wire::gtpu::*;

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn packet(header: &str, len: usize) -> Vec<u8> {
    [hex(header), vec![0xab; len]].concat()
}

/// A packet of 100 bytes in tunnel 0x12345678, QoS flow 9.
#[test]
fn packets_are_written_as_the_specification_draws_them() {
    for (way, header) in
        [(Way::Down, "34ff006c 12345678 00000085 01000900"), (Way::Up, "34ff006c 12345678 00000085 01100900")]
    {
        let mut out = [0xff; 16];
        write_header(&mut out, 0x1234_5678, Some((way, 9)), 100).unwrap();
        assert_eq!(out.to_vec(), hex(header));
        let expected =
            GPdu { teid: 0x1234_5678, container: Some(Container { way, qfi: 9 }), start: 16, end: 116 };
        assert_eq!(read(&packet(header, 100)), Ok(Message::Packet(expected)));
    }
    let mut out = [0; 8];
    write_header(&mut out, 7, None, 100).unwrap();
    assert_eq!(out.to_vec(), hex("30ff0064 00000007"));
    let plain = GPdu { teid: 7, container: None, start: 8, end: 108 };
    assert_eq!(read(&packet("30ff0064 00000007", 103)), Ok(Message::Packet(plain)), "the rest is padding");
}

#[test]
fn headers_of_all_forms_are_passed() {
    let start = |header: &str| match read(&packet(header, 40)) {
        Ok(Message::Packet(found)) => (found.start, found.container.map(|c| c.qfi)),
        other => panic!("{other:?}"),
    };
    assert_eq!(start("32ff002c 00000007 00010000"), (12, None), "a sequence number");
    assert_eq!(start("31ff002c 00000007 00000500"), (12, None), "an N-PDU number");
    assert_eq!(start("36ff0030 00000007 00010085 01100500"), (16, Some(5)));
    // A UDP port before the container, and a container of eight octets.
    assert_eq!(start("34ff0034 00000007 00000040 01086885 01100500"), (20, Some(5)));
    assert_eq!(start("34ff0034 00000007 00000085 02100500 00000000"), (20, Some(5)));
    // Not understood, and none needs to be: service class, and one nobody knows.
    assert_eq!(start("34ff0030 00000007 00000020 01000000"), (16, None));
    assert_eq!(start("34ff0030 00000007 0000007f 01000000"), (16, None));
    // The flag says that there is no extension header, whatever the octet says.
    assert_eq!(start("32ff002c 00000007 00010085"), (12, None));
}

#[test]
fn faults_are_told_apart() {
    let fault = |header: &str, len| read(&packet(header, len)).unwrap_err();
    assert_eq!(fault("30ff00", 0), Fault::Short);
    assert_eq!(fault("30ff0009 00000007", 8), Fault::Short);
    assert_eq!(fault("34ff0003 00000007 000000", 0), Fault::Short);
    assert_eq!(fault("50ff0000 00000007", 0), Fault::Version);
    assert_eq!(fault("20ff0000 00000007", 0), Fault::Version);
    assert_eq!(fault("34ff0004 00000007 00000085", 0), Fault::Extension);
    assert_eq!(fault("34ff0008 00000007 00000085 00000000", 0), Fault::Extension);
    assert_eq!(fault("34ff0008 00000007 00000085 02000900", 0), Fault::Extension);
    assert_eq!(fault("34ff0008 00000007 000000c0 01000000", 0), Fault::NotComprehended(0xc0));
    assert_eq!(fault("34ff0008 00000007 00000084 01000000", 0), Fault::NotComprehended(0x84));
    assert_eq!(fault("34ff0008 00000007 00000085 01200900", 0), Fault::Container);
    assert_eq!(fault("30630000 00000000", 0), Fault::Kind(99));
    assert_eq!(fault("301a0000 00000000", 0), Fault::Element);
    assert_eq!(fault("301a0005 00000000 1000000007", 0), Fault::Element, "without an address");
    assert_eq!(fault("301a000b 00000000 1000000007 850003 010203", 0), Fault::Element);
    let long = format!("34ff0028 00000007 00000020 {}01000000", "01000020".repeat(8));
    assert_eq!(fault(&long, 0), Fault::Extension, "nine extension headers");
}

#[test]
fn signalling_is_answered_in_the_form_that_is_read() {
    let mut out = [0xff; SIGNALLING_MAX];
    let len = write_echo_request(&mut out, 77).unwrap();
    assert_eq!((read(&out[..len]), len), (Ok(Message::EchoRequest { sequence: 77 }), 12));
    let len = write_echo_response(&mut out, 77).unwrap();
    assert_eq!(out[..len], hex("32020006 00000000 004d0000 0e00"));
    let own = IpAddr::from(Ipv4Addr::new(192, 0, 2, 1));
    let len = write_error_indication(&mut out, 0x0a0b_0c0d, own).unwrap();
    assert_eq!(out[..len], hex("321a0010 00000000 00000000 100a0b0c0d 850004c0000201"));
    let len = write_error_indication(&mut out, 5, Ipv6Addr::LOCALHOST.into()).unwrap();
    assert_eq!(len, SIGNALLING_MAX);
    let len = write_supported_extensions(&mut out).unwrap();
    assert_eq!((read(&out[..len]), out[len - 1]), (Ok(Message::SupportedExtensions), 0x85));
    let len = write_end_marker(&mut out, 9).unwrap();
    assert_eq!(out[..len], hex("30fe0000 00000009"));
    // From a base station, with a container in it.
    assert_eq!(read(&hex("34fe0008 00000009 00000085 01000900")), Ok(Message::EndMarker { teid: 9 }));
}
