//! Compiles the BPF objects.

fn main() {
    let objects = ["virtual_queue", "admission", "qdisc", "probe"].map(|name| (name, name, &[][..]));
    weir_bpf::compile(&objects, &["gsp.h", "queue.h"]);
}
