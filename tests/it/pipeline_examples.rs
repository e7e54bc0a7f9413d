//! The pipelines of `examples/pipelines`, each as a server runs it.

use crate::hooks::{ONE, deliver};
use crate::secrets::commit;
use crate::support::app::{TestApp, visible_text};
use crate::support::source::root;
use drydock::simulation::demo::environment::SLACK_CHANNEL;
use drydock::simulation::emulator::model::{calls, queue, says};
use gix::objs::tree::EntryKind;
use serde_json::{Value, json};

/// Returns an example with the model of the emulator.
fn example(name: &str) -> String {
    let path = root().join("examples/pipelines").join(name);
    let text = std::fs::read_to_string(path).unwrap();
    assert!(text.contains("anthropic/claude-sonnet-4-5"));
    text.replace("anthropic/claude-sonnet-4-5", "anthropic/demo")
}

fn edit(environment: &str) -> Value {
    json!({"path": format!("environments/{environment}/main.jsonnet"), "old": "web:1.8.3", "new": "web:1.9.0"})
}

fn published(is_prerelease: bool) -> Value {
    json!({
        "action": "published",
        "release": {"tag_name": "v1.9.0", "body": "Faster.", "prerelease": is_prerelease},
        "repository": {"full_name": "acme/web"},
    })
}

#[tokio::test]
async fn a_release_is_prepared_looked_at_and_reported_once() {
    let answers = [
        calls("file_edit", edit("dev")).with_call("file_edit", edit("staging")),
        says("Prepared web 1.9.0."),
        says("Two environments get web 1.9.0."),
    ];
    let settings = [
        ("hooks.release.pipelines", "true"),
        ("pipelines.reply_targets", "[\"channel:slack:C0PLATFORM\"]"),
    ];
    let app = TestApp::with_settings(queue(answers), &settings).await;
    let text = example("release-preparation.yaml");
    commit(&app, &[(".drydock/pipelines.yaml", EntryKind::Blob, &text)]);
    let another = "82d3162e-cc78-11e3-81ab-4c9367dc0958";
    assert_eq!(deliver(&app, "release", another, &published(true)).await.0, 200);
    assert_eq!(deliver(&app, "release", ONE, &published(false)).await.0, 200);
    app.wait_for_slack_message(SLACK_CHANNEL, "Two environments get web 1.9.0.")
        .await;
    assert_eq!(deliver(&app, "release", ONE, &published(false)).await.0, 200);
    app.wait_until_idle().await;

    let steps = "SELECT name || ' ' || status FROM run_step ORDER BY run, step";
    let expected = [
        "prepare succeeded",
        "review succeeded",
        "report succeeded",
        "apologise skipped",
    ];
    assert_eq!(app.column(steps), expected);
    assert_eq!(app.count("SELECT count(*) FROM change"), 1);
    let shown = app.demo.slack.with_state(|state| {
        let messages = state.messages.iter().map(visible_text);
        messages
            .filter(|text| text == "Two environments get web 1.9.0.")
            .count()
    });
    assert_eq!(shown, 1);
    let requests = app.model_requests();
    assert_eq!(requests.len(), 3);
    let review = requests[2].last_user_text();
    assert!(review.contains("Prepared web 1.9.0."), "{review}");
}
