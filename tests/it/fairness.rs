//! Tests of fairness between people: endless evaluations of one person do not delay another person, and one person's
//! conversations do not use every turn.

use crate::support::app::{TestApp, step_number};
use crate::support::evaluation::{evaluator, snippet_request};
use drydock::base::model::UserId;
use drydock::rendering::jsonnet::{Budget, CrossCheckMode, EvalError, EvalLimits, EvalRequest, Evaluator};
use drydock::simulation::emulator::model::{AnswerFault, ModelRequest, calls, says};
use futures_util::future::join_all;
use serde_json::json;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The number of conversations of the person who uses too much, with `CALLS` tool calls in each.
const CONVERSATIONS: i64 = 4;
const CALLS: usize = 15;
/// The number of small programs of the other person.
const SMALL: usize = 20;

fn limits() -> EvalLimits {
    EvalLimits {
        // Longer than the test, which only ends if other programs get places beside the endless ones.
        time_max: Duration::from_secs(600),
        workers_max: 2,
        ..EvalLimits::default()
    }
}

fn endless() -> EvalRequest {
    snippet_request("std.foldl(function(a, i) a + i, std.range(0, 1e9), 0)")
}

/// Runs as many evaluations as one person may have at once: tool calls, and a comparison of many environments, in every
/// conversation.
async fn endless_calls(evaluator: &Evaluator, alice: UserId) {
    let never = CancellationToken::new();
    let conversation = |_| {
        let calls = (0..CALLS).map(|_| evaluator.evaluate(endless(), &never));
        let comparison = evaluator.evaluate_all(vec![endless(); 50], &never);
        Budget::for_person(alice).charge(async { tokio::join!(join_all(calls), comparison) })
    };
    join_all((0..CONVERSATIONS).map(conversation)).await;
}

/// T48: the endless programs of one person delay no other person.
#[tokio::test]
async fn endless_programs_of_one_person_hold_up_nobody_else() {
    let evaluator = evaluator(limits());
    let never = CancellationToken::new();
    let bob = async {
        for number in 0..SMALL {
            let request = EvalRequest {
                cross_check: CrossCheckMode::On,
                ..snippet_request(&format!("{number} + 1"))
            };
            let value = evaluator.evaluate(request, &never).await.expect("a value");
            assert_eq!(value.json, (number + 1).to_string());
        }
        let batch = (0..SMALL)
            .map(|number| snippet_request(&format!("{number} * 2")))
            .collect();
        let values = evaluator.evaluate_all(batch, &never).await;
        assert!(values.iter().all(Result::is_ok), "{values:?}");
    };
    tokio::select! {
        // This begins first, and takes every available place.
        biased;
        () = endless_calls(&evaluator, UserId(1)) => panic!("the endless programs ended first"),
        () = Budget::for_person(UserId(2)).charge(bob) => {}
    }
}

#[tokio::test]
async fn the_sandbox_time_of_one_turn_is_bounded() {
    let evaluator = evaluator(EvalLimits {
        time_max: Duration::from_secs(1),
        turn_time_max: Duration::from_secs(1),
        ..limits()
    });
    let never = CancellationToken::new();
    let spent = Err(EvalError::BudgetExhausted { seconds: 1 });
    let turn = async {
        let first = evaluator.evaluate(endless(), &never).await;
        assert_eq!(first, Err(EvalError::Time { seconds: 1 }));
        assert_eq!(evaluator.evaluate(snippet_request("1"), &never).await, spent);
        let batch = evaluator
            .evaluate_all(vec![snippet_request("1"), snippet_request("2")], &never)
            .await;
        assert_eq!(batch, vec![spent.clone(), spent.clone()]);
    };
    Budget::for_person(UserId(1)).charge(turn).await;
    // The next turn has its own budget, and a terminal has no such limit.
    let next = Budget::for_person(UserId(1)).charge(evaluator.evaluate(snippet_request("1"), &never));
    assert!(next.await.is_ok());
    assert!(evaluator.evaluate(snippet_request("1"), &never).await.is_ok());
}

/// Checks that a caller that goes away is charged for its program, like one that waits.
#[tokio::test]
async fn an_abandoned_evaluation_still_counts_against_the_turn() {
    let evaluator = evaluator(EvalLimits {
        turn_time_max: Duration::from_secs(1),
        ..limits()
    });
    let never = CancellationToken::new();
    let turn = async {
        let patience = Duration::from_millis(1_500);
        let given_up = tokio::time::timeout(patience, evaluator.evaluate(endless(), &never)).await;
        assert!(given_up.is_err());
        evaluator.evaluate(snippet_request("1"), &never).await
    };
    let after = Budget::for_person(UserId(1)).charge(turn).await;
    assert_eq!(after, Err(EvalError::BudgetExhausted { seconds: 1 }));
}

/// Checks that the rendering after an undo is within the limit of a turn, and counts as its person's evaluation.
#[tokio::test]
async fn evaluations_of_a_command_are_charged_to_its_person() {
    let app = TestApp::with_settings(
        |asked: &ModelRequest| match (step_number(asked), asked.last_user_text().contains("endless")) {
            (0, true) => {
                let endless = "{ a: std.foldl(function(a, i) a + i, std.range(0, 1e9), 0) }\n";
                let main = |name: &str| json!({"path": format!("environments/{name}/main.jsonnet"), "content": endless});
                ["staging", "prod", "monitoring"]
                    .into_iter()
                    .fold(calls("file_write", main("dev")), |answer, name| {
                        answer.with_call("file_write", main(name))
                    })
            }
            (0, false) => calls("file_write", json!({"path": "notes.txt", "content": "more\n"})),
            _ => says("Done."),
        },
        &[
            ("limits.repairs_max", "0"),
            ("sandbox.seconds_max", "1"),
            ("sandbox.turn_seconds_max", "1"),
        ],
    )
    .await;
    app.admit_slack_editor(ALICE).await;
    let first = app.ask(ALICE, "make them endless").await;
    app.ask_in(ALICE, &first.thread, "@drydock a note").await;
    app.run_command_in(ALICE, &first.thread, "!undo").await;
    let left = app.run_command_in(ALICE, &first.thread, "!diff").await;
    assert!(left.contains("all evaluations of this turn together"), "{left}");
}

const ALICE: &str = "U0ALICE";
const BOB: &str = "U0BOB";

/// R6: one person's conversations take half of the turns, so the first message of another person is answered next.
#[tokio::test]
async fn many_conversations_of_one_person_leave_turns_to_others() {
    let app = TestApp::with_settings(
        |asked: &ModelRequest| match asked.last_user_text().contains("stall") {
            true => says("Never.").with_fault(AnswerFault::Stall),
            false => says("Here."),
        },
        &[("limits.turns_at_once_max", "4")],
    )
    .await;
    app.admit_slack_editor(ALICE).await;
    app.admit_slack_editor(BOB).await;
    for _ in 0..8 {
        app.say(ALICE, "stall").await;
    }
    // Two of four turns are hers, and her other messages wait.
    app.wait_for_model_requests(2).await;
    for _ in 0..3 {
        let answered = app.ask(BOB, "hello").await;
        assert!(answered.text.contains("Here."), "{}", answered.text);
    }
    let stalled = app.model_requests();
    let stalled = stalled
        .iter()
        .filter(|asked| asked.last_user_text().contains("stall"));
    assert_eq!(stalled.count(), 2);
    let in_work = "SELECT count(*) FROM conversation WHERE owner IS NOT NULL AND pending > 0";
    assert_eq!(app.count(in_work), 2);
}
