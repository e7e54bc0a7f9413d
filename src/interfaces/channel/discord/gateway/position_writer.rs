//! Stores the position of a channel beside its connection, which never waits for the store.

use super::position::StoredPosition;
use crate::interfaces::channel::PollMemory;
use std::time::Duration;
use tokio::sync::watch;

/// The pause between two writes. After a kill, the events of a pause come again and are recognised.
const PAUSE: Duration = Duration::from_millis(500);

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
        while self.positions.changed().await.is_ok() {
            self.write().await;
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Writes the newest position.
    pub(super) async fn write(&mut self) {
        let position = self.positions.borrow_and_update().clone();
        let Some(Ok(text)) = position.map(|position| serde_json::to_string(&position)) else {
            return;
        };
        if let Err(error) = self.memory.store_position(text).await {
            tracing::warn!(
                channel = self.channel,
                %error,
                "the position in the gateway of discord was not stored; messages since the last one may come again"
            );
        }
    }
}
