//! What is being worked on right now, in this process: how it is stopped, and the card that shows it.

use super::progress::Card;
use crate::model::{ConversationId, TurnId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// The conversations somebody works on. Locked for moments only, never across an await.
#[derive(Clone, Debug, Default)]
pub(super) struct Desk {
    working: Arc<Mutex<HashMap<ConversationId, Working>>>,
}

#[derive(Debug)]
struct Working {
    turn: Option<TurnId>,
    stop: CancellationToken,
    card: watch::Sender<Card>,
}

/// A place at the desk, from the moment a message is taken up. Dropping it gives the place back.
#[derive(Debug)]
pub(super) struct Seat {
    desk: Desk,
    conversation: ConversationId,
    /// Fires when the person says stop.
    pub(super) stop: CancellationToken,
    /// What the card says.
    pub(super) card: watch::Sender<Card>,
}

impl Seat {
    /// The model is about to be asked.
    pub(super) fn began(&self, turn: TurnId) {
        if let Some(working) = self.desk.lock().get_mut(&self.conversation) {
            working.turn = Some(turn);
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.desk.lock().remove(&self.conversation);
    }
}

impl Desk {
    /// Takes the place of a conversation, which is free: its lease is held.
    pub(super) fn sit(&self, conversation: ConversationId) -> Seat {
        let (stop, card) = (CancellationToken::new(), watch::Sender::new(Card::default()));
        let working = Working {
            turn: None,
            stop: stop.clone(),
            card: card.clone(),
        };
        self.lock().insert(conversation, working);
        Seat {
            desk: self.clone(),
            conversation,
            stop,
            card,
        }
    }

    /// True while a message of the conversation is worked on.
    pub(super) fn is_busy(&self, conversation: ConversationId) -> bool {
        self.lock().contains_key(&conversation)
    }

    /// Conversations that are worked on.
    pub(super) fn at_work(&self) -> usize {
        self.lock().len()
    }

    /// The running turn, once it has begun.
    pub(super) fn turn(&self, conversation: ConversationId) -> Option<TurnId> {
        self.lock().get(&conversation)?.turn
    }

    /// Stops what a conversation works on; false if that is nothing.
    pub(super) fn stop(&self, conversation: ConversationId) -> bool {
        self.lock().get(&conversation).is_some_and(|working| {
            working.stop.cancel();
            true
        })
    }

    /// Shows on the running card how many messages wait behind it.
    pub(super) fn waiting(&self, conversation: ConversationId, waiting: usize) {
        if let Some(working) = self.lock().get(&conversation) {
            working.card.send_modify(|card| card.set_waiting(waiting));
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ConversationId, Working>> {
        self.working.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::Desk;
    use crate::model::{ConversationId, TurnId};

    #[test]
    fn stop_reaches_a_message_before_its_turn_began_and_nobody_after_it_ended() {
        let desk = Desk::default();
        let alice = ConversationId(1);
        assert!(!desk.stop(alice));
        let seat = desk.sit(alice);
        assert!(desk.is_busy(alice) && desk.turn(alice).is_none());
        seat.began(TurnId(7));
        assert_eq!(desk.turn(alice), Some(TurnId(7)));
        assert!(!desk.stop(ConversationId(2)) && !seat.stop.is_cancelled());
        assert!(desk.stop(alice) && seat.stop.is_cancelled());
        drop(seat);
        assert!(!desk.is_busy(alice) && !desk.stop(alice));
    }
}
