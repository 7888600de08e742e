//! Frames that were lost before the loop saw them: counted while it runs, and told at most every few seconds.

use std::io;
use weir_units::{Duration, Time};

/// Time between two warnings about a port.
const TOLD_EVERY: Duration = Duration::from_secs(10);
/// Queues that a warning names.
const NAMED_MAX: usize = 4;
/// Looks in vain, one after the other, at which it is told that the system does not tell. One alone passes.
const VAIN_LOOKS: u32 = 5;

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
    /// Looks in a row at which the system did not tell, and why at the last one.
    vain: u32,
    why: String,
}

impl Losses {
    /// Of a port with so many queues.
    pub fn new(queues: usize) -> Losses {
        Losses {
            queues: vec![LostFrames::default(); queues],
            told: vec![0; queues],
            warn_from: Time::ZERO,
            vain: 0,
            why: String::new(),
        }
    }

    /// One queue more.
    pub fn add_queue(&mut self) {
        self.queues.push(LostFrames::default());
        self.told.push(0);
    }

    /// Looks at all queues: of each what it lost in all, as far as that is known, and whether the system told
    /// it. Counters never fall, so what was known before is known still. Whether all is known.
    pub fn look(&mut self, told: impl Iterator<Item = (LostFrames, io::Result<()>)>) -> bool {
        let mut refused = None;
        for (known, (lost, told)) in self.queues.iter_mut().zip(told) {
            known.frames = known.frames.max(lost.frames);
            known.starved = known.starved.max(lost.starved);
            refused = refused.or(told.err());
        }
        match &refused {
            None => self.vain = 0,
            Some(error) => (self.vain, self.why) = (self.vain.saturating_add(1), error.to_string()),
        }
        refused.is_none()
    }

    /// Frames that were lost, for any reason.
    pub fn frames(&self) -> u64 {
        self.queues.iter().map(|lost| lost.frames).sum()
    }

    /// A warning about frames that found no buffer since the last one, if there are any and it is time.
    /// Also if the system has not told for a while, once each time.
    pub fn warning(&mut self, port: &str, now: Time) -> Option<String> {
        if self.vain == VAIN_LOOKS {
            return Some(format!("{}. It is asked again", self.untold(port)));
        }
        if now < self.warn_from {
            return None;
        }
        let text = words(port, &self.queues, &self.told)?;
        self.warn_from = now + TOLD_EVERY;
        self.told.iter_mut().zip(&self.queues).for_each(|(told, lost)| *told = lost.starved);
        Some(text)
    }

    /// The same about all of them, at the end: more may have been lost than is known if the last look was in
    /// vain.
    pub fn in_all(&self, port: &str) -> impl Iterator<Item = String> {
        let lost = words(port, &self.queues, &vec![0; self.queues.len()]);
        lost.into_iter().chain((self.vain > 0).then(|| self.untold(port)))
    }

    fn untold(&self, port: &str) -> String {
        format!(
            "{port}: the system does not tell how many frames were lost before the packet loop saw them ({}); there may be \
             more than `lost_before_queue` counts",
            self.why
        )
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
    fn a_question_that_fails_takes_nothing_back_and_is_told_where_it_goes_on() {
        let mut losses = Losses::new(2);
        let at = |seconds| Time::ZERO + Duration::from_secs(seconds);
        let refused = || (starved(0), Err(io::Error::from_raw_os_error(libc::EPERM)));
        let told = |n| (starved(n), Ok(()));
        assert!(losses.look([told(5), told(0)].into_iter()));
        assert!(losses.warning("a", at(1)).is_some());
        for look in 1..20 {
            assert!(!losses.look([refused(), told(2)].into_iter()), "the other one is asked all the same");
            let told = losses.warning("a", at(1));
            assert_eq!(told.is_some(), look == VAIN_LOOKS, "{told:?}");
        }
        assert_eq!(losses.frames(), 7);
        let end: Vec<String> = losses.in_all("a").collect();
        assert!(end[0].starts_with("a: 7 frames") && end[1].contains("does not tell how many"), "{end:?}");
        assert!(end[1].contains("not permitted"), "{end:?}");
        assert!(losses.look([told(9), told(2)].into_iter()));
        assert_eq!((losses.frames(), losses.in_all("a").count()), (11, 1));
    }

    #[test]
    fn losses_are_told_once_with_their_queues_and_not_all_the_time() {
        let mut losses = Losses::new(8);
        let at = |seconds| Time::ZERO + Duration::from_secs(seconds);
        assert_eq!(losses.warning("a", at(1)), None);
        let mut lost = [LostFrames::default(); 8];
        (lost[3], lost[0]) = (starved(5), LostFrames { frames: 2, starved: 0 });
        losses.look(lost.map(|lost| (lost, Ok(()))).into_iter());
        let told = losses.warning("a", at(1)).unwrap();
        assert!(told.starts_with("a: 5 frames") && told.contains("(queue 3: 5)"), "{told}");
        lost[3] = starved(6);
        losses.look(lost.map(|lost| (lost, Ok(()))).into_iter());
        assert_eq!(losses.warning("a", at(2)), None, "too early");
        (4..8).for_each(|queue| lost[queue] = starved(queue as u64));
        losses.look(lost.map(|lost| (lost, Ok(()))).into_iter());
        let told = losses.warning("a", at(11)).unwrap();
        assert!(told.starts_with("a: 23 frames"), "{told}");
        assert!(told.contains("(queue 7: 7, queue 6: 6, queue 5: 5, queue 4: 4 and 1 more)"), "{told}");
        assert_eq!(losses.warning("a", at(30)), None, "nothing new");
        assert_eq!(losses.frames(), 30);
        assert!(losses.in_all("a").next().unwrap().starts_with("a: 28 frames"));
    }
}
