//! Which acknowledgements may take the place of which.

use etherparse::{PacketBuilder, TcpOptionElement};
use weir_wire::PureAck;

/// What a packet of the tests differs in.
#[derive(Clone, Copy)]
struct Ack {
    v6: bool,
    port: u16,
    seq: u32,
    ack: u32,
    /// The clock of the timestamps, if there are any.
    clock: Option<u32>,
    sack: bool,
    payload: &'static [u8],
    /// Flags, and the bit of AccECN before them.
    flags: u16,
    octet: u8,
}

const PLAIN: Ack = Ack {
    v6: false,
    port: 443,
    seq: 7,
    ack: 1000,
    clock: Some(5),
    sack: false,
    payload: b"",
    flags: 0x10,
    octet: 0,
};

impl Ack {
    fn bytes(self) -> Vec<u8> {
        let mut options = Vec::new();
        options.extend(self.clock.map(|clock| TcpOptionElement::Timestamp(clock, 6)));
        if self.sack {
            options.push(TcpOptionElement::SelectiveAcknowledgement((2000, 3000), [None; 3]));
        }
        let builder = if self.v6 {
            PacketBuilder::ipv6([1; 16], [2; 16], 64)
        } else {
            PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
        };
        let mut packet = Vec::new();
        let tcp = builder.tcp(self.port, 50_000, self.seq, 1000).ack(self.ack);
        tcp.options(&options).unwrap().write(&mut packet, self.payload).unwrap();
        let tcp = if self.v6 { 40 } else { 20 };
        packet[tcp + 12] |= (self.flags >> 8) as u8;
        packet[tcp + 13] = self.flags as u8;
        if self.v6 {
            packet[0] |= self.octet >> 4;
            packet[1] |= self.octet << 4;
        } else {
            packet[1] = self.octet;
        }
        packet
    }
}

/// Whether the third takes the place of the second, before which the first waits.
fn replaces(before: Ack, last: Ack, newest: Ack) -> bool {
    let [before, last, newest] = [before, last, newest].map(Ack::bytes);
    let read = |bytes| PureAck::read(bytes);
    match (read(&before), read(&last), read(&newest)) {
        (Some(before), Some(last), Some(newest)) => newest.replaces(&last, &before),
        _ => false,
    }
}

#[test]
fn a_later_one_takes_the_place_of_an_earlier_one_in_both_families_and_across_the_wrap() {
    for v6 in [false, true] {
        for clock in [Some(5), None] {
            let of = |ack: u32| Ack { v6, clock, ack, ..PLAIN };
            assert!(replaces(of(1000), of(2000), of(3000)));
            assert!(replaces(of(u32::MAX - 1000), of(u32::MAX), of(900)));
            assert!(!replaces(of(1000), of(3000), of(2000)), "an old one that comes late");
        }
    }
    let at = |ack, clock| Ack { ack, clock: Some(clock), ..PLAIN };
    assert!(replaces(at(1, u32::MAX), at(2, u32::MAX), at(3, 4)), "the clock wraps as well");
    let marked = Ack { flags: 0x50, octet: 0x28, ..PLAIN };
    assert!(replaces(marked, Ack { ack: 2000, ..marked }, Ack { ack: 3000, ..marked }), "ECE in all");
}

#[test]
fn duplicates_and_what_says_more_stay() {
    let of = |ack: u32| Ack { ack, ..PLAIN };
    assert!(!replaces(of(1000), of(2000), of(2000)), "the new one is a duplicate");
    assert!(!replaces(of(2000), of(2000), of(3000)), "the old one is a duplicate");
    let newest = of(3000);
    for (what, differs) in [
        ("payload", Ack { payload: b"x", ..of(2000) }),
        ("SACK", Ack { sack: true, ..of(2000) }),
        ("another flow", Ack { port: 444, ..of(2000) }),
        ("SYN", Ack { flags: 0x12, ..of(2000) }),
        ("FIN", Ack { flags: 0x11, ..of(2000) }),
        ("RST", Ack { flags: 0x14, ..of(2000) }),
        ("PSH", Ack { flags: 0x18, ..of(2000) }),
        ("URG", Ack { flags: 0x30, ..of(2000) }),
        ("ECE", Ack { flags: 0x50, ..of(2000) }),
        ("CWR", Ack { flags: 0x90, ..of(2000) }),
        ("AE", Ack { flags: 0x110, ..of(2000) }),
        ("no ACK", Ack { flags: 0, ..of(2000) }),
        ("data was sent in between", Ack { seq: 6, ..of(2000) }),
        ("code point", Ack { octet: 0xb8, ..of(2000) }),
        ("CE", Ack { octet: 3, ..of(2000) }),
        ("no timestamps", Ack { clock: None, ..of(2000) }),
        ("a later clock", Ack { clock: Some(6), ..of(2000) }),
        ("family", Ack { v6: true, ..of(2000) }),
    ] {
        assert!(!replaces(of(1000), differs, newest), "{what} in the last");
        assert!(
            !replaces(of(1000), of(2000), Ack { ack: 3000, ..differs }) || differs.clock == Some(6),
            "{what}"
        );
    }
    let marked = |ack| Ack { octet: 3, ..of(ack) };
    assert!(!replaces(marked(1000), marked(2000), marked(3000)), "each mark is counted");
    // Unknown options, and those that cannot be read, may say anything.
    let mut strange = of(2000).bytes();
    strange[40] = 77;
    assert!(PureAck::read(&of(2000).bytes()).is_some() && PureAck::read(&strange).is_none());
    for len in 0..strange.len() {
        assert_eq!(PureAck::read(&of(2000).bytes()[..len]), None, "cut to {len}");
    }
}
