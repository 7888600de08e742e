//! What the switch for DPDK and the queue disc for ns-3 tell a queue of a packet. Neither DPDK nor ns-3 has
//! to be there: the part of each that reads headers is compiled with a few words in place of theirs.

use crate::toolchain::{has, here, said};
use std::fs;
use std::process::Command;

/// Compiles what a source has between two texts as a part of a program, and runs that; what it says.
fn run(language: [&str; 2], source: &str, (from, to): (&str, &str), program: &str) -> String {
    let text = fs::read_to_string(here(source)).expect("the source");
    let part = text.split_once(from).and_then(|(_, rest)| rest.split_once(to));
    let (part, _) = part.unwrap_or_else(|| panic!("{source} has nothing from {from:?} to {to:?}"));
    let folder = tempfile::tempdir().expect("there is room for temporary files");
    fs::write(folder.path().join("part.inc"), part).expect("there is room");
    let compiled = folder.path().join("program");
    let output = Command::new("cc")
        .args(["-x", language[0], language[1]])
        .arg(here(program))
        .arg("-I")
        .arg(here("include"))
        .arg("-I")
        .arg(folder.path())
        .arg("-lstdc++")
        .arg("-o")
        .arg(&compiled)
        .output();
    said(&output.expect("a C compiler"));
    said(&Command::new(compiled).output().expect("it was compiled"))
}

#[test]
fn the_dpdk_switch_tells_ecn_and_dscp() {
    let source = "../../integrations/dpdk/switch.c";
    let part = ("/* ---- What a queue asks of a packet ---- */", "/* ---- The tasks ---- */");
    let told = run(["c", "-std=gnu11"], source, part, "tests/c/described_dpdk.c");
    // DSCP 45 and ECT(1), and the same with CE.
    assert_eq!(told, "IPv4 0xb5, marked 0xb7\nIPv6 0xb5, marked 0xb7\n");
}

#[test]
fn the_queue_disc_for_ns3_tells_ecn_and_dscp() {
    if !has("the_queue_disc_for_ns3_tells_ecn_and_dscp", "c++") {
        return;
    }
    let source = "../../integrations/ns3/weir-queue-disc.cc";
    let part = ("/* Hashes of an address; equal addresses have equal ones. */", "static const char*\n");
    let told = run(["c++", "-std=c++17"], source, part, "tests/c/described_ns3.cc");
    assert_eq!(told, "IPv4 0xb5\nIPv6 0xb5\n");
}
