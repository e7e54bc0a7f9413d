//! How often Slack may be called. A burst and what follows it within a minute stay below what Slack allows in
//! one. See <https://docs.slack.dev/apis/web-api/rate-limits>.

use super::is_direct;
use crate::channel::{Call, Limit, Scope};
use crate::model::{Action, Op};
use std::time::Duration;

/// The limits of one call. The first is the one a 429 is about: `chat.postMessage` is limited for each
/// channel, all other methods for the workspace.
pub(super) fn limits(op: &Op, call: Call) -> Vec<Limit> {
    if call == Call::Find {
        let method = match op.place.thread {
            Some(_) => "conversations.replies",
            None => "conversations.history",
        };
        return vec![tier_3(method)];
    }
    match &op.action {
        Action::Post { .. } => posts(&op.place.chat),
        Action::Notice { .. } | Action::AnswerClick { .. } if is_direct(&op.place) => posts(&op.place.chat),
        Action::Notice { .. } | Action::AnswerClick { .. } => vec![tier_4("chat.postEphemeral")],
        Action::Edit { .. } | Action::Fill { .. } => vec![tier_3("chat.update")],
        Action::React { .. } => vec![tier_3("reactions.add")],
        Action::Upload { .. } => {
            vec![tier_4("files.completeUploadExternal"), chat(&op.place.chat)]
        }
    }
}

/// One message a second in a channel, with short bursts, and several hundred a minute in the workspace.
fn posts(id: &str) -> Vec<Limit> {
    let workspace = Scope::Method("chat.postMessage");
    vec![chat(id), Limit::new(workspace, 50, Duration::from_millis(200))]
}

fn chat(id: &str) -> Limit {
    Limit::new(Scope::Chat(id.to_owned()), 5, Duration::from_millis(1_100))
}

/// At least 50 calls a minute.
fn tier_3(method: &'static str) -> Limit {
    Limit::new(Scope::Method(method), 20, Duration::from_secs(2))
}

/// At least 100 calls a minute.
fn tier_4(method: &'static str) -> Limit {
    Limit::new(Scope::Method(method), 20, Duration::from_millis(750))
}
