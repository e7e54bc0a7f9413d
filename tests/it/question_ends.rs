//! The ends of a question: a default in time, a stop, a restart, a revoked person, and nobody to ask.

use crate::questions::{ALICE, WAITING, asks, labels, now, wait_for_question};
use crate::support::app::{TestApp, visible_text};
use crate::support::{sign, world};
use drydock::simulation::demo::environment::HOOK_SECRET;
use drydock::simulation::emulator::model::{AnswerFault, ModelRequest, says};
use serde_json::json;

#[tokio::test]
async fn a_question_that_nobody_answers_in_time_gets_its_default_also_after_a_restart() {
    const CLOCK: usize = 2;
    let settings = [("limits.question_minutes_max", "30")];
    let mut app = TestApp::with_host(asks, world::world::<CLOCK>(), &settings).await;
    app.admit_slack_editor(ALICE).await;
    let said = app.say(ALICE, "more replicas in dev").await;
    let asked = wait_for_question(&app, &said.ts).await;
    assert!(visible_text(&asked).contains("After 30 minutes"), "{asked:?}");
    app.restart().await;
    assert_eq!((app.count(WAITING), app.model_requests().len()), (1, 1));
    world::advance::<CLOCK>(31 * 60);
    let result = app.wait_for_result(&said.ts, 1).await;
    let told = "I was told: Nobody answered in time; the default applies: Three";
    assert!(result.text.contains(told), "{}", result.text);
    app.wait_until_idle().await;
    let closed = now(&app, &asked);
    assert_eq!(labels(&closed), [""; 0]);
    let text = visible_text(&closed);
    assert!(
        text.contains("Nobody answered in time; I go on with: Three"),
        "{text}"
    );
}

/// T06
#[tokio::test]
async fn the_answer_of_a_revoked_person_does_nothing_and_their_turn_ends() {
    const CLOCK: usize = 3;
    let app = TestApp::with_host(asks, world::world::<CLOCK>(), &[]).await;
    app.admit_slack_editor(ALICE).await;
    let said = app.say(ALICE, "more replicas in dev").await;
    let asked = wait_for_question(&app, &said.ts).await;
    app.revoke(ALICE).await;
    app.demo.slack.click(ALICE, &asked.ts, "Five").await.unwrap();
    app.say_in(ALICE, &said.ts, "Five").await;
    assert_eq!((app.count(WAITING), app.model_requests().len()), (1, 1));
    world::advance::<CLOCK>(61 * 60);
    app.wait_for_slack_reply(&said.ts, "Access was revoked.").await;
    app.wait_until_idle().await;
    assert_eq!(app.model_requests().len(), 1);
    let stored = app.column("SELECT answer FROM question");
    assert_eq!(stored, [r#"{"answer":"default","choice":"Three"}"#]);
}

/// The steps before the question contain files of the first repository.
#[tokio::test]
async fn an_answered_turn_never_goes_on_in_another_repository() {
    let mut app = TestApp::new(asks).await;
    app.admit_slack_editor(ALICE).await;
    let said = app.say(ALICE, "more replicas in dev").await;
    let asked = wait_for_question(&app, &said.ts).await;
    app.demo.stop().await;
    let mut config = app.demo.config().unwrap();
    let infra = config.repositories.remove("infra").unwrap();
    config.repositories.insert("apps".to_owned(), infra);
    app.start_with(config).await;
    let url = format!("{}/in/slack", app.demo.url());
    app.demo.slack.connect_to(&url);
    app.demo.slack.click(ALICE, &asked.ts, "Five").await.unwrap();
    app.wait_for_slack_reply(&said.ts, "infra").await;
    app.wait_until_idle().await;
    assert_eq!(app.model_requests().len(), 1);
}

#[tokio::test]
async fn a_stop_ends_a_turn_that_waits_and_closes_its_question() {
    let app = TestApp::new(asks).await;
    app.admit_slack_editor(ALICE).await;
    let said = app.say(ALICE, "more replicas in dev").await;
    let asked = wait_for_question(&app, &said.ts).await;
    app.say_in(ALICE, &said.ts, "!stop").await;
    let result = app.wait_for_result(&said.ts, 1).await;
    assert!(result.text.contains("Stopped at step 1."), "{}", result.text);
    app.wait_until_idle().await;
    assert_eq!(app.model_requests().len(), 1);
    let closed = now(&app, &asked);
    assert_eq!(labels(&closed), [""; 0]);
    let text = visible_text(&closed);
    assert!(text.contains("Stopped; no answer is needed any more."), "{text}");
    // The button of the person who still sees it does nothing, and the next message begins something new.
    let next = app.ask_in(ALICE, &said.ts, "hello").await;
    assert!(next.text.contains("Hello."), "{}", next.text);
}

/// A process that ends between the answer and the next step asks nothing again, and the turn goes on with the answer.
#[tokio::test]
async fn a_restart_after_the_answer_goes_on_with_it() {
    let mut app = TestApp::new(|asked: &ModelRequest| match asks(asked) {
        answer if answer.calls.is_empty() && !asked.last_results().is_empty() => {
            answer.with_fault(AnswerFault::Stall)
        }
        answer => answer,
    })
    .await;
    app.admit_slack_editor(ALICE).await;
    let said = app.say(ALICE, "more replicas in dev").await;
    let asked = wait_for_question(&app, &said.ts).await;
    app.demo.slack.click(ALICE, &asked.ts, "Five").await.unwrap();
    app.wait_for_model_requests(2).await;
    // The process ends without notice: what it had not stored is gone.
    app.demo.stop().await;
    app.alter_database("UPDATE turn SET finished_at = NULL, verdict = NULL, source = NULL");
    app.demo.start().await.unwrap();
    app.wait_for_model_requests(3).await;
    let requests = app.model_requests();
    assert_eq!(requests[2].messages, requests[1].messages);
    assert_eq!(app.count("SELECT COUNT(*) FROM turn"), 1);
    assert_eq!(app.count("SELECT COUNT(*) FROM question"), 1);
    app.say_in(ALICE, &said.ts, "!stop").await;
    let result = app.wait_for_result(&said.ts, 1).await;
    assert!(result.text.contains("Stopped at step 2."), "{}", result.text);
}

#[tokio::test]
async fn an_event_of_a_hook_has_nobody_to_ask() {
    let app = TestApp::new(|_: &ModelRequest| says("Nothing to do.")).await;
    app.admit_slack_editor(ALICE).await;
    app.ask(ALICE, "hello").await;
    let payload = json!({
        "action": "published",
        "release": {"tag_name": "v1.9.0", "body": ""},
        "repository": {"full_name": "acme/web"},
    });
    let body = payload.to_string();
    let signature = sign::github(HOOK_SECRET, body.as_bytes());
    let headers = [
        ("content-type", "application/json"),
        ("x-github-event", "release"),
        ("x-github-delivery", "72d3162e-cc78-11e3-81ab-4c9367dc0958"),
        ("x-hub-signature-256", &signature),
    ];
    assert_eq!(app.post("/in/release", &headers, body.as_bytes()).await.0, 200);
    app.wait_for_model_requests(2).await;
    app.wait_until_idle().await;
    let offered = app.model_requests().into_iter().map(|request| {
        let mut tools = request.tools.iter();
        tools.any(|tool| tool.name == "ask_user")
    });
    assert_eq!(offered.collect::<Vec<_>>(), [true, false]);
}
