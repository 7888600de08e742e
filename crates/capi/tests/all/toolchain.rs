//! The C compiler, and what it makes of the programs of these tests.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

pub fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The folder in which cargo puts what it builds of this profile.
fn built() -> PathBuf {
    let program = std::env::current_exe().expect("a program has a path");
    program.ancestors().nth(2).expect("it lies in `deps` of the profile").to_path_buf()
}

/// What cargo built of the library, beside this program.
pub fn library(name: &str) -> PathBuf {
    let in_deps = built().join("deps").join(name);
    assert!(in_deps.exists(), "{}: cargo builds it with these tests", in_deps.display());
    in_deps
}

/// Whether a program is there; a test without it is skipped.
pub fn has(test: &str, program: &str) -> bool {
    let there = Command::new(program).arg("--version").output().is_ok_and(|o| o.status.success());
    if !there {
        println!("SKIPPED: {test}: {program} is not installed");
    }
    there
}

/// A folder with the library under the names that a C program knows.
pub fn prefix() -> TempDir {
    let folder = tempfile::tempdir().expect("there is room for temporary files");
    for name in [
        "libweir.so",
        concat!("libweir.so.", env!("CARGO_PKG_VERSION_MAJOR"), ".", env!("CARGO_PKG_VERSION_MINOR")),
    ] {
        std::os::unix::fs::symlink(library("libweir_capi.so"), folder.path().join(name)).expect("a new link");
    }
    folder
}

/// How a program is compiled beside warnings as errors.
pub const CHECKED: &[&str] = &["-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
pub const PLAIN: &[&str] = &[];

/// Compiles a program in C; its path.
pub fn compile(source: &Path, folder: &TempDir, flags: &[&str]) -> PathBuf {
    let name = source.file_stem().expect("a file").to_string_lossy();
    let program = folder.path().join(format!("{name}{}", flags.len()));
    let lib = folder.path();
    let done = Command::new("cc")
        .args(["-std=gnu11", "-g", "-O1", "-Wall", "-Wextra", "-Werror"])
        .args(flags)
        .arg(source)
        .arg("-I")
        .arg(here("include"))
        .arg("-L")
        .arg(lib)
        .arg(format!("-Wl,-rpath,{}", lib.display()))
        .arg("-lweir")
        .arg("-o")
        .arg(&program)
        .output()
        .expect("the linker of Rust programs is a C compiler");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    program
}

/// What a program wrote, which must have succeeded.
pub fn said(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    text
}
