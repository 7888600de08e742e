//! The data of a page's charts as compact JSON.

use serde::Serialize;

use super::Page;
use super::figures::{self, FigureData};
use crate::downsample::keep_extremes;
use crate::number::{drawable, rounded};
use crate::panels::{LinkView, Panel, Series};

/// Points of a series beyond which it is thinned out: more than any screen is wide.
pub(super) const MAX_POINTS: usize = 4000;

#[derive(Serialize)]
struct Data<'a> {
    charts: Vec<Chart>,
    figures: Vec<FigureData<'a>>,
}

#[derive(Serialize)]
struct Chart {
    from: f64,
    to: f64,
    warmup: f64,
    panels: Vec<PanelData>,
    events: Vec<Event>,
}

#[derive(Serialize)]
struct PanelData {
    name: &'static str,
    unit: String,
    kind: String,
    /// Times that all series share which have none of their own.
    t: Vec<f64>,
    series: Vec<SeriesData>,
    limits: Vec<LimitData>,
}

#[derive(Serialize)]
struct SeriesData {
    name: &'static str,
    tone: &'static str,
    step: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    t: Option<Vec<f64>>,
    v: Vec<Option<f64>>,
}

#[derive(Serialize)]
struct LimitData {
    name: String,
    v: f64,
}

#[derive(Serialize)]
struct Event {
    t: f64,
    rule: String,
    unit: String,
    from: Option<f64>,
    to: Option<f64>,
}

/// The data of all charts, in the order in which the page shows them.
pub(super) fn of_page(page: &Page) -> String {
    let charts = page.runs.iter().flat_map(|run| run.links()).map(|view| chart(&view)).collect();
    // The structures above have neither maps nor failing parts; an empty page is still a page.
    let figures = page.figures.iter().map(figures::data).collect();
    serde_json::to_string(&Data { charts, figures })
        .unwrap_or_else(|_| r#"{"charts":[],"figures":[]}"#.to_string())
}

fn chart(view: &LinkView) -> Chart {
    let (from, to) = view.span();
    Chart {
        from,
        to,
        warmup: view.warmup().unwrap_or(0.0),
        panels: view.panels().into_iter().map(panel).collect(),
        events: events(view),
    }
}

fn panel(panel: Panel) -> PanelData {
    // Only the shared times of a panel that is not thinned out are worth their bytes.
    let shared = panel.series.first().filter(|s| s.t.len() <= MAX_POINTS);
    let limits = panel.limits.into_iter().map(|l| LimitData { name: l.label, v: l.value }).collect();
    PanelData {
        name: panel.title,
        unit: panel.unit,
        kind: format!("{:?}", panel.kind).to_lowercase(),
        t: shared.map_or(Vec::new(), |s| s.t.iter().map(|t| microseconds(*t)).collect()),
        series: panel.series.iter().map(series).collect(),
        limits,
    }
}

fn series(series: &Series) -> SeriesData {
    let kept = keep_extremes(&series.v, MAX_POINTS);
    let thinned = kept.len() < series.v.len();
    SeriesData {
        name: series.name,
        tone: series.tone.class(),
        step: series.step,
        t: thinned.then(|| kept.iter().map(|&i| microseconds(series.t[i])).collect()),
        v: kept.iter().map(|&i| rounded(series.v[i])).collect(),
    }
}

fn events(view: &LinkView) -> Vec<Event> {
    let all: Vec<_> = view.events().filter(|e| drawable(e.t_s)).collect();
    let stride = all.len().div_ceil(MAX_POINTS).max(1);
    let event = |e: &&weir_measure::result::SteeringEvent| Event {
        t: microseconds(e.t_s),
        rule: e.rule.clone(),
        unit: e.unit.clone(),
        from: rounded(e.from),
        to: rounded(e.to),
    };
    all.iter().step_by(stride).map(event).collect()
}

fn microseconds(t: f64) -> f64 {
    (t * 1e6).round() / 1e6
}
