//! Tests of the steps of a run: what begins, what ends, and the outcome of each.

use super::{advance, begins, claimed, count, created, due, ends_with, new, read, run_turn};
use crate::base::model::{RunId, RunStatus, StepEnd, StepStatus, Verdict, VerdictSource};
use crate::state::store::StoreError;
use crate::state::store::fixture::{AnswerDraft, at, ends, fresh, patch, post};
use crate::state::store::run::advance::apply;
use crate::state::store::run::creation::create;
use crate::state::store::run::turn_end::{StoredEnd, judged};
use crate::state::store::run::{NewRun, RunAdvance, RunCreation, StepBegin};

#[tokio::test]
async fn the_end_of_the_turn_ends_the_step_with_its_words_its_change_and_its_cost() {
    let (_directory, store) = fresh();
    let run = created(&store, new(&[]), 0).await;
    let id = run.head.id;
    assert_eq!(
        (run.head.status, run.head.started_at, run.deadline),
        (RunStatus::Running, Some(at(0)), Some(at(100)))
    );
    assert_eq!(
        store.run_work(at(0), 0).await.unwrap().next_deadline,
        Some(at(100))
    );
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
    assert_eq!(store.run_work(at(0), 0).await.unwrap().next_deadline, None);
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
