//! A context strategy of one's own: the model sees the newest three requests only, and a line that says so.
//!
//! ```sh
//! cargo run --example context_strategy
//! ```

#![allow(
    clippy::disallowed_methods,
    reason = "the program is the shell of its bot: it reads the clock and the environment"
)]
#![allow(clippy::print_stdout, reason = "the example shows what the model reads")]

use async_trait::async_trait;
use drydock::base::model::History;
use drydock::engine::agent::context::{ContextStrategy, SummaryWriter, TurnRoom};
use drydock::engine::bot::{
    Bot, BotBehaviour, BotConversation, BotMessage, BotOptions, Messenger, TerminalMessenger,
};
use drydock::interfaces::provider;
use drydock::simulation::demo::repository;
use drydock::simulation::emulator::model::{ModelEmulator, ModelRequest, ScriptedAnswer, says};
use drydock::state::access::Role;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The number of requests that the model sees.
const REQUESTS_MAX: usize = 3;

struct NewestRequests;

#[async_trait]
impl ContextStrategy for NewestRequests {
    fn name(&self) -> &str {
        "newest-requests"
    }

    async fn prepare(
        &self,
        history: &mut History,
        _: TurnRoom,
        _: &mut dyn SummaryWriter,
    ) -> anyhow::Result<()> {
        // The last turn is the open one. The summary is not one of the earlier turns.
        let earlier = history.earlier_turns().len();
        let more = (earlier + 1).saturating_sub(REQUESTS_MAX);
        if more > 0 {
            history.summarise(more, "(Earlier requests are left out.)".into());
        }
        Ok(())
    }
}

struct Everybody;

#[async_trait]
impl BotBehaviour for Everybody {
    async fn authorise(&self, _: &BotMessage) -> Result<Role, String> {
        Ok(Role::Viewer)
    }
}

/// Sends five requests, one for each poll, and prints the answers.
#[derive(Default)]
struct FiveRequests(AtomicUsize);

#[async_trait]
impl Messenger for FiveRequests {
    async fn poll(&self, _: Duration) -> anyhow::Result<Option<Vec<BotMessage>>> {
        let number = self.0.fetch_add(1, Ordering::Relaxed);
        Ok((number < 5).then(|| {
            vec![BotMessage {
                conversation: TerminalMessenger::conversation(),
                text: format!("request {number}"),
            }]
        }))
    }

    async fn send(&self, _: &BotConversation, text: &str) -> anyhow::Result<()> {
        println!("{text}");
        Ok(())
    }
}

/// The model lists the requests that it sees.
fn model(asked: &ModelRequest) -> ScriptedAnswer {
    let seen = (0..5).filter(|number| asked.raw.contains(&format!("\"request {number}\"")));
    let seen: Vec<String> = seen.map(|number| number.to_string()).collect();
    let note = match asked.raw.contains("(Earlier requests are left out.)") {
        true => " and a note",
        false => "",
    };
    says(format!("I see requests {}{note}.", seen.join(", ")))
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let emulator = ModelEmulator::start(model)?;
    let (provider, model) = provider::default_model(&emulator.config()?).map_err(anyhow::Error::msg)?;
    let directory = tempfile::tempdir()?;
    let repository = repository::open_in(directory.path())?;
    let options = BotOptions {
        strategy: Arc::new(NewestRequests),
        ..BotOptions::new(
            (provider, &model),
            Arc::new(FiveRequests::default()),
            repository,
            Arc::new(Everybody),
            jiff::Timestamp::now,
        )
    };
    Ok(Bot::new(options).run(&CancellationToken::new()).await?)
}
