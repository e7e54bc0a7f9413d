//! Tests of posts whose success is unknown to the gateway.

use crate::support::app::TestApp;
use crate::support::log::LogCapture;
use drydock::engine::admin::{AdminReply, AdminRequest};
use drydock::engine::gateway::ChannelState;
use drydock::simulation::emulator::model::{AnswerFault, ModelRequest, calls, queue, says};
use drydock::simulation::emulator::slack::SlackFault;
use drydock::simulation::emulator::telegram::TelegramFault;
use drydock::state::store::DeadLetterFilter;
use serde_json::json;
use std::time::{Duration, Instant};

const ALICE: &str = "U0ALICE";
const BOB: i64 = 7002;
/// Far less than the delay that is tested against, even on a busy machine.
const AT_ONCE: Duration = Duration::from_secs(25);

/// Checks that without the permission to read, a post with an unknown outcome may leave the first line of the result
/// behind, but never a second result. R1, R17
#[tokio::test]
async fn a_result_shows_once_in_slack_even_if_its_arrival_is_unknown() {
    for (fault, lines) in [(SlackFault::ResetAfter, 2), (SlackFault::ResetBefore, 1)] {
        let app = TestApp::new(|_: &ModelRequest| says("Here.")).await;
        let app = app.without_history().await;
        app.admit_slack_editor(ALICE).await;
        app.demo.slack.fail_next("chat.postMessage", 1, fault);
        let result = app.ask(ALICE, "hello").await;
        app.wait_until_idle().await;
        assert_eq!(app.results(&result.thread).len(), 1);
        // A second line could be left behind as well, so the result is posted as a whole.
        assert_eq!(result.message.edits, 0);
        let said = app.thread_messages(&result.thread);
        assert_eq!(said.len(), lines, "{said:?}");
    }
}

/// R17
#[tokio::test]
async fn a_patch_is_shared_once_whether_slack_took_it_or_not() {
    for fault in [SlackFault::ResetAfter, SlackFault::ResetBefore] {
        let write = json!({"path": "note.txt", "content": "one\n"});
        let app = TestApp::new(queue([calls("file_write", write), says("Here.")])).await;
        app.admit_slack_editor(ALICE).await;
        let thread = app.ask(ALICE, "add a note").await.thread;
        app.wait_until_idle().await;
        app.demo.slack.fail_next("files.completeUploadExternal", 1, fault);
        app.run_command_in(ALICE, &thread, "!patch").await;
        app.wait_until_idle().await;
        let files = app.demo.slack.with_state(|state| state.files.clone());
        let names: Vec<&str> = files.iter().map(|file| &*file.name).collect();
        assert_eq!(names, ["CHG-1.patch"]);
    }
}

/// R1
#[tokio::test]
async fn a_card_slack_took_without_saying_so_is_found_and_kept_current() {
    let app =
        TestApp::new(|_: &ModelRequest| says("Here.").with_fault(AnswerFault::Delay(Duration::from_secs(2))))
            .await;
    app.admit_slack_editor(ALICE).await;
    app.demo.slack.forget_method("chat.startStream");
    app.demo
        .slack
        .fail_next("chat.postMessage", 1, SlackFault::ResetAfter);
    let thread = app.ask(ALICE, "hello").await.thread;
    app.wait_until_idle().await;
    let said = app.thread_messages(&thread);
    assert!(
        said.len() == 2 && said[0].starts_with("Done in ") && said[1].contains("Here."),
        "{said:?}"
    );
}

#[tokio::test]
async fn the_answer_to_a_command_shows_once_whether_slack_took_it_or_not() {
    for fault in [SlackFault::ResetAfter, SlackFault::ResetBefore] {
        let app = TestApp::new(|_: &ModelRequest| says("Here.")).await;
        app.admit_slack_editor(ALICE).await;
        let thread = app.ask(ALICE, "hello").await.thread;
        app.wait_until_idle().await;
        app.demo.slack.fail_next("chat.postMessage", 1, fault);
        app.run_command_in(ALICE, &thread, "!help").await;
        app.wait_until_idle().await;
        let said = app.thread_messages(&thread);
        assert!(said.len() == 2 && said[1].contains("what is running"), "{said:?}");
    }
}

/// Checks that a post with an unknown outcome may leave the first line of the result behind, but never a second
/// result. Telegram shows a bot no history. R17
#[tokio::test]
async fn a_result_shows_once_in_telegram_even_if_its_arrival_is_unknown() {
    for (fault, lines) in [(TelegramFault::ResetAfterEffect, 2), (TelegramFault::Reset, 1)] {
        let app = TestApp::new(|_: &ModelRequest| says("Here.")).await;
        app.admit_telegram_editor(BOB).await;
        app.wait_until_idle().await;
        let before = app.demo.telegram.messages(BOB).len();
        app.demo.telegram.fail("sendMessage", 1, fault);
        app.ask_telegram(BOB, "hello").await;
        app.wait_until_idle().await;
        assert_eq!(app.telegram_results(BOB).len(), 1);
        let mut shown = app.demo.telegram.messages(BOB).split_off(before);
        shown.retain(|posted| posted.text.contains("answer") || posted.text.contains("Here."));
        assert_eq!(shown.len(), lines, "{shown:?}");
    }
}

/// R19, R36, P2
#[tokio::test]
async fn messages_are_held_while_slack_rejects_the_token_and_sent_once_it_accepts_it() {
    let app = TestApp::new(|_: &ModelRequest| says("Here.")).await;
    app.admit_slack_editor(ALICE).await;
    app.wait_until_idle().await;
    app.demo.slack.refuse_token("token_revoked");
    let said = app.say(ALICE, "hello").await;
    // The operator sees it, and no message was given up.
    let mut tries = 0;
    let health = loop {
        let AdminReply::Outbox {
            channels, letters, ..
        } = app
            .send_admin_request(AdminRequest::Outbox { channel: None })
            .await
        else {
            panic!("no outbox")
        };
        assert_eq!(letters, []);
        let slack = channels
            .into_iter()
            .find(|health| health.channel == "slack")
            .unwrap();
        if matches!(slack.state, ChannelState::Unauthorised { .. }) && slack.waiting > 0 {
            break slack;
        }
        tries += 1;
        assert!(tries < 6_000, "{slack:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    assert!(
        health
            .state
            .to_string()
            .ends_with("the token is refused: token_revoked"),
        "{health:?}"
    );
    let (status, body) = app.readyz().await;
    assert!(
        status == 200 && body.contains("channel slack: closed since"),
        "{status} {body}"
    );
    app.demo.slack.restore_token();
    // The next probe is half a minute away, but an operator can start it at once.
    app.demo.app.as_ref().unwrap().gateway.outgoing.retry("slack");
    app.wait_for_result(&said.ts, 1).await;
    app.wait_until_idle().await;
    assert_eq!(app.results(&said.ts).len(), 1);
    assert_eq!(app.readyz().await, (200, r#"{"ready":true}"#.to_owned()));
}

/// R18, P2
#[tokio::test]
async fn what_an_operator_sends_again_goes_out_at_once() {
    let app = TestApp::new(|_: &ModelRequest| says("Here.")).await;
    app.admit_slack_editor(ALICE).await;
    let archived = SlackFault::Refuse("is_archived".to_owned());
    app.demo.slack.fail_all("chat.postMessage", archived);
    let said = app.say(ALICE, "hello").await;
    let given_up = "SELECT count(*) FROM outbox WHERE state = 'failed' AND op LIKE '%/result'";
    let started = Instant::now();
    while app.count(given_up) == 0 {
        assert!(started.elapsed() < AT_ONCE, "it is not given up");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    app.wait_until_idle().await;
    app.demo.slack.recover("chat.postMessage");
    // The delivery thread sleeps for a minute now, unless it is woken.
    let which = DeadLetterFilter::Channel("slack".to_owned());
    let started = Instant::now();
    let answer = app.send_admin_request(AdminRequest::OutboxRetry { which }).await;
    assert!(
        matches!(answer, AdminReply::Letters { count, .. } if count > 0),
        "{answer:?}"
    );
    app.wait_for_result(&said.ts, 1).await;
    assert!(started.elapsed() < AT_ONCE, "{:?}", started.elapsed());
    app.wait_until_idle().await;
}

/// R17
#[tokio::test]
async fn a_channel_without_rate_limits_answers_as_fast_as_it_is_asked() {
    const ASKED: usize = 40;
    let app = TestApp::with_settings(
        |_: &ModelRequest| says("Here."),
        &[("channels.slack.paced", "false")],
    )
    .await;
    app.admit_slack_editor(ALICE).await;
    app.wait_until_idle().await;
    let direct = format!("D{ALICE}");
    let answers = || {
        app.demo.slack.with_state(|state| {
            let messages = state.messages.iter();
            messages
                .filter(|message| message.channel == direct && message.user != ALICE)
                .count()
        })
    };
    let before = answers();
    let started = Instant::now();
    for _ in 0..ASKED {
        app.demo.slack.dm(ALICE, "!help").await.unwrap();
    }
    app.wait_until_idle().await;
    assert_eq!(answers() - before, ASKED);
    // With one it takes 38 seconds: five answers at once, and then one every 1.1 seconds.
    assert!(started.elapsed() < AT_ONCE, "{:?}", started.elapsed());
}

/// R17, P2
#[tokio::test]
async fn an_answer_whose_arrival_is_unknown_is_followed_by_one_notice() {
    let app = TestApp::new(|_: &ModelRequest| says("Here.")).await;
    app.admit_telegram_editor(BOB).await;
    app.wait_until_idle().await;
    app.demo
        .telegram
        .fail("sendRichMessage", 1, TelegramFault::Status(502));
    app.demo.telegram.say(BOB, BOB, "/help").await;
    app.wait_for_telegram_message(BOB, "An answer may be missing here")
        .await;
    app.wait_until_idle().await;
    let shown = app.demo.telegram.messages(BOB);
    let lines = shown
        .iter()
        .filter(|posted| posted.text.contains("may be missing"));
    assert_eq!(lines.count(), 1, "{shown:?}");
    assert!(
        !shown.iter().any(|posted| posted.text.contains("what is running")),
        "{shown:?}"
    );
}

/// Checks that the content of a file that Telegram refuses is posted as text, and that other messages do not wait for
/// it. P2
#[tokio::test]
async fn an_undeliverable_file_is_posted_as_text_without_delaying_others() {
    let log = LogCapture::capture();
    let write = json!({"path": "note.txt", "content": "one\n"});
    let app = TestApp::new(queue([calls("file_write", write), says("Here.")])).await;
    app.admit_telegram_editor(BOB).await;
    app.ask_telegram(BOB, "add a note").await;
    app.wait_until_idle().await;
    app.demo
        .telegram
        .fail_all("sendDocument", TelegramFault::Status(500));
    app.demo.telegram.say(BOB, BOB, "/patch").await;
    app.wait_for_telegram_message(BOB, "applies it to your working tree")
        .await;
    let asked = Instant::now();
    app.demo.telegram.say(BOB, BOB, "/status").await;
    app.wait_for_telegram_message(BOB, "Prepared").await;
    assert!(asked.elapsed() < AT_ONCE, "{:?}", asked.elapsed());
    let reported = app
        .wait_for_telegram_message(BOB, "The file CHG-1.patch may be missing here. Its content:")
        .await;
    assert!(reported.text.contains("+++ b/note.txt"), "{}", reported.text);
    assert!(reported.text.contains("+one"), "{}", reported.text);
    app.wait_until_idle().await;
    let log = log.text();
    let warned = log.lines().filter(|line| {
        line.contains("WARN") && line.contains("CHG-1.patch") && line.contains("telegram answered 500")
    });
    assert_eq!(warned.count(), 1, "{log}");
}

#[tokio::test]
async fn a_file_that_slack_refuses_is_posted_as_text() {
    let write = json!({"path": "note.txt", "content": "one\n"});
    let app = TestApp::new(queue([calls("file_write", write), says("Here.")])).await;
    app.admit_slack_editor(ALICE).await;
    let thread = app.ask(ALICE, "add a note").await.thread;
    app.wait_until_idle().await;
    let refused = SlackFault::Refuse("missing_scope".to_owned());
    app.demo.slack.fail_all("files.getUploadURLExternal", refused);
    app.say_in(ALICE, &thread, "!patch").await;
    let reported = app
        .wait_for_slack_reply(&thread, "The file CHG-1.patch could not be delivered")
        .await;
    let reported = crate::support::app::visible_text(&reported);
    assert!(
        reported.contains("+++ b/note.txt") && reported.contains("+one"),
        "{reported}"
    );
    app.wait_until_idle().await;
}
