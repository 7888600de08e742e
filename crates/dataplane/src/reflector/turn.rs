//! Turning a probe around, in memory.

use super::KnownHost;
use std::net::IpAddr;
use weir_sense::probe::{Addresses, Probe};
use weir_wire::ethernet;

/// What is to be done with a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReflectedFrame {
    /// It is a probe of a peer and was turned around: it can be sent.
    Back,
    /// It is a probe of a stranger.
    Refused,
    /// It is something else.
    NotOurs,
}

/// Turns a frame around if it is a probe of a peer to one of our addresses: cards and addresses exchanged, a
/// hop less.
pub fn turn(frame: &mut [u8], known: &KnownHost) -> ReflectedFrame {
    let Ok(ethernet::Network { offset: network, .. }) = ethernet::network(frame) else {
        return ReflectedFrame::NotOurs;
    };
    let Ok(mut probe) = Probe::parse(&frame[network..]) else { return ReflectedFrame::NotOurs };
    let (from, to) = ends(probe.addresses);
    if !known.own.contains(&to) || probe.hops < 2 {
        return ReflectedFrame::NotOurs;
    }
    if !known.peers.contains(&from) {
        return ReflectedFrame::Refused;
    }
    probe.addresses = probe.addresses.reversed();
    probe.hops -= 1;
    if probe.write(&mut frame[network..]).is_err() {
        return ReflectedFrame::NotOurs;
    }
    ethernet::reverse(frame);
    ReflectedFrame::Back
}

fn ends(addresses: Addresses) -> (IpAddr, IpAddr) {
    match addresses {
        Addresses::V4 { source, destination } => (source.into(), destination.into()),
        Addresses::V6 { source, destination } => (source.into(), destination.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_sense::probe::Stamp;

    #[test]
    fn probes_of_peers_go_back_and_nothing_else_is_touched() {
        let known = KnownHost {
            own: ["10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap()].into(),
            peers: ["10.0.0.2".parse().unwrap(), "fd00::2".parse().unwrap()].into(),
        };
        let v6 = |last: u8| {
            let mut address = [0; 16];
            (address[0], address[15]) = (0xfd, last);
            address
        };
        for is_v6 in [false, true] {
            let frame_of = |from: u8, to: u8| {
                let addresses = match is_v6 {
                    false => Addresses::V4 { source: [10, 0, 0, from], destination: [10, 0, 0, to] },
                    true => Addresses::V6 { source: v6(from), destination: v6(to) },
                };
                let stamp = Stamp { sequence: 7, nonce: 9, sent: 11, dscp: 10 };
                let ethertype: [u8; 2] = if is_v6 { [0x86, 0xdd] } else { [8, 0] };
                let mut frame = [&[1; 6][..], &[2; 6], &ethertype, &[0; 48]].concat();
                let len = Probe::new(addresses, stamp).write(&mut frame[14..]).unwrap();
                frame.truncate(14 + len);
                frame
            };
            let mut frame = frame_of(2, 1);
            let sent = Probe::parse(&frame[14..]).unwrap();
            assert_eq!(turn(&mut frame, &known), ReflectedFrame::Back);
            let back = Probe::parse(&frame[14..]).unwrap();
            assert_eq!((&frame[..6], &frame[6..12]), (&[2; 6][..], &[1; 6][..]));
            assert_eq!((back.addresses, back.stamp), (sent.addresses.reversed(), sent.stamp));
            assert!(back.has_bounced());
            for (from, to, what) in [
                (3, 1, ReflectedFrame::Refused),
                (2, 4, ReflectedFrame::NotOurs),
                (1, 1, ReflectedFrame::Refused),
            ] {
                let before = frame_of(from, to);
                let mut after = before.clone();
                assert_eq!((turn(&mut after, &known), &after), (what, &before));
            }
            for cut in 0..frame.len() {
                assert_eq!(turn(&mut frame_of(2, 1)[..cut], &known), ReflectedFrame::NotOurs, "cut to {cut}");
            }
        }
    }
}
