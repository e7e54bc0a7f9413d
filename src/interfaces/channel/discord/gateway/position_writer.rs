//! Stores the position of a channel beside its connection, which never waits for the store.

use super::position::StoredPosition;
use crate::interfaces::channel::PollMemory;
use crate::state::store::StoreError;
use std::time::Duration;
use tokio::sync::watch;

/// The pause between two writes. After a kill, the events of a pause come again and are recognised.
const PAUSE: Duration = Duration::from_millis(500);
/// The longest pause after writes that failed.
const FAILED_PAUSE_MAX: Duration = Duration::from_secs(30);

/// Stores each new position, and leaves those out that are followed by others within a pause.
pub(super) struct PositionWriter<'a> {
    /// The name of the channel.
    pub(super) channel: &'a str,
    /// The memory in which the position is stored.
    pub(super) memory: &'a dyn PollMemory,
    /// The newest position.
    pub(super) positions: watch::Receiver<Option<StoredPosition>>,
}

impl PositionWriter<'_> {
    /// Writes until there are no new positions any more.
    pub(super) async fn run(&mut self) {
        let mut pause = PAUSE;
        while self.positions.changed().await.is_ok() {
            pause = match self.write().await {
                Ok(()) => PAUSE,
                // The next message may come late, so the position is stored without one.
                Err(_) => {
                    self.positions.mark_changed();
                    (pause * 2).min(FAILED_PAUSE_MAX)
                }
            };
            tokio::time::sleep(pause).await;
        }
    }

    /// Writes the newest position.
    pub(super) async fn write(&mut self) -> Result<(), StoreError> {
        let position = self.positions.borrow_and_update().clone();
        let Some(Ok(text)) = position.map(|position| serde_json::to_string(&position)) else {
            return Ok(());
        };
        let stored = self.memory.store_position(text).await;
        if let Err(error) = &stored {
            tracing::warn!(
                channel = self.channel,
                %error,
                "the position in the gateway of discord was not stored; messages since the last one may come again"
            );
        }
        stored
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::PositionWriter;
    use crate::interfaces::channel::discord::gateway::position::GatewayPosition;
    use crate::interfaces::channel::{NoPollMemory, PollMemory};
    use crate::state::store::{StoreError, ThreadBeginning};
    use async_trait::async_trait;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;
    use tokio::sync::watch;
    use tokio::time::timeout;

    /// A store that fails a few times.
    struct FailingMemory {
        failures: AtomicUsize,
        stored: watch::Sender<Option<String>>,
    }

    #[async_trait]
    impl PollMemory for FailingMemory {
        async fn position(&self) -> Result<Option<String>, StoreError> {
            NoPollMemory.position().await
        }

        async fn store_position(&self, position: String) -> Result<(), StoreError> {
            let left = |failures: usize| failures.checked_sub(1);
            if self
                .failures
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, left)
                .is_ok()
            {
                return Err(StoreError::Unavailable("the disk is full".to_owned()));
            }
            self.stored.send_replace(Some(position));
            Ok(())
        }

        async fn direct_chats(&self, count_max: usize) -> Result<Vec<String>, StoreError> {
            NoPollMemory.direct_chats(count_max).await
        }

        async fn thread_conversations(
            &self,
            threads: Vec<String>,
        ) -> Result<Vec<ThreadBeginning>, StoreError> {
            NoPollMemory.thread_conversations(threads).await
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_position_that_was_not_stored_is_stored_later_without_another_message() {
        let memory = FailingMemory {
            failures: AtomicUsize::new(3),
            stored: watch::Sender::new(None),
        };
        let (newest, positions) = watch::channel(None);
        let mut writer = PositionWriter {
            channel: "discord",
            memory: &memory,
            positions,
        };
        let position = GatewayPosition::default().stored("1002");
        newest.send_replace(Some(position.clone()));
        let mut stored = memory.stored.subscribe();
        let seen = timeout(Duration::from_secs(10), stored.wait_for(Option::is_some));
        let seen = tokio::select! {
            () = writer.run() => None,
            seen = seen => seen.unwrap().unwrap().clone(),
        };
        assert_eq!(seen, Some(serde_json::to_string(&position).unwrap()));
    }
}
