//! When, with which program and on which machine something is made.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};
use weir_reproduce::Made;

/// Of this program, here, as it was when this was asked for first: what takes hours asks as it begins, for
/// the tree may be another one at the end.
pub fn made() -> &'static Made {
    static MADE: OnceLock<Made> = OnceLock::new();
    MADE.get_or_init(now)
}

fn now() -> Made {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    Made {
        date: date(seconds),
        commit: commit(),
        version: env!("CARGO_PKG_VERSION").into(),
        machine: machine(),
    }
}

/// The day in UTC of a number of seconds since 1970, by the Gregorian calendar.
fn date(seconds: u64) -> String {
    let mut days = seconds / 86_400;
    let is_leap =
        |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1970;
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let february = 28 + u64::from(is_leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    format!("{year}-{month:02}-{:02}", days + 1)
}

/// The commit of a program that was not told at its build and of which git tells none.
pub const UNKNOWN: &str = "unknown";

/// The commit that the program was built from, if the build was told (`WEIR_COMMIT`); otherwise that of the
/// tree in which the program lies, with a mark if files in it were changed.
fn commit() -> String {
    if let Some(told) = option_env!("WEIR_COMMIT").filter(|told| !told.is_empty()) {
        return told.to_string();
    }
    let program = std::env::current_exe().unwrap_or_default();
    let folder = program.parent().unwrap_or(Path::new("/"));
    let git = Command::new("git")
        .arg("-C")
        .arg(folder)
        .args(["describe", "--always", "--dirty=, changed", "--exclude=*"])
        .output();
    match git {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).trim().to_string(),
        _ => UNKNOWN.to_string(),
    }
}

/// Processors and operating system, as far as Linux tells.
fn machine() -> String {
    let of = |file: &str| fs::read_to_string(file).unwrap_or_default();
    let cpus = std::thread::available_parallelism().map_or(1, |n| n.get());
    let info = of("/proc/cpuinfo");
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split(':').nth(1));
    let release = of("/proc/sys/kernel/osrelease");
    let model = model.map_or("processor of unknown model", str::trim);
    format!("{cpus} x {model}, {} {}", std::env::consts::OS, release.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        let cases = [
            (0, "1970-01-01"),
            (951_782_400, "2000-02-29"),
            (951_868_800, "2000-03-01"),
            (4_107_542_399, "2100-02-28"),
            (4_107_542_400, "2100-03-01"),
            (1_798_761_599, "2026-12-31"),
        ];
        cases.iter().for_each(|(seconds, wanted)| assert_eq!(date(*seconds), *wanted));
    }

    #[test]
    fn a_result_says_where_it_comes_from() {
        let made = made();
        assert!(made.machine.contains(" x ") && !made.commit.is_empty(), "{made:?}");
    }
}
