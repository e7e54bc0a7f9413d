//! The matrix of rights: every tool and every command for all roles, through the real gateway, as one reviewed
//! table for each tool and one for the commands. A new tool is tried with its examples. There is no helm, so the tools
//! about charts are not in it.

use crate::shown_texts::stable;
use crate::support::app::{TestApp, step_number};
use crate::support::world::program;
use drydock::base::config::SandboxSettings;
use drydock::base::redact::Redactor;
use drydock::engine::agent::REMARK_PREFIX;
use drydock::engine::command;
use drydock::interfaces::tool::{self, Tool, ToolServices};
use drydock::rendering::bundler::OfflineFetcher;
use drydock::rendering::compare::Comparer;
use drydock::rendering::tanka::LazyEvaluator;
use drydock::simulation::emulator::model::{ModelRequest, calls, says};
use drydock::state::access::Role;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::Arc;

const OWNER: &str = "U0OWNER";
const CANARY: &str = "CANARY-OWNER";
const COLUMN_CHARS_MAX: usize = 110;

/// Calls that are tried beside the examples of their tools: they ask for what the owner of the change wrote.
const ATTACKS: [(&str, &str); 2] = [
    ("file_read", r#"{"path":"environments/dev/owner.txt"}"#),
    ("file_search", r#"{"glob_pattern":"**","text_query":"CANARY"}"#),
];

/// Returns the calls with which a tool is tested: its examples, those for `dev` for `prod` as well, and the attacks.
fn tries(tool: &dyn Tool) -> Vec<Value> {
    let name = tool.spec().name;
    let mut tries = Vec::new();
    for example in tool.examples() {
        tries.push((*example).to_owned());
        tries.push(example.replace("environments/dev", "environments/prod"));
    }
    let attacks = ATTACKS.iter().filter(|(attacked, _)| *attacked == name);
    tries.extend(attacks.map(|(_, call)| (*call).to_owned()));
    tries.dedup();
    assert!(!tries.is_empty(), "`{name}` has no examples");
    tries
        .iter()
        .map(|call| serde_json::from_str(call).unwrap())
        .collect()
}

/// Returns a command with the argument with which it is tested.
fn asked_with(word: &str) -> String {
    match word {
        "render" => "render environments/prod".to_owned(),
        "who-imports" => "who-imports lib/app.libsonnet".to_owned(),
        word => word.to_owned(),
    }
}

/// Returns the services for a list of tools. Only the names of the tools are used.
fn tool_services() -> ToolServices {
    let evaluator = Arc::new(LazyEvaluator::new(program(), SandboxSettings::default()));
    let redactor = Arc::new(Redactor::new([]));
    let comparer = Comparer::new(evaluator.clone(), redactor, b"key".to_vec());
    ToolServices {
        packages: Arc::new(OfflineFetcher),
        evaluator,
        comparer: Arc::new(comparer),
        helm: None,
    }
}

/// Returns the first line of a text, without the parts that differ from run to run or change with every new tool.
fn short(text: &str) -> String {
    let tools = regex::Regex::new("available: `.*`").unwrap();
    let usage = regex::Regex::new(r"[\d,]+ tokens in \d+ model calls").unwrap();
    let text = stable(text);
    let text = tools.replace_all(&text, "available: <tools>");
    let text = usage.replace_all(&text, "<usage> model calls");
    let line = text
        .lines()
        .find(|line| !line.trim().is_empty())
        .unwrap_or_default();
    line.chars().take(COLUMN_CHARS_MAX).collect()
}

/// T25, T29
#[tokio::test]
async fn everybody_gets_what_they_were_granted_and_nothing_else() {
    let app = TestApp::with_settings(
        |asked: &ModelRequest| {
            let words = asked.last_user_text();
            match (words.split_once(' '), step_number(asked)) {
                _ if words.starts_with(REMARK_PREFIX) => says("It is meant to be so."),
                (Some((tool, arguments)), 0) => calls(tool, serde_json::from_str(arguments).unwrap()),
                _ => says("Done."),
            }
        },
        &[],
    )
    .await;
    app.admit_slack_editor(OWNER).await;
    let write = json!({"path": "environments/dev/owner.txt", "content": format!("{CANARY}\n")});
    let owned = app.ask(OWNER, &format!("file_write {write}")).await;
    assert!(owned.text.contains(CANARY), "{}", owned.text);

    app.add_slack_account("U0UNKNOWN");
    app.admit_slack_user("U0VIEWER", Role::Viewer, &["**"]).await;
    app.admit_slack_user("U0DEVEDITOR", Role::Editor, &["dev"]).await;
    app.admit_slack_editor("U0OTHER").await;
    app.admit_slack_editor("U0REVOKED").await;
    app.revoke("U0REVOKED").await;

    let mut tables: BTreeMap<String, String> = BTreeMap::new();
    for actor in ["U0UNKNOWN", "U0VIEWER", "U0DEVEDITOR", "U0OTHER", "U0REVOKED"] {
        let admitted = !matches!(actor, "U0UNKNOWN" | "U0REVOKED");
        let seen = app.model_requests().len();
        for tool in tool::all(&tool_services()) {
            let name = tool.spec().name;
            for arguments in tries(&*tool) {
                let words = format!("{name} {arguments}");
                let got = match admitted {
                    true => tried(&app, actor, &words).await,
                    false => turned_away(&app, actor, &words).await,
                };
                let about = tool.subject(&arguments).unwrap_or_default();
                let table = tables.entry(format!("who_gets_{name}")).or_default();
                writeln!(table, "{actor} | {name} {about} | {got}").unwrap();
            }
        }
        for known in command::ALL {
            let word = asked_with(known.word);
            let words = format!("@drydock !{word}");
            let got = match admitted {
                true => {
                    let answer = match known.verb {
                        // Nobody else sees this answer.
                        command::Verb::Login => answered_in_private(&app, actor, &owned.thread, &words).await,
                        _ => app.run_command_in(actor, &owned.thread, &words).await,
                    };
                    let own_calls = app.model_requests().len() - seen;
                    let own_calls = format!("in {own_calls} model calls");
                    let is_usage = known.verb == command::Verb::Usage;
                    assert!(!is_usage || answer.contains(&own_calls), "{actor}: {answer}");
                    short(&answer)
                }
                false => unanswered(&app, actor, &owned.thread, &words).await,
            };
            let table = tables.entry("who_gets_commands".to_owned()).or_default();
            writeln!(table, "{actor} | !{word} in the owner's thread | {got}").unwrap();
        }
    }
    for (name, table) in &tables {
        assert!(!table.contains(CANARY), "{name}: {table}");
    }
    // The attempts of the other people did not alter the owner's change.
    let diff = app.run_command_in(OWNER, &owned.thread, "!diff").await;
    assert!(diff.contains(CANARY), "{diff}");
    for (name, table) in &tables {
        insta::assert_snapshot!(name.as_str(), table);
    }
    // A table whose tool is gone is wrong as well.
    let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/snapshots")).unwrap();
    let files = files.filter_map(|file| {
        let name = file.unwrap().file_name().into_string().unwrap();
        let name = name.strip_prefix("it__matrix__")?.strip_suffix(".snap")?;
        Some(name.to_owned())
    });
    let files: BTreeSet<String> = files.collect();
    assert_eq!(files, tables.into_keys().collect());
}

async fn turned_away(app: &TestApp, actor: &str, words: &str) -> String {
    let seen = app.model_requests().len();
    app.say(actor, words).await;
    app.wait_until_idle().await;
    assert_eq!(app.model_requests().len(), seen, "{actor} cost tokens");
    "0 model requests".to_owned()
}

async fn tried(app: &TestApp, actor: &str, words: &str) -> String {
    let seen = app.model_requests().len();
    app.ask(actor, words).await;
    let asked = app.model_requests();
    let result = &asked[seen + 1].last_results()[0];
    assert!(!asked[seen + 1].raw.contains(CANARY), "{actor} {words}");
    let outcome = if result.is_error { "refused" } else { "done" };
    format!("{outcome}: {}", short(&result.content))
}

async fn answered_in_private(app: &TestApp, actor: &str, thread: &str, words: &str) -> String {
    let seen = app.ephemeral_messages(actor).len();
    app.say_in(actor, thread, words).await;
    app.wait_for_ephemeral(actor, seen).await
}

async fn unanswered(app: &TestApp, actor: &str, thread: &str, words: &str) -> String {
    let replies = |app: &TestApp| {
        app.demo.slack.with_state(|state| {
            state
                .replies(drydock::simulation::demo::environment::SLACK_CHANNEL, thread)
                .count()
        })
    };
    let seen = replies(app);
    app.say_in(actor, thread, words).await;
    app.wait_until_idle().await;
    assert_eq!(replies(app), seen + 1, "{actor} was answered");
    let notices = app.ephemeral_messages(actor).len();
    assert!(notices <= 1, "{actor} was told {notices} times");
    "no answer".to_owned()
}
