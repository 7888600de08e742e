//! An algorithm that became more expensive fails here. Instructions are counted, so a busy machine does not
//! matter.

use std::process::Command;

#[test]
fn no_algorithm_takes_more_instructions_than_its_ceiling() {
    let has_valgrind = Command::new("valgrind").arg("--version").output().is_ok_and(|o| o.status.success());
    if !has_valgrind {
        eprintln!(
            "SKIPPED: valgrind is missing, no instructions were counted: install the package `valgrind`"
        );
        return;
    }
    let output =
        Command::new(env!("CARGO_BIN_EXE_weir-bench")).args(["ceilings", "--json"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let rows = json["rows"].as_array().unwrap();
    assert!(rows.len() >= 3, "{text}");
    for row in rows {
        assert_eq!(row["verdict"], "held", "{row}");
    }
}
