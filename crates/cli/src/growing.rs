//! The results of a run that may never end: rows are in their files as soon as they are known, and nowhere
//! else.
//!
//! What an earlier run left in the folder is put aside in a folder of its own within: also a start after a
//! crash, or of a new version, loses nothing. A run that takes over from another one begins its tables when
//! that one has ended its own.

use crate::log;
use crate::output::Failure;
use crate::results::{self, mark_incomplete};
use std::fs::{Metadata, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, UNIX_EPOCH};
use weir_config::RunOptions;
use weir_dataplane::LockFile;
use weir_measure::result::{LinkSample, SteeringEvent, Summary};
use weir_report::{FileSet, csv};

/// The tables: samples of each direction, and the moves of both.
const TABLES: [&str; 3] = ["samples_a_to_b.csv", "samples_b_to_a.csv", "events.csv"];
/// The other files of such a run.
const OTHERS: [&str; 2] = ["summary.json", "INCOMPLETE"];

/// Folder in that of the results for those of earlier runs, each with its number and the time of its last
/// row.
const EARLIER: &str = "earlier";
/// So many of them are kept.
const EARLIER_KEPT: usize = 10;
/// How long a run that takes over waits until the other one has ended its tables.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a start waits for a process that is being killed and has its files still open.
const LAST_BREATH: Duration = Duration::from_secs(1);

/// When tables are put aside, so that a run without end fills no disk.
#[derive(Clone, Copy, Debug)]
pub struct Rotation {
    /// Size of a table, in bytes, above which it is put aside.
    pub size: u64,
    /// How many are kept of each table beside the one that grows.
    pub kept: u32,
}

impl Rotation {
    /// As a configuration has it.
    pub fn of(options: &RunOptions) -> Option<Rotation> {
        options.rotate.map(|size| Rotation { size: size.get(), kept: options.rotations })
    }

    /// Names of all tables that may be put aside.
    fn names(self) -> impl Iterator<Item = String> {
        TABLES.iter().flat_map(move |table| (1..=self.kept).map(|number| aside(table, number)))
    }
}

/// Name of a table that was put aside; the latest is the first.
fn aside(table: &str, number: u32) -> String {
    format!("{}.{number}.csv", table.trim_end_matches(".csv"))
}

/// Makes the folder and sees that it takes results: that there is room, that nobody else's files would be
/// overwritten, and that no other run writes there. `is_to_end` says of the process that writes, where it is
/// known, whether it is taken over.
pub fn prepare(
    folder: &Path,
    rotation: Option<Rotation>,
    is_to_end: impl Fn(Option<u32>) -> bool,
) -> Result<(), Failure> {
    results::make_folder(folder)?;
    let asides: Vec<String> = rotation.into_iter().flat_map(Rotation::names).collect();
    let names: Vec<&str> =
        TABLES.iter().chain(&OTHERS).copied().chain(asides.iter().map(String::as_str)).collect();
    results::refuse_foreign(folder, &names)?;
    let earlier = folder.join(EARLIER);
    if earlier.symlink_metadata().is_ok_and(|about| !about.is_dir()) {
        return Err(Failure::Failed(format!(
            "{} is no folder, and the results of earlier runs have no place. Remedy: move it away, or name another folder as \
             `run.out`",
            earlier.display()
        )));
    }
    let begun = Instant::now();
    while is_taken(folder) && !is_to_end(writer(folder)) {
        if begun.elapsed() > LAST_BREATH {
            return Err(taken(folder));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    results::probe(folder)
}

/// The table by which a folder is locked. Of whatever else has its name nobody waits for the other end.
fn lock_of(folder: &Path) -> Option<LockFile> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(folder.join(TABLES[0]));
    file.ok().map(LockFile::from)
}

/// Whether a run writes its results there.
fn is_taken(folder: &Path) -> bool {
    lock_of(folder).is_some_and(|file| file.is_taken())
}

/// The process that does, as the kernel lists who has locked what (proc(5), `/proc/locks`).
fn writer(folder: &Path) -> Option<u32> {
    let about = lock_of(folder)?.metadata().ok()?;
    let (major, minor) = (libc::major(about.dev()), libc::minor(about.dev()));
    let file = format!("{major:02x}:{minor:02x}:{}", about.ino());
    let all = std::fs::read_to_string("/proc/locks").ok()?;
    let lines = all.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    lines.filter(|words| words.get(5) == Some(&file.as_str())).find_map(|words| words.get(4)?.parse().ok())
}

fn taken(folder: &Path) -> Failure {
    Failure::Failed(format!(
        "another run writes its results to {}. Remedy: name another folder as `run.out`, or end that run",
        folder.display()
    ))
}

/// Puts the results of an earlier run aside, if it had any; where they are.
fn put_aside(folder: &Path) -> Result<Option<PathBuf>, Failure> {
    // A table may just have been put aside, so that the one that grows has no row yet.
    let tables = TABLES.iter().zip(heads());
    let tables =
        tables.flat_map(|(name, head)| [(name.to_string(), head.len()), (aside(name, 1), head.len())]);
    let rows = tables.filter_map(|(name, head)| {
        let about = folder.join(name).metadata().ok()?;
        (about.len() > head as u64).then(|| about.modified().unwrap_or(UNIX_EPOCH))
    });
    let Some(ended) = rows.max() else { return Ok(None) };
    let ended = log::utc(ended.duration_since(UNIX_EPOCH).unwrap_or_default()).replace(':', "-");
    let earlier = folder.join(EARLIER);
    let before = all_earlier(&earlier);
    // The clock may have been set back.
    let number = before.last().map_or(1, |(number, _)| number + 1);
    let to = earlier.join(format!("{number:04}-{ended}"));
    FileSet::move_to(folder, &to)?;
    let oldest = (before.len() + 1).saturating_sub(EARLIER_KEPT);
    before[..oldest].iter().try_for_each(|(_, path)| FileSet::remove(path))?;
    Ok(Some(to))
}

/// Results of earlier runs that were put aside there, the oldest first. What has another name is somebody
/// else's, and so is what a link leads to.
fn all_earlier(earlier: &Path) -> Vec<(u64, PathBuf)> {
    let all = std::fs::read_dir(earlier).into_iter().flatten().flatten();
    let all = all.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let mut all: Vec<(u64, PathBuf)> = all
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let (number, time) = name.split_once('-')?;
            let is_time = time.len() == "2026-11-26T15-15-17.600Z".len() && time.ends_with('Z');
            (is_time && FileSet::is_in(&entry.path())).then_some((number.parse().ok()?, entry.path()))
        })
        .collect();
    all.sort();
    all
}

/// A table with nothing but its head, under a name of its own until the one before is put aside.
fn next_table(folder: &Path, name: &str, head: &str) -> std::io::Result<(PathBuf, LockFile)> {
    let path = folder.join(format!(".{name}.next"));
    // What a killed run left.
    let _ = std::fs::remove_file(&path);
    let mut file = LockFile::from(OpenOptions::new().append(true).create_new(true).open(&path)?);
    // Before the old one is closed, so that one of the two is always locked.
    let _ = file.try_lock();
    match file.write_all(head.as_bytes()) {
        Ok(()) => Ok((path, file)),
        Err(error) => {
            let _ = std::fs::remove_file(&path);
            Err(error)
        }
    }
}

/// Results that grow. As long as they do a file says that they are not whole; at the end the summary comes in
/// its place.
pub struct Growing {
    folder: PathBuf,
    tables: Vec<Table>,
    rotation: Option<Rotation>,
    /// Why rows are missing.
    failure: Option<String>,
    /// While another run still writes there: since when, and the rows of each table until it has ended.
    waiting: Option<(Instant, [String; 3])>,
    /// What is to be told.
    said: Option<String>,
}

impl Growing {
    /// Begins in a folder that was prepared, at once or when the run that is taken over has ended its tables.
    pub fn begin(folder: &Path, rotation: Option<Rotation>) -> Result<Growing, Failure> {
        let mut growing = Growing {
            folder: folder.to_path_buf(),
            tables: Vec::new(),
            rotation,
            failure: None,
            waiting: is_taken(folder).then(|| (Instant::now(), Default::default())),
            said: None,
        };
        if growing.waiting.is_none() {
            growing.begin_tables()?;
        }
        Ok(growing)
    }

    fn begin_tables(&mut self) -> Result<(), Failure> {
        const WHY: &str = "the run goes on, or it was killed";
        let (folder, rotation) = (&self.folder, self.rotation);
        let earlier = put_aside(folder)?;
        self.said =
            earlier.map(|folder| format!("the results of an earlier run are in {} now", folder.display()));
        let mut files = FileSet::new(folder);
        for (name, head) in TABLES.iter().zip(heads()) {
            files.add(*name, head)?;
        }
        mark_incomplete(&mut files, WHY)?;
        files.publish()?;
        if let Some(rotation) = rotation {
            // Those of an earlier run are elsewhere; those to come are known as ours, whatever ends this run.
            let mut files = FileSet::new(folder);
            TABLES.iter().for_each(|name| files.keep(*name));
            rotation.names().for_each(|name| files.keep(name));
            mark_incomplete(&mut files, WHY)?;
            files.publish()?;
        }
        let tables = TABLES.iter().map(|name| Table::open(&folder.join(name)));
        let tables = tables.collect::<std::io::Result<Vec<Table>>>();
        let tables = tables.map_err(|e| format!("cannot open the tables in {}: {e}", folder.display()))?;
        // Where files cannot be locked, the look at the end tells whether another run came between.
        let _ = tables[0].file.try_lock();
        self.tables = tables;
        Ok(())
    }

    /// What is to be told of them since the last call.
    pub fn said(&mut self) -> Option<String> {
        self.said.take()
    }

    /// Adds rows. Says once why that cannot be done; from then on there are no more, and the run goes on.
    pub fn add(&mut self, samples: &[Vec<LinkSample>; 2], events: &[SteeringEvent]) -> Option<String> {
        if self.failure.is_some() {
            return None;
        }
        let mut rows = [csv::link_rows(&samples[0]), csv::link_rows(&samples[1]), csv::steering_rows(events)];
        if let Some((since, waiting)) = &mut self.waiting {
            waiting.iter_mut().zip(&rows).for_each(|(waiting, rows)| waiting.push_str(rows));
            let is_taken = is_taken(&self.folder);
            if is_taken && since.elapsed() < PATIENCE {
                return None;
            }
            rows = std::mem::take(waiting);
            self.waiting = None;
            let begun = if is_taken { Err(taken(&self.folder)) } else { self.begin_tables() };
            if let Err(failure) = begun {
                self.failure = Some(format!("{}. The run goes on without tables", failure.text()));
                return self.failure.clone();
            }
        }
        let added: std::io::Result<()> =
            self.tables.iter_mut().zip(rows).try_for_each(|(table, rows)| table.add(rows.as_bytes()));
        let added = added.and_then(|()| self.rotate());
        self.failure = added.err().map(|e| {
            let folder = self.folder.display();
            let remedy = match e.kind() {
                std::io::ErrorKind::Other => "leave the folder to one run, and start it again",
                _ => "make room",
            };
            format!("cannot write to {folder}: {e}. The run goes on; its tables end here. Remedy: {remedy}")
        });
        self.failure.clone()
    }

    /// Puts tables aside that are large enough.
    fn rotate(&mut self) -> std::io::Result<()> {
        let Some(Rotation { size, kept }) = self.rotation else { return Ok(()) };
        for (table, (name, head)) in self.tables.iter_mut().zip(TABLES.iter().zip(heads())) {
            if table.len < size {
                continue;
            }
            let path = self.folder.join(name);
            if !table.is_at(&path) {
                return Err(std::io::Error::other(format!("{name} was replaced or removed")));
            }
            // Nothing that others put there meanwhile is overwritten or moved.
            for number in 1..=kept {
                let own = table.aside.get(number as usize - 1).copied();
                if file_at(&self.folder.join(aside(name, number))) != own {
                    let name = aside(name, number);
                    return Err(std::io::Error::other(format!("{name} was replaced, removed or put there")));
                }
            }
            // First, so that where there is no room for it nothing has changed.
            let (next, file) = next_table(&self.folder, name, &head)?;
            for number in (1..kept).rev() {
                match std::fs::rename(
                    self.folder.join(aside(name, number)),
                    self.folder.join(aside(name, number + 1)),
                ) {
                    Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e),
                    _ => {}
                }
            }
            table.file.sync_all()?;
            std::fs::rename(&path, self.folder.join(aside(name, 1)))?;
            std::fs::rename(next, &path)?;
            let mut asides = std::mem::take(&mut table.aside);
            asides.insert(0, file_of(&table.file)?);
            asides.truncate(kept as usize);
            *table = Table { len: head.len() as u64, file, aside: asides };
        }
        Ok(())
    }

    /// Ends what a run left that did not come to its end.
    pub fn fail(self, why: &str) -> Result<(), Failure> {
        // Others begin there when the tables are closed.
        let (mut files, _tables) = self.close()?;
        mark_incomplete(&mut files, why)?;
        Ok(files.publish()?)
    }

    /// Ends the results of a run.
    pub fn finish(mut self, summary: &mut Summary) -> Result<(), Failure> {
        // One that ends while it waits has its rows all the same.
        self.add(&[Vec::new(), Vec::new()], &[]);
        let failure = self.failure.clone();
        summary.warnings.extend(failure.clone());
        let (mut files, _tables) = self.close()?;
        let why = failure.as_deref().or(summary.interrupted.then_some("interrupted before the end"));
        why.map_or(Ok(()), |why| mark_incomplete(&mut files, why))?;
        results::finish(files, summary)?;
        failure.map_or(Ok(()), |failure| Err(Failure::Failed(failure)))
    }

    /// The set of its tables, which are forced to the disk; and these, which are locked until they are
    /// closed.
    fn close(self) -> Result<(FileSet, Vec<Table>), Failure> {
        if self.tables.is_empty() {
            return Err(taken(&self.folder));
        }
        let mut files = FileSet::new(&self.folder);
        for (name, table) in TABLES.iter().zip(&self.tables) {
            let path = self.folder.join(name);
            if !table.is_at(&path) {
                return Err(Failure::Failed(format!(
                    "{} was replaced or removed while the run wrote to it; what is there now is left alone",
                    path.display()
                )));
            }
            // A table that ends early says so; there may be no room for more.
            let synced = table.file.sync_all();
            synced.map_err(|e| format!("cannot write {}: {e}", path.display()))?;
            files.keep(*name);
        }
        let asides = self.rotation.into_iter().flat_map(Rotation::names);
        asides.filter(|name| self.folder.join(name).exists()).for_each(|name| files.keep(name));
        Ok((files, self.tables))
    }
}

/// The first lines of the tables.
fn heads() -> [String; 3] {
    [csv::link_samples(&[]), csv::link_samples(&[]), csv::steering_events(&[])]
}

/// A table that grows by whole rows.
struct Table {
    file: LockFile,
    /// Bytes of the rows that are whole.
    len: u64,
    /// Those of it that were put aside, the latest first.
    aside: Vec<FileId>,
}

/// Device and number of a file, its length and when it was written last: the number may be another file's by
/// then.
type FileId = [i128; 5];

fn id(about: &Metadata) -> FileId {
    let (dev, ino, len) = (about.dev().into(), about.ino().into(), about.len().into());
    [dev, ino, len, about.mtime().into(), about.mtime_nsec().into()]
}

fn file_of(file: &LockFile) -> std::io::Result<FileId> {
    file.metadata().map(|about| id(&about))
}

/// What has a name, links not followed.
fn file_at(path: &Path) -> Option<FileId> {
    path.symlink_metadata().map(|about| id(&about)).ok()
}

impl Table {
    fn open(path: &Path) -> std::io::Result<Table> {
        let file = LockFile::from(OpenOptions::new().append(true).open(path)?);
        let len = file.metadata()?.len();
        Ok(Table { file, len, aside: Vec::new() })
    }

    fn add(&mut self, rows: &[u8]) -> std::io::Result<()> {
        let written = self.file.write_all(rows);
        match &written {
            Ok(()) => self.len += rows.len() as u64,
            // A row that is cut off is none.
            Err(_) => drop(self.file.set_len(self.len)),
        }
        written
    }

    /// Whether that is the file at the path.
    fn is_at(&self, path: &Path) -> bool {
        let both = file_of(&self.file).ok().zip(file_at(path));
        both.is_some_and(|(own, there)| own[..2] == there[..2])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn rows(t_s: f64) -> [Vec<LinkSample>; 2] {
        [(); 2].map(|()| vec![LinkSample { t_s, ..LinkSample::default() }])
    }

    fn names(folder: &Path) -> Vec<String> {
        let names = fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.filter(|name| !name.starts_with('.') && name != EARLIER).collect();
        names.sort();
        names
    }

    #[test]
    fn rows_are_there_at_once_and_the_summary_comes_last() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out");
        for is_interrupted in [true, false] {
            prepare(&out, None, |_| false).unwrap();
            let mut growing = Growing::begin(&out, None).unwrap();
            assert_eq!(growing.add(&rows(0.5), &[]), None);
            let table = fs::read_to_string(out.join(TABLES[1])).unwrap();
            let times = csv::read_link_samples(&table).unwrap().iter().map(|row| row.t_s).collect::<Vec<_>>();
            assert_eq!(times, [0.5]);
            assert_eq!(names(&out), ["INCOMPLETE", "events.csv", TABLES[0], TABLES[1]]);
            assert!(prepare(&out, None, |_| false).unwrap_err().text().contains("another run writes"));
            growing.finish(&mut Summary { interrupted: is_interrupted, ..Summary::default() }).unwrap();
            let whole = ["events.csv", TABLES[0], TABLES[1], "summary.json"];
            assert_eq!(names(&out).iter().filter(|name| *name != "INCOMPLETE").collect::<Vec<_>>(), whole);
            assert_eq!(out.join("INCOMPLETE").exists(), is_interrupted);
        }
    }

    #[test]
    fn files_of_others_are_refused_and_results_of_others_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path();
        fs::write(out.join("notes.txt"), "mine").unwrap();
        for name in ["summary.json", "events.csv"] {
            fs::write(out.join(name), "mine").unwrap();
            let told = prepare(out, None, |_| false).unwrap_err();
            assert!(told.text().contains(name) && told.text().contains("Remedy"), "{told:?}");
            assert_eq!(fs::read_to_string(out.join(name)).unwrap(), "mine");
            fs::remove_file(out.join(name)).unwrap();
        }
        prepare(out, None, |_| false).unwrap();
        let growing = Growing::begin(out, None).unwrap();
        fs::remove_file(out.join(TABLES[0])).unwrap();
        fs::write(out.join(TABLES[0]), "mine").unwrap();
        assert!(growing.finish(&mut Summary::default()).unwrap_err().text().contains("was replaced"));
        assert_eq!(fs::read_to_string(out.join(TABLES[0])).unwrap(), "mine");
        assert!(!out.join("summary.json").exists() && out.join("notes.txt").exists());
    }

    #[test]
    fn the_folder_is_free_when_a_run_has_ended_whoever_has_its_table_open() {
        let folder = tempfile::tempdir().unwrap();
        let growing = Growing::begin(folder.path(), None).unwrap();
        // As a process has it that another thread is starting.
        let _still_open = growing.tables[0].file.try_clone().unwrap();
        assert!(is_taken(folder.path()));
        growing.finish(&mut Summary::default()).unwrap();
        assert!(!is_taken(folder.path()));
    }

    #[test]
    fn a_run_that_broke_off_says_why() {
        let folder = tempfile::tempdir().unwrap();
        let mut growing = Growing::begin(folder.path(), None).unwrap();
        growing.add(&rows(1.0), &[]);
        growing.fail("interface `a` vanished").unwrap();
        assert_eq!(names(folder.path()), ["INCOMPLETE", "events.csv", TABLES[0], TABLES[1]]);
        assert!(fs::read_to_string(folder.path().join("INCOMPLETE")).unwrap().contains("`a` vanished"));
    }

    #[test]
    fn a_row_that_does_not_fit_is_taken_back_and_told_once() {
        let folder = tempfile::tempdir().unwrap();
        let mut growing = Growing::begin(folder.path(), None).unwrap();
        growing.add(&rows(1.0), &[]);
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        growing.tables[1].file = full.into();
        assert!(growing.add(&rows(2.0), &[]).unwrap().contains("No space left"));
        assert_eq!(growing.add(&rows(3.0), &[]), None);
        let table = fs::read_to_string(folder.path().join(TABLES[0])).unwrap();
        assert_eq!(csv::read_link_samples(&table).unwrap().len(), 2);
    }

    #[test]
    fn tables_are_put_aside_and_the_folder_stays_small() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path();
        let rotation = Some(Rotation { size: 2000, kept: 2 });
        // A file that somebody else put there is not put aside over.
        fs::write(out.join("events.1.csv"), "mine").unwrap();
        assert!(prepare(out, rotation, |_| false).unwrap_err().text().contains("events.1.csv"));
        assert!(prepare(out, None, |_| false).is_ok());
        fs::remove_file(out.join("events.1.csv")).unwrap();
        prepare(out, rotation, |_| false).unwrap();
        let mut growing = Growing::begin(out, rotation).unwrap();
        let total =
            || -> u64 { fs::read_dir(out).unwrap().map(|e| e.unwrap().metadata().unwrap().len()).sum() };
        let mut largest = 0;
        for row in 0..2000 {
            assert_eq!(growing.add(&rows(f64::from(row)), &[]), None);
            largest = largest.max(total());
        }
        assert!(largest < 3 * 3 * 2200, "{largest} bytes");
        assert!(
            prepare(out, rotation, |_| false).unwrap_err().text().contains("another run writes"),
            "still locked"
        );
        let read = |name: &str| {
            let text = fs::read_to_string(out.join(name)).unwrap();
            csv::read_link_samples(&text).unwrap().iter().map(|row| row.t_s as u32).collect::<Vec<_>>()
        };
        // Whole tables, without a gap between them, up to the last row.
        let parts = ["samples_a_to_b.2.csv", "samples_a_to_b.1.csv", "samples_a_to_b.csv"].map(read);
        let all = parts.concat();
        assert!(all.windows(2).all(|pair| pair[0] + 1 == pair[1]) && all.last() == Some(&1999), "{all:?}");
        assert!(!out.join("samples_a_to_b.3.csv").exists());
        growing.finish(&mut Summary::default()).unwrap();
        assert!(out.join("samples_b_to_a.2.csv").exists() && out.join("summary.json").exists());
        // The next run takes what this one left for its own, also what it does not put aside any more.
        prepare(out, None, |_| false).unwrap();
        Growing::begin(out, None).unwrap().finish(&mut Summary::default()).unwrap();
        assert_eq!(names(out), ["events.csv", TABLES[0], TABLES[1], "summary.json"]);
        // One that was killed leaves nothing that the next one refuses.
        prepare(out, rotation, |_| false).unwrap();
        let mut killed = Growing::begin(out, rotation).unwrap();
        (0..100).for_each(|row| assert_eq!(killed.add(&rows(f64::from(row)), &[]), None));
        drop(killed);
        prepare(out, rotation, |_| false).unwrap();
    }

    fn times(folder: &Path) -> Vec<u32> {
        let text = fs::read_to_string(folder.join(TABLES[0])).unwrap();
        csv::read_link_samples(&text).unwrap().iter().map(|row| row.t_s as u32).collect()
    }

    fn earlier(out: &Path) -> Vec<PathBuf> {
        let all = fs::read_dir(out.join(EARLIER)).into_iter().flatten().flatten().map(|entry| entry.path());
        let mut all: Vec<PathBuf> = all.collect();
        all.sort();
        all
    }

    #[test]
    fn what_earlier_runs_left_is_put_aside_however_they_ended() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path();
        for (run, is_killed) in [(0, true), (1, false), (2, true)] {
            prepare(out, None, |_| false).unwrap();
            let mut growing = Growing::begin(out, None).unwrap();
            assert_eq!(growing.said().is_some(), run > 0);
            assert_eq!(earlier(out).len(), run as usize);
            growing.add(&rows(f64::from(run)), &[]);
            if !is_killed {
                growing.finish(&mut Summary::default()).unwrap();
            }
        }
        // A run without a row has nothing to put aside.
        drop(Growing::begin(out, None).unwrap());
        drop(Growing::begin(out, None).unwrap());
        // One whose tables were put aside with the last row has.
        let rotation = Some(Rotation { size: 1, kept: 1 });
        Growing::begin(out, rotation).unwrap().add(&rows(3.0), &[]);
        assert!(times(out).is_empty(), "put aside");
        drop(Growing::begin(out, rotation).unwrap());
        let last = earlier(out).pop().unwrap();
        assert!(names(&last).contains(&"samples_a_to_b.1.csv".to_string()), "{last:?}");
        FileSet::remove(&last).unwrap();
        let all = earlier(out);
        assert_eq!(all.iter().map(|folder| times(folder)).collect::<Vec<_>>(), [[0], [1], [2]]);
        assert_eq!(names(&all[0]), ["INCOMPLETE", "events.csv", TABLES[0], TABLES[1]]);
        assert_eq!(names(&all[1]), ["events.csv", TABLES[0], TABLES[1], "summary.json"]);
        assert!(FileSet::foreign(&all[1], &TABLES).is_empty(), "they are known as ours there");
        // The oldest go, but for what somebody else keeps there, whatever the clock says; and what has other
        // names, or is elsewhere, stays.
        fs::write(all[0].join("notes.txt"), "mine").unwrap();
        let (kept, elsewhere) = (out.join(EARLIER).join("0-good"), tempfile::tempdir().unwrap());
        fs::rename(&all[1], &kept).unwrap();
        fs::write(elsewhere.path().join("events.csv"), "mine").unwrap();
        fs::write(elsewhere.path().join(".weir-files"), "events.csv\n").unwrap();
        let link = out.join(EARLIER).join("0000-2026-11-26T15-15-17.600Z");
        std::os::unix::fs::symlink(elsewhere.path(), &link).unwrap();
        for run in 3..15 {
            Growing::begin(out, None).unwrap().add(&rows(f64::from(run)), &[]);
            let future =
                std::time::SystemTime::now() + Duration::from_secs(if run == 5 { 1 << 30 } else { 0 });
            fs::File::options().append(true).open(out.join(TABLES[0])).unwrap().set_modified(future).unwrap();
        }
        assert_eq!((names(&all[0]), names(&kept).len()), (vec!["notes.txt".to_string()], 4));
        assert!(elsewhere.path().join("events.csv").exists() && link.exists());
        let left = all_earlier(&out.join(EARLIER));
        assert_eq!(left.last().map(|(_, folder)| times(folder)), Some(vec![13]), "{left:?}");
        assert_eq!(left.len(), EARLIER_KEPT, "{left:?}");
    }

    #[test]
    fn files_that_others_put_there_meanwhile_are_not_put_aside_over() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path();
        let rotation = Some(Rotation { size: 1, kept: 2 });
        let mut growing = Growing::begin(out, rotation).unwrap();
        assert_eq!(growing.add(&rows(1.0), &[]), None);
        assert_eq!(growing.add(&rows(2.0), &[]), None);
        fs::remove_file(out.join("samples_a_to_b.2.csv")).unwrap();
        fs::write(out.join("samples_a_to_b.2.csv"), "mine").unwrap();
        let told = growing.add(&rows(3.0), &[]).unwrap();
        assert!(told.contains("samples_a_to_b.2.csv was replaced") && !told.contains("make room"), "{told}");
        assert_eq!(fs::read_to_string(out.join("samples_a_to_b.2.csv")).unwrap(), "mine");
    }

    #[test]
    fn a_table_stays_where_the_next_one_cannot_begin() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path();
        let mut growing = Growing::begin(out, Some(Rotation { size: 1, kept: 1 })).unwrap();
        fs::create_dir(out.join(format!(".{}.next", TABLES[0]))).unwrap();
        assert!(growing.add(&rows(1.0), &[]).is_some());
        assert_eq!(times(out), [1]);
        let mut summary = Summary::default();
        let told = growing.finish(&mut summary).unwrap_err();
        assert!(!told.text().contains("replaced"), "{told:?}");
        assert!(summary.warnings[0].contains("its tables end here"), "{summary:?}");
        assert!(out.join("summary.json").exists() && out.join("INCOMPLETE").exists());
    }

    #[test]
    fn a_folder_that_takes_nothing_is_refused_before_anything_is_touched() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path();
        fs::write(out.join(EARLIER), "mine").unwrap();
        assert!(prepare(out, None, |_| true).unwrap_err().text().contains("Remedy: move it away"));
        fs::remove_file(out.join(EARLIER)).unwrap();
        // A pipe of the name of a table, which was a table of ours, is not waited for.
        drop(Growing::begin(out, None).unwrap());
        fs::remove_file(out.join(TABLES[0])).unwrap();
        let pipe = std::ffi::CString::new(out.join(TABLES[0]).to_str().unwrap()).unwrap();
        // SAFETY: the name ends with a zero.
        assert_eq!(unsafe { libc::mkfifo(pipe.as_ptr(), 0o600) }, 0);
        prepare(out, None, |_| false).unwrap();
        // Who writes there is known, so that a run does not take over one and wait for another.
        let first = Growing::begin(out, None).unwrap();
        assert_eq!(writer(out), Some(std::process::id()));
        assert!(prepare(out, None, |pid| pid != Some(std::process::id())).is_err());
        drop(first);
        assert_eq!(writer(out), None);
    }

    #[test]
    fn a_run_that_takes_over_begins_its_tables_when_the_other_one_has_ended_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path();
        let mut first = Growing::begin(out, None).unwrap();
        first.add(&rows(1.0), &[]);
        prepare(out, None, |_| true).unwrap();
        let mut second = Growing::begin(out, None).unwrap();
        assert_eq!(second.add(&rows(2.0), &[]), None);
        assert_eq!(times(out), [1]);
        first.finish(&mut Summary::default()).unwrap();
        assert_eq!(second.add(&rows(3.0), &[]), None);
        assert!(second.said().unwrap().contains("earlier"));
        assert_eq!(times(out), [2, 3], "rows of the wait are there, too");
        assert_eq!(times(&earlier(out)[0]), [1]);
        // One whose end comes first has its rows, unless the other still writes.
        let mut third = Growing::begin(out, None).unwrap();
        third.add(&rows(4.0), &[]);
        assert!(third.finish(&mut Summary::default()).unwrap_err().text().contains("another run writes"));
        let mut third = Growing::begin(out, None).unwrap();
        third.add(&rows(4.0), &[]);
        drop(second);
        third.finish(&mut Summary::default()).unwrap();
        assert_eq!(times(out), [4]);
    }
}
