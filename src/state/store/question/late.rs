//! Questions whose time has passed: they are closed with the answer for that case.

use super::{QuestionRow, close, find_readable, unless_unreadable};
use crate::crash_point;
use crate::state::store::column::{millis, time};
use crate::state::store::{Store, StoreError};
use jiff::Timestamp;
use rusqlite::{OptionalExtension, Transaction};

/// Maximum number of questions that one transaction closes because their time has passed.
const LATE_MAX: u32 = 50;

impl Store {
    /// Closes questions whose time has passed. Returns their number, and the time of the next deadline.
    pub async fn close_late_questions(
        &self,
        at: Timestamp,
    ) -> Result<(usize, Option<Timestamp>), StoreError> {
        let next = self.read(next_deadline).await?;
        if next.is_none_or(|next| next > at) {
            return Ok((0, next));
        }
        crash_point::before("late");
        let closed = self
            .write(move |tx| {
                let mut closed = 0;
                while closed < LATE_MAX as usize
                    && let Some(id) = first_late(tx, at)?
                {
                    let late = |row: QuestionRow| {
                        let answer = row.question.late_answer();
                        close(tx, row, &answer, at)
                    };
                    if let Some(row) = find_readable(tx, id, at)? {
                        unless_unreadable(tx, id, late(row), at)?;
                    }
                    closed += 1;
                }
                Ok((closed, next_deadline(tx)?))
            })
            .await;
        crash_point::after("late");
        closed
    }
}

fn first_late(tx: &Transaction<'_>, at: Timestamp) -> Result<Option<i64>, StoreError> {
    let first = tx
        .prepare_cached(
            "SELECT id FROM question WHERE closed_at IS NULL AND deadline <= ?1 ORDER BY deadline LIMIT 1",
        )?
        .query_row([millis(at)], |row| row.get(0))
        .optional()?;
    Ok(first)
}

fn next_deadline(tx: &Transaction<'_>) -> Result<Option<Timestamp>, StoreError> {
    let next: Option<i64> = tx
        .prepare_cached("SELECT MIN(deadline) FROM question WHERE closed_at IS NULL")?
        .query_row([], |row| row.get(0))?;
    next.map(time).transpose()
}
