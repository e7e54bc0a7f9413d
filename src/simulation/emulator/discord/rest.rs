//! The routes of the HTTP API that an application needs. Each checks its body and then takes effect.

use super::SharedDiscord;
use super::check::{BodyUse, DiscordRefusal, check_body};
use super::history;
use super::interactions::{callback, follow_up, original};
use super::state::{
    DiscordMessage, DiscordState, EmulatedChannel, bot_json, channel_json, listed_channel, user_json,
};
use bytes::Bytes;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use twilight_model::gateway::Intents;

/// A call of the API.
#[derive(Debug)]
pub(super) struct DiscordCall {
    pub(super) method: String,
    /// The parts of the path below the version.
    pub(super) path: Vec<String>,
    pub(super) query: Vec<(String, String)>,
    pub(super) body: Value,
    pub(super) files: Vec<(String, Bytes)>,
}

impl DiscordCall {
    /// Returns the method and the route without ids, such as `POST channels/messages`.
    pub(super) fn route(&self) -> String {
        let is_name =
            |part: &&String| part.starts_with('@') || part.bytes().all(|byte| byte.is_ascii_lowercase());
        let is_token = |index: usize| {
            let after = |name: &str, distance: usize| {
                index >= distance && self.path.get(index - distance).is_some_and(|part| part == name)
            };
            after("interactions", 2) || after("webhooks", 2) || after("reactions", 1)
        };
        let names = self
            .path
            .iter()
            .enumerate()
            .filter(|(index, part)| is_name(part) && !is_token(*index));
        let names: Vec<&str> = names.map(|(_, part)| part.as_str()).collect();
        format!("{} {}", self.method, names.join("/"))
    }

    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        let mut query = self.query.iter();
        query.find_map(|(key, value)| (key == name).then_some(value.as_str()))
    }
}

/// The status and the body of an answer.
pub(super) type RestAnswer = Result<(u16, Value), DiscordRefusal>;

/// Runs a call.
pub(super) fn run(state: &mut DiscordState, shared: &SharedDiscord, call: &DiscordCall) -> RestAnswer {
    let path: Vec<&str> = call.path.iter().map(String::as_str).collect();
    let options = &shared.options;
    match (call.method.as_str(), path.as_slice()) {
        ("GET", ["gateway", "bot"]) => Ok((
            200,
            json!({"url": shared.gateway_url(), "shards": 1, "session_start_limit": {"total": 1000,
                "remaining": 1000_u64.saturating_sub(state.gateway.identified), "reset_after": 0, "max_concurrency": 1}}),
        )),
        ("GET", ["users", "@me"]) => Ok((200, bot_json(options.bot))),
        ("GET", ["users", "@me", "guilds"]) => Ok((
            200,
            json!([{"id": options.guild.to_string(), "name": "Stage", "icon": null, "owner": false,
                "permissions": "0", "features": []}]),
        )),
        ("GET", ["guilds", guild, "channels"]) => history::channels(state, shared, guild),
        ("GET", ["guilds", guild, "threads", "active"]) => history::active_threads(state, shared, guild),
        ("GET", ["applications", "@me"]) => {
            let flags = if state.gateway.has_message_content {
                1_u64 << 18
            } else {
                0
            };
            let mut bot = bot_json(options.bot);
            bot["username"] = json!("drydock");
            Ok((
                200,
                json!({"id": options.application.to_string(), "name": "Drydock", "flags": flags, "bot": bot,
                    "interactions_endpoint_url": state.endpoint}),
            ))
        }
        ("GET", ["applications", _, "commands"]) => Ok((200, json!(state.commands))),
        ("POST", ["applications", _, "commands"]) => register(state, shared, call),
        ("POST", ["users", "@me", "channels"]) => {
            let person = number(call.body["recipient_id"].as_str())?;
            if options.closed_to.contains(&person) {
                return Err(DiscordRefusal::expected(
                    403,
                    50_007,
                    "Cannot send messages to this user",
                ));
            }
            let id = state.open_direct(person, (options.at)());
            Ok((200, json!({"id": id.to_string(), "type": 1})))
        }
        ("GET", ["channels", id]) => {
            let id = number(Some(id))?;
            let channel = state.channels.get(&id).ok_or_else(unknown_channel)?;
            Ok((200, listed_channel(state, id, channel, options.guild)))
        }
        ("POST", ["channels", channel, "messages"]) => create(state, shared, number(Some(channel))?, call),
        ("GET", ["channels", channel, "messages"]) => {
            history::messages(state, shared, number(Some(channel))?, call)
        }
        ("PATCH", ["channels", channel, "messages", id]) => {
            let (channel, id) = (number(Some(channel))?, number(Some(id))?);
            let of_bot = |message: &DiscordMessage| message.author == options.bot;
            if !message(state, channel, id).is_some_and(of_bot) {
                let mut refusal = DiscordRefusal::expected(404, 10_008, "Unknown Message");
                refusal.is_problem = message(state, channel, id).is_some();
                return Err(refusal);
            }
            let pinged = check_body(&call.body, 0, BodyUse::Message)?;
            Ok((200, edit(state, shared, id, &call.body, pinged)))
        }
        (method @ ("PUT" | "DELETE"), ["channels", channel, "messages", id, "reactions", emoji, "@me"]) => {
            react(state, number(Some(channel))?, number(Some(id))?, method, emoji)
        }
        ("POST", ["channels", channel, "messages", id, "threads"]) => {
            thread(state, shared, number(Some(channel))?, number(Some(id))?, call)
        }
        ("POST", ["interactions", id, token, "callback"]) => callback(state, shared, id, token, call),
        ("POST", ["webhooks", application, token]) => follow_up(state, shared, application, token, call),
        (method @ ("GET" | "PATCH"), ["webhooks", application, token, "messages", "@original"]) => {
            original(state, shared, application, token, method, call)
        }
        _ => Err(DiscordRefusal {
            is_problem: true,
            ..DiscordRefusal::expected(404, 0, "404: Not Found")
        }),
    }
}

fn number(id: Option<&str>) -> Result<u64, DiscordRefusal> {
    let number = id.and_then(|id| id.parse().ok());
    number.ok_or_else(|| DiscordRefusal::invalid("id", "NUMBER_TYPE_COERCE", "not a snowflake"))
}

pub(super) fn unknown_channel() -> DiscordRefusal {
    DiscordRefusal::expected(404, 10_003, "Unknown Channel")
}

fn message(state: &DiscordState, channel: u64, id: u64) -> Option<&DiscordMessage> {
    let mut messages = state.messages.iter();
    messages.find(|message| message.id == id && message.channel == channel)
}

fn register(state: &mut DiscordState, shared: &SharedDiscord, call: &DiscordCall) -> RestAnswer {
    let name = call.body["name"].as_str().unwrap_or_default();
    let description = call.body["description"].as_str().unwrap_or_default();
    let is_name = (1..=32).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_lowercase());
    if !is_name || !(1..=100).contains(&description.chars().count()) {
        return Err(DiscordRefusal::invalid(
            "name",
            "APPLICATION_COMMAND_INVALID_NAME",
            "not a command",
        ));
    }
    let is_list_of = |field: &str, values: &[u64]| {
        let list = call.body[field].as_array();
        list.is_some_and(|list| {
            !list.is_empty() && list.iter().all(|one| values.iter().any(|value| one == value))
        })
    };
    if !is_list_of("contexts", &[0, 1, 2]) || !is_list_of("integration_types", &[0, 1]) {
        return Err(DiscordRefusal::invalid(
            "contexts",
            "BASE_TYPE_CHOICES",
            "where the command is offered must be stated",
        ));
    }
    let is_new = !state.commands.iter().any(|command| command["name"] == name);
    state.commands.retain(|command| command["name"] != name);
    let mut command = call.body.clone();
    command["id"] = json!(state.next_id((shared.options.at)()).to_string());
    state.commands.push(command.clone());
    Ok((if is_new { 201 } else { 200 }, command))
}

fn create(state: &mut DiscordState, shared: &SharedDiscord, channel: u64, call: &DiscordCall) -> RestAnswer {
    if !state.channels.contains_key(&channel) {
        return Err(unknown_channel());
    }
    let pinged = check_body(&call.body, call.files.len(), BodyUse::Message)?;
    let nonce = call.body["nonce"].as_str().map(str::to_owned);
    if call.body["enforce_nonce"] == true {
        let same = |message: &&DiscordMessage| {
            message.channel == channel && message.nonce.is_some() && message.nonce == nonce
        };
        if let Some(same) = state.messages.iter().find(same) {
            return Ok((200, message_json(same, shared, NonceUse::Shown)));
        }
    }
    let replies_to = call.body["message_reference"]["message_id"]
        .as_str()
        .and_then(|id| id.parse().ok());
    if let Some(replied) = replies_to
        && message(state, channel, replied).is_none()
        && call.body["message_reference"]["fail_if_not_exists"] != false
    {
        return Err(DiscordRefusal::invalid(
            "message_reference",
            "REPLIES_UNKNOWN_MESSAGE",
            "Unknown message",
        ));
    }
    let created = DiscordMessage {
        pinged,
        nonce,
        replies_to,
        files: call.files.clone(),
        ..bot_message(state, shared, channel, &call.body)
    };
    let json = message_json(&created, shared, NonceUse::Shown);
    state.messages.push(created);
    Ok((200, json))
}

/// Returns a message of the bot without pings and files.
pub(super) fn bot_message(
    state: &mut DiscordState,
    shared: &SharedDiscord,
    channel: u64,
    body: &Value,
) -> DiscordMessage {
    DiscordMessage {
        id: state.next_id((shared.options.at)()),
        channel,
        author: shared.options.bot,
        content: body["content"].as_str().unwrap_or_default().trim().to_owned(),
        components: body["components"].clone(),
        flags: body["flags"].as_u64().unwrap_or_default(),
        nonce: None,
        files: Vec::new(),
        pinged: Vec::new(),
        reactions: BTreeSet::new(),
        edits: 0,
        only_for: None,
        replies_to: None,
        kind: 0,
        fields: json!({}),
    }
}

pub(super) fn edit(
    state: &mut DiscordState,
    shared: &SharedDiscord,
    id: u64,
    body: &Value,
    pinged: Vec<u64>,
) -> Value {
    let Some(edited) = state.messages.iter_mut().find(|message| message.id == id) else {
        return Value::Null;
    };
    edited.content = body["content"].as_str().unwrap_or_default().trim().to_owned();
    if body.get("components").is_some() {
        edited.components = body["components"].clone();
    }
    edited.pinged = pinged;
    edited.edits += 1;
    message_json(edited, shared, NonceUse::Shown)
}

fn react(state: &mut DiscordState, channel: u64, id: u64, method: &str, emoji: &str) -> RestAnswer {
    let found = state
        .messages
        .iter_mut()
        .find(|message| message.id == id && message.channel == channel);
    let Some(message) = found else {
        return Err(DiscordRefusal::expected(404, 10_008, "Unknown Message"));
    };
    if !emoji.starts_with('%') {
        return Err(DiscordRefusal {
            is_problem: true,
            ..DiscordRefusal::expected(400, 10_014, "Unknown Emoji")
        });
    }
    match method {
        "PUT" => message.reactions.insert(emoji.to_owned()),
        _ => message.reactions.remove(emoji),
    };
    Ok((204, Value::Null))
}

fn thread(
    state: &mut DiscordState,
    shared: &SharedDiscord,
    channel: u64,
    id: u64,
    call: &DiscordCall,
) -> RestAnswer {
    let kind = state.channels.get(&channel).ok_or_else(unknown_channel)?.kind;
    let thread_kind = match kind {
        0 => 11,
        5 => 10,
        _ => {
            return Err(DiscordRefusal::expected(
                400,
                50_024,
                "Cannot execute action on this channel type",
            ));
        }
    };
    if message(state, channel, id).is_none() {
        return Err(DiscordRefusal::expected(404, 10_008, "Unknown Message"));
    }
    if state.channels.contains_key(&id) {
        let why = "A thread has already been created for this message";
        return Err(DiscordRefusal::expected(400, 160_004, why));
    }
    let name = call.body["name"].as_str().unwrap_or_default().chars().count();
    let duration = call.body["auto_archive_duration"].as_u64();
    if !(1..=100).contains(&name)
        || duration.is_some_and(|minutes| ![60, 1_440, 4_320, 10_080].contains(&minutes))
    {
        return Err(DiscordRefusal::invalid(
            "name",
            "BASE_TYPE_BAD_LENGTH",
            "Must be between 1 and 100 in length.",
        ));
    }
    let created = EmulatedChannel {
        kind: thread_kind,
        parent: Some(channel),
        person: None,
    };
    let json = channel_json(id, &created, shared.options.guild);
    state.channels.insert(id, created);
    // The first message of a thread points to the message from which it was started.
    let starter = DiscordMessage {
        kind: 21,
        ..bot_message(state, shared, id, &json!({}))
    };
    state.messages.push(starter);
    state.gateway.dispatch("THREAD_CREATE", &json, Intents::GUILDS);
    Ok((201, json))
}

/// The nonce in a message object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NonceUse {
    /// It is shown, as with a new message.
    Shown,
    /// It is left out.
    Hidden,
}

/// Returns a message object.
pub(super) fn message_json(message: &DiscordMessage, shared: &SharedDiscord, nonce_use: NonceUse) -> Value {
    let author = match message.author == shared.options.bot {
        true => bot_json(message.author),
        false => user_json(message.author),
    };
    let files: Vec<Value> = message
        .files
        .iter()
        .enumerate()
        .map(|(index, (name, content))| {
            json!({"id": (index + 1).to_string(), "filename": name, "size": content.len(), "url": "", "proxy_url": ""})
        })
        .collect();
    let mut json = json!({"id": message.id.to_string(), "channel_id": message.channel.to_string(),
        "author": author, "content": message.content, "type": message.kind,
        "flags": message.flags, "attachments": files, "components": message.components, "embeds": [],
        "mentions": [], "mention_roles": [], "mention_everyone": false, "pinned": false, "tts": false,
        "timestamp": "2026-11-21T12:00:00.000000+00:00", "edited_timestamp": null});
    if nonce_use == NonceUse::Shown
        && let Some(nonce) = &message.nonce
    {
        json["nonce"] = json!(nonce);
    }
    if let (Some(json), Some(fields)) = (json.as_object_mut(), message.fields.as_object()) {
        json.extend(fields.clone());
    }
    json
}
