//! An algorithm alone, asked step by step.

use crate::refused;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use weir_aqm::{AnyAqm, Aqm, Cause, Ecn, Moment, Packet, Parameters, Params, Sample, Verdict, View};
use weir_config::AqmConfig;
use weir_units::{Bytes, Duration, Rate, Time};

/// Times up to this are taken, so that no sum of them overflows.
const TIME_MAX: u64 = 1 << 62;

fn said(verdict: Verdict) -> String {
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

struct Of<'a>(&'a AqmConfig);

impl Parameters for Of<'_> {
    fn params<P: Params>(&self) -> P {
        self.0.params()
    }
}

/// An algorithm without a queue: who asks keeps the packets.
#[pyclass(module = "weir._weir")]
pub struct Algorithm {
    inner: AnyAqm,
    last: Time,
}

/// What is asked about.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Step {
    call: String,
    now_ns: u64,
    #[pyo3(default)]
    arrived_ns: u64,
    #[pyo3(default)]
    seq: u64,
    #[pyo3(default)]
    len: u64,
    #[pyo3(default)]
    flow: u32,
    #[pyo3(default)]
    ecn: u8,
    #[pyo3(default)]
    backlog: u64,
    #[pyo3(default)]
    packets: u32,
    #[pyo3(default)]
    delay_ns: u64,
    #[pyo3(default)]
    rate_bps: u64,
    #[pyo3(default)]
    dice: u64,
    #[pyo3(default)]
    rtt_ns: u64,
}

impl Algorithm {
    fn ask(&mut self, step: &Step) -> PyResult<Option<String>> {
        let now = Time::from_nanos(step.now_ns);
        if step.now_ns > TIME_MAX || step.delay_ns > TIME_MAX || step.rtt_ns > TIME_MAX {
            return Err(PyValueError::new_err("a time is larger than 2^62 ns"));
        }
        if now < self.last {
            let text = format!(
                "now_ns = {} is before {}, that of the step before",
                step.now_ns,
                self.last.as_nanos()
            );
            return Err(PyValueError::new_err(text));
        }
        let queue = View {
            backlog: Bytes::new(step.backlog),
            packets: step.packets,
            delay: Duration::from_nanos(step.delay_ns),
            rate: Rate::from_bps(step.rate_bps),
        };
        let m = Moment::new(now, queue, step.dice);
        let packet = Packet {
            arrived: Time::from_nanos(step.arrived_ns).min(now),
            len: Bytes::new(step.len),
            seq: step.seq,
            flow: step.flow,
            ecn: Ecn::from_bits(step.ecn),
        };
        let answer = match step.call.as_str() {
            "enqueue" => Some(said(self.inner.on_enqueue(&m, &packet))),
            "dequeue" => Some(said(self.inner.on_dequeue(&m, &packet))),
            "overflow" => {
                self.inner.on_overflow(&m, &packet);
                None
            }
            "empty" => {
                self.inner.on_empty(now);
                None
            }
            "wakeup" => {
                self.inner.on_wakeup(&m);
                None
            }
            "sample" => {
                self.inner.on_sample(now, Sample::Rtt(Duration::from_nanos(step.rtt_ns)));
                None
            }
            other => {
                let known = "enqueue, dequeue, overflow, empty, wakeup, sample";
                return Err(PyValueError::new_err(format!(
                    "there is no call {other:?}; the calls are {known}"
                )));
            }
        };
        self.last = now;
        Ok(answer)
    }
}

#[pymethods]
impl Algorithm {
    /// Of a text with the keys of an `aqm` table.
    #[staticmethod]
    fn parse(py: Python<'_>, text: &str, start_ns: u64) -> PyResult<Algorithm> {
        let config = AqmConfig::parse("parameters", text).map_err(|e| refused(py, &e, false))?;
        let start = Time::from_nanos(start_ns.min(TIME_MAX));
        let inner = AnyAqm::new(&config.name, &Of(&config), start);
        let inner = inner.ok_or_else(|| PyValueError::new_err("there is no such algorithm"))?;
        Ok(Algorithm { inner, last: start })
    }

    /// Asks questions in order; what is said to each.
    fn steps(&mut self, steps: Vec<Bound<'_, PyAny>>) -> PyResult<Vec<Option<String>>> {
        steps.iter().map(|step| self.ask(&step.extract()?)).collect()
    }

    /// When it wants the call `wakeup` next, in nanoseconds.
    #[getter]
    fn next_wakeup_ns(&self) -> Option<u64> {
        self.inner.next_wakeup().map(Time::as_nanos)
    }

    /// The set point in force, in nanoseconds.
    #[getter]
    fn setpoint_ns(&mut self) -> Option<u64> {
        self.inner.setpoint().map(|s| s.get().as_nanos())
    }

    #[setter]
    fn set_setpoint_ns(&mut self, to: u64) -> PyResult<()> {
        let setpoint = self.inner.setpoint();
        let setpoint = setpoint.ok_or_else(|| PyValueError::new_err("this algorithm has no set point"))?;
        setpoint.set(Duration::from_nanos(to));
        Ok(())
    }

    /// Inner variables by name.
    fn gauges<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let gauges = PyDict::new(py);
        let mut done = Ok(());
        self.inner.gauges(&mut |name, value| {
            if done.is_ok() {
                done = gauges.set_item(name, value);
            }
        });
        done.map(|()| gauges)
    }
}

/// The names of the algorithms.
#[pyfunction]
pub fn algorithms() -> Vec<&'static str> {
    weir_aqm::names().to_vec()
}

/// The parameters of an algorithm: name, meaning, default, smallest and largest value.
#[pyfunction]
pub fn parameters(name: &str) -> PyResult<Vec<[String; 5]>> {
    struct Ask;
    impl weir_aqm::Visitor for Ask {
        type Output = Vec<[String; 5]>;
        fn visit<A: weir_aqm::Algorithm>(self) -> Self::Output {
            let of = |i: &weir_aqm::ParamInfo| {
                [
                    i.name.into(),
                    i.doc.trim().into(),
                    i.default.to_string(),
                    i.min.to_string(),
                    i.max.to_string(),
                ]
            };
            A::Params::INFO.iter().map(of).collect()
        }
    }
    let known =
        || format!("there is no algorithm {name:?}; the algorithms are {}", weir_aqm::names().join(", "));
    weir_aqm::visit(name, Ask).ok_or_else(|| PyValueError::new_err(known()))
}
