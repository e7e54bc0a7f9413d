//! Who works on a conversation: one at a time, for as long as a lease runs. A claim that is not the newest
//! can write nothing.

use super::column::{millis, millis_of, word};
use super::conversation::Conversation;
use super::edits::Edits;
use super::{Store, StoreError, TakenUp, conversation, edits, inbox};
use crate::model::{ConversationId, History, Inbound, InboxId, Verdict};
use jiff::Timestamp;
use rusqlite::{OptionalExtension, Transaction, params};
use std::time::Duration;

/// Bytes of a history that are read by the commit that takes a message; other messages wait for it.
const AT_HAND_BYTES_MAX: usize = 32 * 1_024;

/// Somebody who works on conversations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worker {
    /// Told apart from others by this.
    pub name: String,
    /// How long a conversation is theirs without a sign of life.
    pub lease: Duration,
    /// Of what was said before, how many turns they want to know.
    pub turns_max: usize,
}

impl Worker {
    fn until(&self, at: Timestamp) -> i64 {
        millis(at).saturating_add(millis_of(self.lease))
    }
}

/// The right to work on a conversation until the lease ends or a newer claim is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The conversation.
    pub conversation: ConversationId,
    /// Rises with every claim; writes under an older one fail.
    pub fence: i64,
}

/// What somebody who claimed a conversation has to know, as of one moment.
#[derive(Clone, Debug)]
pub struct Work {
    /// The oldest message that waits for a turn.
    pub inbox: InboxId,
    /// What it says.
    pub inbound: Inbound,
    /// Turns that were begun for it and cut short: by a crash, or by a stop of the process.
    pub begun: u32,
    /// How many of them a crash cut short.
    pub crashed: u32,
    /// How many messages wait behind it.
    pub behind: u32,
    /// Where it is said.
    pub conversation: Conversation,
    /// The edits of its workspace.
    pub edits: Edits,
    /// What was said before, as far as it was asked for.
    pub history: History,
}

impl Claim {
    /// The claim a conversation is born with.
    pub(super) fn first(conversation: ConversationId) -> Self {
        Self {
            conversation,
            fence: 1,
        }
    }
}

impl Work {
    /// What there is to know when the first message of a conversation has just come in.
    pub(super) fn first(inbox: InboxId, inbound: &Inbound, conversation: Conversation) -> Self {
        Self {
            inbox,
            inbound: inbound.clone(),
            begun: 0,
            crashed: 0,
            behind: 0,
            conversation,
            edits: Edits::new(),
            history: History::default(),
        }
    }
}

impl Store {
    /// Claims the conversation that has waited longest, among those with waiting messages and no
    /// lease that runs after `at`.
    pub async fn claim(&self, worker: &Worker, at: Timestamp) -> Result<Option<Claim>, StoreError> {
        let worker = worker.clone();
        self.write_ordered(move |tx| {
            let claim = tx
                .prepare_cached(
                    "UPDATE conversation SET owner = ?1, lease_until = ?2, fence = fence + 1
                     WHERE id = (SELECT id FROM conversation WHERE pending > 0 AND lease_until <= ?3 ORDER BY due, id LIMIT 1)
                     RETURNING id, fence",
                )?
                .query_row(params![worker.name, worker.until(at), millis(at)], |row| {
                    Ok(Claim {
                        conversation: ConversationId(row.get(0)?),
                        fence: row.get(1)?,
                    })
                })
                .optional()?;
            Ok(claim)
        })
        .await
    }

    /// Makes the lease of a claim run until `lease` after `at`.
    pub async fn renew(&self, claim: &Claim, at: Timestamp, lease: Duration) -> Result<(), StoreError> {
        let claim = *claim;
        self.write_ordered(move |tx| set_lease(tx, claim, millis(at).saturating_add(millis_of(lease))))
            .await
    }

    /// Gives a claim back, so that the next one need not wait for the lease to end.
    pub async fn release(&self, claim: &Claim, _at: Timestamp) -> Result<(), StoreError> {
        let claim = *claim;
        self.write_ordered(move |tx| set_lease(tx, claim, 0)).await
    }

    /// The oldest waiting message of a claimed conversation, with everything its turn starts from: of what was
    /// said, the newest `turns_max` turns.
    pub async fn work(&self, claim: &Claim, turns_max: usize) -> Result<Option<Work>, StoreError> {
        let claim = *claim;
        self.read(move |tx| {
            check_fence(tx, claim)?;
            match inbox::next(tx, claim.conversation)? {
                Some(message) => work(tx, claim, message, turns_max, usize::MAX),
                None => Ok(None),
            }
        })
        .await
    }
}

/// What its turn starts from; nothing if more than so many bytes were said and done before.
fn work(
    tx: &Transaction<'_>,
    claim: Claim,
    (inbox, inbound): (InboxId, Inbound),
    turns_max: usize,
    bytes_max: usize,
) -> Result<Option<Work>, StoreError> {
    let id = claim.conversation;
    let Some(history) = conversation::history(tx, id, turns_max, bytes_max)? else {
        return Ok(None);
    };
    let (begun, crashed) = tx
        .prepare_cached(
            "SELECT COUNT(*), COUNT(CASE WHEN verdict IS NULL OR verdict <> ?2 THEN 1 END) FROM turn WHERE inbox = ?1",
        )?
        .query_row(params![inbox.0, word(&Verdict::Cancelled)?], |row| row.try_into())?;
    Ok(Some(Work {
        inbox,
        inbound,
        begun,
        crashed,
        behind: inbox::waiting(tx, id)?.saturating_sub(1),
        conversation: conversation::load(tx, id)?,
        edits: edits::load(tx, &edits::snapshot(tx, id)?)?,
        history,
    }))
}

/// Claims a conversation whose only waiting message has just come in, unless somebody works on it still.
pub(super) fn take_up(
    tx: &Transaction<'_>,
    id: ConversationId,
    (inbox, inbound): (InboxId, &Inbound),
    worker: &Worker,
    at: Timestamp,
) -> Result<Option<TakenUp>, StoreError> {
    let fence = tx
        .prepare_cached(
            "UPDATE conversation SET owner = ?2, lease_until = ?3, fence = fence + 1
             WHERE id = ?1 AND pending = 1 AND lease_until <= ?4 RETURNING fence",
        )?
        .query_row(params![id.0, worker.name, worker.until(at), millis(at)], |row| {
            row.get(0)
        })
        .optional()?;
    let Some(fence) = fence else { return Ok(None) };
    let claim = Claim {
        conversation: id,
        fence,
    };
    let message = (inbox, inbound.clone());
    let is_edited = !edits::are_none(&edits::snapshot(tx, id)?);
    let work = match is_edited {
        true => Ok(None),
        false => work(tx, claim, message, worker.turns_max, AT_HAND_BYTES_MAX),
    };
    let work = match work {
        Ok(work) => work.map(Box::new),
        // The message is taken all the same: whoever looks again tells what is wrong.
        Err(StoreError::Unreadable { .. }) => None,
        Err(error) => return Err(error),
    };
    Ok(Some(TakenUp { claim, work }))
}

fn set_lease(tx: &Transaction<'_>, claim: Claim, until: i64) -> Result<(), StoreError> {
    let changed = tx
        .prepare_cached("UPDATE conversation SET lease_until = ?3 WHERE id = ?1 AND fence = ?2")?
        .execute(params![claim.conversation.0, claim.fence, until])?;
    match changed {
        0 => Err(StoreError::Fenced),
        _ => Ok(()),
    }
}

/// Fails unless the claim is the newest one.
pub(super) fn check_fence(tx: &Transaction<'_>, claim: Claim) -> Result<(), StoreError> {
    let newest = tx
        .prepare_cached("SELECT 1 FROM conversation WHERE id = ?1 AND fence = ?2")?
        .exists(params![claim.conversation.0, claim.fence])?;
    match newest {
        true => Ok(()),
        false => Err(StoreError::Fenced),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use crate::model::Inbound;
    use crate::store::fixture::{LEASE, accept, answer, at, begin, cost, edits, fresh, says, worker};
    use crate::store::{Accepted, Lane, Store, StoreError, TakenUp};
    use rusqlite::Transaction;
    use std::collections::HashSet;

    #[tokio::test]
    async fn a_conversation_is_claimed_by_one_worker_until_the_lease_ends() {
        let (_directory, store) = fresh();
        accept(&store, &says("U1", "x", &["1"]), 0).await;
        let first = store.claim(&worker("w1"), at(0)).await.unwrap().unwrap();
        assert_eq!(store.claim(&worker("w2"), at(59)).await, Ok(None));
        store.renew(&first, at(30), LEASE).await.unwrap();
        assert_eq!(store.claim(&worker("w2"), at(60)).await, Ok(None));
        let second = store.claim(&worker("w2"), at(90)).await.unwrap().unwrap();
        assert_eq!(
            (second.conversation, second.fence),
            (first.conversation, first.fence + 1)
        );
        assert_eq!(store.renew(&first, at(91), LEASE).await, Err(StoreError::Fenced));
        assert_eq!(store.release(&first, at(91)).await, Err(StoreError::Fenced));
        assert_eq!(store.work(&first, 40).await.unwrap_err(), StoreError::Fenced);
        store.release(&second, at(91)).await.unwrap();
        assert!(store.claim(&worker("w1"), at(91)).await.unwrap().is_some());
    }

    #[tokio::test]
    async fn many_workers_never_share_a_claim_and_the_oldest_goes_first() {
        let (_directory, store) = fresh();
        for number in 0..20 {
            let (name, delivery) = (format!("U{number}"), format!("m{number}"));
            accept(&store, &says(&name, "x", &[&delivery]), 100 - number).await;
        }
        let oldest = store.claim(&worker("w"), at(200)).await.unwrap().unwrap();
        assert_eq!(
            store.conversation(oldest.conversation).await.unwrap().key.user.id,
            "U19"
        );
        let workers = (0..40).map(|number| {
            let store = store.clone();
            tokio::spawn(async move {
                store
                    .claim(&worker(&format!("w{number}")), at(200))
                    .await
                    .unwrap()
            })
        });
        let mut claimed = vec![oldest.conversation];
        for claim in workers.collect::<Vec<_>>() {
            claimed.extend(claim.await.unwrap().map(|claim| claim.conversation));
        }
        assert_eq!(claimed.len(), 20);
        assert_eq!(claimed.iter().collect::<HashSet<_>>().len(), 20);
    }

    /// What somebody who has nothing to do is given with a message.
    async fn taken_up(store: &Store, inbound: &Inbound, lane: Lane, second: i64) -> Option<TakenUp> {
        let (idle, at) = (worker("idle"), at(second));
        match store.accept(inbound, lane, 20, Some(&idle), at).await.unwrap() {
            Accepted::Stored { taken_up, .. } => taken_up,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn a_message_is_taken_up_as_it_arrives_by_one_and_with_what_a_claim_would_find() {
        let (_directory, store) = fresh();
        let first = taken_up(&store, &says("U1", "hello", &["1"]), Lane::Turn, 0)
            .await
            .unwrap();
        assert_eq!(store.claim(&worker("w"), at(0)).await, Ok(None));
        let told = first.work.unwrap();
        let found = store.work(&first.claim, 40).await.unwrap().unwrap();
        assert_eq!(format!("{told:?}"), format!("{found:?}"));
        // Somebody works on it: what comes now waits.
        assert!(
            taken_up(&store, &says("U1", "more", &["2"]), Lane::Turn, 1)
                .await
                .is_none()
        );
        assert!(
            taken_up(&store, &says("U2", "help", &["3"]), Lane::Command, 1)
                .await
                .is_none()
        );
        // The lease was not given back: nobody has it before it ends.
        store
            .dismiss(&first.claim, told.inbox, Vec::new(), at(2))
            .await
            .unwrap();
        let behind = store.work(&first.claim, 40).await.unwrap().unwrap();
        store
            .dismiss(&first.claim, behind.inbox, Vec::new(), at(2))
            .await
            .unwrap();
        assert!(
            taken_up(&store, &says("U1", "third", &["4"]), Lane::Turn, 3)
                .await
                .is_none()
        );
        store.release(&first.claim, at(4)).await.unwrap();
        // It waits for a claim already, and what comes behind it does not overtake it.
        assert!(
            taken_up(&store, &says("U1", "fourth", &["5"]), Lane::Turn, 5)
                .await
                .is_none()
        );
        let claim = store.claim(&worker("w"), at(5)).await.unwrap().unwrap();
        assert_eq!(claim.fence, first.claim.fence + 1);
    }

    #[tokio::test]
    async fn a_later_message_of_an_idle_conversation_is_taken_up_under_a_new_fence() {
        let (_directory, store) = fresh();
        let (old, inbox, _) = begin(&store, "U1", 0).await;
        store.dismiss(&old, inbox, Vec::new(), at(1)).await.unwrap();
        store.release(&old, at(1)).await.unwrap();
        let taken = taken_up(&store, &says("U1", "again", &["2"]), Lane::Turn, 2)
            .await
            .unwrap();
        assert_eq!(
            (taken.claim.conversation, taken.claim.fence),
            (old.conversation, old.fence + 1)
        );
        assert_eq!(store.renew(&old, at(3), LEASE).await, Err(StoreError::Fenced));
        assert_eq!(store.claim(&worker("w"), at(61)).await, Ok(None));
        assert_eq!(
            store.claim(&worker("w"), at(62)).await.unwrap().unwrap().fence,
            taken.claim.fence + 1
        );
    }

    /// A message that goes on with what was said before is taken up with that, if it is little.
    #[tokio::test]
    async fn what_a_message_goes_on_with_is_told_with_it_unless_that_is_much_or_edited() {
        let long = "x".repeat(super::AT_HAND_BYTES_MAX);
        let edited = edits(&[("a", Some(b"x"))]);
        let cases = [
            ("short", None, true),
            (&long, None, false),
            ("short", Some(edited), false),
        ];
        for (said, edited, is_told) in cases {
            let (_directory, store) = fresh();
            let (claim, inbox, turn) = begin(&store, "U1", 0).await;
            store
                .record_step(&claim, turn, &answer(said), &cost(1), edited.as_ref(), at(1))
                .await
                .unwrap();
            store.dismiss(&claim, inbox, Vec::new(), at(1)).await.unwrap();
            store.release(&claim, at(1)).await.unwrap();
            let next = taken_up(&store, &says("U1", "and now?", &["2"]), Lane::Turn, 2)
                .await
                .unwrap();
            let found = store.work(&next.claim, 40).await.unwrap().unwrap();
            assert_eq!(found.history.turns()[0].steps().len(), 1);
            let told = next.work.map(|work| format!("{work:?}"));
            assert_eq!(told, is_told.then(|| format!("{found:?}")));
        }
    }

    #[tokio::test]
    async fn a_message_is_taken_whatever_cannot_be_read_of_what_was_said_before() {
        let (_directory, store) = fresh();
        let (claim, inbox, turn) = begin(&store, "U1", 0).await;
        store
            .record_step(&claim, turn, &answer("x"), &cost(1), None, at(1))
            .await
            .unwrap();
        store.dismiss(&claim, inbox, Vec::new(), at(1)).await.unwrap();
        store.release(&claim, at(1)).await.unwrap();
        let damage = |tx: &Transaction<'_>| Ok(tx.execute("UPDATE step SET step = '{'", [])?);
        store.write(damage).await.unwrap();
        let next = taken_up(&store, &says("U1", "and now?", &["2"]), Lane::Turn, 2).await;
        let TakenUp { claim, work } = next.unwrap();
        assert!(work.is_none());
        let told = store.work(&claim, 40).await.unwrap_err();
        assert!(
            matches!(told, StoreError::Unreadable { what: "step", .. }),
            "{told}"
        );
    }
}
