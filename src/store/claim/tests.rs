//! Who works on a conversation, and what they are told with it.

use crate::model::Inbound;
use crate::store::fixture::{LEASE, accept, answer, at, begin, cost, edits, fresh, says, worker};
use crate::store::{Accepted, Lane, Store, StoreError, TakenUp};
use rusqlite::Transaction;
use std::collections::HashSet;

#[tokio::test]
async fn a_conversation_is_claimed_by_one_worker_until_the_lease_ends() {
    let (_directory, store) = fresh();
    accept(&store, &says("U1", "x", &["1"]), 0).await;
    let first = store.claim(&worker("w1"), at(0)).await.unwrap().unwrap();
    assert_eq!(store.claim(&worker("w2"), at(59)).await, Ok(None));
    store.renew(&first, at(30), LEASE).await.unwrap();
    assert_eq!(store.claim(&worker("w2"), at(60)).await, Ok(None));
    let second = store.claim(&worker("w2"), at(90)).await.unwrap().unwrap();
    assert_eq!(
        (second.conversation, second.fence),
        (first.conversation, first.fence + 1)
    );
    assert_eq!(store.renew(&first, at(91), LEASE).await, Err(StoreError::Fenced));
    assert_eq!(store.release(&first, at(91)).await, Err(StoreError::Fenced));
    assert_eq!(store.work(&first, 40).await.unwrap_err(), StoreError::Fenced);
    store.release(&second, at(91)).await.unwrap();
    assert!(store.claim(&worker("w1"), at(91)).await.unwrap().is_some());
}

#[tokio::test]
async fn many_workers_never_share_a_claim_and_the_oldest_goes_first() {
    let (_directory, store) = fresh();
    for number in 0..20 {
        let (name, delivery) = (format!("U{number}"), format!("m{number}"));
        accept(&store, &says(&name, "x", &[&delivery]), 100 - number).await;
    }
    let oldest = store.claim(&worker("w"), at(200)).await.unwrap().unwrap();
    assert_eq!(
        store.conversation(oldest.conversation).await.unwrap().key.user.id,
        "U19"
    );
    let workers = (0..40).map(|number| {
        let store = store.clone();
        tokio::spawn(async move {
            store
                .claim(&worker(&format!("w{number}")), at(200))
                .await
                .unwrap()
        })
    });
    let mut claimed = vec![oldest.conversation];
    for claim in workers.collect::<Vec<_>>() {
        claimed.extend(claim.await.unwrap().map(|claim| claim.conversation));
    }
    assert_eq!(claimed.len(), 20);
    assert_eq!(claimed.iter().collect::<HashSet<_>>().len(), 20);
}

/// What somebody who has nothing to do is given with a message.
async fn taken_up(store: &Store, inbound: &Inbound, lane: Lane, second: i64) -> Option<TakenUp> {
    let (idle, at) = (worker("idle"), at(second));
    match store.accept(inbound, lane, 20, Some(&idle), at).await.unwrap() {
        Accepted::Stored { taken_up, .. } => taken_up,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_message_is_taken_up_as_it_arrives_by_one_and_with_what_a_claim_would_find() {
    let (_directory, store) = fresh();
    let first = taken_up(&store, &says("U1", "hello", &["1"]), Lane::Turn, 0)
        .await
        .unwrap();
    assert_eq!(store.claim(&worker("w"), at(0)).await, Ok(None));
    let told = first.work.unwrap();
    let found = store.work(&first.claim, 40).await.unwrap().unwrap();
    assert_eq!(format!("{told:?}"), format!("{found:?}"));
    // Somebody works on it: what comes now waits.
    assert!(
        taken_up(&store, &says("U1", "more", &["2"]), Lane::Turn, 1)
            .await
            .is_none()
    );
    assert!(
        taken_up(&store, &says("U2", "help", &["3"]), Lane::Command, 1)
            .await
            .is_none()
    );
    // The lease was not given back: nobody has it before it ends.
    store
        .dismiss(&first.claim, told.inbox, Vec::new(), at(2))
        .await
        .unwrap();
    let behind = store.work(&first.claim, 40).await.unwrap().unwrap();
    store
        .dismiss(&first.claim, behind.inbox, Vec::new(), at(2))
        .await
        .unwrap();
    assert!(
        taken_up(&store, &says("U1", "third", &["4"]), Lane::Turn, 3)
            .await
            .is_none()
    );
    store.release(&first.claim, at(4)).await.unwrap();
    // It waits for a claim already, and what comes behind it does not overtake it.
    assert!(
        taken_up(&store, &says("U1", "fourth", &["5"]), Lane::Turn, 5)
            .await
            .is_none()
    );
    let claim = store.claim(&worker("w"), at(5)).await.unwrap().unwrap();
    assert_eq!(claim.fence, first.claim.fence + 1);
}

#[tokio::test]
async fn a_later_message_of_an_idle_conversation_is_taken_up_under_a_new_fence() {
    let (_directory, store) = fresh();
    let (old, inbox, _) = begin(&store, "U1", 0).await;
    store.dismiss(&old, inbox, Vec::new(), at(1)).await.unwrap();
    store.release(&old, at(1)).await.unwrap();
    let taken = taken_up(&store, &says("U1", "again", &["2"]), Lane::Turn, 2)
        .await
        .unwrap();
    assert_eq!(
        (taken.claim.conversation, taken.claim.fence),
        (old.conversation, old.fence + 1)
    );
    assert_eq!(store.renew(&old, at(3), LEASE).await, Err(StoreError::Fenced));
    assert_eq!(store.claim(&worker("w"), at(61)).await, Ok(None));
    assert_eq!(
        store.claim(&worker("w"), at(62)).await.unwrap().unwrap().fence,
        taken.claim.fence + 1
    );
}

/// A message that goes on with what was said before is taken up with that, if it is little.
#[tokio::test]
async fn what_a_message_goes_on_with_is_told_with_it_unless_that_is_much_or_edited() {
    let long = "x".repeat(super::AT_HAND_BYTES_MAX);
    let edited = edits(&[("a", Some(b"x"))]);
    let cases = [
        ("short", None, true),
        (&long, None, false),
        ("short", Some(edited), false),
    ];
    for (said, edited, is_told) in cases {
        let (_directory, store) = fresh();
        let (claim, inbox, turn) = begin(&store, "U1", 0).await;
        store
            .record_step(&claim, turn, &answer(said), &cost(1), edited.as_ref(), at(1))
            .await
            .unwrap();
        store.dismiss(&claim, inbox, Vec::new(), at(1)).await.unwrap();
        store.release(&claim, at(1)).await.unwrap();
        let next = taken_up(&store, &says("U1", "and now?", &["2"]), Lane::Turn, 2)
            .await
            .unwrap();
        let found = store.work(&next.claim, 40).await.unwrap().unwrap();
        assert_eq!(found.history.turns()[0].steps().len(), 1);
        let told = next.work.map(|work| format!("{work:?}"));
        assert_eq!(told, is_told.then(|| format!("{found:?}")));
    }
}

#[tokio::test]
async fn a_message_is_taken_whatever_cannot_be_read_of_what_was_said_before() {
    let (_directory, store) = fresh();
    let (claim, inbox, turn) = begin(&store, "U1", 0).await;
    store
        .record_step(&claim, turn, &answer("x"), &cost(1), None, at(1))
        .await
        .unwrap();
    store.dismiss(&claim, inbox, Vec::new(), at(1)).await.unwrap();
    store.release(&claim, at(1)).await.unwrap();
    let damage = |tx: &Transaction<'_>| Ok(tx.execute("UPDATE step SET step = '{'", [])?);
    store.write(damage).await.unwrap();
    let next = taken_up(&store, &says("U1", "and now?", &["2"]), Lane::Turn, 2).await;
    let TakenUp { claim, work } = next.unwrap();
    assert!(work.is_none());
    let told = store.work(&claim, 40).await.unwrap_err();
    assert!(
        matches!(told, StoreError::Unreadable { what: "step", .. }),
        "{told}"
    );
}
