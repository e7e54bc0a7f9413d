//! The repetition of a message whose turn has failed. The message becomes a new row of the inbox, in the transaction
//! that records the command or uses the button. Its turn continues the failed one: the finished steps are part of it.

use super::action::{self, PressOutcome};
use super::claim;
use super::column::{json, millis, parse, parse_word};
use super::command::apply_once;
use super::inbox::{self, QueueKind};
use super::{Store, StoreError, conversation, edits, person_message, question, steering};
use crate::base::model::{
    ConversationId, Inbound, InboundKind, InboxId, MessageRef, Sender, TurnId, Verdict,
};
use crate::crash_point;
use jiff::Timestamp;
use rusqlite::{OptionalExtension, Transaction, params};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The beginning of the delivery name of a message that runs again; the id of the command or click follows.
const DELIVERY_PREFIX: &str = "retry:";

/// The request to run a message again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryRequest {
    /// The command or the click.
    pub command: InboxId,
    /// The message that the answer replies to.
    pub reply_to: Option<MessageRef>,
    /// True in a one-to-one chat.
    pub direct: bool,
    /// The account of the person who asks for it. The turn runs with their grants.
    pub by: Sender,
}

/// The outcome of a retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "retried", rename_all = "snake_case")]
pub enum RetryOutcome {
    /// Nothing was repeated, because a message is being answered or waits.
    Busy,
    /// Nothing was repeated, because the conversation has no turn.
    Nothing,
    /// Nothing was repeated, because the last message was answered.
    Answered,
    /// Nothing was repeated, because the button is on an earlier turn.
    Earlier,
    /// Nothing was repeated, because a stop that was sent after the retry took effect first.
    Stopped,
    /// The message waits for a turn again.
    Again {
        /// The new row of the message.
        message: InboxId,
        /// Number of finished steps that are kept.
        steps: u32,
    },
}

impl Store {
    /// Runs the newest message of a conversation again if its turn has failed. A repeated run of the command returns the
    /// first result.
    pub async fn retry(
        &self,
        id: ConversationId,
        request: RetryRequest,
        at: Timestamp,
    ) -> Result<RetryOutcome, StoreError> {
        crash_point::before("effect");
        let done = self
            .write(move |tx| apply_once(tx, request.command, || retry(tx, id, &request, None, at)))
            .await;
        crash_point::after("effect");
        done
    }

    /// Uses a button that runs the message of its turn again, like [`Store::take_action`] and [`Store::retry`] in one
    /// transaction.
    pub async fn press_retry(
        &self,
        token_hash: [u8; 32],
        by: &Sender,
        request: RetryRequest,
        at: Timestamp,
    ) -> Result<(PressOutcome, Option<RetryOutcome>), StoreError> {
        let by = by.clone();
        crash_point::before("effect");
        let done = self
            .write(move |tx| {
                let pressed = action::take(tx, token_hash, &by, request.command, at)?;
                let PressOutcome::Counted {
                    argument,
                    conversation,
                    ..
                } = &pressed
                else {
                    return Ok((pressed, None));
                };
                let turn = argument.parse().map(TurnId).ok();
                let retried = apply_once(tx, request.command, || {
                    retry(tx, *conversation, &request, turn, at)
                })?;
                Ok((pressed, Some(retried)))
            })
            .await;
        crash_point::after("effect");
        done
    }
}

/// The newest turn of a conversation.
struct NewestTurn {
    id: TurnId,
    user_text: String,
    verdict: Option<String>,
    summary: Option<String>,
}

impl NewestTurn {
    fn read(tx: &Transaction<'_>, id: ConversationId) -> Result<Option<Self>, StoreError> {
        let newest = tx
            .prepare_cached(
                "SELECT id, user_text, verdict, summary FROM turn
                 WHERE conversation = ?1 AND id > (SELECT cleared_turn FROM conversation WHERE id = ?1)
                 ORDER BY id DESC LIMIT 1",
            )?
            .query_row([id.0], |row| {
                Ok(Self {
                    id: TurnId(row.get(0)?),
                    user_text: row.get(1)?,
                    verdict: row.get(2)?,
                    summary: row.get(3)?,
                })
            })
            .optional()?;
        Ok(newest)
    }

    /// True if the turn ended without an answer of the model.
    fn has_failed(&self) -> Result<bool, StoreError> {
        let summary: Option<Value> = self
            .summary
            .as_deref()
            .map(|text| parse("summary", text))
            .transpose()?;
        let answered = summary.and_then(|summary| summary.get("answered").and_then(Value::as_bool));
        let verdict = self.verdict.clone();
        let verdict: Option<Verdict> = verdict.map(|word| parse_word("verdict", word)).transpose()?;
        Ok(match answered {
            Some(answered) => !answered,
            // The turn is of an earlier version, or its message was dismissed.
            None => verdict.is_none_or(|verdict| {
                matches!(verdict, Verdict::Error | Verdict::Limit | Verdict::Cancelled)
            }),
        })
    }
}

fn retry(
    tx: &Transaction<'_>,
    id: ConversationId,
    request: &RetryRequest,
    meant: Option<TurnId>,
    at: Timestamp,
) -> Result<RetryOutcome, StoreError> {
    if inbox::is_stopped(tx, request.command)? {
        return Ok(RetryOutcome::Stopped);
    }
    if claim::is_busy(tx, id)? || inbox::waiting(tx, id)? > 0 {
        return Ok(RetryOutcome::Busy);
    }
    let Some(newest) = NewestTurn::read(tx, id)? else {
        return Ok(RetryOutcome::Nothing);
    };
    if meant.is_some_and(|meant| meant != newest.id) {
        return Ok(RetryOutcome::Earlier);
    }
    if !newest.has_failed()? {
        return Ok(RetryOutcome::Answered);
    }
    let conversation = conversation::load(tx, id)?;
    let inbound = Inbound {
        channel: conversation.channel,
        delivery: vec![format!("{DELIVERY_PREFIX}{}", request.command)],
        sender: request.by.clone(),
        place: conversation.key.place,
        direct: request.direct,
        message: request.reply_to.clone(),
        // The text is stored without secrets, and with quotes as data.
        kind: InboundKind::Text {
            text: newest.user_text,
            quoted: None,
            addressed: true,
        },
        files: Vec::new(),
        about: None,
        response_url: None,
    };
    conversation::add_pending(tx, id, &inbound, at)?;
    tx.prepare_cached(
        "INSERT INTO inbox (conversation, lane, inbound, accepted_at, retries) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?
    .execute(params![
        id.0,
        QueueKind::Turn.as_str(),
        json(&inbound)?,
        millis(at),
        newest.id.0
    ])?;
    let message = InboxId(tx.last_insert_rowid());
    let steps = match can_continue(tx, id, newest.id)? {
        true => finished_steps(tx, newest.id)?,
        false => 0,
    };
    Ok(RetryOutcome::Again { message, steps })
}

/// Returns the command or click that stored a message again.
pub(super) fn command_of(inbound: &Inbound) -> Option<InboxId> {
    let mut names = inbound.delivery.iter();
    names.find_map(|name| name.strip_prefix(DELIVERY_PREFIX)?.parse().ok().map(InboxId))
}

/// True if a turn can go on where another ended: the workspace still has the edits of that one.
fn can_continue(tx: &Transaction<'_>, id: ConversationId, turn: TurnId) -> Result<bool, StoreError> {
    let after: Option<String> = tx
        .prepare_cached(
            "SELECT edits_after FROM turn WHERE id = ?1 AND conversation = ?2 AND undone_at IS NULL",
        )?
        .query_row([turn.0, id.0], |row| row.get(0))
        .optional()?;
    Ok(after.is_some_and(|after| edits::snapshot(tx, id).is_ok_and(|now| now == after)))
}

fn finished_steps(tx: &Transaction<'_>, turn: TurnId) -> Result<u32, StoreError> {
    let steps = tx
        .prepare_cached("SELECT COUNT(*) FROM step WHERE turn = ?1 AND is_final = 0")?
        .query_row([turn.0], |row| row.get(0))?;
    Ok(steps)
}

/// Returns the turn that the next turn of a message continues: the failed one that the message retries, or the
/// interrupted one, if it took messages or got an answer that the opening text alone would not show, or sent messages
/// that another attempt would send again.
pub(super) fn continued(
    tx: &Transaction<'_>,
    id: ConversationId,
    inbox: InboxId,
    retries: Option<TurnId>,
) -> Result<Option<TurnId>, StoreError> {
    let interrupted = tx
        .prepare_cached("SELECT id FROM turn WHERE inbox = ?1 ORDER BY id DESC LIMIT 1")?
        .query_row([inbox.0], |row| row.get(0).map(TurnId))
        .optional()?;
    let turn = match interrupted {
        Some(turn)
            if retries.is_some()
                || steering::has_taken(tx, id, inbox)?
                || question::has_answer(tx, inbox)?
                || person_message::has_sent(tx, inbox)? =>
        {
            Some(turn)
        }
        Some(_) => None,
        None => retries,
    };
    match turn {
        Some(turn) if can_continue(tx, id, turn)? => Ok(Some(turn)),
        Some(_) | None => Ok(None),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests;
