//! Problems of a file: all of them, each with its place and its remedy.

use crate::near::nearest;
use std::fmt;
use std::sync::Arc;
use weir_queue::EACH_FLOW;

/// Problems told of one file; what is beyond is counted only.
pub const MAX_PROBLEMS: usize = 200;

/// Where something was written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// The file as a whole.
    File,
    /// A line, from 1.
    Line(u32),
    /// A `key=value` given beside the file.
    Setting(Arc<str>),
}

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

impl Error {
    /// What is wrong with a key, or with the file's form, where no key is known.
    pub(crate) fn new(file: &str, place: &Place, key: Option<&str>, wrong: Wrong) -> Error {
        let (line, setting) = match place {
            Place::File => (None, None),
            Place::Line(line) => (Some(*line), None),
            Place::Setting(text) => (None, Some(text.to_string())),
        };
        let Wrong { problem, remedy, .. } = wrong;
        Error { file: file.to_string(), line, setting, key: key.map(str::to_string), problem, remedy }
    }
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
    /// These, of which there is at least one, and so many more.
    pub(crate) fn new(mut list: Vec<Error>, untold: usize) -> Errors {
        list.sort_by_key(|e| e.line);
        Errors { list, untold }
    }

    /// A single problem of the file's form, where no key is known.
    pub(crate) fn of_file(file: &str, place: &Place, wrong: Wrong) -> Errors {
        Errors::new(vec![Error::new(file, place, None, wrong)], 0)
    }

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

/// Text from a file for a message: quoted, with control characters escaped, and not longer than a line.
pub(crate) fn quoted(text: &str) -> String {
    const MOST: usize = 60;
    let mut shown: String = text.chars().take(MOST).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    format!("{shown:?}")
}

/// A key for a message: as it is, if it is a plain word of ordinary length.
pub(crate) fn shown_key(key: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    if key.len() <= 60 && !key.is_empty() && key.chars().all(plain) { key.to_string() } else { quoted(key) }
}
