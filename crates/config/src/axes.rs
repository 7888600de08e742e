//! The axes of a sweep as they stand in the tree of a file.

use crate::errors::{Place, Wrong, shown_key};
use crate::limits::MAX_NESTING;
use crate::near::nearest;
use crate::problems::Problems;
use crate::tree::{Entry, Item, Node, Table, quote};
use std::collections::BTreeSet;

/// The table of `[sweep]` whose tables are axes of schemes.
pub(crate) const SCHEMES: &str = "schemes";
/// The key of a scheme that lists what it takes out of the file.
const WITHOUT: &str = "without";
/// Columns of the tables of a sweep that are no axes.
const TAKEN: &[&str] = &["point", "seed", "seeds", "trace_hash"];
/// Longest name of an axis or a scheme, in bytes.
const NAME_MAX: usize = 60;

/// An axis with its values as they were read.
pub(crate) struct Values<'a> {
    /// Its name in tables and figures: the key itself where none was given.
    pub name: String,
    /// The key that it sets; none where its values are schemes, which may set several.
    pub key: Option<String>,
    pub place: &'a Place,
    pub items: Vec<Choice<'a>>,
}

/// One value of an axis: what it is called and what it changes.
pub(crate) struct Choice<'a> {
    pub name: String,
    pub place: &'a Place,
    pub changes: Vec<Change<'a>>,
}

/// A change of the file.
pub(crate) enum Change<'a> {
    /// Takes out what has this path.
    Remove(String, &'a Place),
    /// Puts a value at this path, in place of what is there.
    Put(String, &'a Item),
}

impl Change<'_> {
    pub fn path(&self) -> &str {
        match self {
            Change::Remove(path, _) | Change::Put(path, _) => path,
        }
    }

    fn place(&self) -> &Place {
        match self {
            Change::Remove(_, place) => place,
            Change::Put(_, item) => &item.place,
        }
    }

    /// The number of values that it puts.
    fn size(&self) -> usize {
        match self {
            Change::Remove(..) => 0,
            Change::Put(_, item) => item.node.size(),
        }
    }
}

impl Choice<'_> {
    pub fn size(&self) -> usize {
        self.changes.iter().map(Change::size).sum()
    }

    /// The changes as one inline table, for the canonical form of a file.
    pub fn literal(&self) -> String {
        let put = |change: &Change| match change {
            Change::Put(path, item) => Some(format!("{} = {}", quote(path), item.node.literal())),
            Change::Remove(..) => None,
        };
        let mut entries: Vec<String> = self.changes.iter().filter_map(put).collect();
        let removed = self.changes.iter().filter(|c| matches!(c, Change::Remove(..)));
        let removed: Vec<String> = removed.map(|c| quote(c.path())).collect();
        if !removed.is_empty() {
            entries.push(format!("{WITHOUT} = [{}]", removed.join(", ")));
        }
        format!("{{ {} }}", entries.join(", "))
    }
}

impl Values<'_> {
    /// Every key that it changes, each once.
    pub fn keys(&self) -> Vec<String> {
        let mut keys: Vec<String> = Vec::new();
        for change in self.items.iter().flat_map(|item| &item.changes) {
            if !keys.iter().any(|key| key == change.path()) {
                keys.push(change.path().to_string());
            }
        }
        keys
    }

    /// How it is called in messages.
    pub fn shown(&self) -> String {
        match &self.key {
            Some(key) => format!("sweep.{}", shown_key(key)),
            None => format!("sweep.{SCHEMES}.{}", shown_key(&self.name)),
        }
    }
}

/// Finds the axes: quoted keys (`"aqm.name"`), or dotted ones, which TOML makes tables of, and those of
/// `schemes`.
pub(crate) fn collect<'a>(table: &'a Table, p: &mut Problems) -> Vec<Values<'a>> {
    let mut axes = Vec::new();
    collect_in(table, "", &mut axes, p);
    axes
}

fn collect_in<'a>(table: &'a Table, prefix: &str, axes: &mut Vec<Values<'a>>, p: &mut Problems) {
    for Entry { key, place, item } in &table.entries {
        if prefix.is_empty() && key == SCHEMES {
            collect_schemes(item, place, axes, p);
            continue;
        }
        let key = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        let path = format!("sweep.{}", shown_key(&key));
        let values = match &item.node {
            Node::Table(inner) if inner.has("values") => {
                let Some((name, values)) = named(inner, &path, p) else { continue };
                (name, values)
            }
            Node::Table(inner) => {
                collect_in(inner, &key, axes, p);
                continue;
            }
            node => (key.clone(), node),
        };
        match values {
            (name, Node::List(items)) if !items.is_empty() => {
                let choice = |item: &'a Item| Choice {
                    name: plain(&item.node),
                    place: &item.place,
                    changes: vec![Change::Put(key.clone(), item)],
                };
                let items = items.iter().map(choice).collect();
                axes.push(Values { name, key: Some(key), place, items });
            }
            (_, other) => {
                let what = if matches!(other, Node::List(_)) { "an empty list".into() } else { other.what() };
                let remedy = "write a list of the values it takes, such as [\"1ms\", \"5ms\"]";
                p.add(place, &path, Wrong::new(format!("cannot be {what}"), remedy));
            }
        }
    }
}

/// The name and the values of an axis of the form `{ name = "flows", values = [...] }`.
fn named<'a>(table: &'a Table, path: &str, p: &mut Problems) -> Option<(String, &'a Node)> {
    let mut name = None;
    for entry in &table.entries {
        match (entry.key.as_str(), &entry.item.node) {
            ("values", _) => {}
            ("name", Node::Text(text)) => name = Some(text.clone()),
            (key, node) => {
                let problem = match key {
                    "name" => format!("cannot be {}", node.what()),
                    _ => "is unknown".to_string(),
                };
                let remedy = "an axis is a list, or `{ name = \"flows\", values = [2, 9] }`";
                p.add(&entry.place, &format!("{path}.{}", shown_key(key)), Wrong::new(problem, remedy));
                return None;
            }
        }
    }
    let values = &table.get("values").expect("it has values").item.node;
    Some((name.unwrap_or_else(|| path.trim_start_matches("sweep.").to_string()), values))
}

const SCHEME: &str = "write `[sweep.schemes.policy]`, and under it a line for each scheme, with its name: \
    `\"steered\" = { aqm = { name = \"...\" }, policy = { target_max = \"30ms\" } }`";

fn collect_schemes<'a>(item: &'a Item, place: &'a Place, axes: &mut Vec<Values<'a>>, p: &mut Problems) {
    let mut refuse =
        |place: &Place, path: &str, problem: String| p.add(place, path, Wrong::new(problem, SCHEME));
    let path = format!("sweep.{SCHEMES}");
    let Node::Table(table) = &item.node else {
        return refuse(place, &path, format!("cannot be {}", item.node.what()));
    };
    for axis in &table.entries {
        let path = format!("{path}.{}", shown_key(&axis.key));
        let Node::Table(schemes) = &axis.item.node else {
            refuse(&axis.place, &path, format!("cannot be {}", axis.item.node.what()));
            continue;
        };
        if schemes.entries.is_empty() {
            refuse(&axis.place, &path, "has no scheme".to_string());
            continue;
        }
        let mut items = Vec::new();
        for scheme in &schemes.entries {
            let path = format!("{path}.{}", shown_key(&scheme.key));
            match &scheme.item.node {
                Node::Table(table) => items.push(Choice {
                    name: scheme.key.clone(),
                    place: &scheme.place,
                    changes: changes(table, &path, &mut refuse),
                }),
                other => refuse(&scheme.place, &path, format!("cannot be {}", other.what())),
            }
        }
        axes.push(Values { name: axis.key.clone(), key: None, place: &axis.place, items });
    }
}

/// What a scheme changes: first what it takes out, then what it puts.
fn changes<'a>(
    table: &'a Table,
    path: &str,
    refuse: &mut impl FnMut(&Place, &str, String),
) -> Vec<Change<'a>> {
    let mut changes = Vec::new();
    if let Some(Entry { item, place, .. }) = table.get(WITHOUT) {
        let path = format!("{path}.{WITHOUT}");
        match &item.node {
            Node::List(items) => {
                for item in items {
                    match &item.node {
                        Node::Text(text) => changes.push(Change::Remove(text.clone(), &item.place)),
                        other => refuse(&item.place, &path, format!("lists keys, not {}", other.what())),
                    }
                }
            }
            other => {
                refuse(place, &path, format!("is a list of keys, such as [\"policy\"], not {}", other.what()))
            }
        }
    }
    for entry in table.entries.iter().filter(|entry| entry.key != WITHOUT) {
        put(entry, &entry.key, &mut changes);
    }
    changes
}

/// A key with dots sets what it names and nothing beside it; a table in braces takes the place of the one of
/// the file.
fn put<'a>(entry: &'a Entry, path: &str, changes: &mut Vec<Change<'a>>) {
    match &entry.item.node {
        Node::Table(inner) if inner.is_dotted => {
            inner.entries.iter().for_each(|inner| put(inner, &format!("{path}.{}", inner.key), changes));
        }
        _ => changes.push(Change::Put(path.to_string(), &entry.item)),
    }
}

/// A value as a name: texts without their quotes.
fn plain(node: &Node) -> String {
    match node {
        Node::Text(text) => text.clone(),
        other => other.literal(),
    }
}

/// Tells axes that cannot be set or that would undo each other.
pub(crate) fn check_keys(axes: &[Values], p: &mut Problems) {
    for (i, axis) in axes.iter().enumerate() {
        let path = axis.shown();
        let is_name = |name: &str| !name.trim().is_empty() && name.len() <= NAME_MAX && !name.contains('\n');
        let others = || axes[..i].iter().any(|other| other.name == axis.name);
        if (axis.key.as_ref() != Some(&axis.name) && !is_name(&axis.name))
            || TAKEN.contains(&&*axis.name)
            || others()
        {
            let problem = format!("cannot be called {}", quote(&axis.name));
            let remedy = format!(
                "give each axis a name of its own of at most {NAME_MAX} bytes; {} are other columns",
                TAKEN.join(", ")
            );
            p.add(axis.place, &path, Wrong::new(problem, remedy));
        }
        let mut values = BTreeSet::new();
        // Schemes have names that TOML keeps apart.
        for choice in axis.items.iter().filter(|_| axis.key.is_some()) {
            if !values.insert(choice.name.as_str()) {
                let wrong = Wrong::new(format!("has {} twice", quote(&choice.name)), "name each value once");
                p.add(choice.place, &path, wrong);
            }
        }
        for choice in axis.items.iter().filter(|_| axis.key.is_none()) {
            if !is_name(&choice.name) {
                let remedy = format!("a name of at most {NAME_MAX} bytes tells it in tables and figures");
                p.add(choice.place, &path, Wrong::new("has a scheme without a short name", remedy));
            }
            for (n, change) in choice.changes.iter().enumerate() {
                let own = choice.changes[..n].iter().filter(|c| !matches!(c, Change::Remove(..)));
                if let Some(other) = own.into_iter().find(|o| overlap(o.path(), change.path())) {
                    let problem = format!(
                        "{} sets `{}` and `{}`, one of which is part of the other",
                        quote(&choice.name),
                        shown_key(other.path()),
                        shown_key(change.path())
                    );
                    p.add(change.place(), &path, Wrong::new(problem, "write them as one"));
                }
            }
        }
        for key in axis.keys() {
            let parts: Vec<&str> = key.split('.').collect();
            if parts.len() > MAX_NESTING || parts[0] == "sweep" || parts.iter().any(|part| part.is_empty()) {
                let wrong = Wrong::new("is no key that can be swept", "write it like `\"aqm.target\"`");
                p.add(axis.place, &path, wrong);
            }
            if matches!(parts[0], "record") || key == "run.seeds" {
                let problem = "has no meaning in a sweep";
                let remedy =
                    "set it outside of the table, or leave it out: a sweep has as many seeds for each point";
                p.add(axis.place, &path, Wrong::new(problem, remedy));
            }
            let other = axes[..i].iter().find(|o| o.keys().iter().any(|other| overlap(other, &key)));
            if let Some(other) = other {
                let (of, what) = match (&other.key, &axis.key) {
                    (Some(other), Some(_)) => (shown_key(other), String::new()),
                    _ => (other.shown(), format!(" (`{}`)", shown_key(&key))),
                };
                let problem = format!("sets what `{of}` sets too{what}");
                let remedy = "sweep one of them, with tables or schemes as values if need be";
                p.add(axis.place, &path, Wrong::new(problem, remedy));
                break;
            }
        }
    }
}

/// Tells what schemes take out although the file does not have it.
pub(crate) fn check_removals(axes: &[Values], root: &Table, p: &mut Problems) {
    for axis in axes {
        for change in axis.items.iter().flat_map(|item| &item.changes) {
            let Change::Remove(path, place) = change else { continue };
            let is_element = path.rsplit('.').next().is_some_and(|last| last.parse::<usize>().is_ok());
            if root.has_path(path) && !is_element {
                continue;
            }
            if is_element {
                let problem = format!("takes out `{}`, an element of a list", shown_key(path));
                let remedy = "put the whole list as the scheme has it";
                p.add(place, &format!("{}.{WITHOUT}", axis.shown()), Wrong::new(problem, remedy));
                continue;
            }
            let names = root.entries.iter().map(|e| e.key.as_str()).filter(|key| *key != "sweep");
            let meant =
                nearest(path, names).map_or(String::new(), |meant| format!("did you mean `{meant}`? "));
            let problem = format!("takes out `{}`, which the file does not have", shown_key(path));
            let remedy = format!("{meant}write that table outside of [sweep], or leave it out of `without`");
            p.add(place, &format!("{}.{WITHOUT}", axis.shown()), Wrong::new(problem, remedy));
        }
    }
}

/// Whether setting one of two keys changes the other.
fn overlap(a: &str, b: &str) -> bool {
    covers(a, b) || covers(b, a)
}

/// Whether setting `outer` sets `inner` too.
fn covers(outer: &str, inner: &str) -> bool {
    inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// The axes of a file, without what is wrong with them.
fn axes_of(root: &Table) -> Vec<Values<'_>> {
    let Some(Entry { item: Item { node: Node::Table(table), .. }, .. }) = root.get("sweep") else {
        return Vec::new();
    };
    collect(table, &mut Problems::new(""))
}

/// The axis of schemes, by its name, and the key of one of them that a setting from outside would contradict:
/// the scheme would undo the setting.
pub(crate) fn scheme_that_sets(root: &Table, key: &str) -> Option<(String, String)> {
    let schemes = axes_of(root).into_iter().filter(|axis| axis.key.is_none());
    schemes.into_iter().find_map(|axis| {
        let set = axis.keys().into_iter().find(|own| overlap(own, key))?;
        Some((axis.name, set))
    })
}

/// Removes the axes that a setting from outside replaces.
pub(crate) fn forget_axis(root: &mut Table, key: &str) {
    let sweep = root.entries.iter_mut().find(|e| e.key == "sweep");
    if let Some(Entry { item: Item { node: Node::Table(table), .. }, .. }) = sweep {
        forget(table, "", key);
    }
}

/// Where the axis of a key was written, if it is swept.
pub(crate) fn axis_of(root: &Table, key: &str) -> Option<Place> {
    let axes = axes_of(root);
    let sets = |axis: &&Values| axis.keys().iter().any(|own| covers(own, key));
    axes.iter().find(sets).map(|axis| axis.place.clone())
}

fn forget(table: &mut Table, prefix: &str, key: &str) {
    table.entries.retain_mut(|entry| {
        if prefix.is_empty() && entry.key == SCHEMES {
            return true;
        }
        let path = if prefix.is_empty() { entry.key.clone() } else { format!("{prefix}.{}", entry.key) };
        if let Node::Table(inner) = &mut entry.item.node
            && !inner.has("values")
        {
            forget(inner, &path, key);
        }
        !covers(key, &path)
    });
}
