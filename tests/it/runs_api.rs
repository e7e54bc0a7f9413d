//! Runs of pipelines over HTTP, with the tokens of people, through the whole gateway.

use crate::api::{Api, ApiRequest};
use crate::run_events::RunEvents;
use crate::secrets::commit;
use crate::support::app::{BOUND, TestApp, visible_text};
use drydock::engine::admin::{AdminReply, AdminRequest};
use drydock::simulation::emulator::model::{AnswerFault, ModelRequest, calls, queue, says};
use drydock::state::access::{Grant, NewToken, Role, TokenScope};
use gix::objs::tree::EntryKind;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const ALICE: &str = "U0ALICE";
const BOB: &str = "U0BOB";
const CAROL: &str = "U0CAROL";
pub(crate) const READ: TokenScope = TokenScope::RunsRead;
pub(crate) const WRITE: TokenScope = TokenScope::RunsWrite;
pub(crate) const LIST: (&str, &str) = ("/api/runs", "get");
pub(crate) const START: (&str, &str) = ("/api/runs", "post");
pub(crate) const SHOW: (&str, &str) = ("/api/runs/{number}", "get");
pub(crate) const CANCEL: (&str, &str) = ("/api/runs/{number}/cancel", "post");
pub(crate) const RETRY: (&str, &str) = ("/api/runs/{number}/retry", "post");

const PIPELINES: &str = r#"
defaults: {model: anthropic/demo}
pipelines:
  review:
    triggers: [{api: {}}, {chat: {}}]
    params: {number: {type: integer}, note: {type: text, default: nothing}}
    permissions: {role: viewer}
    steps:
      - name: look
        agent: {prompt: Look at the number., params: {number: "${params.number}", note: "${params.note}"}}
  small:
    triggers: [{api: {}, when: params.size < 10}]
    params: {size: {type: integer, default: 1}}
    steps: [{name: promote, agent: {prompt: Promote web to 1.9.0.}}]
  one:
    triggers: [{api: {}}]
    concurrency: {group: one, on_conflict: skip}
    permissions: {role: viewer}
    steps: [{name: look, agent: {prompt: Look around.}}]
  chatted:
    triggers: [{chat: {}}]
    permissions: {role: viewer}
    steps: [{name: look, agent: {prompt: Look around.}}]
"#;

/// Publishes the pipelines on the trusted branch.
pub(crate) fn publish(app: &TestApp) {
    let file = (".drydock/pipelines.yaml", EntryKind::Blob, PIPELINES);
    commit(app, &[file]);
}

/// Makes a token of a person.
pub(crate) async fn token(app: &TestApp, person: &str, scopes: &[TokenScope]) -> String {
    let words: Vec<&str> = scopes.iter().map(|scope| scope.word()).collect();
    let request = AdminRequest::CreateToken {
        person: person.to_owned(),
        token: NewToken {
            name: words.join(".").replace(':', "-"),
            scopes: scopes.to_vec(),
            hours: 1,
        },
    };
    match app.send_admin_request(request).await {
        AdminReply::TokenCreated { secret, .. } => secret,
        other => panic!("no token: {other:?}"),
    }
}

/// Sends a request about a run, or about all of them with number 0, and returns an answer that the description has.
pub(crate) async fn send(api: &Api<'_>, operation: (&str, &str), token: &str, number: u32) -> (u16, Value) {
    let request = ApiRequest {
        token: Some(token),
        ..ApiRequest::default()
    };
    let path = operation.0.replace("{number}", &number.to_string());
    api.send(operation, &path, request).await
}

/// Asks for a run, with a key if there is one.
pub(crate) async fn start(api: &Api<'_>, token: &str, body: &Value, key: Option<&str>) -> (u16, Value) {
    let headers: Vec<(&str, &str)> = key.map(|key| ("idempotency-key", key)).into_iter().collect();
    let request = ApiRequest {
        token: Some(token),
        headers: &headers,
        body: &body.to_string(),
        ..ApiRequest::default()
    };
    api.send(START, START.0, request).await
}

pub(crate) fn review(number: u32) -> Value {
    json!({ "pipeline": "review", "repository": "infra", "params": { "number": number } })
}

/// Waits until the driver has looked at so many ended runs.
pub(crate) async fn ended_runs(app: &TestApp, count: usize) {
    let started = Instant::now();
    let ended = || app.column("SELECT status FROM run WHERE ended_at IS NOT NULL AND due = 0 ORDER BY id");
    while ended().len() < count {
        assert!(started.elapsed() < BOUND, "only these have ended: {:?}", ended());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    app.wait_until_idle().await;
}

/// CI-14, CI-15
#[tokio::test]
async fn a_program_starts_a_run_and_watches_it_to_its_typed_result() {
    let concludes = calls(
        "conclude",
        json!({ "verdict": "pass", "summary": "Seven is odd." }),
    );
    let app = TestApp::with_settings(queue([concludes.with_fault(AnswerFault::Held)]), &[]).await;
    app.admit_slack_user(ALICE, Role::Viewer, &[]).await;
    publish(&app);
    let api = Api::new(&app).await;
    let token = token(&app, ALICE, &[READ, WRITE]).await;
    // The repository is the only one that she may read.
    let body = json!({ "pipeline": "review", "params": { "number": 7, "note": "a note" } });
    let (status, run) = start(&api, &token, &body, None).await;
    assert_eq!(
        (status, &run["id"], &run["trigger"]),
        (201, &json!(1), &json!("api"))
    );
    assert_eq!(
        (&run["owner"], &run["repository"]),
        (&json!(ALICE), &json!("infra"))
    );

    let mut events = RunEvents::open(&app, &token, 1).await.ok().unwrap();
    let (name, state) = events.next().await.unwrap();
    assert_eq!((name.as_str(), &state["status"]), ("run", &json!("running")));
    app.wait_for_model_requests(1).await;
    app.demo.model.release();
    let rest = events.rest().await;
    let [.., (last_name, last), (end, _)] = rest.as_slice() else {
        panic!("{rest:?}");
    };
    assert_eq!((last_name.as_str(), end.as_str()), ("run", "end"));
    assert_eq!(last["status"], "succeeded");

    ended_runs(&app, 1).await;
    let (status, shown) = send(&api, SHOW, &token, 1).await;
    assert_eq!((status, &shown), (200, last));
    assert!(shown["duration"].as_f64().is_some_and(|seconds| seconds >= 0.0));
    assert_eq!(shown["tokensUsed"], 1_050);
    let steps = shown["steps"].as_array().unwrap();
    let [step] = steps.as_slice() else {
        panic!("{shown}");
    };
    let result = ["name", "kind", "status", "text", "verdict", "source"].map(|key| step[key].clone());
    let expected = ["look", "agent", "succeeded", "Seven is odd.", "pass", "concluded"];
    assert_eq!(result, expected.map(|word| json!(word)));
    assert_eq!(
        (&step["modelCalls"], &step["tokensUsed"]),
        (&json!(1), &json!(1_050))
    );
    assert_eq!(step["change"], Value::Null);
    let (status, list) = send(&api, LIST, &token, 0).await;
    assert_eq!((status, &list["next"]), (200, &Value::Null));
    assert_eq!(
        (&list["runs"][0]["id"], &list["runs"][1]),
        (&json!(1), &Value::Null)
    );

    // The model read the values, and nothing was posted until she asks in the chat.
    let requests = app.model_requests();
    let asked = requests[0].last_user_text();
    assert!(
        asked.starts_with("Look at the number.") && asked.contains("a note"),
        "{asked}"
    );
    assert_eq!(app.count("SELECT count(*) FROM outbox WHERE op LIKE 'run-%'"), 0);
    app.demo.slack.dm(ALICE, "!runs show 1").await.unwrap();
    let shown = app.wait_for_slack_message("DU0ALICE", "review on infra").await;
    assert!(visible_text(&shown).contains("Seven is odd."), "{shown:?}");
}

#[tokio::test]
async fn each_request_about_runs_needs_its_scope() {
    let app = TestApp::with_settings(|_: &ModelRequest| says("It is odd."), &[]).await;
    app.admit_slack_user(ALICE, Role::Viewer, &[]).await;
    publish(&app);
    let api = Api::new(&app).await;
    let all = token(&app, ALICE, &[READ, WRITE]).await;
    assert_eq!(start(&api, &all, &review(7), None).await.0, 201);
    ended_runs(&app, 1).await;
    let changes = token(&app, ALICE, &[TokenScope::ChangesRead]).await;
    let reads = token(&app, ALICE, &[READ]).await;
    let writes = token(&app, ALICE, &[WRITE]).await;
    for (token, may_read, may_write) in [
        ("drydock_x", 401, 401),
        (changes.as_str(), 403, 403),
        (reads.as_str(), 200, 403),
        (writes.as_str(), 403, 200),
    ] {
        assert_eq!(send(&api, LIST, token, 0).await.0, may_read);
        assert_eq!(send(&api, SHOW, token, 1).await.0, may_read);
        let watched = RunEvents::open(&app, token, 1).await;
        assert_eq!(watched.err().unwrap_or(200), may_read);
        // A run that succeeded is neither cancelled nor repeated.
        for (operation, permitted) in [(CANCEL, 409), (RETRY, 409)] {
            let expected = if may_write == 200 { permitted } else { may_write };
            assert_eq!(send(&api, operation, token, 1).await.0, expected, "{operation:?}");
        }
        let expected = if may_write == 200 { 201 } else { may_write };
        assert_eq!(start(&api, token, &review(7), None).await.0, expected);
    }
    ended_runs(&app, 2).await;
    assert_eq!(app.count("SELECT count(*) FROM run"), 2);
    app.wait_for_audit_line("token.scope").await;
}

#[tokio::test]
async fn a_key_starts_one_run_however_often_it_comes_also_after_a_restart() {
    let mut app = TestApp::with_settings(|_: &ModelRequest| says("It is odd."), &[]).await;
    app.admit_slack_user(ALICE, Role::Viewer, &[]).await;
    app.admit_slack_user(BOB, Role::Viewer, &[]).await;
    publish(&app);
    let alice = token(&app, ALICE, &[READ, WRITE]).await;
    let bob = token(&app, BOB, &[READ, WRITE]).await;
    {
        let api = Api::new(&app).await;
        let (status, first) = start(&api, &alice, &review(7), Some("one")).await;
        assert_eq!((status, &first["id"]), (201, &json!(1)));
        let (status, again) = start(&api, &alice, &review(7), Some("one")).await;
        assert_eq!((status, &again["id"]), (200, &json!(1)));
        let (status, other) = start(&api, &alice, &review(8), Some("one")).await;
        assert_eq!(
            (status, &other["error"]),
            (422, &json!("unprocessable")),
            "{other}"
        );
        // The key of another person, and requests without one.
        assert_eq!(start(&api, &bob, &review(7), Some("one")).await.0, 201);
        assert_eq!(start(&api, &alice, &review(7), None).await.0, 201);
        assert_eq!(start(&api, &alice, &review(7), None).await.0, 201);
        ended_runs(&app, 4).await;
    }
    app.restart().await;
    let api = Api::new(&app).await;
    let (status, again) = start(&api, &alice, &review(7), Some("one")).await;
    assert_eq!((status, &again["id"]), (200, &json!(1)));
    assert_eq!(again["status"], "succeeded");
    assert_eq!(start(&api, &alice, &review(8), Some("one")).await.0, 422);
    // A definition that is gone by now changes nothing for a request that was followed.
    let none = (".drydock/pipelines.yaml", EntryKind::Blob, "pipelines: {}\n");
    commit(&app, &[none]);
    assert_eq!(start(&api, &alice, &review(7), Some("one")).await.0, 200);
    assert_eq!(app.count("SELECT count(*) FROM run"), 4);
}

/// I3
#[tokio::test]
async fn a_run_or_a_pipeline_of_others_reads_like_one_that_does_not_exist() {
    let app = TestApp::with_settings(|_: &ModelRequest| says("It is odd."), &[]).await;
    app.admit_slack_user(ALICE, Role::Viewer, &[]).await;
    app.admit_slack_editor(BOB).await;
    app.admit_slack_editor(CAROL).await;
    publish(&app);
    let api = Api::new(&app).await;
    let alice = token(&app, ALICE, &[READ, WRITE]).await;
    assert_eq!(start(&api, &alice, &review(7), None).await.0, 201);
    ended_runs(&app, 1).await;
    // Bob may read another repository only, and Carol the same one; neither owns the run.
    let grant = Grant {
        role: Role::Editor,
        repositories: "other".to_owned(),
        environments: vec!["**".to_owned()],
    };
    let which = BOB.to_owned();
    app.send_admin_request(AdminRequest::Grant { which, grant }).await;
    for person in [BOB, CAROL] {
        let token = token(&app, person, &[READ, WRITE]).await;
        for operation in [SHOW, CANCEL, RETRY] {
            let foreign = send(&api, operation, &token, 1).await;
            assert_eq!(foreign.0, 404, "{operation:?}: {foreign:?}");
            assert_eq!(foreign, send(&api, operation, &token, 99).await, "{operation:?}");
        }
        assert_eq!(RunEvents::open(&app, &token, 1).await.err(), Some(404));
        let (status, list) = send(&api, LIST, &token, 0).await;
        assert_eq!((status, &list["runs"]), (200, &json!([])));
    }
    let bob = token(&app, BOB, &[WRITE]).await;
    let foreign = start(&api, &bob, &review(7), None).await;
    let absent = json!({ "pipeline": "absent", "repository": "infra" });
    let chatted = json!({ "pipeline": "chatted", "repository": "infra" });
    let elsewhere = json!({ "pipeline": "review", "repository": "elsewhere" });
    assert_eq!(foreign.0, 404);
    for (token, body) in [
        (&bob, &absent),
        (&bob, &json!({ "pipeline": "review" })),
        (&alice, &absent),
        (&alice, &chatted),
        (&alice, &elsewhere),
    ] {
        assert_eq!(start(&api, token, body, None).await, foreign, "{body}");
    }
    // She may know of these, and may not have them.
    let (status, why) = start(&api, &alice, &json!({ "pipeline": "small" }), None).await;
    assert_eq!(status, 403, "{why}");
    assert!(
        why["detail"]
            .as_str()
            .unwrap()
            .contains("the role in `infra` is viewer"),
        "{why}"
    );
    let large = json!({ "pipeline": "small", "params": { "size": 12 } });
    let (status, why) = start(&api, &alice, &large, None).await;
    assert_eq!(status, 409, "{why}");
    assert!(
        why["detail"]
            .as_str()
            .unwrap()
            .contains("the condition of its trigger is false")
    );
    assert_eq!(app.count("SELECT count(*) FROM run"), 1);
}

#[tokio::test]
async fn wrong_parameters_are_named_and_start_nothing() {
    let app = TestApp::with_settings(queue([]), &[]).await;
    app.admit_slack_user(ALICE, Role::Viewer, &[]).await;
    publish(&app);
    let api = Api::new(&app).await;
    let token = token(&app, ALICE, &[WRITE]).await;
    for (params, problems) in [
        (json!({}), &[("number", "is required")][..]),
        (json!({ "number": "seven" }), &[("number", "is no integer")][..]),
        (json!({ "number": 7.5 }), &[("number", "is no integer")][..]),
        (json!({ "number": null }), &[("number", "has no value")][..]),
        (
            json!({ "number": [7] }),
            &[("number", "is a list or an object")][..],
        ),
        (
            json!({ "nummer": 7, "note": {} }),
            &[
                ("note", "is a list or an object"),
                ("nummer", "did you mean number?"),
                ("number", "is required"),
            ][..],
        ),
    ] {
        let body = json!({ "pipeline": "review", "params": params });
        let (status, refused) = start(&api, &token, &body, Some("one")).await;
        assert_eq!(status, 422, "{refused}");
        let found: Vec<(&str, &str)> = refused["problems"]
            .as_array()
            .unwrap()
            .iter()
            .map(|problem| {
                (
                    problem["field"].as_str().unwrap(),
                    problem["problem"].as_str().unwrap(),
                )
            })
            .collect();
        assert_eq!(found.len(), problems.len(), "{refused}");
        for ((field, problem), (expected, words)) in found.iter().zip(problems) {
            assert_eq!(field, expected, "{refused}");
            assert!(problem.contains(words), "{words}: {refused}");
        }
    }
    assert_eq!(app.count("SELECT count(*) FROM run"), 0);
}
