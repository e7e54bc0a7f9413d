//! Tests of what is not sent any more to a person whose access was revoked.

use super::{ACCESS_ENDED, UNSENT};
use crate::base::model::{ACCESS_REVOKED, Action, Inbound, MessageRef, Op, Reply, UserId, WorkStatus};
use crate::state::store::column::json;
use crate::state::store::fixture::{accept, at, fill, fresh, person, placeholder, post, says};
use crate::state::store::people::{add_person, revoke};
use crate::state::store::{AttemptWeight, DeadLetterFilter, Postponement, RetryMode, Store};
use rusqlite::{StatementStatus, params};

const ALICE: UserId = UserId(1);
const BOB: UserId = UserId(2);

/// Returns a message in the private chat of a person.
fn direct(account: &str) -> Inbound {
    let mut inbound = says(account, "hi", &[account]);
    inbound.direct = true;
    inbound.place.chat = format!("D-{account}");
    inbound.place.thread = None;
    inbound
}

/// Returns an operation in the private chat of a person.
fn in_chat_of(account: &str, op: Op) -> Op {
    Op {
        place: direct(account).place,
        ..op
    }
}

fn to_alice(id: &str, text: &str) -> Op {
    in_chat_of("U1", post(id, None, text))
}

/// Returns an operation in a channel that only this person sees.
fn notice(id: &str, account: &str, text: &str) -> Op {
    Op {
        action: Action::Notice {
            to: person(account),
            reply: Reply::text(text),
        },
        ..post(id, None, text)
    }
}

async fn admit(store: &Store, account: &'static str, second: i64) {
    let grant = ("editor".into(), "*".into(), Vec::new());
    let sender = person(account);
    let admitted = store.write(move |tx| add_person(tx, account, "operator", &sender, &grant, at(second)));
    admitted.await.unwrap();
}

/// Creates a store with two people, each with a message in their private chat.
async fn with_people() -> (tempfile::TempDir, Store) {
    let (directory, store) = fresh();
    for (account, second) in [("U1", 0), ("U2", 1)] {
        admit(&store, account, 0).await;
        accept(&store, &direct(account), second).await;
    }
    (directory, store)
}

async fn revoke_alice(store: &Store, second: i64) {
    let revoked = store.write(move |tx| revoke(tx, ALICE, at(second))).await;
    assert_eq!(revoked, Ok(Some(Vec::new())));
}

async fn due(store: &Store, second: i64) -> Vec<String> {
    let due = store.lease_due("slack", at(second), 99).await.unwrap();
    due.into_iter().map(|due| due.op.id).collect()
}

/// Returns the operations for Alice with their states and the reason, by their names.
async fn states(store: &Store) -> Vec<String> {
    let states = "SELECT op || ' ' || state || ' ' || COALESCE(why, '') FROM outbox
        WHERE op NOT LIKE '%/other' ORDER BY op";
    let states = store.read(move |tx| {
        let mut statement = tx.prepare(states)?;
        let states = statement.query_map([], |row| row.get(0))?;
        Ok(states.collect::<rusqlite::Result<Vec<String>>>()?)
    });
    states.await.unwrap()
}

/// T06
#[tokio::test]
async fn what_waits_for_a_person_alone_is_withdrawn_with_their_access_and_stays_so_when_it_begins_anew() {
    let (directory, store) = with_people().await;
    let ops = vec![
        to_alice("run-1/message", "Run 1 begins."),
        to_alice("schedule-1-0/paused", "The schedule is paused."),
        in_chat_of("U1", placeholder("inbox-1/result", None, "…")),
        in_chat_of("U1", fill("inbox-1/result/fill", "inbox-1/result", "Done.")),
        notice("inbox-3/answer", "U1", "Help."),
        in_chat_of("U9", post("join/slack:T1:U1/Ev1/welcome", None, "You're in")),
        notice("inbox-4/other", "U2", "Help."),
        post("inbox-5/other", Some("1.0"), "Done."),
        in_chat_of("U2", post("run-2/other", None, "Run 2 begins.")),
        in_chat_of("U8", post("join/slack:T1:U12/Ev2/other", None, "You're in")),
    ];
    let others: Vec<String> = ops.iter().map(|op| op.id.clone()).collect();
    let others: Vec<&str> = others
        .iter()
        .map(String::as_str)
        .filter(|op| op.ends_with("/other"))
        .collect();
    store.enqueue(ops, at(2)).await.unwrap();
    let refused = vec![to_alice("inbox-6/refused", "Help.")];
    store.enqueue(refused, at(2)).await.unwrap();
    store
        .record_failed("inbox-6/refused", "refused", None, at(3))
        .await
        .unwrap();
    revoke_alice(&store, 4).await;
    let expected = [
        "inbox-1/result dropped",
        "inbox-1/result/fill dropped",
        "inbox-3/answer dropped",
        "inbox-6/refused failed",
        "join/slack:T1:U1/Ev1/welcome dropped",
        "run-1/message dropped",
        "schedule-1-0/paused dropped",
    ];
    let expected = expected.map(|op| format!("{op} {ACCESS_ENDED}"));
    assert_eq!(states(&store).await, expected);

    drop(store);
    let store = Store::open(directory.path()).unwrap();
    admit(&store, "U1", 5).await;
    store
        .enqueue(vec![to_alice("inbox-7/answer", "You're in")], at(6))
        .await
        .unwrap();
    let mut sent = due(&store, 7).await;
    sent.sort();
    let mut all = [&others[..], &["inbox-7/answer"]].concat();
    all.sort_unstable();
    assert_eq!(sent, all);
    // The operator sees what was given up, and it is not sent to them either.
    let letters = store.dead_letters(None, 9).await.unwrap();
    let letters: Vec<(&str, &str)> = letters
        .iter()
        .map(|letter| (letter.op.as_str(), letter.why.as_str()))
        .collect();
    assert_eq!(letters, [("inbox-6/refused", ACCESS_ENDED)]);
    let again = DeadLetterFilter::Channel("slack".to_owned());
    let again = store.send_again(again, "operator", at(8)).await.unwrap();
    assert_eq!(again.queued, Vec::<String>::new());
    assert_eq!(again.withdrawn, ["inbox-6/refused"]);
}

#[tokio::test]
async fn the_operations_are_read_once_for_a_revocation_however_many_accounts_its_person_has() {
    let (_directory, store) = with_people().await;
    let accounts: Vec<String> = (10..30).map(|number| format!("U{number}")).collect();
    let mut ops = vec![
        to_alice("inbox-1/answer", "Help."),
        notice("inbox-4/other", "U2", "Help."),
    ];
    for account in &accounts {
        let sender = json(&person(account)).unwrap();
        let added = store.write(move |tx| {
            let insert = "INSERT INTO identity (sender, user_id, created_at) VALUES (?1, ?2, 0)";
            Ok(tx.execute(insert, params![sender, ALICE.0])?)
        });
        assert_eq!(added.await, Ok(1));
        ops.push(notice(&format!("notice-{account}/answer"), account, "Help."));
    }
    store.enqueue(ops, at(2)).await.unwrap();
    let scans = store.write(|tx| {
        tx.prepare_cached(UNSENT)?.reset_status(StatementStatus::Run);
        assert_eq!(revoke(tx, ALICE, at(3))?, Some(Vec::new()));
        Ok(tx.prepare_cached(UNSENT)?.get_status(StatementStatus::Run))
    });
    assert_eq!(scans.await, Ok(1));
    let mut expected: Vec<String> = accounts
        .iter()
        .map(|account| format!("notice-{account}/answer dropped {ACCESS_ENDED}"))
        .collect();
    expected.insert(0, format!("inbox-1/answer dropped {ACCESS_ENDED}"));
    assert_eq!(states(&store).await, expected);
    assert_eq!(due(&store, 4).await, ["inbox-4/other"]);
}

/// T06
#[tokio::test]
async fn after_a_revocation_a_person_gets_the_line_about_it_and_nothing_else() {
    let (_directory, store) = with_people().await;
    revoke_alice(&store, 2).await;
    let owner = json(&person("U1")).unwrap();
    let owned = store.write(move |tx| {
        tx.execute(
            "INSERT INTO run (pipeline, repository, owner, started_by, status, created_at, ended_at, on_conflict,
               seconds_max, due, base, plan, inputs)
             VALUES ('p', 'infra', ?1, 'chat', 'succeeded', 0, 0, 'serial', 9, 0, '', '{}', '{}')",
            [&owner],
        )?;
        let schedule = "INSERT INTO schedule (owner, name, definition, due, created_at) VALUES (?1, 's', '{}', 0, 0)";
        Ok(tx.execute(schedule, [&owner])?)
    });
    assert_eq!(owned.await, Ok(1));
    let work = |status| {
        let action = Action::ShowWork { status, title: None };
        in_chat_of(
            "U1",
            Op {
                action,
                ..post("inbox-1/work", None, "")
            },
        )
    };
    for (op, is_sent) in [
        (to_alice("inbox-1/answer", ACCESS_REVOKED), true),
        (
            in_chat_of("U1", fill("inbox-1/card/refused", "inbox-1/card", ACCESS_REVOKED)),
            true,
        ),
        (notice("inbox-1/answer", "U1", ACCESS_REVOKED), true),
        (work(WorkStatus::Ended), true),
        (work(WorkStatus::Waiting), false),
        (to_alice("inbox-1/answer", "Done."), false),
        (
            to_alice("inbox-1/result/missing", "An answer could not be delivered."),
            false,
        ),
        (notice("inbox-2/declined", "U1", "No."), false),
        (to_alice("run-1/message/4", "Run 1: succeeded"), false),
        (to_alice("run-1-0/reply-1", "The image is old."), false),
        (to_alice("schedule-1-0/off", "The schedule is off."), false),
        // What others read, and what is for another person, is sent.
        (post("inbox-1/result", Some("1.0"), "Done."), true),
        (post("run-1/message", Some("1.0"), "Run 1 begins."), true),
        (notice("inbox-1/admitted", "U2", "You're in"), true),
        (in_chat_of("U2", post("inbox-2/answer", None, "Done.")), true),
    ] {
        let why = store.reason_to_withdraw(&op).await.unwrap();
        assert_eq!(why, (!is_sent).then_some(ACCESS_ENDED), "{op:?}");
    }
    // An administrator gets no request for access any more.
    let request = in_chat_of("U2", post("access/Ev1/2/request", None, "asks for access"));
    assert_eq!(store.reason_to_withdraw(&request).await, Ok(None));
    let revoked = store.write(|tx| revoke(tx, BOB, at(3))).await;
    assert_eq!(revoked, Ok(Some(Vec::new())));
    assert_eq!(store.reason_to_withdraw(&request).await, Ok(Some(ACCESS_ENDED)));
}

/// T06
#[tokio::test]
async fn what_is_being_sent_when_access_ends_is_not_sent_again_and_its_delivery_is_recorded() {
    let (_directory, store) = with_people().await;
    let ops = vec![
        to_alice("inbox-1/lost", "Done."),
        Op {
            channel: "other".to_owned(),
            ..to_alice("inbox-1/card", "Working.")
        },
    ];
    store.enqueue(ops, at(2)).await.unwrap();
    let leased = store.lease_due("slack", at(3), 9).await.unwrap();
    assert_eq!(
        leased.len() + store.lease_due("other", at(3), 9).await.unwrap().len(),
        2
    );
    revoke_alice(&store, 4).await;
    let why = store.reason_to_withdraw(&leased[0].op).await;
    assert_eq!(why, Ok(Some(ACCESS_ENDED)), "it waits for a free call");
    let postponed = Postponement {
        retry_mode: RetryMode::Send,
        due_at: at(5),
        why: "slack answered 500".to_owned(),
        attempt: AttemptWeight::Counted,
    };
    store.postpone("inbox-1/lost", postponed).await.unwrap();
    assert_eq!(due(&store, 6).await, Vec::<String>::new());
    // The line about the revocation waits for the card, and takes its place.
    let line = Op {
        channel: "other".to_owned(),
        ..in_chat_of("U1", fill("inbox-1/card/refused", "inbox-1/card", ACCESS_REVOKED))
    };
    store.enqueue(vec![line], at(6)).await.unwrap();
    assert_eq!(store.lease_due("other", at(6), 9).await, Ok(Vec::new()));
    let message = MessageRef {
        chat: "D-U1".to_owned(),
        id: "7".to_owned(),
    };
    store
        .record_delivered("inbox-1/card", Some(message.clone()), at(6))
        .await
        .unwrap();
    let line = store.lease_due("other", at(7), 9).await.unwrap();
    let actions: Vec<&Action> = line.iter().map(|due| &due.op.action).collect();
    let reply = Reply::text(ACCESS_REVOKED);
    assert_eq!(actions, [&Action::Edit { message, reply }]);
    assert_eq!(store.reason_to_withdraw(&line[0].op).await, Ok(None));
    assert_eq!(
        states(&store).await,
        [
            "inbox-1/card delivered ".to_owned(),
            "inbox-1/card/refused waiting ".to_owned(),
            format!("inbox-1/lost dropped {ACCESS_ENDED}"),
        ]
    );
}

#[tokio::test]
async fn nothing_is_read_for_what_a_group_reads() {
    let (_directory, store) = with_people().await;
    let renamed = store.write(|tx| Ok(tx.execute_batch("ALTER TABLE users RENAME TO gone")?));
    assert_eq!(renamed.await, Ok(()));
    let in_group = post("inbox-1/result", Some("1.0"), "Done.");
    assert_eq!(store.reason_to_withdraw(&in_group).await, Ok(None));
    for op in [
        to_alice("inbox-1/result", "Done."),
        notice("inbox-1/answer", "U1", "Done."),
        post("inbox-1/message-1-2", Some("1.0"), "Done."),
    ] {
        assert!(store.reason_to_withdraw(&op).await != Ok(None), "{op:?}");
    }
}
