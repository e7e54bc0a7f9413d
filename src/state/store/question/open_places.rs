//! The places of the questions that wait for an answer.

use super::super::column::parse;
use super::super::{Store, StoreError, outbox};
use super::QuestionPlace;
use crate::base::model::Op;
use jiff::Timestamp;
use rusqlite::{Row, Transaction};

/// Maximum number of open questions for which an operation is enqueued; the newest count.
const OPEN_PLACES_MAX: u32 = 10_000;

impl Store {
    /// Enqueues an operation for each open question, as `compose` makes it of the place that shows the question. One with
    /// the same id that has ended is replaced. A question that is closed at the same time gets none afterwards, and
    /// one whose own waiting status is still to be sent needs none.
    pub async fn enqueue_for_open_questions(
        &self,
        compose: impl Fn(&QuestionPlace) -> Option<Op> + Send + 'static,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        self.write(move |tx| {
            let ops: Vec<Op> = open_places(tx)?.iter().filter_map(&compose).collect();
            for op in &ops {
                outbox::forget_ended(tx, &op.id)?;
            }
            outbox::enqueue(tx, &ops, at)
        })
        .await
    }
}

fn open_places(tx: &Transaction<'_>) -> Result<Vec<QuestionPlace>, StoreError> {
    let sql = "SELECT post, address FROM question WHERE closed_at IS NULL
                 AND NOT EXISTS (SELECT 1 FROM outbox WHERE op = question.post || '/waits' AND done_at IS NULL)
               ORDER BY id DESC LIMIT ?1";
    let mut statement = tx.prepare_cached(sql)?;
    let places = statement.query_map([OPEN_PLACES_MAX], |row| Ok(place(row)))?;
    // A place that cannot be read hides no other.
    Ok(places.filter_map(|place| place.ok()?.ok()).collect())
}

fn place(row: &Row<'_>) -> Result<QuestionPlace, StoreError> {
    let address: String = row.get(1)?;
    Ok(QuestionPlace {
        post: row.get(0)?,
        ..parse("question", &address)?
    })
}
