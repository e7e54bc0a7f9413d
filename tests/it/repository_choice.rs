//! A message that does not say which repository it is about: it is kept, and the press of a button runs it.

use crate::support::app::{TestApp, visible_text};
use drydock::simulation::emulator::model::{ModelRequest, ScriptedAnswer, says};
use drydock::simulation::emulator::slack::SlackMessage;

const ALICE: &str = "U0ALICE";
const BOB: &str = "U0BOB";
const ANNA: i64 = 4_201;

/// Repeats the request and the repository that the prompt names.
fn repeats(asked: &ModelRequest) -> ScriptedAnswer {
    let repository = ["apps", "infra"]
        .into_iter()
        .find(|name| asked.system.contains(&format!("`{name}`")))
        .unwrap_or("none");
    says(format!("{} in {repository}", asked.last_user_text()))
}

async fn with_two_repositories() -> TestApp {
    let mut app = TestApp::new(repeats).await;
    app.admit_slack_editor(ALICE).await;
    app.admit_slack_editor(BOB).await;
    app.admit_telegram_editor(ANNA).await;
    restart(&mut app).await;
    app
}

/// Starts the gateway again, with two repositories.
async fn restart(app: &mut TestApp) {
    app.demo.stop().await;
    let mut config = app.demo.config().unwrap();
    let infra = config.repositories["infra"].clone();
    config.repositories.insert("apps".to_owned(), infra);
    app.start_with(config).await;
    let url = format!("{}/in/slack", app.demo.url());
    app.demo.slack.connect_to(&url);
}

fn labels(message: &SlackMessage) -> Vec<String> {
    message.buttons().into_iter().map(|button| button.label).collect()
}

fn now(app: &TestApp, message: &SlackMessage) -> SlackMessage {
    app.demo.slack.with_state(|state| {
        let mut messages = state.messages.iter();
        messages.find(|shown| shown.ts == message.ts).unwrap().clone()
    })
}

#[tokio::test]
async fn a_press_chooses_the_repository_runs_the_message_and_is_remembered() {
    let mut app = with_two_repositories().await;
    let said = app.say(ALICE, "queue: list the environments").await;
    let asked = app.wait_for_slack_reply(&said.ts, "Which repository?").await;
    assert_eq!(labels(&asked), ["apps", "infra"]);
    assert!(
        visible_text(&asked).contains("one of apps:, infra:"),
        "{}",
        visible_text(&asked)
    );
    app.wait_until_idle().await;
    assert_eq!(app.model_requests().len(), 0);
    // The message is kept over a restart, and the button belongs to its sender.
    restart(&mut app).await;
    let seen = app.ephemeral_messages(BOB).len();
    app.demo.slack.click(BOB, &asked.ts, "apps").await.unwrap();
    assert_eq!(
        app.wait_for_ephemeral(BOB, seen).await,
        "This button belongs to U0ALICE."
    );

    let pressed = now(&app, &asked);
    app.demo.slack.click(ALICE, &asked.ts, "apps").await.unwrap();
    let result = app.wait_for_result(&said.ts, 1).await;
    assert!(
        result.text.contains("list the environments in apps"),
        "{}",
        result.text
    );
    app.wait_until_idle().await;
    let chosen = now(&app, &asked);
    assert_eq!(
        (labels(&chosen), visible_text(&chosen).as_str()),
        (Vec::new(), "Repository: apps.")
    );

    // The other button was seen before the choice. It chooses nothing any more.
    let seen = app.ephemeral_messages(ALICE).len();
    app.demo
        .slack
        .click_as_seen(ALICE, &pressed, "infra")
        .await
        .unwrap();
    let refused = app.wait_for_ephemeral(ALICE, seen).await;
    assert!(refused.starts_with("That was decided already"), "{refused}");
    app.wait_until_idle().await;
    assert_eq!(app.model_requests().len(), 1);

    let next = app.ask_in(ALICE, &said.ts, "and now").await;
    assert!(next.text.contains("and now in apps"), "{}", next.text);
    assert_eq!(app.count("SELECT count(*) FROM held_message"), 0);
}

#[tokio::test]
async fn telegram_asks_for_the_repository_with_buttons() {
    let app = with_two_repositories().await;
    app.demo.telegram.say(ANNA, ANNA, "list the environments").await;
    let asked = app.wait_for_telegram_message(ANNA, "Which repository?").await;
    let keys = asked.keyboard.iter().flatten().map(|(label, _)| label.as_str());
    assert_eq!(keys.collect::<Vec<_>>(), ["apps", "infra"]);
    let pressed = app.demo.telegram.click(ANNA, ANNA, asked.id, "infra").await;
    pressed.unwrap();
    let chosen = app.wait_for_telegram_message(ANNA, "Repository: infra.").await;
    assert_eq!((chosen.id, chosen.keyboard.len()), (asked.id, 0));
    app.wait_for_telegram_message(ANNA, "list the environments in infra")
        .await;
    app.wait_until_idle().await;
    assert_eq!(app.model_requests().len(), 1);
}

/// A person who names the repository instead, or may read only one, is not asked.
#[tokio::test]
async fn nobody_is_asked_for_a_repository_that_is_clear() {
    let mut app = with_two_repositories().await;
    let named = app.ask(ALICE, "infra: list the environments").await;
    assert!(
        named.text.contains("list the environments in infra"),
        "{}",
        named.text
    );
    app.wait_until_idle().await;
    app.alter_database(
        "UPDATE user_grant SET repositories = 'apps' WHERE user_id = (SELECT id FROM users WHERE name = 'U0BOB')",
    );
    restart(&mut app).await;
    let only = app.ask(BOB, "list them").await;
    assert!(only.text.contains("list them in apps"), "{}", only.text);
}
