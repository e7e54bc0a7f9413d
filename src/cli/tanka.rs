//! `drydock tanka`: what can be asked of the Jsonnet around you. No model and no cluster is asked.

use super::output::Output;
use super::{Failure, tanka_fmt};
use clap::Subcommand;

pub(super) const EXAMPLES: &str = "\
Examples:
  drydock tanka fmt . --test    is every Jsonnet file in the standard style?";

#[derive(Debug, Subcommand)]
pub(super) enum TankaCommand {
    /// Formats Jsonnet files, byte for byte as `tk fmt`
    #[command(after_help = tanka_fmt::EXAMPLES)]
    Fmt(tanka_fmt::FmtArguments),
}

pub(super) fn run(command: TankaCommand, output: &Output) -> Result<(), Failure> {
    let TankaCommand::Fmt(arguments) = command;
    tanka_fmt::run(&arguments, output)
}
