//! Agent sessions of Slack: a thread shows that work goes on, with Slack's own Stop button, and always that it has ended.

use crate::support::app::{TestApp, step_number, visible_text};
use drydock::base::config::ChannelSettings;
use drydock::base::model::Secret;
use drydock::simulation::demo::environment::SLACK_CHANNEL;
use drydock::simulation::emulator::model::{AnswerFault, ModelRequest, ScriptedAnswer, calls, says};
use drydock::simulation::emulator::slack::{AgentSession, SayError, SlackFault, SlackState};
use drydock::state::access::Role;
use serde_json::json;
use std::time::Duration;

const ALICE: &str = "U0ALICE";
const BOB: &str = "U0BOB";
const EVE: &str = "U0EVE";
const METHOD: &str = "agents.sessions.setStatus";
const APP_TOKEN: &str = "xapp-1-A0DRYDOCK-1-stage-app-level-token";

/// Returns an answer that the model holds back until it is released.
fn held(_: &ModelRequest) -> ScriptedAnswer {
    says("Here.").with_fault(AnswerFault::Held)
}

/// Returns an answer that lasts longer than a turn without a card.
fn late(words: &str) -> ScriptedAnswer {
    says(words).with_fault(AnswerFault::Delay(Duration::from_secs(1)))
}

fn session(app: &TestApp, thread: &str) -> Option<AgentSession> {
    app.demo
        .slack
        .with_state(|state| session_in(state, thread).cloned())
}

fn session_in<'a>(state: &'a SlackState, thread: &str) -> Option<&'a AgentSession> {
    state.sessions.get(&(SLACK_CHANNEL.to_owned(), thread.to_owned()))
}

fn statuses(app: &TestApp, thread: &str) -> Vec<String> {
    session(app, thread).map_or_else(Vec::new, |session| session.statuses)
}

async fn wait_for_status(app: &TestApp, thread: &str, status: &str) {
    app.wait_for_slack(status, |state| {
        session_in(state, thread)
            .filter(|session| session.status() == status)
            .map(|_| ())
    })
    .await;
}

/// Returns the refusals of the method, in the order of its calls; `None` for a call that had an effect.
fn calls_of_method(app: &TestApp) -> Vec<Option<String>> {
    app.demo.slack.with_state(|state| {
        let calls = state.calls.iter().filter(|call| call.method == METHOD);
        calls.map(|call| call.refused.clone()).collect()
    })
}

#[tokio::test]
async fn a_thread_shows_that_work_goes_on_until_the_result() {
    let mut app = TestApp::new(held).await;
    app.admit_slack_editor(ALICE).await;
    let said = app
        .say(
            ALICE,
            "@drydock what is\n`web`? my key is xoxb-17653672481-19874698323-pdFZKVeTuE8sk7oOcHrzqqgy",
        )
        .await;
    wait_for_status(&app, &said.ts, "processing").await;
    // The card has no button beside that of Slack.
    let card = app.wait_for_slack_reply(&said.ts, "Working, step 1").await;
    assert_eq!(card.buttons(), []);
    let title = session(&app, &said.ts).unwrap().title.unwrap();
    assert!(title.starts_with("what is 'web'? my key is "), "{title}");
    assert!(!title.contains("xoxb"), "{title}");
    app.demo.model.release();
    app.wait_for_result(&said.ts, 1).await;
    app.wait_until_idle().await;
    assert_eq!(statuses(&app, &said.ts), ["processing", "active"]);
    assert_eq!(app.demo.slack.problems(), Vec::<String>::new());
    app.demo.stop().await;
}

#[tokio::test]
async fn a_turn_that_is_over_in_a_moment_and_a_command_have_no_session() {
    let app = TestApp::new(|_: &ModelRequest| says("Here.")).await;
    app.admit_slack_editor(ALICE).await;
    let result = app.ask(ALICE, "hello").await;
    app.run_command_in(ALICE, &result.thread, "!status").await;
    app.wait_until_idle().await;
    assert_eq!(calls_of_method(&app), []);
}

#[tokio::test]
async fn a_thread_of_a_turn_that_fails_shows_no_work_afterwards() {
    let app = TestApp::new(|asked: &ModelRequest| match step_number(asked) {
        0 => calls("file_list", json!({"glob_pattern": "*"}))
            .with_fault(AnswerFault::Delay(Duration::from_secs(1))),
        _ => says("").with_fault(AnswerFault::Status {
            status: 401,
            headers: Vec::new(),
            body: String::new(),
        }),
    })
    .await;
    app.admit_slack_editor(ALICE).await;
    let result = app.ask(ALICE, "hello").await;
    assert!(result.text.contains("No answer"), "{}", result.text);
    app.wait_until_idle().await;
    assert_eq!(statuses(&app, &result.thread), ["processing", "active"]);
}

#[tokio::test]
async fn the_stop_button_of_slack_ends_the_turn_without_a_further_model_request() {
    let app = TestApp::new(held).await;
    app.admit_slack_editor(ALICE).await;
    let said = app.say(ALICE, "hello").await;
    wait_for_status(&app, &said.ts, "processing").await;
    app.wait_for_slack_reply(&said.ts, "Working, step 1").await;
    let slack = &app.demo.slack;
    let answer = slack.stop_session(ALICE, SLACK_CHANNEL, &said.ts).await.unwrap();
    assert_eq!(answer.status, 200);
    let told = app.wait_for_ephemeral(ALICE, 0).await;
    assert!(told.starts_with("Stopping."), "{told}");
    let result = app.wait_for_result(&said.ts, 1).await;
    assert!(result.text.contains("Stopped"), "{}", result.text);
    app.wait_until_idle().await;
    assert_eq!(statuses(&app, &said.ts), ["processing", "active"]);
    assert_eq!(app.model_requests().len(), 1);
    let again = slack.stop_session(ALICE, SLACK_CHANNEL, &said.ts).await;
    assert_eq!(again, Err(SayError::NoButton("Stop".to_owned())));
    assert_eq!(slack.problems(), Vec::<String>::new());
}

#[tokio::test]
async fn the_stop_button_of_slack_works_over_a_socket() {
    let mut app = TestApp::new(held).await;
    app.demo.stop().await;
    app.demo.slack.turn_socket_mode_on(APP_TOKEN);
    let mut config = app.demo.config().unwrap();
    let Some(ChannelSettings::Slack(slack)) = config.channels.get_mut("slack") else {
        panic!("a Slack channel");
    };
    slack.signing_secret = None;
    slack.app_token = Some(Secret::new(APP_TOKEN.to_owned()));
    app.start_with(config).await;
    app.admit_slack_editor(ALICE).await;
    let said = app.say(ALICE, "hello").await;
    wait_for_status(&app, &said.ts, "processing").await;
    app.wait_for_slack_reply(&said.ts, "Working, step 1").await;
    app.demo
        .slack
        .stop_session(ALICE, SLACK_CHANNEL, &said.ts)
        .await
        .unwrap();
    let result = app.wait_for_result(&said.ts, 1).await;
    assert!(result.text.contains("Stopped"), "{}", result.text);
    app.wait_until_idle().await;
    assert_eq!(statuses(&app, &said.ts), ["processing", "active"]);
}

#[tokio::test]
async fn nobody_stops_the_work_of_another_person_with_the_button_of_slack() {
    let app = TestApp::new(held).await;
    app.admit_slack_editor(ALICE).await;
    app.admit_slack_user(BOB, Role::Viewer, &["**"]).await;
    app.add_slack_account(EVE);
    let said = app.say(ALICE, "hello").await;
    wait_for_status(&app, &said.ts, "processing").await;
    app.wait_for_slack_reply(&said.ts, "Working, step 1").await;
    let slack = &app.demo.slack;
    slack.stop_session(EVE, SLACK_CHANNEL, &said.ts).await.unwrap();
    let refused = app.wait_for_ephemeral(EVE, 0).await;
    assert!(refused.contains("slack:T0ACME:U0EVE"), "{refused}");
    slack.stop_session(BOB, SLACK_CHANNEL, &said.ts).await.unwrap();
    let told = app.wait_for_ephemeral(BOB, 0).await;
    assert_eq!(told, "Nothing is running.");
    assert_eq!(statuses(&app, &said.ts), ["processing"]);
    app.demo.model.release();
    let result = app.wait_for_result(&said.ts, 1).await;
    assert!(result.text.contains("Here."), "{}", result.text);
}

/// A second turn within the day does not ask again, and nobody is told of it.
#[tokio::test]
async fn a_workspace_that_refuses_sessions_is_not_asked_again_and_keeps_the_card() {
    let app = TestApp::new(|_: &ModelRequest| late("Here.")).await;
    app.admit_slack_editor(ALICE).await;
    app.demo.slack.withdraw("assistant:write");
    for _ in 0..2 {
        let said = app.say(ALICE, "hello").await;
        let card = app.wait_for_slack_reply(&said.ts, "Working, step 1").await;
        assert_eq!(card.buttons().len(), 1);
        app.wait_for_result(&said.ts, 1).await;
        app.wait_until_idle().await;
        assert_eq!(session(&app, &said.ts), None);
        assert_eq!(app.thread_messages(&said.ts).len(), 2);
    }
    assert_eq!(calls_of_method(&app), [Some("not_authorized".to_owned())]);
    let given_up = app.count("SELECT count(*) FROM outbox WHERE state NOT IN ('delivered', 'dropped')");
    assert_eq!(given_up, 0);
    assert_eq!(app.demo.slack.problems(), Vec::<String>::new());
}

/// Without the event, people would see an indicator that does nothing when they press it.
#[tokio::test]
async fn an_app_that_does_not_get_the_stop_shows_no_work() {
    let app = TestApp::new(|_: &ModelRequest| late("Here.")).await;
    app.admit_slack_editor(ALICE).await;
    app.demo.slack.unsubscribe("agent_session_stopped");
    let first = app.ask(ALICE, "hello").await;
    app.wait_until_idle().await;
    let shown = statuses(&app, &first.thread);
    assert_eq!(shown[..2], ["processing", "active"], "{shown:?}");
    let second = app.ask(ALICE, "hello").await;
    app.wait_until_idle().await;
    assert!(!statuses(&app, &second.thread).contains(&"processing".to_owned()));
}

/// The call that shows the end fails first. It is repeated.
#[tokio::test]
async fn the_end_of_work_is_shown_even_if_slack_is_out_of_service_for_a_moment() {
    let app = TestApp::new(held).await;
    app.admit_slack_editor(ALICE).await;
    let said = app.say(ALICE, "hello").await;
    wait_for_status(&app, &said.ts, "processing").await;
    let lost = SlackFault::Status {
        status: 503,
        retry_after_seconds: None,
    };
    app.demo.slack.fail_next(METHOD, 1, lost);
    app.demo.slack.fail_next(METHOD, 1, SlackFault::ResetBefore);
    app.demo.model.release();
    app.wait_for_result(&said.ts, 1).await;
    wait_for_status(&app, &said.ts, "active").await;
    assert_eq!(statuses(&app, &said.ts), ["processing", "active"]);
}

#[tokio::test]
async fn a_thread_shows_that_the_work_waits_for_an_answer() {
    let app = TestApp::new(|asked: &ModelRequest| match asked.last_results() {
        [] => calls(
            "ask_user",
            json!({"question": "How many?", "choices": ["Three", "Five"], "default": "Three",
            "minutes": 600}),
        )
        .with_fault(AnswerFault::Delay(Duration::from_secs(1))),
        [..] => late("Here."),
    })
    .await;
    app.admit_slack_editor(ALICE).await;
    let said = app.say(ALICE, "more replicas in dev").await;
    wait_for_status(&app, &said.ts, "processing").await;
    let asked = app.wait_for_slack_reply(&said.ts, "I need your decision.").await;
    app.wait_for_slack_reply(&said.ts, "Waiting for your answer")
        .await;
    wait_for_status(&app, &said.ts, "suspended").await;
    app.demo.slack.click(ALICE, &asked.ts, "Five").await.unwrap();
    app.wait_for_result(&said.ts, 1).await;
    app.wait_until_idle().await;
    let shown = statuses(&app, &said.ts);
    assert_eq!(shown.last().unwrap(), "active", "{shown:?}");
    let processing = shown.iter().filter(|status| *status == "processing");
    assert_eq!(processing.count(), 2, "{shown:?}");
}

/// A stopped process leaves the thread as it is; the next one shows the end, whatever the end is.
#[tokio::test]
async fn a_restart_leaves_no_thread_that_shows_work_without_an_end() {
    for (crashes, is_answered) in [(0, true), (3, false)] {
        let mut app = TestApp::new(held).await;
        app.admit_slack_editor(ALICE).await;
        let said = app.say(ALICE, "hello").await;
        wait_for_status(&app, &said.ts, "processing").await;
        app.demo.stop().await;
        assert_eq!(statuses(&app, &said.ts), ["processing"]);
        app.alter_database(&format!(
            "UPDATE inbox SET crashes = {crashes}, own_crashes = {crashes} WHERE done_at IS NULL"
        ));
        app.demo.start().await.unwrap();
        app.demo.model.release();
        app.wait_until_idle().await;
        let shown = app.thread_messages(&said.ts).join("\n");
        assert_eq!(shown.contains("Here."), is_answered, "{shown}");
        assert_eq!(session(&app, &said.ts).unwrap().status(), "active", "{shown}");
    }
}

/// The person has lost access while the program did not run.
#[tokio::test]
async fn a_thread_of_a_person_without_access_shows_no_work_afterwards() {
    let app = TestApp::new(held).await;
    app.admit_slack_editor(ALICE).await;
    let said = app.say(ALICE, "hello").await;
    wait_for_status(&app, &said.ts, "processing").await;
    let card = app.wait_for_slack_reply(&said.ts, "Working, step 1").await;
    app.revoke(ALICE).await;
    app.wait_until_idle().await;
    let card = app
        .demo
        .slack
        .with_state(|state| state.message(SLACK_CHANNEL, &card.ts).cloned());
    assert!(visible_text(&card.unwrap()).contains("Access was revoked."));
    assert_eq!(statuses(&app, &said.ts), ["processing", "active"]);
}
