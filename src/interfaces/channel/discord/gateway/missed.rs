//! Reads the messages that no session has sent: those since the last accepted one, in the channels and active threads of
//! the bot's servers and in the private chats of people with a conversation. A server is asked once for its channels,
//! which say what their last message is, so only channels with new messages are read. Discord shows a bot no list of its
//! private chats. See <https://docs.discord.com/developers/resources/message#get-channel-messages>.

use crate::interfaces::channel::discord::DiscordChannel;
use crate::interfaces::channel::discord::api::DiscordError;
use crate::interfaces::channel::discord::decode::person_message;
use crate::interfaces::channel::discord::lookup::snowflake_at;
use crate::interfaces::channel::discord::places::{ChannelKindSeen, Places, kind_of};
use crate::interfaces::channel::{PollMemory, SendError};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::time::{Duration, Instant};
use twilight_http::request::TryIntoRequest;
use twilight_model::id::Id;

/// The age from which a message is not answered any more. Delivery names are kept for at least a day.
const AGE_MAX: SignedDuration = SignedDuration::from_hours(23);
/// The time before the last accepted message that is read again: events of several channels may come in another order
/// than that of their ids.
const OVERLAP_MILLISECONDS: u64 = 10_000;
/// The maximum number of servers, of private chats, and of channels and threads.
const GUILDS_MAX: usize = 50;
const DIRECT_CHATS_MAX: usize = 50;
const CHANNELS_MAX: usize = 100;
/// The number of messages of a page, and the maximum number of pages of a channel.
const PAGE: u16 = 100;
const PAGES_MAX: usize = 10;
/// The maximum number of messages that are passed on.
const MESSAGES_MAX: usize = 2_000;
/// The time after which no further channel is read.
const READ_TIME_MAX: Duration = Duration::from_secs(90);
/// The waits after failed attempts.
const WAITS: [Duration; 4] = [
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
    Duration::from_secs(8),
];
/// The longest wait that Discord can ask for between two attempts.
const ASKED_WAIT_MAX: Duration = Duration::from_secs(30);
/// `GUILD_CATEGORY`, `GUILD_DIRECTORY`, `GUILD_FORUM` and `GUILD_MEDIA`, which have no messages of their own.
const WITHOUT_MESSAGES: [u64; 4] = [4, 14, 15, 16];

/// The messages that were read.
pub(super) struct MissedMessages {
    /// The messages that may be requests, as events, oldest first.
    pub(super) events: VecDeque<Value>,
    /// The highest id of all messages that were read.
    pub(super) newest: u64,
}

/// Reads missed messages of one channel of Drydock.
pub(super) struct MissedReader<'a> {
    pub(super) channel: &'a DiscordChannel,
    pub(super) places: &'a Places,
    pub(super) memory: &'a dyn PollMemory,
    pub(super) now: fn() -> Timestamp,
}

/// A channel, a thread or a private chat to read.
struct MissedSource {
    channel: u64,
    /// The server; `None` for a private chat.
    guild: Option<String>,
    is_thread: bool,
    /// The id of the last message.
    last: u64,
}

/// The messages that were read so far.
struct Reading {
    /// The last message before those that may be missed.
    since: u64,
    messages: Vec<(u64, Value)>,
    newest: u64,
    is_cut: bool,
}

impl MissedReader<'_> {
    /// Reads the messages since one. `None` if that fails several times; the next connection tries it again.
    pub(super) async fn read(&self, since: u64) -> Option<MissedMessages> {
        let name = self.channel.name.as_str();
        for wait in WAITS {
            match self.read_once(since).await {
                Ok(missed) => {
                    let count = missed.events.len();
                    tracing::info!(
                        channel = name,
                        count,
                        "read the messages that were sent without a session"
                    );
                    return Some(missed);
                }
                Err(error) => {
                    let wait = wait.max(asked_wait(&error));
                    tracing::warn!(channel = name, %error, "missed messages of discord could not be read");
                    tokio::time::sleep(wait).await;
                }
            }
        }
        tracing::error!(
            channel = name,
            "messages that were sent to discord without a session are not answered; the next connection tries again"
        );
        None
    }

    async fn read_once(&self, since: u64) -> Result<MissedMessages, SendError> {
        let began = Instant::now();
        let oldest = (self.now)().saturating_sub(AGE_MAX).unwrap_or_default();
        let overlapping = since.saturating_sub(OVERLAP_MILLISECONDS << 22);
        let after = overlapping.max(snowflake_at(oldest)).max(1);
        let mut reading = Reading {
            since,
            messages: Vec::new(),
            newest: since,
            is_cut: false,
        };
        let sources = self.sources(after, &mut reading).await?;
        for source in sources {
            if began.elapsed() > READ_TIME_MAX || reading.messages.len() >= MESSAGES_MAX {
                reading.is_cut = true;
                break;
            }
            self.read_source(&source, after, &mut reading).await?;
        }
        if reading.is_cut {
            tracing::warn!(
                channel = self.channel.name,
                "more messages were sent to discord without a session than are read; some are not answered"
            );
        }
        reading.messages.sort_by_key(|(id, _)| *id);
        reading.messages.truncate(MESSAGES_MAX);
        Ok(MissedMessages {
            events: reading.messages.into_iter().map(|(_, message)| message).collect(),
            newest: reading.newest,
        })
    }

    /// Returns the private chats, and the channels and threads with a message after one, newest first.
    async fn sources(&self, after: u64, reading: &mut Reading) -> Result<Vec<MissedSource>, SendError> {
        let chats = self.memory.direct_chats(DIRECT_CHATS_MAX).await;
        let chats = chats.map_err(|error| SendError::NotSent {
            why: error.to_string(),
            retry_after: None,
        })?;
        let requests = self.channel.api.requests();
        let guilds = self.asked(requests.current_user_guilds()).await?;
        let mut channels = Vec::new();
        reading.is_cut |= list(&guilds).len() > GUILDS_MAX;
        for guild in list(&guilds).iter().take(GUILDS_MAX) {
            let Some(id) = id_of(guild).and_then(Id::new_checked) else {
                continue;
            };
            let threads = self.asked(requests.active_threads(id)).await?;
            let rooms = self.asked(requests.guild_channels(id)).await?;
            for channel in list(&rooms).iter().chain(list(&threads["threads"])) {
                channels.extend(
                    self.source(channel, id.get())
                        .filter(|source| source.last > after),
                );
            }
        }
        channels.sort_by_key(|source| std::cmp::Reverse(source.last));
        reading.is_cut |= channels.len() > CHANNELS_MAX;
        channels.truncate(CHANNELS_MAX);
        let chats = chats.iter().filter_map(|chat| chat.parse::<u64>().ok());
        let direct = chats.filter(|chat| *chat > 0).map(|channel| MissedSource {
            channel,
            guild: None,
            is_thread: false,
            last: 0,
        });
        Ok(direct.chain(channels).collect())
    }

    fn source(&self, channel: &Value, guild: u64) -> Option<MissedSource> {
        let number = channel["type"].as_u64()?;
        if WITHOUT_MESSAGES.contains(&number) {
            return None;
        }
        let id = id_of(channel)?;
        let kind = kind_of(channel);
        let is_thread = matches!(kind, ChannelKindSeen::ThreadOf(_));
        self.places.remember(id.to_string(), kind);
        Some(MissedSource {
            channel: id,
            guild: Some(guild.to_string()),
            is_thread,
            last: channel["last_message_id"].as_str()?.parse().ok()?,
        })
    }

    /// Reads the messages of one source, page by page. What the bot may not read is left out.
    async fn read_source(
        &self,
        source: &MissedSource,
        mut after: u64,
        reading: &mut Reading,
    ) -> Result<(), SendError> {
        for _ in 0..PAGES_MAX {
            let request = self
                .channel
                .api
                .requests()
                .channel_messages(Id::new(source.channel));
            let page = self.asked(request.limit(PAGE).after(Id::new(after))).await?;
            let Value::Array(page) = page else {
                return Ok(());
            };
            let is_last = page.len() < usize::from(PAGE);
            let newest = page.iter().filter_map(id_of).max();
            for message in page {
                self.take(message, source, reading);
            }
            match newest {
                Some(newest) if !is_last && newest > after => after = newest,
                Some(_) | None => return Ok(()),
            }
        }
        reading.is_cut = true;
        Ok(())
    }

    /// Keeps a message that may be a request. A message that nobody addressed to the bot can be one in a thread; before
    /// the last accepted one it was decided on already.
    fn take(&self, mut message: Value, source: &MissedSource, reading: &mut Reading) {
        let Some(id) = id_of(&message) else {
            return;
        };
        reading.newest = reading.newest.max(id);
        // Only events say which server they are from.
        if let Some(guild) = &source.guild {
            message["guild_id"] = json!(guild);
        }
        // The words were edited before Drydock has seen them, so these are the words of the request.
        message["edited_timestamp"] = Value::Null;
        let is_addressed = match person_message(&message, &self.channel.installation) {
            Ok(written) => written.is_addressed,
            Err(_) => return,
        };
        if is_addressed || source.is_thread && id > reading.since {
            reading.messages.push((id, message));
        }
    }

    /// Sends a request. The result of a refused one is null.
    async fn asked(&self, request: impl TryIntoRequest) -> Result<Value, SendError> {
        match self.channel.api.call(request).await {
            Ok(answer) => Ok(answer),
            Err(DiscordError::Refused { reason, .. }) => {
                tracing::debug!(
                    channel = self.channel.name,
                    reason,
                    "discord does not show messages to the bot"
                );
                Ok(Value::Null)
            }
            Err(error) => Err(error.into_repeatable_error()),
        }
    }
}

fn asked_wait(error: &SendError) -> Duration {
    match error {
        SendError::Limited { retry_after, .. } => retry_after.unwrap_or_default().min(ASKED_WAIT_MAX),
        _ => Duration::ZERO,
    }
}

fn list(answer: &Value) -> &[Value] {
    answer.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Returns the id of an object, which is never 0.
pub(super) fn id_of(object: &Value) -> Option<u64> {
    object["id"].as_str()?.parse().ok().filter(|id| *id > 0)
}
