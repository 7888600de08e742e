//! Steady states of Weir's queues beside those of Linux, as `tools/kernel-witness` recorded them.
//!
//! `docs/kernel-witness.md` says what is compared and why the bounds are as they are. Its table is written by
//! `WEIR_REGENERATE=1 cargo test -p weir-sim --test kernel_witness`.

#[path = "../common/mod.rs"]
mod common;
mod compare;
mod laws;
mod page;
mod table;

use compare::{Bounds, Pair};
use table::{Law, Table};

#[test]
fn queues_settle_as_those_of_the_kernel() {
    let table = Table::read();
    let pairs: Vec<Pair> = table.runs.iter().map(|row| Pair::of(&table, row, Law::Exact)).collect();
    if std::env::var_os("WEIR_REGENERATE").is_some() {
        page::write(&table, &pairs);
    }
    let wrong: Vec<String> =
        pairs.iter().flat_map(|pair| pair.faults(&Bounds::of(&table, pair.row))).collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// With the kernel's inverse square root CoDel drops datagrams when the kernel's does.
#[test]
fn codel_with_the_newton_step_is_that_of_the_kernel() {
    let table = Table::read();
    let rows = || table.runs.iter().filter(|row| row.has_codel());
    let [exact, newton] = [Law::Exact, Law::Newton]
        .map(|law| rows().map(|row| Pair::of(&table, row, law)).collect::<Vec<Pair>>());
    if std::env::var_os("WEIR_REGENERATE").is_some() {
        laws::write(&table, &exact, &newton);
    }
    let mut wrong: Vec<String> =
        newton.iter().flat_map(|pair| pair.faults(&Bounds::of(&table, pair.row))).collect();
    for Pair { row, ours } in &newton {
        // Until the first queue is gone: one drop more or less moves the next queue.
        let mut first = row.drops_until.iter().zip(&ours.drops_until).take(5);
        if first.any(|(kernel, ours)| (kernel - ours).abs() > 1.0) {
            wrong.push(format!(
                "{}: drops {:?}, in the kernel {:?}",
                row.name, ours.drops_until, row.drops_until
            ));
        }
    }
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
