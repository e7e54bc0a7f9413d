//! Rate limits of Slack. A burst and the calls within the minute after it stay below Slack's limit for a minute. A
//! lookup of a message counts as one call, however many pages of its thread are read. See
//! <https://docs.slack.dev/apis/web-api/rate-limits>.

use super::streams::StreamSupport;
use super::{agent_session, code_channel, is_direct, stream};
use crate::base::model::{Action, MessageRef, Op, Platform, Receipt};
use crate::interfaces::channel::{CallPurpose, Limit, Scope};
use std::time::Duration;

/// The pace of calls within tier 4, after a burst.
const TIER_4_SPACING: Duration = Duration::from_millis(750);

/// Returns the time between two updates of cards such as this one. Those that stream have the limit of
/// `chat.appendStream`, the others share `chat.update` with the ends of all cards.
pub(super) fn update_spacing(message: &MessageRef, streams: &StreamSupport) -> Duration {
    match streams.content(message) {
        Some(_) => TIER_4_SPACING,
        None => Platform::Slack
            .chat()
            .map_or(Duration::ZERO, |chat| chat.card_edit_spacing),
    }
}

/// Returns the limits of one call. The first is the one that a 429 refers to: `chat.postMessage` is limited for each
/// channel, all other methods for the workspace.
pub(super) fn limits(op: &Op, call: CallPurpose, streams: &StreamSupport) -> Vec<Limit> {
    if call == CallPurpose::Find {
        let method = match op.place.thread {
            Some(_) => "conversations.replies",
            None => "conversations.history",
        };
        return vec![tier_3(method)];
    }
    match &op.action {
        // A stream may become a post. [`StreamSupport`] counts the calls that begin and end streams.
        Action::Post { .. } | Action::Stream { .. } => posts(&op.place.chat),
        Action::Progress { message, .. } if streams.content(message).is_some() => {
            vec![tier_4(stream::APPEND)]
        }
        Action::AskForWords { trigger: Some(_), .. } => vec![tier_4("views.open")],
        Action::Notice { .. } | Action::AnswerClick { .. } | Action::AskForWords { .. } => {
            match is_direct(&op.place) {
                true => posts(&op.place.chat),
                false => vec![tier_4("chat.postEphemeral")],
            }
        }
        Action::Edit { .. } | Action::Fill { .. } | Action::Progress { .. } => vec![tier_3("chat.update")],
        // The address of a command takes five answers in all.
        Action::Draft { .. } | Action::Respond { .. } => Vec::new(),
        Action::React {
            receipt: Receipt::Started,
            ..
        } => vec![tier_3("reactions.add"), tier_2("reactions.remove")],
        Action::React { .. } => vec![tier_3("reactions.add")],
        Action::ShowWork { .. } => vec![tier_3(agent_session::METHOD)],
        Action::ShowHome { .. } => vec![tier_4(super::home::METHOD)],
        Action::Upload { .. } => {
            vec![tier_4("files.completeUploadExternal"), chat(&op.place.chat)]
        }
        // The line below the tab, or the file in its place.
        Action::ShowDiff { .. } => {
            let (create, view) = (tier_2(code_channel::CREATE), tier_3(code_channel::SET_VIEW));
            let mut calls = vec![create, view, tier_4("files.completeUploadExternal")];
            calls.extend(posts(&op.place.chat));
            calls
        }
        Action::CloseDiff { .. } => {
            vec![tier_2(code_channel::ARCHIVE), tier_3("conversations.replies")]
        }
    }
}

/// Returns the limits of posts: one message a second in a channel, with short bursts, and several hundred a minute in
/// the workspace.
fn posts(id: &str) -> Vec<Limit> {
    let workspace = Scope::Method("chat.postMessage");
    vec![chat(id), Limit::new(workspace, 50, Duration::from_millis(200))]
}

fn chat(id: &str) -> Limit {
    Limit::new(Scope::Chat(id.to_owned()), 5, Duration::from_millis(1_100))
}

/// Returns a limit within Slack's tier 2: at least 20 calls a minute.
fn tier_2(method: &'static str) -> Limit {
    Limit::new(Scope::Method(method), 10, Duration::from_secs(6))
}

/// Returns a limit within Slack's tier 3: at least 50 calls a minute. Cards are edited all the time, so for edits the
/// pace counts for more than the burst.
fn tier_3(method: &'static str) -> Limit {
    match method {
        "chat.update" => Limit::new(Scope::Method(method), 10, Duration::from_millis(1_500)),
        _ => Limit::new(Scope::Method(method), 20, Duration::from_secs(2)),
    }
}

/// Returns a limit within Slack's tier 4: at least 100 calls a minute.
fn tier_4(method: &'static str) -> Limit {
    Limit::new(Scope::Method(method), 20, TIER_4_SPACING)
}

#[cfg(test)]
mod tests {
    use super::{limits, update_spacing};
    use crate::base::model::{Account, Action, ChatPlace, DiffTab, MessageRef, Op, Platform, Receipt, Reply};
    use crate::interfaces::channel::slack::code_channel;
    use crate::interfaces::channel::slack::stream_content::StreamContent;
    use crate::interfaces::channel::slack::streams::StreamSupport;
    use crate::interfaces::channel::{CallPurpose, Scope};
    use bytes::Bytes;
    use std::time::Duration;

    fn op(action: Action) -> Op {
        Op {
            id: "inbox-1/result".to_owned(),
            channel: "slack".to_owned(),
            place: ChatPlace {
                account: Account {
                    platform: Platform::Slack,
                    id: "T1".to_owned(),
                },
                chat: "C1".to_owned(),
                thread: Some("1.0".to_owned()),
            },
            action,
            response_url: None,
        }
    }

    /// Returns each limited scope with the highest number of calls in any minute.
    fn most(action: Action, call: CallPurpose) -> Vec<(Scope, u128)> {
        let of_minute = |every: Duration| Duration::from_secs(60).as_nanos() / every.as_nanos();
        let limits = limits(&op(action), call, &StreamSupport::default()).into_iter();
        limits
            .map(|limit| (limit.scope, u128::from(limit.burst) + of_minute(limit.every)))
            .collect()
    }

    /// R17
    #[tokio::test]
    async fn a_stream_has_the_limit_of_appends_and_a_shorter_pace_than_edits() {
        let message = MessageRef {
            chat: "C1".to_owned(),
            id: "1.0".to_owned(),
        };
        let progress = op(Action::Progress {
            message: message.clone(),
            reply: Reply::text("x"),
            whole: Reply::text("x"),
        });
        let streams = StreamSupport::default();
        let of_it = |streams: &StreamSupport| {
            let limits = limits(&progress, CallPurpose::Deliver, streams);
            let scopes: Vec<Scope> = limits.into_iter().map(|limit| limit.scope).collect();
            (scopes, update_spacing(&message, streams).as_millis())
        };
        assert_eq!(of_it(&streams), (vec![Scope::Method("chat.update")], 2_000));
        assert!(streams.begin("inbox-1/card"));
        streams.has_begun("inbox-1/card", Some((message.clone(), StreamContent::default())));
        assert_eq!(of_it(&streams), (vec![Scope::Method("chat.appendStream")], 750));
        streams.has_ended(&message);
        assert_eq!(of_it(&streams), (vec![Scope::Method("chat.update")], 2_000));
    }

    /// R17
    #[test]
    fn the_send_rate_stays_just_below_the_limits_of_slack() {
        let message = MessageRef {
            chat: "C1".to_owned(),
            id: "1.0".to_owned(),
        };
        let post = Action::Post {
            reply: Reply::text("x"),
            reply_to: None,
            placeholder: false,
        };
        let edit = Action::Edit {
            message: message.clone(),
            reply: Reply::text("x"),
        };
        let file = Action::Upload {
            file_name: "CHG-1.patch".to_owned(),
            content: Bytes::from_static(b"x"),
            caption: String::new(),
        };
        let started = Action::React {
            message,
            receipt: Receipt::Started,
        };
        let shown = Action::ShowDiff {
            tab: DiffTab {
                change: "CHG-1".to_owned(),
                repository: "platform".to_owned(),
                base: "main".to_owned(),
                head: "CHG-1".to_owned(),
            },
            file_name: "CHG-1.diff".to_owned(),
            content: Bytes::from_static(b"x"),
            caption: String::new(),
        };
        let closed = Action::CloseDiff {
            change: "CHG-1".to_owned(),
        };
        let (chat, method) = (Scope::Chat("C1".to_owned()), Scope::Method);
        let (create, view) = (method(code_channel::CREATE), method(code_channel::SET_VIEW));
        assert_eq!(most(shown, CallPurpose::Deliver)[..2], [(create, 20), (view, 50)]);
        let archive = (method(code_channel::ARCHIVE), 20);
        assert_eq!(
            most(closed, CallPurpose::Deliver),
            [archive, (method("conversations.replies"), 50)]
        );
        assert_eq!(
            most(post.clone(), CallPurpose::Deliver),
            [(chat.clone(), 59), (method("chat.postMessage"), 350)]
        );
        assert_eq!(most(edit, CallPurpose::Deliver), [(method("chat.update"), 50)]);
        assert_eq!(
            most(file, CallPurpose::Deliver),
            [(method("files.completeUploadExternal"), 100), (chat, 59)]
        );
        assert_eq!(
            most(started, CallPurpose::Deliver),
            [(method("reactions.add"), 50), (method("reactions.remove"), 20)]
        );
        assert_eq!(
            most(post, CallPurpose::Find),
            [(method("conversations.replies"), 50)]
        );
    }
}
