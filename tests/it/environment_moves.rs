//! Environments that are moved to another cluster or namespace: the answer reports it first, and the move needs a grant
//! for all affected environments, whichever way it is made.

use crate::support::app::TestApp;
use drydock::simulation::emulator::model::{ModelRequest, ScriptedAnswer, calls, queue, says};
use drydock::state::access::Role;
use serde_json::json;

const ALICE: &str = "U0ALICE";
const DEV_SPEC: &str = "environments/dev/spec.json";
const REFUSED: &str = "which requires a grant for `environments/prod`; your grant covers only dev";

fn retarget() -> ScriptedAnswer {
    let content = r#"{"apiVersion":"tanka.dev/v1alpha1","kind":"Environment","metadata":{"name":"environments/dev"},
        "spec":{"apiServer":"https://prod.k8s.example.com","namespace":"prod"}}"#;
    calls("file_write", json!({"path": DEV_SPEC, "content": content}))
}

/// Writes the environment inline in its program, so that no write of `spec.json` shows its cluster.
fn inline() -> [ScriptedAnswer; 2] {
    let program = "{ apiVersion: 'tanka.dev/v1alpha1', kind: 'Environment', metadata: { name: 'dev' },\n  spec: { apiServer: \
                   'https://' + 'prod' + '.k8s.example.com', namespace: 'prod' }, data: {} }\n";
    [
        calls("file_delete", json!({"path": DEV_SPEC})),
        calls(
            "file_write",
            json!({"path": "environments/dev/main.jsonnet", "content": program}),
        ),
    ]
}

#[tokio::test]
async fn an_editor_of_dev_cannot_move_dev_to_the_cluster_of_prod() {
    let app = TestApp::new(|asked: &ModelRequest| match asked.last_results().first() {
        None => retarget(),
        Some(result) => says(result.content.clone()),
    })
    .await;
    app.admit_slack_user(ALICE, Role::Editor, &["dev"]).await;
    let result = app.ask(ALICE, "use the other cluster in dev").await;
    let asked = app.model_requests();
    let refused = &asked[1].last_results()[0];
    assert!(
        refused.is_error && refused.content.contains(REFUSED) && refused.content.contains("was not changed"),
        "{refused:?}"
    );
    assert!(result.text.contains("environments/prod"), "{}", result.text);
    assert_eq!(app.count("SELECT count(*) FROM change"), 0);
    assert_eq!(
        app.count("SELECT count(*) FROM conversation WHERE edits <> '{}'"),
        0
    );
}

#[tokio::test]
async fn an_inline_environment_moved_next_to_prod_is_withheld_until_it_is_moved_away() {
    let [delete, write] = inline();
    let app = TestApp::new(queue([
        delete,
        write,
        says("Done."),
        says("It was meant so."),
        says("It is still so."),
    ]))
    .await;
    app.admit_slack_user(ALICE, Role::Editor, &["dev"]).await;
    let result = app.ask(ALICE, "use the other cluster in dev").await;
    let refused = REFUSED.replace('`', "");
    assert!(
        result.text.contains("Withheld, and not prepared") && result.text.contains(&refused),
        "{}",
        result.text
    );
    // The model received the failed check.
    let asked = app.model_requests();
    assert!(
        asked[3]
            .last_user_text()
            .contains("the grant covers the change: no"),
        "{:?}",
        asked[3]
    );
    for words in ["!patch", "!diff"] {
        let answer = app.run_command_in(ALICE, &result.thread, words).await;
        assert!(
            answer.contains("Withheld") && answer.contains(&refused),
            "{words}: {answer}"
        );
    }
    app.say_in(ALICE, &result.thread, "and now?").await;
    let again = app.wait_for_result(&result.thread, 2).await;
    assert!(
        again.text.contains("Withheld, and not prepared"),
        "{}",
        again.text
    );
    assert_eq!(app.count("SELECT count(*) FROM change"), 0);
    assert_eq!(app.demo.slack.with_state(|state| state.files.len()), 0);
    let answer = app.run_command_in(ALICE, &result.thread, "!undo").await;
    assert!(answer.contains("equals the base again"), "{answer}");
    let answer = app.run_command_in(ALICE, &result.thread, "!patch").await;
    assert!(answer.contains("Nothing is prepared here."), "{answer}");
}

#[tokio::test]
async fn a_permitted_move_of_an_environment_is_reported_first() {
    let app = TestApp::new(queue([retarget(), says("Done.")])).await;
    app.admit_slack_editor(ALICE).await;
    let result = app.ask(ALICE, "use the cluster of prod in dev").await;
    let moves = "⚠ environments/dev moves: spec.apiServer https://dev.k8s.example.com -> https://prod.k8s.example.com, \
                 spec.namespace dev -> prod; it may share the destination of environments/prod";
    let (at, counted) = (result.text.find(moves), result.text.find("environments change"));
    assert!(at.is_some() && at < counted, "{}", result.text);
    assert!(result.text.contains("DD101"), "{}", result.text);
    let answer = app
        .run_command_in(ALICE, &result.thread, "!diff environments/dev")
        .await;
    assert!(answer.contains(moves), "{answer}");
    let answer = app.run_command_in(ALICE, &result.thread, "!risk").await;
    assert!(
        answer.contains("DD101") && answer.replace('`', "").contains("spec.namespace dev -> prod"),
        "{answer}"
    );
}
