//! The plane as control sees it: rules are made ready here, and the packet path only puts them in their
//! place.

use super::classify::compile::compile;
use super::classify::rule_slots::Layout;
use super::control::{Answer, Command};
use super::live::Live;
use super::path::PlaneEvent;
use super::setup::{HeldTo, PlaneSetup};
use crate::rules::{
    Bounds, Capacity, Event, FlowUsage, METERS_MAX, Measured, Plane, Refusal, RemoteTunnel, Seid, Session,
    Usage,
};
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

/// Most tunnels that end with one change; more are refused.
pub const ENDED_MAX: usize = 32;

/// The way to the packet path.
pub trait Reach {
    /// Has it done, and waits for the answer. `None` when there is no packet path any more.
    fn ask(&mut self, command: Command) -> Option<Answer>;
    /// The oldest thing that happened and was not fetched.
    fn happened(&mut self) -> Option<PlaneEvent>;
}

struct SessionCopy {
    /// Shared by all sessions whose rules bear the same numbers, which are most.
    layout: Arc<Layout>,
    session: Arc<Session>,
}

/// The plane as control sees it: makes rules ready, and has the packet path put them in their place.
pub struct PlaneHandle<R> {
    setup: PlaneSetup,
    sessions: HashMap<Seid, SessionCopy>,
    /// Those that sessions have.
    layouts: HashSet<Arc<Layout>>,
    /// Who sends into a tunnel: an error indication names the tunnel alone.
    senders: HashMap<(IpAddr, u32), Seid>,
    reach: R,
}

fn tunnels(session: &Session) -> impl Iterator<Item = RemoteTunnel> {
    session.fars.iter().filter_map(|far| far.way()?.tunnel)
}

fn gone() -> Refusal {
    Refusal::NoResources("the packet loop has ended".into())
}

impl<R: Reach> PlaneHandle<R> {
    /// A desk before a packet path without sessions that was made with the same setup.
    pub fn new(setup: PlaneSetup, reach: R) -> PlaneHandle<R> {
        PlaneHandle {
            setup,
            sessions: HashMap::new(),
            layouts: HashSet::new(),
            senders: HashMap::new(),
            reach,
        }
    }

    /// The way to the packet path.
    pub fn reach(&mut self) -> &mut R {
        &mut self.reach
    }

    /// What the packet path counted that is no session's.
    pub fn faults(&mut self) -> Vec<(&'static str, u64)> {
        match self.reach.ask(Command::Faults(Vec::with_capacity(64))) {
            Some(Answer::Faults(faults)) => faults,
            _ => Vec::new(),
        }
    }

    /// Holds queues to other policies and set points, by number of the profile: all between two packets, or
    /// none. Profiles without a policy have none to change.
    pub fn hold_to(&mut self, policies: &[HeldTo]) -> Result<(), String> {
        match self.reach.ask(Command::Policies(policies.into())) {
            Some(Answer::Policies(_, done)) => done.map_err(|error| error.to_string()),
            _ => Err(gone().to_string()),
        }
    }

    fn note(&mut self, session: Arc<Session>, layout: Layout) {
        self.forget(session.seid);
        let layout = Arc::new(layout.settled());
        let layout = self.layouts.get(&layout).cloned().unwrap_or_else(|| {
            self.layouts.insert(layout.clone());
            layout
        });
        for tunnel in tunnels(&session) {
            self.senders.insert((tunnel.address, tunnel.teid), session.seid);
        }
        self.sessions.insert(session.seid, SessionCopy { layout, session });
    }

    fn forget(&mut self, seid: Seid) {
        let Some(known) = self.sessions.remove(&seid) else { return };
        // The table and this session had it.
        if Arc::strong_count(&known.layout) == 2 {
            self.layouts.remove(&known.layout);
        }
        for tunnel in tunnels(&known.session) {
            let key = (tunnel.address, tunnel.teid);
            if self.senders.get(&key) == Some(&seid) {
                self.senders.remove(&key);
            }
        }
    }

    /// The tunnel of a number at a host, as the rules name it, and its session.
    fn sender(&self, address: IpAddr, teid: u32) -> Option<(Seid, RemoteTunnel)> {
        let seid = *self.senders.get(&(address, teid))?;
        let session = &self.sessions.get(&seid)?.session;
        let is_it = |tunnel: &RemoteTunnel| tunnel.address == address && tunnel.teid == teid;
        tunnels(session).find(is_it).map(|tunnel| (seid, tunnel))
    }

    /// Has something done; what goes away with that.
    fn done(&mut self, command: Command) -> Result<Option<Box<Live>>, Refusal> {
        match self.reach.ask(command) {
            Some(Answer::Done(former)) => Ok(former),
            Some(Answer::Refused(refusal, _)) => Err(refusal),
            _ => Err(gone()),
        }
    }
}

impl<R: Reach> Plane for PlaneHandle<R> {
    fn establish(&mut self, session: Arc<Session>) -> Result<(), Refusal> {
        let (program, layout) = compile(&session, &self.setup, &Layout::default())?;
        let live = Box::new(Live::new(program, &layout.paths, &session.meters, self.setup.catch_up));
        self.done(Command::Establish(live))?;
        self.note(session, layout);
        Ok(())
    }

    fn modify(&mut self, session: Arc<Session>, ended: &[RemoteTunnel]) -> Result<Vec<Measured>, Refusal> {
        let known = self.sessions.get(&session.seid).ok_or(Refusal::NoSession(session.seid))?;
        if ended.len() > ENDED_MAX {
            return Err(Refusal::NoResources(format!("at most {ENDED_MAX} tunnels end with one change")));
        }
        let (program, layout) = compile(&session, &self.setup, &known.layout)?;
        let live = Box::new(Live::new(program, &layout.paths, &session.meters, self.setup.catch_up));
        let former = self.done(Command::Modify(live, ended.into()))?;
        self.note(session, layout);
        Ok(former.map_or_else(Vec::new, |former| former.measured().collect()))
    }

    fn remove(&mut self, seid: Seid) -> Result<(Usage, Vec<Measured>), Refusal> {
        match self.reach.ask(Command::Remove(seid)) {
            Some(Answer::Removed(usage, former)) => {
                self.forget(seid);
                Ok((usage, former.measured().collect()))
            }
            Some(Answer::Refused(refusal, _)) => Err(refusal),
            _ => Err(gone()),
        }
    }

    fn usage(&mut self, seid: Seid) -> Option<Usage> {
        match self.reach.ask(Command::Usage(seid)) {
            Some(Answer::Usage(usage)) => usage,
            _ => None,
        }
    }

    fn flows(&mut self, seid: Seid) -> Vec<FlowUsage> {
        match self.reach.ask(Command::Flows(seid, Vec::with_capacity(16))) {
            Some(Answer::Flows(flows)) => flows,
            _ => Vec::new(),
        }
    }

    fn measured(&mut self, seid: Seid) -> Vec<Measured> {
        match self.reach.ask(Command::Measured(seid, Vec::with_capacity(METERS_MAX))) {
            Some(Answer::Measured(measured)) => measured,
            _ => Vec::new(),
        }
    }

    fn bound(&mut self, seid: Seid, place: u8, bounds: Bounds) {
        self.reach.ask(Command::Bound(seid, place, bounds));
    }

    fn untold(&mut self, seid: Seid) {
        self.reach.ask(Command::Untold(seid));
    }

    fn event(&mut self) -> Option<Event> {
        loop {
            let event = match self.reach.happened()? {
                PlaneEvent::Inactive { seid } => Event::Inactive { seid },
                PlaneEvent::Measured { seid } => Event::Measured { seid },
                PlaneEvent::Waiting { seid, pdr } => Event::DownlinkData { seid, pdr },
                // Nobody sends there any more, or somebody made it up.
                PlaneEvent::Unknown { teid, peer } => match self.sender(peer, teid) {
                    Some((seid, tunnel)) => Event::ErrorIndication { seid, tunnel },
                    None => continue,
                },
            };
            return Some(event);
        }
    }

    fn capacity(&self) -> Capacity {
        Capacity { used: self.sessions.len(), most: self.setup.sessions as usize }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::usual;
    use crate::rules::PerDirection;
    use std::net::Ipv4Addr;

    /// Does everything.
    #[derive(Default)]
    struct Yes(HashMap<Seid, Box<Live>>);

    impl Reach for Yes {
        fn ask(&mut self, command: Command) -> Option<Answer> {
            match command {
                Command::Establish(live) | Command::Modify(live, _) => {
                    Some(Answer::Done(self.0.insert(live.program.seid, live)))
                }
                Command::Remove(seid) => Some(Answer::Removed(Usage::default(), self.0.remove(&seid)?)),
                _ => None,
            }
        }

        fn happened(&mut self) -> Option<PlaneEvent> {
            None
        }
    }

    const N3: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

    fn session(seid: u64) -> Arc<Session> {
        let station = (Ipv4Addr::new(192, 0, 2, 2).into(), 7 + seid as u32);
        let user = Ipv4Addr::from(0x0a00_0000 + seid as u32);
        Arc::new(usual(seid, user, N3, station, PerDirection { up: 1000, down: 1000 }))
    }

    #[test]
    fn a_bottleneck_is_followed_at_any_rate_and_a_gbr_flow_follows_its_own() {
        let follows = |kbps: u64| {
            let setup = PlaneSetup::alone(N3, Ipv4Addr::new(198, 51, 100, 1));
            let mut desk = PlaneHandle::new(setup, Yes::default());
            let mut session = Session::clone(&session(1));
            session.qers[0].mbr = (kbps > 0).then_some(PerDirection { up: kbps, down: kbps });
            desk.establish(Arc::new(session)).unwrap();
            desk.reach.0[&1].program.queues.iter().any(|plan| plan.follows)
        };
        assert_eq!([0, 64, 1000, 5000, 10_000, 1_000_000].map(follows), [true; 6]);
        let setup = PlaneSetup::alone(N3, Ipv4Addr::new(198, 51, 100, 1));
        let mut desk = PlaneHandle::new(setup, Yes::default());
        let mut guaranteed = Session::clone(&session(1));
        guaranteed.qers[1].gbr = Some(PerDirection { up: 0, down: 500 });
        desk.establish(Arc::new(guaranteed)).unwrap();
        let plans = |desk: &PlaneHandle<Yes>| -> Vec<(u8, bool)> {
            let down = desk.reach.0[&1].program.queues.iter().filter(|plan| !plan.is_up);
            down.map(|plan| (plan.path, plan.follows)).collect()
        };
        assert_eq!((plans(&desk), desk.reach.0[&1].paths.len()), (vec![(1, true)], 2));
    }

    #[test]
    fn sessions_with_the_same_numbers_share_a_layout_which_goes_with_the_last() {
        let setup = PlaneSetup::alone(N3, Ipv4Addr::new(198, 51, 100, 1));
        let mut desk = PlaneHandle::new(setup, Yes::default());
        (1..=50).for_each(|seid| desk.establish(session(seid)).unwrap());
        assert_eq!((desk.sessions.len(), desk.layouts.len()), (50, 1));
        // Another change does not make it another layout, and other numbers do.
        desk.modify(session(1), &[]).unwrap();
        assert_eq!(desk.layouts.len(), 1);
        let mut other = Session::clone(&session(2));
        other.qers[0].id = 77;
        other.pdrs.iter_mut().for_each(|pdr| pdr.qers = Box::new([77]));
        desk.modify(Arc::new(other), &[]).unwrap();
        assert_eq!(desk.layouts.len(), 2);
        assert!((1..=50).all(|seid| desk.remove(seid).is_ok()));
        assert_eq!((desk.sessions.len(), desk.layouts.len()), (0, 0));
    }
}
