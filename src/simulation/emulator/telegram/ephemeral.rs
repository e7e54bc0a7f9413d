//! Ephemeral messages of groups: a command that only its sender and the bot see, and the answers to it. The bot is no
//! administrator here, so it may only answer. Telegram does not document the words of its refusals. See
//! <https://core.telegram.org/bots/api#ephemeral-messages-and-commands>.

use super::check::check_known;
use super::messages::{SentContent, number};
use super::methods::BotApiRefusal;
use super::state::{EmulatedUser, PostedMessage, TelegramState, describe_chat};
use super::{BOT_ID, BOT_NAME, PushedUpdate, TelegramEmulator, links};
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use std::time::Duration;
use tokio::time::Instant;

/// The time in which an ephemeral message can be answered.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(15);

/// A command that only its sender and the bot see.
#[derive(Clone, Debug)]
pub(super) struct EphemeralCommand {
    chat: i64,
    user: i64,
    received_at: Instant,
}

/// A message of the bot that only one user of a group sees.
#[derive(Clone, Debug)]
pub(super) struct EphemeralMessage {
    chat: i64,
    user: i64,
    message: PostedMessage,
}

impl TelegramEmulator {
    /// Writes a command in a group as a user, at a time that the message shows. Only the bot sees it. Returns `None` if
    /// the bot did not register the command as an ephemeral one of groups, so that everybody would see it.
    pub async fn whisper(
        &self,
        user: i64,
        chat: i64,
        text: &str,
        sent_at: Timestamp,
    ) -> Option<PushedUpdate> {
        let update = self.shared.change(|state| {
            is_ephemeral(state, text).then(|| record_command(state, (user, chat), text, sent_at))
        })?;
        let status = self.deliver("message", update.clone()).await;
        Some(PushedUpdate {
            update,
            message: 0,
            status,
        })
    }

    /// Returns the messages of the bot in a group that only this user sees, oldest first.
    pub fn whispers(&self, user: i64, chat: i64) -> Vec<PostedMessage> {
        self.shared.read(|state| {
            let answers = state.ephemeral_answers.iter();
            let theirs = answers.filter(|answer| (answer.user, answer.chat) == (user, chat));
            theirs.map(|answer| answer.message.clone()).collect()
        })
    }
}

/// Returns true if a text is a command that was registered as ephemeral for all groups. An older server does not know
/// the field.
fn is_ephemeral(state: &TelegramState, text: &str) -> bool {
    let word = text.split_whitespace().next().unwrap_or_default();
    let verb = word.trim_start_matches('/').split('@').next().unwrap_or_default();
    let scope = ("all_group_chats".to_owned(), String::new());
    let mut commands = state.commands.get(&scope).into_iter().flatten();
    state.missing_methods.is_empty()
        && commands.any(|command| command["command"] == verb && command["is_ephemeral"] == true)
}

fn record_command(
    state: &mut TelegramState,
    (user, chat): (i64, i64),
    text: &str,
    sent_at: Timestamp,
) -> Value {
    let id = next_id(state);
    let command = EphemeralCommand {
        chat,
        user,
        received_at: Instant::now(),
    };
    state.ephemeral_commands.insert(id, command);
    json!({"update_id": state.update_id(), "message": {
        "message_id": 0, "ephemeral_message_id": id, "date": sent_at.as_second(), "chat": describe_chat(chat),
        "from": EmulatedUser(user).describe(), "text": text, "entities": links::auto_entities(text),
    }})
}

/// Returns the id of the next ephemeral message, which both sides count.
fn next_id(state: &TelegramState) -> i64 {
    let count = state.ephemeral_commands.len() + state.ephemeral_answers.len();
    i64::try_from(count).unwrap_or(i64::MAX).saturating_add(500)
}

/// Sends the answer to an ephemeral message.
pub(super) fn send(
    state: &mut TelegramState,
    (chat, topic): (i64, Option<i64>),
    content: SentContent,
    parameters: &Map<String, Value>,
) -> Result<Value, BotApiRefusal> {
    let receiver = number(
        object(parameters, "ephemeral_message_parameters")?,
        "receiver_user_id",
    )?;
    let answered = object(parameters, "reply_parameters")?;
    check_known(answered, &["ephemeral_message_id"])?;
    let answered = number(answered, "ephemeral_message_id")?;
    let command = state.ephemeral_commands.get(&answered);
    let is_theirs = |command: &&EphemeralCommand| (command.chat, command.user) == (chat, receiver);
    let Some(command) = command.filter(is_theirs) else {
        return Err("an ephemeral message to a person who sent none".to_owned().into());
    };
    if command.received_at.elapsed() > ANSWER_TIME_MAX {
        return Err(BotApiRefusal::expected(400, "Bad Request: MESSAGE_ID_INVALID"));
    }
    let id = next_id(state);
    let message = content.into_message(id, topic, Some(answered));
    state.ephemeral_answers.push(EphemeralMessage {
        chat,
        user: receiver,
        message,
    });
    let bot = json!({"id": BOT_ID, "is_bot": true, "first_name": "Drydock", "username": BOT_NAME});
    Ok(
        json!({"message_id": 0, "ephemeral_message_id": id, "date": 1_700_000_000, "chat": describe_chat(chat),
        "from": bot, "receiver_user": EmulatedUser(receiver).describe()}),
    )
}

fn object<'p>(
    parameters: &'p Map<String, Value>,
    key: &str,
) -> Result<&'p Map<String, Value>, BotApiRefusal> {
    let value = parameters.get(key).and_then(Value::as_object);
    value.ok_or_else(|| BotApiRefusal::from(format!("`{key}` is missing")))
}
