//! Tests of runs of one group: they wait, end others or are left out.

use super::{advance, begins, count, created, due, ends_with, grouped, new, read};
use crate::base::model::{RunConflictRule, RunId, RunStatus, StepStatus};
use crate::state::store::fixture::{at, fresh, person};
use crate::state::store::run::creation::SKIPPED_RUNS_MAX;
use crate::state::store::run::{GroupReach, NewRun, RunChange, RunCreation};

#[tokio::test]
async fn a_run_whose_group_is_busy_waits_cancels_the_others_or_is_left_out() {
    let (_directory, store) = fresh();
    let status = async |id: i64| read(&store, RunId(id)).await.head.status;
    for second in 0..3 {
        created(&store, grouped(RunConflictRule::Serial), second).await;
    }
    let waits = read(&store, RunId(2)).await;
    assert_eq!(
        (waits.head.status, waits.head.started_at, waits.deadline),
        (RunStatus::Queued, None, None)
    );
    assert_eq!(due(&store, 1_000).await, [1]);
    let skipped = store
        .create_run(grouped(RunConflictRule::Skip), None, at(4))
        .await
        .unwrap();
    assert_eq!(skipped, (RunCreation::Skipped(RunId(1)), Vec::new()));
    let skipped = read(&store, RunId(4)).await;
    assert_eq!(
        skipped.head.why.as_deref(),
        Some("another run of its group had not ended")
    );
    assert!(
        skipped
            .steps
            .iter()
            .all(|step| step.status == StepStatus::Skipped && step.end.is_some())
    );

    // They begin in order, also after one that waited was cancelled.
    let cancelled = store
        .cancel_run(RunId(2), "alice".to_owned(), None, at(5))
        .await
        .unwrap();
    assert_eq!(
        (cancelled.outcome, cancelled.stopped.len()),
        (RunChange::Changed, 0)
    );
    assert_eq!(status(3).await, RunStatus::Queued);
    advance(&store, RunId(1), ends_with(RunStatus::Failed), 6)
        .await
        .unwrap();
    let next = read(&store, RunId(3)).await;
    assert_eq!(
        (next.head.status, next.head.started_at, next.deadline),
        (RunStatus::Running, Some(at(6)), Some(at(106)))
    );
    assert_eq!(due(&store, 7).await, [2, 3]);

    created(&store, grouped(RunConflictRule::Serial), 8).await;
    advance(&store, RunId(3), begins(RunId(3), 0), 9).await.unwrap();
    let (newest, stopped) = store
        .create_run(grouped(RunConflictRule::Cancel), None, at(10))
        .await
        .unwrap();
    assert_eq!((newest, stopped.len()), (RunCreation::Created(RunId(6)), 1));
    let ended = [status(3).await, status(5).await, status(6).await];
    assert_eq!(
        ended,
        [RunStatus::Cancelled, RunStatus::Cancelled, RunStatus::Running]
    );
    assert_eq!(
        count(&store, "SELECT COUNT(*) FROM run WHERE status = 'running'").await,
        1
    );
}

#[tokio::test]
async fn a_newer_run_ends_only_those_of_its_owner_unless_an_editor_started_it() {
    let (_directory, store) = fresh();
    let of = |owner: &str, reach: GroupReach| NewRun {
        owner: person(owner),
        reach,
        ..grouped(RunConflictRule::Cancel)
    };
    let first = created(&store, of("U1", GroupReach::Own), 0).await.head;
    let waits = created(&store, of("U2", GroupReach::Own), 1).await.head;
    assert_eq!(
        (first.status, waits.status),
        (RunStatus::Running, RunStatus::Queued)
    );
    let status = async |id: i64| read(&store, RunId(id)).await.head.status;
    let newer = created(&store, of("U1", GroupReach::Own), 2).await.head;
    assert_eq!(
        [status(1).await, status(2).await, newer.status],
        [RunStatus::Cancelled, RunStatus::Running, RunStatus::Queued]
    );
    let of_editor = created(&store, of("U3", GroupReach::All), 3).await.head;
    assert_eq!(
        [status(2).await, status(3).await, of_editor.status],
        [RunStatus::Cancelled, RunStatus::Cancelled, RunStatus::Running]
    );
}

/// I10
#[tokio::test]
async fn a_storm_of_skipped_runs_is_bounded_and_none_of_them_is_repeated() {
    let (_directory, store) = fresh();
    created(&store, grouped(RunConflictRule::Serial), 0).await;
    for event in 0..=SKIPPED_RUNS_MAX {
        let skipped = NewRun {
            deliveries: vec![format!("ci/{event}")],
            ..grouped(RunConflictRule::Skip)
        };
        let skipped = store.create_run(skipped, None, at(1)).await.unwrap().0;
        assert_eq!(skipped, RunCreation::Skipped(RunId(1)));
    }
    let recorded = "SELECT COUNT(*) FROM run WHERE status = 'skipped' AND plan = 'null' AND inputs = 'null'";
    assert_eq!(count(&store, recorded).await, i64::from(SKIPPED_RUNS_MAX));
    // One that is not recorded is not started later either.
    let last = new(&[&format!("ci/{SKIPPED_RUNS_MAX}")]);
    let known = store.create_run(last, None, at(2)).await.unwrap().0;
    assert_eq!(known, RunCreation::Known(None));
    let retried = store.retry_run(RunId(2), None, None, at(3)).await.unwrap().0;
    assert_eq!(retried, RunCreation::NotKept);
}
