//! What users of applications notice: calls, games and video, a row for each group of flows.

use crate::order::spread;
use crate::player::Played;
use crate::result::Spread;
use crate::streams::{Pool, Received};
use serde::{Deserialize, Serialize};

/// Datagrams of the calls or games of a group of flows.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Datagrams {
    /// Index of the `[[flows]]` table.
    pub group: u32,
    /// Streams: one way of a call or of a game each.
    pub streams: u64,
    /// Datagrams of the measured part whose fate is known.
    pub sent: u64,
    /// Share that never arrived.
    pub lost: f64,
    /// Share that arrived too late: for the play-out buffer of a call, for the bound of a game.
    pub late: f64,
    /// Delay from sender to receiver, of those that arrived.
    pub delay_ms: Spread,
    /// Difference between the delays of one and the next (RFC 3550).
    pub jitter_ms: Spread,
}

/// The calls of a group of flows.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Calls {
    /// Their packets.
    #[serde(flatten)]
    pub datagrams: Datagrams,
    /// Delay from mouth to ear, mean over the calls: packet, network at its fastest, play-out buffer.
    pub mouth_to_ear_ms: f64,
    /// Length of runs of packets that were not played against that of independent losses, mean over the
    /// calls.
    pub burst_ratio: f64,
    /// Rating by the E-model (ITU-T G.107), mean over the calls.
    pub rating: f64,
    /// Mean opinion score of that model, mean over the calls.
    pub mos: f64,
    /// Of the worst call.
    pub mos_least: f64,
}

/// Real-time video of a group of flows.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Realtimes {
    /// Its frames, each as late as the last of its packets.
    #[serde(flatten)]
    pub frames: Datagrams,
    /// Bits of frames that arrived whole, per second, mean over the streams.
    pub rate_bps: f64,
    /// Of the stream with the least.
    pub rate_least_bps: f64,
    /// How often pictures stood still, in a minute, mean over the streams.
    pub freezes_per_minute: f64,
    /// Share of the time in which they did, mean over the streams.
    pub frozen: f64,
}

/// The players of video of a group of flows.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Videos {
    /// Index of the `[[flows]]` table.
    pub group: u32,
    /// Players.
    pub players: u64,
    /// Segments that arrived in the measured part.
    pub segments: u64,
    /// Mean rate of these in bit/s, mean over the players.
    pub rate_bps: f64,
    /// Of the player with the least.
    pub rate_least_bps: f64,
    /// Changes of the rate in a minute, mean over the players.
    pub switches_per_minute: f64,
    /// How often buffers ran empty, all players together.
    pub stalls: u64,
    /// Share of the time in which pictures stood still, mean over the players.
    pub stalled: f64,
    /// From the request of the first segment to the first picture; over the whole run.
    pub startup_ms: Spread,
    /// Players without a first picture.
    pub never_began: u64,
    /// Mean of the video in the buffer in seconds, mean over the players.
    pub buffer_s: f64,
}

fn mean(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let n = values.clone().count().max(1) as f64;
    // The sum of nothing is -0.0.
    (values.sum::<f64>() + 0.0) / n
}

impl Datagrams {
    /// Of the streams of a group that ended; none if nothing was sent in the measured part.
    pub fn of(group: u32, pool: &Pool) -> Option<Datagrams> {
        let sum = |of: fn(&Received) -> u64| pool.ended.iter().map(of).sum::<u64>();
        let sent = sum(|r| r.sent);
        let share = |n: u64| n as f64 / sent as f64;
        (sent > 0).then(|| Datagrams {
            group,
            streams: pool.ended.len() as u64,
            sent,
            lost: share(sum(|r| r.lost)),
            late: share(sum(|r| r.late)),
            delay_ms: pool.delays.spread_ms(),
            jitter_ms: pool.steps.spread_ms(),
        })
    }
}

impl Calls {
    /// Of the calls of a group that ended.
    pub fn of(group: u32, pool: &Pool) -> Option<Calls> {
        let datagrams = Datagrams::of(group, pool)?;
        let rated = pool.ended.iter().filter_map(|r| Some((r, r.call?, r.mos()?)));
        Some(Calls {
            datagrams,
            mouth_to_ear_ms: mean(rated.clone().map(|(_, (_, ms), _)| ms)),
            burst_ratio: mean(rated.clone().map(|(r, ..)| r.burst_ratio())),
            rating: mean(rated.clone().map(|(_, (r, _), _)| r)),
            mos: mean(rated.clone().map(|(.., mos)| mos)),
            mos_least: rated.map(|(.., mos)| mos).fold(f64::INFINITY, f64::min),
        })
    }
}

impl Realtimes {
    /// Of the streams of a group that ended; `minutes` is the measured part.
    pub fn of(group: u32, pool: &Pool, minutes: f64) -> Option<Realtimes> {
        let frames = Datagrams::of(group, pool)?;
        let shown = pool.ended.iter().filter_map(|r| r.shown);
        Some(Realtimes {
            frames,
            rate_bps: mean(shown.clone().map(|s| s.rate_bps)),
            rate_least_bps: shown.clone().map(|s| s.rate_bps).fold(f64::INFINITY, f64::min),
            freezes_per_minute: mean(shown.clone().map(|s| s.freezes as f64 / minutes.max(1e-9))),
            frozen: mean(shown.map(|s| s.frozen)),
        })
    }
}

impl Videos {
    /// Of the players of a group; none if there are none.
    pub fn of(group: u32, players: &[Played]) -> Option<Videos> {
        let minutes = |p: &Played| (p.watched_s / 60.0).max(1e-9);
        let began = players.iter().filter(|p| p.watched_s > 0.0);
        let mut startup: Vec<f64> = players.iter().filter_map(|p| Some(p.startup_s? * 1e3)).collect();
        (!players.is_empty()).then(|| Videos {
            group,
            players: players.len() as u64,
            segments: players.iter().map(|p| p.segments).sum(),
            rate_bps: mean(players.iter().map(|p| p.rate_bps)),
            rate_least_bps: players.iter().map(|p| p.rate_bps).fold(f64::INFINITY, f64::min),
            switches_per_minute: mean(began.clone().map(|p| p.switches as f64 / minutes(p))),
            stalls: players.iter().map(|p| p.stalls).sum(),
            stalled: mean(began.clone().map(|p| p.stalled_s / p.watched_s)),
            never_began: players.iter().filter(|p| p.startup_s.is_none()).count() as u64,
            startup_ms: spread(&mut startup),
            buffer_s: mean(began.map(|p| p.buffer_s)),
        })
    }
}
