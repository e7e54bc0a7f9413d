//! A result that was shortened can be read to its end: in later turns, after a restart, and in its conversation only.

use crate::support::app::{TestApp, step_number};
use crate::support::shell::{BlockingModel, Shell};
use drydock::simulation::emulator::model::{ModelRequest, ScriptedAnswer, calls, queue, says};
use serde_json::json;

const ALICE: &str = "U0ALICE";
const BOB: &str = "U0BOB";
const FILE: &str = "environments/dev/large.txt";

/// Returns the model's answer: it writes a long file and reads it, and reads the end of its first output when asked.
fn reads(asked: &ModelRequest) -> ScriptedAnswer {
    let words = asked.last_user_text();
    let lines: String = (1..=400).map(|line| format!("line {line}\n")).collect();
    match step_number(asked) {
        0 if words.contains("write") => calls("file_write", json!({ "path": FILE, "content": lines })),
        1 if words.contains("write") => calls("file_read", json!({ "path": FILE })),
        0 if words.contains("end") => calls("read_output", json!({ "ref": "out-1", "tail": 2 })),
        _ => says("Done."),
    }
}

/// Returns the result that the newest request ends with.
fn newest_result(app: &TestApp) -> String {
    let asked = app.model_requests();
    let results = asked.last().map(ModelRequest::last_results);
    let results: Vec<&str> = results
        .into_iter()
        .flatten()
        .map(|result| result.content.as_str())
        .collect();
    results.join("\n---\n")
}

/// TK-32, CI-5
#[tokio::test]
async fn a_shortened_result_is_read_to_its_end_in_its_conversation_only() {
    let settings = [("limits.tool_output_bytes_max", "1_600")];
    let mut app = TestApp::with_settings(reads, &settings).await;
    app.admit_slack_editor(ALICE).await;
    app.admit_slack_editor(BOB).await;
    let first = app.ask(ALICE, "write and read").await;
    let shortened = newest_result(&app);
    let (head, rest) = shortened.split_once("\n[...truncated ").unwrap();
    let (_, tail) = rest
        .split_once(" bytes...] (`read_output` with ref=out-1 reads all of it)\n")
        .unwrap();
    assert_eq!((head.len(), tail.len()), (100, 1_500));
    assert!(
        head.starts_with("line 1\n") && tail.ends_with("line 400\n"),
        "{shortened}"
    );
    app.restart().await;
    app.ask_in(ALICE, &first.thread, "show me the end").await;
    let end = "[out-1: lines 399–400 of 400]\nline 399\nline 400\n";
    assert_eq!(newest_result(&app), end);
    let none = "there is no output out-1 in this conversation, or it is no longer kept; make the call again that had it";
    // Neither another person nor another thread of the same person can read it.
    app.ask(BOB, "show me the end").await;
    assert_eq!(newest_result(&app), none);
    app.ask(ALICE, "show me the end").await;
    assert_eq!(newest_result(&app), none);
    // A cleared conversation has forgotten it as well.
    app.run_command_in(ALICE, &first.thread, "!clear").await;
    app.ask_in(ALICE, &first.thread, "show me the end").await;
    assert_eq!(newest_result(&app), none);
    assert_eq!(app.count("SELECT COUNT(*) FROM output"), 1);
}

/// CI-5: a step keeps 8 MiB of its results. The note about a result of which a part was dropped does not promise all of it.
#[test]
fn a_result_that_is_not_kept_whole_says_so() {
    let text = format!("{}\n", "🚢".repeat(2_000)).repeat(500);
    let files = [("a", text.as_str()), ("b", &text), ("c", &text)];
    let shell = Shell::with_repository(&files).set("ANTHROPIC_API_KEY", "sk-ant-test-0123456789");
    let read = |path: &str| json!({ "path": path });
    let model = BlockingModel::start(queue([
        calls("file_read", read("a"))
            .with_call("file_read", read("b"))
            .with_call("file_read", read("c")),
        says("Done."),
    ]));
    let url = format!("providers.anthropic.base_url={}", model.url());
    let ended = shell.run(&["ask", "--set", &url, "read all"]);
    assert_eq!(
        (ended.code, ended.out.as_str()),
        (Some(0), "Done.\n"),
        "{ended:?}"
    );
    let asked = model.asked();
    let notes = asked[1].last_results().iter().map(|result| {
        let line = result
            .content
            .lines()
            .find(|line| line.starts_with("[...truncated "));
        let (_, note) = line.unwrap().split_once("] ").unwrap();
        note.to_owned()
    });
    let note = |number: usize, what: &str| format!("(`read_output` with ref=out-{number} reads {what})");
    let mut notes: Vec<String> = notes.collect();
    // The calls run in parallel; one of them finds no room.
    let part = notes
        .iter()
        .position(|note| note.contains("what is kept"))
        .unwrap();
    assert_eq!(notes.remove(part), note(part + 1, "what is kept of it"));
    let whole: Vec<usize> = (1..=3).filter(|number| *number != part + 1).collect();
    assert_eq!(
        notes,
        whole
            .iter()
            .map(|number| note(*number, "all of it"))
            .collect::<Vec<_>>()
    );
}
