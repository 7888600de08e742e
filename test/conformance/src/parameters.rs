//! Suites about declared parameters.

use crate::script::{Dice, Drive, Script, single};
use crate::{Finding, ensure, instance};
use weir_aqm::{Algorithm, ParamInfo, Params, Problem, Share, Value};
use weir_units::{Bytes, Duration, Rate, Time};

/// Every parameter takes its default and both ends of its range, and refuses what lies outside, what is no
/// number and what is of another kind, without changing anything.
pub fn parameters<P: Params>() -> Finding {
    for (n, info) in P::INFO.iter().enumerate() {
        let twice = P::INFO[..n].iter().any(|other| other.name == info.name);
        ensure!(!twice, "two parameters are called {}. Remedy: rename one of them", info.name);
        let starts = P::default().get(info.name);
        ensure!(
            starts == Some(info.default),
            "{} has another default: {} is declared, and a fresh value has {}. {DECLARE}",
            info.name,
            info.default,
            shown(starts)
        );
        accepts::<P>(info)?;
        refuses::<P>(info)?;
    }
    let unknown = P::default().set("no such parameter", Value::Flag(true));
    let problem = unknown.err().map(|e| e.problem);
    ensure!(
        problem == Some(Problem::Unknown),
        "an unknown parameter was taken, or refused for another reason: {problem:?}. {DECLARE}"
    );
    Ok(())
}

/// What to do where parameters do not do as they are declared.
const DECLARE: &str =
    "Remedy: declare parameters with `params!`, which makes default, range and checks of one line";

fn shown(value: Option<Value>) -> String {
    match value {
        // The nearest number to a bound has hundreds of digits.
        Some(Value::Number(v)) => format!("{v:?}"),
        Some(value) => value.to_string(),
        None => "nothing".to_string(),
    }
}

fn accepts<P: Params>(info: &ParamInfo) -> Finding {
    for value in [info.min, info.max, info.default] {
        let mut params = P::default();
        let set = params.set(info.name, value);
        ensure!(
            set.is_ok(),
            "{} = {value} was refused, which lies in its range of {} to {}: {set:?}. {DECLARE}",
            info.name,
            info.min,
            info.max
        );
        let told = params.get(info.name);
        ensure!(
            told == Some(value),
            "{} = {value} does not read back: it says {}. {DECLARE}",
            info.name,
            shown(told)
        );
    }
    Ok(())
}

fn refuses<P: Params>(info: &ParamInfo) -> Finding {
    for value in outside(info).into_iter().chain(other_kinds(info.default)) {
        let mut params = P::default();
        ensure!(
            params.set(info.name, value).is_err(),
            "{} = {} was taken, where it is {} to {}. {DECLARE}",
            info.name,
            shown(Some(value)),
            info.min,
            info.max
        );
        let told = params.get(info.name);
        ensure!(
            told == Some(info.default),
            "{} changed though {} was refused: from {} to {}. {DECLARE}",
            info.name,
            shown(Some(value)),
            info.default,
            shown(told)
        );
    }
    Ok(())
}

/// The nearest values on both sides of the range, and what is no number.
fn outside(info: &ParamInfo) -> Vec<Value> {
    let below = |n: u64| n.checked_sub(1);
    let above = |n: u64| n.checked_add(1);
    let floats = |min: f64, max: f64| {
        let step = |x: f64| (x.abs() * f64::EPSILON).max(f64::MIN_POSITIVE);
        let ends = [min - step(min), max + step(max)];
        ends.into_iter().chain([f64::NAN, f64::INFINITY, f64::NEG_INFINITY])
    };
    match (info.min, info.max) {
        (Value::Duration(min), Value::Duration(max)) => {
            let ends = [below(min.as_nanos()), above(max.as_nanos())];
            ends.into_iter().flatten().map(|n| Value::Duration(Duration::from_nanos(n))).collect()
        }
        (Value::Bytes(min), Value::Bytes(max)) => {
            let ends = [below(min.get()), above(max.get())];
            ends.into_iter().flatten().map(|n| Value::Bytes(Bytes::new(n))).collect()
        }
        (Value::Rate(min), Value::Rate(max)) => {
            let ends = [below(min.as_bps()), above(max.as_bps())];
            ends.into_iter().flatten().map(|n| Value::Rate(Rate::from_bps(n))).collect()
        }
        (Value::Count(min), Value::Count(max)) => {
            let ends = [min.checked_sub(1), max.checked_add(1)];
            ends.into_iter().flatten().map(Value::Count).collect()
        }
        (Value::Share(min), Value::Share(max)) => {
            floats(min.0, max.0).map(|n| Value::Share(Share(n))).collect()
        }
        (Value::Number(min), Value::Number(max)) => floats(min, max).map(Value::Number).collect(),
        _ => Vec::new(),
    }
}

fn other_kinds(value: Value) -> impl Iterator<Item = Value> {
    let all = [
        Value::Duration(Duration::from_millis(1)),
        Value::Bytes(Bytes::new(1)),
        Value::Rate(Rate::from_mbps(1)),
        Value::Share(Share(0.5)),
        Value::Number(0.5),
        Value::Count(1),
        Value::Flag(true),
    ];
    all.into_iter().filter(move |other| std::mem::discriminant(other) != std::mem::discriminant(&value))
}

/// With all parameters at their smallest, all at their largest, and a few dozen mixtures, an algorithm
/// survives random traffic.
pub fn extremes<A: Algorithm>() -> Finding {
    let ends = |pick: &mut dyn FnMut(&ParamInfo) -> Value| {
        A::Params::INFO.iter().map(|info| (info.name, pick(info))).collect::<Vec<_>>()
    };
    survives::<A>(&ends(&mut |info| info.min))?;
    survives::<A>(&ends(&mut |info| info.max))?;
    let mut dice = Dice(5);
    for _ in 0..32 {
        survives::<A>(&ends(&mut |info| [info.min, info.max, info.default][dice.below(3) as usize]))?;
    }
    Ok(())
}

fn survives<A: Algorithm>(settings: &[(&str, Value)]) -> Finding {
    let named = |settings: &[(&str, Value)]| {
        settings.iter().map(|(name, value)| format!("{name} = {value}")).collect::<Vec<_>>().join(", ")
    };
    traffic::<A>(settings).map_err(|wrong| {
        // Which of them it takes, where it takes only one.
        let alone = settings.iter().find(|setting| traffic::<A>(&[**setting]).is_err());
        let culprit = alone.map_or(named(settings), |setting| format!("{} alone", named(&[*setting])));
        format!(
            "with {culprit}: {wrong}. Remedy, where that value makes no sense: a range in `params!` that leaves it out"
        )
    })
}

/// Random traffic without and with jumps of the clock.
fn traffic<A: Algorithm>(settings: &[(&str, Value)]) -> Finding {
    for jump in [Duration::ZERO, Duration::from_secs(36_000)] {
        let aqm = instance::<A>(settings)?;
        let script = Script { packets: 3_000, jump, ..Script::default() };
        crate::run(|| {
            let mut drive = Drive::new(single(aqm, &script), &script);
            drive.run(&script);
            drive.queue.aqm().violation.clone().map_or(Ok(()), Err)
        })?;
    }
    Ok(())
}

/// Names are identifiers, and everything is described.
pub fn texts<A: Algorithm>() -> Finding {
    let identifier = |name: &str| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    };
    ensure!(
        identifier(A::NAME),
        "{:?} is no name for a file and a configuration. Remedy: let `NAME` have lower-case letters, digits and _ only",
        A::NAME
    );
    ensure!(
        A::SUMMARY.ends_with('.'),
        "the summary is no sentence: {:?}. Remedy: let `SUMMARY` end with a full stop; `weir list` prints it",
        A::SUMMARY
    );
    ensure!(
        !A::SOURCE.is_empty(),
        "no source is given. Remedy: let `SOURCE` name paper, draft or RFC, or say \"none\""
    );
    for info in A::Params::INFO {
        ensure!(
            identifier(info.name),
            "{:?} is no name for a parameter. Remedy: lower-case letters, digits and _ only",
            info.name
        );
        ensure!(
            info.doc.trim().len() > 10,
            "{} is not described: {:?}. Remedy: say what it is, and its source, in a comment `///` above it; `weir explain \
             {}` and its page print that",
            info.name,
            info.doc.trim(),
            A::NAME
        );
    }
    let known = |name: &str| A::Params::INFO.iter().any(|info| info.name == name);
    let setpoint = A::SETPOINT.unwrap_or_default();
    ensure!(
        A::SETPOINT.is_none() || known(setpoint),
        "the set point {setpoint} is no parameter. Remedy: let `SETPOINT` name one: {:?}",
        A::Params::INFO.iter().map(|info| info.name).collect::<Vec<_>>()
    );
    let has = A::new(&A::Params::default(), Time::ZERO).setpoint().is_some();
    ensure!(
        has == A::SETPOINT.is_some(),
        "it has a set point: {has}; it declares {:?}. Remedy: return `Some(self)` from `Aqm::setpoint` and name the \
         parameter in `SETPOINT`, or neither",
        A::SETPOINT
    );
    Ok(())
}
