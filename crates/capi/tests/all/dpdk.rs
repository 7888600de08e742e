//! The switch for DPDK on ports that make packets of nothing.

use crate::toolchain::{here, prefix, said};
use std::process::Command;

#[test]
fn the_dpdk_switch_loses_no_packet_and_takes_policies_while_it_runs() {
    let dpdk = Command::new("pkg-config").args(["--cflags", "--libs", "libdpdk"]).output();
    let Some(dpdk) = dpdk.ok().filter(|output| output.status.success()) else {
        println!("SKIPPED: dpdk_switch: libdpdk-dev is not installed");
        return;
    };
    let folder = prefix();
    let program = folder.path().join("weir-switch");
    let compiled = Command::new("cc")
        .args([
            "-std=gnu11",
            "-O1",
            "-g",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-march=native",
            "-DALLOW_EXPERIMENTAL_API",
        ])
        .arg(here("../../integrations/dpdk/switch.c"))
        .arg("-o")
        .arg(&program)
        .arg(format!("-I{}", here("include").display()))
        .arg(format!("-L{}", folder.path().display()))
        .arg(format!("-Wl,-rpath,{}", folder.path().display()))
        .arg("-lweir")
        .args(String::from_utf8_lossy(&dpdk.stdout).split_whitespace())
        .arg("-pthread")
        .output()
        .expect("a C compiler");
    said(&compiled);
    let tried = Command::new(here("../../integrations/dpdk/try")).arg("short").arg(program).output();
    assert_eq!(said(&tried.expect("Python is there")), "ok\n");
}
