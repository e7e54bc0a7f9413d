//! Secrets of incoming requests are replaced without a lost request: while a section has two of them, each is accepted; once
//! the previous one is retired, or after a restart without it, it is refused.

use crate::support::app::TestApp;
use crate::support::log::LogCapture;
use crate::support::{sign, world};
use drydock::base::config::{ChannelSettings, Config};
use drydock::base::model::Secret;
use drydock::engine::admin::{AdminReply, AdminRequest};
use drydock::simulation::demo::environment::{HOOK_SECRET, SLACK_SIGNING_SECRET};
use drydock::simulation::emulator::model::queue;

const NEW: &str = "7b1e0d44c2f94a6f9d3e5a8b6c7d0f12";
const THIRD: &str = "another secret, just as long as the new";

/// Returns the configuration with new secrets, beside the previous ones if `previous` gives them.
fn replaced(app: &TestApp, previous: fn(&str) -> Option<Secret>) -> Config {
    let secret = |text: &str| Secret::new(text.to_owned());
    let mut config = app.demo.config().unwrap();
    let Some(ChannelSettings::Slack(slack)) = config.channels.get_mut("slack") else {
        panic!("the demo has a channel for Slack");
    };
    slack.signing_secret = Some(secret(NEW));
    slack.previous_signing_secret = previous(SLACK_SIGNING_SECRET);
    let hook = config.hooks.get_mut("release").unwrap();
    hook.secret = secret(NEW);
    hook.previous_secret = previous(HOOK_SECRET);
    config
}

/// Returns the status of Slack's challenge that is signed with a secret.
async fn challenge(app: &TestApp, secret: &str) -> u16 {
    let body = br#"{"type":"url_verification","challenge":"c-1"}"#;
    let seconds = world::now::<0>().as_second();
    let headers = [
        ("content-type", "application/json".to_owned()),
        ("x-slack-request-timestamp", seconds.to_string()),
        ("x-slack-signature", sign::slack(secret, seconds, body)),
    ];
    let headers = headers.each_ref().map(|(name, value)| (*name, value.as_str()));
    let (status, answer) = app.post("/in/slack", &headers, body).await;
    assert_eq!(status == 200, answer == "c-1", "{answer}");
    status
}

/// Returns the status of a ping of GitHub that is signed with a secret.
async fn ping(app: &TestApp, secret: &str) -> u16 {
    let body = br#"{"zen":"Design for failure."}"#;
    let signature = sign::github(secret, body);
    let headers = [
        ("content-type", "application/json"),
        ("x-github-event", "ping"),
        ("x-github-delivery", "72d3162e-cc78-11e3-81ab-4c9367dc0958"),
        ("x-hub-signature-256", &signature),
    ];
    app.post("/in/release", &headers, body).await.0
}

/// T22: beside that, a replaced secret is retired while the server runs.
#[tokio::test]
async fn a_replaced_secret_is_accepted_beside_the_new_one_and_refused_after_a_restart_without_it() {
    let mut app = TestApp::new(queue([])).await;
    app.demo.stop().await;
    let log = LogCapture::capture();
    let pairs = replaced(&app, |text| Some(Secret::new(text.to_owned())));
    app.start_with(pairs).await;
    for (slack, hook, status) in [
        (NEW, NEW, 200),
        (SLACK_SIGNING_SECRET, HOOK_SECRET, 200),
        (SLACK_SIGNING_SECRET, HOOK_SECRET, 200),
        (THIRD, THIRD, 401),
        // The secret of another section is not accepted.
        (HOOK_SECRET, SLACK_SIGNING_SECRET, 401),
    ] {
        assert_eq!(challenge(&app, slack).await, status, "{slack}");
        assert_eq!(ping(&app, hook).await, status, "{hook}");
    }
    let key = "channels.slack.previous_signing_secret".to_owned();
    let retired = app.send_admin_request(AdminRequest::RetireSecret { key }).await;
    assert!(matches!(retired, AdminReply::SecretRetired { .. }), "{retired:?}");
    assert_eq!(challenge(&app, SLACK_SIGNING_SECRET).await, 401);
    assert_eq!(challenge(&app, NEW).await, 200);
    assert_eq!(ping(&app, HOOK_SECRET).await, 200);
    let logged = log.text();
    for key in [
        "channels.slack.previous_signing_secret",
        "hooks.release.previous_secret",
    ] {
        let line = format!("requests were signed with `{key}`");
        assert_eq!(logged.matches(&line).count(), 1, "{logged}");
    }
    for secret in [NEW, SLACK_SIGNING_SECRET, HOOK_SECRET] {
        assert!(!logged.contains(secret));
    }
    app.demo.stop().await;
    let single = replaced(&app, |_| None);
    app.start_with(single).await;
    for (slack, hook, status) in [(NEW, NEW, 200), (SLACK_SIGNING_SECRET, HOOK_SECRET, 401)] {
        assert_eq!(challenge(&app, slack).await, status, "{slack}");
        assert_eq!(ping(&app, hook).await, status, "{hook}");
    }
}
