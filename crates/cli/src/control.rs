//! A running program under control: how it stands is published, and its configuration changes as it is asked
//! to.
//!
//! Everything here is done by the thread that watches the run, so that changes come one after the other; the
//! packet loop sees only those that were checked.

use crate::interrupt::HangUp;
use crate::output::Failure;
use crate::results;
use crate::service::Service;
use socket2::{Domain, Socket, Type};
use std::collections::{BTreeMap, VecDeque};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};
use weir_config::{Channel, Document, RunConfig};
use weir_dataplane::{Change, DirectionNow, Handle, LinkState, LoopNow, Mode, privileges};
use weir_measure::Octaves;
use weir_measure::result::{LinkSample, SteeringEvent};
use weir_operate::page::Token;
use weir_operate::{
    Applied, Board, Command, Configuration, ControlSocket, Delays, DirectionStatus, FOLDER, Move, Order,
    Packets, PolicyStatus, PortStatus, Problem, Refusal, Server, Sockets, Status, Valued,
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

/// Where a run can be asked, before its rights are given up.
pub struct Doors {
    socket: Option<ControlSocket>,
    sockets: Sockets,
    service: Service,
}

impl Doors {
    /// Opens the addresses for metrics and the page, where they are named; refused if they cannot be had.
    /// Those of a run that is taken over are shared with it until it ends.
    pub fn open(config: &RunConfig, takeover: bool) -> Result<Doors, Failure> {
        let bound = |key: &str, address: &Option<String>| {
            let address: Option<SocketAddr> = address.as_ref().and_then(|address| address.parse().ok());
            let opened = address.map(|address| {
                listener(address, takeover).map_err(|error| {
                    Failure::Failed(format!(
                        "key `run.{key}`: cannot listen on {address}: {error}. Remedy: choose another port, or end who \
                         has it"
                    ))
                })
            });
            opened.transpose()
        };
        let metrics = bound("metrics", &config.run.metrics)?;
        let page = bound("page", &config.run.page)?.map(with_token).transpose()?;
        let sockets = Sockets { control: None, metrics, page };
        Ok(Doors { socket: None, sockets, service: Service::find() })
    }

    /// Opens the control socket; a run without one goes on, and says so.
    pub fn listen(&mut self) -> Option<String> {
        let bound = weir_dataplane::make_journals().and_then(|()| ControlSocket::bind(Path::new(FOLDER)));
        match bound {
            Ok(mut socket) => {
                self.sockets.control = socket.take();
                self.socket = Some(socket);
                None
            }
            Err(error) => Some(format!(
                "no control socket in {FOLDER} ({error}): `weir ctl` does not reach this run, which goes on"
            )),
        }
    }
}

/// Listens at an address of which nobody else has anything, or else the run that is taken over.
fn listener(address: SocketAddr, takeover: bool) -> std::io::Result<TcpListener> {
    if !takeover {
        // Sharing as below would go unnoticed.
        drop(TcpListener::bind(address)?);
    }
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Connections that wait to be accepted.
const BACKLOG: i32 = 128;

/// The page with what changes there take.
fn with_token(listener: TcpListener) -> Result<(TcpListener, Token), Failure> {
    let token = weir_dataplane::make_journals().and_then(|()| Token::of(Path::new(FOLDER)));
    let token = token.map_err(|error| {
        Failure::Failed(format!(
            "key `run.page`: no token in {FOLDER}: {error}. Remedy: leave `run.page` out"
        ))
    })?;
    Ok((listener, token))
}

/// What was read from a file, and what it says.
struct Source {
    file: PathBuf,
    /// What was set over it on the command line.
    set: Vec<String>,
    document: Document,
    /// Keys that were set since it was read.
    live: BTreeMap<String, String>,
}

/// A run that can be looked at and changed.
pub struct Control {
    /// Its name goes with the run.
    _socket: Option<ControlSocket>,
    board: Board,
    orders: Option<Receiver<Order>>,
    source: Source,
    /// What the packet loop was built from, and what is in force.
    started: RunConfig,
    current: RunConfig,
    about: Status,
    moves: [BTreeMap<String, u64>; 2],
    recent_moves: [VecDeque<Move>; 2],
    /// States of the last second, and the largest delay of each sample in it.
    recent: VecDeque<LoopNow>,
    samples: [VecDeque<LinkSample>; 2],
    begun: Instant,
    told: Instant,
    hangup: Option<HangUp>,
    service: Service,
    /// Whether the run is to end.
    is_draining: bool,
    /// Changes that the loop put into force.
    changes: u64,
}

/// What came of being asked, for those who read along.
#[derive(Default)]
pub struct Heard {
    /// Lines for the log.
    pub lines: Vec<String>,
    /// Whether the configuration in force is another one.
    pub is_changed: bool,
}

impl Control {
    /// Controls a run that was built from this; `set` is what was set over its file.
    pub fn new(
        doors: Doors,
        (file, set, document): (&Path, &[String], Document),
        config: &RunConfig,
        mode: Mode,
        hangup: HangUp,
    ) -> Result<Control, Failure> {
        let board = Board::default();
        let Doors { socket, sockets, service } = doors;
        let file = std::path::absolute(file).unwrap_or_else(|_| file.to_path_buf());
        let about = Status {
            verb: "run".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            pid: std::process::id(),
            title: format!("{} <-> {}", config.ports.a, config.ports.b),
            file: file.display().to_string(),
            mode: mode.to_string(),
            // Whether they are up is looked at first when the loop turns.
            ports: [&config.ports.a, &config.ports.b]
                .map(|name| PortStatus { name: name.clone(), ..PortStatus::default() })
                .into(),
            ..Status::default()
        };
        let about = Status {
            page: sockets
                .page
                .as_ref()
                .and_then(|(listener, _)| Some(listener.local_addr().ok()?.to_string())),
            ..about
        };
        // Whoever asks before the loop has told anything is told what it is.
        board.publish(about.clone());
        let (server, orders) = Server::new(sockets, board.clone());
        server.start(|| {
            // What is asked for is never read as root. Where that cannot be had, capabilities are gone all
            // the same.
            let _ = privileges::leave_root();
        })?;
        let source = Source { file, set: set.to_vec(), document, live: BTreeMap::new() };
        let control = Control {
            _socket: socket,
            board,
            orders: Some(orders),
            source,
            started: config.clone(),
            current: config.clone(),
            about,
            moves: Default::default(),
            recent_moves: Default::default(),
            recent: VecDeque::new(),
            samples: Default::default(),
            begun: Instant::now(),
            told: Instant::now(),
            hangup: Some(hangup),
            service,
            is_draining: false,
            changes: 0,
        };
        control.publish_configuration();
        Ok(control)
    }

    /// The configuration in force.
    pub fn config(&self) -> &RunConfig {
        &self.current
    }

    /// Whether somebody asked for the end.
    pub fn is_draining(&self) -> bool {
        self.is_draining
    }

    /// Does for so long what is asked for.
    pub fn serve(&mut self, handle: &mut Handle, time: Duration) -> Heard {
        let (begun, mut heard) = (Instant::now(), Heard::default());
        if self.hangup.as_ref().is_some_and(HangUp::was_told) {
            let answer = self.reload(handle, &mut heard);
            heard.lines.push(told("SIGHUP", "reload", &answer));
        }
        while let Some(left) = time.checked_sub(begun.elapsed()).filter(|_| !self.is_draining) {
            let order = match &self.orders {
                Some(orders) => orders.recv_timeout(left),
                None => return heard,
            };
            match order {
                Ok(order) => self.take(order, handle, &mut heard),
                Err(RecvTimeoutError::Timeout) => break,
                // The server is gone, which nothing but a panic brings about.
                Err(RecvTimeoutError::Disconnected) => {
                    self.orders = None;
                    heard.lines.push("the control socket is not served any more; the run goes on".into());
                }
            }
            // Who watches is told what happened before more is asked for.
            if heard.lines.len() >= LINES_MAX {
                break;
            }
        }
        heard
    }

    /// The packet loop turns: the service manager is told.
    pub fn begin(&self) {
        self.service.ready();
    }

    /// Refuses what is asked for from now on: the run ends.
    pub fn close(&mut self) {
        self.service.stopping();
        let Some(orders) = self.orders.take() else { return };
        orders.try_iter().for_each(|order| order.answer(Err((503, Refusal::plain("it ends")))));
    }

    fn take(&mut self, order: Order, handle: &mut Handle, heard: &mut Heard) {
        let answer = match order.command {
            Command::Reload { dry_run: false } => self.reload(handle, heard),
            _ => self.carry_out(&order.command, handle, heard),
        };
        let (what, is_quiet) = match &order.command {
            Command::Set { dry_run, .. } => ("set", *dry_run),
            Command::Reload { dry_run } => ("reload", *dry_run),
            Command::Drain => ("drain", false),
        };
        // What was only checked changed nothing.
        if !is_quiet {
            heard.lines.push(told(&order.who.to_string(), what, &answer));
        }
        order.answer(answer);
    }

    /// Reads the file again, of which the service manager is told.
    fn reload(&mut self, handle: &mut Handle, heard: &mut Heard) -> Result<Applied, (u16, Refusal)> {
        self.service.reloading();
        let answer = self.carry_out(&Command::Reload { dry_run: false }, handle, heard);
        self.service.ready();
        answer
    }

    fn carry_out(
        &mut self,
        command: &Command,
        handle: &mut Handle,
        heard: &mut Heard,
    ) -> Result<Applied, (u16, Refusal)> {
        let (next, dry_run) = match command {
            Command::Set { values, dry_run } => (self.source.with(values).map_err(refused)?, *dry_run),
            Command::Reload { dry_run } => (self.source.again().map_err(refused)?, *dry_run),
            Command::Drain => {
                let at_s = self.put(handle, Change::keep_forwarding())?;
                self.is_draining = true;
                self.about.is_draining = true;
                return Ok(Applied { at_s: Some(at_s), ..Applied::default() });
            }
        };
        let config = next.document.run_config().map_err(refused)?;
        let mut notes: Vec<String> = config.warnings();
        notes.extend(next.given_up(&self.source));
        let changed = self.current.changes(&config);
        let change = Change::between(&self.started, &self.current, &config).map_err(restart)?;
        notes.extend_from_slice(change.notes());
        let changed = changed.into_iter().map(|one| Valued { key: one.key, from: one.from, to: one.to });
        let mut applied = Applied { changed: changed.collect(), at_s: None, notes };
        if dry_run {
            return Ok(applied);
        }
        if !change.is_empty() {
            applied.at_s = Some(self.put(handle, change)?);
        }
        heard.is_changed |= !applied.changed.is_empty();
        (self.source, self.current) = (next, config);
        self.publish_configuration();
        // Whoever asked looks at what is in force now, which the loop tells right after it put it there.
        let begun = Instant::now();
        loop {
            self.publish(handle, &Default::default(), &[]);
            let told = self.recent.back().map_or(0, |now| now.changes);
            if told >= self.changes || begun.elapsed() > PATIENCE {
                return Ok(applied);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn put(&mut self, handle: &mut Handle, change: Change) -> Result<f64, (u16, Refusal)> {
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

    /// Publishes how the run stands.
    pub fn publish(&mut self, handle: &mut Handle, samples: &[Vec<LinkSample>; 2], events: &[SteeringEvent]) {
        for (kept, new) in self.samples.iter_mut().zip(samples) {
            kept.extend(new);
            let last_s = kept.back().map_or(0.0, |row| row.t_s);
            while kept.len() > RECENT_MAX || kept.front().is_some_and(|row| row.t_s < last_s - NOW_S) {
                kept.pop_front();
            }
        }
        for event in events {
            let index = usize::from(event.link == DIRECTIONS[1]);
            *self.moves[index].entry(event.rule.clone()).or_default() += 1;
            self.recent_moves[index].push_back(moved(event));
            if self.recent_moves[index].len() > MOVES_MAX {
                self.recent_moves[index].pop_front();
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
        let status = self.status(handle.links());
        // A loop that does not turn is not told to be alive, so that the service manager starts another.
        if self.told.elapsed() < self.silence_max() {
            self.service.alive();
        }
        self.service.status(|| line(&status));
        self.board.publish(status);
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
            policy: steering.map(|policy| PolicyStatus {
                utilization_low: policy.utilization_low.0,
                utilization_target: policy.utilization_target.0,
                target_min_ms: policy.target_min.as_millis_f64(),
                target_max_ms: policy.target_max.as_millis_f64(),
            }),
            arrived_bps: second.arrived_bps,
            delivered_bps: second.delivered_bps,
            utilization: second.utilization.filter(|_| is_shaped),
            delay_mean_ms: second.delay_mean_ms,
            delay_max_ms: self.samples[index].iter().map(|row| row.delay_max_ms).fold(0.0, f64::max),
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
            moves: self.moves[index].clone(),
            recent_moves: self.recent_moves[index].iter().cloned().collect(),
            faults: faults(&now.directions[index]),
            users_placed: users.map(|users| users.placed),
        }
    }
}

/// Moves of the set point that are told one by one.
const MOVES_MAX: usize = 30;

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

/// Lines at most before who watches is told.
const LINES_MAX: usize = 64;

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

/// How a run stands, for whoever asks the service manager.
fn line(status: &Status) -> String {
    let problems = status.readiness().problems;
    if !problems.is_empty() {
        return format!("{}: {}", status.title, problems.join(", "));
    }
    let direction = |d: &DirectionStatus| {
        let used = d.utilization.map_or(String::new(), |used| format!(", {:.0} % used", used * 100.0));
        format!("{} {:.1} Mbit/s{used}", d.name, d.delivered_bps / 1e6)
    };
    let directions: Vec<String> = status.directions.iter().map(direction).collect();
    format!("{}: {}", status.title, directions.join(", "))
}

/// How packets wait on a direction, in words.
pub fn aqm(channel: &Channel) -> String {
    let steered = if channel.policy.is_some() { ", steered" } else { "" };
    channel
        .aqm
        .as_ref()
        .map_or("unmanaged".into(), |aqm| format!("{}{steered}", channel.queue.label(&aqm.name)))
}

impl Source {
    /// With other values for some keys.
    fn with(&self, values: &BTreeMap<String, String>) -> Result<Source, weir_config::Errors> {
        let mut document = self.document.clone();
        values.iter().try_for_each(|(key, value)| document.set(key, value))?;
        let live = self.live.iter().chain(values).map(|(key, value)| (key.clone(), value.clone())).collect();
        Ok(Source { file: self.file.clone(), set: self.set.clone(), document, live })
    }

    /// As the file is now.
    fn again(&self) -> Result<Source, weir_config::Errors> {
        let document = results::document_of(&self.file, &self.set)?;
        Ok(Source { file: self.file.clone(), set: self.set.clone(), document, live: BTreeMap::new() })
    }

    /// What to say of keys that were set before and are not any more.
    fn given_up(&self, before: &Source) -> Option<String> {
        let keys: Vec<&str> =
            before.live.keys().filter(|key| !self.live.contains_key(*key)).map(String::as_str).collect();
        (!keys.is_empty())
            .then(|| format!("as in the file again, after it was changed live: {}", keys.join(", ")))
    }
}

fn refused(errors: weir_config::Errors) -> (u16, Refusal) {
    let problems = errors.iter().map(|error| Problem {
        key: error.key.clone(),
        line: error.line,
        problem: error.problem.clone(),
        remedy: error.remedy.clone(),
    });
    let problems = problems.collect();
    (422, Refusal { error: errors.to_string(), problems, needs_restart: false })
}

fn restart(needs: Vec<weir_dataplane::NeedsRestart>) -> (u16, Refusal) {
    let error: Vec<String> = needs.iter().map(ToString::to_string).collect();
    let problems = needs.into_iter().map(|one| Problem {
        key: Some(one.key),
        line: None,
        problem: format!("cannot change while it runs: {}", one.why),
        remedy:
            "change the file and start it with `weir run FILE --takeover`, which takes over without a gap"
                .into(),
    });
    (409, Refusal { error: error.join("\n"), problems: problems.collect(), needs_restart: true })
}

/// A line for the log: who asked for what, and what came of it.
fn told(who: &str, what: &str, answer: &Result<Applied, (u16, Refusal)>) -> String {
    let text = match answer {
        Ok(applied) if what == "drain" => {
            let at_s = applied.at_s.unwrap_or_default();
            format!("{what} by {who} at {at_s:.3} s: what waits is sent, and the kernel goes on forwarding")
        }
        Ok(applied) if applied.changed.is_empty() => format!("{what} by {who}: everything was so already"),
        Ok(applied) => {
            let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "absent".into());
            let changed = applied.changed.iter();
            let changed: Vec<String> = changed
                .map(|one| format!("{} {} -> {}", one.key, value(&one.from), value(&one.to)))
                .collect();
            let at = applied.at_s.map_or(String::new(), |at_s| format!(" at {at_s:.3} s"));
            format!("{what} by {who}{at}: {}", changed.join(", "))
        }
        Err((_, refusal)) => format!("{what} by {who} refused, nothing was changed: {}", refusal.error),
    };
    // One line each, whatever was sent.
    text.replace('\n', "; ").chars().filter(|c| !c.is_control()).take(LINE_MAX).collect()
}

/// Longest line of a change.
const LINE_MAX: usize = 2000;

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source {
        let document = Document::parse("f.toml", text).unwrap();
        Source { file: "f.toml".into(), set: Vec::new(), document, live: BTreeMap::new() }
    }

    #[test]
    fn a_line_of_the_log_is_one_line_whatever_was_sent() {
        let error = "--set a=\u{1b}[2J\n: is unknown".to_string();
        let line = told("uid 0, pid 7 (x)", "set", &Err((422, Refusal::plain(error))));
        assert!(
            line.starts_with("set by uid 0, pid 7 (x) refused, nothing was changed: --set a=[2J; : is"),
            "{line}"
        );
        let long = told("uid 0", "set", &Err((422, Refusal::plain("x".repeat(10_000)))));
        assert_eq!(long.chars().count(), LINE_MAX);
        let changed = vec![Valued { key: "a.b".into(), from: None, to: Some("1".into()) }];
        let applied = Applied { changed, at_s: Some(1.5), notes: Vec::new() };
        assert_eq!(told("SIGHUP", "reload", &Ok(applied)), "reload by SIGHUP at 1.500 s: a.b absent -> 1");
        let same = told("uid 0", "set", &Ok(Applied::default()));
        assert_eq!(same, "set by uid 0: everything was so already");
    }

    #[test]
    fn an_address_is_shared_with_the_run_that_is_taken_over_and_with_nobody_else() {
        let first = listener("127.0.0.1:0".parse().unwrap(), false).unwrap();
        let address = first.local_addr().unwrap();
        assert!(listener(address, false).is_err());
        let second = listener(address, true).unwrap();
        drop(first);
        let begun = std::net::TcpStream::connect(address).unwrap();
        assert!(second.accept().is_ok());
        drop(begun);
    }

    #[test]
    fn keys_that_were_set_stay_until_the_file_is_read_again() {
        let file = source(
            "ports = { a = \"x\", b = \"y\" }\na_to_b = { rate = \"5Mbit/s\", aqm = { name = \"codel\" } }\n",
        );
        let set = |source: &Source, key: &str, value: &str| {
            source.with(&[(key.to_string(), value.to_string())].into()).unwrap()
        };
        let once = set(&file, "a_to_b.rate", "6Mbit/s");
        let twice = set(&once, "a_to_b.aqm.target", "7ms");
        let values = twice.document.run_config().unwrap().values();
        assert_eq!(
            (values["a_to_b.rate"].as_str(), values["a_to_b.aqm.target"].as_str()),
            ("\"6Mbit/s\"", "\"7ms\"")
        );
        assert_eq!(twice.given_up(&once), None);
        assert!(file.given_up(&twice).unwrap().ends_with("a_to_b.aqm.target, a_to_b.rate"));
    }

    #[test]
    fn what_is_wrong_and_what_takes_a_restart_is_told_by_key() {
        let errors = source("ports = { a = \"x\" }\n").document.run_config().unwrap_err();
        let (status, refusal) = refused(errors);
        assert_eq!((status, refusal.needs_restart), (422, false));
        assert_eq!(refusal.problems[0].key.as_deref(), Some("ports.b"));
        let needs = weir_dataplane::NeedsRestart { key: "ports.a".into(), why: "it is so" };
        let (status, refusal) = restart(vec![needs]);
        assert_eq!((status, refusal.needs_restart), (409, true));
        assert!(refusal.error.contains("`ports.a`") && refusal.problems[0].remedy.contains("--takeover"));
    }
}
