//! Golden steps: what an algorithm was asked and what it answered, one JSON object per line.
//!
//! The first line names the algorithm and its parameters, each further one is a call. A twin of the
//! algorithm, in a kernel or in another language, is right if it answers the same. Times are in
//! nanoseconds, sizes in bytes, rates in bit/s; `dice` is hexadecimal because JSON has no 64-bit integers.
//! `data/vectors/README.md` says it in full, for those who have nothing but the files.

mod plan;
mod recorder;

pub use plan::{LOADED, Luck, Phase, Plan, SENSED, SHORT, SLOW};

use recorder::Recorder;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use weir_aqm::{Algorithm, Aqm, Cause, Ecn, Moment, Packet, Params, Sample, Share, Value, Verdict, View};
use weir_units::{Bytes, Duration, Rate, Time};

/// The golden steps of algorithm `A` with default parameters.
pub fn record<A: Algorithm>() -> String {
    record_with::<A>(&A::Params::default(), &SHORT)
}

/// The golden steps of algorithm `A` in a queue that goes through `plan`.
pub fn record_with<A: Algorithm>(params: &A::Params, plan: &Plan) -> String {
    let values: BTreeMap<String, Json> = A::Params::INFO
        .iter()
        .filter_map(|info| Some((info.name.to_string(), number(params.get(info.name)?))))
        .collect();
    // By name, whatever order the maps of serde_json keep in the build at hand.
    let head: BTreeMap<&str, Json> =
        [("algorithm", json!(A::NAME)), ("params", json!(values)), ("start_ns", json!(0))].into();
    let mut text = format!("{}\n", serde_json::to_string(&head).expect("plain data"));
    for line in Recorder::new(A::new(params, Time::ZERO), plan).run() {
        text.push_str(&line);
        text.push('\n');
    }
    text
}

fn number(value: Value) -> Json {
    match value {
        Value::Duration(v) => json!(v.as_nanos()),
        Value::Bytes(v) => json!(v.get()),
        Value::Rate(v) => json!(v.as_bps()),
        Value::Share(v) => json!(v.0),
        Value::Number(v) => json!(v),
        Value::Count(v) => json!(v),
        Value::Flag(v) => json!(v),
    }
}

fn answer(verdict: Verdict) -> String {
    let (what, cause) = match verdict {
        Verdict::Forward => return "forward".to_string(),
        Verdict::Mark(cause) => ("mark", cause),
        Verdict::Drop(cause) => ("drop", cause),
    };
    let cause = match cause {
        Cause::Overflow => "overflow",
        Cause::SetPoint => "set point",
        Cause::Chance => "chance",
    };
    format!("{what}: {cause}")
}

/// The parameters that a recording was made with.
fn params<A: Algorithm>(head: &Json) -> Result<A::Params, String> {
    let mut params = A::Params::default();
    for info in A::Params::INFO {
        let given = &head["params"][info.name];
        let value = value(info.default, given).ok_or(format!("{} = {given}", info.name))?;
        params.set(info.name, value).map_err(|e| format!("{} = {given}: {e}", info.name))?;
    }
    Ok(params)
}

/// A number as a value of the same kind as another.
fn value(like: Value, json: &Json) -> Option<Value> {
    Some(match like {
        Value::Duration(_) => Value::Duration(Duration::from_nanos(json.as_u64()?)),
        Value::Bytes(_) => Value::Bytes(Bytes::new(json.as_u64()?)),
        Value::Rate(_) => Value::Rate(Rate::from_bps(json.as_u64()?)),
        Value::Share(_) => Value::Share(Share(json.as_f64()?)),
        Value::Number(_) => Value::Number(json.as_f64()?),
        Value::Count(_) => Value::Count(u32::try_from(json.as_u64()?).ok()?),
        Value::Flag(_) => Value::Flag(json.as_bool()?),
    })
}

/// Asks a fresh instance what a recording asks, as a twin would, and compares the answers.
pub fn replay<A: Algorithm>(recording: &str) -> Result<usize, String> {
    let mut lines = recording.lines();
    let head: Json = parse(lines.next().unwrap_or_default())?;
    if head["algorithm"] != A::NAME {
        return Err(format!("this is a recording of {}", head["algorithm"]));
    }
    let mut aqm = A::new(&params::<A>(&head)?, Time::ZERO);
    let mut steps = 0;
    for line in lines {
        let line = parse(line)?;
        let said = ask(&mut aqm, &line)?.map(answer);
        if said.as_deref() != line["verdict"].as_str() {
            return Err(format!("said {said:?} to {line}"));
        }
        steps += 1;
    }
    Ok(steps)
}

fn parse(line: &str) -> Result<Json, String> {
    serde_json::from_str(line).map_err(|e| format!("{e} in {line}"))
}

fn ask(aqm: &mut impl Aqm, line: &Json) -> Result<Option<Verdict>, String> {
    let field = |name: &str| line[name].as_u64().ok_or(format!("no {name} in {line}"));
    let now = Time::from_nanos(field("now_ns")?);
    if line["call"] == "sample" {
        aqm.on_sample(now, Sample::Rtt(Duration::from_nanos(field("rtt_ns")?)));
        return Ok(None);
    }
    let queue = View {
        backlog: Bytes::new(field("backlog")?),
        packets: field("packets")? as u32,
        delay: Duration::from_nanos(field("delay_ns")?),
        rate: Rate::from_bps(field("rate_bps")?),
    };
    let dice = line["dice"].as_str().and_then(|hex| u64::from_str_radix(hex, 16).ok());
    let m = Moment::new(now, queue, dice.ok_or(format!("no dice in {line}"))?);
    let packet = || -> Result<Packet, String> {
        Ok(Packet {
            arrived: Time::from_nanos(field("arrived_ns")?),
            len: Bytes::new(field("len")?),
            seq: field("seq")?,
            flow: field("flow")? as u32,
            ecn: Ecn::from_bits(field("ecn")? as u8),
        })
    };
    match line["call"].as_str() {
        Some("enqueue") => return Ok(Some(aqm.on_enqueue(&m, &packet()?))),
        Some("dequeue") => return Ok(Some(aqm.on_dequeue(&m, &packet()?))),
        Some("overflow") => aqm.on_overflow(&m, &packet()?),
        Some("empty") => aqm.on_empty(now),
        Some("wakeup") => aqm.on_wakeup(&m),
        other => return Err(format!("no call {other:?}")),
    }
    Ok(None)
}
