//! A result that was shortened can be read to its end: in later turns, after a restart, and in its conversation only.

use crate::support::app::{TestApp, step_number};
use drydock::simulation::emulator::model::{ModelRequest, ScriptedAnswer, calls, says};
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
