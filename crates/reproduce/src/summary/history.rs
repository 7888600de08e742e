//! What git says of a working tree and its commits.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

/// A working tree as it is while a page is made: git is asked each question once, as most results ask the
/// same ones of the same commits.
pub struct History<'a> {
    folder: &'a Path,
    answers: RefCell<HashMap<Vec<String>, Option<String>>>,
}

impl<'a> History<'a> {
    /// That in which a folder lies.
    pub fn of(folder: &'a Path) -> History<'a> {
        History { folder, answers: RefCell::default() }
    }

    /// What git prints; nothing if it is not there or fails.
    pub fn git(&self, arguments: impl IntoIterator<Item = String>) -> Option<String> {
        let arguments: Vec<String> = arguments.into_iter().collect();
        if let Some(answer) = self.answers.borrow().get(&arguments) {
            return answer.clone();
        }
        let answer = git(self.folder, &arguments);
        self.answers.borrow_mut().insert(arguments, answer.clone());
        answer
    }
}

/// What git prints in a folder; nothing if it is not there or fails.
pub fn git(folder: &Path, arguments: &[String]) -> Option<String> {
    let plain = ["-c", "core.quotePath=false", "-c", "diff.relative=false"];
    let output = Command::new("git").args(plain).arg("-C").arg(folder).args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_string())
}
