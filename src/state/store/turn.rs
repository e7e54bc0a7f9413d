//! Turns, each from one message to its reply. Every write names its claim, and fails once there is a newer claim.

mod ending;
mod summary;

pub(super) use ending::announce;
pub use ending::{Announcement, FinishedTurn, StoredChange, TurnAnswer, TurnEnd};
pub use summary::TurnSummary;

use super::audit::audit_in;
use super::claim::{Claim, check_fence};
use super::column::{json, millis, word};
use super::edits::FileEdits;
use super::usage::Cost;
use super::{
    ChangeBasis, Store, StoreError, command, conversation, edits, inbox, outbox, output, person_message,
    steering, usage,
};
use crate::base::model::{
    ContextState, ConversationId, InboxId, Op, Step, StoredOutput, TurnId, UserId, Verdict, VerdictSource,
};
use crate::crash_point;
use jiff::Timestamp;
use rusqlite::{OptionalExtension, Transaction, params};

/// The beginning of a turn, stored in one transaction.
pub struct TurnStart {
    /// The person for whom the turn runs.
    pub user: UserId,
    /// The person's message, as the model reads it.
    pub user_text: String,
    /// The repository and base commit to bind the workspace to, if they changed.
    pub bind: Option<(String, String)>,
    /// The id of the operation that posts the message's card, if it may have one.
    pub card: Option<String>,
    /// True if the history is dropped, because events of a hook are independent.
    pub forgets: bool,
    /// The turn whose steps come before those of this one, if it continues one that was cut short or has failed.
    pub continues: Option<TurnId>,
}

/// A turn that began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartedTurn {
    /// The row of the turn.
    pub turn: TurnId,
    /// True if the message has a card, because it had to wait or was claimed before.
    pub has_card: bool,
    /// True if the person stopped the message in the meantime.
    pub is_stopped: bool,
    /// The facts from which the end of the turn can be composed, if they are the same by then.
    pub basis: ChangeBasis,
}

#[cfg(test)]
impl TurnStart {
    /// Returns the start of a turn without a card, with the workspace as bound.
    pub fn quiet(user_text: impl Into<String>) -> Self {
        Self {
            user: UserId(1),
            user_text: user_text.into(),
            bind: None,
            card: None,
            forgets: false,
            continues: None,
        }
    }
}

/// The effects of a step beside its results and its cost.
#[derive(Clone, Debug, Default)]
pub struct StepEffects {
    /// The edits of the workspace after it, if they may have changed.
    pub edits: Option<FileEdits>,
    /// The whole texts of its results that were shortened.
    pub outputs: Vec<StoredOutput>,
    /// The state of the context that the model was called with.
    pub context: ContextState,
}

impl From<Option<&FileEdits>> for StepEffects {
    fn from(edits: Option<&FileEdits>) -> Self {
        Self {
            edits: edits.cloned(),
            ..Self::default()
        }
    }
}

impl Store {
    /// Begins a turn for a message, with its workspace. An earlier turn of the conversation that a crash cut short ends
    /// here with an internal error; its steps and edits stay. This does not wait for the disk. If the power fails
    /// within a moment, the message waits as if its turn had never begun.
    pub async fn begin_turn(
        &self,
        claim: &Claim,
        inbox: InboxId,
        begin: TurnStart,
        at: Timestamp,
    ) -> Result<StartedTurn, StoreError> {
        let claim = *claim;
        self.write_deferred(move |tx| {
            check_fence(tx, claim)?;
            inbox::check_unfinished(tx, claim.conversation, inbox)?;
            if begin.forgets {
                conversation::clear_history(tx, claim.conversation)?;
            }
            if let Some((repository, base)) = &begin.bind {
                conversation::bind(tx, claim.conversation, repository, base)?;
            }
            tx.prepare_cached(
                "UPDATE turn SET finished_at = ?2, verdict = ?3, source = ?4
                 WHERE conversation = ?1 AND finished_at IS NULL",
            )?
            .execute(params![
                claim.conversation.0,
                millis(at),
                word(&Verdict::Error)?,
                word(&VerdictSource::Harness)?
            ])?;
            let edits = edits::snapshot(tx, claim.conversation)?;
            tx.prepare_cached(
                "INSERT INTO turn
                   (conversation, inbox, user_text, began_at, edits_before, edits_after, continues, person)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?5, ?6, ?7)",
            )?
            .execute(params![
                claim.conversation.0,
                inbox.0,
                begin.user_text,
                millis(at),
                edits,
                begin.continues.map(|turn| turn.0),
                begin.user.0
            ])?;
            let turn = TurnId(tx.last_insert_rowid());
            let has_card = match &begin.card {
                Some(card) => outbox::is_known(tx, card)?,
                None => false,
            };
            Ok(StartedTurn {
                turn,
                has_card,
                is_stopped: inbox::is_stopped(tx, inbox)?,
                basis: ChangeBasis::read(tx, claim.conversation, begin.user)?,
            })
        })
        .await
    }

    /// Records a model call, its tool results, its cost, changed edits and the whole texts of shortened results, in one
    /// transaction.
    pub async fn record_step(
        &self,
        claim: &Claim,
        turn: TurnId,
        step: &Step,
        cost: &Cost,
        effects: impl Into<StepEffects>,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        let (claim, step, cost, effects) = (*claim, step.clone(), cost.clone(), effects.into());
        self.write(move |tx| record_step(tx, (claim, turn), &step, &cost, effects, at))
            .await
    }

    /// Goes on with a turn whose question was answered, with its workspace. Like [`Store::begin_turn`], this does not
    /// wait for the disk.
    pub async fn resume_turn(
        &self,
        claim: &Claim,
        turn: TurnId,
        user: UserId,
        bind: Option<(String, String)>,
    ) -> Result<StartedTurn, StoreError> {
        let claim = *claim;
        self.write_deferred(move |tx| {
            let inbox = check_open(tx, claim, turn)?;
            inbox::check_unfinished(tx, claim.conversation, inbox)?;
            if let Some((repository, base)) = &bind {
                conversation::bind(tx, claim.conversation, repository, base)?;
            }
            Ok(StartedTurn {
                turn,
                has_card: false,
                is_stopped: inbox::is_stopped(tx, inbox)?,
                basis: ChangeBasis::read(tx, claim.conversation, user)?,
            })
        })
        .await
    }

    /// Ends a turn that a stop of the process interrupted. Its message keeps waiting and starts again. `cost` is that
    /// of a dropped answer.
    pub async fn interrupt_turn(
        &self,
        claim: &Claim,
        turn: TurnId,
        cost: Option<Cost>,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        let claim = *claim;
        self.write(move |tx| {
            check_open(tx, claim, turn)?;
            if let Some(cost) = &cost {
                usage::record(tx, claim.conversation, turn, cost, at)?;
            }
            tx.prepare_cached("UPDATE turn SET finished_at = ?2, verdict = ?3, source = ?4 WHERE id = ?1")?
                .execute(params![
                    turn.0,
                    millis(at),
                    word(&Verdict::Cancelled)?,
                    word(&VerdictSource::Harness)?
                ])?;
            Ok(())
        })
        .await
    }

    /// Answers a turn message without a turn, because its sender lost access or its content is unsupported. Edits of
    /// its interrupted turns are reverted.
    pub async fn dismiss(
        &self,
        claim: &Claim,
        inbox: InboxId,
        ops: Vec<Op>,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        let claim = *claim;
        self.write(move |tx| {
            check_fence(tx, claim)?;
            dismiss(tx, claim, inbox, &ops, at)
        })
        .await
    }
}

pub(super) fn dismiss(
    tx: &Transaction<'_>,
    claim: Claim,
    inbox: InboxId,
    ops: &[Op],
    at: Timestamp,
) -> Result<(), StoreError> {
    if inbox::finish(tx, claim.conversation, inbox, at)? {
        take_back_cut(tx, claim.conversation, inbox, at)?;
        steering::finish_taken(tx, claim.conversation, inbox, at)?;
        person_message::release(tx, inbox)?;
        outbox::enqueue(tx, ops, at)?;
    }
    Ok(())
}

/// Reverts the edits of a message's interrupted turns, and closes those turns.
fn take_back_cut(
    tx: &Transaction<'_>,
    id: ConversationId,
    inbox: InboxId,
    at: Timestamp,
) -> Result<(), StoreError> {
    let edges: Option<(String, String, i64)> = tx
        .prepare_cached(
            "SELECT first.edits_before, last.edits_after, last.id
             FROM (SELECT edits_before FROM turn WHERE inbox = ?1 ORDER BY id LIMIT 1) AS first,
                  (SELECT edits_after, id FROM turn WHERE inbox = ?1 ORDER BY id DESC LIMIT 1) AS last",
        )?
        .query_row([inbox.0], |row| row.try_into())
        .optional()?;
    let Some((before, after, last)) = edges else {
        return Ok(());
    };
    if before != after && edits::snapshot(tx, id)? == after {
        edits::set(tx, id, &before)?;
    }
    command::take_back(tx, inbox, at)?;
    tx.prepare_cached(
        "UPDATE turn SET finished_at = ?2, verdict = ?3, source = ?4 WHERE inbox = ?1 AND finished_at IS NULL",
    )?
    .execute(params![
        inbox.0,
        millis(at),
        word(&Verdict::Error)?,
        word(&VerdictSource::Harness)?
    ])?;
    let data = serde_json::json!({
        "conversation": id,
        "message": inbox,
        "taken_back": before != after,
        "turn": TurnId(last),
    });
    audit_in(tx, "turn.refused", data, at)
}

/// True while a turn of this message runs.
pub(super) fn is_running(tx: &Transaction<'_>, inbox: InboxId) -> Result<bool, StoreError> {
    let running = tx
        .prepare_cached("SELECT 1 FROM turn WHERE inbox = ?1 AND finished_at IS NULL")?
        .exists([inbox.0])?;
    Ok(running)
}

/// Records a step like [`Store::record_step`], within another write.
pub(super) fn record_step(
    tx: &Transaction<'_>,
    (claim, turn): (Claim, TurnId),
    step: &Step,
    cost: &Cost,
    effects: StepEffects,
    at: Timestamp,
) -> Result<(), StoreError> {
    let StepEffects {
        edits,
        outputs,
        context,
    } = effects;
    check_open(tx, claim, turn)?;
    if is_answered(tx, turn)? {
        return Err(StoreError::NotFound(format!(
            "turn {turn} without its final answer"
        )));
    }
    insert_step(tx, turn, step, at)?;
    usage::record(tx, claim.conversation, turn, cost, at)?;
    output::insert(tx, claim.conversation, turn, &outputs)?;
    conversation::set_context(tx, claim.conversation, &context)?;
    if let Some(edits) = edits {
        let snapshot = edits::store(tx, &edits)?;
        crash_point::before("B16");
        edits::set(tx, claim.conversation, &snapshot)?;
        crash_point::after("B16");
        tx.prepare_cached("UPDATE turn SET edits_after = ?2 WHERE id = ?1")?
            .execute(params![turn.0, snapshot])?;
    }
    Ok(())
}

fn insert_step(tx: &Transaction<'_>, turn: TurnId, step: &Step, at: Timestamp) -> Result<(), StoreError> {
    tx.prepare_cached("INSERT INTO step (turn, step, is_final, at) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![
            turn.0,
            json(step)?,
            i64::from(step.is_final()),
            millis(at)
        ])?;
    Ok(())
}

/// True if a final step was recorded. Nothing may follow it in a history.
fn is_answered(tx: &Transaction<'_>, turn: TurnId) -> Result<bool, StoreError> {
    let answered = tx
        .prepare_cached("SELECT 1 FROM step WHERE turn = ?1 AND is_final = 1")?
        .exists([turn.0])?;
    Ok(answered)
}

/// Returns an error unless the claim is the newest and the turn is an unfinished one of its conversation. Returns the
/// message of the turn.
pub(super) fn check_open(tx: &Transaction<'_>, claim: Claim, turn: TurnId) -> Result<InboxId, StoreError> {
    check_fence(tx, claim)?;
    tx.prepare_cached("SELECT inbox FROM turn WHERE id = ?1 AND conversation = ?2 AND finished_at IS NULL")?
        .query_row(params![turn.0, claim.conversation.0], |row| {
            row.get(0).map(InboxId)
        })
        .optional()?
        .ok_or_else(|| StoreError::NotFound(format!("unfinished turn {turn}")))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
