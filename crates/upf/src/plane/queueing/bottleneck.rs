//! What the packets of a session tell of the bottleneck behind the base station, passed on to those that use
//! it.

use crate::plane::classify::layout::QueuePlan;
use crate::plane::io::Io;
use crate::plane::live::{Line, Live};
use crate::plane::path::UserPlane;
use crate::plane::queueing::learn::{Learnt, follow};
use crate::plane::queueing::queue_pool::{BufferedPacket, QueuePool};
use weir_queue::Shaper;
use weir_units::{Rate, Time};

impl UserPlane {
    /// What is learnt before the queue: from the user equipment all, to it that something came.
    #[inline(never)]
    pub(in crate::plane) fn learn_of_arrival(
        &mut self,
        live: &mut Live,
        session: u32,
        is_up: bool,
        held: BufferedPacket,
        at: Time,
        io: &mut impl Io,
    ) {
        let learner = match live.learner {
            Some(learner) => learner,
            None => {
                let Some((learner, former)) = self.learners.take(session, at) else { return };
                if let Some(former) = former.and_then(|former| self.sessions[former as usize].as_mut()) {
                    (former.learner, former.bottleneck) = (None, None);
                    forget(&former.program.queues, &former.lines, &mut self.waits);
                }
                live.learner = Some(learner);
                learner
            }
        };
        if is_up {
            let waiting = self.is_waiting(live);
            let learnt = self.learners.returned(learner, at, held.flow, io.bytes(held.frame), waiting);
            self.apply_learnt(live, &learnt, at);
        } else {
            self.learners.arrived(learner, at, held.frame.len as u16);
        }
    }

    /// Whether packets to the user equipment wait here.
    fn is_waiting(&self, live: &Live) -> bool {
        let down = live.program.queues.iter().zip(&live.lines).filter(|(plan, _)| !plan.is_up);
        let mut places = down.filter_map(|(_, line)| line.place);
        places.any(|place| self.waits.packets(place) > 0)
    }

    /// Passes on what was learnt to the session of that number.
    #[inline(never)]
    pub(in crate::plane) fn apply_learnt_of(&mut self, session: u32, learnt: &Learnt, at: Time) {
        let Some(mut live) = self.sessions[session as usize].take() else { return };
        self.apply_learnt(&mut live, learnt, at);
        self.sessions[session as usize] = Some(live);
    }

    /// Passes on what was learnt: to the algorithms of the queues to the user equipment, and to their rate.
    #[inline(never)]
    pub(in crate::plane) fn apply_learnt(&mut self, live: &mut Live, learnt: &Learnt, at: Time) {
        if let Some(rate) = learnt.rate
            && live.program.queues.iter().any(|plan| plan.follows)
        {
            follow(&mut live.bottleneck, rate, self.setup.catch_up);
        }
        if learnt.samples.iter().all(Option::is_none) {
            return;
        }
        for (plan, line) in live.program.queues.iter().zip(&live.lines) {
            let Some(place) = line.place.filter(|_| plan.learns && !plan.is_up) else { continue };
            let queue = &mut self.waits.place(place).queue;
            learnt.samples.iter().flatten().for_each(|sample| queue.sample(at, *sample));
            if !plan.follows {
                continue;
            }
            let rate = live
                .bottleneck
                .as_ref()
                .map(Shaper::rate)
                .filter(|rate| *rate < plan.rate || plan.rate == Rate::ZERO);
            queue.set_rate(rate.unwrap_or(plan.rate));
            self.waits.fit(place, plan, learnt.tolerated.filter(|_| rate.is_some()));
        }
    }
}

/// The bottleneck of queues is not known any more.
fn forget(queues: &[QueuePlan], lines: &[Line], waits: &mut QueuePool) {
    for (plan, line) in queues.iter().zip(lines).filter(|(plan, _)| plan.follows) {
        let Some(place) = line.place else { continue };
        waits.place(place).queue.set_rate(plan.rate);
        waits.fit(place, plan, None);
    }
}
