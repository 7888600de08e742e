//! What a reproduction leaves behind: a page, its charts, its result for programs, and the exit status.

use crate::interrupt::{is_interrupted, titled};
use crate::output::{Done, Failure, INTERRUPTED, Output};
use crate::results::file_set;
use clap::ValueEnum;
use serde::Serialize;
use serde_json::Value;
use std::path::Path;
use std::process::ExitCode;
use weir_report::chart::{Plot, plot};
use weir_report::html::{Beside, Grid, Rows};
use weir_report::{FileSet, csv, html, table};
use weir_scenario::result::Claim;

/// A chart and the name of its file.
pub struct Named {
    /// Without extension.
    pub file: String,
    /// The chart.
    pub plot: Plot,
}

/// What is said about the experiments of a paper.
pub struct Publication<'a> {
    /// Title of the page.
    pub title: &'a str,
    /// What a reader should know, one paragraph each.
    pub notes: &'a [String],
    /// The claims, judged.
    pub claims: &'a [Claim],
    /// The charts.
    pub figures: &'a [Named],
    /// Tables of results.
    pub tables: &'a [Rows],
    /// Numbers of the paper beside those measured.
    pub beside: &'a [Beside],
    /// The same for programs.
    pub result: &'a Value,
}

impl Publication<'_> {
    /// Writes the page, the charts and `result.json` beside what is in the set already; `grids` are tables whose cells
    /// are coloured. The result for programs comes last: a folder that has one has everything.
    pub fn publish(&self, grids: &[Grid], mut files: FileSet) -> Result<(), Failure> {
        for figure in self.figures {
            files.add(format!("{}.svg", figure.file), plot(&figure.plot))?;
        }
        let plots: Vec<Plot> = self.figures.iter().map(|f| f.plot.clone()).collect();
        let (title, notes) = (titled(self.title), with_note(self.notes));
        let page = html::Page {
            title: &title,
            claims: self.claims,
            notes: &notes,
            figures: &plots,
            tables: self.tables,
            beside: self.beside,
            grids,
            ..html::Page::default()
        };
        files.add("report.html", html::page(&page))?;
        files.add("result.json", serde_json::to_string_pretty(self.result)?)?;
        Ok(files.publish()?)
    }
}

/// What became of the experiments of a paper that is told by claims, charts and tables alone.
pub struct Outcome<R> {
    /// The runs, for programs.
    pub runs: Vec<R>,
    /// The claims, judged.
    pub claims: Vec<Claim>,
    /// The charts.
    pub figures: Vec<Named>,
    /// Tables of results; each is a file as well.
    pub tables: Vec<Rows>,
}

impl<R: Serialize> Outcome<R> {
    /// Writes and prints everything. `about` is a JSON object with what was run; claims and runs are added to it.
    pub fn deliver(
        mut self,
        title: &str,
        notes: &[String],
        mut about: Value,
        folder: &Path,
        output: &Output,
    ) -> Done {
        keep_measured(&mut self.claims, &mut Vec::new(), output);
        about["claims"] = serde_json::json!(self.claims);
        about["runs"] = serde_json::json!(self.runs);
        let result = ended(about, folder);
        let publication = Publication {
            title,
            notes,
            claims: &self.claims,
            figures: &self.figures,
            tables: &self.tables,
            beside: &[],
            result: &result,
        };
        let mut files = file_set(folder)?;
        for (number, table) in self.tables.iter().enumerate() {
            files.add(format!("table{}.csv", number + 1), csv::rows(table))?;
        }
        publication.publish(&[], files)?;
        output.result(&result, || text(&self.tables, &self.claims, folder, output));
        Ok(status(&self.claims))
    }
}

/// A result for programs with what each of them ends with: whether it is not whole, and where the files are.
pub fn ended(mut result: Value, folder: &Path) -> Value {
    result["interrupted"] = is_interrupted().into();
    result["out"] = folder.display().to_string().into();
    result
}

/// Rows of the comparison with a paper, for programs.
pub fn beside_json(rows: &[Beside]) -> Value {
    let row = |b: &Beside| {
        serde_json::json!({
            "figure": b.figure, "quantity": b.quantity, "paper": b.paper, "ours": b.ours, "condition": b.condition,
        })
    };
    rows.iter().map(row).collect()
}

/// What an option's value is called on the command line.
pub fn value_name(value: &impl ValueEnum) -> String {
    value.to_possible_value().map_or(String::new(), |v| v.get_name().to_string())
}

/// What is printed of results: their tables, the claims, and where the page is.
pub fn text(tables: &[Rows], claims: &[Claim], folder: &Path, output: &Output) -> String {
    let claims = table::claims(claims, output.paint());
    format!("{}{claims}\nReport: {}", table::titled(tables), folder.join("report.html").display())
}

/// What stands first on the page of an interrupted reproduction.
const CUT_SHORT: &str = "Interrupted: not all runs were made. Claims without any runs are left out, and what is said to be \
    the mean of several runs may be one of fewer.";

/// What a reader should know, and first of all if the results are not whole.
pub fn with_note(notes: &[String]) -> Vec<String> {
    let cut_short = is_interrupted().then(|| CUT_SHORT.to_string());
    cut_short.into_iter().chain(notes.iter().cloned()).collect()
}

/// How the mean of no runs is shown.
const MISSING: &str = "NaN";

/// Leaves out what compares runs that an interruption kept from being made, and says so.
pub fn keep_measured(claims: &mut Vec<Claim>, beside: &mut Vec<Beside>, output: &Output) {
    if is_interrupted() {
        claims.retain(is_measured);
        beside.retain(|b| !b.ours.contains(MISSING));
        output.say("interrupted: claims whose runs were not made are left out");
    }
}

/// Whether there were runs for everything that the claim compares.
fn is_measured(claim: &Claim) -> bool {
    !claim.measured.contains(MISSING) && !claim.expected.contains(MISSING)
}

/// The exit status: a missed claim is no success.
pub fn status(claims: &[Claim]) -> ExitCode {
    match claims.iter().all(|c| c.held) {
        _ if is_interrupted() => ExitCode::from(INTERRUPTED),
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
