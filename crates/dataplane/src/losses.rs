//! Frames that were lost before the loop saw them: counted while it runs, and told at most every few seconds.

use weir_units::{Duration, Time};

/// Time between two warnings about a port.
const TOLD_EVERY: Duration = Duration::from_secs(10);
/// Queues that a warning names.
const NAMED_MAX: usize = 4;

/// What was lost at one receive queue since it was opened.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LostFrames {
    /// Frames, for any reason.
    pub frames: u64,
    /// Frames for which there was no buffer.
    pub starved: u64,
}

/// The losses of a port.
#[derive(Default)]
pub struct Losses {
    /// By receive queue; one where the kernel has one ring for all.
    queues: Vec<LostFrames>,
    /// Lost for want of buffers by queue, as far as warnings told it.
    told: Vec<u64>,
    warn_from: Time,
}

impl Losses {
    /// Of a port with so many queues.
    pub fn new(queues: usize) -> Losses {
        Losses { queues: vec![LostFrames::default(); queues], told: vec![0; queues], warn_from: Time::ZERO }
    }

    /// One queue more.
    pub fn add_queue(&mut self) {
        self.queues.push(LostFrames::default());
        self.told.push(0);
    }

    /// Takes what a queue lost in all. Counters never fall: a lower one is that of a question that failed.
    pub fn note(&mut self, queue: usize, lost: LostFrames) {
        let known = &mut self.queues[queue];
        known.frames = known.frames.max(lost.frames);
        known.starved = known.starved.max(lost.starved);
    }

    /// Frames that were lost, for any reason.
    pub fn frames(&self) -> u64 {
        self.queues.iter().map(|lost| lost.frames).sum()
    }

    /// A warning about frames that found no buffer since the last one, if there are any and it is time.
    pub fn warning(&mut self, port: &str, now: Time) -> Option<String> {
        if now < self.warn_from {
            return None;
        }
        let text = words(port, &self.queues, &self.told)?;
        self.warn_from = now + TOLD_EVERY;
        self.told.iter_mut().zip(&self.queues).for_each(|(told, lost)| *told = lost.starved);
        Some(text)
    }

    /// The same about all of them.
    pub fn in_all(&self, port: &str) -> Option<String> {
        words(port, &self.queues, &vec![0; self.queues.len()])
    }
}

fn words(port: &str, queues: &[LostFrames], told: &[u64]) -> Option<String> {
    let new = queues.iter().zip(told).map(|(lost, told)| lost.starved - told);
    let mut by_queue: Vec<(usize, u64)> = new.enumerate().filter(|(_, starved)| *starved > 0).collect();
    by_queue.sort_by_key(|(_, starved)| std::cmp::Reverse(*starved));
    let sum: u64 = by_queue.iter().map(|(_, starved)| starved).sum();
    if sum == 0 {
        return None;
    }
    let named: Vec<String> =
        by_queue.iter().take(NAMED_MAX).map(|(queue, starved)| format!("queue {queue}: {starved}")).collect();
    let others = by_queue.len().saturating_sub(NAMED_MAX);
    let more = if others > 0 { format!(" and {others} more") } else { String::new() };
    let places = if queues.len() > 1 { format!(" ({}{more})", named.join(", ")) } else { String::new() };
    Some(format!(
        "{port}: {sum} frames were dropped for want of buffers{places}, counted as `lost_before_queue`: the packet loop was \
         late, or the burst too large. Remedy: a core of its own for the packet loop, or traffic spread over more queues"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn starved(n: u64) -> LostFrames {
        LostFrames { frames: n, starved: n }
    }

    #[test]
    fn a_question_that_fails_takes_nothing_back() {
        let mut losses = Losses::new(1);
        let at = |seconds| Time::ZERO + Duration::from_secs(seconds);
        losses.note(0, starved(5));
        assert!(losses.warning("a", at(1)).is_some());
        losses.note(0, LostFrames::default());
        assert_eq!((losses.frames(), losses.warning("a", at(20))), (5, None));
    }

    #[test]
    fn losses_are_told_once_with_their_queues_and_not_all_the_time() {
        let mut losses = Losses::new(8);
        let at = |seconds| Time::ZERO + Duration::from_secs(seconds);
        assert_eq!(losses.warning("a", at(1)), None);
        losses.note(3, starved(5));
        losses.note(0, LostFrames { frames: 2, starved: 0 });
        let told = losses.warning("a", at(1)).unwrap();
        assert!(told.starts_with("a: 5 frames") && told.contains("(queue 3: 5)"), "{told}");
        losses.note(3, starved(6));
        assert_eq!(losses.warning("a", at(2)), None, "too early");
        (4..8).for_each(|queue| losses.note(queue, starved(queue as u64)));
        let told = losses.warning("a", at(11)).unwrap();
        assert!(told.starts_with("a: 23 frames"), "{told}");
        assert!(told.contains("(queue 7: 7, queue 6: 6, queue 5: 5, queue 4: 4 and 1 more)"), "{told}");
        assert_eq!(losses.warning("a", at(30)), None, "nothing new");
        assert_eq!(losses.frames(), 30);
        assert!(losses.in_all("a").unwrap().starts_with("a: 28 frames"));
    }
}
