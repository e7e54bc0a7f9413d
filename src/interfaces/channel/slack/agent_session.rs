//! The agent session of a thread: Slack shows that work goes on there, with a Stop button of its own. A workspace that
//! refuses this is not asked again for a day; then the status card has a button. See
//! <https://docs.slack.dev/ai/agent-sessions>.

use super::client::SlackClient;
use super::connector::RepeatEffect;
use crate::base::model::{ChatPlace, WorkStatus};
use crate::interfaces::channel::SendError;
use crate::interfaces::channel::refusal::RememberedRefusal;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

pub(super) const METHOD: &str = "agents.sessions.setStatus";
/// The event for a press of the Stop button of Slack.
pub(super) const STOPPED_EVENT: &str = "agent_session_stopped";
/// The warning that the app does not get [`STOPPED_EVENT`]. People see an indicator that they cannot press then.
const UNSUBSCRIBED: &str = "missing_agent_session_stopped_event_subscription";
/// The errors with which Slack refuses sessions and streams of the app in any thread.
pub(super) const REFUSALS: [&str; 13] = [
    "access_denied",
    "deprecated_endpoint",
    "feature_disabled",
    "feature_not_enabled",
    "method_deprecated",
    "missing_scope",
    "no_permission",
    "not_agent_app",
    "not_allowed",
    "not_allowed_token_type",
    "not_authorized",
    "team_access_not_granted",
    "unknown_method",
];

/// The maximum number of threads of which it is remembered that they show work.
const BEGUN_MAX: usize = 10_000;

/// The last refusals of sessions by a workspace.
#[derive(Debug, Default)]
pub(super) struct SessionSupport {
    /// Sessions were refused.
    refused: RememberedRefusal,
    /// A session had no Stop button, so none is begun. Sessions of before still end.
    unstoppable: RememberedRefusal,
    /// The threads whose work is shown, or may be, with its status.
    begun: Mutex<BTreeMap<(String, String), WorkStatus>>,
}

impl SessionSupport {
    /// True if the thread of a place shows work that goes on, with Slack's Stop button, as far as is known.
    pub(super) fn shows(&self, place: &ChatPlace) -> bool {
        self.status(place) == WorkStatus::Running
            && !self.unstoppable.is_recent()
            && !self.refused.is_recent()
    }

    /// Returns the known status of the work in the thread of a place. After a restart, none is known.
    pub(super) fn status(&self, place: &ChatPlace) -> WorkStatus {
        let begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        let thread = place.thread.as_ref();
        let status = thread.and_then(|thread| begun.get(&(place.chat.clone(), thread.clone())));
        status.copied().unwrap_or(WorkStatus::Ended)
    }

    fn set_begun(&self, thread: (String, String), status: WorkStatus) {
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        if status == WorkStatus::Ended {
            begun.remove(&thread);
        } else if begun.len() < BEGUN_MAX {
            begun.insert(thread, status);
        }
    }
}

impl SlackClient {
    /// Shows the state of work in a thread. A refusal is no failure, because the status is shown elsewhere too.
    pub(super) async fn show_work(
        &self,
        place: &ChatPlace,
        status: WorkStatus,
        title: Option<&str>,
    ) -> Result<(), SendError> {
        let Some(thread) = &place.thread else {
            return Ok(());
        };
        let is_start = status == WorkStatus::Running;
        let support = &self.sessions;
        if is_start && support.unstoppable.is_recent()
            || support.refused.is_recent() && support.status(place) == WorkStatus::Ended
        {
            return Ok(());
        }
        let state = |status| json!({"channel_id": place.chat, "thread_ts": thread, "status": name(status)});
        let mut body = state(status);
        if let Some(title) = title.filter(|title| !title.is_empty()) {
            body["title"] = json!(title);
        }
        match self.call(METHOD, &body, RepeatEffect::Repeatable).await {
            Ok(answer) if is_start && is_unsubscribed(&answer) => {
                support.unstoppable.remember();
                tracing::warn!(
                    "slack sends no {STOPPED_EVENT} to the app, so its threads show no running work"
                );
                let ended = state(WorkStatus::Ended);
                accept_refusal(self.call(METHOD, &ended, RepeatEffect::Repeatable).await)
            }
            Err(SendError::Refused(code)) if REFUSALS.contains(&code.as_str()) => {
                support.refused.remember();
                tracing::info!(code, "slack refuses to show running work in threads");
                Ok(())
            }
            shown => {
                // An unknown outcome counts as shown.
                let is_refused = matches!(shown, Err(SendError::Refused(_)));
                if !is_refused && (status != WorkStatus::Ended || shown.is_ok()) {
                    support.set_begun((place.chat.clone(), thread.clone()), status);
                }
                accept_refusal(shown)
            }
        }
    }
}

pub(super) const fn name(status: WorkStatus) -> &'static str {
    match status {
        WorkStatus::Running => "processing",
        WorkStatus::Waiting => "suspended",
        WorkStatus::Ended => "active",
    }
}

fn accept_refusal(shown: Result<Value, SendError>) -> Result<(), SendError> {
    match shown {
        Err(SendError::Refused(code)) => {
            tracing::debug!(code, "the status of a thread was refused");
            Ok(())
        }
        shown => shown.map(|_| ()),
    }
}

fn is_unsubscribed(answer: &Value) -> bool {
    let listed = answer
        .pointer("/response_metadata/warnings")
        .and_then(Value::as_array);
    let listed = listed.into_iter().flatten().filter_map(Value::as_str);
    let joined = answer["warning"].as_str().unwrap_or_default().split(',');
    listed.chain(joined).any(|warning| warning.trim() == UNSUBSCRIBED)
}

#[cfg(test)]
mod tests {
    use super::{UNSUBSCRIBED, is_unsubscribed};
    use serde_json::json;

    #[test]
    fn a_warning_is_read_in_both_of_its_places() {
        for (answer, expected) in [
            (json!({"warning": UNSUBSCRIBED}), true),
            (
                json!({"warning": format!("missing_charset,{UNSUBSCRIBED}")}),
                true,
            ),
            (
                json!({"response_metadata": {"warnings": ["a", UNSUBSCRIBED]}}),
                true,
            ),
            (json!({"warning": "missing_charset"}), false),
            (json!({"response_metadata": {"warnings": []}}), false),
        ] {
            assert_eq!(is_unsubscribed(&answer), expected, "{answer}");
        }
    }
}
