//! The files that a scenario names, traces and descriptions of pages, each read once.

use crate::errors::{Errors, Wrong};
use crate::trace::Trace;
use std::any::Any;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;

/// Most different trace files of a scenario, and most descriptions of pages.
pub const MAX_TRACES: usize = 100;

const TRACES: &str = "trace files";

/// Kind and path of a file.
type Name = (&'static str, String);
/// What files have in them, or why they cannot be read.
type Known = BTreeMap<Name, Result<Rc<dyn Any>, Wrong>>;

/// Files by their paths. Each is read once, however many points of a sweep use it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Library {
    folder: PathBuf,
    known: Rc<RefCell<Known>>,
}

impl Library {
    /// Files whose relative paths start at `folder`.
    pub fn of(folder: PathBuf) -> Library {
        Library { folder, ..Library::default() }
    }

    /// The trace in a file.
    pub fn trace(&self, path: &str) -> Result<Trace, Wrong> {
        self.content(TRACES, path, Trace::load)
    }

    /// Takes a trace for the content of a file, which is not looked for.
    pub fn bring(&self, path: &str, trace: Trace) {
        self.known.borrow_mut().insert((TRACES, path.to_string()), Ok(Rc::new(trace)));
    }

    /// What a file has in it that `load` reads. Each `kind` of file, its plural for messages, has one type.
    pub fn content<T: Clone + 'static>(
        &self,
        kind: &'static str,
        path: &str,
        load: impl FnOnce(PathBuf) -> Result<T, Errors>,
    ) -> Result<T, Wrong> {
        let mut known = self.known.borrow_mut();
        let name = (kind, path.to_string());
        if !known.contains_key(&name) && known.keys().filter(|other| other.0 == kind).count() >= MAX_TRACES {
            let problem = format!("is one more than {MAX_TRACES} different {kind}");
            return Err(Wrong::new(problem, "use fewer, or split the scenario"));
        }
        let content = known.entry(name).or_insert_with(|| {
            load(self.folder.join(path)).map(|content| Rc::new(content) as Rc<dyn Any>).map_err(of_file)
        });
        let content = content.as_ref().map_err(Wrong::clone)?;
        Ok(content.downcast_ref::<T>().expect("a kind has one type").clone())
    }
}

/// The first problem of a file, to be told of the key that names it.
fn of_file(errors: Errors) -> Wrong {
    let error = errors.iter().next().expect("a refusal has a reason");
    let line = error.line.map(|line| format!(":{line}")).unwrap_or_default();
    let key = error.key.as_ref().map(|key| format!(" key `{key}`:")).unwrap_or_default();
    Wrong::new(format!("{}{line}:{key} {}", error.file, error.problem), error.remedy.clone())
}
