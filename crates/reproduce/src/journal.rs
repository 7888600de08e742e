//! The runs of a folder of results, each written there when it has been made: a reproduction that was ended
//! goes on where it was, and runs of hours are judged again without being made again.

#[cfg(feature = "live")]
use crate::host::run_live;
use crate::host::{Error, Host, Made};
use crate::runs::{Planned, Run, run_all};
use crate::traces;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use weir_config::{Document, PolicyConfig, Scenario};
#[cfg(feature = "live")]
use weir_lab::SideBySide;
use weir_report::{FileSet, read_regular};
use weir_sim::batch::{Progress, lock};

/// Name of the file: MessagePack, two objects for each run. The first says which run it is, the second what
/// was measured.
pub const RUNS: &str = "runs.msgpack";

/// What is measured of a run.
pub trait Measurement: Serialize + DeserializeOwned + Send {
    /// What results do not show of it, and claims and charts ask for.
    type Detail: Default + Serialize + DeserializeOwned;
    /// Where it has that.
    fn detail(&mut self) -> &mut Self::Detail;
    /// The share of the time in which the machine was not there for the packet loop, where that is known.
    #[cfg(feature = "live")]
    fn stalled_share(&self) -> Option<f64> {
        None
    }
}

/// Which run it is. Two are the same if they agree in all of this.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Name {
    /// The case, as results show it.
    case: String,
    /// The number of the run, from which its random numbers come.
    seed: u64,
    /// What was run; parameters of the policy that are not in use have their defaults.
    scenario: String,
}

impl Name {
    fn of<C: Serialize>(planned: &Planned<C>) -> Name {
        let case = serde_json::to_string(&planned.case).expect("cases are plain data");
        Name { case, seed: planned.seed, scenario: written(planned.scenario.clone()) }
    }
}

/// A scenario as names have it.
fn written(mut scenario: Scenario) -> String {
    scenario.policy = scenario.policy.map(PolicyConfig::in_use);
    scenario.to_toml()
}

/// The first object of a run.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    name: Name,
    made: Made,
    /// CRC-32 of name and origin and of the second object; runs of before have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    crc: Option<u32>,
}

impl Head {
    /// The checksum that belongs to this object and a second one.
    fn checksum(&self, body: &[u8]) -> u32 {
        let mut sum = crc32fast::Hasher::new();
        sum.update(&rmp_serde::to_vec_named(&(&self.name, &self.made)).expect("names are plain data"));
        sum.update(body);
        sum.finalize()
    }
}

/// The second one.
#[derive(Debug, Serialize, Deserialize)]
struct Body<V, D> {
    values: V,
    detail: D,
    trace_hash: Option<String>,
    warnings: Option<Vec<String>>,
}

/// A run in the file.
#[derive(Debug)]
struct Entry {
    made: Made,
    body: Range<usize>,
}

/// The file of a folder, which no other program writes to meanwhile.
pub struct Journal {
    folder: PathBuf,
    path: PathBuf,
    writer: Mutex<Writer>,
    /// When and with what runs are made now.
    made: Made,
    /// What was in the file at the beginning.
    bytes: Vec<u8>,
    entries: BTreeMap<Name, Entry>,
}

/// The end of the file.
struct Writer {
    /// Locked until this is dropped.
    file: File,
    /// What the folder has of before goes when the first run has been made: whoever ends the program until
    /// then, or cannot make any, has lost nothing.
    is_before: bool,
    /// Bytes of the runs of before that stay then.
    kept: u64,
}

impl Drop for Writer {
    /// A process that another thread is starting has the file, too, and so its lock, until it becomes another
    /// program: closing alone would not end it.
    fn drop(&mut self) {
        // Of a file that could not be locked this does nothing.
        let _ = self.file.unlock();
    }
}

/// Runs, and when and with what they were made.
pub struct Done<C, V> {
    /// In the order of the plan.
    pub runs: Vec<Run<C, V>>,
    /// Where they come from.
    pub origins: Origins,
}

/// When and with what the runs of results were made.
#[derive(Debug, Default)]
pub struct Origins {
    /// How many with each, the latest first.
    pub made: Vec<(Made, usize)>,
    /// Whether cases of the plan have no run, as it was ended before they had.
    pub lacks_cases: bool,
    /// A sentence for each run with real TCP that counts though more of its time was taken away than may be.
    pub disturbed: Vec<String>,
    /// A sentence for each kind of warning that the runs came with.
    pub warned: Vec<String>,
}

/// A run of a file, if it is there, and when and with what it was made.
type Taken<C, V> = Option<(Run<C, V>, Made)>;

impl Journal {
    /// Begins the file of a folder that was prepared: with what is in it, or to be empty. The results of
    /// before stay until the first run has been made.
    ///
    /// # Errors
    ///
    /// If the file is not one of these, cannot be read or written, or another program writes to it.
    pub fn begin(folder: &Path, resume: bool, host: &dyn Host) -> Result<Journal, Error> {
        let path = folder.join(RUNS);
        let is_there = path.exists();
        // Nobody waits for the other end of a pipe of that name.
        if is_there && !path.is_file() {
            let remedy = "name another folder with --out, or remove it";
            return Err(Error::Input(format!("{} is no regular file: {remedy}", path.display())));
        }
        if !is_there || !resume && !FileSet::foreign(folder, &[RUNS]).is_empty() {
            FileSet::append(folder, RUNS, [])?;
        }
        let (mut writer, bytes) = open(&path, resume, host)?;
        let Found { entries, whole, damaged } = entries(&bytes).map_err(|e| self::damaged(&path, &e))?;
        let entries = by_today(entries);
        if resume && !is_there {
            host.say(&format!("{} has no runs of before: all are made", folder.display()));
        }
        for Range { start, end } in damaged {
            let what = "are damaged: the runs in them do not count, and are made again if they are asked for";
            host.say(&format!("{}: bytes {start} to {end} {what}", path.display()));
        }
        if whole < bytes.len() {
            host.say(&format!(
                "{}: its last run is cut off or damaged, and is made again: {} bytes behind the last whole one go \
                 with the first run that is made",
                path.display(),
                bytes.len() - whole
            ));
        }
        writer.kept = whole as u64;
        let (folder, writer) = (folder.into(), Mutex::new(writer));
        Ok(Journal { folder, writer, made: host.made(), bytes, entries, path })
    }

    /// Whether the file has the run that is planned.
    pub fn has<C: Serialize>(&self, planned: &Planned<C>) -> bool {
        self.entries.contains_key(&Name::of(planned))
    }

    /// The run that is planned, if the file has it.
    fn take<C: Clone + Serialize, V: Measurement>(&self, planned: &Planned<C>) -> Result<Taken<C, V>, Error> {
        let Some(entry) = self.entries.get(&Name::of(planned)) else { return Ok(None) };
        let body: Body<V, V::Detail> =
            rmp_serde::from_slice(&self.bytes[entry.body.clone()]).map_err(|e| damaged(&self.path, &e))?;
        let Body { mut values, detail, trace_hash, warnings } = body;
        *values.detail() = detail;
        let run = Run { case: planned.case.clone(), seed: planned.seed, values, trace_hash, warnings };
        Ok(Some((run, entry.made.clone())))
    }

    /// Writes a run that was made.
    fn note<C: Serialize, V: Measurement>(
        &self,
        planned: &Planned<C>,
        mut run: Run<C, V>,
    ) -> Result<Run<C, V>, Error> {
        let mut head = Head { name: Name::of(planned), made: self.made.clone(), crc: None };
        let detail = std::mem::take(run.values.detail());
        let body = Body {
            values: &run.values,
            detail: &detail,
            trace_hash: run.trace_hash.clone(),
            warnings: run.warnings.clone(),
        };
        let body = rmp_serde::to_vec_named(&body).expect("runs are plain data");
        head.crc = Some(head.checksum(&body));
        self.append(&[rmp_serde::to_vec_named(&head).expect("names are plain data"), body].concat())?;
        *run.values.detail() = detail;
        Ok(run)
    }

    /// Writes at the end of the file, all or nothing: what another thread writes next follows what is whole.
    fn append(&self, bytes: &[u8]) -> Result<(), Error> {
        let failed = |e: std::io::Error| failed(&self.path, &e);
        let mut writer = lock(&self.writer);
        // Of two programs that begin a folder at once both may have locked a file of their own.
        if !is_at(&writer.file, &self.path) {
            let what = "it was removed or replaced since this program began, as by another one that begins with the same folder";
            let remedy = "name another folder with --out";
            return Err(Error::Failed(format!("{}: {what}; {remedy}", self.path.display())));
        }
        if writer.is_before {
            FileSet::withdraw(&self.folder, &[RUNS])?;
            writer.file.set_len(writer.kept).map_err(failed)?;
            writer.is_before = false;
        }
        let whole = writer.file.metadata().map_err(failed)?.len();
        writer.file.write_all(bytes).inspect_err(|_| _ = writer.file.set_len(whole)).map_err(failed)
    }

    /// Makes the runs of a plan that the file does not have, by `make`, which is given them, and a function
    /// to write each when it has been made. Those of the file count also after an end that was asked for.
    ///
    /// # Errors
    ///
    /// If a run cannot be made, read or written, or an end was asked for before there was any.
    pub fn complete<C, V, F>(
        &self,
        plan: &[Planned<C>],
        host: &dyn Host,
        make: F,
    ) -> Result<Done<C, V>, Error>
    where
        C: Clone + Serialize + PartialEq,
        V: Measurement,
        F: FnOnce(&[Planned<C>], &Note<'_, C, V>) -> Result<Vec<Run<C, V>>, Error>,
    {
        let taken =
            plan.iter().map(|planned| self.take(planned)).collect::<Result<Vec<Taken<C, V>>, Error>>()?;
        let left: Vec<Planned<C>> =
            plan.iter().zip(&taken).filter(|(_, run)| run.is_none()).map(|(p, _)| p.clone()).collect();
        if !self.entries.is_empty() {
            host.say(&format!("{} of {} runs are there already", plan.len() - left.len(), plan.len()));
        }
        let mut made = make(&left, &|planned, run| self.note(planned, run))?.into_iter().peekable();
        let mut done = Done { runs: Vec::with_capacity(plan.len()), origins: Origins::default() };
        for (planned, taken) in plan.iter().zip(taken) {
            let is_this = |run: &Run<C, V>| (&run.case, run.seed) == (&planned.case, planned.seed);
            let next = taken.or_else(|| Some((made.next_if(is_this)?, self.made.clone())));
            let Some((run, made)) = next else { continue };
            match done.origins.made.iter_mut().find(|(origin, _)| *origin == made) {
                Some((_, runs)) => *runs += 1,
                None => done.origins.made.push((made, 1)),
            }
            done.runs.push(run);
        }
        if done.runs.is_empty() && !plan.is_empty() {
            return Err(Error::Interrupted("interrupted before the first run was whole".into()));
        }
        done.origins.made.sort_by(|a, b| b.0.date.cmp(&a.0.date));
        let has_run = |planned: &Planned<C>| done.runs.iter().any(|run| run.case == planned.case);
        done.origins.lacks_cases = !plan.iter().all(has_run);
        done.origins.warned = warned(&done.runs);
        Ok(done)
    }

    /// The same in the simulator, on all processors.
    ///
    /// # Errors
    ///
    /// See [`Journal::complete`].
    pub fn simulate<C, V>(
        &self,
        plan: &[Planned<C>],
        host: &dyn Host,
        measure: impl Fn(&Planned<C>, &dyn Progress) -> Result<Option<Run<C, V>>, Error> + Sync,
    ) -> Result<Done<C, V>, Error>
    where
        C: Clone + Serialize + PartialEq + Sync + Send,
        V: Measurement,
    {
        self.complete(plan, host, |left, note| {
            run_all(left, host, |planned, progress| {
                measure(planned, progress)?.map(|run| note(planned, run)).transpose()
            })
        })
    }
}

#[cfg(feature = "live")]
impl Journal {
    /// The same with real TCP, `jobs` at a time. A run of which a larger share of the time than `most` was
    /// taken away is made again, a few times; of these the least disturbed counts.
    ///
    /// # Errors
    ///
    /// See [`Journal::complete`].
    pub fn live<'a, C, V>(
        &self,
        plan: &[Planned<C>],
        jobs: u32,
        host: &dyn Host,
        title: impl Fn(&Planned<C>) -> String + Sync,
        most: impl Fn(&Planned<C>) -> f64 + Sync,
        run: impl Fn(&Planned<C>, &SideBySide) -> Result<Attempt<'a, C, V>, Error> + Sync,
    ) -> Result<Done<C, V>, Error>
    where
        C: Clone + Serialize + PartialEq + Sync + Send,
        V: Measurement,
    {
        let mut done = self.complete(plan, host, |left, note| {
            if !left.is_empty() {
                let seconds: f64 =
                    left.iter().map(|p| p.scenario.run.duration.as_secs_f64() + AROUND_S).sum();
                host.say(&format!("{} runs, about {:.0} min", left.len(), seconds / f64::from(jobs) / 60.0));
            }
            run_live(left, jobs, host, &title, |planned, turns| {
                let named = title(planned);
                let made = least_disturbed(host, &named, most(planned), || run(planned, turns))?;
                let Attempt { run, told, then } = made;
                // One that was ended is none.
                if host.is_interrupted() {
                    return Ok((run, told));
                }
                let run = note(planned, run)?;
                then()?;
                Ok((run, told))
            })
        })?;
        let one = |run: &Run<C, V>| {
            let is_this = |planned: &&Planned<C>| (&planned.case, planned.seed) == (&run.case, run.seed);
            let planned = plan.iter().find(is_this)?;
            let most = most(planned);
            let share = run.values.stalled_share().filter(|share| *share > most)?;
            Some(format!(
                "{}, run {}: {:.2} % of its time was taken away, where a run with more than {} % is made again.",
                title(planned),
                run.seed,
                share * 100.0,
                most * 100.0
            ))
        };
        done.origins.disturbed = done.runs.iter().filter_map(one).collect();
        Ok(done)
    }
}

/// A run with real TCP, as it was made.
#[cfg(feature = "live")]
pub struct Attempt<'a, C, V> {
    run: Run<C, V>,
    /// What is said of it.
    told: String,
    /// What is to be done when it counts and is written.
    then: Box<dyn FnOnce() -> Result<(), Error> + 'a>,
}

#[cfg(feature = "live")]
impl<'a, C, V> Attempt<'a, C, V> {
    /// A run, and what is said of it.
    pub fn new(run: Run<C, V>, told: String) -> Attempt<'a, C, V> {
        Attempt { run, told, then: Box::new(|| Ok(())) }
    }

    /// The same with what is to be done when it counts and is written, such as to write files of its own.
    #[must_use]
    pub fn with(self, then: impl FnOnce() -> Result<(), Error> + 'a) -> Attempt<'a, C, V> {
        Attempt { then: Box::new(then), ..self }
    }
}

/// Makes a run until at most a share of its time was taken away, a few times; of these the one of which the
/// least was.
#[cfg(feature = "live")]
fn least_disturbed<'a, C, V: Measurement>(
    host: &dyn Host,
    title: &str,
    most: f64,
    make: impl Fn() -> Result<Attempt<'a, C, V>, Error>,
) -> Result<Attempt<'a, C, V>, Error> {
    let share_of = |made: &Attempt<'a, C, V>| made.run.values.stalled_share().unwrap_or(0.0);
    let mut best = make()?;
    for _ in 1..ATTEMPTS {
        let share = share_of(&best);
        if share <= most || host.is_interrupted() {
            break;
        }
        let percent = share * 100.0;
        host.say(&format!("{title}: made again, as {percent:.2} % of its time was taken away"));
        let next = make()?;
        if share_of(&next) < share {
            best = next;
        }
    }
    Ok(best)
}

/// What a run with real TCP takes beside its length, about, in seconds.
#[cfg(feature = "live")]
const AROUND_S: f64 = 2.0;
/// What may be taken away of a run unless it asks for less.
#[cfg(feature = "live")]
pub const STALLED_MAX: f64 = 0.02;
/// How often it is made at most; then the results tell what was taken away.
#[cfg(feature = "live")]
const ATTEMPTS: u32 = 3;

/// Writes a run that was made, and returns it.
pub type Note<'a, C, V> = dyn Fn(&Planned<C>, Run<C, V>) -> Result<Run<C, V>, Error> + Sync + 'a;

/// What the runs warn of: a sentence for each kind of warning, with the numbers that the first one has.
fn warned<C, V>(runs: &[Run<C, V>]) -> Vec<String> {
    let mut kinds: BTreeMap<String, (&str, usize, BTreeSet<usize>)> = BTreeMap::new();
    for (number, run) in runs.iter().enumerate() {
        for text in run.warnings.iter().flatten() {
            let kind = text.chars().filter(|c| !c.is_ascii_digit()).collect();
            let (_, times, of) = kinds.entry(kind).or_insert((text, 0, BTreeSet::new()));
            *times += 1;
            of.insert(number);
        }
    }
    let told = |(first, times, of): (&str, usize, BTreeSet<usize>)| {
        let all = runs.len();
        format!("Warning of {} of {all} runs, {times} in all, the first of which: {first}", of.len())
    };
    kinds.into_values().map(told).collect()
}

/// The file, locked, and what is in it, if that is asked for.
fn open(path: &Path, resume: bool, host: &dyn Host) -> Result<(Writer, Vec<u8>), Error> {
    let file = OpenOptions::new().append(true).open(path).map_err(|e| failed(path, &e))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let what = "another program makes runs for this folder";
            let remedy = "wait for it, or name another folder with --out";
            return Err(Error::Input(format!("{}: {what}; {remedy}", path.display())));
        }
        Err(TryLockError::Error(e)) => {
            let what = "cannot be locked, so that nothing keeps two programs from mixing their runs";
            host.say(&format!("{}: {what}: {e}", path.display()));
        }
    }
    let writer = Writer { file, is_before: true, kept: 0 };
    let bytes = if resume { read_regular(path).map_err(|e| damaged(path, &e))? } else { Vec::new() };
    Ok((writer, bytes))
}

/// Whether a path names the file that was opened.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let id = |about: std::io::Result<std::fs::Metadata>| about.ok().map(|about| (about.dev(), about.ino()));
    id(file.metadata()).is_some_and(|own| Some(own) == id(std::fs::metadata(path)))
}

/// Elsewhere a file that is open cannot be replaced.
#[cfg(not(unix))]
fn is_at(_: &File, _: &Path) -> bool {
    true
}

/// What a file has.
#[derive(Debug)]
struct Found {
    entries: BTreeMap<Name, Entry>,
    /// How many bytes are whole runs: the last one may be cut off.
    whole: usize,
    /// Of these, bytes that are none.
    damaged: Vec<Range<usize>>,
}

/// How the first object of a run goes on behind its number of fields, by which a run behind damage is found.
const BEGINNING: &[u8] = b"\xa4name\x83\xa4case";

/// How the second one begins: an object of four fields.
const BODY: u8 = 0x84;

/// Where the next run begins behind a place.
fn next_beginning(bytes: &[u8], behind: usize) -> Option<usize> {
    let mut windows = bytes.get(behind + 1..)?.windows(BEGINNING.len() + 1);
    // An object of two or three fields.
    let found = windows.position(|part| matches!(part[0], 0x82 | 0x83) && &part[1..] == BEGINNING)?;
    Some(behind + 1 + found)
}

/// The run that begins a file, and where its second object begins and ends; no run where its checksum is
/// another one.
fn first(bytes: &[u8]) -> Result<Option<(Head, Range<usize>)>, rmp_serde::decode::Error> {
    let mut rest = bytes;
    let head: Head = rmp_serde::from_read(&mut rest)?;
    let from = bytes.len() - rest.len();
    rmp_serde::from_read(&mut rest).map(|_: IgnoredAny| ())?;
    let body = from..bytes.len() - rest.len();
    let is_body = bytes.get(from) == Some(&BODY);
    let is_whole = is_body && head.crc.is_none_or(|crc| crc == head.checksum(&bytes[body.clone()]));
    Ok(is_whole.then_some((head, body)))
}

/// The runs of a file. Behind a damaged one it goes on with the next.
fn entries(bytes: &[u8]) -> Result<Found, rmp_serde::decode::Error> {
    let mut found = Found { entries: BTreeMap::new(), whole: 0, damaged: Vec::new() };
    let mut at = 0;
    while at < bytes.len() {
        let run = first(&bytes[at..]);
        if let Ok(Some((Head { name, made, .. }, body))) = run {
            let body = at + body.start..at + body.end;
            at = body.end;
            found.whole = at;
            found.entries.insert(name, Entry { made, body });
            continue;
        }
        match (next_beginning(bytes, at), run) {
            (Some(next), _) => {
                found.damaged.push(at..next);
                at = next;
            }
            // A file without any run is none of these.
            (None, Err(e)) if !is_cut_off(&e) && found.entries.is_empty() => return Err(e),
            (None, _) => break,
        }
    }
    Ok(found)
}

/// The runs by their scenarios as this program writes them: what a scenario of before does not tell has its
/// default, and how a key is explained makes no other scenario. One that cannot be read any more stays as it
/// is, and is none that could be planned.
fn by_today(entries: BTreeMap<Name, Entry>) -> BTreeMap<Name, Entry> {
    let mut read: BTreeMap<String, String> = BTreeMap::new();
    let today = |text: &String| {
        let document = Document::parse("the scenario of a run", text).ok();
        let document = document.and_then(|document| traces::bring(document).ok());
        let scenario = document.and_then(|document| document.scenario().ok());
        scenario.map_or_else(|| text.clone(), written)
    };
    let renamed = entries.into_iter().map(|(name, entry)| {
        let scenario = read.entry(name.scenario).or_insert_with_key(today).clone();
        (Name { scenario, ..name }, entry)
    });
    renamed.collect()
}

fn is_cut_off(e: &rmp_serde::decode::Error) -> bool {
    use rmp_serde::decode::Error::{InvalidDataRead, InvalidMarkerRead};
    let (InvalidDataRead(e) | InvalidMarkerRead(e)) = e else { return false };
    e.kind() == std::io::ErrorKind::UnexpectedEof
}

fn damaged(path: &Path, what: &dyn std::fmt::Display) -> Error {
    let remedy = "remove it, or leave --resume out";
    Error::Input(format!("{}: cannot be read as runs of this program: {what}; {remedy}", path.display()))
}

fn failed(path: &Path, what: &dyn std::fmt::Display) -> Error {
    Error::Failed(format!("{}: cannot write what was measured: {what}", path.display()))
}

#[cfg(test)]
#[path = "journal_tests.rs"]
pub mod tests;
