//! Being written.
use crate::output::{Done, Output};
/// Being written.
#[derive(clap::Args)]
pub struct Arguments {}
/// Runs the verb.
pub fn main(_: Arguments, _: &Output) -> Done { Err("not yet".into()) }
