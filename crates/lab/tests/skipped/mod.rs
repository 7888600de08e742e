//! Tests that cannot run here say so where people see it. Live tests of all crates share this folder.

#[allow(dead_code, reason = "not every file of tests judges rates")]
pub mod judged;

use std::io::Write;

/// Says that this test is skipped, and what it needs.
pub fn skipped(reason: impl std::fmt::Display) {
    // The harness names threads after their tests.
    let thread = std::thread::current();
    say(format!("SKIPPED: {}: {reason}", thread.name().unwrap_or("a test")));
}

/// Past the test harness, which shows nothing of tests that pass; at once, as others write there too.
pub fn say(text: impl std::fmt::Display) {
    let _ = std::io::stderr().lock().write_all(format!("{text}\n").as_bytes());
}
