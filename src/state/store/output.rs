//! Outputs: the whole texts of tool results that were shortened. They are stored with the step that has the results,
//! belong to its conversation and are removed with its message.

use super::conversation::require_row;
use super::{Store, StoreError};
use crate::base::model::{ConversationId, OutputNumber, StoredOutput, TurnId};
use rusqlite::{OptionalExtension, Transaction, params};

/// Bytes of the outputs of one conversation. Beyond that the oldest ones are removed.
const OUTPUTS_BYTES_MAX: i64 = 64 << 20;

/// Removes the oldest outputs of a conversation that has too many bytes of them.
const REMOVE_OLDEST: &str = "DELETE FROM output WHERE conversation = ?1 AND number <= (
    SELECT MAX(number) FROM (
        SELECT number, SUM(octet_length(text)) OVER (ORDER BY number DESC) AS kept
        FROM output WHERE conversation = ?1)
    WHERE kept > ?2)";

impl Store {
    /// Returns the text of an output of a conversation. `None` if it never existed, was removed, or comes from before
    /// the last clear.
    pub async fn output(
        &self,
        conversation: ConversationId,
        number: OutputNumber,
    ) -> Result<Option<String>, StoreError> {
        self.read(move |tx| {
            let text = tx
                .prepare_cached(
                    "SELECT text FROM output JOIN conversation ON conversation.id = output.conversation
                     WHERE output.conversation = ?1 AND number = ?2 AND turn > cleared_turn",
                )?
                .query_row(params![conversation.0, number.0], |row| row.get(0))
                .optional()?;
            Ok(text)
        })
        .await
    }
}

/// Stores the outputs of a step. Their numbers are never used again, also after they were removed.
pub(super) fn insert(
    tx: &Transaction<'_>,
    conversation: ConversationId,
    turn: TurnId,
    outputs: &[StoredOutput],
) -> Result<(), StoreError> {
    let Some(last) = outputs.last() else {
        return Ok(());
    };
    for output in outputs {
        tx.prepare_cached("INSERT INTO output (conversation, number, turn, text) VALUES (?1, ?2, ?3, ?4)")?
            .execute(params![conversation.0, output.number.0, turn.0, output.text])?;
    }
    let counted = tx
        .prepare_cached("UPDATE conversation SET last_output = ?2 WHERE id = ?1")?
        .execute(params![conversation.0, last.number.0])?;
    require_row(counted, conversation)?;
    tx.prepare_cached(REMOVE_OLDEST)?
        .execute(params![conversation.0, OUTPUTS_BYTES_MAX])?;
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::OUTPUTS_BYTES_MAX;
    use crate::base::model::{ConversationId, OutputNumber, StoredOutput};
    use crate::state::store::fixture::{answer, at, begin, claim as claim_next, cost, fresh};
    use crate::state::store::{Claim, StepEffects, Store, TurnStart};

    fn outputs(texts: &[(i64, String)]) -> StepEffects {
        let outputs = texts.iter().map(|(number, text)| StoredOutput {
            number: OutputNumber(*number),
            text: text.clone(),
        });
        StepEffects {
            outputs: outputs.collect(),
            ..StepEffects::default()
        }
    }

    async fn read(store: &Store, conversation: ConversationId, number: i64) -> Option<String> {
        store.output(conversation, OutputNumber(number)).await.unwrap()
    }

    async fn last_output(store: &Store, claim: &Claim) -> OutputNumber {
        let work = store.work(claim, 40, usize::MAX).await.unwrap().unwrap();
        work.conversation.last_output
    }

    #[tokio::test]
    async fn an_output_is_stored_with_its_step_and_read_in_its_conversation_only() {
        let (directory, store) = fresh();
        let (claim, inbox, turn) = begin(&store, "U1", 0).await;
        let (other, ..) = begin(&store, "U2", 1).await;
        assert_eq!(last_output(&store, &claim).await, OutputNumber(0));
        let effects = outputs(&[(1, "first".to_owned()), (2, "second".to_owned())]);
        store
            .record_step(
                &claim,
                turn,
                &answer("x").with_remark("go on").unwrap(),
                &cost(1),
                effects,
                at(0),
            )
            .await
            .unwrap();
        assert_eq!(last_output(&store, &claim).await, OutputNumber(2));
        for (number, text) in [(1, Some("first")), (2, Some("second")), (3, None), (0, None)] {
            assert_eq!(read(&store, claim.conversation, number).await.as_deref(), text);
            assert_eq!(read(&store, other.conversation, number).await, None);
        }
        // A fenced step leaves no output.
        let stale = Claim { fence: 0, ..claim };
        let late = outputs(&[(3, "late".to_owned())]);
        let refused = store
            .record_step(&stale, turn, &answer("x"), &cost(1), late, at(0))
            .await;
        assert!(refused.is_err());
        assert_eq!(read(&store, claim.conversation, 3).await, None);
        // It survives a restart, and is forgotten with the conversation.
        drop(store);
        let store = Store::open(directory.path()).unwrap();
        assert_eq!(
            read(&store, claim.conversation, 2).await.as_deref(),
            Some("second")
        );
        let worker = claim_next(&store, "w2").await.unwrap();
        assert_eq!(worker.conversation, claim.conversation);
        let forgets = TurnStart {
            forgets: true,
            ..TurnStart::quiet("again")
        };
        store.begin_turn(&worker, inbox, forgets, at(2)).await.unwrap();
        assert_eq!(read(&store, claim.conversation, 2).await, None);
        assert_eq!(last_output(&store, &worker).await, OutputNumber(2));
    }

    #[tokio::test]
    async fn a_conversation_keeps_a_bounded_number_of_bytes_the_newest_ones() {
        let (_directory, store) = fresh();
        let (claim, _, turn) = begin(&store, "U1", 0).await;
        let quarter = "x".repeat(usize::try_from(OUTPUTS_BYTES_MAX).unwrap() / 4);
        for number in 1..=6 {
            let step = answer("x").with_remark("go on").unwrap();
            let effects = outputs(&[(number, quarter.clone())]);
            store
                .record_step(&claim, turn, &step, &cost(1), effects, at(0))
                .await
                .unwrap();
        }
        let mut kept = Vec::new();
        for number in 1..=6 {
            kept.push(read(&store, claim.conversation, number).await.is_some());
        }
        assert_eq!(kept, [false, false, true, true, true, true]);
    }
}
