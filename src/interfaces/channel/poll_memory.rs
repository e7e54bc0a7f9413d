//! The memory of a channel that receives: its position among the messages of its platform.

use crate::state::store::{StoreError, ThreadBeginning};
use async_trait::async_trait;

/// The memory of one channel, which outlives the process.
#[async_trait]
pub trait PollMemory: Send + Sync {
    /// Returns the stored position; `None` if there is none yet.
    async fn position(&self) -> Result<Option<String>, StoreError>;

    /// Stores a position. It must not be after a message that is not accepted. The write may be lost with the power:
    /// messages that come again are recognised by their delivery names.
    async fn store_position(&self, position: String) -> Result<(), StoreError>;

    /// Returns the private chats in which people have conversations, those of the newest messages first.
    async fn direct_chats(&self, count_max: usize) -> Result<Vec<String>, StoreError>;

    /// Returns the conversations that people have in threads of this channel.
    async fn thread_conversations(&self, threads: Vec<String>) -> Result<Vec<ThreadBeginning>, StoreError>;
}

/// A memory that keeps nothing.
#[cfg(test)]
pub(crate) struct NoPollMemory;

#[cfg(test)]
#[async_trait]
impl PollMemory for NoPollMemory {
    async fn position(&self) -> Result<Option<String>, StoreError> {
        Ok(None)
    }

    async fn store_position(&self, _position: String) -> Result<(), StoreError> {
        Ok(())
    }

    async fn direct_chats(&self, _count_max: usize) -> Result<Vec<String>, StoreError> {
        Ok(Vec::new())
    }

    async fn thread_conversations(&self, _threads: Vec<String>) -> Result<Vec<ThreadBeginning>, StoreError> {
        Ok(Vec::new())
    }
}
