//! Slack over Socket Mode: no request of Slack reaches the gateway, which has neither a public address nor a signing
//! secret.

use crate::support::app::{BOUND, TestApp, step_number, visible_text};
use crate::support::log::LogCapture;
use crate::support::world::{advance, world};
use drydock::base::config::{ChannelSettings, Config};
use drydock::base::model::Secret;
use drydock::server::app::App;
use drydock::simulation::demo::environment::SLACK_CHANNEL;
use drydock::simulation::emulator::model::{AnswerScript, ModelRequest, ScriptedAnswer, calls, queue, says};
use drydock::simulation::emulator::slack::{SayError, SlackState, SocketClosing};
use serde_json::json;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

const ALICE: &str = "U0ALICE";
const EVE: &str = "U0EVE";
const APP_TOKEN: &str = "xapp-1-A0DRYDOCK-1-stage-app-level-token";

/// Returns the configuration with this app-level token and without a signing secret.
fn socket_mode(app: &TestApp, app_token: &str) -> Config {
    let mut config = app.demo.config().unwrap();
    let Some(ChannelSettings::Slack(slack)) = config.channels.get_mut("slack") else {
        panic!("a Slack channel");
    };
    slack.signing_secret = None;
    slack.app_token = Some(Secret::new(app_token.to_owned()));
    config
}

/// Returns an application that receives over sockets.
async fn app(script: impl AnswerScript + 'static) -> TestApp {
    let mut app = TestApp::new(script).await;
    app.demo.stop().await;
    app.demo.slack.turn_socket_mode_on(APP_TOKEN);
    start(&mut app).await;
    app
}

async fn start(app: &mut TestApp) {
    let config = socket_mode(app, APP_TOKEN);
    app.start_with(config).await;
}

fn replicas(asked: &ModelRequest) -> ScriptedAnswer {
    match step_number(asked) {
        0 => calls(
            "file_edit",
            json!({"path": "environments/dev/main.jsonnet", "old": "web:1.8.3',\n    replicas: 2,",
                "new": "web:1.8.3',\n    replicas: 4,"}),
        ),
        _ => says("Done."),
    }
}

fn answers(_: &ModelRequest) -> ScriptedAnswer {
    says("Nothing to change.")
}

/// Waits until an event is sent over a socket and not yet acknowledged.
async fn wait_for_envelopes(app: &TestApp, count: u64) {
    let sent = |state: &SlackState| (state.socket_mode.sent >= count).then_some(());
    app.wait_for_slack("an envelope", sent).await;
}

/// Returns the number of results below each message of the platform channel.
fn result_counts(app: &TestApp, threads: &[String]) -> BTreeMap<usize, usize> {
    let mut counts = BTreeMap::new();
    for thread in threads {
        *counts.entry(app.results(thread).len()).or_default() += 1;
    }
    counts
}

/// STK-9
#[tokio::test]
async fn a_change_is_requested_and_answered_without_a_public_address() {
    let app = app(replicas).await;
    app.admit_slack_editor(ALICE).await;
    let result = app.ask(ALICE, "four replicas in dev").await;
    assert!(result.text.contains("CHG-1 is ready"), "{}", result.text);
    // There is no address at which Slack, or anybody else, could send an event.
    let (status, _) = app
        .post("/in/slack", &[("content-type", "application/json")], b"{}")
        .await;
    assert_eq!(status, 401);
    app.wait_until_idle().await;
    let acknowledged = app
        .demo
        .slack
        .with_state(|state| state.socket_mode.acknowledged());
    assert!(
        acknowledged >= 3,
        "the invite, the mention and its message: {acknowledged}"
    );
}

#[tokio::test]
async fn buttons_and_slash_commands_work_over_a_socket() {
    let app = app(replicas).await;
    app.admit_slack_editor(ALICE).await;
    let result = app.ask(ALICE, "four replicas in dev").await;
    app.demo
        .slack
        .click(ALICE, &result.message.ts, "Get patch")
        .await
        .unwrap();
    let shared = |state: &SlackState| {
        state
            .files
            .iter()
            .find(|file| file.name.ends_with(".patch"))
            .cloned()
    };
    let patch = app.wait_for_slack("a patch", shared).await;
    assert!(String::from_utf8_lossy(&patch.content).contains("+    replicas: 4,"));
    let answer = app.run_slash_command(ALICE, "status").await;
    assert!(answer.contains("CHG-1"), "{answer}");
    app.wait_until_idle().await;
}

/// T01
#[tokio::test]
async fn an_unknown_sender_over_a_socket_costs_no_model_call() {
    let app = app(queue([])).await;
    app.add_slack_account(EVE);
    app.say(EVE, "scale everything to zero").await;
    app.demo.slack.slash(EVE, SLACK_CHANNEL, "status").await.unwrap();
    let refusal = app.wait_for_ephemeral(EVE, 0).await;
    assert!(refusal.contains("Not authorised"), "{refusal}");
    app.wait_until_idle().await;
    assert_eq!(app.model_requests().len(), 0);
}

/// R5: an event that the store refuses is not acknowledged, so Slack delivers it again.
#[tokio::test]
async fn an_event_is_acknowledged_only_after_it_is_stored() {
    let app = app(answers).await;
    app.admit_slack_editor(ALICE).await;
    app.wait_until_idle().await;
    let before = app
        .demo
        .slack
        .with_state(|state| state.socket_mode.acknowledged());
    app.alter_database("CREATE TRIGGER full BEFORE INSERT ON inbox BEGIN SELECT RAISE(ABORT, 'no'); END");
    let said = app.demo.slack.dm(ALICE, "is anything new?").await;
    assert_eq!(said, Err(SayError::NoAnswer));
    let after = app
        .demo
        .slack
        .with_state(|state| state.socket_mode.acknowledged());
    assert_eq!(after, before);
    app.alter_database("DROP TRIGGER full");
    let direct = format!("D{ALICE}");
    app.wait_for_slack_message(&direct, "Nothing to change.").await;
    app.wait_until_idle().await;
    app.demo.slack.with_state(|state| {
        assert_eq!(state.socket_mode.lost, Vec::<serde_json::Value>::new());
        let answers = state.messages.iter().map(visible_text);
        assert_eq!(
            answers.filter(|text| text.contains("Nothing to change.")).count(),
            1
        );
    });
}

/// R5: Slack replaces, closes and loses sockets while events are on their way.
#[tokio::test]
async fn two_hundred_reconnects_lose_no_event_and_double_none() {
    let app = app(answers).await;
    app.admit_slack_editor(ALICE).await;
    let mut threads = Vec::new();
    for round in 0..200_usize {
        let closing = match round % 4 {
            0 => SocketClosing::Announced("warning"),
            1 => SocketClosing::Announced("refresh_requested"),
            2 => SocketClosing::AtOnce("refresh_requested"),
            _ => SocketClosing::Broken,
        };
        let written = app
            .demo
            .slack
            .write(ALICE, SLACK_CHANNEL, None, "@drydock is anything new?");
        threads.push(written.ts.clone());
        let mode = |state: &SlackState| (state.socket_mode.opened, state.socket_mode.sent);
        let (opened, sent) = app.demo.slack.with_state(mode);
        let [first, second] = [0, 1].map(|index| written.events[index].clone());
        // One event is sent just before the socket ends, and one after.
        let early = app.demo.slack.send_envelope("events_api", first);
        let late = async {
            wait_for_envelopes(&app, sent + 1).await;
            app.demo.slack.close_sockets(closing);
            app.demo.slack.send_envelope("events_api", second).await
        };
        // An event whose socket ended is sent again, so it does not matter that its first delivery was not answered.
        let _answers = tokio::join!(early, late);
        let reopened = |state: &SlackState| {
            let mode = &state.socket_mode;
            (mode.opened > opened && mode.staying_sockets() > 0).then_some(())
        };
        app.wait_for_slack("another socket", reopened).await;
    }
    for thread in &threads {
        app.wait_for_result(thread, 1).await;
    }
    app.wait_until_idle().await;
    assert_eq!(result_counts(&app, &threads), BTreeMap::from([(1, 200)]));
    assert_eq!(app.model_requests().len(), 200);
    app.demo.slack.with_state(|state| {
        assert_eq!(state.socket_mode.lost, Vec::<serde_json::Value>::new());
        assert!(state.socket_mode.opened > 200, "{}", state.socket_mode.opened);
    });
}

/// R3, R5: what was sent before, during and after a restart is answered once.
#[tokio::test]
async fn a_restart_between_delivery_and_acknowledgement_loses_and_doubles_nothing() {
    let mut app = app(answers).await;
    app.admit_slack_editor(ALICE).await;
    let before = app.say(ALICE, "is anything new?").await.ts;
    // The store accepts the event, and the gateway stops before Slack reads an acknowledgement.
    let written = app
        .demo
        .slack
        .write(ALICE, SLACK_CHANNEL, None, "@drydock and now?");
    let sent = app.demo.slack.with_state(|state| state.socket_mode.sent);
    let sending = app
        .demo
        .slack
        .send_envelope("events_api", written.events[0].clone());
    tokio::join!(
        async {
            let _unanswered = sending.await;
        },
        async {
            wait_for_envelopes(&app, sent + 1).await;
            app.demo.slack.close_sockets(SocketClosing::Broken);
        }
    );
    app.demo.stop().await;
    let unheard = app
        .demo
        .slack
        .write(ALICE, SLACK_CHANNEL, None, "@drydock and while you were away?");
    let missed = app
        .demo
        .slack
        .send_envelope("events_api", unheard.events[0].clone())
        .await;
    assert_eq!(missed, Err(SayError::NoAnswer));
    start(&mut app).await;
    let threads = [before, written.ts, unheard.ts];
    for thread in &threads {
        app.wait_for_result(thread, 1).await;
    }
    app.wait_until_idle().await;
    assert_eq!(result_counts(&app, &threads), BTreeMap::from([(1, 3)]));
}

#[tokio::test]
async fn a_wrong_app_token_is_reported_with_its_key() {
    let mut app = TestApp::new(answers).await;
    app.demo.stop().await;
    app.demo.slack.turn_socket_mode_on(APP_TOKEN);
    let log = LogCapture::capture();
    let config = socket_mode(&app, "xapp-1-A0DRYDOCK-1-of-another-app");
    let running = App::start(config, world::<0>()).await.unwrap();
    let started = Instant::now();
    while !log.text().contains("`channels.slack.app_token`: invalid_auth") {
        assert!(started.elapsed() < BOUND, "{}", log.text());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    running.shutdown().await;
    assert!(!log.text().contains("of-another-app"), "the token is in the log");
    start(&mut app).await;
    app.admit_slack_editor(ALICE).await;
}

#[tokio::test]
async fn a_start_requests_one_address_which_opens_the_first_socket() {
    let app = app(answers).await;
    app.wait_for_slack("a socket", |state| {
        (state.socket_mode.staying_sockets() > 0).then_some(())
    })
    .await;
    app.demo.slack.with_state(|state| {
        let requested = state
            .calls
            .iter()
            .filter(|call| call.method == "apps.connections.open");
        assert_eq!((requested.count(), state.socket_mode.opened), (1, 1));
    });
}

/// R36
#[tokio::test]
async fn a_channel_without_an_open_socket_for_a_minute_is_degraded() {
    const CLOCK: usize = 4;
    let mut app = TestApp::new(answers).await;
    app.demo.stop().await;
    app.demo.slack.turn_socket_mode_on(APP_TOKEN);
    let config = socket_mode(&app, APP_TOKEN);
    app.start_with_host(config, world::<CLOCK>()).await;
    let opened = |state: &SlackState| (state.socket_mode.staying_sockets() > 0).then_some(());
    app.wait_for_slack("a socket", opened).await;
    app.demo.slack.turn_socket_mode_off();
    app.wait_for_slack("no socket", |state| {
        (state.socket_mode.open_sockets() == 0).then_some(())
    })
    .await;
    assert_eq!(app.readyz().await, (200, r#"{"ready":true}"#.to_owned()));
    let why = "channel slack: no connection is open over which messages arrive, since 2026-11-21T";
    let until = async |status: u16, says: &str| {
        let started = Instant::now();
        loop {
            let (answered, body) = app.readyz().await;
            if answered == status && body.contains(says) {
                return;
            }
            assert!(started.elapsed() < BOUND, "{answered} {body}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    // Whether the gateway noticed the end of the socket already is not known.
    let started = Instant::now();
    while !app.readyz().await.1.contains("\"degraded\"") {
        assert!(started.elapsed() < BOUND, "it is not reported");
        advance::<CLOCK>(60);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // Hooks and the other channels go on, so the process stays in service.
    until(200, why).await;
    until(200, r#""ready":true"#).await;
    app.demo.slack.turn_socket_mode_on(APP_TOKEN);
    until(200, r#"{"ready":true}"#).await;
}
