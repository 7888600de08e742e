//! Recordings for tests: a tiny one that a person can follow, and one with everything that can be wrong.
#![allow(dead_code, reason = "each test file uses a part")]

use weir_measure::result::{
    Claim, FlowSample, FlowSummary, LinkSample, LinkSummary, Recording, Spread, SteeringEvent, Summary,
};

/// Ten seconds of a link of 100 Mbit/s with one hole, one move of the set point and two flows.
pub fn tiny() -> Recording {
    let sample = |i: u32| LinkSample {
        t_s: f64::from(i),
        arrived_bps: 100e6,
        delivered_bps: if i == 1 { 50e6 } else { 98e6 },
        delay_mean_ms: if i == 5 { f64::NAN } else { 10.0 + f64::from(i % 3) },
        delay_max_ms: 20.0 - f64::from(i % 2),
        backlog_bytes: 100_000,
        setpoint_ms: if i < 6 { 10.0 } else { 8.0 },
        drops: u64::from(i % 4),
        overflows: 0,
        marks: u64::from(i == 7),
        table_state: 1,
        virtual_backlog_bytes: if i > 8 { 30_000 } else { 0 },
        virtual_rate_bps: if i > 8 { 97e6 } else { 0.0 },
        virtual_empty: if i > 8 { 0.25 } else { 0.0 },
        capacity_bps: 100e6,
    };
    let flow = |t_s: f64, flow| FlowSample { t_s, flow, cwnd: 10, ..FlowSample::default() };
    Recording {
        summary: Summary {
            title: "Tiny".to_string(),
            arm: "sim".to_string(),
            duration_s: 8.0,
            warmup_s: 2.0,
            links: vec![LinkSummary {
                name: "a_to_b".to_string(),
                aqm: "gsp".to_string(),
                rate_bps: Some(100e6),
                utilization: 0.98,
                delay_ms: Spread { mean: 11.0, p50: 11.0, p95: 12.0, p99: 12.0, max: 20.0 },
                drops: 15,
                marks: 1,
                setpoint_ms: Some(8.0),
                ..LinkSummary::default()
            }],
            flows: vec![FlowSummary { congestion: "cubic".to_string(), ..FlowSummary::default() }; 2],
            ..Summary::default()
        },
        link_samples: vec![(1..=10).map(sample).collect()],
        flow_samples: vec![flow(1.0, 0), flow(4.0, 1), flow(10.0, 0), flow(10.0, 1)],
        events: vec![SteeringEvent {
            t_s: 5.5,
            link: "a_to_b".to_string(),
            rule: "lower".to_string(),
            from: 10.0,
            to: 8.0,
            unit: "ms".to_string(),
            measured: vec![("utilization".to_string(), 0.98)],
        }],
    }
}

/// Text that would break XML, HTML, scripts, CSV and terminals if it were not escaped.
pub const NASTY: &str = "</script><blink a=\"1\" b='2'>&\u{1b}[31m\u{2028},;=\\\n--><!--";

/// A recording in which every text is nasty and every number a different kind of wrong.
pub fn nasty() -> Recording {
    let mut recording = tiny();
    let wrong = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, f64::MIN_POSITIVE, -1.0, 0.0];
    for (i, sample) in recording.link_samples[0].iter_mut().enumerate() {
        let number = |shift: usize| wrong[(i + shift) % wrong.len()];
        sample.t_s = if i % 3 == 0 { number(0) } else { sample.t_s };
        sample.arrived_bps = number(1);
        sample.delivered_bps = number(2);
        sample.delay_mean_ms = number(3);
        sample.delay_max_ms = number(4);
        sample.setpoint_ms = number(5);
        sample.virtual_rate_bps = number(6);
        sample.drops = u64::MAX;
        sample.backlog_bytes = u64::MAX;
    }
    for (flow, wrong) in recording.flow_samples.iter_mut().zip(wrong) {
        flow.t_s = wrong;
    }
    let summary = &mut recording.summary;
    summary.title = NASTY.to_string();
    summary.arm = NASTY.to_string();
    summary.duration_s = f64::INFINITY;
    summary.warmup_s = f64::NAN;
    summary.warnings = vec![NASTY.to_string()];
    summary.flows[0].congestion = NASTY.to_string();
    summary.flows[0].goodput_bps = f64::NAN;
    let link = &mut summary.links[0];
    link.name = NASTY.to_string();
    link.aqm = NASTY.to_string();
    link.utilization = f64::NAN;
    link.rate_bps = Some(f64::INFINITY);
    link.setpoint_ms = Some(f64::NEG_INFINITY);
    link.faults = vec![(NASTY.to_string(), 3)];
    let event = &mut recording.events[0];
    event.link = NASTY.to_string();
    event.rule = NASTY.to_string();
    event.to = f64::NAN;
    event.measured = vec![(NASTY.to_string(), f64::INFINITY), (String::new(), f64::NAN)];
    let mut lost = event.clone();
    lost.t_s = f64::NAN;
    recording.events.push(lost);
    recording
}

/// A claim in which every text is `text`.
pub fn claim(text: &str, held: bool) -> Claim {
    let text = || text.to_string();
    Claim {
        id: text(),
        text: text(),
        paper: text(),
        expected: text(),
        basis: text(),
        measured: text(),
        held,
        undecided: false,
        cause: text(),
        shown: false,
        own: false,
    }
}

/// Recordings in which something is missing.
pub fn incomplete() -> Vec<Recording> {
    let no_samples = Recording { link_samples: vec![Vec::new()], ..tiny() };
    let no_tables = Recording { link_samples: Vec::new(), flow_samples: Vec::new(), ..tiny() };
    let no_summary = Recording { summary: Summary::default(), ..tiny() };
    let mut one_point = tiny();
    one_point.link_samples[0].truncate(1);
    let mut at_zero = one_point.clone();
    at_zero.link_samples[0][0] = LinkSample::default();
    vec![Recording::default(), no_samples, no_tables, no_summary, one_point, at_zero]
}
