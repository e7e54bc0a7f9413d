//! Open changes of several people in the same files: each result names the others.

use crate::support::app::TestApp;
use drydock::simulation::demo::environment::SLACK_CHANNEL;
use drydock::simulation::emulator::model::{ModelRequest, ScriptedAnswer, calls, says};
use serde_json::json;

const ALICE: &str = "U0ALICE";
const BOB: &str = "U0BOB";
const ANNA: i64 = 4_201;

/// Writes the number of the request to the file that the request names.
fn note(asked: &ModelRequest) -> ScriptedAnswer {
    let words = asked.last_user_text();
    let (file, number) = words.split_once(' ').unwrap_or_default();
    match asked.last_results() {
        [] => calls(
            "file_write",
            json!({"path": format!("notes/{file}.md"), "content": format!("{number}\n")}),
        ),
        _ => says("Done."),
    }
}

#[tokio::test]
async fn a_result_names_the_open_changes_of_others_in_the_same_file() {
    let app = TestApp::new(note).await;
    app.admit_slack_editor(ALICE).await;
    app.admit_slack_editor(BOB).await;
    app.admit_telegram_editor(ANNA).await;
    let alice = app.ask(ALICE, "dev 5").await;
    assert!(!alice.text.contains("as well"), "{}", alice.text);
    let bob = app.ask(BOB, "dev 6").await;
    let link = format!(
        "https://app.slack.com/client/T0ACME/{SLACK_CHANNEL}/thread/{SLACK_CHANNEL}-{}",
        alice.thread
    );
    let line = format!("CHG-1 rev 1 (U0ALICE) edits notes/dev.md as well: {link}");
    assert!(bob.text.contains(&line), "{}", bob.text);
    // A private chat has no link, and a change of another file or a discarded one is not named.
    app.ask_telegram(ANNA, "dev 7").await;
    app.run_command_in(ALICE, &alice.thread, "!discard").await;
    let third = app.ask_in(BOB, &bob.thread, "dev 8").await;
    let line = "CHG-3 rev 1 (t4201) edits notes/dev.md as well.";
    assert!(
        third.text.contains(line) && !third.text.contains("CHG-1"),
        "{}",
        third.text
    );
    let elsewhere = app.ask(ALICE, "prod 4").await;
    assert!(!elsewhere.text.contains("as well"), "{}", elsewhere.text);
}
