//! Slack's Stop button counts for the work that ran when it was pressed, however late Slack delivers the press, and a thread
//! whose question is open shows no running work after a restart.

use crate::support::app::TestApp;
use crate::support::sign;
use crate::support::world::{advance, now, world};
use drydock::simulation::demo::environment::{SLACK_BOT_TOKEN, SLACK_CHANNEL, SLACK_SIGNING_SECRET};
use drydock::simulation::emulator::model::{AnswerFault, ModelRequest, ScriptedAnswer, calls, says};
use drydock::simulation::emulator::slack::SlackState;
use jiff::Timestamp;
use serde_json::json;
use std::time::Duration;

const ALICE: &str = "U0ALICE";
const CLOCK: usize = 7;

/// Answers "hello" at once and questions about prod never, and holds other answers back until they are released.
fn held(asked: &ModelRequest) -> ScriptedAnswer {
    let words = asked.last_user_text();
    match (words.contains("hello"), words.contains("prod")) {
        (true, _) => says("Hello."),
        (false, true) => says("Never.").with_fault(AnswerFault::Stall),
        (false, false) => says("Here.").with_fault(AnswerFault::Held),
    }
}

/// Delivers a press on the Stop button of Slack now, as Slack does. Returns the status of the answer.
async fn deliver_stop(app: &TestApp, thread: &str, id: &str, pressed: Timestamp) -> u16 {
    let event_ts = format!("{}.{:06}", pressed.as_second(), pressed.subsec_microsecond());
    let body = json!({
        "type": "event_callback", "event_id": id, "team_id": "T0ACME", "event_time": pressed.as_second(),
        "authorizations": [{"team_id": "T0ACME", "user_id": "U0DRYDOCK"}],
        "event": {"type": "agent_session_stopped", "channel": SLACK_CHANNEL, "user": ALICE, "thread_ts": thread,
            "streaming_message_ts": [], "event_ts": event_ts},
    });
    let body = body.to_string();
    let seconds = now::<CLOCK>().as_second();
    let signature = sign::slack(SLACK_SIGNING_SECRET, seconds, body.as_bytes());
    let seconds = seconds.to_string();
    let headers = [
        ("content-type", "application/json"),
        ("x-slack-request-timestamp", seconds.as_str()),
        ("x-slack-signature", signature.as_str()),
    ];
    app.post("/in/slack", &headers, body.as_bytes()).await.0
}

/// The press was for a turn that has ended. It does not end the turn that runs when it arrives.
#[tokio::test]
async fn a_stop_that_slack_delivers_late_ends_no_later_turn() {
    let app = TestApp::with_host(held, world::<CLOCK>(), &[]).await;
    app.admit_slack_editor(ALICE).await;
    let first = app.ask(ALICE, "hello").await;
    app.wait_until_idle().await;
    let pressed = now::<CLOCK>();
    advance::<CLOCK>(60);
    app.say_in(ALICE, &first.thread, "@drydock and what is web?")
        .await;
    app.wait_for_model_requests(2).await;
    advance::<CLOCK>(60);
    assert_eq!(deliver_stop(&app, &first.thread, "EvLATE1", pressed).await, 200);
    let told = app.wait_for_ephemeral(ALICE, 0).await;
    assert_eq!(
        told.replace('`', ""),
        "That turn has ended. A later turn is running; stop ends it."
    );
    app.demo.model.release();
    let result = app.wait_for_result(&first.thread, 2).await;
    assert!(result.text.contains("Here."), "{}", result.text);
    app.wait_until_idle().await;
    // Nothing runs any more.
    assert_eq!(deliver_stop(&app, &first.thread, "EvLATE2", pressed).await, 200);
    assert_eq!(app.wait_for_ephemeral(ALICE, 1).await, "Nothing is running.");
    // A press during a turn ends it, also if it arrives minutes later.
    app.say_in(ALICE, &first.thread, "@drydock and in prod?").await;
    app.wait_for_model_requests(3).await;
    advance::<CLOCK>(2);
    let pressed = now::<CLOCK>();
    advance::<CLOCK>(180);
    assert_eq!(deliver_stop(&app, &first.thread, "EvLATE3", pressed).await, 200);
    let told = app.wait_for_ephemeral(ALICE, 2).await;
    assert!(told.starts_with("Stopping."), "{told}");
    let result = app.wait_for_result(&first.thread, 3).await;
    assert!(result.text.contains("Stopped"), "{}", result.text);
    app.wait_until_idle().await;
    assert_eq!(app.model_requests().len(), 3);
}

/// With one turn at a time, the message waits for a turn in another thread.
#[tokio::test]
async fn a_late_stop_before_a_waiting_message_says_that_nothing_had_begun() {
    let settings = [("limits.turns_at_once_max", "1")];
    let app = TestApp::with_host(held, world::<CLOCK>(), &settings).await;
    app.admit_slack_editor(ALICE).await;
    let first = app.ask(ALICE, "hello").await;
    app.wait_until_idle().await;
    let pressed = now::<CLOCK>();
    advance::<CLOCK>(60);
    let second = app.say(ALICE, "what is web?").await;
    app.wait_for_model_requests(2).await;
    app.say_in(ALICE, &first.thread, "@drydock hello again").await;
    let unfinished = "SELECT count(*) FROM inbox WHERE lane = 'turn' AND done_at IS NULL";
    assert_eq!(app.count(unfinished), 2);
    assert_eq!(deliver_stop(&app, &first.thread, "EvLATE4", pressed).await, 200);
    let told = app.wait_for_ephemeral(ALICE, 0).await;
    assert_eq!(
        told.replace('`', ""),
        "No turn had begun by then that is still running. 1 message waits; stop ends the next."
    );
    app.demo.model.release();
    app.wait_for_result(&second.ts, 1).await;
    let result = app.wait_for_result(&first.thread, 2).await;
    assert!(result.text.contains("Hello."), "{}", result.text);
    app.wait_until_idle().await;
}

fn status(state: &SlackState, thread: &str) -> String {
    let key = (SLACK_CHANNEL.to_owned(), thread.to_owned());
    state
        .sessions
        .get(&key)
        .map_or_else(String::new, |session| session.status().to_owned())
}

async fn wait_for_status(app: &TestApp, thread: &str, wanted: &str) {
    app.wait_for_slack(wanted, |state| (status(state, thread) == wanted).then_some(()))
        .await;
}

/// The process before ended after it showed that work goes on, and before it showed that the work waits.
#[tokio::test]
async fn a_thread_whose_question_is_open_shows_no_running_work_after_a_restart() {
    let mut app = TestApp::new(|asked: &ModelRequest| match asked.last_results() {
        [] => calls(
            "ask_user",
            json!({"question": "How many?", "choices": ["Three", "Five"], "default": "Three", "minutes": 600}),
        )
        .with_fault(AnswerFault::Delay(Duration::from_secs(1))),
        [..] => says("Here."),
    })
    .await;
    app.admit_slack_editor(ALICE).await;
    let said = app.say(ALICE, "more replicas in dev").await;
    let asked = app.wait_for_slack_reply(&said.ts, "I need your decision.").await;
    wait_for_status(&app, &said.ts, "suspended").await;
    app.demo.stop().await;
    let late = reqwest::Client::builder().no_proxy().build().unwrap();
    let late = late
        .post(format!(
            "{}/agents.sessions.setStatus",
            app.demo.slack.api_base_url()
        ))
        .bearer_auth(SLACK_BOT_TOKEN)
        .json(&json!({"channel_id": SLACK_CHANNEL, "thread_ts": said.ts, "status": "processing"}));
    assert!(late.send().await.unwrap().status().is_success());
    wait_for_status(&app, &said.ts, "processing").await;
    app.demo.start().await.unwrap();
    wait_for_status(&app, &said.ts, "suspended").await;
    // Further starts leave nothing behind.
    app.restart().await;
    let shown_again = "SELECT count(*) FROM outbox WHERE op LIKE '%/waits-again'";
    assert_eq!(app.count(shown_again), 1);
    app.demo.slack.click(ALICE, &asked.ts, "Five").await.unwrap();
    app.wait_for_result(&said.ts, 1).await;
    app.wait_until_idle().await;
    wait_for_status(&app, &said.ts, "active").await;
    assert_eq!(app.demo.slack.problems(), Vec::<String>::new());
}
