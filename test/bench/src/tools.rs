//! Other people's programs: where they are, and the package that is missing.

use crate::error::{Error, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program by its name; an error names the Debian package to install.
pub fn program(name: &str) -> Result<PathBuf> {
    let package = match name {
        "dpdk-testpmd" => "dpdk-dev",
        "ip" | "tc" => "iproute2",
        "cc" => "gcc",
        "ns" => "ns2",
        other => other,
    };
    let missing = || Error::new(format!("`{name}` is missing: install the Debian package `{package}`"));
    weir_lab::host::binary(name).ok_or_else(missing)
}

/// A Python that has what the peers' scripts need: the first one on the PATH may be of any version, and one
/// that was built where a library was missing lacks the module for it.
pub fn python() -> Result<PathBuf> {
    let finder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/python");
    let (path, _) = output(Command::new(finder).arg("ctypes,tomllib"))?;
    Ok(PathBuf::from(path.trim()))
}

/// Sources of the peers.
pub fn peers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("peers")
}

/// Builds a peer with its Makefile, beside this program; its path.
pub fn peer(name: &str) -> Result<PathBuf> {
    for tool in ["make", "cc"] {
        program(tool)?;
    }
    if name.starts_with("rte_") && !has_dpdk()? {
        return Err(Error::new("DPDK is missing: install the Debian package `libdpdk-dev`"));
    }
    let here = std::env::current_exe()?;
    let out = here.parent().unwrap_or(Path::new(".")).join("peers");
    let target = out.join(name);
    let made = Command::new("make")
        .arg("-C")
        .arg(peers())
        .arg(format!("OUT={}", out.display()))
        .arg(&target)
        .output()?;
    if !made.status.success() {
        let said = String::from_utf8_lossy(&made.stderr);
        return Err(Error::new(format!("cannot build {name}: {}", said.trim())));
    }
    Ok(target)
}

fn has_dpdk() -> Result<bool> {
    program("pkg-config")?;
    Ok(Command::new("pkg-config").args(["--exists", "libdpdk"]).status()?.success())
}

/// Runs a program to its end; what it printed.
pub fn output(command: &mut Command) -> Result<(String, String)> {
    let what = format!("{command:?}");
    let output = command.output().map_err(|e| Error::new(format!("{what}: {e}")))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    if output.status.success() {
        return Ok((out, err));
    }
    Err(Error::new(format!("{what} failed ({}): {}", output.status, err.trim())))
}
