//! Tests of the start of a run: one for each event and command, within bounds, and again by a retry.

use super::{advance, begins, claimed, count, created, due, ends_with, new, read, run_turn};
use crate::base::model::{RunId, RunStatus, StepEnd, StepStatus};
use crate::state::store::delivery_name::remember_delivery;
use crate::state::store::fixture::{at, command, ends, fresh, person};
use crate::state::store::run::{
    NewRun, OPEN_RUNS_OF_OWNER_MAX, RUN_BYTES_MAX, RunAdvance, RunChange, RunCreation,
};
use crate::state::store::{DataKind, Prune, PrunePosition};

#[tokio::test]
async fn an_event_starts_one_run_also_after_the_run_was_pruned() {
    let (_directory, store) = fresh();
    let start = |names: &[&str], second| store.create_run(new(names), None, at(second));
    let created = start(&["ci/1", "ci/sha256:0a"], 0).await.unwrap();
    assert_eq!(created, (RunCreation::Created(RunId(1)), Vec::new()));
    let known = (RunCreation::Known(Some(RunId(1))), Vec::new());
    assert_eq!(start(&["ci/1"], 1).await, Ok(known));
    // The other name of the event is kept too.
    let known = start(&["ci/2", "ci/sha256:0a"], 2).await.unwrap().0;
    assert_eq!(known, RunCreation::Known(None));
    let forgotten = store.write(|tx| Ok(tx.execute("DELETE FROM delivery WHERE name = 'ci/1'", [])?));
    assert_eq!(forgotten.await, Ok(1));
    let known = (RunCreation::Known(Some(RunId(1))), Vec::new());
    assert_eq!(start(&["ci/1"], 3).await, Ok(known));
    let again = store.write(|tx| remember_delivery(tx, &["ci/1".to_owned()], at(3)));
    again.await.unwrap();
    let prune = |second| {
        let from = PrunePosition::default();
        let store = store.clone();
        async move {
            let pruned = store.prune_slice(DataKind::Runs, at(second), &from, Prune::Remove, at(500));
            pruned.await.unwrap().rows
        }
    };
    assert_eq!(prune(400).await, 0, "it has not ended");
    advance(&store, RunId(1), ends_with(RunStatus::Succeeded), 10)
        .await
        .unwrap();
    assert_eq!((prune(10).await, prune(11).await), (0, 1));
    assert_eq!(count(&store, "SELECT COUNT(*) FROM run_step").await, 0);
    let known = start(&["ci/1"], 600).await.unwrap().0;
    assert_eq!(known, RunCreation::Known(None));
    // The number of a removed run is not given out again.
    let next = start(&["ci/3"], 601).await.unwrap().0;
    assert_eq!(next, RunCreation::Created(RunId(2)));
}

#[tokio::test]
async fn a_command_that_runs_again_starts_cancels_and_repeats_a_run_once() {
    let (_directory, store) = fresh();
    let asked = command(&store, "run review", "m1", 0).await;
    assert_eq!(store.run_of_command(asked).await, Ok(None));
    for second in [1, 2] {
        let created = store.create_run(new(&[]), Some(asked), at(second)).await.unwrap();
        assert_eq!(created.0, RunCreation::Created(RunId(1)));
    }
    let known = store.run_of_command(asked).await;
    assert_eq!(known, Ok(Some(RunCreation::Created(RunId(1)))));
    let id = RunId(1);
    assert_eq!(
        store.retry_run(id, None, None, at(3)).await.unwrap().0,
        RunCreation::Unfinished
    );
    advance(&store, id, begins(id, 0), 3).await.unwrap();
    run_turn(&store, ends(None), 4).await;
    advance(&store, id, begins(id, 1), 5).await.unwrap();

    let asked = command(&store, "runs cancel 1", "m2", 6).await;
    let cancel = |second| store.cancel_run(id, "alice".to_owned(), Some(asked), at(second));
    let cancelled = cancel(6).await.unwrap();
    assert_eq!(
        (cancelled.outcome, cancelled.stopped.len()),
        (RunChange::Changed, 1)
    );
    assert_eq!(cancel(7).await.unwrap(), cancelled);
    let other = store.cancel_run(id, "bob".to_owned(), None, at(7)).await.unwrap();
    assert_eq!((other.outcome, other.stopped.len()), (RunChange::Unchanged, 0));
    let row = read(&store, id).await;
    assert_eq!(
        (row.head.ended_at, row.head.why.as_deref()),
        (Some(at(6)), Some("cancelled by alice"))
    );
    let statuses: Vec<_> = row.steps.iter().map(|step| step.status).collect();
    assert_eq!(
        statuses,
        [
            StepStatus::Succeeded,
            StepStatus::Cancelled,
            StepStatus::Cancelled
        ]
    );
    // The driver says so once, and the turn that still runs changes nothing.
    assert_eq!(due(&store, 7).await, [1]);
    advance(&store, id, RunAdvance::default(), 7).await.unwrap();
    let (claim, work) = claimed(&store).await;
    assert_eq!(
        (work.is_stopped, claim.conversation),
        (true, cancelled.stopped[0].conversation)
    );
    store
        .dismiss(&claim, work.inbox, Vec::new(), at(8))
        .await
        .unwrap();
    assert_eq!(due(&store, 8).await, Vec::<i64>::new());

    let asked = command(&store, "runs retry 1", "m3", 9).await;
    for second in [9, 10] {
        let retried = store
            .retry_run(id, Some(person("U2")), Some(asked), at(second))
            .await
            .unwrap();
        assert_eq!(retried.0, RunCreation::Created(RunId(2)));
    }
    let row = read(&store, RunId(2)).await;
    assert_eq!((row.head.retry_of, &row.head.owner), (Some(id), &person("U2")));
    assert_eq!((row.place, row.deadline), (new(&[]).place, Some(at(109))));
    let statuses: Vec<_> = row.steps.iter().map(|step| step.status).collect();
    assert_eq!(
        statuses,
        [StepStatus::Succeeded, StepStatus::Waiting, StepStatus::Waiting]
    );
    let end = row.steps[0].end.as_ref().unwrap();
    assert_eq!((end.output.as_str(), end.spent.calls), ("done", 0));
    assert_eq!(
        store.retry_run(RunId(9), None, None, at(11)).await.unwrap().0,
        RunCreation::Gone
    );
    let audited =
        "SELECT COUNT(*) FROM audit WHERE line LIKE '%\"run.started\"%' OR line LIKE '%\"run.ended\"%'";
    assert_eq!(count(&store, audited).await, 3);
}

#[tokio::test]
async fn a_retry_runs_the_steps_after_the_first_failure_again() {
    let (_directory, store) = fresh();
    let steps = ["agent", "agent", "task", "agent", "reply"].iter().enumerate();
    let steps = steps.map(|(index, kind)| (format!("s{index}"), (*kind).to_owned()));
    let run = NewRun {
        steps: steps.collect(),
        ..new(&[])
    };
    let id = created(&store, run, 0).await.head.id;
    let end = vec![
        (0, StepEnd::skipped("its condition was not met")),
        (1, StepEnd::succeeded("a")),
        (2, StepEnd::succeeded("b")),
        (3, StepEnd::failed("c")),
        (4, StepEnd::succeeded("the failure was posted")),
    ];
    let moves = RunAdvance {
        end,
        ..ends_with(RunStatus::Failed)
    };
    advance(&store, id, moves, 1).await.unwrap();
    let (creation, _) = store.retry_run(id, None, None, at(2)).await.unwrap();
    assert_eq!(creation, RunCreation::Created(RunId(2)));
    let waits: Vec<_> = read(&store, RunId(2))
        .await
        .steps
        .iter()
        .map(|step| step.end.is_none())
        .collect();
    assert_eq!(waits, [true, false, false, true, true]);
    advance(&store, RunId(2), ends_with(RunStatus::Succeeded), 3)
        .await
        .unwrap();
    let succeeded = store.retry_run(RunId(2), None, None, at(4)).await.unwrap().0;
    assert_eq!(succeeded, RunCreation::Succeeded);
    let listed = store
        .runs(|head| head.status == RunStatus::Failed, 10)
        .await
        .unwrap();
    assert_eq!(listed.iter().map(|head| head.id.0).collect::<Vec<_>>(), [1]);
    let newest = store.runs(|_| true, 1).await.unwrap();
    assert_eq!(newest.iter().map(|head| head.id.0).collect::<Vec<_>>(), [2]);
}

/// I10
#[tokio::test]
async fn too_many_runs_and_too_large_ones_store_nothing() {
    let (_directory, store) = fresh();
    let start = |new: NewRun| store.create_run(new, None, at(0));
    let large = NewRun {
        inputs: "x".repeat(RUN_BYTES_MAX),
        ..new(&["ci/1"])
    };
    assert_eq!(start(large).await.unwrap().0, RunCreation::TooLarge);
    for _ in 0..OPEN_RUNS_OF_OWNER_MAX {
        created(&store, new(&[]), 0).await;
    }
    assert_eq!(start(new(&["ci/1"])).await.unwrap().0, RunCreation::TooMany);
    let runs = i64::from(OPEN_RUNS_OF_OWNER_MAX);
    assert_eq!(count(&store, "SELECT COUNT(*) FROM run").await, runs);
    // An event that was refused may come again.
    advance(&store, RunId(1), ends_with(RunStatus::Failed), 1)
        .await
        .unwrap();
    let created = start(new(&["ci/1"])).await.unwrap().0;
    assert_eq!(created, RunCreation::Created(RunId(runs + 1)));
}
