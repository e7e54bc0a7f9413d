//! The history that a bot can read, in pages: the messages of a channel, newest first, and those of a thread, oldest
//! first.

use super::SlackOptions;
use super::api::{MethodResult, channel, field};
use super::state::{SlackMessage, SlackState};
use serde_json::{Value, json};

/// The maximum number of messages of a page.
const LIMIT_MAX: usize = 999;
/// The default number of messages of a page.
const LIMIT: usize = 100;

pub(super) fn history(state: &mut SlackState, options: &SlackOptions, body: &Value) -> MethodResult {
    let channel = readable(state, options, body)?;
    let at_root = |message: &&SlackMessage| message.channel == channel && message.thread_ts.is_none();
    let messages = state.messages.iter().rev().filter(at_root);
    page(state, messages.filter(|message| is_since(message, body)), body)
}

pub(super) fn replies(state: &mut SlackState, options: &SlackOptions, body: &Value) -> MethodResult {
    let channel = readable(state, options, body)?;
    let thread = field(body, "ts");
    let root = state.message(&channel, &thread).ok_or("thread_not_found")?;
    let replies = state.replies(&channel, &thread);
    // The root is always included.
    let included = std::iter::once(root).chain(replies.filter(|message| is_since(message, body)));
    page(state, included, body)
}

/// Returns the channel, if the bot may read it.
fn readable(state: &mut SlackState, options: &SlackOptions, body: &Value) -> Result<String, String> {
    let channel = channel(state, options, body)?;
    let scope = match channel.chars().next() {
        Some('D') => "im:history",
        Some('G') => "groups:history",
        Some(_) | None => "channels:history",
    };
    match state.has_scope(Some(scope)) {
        true => Ok(channel),
        false => Err("missing_scope".to_owned()),
    }
}

fn is_since(message: &SlackMessage, body: &Value) -> bool {
    let seconds = |ts: &str| ts.parse::<f64>().unwrap_or_default();
    seconds(&message.ts) > seconds(&field(body, "oldest"))
}

fn page<'a>(
    state: &SlackState,
    messages: impl Iterator<Item = &'a SlackMessage>,
    body: &Value,
) -> MethodResult {
    let limit = match body["limit"].as_str() {
        None => LIMIT,
        Some(limit) => limit
            .parse()
            .ok()
            .filter(|limit| (1..=LIMIT_MAX).contains(limit))
            .ok_or("invalid_limit")?,
    };
    let start: usize = match body["cursor"].as_str() {
        None => 0,
        Some(cursor) => cursor.parse().map_err(|_| "invalid_cursor")?,
    };
    let with_metadata = field(body, "include_all_metadata") == "true";
    let mut messages = messages.skip(start);
    let page: Vec<Value> = messages
        .by_ref()
        .take(limit)
        .map(|message| {
            let mut shown = shown(state, message);
            if with_metadata && let Some(metadata) = message.request.get("metadata") {
                shown["metadata"] = metadata.clone();
            }
            shown
        })
        .collect();
    let next = match messages.next() {
        Some(_) => (start + limit).to_string(),
        None => String::new(),
    };
    Ok(json!({"messages": page, "has_more": !next.is_empty(), "response_metadata": {"next_cursor": next}}))
}

fn shown(state: &SlackState, message: &SlackMessage) -> Value {
    let mut shown = json!({
        "type": "message",
        "user": message.user,
        "ts": message.ts,
        "text": message.text,
    });
    if let Some(thread) = &message.thread_ts {
        shown["thread_ts"] = json!(thread);
    }
    let files = state.files.iter().filter(|file| message.files.contains(&file.id));
    let files: Vec<Value> = files
        .map(|file| json!({"id": file.id, "name": file.name, "title": file.title}))
        .collect();
    if !files.is_empty() {
        shown["files"] = json!(files);
    }
    shown
}
