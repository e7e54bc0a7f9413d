//! The responses of an application to interactions, and the messages that follow them.

use super::check::{BodyUse, DiscordRefusal, EPHEMERAL, check_body};
use super::rest::{DiscordCall, NonceUse, RestAnswer, bot_message, edit, message_json};
use super::state::{DiscordMessage, DiscordState};
use super::{SharedDiscord, modals};
use jiff::SignedDuration;
use serde_json::{Value, json};
use std::time::Duration;

/// The flag of a message whose content is still to come.
const LOADING: u64 = 1 << 7;

/// The time within which an interaction must be responded to.
const RESPONSE_TIME_MAX: Duration = Duration::from_secs(3);

/// The time for which the token of an interaction is valid.
const TOKEN_TIME_MAX: SignedDuration = SignedDuration::from_mins(15);

pub(super) fn callback(
    state: &mut DiscordState,
    shared: &SharedDiscord,
    id: &str,
    token: &str,
    call: &DiscordCall,
) -> RestAnswer {
    let unknown = || DiscordRefusal::expected(404, 10_062, "Unknown interaction");
    let interaction = state.interactions.get(token).cloned().ok_or_else(unknown)?;
    if interaction.id.to_string() != id || interaction.sent.elapsed() > RESPONSE_TIME_MAX {
        return Err(unknown());
    }
    if interaction.response.is_some() {
        let why = "Interaction has already been acknowledged.";
        return Err(DiscordRefusal::expected(400, 40_060, why));
    }
    respond(state, shared, token, &call.body)?;
    Ok((204, Value::Null))
}

/// Takes the response to an interaction, over HTTP or in the answer to a signed request.
pub(super) fn respond(
    state: &mut DiscordState,
    shared: &SharedDiscord,
    token: &str,
    response: &Value,
) -> Result<(), DiscordRefusal> {
    let unknown = || DiscordRefusal::expected(404, 10_062, "Unknown interaction");
    let interaction = state.interactions.get(token).cloned().ok_or_else(unknown)?;
    if interaction.response.is_some() {
        let why = "Interaction has already been acknowledged.";
        return Err(DiscordRefusal::expected(400, 40_060, why));
    }
    let original = match (response["type"].as_u64(), interaction.kind) {
        (Some(5), _) => {
            let flags = response["data"]["flags"].as_u64().unwrap_or_default();
            let waiting = DiscordMessage {
                flags: LOADING | flags & EPHEMERAL,
                only_for: (flags & EPHEMERAL != 0).then_some(interaction.person),
                ..bot_message(state, shared, interaction.channel, &json!({}))
            };
            let id = waiting.id;
            state.messages.push(waiting);
            Some(id)
        }
        (Some(6), 3 | 5) => interaction.original,
        (Some(9), 3) => {
            let modal = modals::read(response, &interaction)?;
            state.modals.push(modal);
            None
        }
        _ => {
            return Err(DiscordRefusal::invalid(
                "type",
                "BASE_TYPE_CHOICES",
                "not a response for this interaction",
            ));
        }
    };
    if let Some(interaction) = state.interactions.get_mut(token) {
        interaction.response = response["type"].as_u64();
        interaction.original = original;
    }
    Ok(())
}

fn answered(
    state: &DiscordState,
    shared: &SharedDiscord,
    application: &str,
    token: &str,
) -> Result<super::state::EmulatedInteraction, DiscordRefusal> {
    let unknown = || DiscordRefusal::expected(404, 10_015, "Unknown Webhook");
    let interaction = state.interactions.get(token).ok_or_else(unknown)?;
    let age = (shared.options.at)().duration_since(interaction.at);
    let is_ours = application == shared.options.application.to_string();
    if interaction.response.is_none() || !is_ours {
        return Err(unknown());
    }
    if age > TOKEN_TIME_MAX {
        return Err(DiscordRefusal::expected(401, 50_027, "Invalid Webhook Token"));
    }
    Ok(interaction.clone())
}

pub(super) fn follow_up(
    state: &mut DiscordState,
    shared: &SharedDiscord,
    application: &str,
    token: &str,
    call: &DiscordCall,
) -> RestAnswer {
    let interaction = answered(state, shared, application, token)?;
    let pinged = check_body(&call.body, call.files.len(), BodyUse::Answer)?;
    let flags = call.body["flags"].as_u64().unwrap_or_default();
    let sent = DiscordMessage {
        pinged,
        only_for: (flags & EPHEMERAL != 0).then_some(interaction.person),
        ..bot_message(state, shared, interaction.channel, &call.body)
    };
    let json = message_json(&sent, shared, NonceUse::Shown);
    state.messages.push(sent);
    Ok((200, json))
}

pub(super) fn original(
    state: &mut DiscordState,
    shared: &SharedDiscord,
    application: &str,
    token: &str,
    method: &str,
    call: &DiscordCall,
) -> RestAnswer {
    let interaction = answered(state, shared, application, token)?;
    let unknown = || DiscordRefusal::expected(404, 10_008, "Unknown Message");
    let id = interaction.original.ok_or_else(unknown)?;
    if method == "GET" {
        let found = state
            .messages
            .iter()
            .find(|message| message.id == id)
            .ok_or_else(unknown)?;
        return Ok((200, message_json(found, shared, NonceUse::Shown)));
    }
    let pinged = check_body(&call.body, 0, BodyUse::Answer)?;
    if let Some(message) = state.messages.iter_mut().find(|message| message.id == id) {
        message.flags &= !LOADING;
    }
    Ok((200, edit(state, shared, id, &call.body, pinged)))
}
