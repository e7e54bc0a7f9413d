//! The sessions of an agent: their status in threads, and the Stop button that Slack shows while one is processing. See
//! <https://docs.slack.dev/reference/methods/agents.sessions.setStatus>.

use super::api::{MethodResult, channel_named, field};
use super::people::{GatewayResponse, SayError};
use super::state::SlackState;
use super::{SlackEmulator, SlackOptions};
use serde_json::{Value, json};

pub(super) const STATUSES: [&str; 4] = ["active", "processing", "suspended", "closed"];
const TITLE_CHARS_MAX: usize = 200;
const STOPPED: &str = "agent_session_stopped";
const UNSUBSCRIBED: &str = "missing_agent_session_stopped_event_subscription";

/// The session of a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentSession {
    /// The title that the app gave it when it created it.
    pub title: Option<String>,
    /// Each status that it had, the newest last.
    pub statuses: Vec<String>,
}

impl AgentSession {
    /// Returns the current status.
    pub fn status(&self) -> &str {
        self.statuses.last().map_or("", String::as_str)
    }
}

/// Sets the status of a session, which is created if the thread has none.
pub(super) fn set_status(state: &mut SlackState, options: &SlackOptions, body: &Value) -> MethodResult {
    if !state.is_agent() {
        return Err("not_authorized".to_owned());
    }
    let (status, title) = (field(body, "status"), body["title"].as_str());
    let is_long = title.is_some_and(|title| title.chars().count() > TITLE_CHARS_MAX);
    let thread = field(body, "thread_ts");
    if !STATUSES.contains(&status.as_str()) || is_long || thread.is_empty() {
        state.problems.push(format!("agents.sessions.setStatus: {body}"));
        return Err("invalid_arguments".to_owned());
    }
    let channel = channel_named(state, options, &field(body, "channel_id"))?;
    let is_root = state
        .message(&channel, &thread)
        .is_some_and(|message| message.thread_ts.is_none());
    if !is_root {
        state
            .problems
            .push(format!("a session of `{thread}`, which is no root of a thread"));
        return Err("thread_not_found".to_owned());
    }
    let is_subscribed = state.is_subscribed(STOPPED);
    let key = (channel, thread);
    let session = state.sessions.entry(key).or_insert_with(|| AgentSession {
        title: title.map(str::to_owned),
        statuses: Vec::new(),
    });
    session.statuses.push(status.clone());
    let mut answer = json!({"status": status, "agent_status": status, "title": session.title});
    if !is_subscribed {
        answer["warning"] = json!(UNSUBSCRIBED);
        answer["response_metadata"] = json!({"warnings": [UNSUBSCRIBED]});
    }
    Ok(answer)
}

impl SlackEmulator {
    /// Presses the Stop button of Slack in a thread as a user. There is one while the session of the thread is
    /// processing and the app gets the event. Slack stops the streams of the thread and leaves the status as it is.
    pub async fn stop_session(
        &self,
        user: &str,
        channel: &str,
        thread_ts: &str,
    ) -> Result<GatewayResponse, SayError> {
        let key = (channel.to_owned(), thread_ts.to_owned());
        let is_shown = self.with_state(|state| {
            let session = state.sessions.get(&key);
            session.is_some_and(|session| session.status() == "processing") && state.is_subscribed(STOPPED)
        });
        if !is_shown {
            return Err(SayError::NoButton("Stop".to_owned()));
        }
        let at = (self.shared.options.at)();
        let (event_ts, stopped) = self.shared.change(|state| {
            let stopped = state.open_streams(channel, thread_ts);
            stopped.iter().for_each(|ts| state.close_stream(channel, ts));
            (state.next_ts(at), stopped)
        });
        let event = json!({"type": STOPPED, "channel": channel, "user": user, "thread_ts": thread_ts,
            "streaming_message_ts": stopped, "event_ts": event_ts});
        let envelope = self.envelope(&event);
        self.send_event(&envelope).await
    }
}
