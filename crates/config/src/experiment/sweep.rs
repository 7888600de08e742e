//! Sweeps: one scenario file, many points.

use super::Scenario;
use crate::axes::{Change, SCHEMES, Values, check_keys, check_removals, collect};
use crate::document::Document;
use crate::errors::Wrong;
use crate::problems::Problems;
use crate::schema::{Here, Key, Printer, Rule, Section, tidy};
use crate::table_doc::TableDoc;
use crate::tree::{Entry, Item, Node, Table, quote};

/// Most points of a sweep.
pub const MAX_POINTS: usize = 100_000;

/// Most values over all points of a sweep: time and memory to keep the points grow with them.
pub const MAX_POINT_VALUES: usize = 5_000_000;

/// The axes of a sweep and the points they span; both empty in a file without one.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Sweep {
    /// The axes, in the order of the file.
    pub axes: Vec<Axis>,
    /// Every combination of the axes' values; the last axis varies fastest.
    pub points: Vec<Point>,
}

/// A key and the values it takes one after the other, or schemes, each of which changes several keys.
#[derive(Clone, PartialEq, Debug)]
pub struct Axis {
    /// Its name in tables and figures; that of a key which was given none is the key.
    pub name: String,
    /// The key, such as `aqm.name` or `flows.0.count`; none of schemes.
    pub key: Option<String>,
    /// The values, as TOML: of a key what it is set to, of schemes tables of their changes.
    pub values: Vec<String>,
    /// What the values are called, in the same order.
    pub names: Vec<String>,
    /// The keys that it changes.
    pub keys: Vec<String>,
}

impl Axis {
    fn of(values: &Values) -> Axis {
        let literal = |choice: &crate::axes::Choice| match (&values.key, &choice.changes[..]) {
            (Some(_), [Change::Put(_, item)]) => item.node.literal(),
            _ => choice.literal(),
        };
        Axis {
            name: values.name.clone(),
            key: values.key.clone(),
            values: values.items.iter().map(literal).collect(),
            names: values.items.iter().map(|choice| choice.name.clone()).collect(),
            keys: values.keys(),
        }
    }
}

/// One combination of the values of a sweep.
#[derive(Clone, PartialEq, Debug)]
pub struct Point {
    /// Names of the axes, and what the values are called that they have here, in the order of the axes.
    pub settings: Vec<(String, String)>,
    /// The scenario with these values. It has no sweep itself.
    pub scenario: Scenario,
}

impl Point {
    /// The settings in one text, such as `aqm.name=gsp, flows.0.count=9`.
    pub fn label(&self) -> String {
        label(&self.settings)
    }
}

fn label(settings: &[(String, String)]) -> String {
    let settings: Vec<String> = settings.iter().map(|(key, value)| format!("{key}={value}")).collect();
    settings.join(", ")
}

/// Reads and prints the `[sweep]` table. Its points are made afterwards, from the whole document.
pub(crate) struct SweepTable;

const EXAMPLE: &str = "Each key is a key of this file in quotes, its value the list of values it takes: \
    `\"aqm.name\" = [\"gsp\", \"codel\"]`, `\"flows.0.count\" = [2, 9, 36]`, or whole tables: \
    `\"aqm\" = [{ name = \"gsp\", target = \"5ms\" }, { name = \"codel\" }]`. \
    `{ name = \"flows\", values = [2, 9] }` in place of a list gives the axis a short name. Schemes change several \
    keys together, under a name: `[sweep.schemes.queue]` is an axis called `queue`, and each line below it a scheme, \
    `\"FQ-CoDel\" = { aqm = { name = \"codel\" }, queue.discipline = \"flow\", without = [\"policy\"] }`. A table in \
    braces takes the place of the file's, a key with dots sets itself alone, and `without` takes tables or keys out. \
    All combinations are run, the last axis varies fastest. The file must be a valid scenario without this table.";

impl Rule<Sweep> for SweepTable {
    fn read(&self, key: &Key, here: &Here, p: &mut Problems) -> Option<Sweep> {
        let Some(entry) = here.table.get(key.name) else { return Some(Sweep::default()) };
        let Node::Table(table) = &entry.item.node else {
            let problem = format!("cannot be {}", entry.item.node.what());
            p.add(&entry.place, key.name, Wrong::new(problem, "write a table, `[sweep]`"));
            return None;
        };
        let axes = collect(table, p);
        check_keys(&axes, p);
        check_removals(&axes, here.table, p);
        Some(Sweep { axes: axes.iter().map(Axis::of).collect(), points: Vec::new() })
    }

    fn print_tables(&self, _key: &Key, value: &Sweep, out: &mut Printer) {
        if value.axes.is_empty() {
            return;
        }
        out.line("\n[sweep]");
        for axis in &value.axes {
            let values = axis.values.join(", ");
            match &axis.key {
                Some(key) if *key == axis.name => out.line(&format!("{} = [{values}]", quote(key))),
                Some(key) => out.line(&format!(
                    "{} = {{ name = {}, values = [{values}] }}",
                    quote(key),
                    quote(&axis.name)
                )),
                None => {
                    for (name, changes) in axis.names.iter().zip(&axis.values) {
                        out.line(&format!("{SCHEMES}.{}.{} = {changes}", quote(&axis.name), quote(name)));
                    }
                }
            }
        }
    }

    fn describe(&self, key: &Key, _at: usize, tables: &mut Vec<TableDoc>) {
        let note = format!("{} (optional). {EXAMPLE}", tidy(key.doc).trim_end_matches('.'));
        tables.push(TableDoc { path: key.name.to_string(), note, rows: Vec::new(), after: String::new() });
    }
}

/// Makes every point of the sweep in a document and checks it.
pub(crate) fn points(doc: &Document, p: &mut Problems) -> Vec<Point> {
    let Some(Entry { item: Item { node: Node::Table(table), .. }, place, .. }) = doc.root.get("sweep") else {
        return Vec::new();
    };
    let axes = collect(table, p);
    if axes.is_empty() {
        return Vec::new();
    }
    let mut base = doc.root.clone();
    base.entries.retain(|e| e.key != "sweep");
    let Some(count) = affordable(&base, &axes) else {
        let problem =
            format!("has more than {MAX_POINTS} points, or {MAX_POINT_VALUES} values in all of them");
        p.add(place, "sweep", Wrong::new(problem, "sweep fewer values, or split the file"));
        return Vec::new();
    };
    let mut points = Vec::new();
    for index in 0..count {
        // Points that are wrong are mostly wrong alike; a full list of problems needs no more of them.
        if p.is_full() {
            break;
        }
        points.extend(point(&base, &axes, index, p));
    }
    points
}

/// The number of points, if they are within the limits.
fn affordable(base: &Table, axes: &[Values]) -> Option<usize> {
    let count = axes.iter().try_fold(1usize, |n, axis| n.checked_mul(axis.items.len()))?;
    let largest = |axis: &Values| axis.items.iter().map(|i| i.size()).max().unwrap_or(0);
    let size = base.size() + axes.iter().map(largest).sum::<usize>();
    (count <= MAX_POINTS && count.checked_mul(size)? <= MAX_POINT_VALUES).then_some(count)
}

/// Point number `index`, if it is a valid scenario.
fn point(base: &Table, axes: &[Values], index: usize, p: &mut Problems) -> Option<Point> {
    let mut root = base.clone();
    let mut rest = index;
    let mut settings = Vec::new();
    let mut own = p.beside();
    for axis in axes.iter().rev() {
        let item = &axis.items[rest % axis.items.len()];
        rest /= axis.items.len();
        for change in &item.changes {
            match change {
                Change::Remove(key, _) => root.remove(&key.split('.').collect::<Vec<_>>()),
                Change::Put(key, value) => {
                    let path: Vec<&str> = key.split('.').collect();
                    if let Err(wrong) = root.put(&path, (*value).clone()) {
                        own.add(item.place, &axis.shown(), wrong);
                    }
                }
            }
        }
        settings.push((axis.name.clone(), item.name.clone()));
    }
    settings.reverse();
    let scenario = Scenario::read(&Here { table: &root, path: String::new() }, &mut own);
    if !own.is_empty() {
        p.adopt(&label(&settings), own);
        return None;
    }
    scenario.map(|scenario| Point { settings, scenario })
}
