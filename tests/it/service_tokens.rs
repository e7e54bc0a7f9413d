//! Services of the configuration: programs that use the HTTP API in their own name, with tokens of their own.

use crate::api::Api;
use crate::cli_check::shell;
use crate::runs_api::{
    CANCEL, LIST, READ, RETRY, SHOW, WRITE, ended_runs, publish, review, send, start, token,
};
use crate::secrets::commit;
use crate::support::app::TestApp;
use drydock::engine::admin::{AdminReply, AdminRequest};
use drydock::simulation::emulator::model::{AnswerFault, ModelRequest, calls, queue, says};
use drydock::state::access::{AuditorRight, Grant, NewToken, Role, TokenScope};
use gix::objs::tree::EntryKind;
use serde_json::json;

const ALICE: &str = "U0ALICE";
const DEPLOY: &str = "service:deploy";
/// The section of that service.
const SECTION: (&str, &str) = ("services.deploy.repository", "infra");

const ASKS: &str = r#"
pipelines:
  decide:
    triggers: [{api: {}}]
    steps:
      - name: approve
        ask: {to: {group: editors}, question: Go on?, choices: ["yes", "no"], deadline: 10m}
"#;

/// Asks for a token. Returns the reason why there is none.
async fn token_refusal(app: &TestApp, who: &str) -> String {
    let request = AdminRequest::CreateToken {
        person: who.to_owned(),
        token: NewToken {
            name: "more".to_owned(),
            scopes: vec![READ],
            hours: 1,
        },
    };
    match app.send_admin_request(request).await {
        AdminReply::Failed { why } => why,
        other => panic!("a token for {who}: {other:?}"),
    }
}

#[tokio::test]
async fn a_service_starts_cancels_and_repeats_runs_in_its_own_name_and_fetches_their_change() {
    let edit = json!({"path": "environments/dev/main.jsonnet", "old": "web:1.8.3", "new": "web:1.9.0"});
    let stalls = says("Never said.").with_fault(AnswerFault::Stall);
    let answers = [
        calls("file_edit", edit),
        says("Prepared."),
        stalls,
        says("It is odd."),
    ];
    let app = TestApp::with_settings(queue(answers), &[SECTION]).await;
    publish(&app);
    let api = Api::new(&app).await;
    let token = token(&app, DEPLOY, &[TokenScope::ChangesRead, READ, WRITE]).await;
    assert!(app.data_files_with(&token).is_empty() && app.audit_lines_with(&token).is_empty());
    assert_eq!(app.audit_lines_with("\"event\":\"token.created\"").len(), 1);
    let (status, run) = start(&api, &token, &json!({ "pipeline": "small" }), None).await;
    assert_eq!(
        (status, &run["owner"], &run["repository"]),
        (201, &json!(DEPLOY), &json!("infra"))
    );
    ended_runs(&app, 1).await;
    let (status, shown) = send(&api, SHOW, &token, 1).await;
    assert_eq!((status, &shown["status"]), (200, &json!("succeeded")), "{shown}");
    assert_eq!(shown["steps"][0]["change"], 1, "{shown}");
    let (status, _, change) = app.get_with_token("/api/changes/1", &token).await;
    assert_eq!(status, 200, "{change}");
    assert!(change.contains("web:1.9.0"), "{change}");

    assert_eq!(start(&api, &token, &review(7), None).await.0, 201);
    app.wait_for_model_requests(3).await;
    let (status, cancelled) = send(&api, CANCEL, &token, 2).await;
    assert_eq!(
        (status, &cancelled["why"]),
        (200, &json!("cancelled by service:deploy"))
    );
    let (status, repeated) = send(&api, RETRY, &token, 2).await;
    assert_eq!((status, &repeated["retryOf"]), (201, &json!(2)));
    ended_runs(&app, 3).await;
    assert_eq!(send(&api, SHOW, &token, 3).await.1["status"], "succeeded");
    let (status, list) = send(&api, LIST, &token, 0).await;
    assert_eq!((status, list["runs"].as_array().unwrap().len()), (200, 3));
    assert_eq!(app.count("SELECT count(*) FROM outbox WHERE op LIKE 'run-%'"), 0);
}

/// I3
#[tokio::test]
async fn a_service_has_the_grants_of_its_section_in_its_own_repository_only() {
    let settings = [
        SECTION,
        ("services.reader.repository", "infra"),
        ("services.reader.grants.role", "viewer"),
    ];
    let mut app = TestApp::with_settings(|_: &ModelRequest| says("It is odd."), &settings).await;
    app.admit_slack_user(ALICE, Role::Viewer, &[]).await;
    publish(&app);
    app.demo.stop().await;
    let mut config = app.demo.config().unwrap();
    let infra = config.repositories["infra"].clone();
    config.repositories.insert("apps".to_owned(), infra);
    app.start_with(config).await;
    let api = Api::new(&app).await;
    let deploy = token(&app, DEPLOY, &[READ, WRITE]).await;
    let reader = token(&app, "service:reader", &[READ, WRITE]).await;
    let alice = token(&app, ALICE, &[READ, WRITE]).await;

    let (status, why) = start(&api, &reader, &json!({ "pipeline": "small" }), None).await;
    assert_eq!(status, 403, "{why}");
    let detail = why["detail"].as_str().unwrap();
    assert!(detail.contains("the role in `infra` is viewer"), "{detail}");
    let absent = start(&api, &deploy, &json!({ "pipeline": "absent" }), None).await;
    assert_eq!(absent.0, 404);
    for repository in ["apps", "nowhere"] {
        let body = json!({ "pipeline": "review", "repository": repository, "params": { "number": 7 } });
        assert_eq!(start(&api, &deploy, &body, None).await, absent, "{repository}");
    }
    assert_eq!(app.count("SELECT count(*) FROM run"), 0);

    assert_eq!(start(&api, &alice, &review(7), None).await.0, 201);
    assert_eq!(start(&api, &reader, &review(8), None).await.0, 201);
    ended_runs(&app, 2).await;
    // The run of a person is that of nobody else. Who may read the repository sees the run of a service.
    for operation in [SHOW, CANCEL, RETRY] {
        assert_eq!(send(&api, operation, &deploy, 1).await.0, 404, "{operation:?}");
    }
    for token in [&deploy, &alice] {
        let (status, shown) = send(&api, SHOW, token, 2).await;
        assert_eq!((status, &shown["owner"]), (200, &json!("service:reader")));
        assert_eq!(send(&api, RETRY, token, 2).await.0, 403);
    }
}

#[tokio::test]
async fn the_grant_of_a_service_identity_is_changed_in_its_section_only_and_revoked_by_the_operator() {
    let app = TestApp::with_settings(queue([]), &[SECTION]).await;
    let held = || {
        app.column(
            "SELECT users.name || ' ' || role || ' ' || repositories || ' ' || auditor FROM users
             JOIN user_grant ON user_grant.user_id = users.id ORDER BY users.name",
        )
    };
    let before = held();
    let everything = Grant {
        role: Role::Admin,
        repositories: "*".to_owned(),
        environments: vec!["**".to_owned()],
    };
    for (which, section) in [(DEPLOY, "[services.deploy]"), ("hook:release", "[hooks.release]")] {
        let refused = [
            AdminRequest::Grant {
                which: which.to_owned(),
                grant: everything.clone(),
            },
            AdminRequest::Auditor {
                which: which.to_owned(),
                right: AuditorRight::Given,
            },
        ];
        for request in refused {
            let answer = app.send_admin_request(request).await;
            let AdminReply::Failed { why } = &answer else {
                panic!("{which}: {answer:?}");
            };
            assert!(why.contains(&format!("{section} of drydock.toml")), "{why}");
        }
        let withdrawn = AdminRequest::Auditor {
            which: which.to_owned(),
            right: AuditorRight::Withdrawn,
        };
        let answer = app.send_admin_request(withdrawn).await;
        assert!(matches!(answer, AdminReply::Auditor { .. }), "{answer:?}");
    }
    assert_eq!(held(), before);
    assert_eq!(
        app.audit_lines_with("\"event\":\"user.granted\"").len(),
        0,
        "no rights changed"
    );
    for which in [DEPLOY, "hook:release"] {
        app.revoke(which).await;
    }
    assert_eq!(
        app.count("SELECT count(*) FROM users WHERE revoked_at IS NOT NULL"),
        2
    );
}

/// T06
#[tokio::test]
async fn a_token_of_a_service_permits_nothing_without_its_section_and_ends_with_its_access() {
    let stalls = |_: &ModelRequest| says("Never said.").with_fault(AnswerFault::Stall);
    let mut app = TestApp::with_settings(stalls, &[SECTION]).await;
    publish(&app);
    let token = token(&app, DEPLOY, &[READ, WRITE]).await;
    {
        let api = Api::new(&app).await;
        assert_eq!(start(&api, &token, &review(7), None).await.0, 201);
        app.wait_for_model_requests(1).await;
    }
    app.demo.stop().await;
    let mut config = app.demo.config().unwrap();
    config.services.remove("deploy");
    app.start_with(config).await;
    ended_runs(&app, 1).await;
    assert_eq!(app.column("SELECT status FROM run"), ["failed"]);
    {
        let api = Api::new(&app).await;
        assert_eq!(start(&api, &token, &review(7), None).await.0, 404);
        assert_eq!(send(&api, SHOW, &token, 1).await.0, 404);
        let (status, list) = send(&api, LIST, &token, 0).await;
        assert_eq!((status, &list["runs"]), (200, &json!([])));
        let why = token_refusal(&app, DEPLOY).await;
        assert!(why.contains("has no section in the configuration"), "{why}");
    }
    let granted = |app: &TestApp| app.audit_lines_with("\"event\":\"user.granted\"");
    let withdrawn = granted(&app);
    assert!(
        withdrawn.len() == 1 && withdrawn[0].contains("\"grant\":null"),
        "{withdrawn:?}"
    );

    // The section is there again.
    app.restart().await;
    let given = granted(&app);
    assert!(
        given.len() == 2 && given[1].contains(DEPLOY) && !given[1].contains("\"grant\":null"),
        "{given:?}"
    );
    {
        let api = Api::new(&app).await;
        assert_eq!(start(&api, &token, &review(7), None).await.0, 201);
        app.wait_for_model_requests(2).await;
        app.revoke(DEPLOY).await;
        assert_eq!(start(&api, &token, &review(7), None).await.0, 401);
        assert_eq!(send(&api, SHOW, &token, 2).await.0, 401);
        ended_runs(&app, 2).await;
    }
    assert_eq!(
        app.column("SELECT status FROM run ORDER BY id"),
        ["failed", "cancelled"]
    );
    app.restart().await;
    let api = Api::new(&app).await;
    assert_eq!(start(&api, &token, &review(7), None).await.0, 401);
    let why = token_refusal(&app, DEPLOY).await;
    assert!(why.contains("was revoked"), "{why}");
    assert_eq!(granted(&app), given);
}

#[tokio::test]
async fn what_needs_a_chat_fails_with_its_reason_in_a_run_of_a_service_and_a_hook_gets_no_token() {
    let app = TestApp::with_settings(|_: &ModelRequest| says("Never asked."), &[SECTION]).await;
    commit(&app, &[(".drydock/pipelines.yaml", EntryKind::Blob, ASKS)]);
    let api = Api::new(&app).await;
    let token = token(&app, DEPLOY, &[READ, WRITE]).await;
    assert_eq!(
        start(&api, &token, &json!({ "pipeline": "decide" }), None)
            .await
            .0,
        201
    );
    ended_runs(&app, 1).await;
    let (_, shown) = send(&api, SHOW, &token, 1).await;
    let why = shown["steps"][0]["why"].as_str().unwrap();
    assert!(why.contains("this run has none; ask a person instead"), "{why}");
    let why = token_refusal(&app, "hook:release").await;
    assert!(why.contains("is a hook or a schedule"), "{why}");
}

#[test]
fn a_service_gets_a_token_before_the_first_start_of_its_server() {
    let shell = shell("prompts/release.md", "main");
    let text = shell.get("drydock.toml");
    shell.put(
        "drydock.toml",
        &format!("{text}\n[services.deploy]\nrepository = \"infra\"\ngrants.role = \"viewer\"\n"),
    );
    let checked = shell.run(&["check"]);
    assert_eq!(checked.code, Some(0), "{checked:?}");
    for unlisted in ["alice", "service:other"] {
        let refused = shell.run(&["token", "create", "ci", "--for", unlisted]);
        assert_eq!(refused.code, Some(78), "{refused:?}");
        assert!(refused.err.contains("there is no data directory"), "{refused:?}");
    }
    let made = shell.run(&["token", "create", "ci", "--for", DEPLOY, "--scope", "runs:read"]);
    assert!(
        made.code == Some(0) && made.out.starts_with("drydock_"),
        "{made:?}"
    );
    let tokens = shell.run(&["token", "list", "--json"]).json();
    assert_eq!(tokens["tokens"][0]["person"], DEPLOY, "{tokens}");
    let users = shell.run(&["user", "list"]).out;
    assert!(users.contains("viewer infra **"), "{users}");
    let other = shell.run(&["token", "create", "ci", "--for", "service:other"]);
    assert!(other.err.contains("no user `service:other`"), "{other:?}");
}
