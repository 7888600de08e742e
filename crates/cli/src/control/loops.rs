//! How a packet loop stands, out of what it tells: the same for everybody who has one.

use super::{Moves, policy_status};
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};
use weir_config::Channel;
use weir_dataplane::{Change, DirectionNow, Handle, LoopNow, SensingNow};
use weir_measure::Octaves;
use weir_measure::result::{LinkSample, SteeringEvent};
use weir_operate::{Delays, DirectionStatus, Move, Packets, Refusal, Refused, SensingStatus, Status};

/// What is called "now" in a status.
const NOW_S: f64 = 1.0;
/// Samples at most that are kept for it.
const RECENT_MAX: usize = 1000;

/// How long a packet loop is waited for: it looks in each turn, and sleeps for 10 ms at most.
const PATIENCE: Duration = Duration::from_secs(2);

/// Has a packet loop put a change into force; when that was.
pub fn put(handle: &mut Handle, change: Change) -> Result<f64, Refused> {
    handle.change(change, PATIENCE).map_err(|error| (503, Refusal::plain(error.to_string())))
}

/// Looks until so many changes are told of: whoever asked looks at what is in force now, which the loop tells
/// right after it put it there.
pub fn wait_until_told(changes: u64, mut look: impl FnMut() -> u64) {
    let begun = Instant::now();
    while look() < changes && begun.elapsed() <= PATIENCE {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// What a packet loop told lately.
pub struct Seen {
    /// Names of its directions in events.
    names: [String; 2],
    moves: [Moves; 2],
    /// States of the last second, and the largest delay of each sample in it.
    recent: VecDeque<LoopNow>,
    samples: [VecDeque<LinkSample>; 2],
    told: Instant,
}

/// What a direction is, and the keys under which it changes.
pub struct Facts<'a> {
    /// Its name.
    pub name: &'a str,
    /// What it was built from, with what changed since.
    pub channel: &'a Channel,
    /// The key of its policy.
    pub policy: String,
    /// The key of its rate.
    pub rate: String,
}

impl Seen {
    /// Nothing was told yet.
    pub fn new(names: [&str; 2]) -> Seen {
        Seen {
            names: names.map(String::from),
            moves: Default::default(),
            recent: VecDeque::new(),
            samples: Default::default(),
            told: Instant::now(),
        }
    }

    /// Takes what the loop told; events of others are passed over.
    pub fn take(&mut self, handle: &mut Handle, samples: [&[LinkSample]; 2], events: &[SteeringEvent]) {
        for (kept, new) in self.samples.iter_mut().zip(samples) {
            kept.extend(new);
            let last_s = kept.back().map_or(0.0, |row| row.t_s);
            while kept.len() > RECENT_MAX || kept.front().is_some_and(|row| row.t_s < last_s - NOW_S) {
                kept.pop_front();
            }
        }
        for event in events {
            if let Some(index) = self.names.iter().position(|name| *name == event.link) {
                self.moves[index].add(moved(event));
            }
        }
        if let Some(now) = handle.now() {
            self.told = Instant::now();
            self.recent.push_back(now);
            while self.recent.len() > RECENT_MAX
                || self.recent.get(1).is_some_and(|old| old.t_s <= now.t_s - NOW_S)
            {
                self.recent.pop_front();
            }
        }
    }

    /// How it stands, as told last.
    pub fn now(&self) -> Option<&LoopNow> {
        self.recent.back()
    }

    /// Changes that it put into force.
    pub fn changes(&self) -> u64 {
        self.now().map_or(0, |now| now.changes)
    }

    /// For how long it told nothing.
    pub fn silent(&self) -> Duration {
        self.told.elapsed()
    }

    /// Adds what is of the loop and not of a direction.
    pub fn tell(&self, status: &mut Status) {
        let Some(now) = self.now() else { return };
        status.changes += now.changes;
        status.bypassed_frames += now.bypassed;
        status.stalled_s += now.stalled.as_secs_f64();
        // Of several loops that of the first.
        if status.gaps.counts.is_empty() {
            status.gaps = delays(&now.gaps);
        }
    }

    /// How a direction stands, once something was told.
    pub fn direction(&self, index: usize, facts: Facts<'_>) -> Option<DirectionStatus> {
        let now = self.now()?;
        let Facts { name, channel, policy, rate: rate_key } = facts;
        let DirectionNow { rate, counters, users, backlog, packets, status, .. } = now.directions[index];
        let is_shaped = rate.as_bps() > 0;
        let second = Second::between(self.recent.front().unwrap_or(now), now, index);
        let steering = channel.policy.as_ref().map(|policy| policy.policy());
        Some(DirectionStatus {
            name: name.into(),
            aqm: aqm(channel),
            rate_bps: is_shaped.then(|| rate.as_bps_f64()),
            rate_key: is_shaped.then_some(rate_key),
            capacity_bytes: if is_shaped { now.capacity_bytes[index] } else { 0.0 },
            policy: steering.map(|steering| policy_status(policy, &steering)),
            arrived_bps: second.arrived_bps,
            delivered_bps: second.delivered_bps,
            utilization: second.utilization.filter(|_| is_shaped),
            delay_mean_ms: second.delay_mean_ms,
            delay_max_ms: self.samples[index].iter().map(|row| row.delay_max_ms).fold(0.0, f64::max),
            delay_p95_ms: None,
            setpoint_ms: status.setpoint.map(|setpoint| setpoint.as_millis_f64()),
            table_state: status.table_state,
            virtual_rate_bps: status.virtual_queue.map(|(_, rate)| rate.as_bps_f64()),
            backlog_bytes: backlog.get(),
            backlog_packets: packets,
            packets: Packets {
                arrived: counters.arrived,
                arrived_bytes: counters.arrived_bytes,
                delivered: counters.dequeued,
                delivered_bytes: counters.dequeued_bytes,
                dropped_on_arrival: counters.dropped_in,
                dropped_at_head: counters.dropped_out,
                overflowed: counters.overflowed,
                shed: counters.shed,
                acks_filtered: counters.filtered,
                marked: counters.marked,
                came_marked: Some(now.directions[index].came_marked),
            },
            delays: delays(&now.directions[index].delays),
            moves: self.moves[index].by_rule.clone(),
            recent_moves: self.moves[index].latest(),
            faults: faults(&now.directions[index]),
            users_placed: users.map(|users| users.placed),
            sensing: now.sensing[index].as_ref().map(sensing_status),
            ..DirectionStatus::default()
        })
    }
}

/// A move as it is told.
pub fn moved(event: &SteeringEvent) -> Move {
    Move {
        t_s: event.t_s,
        rule: event.rule.clone(),
        from: event.from,
        to: event.to,
        unit: event.unit.clone(),
        // What is not a number has no place in JSON.
        measured: event.measured.iter().filter(|(_, value)| value.is_finite()).cloned().collect(),
    }
}

/// What happened between two states.
struct Second {
    arrived_bps: f64,
    delivered_bps: f64,
    utilization: Option<f64>,
    delay_mean_ms: Option<f64>,
}

impl Second {
    fn between(before: &LoopNow, now: &LoopNow, index: usize) -> Second {
        let (first, last) = (&before.directions[index], &now.directions[index]);
        let span_s = now.t_s - before.t_s;
        let per_s = |bytes: f64| if span_s > 0.0 { bytes * 8.0 / span_s } else { 0.0 };
        let arrived = last.counters.arrived_bytes - first.counters.arrived_bytes;
        let delivered = (last.counters.dequeued_bytes - first.counters.dequeued_bytes) as f64;
        let capacity = now.capacity_bytes[index] - before.capacity_bytes[index];
        let packets = last.delays.count() - first.delays.count();
        let waited_ms = (last.delays.sum_s() - first.delays.sum_s()) * 1e3;
        Second {
            arrived_bps: per_s(arrived as f64),
            delivered_bps: per_s(delivered),
            utilization: (capacity > 0.0).then(|| delivered / capacity),
            delay_mean_ms: (packets > 0).then(|| waited_ms / packets as f64),
        }
    }
}

fn delays(octaves: &Octaves) -> Delays {
    let (mut bounds_s, counts): (Vec<f64>, Vec<u64>) = octaves.buckets().unzip();
    // The last has none.
    bounds_s.pop();
    Delays { bounds_s, counts, sum_s: octaves.sum_s() }
}

fn faults(now: &DirectionNow) -> BTreeMap<String, u64> {
    let faults = now.faults;
    let all = [
        ("runt", faults.runt),
        ("malformed", faults.malformed),
        ("too_long", faults.too_long),
        ("delay_line_full", faults.delay_line_full),
        ("stale", faults.stale),
    ];
    all.into_iter().map(|(cause, count)| (cause.to_string(), count)).collect()
}

/// How sensing stands, as it is told.
fn sensing_status(now: &SensingNow) -> SensingStatus {
    let c = &now.counters;
    SensingStatus {
        state: now.state.name().into(),
        sent: c.sent,
        returned: c.returned,
        lost: c.lost,
        not_believed: c.forged + c.future + c.unknown,
        refused: now.refused,
        rtt_ms: now.rtt.map(|rtt| rtt.as_millis_f64()),
        is_fallen_back: now.shaped.map(|shaped| shaped.is_fallen_back),
        cuts: now.shaped.map(|shaped| shaped.cuts),
    }
}

/// How packets wait on a direction, in words.
pub fn aqm(channel: &Channel) -> String {
    let steered = if channel.policy.is_some() { ", steered" } else { "" };
    channel
        .aqm
        .as_ref()
        .map_or("unmanaged".into(), |aqm| format!("{}{steered}", channel.queue.label(&aqm.name)))
}
