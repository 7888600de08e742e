//! Compiles the BPF objects.

/// Objects: their names, sources and defined macros. With `TAGS` the program calls a function of the kernel,
/// which takes a kernel that has it and describes its types (BTF).
const OBJECTS: [weir_bpf::Object<'_>; 3] =
    [("port", "port", &[]), ("port_tags", "port", &["-DTAGS"]), ("reflect", "reflect", &[])];

fn main() {
    weir_bpf::compile(&OBJECTS, &[]);
}
