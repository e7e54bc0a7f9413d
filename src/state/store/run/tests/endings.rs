//! Tests of runs that end from outside: with the access of their owner, or because they cannot be read.

use super::{advance, begins, count, created, due, grouped, new, read};
use crate::base::model::{RunConflictRule, RunId, RunStatus, Sender};
use crate::state::store::StoreError;
use crate::state::store::fixture::{at, fresh, person};
use crate::state::store::people::{add_person, revoke};
use crate::state::store::run::NewRun;

/// T06
#[tokio::test]
async fn the_runs_of_a_revoked_person_are_cancelled_with_their_work() {
    let (_directory, store) = fresh();
    let grant = ("editor".to_owned(), "*".to_owned(), vec!["**".to_owned()]);
    let added = store.write(move |tx| add_person(tx, "alice", "operator", &person("U1"), &grant, at(0)));
    let user = added.await.unwrap();
    for second in 0..2 {
        created(&store, grouped(RunConflictRule::Serial), second).await;
    }
    let other = NewRun {
        owner: Sender::of_hook("ci"),
        ..grouped(RunConflictRule::Serial)
    };
    created(&store, other, 2).await;
    advance(&store, RunId(1), begins(RunId(1), 0), 3).await.unwrap();
    assert_eq!(
        read(&store, RunId(1)).await.head.owner_name.as_deref(),
        Some("alice")
    );
    store.write(move |tx| revoke(tx, user, at(4))).await.unwrap();
    let heads = store.runs(|_| true, 10).await.unwrap();
    let statuses: Vec<_> = heads.iter().map(|head| head.status).collect();
    assert_eq!(
        statuses,
        [RunStatus::Running, RunStatus::Cancelled, RunStatus::Cancelled]
    );
    assert_eq!(
        heads[2].why.as_deref(),
        Some("the access of its owner was revoked")
    );
    let stopped = "SELECT COUNT(*) FROM inbox WHERE stopped_by IS NOT NULL";
    assert_eq!(count(&store, stopped).await, 1);
}

#[tokio::test]
async fn an_unreadable_run_is_ended_without_being_read_and_hides_no_other() {
    let (_directory, store) = fresh();
    let id = created(&store, grouped(RunConflictRule::Serial), 0).await.head.id;
    let next = created(&store, grouped(RunConflictRule::Serial), 0).await.head.id;
    let healthy = created(&store, new(&[]), 0).await.head.id;
    advance(&store, id, begins(id, 0), 1).await.unwrap();
    let spoiled = store.write(move |tx| {
        tx.execute(
            "UPDATE run SET owner = 'odd', place = 'odd', due = 1 WHERE id = ?1",
            [id.0],
        )?;
        tx.execute(
            "UPDATE run_step SET status = 'odd' WHERE run = ?1 AND step = 1",
            [id.0],
        )?;
        Ok(())
    });
    spoiled.await.unwrap();
    let unreadable = store.run(id).await.err().unwrap();
    assert!(
        matches!(unreadable, StoreError::Unreadable { .. }) && !unreadable.may_pass(),
        "{unreadable:?}"
    );
    let listed = store.runs(|_| true, 10).await.unwrap();
    let ids: Vec<_> = listed.iter().map(|head| head.id).collect();
    assert_eq!(ids, [healthy, next]);
    assert_eq!(due(&store, 1).await, [id.0, healthy.0]);

    let stopped = store
        .abandon_run(id, "it cannot be read", None, at(2))
        .await
        .unwrap();
    assert_eq!(stopped.map(|stopped| stopped.len()), Some(1));
    // The next run of its group begins, and the driver is done with this one.
    assert_eq!(due(&store, 2).await, [next.0, healthy.0]);
    assert_eq!(read(&store, next).await.head.status, RunStatus::Running);
    let ended = "SELECT COUNT(*) FROM run WHERE status = 'failed' AND why = 'it cannot be read' AND ended_at IS NOT NULL";
    assert_eq!(count(&store, ended).await, 1);
    let steps = "SELECT COUNT(*) FROM run_step WHERE status = 'cancelled' AND ended_at IS NOT NULL";
    assert_eq!(count(&store, steps).await, 3);
    let again = store
        .abandon_run(id, "it cannot be read", None, at(3))
        .await
        .unwrap();
    assert_eq!(again, Some(Vec::new()));
    let audited = "SELECT COUNT(*) FROM audit WHERE line LIKE '%\"run.ended\"%'";
    assert_eq!(count(&store, audited).await, 1);
}
