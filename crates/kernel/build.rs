//! Compiles the BPF objects with clang.

use std::path::Path;
use std::process::Command;

const SOURCES: [&str; 3] = ["virtual_queue", "admission", "qdisc"];
const SHARED: [&str; 2] = ["gsp.h", "queue.h"];

fn main() {
    println!("cargo::rerun-if-env-changed=CLANG");
    for file in SHARED {
        println!("cargo::rerun-if-changed=bpf/{file}");
    }
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".into());
    let out = std::env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    for name in SOURCES {
        let (source, object) = (format!("bpf/{name}.bpf.c"), format!("{name}.bpf.o"));
        println!("cargo::rerun-if-changed={source}");
        let status = Command::new(&clang)
            .args(["-O2", "-g", "-target", "bpf", "-Wall", "-Werror", "-c", &source, "-o"])
            .arg(Path::new(&out).join(object))
            .status();
        match status {
            Ok(status) if status.success() => {}
            Ok(status) => {
                panic!("{clang} could not compile {source}: {status}. It must be clang 14 or newer")
            }
            Err(error) => panic!("{clang}: {error}. Remedy: install clang (Debian: apt-get install clang)"),
        }
    }
}
