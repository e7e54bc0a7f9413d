//! Decodes slash commands, button presses and the words of modals. Over Socket Mode they arrive as JSON.

use super::text;
use super::{Received, Rejected, SlackInstallation, text_at};
use crate::base::model::{Inbound, InboundKind, MessageRef, ResponseUrl};
use crate::interfaces::channel::slack::form::{CALLBACK, FIELD, FormPlace};
use crate::interfaces::channel::words::{command, invite};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use std::collections::BTreeMap;

/// The maximum number of form fields that are read; Slack sends about fifteen.
const FIELDS_MAX: usize = 64;
/// The maximum number of characters of a button's value, as Slack limits it.
const TOKEN_CHARS_MAX: usize = 2_000;
/// The maximum number of bytes of a response URL; Slack's have about 80.
const RESPONSE_URL_BYTES_MAX: usize = 512;
/// The time during which Slack accepts answers at a response URL. See
/// <https://docs.slack.dev/interactivity/handling-user-interaction>.
const RESPONSE_URL_KEPT: SignedDuration = SignedDuration::from_mins(30);

pub(super) fn decode(
    body: &[u8],
    installed: &SlackInstallation,
    at: Timestamp,
) -> Result<Received, Rejected> {
    let mut fields = BTreeMap::new();
    for (name, value) in form_urlencoded::parse(body).take(FIELDS_MAX) {
        if fields.insert(name.into_owned(), value.into_owned()).is_some() {
            return Err(Rejected::Malformed("a field of the form is repeated"));
        }
    }
    if fields.get("ssl_check").is_some_and(|value| value == "1") {
        return Ok(Received::Answer(String::new()));
    }
    if let Some(payload) = fields.get("payload") {
        let payload = serde_json::from_str(payload);
        let payload = payload.map_err(|_| Rejected::Malformed("the payload is not JSON"))?;
        return interaction(&payload, installed);
    }
    if fields.contains_key("command") {
        return slash_command(|name| fields.get(name).map(String::as_str), installed, at);
    }
    Err(Rejected::Malformed("the form is no command, press or modal"))
}

/// Decodes a command, given the values of its fields.
pub(super) fn slash_command<'a>(
    value: impl Fn(&str) -> Option<&'a str>,
    installed: &SlackInstallation,
    at: Timestamp,
) -> Result<Received, Rejected> {
    let field = |name: &str| value(name).filter(|value| !value.is_empty());
    let (Some(team), Some(user), Some(chat), Some(trigger)) = (
        field("team_id"),
        field("user_id"),
        field("channel_id"),
        field("trigger_id"),
    ) else {
        return Err(Rejected::Malformed(
            "the command lacks a sender, a channel or an id",
        ));
    };
    let words = text::parse_text(field("text").unwrap_or_default(), &installed.bot).text;
    let of_pipelines = field("command").filter(|typed| installed.commands.iter().any(|known| known == typed));
    let kind = invite(&words).unwrap_or_else(|| match of_pipelines {
        // No words of a person give a command that begins with a slash.
        Some(verb) => InboundKind::Command {
            verb: verb.to_owned(),
            arguments: words,
        },
        None => command(&words),
    });
    Ok(Received::Inbound(Box::new(Inbound {
        response_url: field("response_url")
            .filter(|url| url.len() <= RESPONSE_URL_BYTES_MAX)
            .map(|url| ResponseUrl::new(url.to_owned(), at.saturating_add(RESPONSE_URL_KEPT).unwrap_or(at))),
        ..installed.inbound(&format!("trigger:{trigger}"), (team, user), chat, kind)
    })))
}

pub(super) fn interaction(payload: &Value, installed: &SlackInstallation) -> Result<Received, Rejected> {
    match text_at(payload, "/type") {
        Some("block_actions") => press(payload, installed),
        Some("view_submission") => submission(payload, installed),
        Some(_) => Ok(Received::Ignored("unknown type of interaction")),
        None => Err(Rejected::Malformed("the interaction has no type")),
    }
}

/// Decodes the words of a form as a message of the person in the place for which the form asked.
fn submission(payload: &Value, installed: &SlackInstallation) -> Result<Received, Rejected> {
    if text_at(payload, "/view/callback_id") != Some(CALLBACK) {
        return Ok(Received::Ignored("a form of another kind"));
    }
    let words = format!("/view/state/values/{FIELD}/{FIELD}/value");
    let (Some(person), Some(view), Some(place), Some(words)) = (
        person(payload),
        text_at(payload, "/view/id"),
        text_at(payload, "/view/private_metadata"),
        text_at(payload, &words),
    ) else {
        return Err(Rejected::Malformed("the form lacks a sender, an id or words"));
    };
    let FormPlace { chat, thread, about } = serde_json::from_str(place)
        .map_err(|_| Rejected::Malformed("the form does not say where its button was"))?;
    let kind = InboundKind::Text {
        text: words.to_owned(),
        quoted: None,
        addressed: true,
    };
    let mut inbound = installed.inbound(&format!("view:{view}"), person, &chat, kind);
    inbound.place.thread = thread;
    inbound.about = Some(about);
    Ok(Received::Inbound(Box::new(inbound)))
}

/// Returns the workspace and the id of the user. `team` is the workspace where a button was pressed. In a shared channel,
/// only `user.team_id` is the workspace of the user who pressed it.
fn person(payload: &Value) -> Option<(&str, &str)> {
    let team = text_at(payload, "/user/team_id").or_else(|| text_at(payload, "/team/id"));
    Some((team?, text_at(payload, "/user/id")?))
}

fn press(payload: &Value, installed: &SlackInstallation) -> Result<Received, Rejected> {
    let Some(action) = payload.pointer("/actions/0") else {
        return Err(Rejected::Malformed("the press has no action"));
    };
    let token = match text_at(action, "/value") {
        Some(token) if text_at(action, "/type") == Some("button") => token,
        Some(_) | None => return Ok(Received::Ignored("a press without a token")),
    };
    if token.chars().count() > TOKEN_CHARS_MAX {
        return Err(Rejected::Malformed("the token of the press is too long"));
    }
    let chat = text_at(payload, "/container/channel_id").or_else(|| text_at(payload, "/channel/id"));
    let (Some(person), Some(chat), Some(trigger), Some(action_ts)) = (
        person(payload),
        chat,
        text_at(payload, "/trigger_id"),
        text_at(action, "/action_ts"),
    ) else {
        return Err(Rejected::Malformed(
            "the press lacks a sender, a channel or an id",
        ));
    };
    let message = text_at(payload, "/container/message_ts").or_else(|| text_at(payload, "/message/ts"));
    // An ephemeral message cannot be edited or reacted to, and begins no thread.
    let message = message.filter(|_| payload["container"]["is_ephemeral"] != true);
    let thread = text_at(payload, "/container/thread_ts")
        .or_else(|| text_at(payload, "/message/thread_ts"))
        .or(message);
    let kind = InboundKind::Click {
        token: token.to_owned(),
        callback: None,
        trigger: Some(trigger.to_owned()),
    };
    let name = format!("action:{trigger}:{action_ts}");
    let mut inbound = installed.inbound(&name, person, chat, kind);
    inbound.place.thread = thread.map(str::to_owned);
    inbound.message = message.map(|ts| MessageRef {
        chat: chat.to_owned(),
        id: ts.to_owned(),
    });
    Ok(Received::Inbound(Box::new(inbound)))
}
