//! The turns of a conversation, as people see them.

use crate::base::model::{ConversationId, TurnId, Usage, Verdict, VerdictSource};
use crate::state::store::column::{count, parse, parse_word, time};
use crate::state::store::{Store, StoreError, usage};
use jiff::Timestamp;
use rusqlite::{Transaction, params};
use serde_json::Value;

/// A turn in `/status` and `session show`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnSummary {
    /// The row of the turn.
    pub id: TurnId,
    /// The person's message.
    pub user_text: String,
    /// The start time.
    pub began_at: Timestamp,
    /// The end time; `None` while the turn runs, or if a crash cut it short.
    pub finished_at: Option<Timestamp>,
    /// The verdict on it.
    pub verdict: Option<Verdict>,
    /// The source of the verdict.
    pub source: Option<VerdictSource>,
    /// The facts stored at its end.
    pub summary: Value,
    /// Number of steps: model calls with their results.
    pub steps: u64,
    /// Token usage of all its model calls.
    pub usage: Usage,
}

impl Store {
    /// Returns the newest turns of a conversation, newest first.
    pub async fn turns(&self, id: ConversationId, limit: u32) -> Result<Vec<TurnSummary>, StoreError> {
        self.read(move |tx| {
            let mut statement = tx.prepare_cached(
                "SELECT id, user_text, began_at, finished_at, verdict, source, summary,
                        (SELECT COUNT(*) FROM step WHERE step.turn = turn.id)
                 FROM turn WHERE conversation = ?1 ORDER BY id DESC LIMIT ?2",
            )?;
            let mut rows = statement.query(params![id.0, limit])?;
            let mut turns = Vec::new();
            while let Some(row) = rows.next()? {
                turns.push(summary(tx, row)?);
            }
            Ok(turns)
        })
        .await
    }
}

fn summary(tx: &Transaction<'_>, row: &rusqlite::Row<'_>) -> Result<TurnSummary, StoreError> {
    let turn = TurnId(row.get(0)?);
    let text: Option<String> = row.get(6)?;
    Ok(TurnSummary {
        id: turn,
        user_text: row.get(1)?,
        began_at: time(row.get(2)?)?,
        finished_at: row.get::<_, Option<i64>>(3)?.map(time).transpose()?,
        verdict: row
            .get::<_, Option<String>>(4)?
            .map(|text| parse_word("verdict", text))
            .transpose()?,
        source: row
            .get::<_, Option<String>>(5)?
            .map(|text| parse_word("source", text))
            .transpose()?,
        summary: text.map_or(Ok(Value::Null), |text| parse("summary", &text))?,
        steps: count(row.get(7)?),
        usage: usage::turn_usage(tx, turn)?,
    })
}
