//! Sessions of a user-plane function as rows: drawn in place on a terminal, as lines elsewhere, as JSON at
//! the end.

use crate::log::Entry;
use crate::output::Output;
use crate::speaker::Speaker;
use serde_json::{Value, json};
use std::net::IpAddr;
use std::time::Duration;
use weir_upf::control::Counts;
use weir_upf::rules::{FlowUsage, Seid, Session, Usage};

/// Most rows on a terminal.
const ROWS_MAX: usize = 20;

/// A session.
pub struct SessionRow {
    /// Its number.
    pub seid: Seid,
    peer: IpAddr,
    user: Vec<String>,
    rules: [usize; 3],
    /// What it has done.
    pub usage: Usage,
    /// Its queues.
    pub flows: Vec<FlowUsage>,
}

impl SessionRow {
    /// A session of a peer, without what it has done.
    pub fn new(rules: &Session, peer: IpAddr) -> SessionRow {
        let mut user = Vec::new();
        for ue in rules.pdrs.iter().filter_map(|pdr| pdr.ue) {
            let v6 = ue.v6.map(|prefix| format!("{}/{}", prefix.address, prefix.length));
            user.extend(ue.v4.map(|address| address.to_string()).into_iter().chain(v6));
        }
        user.sort_unstable();
        user.dedup();
        let rules_of = [rules.pdrs.len(), rules.fars.len(), rules.qers.len()];
        SessionRow {
            seid: rules.seid,
            peer,
            user,
            rules: rules_of,
            usage: Usage::default(),
            flows: Vec::new(),
        }
    }

    /// As JSON.
    pub fn json(&self) -> Value {
        let both = |v: weir_upf::rules::PerDirection<u64>| json!({ "up": v.up, "down": v.down });
        json!({
            "seid": format!("{:#x}", self.seid),
            "peer": self.peer,
            "user": self.user,
            "pdrs": self.rules[0],
            "fars": self.rules[1],
            "qers": self.rules[2],
            "packets": both(self.usage.packets),
            "bytes": both(self.usage.bytes),
            "dropped": both(self.usage.dropped),
            "flows": self.flows.iter().map(flow_json).collect::<Vec<_>>(),
        })
    }

    /// Its queues with their names, such as `10.45.0.7 flow 5 down`.
    pub fn queues(&self) -> impl Iterator<Item = (String, &FlowUsage)> {
        let user = self.user.first().cloned().unwrap_or_else(|| format!("session {:#x}", self.seid));
        self.flows.iter().map(move |flow| {
            let which = match (flow.qfi, flow.bearer) {
                (Some(qfi), _) => format!("flow {qfi}"),
                (None, Some(teid)) => format!("bearer {teid:#x}"),
                (None, None) => "aggregate".to_string(),
            };
            let local = if flow.is_local { "local " } else { "" };
            let way = if flow.is_uplink { "up" } else { "down" };
            (format!("{user} {which} {local}{way}"), flow)
        })
    }

    fn cells(&self) -> Vec<String> {
        let user = if self.user.is_empty() { "-".into() } else { self.user.join(" ") };
        let algorithms = self.flows.iter().map(|flow| flow.aqm.as_str());
        let mut algorithms: Vec<&str> = algorithms.collect();
        algorithms.dedup();
        let delay = self.flows.iter().filter_map(|flow| flow.sojourn_p95).max();
        vec![
            format!("{:#x}", self.seid),
            user,
            self.peer.to_string(),
            self.rules.map(|count| count.to_string()).join("/"),
            self.usage.packets.up.to_string(),
            self.usage.packets.down.to_string(),
            (self.usage.dropped.up + self.usage.dropped.down).to_string(),
            delay.map_or("-".into(), |delay| format!("{:.1} ms", delay.as_millis_f64())),
            algorithms.join(" "),
        ]
    }
}

fn flow_json(flow: &FlowUsage) -> Value {
    json!({
        "qfi": flow.qfi,
        "bearer": flow.bearer.map(|teid| format!("{teid:#x}")),
        "direction": if flow.is_uplink { "up" } else { "down" },
        "local": flow.is_local,
        "aqm": flow.aqm,
        "packets": flow.packets,
        "bytes": flow.bytes,
        "dropped": flow.dropped,
        "marked": flow.marked,
        "delay_p95_ms": flow.sojourn_p95.map(|delay| delay.as_millis_f64()),
        "backlog_bytes": flow.backlog.0,
        "backlog_packets": flow.backlog.1,
        "setpoint_ms": flow.setpoint.map(|setpoint| setpoint.as_millis_f64()),
    })
}

/// What was received, done and refused, as JSON.
pub fn counts_json(counts: &Counts, unsent: u64) -> Value {
    json!({
        "received": counts.received,
        "accepted": counts.accepted,
        "refused": counts.refused,
        "ignored": counts.ignored,
        "repeated": counts.repeated,
        "reused": counts.reused,
        "strangers": counts.strangers,
        "over_rate": counts.over_rate,
        "malformed": counts.malformed,
        "unexpected": counts.unexpected,
        "established": counts.established,
        "modified": counts.modified,
        "removed": counts.removed,
        "reports": counts.reports,
        "reports_lost": counts.reports_lost,
        "reports_hushed": counts.reports_hushed,
        "stale": counts.stale,
        "unsent": unsent,
    })
}

const HEADS: [&str; 9] =
    ["session", "user equipment", "peer", "rules", "up", "down", "dropped", "95 % delay", "algorithms"];

/// Where sessions are shown while they last.
pub struct Board {
    output: Output,
    /// Where nobody may be reading: off a terminal.
    speaker: Option<Speaker>,
    /// Lines of the picture that is on the terminal.
    drawn: usize,
}

impl Board {
    /// Nothing is shown yet.
    pub fn new(output: &Output) -> Board {
        let speaker = (!output.live()).then(|| Speaker::new(*output));
        Board { output: *output, speaker, drawn: 0 }
    }

    /// How many sessions are shown.
    pub fn rows_max(&self) -> usize {
        if self.output.live() { ROWS_MAX } else { 0 }
    }

    /// Says something above the picture.
    pub fn say(&mut self, entry: Entry) {
        if let Some(speaker) = &mut self.speaker {
            return speaker.say(entry);
        }
        self.erase();
        self.output.tell(&entry);
    }

    /// Nothing more is shown: what was said is printed before what follows.
    pub fn close(&mut self) {
        self.speaker = None;
    }

    /// Shows sessions: in the place of the picture before on a terminal, as a line elsewhere.
    pub fn show(&mut self, elapsed: Duration, head: &str, rows: &[SessionRow], total: usize) {
        let head = format!("{:.0} s: {head}", elapsed.as_secs_f64());
        if !self.output.live() {
            return self.say(Entry::debug("state", head));
        }
        self.erase();
        let mut lines = vec![head];
        lines.extend(Board::table(rows, Some(total)));
        let width = width();
        let cut = |line: &String| line.chars().take(width).collect::<String>();
        self.output.print(lines.iter().map(cut).collect::<Vec<_>>().join("\n"));
        self.drawn = lines.len();
    }

    /// Takes the picture off the terminal: up to its first line, and all below is cleared.
    fn erase(&mut self) {
        if self.drawn > 0 {
            let up = std::mem::take(&mut self.drawn);
            self.output.print(format!("\x1b[{up}A\x1b[J\x1b[A"));
        }
    }

    /// Sessions as lines; `total` is how many there are, where not all are shown.
    pub fn table(rows: &[SessionRow], total: Option<usize>) -> Vec<String> {
        let cells: Vec<Vec<String>> = rows.iter().map(SessionRow::cells).collect();
        if cells.is_empty() {
            return Vec::new();
        }
        let widest = |at: usize| cells.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..HEADS.len()).map(|at| widest(at).max(HEADS[at].len())).collect();
        let line = |row: &mut dyn Iterator<Item = &str>| {
            let padded = row.zip(&widths).map(|(cell, &width)| format!("{cell:<width$}"));
            padded.collect::<Vec<_>>().join("  ").trim_end().to_string()
        };
        let mut lines = vec![line(&mut HEADS.iter().copied())];
        lines.extend(cells.iter().map(|row| line(&mut row.iter().map(String::as_str))));
        if let Some(more) = total.and_then(|total| total.checked_sub(rows.len())).filter(|more| *more > 0) {
            lines.push(format!("and {more} more"));
        }
        lines
    }
}

/// Characters in a line of the terminal; a line that breaks would spoil the picture.
fn width() -> usize {
    rustix::termios::tcgetwinsize(std::io::stdout()).map_or(80, |size| usize::from(size.ws_col).max(20))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn sessions_stand_below_their_heads() {
        let session = Arc::new(Session { seid: 7, ..Session::default() });
        let mut row = SessionRow::new(&session, "192.0.2.2".parse().unwrap());
        row.usage.packets.down = 12;
        let lines = Board::table(&[row], Some(3));
        assert_eq!(lines.len(), 3);
        assert_eq!(lines[0].find("peer"), lines[1].find("192.0.2.2"));
        assert_eq!(lines[0].find("down"), lines[1].find("12 "));
        assert_eq!(lines[2], "and 2 more");
        assert!(Board::table(&[], Some(0)).is_empty());
    }
}
