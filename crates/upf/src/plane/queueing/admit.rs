//! From a packet that met a rule to a packet that waits.

use crate::plane::classify::layout::{ACCESS, Rule, What};
use crate::plane::ingress::arrived::Arrived;
use crate::plane::io::Io;
use crate::plane::live::Live;
use crate::plane::path::{PlaneEvent, UserPlane};
use crate::plane::queueing::bound::Admission;
use crate::plane::queueing::queue_pool::BufferedPacket;
use crate::plane::queueing::timing_wheel::Class;
use crate::plane::status::faults::Cause;
use weir_aqm::Packet;
use weir_queue::{Arrival, Hosts};
use weir_units::{Bytes, Ecn, Rate, Time};
use weir_wire::{icmp, ip, tunnel};

/// What a line that was idle may be ahead of those that waited, in bytes: a packet.
const AHEAD_MAX: u64 = 1538;

/// What became of a packet that may go.
enum Admitted {
    /// It waits as the first of its queue or of the shaper beside it, or may be the first that may go, or was
    /// discarded.
    QueuePool,
    /// The same behind others: whatever may go by now is gone.
    Behind,
    /// It is gone.
    Passed,
}

impl UserPlane {
    /// A packet met a rule, or none.
    #[inline(never)]
    pub(in crate::plane) fn matched(
        &mut self,
        session: u32,
        rule: Option<u16>,
        is_up: bool,
        arrived: Arrived,
        io: &mut impl Io,
    ) {
        let there = "tables name sessions that are there";
        let live = self.sessions[session as usize].as_ref().expect(there);
        // What left before this one came is gone when its algorithm is asked.
        if live.waiting[usize::from(is_up)] > 0
            && live.due[usize::from(is_up)] <= Some(arrived.at)
            && self.agenda.is_later(2 * session + u32::from(is_up))
        {
            self.serve(2 * session + u32::from(is_up), arrived.at, None, io);
        }
        let mut live = self.sessions[session as usize].take().expect(there);
        let outcome = self.admit(&mut live, session, is_up, rule, &arrived, io);
        self.count_parked(&mut live);
        if let Err((cause, _)) = outcome {
            self.faults.count(cause);
            *live.usage.dropped.of(is_up) += 1;
        }
        self.sessions[session as usize] = Some(live);
        match outcome {
            Ok(Admitted::Passed) => {}
            Ok(Admitted::QueuePool) => self.serve_or_wait(session, is_up, arrived.at, io),
            Ok(Admitted::Behind) => self.stay_behind(2 * session + u32::from(is_up), arrived.at),
            Err((_, None)) => io.give(arrived.frame),
            Err((_, Some(told))) => self.tell_sender(arrived.frame, told, arrived.port, arrived.at, io),
        }
    }

    /// Brings a packet through its queue or into it, or says why not and what its sender is told.
    #[inline(always)]
    fn admit(
        &mut self,
        live: &mut Live,
        session: u32,
        is_up: bool,
        rule: Option<u16>,
        arrived: &Arrived,
        io: &mut impl Io,
    ) -> Result<Admitted, (Cause, Option<icmp::Error>)> {
        let Arrived { frame, hash, tos, hops, at, .. } = *arrived;
        let rules = if is_up { &live.program.up } else { &live.program.down };
        let rule = &rules.rules[usize::from(rule.ok_or((Cause::NoRule, None))?)];
        let Rule { id, act, queue, qfi, is_open, meters, .. } = *rule;
        if !is_open {
            return Err((Cause::Gate, None));
        }
        let way = live.program.acts.get(usize::from(act)).ok_or((Cause::Rule, None))?;
        // What is kept waiting is not late.
        let is_timed = !way.what.keeps();
        let (port, overhead) = match &way.what {
            What::Drop => return Err((Cause::Rule, None)),
            What::Buffer { tell } => {
                if *tell && live.told_waiting.is_none_or(|last| at.since(last) >= self.setup.page_again) {
                    let event = PlaneEvent::Waiting { seid: live.program.seid, pdr: id };
                    live.told_waiting = self.tell(event).then_some(at);
                }
                // As much as is still free: who is sent much leaves room for the others.
                if live.parked >= self.setup.buffered.saturating_sub(self.parked) {
                    return Err((Cause::BufferFull, None));
                }
                (ACCESS, tunnel::OVERHEAD_MAX)
            }
            What::Plain(port) => (*port, 0),
            What::Tunnel(outer) | What::Onward(outer) => (ACCESS, outer.overhead(qfi.is_some())),
        };
        let most = (self.ports[port].mtu as usize).saturating_sub(overhead);
        if frame.len as usize > most {
            return Err((Cause::TooBig, Some(icmp::Error::TooBig { most: most as u16 })));
        }
        if hops <= 1 {
            return Err((Cause::Expired, Some(icmp::Error::Expired)));
        }
        let bytes = io.bytes(frame);
        ip::take_hop(ip::is_v6(bytes), bytes);
        let generation = way.generation;
        let held =
            BufferedPacket { frame, flow: hash, act, generation, qfi, tos, meters, behind: 0, is_timed };
        live.active = at;
        live.told_inactive = false;
        let plan = &live.program.queues[usize::from(queue)];
        if plan.learns {
            self.learn_of_arrival(live, session, queue, held, at, io);
        }
        // Nobody is before it, in its session or in any line.
        if live.waiting[usize::from(is_up)] == 0
            && self.agenda.are_lines_empty()
            && self.pass(live, is_up, queue, held, at, io)
        {
            return Ok(Admitted::Passed);
        }
        self.enqueue(live, session, queue, held, at, io).ok_or((Cause::NoQueue, None))
    }

    /// Stores a packet, or lets the queue discard it; `None` if no queue is free.
    #[inline(always)]
    fn enqueue(
        &mut self,
        live: &mut Live,
        session: u32,
        queue: u8,
        mut held: BufferedPacket,
        at: Time,
        io: &mut impl Io,
    ) -> Option<Admitted> {
        let plan = &live.program.queues[usize::from(queue)];
        let (is_up, is_guaranteed) = (plan.is_up, plan.gbr > Rate::ZERO);
        let number = match live.lines[usize::from(queue)].place {
            Some(place) => place,
            None => self.place_for(live, session, queue, at)?,
        };
        let is_alone = live.waiting[usize::from(is_up)] == 0;
        let is_first = self.waits.packets(number) == 0;
        let least = if !is_alone && is_first { self.least_served(live, is_up) } else { None };
        let (place, store) = self.waits.with_store(number);
        if is_first {
            place.note_passed(std::mem::take(&mut live.lines[usize::from(queue)].passed));
        }
        // Whoever was idle may not make up for it, nor pay for what it got while nobody else wanted any.
        place.served = least.map_or(place.served, |least| place.served.clamp(least, least + AHEAD_MAX));
        let len = Bytes::new(u64::from(held.frame.len));
        let ecn = Ecn::from_bits(held.tos);
        let arrival = Arrival { len, flow: held.flow, hosts: Hosts::UNKNOWN, ecn, nqb: false };
        // What waits for other rules waits for no rate.
        let shaped = if held.is_timed { place.queue.shaped_to(store, at, &arrival) } else { None };
        let fifo = if shaped.is_none() { place.queue.fifo_of(store, held.flow) } else { None };
        let packets = place.queue.packets_of_both()[usize::from(shaped.is_some())];
        let backlog = place.queue.backlog();
        let (before, is_first) =
            fifo.map_or((backlog, false), |fifo| place.queue.bytes_before(store, fifo, len));
        // How long one waits that goes before others says nothing of those.
        let is_ahead = is_first && before > Bytes::ZERO;
        // Nobody takes more than what is left for others, so that there is always room for a flow with a
        // guarantee.
        let is_greedy = !is_guaranteed && packets >= store.free();
        let bound = place.bound.as_mut().filter(|_| held.is_timed);
        let entry = bound.map_or(Admission::InTime, |bound| bound.enter(before, len));
        held.behind = if is_ahead { 0 } else { (before + len).get() as u32 };
        held.is_timed &= entry == Admission::InTime;
        let room = match entry {
            Admission::Refused => Bytes::ZERO,
            // What comes for a flow with little takes the place of what waits for one with much.
            _ if is_greedy && fifo.is_some() => place.queue.bytes_of_fifos(),
            _ if is_greedy => Bytes::ZERO,
            _ => place.room,
        };
        (place.active, place.asked) = (at, at);
        let mut dropped = 0;
        let mut out = |_: &Packet, held: BufferedPacket, _| {
            dropped += 1;
            io.give(held.frame);
        };
        match (shaped, fifo) {
            (Some(rate), _) => place.queue.shape(store, room, rate, at, (arrival, held), &mut out),
            (None, Some(fifo)) => {
                place.queue.enqueue_in(store, fifo, room, at, (arrival, held), &mut out);
            }
            (None, None) => place.queue.enqueue(store, room, at, arrival, held, &mut out),
        }
        // What arrives was discarded, or packets of other flows were for it, or nothing.
        let waiting = &mut live.waiting[usize::from(is_up)];
        *waiting = *waiting + 1 - dropped as u32;
        *live.usage.dropped.of(is_up) += dropped;
        // It may go also where others wait for other rules.
        Some(if packets == 0 || live.parked > 0 { Admitted::QueuePool } else { Admitted::Behind })
    }

    /// The least that a line has sent of those that wait one way.
    fn least_served(&self, live: &Live, is_up: bool) -> Option<u64> {
        let peers = live.program.queues.iter().zip(&live.lines).filter(|(plan, _)| plan.is_up == is_up);
        peers.filter_map(|(_, line)| self.waits.served(line.place?)).min()
    }

    /// A queue for a line that had none; it may have been somebody else's.
    #[cold]
    fn place_for(&mut self, live: &mut Live, session: u32, queue: u8, at: Time) -> Option<u32> {
        let plan = &live.program.queues[usize::from(queue)];
        let (place, former) = self.waits.take((session, queue), plan, at)?;
        if let Some(((session, queue), counters)) = former {
            let line = match &mut self.sessions[session as usize] {
                Some(former) => &mut former.lines[usize::from(queue)],
                // It was this session's own.
                None => &mut live.lines[usize::from(queue)],
            };
            line.past = line.past.plus(&counters);
            line.place = None;
        }
        live.lines[usize::from(queue)].place = Some(place);
        Some(place)
    }

    /// A packet came behind others, which are looked at when they are due, or when their port has room.
    #[inline]
    fn stay_behind(&mut self, who: u32, at: Time) {
        if self.agenda.lined_up(who) == Some(Class::Ordinary) {
            self.move_up(who, at);
        }
    }

    /// A packet came into a queue: what may go goes, unless the session is in a line already.
    #[inline(never)]
    pub(in crate::plane) fn serve_or_wait(&mut self, session: u32, is_up: bool, at: Time, io: &mut impl Io) {
        let who = 2 * session + u32::from(is_up);
        match self.agenda.lined_up(who) {
            None => {
                self.catch_up(at, io);
                self.serve(who, at, None, io);
            }
            Some(Class::Guaranteed) => {}
            Some(Class::Ordinary) => self.move_up(who, at),
        }
    }
}
