//! The packet path without ports: what is refused of rules with ports is refused here, in the same words, and
//! no packet ever comes.

use super::control::{Answer, Command};
use super::handle::{PlaneHandle, Reach};
use super::io::Nowhere;
use super::path::{PlaneEvent, PortInterface, UserPlane};
use super::setup::PlaneSetup;
use weir_units::Time;

/// Keeps rules. No time passes: nothing waits, and nobody is told of silence.
pub struct Alone(UserPlane);

impl Reach for Alone {
    fn ask(&mut self, command: Command) -> Option<Answer> {
        Some(self.0.apply(command, Time::ZERO, &mut Nowhere))
    }

    fn happened(&mut self) -> Option<PlaneEvent> {
        self.0.happened()
    }
}

/// A plane that keeps the rules that one with ports would, and forwards nothing. Memory for packets is not
/// taken.
pub fn alone(mut setup: PlaneSetup) -> Result<PlaneHandle<Alone>, String> {
    (setup.queues, setup.learners, setup.packets) = (1, 1, 1);
    let cards = [PortInterface { address: [0; 6], mtu: 1500 }; super::queueing::timing_wheel::PORTS_MAX];
    let plane = UserPlane::new(setup.clone(), &cards, Time::ZERO)?;
    Ok(PlaneHandle::new(setup, Alone(plane)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::usual;
    use crate::filter::{Endpoint, Filter, PortRange};
    use crate::rules::{PerDirection, Plane, Refusal, RuleKind, Session};
    use std::net::Ipv4Addr;
    use std::sync::Arc;

    const N3: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

    fn session(seid: u64, user: u32, teid: u32) -> Session {
        let station = (Ipv4Addr::new(192, 0, 2, 2).into(), 7);
        let rates = PerDirection { up: 1000, down: 1000 };
        let mut session = usual(seid, Ipv4Addr::from(0x0a00_0000 + user), N3, station, rates);
        session.pdrs[0].tunnel.as_mut().unwrap().teid = teid;
        session
    }

    #[test]
    fn it_refuses_what_a_plane_with_ports_refuses() {
        let setup = PlaneSetup::alone(N3, Ipv4Addr::new(198, 51, 100, 1));
        let mut desk = alone(setup).unwrap();
        desk.establish(Arc::new(session(1, 1, 1))).unwrap();
        let taken = desk.establish(Arc::new(session(2, 1, 2)));
        assert_eq!(taken, Err(Refusal::AddressTaken("10.0.0.1".parse().unwrap())));
        assert_eq!(desk.establish(Arc::new(session(2, 2, 1))), Err(Refusal::TunnelTaken(1)));
        let ports = |count: u16| -> Box<[PortRange]> {
            (0..count).map(|n| PortRange { first: 2 * n + 1, last: 2 * n + 1 }).collect()
        };
        let mut many = session(2, 2, 2);
        let ends = [32, 32].map(|count| Endpoint { prefix: None, ports: ports(count) });
        let [remote, local] = ends;
        let filter = Filter { protocol: Some(6), remote, local, ..Filter::default() };
        many.pdrs[1].filters = Box::new([filter.clone()]);
        desk.establish(Arc::new(many.clone())).unwrap();
        many.pdrs[1].filters = Box::new([filter.clone(), filter]);
        let refused = desk.modify(Arc::new(many), &[]);
        assert!(matches!(refused, Err(Refusal::Rule { kind: RuleKind::Pdr, id: 2, .. })), "{refused:?}");
        // What ends is free for others.
        desk.remove(1).unwrap();
        desk.establish(Arc::new(session(3, 1, 1))).unwrap();
    }
}
