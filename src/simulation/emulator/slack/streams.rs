//! Streamed messages: text, tasks and blocks that an app appends to a message of its own until it or a person stops it.
//! See <https://docs.slack.dev/reference/methods/chat.startStream>.

use super::api::{MethodResult, channel, field};
use super::check;
use super::mentions;
use super::sessions::STATUSES;
use super::state::{SlackMessage, SlackState};
use super::{SlackEmulator, SlackOptions};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Instant;

const DISPLAY_MODES: [&str; 2] = ["timeline", "plan"];
const TEXT_CHARS_MAX: usize = 12_000;
const TITLE_CHARS_MAX: usize = 256;
const BLOCKS_MAX: usize = 50;
const NOT_STREAMING: &str = "message_not_in_streaming_state";

/// A message that is or was streamed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SlackStream {
    /// True until the stream is stopped.
    pub is_open: bool,
    /// The chunks so far, oldest first.
    pub chunks: Vec<Value>,
    /// The user for whom it is.
    pub recipient: String,
}

impl SlackStream {
    /// Returns the blocks that users see: tasks together in a plan, at the place of the first one.
    fn blocks(&self) -> Vec<Value> {
        let mut blocks: Vec<Value> = Vec::new();
        let mut plan = json!({"type": "plan", "title": "", "tasks": []});
        let mut plan_at = None;
        for chunk in &self.chunks {
            match chunk["type"].as_str() {
                Some("plan_update") => plan["title"] = chunk["title"].clone(),
                Some("task_update") => set_task(&mut plan["tasks"], chunk),
                Some("markdown_text") => blocks.push(json!({"type": "markdown", "text": chunk["text"]})),
                Some("blocks") => blocks.extend(chunk["blocks"].as_array().into_iter().flatten().cloned()),
                Some(_) | None => {}
            }
            if ["plan_update", "task_update"]
                .map(Value::from)
                .contains(&chunk["type"])
            {
                plan_at.get_or_insert(blocks.len());
            }
        }
        if let Some(at) = plan_at {
            blocks.insert(at, plan);
        }
        blocks
    }

    /// Returns the request of a message that looks like the stream. Its text is that of its blocks.
    fn as_request(&self) -> Value {
        let blocks = self.blocks();
        let lines: Vec<String> = blocks.iter().map(mentions::visible).collect();
        let text = lines
            .join("\n")
            .replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;");
        json!({"text": text, "link_names": false, "parse": "none", "blocks": blocks})
    }
}

/// Adds a task, or replaces the title and the state of the task with its id.
fn set_task(tasks: &mut Value, chunk: &Value) {
    let card = json!({"type": "task_card", "task_id": chunk["id"], "title": chunk["title"],
        "status": chunk["status"]});
    let Some(tasks) = tasks.as_array_mut() else { return };
    match tasks.iter_mut().find(|task| task["task_id"] == chunk["id"]) {
        Some(task) => *task = card,
        None => tasks.push(card),
    }
}

/// Begins a stream in a thread.
pub(super) fn start(state: &mut SlackState, options: &SlackOptions, body: &Value) -> MethodResult {
    // Slack documents streams for agents, and no error for other apps.
    if !state.is_agent() {
        return Err("access_denied".to_owned());
    }
    let channel = channel(state, options, body)?;
    let (user, team) = (field(body, "recipient_user_id"), field(body, "recipient_team_id"));
    let needs_recipient = !channel.starts_with('D');
    if user.is_empty() && needs_recipient {
        return Err("missing_recipient_user_id".to_owned());
    }
    if team.is_empty() && needs_recipient {
        return Err("missing_recipient_team_id".to_owned());
    }
    if !user.is_empty() && state.users.get(&user) != Some(&team) {
        return Err("user_not_found".to_owned());
    }
    let thread = field(body, "thread_ts");
    let is_root = |message: &SlackMessage| message.thread_ts.is_none();
    if !state.message(&channel, &thread).is_some_and(is_root) {
        return Err(refused(
            state,
            "invalid_arguments",
            "a stream without the root of a thread",
        ));
    }
    let mode = body
        .get("task_display_mode")
        .map(|mode| mode.as_str().unwrap_or_default());
    if mode.is_some_and(|mode| !DISPLAY_MODES.contains(&mode)) {
        return Err(refused(state, "invalid_arguments", "an unknown display mode"));
    }
    let mut stream = SlackStream {
        is_open: true,
        chunks: Vec::new(),
        recipient: user,
    };
    stream.chunks = checked_chunks(state, &stream, body, Emptiness::Refused)?;
    let ts = state.next_ts((options.at)());
    let request = stream.as_request();
    state.messages.push(SlackMessage {
        channel: channel.clone(),
        ts: ts.clone(),
        thread_ts: Some(thread),
        user: options.bot_user.clone(),
        text: field(&request, "text"),
        request,
        earlier: Vec::new(),
        reactions: BTreeSet::new(),
        edits: 0,
        shown_at: Instant::now(),
        files: Vec::new(),
    });
    state.streams.insert((channel.clone(), ts.clone()), stream);
    Ok(json!({"channel": channel, "ts": ts}))
}

/// Appends to a stream.
pub(super) fn append(state: &mut SlackState, options: &SlackOptions, body: &Value) -> MethodResult {
    let (channel, stream) = open_stream(state, options, body)?;
    let chunks = checked_chunks(state, &stream, body, Emptiness::Refused)?;
    let ts = field(body, "ts");
    add(state, &channel, &ts, chunks);
    Ok(json!({"channel": channel, "ts": ts}))
}

/// Stops a stream, and sets the status of the session of its thread.
pub(super) fn stop(state: &mut SlackState, options: &SlackOptions, body: &Value) -> MethodResult {
    let (channel, stream) = open_stream(state, options, body)?;
    let status = match body.get("session_status") {
        Some(status) => status.as_str().unwrap_or_default().to_owned(),
        None => "active".to_owned(),
    };
    if !STATUSES.contains(&status.as_str()) {
        return Err(refused(
            state,
            "invalid_arguments",
            "an unknown status of a session",
        ));
    }
    let mut chunks = checked_chunks(state, &stream, body, Emptiness::Accepted)?;
    if let Some(blocks) = body.get("blocks") {
        // Their number has a limit of its own.
        chunks.extend(checked_chunk(&json!({"type": "blocks", "blocks": blocks})).map_err(str::to_owned)?);
    }
    let ts = field(body, "ts");
    add(state, &channel, &ts, chunks);
    state.close_stream(&channel, &ts);
    let thread = state
        .message(&channel, &ts)
        .and_then(|message| message.thread_ts.clone());
    if let Some(session) = thread.and_then(|thread| state.sessions.get_mut(&(channel.clone(), thread)))
        && session.status() != status
    {
        session.statuses.push(status);
    }
    Ok(json!({"channel": channel, "ts": ts}))
}

impl SlackState {
    /// Returns the stream of a message that is or was streamed.
    pub fn stream(&self, channel: &str, ts: &str) -> Option<&SlackStream> {
        self.streams.get(&(channel.to_owned(), ts.to_owned()))
    }

    /// True while nothing but appends can change a message.
    pub(super) fn is_streaming(&self, channel: &str, ts: &str) -> bool {
        self.stream(channel, ts).is_some_and(|stream| stream.is_open)
    }

    /// Returns the ids of the messages of a thread that stream.
    pub(super) fn open_streams(&self, channel: &str, thread: &str) -> Vec<String> {
        let replies = self.replies(channel, thread);
        let open = replies.filter(|message| self.is_streaming(channel, &message.ts));
        open.map(|message| message.ts.clone()).collect()
    }

    pub(super) fn close_stream(&mut self, channel: &str, ts: &str) {
        if let Some(stream) = self.streams.get_mut(&(channel.to_owned(), ts.to_owned())) {
            stream.is_open = false;
        }
    }
}

impl SlackEmulator {
    /// Ends all streams, as Slack does with those that last too long.
    pub fn end_streams(&self) {
        self.shared.change(|state| {
            state
                .streams
                .values_mut()
                .for_each(|stream| stream.is_open = false)
        });
    }
}

/// The answer to a call without content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Emptiness {
    Accepted,
    Refused,
}

fn refused(state: &mut SlackState, code: &str, why: &str) -> String {
    state.problems.push(format!("{code}: {why}"));
    code.to_owned()
}

fn open_stream(
    state: &mut SlackState,
    options: &SlackOptions,
    body: &Value,
) -> Result<(String, SlackStream), String> {
    let channel = channel(state, options, body)?;
    let ts = field(body, "ts");
    match (state.message(&channel, &ts), state.stream(&channel, &ts)) {
        (None, _) => Err("message_not_found".to_owned()),
        (Some(_), Some(stream)) if stream.is_open => Ok((channel.clone(), stream.clone())),
        (Some(_), _) => Err(NOT_STREAMING.to_owned()),
    }
}

fn add(state: &mut SlackState, channel: &str, ts: &str, chunks: Vec<Value>) {
    let key = (channel.to_owned(), ts.to_owned());
    let Some(stream) = state.streams.get_mut(&key).filter(|_| !chunks.is_empty()) else {
        return;
    };
    stream.chunks.extend(chunks);
    let request = stream.as_request();
    if let Some(message) = state.message_mut(channel, ts) {
        message.text = field(&request, "text");
        let before = std::mem::replace(&mut message.request, request);
        message.earlier.push(before);
        message.shown_at = Instant::now();
    }
}

/// Returns the content of a call as chunks, if Slack takes it.
fn checked_chunks(
    state: &mut SlackState,
    stream: &SlackStream,
    body: &Value,
    empty: Emptiness,
) -> Result<Vec<Value>, String> {
    let text = body
        .get("markdown_text")
        .map(|text| json!({"type": "markdown_text", "text": text}));
    let chunks = body["chunks"].as_array().cloned().unwrap_or_default();
    let chunks: Vec<Value> = text.into_iter().chain(chunks).collect();
    if chunks.is_empty() && empty == Emptiness::Refused {
        return Err(refused(state, "no_text", "a stream without content"));
    }
    for chunk in &chunks {
        if let Err(code) = checked_chunk(chunk) {
            return Err(refused(state, code, &format!("a chunk of another form: {chunk}")));
        }
    }
    let blocks = stream
        .chunks
        .iter()
        .chain(&chunks)
        .filter_map(|chunk| chunk["blocks"].as_array());
    if blocks.map(Vec::len).sum::<usize>() > BLOCKS_MAX {
        return Err(refused(
            state,
            "invalid_blocks",
            "more than 50 blocks in a stream",
        ));
    }
    Ok(chunks)
}

/// Returns a chunk if it has the documented form, otherwise the error.
fn checked_chunk(chunk: &Value) -> Result<Option<Value>, &'static str> {
    let has_only = |names: &[&str]| {
        let mut fields = chunk.as_object().into_iter().flatten();
        fields.all(|(name, _)| name == "type" || names.contains(&name.as_str()))
    };
    let is_filled = |name: &str, chars_max: usize| {
        let text = chunk[name].as_str().unwrap_or_default();
        !text.is_empty() && text.chars().count() <= chars_max
    };
    let is_text = |name: &str| chunk.get(name).is_none_or(Value::is_string);
    let has_form = match chunk["type"].as_str() {
        Some("markdown_text") if !is_filled("text", TEXT_CHARS_MAX) => return Err("msg_too_long"),
        Some("markdown_text") => has_only(&["text"]),
        Some("plan_update") => has_only(&["title"]) && is_filled("title", TITLE_CHARS_MAX),
        Some("task_update") => {
            let status = chunk["status"].as_str().unwrap_or_default();
            has_only(&["id", "title", "status", "details", "output", "sources"])
                && is_filled("id", TITLE_CHARS_MAX)
                && is_filled("title", TITLE_CHARS_MAX)
                && check::TASK_STATUSES.contains(&status)
                && is_text("details")
                && is_text("output")
        }
        Some("blocks") => {
            has_only(&["blocks"]) && check::message(&json!({"blocks": chunk["blocks"]})).is_ok()
        }
        Some(_) | None => false,
    };
    match has_form {
        true => Ok(Some(chunk.clone())),
        false => Err("invalid_chunks"),
    }
}
