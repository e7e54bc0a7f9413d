//! Decodes interactions: commands and presses, over the gateway or over HTTP. Each must be acknowledged within three
//! seconds; its token takes answers for 15 minutes. See
//! <https://docs.discord.com/developers/interactions/receiving-and-responding>.

use super::decode::{place, sender};
use super::form;
use super::message::EPHEMERAL;
use super::places::{ChannelKindSeen, kind_of};
use super::registration::COMMAND;
use crate::base::model::{Inbound, InboundKind, Installation, MessageRef, ResponseUrl};
use crate::base::webhook::{Received, Rejected};
use crate::interfaces::channel::words::{command, invite};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

/// The time for which Drydock uses the token of an interaction, somewhat less than its 15 minutes.
const TOKEN_TIME_MAX: SignedDuration = SignedDuration::from_mins(14);
/// The maximum number of characters of the id of a button, as Discord limits it.
const BUTTON_ID_CHARS_MAX: usize = 100;
/// The maximum number of bytes of the token of an interaction; Discord's have about 220.
const TOKEN_BYTES_MAX: usize = 1_024;

/// The context of an interaction in a private channel without the bot.
const PRIVATE_CHANNEL: u64 = 2;
/// The type of a channel between two accounts.
const DIRECT: u64 = 1;
const PING: u64 = 1;
const APPLICATION_COMMAND: u64 = 2;
const MESSAGE_COMPONENT: u64 = 3;
const MODAL_SUBMIT: u64 = 5;

/// Decodes an interaction.
pub(super) fn decode(
    payload: &Value,
    channel_name: &str,
    installation: &Installation,
    at: Timestamp,
) -> Result<Received, Rejected> {
    let text = |pointer: &str| {
        let text = payload.pointer(pointer).and_then(Value::as_str);
        text.filter(|text| !text.is_empty())
    };
    let mut about = None;
    let kind = match payload["type"].as_u64() {
        Some(PING) => return Ok(Received::Ignored("ping")),
        Some(APPLICATION_COMMAND) => match text("/data/name") {
            Some(COMMAND) => typed(payload),
            Some(_) | None => return Ok(Received::Ignored("unknown command")),
        },
        Some(MESSAGE_COMPONENT) => match text("/data/custom_id") {
            Some(token) if token.chars().count() <= BUTTON_ID_CHARS_MAX => InboundKind::Click {
                token: token.to_owned(),
                callback: None,
                trigger: text("/id").map(str::to_owned),
            },
            Some(_) | None => return Ok(Received::Ignored("a press without a token")),
        },
        Some(MODAL_SUBMIT) => match form::sent(payload) {
            Some(sent) => {
                about = Some(sent.about.to_owned());
                InboundKind::Text {
                    text: sent.words.to_owned(),
                    quoted: None,
                    addressed: true,
                }
            }
            None => return Ok(Received::Ignored("a form of another kind")),
        },
        Some(_) => return Ok(Received::Ignored("unknown type of interaction")),
        None => return Err(Rejected::Malformed("the interaction has no type")),
    };
    if text("/application_id").is_some_and(|application| application != installation.account.id) {
        return Ok(Received::Ignored("interaction of another application"));
    }
    // In a server the person is a member, in a direct message a user.
    let person = text("/member/user/id").or_else(|| text("/user/id"));
    let channel = text("/channel_id").or_else(|| text("/channel/id"));
    let (Some(id), Some(token), Some(person), Some(channel)) = (text("/id"), text("/token"), person, channel)
    else {
        return Err(Rejected::Malformed(
            "the interaction lacks an id, a token, a person or a channel",
        ));
    };
    if is_among_others(payload) {
        return Ok(Received::Ignored("interaction in a private channel of others"));
    }
    let is_direct = text("/guild_id").is_none();
    let channel_kind = match is_direct {
        true => ChannelKindSeen::Direct,
        false => kind_of(&payload["channel"]),
    };
    let message = text("/message/id").filter(|_| !matches!(kind, InboundKind::Command { .. }));
    // A message that only its person sees cannot be reacted to, and begins no thread.
    let is_private = payload
        .pointer("/message/flags")
        .and_then(Value::as_u64)
        .is_some_and(|flags| flags & EPHEMERAL != 0);
    let message = message.filter(|_| !is_private);
    Ok(Received::Inbound(Box::new(Inbound {
        channel: channel_name.to_owned(),
        delivery: vec![format!("discord:{channel_name}:interaction:{id}")],
        sender: sender(&installation.account, person),
        place: place(&installation.account, channel, &channel_kind, message),
        direct: is_direct,
        // The words of a form are in no message.
        message: message.filter(|_| about.is_none()).map(|id| MessageRef {
            chat: channel.to_owned(),
            id: id.to_owned(),
        }),
        kind,
        files: Vec::new(),
        about,
        response_url: response_url(&installation.account.id, token, at),
    })))
}

/// True for an interaction in a group or in a chat between two other people, which has no server either. See
/// <https://docs.discord.com/developers/interactions/receiving-and-responding#interaction-object-interaction-context-types>.
fn is_among_others(payload: &Value) -> bool {
    let is_in_server = payload["guild_id"].is_string();
    match payload["context"].as_u64() {
        Some(context) => context == PRIVATE_CHANNEL,
        None => {
            !is_in_server
                && payload
                    .pointer("/channel/type")
                    .and_then(Value::as_u64)
                    .is_some_and(|kind| kind != DIRECT)
        }
    }
}

/// Returns what the person typed after `/drydock`.
fn typed(payload: &Value) -> InboundKind {
    let words = payload.pointer("/data/options/0/value").and_then(Value::as_str);
    let words = words.unwrap_or_default().trim();
    invite(words).unwrap_or_else(|| command(words))
}

/// Returns the address for answers below that of the API. It is a path, so no request can lead to another server.
fn response_url(application: &str, token: &str, at: Timestamp) -> Option<ResponseUrl> {
    let expires_at = at.saturating_add(TOKEN_TIME_MAX).unwrap_or(at);
    is_token(token).then(|| ResponseUrl::new(format!("webhooks/{application}/{token}"), expires_at))
}

/// Returns the application and the token of an address for answers.
pub(super) fn answer_address(address: &str) -> Option<(u64, &str)> {
    let (application, token) = address.strip_prefix("webhooks/")?.split_once('/')?;
    let application = application.parse().ok().filter(|id| *id > 0)?;
    Some((application, token))
}

/// Returns the path at which a press is responded to, given its id and its address for answers, which has its token. A
/// press over HTTP has been responded to before.
pub(super) fn callback_path(id: &str, address: &str) -> Option<String> {
    let id: u64 = id.parse().ok().filter(|id| *id > 0)?;
    let (_, token) = answer_address(address)?;
    Some(format!("interactions/{id}/{token}/callback"))
}

fn is_token(token: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'=' | b'~');
    token.len() <= TOKEN_BYTES_MAX && token.bytes().all(is_part) && !token.contains("..")
}

/// Returns true for a press, whose response may be a form.
pub(super) fn may_open_form(payload: &Value) -> bool {
    payload["type"].as_u64() == Some(MESSAGE_COMPONENT)
}

/// Returns the response to an interaction that is stored or ignored: an answer follows, or nothing changes. Only a
/// person's own chat shows the answer to others than the person.
pub(super) fn response(payload: &Value) -> Value {
    match payload["type"].as_u64() {
        Some(PING) => json!({"type": 1}),
        Some(MESSAGE_COMPONENT | MODAL_SUBMIT) => json!({"type": 6}),
        _ if payload["guild_id"].is_string() || is_among_others(payload) => {
            json!({"type": 5, "data": {"flags": EPHEMERAL}})
        }
        _ => json!({"type": 5}),
    }
}

#[cfg(test)]
mod tests {
    use super::{decode, response};
    use crate::base::model::{Account, Installation, Platform};
    use crate::base::webhook::Received;
    use jiff::Timestamp;
    use serde_json::{Value, json};

    fn slash(place: &Value) -> Value {
        let mut payload = json!({"type": 2, "id": "7", "application_id": "1100000000000000001", "token": "t",
            "user": {"id": "1200000000000000001"}, "channel_id": "9",
            "data": {"name": "drydock", "options": [{"name": "words", "value": "diff"}]}});
        if let (Some(fields), Some(place)) = (payload.as_object_mut(), place.as_object()) {
            fields.extend(place.clone());
        }
        payload
    }

    /// T01: what is typed there would be read by people who were not admitted.
    #[test]
    fn a_command_in_a_private_chat_of_other_people_is_ignored_and_answered_to_nobody_else() {
        let installation = Installation {
            account: Account {
                platform: Platform::Discord,
                id: "1100000000000000001".to_owned(),
            },
            bot_id: "1100000000000000001".to_owned(),
            bot_name: "drydock".to_owned(),
        };
        for place in [
            json!({"context": 2}),
            json!({"context": 2, "channel": {"id": "9", "type": 1}}),
            json!({"channel": {"id": "9", "type": 3}}),
        ] {
            let payload = slash(&place);
            let received = decode(&payload, "team", &installation, Timestamp::UNIX_EPOCH);
            assert!(
                matches!(received, Ok(Received::Ignored(_))),
                "{place}: {received:?}"
            );
            assert_eq!(response(&payload)["data"]["flags"], 64, "{place}");
        }
        for (place, is_direct) in [
            (json!({"context": 1, "channel": {"id": "9", "type": 1}}), true),
            (json!({"guild_id": "5", "channel": {"id": "9", "type": 0}}), false),
        ] {
            let received = decode(&slash(&place), "team", &installation, Timestamp::UNIX_EPOCH);
            let Ok(Received::Inbound(inbound)) = received else {
                panic!("{place}: {received:?}");
            };
            assert_eq!(inbound.direct, is_direct, "{place}");
        }
    }
}
