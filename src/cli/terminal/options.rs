//! The options that `ask`, `chat` and `run` have in common.

use super::{PROFILE_KEY, PROVIDER_KEY};
use crate::base::config::{KNOWN_PROVIDERS, usual_model};
use crate::cli::CliError;
use std::path::PathBuf;

/// The characters that are shown of the arguments and answers of tools if the command line says nothing.
const TOOL_CHARS: u16 = 120;

/// The options the terminal was started with.
#[derive(Clone, Debug, clap::Args)]
pub(in crate::cli) struct TerminalOptions {
    /// The model, as `provider/model`, or its name: `gpt-4o`, or any beside --provider
    #[arg(long)]
    model: Option<String>,
    /// The provider, such as `openai` or `gemini`; without --model, its default model
    #[arg(long)]
    provider: Option<String>,
    #[command(flatten)]
    pub(super) common: CommonTerminalOptions,
}

/// The options of every session, whatever its model.
#[derive(Clone, Debug, clap::Args)]
pub(in crate::cli) struct CommonTerminalOptions {
    /// The profile of the configuration file, such as `readonly`; without it, that of DRYDOCK_PROFILE
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// Records the session below this directory
    #[arg(long, value_name = "DIRECTORY")]
    pub(in crate::cli) record: Option<PathBuf>,
    /// Works on a repository with uncommitted changes without asking first; a question of the model with a default is
    /// answered with it
    #[arg(short, long)]
    pub(in crate::cli) yes: bool,
    /// Shows the answers of tools with a border, also on a pipe
    #[arg(short, long)]
    pub(super) verbose: bool,
    /// The number of characters that are shown of the arguments and answers of tools
    #[arg(long, value_name = "CHARACTERS", default_value_t = TOOL_CHARS, value_parser = clap::value_parser!(u16).range(20..))]
    pub(super) tool_chars: u16,
}

impl CommonTerminalOptions {
    /// Returns the name of the first option that is given.
    pub(in crate::cli) fn first_given(&self) -> Option<&'static str> {
        let options = [
            ("--profile", self.profile.is_some()),
            ("--record", self.record.is_some()),
            ("--yes", self.yes),
            ("--verbose", self.verbose),
            ("--tool-chars", self.tool_chars != TOOL_CHARS),
        ];
        let mut given = options.into_iter().filter(|(_, is_given)| *is_given);
        given.next().map(|(option, _)| option)
    }
}

impl TerminalOptions {
    /// Returns true if nobody is to be asked what has a default.
    pub(in crate::cli) fn takes_defaults(&self) -> bool {
        self.common.yes
    }

    /// Returns the options of a session with a certain model.
    pub(super) fn of_model(model: &str, common: CommonTerminalOptions) -> Self {
        Self {
            model: Some(model.to_owned()),
            provider: None,
            common,
        }
    }

    /// Returns the keys that the command line sets.
    pub(super) fn settings(&self) -> Result<Vec<(String, String)>, CliError> {
        if let (Some(provider), None) = (&self.provider, &self.model)
            && usual_model(provider).is_none()
        {
            let known: Vec<&str> = KNOWN_PROVIDERS.iter().map(|known| known.name).collect();
            return Err(CliError::usage(format!(
                "--provider {provider}: it has no known default model; check the name ({}), or add --model NAME",
                known.join(", ")
            )));
        }
        let keys = [
            (PROFILE_KEY, &self.common.profile),
            (PROVIDER_KEY, &self.provider),
            ("model.default", &self.model),
        ];
        let given = keys
            .into_iter()
            .filter_map(|(key, value)| Some((key.to_owned(), value.clone()?)));
        Ok(given.collect())
    }
}
