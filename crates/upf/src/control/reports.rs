//! What session management is told without asking: error indications, inactive sessions, packets that wait.

use super::nodes::reached_at;
use super::requests::{About, Due};
use super::{Control, Outgoing};
use crate::codec::Codec;
use crate::message::{Element, Message, Tunnel, Value, ie, kind};
use crate::rules::{Event, Plane, RemoteTunnel, Seid};
use std::net::{IpAddr, SocketAddr};
use weir_units::{Duration, Time};

/// Report Type (TS 29.244 section 8.2.21).
const DOWNLINK_DATA: u64 = 1;
const ERROR_INDICATION: u64 = 4;
const INACTIVITY: u64 = 8;
/// A tunnel that its base station does not know is reported at most so often.
const INDICATE_EVERY: Duration = Duration::from_secs(1);
/// Most tunnels of which that is remembered.
const INDICATED_MAX: usize = 4096;
/// Most events of a turn.
const EVENTS_MAX: usize = 256;

impl<P: Plane, C: Codec> Control<P, C> {
    /// Does what is due: reports, heartbeats, requests of ours that were not answered.
    pub fn tick(&mut self, now: Time, out: &mut Vec<Outgoing>) {
        for _ in 0..EVENTS_MAX {
            let Some(event) = self.plane.event() else { break };
            match event {
                Event::Measured { seid } => self.look_at(now, seid, out),
                event => self.report(now, event, out),
            }
        }
        self.look_at_usage(now, out);
        self.beat(now, out);
        self.initiate(now, out);
        for due in self.requests.due(now) {
            match due {
                Due::Again(to, datagram) => out.push(Outgoing { to, datagram: datagram.into() }),
                Due::GivenUp(_, About::Report(seid)) => {
                    self.counts.reports_lost += 1;
                    self.untold(seid);
                }
                Due::GivenUp(_, About::Usage(_)) => self.counts.reports_lost += 1,
                Due::GivenUp(to, About::Heartbeat) => {
                    self.tell(format!("{} does not answer heartbeats", to.ip()));
                }
                Due::GivenUp(_, About::Setup | About::Goodbye) => {}
            }
        }
    }

    /// Whether a tunnel may be reported again: a base station answers every packet into one that it does not
    /// know.
    fn may_indicate(&mut self, now: Time, seid: Seid, tunnel: RemoteTunnel) -> bool {
        if self.indicated.get(&(seid, tunnel)).is_some_and(|last| now.since(*last) < INDICATE_EVERY) {
            self.counts.reports_hushed += 1;
            return false;
        }
        if self.indicated.len() >= INDICATED_MAX {
            self.indicated.retain(|_, last| now.since(*last) < INDICATE_EVERY);
        }
        if self.indicated.len() >= INDICATED_MAX {
            self.counts.reports_hushed += 1;
            return false;
        }
        self.indicated.insert((seid, tunnel), now);
        true
    }

    fn report(&mut self, now: Time, event: Event, out: &mut Vec<Outgoing>) {
        if let Event::ErrorIndication { seid, tunnel } = event
            && !self.may_indicate(now, seid, tunnel)
        {
            return;
        }
        let (seid, elements) = match event {
            Event::ErrorIndication { seid, tunnel } => (seid, error_indication(tunnel)),
            Event::Inactive { seid } => (seid, vec![Element::number(ie::REPORT_TYPE, INACTIVITY)]),
            Event::DownlinkData { seid, pdr } => (seid, downlink_data(pdr)),
            Event::Measured { .. } => return,
        };
        // A session may have ended since.
        let Some(entry) = self.sessions.get(seid) else { return };
        let (to, cp_seid) = (reached_at(entry.cp_address), entry.cp_seid);
        let kind = kind::SESSION_REPORT_REQUEST;
        if self.ask(now, to, kind, Some(cp_seid), elements, About::Report(seid), out) {
            self.counts.reports += 1;
        } else {
            self.counts.reports_lost += 1;
            self.untold(seid);
        }
    }

    /// A report of a session was lost: if it was that packets wait, they would else wait for nobody.
    fn untold(&mut self, seid: Seid) {
        if self.sessions.get(seid).is_some() {
            self.plane.untold(seid);
        }
    }

    /// Sends a request of ours; false if too many wait for an answer.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn ask(
        &mut self,
        now: Time,
        to: SocketAddr,
        kind: u8,
        seid: Option<u64>,
        elements: Vec<Element>,
        about: About,
        out: &mut Vec<Outgoing>,
    ) -> bool {
        let Some(sequence) = self.requests.number(about) else { return false };
        self.send(to, &Message { kind, seid, sequence, elements }, out);
        if let Some(sent) = out.last() {
            self.requests.note(now, sequence, to, about, &sent.datagram);
        }
        true
    }

    /// Takes an answer to a request of ours.
    pub(super) fn answered(&mut self, now: Time, from: SocketAddr, message: &Message) {
        let Some(about) = self.requests.answered(message.sequence, from) else {
            self.counts.unexpected += 1;
            return;
        };
        let number = |id: u16| {
            message.elements.iter().find_map(|element| match element.value {
                Value::Number(number) if element.id == id => Some(number),
                _ => None,
            })
        };
        /// Session context not found.
        const UNKNOWN: u64 = 65;
        match about {
            About::Report(seid) | About::Usage(seid) if number(ie::CAUSE) == Some(UNKNOWN) => {
                self.tell(format!("{} does not know session {seid:#x}: it ends", from.ip()));
                self.end_session(seid);
            }
            About::Heartbeat => {
                let at = self.peers.iter().position(|peer| peer.address == from.ip());
                if let (Some(at), Some(recovery)) = (at, number(ie::RECOVERY_TIME_STAMP)) {
                    self.confirmed_start(at, recovery as u32);
                }
            }
            About::Setup => {
                let at = self.peers.iter().position(|peer| peer.address == from.ip());
                at.into_iter().for_each(|at| self.associated(now, at, message));
            }
            About::Report(_) | About::Usage(_) | About::Goodbye => {}
        }
    }
}

fn error_indication(tunnel: RemoteTunnel) -> Vec<Element> {
    let (v4, v6) = match tunnel.address {
        IpAddr::V4(v4) => (Some(v4), None),
        IpAddr::V6(v6) => (None, Some(v6)),
    };
    let remote = Element::new(ie::F_TEID, Value::Tunnel(Tunnel::Given { teid: tunnel.teid, v4, v6 }));
    let report = Element::new(ie::ERROR_INDICATION_REPORT, Value::Group(vec![remote]));
    vec![Element::number(ie::REPORT_TYPE, ERROR_INDICATION), report]
}

fn downlink_data(pdr: u16) -> Vec<Element> {
    let report = Value::Group(vec![Element::number(ie::PDR_ID, pdr)]);
    vec![Element::number(ie::REPORT_TYPE, DOWNLINK_DATA), Element::new(ie::DOWNLINK_DATA_REPORT, report)]
}
