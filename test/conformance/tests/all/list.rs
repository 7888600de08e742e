//! Every algorithm of the list passes every suite, plain and steered.

use weir_conformance::{check_all, parameters, run};
use weir_steer::Policy;

#[test]
fn every_algorithm_passes_every_suite() {
    let checks = check_all();
    let failures: Vec<String> = checks
        .iter()
        .filter_map(|c| Some(format!("{}, {}: {}", c.subject, c.suite, c.finding.as_ref().err()?)))
        .collect();
    assert!(failures.is_empty(), "{} of {} failed:\n{}", failures.len(), checks.len(), failures.join("\n"));
    for name in weir_aqm::names() {
        assert!(checks.iter().any(|c| c.subject == *name), "{name} was not checked");
    }
}

#[test]
fn the_policy_of_steering_is_declared_as_well() {
    assert_eq!(run(parameters::parameters::<Policy>), Ok(()));
}
