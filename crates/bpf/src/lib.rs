//! Compiles BPF objects with clang, for build scripts.
//!
//! Sources are in the folder `bpf` of the crate that is built; they find `bpf.h` of this one, which declares
//! what they all use, so that no kernel or libbpf headers are needed.
#![forbid(unsafe_code)]

use std::path::Path;
use std::process::Command;

/// What all sources use of BPF.
const HEADER: &str = include_str!("bpf.h");

/// An object: its name, its source's name, and the macros that are defined for it, as `-DNAME`.
pub type Object<'a> = (&'a str, &'a str, &'a [&'a str]);

/// Compiles `bpf/SOURCE.bpf.c` of the crate that is built to `NAME.bpf.o` in `OUT_DIR`, for each object.
/// `headers` are files of the same folder that sources include.
///
/// # Panics
///
/// If clang is not there or refuses a source: it is called by build scripts alone.
pub fn compile(objects: &[Object<'_>], headers: &[&str]) {
    println!("cargo::rerun-if-env-changed=CLANG");
    for header in headers {
        println!("cargo::rerun-if-changed=bpf/{header}");
    }
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".into());
    let out = std::env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    std::fs::write(Path::new(&out).join("bpf.h"), HEADER).expect("OUT_DIR can be written");
    for (name, source, macros) in objects {
        let source = format!("bpf/{source}.bpf.c");
        println!("cargo::rerun-if-changed={source}");
        let status = Command::new(&clang)
            .args(["-O2", "-g", "-target", "bpf", "-Wall", "-Werror", "-I", &out])
            .args(*macros)
            .args(["-c", &source, "-o"])
            .arg(Path::new(&out).join(format!("{name}.bpf.o")))
            .status();
        match status {
            Ok(status) if status.success() => {}
            Ok(status) => panic!("{clang} could not compile {source}: {status}"),
            Err(error) => panic!("{clang}: {error}. Remedy: install clang (Debian: apt-get install clang)"),
        }
    }
}
