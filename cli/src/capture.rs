//! What `[record]` asks for, as files: `decisions.csv`, and a capture for each link.

use crate::output::Failure;
use crate::results::make_folder;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use weir_report::write_atomic;
use weir_scenario::{Record, Scenario};
use weir_sim::tap::{Place, Seen, Tap};
use weir_sim::{DecisionRow, Recorder};
use weir_units::Duration;

/// Reads a period such as `10s..12s`; either end may be left out.
pub fn period(text: &str) -> Result<(Duration, Option<Duration>), String> {
    let remedy = "write it like 10s..12s, 10s.. or ..12s";
    let (from, to) = text.split_once("..").ok_or_else(|| format!("`{text}` is no period; {remedy}"))?;
    let read = |part: &str| weir_units::parse_duration(part.trim()).map_err(|e| format!("{e}; {remedy}"));
    let from = if from.trim().is_empty() { Duration::ZERO } else { read(from)? };
    let to = if to.trim().is_empty() { None } else { Some(read(to)?) };
    match to {
        Some(to) if to <= from => Err(format!("`{text}` ends before it starts; {remedy}")),
        _ => Ok((from, to)),
    }
}

/// A file under another name until it is whole.
struct Unfinished {
    out: BufWriter<File>,
    temporary: PathBuf,
    path: PathBuf,
}

impl Unfinished {
    fn create(path: PathBuf) -> io::Result<Unfinished> {
        let temporary = path.with_extension(format!("{}.tmp", std::process::id()));
        let out = BufWriter::new(File::create(&temporary)?);
        Ok(Unfinished { out, temporary, path })
    }

    fn finish(mut self) -> io::Result<()> {
        self.out.flush()?;
        self.out.get_ref().sync_all()?;
        std::fs::rename(&self.temporary, &self.path)
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // After `finish` nothing has this name any more.
        let _ = std::fs::remove_file(&self.temporary);
    }
}

impl Write for Unfinished {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Writes down decisions, and the packets of each link.
pub struct Records {
    folder: PathBuf,
    links: Vec<String>,
    decisions: Option<Recorder<Unfinished>>,
    captures: Vec<Option<Recorder<Unfinished>>>,
}

impl Records {
    /// For a run whose results go to `folder`.
    pub fn new(scenario: &Scenario, record: &Record, folder: &Path) -> Result<Records, Failure> {
        make_folder(folder)?;
        let links: Vec<String> = scenario.network().links.into_iter().map(|l| l.name).collect();
        let told = |path: &Path| path.display().to_string();
        let decisions = record.decisions.then(|| Recorder::new(scenario, record, None)).transpose();
        let capture = |link: &String| -> Result<Option<Recorder<Unfinished>>, Failure> {
            if !record.pcapng || !(record.links.is_empty() || record.links.contains(link)) {
                return Ok(None);
            }
            let path = folder.join(format!("{link}.pcapng"));
            let only = Record { decisions: false, links: vec![link.clone()], ..record.clone() };
            let made = Unfinished::create(path.clone());
            let made = made.and_then(|out| Recorder::new(scenario, &only, Some(out)));
            Ok(Some(made.map_err(|e| format!("cannot write {}: {e}", told(&path)))?))
        };
        let captures = links.iter().map(capture).collect::<Result<Vec<_>, _>>()?;
        Ok(Records { folder: folder.to_path_buf(), links, decisions: decisions?, captures })
    }

    /// Finishes the files; returns their names.
    pub fn finish(self) -> Result<Vec<String>, Failure> {
        let mut names = Vec::new();
        if let Some(recorder) = self.decisions {
            let (rows, _) = recorder.finish()?;
            write_atomic(self.folder.join("decisions.csv"), decisions_csv(&rows, &self.links))?;
            names.push("decisions.csv".to_string());
        }
        for (link, recorder) in self.links.iter().zip(self.captures) {
            let Some(recorder) = recorder else { continue };
            let name = format!("{link}.pcapng");
            let finish = || recorder.finish()?.1.expect("it was given a file").finish();
            finish().map_err(|e| format!("cannot write {}: {e}", self.folder.join(&name).display()))?;
            names.push(name);
        }
        Ok(names)
    }

    fn each(&mut self, link: usize, mut act: impl FnMut(&mut Recorder<Unfinished>)) {
        self.decisions.iter_mut().for_each(&mut act);
        self.captures[link].iter_mut().for_each(act);
    }
}

impl Tap for Records {
    fn on_drop(&mut self, at: &Place<'_>, seen: Seen<'_>, cause: weir_aqm::Cause) {
        self.each(at.link, |recorder| recorder.on_drop(at, seen, cause));
    }
    fn on_mark(&mut self, at: &Place<'_>, seen: Seen<'_>) {
        self.each(at.link, |recorder| recorder.on_mark(at, seen));
    }
    fn on_depart(&mut self, at: &Place<'_>, seen: Seen<'_>, sojourn: Duration, marked: bool) {
        self.each(at.link, |recorder| recorder.on_depart(at, seen, sojourn, marked));
    }
}

/// Decisions as CSV. Inner variables have columns of their own, in the order in which they first appear; algorithms
/// differ in them, so that cells may be empty. Nothing in it needs quotes.
fn decisions_csv(rows: &[DecisionRow], links: &[String]) -> String {
    let mut gauges: Vec<&str> = Vec::new();
    for (name, _) in rows.iter().flat_map(|row| &row.gauges) {
        if !gauges.contains(name) {
            gauges.push(name);
        }
    }
    let mut out = String::from("t_s,link,flow,seq,verdict,waited_ms,backlog_bytes");
    gauges.iter().for_each(|name| out.extend([",", name]));
    out.push('\n');
    for row in rows {
        let link = &links[row.link as usize];
        let DecisionRow { t_s, flow, seq, waited_ms, backlog_bytes, .. } = row;
        let verdict = row.verdict.name();
        let _ = write!(out, "{t_s},{link},{flow},{seq},{verdict},{waited_ms},{backlog_bytes}");
        for name in &gauges {
            let value = row.gauges.iter().find(|(n, _)| n == name).filter(|(_, v)| v.is_finite());
            out.push(',');
            if let Some((_, value)) = value {
                let _ = write!(out, "{value}");
            }
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_sim::Verdict;

    #[test]
    fn periods_are_read_and_wrong_ones_named() {
        let s = Duration::from_secs;
        assert_eq!(period("10s..12s"), Ok((s(10), Some(s(12)))));
        assert_eq!(period("10s.."), Ok((s(10), None)));
        assert_eq!(period("..2s"), Ok((Duration::ZERO, Some(s(2)))));
        for wrong in ["10s", "12s..10s", "1..2s", "x..", "2s..2s"] {
            assert!(period(wrong).unwrap_err().contains("write it like 10s..12s"), "{wrong}");
        }
    }

    #[test]
    fn inner_variables_have_columns() {
        let row = |link, gauges| DecisionRow {
            t_s: 0.5,
            link,
            flow: 3,
            seq: 9,
            verdict: Verdict::Marked,
            waited_ms: 1.25,
            backlog_bytes: 7,
            gauges,
        };
        let rows = [row(0, vec![("count", 2.0), ("next_s", f64::NAN)]), row(1, vec![("p", 0.25)])];
        let text = decisions_csv(&rows, &["a".to_string(), "b".to_string()]);
        assert_eq!(
            text,
            "t_s,link,flow,seq,verdict,waited_ms,backlog_bytes,count,next_s,p\n\
             0.5,a,3,9,marked,1.25,7,2,,\n0.5,b,3,9,marked,1.25,7,,,0.25\n"
        );
    }
}
