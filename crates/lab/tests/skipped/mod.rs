//! Tests that cannot run here say so where people see it. Live tests of all crates share this folder.

#[allow(dead_code, reason = "not every file of tests judges rates")]
pub mod judged;

use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// Says that this test is skipped, and what it needs.
pub fn skipped(reason: impl std::fmt::Display) {
    // The harness names threads after their tests.
    let thread = std::thread::current();
    say(format!("SKIPPED: {}: {reason}", thread.name().unwrap_or("a test")));
}

/// Whether live tests can run here with these programs; if not, why is said.
#[allow(dead_code, reason = "not every file of tests has live ones")]
pub fn can_run_live(programs: &[&str]) -> bool {
    // SAFETY: the call takes nothing and cannot fail.
    let is_root = unsafe { libc::geteuid() } == 0;
    let reason = match programs.iter().find(|program| find(program).is_none()) {
        _ if !is_root => "not root".to_string(),
        Some(program) => format!("`{program}` is not installed"),
        None => match namespace() {
            Ok(()) => return true,
            Err(e) => format!("no network namespace can be made here: {e}"),
        },
    };
    skipped(reason);
    false
}

/// Where a program is: as the shell would find it, or in the administrators' directories.
pub fn find(program: &str) -> Option<PathBuf> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let administrators = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from);
    let mut files = std::env::split_paths(&paths).chain(administrators).map(|folder| folder.join(program));
    files.find(|file| file.metadata().is_ok_and(|found| found.is_file() && found.mode() & 0o111 != 0))
}

/// Makes a network namespace, which ends with its thread. Root of a container may have no right to.
fn namespace() -> io::Result<()> {
    // SAFETY: only the thread, which does nothing else, gets another namespace.
    let make = || match unsafe { libc::unshare(libc::CLONE_NEWNET) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    };
    std::thread::spawn(make).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Past the test harness, which shows nothing of tests that pass; at once, as others write there too.
pub fn say(text: impl std::fmt::Display) {
    let _ = std::io::stderr().lock().write_all(format!("{text}\n").as_bytes());
}
