//! Channels connect users to Drydock. A channel renders replies for its platform, escapes everything, and delivers
//! operations. Incoming messages arrive through its webhook or, on polled platforms, through [`Channel::poll`].

mod api_error;
mod backoff;
mod discord;
mod github;
mod inspection;
mod layout;
mod limit;
mod markdown;
mod poll_memory;
mod refusal;
mod slack;
mod telegram;
mod split;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
mod visible;
mod web_socket;
mod words;

pub use github::{comment, comment_channel, connect_comments, is_for_comments, is_own_comment};
pub use inspection::{ChannelFault, ChannelFinding, FaultSeverity};
pub use limit::{CallPurpose, Limit, Scope};
#[cfg(test)]
pub(crate) use poll_memory::NoPollMemory;
pub use poll_memory::PollMemory;
pub use slack::{BOT_SCOPES, BotScope, SlackConnection, SlackManifest, SlackManifestError};
pub use telegram::{SetupChange, SetupStep, set_up_telegram};

use crate::base::config::{ChannelSettings, ServerSettings};
use crate::base::model::{
    Account, ChatFile, ChatPlace, Inbound, Installation, MessageRef, Op, Platform, Reply,
};
use crate::base::webhook::{SecretPair, SecretPairKeys, SecretPairs, Webhook};
use async_trait::async_trait;
use bytes::Bytes;
use jiff::Timestamp;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// The maximum number of characters in one message of any platform.
pub const MESSAGE_CHARS_MAX: usize = {
    let (mut largest, mut index) = (0, 0);
    while index < Platform::ALL.len() {
        let chars_max = Platform::ALL[index].message_chars_max();
        if chars_max > largest {
            largest = chars_max;
        }
        index += 1;
    }
    largest
};

/// The refusal of [`crate::base::model::Action::Respond`] where no command has an address for answers.
const NO_RESPONSES: &str = "commands here have no address for such an answer";

/// The result of a delivered operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delivered {
    /// The id of the posted message, for [`crate::base::model::Action::Post`] and uploads.
    pub message: Option<MessageRef>,
}

/// An error of a delivery, classified by the caller's options. The texts contain no token, no URL and no message
/// text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// Definitely not sent: the platform could not be reached, or it reports that it is out of service. The operation
    /// itself may be valid.
    #[error("cannot be reached: {0}")]
    Unreachable(String),
    /// Definitely not sent: the platform rejects the token. The operation itself may be valid.
    #[error("the token is refused: {0}")]
    Unauthorised(String),
    /// Definitely not sent: the platform requires fewer calls.
    #[error("limited: {why}")]
    Limited {
        /// The reason, in a few words.
        why: String,
        /// The wait that the platform requires.
        retry_after: Option<Duration>,
    },
    /// The call got no answer, and may be repeated: a repetition is invisible to users.
    #[error("not sent: {why}")]
    NotSent {
        /// The reason, in a few words.
        why: String,
        /// The wait that the platform requires.
        retry_after: Option<Duration>,
    },
    /// The platform answered, but another host that it named failed. The call may be repeated, because a repetition
    /// is invisible to users. The error does not mean that the platform is unreachable.
    #[error("not sent: {why}")]
    OtherHost {
        /// The reason, in a few words.
        why: String,
        /// The wait that the other host requires.
        retry_after: Option<Duration>,
    },
    /// Definitely not sent: the platform refuses this form of the message. The next delivery of the operation sends a
    /// simpler form, of which there are few, and may follow as soon as the limits allow.
    #[error("refused in this form: {0}")]
    OtherForm(String),
    /// Definitely not sent, and a retry would fail as well: any other 4xx, `ok: false`.
    #[error("refused: {0}")]
    Refused(String),
    /// The connection broke after the request was written, so the message may or may not have been delivered.
    #[error("unknown outcome: {0}")]
    Ambiguous(String),
}

/// The result of looking up an operation that may have been delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeliveryLookup {
    /// The operation was delivered, as this message.
    Message(MessageRef),
    /// The operation was not delivered.
    Nothing,
    /// The platform offers no way to find out.
    CannotTell,
}

/// A message from a polled platform, and the sender that confirms its storage.
#[derive(Debug)]
pub struct PolledInbound {
    /// The received message.
    pub inbound: Inbound,
    /// Notified once the gateway has stored or refused the message. Until then the platform gets no acknowledgement;
    /// if this is dropped unused, the platform delivers the message again.
    pub accepted: tokio::sync::oneshot::Sender<()>,
}

/// A chat platform account.
#[async_trait]
pub trait Channel: Send + Sync {
    /// Returns the installation of this account.
    fn installation(&self) -> &Installation;

    /// Delivers one operation. All operations except posts and uploads can be repeated safely.
    async fn deliver(&self, op: &Op) -> Result<Delivered, SendError>;

    /// Returns true if [`Channel::find`] can find every post. Then an ambiguous post is never repeated blindly, and
    /// no post needs a placeholder.
    fn can_find(&self) -> bool;

    /// Looks up the result of an operation whose outcome is unknown and that was enqueued at `since`. Changes
    /// nothing. An error means only that the lookup failed.
    async fn find(&self, op: &Op, since: Timestamp) -> Result<DeliveryLookup, SendError>;

    /// Checks that the platform answers and accepts the token. The call is invisible to users.
    async fn probe(&self) -> Result<(), SendError>;

    /// Reads a file that a person sent, up to `bytes_max` bytes; `None` if it is larger. Changes nothing.
    async fn read_file(&self, file: &ChatFile, bytes_max: usize) -> Result<Option<Bytes>, SendError>;

    /// Returns true if an unfinished answer can be shown in a place as an [`crate::base::model::Action::Draft`].
    fn shows_drafts(&self, _place: &ChatPlace) -> bool {
        false
    }

    /// Returns true if a line that shows running work can be posted in a place as an
    /// [`crate::base::model::Action::Stream`], which has the stop button of the platform.
    fn streams(&self, _place: &ChatPlace) -> bool {
        false
    }

    /// Returns the time between two updates of running work in messages such as this one, if they are updated in turn.
    fn update_spacing(&self, _message: &MessageRef) -> Duration {
        let chat = self.installation().account.platform.chat();
        chat.map_or(Duration::ZERO, |chat| chat.card_edit_spacing)
    }

    /// Returns the maximum number of bytes of a diff that the tab of a place can show: see
    /// [`crate::base::model::Action::ShowDiff`]. `None` if the place has no such tab.
    fn diff_bytes_max(&self, _place: &ChatPlace) -> Option<usize> {
        None
    }

    /// Returns true if a place may have a tab that shows a diff, also if it shows no new one for a while.
    fn may_have_diff_tab(&self, _place: &ChatPlace) -> bool {
        false
    }

    /// Returns the limits that a call for an operation counts against. The first one is exhausted when the platform
    /// answers [`SendError::Limited`].
    fn limits(&self, op: &Op, call: CallPurpose) -> Vec<Limit>;

    /// Returns the time since which no connection was of use over which messages arrive; `None` while one is, and for a
    /// channel without such connections.
    fn disconnected_since(&self) -> Option<Timestamp> {
        None
    }

    /// Receives messages by polling, or over a connection that the channel opens, until `cancel`. Channels that only
    /// have a webhook return at once. A platform that does not deliver again what was missed needs `memory`.
    async fn poll(
        &self,
        inbox: mpsc::Sender<PolledInbound>,
        memory: &dyn PollMemory,
        now: fn() -> Timestamp,
        cancel: CancellationToken,
    );
}

/// A kind of channel. Its settings implement it; nothing here needs a connection, so replies can be prepared while the
/// platform is unreachable.
#[async_trait]
trait ChannelKind: Sync {
    /// Implements [`split`], and stops when there are more than `messages_max`.
    fn messages(&self, server: &ServerSettings, reply: &Reply, messages_max: usize) -> Vec<Reply>;

    /// Returns the maximum number of messages that a reply is said to fit into.
    fn fitting_messages_max(&self) -> usize {
        usize::MAX
    }

    /// Implements [`webhook`].
    fn webhook(&self, name: &str, installation: &Installation) -> Option<Arc<dyn Webhook>>;

    /// Implements [`inspect`].
    async fn inspect(
        &self,
        name: &str,
        server: &ServerSettings,
        http: &reqwest::Client,
        at: Timestamp,
    ) -> Vec<ChannelFinding>;

    /// Implements [`connect`].
    async fn connect(
        &self,
        name: &str,
        server: &ServerSettings,
        http: &reqwest::Client,
    ) -> Result<Arc<dyn Channel>, SendError>;
}

/// Returns the kind of a configured channel.
fn kind(settings: &ChannelSettings) -> &dyn ChannelKind {
    match settings {
        ChannelSettings::Slack(settings) => settings,
        ChannelSettings::Telegram(settings) => settings,
        ChannelSettings::Discord(settings) => settings,
    }
}

/// Splits a reply into parts that fit one message each. It respects the platform's limits, loses nothing, and does
/// not split code blocks; a code block too long for one message is continued in a new block.
pub fn split(settings: &ChannelSettings, server: &ServerSettings, reply: &Reply) -> Vec<Reply> {
    kind(settings).messages(server, reply, usize::MAX)
}

/// Returns true if a reply fits into `messages_max` messages. Stops at that number.
pub fn fits(settings: &ChannelSettings, server: &ServerSettings, reply: &Reply, messages_max: usize) -> bool {
    let kind = kind(settings);
    let messages_max = messages_max.min(kind.fitting_messages_max());
    kind.messages(server, reply, messages_max).len() <= messages_max
}

/// Returns the webhook of a connected channel; `None` for one that is only polled. While the secret of its requests is
/// replaced, it accepts both secrets; `pairs` has the use of each.
pub fn webhook(
    name: &str,
    settings: &ChannelSettings,
    installation: &Installation,
    pairs: &SecretPairs,
) -> Option<Arc<dyn Webhook>> {
    let current = kind(settings).webhook(name, installation)?;
    let previous = settings.common().with_previous_secret();
    let Some(previous) = previous.and_then(|previous| kind(&previous).webhook(name, installation)) else {
        return Some(current);
    };
    let keys = SecretPairKeys::of_channel(name, settings.common().webhook_secret_key());
    Some(Arc::new(SecretPair::new(pairs.of(keys), current, previous)))
}

/// Returns the webhook of a channel that is not connected yet. It only verifies; its decoded content must not be
/// used.
pub fn unconnected_webhook(
    name: &str,
    settings: &ChannelSettings,
    pairs: &SecretPairs,
) -> Option<Arc<dyn Webhook>> {
    let nobody = Installation {
        account: Account {
            platform: settings.common().platform(),
            id: String::new(),
        },
        bot_id: String::new(),
        bot_name: String::new(),
    };
    webhook(name, settings, &nobody, pairs)
}

/// Asks the platform of a channel for the state of its token, its permissions and the delivery of messages, and changes
/// nothing. `at` is the time of this machine.
pub async fn inspect(
    name: &str,
    settings: &ChannelSettings,
    server: &ServerSettings,
    http: &reqwest::Client,
    at: Timestamp,
) -> Vec<ChannelFinding> {
    kind(settings).inspect(name, server, http, at).await
}

/// Connects a configured channel. It requests the bot's own identity from the platform (Slack `auth.test`, Telegram
/// `getMe`), and registers the webhook of a Telegram bot in webhook mode below `public_url`.
pub async fn connect(
    name: &str,
    settings: &ChannelSettings,
    server: &ServerSettings,
    http: &reqwest::Client,
) -> Result<Arc<dyn Channel>, SendError> {
    kind(settings).connect(name, server, http).await
}
