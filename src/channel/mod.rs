//! Channels: where people are. A channel renders replies for its platform, escapes everything, and
//! delivers operations. What comes in from a channel arrives through [`crate::webhook`] or, for
//! platforms that are polled, through [`Channel::poll`].

mod limit;
mod markdown;
mod slack;
mod telegram;
mod visible;

pub use limit::{CallPurpose, Limit, Scope};

use crate::config::{ChannelSettings, ServerSettings};
use crate::model::{Inbound, Installation, MessageRef, Op, Reply};
use async_trait::async_trait;
use jiff::Timestamp;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Characters of text that no platform takes more of in one message; Slack takes the most.
pub const MESSAGE_CHARS_MAX: usize = slack::MESSAGE_CHARS_MAX;

/// The result of a delivered operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delivered {
    /// The id of the message that was posted, for [`crate::model::Action::Post`] and uploads.
    pub message: Option<MessageRef>,
}

/// An error of a delivery, by what the caller can do about it. Messages carry no token, no URL and no message text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// Definitely not sent: nobody could be reached, or the platform says that it is out of service. Says nothing
    /// about the operation.
    #[error("cannot be reached: {0}")]
    Unreachable(String),
    /// Definitely not sent: the platform does not take our token. Says nothing about the operation.
    #[error("the token is not taken: {0}")]
    Unauthorised(String),
    /// Definitely not sent: the platform asks us to call less often.
    #[error("limited: {why}")]
    Limited {
        /// The reason, in a few words.
        why: String,
        /// The wait that the platform asked for.
        retry_after: Option<Duration>,
    },
    /// The call brought no answer, and may be done again without being seen twice.
    #[error("not sent: {why}")]
    NotSent {
        /// The reason, in a few words.
        why: String,
        /// The wait that the platform asked for.
        retry_after: Option<Duration>,
    },
    /// The platform answered, and another host that it named did not, nor took it. May be done again without being seen
    /// twice, and says nothing about whether the platform is there.
    #[error("not sent: {why}")]
    OtherHost {
        /// The reason, in a few words.
        why: String,
        /// The wait that the other host asked for.
        retry_after: Option<Duration>,
    },
    /// Definitely not sent, and never will be: any other 4xx, `ok: false`.
    #[error("refused: {0}")]
    Refused(String),
    /// The connection broke after the request was written: it may or may not show.
    #[error("unknown outcome: {0}")]
    Ambiguous(String),
}

/// The knowledge of a platform about an operation that may have been delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeliveryLookup {
    /// The operation was delivered, as this message.
    Message(MessageRef),
    /// The operation shows nowhere.
    Nothing,
    /// The platform cannot be asked that.
    CannotTell,
}

/// An inbound of a polled platform, and the way to say that it is durable.
#[derive(Debug)]
pub struct PolledInbound {
    /// The message that came in.
    pub inbound: Inbound,
    /// Answered once the gateway has stored or refused it. Until then the platform is not told that
    /// we have it; dropping it unanswered makes the platform deliver it again.
    pub accepted: tokio::sync::oneshot::Sender<()>,
}

/// A chat platform account.
#[async_trait]
pub trait Channel: Send + Sync {
    /// Returns the installation of this account.
    fn installation(&self) -> &Installation;

    /// Delivers one operation. Safe to repeat for everything but posts and uploads.
    async fn deliver(&self, op: &Op) -> Result<Delivered, SendError>;

    /// Returns true if [`Channel::find`] can tell of every post. Then no post is repeated for want of knowledge, and
    /// none needs a placeholder.
    fn can_find(&self) -> bool;

    /// Looks for what [`Channel::deliver`] made of an operation whose outcome is unknown, and which was enqueued
    /// at `since`. Changes nothing; an error says only that the platform was not asked.
    async fn find(&self, op: &Op, since: Timestamp) -> Result<DeliveryLookup, SendError>;

    /// Asks the platform for nothing but an answer: whether it is there and takes our token. Nobody sees it.
    async fn probe(&self) -> Result<(), SendError>;

    /// The limits a call for an operation counts against. The first is the one that is exhausted when the platform
    /// answers [`SendError::Limited`].
    fn limits(&self, op: &Op, call: CallPurpose) -> Vec<Limit>;

    /// Receives by polling until `cancel`, for installations without a webhook. Channels that only
    /// know webhooks return at once.
    async fn poll(&self, inbox: mpsc::Sender<PolledInbound>, cancel: CancellationToken);
}

/// Splits a reply into what fits one message each: at the platform's limits, never inside a code
/// block (a block too long for one message is continued in a new block), nothing lost. Needs no
/// connection: answers are written while a platform cannot be reached.
pub fn split(settings: &ChannelSettings, server: &ServerSettings, reply: &Reply) -> Vec<Reply> {
    match settings {
        ChannelSettings::Slack(_) => slack::split(reply, &server.link_hosts),
        ChannelSettings::Telegram(_) => telegram::split(reply, &server.link_hosts),
    }
}

/// Returns true if a reply takes at most so many messages.
pub fn fits(settings: &ChannelSettings, server: &ServerSettings, reply: &Reply, messages_max: usize) -> bool {
    match settings {
        ChannelSettings::Slack(_) => slack::split(reply, &server.link_hosts).len() <= messages_max,
        ChannelSettings::Telegram(_) => telegram::fits(reply, &server.link_hosts, messages_max),
    }
}

/// Connects a configured channel: asks the platform who we are there (Slack `auth.test`, Telegram
/// `getMe`), and for a Telegram bot in webhook mode registers the webhook below `public_url`.
pub async fn connect(
    name: &str,
    settings: &ChannelSettings,
    server: &ServerSettings,
    http: &reqwest::Client,
) -> Result<Arc<dyn Channel>, SendError> {
    match settings {
        ChannelSettings::Slack(settings) => slack::connect(name, settings, server, http).await,
        ChannelSettings::Telegram(settings) => telegram::connect(name, settings, server, http).await,
    }
}
