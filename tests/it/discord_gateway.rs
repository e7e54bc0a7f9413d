//! The connection to Discord's gateway: lost connections, resumed sessions and restarts lose no event and double none.

use crate::support::app::BOUND;
use crate::support::discord::{ALICE, DiscordApp, PLATFORM};
use crate::support::log::LogCapture;
use drydock::simulation::emulator::discord::{DiscordFault, DiscordState, GatewayClosing};
use drydock::simulation::emulator::model::{ModelRequest, ScriptedAnswer, says};
use drydock::state::access::Role;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

fn answers(_: &ModelRequest) -> ScriptedAnswer {
    says("Nothing to change.")
}

/// Waits for a line of the log.
async fn wait_for_log(log: &LogCapture, line: &str) {
    let started = Instant::now();
    while !log.text().contains(line) {
        assert!(started.elapsed() < BOUND, "{}", log.text());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// R5: connections end while events are on their way.
#[tokio::test]
async fn forty_reconnects_lose_no_event_and_double_none() {
    let app = DiscordApp::new(answers).await;
    app.admit(ALICE, Role::Editor).await;
    let mut threads = Vec::new();
    for round in 0..40_usize {
        let closing = match round % 4 {
            0 => GatewayClosing::Reconnect,
            1 => GatewayClosing::Code(4_000),
            2 => GatewayClosing::Code(4_008),
            _ => GatewayClosing::Broken,
        };
        let opened = app.discord.with_state(|state| state.gateway.opened);
        // One event comes just before the connection ends, and one while there is none.
        threads.push(app.discord.say(ALICE, PLATFORM, "@drydock is anything new?"));
        app.discord.close_connections(closing);
        threads.push(app.discord.say(ALICE, PLATFORM, "@drydock and now?"));
        app.wait_for("another connection", |state| {
            (state.gateway.opened > opened && state.gateway.connected() > 0).then_some(())
        })
        .await;
    }
    for thread in &threads {
        app.wait_for_result(*thread, 1).await;
    }
    app.app.wait_until_idle().await;
    let mut counts = BTreeMap::new();
    for thread in &threads {
        *counts.entry(app.results(*thread).len()).or_insert(0) += 1;
    }
    assert_eq!(counts, BTreeMap::from([(1, 80)]));
    assert_eq!(app.app.model_requests().len(), 80);
    assert_eq!(app.discord.with_state(|state| state.gateway.identified), 1);
}

/// R5: an event that the store refuses is requested again.
#[tokio::test]
async fn a_session_is_resumed_before_an_event_that_was_not_stored() {
    let app = DiscordApp::new(answers).await;
    app.admit(ALICE, Role::Editor).await;
    app.app.wait_until_idle().await;
    app.app
        .alter_database("CREATE TRIGGER full BEFORE INSERT ON inbox BEGIN SELECT RAISE(ABORT, 'no'); END");
    let opened = app.discord.with_state(|state| state.gateway.opened);
    let thread = app.discord.say(ALICE, PLATFORM, "@drydock is anything new?");
    app.wait_for("a resumed session", |state| {
        (state.gateway.opened > opened).then_some(())
    })
    .await;
    app.app.alter_database("DROP TRIGGER full");
    app.wait_for_result(thread, 1).await;
    app.app.wait_until_idle().await;
    assert_eq!(app.results(thread).len(), 1);
    assert_eq!(app.app.model_requests().len(), 1);
}

/// A message whose place Discord does not tell is not lost.
#[tokio::test]
async fn a_message_whose_place_is_not_known_is_requested_again() {
    let app = DiscordApp::new(answers).await;
    app.admit(ALICE, Role::Editor).await;
    app.discord
        .fail_next("GET channels", 2, &DiscordFault::Status(503));
    app.ask(ALICE, "hello").await;
    app.app.wait_until_idle().await;
}

#[tokio::test]
async fn a_session_that_discord_forgot_is_replaced_by_a_new_one() {
    let app = DiscordApp::new(answers).await;
    app.admit(ALICE, Role::Editor).await;
    app.discord.forget_sessions();
    app.wait_for("a new session", |state: &DiscordState| {
        (state.gateway.identified == 2 && state.gateway.connected() == 1).then_some(())
    })
    .await;
    app.ask(ALICE, "hello").await;
    app.app.wait_until_idle().await;
}

/// R3
#[tokio::test]
async fn a_restart_answers_each_stored_message_of_discord_once() {
    let mut app = DiscordApp::new(answers).await;
    app.admit(ALICE, Role::Editor).await;
    let thread = app.discord.say(ALICE, PLATFORM, "@drydock is anything new?");
    app.wait_for_result(thread, 1).await;
    app.restart().await;
    app.discord.say(ALICE, thread, "and now?");
    app.wait_for_result(thread, 2).await;
    app.app.wait_until_idle().await;
    assert_eq!(app.results(thread).len(), 2);
}

#[tokio::test]
async fn a_connection_without_answered_heartbeats_is_replaced() {
    let app = DiscordApp::new(answers).await;
    app.admit(ALICE, Role::Editor).await;
    app.discord.change_gateway(|gateway| {
        gateway.heartbeat_milliseconds = 100;
        gateway.answers_heartbeats = false;
    });
    app.discord.close_connections(GatewayClosing::Reconnect);
    let opened = app.discord.with_state(|state| state.gateway.opened);
    app.wait_for("a replaced connection", |state| {
        (state.gateway.opened >= opened + 2).then_some(())
    })
    .await;
    app.discord
        .change_gateway(|gateway| gateway.answers_heartbeats = true);
    app.ask(ALICE, "hello").await;
    app.app.wait_until_idle().await;
}

#[tokio::test]
async fn close_codes_that_only_the_operator_can_correct_are_reported_with_what_to_do() {
    let app = DiscordApp::new(answers).await;
    let log = LogCapture::capture();
    app.discord
        .change_gateway(|gateway| gateway.has_message_content = false);
    app.discord.forget_sessions();
    wait_for_log(&log, "enable Message Content Intent").await;
    assert!(
        !log.text().contains("canary-of-the-bot-token"),
        "the token is in the log"
    );
}

/// A message in a channel of which Discord is slow to say what it is does not delay a press, and is answered later.
#[tokio::test]
async fn a_slow_lookup_of_a_channel_delays_no_press() {
    const OTHER: u64 = 502;
    let app = DiscordApp::new(answers).await;
    app.admit(ALICE, Role::Editor).await;
    app.discord.add_channel(OTHER, 0);
    app.app.wait_until_idle().await;
    let late = DiscordFault::Late(4_000);
    app.discord.fail_next("GET channels", 1, &late);
    let slow = app.discord.say(ALICE, OTHER, "@drydock hello");
    app.wait_for("a lookup", |state| {
        let mut calls = state.calls.iter();
        calls.find(|(route, _)| route == "GET channels").map(|_| ())
    })
    .await;
    let begun = Instant::now();
    app.interact(&app.discord.slash(ALICE, PLATFORM, "status")).await;
    // Discord takes a response within three seconds.
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    assert_eq!(app.results(slow).len(), 0);
    app.wait_for_result(slow, 1).await;
    app.app.wait_until_idle().await;
    assert_eq!(app.discord.with_state(|state| state.gateway.opened), 1);
}

/// R17: the emulator reports each call of a route whose bucket is empty.
#[tokio::test]
async fn a_call_waits_while_the_bucket_of_its_route_is_empty() {
    let app = DiscordApp::new(answers).await;
    app.admit(ALICE, Role::Editor).await;
    let (thread, _) = app.ask(ALICE, "hello").await;
    app.app.wait_until_idle().await;
    app.discord
        .fail_next("POST channels/messages", 1, &DiscordFault::LastOfBucket(3_000));
    app.discord.say(ALICE, thread, "hello again");
    app.wait_for_result(thread, 2).await;
    let seen = Instant::now();
    app.discord.say(ALICE, thread, "and again");
    app.wait_for_result(thread, 3).await;
    assert!(seen.elapsed() > Duration::from_secs(2), "{:?}", seen.elapsed());
    app.app.wait_until_idle().await;
    assert_eq!(app.results(thread).len(), 3);
}
