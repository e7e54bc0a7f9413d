//! Tests of the numbers of runs that have not ended.

use super::{advance, created, ends_with, grouped};
use crate::base::model::{AskedPeople, Role, RunConflictRule, RunId, RunQuestion, RunStatus};
use crate::state::store::fixture::{at, fresh, new_run, place, post};
use crate::state::store::{NewRunQuestion, OpenRuns, QuestionPlace, RunAdvance, StepBegin, Store};

/// Returns a question that is open until second 60.
fn asks(run: RunId) -> RunAdvance {
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
            default: None,
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

/// Returns the numbers of runs that are queued, run, and wait for a person.
async fn numbers(store: &Store) -> (u64, u64, u64) {
    let OpenRuns {
        queued,
        running,
        waiting_for_person,
    } = store.open_runs().await.unwrap();
    (queued, running, waiting_for_person)
}

#[tokio::test]
async fn each_open_run_is_counted_once_by_what_it_waits_for() {
    let (_directory, store) = fresh();
    assert_eq!(numbers(&store).await, (0, 0, 0));
    let first = created(&store, grouped(RunConflictRule::Serial), 0).await.head.id;
    created(&store, grouped(RunConflictRule::Serial), 0).await;
    assert_eq!(numbers(&store).await, (1, 1, 0));
    let asking = created(&store, new_run(&[("approve", "ask")]), 0).await.head.id;
    assert_eq!(numbers(&store).await, (1, 2, 0));
    assert!(advance(&store, asking, asks(asking), 1).await.is_some());
    assert_eq!(numbers(&store).await, (1, 1, 1));
    // The next run of the group begins.
    assert!(
        advance(&store, first, ends_with(RunStatus::Failed), 2)
            .await
            .is_some()
    );
    assert_eq!(numbers(&store).await, (0, 1, 1));
    store.close_late_run_questions(at(61)).await.unwrap();
    assert_eq!(numbers(&store).await, (0, 2, 0));
    assert!(
        advance(&store, asking, ends_with(RunStatus::Failed), 62)
            .await
            .is_some()
    );
    assert_eq!(numbers(&store).await, (0, 1, 0));
}
