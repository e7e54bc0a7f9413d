//! Outgoing operations, which channels deliver.

use super::{ChatPlace, MessageRef, Reply, ResponseUrl, Sender};
use bytes::Bytes;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// The only text that a revoked person gets.
pub const ACCESS_REVOKED: &str = "Access was revoked.";

/// An outgoing operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Op {
    /// The id, unique and stable across retries and restarts: `inbox-7/result`. Two deliveries of the same id must
    /// not be visible as two.
    pub id: String,
    /// The configured name of the delivering channel.
    pub channel: String,
    /// The target place.
    pub place: ChatPlace,
    /// The action to take.
    pub action: Action,
    /// An additional address for the operation if the bot is not in the conversation. The outbox stores it separately
    /// and adds it when it leases the operation.
    #[serde(skip)]
    pub response_url: Option<ResponseUrl>,
}

impl Op {
    /// Returns the operation, without its response URL if that has expired.
    pub(crate) fn without_expired_url(&self, at: Timestamp) -> Cow<'_, Self> {
        match &self.response_url {
            Some(url) if !url.is_valid_at(at) => Cow::Owned(Self {
                response_url: None,
                ..self.clone()
            }),
            Some(_) | None => Cow::Borrowed(self),
        }
    }
}

/// An action on a platform.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum Action {
    /// Sets a receipt on a user's message, or replaces the previous one. Succeeds if the receipt is already there.
    React {
        /// The message.
        message: MessageRef,
        /// The receipt.
        receipt: Receipt,
    },
    /// Posts a new message. The channel returns its id.
    Post {
        /// The content of the message, which must fit one message: see [`crate::interfaces::channel::split`].
        reply: Reply,
        /// The message that it answers, if the platform shows that.
        reply_to: Option<MessageRef>,
        /// True for a line that an [`Action::Fill`] replaces. A duplicate does no harm, so an ambiguous delivery is
        /// repeated.
        #[serde(default)]
        placeholder: bool,
    },
    /// Posts a line that an [`Action::Fill`] replaces and that shows running work until then, as a stream. Only for
    /// places where [`crate::interfaces::channel::Channel::streams`]. A channel that cannot begin a stream posts the
    /// line.
    Stream {
        /// The first content.
        reply: Reply,
        /// The message that it answers, if the platform shows that.
        reply_to: Option<MessageRef>,
        /// The user whose work it is.
        to: Sender,
    },
    /// Shows in a line that an [`Action::Fill`] replaces how far the work is. It is never stored.
    Progress {
        /// The bot's message.
        message: MessageRef,
        /// The new content of the message.
        reply: Reply,
        /// The new content with everything that `reply` leaves out for its length: all work, and all words of the
        /// newest answer. A stream gets what it does not show yet.
        whole: Reply,
    },
    /// Replaces a message of the bot. "Not modified" is success.
    Edit {
        /// The bot's message.
        message: MessageRef,
        /// The new content of the message.
        reply: Reply,
    },
    /// Replaces the message of an earlier post. The outbox converts this to an [`Action::Edit`] once that post's
    /// message id is durable; channels never get it.
    Fill {
        /// The [`Op::id`] of the post.
        post: String,
        /// The new content of the message.
        reply: Reply,
    },
    /// Shows an unfinished answer until the next message, for some seconds. It is never stored. Only for places where
    /// [`crate::interfaces::channel::Channel::shows_drafts`].
    Draft {
        /// The id of the draft: not 0, and the same for all updates of one answer.
        draft: i64,
        /// The content so far.
        reply: Reply,
    },
    /// Sends a message that only one user needs: ephemeral in Slack channels, a plain message in one-to-one chats.
    Notice {
        /// The recipient.
        to: Sender,
        /// The content of the notice.
        reply: Reply,
    },
    /// Sends a file.
    Upload {
        /// The name with extension: `CHG-42.patch`.
        file_name: String,
        /// The bytes of the file.
        #[serde(with = "super::base64_bytes")]
        content: Bytes,
        /// One line of text for the file.
        caption: String,
    },
    /// Shows a source diff in the tab that the place has for its change, and posts a line that leads there. Only for
    /// places with [`crate::interfaces::channel::Channel::diff_bytes_max`]. A channel that cannot show it there sends it
    /// as a file.
    ShowDiff {
        /// The tab.
        tab: DiffTab,
        /// The name of the file: `CHG-42.diff`.
        file_name: String,
        /// The diff, in git format.
        #[serde(with = "super::base64_bytes")]
        content: Bytes,
        /// One line of text for the diff.
        caption: String,
    },
    /// Closes the tab of a change that is over. Success if there is none. It is best effort: what the platform refuses
    /// is not repeated.
    CloseDiff {
        /// The name of the change without its revision: `CHG-42`.
        change: String,
    },
    /// Asks a user for words, which come back as a message of theirs in the same place: in a form if the platform
    /// can open one for their press, else below a message.
    AskForWords {
        /// The user to ask.
        to: Sender,
        /// [`super::InboundKind::Click`]'s `trigger`; without one, no form opens.
        trigger: Option<String>,
        /// The title of the form: one short line.
        title: String,
        /// The question, which is also the message where no form opens.
        question: String,
        /// The subject of the question: the name of a change and its revision.
        about: String,
    },
    /// Shows on the thread of the place whether work goes on there. Only for platforms with
    /// [`super::ChatProperties::shows_work`]; success if this installation cannot show it.
    ShowWork {
        /// The state of the work.
        status: WorkStatus,
        /// A name for the work: one line of at most 200 characters without markup.
        title: Option<String>,
    },
    /// Replaces the page of the bot that the platform shows beside its chat, for one user. Only for platforms that
    /// report [`super::InboundKind::HomeOpened`]; success if this installation has no such page.
    ShowHome {
        /// The user who sees the page.
        to: Sender,
        /// The content of the page.
        reply: Reply,
    },
    /// Answers a command of a user at its [`Op::response_url`], and nowhere else: what the answer says is for that user
    /// alone. It is refused if there is no such address any more.
    Respond {
        /// The user who gave the command.
        to: Sender,
        /// The content of the answer.
        reply: Reply,
    },
    /// Acknowledges a button press with a short text for the user.
    AnswerClick {
        /// [`super::InboundKind::Click`]'s `callback`; where it is `None` a notice is sent instead.
        callback: Option<String>,
        /// The user who pressed the button.
        to: Sender,
        /// The text: at most 200 characters, without markup.
        text: String,
    },
}

impl Action {
    /// Returns true if a repetition would be visible to users. Such an operation is not repeated while its delivery
    /// is ambiguous.
    pub fn may_show_twice(&self) -> bool {
        match self {
            Self::Post { .. } | Self::Stream { .. } => true,
            Self::Notice { .. } | Self::AskForWords { .. } | Self::Upload { .. } => true,
            Self::ShowDiff { .. } | Self::Respond { .. } => true,
            Self::CloseDiff { .. } => false,
            Self::Progress { .. }
            | Self::React { .. }
            | Self::Edit { .. }
            | Self::Fill { .. }
            | Self::Draft { .. } => false,
            Self::ShowWork { .. } | Self::AnswerClick { .. } => false,
            Self::ShowHome { .. } => false,
        }
    }

    /// Returns true for what a person still gets alone after their access was revoked: the line that says so, and the end of
    /// what their platform shows until then.
    pub fn may_follow_revocation(&self) -> bool {
        match self {
            Self::Post { reply, .. }
            | Self::Edit { reply, .. }
            | Self::Fill { reply, .. }
            | Self::Notice { reply, .. }
            | Self::Respond { reply, .. } => *reply == Reply::text(ACCESS_REVOKED),
            Self::AnswerClick { text, .. } => text.is_empty() || text == ACCESS_REVOKED,
            Self::ShowWork { status, .. } => *status == WorkStatus::Ended,
            Self::React { .. }
            | Self::Stream { .. }
            | Self::Progress { .. }
            | Self::Draft { .. }
            | Self::Upload { .. }
            | Self::ShowDiff { .. }
            | Self::CloseDiff { .. }
            | Self::AskForWords { .. }
            | Self::ShowHome { .. } => false,
        }
    }

    /// Returns true for a line that an [`Action::Fill`] replaces.
    pub fn is_placeholder(&self) -> bool {
        match self {
            Self::Post { placeholder, .. } => *placeholder,
            Self::Stream { .. } => true,
            _ => false,
        }
    }
}

/// The tab in which a platform shows the source diff of a change. There is one for each change in each thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiffTab {
    /// The name of the change without its revision: `CHG-42`.
    pub change: String,
    /// The repository that the change is for.
    pub repository: String,
    /// The name of the older side: a branch.
    pub base: String,
    /// The name of the newer side: the change with its revision.
    pub head: String,
}

/// The state of work in a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkStatus {
    /// The work goes on.
    Running,
    /// The work waits for an answer of the user.
    Waiting,
    /// No work goes on.
    Ended,
}

/// The receipt on a user's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Receipt {
    /// Accepted and durable; the work starts.
    Seen,
    /// Accepted and durable; the message waits behind another one of the same conversation.
    Queued,
    /// The message was [`Receipt::Queued`], and its work starts now.
    Started,
}

#[cfg(test)]
mod tests {
    use super::{ACCESS_REVOKED, Action, WorkStatus};
    use crate::base::model::Reply;

    #[test]
    fn nothing_but_the_line_about_it_follows_a_revocation() {
        let post = |text: &str, placeholder| Action::Post {
            reply: Reply::text(text),
            reply_to: None,
            placeholder,
        };
        let fill = |text: &str| Action::Fill {
            post: "inbox-1/card".to_owned(),
            reply: Reply::text(text),
        };
        let work = |status| Action::ShowWork { status, title: None };
        for (action, may_follow) in [
            (post(ACCESS_REVOKED, false), true),
            (fill(ACCESS_REVOKED), true),
            (work(WorkStatus::Ended), true),
            (post("Access was revoked. The secret is 7.", false), false),
            (post("…", true), false),
            (fill("Done."), false),
            (work(WorkStatus::Running), false),
        ] {
            assert_eq!(action.may_follow_revocation(), may_follow, "{action:?}");
        }
    }
}
