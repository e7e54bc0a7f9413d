//! Outgoing operations, which a channel delivers.

use super::{ChatPlace, MessageRef, Reply, ResponseUrl, Sender};
use bytes::Bytes;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// One outgoing operation. `id` is unique and stable across retries and restarts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Op {
    /// Unique and stable: `inbox-7/result`. Delivering the same id twice must not show twice.
    pub id: String,
    /// The configured name of the channel that delivers it.
    pub channel: String,
    /// The place to act in.
    pub place: ChatPlace,
    /// The action to take.
    pub action: Action,
    /// An address it may go to as well if the platform says that we are not there. The outbox keeps it apart and adds
    /// it when it hands the operation out.
    #[serde(skip)]
    pub response_url: Option<ResponseUrl>,
}

impl Op {
    /// The operation without an address that takes no answers any more.
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
    /// Puts a receipt on somebody's message, or replaces ours there. Having it already is success.
    React {
        /// The message.
        message: MessageRef,
        /// The receipt.
        receipt: Receipt,
    },
    /// Posts a new message. The channel answers with its id.
    Post {
        /// The content of the message. Must fit one message: see [`crate::channel::split`].
        reply: Reply,
        /// The message it answers, where the platform shows that.
        reply_to: Option<MessageRef>,
        /// A line that an [`Action::Fill`] replaces: showing it twice harms nobody, so it is posted again
        /// where nobody can tell whether it was.
        #[serde(default)]
        placeholder: bool,
    },
    /// Replaces a message of ours. "Not modified" is success.
    Edit {
        /// Our message.
        message: MessageRef,
        /// The new content of the message.
        reply: Reply,
    },
    /// Replaces the message that an earlier post of ours became. The outbox turns it into an
    /// [`Action::Edit`] once that post's message id is durable; a channel never sees it.
    Fill {
        /// The [`Op::id`] of the post.
        post: String,
        /// The new content of the message.
        reply: Reply,
    },
    /// Tells one person something only they need, where the platform can: ephemeral in Slack
    /// channels, a plain message in one-to-one chats.
    Notice {
        /// The person to tell.
        to: Sender,
        /// The content of the notice.
        reply: Reply,
    },
    /// Sends a file.
    Upload {
        /// Name with extension: `CHG-42.patch`.
        file_name: String,
        /// The bytes of the file.
        #[serde(with = "super::base64_bytes")]
        content: Bytes,
        /// One line shown with it.
        caption: String,
    },
    /// Acknowledges a button press, with a short text for the person who pressed.
    AnswerClick {
        /// [`super::Kind::Click`]'s `callback`; where it is `None` a notice is sent instead.
        callback: Option<String>,
        /// The person who pressed.
        to: Sender,
        /// The text: at most 200 characters, without markup.
        text: String,
    },
}

impl Action {
    /// True for what people see twice if it is done twice: it is not done again while nobody knows whether it
    /// was.
    pub fn may_show_twice(&self) -> bool {
        match self {
            Self::Post { .. } | Self::Notice { .. } | Self::Upload { .. } => true,
            Self::React { .. } | Self::Edit { .. } | Self::Fill { .. } | Self::AnswerClick { .. } => false,
        }
    }

    /// True for a line that a fill replaces.
    pub fn is_placeholder(&self) -> bool {
        matches!(self, Self::Post { placeholder, .. } if *placeholder)
    }
}

/// The receipt shown on a person's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Receipt {
    /// Accepted and durable; work starts.
    Seen,
    /// Accepted and durable; waits behind another message of the same conversation.
    Queued,
    /// The message was [`Receipt::Queued`], and work starts now.
    Started,
}
