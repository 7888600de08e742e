//! `weir plot`: figures for papers from results.

mod charts;
pub mod data;

use crate::output::{Done, Failure, Output};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use weir_report::paper::{Chart, Style, draw, latex, numbers};
use weir_report::{FileSet, read_regular, write_chosen};

/// Draw a figure for a paper from the results of `weir sweep`, `weir sim` or `weir lab`: PDF and SVG of the
/// width and type size that are asked for, without a title, with confidence intervals, and the numbers as CSV
/// and as a LaTeX table beside it.
///
/// Colours can be told apart by people with any common colour blindness, and marks and dashes in grey.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    figure: Asked,
    /// Draw the figures that a TOML file describes: a table `[[figure]]` for each, with the options of this
    /// verb as keys (`results`, `kind`, `y`, `out` ...), which cannot be given beside it. Paths in it start
    /// at its folder.
    #[arg(long, value_name = "FILE", conflicts_with = "asked")]
    from: Option<PathBuf>,
}

const EXAMPLES: &str = "Examples:
  weir plot out/my                                           95 % delay of each scheme over the last axis
  weir plot out/my --y utilization --panels path.rtt         small multiples, one for each round-trip time
  weir plot out/my --kind plane                              delay over utilization, ellipses of one deviation
  weir plot out/my --kind cdf --where flows=36               an axis called flows; needs [measure] in the scenario
  weir plot out/my --kind cdf --series group --where flows=36
  weir plot out/my --kind histogram --where flows=36         how often packets wait how long
  weir plot out/my --y voice_mos_mean                        what users notice: MOS, page_p95_ms, video_stalled ...
  weir plot out/my --kind cdf --quantity game                delays of datagrams; voice, realtime (frames), page
  weir plot out/sim --kind time --y delivered_bps            a run over time
  weir plot out/my --width column --font 8 --out fig/delay   fig/delay.pdf, .svg, .csv, .tex
  weir plot --from figures.toml                              all figures of a paper";

/// What a figure is asked to be, by options or by a table of a file.
#[derive(clap::Args, Deserialize, Clone, Debug)]
#[group(id = "asked")]
#[serde(deny_unknown_fields, default)]
struct Asked {
    /// Folders with results: one of a sweep, or some of single runs.
    #[arg(value_name = "RESULTS")]
    results: Vec<PathBuf>,
    /// What is drawn; if not given, `points` of a sweep, and `time` of a run.
    #[arg(long, value_enum)]
    kind: Option<Kind>,
    /// The measured column, such as delay_p95_ms, utilization or transfer_p99_ms; of `time` a column of the
    /// samples.
    #[arg(long, value_name = "COLUMN")]
    y: Option<String>,
    /// The axis of the sweep that is drawn horizontally.
    #[arg(long, value_name = "AXIS")]
    x: Option<String>,
    /// The axis of the sweep whose values are the series of the legend.
    #[arg(long, value_name = "AXIS")]
    series: Option<String>,
    /// The axis of the sweep that has a panel for each value.
    #[arg(long, value_name = "AXIS")]
    panels: Option<String>,
    /// Only points with this value of an axis. Can be repeated.
    #[arg(long = "where", value_name = "AXIS=VALUE")]
    #[serde(rename = "where")]
    only: Vec<String>,
    /// What the whiskers are: the 95 % confidence interval of the mean by Student's t, that of the median by
    /// the bootstrap, the range, or nothing.
    #[arg(long, value_enum, default_value_t)]
    interval: Interval,
    /// Of `cdf` and `histogram`: what is distributed.
    #[arg(long, value_enum, default_value_t)]
    quantity: Quantity,
    /// Of `cdf`, `histogram` and `time`: the link; the first one if not given.
    #[arg(long, value_name = "NAME")]
    link: Option<String>,
    /// Of `cdf` and `histogram` of a sweep: the group of flows, by the number of its table from 0; all
    /// packets if not given, and the only group of calls, games or real-time video. With `--series group` or
    /// `--panels group` all groups are beside each other and beside the link's packets, as they are of a
    /// single run.
    #[arg(long, value_name = "N")]
    group: Option<u32>,
    /// Width: column (88.9 mm), text (181.9 mm), or millimetres.
    #[arg(long, value_name = "WIDTH", default_value = "column")]
    width: String,
    /// Height in millimetres; by the width if not given.
    #[arg(long, value_name = "MM")]
    height: Option<f64>,
    /// Size of the type in points.
    #[arg(long, value_name = "PT", default_value_t = 8.0)]
    font: f64,
    /// A logarithmic horizontal axis.
    #[arg(long)]
    log_x: bool,
    /// A logarithmic vertical axis.
    #[arg(long)]
    log_y: bool,
    /// Name of the horizontal axis.
    #[arg(long, value_name = "TEXT")]
    x_label: Option<String>,
    /// Name of the vertical axis.
    #[arg(long, value_name = "TEXT")]
    y_label: Option<String>,
    /// A title; papers have captions instead.
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// Where the files go, one for each format: a path, whose ending svg, pdf, csv or tex does not count.
    /// Figures of before are replaced; results, and a .csv or .tex that is of no figure, are refused.
    #[arg(long, value_name = "PATH", default_value = "out/figure")]
    out: PathBuf,
}

impl Default for Asked {
    fn default() -> Asked {
        Asked {
            results: Vec::new(),
            kind: None,
            y: None,
            x: None,
            series: None,
            panels: None,
            only: Vec::new(),
            interval: Interval::default(),
            quantity: Quantity::default(),
            link: None,
            group: None,
            width: "column".into(),
            height: None,
            font: 8.0,
            log_x: false,
            log_y: false,
            x_label: None,
            y_label: None,
            title: None,
            out: "out/figure".into(),
        }
    }
}

#[derive(ValueEnum, Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "lowercase")]
enum Kind {
    /// A measured column over an axis of a sweep, with confidence intervals.
    Points,
    /// Delay over utilization, with an ellipse of one standard deviation over the seeds.
    Plane,
    /// Distributions: the share of packets, transfers or pages that a time is enough for.
    Cdf,
    /// The same by length of the time: the share in each of eight bins for each doubling, of all seeds
    /// together.
    Histogram,
    /// Samples of single runs over time.
    Time,
}

#[derive(ValueEnum, Deserialize, Clone, Copy, PartialEq, Eq, Debug, Default)]
#[serde(rename_all = "lowercase")]
enum Interval {
    /// Of the mean, by Student's t.
    #[default]
    T,
    /// Of the median, by the bootstrap; the median is drawn.
    Bootstrap,
    /// Smallest and largest value.
    Range,
    /// None.
    None,
}

#[derive(ValueEnum, Deserialize, Clone, Copy, PartialEq, Eq, Debug, Default)]
#[serde(rename_all = "lowercase")]
enum Quantity {
    /// Queueing delay of packets.
    #[default]
    Delay,
    /// Completion time of transfers.
    Transfer,
    /// Load time of pages.
    Page,
    /// Delay of the packets of calls, from sender to receiver.
    Voice,
    /// Delay of the datagrams of games.
    Game,
    /// Delay of the frames of real-time video.
    Realtime,
}

impl Quantity {
    fn name(self) -> &'static str {
        match self {
            Quantity::Delay => "delay",
            Quantity::Transfer => "transfer",
            Quantity::Page => "page",
            Quantity::Voice => "voice",
            Quantity::Game => "game",
            Quantity::Realtime => "realtime",
        }
    }
}

/// A file that describes figures.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    figure: Vec<Asked>,
}

/// What is told of a figure.
#[derive(Serialize)]
struct Written {
    files: Vec<String>,
    panels: usize,
    series: Vec<String>,
}

/// A figure that is drawn and not yet written.
struct Made {
    files: Vec<(PathBuf, Vec<u8>)>,
    told: Written,
}

/// Widths of the columns and of the text of IEEE's two-column format, in millimetres.
const WIDTHS: [(&str, f64); 2] = [("column", 88.9), ("text", 181.9)];

/// Runs the verb.
pub fn main(arguments: Arguments, output: &Output) -> Done {
    let asked = match &arguments.from {
        Some(file) => described(file)?,
        None => vec![arguments.figure],
    };
    let made = asked.iter().map(make).collect::<Result<Vec<_>, _>>()?;
    let files = || made.iter().flat_map(|figure| &figure.files);
    // Before the first file is written: what is refused leaves everything as it was.
    files().try_for_each(|(path, _)| refuse_foreign(path))?;
    files().try_for_each(|(path, bytes)| write(path, bytes))?;
    let all: Vec<&Written> = made.iter().map(|figure| &figure.told).collect();
    output.result(&serde_json::json!({ "figures": all }), || {
        all.iter().map(|w| format!("Written: {}", w.files.join(", "))).collect::<Vec<_>>().join("\n")
    });
    Ok(ExitCode::SUCCESS)
}

/// The figures of a file.
fn described(file: &Path) -> Result<Vec<Asked>, Failure> {
    let text = std::fs::read_to_string(file).map_err(|e| format!("cannot read {}: {e}", file.display()))?;
    let told = |e: toml::de::Error| {
        let line = e.span().map_or(1, |span| text[..span.start].matches('\n').count() + 1);
        let remedy = "`weir plot --help` lists the options, which are the keys of [[figure]]";
        Failure::Input(format!("{}:{line}: {}; {remedy}", file.display(), e.message().replace('\n', ", ")))
    };
    let mut all = toml::from_str::<Description>(&text).map_err(told)?.figure;
    let folder = file.parent().unwrap_or(Path::new(""));
    for figure in &mut all {
        figure.results.iter_mut().for_each(|path| *path = folder.join(&*path));
        figure.out = folder.join(&figure.out);
    }
    let mut stems: Vec<PathBuf> = Vec::new();
    for figure in &all {
        // `a` and `./a` are one path.
        let own = stem(&figure.out);
        let own = std::path::absolute(&own).unwrap_or(own);
        if let Some(first) = stems.iter().position(|other| *other == own) {
            let told = format!("figure {} ({})", first + 1, all[first].out.display());
            let told = format!("{told} and figure {} ({})", stems.len() + 1, figure.out.display());
            return Err(Failure::Input(format!(
                "{}: {told} would have the same files: give each an `out` of its own",
                file.display()
            )));
        }
        stems.push(own);
    }
    Ok(all)
}

fn make(asked: &Asked) -> Result<Made, Failure> {
    let style = style(asked)?;
    let (mut chart, kind) = charts::chart(asked)?;
    if let Some(name) = &asked.x_label {
        chart.x.name.clone_from(name);
    }
    if let Some(name) = &asked.y_label {
        chart.y.name.clone_from(name);
    }
    let table = latex(&chart).or_else(|| latex(&charts::tabled(&chart, kind)?));
    Ok(drawn(&chart, table, &style, &asked.out))
}

fn style(asked: &Asked) -> Result<Style, Failure> {
    let named = WIDTHS.iter().find(|(name, _)| *name == asked.width).map(|(_, mm)| *mm);
    let width = named.or_else(|| asked.width.trim_end_matches("mm").trim().parse().ok());
    let width_mm = width.filter(|mm| (20.0..=1000.0).contains(mm)).ok_or_else(|| {
        Failure::Input(format!("--width {}: write column, text, or millimetres from 20 to 1000", asked.width))
    })?;
    if asked.height.is_some_and(|mm| !(15.0..=1000.0).contains(&mm)) {
        return Err(Failure::Input("--height: give millimetres from 15 to 1000".into()));
    }
    if !(3.0..=40.0).contains(&asked.font) {
        return Err(Failure::Input(format!("--font {}: give points from 3 to 40", asked.font)));
    }
    Ok(Style { width_mm, height_mm: asked.height, font_pt: asked.font, title: asked.title.clone() })
}

fn drawn(chart: &Chart, table: Option<String>, style: &Style, out: &Path) -> Made {
    let drawn = draw(chart, style);
    let mut formats: Vec<(&str, Vec<u8>)> =
        vec![("svg", drawn.svg.into()), ("pdf", drawn.pdf), ("csv", numbers(chart).into())];
    formats.extend(table.map(|table| ("tex", table.into())));
    let stem = stem(out);
    let (mut files, mut names) = (Vec::new(), Vec::new());
    for (ending, bytes) in formats {
        let path = PathBuf::from(format!("{}.{ending}", stem.display()));
        names.push(path.display().to_string());
        files.push((path, bytes));
    }
    let told = Written { files: names, panels: chart.panels.len(), series: chart.names.clone() };
    Made { files, told }
}

/// The path of the files without their endings. A name with an ending of these files is meant without it;
/// `with_extension` alone would take the end of a name such as `delay.v2` for one.
fn stem(out: &Path) -> PathBuf {
    match out.extension().and_then(|ending| ending.to_str()) {
        Some("svg" | "pdf" | "csv" | "tex") => out.with_extension(""),
        _ => out.to_path_buf(),
    }
}

/// Refuses to replace a file that this verb did not write, such as the source of the paper whose PDF was
/// named, or a table of results.
fn refuse_foreign(path: &Path) -> Result<(), Failure> {
    // Of a link it is the file that it names which is written.
    let written = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    if path.symlink_metadata().is_err() || !written.is_dir() && is_own(&written) {
        return Ok(());
    }
    let remedy = "choose another path with --out (in a file: `out`), or move that file away";
    Err(Failure::Input(format!("{} is there, and `weir plot` did not write it: {remedy}", path.display())))
}

/// Whether a file that is there is one of a figure: no list of results has its name, and texts are such as
/// this verb writes.
fn is_own(path: &Path) -> bool {
    let folder = path.parent().unwrap_or(Path::new(""));
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let is_result = FileSet::foreign(folder, &[&*name]).is_empty();
    let text = || String::from_utf8_lossy(&read_regular(path).unwrap_or_default()).into_owned();
    match path.extension().and_then(|ending| ending.to_str()) {
        _ if is_result => false,
        Some("csv") => text().lines().next() == numbers(&Chart::default()).lines().next(),
        Some("tex") => is_table(&text()),
        _ => true,
    }
}

/// Whether a text is a table as `latex` writes it and nothing else.
fn is_table(text: &str) -> bool {
    let mut lines = text.lines();
    let mut next_is = |start: &str| lines.next().is_some_and(|line| line.starts_with(start));
    let begins = next_is("% ") && next_is("\\begin{tabular}{l") && next_is("\\hline");
    begins && text.trim_end().ends_with("\\end{tabular}")
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).map_err(|e| {
            format!("cannot create {}: {e}; choose another path with --out", folder.display())
        })?;
    }
    Ok(write_chosen(path, bytes)?)
}
