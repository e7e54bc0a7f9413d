//! `nightly-drift.yaml`: a time, two environments that are compared, and nothing in the channel of the team unless they differ
//! or cannot be compared.

use super::{Example, concludes, file, last_results, steps};
use crate::runs::{ALICE, ended_runs, posts, say};
use crate::schedules::{ended_fires, wait_for_schedule, wake};
use crate::secrets::commit;
use crate::support::world::{advance, world};
use drydock::simulation::demo::environment::SLACK_CHANNEL;
use drydock::simulation::emulator::model::{ScriptedAnswer, calls, queue};
use gix::objs::tree::EntryKind;
use serde_json::json;

const PROD: &str = "environments/prod/main.jsonnet";
const DRIFT: &str = "web has 1.9.0 in environments/prod, and 1.8.3 in environments/staging.";
/// 02:30 in Berlin on the day after the one on which the time of a test begins, in milliseconds.
const FIRST: i64 = 1_795_311_000_000;
/// The seconds from the beginning to half a minute after it.
const TO_FIRST: i64 = 48_630;

fn compares() -> ScriptedAnswer {
    calls("tanka_show", json!({"env_path": "environments/staging"}))
        .with_call("tanka_show", json!({"env_path": "environments/prod"}))
}

#[tokio::test]
async fn a_night_without_drift_is_silent_and_drift_or_a_failure_is_reported_once() {
    const CLOCK: usize = 30;
    let answers = [
        compares(),
        concludes("pass", "No drift."),
        compares(),
        concludes("pass", DRIFT),
        concludes("fail", "The environments cannot be rendered."),
    ];
    let example = Example::read("nightly-drift.yaml");
    let mut app = example.start(queue(answers), world::<CLOCK>(), &[]).await;
    app.admit_slack_editor(ALICE).await;
    // Somebody uses the repository, so its newest commit is seen.
    say(&app, ALICE, "!run").await;
    wait_for_schedule(&app, &format!("name = 'infra/nightly-drift' AND due = {FIRST}")).await;

    advance::<CLOCK>(TO_FIRST);
    wake(&app);
    assert_eq!(ended_runs(&app, 1).await, ["succeeded"]);
    assert_eq!(ended_fires(&app, 1).await, ["done"]);
    assert_eq!(steps(&app, 1), ["compare succeeded", "report skipped"]);
    assert_eq!(posts(&app, SLACK_CHANNEL, ""), Vec::<String>::new());

    let newer = file(&app, PROD).replace("web:1.8.3", "web:1.9.0");
    commit(&app, &[(PROD, EntryKind::Blob, newer.as_str())]);
    advance::<CLOCK>(86_400);
    wake(&app);
    assert_eq!(ended_runs(&app, 2).await, ["succeeded", "succeeded"]);
    assert_eq!(ended_fires(&app, 2).await, ["done", "done"]);
    let compared = last_results(&app, 3);
    assert!(
        compared.contains("web:1.8.3") && compared.contains("web:1.9.0"),
        "{compared}"
    );
    assert_eq!(steps(&app, 2), ["compare succeeded", "report succeeded"]);
    app.restart().await;
    wake(&app);
    app.wait_until_idle().await;
    assert_eq!(posts(&app, SLACK_CHANNEL, ""), [DRIFT]);

    advance::<CLOCK>(86_400);
    wake(&app);
    assert_eq!(ended_runs(&app, 3).await, ["succeeded", "succeeded", "failed"]);
    let told = posts(&app, SLACK_CHANNEL, "");
    let failed = "Run 3 of nightly-drift on infra: failed";
    assert!(told.len() == 2 && told[1].contains(failed), "{told:?}");
    // Nothing of it can change a file.
    for request in app.model_requests() {
        let writes = |name: &str| name.starts_with("file_") && name != "file_read" || name.starts_with("jb_");
        assert!(!request.tools.iter().any(|tool| writes(&tool.name)));
    }
}
