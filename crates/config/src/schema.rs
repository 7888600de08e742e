//! The one declaration of every key, and what is made from it.
//!
//! `section!` declares a struct whose fields are keys. From the declaration come reading with checks, hints
//! for unknown keys, canonical printing and the reference documentation.

use crate::document::Document;
use crate::errors::{Errors, Place, Wrong, quoted, shown_key};
use crate::near::nearest;
use crate::problems::{Form, Problems};
use crate::table_doc::{Row, TableDoc, markdown_rows};
use crate::tree::{Entry, Item, Node, Table, quote};
use std::borrow::Cow;
use std::collections::BTreeSet;
use weir_aqm::{Share, Value};
use weir_units::{Bytes, Duration, ParseError, Rate, parse_bytes, parse_duration, parse_rate, parse_share};

/// A table of the file that is being read, and its path for messages.
pub(crate) struct Here<'a> {
    pub table: &'a Table,
    pub path: String,
}

impl Here<'_> {
    /// The full path of a key of this table.
    pub fn key(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_string() } else { format!("{}.{name}", self.path) }
    }

    /// A problem of a key of this table, which may be a path further down.
    pub fn wrong(&self, p: &mut Problems, name: &str, problem: impl Into<String>, remedy: impl Into<String>) {
        p.add(&self.table.place_of(name), &self.key(name), Wrong::new(problem, remedy));
    }

    /// Tells every key that is not one of `names`.
    pub fn refuse_unknown(&self, p: &mut Problems, names: &[&'static str]) {
        for entry in self.table.entries.iter().filter(|e| !names.contains(&e.key.as_str())) {
            let remedy = match nearest(&entry.key, names.iter().copied()) {
                Some(name) => format!("did you mean `{name}`?"),
                None => match p.home_of(&entry.key) {
                    Some(home) => format!("it belongs {home}"),
                    None => format!("the keys here are {}", names.join(", ")),
                },
            };
            p.add(&entry.place, &self.key(&shown_key(&entry.key)), Wrong::new("is unknown", remedy));
        }
    }
}

/// A type that a single value of the file can have.
pub(crate) trait Scalar: Clone + PartialEq + PartialOrd {
    /// What it is, with an example.
    fn kind() -> String;
    /// From the file.
    fn read(node: &Node) -> Result<Self, Wrong>;
    /// As a person reads it.
    fn show(&self) -> String;
    /// As TOML.
    fn literal(&self) -> String {
        quote(&self.show())
    }
}

/// The remedy for a value of the wrong type.
pub(crate) fn wrong_type<T: Scalar>(node: &Node) -> Wrong {
    let remedy = match T::kind() {
        kind if kind.starts_with("one of") => format!("give {kind}"),
        kind => format!("write {kind}"),
    };
    Wrong::new(format!("cannot be {}", node.what()), remedy)
}

/// A quantity with its unit; `parse` tells what is wrong and how it is written.
fn with_unit<T: Scalar, U>(node: &Node, parse: impl Fn(&str) -> Result<U, ParseError>) -> Result<U, Wrong> {
    let Node::Text(text) = node else { return Err(wrong_type::<T>(node)) };
    parse(text).map_err(|e| {
        let told = e.to_string();
        if e.is_out_of_range() {
            let (_, remedy) = told.split_once(": ").unwrap_or(("", &told));
            return Wrong::out_of_range(&quoted(text), remedy);
        }
        let (what, remedy) = told.split_once(": ").unwrap_or((&told, "write it with its unit"));
        Wrong::new(format!("{} is {what}", quoted(text)), remedy)
    })
}

macro_rules! quantities {
    ($($ty:ty: $parse:ident, $kind:literal;)*) => {$(
        impl Scalar for $ty {
            fn kind() -> String {
                $kind.to_string()
            }
            fn read(node: &Node) -> Result<Self, Wrong> {
                with_unit::<Self, Self>(node, $parse)
            }
            fn show(&self) -> String {
                self.to_string()
            }
        }
    )*};
}

quantities! {
    Duration: parse_duration, "a duration such as \"2.5ms\"";
    Bytes: parse_bytes, "an amount of data such as \"64MB\"";
    Rate: parse_rate, "a rate such as \"1Gbit/s\"";
}

impl Scalar for Share {
    fn kind() -> String {
        "a share such as \"99%\"".to_string()
    }
    fn read(node: &Node) -> Result<Self, Wrong> {
        let share = with_unit::<Self, f64>(node, parse_share)?;
        // What is printed has ten digits; keep no more than that, so that it is read back as it was.
        let printed = Value::Share(Share(share)).to_string();
        Ok(Share(parse_share(&printed).unwrap_or(share)))
    }
    fn show(&self) -> String {
        Value::Share(*self).to_string()
    }
}

impl Scalar for f64 {
    fn kind() -> String {
        "a number such as 1.5".to_string()
    }
    fn read(node: &Node) -> Result<Self, Wrong> {
        match node {
            Node::Int(n) => Ok(*n as f64),
            Node::Float(x) => Ok(*x),
            _ => Err(wrong_type::<Self>(node)),
        }
    }
    fn show(&self) -> String {
        self.to_string()
    }
    fn literal(&self) -> String {
        format!("{self:?}")
    }
}

impl Scalar for u32 {
    fn kind() -> String {
        "a whole number such as 5".to_string()
    }
    fn read(node: &Node) -> Result<Self, Wrong> {
        match node {
            Node::Int(n) => u32::try_from(*n).map_err(|_| {
                Wrong::out_of_range(&node.shown(), format!("give a value in 0 .. {}", u32::MAX))
            }),
            _ => Err(wrong_type::<Self>(node)),
        }
    }
    fn show(&self) -> String {
        self.to_string()
    }
    fn literal(&self) -> String {
        self.to_string()
    }
}

impl Scalar for bool {
    fn kind() -> String {
        "true or false".to_string()
    }
    fn read(node: &Node) -> Result<Self, Wrong> {
        match node {
            Node::Flag(flag) => Ok(*flag),
            _ => Err(wrong_type::<Self>(node)),
        }
    }
    fn show(&self) -> String {
        self.to_string()
    }
    fn literal(&self) -> String {
        self.to_string()
    }
}

impl Scalar for String {
    fn kind() -> String {
        "a text in quotes".to_string()
    }
    fn read(node: &Node) -> Result<Self, Wrong> {
        match node {
            Node::Text(text) => Ok(text.clone()),
            _ => Err(wrong_type::<Self>(node)),
        }
    }
    fn show(&self) -> String {
        self.clone()
    }
}

/// Declares an enum whose variants are words of the file.
macro_rules! choices {
    ($(#[$outer:meta])* pub enum $name:ident {$(
        $(#[doc = $doc:literal])+
        $variant:ident = $text:literal,
    )*}) => {
        $(#[$outer])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum $name {$(
            $(#[doc = $doc])+
            $variant,
        )*}

        impl $name {
            /// The word in the file.
            pub fn as_str(self) -> &'static str {
                match self { $($name::$variant => $text,)* }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl $crate::schema::Scalar for $name {
            fn kind() -> String {
                let words: &[&str] = &[$($text),*];
                $crate::schema::one_of(words)
            }
            fn read(node: &$crate::tree::Node) -> Result<Self, $crate::errors::Wrong> {
                let words: &[(&str, $name)] = &[$(($text, $name::$variant)),*];
                $crate::schema::chosen(node, words)
            }
            fn show(&self) -> String {
                self.to_string()
            }
            fn literal(&self) -> String {
                $crate::schema::word_literal(self.as_str())
            }
        }
    };
}

/// A word as TOML; numbers that are choices, such as an IP version, need no quotes.
pub(crate) fn word_literal(word: &str) -> String {
    if word.parse::<u32>().is_ok() { word.to_string() } else { quote(word) }
}

pub(crate) fn one_of(words: &[&str]) -> String {
    let words: Vec<String> = words.iter().map(|w| word_literal(w)).collect();
    format!("one of {}", words.join(", "))
}

pub(crate) fn chosen<T: Scalar + Copy>(node: &Node, words: &[(&str, T)]) -> Result<T, Wrong> {
    let text = match node {
        Node::Text(text) => text.clone(),
        Node::Int(n) => n.to_string(),
        _ => return Err(wrong_type::<T>(node)),
    };
    if let Some((_, value)) = words.iter().find(|(word, _)| *word == text) {
        return Ok(*value);
    }
    let hint = nearest(&text, words.iter().map(|(w, _)| *w));
    let hint = hint.map(|w| format!("did you mean {}? It is ", word_literal(w))).unwrap_or("give ".into());
    Err(Wrong::new(format!("cannot be {}", node.what()), format!("{hint}{}", T::kind())))
}

/// Which values of a type are allowed.
pub(crate) enum Range<T> {
    /// All of them.
    Any,
    /// Those between two, inclusive.
    Within(T, T),
    /// Those that a test accepts, with the rule in words.
    Such(&'static str, fn(&T) -> bool),
}

pub(crate) use Range::Such as such;
pub(crate) use Range::Within as within;

impl<T: Scalar> Range<T> {
    /// The range in words; empty if everything is allowed.
    fn words(&self) -> String {
        match self {
            Range::Any => String::new(),
            Range::Within(min, max) => format!("{} .. {}", min.show(), max.show()),
            Range::Such(words, _) => words.to_string(),
        }
    }

    /// `node` is the value as it was written.
    pub fn check(&self, value: &T, node: &Node) -> Result<(), Wrong> {
        let shown = || match node {
            // Values that are written as several have a form for messages.
            Node::List(_) | Node::Table(_) => value.literal(),
            _ => node.shown(),
        };
        match self {
            Range::Within(min, max) if !(min <= value && value <= max) => {
                let problem = format!("{} is out of range", shown());
                Err(Wrong::new(problem, format!("give a value in {}", self.words())))
            }
            Range::Such(_, accepts) if !accepts(value) => {
                Err(Wrong::new(format!("{} is not allowed", shown()), format!("give {}", self.words())))
            }
            _ => Ok(()),
        }
    }
}

/// What can play a scenario.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arm {
    /// The simulator, which plays every key.
    Simulator,
    /// The lab with one link, or a row of them.
    Row,
    /// The lab with an access network of modems.
    Modems,
}

/// Where a key is played of which its declaration says nothing.
pub(crate) const ALL_ARMS: &[Arm] = &[Arm::Simulator, Arm::Row, Arm::Modems];

/// Name and meaning of a key, and what can play it.
pub(crate) struct Key {
    pub name: &'static str,
    pub doc: &'static str,
    pub arms: &'static [Arm],
}

/// Collects the keys of a file that were given another value than their default.
pub(crate) struct Given<'a> {
    path: String,
    wanted: &'a dyn Fn(&Key) -> bool,
    keys: Vec<String>,
}

impl<'a> Given<'a> {
    /// Those keys that are wanted, with their paths in `section`.
    pub fn of<S: Section>(section: &S, wanted: &'a dyn Fn(&Key) -> bool) -> Vec<String> {
        let mut given = Given { path: String::new(), wanted, keys: Vec::new() };
        section.collect_given(&mut given);
        given.keys
    }

    /// Notes a key; whether it is wanted.
    pub fn add(&mut self, key: &Key) -> bool {
        let is_wanted = (self.wanted)(key);
        if is_wanted {
            self.keys.push(format!("{}{}", self.path, key.name));
        }
        is_wanted
    }

    /// The keys of a table of this name.
    fn inside<S: Section>(&mut self, name: &str, section: &S) {
        let outer = self.path.len();
        self.path.push_str(&format!("{name}."));
        section.collect_given(self);
        self.path.truncate(outer);
    }
}

/// How a field of type `T` is read, printed and described.
pub(crate) trait Rule<T> {
    /// The keys this field takes in its table.
    fn names(&self, key: &Key) -> Vec<&'static str> {
        vec![key.name]
    }
    /// Reads the field; on `None` the problem has been told.
    fn read(&self, key: &Key, here: &Here, p: &mut Problems) -> Option<T>;
    /// Prints the field, if it is a single value.
    fn print_value(&self, _key: &Key, _value: &T, _out: &mut Printer) {}
    /// Prints the field, if it is a table.
    fn print_tables(&self, _key: &Key, _value: &T, _out: &mut Printer) {}
    /// Collects the key, or those of the table, if the value is not the default.
    fn collect_given(&self, _key: &Key, _value: &T, _given: &mut Given) {}
    /// Adds the field to table `at` of the reference, or tables after it.
    fn describe(&self, key: &Key, at: usize, tables: &mut Vec<TableDoc>);
}

fn read_scalar<T: Scalar>(entry: &Entry, range: &Range<T>, here: &Here, p: &mut Problems) -> Option<T> {
    let value = T::read(&entry.item.node).map_err(|wrong| wrong.within(&range.words()));
    let value = value.and_then(|v| range.check(&v, &entry.item.node).map(|()| v));
    value.map_err(|wrong| p.add(&entry.place, &here.key(&entry.key), wrong)).ok()
}

fn row<T: Scalar>(key: &Key, default: String, range: &Range<T>) -> Row {
    let range = range.words();
    Row { name: key.name.to_string(), kind: T::kind(), default, range, doc: tidy(key.doc) }
}

/// A key that must be there.
pub(crate) struct Required<T>(pub Range<T>);

pub(crate) fn required<T: Scalar>(range: Range<T>) -> Required<T> {
    Required(range)
}

impl<T: Scalar> Rule<T> for Required<T> {
    fn read(&self, key: &Key, here: &Here, p: &mut Problems) -> Option<T> {
        match here.table.get(key.name) {
            Some(entry) => read_scalar(entry, &self.0, here, p),
            None => {
                here.wrong(p, key.name, "is missing", format!("add it, {}", T::kind()));
                None
            }
        }
    }
    fn print_value(&self, key: &Key, value: &T, out: &mut Printer) {
        out.value(&row(key, String::new(), &self.0), &value.literal());
    }
    fn describe(&self, key: &Key, at: usize, tables: &mut Vec<TableDoc>) {
        tables[at].rows.push(row(key, "required".to_string(), &self.0));
    }
}

/// A key with a default.
pub(crate) struct Or<T>(pub T, pub Range<T>);

pub(crate) fn or<T: Scalar>(default: T, range: Range<T>) -> Or<T> {
    Or(default, range)
}

impl<T: Scalar> Rule<T> for Or<T> {
    fn read(&self, key: &Key, here: &Here, p: &mut Problems) -> Option<T> {
        match here.table.get(key.name) {
            Some(entry) => read_scalar(entry, &self.1, here, p),
            None => Some(self.0.clone()),
        }
    }
    fn print_value(&self, key: &Key, value: &T, out: &mut Printer) {
        let row = row(key, String::new(), &self.1);
        // A default stays a comment where a sweep could make it contradict another key.
        if out.in_sweep() && *value == self.0 {
            out.comment(&row, &value.literal());
        } else {
            out.value(&row, &value.literal());
        }
    }
    fn collect_given(&self, key: &Key, value: &T, given: &mut Given) {
        if *value != self.0 {
            given.add(key);
        }
    }
    fn describe(&self, key: &Key, at: usize, tables: &mut Vec<TableDoc>) {
        tables[at].rows.push(row(key, self.0.literal(), &self.1));
    }
}

/// A key that may be absent; the text says what holds then.
pub(crate) struct Absent<T> {
    meaning: Cow<'static, str>,
    range: Range<T>,
    /// The value that means the same.
    same: Option<T>,
}

pub(crate) fn absent<T: Scalar>(meaning: impl Into<Cow<'static, str>>, range: Range<T>) -> Absent<T> {
    Absent { meaning: meaning.into(), range, same: None }
}

impl<T> Absent<T> {
    /// Absence means the same as this value.
    pub fn like(self, value: T) -> Absent<T> {
        Absent { same: Some(value), ..self }
    }
}

impl<T: Scalar> Rule<Option<T>> for Absent<T> {
    fn read(&self, key: &Key, here: &Here, p: &mut Problems) -> Option<Option<T>> {
        match here.table.get(key.name) {
            Some(entry) => read_scalar(entry, &self.range, here, p).map(Some),
            None => Some(None),
        }
    }
    fn print_value(&self, key: &Key, value: &Option<T>, out: &mut Printer) {
        let row = row(key, String::new(), &self.range);
        match value {
            Some(value) => out.value(&row, &value.literal()),
            None => out.comment(&row, &format!("({})", self.meaning)),
        }
    }
    fn collect_given(&self, key: &Key, value: &Option<T>, given: &mut Given) {
        if value.is_some() && *value != self.same {
            given.add(key);
        }
    }
    fn describe(&self, key: &Key, at: usize, tables: &mut Vec<TableDoc>) {
        tables[at].rows.push(row(key, self.meaning.to_string(), &self.range));
    }
}

/// A list of values on one line; without it, the list is empty, and the text says what holds then.
pub(crate) struct List<T> {
    meaning: &'static str,
    most: usize,
    range: Range<T>,
}

pub(crate) fn list<T: Scalar>(meaning: &'static str, most: usize, range: Range<T>) -> List<T> {
    List { meaning, most, range }
}

impl<T: Scalar> List<T> {
    fn row(&self, key: &Key) -> Row {
        let element = row(key, self.meaning.to_string(), &self.range);
        let most = format!("at most {}", self.most);
        let range = if element.range.is_empty() { most } else { format!("{}, {most}", element.range) };
        Row { kind: format!("a list, each {}", element.kind), range, ..element }
    }

    fn items<'a>(&self, entry: &'a Entry) -> Result<&'a [Item], Wrong> {
        match &entry.item.node {
            Node::List(items) if items.is_empty() => {
                Err(Wrong::new("is empty", format!("leave it out ({}), or fill it", self.meaning)))
            }
            Node::List(items) if items.len() > self.most => Err(Wrong::new(
                format!("has {} elements", items.len()),
                format!("give at most {}", self.most),
            )),
            Node::List(items) => Ok(items),
            other => {
                let problem = format!("cannot be {}", other.what());
                Err(Wrong::new(problem, format!("write a list in brackets, each {}", T::kind())))
            }
        }
    }
}

impl<T: Scalar> Rule<Vec<T>> for List<T> {
    fn read(&self, key: &Key, here: &Here, p: &mut Problems) -> Option<Vec<T>> {
        let Some(entry) = here.table.get(key.name) else { return Some(Vec::new()) };
        let path = here.key(key.name);
        let items = self.items(entry).map_err(|wrong| p.add(&entry.place, &path, wrong)).ok()?;
        // Collect after reading all of them: one wrong value must not hide the problems of the next.
        let mut read = |(i, item): (usize, &Item)| {
            let value = T::read(&item.node).and_then(|v| self.range.check(&v, &item.node).map(|()| v));
            value.map_err(|wrong| p.add(&item.place, &format!("{path}.{i}"), wrong)).ok()
        };
        let values: Vec<Option<T>> = items.iter().enumerate().map(&mut read).collect();
        values.into_iter().collect()
    }
    fn print_value(&self, key: &Key, value: &Vec<T>, out: &mut Printer) {
        if value.is_empty() {
            return out.comment(&self.row(key), &format!("({})", self.meaning));
        }
        let values: Vec<String> = value.iter().map(Scalar::literal).collect();
        out.value(&self.row(key), &format!("[{}]", values.join(", ")));
    }
    fn collect_given(&self, key: &Key, value: &Vec<T>, given: &mut Given) {
        if !value.is_empty() {
            given.add(key);
        }
    }
    fn describe(&self, key: &Key, at: usize, tables: &mut Vec<TableDoc>) {
        tables[at].rows.push(self.row(key));
    }
}

/// A table of keys.
pub(crate) trait Section: Sized {
    /// The keys it takes, where they do not depend on its values.
    fn names() -> Vec<&'static str>;
    /// Reads the fields and checks them against each other; leaves unknown keys alone.
    fn read_fields(here: &Here, p: &mut Problems) -> Option<Self>;
    /// Reads the table.
    fn read(here: &Here, p: &mut Problems) -> Option<Self> {
        here.refuse_unknown(p, &Self::names());
        Self::read_fields(here, p)
    }
    /// Reads a whole file. Keys that it does not know are looked for in these forms.
    fn read_file(document: &Document, forms: &'static [Form]) -> Result<Self, Errors> {
        let mut p = Problems::knowing(&document.file, forms);
        let section = Self::read(&Here { table: &document.root, path: String::new() }, &mut p);
        p.finish(section)
    }
    /// Prints the single values.
    fn print_values(&self, out: &mut Printer);
    /// Prints the tables in it.
    fn print_tables(&self, _out: &mut Printer) {}
    /// Prints a whole file.
    fn print_file(&self, mut out: Printer) -> String {
        self.print_values(&mut out);
        self.print_tables(&mut out);
        out.into_text()
    }
    /// Collects the keys that were given another value than their default.
    fn collect_given(&self, _given: &mut Given) {}
    /// Adds its keys to table `at` of the reference.
    fn describe(at: usize, tables: &mut Vec<TableDoc>);
}

/// Checks that need more than one key of a table.
pub(crate) trait Check {
    /// Tells what does not go together.
    fn check(&mut self, _here: &Here, _p: &mut Problems) {}
}

fn read_table<S: Section>(
    node: &Node,
    path: String,
    place: &Place,
    example: &str,
    p: &mut Problems,
) -> Option<S> {
    match node {
        Node::Table(table) => S::read(&Here { table, path }, p),
        other => {
            p.add(
                place,
                &path,
                Wrong::new(format!("cannot be {}", other.what()), format!("write {example}")),
            );
            None
        }
    }
}

fn read_section<S: Section>(key: &Key, entry: &Entry, here: &Here, p: &mut Problems) -> Option<S> {
    let example = format!("a table, `[{}]`", here.key(key.name));
    read_table(&entry.item.node, here.key(key.name), &entry.place, &example, p)
}

/// A table; if it is not written, all its keys are absent.
pub(crate) struct OneTable;

impl<S: Section> Rule<S> for OneTable {
    fn read(&self, key: &Key, here: &Here, p: &mut Problems) -> Option<S> {
        match here.table.get(key.name) {
            Some(entry) => read_section(key, entry, here, p),
            None => {
                let table = Table::absent(here.table.place.clone());
                S::read(&Here { table: &table, path: here.key(key.name) }, p)
            }
        }
    }
    fn print_tables(&self, key: &Key, value: &S, out: &mut Printer) {
        out.table(key, value);
    }
    fn collect_given(&self, key: &Key, value: &S, given: &mut Given) {
        given.inside(key.name, value);
    }
    fn describe(&self, key: &Key, at: usize, tables: &mut Vec<TableDoc>) {
        describe_table::<S>(key, at, "", tables);
    }
}

/// A table whose absence means something.
pub(crate) struct OptionalTable;

impl<S: Section> Rule<Option<S>> for OptionalTable {
    fn read(&self, key: &Key, here: &Here, p: &mut Problems) -> Option<Option<S>> {
        match here.table.get(key.name) {
            Some(entry) => read_section(key, entry, here, p).map(Some),
            None => Some(None),
        }
    }
    fn print_tables(&self, key: &Key, value: &Option<S>, out: &mut Printer) {
        if let Some(value) = value {
            out.table(key, value);
        }
    }
    fn collect_given(&self, key: &Key, value: &Option<S>, given: &mut Given) {
        // Where the table itself is wanted, its keys add nothing.
        if let Some(value) = value
            && !given.add(key)
        {
            given.inside(key.name, value);
        }
    }
    fn describe(&self, key: &Key, at: usize, tables: &mut Vec<TableDoc>) {
        describe_table::<S>(key, at, " (optional)", tables);
    }
}

/// A list of tables; if it is written, at least one is in it.
pub(crate) struct Tables {
    needed: bool,
    /// Whether a table by itself is a list of one.
    alone: bool,
}

/// A list of tables that must be there.
pub(crate) const TABLES: Tables = Tables { needed: true, alone: false };
/// A list of tables whose absence means something.
pub(crate) const OPTIONAL_TABLES: Tables = Tables { needed: false, alone: false };
/// One table or a list of them, whose absence means something.
pub(crate) const OPTIONAL_TABLE_OR_TABLES: Tables = Tables { needed: false, alone: true };

/// The path of an element of a list that may be written as one table, for messages.
pub(crate) fn element_key(here: &Here, name: &str, index: usize) -> String {
    match here.table.get(name).map(|entry| &entry.item.node) {
        Some(Node::Table(_)) => name.to_string(),
        _ => format!("{name}.{index}"),
    }
}

impl<S: Section> Rule<Vec<S>> for Tables {
    fn read(&self, key: &Key, here: &Here, p: &mut Problems) -> Option<Vec<S>> {
        let path = here.key(key.name);
        let example = format!("a list of tables, each under `[[{path}]]`");
        let Some(entry) = here.table.get(key.name) else {
            if !self.needed {
                return Some(Vec::new());
            }
            here.wrong(p, key.name, "is missing", format!("add {example}"));
            return None;
        };
        if self.alone && matches!(entry.item.node, Node::Table(_)) {
            return read_section(key, entry, here, p).map(|table| vec![table]);
        }
        let Node::List(items) = &entry.item.node else {
            let problem = format!("cannot be {}", entry.item.node.what());
            p.add(&entry.place, &path, Wrong::new(problem, format!("write {example}")));
            return None;
        };
        if items.is_empty() {
            p.add(&entry.place, &path, Wrong::new("is empty", format!("write {example}")));
            return None;
        }
        // Collect after reading all of them: one wrong table must not hide the problems of the next.
        let read = |(i, item): (usize, &Item)| {
            read_table(&item.node, format!("{path}.{i}"), &item.place, &example, p)
        };
        let tables: Vec<Option<S>> = items.iter().enumerate().map(read).collect();
        tables.into_iter().collect()
    }
    fn print_tables(&self, key: &Key, value: &Vec<S>, out: &mut Printer) {
        if out.omits(key) {
            return;
        }
        if let ([table], true) = (&value[..], self.alone) {
            return out.table(key, table);
        }
        for (i, table) in value.iter().enumerate() {
            out.element(key, i, table);
        }
    }
    fn collect_given(&self, key: &Key, value: &Vec<S>, given: &mut Given) {
        if let ([table], true) = (&value[..], self.alone) {
            return given.inside(key.name, table);
        }
        for (i, table) in value.iter().enumerate() {
            given.inside(&format!("{}.{i}", key.name), table);
        }
    }
    fn describe(&self, key: &Key, at: usize, tables: &mut Vec<TableDoc>) {
        let mark = if self.needed { " (once or more)" } else { " (optional, once or more)" };
        let table = tables.len();
        if self.alone {
            return describe_table::<S>(key, at, " (optional)", tables);
        }
        describe_table::<S>(key, at, mark, tables);
        tables[table].path = format!("[{}]", tables[table].path);
    }
}

/// Fields that are a type of their own but keys of the table they stand in.
pub(crate) struct Flat;

impl<S: Section> Rule<S> for Flat {
    fn names(&self, _key: &Key) -> Vec<&'static str> {
        S::names()
    }
    fn read(&self, _key: &Key, here: &Here, p: &mut Problems) -> Option<S> {
        S::read_fields(here, p)
    }
    fn print_value(&self, _key: &Key, value: &S, out: &mut Printer) {
        value.print_values(out);
    }
    fn print_tables(&self, _key: &Key, value: &S, out: &mut Printer) {
        value.print_tables(out);
    }
    fn collect_given(&self, _key: &Key, value: &S, given: &mut Given) {
        value.collect_given(given);
    }
    fn describe(&self, _key: &Key, at: usize, tables: &mut Vec<TableDoc>) {
        S::describe(at, tables);
    }
}

/// The key that a field of `section!` declares.
macro_rules! key {
    ($field:ident [$($doc:literal)+]) => { key!($field [$($doc)+] $crate::schema::ALL_ARMS) };
    ($field:ident [$($doc:literal)+] $arms:expr) => {
        $crate::schema::Key { name: stringify!($field), doc: concat!($($doc),+), arms: $arms }
    };
}

/// Declares a table: each field is a key with its type, its rule and its meaning, and after an arrow what can
/// play it, if not everything can.
macro_rules! section {
    ($(#[$outer:meta])* pub struct $name:ident {$(
        $(#[doc = $doc:literal])+
        $field:ident: $ty:ty = $rule:expr $(=> [$($arm:ident),+])?;
    )*}) => {
        $(#[$outer])*
        #[derive(Clone, PartialEq, Debug)]
        pub struct $name {$(
            $(#[doc = $doc])+
            pub $field: $ty,
        )*}

        impl $crate::schema::Section for $name {
            fn names() -> Vec<&'static str> {
                let mut names = Vec::new();
                $({
                    let key = key!($field [$($doc)+]);
                    names.extend($crate::schema::Rule::<$ty>::names(&$rule, &key));
                })*
                names
            }

            fn read_fields(
                here: &$crate::schema::Here,
                p: &mut $crate::problems::Problems,
            ) -> Option<Self> {
                // All fields are read before the first failure returns, so that all problems are told.
                $(let $field: Option<$ty> = {
                    let key = key!($field [$($doc)+]);
                    $crate::schema::Rule::<$ty>::read(&$rule, &key, here, p)
                };)*
                let mut value = $name { $($field: $field?),* };
                $crate::schema::Check::check(&mut value, here, p);
                Some(value)
            }

            fn print_values(&self, out: &mut $crate::schema::Printer) {
                $({
                    let key = key!($field [$($doc)+]);
                    $crate::schema::Rule::<$ty>::print_value(&$rule, &key, &self.$field, out);
                })*
            }

            fn print_tables(&self, out: &mut $crate::schema::Printer) {
                $({
                    let key = key!($field [$($doc)+]);
                    $crate::schema::Rule::<$ty>::print_tables(&$rule, &key, &self.$field, out);
                })*
            }

            fn collect_given(&self, given: &mut $crate::schema::Given) {
                $({
                    let key = key!($field [$($doc)+] $(&[$($crate::schema::Arm::$arm),+])?);
                    $crate::schema::Rule::<$ty>::collect_given(&$rule, &key, &self.$field, given);
                })*
            }

            fn describe(at: usize, tables: &mut Vec<$crate::table_doc::TableDoc>) {
                $({
                    let key = key!($field [$($doc)+]);
                    $crate::schema::Rule::<$ty>::describe(&$rule, &key, at, tables);
                })*
            }
        }
    };
}

/// The documentation of a declaration on one line.
pub(crate) fn tidy(doc: &str) -> String {
    doc.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Prints tables in canonical form, every key with its meaning and range.
pub(crate) struct Printer {
    text: String,
    path: String,
    swept: Vec<String>,
    omitted: &'static [&'static str],
    /// Remarks with the header they stand under: tables that are alike need them once.
    told: BTreeSet<String>,
}

impl Printer {
    /// `swept` are the keys that a sweep of the same file sets; `omitted` are tables at the top that do not
    /// go with others of the file.
    pub fn new(swept: Vec<String>, omitted: &'static [&'static str]) -> Printer {
        Printer { text: String::new(), path: String::new(), swept, omitted, told: BTreeSet::new() }
    }

    pub fn into_text(self) -> String {
        self.text
    }

    /// Whether the file sweeps a key of this table.
    pub fn in_sweep(&self) -> bool {
        let inside = |key: &String| key.strip_prefix(&self.path).is_some_and(|rest| rest.starts_with('.'));
        !self.path.is_empty() && self.swept.iter().any(inside)
    }

    /// A key that is in force.
    pub fn value(&mut self, row: &Row, literal: &str) {
        self.remark(row);
        self.text.push_str(&format!("{} = {literal}\n", row.name));
    }

    /// A key that is not set; where that was remarked before, it needs no further line.
    pub fn comment(&mut self, row: &Row, instead: &str) {
        if self.remark(row) {
            self.text.push_str(&format!("# {} = {instead}\n", row.name));
        }
    }

    /// Whether the remark is there for the first time.
    fn remark(&mut self, row: &Row) -> bool {
        let range = if row.range.is_empty() { String::new() } else { format!(" Range: {}.", row.range) };
        self.note(&format!("{}{range}", row.doc))
    }

    /// A comment, in lines of readable length, unless it stands in a table like this one already; whether it
    /// is new.
    pub fn note(&mut self, text: &str) -> bool {
        const WIDTH: usize = 100;
        if !self.told.insert(format!("{}: {text}", self.header())) {
            return false;
        }
        let mut line = String::from("#");
        for word in text.split_whitespace() {
            if line.len() + 1 + word.len() > WIDTH {
                self.text.push_str(&line);
                self.text.push('\n');
                line = String::from("#");
            }
            line.push(' ');
            line.push_str(word);
        }
        self.text.push_str(&line);
        self.text.push('\n');
        true
    }

    /// A line as it is.
    pub fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// Whether this table at the top is left out.
    fn omits(&self, key: &Key) -> bool {
        self.path.is_empty() && self.omitted.contains(&key.name)
    }

    fn table<S: Section>(&mut self, key: &Key, value: &S) {
        if self.omits(key) {
            return;
        }
        self.inside(key.name, |out| {
            out.line(&format!("\n[{}]", out.header()));
            value.print_values(out);
            value.print_tables(out);
        });
    }

    fn element<S: Section>(&mut self, key: &Key, index: usize, value: &S) {
        self.inside(&format!("{}.{index}", key.name), |out| {
            out.line(&format!("\n[[{}]]", out.header()));
            value.print_values(out);
            value.print_tables(out);
        });
    }

    /// The path as headers have it: there the last element of a list is meant, which needs no number.
    fn header(&self) -> String {
        let named = |part: &&str| part.parse::<usize>().is_err();
        self.path.split('.').filter(named).collect::<Vec<_>>().join(".")
    }

    fn inside(&mut self, name: &str, print: impl FnOnce(&mut Printer)) {
        let outer = self.path.clone();
        self.path = if outer.is_empty() { name.to_string() } else { format!("{outer}.{name}") };
        print(self);
        self.path = outer;
    }
}

fn describe_table<S: Section>(key: &Key, at: usize, mark: &str, tables: &mut Vec<TableDoc>) {
    let outer = &tables[at].path;
    let path = if outer.is_empty() { key.name.to_string() } else { format!("{outer}.{}", key.name) };
    let note = format!("{}{mark}", tidy(key.doc));
    tables.push(TableDoc { path, note, rows: Vec::new(), after: String::new() });
    S::describe(tables.len() - 1, tables);
}

/// All tables of a file form, with the keys at its top first.
pub(crate) fn tables_of<S: Section>() -> Vec<TableDoc> {
    let top = TableDoc { path: String::new(), note: String::new(), rows: Vec::new(), after: String::new() };
    let mut tables = vec![top];
    S::describe(0, &mut tables);
    tables
}

/// The reference of a file form as Markdown.
pub(crate) fn reference<S: Section>(title: &str, intro: &str) -> String {
    let tables = tables_of::<S>();
    let mut text = format!("# {title}\n\n{intro}\n");
    for (i, table) in tables.iter().enumerate().filter(|(_, t)| !(t.rows.is_empty() && t.note.is_empty())) {
        let heading = if table.path.is_empty() { "Top".into() } else { format!("`[{}]`", table.path) };
        text.push_str(&format!("\n## {heading}\n\n"));
        if !table.note.is_empty() {
            text.push_str(&format!("{}\n\n", table.note));
        }
        text.push_str(&markdown_rows(&table.rows));
        // What two tables have in common is written once.
        match tables[..i].iter().find(|t| !t.after.is_empty() && t.after == table.after) {
            Some(same) => text.push_str(&format!("\nAll else as in `[{}]`.\n", same.path)),
            None => text.push_str(&table.after),
        }
    }
    text
}
