//! A thousand messages of three platforms, with the worst delivery behaviour of platforms: several times each, under
//! several names, in any order, with edits among them, to a gateway that is restarted in the meantime.

use crate::support::app::{TestApp, step_number, visible_text};
use crate::support::sign;
use drydock::simulation::demo::environment::{HOOK_SECRET, SLACK_CHANNEL};
use drydock::simulation::emulator::model::{ModelRequest, ScriptedAnswer, calls, says};
use drydock::simulation::emulator::slack::{SlackEmulator, SlackState};
use drydock::simulation::emulator::telegram::TelegramEmulator;
use futures_util::StreamExt;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

const PEOPLE: [&str; 5] = ["U0ALICE", "U0BOB", "U0CAROL", "U0DAVE", "U0ERIN"];
/// The number of threads of Slack, with `THREAD_MESSAGES` messages of one person in each.
const THREADS: usize = 175;
const THREAD_MESSAGES: usize = 4;
const TELEGRAM_PEOPLE: [i64; 3] = [4_201, 4_202, 4_203];
/// The number of messages of each person.
const TELEGRAM_MESSAGES: usize = 80;
const EVENTS: usize = 60;
const ALL: i64 = 1_000;
/// The number of deliveries within which the order is arbitrary.
const WINDOW: usize = 100;
/// The number of concurrent deliveries.
const AT_ONCE: usize = 8;
const PHASES: usize = 3;
/// The number of times Slack delivers an event that is not answered: once, and three times again.
const SLACK_ATTEMPTS_MAX: usize = 4;

/// A small random generator with a seed, so that a failure can be repeated.
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

/// One request to the gateway.
enum DeliveryRequest {
    Slack(Value),
    Github { id: String, payload: Value },
}

/// A message as its person wrote it: its thread, and its text. A message that the client sent twice has two times.
struct WrittenMessage {
    user: &'static str,
    thread: String,
    times: Vec<String>,
    words: String,
}

fn respond(asked: &ModelRequest) -> ScriptedAnswer {
    let words = asked.last_user_text();
    let Some((_, event)) = words.split_once("event number ") else {
        return says(format!("heard: {words}."));
    };
    let number: String = event.chars().take_while(char::is_ascii_digit).collect();
    let path = format!("environments/dev/note-{number}.md");
    match step_number(asked) {
        0 => calls("file_write", json!({ "path": path, "content": "noted\n" })),
        _ => says("Prepared."),
    }
}

/// Returns the time of the newest message in Slack.
fn newest_message_time(slack: &SlackEmulator) -> String {
    slack.with_state(|state| state.messages.last().unwrap().ts.clone())
}

/// Writes all messages without delivering them: the workspace has them, the gateway does not yet.
async fn write(app: &TestApp, random: &mut Random) -> Vec<WrittenMessage> {
    let slack = &app.demo.slack;
    slack.connect_to("http://127.0.0.1:9/in/slack");
    let mut all = Vec::new();
    for (number, user) in PEOPLE.iter().cycle().take(THREADS).enumerate() {
        let mut thread: Option<String> = None;
        for place in 0..THREAD_MESSAGES {
            // Each message has its own turn, also while another runs.
            let words = format!("queue: message {:04}", number * THREAD_MESSAGES + place);
            let text = format!("@drydock {words}");
            let mut times = Vec::new();
            // A client without an answer sends its message again.
            let times_sent = if thread.is_some() && random.below(12) == 0 {
                2
            } else {
                1
            };
            for _ in 0..times_sent {
                let said = match &thread {
                    Some(thread) => slack.reply_in_thread(user, SLACK_CHANNEL, thread, &text).await,
                    None => slack.say(user, SLACK_CHANNEL, &text).await,
                };
                assert!(said.is_err(), "the listener accepts");
                times.push(newest_message_time(slack));
            }
            let thread = thread.get_or_insert_with(|| times[0].clone()).clone();
            all.push(WrittenMessage {
                user,
                thread,
                times,
                words,
            });
        }
    }
    slack.connect_to(&format!("{}/in/slack", app.demo.url()));
    all
}

/// Returns the events about a message, as Slack may send them: both kinds in any order, some repeated, some about an
/// edit.
fn events(slack: &SlackEmulator, message: &WrittenMessage, random: &mut Random) -> Vec<DeliveryRequest> {
    let mut events = Vec::new();
    for ts in &message.times {
        let event = |kind: &str| {
            let mut event = json!({ "type": kind, "user": message.user, "team": "T0ACME", "channel": SLACK_CHANNEL,
                "channel_type": "channel", "ts": ts, "event_ts": ts, "text": format!("<@U0DRYDOCK> {}", message.words),
                "client_msg_id": format!("client of {}", message.words) });
            if *ts != message.thread {
                event["thread_ts"] = json!(message.thread);
            }
            slack.envelope(&event)
        };
        let both = [event("app_mention"), event("message")];
        events.extend(both.iter().cloned());
        for _ in 0..random.below(4) {
            events.push(both[random.below(2)].clone());
        }
        if random.below(20) == 0 {
            let edited = json!({ "type": "message", "subtype": "message_changed", "channel": SLACK_CHANNEL,
                "channel_type": "channel", "ts": ts, "event_ts": ts, "hidden": true,
                "message": { "type": "message", "user": message.user, "team": "T0ACME", "ts": ts,
                    "text": format!("<@U0DRYDOCK> {} after an edit", message.words),
                    "edited": { "user": message.user, "ts": ts } },
                "previous_message": { "type": "message", "user": message.user, "ts": ts, "text": message.words } });
            events.push(slack.envelope(&edited));
        }
    }
    events.into_iter().map(DeliveryRequest::Slack).collect()
}

/// Returns deliveries of one release, under the same GUID each time.
fn releases(number: usize, random: &mut Random) -> impl Iterator<Item = DeliveryRequest> + use<> {
    let payload = json!({
        "action": "published",
        "release": { "tag_name": "v1.9.0", "body": format!("event number {number:04}") },
        "repository": { "full_name": "acme/web" },
    });
    let times = 1 + random.below(5);
    (0..times).map(move |_| DeliveryRequest::Github {
        id: format!("72d3162e-cc78-11e3-81ab-{number:012}"),
        payload: payload.clone(),
    })
}

async fn deliver(app: &TestApp, delivery: &DeliveryRequest) {
    match delivery {
        DeliveryRequest::Slack(event) => {
            // Slack repeats an event that is not answered within seconds, which may happen on a busy machine.
            for _ in 0..SLACK_ATTEMPTS_MAX {
                if let Ok(answer) = app.demo.slack.send_event(event).await {
                    assert_eq!(answer.status, 200, "{}", answer.body);
                    return;
                }
            }
            panic!("an event was never answered");
        }
        DeliveryRequest::Github { id, payload } => {
            let body = payload.to_string();
            let signature = sign::github(HOOK_SECRET, body.as_bytes());
            let headers = [
                ("content-type", "application/json"),
                ("x-github-event", "release"),
                ("x-github-delivery", id),
                ("x-hub-signature-256", &signature),
            ];
            let (status, body) = app.post("/in/release", &headers, body.as_bytes()).await;
            assert_eq!(status, 200, "{body}");
        }
    }
}

/// Writes messages of all people in Telegram. Some of the updates are repeated, and some messages are edited.
async fn telegram(app: &TestApp, numbers: std::ops::Range<usize>, seed: u64) {
    let (telegram, mut random) = (&app.demo.telegram, Random(seed));
    for number in numbers {
        for person in TELEGRAM_PEOPLE {
            let words = format!("queue: telegram {number:04}");
            let pushed = telegram.say(person, person, &words).await;
            for _ in 0..random.below(5) {
                telegram.send_update(pushed.update.clone()).await;
            }
            if random.below(10) == 0 {
                telegram
                    .edit(person, person, pushed.message, "after an edit")
                    .await;
            }
        }
    }
}

/// Restarts the update ids of Telegram below the earlier ones, as after a quiet week.
async fn update_ids_start_anew(telegram: &TelegramEmulator) {
    let bound = Duration::from_secs(60);
    assert!(
        telegram
            .wait_until(bound, |telegram| telegram.updates_waiting() == 0)
            .await
    );
    let polls = telegram.calls().len();
    telegram.end_poll();
    assert!(
        telegram
            .wait_until(bound, |telegram| telegram.calls().len() > polls)
            .await
    );
    telegram.restart_update_ids(1);
}

fn number_in(text: &str, before: &str) -> String {
    let (_, rest) = text.split_once(before).unwrap_or_else(|| panic!("{text}"));
    rest.chars().take_while(char::is_ascii_digit).collect()
}

/// R5
#[tokio::test]
async fn a_thousand_messages_delivered_again_and_again_in_any_order_are_answered_once_each_and_in_order() {
    let settings = [("limits.waiting_messages_max", "200")];
    let mut app = TestApp::with_settings(respond, &settings).await;
    for person in PEOPLE {
        app.admit_slack_editor(person).await;
    }
    for person in TELEGRAM_PEOPLE {
        app.admit_telegram_editor(person).await;
    }
    let mut random = Random(5);
    let written = write(&app, &mut random).await;
    let mut deliveries = Vec::new();
    for message in &written {
        deliveries.extend(events(&app.demo.slack, message, &mut random));
    }
    let each = deliveries.len() / EVENTS;
    for number in 0..EVENTS {
        let at = number * each;
        deliveries.splice(at..at, releases(number, &mut random));
    }
    deliveries
        .chunks_mut(WINDOW)
        .for_each(|window| random.shuffle(window));

    for phase in 0..PHASES {
        let part = |all: usize, phase: usize| all * phase / PHASES;
        let due = &deliveries[part(deliveries.len(), phase)..part(deliveries.len(), phase + 1)];
        let sending = futures_util::stream::iter(due)
            .map(|delivery| deliver(&app, delivery))
            .buffer_unordered(AT_ONCE)
            .collect::<()>();
        let numbers = part(TELEGRAM_MESSAGES, phase)..part(TELEGRAM_MESSAGES, phase + 1);
        tokio::join!(sending, telegram(&app, numbers, 7 + phase as u64));
        if phase + 1 < PHASES {
            app.restart().await;
            update_ids_start_anew(&app.demo.telegram).await;
        }
    }

    answered_in_slack(&app, &written).await;
    answered_in_telegram(&app).await;
    let ready = |state: &SlackState| {
        let shown = state.messages.iter().map(visible_text);
        let ready = shown.filter(|text| text.contains(" is ready: 1 file"));
        let mut notes: Vec<String> = ready.map(|text| number_in(&text, "note-")).collect();
        notes.sort();
        (notes.len() >= EVENTS).then_some(notes)
    };
    let notes = app.wait_for_slack("a change of each event", ready).await;
    let expected: Vec<String> = (0..EVENTS).map(|number| format!("{number:04}")).collect();
    assert_eq!(notes, expected);

    app.wait_until_idle().await;
    assert_eq!(app.count("SELECT count(*) FROM inbox WHERE lane = 'turn'"), ALL);
    assert_eq!(app.count("SELECT count(DISTINCT inbox) FROM turn"), ALL);
    // Only a turn that a restart cut short begins again.
    let twice = "SELECT count(*) FROM turn WHERE verdict NOT IN ('cancelled', 'error')";
    assert_eq!(app.count(twice), ALL);
    assert_eq!(app.count("SELECT count(*) FROM change"), EVENTS as i64);
}

/// Checks that each message has one result in its thread, in the order in which the gateway accepted them.
async fn answered_in_slack(app: &TestApp, written: &[WrittenMessage]) {
    let mut threads: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for message in written {
        threads.entry(&message.thread).or_default().push(&message.words);
    }
    assert_eq!(threads.len(), THREADS);
    for (thread, messages) in threads {
        app.wait_for_result(thread, THREAD_MESSAGES).await;
        let results = app.results(thread);
        let answered: Vec<String> = results
            .iter()
            .map(|text| number_in(text, "heard: message "))
            .collect();
        let taken_in: Vec<String> = app
            .column(&format!(
                "SELECT turn.user_text FROM turn JOIN conversation ON conversation.id = turn.conversation
                 WHERE conversation.key LIKE '%\"{thread}\"%' GROUP BY turn.inbox ORDER BY turn.inbox"
            ))
            .iter()
            .map(|inbound| number_in(inbound, "message "))
            .collect();
        assert_eq!(answered, taken_in, "{messages:?}");
        let mut numbers = answered;
        numbers.sort();
        let expected: Vec<String> = messages
            .iter()
            .map(|words| number_in(words, "message "))
            .collect();
        assert_eq!(numbers, expected);
        assert!(
            results.iter().all(|text| !text.contains("after an edit")),
            "{results:?}"
        );
    }
}

/// Checks that each person has one answer to each message, in the order in which they were written.
async fn answered_in_telegram(app: &TestApp) {
    let expected: Vec<String> = (0..TELEGRAM_MESSAGES)
        .map(|number| format!("{number:04}"))
        .collect();
    for person in TELEGRAM_PEOPLE {
        app.wait_for_telegram("an answer to each message", || {
            (app.telegram_results(person).len() >= TELEGRAM_MESSAGES).then_some(())
        })
        .await;
        let results = app.telegram_results(person);
        let answered: Vec<String> = results
            .iter()
            .map(|posted| number_in(&posted.text, "heard: telegram "))
            .collect();
        assert_eq!(answered, expected, "{person}");
    }
}
