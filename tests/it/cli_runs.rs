//! `drydock runs` without a running server.

use crate::cli_serve::{TOML, shell};
use crate::support::shell::Shell;
use drydock::base::model::{
    Account, Action, ChatPlace, Op, Platform, Reply, ReplyMessages, RunConflictRule, RunId, RunStatus,
    Sender, StepEnd, StepStatus, Verdict, VerdictSource, reply_name,
};
use drydock::state::store::{GroupReach, NewRun, RunAdvance, Store};
use jiff::Timestamp;
use serde_json::json;
use std::time::Duration;

/// Returns the time of a second.
fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

/// Returns a run of a hook with these steps.
fn new_run(steps: &[(&str, &str)]) -> NewRun {
    let steps = steps.iter();
    NewRun {
        pipeline: "review".to_owned(),
        repository: "infra".to_owned(),
        owner: Sender::of_hook("ci"),
        trigger: "hook ci".to_owned(),
        deliveries: Vec::new(),
        group: None,
        on_conflict: RunConflictRule::Serial,
        reach: GroupReach::All,
        place: None,
        commit: "0123456789abcdef".repeat(3).chars().take(40).collect(),
        plan: "{}".to_owned(),
        inputs: "{}".to_owned(),
        steps: steps
            .map(|(name, kind)| ((*name).to_owned(), (*kind).to_owned()))
            .collect(),
        timeout: Duration::from_secs(600),
    }
}

/// Stores a run whose second step failed, and one that runs.
fn store_runs(shell: &Shell) {
    let new = new_run(&[("look", "agent"), ("judge", "agent")]);
    let judged = StepEnd {
        verdict: Some(Verdict::Fail),
        verdict_source: Some(VerdictSource::Concluded),
        ..StepEnd::failed("the verdict is fail").with_output("two risks")
    };
    let ended = RunAdvance {
        end: vec![(0, StepEnd::succeeded("all of it")), (1, judged)],
        finish: Some((RunStatus::Failed, Some("the step `judge` failed".to_owned()))),
        ..RunAdvance::default()
    };
    let store = Store::open(&shell.work().join("data")).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        store.create_run(new.clone(), None, at(0)).await.unwrap();
        store
            .advance_run(RunId(1), 0, ended, at(65))
            .await
            .unwrap()
            .unwrap();
        store
            .create_run(
                NewRun {
                    repository: "apps".to_owned(),
                    ..new
                },
                None,
                at(0),
            )
            .await
            .unwrap();
    });
}

/// Stores a run whose reply has two messages, the second of which was refused.
fn store_undelivered_reply(shell: &Shell) {
    let post = |index: usize| Op {
        id: format!("run-1-0/{}", reply_name(index)),
        channel: "team".to_owned(),
        place: ChatPlace {
            account: Account {
                platform: Platform::Slack,
                id: "T0ACME".to_owned(),
            },
            chat: "C0OPS".to_owned(),
            thread: None,
        },
        action: Action::Post {
            reply: Reply::text("x"),
            reply_to: None,
            placeholder: false,
        },
        response_url: None,
    };
    let told = StepEnd {
        reply: Some(ReplyMessages::of(2)),
        ..StepEnd::succeeded("x x")
    };
    let ended = RunAdvance {
        end: vec![(0, told)],
        finish: Some((RunStatus::Succeeded, None)),
        ops: vec![post(0), post(1)],
        ..RunAdvance::default()
    };
    let store = Store::open(&shell.work().join("data")).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let new = new_run(&[("tell", "reply")]);
        store.create_run(new, None, at(0)).await.unwrap();
        let moved = store.advance_run(RunId(1), 0, ended, at(1)).await;
        assert!(moved.unwrap().is_some());
        let sent = store.record_delivered("run-1-0/reply-1", None, at(2));
        sent.await.unwrap();
        let refused = store.record_failed("run-1-0/reply-2", "is_archived", None, at(3));
        refused.await.unwrap();
    });
}

#[test]
fn an_undelivered_reply_is_shown_with_its_run_and_says_when_the_operator_dropped_it() {
    let shell = shell(TOML);
    store_undelivered_reply(&shell);
    let shown = || {
        let table = shell.run(&["runs", "show", "1"]).out;
        let steps = shell.run(&["runs", "show", "1", "--json"]).json()["steps"].clone();
        let why = steps[0]["end"]["why"].as_str().unwrap().to_owned();
        assert!(table.contains(&why), "{table}");
        (why, steps[0]["end"]["reply"].clone())
    };
    let refused = "not delivered: is_archived";
    let reply = |outcome: &str| json!({ "count": 2, "undelivered": [{ "number": 2, "outcome": outcome }] });
    assert_eq!(shown(), (format!("message 2 of 2 {refused}"), reply(refused)));
    let dropped = shell.run(&["outbox", "drop", "run-1-0/reply-2"]);
    assert_eq!(
        (dropped.code, dropped.out.as_str()),
        (Some(0), "1 operation is dropped\n")
    );
    let dropped = "given up: the operator dropped it; it was not delivered: is_archived";
    assert_eq!(shown(), (format!("message 2 of 2 {dropped}"), reply(dropped)));
    let again = shell.run(&["outbox", "retry", "run-1-0/reply-2"]);
    assert_eq!((again.code, again.out.as_str()), (Some(1), ""), "{again:?}");
    assert!(again.err.contains("it is dropped"), "{again:?}");
}

#[test]
fn runs_are_listed_shown_cancelled_and_repeated_by_commands() {
    let shell = shell(TOML);
    store_runs(&shell);
    let run = |arguments: &[&str]| shell.run(&[&["runs"], arguments].concat());
    let ids = |arguments: &[&str]| {
        let listed = run(&[&["list", "--json"], arguments].concat()).json();
        let runs = listed["runs"].as_array().unwrap().iter();
        runs.map(|run| run["id"].as_i64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(ids(&[]), [2, 1]);
    assert_eq!(ids(&["--status", "failed"]), [1]);
    assert_eq!(ids(&["--repository", "apps"]), [2]);
    let listed = run(&["list", "--status", "failed"]).out;
    assert!(
        listed.contains("REQUESTED") && listed.contains("hook:ci:ci"),
        "{listed}"
    );
    assert!(
        listed.contains("2027-01-15T08:00:00Z") && listed.contains("1m 5s"),
        "{listed}"
    );
    assert_eq!(run(&["list", "--status", "queued"]).err, "No run matches.\n");
    let refused = run(&["list", "--status", "broken"]);
    assert!(
        refused.code == Some(2) && refused.err.contains("queued, running"),
        "{refused:?}"
    );

    let shown = run(&["show", "1"]).out;
    for words in [
        "run 1 failed: the step `judge` failed\n",
        "review of infra at commit 0123456789ab, started by hook ci for hook:ci:ci at 2027-01-15T08:00:00Z\n",
        "fail (concluded)",
        "the verdict is fail",
    ] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    let shown = run(&["show", "1", "--json"]).json();
    let end = &shown["steps"][1]["end"];
    assert_eq!(
        (&end["output"], &end["status"]),
        (&json!("two risks"), &json!(StepStatus::Failed))
    );

    assert_eq!(run(&["cancel", "2"]).out, "run 2 is cancelled\n");
    assert_eq!(
        run(&["cancel", "2"]).out,
        "run 2 is not changed: it has ended already\n"
    );
    let shown = run(&["show", "2"]).out;
    assert!(
        shown.starts_with("run 2 is cancelled: cancelled by the operator\n"),
        "{shown}"
    );
    let retried = run(&["retry", "1"]).out;
    let expected = "run 3 is started, and repeats run 1; it begins at the next start of the server\n";
    assert_eq!(retried, expected);
    let steps = run(&["show", "3", "--json"]).json();
    assert_eq!(
        (
            &steps["run"]["retry_of"],
            &steps["steps"][0]["status"],
            &steps["steps"][1]["status"]
        ),
        (&json!(1), &json!("succeeded"), &json!("waiting"))
    );
    let refused = run(&["retry", "3"]);
    assert_eq!((refused.code, refused.out.as_str()), (Some(1), ""), "{refused:?}");
    assert!(
        refused
            .err
            .contains("nothing was started: run 3 has not ended; cancel it first"),
        "{refused:?}"
    );
    for order in ["show", "cancel", "retry"] {
        let unknown = run(&[order, "9"]);
        assert!(
            unknown.err.contains("no run 9; `drydock runs list` shows all"),
            "{unknown:?}"
        );
        assert_eq!(unknown.code, Some(1));
        for wrong in ["review", "0"] {
            let refused = run(&[order, wrong]);
            assert!(
                refused.code == Some(2) && refused.err.contains("expected the number of a run, such as 7"),
                "{refused:?}"
            );
        }
    }
    for (id, why) in [
        ("1", "nothing was answered: run 1 waits for no answer"),
        ("9", "no run 9; `drydock runs list` shows all"),
    ] {
        let refused = run(&["answer", id, "yes"]);
        assert!(
            refused.code == Some(1) && refused.err.contains(why),
            "{refused:?}"
        );
    }
    let audited = shell.run(&["audit", "list", "--kind", "run", "--json"]).json();
    let kinds = audited["lines"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| line["kind"].as_str().unwrap());
    let expected = [
        "run.retried",
        "run.started",
        "run.ended",
        "run.started",
        "run.ended",
        "run.started",
    ];
    assert_eq!(kinds.collect::<Vec<_>>(), expected);
}

/// CI-22
#[test]
fn the_directory_with_the_files_about_a_run_is_shown_if_there_is_one() {
    let shell = shell(TOML);
    store_runs(&shell);
    let run = |arguments: &[&str]| shell.run(&[&["runs", "show"], arguments].concat());
    let none = run(&["1", "--trace"]);
    assert!(
        none.out.starts_with("run 1 failed") && none.err.contains("There are no files"),
        "{none:?}"
    );
    assert_eq!(run(&["1", "--trace", "--json"]).json()["trace"], json!(null));
    shell.put("data/runs/1/look/status", "succeeded");
    let shown = run(&["1", "--trace"]);
    let last = shown.out.lines().last().unwrap();
    assert!(
        last.starts_with("the files about its steps are in ") && last.ends_with("data/runs/1"),
        "{shown:?}"
    );
    let value = run(&["1", "--trace", "--json"]).json();
    assert!(
        value["trace"].as_str().unwrap().ends_with("data/runs/1"),
        "{value}"
    );
    assert_eq!(value["run"]["id"], json!(1));
    assert!(run(&["2", "--trace"]).err.contains("There are no files"));
    assert!(run(&["9", "--trace"]).err.contains("no run 9"));
}
