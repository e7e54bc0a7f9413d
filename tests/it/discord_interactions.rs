//! Signed interactions over HTTP: they are verified, stored before they are answered, and answered as Discord expects.

use crate::support::app::step_number;
use crate::support::discord::{ALICE, DiscordApp, EVE, PLATFORM};
use crate::support::world::now;
use drydock::simulation::emulator::model::{ModelRequest, ScriptedAnswer, calls, queue, says};
use drydock::state::access::Role;
use jiff::SignedDuration;
use serde_json::json;

fn adds_a_note(asked: &ModelRequest) -> ScriptedAnswer {
    match step_number(asked) {
        0 => calls("file_write", json!({"path": "note.txt", "content": "one\n"})),
        _ => says("Done."),
    }
}

fn url(app: &DiscordApp) -> String {
    format!("{}/in/discord", app.app.demo.url())
}

#[tokio::test]
async fn a_ping_of_discord_is_answered_with_a_pong() {
    let app = DiscordApp::signed(queue([])).await;
    let answer = app
        .discord
        .send_raw(&url(&app), &json!({"type": 1}), now::<0>())
        .await;
    assert_eq!(answer.unwrap(), (200, json!({"type": 1})));
}

/// T12: Discord sends wrong signatures on purpose, and expects 401.
#[tokio::test]
async fn forged_and_stale_interactions_get_401_and_change_nothing() {
    let app = DiscordApp::signed(queue([])).await;
    app.admit(ALICE, Role::Editor).await;
    let slash = app.discord.slash(ALICE, PLATFORM, "status");
    let body = slash.payload.to_string();
    let time = now::<0>().as_second().to_string();
    for signature in ["00".repeat(64), "zz".to_owned(), String::new()] {
        let headers = [
            ("content-type", "application/json"),
            ("x-signature-ed25519", signature.as_str()),
            ("x-signature-timestamp", time.as_str()),
        ];
        let (status, _) = app.app.post("/in/discord", &headers, body.as_bytes()).await;
        assert_eq!(status, 401, "{signature}");
    }
    let (status, _) = app.app.post("/in/discord", &[], body.as_bytes()).await;
    assert_eq!(status, 401);
    let earlier = now::<0>() - SignedDuration::from_mins(10);
    let stale = app
        .discord
        .send_raw(&url(&app), &slash.payload, earlier)
        .await
        .unwrap();
    assert_eq!(stale.0, 401);
    assert_eq!(app.app.count("SELECT count(*) FROM inbox"), 0);
    app.app.wait_for_audit_line("hook.forged").await;
    app.app.wait_for_audit_line("hook.stale").await;
}

#[tokio::test]
async fn commands_and_presses_over_http_are_stored_answered_and_counted_once() {
    let app = DiscordApp::signed(adds_a_note).await;
    app.admit(ALICE, Role::Editor).await;
    let (thread, result) = app.ask(ALICE, "add a note").await;
    let press = app.discord.press(ALICE, result.id, "Get patch").unwrap();
    let answer = app.discord.send_signed(&url(&app), &press).await.unwrap();
    assert_eq!(answer, (200, json!({"type": 6})));
    // The same interaction again, as after a lost answer.
    let again = app.discord.send_raw(&url(&app), &press.payload, now::<0>()).await;
    assert_eq!(again.unwrap(), (200, json!({"type": 6})));
    app.wait_for("a patch", |state| {
        let mut files = state.messages_in(thread).flat_map(|message| &message.files);
        files.find(|(name, _)| name == "CHG-1.patch").map(|_| ())
    })
    .await;
    let slash = app.discord.slash(ALICE, PLATFORM, "help");
    let answer = app.discord.send_signed(&url(&app), &slash).await.unwrap();
    assert_eq!(answer, (200, json!({"type": 5, "data": {"flags": 64}})));
    app.wait_for_private_answer(ALICE, "status").await;
    app.app.wait_until_idle().await;
}

/// T01
#[tokio::test]
async fn an_unknown_sender_over_http_costs_no_model_call() {
    let app = DiscordApp::signed(queue([])).await;
    let slash = app.discord.slash(EVE, PLATFORM, "status");
    app.discord.send_signed(&url(&app), &slash).await.unwrap();
    app.wait_for_private_answer(EVE, "Not authorised").await;
    assert_eq!(app.app.model_requests().len(), 0);
}
