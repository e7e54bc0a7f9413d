//! The input of a key: an option, a file, standard input, or a terminal that does not show it.

use crate::base::config::{KNOWN_PROVIDERS, checked_key, key_of_file};
use crate::base::model::Secret;
use crate::cli::CliError;
use crate::cli::input::{InputLine, InputReader};
use crate::cli::output::Output;
use crate::cli::secret_input::HiddenEcho;
use std::io::IsTerminal;
use std::path::PathBuf;

/// The maximum number of bytes of a typed line.
const LINE_BYTES_MAX: usize = 16_384;

/// The options that give the key.
#[derive(Debug, clap::Args)]
#[group(multiple = false)]
pub(super) struct KeyInput {
    /// The key. Other people on this machine can see it in the list of processes: prefer another option
    #[arg(long, value_name = "KEY")]
    api_key: Option<String>,
    /// A file with the key, which only you can read
    #[arg(long, value_name = "FILE")]
    api_key_file: Option<PathBuf>,
    /// Reads the key from standard input
    #[arg(long)]
    api_key_stdin: bool,
}

impl KeyInput {
    /// Returns the key. A text that cannot be one is refused, and not repeated.
    pub(super) async fn read(self, provider: &str, output: &Output) -> Result<Secret, CliError> {
        if let Some(file) = self.api_key_file {
            return key_of_file(&file).map_err(|why| CliError::usage(format!("--api-key-file: {why}")));
        }
        let typed = match self.api_key {
            Some(key) => {
                output.message(
                    "Other people on this machine can see a key in the list of processes, and your shell may record it. \
                     --api-key-stdin and --api-key-file show it to nobody.",
                );
                Secret::new(key)
            }
            None if self.api_key_stdin => line().await?,
            None if std::io::stdin().is_terminal() => {
                let hidden = HiddenEcho::begin();
                output.prompt(&format!("Key of {provider}: "));
                let typed = line().await;
                drop(hidden);
                output.message("");
                typed?
            }
            None => {
                return Err(CliError::usage(
                    "there is no terminal to ask for the key; give --api-key-stdin or --api-key-file",
                ));
            }
        };
        checked_key(typed.expose().trim())
            .map_err(|why| CliError::usage(format!("the key is not stored: {why}")))
    }
}

/// Asks for the name of a provider at the terminal.
pub(super) async fn typed_provider(output: &Output) -> Result<String, CliError> {
    let known = KNOWN_PROVIDERS.iter().filter(|known| !known.variables.is_empty());
    let names = known.map(|known| known.name).collect::<Vec<_>>().join(", ");
    if !std::io::stdin().is_terminal() {
        return Err(CliError::usage(format!(
            "give --provider: {names}, or the name of a section [providers.<name>]"
        )));
    }
    output.prompt(&format!("Provider ({names}): "));
    let typed = line().await?;
    Ok(typed.expose().trim().to_owned())
}

/// Reads one line. The end of the input and Ctrl-C end the command.
async fn line() -> Result<Secret, CliError> {
    let mut input = InputReader::standard(LINE_BYTES_MAX);
    let line = tokio::select! {
        line = input.next() => line.map_err(CliError::failed)?,
        _ = tokio::signal::ctrl_c() => InputLine::End,
    };
    match line {
        InputLine::Text(text) => Ok(Secret::new(text)),
        InputLine::NotText | InputLine::TooLong => Err(CliError::usage(
            "that is no key: it is too long or is no text; nothing was changed",
        )),
        InputLine::End => Err(CliError::usage("there is no key; nothing was changed")),
    }
}
