//! Plain-text tables for the terminal.

use crate::html::Rows;
use crate::tally::{Judged, outcome, tally};
use std::fmt::Write;

use weir_measure::responsiveness::{Confidence, Responsiveness};
use weir_measure::result::{Claim, LinkSummary, Sensing, Spread, Summary};

use crate::escape::terminal;
use crate::number::fixed;

/// Whether a table may use colours. Only the caller knows whether a terminal reads it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Paint {
    /// Plain text.
    #[default]
    Plain,
    /// ANSI colours.
    Ansi,
}

/// On which side the text of a column is aligned.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Align {
    Left,
    Right,
}

/// The colour of a cell.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Hue {
    None,
    Bold,
    Good,
    Bad,
}

struct Cell {
    text: String,
    hue: Hue,
}

impl Cell {
    fn new(text: &str) -> Cell {
        Cell { text: terminal(text), hue: Hue::None }
    }
}

/// Responsiveness in a line.
fn responsiveness(told: &Responsiveness) -> String {
    let confidence = match told.confidence {
        Confidence::High => "high",
        Confidence::Medium => "medium",
        Confidence::Low => "low",
    };
    format!(
        "responsiveness {:.0} RPM (loaded connections {:.0}, new ones {:.0}) at {} Mbit/s with {} connections after {} s, \
         confidence {confidence}",
        told.rpm,
        told.loaded_rpm,
        told.foreign_rpm,
        fixed(told.goodput_bps / 1e6, 1),
        told.connections,
        told.intervals,
    )
}

/// One row for each managed link of each run: algorithm, number of flows, utilization, delay, signals and
/// the set point at the end. Where flows come and go, a second table tells how the link settled each time,
/// and where links probe, another what came of it.
/// Warnings follow below.
pub fn results<'a>(runs: impl IntoIterator<Item = &'a Summary>, paint: Paint) -> String {
    const COLUMNS: [(&str, Align); 13] = [
        ("run", Align::Left),
        ("link", Align::Left),
        ("AQM", Align::Left),
        ("N", Align::Right),
        ("util %", Align::Right),
        ("mean ms", Align::Right),
        ("p95 ms", Align::Right),
        ("p99 ms", Align::Right),
        ("max ms", Align::Right),
        ("drops", Align::Right),
        ("overfl.", Align::Right),
        ("marks", Align::Right),
        ("set pt ms", Align::Right),
    ];
    let mut rows = Vec::new();
    let (mut phases, mut sensed, mut observed) = (Vec::new(), Vec::new(), Vec::new());
    let (mut notes, mut classes) = (String::new(), Vec::new());
    for run in runs {
        if let Some(told) = &run.responsiveness {
            let _ = writeln!(notes, "{}: {}", terminal(&run.title), responsiveness(told));
        }
        rows.extend(run.links.iter().map(|link| result_row(run, link)));
        phases.extend(run.links.iter().flat_map(|link| phase_rows(run, link)));
        classes.extend(run.links.iter().flat_map(|link| class_rows(run, link)));
        sensed.extend(run.links.iter().filter_map(|link| sensing_row(run, link)));
        observed.extend(run.links.iter().filter_map(|link| observed_row(run, link)));
        for warning in &run.warnings {
            let _ = writeln!(notes, "! {}: {}", terminal(&run.title), terminal(warning));
        }
    }
    let mut text = render(&COLUMNS, &rows, paint);
    if !phases.is_empty() {
        text.push_str("\nLater half of each span with the same flows and rate\n");
        text.push_str(&render(&PHASE_COLUMNS, &phases, paint));
    }
    if !classes.is_empty() {
        text.push_str("\nQueueing delay of low-latency (ECT(1), CE) and classic traffic\n");
        text.push_str(&render(&CLASS_COLUMNS, &classes, paint));
    }
    if !sensed.is_empty() {
        text.push_str("\nProbes\n");
        text.push_str(&render(&SENSING_COLUMNS, &sensed, paint));
    }
    if !observed.is_empty() {
        text.push_str("\nBottlenecks behind, from the packets that passed\n");
        text.push_str(&render(&OBSERVED_COLUMNS, &observed, paint));
    }
    text + &notes
}

const CLASS_COLUMNS: [(&str, Align); 8] = [
    ("run", Align::Left),
    ("link", Align::Left),
    ("traffic", Align::Left),
    ("mean ms", Align::Right),
    ("p50 ms", Align::Right),
    ("p95 ms", Align::Right),
    ("p99 ms", Align::Right),
    ("max ms", Align::Right),
];

fn class_rows(run: &Summary, link: &LinkSummary) -> Vec<Vec<Cell>> {
    let row = |(class, delay): (&str, Spread)| {
        let numbers = [delay.mean, delay.p50, delay.p95, delay.p99, delay.max].map(|ms| fixed(ms, 2));
        let names = [run.title.as_str(), &link.name, class];
        names.into_iter().chain(numbers.iter().map(String::as_str)).map(Cell::new).collect()
    };
    let classes = link.delay_by_class_ms.map(|of| [("low latency", of.low_latency), ("classic", of.classic)]);
    classes.into_iter().flatten().map(row).collect()
}

const SENSING_COLUMNS: [(&str, Align); 11] = [
    ("run", Align::Left),
    ("link", Align::Left),
    ("state", Align::Left),
    ("srtt ms", Align::Right),
    ("sent", Align::Right),
    ("returned", Align::Right),
    ("lost", Align::Right),
    ("reordered", Align::Right),
    ("duplicated", Align::Right),
    ("forged", Align::Right),
    ("bytes %", Align::Right),
];

/// What probes are worth at the end, and between which rates they moved that of the link.
fn sensed_state(sensing: &Sensing) -> String {
    let mbps = |bps: f64| fixed(bps / 1e6, 1);
    match &sensing.shaped {
        None => sensing.state.clone(),
        Some(shaped) => {
            let (least, largest) = (mbps(shaped.least_bps), mbps(shaped.largest_bps));
            format!("{}, rate {least}-{largest} Mbit/s", sensing.state)
        }
    }
}

fn sensing_row(run: &Summary, link: &LinkSummary) -> Option<Vec<Cell>> {
    let sensing = link.sensing.as_ref()?;
    let cells = [
        run.title.clone(),
        link.name.clone(),
        sensed_state(sensing),
        sensing.rtt_ms.map_or("–".to_string(), |ms| fixed(ms, 2)),
        sensing.sent.to_string(),
        sensing.returned.to_string(),
        sensing.lost.to_string(),
        sensing.reordered.to_string(),
        sensing.duplicated.to_string(),
        sensing.forged.to_string(),
        fixed(sensing.share * 100.0, 3),
    ];
    Some(cells.iter().map(|c| Cell::new(c)).collect())
}

const OBSERVED_COLUMNS: [(&str, Align); 9] = [
    ("run", Align::Left),
    ("link", Align::Left),
    ("mode", Align::Left),
    ("RTT p50 ms", Align::Right),
    ("p95 ms", Align::Right),
    ("path ms", Align::Right),
    ("measured %", Align::Right),
    ("users", Align::Right),
    ("odd", Align::Right),
];

fn observed_row(run: &Summary, link: &LinkSummary) -> Option<Vec<Cell>> {
    let observed = link.upstream.as_ref()?;
    let optional = |value: Option<f64>| value.map_or("–".to_string(), |value| fixed(value, 1));
    let cells = [
        run.title.clone(),
        link.name.clone(),
        observed.mode.clone(),
        optional(observed.rtt_ms.map(|rtt| rtt.p50)),
        optional(observed.rtt_ms.map(|rtt| rtt.p95)),
        optional(observed.path_rtt_ms),
        optional(observed.coverage().map(|share| share * 100.0)),
        observed.users.to_string(),
        observed.suspicions.iter().map(|(_, count)| count).sum::<u64>().to_string(),
    ];
    Some(cells.iter().map(|c| Cell::new(c)).collect())
}

const PHASE_COLUMNS: [(&str, Align); 7] = [
    ("run", Align::Left),
    ("link", Align::Left),
    ("seconds", Align::Right),
    ("N", Align::Right),
    ("util %", Align::Right),
    ("mean ms", Align::Right),
    ("p95 ms", Align::Right),
];

fn phase_rows<'a>(run: &'a Summary, link: &'a LinkSummary) -> impl Iterator<Item = Vec<Cell>> + 'a {
    link.phases.iter().map(|phase| {
        let cells = [
            run.title.clone(),
            link.name.clone(),
            format!("{}–{}", fixed(phase.from_s, 1), fixed(phase.to_s, 1)),
            phase.flows.to_string(),
            fixed(phase.utilization * 100.0, 2),
            fixed(phase.delay_mean_ms, 2),
            fixed(phase.delay_p95_ms, 2),
        ];
        cells.iter().map(|c| Cell::new(c)).collect()
    })
}

fn result_row(run: &Summary, link: &LinkSummary) -> Vec<Cell> {
    let flows = run.flows_of(link).map_or("–".to_string(), |flows| flows.to_string());
    let used = link.rate_bps.map_or("–".to_string(), |_| fixed(link.utilization * 100.0, 2));
    let delay = link.delay_ms;
    let setpoint = link.setpoint_ms.map_or("–".to_string(), |v| fixed(v, 2));
    let numbers = [
        flows,
        used,
        fixed(delay.mean, 2),
        fixed(delay.p95, 2),
        fixed(delay.p99, 2),
        fixed(delay.max, 2),
        link.drops.to_string(),
        link.overflows.to_string(),
        link.marks.to_string(),
        setpoint,
    ];
    let names = [run.title.as_str(), &link.name, &link.aqm];
    names.into_iter().chain(numbers.iter().map(String::as_str)).map(Cell::new).collect()
}

/// One row for each claim, with HELD or MISSED, the paper's number, the bound and what was measured; below
/// them why those were missed or not judged of which it is known, and the count.
pub fn claims(claims: &[Claim], paint: Paint) -> String {
    const COLUMNS: [(&str, Align); 6] = [
        ("claim", Align::Left),
        ("outcome", Align::Left),
        ("paper", Align::Left),
        ("bound", Align::Right),
        ("measured", Align::Right),
        ("what it says", Align::Left),
    ];
    let row = |c: &Claim| {
        let judged = Judged::of(c);
        let hue = match judged {
            Judged::Held => Hue::Good,
            Judged::Missed => Hue::Bad,
            Judged::Open => Hue::None,
        };
        let outcome = Cell { text: outcome(c).to_uppercase(), hue };
        let [id, paper, bound, measured, text] =
            [&c.id, &c.paper, &c.expected, &c.measured, &c.text].map(|text| Cell::new(text));
        vec![id, outcome, paper, bound, measured, text]
    };
    let rows: Vec<Vec<Cell>> = claims.iter().map(row).collect();
    if claims.is_empty() {
        return "no claim could be judged: runs that they compare were not made\n".to_string();
    }
    let mut causes: Vec<String> = Vec::new();
    for (claim, why) in claims.iter().filter_map(|c| Some((c, c.why()?))) {
        let line = format!("{} {}\n", terminal(&claim.id), terminal(&why));
        if !causes.contains(&line) {
            causes.push(line);
        }
    }
    render(&COLUMNS, &rows, paint) + &causes.concat() + &tally(claims, "claims ") + "\n"
}

/// Rows of text under a header: the first column to the left, the others to the right.
pub fn aligned(header: &[&str], rows: &[Vec<String>]) -> String {
    let side = |i: usize| if i == 0 { Align::Left } else { Align::Right };
    let columns: Vec<(&str, Align)> = header.iter().enumerate().map(|(i, name)| (*name, side(i))).collect();
    let rows: Vec<Vec<Cell>> = rows.iter().map(|row| row.iter().map(|c| Cell::new(c)).collect()).collect();
    render(&columns, &rows, Paint::Plain)
}

/// Tables under their titles.
pub fn titled(tables: &[Rows]) -> String {
    let one = |table: &Rows| {
        let header: Vec<&str> = table.header.iter().map(String::as_str).collect();
        format!("{}\n{}\n", table.title, aligned(&header, &table.rows))
    };
    tables.iter().map(one).collect()
}

fn render(columns: &[(&str, Align)], rows: &[Vec<Cell>], paint: Paint) -> String {
    let width_of = |i: usize, name: &str| {
        let cells = rows.iter().filter_map(|r| r.get(i)).map(|c| width(&c.text));
        cells.chain([width(name)]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = columns.iter().enumerate().map(|(i, c)| width_of(i, c.0)).collect();
    let header: Vec<Cell> = columns.iter().map(|c| Cell { text: c.0.to_string(), hue: Hue::Bold }).collect();
    let mut out = String::new();
    push_row(&mut out, &header, columns, &widths, paint);
    let rule: Vec<String> = widths.iter().map(|w| "─".repeat(*w)).collect();
    let _ = writeln!(out, "{}", rule.join("  "));
    for row in rows {
        push_row(&mut out, row, columns, &widths, paint);
    }
    out
}

fn push_row(out: &mut String, row: &[Cell], columns: &[(&str, Align)], widths: &[usize], paint: Paint) {
    let mut line = String::new();
    for (i, ((cell, column), full)) in row.iter().zip(columns).zip(widths).enumerate() {
        let space = " ".repeat(full.saturating_sub(width(&cell.text)));
        let text = painted(&cell.text, cell.hue, paint);
        let gap = if i == 0 { "" } else { "  " };
        match column.1 {
            Align::Left => line.extend([gap, &text, &space]),
            Align::Right => line.extend([gap, &space, &text]),
        }
    }
    out.push_str(line.trim_end());
    out.push('\n');
}

fn painted(text: &str, hue: Hue, paint: Paint) -> String {
    let code = match hue {
        Hue::None => return text.to_string(),
        Hue::Bold => "1",
        Hue::Good => "32",
        Hue::Bad => "1;31",
    };
    if paint == Paint::Ansi { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_string() }
}

/// Columns that a text takes in a terminal: near enough, without the tables of Unicode.
fn width(text: &str) -> usize {
    text.chars().map(char_width).sum()
}

fn char_width(c: char) -> usize {
    match c {
        // Combining marks, joiners and variation selectors stand on the character before them.
        '\u{300}'..='\u{36f}'
        | '\u{200b}'..='\u{200f}'
        | '\u{20d0}'..='\u{20ff}'
        | '\u{fe00}'..='\u{fe0f}' => 0,
        // East Asian scripts, full-width forms and pictographs.
        '\u{1100}'..='\u{115f}'
        | '\u{2e80}'..='\u{a4cf}'
        | '\u{ac00}'..='\u{d7a3}'
        | '\u{f900}'..='\u{faff}'
        | '\u{fe30}'..='\u{fe6f}'
        | '\u{ff00}'..='\u{ff60}'
        | '\u{ffe0}'..='\u{ffe6}'
        | '\u{1f300}'..='\u{1f64f}'
        | '\u{1f900}'..='\u{1f9ff}'
        | '\u{20000}'..='\u{3fffd}' => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_measure::result::{ByClass, Observed, Phase};

    #[test]
    fn wide_and_combining_characters_are_measured() {
        assert_eq!(width("GSP"), 3);
        assert_eq!(width("表"), 2);
        assert_eq!(width("e\u{301}"), 1);
    }

    #[test]
    fn flows_that_come_and_go_get_a_table_of_their_own() {
        let phase = Phase {
            from_s: 15.0,
            to_s: 30.0,
            flows: 2,
            utilization: 0.9912,
            delay_mean_ms: 4.5,
            delay_p95_ms: 9.25,
        };
        let link = LinkSummary { name: "x".into(), phases: vec![phase], ..LinkSummary::default() };
        let run = Summary { title: "t".into(), links: vec![link], ..Summary::default() };
        let text = results([&run], Paint::Plain);
        assert!(text.ends_with("t    x     15.0–30.0  2   99.12     4.50    9.25\n"), "{text}");
    }

    #[test]
    fn classes_of_traffic_get_a_table_of_their_own() {
        let low_latency = Spread { mean: 0.5, p50: 0.4, p95: 0.9, p99: 1.0, max: 2.0 };
        let by_class = ByClass { low_latency, classic: Spread { max: 20.0, ..low_latency } };
        let link =
            LinkSummary { name: "x".into(), delay_by_class_ms: Some(by_class), ..LinkSummary::default() };
        let run = Summary { title: "t".into(), links: vec![link], ..Summary::default() };
        let text = results([&run], Paint::Plain);
        let last = text.lines().last().unwrap();
        let cells = last.split_whitespace().collect::<Vec<_>>();
        assert_eq!(cells, ["t", "x", "classic", "0.50", "0.40", "0.90", "1.00", "20.00"]);
    }

    #[test]
    fn links_that_probe_get_a_table_of_their_own() {
        let sensing = Sensing {
            state: "sensing".into(),
            sent: 10,
            duplicated: 3,
            forged: 4,
            share: 0.00467,
            ..Sensing::default()
        };
        let link = LinkSummary { name: "x".into(), sensing: Some(sensing), ..LinkSummary::default() };
        let run = Summary { title: "t".into(), links: vec![link], ..Summary::default() };
        let text = results([&run], Paint::Plain);
        assert!(text.contains("\nProbes\n"), "{text}");
        let last: Vec<&str> = text.lines().last().unwrap().split_whitespace().collect();
        assert_eq!(last[last.len() - 3..], ["3", "4", "0.467"], "{text}");
    }

    #[test]
    fn without_claims_nothing_is_said_to_be_held() {
        let told = claims(&[], Paint::Plain);
        assert!(!told.contains("held") && told.contains("no claim"), "{told}");
    }

    #[test]
    fn links_that_observe_get_a_table_of_their_own() {
        let observed =
            Observed { mode: "follow".into(), bytes: 200, live_bytes: 190, users: 1, ..Observed::default() };
        let link = LinkSummary { name: "x".into(), upstream: Some(observed), ..LinkSummary::default() };
        let run = Summary { title: "t".into(), links: vec![link], ..Summary::default() };
        let text = results([&run], Paint::Plain);
        let last = text.lines().last().unwrap();
        assert_eq!(
            last.split_whitespace().collect::<Vec<_>>(),
            ["t", "x", "follow", "–", "–", "–", "95.0", "1", "0"]
        );
    }

    #[test]
    fn columns_of_text_are_aligned() {
        let rows = [vec!["x".to_string(), "10.00".into()], vec!["long".into(), "9.5".into()]];
        assert_eq!(aligned(&["run", "ms"], &rows), "run      ms\n────  ─────\nx     10.00\nlong    9.5\n");
    }
}
