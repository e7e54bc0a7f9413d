//! The Web API methods. Each checks its request like Slack, and changes the workspace.

use super::app_home;
use super::check;
use super::code_channels;
use super::history;
use super::sent_files;
use super::sessions;
use super::sockets;
use super::state::{SharedFile, SlackMessage, SlackState, Upload};
use super::streams;
use super::views;
use super::{RateLimits, SlackOptions};
use jiff::{Span, Timestamp};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Instant;

/// The number of posts per minute in a channel: one a second, with short bursts.
const POSTS_A_MINUTE: usize = 60;
const BURST_POSTS_MAX: usize = 10;
const BURST_SECONDS: i64 = 5;
/// The maximum number of characters of a notification text; more is recorded as a problem.
const GOOD_TEXT_CHARS_MAX: usize = 4_000;
/// The methods that accept only forms.
pub(super) const FORM_ONLY: [&str; 4] = [
    "conversations.history",
    "conversations.replies",
    "files.info",
    "files.getUploadURLExternal",
];

/// The answer of a method: its fields, or an error code.
pub(super) type MethodResult = Result<Value, String>;

/// Runs an authorised call.
pub(super) fn call(
    state: &mut SlackState,
    options: &SlackOptions,
    base_url: &str,
    method: &str,
    body: &Value,
) -> Value {
    let answer = match method {
        _ if state.unknown_methods.contains(method) => Err("unknown_method".to_owned()),
        _ if !state.has_scope(required_scope(method)) => Err("missing_scope".to_owned()),
        "auth.test" => Ok(
            json!({"url": "https://acme.slack.com/", "team": "Acme", "team_id": options.team,
            "user": options.bot_name, "user_id": options.bot_user, "bot_id": "B0DRYDOCK"}),
        ),
        "chat.postMessage" => post(state, options, body),
        "chat.update" => update(state, options, body),
        "chat.postEphemeral" => ephemeral(state, options, body),
        "chat.startStream" => streams::start(state, options, body),
        "chat.appendStream" => streams::append(state, options, body),
        "chat.stopStream" => streams::stop(state, options, body),
        "conversations.history" => history::history(state, options, body),
        "conversations.replies" => history::replies(state, options, body),
        "apps.connections.open" => Ok(sockets::connections_open(state, options, base_url)),
        "views.open" => views::open(state, options, body),
        "views.publish" => app_home::publish(state, options, body),
        "agents.sessions.setStatus" => sessions::set_status(state, options, body),
        "agents.conversations.create" => code_channels::create(state, options, body),
        "agents.conversations.setView" => code_channels::set_view(state, options, body),
        "agents.conversations.archive" => code_channels::archive(state, options, body),
        "reactions.add" => react(state, body, Reaction::Add),
        "reactions.remove" => react(state, body, Reaction::Remove),
        "files.info" => sent_files::info(state, base_url, body),
        "files.getUploadURLExternal" => upload_url(state, base_url, body),
        "files.completeUploadExternal" => complete_upload(state, options, body),
        _ => Err("unknown_method".to_owned()),
    };
    state.record_call(method, answer.as_ref().err().cloned());
    match answer {
        Ok(mut fields) => {
            fields["ok"] = json!(true);
            fields
        }
        Err(code) => json!({"ok": false, "error": code}),
    }
}

/// Returns the scope that a method needs. Those of the history depend on the conversation.
fn required_scope(method: &str) -> Option<&'static str> {
    match method {
        "agents.sessions.setStatus" | "chat.postMessage" | "chat.update" | "chat.postEphemeral" => {
            Some("chat:write")
        }
        "chat.startStream" | "chat.appendStream" | "chat.stopStream" => Some("chat:write"),
        "agents.conversations.create" | "agents.conversations.setView" | "agents.conversations.archive" => {
            Some("code_channels:manage")
        }
        "reactions.add" | "reactions.remove" => Some("reactions:write"),
        "files.info" => Some("files:read"),
        "files.getUploadURLExternal" | "files.completeUploadExternal" => Some("files:write"),
        _ => None,
    }
}

/// Returns the seconds to wait before this call is allowed; `None` if it is allowed now.
pub(super) fn must_wait(
    state: &mut SlackState,
    limits: RateLimits,
    method: &str,
    body: &Value,
    at: Timestamp,
) -> Option<u64> {
    if limits == RateLimits::Off {
        return None;
    }
    let (bucket, per_minute) = match method {
        "chat.postMessage" => (format!("{method} {}", field(body, "channel")), POSTS_A_MINUTE),
        "agents.sessions.setStatus"
        | "agents.conversations.setView"
        | "chat.update"
        | "reactions.add"
        | "conversations.history"
        | "conversations.replies" => (method.to_owned(), 50),
        "chat.appendStream"
        | "chat.postEphemeral"
        | "auth.test"
        | "views.open"
        | "views.publish"
        | "files.info"
        | "files.getUploadURLExternal"
        | "files.completeUploadExternal" => (method.to_owned(), 100),
        _ => (method.to_owned(), 20),
    };
    let used = state.used.entry(bucket).or_default();
    let minute_ago = at.saturating_sub(Span::new().seconds(60)).unwrap_or(at);
    while used.front().is_some_and(|time| *time <= minute_ago) {
        used.pop_front();
    }
    let a_moment_ago = at
        .saturating_sub(Span::new().seconds(BURST_SECONDS))
        .unwrap_or(at);
    let recent = used.iter().rev().take_while(|time| **time > a_moment_ago);
    let is_burst = method == "chat.postMessage" && recent.count() >= BURST_POSTS_MAX;
    if used.len() < per_minute && !is_burst {
        used.push_back(at);
        return None;
    }
    if is_burst {
        return Some(BURST_SECONDS.unsigned_abs());
    }
    let oldest = used.front().map_or(at.as_second(), |time| time.as_second());
    Some((oldest + 60 - at.as_second()).clamp(1, 60).unsigned_abs())
}

fn post(state: &mut SlackState, options: &SlackOptions, body: &Value) -> MethodResult {
    let channel = channel(state, options, body)?;
    check_message(state, body)?;
    if let Some(metadata) = body.get("metadata")
        && (!metadata["event_type"].is_string() || !metadata["event_payload"].is_object())
    {
        return Err("invalid_metadata_format".to_owned());
    }
    let thread_ts = thread(state, &channel, body);
    let ts = state.next_ts((options.at)());
    state.messages.push(SlackMessage {
        channel: channel.clone(),
        ts: ts.clone(),
        thread_ts,
        user: options.bot_user.clone(),
        text: field(body, "text"),
        request: body.clone(),
        earlier: Vec::new(),
        reactions: BTreeSet::new(),
        edits: 0,
        shown_at: Instant::now(),
        files: Vec::new(),
    });
    Ok(json!({"channel": channel, "ts": ts, "message": {"text": field(body, "text"), "ts": ts}}))
}

fn update(state: &mut SlackState, options: &SlackOptions, body: &Value) -> MethodResult {
    let channel = channel(state, options, body)?;
    let ts = field(body, "ts");
    match state.message(&channel, &ts) {
        None => return Err("message_not_found".to_owned()),
        Some(message) if message.user != options.bot_user => return Err("cant_update_message".to_owned()),
        Some(_) if state.is_streaming(&channel, &ts) => return Err("streaming_state_conflict".to_owned()),
        Some(_) => {}
    }
    check_message(state, body)?;
    if let Some(message) = state.message_mut(&channel, &ts) {
        message.text = field(body, "text");
        let before = std::mem::replace(&mut message.request, body.clone());
        message.earlier.push(before);
        message.edits += 1;
        message.shown_at = Instant::now();
    }
    Ok(json!({"channel": channel, "ts": ts, "text": field(body, "text")}))
}

fn ephemeral(state: &mut SlackState, options: &SlackOptions, body: &Value) -> MethodResult {
    let channel = channel(state, options, body)?;
    let user = field(body, "user");
    let is_member = state
        .channels
        .get(&channel)
        .is_some_and(|members| members.contains(&user));
    if !is_member {
        return Err("user_not_in_channel".to_owned());
    }
    check_message(state, body)?;
    let thread_ts = thread(state, &channel, body);
    let ts = state.next_ts((options.at)());
    let ephemeral = SlackMessage {
        channel,
        ts: ts.clone(),
        thread_ts,
        user,
        text: field(body, "text"),
        request: body.clone(),
        earlier: Vec::new(),
        reactions: BTreeSet::new(),
        edits: 0,
        shown_at: Instant::now(),
        files: Vec::new(),
    };
    show_ephemeral(state, ephemeral);
    Ok(json!({"message_ts": ts}))
}

/// Shows an ephemeral message. In a thread without replies, Slack accepts it but shows it to no user, so this is
/// recorded as a problem. See `thread_ts` of <https://docs.slack.dev/reference/methods/chat.postEphemeral>.
fn show_ephemeral(state: &mut SlackState, ephemeral: SlackMessage) {
    if let Some(thread) = &ephemeral.thread_ts
        && state.replies(&ephemeral.channel, thread).next().is_none()
    {
        state.problems.push(format!(
            "a text for one person in thread `{thread}`, which has no replies: it is not shown"
        ));
        return;
    }
    state.ephemerals.push(ephemeral);
}

#[derive(Clone, Copy)]
enum Reaction {
    Add,
    Remove,
}

fn react(state: &mut SlackState, body: &Value, reaction: Reaction) -> MethodResult {
    let (channel, ts, name) = (
        field(body, "channel"),
        field(body, "timestamp"),
        field(body, "name"),
    );
    if !["eyes", "hourglass_flowing_sand", "white_check_mark", "x"].contains(&name.as_str()) {
        return Err("invalid_name".to_owned());
    }
    let Some(message) = state.message_mut(&channel, &ts) else {
        return Err("message_not_found".to_owned());
    };
    match reaction {
        Reaction::Add if !message.reactions.insert(name.clone()) => Err("already_reacted".to_owned()),
        Reaction::Remove if !message.reactions.remove(&name) => Err("no_reaction".to_owned()),
        Reaction::Add | Reaction::Remove => Ok(json!({})),
    }
}

fn upload_url(state: &mut SlackState, base_url: &str, body: &Value) -> MethodResult {
    let name = field(body, "filename");
    let length: usize = field(body, "length").parse().unwrap_or(0);
    if name.is_empty() || length == 0 {
        return Err("invalid_arguments".to_owned());
    }
    let id = state.next_id("F");
    state.uploads.insert(
        id.clone(),
        Upload {
            name,
            length,
            content: None,
        },
    );
    Ok(json!({"upload_url": format!("{base_url}/upload/{id}"), "file_id": id}))
}

fn complete_upload(state: &mut SlackState, options: &SlackOptions, body: &Value) -> MethodResult {
    let channel = channel_named(state, options, &field(body, "channel_id"))?;
    let files: Vec<(String, String)> = body["files"]
        .as_array()
        .map(|files| {
            files
                .iter()
                .map(|file| (field(file, "id"), field(file, "title")))
                .collect()
        })
        .unwrap_or_default();
    let ids: Vec<String> = files.iter().map(|(id, _)| id.clone()).collect();
    if ids.is_empty() {
        return Err("invalid_arguments".to_owned());
    }
    let uploaded = |id: &String| {
        state
            .uploads
            .get(id)
            .is_some_and(|upload| upload.content.is_some())
    };
    if !ids.iter().all(uploaded) {
        return Err("file_not_found".to_owned());
    }
    let thread_ts = thread(state, &channel, body);
    for (id, title) in files {
        if let Some(upload) = state.uploads.remove(&id) {
            state.files.push(SharedFile {
                // Without a title, the file's name is its title.
                title: if title.is_empty() {
                    upload.name.clone()
                } else {
                    title
                },
                id,
                name: upload.name,
                content: upload.content.unwrap_or_default(),
                channel: channel.clone(),
                thread_ts: thread_ts.clone(),
            });
        }
    }
    let ts = state.next_ts((options.at)());
    state.messages.push(SlackMessage {
        channel,
        ts,
        thread_ts,
        user: options.bot_user.clone(),
        text: field(body, "initial_comment"),
        // A comment has no options for names and addresses; Slack parses only its markup.
        request: json!({"link_names": false, "parse": "none"}),
        earlier: Vec::new(),
        reactions: BTreeSet::new(),
        edits: 0,
        shown_at: Instant::now(),
        files: ids,
    });
    Ok(json!({"files": body["files"]}))
}

pub(super) fn check_message(state: &mut SlackState, body: &Value) -> Result<(), String> {
    let mut blocks = body["blocks"].as_array().into_iter().flatten();
    let is_unknown = |block: &Value| {
        let mut unknown = state.unknown_blocks.iter();
        unknown.any(|kind| block["type"] == *kind)
    };
    if blocks.any(is_unknown) {
        return Err("invalid_blocks".to_owned());
    }
    check::message(body).map_err(|refusal| {
        state.problems.push(format!("{}: {}", refusal.code, refusal.why));
        refusal.code.to_owned()
    })?;
    let text = body["text"].as_str().unwrap_or_default();
    if text.trim().is_empty() {
        state
            .problems
            .push("a message without a text for notifications".to_owned());
    }
    if text.chars().count() > GOOD_TEXT_CHARS_MAX {
        state
            .problems
            .push("a notification text of more than 4,000 characters".to_owned());
    }
    Ok(())
}

pub(super) fn channel(
    state: &mut SlackState,
    options: &SlackOptions,
    body: &Value,
) -> Result<String, String> {
    channel_named(state, options, &field(body, "channel"))
}

pub(super) fn channel_named(
    state: &mut SlackState,
    options: &SlackOptions,
    id: &str,
) -> Result<String, String> {
    let code = match state.channels.get(id) {
        None => "channel_not_found",
        Some(members) if !members.contains(&options.bot_user) => "not_in_channel",
        Some(_) => return Ok(id.to_owned()),
    };
    // A refusal is no problem where a user has typed a command: the bot cannot know that it is not in that channel.
    if !state.responses.values().any(|response| response.channel == id) {
        state.problems.push(format!("{code}: `{id}`"));
    }
    Err(code.to_owned())
}

/// Returns the thread of a message. Slack accepts any id; an id that does not exist is recorded as a problem.
fn thread(state: &mut SlackState, channel: &str, body: &Value) -> Option<String> {
    let thread_ts = body["thread_ts"].as_str()?.to_owned();
    if state.message(channel, &thread_ts).is_none() {
        state.problems.push(format!(
            "a reply in thread `{thread_ts}`, which `{channel}` does not have"
        ));
    }
    Some(thread_ts)
}

pub(super) fn field(body: &Value, name: &str) -> String {
    body[name].as_str().unwrap_or_default().to_owned()
}
