//! A bot at a terminal: it answers questions about a repository, and edits a private copy of it.
//!
//! ```sh
//! printf 'how many replicas has web?\n' | ANTHROPIC_API_KEY=... cargo run --example terminal_bot -- ~/infra
//! ```

#![allow(
    clippy::disallowed_methods,
    reason = "the program is the shell of its bot: it reads the clock and the environment"
)]

use async_trait::async_trait;
use drydock::base::config::{Config, ConfigSources};
use drydock::base::redact::Redactor;
use drydock::engine::bot::{Bot, BotBehaviour, BotMessage, BotOptions, TerminalMessenger};
use drydock::interfaces::provider;
use drydock::state::access::Role;
use drydock::state::workspace::{Repository, SecretGuard};
use std::path::Path;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Everybody at this terminal may edit; `/start` says what the bot does.
struct Helpful;

#[async_trait]
impl BotBehaviour for Helpful {
    async fn handle_start(&self, _: &BotMessage, _: &str) -> anyhow::Result<Option<String>> {
        Ok(Some(
            "Ask about the repository, or say what should change.".to_owned(),
        ))
    }

    async fn authorise(&self, _: &BotMessage) -> Result<Role, String> {
        Ok(Role::Editor)
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let path = std::env::args().nth(1).unwrap_or_else(|| ".".to_owned());
    // The model and its key come from the environment, as for `drydock chat`: OPENAI_API_KEY, DRYDOCK_MODEL__DEFAULT.
    let config = Config::for_terminal(ConfigSources {
        environment: std::env::vars().collect(),
        ..ConfigSources::default()
    })?;
    let (provider, model) = provider::default_model(&config).map_err(anyhow::Error::msg)?;
    let bases = tempfile::tempdir()?;
    let repository = Repository::open_local("infra", Path::new(&path), None, bases.path())?;
    let messenger = Arc::new(TerminalMessenger::default());
    let options = BotOptions {
        guard: SecretGuard {
            redactor: Arc::new(Redactor::new(config.secrets())),
            ..SecretGuard::default()
        },
        ..BotOptions::new(
            (provider, &model),
            messenger,
            repository,
            Arc::new(Helpful),
            jiff::Timestamp::now,
        )
    };
    Ok(Bot::new(options).run(&CancellationToken::new()).await?)
}
