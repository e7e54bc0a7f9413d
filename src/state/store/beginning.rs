//! The message with which a person begins to take part in a conversation of a thread. Their earlier words there were for
//! nobody, also if the platform delivers them again afterwards. It is stored among the names of deliveries, and so for as
//! long as messages may come again.

use super::StoreError;
use super::delivery_name::remember_delivery;
use crate::base::model::{ConversationId, Inbound};
use jiff::Timestamp;
use rusqlite::{OptionalExtension, Transaction, params};

/// Records that a person begins to take part with this message, if they may have written earlier ones there.
pub(super) fn remember(
    tx: &Transaction<'_>,
    conversation: ConversationId,
    inbound: &Inbound,
    at: Timestamp,
) -> Result<(), StoreError> {
    let Some(message) = &inbound.message else {
        return Ok(());
    };
    if inbound.direct || inbound.place.thread.is_none() || inbound.begins_thread() {
        return Ok(());
    }
    let name = format!("{}{}", prefix(conversation, inbound), message.id);
    remember_delivery(tx, &[name], at)
}

/// Returns true if a person wrote a message before they began to take part in a conversation.
pub(super) fn is_later(
    tx: &Transaction<'_>,
    conversation: ConversationId,
    inbound: &Inbound,
) -> Result<bool, StoreError> {
    let Some(message) = &inbound.message else {
        return Ok(false);
    };
    let prefix = prefix(conversation, inbound);
    // The ids of messages consist of digits and points, which are before `:`.
    let began: Option<String> = tx
        .prepare_cached(
            "SELECT substr(name, length(?1) + 1) FROM delivery WHERE name > ?1 AND name < ?1 || ':'
             ORDER BY length(name) DESC, name DESC LIMIT 1",
        )?
        .query_row(params![prefix], |row| row.get(0))
        .optional()?;
    Ok(began.is_some_and(|began| order(&began) > order(&message.id)))
}

fn prefix(conversation: ConversationId, inbound: &Inbound) -> String {
    format!("beginning:{conversation}:{}:", inbound.sender)
}

/// Returns the key by which the ids of messages ascend: they are numbers without leading zeros, with a fixed number of
/// digits after a point if there is one.
fn order(id: &str) -> (usize, &str) {
    (id.len(), id)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::{is_later, remember};
    use crate::base::model::{ConversationId, Inbound, InboundKind, MessageRef};
    use crate::state::store::fixture::{accept, at, fresh, room, says};
    use crate::state::store::{AcceptOutcome, QueueKind, Store};

    /// Returns words to the bot in a thread, with the id of their message.
    fn asked(id: &str) -> Inbound {
        let mut inbound = says("U1", "hello", &[id]);
        let chat = inbound.place.chat.clone();
        inbound.message = Some(MessageRef {
            chat,
            id: id.to_owned(),
        });
        inbound
    }

    /// Returns words that name nobody.
    fn said(id: &str) -> Inbound {
        let mut inbound = asked(id);
        if let InboundKind::Text { addressed, .. } = &mut inbound.kind {
            *addressed = false;
        }
        inbound
    }

    async fn outcome(store: &Store, inbound: &Inbound) -> AcceptOutcome {
        let accepted = store.accept(inbound, QueueKind::Turn, room(20), None, at(0));
        accepted.await.unwrap()
    }

    /// T06, R5
    #[tokio::test]
    async fn words_from_before_a_conversation_are_for_nobody_whenever_they_come() {
        let (_directory, store) = fresh();
        let before = outcome(&store, &said("99.5")).await;
        assert!(matches!(before, AcceptOutcome::NotAddressed), "{before:?}");
        accept(&store, &asked("100.5"), 0).await;
        let again = outcome(&store, &said("99.5")).await;
        assert!(matches!(again, AcceptOutcome::NotAddressed), "{again:?}");
        // What is addressed to the bot counts whenever it comes.
        for follow_up in [said("101.5"), asked("98.5")] {
            let stored = outcome(&store, &follow_up).await;
            assert!(matches!(stored, AcceptOutcome::Stored { .. }), "{stored:?}");
            let again = outcome(&store, &follow_up).await;
            assert!(matches!(again, AcceptOutcome::Duplicate), "{again:?}");
        }
    }

    #[tokio::test]
    async fn the_last_beginning_of_a_person_counts_and_only_theirs() {
        let (_directory, store) = fresh();
        let (own, other) = (ConversationId(1), ConversationId(11));
        let found = store.write(move |tx| {
            for (conversation, id) in [(own, "9"), (own, "10"), (other, "50")] {
                remember(tx, conversation, &asked(id), at(0))?;
            }
            // This one begins the thread, so nothing is before it.
            remember(tx, own, &asked("1.0"), at(0))?;
            let ids = ["8", "9", "10", "11"];
            let of = |conversation| ids.map(|id| is_later(tx, conversation, &said(id)));
            let mut another = said("8");
            another.sender.id = "U2".to_owned();
            Ok((of(own), of(ConversationId(2)), is_later(tx, own, &another)?))
        });
        let (own, without, of_other) = found.await.unwrap();
        assert_eq!(own.map(Result::unwrap), [true, true, false, false]);
        assert_eq!(without.map(Result::unwrap), [false; 4]);
        assert!(!of_other);
    }
}
