//! The table of both laws of CoDel in `docs/kernel-witness.md`.

use crate::compare::Pair;
use crate::page::{load, put};
use crate::table::Table;
use std::fmt::Write;

const BEGIN: &str = "<!-- laws: written by the test kernel_witness -->\n";

/// Puts the table between its marks.
pub fn write(table: &Table, exact: &[Pair<'_>], newton: &[Pair<'_>]) {
    let mut text = String::from(
        "| queue | load | mean delay, ms | 95 % delay, ms | signals per s | drops until 1, 2, 5 s | 95 % delay, ratio |\n\
         | --- | --- | ---: | ---: | ---: | ---: | ---: |\n",
    );
    for (Pair { row, ours: exact }, Pair { ours: newton, .. }) in exact.iter().zip(newton) {
        let until = |drops: &[f64]| [1, 2, 5].map(|second| format!("{:.0}", drops[second - 1])).join(", ");
        let ramp = row.gap_ns.map(|_| {
            [&row.drops_until, &exact.drops_until, &newton.drops_until].map(|drops| until(drops)).join(" / ")
        });
        let _ = writeln!(
            text,
            "| {} | {} | {:.1} / {:.1} / {:.1} | {:.1} / {:.1} / {:.1} | {:.2} / {:.2} / {:.2} | {} | {:.2} |",
            row.queue,
            load(row, table.rate_bps),
            row.delay_ms.mean,
            exact.delay_mean_ms,
            newton.delay_mean_ms,
            row.delay_ms.p95,
            exact.delay_p95_ms,
            newton.delay_p95_ms,
            row.drops_per_s + row.marks_per_s,
            exact.drops_per_s + exact.marks_per_s,
            newton.drops_per_s + newton.marks_per_s,
            ramp.unwrap_or_default(),
            newton.delay_p95_ms / exact.delay_p95_ms,
        );
    }
    put(BEGIN, &text);
}
