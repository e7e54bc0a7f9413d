//! Tests of conversations.

use crate::state::store::TurnStart;
use crate::state::store::fixture::{accept, answer, at, begin, cost, fresh, reads, says};
use std::collections::HashSet;

/// A turn reads only as much of a long conversation as the model sees. Earlier parts are not even parsed.
#[tokio::test]
async fn a_turn_starts_from_as_much_as_its_window_shows() {
    let (_directory, store) = fresh();
    let mut last = None;
    for second in 0..6 {
        let (claim, inbox, turn) = begin(&store, "U1", second).await;
        let step = answer(&"x".repeat(1_000));
        store
            .record_step(&claim, turn, &step, &cost(1), None, at(second))
            .await
            .unwrap();
        if second < 5 {
            store
                .dismiss(&claim, inbox, Vec::new(), at(second))
                .await
                .unwrap();
            store.release(&claim).await.unwrap();
        }
        last = Some((claim, turn));
    }
    let (claim, turn) = last.unwrap();
    let spoil = "UPDATE step SET step = 'torn' WHERE turn = ?1";
    let oldest = turn.0 - 5;
    store
        .write(move |tx| Ok(tx.execute(spoil, [oldest])?))
        .await
        .unwrap();
    let turns = async |turns_max, bytes_max| {
        let work = store.work(&claim, turns_max, bytes_max).await;
        work.map(|work| work.unwrap().history.turns().len())
    };
    assert_eq!(turns(40, 4_500).await, Ok(3));
    assert_eq!(turns(2, usize::MAX).await, Ok(2));
    assert!(turns(40, usize::MAX).await.is_err());
}

/// STK-54
#[tokio::test]
async fn a_turn_larger_than_the_window_keeps_its_words_and_loses_its_results() {
    let (_directory, store) = fresh();
    for second in 0..3 {
        let (claim, inbox, turn) = begin(&store, "U1", second).await;
        let steps = match second {
            1 => vec![reads("x".repeat(8_000)), answer("Read.")],
            _ => vec![answer(&"y".repeat(500))],
        };
        for step in steps {
            store
                .record_step(&claim, turn, &step, &cost(1), None, at(second))
                .await
                .unwrap();
        }
        if second < 2 {
            let dismissed = store.dismiss(&claim, inbox, Vec::new(), at(second));
            dismissed.await.unwrap();
            store.release(&claim).await.unwrap();
            continue;
        }
        let work = store.work(&claim, 40, 4_500).await.unwrap().unwrap();
        let [_, large, _] = work.history.turns() else {
            panic!("{:?}", work.history.turns().len())
        };
        assert_eq!(large.steps()[0].results()[0].content, "[trimmed]");
        assert_eq!(large.steps()[1].assistant().text(), "Read.");
        let boundary = work.history.boundary();
        assert_eq!((boundary.trimmed, boundary.dropped), (large.id(), None));
    }
}

#[tokio::test]
async fn a_session_name_is_hex_and_nobody_elses() {
    let (_directory, store) = fresh();
    let mut names = HashSet::new();
    for (number, user) in ["../../x", "a\0b", ".", "İ", "i̇", &"x".repeat(300), "U1", "u1"]
        .iter()
        .enumerate()
    {
        let (_, id, _) = accept(&store, &says(user, "x", &[&number.to_string()]), 0).await;
        let session = store.conversation(id).await.unwrap().session;
        assert!(session.len() == 32 && session.bytes().all(|byte| byte.is_ascii_hexdigit()));
        names.insert(session);
    }
    assert_eq!(names.len(), 8);
}

#[tokio::test]
async fn clearing_forgets_what_was_said_and_a_cut_turn_is_closed() {
    let (_directory, store) = fresh();
    let (claim, inbox, _) = begin(&store, "U1", 0).await;
    let history = store.history(claim.conversation).await.unwrap();
    let turn = &history.turns()[0];
    assert_eq!(
        (turn.user(), turn.steps()[0].assistant().text().as_str()),
        ("please", "(interrupted)")
    );
    store
        .begin_turn(&claim, inbox, TurnStart::quiet("please"), at(1))
        .await
        .unwrap();
    let work = store.work(&claim, 1, usize::MAX).await.unwrap().unwrap();
    assert_eq!((work.begun, work.history.turns().len()), (2, 1));
    assert_eq!(store.history(claim.conversation).await.unwrap().turns().len(), 2);
    assert_eq!(
        store.user_messages(claim.conversation).await.unwrap(),
        ["please"; 2]
    );
    let forget = move |tx: &rusqlite::Transaction<'_>| super::clear_history(tx, claim.conversation);
    store.write(forget).await.unwrap();
    assert!(store.user_messages(claim.conversation).await.unwrap().is_empty());
    assert!(
        store
            .history(claim.conversation)
            .await
            .unwrap()
            .turns()
            .is_empty()
    );
}
