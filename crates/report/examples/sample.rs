//! Draws every chart and page from synthetic data: `cargo run -p weir-report --example sample -- FOLDER`.

use std::path::PathBuf;

use weir_measure::result::{
    Claim, FlowSample, FlowSummary, HostJitter, LinkSample, LinkSummary, Recording, Spread, SteeringEvent,
    Summary,
};
use weir_report::chart::{
    Compared, Comparison, Figure, FigureClaim, FigurePoint, FigureQuantity, FigureSeries, TimeSeriesOptions,
    comparison, figure, time_series,
};
use weir_report::html::{Page, PageRun, page};
use weir_report::{Policy, csv, table, write_atomic};

const RATE: f64 = 10e9;
const SECONDS: f64 = 320.0;
const PERIOD: f64 = 0.05;
const WARMUP: f64 = 20.0;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| ".".to_string()));
    let steered = recording("Steering, 2 → 36 → 2 flows", "gsp", true, 1);
    let codel = recording("CoDel, 2 → 36 → 2 flows", "codel", false, 2);
    let tail = recording("Tail drop, 2 → 36 → 2 flows", "taildrop", false, 3);
    let policy =
        Policy { utilization_low: Some(0.99), utilization_target: Some(0.95), target_max_ms: Some(30.0) };
    let claims = claims();

    let options = TimeSeriesOptions { policy, ..TimeSeriesOptions::default() };
    write_atomic(folder.join("series.svg"), time_series(&steered, 0, &options))?;
    let log = TimeSeriesOptions { policy, log_delay: true, utilization_floor: 0.9 };
    write_atomic(folder.join("series_log.svg"), time_series(&steered, 0, &log))?;
    let compared = [("GSP, steered", &steered), ("CoDel", &codel), ("Tail drop", &tail)];
    let compared = compared.map(|(label, recording)| Compared { label, recording, link: 0, policy });
    let title = "Three algorithms, 10 Gbit/s, 50 ms";
    let three = Comparison { title, runs: compared.to_vec(), log_delay: false };
    write_atomic(folder.join("comparison.svg"), comparison(&three))?;
    let six = Comparison { title, runs: [compared, compared].concat()[..5].to_vec(), log_delay: true };
    write_atomic(folder.join("comparison_log.svg"), comparison(&six))?;
    write_atomic(folder.join("figure.svg"), figure(&sample_figure()))?;
    write_atomic(folder.join("link.csv"), csv::link_samples(&steered.link_samples[0]))?;

    let policies = [policy];
    let runs = [&steered, &codel, &tail];
    let runs = runs.map(|recording| PageRun { label: "", recording, policies: &policies });
    let notes = ["Synthetic data, to look at the page; nothing here was measured.".to_string()];
    let html = page(&Page {
        title: "Steering to a policy",
        runs: runs.to_vec(),
        claims: &claims,
        notes: &notes,
        ..Page::default()
    });
    write_atomic(folder.join("page.html"), html)?;

    let summaries = [&steered.summary, &codel.summary, &tail.summary];
    print!(
        "{}\n{}",
        table::results(summaries, table::Paint::Plain),
        table::claims(&claims, table::Paint::Ansi)
    );
    Ok(())
}

/// Uniform numbers from 0 to 1, the same in every run.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f64 / (1u64 << 24) as f64
    }
}

fn recording(title: &str, aqm: &str, steered: bool, seed: u64) -> Recording {
    let mut dice = Dice(seed);
    let mut recording = Recording::default();
    let mut setpoint = if steered { 12.0 } else { 2.5 };
    let mut samples = Vec::new();
    for i in 1..=(SECONDS / PERIOD) as u32 {
        let t = f64::from(i) * PERIOD;
        let flows = if (180.0..260.0).contains(&t) { 36.0 } else { 2.0 };
        if steered && i % 80 == 0 {
            setpoint = steer(&mut recording, t, setpoint, flows);
        }
        samples.push(sample(&mut dice, aqm, t, flows, if steered { setpoint } else { f64::NAN }));
        if i % 10 == 0 {
            let active = 0..flows as u32;
            let of = |flow| FlowSample { t_s: t, flow, ..FlowSample::default() };
            recording.flow_samples.extend(active.map(of));
        }
    }
    recording.summary = summary(title, aqm, &samples, setpoint);
    recording.link_samples.push(samples);
    recording
}

fn steer(recording: &mut Recording, t: f64, from: f64, flows: f64) -> f64 {
    let wanted = if flows > 10.0 { 2.0 } else { 14.0 };
    let to = if (wanted - from).abs() < 0.4 { from } else { from + (wanted - from).signum() * from * 0.12 };
    if to != from {
        recording.events.push(SteeringEvent {
            t_s: t,
            link: "a_to_b".to_string(),
            rule: if to < from { "lower" } else { "raise" }.to_string(),
            from,
            to,
            unit: "ms".to_string(),
            measured: vec![("utilization".to_string(), 0.987), ("variance".to_string(), 0.0123 * flows)],
        });
    }
    to
}

fn sample(dice: &mut Dice, aqm: &str, t: f64, flows: f64, setpoint: f64) -> LinkSample {
    let saw = ((t * 0.35).fract() - 0.5) / flows.sqrt();
    let level = match aqm {
        "taildrop" => 70.0,
        "codel" => 6.0,
        _ => setpoint,
    };
    let start = if t < 6.0 { 60.0 * (-(t - 1.0).powi(2)).exp() } else { 0.0 };
    let delay = (level * (0.8 + 1.1 * saw) + level * 0.15 * dice.next() + start).max(0.01);
    let short = if delay < level * 0.5 { 0.06 * dice.next() } else { 0.004 * dice.next() };
    let rise = (t / 3.0).min(1.0);
    let dropped =
        if dice.next() < 0.05 * flows.sqrt() { (dice.next() * 4.0 * flows.sqrt()) as u64 } else { 0 };
    let virtual_queue = aqm == "gsp" && (190.0..255.0).contains(&t);
    LinkSample {
        t_s: t,
        arrived_bps: RATE * rise * (1.0 - short + 0.02 * (dice.next() - 0.4)),
        delivered_bps: RATE * rise * (1.0 - short),
        delay_mean_ms: delay,
        delay_max_ms: delay * (1.05 + 0.5 * dice.next()),
        backlog_bytes: (delay * 1e-3 * RATE / 8.0) as u64,
        setpoint_ms: setpoint,
        drops: if aqm == "taildrop" { 0 } else { dropped },
        overflows: if aqm == "taildrop" { dropped } else { 0 },
        marks: if aqm == "gsp" { dropped / 2 } else { 0 },
        table_state: 0,
        virtual_backlog_bytes: if virtual_queue { (4e6 * dice.next()) as u64 } else { 0 },
        virtual_empty: if virtual_queue { 0.1 * dice.next() } else { 0.0 },
        virtual_rate_bps: if virtual_queue { RATE * 0.97 } else { 0.0 },
        capacity_bps: RATE,
    }
}

fn summary(title: &str, aqm: &str, samples: &[LinkSample], setpoint: f64) -> Summary {
    let mut delays: Vec<f64> = samples.iter().filter(|s| s.t_s > WARMUP).map(|s| s.delay_mean_ms).collect();
    delays.sort_by(f64::total_cmp);
    let at = |share: f64| delays[((delays.len() - 1) as f64 * share) as usize];
    let mean = delays.iter().sum::<f64>() / delays.len() as f64;
    let bits: f64 = samples.iter().filter(|s| s.t_s > WARMUP).map(|s| s.delivered_bps * PERIOD).sum();
    let flow = |id| FlowSummary {
        id,
        group: u32::from(id > 1),
        congestion: "cubic".to_string(),
        bytes: 1_000_000_000,
        goodput_bps: 1e9,
        retransmits: 1234,
        rtt_ms: 57.3,
        transfers: None,
    };
    Summary {
        ports: String::new(),
        title: title.to_string(),
        arm: "sim".to_string(),
        interrupted: false,
        duration_s: SECONDS - WARMUP,
        warmup_s: WARMUP,
        links: vec![LinkSummary {
            name: "a_to_b".to_string(),
            aqm: aqm.to_string(),
            rate_bps: Some(RATE),
            accounting: "line".to_string(),
            packets: (bits / 12_000.0) as u64,
            bytes: (bits / 8.0) as u64,
            utilization: bits / (RATE * (SECONDS - WARMUP)),
            delay_ms: Spread { mean, p50: at(0.5), p95: at(0.95), p99: at(0.99), max: at(1.0) },
            delay_by_class_ms: None,
            drops: samples.iter().map(|s| s.drops).sum(),
            overflows: samples.iter().map(|s| s.overflows).sum(),
            acks_filtered: 0,
            sanctioned: 0,
            marks: samples.iter().map(|s| s.marks).sum(),
            setpoint_ms: (aqm == "gsp").then_some(setpoint),
            faults: Vec::new(),
            sensing: None,
            upstream: None,
            users: None,
            flows: None,
            phases: Vec::new(),
        }],
        flows: (0..36).map(flow).collect(),
        responsiveness: None,
        host: Some(HostJitter::default()).filter(|_| aqm == "codel"),
        warnings: (aqm == "codel")
            .then(|| "The host stalled twice for more than 4 ms.".to_string())
            .into_iter()
            .collect(),
    }
}

fn claims() -> Vec<Claim> {
    let claim = |id: &str, text: &str, expected: &str, measured: &str, held| Claim {
        id: id.to_string(),
        text: text.to_string(),
        expected: expected.to_string(),
        measured: measured.to_string(),
        held,
        ..Claim::default()
    };
    vec![
        claim("A5", "Few flows use the link as well as many do.", "≥ 99 %", "99.41 %", true),
        claim("A6", "The set point falls within seconds after flows arrive.", "≤ 10 s", "14.2 s", false),
        claim("A7", "The 95 % delay with 36 flows stays below 5 ms.", "≤ 5 ms", "3.10 ms", true),
    ]
}

fn sample_figure() -> Figure {
    let counts = [2u32, 4, 8, 16, 32, 64];
    let mut dice = Dice(7);
    let mut series = |name: &str, used: f64, delay: f64, growth: f64| FigureSeries {
        name: name.to_string(),
        utilization: counts
            .iter()
            .map(|n| {
                let value = 1.0 - used / f64::from(*n).sqrt();
                FigurePoint { value, range: Some((value - 0.01 * dice.next(), value + 0.002)) }
            })
            .collect(),
        delay_p95_ms: counts
            .iter()
            .map(|n| {
                let value = delay * f64::from(*n).powf(growth);
                FigurePoint { value, range: Some((value * 0.8, value * 1.3)) }
            })
            .collect(),
    };
    Figure {
        title: "Utilization and delay over the number of flows".to_string(),
        subtitle: "10 Gbit/s · RTT 50 ms · Cubic · points: mean of 10 seeds, whiskers: smallest and largest"
            .to_string(),
        x_name: "Number of flows".to_string(),
        categories: counts.iter().map(u32::to_string).collect(),
        series: vec![
            series("gsp", 0.06, 3.0, 0.1),
            series("gsp, steered", 0.012, 14.0, -0.3),
            series("codel", 0.09, 5.5, 0.25),
            series("pie", 0.07, 16.0, 0.05),
            series("taildrop", 0.001, 95.0, 0.01),
        ],
        claims: vec![
            FigureClaim {
                quantity: FigureQuantity::Utilization,
                label: "A5 ≥ 99 %".to_string(),
                value: 0.99,
            },
            FigureClaim { quantity: FigureQuantity::DelayP95, label: "A7 ≤ 5 ms".to_string(), value: 5.0 },
        ],
        log_delay: true,
    }
}
