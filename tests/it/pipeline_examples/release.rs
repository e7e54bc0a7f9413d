//! `release-preparation.yaml`: an event of a hook, an edit, a second model call that only reads, and a report.

use super::{Example, steps};
use crate::hooks::{ONE, deliver};
use crate::runs::posts;
use crate::support::app::TestApp;
use crate::support::world::world;
use drydock::simulation::demo::environment::SLACK_CHANNEL;
use drydock::simulation::emulator::model::{calls, queue, says};
use serde_json::{Value, json};

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

async fn send(app: &TestApp, id: &str, event: &Value) {
    assert_eq!(deliver(app, "release", id, event).await.0, 200);
}

#[tokio::test]
async fn a_release_is_prepared_looked_at_and_reported_once() {
    let answers = [
        calls("file_edit", edit("dev")).with_call("file_edit", edit("staging")),
        says("Prepared web 1.9.0."),
        says("Two environments get web 1.9.0."),
    ];
    let example = Example::read("release-preparation.yaml");
    let app = example.start(queue(answers), world::<0>(), &[]).await;
    send(&app, "82d3162e-cc78-11e3-81ab-4c9367dc0958", &published(true)).await;
    send(&app, ONE, &published(false)).await;
    app.wait_for_slack_message(SLACK_CHANNEL, "Two environments get web 1.9.0.")
        .await;
    send(&app, ONE, &published(false)).await;
    app.wait_until_idle().await;

    assert_eq!(app.count("SELECT count(*) FROM run"), 1);
    let expected = [
        "prepare succeeded",
        "review succeeded",
        "report succeeded",
        "apologise skipped",
    ];
    assert_eq!(steps(&app, 1), expected);
    assert_eq!(app.count("SELECT count(*) FROM change"), 1);
    let mut shown = posts(&app, SLACK_CHANNEL, "Two environments get web 1.9.0.");
    shown.retain(|text| text == "Two environments get web 1.9.0.");
    assert_eq!(shown.len(), 1);
    let requests = app.model_requests();
    assert_eq!(requests.len(), 3);
    let review = requests[2].last_user_text();
    assert!(review.contains("Prepared web 1.9.0."), "{review}");
}
