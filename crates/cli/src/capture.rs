//! What `[record]` asks for, as files: `decisions.csv`, and a capture for each link.

use crate::output::Failure;
use serde::Serialize;
use std::fmt::{self, Write as _};
use std::io;
use weir_config::{Record, Scenario};
use weir_report::columns::{Cells, Table};
use weir_report::{FileSet, SetFile};
use weir_sim::tap::{LinkContext, Tap, TappedPacket};
use weir_sim::{DecisionRow, Recorder};
use weir_units::{Bytes, Duration, Time};

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

/// Writes down decisions, and the packets of each link.
pub struct Records {
    links: Vec<String>,
    decisions: Option<Recorder<SetFile>>,
    captures: Vec<Option<Recorder<SetFile>>>,
    size_max: Bytes,
    /// Whether decisions are those about packets that were forwarded, too.
    forwarded: bool,
}

/// What was written down.
#[derive(Default)]
pub struct Written {
    /// Names of the files.
    pub names: Vec<String>,
    /// Those that end too early, and when.
    pub truncated: Vec<Truncated>,
}

/// A file that does not have everything it was to have.
#[derive(Clone, Debug, Serialize)]
pub struct Truncated {
    /// Its name.
    pub file: String,
    /// When it ends, in seconds after the start of the run.
    pub at_s: f64,
    /// The limit that it reached, in bytes.
    pub size_max: u64,
}

impl fmt::Display for Truncated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Truncated { file, at_s, size_max } = self;
        let size = Bytes::new(*size_max);
        write!(
            f,
            "{file} ends after {at_s} s of the run, where it reached {size}: record a shorter time or fewer links, or \
             raise record.size_max"
        )
    }
}

impl Records {
    /// For a run whose results go into `files`.
    pub fn new(scenario: &Scenario, record: &Record, files: &FileSet) -> Result<Records, Failure> {
        let links: Vec<String> = scenario.network().links.into_iter().map(|l| l.name).collect();
        let decisions =
            (record.decisions || record.forwarded).then(|| Recorder::new(scenario, record, None)).transpose();
        let capture = |link: &String| -> Result<Option<Recorder<SetFile>>, Failure> {
            if !record.pcapng || !(record.links.is_empty() || record.links.contains(link)) {
                return Ok(None);
            }
            let only =
                Record { decisions: false, forwarded: false, links: vec![link.clone()], ..record.clone() };
            let out = files.open(capture_name(link))?;
            let made = Recorder::new(scenario, &only, Some(out));
            Ok(Some(made.map_err(|e| cannot_write(files, &capture_name(link), &e))?))
        };
        let captures = links.iter().map(capture).collect::<Result<Vec<_>, _>>()?;
        Ok(Records {
            links,
            decisions: decisions?,
            captures,
            size_max: record.size_max,
            forwarded: record.forwarded,
        })
    }

    /// Finishes the files and puts them into the set.
    pub fn finish(self, files: &mut FileSet) -> Result<Written, Failure> {
        let mut written = Written::default();
        let mut note = |file: String, full_at: Option<Time>| {
            let cut = |at: Time| Truncated {
                file: file.clone(),
                at_s: at.as_secs_f64(),
                size_max: self.size_max.get(),
            };
            written.truncated.extend(full_at.map(cut));
            written.names.push(file);
        };
        if let Some(recorder) = self.decisions {
            let full_at = recorder.full_at();
            let (rows, _) = recorder.finish()?;
            let name = if self.forwarded { "decisions.parquet" } else { "decisions.csv" };
            if self.forwarded {
                let table = decisions_table(&rows, &self.links);
                let bytes = table.to_parquet().map_err(|e| format!("cannot make {name}: {e}"))?;
                files.add(name, bytes)?;
            } else {
                files.add(name, decisions_csv(&rows, &self.links))?;
            }
            note(name.into(), full_at);
        }
        for (link, recorder) in self.links.iter().zip(self.captures) {
            let Some(recorder) = recorder else { continue };
            let (name, full_at) = (capture_name(link), recorder.full_at());
            let (_, out) = recorder.finish().map_err(|e| cannot_write(files, &name, &e))?;
            files.close(out.expect("it was given a file"))?;
            note(name, full_at);
        }
        Ok(written)
    }

    fn each(&mut self, link: usize, mut act: impl FnMut(&mut Recorder<SetFile>)) {
        self.decisions.iter_mut().for_each(&mut act);
        self.captures[link].iter_mut().for_each(act);
    }
}

impl Tap for Records {
    fn on_drop(&mut self, at: &LinkContext<'_>, seen: TappedPacket<'_>, cause: weir_aqm::Cause) {
        self.each(at.link, |recorder| recorder.on_drop(at, seen, cause));
    }
    fn on_mark(&mut self, at: &LinkContext<'_>, seen: TappedPacket<'_>) {
        self.each(at.link, |recorder| recorder.on_mark(at, seen));
    }
    fn on_depart(&mut self, at: &LinkContext<'_>, seen: TappedPacket<'_>, sojourn: Duration, marked: bool) {
        self.each(at.link, |recorder| recorder.on_depart(at, seen, sojourn, marked));
    }
}

fn capture_name(link: &str) -> String {
    format!("{link}.pcapng")
}

fn cannot_write(files: &FileSet, name: &str, e: &io::Error) -> Failure {
    format!("cannot write {}: {e}", files.folder().join(name).display()).into()
}

/// Names of all inner variables, in the order in which they first appear.
fn gauge_names(rows: &[DecisionRow]) -> Vec<&'static str> {
    let mut gauges: Vec<&'static str> = Vec::new();
    let mut last: Vec<&'static str> = Vec::new();
    for row in rows {
        // Nearly all rows are alike.
        if row.gauges.iter().map(|(name, _)| name).ne(&last) {
            last = row.gauges.iter().map(|(name, _)| *name).collect();
            for name in &last {
                if !gauges.contains(name) {
                    gauges.push(*name);
                }
            }
        }
    }
    gauges
}

/// Decisions as a table with the columns of [`decisions_csv`].
fn decisions_table(rows: &[DecisionRow], links: &[String]) -> Table {
    let mut table = Table::default();
    let number =
        |of: &dyn Fn(&DecisionRow) -> f64| Cells::Number(rows.iter().map(|row| Some(of(row))).collect());
    let count =
        |of: &dyn Fn(&DecisionRow) -> u64| Cells::Count(rows.iter().map(|row| Some(of(row))).collect());
    table.push("t_s", number(&|row| row.t_s));
    table.push("link", Cells::Text(rows.iter().map(|row| links[row.link as usize].clone()).collect()));
    table.push("flow", count(&|row| row.flow.into()));
    table.push("seq", count(&|row| row.seq));
    table.push("verdict", Cells::Text(rows.iter().map(|row| row.verdict.name().into()).collect()));
    table.push("waited_ms", number(&|row| row.waited_ms));
    table.push("backlog_bytes", count(&|row| row.backlog_bytes));
    for name in gauge_names(rows) {
        let value = |row: &DecisionRow| {
            row.gauges.iter().find(|(n, _)| *n == name).map(|(_, value)| *value).filter(|v| v.is_finite())
        };
        table.push(name, Cells::Number(rows.iter().map(value).collect()));
    }
    table
}

/// Decisions as CSV. Inner variables have columns of their own, in the order in which they first appear;
/// algorithms differ in them, so that cells may be empty. Nothing in it needs quotes.
fn decisions_csv(rows: &[DecisionRow], links: &[String]) -> String {
    let gauges = gauge_names(rows);
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
    use weir_sim::PacketOutcome;

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
            verdict: PacketOutcome::Marked,
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
