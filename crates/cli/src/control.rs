//! A running program under control: how it stands is published, and its configuration changes as it is asked
//! to.
//!
//! Everything here is done by the thread that watches the run, so that changes come one after the other.

pub mod customers;
pub mod in_kernel;
pub mod lab;
mod loops;
pub mod run;
pub mod steer;
pub mod upf;
mod what_if;

pub use loops::aqm;

use crate::interrupt::HangUp;
use crate::log::{Entry, Level};
use crate::output::Failure;
use crate::results;
use crate::service::Service;
use socket2::{Domain, Socket, Type};
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};
use weir_config::{Changed, Document};
use weir_dataplane::{JOURNALS, privileges};
use weir_operate::page::Token;
use weir_operate::{
    AlarmStatus, Applied, Board, Command, Configuration, ControlSocket, DirectionStatus, FOLDER, Move, Order,
    PolicyStatus, Problem, Refusal, Refused, Server, Sockets, Status, Valued,
};
use weir_steer::Policy;

/// Where a run can be asked, before its rights are given up.
pub struct Doors {
    socket: Option<ControlSocket>,
    sockets: Sockets,
    service: Service,
}

impl Doors {
    /// Opens the addresses for metrics and the page, where they are named; refused if they cannot be had.
    /// Those of a run that is taken over are shared with it until it ends.
    ///
    /// An address comes with the key or the argument that names it.
    pub fn open(
        metrics: (&str, Option<&str>),
        page: (&str, Option<&str>),
        takeover: bool,
    ) -> Result<Doors, Failure> {
        let read = |address: Option<&str>| -> Option<SocketAddr> { address?.parse().ok() };
        if let (Some(asked), Some(address)) = (read(metrics.1), read(page.1))
            && let Some(problem) = in_the_way(address, asked)
        {
            let (key, other) = (named(page.0), named(metrics.0));
            return Err(Failure::Input(format!(
                "{key}: {address} {problem} of {other}{}. Remedy: name another port, or leave out {other}, as the page's \
                 address has `/metrics`, too",
                if asked == address { ", too".into() } else { format!(", {asked}") }
            )));
        }
        let bound = |(key, address): (&str, Option<&str>)| {
            let opened = read(address).map(|address| {
                listener(address, takeover)
                    .map_err(|error| Failure::Failed(cannot_listen(key, address, &error)))
            });
            opened.transpose()
        };
        let metrics = bound(metrics)?;
        let page = bound(page)?.map(|listener| with_token(listener, page.0)).transpose()?;
        let metrics = metrics.map(|listener| (listener, Vec::new()));
        let sockets = Sockets { control: None, metrics, page };
        Ok(Doors { socket: None, sockets, service: Service::find() })
    }

    /// The name of the control socket, which goes when this is dropped: for runs whose main thread may not
    /// remove it at the end.
    pub fn take_name(&mut self) -> Option<ControlSocket> {
        self.socket.take()
    }

    /// Has the service manager hear of this link among those of the program.
    pub fn belong_to(&mut self, first: &Doors) {
        self.service = first.service.beside();
    }

    /// The address of metrics, which another link is to serve.
    pub fn take_metrics(&mut self) -> Option<TcpListener> {
        self.sockets.metrics.take().map(|(listener, _)| listener)
    }

    /// Serves metrics there, of this link and of others by their boards.
    pub fn serve_metrics(&mut self, listener: TcpListener, beside: Vec<Board>) {
        self.sockets.metrics = Some((listener, beside));
    }

    /// The link did not begin: the service manager does not wait for it.
    pub fn close(&self) {
        self.service.stopping();
    }

    /// Opens the control socket; a run without one goes on, and says so.
    pub fn listen(&mut self) -> Option<String> {
        self.listen_as(0)
    }

    /// The same for one of several links, by its number from zero.
    pub fn listen_as(&mut self, link: usize) -> Option<String> {
        let bound = weir_dataplane::make_journals(Path::new(JOURNALS))
            .and_then(|()| ControlSocket::bind(Path::new(FOLDER), link));
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

/// Whether one program cannot listen at both addresses, and how the one stands to the other in words. What
/// listens at all addresses of IPv6 does so at those of IPv4, too.
pub fn in_the_way(one: SocketAddr, other: SocketAddr) -> Option<&'static str> {
    let (ip, theirs) = (one.ip().to_canonical(), other.ip().to_canonical());
    if one.port() != other.port() || one.port() == 0 {
        return None;
    }
    let holds = |all: IpAddr, of: IpAddr| all.is_unspecified() && (all.is_ipv6() || of.is_ipv4());
    match () {
        () if ip == theirs => Some("is the address"),
        () if holds(ip, theirs) => Some("stands for all addresses, among them that"),
        () if holds(theirs, ip) => Some("is among all addresses, for which stands that"),
        () => None,
    }
}

/// A key, or an argument.
fn named(key: &str) -> String {
    if key.starts_with("--") { format!("`{key}`") } else { format!("key `{key}`") }
}

/// Why nobody can ask at an address that a key names, and what to do.
fn cannot_listen(key: &str, address: SocketAddr, error: &std::io::Error) -> String {
    let key = named(key);
    match error.kind() {
        std::io::ErrorKind::AddrInUse => format!(
            "{key}: {address} is in use: another program listens there. Remedy: name another port, or end that program, \
             which `ss -ltnp 'sport = :{}'` tells",
            address.port()
        ),
        std::io::ErrorKind::AddrNotAvailable => format!(
            "{key}: {address} is no address of this network namespace. Remedy: name one that it has, or bring up the \
             interface that has it (`ip link set dev lo up`)"
        ),
        std::io::ErrorKind::PermissionDenied => format!(
            "{key}: {address} may not be listened at: {error}. Remedy: name a port of 1024 or above, or start it as root"
        ),
        _ => format!("{key}: cannot listen at {address}: {error}. Remedy: name another address"),
    }
}

/// Listens at an address of which nobody else has anything, or else the run that is taken over.
fn listener(address: SocketAddr, takeover: bool) -> std::io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    if takeover {
        socket.set_reuse_port(true)?;
    }
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    // Whoever takes this run over may share it from now on. Before, two that start at once would both have
    // it.
    socket.set_reuse_port(true)?;
    Ok(socket.into())
}

/// Connections that wait to be accepted.
const BACKLOG: i32 = 128;

/// The page with what changes there take.
fn with_token(listener: TcpListener, key: &str) -> Result<(TcpListener, Token), Failure> {
    let token =
        weir_dataplane::make_journals(Path::new(JOURNALS)).and_then(|()| Token::of(Path::new(FOLDER)));
    let token = token.map_err(|error| {
        Failure::Failed(format!("key `{key}`: no token in {FOLDER}: {error}. Remedy: leave it out"))
    })?;
    Ok((listener, token))
}

/// What was read from a file or from arguments, and what it says.
pub struct Source {
    /// None where everything is said by arguments.
    file: Option<PathBuf>,
    /// What was set over it on the command line.
    set: Vec<String>,
    /// What holds where neither says anything, by `KEY=VALUE`.
    assumed: &'static [&'static str],
    document: Document,
    /// Keys that were set since it was read.
    live: BTreeMap<String, String>,
}

impl Source {
    /// Of a document that was read from this file; `set` is what was set over it.
    pub fn new(file: Option<&Path>, set: &[String], document: Document) -> Source {
        let file = file.map(|file| std::path::absolute(file).unwrap_or_else(|_| file.to_path_buf()));
        Source { file, set: set.to_vec(), assumed: &[], document, live: BTreeMap::new() }
    }

    /// The same where these keys, by `KEY=VALUE`, have other values than elsewhere if nothing is said of
    /// them.
    pub fn assuming(self, assumed: &'static [&'static str]) -> Source {
        Source { assumed, ..self }
    }

    /// What was read.
    pub fn document(&self) -> &Document {
        &self.document
    }

    /// The folders that its file is read from again.
    pub fn folders(&self) -> Vec<PathBuf> {
        self.file.as_deref().map_or_else(Vec::new, folders)
    }

    /// The name of the file.
    pub fn name(&self) -> String {
        self.file.as_ref().map_or_else(|| "the arguments".into(), |file| file.display().to_string())
    }

    /// With other values for some keys.
    fn with(&self, values: &BTreeMap<String, String>) -> Result<Source, weir_config::Errors> {
        let mut document = self.document.clone();
        values.iter().try_for_each(|(key, value)| document.set(key, value))?;
        let live = self.live.iter().chain(values).map(|(key, value)| (key.clone(), value.clone())).collect();
        Ok(Source { document, live, ..self.alike() })
    }

    /// As the file is now.
    fn again(&self) -> Result<Source, Refused> {
        let Some(file) = &self.file else {
            let why =
                "there is no file to be read again: everything was said by arguments. Remedy: `weir ctl set`";
            return Err((409, Refusal::plain(why)));
        };
        let document = results::document_of(file, &self.set, self.assumed).map_err(refused)?;
        Ok(Source { document, ..self.alike() })
    }

    /// Of the same file and arguments, with nothing that was set live.
    fn alike(&self) -> Source {
        let Source { file, set, assumed, document, .. } = self;
        let (file, set, document) = (file.clone(), set.clone(), document.clone());
        Source { file, set, assumed, document, live: BTreeMap::new() }
    }

    /// What to say of keys of the file that are not in force, as the command line has them.
    fn overruled(&self) -> Option<String> {
        let alone = results::document_of(self.file.as_deref()?, &[], &[]).ok()?;
        let keys: Vec<&str> =
            self.set.iter().map(|text| results::key_of(text)).filter(|key| alone.has(key)).collect();
        (!keys.is_empty()).then(|| {
            format!(
                "as on the command line, whatever the file says, until a start without: {}",
                keys.join(", ")
            )
        })
    }

    /// What to say of keys that were set before and are not any more.
    fn given_up(&self, before: &Source) -> Option<String> {
        let keys: Vec<&str> =
            before.live.keys().filter(|key| !self.live.contains_key(*key)).map(String::as_str).collect();
        (!keys.is_empty())
            .then(|| format!("as in the file again, after it was changed live: {}", keys.join(", ")))
    }
}

/// How a configuration is put into force.
#[derive(Clone, Copy, Debug)]
pub struct How<'a> {
    /// It is only checked.
    pub dry_run: bool,
    /// Files that it names are read again.
    pub again: bool,
    /// Keys of single customers, by `NAME.KEY`, that get other values than their file has; empty where
    /// [`Controlled::has_customers`] says that there are none.
    pub customers: &'a BTreeMap<String, String>,
}

/// What can be changed while it runs.
pub trait Controlled {
    /// Puts a configuration into force as a whole, or refuses it and changes nothing; with `dry_run` it is
    /// only checked.
    /// With `again` files that the configuration names are read again, too.
    fn apply(&mut self, next: &Document, how: How<'_>) -> Result<Applied, Refused>;

    /// Whether there are plans of customers.
    fn has_customers(&self) -> bool {
        false
    }

    /// Somebody asked for the end: what is to be done before. When that was, in seconds of the run, and in a
    /// note what there is after it.
    fn drain(&mut self) -> Result<Applied, Refused>;
}

/// What is asked for comes in here, and what is known goes out.
///
/// Every program that runs long has one, so that what goes into the log of all of them comes from here.
pub struct Desk {
    board: Board,
    /// Its name goes with the run.
    _socket: Option<ControlSocket>,
    orders: Option<Receiver<Order>>,
    source: Source,
    hangup: Option<HangUp>,
    service: Service,
    is_draining: bool,
}

impl Desk {
    /// Answers from a board from now on. `about` is told to whoever asks before anything else is known.
    pub fn open(
        doors: Doors,
        source: Source,
        board: &Board,
        about: &mut Status,
        hangup: HangUp,
    ) -> Result<Desk, Failure> {
        let Doors { socket, sockets, service } = doors;
        let page = sockets.page.as_ref();
        about.version = env!("CARGO_PKG_VERSION").into();
        about.pid = std::process::id();
        about.file = source.name();
        about.page = page.and_then(|(listener, _)| Some(listener.local_addr().ok()?.to_string()));
        board.publish(about.clone());
        let (server, orders) = Server::new(sockets, board.clone());
        let server =
            if about.what_if { server.simulating(std::sync::Arc::new(what_if::forecast)) } else { server };
        server.start(|| {
            // What is asked for is never read as root. Where that cannot be had, capabilities are gone all
            // the same.
            let _ = privileges::leave_root();
        })?;
        let (orders, hangup) = (Some(orders), Some(hangup));
        let board = board.clone();
        Ok(Desk { board, _socket: socket, orders, source, hangup, service, is_draining: false })
    }

    /// Whether somebody asked for the end.
    pub fn is_draining(&self) -> bool {
        self.is_draining
    }

    /// Does for so long what is asked for; entries for the log, also of alarms that were raised or cleared.
    pub fn serve(&mut self, host: &mut dyn Controlled, time: Duration) -> Vec<Entry> {
        let begun = Instant::now();
        let mut lines: Vec<Entry> = self.board.take_alarmed().iter().map(alarm).collect();
        if self.hangup.as_ref().is_some_and(HangUp::was_told) {
            let answer = self.reload(host);
            lines.push(told("SIGHUP", "reload", &answer));
        }
        while let Some(left) = time.checked_sub(begun.elapsed()).filter(|_| !self.is_draining) {
            let Some(orders) = &self.orders else {
                std::thread::sleep(left);
                break;
            };
            match orders.recv_timeout(left) {
                Ok(order) => self.take(order, host, &mut lines),
                Err(RecvTimeoutError::Timeout) => break,
                // The server is gone, which nothing but a panic brings about.
                Err(RecvTimeoutError::Disconnected) => {
                    self.orders = None;
                    let what = "the control socket is not served any more; the run goes on";
                    lines.push(Entry::new(Level::Error, "control", what));
                }
            }
            // Who watches is told what happened before more is asked for.
            if lines.len() >= LINES_MAX {
                break;
            }
        }
        lines
    }

    /// Another configuration is that of the run.
    pub fn turn_to(&mut self, source: Source) {
        self.source = source;
    }

    /// It works: the service manager is told.
    pub fn begin(&self) {
        self.service.ready();
    }

    /// It still works, which the service manager is told, and how it stands.
    pub fn alive(&mut self) {
        self.service.alive();
    }

    /// How it stands, in a line for whoever asks the service manager.
    pub fn stands(&mut self, status: &Status) {
        self.service.status(|| line(status));
    }

    /// Refuses what is asked for from now on: the run ends.
    pub fn close(&mut self) {
        self.service.stopping();
        // Whoever asked for the end is answered before the program is gone.
        if self.is_draining {
            std::thread::sleep(FAREWELL);
        }
        let Some(orders) = self.orders.take() else { return };
        orders.try_iter().for_each(|order| order.answer(Err((503, Refusal::plain("it ends")))));
    }

    fn take(&mut self, order: Order, host: &mut dyn Controlled, lines: &mut Vec<Entry>) {
        // It waited too long, such as between two runs of a lab, and is for what ran then.
        if order.is_given_up() {
            return;
        }
        let answer = match order.command {
            Command::Reload { dry_run: false } => self.reload(host),
            _ => self.carry_out(&order.command, host),
        };
        let (what, is_quiet) = match &order.command {
            Command::Set { dry_run, .. } => ("set", *dry_run),
            Command::Reload { dry_run } => ("reload", *dry_run),
            Command::Drain => ("drain", false),
        };
        // What was only checked changed nothing.
        if !is_quiet {
            lines.push(told(&order.who.to_string(), what, &answer));
        }
        order.answer(answer);
    }

    /// Reads the file again, of which the service manager is told.
    fn reload(&mut self, host: &mut dyn Controlled) -> Result<Applied, Refused> {
        self.service.reloading();
        let answer = self.carry_out(&Command::Reload { dry_run: false }, host);
        self.service.ready();
        answer
    }

    fn carry_out(&mut self, command: &Command, host: &mut dyn Controlled) -> Result<Applied, Refused> {
        let mut of_customers = BTreeMap::new();
        let (next, dry_run, again) = match command {
            Command::Set { values, dry_run } => {
                let mut own = values.clone();
                own.retain(|key, value| match key.strip_prefix(customers::CUSTOMERS) {
                    Some(key) => of_customers.insert(key.to_string(), value.clone()).is_some(),
                    None => true,
                });
                if !of_customers.is_empty() && !host.has_customers() {
                    let why = "it has no plans of customers. Remedy: name a file of plans, `users.file`, and start it again";
                    return Err((409, Refusal::plain(why)));
                }
                (self.source.with(&own).map_err(refused)?, *dry_run, false)
            }
            Command::Reload { dry_run } => (self.source.again()?, *dry_run, true),
            Command::Drain => {
                let applied = host.drain()?;
                self.is_draining = true;
                return Ok(applied);
            }
        };
        let mut applied = host.apply(&next.document, How { dry_run, again, customers: &of_customers })?;
        applied.notes.extend(next.given_up(&self.source));
        applied.notes.extend(again.then(|| next.overruled()).flatten());
        if !dry_run {
            self.source = next;
        }
        Ok(applied)
    }
}

/// How long an answer may take on its way.
const FAREWELL: Duration = Duration::from_millis(50);
/// Lines at most before who watches is told.
const LINES_MAX: usize = 64;

/// Moves of a set point: how many by rule, and the latest.
#[derive(Clone, Default)]
pub struct Moves {
    by_rule: BTreeMap<String, u64>,
    latest: VecDeque<Move>,
}

/// Moves that are told one by one.
const MOVES_MAX: usize = 30;

impl Moves {
    fn add(&mut self, one: Move) {
        *self.by_rule.entry(one.rule.clone()).or_default() += 1;
        self.latest.push_back(one);
        if self.latest.len() > MOVES_MAX {
            self.latest.pop_front();
        }
    }

    /// Oldest first.
    fn latest(&self) -> Vec<Move> {
        self.latest.iter().cloned().collect()
    }
}

/// Directions at most that a line tells of.
const TOLD_MAX: usize = 4;

/// How a run or queues stand, for whoever asks the service manager.
fn line(status: &Status) -> String {
    let problems = status.readiness().problems;
    if !problems.is_empty() {
        return format!("{}: {}", status.title, problems.join(", "));
    }
    if let Some(plane) = &status.user_plane {
        return format!("{}: {} sessions, {} tunnels", status.title, plane.sessions, plane.tunnels);
    }
    let direction = |d: &DirectionStatus| {
        let used = d.utilization.map_or(String::new(), |used| format!(", {:.0} % used", used * 100.0));
        let target = d.setpoint_ms.map_or(String::new(), |ms| format!(", target {ms:.1} ms"));
        format!("{} {:.1} Mbit/s{used}{target}", d.name, d.delivered_bps / 1e6)
    };
    let directions: Vec<String> = status.directions.iter().take(TOLD_MAX).map(direction).collect();
    format!("{}: {}", status.title, directions.join("; "))
}

/// The folders that a file is read from again: its own, as editors put a new file in the place of the old
/// one, and that of what it is a symbolic link to.
pub fn folders(file: &Path) -> Vec<PathBuf> {
    let target = file.canonicalize().ok();
    let mut folders: Vec<PathBuf> = [Some(file), target.as_deref()]
        .into_iter()
        .flatten()
        .filter_map(Path::parent)
        .map(PathBuf::from)
        .collect();
    folders.dedup();
    folders
}

/// Tells a configuration that is in force, in its canonical form.
fn configured(board: &Board, about: &Status, toml: String) {
    let values = weir_config::values(&toml);
    board.configured(Configuration { file: about.file.clone(), toml, values });
}

/// A policy as it is told, with its key in the configuration.
fn policy_status(key: String, policy: &Policy) -> PolicyStatus {
    PolicyStatus {
        key,
        utilization_low: policy.utilization_low.0,
        utilization_target: policy.utilization_target.0,
        target_min_ms: policy.target_min.as_millis_f64(),
        target_max_ms: policy.target_max.as_millis_f64(),
    }
}

/// Keys that change, as they are told.
pub fn valued(changed: Vec<Changed>) -> Vec<Valued> {
    changed.into_iter().map(|one| Valued { key: one.key, from: one.from, to: one.to }).collect()
}

/// What takes a restart, as it is told: keys with the reason.
pub fn needs_restart<'a>(keys: impl IntoIterator<Item = (String, &'a str)>, remedy: &str) -> Refused {
    let problem = |(key, why)| Problem {
        key: Some(key),
        line: None,
        problem: format!("cannot change while it runs: {why}"),
        remedy: remedy.into(),
    };
    let problems: Vec<Problem> = keys.into_iter().map(problem).collect();
    let key = |one: &Problem| one.key.clone().unwrap_or_default();
    let line = |one: &Problem| format!("key `{}` {}. Remedy: {remedy}", key(one), one.problem);
    let error = problems.iter().map(line).collect::<Vec<_>>().join("\n");
    (409, Refusal { error, problems, needs_restart: true })
}

/// What is wrong with a configuration, by key.
pub fn refused(errors: weir_config::Errors) -> Refused {
    let problems = errors.iter().map(|error| Problem {
        key: error.key.clone(),
        line: error.line,
        problem: error.problem.clone(),
        remedy: error.remedy.clone(),
    });
    let problems = problems.collect();
    (422, Refusal { error: errors.to_string(), problems, needs_restart: false })
}

/// One thing that is wrong with what was asked for, with its key where it has one.
fn wrong(key: Option<&str>, problem: String, remedy: &str) -> Refused {
    let about = key.map_or(String::new(), |key| format!("key `{key}`: "));
    let error = format!("{about}{problem}. Remedy: {remedy}");
    let problem = Problem { key: key.map(String::from), line: None, problem, remedy: remedy.into() };
    (422, Refusal { error, problems: vec![problem], needs_restart: false })
}

/// An entry for the log: who asked for what, and what came of it.
fn told(who: &str, what: &'static str, answer: &Result<Applied, Refused>) -> Entry {
    let text = match answer {
        Ok(applied) if what == "drain" => {
            let at_s = applied.at_s.unwrap_or_default();
            format!("{what} by {who} at {at_s:.3} s: {}", applied.notes.join(", "))
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
    let line: String = text.replace('\n', "; ").chars().filter(|c| !c.is_control()).take(LINE_MAX).collect();
    let entry = Entry::info("change", line).with("asked", what).with("who", who);
    match answer {
        Ok(applied) => {
            let keys: Vec<&str> = applied.changed.iter().map(|one| one.key.as_str()).collect();
            let entry = entry.with("result", "applied").with("keys", keys.join(","));
            applied.at_s.map_or(entry.clone(), |at_s| entry.with("t_s", format!("{at_s:.3}")))
        }
        Err((status, _)) => entry.at(Level::Warn).with("result", "refused").with("status", status),
    }
}

/// An alarm that was raised or cleared, for the log.
fn alarm(one: &AlarmStatus) -> Entry {
    let (state, level) = if one.is_raised { ("raised", Level::Warn) } else { ("cleared", Level::Info) };
    let entry = Entry::new(level, "alarm", format!("alarm {state}: {}", one.text()));
    let of = one.direction.as_ref().or(one.port.as_ref());
    let entry = entry.with("alarm", &one.alarm).with("state", state);
    of.map_or(entry.clone(), |of| entry.with("of", of))
}

/// Longest line of a change.
const LINE_MAX: usize = 2000;

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source {
        let document = Document::parse("f.toml", text).unwrap();
        Source::new(Some(Path::new("f.toml")), &[], document)
    }

    #[test]
    fn a_line_of_the_log_is_one_line_whatever_was_sent() {
        let error = "--set a=\u{1b}[2J\n: is unknown".to_string();
        let line = told("uid 0, pid 7 (x)", "set", &Err((422, Refusal::plain(error))));
        let line = line.text();
        assert!(
            line.starts_with("set by uid 0, pid 7 (x) refused, nothing was changed: --set a=[2J; : is"),
            "{line}"
        );
        let long = told("uid 0", "set", &Err((422, Refusal::plain("x".repeat(10_000)))));
        assert_eq!(long.text().chars().count(), LINE_MAX);
        let changed = vec![Valued { key: "a.b".into(), from: None, to: Some("1".into()) }];
        let applied = Applied { changed, at_s: Some(1.5), notes: Vec::new() };
        let reloaded = told("SIGHUP", "reload", &Ok(applied));
        assert_eq!(reloaded.text(), "reload by SIGHUP at 1.500 s: a.b absent -> 1");
        let same = told("uid 0", "set", &Ok(Applied::default()));
        assert_eq!(same.text(), "set by uid 0: everything was so already");
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
    fn an_address_that_cannot_be_had_is_told_with_its_key_the_cause_and_a_remedy() {
        let first = listener("127.0.0.1:0".parse().unwrap(), false).unwrap();
        let taken = first.local_addr().unwrap().to_string();
        let told = |metrics: (&str, Option<&str>), page: (&str, Option<&str>)| {
            Doors::open(metrics, page, false).err().unwrap().text().to_string()
        };
        let none = ("--page", None);
        let key = told(("run.metrics", Some(&taken)), none);
        assert!(key.starts_with(&format!("key `run.metrics`: {taken} is in use: another program")), "{key}");
        assert!(key.contains("Remedy: name another port") && key.contains("ss -ltnp"), "{key}");
        let argument = told(("--metrics", None), ("--page", Some(&taken)));
        assert!(argument.starts_with(&format!("`--page`: {taken} is in use")), "{argument}");
        let both = told(("run.metrics", Some("127.0.0.1:9")), ("run.page", Some("127.0.0.1:9")));
        assert!(
            both.starts_with("key `run.page`: 127.0.0.1:9 is the address of key `run.metrics`, too"),
            "{both}"
        );
        for (metrics, page, words) in [
            (
                "127.0.0.1:9",
                "0.0.0.0:9",
                "stands for all addresses, among them that of key `run.metrics`, 127.0.0.1:9",
            ),
            (
                "0.0.0.0:9",
                "127.0.0.1:9",
                "is among all addresses, for which stands that of key `run.metrics`, 0.0.0.0:9",
            ),
            ("[::1]:9", "[::]:9", "stands for all addresses"),
            ("127.0.0.1:9", "[::]:9", "stands for all addresses"),
            ("[::]:9", "0.0.0.0:9", "is among all addresses"),
        ] {
            let told = told(("run.metrics", Some(metrics)), ("run.page", Some(page)));
            assert!(told.starts_with(&format!("key `run.page`: {page} {words}")), "{told}");
        }
        let apart =
            |one: &str, other: &str| in_the_way(one.parse().unwrap(), other.parse().unwrap()).is_none();
        assert!(apart("0.0.0.0:9", "127.0.0.1:10") && apart("[::1]:9", "0.0.0.0:9"));
        assert!(apart("127.0.0.1:9", "127.0.0.2:9") && apart("127.0.0.1:0", "0.0.0.0:0"));
        // Addresses for documentation are nobody's (RFC 5737).
        let foreign = told(("run.metrics", Some("192.0.2.1:9469")), none);
        assert!(foreign.contains("192.0.2.1:9469 is no address of this network namespace"), "{foreign}");
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
    fn a_file_that_is_read_again_has_the_last_word_but_for_the_command_line() {
        let folder = std::env::temp_dir().join(format!("weir-source-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("f.toml");
        let ports = "ports = { a = \"x\", b = \"y\" }\n";
        let set = ["run.sample=2s".to_string()];
        std::fs::write(&path, ports).unwrap();
        let begun =
            Source::new(Some(&path), &set, Document::load(&path).unwrap()).assuming(&["host.poll=sleep"]);
        let values = |source: &Source| source.document.run_config().unwrap().values();
        let again = begun.again().unwrap();
        assert_eq!((values(&again)["host.poll"].as_str(), again.overruled()), ("\"sleep\"", None));
        std::fs::write(&path, format!("{ports}host = {{ poll = \"busy\" }}\nrun = {{ sample = \"1s\" }}\n"))
            .unwrap();
        let again = again.again().unwrap();
        assert_eq!(values(&again)["host.poll"], "\"busy\"");
        assert_eq!(values(&again)["run.sample"], "\"2s\"");
        assert!(again.overruled().unwrap().ends_with("without: run.sample"));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_is_wrong_and_what_takes_a_restart_is_told_by_key() {
        let errors = source("ports = { a = \"x\" }\n").document.run_config().unwrap_err();
        let (status, refusal) = refused(errors);
        assert_eq!((status, refusal.needs_restart), (422, false));
        assert_eq!(refusal.problems[0].key.as_deref(), Some("ports.b"));
        let (status, refusal) = needs_restart([("ports.a".to_string(), "it is so")], "use --takeover");
        assert_eq!((status, refusal.needs_restart), (409, true));
        assert!(refusal.error.contains("`ports.a`") && refusal.problems[0].remedy.contains("--takeover"));
    }

    #[test]
    fn an_alarm_is_a_line_of_the_log() {
        let of = |is_raised| AlarmStatus {
            alarm: "drops".into(),
            direction: Some("a_to_b".into()),
            is_raised,
            why: "12.0 % of the packets are discarded".into(),
            ..AlarmStatus::default()
        };
        let text = "drops of a_to_b: 12.0 % of the packets are discarded";
        assert_eq!(alarm(&of(true)).text(), format!("alarm raised: {text}"));
        assert_eq!(alarm(&of(false)).text(), format!("alarm cleared: {text}"));
    }

    /// A host that takes whatever it is told.
    struct Any;

    impl Controlled for Any {
        fn apply(&mut self, _: &Document, _: How<'_>) -> Result<Applied, Refused> {
            Ok(Applied::default())
        }
        fn drain(&mut self) -> Result<Applied, Refused> {
            Ok(Applied::default())
        }
    }

    #[test]
    fn alarms_of_whoever_publishes_are_lines_of_the_log() {
        let sockets = Sockets { control: None, metrics: None, page: None };
        let doors = Doors { socket: None, sockets, service: Service::find() };
        let (board, mut about) = (Board::default(), Status { verb: "steer".into(), ..Status::default() });
        let source = source("steer = { period = \"50ms\" }\n");
        let mut desk = Desk::open(doors, source, &board, &mut about, HangUp::listen()).map_err(drop).unwrap();
        let mut told = |silent_s: f64, seconds: std::ops::Range<u32>| {
            seconds.for_each(|s| {
                board.publish(Status { silent_s, uptime_s: f64::from(s), ..about.clone() });
            });
            let lines = desk.serve(&mut Any, Duration::ZERO);
            lines.iter().map(|line| line.text().to_string()).collect::<Vec<_>>()
        };
        let text = "loop_silent: the packet loop told nothing for 4 s: the kernel forwards past the queues";
        assert_eq!(told(4.0, 1..30), [format!("alarm raised: {text}")]);
        assert_eq!(told(4.0, 30..60), [""; 0]);
        let over = "loop_silent: it is over after 59 s";
        assert_eq!(told(0.0, 60..90), [format!("alarm cleared: {over}")]);
    }
}
