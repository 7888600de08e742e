//! `weir completions`: what a shell needs to complete the arguments, made from their declarations.

use crate::output::{Done, Output};
use std::process::ExitCode;

/// Print a script with which a shell completes verbs, options and values.
///
/// The Debian package installs those of bash, zsh and fish.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The shell.
    #[arg(value_enum)]
    shell: clap_complete::Shell,
}

const EXAMPLES: &str = "Examples:
  weir completions bash > ~/.local/share/bash-completion/completions/weir
  weir completions zsh > ~/.zfunc/_weir    with `fpath+=~/.zfunc` before compinit
  weir completions fish > ~/.config/fish/completions/weir.fish";

/// Runs the verb on a description of all arguments.
pub fn main(arguments: Arguments, mut program: clap::Command, output: &Output) -> Done {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut program, "weir", &mut script);
    let script = String::from_utf8_lossy(&script);
    let shell = arguments.shell.to_string();
    output.result(&serde_json::json!({ "shell": shell, "script": script }), || script.to_string());
    Ok(ExitCode::SUCCESS)
}
