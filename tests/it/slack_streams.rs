//! Streams of Slack: the calls and words of a turn appear in its card while the model works, and the end is an ordinary
//! message. Where there are no streams, or one is lost, the work is shown in a message that is edited.

use crate::support::app::{TestApp, step_number, visible_text};
use drydock::simulation::demo::environment::SLACK_CHANNEL;
use drydock::simulation::emulator::model::{AnswerFault, ModelRequest, ScriptedAnswer, calls, says};
use drydock::simulation::emulator::slack::{Mention, SlackFault, SlackMessage, SlackState, SlackStream};
use serde_json::{Value, json};
use std::time::Duration;

const ALICE: &str = "U0ALICE";
const START: &str = "chat.startStream";
const APPEND: &str = "chat.appendStream";
const STOP: &str = "chat.stopStream";
/// The beginning of a sentence whose end the model holds back.
const HELD: &str = "At last";
/// The end of the words of an answer.
const END: &str = "content_block_stop";
const CALL: &str = "✓ file_read environments/dev/main.jsonnet";

/// Reads a file once its stream has begun, then writes some sentences and holds back the end of the last one.
fn reads_and_writes(asked: &ModelRequest) -> ScriptedAnswer {
    match step_number(asked) {
        0 => calls("file_read", json!({"path": "environments/dev/main.jsonnet"}))
            .with_fault(AnswerFault::Delay(Duration::from_secs(1))),
        _ => says(format!("I read **one** file. It is short. {HELD} it ends."))
            .with_fault(AnswerFault::HeldBefore(END)),
    }
}

/// Returns an answer that lasts longer than a turn without a card.
fn late(_: &ModelRequest) -> ScriptedAnswer {
    says("Here.").with_fault(AnswerFault::Delay(Duration::from_secs(1)))
}

fn held(_: &ModelRequest) -> ScriptedAnswer {
    says("Here.").with_fault(AnswerFault::Held)
}

/// Returns the refusals of a method, in the order of its calls; `None` for a call that had an effect.
fn calls_of(app: &TestApp, method: &str) -> Vec<Option<String>> {
    app.demo.slack.with_state(|state| {
        let calls = state.calls.iter().filter(|call| call.method == method);
        calls.map(|call| call.refused.clone()).collect()
    })
}

/// Returns the streams of a thread with their messages, oldest first.
fn streams_in(state: &SlackState, thread: &str) -> Vec<(SlackMessage, SlackStream)> {
    let replies = state.replies(SLACK_CHANNEL, thread);
    let streams = replies.filter_map(|message| {
        let stream = state.stream(SLACK_CHANNEL, &message.ts)?;
        Some((message.clone(), stream.clone()))
    });
    streams.collect()
}

fn streams(app: &TestApp, thread: &str) -> Vec<(SlackMessage, SlackStream)> {
    app.demo.slack.with_state(|state| streams_in(state, thread))
}

/// Waits until a stream of a thread shows a text.
async fn wait_for_stream(app: &TestApp, thread: &str, text: &str) -> (SlackMessage, SlackStream) {
    app.wait_for_slack(text, |state| {
        let mut streams = streams_in(state, thread).into_iter();
        streams.find(|(message, _)| visible_text(message).contains(text))
    })
    .await
}

/// Returns the texts of a value in their order.
fn texts_in(value: &Value) -> String {
    match value {
        Value::Array(items) => items.iter().map(texts_in).collect(),
        Value::Object(fields) => {
            let own = fields.get("text").and_then(Value::as_str).unwrap_or_default();
            format!(
                "{own}{}",
                fields.get("elements").map(texts_in).unwrap_or_default()
            )
        }
        _ => String::new(),
    }
}

/// Returns the pieces of words of a stream.
fn words(stream: &SlackStream) -> Vec<String> {
    let blocks = stream
        .chunks
        .iter()
        .filter_map(|chunk| chunk["blocks"].as_array());
    blocks.flatten().map(texts_in).collect()
}

fn statuses(app: &TestApp, thread: &str) -> Vec<String> {
    let key = (SLACK_CHANNEL.to_owned(), thread.to_owned());
    app.demo
        .slack
        .with_state(|state| state.sessions[&key].statuses.clone())
}

#[tokio::test]
async fn the_calls_and_words_of_a_turn_are_streamed_and_its_end_is_a_message() {
    let app = TestApp::new(reads_and_writes).await;
    app.admit_slack_editor(ALICE).await;
    let said = app.say(ALICE, "hello").await;
    let (card, stream) = wait_for_stream(&app, &said.ts, "It is short.").await;
    let shown = visible_text(&card);
    assert!(
        shown.starts_with(&format!("Working, step 2\n{CALL}\n")),
        "{shown}"
    );
    assert!(!shown.contains(HELD), "{shown}");
    assert_eq!((stream.is_open, stream.recipient.as_str()), (true, ALICE));
    assert_eq!(words(&stream).join(" "), "I read one file. It is short.");
    assert_eq!((card.buttons(), card.edits), (Vec::new(), 0));
    app.demo.model.release();
    app.wait_for_result(&said.ts, 1).await;
    app.wait_until_idle().await;
    let [(card, stream)] = streams(&app, &said.ts).try_into().unwrap();
    assert!(!stream.is_open);
    let shown = visible_text(&card);
    assert!(
        shown.starts_with("Done in ") && !shown.contains("short"),
        "{shown}"
    );
    assert_eq!(app.thread_messages(&said.ts).len(), 2);
    assert_eq!(
        (calls_of(&app, START), calls_of(&app, STOP)),
        (vec![None], vec![None])
    );
    assert_eq!(statuses(&app, &said.ts), ["processing", "active"]);
    assert_eq!(app.demo.slack.problems(), Vec::<String>::new());
}

/// A second turn within the day does not ask again, and nobody is told of it.
#[tokio::test]
async fn a_workspace_that_refuses_streams_is_not_asked_again_and_gets_the_card_with_its_button() {
    for code in ["unknown_method", "missing_scope", "not_allowed"] {
        let app = TestApp::new(late).await;
        app.admit_slack_editor(ALICE).await;
        let refused = SlackFault::Refuse(code.to_owned());
        app.demo.slack.fail_next(START, 1, refused);
        for _ in 0..2 {
            let said = app.say(ALICE, "hello").await;
            let card = app.wait_for_slack_reply(&said.ts, "Working, step 1").await;
            assert_eq!(card.buttons().len(), 1, "{code}");
            app.wait_for_result(&said.ts, 1).await;
            app.wait_until_idle().await;
            assert_eq!(streams(&app, &said.ts), [], "{code}");
            assert_eq!(app.thread_messages(&said.ts).len(), 2, "{code}");
        }
        // The only call was the one that failed.
        assert_eq!(calls_of(&app, START), [], "{code}");
        assert_eq!(app.demo.slack.problems(), Vec::<String>::new());
    }
}

/// Without a session, Slack shows no Stop button, so the card needs its own.
#[tokio::test]
async fn a_thread_without_a_session_has_no_stream() {
    let app = TestApp::new(late).await;
    app.admit_slack_editor(ALICE).await;
    app.demo.slack.unsubscribe("agent_session_stopped");
    let said = app.say(ALICE, "hello").await;
    let card = app.wait_for_slack_reply(&said.ts, "Working, step 1").await;
    assert_eq!(card.buttons().len(), 1);
    app.wait_for_result(&said.ts, 1).await;
    assert_eq!(calls_of(&app, START), []);
}

/// If Slack began the stream, it cannot be found again, and Slack ends it. The end of the card is no message of its own,
/// because the result says more.
#[tokio::test]
async fn a_stream_whose_beginning_is_unknown_is_given_up_for_the_final_message() {
    for (fault, left) in [(SlackFault::ResetAfter, 1), (SlackFault::ResetBefore, 0)] {
        let app = TestApp::new(late).await;
        app.admit_slack_editor(ALICE).await;
        app.demo.slack.fail_next(START, 1, fault);
        let said = app.say(ALICE, "hello").await;
        app.wait_for_result(&said.ts, 1).await;
        app.wait_until_idle().await;
        assert_eq!(streams(&app, &said.ts).len(), left);
        let shown = app.thread_messages(&said.ts);
        assert_eq!(shown.len(), 1 + left, "{shown:?}");
        assert!(
            !shown.iter().any(|text| text.starts_with("Done in ")),
            "{shown:?}"
        );
        assert_eq!(app.results(&said.ts).len(), 1);
        assert_eq!(
            statuses(&app, &said.ts).last().map(String::as_str),
            Some("active")
        );
        assert_eq!(app.demo.slack.problems(), Vec::<String>::new());
    }
}

#[tokio::test]
async fn words_are_shown_once_although_the_answer_of_an_append_was_lost() {
    let app = TestApp::new(reads_and_writes).await;
    app.admit_slack_editor(ALICE).await;
    app.demo.slack.fail_next(APPEND, 1, SlackFault::ResetAfter);
    let said = app.say(ALICE, "hello").await;
    let (_, stream) = app
        .wait_for_slack("a second append with all words", |state| {
            let appends = state.calls.iter().filter(|call| call.method == APPEND).count();
            let mut streams = streams_in(state, &said.ts).into_iter();
            let found = streams.find(|(message, _)| visible_text(message).contains("It is short."));
            found.filter(|_| appends >= 2)
        })
        .await;
    assert_eq!(words(&stream).join(" "), "I read one file. It is short.");
    app.demo.model.release();
    app.wait_for_result(&said.ts, 1).await;
    app.wait_until_idle().await;
    assert_eq!(app.thread_messages(&said.ts).len(), 2);
}

#[tokio::test]
async fn the_end_of_a_turn_is_shown_once_although_the_answer_to_its_last_calls_was_lost() {
    for fault in [SlackFault::ResetAfter, SlackFault::ResetBefore] {
        for method in [STOP, "chat.update"] {
            let app = TestApp::new(late).await;
            app.admit_slack_editor(ALICE).await;
            app.demo.slack.fail_next(method, 1, fault.clone());
            let said = app.say(ALICE, "hello").await;
            app.wait_for_result(&said.ts, 1).await;
            app.wait_until_idle().await;
            let [(card, stream)] = streams(&app, &said.ts).try_into().unwrap();
            let shown = visible_text(&card);
            assert!(
                shown.starts_with("Done in ") && !stream.is_open,
                "{method}: {shown}"
            );
            assert_eq!(app.thread_messages(&said.ts).len(), 2, "{method}");
        }
    }
}

/// Nothing is in memory after a restart, so Slack says that the message streams. R1
#[tokio::test]
async fn a_stream_of_before_a_restart_ends_and_its_message_goes_on() {
    let mut app = TestApp::new(held).await;
    app.admit_slack_editor(ALICE).await;
    let said = app.say(ALICE, "hello").await;
    wait_for_stream(&app, &said.ts, "Working, step 1").await;
    app.wait_for_model_requests(1).await;
    app.demo.stop().await;
    let [(_, stream)] = streams(&app, &said.ts).try_into().unwrap();
    assert!(stream.is_open);
    app.demo.start().await.unwrap();
    let card = app.wait_for_slack_reply(&said.ts, "I was restarted").await;
    assert_eq!(card.buttons().len(), 1);
    let [(_, stream)] = streams(&app, &said.ts).try_into().unwrap();
    assert!(!stream.is_open);
    // The work goes on, and so the thread still shows it.
    assert_eq!(statuses(&app, &said.ts).last().unwrap(), "processing");
    app.demo.model.release();
    app.wait_for_result(&said.ts, 1).await;
    app.wait_until_idle().await;
    let shown = app.thread_messages(&said.ts);
    assert!(shown.len() == 2 && shown[0].starts_with("Done in "), "{shown:?}");
    let conflict = Some("streaming_state_conflict".to_owned());
    let refused = calls_of(&app, "chat.update")
        .into_iter()
        .filter(|refused| *refused == conflict);
    assert_eq!(refused.count(), 1);
    assert_eq!(statuses(&app, &said.ts).last().unwrap(), "active");
}

#[tokio::test]
async fn a_message_whose_stream_slack_has_ended_is_edited_from_then_on() {
    let app = TestApp::new(|asked: &ModelRequest| match step_number(asked) {
        0 => {
            calls("file_read", json!({"path": "environments/dev/main.jsonnet"})).with_fault(AnswerFault::Held)
        }
        _ => says("Here.").with_fault(AnswerFault::Stall),
    })
    .await;
    app.admit_slack_editor(ALICE).await;
    let said = app.say(ALICE, "hello").await;
    wait_for_stream(&app, &said.ts, "Working, step 1").await;
    app.wait_for_model_requests(1).await;
    app.demo.slack.end_streams();
    app.demo.model.release();
    let card = app.wait_for_slack_reply(&said.ts, CALL).await;
    assert_eq!((card.buttons().len(), card.edits), (1, 1));
    let refused = Some("message_not_in_streaming_state".to_owned());
    assert_eq!(calls_of(&app, APPEND), [refused]);
    app.say_in(ALICE, &said.ts, "stop").await;
    app.wait_for_result(&said.ts, 1).await;
    app.wait_until_idle().await;
    let shown = app.thread_messages(&said.ts).join("\n");
    assert!(!shown.contains("Working"), "{shown}");
    assert_eq!(calls_of(&app, STOP), []);
}

/// Slack ends the streams of a thread when a person presses its button.
#[tokio::test]
async fn the_stop_button_of_slack_ends_a_stream_and_the_turn() {
    let app = TestApp::new(reads_and_writes).await;
    app.admit_slack_editor(ALICE).await;
    let said = app.say(ALICE, "hello").await;
    wait_for_stream(&app, &said.ts, "It is short.").await;
    app.demo
        .slack
        .stop_session(ALICE, SLACK_CHANNEL, &said.ts)
        .await
        .unwrap();
    let result = app.wait_for_result(&said.ts, 1).await;
    assert!(result.text.contains("Stopped at step 2."), "{}", result.text);
    app.wait_until_idle().await;
    let [(card, stream)] = streams(&app, &said.ts).try_into().unwrap();
    assert!(!stream.is_open && !visible_text(&card).contains("Working"));
    assert_eq!(statuses(&app, &said.ts), ["processing", "active"]);
}

/// T61, T72
#[tokio::test]
async fn what_the_model_writes_notifies_and_links_nobody_in_a_stream() {
    const FORMS: [&str; 9] = [
        "<!channel>",
        "<!here|here>",
        "<@U0BOB>",
        "<!subteam^S0TEAM>",
        "<#C0OPS>",
        "<https://evil.example|https://github.com/acme>",
        "@channel @here @everyone #ops",
        "https://evil.example/?k=CANARY",
        "[a](https://github.com/acme) ![b](https://evil.example/x.png)",
    ];
    let app = TestApp::new(|asked: &ModelRequest| match step_number(asked) {
        0 => calls(
            "file_read",
            json!({"path": "<!channel> https://evil.example/?k=CANARY"}),
        ),
        _ => says(format!("{}.\nThe end. {HELD}", FORMS.join(".\n\n- **a** ")))
            .with_fault(AnswerFault::HeldBefore(END)),
    })
    .await;
    app.admit_slack_editor(ALICE).await;
    let said = app.say(ALICE, "hello").await;
    let (card, stream) = wait_for_stream(&app, &said.ts, "The end.").await;
    let shown = visible_text(&card);
    assert!(shown.contains("✗ file_read <!channel>"), "{shown}");
    assert!(
        words(&stream).concat().contains("@channel @here @everyone #ops"),
        "{shown}"
    );
    let mut states = card.before_edits().collect::<Vec<_>>();
    states.push(card);
    let mentions: Vec<Mention> = states.iter().flat_map(SlackMessage::mentions).collect();
    assert_eq!(mentions, []);
    let kinds = stream.chunks.iter().map(|chunk| chunk["type"].as_str().unwrap());
    assert!(kinds.into_iter().all(|kind| kind != "markdown_text"));
    app.demo.model.release();
    app.wait_for_result(&said.ts, 1).await;
}
