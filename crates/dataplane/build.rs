//! Compiles the BPF objects with clang.

use std::path::Path;
use std::process::Command;

/// Objects: their names, sources and defined macros. With `TAGS` the program calls a function of the kernel,
/// which takes a kernel that has it and describes its types (BTF).
const OBJECTS: [(&str, &str, &[&str]); 3] =
    [("port", "port", &[]), ("port_tags", "port", &["-DTAGS"]), ("reflect", "reflect", &[])];

fn main() {
    println!("cargo::rerun-if-env-changed=CLANG");
    println!("cargo::rerun-if-changed=bpf/bpf.h");
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".into());
    let out = std::env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    for (name, source, macros) in OBJECTS {
        let source = format!("bpf/{source}.bpf.c");
        println!("cargo::rerun-if-changed={source}");
        compile(&clang, &source, macros, &Path::new(&out).join(format!("{name}.bpf.o")));
    }
}

fn compile(clang: &str, source: &str, macros: &[&str], object: &Path) {
    let status = Command::new(clang)
        .args(["-O2", "-g", "-target", "bpf", "-Wall", "-Werror"])
        .args(macros)
        .args(["-c", source, "-o"])
        .arg(object)
        .status();
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => panic!("{clang} could not compile {source}: {status}"),
        Err(error) => panic!("{clang}: {error}. Remedy: install clang (Debian: apt-get install clang)"),
    }
}
