//! Tests of claims: which worker holds a conversation, and which data it gets.

use crate::base::model::{Inbound, Platform, Sender, UserId};
use crate::state::store::column::json;
use crate::state::store::fixture::{
    AnswerDraft, EndDraft, accept, answer, at, begin, claim, command, cost, edits, ends, fresh, person, room,
    says, worker,
};
use crate::state::store::{AcceptOutcome, Claim, Claimable, DirectClaim, QueueKind, Store, StoreError};
use rusqlite::Transaction;
use std::collections::HashSet;

/// R20: claims use no clock, so a jumping clock cannot give one message to two workers.
#[tokio::test]
async fn a_conversation_is_claimed_by_one_worker_until_it_is_released() {
    let (_directory, store) = fresh();
    accept(&store, &says("U1", "x", &["1"]), 0).await;
    let first = claim(&store, "w1").await.unwrap();
    for worker in ["w1", "w2"] {
        assert_eq!(claim(&store, worker).await, None);
    }
    // Whether much later or earlier: the worker still holds the claim.
    for second in [1_000_000, -1_000_000] {
        let next = says("U1", "y", &[&second.to_string()]);
        assert!(taken_up(&store, &next, QueueKind::Turn, second).await.is_none());
        assert_eq!(claim(&store, "w2").await, None);
    }
    store.release(&first).await.unwrap();
    let second = claim(&store, "w2").await.unwrap();
    assert_eq!(
        (second.conversation, second.fence),
        (first.conversation, first.fence + 1)
    );
    assert_eq!(store.release(&first).await, Err(StoreError::Fenced));
    assert_eq!(
        store.work(&first, 40, usize::MAX).await.unwrap_err(),
        StoreError::Fenced
    );
    store.release(&second).await.unwrap();
    assert!(claim(&store, "w1").await.is_some());
}

#[tokio::test]
async fn many_workers_never_share_a_claim_and_the_oldest_goes_first() {
    let (_directory, store) = fresh();
    for number in 0..20 {
        let (name, delivery) = (format!("U{number}"), format!("m{number}"));
        // Timestamps run backwards; arrival order counts.
        accept(&store, &says(&name, "x", &[&delivery]), 100 - number).await;
    }
    let oldest = claim(&store, "w").await.unwrap();
    assert_eq!(
        store.conversation(oldest.conversation).await.unwrap().key.user.id,
        "U0"
    );
    let workers = (0..40).map(|number| {
        let store = store.clone();
        tokio::spawn(async move { claim(&store, &format!("w{number}")).await })
    });
    let mut claimed = vec![oldest.conversation];
    for claim in workers.collect::<Vec<_>>() {
        claimed.extend(claim.await.unwrap().map(|claim| claim.conversation));
    }
    assert_eq!(claimed.len(), 20);
    assert_eq!(claimed.iter().collect::<HashSet<_>>().len(), 20);
}

/// The person with the fewest active conversations comes first, and no person exceeds their limit.
#[tokio::test]
async fn people_with_the_fewest_running_turns_go_first_and_nobody_exceeds_their_share() {
    let (_directory, store) = fresh();
    let said = |user: &str, number: usize| {
        let mut said = says(user, "x", &[&format!("{user} {number}")]);
        said.place.thread = Some(format!("{user} {number}"));
        said
    };
    for number in 0..10 {
        accept(&store, &said("U1", number), 0).await;
    }
    for number in 0..2 {
        accept(&store, &said("U2", number), 1).await;
    }
    let mut order = Vec::new();
    while let Some(claim) = claim(&store, "w").await {
        let conversation = store.conversation(claim.conversation).await.unwrap();
        order.push(conversation.key.user.id);
    }
    let all_of_one = ["U1"; 6];
    assert_eq!(order, [["U1", "U2", "U1", "U2"].as_slice(), &all_of_one].concat());
    let more = [said("U1", 10), says("U1", "x", &["elsewhere"])];
    for more in &more {
        assert!(taken_up(&store, more, QueueKind::Turn, 2).await.is_none());
    }
    assert!(
        taken_up(&store, &said("U3", 0), QueueKind::Turn, 2)
            .await
            .is_some()
    );
}

/// A person with two accounts has the limit of one person.
#[tokio::test]
async fn a_person_with_two_accounts_has_one_share() {
    let (_directory, store) = fresh();
    let said = |user: &str, number: usize| {
        let mut said = says(user, "x", &[&format!("{user} {number}")]);
        said.place.thread = Some(format!("{user} {number}"));
        said
    };
    let senders = ["U1", "U2", "U3"].map(|user| serde_json::to_string(&says(user, "x", &[]).sender).unwrap());
    let write = move |tx: &Transaction<'_>| {
        for (id, name) in [(1, "alice"), (2, "bob")] {
            tx.execute(
                "INSERT INTO users (id, name, invited_by, created_at) VALUES (?1, ?2, 'cli', 0)",
                rusqlite::params![id, name],
            )?;
        }
        for (sender, user) in senders.iter().zip([1, 1, 2]) {
            tx.execute(
                "INSERT INTO identity (sender, user_id, created_at) VALUES (?1, ?2, 0)",
                rusqlite::params![sender, user],
            )?;
        }
        Ok(())
    };
    store.write(write).await.unwrap();
    for user in ["U1", "U2"] {
        for number in 0..6 {
            accept(&store, &said(user, number), 0).await;
        }
    }
    accept(&store, &said("U3", 0), 1).await;
    let mut order = Vec::new();
    while let Some(claim) = claim(&store, "w").await {
        let conversation = store.conversation(claim.conversation).await.unwrap();
        order.push(conversation.key.user.id);
    }
    // At most eight of one person, even if the others have waited less.
    assert_eq!(order.len(), 9, "{order:?}");
    assert_eq!((order[0].as_str(), order[1].as_str()), ("U1", "U3"));
    for more in [said("U1", 10), said("U2", 10)] {
        assert!(taken_up(&store, &more, QueueKind::Turn, 2).await.is_none());
    }
    assert!(
        taken_up(&store, &said("U3", 1), QueueKind::Turn, 2)
            .await
            .is_some()
    );
}

/// A person who joined the conversation of another uses their own share there.
#[tokio::test]
async fn a_turn_counts_for_the_person_whose_message_it_answers() {
    let (_directory, store) = fresh();
    let said = |user: &str, number: usize| {
        let mut said = says(user, "x", &[&format!("{user} {number}")]);
        said.place.thread = Some(format!("{user} {number}"));
        said
    };
    let end = async |claim: &Claim| {
        let inbox = store.next_message(claim).await.unwrap().unwrap();
        store.dismiss(claim, inbox, Vec::new(), at(1)).await.unwrap();
        store.release(claim).await.unwrap();
    };
    let first = taken_up(&store, &said("U1", 0), QueueKind::Turn, 0)
        .await
        .unwrap();
    end(&first.claim).await;
    let (shared, place) = (first.claim.conversation, said("U1", 0).place);
    let member = (json(&place).unwrap(), json(&person("U2")).unwrap());
    let join = move |tx: &Transaction<'_>| {
        let sql = "INSERT INTO thread_member (place, sender, conversation, joined_at) VALUES (?1, ?2, ?3, 0)";
        Ok(tx.execute(sql, rusqlite::params![member.0, member.1, shared.0])?)
    };
    store.write(join).await.unwrap();
    // U1 has their whole share.
    let mut own = Vec::new();
    for number in 1..=8 {
        own.extend(taken_up(&store, &said("U1", number), QueueKind::Turn, 2).await);
    }
    assert_eq!(own.len(), 8);
    let joined = |delivery: &str| Inbound {
        place: place.clone(),
        ..says("U2", "x", &[delivery])
    };
    let direct = taken_up(&store, &joined("direct"), QueueKind::Turn, 3)
        .await
        .unwrap();
    assert_eq!(direct.claim.conversation, shared);
    end(&direct.claim).await;
    accept(&store, &joined("waits"), 4).await;
    assert_eq!(claim(&store, "w").await.unwrap().conversation, shared);
    // It is one of eight of U2, and none of U1.
    end(&own[0].claim).await;
    assert!(
        taken_up(&store, &said("U1", 9), QueueKind::Turn, 5)
            .await
            .is_some()
    );
    for number in 1..=8 {
        let more = taken_up(&store, &said("U2", number), QueueKind::Turn, 5).await;
        assert_eq!(more.is_some(), number < 8, "{number}");
    }
    assert_eq!(claim(&store, "w").await, None);
}

/// A command that changes the workspace came before the message and takes effect first.
#[tokio::test]
async fn no_turn_begins_before_an_earlier_command_has_changed_what_it_starts_from() {
    let (_directory, store) = fresh();
    let (old, inbox, _) = begin(&store, "U1", 0).await;
    store.dismiss(&old, inbox, Vec::new(), at(1)).await.unwrap();
    store.release(&old).await.unwrap();
    let discard = command(&store, "discard", "c", 2).await;
    let next = says("U1", "again", &["2"]);
    assert!(taken_up(&store, &next, QueueKind::Turn, 3).await.is_none());
    assert_eq!(claim(&store, "w").await, None);
    store
        .discard(old.conversation, discard, None, at(4))
        .await
        .unwrap();
    // The command is not answered yet, but its effect is stored.
    assert_eq!(claim(&store, "w").await.unwrap().conversation, old.conversation);
}

/// Hook events leave slots for people, and so do messages that may have caused a crash.
#[tokio::test]
async fn a_claim_skips_hook_events_and_suspects_without_a_free_slot_for_them() {
    let (_directory, store) = fresh();
    let mut event = says("release", "x", &["e1"]);
    event.sender.platform = Platform::Hook;
    accept(&store, &event, 0).await;
    let mut of_service = says("deploy", "x", &["s1"]);
    of_service.sender = Sender::of_service("deploy");
    accept(&store, &of_service, 0).await;
    let (suspect, _, _) = accept(&store, &says("U1", "x", &["1"]), 1).await;
    accept(&store, &says("U2", "x", &["2"]), 2).await;
    let sql = "UPDATE inbox SET crashes = 2 WHERE id = ?1";
    store
        .write(move |tx| Ok(tx.execute(sql, [suspect.0])?))
        .await
        .unwrap();
    let claim_kind = async |hooks, suspects| {
        let claimable = Claimable { hooks, suspects };
        let claimed = store.claim(&worker("w"), claimable).await.unwrap();
        claimed.map(|claimed| (claimed.is_hook, claimed.is_suspect))
    };
    assert_eq!(claim_kind(false, false).await, Some((false, false)));
    assert_eq!(claim_kind(false, false).await, None);
    assert_eq!(claim_kind(false, true).await, Some((false, true)));
    for _ in 0..2 {
        assert_eq!(claim_kind(true, false).await, Some((true, false)));
    }
    assert_eq!(claim_kind(true, true).await, None);
}

/// Accepts a message for an idle worker, and returns the direct claim.
async fn taken_up(
    store: &Store,
    inbound: &Inbound,
    queue_kind: QueueKind,
    second: i64,
) -> Option<DirectClaim> {
    let (idle, at) = (worker("idle"), at(second));
    match store
        .accept(inbound, queue_kind, room(20), Some(&idle), at)
        .await
        .unwrap()
    {
        AcceptOutcome::Stored { direct_claim, .. } => direct_claim,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_arriving_message_is_claimed_at_once_by_one_worker_with_the_same_work() {
    let (_directory, store) = fresh();
    let first = taken_up(&store, &says("U1", "hello", &["1"]), QueueKind::Turn, 0)
        .await
        .unwrap();
    assert_eq!(claim(&store, "w").await, None);
    let work = first.work.unwrap();
    let found = store.work(&first.claim, 40, usize::MAX).await.unwrap().unwrap();
    assert_eq!(format!("{work:?}"), format!("{found:?}"));
    // The conversation is claimed, so further messages wait.
    assert!(
        taken_up(&store, &says("U1", "more", &["2"]), QueueKind::Turn, 1)
            .await
            .is_none()
    );
    assert!(
        taken_up(&store, &says("U2", "help", &["3"]), QueueKind::Command, 1)
            .await
            .is_none()
    );
    // The claim was not released.
    store
        .dismiss(&first.claim, work.inbox, Vec::new(), at(2))
        .await
        .unwrap();
    let behind = store.work(&first.claim, 40, usize::MAX).await.unwrap().unwrap();
    store
        .dismiss(&first.claim, behind.inbox, Vec::new(), at(2))
        .await
        .unwrap();
    assert!(
        taken_up(&store, &says("U1", "third", &["4"]), QueueKind::Turn, 3)
            .await
            .is_none()
    );
    store.release(&first.claim).await.unwrap();
    // The conversation already waits for a claim, and later messages do not overtake it.
    assert!(
        taken_up(&store, &says("U1", "fourth", &["5"]), QueueKind::Turn, 5)
            .await
            .is_none()
    );
    let claim = claim(&store, "w").await.unwrap();
    assert_eq!(claim.fence, first.claim.fence + 1);
}

#[tokio::test]
async fn a_later_message_of_an_idle_conversation_is_claimed_under_a_new_fence() {
    let (_directory, store) = fresh();
    let (old, inbox, _) = begin(&store, "U1", 0).await;
    store.dismiss(&old, inbox, Vec::new(), at(1)).await.unwrap();
    store.release(&old).await.unwrap();
    let taken = taken_up(&store, &says("U1", "again", &["2"]), QueueKind::Turn, 2)
        .await
        .unwrap();
    assert_eq!(
        (taken.claim.conversation, taken.claim.fence),
        (old.conversation, old.fence + 1)
    );
    assert_eq!(store.release(&old).await, Err(StoreError::Fenced));
    assert_eq!(claim(&store, "w").await, None);
    store.release(&taken.claim).await.unwrap();
    assert_eq!(claim(&store, "w").await.unwrap().fence, taken.claim.fence + 1);
}

/// A follow-up message is claimed with its history if that is short.
#[tokio::test]
async fn a_claim_includes_a_short_history_but_not_a_long_or_edited_one() {
    let long = "x".repeat(super::INLINE_HISTORY_BYTES_MAX);
    let edited = edits(&[("a", Some(b"x"))]);
    let cases = [
        ("short", None, true),
        (&long, None, false),
        ("short", Some(edited), false),
    ];
    for (said, edited, has_work) in cases {
        let (_directory, store) = fresh();
        let (claim, _, turn) = begin(&store, "U1", 0).await;
        store
            .record_step(&claim, turn, &answer(said), &cost(1), edited.as_ref(), at(1))
            .await
            .unwrap();
        let finish = AnswerDraft {
            answer: None,
            ..ends(None)
        };
        store
            .finish_composed(
                &claim,
                turn,
                UserId(1),
                move |_| EndDraft::Answered(Box::new(finish)),
                at(1),
            )
            .await
            .unwrap();
        store.release(&claim).await.unwrap();
        let next = taken_up(&store, &says("U1", "and now?", &["2"]), QueueKind::Turn, 2)
            .await
            .unwrap();
        let found = store.work(&next.claim, 40, usize::MAX).await.unwrap().unwrap();
        assert_eq!(found.history.turns()[0].steps().len(), 1);
        let work = next.work.map(|work| format!("{work:?}"));
        assert_eq!(work, has_work.then(|| format!("{found:?}")));
    }
}

#[tokio::test]
async fn a_message_is_claimed_even_if_its_history_is_unreadable() {
    let (_directory, store) = fresh();
    let (claim, inbox, turn) = begin(&store, "U1", 0).await;
    store
        .record_step(&claim, turn, &answer("x"), &cost(1), None, at(1))
        .await
        .unwrap();
    store.dismiss(&claim, inbox, Vec::new(), at(1)).await.unwrap();
    store.release(&claim).await.unwrap();
    let damage = |tx: &Transaction<'_>| Ok(tx.execute("UPDATE step SET step = '{'", [])?);
    store.write(damage).await.unwrap();
    let next = taken_up(&store, &says("U1", "and now?", &["2"]), QueueKind::Turn, 2).await;
    let DirectClaim { claim, work } = next.unwrap();
    assert!(work.is_none());
    let error = store.work(&claim, 40, usize::MAX).await.unwrap_err();
    assert!(
        matches!(error, StoreError::Unreadable { what: "step", .. }),
        "{error}"
    );
}

/// R20: the waiting order follows arrival, not a clock that ran ahead.
#[tokio::test]
async fn a_message_with_a_future_timestamp_is_claimed_in_order_of_arrival() {
    let (_directory, store) = fresh();
    let day = 24 * 60 * 60;
    let (_, ahead, _) = accept(&store, &says("U1", "x", &["1"]), day).await;
    let (_, later, _) = accept(&store, &says("U2", "x", &["2"]), 0).await;
    let claim = async || {
        store
            .claim(&worker("w"), Claimable::ALL)
            .await
            .unwrap()
            .unwrap()
            .claim
    };
    let first = claim().await;
    assert_eq!(first.conversation, ahead);
    let inbox = store.next_message(&first).await.unwrap().unwrap();
    accept(&store, &says("U1", "again", &["3"]), 1).await;
    store.dismiss(&first, inbox, Vec::new(), at(1)).await.unwrap();
    store.release(&first).await.unwrap();
    assert_eq!(claim().await.conversation, later);
    assert_eq!(claim().await.conversation, ahead);
}
