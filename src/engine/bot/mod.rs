//! Bots: programs of your own that use the loop of Drydock. A [`Bot`] takes messages from a [`Messenger`] and answers each
//! with a turn of a model on a private copy of a repository. It prepares edits and applies nothing.
//!
//! The [`BotBehaviour`] decides who may ask, which tools there are and what the model sees. Messages of one conversation
//! are answered in order, and conversations at the same time. Conversations are kept in memory. For durable conversations,
//! budgets, reviews and chat platforms use the gateway, which is the program `drydock serve`.
//!
//! `examples/terminal_bot.rs` is a bot at a terminal, `examples/custom_tool.rs` has a tool that sends a message to another
//! person, and `examples/context_strategy.rs` decides what the model still sees of a long conversation.

mod behaviour;
mod conversation;
mod injection;
mod messenger;

pub use behaviour::{BotAppended, BotBehaviour, BotContext, BotExtra};
pub use injection::{InjectError, Injector};
pub use messenger::{BotConversation, BotMessage, Messenger, TerminalMessenger};

use crate::base::config::ModelFacts;
use crate::base::model::Limits;
use crate::engine::agent::context::{ContextStrategy, strategy};
use crate::interfaces::provider::Provider;
use crate::state::workspace::{Repository, RepositoryError, SecretGuard};
use conversation::LiveConversation;
use jiff::Timestamp;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::warn;

/// Messages that wait in one conversation.
const WAITING_MAX: usize = 20;
/// Conversations of one run. Messages of further ones are refused.
const CONVERSATIONS_MAX: usize = 10_000;

/// The answer to a message that finds no room.
const BUSY: &str = "Too much is waiting here. Try again later.";

/// The parts of a bot. [`BotOptions::new`] takes the required ones.
pub struct BotOptions {
    /// The provider of the model.
    pub provider: Arc<dyn Provider>,
    /// The name of the model without its provider.
    pub model: String,
    /// The source of messages.
    pub messenger: Arc<dyn Messenger>,
    /// The repository whose files the tools see. Each conversation has its own copy of its newest commit.
    pub repository: Arc<Repository>,
    /// The instructions for the model.
    pub system: String,
    /// The decisions of the program.
    pub behaviour: Arc<dyn BotBehaviour>,
    /// The secrets to remove, and the files that no tool reads.
    pub guard: SecretGuard,
    /// The limits of a turn.
    pub limits: Limits,
    /// The limits and prices of the model, as far as they are known.
    pub facts: ModelFacts,
    /// The way in which a long conversation is shortened.
    pub strategy: Arc<dyn ContextStrategy>,
    /// The longest wait for messages.
    pub poll_timeout: Duration,
    /// The clock.
    pub now: fn() -> Timestamp,
}

impl BotOptions {
    /// Creates options with the defaults: 30 seconds of polling, the usual limits, and trimming.
    pub fn new(
        (provider, model): (Arc<dyn Provider>, &str),
        messenger: Arc<dyn Messenger>,
        repository: Arc<Repository>,
        behaviour: Arc<dyn BotBehaviour>,
        now: fn() -> Timestamp,
    ) -> Self {
        let limits = Limits::default();
        Self {
            provider,
            model: model.to_owned(),
            messenger,
            repository,
            system: "You work on the files of a repository with the tools that you have. You apply nothing."
                .to_owned(),
            behaviour,
            guard: SecretGuard::default(),
            facts: ModelFacts::default(),
            strategy: Arc::new(strategy(limits.context_strategy)),
            limits,
            poll_timeout: Duration::from_secs(30),
            now,
        }
    }
}

/// The reason why a bot ended or a conversation did not begin.
#[derive(Debug, thiserror::Error)]
pub enum BotError {
    /// The repository could not be read.
    #[error("the repository cannot be read: {0}")]
    Repository(RepositoryError),
    /// The repository has no commits.
    #[error("the repository has no commits; commit its files first")]
    NoCommits,
    /// The messenger failed.
    #[error("messages cannot be received: {0}")]
    Messenger(anyhow::Error),
}

/// A bot.
pub struct Bot {
    options: Arc<BotOptions>,
    injector: Arc<Injector>,
}

impl Bot {
    /// Creates a bot. Nothing happens before it runs.
    pub fn new(options: BotOptions) -> Self {
        Self {
            options: Arc::new(options),
            injector: Arc::default(),
        }
    }

    /// Returns the injector, which places texts into conversations.
    pub fn injector(&self) -> Arc<Injector> {
        Arc::clone(&self.injector)
    }

    /// Answers messages until the messenger has no more, or until `cancel`. Messages that were received before the end of
    /// the messenger are answered first.
    pub async fn run(&self, cancel: &CancellationToken) -> Result<(), BotError> {
        let mut conversations: HashMap<BotConversation, mpsc::Sender<BotMessage>> = HashMap::new();
        let mut running = JoinSet::new();
        let ended = loop {
            let polled = self.options.messenger.poll(self.options.poll_timeout);
            let messages = match cancel.run_until_cancelled(polled).await {
                None | Some(Ok(None)) => break Ok(()),
                Some(Ok(Some(messages))) => messages,
                Some(Err(error)) => break Err(BotError::Messenger(error)),
            };
            for message in messages {
                // A conversation that broke begins anew.
                if conversations
                    .get(&message.conversation)
                    .is_some_and(mpsc::Sender::is_closed)
                {
                    conversations.remove(&message.conversation);
                }
                let queue = match conversations.get(&message.conversation) {
                    Some(queue) => queue,
                    None if conversations.len() >= CONVERSATIONS_MAX => {
                        self.refuse(&message).await;
                        continue;
                    }
                    None => {
                        let (queue, waiting) = mpsc::channel(WAITING_MAX);
                        match self.open(cancel).await {
                            Ok(opened) => running.spawn(opened.serve(waiting)),
                            Err(error) => {
                                warn!("a conversation of a bot did not begin: {error}");
                                self.refuse(&message).await;
                                continue;
                            }
                        };
                        conversations.entry(message.conversation.clone()).or_insert(queue)
                    }
                };
                if let Err(unsent) = queue.try_send(message) {
                    self.refuse(&unsent.into_inner()).await;
                }
            }
        };
        // Each conversation ends after its last message.
        drop(conversations);
        while running.join_next().await.is_some() {}
        ended
    }

    async fn open(&self, cancel: &CancellationToken) -> Result<LiveConversation, BotError> {
        LiveConversation::open(
            Arc::clone(&self.options),
            Arc::clone(&self.injector),
            cancel.child_token(),
        )
        .await
    }

    async fn refuse(&self, message: &BotMessage) {
        let sent = self.options.messenger.send(&message.conversation, BUSY).await;
        if let Err(error) = sent {
            warn!("a message of a bot could not be refused: {error:#}");
        }
    }
}
