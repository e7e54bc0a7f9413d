//! Reads the messages that no session has sent: those since the last accepted one, in the channels and active threads of
//! the bot's servers and in the private chats of people with a conversation. A server is asked once for its channels,
//! which say what their last message is, so only channels with new messages are read. Discord shows a bot no list of its
//! private chats. See <https://docs.discord.com/developers/resources/message#get-channel-messages>.

use super::GatewayReceiver;
use super::reading::{HistoryReading, MissedMessages, MissedRange};
use crate::interfaces::channel::SendError;
use crate::interfaces::channel::discord::api::ApiError;
use crate::interfaces::channel::discord::list;
use crate::interfaces::channel::discord::lookup::snowflake_at;
use crate::interfaces::channel::discord::places::{ChannelKindSeen, kind_of};
use crate::state::store::StoreError;
use jiff::SignedDuration;
use serde_json::Value;
use std::time::{Duration, Instant};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
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
/// The time of reading after which no further channel is read. Waits after failed attempts do not count.
const READ_TIME_MAX: Duration = Duration::from_secs(90);
/// The time after which reading is given up for good, waits included. Later messages wait until then.
const CATCH_UP_TIME_MAX: Duration = Duration::from_secs(300);
/// The number of failed attempts after which one channel is left out, if Discord answers otherwise.
const ATTEMPTS_MAX: u32 = 5;
/// The bounds of the growing wait after failed attempts.
const WAIT_MIN: Duration = Duration::from_secs(1);
const WAIT_MAX: Duration = Duration::from_secs(30);
/// The longest wait that Discord can ask for between two attempts.
const ASKED_WAIT_MAX: Duration = Duration::from_secs(30);
/// `GUILD_CATEGORY`, `GUILD_DIRECTORY`, `GUILD_FORUM` and `GUILD_MEDIA`, which have no messages of their own.
const WITHOUT_MESSAGES: [u64; 4] = [4, 14, 15, 16];

/// A channel, a thread or a private chat to read.
#[derive(Default)]
struct MissedSource {
    channel: u64,
    /// The server; `None` for a private chat.
    guild: Option<String>,
    is_thread: bool,
    /// The id of the last message.
    last: u64,
    /// The id of the last message that was read, or is not to be read, and the number of pages that were.
    after: u64,
    pages: usize,
    failures: u32,
    is_read: bool,
}

impl MissedSource {
    /// Returns true if it is to be read.
    fn is_open(&self) -> bool {
        !self.is_read && self.failures < ATTEMPTS_MAX
    }

    fn thread(&self) -> Option<u64> {
        self.is_thread.then_some(self.channel)
    }
}

impl GatewayReceiver<'_> {
    /// Reads the messages of a range, and tries again what fails: until a time limit, or until `enough`. What is not
    /// read until then never is, because later messages are answered then.
    pub(super) async fn read_missed(&self, range: MissedRange, enough: CancellationToken) -> MissedMessages {
        let channel = self.channel.name.as_str();
        let began = (self.now)();
        let mut reading = HistoryReading::new(&self.channel.installation, range);
        let mut sources = None;
        let reads = Box::pin(self.read_sources(range.since, &mut reading, &mut sources));
        let _ended = enough
            .run_until_cancelled(timeout(CATCH_UP_TIME_MAX, reads))
            .await;
        let mut missed = reading.finish();
        let unread = sources.map(|sources| sources.iter().filter(|source| !source.is_read).count());
        if unread != Some(0) {
            missed.is_cut = true;
            missed.newest = missed.newest.max(snowflake_at(began));
        }
        match unread {
            Some(0) => {}
            Some(unread) => {
                tracing::error!(channel, unread, "channels of discord were not read to their end")
            }
            None => tracing::error!(channel, "discord did not list its channels, so none was read"),
        }
        if missed.is_cut {
            tracing::warn!(
                channel,
                "more messages were sent to discord without a session than are read; some are not answered"
            );
        }
        let count = missed.events.len();
        tracing::info!(
            channel,
            count,
            "read the messages that were sent without a session"
        );
        missed
    }

    /// Reads all sources, which it stores in `found` once Discord has listed them.
    async fn read_sources(
        &self,
        since: u64,
        reading: &mut HistoryReading<'_>,
        found: &mut Option<Vec<MissedSource>>,
    ) {
        let oldest = (self.now)().saturating_sub(AGE_MAX).unwrap_or_default();
        let overlapping = since.saturating_sub(OVERLAP_MILLISECONDS << 22);
        let after = overlapping.max(snowflake_at(oldest)).max(1);
        let mut failures = 0;
        let sources = loop {
            match self.missed_sources(after, reading).await {
                Ok(sources) => break sources,
                Err(error) => self.wait_after(&error, &mut failures).await,
            }
        };
        let sources = found.insert(sources);
        let mut spent = Duration::ZERO;
        while sources.iter().any(MissedSource::is_open) {
            let (mut failed, mut last_error, mut has_read, mut lacks_rooms) =
                (Vec::new(), None, false, false);
            for (index, source) in sources.iter_mut().enumerate() {
                // The message from which a thread begins is read before the thread.
                let waits = lacks_rooms && source.is_thread && !reading.has_conversation(source.channel);
                if waits || !source.is_open() {
                    continue;
                }
                if spent > READ_TIME_MAX || reading.is_full() {
                    return;
                }
                let started = Instant::now();
                match self.read_source(source, reading).await {
                    Ok(()) => {
                        spent += started.elapsed();
                        source.is_read = true;
                        has_read = true;
                    }
                    Err(error) => {
                        lacks_rooms |= !source.is_thread;
                        failed.push(index);
                        last_error = Some(error);
                    }
                }
            }
            let Some(error) = last_error else {
                return;
            };
            // While Discord answers nothing, no attempt counts.
            let requests = self.channel.api.requests();
            if has_read || self.asked(requests.current_user_guilds()).await.is_ok() {
                for index in failed {
                    if let Some(source) = sources.get_mut(index) {
                        source.failures += 1;
                    }
                }
            }
            self.wait_after(&error, &mut failures).await;
        }
    }

    async fn wait_after(&self, error: &SendError, failures: &mut u32) {
        let channel = self.channel.name.as_str();
        tracing::warn!(channel, %error, "missed messages of discord could not be read");
        let wait = WAIT_MIN.saturating_mul(1 << (*failures).min(5)).min(WAIT_MAX);
        *failures = failures.saturating_add(1);
        tokio::time::sleep(wait.max(asked_wait(error))).await;
    }

    /// Returns the private chats, and the channels and threads with a message after one, newest first.
    async fn missed_sources(
        &self,
        after: u64,
        reading: &mut HistoryReading<'_>,
    ) -> Result<Vec<MissedSource>, SendError> {
        let chats = self.memory.direct_chats(DIRECT_CHATS_MAX).await;
        let chats = chats.map_err(not_read)?;
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
                    self.missed_source(channel, id.get(), after)
                        .filter(|source| source.last > after),
                );
            }
        }
        channels.sort_by_key(|source| std::cmp::Reverse(source.last));
        reading.is_cut |= channels.len() > CHANNELS_MAX;
        channels.truncate(CHANNELS_MAX);
        self.read_conversations(&mut channels, reading).await?;
        let chats = chats.iter().filter_map(|chat| chat.parse::<u64>().ok());
        let direct = chats.filter(|chat| *chat > 0).map(|channel| MissedSource {
            channel,
            after,
            ..MissedSource::default()
        });
        Ok(direct.chain(channels).collect())
    }

    fn missed_source(&self, channel: &Value, guild: u64, after: u64) -> Option<MissedSource> {
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
            after,
            ..MissedSource::default()
        })
    }

    /// Reads the conversations in threads. Those without one come last, after the messages from which they begin.
    async fn read_conversations(
        &self,
        channels: &mut [MissedSource],
        reading: &mut HistoryReading<'_>,
    ) -> Result<(), SendError> {
        let threads = channels.iter().filter_map(MissedSource::thread);
        let threads = threads.map(|thread| thread.to_string()).collect();
        let begun = self
            .memory
            .thread_conversations(threads)
            .await
            .map_err(not_read)?;
        for beginning in begun {
            if let Ok(thread) = beginning.thread.parse() {
                reading.begin(thread, &beginning.person, snowflake_at(beginning.at));
            }
        }
        channels.sort_by_key(|source| source.is_thread && !reading.has_conversation(source.channel));
        Ok(())
    }

    /// Reads the messages of one source, page by page. What the bot may not read is left out.
    async fn read_source(
        &self,
        source: &mut MissedSource,
        reading: &mut HistoryReading<'_>,
    ) -> Result<(), SendError> {
        while source.pages < PAGES_MAX {
            let requests = self.channel.api.requests();
            let request = requests.channel_messages(Id::new(source.channel));
            let page = self
                .asked(request.limit(PAGE).after(Id::new(source.after)))
                .await?;
            let Value::Array(mut page) = page else {
                return Ok(());
            };
            let is_last = page.len() < usize::from(PAGE);
            page.sort_by_key(id_of);
            let newest = page.last().and_then(id_of);
            for message in page {
                reading.take(message, source.guild.as_deref(), source.thread());
            }
            source.pages += 1;
            match newest {
                Some(newest) if !is_last && newest > source.after => source.after = newest,
                Some(_) | None => return Ok(()),
            }
        }
        reading.is_cut = true;
        Ok(())
    }

    /// Sends a request. The result of a refused one is null.
    async fn asked(&self, request: impl TryIntoRequest) -> Result<Value, SendError> {
        match self.channel.api.call(request).await {
            Ok(answer) => Ok(answer),
            Err(ApiError::Refused { reason, .. }) => {
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

fn not_read(error: StoreError) -> SendError {
    SendError::NotSent {
        why: error.to_string(),
        retry_after: None,
    }
}

fn asked_wait(error: &SendError) -> Duration {
    match error {
        SendError::Limited { retry_after, .. } => retry_after.unwrap_or_default().min(ASKED_WAIT_MAX),
        _ => Duration::ZERO,
    }
}

/// Returns the id of an object, which is never 0.
pub(super) fn id_of(object: &Value) -> Option<u64> {
    object["id"].as_str()?.parse().ok().filter(|id| *id > 0)
}
