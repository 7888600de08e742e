//! Problems of a file: all of them, each with its place and its remedy.

use crate::document::Place;
use crate::near::nearest;
use crate::schema::TableDoc;
use crate::variation::Library;
use std::fmt;
use weir_queue::EACH_FLOW;

/// Problems told of one file; what is beyond is counted only.
pub const MAX_PROBLEMS: usize = 200;

/// One problem of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    /// Name of the file.
    pub file: String,
    /// Line in the file, from 1; absent where the problem is the file itself or a setting given beside it.
    pub line: Option<u32>,
    /// The `key=value` that was given beside the file and brought the problem.
    pub setting: Option<String>,
    /// The key in question, in the form that `--set` takes.
    pub key: Option<String>,
    /// What is wrong.
    pub problem: String,
    /// What to do about it.
    pub remedy: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.setting, self.line) {
            (Some(setting), _) => write!(f, "--set {setting}: ")?,
            (None, Some(line)) => write!(f, "{}:{line}: ", self.file)?,
            (None, None) => write!(f, "{}: ", self.file)?,
        }
        if let Some(key) = &self.key {
            write!(f, "key `{key}`: ")?;
        }
        write!(f, "{}; {}", self.problem, self.remedy)
    }
}

impl std::error::Error for Error {}

/// All problems of a file, in the order of its lines; never empty.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Errors {
    list: Vec<Error>,
    /// Problems beyond [`MAX_PROBLEMS`].
    untold: usize,
}

impl Errors {
    /// The problems, in the order of the file's lines.
    pub fn iter(&self) -> impl Iterator<Item = &Error> {
        self.list.iter()
    }

    /// How many problems there are, including those that are not told for their number.
    pub fn count(&self) -> usize {
        self.list.len() + self.untold
    }
}

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, error) in self.list.iter().enumerate() {
            let end = if i == 0 { "" } else { "\n" };
            write!(f, "{end}{error}")?;
        }
        if self.untold > 0 {
            write!(f, "\nand {} more problems; mend these first", self.untold)?;
        }
        Ok(())
    }
}

impl std::error::Error for Errors {}

/// Why a value cannot be taken, before it is known which key it is for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Wrong {
    pub problem: String,
    pub remedy: String,
    /// Whether whoever knows the range of the key has a better remedy.
    is_out_of_range: bool,
}

impl Wrong {
    pub fn new(problem: impl Into<String>, remedy: impl Into<String>) -> Wrong {
        Wrong { problem: problem.into(), remedy: remedy.into(), is_out_of_range: false }
    }

    /// A value that is written as it should be, and is too small or too large for all keys of its type.
    pub fn out_of_range(shown: &str, remedy: impl Into<String>) -> Wrong {
        Wrong { is_out_of_range: true, ..Wrong::new(format!("{shown} is out of range"), remedy) }
    }

    /// With the range of its key, if it is out of range and the key has one.
    pub fn within(self, range: &str) -> Wrong {
        if !self.is_out_of_range || range.is_empty() {
            return self;
        }
        Wrong { remedy: format!("give a value in {range}"), ..self }
    }

    /// What is known as `name` is algorithm `aqm` in each FIFO of a discipline.
    pub fn flow_queue(name: &str, aqm: &str) -> Wrong {
        let problem = format!("cannot be {}, which is {aqm} in each FIFO of a discipline", quoted(name));
        Wrong::new(problem, format!("write `aqm.name = \"{aqm}\"` and `queue.discipline = \"{EACH_FLOW}\"`"))
    }

    /// There is no `kind`, such as an algorithm, of this name; these are there.
    pub fn no_such(kind: &str, name: &str, names: &[&str]) -> Wrong {
        let hint = nearest(name, names.iter().copied());
        let hint = hint.map_or("the".into(), |meant| format!("did you mean \"{meant}\"? The"));
        let problem = format!("there is no {kind} {}", quoted(name));
        Wrong::new(problem, format!("{hint} {kind}s are {}", names.join(", ")))
    }
}

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
        self.push(place, Some(key.to_string()), wrong);
    }

    /// A problem of the file's form, where no key is known.
    pub fn add_form(&mut self, place: &Place, wrong: Wrong) {
        self.push(place, None, wrong);
    }

    fn push(&mut self, place: &Place, key: Option<String>, wrong: Wrong) {
        let (line, setting) = match place {
            Place::File => (None, None),
            Place::Line(line) => (Some(*line), None),
            Place::Setting(text) => (None, Some(text.to_string())),
        };
        let Wrong { problem, remedy, .. } = wrong;
        self.keep(Error { file: self.file.clone(), line, setting, key, problem, remedy });
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

    pub fn into_errors(mut self) -> Errors {
        self.list.sort_by_key(|e| e.line);
        Errors { list: self.list, untold: self.untold }
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

/// Text from a file for a message: quoted, with control characters escaped, and not longer than a line.
pub(crate) fn quoted(text: &str) -> String {
    const MOST: usize = 60;
    let mut shown: String = text.chars().take(MOST).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    format!("{shown:?}")
}
