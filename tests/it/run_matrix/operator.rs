//! Runs at a terminal of the server. Whoever reaches the data directory is the operator, who may do everything; nobody else of
//! the machine reaches it.

use super::{ABSENT, RunMatrix, TARGETS, Target, Terminal, VERBS, Verb};
use std::os::unix::fs::PermissionsExt;

fn order(verb: Verb, id: i64) -> Vec<String> {
    let words = match verb {
        Verb::Show => vec!["show"],
        Verb::Cancel => vec!["cancel"],
        Verb::Retry => vec!["retry"],
        Verb::Answer => vec!["answer"],
    };
    let mut order = vec!["runs".to_owned()];
    order.extend(words.into_iter().map(str::to_owned));
    order.push(id.to_string());
    if verb == Verb::Answer {
        order.push("yes".to_owned());
    }
    order
}

/// Returns the first words of the answer to an order that is followed.
fn done(verb: Verb, id: i64) -> String {
    match verb {
        Verb::Show => format!("run {id} is running"),
        Verb::Cancel => format!("run {id} is cancelled"),
        Verb::Retry => format!("run {} is started, and repeats run {id}", id + 1),
        Verb::Answer => format!("run {id} is answered: yes"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_operator_does_everything_with_runs_and_nobody_else_of_the_machine_reaches_them() {
    let matrix = RunMatrix::new().await;
    let terminal = Terminal::new(&matrix.app);
    let run = |order: &[String]| {
        let order: Vec<&str> = order.iter().map(String::as_str).collect();
        terminal.run(&order)
    };
    for target in TARGETS {
        for verb in VERBS {
            let id = matrix.start_for(verb, target).await;
            let before = matrix.states();
            let ended = run(&order(verb, id));
            let place = format!("{verb:?} of {target:?}: {ended:?}");
            assert_eq!(ended.code, Some(0), "{place}");
            assert!(ended.out.starts_with(&done(verb, id)), "{place}");
            assert_eq!(matrix.states() != before, verb != Verb::Show, "{place}");
            matrix.wait_until_still().await;
            let (pipeline, owner) = match target {
                Target::Own => ("decide", super::OWNER),
                Target::Service => ("deploy", "hook:release"),
            };
            let listed = run(&["runs".to_owned(), "list".to_owned()]).out;
            let row = listed
                .lines()
                .find(|line| line.split_whitespace().next() == Some(&*id.to_string()));
            let is_listed = row.is_some_and(|row| row.contains(pipeline) && row.contains(owner));
            assert!(is_listed, "{id} {pipeline} {owner}: {listed}");
            matrix.clear().await;
        }
    }
    for verb in VERBS {
        let unknown = run(&order(verb, ABSENT));
        assert_eq!((unknown.code, unknown.out.as_str()), (Some(1), ""), "{unknown:?}");
        let why = format!("no run {ABSENT}; `drydock runs list` shows all");
        assert!(unknown.err.contains(&why), "{unknown:?}");
    }
    let data = std::fs::metadata(matrix.app.demo.data()).unwrap();
    assert_eq!(data.permissions().mode() & 0o077, 0);
}
