//! The axes of a sweep as they stand in the tree of a file.

use crate::errors::{Place, Wrong, shown_key};
use crate::limits::MAX_NESTING;
use crate::problems::Problems;
use crate::tree::{Entry, Item, Node, Table};

/// An axis with its values as they were read.
pub(crate) struct Values<'a> {
    pub key: String,
    pub place: &'a Place,
    pub items: &'a [Item],
}

/// Finds the axes: quoted keys (`"aqm.name"`), or dotted ones, which TOML makes tables of.
pub(crate) fn collect<'a>(table: &'a Table, prefix: &str, axes: &mut Vec<Values<'a>>, p: &mut Problems) {
    for Entry { key, place, item } in &table.entries {
        let key = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        let path = format!("sweep.{}", shown_key(&key));
        match &item.node {
            Node::Table(inner) => collect(inner, &key, axes, p),
            Node::List(items) if !items.is_empty() => axes.push(Values { key, place, items }),
            other => {
                let what = if matches!(other, Node::List(_)) { "an empty list".into() } else { other.what() };
                let remedy = "write a list of the values it takes, such as [\"1ms\", \"5ms\"]";
                p.add(place, &path, Wrong::new(format!("cannot be {what}"), remedy));
            }
        }
    }
}

/// Tells axes that cannot be set or that would undo each other.
pub(crate) fn check_keys(axes: &[Values], p: &mut Problems) {
    for (i, axis) in axes.iter().enumerate() {
        let parts: Vec<&str> = axis.key.split('.').collect();
        let path = format!("sweep.{}", shown_key(&axis.key));
        if parts.len() > MAX_NESTING || parts[0] == "sweep" || parts.iter().any(|part| part.is_empty()) {
            let wrong = Wrong::new("is no key that can be swept", "write it like `\"aqm.target\"`");
            p.add(axis.place, &path, wrong);
        }
        if matches!(parts[0], "record") || axis.key == "run.seeds" {
            let problem = "has no meaning in a sweep";
            let remedy =
                "set it outside of the table, or leave it out: a sweep has as many seeds for each point";
            p.add(axis.place, &path, Wrong::new(problem, remedy));
        }
        if let Some(other) = axes[..i].iter().find(|o| covers(&o.key, &axis.key) || covers(&axis.key, &o.key))
        {
            let problem = format!("sets what `{}` sets too", shown_key(&other.key));
            p.add(
                axis.place,
                &path,
                Wrong::new(problem, "sweep one of them, with tables as values if need be"),
            );
        }
    }
}

/// Whether setting `outer` sets `inner` too.
fn covers(outer: &str, inner: &str) -> bool {
    inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
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
    let Node::Table(table) = &root.get("sweep")?.item.node else { return None };
    let quoted = table.get(key).map(|entry| entry.place.clone());
    quoted.or_else(|| {
        // A key without quotes is a table in a table.
        let mut parts = key.split('.');
        let mut entry = table.get(parts.next()?)?;
        for part in parts {
            let Node::Table(inner) = &entry.item.node else { return None };
            entry = inner.get(part)?;
        }
        Some(entry.place.clone())
    })
}

fn forget(table: &mut Table, prefix: &str, key: &str) {
    table.entries.retain_mut(|entry| {
        let path = if prefix.is_empty() { entry.key.clone() } else { format!("{prefix}.{}", entry.key) };
        if let Node::Table(inner) = &mut entry.item.node {
            forget(inner, &path, key);
        }
        !covers(key, &path)
    });
}
