//! Tests of turns from claim to end, with crashes and competing claims.

use super::{Announcement, FinishedTurn, TurnAnswer, TurnEnd, TurnStart};
use crate::base::model::{ChangeNumber, ContextState, TurnId, Usage, UserId, Verdict, VerdictSource};
use crate::state::store::change::NewRevision;
use crate::state::store::fixture::{
    self, AnswerDraft, EndDraft, accept, answer, at, begin, claim, command, cost, edits, ends, fill, find,
    fresh, named, patch, person, placeholder, post, says, turn,
};
use crate::state::store::people::{self, GrantRow};
use crate::state::store::{
    Claim, ComposedWrite, DiscardOutcome, FileEdits, NewChange, ProspectiveChange, Store, StoreError,
    StoredChange, UndoOutcome,
};
use serde_json::json;

#[tokio::test]
async fn the_end_of_a_turn_is_one_transaction() {
    let (_directory, store) = fresh();
    let (claim, _, id) = begin(&store, "U1", 0).await;
    let FinishedTurn { change, due, .. } = store
        .finish_composed(
            &claim,
            id,
            UserId(1),
            move |_| EndDraft::Answered(Box::new(ends(patch("diff")))),
            at(2),
        )
        .await
        .unwrap();
    let change = change.unwrap();
    assert_eq!(due, None);
    assert_eq!(change.to_string(), "CHG-1");
    assert!(store.work(&claim, 40, usize::MAX).await.unwrap().is_none());
    let due = store.lease_due("slack", at(2), 10).await.unwrap();
    assert_eq!(due[0].op, post("result", None, "CHG-1"));
    let turns = store.turns(claim.conversation, 5).await.unwrap();
    assert_eq!(turns.len(), 1);
    assert_eq!(
        (turns[0].verdict, turns[0].source, turns[0].finished_at),
        (Some(Verdict::Pass), Some(VerdictSource::Verified), Some(at(2)))
    );
    assert_eq!(turns[0].summary, json!({ "files": 1 }));
    assert_eq!(store.audit_lines(1).await.unwrap()[0].0, 1);
    // A second end is an error and changes nothing.
    let again = store
        .finish_composed(
            &claim,
            id,
            UserId(1),
            move |_| EndDraft::Answered(Box::new(ends(patch("other")))),
            at(3),
        )
        .await;
    assert!(matches!(again, Err(StoreError::NotFound(_))), "{again:?}");
    assert_eq!(store.current_change(claim.conversation).await, Ok(Some(change)));
}

#[tokio::test]
async fn a_turn_that_a_stop_of_the_process_cut_short_is_over_and_its_message_waits() {
    let (_directory, store) = fresh();
    let (claim, inbox, id) = begin(&store, "U1", 0).await;
    let paid = cost(70);
    store
        .interrupt_turn(&claim, id, Some(paid.clone()), at(1))
        .await
        .unwrap();
    let work = store.work(&claim, 40, usize::MAX).await.unwrap().unwrap();
    assert_eq!((work.inbox, work.begun), (inbox, 1));
    // The answer is not kept, but its usage is counted.
    assert_eq!(work.usage_before, paid.usage);
    let late = store
        .finish_composed(
            &claim,
            id,
            UserId(1),
            move |_| EndDraft::Answered(Box::new(ends(None))),
            at(2),
        )
        .await;
    assert!(matches!(late, Err(StoreError::NotFound(_))), "{late:?}");
}

/// A commit may lease what it enqueues. The operations are not leased again, and untried ones are due as before.
#[tokio::test]
async fn operations_leased_by_a_commit_are_leased_once_until_released() {
    let (directory, store) = fresh();
    let (claim, _, id) = begin(&store, "U1", 0).await;
    let announce = |leaves: StoredChange<'_>| Announcement {
        ops: vec![post("result", None, &named(leaves)), post("more", None, "later")],
        actions: Vec::new(),
        budget_request: None,
        result: None,
        deliver_now: true,
    };
    let finish = AnswerDraft {
        announce: Box::new(announce),
        ..ends(patch("diff"))
    };
    let FinishedTurn { due: taken, .. } = store
        .finish_composed(
            &claim,
            id,
            UserId(1),
            move |_| EndDraft::Answered(Box::new(finish)),
            at(2),
        )
        .await
        .unwrap();
    let taken = taken.unwrap();
    assert_eq!(taken.len(), 1);
    assert_eq!(
        (&taken[0].op, taken[0].attempts),
        (&post("result", None, "CHG-1"), 0)
    );
    assert_eq!(store.lease_due("slack", at(2), 10).await, Ok(Vec::new()));
    store.release_operation(&taken[0]).await.unwrap();
    assert_eq!(store.lease_due("slack", at(2), 10).await, Ok(taken));
    // A leased post may have been sent. After a crash it is looked up, and its thread waits.
    drop(store);
    let store = Store::open(directory.path()).unwrap();
    let due = store.lease_due("slack", at(3), 10).await.unwrap();
    assert_eq!((due.len(), due[0].ambiguous_since), (1, Some(at(2))));
    assert_eq!(due[0].op, post("result", None, "CHG-1"));
}

/// The grants in the transaction that ends the turn are the ones that count. T06
#[tokio::test]
async fn the_end_of_a_turn_is_decided_by_what_its_person_may_do_in_the_same_transaction() {
    let (_directory, store) = fresh();
    let (claim, _, id) = begin(&store, "U1", 0).await;
    let draft = edits(&[("a", Some(b"draft"))]);
    store
        .record_step(&claim, id, &answer("x"), &cost(1), Some(&draft), at(1))
        .await
        .unwrap();
    let row = ("editor".to_owned(), "*".to_owned(), vec!["dev".to_owned()]);
    let (sender, granted) = (person("U1"), row.clone());
    let user = store
        .write(move |tx| people::add_person(tx, "alice", "operator", &sender, &granted, at(0)))
        .await
        .unwrap();
    // The end was composed while the person had access.
    let prospect = store
        .prospect(claim.conversation, user, patch("diff"))
        .await
        .unwrap();
    let end = composed(&prospect);
    store
        .write(move |tx| people::revoke(tx, user, at(2)))
        .await
        .unwrap();
    let outdated = store.finish_turn(&claim, id, prospect, end, at(3)).await;
    assert!(matches!(outdated, Ok(ComposedWrite::Outdated(_))), "{outdated:?}");
    assert_eq!(store.unsent_count("slack").await, Ok(0));
    let decide = move |grants: Option<&[GrantRow]>| match grants {
        None => EndDraft::Refused(vec![post("result", None, "Access was revoked.")], Some(cost(7))),
        Some(_) => EndDraft::Answered(Box::new(ends(patch("diff")))),
    };
    let ended = store.finish_composed(&claim, id, user, decide, at(3)).await;
    let refused = FinishedTurn {
        verdict: Verdict::Error,
        source: VerdictSource::Harness,
        is_answered: false,
        change: None,
        due: None,
    };
    assert_eq!(ended, Ok(refused));
    let said: Vec<_> = store.lease_due("slack", at(4), 10).await.unwrap();
    assert_eq!(said[0].op, post("result", None, "Access was revoked."));
    assert_eq!(
        (said.len(), store.current_change(claim.conversation).await),
        (1, Ok(None))
    );
    assert_eq!(store.edits(claim.conversation).await, Ok(FileEdits::new()));
    let ended = &store.turns(claim.conversation, 1).await.unwrap()[0];
    assert_eq!(ended.verdict, Some(Verdict::Error));
    // The usage of the model call is counted, and the refusal of the turn is stored.
    assert_eq!(ended.usage.input, 8);
    let audited = store.audit_lines(9).await.unwrap();
    let refused = audited
        .iter()
        .filter(|line| format!("{line:?}").contains("turn.refused"));
    assert_eq!(refused.count(), 1, "{audited:?}");

    store.release(&claim).await.unwrap();
    let (claim, _, id) = begin(&store, "U1", 5).await;
    let seen = row.clone();
    let all = (row.0.clone(), row.1.clone(), vec!["**".to_owned()]);
    let user = store
        .write(move |tx| people::add_person(tx, "alice", "operator", &person("U1"), &all, at(5)))
        .await
        .unwrap();
    // The end was composed while the person had a larger grant.
    let prospect = store
        .prospect(claim.conversation, user, patch("diff"))
        .await
        .unwrap();
    let end = composed(&prospect);
    store
        .write(move |tx| people::set_grant(tx, user, &row))
        .await
        .unwrap();
    let outdated = store.finish_turn(&claim, id, prospect, end, at(6)).await;
    assert!(matches!(outdated, Ok(ComposedWrite::Outdated(_))), "{outdated:?}");
    assert_eq!(store.current_change(claim.conversation).await, Ok(None));
    let decide = move |grants: Option<&[GrantRow]>| {
        assert_eq!(grants, Some([seen].as_slice()));
        EndDraft::Answered(Box::new(AnswerDraft {
            withheld: Some("not yours".to_owned()),
            ..ends(None)
        }))
    };
    let ended = store
        .finish_composed(&claim, id, user, decide, at(6))
        .await
        .unwrap();
    assert!(ended.is_answered && ended.change.is_none());
    let withheld = store.withheld(claim.conversation).await;
    assert_eq!(withheld, Ok(Some("not yours".to_owned())));
}

/// Returns the end of a turn that posts the name of its prospective change.
fn composed(prospect: &ProspectiveChange) -> TurnEnd {
    let answer = TurnAnswer {
        verdict: Verdict::Pass,
        source: VerdictSource::Verified,
        answer: Some(answer("done")),
        cost: None,
        context: ContextState::default(),
        withheld: None,
        leaves_change: false,
        summary: json!({}),
    };
    let announcement = Announcement {
        ops: vec![post("result", None, &named(answer.stored(prospect)))],
        ..Announcement::default()
    };
    TurnEnd::Answered(Box::new(answer), announcement)
}

/// A number whose write fails is free again.
#[tokio::test]
async fn a_number_of_a_failed_write_is_reserved_again() {
    let (_directory, store) = fresh();
    let (claim, _, id) = begin(&store, "U1", 0).await;
    let name = |prospect: &ProspectiveChange| prospect.change().unwrap().change.to_string();
    let read = || store.prospect(claim.conversation, UserId(1), patch("diff"));
    let prospect = read().await.unwrap();
    assert_eq!(name(&prospect), "CHG-1");
    let end = composed(&prospect);
    // The operations of the answer cannot be stored.
    let outbox = |from: &'static str, to: &'static str| {
        store.write(move |tx| Ok(tx.execute_batch(&format!("ALTER TABLE {from} RENAME TO {to}"))?))
    };
    outbox("outbox", "elsewhere").await.unwrap();
    let failed = store.finish_turn(&claim, id, prospect, end, at(1)).await;
    assert!(failed.is_err(), "{failed:?}");
    outbox("elsewhere", "outbox").await.unwrap();
    let prospect = read().await.unwrap();
    assert_eq!(name(&prospect), "CHG-1");
    let end = composed(&prospect);
    let ended = store.finish_turn(&claim, id, prospect, end, at(2)).await.unwrap();
    assert_eq!(ended.stored().change.unwrap().to_string(), "CHG-1");
}

/// A reply is composed before the transaction that stores it. If what it says is no longer true, nothing is stored. T06
#[tokio::test]
async fn an_end_composed_before_a_grant_changed_stores_nothing() {
    let (_directory, store) = fresh();
    let (claim, _, id) = begin(&store, "U1", 0).await;
    let (sender, row) = (person("U1"), ("editor".to_owned(), "*".to_owned(), Vec::new()));
    let user = store
        .write(move |tx| people::add_person(tx, "alice", "operator", &sender, &row, at(0)))
        .await
        .unwrap();
    let read = || store.prospect(claim.conversation, user, patch("diff"));
    let prospect = read().await.unwrap();
    assert!(prospect.grants().is_some());
    let end = composed(&prospect);
    store
        .write(move |tx| people::revoke(tx, user, at(1)))
        .await
        .unwrap();
    let ended = store.finish_turn(&claim, id, prospect, end, at(2)).await;
    let Ok(ComposedWrite::Outdated(basis)) = ended else {
        panic!("{ended:?}")
    };
    assert_eq!(store.unsent_count("slack").await, Ok(0));
    assert_eq!(store.current_change(claim.conversation).await, Ok(None));
    assert_eq!(
        store.turns(claim.conversation, 1).await.unwrap()[0].finished_at,
        None
    );

    let prospect = store.prospective_change(basis, patch("diff"));
    assert_eq!(prospect.grants(), None);
    let end = TurnEnd::Refused(vec![post("result", None, "Access was revoked.")], None);
    let ended = store.finish_turn(&claim, id, prospect, end, at(3)).await.unwrap();
    assert!(!ended.stored().is_answered);
    let due = store.lease_due("slack", at(4), 10).await.unwrap();
    assert_eq!(due[0].op, post("result", None, "Access was revoked."));
}

#[tokio::test]
async fn an_end_composed_before_the_open_change_was_revised_stores_nothing() {
    let (_directory, store) = fresh();
    turn(&store, 0, &[("a", Some(b"one"))], patch("one")).await;
    let id = find(&store, &says("U1", "", &[])).await.unwrap();
    let prospect = store.prospect(id, UserId(1), patch("two")).await.unwrap();
    assert_eq!(prospect.change().unwrap().change.to_string(), "CHG-1 rev 2");
    turn(&store, 1, &[("a", Some(b"other"))], patch("other")).await;
    let (claim, _, running) = begin(&store, "U1", 2).await;
    let end = composed(&prospect);
    let ended = store.finish_turn(&claim, running, prospect, end, at(3)).await;
    assert!(matches!(ended, Ok(ComposedWrite::Outdated(_))), "{ended:?}");
    let open = store.current_change(id).await.unwrap().unwrap();
    assert_eq!(open.to_string(), "CHG-1 rev 2");
}

#[tokio::test]
async fn replies_composed_at_the_same_time_name_different_changes() {
    let (_directory, store) = fresh();
    let (first, _, one) = begin(&store, "U1", 0).await;
    let (second, _, two) = begin(&store, "U2", 0).await;
    let read = |claim: Claim| store.prospect(claim.conversation, UserId(1), patch("diff"));
    let name = |prospect: &ProspectiveChange| prospect.change().unwrap().change.to_string();
    let unused = read(first).await.unwrap();
    assert_eq!(name(&unused), "CHG-1");
    let later = read(second).await.unwrap();
    assert_eq!(name(&later), "CHG-2");
    // A number that is not stored is free again.
    drop(unused);
    let earlier = read(first).await.unwrap();
    assert_eq!(name(&earlier), "CHG-1");
    for (claim, id, prospect, expected) in [(second, two, later, "CHG-2"), (first, one, earlier, "CHG-1")] {
        let end = composed(&prospect);
        let ended = store.finish_turn(&claim, id, prospect, end, at(1)).await.unwrap();
        assert_eq!(ended.stored().change.unwrap().to_string(), expected);
        store.release(&claim).await.unwrap();
    }
    let next = turn(&store, 2, &[("a", Some(b"1"))], patch("other")).await;
    assert_eq!(next.unwrap().to_string(), "CHG-1 rev 2");
}

#[tokio::test]
async fn a_reserved_number_that_is_stored_by_now_is_not_used() {
    let (_directory, store) = fresh();
    let (first, _, one) = begin(&store, "U1", 0).await;
    let prospect = store
        .prospect(first.conversation, UserId(1), patch("one"))
        .await
        .unwrap();
    let (second, _, _) = begin(&store, "U2", 0).await;
    let other = second.conversation;
    store
        .write(move |tx| {
            let first = NewRevision::first(patch("two").unwrap(), ChangeNumber(1));
            first.store(tx, other, at(1))
        })
        .await
        .unwrap();
    let end = composed(&prospect);
    let ended = store.finish_turn(&first, one, prospect, end, at(2)).await;
    assert!(matches!(ended, Ok(ComposedWrite::Outdated(_))), "{ended:?}");
    let prospect = store
        .prospect(first.conversation, UserId(1), patch("one"))
        .await
        .unwrap();
    assert_eq!(prospect.change().unwrap().change.to_string(), "CHG-2");
}

/// The last operations of a turn are marked in the transaction that ends it. A thread that is busy then continues
/// without another commit. R1
#[tokio::test]
async fn a_result_behind_a_card_that_is_on_its_way_is_sent_once_whenever_the_process_ends() {
    let thread = Some("1.0");
    for (is_sent, in_order) in [(true, false), (false, false), (false, true)] {
        let (directory, store) = fresh();
        let (claim, _, id) = begin(&store, "U1", 0).await;
        store
            .enqueue(vec![post("card", thread, "Working")], at(1))
            .await
            .unwrap();
        let card = store.lease_due("slack", at(1), 1).await.unwrap().remove(0);
        let announce = move |_: StoredChange<'_>| Announcement {
            ops: vec![
                placeholder("result", thread, "Ready:"),
                fill("result/fill", "result", "CHG-1"),
                post("file", thread, "a file"),
            ],
            actions: Vec::new(),
            budget_request: None,
            result: None,
            deliver_now: true,
        };
        let finish = AnswerDraft {
            announce: Box::new(announce),
            ..ends(patch("diff"))
        };
        let FinishedTurn { due: taken, .. } = store
            .finish_composed(
                &claim,
                id,
                UserId(1),
                move |_| EndDraft::Answered(Box::new(finish)),
                at(2),
            )
            .await
            .unwrap();
        assert_eq!(taken, Some(Vec::new()));
        let state = |op: &'static str| {
            store.read(move |tx| {
                let state = "SELECT state FROM outbox WHERE op = ?1";
                Ok(tx.query_row(state, [op], |row| row.get::<_, String>(0))?)
            })
        };
        if is_sent {
            let next = store
                .record_delivered_and_lease(vec![(card.op, None)], at(3))
                .await
                .unwrap();
            assert_eq!(next[0].op.id, "result");
            assert_eq!(store.lease_due("slack", at(3), 10).await, Ok(Vec::new()));
        }
        let expected = if is_sent { "sending" } else { "ready" };
        assert_eq!(state("result").await.unwrap(), expected);
        assert_eq!(state("file").await.unwrap(), "waiting");
        if in_order {
            store.reset_ready("slack").await.unwrap();
            assert_eq!(state("result").await.unwrap(), "waiting");
            continue;
        }
        drop(store);
        // It is unknown whether the operation was sent, so it is looked up.
        let store = Store::open(directory.path()).unwrap();
        let mut leased = Vec::new();
        let mut due = store.lease_due("slack", at(4), 10).await.unwrap();
        while !due.is_empty() {
            leased.extend(due.iter().map(|due| (due.op.id.clone(), due.ambiguous_since)));
            let sent = due.into_iter().map(|due| (due.op, None)).collect();
            due = store.record_delivered_and_lease(sent, at(5)).await.unwrap();
        }
        // It may have been sent since it was leased, or since it was ready.
        let since = if is_sent { at(3) } else { at(2) };
        let (card, result) = (("card", Some(at(1))), ("result", Some(since)));
        let rest = [("result/fill", None), ("file", None)];
        let ambiguous = if is_sent { vec![result] } else { vec![card, result] };
        let expected = ambiguous.into_iter().chain(rest);
        let expected: Vec<_> = expected.map(|(op, since)| (op.to_owned(), since)).collect();
        assert_eq!(leased, expected);
    }
}

#[tokio::test]
async fn a_worker_that_lost_its_claim_can_write_nothing() {
    let (_directory, store) = fresh();
    let (old, inbox, id) = begin(&store, "U1", 0).await;
    store.release(&old).await.unwrap();
    let new = claim(&store, "w2").await.unwrap();
    let fenced = Err(StoreError::Fenced);
    let files = edits(&[("a", Some(b"late"))]);
    assert_eq!(
        store
            .record_step(&old, id, &answer("late"), &cost(1), Some(&files), at(62))
            .await,
        fenced
    );
    assert_eq!(
        store
            .finish_composed(
                &old,
                id,
                UserId(1),
                move |_| EndDraft::Answered(Box::new(ends(None))),
                at(62)
            )
            .await,
        Err(StoreError::Fenced)
    );
    let begun = store.begin_turn(&old, inbox, TurnStart::quiet("x"), at(62)).await;
    assert_eq!(begun.unwrap_err(), StoreError::Fenced);
    assert_eq!(store.dismiss(&old, inbox, Vec::new(), at(62)).await, fenced);
    assert_eq!(store.edits(new.conversation).await, Ok(edits(&[])));
    assert_eq!(
        store
            .work(&new, 40, usize::MAX)
            .await
            .unwrap()
            .map(|work| work.inbox),
        Some(inbox)
    );
}

#[tokio::test]
async fn a_crash_leaves_the_message_and_the_edits_and_no_claim() {
    let (directory, store) = fresh();
    let (claim, inbox, id) = begin(&store, "U1", 0).await;
    let files = edits(&[("a", Some(b"half"))]);
    store
        .record_step(&claim, id, &answer("thinking"), &cost(1), Some(&files), at(1))
        .await
        .unwrap();
    drop(store);
    let store = Store::open(directory.path()).unwrap();
    let next = fixture::claim(&store, "w2").await.unwrap();
    assert_eq!(
        next,
        Claim {
            conversation: claim.conversation,
            fence: claim.fence + 1
        }
    );
    assert_eq!(
        store
            .work(&next, 40, usize::MAX)
            .await
            .unwrap()
            .map(|work| work.inbox),
        Some(inbox)
    );
    assert_eq!(store.edits(next.conversation).await, Ok(files));
    store
        .begin_turn(&next, inbox, TurnStart::quiet("please"), at(2))
        .await
        .unwrap();
    let cut = store.turns(next.conversation, 5).await.unwrap().pop().unwrap();
    assert_eq!(
        (cut.id, cut.verdict, cut.source),
        (id, Some(Verdict::Error), Some(VerdictSource::Harness))
    );
}

#[tokio::test]
async fn a_change_keeps_its_number_while_it_is_open() {
    let (_directory, store) = fresh();
    let mut shown = Vec::new();
    for (second, text) in [(0, "one"), (1, "one"), (2, "two"), (3, "one")] {
        let change = turn(&store, second, &[("a", Some(text.as_bytes()))], patch(text)).await;
        shown.push(change.unwrap().to_string());
    }
    assert_eq!(shown, ["CHG-1", "CHG-1", "CHG-1 rev 2", "CHG-1 rev 3"]);
    let id = find(&store, &says("U1", "", &[])).await.unwrap();
    let open = store.current_change(id).await.unwrap().unwrap();
    let discard = command(&store, "discard", "c", 4).await;
    let discarded = DiscardOutcome::Change {
        name: Some("CHG-1 rev 3".to_owned()),
    };
    assert_eq!(store.discard(id, discard, None, at(4)).await, Ok(discarded));
    assert_eq!(store.current_change(id).await, Ok(None));
    assert_eq!(store.edits(id).await, Ok(edits(&[])));
    let undo = command(&store, "undo", "u", 5).await;
    assert_eq!(store.undo(id, undo, None, at(5)).await, Ok(UndoOutcome::Nothing));
    let next = turn(&store, 6, &[("a", Some(b"one"))], patch("one"))
        .await
        .unwrap();
    assert_eq!(next.to_string(), "CHG-2");
    assert_eq!(store.change(open.number).await, Ok(Some((open, id))));
}

/// A changed secret makes a new revision, although both revisions show the same mask.
#[tokio::test]
async fn a_changed_masked_value_makes_a_new_revision() {
    let (_directory, store) = fresh();
    let mut shown = Vec::new();
    for (second, content) in [(0, 1), (1, 1), (2, 2)] {
        let masked = patch("+password: ⟦secret:1⟧").map(|change| NewChange {
            content: [content; 32],
            ..change
        });
        let change = turn(&store, second, &[("a", Some(&[content]))], masked).await;
        shown.push(change.unwrap().to_string());
    }
    assert_eq!(shown, ["CHG-1", "CHG-1", "CHG-1 rev 2"]);
}

#[tokio::test]
async fn edits_stay_with_a_new_base_and_go_with_another_repository() {
    let (_directory, store) = fresh();
    turn(&store, 0, &[("a", Some(b"1"))], patch("one")).await;
    let id = find(&store, &says("U1", "", &[])).await.unwrap();
    store.bind(id, "infra", "a1").await.unwrap();
    store.bind(id, "infra", "b2").await.unwrap();
    assert_eq!(store.edits(id).await, Ok(edits(&[("a", Some(b"1"))])));
    store.bind(id, "apps", "c3").await.unwrap();
    assert_eq!(store.edits(id).await, Ok(edits(&[])));
    assert_eq!(store.current_change(id).await, Ok(None));
    let bound = store.conversation(id).await.unwrap();
    assert_eq!(
        (bound.repository.as_deref(), bound.base.as_deref()),
        (Some("apps"), Some("c3"))
    );
}

#[tokio::test]
async fn a_message_can_be_answered_without_a_turn() {
    let (_directory, store) = fresh();
    let (inbox, id, _) = accept(&store, &says("U1", "x", &["1"]), 0).await;
    let claim = fixture::claim(&store, "w").await.unwrap();
    store
        .dismiss(
            &claim,
            inbox,
            vec![post("no", None, "Access was revoked.")],
            at(1),
        )
        .await
        .unwrap();
    store
        .dismiss(
            &claim,
            inbox,
            vec![post("no2", None, "Access was revoked.")],
            at(1),
        )
        .await
        .unwrap();
    store.release(&claim).await.unwrap();
    assert_eq!(fixture::claim(&store, "w").await, None);
    assert_eq!(store.unsent_count("slack").await, Ok(1));
    assert_eq!(store.turns(id, 5).await, Ok(Vec::new()));
}

#[tokio::test]
async fn the_tokens_of_a_turn_add_up() {
    let (_directory, store) = fresh();
    let (claim, _, id) = begin(&store, "U1", 0).await;
    store
        .record_step(&claim, id, &answer("a"), &cost(10), None, at(1))
        .await
        .unwrap();
    let usage = store.turns(claim.conversation, 1).await.unwrap()[0].usage;
    assert_eq!(
        usage,
        Usage {
            input: 10,
            output: 1,
            ..Usage::default()
        }
    );
    assert_eq!(
        store.turns(claim.conversation, 1).await.unwrap()[0].id,
        TurnId(id.0)
    );
}

#[tokio::test]
async fn nothing_follows_the_final_answer_of_a_turn() {
    let (_directory, store) = fresh();
    let (claim, _, id) = begin(&store, "U1", 0).await;
    let (step, cost) = (answer("done"), cost(1));
    store
        .record_step(&claim, id, &step, &cost, None, at(1))
        .await
        .unwrap();
    let late = store
        .record_step(&claim, id, &answer("late"), &cost, None, at(2))
        .await;
    assert!(matches!(late, Err(StoreError::NotFound(_))), "{late:?}");
    store
        .finish_composed(
            &claim,
            id,
            UserId(1),
            move |_| EndDraft::Answered(Box::new(ends(None))),
            at(3),
        )
        .await
        .unwrap();
    let history = store.history(claim.conversation).await.unwrap();
    assert_eq!(history.turns()[0].steps().len(), 1);
}
