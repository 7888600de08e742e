//! Foreign text and impossible numbers harm neither charts nor pages nor tables.

use crate::common;

use common::{NASTY, claim, incomplete, nasty, tiny};
use weir_measure::result::Recording;
use weir_report::chart::{
    Compared, Comparison, Figure, FigureClaim, FigurePoint, FigureQuantity, FigureSeries, Look, Plot,
    PlotAxis, PlotPoint, PlotSeries, TimeSeriesOptions, comparison, figure, plot, time_series,
};
use weir_report::html::{Beside, MAX_EVENT_ROWS, Page, PageRun, page};
use weir_report::table::{Paint, claims, results};
use weir_report::{Policy, csv};

const POLICY: Policy = Policy {
    utilization_low: Some(f64::NAN),
    utilization_target: Some(f64::INFINITY),
    target_max_ms: Some(-1.0),
};

/// A parser that is just strict enough: tags are balanced, attributes quoted, entities known.
fn assert_well_formed(xml: &str) {
    let mut open = Vec::new();
    let mut rest = xml;
    while let Some(start) = rest.find('<') {
        assert_text(&rest[..start]);
        if let Some(comment) = rest[start..].strip_prefix("<!--") {
            let end = comment.find("--").expect("the comment ends");
            assert!(comment[end..].starts_with("-->"), "two hyphens inside a comment");
            rest = &comment[end + 3..];
            continue;
        }
        let end = start + rest[start..].find('>').expect("the tag ends");
        let tag = &rest[start + 1..end];
        match tag.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name)),
            None => {
                assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
                assert_text(tag);
                if !tag.ends_with('/') {
                    open.push(tag.split(' ').next().expect("a tag has a name"));
                }
            }
        }
        rest = &rest[end + 1..];
    }
    assert!(open.is_empty(), "{open:?} not closed");
}

fn assert_text(text: &str) {
    assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
    for after in text.split('&').skip(1) {
        let known = ["amp;", "lt;", "gt;", "quot;", "#39;"].iter().any(|entity| after.starts_with(entity));
        assert!(known, "{after}");
    }
    assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
}

fn charts_of(recording: &Recording) -> Vec<String> {
    let mut drawn = Vec::new();
    for log_delay in [false, true] {
        for utilization_floor in [0.0, 0.9, f64::NAN, 2.0] {
            let options = TimeSeriesOptions { policy: POLICY, log_delay, utilization_floor };
            drawn.push(time_series(recording, 0, &options));
            drawn.push(time_series(recording, 9, &options));
        }
        let run = Compared { label: NASTY, recording, link: 0, policy: POLICY };
        let other = Compared { link: 9, ..run };
        drawn.push(comparison(&Comparison { title: NASTY, runs: vec![run, other, run, run], log_delay }));
        drawn.push(comparison(&Comparison { log_delay, ..Comparison::default() }));
    }
    drawn
}

#[test]
fn charts_stay_well_formed() {
    for recording in incomplete().into_iter().chain([tiny(), nasty()]) {
        for chart in charts_of(&recording) {
            assert_well_formed(&chart);
            assert!(!chart.contains("<blink"));
        }
    }
}

#[test]
fn figures_stay_well_formed() {
    let wrong = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, 0.0, 1e300];
    let points: Vec<_> = wrong.map(|value| FigurePoint { value, range: Some((f64::NAN, value)) }).to_vec();
    let series = FigureSeries { name: NASTY.to_string(), utilization: points.clone(), delay_p95_ms: points };
    let claim = |quantity| FigureClaim { quantity, label: NASTY.to_string(), value: f64::INFINITY };
    for (categories, log_delay) in [(0, false), (0, true), (3, false), (20, true)] {
        let drawn = figure(&Figure {
            title: NASTY.to_string(),
            subtitle: NASTY.to_string(),
            x_name: NASTY.to_string(),
            categories: vec![NASTY.to_string(); categories],
            series: vec![series.clone(); 9],
            claims: vec![claim(FigureQuantity::Utilization), claim(FigureQuantity::DelayP95)],
            log_delay,
        });
        assert_well_formed(&drawn);
    }
    assert_well_formed(&figure(&Figure::default()));
}

/// A figure of everything that is hard to draw.
fn nasty_figure(categories: usize) -> Plot {
    let wrong = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, 0.0, 1e300];
    let points = wrong
        .iter()
        .flat_map(|x| wrong.iter().map(|y| PlotPoint { x: *x, y: *y, range: Some((f64::NAN, *y)) }));
    let points: Vec<PlotPoint> = points.collect();
    let looks = [Look::Points, Look::Line, Look::Step, Look::Marks, Look::Printed];
    let series = |on_right| {
        looks.map(|look| PlotSeries { name: NASTY.to_string(), look, on_right, points: points.clone() })
    };
    let axis = |range| PlotAxis { name: NASTY.to_string(), range };
    Plot {
        title: NASTY.to_string(),
        subtitle: NASTY.to_string(),
        x: axis(Some((f64::NAN, 1.0))),
        categories: vec![NASTY.to_string(); categories],
        left: axis(None),
        right: Some(axis(Some((3.0, 3.0)))),
        series: [series(false), series(true)].concat(),
    }
}

#[test]
fn plots_stay_well_formed() {
    for categories in [0, 1, 20] {
        assert_well_formed(&plot(&nasty_figure(categories)));
    }
    assert_well_formed(&plot(&Plot::default()));
}

#[test]
fn figures_of_a_page_are_there_without_its_program() {
    let figures = [nasty_figure(0), nasty_figure(3)];
    let row = Beside { figure: NASTY.into(), paper: NASTY.into(), ..Beside::default() };
    let page = page(&Page { title: NASTY, figures: &figures, beside: &[row], ..Page::default() });
    assert_eq!(page.matches("<svg class=\"weir\"").count(), 2);
    assert_eq!(page.matches("</script").count(), 2);
    assert_eq!(page.matches("<style>").count(), 1, "one style sheet for all pictures");
    for forbidden in ["http://", "<!--", "<blink", "\u{1b}", "url("] {
        assert!(!page.contains(forbidden), "{forbidden}");
    }
    let data = &embedded(&page)["figures"];
    assert_eq!(data.as_array().map(Vec::len), Some(2));
    assert_eq!(data[1]["series"][0]["name"], NASTY);
    assert!(!page.contains("<h2>Results"), "there are no runs");
}

fn page_of(recording: &Recording, label: &str) -> String {
    let run = PageRun { label, recording, policies: &[POLICY] };
    let claims = [claim(NASTY, true), claim(NASTY, false)];
    let notes = [NASTY.to_string()];
    page(&Page { title: NASTY, runs: vec![run, run], claims: &claims, notes: &notes, ..Page::default() })
}

fn embedded(page: &str) -> serde_json::Value {
    let (_, from) = page.split_once("id=\"data\">").expect("the page has data");
    let (json, _) = from.split_once("</script>").expect("the data ends");
    serde_json::from_str(json).expect("the data is JSON")
}

#[test]
fn foreign_text_does_not_break_out_of_the_page() {
    let page = page_of(&nasty(), NASTY);
    assert_eq!(page.matches("</script").count(), 2, "the data and the program");
    assert_eq!(page.matches("<script").count(), 2);
    assert!(!page.contains("<blink") && !page.contains('\u{1b}'));
    assert_eq!(page.matches("<!--").count(), 0, "a comment would hide the end of the script");
    let data = embedded(&page);
    assert_eq!(data["charts"][0]["events"][0]["rule"], NASTY);
}

/// The way back of a lab has no policy, and no line where it would be.
#[test]
fn a_policy_is_drawn_on_its_link_alone() {
    let mut recording = tiny();
    recording.summary.links.push(recording.summary.links[0].clone());
    recording.link_samples.push(recording.link_samples[0].clone());
    let policies = [Policy { utilization_low: Some(0.99), target_max_ms: Some(30.0), ..Policy::default() }];
    let run = PageRun { label: "", recording: &recording, policies: &policies };
    let data = embedded(&page(&Page { runs: vec![run], ..Page::default() }));
    let names = |chart: usize| data["charts"][chart].to_string();
    assert!(names(0).contains("target_max") && names(0).contains("u_low"), "{}", names(0));
    assert!(!names(1).contains("target_max") && !names(1).contains("u_low"), "{}", names(1));
}

#[test]
fn the_page_needs_no_network() {
    let page = page_of(&tiny(), "");
    for forbidden in ["http://", "https://", "src=", "@import", "url("] {
        assert!(!page.contains(forbidden), "{forbidden}");
    }
    assert!(page.contains("default-src 'none'"));
}

#[test]
fn a_page_of_incomplete_recordings_is_a_page() {
    for recording in incomplete() {
        let charts = embedded(&page_of(&recording, ""))["charts"].as_array().map(Vec::len);
        let links = recording.summary.links.len().max(recording.link_samples.len());
        assert_eq!(charts, Some(2 * links));
    }
    let empty = page(&Page::default());
    assert!(empty.ends_with("</html>\n"));
}

#[test]
fn long_series_are_thinned_out_but_keep_their_peaks() {
    let mut recording = tiny();
    let first = recording.link_samples[0][0];
    let long = (0..50_000).map(|i| {
        let mut sample = first;
        sample.t_s = f64::from(i) * 0.01;
        sample.delay_mean_ms = if i == 33_333 { 777.0 } else { f64::from(i % 10) };
        sample
    });
    recording.link_samples[0] = long.collect();
    assert!(!page_of(&tiny(), "").contains("thinned out"));
    let page = page_of(&recording, "");
    assert!(page.contains("thinned out"), "the reader is told");
    let data = embedded(&page);
    let delay = &data["charts"][0]["panels"][1];
    let mean = &delay["series"][1];
    let values = mean["v"].as_array().expect("values");
    assert!(values.len() <= 4000 && values.len() > 1000, "{}", values.len());
    let peak = values.iter().position(|v| v == 777.0).expect("the peak stays");
    assert_eq!(mean["t"][peak], 333.33);
}

#[test]
fn many_events_are_counted_and_not_all_listed() {
    let mut recording = tiny();
    recording.events = vec![recording.events[0].clone(); MAX_EVENT_ROWS + 100];
    let page = page_of(&recording, "");
    assert!(page.contains("the first 500 of 600"));
    assert_eq!(page.matches("data-time=").count(), 2 * MAX_EVENT_ROWS);
}

#[test]
fn tables_align_and_tell_the_outcome() {
    let shown = results([&tiny().summary], Paint::Plain);
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines.len(), 3);
    let column = lines[0].find("p95 ms").expect("the column is there") + "p95 ms".len();
    assert_eq!(lines[2].get(..column).map(|l| l.ends_with(" 12.00")), Some(true), "{shown}");

    let plain = claims(&[claim("x", true), claim("y", false)], Paint::Plain);
    assert!(plain.contains("HELD") && plain.contains("MISSED") && plain.ends_with("1 of 2 claims held\n"));
    assert!(!plain.contains('\u{1b}'));
    assert!(claims(&[claim("x", false)], Paint::Ansi).contains("\u{1b}[1;31mMISSED"));
}

#[test]
fn tables_do_not_pass_control_characters_on() {
    let recording = nasty();
    let shown = results([&recording.summary], Paint::Plain) + &claims(&[claim(NASTY, true)], Paint::Plain);
    assert!(!shown.contains('\u{1b}'), "{shown:?}");
    // Header, rule, row and warning; header, rule, row and count.
    assert_eq!(shown.lines().count(), 8);
    for recording in incomplete() {
        let _ = results([&recording.summary], Paint::Ansi);
    }
}

#[test]
fn csv_survives_the_same() {
    let recording = nasty();
    let text = csv::steering_events(&recording.events);
    let read = csv::read_steering_events(&text).expect("it reads what it wrote");
    assert_eq!(read[0].rule, NASTY);
    assert_eq!(read[0].measured[0], (NASTY.to_string(), f64::INFINITY));
    assert!(read[0].measured[1].1.is_nan() && read[1].t_s.is_nan());
}
