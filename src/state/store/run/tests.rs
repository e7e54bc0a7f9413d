//! Tests of runs and their steps in the store.

use super::advance::apply;
use super::creation::{SKIPPED_RUNS_MAX, create};
use super::turn_end::{StoredEnd, judged};
use super::{
    GroupReach, NewRun, OPEN_RUNS_OF_OWNER_MAX, RUN_BYTES_MAX, RunAdvance, RunChange, RunCreation, RunRow,
    StepBegin,
};
use crate::base::model::{
    ChatPlace, Inbound, RunConflictRule, RunId, RunStatus, Sender, StepEnd, StepStatus, UserId, Verdict,
    VerdictSource,
};
use crate::state::store::delivery_name::remember_delivery;
use crate::state::store::fixture::{
    AnswerDraft, EndDraft, at, claim, command, cost, ends, fresh, patch, person, place, post, says,
};
use crate::state::store::people::{add_person, revoke};
use crate::state::store::{
    Claim, ClaimedWork, DataKind, Prune, PrunePosition, StoppedWork, Store, StoreError, TurnStart,
};
use std::time::Duration;

/// Returns a run of two agent steps and a reply, which may last 100 seconds.
fn new(deliveries: &[&str]) -> NewRun {
    let step = |name: &str, kind: &str| (name.to_owned(), kind.to_owned());
    NewRun {
        pipeline: "review".to_owned(),
        repository: "infra".to_owned(),
        owner: person("U1"),
        trigger: "chat".to_owned(),
        deliveries: deliveries.iter().map(|name| (*name).to_owned()).collect(),
        group: None,
        on_conflict: RunConflictRule::Serial,
        reach: GroupReach::All,
        place: Some(("slack".to_owned(), place(Some("1.0")))),
        commit: "0".repeat(40),
        plan: "{}".to_owned(),
        inputs: "{}".to_owned(),
        steps: vec![
            step("look", "agent"),
            step("judge", "agent"),
            step("tell", "reply"),
        ],
        timeout: Duration::from_secs(100),
    }
}

async fn created(store: &Store, new: NewRun, second: i64) -> RunRow {
    match store.create_run(new, None, at(second)).await.unwrap().0 {
        RunCreation::Created(id) => read(store, id).await,
        other => panic!("{other:?}"),
    }
}

async fn read(store: &Store, id: RunId) -> RunRow {
    store.run(id).await.unwrap().unwrap()
}

/// Returns the message of an agent step.
fn message(run: RunId, step: usize) -> Inbound {
    Inbound {
        place: ChatPlace {
            thread: Some(format!("{run}:{step}")),
            ..place(None)
        },
        ..says("U1", "please", &[&format!("run:{run}:{step}")])
    }
}

fn begins(run: RunId, step: usize) -> RunAdvance {
    RunAdvance {
        begin: vec![(step, StepBegin::Message(Box::new(message(run, step))))],
        ..RunAdvance::default()
    }
}

fn ends_with(status: RunStatus) -> RunAdvance {
    RunAdvance {
        finish: Some((status, None)),
        ..RunAdvance::default()
    }
}

async fn advance(store: &Store, id: RunId, moves: RunAdvance, second: i64) -> Option<Vec<StoppedWork>> {
    let version = read(store, id).await.version;
    store.advance_run(id, version, moves, at(second)).await.unwrap()
}

async fn due(store: &Store, second: i64) -> Vec<i64> {
    let runs = store.open_runs(at(second), 10).await.unwrap();
    runs.into_iter().map(|id| id.0).collect()
}

async fn count(store: &Store, sql: &'static str) -> i64 {
    let counted = store.read(move |tx| Ok(tx.query_row(sql, [], |row| row.get(0))?));
    counted.await.unwrap()
}

/// Claims the message that waits.
async fn claimed(store: &Store) -> (Claim, ClaimedWork) {
    let claim = claim(store, "w1").await.unwrap();
    let work = store.work(&claim, 40, usize::MAX).await.unwrap().unwrap();
    (claim, work)
}

/// Runs the turn of the message that waits, with one model call.
async fn run_turn(store: &Store, draft: AnswerDraft, second: i64) {
    let (claim, work) = claimed(store).await;
    let begun = store.begin_turn(&claim, work.inbox, TurnStart::quiet("please"), at(second));
    let turn = begun.await.unwrap().turn;
    let draft = AnswerDraft {
        cost: Some(cost(5)),
        ..draft
    };
    store
        .finish_composed(
            &claim,
            turn,
            UserId(1),
            move |_| EndDraft::Answered(Box::new(draft)),
            at(second),
        )
        .await
        .unwrap();
    store.release(&claim).await.unwrap();
}

#[tokio::test]
async fn the_end_of_the_turn_ends_the_step_with_its_words_its_change_and_its_cost() {
    let (_directory, store) = fresh();
    let run = created(&store, new(&[]), 0).await;
    let id = run.head.id;
    assert_eq!(
        (run.head.status, run.head.started_at, run.deadline),
        (RunStatus::Running, Some(at(0)), Some(at(100)))
    );
    assert_eq!(store.next_run_deadline().await, Ok(Some(at(100))));
    assert_eq!(due(&store, 0).await, [id.0]);
    assert_eq!(advance(&store, id, begins(id, 0), 1).await, Some(Vec::new()));
    assert_eq!(due(&store, 1).await, Vec::<i64>::new());
    let begun = read(&store, id).await;
    let step = &begun.steps[0];
    assert_eq!(
        (
            step.status,
            step.started_at,
            step.inbox.is_some(),
            step.end.is_none()
        ),
        (StepStatus::Running, Some(at(1)), true, true)
    );

    run_turn(&store, ends(patch("+x")), 2).await;
    let ended = read(&store, id).await;
    let step = &ended.steps[0];
    let end = step.end.as_ref().unwrap();
    assert_eq!((step.status, step.ended_at), (StepStatus::Succeeded, Some(at(2))));
    assert_eq!((end.output.as_str(), end.why.as_deref()), ("done", None));
    assert_eq!((end.spent.calls, end.spent.tokens), (1, 6));
    assert_eq!(
        end.verdict.zip(end.verdict_source),
        Some((Verdict::Pass, VerdictSource::Verified))
    );
    assert_eq!(step.change.map(|number| number.0), Some(1));
    assert_eq!(due(&store, 2).await, [id.0]);

    // A reply is posted and has ended at once, and the run ends with it.
    let reply = RunAdvance {
        begin: vec![(2, StepBegin::Ops(vec![post("run-1-2", None, "x")]))],
        end: vec![
            (1, StepEnd::skipped("its condition was not met")),
            (2, StepEnd::succeeded("")),
        ],
        ops: vec![post("run-1/message", None, "done")],
        finish: Some((RunStatus::Succeeded, None)),
    };
    assert_eq!(advance(&store, id, reply, 3).await, Some(Vec::new()));
    let ended = read(&store, id).await;
    assert_eq!(
        (ended.head.status, ended.head.ended_at),
        (RunStatus::Succeeded, Some(at(3)))
    );
    assert_eq!(due(&store, 1_000).await, Vec::<i64>::new());
    assert_eq!(store.next_run_deadline().await, Ok(None));
    assert_eq!(
        count(&store, "SELECT COUNT(*) FROM outbox WHERE op LIKE 'run-%'").await,
        2
    );
    let ends = store.end_step(id, 1, StepEnd::failed("too late"), at(4));
    assert_eq!(ends.await, Ok(false));
}

#[tokio::test]
async fn a_start_or_a_move_that_a_crash_cuts_short_leaves_nothing_and_comes_again() {
    let (_directory, store) = fresh();
    let broken = store.write(|tx| {
        let created = create(tx, &new(&["ci/1"]), None, at(0))?;
        assert_eq!(created.0, RunCreation::Created(RunId(1)));
        Err::<(), _>(StoreError::Failed("cut short".to_owned()))
    });
    assert!(broken.await.is_err());
    for table in [
        "SELECT COUNT(*) FROM run",
        "SELECT COUNT(*) FROM run_step",
        "SELECT COUNT(*) FROM delivery",
        "SELECT COUNT(*) FROM audit",
    ] {
        assert_eq!(count(&store, table).await, 0, "{table}");
    }
    let run = created(&store, new(&["ci/1"]), 1).await;
    let (id, version, pepper) = (run.head.id, run.version, store.pepper());
    let broken = store.write(move |tx| {
        let stored = apply(tx, (id, version), begins(id, 0), pepper, at(2))?;
        assert_eq!(stored, Some(Vec::new()));
        Err::<(), _>(StoreError::Failed("cut short".to_owned()))
    });
    assert!(broken.await.is_err());
    assert_eq!(read(&store, id).await, run);
    assert_eq!(count(&store, "SELECT COUNT(*) FROM inbox").await, 0);
    assert_eq!(advance(&store, id, begins(id, 0), 3).await, Some(Vec::new()));
    assert_eq!(count(&store, "SELECT COUNT(*) FROM inbox").await, 1);
}

#[tokio::test]
async fn a_new_process_looks_at_the_runs_whose_tasks_ran_and_at_no_other() {
    let (_directory, store) = fresh();
    let step = |kind: &str| vec![("lint".to_owned(), kind.to_owned())];
    let with = |kind: &str| NewRun {
        steps: step(kind),
        ..new(&[])
    };
    let begins = || RunAdvance {
        begin: vec![(0, StepBegin::Nothing)],
        ..RunAdvance::default()
    };
    let (task, agent) = (
        created(&store, with("task"), 0).await.head.id,
        created(&store, with("agent"), 0).await.head.id,
    );
    let waiting = created(&store, with("task"), 0).await.head.id;
    for id in [task, agent] {
        assert_eq!(advance(&store, id, begins(), 1).await, Some(Vec::new()));
    }
    assert_eq!(
        advance(&store, waiting, RunAdvance::default(), 1).await,
        Some(Vec::new())
    );
    assert_eq!(due(&store, 2).await, Vec::<i64>::new());
    store.look_at_running_tasks().await.unwrap();
    assert_eq!(due(&store, 2).await, [task.0]);
    // The end of the task is stored once, and the driver looks at its run.
    assert!(advance(&store, task, RunAdvance::default(), 3).await.is_some());
    let end = |text: &str| store.end_step(task, 0, StepEnd::succeeded(text), at(4));
    assert_eq!((end("done").await, end("again").await), (Ok(true), Ok(false)));
    assert_eq!(due(&store, 5).await, [task.0]);
    assert_eq!(
        read(&store, task).await.steps[0].end,
        Some(StepEnd::succeeded("done"))
    );
}

#[tokio::test]
async fn moves_for_an_earlier_version_of_a_run_store_nothing() {
    let (_directory, store) = fresh();
    let run = created(&store, new(&[]), 0).await;
    let id = run.head.id;
    assert_eq!(
        store.end_step(id, 1, StepEnd::failed("no answer"), at(1)).await,
        Ok(true)
    );
    assert_eq!(
        store.end_step(id, 1, StepEnd::failed("again"), at(1)).await,
        Ok(false)
    );
    let late = store.advance_run(id, run.version, begins(id, 0), at(2));
    assert_eq!(late.await, Ok(None));
    assert_eq!(count(&store, "SELECT COUNT(*) FROM inbox").await, 0);
    // A step begins once, whatever the driver decides.
    assert!(advance(&store, id, begins(id, 0), 2).await.is_some());
    let version = read(&store, id).await.version;
    let again = store.advance_run(id, version, begins(id, 0), at(3)).await;
    assert_eq!(
        again,
        Err(StoreError::NotFound("waiting step 0 of run 1".to_owned()))
    );
    assert_eq!(read(&store, id).await.version, version);
    // After its end only its message may be sent.
    advance(&store, id, ends_with(RunStatus::Failed), 4)
        .await
        .unwrap();
    assert_eq!(
        advance(&store, id, ends_with(RunStatus::Succeeded), 5).await,
        None
    );
    let told = RunAdvance {
        ops: vec![post("run-1/message", None, "x")],
        ..RunAdvance::default()
    };
    assert_eq!(advance(&store, id, told, 6).await, Some(Vec::new()));
    assert_eq!(read(&store, id).await.head.status, RunStatus::Failed);
}

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

fn grouped(on_conflict: RunConflictRule) -> NewRun {
    NewRun {
        group: Some("infra/deploy".to_owned()),
        on_conflict,
        ..new(&[])
    }
}

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

/// T06
#[tokio::test]
async fn the_runs_of_a_revoked_person_are_cancelled_with_their_work() {
    let (_directory, store) = fresh();
    let grant = ("editor".to_owned(), "*".to_owned(), vec!["**".to_owned()]);
    let added = store.write(move |tx| add_person(tx, "alice", "operator", &person("U1"), &grant, at(0)));
    let user = added.await.unwrap();
    for second in 0..2 {
        created(&store, grouped(RunConflictRule::Serial), second).await;
    }
    let other = NewRun {
        owner: Sender::of_hook("ci"),
        ..grouped(RunConflictRule::Serial)
    };
    created(&store, other, 2).await;
    advance(&store, RunId(1), begins(RunId(1), 0), 3).await.unwrap();
    assert_eq!(
        read(&store, RunId(1)).await.head.owner_name.as_deref(),
        Some("alice")
    );
    store.write(move |tx| revoke(tx, user, at(4))).await.unwrap();
    let heads = store.runs(|_| true, 10).await.unwrap();
    let statuses: Vec<_> = heads.iter().map(|head| head.status).collect();
    assert_eq!(
        statuses,
        [RunStatus::Running, RunStatus::Cancelled, RunStatus::Cancelled]
    );
    assert_eq!(
        heads[2].why.as_deref(),
        Some("the access of its owner was revoked")
    );
    let stopped = "SELECT COUNT(*) FROM inbox WHERE stopped_by IS NOT NULL";
    assert_eq!(count(&store, stopped).await, 1);
}

#[tokio::test]
async fn an_unreadable_run_is_ended_without_being_read_and_hides_no_other() {
    let (_directory, store) = fresh();
    let id = created(&store, grouped(RunConflictRule::Serial), 0).await.head.id;
    let next = created(&store, grouped(RunConflictRule::Serial), 0).await.head.id;
    let healthy = created(&store, new(&[]), 0).await.head.id;
    advance(&store, id, begins(id, 0), 1).await.unwrap();
    let spoiled = store.write(move |tx| {
        tx.execute(
            "UPDATE run SET owner = 'odd', place = 'odd', due = 1 WHERE id = ?1",
            [id.0],
        )?;
        tx.execute(
            "UPDATE run_step SET status = 'odd' WHERE run = ?1 AND step = 1",
            [id.0],
        )?;
        Ok(())
    });
    spoiled.await.unwrap();
    let unreadable = store.run(id).await.err().unwrap();
    assert!(
        matches!(unreadable, StoreError::Unreadable { .. }) && !unreadable.may_pass(),
        "{unreadable:?}"
    );
    let listed = store.runs(|_| true, 10).await.unwrap();
    let ids: Vec<_> = listed.iter().map(|head| head.id).collect();
    assert_eq!(ids, [healthy, next]);
    assert_eq!(due(&store, 1).await, [id.0, healthy.0]);

    let stopped = store
        .abandon_run(id, "it cannot be read", None, at(2))
        .await
        .unwrap();
    assert_eq!(stopped.map(|stopped| stopped.len()), Some(1));
    // The next run of its group begins, and the driver is done with this one.
    assert_eq!(due(&store, 2).await, [next.0, healthy.0]);
    assert_eq!(read(&store, next).await.head.status, RunStatus::Running);
    let ended = "SELECT COUNT(*) FROM run WHERE status = 'failed' AND why = 'it cannot be read' AND ended_at IS NOT NULL";
    assert_eq!(count(&store, ended).await, 1);
    let steps = "SELECT COUNT(*) FROM run_step WHERE status = 'cancelled' AND ended_at IS NOT NULL";
    assert_eq!(count(&store, steps).await, 3);
    let again = store
        .abandon_run(id, "it cannot be read", None, at(3))
        .await
        .unwrap();
    assert_eq!(again, Some(Vec::new()));
    let audited = "SELECT COUNT(*) FROM audit WHERE line LIKE '%\"run.ended\"%'";
    assert_eq!(count(&store, audited).await, 1);
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

#[tokio::test]
async fn a_step_fails_with_the_reason_for_which_its_turn_did_not_begin_or_left_no_change() {
    let (_directory, store) = fresh();
    let id = created(&store, new(&[]), 0).await.head.id;
    let end = async |step: usize| read(&store, id).await.steps[step].end.clone().unwrap();
    advance(&store, id, begins(id, 0), 1).await.unwrap();
    let (claim, work) = claimed(&store).await;
    let refused = store.refuse_step(&claim, work.inbox, "no such model".to_owned(), at(2));
    assert_eq!(refused.await, Ok(()));
    store.release(&claim).await.unwrap();
    assert_eq!(end(0).await, StepEnd::failed("no such model"));
    assert_eq!(due(&store, 2).await, [id.0]);

    advance(&store, id, begins(id, 1), 3).await.unwrap();
    let draft = AnswerDraft {
        withheld: Some("it needs a grant for prod".to_owned()),
        ..ends(patch("+x"))
    };
    run_turn(&store, draft, 4).await;
    let withheld = end(1).await;
    assert_eq!(
        (withheld.status, withheld.why.as_deref()),
        (StepStatus::Failed, Some("it needs a grant for prod"))
    );
    assert_eq!(read(&store, id).await.steps[1].change, None);

    // A step that ran out of time is stopped.
    advance(&store, id, begins(id, 2), 5).await.unwrap();
    assert_eq!(due(&store, 100).await, [id.0]);
    let over = RunAdvance {
        end: vec![(2, StepEnd::failed("its time was over"))],
        ..ends_with(RunStatus::Failed)
    };
    assert_eq!(
        advance(&store, id, over, 100).await.map(|stopped| stopped.len()),
        Some(1)
    );
    let (claim, work) = claimed(&store).await;
    assert!(work.is_stopped);
    store
        .dismiss(&claim, work.inbox, Vec::new(), at(101))
        .await
        .unwrap();
    assert_eq!(end(2).await, StepEnd::failed("its time was over"));
}

#[test]
fn a_step_is_judged_by_the_verdict_on_its_turn() {
    let (words, failed) = (Some("words"), StepStatus::Failed);
    let limit = Some("It reached 2 steps.");
    for (verdict, source, notice, status, output, why) in [
        (
            Verdict::Pass,
            VerdictSource::Concluded,
            None,
            StepStatus::Succeeded,
            "words",
            None,
        ),
        (
            Verdict::NoChange,
            VerdictSource::Verified,
            None,
            StepStatus::Succeeded,
            "words",
            None,
        ),
        (
            Verdict::Fail,
            VerdictSource::Inferred,
            None,
            failed,
            "words",
            Some("the verdict is fail"),
        ),
        (
            Verdict::Fail,
            VerdictSource::Verified,
            None,
            failed,
            "words",
            Some("a check of the change failed"),
        ),
        (
            Verdict::Limit,
            VerdictSource::Harness,
            limit,
            failed,
            "words",
            limit,
        ),
        (Verdict::Error, VerdictSource::Harness, words, failed, "", words),
        (Verdict::Error, VerdictSource::Harness, None, failed, "", words),
    ] {
        let end = judged(StoredEnd {
            verdict: Some(verdict),
            source: Some(source),
            notice: notice.map(str::to_owned),
            text: words.map(str::to_owned),
        });
        let shown = (end.status, end.output.as_str(), end.why.as_deref());
        assert_eq!(shown, (status, output, why), "{verdict:?} {source:?}");
    }
    let end = judged(StoredEnd::default());
    assert_eq!(
        end.why.as_deref(),
        Some("the work was refused before a model was called")
    );
}
