//! The response URLs of commands: an answer at one reaches the user who typed the command, in every conversation.
//! Slack accepts five answers at each, within half an hour, and needs no token. See
//! <https://docs.slack.dev/interactivity/handling-user-interaction>.

use super::api::{check_message, field};
use super::state::{SlackMessage, SlackState};
use super::{SlackEmulator, SlackOptions};
use http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Instant;

/// The number of answers that one address accepts.
const USES_MAX: usize = 5;
/// The time during which an address accepts answers.
const VALID_FOR: SignedDuration = SignedDuration::from_mins(30);

/// The response URL of a command.
#[derive(Clone, Debug)]
pub(super) struct ResponseAddress {
    pub(super) channel: String,
    pub(super) user: String,
    pub(super) since: Timestamp,
    pub(super) uses: usize,
}

impl SlackEmulator {
    /// Makes the response URLs of commands older by this time.
    pub fn age_responses(&self, by: SignedDuration) {
        self.shared.change(|state| {
            for response in state.responses.values_mut() {
                response.since = response.since.checked_sub(by).unwrap_or(response.since);
            }
        });
    }

    /// Returns a new response URL for a command.
    pub(super) fn response_url(&self, user: &str, channel: &str) -> String {
        let since = (self.shared.options.at)();
        let base = &self.shared.base_url;
        self.shared.change(|state| {
            let id = state.next_id("response-");
            let url = format!("{base}/commands/{id}");
            let response = ResponseAddress {
                channel: channel.to_owned(),
                user: user.to_owned(),
                since,
                uses: 0,
            };
            state.responses.insert(id, response);
            url
        })
    }
}

/// Accepts one answer.
pub(super) fn respond(
    state: &mut SlackState,
    options: &SlackOptions,
    id: &str,
    body: &Value,
) -> Result<(), (StatusCode, String)> {
    let refused = |code: &str| Err((StatusCode::NOT_FOUND, code.to_owned()));
    let at = (options.at)();
    let Some(response) = state.responses.get(id).cloned() else {
        return refused("no_such_url");
    };
    if at.duration_since(response.since) >= VALID_FOR {
        return refused("expired_url");
    }
    if response.uses >= USES_MAX {
        return refused("used_url");
    }
    check_message(state, body).map_err(|code| (StatusCode::BAD_REQUEST, code))?;
    if let Some(response) = state.responses.get_mut(id) {
        response.uses += 1;
    }
    let is_for_all = field(body, "response_type") == "in_channel";
    let message = SlackMessage {
        channel: response.channel,
        ts: state.next_ts(at),
        thread_ts: None,
        user: if is_for_all {
            options.bot_user.clone()
        } else {
            response.user
        },
        text: field(body, "text"),
        request: body.clone(),
        reactions: BTreeSet::new(),
        edits: 0,
        shown_at: Instant::now(),
        files: Vec::new(),
        earlier: Vec::new(),
    };
    match is_for_all {
        true => state.messages.push(message),
        false => state.ephemerals.push(message),
    }
    Ok(())
}

/// Returns Slack's reply to an answer.
pub(super) fn response_body(answer: &Result<(), (StatusCode, String)>) -> (StatusCode, Value) {
    match answer {
        Ok(()) => (StatusCode::OK, json!({"ok": true})),
        Err((status, code)) => (*status, json!({"ok": false, "error": code})),
    }
}
