//! What control asks of the packet path, and how it is done as a whole or not at all.

use super::classify::layout::{ACCESS, Program, User};
use super::io::Io;
use super::live::Live;
use super::path::{PlaneEvent, UserPlane, host_of};
use super::queueing::queue_pool::QueueSlot;
use super::setup::HeldTo;
use super::status::faults::Cause;
use crate::rules::{Bounds, FlowUsage, Measured, Refusal, RemoteTunnel, Usage};
use std::net::SocketAddr;
use weir_queue::Sojourns;
use weir_steer::PolicyError;
use weir_units::Time;
use weir_wire::gtpu;
use weir_wire::tunnel::Encapsulation;

/// What is asked. Whoever asks has made everything that takes memory.
pub enum Command {
    /// A session begins.
    Establish(Box<Live>),
    /// A session is to be another; tunnels end.
    Modify(Box<Live>, Box<[RemoteTunnel]>),
    /// A session ends.
    Remove(u64),
    /// What has a session done?
    Usage(u64),
    /// What have its queues done? The answer is written into this.
    Flows(u64, Vec<FlowUsage>),
    /// What have its meters counted? The answer is written into this.
    Measured(u64, Vec<Measured>),
    /// That packets of a session wait for its rules to change could not be told.
    Untold(u64),
    /// Bounds of a meter.
    Bound(u64, u8, Bounds),
    /// What was counted? The answer is written into this.
    Faults(Vec<(&'static str, u64)>),
    /// Queues are held to other policies, by number of the profile.
    Policies(Box<[HeldTo]>),
}

/// What is answered. What is not needed any more goes back to whoever asked, because freeing it takes time.
pub enum Answer {
    /// It is done.
    Done(Option<Box<Live>>),
    /// It is not, and nothing was changed.
    Refused(Refusal, Option<Box<Live>>),
    /// The session ended.
    Removed(Usage, Box<Live>),
    /// What it has done, if there is one.
    Usage(Option<Usage>),
    /// What its queues have done.
    Flows(Vec<FlowUsage>),
    /// What its meters have counted.
    Measured(Vec<Measured>),
    /// What was counted.
    Faults(Vec<(&'static str, u64)>),
    /// Whether these policies are in force.
    Policies(Box<[HeldTo]>, Result<(), PolicyError>),
}

impl UserPlane {
    /// Does what is asked.
    pub fn apply(&mut self, command: Command, now: Time, io: &mut impl Io) -> Answer {
        match command {
            Command::Establish(live) => self.establish(live, now, io),
            Command::Modify(live, ended) => self.modify(live, &ended, now, io),
            Command::Remove(seid) => self.end(seid, io),
            Command::Usage(seid) => Answer::Usage(self.session(seid).map(|live| live.usage)),
            Command::Flows(seid, mut flows) => {
                self.write_flows(seid, now, &mut flows);
                Answer::Flows(flows)
            }
            Command::Measured(seid, mut measured) => {
                measured.extend(self.session(seid).into_iter().flat_map(Live::measured));
                Answer::Measured(measured)
            }
            Command::Untold(seid) => {
                self.untold(seid, now);
                Answer::Done(None)
            }
            Command::Bound(seid, place, bounds) => {
                self.bound(seid, place, bounds);
                Answer::Done(None)
            }
            Command::Faults(mut faults) => {
                faults.extend(self.faults.named());
                Answer::Faults(faults)
            }
            Command::Policies(policies) => {
                let sessions = &self.sessions;
                let profile = |(session, queue): (u32, u8)| {
                    let live = sessions.get(session as usize)?.as_ref()?;
                    live.program.queues.get(usize::from(queue)).map(|plan| plan.profile)
                };
                let done = self.waits.hold_to(&policies, profile);
                Answer::Policies(policies, done)
            }
        }
    }

    /// A meter may have reached its new bounds already.
    fn bound(&mut self, seid: u64, place: u8, bounds: Bounds) {
        let Some(number) = self.number(seid) else { return };
        let live = self.sessions[number as usize].as_mut();
        let count = live.and_then(|live| live.counts.get_mut(usize::from(place)));
        let Some(count) = count else { return };
        (count.bounds, count.is_told) = (bounds, false);
        if count.is_due() {
            self.tell(PlaneEvent::Measured { seid });
        }
    }

    fn number(&self, seid: u64) -> Option<u32> {
        self.by_seid.get(seid)
    }

    fn session(&self, seid: u64) -> Option<&Live> {
        self.number(seid).and_then(|number| self.sessions[number as usize].as_deref())
    }

    /// Whether the keys of a session are free: no other session has one, and there is room. `own` is the
    /// session as it was, with its number, whose former keys become free.
    fn check_keys(&self, program: &Program, own: Option<(u32, &Program)>) -> Result<(), Refusal> {
        let taken = |found: Option<u32>| found.is_some() && found != own.map(|(number, _)| number);
        if let Some(teid) = program.teids.iter().find(|teid| taken(self.by_teid.get(**teid))) {
            return Err(Refusal::TunnelTaken(*teid));
        }
        if let Some(user) = program.users.iter().find(|user| taken(self.by_user.get(**user))) {
            return Err(Refusal::AddressTaken(user.address()));
        }
        let (teids, users) = own.map_or((&[][..], &[][..]), |(_, former)| (&*former.teids, &*former.users));
        let is_v6 = |user: &User| matches!(user, User::V6(_));
        let more_users = [false, true].map(|v6| more(&program.users, users, |user| is_v6(user) == v6));
        if self.by_teid.has_room(more(&program.teids, teids, |_| true)) && self.by_user.has_room(more_users) {
            Ok(())
        } else {
            Err(Refusal::NoResources("the tables of tunnels and addresses are full".into()))
        }
    }

    fn enter(&mut self, program: &Program, number: u32) {
        for teid in &program.teids {
            if self.by_teid.get(*teid).is_none() {
                self.by_teid.insert(*teid, number);
            }
        }
        for user in &program.users {
            if self.by_user.get(*user).is_none() {
                self.by_user.insert(*user, number);
            }
        }
    }

    /// Takes the keys of a session out, but for those that another has, too.
    fn leave(&mut self, program: &Program, but: Option<&Program>) {
        let stays = |teid: &u32| but.is_some_and(|but| but.teids.contains(teid));
        program.teids.iter().filter(|teid| !stays(teid)).for_each(|teid| self.by_teid.remove(*teid));
        let stays = |user: &User| but.is_some_and(|but| but.users.contains(user));
        program.users.iter().filter(|user| !stays(user)).for_each(|user| self.by_user.remove(*user));
    }

    fn establish(&mut self, mut live: Box<Live>, now: Time, io: &mut impl Io) -> Answer {
        let seid = live.program.seid;
        let refused = if self.number(seid).is_some() {
            Some(Refusal::NoSession(seid))
        } else if self.free.is_empty() {
            Some(Refusal::NoResources(format!(
                "there are {} sessions, and there can be no more",
                self.sessions.len()
            )))
        } else {
            self.check_keys(&live.program, None).err()
        };
        if let Some(refusal) = refused {
            return Answer::Refused(refusal, Some(live));
        }
        let number = self.free.pop().expect("it was just looked at");
        live.active = now;
        live.serial = self.next_serial();
        self.enter(&live.program, number);
        self.stations.come(&live);
        self.by_seid.insert(seid, number);
        self.look_for_peers(&live, now, io);
        self.sessions[number as usize] = Some(live);
        Answer::Done(None)
    }

    fn modify(&mut self, mut live: Box<Live>, ended: &[RemoteTunnel], now: Time, io: &mut impl Io) -> Answer {
        let seid = live.program.seid;
        let Some(number) = self.number(seid) else {
            return Answer::Refused(Refusal::NoSession(seid), Some(live));
        };
        let former = self.sessions[number as usize].as_deref();
        if let Err(refusal) = self.check_keys(&live.program, former.map(|former| (number, &former.program))) {
            return Answer::Refused(refusal, Some(live));
        }
        let mut former = self.sessions[number as usize].take().expect("tables name sessions that are there");
        live.succeed(&mut former);
        for (path, of) in live.paths.iter().enumerate() {
            of.learner.into_iter().for_each(|learner| self.learners.own(learner, (number, path as u8)));
        }
        former.paths.iter_mut().filter_map(|path| path.learner.take()).for_each(|at| self.learners.give(at));
        live.serial = self.next_serial();
        self.leave(&former.program, Some(&live.program));
        self.enter(&live.program, number);
        self.stations.come(&live);
        self.stations.go(&former);
        self.discard(&mut former, Some(&mut live), io);
        // What waits learns its new rates.
        let buffer = self.setup.buffer;
        for (plan, line) in live.program.queues.iter().zip(&live.lines) {
            line.place.into_iter().for_each(|place| self.waits.place(place).set_rates(plan, buffer));
        }
        self.look_for_peers(&live, now, io);
        self.count_parked(&mut live);
        self.sessions[number as usize] = Some(live);
        ended.iter().for_each(|tunnel| self.send_end_marker(*tunnel, now, io));
        // What waited for another rate or rule is looked at anew.
        for who in [2 * number, 2 * number + 1] {
            self.serve(who, now, None, io);
        }
        Answer::Done(Some(former))
    }

    fn end(&mut self, seid: u64, io: &mut impl Io) -> Answer {
        let Some(number) = self.number(seid) else { return Answer::Refused(Refusal::NoSession(seid), None) };
        let mut live = self.sessions[number as usize].take().expect("tables name sessions that are there");
        self.leave(&live.program, None);
        self.stations.go(&live);
        self.by_seid.remove(seid);
        self.discard(&mut live, None, io);
        self.count_parked(&mut live);
        live.paths.iter_mut().filter_map(|path| path.learner.take()).for_each(|at| self.learners.give(at));
        [2 * number, 2 * number + 1].into_iter().for_each(|who| self.agenda.remove(who));
        self.free.push(number);
        Answer::Removed(live.usage, live)
    }

    /// The queues of a session end with their packets, which count for the session that goes on, if one does.
    fn discard(&mut self, live: &mut Live, heir: Option<&mut Box<Live>>, io: &mut impl Io) {
        let mut dropped = [0; 2];
        for (plan, line) in live.program.queues.iter().zip(&mut live.lines) {
            let Some(place) = line.place.take() else { continue };
            self.waits.give(place, |held| {
                dropped[usize::from(plan.is_up)] += 1;
                io.give(held.frame);
            });
        }
        let heir = heir.map_or(live, |heir| &mut **heir);
        heir.usage.dropped.down += dropped[0];
        heir.usage.dropped.up += dropped[1];
        heir.waiting.iter_mut().zip(dropped).for_each(|(waiting, dropped)| *waiting -= dropped as u32);
    }

    /// Packets of a session that wait are lost, with their queues.
    pub(super) fn discard_waiting(&mut self, live: &mut Live) {
        for (plan, line) in live.program.queues.iter().zip(&mut live.lines) {
            let Some(place) = line.place.take() else { continue };
            line.past = line.past.plus(self.waits.place(place).queue.counters());
            let mut dropped = 0;
            self.waits.give(place, |_| dropped += 1);
            live.waiting[usize::from(plan.is_up)] -= dropped;
            line.past.dropped += u64::from(dropped);
            *live.usage.dropped.of(plan.is_up) += u64::from(dropped);
        }
    }

    /// A number for rules that come into force.
    fn next_serial(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    fn look_for_peers(&mut self, live: &Live, now: Time, io: &mut impl Io) {
        for act in &live.program.acts {
            if let Some(outer) = act.what.tunnel()
                && self.ports[ACCESS].link.recent(outer.host(), now).is_none()
            {
                self.look_for(outer.host(), ACCESS, now, io);
            }
        }
    }

    fn send_end_marker(&mut self, tunnel: RemoteTunnel, now: Time, io: &mut impl Io) {
        let Some(own) = self.ports[ACCESS].link.own(tunnel.address.is_ipv6()) else { return };
        let end = SocketAddr::new(tunnel.address, tunnel.port);
        let Some(outer) = Encapsulation::new(own, end, tunnel.teid, None) else { return };
        let len = outer.head_len() + gtpu::END_MARKER_LEN;
        let Some(frame) = io.take(len) else { return self.faults.count(Cause::NoMemory) };
        let bytes = io.bytes(frame);
        let marker = gtpu::write_end_marker(&mut bytes[outer.head_len()..], tunnel.teid);
        if marker.and_then(|_| outer.write_head(bytes, 0)).is_err() {
            return io.give(frame);
        }
        self.faults.count(Cause::EndMarkerSent);
        self.send(ACCESS, frame, host_of(&tunnel), outer.is_v6(), now, io);
    }

    fn write_flows(&mut self, seid: u64, now: Time, flows: &mut Vec<FlowUsage>) {
        let Some(number) = self.number(seid) else { return };
        let Some(mut live) = self.sessions[number as usize].take() else { return };
        let Live { program, lines, .. } = &mut *live;
        for (at, (plan, line)) in program.queues.iter().zip(lines).enumerate() {
            let passed = std::mem::take(&mut line.passed);
            let mut usage = FlowUsage {
                qfi: plan.qfi,
                bearer: program.bearer_of(at),
                is_uplink: plan.is_up,
                is_local: plan.is_local,
                aqm: self.waits.name(plan.profile).to_string(),
                ..FlowUsage::default()
            };
            let mut done = line.past;
            if let Some(place) = line.place.map(|at| self.waits.place(at)) {
                place.note_passed(passed);
                let QueueSlot { queue, sojourns, .. } = place;
                done = done.plus(queue.counters());
                usage.backlog = (queue.backlog().get(), queue.packets());
                usage.setpoint = queue.setpoint();
                usage.state = queue.guide().as_ref().map(|helm| helm.table_state(now));
                usage.sojourn_p95 = sojourns.take_p95();
            } else {
                let mut sojourns = Sojourns::default();
                sojourns.note_none(passed);
                usage.sojourn_p95 = sojourns.take_p95();
            }
            flows.push(FlowUsage {
                packets: done.packets,
                bytes: done.bytes,
                dropped: done.dropped,
                marked: done.marked,
                ..usage
            });
        }
        self.sessions[number as usize] = Some(live);
    }

    /// Memory of a session without packets: its rules, and its part of all tables.
    pub fn idle_bytes(&self, seid: u64) -> Option<usize> {
        let live = self.session(seid)?;
        let users = live.program.users.len() * self.by_user.bytes_per_key();
        let keys =
            self.by_seid.bytes_per_key() + live.program.teids.len() * self.by_teid.bytes_per_key() + users;
        let tables =
            keys + 2 * super::queueing::timing_wheel::TimingWheel::BYTES + size_of::<Option<Box<Live>>>();
        Some(live.bytes() + tables + size_of::<u32>())
    }

    /// Queues in use, and packets that there is room for.
    pub fn occupancy(&self) -> (usize, u32) {
        (self.waits.used(), self.waits.store.free())
    }
}

/// How many more keys that `suit` there are than before.
fn more<K: PartialEq>(keys: &[K], before: &[K], suits: impl Fn(&K) -> bool) -> usize {
    let beyond = |of: &[K], others: &[K]| of.iter().filter(|key| suits(key) && !others.contains(key)).count();
    beyond(keys, before).saturating_sub(beyond(before, keys))
}
