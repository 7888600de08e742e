//! The golden steps of every algorithm pass through C.

use crate::toolchain::{CHECKED, compile, here, prefix, said};
use serde_json::Value as Json;
use std::io::Write;
use std::process::{Command, Stdio};
use weir_aqm::{Algorithm, Params, Value};

/// The keys of the `aqm` table for parameters as a recording has them.
struct Text<'a>(&'a Json);

impl weir_aqm::Visitor for Text<'_> {
    type Output = String;

    fn visit<A: Algorithm>(self) -> String {
        let mut text = format!("name = \"{}\"\n", A::NAME);
        for info in A::Params::INFO {
            let given = &self.0[info.name];
            let value = match info.default {
                Value::Duration(_) => format!("\"{given}ns\""),
                Value::Bytes(_) => format!("\"{given}B\""),
                Value::Rate(_) => format!("\"{given}bit/s\""),
                Value::Share(_) => format!("\"{}%\"", given.as_f64().expect("a share") * 100.0),
                Value::Number(_) | Value::Count(_) | Value::Flag(_) => given.to_string(),
            };
            text.push_str(&format!("{} = {value}\n", info.name));
        }
        text
    }
}

#[test]
fn golden_steps_pass_through_c() {
    let folder = prefix();
    let program = compile(&here("tests/c/golden.c"), &folder, CHECKED);
    let mut seen = std::collections::BTreeSet::new();
    for entry in std::fs::read_dir(here("../../data/vectors")).expect("the folder of golden steps") {
        let path = entry.expect("readable").path();
        if path.extension().is_none_or(|kind| kind != "jsonl") {
            continue;
        }
        let recording = std::fs::read_to_string(&path).expect("readable");
        let (head, calls) = recording.split_once('\n').expect("a recording has calls");
        let head: Json = serde_json::from_str(head).expect("JSON");
        let name = head["algorithm"].as_str().expect("a name");
        let config = weir_aqm::visit(name, Text(&head["params"])).expect("it is in the list");
        for batch in ["1", "32"] {
            let mut child = Command::new(&program)
                .args([&config, batch])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .expect("it was just compiled");
            // One that fails reads no further, and says why.
            let _ = child.stdin.take().expect("piped").write_all(calls.as_bytes());
            let output = child.wait_with_output().expect("it ends");
            let asked = said(&output);
            assert_eq!(asked.trim(), calls.lines().count().to_string(), "{}", path.display());
        }
        seen.insert(name.to_string());
    }
    assert!(weir_aqm::names().iter().all(|name| seen.contains(*name)), "{seen:?}");
}
