//! Compiles the BPF objects with clang.

use std::path::Path;
use std::process::Command;

const SOURCES: [&str; 2] = ["port", "reflect"];

fn main() {
    println!("cargo::rerun-if-env-changed=CLANG");
    println!("cargo::rerun-if-changed=bpf/bpf.h");
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".into());
    let out = std::env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    for name in SOURCES {
        let source = format!("bpf/{name}.bpf.c");
        println!("cargo::rerun-if-changed={source}");
        compile(&clang, &source, &Path::new(&out).join(format!("{name}.bpf.o")));
    }
}

fn compile(clang: &str, source: &str, object: &Path) {
    let status = Command::new(clang)
        .args(["-O2", "-g", "-target", "bpf", "-Wall", "-Werror", "-c", source, "-o"])
        .arg(object)
        .status();
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => panic!("{clang} could not compile {source}: {status}"),
        Err(error) => panic!("{clang}: {error}. Remedy: install clang (Debian: apt-get install clang)"),
    }
}
