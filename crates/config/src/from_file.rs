//! Keys whose value is the path of a file that is read with them.

use crate::errors::Wrong;
use crate::library::Library;
use crate::problems::Problems;
use crate::schema::{Given, Here, Key, Printer, Rule, Scalar, tidy};
use crate::table_doc::{Row, TableDoc};
use crate::tree::quote;

/// The content of a file, with the path as it was written.
pub(crate) trait FileContent: Clone {
    /// What holds without a file.
    const NONE: &str;
    /// Reads the file.
    fn read(path: String, library: &Library) -> Result<Self, Wrong>;
    /// The path as it was written.
    fn path(&self) -> &str;
}

/// The path of a file, whose content is read with it.
pub(crate) struct FromFile;

fn row(key: &Key, default: &str) -> Row {
    let kind = "the path of a file in quotes".to_string();
    Row {
        name: key.name.to_string(),
        kind,
        default: default.to_string(),
        range: String::new(),
        doc: tidy(key.doc),
    }
}

impl<T: FileContent> Rule<Option<T>> for FromFile {
    fn read(&self, key: &Key, here: &Here, p: &mut Problems) -> Option<Option<T>> {
        let Some(entry) = here.table.get(key.name) else { return Some(None) };
        let read = String::read(&entry.item.node).and_then(|path| T::read(path, &p.library));
        read.map_err(|wrong| p.add(&entry.place, &here.key(key.name), wrong)).ok().map(Some)
    }
    fn print_value(&self, key: &Key, value: &Option<T>, out: &mut Printer) {
        match value {
            Some(file) => out.value(&row(key, ""), &quote(file.path())),
            None => out.comment(&row(key, ""), &format!("({})", T::NONE)),
        }
    }
    fn collect_given(&self, key: &Key, value: &Option<T>, given: &mut Given) {
        if value.is_some() {
            given.add(key);
        }
    }
    fn describe(&self, key: &Key, at: usize, tables: &mut Vec<TableDoc>) {
        tables[at].rows.push(row(key, T::NONE));
    }
}
