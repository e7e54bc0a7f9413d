//! The active turns of this process, each with its stop token and its status card.

use super::status_card::StatusCard;
use crate::base::model::{ConversationId, InboxId, TurnId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// The conversations with an active turn. The lock is held only briefly and never across an await.
#[derive(Clone, Debug, Default)]
pub(super) struct ActiveTurns {
    turns: Arc<Mutex<HashMap<ConversationId, ActiveTurn>>>,
}

#[derive(Debug)]
struct ActiveTurn {
    message: Option<InboxId>,
    turn: Option<TurnId>,
    stop: CancellationToken,
    card: watch::Sender<StatusCard>,
    /// True until the turn takes no more messages.
    may_take: bool,
}

/// The entry of an active turn, created when its message is claimed. Dropping it removes the entry.
#[derive(Debug)]
pub(super) struct TurnHandle {
    active_turns: ActiveTurns,
    conversation: ConversationId,
    /// Fires when the person stops the turn.
    pub(super) stop: CancellationToken,
    /// The content of the status card.
    pub(super) card: watch::Sender<StatusCard>,
}

impl TurnHandle {
    /// Records which message is being answered.
    pub(super) fn set_message(&self, message: InboxId) {
        if let Some(working) = self.active_turns.lock().get_mut(&self.conversation) {
            working.message = Some(message);
        }
    }

    /// Records that the turn takes no more messages, because its model has ended.
    pub(super) fn take_no_more(&self) {
        if let Some(working) = self.active_turns.lock().get_mut(&self.conversation) {
            working.may_take = false;
        }
    }

    /// Records the turn's id, just before the model call.
    pub(super) fn set_turn(&self, turn: TurnId) {
        if let Some(working) = self.active_turns.lock().get_mut(&self.conversation) {
            working.turn = Some(turn);
        }
    }
}

impl Drop for TurnHandle {
    fn drop(&mut self) {
        self.active_turns.lock().remove(&self.conversation);
    }
}

impl ActiveTurns {
    /// Registers a turn for a conversation. The conversation has no entry yet, because it was just claimed.
    pub(super) fn register(&self, conversation: ConversationId) -> TurnHandle {
        let (stop, card) = (
            CancellationToken::new(),
            watch::Sender::new(StatusCard::default()),
        );
        let working = ActiveTurn {
            message: None,
            turn: None,
            stop: stop.clone(),
            card: card.clone(),
            may_take: true,
        };
        self.lock().insert(conversation, working);
        TurnHandle {
            active_turns: self.clone(),
            conversation,
            stop,
            card,
        }
    }

    /// True while a message of the conversation is being processed.
    pub(super) fn is_busy(&self, conversation: ConversationId) -> bool {
        self.lock().contains_key(&conversation)
    }

    pub(super) fn count(&self) -> usize {
        self.lock().len()
    }

    /// Returns the id of the running turn, once it has begun.
    pub(super) fn turn(&self, conversation: ConversationId) -> Option<TurnId> {
        self.lock().get(&conversation)?.turn
    }

    /// Stops a message of a conversation if it is the one being answered. If the turn has not begun yet, it finds the
    /// stored stop when it begins.
    pub(super) fn stop(&self, conversation: ConversationId, message: InboxId) {
        if let Some(working) = self.lock().get(&conversation)
            && working.message == Some(message)
        {
            working.stop.cancel();
        }
    }

    /// True if the running turn of the conversation takes no more messages, because it is stopped or ends.
    pub(super) fn is_ending(&self, conversation: ConversationId) -> bool {
        let turns = self.lock();
        let working = turns.get(&conversation);
        working.is_some_and(|working| !working.may_take || working.stop.is_cancelled())
    }

    /// Updates the number of waiting messages on the running turn's card.
    pub(super) fn set_waiting(&self, conversation: ConversationId, waiting: usize) {
        if let Some(working) = self.lock().get(&conversation) {
            working.card.send_modify(|card| card.set_waiting(waiting));
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ConversationId, ActiveTurn>> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::ActiveTurns;
    use crate::base::model::{ConversationId, InboxId, TurnId};

    #[test]
    fn a_stop_cancels_only_the_message_it_names_in_its_conversation() {
        let (turns, alice) = (ActiveTurns::default(), ConversationId(1));
        let handle = turns.register(alice);
        assert!(turns.is_busy(alice) && turns.turn(alice).is_none());
        assert!(!turns.is_ending(alice));
        handle.set_message(InboxId(4));
        handle.set_turn(TurnId(7));
        assert_eq!(turns.turn(alice), Some(TurnId(7)));
        turns.stop(alice, InboxId(3));
        turns.stop(ConversationId(2), InboxId(4));
        assert!(!handle.stop.is_cancelled());
        turns.stop(alice, InboxId(4));
        assert!(handle.stop.is_cancelled() && turns.is_ending(alice));
        drop(handle);
        assert!(!turns.is_busy(alice));
    }
}
