//! Questions of runs. A question is stored with the begin of the step that asks, and is closed in the transaction that ends this
//! step: by an answer, by its deadline, or by the end of the run. Whatever comes first counts.

use super::{advance, changed, position};
use crate::base::model::{Action, InboxId, Op, RunAnswer, RunId, RunQuestion, Sender, StepEnd, UserId};
use crate::crash_point;
use crate::state::store::column::{json, millis, parse, time};
use crate::state::store::{QuestionPlace, Store, StoreError, apply_once, audit_in, outbox, people};
use jiff::Timestamp;
use rusqlite::{OptionalExtension, Row, Transaction, params};
use serde::{Deserialize, Serialize};

/// The most questions that one transaction closes because their time is over.
const LATE_RUN_QUESTIONS_MAX: u32 = 50;
/// The reason of a step whose question is not readable.
const UNREADABLE: &str = "its question cannot be read by this version; start the run again";

/// The columns of an [`AskedRunQuestion`], with their tables.
const COLUMNS: &str = "question.run, question.step, run_step.name, question.content, question.post, question.address,
    question.deadline, question.answer, question.closed_at IS NOT NULL
    FROM run_question AS question JOIN run_step ON run_step.run = question.run AND run_step.step = question.step";

/// A question to store, with what becomes durable together with it.
#[derive(Clone, Debug)]
pub struct NewRunQuestion {
    /// The question.
    pub question: RunQuestion,
    /// The message that shows it.
    pub shown: QuestionPlace,
    /// The SHA-256 of the tokens of its buttons, in the order of the choices.
    pub tokens: Vec<[u8; 32]>,
    /// The operations that post it.
    pub ops: Vec<Op>,
    /// The time at which it is closed without an answer.
    pub deadline: Timestamp,
}

/// A question of a run that was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskedRunQuestion {
    /// The step, by its place in the plan.
    pub step: usize,
    /// The name of the step.
    pub step_name: String,
    /// The question.
    pub question: RunQuestion,
    /// The time at which it is closed without an answer.
    pub deadline: Timestamp,
    /// The answer, if it is closed.
    pub answer: Option<RunAnswer>,
    shown: QuestionPlace,
}

/// An answer to a question of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunAnswerRequest {
    /// The run.
    pub run: RunId,
    /// The step that asks, by its place in the plan.
    pub step: usize,
    /// The place of the choice.
    pub choice: usize,
    /// The person who answers; `None` for the operator.
    pub person: Option<(UserId, Sender)>,
    /// The name of the one who answers.
    pub by: String,
}

/// The outcome of an answer to a question of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "run_question", rename_all = "snake_case")]
pub enum RunAnswerOutcome {
    /// The choice is the answer.
    Answered {
        /// The choice.
        choice: String,
    },
    /// It was closed before, in this way.
    Closed {
        /// The way, as a sentence without a full stop.
        how: String,
    },
    /// There is no such question or choice, or the person is not admitted any more.
    Gone,
}

impl Store {
    /// Returns the questions of a run, also those that are closed, in the order of its steps. One that is not readable is left
    /// out.
    pub async fn run_questions(&self, run: RunId) -> Result<Vec<AskedRunQuestion>, StoreError> {
        self.read(move |tx| {
            let sql = format!("SELECT {COLUMNS} WHERE question.run = ?1 ORDER BY question.step");
            let mut statement = tx.prepare_cached(&sql)?;
            let mut rows = statement.query([run.0])?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                match read(row) {
                    Err(StoreError::Unreadable { .. }) => {}
                    row => found.push(row?),
                }
            }
            Ok(found)
        })
        .await
    }

    /// Returns the question of the button with this hash, and the place of the button's choice.
    pub async fn run_question_of_button(
        &self,
        token_hash: [u8; 32],
    ) -> Result<Option<(AskedRunQuestion, usize)>, StoreError> {
        self.read(move |tx| {
            let button: Option<(i64, i64, i64)> = tx
                .prepare_cached("SELECT run, step, choice FROM run_question_button WHERE token_hash = ?1")?
                .query_row([token_hash], |row| row.try_into())
                .optional()?;
            let Some((run, step, choice)) = button else {
                return Ok(None);
            };
            let found = find(tx, (RunId(run), step))?;
            Ok(found.map(|asked| (asked, place_of(choice))))
        })
        .await
    }

    /// Answers a question of a run, and ends its step. The caller has checked that the one who answers is asked. `command` is
    /// the message or the press with the answer, if any; a repeated run of it returns the first result.
    pub async fn answer_run_question(
        &self,
        request: RunAnswerRequest,
        command: Option<InboxId>,
        at: Timestamp,
    ) -> Result<RunAnswerOutcome, StoreError> {
        crash_point::before("effect");
        let answered = self
            .write(move |tx| match command {
                Some(command) => apply_once(tx, command, || answer(tx, &request, at)),
                None => answer(tx, &request, at),
            })
            .await;
        crash_point::after("effect");
        answered
    }

    /// Returns the outcome of a command that has answered a question of a run before.
    pub async fn run_answer_of_command(
        &self,
        command: InboxId,
    ) -> Result<Option<RunAnswerOutcome>, StoreError> {
        self.read(move |tx| {
            let effect: Option<String> = tx
                .prepare_cached("SELECT effect FROM inbox WHERE id = ?1 AND effect IS NOT NULL")?
                .query_row([command.0], |row| row.get(0))
                .optional()?;
            effect.map(|effect| parse("effect", &effect)).transpose()
        })
        .await
    }

    /// Closes the questions of runs whose time is over, the first of them first, and ends their steps.
    pub async fn close_late_run_questions(&self, at: Timestamp) -> Result<(), StoreError> {
        let next = self.read(next_deadline).await?;
        if next.is_none_or(|next| next > at) {
            return Ok(());
        }
        crash_point::before("late");
        let closed = self.write(move |tx| close_late(tx, at)).await;
        crash_point::after("late");
        closed
    }
}

/// Stores the question of a step that begins, with its buttons and its message.
pub(super) fn insert(
    tx: &Transaction<'_>,
    (run, step): (RunId, i64),
    new: &NewRunQuestion,
    at: Timestamp,
) -> Result<(), StoreError> {
    tx.prepare_cached(
        "INSERT INTO run_question (run, step, content, post, address, asked_at, deadline)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?
    .execute(params![
        run.0,
        step,
        json(&new.question)?,
        new.shown.post,
        json(&new.shown)?,
        millis(at),
        millis(new.deadline)
    ])?;
    let mut button = tx.prepare_cached(
        "INSERT INTO run_question_button (token_hash, run, step, choice) VALUES (?1, ?2, ?3, ?4)",
    )?;
    for (choice, token_hash) in new.tokens.iter().enumerate() {
        button.execute(params![token_hash, run.0, step, position(choice)])?;
    }
    outbox::enqueue(tx, &new.ops, at)?;
    let data = serde_json::json!({ "run": run, "step": step });
    audit_in(tx, "question.asked", data, at)
}

/// Closes the question of a step that ends otherwise, if it has an open one.
pub(super) fn withdraw(
    tx: &Transaction<'_>,
    place: (RunId, i64),
    end: &StepEnd,
    at: Timestamp,
) -> Result<(), StoreError> {
    if !is_open(tx, place)? {
        return Ok(());
    }
    let why = end.why.clone();
    let answer = RunAnswer::Withdrawn {
        why: why.unwrap_or_else(|| "the step has ended".to_owned()),
    };
    match find(tx, place) {
        Ok(Some(asked)) => close(tx, &asked, (&answer, None), at),
        Ok(None) => Ok(()),
        // The end of the step counts, also if its message cannot be changed.
        Err(StoreError::Unreadable { .. }) => give_up(tx, place, at),
        Err(error) => Err(error),
    }
}

/// Returns the earliest deadline of an open question.
pub(super) fn next_deadline(tx: &Transaction<'_>) -> Result<Option<Timestamp>, StoreError> {
    let next: Option<i64> = tx
        .prepare_cached("SELECT MIN(deadline) FROM run_question WHERE closed_at IS NULL")?
        .query_row([], |row| row.get(0))?;
    next.map(time).transpose()
}

fn answer(
    tx: &Transaction<'_>,
    request: &RunAnswerRequest,
    at: Timestamp,
) -> Result<RunAnswerOutcome, StoreError> {
    let found = find(tx, (request.run, position(request.step)))?;
    let Some(asked) = found else {
        return Ok(RunAnswerOutcome::Gone);
    };
    let closed = |answer: &RunAnswer| RunAnswerOutcome::Closed { how: answer.line() };
    if let Some(answer) = &asked.answer {
        return Ok(closed(answer));
    }
    // The driver may not have looked at it yet.
    if asked.deadline <= at {
        let late = asked.question.late_answer();
        end_with(tx, &asked, (&late, None), at)?;
        return Ok(closed(&late));
    }
    let is_admitted = match &request.person {
        Some((user, _)) => people::current_grants(tx, *user)?.is_some(),
        None => true,
    };
    let Some(choice) = asked.question.choices.get(request.choice).filter(|_| is_admitted) else {
        return Ok(RunAnswerOutcome::Gone);
    };
    let answer = RunAnswer::Choice {
        choice: choice.clone(),
        by: request.by.clone(),
    };
    let sender = request.person.as_ref().map(|(_, sender)| sender);
    end_with(tx, &asked, (&answer, sender), at)?;
    Ok(RunAnswerOutcome::Answered {
        choice: choice.clone(),
    })
}

fn close_late(tx: &Transaction<'_>, at: Timestamp) -> Result<(), StoreError> {
    let mut statement = tx.prepare_cached(
        "SELECT run, step FROM run_question WHERE closed_at IS NULL AND deadline <= ?1 ORDER BY deadline LIMIT ?2",
    )?;
    let late = statement.query_map(params![millis(at), LATE_RUN_QUESTIONS_MAX], |row| {
        Ok((RunId(row.get(0)?), row.get::<_, i64>(1)?))
    })?;
    let late = late.collect::<rusqlite::Result<Vec<_>>>()?;
    for place in late {
        match find(tx, place) {
            Ok(Some(asked)) => {
                let answer = asked.question.late_answer();
                end_with(tx, &asked, (&answer, None), at)?;
            }
            // The step would wait for ever.
            Ok(None) | Err(StoreError::Unreadable { .. }) => {
                give_up(tx, place, at)?;
                advance::end_step(tx, place, StepEnd::failed(UNREADABLE), at)?;
                changed(tx, place.0)?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Closes a question with an answer, and ends its step.
fn end_with(
    tx: &Transaction<'_>,
    asked: &AskedRunQuestion,
    (answer, sender): (&RunAnswer, Option<&Sender>),
    at: Timestamp,
) -> Result<(), StoreError> {
    close(tx, asked, (answer, sender), at)?;
    let place = (asked.question.run, position(asked.step));
    advance::end_step(tx, place, asked.question.end(answer), at)?;
    changed(tx, asked.question.run)
}

/// Closes a question: its message loses its buttons and shows the answer.
fn close(
    tx: &Transaction<'_>,
    asked: &AskedRunQuestion,
    (answer, sender): (&RunAnswer, Option<&Sender>),
    at: Timestamp,
) -> Result<(), StoreError> {
    let run = asked.question.run;
    tx.prepare_cached(
        "UPDATE run_question SET answer = ?3, closed_at = ?4 WHERE run = ?1 AND step = ?2 AND closed_at IS NULL",
    )?
    .execute(params![run.0, position(asked.step), json(answer)?, millis(at)])?;
    let QuestionPlace { post, channel, place } = asked.shown.clone();
    let op = Op {
        id: format!("{post}/closed"),
        channel,
        place,
        action: Action::Fill {
            post,
            reply: asked.question.closed_reply(answer),
        },
        response_url: None,
    };
    outbox::enqueue(tx, &[op], at)?;
    let by = match answer {
        RunAnswer::Choice { by, .. } => by.as_str(),
        other => other.word(),
    };
    let mut data = serde_json::json!({ "by": by, "how": answer.word(), "run": run, "step": asked.step });
    if let Some(sender) = sender {
        data["sender"] = serde_json::json!(sender.to_string());
    }
    audit_in(tx, "question.closed", data, at)
}

/// Closes a question that is not readable.
fn give_up(tx: &Transaction<'_>, (run, step): (RunId, i64), at: Timestamp) -> Result<(), StoreError> {
    tx.prepare_cached("UPDATE run_question SET closed_at = ?3 WHERE run = ?1 AND step = ?2")?
        .execute(params![run.0, step, millis(at)])?;
    let data = serde_json::json!({ "by": "unreadable", "run": run, "step": step });
    audit_in(tx, "question.closed", data, at)
}

fn is_open(tx: &Transaction<'_>, (run, step): (RunId, i64)) -> Result<bool, StoreError> {
    let is_open = tx
        .prepare_cached("SELECT 1 FROM run_question WHERE run = ?1 AND step = ?2 AND closed_at IS NULL")?
        .exists(params![run.0, step])?;
    Ok(is_open)
}

fn find(tx: &Transaction<'_>, (run, step): (RunId, i64)) -> Result<Option<AskedRunQuestion>, StoreError> {
    let sql = format!("SELECT {COLUMNS} WHERE question.run = ?1 AND question.step = ?2");
    tx.prepare_cached(&sql)?
        .query_row(params![run.0, step], |row| Ok(read(row)))
        .optional()?
        .transpose()
}

fn read(row: &Row<'_>) -> Result<AskedRunQuestion, StoreError> {
    let (content, address): (String, String) = (row.get(3)?, row.get(5)?);
    let (answer, is_closed): (Option<String>, bool) = (row.get(7)?, row.get(8)?);
    let answer = match answer {
        Some(answer) => Some(parse("question", &answer)?),
        None => is_closed.then(|| RunAnswer::Withdrawn {
            why: UNREADABLE.to_owned(),
        }),
    };
    Ok(AskedRunQuestion {
        step: place_of(row.get(1)?),
        step_name: row.get(2)?,
        question: RunQuestion {
            run: RunId(row.get(0)?),
            ..parse("question", &content)?
        },
        deadline: time(row.get(6)?)?,
        answer,
        shown: QuestionPlace {
            post: row.get(4)?,
            ..parse("question", &address)?
        },
    })
}

/// Converts a column to a place in a list.
fn place_of(column: i64) -> usize {
    usize::try_from(column).unwrap_or(usize::MAX)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests;
