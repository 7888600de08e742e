//! What a reproduction leaves behind: a page, its charts, its result for programs, and the exit status.

use crate::interrupt::is_interrupted;
use crate::output::{Failure, INTERRUPTED};
use crate::results::make_folder;
use std::path::Path;
use std::process::ExitCode;
use weir_report::chart::{Plot, plot};
use weir_report::html::{Beside, Rows};
use weir_report::{html, write_atomic};
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
    pub result: &'a serde_json::Value,
}

impl Publication<'_> {
    /// Writes `result.json`, `report.html` and the charts.
    pub fn write(&self, folder: &Path) -> Result<(), Failure> {
        make_folder(folder)?;
        write_atomic(folder.join("result.json"), serde_json::to_string_pretty(self.result)?)?;
        for figure in self.figures {
            write_atomic(folder.join(format!("{}.svg", figure.file)), plot(&figure.plot))?;
        }
        let plots: Vec<Plot> = self.figures.iter().map(|f| f.plot.clone()).collect();
        let page = html::Page {
            title: self.title,
            claims: self.claims,
            notes: self.notes,
            figures: &plots,
            tables: self.tables,
            beside: self.beside,
            ..html::Page::default()
        };
        write_atomic(folder.join("report.html"), html::page(&page))?;
        Ok(())
    }
}

/// Rows of the comparison with a paper, for programs.
pub fn beside_json(rows: &[Beside]) -> serde_json::Value {
    let row = |b: &Beside| {
        serde_json::json!({
            "figure": b.figure, "quantity": b.quantity, "paper": b.paper, "ours": b.ours, "condition": b.condition,
        })
    };
    rows.iter().map(row).collect()
}

/// The exit status: a missed claim is no success.
pub fn status(claims: &[Claim]) -> ExitCode {
    match claims.iter().all(|c| c.held) {
        _ if is_interrupted() => ExitCode::from(INTERRUPTED),
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
