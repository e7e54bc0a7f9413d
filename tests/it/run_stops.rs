//! The runs of a hook as an operator sees them, and the end of all of them together.

use crate::hooks::{ONE, deliver, release};
use crate::runs::{OF_A_HOOK, ended_runs, posts};
use crate::secrets::commit;
use crate::support::app::TestApp;
use drydock::simulation::demo::environment::SLACK_CHANNEL;
use drydock::simulation::emulator::model::{AnswerFault, calls, queue, says};
use gix::objs::tree::EntryKind;
use serde_json::json;

const TWO: &str = "82d3162e-cc78-11e3-81ab-4c9367dc0958";
const THREE: &str = "92d3162e-cc78-11e3-81ab-4c9367dc0958";

/// T06
#[tokio::test]
async fn the_end_of_the_access_of_a_hook_stops_its_runs_and_no_other_begins_also_after_a_restart() {
    let fails = calls("conclude", json!({ "verdict": "fail", "summary": "It is not." }));
    let stalls = says("Never said.").with_fault(AnswerFault::Stall);
    let settings = [("hooks.release.pipelines", "true")];
    let mut app = TestApp::with_settings(queue([fails, stalls]), &settings).await;
    commit(&app, &[(".drydock/pipelines.yaml", EntryKind::Blob, OF_A_HOOK)]);
    let notes = release("Faster.");
    assert_eq!(deliver(&app, "release", ONE, &notes).await.0, 200);
    assert_eq!(ended_runs(&app, 1).await, ["failed"]);
    // Its message shows that, and the server is as ready as before.
    let shown = posts(&app, SLACK_CHANNEL, "Run 1 of released on infra: failed");
    assert_eq!(shown.len(), 1, "{shown:?}");
    assert_eq!(app.readyz().await, (200, r#"{"ready":true}"#.to_owned()));

    assert_eq!(deliver(&app, "release", TWO, &release("Safer.")).await.0, 200);
    app.wait_for_model_requests(2).await;
    app.revoke("hook:release").await;
    assert_eq!(ended_runs(&app, 2).await, ["failed", "cancelled"]);
    app.restart().await;
    deliver(&app, "release", THREE, &release("Smaller.")).await;
    app.wait_until_idle().await;
    assert_eq!(app.count("SELECT count(*) FROM run"), 2);
    assert_eq!(app.model_requests().len(), 2);
}

/// T06
#[tokio::test]
async fn the_open_run_of_a_hook_fails_after_a_start_without_its_section() {
    let stalls = says("Never said.").with_fault(AnswerFault::Stall);
    let settings = [("hooks.release.pipelines", "true")];
    let mut app = TestApp::with_settings(queue([stalls]), &settings).await;
    commit(&app, &[(".drydock/pipelines.yaml", EntryKind::Blob, OF_A_HOOK)]);
    assert_eq!(deliver(&app, "release", ONE, &release("Faster.")).await.0, 200);
    app.wait_for_model_requests(1).await;
    app.demo.stop().await;
    let mut config = app.demo.config().unwrap();
    config.hooks.remove("release");
    app.start_with(config).await;
    assert_eq!(ended_runs(&app, 1).await, ["failed"]);
    assert_eq!(
        app.column("SELECT why FROM run"),
        ["there is no grant for `infra` any more"]
    );
    assert_eq!(app.model_requests().len(), 1);
}
