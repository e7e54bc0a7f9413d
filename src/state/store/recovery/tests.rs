//! Tests of recovery: which messages a crash counts against.

use crate::base::model::InboxId;
use crate::state::store::fixture::{accept, at, claim, command, fresh, says, worker};
use crate::state::store::{Claimable, Crashes, Store};
use std::path::Path;
use tempfile::TempDir;

/// Simulates a crash of a process that works on as many of the oldest messages as allowed.
async fn crash(directory: &Path) {
    let store = Store::open(directory).unwrap();
    store.begin_work().await.unwrap();
    let mut suspects = true;
    let claimable = |suspects| Claimable {
        hooks: true,
        suspects,
    };
    while let Some(claimed) = store.claim(&worker("w"), claimable(suspects)).await.unwrap() {
        suspects &= !claimed.is_suspect;
    }
}

async fn crashes(directory: &Path, inbox: InboxId) -> (u32, u32) {
    let store = Store::open(directory).unwrap();
    let row = store.read(move |tx| {
        let sql = "SELECT crashes, own_crashes FROM inbox WHERE id = ?1";
        Ok(tx.query_row(sql, [inbox.0], |row| row.try_into())?)
    });
    row.await.unwrap()
}

async fn messages(users: &[&str]) -> (TempDir, Vec<InboxId>) {
    let (directory, store) = fresh();
    let mut messages = Vec::new();
    for user in users {
        messages.push(accept(&store, &says(user, "x", &[user]), 0).await.0);
    }
    (directory, messages)
}

fn are_too_many((all, own): (u32, u32)) -> bool {
    Crashes { all, own }.are_too_many()
}

/// R3
#[tokio::test]
async fn a_message_that_is_alone_in_work_is_given_up_after_three_ends_of_the_process() {
    let (directory, messages) = messages(&["U1"]).await;
    for ends in 1..=3 {
        crash(directory.path()).await;
        let counted = crashes(directory.path(), messages[0]).await;
        assert_eq!((counted, are_too_many(counted)), ((ends, ends), ends == 3));
    }
}

/// R3: the message that causes crashes is found, and concurrent ones are not given up.
#[tokio::test]
async fn a_message_is_not_given_up_for_crashes_of_a_concurrent_one() {
    let (directory, messages) = messages(&["U1", "U2", "U3"]).await;
    for _ in 0..5 {
        crash(directory.path()).await;
    }
    let mut counted = Vec::new();
    for message in &messages {
        counted.push(crashes(directory.path(), *message).await);
    }
    // Twice together, then the oldest alone.
    assert_eq!(counted, [(5, 3), (2, 0), (2, 0)]);
    let given_up: Vec<bool> = counted.into_iter().map(are_too_many).collect();
    assert_eq!(given_up, [true, false, false]);
}

/// An orderly restart counts against no message, however often it happens. Neither does a command of the operator.
#[tokio::test]
async fn nobody_is_blamed_for_a_stop_in_order() {
    let (directory, messages) = messages(&["U1"]).await;
    for _ in 0..5 {
        let store = Store::open(directory.path()).unwrap();
        store.begin_work().await.unwrap();
        assert!(claim(&store, "w").await.is_some());
        store.end_work().await.unwrap();
        drop(store);
        // Another process opens the database.
        drop(Store::open(directory.path()).unwrap());
    }
    assert_eq!(crashes(directory.path(), messages[0]).await, (0, 0));
}

#[tokio::test]
async fn an_unanswered_command_counts_as_running_at_a_crash() {
    let (directory, messages) = messages(&["U1"]).await;
    let store = Store::open(directory.path()).unwrap();
    let undo = command(&store, "undo", "u", 1).await;
    drop(store);
    crash(directory.path()).await;
    // The turn of its conversation waited for the command, so the command was alone.
    assert_eq!(crashes(directory.path(), undo).await, (1, 1));
    assert_eq!(crashes(directory.path(), messages[0]).await, (0, 0));
    let store = Store::open(directory.path()).unwrap();
    store.finish_command(undo, Vec::new(), at(2)).await.unwrap();
    assert!(claim(&store, "w").await.is_some());
}
