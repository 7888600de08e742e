//! Numbers and states of a run in words.

use super::board::{Board, Sum};
use weir_measure::result::{LinkSample, SteeringEvent};

/// A rate in bit/s with its unit.
pub fn rate(bps: f64) -> String {
    if bps.abs() < 1e6 { format!("{:.1} kbit/s", bps / 1e3) } else { format!("{:.1} Mbit/s", bps / 1e6) }
}

/// An amount of data with its unit.
pub fn bytes(bytes: u64) -> String {
    let b = bytes as f64;
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{:.1} kB", b / 1e3),
        _ => format!("{:.1} MB", b / 1e6),
    }
}

/// A time in ms without its unit; `-` where there is none.
pub fn ms(value: Option<f64>) -> String {
    value.filter(|v| v.is_finite()).map_or("-".into(), |v| format!("{v:.2}"))
}

/// A share of one in percent; whole ones without digits behind the point.
pub fn percent(share: f64) -> String {
    let percent = (share * 1000.0).round() / 10.0;
    if percent.fract() == 0.0 { format!("{percent:.0} %") } else { format!("{percent:.1} %") }
}

/// A state of Table I.
pub fn state(state: u8, steered: bool) -> &'static str {
    match (state, steered) {
        (1, _) => "1, below the set point: no bottleneck here",
        (2, _) => "2, above the set point: the senders have not responded yet",
        (3, _) => "3, fluctuating around the set point: the AQM is in control",
        (4, _) => "4, far above the set point: the flows do not respond to signals; a short buffer helps",
        (_, true) => "0, not known yet",
        (_, false) => "0, not steered",
    }
}

/// The same behind the numbers of a line: nothing where no law has one.
pub fn state_in_line(state: u8) -> String {
    match state {
        0 => String::new(),
        4 => "  state 4: flows do not respond".into(),
        state => format!("  state {state}"),
    }
}

/// How far a run is.
pub fn progress(t_s: f64, length_s: Option<f64>) -> String {
    match length_s {
        _ if t_s < 0.0 => format!("starts in {:.1} s", -t_s),
        Some(length_s) => format!("{:.1} of {length_s:.1} s", t_s.min(length_s)),
        None => format!("running for {}", clock(t_s)),
    }
}

/// Hours, minutes and seconds.
fn clock(t_s: f64) -> String {
    let s = t_s.max(0.0) as u64;
    format!("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60)
}

/// What was moved, from where to where.
pub fn movement(event: &SteeringEvent) -> String {
    let digits = if event.unit == "ms" { 3 } else { 1 };
    format!("{:.digits$} -> {:.digits$} {}", event.from, event.to, event.unit)
}

/// The rates that a move was decided by.
pub fn rates(event: &SteeringEvent) -> String {
    let measured =
        |name: &str| event.measured.iter().find(|(key, _)| key == name).map(|(_, value)| value / 1e6);
    match (measured("rate_bps"), measured("rate_avg_bps")) {
        (Some(now), Some(average)) => format!("rate {now:.1}, average {average:.1} Mbit/s"),
        (Some(now), None) => format!("rate {now:.1} Mbit/s"),
        _ => String::new(),
    }
}

/// A line for a move.
pub fn event_line(event: &SteeringEvent) -> String {
    let SteeringEvent { t_s, link, rule, .. } = event;
    let line = format!("{t_s:8.2} s  {link}  {rule}: {}  {}", movement(event), rates(event));
    line.trim_end().into()
}

/// A line for one direction and the time since its last line, `span_s`.
pub fn period_line(board: &Board, span_s: f64, period: &Sum, last: &LinkSample) -> String {
    let (t_s, about) = (board.t_s, &board.about);
    let of = board.length_s.map_or(String::new(), |l| format!(" of {l}"));
    let name = if about.name.is_empty() { String::new() } else { format!("{}  ", about.name) };
    let share = share(period.delivered_bps(), period.capacity_bps(about.rate_bps));
    let width = if share.is_empty() { 0 } else { " (100.0 %)".len() };
    let setpoint = if last.setpoint_ms.is_finite() {
        format!("  set point {:6.2} ms", last.setpoint_ms)
    } else {
        String::new()
    };
    let state = match &board.trouble {
        Some(trouble) => format!("  {trouble}"),
        None => state_in_line(last.table_state),
    };
    format!(
        "{t_s:6.1}{of} s  {name}last {span_s:.1} s: {:>13}{share:width$}  delay {:>6}, max {:.2} ms{setpoint}  drops {}, overflows {}, marks {}{state}",
        rate(period.delivered_bps()),
        ms(period.delay_mean_ms()),
        period.delay_max_ms,
        period.drops,
        period.overflows,
        period.marks,
    )
}

/// The line that stays when a live view is gone; none if nothing was measured.
pub fn last_line(board: &Board) -> Option<String> {
    let last = board.last.as_ref()?;
    let Sum { delay_max_ms, drops, overflows, marks, .. } = board.total;
    let (progress, bps) = (progress(last.t_s, board.length_s), board.total.delivered_bps());
    let capacity = board.total.capacity_bps(board.about.rate_bps);
    let (share, delay) = (share(bps, capacity), ms(board.total.delay_mean_ms()));
    let name = if board.about.name.is_empty() { String::new() } else { format!("{}: ", board.about.name) };
    Some(format!(
        "{name}{progress}: {}{share}, delay mean {delay} ms, max {delay_max_ms:.2} ms, drops {drops}, overflows \
         {overflows}, marks {marks}",
        rate(bps),
    ))
}

/// A rate as a share of the link's in parentheses; nothing for a link without a rate.
pub fn share(bps: f64, rate_bps: f64) -> String {
    if rate_bps > 0.0 { format!(" ({:.1} %)", bps / rate_bps * 100.0) } else { String::new() }
}
