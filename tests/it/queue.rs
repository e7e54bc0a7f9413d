//! Many messages at once, delivered as badly as platforms deliver: each is answered once, in order.

use crate::support::app::TestApp;
use drydock::demo::stage::SLACK_CHANNEL;
use drydock::emulator::model::{Asked, Fault, says};
use drydock::emulator::slack::{EventOrder, Fault as SlackFault};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

const ALICE: &str = "U0ALICE";

fn echo(asked: &Asked) -> drydock::emulator::model::Answer {
    says(format!("heard: {}.", asked.last_user_text()))
}

/// T31
#[tokio::test]
async fn twenty_messages_of_one_person_at_once_are_answered_in_order_one_by_one() {
    let app = TestApp::new(|asked: &Asked| {
        let first = asked.messages.len() == 1;
        echo(asked).but(Fault::Delay(Duration::from_millis(if first {
            3_000
        } else {
            20
        })))
    })
    .await;
    app.slack_editor(ALICE).await;
    let said = app.say(ALICE, "number 0").await;
    let words: Vec<String> = (1..20).map(|number| format!("number {number}")).collect();
    let saying = words.iter().map(|words| app.say_in(ALICE, &said.ts, words));
    for said in futures_util::future::join_all(saying).await {
        assert!(said.answers.iter().all(|answer| answer.status == 200), "{said:?}");
    }
    // The first one takes its time, so the others show their places.
    app.slack_reply(&said.ts, "Queued (1 ahead)").await;
    app.slack_reply(&said.ts, "Queued (19 ahead)").await;
    app.nth_result(&said.ts, 20).await;
    let answered: Vec<String> = app.results(&said.ts).iter().map(|text| number_in(text)).collect();
    let accepted: Vec<String> = app
        .column("SELECT inbound FROM inbox WHERE lane = 'turn' ORDER BY id")
        .iter()
        .map(|inbound| number_in(inbound))
        .collect();
    assert_eq!(answered, accepted);
    assert_eq!(app.asked().len(), 20);
    // One at a time: each request holds exactly the turns that were answered before it.
    for (index, asked) in app.asked().iter().enumerate() {
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

/// A small generator, so that a failure can be repeated.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % bound
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for index in (1..items.len()).rev() {
            items.swap(index, self.below(index + 1));
        }
    }
}

/// R5
#[tokio::test]
async fn four_hundred_messages_delivered_again_and_again_in_any_order_are_answered_once_each() {
    const MESSAGES: usize = 400;
    let mut app = TestApp::new(echo).await;
    app.slack_editor(ALICE).await;
    let mut random = Random(5);
    // Nobody listens while they are written: the workspace has them, the gateway does not yet.
    app.stage.slack.connect_to("http://127.0.0.1:9/in/slack");
    let mut deliveries: Vec<Value> = Vec::new();
    for number in 0..MESSAGES {
        let words = format!("@drydock message {number:03}");
        assert!(app.stage.slack.say(ALICE, SLACK_CHANNEL, &words).await.is_err());
    }
    app.stage
        .slack
        .connect_to(&format!("{}/in/slack", app.stage.url()));
    let written: Vec<(String, String)> = app.stage.slack.look(|state| {
        let messages = state
            .messages
            .iter()
            .filter(|message| message.channel == SLACK_CHANNEL && message.user == ALICE);
        messages
            .map(|message| (message.ts.clone(), message.text.clone()))
            .collect()
    });
    assert_eq!(written.len(), MESSAGES);
    for (index, (ts, text)) in written.iter().enumerate() {
        let event = |kind: &str| {
            app.stage.slack.envelope(&json!({"type": kind, "user": ALICE, "team": "T0ACME", "channel": SLACK_CHANNEL,
                "channel_type": "channel", "ts": ts, "event_ts": ts, "text": text, "client_msg_id": format!("c-{index}")}))
        };
        let mention = event("app_mention");
        let others = [
            event("message"),
            mention.clone(),
            event("app_mention"),
            event("message"),
        ];
        deliveries.push(mention);
        deliveries.extend(others.into_iter().take(random.below(5)));
    }
    for window in deliveries.chunks_mut(100) {
        random.shuffle(window);
    }
    let third = deliveries.len() / 3;
    for (index, event) in deliveries.iter().enumerate() {
        if index == third || index == 2 * third {
            app.restart().await;
        }
        let answer = app.stage.slack.send_event(event).await.unwrap();
        assert_eq!(answer.status, 200, "{}", answer.body);
    }
    for (ts, text) in &written {
        let number = text.split_whitespace().last().unwrap();
        let result = app.nth_result(ts, 1).await;
        assert!(
            result.text.contains(&format!("message {number}.")),
            "{text}: {}",
            result.text
        );
    }
    let results: BTreeMap<usize, usize> = written.iter().fold(BTreeMap::new(), |mut counts, (ts, _)| {
        *counts.entry(app.results(ts).len()).or_default() += 1;
        counts
    });
    assert_eq!(results, BTreeMap::from([(1, MESSAGES)]));
    assert_eq!(app.count("SELECT count(*) FROM inbox"), MESSAGES as i64);
    assert_eq!(
        app.count("SELECT count(DISTINCT inbox) FROM turn"),
        MESSAGES as i64
    );
}

/// P2: what there is no room for is refused aloud, once, whatever happens to the gateway then.
#[tokio::test]
async fn a_message_there_is_no_room_for_is_refused_durably_and_once() {
    let mut app = TestApp::set(
        |asked: &Asked| match asked.last_user_text().contains("stall") {
            true => says("Never.").but(Fault::Stall),
            false => echo(asked),
        },
        &[("limits.waiting_messages_max", "1")],
    )
    .await;
    app.slack_editor(ALICE).await;
    let said = app.say(ALICE, "stall").await;
    app.until_asked(1).await;
    app.say_in(ALICE, &said.ts, "the second").await;
    // Nothing reaches Slack before the restart.
    let unreachable = SlackFault::Status {
        status: 503,
        retry_after_seconds: None,
    };
    app.slack_reply(&said.ts, "Queued (1 ahead)").await;
    app.stage.slack.fail_next("chat.postMessage", 1_000, unreachable);
    let refused = app.say_in(ALICE, &said.ts, "the third").await;
    assert!(
        refused.answers.iter().all(|answer| answer.status == 200),
        "{refused:?}"
    );
    app.stage.stop().await;
    app.stage.slack.recover("chat.postMessage");
    app.stage.start().await.unwrap();
    app.slack_reply(&said.ts, "1 messages wait already, so I did not take this one.")
        .await;
    app.say_in(ALICE, &said.ts, "!stop").await;
    app.nth_result(&said.ts, 2).await;
    let refusals = app.written(&said.ts);
    let refusals = refusals.iter().filter(|text| text.contains("wait already"));
    assert_eq!(refusals.count(), 1);
}

/// A message and its mention, in both orders, are one message.
#[tokio::test]
async fn a_mention_is_one_message_whichever_of_its_events_comes_first() {
    let app = TestApp::new(echo).await;
    app.slack_editor(ALICE).await;
    for order in [EventOrder::MentionFirst, EventOrder::MessageFirst] {
        app.stage.slack.send_first(order);
        let result = app.ask(ALICE, "hello").await;
        assert_eq!(app.results(&result.thread).len(), 1);
    }
    assert_eq!(app.count("SELECT count(*) FROM turn"), 2);
}

/// R6
#[tokio::test]
async fn a_burst_while_turns_run_is_acknowledged_and_answered_completely() {
    const EACH: usize = 25;
    let app = TestApp::new(|asked: &Asked| echo(asked).but(Fault::Delay(Duration::from_millis(30)))).await;
    let users: Vec<String> = (0..8).map(|number| format!("U0BURST{number}")).collect();
    for user in &users {
        app.slack_editor(user).await;
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
        app.nth_result(thread, 1).await;
    }
    assert!(threads.iter().all(|thread| app.results(thread).len() == 1));
    assert_eq!(app.asked().len(), users.len() * EACH);
}
