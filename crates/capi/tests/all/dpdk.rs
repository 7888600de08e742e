//! The switch for DPDK on ports that make packets of nothing.

use crate::toolchain::{here, prefix, said};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles a program for DPDK; nothing where DPDK is not installed.
fn built(source: &str, folder: &Path) -> Option<PathBuf> {
    let dpdk = Command::new("pkg-config").args(["--cflags", "--libs", "libdpdk"]).output();
    let dpdk = dpdk.ok().filter(|output| output.status.success())?;
    let program = folder.join("program");
    let compiled = Command::new("cc")
        .args(["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-march=native"])
        .arg("-DALLOW_EXPERIMENTAL_API")
        .arg(here(source))
        .arg("-o")
        .arg(&program)
        .arg(format!("-I{}", here("include").display()))
        .arg(format!("-L{}", folder.display()))
        .arg(format!("-Wl,-rpath,{}", folder.display()))
        .arg("-lweir")
        .args(String::from_utf8_lossy(&dpdk.stdout).split_whitespace())
        .arg("-pthread")
        .output()
        .expect("a C compiler");
    said(&compiled);
    Some(program)
}

#[test]
fn the_dpdk_switch_loses_no_packet_and_takes_policies_while_it_runs() {
    let folder = prefix();
    let Some(program) = built("../../integrations/dpdk/switch.c", folder.path()) else {
        println!("SKIPPED: dpdk_switch: libdpdk-dev is not installed");
        return;
    };
    let tried = Command::new(here("../../integrations/dpdk/try")).arg("short").arg(program).output();
    assert_eq!(said(&tried.expect("Python is there")), "ok\n");
}

#[test]
fn the_first_program_for_dpdk_forwards() {
    let folder = prefix();
    let Some(program) = built("../../examples/c/dpdk.c", folder.path()) else {
        println!("SKIPPED: dpdk_example: libdpdk-dev is not installed");
        return;
    };
    let name = format!("--file-prefix=weir-example-{}", std::process::id());
    let ports = ["--vdev", "net_null0,size=1000", "--vdev", "net_null1"];
    let ran = Command::new(program)
        .args(["-l", "0", "--no-huge", "-m", "128", "--no-pci", "--log-level=lib.*:error", &name])
        .args(ports)
        .output();
    let text = said(&ran.expect("it was compiled"));
    let counts: Vec<u64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    assert!(counts.len() >= 2 && counts[0] >= counts[1] && counts[1] > 0, "{text}");
}
