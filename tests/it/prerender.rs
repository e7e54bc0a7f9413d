//! The base of a turn is prerendered before the first request, and no request waits for that.

use crate::support::app::TestApp;
use crate::support::evaluation::{TestTree, evaluator, file_request};
use crate::support::log::LogCapture;
use drydock::rendering::jsonnet::{EvalError, EvalLimits, EvalRequest};
use drydock::simulation::emulator::model::{ScriptedAnswer, calls, queue, says};
use serde_json::json;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

const ALICE: &str = "U0ALICE";
/// The longest time any step may take on a busy machine.
const BOUND: Duration = Duration::from_secs(60);
const ON: (&str, &str) = ("sandbox.renders_ahead", "true");

fn script() -> [ScriptedAnswer; 3] {
    let edit = json!({ "path": "lib/app.libsonnet", "old": "memoryMi:: 128,", "new": "memoryMi:: 192," });
    [says("There are three."), calls("file_edit", edit), says("Done.")]
}

/// Waits until the log contains a text.
async fn wait_for_log(log: &LogCapture, text: &str) {
    let started = Instant::now();
    while !log.text().contains(text) {
        assert!(
            started.elapsed() < BOUND,
            "no log line contains `{text}`:\n{}",
            log.text()
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Checks two turns: the first one only asks, the second one edits a library that three of four entry points use.
#[tokio::test]
async fn a_change_of_all_environments_uses_the_prerendered_base() {
    let log = LogCapture::capture();
    let app = TestApp::with_settings(queue(script()), &[ON]).await;
    app.admit_slack_editor(ALICE).await;
    app.ask(ALICE, "how many environments are there?").await;
    let head = &app.demo.base;
    let ahead = format!(
        "infra at {head} was prerendered result=PrerenderResult {{ rendered: 4, known: 0, failed: 0, end: Done }}"
    );
    wait_for_log(&log, &ahead).await;
    let result = app.ask(ALICE, "raise the default memory").await;
    assert!(
        result
            .text
            .contains("CHG-1 is ready: 3 environments, 1 file, +1 −1"),
        "{}",
        result.text
    );
    let text = log.text();
    for expected in [
        "rendering 0 of 3 entry points, 0 cross-checked",
        "rendering 3 of 3 entry points, 3 cross-checked",
    ] {
        assert!(text.contains(expected), "no `{expected}` in {text}");
    }
    assert_eq!(text.matches("was prerendered").count(), 1);
}

#[tokio::test]
async fn prerendering_can_be_turned_off() {
    let log = LogCapture::capture();
    let app = TestApp::with_settings(queue(script()), &[("sandbox.renders_ahead", "false")]).await;
    app.admit_slack_editor(ALICE).await;
    app.ask(ALICE, "how many environments are there?").await;
    app.ask(ALICE, "raise the default memory").await;
    let text = log.text();
    let expected = "rendering 3 of 3 entry points, 0 cross-checked";
    assert!(text.contains(expected), "{text}");
    assert!(!text.contains("prerendered"), "{text}");
}

fn limits(workers_max: usize) -> EvalLimits {
    EvalLimits {
        workers_max,
        time_max: BOUND,
        ..EvalLimits::default()
    }
}

fn programs() -> [EvalRequest; 2] {
    let endless = "std.foldl(function(a, i) a + i, std.range(0, 1e9), 0)";
    let tree = TestTree::from_texts([("quick.jsonnet", "{ a: 1 }"), ("endless.jsonnet", endless)]);
    ["quick.jsonnet", "endless.jsonnet"].map(|name| file_request(tree.clone(), name))
}

#[tokio::test]
async fn background_evaluation_is_cancelled_for_a_person_and_starts_only_after_them() {
    let [quick, endless] = programs();
    let (evaluator, never) = (evaluator(limits(2)), CancellationToken::new());
    let started = Instant::now();
    let aside = evaluator.evaluate_in_background(vec![endless.clone(), endless], &never);
    let (aside, answer) = tokio::join!(aside, evaluator.evaluate(quick.clone(), &never));
    assert!(answer.is_ok(), "{answer:?}");
    assert_eq!(aside, [Err(EvalError::Cancelled), Err(EvalError::Cancelled)]);
    assert!(started.elapsed() < BOUND / 2);

    let order = Mutex::new(Vec::new());
    let person = async {
        let answer = evaluator.evaluate(quick.clone(), &never).await;
        order.lock().unwrap().push("person");
        answer
    };
    let aside = async {
        let answers = evaluator
            .evaluate_in_background(vec![quick.clone(), quick.clone()], &never)
            .await;
        order.lock().unwrap().push("aside");
        answers
    };
    let (answer, aside) = tokio::join!(person, aside);
    assert_eq!(*order.lock().unwrap(), ["person", "aside"]);
    let value = answer.unwrap().json;
    assert!(aside.iter().all(|answer| answer.as_ref().unwrap().json == value));
}

/// Checks that a stop of the process ends background evaluation at once, and that the only place is left to requests of
/// people.
#[tokio::test]
async fn background_evaluation_stops_at_once_on_cancel_and_never_takes_the_last_slot() {
    let [quick, endless] = programs();
    let (two, cancel) = (evaluator(limits(2)), CancellationToken::new());
    let started = Instant::now();
    let aside = two.evaluate_in_background(vec![endless], &cancel);
    let (aside, ()) = tokio::join!(aside, async { cancel.cancel() });
    assert_eq!(aside, [Err(EvalError::Cancelled)]);
    assert!(started.elapsed() < BOUND / 2);
    let one = evaluator(limits(1));
    let none = one
        .evaluate_in_background(vec![quick], &CancellationToken::new())
        .await;
    assert!(
        matches!(none.as_slice(), [Err(EvalError::Sandbox(_))]),
        "{none:?}"
    );
}
