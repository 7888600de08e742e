//! `weir man`: manual pages, made from the declarations of the arguments.

use crate::output::{Done, Failure, Output};
use std::path::PathBuf;
use std::process::ExitCode;

/// Write manual pages, one for the program and one for each verb.
///
/// The Debian package installs them.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The folder, which is made if it is not there.
    folder: PathBuf,
}

const EXAMPLES: &str = "Examples:
  weir man out/man && man out/man/weir-run.1";

/// Runs the verb on a description of all arguments.
pub fn main(arguments: Arguments, program: clap::Command, output: &Output) -> Done {
    let folder = arguments.folder;
    let failed = |error: std::io::Error| {
        Failure::Failed(format!(
            "cannot write manual pages to {}: {error}. Remedy: name a folder that can be written",
            folder.display()
        ))
    };
    std::fs::create_dir_all(&folder).map_err(failed)?;
    let mut program = program.disable_help_subcommand(true);
    program.build();
    let mut written = Vec::new();
    write(&program, "weir", &folder, &mut written).map_err(failed)?;
    let text = || format!("{} manual pages in {}", written.len(), folder.display());
    output.result(&serde_json::json!({ "folder": folder, "pages": written }), text);
    Ok(ExitCode::SUCCESS)
}

/// A page for a command and for each below it.
fn write(
    command: &clap::Command,
    name: &str,
    folder: &std::path::Path,
    written: &mut Vec<String>,
) -> std::io::Result<()> {
    let file = format!("{name}.1");
    let page = clap_mangen::Man::new(command.clone());
    let mut text = Vec::new();
    page.render(&mut text)?;
    std::fs::write(folder.join(&file), text)?;
    written.push(file);
    let mut below =
        command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help");
    below.try_for_each(|below| write(below, &format!("{name}-{}", below.get_name()), folder, written))
}
