//! The program `weir` with the algorithm of `ramp.rs`, which `.cargo/config.toml` registers.

use std::process::ExitCode;

fn main() -> ExitCode {
    weir_cli::main()
}
