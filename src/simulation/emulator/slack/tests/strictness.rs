//! Tests of the emulator itself: if it accepted everything, the other tests would prove nothing.

use super::*;
use crate::interfaces::channel::{SlackConnection, SlackManifest};
use crate::simulation::emulator::slack::{HomeTab, SayError};
use serde_json::Value;

/// Calls the Web API and returns `ok`, or the code of its refusal.
pub(super) async fn call(emulator: &SlackEmulator, method: &str, body: &Value) -> String {
    let url = format!("{}/{method}", emulator.api_base_url());
    let request = http().post(url).bearer_auth("xoxb-1").json(body);
    let mut response = request.send().await.unwrap();
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.unwrap() {
        bytes.extend_from_slice(&chunk);
    }
    let answer: Value = serde_json::from_slice(&bytes).unwrap();
    match answer["ok"].as_bool() {
        Some(true) => "ok".to_owned(),
        _ => answer["error"].as_str().unwrap().to_owned(),
    }
}

fn section(chars: usize) -> Value {
    json!({"type": "section", "text": {"type": "mrkdwn", "text": "x".repeat(chars)}})
}

fn press(action: &str, label: usize, value: usize) -> Value {
    json!({"type": "button", "action_id": action, "value": "v".repeat(value),
        "text": {"type": "plain_text", "text": "x".repeat(label)}})
}

fn actions(buttons: usize) -> Value {
    let buttons: Vec<Value> = (0..buttons)
        .map(|number| press(&format!("a{number}"), 1, 1))
        .collect();
    json!({"type": "actions", "elements": buttons})
}

fn with_blocks(blocks: Vec<Value>) -> Value {
    json!({"channel": "C0OPS", "text": "x", "blocks": blocks})
}

/// T61, T72
#[tokio::test]
async fn every_wrong_message_is_refused_as_slack_refuses_it() {
    let emulator = workspace().await;
    let header =
        |chars: usize| json!({"type": "header", "text": {"type": "plain_text", "text": "x".repeat(chars)}});
    let one = |block: Value| with_blocks(vec![block]);
    let container = |title: usize, children: usize, changes: Value| {
        let divider = json!({"type": "divider"});
        let mut block = json!({"type": "container", "is_collapsible": true, "default_collapsed": true,
            "title": {"type": "plain_text", "text": "x".repeat(title)}, "child_blocks": vec![divider; children]});
        let fields = block.as_object_mut().unwrap();
        fields.extend(changes.as_object().unwrap().clone());
        one(block)
    };
    let right = [
        container(150, 10, json!({})),
        one(section(3_000)),
        one(header(150)),
        one(actions(25)),
        one(json!({"type": "actions", "elements": [press("a", 75, 2_000)]})),
        with_blocks(vec![json!({"type": "divider"}); 50]),
        json!({"channel": "C0OPS", "text": "x".repeat(4_000)}),
    ];
    for body in &right {
        assert_eq!(call(&emulator, "chat.postMessage", body).await, "ok", "{body}");
    }
    assert_eq!(emulator.problems(), Vec::<String>::new());
    let wrong = [
        (one(section(3_001)), "invalid_blocks"),
        (one(header(151)), "invalid_blocks"),
        (one(actions(26)), "invalid_blocks"),
        (
            one(json!({"type": "actions", "elements": [press("a", 76, 1)]})),
            "invalid_blocks",
        ),
        (
            one(json!({"type": "actions", "elements": [press("a", 1, 2_001)]})),
            "invalid_blocks",
        ),
        (
            one(json!({"type": "actions", "elements": [press("a", 1, 1), press("a", 1, 1)]})),
            "invalid_blocks",
        ),
        (
            with_blocks(vec![json!({"type": "divider"}); 51]),
            "invalid_blocks",
        ),
        (one(json!({"type": "pigeon"})), "invalid_blocks"),
        (container(151, 1, json!({})), "invalid_blocks"),
        (container(0, 1, json!({})), "invalid_blocks"),
        (container(1, 11, json!({})), "invalid_blocks"),
        (container(1, 0, json!({})), "invalid_blocks"),
        (
            container(1, 1, json!({"is_collapsible": false})),
            "invalid_blocks",
        ),
        (
            container(1, 1, json!({"child_blocks": [{"type": "container"}]})),
            "invalid_blocks",
        ),
        (
            json!({"channel": "C0OPS", "text": "x".repeat(40_001)}),
            "msg_too_long",
        ),
        (json!({"channel": "C0OPS", "text": " "}), "no_text"),
    ];
    for (body, code) in &wrong {
        assert_eq!(call(&emulator, "chat.postMessage", body).await, *code, "{body}");
    }
    assert_eq!(emulator.problems().len(), wrong.len());
}

#[tokio::test]
async fn what_slack_does_not_know_or_show_is_refused() {
    let emulator = workspace().await;
    emulator.add_channel_without_bot("C0ELSE", &["U0ALICE"]);
    let ephemeral = |channel: &str, user: &str| json!({"channel": channel, "user": user, "text": "x"});
    for (method, body, code) in [
        ("chat.pigeon", json!({}), "unknown_method"),
        (
            "chat.postEphemeral",
            ephemeral("C0OPS", "U0EVE"),
            "user_not_in_channel",
        ),
        (
            "chat.postEphemeral",
            ephemeral("C0ELSE", "U0ALICE"),
            "not_in_channel",
        ),
        (
            "chat.postEphemeral",
            ephemeral("C0NONE", "U0ALICE"),
            "channel_not_found",
        ),
        (
            "chat.update",
            json!({"channel": "C0OPS", "ts": "1.1", "text": "x"}),
            "message_not_found",
        ),
    ] {
        assert_eq!(call(&emulator, method, &body).await, code, "{method}");
    }
    assert_eq!(emulator.with_state(|state| state.ephemerals.len()), 0);
}

#[tokio::test]
async fn a_path_that_slack_does_not_have_is_not_found() {
    let emulator = workspace().await;
    let api = emulator.api_base_url();
    let base = api.strip_suffix("/api").unwrap();
    for path in [
        "/",
        "/api",
        "/apis/auth.test",
        "//api/auth.test",
        "/upload",
        "/commands",
        "/API/auth.test",
    ] {
        let request = http().post(format!("{base}{path}")).bearer_auth("xoxb-1");
        assert_eq!(request.send().await.unwrap().status(), 404, "{path}");
    }
    assert_eq!(emulator.with_state(|state| state.calls.len()), 0);
    // The name of a method counts as it is written, escaped or not.
    for method in ["auth%2Etest", "auth.tes%74", "%ff"] {
        let request = http().post(format!("{api}/{method}")).bearer_auth("xoxb-1");
        let mut answer = request.send().await.unwrap();
        let answer = answer.chunk().await.unwrap().unwrap_or_default();
        let answer: serde_json::Value = serde_json::from_slice(&answer).unwrap();
        assert_eq!(answer["ok"], false, "{method}: {answer}");
    }
}

/// The rules of the method, as Slack documents them.
#[tokio::test]
async fn a_session_has_a_known_status_a_short_title_and_a_thread_that_exists() {
    let emulator = workspace().await;
    let root = emulator.write("U0ALICE", "C0OPS", None, "hello").ts;
    let reply = emulator.write("U0ALICE", "C0OPS", Some(&root), "and").ts;
    let good = json!({"channel_id": "C0OPS", "thread_ts": root, "status": "processing", "title": "a"});
    let changes = [
        (json!({}), "ok"),
        (json!({"status": "working"}), "invalid_arguments"),
        (json!({"title": "x".repeat(201)}), "invalid_arguments"),
        (json!({"thread_ts": ""}), "invalid_arguments"),
        (json!({"thread_ts": "1.000001"}), "thread_not_found"),
        (json!({"thread_ts": reply}), "thread_not_found"),
        (json!({"channel_id": "C0NOWHERE"}), "channel_not_found"),
        (json!({"status": "closed", "title": "b"}), "ok"),
    ];
    for (change, expected) in changes {
        let mut body = good.clone();
        for (name, value) in change.as_object().unwrap() {
            body[name] = value.clone();
        }
        assert_eq!(
            call(&emulator, "agents.sessions.setStatus", &body).await,
            expected,
            "{body}"
        );
    }
    emulator.with_state(|state| {
        let session = &state.sessions[&("C0OPS".to_owned(), root.clone())];
        assert_eq!(
            (session.title.as_deref(), session.status()),
            (Some("a"), "closed")
        );
    });
    for (withdrawn, expected) in [
        ("assistant:write", "not_authorized"),
        ("chat:write", "missing_scope"),
    ] {
        emulator.withdraw(withdrawn);
        assert_eq!(
            call(&emulator, "agents.sessions.setStatus", &good).await,
            expected
        );
    }
}

#[tokio::test]
async fn every_wrong_view_of_a_home_tab_is_refused_as_slack_refuses_it() {
    let emulator = workspace().await;
    let publish = |user: &str, view: Value| json!({"user_id": user, "view": view});
    let home = |blocks: Vec<Value>| publish("U0ALICE", json!({"type": "home", "blocks": blocks}));
    let divider = json!({"type": "divider"});
    let rich = json!({"type": "rich_text", "elements": [{"type": "rich_text_section",
        "elements": [{"type": "text", "text": "x"}]}]});
    for body in [
        home(vec![divider.clone(); 100]),
        home(vec![section(3_000), rich, actions(2)]),
    ] {
        assert_eq!(call(&emulator, "views.publish", &body).await, "ok", "{body}");
    }
    assert_eq!(emulator.problems(), Vec::<String>::new());
    let publications = emulator.with_state(|state| state.homes["U0ALICE"].publications);
    assert_eq!(publications, 2);
    let container = json!({"type": "container", "title": {"type": "plain_text", "text": "x"},
        "child_blocks": [divider]});
    let plan = json!({"type": "plan", "title": "x"});
    let modal = json!({"type": "modal", "blocks": [divider]});
    let with_submit =
        json!({"type": "home", "blocks": [divider], "submit": {"type": "plain_text", "text": "x"}});
    let wrong = [
        (home(vec![divider.clone(); 101]), "invalid_blocks"),
        (home(Vec::new()), "invalid_blocks"),
        (home(vec![container]), "invalid_blocks"),
        (home(vec![plan]), "invalid_blocks"),
        (home(vec![section(3_001)]), "invalid_blocks"),
        (home(vec![section(3_000); 90]), "view_too_large"),
        (publish("U0ALICE", modal), "invalid_arguments"),
        (publish("U0ALICE", with_submit), "invalid_arguments"),
        (
            publish("U0NOBODY", json!({"type": "home", "blocks": [divider]})),
            "invalid_arguments",
        ),
    ];
    for (body, code) in &wrong {
        assert_eq!(call(&emulator, "views.publish", body).await, *code, "{body}");
    }
    assert_eq!(emulator.problems().len(), wrong.len());
    // Whether the tab is on is a setting of the app.
    let manifest = SlackManifest::new("Drydock", &SlackConnection::SocketMode).unwrap();
    let mut manifest = manifest.json().clone();
    emulator.install(&manifest).unwrap();
    assert_eq!(
        call(&emulator, "views.publish", &home(vec![divider.clone()])).await,
        "ok"
    );
    manifest["features"]["app_home"]["home_tab_enabled"] = json!(false);
    emulator.install(&manifest).unwrap();
    let refused = call(&emulator, "views.publish", &home(vec![divider])).await;
    assert_eq!(refused, "not_enabled");
    assert_eq!(emulator.problems().len(), wrong.len());
    let opened = emulator.open_app_home("U0ALICE", HomeTab::Home).await;
    assert_eq!(opened, Err(SayError::NotRequested));
}
