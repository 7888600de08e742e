//! A TOML file that is read into a tree, and the values that are set over it.

use crate::axes::{SCHEMES, axis_of, forget_axis, scheme_that_sets};
use crate::errors::{Errors, Place, Wrong};
use crate::limits::MAX_NESTING;
use crate::problems::Problems;
use crate::trace::Trace;
use crate::tree::{Entry, Item, Node, Table};
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::de::{DeTable, DeValue};

/// Largest file that is read.
pub const MAX_FILE_BYTES: usize = 1 << 20;

/// Places told of a text that is no TOML: what follows the first is mostly a consequence of it.
const MAX_SYNTAX: usize = 5;

/// A TOML file that was read but not yet checked, so that values can still be set over it.
#[derive(Clone, Debug)]
pub struct Document {
    pub(crate) file: String,
    /// Where relative paths in it start.
    pub(crate) folder: PathBuf,
    pub(crate) root: Table,
    /// Traces that are at hand, by the paths by which it may name them.
    pub(crate) traces: Vec<(String, Trace)>,
}

/// Reads a file as text, of at most so many bytes.
pub(crate) fn read_text(path: &Path, most: usize) -> Result<String, Errors> {
    let name = path.display().to_string();
    let bytes = crate::file::read(path, most).map_err(|wrong| Errors::of_file(&name, &Place::File, wrong))?;
    // Before it is looked at as text: its end may lie within a character.
    if bytes.len() > most {
        return Err(too_large(&name, most));
    }
    String::from_utf8(bytes).map_err(|e| {
        let place = Lines::new(e.as_bytes()).place(e.utf8_error().valid_up_to());
        Errors::of_file(&name, &place, Wrong::new("is not UTF-8 text", "save the file as UTF-8"))
    })
}

impl Document {
    /// Reads a file.
    pub fn load(path: impl AsRef<Path>) -> Result<Document, Errors> {
        let (path, name) = (path.as_ref(), path.as_ref().display().to_string());
        Document::parse_in(folder_of(path), &name, &read_text(path, MAX_FILE_BYTES)?, MAX_FILE_BYTES)
    }

    /// Reads a text; `file` is the name in messages, and paths in the text start at its folder.
    pub fn parse(file: &str, text: &str) -> Result<Document, Errors> {
        Document::parse_at_most(file, text, MAX_FILE_BYTES)
    }

    /// The same, of at most so many bytes.
    pub(crate) fn parse_at_most(file: &str, text: &str, most: usize) -> Result<Document, Errors> {
        Document::parse_in(folder_of(Path::new(file)), file, text, most)
    }

    fn parse_in(folder: PathBuf, file: &str, text: &str, most: usize) -> Result<Document, Errors> {
        if text.len() > most {
            return Err(too_large(file, most));
        }
        let lines = Lines::new(text.as_bytes());
        check_nesting(text).map_err(|at| too_deep(file, lines.place(at)))?;
        let (table, errors) = DeTable::parse_recoverable(text);
        if !errors.is_empty() {
            let mut problems = Problems::new(file);
            problems.leave_out(errors.len().saturating_sub(MAX_SYNTAX));
            for e in errors.into_iter().take(MAX_SYNTAX) {
                let place = e.span().map_or(Place::File, |s| lines.place(s.start));
                let problem = format!("is not TOML here: {}", e.message().replace('\n', ", "));
                let remedy = "mend the syntax (keys are checked once it can be read)";
                problems.add_form(&place, Wrong::new(problem, remedy));
            }
            return Err(problems.into_errors());
        }
        let at = |span: Range<usize>| lines.place(span.start);
        // The span of a table that keys with dots made is that of its key.
        let is_dotted = |span: Range<usize>| !matches!(text.as_bytes().get(span.start), Some(b'{' | b'['));
        let root =
            table_from(table.get_ref(), Place::Line(1), false, &Source { at: &at, is_dotted: &is_dotted });
        Ok(Document { file: file.to_string(), folder, root, traces: Vec::new() })
    }

    /// Takes a trace for what is in the file at `path`, so that nobody looks for that file: for a program
    /// that brings a scenario with it.
    #[must_use]
    pub fn bring(mut self, path: &str, trace: Trace) -> Document {
        self.traces.push((path.to_string(), trace));
        self
    }

    /// Sets a value over what the file says: `set("run.duration", "5s")`. The value is TOML, or a text that
    /// needs no quotes. Elements of lists have their number in the key, from 0, or their `name`:
    /// `flows.0.count`, `links.radio.rate`.
    ///
    /// A key that is set is no longer swept.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), Errors> {
        let place = Place::Setting(format!("{key}={value}").into());
        let path: Vec<&str> = key.split('.').collect();
        let mut problems = Problems::new(&self.file);
        if path.len() > MAX_NESTING || path.iter().any(|part| part.trim() != *part || part.is_empty()) {
            let wrong = Wrong::new("is no key", "write it like `run.duration=5s`");
            problems.add(&place, key, wrong);
            return Err(problems.into_errors());
        }
        let numbered = self.root.numbered(&path);
        let (key, path) = (numbered.as_str(), numbered.split('.').collect::<Vec<_>>());
        if let Some((axis, set)) = scheme_that_sets(&self.root, key) {
            let problem =
                format!("is set by the schemes `sweep.{SCHEMES}.{axis}` (`{set}`), which would undo it");
            let remedy = "change the schemes, or take them out of the file";
            problems.add(&place, key, Wrong::new(problem, remedy));
            return Err(problems.into_errors());
        }
        let item = setting(value, &place);
        if let Err(wrong) = self.root.put(&path, item) {
            problems.add(&place, key, wrong);
            return Err(problems.into_errors());
        }
        forget_axis(&mut self.root, key);
        Ok(())
    }

    /// A key in which elements of lists have their number, where it has the name of one: as values have it.
    pub fn numbered(&self, key: &str) -> String {
        self.root.numbered(&key.split('.').collect::<Vec<_>>())
    }

    /// Takes out a key or a table, if it is there, as if the file did not have it.
    pub fn unset(&mut self, key: &str) {
        self.root.remove(&key.split('.').collect::<Vec<_>>());
    }

    /// Its name in messages.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Why a value that is right in itself cannot be used, with the place where it was written: for what only
    /// those know who use it.
    pub fn refuse(&self, key: &str, problem: impl Into<String>, remedy: impl Into<String>) -> Errors {
        self.refuse_all([(key, problem.into(), remedy.into())])
    }

    /// The same of several keys, of which there is at least one, each with its problem and remedy.
    pub fn refuse_all<'a>(&self, wrong: impl IntoIterator<Item = (&'a str, String, String)>) -> Errors {
        let mut problems = Problems::new(&self.file);
        for (key, problem, remedy) in wrong {
            let place = axis_of(&self.root, key).unwrap_or_else(|| self.root.place_of(key));
            problems.add(&place, key, Wrong::new(problem, remedy));
        }
        problems.into_errors()
    }

    /// Whether the file has a table of that name at its top: `ports` tells a configuration from a scenario.
    pub fn has_table(&self, name: &str) -> bool {
        self.root.has(name)
    }

    /// Whether it has a key, such as `host.poll`.
    pub fn has(&self, key: &str) -> bool {
        self.root.has_path(key)
    }

    /// [`set`](Document::set) from one text, `run.duration=5s`.
    pub fn set_from(&mut self, assignment: &str) -> Result<(), Errors> {
        match assignment.split_once('=') {
            Some((key, value)) => self.set(key.trim(), value.trim()),
            None => {
                let wrong = Wrong::new("has no `=`", "write it like `run.duration=5s`");
                Err(Errors::of_file(&self.file, &Place::Setting(assignment.into()), wrong))
            }
        }
    }
}

fn folder_of(file: &Path) -> PathBuf {
    file.parent().map(Path::to_path_buf).unwrap_or_default()
}

fn too_large(file: &str, most: usize) -> Errors {
    let problem = format!("has more than {most} bytes");
    Errors::of_file(file, &Place::File, Wrong::new(problem, "split it, or repeat flows with `count`"))
}

fn too_deep(file: &str, place: Place) -> Errors {
    let problem = format!("is nested deeper than {MAX_NESTING}");
    Errors::of_file(file, &place, Wrong::new(problem, "no key lies that deep: flatten it"))
}

/// The value of a setting: TOML where it is, else the text as it stands.
fn setting(text: &str, place: &Place) -> Item {
    let text = text.trim();
    if check_nesting(text).is_ok()
        && let Ok(value) = DeValue::parse(text)
    {
        let at = |_: Range<usize>| place.clone();
        let is_dotted = |span: Range<usize>| !matches!(text.as_bytes().get(span.start), Some(b'{' | b'['));
        let source = Source { at: &at, is_dotted: &is_dotted };
        return item_from(value.get_ref(), value.span(), place.clone(), &source);
    }
    Item { node: Node::Text(text.to_string()), place: place.clone() }
}

/// Finds the line of a byte. A line ends with its line feed, so that CR LF counts once.
struct Lines {
    feeds: Vec<usize>,
}

impl Lines {
    fn new(text: &[u8]) -> Lines {
        let feeds = text.iter().enumerate().filter(|(_, b)| **b == b'\n').map(|(i, _)| i);
        Lines { feeds: feeds.collect() }
    }

    fn place(&self, offset: usize) -> Place {
        let before = self.feeds.partition_point(|feed| *feed < offset);
        Place::Line(before as u32 + 1)
    }
}

/// Refuses nesting that would exhaust the stack of whoever walks the tree; says where.
fn check_nesting(text: &str) -> Result<(), usize> {
    use toml_parser::lexer::TokenKind;
    // For every open bracket the dots of the key before it; the last entry counts the key being read.
    let mut dots = vec![0usize];
    let mut depth = 0;
    for token in toml_parser::Source::new(text).lex() {
        match token.kind() {
            TokenKind::Dot => {
                *dots.last_mut().expect("never empty") += 1;
                depth += 1;
            }
            TokenKind::LeftSquareBracket | TokenKind::LeftCurlyBracket => {
                dots.push(0);
                depth += 1;
            }
            TokenKind::RightSquareBracket | TokenKind::RightCurlyBracket if dots.len() > 1 => {
                depth -= 1 + dots.pop().expect("never empty");
            }
            TokenKind::Comma => depth -= std::mem::take(dots.last_mut().expect("never empty")),
            TokenKind::Newline if dots.len() == 1 => depth -= std::mem::take(&mut dots[0]),
            _ => {}
        }
        if depth > MAX_NESTING {
            return Err(token.span().start());
        }
    }
    Ok(())
}

/// What the text says of a span.
struct Source<'a> {
    /// Where it lies.
    at: &'a dyn Fn(Range<usize>) -> Place,
    /// Whether a table with this span was made by keys with dots.
    is_dotted: &'a dyn Fn(Range<usize>) -> bool,
}

fn table_from(table: &DeTable<'_>, place: Place, is_dotted: bool, source: &Source) -> Table {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    let entry = |(key, value): (&toml::Spanned<_>, &toml::Spanned<DeValue<'_>>)| {
        let key_place = (source.at)(key.span());
        let key: &std::borrow::Cow<'_, str> = key.get_ref();
        Entry {
            key: key.to_string(),
            item: item_from(value.get_ref(), value.span(), (source.at)(value.span()), source),
            place: key_place,
        }
    };
    Table { entries: entries.into_iter().map(entry).collect(), place, is_dotted }
}

fn item_from(value: &DeValue<'_>, span: Range<usize>, place: Place, source: &Source) -> Item {
    let node = match value {
        DeValue::String(text) => Node::Text(text.to_string()),
        DeValue::Integer(n) => Node::Int(integer(n.as_str(), n.radix())),
        // The parser has checked the form; what is too large becomes infinite and fails the range.
        DeValue::Float(x) => Node::Float(x.as_str().parse().unwrap_or(f64::NAN)),
        DeValue::Boolean(flag) => Node::Flag(*flag),
        DeValue::Datetime(date) => Node::Date(date.to_string()),
        DeValue::Array(items) => {
            let item = |i: &toml::Spanned<DeValue<'_>>| {
                item_from(i.get_ref(), i.span(), (source.at)(i.span()), source)
            };
            Node::List(items.iter().map(item).collect())
        }
        DeValue::Table(table) => {
            Node::Table(table_from(table, place.clone(), (source.is_dotted)(span), source))
        }
    };
    Item { node, place }
}

fn integer(digits: &str, radix: u32) -> i128 {
    let saturated = if digits.starts_with('-') { i128::MIN } else { i128::MAX };
    i128::from_str_radix(digits, radix).unwrap_or(saturated)
}
