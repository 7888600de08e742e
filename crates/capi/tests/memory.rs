//! Memory of the caller, from inside: without the rest of the library, which would be compiled again for it.

#[path = "../src/memory.rs"]
mod memory;
