//! Golden steps: what an algorithm was asked and what it answered, one JSON object per line.
//!
//! The first line names the algorithm and its parameters, each further one is a call. A twin of the
//! algorithm, in a kernel or in another language, is right if it answers the same. Times are in
//! nanoseconds, sizes in bytes, rates in bit/s; `dice` is hexadecimal because JSON has no 64-bit integers.
//! `vectors/README.md` says it in full, for those who have nothing but the files.

use crate::script::Dice;
use serde_json::{Value as Json, json};
use std::collections::VecDeque;
use weir_aqm::{Algorithm, Aqm, Cause, Ecn, Moment, Packet, Params, Sample, Share, Value, Verdict, View};
use weir_units::{Bytes, Duration, Rate, Time};

/// Calls in a script.
pub const STEPS: usize = 400;

/// From this call on the queue has room for no more than `ROOM` packets, so that some find it full.
const SHORT_FROM: usize = 300;
const ROOM: usize = 8;

const RATE: Rate = Rate::from_mbps(1);

/// The golden steps of algorithm `A` with default parameters.
pub fn record<A: Algorithm>() -> String {
    record_with::<A>(&A::Params::default(), false)
}

/// The golden steps of algorithm `A`; `sensed` if it is also told round trips.
pub fn record_with<A: Algorithm>(params: &A::Params, sensed: bool) -> String {
    let values: serde_json::Map<String, Json> = A::Params::INFO
        .iter()
        .filter_map(|info| Some((info.name.to_string(), number(params.get(info.name)?))))
        .collect();
    let head = json!({ "algorithm": A::NAME, "start_ns": 0, "params": values });
    let mut text = format!("{head}\n");
    let mut recorder = Recorder { sensed, ..Recorder::new(A::new(params, Time::ZERO)) };
    for line in recorder.run() {
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

/// A small queue at 1 Mbit/s: overload for 0.7 s, a pause until it is empty, and overload again, at the end of a short
/// buffer.
struct Recorder<A> {
    aqm: A,
    fifo: VecDeque<Packet>,
    backlog: Bytes,
    delay: Duration,
    free_at: Time,
    dice: Dice,
    sequence: u64,
    sensed: bool,
    lines: Vec<String>,
}

impl<A: Aqm> Recorder<A> {
    fn new(aqm: A) -> Self {
        Recorder {
            aqm,
            fifo: VecDeque::new(),
            backlog: Bytes::ZERO,
            delay: Duration::ZERO,
            free_at: Time::ZERO,
            dice: Dice(42),
            sequence: 0,
            sensed: false,
            lines: Vec::new(),
        }
    }

    fn run(&mut self) -> Vec<String> {
        let mut next = Time::ZERO;
        while self.lines.len() < STEPS {
            let rest = self.sequence == 120;
            next += Duration::from_micros(4000 + self.dice.below(4000));
            if rest {
                next += Duration::from_secs(2);
            }
            self.serve(next);
            if self.sensed && self.sequence.is_multiple_of(4) {
                self.sense(next);
            }
            self.arrive(next);
        }
        self.lines.truncate(STEPS);
        std::mem::take(&mut self.lines)
    }

    fn moment(&mut self, now: Time) -> Moment {
        let packets = self.fifo.len() as u32;
        let queue = View { backlog: self.backlog, packets, delay: self.delay, rate: RATE };
        Moment { now, queue, dice: if A::ROLLS { self.dice.roll() } else { 0 } }
    }

    /// Written by hand, so that the fields come in an order that a person can read.
    fn line(&mut self, call: &str, m: &Moment, p: Option<&Packet>, verdict: Option<Verdict>) {
        let View { backlog, packets, delay, rate } = m.queue;
        let (now, backlog, delay) = (m.now.as_nanos(), backlog.get(), delay.as_nanos());
        let mut line = format!(r#"{{"call":"{call}","now_ns":{now}"#);
        if let Some(Packet { arrived, len, seq, flow, ecn }) = p {
            let (arrived, len, ecn) = (arrived.as_nanos(), len.get(), *ecn as u8);
            line += &format!(r#","seq":{seq},"arrived_ns":{arrived},"len":{len},"flow":{flow},"ecn":{ecn}"#);
        }
        line += &format!(r#","backlog":{backlog},"packets":{packets},"delay_ns":{delay}"#);
        line += &format!(r#","rate_bps":{},"dice":"{:016x}""#, rate.as_bps(), m.dice);
        if let Some(verdict) = verdict {
            line += &format!(r#","verdict":"{}""#, answer(verdict));
        }
        line.push('}');
        self.lines.push(line);
    }

    /// As queues do it: when they are used, so that most wakeups are late.
    fn wake(&mut self, now: Time) {
        if self.aqm.next_wakeup().is_some_and(|due| due <= now) {
            let m = self.moment(now);
            self.aqm.on_wakeup(&m);
            self.line("wakeup", &m, None, None);
        }
    }

    /// A probe is back from a path whose queue is twice as long as the own one.
    fn sense(&mut self, now: Time) {
        let rtt = Duration::from_millis(20) + RATE.time_for(self.backlog).saturating_mul(2);
        self.aqm.on_sample(now, Sample::Rtt(rtt));
        let (now, rtt) = (now.as_nanos(), rtt.as_nanos());
        self.lines.push(format!(r#"{{"call":"sample","now_ns":{now},"rtt_ns":{rtt}}}"#));
    }

    fn arrive(&mut self, now: Time) {
        self.wake(now);
        let len = Bytes::new(if self.dice.below(4) == 0 { 300 } else { 1500 });
        // One packet of three is ECN-capable, with all its code points in turn.
        let ecn = if self.sequence.is_multiple_of(3) {
            Ecn::from_bits((self.sequence / 3 % 4) as u8)
        } else {
            Ecn::NotEct
        };
        let p = Packet { arrived: now, len, seq: self.sequence, flow: (self.sequence % 5) as u32, ecn };
        self.sequence += 1;
        let m = self.moment(now);
        if self.lines.len() >= SHORT_FROM && self.fifo.len() >= ROOM {
            self.aqm.on_overflow(&m, &p);
            return self.line("overflow", &m, Some(&p), None);
        }
        let verdict = self.aqm.on_enqueue(&m, &p);
        self.line("enqueue", &m, Some(&p), Some(verdict));
        if !matches!(verdict, Verdict::Drop(_)) {
            self.free_at = if self.fifo.is_empty() { self.free_at.max(now) } else { self.free_at };
            self.backlog += len;
            self.fifo.push_back(p);
        }
    }

    fn serve(&mut self, until: Time) {
        while self.free_at < until {
            let now = self.free_at;
            self.wake(now);
            let Some(p) = self.fifo.pop_front() else { return };
            self.backlog -= p.len;
            let m = self.moment(now);
            self.delay = now.since(p.arrived);
            let verdict = self.aqm.on_dequeue(&m, &p);
            self.line("dequeue", &m, Some(&p), Some(verdict));
            if !matches!(verdict, Verdict::Drop(_)) {
                self.free_at += RATE.time_for(p.len);
            }
            if self.fifo.is_empty() {
                self.delay = Duration::ZERO;
                self.aqm.on_empty(now);
                let m = self.moment(now);
                self.line("empty", &m, None, None);
            }
        }
    }
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
    let m = Moment { now, queue, dice: dice.ok_or(format!("no dice in {line}"))? };
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
