//! The address for answers to the command that started a run. It is kept beside that of the command, whose answers end long
//! before those of the run, and as long as the platform accepts it.

use crate::base::model::{InboxId, ResponseUrl, RunId};
use crate::state::store::column::{millis, time};
use crate::state::store::{Store, StoreError};
use jiff::Timestamp;
use rusqlite::{OptionalExtension, Transaction, params};

impl Store {
    /// Returns the address for answers to the command that started a run, while it is accepted.
    pub async fn run_response_url(
        &self,
        id: RunId,
        at: Timestamp,
    ) -> Result<Option<ResponseUrl>, StoreError> {
        self.read(move |tx| {
            let found: Option<(String, i64)> = tx
                .prepare_cached(
                    "SELECT url, expires_at FROM response_url WHERE answers = ?1 AND expires_at > ?2",
                )?
                .query_row(params![key(id), millis(at)], |row| row.try_into())
                .optional()?;
            let url = found.map(|(address, expires_at)| {
                Ok::<_, StoreError>(ResponseUrl::new(address, time(expires_at)?))
            });
            url.transpose()
        })
        .await
    }
}

/// Keeps the address of a command for the run that it starts.
pub(super) fn keep(tx: &Transaction<'_>, run: RunId, command: InboxId) -> Result<(), StoreError> {
    keep_from(tx, run, &command.op_id_prefix())
}

/// Keeps the address of a run for the run of the same person that repeats it.
pub(super) fn keep_for_repetition(tx: &Transaction<'_>, run: RunId, of: RunId) -> Result<(), StoreError> {
    keep_from(tx, run, &key(of))
}

fn keep_from(tx: &Transaction<'_>, run: RunId, answers: &str) -> Result<(), StoreError> {
    tx.prepare_cached(
        "INSERT INTO response_url (answers, url, expires_at, person)
         SELECT ?1, url, expires_at, person FROM response_url WHERE answers = ?2
         ON CONFLICT (answers) DO NOTHING",
    )?
    .execute(params![key(run), answers])?;
    Ok(())
}

/// Returns the name of the row. No operation has a name that begins so, so none of them drops it.
fn key(run: RunId) -> String {
    format!("run-{run}/response")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{keep, keep_for_repetition};
    use crate::base::model::{Action, InboxId, Op, Reply, ResponseUrl, RunId};
    use crate::state::store::Store;
    use crate::state::store::fixture::{at, person, place, post};

    #[tokio::test]
    async fn the_address_of_a_command_outlives_its_answers_and_ends_with_its_time() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let url = ResponseUrl::new(
            "https://hooks.slack.com/commands/T1/1/CANARY".to_owned(),
            at(1_800),
        );
        let answer = |id: &str| Op {
            place: place(None),
            action: Action::Respond {
                to: person("alice"),
                reply: Reply::text("x"),
            },
            response_url: Some(url.clone()),
            ..post(id, None, "x")
        };
        store
            .enqueue(vec![answer("inbox-7/answer")], at(0))
            .await
            .unwrap();
        store.write(|tx| keep(tx, RunId(3), InboxId(7))).await.unwrap();
        store
            .record_delivered("inbox-7/answer", None, at(1))
            .await
            .unwrap();
        assert_eq!(
            store.run_response_url(RunId(3), at(1_799)).await.unwrap(),
            Some(url.clone())
        );
        // A reply of the run has it too, and its delivery drops only its own.
        store
            .enqueue(vec![answer("run-3-1/reply-1")], at(2))
            .await
            .unwrap();
        let due = store.lease_due("slack", at(3), 1).await.unwrap().remove(0);
        assert_eq!(due.op.response_url, Some(url.clone()));
        store
            .record_delivered("run-3-1/reply-1", None, at(3))
            .await
            .unwrap();
        // A repetition has it as well, and no longer.
        store
            .write(|tx| keep_for_repetition(tx, RunId(5), RunId(3)))
            .await
            .unwrap();
        for (seconds, expected) in [(1_799, Some(url.clone())), (1_800, None)] {
            assert_eq!(
                store.run_response_url(RunId(5), at(seconds)).await.unwrap(),
                expected
            );
        }
        assert_eq!(store.run_response_url(RunId(3), at(4)).await.unwrap(), Some(url));
        assert_eq!(store.run_response_url(RunId(3), at(1_800)).await.unwrap(), None);
        assert_eq!(store.run_response_url(RunId(4), at(4)).await.unwrap(), None);
        // A command without an address gives none.
        store.write(|tx| keep(tx, RunId(4), InboxId(8))).await.unwrap();
        assert_eq!(store.run_response_url(RunId(4), at(4)).await.unwrap(), None);
    }
}
