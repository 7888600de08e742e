//! What is measured, and when it is reported.

use super::*;
use crate::client::{UsageReport, usage_reports};
use crate::message::Volume;
use crate::rules::{Amounts, Bounds, Measured, PerDirection};

/// Reporting triggers, as on the wire.
const PERIO: u64 = 1;
const VOLTH: u64 = 2;
const TIMTH: u64 = 4;
const START: u64 = 0x10;
const VOLQU: u64 = 0x100;
const TIMQU: u64 = 0x200;
/// Triggers of reports alone.
const IMMER: u64 = 0x80;
const TERMR: u64 = 0x800;

fn total(id: u16, bytes: u64) -> Element {
    let bytes = Amounts { total: Some(bytes), ..Amounts::default() };
    Element::new(id, Value::Volume(Box::new(Volume { bytes, packets: Amounts::default() })))
}

fn urr(id: u64, method: u64, triggers: u64, more: Vec<Element>) -> Element {
    let mut elements =
        vec![n(ie::URR_ID, id), n(ie::MEASUREMENT_METHOD, method), n(ie::REPORTING_TRIGGERS, triggers)];
    elements.extend(more);
    group(ie::CREATE_URR, elements)
}

/// The usual session whose rules both name URR 1.
fn measured(create: Element) -> Vec<Element> {
    let mut elements = usual();
    for element in &mut elements {
        if let (ie::CREATE_PDR, Value::Group(inner)) = (element.id, &mut element.value) {
            inner.push(n(ie::URR_ID, 1));
        }
    }
    elements.push(create);
    elements
}

fn counted(bench: &mut Bench, up: u64, down: u64) {
    let bytes = PerDirection { up, down };
    let packets = PerDirection { up: up / 100, down: down / 100 };
    bench.control.plane().counted = vec![Measured { place: 0, packets, bytes }];
}

/// The plane says that bounds are reached; what is sent then.
fn told(bench: &mut Bench, seid: Seid) -> Vec<UsageReport> {
    bench.control.plane().events.push_back(Event::Measured { seid });
    sent(bench, Duration::from_millis(10))
}

/// What is reported after a time. Each report is answered.
fn sent(bench: &mut Bench, later: Duration) -> Vec<UsageReport> {
    let mut reports = Vec::new();
    for message in bench.tick(later) {
        if message.kind == kind::SESSION_REPORT_REQUEST {
            assert_eq!((message.seid, number(&message, ie::REPORT_TYPE)), (Some(CP_SEID), Some(2)));
            reports.extend(usage_reports(&message));
        }
        let mut octets = Vec::new();
        let (kind, sequence) = (message.kind + 1, message.sequence);
        let elements = vec![n(ie::CAUSE, 1), n(ie::RECOVERY_TIME_STAMP, 5)];
        Pfcp.encode(&Message { kind, seid: Some(0), sequence, elements }, &mut octets);
        bench.peer.set_port(PFCP_PORT);
        bench.raw(&octets);
    }
    reports
}

fn established(bench: &mut Bench, create: Element) -> Seid {
    let answer = bench.establish(measured(create));
    assert_eq!(number(&answer, ie::CAUSE), Some(1), "{:?}", bench.control.told());
    seid_of(&answer)
}

fn last_bounds(bench: &mut Bench) -> Bounds {
    bench.control.plane().bounds.last().expect("bounds were set").2
}

fn seen(reports: &[UsageReport]) -> Vec<(u64, u64, u64, u64)> {
    reports.iter().map(|r| (r.number, r.trigger, r.bytes.up, r.bytes.down)).collect()
}

#[test]
fn a_threshold_is_reported_each_time_it_is_reached() {
    let mut bench = Bench::associated();
    let seid = established(&mut bench, urr(1, 2, VOLTH, vec![total(ie::VOLUME_THRESHOLD, 1000)]));
    let session = bench.control.plane().get(seid).unwrap();
    assert_eq!((session.meters[0].urr, &*session.meters[0].pdrs), (Some(1), &[1, 2][..]));
    assert_eq!(last_bounds(&mut bench).tell.total, Some(1000));
    counted(&mut bench, 200, 900);
    assert_eq!(seen(&told(&mut bench, seid)), [(0, VOLTH, 200, 900)]);
    // What is beyond the threshold is reported, and the next counts from there.
    assert_eq!(
        last_bounds(&mut bench),
        Bounds { tell: Amounts { total: Some(2100), ..Amounts::default() }, ..Bounds::default() }
    );
    counted(&mut bench, 200, 1800);
    assert_eq!(told(&mut bench, seid), []);
    counted(&mut bench, 300, 1900);
    assert_eq!(seen(&told(&mut bench, seid)), [(1, VOLTH, 100, 1000)]);
    assert_eq!((bench.control.counts().reports, bench.control.unanswered()), (2, 0));
}

#[test]
fn a_period_reports_usage_time_and_packets() {
    let mut bench = Bench::associated();
    let more = vec![n(ie::MEASUREMENT_PERIOD, 5), n(ie::MEASUREMENT_INFORMATION, 0x18)];
    let seid = established(&mut bench, urr(1, 3, PERIO, more));
    assert_eq!(sent(&mut bench, Duration::from_millis(4900)), []);
    counted(&mut bench, 0, 700);
    let report = sent(&mut bench, Duration::from_millis(200)).remove(0);
    assert_eq!((report.trigger, report.seconds, report.packets.down), (PERIO, Some(5), 7));
    counted(&mut bench, 100, 700);
    let report = sent(&mut bench, Duration::from_millis(5000)).remove(0);
    assert_eq!(
        (report.number, report.seconds, report.bytes),
        (1, Some(5), PerDirection { up: 100, down: 0 })
    );
    // The answer to a deletion tells the rest, and then nothing is due any more.
    bench.now += Duration::from_secs(2);
    counted(&mut bench, 150, 700);
    let gone = bench.ask(kind::SESSION_DELETION_REQUEST, Some(seid), vec![]);
    assert!(gone.elements.iter().any(|e| e.id == ie::DELETION_USAGE_REPORT));
    assert_eq!(seen(&usage_reports(&gone)), [(2, TERMR, 50, 0)]);
    assert!(bench.control.usage_due.is_empty());
}

#[test]
fn time_counts_from_the_first_packet_on() {
    let mut bench = Bench::associated();
    let seid = established(&mut bench, urr(1, 1, TIMTH | START, vec![n(ie::TIME_THRESHOLD, 3)]));
    assert!(last_bounds(&mut bench).first);
    assert_eq!(sent(&mut bench, Duration::from_secs(20)), []);
    counted(&mut bench, 100, 0);
    assert_eq!(told(&mut bench, seid).iter().map(|r| r.trigger).collect::<Vec<_>>(), [START]);
    assert!(!last_bounds(&mut bench).first);
    assert_eq!(sent(&mut bench, Duration::from_millis(2900)), []);
    let reports = sent(&mut bench, Duration::from_millis(200));
    assert_eq!((reports[0].trigger, reports[0].seconds), (TIMTH, Some(3)));
}

#[test]
fn what_is_beyond_a_quota_does_not_pass_until_there_is_another() {
    let mut bench = Bench::associated();
    let seid = established(&mut bench, urr(1, 2, VOLQU, vec![total(ie::VOLUME_QUOTA, 1000)]));
    let bounds = last_bounds(&mut bench);
    assert_eq!((bounds.tell.total, bounds.stop.total), (Some(1000), Some(1000)));
    counted(&mut bench, 0, 1000);
    assert_eq!(seen(&told(&mut bench, seid)), [(0, VOLQU, 0, 1000)]);
    assert_eq!(last_bounds(&mut bench).stop.total, Some(0));
    assert_eq!(told(&mut bench, seid), [], "it is told once");
    let more = group(ie::UPDATE_URR, vec![n(ie::URR_ID, 1), total(ie::VOLUME_QUOTA, 500)]);
    let answer = bench.modify(seid, vec![more]);
    assert_eq!((number(&answer, ie::CAUSE), usage_reports(&answer)), (Some(1), vec![]));
    assert_eq!(last_bounds(&mut bench).stop.total, Some(1500));
    // A quota of time.
    let seid = established(&mut bench, urr(1, 1, TIMQU, vec![n(ie::TIME_QUOTA, 4)]));
    counted(&mut bench, 0, 100);
    assert_eq!(told(&mut bench, seid), []);
    let reports = sent(&mut bench, Duration::from_millis(4100));
    assert_eq!((reports[0].trigger, reports[0].seconds), (TIMQU, Some(4)));
    assert_eq!(last_bounds(&mut bench).stop.total, Some(0));
}

#[test]
fn a_modification_tells_the_usage_that_is_asked_for_and_that_of_rules_that_end() {
    let mut bench = Bench::associated();
    let seid = established(&mut bench, urr(1, 2, 0, vec![]));
    counted(&mut bench, 100, 200);
    let query = || group(ie::QUERY_URR, vec![n(ie::URR_ID, 1)]);
    let answer = bench.modify(seid, vec![query()]);
    assert_eq!(seen(&usage_reports(&answer)), [(0, IMMER, 100, 200)]);
    counted(&mut bench, 150, 200);
    let answer = bench.modify(seid, vec![n(ie::PFCPSM_REQ_FLAGS, 4)]);
    assert_eq!(seen(&usage_reports(&answer)), [(1, IMMER, 50, 0)]);
    let remove = group(ie::REMOVE_URR, vec![n(ie::URR_ID, 1)]);
    let other = urr(2, 2, 0, vec![]);
    let answer = bench.modify(seid, vec![remove, other]);
    assert_eq!(seen(&usage_reports(&answer)), [(2, TERMR, 0, 0)]);
    let meters = &bench.control.plane().get(seid).unwrap().meters;
    assert_eq!(meters.iter().map(|m| m.urr).collect::<Vec<_>>(), [None, Some(2)], "places are kept");
    let answer = bench.modify(seid, vec![query()]);
    assert_eq!((number(&answer, ie::CAUSE), failed(&answer)), (Some(73), Some((3, 1))));
}

#[test]
fn a_report_is_sent_until_it_is_answered() {
    let mut bench = Bench::associated();
    let seid = established(&mut bench, urr(1, 2, VOLTH, vec![total(ie::VOLUME_THRESHOLD, 10)]));
    counted(&mut bench, 100, 0);
    bench.control.plane().events.push_back(Event::Measured { seid });
    let first = bench.tick(Duration::from_millis(10));
    let again = bench.tick(Duration::from_secs(4));
    let is_report = |message: &&Message| message.kind == kind::SESSION_REPORT_REQUEST;
    assert_eq!(first.iter().find(is_report), again.iter().find(is_report));
    assert!(first.iter().any(|m| is_report(&m)));
}

#[test]
fn what_is_not_measured_is_refused() {
    let mut bench = Bench::associated();
    let cases = [
        (urr(1, 4, PERIO, vec![n(ie::MEASUREMENT_PERIOD, 1)]), 73, 62),
        (urr(1, 0, 0, vec![]), 69, 62),
        // Dropped traffic, linked usage, quota holding time.
        (urr(1, 2, 0x40, vec![]), 73, 37),
        (urr(1, 2, 0x80, vec![]), 73, 37),
        (urr(1, 2, 8, vec![]), 73, 37),
        (urr(1, 2, 0, vec![n(71, 5)]), 73, 71),
        (urr(1, 2, PERIO, vec![]), 67, 64),
        (urr(1, 2, VOLTH, vec![]), 67, 31),
        (urr(1, 2, TIMTH, vec![n(ie::TIME_THRESHOLD, 3)]), 73, 32),
        (urr(1, 1, 0, vec![total(ie::VOLUME_QUOTA, 3)]), 73, 73),
        (urr(1, 2, 0, vec![n(ie::MEASUREMENT_INFORMATION, 1)]), 73, 100),
        (urr(1, 2, PERIO, vec![n(ie::MEASUREMENT_PERIOD, 0)]), 69, 64),
    ];
    for (at, (create, cause, offending)) in cases.into_iter().enumerate() {
        let answer = bench.establish(measured(create));
        let told = (number(&answer, ie::CAUSE), number(&answer, ie::OFFENDING_IE));
        assert_eq!(told, (Some(cause), Some(offending)), "case {at}: {:?}", bench.control.told());
        assert_eq!(failed(&answer).is_some(), cause == 73, "case {at}");
    }
    let answer = bench.establish(measured(urr(2, 2, 0, vec![])));
    assert_eq!((number(&answer, ie::CAUSE), failed(&answer)), (Some(73), Some((0, 1))));
    assert_eq!(bench.control.sessions().len(), 0);
}
