//! Claims on conversations. One worker at a time holds a conversation until it releases the claim or its process ends.
//! Writes under an outdated claim fail. No clock is involved: one process owns the database, and the next process voids
//! all earlier claims ([`super::recovery`]).

mod statement;

use super::column::json;
use super::conversation::Conversation;
use super::edits::FileEdits;
use super::history::{self, HistoryLimits};
use super::recovery::{Crashes, SUSPECT_CRASHES_MIN};
use super::{
    AnsweredTurn, RunStarter, Store, StoreError, conversation, edits, inbox, key, question, retry, run, usage,
};
use crate::base::model::{ConversationId, History, Inbound, InboxId, TurnId, Usage};
use rusqlite::{OptionalExtension, Transaction, params};
use statement::{CLAIM, CLAIM_NEW, MAY_HAVE_MORE};
use std::sync::Arc;

/// Maximum size of the history that the claiming commit reads. Other messages wait for that commit.
const INLINE_HISTORY_BYTES_MAX: usize = 32 * 1_024;

/// A worker that claims conversations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnWorker {
    /// The worker's unique name.
    pub name: String,
    /// Maximum number of earlier turns in the history.
    pub turns_max: usize,
    /// Maximum size of the history, in bytes.
    pub bytes_max: usize,
    /// Maximum number of active conversations of one person, over all their accounts.
    pub of_person_max: i64,
    /// The services whose messages start runs, and wait without room for one.
    pub run_starters: Arc<[RunStarter]>,
}

/// The waiting messages that may be claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claimable {
    /// True if hook events and the work of configured schedules and services may be claimed.
    pub hooks: bool,
    /// True if messages that were active in more than one crash may be claimed.
    pub suspects: bool,
}

impl Claimable {
    /// Allows all messages.
    pub const ALL: Self = Self {
        hooks: true,
        suspects: true,
    };
}

/// The right to work on a conversation, until it is released or a newer claim is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The conversation.
    pub conversation: ConversationId,
    /// The fencing number. It rises with every claim, and writes with an older number fail.
    pub fence: i64,
}

/// The data for the turn of a claimed conversation, from one snapshot.
#[derive(Clone, Debug)]
pub struct ClaimedWork {
    /// The oldest message that waits for a turn.
    pub inbox: InboxId,
    /// The content of that message.
    pub inbound: Inbound,
    /// Number of earlier turns of the message that a crash or a stop of the process cut short.
    pub begun: u32,
    /// Number of steps in those turns.
    pub steps_before: u32,
    /// Token usage of those turns.
    pub usage_before: Usage,
    /// The crashes during which the message was active.
    pub crashes: Crashes,
    /// True if the person stopped the message.
    pub is_stopped: bool,
    /// True if the interrupted turns edited files.
    pub has_edited: bool,
    /// The unfinished turn of the message that goes on with an answer, if there is one. It is one of those in `begun`.
    pub answered: Option<AnsweredTurn>,
    /// Number of messages that wait behind it.
    pub behind: u32,
    /// The turn that the turn of the message continues; see [`super::TurnStart::continues`].
    pub continues: Option<TurnId>,
    /// The conversation of the message.
    pub conversation: Conversation,
    /// The edits of the workspace.
    pub edits: FileEdits,
    /// The history, within the worker's limits.
    pub history: History,
}

/// A claim that was made together with the arrival of its message.
#[derive(Clone, Debug)]
pub struct DirectClaim {
    /// The claim.
    pub claim: Claim,
    /// The result of [`Store::work`], if it is small: a first message, or a short history without edits.
    pub work: Option<Box<ClaimedWork>>,
}

/// A claim on a conversation that had waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClaimedConversation {
    /// The claim.
    pub claim: Claim,
    /// True if its message is a hook event or the work of a configured schedule or service.
    pub is_hook: bool,
    /// True if its message is a suspect: see [`Crashes::is_suspect`].
    pub is_suspect: bool,
}

impl Claim {
    /// Returns the first claim of a new conversation.
    pub(super) fn first(conversation: ConversationId) -> Self {
        Self {
            conversation,
            fence: 1,
        }
    }
}

impl ClaimedWork {
    /// Returns the data of a conversation whose first message has just arrived.
    pub(super) fn first(inbox: InboxId, inbound: &Inbound, conversation: Conversation) -> Self {
        Self {
            inbox,
            inbound: inbound.clone(),
            begun: 0,
            steps_before: 0,
            usage_before: Usage::default(),
            crashes: Crashes::default(),
            is_stopped: false,
            has_edited: false,
            answered: None,
            behind: 0,
            continues: None,
            conversation,
            edits: FileEdits::new(),
            history: History::default(),
        }
    }
}

impl Store {
    /// Claims the conversation that has waited longest. It must have a waiting message, no other worker, no
    /// unfinished command that may change it, and room for the run that the message may start.
    pub async fn claim(
        &self,
        worker: &TurnWorker,
        claimable: Claimable,
    ) -> Result<Option<ClaimedConversation>, StoreError> {
        let worker = worker.clone();
        self.write_unsynced(move |tx| {
            let without_room = json(&run::keys_without_room(tx, &worker.run_starters)?)?;
            let claimed = tx
                .prepare_cached(CLAIM)?
                .query_row(
                    params![
                        worker.name,
                        claimable.hooks,
                        key::HOOKS.0,
                        key::HOOKS.1,
                        claimable.suspects,
                        SUSPECT_CRASHES_MIN,
                        worker.of_person_max,
                        key::SCHEDULES.0,
                        key::SCHEDULES.1,
                        key::SERVICES.0,
                        key::SERVICES.1,
                        without_room,
                    ],
                    |row| {
                        Ok(ClaimedConversation {
                            claim: Claim {
                                conversation: ConversationId(row.get(0)?),
                                fence: row.get(1)?,
                            },
                            is_hook: row.get(2)?,
                            is_suspect: row.get(3)?,
                        })
                    },
                )
                .optional()?;
            Ok(claimed)
        })
        .await
    }

    /// Releases a claim.
    pub async fn release(&self, claim: &Claim) -> Result<(), StoreError> {
        let claim = *claim;
        self.write_unsynced(move |tx| {
            check_fence(tx, claim)?;
            tx.prepare_cached("UPDATE conversation SET owner = NULL WHERE id = ?1")?
                .execute([claim.conversation.0])?;
            Ok(())
        })
        .await
    }

    /// Returns the oldest waiting message of a claimed conversation.
    pub async fn next_message(&self, claim: &Claim) -> Result<Option<InboxId>, StoreError> {
        let claim = *claim;
        self.read(move |tx| {
            check_fence(tx, claim)?;
            Ok(inbox::next(tx, claim.conversation)?.map(|(inbox, _)| inbox))
        })
        .await
    }

    /// Returns the oldest waiting message of a claimed conversation with all data for its turn. The history holds the
    /// newest turns that fit both limits.
    pub async fn work(
        &self,
        claim: &Claim,
        turns_max: usize,
        bytes_max: usize,
    ) -> Result<Option<ClaimedWork>, StoreError> {
        let claim = *claim;
        let histories = Arc::clone(&self.inner.histories);
        let limits = HistoryLimits {
            turns: turns_max,
            bytes: bytes_max,
        };
        // Counted before the snapshot of the read begins.
        let cleared = histories.cleared();
        self.read(move |tx| {
            check_fence(tx, claim)?;
            match inbox::next(tx, claim.conversation)? {
                Some((inbox, inbound)) => {
                    let inbound = inbound?;
                    let history = histories.newest(tx, claim.conversation, limits, cleared)?;
                    work(tx, claim, (inbox, inbound), history).map(Some)
                }
                None => Ok(None),
            }
        })
        .await
    }
}

/// Reads the data for the turn of a claimed message, except the given history.
fn work(
    tx: &Transaction<'_>,
    claim: Claim,
    (inbox, inbound): (InboxId, Inbound),
    history: History,
) -> Result<ClaimedWork, StoreError> {
    let id = claim.conversation;
    let (begun, has_edited) = tx
        .prepare_cached(
            "SELECT COUNT(*), COALESCE(MAX(edits_before <> edits_after AND undone_at IS NULL), 0) FROM turn WHERE inbox = ?1",
        )?
        .query_row([inbox.0], |row| row.try_into())?;
    let (all, own, is_stopped, retries): (u32, u32, bool, Option<i64>) = tx
        .prepare_cached(
            "SELECT crashes, own_crashes, stopped_by IS NOT NULL, retries FROM inbox WHERE id = ?1",
        )?
        .query_row([inbox.0], |row| row.try_into())?;
    let (steps_before, usage_before, answered) = match begun {
        0 => (0, Usage::default(), None),
        _ => {
            let (steps, usage) = spent_on(tx, inbox)?;
            (steps, usage, question::answered_turn(tx, inbox)?)
        }
    };
    Ok(ClaimedWork {
        inbox,
        inbound,
        begun,
        steps_before,
        usage_before,
        crashes: Crashes { all, own },
        is_stopped,
        has_edited,
        answered,
        behind: inbox::waiting(tx, id)?.saturating_sub(1),
        continues: match (begun, retries) {
            (0, None) => None,
            (_, retries) => retry::continued(tx, id, inbox, retries.map(TurnId))?,
        },
        conversation: conversation::load(tx, id)?,
        edits: edits::load(tx, &edits::snapshot(tx, id)?)?,
        history,
    })
}

/// Returns the number of steps of a message's turns, and their token usage.
fn spent_on(tx: &Transaction<'_>, inbox: InboxId) -> Result<(u32, Usage), StoreError> {
    let steps = tx
        .prepare_cached("SELECT COUNT(*) FROM step WHERE turn IN (SELECT id FROM turn WHERE inbox = ?1)")?
        .query_row([inbox.0], |row| row.get(0))?;
    Ok((steps, usage::message_usage(tx, inbox)?))
}

/// True if a sender's person may have one more active conversation.
pub(super) fn may_have_more(
    tx: &Transaction<'_>,
    sender: &str,
    worker: &TurnWorker,
) -> Result<bool, StoreError> {
    let may = tx
        .prepare_cached(MAY_HAVE_MORE)?
        .query_row(params![sender, worker.of_person_max], |row| row.get(0))?;
    Ok(may)
}

/// Claims a conversation whose only waiting message has just arrived, unless another worker still holds it.
pub(super) fn claim_new(
    tx: &Transaction<'_>,
    id: ConversationId,
    (inbox, inbound): (InboxId, &Inbound),
    worker: &TurnWorker,
) -> Result<Option<DirectClaim>, StoreError> {
    let fence = tx
        .prepare_cached(CLAIM_NEW)?
        .query_row(
            params![id.0, worker.name, worker.of_person_max, json(&inbound.sender)?],
            |row| row.get(0),
        )
        .optional()?;
    let Some(fence) = fence else { return Ok(None) };
    let claim = Claim {
        conversation: id,
        fence,
    };
    let message = (inbox, inbound.clone());
    let is_edited = !edits::is_empty_snapshot(&edits::snapshot(tx, id)?);
    let work = match is_edited {
        true => Ok(None),
        false => {
            let limits = HistoryLimits {
                turns: worker.turns_max,
                bytes: INLINE_HISTORY_BYTES_MAX,
            };
            history::within(tx, id, limits).and_then(|history| {
                history
                    .map(|history| work(tx, claim, message, history))
                    .transpose()
            })
        }
    };
    let work = match work {
        Ok(work) => work.map(Box::new),
        // The message is accepted anyway. The next read reports the problem.
        Err(StoreError::Unreadable { .. }) => None,
        Err(error) => return Err(error),
    };
    Ok(Some(DirectClaim { claim, work }))
}

/// True while a message of the conversation is being answered, or waits after its turn was cut short. Then no command
/// may change the workspace or history.
pub(super) fn is_busy(tx: &Transaction<'_>, id: ConversationId) -> Result<bool, StoreError> {
    let busy = tx
        .prepare_cached(
            "SELECT 1 FROM conversation WHERE id = ?1 AND pending > 0 AND (owner IS NOT NULL OR EXISTS
               (SELECT 1 FROM inbox JOIN turn ON turn.inbox = inbox.id
                WHERE inbox.conversation = ?1 AND inbox.lane = 'turn' AND inbox.done_at IS NULL))",
        )?
        .exists([id.0])?;
    Ok(busy)
}

/// Returns an error unless the claim is the newest one.
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
