//! `weir tune` hands its arguments to the Python package, and says what is missing.

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

fn tune(python: &std::path::Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(arguments).env("WEIR_PYTHON", python).output().unwrap()
}

#[test]
fn tune_is_handed_to_the_python_package() {
    let folder = tempfile::tempdir().unwrap();
    let python = folder.path().join("python");
    let script = |text: &str| {
        std::fs::write(&python, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&python, std::fs::Permissions::from_mode(0o755)).unwrap();
    };
    // The package is there: its arguments and its exit status are passed on.
    script("[ \"$1\" = -c ] && exit 0; echo \"$@\"; exit 2");
    let output = tune(&python, &["--json", "tune", "a.toml", "--trials", "3"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "-m weir tune --json a.toml --trials 3\n");
    // It is not there.
    script("echo \"ModuleNotFoundError: No module named 'weir'\" >&2; exit 1");
    let output = tune(&python, &["tune", "a.toml"]);
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(
        told.contains("No module named 'weir'") && told.contains("pip install './python[tune]'"),
        "{told}"
    );
    let output = tune(&folder.path().join("nosuch"), &["tune", "a.toml"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("Remedy: python3 -m venv"));
}
