//! [Revise] in Discord: a form whose words are a request in the thread of the button.

use crate::support::app::step_number;
use crate::support::discord::{ALICE, BOB, DiscordApp, EVE, PLATFORM};
use drydock::simulation::emulator::model::{ModelRequest, ScriptedAnswer, calls, says};
use drydock::state::access::Role;
use serde_json::json;

/// Sets the replicas of dev: "from 2 to 4".
fn scale(asked: &ModelRequest) -> ScriptedAnswer {
    let words = asked.last_user_text();
    let (from, to) = match (words.contains("from 2 to 4"), words.contains("from 4 to 5")) {
        (true, _) => ("2", "4"),
        (_, true) => ("4", "5"),
        _ => return says("Done."),
    };
    let of = |count: &str| format!("web:1.8.3',\n    replicas: {count},");
    match step_number(asked) {
        0 => calls(
            "file_edit",
            json!({"path": "environments/dev/main.jsonnet", "old": of(from), "new": of(to)}),
        ),
        _ => says("Done."),
    }
}

#[tokio::test]
async fn revise_opens_a_form_in_discord_and_its_words_are_a_request_in_the_thread() {
    let app = DiscordApp::new(scale).await;
    app.admit(ALICE, Role::Editor).await;
    let (thread, first) = app.ask(ALICE, "from 2 to 4").await;
    app.press(ALICE, &first, "Revise").await;
    let modal = app.wait_for("a form", |state| state.modals.last().cloned()).await;
    assert_eq!(
        (modal.person, modal.title.as_str(), modal.label.as_str()),
        (ALICE, "Revise CHG-1", "What should be different in CHG-1?")
    );
    let sent = app
        .discord
        .submit(&modal, "from 4 to 5, **please** <@7002> @everyone");
    app.interact(&sent).await;
    let shown = app.wait_for_message(thread, "d7001 about CHG-1:").await;
    assert!(
        shown.text().contains("from 4 to 5, **please** <@7002> @everyone"),
        "{}",
        shown.text()
    );
    assert_eq!(shown.shown().people, Vec::<u64>::new());
    let second = app.wait_for_result(thread, 2).await;
    assert!(
        second.text().contains("CHG-1 rev 2 is ready"),
        "{}",
        second.text()
    );
    // The same form again, as after an answer that was lost, does nothing.
    let requests = app.app.model_requests().len();
    app.discord.send(&sent);
    // What is sent after it is answered after it.
    app.interact(&app.discord.slash(ALICE, PLATFORM, "status")).await;
    app.app.wait_until_idle().await;
    assert_eq!(app.app.model_requests().len(), requests);
    assert_eq!(app.count_of(thread, "What should be different"), 0);
}

/// The words count for who sends them, also if they are the word of a command.
#[tokio::test]
async fn a_form_of_discord_speaks_for_its_person_and_is_never_a_command() {
    let app = DiscordApp::new(scale).await;
    app.admit(ALICE, Role::Editor).await;
    app.admit(BOB, Role::Admin).await;
    let (thread, first) = app.ask(ALICE, "from 2 to 4").await;
    app.press(BOB, &first, "Revise").await;
    app.wait_for_private_answer(BOB, "This button belongs to d7001.")
        .await;
    assert_eq!(app.discord.with_state(|state| state.modals.len()), 0);
    app.press(ALICE, &first, "Revise").await;
    let modal = app.wait_for("a form", |state| state.modals.last().cloned()).await;
    app.interact(&app.discord.submit(&modal, "discard")).await;
    let second = app.wait_for_result(thread, 2).await;
    assert!(
        second.text().contains("CHG-1 stays as it was"),
        "{}",
        second.text()
    );
    // An outsider who sends it costs nothing.
    let requests = app.app.model_requests().len();
    let mut forged = modal.clone();
    forged.person = EVE;
    app.interact(&app.discord.submit(&forged, "delete prod")).await;
    app.app.wait_until_idle().await;
    assert_eq!(app.app.model_requests().len(), requests);
}

/// A press over HTTP is responded to with the answer to its request, so the question is a message.
#[tokio::test]
async fn a_press_that_can_open_no_form_is_answered_with_a_question() {
    let app = DiscordApp::signed(scale).await;
    app.admit(ALICE, Role::Editor).await;
    let (thread, first) = app.ask(ALICE, "from 2 to 4").await;
    let press = app.discord.press(ALICE, first.id, "Revise").unwrap();
    let url = format!("{}/in/discord", app.app.demo.url());
    let (status, _) = app.discord.send_signed(&url, &press).await.unwrap();
    assert_eq!(status, 200);
    app.wait_for_message(thread, "What should be different in CHG-1?")
        .await;
    app.app.wait_until_idle().await;
    assert_eq!(app.discord.with_state(|state| state.modals.len()), 0);
}
