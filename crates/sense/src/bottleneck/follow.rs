//! A shaping rate that follows a bottleneck somebody else owns, so that its queue forms here.
//!
//! What the bottleneck delivers is known from round-trip times and what was sent (`crate::history`). The rate
//! is that, times Target RTT over what the round trip is now: above the target the queue there shrinks to
//! what is tolerated, as the article has it; below it the rate is more than what is delivered, the more the
//! further, so that a bottleneck that became faster is found within a few round trips. In between a short
//! queue stands there, which keeps it busy and tells what it delivers. From one round trip to the next, the
//! one to come is predicted from what is sent: the bottleneck goes on to deliver what it did, and what is
//! sent beyond that waits there. Where senders do not fill what they may, nothing is delivered that would say
//! what could be, and the rate only rises. With nothing waiting it is not needed and lets go. Where more is
//! sent after that than the bottleneck delivered lately, and no round trip is measured meanwhile, as of flows
//! that show nothing, it begins with what was delivered: else nothing would end their slow start but the
//! bottleneck's own buffer.
//!
//! The article's own law, [`FollowLaw::Largest`], is there beside it.

use super::{PathConfig, PathModel};
use crate::history::Delivery;
use crate::rate::Bins;
use crate::{LIVE, Rtt, WindowedMax, WindowedMin};
use weir_units::{Bytes, Duration, Rate, Time};

/// Bins are as long as Path RTT, within these.
const BIN_MIN: Duration = Duration::from_millis(10);
const BIN_MAX: Duration = Duration::from_millis(100);
/// How long a rate that did not fill the bottleneck's queue counts, in Path RTTs and at most in time.
const RATE_WINDOW_PATHS: u64 = 10;
const RATE_WINDOW_MAX: Duration = Duration::from_secs(10);
/// The rate never falls below so many bytes in a Path RTT: two segments, or no acknowledgement would ever
/// come.
const FLOOR: Bytes = Bytes::new(2 * 1500);
/// A shorter path does not raise that: who is right behind may still have a slow line.
const FLOOR_TIME_MIN: Duration = Duration::from_millis(40);
/// Moments of a Path RTT at which it is noted what was sent.
const MOMENTS_PER_PATH: u64 = 8;
/// A delivery rate is taken between round trips that are at most so many of them apart.
const STALE_ROUNDS: u64 = 4;
/// A drain goes by rounds of two Path RTTs, and at least this.
const DRAIN_MIN: Duration = Duration::from_millis(200);
/// A round trip of more than so many times of what is usual is one that was late.
const LATE: u64 = 2;
/// A mean that is older than this, and than four round-trip times, says nothing.
const BLIND_AFTER: Duration = Duration::from_secs(1);
/// A prediction that was wrong so often in a row is none: once it is wrong after a drain, too, in which less
/// was delivered than could have been.
const REFUTED: u8 = 2;
/// No more is tried than the fastest link has: others may hold packets back, so that trying would never end.
const FASTEST: Rate = Rate::from_mbps(1_000_000);
/// What is measured has a round trip within so many Path RTTs while a bottleneck is not congested.
const SILENT_PATHS: u64 = 2;
/// Senders fill what they may once packets have waited here for so many Path RTTs, and do not once none has.
const SETTLED_PATHS: u64 = 2;
/// The share of the bottleneck's rate that is sent while it is drained.
const DRAIN_SHARE: f64 = 0.5;
/// A drain that leaves less than this of the bottleneck's rate free, as a least rate is sent, drains nothing
/// that could be told from noise.
const DRAIN_LEAST: f64 = 0.02;

/// What the rate is a multiple of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FollowLaw {
    /// What the bottleneck delivers between two round trips, above the target and below it.
    #[default]
    Delivered,
    /// The article's: while Average RTT is above Target RTT, the largest rate that was sent while it was not,
    /// bounded by how far it is above; else a sixteenth more in each Path RTT in which packets wait.
    Largest,
}

/// What a follower is made with.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct FollowConfig {
    /// The four variables.
    pub path: PathConfig,
    /// How the rate is found.
    pub law: FollowLaw,
    /// Most that is ever sent, such as an aggregate maximum bit rate; `None` for no limit.
    pub rate_max: Option<Rate>,
    /// Least that is ever sent, such as a guaranteed bit rate.
    pub rate_min: Option<Rate>,
}

/// What the last decision was made by.
#[derive(Clone, Copy, Debug)]
struct Basis {
    at: Time,
    /// The round trip then.
    rtt: Duration,
    /// What the bottleneck delivered.
    rate: Rate,
    /// What had been sent.
    sent: u64,
    /// So many decisions in a row that a queue was predicted for then, and none stood.
    refuted: u8,
}

impl Basis {
    /// What the round trip is by now, when the bottleneck delivers what it did.
    fn predicted(&self, now: Time, sent: u64) -> Duration {
        let takes =
            Duration::from_secs_f64((sent - self.sent) as f64 * 8.0 / self.rate.as_bps_f64().max(1.0));
        (self.rtt + takes).saturating_sub(now.since(self.at))
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Phase {
    /// The bottleneck is not congested; everything passes.
    Open,
    /// At this rate, which was tried last at that time.
    Following { rate: Rate, tried: Time },
    /// Path RTT is looked at anew, in rounds that end then.
    Draining { rate: Rate, began: Time, until: Time, before: Duration },
}

/// The model of a bottleneck and the rate that it gives to a shaper.
#[derive(Clone, Copy, Debug)]
pub struct Follower {
    config: FollowConfig,
    path: PathModel,
    arrived: Bins,
    forwarded: Bins,
    delivered: Bins,
    /// Of flows that show nothing: what was sent to the user.
    unseen: Bins,
    /// What round trips say of it, and the last two rates.
    delivery: Delivery,
    latest: [Option<Rate>; 2],
    /// What was sent in all, and what the last decision was made by.
    sent: u64,
    basis: Option<Basis>,
    /// The last round-trip time, and when one entered the mean last.
    rtt: Duration,
    /// The smallest of the last half of a Path RTT: one packet may be late by itself.
    now: WindowedMin<Duration>,
    averaged: Option<Time>,
    /// Time between the last two of them, as far as packets waited for the shaper meanwhile, and at most
    /// [`LIVE`]: what shows nothing may keep them waiting for longer.
    gap: Duration,
    /// Whether the mean says something that was not acted on.
    fresh: bool,
    /// The largest rate that was sent while Average RTT was at or below its target.
    uncongested: WindowedMax<Rate>,
    /// The last of those that was known: time in which the target is exceeded does not make it old.
    largest: Option<Rate>,
    /// The largest delivery rate.
    bandwidth: WindowedMax<Rate>,
    /// The largest that a rate was made from in [`RATE_WINDOW_MAX`] while senders filled what they might, and
    /// larger ones at which nothing waited.
    proven: WindowedMax<Rate>,
    phase: Phase,
    /// Whether packets wait for the shaper, and since when that is so.
    waiting: (bool, Time),
    /// The Path RTT that bins and windows were made for.
    fitted: Duration,
}

impl Follower {
    /// Nothing is known yet, and everything passes.
    pub fn new(config: FollowConfig, start: Time) -> Follower {
        let bins = Bins::new(BIN_MAX, start);
        Follower {
            config,
            path: PathModel::new(config.path),
            arrived: bins,
            forwarded: bins,
            delivered: bins,
            unseen: bins,
            delivery: Delivery::new(start),
            latest: [None; 2],
            sent: 0,
            basis: None,
            rtt: Duration::ZERO,
            now: WindowedMin::new(BIN_MIN),
            averaged: None,
            gap: Duration::ZERO,
            fresh: false,
            uncongested: WindowedMax::new(RATE_WINDOW_MAX),
            largest: None,
            bandwidth: WindowedMax::new(RATE_WINDOW_MAX),
            proven: WindowedMax::new(RATE_WINDOW_MAX),
            phase: Phase::Open,
            waiting: (false, start),
            fitted: Duration::ZERO,
        }
    }

    /// The four variables.
    #[inline(always)]
    pub fn path(&self) -> &PathModel {
        &self.path
    }

    /// The rate to send at; `None` where no shaper is needed.
    #[inline]
    pub fn rate(&self) -> Option<Rate> {
        match self.phase {
            Phase::Open => self.config.rate_max,
            Phase::Following { rate, .. } | Phase::Draining { rate, .. } => Some(self.bounded(rate)),
        }
    }

    /// Least that is ever sent from now on, such as a guaranteed bit rate.
    pub fn set_rate_min(&mut self, least: Option<Rate>) {
        self.config.rate_min = least;
    }

    /// The largest rate that the bottleneck delivered lately.
    pub fn bandwidth(&mut self, now: Time) -> Option<Rate> {
        self.bandwidth.get(now)
    }

    /// Bytes came in, before any queue.
    pub fn arrived(&mut self, now: Time, bytes: Bytes) {
        self.arrived.add(now, bytes.get());
    }

    /// Bytes went out towards the bottleneck.
    pub fn forwarded(&mut self, now: Time, bytes: Bytes) {
        self.forwarded.add(now, bytes.get());
        self.delivery.sent(now, bytes.get());
        self.sent += bytes.get();
    }

    /// The user has these bytes.
    pub fn delivered(&mut self, now: Time, bytes: Bytes) {
        if let Some(rate) = self.delivered.add(now, bytes.get()) {
            self.note_delivery(now, rate, self.unseen.rate());
        }
    }

    /// These bytes of flows that show nothing were forwarded. They count as delivered; that this is not so
    /// when the bottleneck becomes slower shows in the round-trip time of others.
    pub fn unseen(&mut self, now: Time, bytes: Bytes) {
        if let Some(rate) = self.unseen.add(now, bytes.get()) {
            self.delivered.look(now);
            self.note_delivery(now, rate, self.delivered.rate());
        }
    }

    fn note_delivery(&mut self, now: Time, one: Rate, other: Option<Rate>) {
        let rate = Rate::from_bps(one.as_bps().saturating_add(other.map_or(0, Rate::as_bps)));
        self.bandwidth.insert(now, rate);
    }

    /// A round-trip time between observer and user.
    pub fn sample(&mut self, now: Time, rtt: Rtt, enters_mean: bool) {
        self.rtt = rtt.rtt;
        self.path.sample(now, rtt, enters_mean);
        let path = self.path.path_rtt().unwrap_or(rtt.rtt);
        if path.as_nanos().abs_diff(self.fitted.as_nanos()) > self.fitted.as_nanos() / 4 {
            self.fit(path);
        }
        if !enters_mean {
            return;
        }
        // A bit that spins behind a long queue turns rarely. While that queue stands, what was sent is what
        // the bottleneck got, however long that takes.
        let busy = self.busy(now);
        self.gap = self.averaged.map_or(Duration::ZERO, |at| now.since(at)).min(busy).min(LIVE);
        (self.averaged, self.fresh) = (Some(now), true);
        self.now.insert(now, rtt.rtt);
        let usual = path.max(self.path.average().unwrap_or(path));
        let (width, stale) = (path.clamp(BIN_MIN, BIN_MAX), usual.saturating_mul(STALE_ROUNDS).max(busy));
        if let Some(rate) = self.delivery.round_trip(now, rtt.rtt, width, stale) {
            self.latest = [Some(rate), self.latest[0]];
            self.bandwidth.insert(now, rate);
        }
        if !self.delivery.reaches(now, rtt.rtt) {
            // A queue that is longer than what is remembered: what is acknowledged says the same, if later.
            self.latest = [self.acknowledged(now), None];
        }
    }

    /// What is acknowledged, and what shows nothing. The latter counts when it is sent: where it is most of
    /// it, only what once did not fill the bottleneck is a base, or each reduction would be that of the
    /// next.
    fn acknowledged(&mut self, now: Time) -> Option<Rate> {
        let (shown, hidden) = (self.delivered.rate(), self.unseen.rate());
        if hidden > shown {
            return self.uncongested.get(now).or(hidden);
        }
        shown.map(|rate| Rate::from_bps(rate.as_bps() + hidden.map_or(0, Rate::as_bps)))
    }

    fn fit(&mut self, path: Duration) {
        self.fitted = path;
        for bins in [&mut self.arrived, &mut self.forwarded, &mut self.delivered, &mut self.unseen] {
            bins.set_width(path.clamp(BIN_MIN, BIN_MAX));
        }
        let window = path.saturating_mul(RATE_WINDOW_PATHS).min(RATE_WINDOW_MAX);
        // The rates are those of the old path; at its beginning there are none.
        self.uncongested = WindowedMax::new(window);
        self.largest = None;
        self.bandwidth = WindowedMax::new(window);
        self.now = WindowedMin::new(Duration::from_nanos(path.as_nanos() / 2));
        self.delivery.set_spacing(Duration::from_nanos(path.as_nanos() / MOMENTS_PER_PATH));
    }

    /// Takes a decision; to be called with each sample and from time to time. `waiting` says whether packets
    /// wait for the shaper.
    #[inline(always)]
    pub fn look(&mut self, now: Time, waiting: bool) {
        if waiting != self.waiting.0 {
            self.waiting = (waiting, now);
        }
        if let Some(path) = self.path.path_rtt() {
            self.decide(now, path);
        }
    }

    fn decide(&mut self, now: Time, path: Duration) {
        if self.path.excess().is_none() {
            let seen = [self.arrived.rate(), self.forwarded.rate()].into_iter().flatten().min();
            seen.into_iter().for_each(|rate| self.uncongested.insert(now, rate));
            self.largest = self.uncongested.get(now).or(self.largest);
        }
        self.phase = match self.phase {
            phase @ Phase::Draining { until, .. } if now < until => phase,
            Phase::Draining { rate, began, until, before } => {
                self.drained(now, rate, until.since(began), before)
            }
            // Without round trips a drain would show nothing, and what was found meanwhile by trying would be
            // forgotten.
            Phase::Following { .. } if self.path.wants_drain(now) && !self.is_blind(now) => {
                // Not the largest of the last round trips: the bottleneck may just have become slower.
                let known = self.latest.into_iter().flatten().max();
                let rate = known.or(self.bandwidth.get(now)).unwrap_or(self.floor(path));
                self.drain(now, Rate::from_bps_f64(rate.as_bps_f64() * DRAIN_SHARE))
            }
            phase => match self.config.law {
                FollowLaw::Delivered => self.follow(now, path, phase),
                FollowLaw::Largest => self.bound(now, path, phase),
            },
        };
    }

    /// Another round of a drain: long enough that what it does comes back. One acknowledgement may be late by
    /// seconds, as after a gap in the coverage of a radio.
    fn drain(&mut self, now: Time, rate: Rate) -> Phase {
        self.path.begins_drain(self.bounded(rate) > rate);
        let path = self.path.path_rtt().unwrap_or(self.rtt);
        let latest = self.rtt.min(self.current(now).unwrap_or(self.rtt).saturating_mul(LATE));
        let round = path.saturating_mul(2).max(latest).max(DRAIN_MIN);
        Phase::Draining { rate, began: now, until: now + round, before: self.rtt }
    }

    /// A round is over. At half the bottleneck's rate the round-trip times that come back fall by half a
    /// second in a second, for as long as a queue drains. When they do not fall by half of that, there is
    /// none, and the smallest is the path. With a least rate they fall by less; where that is nearly what the
    /// bottleneck delivers, nothing was drained that could tell, and the path is what it was.
    fn drained(&mut self, now: Time, rate: Rate, round: Duration, before: Duration) -> Phase {
        let known = Rate::from_bps_f64(rate.as_bps_f64() / DRAIN_SHARE);
        let falls = 1.0 - self.bounded(rate).as_bps_f64() / known.as_bps_f64().max(1.0);
        let fell = before.saturating_sub(self.rtt).saturating_mul(4) >= round.mul_f64(2.0 * falls.max(0.0));
        if falls < DRAIN_LEAST {
            return Phase::Following { rate: known, tried: now };
        }
        if fell {
            return self.drain(now, rate);
        }
        self.path.age(now);
        Phase::Following { rate: known, tried: now }
    }

    fn follow(&mut self, now: Time, path: Duration, phase: Phase) -> Phase {
        if phase == Phase::Open
            && let Some(rate) = self.exceeded(now, path)
        {
            // As if a round trip had said so, until one does, or for as long as one counts.
            self.averaged = Some(now);
            self.basis = Some(Basis { at: now, rtt: path, rate, sent: self.sent, refuted: 0 });
            return Phase::Following { rate, tried: now };
        }
        let Some(current) = self.current(now).filter(|_| !self.is_blind(now)) else {
            return self.probe_without_samples(now, path, phase);
        };
        let target = self.path.target_rtt().unwrap_or(current);
        match phase {
            Phase::Following { rate, .. } => {
                if self.is_idle(now, path) && current <= target {
                    return Phase::Open;
                }
                let next = match self.news() {
                    Some(()) => self.law(now, path, current, target),
                    None => self.predicted(now, path, target),
                };
                let next = next.filter(|next| *next > rate || self.waiting.0 || current > target);
                Phase::Following { rate: next.unwrap_or(rate), tried: now }
            }
            phase if current <= target => phase,
            phase => match self.news().and_then(|()| self.law(now, path, current, target)) {
                Some(rate) => Phase::Following { rate, tried: now },
                None => phase,
            },
        }
    }

    /// The article's law: "the largest bitrate observed while Average RTT was below target", with "the
    /// difference between Average RTT and Target RTT" as "an additional bounding factor". It does not say how
    /// the rate rises again; here it is tried as where nothing is measured.
    fn bound(&mut self, now: Time, path: Duration, phase: Phase) -> Phase {
        let excess = self.path.excess().filter(|_| !self.is_blind(now));
        let Some(ratio) = excess else { return self.probe_without_samples(now, path, phase) };
        // Nothing was sent that did not fill the bottleneck: what it delivers is the best known.
        let known = self.news().and_then(|()| self.largest.or(self.bandwidth.get(now)));
        known.map_or(phase, |known| {
            let rate = Rate::from_bps_f64(known.as_bps_f64() * ratio).max(self.floor(path));
            Phase::Following { rate, tried: now }
        })
    }

    /// Whether a round trip says something that was not acted on.
    fn news(&mut self) -> Option<()> {
        core::mem::take(&mut self.fresh).then_some(())
    }

    /// What the round trip is now: it falls at once, and rises when it does so for half of a Path RTT and on
    /// average.
    fn current(&mut self, now: Time) -> Option<Duration> {
        let smallest = self.now.get(now).unwrap_or(self.rtt);
        self.path.average().map(|average| average.min(smallest))
    }

    /// The rate for a round trip: more than what is delivered below the target, less above it.
    fn law(&mut self, now: Time, path: Duration, current: Duration, target: Duration) -> Option<Rate> {
        let known = if current > target {
            self.latest[0].or(self.uncongested.get(now))
        } else {
            self.latest.into_iter().flatten().max()
        };
        let is_queued = |rtt| self.path.is_queue(rtt);
        let was_to_wait = self.basis.is_some_and(|basis| is_queued(basis.predicted(now, self.sent)));
        let before = self.basis.filter(|_| was_to_wait && !is_queued(current));
        let refuted = before.map_or(0, |basis| basis.refuted.saturating_add(1));
        let basis = Basis { at: now, rtt: current, rate: known?, sent: self.sent, refuted };
        self.basis = Some(basis);
        // What was delivered says nothing of what could be, unless senders keep packets waiting here.
        if self.busy(now) >= path.saturating_mul(SETTLED_PATHS) {
            self.proven.insert(now, basis.rate);
        }
        Some(self.proportional(path, basis.rate, current, target))
    }

    /// The rate for the round trip that is predicted, when none was measured for a Path RTT.
    fn predicted(&self, now: Time, path: Duration, target: Duration) -> Option<Rate> {
        let basis = self.basis.filter(|basis| now.since(basis.at) >= path)?;
        // The bottleneck delivers more than was known, and how much more is not known.
        if basis.refuted >= REFUTED {
            return None;
        }
        let rtt = basis.predicted(now, self.sent).max(path);
        Some(self.proportional(path, basis.rate, rtt, target))
    }

    fn proportional(&self, path: Duration, known: Rate, rtt: Duration, target: Duration) -> Rate {
        let ratio = target.as_nanos() as f64 / rtt.as_nanos().max(1) as f64;
        Rate::from_bps_f64(known.as_bps_f64() * ratio).max(self.floor(path))
    }

    /// Nothing is measured, or all is well: while packets wait, a little more is tried from time to time.
    fn probe_without_samples(&mut self, now: Time, path: Duration, phase: Phase) -> Phase {
        let Phase::Following { rate, tried } = phase else { return phase };
        if self.is_idle(now, path) {
            if self.proven.get(now).is_some_and(|proven| rate > proven) {
                self.proven.insert(now, rate);
            }
            return Phase::Open;
        }
        if now.since(tried) < path || !self.waiting.0 {
            return phase;
        }
        let more = Rate::from_bps(rate.as_bps().saturating_add(rate.as_bps() / 16));
        Phase::Following { rate: more.min(FASTEST), tried: now }
    }

    /// What the bottleneck delivered lately, where more is sent and no round trip was measured meanwhile.
    fn exceeded(&mut self, now: Time, path: Duration) -> Option<Rate> {
        let silence = path.saturating_mul(SILENT_PATHS);
        if self.averaged.is_none_or(|at| now.since(at) <= silence) {
            return None;
        }
        // Nothing may have been delivered when it was asked last.
        let proven = self.proven.get(now)?.max(self.floor(path));
        self.forwarded.rate().is_some_and(|rate| rate > proven).then_some(proven)
    }

    fn is_idle(&self, now: Time, path: Duration) -> bool {
        let (waiting, since) = self.waiting;
        !waiting && now.since(since) >= path.saturating_mul(SETTLED_PATHS)
    }

    /// For how long packets have waited for the shaper.
    fn busy(&self, now: Time) -> Duration {
        let (waiting, since) = self.waiting;
        if waiting { now.since(since) } else { Duration::ZERO }
    }

    /// Whether the mean is so old that it says nothing about now: flows that were measured stopped, or were
    /// starved.
    fn is_blind(&self, now: Time) -> bool {
        let usual = self.path.average().unwrap_or(self.rtt).saturating_mul(4);
        let memory = usual.max(BLIND_AFTER).max(self.gap.saturating_mul(2));
        self.averaged.is_none_or(|at| now.since(at) > memory)
    }

    fn floor(&self, path: Duration) -> Rate {
        Rate::from_bps_f64(FLOOR.get() as f64 * 8.0 / path.max(FLOOR_TIME_MIN).as_secs_f64())
    }

    fn bounded(&self, rate: Rate) -> Rate {
        let rate = self.config.rate_min.map_or(rate, |least| rate.max(least));
        self.config.rate_max.map_or(rate, |most| rate.min(most))
    }
}

#[cfg(test)]
mod tests;
