//! Tests of incoming requests: every forgery gets the same answer, and a replay changes nothing.

use crate::support::app::TestApp;
use crate::support::log::LogCapture;
use crate::support::{sign, world};
use drydock::base::config::{ChannelSettings, TelegramMode};
use drydock::base::model::Secret;
use drydock::simulation::demo::environment::{
    HOOK_SECRET, SLACK_CHANNEL, SLACK_SIGNING_SECRET, TELEGRAM_BOT_TOKEN,
};
use drydock::simulation::emulator::model::{AnswerQueue, ModelRequest, queue, says};
use serde_json::json;

const ALICE: &str = "U0ALICE";
const REFUSED: &str = r#"{"error":"unauthenticated"}"#;

fn nobody_asks() -> AnswerQueue {
    queue([])
}

fn refused() -> (u16, String) {
    (401, REFUSED.to_owned())
}

fn seconds() -> i64 {
    world::now::<0>().as_second()
}

/// Delivers a release like GitHub, with these signature headers.
async fn release(app: &TestApp, signature: &[(&str, &str)], body: &[u8]) -> (u16, String) {
    let mut headers = vec![
        ("content-type", "application/json"),
        ("x-github-event", "release"),
        ("x-github-delivery", "72d3162e-cc78-11e3-81ab-4c9367dc0958"),
    ];
    headers.extend_from_slice(signature);
    app.post("/in/release", &headers, body).await
}

/// T10, T11, T12, T13, I12
#[tokio::test]
async fn every_badly_signed_hook_is_refused_in_the_same_words() {
    let app = TestApp::new(nobody_asks()).await;
    let body = br#"{"action":"published"}"#;
    let right = sign::github(HOOK_SECRET, body);
    let hex = sign::hmac(HOOK_SECRET, body);
    assert_eq!(release(&app, &[], body).await, refused(), "no signature");
    let wrong = sign::github("another secret, just as long", body);
    let long = "a".repeat(6_000);
    let odd = &right[..right.len() - 1];
    let upper_scheme = right.replace("sha256=", "SHA256=");
    let (spaced, doubled, slack_form) = (
        format!("{right} x"),
        format!("{right}{right}"),
        format!("v0={hex}"),
    );
    let other_digit = format!("{}g", &right[..right.len() - 1]);
    let sha1 = format!("sha1={}", &hex[..40]);
    let fixtures: [(&str, &str); 14] = [
        ("x-hub-signature-256", &wrong),
        ("x-hub-signature-256", &hex),
        ("x-hub-signature-256", odd),
        ("x-hub-signature-256", &upper_scheme),
        ("x-hub-signature-256", &spaced),
        ("x-hub-signature-256", &doubled),
        ("x-hub-signature-256", &slack_form),
        ("x-hub-signature-256", &other_digit),
        ("x-hub-signature-256", &long),
        ("x-hub-signature-256", ""),
        ("x-hub-signature-256", "sha256="),
        ("x-hub-signature", &sha1),
        ("x-webhook-signature", &hex),
        ("x-slack-signature", &slack_form),
    ];
    for (name, value) in fixtures {
        assert_eq!(
            release(&app, &[(name, value)], body).await,
            refused(),
            "{name}: {value}"
        );
    }
    for pair in [[&right, &wrong], [&wrong, &right], [&right, &right]] {
        let both = pair.map(|value| ("x-hub-signature-256", value.as_str()));
        assert_eq!(release(&app, &both, body).await, refused(), "two signatures");
    }
    assert_eq!(
        app.post("/in/nothing-here", &[], body).await,
        refused(),
        "an unknown name"
    );
    assert_eq!(app.count("SELECT count(*) FROM inbox"), 0);
    app.wait_for_audit_line("ingress.rejected").await;
}

/// CI-27: a signature in the URL proves nothing.
#[tokio::test]
async fn a_signature_in_the_url_is_ignored() {
    let app = TestApp::new(nobody_asks()).await;
    let body = br#"{"action":"published"}"#;
    let right = sign::github(HOOK_SECRET, body);
    for name in ["signature", "x-hub-signature-256", "token", "secret"] {
        let path = format!("/in/release?{name}={right}");
        let headers = [
            ("content-type", "application/json"),
            ("x-github-event", "release"),
        ];
        assert_eq!(app.post(&path, &headers, body).await, refused(), "{path}");
    }
    assert_eq!(app.count("SELECT count(*) FROM inbox"), 0);
}

/// T10, T12, T13, T16, CI-24
#[tokio::test]
async fn every_badly_signed_or_stale_slack_event_is_refused_in_the_same_words() {
    let app = TestApp::new(nobody_asks()).await;
    app.admit_slack_editor(ALICE).await;
    let event = json!({"type": "app_mention", "user": ALICE, "team": "T0ACME", "channel": SLACK_CHANNEL,
        "ts": "1795293600.900001", "text": "<@U0DRYDOCK> delete prod"});
    let body = app.demo.slack.envelope(&event).to_string().into_bytes();
    let now = seconds();
    let at = now.to_string();
    let right = sign::slack(SLACK_SIGNING_SECRET, now, &body);
    let wrong = sign::slack("another secret, just as long", now, &body);
    let send = async |headers: &[(&str, &str)]| app.post("/in/slack", headers, &body).await;
    let time = ("x-slack-request-timestamp", at.as_str());
    let signed = ("x-slack-signature", right.as_str());
    assert_eq!(send(&[]).await, refused());
    assert_eq!(send(&[time]).await, refused());
    assert_eq!(send(&[signed]).await, refused());
    assert_eq!(send(&[time, ("x-slack-signature", &wrong)]).await, refused());
    assert_eq!(
        send(&[time, signed, ("x-slack-signature", &wrong)]).await,
        refused()
    );
    assert_eq!(send(&[time, time, signed]).await, refused());
    for stale in [now - 400, now + 400] {
        let (at, signature) = (stale.to_string(), sign::slack(SLACK_SIGNING_SECRET, stale, &body));
        let headers = [
            ("x-slack-request-timestamp", at.as_str()),
            ("x-slack-signature", signature.as_str()),
        ];
        assert_eq!(send(&headers).await, refused(), "{}", stale - now);
    }
    for strange in ["", "0", "-1", "1e9", "99999999999999999999", " 1", "NaN"] {
        let signature = format!(
            "v0={}",
            sign::hmac(SLACK_SIGNING_SECRET, format!("v0:{strange}:").as_bytes())
        );
        let headers = [
            ("x-slack-request-timestamp", strange),
            ("x-slack-signature", signature.as_str()),
        ];
        assert_eq!(send(&headers).await, refused(), "{strange}");
    }
    app.wait_for_audit_line("hook.stale").await;
    app.wait_for_audit_line("hook.forged").await;
    assert_eq!(app.count("SELECT count(*) FROM inbox"), 0);
    assert_eq!(app.model_requests().len(), 0);
}

/// R20: a clock difference is reported as such, not only as a series of 401s.
#[tokio::test]
async fn signatures_that_are_right_and_of_another_time_show_in_the_probe() {
    let app = TestApp::new(nobody_asks()).await;
    app.admit_slack_editor(ALICE).await;
    let event = json!({"type": "app_mention", "user": "U0NOBODY", "team": "T0ACME", "channel": SLACK_CHANNEL,
        "ts": "1795293600.900001", "text": "<@U0DRYDOCK> hello"});
    let body = app.demo.slack.envelope(&event).to_string().into_bytes();
    let send = async |at: i64| {
        let (time, signature) = (at.to_string(), sign::slack(SLACK_SIGNING_SECRET, at, &body));
        let headers = [
            ("x-slack-request-timestamp", time.as_str()),
            ("x-slack-signature", signature.as_str()),
            ("content-type", "application/json"),
        ];
        app.post("/in/slack", &headers, &body).await.0
    };
    for _ in 0..5 {
        assert_eq!(send(seconds() - 7_200).await, 401);
    }
    assert_eq!(app.get("/readyz").await, (200, r#"{"ready":true}"#.to_owned()));
    assert_eq!(send(seconds() - 7_200).await, 401);
    let (status, reported) = app.get("/readyz").await;
    assert_eq!(status, 200);
    let why = "signatures of slack: the clock of this machine or of the sender differs by 7";
    assert!(reported.contains(why), "{reported}");
    assert_eq!(send(seconds()).await, 200);
    assert_eq!(app.get("/readyz").await, (200, r#"{"ready":true}"#.to_owned()));
}

/// T17
#[tokio::test]
async fn a_body_that_was_touched_after_signing_is_refused() {
    let app = TestApp::new(nobody_asks()).await;
    let body = br#"{"action": "published", "n": 1}"#;
    let signature = sign::github(HOOK_SECRET, body);
    let signed = [("x-hub-signature-256", signature.as_str())];
    for index in 0..body.len() {
        let mut flipped = body.to_vec();
        flipped[index] ^= 1;
        assert_eq!(release(&app, &signed, &flipped).await, refused(), "byte {index}");
    }
    let value: serde_json::Value = serde_json::from_slice(body).unwrap();
    let encoded_again = serde_json::to_vec(&value).unwrap();
    assert_eq!(release(&app, &signed, &encoded_again).await, refused());
    let zipped = [signed[0], ("content-encoding", "gzip")];
    assert_eq!(release(&app, &zipped, body).await.0, 415);
    assert_eq!(app.count("SELECT count(*) FROM inbox"), 0);
}

/// T15
#[tokio::test]
async fn one_slack_event_sent_fifty_times_is_answered_once() {
    let app = TestApp::new(|_: &ModelRequest| says("Once.")).await;
    app.admit_slack_editor(ALICE).await;
    let said = app.say(ALICE, "are you there?").await;
    let event = json!({"type": "app_mention", "user": ALICE, "team": "T0ACME", "channel": SLACK_CHANNEL,
        "ts": said.ts, "event_ts": said.ts, "text": "<@U0DRYDOCK> are you there?"});
    let event = app.demo.slack.envelope(&event);
    let sending = (0..50).map(|_| app.demo.slack.send_event(&event));
    for answer in futures_util::future::join_all(sending).await {
        assert_eq!(answer.unwrap().status, 200);
    }
    app.wait_for_result(&said.ts, 1).await;
    assert_eq!(app.count("SELECT count(*) FROM turn"), 1);
    assert_eq!(app.model_requests().len(), 1);
    assert_eq!(app.results(&said.ts).len(), 1);
}

/// T19
#[tokio::test]
async fn telegram_must_bring_the_secret_token() {
    let mut app = TestApp::new(nobody_asks()).await;
    app.demo.stop().await;
    let mut config = app.demo.config().unwrap();
    config.server.public_url = "https://drydock.example.com".to_owned();
    if let Some(ChannelSettings::Telegram(telegram)) = config.channels.get_mut("telegram") {
        telegram.mode = TelegramMode::Webhook;
        telegram.secret_token = Some(Secret::new(HOOK_SECRET.to_owned()));
    }
    app.start_with(config).await;
    let update = json!({"update_id": 1, "message": {"message_id": 7, "date": 1, "text": "delete prod",
        "chat": {"id": 666, "type": "private"}, "from": {"id": 666, "is_bot": false, "first_name": "M"}}});
    let body = update.to_string().into_bytes();
    let header = "x-telegram-bot-api-secret-token";
    for headers in [
        &[][..],
        &[(header, "")],
        &[(header, "wrong")],
        &[(header, TELEGRAM_BOT_TOKEN)],
        &[(header, HOOK_SECRET), (header, "wrong")],
    ] {
        assert_eq!(
            app.post("/in/telegram", headers, &body).await,
            refused(),
            "{headers:?}"
        );
    }
    assert_eq!(app.count("SELECT count(*) FROM stranger"), 0);
    let right = [("content-type", "application/json"), (header, HOOK_SECRET)];
    let (status, _) = app.post("/in/telegram", &right, &body).await;
    assert_eq!(status, 200);
    assert_eq!(app.count("SELECT count(*) FROM stranger"), 1);
}

/// T20
#[tokio::test]
async fn a_forger_does_not_find_the_right_signature_in_any_log() {
    let log = LogCapture::capture();
    let app = TestApp::new(nobody_asks()).await;
    let body = br#"{"action":"published"}"#;
    let forged = sign::github("another secret, just as long", body);
    assert_eq!(
        release(&app, &[("x-hub-signature-256", &forged)], body).await,
        refused()
    );
    let now = seconds();
    let forged = sign::slack("another secret, just as long", now, body);
    let headers = [
        ("x-slack-request-timestamp", now.to_string()),
        ("x-slack-signature", forged),
    ];
    let headers = headers.each_ref().map(|(name, value)| (*name, value.as_str()));
    assert_eq!(app.post("/in/slack", &headers, body).await, refused());
    app.wait_for_audit_line("hook.forged").await;
    let logged = log.text();
    assert!(logged.contains("listening on"), "nothing was captured");
    for right in [
        sign::hmac(HOOK_SECRET, body),
        sign::slack(SLACK_SIGNING_SECRET, now, body),
    ] {
        assert!(!logged.contains(&right));
        assert!(app.data_files_with(&right).is_empty());
    }
    for secret in [HOOK_SECRET, SLACK_SIGNING_SECRET] {
        assert!(!logged.contains(secret));
    }
}
