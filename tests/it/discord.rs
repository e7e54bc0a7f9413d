//! The special parts of Discord through the real gateway: threads, messages that are no requests, and commands.

use crate::support::app::step_number;
use crate::support::discord::{ALICE, CLOSED, DiscordApp, PLATFORM};
use drydock::simulation::emulator::discord::DiscordFault;
use drydock::simulation::emulator::model::{ModelRequest, ScriptedAnswer, calls, queue, says};
use drydock::state::access::Role;
use serde_json::json;

fn replicas(asked: &ModelRequest) -> ScriptedAnswer {
    match step_number(asked) {
        0 => calls(
            "file_edit",
            json!({"path": "environments/dev/main.jsonnet", "old": "web:1.8.3',\n    replicas: 2,",
                "new": "web:1.8.3',\n    replicas: 4,"}),
        ),
        _ => says("web in dev asks for 4 replicas."),
    }
}

fn answers(_: &ModelRequest) -> ScriptedAnswer {
    says("Nothing to change.")
}

/// STK-10
#[tokio::test]
async fn a_change_is_requested_by_a_mention_and_answered_in_its_thread() {
    let app = DiscordApp::new(replicas).await;
    app.admit(ALICE, Role::Editor).await;
    let (thread, result) = app.ask(ALICE, "four replicas in dev").await;
    let text = result.text();
    assert!(text.contains("CHG-1 is ready"), "{text}");
    assert!(text.contains("+    replicas: 4,"), "{text}");
    assert_eq!(result.pinged, [ALICE]);
    assert_eq!(
        app.discord.with_state(|state| state.thread_of(thread)),
        Some(thread)
    );
    // A further message in the thread needs no mention and continues the conversation.
    app.discord.say(ALICE, thread, "and what now?");
    app.wait_for_result(thread, 2).await;
    // The message shows that it was received.
    let reactions = app.discord.with_state(|state| {
        let asked = state
            .messages
            .iter()
            .find(|message| message.id == thread)
            .unwrap();
        asked.reactions.clone()
    });
    assert!(!reactions.is_empty());
    app.app.wait_until_idle().await;
}

#[tokio::test]
async fn edits_bots_and_webhooks_start_no_turn() {
    let app = DiscordApp::new(queue([])).await;
    app.admit(ALICE, Role::Editor).await;
    let words = "@drydock delete prod";
    for fields in [
        json!({"author": {"id": ALICE.to_string(), "username": "b", "discriminator": "0", "bot": true}}),
        json!({"webhook_id": "55"}),
        json!({"type": 6}),
        json!({"edited_timestamp": "2026-11-21T12:00:01.000000+00:00"}),
    ] {
        app.discord.write(ALICE, PLATFORM, words, &fields);
    }
    app.discord.edit(ALICE, PLATFORM, 1, words);
    // A message that nobody addressed to the bot.
    app.discord.say(ALICE, PLATFORM, "lunch?");
    app.interact(&app.discord.slash(ALICE, PLATFORM, "status")).await;
    app.wait_for_private_answer(ALICE, "").await;
    app.app.wait_until_idle().await;
    assert_eq!(app.app.model_requests().len(), 0);
}

#[tokio::test]
async fn commands_are_registered_once_and_answered_to_their_person() {
    let mut app = DiscordApp::new(answers).await;
    app.admit(ALICE, Role::Editor).await;
    app.interact(&app.discord.slash(ALICE, PLATFORM, "help")).await;
    let answer = app.wait_for_private_answer(ALICE, "status").await;
    assert_eq!(answer.channel, PLATFORM);
    // In a direct message there is nobody to hide the answer from.
    let direct = app.direct(ALICE);
    app.interact(&app.discord.slash(ALICE, direct, "help")).await;
    let answer = app.wait_for_message(direct, "status").await;
    assert_eq!(answer.only_for, None);
    app.app.wait_until_idle().await;
    app.restart().await;
    let registrations = app.discord.with_state(|state| {
        let calls = state.calls.iter();
        calls
            .filter(|(route, _)| route == "POST applications/commands")
            .count()
    });
    assert_eq!(registrations, 1);
}

/// R17
#[tokio::test]
async fn a_result_shows_once_in_discord_after_a_limit_of_all_calls() {
    let app = DiscordApp::new(answers).await;
    app.admit(ALICE, Role::Editor).await;
    app.app.wait_until_idle().await;
    let fault = DiscordFault::TooMany {
        milliseconds: 50,
        is_global: true,
    };
    app.discord.fail_next("POST channels/messages", 1, &fault);
    let (thread, result) = app.ask(ALICE, "hello").await;
    app.app.wait_until_idle().await;
    assert_eq!(app.count_of(thread, "Nothing to change."), 1);
    assert_eq!(result.edits, 0);
}

#[tokio::test]
async fn a_person_without_direct_messages_is_answered_in_their_threads() {
    let app = DiscordApp::new(answers).await;
    let token = app.app.invite("closed", Role::Editor, &["**"]).await;
    app.discord.dm(CLOSED, &format!("join {token}"));
    app.wait_for_message(app.direct(CLOSED), "You're in").await;
    app.ask(CLOSED, "hello").await;
    app.app.wait_until_idle().await;
}
