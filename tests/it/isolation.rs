//! One person's words, files and secrets never reach another person's model request, chat or recording.

use crate::support::app::{TestApp, step_number, visible_text};
use drydock::simulation::demo::environment::{MODEL_KEY, SLACK_BOT_TOKEN};
use drydock::simulation::emulator::model::{ModelRequest, calls, queue, says};
use drydock::state::access::Role;
use serde_json::json;
use std::os::unix::fs::PermissionsExt;

const ALICE: &str = "U0ALICE";
const BOB: &str = "U0BOB";
const TURNS: usize = 60;

/// T34: a cached rendering of one person is not used for another, even for the same path, calls and environment.
#[tokio::test]
async fn two_people_who_render_the_same_path_each_see_their_own() {
    let app = TestApp::new(|asked: &ModelRequest| {
        let words = asked.last_user_text();
        let who = if words.contains("CANARY-A") { "CANARY-A" } else { "CANARY-B" };
        let program = format!(
            "{{ a: {{ apiVersion: 'v1', kind: 'ConfigMap', metadata: {{ name: 'a' }}, data: {{ of: '{who}' }} }} }}\n"
        );
        let environment = json!({"env_path": "environments/dev"});
        match step_number(asked) {
            0 => calls(
                "file_write",
                json!({"path": "environments/dev/main.jsonnet", "content": program}),
            ),
            1 => calls("tanka_show", environment.clone()).with_call("tanka_diff", environment),
            _ => says("Rendered."),
        }
    })
    .await;
    app.admit_slack_editor(ALICE).await;
    app.admit_slack_editor(BOB).await;
    let twice = async |user: &str, own: &str| {
        for round in 0..2 {
            let asked = app.ask(user, &format!("render {own} round {round}")).await;
            let render = app
                .run_command_in(user, &asked.thread, "!render environments/dev")
                .await;
            assert!(render.contains(own), "{render}");
        }
    };
    tokio::join!(twice(ALICE, "CANARY-A"), twice(BOB, "CANARY-B"));
    for asked in app.model_requests() {
        let is_alices = asked.raw.contains("render CANARY-A");
        let (own, foreign) = match is_alices {
            true => ("CANARY-A", "CANARY-B"),
            false => ("CANARY-B", "CANARY-A"),
        };
        assert!(!asked.raw.contains(foreign), "{}", asked.raw);
        if step_number(&asked) == 2 {
            for result in asked.last_results() {
                assert!(
                    !result.is_error && result.content.contains(own),
                    "{}",
                    result.content
                );
            }
        }
    }
    assert_eq!(app.model_requests().len(), 12);
}

/// T25, I3
#[tokio::test]
async fn two_people_who_talk_at_the_same_time_never_see_a_byte_of_each_other() {
    let app = TestApp::new(|asked: &ModelRequest| {
        let words = asked.last_user_text().to_owned();
        let who = if words.contains("CANARY-A") {
            "CANARY-A"
        } else {
            "CANARY-B"
        };
        match step_number(asked) {
            0 => calls(
                "file_write",
                json!({"path": "environments/dev/same.txt", "content": format!("{who} {words}\n")}),
            )
            .with_call("file_read", json!({"path": "environments/dev/same.txt"}))
            .with_call("git_diff", json!({})),
            1 => calls(
                "file_search",
                json!({"glob_pattern": "**", "text_query": "CANARY"}),
            )
            .with_call("file_list", json!({"glob_pattern": "environments/dev/*"}))
            .with_call("git_status", json!({})),
            _ => says(format!("noted: {words}")),
        }
    })
    .await;
    app.admit_slack_editor(ALICE).await;
    app.admit_slack_editor(BOB).await;
    let talk = async |user: &str, canary: &str| {
        let first = app.ask(user, &format!("{canary} turn 0")).await;
        for turn in 1..TURNS {
            app.ask_in(user, &first.thread, &format!("{canary} turn {turn}"))
                .await;
        }
        first.thread
    };
    let (alice, bob) = tokio::join!(talk(ALICE, "CANARY-A"), talk(BOB, "CANARY-B"));

    let asked = app.model_requests();
    assert_eq!(asked.len(), 2 * 3 * TURNS);
    for request in &asked {
        assert!(
            !(request.raw.contains("CANARY-A") && request.raw.contains("CANARY-B")),
            "{}",
            request.raw
        );
    }
    for (thread, foreign) in [(&alice, "CANARY-B"), (&bob, "CANARY-A")] {
        app.demo.slack.with_state(|state| {
            for message in state.replies(drydock::simulation::demo::environment::SLACK_CHANNEL, thread) {
                assert!(
                    !message.request.to_string().contains(foreign),
                    "{}",
                    visible_text(message)
                );
            }
        });
    }
    for (name, text) in app.recordings() {
        assert!(
            !(text.contains("CANARY-A") && text.contains("CANARY-B")),
            "{name}"
        );
    }
    // Both wrote the same path. Each patch contains only its writer's bytes.
    for (user, thread, own, foreign) in [
        (ALICE, &alice, "CANARY-A", "CANARY-B"),
        (BOB, &bob, "CANARY-B", "CANARY-A"),
    ] {
        let diff = app.run_command_in(user, thread, "!diff").await;
        assert!(diff.contains(own) && !diff.contains(foreign), "{diff}");
    }
}

/// T32
#[tokio::test]
async fn whatever_people_are_called_their_recordings_have_plain_names_and_are_private() {
    let names = [
        "../../etc/passwd",
        "..",
        ".",
        "/",
        "a/b",
        "a\\b",
        "CON",
        "-rf",
        "name with blanks",
        "ﬁ",
        "e\u{301}",
        "é",
        "İ",
        "i",
        "I",
        "x.jsonl",
        "%2e%2e",
        "~",
        "$HOME",
        "`id`",
        "'; DROP TABLE users; --",
    ];
    let app = TestApp::new(|_: &ModelRequest| says("Hello.")).await;
    for (index, name) in names.iter().enumerate() {
        let chat = 5_000 + i64::try_from(index).unwrap();
        let token = app.invite(name, Role::Editor, &["**"]).await;
        app.demo
            .telegram
            .say(chat, chat, &format!("/start {token}"))
            .await;
        app.wait_for_telegram_message(chat, "You're in").await;
        app.ask_telegram(chat, "hello").await;
    }
    app.wait_until_idle().await;
    let sessions = app.recordings();
    assert_eq!(sessions.len(), names.len());
    for (name, _) in &sessions {
        let stem = name.strip_suffix(".jsonl").unwrap();
        assert!(
            !stem.is_empty() && stem.bytes().all(|byte| byte.is_ascii_hexdigit()),
            "{name}"
        );
        let path = app.demo.data().join("sessions").join(name);
        assert_eq!(
            std::fs::metadata(path).unwrap().permissions().mode() & 0o777,
            0o600,
            "{name}"
        );
    }
}

/// T87
#[tokio::test]
async fn a_secret_in_a_file_or_in_a_message_reaches_no_model_chat_or_recording() {
    // Shaped like a GitHub token. The text is split so that this file contains no token.
    let planted = format!("{}{}", "ghp_", "CANARYcanary0123456789CANARYcanary012345");
    let ours = format!("ours: {SLACK_BOT_TOKEN}\nkey: {MODEL_KEY}\n");
    let file = format!("token: {planted}\n");
    let app = TestApp::new(queue([
        calls(
            "file_write",
            json!({"path": "environments/dev/secret.yaml", "content": "placeholder\n"}),
        ),
        calls("file_read", json!({"path": "environments/dev/secret.yaml"}))
            .with_call("file_search", json!({"glob_pattern": "**", "text_query": "ours"}))
            .with_call("git_diff", json!({})),
        says(format!("The file holds {SLACK_BOT_TOKEN} and {planted}.")),
        calls(
            "file_write",
            json!({"path": "environments/dev/secret.yaml", "content": ours}),
        ),
        calls(
            "file_write",
            json!({"path": "environments/dev/secret.yaml", "content": file}),
        ),
        calls("file_read", json!({"path": "environments/dev/secret.yaml"})).with_call("git_diff", json!({})),
        says("Written."),
    ]))
    .await;
    app.admit_slack_editor(ALICE).await;
    let first = app
        .ask(ALICE, &format!("use {planted} and {SLACK_BOT_TOKEN}"))
        .await;
    app.ask_in(ALICE, &first.thread, "go on").await;
    app.run_command_in(ALICE, &first.thread, "!diff").await;
    app.run_command_in(ALICE, &first.thread, "!context").await;
    app.run_command_in(ALICE, &first.thread, "!patch").await;
    app.wait_until_idle().await;
    assert!(
        app.all_slack_output()
            .contains("A secret in it is masked, so it does not apply")
    );
    let refused = app.model_requests()[4].last_results()[0].clone();
    assert!(refused.is_error && refused.content.contains("a secret of this server"));
    for secret in [planted.as_str(), SLACK_BOT_TOKEN, MODEL_KEY] {
        // The model wrote the secrets itself. Its own words are not repeated to it either.
        for asked in app.model_requests() {
            assert!(!asked.raw.contains(secret), "{}", asked.raw);
        }
        assert!(
            !app.all_slack_output().contains(secret),
            "{secret} is shown in Slack"
        );
        for (name, text) in app.recordings() {
            assert!(!text.contains(secret), "{secret} is in {name}");
        }
    }
}
