//! Programs in C under checkers of memory.

use crate::toolchain::{CHECKED, PLAIN, compile, has, here, prefix, said};
use std::process::Command;

fn under_both(source: &str, arguments: &[&str]) -> String {
    let (folder, source) = (prefix(), here(source));
    let checked = said(&Command::new(compile(&source, &folder, CHECKED)).args(arguments).output().unwrap());
    if has("c_programs", "valgrind") {
        let plain = compile(&source, &folder, PLAIN);
        let valgrind = ["-q", "--error-exitcode=9", "--leak-check=full", "--show-leak-kinds=all"];
        let output = Command::new("valgrind").args(valgrind).arg(plain).args(arguments).output().unwrap();
        assert_eq!(said(&output), checked);
        let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!complaints.contains("definitely lost"), "{complaints}");
    }
    checked
}

#[test]
fn the_example_of_the_manual_does_what_it_says() {
    let said = under_both("../../examples/c/queue.c", &[]);
    let all = "packet 11 goes on after 2000 us\npacket 22 goes on after 2000 us\n2 came, 2 went\n";
    assert_eq!(said, all);
    let lines = std::fs::read_to_string(here("../../examples/c/queue.c")).unwrap().lines().count();
    assert!(lines <= 60, "{lines} lines are more than a newcomer reads");
}

#[test]
fn misuse_gets_a_code_or_a_count() {
    assert_eq!(under_both("tests/c/misuse.c", &[]), "");
}

#[test]
fn every_algorithm_in_every_discipline_gives_every_packet_back_once() {
    let folder = prefix();
    let program = compile(&here("tests/c/every.c"), &folder, CHECKED);
    let tried: usize = said(&Command::new(program).output().unwrap()).trim().parse().unwrap();
    assert_eq!(tried, weir_aqm::names().len() * 3 + 3);
    // With fewer packets, as valgrind is slow.
    under_both("tests/c/every.c", &["150"]);
}
