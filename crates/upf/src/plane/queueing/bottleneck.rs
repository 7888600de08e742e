//! What the packets of a session tell of the bottlenecks behind the base station, passed on to those that use
//! it.

use crate::plane::io::Io;
use crate::plane::live::{FollowedPath, Live};
use crate::plane::path::UserPlane;
use crate::plane::queueing::learn::{Learnt, follow};
use crate::plane::queueing::queue_pool::{BufferedPacket, QueuePool, QueueSlot};
use weir_queue::Shaper;
use weir_units::{Rate, Time};

impl UserPlane {
    /// What is learnt before the queue: from the user equipment all, to it that something came.
    #[inline(never)]
    pub(in crate::plane) fn learn_of_arrival(
        &mut self,
        live: &mut Live,
        session: u32,
        queue: u8,
        held: BufferedPacket,
        at: Time,
        io: &mut impl Io,
    ) {
        let plan = &live.program.queues[usize::from(queue)];
        let (is_up, path) = (plan.is_up, plan.path);
        let path = if is_up { self.answered_path(live, path, held.flow) } else { path };
        let learner = match live.paths[usize::from(path)].learner {
            Some(learner) => learner,
            None => {
                let Some((learner, former)) = self.learners.take((session, path), at) else { return };
                if let Some((former, of)) = former {
                    match &mut self.sessions[former as usize] {
                        Some(former) => forget(former, of, &mut self.waits),
                        // It was this session's own.
                        None => forget(live, of, &mut self.waits),
                    }
                }
                live.paths[usize::from(path)].learner = Some(learner);
                learner
            }
        };
        if is_up {
            let waiting = self.is_waiting(live, path);
            let learnt = self.learners.returned(learner, at, held.flow, io.bytes(held.frame), waiting);
            self.apply_learnt(live, path, &learnt, at);
        } else {
            self.learners.arrived(learner, at, held.frame.len as u16);
        }
    }

    /// Of which bottleneck an answer tells: that of the packets that it answers, also if it goes another way
    /// itself, as acknowledgements of a GBR flow do where no rule of the uplink is theirs.
    #[inline]
    fn answered_path(&self, live: &Live, own: u8, flow: u32) -> u8 {
        let knows = |path: &FollowedPath| path.learner.is_some_and(|at| self.learners.knows(at, flow));
        if live.paths.len() == 1 || knows(&live.paths[usize::from(own)]) {
            return own;
        }
        live.paths.iter().position(knows).map_or(own, |path| path as u8)
    }

    /// Whether packets to the user equipment wait here for a bottleneck.
    fn is_waiting(&self, live: &Live, path: u8) -> bool {
        let queues = live.program.queues.iter().zip(&live.lines);
        let down = queues.filter(|(plan, _)| !plan.is_up && plan.path == path);
        let mut places = down.filter_map(|(_, line)| line.place);
        places.any(|place| self.waits.packets(place) > 0)
    }

    /// Passes on what was learnt to the session of that number.
    #[inline(never)]
    pub(in crate::plane) fn apply_learnt_of(&mut self, session: u32, path: u8, learnt: &Learnt, at: Time) {
        let Some(mut live) = self.sessions[session as usize].take() else { return };
        self.apply_learnt(&mut live, path, learnt, at);
        self.sessions[session as usize] = Some(live);
    }

    /// Passes on what was learnt of a bottleneck: to the algorithms of the queues to the user equipment, and
    /// to their rate, which is never below what is guaranteed.
    #[inline(never)]
    pub(in crate::plane) fn apply_learnt(&mut self, live: &mut Live, path: u8, learnt: &Learnt, at: Time) {
        let Live { program, lines, paths, .. } = live;
        let FollowedPath { learner, shaper, .. } = &mut paths[usize::from(path)];
        if let Some(rate) = learnt.rate {
            let of_path = program.queues.iter().filter(|plan| plan.follows && plan.path == path);
            if let Some(guaranteed) = of_path.map(|plan| plan.gbr).max() {
                if let Some(at) = learner {
                    self.learners.guarantee(*at, guaranteed);
                }
                follow(shaper, rate.map(|rate| rate.max(guaranteed)), self.setup.catch_up);
            }
        }
        if learnt.samples.iter().all(Option::is_none) {
            return;
        }
        for (plan, line) in program.queues.iter().zip(lines).filter(|(plan, _)| plan.path == path) {
            let Some(place) = line.place.filter(|_| plan.learns && !plan.is_up) else { continue };
            let (QueueSlot { queue, .. }, store) = self.waits.with_store(place);
            learnt.samples.iter().flatten().for_each(|sample| queue.sample(store, at, *sample));
            if !plan.follows {
                continue;
            }
            let rate =
                shaper.as_ref().map(Shaper::rate).filter(|rate| *rate < plan.rate || plan.rate == Rate::ZERO);
            queue.set_rate(rate.unwrap_or(plan.rate));
            self.waits.fit(place, plan, learnt.tolerated.filter(|_| rate.is_some()));
        }
    }
}

/// A bottleneck of a session is not known any more.
fn forget(live: &mut Live, path: u8, waits: &mut QueuePool) {
    let Live { program, lines, paths, .. } = live;
    let Some(of) = paths.get_mut(usize::from(path)) else { return };
    (of.learner, of.shaper) = (None, None);
    let queues = program.queues.iter().zip(lines);
    for (plan, line) in queues.filter(|(plan, _)| plan.follows && plan.path == path) {
        let Some(place) = line.place else { continue };
        waits.place(place).queue.set_rate(plan.rate);
        waits.fit(place, plan, None);
    }
}
