//! `weir upf`: a 5G user-plane function.

mod kept_sessions;
mod session;

use crate::control::upf::{self as control, Followed, LoopStatus, Told, Watched};
use crate::control::{Desk, Doors, Source};
use crate::interrupt::{HangUp, interrupted, is_cut_short};
use crate::log::{self, Entry, Level};
use crate::opening::Opening;
use crate::output::{Done, Failure, Output, exit_status};
use crate::results;
use crate::sessions::{Board, SessionRow};
use crate::verbs::run::given_up;
use std::collections::BTreeMap;
use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weir_config::UpfConfig;
use weir_dataplane::{JOURNALS, LinkState, Progress, privileges};
use weir_operate::PortStatus;
use weir_upf::configured::{pace, plane_setup};
use weir_upf::control::Counts;
use weir_upf::plane::{Alone, HeldTo, Pace, PlaneHandle, Remote, alone};
use weir_upf::rules::{Plane, Seid};
use weir_upf::server::Server;
use weir_upf::state;

/// Be a 5G user-plane function under a configuration, until stopped.
///
/// A session management function of `n4.peers` says over PFCP (3GPP TS 29.244) which sessions there are;
/// their packets pass between tunnels of GTP-U and the data network, and each QoS flow waits in a queue with
/// an AQM of its own. The ports belong to the program while it runs. Needs root.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Arguments {
    /// The configuration, a TOML file.
    #[arg(required = true)]
    config: Option<PathBuf>,
    /// Change a key of the file, such as `run.duration=10s`. Can be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Keep what session management says and forward nothing: PFCP alone, without ports and without root.
    /// What is refused with ports is refused.
    #[arg(long)]
    control_only: bool,
    /// Serve a page with sessions and their queues at this address, by default 127.0.0.1:9470 (`run.page`);
    /// `weir ctl page` prints how.
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, require_equals = true, default_missing_value = weir_operate::page::ADDRESS)]
    page: Option<String>,
    /// End the run that has the folder of sessions (`run.state`), and go on with its sessions.
    #[arg(long)]
    takeover: bool,
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(clap::Subcommand)]
enum Verb {
    Session(Box<session::Arguments>),
}

const EXAMPLES: &str = "Examples:
  sudo weir upf upf.toml
  weir upf upf.toml --control-only --json --set run.duration=60s   PFCP alone for a minute
  weir upf session add phone --upf 203.0.113.1 --ue 10.45.0.7 --station 192.0.2.9 --teid 0x99   a session by hand
A configuration:
  n3 = { port = \"eth1\", address = [\"192.0.2.1/24\"] }                       base stations
  n4 = { address = \"203.0.113.1\", peers = [\"203.0.113.2\"] }                session management
  n6 = { port = \"eth2\", address = [\"198.51.100.1/24\"], gateway = [\"198.51.100.254\"] }";

/// Between two pictures of the sessions.
const PICTURE: Duration = Duration::from_secs(1);
/// Between two lines where there is no terminal.
const LINE: Duration = Duration::from_secs(10);
/// Longest wait for datagrams before the flag of Ctrl-C is looked at.
const TURN: Duration = Duration::from_millis(20);
/// Most sessions that are told one by one at the end.
const TOLD_MAX: usize = 10_000;
/// How long the end of another run is waited for, whose sessions go on.
const HANDOVER: Duration = Duration::from_secs(10);
/// How long peers are waited for at the end.
const GOODBYE: Duration = Duration::from_millis(500);

/// Runs the verb.
pub fn main(arguments: Arguments, output: &Output) -> Done {
    if let Some(Verb::Session(arguments)) = arguments.verb {
        return session::main(*arguments, output);
    }
    let path = arguments.config.expect("the arguments have it where there is no verb");
    let page = arguments.page.map(|address| format!("run.page={address}"));
    let set: Vec<String> = arguments.set.into_iter().chain(page).collect();
    let document = results::document(&path, &set)?;
    let config = document.upf_config().map_err(Failure::input)?;
    let output = &output.logging(Level::of(config.run.log));
    log::about("upf", format!("{} <-> {}", config.n3.port, config.n6.port));
    let warn = |warning| output.tell(&Entry::warn("configuration", warning).prefixed("warning: "));
    config.warnings().iter().for_each(warn);
    let stop = interrupted();
    let hangup = HangUp::listen();
    let doors = Doors::open(
        ("run.metrics", config.run.metrics.as_deref()),
        ("run.page", config.run.page.as_deref()),
        arguments.takeover,
    )?;
    let source = Source::new(Some(&path), &set, document);
    let asked = Asked { stop: &stop, doors, source, hangup };
    if arguments.control_only {
        let seed = RandomState::new().build_hasher().finish();
        let folder = Kept::folder(&config, None, arguments.takeover)?;
        let kept = folder.map(|folder| Kept::take(folder, arguments.takeover, output)).transpose()?;
        let mut asked = asked;
        // Where nobody is root there is none, and nothing is to be said of it.
        let _ = asked.doors.listen();
        let kept_in = kept.iter().map(|kept| kept.folder.clone());
        let writable: Vec<PathBuf> = [PathBuf::from(JOURNALS)].into_iter().chain(kept_in).collect();
        let readable = asked.source.folders();
        let confined = privileges::confine(&writable, &readable);
        confined.iter().for_each(|line| output.tell(&Entry::info("privileges", line)));
        let plane = alone(plane_setup(&config, seed))?;
        // This thread may not remove the name of the socket any more when it ends: another one does, which
        // reads nothing and has no capabilities, and whose user owns the folder.
        let name = asked.doors.take_name();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let keeper = std::thread::Builder::new().name("weir-name".into()).spawn(move || {
            // Where they cannot be given up, nothing is read here all the same.
            let _ = privileges::keep(&[]);
            let _ = ended.recv();
            drop(name);
        })?;
        let done = serve(&config, (plane, "PFCP alone".into()), kept.as_ref(), asked, &|| false, output);
        drop(end);
        let _ = keeper.join();
        return done;
    }
    let usual = config.run.duration.is_none().then(|| format!("/var/lib/weir/upf-{}", config.n4.address));
    let folder = Kept::folder(&config, usual, arguments.takeover)?;
    forward(&config, folder, arguments.takeover, asked, output)
}

/// Who asks for something, and for the end.
struct Asked<'a> {
    stop: &'a AtomicBool,
    doors: Doors,
    source: Source,
    hangup: HangUp,
}

/// Where sessions are kept. The lock is given back when the ports are.
struct Kept {
    folder: PathBuf,
    lock: File,
}

impl Kept {
    /// The folder of the configuration, or else the usual one.
    fn folder(config: &UpfConfig, usual: Option<String>, takeover: bool) -> Result<Option<PathBuf>, Failure> {
        let folder = config.run.state.clone().or(usual).filter(|folder| folder != "none");
        if takeover && folder.is_none() {
            let problem =
                "--takeover goes on with sessions that are kept, and none are. Remedy: set `run.state`";
            return Err(Failure::input(problem));
        }
        Ok(folder.map(PathBuf::from))
    }

    /// Locks the folder. `takeover` ends who has it.
    fn take(folder: PathBuf, takeover: bool, output: &Output) -> Result<Kept, Failure> {
        let mut asked = None;
        let lock = loop {
            match state::lock(&folder) {
                Ok(lock) => break lock,
                Err(state::Error::InUse { holder, .. })
                    if takeover && asked.is_none_or(|asked: Instant| asked.elapsed() < HANDOVER) =>
                {
                    let process = holder.parse().ok().and_then(rustix::process::Pid::from_raw);
                    if let Some(process) = process.filter(|_| asked.is_none()) {
                        let line = format!("process {holder} ends, and its sessions go on here");
                        output.tell(&Entry::info("takeover", line).with("from", &holder));
                        rustix::process::kill_process(process, rustix::process::Signal::Term)
                            .map_err(|error| format!("cannot end process {holder}: {error}"))?;
                        asked = Some(Instant::now());
                    }
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(error) => return Err(error.into()),
            }
        };
        // It is written by a thread that is not root's, and nothing can be given away once that is so.
        privileges::give_to_user(&folder, &state::FILES)
            .map_err(|error| format!("cannot keep sessions in {}: {error}", folder.display()))?;
        Ok(Kept { folder, lock })
    }
}

/// With the packet loop in a thread of its own.
fn forward(
    config: &UpfConfig,
    folder: Option<PathBuf>,
    takeover: bool,
    mut asked: Asked<'_>,
    output: &Output,
) -> Done {
    let take = |folder| Kept::take(folder, takeover, output);
    // A run that is taken over has its sessions for as long as it has its ports.
    let (first, later) = if takeover { (None, folder) } else { (folder, None) };
    let kept = first.map(take).transpose()?;
    let seed = RandomState::new().build_hasher().finish();
    let mut opening = Opening::begin();
    let step = &mut |at: Progress<'_>| opening.step(at, |line| output.tell(&Entry::info("opening", line)));
    let opened =
        weir_upf::plane::open_while(plane_setup(config, seed), Pace { takeover, ..pace(config) }, step);
    let (looping, desk) = match opened {
        Err(weir_dataplane::Error::GivenUp) => return Ok(given_up(config.run.duration.is_some(), output)),
        opened => opened?,
    };
    let kept = later.map(take).transpose()?.or(kept);
    looping.said().iter().for_each(|line| output.tell(&Entry::info("opening", line)));
    let open = format!("{} <-> {}: {}", config.n3.port, config.n6.port, looping.mode());
    output.tell(&Entry::info("open", open).with("mode", looping.mode()));
    let kept_in = kept.as_ref().map(|kept| kept.folder.clone());
    let writable: Vec<PathBuf> = [PathBuf::from(JOURNALS)].into_iter().chain(kept_in).collect();
    asked.doors.listen().into_iter().for_each(|line| output.tell(&Entry::warn("control", line)));
    // This thread may not remove it any more when it ends.
    let name = asked.doors.take_name();
    let readable = asked.source.folders();
    let confined = privileges::confine(&writable, &readable);
    confined.iter().for_each(|line| output.tell(&Entry::info("privileges", line)));
    let mode = looping.mode().to_string();
    let end = Arc::new(AtomicBool::new(false));
    let flag = end.clone();
    let thread = std::thread::Builder::new().name("weir-loop".into()).spawn(move || {
        let _name = name;
        looping.run(&flag)
    })?;
    let status = serve(config, (desk, mode), kept.as_ref(), asked, &|| thread.is_finished(), output);
    end.store(true, Ordering::Relaxed);
    let left = thread.join().map_err(|_| "the packet loop panicked; the ports are the host's again")??;
    left.iter().for_each(|line| output.tell_error(&Entry::new(Level::Error, "not_put_back", line)));
    status
}

/// What a plane tells that is no session's: how its loop and its ports stand, what it counted, and what is to
/// be known at once.
trait Tells {
    fn loop_status(&mut self, ports: &[&str]) -> LoopStatus;
    fn faults(&mut self) -> Vec<(&'static str, u64)>;
    fn warnings(&mut self) -> Vec<String>;
    fn hold_to(&mut self, held: &[HeldTo]) -> Result<(), String>;
}

impl Tells for PlaneHandle<Alone> {
    fn loop_status(&mut self, _: &[&str]) -> LoopStatus {
        // There is none.
        LoopStatus::default()
    }

    fn faults(&mut self) -> Vec<(&'static str, u64)> {
        // There are no packets.
        Vec::new()
    }

    fn warnings(&mut self) -> Vec<String> {
        Vec::new()
    }

    fn hold_to(&mut self, held: &[HeldTo]) -> Result<(), String> {
        PlaneHandle::hold_to(self, held)
    }
}

impl Tells for PlaneHandle<Remote> {
    fn loop_status(&mut self, ports: &[&str]) -> LoopStatus {
        let remote = &*self.reach();
        let (links, stalled) = (remote.links(), remote.stalled());
        let port = |(number, name): (usize, &&str)| PortStatus {
            name: name.to_string(),
            is_up: links.state(number) == LinkState::Up,
            lost_frames: links.lost(number),
        };
        LoopStatus { ports: ports.iter().enumerate().map(port).collect(), stalled_s: stalled.as_secs_f64() }
    }

    fn faults(&mut self) -> Vec<(&'static str, u64)> {
        PlaneHandle::faults(self)
    }

    fn warnings(&mut self) -> Vec<String> {
        self.reach().warnings()
    }

    fn hold_to(&mut self, held: &[HeldTo]) -> Result<(), String> {
        PlaneHandle::hold_to(self, held)
    }
}

fn serve(
    config: &UpfConfig,
    (plane, mode): (impl Plane + Tells, String),
    kept: Option<&Kept>,
    Asked { stop, doors, source, hangup }: Asked<'_>,
    has_ended: &dyn Fn() -> bool,
    output: &Output,
) -> Done {
    let mut server = match kept {
        Some(Kept { folder, lock }) => Server::open_keeping(config, plane, folder, lock.try_clone()?)?,
        None => Server::open(config, plane)?,
    };
    if let Some(address) = server.address() {
        let line = format!("PFCP on {address}, for {} peers", config.n4.peers.len());
        output.tell(&Entry::info("pfcp", line).with("address", address));
    }
    // What peers say is read on this thread and on no other.
    if let Some(user) = privileges::leave_root()? {
        let line = format!("PFCP is read as the user {user}, without capabilities");
        output.tell(&Entry::info("privileges", line).with("user", user));
    }
    let mut watched = Watched::new(config, mode);
    let mut desk = watched.open(doors, source, hangup)?;
    desk.begin();
    let start = Instant::now();
    let length = config.run.duration.map(|d| Duration::from_nanos(d.as_nanos()));
    let period = if output.live() { PICTURE } else { LINE };
    let (mut due, mut told, mut board) = (period, Duration::ZERO, Board::new(output));
    let mut followed = Followed::default();
    let is_over =
        || stop.load(Ordering::Relaxed) || length.is_some_and(|l| start.elapsed() >= l) || has_ended();
    while !is_over() {
        server.turn(TURN)?;
        desk.alive();
        let hold_to = &mut |held: &[_]| server.control().plane().hold_to(held);
        let asked = &mut control::Asked { watched: &mut watched, hold_to };
        desk.serve(asked, control::TURN).into_iter().for_each(|entry| board.say(entry));
        server.said().iter().for_each(|line| board.say(Entry::warn("kept", line)));
        server.control().told().iter().for_each(|line| board.say(Entry::info("pfcp", line)));
        let warnings = server.control().plane().warnings();
        warnings.iter().for_each(|line| board.say(Entry::warn("warning", line)));
        if start.elapsed() >= told {
            told = start.elapsed() + PICTURE;
            let rows = followed_rows(&mut server, &mut followed);
            tell(&mut server, &rows, followed.bps(), &mut watched, &mut desk);
            if start.elapsed() >= due {
                due = start.elapsed() + period;
                show(&mut server, &rows, &mut board, start.elapsed());
            }
        }
    }
    desk.close();
    let was_stopped = is_cut_short(length.is_some());
    finish(&mut server, &mut board, start.elapsed(), was_stopped, output)?;
    Ok(exit_status(false, was_stopped))
}

fn show<P: Plane>(server: &mut Server<P>, rows: &[SessionRow], board: &mut Board, elapsed: Duration) {
    let control = server.control();
    let total = control.sessions().len();
    let shown = &rows[..rows.len().min(board.rows_max())];
    board.show(elapsed, &head(control.counts(), total, control.tunnels()), shown, total);
}

/// Publishes how sessions stand.
fn tell<P: Plane + Tells>(
    server: &mut Server<P>,
    rows: &[SessionRow],
    delivered_bps: f64,
    watched: &mut Watched,
    desk: &mut Desk,
) {
    let unsent = server.unsent();
    let control = server.control();
    let (faults, looping) = (control.plane().faults(), control.plane().loop_status(&watched.ports()));
    let (sessions, tunnels) = (control.sessions().len(), control.tunnels());
    let counts = control.counts();
    let status =
        watched.tell(rows, Told { sessions, delivered_bps, tunnels, counts, unsent, faults, looping });
    desk.stands(&status);
}

/// What happened in a line.
fn head(counts: &Counts, sessions: usize, tunnels: usize) -> String {
    format!(
        "{sessions} sessions, {tunnels} tunnels; {} established, {} modified, {} ended; {} requests refused, {} \
         repeated, {} discarded; {} reports",
        counts.established,
        counts.modified,
        counts.removed,
        counts.refused_all(),
        counts.repeated,
        counts.strangers + counts.over_rate + counts.malformed + counts.unexpected,
        counts.reports,
    )
}

/// The sessions that are told one by one while it runs.
fn followed_rows<P: Plane>(server: &mut Server<P>, followed: &mut Followed) -> Vec<SessionRow> {
    let control = server.control();
    followed.keep(|seid| control.sessions().get(seid).is_some());
    let all: Vec<Seid> = control.sessions().iter().map(|entry| entry.rules.seid).collect();
    for seid in followed.due(&all) {
        let usage = control.plane().usage(seid);
        followed.looked(seid, usage.map(|usage| usage.bytes.up + usage.bytes.down), Instant::now());
    }
    rows(server, &followed.told(&all))
}

/// These sessions.
fn rows<P: Plane>(server: &mut Server<P>, seids: &[Seid]) -> Vec<SessionRow> {
    let control = server.control();
    let peers: Vec<_> = control.peers().iter().map(|peer| peer.address).collect();
    let of = |entry: &weir_upf::control::SessionEntry| {
        SessionRow::new(&entry.rules, peers[usize::from(entry.peer)])
    };
    let mut rows: Vec<SessionRow> =
        seids.iter().filter_map(|seid| control.sessions().get(*seid)).map(of).collect();
    for row in &mut rows {
        row.usage = control.plane().usage(row.seid).unwrap_or_default();
        row.flows = control.plane().flows(row.seid);
    }
    rows
}

fn finish<P: Plane + Tells>(
    server: &mut Server<P>,
    board: &mut Board,
    elapsed: Duration,
    was_stopped: bool,
    output: &Output,
) -> Result<(), Failure> {
    let total = server.control().sessions().len();
    let seids: Vec<Seid> =
        server.control().sessions().iter().take(TOLD_MAX).map(|entry| entry.rules.seid).collect();
    let rows = rows(server, &seids);
    let tunnels = server.control().tunnels();
    let faults: BTreeMap<_, _> = server.control().plane().faults().into_iter().collect();
    if server.keeps() {
        server.close();
        server.said().iter().for_each(|line| board.say(Entry::warn("kept", line)));
    } else {
        server.goodbye(GOODBYE)?;
    }
    server.control().told().iter().for_each(|line| board.say(Entry::info("pfcp", line)));
    board.close();
    let counts = server.control().counts().clone();
    let json = serde_json::json!({
        "arm": "upf",
        "interrupted": was_stopped,
        "duration_s": elapsed.as_secs_f64(),
        "sessions_in_all": total,
        "sessions": rows.iter().map(SessionRow::json).collect::<Vec<_>>(),
        "tunnels": tunnels,
        "discarded": faults,
        "pfcp": crate::sessions::counts_json(&counts, server.unsent()),
    });
    output.result(&json, || {
        format!("{}\n{}", head(&counts, total, tunnels), Board::table(&rows, Some(total)).join("\n"))
    });
    Ok(())
}
