//! Discord through the real gateway: invites, changes in threads, buttons, commands and people who were not invited.

use crate::support::app::step_number;
use crate::support::discord::{ALICE, BOB, CLOSED, DiscordApp, EVE, PLATFORM};
use drydock::simulation::emulator::discord::{DiscordFault, DiscordState};
use drydock::simulation::emulator::model::{AnswerFault, ModelRequest, ScriptedAnswer, calls, queue, says};
use drydock::state::access::Role;
use serde_json::json;
use std::time::Duration;

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

/// T01, I2
#[tokio::test]
async fn an_unknown_sender_on_discord_costs_no_model_call_anywhere() {
    let app = DiscordApp::new(queue([])).await;
    let discord = &app.discord;
    discord.add_thread(777, PLATFORM);
    discord.dm(EVE, "delete prod");
    let notice = app.wait_for_message(app.direct(EVE), "Not authorised").await;
    assert!(notice.text().contains("discord:1001:6666"), "{}", notice.text());
    discord.say(EVE, PLATFORM, "@drydock delete prod");
    discord.say(EVE, 777, "@drydock delete prod");
    discord.say(EVE, 777, "delete prod");
    app.interact(&discord.slash(EVE, PLATFORM, "status")).await;
    app.app.wait_until_idle().await;
    assert_eq!(app.app.model_requests().len(), 0);
    assert_eq!(app.app.count("SELECT count(*) FROM inbox"), 0);
    let sent = app.discord.with_state(|state: &DiscordState| {
        let messages = state.messages.iter();
        messages
            .filter(|message| message.author == 1002 && !message.content.is_empty())
            .count()
    });
    assert_eq!(sent, 1, "one notice a day");
}

/// T01: a command and a press get their private answer, also where others read.
#[tokio::test]
async fn the_first_command_of_an_unknown_sender_is_answered_to_them_alone() {
    let app = DiscordApp::new(queue([])).await;
    app.interact(&app.discord.slash(EVE, PLATFORM, "status")).await;
    let answer = app.wait_for_private_answer(EVE, "Not authorised").await;
    assert_eq!(answer.only_for, Some(EVE));
    assert_eq!(app.app.model_requests().len(), 0);
}

#[tokio::test]
async fn an_invite_is_redeemed_in_a_direct_message_and_revoked_elsewhere() {
    let app = DiscordApp::new(answers).await;
    let token = app.app.invite("bob", Role::Editor, &["**"]).await;
    app.discord.say(BOB, PLATFORM, &format!("@drydock join {token}"));
    app.app.wait_for_audit_line("invite.burned").await;
    app.discord.dm(BOB, &format!("join {token}"));
    app.wait_for_message(app.direct(BOB), "invite").await;
    app.admit(ALICE, Role::Editor).await;
    app.discord.dm(ALICE, "is anything new?");
    app.wait_for_message(app.direct(ALICE), "Nothing to change.")
        .await;
    app.app.wait_until_idle().await;
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
async fn buttons_work_once_and_for_their_owner_only() {
    let app = DiscordApp::new(replicas).await;
    app.admit(ALICE, Role::Editor).await;
    app.admit(BOB, Role::Editor).await;
    let (thread, result) = app.ask(ALICE, "four replicas in dev").await;
    app.press(BOB, &result, "Discard").await;
    let refused = app.wait_for("an answer to Bob", |state: &DiscordState| {
        state.messages.iter().find(|m| m.only_for == Some(BOB)).cloned()
    });
    assert!(!refused.await.text().is_empty());
    app.press(ALICE, &result, "Get patch").await;
    let file = app.wait_for("a patch", |state| {
        let mut files = state.messages_in(thread).flat_map(|message| &message.files);
        files.find(|(name, _)| name == "CHG-1.patch").cloned()
    });
    let (_, content) = file.await;
    assert!(String::from_utf8_lossy(&content).contains("+    replicas: 4,"));
    app.press(ALICE, &result, "Get patch").await;
    app.app.wait_until_idle().await;
    let patches = app.discord.with_state(|state| {
        let files = state.messages_in(thread).flat_map(|message| &message.files);
        files.filter(|(name, _)| name == "CHG-1.patch").count()
    });
    assert_eq!(patches, 1);
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

#[tokio::test]
async fn a_running_turn_is_stopped_by_a_command_in_its_thread() {
    let app = DiscordApp::new(|_: &ModelRequest| {
        says("Late.").with_fault(AnswerFault::Delay(Duration::from_secs(30)))
    })
    .await;
    app.admit(ALICE, Role::Editor).await;
    let thread = app.discord.say(ALICE, PLATFORM, "@drydock think");
    app.app.wait_for_model_requests(1).await;
    // The status card begins the thread.
    app.wait_for("a thread", |state| state.thread_of(thread)).await;
    app.discord.say(ALICE, thread, "stop");
    app.wait_for("a stop", |state| {
        let mut messages = state.messages_in(thread).filter(|message| message.author == 1002);
        messages
            .find(|message| message.text().to_lowercase().contains("stopped"))
            .map(|_| ())
    })
    .await;
    app.app.wait_until_idle().await;
    assert_eq!(app.count_of(thread, "Late."), 0);
}

/// R17
#[tokio::test]
async fn a_result_shows_once_in_discord_whatever_became_of_its_post() {
    for fault in [
        DiscordFault::ResetAfterEffect,
        DiscordFault::Reset,
        DiscordFault::Status(502),
        DiscordFault::TooMany {
            milliseconds: 50,
            is_global: false,
        },
        DiscordFault::TooMany {
            milliseconds: 50,
            is_global: true,
        },
    ] {
        let app = DiscordApp::new(answers).await;
        app.admit(ALICE, Role::Editor).await;
        app.app.wait_until_idle().await;
        app.discord.fail_next("POST channels/messages", 1, &fault);
        let (thread, result) = app.ask(ALICE, "hello").await;
        app.app.wait_until_idle().await;
        assert_eq!(app.count_of(thread, "Nothing to change."), 1, "{fault:?}");
        assert_eq!(result.edits, 0, "{fault:?}");
    }
}

#[tokio::test]
async fn a_long_diff_is_a_file_and_a_long_answer_keeps_its_first_lines() {
    let content = "a line of a new file\n".repeat(400);
    let write = json!({"path": "notes.txt", "content": content});
    let app = DiscordApp::new(queue([calls("file_write", write), says("Here.")])).await;
    app.admit(ALICE, Role::Editor).await;
    let (thread, result) = app.ask(ALICE, "write notes").await;
    assert!(result.text().contains("CHG-1 is ready"), "{}", result.text());
    let file = app.wait_for("the diff", |state| {
        let mut files = state.messages_in(thread).flat_map(|message| &message.files);
        files.find(|(name, _)| name == "CHG-1.diff").cloned()
    });
    let (_, diff) = file.await;
    assert_eq!(
        String::from_utf8_lossy(&diff)
            .matches("+a line of a new file")
            .count(),
        400
    );
    app.app.wait_until_idle().await;
    let posts = app.discord.with_state(|state| {
        let messages = state.messages_in(thread).filter(|message| message.author == 1002);
        messages.filter(|message| !message.content.is_empty()).count()
    });
    assert!(posts <= 4, "{posts} messages");
}

/// T43
#[tokio::test]
async fn hostile_words_of_a_model_ping_nobody_and_link_nowhere_in_discord() {
    let words = "@everyone <@7002> <@&5> <#4> </drydock:1> https://evil.example/x [a](https://evil.example) \
                 discord.gg/abc ||hidden|| # big\n> quoted\n```\n@here\n```\n<t:1:R> <:x:1>";
    let app = DiscordApp::new(move |_: &ModelRequest| says(words)).await;
    app.admit(ALICE, Role::Editor).await;
    let (_, result) = app.ask(ALICE, "hello").await;
    let shown = result.shown();
    assert_eq!(result.pinged, [ALICE]);
    assert_eq!((shown.people, shown.other_mentions), (vec![ALICE], Vec::new()));
    assert_eq!(shown.links, Vec::<String>::new());
    assert!(shown.text.contains("@everyone <@7002>"), "{}", shown.text);
    app.app.wait_until_idle().await;
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
