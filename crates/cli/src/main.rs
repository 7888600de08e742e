//! The program `weir`; all of it is in the library, so that a crate of one's own can be the same program with
//! an algorithm more (`examples/outside`).

use std::process::ExitCode;

fn main() -> ExitCode {
    weir_cli::main()
}
