//! `drydock auth`: the keys of model providers that this user has stored, for the commands that ask a model in a terminal.
//! No command shows a key.

mod key_file;
mod profile_edit;
mod typed_key;

pub(super) use key_file::KeyFile;

use super::models;
use super::output::Output;
use super::{CliError, Global};
use crate::base::config::{Config, ConfigSources, KeyOrigin, ProviderKey};
use crate::base::model::Secret;
use crate::base::redact::Redactor;
use clap::{Args, Subcommand};
use profile_edit::ProfileEdit;
use serde_json::json;
use typed_key::KeyInput;

pub(super) const EXAMPLES: &str = "\
Examples:
  drydock auth login --provider anthropic              asks for the key without showing it
  drydock auth login --provider openai --api-key-stdin < key.txt
  drydock auth login --provider gemini --api-key-file key.txt --model gemini-2.5-pro
  drydock auth list
  drydock auth logout --provider openai

A key is stored in `drydock/auth.toml` below $XDG_CONFIG_HOME or ~/.config, readable by you only.
`drydock ask`, `drydock chat` and `drydock models` use it if neither the configuration nor the
environment has a key of this provider; a server does not read it. Before a key is stored, its
provider is asked once, with a request of a few tokens; --no-check leaves this out.

`auth login` also makes the provider that of the profile `default` in drydock.toml, and adds the
profile `readonly`: the same model, which edits nothing. `drydock ask --profile readonly` or
DRYDOCK_PROFILE chooses it.

Exit codes: 0 done, 1 a failure or a refused key, 2 wrong usage, 78 wrong configuration.";

#[derive(Debug, Subcommand)]
pub(super) enum AuthCommand {
    /// Stores the key of a model provider, after the provider has accepted it
    Login(KeyLogin),
    /// Lists the keys of all model providers by their sources, without the keys themselves
    List,
    /// Removes the stored key of a model provider
    Logout {
        /// The provider, such as `openai` or `gemini`
        #[arg(long, value_name = "NAME")]
        provider: String,
    },
}

#[derive(Debug, Args)]
pub(super) struct KeyLogin {
    /// The provider, such as `openai` or `gemini`; asked for at a terminal
    #[arg(long, value_name = "NAME")]
    provider: Option<String>,
    /// The model of the profile `default`; without it, the one in use or the provider's default model
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    #[command(flatten)]
    key: KeyInput,
    /// Stores the key without asking the provider
    #[arg(long)]
    no_check: bool,
}

pub(super) async fn run(command: AuthCommand, global: &Global, output: &Output) -> Result<(), CliError> {
    let file = KeyFile::of_this_user()?;
    let sources = ConfigSources {
        stored_keys: file.read()?,
        ..global.personal_sources()?
    };
    match command {
        AuthCommand::Login(arguments) => Box::pin(log_in(arguments, &file, sources, output)).await,
        AuthCommand::List => list(&sources, output),
        AuthCommand::Logout { provider } => log_out(&provider, &file, &sources, output),
    }
}

/// Checks a key, and stores it together with the profiles.
async fn log_in(
    arguments: KeyLogin,
    file: &KeyFile,
    mut sources: ConfigSources,
    output: &Output,
) -> Result<(), CliError> {
    let provider = match arguments.provider {
        Some(provider) => provider,
        None => typed_key::typed_provider(output).await?,
    };
    let provider = provider_name(&sources, &provider)?;
    let key = arguments.key.read(&provider, output).await?;
    sources.stored_keys.insert(provider.clone(), key.clone());
    let profiles = ProfileEdit::plan(&sources, &provider, arguments.model.as_deref())?;
    let config = config_with_key(&profiles.changed(&sources), &provider, &key)?;
    if !arguments.no_check {
        check(&config, &provider, &key).await?;
    }
    file.put(&provider, Some(&key))?;
    let (model, profile_file) = (profiles.model.clone(), profiles.file.display().to_string());
    profiles.save(&sources).map_err(|error| CliError {
        message: format!(
            "the key is stored, but the profiles in {profile_file} are not written: {}",
            error.message
        ),
        ..error
    })?;
    let first = keys(&sources)?
        .into_iter()
        .find(|found| found.provider == provider);
    let first = first.filter(|found| found.origin != KeyOrigin::Stored);
    if output.json() {
        output.value(&json!({
            "provider": provider, "file": file.shown(), "checked": !arguments.no_check, "model": model,
            "profiles": profile_file, "used_first": first.map(|found| origin_words(&found.origin)),
        }));
        return Ok(());
    }
    output.line(&format!("Stored the key of {provider} in {}.", file.shown()));
    output.line(&format!(
        "The profiles default and readonly in {profile_file} use {model}."
    ));
    if let Some(found) = first {
        output.message(&format!(
            "The key of {provider} in the {} is used before the stored one.",
            origin_words(&found.origin)
        ));
    }
    Ok(())
}

/// Returns the configuration with only this provider and this key.
fn config_with_key(sources: &ConfigSources, provider: &str, key: &Secret) -> Result<Config, CliError> {
    let mut config = Config::for_terminal(sources.clone()).map_err(CliError::config)?;
    config.providers.retain(|name, _| name == provider);
    match config.providers.get_mut(provider) {
        Some(settings) if settings.needs_key => settings.api_key = Some(key.clone()),
        Some(_) | None => {
            return Err(CliError::usage(format!(
                "{provider} needs no key; choose its model with DRYDOCK_MODEL__DEFAULT or in [model]"
            )));
        }
    }
    Ok(config)
}

/// Asks the provider once. An error changes nothing.
async fn check(config: &Config, provider: &str, key: &Secret) -> Result<(), CliError> {
    let checks = models::check_all(config).await?;
    let failed = checks.into_iter().find_map(|check| check.outcome.err());
    let Some(why) = failed else {
        return Ok(());
    };
    // A provider may repeat the key in its answer.
    let why = Redactor::new([key.clone()]).redact(&why).into_owned();
    Err(CliError::failed(format!(
        "the key of {provider} is not stored: {why}; --no-check stores a key without asking the provider"
    )))
}

fn provider_name(sources: &ConfigSources, typed: &str) -> Result<String, CliError> {
    Config::provider_name(sources, typed).map_err(|why| CliError::usage(format!("--provider: {why}")))
}

fn keys(sources: &ConfigSources) -> Result<Vec<ProviderKey>, CliError> {
    Config::provider_keys(sources).map_err(CliError::config)
}

/// Describes a source in words.
fn origin_words(origin: &KeyOrigin) -> String {
    match origin {
        KeyOrigin::Configuration(source) => format!("configuration ({source})"),
        KeyOrigin::Environment(name) => format!("environment ({name})"),
        KeyOrigin::Stored => "auth.toml".to_owned(),
    }
}

/// Returns the word of a source for programs.
fn origin_word(origin: &KeyOrigin) -> &'static str {
    match origin {
        KeyOrigin::Configuration(_) => "configuration",
        KeyOrigin::Environment(_) => "environment",
        KeyOrigin::Stored => "auth.toml",
    }
}

fn list(sources: &ConfigSources, output: &Output) -> Result<(), CliError> {
    let keys = keys(sources)?;
    // Of the keys of a provider, which follow each other, the first one is used.
    let is_used = |index: usize| {
        let before = index.checked_sub(1).and_then(|before| keys.get(before));
        before.map(|key| &key.provider) != keys.get(index).map(|key| &key.provider)
    };
    if output.json() {
        let listed = keys.iter().enumerate().map(|(index, key)| {
            json!({
                "provider": key.provider, "source": origin_word(&key.origin), "detail": origin_words(&key.origin),
                "last": key.key.as_ref().ok().and_then(last_characters), "used": is_used(index),
                "problem": key.key.as_ref().err(),
            })
        });
        output.value(&json!({ "keys": listed.collect::<Vec<_>>() }));
        return Ok(());
    }
    if keys.is_empty() {
        output.message("There is no key. `drydock auth login` stores one.");
        return Ok(());
    }
    let rows = keys.iter().enumerate().map(|(index, key)| {
        let shown = match &key.key {
            Ok(secret) => last_characters(secret).map_or_else(|| "…".to_owned(), |last| format!("…{last}")),
            Err(problem) => problem.clone(),
        };
        let used = if is_used(index) { "yes" } else { "no" };
        vec![
            key.provider.clone(),
            origin_words(&key.origin),
            shown,
            used.to_owned(),
        ]
    });
    output.table(&["PROVIDER", "SOURCE", "KEY", "USED"], &rows.collect::<Vec<_>>());
    Ok(())
}

/// Returns the last characters of a key, by which a person knows it; `None` if they would be much of it.
fn last_characters(key: &Secret) -> Option<String> {
    const SHOWN: usize = 4;
    const KEY_CHARS_MIN: usize = 20;
    let characters: Vec<char> = key.expose().chars().collect();
    let last = characters.len().checked_sub(SHOWN)?;
    (characters.len() >= KEY_CHARS_MIN).then(|| characters.iter().skip(last).collect())
}

fn log_out(provider: &str, file: &KeyFile, sources: &ConfigSources, output: &Output) -> Result<(), CliError> {
    // The section of a provider may be gone, and its key still be stored.
    let provider = match sources.stored_keys.contains_key(provider) {
        true => provider.to_owned(),
        false => provider_name(sources, provider)?,
    };
    if !sources.stored_keys.contains_key(&provider) {
        return Err(CliError::failed(format!(
            "no key of {provider} is stored; `drydock auth list` shows where its key comes from"
        )));
    }
    file.put(&provider, None)?;
    match output.json() {
        true => output.value(&json!({ "provider": provider, "file": file.shown(), "removed": true })),
        false => output.line(&format!("Removed the key of {provider} from {}.", file.shown())),
    }
    Ok(())
}
