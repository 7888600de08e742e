//! The tests of `weir-conformance`, in one program, which links once.

mod canaries;
mod list;
mod test_algorithm;
mod vectors;
