//! Octets that are no whole message, as TS 29.244 section 7.6 has them handled.

use super::*;

#[test]
fn what_is_no_request_gets_no_answer_and_another_version_gets_one() {
    let mut bench = Bench::associated();
    // Too short for a header; a heartbeat, whose answer has no cause, of another length than it says.
    for octets in [&b""[..], &[0x20, 1, 0, 4, 0, 0, 1], &[0x20, 1, 0, 9, 0, 0, 1, 0]] {
        assert!(bench.raw(octets).is_empty());
    }
    assert_eq!(bench.control.counts().malformed, 3);
    // Who has no such version either is not told again.
    assert!(bench.raw(&[0x40, 11, 0, 4, 0, 0, 9, 0]).is_empty());
    let out = bench.raw(&[0x40, 1, 0, 4, 0, 0, 9, 0]);
    assert_eq!(out[0].datagram, [0x20, 11, 0, 4, 0, 0, 9, 0]);
    for number in [99, 200, 2] {
        let octets = bench.octets(number, None, vec![]);
        assert!(bench.raw(&octets).is_empty());
    }
    assert_eq!(bench.control.counts().unexpected, 3);
    for number in [3, 12, 14, 16] {
        assert_eq!(self::number(&bench.ask(number, None, vec![]), ie::CAUSE), Some(76));
    }
}

/// The cause and the offending element of the one answer to some octets.
fn told(bench: &mut Bench, octets: &[u8]) -> (u8, Option<u64>, Option<u64>, Option<u64>) {
    let out = bench.raw(octets);
    assert_eq!(out.len(), 1, "one answer");
    let answer = Pfcp.decode(&out[0].datagram).unwrap();
    assert_eq!(answer.sequence, bench.sequence);
    (answer.kind, answer.seid, number(&answer, ie::CAUSE), number(&answer, ie::OFFENDING_IE))
}

/// The length of a message is made to fit what it is cut to.
fn cut(octets: &[u8], by: usize) -> Vec<u8> {
    let mut cut = octets[..octets.len() - by].to_vec();
    let length = (cut.len() - 4) as u16;
    cut[2..4].copy_from_slice(&length.to_be_bytes());
    cut
}

#[test]
fn a_request_that_is_cut_off_is_refused_for_its_length_and_does_nothing() {
    let mut bench = Bench::associated();
    let seid = bench.session();
    let before = bench.control.plane().get(seid).unwrap().clone();
    let mut elements = vec![node(), f_seid(CP_SEID)];
    elements.extend(usual());
    let whole = bench.octets(kind::SESSION_ESTABLISHMENT_REQUEST, Some(0), elements);
    // The last element is the QFI in a Create QER; the session is named as the elements before say.
    assert_eq!(
        told(&mut bench, &cut(&whole, 1)),
        (51, Some(CP_SEID), Some(68), Some(u64::from(ie::CREATE_QER)))
    );
    assert_eq!(told(&mut bench, &whole[..whole.len() - 1]), (51, Some(0), Some(68), None));
    let change = vec![group(ie::REMOVE_PDR, vec![n(ie::PDR_ID, 1)]), n(ie::FAR_ID, 7)];
    let whole = bench.octets(kind::SESSION_MODIFICATION_REQUEST, Some(seid), change);
    assert_eq!(told(&mut bench, &cut(&whole, 1)), (53, Some(CP_SEID), Some(68), Some(u64::from(ie::FAR_ID))));
    assert_eq!(told(&mut bench, &cut(&whole, 6)), (53, Some(CP_SEID), Some(68), None));
    assert_eq!(told(&mut bench, &cut(&whole, 6)).2, Some(68), "and the same again");
    for kind in [5, 7, 9] {
        let whole = bench.octets(kind, None, vec![node()]);
        assert_eq!(
            told(&mut bench, &cut(&whole, 2)),
            (kind + 1, None, Some(68), Some(u64::from(ie::NODE_ID)))
        );
    }
    assert_eq!(bench.control.plane().get(seid), Some(&before));
    let counts = bench.control.counts();
    assert_eq!((counts.malformed, counts.repeated, counts.refused[&68]), (8, 1, 7));
    assert!(bench.control.peers()[0].association.is_some());
    // An answer that is cut off is none, and what it answers is not sent again.
    let beats = bench.tick(Duration::from_secs(11));
    let [_, a, b, c] = beats[0].sequence.to_be_bytes();
    assert_eq!(bench.raw(&[0x20, 2, 0, 9, a, b, c, 0]), []);
    assert_eq!((bench.control.unanswered(), bench.control.counts().malformed), (0, 9));
}

#[test]
fn nests_and_crowds_of_elements_are_refused() {
    let mut bench = Bench::associated();
    let nest = (0..8).fold(Vec::new(), |inner, _| vec![group(ie::PDI, inner)]);
    let octets = bench.octets(kind::SESSION_DELETION_REQUEST, Some(1), nest);
    assert_eq!(told(&mut bench, &octets).2, Some(75));
    let crowd = vec![n(ie::PDR_ID, 1); 5000];
    let octets = bench.octets(kind::ASSOCIATION_UPDATE_REQUEST, None, crowd);
    assert_eq!(told(&mut bench, &octets), (8, None, Some(75), None));
}

#[test]
fn what_only_informs_must_be_readable_too() {
    let mut bench = Bench::associated();
    let unreadable = Element::new(ie::INTERFACE_TYPE, Value::Octets(vec![]));
    let answer = bench.establish(with(0, up(1, vec![unreadable])));
    let told = (number(&answer, ie::CAUSE), number(&answer, ie::OFFENDING_IE));
    assert_eq!(told, (Some(68), Some(u64::from(ie::INTERFACE_TYPE))));
}

#[test]
fn each_message_of_a_bundle_is_answered() {
    let mut bench = Bench::associated();
    let seid = bench.session();
    let mut first = bench.octets(kind::SESSION_MODIFICATION_REQUEST, Some(seid), vec![]);
    first[0] |= 4;
    let mut second = bench.octets(kind::SESSION_DELETION_REQUEST, Some(seid), vec![]);
    second[0] |= 4;
    let third = bench.octets(kind::SESSION_DELETION_REQUEST, Some(seid), vec![]);
    let out = bench.raw(&[&first[..], &second[..], &third[..]].concat());
    let answers: Vec<_> = out.iter().map(|sent| Pfcp.decode(&sent.datagram).unwrap()).collect();
    let told: Vec<_> = answers.iter().map(|answer| (answer.kind, number(answer, ie::CAUSE))).collect();
    assert_eq!(told, [(53, Some(1)), (55, Some(1)), (55, Some(65))]);
    // Each counts for the rate of its peer.
    let mut many = Vec::new();
    for _ in 0..6000 {
        let mut one = bench.octets(1, None, vec![n(ie::RECOVERY_TIME_STAMP, 5)]);
        one[0] |= 4;
        many.extend(one);
    }
    assert!(bench.raw(&many).len() <= 5001 && bench.control.counts().over_rate == 1);
}
