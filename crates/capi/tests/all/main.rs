//! The tests of `weir-capi`, in one program, which links once. Programs in C are compiled against the header
//! and the shared library, and run under AddressSanitizer and under valgrind.

mod described;
mod dpdk;
mod golden;
mod header;
mod overhead;
mod programs;
mod toolchain;
