//! Compiles the BPF objects.

fn main() {
    weir_bpf::compile(&[("virtual_queue", "virtual_queue", &[]), ("probe", "probe", &[])], &[]);
}
