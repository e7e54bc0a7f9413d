//! The pipelines of `examples/pipelines`, each as a server runs it: the file as it is written, with the settings that its
//! first lines give. Only the model, the secrets and the addresses are those of the emulators.

mod ask_in_slack;
mod bots;
mod night;
mod out_of_memory;
mod packages;
mod release;
mod review;

use crate::secrets::commit;
use crate::support::app::TestApp;
use crate::support::shell::Shell;
use crate::support::source::root;
use crate::support::world::Host;
use drydock::simulation::emulator::model::{AnswerScript, ScriptedAnswer, calls};
use gix::objs::tree::EntryKind;
use serde_json::json;
use toml::{Table, Value};

const DIRECTORY: &str = "examples/pipelines";
const FILE: &str = ".drydock/pipelines.yaml";
/// The settings that every server has.
const SERVER: &str = r#"
[data]
directory = "./data"

[repositories.infra]
path = "./infra.git"

[channels.slack]
kind = "slack"
bot_token = { env = "SLACK_BOT_TOKEN" }
signing_secret = { env = "SLACK_SIGNING_SECRET" }
"#;

/// A file of the examples.
struct Example {
    text: String,
}

impl Example {
    fn read(name: &str) -> Self {
        let text = std::fs::read_to_string(root().join(DIRECTORY).join(name)).unwrap();
        assert!(text.contains("anthropic/claude-sonnet-4-5"), "{name}");
        Self { text }
    }

    /// Returns the settings of the server in the first lines.
    fn settings(&self) -> Table {
        let comment = self.text.lines().take_while(|line| line.starts_with('#'));
        let lines: Vec<&str> = comment.filter_map(|line| line.strip_prefix("#   ")).collect();
        toml::from_str(&lines.join("\n")).unwrap()
    }

    /// Returns the definitions with the model of the emulator.
    fn definitions(&self) -> String {
        self.text.replace("anthropic/claude-sonnet-4-5", "anthropic/demo")
    }

    /// Starts a server with the settings of the example and others, whose repository has its definitions.
    async fn start(
        &self,
        script: impl AnswerScript + 'static,
        host: Host,
        others: &[(&str, &str)],
    ) -> TestApp {
        let flags = flags("", &self.settings());
        let own = flags.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let settings: Vec<(&str, &str)> = own.chain(others.iter().copied()).collect();
        let app = TestApp::with_host(script, host, &settings).await;
        commit(&app, &[(FILE, EntryKind::Blob, self.definitions().as_str())]);
        app
    }
}

/// Returns the values of a table as flags of the command line. Each secret is one of the emulators.
fn flags(section: &str, table: &Table) -> Vec<(String, String)> {
    let values = table.iter().flat_map(|(name, value)| {
        let key = match section {
            "" => name.clone(),
            section => format!("{section}.{name}"),
        };
        match value {
            Value::Table(table) => flags(&key, table),
            Value::String(_) if key.ends_with(".github_token.env") => {
                vec![(key, "STAGE_GITHUB_TOKEN".to_owned())]
            }
            Value::String(_) if key == "hooks.alerts.secret.env" => {
                vec![(key, "STAGE_ALERT_SECRET".to_owned())]
            }
            Value::String(_) if key.ends_with(".env") => vec![(key, "STAGE_HOOK_SECRET".to_owned())],
            Value::String(text) => vec![(key, text.clone())],
            value => vec![(key, value.to_string())],
        }
    });
    values.collect()
}

/// Adds the settings of a table to those of another one.
fn add(to: &mut Table, from: Table) {
    for (name, value) in from {
        let value = match (to.remove(&name), value) {
            (Some(Value::Table(mut section)), Value::Table(more)) => {
                add(&mut section, more);
                Value::Table(section)
            }
            (_, value) => value,
        };
        to.insert(name, value);
    }
}

/// Returns an answer that ends a step.
fn concludes(verdict: &str, summary: &str) -> ScriptedAnswer {
    calls("conclude", json!({"verdict": verdict, "summary": summary}))
}

/// Returns the names and the states of the steps of a run.
fn steps(app: &TestApp, run: u32) -> Vec<String> {
    app.column(&format!(
        "SELECT name || ' ' || status FROM run_step WHERE run = {run} ORDER BY step"
    ))
}

/// Returns a file at the head of the branch.
fn file(app: &TestApp, path: &str) -> String {
    let repository = app.demo.repository();
    let head = std::fs::read_to_string(repository.join("refs/heads/main")).unwrap();
    let head: gix::ObjectId = head.trim().parse().unwrap();
    let opened = gix::open_opts(&repository, gix::open::Options::isolated()).unwrap();
    let tree = opened.find_commit(head).unwrap().tree().unwrap();
    let entry = tree.lookup_entry_by_path(path).unwrap().unwrap();
    let blob = opened.find_blob(entry.object_id()).unwrap();
    String::from_utf8(blob.data.clone()).unwrap()
}

/// Returns the result of the last calls in a request to the model.
fn last_results(app: &TestApp, request: usize) -> String {
    let requests = app.model_requests();
    let results = requests[request].last_results().iter();
    results.map(|result| result.content.as_str()).collect()
}

/// Returns the names of all examples.
fn names() -> Vec<String> {
    let entries = std::fs::read_dir(root().join(DIRECTORY)).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

#[test]
fn every_example_has_no_problems_with_the_settings_that_it_names_and_is_listed() {
    let document = std::fs::read_to_string(root().join("docs/pipelines.md")).unwrap();
    let names = names();
    assert_eq!(names.len(), 6);
    for name in names {
        let link = format!("](../{DIRECTORY}/{name})");
        assert!(document.contains(&link), "{name}");
        let example = Example::read(&name);
        let shell = Shell::with_repository(&[(FILE, &example.text)]);
        let check = |settings: Table| {
            let mut server: Table = toml::from_str(SERVER).unwrap();
            add(&mut server, settings);
            shell.put("server.toml", &toml::to_string(&server).unwrap());
            shell.run(&["pipeline", "check", "--config", "server.toml"])
        };
        let checked = check(example.settings());
        assert_eq!(
            (checked.code, checked.out.as_str()),
            (Some(0), ".drydock/pipelines.yaml: 1 pipeline, no problems\n"),
            "{name}: {checked:?}"
        );
        let without = check(Table::new());
        assert_eq!(without.code, Some(1), "{name}: {without:?}");
        assert!(
            without.out.contains("the server allows no reply to"),
            "{name}: {without:?}"
        );
    }
}
