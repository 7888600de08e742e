//! The packet path: a packet that nothing keeps goes out at once.
//!
//! It is done to it what would be if it went into its queue and out of it, at the same time and with the same
//! outcome; only the memory between and the search for whose turn it is are left out, and the algorithm,
//! where it would not notice.

use crate::plane::classify::layout::{ACCESS, QueuePlan, What};
use crate::plane::egress::departing::Departing;
use crate::plane::egress::express::{are_free, charge, is_free};
use crate::plane::io::{Io, longer};
use crate::plane::live::Live;
use crate::plane::path::UserPlane;
use crate::plane::queueing::queue_pool::BufferedPacket;
use crate::plane::queueing::serve::{follows, follows_mut};
use crate::plane::status::faults::Cause;
use weir_queue::{Arrival, Hosts};
use weir_units::{Bytes, Ecn, Rate, Time};
use weir_wire::ip;

/// What a queue says of a packet that need not wait.
enum PassVerdict {
    /// It goes.
    Go { marked: bool },
    /// It is discarded.
    Discard,
    /// It must come in.
    Enter,
}

impl UserPlane {
    /// Lets a packet pass that finds nobody before it, if it need not wait for a rate or for the port.
    /// Whether it is gone.
    #[inline]
    pub(in crate::plane) fn pass(
        &mut self,
        live: &mut Live,
        is_up: bool,
        queue: u8,
        held: BufferedPacket,
        at: Time,
        io: &mut impl Io,
    ) -> bool {
        let line = usize::from(queue);
        let Some(port) = live.program.acts[usize::from(held.act)].port() else { return false };
        let plan = &live.program.queues[line];
        let may_go = is_free(&self.ports[port].shaper, at)
            && io.room(port) > 0
            && follows(live, line).is_none_or(|bottleneck| is_free(bottleneck, at))
            && are_free(plan, &live.limits, at);
        if !may_go {
            return false;
        }
        let marked = match self.ask(live, line, &held, at) {
            PassVerdict::Go { marked } => marked,
            PassVerdict::Enter => return false,
            PassVerdict::Discard => {
                *live.usage.dropped.of(is_up) += 1;
                io.give(held.frame);
                return true;
            }
        };
        let (plan, len) = (&live.program.queues[line], Bytes::new(u64::from(held.frame.len)));
        charge(plan, &mut live.limits, at, len);
        if let Some(bottleneck) = follows_mut(live, line) {
            bottleneck.sent(at, len);
        }
        if marked {
            ip::mark(io.bytes(held.frame));
        }
        self.forward(live, is_up, Departing { held, line, at, len, marked }, io);
        true
    }

    /// Tells a queue of a packet that need not wait, as far as it would notice.
    #[inline]
    fn ask(&mut self, live: &mut Live, line: usize, held: &BufferedPacket, at: Time) -> PassVerdict {
        let (plan, len) = (&live.program.queues[line], Bytes::new(u64::from(held.frame.len)));
        let line = &mut live.lines[line];
        if !plan.notices() {
            line.note_passed(len);
            return PassVerdict::Go { marked: false };
        }
        let Some(number) = line.place else { return PassVerdict::Enter };
        let (place, store) = self.waits.with_store(number);
        place.active = at;
        let arrival = Arrival {
            len,
            flow: held.flow,
            hosts: Hosts::UNKNOWN,
            ecn: Ecn::from_bits(held.tos),
            nqb: false,
        };
        if plan.is_asked && place.queue.shaped_to(store, at, &arrival).is_some() {
            return PassVerdict::Enter;
        }
        if plan.gbr > Rate::ZERO && is_free(&place.guaranteed, at) {
            place.guaranteed.sent(at, len);
        }
        if !plan.is_asked {
            line.note_passed(len);
            return PassVerdict::Go { marked: false };
        }
        if place.asked > at || len > place.room || store.free() == 0 {
            return PassVerdict::Enter;
        }
        place.asked = at;
        match place.queue.pass(at, arrival) {
            Ok(marked) => {
                line.passed += 1;
                PassVerdict::Go { marked }
            }
            Err(_) => PassVerdict::Discard,
        }
    }

    /// A packet goes out of a port or into a tunnel.
    #[inline]
    pub(in crate::plane) fn forward(
        &mut self,
        live: &mut Live,
        is_up: bool,
        departing: Departing,
        io: &mut impl Io,
    ) {
        let Departing { held, line, at, len, marked } = departing;
        if held.meters != 0 && !self.measure(live, is_up, held.meters, len) {
            self.faults.count(Cause::Quota);
            *live.usage.dropped.of(is_up) += 1;
            return io.give(held.frame);
        }
        live.usage.note_forwarded(is_up, len);
        let act = usize::from(held.act);
        let QueuePlan { learns, path, .. } = live.program.queues[line];
        if let Some(learner) = live.paths[usize::from(path)].learner.filter(|_| learns)
            && matches!(live.program.acts[act].what, What::Tunnel(_))
        {
            let waiting = live.lines[line].place.is_some_and(|at| self.waits.packets(at) > 0);
            let learnt = self.learners.forwarded(learner, at, held.flow, io.bytes(held.frame), waiting);
            self.apply_learnt(live, path, &learnt, at);
        }
        match &live.program.acts[act].what {
            What::Plain(port) => {
                let Some((is_v6, host)) = ip::destination(io.bytes(held.frame)) else {
                    return io.give(held.frame);
                };
                self.send(*port, held.frame, ip::mapped(is_v6, host), is_v6, at, io);
            }
            What::Tunnel(outer) | What::Onward(outer) => {
                let frame = longer(held.frame, outer.overhead(held.qfi.is_some()));
                let tos = if marked { held.tos | 3 } else { held.tos };
                // It was made as long as the headers need.
                let _ = outer.write(io.bytes(frame), held.qfi, tos);
                self.send(ACCESS, frame, outer.host(), outer.is_v6(), at, io);
            }
            What::Drop | What::Buffer { .. } => unreachable!("whoever calls has looked at what is done"),
        }
    }
}
