//! The packet path: from a packet that waits to a frame that goes out.
//!
//! All packets of a session that go one way are served together, in link time: each leaves at the time at
//! which its rates allow it, computed from when it and those before it came, however late this is looked at.
//! Where several queues of a session obey one rate, they take turns by bytes. Rates count IP packets, without
//! tunnel and link.

use crate::plane::classify::layout::What;
use crate::plane::egress::departing::Departing;
use crate::plane::io::Io;
use crate::plane::live::Live;
use crate::plane::path::{PlaneEvent, UserPlane};
use crate::plane::queueing::queue_pool::{BufferedPacket, QueueSlot};
use crate::plane::queueing::timing_wheel::Class;
use crate::plane::status::faults::Cause;
use weir_aqm::Packet;
use weir_queue::Shaper;
use weir_units::{Bytes, Duration, Rate, Time};
use weir_wire::ip;

/// Bytes that a session sends in one round while a port is behind.
const QUANTUM: u32 = 1538;
/// Sessions that are looked at for whether they are without packets, each time.
const IDLE_BATCH: usize = 256;
/// How often that is.
const IDLE_EVERY: Duration = Duration::from_millis(2);
/// So many times more are looked at in a turn that comes late.
const BATCHES_MAX: u64 = 8;
/// The longest that nothing has to be looked at.
const LOOK_MAX: Duration = Duration::from_millis(50);

/// What is next for a session one way.
enum Next {
    Nothing,
    /// At that time.
    Later(Time),
    /// As soon as the port takes it.
    Port(usize, Class),
}

/// The packet of a session that leaves next.
#[derive(Clone, Copy)]
struct Choice {
    line: usize,
    place: u32,
    /// Whether it waits in the shaper beside its queue, and since when nothing but rates of rules and the
    /// port keeps it.
    is_shaped: bool,
    ready: Time,
    at: Time,
    class: Class,
    /// What its queue has sent.
    served: u64,
    /// The port that it goes out of; one that is to be discarded needs none.
    port: Option<usize>,
    len: u32,
}

impl Choice {
    #[inline]
    fn is_before(&self, other: &Choice) -> bool {
        (self.class, self.at, self.served) < (other.class, other.at, other.served)
    }
}

/// The first packet of a queue, or of the shaper beside it.
struct Head<'a> {
    waiting: &'a QueueSlot,
    ready: Time,
    held: &'a BufferedPacket,
    is_shaped: bool,
}

/// Whether a packet may go by its rule, which may have been another when it came.
#[inline]
fn may_go(live: &Live, held: &BufferedPacket) -> bool {
    !live.program.acts[usize::from(held.act)].what.keeps()
}

/// The packet of a queue that may leave, or when it may; `None` if it waits for other rules.
#[inline(always)]
fn candidate(
    live: &Live,
    (line, place): (usize, u32),
    until: Time,
    head: &Head<'_>,
) -> Option<Result<Choice, Time>> {
    let Head { waiting, ready, held, is_shaped } = *head;
    let (plan, act) = (&live.program.queues[line], &live.program.acts[usize::from(held.act)]);
    if !may_go(live, held) {
        return None;
    }
    let mut at = ready.max(waiting.asked);
    for limit in plan.limits.iter().map_while(|place| live.limits.get(usize::from(*place))) {
        at = limit.departure(at);
    }
    if let Some(bottleneck) = follows(live, line) {
        at = bottleneck.departure(at);
    }
    if at > until {
        return Some(Err(at));
    }
    let is_guaranteed = plan.gbr > Rate::ZERO && waiting.guaranteed.departure(ready) <= until;
    let class = if is_guaranteed { Class::Guaranteed } else { Class::Ordinary };
    let port = act.port().filter(|_| act.generation == held.generation);
    let (served, len) = (waiting.served, held.frame.len);
    Some(Ok(Choice { line, place, is_shaped, ready, at, class, served, port, len }))
}

impl UserPlane {
    /// Sends all packets due at `now`.
    pub fn turn(&mut self, now: Time, io: &mut impl Io) {
        while let Some(who) = self.agenda.pop_due(now) {
            self.serve(who, now, None, io);
        }
        for port in 0..self.ports.len() {
            self.ports[port].shaper.looked(now);
            self.serve_port(port, now, io);
            self.forget_pending(port, now, io);
        }
        if now >= self.idle_due && !self.sessions.is_empty() {
            let late = now.since(self.idle_due);
            self.idle_due = now + IDLE_EVERY;
            self.look_at_some(now, late, io);
        }
    }

    /// Lets those go that wait for a port, in turn.
    fn serve_port(&mut self, port: usize, now: Time, io: &mut impl Io) {
        while io.room(port) > 0 && self.ports[port].shaper.departure(Time::ZERO) <= now {
            let Some(who) = self.agenda.first_at(port) else { break };
            self.agenda.remove(who);
            self.serve(who, now, Some(QUANTUM), io);
        }
    }

    /// Before a packet that came at `now` may go at once: what waited for a link behind a port left that link
    /// while it was free. Else the link would have been idle until now, with packets before it.
    #[inline]
    pub(in crate::plane) fn catch_up(&mut self, now: Time, io: &mut impl Io) {
        for port in 0..self.ports.len() {
            if self.ports[port].shaper.rate() != Rate::ZERO {
                self.serve_port(port, now, io);
            }
        }
    }

    /// When something may go that does not go yet.
    pub fn next_event(&self, now: Time) -> Time {
        let in_line = |port: usize| self.agenda.first_at(port).is_some();
        let behind = (0..self.ports.len()).filter(|port| in_line(*port));
        let ports = behind.map(|port| self.ports[port].shaper.departure(now)).min();
        let due = self.agenda.next(now, LOOK_MAX);
        ports.map_or(due, |at| at.min(due))
    }

    /// Looks at some sessions, at more after a longer time: what was inactive for long, what waits for too
    /// long, and what should be told again.
    fn look_at_some(&mut self, now: Time, late: Duration, io: &mut impl Io) {
        let batches = 1 + (late.as_nanos() / IDLE_EVERY.as_nanos()).min(BATCHES_MAX) as usize;
        for _ in 0..(batches * IDLE_BATCH).min(self.sessions.len()) {
            self.idle_hand = (self.idle_hand + 1) % self.sessions.len();
            if self.sessions[self.idle_hand].as_ref().is_some_and(|live| live.parked > 0) {
                self.look_at_parked(now, io);
            }
            let Some(live) = &mut self.sessions[self.idle_hand] else { continue };
            let is_over = live.program.inactivity.is_some_and(|most| now.since(live.active) >= most);
            if is_over && !live.told_inactive {
                live.told_inactive = true;
                let seid = live.program.seid;
                self.tell(PlaneEvent::Inactive { seid });
            }
        }
    }

    /// Sends what a session may send one way until then, with a budget at most about so many bytes.
    #[inline(never)]
    pub(in crate::plane) fn serve(&mut self, who: u32, until: Time, budget: Option<u32>, io: &mut impl Io) {
        let (session, is_up) = ((who / 2) as usize, who % 2 == 1);
        // A session may be gone since it was noted.
        let Some(mut live) = self.sessions[session].take() else { return self.agenda.remove(who) };
        let followed = live.paths.iter_mut().filter_map(|path| path.shaper.as_mut());
        live.limits.iter_mut().chain(followed).for_each(|limit| limit.looked(until));
        let next = self.send_until(&mut live, is_up, until, budget, io);
        live.due[usize::from(is_up)] = if let Next::Later(at) = next { Some(at) } else { None };
        self.count_parked(&mut live);
        self.sessions[session] = Some(live);
        match next {
            Next::Nothing => self.agenda.remove(who),
            Next::Later(at) => self.agenda.later(who, at),
            Next::Port(port, class) => self.agenda.line_up(who, port, class),
        }
    }

    /// A session in a line has a packet within its guarantee now: it goes before the others.
    pub(in crate::plane) fn move_up(&mut self, who: u32, now: Time) {
        let Some(live) = self.sessions[(who / 2) as usize].take() else { return };
        if let Ok(choice) = self.choose(&live, who % 2 == 1, now)
            && choice.class == Class::Guaranteed
            && let Some(port) = choice.port
        {
            self.agenda.line_up(who, port, Class::Guaranteed);
        }
        self.sessions[(who / 2) as usize] = Some(live);
    }

    #[inline]
    fn send_until(
        &mut self,
        live: &mut Live,
        is_up: bool,
        until: Time,
        mut budget: Option<u32>,
        io: &mut impl Io,
    ) -> Next {
        loop {
            let choice = match self.choose(live, is_up, until) {
                Ok(choice) => choice,
                Err(next) => return next.map_or(Next::Nothing, Next::Later),
            };
            let mut at = choice.at;
            if let Some(port) = choice.port {
                let shaper = &self.ports[port].shaper;
                if shaper.rate() != Rate::ZERO {
                    at = shaper.departure(at);
                }
                let is_spent = budget == Some(0);
                if is_spent || at > until || io.room(port) == 0 {
                    return Next::Port(port, choice.class);
                }
            }
            self.send_one(live, is_up, &choice, at, io);
            budget = budget.map(|left| left.saturating_sub(choice.len));
        }
    }

    /// The packet that leaves next, or when there will be one.
    #[inline(always)]
    fn choose(&mut self, live: &Live, is_up: bool, until: Time) -> Result<Choice, Option<Time>> {
        let (mut best, mut later): (Option<Choice>, Option<Time>) = (None, None);
        for (line, plan) in live.program.queues.iter().enumerate() {
            let Some(place) = live.lines[line].place.filter(|_| plan.is_up == is_up) else { continue };
            let mut take = |found: Result<Choice, Time>| match found {
                Ok(choice) if best.as_ref().is_none_or(|best: &Choice| choice.is_before(best)) => {
                    best = Some(choice);
                }
                Ok(_) => {}
                Err(at) => later = Some(later.map_or(at, |other: Time| other.min(at))),
            };
            // What its shaper lets go goes first: that is not more than a share.
            if self.waits.has_shaped(place) {
                self.shaped_candidate(live, (line, place), until).into_iter().for_each(&mut take);
            }
            let head = self.waits.head(place, |held| may_go(live, held));
            let Some((waiting, ready, held)) = head else { continue };
            let head = Head { waiting, ready, held, is_shaped: false };
            candidate(live, (line, place), until, &head).into_iter().for_each(&mut take);
        }
        best.ok_or(later)
    }

    #[cold]
    #[inline(never)]
    fn shaped_candidate(
        &mut self,
        live: &Live,
        of: (usize, u32),
        until: Time,
    ) -> Option<Result<Choice, Time>> {
        let (waiting, ready, held) = self.waits.shaped_head(of.1)?;
        candidate(live, of, until, &Head { waiting, ready, held, is_shaped: true })
    }

    #[inline]
    fn send_one(&mut self, live: &mut Live, is_up: bool, choice: &Choice, at: Time, io: &mut impl Io) {
        let (place, store) = self.waits.with_store(choice.place);
        let mut dropped = 0;
        let mut out = |_: &Packet, held: BufferedPacket, _| {
            dropped += 1;
            io.give(held.frame);
        };
        let departure = if choice.is_shaped {
            place.queue.take_shaped(store, at, &mut out)
        } else {
            place.queue.dequeue(store, at, |held| may_go(live, held), &mut out)
        };
        *live.usage.dropped.of(is_up) += dropped;
        live.waiting[usize::from(is_up)] -= dropped as u32 + u32::from(departure.is_some());
        let Some(departure) = departure else { return };
        place.sojourns.note(departure.sojourn);
        if let Some(bound) = place.bound.as_mut().filter(|_| departure.item.is_timed) {
            bound.left(departure.sojourn, departure.item.behind);
        }
        let (packet, len) = (&departure.packet, departure.packet.len);
        let ready = if choice.is_shaped { choice.ready } else { packet.arrived };
        place.served += len.get();
        place.asked = at;
        if choice.class == Class::Guaranteed {
            // One that went before others does not forfeit what these have earned.
            let oldest =
                place.queue.oldest(store, |held| may_go(live, held)).map(|(packet, _)| packet.arrived);
            let earned = place.guaranteed.departure(oldest.map_or(ready, |oldest| oldest.min(ready)));
            place.guaranteed.sent(earned, len);
        }
        let plan = &live.program.queues[choice.line];
        for place in plan.limits {
            let Some(limit) = live.limits.get_mut(usize::from(place)) else { break };
            charge(limit, ready, len);
        }
        if let Some(bottleneck) = follows_mut(live, choice.line) {
            charge(bottleneck, ready, len);
        }
        let held = departure.item;
        if departure.marked {
            ip::mark(io.bytes(held.frame));
        }
        self.go(live, is_up, Departing { held, line: choice.line, at, len, marked: departure.marked }, io);
    }

    /// A packet goes its way, as its rule says now.
    #[inline]
    fn go(&mut self, live: &mut Live, is_up: bool, departing: Departing, io: &mut impl Io) {
        let act = &live.program.acts[usize::from(departing.held.act)];
        if act.generation != departing.held.generation || matches!(act.what, What::Drop | What::Buffer { .. })
        {
            self.faults.count(Cause::Rule);
            *live.usage.dropped.of(is_up) += 1;
            return io.give(departing.held.frame);
        }
        self.forward(live, is_up, departing, io);
    }
}

impl UserPlane {
    /// Counts a packet that is forwarded; `false` if a quota does not let it.
    #[inline(never)]
    pub(in crate::plane) fn measure(
        &mut self,
        live: &mut Live,
        is_up: bool,
        meters: u16,
        len: Bytes,
    ) -> bool {
        let is_of = |place: usize| meters >> place & 1 == 1;
        let counts = || live.counts.iter().enumerate().filter(|(place, _)| is_of(*place));
        if counts().any(|(_, count)| count.bounds.stop.are_reached(count.bytes)) {
            return false;
        }
        let mut is_due = false;
        for (_, count) in live.counts.iter_mut().enumerate().filter(|(place, _)| is_of(*place)) {
            count.add(is_up, len);
            is_due |= count.is_due();
        }
        if is_due {
            self.tell(PlaneEvent::Measured { seid: live.program.seid });
        }
        true
    }
}

/// A rate is charged at the time at which it alone would have let the packet go: what another rate or the
/// port cost it is not lost, as far as it is made up for at all.
#[inline]
fn charge(limit: &mut Shaper, ready: Time, len: Bytes) {
    limit.sent(limit.departure(ready), len);
}

/// The bottleneck that a queue follows.
#[inline]
pub(in crate::plane) fn follows(live: &Live, line: usize) -> Option<&Shaper> {
    let plan = &live.program.queues[line];
    if plan.follows { live.paths[usize::from(plan.path)].shaper.as_ref() } else { None }
}

/// The same, to charge it.
#[inline]
pub(in crate::plane) fn follows_mut(live: &mut Live, line: usize) -> Option<&mut Shaper> {
    let plan = &live.program.queues[line];
    if plan.follows { live.paths[usize::from(plan.path)].shaper.as_mut() } else { None }
}
