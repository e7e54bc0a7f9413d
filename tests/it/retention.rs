//! Tests of retention: data beyond its age limit is removed, automatically and on an operator's request. Data in use is
//! kept.

use crate::cli_serve::{TOML, serve, shell};
use crate::support::app::{TestApp, step_number};
use crate::support::shell::{BOUND, Shell};
use crate::support::world::{advance, world};
use drydock::engine::admin::{AdminReply, AdminRequest};
use drydock::engine::gateway::RoundStart;
use drydock::simulation::emulator::model::{ModelRequest, ScriptedAnswer as Said, calls, says};
use drydock::state::store::Prune;
use rusqlite::Connection;
use serde_json::json;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

const ALICE: &str = "U0ALICE";
const CLOCK: usize = 6;
const DAY: i64 = 24 * 3_600;

/// Returns the model's answer: it sets the replicas of dev to four, and then to three, and only answers other requests.
fn replicas(asked: &ModelRequest) -> Said {
    let words = asked.last_user_text();
    let edit = |from: u32, to: u32| {
        let of = |count: u32| format!("web:1.8.3',\n    replicas: {count},");
        json!({ "path": "environments/dev/main.jsonnet", "old": of(from), "new": of(to) })
    };
    match step_number(asked) {
        0 if words.contains("four replicas") => calls("file_edit", edit(2, 4)),
        0 if words.contains("three replicas") => calls("file_edit", edit(4, 3)),
        _ => says("Done."),
    }
}

/// Runs a complete round, as an operator requests it.
pub(crate) async fn prune(app: &TestApp, prune: Prune) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    let mut begin = RoundStart::Anew;
    loop {
        match app.send_admin_request(AdminRequest::Prune { prune, begin }).await {
            AdminReply::Pruned {
                pruned,
                failed,
                is_done,
            } => {
                assert_eq!(failed, Vec::<String>::new());
                for kind in pruned {
                    *all.entry(kind.kind).or_default() += kind.rows;
                }
                if is_done {
                    return all;
                }
                begin = RoundStart::GoOn;
            }
            other => panic!("{other:?}"),
        }
    }
}

/// R29
#[tokio::test]
async fn a_thread_goes_on_with_its_change_when_what_was_said_there_is_gone() {
    let settings = [
        ("retention.message_days_kept", "30"),
        ("retention.recording_days_kept", "30"),
        ("retention.change_days_kept", "60"),
    ];
    let app = TestApp::with_host(replicas, world::<CLOCK>(), &settings).await;
    app.admit_slack_editor(ALICE).await;
    let first = app.ask(ALICE, "four replicas in dev").await;
    assert!(first.text.contains("CHG-1 is ready"), "{}", first.text);
    advance::<CLOCK>(20 * DAY);
    app.ask(ALICE, "how are you?").await;
    app.wait_until_idle().await;
    advance::<CLOCK>(20 * DAY);

    let rows =
        "SELECT (SELECT count(*) FROM inbox) + (SELECT count(*) FROM turn) + (SELECT count(*) FROM delivery)";
    let before = app.count(rows);
    let dry = prune(&app, Prune::DryRun).await;
    assert_eq!((dry["messages"], app.count(rows)), (1, before), "{dry:?}");
    let gone = prune(&app, Prune::Remove).await;
    assert_eq!((gone["messages"], gone["recordings"]), (1, 1), "{gone:?}");
    assert!(gone["deliveries"] >= 3 && gone["operations"] >= 2, "{gone:?}");
    assert_eq!(app.column("SELECT user_text FROM turn").len(), 1);
    assert_eq!(prune(&app, Prune::Remove).await, BTreeMap::new());

    // The change is still open, and the next request continues with its files.
    let diff = app.run_command_in(ALICE, &first.thread, "!diff").await;
    assert!(diff.contains("+    replicas: 4,"), "{diff}");
    let second = app.ask_in(ALICE, &first.thread, "three replicas in dev").await;
    assert!(second.text.contains("CHG-1 rev 2 is ready"), "{}", second.text);
    let undone = app.run_command_in(ALICE, &first.thread, "!undo").await;
    assert!(undone.starts_with("Undone. CHG-1 rev 3"), "{undone}");

    // The thread has no activity for long enough, while another person works elsewhere.
    app.wait_until_idle().await;
    advance::<CLOCK>(70 * DAY);
    let last = app.ask(ALICE, "four replicas in dev").await;
    assert!(last.text.contains("CHG-2 is ready"), "{}", last.text);
    app.wait_until_idle().await;
    let gone = prune(&app, Prune::Remove).await;
    assert_eq!(
        (gone["edits"], gone["changes"], gone["conversations"]),
        (1, 3, 2),
        "{gone:?}"
    );
    assert_eq!(app.recordings().len(), 1);
    assert_eq!(app.audit_lines_with("change.expired").len(), 1);
    let diff = app.run_command_in(ALICE, &last.thread, "!diff").await;
    assert!(diff.contains("+    replicas: 4,"), "{diff}");
    let audit = app.send_admin_request(AdminRequest::Audit).await;
    assert!(matches!(audit, AdminReply::Audit { cut: 0, .. }), "{audit:?}");
    let AdminReply::Data { kinds, .. } = app.send_admin_request(AdminRequest::Data).await else {
        panic!("no data")
    };
    let changes = kinds.iter().find(|kind| kind.kind == "changes").unwrap();
    assert_eq!(changes.rows, 1);
}

fn deliveries(shell: &Shell) -> i64 {
    let database = Connection::open(shell.work().join("data/drydock.db")).unwrap();
    database
        .query_row("SELECT count(*) FROM delivery", [], |row| row.get(0))
        .unwrap()
}

/// Returns a server that has stopped, with old incoming messages.
fn aged() -> Shell {
    let shell = shell(TOML);
    let (running, _) = serve(&shell);
    running.terminate();
    assert_eq!(running.end().code, Some(0));
    let database = Connection::open(shell.work().join("data/drydock.db")).unwrap();
    for number in 0..1_000 {
        database
            .execute(
                "INSERT INTO delivery (name, at) VALUES (?1, 0)",
                [format!("n{number}")],
            )
            .unwrap();
    }
    let line = json!({ "at": "2020-01-01T00:00:00Z", "turn": 1, "event": "began", "user": "x" });
    shell.put(
        &format!("data/sessions/{}.jsonl", "a".repeat(32)),
        &format!("{line}\n"),
    );
    shell.put("data/mirrors/taken-out.git/config", "[core]\n");
    shell.put("data/bases/infra/commit.tmp-4242", "half");
    shell
}

/// R29
#[test]
fn an_operator_sees_what_is_too_old_and_removes_it() {
    let shell = aged();
    for (code, arguments, why) in [
        (2, &["data", "prune"][..], "--dry-run"),
        (2, &["data", "prune", "--yes", "--dry-run"], "cannot be used with"),
        (
            78,
            &[
                "data",
                "prune",
                "--yes",
                "--set",
                "retention.message_days_kept=-1",
            ],
            "retention.message_days_kept: expected a whole number from 0 to 36500",
        ),
        (
            78,
            &["data", "prune", "--yes", "--set", "retention.mesage_days_kept=1"],
            "did you mean",
        ),
    ] {
        let ended = shell.run(arguments);
        assert_eq!((ended.code, ended.out.as_str()), (Some(code), ""), "{ended:?}");
        assert!(ended.err.contains(why), "{ended:?}");
    }
    let dry = shell.run(&["data", "prune", "--dry-run"]);
    assert_eq!(dry.code, Some(0), "{dry:?}");
    let words: Vec<&str> = dry.out.split_whitespace().collect();
    assert_eq!(
        words,
        ["KIND", "WOULD", "GO", "deliveries", "1000", "recordings", "1"]
    );
    assert_eq!(deliveries(&shell), 1_000);
    // With unlimited retention, nothing of it is removed.
    let kept = shell.run(&[
        "data",
        "prune",
        "--yes",
        "--json",
        "--set",
        "retention.recording_days_kept=0",
        "--set",
        "data.delivery_hours_kept=8760",
    ]);
    assert_eq!(
        kept.json()["pruned"],
        json!([{ "kind": "deliveries", "rows": 1_000 }])
    );
    let left = |path: &str| shell.work().join("data").join(path).exists();
    assert!(!left("bases/infra/commit.tmp-4242"));
    let recording = format!("sessions/{}.jsonl", "a".repeat(32));
    assert!(left(&recording));
    let pruned = shell.run(&["data", "prune", "--yes"]);
    assert_eq!(pruned.code, Some(0), "{pruned:?}");
    let words: Vec<&str> = pruned.out.split_whitespace().collect();
    assert_eq!(words, ["KIND", "REMOVED", "recordings", "1"]);
    assert!(!left(&recording) && deliveries(&shell) == 0);
    // A mirror stays for a while, because it has only just become unused.
    assert!(left("mirrors/taken-out.git/config") && left("mirrors/taken-out.unused"));
}

/// R29
#[test]
fn a_server_removes_what_is_too_old_by_itself() {
    let shell = aged();
    let (running, _) = serve(&shell);
    assert!(!shell.work().join("data/bases/infra/commit.tmp-4242").exists());
    // The first round begins with the server and causes no notification. A poll is bounded and ends as soon as
    // possible.
    let deadline = Instant::now() + BOUND;
    while deliveries(&shell) > 0 {
        assert!(Instant::now() < deadline, "the server removes nothing");
        std::thread::sleep(Duration::from_millis(5));
    }
    // A request of an operator waits for the round.
    let pruned = shell.run(&["data", "prune", "--yes"]);
    assert_eq!(pruned.code, Some(0), "{pruned:?}");
    let recording = format!("data/sessions/{}.jsonl", "a".repeat(32));
    assert!(!shell.work().join(recording).exists());
    running.terminate();
    assert_eq!(running.end().code, Some(0));
    assert_eq!(shell.run(&["audit", "verify"]).code, Some(0));
}
