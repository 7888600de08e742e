//! The Python package `weir`, beneath its functions in `weir/__init__.py`.
//!
//! Runs release the interpreter, so that threads simulate side by side.

mod algorithm;
mod environment;
mod tables;

use pyo3::create_exception;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};
use weir_config::{Document, Errors};
use weir_report::measured::measured_with;
use weir_report::sweep::{self, Fingerprint, Labels, RunRow};

create_exception!(
    weir,
    ScenarioError,
    PyValueError,
    "A scenario, or the parameters of an algorithm, that is refused. `problems` is a list of dictionaries with `line` \
     (None where it was no text), `key`, `problem` and `remedy`."
);

/// The problems as the program tells them; lines of a text that the user did not write are left out.
fn refused(py: Python<'_>, errors: &Errors, has_lines: bool) -> PyErr {
    let told = || -> PyResult<PyErr> {
        let problems = PyList::empty(py);
        let mut texts = Vec::new();
        for error in errors.iter() {
            let mut error = error.clone();
            error.line = error.line.filter(|_| has_lines);
            let of = PyDict::new(py);
            of.set_item("line", error.line)?;
            of.set_item("key", &error.key)?;
            of.set_item("problem", &error.problem)?;
            of.set_item("remedy", &error.remedy)?;
            problems.append(of)?;
            texts.push(error.to_string());
        }
        let refusal = ScenarioError::new_err(texts.join("\n"));
        refusal.value(py).setattr("problems", problems)?;
        Ok(refusal)
    };
    told().unwrap_or_else(|e| e)
}

/// How often a run looks whether it was interrupted.
const LOOK: Duration = Duration::from_millis(50);

/// An experiment, checked.
#[pyclass(frozen, module = "weir._weir")]
struct Scenario {
    inner: weir_config::Scenario,
    settings: Vec<(String, String)>,
}

fn checked(
    py: Python<'_>,
    document: Result<Document, Errors>,
    set: Vec<(String, String)>,
    has_lines: bool,
) -> PyResult<Scenario> {
    let read = || -> Result<weir_config::Scenario, Errors> {
        let mut document = document?;
        for (key, value) in &set {
            document.set(key, value)?;
        }
        document.scenario()
    };
    let inner = read().map_err(|e| refused(py, &e, has_lines))?;
    Ok(Scenario { inner, settings: Vec::new() })
}

#[pymethods]
impl Scenario {
    /// Reads a file; `set` are keys and values over it.
    #[staticmethod]
    fn load(py: Python<'_>, path: std::path::PathBuf, set: Vec<(String, String)>) -> PyResult<Scenario> {
        checked(py, Document::load(path), set, true)
    }

    /// Reads a text, which messages call `name`. Without `has_lines` the user did not write it as a text.
    #[staticmethod]
    fn parse(
        py: Python<'_>,
        name: &str,
        text: &str,
        set: Vec<(String, String)>,
        has_lines: bool,
    ) -> PyResult<Scenario> {
        checked(py, Document::parse(name, text), set, has_lines)
    }

    /// Its title.
    #[getter]
    fn title(&self) -> &str {
        &self.inner.title
    }

    /// Runs of each point of its sweep.
    #[getter]
    fn seeds(&self) -> u32 {
        self.inner.run.seeds
    }

    /// The keys and values that are set in this point of a sweep.
    #[getter]
    fn settings(&self) -> Vec<(String, String)> {
        self.settings.clone()
    }

    /// What is allowed but may not be what was meant.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.inner.warnings()
    }

    /// The points of its sweep; itself where there is none.
    fn points(&self) -> Vec<Scenario> {
        let points = self.inner.expand().into_iter();
        points.map(|point| Scenario { inner: point.scenario, settings: point.settings }).collect()
    }

    /// Every key with its value and its meaning, as TOML.
    fn to_toml(&self) -> String {
        self.inner.to_toml()
    }

    /// What tells it from others: a hash of its canonical form and its traces, whatever its number of seeds.
    #[getter]
    fn fingerprint(&self) -> String {
        Fingerprint::of_point(&self.inner).to_string()
    }

    /// What a run costs, about, in an unit of its own.
    #[getter]
    fn cost(&self) -> f64 {
        weir_sim::batch::cost(&self.inner)
    }

    /// Runs it once: what was measured, as the row of a sweep in JSON.
    fn row(&self, py: Python<'_>, point: usize, seed: u64) -> PyResult<String> {
        let outcome = self.simulate(py, seed)?;
        let trace_hash = format!("{:016x}", outcome.trace_hash);
        let measured = measured_with(&outcome.recording.summary, &outcome.study, &self.inner.run.objectives);
        let distributions =
            if self.inner.measure.is_some() { outcome.study.distributions } else { Vec::new() };
        let row = RunRow { point, seed, trace_hash, measured, distributions };
        serde_json::to_string(&row).map_err(|e| PyRuntimeError::new_err(e.to_string()))
    }

    /// The files of a sweep with these rows, in the order of points and seeds.
    fn tables<'py>(
        &self,
        py: Python<'py>,
        rows: Vec<String>,
    ) -> PyResult<Vec<(String, Bound<'py, PyBytes>)>> {
        let rows = rows.iter().map(|row| serde_json::from_str(row)).collect::<Result<Vec<RunRow>, _>>();
        let rows = rows.map_err(|e| PyValueError::new_err(e.to_string()))?;
        let labels = Labels::of(&self.inner, &self.inner.expand());
        let tables = sweep::tables(&self.inner.title, &labels, &rows).map_err(PyRuntimeError::new_err)?;
        Ok(tables.into_iter().map(|(name, bytes)| (name.to_string(), PyBytes::new(py, &bytes))).collect())
    }

    /// Runs it once: summary as JSON, samples of links by name, of flows, moves of set points, fingerprint.
    fn run(&self, py: Python<'_>, seed: u64) -> PyResult<Ran> {
        let outcome = self.simulate(py, seed)?;
        let recording = &outcome.recording;
        let summary =
            serde_json::to_string(&recording.summary).map_err(|e| PyRuntimeError::new_err(e.to_string()))?;
        let links = recording.summary.links.iter().zip(&recording.link_samples);
        let links = links.map(|(link, rows)| Ok((link.name.clone(), tables::of_link(rows)?)));
        Ok((
            summary,
            links.collect::<PyResult<Vec<_>>>()?,
            tables::of_flows(&recording.flow_samples)?,
            tables::of_events(&recording.events)?,
            outcome.trace_hash,
        ))
    }
}

impl Scenario {
    /// Runs it once, without holding the interpreter; an interrupt ends it.
    fn simulate(&self, py: Python<'_>, seed: u64) -> PyResult<weir_sim::Outcome> {
        let mut interrupt = None;
        let ran = py.detach(|| {
            let mut looked = Instant::now();
            weir_sim::run(&self.inner, seed, &mut |_| {
                if looked.elapsed() < LOOK {
                    return ControlFlow::Continue(());
                }
                looked = Instant::now();
                interrupt = Python::attach(|py| py.check_signals().err());
                if interrupt.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })
        });
        if let Some(interrupt) = interrupt {
            return Err(interrupt);
        }
        ran.map_err(|e| PyRuntimeError::new_err(e.to_string()))
    }
}

type Ran = (String, Vec<(String, tables::Table)>, tables::Table, tables::Table, u64);

/// The names of the disciplines.
#[pyfunction]
fn disciplines() -> Vec<&'static str> {
    weir_queue::names().to_vec()
}

#[pymodule]
fn _weir(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add("__version__", env!("CARGO_PKG_VERSION"))?;
    m.add("ScenarioError", m.py().get_type::<ScenarioError>())?;
    m.add_class::<Scenario>()?;
    m.add_class::<tables::Table>()?;
    m.add_class::<algorithm::Algorithm>()?;
    m.add_class::<environment::Environments>()?;
    m.add_function(wrap_pyfunction!(disciplines, m)?)?;
    m.add_function(wrap_pyfunction!(algorithm::algorithms, m)?)?;
    m.add_function(wrap_pyfunction!(algorithm::parameters, m)?)
}
