//! Tests of retention: what is removed, what stays, and that the stored size becomes stable.

use super::{DataKind, Prune, PrunePosition, WEIGHT_MAX};
use crate::base::model::{ChangeOverview, ConversationId, InboxId, UserId, Verdict, VerdictSource};
use crate::state::store::fixture::{
    AnswerDraft, EndDraft, accept, answer, cost, edits, fill, find, fresh, person, post, room, says, worker,
};
use crate::state::store::{
    AcceptOutcome, ActionOwner, Announcement, AuditState, NewAction, NewChange, PressOutcome, QueueKind,
    Store, StoreError, TurnStart, UndoOutcome,
};
use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// Returns a time on a day.
fn on(day: i64, second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + day * 86_400 + second).unwrap()
}

/// Returns the retention time of a kind in these tests, in days.
fn days(kind: DataKind) -> i64 {
    match kind {
        DataKind::Deliveries | DataKind::Operations | DataKind::Buttons | DataKind::Logins => 3,
        DataKind::Messages | DataKind::PersonMessages | DataKind::Runs | DataKind::Conversations => 20,
        DataKind::Usage
        | DataKind::Reservations
        | DataKind::BudgetRequests
        | DataKind::Allowances
        | DataKind::Audit => 30,
        DataKind::Edits | DataKind::Changes => 40,
        DataKind::DeadLetters | DataKind::Invites => 10,
        DataKind::Contents => 0,
    }
}

/// Prunes every kind in slices, and calls `after` after each. Returns the removed amounts.
async fn prune_with(
    store: &Store,
    day: i64,
    prune: Prune,
    mut after: impl AsyncFnMut(),
) -> BTreeMap<&'static str, u64> {
    let at = on(day, 80_000);
    let mut all = BTreeMap::new();
    for kind in DataKind::ALL {
        let before = at - SignedDuration::from_hours(24 * days(kind));
        let mut next = Some(PrunePosition::default());
        while let Some(from) = next {
            let slice = store.prune_slice(kind, before, &from, prune, at).await.unwrap();
            if slice.rows > 0 {
                *all.entry(kind.name()).or_default() += slice.rows;
                after().await;
            }
            next = slice.next;
        }
    }
    all
}

async fn prune(store: &Store, day: i64) -> BTreeMap<&'static str, u64> {
    prune_with(store, day, Prune::Remove, async || ()).await
}

/// Runs an answered turn of `name` in their own thread. With `file`, it sets the content of `web.yaml`.
async fn turn(store: &Store, name: &str, file: Option<&str>, at: Timestamp) -> ConversationId {
    turn_on(store, name, file, file, at).await
}

/// Runs such a turn; `web.yaml` has the content `stands` at the end.
async fn turn_on(
    store: &Store,
    name: &str,
    file: Option<&str>,
    stands: Option<&str>,
    at: Timestamp,
) -> ConversationId {
    let delivery = format!("{name}:{}", at.as_millisecond());
    let said = says(
        name,
        &format!("said by {name} at {}", at.as_second()),
        &[&delivery],
    );
    let worker = worker("w1");
    let accepted = store
        .accept(&said, QueueKind::Turn, room(20), Some(&worker), at)
        .await
        .unwrap();
    let AcceptOutcome::Stored {
        inbox,
        direct_claim: Some(taken),
        ..
    } = accepted
    else {
        panic!("{accepted:?}")
    };
    let claim = taken.claim;
    let begin = TurnStart::quiet(format!("said by {name} at {}", at.as_second()));
    let begun = store.begin_turn(&claim, inbox, begin, at).await.unwrap();
    let files = file.map(|content| edits(&[("web.yaml", Some(content.as_bytes()))]));
    if let Some(content) = file {
        // The content between two steps, to which nothing refers afterwards.
        let draft = edits(&[(
            "web.yaml",
            Some(format!("draft of {content} {delivery}").as_bytes()),
        )]);
        store
            .write(move |tx| crate::state::store::edits::store(tx, &draft))
            .await
            .unwrap();
    }
    let step = answer(&"words ".repeat(300));
    store
        .record_step(&claim, begun.turn, &step, &cost(10), files.as_ref(), at)
        .await
        .unwrap();
    let change = stands.map(|content| NewChange {
        repository: "infra".into(),
        base: "a".repeat(40),
        patch: Bytes::from(format!("patch of {content}")),
        content: Sha256::digest(content).into(),
        stats: Vec::new(),
        checks: Vec::new(),
        effects: String::new(),
        overview: ChangeOverview::default(),
        needs: Vec::new(),
    });
    let op = post(&format!("{delivery}/result"), Some("1.0"), "done");
    let button = NewAction {
        token_hash: Sha256::digest(delivery.as_bytes()).into(),
        verb: "discard".into(),
        argument: String::new(),
        owner: ActionOwner::Person(person(name)),
        conversation: claim.conversation,
        expires: at + SignedDuration::from_hours(24),
    };
    let finish = AnswerDraft {
        verdict: Verdict::Pass,
        source: VerdictSource::Verified,
        answer: None,
        cost: None,
        change,
        withheld: None,
        leaves_change: false,
        summary: json!({}),
        announce: Box::new(move |_| Announcement {
            ops: vec![op],
            actions: vec![button],
            budget_request: None,
            result: None,
            deliver_now: false,
        }),
    };
    store
        .finish_composed(
            &claim,
            begun.turn,
            UserId(1),
            move |_| EndDraft::Answered(Box::new(finish)),
            at,
        )
        .await
        .unwrap();
    for due in store.lease_due("slack", at, 100).await.unwrap() {
        store.record_delivered(&due.op.id, None, at).await.unwrap();
    }
    store.release(&claim).await.unwrap();
    claim.conversation
}

async fn number(store: &Store, sql: &'static str) -> i64 {
    store
        .read(move |tx| Ok(tx.query_row(sql, [], |row| row.get(0))?))
        .await
        .unwrap()
}

/// Checks that every reference has its content, and that SQLite finds no problem.
async fn is_consistent(store: &Store) {
    let whole: String = store
        .read(|tx| Ok(tx.query_row("PRAGMA integrity_check", [], |row| row.get(0))?))
        .await
        .unwrap();
    assert_eq!(whole, "ok");
    for sql in [
        "SELECT COUNT(*) FROM pragma_foreign_key_check",
        "SELECT COUNT(*) FROM inbox WHERE conversation NOT IN (SELECT id FROM conversation)",
        "SELECT COUNT(*) FROM turn WHERE inbox NOT IN (SELECT id FROM inbox)",
        "SELECT COUNT(*) FROM turn WHERE id NOT IN (SELECT turn FROM step)",
        "SELECT COUNT(*) FROM conversation WHERE change_number IS NOT NULL AND change_number NOT IN (SELECT number FROM change)",
    ] {
        assert_eq!(number(store, sql).await, 0, "{sql}");
    }
    let snapshots = "SELECT edits FROM conversation UNION SELECT edits_before FROM turn UNION SELECT edits_after FROM turn";
    let loaded = store.read(move |tx| {
        let mut statement = tx.prepare(snapshots)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            crate::state::store::edits::load(tx, &row.get::<_, String>(0)?)?;
        }
        Ok(())
    });
    loaded.await.unwrap();
}

/// R29
#[tokio::test]
async fn months_of_work_reach_a_size_and_keep_it() {
    let (directory, store) = fresh();
    let waiting = says("Waiting", "nobody answered this", &["waiting"]);
    accept(&store, &waiting, 0).await;
    let silent = turn(&store, "Silent", Some("left alone"), on(0, 1)).await;
    let mut sizes = Vec::new();
    let mut alice = silent;
    for day in 0..160 {
        for number in 0..4 {
            let name = format!("D{day}N{number}");
            let content = format!("replicas: {day}");
            let file = (number == 0).then_some(content.as_str());
            turn(&store, &name, file, on(day, 10 + number)).await;
        }
        let content = (day >= 5).then(|| format!("image: v{}", (day - 5) / 30));
        let file = content.as_deref().filter(|_| day % 30 == 5);
        alice = turn_on(&store, "Alice", file, content.as_deref(), on(day, 20)).await;
        match day % 40 {
            // A kill may come after any slice.
            30 => {
                prune_with(&store, day, Prune::Remove, async || is_consistent(&store).await).await;
            }
            _ => {
                prune(&store, day).await;
            }
        }
        if day % 30 == 9 {
            let mut rows = Vec::new();
            for kind in DataKind::ALL {
                rows.push((kind.name(), store.stored_amount(kind).await.unwrap().rows));
            }
            sizes.push((day, store.bytes().await.unwrap().all, rows));
        }
    }
    is_consistent(&store).await;
    // After the longest retention time has passed once, nothing grows.
    let [
        ..,
        (_, before, rows_before),
        (_, middle, rows_middle),
        (_, last, rows_last),
    ] = sizes.as_slice()
    else {
        panic!("{sizes:?}")
    };
    // The placement of rows varies from month to month by about a page.
    let room = before / 50;
    assert!(*last <= before + room && *middle <= before + room, "{sizes:#?}");
    assert!(
        rows_last == rows_middle && rows_middle == rows_before,
        "{sizes:#?}"
    );
    let file = std::fs::metadata(directory.path().join("drydock.db"))
        .unwrap()
        .len();
    assert!(file <= *before + 1_000_000, "{file} {sizes:#?}");

    // Alice still has her history, her files and her change.
    let said = store.user_messages(alice).await.unwrap();
    let expected: Vec<String> = (140..160)
        .map(|day| format!("said by Alice at {}", on(day, 20).as_second()))
        .collect();
    assert_eq!(said, expected);
    assert_eq!(store.history(alice).await.unwrap().turns().len(), 20);
    let files = edits(&[("web.yaml", Some(b"image: v5"))]);
    assert_eq!(store.edits(alice).await, Ok(files));
    let change = store.current_change(alice).await.unwrap().unwrap();
    assert_eq!(change.patch, Bytes::from_static(b"patch of image: v5"));
    // The inactive person has neither. An unanswered message still waits.
    assert_eq!(find(&store, &says("Silent", "", &[])).await, None);
    let conversation = find(&store, &waiting).await.unwrap();
    assert_eq!(store.waiting(conversation).await, Ok(1));
    let audit = store.verify_audit().await.unwrap();
    let AuditState::Intact { cut, since, .. } = audit else {
        panic!("{audit:?}")
    };
    assert!(cut > 0 && since.unwrap() >= on(127, 0), "{audit:?}");
}

/// R29
#[tokio::test]
async fn what_is_not_finished_stays_however_old_it_is() {
    let (_directory, store) = fresh();
    let (_, unanswered, _) = accept(&store, &says("U1", "x", &["1"]), 0).await;
    let said = says("U2", "x", &["2"]);
    let accepted = store
        .accept(&said, QueueKind::Turn, room(20), Some(&worker("w1")), on(0, 0))
        .await
        .unwrap();
    let AcceptOutcome::Stored {
        inbox,
        direct_claim: Some(taken),
        ..
    } = accepted
    else {
        panic!("{accepted:?}")
    };
    store
        .begin_turn(&taken.claim, inbox, TurnStart::quiet("x"), on(0, 0))
        .await
        .unwrap();
    turn(&store, "U3", None, on(0, 1)).await;
    turn(&store, "U4", None, on(0, 2)).await;
    store
        .enqueue(vec![post("unsent", Some("9"), "x")], on(0, 3))
        .await
        .unwrap();
    let gone = prune(&store, 2_000).await;
    assert_eq!(gone.get("messages"), Some(&1), "{gone:?}");
    is_consistent_but_for_turns_without_steps(&store).await;
    assert_eq!(store.waiting(unanswered).await, Ok(1));
    assert_eq!(store.waiting(taken.claim.conversation).await, Ok(1));
    assert_eq!(store.unsent_count("slack").await, Ok(1));
    assert!(store.work(&taken.claim, 40, usize::MAX).await.unwrap().is_some());
}

async fn is_consistent_but_for_turns_without_steps(store: &Store) {
    let orphans = "SELECT COUNT(*) FROM turn WHERE inbox NOT IN (SELECT id FROM inbox)";
    assert_eq!(number(store, orphans).await, 0);
    assert_eq!(
        number(store, "SELECT COUNT(*) FROM pragma_foreign_key_check").await,
        0
    );
}

/// R29
#[tokio::test]
async fn pruned_ids_and_change_numbers_are_never_reused() {
    let (_directory, store) = fresh();
    turn(&store, "U1", Some("a"), on(0, 0)).await;
    let conversation = turn(&store, "U2", Some("b"), on(0, 1)).await;
    let newest = "SELECT (SELECT MAX(id) FROM inbox) || ' ' || (SELECT MAX(id) FROM turn) || ' ' || (SELECT MAX(id) FROM conversation)";
    let numbers = || store.read(move |tx| Ok(tx.query_row(newest, [], |row| row.get::<_, String>(0))?));
    let before = numbers().await.unwrap();
    prune(&store, 500).await;
    prune(&store, 501).await;
    assert_eq!(numbers().await.unwrap(), before);
    assert_eq!(number(&store, "SELECT COUNT(*) FROM inbox").await, 1);
    let next = turn(&store, "U3", Some("c"), on(502, 0)).await;
    assert!(next.0 > conversation.0);
    let change = store.current_change(next).await.unwrap().unwrap();
    assert_eq!(change.number.0, 3);
    // The last ones are removed as soon as there are newer ones.
    let gone = prune(&store, 503).await;
    assert_eq!((gone["messages"], gone["changes"]), (1, 1), "{gone:?}");
}

/// R29
#[tokio::test]
async fn an_undo_finds_whole_turns_only() {
    let (_directory, store) = fresh();
    let alice = turn(&store, "Alice", Some("first"), on(0, 0)).await;
    turn(&store, "Alice", Some("second"), on(15, 0)).await;
    turn(&store, "Alice", None, on(30, 0)).await;
    let gone = prune(&store, 30).await;
    assert_eq!(gone.get("messages"), Some(&1), "{gone:?}");
    is_consistent(&store).await;
    let first = edits(&[("web.yaml", Some(b"first"))]);
    let undo = async |delivery: &str, second| {
        let said = says("Alice", "undo", &[delivery]);
        let at = on(30, second);
        let accepted = store.accept(&said, QueueKind::Change, room(20), None, at).await;
        let Ok(AcceptOutcome::Stored { inbox, .. }) = accepted else {
            panic!("{accepted:?}")
        };
        let undone = store.undo(alice, inbox, None, at).await.unwrap();
        store.finish_command(inbox, Vec::new(), at).await.unwrap();
        undone
    };
    assert!(matches!(undo("u1", 1).await, UndoOutcome::Newest { .. }));
    assert_eq!(store.edits(alice).await, Ok(first.clone()));
    assert_eq!(undo("u2", 2).await, UndoOutcome::Nothing);
    prune(&store, 31).await;
    assert_eq!(store.edits(alice).await, Ok(first));
}

/// R29
#[tokio::test]
async fn edits_and_an_open_change_go_when_their_conversation_was_silent_for_too_long() {
    let (_directory, store) = fresh();
    let alice = turn(&store, "Alice", Some("a"), on(0, 0)).await;
    turn(&store, "Bob", Some("b"), on(1, 0)).await;
    prune(&store, 39).await;
    let change = store.current_change(alice).await.unwrap().unwrap();
    assert_eq!((change.number.0, store.edits(alice).await.unwrap().len()), (1, 1));
    prune(&store, 40).await;
    // The last remaining data of the conversation is removed with them.
    assert!(matches!(
        store.conversation(alice).await,
        Err(StoreError::NotFound(_))
    ));
    assert_eq!(store.change(change.number).await, Ok(None));
    let lines = store.audit_lines(10).await.unwrap();
    let expected = r#""data":{"change":"CHG-1","conversation":1},"event":"change.expired""#;
    assert!(lines.iter().any(|(_, line)| line.contains(expected)), "{lines:?}");
    is_consistent(&store).await;
    // Alice returns, and gets a new conversation with the same key.
    let again = turn(&store, "Alice", None, on(41, 0)).await;
    assert!(again > alice && store.user_messages(again).await.unwrap().len() == 1);
}

/// R29
#[tokio::test]
async fn a_conversation_with_a_button_that_is_good_stays() {
    let (_directory, store) = fresh();
    let alice = turn(&store, "Alice", None, on(0, 0)).await;
    turn(&store, "Bob", None, on(100, 0)).await;
    let later = on(200, 0);
    let token = [7; 32];
    let button = NewAction {
        token_hash: token,
        verb: "status".into(),
        argument: String::new(),
        owner: ActionOwner::Person(person("Alice")),
        conversation: alice,
        expires: later,
    };
    store
        .write(move |tx| crate::state::store::action::insert(tx, &[button]))
        .await
        .unwrap();
    prune(&store, 101).await;
    let pressed = InboxId(9);
    let taken = store
        .take_action(token, &person("Alice"), pressed, on(101, 0))
        .await;
    assert!(matches!(taken, Ok(PressOutcome::Counted { conversation, .. }) if conversation == alice));
    assert!(store.conversation(alice).await.is_ok());
    prune(&store, 204).await;
    assert!(store.conversation(alice).await.is_err());
}

/// R29
#[tokio::test]
async fn names_of_deliveries_go_in_small_slices_and_never_too_early() {
    let (_directory, store) = fresh();
    let fill = |tx: &rusqlite::Transaction<'_>| {
        let mut insert = tx.prepare("INSERT INTO delivery (name, at) VALUES (?1, ?2)")?;
        for number in 0..12_000_i64 {
            let day = number % 4;
            insert.execute(rusqlite::params![
                format!("n{:05}", number * 7_919 % 12_000),
                on(day, 0).as_millisecond()
            ])?;
        }
        Ok::<_, StoreError>(())
    };
    store.write(fill).await.unwrap();
    let (before, at) = (on(2, 0), on(5, 0));
    let mut from = Some(PrunePosition::default());
    let (mut slices, mut rows) = (0, 0);
    while let Some(position) = from {
        let slice = store
            .prune_slice(DataKind::Deliveries, before, &position, Prune::Remove, at)
            .await
            .unwrap();
        assert!(slice.rows <= u64::try_from(WEIGHT_MAX).unwrap());
        (slices, rows, from) = (slices + 1, rows + slice.rows, slice.next);
    }
    assert!((15..40).contains(&slices), "{slices}");
    assert_eq!(rows, 6_000);
    let kept = number(&store, "SELECT COUNT(*) FROM delivery").await;
    let oldest = store.stored_amount(DataKind::Deliveries).await.unwrap().oldest;
    assert_eq!((kept, oldest), (6_000, Some(before)));
}

/// GitHub signs no timestamp, so the hash of a body is kept longer than the other names.
#[tokio::test]
async fn body_hashes_are_kept_thirty_days_longer_than_other_delivery_names() {
    let (_directory, store) = fresh();
    let fill = |tx: &rusqlite::Transaction<'_>| {
        for name in ["ci/d-1", "ci/sha256:0a1b"] {
            let row = rusqlite::params![name, on(0, 0).as_millisecond()];
            tx.execute("INSERT INTO delivery (name, at) VALUES (?1, ?2)", row)?;
        }
        Ok::<_, StoreError>(())
    };
    store.write(fill).await.unwrap();
    for (day, left) in [(1, 1), (29, 1), (31, 0)] {
        let from = PrunePosition::default();
        store
            .prune_slice(
                DataKind::Deliveries,
                on(day, 0),
                &from,
                Prune::Remove,
                on(day + 3, 0),
            )
            .await
            .unwrap();
        let kept = number(&store, "SELECT COUNT(*) FROM delivery").await;
        assert_eq!(kept, left, "day {day}");
    }
}

/// R29
#[tokio::test]
async fn dead_letters_and_invites_have_their_own_retention_periods() {
    let (_directory, store) = fresh();
    for (id, day) in [("old", 0), ("young", 8)] {
        store
            .enqueue(
                vec![
                    post(id, Some(id), "x"),
                    post(&format!("{id}/sent"), Some("s"), "x"),
                ],
                on(day, 0),
            )
            .await
            .unwrap();
        store
            .record_failed(id, "refused", None, on(day, 0))
            .await
            .unwrap();
        store
            .record_delivered(&format!("{id}/sent"), None, on(day, 0))
            .await
            .unwrap();
    }
    let invite = |expires| crate::state::store::invite::InviteRow {
        name: "carol".into(),
        role: "viewer".into(),
        repositories: "*".into(),
        environments: Vec::new(),
        bound_to: None,
        issued_by: "operator".into(),
        expires_at: expires,
    };
    for (token, expires) in [([1; 32], on(1, 0)), ([2; 32], on(11, 0))] {
        let row = invite(expires);
        store
            .write(move |tx| crate::state::store::invite::insert(tx, token, &row, on(0, 0)))
            .await
            .unwrap();
    }
    let dry = prune_with(&store, 12, Prune::DryRun, async || ()).await;
    assert_eq!(number(&store, "SELECT COUNT(*) FROM outbox").await, 4);
    let gone = prune(&store, 12).await;
    assert_eq!(dry, gone);
    assert_eq!(
        gone,
        BTreeMap::from([("dead letters", 1), ("invites", 1), ("operations", 2)])
    );
    let dead = store.stored_amount(DataKind::DeadLetters).await.unwrap();
    assert_eq!((dead.rows, dead.oldest), (1, Some(on(8, 0))));
    assert_eq!(number(&store, "SELECT COUNT(*) FROM invite").await, 1);
}

/// R29
#[tokio::test]
async fn a_summary_is_removed_with_its_newest_turn() {
    let (_directory, store) = fresh();
    let conversation = turn(&store, "Alice", None, on(1, 0)).await;
    turn(&store, "Bob", None, on(30, 0)).await;
    let summaries = async || number(&store, "SELECT COUNT(*) FROM summary").await;
    let newest = number(&store, "SELECT MIN(id) FROM turn").await;
    let set = async |turn| {
        let set = move |tx: &rusqlite::Transaction<'_>| {
            crate::state::store::summary::set(tx, conversation, crate::base::model::TurnId(turn), "short")
        };
        store.write(set).await.unwrap();
    };
    // A turn that is gone has no summary any more.
    set(newest + 100).await;
    assert_eq!(summaries().await, 0);
    set(newest).await;
    assert_eq!(prune(&store, 20).await.get("messages"), None);
    assert_eq!(summaries().await, 1);
    assert_eq!(prune(&store, 22).await.get("messages"), Some(&1));
    assert_eq!(summaries().await, 0);
}

/// R29
#[tokio::test]
async fn rows_of_budgets_are_kept_as_long_as_usage() {
    let (_directory, store) = fresh();
    store
        .write(|tx| {
            for (id, day) in [(1, 1), (2, 12)] {
                let at = on(day, 0).as_millisecond();
                tx.execute(
                    "INSERT INTO reservation VALUES (?1, 1, 1, 1, 5, 5, ?2, 0)",
                    [id, at],
                )?;
                tx.execute(
                    "INSERT INTO budget_request VALUES ('r' || ?1, 'day', 0, 1, 5, 5, 1, ?2, NULL)",
                    [id, at],
                )?;
                tx.execute(
                    "INSERT INTO allowance VALUES (?1, 'day', 0, 1, 5, 5, 'bob', ?2)",
                    [id, at],
                )?;
            }
            Ok(())
        })
        .await
        .unwrap();
    assert_eq!(prune(&store, 30).await, BTreeMap::new());
    let expected = [("allowances", 1), ("budget requests", 1), ("reservations", 1)];
    assert_eq!(prune(&store, 31).await, BTreeMap::from(expected));
    for kind in [
        DataKind::Reservations,
        DataKind::BudgetRequests,
        DataKind::Allowances,
    ] {
        let stored = store.stored_amount(kind).await.unwrap();
        assert_eq!((stored.rows, stored.oldest), (1, Some(on(12, 0))), "{kind:?}");
    }
}

/// R29
#[tokio::test]
async fn what_is_stored_is_counted_with_its_bytes_and_its_age() {
    let (_directory, store) = fresh();
    turn(&store, "Alice", Some("x"), on(3, 0)).await;
    turn(&store, "Bob", None, on(4, 0)).await;
    for kind in DataKind::ALL {
        let stored = store.stored_amount(kind).await.unwrap();
        let expected = match kind {
            DataKind::DeadLetters
            | DataKind::Invites
            | DataKind::Logins
            | DataKind::PersonMessages
            | DataKind::Runs
            | DataKind::Reservations
            | DataKind::BudgetRequests
            | DataKind::Allowances => 0,
            DataKind::Edits | DataKind::Changes => 1,
            // The file, its draft and the patch.
            DataKind::Contents => 3,
            _ => 2,
        };
        assert_eq!(stored.rows, expected, "{kind:?}");
        assert!(stored.rows == 0 || stored.bytes > 0, "{kind:?}");
    }
    let messages = store.stored_amount(DataKind::Messages).await.unwrap();
    assert_eq!(messages.oldest, Some(on(3, 0)));
    let bytes = store.bytes().await.unwrap();
    assert!(bytes.all > messages.bytes && bytes.free < bytes.all);
}

/// Returns the query plan of a statement, step by step.
async fn plan(store: &Store, sql: String) -> Vec<String> {
    store
        .write(move |tx| {
            let mut statement = tx.prepare(&format!("EXPLAIN QUERY PLAN {sql}"))?;
            let mut rows = statement.raw_query();
            let mut steps = Vec::new();
            while let Some(row) = rows.next()? {
                steps.push(row.get(3)?);
            }
            Ok(steps)
        })
        .await
        .unwrap()
}

/// R29
#[tokio::test]
async fn no_prune_statement_scans_a_whole_table() {
    let (_directory, store) = fresh();
    for kind in DataKind::ALL {
        let super::RemovalMethod::Rows(rows) = super::removal_method(kind) else {
            continue;
        };
        for sql in [rows.ask(), rows.delete()] {
            let steps = plan(&store, sql).await;
            assert!(
                !steps.iter().any(|step| step.contains("SCAN")),
                "{kind:?}: {steps:#?}"
            );
        }
        // Searches continue from a key, in the order of the keys.
        let steps = plan(&store, rows.select()).await;
        let sorts = |step: &String| step.contains("SCAN") || step.contains("TEMP B-TREE");
        assert!(!steps.iter().any(sorts), "{kind:?}: {steps:#?}");
    }
    // SQLite searches for references to a removed row. So each reference to such a table needs an index.
    let unindexed = "SELECT tables.name || '.' || refers.\"from\"
        FROM sqlite_schema AS tables JOIN pragma_foreign_key_list(tables.name) AS refers
        WHERE tables.type = 'table' AND refers.\"table\" IN ('conversation', 'inbox', 'turn', 'blob', 'change')
        AND NOT EXISTS (
            SELECT 1 FROM pragma_index_list(tables.name) AS indexes
            JOIN pragma_index_info(indexes.name) AS columns
            WHERE indexes.partial = 0 AND columns.seqno = 0 AND columns.name = refers.\"from\")";
    let found = store.read(move |tx| {
        let mut statement = tx.prepare(unindexed)?;
        let found = statement.query_map([], |row| row.get::<_, String>(0))?;
        Ok(found.collect::<rusqlite::Result<Vec<_>>>()?)
    });
    assert_eq!(found.await.unwrap(), Vec::<String>::new());
}

/// R29: an operation stays while its message is to be answered, or while later operations of its thread are to be sent.
#[tokio::test]
async fn an_operation_stays_while_its_message_or_its_thread_is_not_finished() {
    let (_directory, store) = fresh();
    let (waiting, _, _) = accept(&store, &says("U1", "x", &["1"]), 0).await;
    let card = format!("inbox-{}/card", waiting.0);
    store
        .enqueue(
            vec![
                post(&card, Some("1.0"), "Working"),
                post("inbox-99/result", Some("2.0"), "..."),
                post("inbox-99/other", Some("3.0"), "x"),
            ],
            on(0, 0),
        )
        .await
        .unwrap();
    for op in [card.as_str(), "inbox-99/result", "inbox-99/other"] {
        store.record_delivered(op, None, on(0, 1)).await.unwrap();
    }
    let mut filled = fill("inbox-99/fill", "inbox-99/result", "Done");
    filled.place.thread = Some("2.0".to_owned());
    store.enqueue(vec![filled], on(0, 2)).await.unwrap();
    assert_eq!(prune(&store, 5).await.get("operations"), Some(&1));
    let left = store.read(|tx| {
        let mut statement = tx.prepare("SELECT op FROM outbox ORDER BY id")?;
        let left = statement.query_map([], |row| row.get(0))?;
        Ok(left.collect::<rusqlite::Result<Vec<String>>>()?)
    });
    assert_eq!(
        left.await.unwrap(),
        [card.as_str(), "inbox-99/result", "inbox-99/fill"]
    );
    let claim = crate::state::store::fixture::claim(&store, "w").await.unwrap();
    store
        .dismiss(&claim, waiting, Vec::new(), on(5, 0))
        .await
        .unwrap();
    store
        .record_delivered("inbox-99/fill", None, on(5, 0))
        .await
        .unwrap();
    assert_eq!(prune(&store, 9).await.get("operations"), Some(&3));
}

/// R29
#[tokio::test]
async fn a_button_stays_until_the_message_that_pressed_it_is_answered() {
    let (_directory, store) = fresh();
    turn(&store, "Alice", None, on(0, 0)).await;
    let pressed = crate::state::store::fixture::command(&store, "click", "c", 1).await;
    let token = Sha256::digest(format!("Alice:{}", on(0, 0).as_millisecond()).as_bytes()).into();
    let alice = person("Alice");
    let press = || store.take_action(token, &alice, pressed, on(0, 2));
    assert!(matches!(press().await, Ok(PressOutcome::Counted { .. })));
    assert_eq!(prune(&store, 50).await.get("buttons"), None);
    // The message is processed again, and finds its button.
    assert!(matches!(press().await, Ok(PressOutcome::Counted { .. })));
    store
        .finish_command(pressed, Vec::new(), on(50, 0))
        .await
        .unwrap();
    assert_eq!(prune(&store, 60).await.get("buttons"), Some(&1));
}

/// R20, R29: a row from a time when the clock was far ahead does not protect later rows.
#[tokio::test]
async fn a_row_dated_in_the_future_does_not_keep_older_rows_from_pruning() {
    let (_directory, store) = fresh();
    turn(&store, "Ahead", None, on(5_000, 0)).await;
    for name in ["U1", "U2", "U3"] {
        turn(&store, name, None, on(0, 0)).await;
    }
    turn(&store, "Newest", None, on(100, 0)).await;
    let gone = prune(&store, 101).await;
    let of = |kind| gone.get(kind).copied();
    assert_eq!(
        (of("messages"), of("usage"), of("operations")),
        (Some(3), Some(3), Some(3)),
        "{gone:?}"
    );
    assert_eq!(of("audit"), Some(4), "{gone:?}");
    is_consistent(&store).await;
}
