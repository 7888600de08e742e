//! The folder of a sweep: a file for each finished run, and what the folder belongs to.

use super::fingerprint::Fingerprint;
use super::rows::Row;
use crate::output::Failure;
use crate::results::{make_folder, prepare};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use weir_report::{FileSet, remove_leftovers, write_atomic};

/// The folder with the results of a sweep.
pub struct Store {
    out: PathBuf,
}

/// What a folder belongs to.
#[derive(Serialize, Deserialize)]
struct Owner {
    version: String,
    /// Fingerprint of what computes; versions before had none.
    #[serde(default)]
    models: String,
    fingerprint: String,
    points: usize,
}

/// The file of a run: the row, whose it is, and a checksum of it.
#[derive(Serialize, Deserialize)]
struct Kept {
    fingerprint: String,
    checksum: String,
    row: Row,
}

/// What became of the file of a run.
pub enum Found {
    /// It is whole.
    Whole(Row),
    /// There is none.
    Absent,
    /// It is not what was written; the run has to be made again.
    Damaged(PathBuf),
}

impl Store {
    /// Opens the folder for a sweep with these points, and makes it where there is none. `scenario` is the sweep in
    /// canonical form.
    pub fn open(out: &Path, points: &[Fingerprint], scenario: &str) -> Result<Store, Failure> {
        let all = points.iter().fold(Fingerprint::of("sweep"), |hash, point| hash.and(&point.to_string()));
        let owner = Owner {
            version: env!("CARGO_PKG_VERSION").into(),
            models: Fingerprint::of_models().to_string(),
            fingerprint: all.to_string(),
            points: points.len(),
        };
        make_folder(&out.join("points"))?;
        remove_leftovers(out);
        let path = out.join("sweep.json");
        match fs::read(&path) {
            Ok(bytes) => check_owner(&bytes, &owner, out, scenario)?,
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => return Err(format!("cannot read {}: {e}", path.display()).into()),
        }
        prepare(&out.join("points"))?;
        write_atomic(out.join("sweep.toml"), scenario)?;
        write_atomic(&path, serde_json::to_string_pretty(&owner).expect("plain data"))?;
        Ok(Store { out: out.to_path_buf() })
    }

    fn path(&self, point: usize, seed: u64) -> PathBuf {
        self.out.join("points").join(format!("{point:06}-{seed}.json"))
    }

    /// Looks for the run of a point (from 1) with a seed.
    pub fn find(&self, point: usize, seed: u64, fingerprint: Fingerprint) -> Result<Found, Failure> {
        let path = self.path(point, seed);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Found::Absent),
            Err(e) => return Err(format!("cannot read {}: {e}", path.display()).into()),
        };
        let Ok(kept) = serde_json::from_slice::<Kept>(&bytes) else { return Ok(Found::Damaged(path)) };
        if kept.checksum != checksum(&kept.row) || (kept.row.point, kept.row.seed) != (point, seed) {
            return Ok(Found::Damaged(path));
        }
        if kept.fingerprint != fingerprint.to_string() {
            let problem = "belongs to another sweep or version of Weir";
            let remedy = "remove it, or choose another folder with --out";
            return Err(Failure::Input(format!("{} {problem}; {remedy}", path.display())));
        }
        Ok(Found::Whole(kept.row))
    }

    /// Keeps what a run measured: whole or not at all.
    pub fn keep(&self, row: &Row, fingerprint: Fingerprint) -> Result<(), Failure> {
        let kept = Kept { fingerprint: fingerprint.to_string(), checksum: checksum(row), row: row.clone() };
        let text = serde_json::to_string(&kept).expect("plain data");
        Ok(write_atomic(self.path(row.point, row.seed), text)?)
    }

    /// The tables, which appear together.
    pub fn tables(&self) -> FileSet {
        FileSet::new(&self.out)
    }
}

fn checksum(row: &Row) -> String {
    Fingerprint::of(&serde_json::to_string(row).expect("plain data")).to_string()
}

/// Refuses a folder that belongs to another sweep. A damaged note of it is written again: every run is checked.
fn check_owner(bytes: &[u8], owner: &Owner, out: &Path, scenario: &str) -> Result<(), Failure> {
    let Ok(was) = serde_json::from_slice::<Owner>(bytes) else { return Ok(()) };
    if was.fingerprint == owner.fingerprint {
        return Ok(());
    }
    let folder = out.display();
    let remedy = format!("choose another folder with --out, or remove {folder}");
    let why = if was.version != owner.version {
        format!("was made by version {} of Weir, and this is {}", was.version, owner.version)
    } else if was.models != owner.models {
        "was made by another build of Weir, whose models behave differently".to_string()
    } else {
        let before = fs::read_to_string(out.join("sweep.toml")).unwrap_or_default();
        match difference(&before, scenario) {
            Some((before, now)) => {
                format!("has results of another scenario: it has `{before}` where this one has `{now}`")
            }
            None => "has results of another scenario".to_string(),
        }
    };
    Err(Failure::Input(format!("{folder} {why}; {remedy}")))
}

/// The first line in which two scenarios differ; the number of seeds is none of a point.
fn difference<'a>(before: &'a str, now: &'a str) -> Option<(&'a str, &'a str)> {
    let lines = |text: &'a str| text.lines().filter(|line| !line.starts_with("seeds ="));
    let (mut before, mut now) = (lines(before), lines(now));
    loop {
        match (before.next(), now.next()) {
            (None, None) => return None,
            (a, b) if a == b => {}
            (a, b) => return Some((a.unwrap_or("nothing").trim(), b.unwrap_or("nothing").trim())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measured::Value;

    fn row() -> Row {
        let measured = vec![("x".to_string(), Value::Number(0.1 + 0.2)), ("n".to_string(), Value::Count(3))];
        Row { point: 2, seed: 1, trace_hash: "00ff".into(), measured }
    }

    #[test]
    fn what_was_kept_is_found_and_damage_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let (mine, other) = (Fingerprint::of("mine"), Fingerprint::of("other"));
        let store = Store::open(folder.path(), &[mine], "a = 1\n").unwrap();
        assert!(matches!(store.find(2, 1, mine), Ok(Found::Absent)));
        store.keep(&row(), mine).unwrap();
        assert!(matches!(store.find(2, 1, mine), Ok(Found::Whole(found)) if found == row()));
        assert!(matches!(store.find(2, 1, other), Err(Failure::Input(_))));
        let path = folder.path().join("points/000002-1.json");
        let whole = fs::read_to_string(&path).unwrap();
        let damaged = [whole[..whole.len() - 9].to_string(), whole.replace("00ff", "00fe"), String::new()];
        for text in damaged {
            fs::write(&path, text).unwrap();
            assert!(matches!(store.find(2, 1, mine), Ok(Found::Damaged(_))));
        }
        // A whole file under the name of another run.
        fs::write(folder.path().join("points/000003-1.json"), whole).unwrap();
        assert!(matches!(store.find(3, 1, mine), Ok(Found::Damaged(_))));
    }

    #[test]
    fn another_scenario_is_refused_with_the_line_that_differs() {
        let folder = tempfile::tempdir().unwrap();
        let (mine, other) = (Fingerprint::of("mine"), Fingerprint::of("other"));
        Store::open(folder.path(), &[mine], "a = 1\nb = 2\n").unwrap();
        Store::open(folder.path(), &[mine], "a = 1\nb = 2\n").unwrap();
        let Err(Failure::Input(told)) = Store::open(folder.path(), &[other], "a = 1\nb = 3\n") else {
            panic!("it was taken")
        };
        assert!(told.contains("it has `b = 2` where this one has `b = 3`; choose another folder"), "{told}");
    }
}
