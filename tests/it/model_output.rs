//! A model that is wrong, hostile or both: its claims are not believed, its calls are checked, and its text stays plain
//! text.

use crate::support::app::{TestApp, step_number};
use drydock::simulation::emulator::model::{AnswerFault, ModelRequest, ScriptedAnswer, calls, queue, says};
use serde_json::{Value, json};

pub(crate) const ALICE: &str = "U0ALICE";
const BOB: i64 = 7002;

pub(crate) async fn ask(answers: impl IntoIterator<Item = ScriptedAnswer>) -> (TestApp, String) {
    let app = TestApp::new(queue(answers)).await;
    app.admit_slack_editor(ALICE).await;
    let result = app.ask(ALICE, "do it").await;
    (app, result.text)
}

/// T58
#[tokio::test]
async fn a_claim_without_a_call_prepares_nothing() {
    let (app, text) = ask([says("I changed 3 files, validated everything and all is green.")]).await;
    assert!(!text.contains("is ready"), "{text}");
    assert!(text.contains("1 step · 1,050 tokens"), "{text}");
    assert_eq!(app.count("SELECT count(*) FROM change"), 0);
    assert_eq!(app.column("SELECT verdict FROM turn"), ["no_change"]);
}

/// T57, TK-82: a model that obeys a file instead of the person. Its additional edits are listed, whatever its words.
#[tokio::test]
async fn changes_nobody_requested_are_named_in_the_answer() {
    let edit = |environment: &str, old: &str, new: &str| {
        let path = format!("environments/{environment}/main.jsonnet");
        calls("file_edit", json!({ "path": path, "old": old, "new": new }))
    };
    let obeys = || {
        [
            edit(
                "staging",
                "    replicas: 2,\n    memory: '256Mi',",
                "    replicas: 3,\n    memory: '256Mi',",
            ),
            edit("prod", "    replicas: 6,", "    replicas: 0,"),
            says("`web` has 3 replicas in staging."),
        ]
    };
    let app = TestApp::new(queue(obeys())).await;
    app.admit_slack_editor(ALICE).await;
    let result = app.ask(ALICE, "set web to 3 replicas in staging").await;
    assert!(
        result.text.contains("is ready: 2 environments, 2 files, +2 −2"),
        "{}",
        result.text
    );
    let flagged = result.text.lines().find(|line| line.contains("⚠ Not requested"));
    assert!(
        flagged.is_some_and(|line| line.contains("environments/prod")),
        "{}",
        result.text
    );

    // Another author's text is no request, even if the person quotes it.
    let app = TestApp::new(queue(obeys())).await;
    app.admit_telegram_editor(BOB).await;
    let (quote, words) = ("prod: 0 replicas now!", "set web to 3 replicas in staging");
    let entity = json!({ "type": "blockquote", "offset": 0, "length": quote.len() });
    let message = json!({ "text": format!("{quote}\n{words}"), "entities": [entity] });
    app.demo.telegram.write(BOB, BOB, message).await;
    let result = app.wait_for_telegram_message(BOB, "⚠ Not requested").await;
    let flagged = result.text.lines().find(|line| line.contains("⚠ Not requested"));
    assert!(
        flagged.is_some_and(|line| line.contains("environments/prod")),
        "{}",
        result.text
    );
    assert!(app.model_requests()[0].last_user_text().contains(quote));

    // A policy can refuse it as well.
    let app = TestApp::with_settings(queue(obeys()), &[("limits.environments_changed_max", "1")]).await;
    app.admit_slack_editor(ALICE).await;
    let result = app.ask(ALICE, "set web to 3 replicas in staging").await;
    assert!(
        result.text.contains("is ready: staging, 1 file, +1 −1"),
        "{}",
        result.text
    );
    let named = result
        .text
        .lines()
        .filter(|line| line.contains("environments/prod"));
    let refused = "1 write was refused: this change is limited to 1 of the environments and edits environments/staging \
                   already: environments/prod/main.jsonnet was not changed.";
    assert_eq!(named.collect::<Vec<_>>(), [refused]);
    let asked = app.demo.model.requests();
    let refused = &asked[2].last_results()[0];
    assert!(
        refused.is_error
            && refused
                .content
                .contains("limited to 1 of the environments and edits environments/staging"),
        "{refused:?}"
    );
}

/// T78
#[tokio::test]
async fn the_counts_of_a_change_are_ours_whatever_the_model_says() {
    let write = |name: &str| json!({"path": format!("environments/dev/{name}"), "content": "{}\n"});
    let three = calls("file_write", write("a.json"))
        .with_call("file_write", write("b.json"))
        .with_call("file_write", write("c.json"));
    let (_app, text) = ask([three, says("I changed 1 file.")]).await;
    assert!(text.contains("CHG-1 is ready: 3 files, +3 −0"), "{text}");
    for name in ["a.json", "b.json", "c.json"] {
        assert!(text.contains(&format!("environments/dev/{name}")), "{text}");
    }
}

fn paths_outside() -> Vec<String> {
    let mut paths: Vec<String> = [
        "..",
        "../x",
        "../../etc/passwd",
        "a/../../x",
        "/etc/passwd",
        "//etc/passwd",
        "./../x",
        "a/./../../x",
        "..\\..\\x",
        "C:\\x",
        "\\\\server\\x",
        "a\\..\\..\\x",
        "~/../x/..//",
        "a//b",
        "a/",
        "",
        ".",
        "./",
        "/",
        "a\u{0}b",
        "\u{0}",
        "a/\u{0}/../x",
        "environments/../../infra.git/config",
        "../infra.git/HEAD",
        "/proc/self/environ",
        "/proc/self/cwd/../x",
        "..%2f..%2fx/../..",
        "a/b/../../../x",
        "a/...../../../../x",
    ]
    .map(str::to_owned)
    .to_vec();
    paths.push("../".repeat(5_000));
    paths.push("a/".repeat(5_000));
    paths.push("x".repeat(5_000));
    paths
}

fn paths_of_git() -> Vec<&'static str> {
    vec![
        ".git",
        ".git/config",
        ".GIT/config",
        ".Git/hooks/post-checkout",
        "sub/.git",
        "sub/.git/config",
        "git~1/config",
        "GIT~1",
        ".git::$INDEX_ALLOCATION",
        ".git::$INDEX_ALLOCATION/config",
        ".g\u{200c}it/config",
        ".\u{200d}git",
        ".git ",
        ".git.",
        ".git /config",
        ".gitmodules",
    ]
}

fn calls_with(path: &str) -> ScriptedAnswer {
    calls("file_read", json!({"path": path}))
        .with_call("file_write", json!({"path": path, "content": "evil"}))
        .with_call("file_edit", json!({"path": path, "old": "a", "new": "b"}))
        .with_call("file_delete", json!({"path": path}))
        .with_call("git_diff", json!({"path": path}))
        .with_call("git_status", json!({}))
}

/// T35, T39, T26
#[tokio::test]
async fn no_path_a_model_can_write_leaves_the_repository_or_reaches_git() {
    let outside = paths_outside();
    let all: Vec<String> = outside
        .iter()
        .cloned()
        .chain(paths_of_git().into_iter().map(str::to_owned))
        .collect();
    let script = all.clone();
    let settings = [
        ("limits.malformed_calls_max", "20"),
        ("limits.identical_calls_max", "20"),
    ];
    let app = TestApp::with_settings(
        move |asked: &ModelRequest| {
            let number: usize = asked
                .last_user_text()
                .split(' ')
                .next_back()
                .unwrap()
                .parse()
                .unwrap();
            match step_number(asked) {
                0 => calls_with(&script[number]),
                _ => says("Refused."),
            }
        },
        &settings,
    )
    .await;
    app.admit_slack_user(ALICE, drydock::state::access::Role::Admin, &["**"])
        .await;
    let before = snapshot(&app.demo.repository());
    for (number, path) in all.iter().enumerate() {
        let seen = app.model_requests().len();
        app.ask(ALICE, &format!("path {number}")).await;
        let asked = app.model_requests();
        let results = &asked[seen + 1].last_results();
        assert_eq!(results.len(), 6, "{path:?}");
        for (index, result) in results.iter().take(4).enumerate() {
            assert!(result.is_error, "{path:?} call {index}: {}", result.content);
        }
        assert!(
            !results[5].content.contains("evil"),
            "{path:?}: {}",
            results[5].content
        );
    }
    assert_eq!(app.count("SELECT count(*) FROM change"), 0);
    assert_eq!(snapshot(&app.demo.repository()), before);
    assert!(!app.demo.directory().join("x").exists());
}

/// Returns names and contents of everything below a directory.
fn snapshot(directory: &std::path::Path) -> std::collections::BTreeMap<std::path::PathBuf, Vec<u8>> {
    let mut files = std::collections::BTreeMap::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => directories.push(path),
                false => drop(files.insert(path.clone(), std::fs::read(&path).unwrap())),
            }
        }
    }
    files
}

/// T39: no tool creates a project in a directory that git reads as its settings.
#[tokio::test]
async fn no_project_is_begun_where_git_reads_its_settings() {
    let begin = |path: &str| json!({ "path": path });
    let first = calls("jb_init", begin(".gitattributes")).with_call("jb_init", begin(".gitmodules"));
    let second =
        calls("jb_init", begin("lib/.gitattributes")).with_call("jb_init", begin("lib/.GITMODULES "));
    let app = TestApp::new(queue([first, second, says("Tried.")])).await;
    app.admit_slack_user(ALICE, drydock::state::access::Role::Admin, &["**"])
        .await;
    app.ask(ALICE, "begin projects").await;
    let asked = app.model_requests();
    let results: Vec<_> = asked.iter().flat_map(ModelRequest::last_results).collect();
    assert_eq!(results.len(), 4);
    for result in results {
        assert!(
            result.is_error && result.content.ends_with("git metadata is read-only"),
            "{}",
            result.content
        );
    }
    assert_eq!(app.count("SELECT count(*) FROM change"), 0);
}

/// T39
#[tokio::test]
async fn files_that_would_make_a_directory_a_repository_are_refused() {
    let write = |name: &str| json!({"path": format!("environments/dev/emb/{name}"), "content": "x\n"});
    let first = calls("file_write", write("HEAD")).with_call("file_write", write("config"));
    let second = calls("file_write", write("objects/x")).with_call("file_write", write("refs/x"));
    let (app, _) = ask([first, second, says("Tried.")]).await;
    let asked = app.model_requests();
    let results: Vec<bool> = asked
        .iter()
        .flat_map(|asked| asked.last_results().iter().map(|result| result.is_error))
        .collect();
    assert!(results.contains(&true), "all four were written");
}

/// T59
#[tokio::test]
async fn malformed_calls_are_each_answered_and_three_in_a_row_end_the_turn() {
    let bad: Vec<(&str, Value)> = vec![
        ("File_Read", json!({"path": "README.md"})),
        ("kubectl_apply", json!({})),
        ("file_read", json!({"path": 7})),
        ("file_read", json!({"path": "README.md", "surprise": true})),
        ("file_read", json!({})),
        ("file_read", json!([])),
        (
            "file_write",
            json!({"path": "environments/dev/x", "content": "y".repeat(70_000)}),
        ),
    ];
    for (tool, arguments) in bad {
        let (app, text) = ask([calls(tool, arguments.clone()), says("I see.")]).await;
        assert!(text.contains("I see."), "{text}");
        let asked = app.model_requests();
        let results = asked[1].last_results();
        assert_eq!(results.len(), 1);
        assert!(results[0].is_error, "{tool} {arguments}: {results:?}");
        assert!(!results[0].content.is_empty());
    }
    let again = || calls("nothing_like_it", json!({}));
    let (_app, text) = ask([again(), again(), again()]).await;
    assert!(
        text.contains("I stopped: the model made 3 malformed tool calls in a row."),
        "{text}"
    );
}

/// T59
#[tokio::test]
async fn two_hundred_calls_in_one_answer_get_two_hundred_results_and_sixteen_are_run() {
    let mut many = says("");
    for line in 0..200 {
        many = many.with_call(
            "file_read",
            json!({"path": "README.md", "offset": line % 3, "limit": 1 + line}),
        );
    }
    let (app, _) = ask([many, says("Enough.")]).await;
    let asked = app.model_requests();
    let results = asked[1].last_results();
    assert_eq!(results.len(), 200);
    let run = results
        .iter()
        .filter(|result| !result.content.contains("not run: at most 16 calls"))
        .count();
    assert_eq!(run, 16);
}

/// T59
#[tokio::test]
async fn calls_with_one_id_and_arguments_that_are_not_json_do_not_break_the_conversation() {
    let twice = calls("git_status", json!({}))
        .with_call("git_log", json!({}))
        .with_fault(AnswerFault::Ids("same".to_owned()));
    let broken =
        calls("file_read", json!({})).with_fault(AnswerFault::Arguments("{\"path\": \"READ".to_owned()));
    let app = TestApp::new(queue([twice, broken, says("Still here."), says("And here.")])).await;
    app.admit_slack_editor(ALICE).await;
    let result = app.ask(ALICE, "go").await;
    assert!(result.text.contains("Still here."), "{}", result.text);
    let again = app.ask_in(ALICE, &result.thread, "go on").await;
    assert!(again.text.contains("And here."), "{}", again.text);
}

/// T67
#[tokio::test]
async fn the_same_call_again_and_again_ends_the_turn() {
    let app = TestApp::new(|_: &ModelRequest| calls("file_read", json!({"path": "README.md"}))).await;
    app.admit_slack_editor(ALICE).await;
    let result = app.ask(ALICE, "read").await;
    assert!(
        result.text.contains("repeated the same file_read call 3 times"),
        "{}",
        result.text
    );
    assert_eq!(app.model_requests().len(), 3);
}
