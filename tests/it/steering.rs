//! Tests of messages that people send while a turn runs, and of turns that failed and run again.

use crate::support::app::{TestApp, visible_text};
use drydock::simulation::emulator::model::{
    AnswerFault, ModelRequest, RequestMessage, RequestRole, ScriptedAnswer, calls, queue, says,
};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const ALICE: &str = "U0ALICE";
const BOB: &str = "U0BOB";
/// A delay in which a test sends a message.
const SLOW: AnswerFault = AnswerFault::Delay(Duration::from_millis(1_500));
const STEER: &str = "[Message while you worked:]\n";

fn status() -> ScriptedAnswer {
    calls("git_status", json!({}))
}

/// Sets the replicas of dev from two to four.
fn edit() -> ScriptedAnswer {
    let of = |count: u32| format!("web:1.8.3',\n    replicas: {count},");
    let arguments = json!({ "path": "environments/dev/main.jsonnet", "old": of(2), "new": of(4) });
    calls("file_edit", arguments)
}

/// Returns the text that follows the results of the last step.
fn steered(asked: &ModelRequest) -> &str {
    match asked.messages.last() {
        Some(RequestMessage { text, results, .. }) if !results.is_empty() => text,
        _ => "",
    }
}

/// Returns how often a text is in the messages of the user in a request.
fn times(asked: &ModelRequest, text: &str) -> usize {
    let said = asked.messages.iter();
    let said = said.filter(|message| message.role == RequestRole::User);
    said.map(|message| message.text.matches(text).count()).sum()
}

/// The message is in the next model request, and one answer covers both.
#[tokio::test]
async fn a_message_while_a_turn_runs_reaches_its_next_step() {
    let script = [
        status().with_fault(SLOW),
        // The card is edited at most every three seconds.
        says("Checked, with reasons.").with_fault(AnswerFault::Delay(Duration::from_secs(5))),
        status().with_fault(SLOW),
        says("Checked, with reasons."),
    ];
    let app = TestApp::new(queue(script)).await;
    app.admit_slack_editor(ALICE).await;
    app.admit_telegram_editor(4_201).await;
    let said = app.say(ALICE, "check the files").await;
    app.wait_for_model_requests(1).await;
    app.say_in(ALICE, &said.ts, "and give reasons").await;
    let card = app
        .wait_for_slack_reply(&said.ts, "✓ your message: and give reasons")
        .await;
    assert!(!visible_text(&card).contains("waiting"), "{card:?}");
    let result = app.wait_for_result(&said.ts, 1).await;
    assert!(result.text.contains("Checked, with reasons."), "{}", result.text);
    assert_eq!(
        steered(&app.model_requests()[1]),
        format!("{STEER}and give reasons")
    );

    app.demo.telegram.say(4_201, 4_201, "check the files").await;
    app.wait_for_model_requests(3).await;
    app.demo.telegram.say(4_201, 4_201, "and give reasons").await;
    app.wait_for_telegram_message(4_201, "Checked, with reasons.")
        .await;
    assert_eq!(
        steered(&app.model_requests()[3]),
        format!("{STEER}and give reasons")
    );

    app.wait_until_idle().await;
    assert_eq!(app.results(&said.ts).len(), 1);
    assert!(!app.all_slack_output().contains("Queued"));
    assert_eq!(app.count("SELECT count(*) FROM turn"), 2);
    let done = "SELECT count(*) FROM inbox WHERE taken_by IS NOT NULL AND inbound = ''";
    assert_eq!(app.count(done), 2);
}

/// A message that arrives with the last answer of the model is answered as well, in the same turn.
#[tokio::test]
async fn an_answer_waits_for_a_message_that_came_while_it_was_written() {
    let script = [
        edit(),
        says("Four replicas.").with_fault(SLOW),
        says("Four replicas, because of the load."),
    ];
    let app = TestApp::new(queue(script)).await;
    app.admit_slack_editor(ALICE).await;
    let said = app.say(ALICE, "four replicas in dev").await;
    app.wait_for_model_requests(2).await;
    app.say_in(ALICE, &said.ts, "say why").await;
    let result = app.wait_for_result(&said.ts, 1).await;
    assert!(result.text.contains("because of the load"), "{}", result.text);
    assert!(result.text.contains("CHG-1 is ready"), "{}", result.text);
    let asked = &app.model_requests()[2];
    let last = asked.messages.last().unwrap();
    assert!(
        last.text
            .starts_with("[Message while you worked. Your last answer was not sent"),
        "{}",
        last.text
    );
    assert!(last.text.ends_with("]\nsay why"), "{}", last.text);
    app.wait_until_idle().await;
    assert_eq!(app.results(&said.ts).len(), 1);
}

/// The person's own words are the user's, a quote is data, and a secret is neither.
#[tokio::test]
async fn a_steering_message_is_treated_like_the_message_that_began_the_turn() {
    let app = TestApp::new(queue([status().with_fault(SLOW), says("Done.")])).await;
    app.admit_telegram_editor(4_201).await;
    app.demo.telegram.say(4_201, 4_201, "check the files").await;
    app.wait_for_model_requests(1).await;
    let secret = "ghp_0123456789abcdefghijklmnopqrstuvwxyz";
    let words = format!("infra: use {secret} for it");
    app.demo.telegram.say(4_201, 4_201, &words).await;
    app.wait_for_telegram_message(4_201, "Done.").await;
    let asked = &app.model_requests()[1];
    // The repository is named as at the beginning of a turn.
    assert!(
        steered(asked).starts_with(&format!("{STEER}use ")),
        "{}",
        steered(asked)
    );
    assert!(!asked.raw.contains(secret), "{}", asked.raw);
    app.wait_until_idle().await;
    let stored = app
        .column("SELECT said FROM turn UNION ALL SELECT step FROM step UNION ALL SELECT inbound FROM inbox");
    assert!(!stored.iter().any(|text| text.contains(secret)), "{stored:?}");
}

#[tokio::test]
async fn a_message_with_queue_waits_for_its_own_turn() {
    let app = TestApp::new(|asked: &ModelRequest| match asked.last_user_text() {
        "check the files" if asked.messages.len() == 1 => status().with_fault(SLOW),
        "check the files" => says("Checked."),
        words => says(format!("heard: {words}")),
    })
    .await;
    app.admit_slack_editor(ALICE).await;
    let said = app.say(ALICE, "check the files").await;
    app.wait_for_model_requests(1).await;
    app.say_in(ALICE, &said.ts, "queue: then the notes").await;
    app.wait_for_slack_reply(&said.ts, "Queued (1 ahead).").await;
    let first = app.wait_for_result(&said.ts, 1).await;
    assert!(first.text.contains("Checked."), "{}", first.text);
    let second = app.wait_for_result(&said.ts, 2).await;
    assert!(second.text.contains("heard: then the notes"), "{}", second.text);
    assert_eq!(times(&app.model_requests()[1], "notes"), 0);
    let empty = app.run_command_in(ALICE, &said.ts, "queue:").await;
    assert!(
        empty.starts_with("Say what I should do after the running work"),
        "{empty}"
    );
    let help = app.run_command_in(ALICE, &said.ts, "!help").await;
    assert!(
        help.contains("A message while I work reaches me at my next step; one that begins with queue: waits"),
        "{help}"
    );
}

/// A stop promises that waiting messages are kept.
#[tokio::test]
async fn a_stopped_turn_takes_no_message() {
    let app = TestApp::new(|asked: &ModelRequest| match asked.last_user_text() {
        "stall" => says("Never.").with_fault(AnswerFault::Stall),
        words => says(format!("heard: {words}")),
    })
    .await;
    app.admit_slack_editor(ALICE).await;
    let said = app.say(ALICE, "stall").await;
    app.wait_for_model_requests(1).await;
    app.say_in(ALICE, &said.ts, "something else").await;
    app.say_in(ALICE, &said.ts, "!stop").await;
    app.wait_for_slack_reply(&said.ts, "1 more waiting; I continue with those.")
        .await;
    let stopped = app.wait_for_result(&said.ts, 1).await;
    assert!(stopped.text.contains("Stopped at step 1."), "{}", stopped.text);
    let other = app.wait_for_result(&said.ts, 2).await;
    assert!(other.text.contains("heard: something else"), "{}", other.text);
}

/// A message that a stopped turn had taken is part of the conversation, and no second answer follows.
#[tokio::test]
async fn a_taken_message_is_not_answered_again_after_a_stop_and_is_kept_for_a_retry() {
    let app = TestApp::new(queue([
        status().with_fault(SLOW),
        says("Never.").with_fault(AnswerFault::Stall),
        says("Both done."),
    ]))
    .await;
    app.admit_slack_editor(ALICE).await;
    let said = app.say(ALICE, "check the files").await;
    app.wait_for_model_requests(1).await;
    app.say_in(ALICE, &said.ts, "and the notes").await;
    app.wait_for_model_requests(2).await;
    app.say_in(ALICE, &said.ts, "!stop").await;
    let stopped = app.wait_for_result(&said.ts, 1).await;
    assert!(stopped.text.contains("Stopped at step 2."), "{}", stopped.text);
    app.wait_until_idle().await;
    assert_eq!(app.model_requests().len(), 2);
    app.say_in(ALICE, &said.ts, "!retry").await;
    app.wait_for_slack_reply(
        &said.ts,
        "I go on with your last message; 1 finished step is kept.",
    )
    .await;
    let done = app.wait_for_result(&said.ts, 2).await;
    assert!(done.text.contains("Both done."), "{}", done.text);
    let asked = &app.model_requests()[2];
    assert_eq!(
        (times(asked, "check the files"), times(asked, "and the notes")),
        (1, 1)
    );
    assert_eq!(
        asked.messages.len(),
        3,
        "the message, its finished step and the results"
    );
}

/// SDK-10: a message of another person in the thread has its own conversation.
#[tokio::test]
async fn another_person_in_the_thread_does_not_reach_the_turn() {
    let app = TestApp::new(|asked: &ModelRequest| match asked.last_user_text() {
        "check the files" if asked.messages.len() == 1 => status().with_fault(SLOW),
        words => says(format!("heard: {words}")),
    })
    .await;
    app.admit_slack_editor(ALICE).await;
    app.admit_slack_editor(BOB).await;
    let said = app.say(ALICE, "check the files").await;
    app.wait_for_model_requests(1).await;
    app.say_in(BOB, &said.ts, "@drydock tell me all").await;
    app.start_own(BOB).await;
    app.wait_for_result(&said.ts, 2).await;
    for asked in app.model_requests() {
        assert_eq!(times(&asked, "check the files") * times(&asked, "tell me all"), 0);
    }
}

/// R10: what the provider refused runs again by the button, and finished steps are not paid again.
#[tokio::test]
async fn a_turn_that_the_provider_failed_runs_again_after_its_finished_steps() {
    let overloaded = Arc::new(AtomicBool::new(true));
    let script = {
        let overloaded = Arc::clone(&overloaded);
        move |asked: &ModelRequest| match (asked.messages.len(), overloaded.load(Ordering::SeqCst)) {
            (1, _) => edit(),
            (_, true) => says("Never.").with_fault(AnswerFault::Status {
                status: 529,
                headers: vec![("retry-after".to_owned(), "0".to_owned())],
                body: String::new(),
            }),
            (_, false) => says("Four replicas."),
        }
    };
    let app = TestApp::with_settings(script, &[("providers.anthropic.attempts_max", "1")]).await;
    app.admit_slack_editor(ALICE).await;
    let failed = app.ask(ALICE, "four replicas in dev").await;
    assert!(
        failed
            .text
            .contains("No answer: the model provider is overloaded (529)."),
        "{}",
        failed.text
    );
    let labels = |text: &drydock::simulation::emulator::slack::SlackMessage| -> Vec<String> {
        text.buttons().into_iter().map(|button| button.label).collect()
    };
    assert_eq!(
        labels(&failed.message),
        ["Retry", "Get patch", "Full diff", "Revise", "Discard"]
    );
    let before = app.model_requests().len();
    overloaded.store(false, Ordering::SeqCst);
    app.wait_until_idle().await;
    app.demo
        .slack
        .click(ALICE, &failed.message.ts, "Retry")
        .await
        .unwrap();
    app.wait_for_slack_reply(
        &failed.thread,
        "I go on with your last message; 1 finished step is kept.",
    )
    .await;
    let done = app.wait_for_result(&failed.thread, 2).await;
    assert!(done.text.contains("Four replicas."), "{}", done.text);
    assert!(done.text.contains("CHG-1 stays as it was"), "{}", done.text);
    let asked = app.model_requests();
    assert_eq!(asked.len(), before + 1);
    let last = asked.last().unwrap();
    assert_eq!((last.messages.len(), times(last, "four replicas in dev")), (3, 1));
    assert_eq!(last.last_results().len(), 1);
    // The button works once, and the word only after a failure.
    app.wait_until_idle().await;
    app.demo
        .slack
        .click(ALICE, &failed.message.ts, "Retry")
        .await
        .unwrap();
    app.wait_until_idle().await;
    let answered = app.run_command_in(ALICE, &failed.thread, "!retry").await;
    assert!(
        answered.starts_with("Your last message was answered"),
        "{answered}"
    );
    assert_eq!(app.model_requests().len(), before + 1);
    // The next message sees one turn, not two.
    let next = app.ask_in(ALICE, &failed.thread, "thanks").await;
    assert!(next.text.contains("Four replicas."), "{}", next.text);
    let last = app.model_requests().pop().unwrap();
    assert_eq!(times(&last, "four replicas in dev"), 1);
}

#[tokio::test]
async fn a_retry_needs_a_failed_message_of_its_own_conversation() {
    let app = TestApp::new(|_: &ModelRequest| says("Here.")).await;
    app.admit_slack_editor(ALICE).await;
    app.admit_slack_editor(BOB).await;
    let said = app.ask(ALICE, "hello").await;
    let foreign = app.run_command_in(BOB, &said.thread, "@drydock retry").await;
    assert!(
        foreign.starts_with("There is no message here to work on again."),
        "{foreign}"
    );
    let own = app.run_command_in(ALICE, &said.thread, "!retry").await;
    assert!(own.starts_with("Your last message was answered"), "{own}");
    assert_eq!(app.model_requests().len(), 1);
}
