//! The places of channels. A message does not say whether its channel is a thread, and below which channel, so Discord
//! is asked once for each channel.

use super::api::{ApiError, DiscordApi};
use super::snowflake;
use crate::interfaces::channel::SendError;
use clru::CLruCache;
use serde_json::Value;
use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};

/// The number of channels that are remembered.
const CHANNELS_MAX: NonZeroUsize = match NonZeroUsize::new(4_096) {
    Some(count) => count,
    None => NonZeroUsize::MIN,
};
/// `ANNOUNCEMENT_THREAD`, `PUBLIC_THREAD` and `PRIVATE_THREAD`
const THREADS: [u64; 3] = [10, 11, 12];
/// `GUILD_TEXT` and `GUILD_ANNOUNCEMENT`: a thread can start from their messages.
const WITH_THREADS: [u64; 2] = [0, 5];

/// The kind of a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ChannelKindSeen {
    /// A direct message.
    Direct,
    /// A thread below a channel.
    ThreadOf(String),
    /// A channel in which a thread starts from a message.
    Root,
    /// A channel without threads, such as that of a voice channel.
    Flat,
}

/// The kinds of the channels seen so far.
pub(super) struct Places {
    seen: Mutex<CLruCache<String, ChannelKindSeen>>,
}

impl Places {
    pub(super) fn new() -> Self {
        Self {
            seen: Mutex::new(CLruCache::new(CHANNELS_MAX)),
        }
    }

    /// Returns the kind of a channel; `None` if the bot cannot see it.
    pub(super) async fn kind(
        &self,
        api: &DiscordApi,
        channel: &str,
    ) -> Result<Option<ChannelKindSeen>, SendError> {
        let known = |seen: &mut CLruCache<String, ChannelKindSeen>| seen.get(channel).cloned();
        if let Some(kind) = known(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(Some(kind));
        }
        let asked = api.requests().channel(snowflake(channel)?);
        let kind = match api.call(asked).await {
            Ok(channel) => kind_of(&channel),
            Err(ApiError::Refused { .. }) => return Ok(None),
            Err(error) => return Err(error.into_repeatable_error()),
        };
        self.remember(channel.to_owned(), kind.clone());
        Ok(Some(kind))
    }

    /// Remembers the kind of a channel that Discord has shown.
    pub(super) fn remember(&self, channel: String, kind: ChannelKindSeen) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.put(channel, kind);
    }
}

/// Returns the kind of a channel object.
pub(super) fn kind_of(channel: &Value) -> ChannelKindSeen {
    let number = channel["type"].as_u64();
    match (number, channel["parent_id"].as_str()) {
        (Some(1 | 3), _) => ChannelKindSeen::Direct,
        (Some(kind), Some(parent)) if THREADS.contains(&kind) => ChannelKindSeen::ThreadOf(parent.to_owned()),
        (Some(kind), _) if WITH_THREADS.contains(&kind) => ChannelKindSeen::Root,
        _ => ChannelKindSeen::Flat,
    }
}
