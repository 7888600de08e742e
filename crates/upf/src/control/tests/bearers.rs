//! A 4G gateway: nothing names a QoS flow, and each bearer has a tunnel each way.

use super::*;
use crate::rules::PerDirection;

fn rates(id: u16, up: u64, down: u64) -> Element {
    Element::new(id, Value::Rates { up, down })
}

fn rule(id: u64, precedence: u64, pdi: Vec<Element>, is_up: bool, far: u64, qer: u64) -> Element {
    let mut elements = vec![n(ie::PDR_ID, id), n(ie::PRECEDENCE, precedence), group(ie::PDI, pdi)];
    elements.extend(is_up.then(|| n(ie::OUTER_HEADER_REMOVAL, 0)));
    elements.extend([n(ie::FAR_ID, far), n(ie::QER_ID, qer)]);
    group(ie::CREATE_PDR, elements)
}

/// The default bearer: PDR 1 up, 2 down, FAR 1 and 2, and QER 1 with the APN-AMBR.
fn default_bearer() -> Vec<Element> {
    let qer = vec![n(ie::QER_ID, 1), n(ie::GATE_STATUS, 0), rates(ie::MBR, 10_000, 50_000)];
    let mut elements = vec![
        rule(1, 200, vec![n(ie::SOURCE_INTERFACE, 0), choose(None)], true, 1, 1),
        rule(2, 200, vec![n(ie::SOURCE_INTERFACE, 1), user(true)], false, 2, 1),
        group(ie::CREATE_QER, qer),
    ];
    elements.extend(fars());
    elements
}

/// A dedicated bearer with PDR, FAR and QER of that number and the next.
fn dedicated(id: u64, port: u16, teid: u32, qer: Vec<Element>) -> Vec<Element> {
    let filter = || flow(&format!("permit out 17 from any {port} to assigned"));
    let to_access = group(ie::FORWARDING_PARAMETERS, vec![n(ie::DESTINATION_INTERFACE, 0), outer(teid)]);
    let mut elements = vec![n(ie::QER_ID, id), n(ie::GATE_STATUS, 0)];
    elements.extend(qer);
    vec![
        rule(id, 50, vec![n(ie::SOURCE_INTERFACE, 0), choose(None), filter()], true, 1, id),
        rule(id + 1, 50, vec![n(ie::SOURCE_INTERFACE, 1), user(true), filter()], false, id, id),
        group(ie::CREATE_FAR, vec![n(ie::FAR_ID, id), n(ie::APPLY_ACTION, 2), to_access]),
        group(ie::CREATE_QER, elements),
    ]
}

#[test]
fn dedicated_bearers_come_and_go_beside_the_default_bearer() {
    let mut bench = Bench::associated();
    let answer = bench.establish(default_bearer());
    assert_eq!(number(&answer, ie::CAUSE), Some(1), "{:?}", bench.control.told());
    let (seid, first) = (seid_of(&answer), created(&answer));
    let rated = vec![rates(ie::MBR, 500, 2000), rates(ie::GBR, 500, 1000)];
    let answer = bench.ask(kind::SESSION_MODIFICATION_REQUEST, Some(seid), dedicated(3, 5060, 0x78, rated));
    assert_eq!(number(&answer, ie::CAUSE), Some(1), "{:?}", bench.control.told());
    let second = created(&answer);
    assert!(first.len() == 1 && second.len() == 1 && first != second, "{first:?} {second:?}");
    let rules = bench.control.plane().get(seid).unwrap();
    assert!(!rules.names_flows());
    let guaranteed = rules.qer(3).unwrap();
    assert_eq!((guaranteed.gbr, guaranteed.qfi), (Some(PerDirection { up: 500, down: 1000 }), None));
    assert_eq!(rules.far(3).unwrap().way().unwrap().tunnel.unwrap().teid, 0x78);
    // More is guaranteed than is allowed: refused, and nothing changes.
    let rated = vec![rates(ie::MBR, 500, 900), rates(ie::GBR, 500, 1000)];
    let refused = bench.ask(kind::SESSION_MODIFICATION_REQUEST, Some(seid), dedicated(5, 5061, 0x79, rated));
    assert_eq!((number(&refused, ie::CAUSE), failed(&refused)), (Some(73), Some((2, 5))));
    // A QoS flow beside a bearer that is told by its tunnel: whose would its guarantee be?
    let refused = bench.ask(
        kind::SESSION_MODIFICATION_REQUEST,
        Some(seid),
        dedicated(5, 5061, 0x79, vec![n(ie::QFI, 5)]),
    );
    assert_eq!(number(&refused, ie::CAUSE), Some(67));
    assert_eq!(bench.control.plane().get(seid).unwrap().pdrs.len(), 4);
    let remove = |kind, id, number| group(kind, vec![n(id, number)]);
    let elements = vec![
        remove(ie::REMOVE_PDR, ie::PDR_ID, 3),
        remove(ie::REMOVE_PDR, ie::PDR_ID, 4),
        remove(ie::REMOVE_FAR, ie::FAR_ID, 3),
        remove(ie::REMOVE_QER, ie::QER_ID, 3),
    ];
    let answer = bench.ask(kind::SESSION_MODIFICATION_REQUEST, Some(seid), elements);
    assert_eq!(number(&answer, ie::CAUSE), Some(1), "{:?}", bench.control.told());
    assert_eq!(bench.control.tunnels(), 1);
}
