//! One more algorithm is one file and one line: the suites take it up without a change.

use weir_conformance::{Check, check_all};

#[test]
fn the_test_algorithm_is_picked_up_by_every_suite() {
    assert!(weir_aqm::names().contains(&"every_nth"));
    let checks = check_all();
    let of = |subject: &str| -> Vec<&Check> { checks.iter().filter(|c| c.subject == subject).collect() };
    let (plain, gsp) = (of("every_nth"), of("gsp"));
    assert_eq!(plain.len(), gsp.len());
    assert!(!of("every_nth steered").is_empty() && !of("every_nth steered to 95 %").is_empty());
    for check in plain {
        assert_eq!(check.finding, Ok(()), "{}", check.suite);
    }
}
