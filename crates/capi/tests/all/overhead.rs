//! What the border costs, in instructions. Times are `cargo run --release -p weir-capi --example overhead`.

use crate::toolchain::has;
use std::process::Command;

/// Most instructions that a packet of a batch takes more than in Rust, in and out. They are those of a build for
/// development; a release takes fewer.
const BORDER_MAX: i64 = 300;

fn instructions(program: &std::path::Path, way: &str, packets: i64) -> i64 {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args([way, &packets.to_string()])
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
    let program = std::env::current_exe().expect("a program has a path");
    let program = program.ancestors().nth(2).expect("it lies in `deps`").join("examples/overhead");
    assert!(program.exists(), "{}: cargo builds it with these tests", program.display());
    let (few, many) = (3200, 35_200);
    let of =
        |way: &str| (instructions(&program, way, many) - instructions(&program, way, few)) / (many - few);
    let (rust, c) = (of("rust"), of("c"));
    println!("{rust} instructions a packet in Rust, {c} through C");
    assert!(c - rust <= BORDER_MAX, "{rust} instructions a packet in Rust, {c} through C");
}
