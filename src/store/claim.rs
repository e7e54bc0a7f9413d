//! Claims on conversations: one worker at a time has a conversation, until it gives the claim back or its process
//! ends. A claim that is not the newest can write nothing. No clock decides: one process owns the database, and the
//! next one voids the claims of the last ([`super::recovery`]).

use super::conversation::Conversation;
use super::edits::FileEdits;
use super::recovery::{Crashes, SUSPECT_CRASHES_MIN};
use super::{Store, StoreError, conversation, edits, inbox, key, usage};
use crate::model::{ConversationId, History, Inbound, InboxId, Usage};
use rusqlite::{OptionalExtension, Transaction, params};

/// Bytes of a history that are read by the commit that takes a message; other messages wait for it.
const INLINE_HISTORY_BYTES_MAX: usize = 32 * 1_024;

/// Counts what is in work of the person of a sender, under whichever account of theirs; without a person, of the sender.
macro_rules! in_work {
    ($sender:literal) => {
        concat!(
            "(SELECT COUNT(*) FROM conversation AS other WHERE other.owner IS NOT NULL AND other.sender IN (SELECT ",
            $sender,
            " UNION SELECT account.sender FROM identity AS asks JOIN identity AS account
                ON account.user_id = asks.user_id WHERE asks.sender = ",
            $sender,
            "))"
        )
    };
}

/// True if the person of a sender has fewer than so many in work. Where that few are in work at all nobody's accounts
/// are looked up, which would take longer than everything else that a message is asked.
macro_rules! may_have_more {
    ($sender:literal, $max:literal) => {
        concat!(
            "(",
            $max,
            " > (SELECT COUNT(*) FROM (SELECT 1 FROM conversation AS busy INDEXED BY conversation_in_work
                WHERE busy.owner IS NOT NULL LIMIT ",
            $max,
            ")) OR ",
            $max,
            " > ",
            in_work!($sender),
            ")"
        )
    };
}

/// Takes the conversation that has waited longest, of whoever has the fewest in work.
const CLAIM: &str = concat!(
    "UPDATE conversation SET owner = ?1, fence = fence + 1
    WHERE id = (SELECT id FROM conversation WHERE pending > 0 AND owner IS NULL
        AND (?2 OR key NOT BETWEEN ?3 AND ?4)
        AND (?5 OR ?6 > (SELECT crashes FROM inbox
            WHERE inbox.conversation = conversation.id AND lane = 'turn' AND done_at IS NULL ORDER BY id LIMIT 1))
        AND NOT EXISTS (SELECT 1 FROM inbox
            WHERE inbox.conversation = conversation.id AND lane = 'change' AND done_at IS NULL AND effect IS NULL)
        AND ?7 > ",
    in_work!("conversation.sender"),
    " ORDER BY ",
    in_work!("conversation.sender"),
    ", due, id LIMIT 1)
    RETURNING id, fence, key BETWEEN ?3 AND ?4, (SELECT crashes FROM inbox
        WHERE inbox.conversation = conversation.id AND lane = 'turn' AND done_at IS NULL ORDER BY id LIMIT 1) >= ?6"
);
/// Takes a conversation whose only waiting message has just come in.
const CLAIM_NEW: &str = concat!(
    "UPDATE conversation SET owner = ?2, fence = fence + 1
    WHERE id = ?1 AND pending = 1 AND owner IS NULL AND NOT EXISTS (SELECT 1 FROM inbox
        WHERE inbox.conversation = ?1 AND lane = 'change' AND done_at IS NULL AND effect IS NULL)
        AND ",
    may_have_more!("conversation.sender", "?3"),
    " RETURNING fence"
);
/// The query that tells if the person of a sender may have one more in work.
const MAY_HAVE_MORE: &str = concat!("SELECT ", may_have_more!("?1", "?2"));

/// A worker that claims conversations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnWorker {
    /// The name that tells the worker apart from others.
    pub name: String,
    /// Turns of the earlier conversation that the worker asks for, at most.
    pub turns_max: usize,
    /// Bytes of the earlier conversation that the worker asks for, at most.
    pub bytes_max: usize,
    /// Conversations of one person in work at a time, of all their accounts together.
    pub of_person_max: i64,
}

/// The waiting messages that a claim may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claimable {
    /// Events of hooks.
    pub hooks: bool,
    /// Messages that were in work when the process ended more than once.
    pub suspects: bool,
}

impl Claimable {
    /// Permission to take any message.
    pub const ALL: Self = Self {
        hooks: true,
        suspects: true,
    };
}

/// The right to work on a conversation until it is given back or a newer claim is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The conversation.
    pub conversation: ConversationId,
    /// Rises with every claim; writes under an older one fail.
    pub fence: i64,
}

/// The data that the worker of a claimed conversation starts from, as of one moment.
#[derive(Clone, Debug)]
pub struct ClaimedWork {
    /// The oldest message that waits for a turn.
    pub inbox: InboxId,
    /// The content of that message.
    pub inbound: Inbound,
    /// Turns that were begun for it and cut short: by a crash, or by a stop of the process.
    pub begun: u32,
    /// The steps of those turns.
    pub steps_before: u32,
    /// The cost of the model calls of those turns.
    pub usage_before: Usage,
    /// The ends of the process in which it was in work.
    pub crashes: Crashes,
    /// True if the person asked for the end of the message.
    pub is_stopped: bool,
    /// True if the turns that were cut short edited files.
    pub has_edited: bool,
    /// Number of messages that wait behind it.
    pub behind: u32,
    /// The conversation the message belongs to.
    pub conversation: Conversation,
    /// The edits of its workspace.
    pub edits: FileEdits,
    /// The earlier conversation, as far as it was asked for.
    pub history: History,
}

/// A conversation that was claimed as its message came in.
#[derive(Clone, Debug)]
pub struct DirectClaim {
    /// The claim.
    pub claim: Claim,
    /// The answer of [`Store::work`], where that is small: the message is the first one, or not much was said before
    /// it and nothing is edited.
    pub work: Option<Box<ClaimedWork>>,
}

/// A conversation that waited and was claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClaimedConversation {
    /// The claim.
    pub claim: Claim,
    /// True if its message is an event of a hook.
    pub is_hook: bool,
    /// True if its message is a suspect: see [`Crashes::is_suspect`].
    pub is_suspect: bool,
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

impl ClaimedWork {
    /// Returns the data of a conversation whose first message has just come in.
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
            behind: 0,
            conversation,
            edits: FileEdits::new(),
            history: History::default(),
        }
    }
}

impl Store {
    /// Claims the conversation that has waited longest, among those with waiting messages that nobody works on
    /// and that no unfinished command is about to change.
    pub async fn claim(
        &self,
        worker: &TurnWorker,
        claimable: Claimable,
    ) -> Result<Option<ClaimedConversation>, StoreError> {
        let worker = worker.clone();
        self.write_unsynced(move |tx| {
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

    /// Gives a claim back.
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

    /// The oldest waiting message of a claimed conversation.
    pub async fn next_message(&self, claim: &Claim) -> Result<Option<InboxId>, StoreError> {
        let claim = *claim;
        self.read(move |tx| {
            check_fence(tx, claim)?;
            Ok(inbox::next(tx, claim.conversation)?.map(|(inbox, _)| inbox))
        })
        .await
    }

    /// The oldest waiting message of a claimed conversation, with everything its turn starts from: of what was
    /// said, the newest turns that fit both bounds.
    pub async fn work(
        &self,
        claim: &Claim,
        turns_max: usize,
        bytes_max: usize,
    ) -> Result<Option<ClaimedWork>, StoreError> {
        let claim = *claim;
        self.read(move |tx| {
            check_fence(tx, claim)?;
            match inbox::next(tx, claim.conversation)? {
                Some((inbox, inbound)) => {
                    let inbound = inbound?;
                    let history = conversation::recent(tx, claim.conversation, turns_max, bytes_max)?;
                    work(tx, claim, (inbox, inbound), history).map(Some)
                }
                None => Ok(None),
            }
        })
        .await
    }
}

/// Reads the data that the turn of a claimed message starts from, beside the given history.
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
    let (all, own, is_stopped) = tx
        .prepare_cached("SELECT crashes, own_crashes, stopped_by IS NOT NULL FROM inbox WHERE id = ?1")?
        .query_row([inbox.0], |row| row.try_into())?;
    let (steps_before, usage_before) = match begun {
        0 => (0, Usage::default()),
        _ => spent_on(tx, inbox)?,
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
        behind: inbox::waiting(tx, id)?.saturating_sub(1),
        conversation: conversation::load(tx, id)?,
        edits: edits::load(tx, &edits::snapshot(tx, id)?)?,
        history,
    })
}

/// The steps of the turns of a message, and what their model calls cost.
fn spent_on(tx: &Transaction<'_>, inbox: InboxId) -> Result<(u32, Usage), StoreError> {
    let steps = tx
        .prepare_cached("SELECT COUNT(*) FROM step WHERE turn IN (SELECT id FROM turn WHERE inbox = ?1)")?
        .query_row([inbox.0], |row| row.get(0))?;
    Ok((steps, usage::message_usage(tx, inbox)?))
}

/// Returns true if the person of a sender may have one more conversation in work.
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

/// Claims a conversation whose only waiting message has just come in, unless somebody works on it still.
pub(super) fn claim_new(
    tx: &Transaction<'_>,
    id: ConversationId,
    (inbox, inbound): (InboxId, &Inbound),
    worker: &TurnWorker,
) -> Result<Option<DirectClaim>, StoreError> {
    let fence = tx
        .prepare_cached(CLAIM_NEW)?
        .query_row(params![id.0, worker.name, worker.of_person_max], |row| row.get(0))
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
            conversation::history(tx, id, worker.turns_max, INLINE_HISTORY_BYTES_MAX).and_then(|history| {
                history
                    .map(|history| work(tx, claim, message, history))
                    .transpose()
            })
        }
    };
    let work = match work {
        Ok(work) => work.map(Box::new),
        // The message is taken all the same: whoever looks again tells what is wrong.
        Err(StoreError::Unreadable { .. }) => None,
        Err(error) => return Err(error),
    };
    Ok(Some(DirectClaim { claim, work }))
}

/// True while a message of the conversation is answered, and while one whose turn was cut short waits to be: then
/// nobody else may change its workspace or its history.
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
