//! `limits.history_bytes_max` limits the whole request, whatever a turn has written and read so far.

use crate::support::app::TestApp;
use drydock::simulation::emulator::model::{ModelRequest, ScriptedAnswer, calls, says};
use serde_json::{Value, json};

const ALICE: &str = "U0ALICE";
const BYTES_MAX: usize = 150_000;

fn path(number: u32) -> Value {
    json!({ "path": format!("environments/dev/large-{number}.txt") })
}

/// Returns a model that writes three large files, reads each of them, then all of them at once.
fn writes_and_reads() -> impl FnMut(&ModelRequest) -> ScriptedAnswer + Send {
    let mut number = 0;
    move |_| {
        number += 1;
        match number {
            1..=3 => {
                let mut file = path(number);
                file["content"] = format!("{}\n", "a line of \"words\" ".repeat(10))
                    .repeat(290)
                    .into();
                calls("file_write", file)
            }
            4..=6 => calls("file_read", path(number - 3)),
            7 => calls("file_read", path(1))
                .with_call("file_read", path(2))
                .with_call("file_read", path(3)),
            _ => says("Done."),
        }
    }
}

#[tokio::test]
async fn a_turn_that_reads_much_stays_within_the_bound_of_a_request() {
    let bytes_max = BYTES_MAX.to_string();
    let app = TestApp::with_settings(writes_and_reads(), &[("limits.history_bytes_max", &bytes_max)]).await;
    app.admit_slack_editor(ALICE).await;
    let result = app.ask(ALICE, "write and read").await;
    assert!(result.text.contains("3 files"), "{}", result.text);
    let asked = app.model_requests();
    let sizes: Vec<usize> = asked.iter().map(|asked| asked.raw.len()).collect();
    assert_eq!(asked.len(), 8, "{sizes:?}");
    assert!(sizes.iter().all(|bytes| *bytes <= BYTES_MAX), "{sizes:?}");
    // A single file is complete. Of three files at once, each is cut, with a note about that.
    let newest = asked[6].last_results();
    assert_eq!(newest.len(), 1);
    assert!(newest[0].content.len() > 50_000, "{}", newest[0].content.len());
    let three = asked[7].last_results();
    assert_eq!(three.len(), 3);
    for result in three {
        let says = "bytes of this result left out here, because the request would be too long; `file_read` with the same";
        assert!(result.content.contains(says) && result.content.len() > 10_000);
    }
    assert!(
        asked[7]
            .last_user_text()
            .contains("steps of your work on this message are left out here")
    );
    // The stored content, and its display to people, is complete.
    assert!(
        app.column("SELECT step FROM step")
            .iter()
            .all(|step| !step.contains("left out here"))
    );
}

#[tokio::test]
async fn a_message_that_is_too_long_for_a_request_is_refused_before_the_model_is_asked() {
    let bytes_max = BYTES_MAX.to_string();
    let settings = [
        ("limits.history_bytes_max", bytes_max.as_str()),
        ("limits.inbound_text_chars_max", "300_000"),
    ];
    let app = TestApp::with_settings(|_: &ModelRequest| says("Done."), &settings).await;
    app.admit_slack_editor(ALICE).await;
    let result = app.ask(ALICE, &"word ".repeat(BYTES_MAX / 5)).await;
    let says = "I did not ask the model: your message has ";
    assert!(
        result.text.contains(says) && result.text.contains("Send a shorter one."),
        "{}",
        result.text
    );
    assert!(app.model_requests().is_empty());
    let result = app.ask(ALICE, "a shorter one").await;
    assert!(result.text.contains("Done."), "{}", result.text);
    assert!(
        app.model_requests()
            .iter()
            .all(|asked| asked.raw.len() <= BYTES_MAX)
    );
}
