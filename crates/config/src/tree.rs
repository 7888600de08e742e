//! The values of a TOML file as a tree in which each knows its line.

use crate::errors::{Place, Wrong, quoted};

/// A value and where it was written.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub node: Node,
    pub place: Place,
}

/// A TOML value.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    Text(String),
    /// Saturated to the range of the type; no key takes a number that large.
    Int(i128),
    Float(f64),
    Flag(bool),
    Date(String),
    List(Vec<Item>),
    Table(Table),
}

impl Node {
    /// A single value as it was written, for messages; never longer than a line.
    pub fn shown(&self) -> String {
        match self {
            Node::Text(text) => quoted(text),
            Node::List(_) => "a list".to_string(),
            Node::Table(_) => "a table".to_string(),
            other => other.literal(),
        }
    }

    /// What this is, for messages about a wrong type.
    pub fn what(&self) -> String {
        match self {
            Node::Text(text) => format!("the text {}", quoted(text)),
            Node::Int(n) => format!("the number {n}"),
            Node::Float(x) => format!("the number {x:?}"),
            Node::Flag(flag) => format!("{flag}"),
            Node::Date(date) => format!("the date {date}"),
            Node::List(_) => "a list".to_string(),
            Node::Table(_) => "a table".to_string(),
        }
    }

    /// Whether it is a table whose `name` is this.
    fn is_called(&self, name: &str) -> bool {
        let Node::Table(table) = self else { return false };
        table.get("name").is_some_and(|entry| matches!(&entry.item.node, Node::Text(text) if text == name))
    }

    /// The number of values in it.
    pub fn size(&self) -> usize {
        match self {
            Node::List(items) => 1 + items.iter().map(|i| i.node.size()).sum::<usize>(),
            Node::Table(table) => table.size(),
            _ => 1,
        }
    }

    /// The value as TOML on one line.
    pub fn literal(&self) -> String {
        match self {
            Node::Text(text) => quote(text),
            Node::Int(n) => n.to_string(),
            Node::Float(x) => format!("{x:?}").replace("NaN", "nan"),
            Node::Flag(flag) => flag.to_string(),
            Node::Date(date) => date.clone(),
            Node::List(items) => {
                let items: Vec<String> = items.iter().map(|i| i.node.literal()).collect();
                format!("[{}]", items.join(", "))
            }
            Node::Table(table) => {
                let entry = |e: &Entry| format!("{} = {}", quote(&e.key), e.item.node.literal());
                let entries: Vec<String> = table.entries.iter().map(entry).collect();
                format!("{{ {} }}", entries.join(", "))
            }
        }
    }
}

/// A key with its value.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub key: String,
    pub place: Place,
    pub item: Item,
}

/// A table, in the order of the file.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub entries: Vec<Entry>,
    pub place: Place,
    /// Whether keys with dots made it (`aqm.name = "gsp"`), so that it was not written as a whole.
    pub is_dotted: bool,
}

impl Table {
    /// A table that was not written; problems of what is missing in it are told at `place`.
    pub fn absent(place: Place) -> Table {
        Table { entries: Vec::new(), place, is_dotted: false }
    }

    pub fn get(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|e| e.key == key)
    }

    /// The number of values in it.
    pub fn size(&self) -> usize {
        1 + self.entries.iter().map(|e| e.item.node.size()).sum::<usize>()
    }

    pub fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// Whether there is something at a dotted path.
    pub fn has_path(&self, path: &str) -> bool {
        let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
        let Some(entry) = self.get(first) else { return false };
        rest.is_none_or(|rest| has_path(&entry.item.node, rest))
    }

    /// A path in which elements of lists have their number, where it has the `name` of one.
    pub fn numbered(&self, path: &[&str]) -> String {
        let mut parts: Vec<String> = Vec::new();
        let mut node: Option<&Node> = None;
        for (at, part) in path.iter().enumerate() {
            let mut part = part.to_string();
            node = match node {
                None if at == 0 => self.get(&part).map(|entry| &entry.item.node),
                Some(Node::Table(table)) => table.get(&part).map(|entry| &entry.item.node),
                Some(Node::List(items)) => {
                    // Numbers first, whatever somebody is called.
                    let number = part.parse().ok();
                    let number = number.or_else(|| items.iter().position(|item| item.node.is_called(&part)));
                    part = number.map_or(part, |number: usize| number.to_string());
                    number.and_then(|number| items.get(number)).map(|item| &item.node)
                }
                _ => None,
            };
            parts.push(part);
        }
        parts.join(".")
    }

    /// Where the deepest part of a dotted path was written that is there at all.
    pub fn place_of(&self, path: &str) -> Place {
        let mut place = self.place.clone();
        let mut node: Option<&Node> = None;
        for part in path.split('.') {
            let entry = match node {
                None => self.get(part).map(|e| (&e.place, &e.item.node)),
                Some(Node::Table(table)) => table.get(part).map(|e| (&e.place, &e.item.node)),
                Some(Node::List(items)) => {
                    part.parse().ok().and_then(|i: usize| items.get(i)).map(|i| (&i.place, &i.node))
                }
                Some(_) => None,
            };
            let Some((at, next)) = entry else { break };
            place = at.clone();
            node = Some(next);
        }
        place
    }

    /// Puts `item` at the path, over what is there.
    pub fn put(&mut self, path: &[&str], item: Item) -> Result<(), Wrong> {
        let (first, rest) = path.split_first().ok_or_else(|| Wrong::new("is empty", "name a key"))?;
        if !self.has(first) {
            let empty =
                Item { node: Node::Table(Table::absent(item.place.clone())), place: item.place.clone() };
            self.entries.push(Entry { key: first.to_string(), place: item.place.clone(), item: empty });
        }
        let entry = self.entries.iter_mut().find(|e| e.key == *first).expect("it was just put there");
        if rest.is_empty() {
            entry.place = item.place.clone();
        }
        put(&mut entry.item, first, rest, item)
    }

    /// Takes out what has this path, where there is something.
    pub fn remove(&mut self, path: &[&str]) {
        match path {
            [] => {}
            [key] => self.entries.retain(|entry| entry.key != *key),
            [first, rest @ ..] => {
                let entry = self.entries.iter_mut().find(|entry| entry.key == *first);
                entry.into_iter().for_each(|entry| remove(&mut entry.item.node, rest));
            }
        }
    }
}

fn has_path(node: &Node, path: &str) -> bool {
    match node {
        Node::Table(table) => table.has_path(path),
        Node::List(items) => {
            let (first, rest) =
                path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
            let item = first.parse().ok().and_then(|i: usize| items.get(i));
            item.is_some_and(|item| rest.is_none_or(|rest| has_path(&item.node, rest)))
        }
        _ => false,
    }
}

fn remove(slot: &mut Node, path: &[&str]) {
    match slot {
        Node::Table(table) => table.remove(path),
        Node::List(items) => {
            let Some((first, rest)) = path.split_first() else { return };
            if let Some(item) = first.parse().ok().and_then(|i: usize| items.get_mut(i)) {
                remove(&mut item.node, rest);
            }
        }
        _ => {}
    }
}

fn put(slot: &mut Item, name: &str, path: &[&str], item: Item) -> Result<(), Wrong> {
    let Some((first, rest)) = path.split_first() else {
        *slot = item;
        return Ok(());
    };
    match &mut slot.node {
        Node::Table(table) => table.put(path, item),
        Node::List(items) => {
            let count = items.len();
            let chosen = first.parse().ok().and_then(|i: usize| items.get_mut(i));
            let chosen = chosen.ok_or_else(|| {
                let problem = format!("`{name}` is a list of {count}");
                Wrong::new(problem, format!("name one of them by its number from 0, such as `{name}.0`"))
            })?;
            put(chosen, first, rest, item)
        }
        other => {
            let problem = format!("`{name}` is {}, not a table", other.what());
            Err(Wrong::new(problem, "name a key that exists"))
        }
    }
}

/// A text as a TOML string.
pub(crate) fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c.is_control() => out.push_str(&format!("\\u{:04X}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
