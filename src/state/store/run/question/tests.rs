//! Tests of the questions of runs in the store.

use super::{AskedRunQuestion, NewRunQuestion, RunAnswerOutcome, RunAnswerRequest};
use crate::base::model::{
    AskedPeople, InboxId, Role, RunAnswer, RunId, RunQuestion, RunStatus, StepEnd, StepStatus, UserId,
};
use crate::state::store::fixture::{at, command, fresh, new_run, person, place, post};
use crate::state::store::people::{add_person, revoke};
use crate::state::store::run::advance::apply;
use crate::state::store::{
    DataKind, NewRun, Prune, PrunePosition, QuestionPlace, RunAdvance, RunCreation, RunRow, StepBegin, Store,
    StoreError,
};
use std::time::Duration;

/// The edit that takes the buttons away.
const CLOSED: &str = "SELECT COUNT(*) FROM outbox WHERE op = 'run-1-0/question/closed'";
const AUDITED: &str = "SELECT COUNT(*) FROM audit WHERE line LIKE '%question.closed%'";

/// Creates a run that asks and then tells, and may last 1,000 seconds. Its owner is admitted as user 1.
async fn created(store: &Store) -> RunId {
    let grant = ("editor".into(), "*".into(), Vec::new());
    let added = store.write(move |tx| add_person(tx, "alice", "operator", &person("U1"), &grant, at(0)));
    assert_eq!(added.await, Ok(UserId(1)));
    let new = NewRun {
        pipeline: "release".to_owned(),
        place: Some(("slack".to_owned(), place(None))),
        timeout: Duration::from_secs(1_000),
        ..new_run(&[("approve", "ask"), ("tell", "reply")])
    };
    match store.create_run(new, None, at(0)).await.unwrap().0 {
        RunCreation::Created(id) => id,
        other => panic!("{other:?}"),
    }
}

/// Returns a question that is open until second 60.
fn question(run: RunId, default: Option<&str>) -> RunAdvance {
    let post_id = format!("run-{run}-0/question");
    let question = NewRunQuestion {
        question: RunQuestion {
            run,
            pipeline: "release".to_owned(),
            repository: "infra".to_owned(),
            asked: AskedPeople::Role(Role::Editor),
            text: "Tell the team?".to_owned(),
            values: Vec::new(),
            choices: vec!["yes".to_owned(), "no".to_owned()],
            default: default.map(str::to_owned),
            seconds: 59,
        },
        shown: QuestionPlace {
            post: post_id.clone(),
            channel: "slack".to_owned(),
            place: place(None),
        },
        tokens: vec![[1; 32], [2; 32]],
        ops: vec![post(&post_id, None, "Tell the team?")],
        deadline: at(60),
    };
    RunAdvance {
        begin: vec![(0, StepBegin::Question(Box::new(question)))],
        ..RunAdvance::default()
    }
}

/// Creates a run whose question is open.
async fn asking(store: &Store, default: Option<&str>) -> RunId {
    let run = created(store).await;
    let moves = question(run, default);
    let moved = store.advance_run(run, 0, moves, at(1)).await.unwrap();
    assert_eq!(moved, Some(Vec::new()));
    run
}

fn says(run: RunId, choice: usize) -> RunAnswerRequest {
    RunAnswerRequest {
        run,
        step: 0,
        choice,
        person: Some((UserId(1), person("U1"))),
        by: "alice".to_owned(),
    }
}

async fn answer(
    store: &Store,
    request: RunAnswerRequest,
    command: Option<InboxId>,
    second: i64,
) -> RunAnswerOutcome {
    let answered = store.answer_run_question(request, command, at(second));
    answered.await.unwrap()
}

fn closed(how: &str) -> RunAnswerOutcome {
    RunAnswerOutcome::Closed { how: how.to_owned() }
}

async fn read(store: &Store, run: RunId) -> RunRow {
    store.run(run).await.unwrap().unwrap()
}

/// Returns the status of the step that asks, and its output.
async fn ended(store: &Store, run: RunId) -> (StepStatus, String) {
    let row = read(store, run).await;
    let end = row.steps[0].end.clone();
    (row.steps[0].status, end.map(|end| end.output).unwrap_or_default())
}

async fn only_question(store: &Store, run: RunId) -> AskedRunQuestion {
    let questions = store.run_questions(run).await.unwrap();
    let [question] = questions.as_slice() else {
        panic!("{questions:?}");
    };
    question.clone()
}

async fn count(store: &Store, sql: &'static str) -> i64 {
    let counted = store.read(move |tx| Ok(tx.query_row(sql, [], |row| row.get(0))?));
    counted.await.unwrap()
}

#[tokio::test]
async fn an_answer_ends_the_step_once_and_takes_the_buttons_away() {
    let (_directory, store) = fresh();
    let run = asking(&store, Some("no")).await;
    assert_eq!(store.run_work(at(1), 10).await.unwrap().due, []);
    assert_eq!(
        store.run_work(at(0), 0).await.unwrap().next_deadline,
        Some(at(60))
    );
    let (asked, choice) = store.run_question_of_button([2; 32]).await.unwrap().unwrap();
    assert_eq!((asked.question.run, asked.step, choice), (run, 0, 1));
    assert_eq!((asked.step_name.as_str(), asked.answer), ("approve", None));
    assert_eq!(store.run_question_of_button([3; 32]).await, Ok(None));
    assert_eq!(
        answer(&store, says(run, 2), None, 2).await,
        RunAnswerOutcome::Gone,
        "there is no third choice"
    );

    let press = command(&store, "x", "c1", 3).await;
    assert_eq!(store.run_answer_of_command(press).await, Ok(None));
    let answered = RunAnswerOutcome::Answered {
        choice: "no".to_owned(),
    };
    // The same press again, after a restart, gets the same outcome.
    for second in [3, 400] {
        let outcome = answer(&store, says(run, 1), Some(press), second).await;
        assert_eq!(outcome, answered);
    }
    assert_eq!(store.run_answer_of_command(press).await, Ok(Some(answered)));
    let other = command(&store, "x", "c2", 4).await;
    assert_eq!(
        answer(&store, says(run, 0), Some(other), 4).await,
        closed("`alice` answered: no")
    );
    assert_eq!(ended(&store, run).await, (StepStatus::Succeeded, "no".to_owned()));
    assert_eq!(store.run_work(at(5), 10).await.unwrap().due, [run]);
    assert_eq!(
        store.run_work(at(0), 0).await.unwrap().next_deadline,
        Some(at(1_000))
    );
    store.close_late_run_questions(at(100)).await.unwrap();
    assert_eq!(
        (count(&store, CLOSED).await, count(&store, AUDITED).await),
        (1, 1)
    );
    let line = "SELECT COUNT(*) FROM audit WHERE line LIKE '%question.closed%' AND line LIKE '%slack:T1:U1%'";
    assert_eq!(count(&store, line).await, 1);
}

#[tokio::test]
async fn a_question_is_closed_at_its_deadline_also_if_an_answer_comes_first_to_the_store() {
    for (default, how, end) in [
        (
            Some("no"),
            "Nobody answered in time; the default counts: no",
            (StepStatus::Succeeded, "no"),
        ),
        (
            None,
            "Nobody answered in time, and there is no default",
            (StepStatus::Failed, ""),
        ),
    ] {
        for comes_first in ["answer", "driver"] {
            let (_directory, store) = fresh();
            let run = asking(&store, default).await;
            store.close_late_run_questions(at(59)).await.unwrap();
            assert_eq!(ended(&store, run).await.0, StepStatus::Running);
            if comes_first == "driver" {
                store.close_late_run_questions(at(60)).await.unwrap();
            }
            assert_eq!(answer(&store, says(run, 0), None, 60).await, closed(how));
            store.close_late_run_questions(at(61)).await.unwrap();
            assert_eq!(
                ended(&store, run).await,
                (end.0, end.1.to_owned()),
                "{comes_first}"
            );
            assert_eq!(
                (count(&store, CLOSED).await, count(&store, AUDITED).await),
                (1, 1)
            );
            assert_eq!(store.run_work(at(61), 10).await.unwrap().due, [run]);
        }
    }
}

#[tokio::test]
async fn the_end_of_a_run_closes_its_question_and_names_the_reason() {
    let withdrawn = |why: &str| RunAnswer::Withdrawn { why: why.to_owned() };
    let (_directory, store) = fresh();
    let run = asking(&store, Some("no")).await;
    store
        .cancel_run(run, "bob".to_owned(), None, at(5))
        .await
        .unwrap();
    let question = only_question(&store, run).await;
    assert_eq!(question.answer, Some(withdrawn("cancelled by bob")));
    assert_eq!(
        answer(&store, says(run, 0), None, 6).await,
        closed("No answer is needed any more: cancelled by bob")
    );
    assert_eq!(ended(&store, run).await.0, StepStatus::Cancelled);
    assert_eq!(count(&store, CLOSED).await, 1);

    let (_directory, store) = fresh();
    let run = asking(&store, Some("no")).await;
    let version = read(&store, run).await.version;
    let over = RunAdvance {
        finish: Some((RunStatus::Failed, Some("its time is over".to_owned()))),
        ..RunAdvance::default()
    };
    store
        .advance_run(run, version, over, at(5))
        .await
        .unwrap()
        .unwrap();
    let question = only_question(&store, run).await;
    assert_eq!(question.answer, Some(withdrawn("its time is over")));

    let (_directory, store) = fresh();
    let run = asking(&store, Some("no")).await;
    store
        .write(|tx| revoke(tx, UserId(1), at(5)))
        .await
        .unwrap()
        .unwrap();
    let question = only_question(&store, run).await;
    let why = "the access of its owner was revoked";
    assert_eq!(question.answer, Some(withdrawn(why)));
    assert_eq!(store.run_work(at(0), 0).await.unwrap().next_deadline, None);
}

/// T06
#[tokio::test]
async fn nobody_answers_whose_access_was_revoked_in_the_meantime() {
    let (_directory, store) = fresh();
    let run = asking(&store, None).await;
    let grant = ("editor".into(), "*".into(), Vec::new());
    let added = store.write(move |tx| add_person(tx, "bob", "operator", &person("U2"), &grant, at(0)));
    assert_eq!(added.await, Ok(UserId(2)));
    store
        .write(|tx| revoke(tx, UserId(2), at(5)))
        .await
        .unwrap()
        .unwrap();
    let of_bob = RunAnswerRequest {
        person: Some((UserId(2), person("U2"))),
        by: "bob".to_owned(),
        ..says(run, 0)
    };
    assert_eq!(answer(&store, of_bob, None, 6).await, RunAnswerOutcome::Gone);
    // The operator is no person of a chat.
    let of_operator = RunAnswerRequest {
        person: None,
        by: "the operator".to_owned(),
        ..says(run, 0)
    };
    let answered = RunAnswerOutcome::Answered {
        choice: "yes".to_owned(),
    };
    assert_eq!(answer(&store, of_operator, None, 7).await, answered);
}

#[tokio::test]
async fn a_question_that_a_crash_cuts_short_is_not_asked_and_one_that_is_not_readable_ends_its_step() {
    let (_directory, store) = fresh();
    let run = created(&store).await;
    let (moves, pepper) = (question(run, None), store.pepper());
    let broken = store.write(move |tx| {
        apply(tx, (run, 0), moves, pepper, at(1))?;
        Err::<(), _>(StoreError::Failed("cut short".to_owned()))
    });
    assert!(broken.await.is_err());
    for table in [
        "SELECT COUNT(*) FROM run_question",
        "SELECT COUNT(*) FROM run_question_button",
        "SELECT COUNT(*) FROM outbox",
    ] {
        assert_eq!(count(&store, table).await, 0, "{table}");
    }
    let moved = store.advance_run(run, 0, question(run, Some("no")), at(2)).await;
    assert_eq!(moved, Ok(Some(Vec::new())));
    store
        .write(|tx| Ok(tx.execute("UPDATE run_question SET content = '{}'", [])?))
        .await
        .unwrap();
    assert_eq!(store.run_questions(run).await, Ok(Vec::new()));
    store.close_late_run_questions(at(60)).await.unwrap();
    let row = read(&store, run).await;
    let why = row.steps[0].end.as_ref().unwrap().why.as_deref();
    assert_eq!(
        why,
        Some("its question cannot be read by this version; start the run again")
    );
    assert_eq!(store.run_work(at(60), 10).await.unwrap().due, [run]);
}

#[tokio::test]
async fn the_posts_of_a_run_are_kept_until_the_run_has_ended_and_its_message_shows_it() {
    let (_directory, store) = fresh();
    let run = asking(&store, None).await;
    store
        .record_delivered("run-1-0/question", None, at(2))
        .await
        .unwrap();
    let pruned = async || {
        let from = PrunePosition::default();
        let pruned = store.prune_slice(DataKind::Operations, at(400), &from, Prune::Remove, at(500));
        pruned.await.unwrap().rows
    };
    assert_eq!(pruned().await, 0);
    assert_eq!(
        answer(&store, says(run, 0), None, 50).await,
        RunAnswerOutcome::Answered {
            choice: "yes".to_owned()
        }
    );
    assert_eq!(count(&store, CLOSED).await, 1);
    store
        .record_delivered("run-1-0/question/closed", None, at(51))
        .await
        .unwrap();
    assert_eq!(pruned().await, 0);
    let version = read(&store, run).await.version;
    let over = RunAdvance {
        finish: Some((RunStatus::Succeeded, None)),
        ..RunAdvance::default()
    };
    store
        .advance_run(run, version, over, at(52))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(pruned().await, 2);
}

#[tokio::test]
async fn the_questions_of_a_run_are_removed_with_it() {
    let (_directory, store) = fresh();
    let run = asking(&store, None).await;
    let version = read(&store, run).await.version;
    let over = RunAdvance {
        end: vec![(0, StepEnd::failed("it is over"))],
        finish: Some((RunStatus::Failed, None)),
        ..RunAdvance::default()
    };
    store
        .advance_run(run, version, over, at(5))
        .await
        .unwrap()
        .unwrap();
    let from = PrunePosition::default();
    let pruned = store
        .prune_slice(DataKind::Runs, at(400), &from, Prune::Remove, at(500))
        .await;
    assert_eq!(pruned.unwrap().rows, 1);
    for table in [
        "SELECT COUNT(*) FROM run_question",
        "SELECT COUNT(*) FROM run_question_button",
        "SELECT COUNT(*) FROM run_step",
    ] {
        assert_eq!(count(&store, table).await, 0, "{table}");
    }
}
