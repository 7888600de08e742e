//! Parameters whose keys are declared elsewhere: how they are read, checked and printed.
//!
//! The declarations are [`ParamInfo`] tables that `params!` makes where the algorithm, the discipline or the
//! law is written.

use crate::errors::Wrong;
use crate::problems::Problems;
use crate::schema::{Here, Printer, Scalar, tidy};
use crate::table_doc::Row;
use crate::tree::{Entry, Node};
use weir_aqm::{ParamError, ParamInfo, Params, Problem, Share, Value};
use weir_units::{Bytes, Duration, Rate};

/// Builds parameters from settings that were checked when they were made.
pub(crate) fn params_from<P: Params>(owner: &str, settings: &[(&'static str, Value)]) -> P {
    let mut params = P::default();
    for (name, value) in settings {
        let set = params.set(name, *value);
        assert!(set.is_ok(), "parameter {name} = {value} of {owner} was checked before: {set:?}");
    }
    params
}

/// The parameters of an algorithm or a discipline, and which of them is its set point.
pub(crate) type Declared = (&'static [ParamInfo], Option<&'static str>);

pub(crate) fn check_with<P: Params>(name: &str, value: Value) -> Result<(), ParamError> {
    P::default().set(name, value)
}

/// Reads a value of the kind of `like`.
fn value_like(like: &Value, node: &Node) -> Result<Value, Wrong> {
    Ok(match like {
        Value::Duration(_) => Value::Duration(Duration::read(node)?),
        Value::Bytes(_) => Value::Bytes(Bytes::read(node)?),
        Value::Rate(_) => Value::Rate(Rate::read(node)?),
        Value::Share(_) => Value::Share(Share::read(node)?),
        Value::Number(_) => Value::Number(f64::read(node)?),
        Value::Count(_) => Value::Count(u32::read(node)?),
        Value::Flag(_) => Value::Flag(bool::read(node)?),
    })
}

pub(crate) fn literal(value: &Value) -> String {
    match value {
        Value::Duration(v) => v.literal(),
        Value::Bytes(v) => v.literal(),
        Value::Rate(v) => v.literal(),
        Value::Share(v) => v.literal(),
        Value::Number(v) => v.literal(),
        Value::Count(v) => v.literal(),
        Value::Flag(v) => v.literal(),
    }
}

/// Every parameter with its value, in the order of the declarations.
pub(crate) type Settings = Vec<(&'static str, Value)>;

/// Says whether a parameter may have a value.
pub(crate) type Check = fn(&str, Value) -> Result<(), ParamError>;

/// Sets a parameter, or says why not and changes nothing. Without `check` there is no such parameter.
pub(crate) fn set(
    settings: &mut Settings,
    given: &mut Vec<&'static str>,
    check: Option<Check>,
    parameter: &str,
    value: Value,
) -> Result<(), ParamError> {
    let unknown = ParamError { problem: Problem::Unknown };
    check.ok_or(unknown)?(parameter, value)?;
    let slot = settings.iter_mut().find(|(name, _)| *name == parameter).ok_or(unknown)?;
    slot.1 = value;
    if !given.contains(&slot.0) {
        given.push(slot.0);
    }
    Ok(())
}

/// Reads all parameters of `info` from a table; `own` are the keys that are no parameters.
pub(crate) fn read_settings(
    info: &'static [ParamInfo],
    own: &[&'static str],
    check: Check,
    here: &Here,
    p: &mut Problems,
) -> Option<(Settings, Vec<&'static str>)> {
    let names: Vec<&'static str> = own.iter().copied().chain(info.iter().map(|i| i.name)).collect();
    here.refuse_unknown(p, &names);
    let mut settings = Some(Vec::new());
    let mut given = Vec::new();
    for info in info {
        let value = match here.table.get(info.name) {
            Some(entry) => {
                given.push(info.name);
                read_setting(info, entry, check)
                    .map_err(|w| p.add(&entry.place, &here.key(info.name), w))
                    .ok()
            }
            None => Some(info.default),
        };
        // One wrong value spoils the table, but the others are still looked at.
        settings = settings.zip(value).map(|(mut list, value)| {
            list.push((info.name, value));
            list
        });
    }
    settings.map(|list| (list, given))
}

/// Tells a least value that is larger than the largest: of parameters whose names end in `_min` and `_max`.
pub(crate) fn check_pairs(settings: &Settings, given: &[&'static str], here: &Here, p: &mut Problems) {
    for (small, least) in settings {
        let large = small.strip_suffix("_min").map(|of| format!("{of}_max"));
        let most = settings.iter().find(|(name, _)| large.as_deref() == Some(*name));
        let Some((large, most)) = most.filter(|(_, most)| !least.within(least, most)) else { continue };
        // The line of a value that was written helps more than that of a default.
        let (key, relation, other, value, remedy) = if given.contains(small) {
            (small, "more", large, most, "lower it, or raise")
        } else {
            (large, "less", small, least, "raise it, or lower")
        };
        let own = if key == small { least } else { most };
        let problem = format!("{own} is {relation} than `{other}`, {value}");
        here.wrong(p, key, problem, format!("{remedy} `{other}`"));
    }
}

pub(crate) fn read_setting(info: &ParamInfo, entry: &Entry, check: Check) -> Result<Value, Wrong> {
    let node = &entry.item.node;
    let value = value_like(&info.default, node)
        .map_err(|wrong| wrong.within(&format!("{} .. {}", info.min, info.max)))?;
    match check(info.name, value) {
        Ok(()) => Ok(value),
        Err(ParamError { problem: Problem::Range { min, max } }) => {
            let problem = format!("{} is out of range", node.shown());
            Err(Wrong::new(problem, format!("give a value in {min} .. {max}")))
        }
        Err(other) => Err(Wrong::new(format!("cannot be {}", node.what()), format!("it {other}"))),
    }
}

pub(crate) fn row(info: &ParamInfo) -> Row {
    let flag = matches!(info.default, Value::Flag(_));
    let range = if flag { String::new() } else { format!("{} .. {}", info.min, info.max) };
    let kind = info.default.kind().to_string();
    Row { name: info.name.to_string(), kind, default: literal(&info.default), range, doc: tidy(info.doc) }
}

pub(crate) fn print_settings(
    info: &'static [ParamInfo],
    settings: &[(&'static str, Value)],
    given: &[&'static str],
    out: &mut Printer,
) {
    for (name, value) in settings {
        let Some(info) = info.iter().find(|i| i.name == *name) else { continue };
        print_setting(info, value, given.contains(name), out);
    }
}

/// Where points of a sweep have other algorithms, a default of this one could be unknown to them: it stays a
/// comment.
pub(crate) fn print_setting(info: &ParamInfo, value: &Value, is_given: bool, out: &mut Printer) {
    if out.in_sweep() && !is_given {
        out.comment(&row(info), &literal(value));
    } else {
        out.value(&row(info), &literal(value));
    }
}
