//! Questions of the model: the person answers with a button or in their own words, the turn waits for it without a place,
//! and goes on once.

use crate::support::app::{TestApp, visible_text};
use drydock::simulation::demo::environment::SLACK_CHANNEL;
use drydock::simulation::emulator::model::{AnswerFault, ModelRequest, ScriptedAnswer, calls, says};
use drydock::simulation::emulator::slack::SlackMessage;
use serde_json::json;

pub(crate) const ALICE: &str = "U0ALICE";
const BOB: &str = "U0BOB";
/// The number of unfinished messages of conversations that wait for an answer.
pub(crate) const WAITING: &str =
    "SELECT COUNT(*) FROM conversation WHERE question IS NOT NULL AND owner IS NULL AND pending > 0";

fn question() -> serde_json::Value {
    json!({
        "question": "How many replicas should web get in dev?",
        "choices": ["Three", "Five"],
        "default": "Three",
        "minutes": 600,
    })
}

/// Asks how many replicas there should be, unless the request is a greeting, and repeats the answer.
pub(crate) fn asks(asked: &ModelRequest) -> ScriptedAnswer {
    if asked.last_user_text().contains("hello") {
        return says("Hello.");
    }
    match asked.last_results() {
        [] => calls("file_list", json!({"glob_pattern": "environments/dev/*"}))
            .with_call("ask_user", question()),
        [.., last] => says(format!("I was told: {}", last.content)),
    }
}

pub(crate) async fn wait_for_question(app: &TestApp, thread: &str) -> SlackMessage {
    let asked = app.wait_for_slack_reply(thread, "I need your decision.").await;
    wait_until_waiting(app).await;
    asked
}

async fn wait_until_waiting(app: &TestApp) {
    for _ in 0..2_000 {
        if app.count(WAITING) > 0 {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    panic!("no conversation waits for an answer");
}

/// Returns the message as it is now.
pub(crate) fn now(app: &TestApp, message: &SlackMessage) -> SlackMessage {
    app.demo.slack.with_state(|state| {
        let mut messages = state.messages.iter();
        messages.find(|shown| shown.ts == message.ts).unwrap().clone()
    })
}

pub(crate) fn labels(message: &SlackMessage) -> Vec<String> {
    message.buttons().into_iter().map(|button| button.label).collect()
}

/// T07
#[tokio::test]
async fn the_person_of_the_turn_answers_with_one_press_and_nobody_else_can() {
    let app = TestApp::with_settings(asks, &[("limits.turns_at_once_max", "1")]).await;
    app.admit_slack_editor(ALICE).await;
    app.admit_slack_editor(BOB).await;
    let said = app.say(ALICE, "more replicas in dev").await;
    let asked = wait_for_question(&app, &said.ts).await;
    let text = visible_text(&asked);
    for line in [
        "How many replicas should web get in dev?",
        "1. Three",
        "2. Five",
        "Press a button, or write your answer here. After 60 minutes I go on with: Three",
    ] {
        assert!(text.contains(line), "no `{line}` in {text}");
    }
    assert!(text.starts_with("<@U0ALICE>"), "{text}");
    assert_eq!(labels(&asked), ["Three", "Five"]);
    // The only place for turns is free: the turn of another person runs.
    let other = app.ask(BOB, "hello").await;
    assert!(other.text.contains("Hello."), "{}", other.text);
    let seen = app.ephemeral_messages(BOB).len();
    app.demo.slack.click(BOB, &asked.ts, "Five").await.unwrap();
    let refused = app.wait_for_ephemeral(BOB, seen).await;
    assert_eq!(refused, "This button belongs to U0ALICE.");
    assert_eq!(app.count(WAITING), 1);
    app.say_in(ALICE, &said.ts, "!status").await;
    app.wait_for_slack_reply(&said.ts, "a turn waits for your answer until")
        .await;

    app.demo.slack.click(ALICE, &asked.ts, "Five").await.unwrap();
    let result = app.wait_for_result(&said.ts, 1).await;
    assert!(
        result.text.contains("I was told: The person chose: Five"),
        "{}",
        result.text
    );
    assert!(result.text.contains("2 steps · 2,100 tokens"), "{}", result.text);
    app.wait_until_idle().await;
    let closed = now(&app, &asked);
    assert_eq!(labels(&closed), [""; 0]);
    assert!(visible_text(&closed).contains("Your answer: Five"), "{closed:?}");
    // The other button says that there is nothing left to answer.
    let edits = "SELECT COUNT(*) FROM outbox WHERE op LIKE '%/closed'";
    assert_eq!((app.count(edits), app.count("SELECT COUNT(*) FROM turn")), (1, 2));
    for line in ["question.asked", "question.closed"] {
        assert_eq!(app.audit_lines_with(line).len(), 1, "{line}");
    }
    let recorded = app.recordings();
    let recorded = recorded
        .iter()
        .find(|(_, text)| text.contains("more replicas"))
        .unwrap();
    assert_eq!(
        recorded.1.matches("The person chose: Five").count(),
        2,
        "{}",
        recorded.1
    );
    // The request that goes on is the continuation of the first, with each result at its call.
    let requests = app.model_requests();
    let resumed = requests.last().unwrap();
    assert_eq!(resumed.messages.len(), requests[0].messages.len() + 2);
    let results: Vec<&str> = resumed
        .last_results()
        .iter()
        .map(|result| result.content.as_str())
        .collect();
    assert!(results[0].contains("environments/dev"), "{results:?}");
    assert_eq!(results[1], "The person chose: Five");
}

#[tokio::test]
async fn the_next_message_of_the_person_is_the_answer_by_number_or_in_their_own_words() {
    let app = TestApp::new(asks).await;
    app.admit_slack_editor(ALICE).await;
    app.admit_slack_editor(BOB).await;
    for (words, told) in [
        ("2", "The person chose: Five"),
        ("three", "The person chose: Three"),
        (
            "As many as prod has.",
            "The person answered: As many as prod has.",
        ),
    ] {
        let said = app.say(ALICE, "more replicas in dev").await;
        let asked = wait_for_question(&app, &said.ts).await;
        // A message of another person in the thread is theirs.
        let seen = app.ephemeral_messages(BOB).len();
        app.say_in(BOB, &said.ts, "@drydock hello").await;
        app.wait_for_ephemeral(BOB, seen).await;
        app.start_own(BOB).await;
        let greeted = app.wait_for_result(&said.ts, 1).await;
        assert!(greeted.text.contains("Hello."), "{}", greeted.text);
        assert_eq!(app.count(WAITING), 1);
        app.say_in(ALICE, &said.ts, words).await;
        let result = app.wait_for_result(&said.ts, 2).await;
        assert!(result.text.contains(told), "{}", result.text);
        app.wait_until_idle().await;
        let answered = visible_text(&now(&app, &asked));
        let answer = told.split_once(": ").unwrap().1;
        assert!(answered.contains(&format!("Your answer: {answer}")), "{answered}");
    }
    // The next message is a request again.
    let said = app.ask(ALICE, "hello").await;
    assert!(said.text.contains("Hello."), "{}", said.text);
}

#[tokio::test]
async fn a_question_in_telegram_is_answered_by_a_button_and_by_words() {
    let app = TestApp::new(asks).await;
    app.admit_telegram_editor(4_201).await;
    for (number, told) in [
        (0, "I was told: The person chose: Five"),
        (1, "I was told: The person answered: none at all"),
    ] {
        app.demo.telegram.say(4_201, 4_201, "more replicas in dev").await;
        let asked = app
            .wait_for_telegram("a question with buttons", || {
                let messages = app.demo.telegram.messages(4_201);
                messages
                    .into_iter()
                    .find(|posted| posted.text.contains("1. Three") && !posted.keyboard.is_empty())
            })
            .await;
        wait_until_waiting(&app).await;
        match number {
            0 => {
                let telegram = &app.demo.telegram;
                telegram.click(4_201, 4_201, asked.id, "Five").await.unwrap();
            }
            _ => {
                app.demo.telegram.say(4_201, 4_201, "none at all").await;
            }
        }
        let result = app
            .wait_for_telegram("a result", || app.telegram_results(4_201).into_iter().nth(number))
            .await;
        assert!(result.text.contains(told), "{}", result.text);
        app.wait_until_idle().await;
        let messages = app.demo.telegram.messages(4_201);
        let closed = messages.iter().find(|posted| posted.id == asked.id).unwrap();
        assert!(closed.keyboard.is_empty(), "{closed:?}");
        assert!(closed.text.contains("Your answer: "), "{}", closed.text);
    }
}

/// A quote belongs to the answer, as marked data. The quote of the question itself adds nothing.
#[tokio::test]
async fn what_an_answer_quotes_reaches_the_model() {
    let app = TestApp::new(asks).await;
    app.admit_telegram_editor(4_201).await;
    app.admit_slack_editor(ALICE).await;
    app.demo.telegram.say(4_201, 4_201, "more replicas in dev").await;
    let asked = app.wait_for_telegram_message(4_201, "1. Three").await;
    wait_until_waiting(&app).await;
    let other = app.demo.telegram.messages(4_201).first().unwrap().id;
    let replied = json!({"text": "as in this", "reply_to_message": {
        "message_id": other, "date": 1, "chat": {"id": 4_201, "type": "private"}, "text": "Bob wants eleven",
        "from": {"id": 4_202, "is_bot": false, "first_name": "Bob"},
    }});
    app.demo.telegram.write(4_201, 4_201, replied).await;
    let told = |app: &TestApp| {
        let requests = app.model_requests();
        requests
            .last()
            .unwrap()
            .last_results()
            .last()
            .unwrap()
            .content
            .clone()
    };
    app.wait_for_telegram_message(4_201, "I was told: ").await;
    let content = told(&app);
    assert!(
        content.starts_with("The person answered: as in this\n\n"),
        "{content}"
    );
    assert!(content.contains("Bob wants eleven"), "{content}");
    app.wait_until_idle().await;
    let closed = app.demo.telegram.messages(4_201);
    let closed = closed.iter().find(|posted| posted.id == asked.id).unwrap();
    assert!(
        closed.text.contains("Your answer: as in this") && !closed.text.contains("Bob"),
        "{}",
        closed.text
    );

    app.demo.telegram.say(4_201, 4_201, "more replicas in dev").await;
    let again = app
        .wait_for_telegram("a second question", || {
            let messages = app.demo.telegram.messages(4_201);
            messages
                .into_iter()
                .find(|posted| posted.text.contains("1. Three") && posted.id != asked.id)
        })
        .await;
    wait_until_waiting(&app).await;
    app.demo.telegram.reply(4_201, 4_201, again.id, "seven").await;
    app.wait_for_telegram("a second result", || {
        app.telegram_results(4_201).into_iter().nth(1)
    })
    .await;
    assert_eq!(told(&app), "The person answered: seven");
    app.wait_until_idle().await;

    let said = app.say(ALICE, "more replicas in dev").await;
    wait_for_question(&app, &said.ts).await;
    let written = app
        .demo
        .slack
        .write(ALICE, SLACK_CHANNEL, Some(&said.ts), "like Bob says");
    let mut event = written.events[0].clone();
    event["event"]["attachments"] = json!([{"text": "Bob wants eleven", "fallback": "Bob wants eleven"}]);
    event["event"]["files"] = json!([{"id": "F1", "name": "table.csv"}]);
    let seen = app.ephemeral_messages(ALICE).len();
    app.demo.slack.deliver(&event, None).await.unwrap();
    app.wait_for_result(&said.ts, 1).await;
    let content = told(&app);
    let note = "`table.csv` was not read: beside an answer, only the words are read.";
    assert!(
        content.starts_with("The person answered: like Bob says\n\n<untrusted_data>")
            && content.contains(note)
            && content.contains("Bob wants eleven"),
        "{content}"
    );
    assert_eq!(
        app.wait_for_ephemeral(ALICE, seen).await,
        "I read the words of your answer, and not the files beside it. Send them with a message."
    );
}

/// The secret is known only from a file that the turn has read.
#[tokio::test]
async fn an_answer_is_redacted_for_the_secrets_of_the_turn() {
    const VALUE: &str = "rT6-pQ9xW2zK";
    let script = |asked: &ModelRequest| match (asked.last_results(), asked.messages.len()) {
        ([], 1) => {
            let content = format!(
                "{{ apiVersion: 'v1', kind: 'Secret', metadata: {{ name: 'db' }}, stringData: {{ password: '{VALUE}' }} }}\n"
            );
            calls(
                "file_write",
                json!({"path": "lib/db.libsonnet", "content": content}),
            )
        }
        (_, 3) => calls("ask_user", json!({"question": "Which password?"})),
        ([.., last], _) => says(format!("I was told: {}", last.content)),
        _ => says("Nothing."),
    };
    let app = TestApp::new(script).await;
    app.admit_slack_editor(ALICE).await;
    let said = app.say(ALICE, "make a database").await;
    let asked = wait_for_question(&app, &said.ts).await;
    app.say_in(ALICE, &said.ts, &format!("use {VALUE} please")).await;
    app.wait_for_result(&said.ts, 1).await;
    app.wait_until_idle().await;
    let requests = app.model_requests();
    let last = requests.last().unwrap().last_results().last().unwrap();
    assert!(
        last.content.contains("please") && !last.content.contains(VALUE),
        "{}",
        last.content
    );
    // The answer is stored and shown without it. The edited file is stored as it is.
    for (stored, rows) in [
        (
            "SELECT COUNT(*) FROM question WHERE answer LIKE '%use % please%' AND answer NOT LIKE '%VALUE%'",
            1,
        ),
        // The result of the question, and the final answer, which repeats it.
        (
            "SELECT COUNT(*) FROM step WHERE step LIKE '%answered: use % please%' AND step NOT LIKE '%VALUE%'",
            2,
        ),
        (
            "SELECT COUNT(*) FROM turn WHERE said LIKE '%use % please%' AND said NOT LIKE '%VALUE%'",
            1,
        ),
    ] {
        assert_eq!(app.count(&stored.replace("VALUE", VALUE)), rows, "{stored}");
    }
    let shown = visible_text(&now(&app, &asked));
    assert!(
        shown.contains("Your answer: use") && !shown.contains(VALUE),
        "{shown}"
    );
}

/// R18: a message that waits for its own turn, and cannot be read, does not keep the person from being asked.
#[tokio::test]
async fn a_waiting_message_that_cannot_be_read_leaves_the_question_to_be_asked() {
    let script = |asked: &ModelRequest| match asked.last_results() {
        [] if asked.last_user_text().contains("more replicas") => {
            calls("ask_user", question()).with_fault(AnswerFault::Held)
        }
        _ => asks(asked),
    };
    let app = TestApp::new(script).await;
    app.admit_slack_editor(ALICE).await;
    let said = app.say(ALICE, "more replicas in dev").await;
    app.wait_for_model_requests(1).await;
    app.say_in(ALICE, &said.ts, "queue: hello").await;
    app.alter_database("UPDATE inbox SET inbound = x'ff00' WHERE id = (SELECT MAX(id) FROM inbox)");
    app.demo.model.release();
    let asked = wait_for_question(&app, &said.ts).await;
    app.demo.slack.click(ALICE, &asked.ts, "Five").await.unwrap();
    let result = app.wait_for_result(&said.ts, 1).await;
    assert!(
        result.text.contains("I was told: The person chose: Five"),
        "{}",
        result.text
    );
    // The turn of the other message says that it cannot be read.
    app.wait_until_idle().await;
}
