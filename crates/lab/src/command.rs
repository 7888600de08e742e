//! Calls of other programs, with their failures as errors.

use crate::error::{Error, Result};
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Where distributions keep administrative programs that may be missing in an ordinary user's PATH.
const ADMIN_DIRS: [&str; 3] = ["/usr/sbin", "/sbin", "/usr/local/sbin"];

/// The package a program is in.
pub(crate) fn package_of(program: &str) -> &str {
    match program {
        "ip" | "tc" | "ss" => "iproute2",
        other => other,
    }
}

/// Finds a program as the shell would, and in the administrative directories.
pub(crate) fn find(program: &str) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(ADMIN_DIRS.iter().map(PathBuf::from))
        .map(|dir| dir.join(program))
        .find(|file| is_executable(file))
        .ok_or_else(|| missing(program))
}

fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

fn missing(program: &str) -> Error {
    Error::Missing { program: program.into(), package: package_of(program).into() }
}

/// Ctrl-C, and a terminal that is closed, end all processes of the terminal's group: what is made or removed
/// of a network then comes to its end all the same.
const OWN_GROUP: i32 = 0;

/// Runs a program to its end and returns what it wrote to stdout.
pub(crate) fn run(program: &str, args: &[&str]) -> Result<String> {
    let line = format!("{program} {}", args.join(" "));
    let output = Command::new(find(program)?)
        .args(args)
        .stdin(Stdio::null())
        .process_group(OWN_GROUP)
        .output()
        .map_err(|e| Error::system(format!("start `{line}`"), e))?;
    checked(line, &output)
}

/// Runs lines of `ip` inside a namespace in one process; stops at the first that fails and names it.
pub(crate) fn ip_batch(namespace: &str, lines: &[String]) -> Result<()> {
    let what = format!("ip -n {namespace} -batch -");
    let mut child = Command::new(find("ip")?)
        .args(["-n", namespace, "-batch", "-"])
        .process_group(OWN_GROUP)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| Error::system(format!("start `{what}`"), e))?;
    if let Some(mut stdin) = child.stdin.take() {
        match stdin.write_all(format!("{}\n", lines.join("\n")).as_bytes()) {
            // The program ended before it read everything: its exit status tells why.
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => {}
            other => other.map_err(|e| Error::system(format!("write to `{what}`"), e))?,
        }
    }
    let output = child.wait_with_output().map_err(|e| Error::system(format!("wait for `{what}`"), e))?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    let line = failed_line(&stderr).and_then(|n| lines.get(n.checked_sub(1)?));
    checked(line.map_or(what, |l| format!("ip -n {namespace} {l}")), &output).map(|_| ())
}

/// The number in iproute2's "Command failed -:3".
fn failed_line(stderr: &str) -> Option<usize> {
    let rest = stderr.split("Command failed -:").nth(1)?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

fn checked(command: String, output: &Output) -> Result<String> {
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let message = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
    Err(Error::Command { command, status: output.status.to_string(), message })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_names_its_package() {
        let e = run("no-such-program-here", &[]).unwrap_err();
        assert!(e.to_string().contains("install the package"), "{e}");
        assert_eq!(package_of("ip"), "iproute2");
    }

    #[test]
    fn a_signal_to_the_terminals_group_does_not_reach_what_is_run() {
        // The fifth value is the process group (proc(5)).
        let told = run("cut", &["-d ", "-f5", "/proc/self/stat"]).unwrap();
        // SAFETY: no arguments.
        let ours = unsafe { libc::getpgrp() };
        assert_ne!(told.trim().parse(), Ok(ours));
    }

    #[test]
    fn a_failing_program_is_an_error_with_its_words() {
        let e = run("ls", &["/no/such/place"]).unwrap_err();
        assert!(e.to_string().contains("ls /no/such/place"), "{e}");
        assert!(e.to_string().contains("No such file"), "{e}");
    }

    #[test]
    fn the_failed_line_of_a_batch_is_found() {
        assert_eq!(failed_line("RTNETLINK answers: File exists\nCommand failed -:12\n"), Some(12));
        assert_eq!(failed_line("something else"), None);
        assert_eq!(failed_line("Command failed -:"), None);
    }
}
