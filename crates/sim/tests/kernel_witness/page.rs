//! The table of `docs/kernel-witness.md`.

use crate::compare::Pair;
use crate::table::{Row, Table};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Mutex;

const BEGIN: &str = "<!-- written by the test kernel_witness -->\n";
const END: &str = "<!-- end -->\n";
/// Moments at which cumulative drops are shown.
const MOMENTS: [usize; 6] = [1, 2, 5, 10, 20, 30];

/// Puts the tables of all queues between their marks.
pub fn write(table: &Table, pairs: &[Pair<'_>]) {
    put(BEGIN, &format!("{}\n{}\n{}", steady(table, pairs), ramps(pairs), chances(pairs)));
}

/// Puts a text between a mark of the page and the end after it.
pub fn put(begin: &str, text: &str) {
    // Tests of one program write at the same time.
    static PAGE: Mutex<()> = Mutex::new(());
    let _turn = PAGE.lock();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/kernel-witness.md");
    let page = std::fs::read_to_string(path).expect("the page is there");
    let (head, rest) = page.split_once(begin).expect("the page has the mark");
    let (_, tail) = rest.split_once(END).expect("the page has the mark of the end");
    std::fs::write(path, format!("{head}{begin}\n{text}\n{END}{tail}")).expect("the page can be written");
}

pub fn load(row: &Row, rate_bps: u64) -> String {
    match (&row.congestion, row.gap_ns) {
        (Some(name), _) => {
            let ecn = if row.ecn { ", ECN" } else { "" };
            format!("{} {name}{ecn}", row.flows)
        }
        (None, Some(gap)) => {
            format!("datagrams, {:.1} times the rate", 1514.0 * 8e9 / gap as f64 / rate_bps as f64)
        }
        (None, None) => String::new(),
    }
}

/// Steady states: each cell is the kernel's value, then Weir's.
fn steady(table: &Table, pairs: &[Pair<'_>]) -> String {
    let dates: BTreeSet<&str> = table.runs.iter().map(|row| row.date.as_str()).collect();
    let mut text = format!(
        "Linux {}; recorded on {}. Loads with a star are means of {} runs of the kernel.\n\n\
         | queue | load | utilization, % | mean delay, ms | 95 % delay, ms | drops per s | marks per s |\n\
         | --- | --- | ---: | ---: | ---: | ---: | ---: |\n",
        table.kernel,
        Vec::from_iter(dates).join(" and "),
        table.runs.iter().map(|row| row.utilizations.len()).max().unwrap_or_default(),
    );
    for Pair { row, ours } in pairs {
        let _ = writeln!(
            text,
            "| {} | {}{} | {:.1} / {:.1} | {:.1} / {:.1} | {:.1} / {:.1} | {:.2} / {:.2} | {:.2} / {:.2} |",
            row.queue,
            load(row, table.rate_bps),
            if row.utilizations.is_empty() { "" } else { " *" },
            100.0 * row.utilization,
            100.0 * ours.utilization,
            row.delay_ms.mean,
            ours.delay_mean_ms,
            row.delay_ms.p95,
            ours.delay_p95_ms,
            row.drops_per_s,
            ours.drops_per_s,
            row.marks_per_s,
            ours.marks_per_s,
        );
    }
    text
}

/// Drops of datagrams, added up.
fn ramps(pairs: &[Pair<'_>]) -> String {
    let mut text = String::from("Drops of datagrams since the start, at the second:\n\n| run |");
    for moment in MOMENTS {
        let _ = write!(text, " {moment} |");
    }
    text += "\n| --- |";
    text += &" ---: |".repeat(MOMENTS.len());
    text += "\n";
    for Pair { row, ours } in pairs.iter().filter(|pair| pair.row.gap_ns.is_some()) {
        let _ = write!(text, "| {} |", row.name);
        for moment in MOMENTS {
            let at = |drops: &[f64]| drops.get(moment - 1).copied().unwrap_or_default();
            let _ = write!(text, " {:.0} / {:.0} |", at(&row.drops_until), at(&ours.drops_until));
        }
        text += "\n";
    }
    text
}

/// The drop probability of PIE.
fn chances(pairs: &[Pair<'_>]) -> String {
    let mut text =
        String::from("Mean drop probability of PIE, %:\n\n| run | Linux | Weir |\n| --- | ---: | ---: |\n");
    for Pair { row, ours } in pairs {
        if let (Some(kernel), Some(ours)) = (row.probability, ours.probability) {
            let _ = writeln!(text, "| {} | {:.2} | {:.2} |", row.name, 100.0 * kernel, 100.0 * ours);
        }
    }
    text
}
