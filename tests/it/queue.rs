//! Tests of many messages at once, with the worst delivery behaviour of platforms: each message is answered once, in
//! order.

use crate::support::app::TestApp;
use drydock::simulation::emulator::model::{AnswerFault, ModelRequest, says};
use drydock::simulation::emulator::slack::{EventOrder, SlackFault};
use std::time::Duration;

const ALICE: &str = "U0ALICE";

fn echo(asked: &ModelRequest) -> drydock::simulation::emulator::model::ScriptedAnswer {
    says(format!("heard: {}.", asked.last_user_text()))
}

/// T31
#[tokio::test]
async fn twenty_messages_of_one_person_at_once_are_answered_in_order_one_by_one() {
    let app = TestApp::new(|asked: &ModelRequest| {
        let first = asked.messages.len() == 1;
        echo(asked).with_fault(AnswerFault::Delay(Duration::from_millis(if first {
            3_000
        } else {
            20
        })))
    })
    .await;
    app.admit_slack_editor(ALICE).await;
    let said = app.say(ALICE, "number 0").await;
    let words: Vec<String> = (1..20).map(|number| format!("queue: number {number}")).collect();
    let saying = words.iter().map(|words| app.say_in(ALICE, &said.ts, words));
    for said in futures_util::future::join_all(saying).await {
        assert!(said.answers.iter().all(|answer| answer.status == 200), "{said:?}");
    }
    // The first answer is slow, so the other messages show their positions.
    app.wait_for_slack_reply(&said.ts, "Queued (1 ahead)").await;
    app.wait_for_slack_reply(&said.ts, "Queued (19 ahead)").await;
    app.wait_for_result(&said.ts, 20).await;
    let answered: Vec<String> = app.results(&said.ts).iter().map(|text| number_in(text)).collect();
    let accepted: Vec<String> = app
        .column("SELECT user_text FROM turn GROUP BY inbox ORDER BY inbox")
        .iter()
        .map(|inbound| number_in(inbound))
        .collect();
    assert_eq!(answered, accepted);
    assert_eq!(app.model_requests().len(), 20);
    // One at a time: each request contains exactly the turns that were answered before it.
    for (index, asked) in app.model_requests().iter().enumerate() {
        assert_eq!(asked.messages.len(), 2 * index + 1);
    }
    assert_eq!(
        app.count("SELECT count(*) FROM turn WHERE finished_at IS NULL"),
        0
    );
}

fn number_in(text: &str) -> String {
    let (_, rest) = text.split_once("number ").unwrap();
    rest.chars().take_while(char::is_ascii_digit).collect()
}

/// P2: a message over the limit is refused with a notice, once, even if the gateway restarts.
#[tokio::test]
async fn a_message_over_the_queue_limit_is_refused_durably_and_once() {
    let mut app = TestApp::with_settings(
        |asked: &ModelRequest| match asked.last_user_text().contains("stall") {
            true => says("Never.").with_fault(AnswerFault::Stall),
            false => echo(asked),
        },
        &[("limits.waiting_messages_max", "1")],
    )
    .await;
    app.admit_slack_editor(ALICE).await;
    let said = app.say(ALICE, "stall").await;
    app.wait_for_model_requests(1).await;
    app.say_in(ALICE, &said.ts, "queue: the second").await;
    // Nothing reaches Slack before the restart.
    let unreachable = SlackFault::Status {
        status: 503,
        retry_after_seconds: None,
    };
    app.wait_for_slack_reply(&said.ts, "Queued (1 ahead)").await;
    app.demo.slack.fail_next("chat.postMessage", 1_000, unreachable);
    let refused = app.say_in(ALICE, &said.ts, "the third").await;
    assert!(
        refused.answers.iter().all(|answer| answer.status == 200),
        "{refused:?}"
    );
    app.demo.stop().await;
    app.demo.slack.recover("chat.postMessage");
    app.demo.start().await.unwrap();
    app.wait_for_slack_reply(&said.ts, "1 messages wait already, so I did not accept this one.")
        .await;
    app.say_in(ALICE, &said.ts, "!stop").await;
    app.wait_for_result(&said.ts, 2).await;
    let refusals = app.thread_messages(&said.ts);
    let refusals = refusals.iter().filter(|text| text.contains("wait already"));
    assert_eq!(refusals.count(), 1);
}

/// Checks that a message and its mention are handled as one message, in both orders.
#[tokio::test]
async fn a_mention_is_one_message_whichever_of_its_events_comes_first() {
    let app = TestApp::new(echo).await;
    app.admit_slack_editor(ALICE).await;
    for order in [EventOrder::MentionFirst, EventOrder::MessageFirst] {
        app.demo.slack.send_first(order);
        let result = app.ask(ALICE, "hello").await;
        assert_eq!(app.results(&result.thread).len(), 1);
    }
    assert_eq!(app.count("SELECT count(*) FROM turn"), 2);
}

/// R6
#[tokio::test]
async fn a_burst_while_turns_run_is_acknowledged_and_answered_completely() {
    const EACH: usize = 25;
    let app = TestApp::new(|asked: &ModelRequest| {
        echo(asked).with_fault(AnswerFault::Delay(Duration::from_millis(30)))
    })
    .await;
    let users: Vec<String> = (0..8).map(|number| format!("U0BURST{number}")).collect();
    for user in &users {
        app.admit_slack_editor(user).await;
    }
    let app = &app;
    let burst = users.iter().map(|user| async move {
        let mut threads = Vec::new();
        for number in 0..EACH {
            let said = app.say(user, &format!("{user} {number}")).await;
            assert!(said.answers.iter().all(|answer| answer.status == 200), "{said:?}");
            threads.push(said.ts);
        }
        threads
    });
    let threads = futures_util::future::join_all(burst).await.concat();
    for thread in &threads {
        app.wait_for_result(thread, 1).await;
    }
    assert!(threads.iter().all(|thread| app.results(thread).len() == 1));
    assert_eq!(app.model_requests().len(), users.len() * EACH);
}
