//! The end of a run that can never go on, such as one that this version cannot read.

use super::{cancel, group};
use crate::base::model::{ChatPlace, Op, RunId, RunStatus, Sender};
use crate::state::store::column::{millis, parse, parse_word, word};
use crate::state::store::{StoppedWork, Store, StoreError, audit_in, outbox, schedule};
use jiff::Timestamp;
use rusqlite::{OptionalExtension, Row, Transaction, params};

/// The facts that the message of a run needs to show its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunMessage {
    /// The name of the pipeline.
    pub pipeline: String,
    /// The repository.
    pub repository: String,
    /// The account for which its work runs.
    pub owner: Sender,
    /// The kind of the trigger and its name, such as `hook ci`.
    pub trigger: String,
    /// The channel of the message.
    pub channel: String,
    /// The place of the message.
    pub place: ChatPlace,
    /// The number of changes of the run and its steps.
    pub version: i64,
    /// The end of the run, with its reason, if it has ended.
    pub end: Option<(RunStatus, Option<String>)>,
}

impl Store {
    /// Returns the facts for the message of a run; `None` if it has no message, or if one of them is not readable.
    pub async fn run_message(&self, id: RunId) -> Result<Option<RunMessage>, StoreError> {
        self.read(move |tx| {
            let message = tx
                .prepare_cached(
                    "SELECT pipeline, repository, owner, channel, place, version, status, why, ended_at IS NOT NULL,
                       started_by FROM run WHERE id = ?1",
                )?
                .query_row([id.0], |row| Ok(message(row)))
                .optional()?;
            Ok(message.flatten())
        })
        .await
    }

    /// Ends a run as failed for this reason, and returns the work that is stopped. Nothing of the run is parsed, and the
    /// driver does not look at it again. `shown` are the operations that show its end, and the version of the run for which
    /// they were composed. If it has another one by now, nothing is stored, `None` is returned, and the driver looks at it
    /// again.
    pub async fn abandon_run(
        &self,
        id: RunId,
        why: &'static str,
        shown: Option<(i64, Vec<Op>)>,
        at: Timestamp,
    ) -> Result<Option<Vec<StoppedWork>>, StoreError> {
        self.write(move |tx| {
            let (version, ops) = shown.unzip();
            match has_version(tx, id, version)? {
                true => abandon(tx, id, why, &ops.unwrap_or_default(), at).map(Some),
                false => Ok(None),
            }
        })
        .await
    }
}

fn message(row: &Row<'_>) -> Option<RunMessage> {
    let end = match row.get(8).ok()? {
        true => Some((parse_word("run", row.get(6).ok()?).ok()?, row.get(7).ok()?)),
        false => None,
    };
    Some(RunMessage {
        pipeline: row.get(0).ok()?,
        repository: row.get(1).ok()?,
        owner: parse("sender", &row.get::<_, String>(2).ok()?).ok()?,
        trigger: row.get(9).ok()?,
        channel: row.get(3).ok()?,
        place: parse("place", &row.get::<_, String>(4).ok()?).ok()?,
        version: row.get(5).ok()?,
        end,
    })
}

/// Returns true if a run has this version, or if none is given.
fn has_version(tx: &Transaction<'_>, id: RunId, version: Option<i64>) -> Result<bool, StoreError> {
    let Some(version) = version else { return Ok(true) };
    let has_version = tx
        .prepare_cached("SELECT 1 FROM run WHERE id = ?1 AND version = ?2")?
        .exists([id.0, version])?;
    Ok(has_version)
}

fn abandon(
    tx: &Transaction<'_>,
    id: RunId,
    why: &str,
    shown: &[Op],
    at: Timestamp,
) -> Result<Vec<StoppedWork>, StoreError> {
    tx.prepare_cached("UPDATE run SET due = 0, version = version + 1 WHERE id = ?1")?
        .execute([id.0])?;
    let stopped = cancel::cancel_steps(tx, id, why, None, at)?;
    outbox::enqueue(tx, shown, at)?;
    let ended: Option<(Option<String>, Option<String>)> = tx
        .prepare_cached(
            "UPDATE run SET status = ?2, why = ?3, ended_at = ?4 WHERE id = ?1 AND ended_at IS NULL
             RETURNING concurrency_group, event",
        )?
        .query_row(params![id.0, word(&RunStatus::Failed)?, why, millis(at)], |row| {
            row.try_into()
        })
        .optional()?;
    if let Some((group, event)) = ended {
        let data = serde_json::json!({ "run": id, "status": RunStatus::Failed, "why": why });
        audit_in(tx, "run.ended", data, at)?;
        schedule::end_fire_of_run(tx, event.as_deref(), RunStatus::Failed, at)?;
        if let Some(group) = group {
            group::start_next(tx, &group, at)?;
        }
    }
    Ok(stopped)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::base::model::{RunId, RunStatus};
    use crate::state::store::fixture::{at, fresh, new_run, place, post};
    use crate::state::store::{NewRun, Store};

    const RUN: RunId = RunId(1);

    async fn start(store: &Store) {
        let new = NewRun {
            place: Some(("slack".to_owned(), place(None))),
            ..new_run(&[("look", "agent")])
        };
        store.create_run(new, None, at(0)).await.unwrap();
    }

    async fn posted(store: &Store) -> i64 {
        let counted = store.read(|tx| Ok(tx.query_row("SELECT COUNT(*) FROM outbox", [], |row| row.get(0))?));
        counted.await.unwrap()
    }

    async fn status(store: &Store) -> RunStatus {
        store.run(RUN).await.unwrap().unwrap().head.status
    }

    #[tokio::test]
    async fn a_run_is_abandoned_with_the_edit_of_its_message_unless_it_has_changed() {
        let (_directory, store) = fresh();
        start(&store).await;
        let message = store.run_message(RUN).await.unwrap().unwrap();
        let channel_and_trigger = (message.channel.as_str(), message.trigger.as_str());
        assert_eq!((channel_and_trigger, &message.end), (("slack", "chat"), &None));
        let shown = |version| Some((version, vec![post("run-1/message/0", None, "It has ended.")]));
        for (version, stopped, status_then, posted_then) in [
            (message.version + 1, None, RunStatus::Running, 0),
            (message.version, Some(Vec::new()), RunStatus::Failed, 1),
        ] {
            let abandoned = store.abandon_run(RUN, "it is broken", shown(version), at(1));
            assert_eq!(abandoned.await, Ok(stopped));
            assert_eq!(
                (status(&store).await, posted(&store).await),
                (status_then, posted_then)
            );
        }
        let ended = store.run_message(RUN).await.unwrap().unwrap();
        let end = (RunStatus::Failed, Some("it is broken".to_owned()));
        assert_eq!(ended.end, Some(end));
        store
            .write(|tx| Ok(tx.execute("UPDATE run SET place = '{'", [])?))
            .await
            .unwrap();
        assert_eq!(store.run_message(RUN).await, Ok(None));
    }

    #[tokio::test]
    async fn a_run_without_a_readable_message_is_abandoned_as_well() {
        let (_directory, store) = fresh();
        start(&store).await;
        store.abandon_run(RUN, "it is broken", None, at(1)).await.unwrap();
        assert_eq!(status(&store).await, RunStatus::Failed);
    }
}
