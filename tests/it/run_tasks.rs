//! Task steps of pipelines: the values, the result and the end of a program, what it cannot do, and what a restart, a
//! cancellation and a bound do to it.

use crate::runs::{ALICE, DIRECT, ended_runs, posts, say};
use crate::secrets::commit;
use crate::support::app::{BOUND, TestApp, visible_text};
use crate::support::hostile::compiled;
use crate::support::shell::Shell;
use drydock::simulation::demo::environment::SLACK_CHANNEL;
use drydock::simulation::emulator::model::queue;
use drydock::state::access::Role;
use gix::objs::tree::EntryKind;
use serde_json::json;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Returns the path of the program of the tests.
fn probe() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| compiled("task_probe"))
}

/// Starts a server that permits a program by the name `probe`, with these pipelines and a person who may read.
async fn server(program: &Path, pipelines: &str) -> TestApp {
    let settings = [
        ("pipelines.programs.probe", program.to_str().unwrap()),
        ("pipelines.reply_targets", "[\"channel:slack:C0PLATFORM\"]"),
    ];
    let app = TestApp::with_settings(queue([]), &settings).await;
    app.admit_slack_user(ALICE, Role::Viewer, &[]).await;
    let files = [
        (".drydock/pipelines.yaml", EntryKind::Blob, pipelines),
        ("note.txt", EntryKind::Blob, "a note"),
        (".env", EntryKind::Blob, "TOKEN=x"),
    ];
    commit(&app, &files);
    app
}

/// Returns a pipeline `p` whose only step runs the program with these words of YAML.
fn one_task(words: &str) -> String {
    format!(
        "pipelines:\n  p:\n    triggers: [{{chat: {{}}}}]\n    steps: [{{name: task, task: {{command: [probe, {words}]}}}}]\n"
    )
}

/// Returns the outputs of the steps, in order.
fn outputs(app: &TestApp) -> Vec<String> {
    app.column("SELECT json_extract(result, '$.output') FROM run_step ORDER BY run, step")
}

/// Returns the reasons of the steps that failed.
fn reasons(app: &TestApp) -> Vec<String> {
    app.column(
        "SELECT json_extract(result, '$.why') FROM run_step WHERE status = 'failed' ORDER BY run, step",
    )
}

/// Returns the directories in which programs run.
fn directories(app: &TestApp) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(app.demo.data().join("scratch"))
        .into_iter()
        .flatten();
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// Waits until a condition of the directories holds.
async fn wait_for_directories(app: &TestApp, what: &str, holds: impl Fn(&[PathBuf]) -> bool) {
    let started = Instant::now();
    while !holds(&directories(app)) {
        assert!(started.elapsed() < BOUND, "{what}: {:?}", directories(app));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn wait_until_started(app: &TestApp) {
    wait_for_directories(app, "no program has started", |directories| {
        directories
            .iter()
            .any(|directory| directory.join("home/started").exists())
    })
    .await;
}

const REPORT: &str = r#"
pipelines:
  p:
    triggers: [{chat: {}}]
    params: {title: {type: text}, number: {type: integer, default: 7}}
    steps:
      - name: first
        task: {command: [probe, print]}
      - name: report
        task:
          command: [probe, report, "${params.title}", as is, "${params.number}"]
          inputs: {before: "${steps.first.output}"}
          env: {TITLE: "${params.title}", HOME_OF: nobody}
      - name: tell
        reply: {to: "channel:slack:C0PLATFORM", text: "${steps.first.output}"}
"#;

#[tokio::test]
async fn a_task_gets_each_value_as_one_argument_and_its_result_goes_to_later_steps() {
    let app = server(probe(), REPORT).await;
    say(&app, ALICE, "!run p title=\"a b; touch x --force\"").await;
    assert_eq!(ended_runs(&app, 1).await, ["succeeded"]);
    let outputs = outputs(&app);
    assert_eq!(outputs[0], "only printed\n");
    let mut lines: Vec<&str> = outputs[1].lines().collect();
    let input = lines.remove(1).strip_prefix("input: ").unwrap();
    let input: serde_json::Value = serde_json::from_str(input).unwrap();
    let values = json!({
        "params": { "number": 7, "title": "a b; touch x --force" },
        "trigger": {},
        "inputs": { "before": "only printed\n" },
    });
    assert_eq!(input, values);
    let expected = [
        r#"arguments: ["report", "a b; touch x --force", "as is", "7"]"#,
        "environment: DRYDOCK_IN DRYDOCK_OUT GOMEMLIMIT HOME HOME_OF TITLE TMPDIR",
        "title: a b; touch x --force",
        "file: a note",
        "secret: No such file or directory (os error 2)",
        "place: $HOME",
    ];
    assert_eq!(lines, expected);
    assert_eq!(posts(&app, SLACK_CHANNEL, "").len(), 1);
    assert!(app.model_requests().is_empty());
    assert_eq!(directories(&app), Vec::<PathBuf>::new());
    // The message of the run shows the output of its last task.
    let shown = posts(&app, DIRECT, "Run 1 of p on infra: succeeded");
    assert!(shown.len() == 1 && shown[0].contains("file: a note"), "{shown:?}");
}

/// T50
#[tokio::test]
async fn a_task_reads_nothing_of_the_machine_reaches_no_network_and_changes_no_file() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let app = server(probe(), "pipelines: {}\n").await;
    let database = app.demo.data().join("drydock.db");
    assert!(database.exists());
    let words = format!("look, '{}', '{port}'", database.display());
    let pipelines = one_task(&words);
    commit(&app, &[(".drydock/pipelines.yaml", EntryKind::Blob, &pipelines)]);
    say(&app, ALICE, "!run p").await;
    assert_eq!(ended_runs(&app, 1).await, ["succeeded"]);
    let output = outputs(&app).remove(0);
    let worked: Vec<&str> = output.lines().filter(|line| line.ends_with(": worked")).collect();
    assert_eq!(worked, ["thread: worked", "home: worked"], "{output}");
    assert_eq!(output.lines().count(), 10, "{output}");
    assert!(listener.accept().is_err(), "a connection was made");
}

#[tokio::test]
async fn a_program_that_fails_or_exceeds_a_bound_fails_its_step_with_the_reason() {
    let pipelines = r#"
pipelines:
  fails:
    triggers: [{chat: {}}]
    steps:
      - {name: task, task: {command: [probe, fail]}}
      - {name: after, on: failure, task: {command: [probe, print], inputs: {seen: "${steps.task.output}"}}}
  late:
    triggers: [{chat: {}}]
    steps: [{name: task, task: {command: [probe, wait], timeout: 1s}}]
  flood:
    triggers: [{chat: {}}]
    steps: [{name: task, task: {command: [probe, flood]}}]
  files:
    triggers: [{chat: {}}]
    steps: [{name: task, task: {command: [probe, files]}}]
  noise:
    triggers: [{chat: {}}]
    steps: [{name: task, task: {command: [probe, noise]}}]
  threads:
    triggers: [{chat: {}}]
    steps: [{name: task, task: {command: [probe, threads]}}]
  imitate:
    triggers: [{chat: {}}]
    steps: [{name: task, task: {command: [probe, imitate]}}]
"#;
    let app = server(probe(), pipelines).await;
    let names = ["fails", "late", "flood", "files", "noise", "threads", "imitate"];
    for (number, name) in names.iter().enumerate() {
        say(&app, ALICE, &format!("!run {name}")).await;
        ended_runs(&app, number + 1).await;
    }
    let statuses = app.column("SELECT status FROM run ORDER BY id");
    assert_eq!(
        statuses.join(" "),
        "failed failed failed failed succeeded failed failed"
    );
    let expected = [
        "probe ended with the exit code 3: first line\nit is wrong",
        "it took more than 1 s",
        "it wrote more than 4 MiB",
        "it wrote more than 10000 files or 256 MiB to its directory",
        "it started more than 1024 threads",
    ];
    let mut reasons = reasons(&app);
    let imitated = reasons.pop().unwrap();
    assert_eq!(reasons, expected);
    // The words of a program stay short and plain, also where they look like those of the sandbox.
    let is_plain = imitated.starts_with("the sandbox did not start: no xxx");
    assert!(is_plain && imitated.chars().count() <= 1_000, "{imitated}");
    let outputs = outputs(&app);
    assert_eq!(&outputs[..2], ["half of the output\n", "only printed\n"]);
    assert_eq!(outputs[5], "done\n");
    assert_eq!(directories(&app), Vec::<PathBuf>::new());
}

#[tokio::test]
async fn a_task_that_a_restart_interrupts_is_run_again_and_its_step_ends_once() {
    let place = tempfile::tempdir().unwrap();
    let program = place.path().join("probe");
    std::fs::copy(probe(), &program).unwrap();
    let mut app = server(&program, &one_task("wait")).await;
    say(&app, ALICE, "!run p").await;
    wait_until_started(&app).await;
    app.demo.stop().await;
    assert_eq!(app.column("SELECT status FROM run_step"), ["running"]);
    assert_eq!(directories(&app), Vec::<PathBuf>::new());
    // The program goes on the next time.
    let mut bytes = std::fs::read(probe()).unwrap();
    bytes.extend(b"go");
    let next = place.path().join("next");
    std::fs::copy(probe(), &next).unwrap();
    std::fs::write(&next, bytes).unwrap();
    std::fs::rename(next, &program).unwrap();
    app.demo.start().await.unwrap();
    assert_eq!(ended_runs(&app, 1).await, ["succeeded"]);
    assert_eq!(outputs(&app), ["waited: no\n"]);
    assert_eq!(posts(&app, DIRECT, "Run 1 of p").len(), 1);
}

/// T06
#[tokio::test]
async fn a_cancelled_run_ends_its_program_and_so_does_the_end_of_access() {
    let app = server(probe(), &one_task("wait")).await;
    say(&app, ALICE, "!run p").await;
    wait_until_started(&app).await;
    say(&app, ALICE, "!runs cancel 1").await;
    assert_eq!(ended_runs(&app, 1).await, ["cancelled"]);
    wait_for_directories(&app, "the program still runs", <[PathBuf]>::is_empty).await;
    say(&app, ALICE, "!run p").await;
    wait_until_started(&app).await;
    app.revoke(ALICE).await;
    assert_eq!(ended_runs(&app, 2).await, ["cancelled", "cancelled"]);
    wait_for_directories(&app, "the program still runs", <[PathBuf]>::is_empty).await;
    assert_eq!(
        app.column("SELECT status FROM run_step"),
        ["cancelled", "cancelled"]
    );
}

/// I5
#[tokio::test]
async fn a_program_that_the_operator_does_not_list_is_refused_before_anything_begins() {
    let pipelines = one_task("print").replace("[probe,", "[/bin/sh, -c,");
    let app = server(probe(), &pipelines).await;
    say(&app, ALICE, "!run p").await;
    let refused = app.wait_for_slack_message(DIRECT, "was not started").await;
    let text = visible_text(&refused);
    assert!(
        text.contains("the program /bin/sh is not permitted here"),
        "{text}"
    );
    app.wait_until_idle().await;
    assert_eq!(app.count("SELECT count(*) FROM run"), 0);
}

const LOCAL: &str = r#"
pipelines:
  lint:
    triggers: [{command_line: {}}]
    params: {title: {type: text}}
    steps:
      - {name: report, task: {command: [probe, report, "${params.title}"]}}
      - {name: look, task: {command: [probe, look, .git/HEAD, "1"]}}
"#;

#[test]
fn a_task_at_a_terminal_sees_copies_of_the_files_and_leaves_them_as_they_are() {
    let files = [("note.txt", "a note"), (".drydock/pipelines.yaml", LOCAL)];
    let shell = Shell::with_repository(&files);
    // The files are those of the directory, committed or not.
    shell.put("note.txt", "an edited note");
    let program = format!("pipelines.programs.probe={}", probe().display());
    let words = ["run", "--set", &program, "lint", "--param", "title=a b; touch x"];
    let ended = shell.run(&[&words[..], &["--json"]].concat());
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let report = ended.json();
    let text = |step: usize| report["steps"][step]["text"].as_str().unwrap().to_owned();
    assert!(
        text(0).contains(r#"arguments: ["report", "a b; touch x"]"#),
        "{report}"
    );
    assert!(text(0).contains("file: an edited note\n"), "{report}");
    let look = text(1);
    let worked: Vec<&str> = look.lines().filter(|line| line.ends_with(": worked")).collect();
    assert_eq!(worked, ["thread: worked", "home: worked"], "{report}");
    assert_eq!(shell.get("note.txt"), "an edited note");
    assert!(!shell.work().join("new.txt").exists());
    assert_eq!(shell.leftover_files(), Vec::<String>::new());
    let shown = shell.run(&words);
    assert!(shown.out.contains("file: an edited note"), "{shown:?}");

    let without = shell.run(&["run", "lint", "--param", "title=x"]);
    assert_eq!(without.code, Some(78), "{without:?}");
    assert!(
        without.err.contains(
            "the program probe is not permitted here; add it to [pipelines.programs] of your own configuration"
        ),
        "{without:?}"
    );
}
