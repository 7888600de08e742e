//! A run of the packet loop under control: the loop sees only changes that were checked.

use super::customers::Customers;
use super::{Controlled, Desk, Doors, How, Moves, Source, needs_restart, policy_status, refused, valued};
use crate::interrupt::HangUp;
use crate::output::Failure;
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};
use weir_config::{Channel, Document, RunConfig};
use weir_dataplane::{Change, DirectionNow, Handle, LinkState, LoopNow, Mode};
use weir_measure::Octaves;
use weir_measure::result::{LinkSample, SteeringEvent};
use weir_operate::{
    Applied, Board, Configuration, Delays, DirectionStatus, Move, Packets, PortStatus, Refusal, Refused,
    Status,
};

/// How long the packet loop is waited for: it looks in each turn, and sleeps for 10 ms at most.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long a packet loop may tell nothing until it counts as stuck, where samples are not further apart.
const SILENCE_MAX: Duration = Duration::from_secs(3);
/// What is called "now" in a status.
const NOW_S: f64 = 1.0;
/// Samples at most that are kept for it.
const RECENT_MAX: usize = 1000;
/// Names of the directions, as in the configuration.
const DIRECTIONS: [&str; 2] = ["a_to_b", "b_to_a"];

/// A run that can be looked at and changed.
pub struct Control {
    desk: Desk,
    run: Running,
}

/// How the run stands.
struct Running {
    board: Board,
    /// What the packet loop was built from, and what is in force.
    started: RunConfig,
    current: RunConfig,
    about: Status,
    moves: [Moves; 2],
    /// States of the last second, and the largest delay of each sample in it.
    recent: VecDeque<LoopNow>,
    samples: [VecDeque<LinkSample>; 2],
    begun: Instant,
    told: Instant,
    /// Customers, where there are plans of some.
    customers: Option<Customers>,
    /// Changes that the loop put into force.
    changes: u64,
    /// Whether the configuration in force is another one than when somebody asked last.
    is_changed: bool,
}

/// What came of being asked, for those who read along.
pub struct Heard {
    /// Lines for the log.
    pub lines: Vec<crate::log::Entry>,
    /// Whether the configuration in force is another one.
    pub is_changed: bool,
}

impl Control {
    /// Controls a run that was built from this.
    pub fn new(
        doors: Doors,
        source: Source,
        (config, customers): (&RunConfig, Option<Customers>),
        mode: Mode,
        hangup: HangUp,
    ) -> Result<Control, Failure> {
        let board = Board::default();
        let mut about = Status {
            verb: "run".into(),
            title: format!("{} <-> {}", config.ports.a, config.ports.b),
            mode: mode.to_string(),
            // Whether they are up is looked at first when the loop turns.
            ports: [&config.ports.a, &config.ports.b]
                .map(|name| PortStatus { name: name.clone(), ..PortStatus::default() })
                .into(),
            ..Status::default()
        };
        let desk = Desk::open(doors, source, &board, &mut about, hangup)?;
        let run = Running {
            board,
            started: config.clone(),
            current: config.clone(),
            about,
            moves: Default::default(),
            recent: VecDeque::new(),
            samples: Default::default(),
            begun: Instant::now(),
            told: Instant::now(),
            customers,
            changes: 0,
            is_changed: false,
        };
        run.publish_configuration();
        Ok(Control { desk, run })
    }

    /// The configuration in force.
    pub fn config(&self) -> &RunConfig {
        &self.run.current
    }

    /// Whether somebody asked for the end.
    pub fn is_draining(&self) -> bool {
        self.desk.is_draining()
    }

    /// Does for so long what is asked for.
    pub fn serve(&mut self, handle: &mut Handle, time: Duration) -> Heard {
        let lines = self.desk.serve(&mut Asked { run: &mut self.run, handle }, time);
        Heard { lines, is_changed: std::mem::take(&mut self.run.is_changed) }
    }

    /// The packet loop turns: the service manager is told.
    pub fn begin(&self) {
        self.desk.begin();
    }

    /// Refuses what is asked for from now on: the run ends.
    pub fn close(&mut self) {
        self.desk.close();
    }

    /// Publishes how the run stands.
    pub fn publish(&mut self, handle: &mut Handle, samples: &[Vec<LinkSample>; 2], events: &[SteeringEvent]) {
        let status = self.run.look(handle, samples, events);
        // A loop that does not turn is not told to be alive, so that the service manager starts another.
        if self.run.told.elapsed() < self.run.silence_max() {
            self.desk.alive();
        }
        self.desk.stands(&status);
    }
}

/// A run, and the way to its packet loop.
struct Asked<'a> {
    run: &'a mut Running,
    handle: &'a mut Handle,
}

impl Controlled for Asked<'_> {
    fn apply(&mut self, next: &Document, How { dry_run, again }: How) -> Result<Applied, Refused> {
        let Asked { run, handle } = self;
        let config = next.run_config().map_err(refused)?;
        let mut notes: Vec<String> = config.warnings();
        let changed = run.current.changes(&config);
        let change = Change::between(&run.started, &run.current, &config).map_err(restart)?;
        notes.extend_from_slice(change.notes());
        let mut applied = Applied { changed: valued(changed), at_s: None, notes };
        let read = match &run.customers {
            Some(customers) if again => customers.again(&config)?,
            _ => None,
        };
        let change = match (&run.customers, &read) {
            (Some(customers), Some(read)) => {
                applied.changed.push(customers.changed(read));
                change.with_plans(&read.plans)
            }
            _ => change,
        };
        if dry_run {
            return Ok(applied);
        }
        if !change.is_empty() {
            applied.at_s = Some(run.put(handle, change)?);
        }
        if let (Some(customers), Some(read)) = (&mut run.customers, read) {
            customers.adopt(read);
        }
        run.is_changed |= !applied.changed.is_empty();
        run.current = config;
        run.publish_configuration();
        // Whoever asked looks at what is in force now, which the loop tells right after it put it there.
        let begun = Instant::now();
        loop {
            run.look(handle, &Default::default(), &[]);
            let told = run.recent.back().map_or(0, |now| now.changes);
            if told >= run.changes || begun.elapsed() > PATIENCE {
                return Ok(applied);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn drain(&mut self) -> Result<f64, Refused> {
        let at_s = self.run.put(self.handle, Change::keep_forwarding())?;
        self.run.about.is_draining = true;
        Ok(at_s)
    }
}

impl Running {
    fn put(&mut self, handle: &mut Handle, change: Change) -> Result<f64, Refused> {
        let at_s =
            handle.change(change, PATIENCE).map_err(|error| (503, Refusal::plain(error.to_string())))?;
        self.changes += 1;
        Ok(at_s)
    }

    fn publish_configuration(&self) {
        self.board.configured(Configuration {
            file: self.about.file.clone(),
            toml: self.current.to_toml(),
            values: self.current.values(),
        });
    }

    /// Takes what the loop told, and publishes how the run stands.
    fn look(
        &mut self,
        handle: &mut Handle,
        samples: &[Vec<LinkSample>; 2],
        events: &[SteeringEvent],
    ) -> Status {
        for (kept, new) in self.samples.iter_mut().zip(samples) {
            kept.extend(new);
            let last_s = kept.back().map_or(0.0, |row| row.t_s);
            while kept.len() > RECENT_MAX || kept.front().is_some_and(|row| row.t_s < last_s - NOW_S) {
                kept.pop_front();
            }
        }
        for event in events {
            let index = usize::from(event.link == DIRECTIONS[1]);
            self.moves[index].add(moved(event));
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
        if let Some(customers) = &mut self.customers {
            customers.look(handle);
        }
        let status = self.status(handle.links());
        self.board.publish(status.clone());
        status
    }

    /// How long a loop that works may tell nothing: it does with each sample.
    fn silence_max(&self) -> Duration {
        SILENCE_MAX.max(Duration::from_nanos(self.current.run.sample.as_nanos()) * 2)
    }

    fn status(&self, links: [LinkState; 2]) -> Status {
        let mut status = self.about.clone();
        status.uptime_s = self.begun.elapsed().as_secs_f64();
        status.silent_s = self.told.elapsed().as_secs_f64();
        let ports = [&self.current.ports.a, &self.current.ports.b];
        let now = self.recent.back();
        let port = |index: usize| PortStatus {
            name: ports[index].clone(),
            is_up: links[index] == LinkState::Up,
            lost_frames: now.map_or(0, |now| now.lost_before_queue[index]),
        };
        status.ports = vec![port(0), port(1)];
        let Some(now) = now else { return status };
        status.changes = now.changes;
        status.bypassed_frames = now.bypassed;
        status.stalled_s = now.stalled.as_secs_f64();
        status.gaps = delays(&now.gaps);
        status.directions = (0..2).map(|index| self.direction(index, now)).collect();
        status
    }

    fn direction(&self, index: usize, now: &LoopNow) -> DirectionStatus {
        let channel = [&self.current.a_to_b, &self.current.b_to_a][index];
        let DirectionNow { rate, counters, users, backlog, packets, status, .. } = now.directions[index];
        let is_shaped = rate.as_bps() > 0;
        let second = Second::between(self.recent.front().unwrap_or(now), now, index);
        let steering = channel.policy.as_ref().map(|policy| policy.policy());
        DirectionStatus {
            name: DIRECTIONS[index].into(),
            aqm: aqm(channel),
            rate_bps: is_shaped.then(|| rate.as_bps_f64()),
            capacity_bytes: if is_shaped { now.capacity_bytes[index] } else { 0.0 },
            policy: steering.map(|policy| policy_status(format!("{}.policy", DIRECTIONS[index]), &policy)),
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
                marked: counters.marked,
            },
            delays: delays(&now.directions[index].delays),
            moves: self.moves[index].by_rule.clone(),
            recent_moves: self.moves[index].latest(),
            faults: faults(&now.directions[index]),
            users_placed: users.map(|users| users.placed),
            users: self.customers.as_ref().and_then(|customers| customers.status(index)),
        }
    }
}

fn moved(event: &SteeringEvent) -> Move {
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
    ];
    all.into_iter().map(|(cause, count)| (cause.to_string(), count)).collect()
}

/// How packets wait on a direction, in words.
pub fn aqm(channel: &Channel) -> String {
    let steered = if channel.policy.is_some() { ", steered" } else { "" };
    channel
        .aqm
        .as_ref()
        .map_or("unmanaged".into(), |aqm| format!("{}{steered}", channel.queue.label(&aqm.name)))
}

fn restart(needs: Vec<weir_dataplane::NeedsRestart>) -> Refused {
    let remedy =
        "change the file and start it with `weir run FILE --takeover`, which takes over without a gap";
    needs_restart(needs.into_iter().map(|one| (one.key, one.why)), remedy)
}
