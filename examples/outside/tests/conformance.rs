//! What every algorithm of Weir must hold, asked of the one of this crate.

use weir_conformance::{Check, check};

struct Suites;

impl weir_aqm::Visitor for Suites {
    type Output = Vec<Check>;

    fn visit<A: weir_aqm::Algorithm>(self) -> Vec<Check> {
        check::<A>()
    }
}

#[test]
fn ramp_passes_every_suite() {
    let checks = weir_aqm::visit("ramp", Suites).expect("ramp is in the list");
    let told = |c: &Check| Some(format!("{}, {}: {}", c.subject, c.suite, c.finding.as_ref().err()?));
    let failures: Vec<String> = checks.iter().filter_map(told).collect();
    assert!(checks.len() > 10 && failures.is_empty(), "{failures:#?}");
}
