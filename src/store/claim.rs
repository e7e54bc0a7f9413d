//! Who works on a conversation: one at a time, for as long as a lease runs. A claim that is not the newest
//! can write nothing.

use super::column::{millis, millis_of, word};
use super::conversation::Conversation;
use super::edits::Edits;
use super::{Store, StoreError, conversation, edits, inbox};
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

/// A conversation that was claimed as its message came in.
#[derive(Clone, Debug)]
pub struct TakenUp {
    /// The claim.
    pub claim: Claim,
    /// What [`Store::work`] would answer, where that is little: it is the first message, or not much was said
    /// before it and nothing is edited.
    pub work: Option<Box<Work>>,
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
mod tests;
