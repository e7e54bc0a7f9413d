//! The tab of a code channel in which Slack shows the source diff of a change. The channel belongs to the thread of the
//! change, and Slack gives it the privacy of the thread's channel. Calls may be repeated: a session has one channel, and
//! a channel has one diff. See <https://docs.slack.dev/ai/slack-code> and
//! <https://docs.slack.dev/reference/methods/agents.conversations.setView>.

use super::agent_session::REFUSALS;
use super::connector::RepeatEffect;
use super::lookup::{self, ThreadSearch};
use super::rich_text::{self, is_id};
use super::{SlackChannel, is_direct, message_of};
use crate::base::model::{ChatPlace, DiffTab, Op, Reply};
use crate::interfaces::channel::markdown::backticks;
use crate::interfaces::channel::{Delivered, SendError};
use bytes::Bytes;
use serde_json::{Value, json};

pub(super) const CREATE: &str = "agents.conversations.create";
pub(super) const SET_VIEW: &str = "agents.conversations.setView";
pub(super) const ARCHIVE: &str = "agents.conversations.archive";
/// The maximum number of bytes of a diff in a tab.
pub(super) const VIEW_BYTES_MAX: usize = 1_000_000;

impl SlackChannel {
    /// True if code channels are wanted, and the place is a thread of a channel.
    pub(super) fn wants_code_channel(&self, place: &ChatPlace) -> bool {
        self.code_channels && place.thread.is_some() && !is_direct(place)
    }

    /// True if the tab of a place can show a diff: it may have a code channel, and Slack did not refuse one recently.
    pub(super) fn can_show_diff(&self, place: &ChatPlace) -> bool {
        self.wants_code_channel(place) && !self.client.code_channel_refusals.is_recent()
    }

    /// Shows a diff in the tab of its change, and posts the line that leads there. Returns `None` if the tab cannot show
    /// it, or Slack refuses to.
    pub(super) async fn show_diff(
        &self,
        op: &Op,
        tab: &DiffTab,
        content: &Bytes,
        caption: &str,
    ) -> Result<Option<Delivered>, SendError> {
        let text = std::str::from_utf8(content).ok();
        let text = text.filter(|text| text.len() <= VIEW_BYTES_MAX && self.can_show_diff(&op.place));
        let Some(text) = text else { return Ok(None) };
        let channel = match self.set_view(&op.place, tab, text).await {
            Ok(channel) => channel,
            Err(SendError::Refused(code)) => {
                if is_of_workspace(&code) {
                    self.client.code_channel_refusals.remember();
                }
                tracing::info!(code, "slack shows no diff in a code channel, so it is a file");
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let text = format!("{caption}. The source diff is in its code channel.");
        let mut body = self.message_at(&op.place, &Reply::text(text));
        body["blocks"] = json!([line(caption, &channel)]);
        body["metadata"] = lookup::code_channel_metadata(op, &tab.change, &channel);
        let posted = self
            .client
            .send_message("chat.postMessage", &body, RepeatEffect::Once);
        Ok(Some(Delivered {
            message: message_of(&posted.await?, &op.place.chat),
        }))
    }

    /// Creates the code channel of a change, unless there is one, and sets its diff. Returns the channel.
    async fn set_view(&self, place: &ChatPlace, tab: &DiffTab, diff: &str) -> Result<String, SendError> {
        let client = &self.client;
        let created = client
            .call(CREATE, &creation(place, tab), RepeatEffect::Repeatable)
            .await?;
        let id = created["channel_id"].as_str().filter(|id| is_id(id));
        let Some(id) = id else {
            return Err(SendError::Refused("the code channel has no id".to_owned()));
        };
        let view = json!({
            "channel_id": id,
            "type": "diff",
            "content": diff,
            "base_branch": tab.base,
            "head_branch": tab.head,
        });
        client.call(SET_VIEW, &view, RepeatEffect::Repeatable).await?;
        Ok(id.to_owned())
    }

    /// Archives the code channel of a change, if a line in its thread leads to one. A refusal is no failure.
    pub(super) async fn close_diff(&self, op: &Op, change: &str) -> Result<(), SendError> {
        if !self.wants_code_channel(&op.place) {
            return Ok(());
        }
        let bot = &self.installation.bot_id;
        let found = lookup::find_code_channel(&self.client, bot, op, change).await?;
        let ThreadSearch::Found(id) = found else {
            return Ok(());
        };
        let body = json!({"channel_id": id});
        match self.client.call(ARCHIVE, &body, RepeatEffect::Repeatable).await {
            Err(SendError::Refused(code)) => {
                tracing::info!(code, "slack does not archive a code channel");
                Ok(())
            }
            archived => archived.map(|_| ()),
        }
    }
}

/// Returns the arguments that create the code channel of a change. Another change, or the same number in another thread,
/// is another session.
fn creation(place: &ChatPlace, tab: &DiffTab) -> Value {
    let (team, chat) = (&place.account.id, &place.chat);
    let thread = place.thread.as_deref().unwrap_or_default();
    json!({
        "session_id": format!("{team}-{chat}-{thread}-{}", tab.change),
        "name": format!("{} {}", tab.change, tab.repository),
        "origin_channel_id": chat,
        "origin_message_ts": thread,
    })
}

/// Returns the line that leads to a code channel.
fn line(caption: &str, channel: &str) -> Value {
    let words = |text: &str| rich_text::spans(&backticks(text));
    let mut spans = words(&format!("{caption}. The source diff is in "));
    spans.push(json!({"type": "channel", "channel_id": channel}));
    spans.extend(words("."));
    json!({"type": "rich_text", "elements": [{"type": "rich_text_section", "elements": spans}]})
}

/// True for the error of a workspace that has no code channels for this app. Other refusals are about one channel, such
/// as one that is shared with another organisation.
fn is_of_workspace(code: &str) -> bool {
    REFUSALS.contains(&code) || code.starts_with("not_allowed")
}

#[cfg(test)]
mod tests {
    use super::{creation, is_of_workspace, line};
    use crate::base::model::{Account, ChatPlace, DiffTab, Platform};
    use serde_json::json;
    use std::collections::BTreeSet;

    fn place(chat: &str, thread: &str) -> ChatPlace {
        ChatPlace {
            account: Account {
                platform: Platform::Slack,
                id: "T1".to_owned(),
            },
            chat: chat.to_owned(),
            thread: Some(thread.to_owned()),
        }
    }

    fn tab(change: &str, head: &str) -> DiffTab {
        DiffTab {
            change: change.to_owned(),
            repository: "platform".to_owned(),
            base: "main".to_owned(),
            head: head.to_owned(),
        }
    }

    /// The privacy is left to Slack, which takes that of the origin.
    #[test]
    fn a_code_channel_is_created_for_its_thread() {
        let expected = json!({
            "session_id": "T1-C1-7.5-CHG-42",
            "name": "CHG-42 platform",
            "origin_channel_id": "C1",
            "origin_message_ts": "7.5",
        });
        assert_eq!(creation(&place("C1", "7.5"), &tab("CHG-42", "CHG-42")), expected);
    }

    #[test]
    fn each_change_has_its_session_and_its_revisions_share_it() {
        let session = |chat, thread, change, head| {
            creation(&place(chat, thread), &tab(change, head))["session_id"].to_string()
        };
        let first = session("C1", "7.5", "CHG-42", "CHG-42");
        assert_eq!(first, session("C1", "7.5", "CHG-42", "CHG-42 rev 2"));
        let others = BTreeSet::from([
            first,
            session("C2", "7.5", "CHG-42", "CHG-42"),
            session("C1", "7.6", "CHG-42", "CHG-42"),
            session("C1", "7.5", "CHG-4", "CHG-4"),
        ]);
        assert_eq!(others.len(), 4);
    }

    #[test]
    fn only_a_refusal_that_is_about_the_workspace_is_remembered() {
        for (code, expected) in [
            ("unknown_method", true),
            ("missing_scope", true),
            ("feature_not_enabled", true),
            ("not_allowed", true),
            ("not_allowed_for_this_plan", true),
            ("not_agent_channel", false),
            ("content_too_large", false),
            ("is_archived", false),
        ] {
            assert_eq!(is_of_workspace(code), expected, "{code}");
        }
    }

    #[test]
    fn the_channel_is_an_element_of_its_line_and_no_text() {
        let line = line("CHG-42: 1 file, <#C9>, base `0a1b2c3`", "C0CODE");
        let expected = json!([
            {"type": "text", "text": "CHG-42: 1 file, <#C9>, base "},
            {"type": "text", "text": "0a1b2c3", "style": {"code": true}},
            {"type": "text", "text": ". The source diff is in "},
            {"type": "channel", "channel_id": "C0CODE"},
            {"type": "text", "text": "."},
        ]);
        assert_eq!(line["elements"][0]["elements"], expected);
    }
}
