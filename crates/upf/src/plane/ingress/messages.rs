//! Everything but packets of users: messages about tunnels, and what senders are told of packets that do not
//! go on.

use crate::plane::classify::layout::{ACCESS, CORE};
use crate::plane::io::Io;
use crate::plane::path::{PlaneEvent, UserPlane, address};
use crate::plane::status::faults::Cause;
use std::net::{IpAddr, SocketAddr};
use weir_dataplane::Frame;
use weir_units::Time;
use weir_wire::ethernet::HEADER_LEN as ETHERNET;
use weir_wire::gtpu::{self, Fault, Message};
use weir_wire::icmp;
use weir_wire::ip::{self, Header};
use weir_wire::tunnel::{self, Datagram, Encapsulation};

impl UserPlane {
    /// Everything but packets of users.
    #[cold]
    #[inline(never)]
    pub(in crate::plane) fn path_message(
        &mut self,
        frame: Frame,
        datagram: Datagram,
        at: Time,
        io: &mut impl Io,
    ) {
        let message = gtpu::read(&io.bytes(frame)[ETHERNET..][datagram.start..datagram.end]);
        io.give(frame);
        let (mut answer, mut written) = ([0; gtpu::SIGNALLING_MAX], Ok(0));
        let mut port = gtpu::PORT;
        match message {
            Ok(Message::EchoRequest { sequence }) => {
                self.faults.count(Cause::Echo);
                written = gtpu::write_echo_response(&mut answer, sequence);
                port = datagram.port;
            }
            Ok(Message::ErrorIndication { teid, peer }) => {
                self.faults.count(Cause::IndicationReceived);
                // A base station speaks for its own tunnels (TS 29.281 section 7.3.1).
                if peer == address(datagram.is_v6, datagram.from) {
                    self.tell(PlaneEvent::Unknown { teid, peer });
                } else {
                    self.faults.count(Cause::IndicationForeign);
                }
            }
            Ok(Message::EndMarker { .. }) => self.faults.count(Cause::EndMarkerReceived),
            Ok(Message::EchoResponse { .. } | Message::SupportedExtensions | Message::Packet(_)) => {}
            Err(Fault::NotComprehended(_)) => {
                self.faults.count(Cause::GtpNotComprehended);
                written = gtpu::write_supported_extensions(&mut answer);
            }
            Err(Fault::Short) => self.faults.count(Cause::GtpShort),
            Err(Fault::Version) => self.faults.count(Cause::GtpVersion),
            Err(Fault::Extension) => self.faults.count(Cause::GtpExtension),
            Err(Fault::Container) => self.faults.count(Cause::GtpContainer),
            Err(Fault::Kind(_)) => self.faults.count(Cause::GtpKind),
            Err(Fault::Element) => self.faults.count(Cause::GtpElement),
        }
        if let Ok(len @ 1..) = written {
            self.answer(&datagram, port, &answer[..len], at, io);
        }
    }

    /// Whether one more answer may be told.
    fn may_tell(&mut self, at: Time) -> bool {
        let may = self.answers.allows(at);
        if !may {
            self.faults.count(Cause::Hushed);
        }
        may
    }

    /// Sends a message back to where a datagram came from.
    fn answer(&mut self, to: &Datagram, port: u16, message: &[u8], at: Time, io: &mut impl Io) {
        if !self.may_tell(at) {
            return;
        }
        let [own, address] = [to.to, to.from].map(|a| address(to.is_v6, a));
        let outer = Encapsulation::new(own, SocketAddr::new(address, port), 0, None);
        let Some(outer) = outer else { return };
        let len = outer.head_len() + message.len();
        let Some(frame) = io.take(len) else { return self.faults.count(Cause::NoMemory) };
        let bytes = io.bytes(frame);
        bytes[len - message.len()..].copy_from_slice(message);
        if outer.write_head(bytes, 0).is_err() {
            return io.give(frame);
        }
        self.send(ACCESS, frame, outer.host(), to.is_v6, at, io);
    }

    /// A packet in a tunnel that nobody has.
    #[cold]
    #[inline(never)]
    pub(in crate::plane) fn unknown_tunnel(&mut self, frame: Frame, at: Time, io: &mut impl Io) {
        let packet = &io.bytes(frame)[ETHERNET..];
        let datagram = tunnel::read(packet);
        let message = datagram.map(|datagram| gtpu::read(&packet[datagram.start..datagram.end]));
        self.refuse(frame, Cause::NoTunnel, io);
        let (Ok(datagram), Ok(Ok(Message::Packet(gpdu)))) = (datagram, message) else { return };
        let (mut message, own) = ([0; gtpu::SIGNALLING_MAX], address(datagram.is_v6, datagram.to));
        let Ok(len) = gtpu::write_error_indication(&mut message, gpdu.teid, own) else { return };
        self.faults.count(Cause::IndicationSent);
        self.answer(&datagram, gtpu::PORT, &message[..len], at, io);
    }

    /// Tells the sender of a packet why it does not go on; the packet ends here.
    #[cold]
    #[inline(never)]
    pub(in crate::plane) fn tell_sender(
        &mut self,
        frame: Frame,
        error: icmp::Error,
        port: usize,
        at: Time,
        io: &mut impl Io,
    ) {
        let Some(inner) = Header::read(io.bytes(frame)) else { return io.give(frame) };
        let own = self.ports[if port == ACCESS { CORE } else { port }].link.own(inner.is_v6);
        let may = own.is_some() && icmp::may_tell_errors(&inner, io.bytes(frame)) && self.may_tell(at);
        let answer = if may { io.take(icmp::ERROR_MAX_V6) } else { None };
        if let (Some(answer), Some(own)) = (answer, own) {
            let about = io.bytes(frame).to_vec();
            let own = match own {
                IpAddr::V4(own) => u128::from(u32::from(own)),
                IpAddr::V6(own) => u128::from(own),
            };
            if let Ok(len) = icmp::write_error(io.bytes(answer), &about, error, own) {
                let answer = Frame { len: len as u32, ..answer };
                if port == ACCESS {
                    // It goes to the user equipment as what comes from the data network does.
                    if !self.downlink(false, answer, at, io) {
                        io.give(answer);
                    }
                } else {
                    let host = ip::mapped(inner.is_v6, inner.source);
                    self.send(port, answer, host, inner.is_v6, at, io);
                }
            } else {
                io.give(answer);
            }
        }
        io.give(frame);
    }
}
