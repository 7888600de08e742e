//! Draws the live view: from a state to a picture, nothing else.

use super::board::{Board, Boards, Links, MOVES_MAX, REACH_S, Step, Sum};
use super::{About, words};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Stylize};
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Axis, Chart, Dataset, GraphType, Paragraph, Wrap};
use weir_measure::result::SteeringEvent;

/// Smallest terminal that the view is drawn on.
const SMALLEST: (u16, u16) = (60, 15);
/// Width of the names before lines without a chart.
const NAME_WIDTH: usize = 12;
/// Width of the numbers beside charts, so that both charts have the same scale of time.
const LABEL_WIDTH: usize = 6;
/// Pictures of the wheel that turns while a run has no end.
const WHEEL: [&str; 4] = ["|", "/", "-", "\\"];

/// Part of the terminal's height that several links have at most, a line each: one over this.
const LISTED_PART: u16 = 4;
/// Longest name of one of several links.
const LABEL_MOST: usize = 15;
/// Width of its rate.
const RATE_WIDTH: usize = 20;

/// Rows for a warning: a sentence or two on the smallest terminal.
const WARNING_ROWS: u16 = 4;

const MEASURED: Color = Color::Cyan;
const LARGEST: Color = Color::DarkGray;
const AIM: Color = Color::Green;
const BOUND: Color = Color::Yellow;

/// Whether the view fits a terminal.
pub fn fits(columns: u16, rows: u16) -> bool {
    columns >= SMALLEST.0 && rows >= SMALLEST.1
}

/// What the terminal can show.
#[derive(Clone, Copy, Debug)]
pub struct TerminalStyle {
    /// What charts are made of.
    pub marker: Marker,
}

impl TerminalStyle {
    /// The fonts of the console have no Braille.
    pub fn of_terminal() -> TerminalStyle {
        let console = std::env::var("TERM").is_ok_and(|term| term == "linux" || term.starts_with("vt"));
        TerminalStyle { marker: if console { Marker::HalfBlock } else { Marker::Braille } }
    }
}

/// Draws the state of a run. `ending` says that Ctrl-C was pressed.
pub fn draw(frame: &mut Frame, links: &Links, look: &TerminalStyle, ending: bool) {
    let boards = links.boards();
    let (area, board) = (frame.area(), boards.board());
    if !fits(area.width, area.height) {
        return draw_small(frame, links, ending);
    }
    let listed = listed(links, area.height);
    let other_rows = boards.others().count() as u16;
    let virtual_rows = u16::from(is_virtual(board));
    let moves_rows = moves_rows(board, area.height);
    let warning_rows = if board.warning.is_some() { WARNING_ROWS } else { 0 };
    let sensing_rows = u16::from(board.sensing.is_some());
    let rows: [Rect; 12] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(listed.len() as u16),
        Constraint::Fill(1),
        Constraint::Fill(1),
        Constraint::Length(2),
        Constraint::Length(other_rows),
        Constraint::Length(virtual_rows),
        Constraint::Length(sensing_rows),
        Constraint::Length(moves_rows),
        Constraint::Length(warning_rows),
        Constraint::Length(1),
    ])
    .areas(area);
    frame.render_widget(title(board, area.width), rows[0]);
    frame.render_widget(progress(board, area.width), rows[1]);
    frame.render_widget(Paragraph::new(listed), rows[2]);
    draw_throughput(frame, board, look, rows[3]);
    draw_delay(frame, board, look, rows[4]);
    frame.render_widget(Paragraph::new(vec![discards(board), state(board)]), rows[5]);
    frame.render_widget(Paragraph::new(boards.others().map(other).collect::<Vec<_>>()), rows[6]);
    frame.render_widget(virtual_queue(board), rows[7]);
    frame.render_widget(sensing(board), rows[8]);
    draw_moves(frame, board, rows[9]);
    frame.render_widget(warning(board), rows[10]);
    frame.render_widget(hint(links, ending), rows[11]);
}

/// A terminal that was made small meanwhile: the numbers, as far as they fit.
fn draw_small(frame: &mut Frame, links: &Links, ending: bool) {
    let (boards, board) = (links.boards(), links.boards().board());
    let numbers = [throughput(board), delay(board), discards(board), state(board)];
    let lines: Vec<Line> = std::iter::once(Line::from(words::progress(board.t_s, board.length_s)))
        .chain(numbers)
        .chain(boards.others().map(other))
        .chain([hint(links, ending)])
        .collect();
    frame.render_widget(Paragraph::new(lines), frame.area());
}

/// The links in a line each, where there are several: as many as a terminal of this height has room for, with
/// the one that is shown among them.
fn listed(links: &Links, height: u16) -> Vec<Line<'static>> {
    let count = links.all.len();
    if count == 1 {
        return Vec::new();
    }
    let room = usize::from(height / LISTED_PART).min(count);
    let first = links.chosen.saturating_sub(room / 2).min(count - room);
    let shown = links.all.iter().enumerate().skip(first).take(room);
    shown.map(|(number, boards)| in_line(boards, number == links.chosen)).collect()
}

/// A link in a line.
fn in_line(boards: &Boards, is_chosen: bool) -> Line<'static> {
    let (board, now) = (boards.board(), boards.board().now());
    let (bps, mark) = (now.delivered_bps(), if is_chosen { ">" } else { " " });
    let label: String = boards.label.chars().take(LABEL_MOST).collect();
    let rate = format!("{}{}", words::rate(bps), words::share(bps, now.capacity_bps(board.about.rate_bps)));
    let setpoint = setpoint_ms(board).map_or(String::new(), |ms| format!("  set point {ms:.2} ms"));
    let state = match (&board.trouble, board.last) {
        _ if boards.has_ended => "  ended".fg(BOUND),
        (Some(trouble), _) => format!("  {trouble}").fg(BOUND),
        (None, row) => words::state_in_line(row.map_or(0, |row| row.table_state)).into(),
    };
    let label = format!("{mark} {label:LABEL_MOST$} ");
    Line::from(vec![
        if is_chosen { label.bold() } else { label.into() },
        format!("{rate:>RATE_WIDTH$}").fg(MEASURED),
        format!("  {:>6} ms", words::ms(now.delay_mean_ms())).into(),
        setpoint.fg(AIM),
        state,
    ])
}

/// Rows for the moves and the line above them: more of a high terminal.
fn moves_rows(board: &Board, height: u16) -> u16 {
    match height {
        _ if !board.is_steered() => 0,
        0..=19 => 3,
        20..=29 => 5,
        _ => 1 + MOVES_MAX as u16,
    }
}

fn title(board: &Board, width: u16) -> Line<'_> {
    let About { title, name, aqm, .. } = &board.about;
    let aqm = if name.is_empty() { aqm.clone() } else { format!("{name}: {aqm}") };
    let room = usize::from(width).saturating_sub(aqm.chars().count() + 2);
    let shown: String = title.chars().take(room).collect();
    Line::from(vec![format!("{shown:room$}  ").bold(), aqm.fg(MEASURED)])
}

fn progress(board: &Board, width: u16) -> Line<'static> {
    let text = words::progress(board.t_s, board.length_s);
    let Some(length_s) = board.length_s.filter(|l| *l > 0.0) else {
        let turn = (board.t_s.max(0.0) * 5.0) as usize % WHEEL.len();
        return Line::from(format!("{} {text}", WHEEL[turn]));
    };
    let room = usize::from(width).saturating_sub(text.chars().count() + 1);
    let done = ((board.t_s / length_s).clamp(0.0, 1.0) * room as f64).round() as usize;
    Line::from(vec![
        "█".repeat(done).fg(MEASURED),
        "░".repeat(room - done).fg(Color::DarkGray),
        format!(" {text}").into(),
    ])
}

/// The latest warning.
fn warning(board: &Board) -> Paragraph<'_> {
    let text = board.warning.as_deref().unwrap_or_default();
    Paragraph::new(Line::from(vec![name("Warning"), text.fg(BOUND)])).wrap(Wrap { trim: true })
}

/// How sensing stands.
fn sensing(board: &Board) -> Line<'_> {
    Line::from(vec![name("Sensing"), board.sensing.as_deref().unwrap_or_default().into()])
}

/// A name in bold before a line.
fn name(text: &str) -> Span<'static> {
    format!("{text:NAME_WIDTH$}").bold()
}

fn throughput(board: &Board) -> Line<'static> {
    let now = board.now();
    let (bps, rate_bps) = (now.delivered_bps(), now.capacity_bps(board.about.rate_bps));
    let mut spans = vec![name("Throughput"), words::rate(bps).fg(MEASURED)];
    if rate_bps > 0.0 {
        let share = bps / rate_bps * 100.0;
        spans.push(format!(" of {} ({share:.1} %)", words::rate(rate_bps)).into());
    }
    if let Some((low, target)) = board.about.utilization {
        spans.push("  policy ".into());
        spans.push(words::percent(low).fg(BOUND));
        spans.push(if target < 1.0 { " to ".into() } else { " or more".into() });
        if target < 1.0 {
            spans.push(words::percent(target).fg(AIM));
        }
    }
    Line::from(spans)
}

fn delay(board: &Board) -> Line<'static> {
    let now = board.now();
    let mut spans = vec![
        name("Delay"),
        format!("mean {} ms", words::ms(now.delay_mean_ms())).fg(MEASURED),
        format!("  max {:.2} ms", now.delay_max_ms).fg(LARGEST),
    ];
    if let Some(setpoint_ms) = setpoint_ms(board) {
        spans.push(format!("  set point {setpoint_ms:.2} ms").fg(AIM));
    }
    if let Some(max_ms) = board.about.target_max_ms {
        spans.push(format!("  at most {max_ms:.1} ms").fg(BOUND));
    }
    Line::from(spans)
}

fn setpoint_ms(board: &Board) -> Option<f64> {
    board.last.map(|row| row.setpoint_ms).filter(|ms| ms.is_finite())
}

fn discards(board: &Board) -> Line<'static> {
    let (now, total, seconds) = (board.now(), &board.total, board.now_s());
    let entry = |what: &str, now: u64, total: u64| {
        let text = format!("{what} {:.0}/s ({total})   ", now as f64 / seconds);
        if now > 0 { text.fg(BOUND) } else { Span::from(text) }
    };
    Line::from(vec![
        name("Discards"),
        entry("drops", now.drops, total.drops),
        entry("overflows", now.overflows, total.overflows),
        entry("marks", now.marks, total.marks),
        "(total)".into(),
    ])
}

/// A direction that is not shown in full, in a line.
fn other(board: &Board) -> Line<'static> {
    let (now, total, seconds) = (board.now(), &board.total, board.now_s());
    let bps = now.delivered_bps();
    let share = words::share(bps, now.capacity_bps(board.about.rate_bps));
    let discarded = |sum: &Sum| sum.drops + sum.overflows;
    Line::from(vec![
        name(&board.about.name),
        format!("{}{share}", words::rate(bps)).fg(MEASURED),
        format!("  delay {}, max {:.2} ms", words::ms(now.delay_mean_ms()), now.delay_max_ms).into(),
        format!("  discards {:.0}/s ({})", discarded(&now) as f64 / seconds, discarded(total)).into(),
    ])
}

fn state(board: &Board) -> Line<'static> {
    if let Some(trouble) = &board.trouble {
        return Line::from(vec![name("State"), format!("{trouble}: nothing passes").fg(BOUND)]);
    }
    let state = board.last.map_or(0, |row| row.table_state);
    Line::from(vec![name("State"), words::state(state, board.is_steered()).into()])
}

fn is_virtual(board: &Board) -> bool {
    board.last.is_some_and(|row| row.virtual_rate_bps > 0.0)
}

fn virtual_queue(board: &Board) -> Line<'static> {
    let row = board.last.unwrap_or_default();
    let (backlog, rate) = (words::bytes(row.virtual_backlog_bytes), words::rate(row.virtual_rate_bps));
    Line::from(vec![name("Virtual"), format!("backlog {backlog}, served at {rate}").into()])
}

fn draw_moves(frame: &mut Frame, board: &Board, area: Rect) {
    let mut lines = vec![Line::from("Last moves of the set point".bold())];
    if board.moves.is_empty() {
        lines.push(Line::from("  none yet".fg(Color::DarkGray)));
    }
    lines.extend(board.moves.iter().map(movement));
    frame.render_widget(Paragraph::new(lines), area);
}

fn movement(event: &SteeringEvent) -> Line<'static> {
    Line::from(vec![
        format!(" {:7.1} s  ", event.t_s).into(),
        format!("{:12}", event.rule).fg(AIM),
        format!("{:24}", words::movement(event)).into(),
        words::rates(event).fg(Color::DarkGray),
    ])
}

fn hint(links: &Links, ending: bool) -> Line<'static> {
    if ending {
        return Line::from(
            "Ending and putting everything back; Ctrl-C after 2 s more ends at once".fg(BOUND),
        );
    }
    let mut keys = String::from(if links.takes_keys { "Ctrl-C or q ends" } else { "Ctrl-C ends" });
    let count = links.all.len();
    if links.takes_keys && count > 1 {
        keys += &format!("   Up, Down: another link ({} of {count})", links.chosen + 1);
    }
    if links.takes_keys && links.boards().sides.len() > 1 {
        keys += if count > 1 { "   Tab: other direction" } else { "   Tab shows the other direction" };
    }
    Line::from(keys.fg(Color::DarkGray))
}

type Points = Vec<(f64, f64)>;

/// Points of a chart: seconds before now, and a value.
fn points(board: &Board, value: impl Fn(&Step) -> Option<f64>) -> Points {
    let now_s = board.last.map_or(0.0, |row| row.t_s);
    let point = |step: &Step| value(step).filter(|v| v.is_finite()).map(|v| (step.t_s - now_s, v));
    board.steps.iter().filter_map(point).collect()
}

/// A level over the whole chart.
fn level(board: &Board, value: f64) -> Points {
    vec![(-reach_s(board), value), (0.0, value)]
}

/// How far back the charts of a run reach: a short one fills them.
fn reach_s(board: &Board) -> f64 {
    board.length_s.unwrap_or(REACH_S).clamp(1.0, REACH_S)
}

fn draw_throughput(frame: &mut Frame, board: &Board, look: &TerminalStyle, area: Rect) {
    let delivered = points(board, |step| Some(step.sum.delivered_bps() / 1e6));
    let rate = board.about.rate_bps / 1e6;
    let mut series = Vec::new();
    if let Some((low, target)) = board.about.utilization.filter(|_| rate > 0.0) {
        series.push((BOUND, level(board, low * rate)));
        if target < 1.0 {
            series.push((AIM, level(board, target * rate)));
        }
    }
    let top = highest(&delivered).max(rate);
    series.push((MEASURED, delivered));
    let lowest = series.iter().flat_map(|s| &s.1).map(|p| p.1).fold(top, f64::min);
    let panel = Panel {
        header: throughput(board),
        unit: "Mbit/s",
        bounds: zoomed(lowest, round_up(top)),
        reach_s: reach_s(board),
    };
    panel.draw(frame, &series, look, area);
}

fn draw_delay(frame: &mut Frame, board: &Board, look: &TerminalStyle, area: Rect) {
    let largest = points(board, |step| Some(step.sum.delay_max_ms));
    let mean = points(board, |step| step.sum.delay_mean_ms());
    let setpoint = points(board, |step| Some(step.setpoint_ms));
    let bound = board.about.target_max_ms;
    let top = [highest(&largest), highest(&setpoint), bound.unwrap_or(0.0)].into_iter().fold(0.0, f64::max);
    // Where points share a cell, the last series gives the colour.
    let mut series = vec![(LARGEST, largest)];
    series.extend(bound.map(|ms| (BOUND, level(board, ms))));
    series.push((AIM, setpoint));
    series.push((MEASURED, mean));
    let panel =
        Panel { header: delay(board), unit: "ms", bounds: [0.0, round_up(top)], reach_s: reach_s(board) };
    panel.draw(frame, &series, look, area);
}

fn highest(points: &Points) -> f64 {
    points.iter().map(|p| p.1).fold(0.0, f64::max)
}

/// A line of numbers and, where there is room, a chart below it.
struct Panel<'a> {
    header: Line<'a>,
    unit: &'a str,
    bounds: [f64; 2],
    reach_s: f64,
}

impl Panel<'_> {
    fn draw(self, frame: &mut Frame, series: &[(Color, Points)], look: &TerminalStyle, area: Rect) {
        let [head, body] = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(area);
        frame.render_widget(self.header, head);
        if body.height < 2 {
            return;
        }
        let dataset = |(color, points)| {
            Dataset::default().marker(look.marker).graph_type(GraphType::Line).style(color).data(points)
        };
        let datasets = series.iter().map(|(color, points)| dataset((*color, points)));
        let unit = if body.height < 5 { "" } else { self.unit };
        let labels = [label(self.bounds[0]), format!("{unit:>LABEL_WIDTH$}"), label(self.bounds[1])];
        let y_axis = Axis::default().style(Color::DarkGray).bounds(self.bounds).labels(labels);
        let chart = Chart::new(datasets.collect())
            .legend_position(None)
            .x_axis(Axis::default().bounds([-self.reach_s, 0.0]))
            .y_axis(y_axis);
        frame.render_widget(chart, body);
    }
}

/// Bounds that show what happens near the top, if nothing happens below.
fn zoomed(lowest: f64, top: f64) -> [f64; 2] {
    const FLOORS: [f64; 3] = [0.9, 0.8, 0.5];
    let floor = FLOORS.into_iter().find(|floor| lowest > floor * top).unwrap_or(0.0);
    [floor * top, top]
}

/// A number beside a chart.
fn label(value: f64) -> String {
    // Products such as 0.9 * 1.2 are not round.
    let round = (value * 1e4).round() / 1e4;
    let number = if round >= 100_000.0 { format!("{:.0}k", round / 1e3) } else { format!("{round}") };
    format!("{number:>LABEL_WIDTH$}")
}

/// The next round number, so that the scale stands still while values move.
fn round_up(value: f64) -> f64 {
    const ROUND: [f64; 8] = [1.0, 1.2, 1.5, 2.0, 3.0, 5.0, 7.5, 10.0];
    if value <= 0.0 || !value.is_finite() {
        return 1.0;
    }
    let power = 10f64.powf(value.log10().floor());
    let factor = ROUND.into_iter().find(|factor| factor * power >= value * 0.999_999).unwrap_or(10.0);
    factor * power
}
