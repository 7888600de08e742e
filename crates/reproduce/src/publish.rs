//! What a reproduction leaves behind: a page, its charts and tables, and its result for programs and for
//! people.

use crate::figure::Figure;
use crate::host::{Error, Host, Made, Report};
use crate::journal::{Origins, RUNS};
use crate::said::{Unjudged, open, totals};
use serde_json::{Value, json};
use std::path::Path;
use weir_measure::result::Claim;
use weir_report::chart::{Plot, plot};
use weir_report::html::{Beside, Grid, GridCell, Page, Rows, page};
use weir_report::{FileSet, csv, table};

/// What came of the experiments of a paper.
#[derive(Default)]
pub struct Outcome {
    /// Title of the page.
    pub title: String,
    /// What a reader should know, one paragraph each.
    pub notes: Vec<String>,
    /// What was run, for programs: an object.
    pub about: Value,
    /// The runs, for programs.
    pub runs: Value,
    /// When and with what they were made, where the folder of results has them.
    pub origins: Origins,
    /// What programs are told besides: an object, or nothing.
    pub more: Value,
    /// The claims, judged; none where no claim was to be judged.
    pub claims: Option<Vec<Claim>>,
    /// Claims of the paper that no run can judge.
    pub unjudged: &'static [Unjudged],
    /// Numbers of the paper beside those measured; none where the paper has no numbers.
    pub beside: Option<Vec<Beside>>,
    /// The charts.
    pub figures: Vec<Figure>,
    /// Tables of results.
    pub tables: Vec<Rows>,
    /// Tables whose cells are coloured.
    pub grids: Vec<Grid>,
    /// What people read before the claims; the tables, if it is empty.
    pub text: String,
    /// What people read last, instead of where the page is.
    pub last: Option<String>,
}

impl Outcome {
    /// Leaves out what compares runs that an interruption kept from being made, and says so. Of claims about
    /// several points, some of which have runs, nothing follows.
    pub fn keep_measured(&mut self, host: &dyn Host) {
        let Some(claims) = self.claims.as_mut().filter(|_| host.is_interrupted()) else { return };
        claims.retain(is_measured);
        self.beside.iter_mut().for_each(|rows| rows.retain(|row| !row.ours.contains(MISSING)));
        if self.origins.lacks_cases {
            claims.iter_mut().for_each(|claim| open(claim, LACKING));
            host.say(&"interrupted: claims are judged once each point has a run; --resume goes on");
        } else {
            host.say(&"interrupted: claims whose runs were not made are left out; --resume goes on");
        }
    }

    /// Says of which runs not the program of today is the origin, and from which too much time was taken
    /// away.
    pub fn tell_origins(&mut self, host: &dyn Host) {
        for (made, count) in self.origins.made.iter().filter(|(made, _)| *made != host.made()) {
            let Made { date, commit, machine, .. } = made;
            let runs = if *count == 1 { "One run was".to_string() } else { format!("{count} runs were") };
            self.notes.push(format!("{runs} made on {date} with commit {commit} on {machine}."));
        }
        self.notes.append(&mut self.origins.disturbed);
        self.notes.append(&mut self.origins.warned);
    }

    /// Writes the page, the charts and `result.json` beside what is in the set already. The result for
    /// programs comes last: a folder that has one has everything.
    pub fn deliver(mut self, folder: &Path, mut files: FileSet, host: &dyn Host) -> Result<Report, Error> {
        self.keep_measured(host);
        self.tell_origins(host);
        for figure in &self.figures {
            files.add(format!("{}.svg", figure.file), plot(&figure.plot))?;
        }
        let plots: Vec<Plot> = self.figures.iter().map(|f| f.plot.clone()).collect();
        let written = page(&Page {
            title: &titled(&self.title, host),
            claims: self.claims.as_deref().unwrap_or_default(),
            notes: &with_note(&self.notes, host),
            figures: &plots,
            tables: &self.tables,
            beside: self.beside.as_deref().unwrap_or_default(),
            grids: &self.grids,
            ..Page::default()
        });
        files.add("report.html", written)?;
        let last = match &self.last {
            Some(line) => line.clone(),
            None => format!("Report: {}", folder.join("report.html").display()),
        };
        self.finish(folder, files, &last, host)
    }

    /// The same, with each table as a file.
    pub fn deliver_with_tables(self, folder: &Path, host: &dyn Host) -> Result<Report, Error> {
        let mut files = host.files(folder)?;
        for (number, table) in self.tables.iter().enumerate() {
            files.add(format!("table{}.csv", number + 1), csv::rows(table))?;
        }
        self.deliver(folder, files, host)
    }

    /// Writes `result.json`, puts all files in their place, and returns what is printed: `last` is its last
    /// line.
    pub fn finish(
        self,
        folder: &Path,
        mut files: FileSet,
        last: &str,
        host: &dyn Host,
    ) -> Result<Report, Error> {
        if !self.origins.made.is_empty() {
            files.keep(RUNS);
        }
        let json = self.json(folder, host);
        files.add("result.json", serde_json::to_string_pretty(&json).expect("results are plain data"))?;
        files.publish()?;
        let text = if self.text.is_empty() { table::titled(&self.tables) } else { self.text };
        let claims = self.claims.as_ref().map_or(String::new(), |claims| table::claims(claims, host.paint()));
        let text = format!("{text}{claims}\n{last}");
        Ok(Report { json, text, claims: self.claims.unwrap_or_default() })
    }

    /// The result for programs, with whether it is not whole, and where the files are.
    fn json(&self, folder: &Path, host: &dyn Host) -> Value {
        let mut result = self.about.clone();
        if let Some(claims) = &self.claims {
            let arm = self.about["arm"].as_str().unwrap_or_default();
            result["totals"] = totals(claims, self.unjudged, arm);
            result["claims"] = json!(claims);
        }
        if let Some(rows) = &self.beside {
            result["beside"] = rows.iter().map(beside_json).collect();
        }
        let table = |t: &Rows| json!({ "title": t.title, "header": t.header, "rows": t.rows });
        let grid = |g: &Grid| {
            let rows = g.rows.iter().map(|row| row.iter().map(GridCell::text).collect());
            json!({ "title": g.title, "header": g.header, "rows": rows.collect::<Vec<Vec<&str>>>() })
        };
        result["tables"] = self.tables.iter().map(table).chain(self.grids.iter().map(grid)).collect();
        result["notes"] = json!(self.notes);
        result["title"] = self.title.clone().into();
        result["made"] = json!(host.made());
        result["runs"] = self.runs.clone();
        if !self.origins.made.is_empty() {
            let of = |(made, runs): &(Made, usize)| json!({ "runs": runs, "made": made });
            result["measured"] = self.origins.made.iter().map(of).collect();
        }
        result["interrupted"] = host.is_interrupted().into();
        result["out"] = folder.display().to_string().into();
        for (key, value) in self.more.as_object().into_iter().flatten() {
            result[key] = value.clone();
        }
        result
    }
}

fn beside_json(row: &Beside) -> Value {
    json!({
        "figure": row.figure, "quantity": row.quantity, "paper": row.paper, "ours": row.ours,
        "condition": row.condition,
    })
}

/// The title of results, which says if they are not whole.
pub fn titled(title: &str, host: &dyn Host) -> String {
    if host.is_interrupted() { format!("{title} (interrupted)") } else { title.to_string() }
}

/// What stands first on the page of an interrupted reproduction.
const CUT_SHORT: &str = "Interrupted: not all runs were made. Claims without any runs are left out, none is judged before \
    each point has a run, and what is said to be the mean of several runs may be one of fewer.";

/// What a reader should know, and first of all if the results are not whole.
pub fn with_note(notes: &[String], host: &dyn Host) -> Vec<String> {
    let cut_short = host.is_interrupted().then(|| CUT_SHORT.to_string());
    cut_short.into_iter().chain(notes.iter().cloned()).collect()
}

/// Why a claim is not judged.
const LACKING: &str = "some points have no run yet";

/// How the mean of no runs is shown.
const MISSING: &str = "NaN";

/// Whether there were runs for everything that the claim compares.
fn is_measured(claim: &Claim) -> bool {
    let is_number = |text: &str| !text.is_empty() && !text.contains(MISSING);
    is_number(&claim.measured) && is_number(&claim.expected)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::tests::Quiet;

    #[test]
    fn nothing_follows_from_a_part_of_the_points() {
        let claim = |measured: &str, held| Claim {
            id: "A1".into(),
            measured: measured.into(),
            expected: "at least 99 %".into(),
            held,
            ..Claim::default()
        };
        let told = |is_interrupted, lacks_cases| {
            let claims = Some(vec![claim("99.5 % (2)", true), claim("NaN % (2)", false), claim("", false)]);
            let origins = Origins { lacks_cases, ..Origins::default() };
            let mut outcome = Outcome { claims, origins, ..Outcome::default() };
            outcome.keep_measured(&Quiet { is_interrupted, ..Quiet::default() });
            outcome.claims.unwrap_or_default().iter().map(|c| (c.held, c.undecided)).collect::<Vec<_>>()
        };
        assert_eq!(told(false, false), [(true, false), (false, false), (false, false)]);
        assert_eq!(told(true, false), [(true, false)], "of each point there is a run");
        assert_eq!(told(true, true), [(false, true)]);
    }
}
