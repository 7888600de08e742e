//! A bottleneck that somebody else owns, as round-trip times between an observer and the user show it.
//!
//! Four variables (M. Ihlar, A. Nazari, R. Skog, "Low latency, high flexibility: virtual AQM", Ericsson
//! Technology Review, 2018): *Path RTT*, the smallest round-trip time of a window, is the path without
//! queues; *Average RTT* follows the samples; *Target Queue Delay* is a fraction of Path RTT that is
//! tolerated; their sum is *Target RTT*.
//!
//! A minimum goes stale: a standing queue hides a path that became longer, and the other way round a queue
//! that never empties must not become the path. So Path RTT falls at once and rises only when the minimum is
//! older than the window. Is there no queue then, the smallest of the window takes its place. Is there one,
//! whoever manages the bottleneck should drain it for a moment and look ([`PathModel::wants_drain`]); who
//! cannot lets it age. A step of the round-trip time is not taken for a handover, because a queue that a
//! sender fills at once looks the same; who is told of a handover calls [`PathModel::restart`].

mod follow;

pub use follow::{FollowConfig, FollowLaw, Follower};

use crate::{Rtt, Srtt, WindowedMin};
use weir_units::{Duration, Time};

/// A sample within this fraction of the minimum confirms it.
const CONFIRMS: u64 = 16;

/// What the model is made with; the values of the default are those that the article leaves open.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PathConfig {
    /// Target Queue Delay as a fraction of Path RTT.
    pub fraction: f64,
    /// Smallest Target Queue Delay: radio links deliver in bursts.
    pub delay_min: Duration,
    /// Largest Target Queue Delay.
    pub delay_max: Duration,
    /// How long a minimum counts.
    pub window: Duration,
}

impl Default for PathConfig {
    fn default() -> PathConfig {
        PathConfig {
            fraction: 0.5,
            delay_min: Duration::from_millis(5),
            delay_max: Duration::from_millis(100),
            window: Duration::from_secs(10),
        }
    }
}

/// The four variables of a bottleneck.
#[derive(Clone, Copy, Debug)]
pub struct PathModel {
    config: PathConfig,
    path: Option<Minimum>,
    /// The smallest of the last window, or since a drain began.
    recent: WindowedMin<Duration>,
    average: Srtt,
    /// Whether the queue is drained so slowly that what is left of it could be taken for noise.
    held: bool,
}

#[derive(Clone, Copy, Debug)]
struct Minimum {
    rtt: Duration,
    seen: Time,
}

impl PathModel {
    /// Nothing is known yet.
    pub fn new(config: PathConfig) -> PathModel {
        let recent = WindowedMin::new(config.window);
        PathModel { config, path: None, recent, average: Srtt::default(), held: false }
    }

    /// Takes a sample; one that does not enter the mean can still be the smallest.
    pub fn sample(&mut self, now: Time, sample: Rtt, enters_mean: bool) {
        let rtt = sample.rtt;
        self.recent.insert(now, rtt);
        self.path = match self.path {
            Some(path) if rtt > path.rtt + Duration::from_nanos(path.rtt.as_nanos() / CONFIRMS) => Some(path),
            // What is about the same confirms it, so that it does not creep upwards from window to window.
            Some(path) => Some(Minimum { rtt: rtt.min(path.rtt), seen: now }),
            None => Some(Minimum { rtt, seen: now }),
        };
        if enters_mean {
            self.average.sample(rtt);
        }
        if self.is_stale(now) && !self.held && !self.is_queued() {
            self.age(now);
        }
    }

    fn is_stale(&self, now: Time) -> bool {
        self.path.is_some_and(|path| now.since(path.seen) > self.config.window)
    }

    /// Whether the average says that there is a queue.
    fn is_queued(&self) -> bool {
        self.average().is_some_and(|average| self.is_queue(average))
    }

    /// Whether a round trip says so: half of what is tolerated is noise.
    fn is_queue(&self, rtt: Duration) -> bool {
        let noise = |path: Duration| path + Duration::from_nanos(self.queue_delay_over(path).as_nanos() / 2);
        self.path_rtt().is_some_and(|path| rtt > noise(path))
    }

    fn queue_delay_over(&self, path: Duration) -> Duration {
        path.mul_f64(self.config.fraction).clamp(self.config.delay_min, self.config.delay_max)
    }

    /// Whether the minimum is old and a queue hides what the path is now.
    pub fn wants_drain(&self, now: Time) -> bool {
        self.is_stale(now) && self.is_queued()
    }

    /// The queue is being drained: from now on only what is seen meanwhile counts for [`PathModel::age`]. One
    /// that is drained slowly must be gone before anything becomes Path RTT.
    pub fn begins_drain(&mut self, slowly: bool) {
        self.recent.clear();
        self.held = slowly;
    }

    /// The smallest of the window, or since the drain began, becomes Path RTT.
    pub fn age(&mut self, now: Time) {
        self.held = false;
        let rtt = self.recent.get(now).or(self.path_rtt());
        self.path = rtt.map(|rtt| Minimum { rtt, seen: now });
    }

    /// The path is another one: everything is forgotten.
    pub fn restart(&mut self) {
        *self = PathModel::new(self.config);
    }

    /// Path RTT; `None` before the first sample, as the others.
    #[inline(always)]
    pub fn path_rtt(&self) -> Option<Duration> {
        self.path.map(|path| path.rtt)
    }

    /// Average RTT.
    pub fn average(&self) -> Option<Duration> {
        self.average.get()
    }

    /// Target Queue Delay.
    pub fn target_queue_delay(&self) -> Option<Duration> {
        self.path_rtt().map(|path| self.queue_delay_over(path))
    }

    /// Target RTT.
    pub fn target_rtt(&self) -> Option<Duration> {
        self.path_rtt().map(|path| path + self.queue_delay_over(path))
    }

    /// How far Average RTT is above Target RTT, as Target / Average; `None` where it is not.
    pub fn excess(&self) -> Option<f64> {
        let (average, target) = self.average().zip(self.target_rtt())?;
        (average > target).then(|| target.as_nanos() as f64 / average.as_nanos() as f64)
    }
}

#[cfg(test)]
mod tests;
