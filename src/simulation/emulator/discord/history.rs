//! The parts of the server that the bot can read: its channels, its active threads and their messages.

use super::SharedDiscord;
use super::check::DiscordRefusal;
use super::rest::{DiscordCall, NonceUse, RestAnswer, message_json, unknown_channel};
use super::state::{DiscordMessage, DiscordState, EmulatedChannel, listed_channel};
use serde_json::{Value, json};

/// The maximum number of messages of a page.
const PAGE_MAX: usize = 100;

/// Returns the channels of the server without its threads.
pub(super) fn channels(state: &DiscordState, shared: &SharedDiscord, guild: &str) -> RestAnswer {
    check_guild(shared, guild)?;
    let of_guild = |channel: &&EmulatedChannel| channel.parent.is_none() && channel.person.is_none();
    Ok((200, json!(listed(state, shared, of_guild))))
}

/// Returns the active threads that the bot can see.
pub(super) fn active_threads(state: &DiscordState, shared: &SharedDiscord, guild: &str) -> RestAnswer {
    check_guild(shared, guild)?;
    let is_shown = |parent: u64| !state.hidden_channels.contains(&parent);
    let mut threads = listed(state, shared, |channel| channel.parent.is_some_and(is_shown));
    threads.reverse();
    Ok((200, json!({"threads": threads, "members": []})))
}

fn listed(
    state: &DiscordState,
    shared: &SharedDiscord,
    is_listed: impl Fn(&&EmulatedChannel) -> bool,
) -> Vec<Value> {
    let channels = state.channels.iter().filter(|(_, channel)| is_listed(channel));
    let channels = channels.map(|(id, channel)| listed_channel(state, *id, channel, shared.options.guild));
    channels.collect()
}

fn check_guild(shared: &SharedDiscord, guild: &str) -> Result<(), DiscordRefusal> {
    match guild == shared.options.guild.to_string() {
        true => Ok(()),
        false => Err(DiscordRefusal::expected(404, 10_004, "Unknown Guild")),
    }
}

/// Returns a page of messages, newest first, as they are shown to a bot with the permission to read the history. After a
/// message, the page begins with the next one.
pub(super) fn messages(
    state: &DiscordState,
    shared: &SharedDiscord,
    channel: u64,
    call: &DiscordCall,
) -> RestAnswer {
    if !state.channels.contains_key(&channel) {
        return Err(unknown_channel());
    }
    if state.hidden_channels.contains(&channel) {
        return Err(DiscordRefusal::expected(403, 50_001, "Missing Access"));
    }
    let positions = ["before", "after", "around"].map(|name| call.parameter(name));
    if positions.into_iter().flatten().count() > 1 {
        return Err(DiscordRefusal::invalid(
            "after",
            "BASE_TYPE_MUTUALLY_EXCLUSIVE",
            "before, after and around exclude each other",
        ));
    }
    if state.is_history_hidden {
        return Ok((200, json!([])));
    }
    let limit = call
        .parameter("limit")
        .and_then(|limit| limit.parse().ok())
        .unwrap_or(50);
    if !(1..=PAGE_MAX).contains(&limit) {
        return Err(DiscordRefusal::invalid("limit", "NUMBER_TYPE_MAX", "1 to 100"));
    }
    let before = call
        .parameter("before")
        .and_then(|id| id.parse().ok())
        .unwrap_or(u64::MAX);
    let after = call
        .parameter("after")
        .and_then(|id| id.parse().ok())
        .unwrap_or(0);
    let shown =
        |message: &&DiscordMessage| message.id < before && message.id > after && message.only_for.is_none();
    let mut messages: Vec<&DiscordMessage> = state.messages_in(channel).filter(shown).collect();
    messages.sort_by_key(|message| message.id);
    let first = match call.parameter("after") {
        Some(_) => 0,
        None => messages.len().saturating_sub(limit),
    };
    let page = messages.into_iter().skip(first).take(limit).rev();
    // The documentation promises a nonce with new messages only.
    let page: Vec<Value> = page
        .map(|message| message_json(message, shared, NonceUse::Hidden))
        .collect();
    Ok((200, json!(page)))
}
