//! What the border costs, in instructions. Times are `cargo run --release -p weir-capi --example overhead`.

use crate::toolchain::has;
use std::process::Command;

#[allow(dead_code, reason = "its program is not wanted here")]
#[path = "../../examples/overhead.rs"]
mod passing;

/// What [`counted`] is to do: a way, and a number of packets.
const TASK: &str = "WEIR_OVERHEAD";

/// Most instructions that a packet of a batch takes more than in Rust, in and out. They are those of a build
/// for development, whole or incremental; a release takes fewer.
const BORDER_MAX: i64 = 214;

/// Passes packets in a process of its own, whose instructions are counted.
#[test]
#[ignore = "it is what another test counts"]
fn counted() {
    let task = std::env::var(TASK).unwrap_or_default();
    match task.split_once(' ') {
        Some(("rust", packets)) => drop(passing::through_rust(packets.parse().expect("a number"))),
        Some(("c", packets)) => drop(passing::through_c(packets.parse().expect("a number"))),
        _ => {}
    }
}

fn instructions(way: &str, packets: i64) -> i64 {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(std::env::current_exe().expect("a program has a path"))
        .args(["--exact", "overhead::counted", "--ignored"])
        .env(TASK, format!("{way} {packets}"))
        .output()
        .expect("valgrind is there");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{told}");
    let line = told.lines().find_map(|line| line.split_once("Collected : ")).expect("the count");
    line.1.trim().parse().expect("a number")
}

#[test]
fn the_border_costs_few_instructions() {
    if !has("the_border_costs_few_instructions", "valgrind") {
        return;
    }
    let (few, many) = (3200, 35_200);
    let of = |way: &str| (instructions(way, many) - instructions(way, few)) / (many - few);
    let (rust, c) = (of("rust"), of("c"));
    println!("{rust} instructions a packet in Rust, {c} through C");
    assert!(c - rust <= BORDER_MAX, "{rust} instructions a packet in Rust, {c} through C");
}
