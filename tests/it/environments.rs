//! Commands about environments, through the real gateway, with real evaluations and no model.

use crate::support::app::{TestApp, step_number};
use drydock::simulation::emulator::model::{ModelRequest, ScriptedAnswer, calls, says};
use serde_json::json;
use std::path::Path;
use std::time::{Duration, Instant};

const ALICE: &str = "U0ALICE";
const TOKEN: &str = "kept-to-ourselves-4711";
const SPEC: &str = "{ \"spec\": { \"namespace\": \"tiny\" } }\n";

/// Returns the answers of the model: a small environment with a `Secret`, a broken one, and four replicas in dev.
fn change(asked: &ModelRequest) -> ScriptedAnswer {
    let object = |kind: &str, rest: &str| {
        format!("{{ apiVersion: 'v1', kind: '{kind}', metadata: {{ name: 'vault' }}, {rest} }}")
    };
    let secret = object("Secret", &format!("stringData: {{ token: '{TOKEN}' }}"));
    let settings = object("ConfigMap", "data: { level: 'info' }");
    // The same `Secret` inside another object, and in the annotation that `kubectl apply` writes.
    let inner = format!("spec: {{ forProvider: {{ manifest: {secret} }} }}");
    let applied = "metadata+: { annotations: { 'kubectl.kubernetes.io/last-applied-configuration': ";
    let applied = format!("{settings} + {{ {applied} std.manifestJsonMinified({secret}) }} }} }}");
    let object = object("Object", &inner);
    let tiny = format!(
        "{{ secret: {secret}, settings: {settings}, object: {object}, applied: {applied} + {{ kind: 'Role' }} }}\n"
    );
    let write = |path: &str, content: &str| json!({"path": path, "content": content});
    let of = |count: u32| format!("web:1.8.3',\n    replicas: {count},");
    let edit = json!({"path": "environments/dev/main.jsonnet", "old": of(2), "new": of(4)});
    match step_number(asked) {
        0 => calls("file_edit", edit)
            .with_call("file_write", write("environments/tiny/main.jsonnet", &tiny))
            .with_call("file_write", write("environments/tiny/spec.json", SPEC))
            .with_call("file_write", write("environments/torn/main.jsonnet", "{ a: }\n")),
        _ => says("Done."),
    }
}

/// Adds a commit with one more file to the branch of the repository.
fn commit(repository: &Path, path: &str, text: &str) {
    let branch = repository.join("refs/heads/main");
    let parent: gix::ObjectId = std::fs::read_to_string(&branch).unwrap().trim().parse().unwrap();
    let opened = gix::open_opts(repository, gix::open::Options::isolated()).unwrap();
    let tree = opened.find_commit(parent).unwrap().tree_id().unwrap().detach();
    let mut editor = opened.edit_tree(tree).unwrap();
    let blob = opened.write_blob(text).unwrap().detach();
    editor
        .upsert(path, gix::objs::tree::EntryKind::Blob, blob)
        .unwrap();
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
        message: "one more\n".into(),
        extra_headers: Vec::new(),
    };
    let id = opened.write_object(&commit).unwrap().detach();
    std::fs::write(branch, format!("{id}\n")).unwrap();
}

#[tokio::test]
async fn environments_can_be_inspected_in_a_conversation_without_a_change() {
    let app = TestApp::new(change).await;
    app.admit_slack_editor(ALICE).await;
    app.admit_telegram_editor(4_201).await;
    let telegram = |words: &'static str| app.run_telegram_command(4_201, words);

    let listed = telegram("/envs").await;
    assert!(listed.starts_with("4 environments in infra."), "{listed}");
    assert!(
        listed.contains("environments/prod: namespace prod, API server https://prod.k8s.example.com"),
        "{listed}"
    );
    assert_eq!(app.run_slash_command(ALICE, "envs").await.trim_end(), listed);

    let importers = telegram("/who_imports lib/app.libsonnet").await;
    assert_eq!(
        importers,
        "3 entry points import lib/app.libsonnet, directly or not.\n\
         environments/dev/main.jsonnet\nenvironments/prod/main.jsonnet\nenvironments/staging/main.jsonnet"
    );
    let slack = app
        .run_slash_command(ALICE, "who-imports lib/app.libsonnet")
        .await;
    assert!(slack.contains("environments/staging/main.jsonnet"), "{slack}");
    let missing = telegram("/who_imports lib/ap.libsonnet").await;
    assert!(missing.contains("similar: lib/app.libsonnet"), "{missing}");

    let risk = telegram("/risk").await;
    assert_eq!(risk, "Nothing is prepared here, so there are no risks to show.");
    let same = telegram("/diff staging").await;
    assert_eq!(
        same,
        "Nothing is changed here: environments/staging equals the base."
    );
    for (words, says) in [
        (
            "/render",
            "Which environment? For instance render environments/dev; envs lists them.",
        ),
        ("/who_imports", "Which file or directory?"),
        (
            "/render stagin",
            "There is no environment stagin. The nearest: environments/staging.",
        ),
        (
            "/diff zzz",
            "There is no environment zzz. There are environments/dev, environments/monitoring, environments/prod",
        ),
        ("/render ../../etc/passwd", "There is no environment"),
        (
            "/render scratch/environments/own",
            "That path is not in the repository: what git ignores is not part of it.",
        ),
    ] {
        let answer = telegram(words).await;
        assert!(answer.contains(says), "{words}: {answer}");
    }
    // A file cannot be sent as an ephemeral message, and this person has no thread yet.
    let refused = app.run_slash_command(ALICE, "render dev").await;
    assert!(refused.contains("I cannot show a file to you alone"), "{refused}");
    assert!(app.demo.slack.with_state(|state| state.files.is_empty()));
    let help = telegram("/help").await;
    for usage in ["diff [ENV]", "render ENV", "who-imports PATH", "envs", "risk"] {
        assert!(help.contains(usage), "{usage}: {help}");
    }
    assert!(telegram("/rendr dev").await.contains("Did you mean render?"));
    assert_eq!(app.model_requests().len(), 0, "a command called the model");
}

#[tokio::test]
async fn a_prepared_change_is_inspected_environment_by_environment() {
    let app = TestApp::new(change).await;
    app.admit_slack_editor(ALICE).await;
    let thread = app.ask(ALICE, "do it all").await.thread;
    let asked = app.model_requests().len();
    let command = async |words: &str| app.run_command_in(ALICE, &thread, words).await;

    let listed = command("@drydock envs").await;
    assert!(listed.starts_with("5 environments in infra; "), "{listed}");
    assert!(listed.contains("1 entry point could not be loaded."), "{listed}");
    for line in [
        "environments/dev [changed]: namespace dev",
        "environments/prod: namespace prod",
        "environments/tiny [new]: namespace tiny",
        "environments/torn/main.jsonnet`: evaluating jsonnet",
    ] {
        assert!(listed.contains(line), "{line}: {listed}");
    }

    let difference = command("!diff dev").await;
    assert!(
        difference.contains("-  replicas: 2") && difference.contains("+  replicas: 4"),
        "{difference}"
    );
    assert!(!difference.contains("vault"), "{difference}");
    let untouched = command("!diff environments/prod").await;
    assert!(
        untouched.contains("Proven unaffected: 1 environment"),
        "{untouched}"
    );
    // Without an environment, the answer is as before.
    let whole = command("!diff").await;
    assert!(whole.contains("+    replicas: 4,"), "{whole}");

    for words in ["!render tiny", "!diff tiny"] {
        let shown = command(words).await;
        assert!(
            shown.contains("level: info") && shown.contains("token:"),
            "{words}: {shown}"
        );
        assert!(!shown.contains(TOKEN), "{words}: {shown}");
    }
    let torn = command("!render torn").await;
    assert!(torn.contains("environments/torn"), "{torn}");
    assert!(torn.contains("does not render:"), "{torn}");
    let risk = command("!risk").await;
    assert!(risk.contains("could not be rendered or compared"), "{risk}");
    assert!(risk.contains("environments/torn"), "{risk}");

    // A slash command refers to the newest conversation of its sender, so a file has a thread.
    let rendered = app.run_slash_command(ALICE, "render dev").await;
    assert!(
        rendered.starts_with("environments/dev: 13 objects.") && rendered.contains("environments-dev.yaml"),
        "{rendered}"
    );
    let file = app
        .wait_for_slack("a rendered environment", |state| {
            let mut files = state.files.iter();
            files.find(|file| file.name == "environments-dev.yaml").cloned()
        })
        .await;
    assert_eq!(file.thread_ts.as_deref(), Some(thread.as_str()));
    let yaml = String::from_utf8(file.content.to_vec()).unwrap();
    assert_eq!(yaml.matches("\n---\n").count(), 12);
    assert!(yaml.contains("  replicas: 4\n"), "{yaml}");
    assert_eq!(app.model_requests().len(), asked, "a command called the model");
}

#[tokio::test]
async fn a_risk_rule_that_fires_is_reported_with_its_location_and_no_risk_is_stated() {
    let app = TestApp::new(|asked: &ModelRequest| {
        let words = asked.last_user_text();
        let (from, to) = match words.contains("none") {
            true => ("replicas: 6", "replicas: 0"),
            false => (
                "  namespace: app",
                "  notes: { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'notes' } },\n  namespace: app",
            ),
        };
        let edit = json!({"path": "environments/prod/main.jsonnet", "old": from, "new": to});
        match step_number(asked) {
            0 => calls("file_edit", edit),
            _ => says("Done."),
        }
    })
    .await;
    app.admit_telegram_editor(4_201).await;
    app.ask_telegram(4_201, "a place for notes in prod").await;
    let quiet = app.run_telegram_command(4_201, "/risk").await;
    assert_eq!(quiet, "1 of 4 environments changes; no rule matched.");
    app.ask_telegram(4_201, "and none of them runs").await;
    let risk = app.run_telegram_command(4_201, "/risk").await;
    assert!(
        risk.starts_with("1 of 4 environments changes; ") && risk.contains(" matched, with "),
        "{risk}"
    );
    assert!(
        risk.contains("DD0") && risk.contains("web") && risk.contains("environments/prod"),
        "{risk}"
    );
    let file = app.run_telegram_command(4_201, "/render prod").await;
    assert!(file.contains("environments-prod.yaml"), "{file}");
    app.wait_for_telegram("a rendered environment", || {
        let messages = app.demo.telegram.messages(4_201);
        let mut documents = messages.into_iter().filter_map(|posted| posted.document);
        documents.find(|(name, _)| name == "environments-prod.yaml")
    })
    .await;
    assert_eq!(app.model_requests().len(), 4, "a command called the model");
}

#[tokio::test]
async fn without_a_grant_nothing_of_a_repository_is_shown() {
    let mut app = TestApp::new(change).await;
    app.admit_slack_editor(ALICE).await;
    app.admit_telegram_editor(4_201).await;
    let thread = app.ask(ALICE, "do it all").await.thread;
    let asked = app.model_requests().len();
    app.demo.stop().await;
    app.alter_database("UPDATE user_grant SET repositories = 'other'");
    app.demo.start().await.unwrap();
    for words in [
        "envs",
        "risk",
        "render dev",
        "diff dev",
        "who-imports lib/app.libsonnet",
    ] {
        let prepared = app.run_command_in(ALICE, &thread, &format!("!{words}")).await;
        assert_eq!(
            prepared, "You have no grant for infra any more; CHG-1 is kept.",
            "{words}"
        );
        let word = words.replace("who-imports", "who_imports");
        let nothing = app.run_telegram_command(4_201, &format!("/{word}")).await;
        assert_eq!(
            nothing, "You have no grant for a repository here; ask an administrator for one.",
            "{words}"
        );
    }
    assert_eq!(app.model_requests().len(), asked, "a command called the model");
}

#[tokio::test]
async fn with_several_repositories_the_command_names_one() {
    let mut app = TestApp::new(change).await;
    app.admit_telegram_editor(4_201).await;
    app.demo.stop().await;
    let mut config = app.demo.config().unwrap();
    let infra = config.repositories["infra"].clone();
    config.repositories.insert("apps".to_owned(), infra);
    app.start_with(config).await;
    let which = app.run_telegram_command(4_201, "/diff dev").await;
    assert_eq!(
        which,
        "Which repository? Name one of apps, infra first, as in diff apps: dev."
    );
    let listed = app.run_telegram_command(4_201, "/envs apps:").await;
    assert!(listed.starts_with("4 environments in apps."), "{listed}");
    let usage = app.run_telegram_command(4_201, "/render apps:").await;
    assert!(usage.starts_with("Which environment?"), "{usage}");
    let same = app.run_telegram_command(4_201, "/diff infra: dev").await;
    assert_eq!(same, "Nothing is changed here: environments/dev equals the base.");
}

/// T06
#[tokio::test]
async fn an_environment_query_ends_when_its_person_is_revoked() {
    let limits = [("sandbox.seconds_max", "100")];
    let app = TestApp::with_settings(change, &limits).await;
    app.admit_telegram_editor(4_201).await;
    commit(&app.demo.repository(), "environments/slow/main.jsonnet", ENDLESS);
    commit(&app.demo.repository(), "environments/slow/spec.json", SPEC);
    let telegram = &app.demo.telegram;
    telegram.say(4_201, 4_201, "/render environments/slow").await;
    wait_until_evaluating(&app, 4_201).await;
    let revoked = Instant::now();
    app.revoke("t4201").await;
    app.wait_for_telegram_message(4_201, "Access was revoked.").await;
    assert!(
        revoked.elapsed() < Duration::from_secs(30),
        "{:?}",
        revoked.elapsed()
    );
}

const ENDLESS: &str = "{ a: std.foldl(function(a, i) a + i, std.range(0, 1e9), 0) }\n";

/// Waits until an environment query runs.
async fn wait_until_evaluating(app: &TestApp, user: i64) {
    let started = Instant::now();
    loop {
        let status = app.run_telegram_command(user, "/status").await;
        if status.contains("a query about environments; stop ends it") {
            return;
        }
        assert!(started.elapsed() < Duration::from_secs(30), "{status}");
    }
}

#[tokio::test]
async fn a_long_render_stalls_nobody_and_ends_by_stop_and_outlives_a_restart() {
    let limits = [("sandbox.seconds_max", "100")];
    let mut app = TestApp::with_settings(change, &limits).await;
    app.admit_telegram_editor(4_201).await;
    app.admit_telegram_editor(4_202).await;
    commit(&app.demo.repository(), "environments/slow/main.jsonnet", ENDLESS);
    commit(&app.demo.repository(), "environments/slow/spec.json", SPEC);
    let say = async |app: &TestApp, words: &str| app.demo.telegram.say(4_201, 4_201, words).await;

    say(&app, "/render environments/slow").await;
    wait_until_evaluating(&app, 4_201).await;
    let other = app
        .run_telegram_command(4_202, "/who_imports lib/app.libsonnet")
        .await;
    assert!(other.contains("environments/dev/main.jsonnet"), "{other}");
    // One person may have four at once.
    for _ in 0..4 {
        say(&app, "/render environments/slow").await;
    }
    app.wait_for_telegram_message(4_201, "Too many queries about environments")
        .await;
    app.restart().await;
    wait_until_evaluating(&app, 4_201).await;
    let stopped = Instant::now();
    say(&app, "/stop").await;
    app.wait_for_telegram_message(4_201, "Stopped.").await;
    assert!(
        stopped.elapsed() < Duration::from_secs(30),
        "{:?}",
        stopped.elapsed()
    );
    assert_eq!(app.model_requests().len(), 0, "a command called the model");
}
