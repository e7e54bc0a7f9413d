//! `drydock outbox`, with a running server and without one.

use crate::cli_serve::{TOML, serve, shell};
use crate::support::shell::Shell;
use drydock::base::model::{Account, Action, ChatPlace, Op, Platform, Reply};
use drydock::state::store::Store;
use jiff::Timestamp;
use serde_json::json;

/// Creates three operations that were given up: two of them in one channel.
fn give_up(shell: &Shell) {
    // A server removes operations that were delivered days ago by its own clock.
    let at = Timestamp::now();
    let post = |id: &str, channel: &str| Op {
        id: id.to_owned(),
        channel: channel.to_owned(),
        place: ChatPlace {
            account: Account {
                platform: Platform::Slack,
                id: "T0ACME".to_owned(),
            },
            chat: "C0OPS".to_owned(),
            thread: Some(id.to_owned()),
        },
        action: Action::Post {
            reply: Reply::text("x"),
            reply_to: None,
            placeholder: false,
        },
        response_url: None,
    };
    let store = Store::open(&shell.work().join("data")).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let ops = ["inbox-1/result", "inbox-2/result"].map(|id| post(id, "team"));
        store.enqueue(ops.to_vec(), at).await.unwrap();
        let other = vec![post("inbox-3/result", "phone"), post("inbox-4/result", "phone")];
        store.enqueue(other, at).await.unwrap();
        store
            .record_failed("inbox-1/result", "is_archived", None, at)
            .await
            .unwrap();
        store
            .record_ambiguous("inbox-2/result", "broke", None, at)
            .await
            .unwrap();
        store
            .record_failed("inbox-3/result", "403 Forbidden", None, at)
            .await
            .unwrap();
        store.record_delivered("inbox-4/result", None, at).await.unwrap();
    });
}

fn listed(shell: &Shell, arguments: &[&str]) -> Vec<(String, String)> {
    let all = [&["outbox", "list", "--json"], arguments].concat();
    let value = shell.run(&all).json();
    let letters = value["letters"].as_array().unwrap().iter();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    letters
        .map(|letter| (text(&letter["op"]), text(&letter["state"])))
        .collect()
}

fn owned(letters: &[(&str, &str)]) -> Vec<(String, String)> {
    let letters = letters.iter();
    letters
        .map(|(op, state)| ((*op).to_owned(), (*state).to_owned()))
        .collect()
}

/// Runs the same queries with and without a server.
fn questions(shell: &Shell) {
    let table = shell.run(&["outbox", "list"]);
    assert_eq!(table.code, Some(0), "{table:?}");
    let lines: Vec<&str> = table.out.lines().collect();
    assert!(
        lines[0].starts_with("OP ") && lines[0].ends_with("WHY"),
        "{table:?}"
    );
    assert!(
        lines[1].starts_with("inbox-1/result ") && lines[1].ends_with("is_archived"),
        "{table:?}"
    );
    let all = owned(&[
        ("inbox-1/result", "failed"),
        ("inbox-2/result", "ambiguous"),
        ("inbox-3/result", "failed"),
    ]);
    assert_eq!(listed(shell, &[]), all);
    assert_eq!(listed(shell, &["--channel", "phone"]), all[2..]);
    // A command for an operation that is unknown or was not given up changes nothing, and reports that.
    for (code, arguments, why) in [
        (
            1,
            ["outbox", "retry", "inbox-9/result"].as_slice(),
            "no operation `inbox-9/result`",
        ),
        (1, &["outbox", "drop", "inbox-4/result"], "it is delivered"),
        (2, &["outbox", "retry"], "--all"),
        (2, &["outbox", "retry", "--all"], "--channel"),
        (
            2,
            &["outbox", "drop", "x", "--all", "--channel", "team"],
            "cannot be used with",
        ),
    ] {
        let ended = shell.run(arguments);
        assert_eq!((ended.code, ended.out.as_str()), (Some(code), ""), "{ended:?}");
        assert!(ended.err.contains(why), "{ended:?}");
    }
    for arguments in [
        ["outbox", "list", "--channel", "typo"].as_slice(),
        &["outbox", "retry", "--all", "--channel", "typo"],
        &["outbox", "drop", "--all", "--channel", "typo"],
    ] {
        let ended = shell.run(arguments);
        assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""), "{ended:?}");
        assert!(
            ended.err.contains("no channel `typo`; none is configured"),
            "{ended:?}"
        );
    }
    assert_eq!(listed(shell, &[]), all);

    let ended = shell.run(&["outbox", "retry", "inbox-1/result"]);
    assert_eq!(
        (ended.code, ended.out.as_str()),
        (Some(0), "1 operation is due again\n")
    );
    assert_eq!(listed(shell, &[]), all[1..]);
    let ended = shell.run(&["outbox", "retry", "--all", "--channel", "team", "--json"]);
    assert_eq!(ended.json()["count"], json!(1));
    let ended = shell.run(&["outbox", "drop", "inbox-3/result"]);
    assert_eq!(
        (ended.code, ended.out.as_str()),
        (Some(0), "1 operation is dropped\n")
    );
    let ended = shell.run(&["outbox", "list"]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), ""));
    assert!(ended.err.contains("Nothing was given up."), "{ended:?}");
}

/// Checks the lines of the audit log, and the state of the rows.
fn is_on_record(shell: &Shell) {
    let file = shell.work().join("data/drydock.db");
    let database = rusqlite::Connection::open(file).unwrap();
    let mut lines = database.prepare("SELECT line FROM audit ORDER BY id").unwrap();
    let lines = lines.query_map([], |row| row.get::<_, String>(0)).unwrap();
    let events: Vec<(String, String)> = lines
        .map(|line| serde_json::from_str::<serde_json::Value>(&line.unwrap()).unwrap())
        .filter(|line| line["event"].as_str().unwrap().starts_with("outbox."))
        .map(|line| {
            let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
            (text(&line["event"]), text(&line["data"]["op"]))
        })
        .collect();
    let expected = owned(&[
        ("outbox.retry", "inbox-1/result"),
        ("outbox.retry", "inbox-2/result"),
        ("outbox.drop", "inbox-3/result"),
    ]);
    assert_eq!(events, expected);
    let state = |op: &str| -> String {
        let state = "SELECT state FROM outbox WHERE op = ?1";
        database.query_row(state, [op], |row| row.get(0)).unwrap()
    };
    let states = ["inbox-1/result", "inbox-2/result", "inbox-3/result"].map(state);
    assert_eq!(states, ["waiting", "again", "dropped"]);
}

#[test]
fn a_running_server_lists_and_sends_again_what_was_given_up() {
    let shell = shell(TOML);
    give_up(&shell);
    let (running, _) = serve(&shell);
    questions(&shell);
    running.terminate();
    assert_eq!(running.end().code, Some(0));
    is_on_record(&shell);
}

#[test]
fn without_a_server_the_database_lists_what_was_given_up() {
    let shell = shell(TOML);
    give_up(&shell);
    questions(&shell);
    is_on_record(&shell);
}

#[test]
fn a_channel_that_is_configured_may_be_empty_and_the_error_names_it() {
    let channel = "[channels.team]\nkind = \"slack\"\nbot_token = { env = \"BOT_TOKEN\" }\n";
    let shell = shell(&format!("{TOML}{channel}"));
    drop(Store::open(&shell.work().join("data")).unwrap());
    let ended = shell.run(&["outbox", "list", "--channel", "team"]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), ""), "{ended:?}");
    let ended = shell.run(&["outbox", "list", "--channel", "taem"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(
        ended.err.contains("no channel `taem`; configured are: team"),
        "{ended:?}"
    );
}

#[test]
fn a_list_that_is_cut_says_how_many_there_are() {
    let shell = shell(TOML);
    give_up(&shell);
    let file = shell.work().join("data/drydock.db");
    let database = rusqlite::Connection::open(file).unwrap();
    let more = "WITH RECURSIVE number(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < 1001)
        INSERT INTO outbox (op, channel, lane, body, state, due_at, attempts, created_at, done_at)
        SELECT 'old-' || n, channel, lane, body, state, due_at, attempts, created_at, done_at
        FROM outbox, number WHERE op = 'inbox-1/result'";
    database.execute(more, []).unwrap();
    let ended = shell.run(&["outbox", "list"]);
    assert_eq!((ended.code, ended.out.lines().count()), (Some(0), 1_001));
    assert!(ended.err.contains("the oldest 1000 of 1004"), "{}", ended.err);
    assert_eq!(
        shell.run(&["outbox", "list", "--json"]).json()["total"],
        json!(1_004)
    );
}
