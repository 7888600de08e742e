//! The packet path: a packet that nothing keeps goes out at once.
//!
//! It is done to it what would be if it went into its queue and out of it, at the same time and with the same outcome; only
//! the memory between and the search for whose turn it is are left out.

use super::faults::Cause;
use super::io::{Io, longer};
use super::layout::{ACCESS, What};
use super::live::Live;
use super::neighbours::number_of;
use super::packet;
use super::path::UserPlane;
use super::serve::follows;
use super::waits::Held;
use weir_queue::{Arrival, Hosts};
use weir_units::{Bytes, Duration, Ecn, Rate, Time};

/// A packet that left its queue.
pub(super) struct Departing {
    pub held: Held,
    pub line: usize,
    pub at: Time,
    pub len: Bytes,
    pub marked: bool,
}

impl UserPlane {
    /// Lets a packet pass that finds nobody before it, if it need not wait for a rate or for the port. Whether it is gone.
    #[inline(always)]
    pub(super) fn pass(
        &mut self,
        live: &mut Live,
        is_up: bool,
        queue: u8,
        held: Held,
        at: Time,
        io: &mut impl Io,
    ) -> bool {
        let line = usize::from(queue);
        let (plan, len) = (&live.program.queues[line], Bytes::new(u64::from(held.frame.len)));
        let port = match live.program.acts[usize::from(held.act)].what {
            What::Plain(port) => port,
            What::Tunnel(_) => ACCESS,
            What::Drop | What::Buffer { .. } => return false,
        };
        let is_free = |shaper: &weir_queue::Shaper| shaper.departure(at) <= at;
        let Some(number) = live.lines[line].place else { return false };
        let may_go =
            is_free(&self.ports[port].shaper) && io.room(port) > 0 && follows(live, line).is_none_or(is_free);
        for limit in plan.limits {
            let Some(limit) = limit else { break };
            if !is_free(&live.limits[usize::from(limit)]) {
                return false;
            }
        }
        let (place, store) = self.waits.with_store(number);
        if !may_go || place.asked > at || len > place.room || store.free() == 0 {
            return false;
        }
        (place.active, place.asked) = (at, at);
        let ecn = Ecn::from_bits(held.tos);
        let arrival = Arrival { len, flow: held.flow, hosts: Hosts::UNKNOWN, ecn };
        let Ok(marked) = place.queue.pass(at, arrival) else {
            *live.usage.dropped.of(is_up) += 1;
            io.give(held.frame);
            return true;
        };
        place.sojourns.note(Duration::ZERO);
        place.bound.iter_mut().for_each(|bound| bound.left(Duration::ZERO, held.frame.len));
        place.served += len.get();
        if plan.gbr > Rate::ZERO && is_free(&place.guaranteed) {
            place.guaranteed.sent(at, len);
        }
        for limit in plan.limits {
            let Some(limit) = limit else { break };
            live.limits[usize::from(limit)].sent(at, len);
        }
        if plan.follows
            && let Some(bottleneck) = &mut live.bottleneck
        {
            bottleneck.sent(at, len);
        }
        if marked {
            packet::mark(io.bytes(held.frame));
        }
        self.forward(live, is_up, Departing { held, line, at, len, marked }, io);
        true
    }

    /// A packet goes out of a port or into a tunnel.
    #[inline]
    pub(super) fn forward(&mut self, live: &mut Live, is_up: bool, departing: Departing, io: &mut impl Io) {
        let Departing { held, line, at, len, marked } = departing;
        if held.meters != 0 && !self.measure(live, is_up, held.meters, len) {
            self.faults.count(Cause::Quota);
            *live.usage.dropped.of(is_up) += 1;
            return io.give(held.frame);
        }
        *live.usage.packets.of(is_up) += 1;
        *live.usage.bytes.of(is_up) += len.get();
        let act = usize::from(held.act);
        if let Some(learner) = live.learner.filter(|_| live.program.queues[line].learns)
            && matches!(live.program.acts[act].what, What::Tunnel(_))
        {
            let waiting = live.lines[line].place.is_some_and(|at| self.waits.packets(at) > 0);
            let learnt = self.learners.forwarded(learner, at, held.flow, io.bytes(held.frame), waiting);
            self.apply_learnt(live, &learnt, at);
        }
        match &live.program.acts[act].what {
            What::Plain(port) => {
                let (is_v6, host) = packet::destination(io.bytes(held.frame));
                self.send(*port, held.frame, number_of(is_v6, host), is_v6, at, io);
            }
            What::Tunnel(outer) => {
                let frame = longer(held.frame, outer.overhead(held.qfi.is_some()));
                let tos = if marked { held.tos | 3 } else { held.tos };
                outer.write(io.bytes(frame), held.qfi, tos);
                self.send(ACCESS, frame, outer.host(), outer.is_v6(), at, io);
            }
            What::Drop | What::Buffer { .. } => unreachable!("whoever calls has looked at what is done"),
        }
    }
}
