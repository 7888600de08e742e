//! Steering of queues of the kernel under control.

use super::{
    Controlled, Desk, Doors, How, Moves, Source, configured, needs_restart, policy_status, refused, valued,
};
use crate::interrupt::HangUp;
use crate::log::{self, Level};
use crate::output::Failure;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;
use weir_config::{Document, SteerConfig};
use weir_kernel::{Event, Kind, News, Setup, Standing, Steerer};
use weir_operate::{Applied, Board, DirectionStatus, Move, Packets, PolicyStatus, Refusal, Refused, Status};
use weir_units::{Bytes, Rate, Time};

/// Queues at most that are told one by one.
const TOLD_MAX: usize = 256;
/// How often it is told how a hundred queues stand.
const PERIOD: Duration = Duration::from_millis(250);
/// What is called "now" in a status.
const NOW: Duration = Duration::from_secs(1);

/// Queues that can be looked at, and held to another policy.
pub struct Watched {
    board: Board,
    /// What was started with, and what is in force.
    started: SteerConfig,
    current: SteerConfig,
    about: Status,
    /// Rates that drivers told at the start.
    drivers: HashMap<String, Rate>,
    /// Time and bytes that were sent of each queue that is told, in the last second.
    recent: Vec<VecDeque<(Time, Bytes)>>,
    moves: Vec<Moves>,
    told: Option<Time>,
}

impl Watched {
    /// Of the queues that were found.
    pub fn new(
        config: &SteerConfig,
        steerer: &Steerer,
        driver_rate: &dyn Fn(&str) -> Option<Rate>,
    ) -> Watched {
        let count = steerer.places().count();
        let mut names: Vec<&str> = config.queues.iter().map(|queue| queue.interface.as_str()).collect();
        names.dedup();
        let rate = |name: &str| Some((name.to_string(), driver_rate(name)?));
        let about = Status {
            verb: "steer".into(),
            title: format!("queues of {}", names.join(", ")),
            mode: "the kernel's queues".into(),
            ..Status::default()
        };
        let told = count.min(TOLD_MAX);
        Watched {
            board: Board::default(),
            started: config.clone(),
            current: config.clone(),
            about,
            drivers: names.iter().filter_map(|name| rate(name)).collect(),
            recent: vec![VecDeque::new(); told],
            moves: vec![Default::default(); told],
            told: None,
        }
    }

    /// Lets others ask from now on.
    pub fn open(&mut self, doors: Doors, source: Source, hangup: HangUp) -> Result<Desk, Failure> {
        let desk = Desk::open(doors, source, &self.board, &mut self.about, hangup)?;
        self.publish_configuration();
        Ok(desk)
    }

    /// The configuration in force.
    pub fn config(&self) -> &SteerConfig {
        &self.current
    }

    fn publish_configuration(&self) {
        configured(&self.board, &self.about, self.current.to_toml());
    }

    /// A queue was changed.
    pub fn moved(&mut self, steerer: &Steerer, news: &News) {
        let at = steerer.places().take(TOLD_MAX).position(|(place, ..)| place.label() == news.label);
        if let (Some(moves), Some(told)) = (at.and_then(|at| self.moves.get_mut(at)), told(news)) {
            moves.add(told);
        }
    }

    /// Tells how the queues stand, if that is due; the status if it was told.
    pub fn tell(&mut self, steerer: &Steerer, now: Time) -> Option<Status> {
        let hundreds = 1 + self.recent.len() as u32 / 100;
        let period = weir_units::Duration::from_nanos((PERIOD * hundreds).as_nanos() as u64);
        // The program ends when the last queue is left, which is told before.
        if !steerer.is_done() && self.told.is_some_and(|last| now.since(last) < period) {
            return None;
        }
        self.told = Some(now);
        let mut status = self.about.clone();
        status.uptime_s = now.as_secs_f64();
        for (at, standing) in steerer.stand().take(TOLD_MAX).enumerate() {
            status.directions.push(self.direction(at, &standing));
        }
        self.board.publish(status.clone());
        Some(status)
    }

    fn direction(&mut self, at: usize, queue: &Standing<'_>) -> DirectionStatus {
        let recent = &mut self.recent[at];
        let counters = queue.counters.copied().unwrap_or_default();
        // A queue that is left is not looked at any more.
        if queue.left.is_some() {
            recent.clear();
        } else if queue.counters.is_some() && recent.back().is_none_or(|(last, _)| *last < counters.now) {
            recent.push_back((counters.now, counters.sent));
        }
        let second = weir_units::Duration::from_nanos(NOW.as_nanos() as u64);
        while recent.get(1).is_some_and(|(old, _)| counters.now.since(*old) >= second) {
            recent.pop_front();
        }
        let per_s = recent.front().map_or(0.0, |(since, sent)| {
            let time = counters.now.since(*since).as_secs_f64();
            if time > 0.0 { (counters.sent - *sent).get() as f64 * 8.0 / time } else { 0.0 }
        });
        let waiting = u64::from(queue.waiting_packets);
        let policy = policy_in_force(&self.current, queue);
        let delay = counters.delay.unwrap_or_else(|| queue.link.time_for(counters.waiting)).as_millis_f64();
        // What CAKE's AQM did not discard its filter of acknowledgements did.
        let filters = matches!(queue.place.kind, Kind::Cake | Kind::CakeMq);
        let (overflowed, acks_filtered) = if filters { (0, queue.shed) } else { (queue.shed, 0) };
        let left = queue.left.map(|why| format!(", left: {}", why.text()));
        DirectionStatus {
            name: queue.place.label(),
            aqm: format!("{} of the kernel{}", queue.place.kind, left.unwrap_or_else(|| ", steered".into())),
            rate_bps: Some(queue.link.as_bps_f64()),
            capacity_bytes: queue.capacity_bytes,
            is_left: queue.left.is_some(),
            rate_key: policy.key.strip_suffix(".policy").map(|table| format!("{table}.rate")),
            policy: Some(policy),
            arrived_bps: per_s,
            delivered_bps: per_s,
            utilization: Some(per_s / queue.link.as_bps_f64()),
            delay_mean_ms: queue.counters.map(|_| delay),
            delay_max_ms: delay,
            setpoint_ms: Some(queue.target.as_millis_f64()),
            table_state: queue.state.map_or(0, |state| state as u8),
            virtual_rate_bps: queue.shaper.map(|rate| rate.as_bps_f64()),
            backlog_bytes: counters.waiting.get(),
            backlog_packets: queue.waiting_packets,
            packets: Packets {
                arrived: counters.sent_packets + counters.discarded + waiting,
                arrived_bytes: (counters.sent + counters.waiting).get(),
                delivered: counters.sent_packets,
                delivered_bytes: counters.sent.get(),
                // The kernel does not tell where its AQM discards.
                dropped_at_head: counters.discarded.saturating_sub(queue.shed),
                overflowed,
                acks_filtered,
                marked: queue.marked,
                ..Packets::default()
            },
            moves: self.moves[at].by_rule.clone(),
            recent_moves: self.moves[at].latest(),
            ..DirectionStatus::default()
        }
    }

    /// What can be asked for with these queues.
    pub fn asked<'a>(&'a mut self, steerer: &'a mut Steerer, now: Time) -> Asked<'a> {
        Asked { watched: self, steerer, now }
    }
}

/// What to say of queues that get a policy of their own.
fn own_policies(before: &SteerConfig, after: &SteerConfig) -> Vec<String> {
    let both = before.queues.iter().zip(&after.queues).enumerate();
    let own = both.filter(|(_, (before, after))| before.policy.is_none() && after.policy.is_some());
    own.map(|(number, _)| {
        format!(
            "queues.{number} has a policy of its own from now on: its keys that are not written have their defaults, whatever \
             `policy` says"
        )
    })
    .collect()
}

/// With the policy that holds for queues without one of their own, written or not, so that it is told, and
/// changes key by key.
pub fn settled(mut config: SteerConfig) -> SteerConfig {
    config.policy.get_or_insert_default();
    config
}

/// The policy that holds for a queue, as it is told.
pub fn policy_in_force(config: &SteerConfig, queue: &Standing<'_>) -> PolicyStatus {
    let number = queue.number;
    let is_own = config.queues.get(number).is_some_and(|queue| queue.policy.is_some());
    let key = if is_own { format!("queues.{number}.policy") } else { "policy".into() };
    policy_status(key, queue.policy)
}

fn told(news: &News) -> Option<Move> {
    let (rule, from, to, unit) = match &news.event {
        Event::Target { from, to, rule } => (*rule, from.as_millis_f64(), to.as_millis_f64(), "ms"),
        Event::Rate { from, to } => ("rate", from.as_bps_f64() / 1e6, to.as_bps_f64() / 1e6, "Mbit/s"),
        Event::Left(_) => return None,
    };
    let t_s = news.time.as_secs_f64();
    Some(Move { t_s, rule: rule.into(), from, to, unit: unit.into(), measured: BTreeMap::new() })
}

/// Queues, and who steers them.
pub struct Asked<'a> {
    watched: &'a mut Watched,
    steerer: &'a mut Steerer,
    now: Time,
}

/// What only a start takes.
const FIXED: [(&str, &str); 5] = [
    ("probe", "the programs are attached at the start"),
    ("interface", "the queues were looked for at the start"),
    ("handle", "the queues were looked for at the start"),
    ("metrics", "the address is listened at since the start"),
    ("page", "the address is listened at since the start"),
];

impl Controlled for Asked<'_> {
    fn apply(&mut self, next: &Document, How { dry_run, .. }: How<'_>) -> Result<Applied, Refused> {
        let Asked { watched, steerer, now } = self;
        let config = settled(next.steer_config().map_err(refused)?);
        let changed = watched.current.changes(&config);
        let fixed = watched.started.changes(&config).into_iter().filter_map(|one| {
            let last = one.key.rsplit('.').next().unwrap_or_default();
            let (_, why) = FIXED.iter().find(|(key, _)| *key == last)?;
            Some((one.key.clone(), *why))
        });
        let fixed: Vec<(String, &str)> = fixed.collect();
        if !fixed.is_empty() || config.queues.len() != watched.started.queues.len() {
            let more = [("queues".to_string(), FIXED[0].1)];
            let keys = if fixed.is_empty() { more.to_vec() } else { fixed };
            let remedy =
                "change the file and start `weir steer` again, which puts the queues back in between";
            return Err(needs_restart(keys, remedy));
        }
        let drivers = &watched.drivers;
        let driver_rate = |name: &str| drivers.get(name).copied();
        let wrong = |e: Setup| (422, Refusal::plain(e.to_string()));
        let mut applied =
            Applied { changed: valued(changed), at_s: None, notes: own_policies(&watched.current, &config) };
        if dry_run {
            steerer.check(&config, &driver_rate).map_err(wrong)?;
            return Ok(applied);
        }
        if !applied.changed.is_empty() {
            steerer.change(&config, &driver_rate).map_err(wrong)?;
            if watched.current.steer.log != config.steer.log {
                log::set_level(Level::of(config.steer.log));
            }
            applied.at_s = Some(now.as_secs_f64());
            watched.about.changes += 1;
        }
        watched.current = config;
        watched.publish_configuration();
        watched.told = None;
        watched.tell(steerer, *now);
        Ok(applied)
    }

    fn drain(&mut self) -> Result<Applied, Refused> {
        self.watched.about.is_draining = true;
        let notes = vec!["the queues are put back".into()];
        Ok(Applied { at_s: Some(self.now.as_secs_f64()), notes, ..Applied::default() })
    }
}
