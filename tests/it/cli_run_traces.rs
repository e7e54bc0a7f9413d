//! The files about the steps of a recorded run at a terminal: the results of the calls of tools.

use crate::cli_run::{concludes, run};
use crate::support::shell::{BlockingModel, Shell};
use drydock::simulation::emulator::model::{calls, queue};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// A text that is a secret only for those who know the file of secrets.
const PASSWORD: &str = "brass-kettle-on-the-hill-41";
const LOOK: &str = "\
defaults:
  model: anthropic/claude-sonnet-4-5
pipelines:
  look:
    triggers: [{command_line: {}}]
    permissions: {role: viewer}
    steps:
      - {name: first, agent: {prompt: Look at dev.}}
      - {name: second, agent: {prompt: Look at the vault.}}
";

fn read(path: &str) -> Value {
    json!({ "path": path })
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

/// CI-22: a result that the model reads shortened is whole in its file, and a secret that a later step reads is in no file.
#[test]
fn a_recorded_run_leaves_the_whole_result_of_each_call_without_what_a_later_step_shows_to_be_secret() {
    let lines: String = (1..=400).map(|line| format!("line {line}\n")).collect();
    let notes = format!("It is {PASSWORD} today.\n");
    let vault = format!("kind: Secret\nstringData:\n  opens: {PASSWORD}\n");
    let files = [
        (".drydock/pipelines.yaml", LOOK),
        ("lines.txt", &lines),
        ("notes.txt", &notes),
        ("k/vault.yaml", &vault),
    ];
    let shell = Shell::with_repository(&files).set("ANTHROPIC_API_KEY", "sk-ant-test-0123456789");
    let model = BlockingModel::start(queue([
        calls("file_read", read("lines.txt")).with_call("file_read", read("nothing.txt")),
        calls("file_read", read("notes.txt")),
        concludes("pass", "It holds."),
        calls("file_read", read("k/vault.yaml")),
        concludes("pass", "It opens."),
    ]));
    let record = shell.home().join("record");
    let record = record.to_str().unwrap();
    let bound = "limits.tool_output_bytes_max=1600";
    let options = ["look", "--json", "--set", bound, "--record", record];
    let ended = run(&shell, &model, &options);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let asked = model.asked();
    assert!(
        asked[1].last_results()[0].content.contains("[...truncated "),
        "{:?}",
        asked[1].last_results()
    );
    // The first step reads it, because nothing says yet that it is a secret.
    assert!(
        asked[2].last_results()[0].content.contains(PASSWORD),
        "{:?}",
        asked[2].last_results()
    );

    let report = ended.json();
    let run = Path::new(record)
        .join("runs")
        .join(report["run"].as_str().unwrap());
    let first = run.join("first");
    assert_eq!(text(&first.join("calls/1.stdout")), lines);
    let refused = text(&first.join("calls/2.stderr"));
    assert!(refused.contains("nothing.txt"), "{refused}");
    let notes = text(&first.join("calls/3.stdout"));
    assert!(notes.starts_with("It is ⟦secret:"), "{notes}");
    let vault = text(&run.join("second/calls/1.stdout"));
    assert!(
        vault.contains("opens: ⟦secret:") && !vault.contains(PASSWORD),
        "{vault}"
    );

    let trace: Value = serde_json::from_str(&text(&first.join("trace.json"))).unwrap();
    let called = |step: usize| -> Vec<Value> {
        let calls = trace["steps"][step]["calls"].as_array().unwrap().iter();
        let of = |call: &Value| json!([call["number"], call["name"], call["is_error"]]);
        calls.map(of).collect()
    };
    assert_eq!(
        called(0),
        [json!([1, "file_read", false]), json!([2, "file_read", true])]
    );
    assert_eq!(called(1), [json!([3, "file_read", false])]);
    assert_eq!(called(2), [json!([null, "conclude", false])]);
    let arguments = trace["steps"][1]["calls"][0]["arguments"].as_str().unwrap();
    assert_eq!(
        serde_json::from_str::<Value>(arguments).unwrap(),
        read("notes.txt")
    );
    assert_eq!(trace["calls_without_file"], 0);

    for directory in [&run, &first, &first.join("calls")] {
        assert_eq!(mode(directory), 0o700, "{}", directory.display());
    }
    let files = std::fs::read_dir(first.join("calls")).unwrap();
    let files: Vec<_> = files.map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 3, "{files:?}");
    for file in &files {
        assert_eq!(mode(file), 0o600, "{}", file.display());
    }
    assert!(!ended.out.contains(PASSWORD), "{ended:?}");
}
