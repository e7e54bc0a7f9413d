//! Everything that people and models read, as whole texts that a reviewer can read: the replies in both chats, the help
//! of the program, and the system prompt. A changed word changes a snapshot. Other tests state why a text is as it is.

use crate::support::app::{TestApp, step_number};
use crate::support::shell::Shell;
use drydock::simulation::emulator::model::{ModelRequest, ScriptedAnswer, calls, says};
use drydock::state::access::Role;
use serde_json::json;
use std::fmt::Write;

const ALICE: &str = "U0ALICE";
const VERA: &str = "U0VERA";
/// The commands that are shown, in an order in which each has something to say.
const COMMANDS: [&str; 16] = [
    "help",
    "status",
    "diff",
    "risk",
    "patch",
    "envs",
    "render environments/dev",
    "who-imports lib/app.libsonnet",
    "context",
    "usage",
    "user add",
    "stop",
    "undo",
    "discard",
    "clear",
    "statsu",
];

/// Edits what the person names, or answers a question.
fn edits(asked: &ModelRequest) -> ScriptedAnswer {
    let words = asked.last_user_text();
    let edit = |environment: &str, old: &str, new: &str| {
        let of = |count: &str| format!("web:1.8.3',\n    replicas: {count}");
        let path = format!("environments/{environment}/main.jsonnet");
        calls("file_edit", json!({"path": path, "old": of(old), "new": of(new)}))
    };
    match step_number(asked) {
        0 if words.contains("four in prod") => edit("prod", "2,", "4,"),
        0 if words.contains("four in dev") => edit("dev", "2,", "4,"),
        0 if words.contains("back to two") => edit("dev", "4,", "2,"),
        0 if words.contains("break it") => edit("dev", "2,", ","),
        _ => says("Here is what I found."),
    }
}

/// Replaces what differs from run to run.
pub(crate) fn stable(text: &str) -> String {
    let mut text = text.to_owned();
    for (pattern, stands_for) in [
        (r"\b[0-9a-f]{7,40}\b", "<commit>"),
        (r"\b\d+\.\d s\b", "<time>"),
        (r"\(ref [0-9a-f]{8}\)", "(ref <reference>)"),
    ] {
        let pattern = regex::Regex::new(pattern).unwrap();
        text = pattern.replace_all(&text, stands_for).into_owned();
    }
    text
}

fn show(shown: &mut String, words: &str, answer: &str) {
    writeln!(shown, "> {words}\n{}\n", stable(answer).trim_end()).unwrap();
}

async fn app() -> TestApp {
    let app = TestApp::new(edits).await;
    app.admit_slack_user(ALICE, Role::Editor, &["dev"]).await;
    app.admit_slack_user(VERA, Role::Viewer, &["**"]).await;
    app
}

#[tokio::test]
async fn replies_to_requests_in_slack_read_like_this() {
    let app = app().await;
    let mut shown = String::new();
    let first = app.ask(ALICE, "four in dev").await;
    show(&mut shown, "four in dev", &first.text);
    for words in ["why?", "four in prod", "back to two"] {
        let answer = app.ask_in(ALICE, &first.thread, words).await.text;
        show(&mut shown, words, &answer);
    }
    for (user, words) in [(ALICE, "break it"), (VERA, "four in dev, as a viewer")] {
        show(&mut shown, words, &app.ask(user, words).await.text);
    }
    app.add_slack_account("U0EVE");
    app.say("U0EVE", "let me in").await;
    show(
        &mut shown,
        "let me in, from an unknown sender",
        &app.wait_for_ephemeral("U0EVE", 0).await,
    );
    insta::assert_snapshot!(shown);
}

#[tokio::test]
async fn replies_to_requests_in_telegram_read_like_this() {
    let app = TestApp::new(edits).await;
    app.admit_telegram_user(4_201, Role::Editor, &["dev"]).await;
    let mut shown = String::new();
    for words in ["four in dev", "why?", "four in prod", "back to two", "break it"] {
        show(&mut shown, words, &app.ask_telegram(4_201, words).await.text);
    }
    insta::assert_snapshot!(shown);
}

#[tokio::test]
async fn answers_to_commands_read_like_this() {
    let app = app().await;
    let mut shown = String::new();
    let thread = app.ask(ALICE, "four in dev").await.thread;
    for command in COMMANDS {
        let words = format!("!{command}");
        let answer = app.run_command_in(ALICE, &thread, &words).await;
        show(&mut shown, &words, &answer);
    }
    show(
        &mut shown,
        "/drydock help, as a viewer",
        &app.run_slash_command(VERA, "help").await,
    );
    insta::assert_snapshot!(shown);
}

#[tokio::test]
async fn the_model_is_prompted_like_this() {
    let app = app().await;
    app.ask(ALICE, "four in dev").await;
    app.ask(VERA, "which environments are there?").await;
    let requests = app.model_requests();
    let of = |words: &str| {
        let request = requests
            .iter()
            .find(|request| request.last_user_text().contains(words));
        stable(&request.unwrap().system)
    };
    insta::assert_snapshot!("system_prompt_of_an_editor", of("four in dev"));
    insta::assert_snapshot!("system_prompt_of_a_viewer", of("which environments"));
}

#[test]
fn the_help_of_each_command_reads_like_this() {
    let shell = Shell::new();
    let mut shown = String::new();
    let verbs = shell.run(&["--help"]).out;
    let verbs = verbs.split_once("Commands:\n").map_or("", |(_, after)| after);
    let verbs = verbs.lines().take_while(|line| !line.is_empty());
    let verbs = verbs.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let verbs: Vec<&str> = verbs.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(verbs.len() > 10, "{verbs:?}");
    for verb in verbs {
        let arguments: &[&str] = if verb == "help" {
            &["--help"]
        } else {
            &[verb, "--help"]
        };
        let answer = shell.run(arguments).out;
        writeln!(shown, "$ drydock {}\n{answer}", arguments.join(" ")).unwrap();
    }
    insta::assert_snapshot!(shown);
}
