//! Tests of the output for people when something breaks: a short sentence and a reference, never a path. The next
//! message works.

use crate::support::app::{TestApp, step_number};
use drydock::simulation::demo::environment::SLACK_CHANNEL;
use drydock::simulation::emulator::model::{AnswerFault, ModelRequest, calls, queue, says};
use drydock::state::access::Role;
use serde_json::json;
use std::time::Duration;

const ALICE: &str = "U0ALICE";
/// A delay after which a turn gets a card.
const LONG_ENOUGH_FOR_A_CARD: AnswerFault = AnswerFault::Delay(Duration::from_secs(2));

/// Returns true if one line of a text matches `^.{1,200} \(ref [0-9a-f]{8}\)$`.
fn has_reference(text: &str) -> bool {
    let pattern = regex::Regex::new(r"(?m)^.{1,200} \(ref [0-9a-f]{8}\)$").unwrap();
    pattern.is_match(text)
}

fn assert_says_little(app: &TestApp, text: &str) {
    assert!(has_reference(text), "{text}");
    let directory = app.demo.directory().to_string_lossy().into_owned();
    for hidden in [
        directory.as_str(),
        "/tmp",
        "SQL",
        "sqlite",
        "no such table",
        "src/",
        "usage",
    ] {
        assert!(!text.contains(hidden), "{hidden}: {text}");
    }
}

/// T90
#[tokio::test]
async fn a_step_that_cannot_be_recorded_shows_a_reference_and_nothing_else() {
    let app = TestApp::new(queue([calls("git_status", json!({})), says("Found.")])).await;
    app.admit_slack_editor(ALICE).await;
    app.alter_database("ALTER TABLE usage RENAME TO usage_gone");
    let result = app.ask(ALICE, "hello").await;
    assert_says_little(&app, &result.text);
    let command = app.run_slash_command(ALICE, "usage").await;
    assert_says_little(&app, &command);
    app.alter_database("ALTER TABLE usage_gone RENAME TO usage");
    let again = app.ask_in(ALICE, &result.thread, "hello again").await;
    assert!(again.text.contains("Found."), "{}", again.text);
}

/// R28
#[tokio::test]
async fn a_turn_that_ran_out_of_time_says_so_and_releases_its_conversation() {
    let script = queue([says("never").with_fault(AnswerFault::Stall), says("Here.")]);
    let app = TestApp::with_settings(script, &[("limits.turn_seconds_max", "4")]).await;
    app.admit_slack_editor(ALICE).await;
    let late = app.ask(ALICE, "hello").await;
    assert!(
        late.text.contains("I stopped after 4 s without an answer."),
        "{}",
        late.text
    );
    let again = app.ask_in(ALICE, &late.thread, "hello again").await;
    assert!(again.text.contains("Here."), "{}", again.text);
    app.wait_until_idle().await;
    let claimed = "SELECT COUNT(*) FROM conversation WHERE owner IS NOT NULL";
    assert_eq!(app.count(claimed), 0);
}

#[tokio::test]
async fn a_message_is_claimed_by_the_commit_that_stores_it() {
    let app = TestApp::new(|_: &ModelRequest| says("Here.")).await;
    app.admit_slack_editor(ALICE).await;
    // A conversation that exists already cannot be claimed.
    app.alter_database(
        "CREATE TRIGGER unclaimed BEFORE UPDATE OF owner ON conversation BEGIN SELECT RAISE(ABORT, 'no'); END",
    );
    let result = app.ask(ALICE, "hello").await;
    assert!(result.text.contains("Here."), "{}", result.text);
    app.alter_database("DROP TRIGGER unclaimed");
}

#[tokio::test]
async fn a_recording_that_cannot_be_written_ends_no_turn() {
    let app = TestApp::new(queue([calls("git_status", json!({})), says("Here.")])).await;
    app.admit_slack_editor(ALICE).await;
    let sessions = app.demo.data().join("sessions");
    let _ = std::fs::remove_dir_all(&sessions);
    std::fs::write(&sessions, "not a directory").unwrap();
    let result = app.ask(ALICE, "hello").await;
    assert!(result.text.contains("Here."), "{}", result.text);
}

/// P1, I1
#[tokio::test]
async fn a_message_that_did_not_reach_the_disk_is_not_acknowledged_and_shows_nothing_before_the_restart() {
    let mut app = TestApp::new(|_: &ModelRequest| says("Here.")).await;
    app.admit_slack_editor(ALICE).await;
    app.wait_until_idle().await;
    // The next commit that waits for the disk also syncs all earlier writes.
    app.invite("bob", Role::Viewer, &[]).await;
    // A file that the system does not sync replaces the log now.
    let log = app.demo.data().join("drydock.db-wal");
    let aside = app.demo.data().join("aside");
    std::fs::rename(&log, &aside).unwrap();
    std::os::unix::fs::symlink("/dev/null", &log).unwrap();
    let said = app.say(ALICE, "hello").await;
    let statuses: Vec<u16> = said.answers.iter().map(|answer| answer.status).collect();
    assert_eq!(statuses, [503, 503]);
    let shown = |app: &TestApp| {
        app.demo.slack.with_state(|state| {
            let asked = state.message(SLACK_CHANNEL, &said.ts).unwrap();
            (
                asked.reactions.len(),
                state.replies(SLACK_CHANNEL, &said.ts).count(),
            )
        })
    };
    assert_eq!(shown(&app), (0, 0));
    std::fs::remove_file(&log).unwrap();
    std::fs::rename(&aside, &log).unwrap();
    app.restart().await;
    // It was stored, and is answered once.
    let result = app.wait_for_result(&said.ts, 1).await;
    assert!(result.text.contains("Here."), "{}", result.text);
    app.run_command_in(ALICE, &said.ts, "!status").await;
    assert_eq!((app.results(&said.ts).len(), shown(&app).1), (1, 3));
}

/// Returns a fault with which Slack asks to wait for this number of seconds.
fn busy(seconds: u64) -> drydock::simulation::emulator::slack::SlackFault {
    drydock::simulation::emulator::slack::SlackFault::Status {
        status: 429,
        retry_after_seconds: Some(seconds),
    }
}

/// Checks the case that Slack does not allow reading: the result and the final text of its card are edits that are sent
/// together. R9
#[tokio::test]
async fn an_edit_that_slack_refuses_for_now_is_made_again_and_so_is_what_waits_behind_it() {
    let app = TestApp::new(|_: &ModelRequest| says("Here.").with_fault(LONG_ENOUGH_FOR_A_CARD)).await;
    let app = app.without_history().await;
    app.admit_slack_editor(ALICE).await;
    app.demo.slack.fail_next("chat.update", 1, busy(0));
    let result = app.ask(ALICE, "hello").await;
    assert!(result.text.contains("Here."), "{}", result.text);
    app.wait_for_slack_reply(&result.thread, "the result is below")
        .await;
    assert_eq!(app.results(&result.thread).len(), 1);
}

#[tokio::test]
async fn a_result_that_waits_for_its_card_at_an_orderly_stop_comes_with_its_first_line() {
    let app = TestApp::new(|_: &ModelRequest| says("Here.").with_fault(LONG_ENOUGH_FOR_A_CARD)).await;
    let mut app = app.without_history().await;
    app.admit_slack_editor(ALICE).await;
    app.demo.slack.forget_method("chat.startStream");
    app.demo.slack.fail_next("chat.postMessage", 1, busy(30));
    let said = app.say(ALICE, "hello").await;
    app.wait_for_audit_line("turn.finished").await;
    assert_eq!(app.results(&said.ts).len(), 0);
    app.restart().await;
    app.wait_for_result(&said.ts, 1).await;
    // The line that mentions the person was posted first, and edited into the result.
    let result = app.wait_for_slack_reply(&said.ts, "Here.").await;
    assert_eq!(result.edits, 1);
}

/// T90, SDK-5
#[tokio::test]
async fn a_repository_that_is_gone_is_named_without_its_path() {
    let app = TestApp::new(|_: &ModelRequest| says("Here.")).await;
    app.admit_slack_editor(ALICE).await;
    let moved = app.demo.directory().join("elsewhere.git");
    std::fs::rename(app.demo.repository(), &moved).unwrap();
    let said = app.say(ALICE, "hello").await;
    let reported = app
        .wait_for_slack("an answer", |state| {
            let mut replies = state.replies(drydock::simulation::demo::environment::SLACK_CHANNEL, &said.ts);
            let reported = |message: &&drydock::simulation::emulator::slack::SlackMessage| {
                !message.request.is_null() && !crate::support::app::visible_text(message).contains("Working")
            };
            replies.find(reported).map(crate::support::app::visible_text)
        })
        .await;
    assert!(
        reported.contains("infra") && !reported.contains(&*app.demo.directory().to_string_lossy()),
        "{reported}"
    );
    std::fs::rename(&moved, app.demo.repository()).unwrap();
    let again = app.ask_in(ALICE, &said.ts, "hello again").await;
    assert!(again.text.contains("Here."), "{}", again.text);
}

#[tokio::test]
async fn a_provider_that_refuses_is_named_and_the_next_message_works() {
    let refused = AnswerFault::Status {
        status: 401,
        headers: Vec::new(),
        body: r#"{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}"#
            .to_owned(),
    };
    let app = TestApp::new(queue([says("").with_fault(refused), says("Back again.")])).await;
    app.admit_slack_editor(ALICE).await;
    let result = app.ask(ALICE, "hello").await;
    assert!(result.text.contains("No answer: "), "{}", result.text);
    assert!(!result.text.contains("sk-ant"), "{}", result.text);
    let again = app.ask_in(ALICE, &result.thread, "hello again").await;
    assert!(again.text.contains("Back again."), "{}", again.text);
}

/// R8, R10, R11
#[tokio::test]
async fn trouble_with_a_provider_is_named_by_what_it_is() {
    let status = |status: u16| AnswerFault::Status {
        status,
        headers: vec![("retry-after".to_owned(), "0".to_owned())],
        body: String::new(),
    };
    let troubles = [
        (status(500), "No answer: the model provider has a fault (500)."),
        (status(503), "No answer: the model provider is overloaded (503)."),
        (status(529), "No answer: the model provider is overloaded (529)."),
        (
            status(429),
            "No answer: the model provider is rate-limiting (429).",
        ),
        (
            AnswerFault::Malformed,
            "No answer: the answer is not in the provider's format: ask again; if the failure remains, check that \
             `providers.anthropic.base_url` is the address of the API.",
        ),
        (
            AnswerFault::EndAfter(100),
            "No answer: the answer of the model provider was interrupted.",
        ),
    ];
    let lines = troubles
        .clone()
        .map(|(fault, _)| says("Never.").with_fault(fault));
    let app = TestApp::with_settings(queue(lines), &[("providers.anthropic.attempts_max", "1")]).await;
    app.admit_slack_editor(ALICE).await;
    for (fault, expected) in troubles {
        let reported = app.ask(ALICE, "hello").await.text;
        let plain = reported.replace('`', "");
        assert!(
            plain.contains(&expected.replace('`', "")),
            "{fault:?}: {reported}"
        );
    }
}

#[tokio::test]
async fn a_restart_in_the_middle_of_a_turn_answers_the_message_exactly_once() {
    let mut before = Some(());
    let app = TestApp::new(
        move |asked: &ModelRequest| match (before.take(), step_number(asked)) {
            (Some(()), _) => says("Lost in the restart.").with_fault(AnswerFault::Stall),
            (None, 0) => calls(
                "file_write",
                json!({"path": "environments/dev/new.txt", "content": "once\n"}),
            ),
            (None, _) => says("Found again."),
        },
    );
    let mut app = app.await;
    app.admit_slack_editor(ALICE).await;
    app.admit_telegram_editor(4_201).await;
    let said = app.say(ALICE, "write it").await;
    app.wait_for_model_requests(1).await;
    app.restart().await;
    let result = app.wait_for_result(&said.ts, 1).await;
    assert!(result.text.contains("Found again."), "{}", result.text);
    assert!(
        result.text.contains("CHG-1 is ready: 1 file, +1 −0"),
        "{}",
        result.text
    );
    // Later output of this conversation comes after this answer. Then there must still be one result.
    app.run_command_in(ALICE, &said.ts, "!status").await;
    assert_eq!(app.results(&said.ts).len(), 1);
    assert_eq!(app.count("SELECT count(*) FROM change"), 1);
    assert_eq!(app.count("SELECT count(*) FROM inbox WHERE done_at IS NULL"), 0);
}

/// STK-57
#[tokio::test]
async fn a_restart_in_the_middle_of_tool_work_keeps_what_was_done() {
    let mut stalled = false;
    let mut app = TestApp::new(move |asked: &ModelRequest| {
        let words = asked.last_user_text();
        if words.contains("status") {
            return says("Nothing more.");
        }
        match step_number(asked) {
            0 => calls(
                "file_write",
                json!({"path": "environments/dev/new.txt", "content": "once\n"}),
            ),
            _ if !stalled => {
                stalled = true;
                says("").with_fault(AnswerFault::Delay(Duration::from_secs(600)))
            }
            _ => says("Done after all."),
        }
    })
    .await;
    app.admit_slack_editor(ALICE).await;
    let said = app.say(ALICE, "write it").await;
    app.wait_for_model_requests(2).await;
    app.restart().await;
    let result = app.wait_for_result(&said.ts, 1).await;
    assert!(result.text.contains("Done after all."), "{}", result.text);
    assert!(result.text.contains("1 file, +1 −0"), "{}", result.text);
    assert_eq!(app.results(&said.ts).len(), 1);
}
