//! Steady states of Weir's queues beside those of Linux, as `tools/kernel-witness` recorded them.
//!
//! `docs/kernel-witness.md` says what is compared and why the bounds are as they are. Its table is written by
//! `WEIR_REGENERATE=1 cargo test -p weir-sim --test kernel_witness`.

#[path = "../common/mod.rs"]
mod common;
mod compare;
mod page;
mod table;

use compare::{Bounds, Pair};
use table::Table;

#[test]
fn queues_settle_as_those_of_the_kernel() {
    let table = Table::read();
    let pairs: Vec<Pair> = table.runs.iter().map(|row| Pair::of(&table, row)).collect();
    if std::env::var_os("WEIR_REGENERATE").is_some() {
        page::write(&table, &pairs);
    }
    let wrong: Vec<String> =
        pairs.iter().flat_map(|pair| pair.faults(&Bounds::of(&table, pair.row))).collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// Without this the table could be lost piece by piece, and the test would still pass.
#[test]
fn every_queue_has_met_datagrams_and_tcp() {
    let table = Table::read();
    for queue in ["pfifo", "codel", "fq_codel", "pie", "cake"] {
        let has = |datagrams| table.runs.iter().any(|r| r.queue == queue && r.gap_ns.is_some() == datagrams);
        assert!(has(true) && has(false), "{queue}: the record is not complete");
    }
}
