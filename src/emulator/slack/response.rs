//! The addresses that come with commands: whoever has one answers the person who typed it, wherever that was. Slack
//! takes five answers at one, within half an hour, and no token. See
//! <https://docs.slack.dev/interactivity/handling-user-interaction>.

use super::api::{check_message, field};
use super::state::{SlackMessage, SlackState};
use super::{SlackEmulator, SlackOptions};
use http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Instant;

/// Answers that one address takes.
const USES_MAX: usize = 5;
/// The time within which it takes them.
const VALID_FOR: SignedDuration = SignedDuration::from_mins(30);

/// An address that came with a command.
#[derive(Clone, Debug)]
pub(super) struct ResponseAddress {
    pub(super) channel: String,
    pub(super) user: String,
    pub(super) since: Timestamp,
    pub(super) uses: usize,
}

impl SlackEmulator {
    /// Lets so much time pass for the addresses that came with commands.
    pub fn age_responses(&self, by: SignedDuration) {
        self.shared.change(|state| {
            for response in state.responses.values_mut() {
                response.since = response.since.checked_sub(by).unwrap_or(response.since);
            }
        });
    }

    /// The address for answers to a command that is typed now.
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

/// Takes one answer.
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

/// The answer to an answer, as Slack words it.
pub(super) fn response_body(answer: &Result<(), (StatusCode, String)>) -> (StatusCode, Value) {
    match answer {
        Ok(()) => (StatusCode::OK, json!({"ok": true})),
        Err((status, code)) => (*status, json!({"ok": false, "error": code})),
    }
}
