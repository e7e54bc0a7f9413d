//! Tests of the copies of histories in memory.

use super::{KEPT_BYTES_MIN, KeptHistory};
use crate::base::model::ConversationId;
use crate::state::store::fixture::{answer, at, begin, cost, fresh, reads};
use crate::state::store::history::{HistoryBasis, HistoryLimits, newest, newest_of, within};
use crate::state::store::{DataKind, Prune, PrunePosition, Store, StoreError};
use proptest::collection::vec;
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop_oneof, proptest};
use rusqlite::{Transaction, params};
use std::sync::Arc;

const LIMITS: HistoryLimits = HistoryLimits {
    turns: 12,
    bytes: 60_000,
};

/// A change of the stored data of a conversation.
#[derive(Clone, Debug)]
enum StoredEvent {
    /// A turn with steps of these sizes.
    Turn {
        steps: Vec<usize>,
        is_finished: bool,
        continues: bool,
    },
    /// The last turn gets one more step if it is not finished.
    Step(usize),
    /// The last turn is finished.
    Finish,
    /// The conversation is cleared.
    Clear,
    /// The results of the turns before the last ones become placeholders.
    Trim(u8),
    /// The turns before the last ones are left out, with a summary.
    LeaveOut(u8),
    /// A result of the newest finished step changes, as with the late answer to a question.
    Rewrite,
    /// The oldest turn is removed, as its time has passed.
    Remove,
    /// The newest turn is removed. The next one gets its number.
    RemoveNewest,
}

fn event() -> impl Strategy<Value = StoredEvent> {
    let turn = (vec(1_usize..12_000, 0..4), any::<bool>(), any::<bool>());
    let turn = turn.prop_map(|(steps, is_finished, continues)| StoredEvent::Turn {
        steps,
        is_finished,
        continues,
    });
    prop_oneof![
        8 => turn,
        2 => (1_usize..12_000).prop_map(StoredEvent::Step),
        2 => Just(StoredEvent::Finish),
        1 => Just(StoredEvent::Clear),
        1 => (0_u8..4).prop_map(StoredEvent::Trim),
        1 => (0_u8..4).prop_map(StoredEvent::LeaveOut),
        1 => Just(StoredEvent::Rewrite),
        1 => Just(StoredEvent::Remove),
        1 => Just(StoredEvent::RemoveNewest),
    ]
}

fn store_event(tx: &Transaction<'_>, id: i64, event: &StoredEvent) -> rusqlite::Result<()> {
    let newest: Option<(i64, bool)> = tx
        .query_row(
            "SELECT id, finished_at IS NOT NULL FROM turn WHERE conversation = ?1 ORDER BY id DESC LIMIT 1",
            [id],
            |row| row.try_into(),
        )
        .ok();
    let add = |turn: i64, bytes: usize| {
        let step = serde_json::to_string(&reads("x".repeat(bytes))).unwrap();
        let sql = "INSERT INTO step (turn, step, is_final, at) VALUES (?1, ?2, 0, 0)";
        tx.execute(sql, params![turn, step])
    };
    let finish = "UPDATE turn SET finished_at = 1 WHERE conversation = ?1 AND finished_at IS NULL";
    match event {
        StoredEvent::Turn {
            steps,
            is_finished,
            continues,
        } => {
            // An earlier turn is finished before another one begins.
            tx.execute(finish, [id])?;
            let earlier = newest.filter(|_| *continues).map(|(turn, _)| turn);
            let sql = "INSERT INTO turn (conversation, inbox, user_text, began_at, edits_before, edits_after, continues)
                 VALUES (?1, (SELECT MIN(id) FROM inbox), 'please', 0, '{}', '{}', ?2)";
            tx.execute(sql, params![id, earlier])?;
            let turn = tx.last_insert_rowid();
            for bytes in steps {
                add(turn, *bytes)?;
            }
            if *is_finished {
                tx.execute(finish, [id])?;
            }
        }
        StoredEvent::Step(bytes) => {
            if let Some((turn, false)) = newest {
                add(turn, *bytes)?;
            }
        }
        StoredEvent::Finish => drop(tx.execute(finish, [id])?),
        StoredEvent::Clear => {
            let sql = "UPDATE conversation SET cleared_turn = ?2 WHERE id = ?1";
            tx.execute(sql, params![id, newest.map_or(0, |(turn, _)| turn)])?;
            tx.execute("DELETE FROM summary WHERE conversation = ?1", [id])?;
        }
        StoredEvent::Trim(kept) => {
            let up_to = newest.map_or(0, |(turn, _)| turn - i64::from(*kept));
            let sql = "UPDATE conversation SET trimmed_turn = MAX(trimmed_turn, ?2) WHERE id = ?1";
            tx.execute(sql, params![id, up_to])?;
        }
        StoredEvent::LeaveOut(kept) => {
            let up_to = newest.map_or(0, |(turn, _)| turn - i64::from(*kept));
            let sql = "UPDATE conversation SET dropped_turn = MAX(dropped_turn, ?2) WHERE id = ?1";
            tx.execute(sql, params![id, up_to])?;
            let sql = "INSERT OR REPLACE INTO summary (conversation, turn, text) SELECT ?1, ?2, 'the turns up to ' || ?2
                 WHERE EXISTS (SELECT 1 FROM turn WHERE id = ?2)";
            tx.execute(sql, params![id, up_to])?;
        }
        StoredEvent::Rewrite => {
            let step = serde_json::to_string(&reads("rewritten".to_owned())).unwrap();
            let sql = "UPDATE step SET step = ?1 WHERE id = (SELECT MAX(step.id) FROM step JOIN turn ON turn.id = step.turn
                 WHERE finished_at IS NOT NULL)";
            tx.execute(sql, [step])?;
        }
        StoredEvent::Remove => remove(tx, "SELECT MIN(id) FROM turn")?,
        StoredEvent::RemoveNewest => remove(tx, "SELECT MAX(id) FROM turn")?,
    }
    Ok(())
}

fn remove(tx: &Transaction<'_>, which: &str) -> rusqlite::Result<()> {
    let turn: Option<i64> = tx.query_row(which, [], |row| row.get(0))?;
    for sql in [
        "DELETE FROM summary WHERE turn = ?1",
        "DELETE FROM step WHERE turn = ?1",
        "DELETE FROM turn WHERE id = ?1",
    ] {
        tx.execute(sql, [turn])?;
    }
    Ok(())
}

/// Stores turns whose history is long enough to be kept.
async fn long_conversation(store: &Store, turns: i64) -> ConversationId {
    let mut id = None;
    for second in 0..turns {
        let (claim, inbox, turn) = begin(store, "U1", second).await;
        let step = answer(&"x".repeat(KEPT_BYTES_MIN));
        store
            .record_step(&claim, turn, &step, &cost(1), None, at(second))
            .await
            .unwrap();
        let dismissed = store.dismiss(&claim, inbox, Vec::new(), at(second));
        dismissed.await.unwrap();
        store.release(&claim).await.unwrap();
        id = Some(claim.conversation);
    }
    id.unwrap()
}

/// Returns the number of turns of a conversation, read with the help of the copies in memory.
async fn turns(store: &Store, id: ConversationId) -> Result<usize, StoreError> {
    let histories = Arc::clone(&store.inner.histories);
    let limits = HistoryLimits {
        turns: 40,
        bytes: usize::MAX,
    };
    let cleared = histories.cleared();
    let history = store
        .read(move |tx| histories.newest(tx, id, limits, cleared))
        .await?;
    Ok(history.turns().len())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_history_from_memory_is_the_stored_one(events in vec(event(), 1..24)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (_directory, store) = fresh();
            let id = long_conversation(&store, 1).await;
            for event in events {
                store
                    .write_unsynced(move |tx| Ok(store_event(tx, id.0, &event)?))
                    .await
                    .unwrap();
                let histories = Arc::clone(&store.inner.histories);
                let read = store.read(move |tx| Ok((histories.newest(tx, id, LIMITS, 0)?, newest(tx, id, LIMITS)?)));
                let (kept, stored) = read.await.unwrap();
                let (kept, stored) = (format!("{kept:#?}"), format!("{stored:#?}"));
                let differs = kept.lines().zip(stored.lines()).find(|(kept, stored)| kept != stored);
                assert_eq!(differs, None);
                assert_eq!(kept.len(), stored.len());
            }
        });
    }
}

#[tokio::test]
async fn a_turn_of_a_long_conversation_reads_only_what_is_new() {
    let (_directory, store) = fresh();
    let id = long_conversation(&store, 3).await;
    assert_eq!(turns(&store, id).await, Ok(3));
    // No change of a step is counted any more, so what is kept stays current.
    store
        .write(move |tx| {
            tx.execute("DROP TRIGGER step_changed", [])?;
            tx.execute("UPDATE step SET step = 'torn'", [])?;
            Ok(())
        })
        .await
        .unwrap();
    assert!(store.history(id).await.is_err());
    assert_eq!(turns(&store, id).await, Ok(3));
    store.inner.histories.clear();
    assert!(turns(&store, id).await.is_err());
}

#[tokio::test]
async fn what_is_removed_from_the_store_is_removed_from_memory() {
    let (_directory, store) = fresh();
    let id = long_conversation(&store, 2).await;
    assert_eq!(turns(&store, id).await, Ok(2));
    assert_eq!(store.inner.histories.locked().len(), 1);
    let start = PrunePosition::default();
    let pruned = store.prune_slice(
        DataKind::Messages,
        at(1_000_000),
        &start,
        Prune::Remove,
        at(1_000_000),
    );
    assert!(pruned.await.unwrap().rows > 0);
    assert_eq!(store.inner.histories.locked().len(), 0);
    assert!(turns(&store, id).await.unwrap() < 2);
}

#[tokio::test]
async fn a_short_history_is_not_kept() {
    let (_directory, store) = fresh();
    let (claim, inbox, _) = begin(&store, "U1", 0).await;
    store.dismiss(&claim, inbox, Vec::new(), at(0)).await.unwrap();
    assert_eq!(turns(&store, claim.conversation).await, Ok(1));
    assert_eq!(store.inner.histories.locked().len(), 0);
}

/// The stored form of a trimmed turn is much longer than it is in a request. The bound is for what is read.
#[tokio::test]
async fn the_stored_length_of_trimmed_steps_is_bounded_as_well() {
    let (_directory, store) = fresh();
    let id = long_conversation(&store, 1).await;
    let trim = move |tx: &Transaction<'_>| {
        for _ in 0..3 {
            let turn = StoredEvent::Turn {
                steps: vec![20_000],
                is_finished: true,
                continues: false,
            };
            store_event(tx, id.0, &turn)?;
        }
        Ok(store_event(tx, id.0, &StoredEvent::Trim(0))?)
    };
    store.write(trim).await.unwrap();
    for (bytes, is_read) in [(60_000, false), (100_000, true)] {
        let limits = HistoryLimits { turns: 40, bytes };
        let read = store.read(move |tx| within(tx, id, limits)).await.unwrap();
        assert!(read.as_ref().is_none_or(|history| history.bytes() < 25_000));
        assert_eq!(read.is_some(), is_read, "{bytes}");
    }
}

/// A history that was read before something was removed is not kept afterwards.
#[tokio::test]
async fn a_history_that_was_read_before_a_removal_is_not_kept() {
    let (_directory, store) = fresh();
    let id = long_conversation(&store, 2).await;
    let histories = Arc::clone(&store.inner.histories);
    let limits = HistoryLimits {
        turns: 40,
        bytes: usize::MAX,
    };
    let read = store.read(move |tx| {
        let basis = HistoryBasis::read(tx, id)?;
        let read = newest_of(tx, id, &basis, limits)?;
        histories.clear();
        histories.keep(id, KeptHistory { basis, read }, 0);
        Ok(histories.locked().len())
    });
    assert_eq!(read.await, Ok(0));
    assert_eq!(turns(&store, id).await, Ok(2));
    assert_eq!(store.inner.histories.locked().len(), 1);
}
