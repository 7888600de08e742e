//! Packets in tunnels, as far as the packet path needs them; and those of the form that nearly all have, read at once.

use super::gtpu::{self, Container, GPdu, Way};
use super::neighbours::{ETHERNET, number_of};
use super::outer::Datagram;

/// Where the message begins behind Ethernet, IPv4 without options, and UDP.
const MESSAGE: usize = ETHERNET + 20 + 8;
/// Where the packet begins: the message has a PDU session container and nothing else.
const PACKET: usize = MESSAGE + gtpu::header_len(true);
/// The least that a message is long behind its first header: with one more, an IP header, and ports.
const LEAST: usize = 8 + 20 + 4;

/// A packet in a tunnel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tunnelled {
    /// Number of the address that the tunnel ends at.
    pub host: u128,
    /// Traffic class of the outer header.
    pub tos: u8,
    /// Where the message begins in the frame.
    pub message: usize,
    /// What it says.
    pub gpdu: GPdu,
}

impl Tunnelled {
    /// What was read of a frame step by step.
    pub fn new(datagram: &Datagram, gpdu: GPdu) -> Tunnelled {
        let Datagram { is_v6, to, tos, start, .. } = *datagram;
        Tunnelled { host: number_of(is_v6, to), tos, message: ETHERNET + start, gpdu }
    }

    /// Where the packet begins in the frame, and where it ends.
    #[inline]
    pub fn bounds(&self) -> (usize, usize) {
        (self.message + self.gpdu.start, self.message + self.gpdu.end)
    }
}

/// Reads a frame that has the usual form: IPv4 without options, no fragment, UDP without checksum, a PDU session container from
/// the access side, a packet with ports, and lengths that leave no padding between. `None` for all others, which are read step by step.
#[inline(always)]
pub fn read(frame: &[u8]) -> Option<Tunnelled> {
    let head: &[u8; PACKET] = frame.first_chunk()?;
    let word = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
    let number = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    if word(12) != 0x0800 || head[14] != 0x45 || word(20) & 0x3fff != 0 || head[23] != 17 {
        return None;
    }
    if word(36) != gtpu::PORT || word(40) != 0 {
        return None;
    }
    // Version 1, an extension header; G-PDU. Its type, its length in units of four, that it comes from there, the QoS flow; that
    // it is the last.
    let extension = number(53);
    if word(42) != 0x34ff || extension & 0xffff_f000 != 0x8501_1000 || head[57] != 0 {
        return None;
    }
    let (ip, udp, message) = (usize::from(word(16)), usize::from(word(38)), usize::from(word(44)));
    if ip != udp + 20 || udp != message + 16 || message < LEAST || ip > frame.len() - ETHERNET {
        return None;
    }
    let container = Some(Container { way: Way::Up, qfi: extension as u8 & 0x3f });
    let (start, end) = (gtpu::header_len(true), gtpu::HEADER + message);
    let gpdu = GPdu { teid: number(46), container, start, end };
    Some(Tunnelled { host: number_of(false, u128::from(number(30))), tos: head[15], message: MESSAGE, gpdu })
}

#[cfg(test)]
mod tests {
    use super::super::outer::{self, Outer};
    use super::*;
    use crate::rules::RemoteTunnel;
    use proptest::prelude::*;

    fn step_by_step(frame: &[u8]) -> Option<Tunnelled> {
        let packet = &frame[ETHERNET..];
        let datagram = outer::read(packet).ok()?;
        match gtpu::read(&packet[datagram.start..datagram.end]) {
            Ok(gtpu::Message::Packet(gpdu)) => Some(Tunnelled::new(&datagram, gpdu)),
            _ => None,
        }
    }

    /// From the access side, with padding behind it.
    fn frame(len: usize) -> Vec<u8> {
        let remote = RemoteTunnel { teid: 0x1234_5678, address: "192.0.2.2".parse().unwrap(), port: 2152 };
        let outer = Outer::new("192.0.2.1".parse().unwrap(), remote, None);
        let mut frame = vec![0x45; ETHERNET + outer.overhead(true) + len];
        outer.write(&mut frame[ETHERNET..], Some(9), 0xb9);
        frame[12..14].copy_from_slice(&[8, 0]);
        frame[55] = 0x10;
        frame.extend([0; 6]);
        frame
    }

    #[test]
    fn the_usual_form_is_read_at_once() {
        let read_at_once = read(&frame(100)).unwrap();
        assert_eq!(Some(read_at_once), step_by_step(&frame(100)));
        assert_eq!((read_at_once.tos, read_at_once.bounds()), (0xb9, (58, 158)));
        assert!((0..58).all(|len| read(&frame(0)[..len]).is_none()));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn what_is_read_at_once_is_what_is_read_step_by_step(
            len in 0usize..80,
            changes in prop::collection::vec((12usize..60, any::<u8>(), any::<bool>()), 0..3),
            cut in 0usize..12,
        ) {
            let mut frame = frame(len);
            for (at, value, is_bit) in changes {
                let at = at.min(frame.len() - 1);
                frame[at] = if is_bit { frame[at] ^ 1 << (value & 7) } else { value };
            }
            frame.truncate(frame.len() - cut);
            let at_once = read(&frame);
            prop_assert!(at_once.is_none() || at_once == step_by_step(&frame));
        }
    }
}
