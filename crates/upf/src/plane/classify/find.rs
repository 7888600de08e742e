//! Whose a packet is, and which rule it meets.

use crate::plane::classify::flows::{Flow, NotMet, RuleMatch};
use crate::plane::classify::lookup::Key;
use crate::plane::classify::stations::StationOf;
use crate::plane::io::Io;
use crate::plane::live::Live;
use crate::plane::neighbour::table::number;
use crate::plane::path::UserPlane;
use crate::plane::status::faults::Cause;
use weir_dataplane::Frame;
use weir_wire::gtpu::GPdu;
use weir_wire::ip::{self, Header};

/// Number of a session, and that of the rule that a packet meets, if it meets one.
pub(in crate::plane) type Met = (u32, Option<u16>);

impl UserPlane {
    /// What was found for a packet like this before, if the rules are the same still.
    #[inline(always)]
    pub(in crate::plane) fn recall(&self, flow: &Flow) -> Option<Met> {
        let RuleMatch { serial, session, rule } = *self.flows.get(flow)?;
        let live = self.sessions[session as usize].as_ref()?;
        (live.serial == serial).then_some((session, rule))
    }

    /// Looks up the first packet of a flow, from the user equipment or to it; `tunnel` is what it came in and
    /// the host that sent that, else it came in at a port.
    #[cold]
    #[inline(never)]
    pub(in crate::plane) fn look_up(
        &mut self,
        flow: Flow,
        frame: Frame,
        is_up: bool,
        tunnel: Option<(GPdu, u128)>,
        is_local: bool,
        io: &mut impl Io,
    ) -> Result<Met, NotMet> {
        let packet = &*io.bytes(frame);
        let gpdu = tunnel.map(|(gpdu, _)| gpdu);
        let inner = Header::read(packet).ok_or(NotMet::Nobody)?;
        let key = Key::new(&inner, is_up, is_local);
        let session = match gpdu {
            Some(gpdu) => self.by_teid.get(gpdu.teid),
            None if inner.is_v6 => self.by_user.v6.get((inner.destination >> 64) as u64),
            None => self.by_user.v4.get(inner.destination as u32),
        };
        let session = session.ok_or(NotMet::Nobody)?;
        let live = self.sessions[session as usize].as_ref().expect("tables name sessions that are there");
        let mut moved = false;
        if let Some((_, station)) = tunnel {
            let of = self.stations.of(live, station);
            moved = of == StationOf::Others;
            if of == StationOf::Nobody {
                return Err(NotMet::Refused(Cause::StationForeign));
            }
            // What a user sends to this function would come back to it by the data network, as if it were of
            // one that may.
            if is_up && self.is_own_address(ip::mapped(inner.is_v6, inner.destination)) {
                return Err(NotMet::Refused(Cause::OwnAddress));
            }
        }
        let (rule, may_note) = live.first_match(&key, &inner, packet, is_up, gpdu.as_ref());
        if may_note {
            self.flows.note(flow, RuleMatch { serial: live.serial, session, rule });
        }
        if moved {
            self.faults.count(Cause::StationMoved);
        }
        Ok((session, rule))
    }

    fn is_own_address(&self, host: u128) -> bool {
        self.ports.iter().any(|port| port.link.is_own_number(host))
            || self.setup.control.is_some_and(|own| number(own) == host)
    }
}

impl Live {
    /// The first rule that a packet matches, and whether the next packet of its flow is sure to match the
    /// same.
    fn first_match(
        &self,
        key: &Key,
        inner: &Header,
        packet: &[u8],
        is_up: bool,
        gpdu: Option<&GPdu>,
    ) -> (Option<u16>, bool) {
        let program = &self.program;
        let rules = if is_up { &program.up } else { &program.down };
        let is_of_tunnel = |number: u16| {
            let rule = &rules.rules[usize::from(number)];
            let (Some(gpdu), Some(at)) = (gpdu, rule.teid) else {
                return gpdu.is_none() && rule.teid.is_none();
            };
            let qfi = gpdu.container.map_or(0, |container| 1 << container.qfi);
            program.teids[usize::from(at)] == gpdu.teid && (rule.qfis == u64::MAX || rule.qfis & qfi != 0)
        };
        let suits = |number: u16| {
            let rule = &rules.rules[usize::from(number)];
            is_of_tunnel(number) && program.is_of_user(rule, inner.is_v6, inner.source, inner.destination)
        };
        (rules.filters.find(key, inner, packet, suits), !rules.filters.ask_beyond_flows())
    }
}

#[cfg(test)]
mod tests;
