//! The results of turns as pictures of a phone: what a person reads before touching anything. A changed word changes a
//! snapshot.

use crate::shown_texts::stable;
use crate::support::app::{TestApp, step_number};
use crate::support::phone;
use drydock::simulation::emulator::model::{ModelRequest, ScriptedAnswer, calls, says};
use drydock::state::access::Role;
use serde_json::json;
use std::fmt::Write;

const ALICE: &str = "U0ALICE";
/// The requests, in an order in which each leads to another state.
pub(crate) const REQUESTS: [&str; 8] = [
    "four in dev",
    "why?",
    "five in dev",
    "four in prod",
    "break it",
    "many files",
    "everything back",
    "a long story",
];

/// Edits what the person names, or answers a question.
pub(crate) fn script(asked: &ModelRequest) -> ScriptedAnswer {
    let words = asked.last_user_text();
    let replicas = |environment: &str, old: &str, new: &str| {
        let of = |count: &str| format!("web:1.8.3',\n    replicas: {count}");
        let path = format!("environments/{environment}/main.jsonnet");
        calls("file_edit", json!({"path": path, "old": of(old), "new": of(new)}))
    };
    let write = |name: &str, content: &str| {
        calls(
            "file_write",
            json!({"path": format!("environments/dev/{name}"), "content": content}),
        )
    };
    let notes: String = (0..400)
        .map(|line| format!("line {line} of the notes\n"))
        .collect();
    match step_number(asked) {
        0 if words.contains("four in prod") => replicas("prod", "2,", "4,"),
        0 if words.contains("four in dev") => replicas("dev", "2,", "4,"),
        0 if words.contains("five in dev") => replicas("dev", "4,", "5,"),
        0 if words.contains("break it") => replicas("dev", "5,", ","),
        0 if words.contains("many files") => replicas("dev", ",", "6,"),
        1 if words.contains("many files") => write("notes.md", &notes),
        0 if words.contains("everything back") => replicas("dev", "6,", "2,"),
        1 if words.contains("everything back") => {
            calls("file_delete", json!({"path": "environments/dev/notes.md"}))
        }
        0 if words.contains("a long story") => replicas("dev", "2,", "3,"),
        _ if words.contains("a long story") => says(
            "web runs 3 pods.\n\nIt needs them at noon.\n- one\n- two\n- three\n\n```yaml\nreplicas: 3\n```\nThe end.",
        ),
        _ => says("web in dev asks for more replicas, see `environments/dev/main.jsonnet`."),
    }
}

fn show(shown: &mut String, words: &str, picture: &str) {
    writeln!(shown, "> {words}\n{}\n", stable(picture).trim_end()).unwrap();
}

/// The first screen answers: what is ready, what changes where, is it safe, what is next.
#[tokio::test]
async fn results_in_slack_look_like_this_on_a_phone() {
    let app = TestApp::new(script).await;
    app.admit_slack_user(ALICE, Role::Editor, &["dev"]).await;
    let (mut shown, mut thread) = (String::new(), None::<String>);
    for words in REQUESTS {
        let result = match &thread {
            None => app.ask(ALICE, words).await,
            Some(thread) => app.ask_in(ALICE, thread, words).await,
        };
        show(&mut shown, words, &phone::slack(&result.message));
        thread = Some(result.thread);
    }
    app.wait_until_idle().await;
    insta::assert_snapshot!(shown);
}

/// Returns the results in Telegram.
async fn results_in_telegram(app: &TestApp) -> String {
    app.admit_telegram_user(4_201, Role::Editor, &["dev"]).await;
    let mut shown = String::new();
    for words in REQUESTS {
        let result = app.ask_telegram(4_201, words).await;
        show(&mut shown, words, &phone::telegram(&result));
    }
    app.wait_until_idle().await;
    shown
}

/// The same results, without the mention.
#[tokio::test]
async fn results_in_telegram_look_like_this_on_a_phone() {
    let app = TestApp::new(script).await;
    insta::assert_snapshot!(results_in_telegram(&app).await);
}

/// The same results as texts with entities.
#[tokio::test]
async fn results_in_telegram_without_rich_messages_look_like_this_on_a_phone() {
    let app = TestApp::new(script).await;
    app.demo.telegram.forget_rich_messages();
    insta::assert_snapshot!(results_in_telegram(&app).await);
}
