//! What a study asks for, for people.

use weir_measure::applications::Datagrams;
use weir_measure::result::{Spread, Summary};
use weir_measure::study::Study;
use weir_report::table::aligned;

/// Completion times, delays of groups, fairness and times to settle of each run; nothing where there is
/// nothing.
pub fn show<'a>(runs: impl Iterator<Item = (&'a Summary, &'a Study)> + Clone) -> String {
    let several = runs.clone().count() > 1;
    let mut text = String::new();
    let mut add = |title: &str, header: &[&str], rows: Vec<Vec<String>>| {
        if !rows.is_empty() {
            let header: Vec<&str> = header.iter().skip(usize::from(!several)).copied().collect();
            text.push_str(&format!("\n{title}\n{}", aligned(&header, &rows)));
        }
    };
    let begin = |summary: &Summary| if several { vec![summary.title.clone()] } else { Vec::new() };
    let numbers = |s: &Spread| [s.mean, s.p50, s.p95, s.p99].map(|v| format!("{v:.2}"));
    let mut rows = Vec::new();
    for (summary, study) in runs.clone() {
        for c in &study.completions {
            let mut row = begin(summary);
            let of = match (&c.size, c.group) {
                (Some(size), _) => size.clone(),
                (None, Some(group)) => format!("flows.{group}"),
                (None, None) => "all".into(),
            };
            row.extend([c.kind.name().into(), of, c.completed.to_string()]);
            row.push(c.unfinished.map_or(String::new(), |n| n.to_string()));
            let of_any =
                |spread: &Option<Spread>| spread.as_ref().map_or([(); 4].map(|()| "–".into()), numbers);
            row.extend(of_any(&c.time_ms));
            let [mean, _, _, p99] = of_any(&c.slowdown);
            row.extend([mean, p99]);
            rows.push(row);
        }
    }
    let header = [
        "run",
        "what",
        "of",
        "completed",
        "open",
        "mean ms",
        "p50 ms",
        "p95 ms",
        "p99 ms",
        "slowdown",
        "p99",
    ];
    add("Completion times of what began after the warm-up; slow-down against an empty path", &header, rows);
    let per_cent = |share: f64| format!("{:.2} %", share * 100.0);
    let datagrams = |d: &Datagrams| {
        let mut row = vec![format!("flows.{}", d.group), d.streams.to_string()];
        row.extend([d.lost, d.late].map(per_cent));
        row.extend([d.delay_ms.p50, d.delay_ms.p99, d.jitter_ms.mean].map(|ms| format!("{ms:.2}")));
        row
    };
    let (mut calls, mut games, mut videos, mut realtimes) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (summary, study) in runs.clone() {
        for c in &study.calls {
            let mut row = begin(summary);
            row.extend(datagrams(&c.datagrams));
            row.push(format!("{:.0}", c.mouth_to_ear_ms));
            row.extend([c.mos, c.mos_least].map(|mos| format!("{mos:.2}")));
            calls.push(row);
        }
        for g in &study.games {
            let mut row = begin(summary);
            row.extend(datagrams(g));
            games.push(row);
        }
        for r in &study.realtimes {
            let mut row = begin(summary);
            row.extend(datagrams(&r.frames));
            row.extend([r.rate_bps, r.rate_least_bps].map(|bps| format!("{:.2}", bps / 1e6)));
            row.extend([format!("{:.1}", r.freezes_per_minute), per_cent(r.frozen)]);
            realtimes.push(row);
        }
        for v in &study.videos {
            let mut row = begin(summary);
            row.extend([format!("flows.{}", v.group), v.players.to_string()]);
            row.extend([v.rate_bps, v.rate_least_bps].map(|bps| format!("{:.2}", bps / 1e6)));
            row.push(format!("{:.1}", v.switches_per_minute));
            row.extend([v.stalls.to_string(), per_cent(v.stalled)]);
            row.extend([format!("{:.0}", v.startup_ms.mean), format!("{:.1}", v.buffer_s)]);
            videos.push(row);
        }
    }
    let packets = ["run", "of", "streams", "lost", "too late", "delay p50 ms", "p99 ms", "jitter ms"];
    let header = [&packets[..], &["mouth to ear ms", "MOS", "least"][..]].concat();
    add("Calls, by the E-model (ITU-T G.107)", &header, calls);
    add("Games", &packets, games);
    let header = [&packets[..], &["rate Mbit/s", "least", "freezes/min", "frozen"][..]].concat();
    add("Real-time video, by frames", &header, realtimes);
    let header = [
        "run",
        "of",
        "players",
        "rate Mbit/s",
        "least",
        "switches/min",
        "stalls",
        "stalled",
        "start-up ms",
        "buffer s",
    ];
    add("Video that adapts its rate", &header, videos);
    let mut rows = Vec::new();
    for (summary, study) in runs.clone() {
        for g in &study.groups {
            let mut row = begin(summary);
            row.extend([g.link.clone(), format!("flows.{}", g.group), g.packets.to_string()]);
            row.extend(numbers(&g.delay_ms));
            rows.push(row);
        }
    }
    let header = ["run", "link", "flows", "packets", "mean ms", "p50 ms", "p95 ms", "p99 ms"];
    add("Queueing delay of each group of flows", &header, rows);
    let mut rows = Vec::new();
    for (summary, study) in runs {
        for f in &study.fairness {
            let mut row = begin(summary);
            row.extend([f.link.clone(), format!("{} s", f.scale_s), f.windows.to_string()]);
            row.extend([f.mean, f.p5, f.min].map(|v| format!("{v:.3}")));
            rows.push(row);
        }
    }
    add("Fairness (Jain) over time scales", &["run", "link", "over", "windows", "mean", "p5", "least"], rows);
    text
}
