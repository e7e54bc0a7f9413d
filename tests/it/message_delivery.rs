//! Messages between people that a kill, a block or a failed turn meets, and the form in which they are read.

use crate::messages::{ALICE, BOB, ON, block, direct, last_request, own_words, sends};
use crate::support::app::{TestApp, visible_text};
use drydock::simulation::emulator::model::{AnswerFault, ModelRequest, says};
use drydock::simulation::emulator::slack::SlackFault;
use drydock::state::access::Role;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// R1: the process ends after the message was sent, and while its recipient's turn reads it.
#[tokio::test]
async fn a_message_is_sent_and_read_once_when_the_process_ends_in_between() {
    let stalls = Arc::new(AtomicBool::new(false));
    let stalling = Arc::clone(&stalls);
    let script = move |asked: &ModelRequest| match sends(asked) {
        answer if answer.calls.is_empty() && stalling.load(Ordering::SeqCst) => {
            answer.with_fault(AnswerFault::Stall)
        }
        answer => answer,
    };
    // What the process had not stored is gone.
    let forget = "UPDATE turn SET finished_at = NULL, verdict = NULL, source = NULL WHERE inbox IN
                  (SELECT id FROM inbox WHERE done_at IS NULL)";
    let mut app = TestApp::with_settings(script, &ON).await;
    app.admit_slack_editor(ALICE).await;
    app.admit_slack_editor(BOB).await;
    direct(&app, BOB, "hello", "Nothing to do.").await;
    direct(&app, BOB, "!accept U0ALICE", "Accepted").await;
    stalls.store(true, Ordering::SeqCst);
    let said = app.say(ALICE, "send U0BOB: the freeze ends").await;
    app.wait_for_model_requests(3).await;
    app.demo.stop().await;
    app.alter_database(forget);
    app.demo.start().await.unwrap();
    app.wait_for_model_requests(4).await;
    let requests = app.model_requests();
    // The turn goes on after the step that sent, and its model knows of it.
    assert_eq!(requests[3].messages, requests[2].messages);
    assert_eq!(app.count("SELECT COUNT(*) FROM person_message"), 1);
    assert_eq!(
        app.count("SELECT COUNT(*) FROM outbox WHERE op LIKE '%/message-%'"),
        1
    );
    app.say_in(ALICE, &said.ts, "!stop").await;
    app.wait_for_result(&said.ts, 1).await;
    app.wait_until_idle().await;

    app.demo.slack.dm(BOB, "what is new?").await.unwrap();
    app.wait_for_model_requests(5).await;
    app.demo.stop().await;
    app.alter_database(forget);
    stalls.store(false, Ordering::SeqCst);
    app.demo.start().await.unwrap();
    app.wait_for_model_requests(6).await;
    app.wait_until_idle().await;
    let requests = app.model_requests();
    let expected = format!("{}\n\nwhat is new?", block(ALICE, "the freeze ends"));
    for request in &requests[4..6] {
        assert_eq!(request.last_user_text(), expected);
    }
    direct(&app, BOB, "and now?", "Nothing to do.").await;
    assert_eq!(last_request(&app).last_user_text(), "and now?");
}

/// T28
#[tokio::test]
async fn a_message_that_waits_for_its_delivery_is_not_shown_after_a_block() {
    const BOB: i64 = 4_201;
    let app = TestApp::with_settings(sends, &ON).await;
    app.admit_slack_editor(ALICE).await;
    app.admit_telegram_editor(BOB).await;
    direct(&app, ALICE, "hello", "Nothing to do.").await;
    direct(&app, ALICE, &format!("!accept t{BOB}"), "Accepted: ").await;
    app.wait_until_idle().await;
    let busy = SlackFault::Status {
        status: 429,
        retry_after_seconds: Some(3),
    };
    app.demo.slack.fail_all("chat.postMessage", busy);
    app.ask_telegram(BOB, "send u0alice: the freeze ends").await;
    assert_eq!(app.count("SELECT COUNT(*) FROM person_message"), 1);
    app.demo.slack.dm(ALICE, &format!("!block t{BOB}")).await.unwrap();
    app.wait_for_audit_line("message.blocked").await;
    app.demo.slack.recover("chat.postMessage");
    let channel = format!("D{ALICE}");
    app.wait_for_slack_message(&channel, "Blocked: ").await;
    app.wait_until_idle().await;
    let shown = app.demo.slack.with_state(|state| {
        let messages = state.messages.iter().filter(|message| message.channel == channel);
        messages.map(visible_text).collect::<Vec<_>>()
    });
    assert!(
        !shown.iter().any(|text| text.contains("the freeze ends")),
        "{shown:?}"
    );
}

/// T28
#[tokio::test]
async fn a_retried_request_has_its_message_once_and_as_data() {
    const BOB: i64 = 4_201;
    let overloaded = Arc::new(AtomicBool::new(false));
    let fails = Arc::clone(&overloaded);
    let script = move |asked: &ModelRequest| match fails.load(Ordering::SeqCst) {
        true => says("Never.").with_fault(AnswerFault::Status {
            status: 529,
            headers: vec![("retry-after".to_owned(), "0".to_owned())],
            body: String::new(),
        }),
        false => sends(asked),
    };
    let settings = [ON[0], ("providers.anthropic.attempts_max", "1")];
    let app = TestApp::with_settings(script, &settings).await;
    app.admit_slack_editor(ALICE).await;
    app.admit_telegram_editor(BOB).await;
    app.ask_telegram(BOB, "hello").await;
    let accepted = app.run_telegram_command(BOB, "/accept u0alice").await;
    assert!(accepted.starts_with("Accepted: "), "{accepted}");
    app.ask(ALICE, &format!("send t{BOB}: the freeze ends")).await;
    app.wait_for_telegram_message(BOB, "Message from U0ALICE:").await;
    overloaded.store(true, Ordering::SeqCst);
    app.demo.telegram.say(BOB, BOB, "what is new?").await;
    app.wait_for_telegram_message(BOB, "No answer: ").await;
    app.wait_until_idle().await;
    overloaded.store(false, Ordering::SeqCst);
    let asked = app.model_requests().len();
    app.demo.telegram.say(BOB, BOB, "/retry").await;
    app.wait_for_model_requests(asked + 1).await;
    app.wait_until_idle().await;
    let retried = last_request(&app);
    let expected = format!("{}\n\nwhat is new?", block(ALICE, "the freeze ends"));
    assert_eq!(retried.last_user_text(), expected);
    let blocks = retried
        .messages
        .iter()
        .map(|message| message.text.matches("<from principal").count());
    assert_eq!(blocks.sum::<usize>(), 1);
}

/// T28
#[tokio::test]
async fn the_words_of_another_person_stay_apart_in_a_message_with_much_markup() {
    const BOB: i64 = 4_201;
    let app = TestApp::with_settings(sends, &ON).await;
    app.admit_slack_editor(ALICE).await;
    app.admit_telegram_editor(BOB).await;
    app.ask_telegram(BOB, "hello").await;
    app.run_telegram_command(BOB, "/accept u0alice").await;
    // More marks than one message of Telegram can have.
    let marks = "`a` ".repeat(170);
    let text = format!("{marks}CHG-9 is ready");
    app.ask(ALICE, &format!("send t{BOB}: {text}")).await;
    let shown = app.wait_for_telegram_message(BOB, "CHG-9 is ready").await;
    assert!(shown.text.starts_with("Message from U0ALICE:"), "{}", shown.text);
    assert!(
        shown.entities.iter().any(|entity| entity["type"] == "pre"),
        "{:?}",
        shown.entities
    );
}

/// T28
#[tokio::test]
async fn a_sender_whose_name_others_have_is_shown_with_an_id() {
    const BOB: i64 = 4_201;
    let app = TestApp::with_settings(sends, &ON).await;
    app.admit_slack_editor(ALICE).await;
    app.admit_slack_editor("U0CAROL").await;
    app.admit_telegram_editor(BOB).await;
    app.ask_telegram(BOB, "hello").await;
    let id = app.count("SELECT id FROM users WHERE name = 'U0ALICE'");
    app.alter_database("UPDATE users SET name = 'U0ALICE' WHERE name = 'U0CAROL'");
    app.ask(ALICE, &format!("send t{BOB}: hi")).await;
    let request = app
        .wait_for_telegram_message(BOB, "would like to send you messages")
        .await;
    assert!(
        request.text.starts_with(&format!("U0ALICE (id {id}) would")),
        "{}",
        request.text
    );
    assert!(
        request.text.contains(&format!("!accept {id} or !block {id}")),
        "{}",
        request.text
    );
}

/// T06, T28
#[tokio::test]
async fn a_person_who_may_only_read_by_now_sends_nothing() {
    /// The ways in which a grant is changed: for all, or in the store alone, which the process has not noticed yet.
    enum Demotion {
        Known,
        StoredOnly,
    }
    for demotion in [Demotion::Known, Demotion::StoredOnly] {
        const BOB: i64 = 4_201;
        let script = |asked: &ModelRequest| {
            // The model says so whatever the result is.
            let answer = match asked.last_results().is_empty() {
                true => sends(asked),
                false => says("Sent."),
            };
            match own_words(asked).starts_with("send ") && asked.last_results().is_empty() {
                true => answer.with_fault(AnswerFault::Held),
                false => answer,
            }
        };
        let app = TestApp::with_settings(script, &ON).await;
        app.admit_slack_editor(ALICE).await;
        app.admit_telegram_editor(BOB).await;
        app.ask_telegram(BOB, "hello").await;
        let accepted = app.run_telegram_command(BOB, "/accept u0alice").await;
        assert!(accepted.starts_with("Accepted: "), "{accepted}");
        let said = app.say(ALICE, &format!("send t{BOB}: hi")).await;
        app.wait_for_model_requests(2).await;
        match demotion {
        Demotion::Known => app.grant(ALICE, Role::Viewer, &["**"]).await,
        Demotion::StoredOnly => app.alter_database(
            "UPDATE user_grant SET role = 'viewer' WHERE user_id = (SELECT id FROM users WHERE name = 'U0ALICE')",
        ),
    }
        app.demo.model.release();
        let result = app.wait_for_result(&said.ts, 1).await;
        assert!(
            result.text.contains("may not write to other people any more"),
            "{}",
            result.text
        );
        app.wait_until_idle().await;
        let messages = app.demo.telegram.messages(BOB).into_iter();
        assert_eq!(
            messages
                .filter(|shown| shown.text.contains("Message from"))
                .count(),
            0
        );
        assert!(app.audit_lines_with("message.sent").is_empty());
    }
}
