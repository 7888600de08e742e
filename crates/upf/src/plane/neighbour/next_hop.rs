//! The way to the next hop, and whom to ask for it.

use crate::plane::egress::express::charge_port;
use crate::plane::io::{Io, longer};
use crate::plane::neighbour::table::{MESSAGE_MAX, Reach};
use crate::plane::path::{PENDING_MAX, UserPlane};
use crate::plane::status::faults::Cause;
use std::net::IpAddr;
use weir_dataplane::Frame;
use weir_units::{Duration, Rate, Time};
use weir_wire::{ethernet, ip};

/// Most packets that wait for one neighbour, so that there is room for those of others.
const PENDING_PER_HOST: usize = 8;
/// How long a packet waits for a neighbour: as long as three questions take (RFC 4861 section 10).
const PENDING_FOR: Duration = Duration::from_secs(3);

impl UserPlane {
    /// A frame that may be about neighbours, else it is nothing for us.
    #[cold]
    pub(in crate::plane) fn about_neighbours(
        &mut self,
        port: usize,
        frame: Frame,
        at: Time,
        io: &mut impl Io,
        otherwise: Cause,
    ) {
        let mut answer = [0; MESSAGE_MAX];
        let told = self.ports[port].link.take(io.bytes(frame), at, &mut answer);
        let Some(told) = told else { return self.refuse(frame, otherwise, io) };
        io.give(frame);
        if let Some(len) = told.answered {
            self.send_frame(port, &answer[..len], io);
        }
        if told.learnt.is_some() {
            for _ in 0..self.ports[port].pending.len() {
                let Some((host, frame, _)) = self.ports[port].pending.pop_front() else { break };
                let is_v6 = ip::is_v6(io.bytes(frame));
                self.send(port, frame, host, is_v6, at, io);
            }
        }
    }

    fn send_frame(&mut self, port: usize, bytes: &[u8], io: &mut impl Io) {
        match io.take(bytes.len()) {
            Some(frame) => {
                io.bytes(frame).copy_from_slice(bytes);
                io.push(port, frame);
            }
            None => self.faults.count(Cause::NoMemory),
        }
    }

    /// Sends an IP packet to a host, or to the gateway to it.
    #[inline(always)]
    pub(in crate::plane) fn send(
        &mut self,
        port: usize,
        frame: Frame,
        host: u128,
        is_v6: bool,
        at: Time,
        io: &mut impl Io,
    ) {
        let state = &mut self.ports[port];
        let Some(addresses) = state.link.recent(host, at) else {
            return self.send_to_stranger(port, frame, host, is_v6, at, io);
        };
        // While others wait for the link it is never idle, whenever the rules let this one go.
        let outgoing = longer(frame, ethernet::HEADER_LEN);
        let _ = ethernet::write(io.bytes(outgoing), addresses, ethernet::of_ip(is_v6));
        let is_busy = state.shaper.rate() != Rate::ZERO && self.agenda.first_at(port).is_some();
        let begins = if is_busy { state.shaper.departure(Time::ZERO) } else { at };
        charge_port(&mut state.shaper, begins, frame.len);
        io.push(port, outgoing);
    }

    #[cold]
    #[inline(never)]
    fn send_to_stranger(
        &mut self,
        port: usize,
        frame: Frame,
        host: u128,
        is_v6: bool,
        at: Time,
        io: &mut impl Io,
    ) {
        let reach = self.ports[port].link.search(host, at);
        if let Reach::Ask(wanted) | Reach::Confirm(_, wanted) = reach {
            self.ask_for(port, wanted, io);
        }
        match reach {
            Reach::Known(_) | Reach::Confirm(..) => self.send(port, frame, host, is_v6, at, io),
            Reach::Ask(_) | Reach::Wait => {
                let pending = &mut self.ports[port].pending;
                if pending.iter().filter(|(other, ..)| *other == host).count() >= PENDING_PER_HOST {
                    return self.refuse(frame, Cause::NoNeighbour, io);
                }
                let former = if pending.len() >= PENDING_MAX { pending.pop_front() } else { None };
                pending.push_back((host, frame, at + PENDING_FOR));
                former.into_iter().for_each(|(_, frame, _)| self.refuse(frame, Cause::NoNeighbour, io));
            }
            Reach::Nowhere => self.refuse(frame, Cause::NoNeighbour, io),
        }
    }

    /// Packets whose neighbour did not answer in time are discarded.
    #[inline]
    pub(in crate::plane) fn forget_pending(&mut self, port: usize, now: Time, io: &mut impl Io) {
        while self.ports[port].pending.front().is_some_and(|(.., until)| *until <= now) {
            let Some((_, frame, _)) = self.ports[port].pending.pop_front() else { break };
            self.refuse(frame, Cause::NoNeighbour, io);
        }
    }

    /// Asks for the neighbours that packets of a session will go to, before there are any.
    pub(in crate::plane) fn look_for(&mut self, host: u128, port: usize, at: Time, io: &mut impl Io) {
        if let Reach::Ask(wanted) = self.ports[port].link.search(host, at) {
            self.ask_for(port, wanted, io);
        }
    }

    fn ask_for(&mut self, port: usize, wanted: IpAddr, io: &mut impl Io) {
        let mut question = [0; MESSAGE_MAX];
        if let Some(len) = self.ports[port].link.write_question(&mut question, wanted) {
            self.send_frame(port, &question[..len], io);
        }
    }
}
