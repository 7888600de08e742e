//! The trace files of a scenario, each read once.

use crate::errors::Wrong;
use crate::trace::Trace;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;

/// Most different trace files of a scenario.
pub const MAX_TRACES: usize = 100;

/// Trace files by their paths. Each is read once, however many points of a sweep use it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Library {
    folder: PathBuf,
    known: Rc<RefCell<BTreeMap<String, Result<Trace, Wrong>>>>,
}

impl Library {
    /// Files whose relative paths start at `folder`.
    pub fn of(folder: PathBuf) -> Library {
        Library { folder, known: Rc::default() }
    }

    /// The trace in a file.
    pub fn trace(&self, path: &str) -> Result<Trace, Wrong> {
        let mut known = self.known.borrow_mut();
        if let Some(trace) = known.get(path) {
            return trace.clone();
        }
        if known.len() >= MAX_TRACES {
            let problem = format!("is one more than {MAX_TRACES} different trace files");
            return Err(Wrong::new(problem, "use fewer, or split the scenario"));
        }
        let trace = Trace::load(self.folder.join(path)).map_err(|errors| {
            let error = errors.iter().next().expect("a refusal has a reason");
            let line = error.line.map(|line| format!(":{line}")).unwrap_or_default();
            Wrong::new(format!("{}{line}: {}", error.file, error.problem), error.remedy.clone())
        });
        known.insert(path.to_string(), trace.clone());
        trace
    }
}
