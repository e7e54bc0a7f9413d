//! Code channels: channels that the app creates for its work, with a tab that shows a diff. See
//! <https://docs.slack.dev/ai/slack-code>,
//! <https://docs.slack.dev/reference/methods/agents.conversations.create> and
//! <https://docs.slack.dev/reference/methods/agents.conversations.setView>.

use super::SlackOptions;
use super::api::{MethodResult, channel_named, field};
use super::state::SlackState;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The maximum number of bytes of the content of a view.
const CONTENT_BYTES_MAX: usize = 1_000_000;
const CREATE_ARGUMENTS: [&str; 6] = [
    "is_private",
    "name",
    "origin_channel_id",
    "origin_message_ts",
    "session_id",
    "team_id",
];
/// The arguments of a diff view. Slack ignores a key of it, because a channel has one diff.
const DIFF_ARGUMENTS: [&str; 7] = [
    "base_branch",
    "channel_id",
    "content",
    "head_branch",
    "name",
    "type",
    "view_key",
];
const ARCHIVE_ARGUMENTS: [&str; 2] = ["channel_id", "summary_message_ts"];

/// A channel that the app created.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CodeChannel {
    /// The name of the session, for which there is one channel.
    pub session: Option<String>,
    /// The display name.
    pub name: String,
    /// The channel and the message that it was created for.
    pub origin: Option<(String, String)>,
    /// True if only its members see it.
    pub is_private: bool,
    /// True if nothing can be added any more.
    pub is_archived: bool,
    /// The diff in its tab.
    pub diff: Option<DiffView>,
}

/// The diff in the tab of a code channel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiffView {
    /// The id of the tab.
    pub view: String,
    /// The diff.
    pub content: String,
    /// The name of the older side.
    pub base_branch: String,
    /// The name of the newer side.
    pub head_branch: String,
    /// The number of contents that it has had.
    pub content_version: u64,
}

/// Creates a code channel, unless its session has one.
pub(super) fn create(state: &mut SlackState, options: &SlackOptions, body: &Value) -> MethodResult {
    check_arguments(state, "agents.conversations.create", body, &CREATE_ARGUMENTS)?;
    let session = body["session_id"].as_str().map(str::to_owned);
    let mut known = state.code_channels.iter();
    if let Some((id, _)) = known.find(|(_, channel)| session.is_some() && channel.session == session) {
        return Ok(json!({"channel_id": id}));
    }
    let (chat, ts) = (field(body, "origin_channel_id"), field(body, "origin_message_ts"));
    let name = field(body, "name");
    let origin = match (chat.is_empty(), ts.is_empty()) {
        (true, true) if !name.is_empty() => None,
        (false, false) => Some((channel_named(state, options, &chat)?, ts)),
        _ => return Err("invalid_arguments".to_owned()),
    };
    let mut members = BTreeSet::from([options.bot_user.clone()]);
    if let Some((chat, ts)) = &origin {
        if is_shared_externally(state, options, chat) {
            return Err("invalid_arguments".to_owned());
        }
        // The author of the origin is invited.
        let message = state.message(chat, ts).ok_or("message_not_found")?;
        members.insert(message.user.clone());
    }
    let of_origin = origin.as_ref().is_some_and(|(chat, _)| chat.starts_with('G'));
    let is_private = body["is_private"].as_bool().unwrap_or(of_origin);
    let id = state.next_id(if is_private { "G" } else { "C" });
    let channel = CodeChannel {
        session,
        name,
        origin,
        is_private,
        ..CodeChannel::default()
    };
    state.channels.insert(id.clone(), members);
    state.code_channels.insert(id.clone(), channel);
    Ok(json!({"channel_id": id}))
}

/// Sets the diff of a code channel. The workspace has no other views.
pub(super) fn set_view(state: &mut SlackState, options: &SlackOptions, body: &Value) -> MethodResult {
    check_arguments(state, "agents.conversations.setView", body, &DIFF_ARGUMENTS)?;
    let content = body["content"].as_str().filter(|_| body["type"] == "diff");
    let content = content.ok_or("invalid_arguments")?.to_owned();
    let id = open_channel(state, options, body)?;
    if content.len() > CONTENT_BYTES_MAX {
        return Err("content_too_large".to_owned());
    }
    let new_view = state.next_id("Ct");
    let channel = state.code_channels.get_mut(&id).ok_or("not_agent_channel")?;
    let diff = channel.diff.get_or_insert_default();
    *diff = DiffView {
        view: match diff.content_version {
            0 => new_view,
            _ => std::mem::take(&mut diff.view),
        },
        content,
        base_branch: field(body, "base_branch"),
        head_branch: field(body, "head_branch"),
        content_version: diff.content_version + 1,
    };
    Ok(json!({"channel_id": id, "view_id": diff.view, "type": "diff",
        "content_version": diff.content_version}))
}

/// Archives a code channel.
pub(super) fn archive(state: &mut SlackState, options: &SlackOptions, body: &Value) -> MethodResult {
    check_arguments(state, "agents.conversations.archive", body, &ARCHIVE_ARGUMENTS)?;
    let id = open_channel(state, options, body).map_err(|code| match code.as_str() {
        "is_archived" => "already_archived".to_owned(),
        _ => code,
    })?;
    let channel = state.code_channels.get_mut(&id).ok_or("not_agent_channel")?;
    channel.is_archived = true;
    Ok(json!({}))
}

/// Returns the code channel of a call, which the app is a member of and which is not archived.
fn open_channel(state: &mut SlackState, options: &SlackOptions, body: &Value) -> Result<String, String> {
    let id = channel_named(state, options, &field(body, "channel_id"))?;
    match state.code_channels.get(&id) {
        None => Err("not_agent_channel".to_owned()),
        Some(channel) if channel.is_archived => Err("is_archived".to_owned()),
        Some(_) => Ok(id),
    }
}

/// True if a channel has users of another workspace.
fn is_shared_externally(state: &SlackState, options: &SlackOptions, channel: &str) -> bool {
    let members = state.channels.get(channel).into_iter().flatten();
    let mut teams = members.filter_map(|member| state.users.get(member));
    teams.any(|team| *team != options.team)
}

/// Refuses arguments that the method does not have. Slack ignores them; a good app does not send them.
fn check_arguments(state: &mut SlackState, method: &str, body: &Value, known: &[&str]) -> Result<(), String> {
    let fields = body.as_object().into_iter().flatten();
    let unknown: Vec<&str> = fields
        .map(|(name, _)| name.as_str())
        .filter(|name| !known.contains(name))
        .collect();
    if unknown.is_empty() {
        return Ok(());
    }
    let problem = format!("{method}: unknown arguments {}", unknown.join(", "));
    state.problems.push(problem);
    Err("invalid_arguments".to_owned())
}
