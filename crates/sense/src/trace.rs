//! Packets of several flows as a capture holds them, for tests: all hosts that observe learn the same from
//! them.

use crate::bottleneck::FollowLaw;
use crate::{Bottleneck, Flows, Learned, Observer, PacketInfo, Way};
use weir_units::{Bytes, Duration, Time};
use weir_wire::ip::{TCP, UDP};
use weir_wire::transport::{self, Transport};
use weir_wire::{ipv4, tcp, udp};

const SERVER: [u8; 4] = [198, 51, 100, 9];
const USER: [u8; 4] = [10, 45, 0, 5];
const MSS: u32 = 1448;
/// Milliseconds that the trace lasts.
const LENGTH: u64 = 5000;
/// From then on the path is longer.
const CHANGE: u64 = 2500;
/// Headers of IPv4 and TCP, and of IPv4 and UDP.
const TCP_HEADERS: usize = ipv4::HEADER_MIN + tcp::HEADER_MIN;
const UDP_HEADERS: usize = ipv4::HEADER_MIN + udp::HEADER_LEN;
/// A packet of each flow and each direction at each step.
const KINDS: u64 = 8;

/// A packet that passes.
#[derive(Clone, Debug)]
pub struct Step {
    /// When.
    pub at: Time,
    /// In which direction.
    pub way: Way,
    /// Hash of its flow, the same in both directions.
    pub flow: u32,
    packet: [u8; 1500],
    len: usize,
}

impl Step {
    /// The packet from its IP header on.
    pub fn packet(&self) -> &[u8] {
        &self.packet[..self.len]
    }

    /// What its transport shows.
    pub fn transport(&self) -> Transport {
        transport::read(self.packet()).map_or(Transport::Other, |datagram| datagram.transport)
    }
}

/// Round-trip time between observer and user at a millisecond.
fn rtt(ms: u64) -> u64 {
    if ms < CHANGE { 40 } else { 90 }
}

/// The packets, in order: full TCP segments, TCP segments of one byte, QUIC with a spin bit, QUIC whose spin
/// bit stands still, and UDP that is not QUIC.
pub fn trace() -> impl Iterator<Item = Step> {
    (0..LENGTH * KINDS).filter_map(|n| step(n / KINDS, n % KINDS))
}

fn step(ms: u64, kind: u64) -> Option<Step> {
    let sent = ms.checked_sub(rtt(ms));
    let spin = |ms: u64| ms / 50 % 2 == 1;
    let every = |period: u64| ms.is_multiple_of(period).then_some(());
    let step =
        |way, flow| Step { at: Time::ZERO + Duration::from_millis(ms), way, flow, packet: [0; 1500], len: 0 };
    match kind {
        0 => Some(step(Way::ToUser, 1).tcp(ms as u32 * MSS, 1, MSS)),
        1 => Some(step(Way::FromUser, 1).tcp(1, (sent? as u32 + 1) * MSS, 0)),
        2 => every(10).map(|()| step(Way::ToUser, 2).tcp(ms as u32 / 10, 1, 1)),
        3 => every(10).and_then(|()| Some(step(Way::FromUser, 2).tcp(1, sent? as u32 / 10 + 1, 0))),
        4 => every(5).map(|()| step(Way::ToUser, 3).udp(0x40 | u8::from(spin(ms)) << 5, 1200)),
        5 => every(5).and_then(|()| Some(step(Way::FromUser, 3).udp(0x40 | u8::from(!spin(sent?)) << 5, 40))),
        6 => every(7).map(|()| step(Way::ToUser, 4).udp(0x40, 1200)),
        _ => every(9).map(|()| step(Way::ToUser, 5).udp(0, 700)),
    }
}

impl Step {
    fn addresses(&self) -> ([u8; 4], [u8; 4]) {
        if self.way == Way::ToUser { (SERVER, USER) } else { (USER, SERVER) }
    }

    fn ports(&self) -> (u16, u16) {
        let port = 5000 + self.flow as u16;
        if self.way == Way::ToUser { (443, port) } else { (port, 443) }
    }

    fn ip(&mut self, protocol: u8) {
        let (source, destination) = self.addresses();
        let payload_len = (self.len - ipv4::HEADER_MIN) as u16;
        let header = ipv4::Header { payload_len, protocol, ..ipv4::Header::new(source, destination) };
        let written = header.write(&mut self.packet);
        debug_assert!(written.is_ok());
    }

    fn tcp(mut self, seq: u32, ack: u32, payload: u32) -> Step {
        self.len = TCP_HEADERS + payload as usize;
        self.ip(TCP);
        let ((source, destination), (from, to)) = (self.ports(), self.addresses());
        let header = tcp::Header {
            source,
            destination,
            seq,
            ack,
            flags: tcp::ACK,
            window: 1000,
            ..Default::default()
        };
        let written = header.write_v4(from, to, &mut self.packet[ipv4::HEADER_MIN..self.len]);
        debug_assert!(written.is_ok());
        self
    }

    fn udp(mut self, first: u8, payload: usize) -> Step {
        self.len = UDP_HEADERS + payload;
        self.ip(UDP);
        self.packet[UDP_HEADERS] = first;
        let ((source, destination), (from, to)) = (self.ports(), self.addresses());
        let header = udp::Header { source, destination };
        let written = header.write_v4(from, to, &mut self.packet[ipv4::HEADER_MIN..self.len]);
        debug_assert!(written.is_ok());
        self
    }
}

/// What an observer with a bottleneck learns from each packet of the trace, while nothing waits.
pub fn learned() -> impl Iterator<Item = Learned> {
    let mut flows = Flows::<16>::default();
    let mut bottleneck = Bottleneck::new(Time::ZERO, FollowLaw::default());
    trace().map(move |step| {
        let (transport, len) = (step.transport(), Bytes::new(step.packet().len() as u64));
        let packet = PacketInfo { flow: step.flow, len, transport: &transport };
        let mut observer = Observer { flows: &mut flows, bottleneck: Some(&mut bottleneck) };
        match step.way {
            Way::ToUser => {
                if let Some(bottleneck) = &mut observer.bottleneck {
                    bottleneck.arrived(step.at, len);
                }
                observer.forwarded(step.at, &packet, false)
            }
            Way::FromUser => observer.answered(step.at, &packet, false),
        }
    })
}
