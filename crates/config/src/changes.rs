//! What differs between two configurations, key by key.

use crate::document::Document;
use crate::experiment::Scenario;
use crate::plans::PlansFile;
use crate::run_config::RunConfig;
use crate::steer_config::SteerConfig;
use crate::tree::{Node, Table};
use crate::upf_config::UpfConfig;
use std::collections::BTreeMap;

/// A key whose value differs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Changed {
    /// The key, in the form that `--set` takes.
    pub key: String,
    /// What it was, in TOML; `None` where it was absent.
    pub from: Option<String>,
    /// What it is to be.
    pub to: Option<String>,
}

/// Every key of a canonical form with its value in TOML, in the order of the alphabet.
pub fn values(toml: &str) -> BTreeMap<String, String> {
    let mut values = BTreeMap::new();
    // The canonical form is TOML, which a test asserts of every file.
    if let Ok(document) = Document::parse("", toml) {
        flatten("", &document.root, &mut values);
    }
    values
}

/// The keys whose values differ.
fn changes(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> Vec<Changed> {
    let keys: std::collections::BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let changed = keys.into_iter().filter(|key| before.get(*key) != after.get(*key));
    changed
        .map(|key| Changed { key: key.clone(), from: before.get(key).cloned(), to: after.get(key).cloned() })
        .collect()
}

/// What can be looked at and changed key by key while it is in force.
macro_rules! compared {
    ($($config:ty),*) => {$(
        impl $config {
            /// Every key that is in force with its value in TOML, in the order of the alphabet.
            pub fn values(&self) -> BTreeMap<String, String> {
                values(&self.to_toml())
            }

            /// The keys whose values differ in `to`.
            pub fn changes(&self, to: &Self) -> Vec<Changed> {
                changes(&self.values(), &to.values())
            }
        }
    )*};
}

compared!(PlansFile, RunConfig, SteerConfig, UpfConfig, Scenario);

fn flatten(prefix: &str, table: &Table, values: &mut BTreeMap<String, String>) {
    for entry in &table.entries {
        let key = if prefix.is_empty() { entry.key.clone() } else { format!("{prefix}.{}", entry.key) };
        match &entry.item.node {
            Node::Table(table) => flatten(&key, table, values),
            // Tables in a list have their places for names, as `--set` takes them.
            Node::List(items) if items.iter().any(|item| matches!(item.node, Node::Table(_))) => {
                for (place, item) in items.iter().enumerate() {
                    if let Node::Table(table) = &item.node {
                        flatten(&format!("{key}.{place}"), table, values);
                    }
                }
            }
            value => drop(values.insert(key, value.literal())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_differ_are_told_with_both_values() {
        let file =
            "ports = { a = \"x\", b = \"y\" }\na_to_b = { rate = \"5Mbit/s\", aqm = { name = \"codel\" } }\n";
        let one = RunConfig::parse("f", file).unwrap();
        assert_eq!(one.changes(&one), []);
        assert_eq!(one.values()["a_to_b.rate"], "\"5Mbit/s\"");
        let other = file.replace("5Mbit/s", "6Mbit/s").replace("\"codel\"", "\"codel\", target = \"7ms\"");
        let other = RunConfig::parse("f", &format!("{other}run = {{ duration = \"9s\" }}\n")).unwrap();
        let changed = one.changes(&other);
        let keys: Vec<&str> = changed.iter().map(|changed| changed.key.as_str()).collect();
        assert_eq!(keys, ["a_to_b.aqm.target", "a_to_b.rate", "run.duration"]);
        assert_eq!(
            (changed[0].from.as_deref(), changed[0].to.as_deref()),
            (Some("\"5ms\""), Some("\"7ms\""))
        );
        assert_eq!(changed[2].from, None);
    }
}
