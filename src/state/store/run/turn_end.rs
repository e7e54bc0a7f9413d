//! The end of an agent step, in the transaction that ends its turn.

use super::advance::end_step;
use super::changed;
use crate::base::model::{
    InboxId, Money, RunId, Step, StepEnd, StepSpending, Verdict, VerdictSource, cut_to,
};
use crate::state::store::claim::{Claim, check_fence};
use crate::state::store::column::{count, parse, parse_word};
use crate::state::store::{Store, StoreError, inbox, turn};
use jiff::Timestamp;
use rusqlite::{OptionalExtension, Transaction, params};

/// The reason of a step whose turn did not begin, if no other is known.
const REFUSED: &str = "the work was refused before a model was called";
/// The most characters of the reason of a failed step.
const WHY_CHARS_MAX: usize = 1_000;

impl Store {
    /// Answers the message of an agent step without a turn. The step fails for this reason.
    pub async fn refuse_step(
        &self,
        claim: &Claim,
        inbox: InboxId,
        why: String,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        let claim = *claim;
        self.write(move |tx| {
            check_fence(tx, claim)?;
            refuse(tx, claim, inbox, why, at)
        })
        .await
    }
}

/// Answers the message of an agent step like [`Store::refuse_step`], within another write.
pub(in crate::state::store) fn refuse(
    tx: &Transaction<'_>,
    claim: Claim,
    inbox: InboxId,
    why: String,
    at: Timestamp,
) -> Result<(), StoreError> {
    inbox::check_unfinished(tx, claim.conversation, inbox)?;
    if let Some(step) = step_of(tx, inbox)? {
        let end = StepEnd {
            spent: spent(tx, inbox)?,
            ..StepEnd::failed(why)
        };
        end_with(tx, step, end, at)?;
    }
    turn::dismiss(tx, claim, inbox, &[], at)
}

/// Ends the step that a message belongs to, when the message is answered. Does nothing for any other message, or if the run
/// was cancelled.
pub(in crate::state::store) fn end_step_of(
    tx: &Transaction<'_>,
    inbox: InboxId,
    at: Timestamp,
) -> Result<(), StoreError> {
    let Some(step) = step_of(tx, inbox)? else {
        return Ok(());
    };
    let withheld = prepared(tx, step)?;
    let end = end_of(tx, inbox, withheld)?;
    end_with(tx, step, end, at)
}

/// Returns the step that a message belongs to, unless it has ended.
fn step_of(tx: &Transaction<'_>, inbox: InboxId) -> Result<Option<(RunId, i64)>, StoreError> {
    let step = tx
        .prepare_cached(
            "SELECT run, step FROM run_step INDEXED BY run_step_open WHERE inbox = ?1 AND ended_at IS NULL",
        )?
        .query_row([inbox.0], |row| Ok((RunId(row.get(0)?), row.get(1)?)))
        .optional()?;
    Ok(step)
}

fn end_with(
    tx: &Transaction<'_>,
    (run, step): (RunId, i64),
    end: StepEnd,
    at: Timestamp,
) -> Result<(), StoreError> {
    end_step(tx, (run, step), end, at)?;
    changed(tx, run)
}

/// Stores the change that the turn of a step prepared. Returns the reason if it is withheld.
fn prepared(tx: &Transaction<'_>, (run, step): (RunId, i64)) -> Result<Option<String>, StoreError> {
    let found: Option<(Option<i64>, Option<String>)> = tx
        .prepare_cached(
            "SELECT conversation.change_number, conversation.withheld
             FROM run_step JOIN conversation ON conversation.id = run_step.conversation
             WHERE run_step.run = ?1 AND run_step.step = ?2",
        )?
        .query_row(params![run.0, step], |row| row.try_into())
        .optional()?;
    let (change, withheld) = found.unwrap_or_default();
    tx.prepare_cached("UPDATE run_step SET change_number = ?3 WHERE run = ?1 AND step = ?2")?
        .execute(params![run.0, step, change])?;
    Ok(withheld)
}

/// The end of a turn, as it is stored.
#[derive(Default)]
pub(super) struct StoredEnd {
    pub(super) verdict: Option<Verdict>,
    pub(super) source: Option<VerdictSource>,
    /// The reason for which Drydock ended it.
    pub(super) notice: Option<String>,
    /// The text of the final answer.
    pub(super) text: Option<String>,
}

/// Returns the end of a step by that of the newest turn of its message.
fn end_of(tx: &Transaction<'_>, inbox: InboxId, withheld: Option<String>) -> Result<StepEnd, StoreError> {
    let turn = newest_turn(tx, inbox)?;
    let (verdict, verdict_source) = (turn.verdict, turn.source);
    let end = match withheld {
        Some(why) => StepEnd::failed(why).with_output(turn.text.as_deref().unwrap_or_default()),
        None if inbox::is_stopped(tx, inbox)? => StepEnd::cancelled("it was stopped"),
        None => judged(turn),
    };
    Ok(StepEnd {
        verdict,
        verdict_source,
        spent: spent(tx, inbox)?,
        ..end
    })
}

fn newest_turn(tx: &Transaction<'_>, inbox: InboxId) -> Result<StoredEnd, StoreError> {
    type TurnColumns = (i64, Option<String>, Option<String>, Option<String>);
    let turn: Option<TurnColumns> = tx
        .prepare_cached(
            "SELECT id, verdict, source, json_extract(summary, '$.notice') FROM turn WHERE inbox = ?1
             ORDER BY id DESC LIMIT 1",
        )?
        .query_row([inbox.0], |row| row.try_into())
        .optional()?;
    let Some((turn, verdict, source, notice)) = turn else {
        return Ok(StoredEnd::default());
    };
    Ok(StoredEnd {
        verdict: verdict.map(|word| parse_word("verdict", word)).transpose()?,
        source: source.map(|word| parse_word("source", word)).transpose()?,
        notice,
        text: final_text(tx, turn)?,
    })
}

/// Returns the end of a step by that of its turn.
pub(super) fn judged(turn: StoredEnd) -> StepEnd {
    let text = turn.text.as_deref().unwrap_or_default();
    match turn.verdict {
        Some(Verdict::Pass | Verdict::NoChange) => StepEnd::succeeded(text),
        Some(Verdict::Fail) => StepEnd::failed(match turn.source {
            Some(VerdictSource::Concluded | VerdictSource::Inferred) => "the verdict is fail",
            Some(VerdictSource::Verified | VerdictSource::Harness) | None => "a check of the change failed",
        })
        .with_output(text),
        // Without a notice, the last words are those of Drydock.
        Some(
            Verdict::Incomplete | Verdict::Limit | Verdict::Error | Verdict::Cancelled | Verdict::Denied,
        )
        | None => {
            let (why, output) = match &turn.notice {
                Some(notice) if notice == text => (notice.as_str(), ""),
                Some(notice) => (notice.as_str(), text),
                None if text.is_empty() => (REFUSED, ""),
                None => (text, ""),
            };
            StepEnd::failed(cut_to(why, WHY_CHARS_MAX)).with_output(output)
        }
    }
}

/// Returns the text of the final answer of a turn, if there is one.
fn final_text(tx: &Transaction<'_>, turn: i64) -> Result<Option<String>, StoreError> {
    let step: Option<String> = tx
        .prepare_cached("SELECT step FROM step WHERE turn = ?1 AND is_final = 1 ORDER BY id DESC LIMIT 1")?
        .query_row([turn], |row| row.get(0))
        .optional()?;
    let Some(step) = step else { return Ok(None) };
    let step: Step = parse("step", &step)?;
    Ok(Some(step.assistant().text()).filter(|text| !text.is_empty()))
}

/// Returns what all turns of a message have used.
pub(super) fn spent(tx: &Transaction<'_>, inbox: InboxId) -> Result<StepSpending, StoreError> {
    let spent = tx
        .prepare_cached(
            "SELECT COUNT(*), COALESCE(SUM(input + output + cache_read + cache_write), 0), COALESCE(SUM(money), 0)
             FROM usage WHERE turn IN (SELECT id FROM turn WHERE inbox = ?1)",
        )?
        .query_row([inbox.0], |row| {
            Ok(StepSpending {
                calls: row.get(0)?,
                tokens: count(row.get(1)?),
                cost: Money::from_nano_dollars(count(row.get(2)?)),
            })
        })?;
    Ok(spent)
}
