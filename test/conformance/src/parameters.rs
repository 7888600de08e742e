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
        ensure!(!twice, "two parameters are called {}", info.name);
        ensure!(P::default().get(info.name) == Some(info.default), "{} has another default", info.name);
        accepts::<P>(info)?;
        refuses::<P>(info)?;
    }
    let unknown = P::default().set("no such parameter", Value::Flag(true));
    let problem = unknown.err().map(|e| e.problem);
    ensure!(problem == Some(Problem::Unknown), "an unknown parameter was taken: {problem:?}");
    Ok(())
}

fn accepts<P: Params>(info: &ParamInfo) -> Finding {
    for value in [info.min, info.max, info.default] {
        let mut params = P::default();
        let set = params.set(info.name, value);
        ensure!(set.is_ok(), "{} = {value} was refused: {set:?}", info.name);
        ensure!(params.get(info.name) == Some(value), "{} = {value} does not read back", info.name);
    }
    Ok(())
}

fn refuses<P: Params>(info: &ParamInfo) -> Finding {
    for value in outside(info).into_iter().chain(other_kinds(info.default)) {
        let mut params = P::default();
        ensure!(params.set(info.name, value).is_err(), "{} = {value} was taken", info.name);
        ensure!(
            params.get(info.name) == Some(info.default),
            "{} changed though {value} was refused",
            info.name
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
    let with = || settings.iter().map(|(name, value)| format!("{name} = {value}, ")).collect::<String>();
    for jump in [Duration::ZERO, Duration::from_secs(36_000)] {
        let aqm = instance::<A>(settings)?;
        let script = Script { packets: 3_000, jump, ..Script::default() };
        let run = crate::run(|| {
            let mut drive = Drive::new(single(aqm, &script), &script);
            drive.run(&script);
            drive.queue.aqm().violation.clone().map_or(Ok(()), Err)
        });
        run.map_err(|wrong| format!("with {}: {wrong}", with()))?;
    }
    Ok(())
}

/// Names are identifiers, and everything is described.
pub fn texts<A: Algorithm>() -> Finding {
    let identifier = |name: &str| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    };
    ensure!(identifier(A::NAME), "{} is no name for a file and a configuration", A::NAME);
    ensure!(A::SUMMARY.ends_with('.'), "the summary is no sentence: {}", A::SUMMARY);
    ensure!(!A::SOURCE.is_empty(), "no source is given");
    for info in A::Params::INFO {
        ensure!(identifier(info.name), "{} is no name for a parameter", info.name);
        ensure!(info.doc.trim().len() > 10, "{} is not described", info.name);
    }
    let known = |name: &str| A::Params::INFO.iter().any(|info| info.name == name);
    let setpoint = A::SETPOINT.unwrap_or_default();
    ensure!(A::SETPOINT.is_none() || known(setpoint), "the set point {setpoint} is no parameter");
    let has = A::new(&A::Params::default(), Time::ZERO).setpoint().is_some();
    ensure!(has == A::SETPOINT.is_some(), "it has a set point: {has}; it declares {:?}", A::SETPOINT);
    Ok(())
}
