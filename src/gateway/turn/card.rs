//! The card of a running turn: posted once per message, whatever happens in between, and kept current
//! until the turn ends.

use super::{Assigned, Opened};
use crate::gateway::Gateway;
use crate::gateway::compose::Address;
use crate::gateway::desk::Seat;
use crate::gateway::progress::CardEditor;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// A card on show; none for hooks and for channels that are not connected.
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
    /// Posts the card of a turn, unless a card of this message is there already, and starts to keep it
    /// current. Hooks have none: they post one message.
    pub(super) async fn open_card(
        &self,
        assigned: &Assigned,
        address: &Address,
        opened: &Opened,
        seat: &Seat,
    ) -> anyhow::Result<OpenCard> {
        if self.hook(&assigned.inbound).is_some() {
            return Ok(OpenCard::default());
        }
        let store = &self.parts.store;
        let (token, action) = self.button("stop", opened);
        store.add_actions(vec![action]).await?;
        let waiting = store.waiting(opened.conversation.id).await?.saturating_sub(1);
        seat.card.send_modify(|card| {
            card.set_stop(token);
            card.set_waiting(waiting as usize);
        });
        let reply = seat.card.borrow().reply();
        self.send(vec![address.post("card", reply)]).await;
        let delivery = self.deliveries.get(&address.channel);
        let Some((channel, delivery)) = self.channel(&address.channel).zip(delivery) else {
            return Ok(OpenCard::default());
        };
        let editor = CardEditor {
            store: store.clone(),
            channel_name: address.channel.clone(),
            channel,
            place: address.place.clone(),
            post: address.id("card"),
            delivered: delivery.delivered(),
        };
        let done = CancellationToken::new();
        let editor = tokio::spawn(editor.run(seat.card.subscribe(), done.clone()));
        Ok(OpenCard {
            done,
            editor: Some(editor),
        })
    }
}
