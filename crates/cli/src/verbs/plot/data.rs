//! Results as they lie in folders.

use crate::output::Failure;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use weir_config::nearest;
use weir_measure::result::LinkSample;
use weir_report::csv;

/// A table of text cells.
pub struct Cells {
    /// Its file, for messages.
    pub file: PathBuf,
    /// Names of the columns.
    pub header: Vec<String>,
    /// The rows, each as long as the header.
    pub rows: Vec<Vec<String>>,
    /// A column that is an axis where somebody names it.
    pub named_axis: Option<&'static str>,
}

impl Cells {
    /// Reads a table.
    pub fn read(file: PathBuf) -> Result<Cells, Failure> {
        let text =
            std::fs::read_to_string(&file).map_err(|e| format!("cannot read {}: {e}", file.display()))?;
        let records = csv::records(&text).map_err(|e| Failure::Input(format!("{}: {e}", file.display())))?;
        let mut records = records.into_iter();
        let header = records.next().map(|(_, fields)| fields).unwrap_or_default();
        let mut rows = Vec::new();
        for (line, fields) in records {
            if fields.len() != header.len() {
                let told = format!("has {} cells where the header has {}", fields.len(), header.len());
                return Err(Failure::Input(format!("{}:{line}: {told}", file.display())));
            }
            rows.push(fields);
        }
        Ok(Cells { file, header, rows, named_axis: None })
    }

    /// The number of a column.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.header.iter().position(|h| h == name)
    }

    /// The number of a column that must be there, or of the first that has it behind the name of a link.
    pub fn measured(&self, name: &str) -> Result<usize, Failure> {
        let behind =
            || self.header.iter().position(|h| h.split_once('.').is_some_and(|(_, own)| own == name));
        self.column(name).or_else(behind).ok_or_else(|| {
            let names = self.header.iter().map(String::as_str);
            let meant =
                nearest(name, names.clone()).map_or(String::new(), |meant| format!("did you mean {meant}? "));
            let all: Vec<&str> = names.collect();
            Failure::Input(format!(
                "{} has no column {name}; {meant}there are {}",
                self.file.display(),
                all.join(", ")
            ))
        })
    }

    /// Names of the axes: the columns between the number of the point and the seed.
    pub fn axes(&self) -> Vec<String> {
        let (Some(point), Some(seed)) = (self.column("point"), self.column("seed")) else {
            return Vec::new();
        };
        self.header[point + 1..seed.max(point + 1)].to_vec()
    }

    /// The values of a column in the order in which they first appear.
    pub fn values(&self, column: usize) -> Vec<String> {
        let mut values: Vec<String> = Vec::new();
        for row in &self.rows {
            if !values.contains(&row[column]) {
                values.push(row[column].clone());
            }
        }
        values
    }

    /// Keeps only rows with these values of axes (`AXIS=VALUE`).
    pub fn keep(&mut self, only: &[String]) -> Result<(), Failure> {
        for one in only {
            let Some((axis, value)) = one.split_once('=') else {
                return Err(Failure::Input(format!("--where {one}: write it like flows=36")));
            };
            let column = self.axis(axis)?;
            let values = self.values(column);
            if !values.iter().any(|v| v == value) {
                let told = format!("--where {one}: {axis} has the values {}", values.join(", "));
                return Err(Failure::Input(told));
            }
            self.rows.retain(|row| row[column] == value);
        }
        Ok(())
    }

    /// The number of the column of an axis.
    pub fn axis(&self, name: &str) -> Result<usize, Failure> {
        let axes = self.axes();
        if !axes.iter().any(|axis| axis == name) && self.named_axis != Some(name) {
            let told =
                format!("{} has no axis {name}; its axes are {}", self.file.display(), axes.join(", "));
            return Err(Failure::Input(told));
        }
        self.column(name).ok_or_else(|| Failure::Input(format!("no column {name}")))
    }
}

/// The samples of these links of a run: each has a file of its own, or all are in one where there are many.
pub fn samples(folder: &Path, links: &[&str]) -> Result<Vec<Vec<LinkSample>>, Failure> {
    let read = |file: &Path| {
        std::fs::read_to_string(file)
            .map_err(|e| Failure::Input(format!("cannot read {}: {e}", file.display())))
    };
    let wrong = |file: &Path, e: csv::ReadError| {
        let remedy = "make the run again, or give a folder that this version of weir wrote";
        Failure::Input(format!("{}: {e}; {remedy}", file.display()))
    };
    let all = folder.join("samples.csv");
    if all.is_file() {
        let wanted: HashSet<&str> = links.iter().copied().collect();
        let read = csv::read_samples_of_links(&read(&all)?, |name| wanted.contains(name));
        let mut found: HashMap<String, Vec<LinkSample>> =
            read.map_err(|e| wrong(&all, e))?.into_iter().collect();
        return Ok(links.iter().map(|link| found.remove(*link).unwrap_or_default()).collect());
    }
    let own = |link: &&str| {
        let file = folder.join(format!("samples_{link}.csv"));
        csv::read_link_samples(&read(&file)?).map_err(|e| wrong(&file, e))
    };
    links.iter().map(own).collect()
}

/// The folders of single runs among these: themselves, or those in them.
pub fn run_folders(results: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut all = Vec::new();
    for folder in results {
        if is_run(folder) {
            all.push(folder.clone());
            continue;
        }
        if folder.is_file() {
            return Err(Failure::Input(format!(
                "{} is a file: give the folder that it lies in, or folders that `weir sim` or `weir lab` wrote",
                folder.display()
            )));
        }
        let entries =
            std::fs::read_dir(folder).map_err(|e| format!("cannot read {}: {e}", folder.display()))?;
        let mut inner: Vec<PathBuf> =
            entries.flatten().map(|e| e.path()).filter(|path| is_run(path)).collect();
        inner.sort();
        if inner.is_empty() {
            return Err(Failure::Input(format!(
                "{} has no results of a run: give a folder that `weir sim`, `weir lab` or `weir run` wrote",
                folder.display()
            )));
        }
        all.extend(inner);
    }
    Ok(all)
}

fn is_run(folder: &Path) -> bool {
    folder.join("summary.json").is_file()
}
