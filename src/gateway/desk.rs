//! What is running right now, in this process: how it is stopped, and the card that shows it.

use super::progress::Card;
use crate::model::{ConversationId, TurnId};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// The running turns. Locked for moments only, never across an await.
#[derive(Debug, Default)]
pub(super) struct Desk {
    running: Mutex<HashMap<ConversationId, Running>>,
}

/// One running turn.
#[derive(Clone, Debug)]
pub(super) struct Running {
    pub(super) turn: TurnId,
    pub(super) stop: CancellationToken,
    pub(super) card: watch::Sender<Card>,
}

impl Desk {
    pub(super) fn begin(&self, conversation: ConversationId, running: Running) {
        self.lock().insert(conversation, running);
    }

    pub(super) fn end(&self, conversation: ConversationId) {
        self.lock().remove(&conversation);
    }

    pub(super) fn turn(&self, conversation: ConversationId) -> Option<TurnId> {
        self.lock().get(&conversation).map(|running| running.turn)
    }

    /// Stops the running turn of a conversation; false if nothing runs.
    pub(super) fn stop(&self, conversation: ConversationId) -> bool {
        self.lock().get(&conversation).is_some_and(|running| {
            running.stop.cancel();
            true
        })
    }

    /// Shows on the running card how many messages wait behind it.
    pub(super) fn waiting(&self, conversation: ConversationId, waiting: usize) {
        if let Some(running) = self.lock().get(&conversation) {
            running.card.send_modify(|card| card.set_waiting(waiting));
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ConversationId, Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
