//! The program `weir`.
fn main() {}
