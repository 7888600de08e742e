//! One HTML page that shows runs: tables, claims and charts that can be hovered and zoomed.
//!
//! The page is one file that needs no network and forbids itself any: its content security policy allows
//! its own inline style and script only.

mod data;
mod figures;
mod grids;

use std::fmt::Write;

use weir_measure::result::{Claim, FlowSummary, HostJitter, LinkSummary, Phase, Recording, SteeringEvent};

use crate::chart::{Plot, TimeSeriesOptions, time_series};
use crate::escape::{json_in_script, xml};
use crate::number::{fixed, significant};
use crate::panels::{LinkView, Policy, rate_text};
use crate::svg::inline;
use crate::tally::{Judged, outcome, tally};

pub use figures::{Beside, Rows};
pub use grids::{Grid, GridCell};

/// What a page shows.
#[derive(Clone, Debug, Default)]
pub struct Page<'a> {
    /// Title of the page.
    pub title: &'a str,
    /// The runs, in the order in which they are shown.
    pub runs: Vec<PageRun<'a>>,
    /// Claims and what became of them.
    pub claims: &'a [Claim],
    /// What a reader should know, one paragraph each.
    pub notes: &'a [String],
    /// Tables of whatever a verb has to say.
    pub grids: &'a [Grid],
    /// Figures over all runs.
    pub figures: &'a [Plot],
    /// Tables of results over all runs.
    pub tables: &'a [Rows],
    /// Numbers of a paper beside those measured here.
    pub beside: &'a [Beside],
}

/// One run of a page.
#[derive(Clone, Copy, Debug)]
pub struct PageRun<'a> {
    /// Its name on the page; the title of the recording where this is empty.
    pub label: &'a str,
    /// The run.
    pub recording: &'a Recording,
    /// The policies of its links, drawn as dashed lines; links beyond have none.
    pub policies: &'a [Policy],
}

/// Rows of steering events that a run shows; a page with more is slow to open, and the CSV has them all.
pub const MAX_EVENT_ROWS: usize = 500;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
const FIGURES_SCRIPT: &str = include_str!("figures.js");
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'";

/// The whole page as HTML text.
pub fn page(page: &Page) -> String {
    let mut out = String::new();
    let title = xml(page.title);
    push(&mut out, format_args!("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">"));
    push(&mut out, format_args!("<meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">"));
    push(&mut out, "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">");
    push(&mut out, format_args!("<title>{title}</title>\n<style>\n{STYLE}{}</style>", crate::svg::STYLE));
    push(&mut out, "</head>\n<body>\n<main>");
    push(&mut out, format_args!("<h1>{title}</h1>"));
    push_notes(&mut out, page);
    push_claims(&mut out, page.claims);
    grids::push_grids(&mut out, page.grids);
    figures::push_figures(&mut out, page.figures);
    figures::push_tables(&mut out, page.tables);
    figures::push_beside(&mut out, page.beside);
    if !page.runs.is_empty() {
        push_results(&mut out, &page.runs);
        push_charts(&mut out, page);
    }
    push(&mut out, "</main>");
    let json = json_in_script(&data::of_page(page));
    push(&mut out, format_args!("<script type=\"application/json\" id=\"data\">{json}</script>"));
    push(&mut out, format_args!("<script>\n{SCRIPT}{FIGURES_SCRIPT}</script>\n</body>\n</html>"));
    out
}

impl<'a> PageRun<'a> {
    fn name(&self) -> &'a str {
        if self.label.is_empty() { &self.recording.summary.title } else { self.label }
    }

    /// One view for each link that has a summary or samples.
    fn links(&self) -> impl Iterator<Item = LinkView<'a>> + use<'a> {
        let (recording, policies) = (self.recording, self.policies);
        let count = recording.summary.links.len().max(recording.link_samples.len());
        let policy = |link: usize| policies.get(link).copied().unwrap_or_default();
        (0..count).map(move |link| LinkView::new(recording, link, policy(link)))
    }
}

/// Writing to a string cannot fail.
fn push(out: &mut String, text: impl std::fmt::Display) {
    let _ = writeln!(out, "{text}");
}

fn push_notes(out: &mut String, page: &Page) {
    for note in page.notes {
        push(out, format_args!("<p class=\"note\">{}</p>", xml(note)));
    }
    for run in &page.runs {
        for warning in &run.recording.summary.warnings {
            push(out, format_args!("<p class=\"warning\"><b>{}</b> {}</p>", xml(run.name()), xml(warning)));
        }
    }
}

/// A column of a table: its name, and whether it holds numbers, which are aligned to the right.
type Column = (&'static str, bool);

fn open_table(out: &mut String, columns: &[Column]) {
    out.push_str("<div class=\"wide\"><table><thead><tr>");
    for (name, number) in columns {
        let class = if *number { " class=\"n\"" } else { "" };
        let _ = write!(out, "<th scope=\"col\"{class}>{}</th>", xml(name));
    }
    out.push_str("</tr></thead><tbody>\n");
}

/// A row; the cells are markup.
fn push_row(out: &mut String, columns: &[Column], cells: &[String]) {
    out.push_str("<tr>");
    for ((_, number), cell) in columns.iter().zip(cells) {
        let class = if *number { " class=\"n\"" } else { "" };
        let _ = write!(out, "<td{class}>{cell}</td>");
    }
    out.push_str("</tr>\n");
}

fn close_table(out: &mut String) {
    out.push_str("</tbody></table></div>\n");
}

fn push_results(out: &mut String, runs: &[PageRun]) {
    const COLUMNS: [Column; 14] = [
        ("Run", false),
        ("Link", false),
        ("AQM", false),
        ("Rate", true),
        ("Flows", true),
        ("Utilization %", true),
        ("Mean ms", true),
        ("p95 ms", true),
        ("p99 ms", true),
        ("Max ms", true),
        ("Drops", true),
        ("Overflows", true),
        ("Marks", true),
        ("Set point ms", true),
    ];
    push(out, "<h2>Results</h2>");
    open_table(out, &COLUMNS);
    let mut chart = 0;
    for run in runs {
        for view in run.links() {
            if let Some(link) = view.summary {
                push_row(out, &COLUMNS, &result_cells(run, link, chart));
            }
            chart += 1;
        }
    }
    close_table(out);
    push_phases(out, runs);
}

/// How the links settled each time that flows had come or gone.
fn push_phases(out: &mut String, runs: &[PageRun]) {
    const COLUMNS: [Column; 7] = [
        ("Run", false),
        ("Link", false),
        ("Seconds", true),
        ("Flows", true),
        ("Utilization %", true),
        ("Mean ms", true),
        ("95 % ms", true),
    ];
    let links = runs.iter().flat_map(|run| run.links().filter_map(move |view| Some((run, view.summary?))));
    let rows: Vec<_> = links
        .flat_map(|(run, link)| link.phases.iter().map(move |phase| phase_cells(run, link, phase)))
        .collect();
    if rows.is_empty() {
        return;
    }
    push(out, "<h2>Later half of each span with the same flows and rate</h2>");
    open_table(out, &COLUMNS);
    for row in &rows {
        push_row(out, &COLUMNS, row);
    }
    close_table(out);
}

fn phase_cells(run: &PageRun, link: &LinkSummary, phase: &Phase) -> Vec<String> {
    vec![
        xml(run.name()),
        xml(&link.name),
        format!("{}–{}", fixed(phase.from_s, 1), fixed(phase.to_s, 1)),
        phase.flows.to_string(),
        fixed(phase.utilization * 100.0, 2),
        fixed(phase.delay_mean_ms, 2),
        fixed(phase.delay_p95_ms, 2),
    ]
}

fn result_cells(run: &PageRun, link: &LinkSummary, chart: usize) -> Vec<String> {
    let flows = run.recording.summary.flows_of(link);
    let used = link.rate_bps.map_or("–".to_string(), |_| fixed(link.utilization * 100.0, 2));
    let delay = link.delay_ms;
    vec![
        format!("<a href=\"#chart{chart}\">{}</a>", xml(run.name())),
        xml(&link.name),
        xml(&link.aqm),
        rate_text(link.rate_bps),
        flows.map_or("–".to_string(), |flows| flows.to_string()),
        used,
        fixed(delay.mean, 2),
        format!("<b>{}</b>", fixed(delay.p95, 2)),
        fixed(delay.p99, 2),
        fixed(delay.max, 2),
        link.drops.to_string(),
        link.overflows.to_string(),
        link.marks.to_string(),
        link.setpoint_ms.map_or("–".to_string(), |v| fixed(v, 2)),
    ]
}

fn push_claims(out: &mut String, claims: &[Claim]) {
    const COLUMNS: [Column; 7] = [
        ("Claim", false),
        ("Outcome", false),
        ("What it says", false),
        ("Paper", false),
        ("Bound", false),
        ("Measured", false),
        ("Where the bound comes from; why it was missed", false),
    ];
    if claims.is_empty() {
        return;
    }
    push(out, format_args!("<h2>Claims <small>{}</small></h2>", tally(claims, "")));
    open_table(out, &COLUMNS);
    for claim in claims {
        let judged = Judged::of(claim);
        let (class, sign) = match judged {
            Judged::Held => ("held", "✓ "),
            Judged::Missed => ("missed", "✗ "),
            Judged::Open => ("sub", ""),
        };
        let cells = [
            format!("<b>{}</b>", xml(&claim.id)),
            format!("<span class=\"{class}\">{sign}{}</span>", outcome(claim)),
            xml(&claim.text),
            xml(&claim.paper),
            xml(&claim.expected),
            xml(&claim.measured),
            format!("{} {}", xml(&claim.basis), xml(&claim.why().unwrap_or_default())),
        ];
        push_row(out, &COLUMNS, &cells);
    }
    close_table(out);
}

fn push_charts(out: &mut String, page: &Page) {
    push(out, "<h2>Over time</h2>");
    push(out, "<noscript><p class=\"warning\">Without JavaScript the charts stand still.</p></noscript>");
    push(
        out,
        "<p class=\"controls\"><label><input type=\"checkbox\" id=\"linked\" checked> same time range in all charts\
         </label><label><input type=\"checkbox\" id=\"zero\" checked> scales start at zero</label>\
         <span>Drag to zoom, double click to reset; with the keyboard ← → + − and Esc. \
         Click a name to hide its line.</span></p>",
    );
    if page.runs.iter().flat_map(PageRun::links).any(|view| view.samples.len() > data::MAX_POINTS) {
        push(
            out,
            format_args!(
                "<p class=\"sub\">Series longer than {} points are thinned out here; their smallest and largest \
                 values stay. The CSV tables have every sample.</p>",
                data::MAX_POINTS
            ),
        );
    }
    let mut chart = 0;
    for run in &page.runs {
        for (chart_of_run, view) in run.links().enumerate() {
            push(out, format_args!("<section id=\"chart{chart}\"><h3>{}</h3>", xml(run.name())));
            push(out, format_args!("<p class=\"sub\">{}</p>", xml(&view.subtitle())));
            push(out, format_args!("<div class=\"chart\" data-chart=\"{chart}\"></div>"));
            push_still(out, &view, chart_of_run);
            push_events(out, &view, chart);
            push(out, "</section>");
            chart += 1;
        }
        push_run_details(out, run);
    }
}

/// The chart as a picture, for browsers that run no programs.
fn push_still(out: &mut String, view: &LinkView, link: usize) {
    let options = TimeSeriesOptions { policy: view.policy, ..TimeSeriesOptions::default() };
    let still = inline(&time_series(view.recording, link, &options));
    push(out, format_args!("<noscript>\n{still}</noscript>"));
}

fn push_events(out: &mut String, view: &LinkView, chart: usize) {
    const COLUMNS: [Column; 5] =
        [("Time s", true), ("Rule", false), ("From ms", true), ("To ms", true), ("Measured", false)];
    let events: Vec<&SteeringEvent> = view.events().collect();
    if events.is_empty() {
        return;
    }
    let shown = events.len().min(MAX_EVENT_ROWS);
    let count = match events.len() {
        n if n == shown => format!("{n}"),
        n => format!("the first {shown} of {n}"),
    };
    push(out, format_args!("<details><summary>Moves of the set point ({count})</summary>"));
    open_table(out, &COLUMNS);
    for event in &events[..shown] {
        push_row(out, &COLUMNS, &event_cells(event, chart));
    }
    close_table(out);
    push(out, "</details>");
}

fn event_cells(event: &SteeringEvent, chart: usize) -> [String; 5] {
    let measured = |(name, value): &(String, f64)| {
        format!("<span class=\"m\">{} <b>{}</b></span>", xml(name), significant(*value, 5))
    };
    let t = fixed(event.t_s, 3);
    [
        format!("<a href=\"#chart{chart}\" data-chart=\"{chart}\" data-time=\"{t}\">{t}</a>"),
        xml(&event.rule),
        format!("{} {}", significant(event.from, 4), xml(&event.unit)),
        format!("{} {}", significant(event.to, 4), xml(&event.unit)),
        event.measured.iter().map(measured).collect::<Vec<_>>().join(" "),
    ]
}

fn push_run_details(out: &mut String, run: &PageRun) {
    push_flows(out, &run.recording.summary.flows);
    if let Some(host) = &run.recording.summary.host {
        push_host(out, host);
    }
    let faults = run.recording.summary.links.iter().flat_map(|l| l.faults.iter().map(|f| (&l.name, f)));
    for (link, (reason, count)) in faults.filter(|(_, f)| f.1 > 0) {
        push(out, format_args!("<p class=\"sub\">{}: {count} × {}</p>", xml(link), xml(reason)));
    }
}

fn push_flows(out: &mut String, flows: &[FlowSummary]) {
    const COLUMNS: [Column; 6] = [
        ("Flow", true),
        ("Group", true),
        ("Congestion control", false),
        ("Goodput", true),
        ("Retransmits", true),
        ("RTT ms", true),
    ];
    if flows.is_empty() {
        return;
    }
    push(out, format_args!("<details><summary>Flows ({})</summary>", flows.len()));
    open_table(out, &COLUMNS);
    for flow in flows {
        let goodput =
            if flow.goodput_bps > 0.0 { rate_text(Some(flow.goodput_bps)) } else { "0".to_string() };
        let cells = [
            flow.id.to_string(),
            flow.group.to_string(),
            xml(&flow.congestion),
            goodput,
            flow.retransmits.to_string(),
            fixed(flow.rtt_ms, 2),
        ];
        push_row(out, &COLUMNS, &cells);
    }
    close_table(out);
    push(out, "</details>");
}

fn push_host(out: &mut String, host: &HostJitter) {
    let class = if host.realtime { "real-time scheduling" } else { "no real-time scheduling" };
    let core = if host.own_core { "own core" } else { "shared core" };
    push(
        out,
        format_args!(
            "<p class=\"sub\">Packet loop of the host: gaps p99 {} ms, largest {} ms; {} % of the time in gaps above \
             1 ms; {class}, {core}.</p>",
            significant(host.gap_ms.p99, 3),
            significant(host.gap_ms.max, 3),
            significant(host.stalled_share * 100.0, 3),
        ),
    );
}
