//! The Events API: decides which messages are addressed to Drydock.

use super::text::{self, MessageText};
use super::{DeliveryTime, Received, Rejected, SlackInstallation, is_direct_id, text_at};
use crate::base::model::{ChatFile, Inbound, InboundKind, MessageRef};
use crate::interfaces::channel::slack::agent_session::STOPPED_EVENT;
use crate::interfaces::channel::slack::home::{HOME_TAB, OPENED_EVENT};
use crate::interfaces::channel::words::invite;
use serde_json::Value;

/// The maximum number of characters of a challenge that is echoed.
const CHALLENGE_CHARS_MAX: usize = 256;
/// The maximum number of files of a message that are decoded.
const FILES_MAX: usize = 32;

pub(super) fn decode(
    body: &[u8],
    installed: &SlackInstallation,
    time: DeliveryTime,
) -> Result<Received, Rejected> {
    let envelope = serde_json::from_slice(body).map_err(|_| Rejected::Malformed("the body is not JSON"))?;
    decode_json(&envelope, installed, time)
}

/// Decodes the JSON of a request, which is also the payload of an envelope of Socket Mode.
pub(super) fn decode_json(
    envelope: &Value,
    installed: &SlackInstallation,
    time: DeliveryTime,
) -> Result<Received, Rejected> {
    match text_at(envelope, "/type") {
        Some("url_verification") => challenge(envelope),
        Some("event_callback") => event(envelope, installed, time),
        Some("app_rate_limited") => Ok(Received::Ignored("slack limits the rate of events")),
        Some(_) => Ok(Received::Ignored("unknown type of envelope")),
        None => Err(Rejected::Malformed("the body is not an event")),
    }
}

fn challenge(envelope: &Value) -> Result<Received, Rejected> {
    let challenge = text_at(envelope, "/challenge").ok_or(Rejected::Malformed("the challenge is missing"))?;
    if challenge.chars().count() > CHALLENGE_CHARS_MAX {
        return Err(Rejected::Malformed("the challenge is too long"));
    }
    Ok(Received::Answer(challenge.to_owned()))
}

fn event(envelope: &Value, installed: &SlackInstallation, time: DeliveryTime) -> Result<Received, Rejected> {
    if is_for_another_workspace(envelope, installed) {
        return Ok(Received::Ignored("event of another installation"));
    }
    match text_at(envelope, "/event/type") {
        Some("message" | "app_mention" | "message.im") => message(envelope, installed),
        Some(STOPPED_EVENT) => press_of_stop(envelope, installed, time),
        Some(OPENED_EVENT) => home_opened(envelope, installed),
        Some("app_uninstalled") => Ok(Received::Ignored("the app was uninstalled")),
        Some("tokens_revoked") => Ok(Received::Ignored("tokens were revoked")),
        Some(_) => Ok(Received::Ignored("unknown type of event")),
        None => Err(Rejected::Malformed("the event has no type")),
    }
}

fn is_for_another_workspace(envelope: &Value, installed: &SlackInstallation) -> bool {
    let Some(authorizations) = envelope.get("authorizations").and_then(Value::as_array) else {
        return false;
    };
    let mut teams = authorizations
        .iter()
        .filter_map(|authorization| text_at(authorization, "/team_id"))
        .peekable();
    teams.peek().is_some() && teams.all(|team| team != installed.account.id)
}

fn message(envelope: &Value, installed: &SlackInstallation) -> Result<Received, Rejected> {
    let event = &envelope["event"];
    if let Some(reason) = ignore_reason(event, installed) {
        return Ok(Received::Ignored(reason));
    }
    let (Some(mut inbound), Some(ts)) = (inbound_of(envelope, installed), text_at(event, "/ts")) else {
        return Err(Rejected::Malformed(
            "the message lacks an id, a channel or a sender",
        ));
    };
    let chat = inbound.place.chat.clone();
    let Some(kind) = kind(event, &chat, &installed.bot) else {
        return Ok(Received::Ignored("a message without words"));
    };
    inbound.kind = kind;
    inbound
        .delivery
        .extend(names_of_message(event, &chat, ts, installed));
    inbound.place.thread = Some(text_at(event, "/thread_ts").unwrap_or(ts).to_owned());
    inbound.direct = is_direct(event, &chat);
    inbound.files = files_of(event);
    inbound.message = Some(MessageRef {
        chat,
        id: ts.to_owned(),
    });
    Ok(Received::Inbound(Box::new(inbound)))
}

/// Returns the workspace of the sender. In a shared channel the envelope names our workspace, and the event names the
/// sender's own.
fn team_of_sender<'a>(event: &'a Value, envelope: &'a Value) -> Option<&'a str> {
    let mut names = ["/user_team", "/source_team", "/team", "/team_id"].into_iter();
    let own = names.find_map(|name| text_at(event, name));
    own.or_else(|| text_at(envelope, "/team_id"))
}

/// Decodes a press of the Stop button of Slack: a `stop` of the person in the thread of the session, of the work that ran
/// when they pressed. See <https://docs.slack.dev/reference/events/agent_session_stopped>.
fn press_of_stop(
    envelope: &Value,
    installed: &SlackInstallation,
    time: DeliveryTime,
) -> Result<Received, Rejected> {
    let Some(mut inbound) = inbound_of(envelope, installed) else {
        return Err(Rejected::Malformed("the stop lacks an id, a channel or a sender"));
    };
    let Some(thread) = text_at(envelope, "/event/thread_ts") else {
        return Ok(Received::Ignored("a stop outside of a thread"));
    };
    let pressed_at = text_at(envelope, "/event/event_ts").and_then(|event_ts| time.ours(event_ts));
    inbound.place.thread = Some(thread.to_owned());
    inbound.kind = InboundKind::Command {
        verb: "stop".to_owned(),
        arguments: pressed_at.map_or_else(String::new, |pressed| format!("at {pressed}")),
    };
    Ok(Received::Inbound(Box::new(inbound)))
}

/// Decodes the opening of the Home tab. The event names no workspace of the person, so the envelope does. See
/// <https://docs.slack.dev/reference/events/app_home_opened>.
fn home_opened(envelope: &Value, installed: &SlackInstallation) -> Result<Received, Rejected> {
    if text_at(envelope, "/event/tab") != Some(HOME_TAB) {
        return Ok(Received::Ignored("another tab of the app was opened"));
    }
    match inbound_of(envelope, installed) {
        Some(inbound) => Ok(Received::Inbound(Box::new(Inbound {
            direct: true,
            ..inbound
        }))),
        None => Err(Rejected::Malformed(
            "the opening lacks an id, a channel or a user",
        )),
    }
}

/// Returns an event of a person as the opening of the Home tab, which has only the fields of every event; `None` if it
/// lacks one of them.
fn inbound_of(envelope: &Value, installed: &SlackInstallation) -> Option<Inbound> {
    let event = envelope.get("event")?;
    let person = (team_of_sender(event, envelope)?, text_at(event, "/user")?);
    let name = format!("event:{}", text_at(envelope, "/event_id")?);
    let chat = text_at(event, "/channel")?;
    Some(installed.inbound(&name, person, chat, InboundKind::HomeOpened))
}

/// Returns the reason why a message is not a user's request, if there is one. Bots must not trigger each other, and
/// an edited message must not start a second turn.
fn ignore_reason(event: &Value, installed: &SlackInstallation) -> Option<&'static str> {
    match text_at(event, "/subtype") {
        None | Some("file_share" | "thread_broadcast") => {}
        Some("bot_message") => return Some("message of a bot"),
        Some("message_changed" | "message_deleted") => return Some("a message was edited or deleted"),
        Some(_) => return Some("a notice of slack, not a message"),
    }
    let is_set = |name: &str| event.get(name).is_some_and(|value| !value.is_null());
    let user = text_at(event, "/user");
    if user == Some(installed.bot.as_str()) {
        return Some("message of our own");
    }
    if is_set("bot_id") || is_set("bot_profile") || user == Some("USLACKBOT") {
        return Some("message of a bot");
    }
    if event.get("hidden").and_then(Value::as_bool) == Some(true) {
        return Some("hidden message");
    }
    if is_set("edited") {
        return Some("a message was edited or deleted");
    }
    None
}

fn is_direct(event: &Value, chat: &str) -> bool {
    match text_at(event, "/channel_type") {
        Some(channel_type) => channel_type == "im",
        None => is_direct_id(chat),
    }
}

fn kind(event: &Value, chat: &str, bot: &str) -> Option<InboundKind> {
    let MessageText { text, mentions_bot } =
        text::parse_text(text_at(event, "/text").unwrap_or_default(), bot);
    let addressed = is_direct(event, chat) || mentions_bot || text_at(event, "/type") == Some("app_mention");
    if let Some(join) = invite(&text) {
        return Some(join);
    }
    let quoted = text::quoted(event);
    if !text.is_empty() || quoted.is_some() {
        return Some(InboundKind::Text {
            text,
            quoted,
            addressed,
        });
    }
    if !files_of(event).is_empty() {
        return Some(InboundKind::Unsupported {
            what: "file".to_owned(),
        });
    }
    // A message with only the bot's name is treated as a request for help.
    addressed.then(|| InboundKind::Command {
        verb: "help".to_owned(),
        arguments: String::new(),
    })
}

/// Returns the files that a message shares. An `app_mention` has them like the `message` beside it. See
/// <https://docs.slack.dev/reference/events/message/file_share>.
fn files_of(event: &Value) -> Vec<ChatFile> {
    let files = event.get("files").and_then(Value::as_array);
    let files = files.map(Vec::as_slice).unwrap_or_default();
    files.iter().take(FILES_MAX).map(file_of).collect()
}

/// Decodes a file object. See <https://docs.slack.dev/reference/objects/file-object>. Slack does not have the content of an
/// external file.
fn file_of(file: &Value) -> ChatFile {
    let is_external = text_at(file, "/mode") == Some("external");
    let kind = text_at(file, "/mimetype").unwrap_or_default();
    let is_media = ["image/", "video/", "audio/"]
        .iter()
        .any(|media| kind.starts_with(media));
    let reference = text_at(file, "/id").filter(|_| !is_external && !is_media);
    ChatFile {
        name: text_at(file, "/name").unwrap_or("file").to_owned(),
        bytes: file.get("size").and_then(Value::as_u64),
        reference: reference.map(str::to_owned),
    }
}

/// Returns the identities of one message. `message` and `app_mention` of the same message share its `ts`; a client
/// that sends a message twice repeats its own id. If two of our apps are in one workspace, both receive the message,
/// and each has its own identities for it.
fn names_of_message(event: &Value, chat: &str, ts: &str, installed: &SlackInstallation) -> Vec<String> {
    let (channel, team) = (&installed.channel, &installed.account.id);
    let of_client = text_at(event, "/client_msg_id").map(|id| format!("slack:{channel}:client:{team}:{id}"));
    let own = format!("slack:{channel}:{team}:{chat}:{ts}");
    std::iter::once(own).chain(of_client).collect()
}
