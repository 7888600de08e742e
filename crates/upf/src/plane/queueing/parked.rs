//! Packets that wait for the rules of their session to change, as user equipment that is idle must be paged
//! first.
//!
//! They have a part of the memory for packets, and go when nobody asked for them for long. That they wait is
//! told again while they do, because session management may have missed it.

use crate::plane::classify::layout::{Rule, What};
use crate::plane::io::Io;
use crate::plane::live::Live;
use crate::plane::path::{PlaneEvent, UserPlane};
use crate::plane::queueing::queue_pool::BufferedPacket;
use crate::plane::status::faults::Cause;
use weir_aqm::Packet;
use weir_units::{Duration, Time};

/// After which time that could not be told it is told again.
const UNTOLD: Duration = Duration::from_secs(1);

impl UserPlane {
    /// Counts the packets of a session that wait for its rules to change. Where other packets wait the same
    /// way, they count as well.
    #[inline]
    pub(in crate::plane) fn count_parked(&mut self, live: &mut Live) {
        let [down, up] = live.program.buffers;
        if live.parked == 0 && !down && !up {
            return;
        }
        let of = |buffers: bool, waiting: u32| if buffers { waiting } else { 0 };
        let parked = of(down, live.waiting[0]) + of(up, live.waiting[1]);
        self.parked = self.parked - live.parked + parked;
        live.parked = parked;
    }

    /// Packets of the session that is looked at wait for its rules to change: those that waited for too long
    /// go, and of the others it is told again after a while.
    #[cold]
    pub(in crate::plane) fn look_at_parked(&mut self, now: Time, io: &mut impl Io) {
        let Some(mut live) = self.sessions[self.idle_hand].take() else { return };
        let Live { program, lines, waiting, usage, .. } = &mut *live;
        let is_parked = |held: &BufferedPacket| program.acts[usize::from(held.act)].what.keeps();
        // Others may have waited behind them.
        let mut are_free = [false; 2];
        for (plan, line) in program.queues.iter().zip(lines) {
            let Some(number) = line.place else { continue };
            for is_shaped in [false, true] {
                loop {
                    // One in the shaper may have left it long ago, but for the rules.
                    let since = if is_shaped {
                        let head = self.waits.shaped_head(number).filter(|(_, _, held)| is_parked(held));
                        head.map(|(_, due, _)| due)
                    } else {
                        self.waits.oldest(number, is_parked)
                    };
                    if since.is_none_or(|since| now.since(since) < self.setup.buffered_for) {
                        break;
                    }
                    let (place, store) = self.waits.with_store(number);
                    let mut out = |_: &Packet, held: BufferedPacket, _| io.give(held.frame);
                    if is_shaped {
                        place.queue.shed_shaped(store, &mut out);
                    } else {
                        place.queue.shed_oldest(store, now, is_parked, &mut out);
                    }
                    waiting[usize::from(plan.is_up)] -= 1;
                    are_free[usize::from(plan.is_up)] = true;
                    *usage.dropped.of(plan.is_up) += 1;
                    self.faults.count(Cause::BufferedLong);
                }
            }
        }
        self.count_parked(&mut live);
        let is_due = live.told_waiting.is_none_or(|last| now.since(last) >= self.setup.page_again);
        if let Some(pdr) = live.asking().filter(|_| is_due && live.parked > 0) {
            let event = PlaneEvent::Waiting { seid: live.program.seid, pdr };
            live.told_waiting = self.tell(event).then_some(now);
        }
        self.sessions[self.idle_hand] = Some(live);
        let session = self.idle_hand as u32;
        for (is_up, is_free) in [false, true].into_iter().zip(are_free) {
            if is_free {
                self.serve_or_wait(session, is_up, now, io);
            }
        }
    }

    /// That packets of a session wait did not reach session management.
    pub(in crate::plane) fn untold(&mut self, seid: u64, now: Time) {
        let again = Time::ZERO + (now + UNTOLD).since(Time::ZERO + self.setup.page_again);
        let number = self.by_seid.get(seid);
        let live = number.and_then(|number| self.sessions[number as usize].as_mut());
        if let Some(told) = live.and_then(|live| live.told_waiting.as_mut()) {
            *told = again.min(*told);
        }
    }
}

impl Live {
    /// The first rule whose packets wait and of which that is to be told.
    fn asking(&self) -> Option<u16> {
        let act = |place: u8| self.program.acts.get(usize::from(place)).map(|act| &act.what);
        let asks = |rule: &&Rule| matches!(act(rule.act), Some(What::Buffer { tell: true }));
        self.program.down.rules.iter().find(asks).map(|rule| rule.id)
    }
}
