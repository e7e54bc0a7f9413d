//! The status card of a message. It is posted once, with its buttons, and never after the message was answered.

use super::outbox::{self, DueOperation};
use super::turn::{Announcement, announce};
use super::{Store, StoreError, action, inbox, steering, turn};
use crate::base::model::InboxId;
use jiff::Timestamp;
use rusqlite::Transaction;

/// The name of the operation that ends a card whose turn has a result. If the message of the card is not known, the end
/// is left out: it would be a message of its own that says less than the result.
pub const CARD_END: &str = "card/fill";

/// True for the id of an operation that ends a card whose turn has a result.
pub(super) fn is_end(op: &str) -> bool {
    op.split_once('/').is_some_and(|(_, name)| name == CARD_END)
}

/// The outcome of showing a card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CardOutcome {
    /// The card is in the outbox. Holds the due operations if the caller delivers them at once.
    New(Option<Vec<DueOperation>>),
    /// The message already has a card, which may also show these buttons.
    AlreadyShown,
    /// The message was answered in the meantime or does not wait any more. Nothing was stored.
    OutOfDate,
}

impl Store {
    /// Enqueues the status card of a message unless the message was answered or already has one. The operation id comes
    /// from the message.
    pub async fn show_card(
        &self,
        inbox: InboxId,
        card: Announcement,
        at: Timestamp,
    ) -> Result<CardOutcome, StoreError> {
        self.show_unless(inbox::is_finished, inbox, card, at).await
    }

    /// Enqueues a card with the waiting position, unless the message's turn runs, another turn took it, the message was
    /// answered, or it has a card.
    pub async fn show_waiting(
        &self,
        inbox: InboxId,
        card: Announcement,
        at: Timestamp,
    ) -> Result<CardOutcome, StoreError> {
        let is_over = |tx: &Transaction<'_>, inbox| {
            Ok(inbox::is_finished(tx, inbox)?
                || turn::is_running(tx, inbox)?
                || steering::is_taken(tx, inbox)?)
        };
        self.show_unless(is_over, inbox, card, at).await
    }

    async fn show_unless(
        &self,
        is_over: impl FnOnce(&Transaction<'_>, InboxId) -> Result<bool, StoreError> + Send + 'static,
        inbox: InboxId,
        card: Announcement,
        at: Timestamp,
    ) -> Result<CardOutcome, StoreError> {
        self.write_leasing(move |tx, busy| {
            if is_over(tx, inbox)? {
                return Ok(CardOutcome::OutOfDate);
            }
            for op in &card.ops {
                if outbox::is_known(tx, &op.id)? {
                    // Nothing is leased, because the caller would not deliver it.
                    action::insert(tx, &card.actions)?;
                    return Ok(CardOutcome::AlreadyShown);
                }
            }
            announce(tx, &card, at, busy).map(CardOutcome::New)
        })
        .await
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::CardOutcome;
    use crate::base::model::Action;
    use crate::state::store::fixture::{accept, at, begin, fill, fresh, placeholder, post, says};
    use crate::state::store::{Announcement, TurnStart};

    fn card() -> Announcement {
        Announcement {
            ops: vec![post("card", Some("1.0"), "Working")],
            actions: Vec::new(),
            budget_request: None,
            result: None,
            deliver_now: false,
        }
    }

    fn leased_card() -> Announcement {
        Announcement {
            deliver_now: true,
            ..card()
        }
    }

    /// The card may have ended before its turn or later. A refusal has no result, so it is shown.
    #[tokio::test]
    async fn the_end_of_a_card_whose_message_is_unknown_is_left_out_and_a_refusal_is_not() {
        for ends_first in [true, false] {
            let (_directory, store) = fresh();
            let card = placeholder("inbox-1/card", Some("1.0"), "Working");
            store.enqueue(vec![card], at(0)).await.unwrap();
            assert_eq!(store.lease_due("slack", at(0), 10).await.unwrap().len(), 1);
            let lost = || store.record_replaced("inbox-1/card", "it may be visible", at(1));
            if ends_first {
                lost().await.unwrap();
            }
            let ops = vec![
                post("inbox-1/result", Some("1.0"), "Here."),
                fill("inbox-1/card/fill", "inbox-1/card", "Done"),
                fill("inbox-1/card/refused", "inbox-1/card", "Refused"),
            ];
            store.enqueue(ops, at(1)).await.unwrap();
            if !ends_first {
                lost().await.unwrap();
            }
            let mut sent = Vec::new();
            for _ in 0..3 {
                for due in store.lease_due("slack", at(2), 10).await.unwrap() {
                    assert!(matches!(due.op.action, Action::Post { .. }), "{:?}", due.op);
                    store.record_delivered(&due.op.id, None, at(2)).await.unwrap();
                    sent.push(due.op.id);
                }
            }
            assert_eq!(sent, ["inbox-1/result", "inbox-1/card/refused"], "{ends_first}");
            assert_eq!(store.unsent_count("slack").await, Ok(0));
        }
    }

    #[tokio::test]
    async fn a_message_has_one_card_and_none_once_it_was_answered() {
        let (_directory, store) = fresh();
        let (claim, inbox, turn) = begin(&store, "U1", 0).await;
        let last = fill("card/fill", "card", "Done");
        let (late, _, _) = accept(&store, &says("U1", "and then", &["late"]), 1).await;
        assert_eq!(
            store.show_card(inbox, card(), at(1)).await,
            Ok(CardOutcome::New(None))
        );
        assert_eq!(
            store.show_card(inbox, leased_card(), at(2)).await,
            Ok(CardOutcome::AlreadyShown)
        );
        // The operation waits for the delivery loop.
        let due = store.lease_due("slack", at(2), 10).await.unwrap();
        assert_eq!(due[0].op, leased_card().ops[0]);
        let begin = |card: &str| TurnStart {
            card: Some(card.to_owned()),
            ..TurnStart::quiet("please")
        };
        let begun = store
            .begin_turn(&claim, inbox, begin("card"), at(3))
            .await
            .unwrap();
        assert!(begun.has_card && begun.turn > turn);
        store.dismiss(&claim, inbox, vec![last], at(4)).await.unwrap();
        assert_eq!(store.unsent_count("slack").await, Ok(2));
        assert_eq!(
            store.show_card(inbox, leased_card(), at(5)).await,
            Ok(CardOutcome::OutOfDate)
        );
        let begun = store
            .begin_turn(&claim, late, begin("other"), at(6))
            .await
            .unwrap();
        assert!(!begun.has_card);
    }

    #[tokio::test]
    async fn a_message_whose_turn_runs_does_not_wait() {
        let (_directory, store) = fresh();
        let (claim, inbox, _) = begin(&store, "U1", 0).await;
        let (next, _, _) = accept(&store, &says("U1", "and then", &["next"]), 1).await;
        let waiting = |inbox| store.show_waiting(inbox, card(), at(2));
        assert_eq!(waiting(inbox).await, Ok(CardOutcome::OutOfDate));
        assert_eq!(waiting(next).await, Ok(CardOutcome::New(None)));
        assert_eq!(waiting(next).await, Ok(CardOutcome::AlreadyShown));
        store.dismiss(&claim, inbox, Vec::new(), at(3)).await.unwrap();
        assert_eq!(waiting(inbox).await, Ok(CardOutcome::OutOfDate));
    }

    #[tokio::test]
    async fn a_card_is_leased_by_the_commit_that_stores_it() {
        let (_directory, store) = fresh();
        let (_, inbox, _) = begin(&store, "U1", 0).await;
        let CardOutcome::New(Some(due)) = store.show_card(inbox, leased_card(), at(1)).await.unwrap() else {
            panic!("no card");
        };
        assert_eq!(due[0].op, leased_card().ops[0]);
        assert_eq!(store.lease_due("slack", at(1), 10).await, Ok(Vec::new()));
    }
}
