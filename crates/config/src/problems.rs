//! The problems of a file, collected while it is read.

use crate::errors::{Error, Errors, MAX_PROBLEMS, Place, Wrong};
use crate::library::Library;
use crate::table_doc::TableDoc;

/// Collects problems while a file is read.
#[derive(Clone, Debug)]
pub(crate) struct Problems {
    file: String,
    list: Vec<Error>,
    untold: usize,
    forms: &'static [Form],
    /// The trace files that are read along with the file.
    pub library: Library,
}

/// A form of file that a key could belong to, for hints: its name, and its tables.
pub(crate) type Form = (&'static str, fn() -> Vec<TableDoc>);

impl Problems {
    pub fn new(file: &str) -> Problems {
        Problems::knowing(file, &[])
    }

    /// With the forms of files to look for keys that stand in the wrong place.
    pub fn knowing(file: &str, forms: &'static [Form]) -> Problems {
        let library = Library::default();
        Problems { file: file.to_string(), list: Vec::new(), untold: 0, forms, library }
    }

    /// An empty list for a part of the same file.
    pub fn beside(&self) -> Problems {
        Problems { library: self.library.clone(), ..Problems::new(&self.file) }
    }

    /// Whether no more problems will be told.
    pub fn is_full(&self) -> bool {
        self.list.len() >= MAX_PROBLEMS
    }

    /// Where a key belongs that is unknown where it stands.
    pub fn home_of(&self, key: &str) -> Option<String> {
        // Nobody reads hints beyond the problems that are told.
        if self.is_full() {
            return None;
        }
        self.forms
            .iter()
            .find_map(|(of, tables)| home_in(&tables(), key).map(|home| format!("{home} of {of}")))
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// A problem of one key.
    pub fn add(&mut self, place: &Place, key: &str, wrong: Wrong) {
        self.keep(Error::new(&self.file, place, Some(key), wrong));
    }

    /// A problem of the file's form, where no key is known.
    pub fn add_form(&mut self, place: &Place, wrong: Wrong) {
        self.keep(Error::new(&self.file, place, None, wrong));
    }

    fn keep(&mut self, error: Error) {
        if !self.is_full() {
            self.list.push(error);
        } else {
            self.untold += 1;
        }
    }

    /// So many problems more are not worth telling.
    pub fn leave_out(&mut self, count: usize) {
        self.untold += count;
    }

    /// Takes over the problems of one point of a sweep that no other point had before, saying which point.
    pub fn adopt(&mut self, point: &str, others: Problems) {
        self.untold += others.untold;
        for mut error in others.list {
            let known = |old: &Error| {
                let same_place = old.line == error.line && old.setting == error.setting;
                same_place && old.key == error.key && old.problem.ends_with(&error.problem)
            };
            if !self.list.iter().any(known) {
                error.problem = format!("with {point}: {}", error.problem);
                self.keep(error);
            }
        }
    }

    pub fn into_errors(self) -> Errors {
        Errors::new(self.list, self.untold)
    }

    /// The value, if there was no problem.
    pub fn finish<T>(self, value: Option<T>) -> Result<T, Errors> {
        match value {
            Some(value) if self.is_empty() => Ok(value),
            _ => Err(self.into_errors()),
        }
    }
}

fn home_in(tables: &[TableDoc], key: &str) -> Option<String> {
    for table in tables {
        let at = |path: &str| if path.is_empty() { "at the top".into() } else { format!("in `[{path}]`") };
        if table.rows.iter().any(|row| row.name == key) {
            return Some(at(&table.path));
        }
        let name = table.path.trim_matches(['[', ']']);
        match name.rsplit_once('.') {
            Some((outer, inner)) if inner == key => return Some(at(outer)),
            None if name == key && !key.is_empty() => return Some(at("")),
            _ => {}
        }
    }
    None
}
