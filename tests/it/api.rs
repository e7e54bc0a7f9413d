//! The HTTP API with tokens of `drydock token`, and its answers against its description.

use crate::cli_pull::{ALICE, prepared, several};
use crate::support::app::TestApp;
use crate::support::json_schema::check;
use crate::support::machine::{PUBLIC_URL, login_code};
use crate::support::shell::{ProgramOutput, Shell};
use drydock::base::http_client::api_client;
use drydock::simulation::emulator::model::says;
use proptest::prelude::{Strategy, prop_oneof};
use proptest::sample::select;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use reqwest::Method;
use reqwest::header::{ALLOW, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use serde_json::{Value, json};
use std::collections::BTreeSet;

const BOB: &str = "U0BOB";

/// The operator at a terminal of the server.
struct Operator {
    shell: Shell,
    data: String,
}

impl Operator {
    fn new(app: &TestApp) -> Self {
        Self {
            shell: Shell::new(),
            data: format!("data.directory={}", app.demo.data().display()),
        }
    }

    fn run(&self, arguments: &[&str]) -> ProgramOutput {
        let arguments = [arguments, &["--set", &self.data]].concat();
        tokio::task::block_in_place(|| self.shell.run(&arguments))
    }

    /// Makes a token for a person and returns it.
    fn token(&self, name: &str, person: &str) -> String {
        let made = self.run(&["token", "create", name, "--for", person]);
        assert_eq!(made.code, Some(0), "{made:?}");
        made.out.trim_end().to_owned()
    }
}

/// An API with its description.
pub(crate) struct Api<'a> {
    app: &'a TestApp,
    client: reqwest::Client,
    description: Value,
}

impl<'a> Api<'a> {
    pub(crate) async fn new(app: &'a TestApp) -> Self {
        let (status, text) = app.get("/api/openapi.json").await;
        assert_eq!(status, 200);
        Self {
            app,
            client: api_client().unwrap(),
            description: serde_json::from_str(&text).unwrap(),
        }
    }

    /// Sends a request of an operation of the description, with another method if one is given. Fails unless the answer is
    /// described. Returns its status and its body.
    pub(crate) async fn send(
        &self,
        operation: (&str, &str),
        path: &str,
        request: ApiRequest<'_>,
    ) -> (u16, Value) {
        let (described_path, method) = operation;
        let sent = request.method.unwrap_or(method).to_uppercase();
        let sent = Method::from_bytes(sent.as_bytes()).unwrap();
        let url = format!("{}{path}", self.app.demo.url());
        // A body that is not read ends its connection.
        let mut built = self
            .client
            .request(sent.clone(), url)
            .header("connection", "close");
        for (name, value) in request.headers {
            built = built.header(*name, *value);
        }
        if let Some(token) = request.token {
            built = built.bearer_auth(token);
        }
        let answer = built.body(request.body.to_owned()).send().await.unwrap();
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        let place = format!("{method} {path}: {status}");
        let text = answer.text().await.unwrap();
        let mut response =
            &self.description["paths"][described_path][method]["responses"][status.to_string()];
        assert!(response.is_object(), "{place} is not described: {text}");
        if let Some(reference) = response["$ref"].as_str() {
            response = self
                .description
                .pointer(reference.strip_prefix('#').unwrap())
                .unwrap();
        }
        for name in [ALLOW, RETRY_AFTER, WWW_AUTHENTICATE] {
            let described = response["headers"].as_object().into_iter().flatten();
            let is_described = described
                .filter(|(header, _)| header.to_lowercase() == name.as_str())
                .count()
                == 1;
            assert_eq!(headers.contains_key(&name), is_described, "{place} {name}");
        }
        if sent == Method::HEAD {
            return (status, Value::Null);
        }
        let Some(content) = response["content"].as_object() else {
            assert_eq!((text.as_str(), headers.get(CONTENT_TYPE)), ("", None), "{place}");
            return (status, Value::Null);
        };
        let kind = headers[CONTENT_TYPE].to_str().unwrap();
        let body: Value = serde_json::from_str(&text).unwrap();
        check(&self.description, &content[kind]["schema"], &body, &place);
        (status, body)
    }

    async fn change(&self, token: &str, number: u32) -> (u16, Value) {
        let request = ApiRequest {
            token: Some(token),
            ..ApiRequest::default()
        };
        self.send(CHANGE, &format!("/api/changes/{number}"), request)
            .await
    }
}

/// The number of generated requests.
const GENERATED: usize = 400;
const CHANGE: (&str, &str) = ("/api/changes/{number}", "get");
const LOGIN: (&str, &str) = ("/api/login", "post");
const LOGOUT: (&str, &str) = ("/api/logout", "post");

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ApiRequest<'a> {
    pub(crate) method: Option<&'a str>,
    pub(crate) headers: &'a [(&'a str, &'a str)],
    pub(crate) token: Option<&'a str>,
    pub(crate) body: &'a str,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_of_an_operator_fetches_the_changes_of_its_person_and_does_nothing_else() {
    let app = prepared(several).await;
    app.admit_slack_editor(BOB).await;
    let (operator, api) = (Operator::new(&app), Api::new(&app).await);
    let made = operator.run(&["token", "create", "ci", "--for", ALICE, "--expires", "30d"]);
    assert_eq!(made.code, Some(0), "{made:?}");
    assert!(
        made.err
            .starts_with("Token `ci` of U0ALICE for changes:read, valid until "),
        "{made:?}"
    );
    let token = made.out.trim_end();
    assert!(token.starts_with("drydock_") && token.len() == 51, "{made:?}");
    assert!(app.data_files_with(token).is_empty() && app.audit_lines_with(token).is_empty());

    let (status, change) = api.change(token, 1).await;
    assert_eq!((status, &change["change"]), (200, &json!(1)));
    let files: Vec<(bool, bool)> = change["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| (file["before"].is_object(), file["after"].is_object()))
        .collect();
    let checks = change["checks"].as_array().unwrap();
    assert!(checks.iter().any(|check| check["state"] == "pass"), "{checks:?}");
    // One that is edited, one that is new and one that is deleted.
    assert_eq!(files, [(true, true), (false, true), (true, false)]);
    assert!(
        change["patch"]["text"]
            .as_str()
            .unwrap()
            .contains("+    replicas: 4,")
    );
    app.wait_for_audit_line("change.pulled").await;

    // That of another person, and other requests.
    let other = operator.token("ci", BOB);
    assert_eq!(api.change(&other, 1).await.0, 404);
    let request = ApiRequest {
        token: Some(token),
        ..ApiRequest::default()
    };
    let (status, refused) = api.send(LOGOUT, "/api/logout", request).await;
    assert_eq!(status, 403, "{refused}");
    assert!(
        refused["detail"]
            .as_str()
            .unwrap()
            .contains("`drydock token revoke`")
    );
    assert_eq!(api.change(token, 1).await.0, 200);

    let ended = operator.run(&["token", "revoke", "ci", "--for", BOB]);
    assert_eq!(ended.out, "token `ci` of U0BOB has ended\n", "{ended:?}");
    assert_eq!(api.change(&other, 1).await.0, 401);
    let revoked = operator.run(&["user", "revoke", ALICE]);
    assert_eq!(
        revoked.out,
        "U0ALICE has no access any more\nended with it: tokens ci\n"
    );
    assert_eq!(api.change(token, 1).await.0, 401);
    assert_eq!(
        operator.run(&["token", "list", "--json"]).json()["tokens"],
        json!([])
    );
    assert_eq!(app.audit_lines_with("\"event\":\"token.created\"").len(), 2);
    assert_eq!(app.audit_lines_with("\"event\":\"token.revoked\"").len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_are_listed_without_their_secrets_and_wrong_ones_are_refused_with_the_reason() {
    let app = TestApp::with_settings(|_: &_| says("Hello."), &[PUBLIC_URL]).await;
    app.admit_slack_editor(ALICE).await;
    let operator = Operator::new(&app);
    for (code, arguments, why) in [
        (
            1,
            &["ci", "--for", "nobody"][..],
            "no user `nobody`; `drydock user list` shows all",
        ),
        (
            2,
            &["a b", "--for", ALICE][..],
            "the name of a token has 1 to 64 of a-z",
        ),
        (2, &["ci"][..], "--for <PERSON>"),
        (
            2,
            &["ci", "--for", ALICE, "--expires", "367d"][..],
            "valid for 1 hour to 366 days, written as `12h` or `90d`",
        ),
        (
            2,
            &["ci", "--for", ALICE, "--expires", "soon"][..],
            "valid for 1 hour to 366 days, written as `12h` or `90d`",
        ),
        (
            2,
            &["ci", "--for", ALICE, "--scope", "all"][..],
            "no scope `all`; there are `changes:read`, `runs:read`, `runs:write`",
        ),
    ] {
        let ended = operator.run(&[&["token", "create"], arguments].concat());
        assert_eq!((ended.code, ended.out.as_str()), (Some(code), ""), "{ended:?}");
        assert!(ended.err.contains(why), "{ended:?}");
    }
    let none = operator.run(&["token", "revoke", "ci"]);
    assert_eq!(none.code, Some(1));
    assert!(
        none.err.contains("no token `ci`; `drydock token list` shows all"),
        "{none:?}"
    );
    assert_eq!(app.count("SELECT count(*) FROM login"), 0);

    let token = operator.token("ci", ALICE);
    let taken = operator.run(&["token", "create", "ci", "--for", ALICE]);
    assert_eq!((taken.code, taken.out.as_str()), (Some(1), ""), "{taken:?}");
    let why = "U0ALICE has a token `ci`; `drydock token revoke ci` ends it, or choose another name";
    assert!(taken.err.contains(why), "{taken:?}");
    let listed = operator.run(&["token", "list"]);
    let rows: Vec<Vec<&str>> = listed
        .out
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(rows.len(), 2, "{listed:?}");
    assert_eq!(rows[1][..3], ["ci", ALICE, "changes:read"]);
    assert_eq!(
        (rows[1][5], rows[1].last()),
        ("-", Some(&"active")),
        "not used yet"
    );
    assert_eq!(app.get_with_token("/api/changes/1", &token).await.0, 404);
    let listed = operator.run(&["token", "list", "--json"]);
    assert!(listed.json()["tokens"][0]["used_at"].is_string(), "{listed:?}");
    assert!(!listed.out.contains(&token));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_of_the_api_is_one_that_its_description_has() {
    let settings = [PUBLIC_URL, ("server.body_bytes_max", "4096")];
    let app = TestApp::with_settings(|_: &_| says("Hello."), &settings).await;
    app.admit_slack_editor(ALICE).await;
    let api = Api::new(&app).await;
    let none = ApiRequest::default();
    let with = |body: &'static str| ApiRequest { body, ..none };
    let other_method = ApiRequest {
        method: Some("delete"),
        ..none
    };
    for path in ["/healthz", "/livez", "/readyz", "/api/openapi.json"] {
        assert_eq!(api.send((path, "get"), path, none).await.0, 200);
        assert_eq!(api.send((path, "get"), path, other_method).await.0, 405);
    }
    for operation in [LOGIN, LOGOUT] {
        assert_eq!(api.send(operation, operation.0, other_method).await.0, 405);
    }
    assert_eq!(api.send(CHANGE, "/api/changes/1", other_method).await.0, 405);

    let large = "x".repeat(4_097);
    let too_large = ApiRequest { body: &large, ..none };
    let encoded = ApiRequest {
        headers: &[("content-encoding", "gzip")],
        ..with("{}")
    };
    let code = json!({ "code": login_code(&app, ALICE).await }).to_string();
    let right = ApiRequest { body: &code, ..none };
    for (request, status) in [
        (with("{}"), 400),
        (with(r#"{"code":"wrong"}"#), 401),
        (too_large, 413),
        (encoded, 415),
    ] {
        assert_eq!(api.send(LOGIN, LOGIN.0, request).await.0, status);
    }
    let (status, login) = api.send(LOGIN, LOGIN.0, right).await;
    assert_eq!((status, &login["name"]), (200, &json!(ALICE)));
    let token = login["token"].as_str().unwrap();
    let authenticated = ApiRequest {
        token: Some(token),
        ..none
    };
    for (path, request, status) in [
        ("/api/changes/CHG-1", none, 401),
        ("/api/changes/CHG-1", authenticated, 404),
        ("/api/changes/one", authenticated, 404),
    ] {
        assert_eq!(api.send(CHANGE, path, request).await.0, status);
    }
    assert_eq!(api.send(LOGOUT, LOGOUT.0, authenticated).await.0, 200);
    assert_eq!(api.send(LOGOUT, LOGOUT.0, authenticated).await.0, 401);
    let mut last = 0;
    for _ in 0..10 {
        last = api.send(LOGIN, LOGIN.0, with(r#"{"code":"wrong"}"#)).await.0;
    }
    assert_eq!(last, 429, "the eleventh wrong code of a minute");
    let token = Operator::new(&app).token("ci", ALICE);
    send_generated(&api, &token).await;
    app.wait_until_idle().await;
}

/// Sends generated requests of all operations: names, methods, credentials, encodings and bodies that fit the description
/// and that do not.
async fn send_generated(api: &Api<'_>, token: &str) {
    let mut operations = Vec::new();
    for (path, methods) in api.description["paths"].as_object().unwrap() {
        operations.extend(
            methods
                .as_object()
                .unwrap()
                .keys()
                .map(|method| (path.as_str(), method.as_str())),
        );
    }
    let credentials = [None, Some(token), Some("x"), Some("drydock_x")];
    let requests = (
        0..operations.len(),
        select(vec![
            None,
            None,
            None,
            Some("head"),
            Some("put"),
            Some("delete"),
            Some("options"),
            Some("x"),
        ]),
        prop_oneof!["(CHG-|chg-)?[0-9]{1,20}", "[ -~]{0,12}", "\\PC{0,4}"],
        0..credentials.len(),
        select(vec![None, None, Some("identity"), Some("gzip")]),
        prop_oneof![
            "\\PC{0,40}",
            r#"\{"code":"[ !#-Z]{0,250}"\}"#,
            r#"(\[|\{|"code"|:|1|,|\}){0,9}"#
        ],
    );
    let mut runner = TestRunner::deterministic();
    let mut statuses = BTreeSet::new();
    for _ in 0..GENERATED {
        let (operation, method, name, token, encoding, body) =
            requests.new_tree(&mut runner).unwrap().current();
        let operation = operations[operation];
        let path = operation.0.replace("{number}", &percent_encoded(&name));
        let headers: Vec<(&str, &str)> = encoding
            .map(|value| ("content-encoding", value))
            .into_iter()
            .collect();
        let request = ApiRequest {
            method,
            headers: &headers,
            token: credentials[token],
            body: &body,
        };
        let (status, _) = api.send(operation, &path, request).await;
        assert!(status < 500, "{request:?}");
        statuses.insert(status);
    }
    assert_eq!(Vec::from_iter(statuses), [200, 400, 401, 403, 404, 405, 415]);
}

fn percent_encoded(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte.is_ascii_alphanumeric() || byte == b'-' {
            true => char::from(byte).to_string(),
            false => format!("%{byte:02X}"),
        })
        .collect()
}
