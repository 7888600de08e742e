//! The links of a `weir run`: one for each configuration, from reading it to its end.
//!
//! Each step is done for all links before the next one begins, as rights are given up in between: what is
//! wrong with one of the files refuses all, before anything of the machine is touched. From then on each link
//! is by itself, and one that fails leaves the others alone.

use super::{Arguments, check_core, not_realtime, setup, shown, summary, title, watch};
use crate::control::customers::{self, Customers};
use crate::control::run::Control;
use crate::control::{Doors, Source, folders, in_the_way};
use crate::growing::{self, Growing, Rotation};
use crate::interrupt::{HangUp, is_cut_short};
use crate::live::View;
use crate::log::{Entry, Level};
use crate::opening::Opening;
use crate::output::{Failure, Output};
use crate::results;
use crate::speaker::Speaker;
use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::TryRecvError;
use std::thread::JoinHandle;
use weir_config::{Document, RunConfig};
use weir_dataplane::{
    DirectionPlans, Ended, Error, Handle, JOURNALS, Loop, Mode, Outcome, Progress, SharedLoop, privileges,
};
use weir_lab::host;
use weir_measure::result::Summary;
use weir_operate::Board;

/// A configuration that was read.
pub struct Planned {
    pub config: RunConfig,
    /// What is set over the file.
    pub set: Vec<String>,
    /// What holds where the file says nothing else.
    pub assumed: &'static [&'static str],
    pub document: Document,
}

/// Reads the configurations; refuses links that are in each other's way.
pub fn plan(arguments: &Arguments) -> Result<Vec<Planned>, Failure> {
    let mut planned: Vec<Planned> = Vec::new();
    for (number, file) in arguments.config.iter().enumerate() {
        let mut set = arguments.set.clone();
        set.extend(arguments.keep_forwarding.then(|| "fail_open.keep_forwarding=true".to_string()));
        if let Some(page) = &arguments.page {
            set.push(format!("run.page={}", nth_port(page, number)));
        }
        // A loop that never sleeps takes a core, which links that share one do not need.
        let assumed: &[&str] = if arguments.config.len() > 1 { &["host.poll=sleep"] } else { &[] };
        let document = results::document_of(file, &set, assumed).map_err(Failure::input)?;
        let config = document.run_config().map_err(Failure::input)?;
        let one = Planned { config, set, assumed, document };
        planned.iter().try_for_each(|other| one.keeps_apart_from(other))?;
        planned.push(one);
    }
    Ok(planned)
}

/// An address whose port is by so many higher; one that is none, or has no such port, as it is.
fn nth_port(address: &str, number: usize) -> String {
    let parsed: Option<SocketAddr> = address.parse().ok();
    let moved = parsed.and_then(|mut address| {
        address.set_port(address.port().checked_add(u16::try_from(number).ok()?)?);
        Some(address.to_string())
    });
    moved.unwrap_or_else(|| address.into())
}

impl Planned {
    /// Refuses what two links cannot both have.
    fn keeps_apart_from(&self, other: &Planned) -> Result<(), Failure> {
        let file = other.document.file();
        let refuse = |key: &str, problem: String, remedy: &str| {
            Err(Failure::input(self.document.refuse(key, problem, remedy)))
        };
        let (ports, others) = (&self.config.ports, &other.config.ports);
        for (key, port) in [("ports.a", &ports.a), ("ports.b", &ports.b)] {
            if [&others.a, &others.b].contains(&port) {
                return refuse(
                    key,
                    format!("is a port of `{file}`, too"),
                    "name ports that no other file has",
                );
            }
        }
        let (run, others) = (&self.config.run, &other.config.run);
        if run.out.is_some() && run.out == others.out {
            return refuse(
                "run.out",
                format!("is that of `{file}`, too"),
                "give each file a folder of its own",
            );
        }
        // Links may share an address for metrics, if it is the same.
        let are_apart = |key: &str, own: &Option<String>, other_key: &str, of: &Option<String>| {
            let both = own
                .as_ref()
                .zip(of.as_ref())
                .filter(|(own, of)| key != other_key || key == "run.page" || own != of);
            let read = both.and_then(|(own, of)| Some((own.parse().ok()?, of.parse().ok()?)));
            let Some(problem) = read.and_then(|(own, of)| in_the_way(own, of)) else { return Ok(()) };
            let remedy = "give each file a port of its own, as --page does";
            refuse(key, format!("{problem} of `{other_key}` of `{file}`"), remedy)
        };
        are_apart("run.page", &run.page, "run.page", &others.page)?;
        are_apart("run.page", &run.page, "run.metrics", &others.metrics)?;
        are_apart("run.metrics", &run.metrics, "run.page", &others.page)?;
        are_apart("run.metrics", &run.metrics, "run.metrics", &others.metrics)
    }
}

/// A link that nothing stands against, as far as can be said without touching its ports.
pub struct Prepared {
    pub file: PathBuf,
    pub config: RunConfig,
    source: Source,
    customers: Option<Customers>,
    plans: [Option<DirectionPlans>; 2],
    doors: Option<Doors>,
    board: Board,
    /// Its number, where it is one of several.
    number: Option<usize>,
    output: Output,
    speaker: Speaker,
}

impl Prepared {
    /// Looks at what the configuration names; `number` counts the links from zero, where there are several.
    pub fn new(
        Planned { config, set, assumed, document }: Planned,
        file: &Path,
        number: Option<usize>,
        takeover: bool,
        output: &Output,
    ) -> Result<Prepared, Failure> {
        check_core(&config, &host::cpus().allowed)?;
        let (customers, plans) = Customers::open(&config, file)?;
        let output = output.logging(Level::of(config.run.log));
        let output = if number.is_some() { output.of_link("run", title(&config)) } else { output };
        // Nobody who does not read holds up what follows.
        let mut speaker = Speaker::new(output);
        config
            .warnings()
            .iter()
            .for_each(|warning| speaker.say(Entry::warn("configuration", warning).prefixed("warning: ")));
        let rotation = Rotation::of(&config.run);
        let user = |port: &str| weir_dataplane::user_of(weir_dataplane::Interface::find(port).ok()?.index);
        let former = takeover.then(|| [&config.ports.a, &config.ports.b].map(|port| user(port)));
        // Where it is not known who writes there, the look at the ports tells.
        let is_to_end = |pid: Option<u32>| former.is_some_and(|all| pid.is_none() || all.contains(&pid));
        out(&config).map_or(Ok(()), |out| growing::prepare(out, rotation, is_to_end))?;
        Ok(Prepared {
            file: file.to_path_buf(),
            source: Source::new(Some(file), &set, document).assuming(assumed),
            config,
            customers,
            plans,
            doors: None,
            board: Board::default(),
            number,
            output,
            speaker,
        })
    }

    /// Opens the ports; nothing if the user ended it before they were open.
    pub fn open(self, takeover: bool) -> Result<Option<Opened>, Failure> {
        let Prepared { file, config, source, customers, plans, doors, board, number, output, mut speaker } =
            self;
        let mut doors = doors.expect("the doors were opened before");
        let failed = |failure: Failure, doors: &Doors, speaker: &mut Speaker| {
            doors.close();
            if number.is_some() {
                speaker.say(Entry::new(Level::Error, "failed", failure.text()).prefixed("failed: "));
            }
            failure
        };
        let mut opening = Opening::begin();
        let step = &mut |at: Progress<'_>| opening.step(at, |line| speaker.say(Entry::info("opening", line)));
        let (looping, handle) = match Loop::open_while(setup(&config, plans, takeover), step) {
            Err(Error::GivenUp) => return Ok(None),
            Err(error) => return Err(failed(error.into(), &doors, &mut speaker)),
            Ok(opened) => opened,
        };
        looping.said().iter().for_each(|line| speaker.say(Entry::info("opening", line)));
        let open = format!("{}: {}", title(&config), looping.mode());
        speaker.say(Entry::info("open", open).with("mode", looping.mode()));
        if let Some(why) = not_realtime(&config) {
            speaker.say(Entry::info("realtime", why));
        }
        // What an earlier run left there stays where the ports are unavailable.
        let growing = out(&config).map(|out| Growing::begin(out, Rotation::of(&config.run))).transpose();
        let growing = growing.map_err(|failure| failed(failure, &doors, &mut speaker))?;
        let told = doors.listen_as(number.unwrap_or(0));
        told.into_iter().for_each(|line| speaker.say(Entry::warn("control", line)));
        let has_others = number.is_some();
        let mode = looping.mode();
        let link = Link { file, config, has_others, output, handle, growing };
        Ok(Some(Opened { link, source, customers, doors, board, speaker, looping, mode }))
    }
}

/// The folder for results.
fn out(config: &RunConfig) -> Option<&Path> {
    config.run.out.as_deref().map(Path::new)
}

/// Addresses for metrics, by how they are named.
pub type Metrics = BTreeMap<String, TcpListener>;

/// Opens the addresses for pages and for metrics; those of metrics are one for all links that name the same.
pub fn open_doors(links: &mut [Prepared], takeover: bool) -> Result<Metrics, Failure> {
    let mut metrics = Metrics::new();
    let mut first: Option<&Doors> = None;
    for link in links {
        let own = link.config.run.metrics.clone().filter(|address| !metrics.contains_key(address));
        let page = ("run.page", link.config.run.page.as_deref());
        let mut doors = Doors::open(("run.metrics", own.as_deref()), page, takeover)?;
        metrics.extend(own.zip(doors.take_metrics()));
        if let Some(first) = first {
            doors.belong_to(first);
        }
        let doors = link.doors.insert(doors);
        first.get_or_insert(doors);
    }
    Ok(metrics)
}

/// Has the first link of each address of metrics serve it for all that name it.
pub fn share_metrics(links: &mut [Opened], mut metrics: Metrics) {
    for number in 0..links.len() {
        let address = links[number].link.config.run.metrics.clone();
        let Some(listener) = address.as_ref().and_then(|address| metrics.remove(address)) else { continue };
        let has = |other: &&Opened| other.link.config.run.metrics == address;
        let beside = links[number + 1..].iter().filter(has).map(|other| other.board.clone()).collect();
        links[number].doors.serve_metrics(listener, beside);
    }
}

/// What a link is from its opening to its end.
struct Link {
    file: PathBuf,
    config: RunConfig,
    has_others: bool,
    output: Output,
    handle: Handle,
    growing: Option<Growing>,
}

/// A link whose ports are open. The kernel forwards.
pub struct Opened {
    link: Link,
    source: Source,
    customers: Option<Customers>,
    doors: Doors,
    board: Board,
    speaker: Speaker,
    looping: Loop,
    mode: Mode,
}

/// Gives up what opening the ports took; the threads to come have no more. Says what stays.
pub fn confine(all: &mut [Opened]) {
    let links = || all.iter().map(|opened| &opened.link);
    let outs: Vec<PathBuf> = links().filter_map(|link| out(&link.config)).map(PathBuf::from).collect();
    let mut kept = [&privileges::LOOP[..], &privileges::USERS, &[privileges::REALTIME]].concat();
    outs.iter().for_each(|out| kept.extend(privileges::for_results(out)));
    let capabilities = privileges::keep(&kept).err().map(|error| error.to_string());
    let writable = [outs, vec![JOURNALS.into()]].concat();
    let files = links().flat_map(|link| {
        let file = std::path::absolute(&link.file).unwrap_or_else(|_| link.file.clone());
        let plans = customers::path(&link.config, &file);
        [Some(file), plans].into_iter().flatten()
    });
    let readable: Vec<PathBuf> = files.flat_map(|file| folders(&file)).collect();
    let lines = capabilities.into_iter().chain(privileges::confine(&writable, &readable));
    let Some(first) = all.first_mut() else { return };
    lines.for_each(|line| first.speaker.say(Entry::info("privileges", line)));
}

impl Opened {
    /// From now on it answers whoever asks.
    pub fn controlled(self, hangup: &HangUp) -> Result<Controlled, Failure> {
        let Opened { link, source, customers, doors, board, speaker, looping, mode } = self;
        let about = (&link.config, customers);
        let control = Control::new(doors, source, about, mode, hangup.clone(), board)?;
        Ok(Controlled { link, control, speaker, looping })
    }
}

/// A link that is ready to be turned.
pub struct Controlled {
    link: Link,
    control: Control,
    speaker: Speaker,
    looping: Loop,
}

/// A link that is turned.
pub struct Watched {
    link: Link,
    control: Control,
    stop: Arc<AtomicBool>,
    end: End,
}

/// Starts the packet loops: one for those that name the same core, and so many at most for the others.
pub fn turn(links: Vec<Controlled>, loops: usize) -> Result<Vec<Watched>, Failure> {
    let cores: Vec<Option<u32>> = links.iter().map(|one| one.link.config.host.core).collect();
    let shares = deal(&cores, loops);
    let mut links: Vec<Option<Controlled>> = links.into_iter().map(Some).collect();
    let mut watched = Vec::new();
    let mut speakers = Vec::new();
    for share in shares {
        let stops: Vec<Arc<AtomicBool>> = share.iter().map(|_| Arc::default()).collect();
        let taken = share.iter().filter_map(|number| Some((*number, links[*number].take()?)));
        let (mut loops, mut rest) = (Vec::new(), Vec::new());
        for ((number, Controlled { link, control, speaker, looping }), stop) in taken.zip(&stops) {
            loops.push((looping, stop.clone()));
            rest.push((number, link, control, stop.clone()));
            speakers.push(speaker);
        }
        let (shared, ends) = SharedLoop::new(loops);
        std::thread::Builder::new().name("weir-loop".into()).spawn(move || shared.run())?;
        let with_end = rest.into_iter().zip(ends);
        watched.extend(with_end.map(|((number, link, control, stop), ended)| {
            (number, Watched { link, control, stop, end: End { ended, came: None } })
        }));
    }
    watched.sort_by_key(|(number, _)| *number);
    let watched: Vec<Watched> = watched.into_iter().map(|(_, one)| one).collect();
    watched.iter().for_each(|one| one.control.begin());
    Ok(watched)
}

/// Which links share a packet loop, by their numbers: those of the same core, and the others dealt out in
/// turn.
fn deal(cores: &[Option<u32>], loops: usize) -> Vec<Vec<usize>> {
    let mut named: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    let mut dealt = vec![Vec::new(); loops];
    let mut free = 0;
    for (number, core) in cores.iter().enumerate() {
        match core {
            Some(core) => named.entry(*core).or_default().push(number),
            None => {
                dealt[free % loops].push(number);
                free += 1;
            }
        }
    }
    named.into_values().chain(dealt).filter(|share| !share.is_empty()).collect()
}

/// How the packet loop of a link ends.
struct End {
    ended: Ended,
    came: Option<Result<Outcome, Error>>,
}

impl End {
    fn has_come(&mut self) -> bool {
        if self.came.is_some() {
            return true;
        }
        match self.ended.try_recv() {
            Ok(result) => {
                self.came = Some(result);
                true
            }
            Err(error) => error == TryRecvError::Disconnected,
        }
    }

    fn wait(self) -> Result<Outcome, Failure> {
        match self.came.map_or_else(|| self.ended.recv(), Ok) {
            Ok(result) => result.map_err(Failure::from),
            // Only a panic while it ended takes its word away.
            Err(_) => Err(Failure::from(
                "the packet loop panicked; the kernel forwards between the ports, past the queues. Remedy: start again, \
                 which takes over; `weir doctor --clean` ends it and puts the ports back",
            )),
        }
    }
}

/// What came of a link.
pub struct Measured {
    pub summary: Summary,
    /// Whether all results are in their folder.
    pub written: Result<(), Failure>,
    pub out: Option<PathBuf>,
}

/// The same, or why the link failed.
pub type Followed = Result<Measured, Failure>;

impl Watched {
    /// What it was built from.
    pub fn config(&self) -> &RunConfig {
        &self.link.config
    }

    /// Follows the link to its end; what came of it.
    pub fn follow(self, mut view: View) -> Followed {
        let Watched { link, mut control, stop, mut end } = self;
        let Link { config, has_others, handle, mut growing, .. } = link;
        let out = out(&config).map(PathBuf::from);
        let confined = privileges::keep(out.as_deref().map_or(&[], privileges::for_results));
        let measured = if confined.is_ok() {
            let ends = &mut || end.has_come();
            watch(&mut control, handle, ends, &stop, &mut growing, &mut view)
        } else {
            // The loop turns: its ports are put back before this is told.
            stop.store(true, Ordering::Relaxed);
            Default::default()
        };
        let outcome = match end.wait().and_then(|outcome| confined.map(|()| outcome).map_err(Failure::from)) {
            Ok(outcome) => outcome,
            Err(failure) => {
                if has_others {
                    view.fail(Entry::new(Level::Error, "failed", failure.text()).prefixed("failed: "));
                }
                growing.map_or(Ok(()), |growing| growing.fail(failure.text()))?;
                return Err(failure);
            }
        };
        control.end();
        if has_others {
            view.note(Entry::info("ended", "it has ended"));
        }
        // The screen, where it is the last that has one, goes before results are told.
        drop(view);
        let is_interrupted = is_cut_short(config.run.duration.is_some());
        let mut summary = summary(&config, outcome, measured, is_interrupted);
        let written = growing.map_or(Ok(()), |growing| growing.finish(&mut summary));
        Ok(Measured { summary, written, out })
    }
}

/// Follows links to their ends, each in a thread of its own.
pub fn follow_all(links: Vec<Watched>, output: &Output) -> Vec<(PathBuf, Followed)> {
    let views = links.iter().map(|one| (shown(&one.link.config), one.link.output)).collect();
    let start = |(one, view): (Watched, View)| {
        let file = one.link.file.clone();
        let thread = std::thread::Builder::new().name("weir-watch".into()).spawn(move || one.follow(view));
        (file, thread)
    };
    let threads: Vec<_> = links.into_iter().zip(View::several(views, output)).map(start).collect();
    let wait = |(file, thread): (PathBuf, std::io::Result<JoinHandle<Followed>>)| {
        let ended = match thread {
            Ok(thread) => {
                thread.join().unwrap_or_else(|_| Err(Failure::from("the thread that watched it panicked")))
            }
            Err(error) => {
                Err(Failure::from(format!("no thread to watch it: {error}; it is not ended in order")))
            }
        };
        (file, ended)
    };
    threads.into_iter().map(wait).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_a_core_share_a_loop_and_others_are_dealt_out() {
        assert_eq!(deal(&[None; 5], 2), [vec![0, 2, 4], vec![1, 3]]);
        assert_eq!(deal(&[None; 2], 64), [[0], [1]]);
        let mixed = [Some(1), None, Some(0), Some(1), None];
        assert_eq!(deal(&mixed, 1), [vec![2], vec![0, 3], vec![1, 4]]);
    }

    #[test]
    fn each_link_has_a_page_at_a_port_of_its_own() {
        assert_eq!(nth_port("127.0.0.1:9470", 3), "127.0.0.1:9473");
        assert_eq!(nth_port("[::1]:1", 0), "[::1]:1");
        // Refused by whoever reads them.
        assert_eq!(nth_port("127.0.0.1:65535", 1), "127.0.0.1:65535");
        assert_eq!(nth_port("nowhere", 1), "nowhere");
    }
}
