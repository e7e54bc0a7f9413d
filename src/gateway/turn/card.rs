//! The card of a running turn: posted once per message, whatever happens in between, and kept current
//! until the turn ends.

use super::{Assigned, Opened};
use crate::gateway::Gateway;
use crate::gateway::compose::Address;
use crate::gateway::desk::Seat;
use crate::gateway::progress::{Card, CardEditor};
use crate::store::Announcement;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// A card on show; none for hooks.
#[derive(Default)]
pub(super) struct OpenCard {
    done: CancellationToken,
    editor: Option<JoinHandle<()>>,
}

impl OpenCard {
    /// Stops the edits, so that nothing overtakes the last one.
    pub(super) async fn close(self) {
        self.done.cancel();
        if let Some(editor) = self.editor
            && let Err(error) = editor.await
        {
            tracing::warn!(%error, "a progress card broke");
        }
    }
}

impl Gateway {
    /// The card as it is posted with the begin of a turn, unless a card of this message is there
    /// already, and what it shows. Hooks have none: they post one message.
    pub(super) fn card(
        &self,
        assigned: &Assigned,
        address: &Address,
        opened: &Opened,
        seat: &Seat,
    ) -> (Announcement, Card) {
        if self.hook(assigned.inbound()).is_some() {
            return (Announcement::default(), Card::default());
        }
        let (token, action) = self.button("stop", opened);
        seat.card.send_modify(|card| {
            card.set_started();
            card.set_stop(token);
        });
        let card = seat.card.borrow().clone();
        let announcement = Announcement {
            ops: vec![address.post("card", card.reply())],
            actions: vec![action],
            take: self.delivers_at_once(&address.channel),
        };
        (announcement, card)
    }

    /// Starts to keep the card of a turn that began current; `posted` is what it says so far.
    pub(super) fn open_card(
        &self,
        assigned: &Assigned,
        address: &Address,
        seat: &Seat,
        posted: Card,
    ) -> OpenCard {
        let delivery = self.deliveries.get(&address.channel);
        let Some(delivery) = delivery.filter(|_| self.hook(assigned.inbound()).is_none()) else {
            return OpenCard::default();
        };
        let editor = CardEditor {
            store: self.parts.store.clone(),
            channel_name: address.channel.clone(),
            channel: delivery.connected(),
            place: address.place.clone(),
            post: address.id("card"),
            posted,
            delivered: delivery.delivered(),
            desk: self.desk.clone(),
        };
        let done = CancellationToken::new();
        let editor = tokio::spawn(editor.run(seat.card.subscribe(), done.clone()));
        OpenCard {
            done,
            editor: Some(editor),
        }
    }
}
