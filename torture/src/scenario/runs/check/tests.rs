//! Tests of the checks: each fault is found.

use super::{StoredRun, StoredStep, ends, posts, runs_of_fires, starts, turns_taken};
use crate::hook;
use crate::scenario::runs::shown::{ShownRun, ShownRuns};
use std::collections::{BTreeMap, BTreeSet};

fn run(id: i64, pipeline: &str, status: &str, event: u32) -> StoredRun {
    StoredRun {
        id,
        pipeline: pipeline.to_owned(),
        status: status.to_owned(),
        event: format!("runs:{}/pipeline/{pipeline}", hook::delivery(event)),
        started_at: Some(10 * id),
        ended_at: Some(10 * id + 5),
        is_due: false,
        steps: vec![StoredStep {
            place: 1,
            kind: "reply".to_owned(),
            status: "succeeded".to_owned(),
            inbox: None,
            conversation: None,
            change: None,
            output: "Task 2 is done.".to_owned(),
        }],
    }
}

#[test]
fn a_run_that_is_there_twice_or_not_at_all_is_found() {
    let first = run(1, "pair", "succeeded", 1);
    assert!(starts(std::slice::from_ref(&first), 1).is_empty());
    assert_eq!(
        starts(&[first.clone(), run(2, "pair", "succeeded", 1)], 1),
        ["event 1 started 2 runs of pair instead of 1"]
    );
    assert_eq!(
        starts(&[first], 2),
        [
            "event 2 started 0 runs of checked instead of 1",
            "event 2 started 0 runs of turns instead of 1"
        ]
    );
}

#[test]
fn a_fire_with_two_runs_or_none_and_a_run_without_a_fire_are_found() {
    let of_fire = |id, event: &str| StoredRun {
        event: event.to_owned(),
        ..run(id, "tick-1", "succeeded", 1)
    };
    let fired: BTreeSet<String> = ["schedule:1:5/run", "schedule:2:5/run"].map(str::to_owned).into();
    let mut runs = vec![
        of_fire(1, "schedule:1:5/run"),
        of_fire(2, "schedule:2:5/run"),
        run(3, "plain", "succeeded", 8),
    ];
    assert!(runs_of_fires(&fired, &runs).is_empty());
    runs[1] = of_fire(2, "schedule:1:5/run");
    runs.push(of_fire(4, "schedule:1:6/run"));
    assert_eq!(
        runs_of_fires(&fired, &runs),
        [
            "the fire schedule:1:5/run started 2 runs",
            "the fire schedule:2:5/run started 0 runs",
            "schedule:1:6/run is no fire, and started a run"
        ]
    );
}

#[test]
fn a_wrong_end_and_runs_that_did_not_wait_are_found() {
    let left = StoredRun {
        ended_at: None,
        ..run(3, "plain", "running", 8)
    };
    let runs = [
        run(1, "newest", "succeeded", 7),
        run(2, "newest", "cancelled", 15),
        left,
        run(4, "pair", "cancelled", 1),
    ];
    assert_eq!(
        ends(&runs),
        [
            "run 3 of plain is left running",
            "run 4 of pair has cancelled",
            "run 2 is the newest one of its group, and has cancelled"
        ]
    );
    let early = StoredRun {
        started_at: Some(12),
        ..run(2, "turns", "succeeded", 4)
    };
    let turns = [run(1, "turns", "succeeded", 2), early];
    assert_eq!(
        turns_taken(&turns),
        ["run 2 began before run 1 of its group had ended"]
    );
}

#[test]
fn a_message_or_a_reply_that_is_shown_twice_or_without_its_run_is_found() {
    let shown_run = ShownRun {
        pipeline: "plain".to_owned(),
        status: "succeeded".to_owned(),
    };
    let reply = ("run-1-1/reply-1".to_owned(), vec!["Task 2 is done.".to_owned()]);
    let mut shown = ShownRuns {
        runs: [(1, vec![shown_run.clone()])].into(),
        questions: BTreeMap::new(),
        replies: [reply].into(),
        others: Vec::new(),
    };
    let runs = [run(1, "plain", "succeeded", 8)];
    assert!(posts(&runs, &shown).is_empty());
    shown.runs.entry(1).or_default().push(shown_run.clone());
    shown.runs.insert(2, vec![shown_run]);
    for operation in ["run-1-1/reply-1", "run-2-1/reply-1"] {
        let posted = shown.replies.entry(operation.to_owned()).or_default();
        posted.push("Task 2 is done.".to_owned());
    }
    shown.others.push("`plain` was not started.".to_owned());
    let problems = posts(&runs, &shown);
    assert_eq!(problems.len(), 5, "{problems:?}");
}
