//! Questions of a model to the person of its turn. A question is stored together with the step that asks it, and closed
//! together with the result of its call. Whatever closes it first counts; nobody claims its conversation before that.

mod asking;
mod late;
mod open_places;

pub use asking::NewQuestion;

use super::column::{count, json, millis, parse, time};
use super::{Store, StoreError, audit_in, outbox};
use crate::base::model::{
    Action, AskedQuestion, ChatPlace, ConversationId, Inbound, InboxId, Op, QuestionAnswer, Sender, Step,
    TurnId,
};
use crate::crash_point;
use crate::state::store::command::apply_once;
use jiff::Timestamp;
use rusqlite::{OptionalExtension, Row, Transaction, params};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// The operation that shows a question, and where it does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuestionPlace {
    /// The id of the operation that posts the question.
    #[serde(skip)]
    pub post: String,
    /// The configured name of the channel.
    pub channel: String,
    /// The chat and thread.
    pub place: ChatPlace,
}

/// A question that waits for its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenQuestion {
    /// The question.
    pub question: AskedQuestion,
    /// The time until which it can be answered.
    pub deadline: Timestamp,
}

/// A turn that goes on with the answer to its last question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnsweredTurn {
    /// The row of the turn.
    pub turn: TurnId,
    /// The id of the call that asked.
    pub call: String,
    /// The time that the turn had run when it asked.
    pub ran: Duration,
    /// The number of its steps.
    pub steps: usize,
}

/// The outcome of a click on a choice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "question", rename_all = "snake_case")]
pub enum ButtonOutcome {
    /// The choice is the answer.
    Answered {
        /// The choice.
        choice: String,
    },
    /// The question was closed before.
    Closed,
}

/// A message as the answer to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypedAnswer {
    /// The answer.
    pub answer: QuestionAnswer,
    /// The text that the model gets after the answer: what the message quotes, as marked data, and a line about attached
    /// files.
    pub beside: Option<String>,
}

/// A reader of messages of a conversation as answers to its question; `None` for a message that is none. It runs within a
/// transaction.
pub type AnswerReader =
    Arc<dyn Fn(ConversationId, &AskedQuestion, &Inbound) -> Option<TypedAnswer> + Send + Sync>;

/// A row of an open question.
struct QuestionRow {
    id: i64,
    conversation: ConversationId,
    turn: TurnId,
    step: i64,
    call: String,
    question: AskedQuestion,
    shown: QuestionPlace,
    deadline: Timestamp,
}

impl Store {
    /// Answers the question of a button with one of its choices. `inbox` is the click; a repeated run returns the first
    /// result.
    pub async fn answer_question(
        &self,
        inbox: InboxId,
        post: &str,
        choice: usize,
        at: Timestamp,
    ) -> Result<ButtonOutcome, StoreError> {
        let post = post.to_owned();
        crash_point::before("reply");
        let outcome = self
            .write(move |tx| {
                apply_once(tx, inbox, || {
                    let row = find(tx, "post = ?1", post)?;
                    let answer = row.and_then(|row| {
                        let answer = row.question.choose(choice)?;
                        Some((row, answer))
                    });
                    let Some((row, QuestionAnswer::Choice { choice })) = answer else {
                        return Ok(ButtonOutcome::Closed);
                    };
                    let answer = QuestionAnswer::Choice {
                        choice: choice.clone(),
                    };
                    close(tx, row, &answer, at)?;
                    Ok(ButtonOutcome::Answered { choice })
                })
            })
            .await;
        crash_point::after("reply");
        outcome
    }

    /// Returns the question that a conversation waits for.
    pub async fn open_question(&self, id: ConversationId) -> Result<Option<OpenQuestion>, StoreError> {
        self.read(move |tx| {
            let row = find(tx, "conversation = ?1", id.0)?;
            Ok(row.map(|row| OpenQuestion {
                question: row.question,
                deadline: row.deadline,
            }))
        })
        .await
    }
}

/// Finds an open question. One that cannot be read is given up.
fn find_readable(tx: &Transaction<'_>, id: i64, at: Timestamp) -> Result<Option<QuestionRow>, StoreError> {
    match find(tx, "id = ?1", id) {
        Err(StoreError::Unreadable { .. }) => give_up(tx, id, at).map(|()| None),
        found => found,
    }
}

/// Gives a question up whose step cannot be read.
fn unless_unreadable(
    tx: &Transaction<'_>,
    id: i64,
    closed: Result<(), StoreError>,
    at: Timestamp,
) -> Result<(), StoreError> {
    match closed {
        Err(StoreError::Unreadable { .. }) => give_up(tx, id, at),
        closed => closed,
    }
}

/// Closes a question that cannot be read, so that its conversation is claimed, and reported as unreadable there. Other
/// questions do not wait for it.
fn give_up(tx: &Transaction<'_>, id: i64, at: Timestamp) -> Result<(), StoreError> {
    tx.prepare_cached("UPDATE question SET closed_at = ?2 WHERE id = ?1")?
        .execute(params![id, millis(at)])?;
    tx.prepare_cached("UPDATE conversation SET question = NULL WHERE question = ?1")?
        .execute([id])?;
    let data = serde_json::json!({ "by": "unreadable", "question": id });
    audit_in(tx, "question.closed", data, at)
}

/// Finds an open question by a condition.
fn find(
    tx: &Transaction<'_>,
    condition: &str,
    value: impl rusqlite::ToSql,
) -> Result<Option<QuestionRow>, StoreError> {
    let sql = format!(
        "SELECT id, conversation, turn, step, call, content, post, address, deadline FROM question
         WHERE closed_at IS NULL AND {condition}"
    );
    tx.prepare_cached(&sql)?
        .query_row([value], |row| Ok(read(row)))
        .optional()?
        .transpose()
}

fn read(row: &Row<'_>) -> Result<QuestionRow, StoreError> {
    let (content, address): (String, String) = (row.get(5)?, row.get(7)?);
    Ok(QuestionRow {
        id: row.get(0)?,
        conversation: ConversationId(row.get(1)?),
        turn: TurnId(row.get(2)?),
        step: row.get(3)?,
        call: row.get(4)?,
        question: parse("question", &content)?,
        shown: QuestionPlace {
            post: row.get(6)?,
            ..parse("question", &address)?
        },
        deadline: time(row.get(8)?)?,
    })
}

/// Closes a question: stores the answer as the result of its call, changes the message that shows it, and lets its
/// conversation be claimed.
fn close(
    tx: &Transaction<'_>,
    row: QuestionRow,
    answer: &QuestionAnswer,
    at: Timestamp,
) -> Result<(), StoreError> {
    close_with(tx, row, (answer, None), at)
}

/// Closes a question like [`close`], with a text for the model after the answer.
fn close_with(
    tx: &Transaction<'_>,
    row: QuestionRow,
    (answer, beside): (&QuestionAnswer, Option<&str>),
    at: Timestamp,
) -> Result<(), StoreError> {
    let mut result = answer.result();
    if let Some(beside) = beside {
        result.push_str("\n\n");
        result.push_str(beside);
    }
    let step: String = tx
        .prepare_cached("SELECT step FROM step WHERE id = ?1")?
        .query_row([row.step], |found| found.get(0))?;
    let step: Step = parse("step", &step)?;
    let step = step
        .with_late_result(&row.call, AskedQuestion::WAITING, &result)
        .map_err(|error| StoreError::Unreadable {
            what: "step",
            why: error.to_string(),
        })?;
    tx.prepare_cached("UPDATE step SET step = ?2 WHERE id = ?1")?
        .execute(params![row.step, json(&step)?])?;
    tx.prepare_cached("UPDATE question SET answer = ?2, closed_at = ?3 WHERE id = ?1")?
        .execute(params![row.id, json(answer)?, millis(at)])?;
    // What the person answers is part of what they asked for.
    if let QuestionAnswer::Choice { choice: words } | QuestionAnswer::Words { text: words } = answer {
        tx.prepare_cached("UPDATE turn SET said = said || ?2 WHERE id = ?1")?
            .execute(params![row.turn.0, format!("{words}\n")])?;
    }
    tx.prepare_cached("UPDATE conversation SET question = NULL WHERE id = ?1")?
        .execute([row.conversation.0])?;
    let QuestionPlace { post, channel, place } = row.shown;
    // The turn goes on. That it waits must not be shown after that.
    let address = post.rsplit_once('/').map_or("", |(address, _)| address);
    for prefix in [format!("{post}/waits"), format!("{address}/work/waits-")] {
        outbox::forget_unsent(tx, &prefix)?;
    }
    let op = Op {
        id: format!("{post}/closed"),
        channel,
        place,
        action: Action::Fill {
            post,
            reply: row.question.closed_reply(answer),
        },
        response_url: None,
    };
    outbox::enqueue(tx, &[op], at)?;
    let data = serde_json::json!({
        "by": answer.word(),
        "conversation": row.conversation,
        "question": row.id,
        "turn": row.turn,
    });
    audit_in(tx, "question.closed", data, at)
}

/// Closes the question that a conversation waits for.
fn close_open(
    tx: &Transaction<'_>,
    conversation: ConversationId,
    answer: &QuestionAnswer,
    at: Timestamp,
) -> Result<(), StoreError> {
    let Some(id) = open(tx, conversation)? else {
        return Ok(());
    };
    match find_readable(tx, id, at)? {
        Some(row) => unless_unreadable(tx, id, close(tx, row, answer, at), at),
        None => Ok(()),
    }
}

/// Returns the row of the question that a conversation waits for.
fn open(tx: &Transaction<'_>, conversation: ConversationId) -> Result<Option<i64>, StoreError> {
    let question: Option<Option<i64>> = tx
        .prepare_cached("SELECT question FROM conversation WHERE id = ?1")?
        .query_row([conversation.0], |row| row.get(0))
        .optional()?;
    Ok(question.flatten())
}

/// Answers the open question of a conversation with a message of its person. Returns false if there is none.
pub(super) fn answer_with(
    tx: &Transaction<'_>,
    conversation: ConversationId,
    (inbound, reader): (&Inbound, &AnswerReader),
    at: Timestamp,
) -> Result<bool, StoreError> {
    let Some(id) = open(tx, conversation)? else {
        return Ok(false);
    };
    let Some(row) = find_readable(tx, id, at)? else {
        return Ok(false);
    };
    if !is_asked(tx, row.turn, &inbound.sender)? {
        return Ok(false);
    }
    let Some(TypedAnswer { answer, beside }) = reader(conversation, &row.question, inbound) else {
        return Ok(false);
    };
    match close_with(tx, row, (&answer, beside.as_deref()), at) {
        Err(StoreError::Unreadable { .. }) => give_up(tx, id, at).map(|()| false),
        closed => closed.map(|()| true),
    }
}

/// True if a turn runs for the person of an account. Others who joined the conversation answer no question of its.
fn is_asked(tx: &Transaction<'_>, turn: TurnId, sender: &Sender) -> Result<bool, StoreError> {
    let is_asked = tx
        .prepare_cached(
            "SELECT 1 FROM turn WHERE id = ?1
               AND (person IS NULL OR person = (SELECT user_id FROM identity WHERE sender = ?2))",
        )?
        .exists(params![turn.0, json(sender)?])?;
    Ok(is_asked)
}

/// Closes the question that the turn of a stopped message waits for.
pub(super) fn stop(
    tx: &Transaction<'_>,
    conversation: ConversationId,
    message: InboxId,
    at: Timestamp,
) -> Result<(), StoreError> {
    let Some(id) = open(tx, conversation)? else {
        return Ok(());
    };
    let Some(row) = find_readable(tx, id, at)? else {
        return Ok(());
    };
    let is_of_message = tx
        .prepare_cached("SELECT 1 FROM turn WHERE id = ?1 AND inbox = ?2")?
        .exists(params![row.turn.0, message.0])?;
    match is_of_message {
        true => unless_unreadable(tx, id, close(tx, row, &QuestionAnswer::Stopped, at), at),
        false => Ok(()),
    }
}

/// Returns the unfinished turn of a message whose last step asked a question that is closed.
pub(super) fn answered_turn(
    tx: &Transaction<'_>,
    inbox: InboxId,
) -> Result<Option<AnsweredTurn>, StoreError> {
    let found = tx
        .prepare_cached(
            "SELECT turn.id, question.call, question.ran_ms,
                    (SELECT COUNT(*) FROM step WHERE step.turn = turn.id)
             FROM turn JOIN question ON question.turn = turn.id
             WHERE turn.inbox = ?1 AND turn.finished_at IS NULL AND question.closed_at IS NOT NULL
               AND question.step = (SELECT MAX(id) FROM step WHERE step.turn = turn.id)",
        )?
        .query_row([inbox.0], |row| {
            Ok(AnsweredTurn {
                turn: TurnId(row.get(0)?),
                call: row.get(1)?,
                ran: Duration::from_millis(count(row.get(2)?)),
                steps: row.get::<_, u32>(3)? as usize,
            })
        })
        .optional()?;
    Ok(found)
}

/// Returns true if a turn of a message asked a question that is closed. The opening text alone would not show the
/// answer.
pub(super) fn has_answer(tx: &Transaction<'_>, inbox: InboxId) -> Result<bool, StoreError> {
    let answered = tx
        .prepare_cached(
            "SELECT 1 FROM question JOIN turn ON turn.id = question.turn
             WHERE turn.inbox = ?1 AND question.closed_at IS NOT NULL",
        )?
        .exists([inbox.0])?;
    Ok(answered)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests;
