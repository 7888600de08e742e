//! Compiles the BPF object with clang.

use std::path::Path;
use std::process::Command;

const SOURCE: &str = "bpf/virtual_queue.bpf.c";

fn main() {
    println!("cargo::rerun-if-env-changed=CLANG");
    println!("cargo::rerun-if-changed={SOURCE}");
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".into());
    let out = std::env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    let status = Command::new(&clang)
        .args(["-O2", "-g", "-target", "bpf", "-Wall", "-Werror", "-c", SOURCE, "-o"])
        .arg(Path::new(&out).join("virtual_queue.bpf.o"))
        .status();
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => panic!("{clang} could not compile {SOURCE}: {status}"),
        Err(error) => panic!("{clang}: {error}. Remedy: install clang (Debian: apt-get install clang)"),
    }
}
