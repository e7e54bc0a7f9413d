//! `drydock completions` and `drydock man`: completions for shells and manual pages, from the definition of the command
//! line.

use super::CliError;
use super::output::Output;
use clap::{Args, Command, ValueEnum};
use clap_complete::Shell;
use serde_json::json;
use std::path::PathBuf;

pub(super) const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  drydock completions bash > ~/.local/share/bash-completion/completions/drydock
  drydock completions zsh > ~/.zfunc/_drydock        with fpath+=~/.zfunc before compinit
  drydock completions fish > ~/.config/fish/completions/drydock.fish";

pub(super) const MAN_EXAMPLES: &str = "\
Examples:
  drydock man | man -l -                 read the manual page
  drydock man --out /usr/local/share/man/man1";

#[derive(Debug, Args)]
pub(super) struct CompletionsArguments {
    /// The shell
    #[arg(value_enum)]
    shell: CompletionShell,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum CompletionShell {
    Bash,
    Zsh,
    Fish,
}

#[derive(Debug, Args)]
pub(super) struct ManArguments {
    /// Writes a page for each command into this directory, which is created if it does not exist
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Prints the completions of a shell.
pub(super) fn print_completions(
    arguments: CompletionsArguments,
    mut command: Command,
    output: &Output,
) -> Result<(), CliError> {
    let (name, shell) = match arguments.shell {
        CompletionShell::Bash => ("bash", Shell::Bash),
        CompletionShell::Zsh => ("zsh", Shell::Zsh),
        CompletionShell::Fish => ("fish", Shell::Fish),
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "drydock", &mut script);
    print(&json!({"shell": name}), "script", script, output)
}

/// Prints the manual page of the program, or writes those of all commands.
pub(super) fn print_manual(
    arguments: ManArguments,
    command: Command,
    output: &Output,
) -> Result<(), CliError> {
    let Some(directory) = arguments.out else {
        let mut page = Vec::new();
        clap_mangen::Man::new(command)
            .render(&mut page)
            .map_err(CliError::failed)?;
        return print(&json!({}), "page", page, output);
    };
    let failed = |error: std::io::Error| CliError::failed(format!("{}: {error}", directory.display()));
    std::fs::create_dir_all(&directory).map_err(failed)?;
    clap_mangen::generate_to(command, &directory).map_err(failed)?;
    output.message(&format!(
        "The manual pages are in {}, beginning with drydock.1.",
        directory.display()
    ));
    Ok(())
}

/// Prints a text, or as JSON a field with the text beside other fields.
fn print(fields: &serde_json::Value, name: &str, text: Vec<u8>, output: &Output) -> Result<(), CliError> {
    let text = String::from_utf8(text).map_err(CliError::failed)?;
    match output.json() {
        true => {
            let mut value = fields.clone();
            value[name] = json!(text);
            output.value(&value);
        }
        false => output.line(text.trim_end_matches('\n')),
    }
    Ok(())
}
