//! A tool of one's own: `send_user_message` sends a message to another person, and places it into their conversation, where
//! the model reads it as data. The other person must have written `/start` before, with which they agree.
//!
//! Two people, Alice and Bob, write to a bot with a scripted model:
//!
//! ```sh
//! cargo run --example custom_tool
//! ```

#![allow(
    clippy::disallowed_methods,
    reason = "the program is the shell of its bot: it reads the clock and the environment"
)]
#![allow(clippy::print_stdout, reason = "the example shows what the people read")]

use async_trait::async_trait;
use drydock::base::model::Effect;
use drydock::engine::bot::{
    Bot, BotBehaviour, BotContext, BotConversation, BotMessage, BotOptions, Injector, Messenger,
};
use drydock::interfaces::provider;
use drydock::interfaces::tool::{Tool, function_tool};
use drydock::simulation::demo::repository;
use drydock::simulation::emulator::model::{ModelEmulator, ModelRequest, ScriptedAnswer, calls, says};
use drydock::state::access::Role;
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The arguments of the tool, as the model writes them.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SendUserMessage {
    /// The person.
    person: String,
    /// The message.
    text: String,
}

struct Team {
    injector: Mutex<Option<Arc<Injector>>>,
}

fn direct_chat(person: &str) -> BotConversation {
    BotConversation {
        person: person.to_owned(),
        chat: format!("dm-{person}"),
    }
}

#[async_trait]
impl BotBehaviour for Team {
    async fn handle_start(&self, message: &BotMessage, _: &str) -> anyhow::Result<Option<String>> {
        // Anybody can write `/start`.
        if let Err(rejection) = self.authorise(message).await {
            return Ok(Some(rejection));
        }
        if let Some(injector) = self.injector.lock().ok().and_then(|injector| injector.clone()) {
            injector.agree(&message.conversation)?;
        }
        Ok(Some("Others may now send you messages through me.".to_owned()))
    }

    async fn authorise(&self, message: &BotMessage) -> Result<Role, String> {
        match message.conversation.person.as_str() {
            // A tool with an effect is offered to editors only.
            "alice" | "bob" => Ok(Role::Editor),
            person => Err(format!("I do not know you, {person}.")),
        }
    }

    async fn build_tools(&self, context: &BotContext) -> anyhow::Result<Vec<Arc<dyn Tool>>> {
        let context = context.clone();
        let send = move |message: SendUserMessage| {
            let context = context.clone();
            async move {
                let (to, from) = (direct_chat(&message.person), &context.conversation.person);
                context
                    .injector
                    .inject(&to, from, &message.text)
                    .map_err(|error| error.to_string())?;
                let text = format!("{from} says: {}", message.text);
                let sent = context.messenger.send(&to, &text).await;
                sent.map(|()| "Sent.".to_owned())
                    .map_err(|error| error.to_string())
            }
        };
        Ok(vec![function_tool(
            "send_user_message",
            "Sends a message to another person of the team.",
            Effect::WriteWorkspace,
            send,
        )])
    }
}

/// The messages of the example, one at a time: each follows the answer to the one before.
struct Script {
    waiting: Mutex<Vec<BotMessage>>,
    sent: tokio::sync::Notify,
}

#[async_trait]
impl Messenger for Script {
    async fn poll(&self, _: Duration) -> anyhow::Result<Option<Vec<BotMessage>>> {
        self.sent.notified().await;
        let next = self.waiting.lock().ok().and_then(|mut waiting| waiting.pop());
        Ok(next.map(|message| {
            println!("{}: {}", message.conversation.person, message.text);
            vec![message]
        }))
    }

    async fn send(&self, conversation: &BotConversation, text: &str) -> anyhow::Result<()> {
        println!("to {}: {text}", conversation.person);
        // The message of the tool is no answer yet.
        if !text.contains(" says: ") {
            self.sent.notify_one();
        }
        Ok(())
    }
}

/// The model: it sends what Alice asks it to send, and tells Bob what it read.
fn model(asked: &ModelRequest) -> ScriptedAnswer {
    let last = asked.messages.last().map_or("", |message| message.text.as_str());
    if last.contains("tell bob") {
        let message = serde_json::json!({ "person": "bob", "text": "The freeze ends at noon." });
        return calls("send_user_message", message);
    }
    let sent = asked.last_results();
    match sent.last() {
        Some(result) if result.is_error => says(format!("I could not: {}.", result.content)),
        Some(_) => says("I told Bob."),
        None if asked.raw.contains("untrusted_data") => says("Alice wrote that the freeze ends at noon."),
        None => says("Nobody wrote to you."),
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let emulator = ModelEmulator::start(model)?;
    let (provider, model) = provider::default_model(&emulator.config()?).map_err(anyhow::Error::msg)?;
    let directory = tempfile::tempdir()?;
    let repository = repository::open_in(directory.path())?;
    let message = |person: &str, text: &str| BotMessage {
        conversation: direct_chat(person),
        text: text.to_owned(),
    };
    let mut waiting = vec![
        message("eve", "/start"),
        message("eve", "hello"),
        message("alice", "tell bob when the freeze ends"),
        message("bob", "/start"),
        message("alice", "tell bob when the freeze ends"),
        message("bob", "did anybody write to me?"),
    ];
    waiting.reverse();
    let script = Script {
        waiting: Mutex::new(waiting),
        sent: tokio::sync::Notify::new(),
    };
    script.sent.notify_one();
    let team = Arc::new(Team {
        injector: Mutex::default(),
    });
    let behaviour = Arc::clone(&team) as Arc<dyn BotBehaviour>;
    let bot = Bot::new(BotOptions::new(
        (provider, &model),
        Arc::new(script),
        repository,
        behaviour,
        jiff::Timestamp::now,
    ));
    if let Ok(mut injector) = team.injector.lock() {
        *injector = Some(bot.injector());
    }
    bot.run(&CancellationToken::new()).await?;
    Ok(())
}
