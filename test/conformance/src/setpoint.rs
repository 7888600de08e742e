//! Suites about the delay set point.

use crate::{Finding, ensure};
use weir_aqm::{Algorithm, Ecn, Moment, Packet, Params, Value, Verdict, View};
use weir_units::{Bytes, Duration, Rate, Time};

fn declared<A: Algorithm>() -> Result<Option<(Duration, Duration, Duration)>, String> {
    let Some(name) = A::SETPOINT else { return Ok(None) };
    let info = A::Params::INFO.iter().find(|info| info.name == name);
    match info.map(|info| (info.min, info.default, info.max)) {
        Some((Value::Duration(min), Value::Duration(default), Value::Duration(max))) => {
            Ok(Some((min, default, max)))
        }
        _ => Err(format!(
            "the set point {name} is no parameter that is a duration. Remedy: steering moves a delay: declare one in \
             `params!` and name it in `SETPOINT`"
        )),
    }
}

/// The set point starts as the parameter says, reads back what was set, and is clamped to the declared
/// range.
pub fn reads_back_and_clamps<A: Algorithm>() -> Finding {
    let Some((min, default, max)) = declared::<A>()? else { return Ok(()) };
    let mut aqm = A::new(&A::Params::default(), Time::ZERO);
    let setpoint = aqm.setpoint().ok_or(
        "it declares a set point and has none. Remedy: return `Some(self)` from `Aqm::setpoint`, or let `SETPOINT` be `None`",
    )?;
    let name = A::SETPOINT.unwrap_or_default();
    ensure!(
        setpoint.get() == default,
        "it starts at {} and not at {default}, the default of `{name}`. Remedy: let `Algorithm::new` take it from there",
        setpoint.get()
    );
    let middle = min + max.saturating_sub(min).mul_f64(0.5);
    let beyond = max + Duration::from_nanos(1);
    for (to, want) in
        [(middle, middle), (min, min), (max, max), (Duration::ZERO, min), (beyond, max), (Duration::MAX, max)]
    {
        let told = setpoint.set(to);
        ensure!(
            told == want,
            "set to {to} it says {told} and not {want}; `{name}` is {min} to {max}. Remedy: let `Setpoint::set` clamp to that \
             range and return what it set"
        );
        ensure!(
            setpoint.get() == want,
            "set to {to} it reads back {} and not {want}. Remedy: let `Setpoint::set` store what it returns, and \
             `Setpoint::get` return that",
            setpoint.get()
        );
    }
    Ok(())
}

/// The set point has an effect: on the same queue a low one brings more signals than a high one.
pub fn matters<A: Algorithm>() -> Finding {
    let Some((min, _, max)) = declared::<A>()? else { return Ok(()) };
    let [low, high] = [min, max].map(|to| {
        let mut aqm = A::new(&A::Params::default(), Time::ZERO);
        if let Some(setpoint) = aqm.setpoint() {
            setpoint.set(to);
        }
        signals(&mut aqm)
    });
    ensure!(
        low > high,
        "it signals {low} of {QUESTIONS} times with its set point at {min}, the lowest, and {high} times at {max}, the \
         highest, in a queue that stands at {STANDS}: a lower set point has to signal more. Remedy: let what \
         `Aqm::setpoint` hands out be what `on_enqueue` and `on_dequeue` compare with, or declare `SETPOINT: None`"
    );
    Ok(())
}

/// How long packets wait in the queue of [`signals`], and how often the algorithm is asked there.
const STANDS: Duration = Duration::from_millis(50);
const QUESTIONS: u32 = 20_000;

/// Signals of a queue that stands for ten seconds.
fn signals(aqm: &mut impl Algorithm) -> u32 {
    let rate = Rate::from_mbps(12);
    let delay = STANDS;
    let queue = View { backlog: rate.bytes_in(delay), packets: 50, delay, rate };
    let mut signals = 0;
    let mut dice = crate::script::Dice(3);
    for seq in 0..u64::from(QUESTIONS / 2) {
        let now = Time::from_nanos(1_000_000 * (seq + 1));
        let m = Moment::new(now, queue, dice.roll());
        if aqm.next_wakeup().is_some_and(|due| due <= now) {
            aqm.on_wakeup(&m);
        }
        let p = Packet { arrived: now, len: Bytes::new(1500), seq, flow: 0, ecn: Ecn::NotEct };
        signals += u32::from(aqm.on_enqueue(&m, &p) != Verdict::Forward);
        let head = Packet { arrived: now - delay, ..p };
        signals += u32::from(aqm.on_dequeue(&m, &head) != Verdict::Forward);
    }
    signals
}
