//! A secret of a repository reaches no model, no chat and no recording, whichever part of a file is read and whatever a
//! program computes from it.

use crate::support::app::{TestApp, step_number};
use crate::support::sign;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use drydock::simulation::demo::environment::HOOK_SECRET;
use drydock::simulation::emulator::model::{AnswerScript, ModelRequest, ScriptedAnswer, calls, says};
use gix::objs::tree::EntryKind;
use serde_json::json;

pub(crate) const ALICE: &str = "U0ALICE";
/// The lines of a key, as `openssl` writes them.
const KEY_LINES: [&str; 4] = [
    "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj",
    "MzEfYyjiWA4R4/M2bS1GB4t7NXp98C3SC6dVMvDuictGeurT8jNbvJZHtCSuYEvu",
    "NMoSfm76oqFvAp8Gy0iz5sxjZmSnXyCdPEovGhLa0VzMaQ8s+CLOyS56YyCFGeJZ",
    "qgtzJ6GR3eqoYSW9b9UMvkBpZODSctWSNGj3P7jRFDO5VoTwCQAWbFnOjDfH5Ulg",
];
/// A password that only its position identifies.
pub(crate) const PASSWORD: &str = "brass-kettle-on-the-hill-41";
const TOKEN: &str = "q7Rk2ZpX9vTn4WbY6mLc8dHf";
pub(crate) const SPEC: &str = "{ \"spec\": { \"namespace\": \"vault\" } }\n";

fn key() -> String {
    let label = "PRIVATE KEY";
    format!(
        "-----BEGIN {label}-----\n{}\n-----END {label}-----\n",
        KEY_LINES.join("\n")
    )
}

/// Returns an environment whose `Secret` holds a password, and one that computes other values from it.
fn vault() -> String {
    format!(
        "{{ secret: {{ apiVersion: 'v1', kind: 'Secret', metadata: {{ name: 'vault' }}, stringData: {{ opens: '{PASSWORD}' }} }} }}\n"
    )
}

fn leaking() -> String {
    let map = |name: &str, rest: &str| {
        format!(
            "{name}: {{ apiVersion: 'v1', kind: 'ConfigMap', metadata: {{ name: '{name}' }} }} + {{ {rest} }}"
        )
    };
    let maps = [
        map("value", "data: { plain: p, inside: 'user:' + p }"),
        map(
            "packed",
            "data: { base64: std.base64('u:' + p), whole: std.base64(k), lines: k }",
        ),
        map("labels", "metadata+: { labels: { vault: p } }"),
        map("named", "metadata+: { name: p }"),
        map("keyed", "data: { [p]: 'x' }"),
        map(
            "token",
            "data: { token: (import 'token.libsonnet').t, hex: std.join('', [std.char(std.codepoint(c)) for c in std.stringChars(p)]) }",
        ),
    ];
    format!(
        "local p = (import '../vault/main.jsonnet').secret.stringData.opens;\nlocal k = importstr '../../tls/prod.pem';\n{{ {} }}\n",
        maps.join(", ")
    )
}

/// Adds one commit with these files to the trusted branch of the repository.
pub(crate) fn commit(app: &TestApp, files: &[(&str, EntryKind, &str)]) {
    commit_to(app, "main", files);
}

/// Makes one commit with these files on top of the trusted branch, and sets a branch to it. Returns its name.
pub(crate) fn commit_to(app: &TestApp, branch: &str, files: &[(&str, EntryKind, &str)]) -> String {
    let repository = app.demo.repository();
    let heads = repository.join("refs/heads");
    let parent = std::fs::read_to_string(heads.join("main")).unwrap();
    let parent: gix::ObjectId = parent.trim().parse().unwrap();
    let opened = gix::open_opts(&repository, gix::open::Options::isolated()).unwrap();
    let tree = opened.find_commit(parent).unwrap().tree_id().unwrap().detach();
    let mut editor = opened.edit_tree(tree).unwrap();
    for (path, kind, text) in files {
        let blob = opened.write_blob(text).unwrap().detach();
        editor.upsert(*path, *kind, blob).unwrap();
    }
    let author = gix::actor::Signature {
        name: "Ada".into(),
        email: "ada@example.com".into(),
        time: gix::date::Time {
            seconds: 1_800_000_000,
            offset: 0,
        },
    };
    let commit = gix::objs::Commit {
        tree: editor.write().unwrap().detach(),
        parents: vec![parent].into(),
        author: author.clone(),
        committer: author,
        encoding: None,
        message: "more\n".into(),
        extra_headers: Vec::new(),
    };
    let id = opened.write_object(&commit).unwrap().detach();
    std::fs::write(heads.join(branch), format!("{id}\n")).unwrap();
    id.to_string()
}

pub(crate) async fn app(script: impl AnswerScript + 'static) -> TestApp {
    let app = TestApp::new(script).await;
    app.admit_slack_editor(ALICE).await;
    let conf = format!("name: x\n{}level: 1\n", key());
    let values = format!("env:\n- name: DB_PASSWORD\n  value: {TOKEN}\n- name: LEVEL\n  value: info\n");
    let manifest = format!("kind: Secret\nstringData:\n  opens: {PASSWORD}\n");
    let dotenv = format!("DB_TOKEN={TOKEN}\n");
    let token = format!("{{ t: '{TOKEN}' }}\n");
    commit(
        &app,
        &[
            ("environments/dev/conf.txt", EntryKind::Blob, &conf),
            ("environments/dev/values.yaml", EntryKind::Blob, &values),
            ("environments/dev/settings.txt", EntryKind::Link, "../../.env"),
            ("k/secret.yaml", EntryKind::Blob, &manifest),
            ("tls/prod.pem", EntryKind::Blob, &key()),
            ("secrets/prod.key", EntryKind::Blob, &key()),
            (".env", EntryKind::Blob, &dotenv),
            ("environments/vault/main.jsonnet", EntryKind::Blob, &vault()),
            ("environments/vault/spec.json", EntryKind::Blob, SPEC),
            ("environments/leaking/main.jsonnet", EntryKind::Blob, &leaking()),
            ("environments/leaking/token.libsonnet", EntryKind::Blob, &token),
            ("environments/leaking/spec.json", EntryKind::Blob, SPEC),
        ],
    );
    app
}

/// Returns the texts that must not be visible: parts of the key, the password and the token, as they are and as
/// programs encode them.
fn forbidden() -> Vec<String> {
    let mut forbidden: Vec<String> = KEY_LINES.iter().map(|line| line[8..40].to_owned()).collect();
    forbidden.extend([PASSWORD.to_owned(), TOKEN.to_owned()]);
    forbidden.push(STANDARD.encode(format!("u:{PASSWORD}"))[4..30].to_owned());
    forbidden.push(STANDARD.encode(key())[60..120].to_owned());
    forbidden
}

/// Checks all output except the model's own words.
pub(crate) fn assert_nothing_shown(app: &TestApp) {
    for secret in forbidden() {
        for asked in app.model_requests() {
            for result in asked.messages.iter().flat_map(|message| &message.results) {
                assert!(
                    !result.content.contains(&secret),
                    "{secret} in\n{}",
                    result.content
                );
            }
        }
        assert!(
            !app.all_slack_output().contains(&secret),
            "{secret} in\n{}",
            app.all_slack_output()
        );
        app.demo.slack.with_state(|state| {
            for file in &state.files {
                let text = String::from_utf8_lossy(&file.content);
                assert!(!text.contains(&secret), "{secret} in {}:\n{text}", file.name);
            }
        });
        for (name, text) in app.recordings() {
            assert!(!text.contains(&secret), "{secret} in {name}");
        }
    }
}

/// T87: a hunk, a page and a search line that show a part of a key are redacted, because the whole key is known.
#[tokio::test]
async fn a_part_of_a_file_shows_no_part_of_its_secrets() {
    let conf = "environments/dev/conf.txt";
    let app = app(move |asked: &ModelRequest| match step_number(asked) {
        0 => calls(
            "file_edit",
            json!({"path": conf, "old": "level: 1", "new": "level: 2"}),
        ),
        1 => calls("file_read", json!({"path": conf, "offset": 3, "limit": 1}))
            .with_call("file_search", json!({"glob_pattern": "tls/*", "text_query": "M"}))
            .with_call(
                "file_search",
                json!({"glob_pattern": "**/values.yaml", "text_query": "value:"}),
            )
            .with_call(
                "file_read",
                json!({"path": "environments/dev/values.yaml", "offset": 2, "limit": 1}),
            )
            .with_call(
                "file_read",
                json!({"path": "k/secret.yaml", "offset": 2, "limit": 1}),
            )
            .with_call("git_diff", json!({}))
            .with_call("git_show", json!({})),
        _ => says("Level 2 it is."),
    })
    .await;
    let result = app.ask(ALICE, "set the level to 2").await;
    assert!(
        result.text.contains("CHG-1 is ready: 1 file, +1 −1"),
        "{}",
        result.text
    );
    assert!(
        result.text.contains("+level: 2") && result.text.contains("⟦secret:"),
        "{}",
        result.text
    );
    let diff = app.run_command_in(ALICE, &result.thread, "!diff").await;
    assert!(diff.contains("+level: 2"), "{diff}");
    app.run_command_in(ALICE, &result.thread, "!patch").await;
    app.wait_until_idle().await;
    let read = app.model_requests()[2].last_results()[0].content.clone();
    assert!(read.contains("⟦secret:"), "{read}");
    let env = app.model_requests()[2].last_results()[2].content.clone();
    assert!(env.contains("value: info"), "{env}");
    assert_nothing_shown(&app);
}

/// T87: an edit beside a secret does not expose it, and the change says so.
#[tokio::test]
async fn what_was_a_secret_before_an_edit_is_one_after_it() {
    let conf = "environments/dev/conf.txt";
    let begin = format!("-----BEGIN {}-----\n", "PRIVATE KEY");
    let app = app(move |asked: &ModelRequest| match step_number(asked) {
        0 => calls("file_edit", json!({"path": conf, "old": begin, "new": ""}))
            .with_call("file_edit", json!({"path": "k/secret.yaml", "old": "kind: Secret\nstringData:", "new": "kind: Colour\ndata:"})),
        1 => calls("file_read", json!({"path": conf}))
            .with_call("file_read", json!({"path": "k/secret.yaml"}))
            .with_call("git_diff", json!({})),
        _ => says("Tidied up."),
    })
    .await;
    let result = app.ask(ALICE, "tidy up").await;
    app.run_command_in(ALICE, &result.thread, "!diff").await;
    app.wait_until_idle().await;
    let facts = result.text.clone();
    assert!(facts.contains("looks like a secret"), "{facts}");
    assert_nothing_shown(&app);
}

/// T56, T87: the value of prod's `Secret` is hidden in whatever a program of dev computes from it.
#[tokio::test]
async fn a_secret_is_hidden_whatever_a_program_makes_of_it() {
    let fails = "error (import '../vault/main.jsonnet').secret.stringData.opens\n";
    let app = app(move |asked: &ModelRequest| match step_number(asked) {
        0 => calls("tanka_show", json!({"env_path": "environments/leaking"})),
        1 => calls("tanka_show", json!({"env_path": "environments/leaking", "include": ["configmap/.*"]}))
            .with_call("tanka_show", json!({"env_path": "environments/vault", "exclude": ["secret/.*"]})),
        2 => calls(
            "file_edit",
            json!({"path": "environments/leaking/main.jsonnet", "old": "inside: 'user:' + p", "new": "inside: 'you:' + p"}),
        ),
        3 => calls("tanka_diff", json!({"env_path": "environments/leaking"})),
        4 => calls(
            "file_write",
            json!({"path": "environments/torn/main.jsonnet", "content": fails}),
        )
        .with_call("file_write", json!({"path": "environments/torn/spec.json", "content": SPEC})),
        5 => calls("tanka_show", json!({"env_path": "environments/torn"}))
            .with_call("tanka_diff", json!({"env_path": "environments/torn"}))
            .with_call("tanka_validate_jsonnet", json!({"file_path": "environments/torn/main.jsonnet"})),
        _ => says("There you are."),
    })
    .await;
    let result = app.ask(ALICE, "show me").await;
    for words in [
        "!render leaking",
        "!diff leaking",
        "!render torn",
        "!risk",
        "!diff",
    ] {
        app.run_command_in(ALICE, &result.thread, words).await;
    }
    app.wait_until_idle().await;
    let shown = app.model_requests()[1].last_results()[0].content.clone();
    assert!(
        shown.contains("6 objects") && shown.contains("inside: user:⟦secret:"),
        "{shown}"
    );
    let torn = app.model_requests()[6].last_results()[0].content.clone();
    assert!(torn.contains("⟦secret:"), "{torn}");
    assert_nothing_shown(&app);
}

/// T45: a file that is secret by its name cannot be read, not even through a link.
#[tokio::test]
async fn a_file_named_like_a_secret_is_never_read() {
    let reads = |path: &str| calls("file_read", json!({ "path": path }));
    let program = "{ a: { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'a' }, data: { x: importstr 'settings.txt' } } }\n";
    let app = app(move |asked: &ModelRequest| match step_number(asked) {
        0 => reads(".env")
            .with_call("file_read", json!({"path": "environments/dev/settings.txt"}))
            .with_call("file_read", json!({"path": "secrets/prod.key"}))
            .with_call(
                "file_search",
                json!({"glob_pattern": "**", "text_query": "DB_TOKEN"}),
            )
            .with_call(
                "file_search",
                json!({"glob_pattern": "secrets/**", "text_query": "M"}),
            )
            .with_call("file_write", json!({"path": ".env", "content": "X=1\n"}))
            .with_call("git_show", json!({})),
        1 => calls(
            "file_write",
            json!({"path": "environments/dev/main.jsonnet", "content": program}),
        ),
        2 => calls("tanka_show", json!({"env_path": "environments/dev"})),
        _ => says("No way in."),
    })
    .await;
    app.ask(ALICE, "look").await;
    app.wait_until_idle().await;
    let results = app.model_requests()[1].last_results().to_vec();
    for refused in [0, 1, 2, 5].map(|place| &results[place]) {
        assert!(
            refused.is_error && refused.content.contains("sandbox.secrets_denied"),
            "{}",
            refused.content
        );
    }
    for searched in [3, 4].map(|place| &results[place].content) {
        assert!(searched.starts_with("no matches"), "{searched}");
    }
    let shown = &results[6].content;
    assert!(
        shown.contains("file that holds secrets by its name .env: absent →"),
        "{shown}"
    );
    let import = app.model_requests()[3].last_results()[0].clone();
    assert!(
        import.is_error
            && import
                .content
                .contains("on the list of files no program may read"),
        "{}",
        import.content
    );
    assert_nothing_shown(&app);
}

/// Checks that ordinary text of a repository stays readable.
#[tokio::test]
async fn usual_configuration_is_shown_as_it_is() {
    let usual = include_str!("secrets/usual.yaml");
    let app = app(move |asked: &ModelRequest| -> ScriptedAnswer {
        match step_number(asked) {
            0 => calls(
                "file_write",
                json!({"path": "environments/dev/usual.yaml", "content": usual}),
            ),
            1 => calls("file_read", json!({"path": "environments/dev/usual.yaml"})),
            _ => says("As it is."),
        }
    })
    .await;
    let result = app.ask(ALICE, "write it").await;
    let read = app.model_requests()[2].last_results()[0].content.clone();
    assert_eq!(read, usual);
    assert!(!result.text.contains("looks like a secret"), "{}", result.text);
}

/// T87: the prompt of a hook is a file of the repository like any other.
#[tokio::test]
async fn the_prompt_of_a_hook_shows_no_secret() {
    let app = app(|_: &ModelRequest| says("Done.")).await;
    let prompt = format!("Prepare the release.\npassword: {PASSWORD}\n");
    commit(&app, &[("prompts/release.md", EntryKind::Blob, &prompt)]);
    let payload = json!({
        "action": "published",
        "release": {"tag_name": "v1.9.0", "body": format!("it is {PASSWORD}")},
        "repository": {"full_name": "acme/web"},
    });
    let body = payload.to_string();
    let signature = sign::github(HOOK_SECRET, body.as_bytes());
    let headers = [
        ("content-type", "application/json"),
        ("x-github-event", "release"),
        ("x-github-delivery", "72d3162e-cc78-11e3-81ab-4c9367dc0958"),
        ("x-hub-signature-256", &signature),
    ];
    assert_eq!(app.post("/in/release", &headers, body.as_bytes()).await.0, 200);
    app.wait_until_idle().await;
    let asked = app.model_requests();
    let words = asked[0].last_user_text();
    assert!(
        words.contains("Prepare the release.") && !words.contains(PASSWORD),
        "{words}"
    );
}
