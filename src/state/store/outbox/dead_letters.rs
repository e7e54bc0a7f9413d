//! Dead letters: operations that were refused, tried too often, or have an unknown outcome. An operator can list, retry
//! or drop them.

use super::withdrawal::reason_to_withdraw;
use super::{FORCED, WAITING};
use crate::base::model::{Action, ChatPlace, InboxId, Op};
use crate::state::store::audit::audit_in;
use crate::state::store::column::{millis, parse, text, time};
use crate::state::store::{Store, StoreError, run};
use jiff::Timestamp;
use rusqlite::{OptionalExtension, Row, Transaction, params};
use serde::{Deserialize, Serialize};

/// An operation that was given up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadLetter {
    /// The id of the operation.
    pub op: String,
    /// The channel of the operation.
    pub channel: String,
    /// The chat of the operation.
    pub chat: String,
    /// The thread of the operation.
    pub thread: Option<String>,
    /// The kind: `post`, `edit`, `notice`, `upload`, `react` or `answer`.
    pub what: String,
    /// The name of the file, for an upload.
    #[serde(default)]
    pub file: Option<String>,
    /// The state. `failed`: not sent. `ambiguous`: the outcome cannot be found out.
    pub state: String,
    /// The platform's last answer.
    pub why: String,
    /// Number of attempts.
    pub attempts: u32,
    /// The time of enqueueing.
    pub enqueued: Timestamp,
    /// The time at which it was given up.
    pub given_up: Timestamp,
}

/// A selection of dead letters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeadLetterFilter {
    /// One operation, by its id.
    Op(String),
    /// All operations of a channel.
    Channel(String),
}

impl DeadLetterFilter {
    /// Returns the channel, if all of its dead letters are selected.
    pub fn channel(&self) -> Option<&str> {
        match self {
            Self::Op(_) => None,
            Self::Channel(channel) => Some(channel),
        }
    }
}

/// The outcome of a resend.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResentLetters {
    /// The channel of each operation that is sent again.
    pub queued: Vec<String>,
    /// The ids of the operations that are not sent: the sender of a message was blocked, or a person revoked.
    pub withdrawn: Vec<String>,
}

/// Maximum number of dead letters in one report.
const REPORTED_MAX: u32 = 100;

const LETTERS: &str =
    "SELECT op, channel, body, state, COALESCE(why, ''), attempts, created_at, done_at FROM outbox
    WHERE done_at IS NOT NULL AND state IN ('failed', 'ambiguous')";

impl Store {
    /// Returns dead letters, oldest first, of one channel or all.
    pub async fn dead_letters(
        &self,
        channel: Option<&str>,
        limit: u32,
    ) -> Result<Vec<DeadLetter>, StoreError> {
        let channel = channel.map(str::to_owned);
        self.read(move |tx| {
            let sql = format!("{LETTERS} AND (?1 IS NULL OR channel = ?1) ORDER BY id LIMIT ?2");
            let mut statement = tx.prepare_cached(&sql)?;
            let mut rows = statement.query(params![channel, limit])?;
            let mut letters = Vec::new();
            while let Some(row) = rows.next()? {
                letters.push(letter(row)?);
            }
            Ok(letters)
        })
        .await
    }

    /// Returns the number of dead letters of one channel or all.
    pub async fn dead_letter_count(&self, channel: Option<&str>) -> Result<u64, StoreError> {
        let channel = channel.map(str::to_owned);
        self.read(move |tx| {
            let count = tx
                .prepare_cached(
                    "SELECT COUNT(*) FROM outbox WHERE done_at IS NOT NULL
                     AND state IN ('failed', 'ambiguous') AND (?1 IS NULL OR channel = ?1)",
                )?
                .query_row([channel], |row| row.get(0))?;
            Ok(crate::state::store::column::count(count))
        })
        .await
    }

    /// True if the outbox has any operation for this channel, whatever its outcome.
    pub async fn has_sent_to(&self, channel: &str) -> Result<bool, StoreError> {
        let channel = channel.to_owned();
        self.read(move |tx| {
            let mut any = tx.prepare_cached("SELECT 1 FROM outbox WHERE channel = ?1 LIMIT 1")?;
            Ok(any.exists([channel])?)
        })
        .await
    }

    /// Reports the dead letters of a chat and thread that were not reported before, oldest first, to the message `by`.
    /// A repeated call for the same message returns the same ones.
    pub async fn report_given_up(
        &self,
        channel: &str,
        place: &ChatPlace,
        by: InboxId,
    ) -> Result<Vec<DeadLetter>, StoreError> {
        // A reading connection looks for them first, so that the writer thread does not search a table. Usually there
        // are none.
        let (channel, place) = (channel.to_owned(), place.clone());
        let found: Vec<i64> = self
            .read(move |tx| {
                let mut statement = tx.prepare_cached(
                    "SELECT id FROM outbox
                     WHERE channel = ?1 AND done_at IS NOT NULL AND state IN ('failed', 'ambiguous')
                       AND (told_by IS NULL OR told_by = ?4)
                       AND json_extract(lane, '$[0]') = ?2 AND json_extract(lane, '$[1]') IS ?3 ORDER BY id LIMIT ?5",
                )?;
                let values = params![channel, place.chat, place.thread, by.0, REPORTED_MAX];
                let rows = statement.query_map(values, |row| row.get(0))?;
                Ok(rows.collect::<rusqlite::Result<_>>()?)
            })
            .await?;
        if found.is_empty() {
            return Ok(Vec::new());
        }
        self.write(move |tx| {
            let mut letters = Vec::new();
            for id in found {
                tx.prepare_cached("UPDATE outbox SET told_by = ?2 WHERE id = ?1 AND told_by IS NULL")?
                    .execute([id, by.0])?;
                let sql = format!("{LETTERS} AND id = ?1 AND told_by = ?2");
                let mut statement = tx.prepare_cached(&sql)?;
                let mut rows = statement.query([id, by.0])?;
                if let Some(row) = rows.next()? {
                    letters.push(letter(row)?);
                }
            }
            Ok(letters)
        })
        .await
    }

    /// Queues dead letters to be sent again, with their attempts reset. Those that may already show are looked up
    /// first, and sent if the lookup gives no answer. One that must not be sent any more is withdrawn instead, such as a
    /// message whose sender was blocked, or one for a person whose access was revoked.
    pub async fn send_again(
        &self,
        which: DeadLetterFilter,
        by: &str,
        at: Timestamp,
    ) -> Result<ResentLetters, StoreError> {
        let by = by.to_owned();
        self.write(move |tx| {
            let mut resent = ResentLetters::default();
            for (op, channel, state) in chosen(tx, &which)? {
                let why = match stored(tx, &op)? {
                    Some(letter) => reason_to_withdraw(tx, &letter)?,
                    None => None,
                };
                if let Some(why) = why {
                    tx.prepare_cached("UPDATE outbox SET state = 'dropped', why = ?2 WHERE op = ?1")?
                        .execute(params![op, why])?;
                    run::note_reply(tx, &op)?;
                    let data = serde_json::json!({ "by": by, "op": op, "why": why });
                    audit_in(tx, "outbox.drop", data, at)?;
                    resent.withdrawn.push(op);
                    continue;
                }
                let state = if state == "failed" { WAITING } else { FORCED };
                tx.prepare_cached(
                    "UPDATE outbox SET state = ?2, due_at = ?3, attempts = 0, done_at = NULL, told_by = NULL,
                       tried_at = CASE ?2 WHEN 'waiting' THEN NULL ELSE tried_at END
                     WHERE op = ?1",
                )?
                .execute(params![op, state, millis(at)])?;
                run::note_reply(tx, &op)?;
                audit_in(tx, "outbox.retry", serde_json::json!({ "by": by, "op": op }), at)?;
                resent.queued.push(channel);
            }
            Ok(resent)
        })
        .await
    }

    /// Drops dead letters, which are then never sent. Their reason then also says that the operator did it. Returns the
    /// channel of each.
    pub async fn drop_letters(
        &self,
        which: DeadLetterFilter,
        by: &str,
        at: Timestamp,
    ) -> Result<Vec<String>, StoreError> {
        let by = by.to_owned();
        self.write(move |tx| {
            let letters = chosen(tx, &which)?;
            for (op, _, state) in &letters {
                tx.prepare_cached(
                    "UPDATE outbox SET state = 'dropped', why = ?2 || COALESCE(why, '') WHERE op = ?1",
                )?
                .execute(params![op, dropped_words(state)])?;
                run::note_reply(tx, op)?;
                audit_in(tx, "outbox.drop", serde_json::json!({ "by": by, "op": op }), at)?;
            }
            Ok(letters.into_iter().map(|(_, channel, _)| channel).collect())
        })
        .await
    }
}

/// Returns id, channel and state of the selected dead letters. An operation selected by id must exist and be a dead
/// letter.
fn chosen(
    tx: &Transaction<'_>,
    which: &DeadLetterFilter,
) -> Result<Vec<(String, String, String)>, StoreError> {
    match which {
        DeadLetterFilter::Channel(channel) => {
            let mut statement = tx.prepare_cached(
                "SELECT op, channel, state FROM outbox
                 WHERE channel = ?1 AND done_at IS NOT NULL AND state IN ('failed', 'ambiguous') ORDER BY id",
            )?;
            let rows = statement.query_map([channel], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        }
        DeadLetterFilter::Op(op) => {
            let row: Option<(String, String, String)> = tx
                .prepare_cached("SELECT op, channel, state FROM outbox WHERE op = ?1")?
                .query_row([op], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
                .optional()?;
            match row {
                Some(row) if ["failed", "ambiguous"].contains(&row.2.as_str()) => Ok(vec![row]),
                Some((_, _, state)) => Err(StoreError::NotFound(format!(
                    "dead letter `{op}`: it is {}; `drydock outbox list` shows what was given up",
                    state_text(&state)
                ))),
                None => Err(StoreError::NotFound(format!(
                    "operation `{op}`; `drydock outbox list` shows what was given up"
                ))),
            }
        }
    }
}

/// Returns the beginning of the reason of a dropped dead letter, which the reason of its state follows.
fn dropped_words(state: &str) -> &'static str {
    match state {
        "failed" => "the operator dropped it; it was not delivered: ",
        _ => "the operator dropped it; it is unknown whether it was delivered: ",
    }
}

/// Returns a stored operation; `None` if this version cannot read it.
fn stored(tx: &Transaction<'_>, op: &str) -> Result<Option<Op>, StoreError> {
    let body = tx
        .prepare_cached("SELECT body FROM outbox WHERE op = ?1")?
        .query_row([op], |row| Ok(text("operation", row, 0)))?;
    match body.and_then(|body| parse("operation", &body)) {
        Ok(op) => Ok(Some(op)),
        Err(StoreError::Unreadable { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Describes a state in words.
fn state_text(state: &str) -> &'static str {
    match state {
        "delivered" => "delivered",
        "dropped" => "dropped",
        "replaced" => "replaced by another message",
        _ => "still to be sent",
    }
}

fn letter(row: &Row<'_>) -> Result<DeadLetter, StoreError> {
    // An unreadable operation is a dead letter for that reason. It is listed as well.
    let body = parse::<Op>("operation", &row.get::<_, String>(2)?).ok();
    let place = body.as_ref().map(|op| op.place.clone());
    let file = body.as_ref().and_then(|op| match &op.action {
        Action::Upload { file_name, .. } | Action::ShowDiff { file_name, .. } => Some(file_name.clone()),
        _ => None,
    });
    Ok(DeadLetter {
        op: row.get(0)?,
        channel: row.get(1)?,
        chat: place.as_ref().map(|place| place.chat.clone()).unwrap_or_default(),
        thread: place.and_then(|place| place.thread),
        what: body.map_or("unreadable", |op| what(&op.action)).to_owned(),
        file,
        state: row.get(3)?,
        why: row.get(4)?,
        attempts: row.get(5)?,
        enqueued: time(row.get(6)?)?,
        given_up: time(row.get(7)?)?,
    })
}

fn what(action: &Action) -> &'static str {
    match action {
        Action::Post { .. } | Action::Stream { .. } => "post",
        Action::Edit { .. } | Action::Fill { .. } | Action::Progress { .. } => "edit",
        Action::Draft { .. } => "draft",
        Action::Notice { .. } => "notice",
        Action::Upload { .. } | Action::ShowDiff { .. } => "upload",
        Action::CloseDiff { .. } => "close",
        Action::React { .. } => "react",
        Action::ShowWork { .. } => "status",
        Action::ShowHome { .. } => "home",
        Action::AskForWords { .. } => "question",
        Action::AnswerClick { .. } | Action::Respond { .. } => "answer",
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::DeadLetterFilter;
    use crate::base::model::InboxId;
    use crate::state::store::Store;
    use crate::state::store::fixture::{at, place, post};

    #[tokio::test]
    async fn a_dead_letter_is_reported_to_one_message_and_again_after_a_new_failure() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let here = place(Some("1.0"));
        let ops = vec![
            post("inbox-1/result", Some("1.0"), "x"),
            post("inbox-2/result", Some("2.0"), "x"),
        ];
        store.enqueue(ops, at(0)).await.unwrap();
        for op in ["inbox-1/result", "inbox-2/result"] {
            store.record_failed(op, "refused", None, at(1)).await.unwrap();
        }
        let reported = async |by: i64| {
            let letters = store.report_given_up("slack", &here, InboxId(by)).await.unwrap();
            letters.into_iter().map(|letter| letter.op).collect::<Vec<_>>()
        };
        for (by, letters) in [
            (7, vec!["inbox-1/result"]),
            (7, vec!["inbox-1/result"]),
            (8, vec![]),
        ] {
            assert_eq!(reported(by).await, letters, "{by}");
        }
        let one = DeadLetterFilter::Op("inbox-1/result".to_owned());
        store.send_again(one, "operator", at(2)).await.unwrap();
        store
            .record_failed("inbox-1/result", "refused", None, at(3))
            .await
            .unwrap();
        assert_eq!(reported(8).await, ["inbox-1/result"]);
    }
}
