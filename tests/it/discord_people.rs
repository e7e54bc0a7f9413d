//! Several people, repositories and hooks in Discord: joining, the question for the repository, requests for access, and
//! the change of a hook.

use crate::support::discord::{ALICE, BOB, DiscordApp, EVE, PLATFORM};
use crate::support::sign;
use drydock::base::config::Config;
use drydock::simulation::demo::environment::HOOK_SECRET;
use drydock::simulation::emulator::discord::DiscordMessage;
use drydock::simulation::emulator::model::{ModelRequest, ScriptedAnswer, calls, says};
use drydock::state::access::Role;
use serde_json::{Value, json};

/// A person who administers Drydock.
const ADA: u64 = 7009;

fn labels(message: &DiscordMessage) -> Vec<String> {
    message.buttons().into_iter().map(|(label, _)| label).collect()
}

/// Returns a message as it is shown now.
fn now(app: &DiscordApp, message: &DiscordMessage) -> DiscordMessage {
    app.discord.with_state(|state| {
        let mut messages = state.messages.iter();
        messages.find(|shown| shown.id == message.id).unwrap().clone()
    })
}

/// Changes the replicas of dev: "from 2 to 4". Anything else is only answered.
fn scale(asked: &ModelRequest) -> ScriptedAnswer {
    let words = asked.last_user_text();
    let numbers = [(2, 4), (4, 5)]
        .into_iter()
        .find(|(from, to)| words.contains(&format!("from {from} to {to}")));
    let of = |replicas: u8| format!("web:1.8.3',\n    replicas: {replicas},");
    match numbers {
        Some((from, to)) if asked.last_results().is_empty() => calls(
            "file_edit",
            json!({"path": "environments/dev/main.jsonnet", "old": of(from), "new": of(to)}),
        ),
        _ => says(format!("I read: {words}")),
    }
}

/// T29
#[tokio::test]
async fn a_person_joins_a_thread_of_discord_only_when_its_owner_lets_them() {
    let mut app = DiscordApp::new(scale).await;
    app.admit(ALICE, Role::Editor).await;
    app.admit(BOB, Role::Editor).await;
    let (thread, _) = app.ask(ALICE, "from 2 to 4").await;
    app.discord.say(BOB, thread, "@drydock from 4 to 5");
    let question = app
        .wait_for_message(thread, "This thread belongs to d7001.")
        .await;
    assert_eq!(labels(&question), ["Ask d7001 to join", "Start my own"]);
    assert_eq!(question.pinged, [BOB]);
    app.app.wait_until_idle().await;
    assert_eq!(
        app.app.model_requests().len(),
        2,
        "the message of Bob reached the model"
    );

    app.press(BOB, &question, "Ask d7001 to join").await;
    let request = app.wait_for_message(thread, "d7002 asks to join").await;
    assert_eq!(labels(&request), ["Let d7002 join", "No"]);
    // Nobody lets themselves in, and all of it is kept over a restart.
    app.restart().await;
    app.press(BOB, &request, "Let d7002 join").await;
    app.wait_for_private_answer(BOB, "This button belongs to d7001.")
        .await;
    app.press(ALICE, &request, "Let d7002 join").await;
    let result = app.wait_for_result(thread, 2).await;
    assert!(
        result.text().contains("CHG-1 rev 2 is ready"),
        "{}",
        result.text()
    );
    assert_eq!(result.pinged, [BOB]);
    // Further messages of Bob reach the conversation without a mention, until he is removed.
    app.discord.say(BOB, thread, "what is prepared?");
    let read = app.wait_for_result(thread, 3).await;
    assert!(
        read.text().contains("I read: d7002 writes:\nwhat is prepared?"),
        "{}",
        read.text()
    );
    let joined = app
        .wait_for_message(thread, "d7002 has joined this conversation.")
        .await;
    assert_eq!(
        (joined.id, labels(&joined)),
        (request.id, vec!["Remove d7002".to_owned()])
    );
    app.press(ALICE, &joined, "Remove d7002").await;
    app.wait_for_message(thread, "d7002 is not part of this conversation any more.")
        .await;
    app.app.wait_until_idle().await;
    let before = app.app.model_requests().len();
    app.discord.say(BOB, thread, "@drydock and now?");
    app.wait_for("another question", |state| {
        let questions = state
            .messages_in(thread)
            .filter(|message| message.text().contains("This thread belongs to d7001."));
        (questions.count() == 2).then_some(())
    })
    .await;
    app.app.wait_until_idle().await;
    assert_eq!(app.app.model_requests().len(), before);
}

/// Repeats the request and the repository that the prompt names.
fn repeats(asked: &ModelRequest) -> ScriptedAnswer {
    let repository = ["apps", "infra"]
        .into_iter()
        .find(|name| asked.system.contains(&format!("`{name}`")))
        .unwrap_or("none");
    says(format!("{} in {repository}", asked.last_user_text()))
}

fn with_two_repositories(config: &mut Config) {
    let infra = config.repositories["infra"].clone();
    config.repositories.insert("apps".to_owned(), infra);
}

/// STK-10
#[tokio::test]
async fn discord_asks_for_the_repository_with_buttons() {
    let mut app = DiscordApp::new(repeats).await;
    app.admit(ALICE, Role::Editor).await;
    app.admit(BOB, Role::Editor).await;
    app.stop().await;
    app.run_with(with_two_repositories).await;
    let thread = app.discord.say(ALICE, PLATFORM, "@drydock list the environments");
    let asked = app.wait_for_message(thread, "Which repository?").await;
    assert_eq!(labels(&asked), ["apps", "infra"]);
    app.app.wait_until_idle().await;
    assert_eq!(app.app.model_requests().len(), 0);
    app.stop().await;
    app.run_with(with_two_repositories).await;
    app.press(BOB, &asked, "apps").await;
    app.wait_for_private_answer(BOB, "This button belongs to d7001.")
        .await;
    app.press(ALICE, &asked, "apps").await;
    let result = app.wait_for_result(thread, 1).await;
    assert!(
        result.text().contains("list the environments in apps"),
        "{}",
        result.text()
    );
    app.app.wait_until_idle().await;
    let chosen = now(&app, &asked);
    assert_eq!(
        (labels(&chosen), chosen.text().as_str()),
        (Vec::new(), "Repository: apps.")
    );
}

/// T05
#[tokio::test]
async fn an_unknown_person_of_discord_asks_for_access_and_an_administrator_admits_them() {
    let app = DiscordApp::new(repeats).await;
    app.admit(ADA, Role::Admin).await;
    app.discord.dm(ADA, "status");
    app.app.wait_until_idle().await;
    app.discord.dm(EVE, "let me in");
    let notice = app
        .wait_for_message(app.direct(EVE), "Your ID is discord:1001:6666")
        .await;
    assert_eq!(labels(&notice), ["Request access"]);
    app.press(EVE, &notice, "Request access").await;
    let asked = app
        .wait_for_message(app.direct(ADA), "An unknown person asks for access.")
        .await;
    assert_eq!(labels(&asked), ["Admit as viewer", "Admit as editor", "Ignore"]);
    // Nobody who sees the button elsewhere can press it.
    let stolen = app.discord.press_as_seen(EVE, &asked, "Admit as editor").unwrap();
    app.interact(&stolen).await;
    app.app.wait_until_idle().await;
    assert_eq!(app.app.model_requests().len(), 0);
    app.press(ADA, &asked, "Admit as viewer").await;
    app.wait_for_message(app.direct(EVE), "You're in").await;
    app.discord.dm(EVE, "and now?");
    let answered = app.wait_for_result(app.direct(EVE), 1).await;
    assert!(
        answered.text().contains("and now? in infra"),
        "{}",
        answered.text()
    );
    app.app.wait_until_idle().await;
    let roles = "SELECT role FROM user_grant JOIN users ON users.id = user_id WHERE users.name LIKE '%6666'";
    assert_eq!(app.app.column(roles), ["viewer"]);
}

fn edit(environment: &str) -> Value {
    json!({"path": format!("environments/{environment}/main.jsonnet"), "old": "web:1.8.3", "new": "web:1.9.0"})
}

/// Prepares a release for dev and staging, and what a person asks for in prod.
fn promote_and_continue(asked: &ModelRequest) -> ScriptedAnswer {
    match (
        asked.last_results().is_empty(),
        asked.last_user_text().contains("also in prod"),
    ) {
        (true, true) => calls("file_edit", edit("prod")),
        (true, false) => calls("file_edit", edit("dev")).with_call("file_edit", edit("staging")),
        _ => says("Prepared."),
    }
}

/// STK-10
#[tokio::test]
async fn the_change_of_a_hook_in_a_channel_of_discord_is_taken_over_in_its_thread() {
    let mut app = DiscordApp::new(promote_and_continue).await;
    app.admit(ALICE, Role::Editor).await;
    app.stop().await;
    app.run_with(|config| {
        let hook = config.hooks.get_mut("release").unwrap();
        hook.post_to.channel = "discord".to_owned();
        hook.post_to.chat = PLATFORM.to_string();
    })
    .await;
    let payload = json!({
        "action": "published",
        "release": {"tag_name": "v1.9.0", "body": "Faster."},
        "repository": {"full_name": "acme/web"},
        "sender": {"login": "never-listed"},
    });
    let body = payload.to_string();
    let signature = sign::github(HOOK_SECRET, body.as_bytes());
    let headers = [
        ("content-type", "application/json"),
        ("x-github-event", "release"),
        ("x-github-delivery", "72d3162e-cc78-11e3-81ab-4c9367dc0958"),
        ("x-hub-signature-256", signature.as_str()),
    ];
    let (status, answer) = app.app.post("/in/release", &headers, body.as_bytes()).await;
    assert_eq!(status, 200, "{answer}");
    app.wait_for_message(PLATFORM, "CHG-1 is ready: 2 environments")
        .await;
    app.app.wait_until_idle().await;
    // A long result has several messages, and its buttons below the last.
    let post = app
        .wait_for("a button", |state| {
            let mut messages = state.messages_in(PLATFORM);
            messages
                .find(|message| labels(message).contains(&"Take over".to_owned()))
                .cloned()
        })
        .await;
    app.press(ALICE, &post, "Take over").await;
    // The thread of the message begins with the answer.
    app.wait_for_message(post.id, "CHG-1 is yours now.").await;
    app.app.wait_until_idle().await;
    let shown = now(&app, &post);
    assert_eq!(labels(&shown), [""; 0]);
    let line = "d7001 goes on with CHG-1 in this thread.";
    assert!(shown.text().contains(line), "{}", shown.text());
    // Without a mention, and on the edits of the hook.
    app.discord.say(ALICE, post.id, "also in prod");
    app.wait_for_message(post.id, "CHG-1 rev 2 is ready: 3 environments, 3 files")
        .await;
    app.app.wait_until_idle().await;
}
