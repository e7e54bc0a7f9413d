//! Unreferenced contents: files of removed turns, versions between two steps, and patches of removed changes.

use super::{Prune, PrunePosition, PruneSlice, WEIGHT_BYTES, WEIGHT_MAX};
use crate::state::store::column::parse;
use crate::state::store::{Store, StoreError};
use rusqlite::types::Value;
use rusqlite::{Transaction, params};
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Maximum number of contents in one pass. Each pass reads all snapshots once.
const CONTENTS_MAX: u32 = 50_000;
/// Maximum number of rows per read.
const ROWS_READ_MAX: i64 = 1_000;
/// Maximum number of running or new turns, which each write checks again. If there are more, the rest waits for the
/// next pass.
const RECENT_MAX: usize = 2_000;

type Hash = [u8; 32];

/// A file in a snapshot, reduced to its content's hash.
#[derive(Deserialize)]
struct NamedContent {
    hash: Hash,
}

/// Contents that may be unreferenced, and the turns that may refer to one of them since.
struct Candidates {
    /// The row and weight of each.
    contents: HashMap<Hash, (i64, i64)>,
    next: Option<i64>,
    newest_turn: i64,
    running: Vec<i64>,
}

/// The statements that read all snapshots. Their order follows the direction in which a snapshot may be copied during
/// the reads. The write checks turns again that began in the meantime.
const SNAPSHOTS: [&str; 2] = [
    "SELECT id, edits_before, edits_after FROM turn WHERE id > ?1 ORDER BY id LIMIT ?2",
    "SELECT id, edits, edits FROM conversation WHERE id > ?1 ORDER BY id LIMIT ?2",
];

impl Store {
    /// Removes unreferenced contents, out of some thousands.
    pub(super) async fn prune_contents(
        &self,
        from: &PrunePosition,
        prune: Prune,
    ) -> Result<PruneSlice, StoreError> {
        let from = match from.0 {
            Some(Value::Integer(row)) => row,
            _ => 0,
        };
        let mut candidates = self.read(move |tx| candidates(tx, from)).await?;
        let next = candidates
            .next
            .map(|row| PrunePosition(Some(Value::Integer(row))));
        for sql in SNAPSHOTS {
            let mut row = Some(0);
            while let Some(from) = row
                && !candidates.contents.is_empty()
            {
                let (named, after) = self.read(move |tx| named(tx, sql, from)).await?;
                named.iter().for_each(|hash| {
                    candidates.contents.remove(hash);
                });
                row = after;
            }
        }
        let mut rows = u64::try_from(candidates.contents.len()).unwrap_or(u64::MAX);
        if prune == Prune::Remove {
            rows = self.remove_contents(candidates).await?;
        }
        Ok(PruneSlice { rows, next })
    }

    async fn remove_contents(&self, candidates: Candidates) -> Result<u64, StoreError> {
        let (newest_turn, running) = (candidates.newest_turn, candidates.running);
        let mut contents: Vec<(Hash, i64, i64)> = candidates
            .contents
            .into_iter()
            .map(|(hash, (row, weight))| (hash, row, weight))
            .collect();
        contents.sort_by_key(|(_, row, _)| std::cmp::Reverse(*row));
        let mut removed = 0;
        while !contents.is_empty() {
            let mut batch = Vec::new();
            let mut weight = 0;
            while weight < WEIGHT_MAX
                && let Some((hash, row, weighs)) = contents.pop()
            {
                weight += weighs;
                batch.push((hash, row));
            }
            let running = running.clone();
            let write = move |tx: &Transaction<'_>| remove(tx, &batch, newest_turn, &running);
            match self.write_unsynced(write).await? {
                Some(rows) => removed += rows,
                None => break,
            }
        }
        Ok(removed)
    }
}

fn candidates(tx: &Transaction<'_>, from: i64) -> Result<Candidates, StoreError> {
    let newest_turn = tx
        .prepare_cached("SELECT COALESCE(MAX(id), 0) FROM turn")?
        .query_row([], |row| row.get(0))?;
    let mut statement = tx.prepare_cached(
        "SELECT turn.id FROM inbox JOIN turn ON turn.inbox = inbox.id
         WHERE inbox.done_at IS NULL AND turn.finished_at IS NULL",
    )?;
    let running = statement
        .query_map([], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    let mut statement = tx.prepare_cached(
        "SELECT rowid, hash, octet_length(content), EXISTS (SELECT 1 FROM change WHERE patch = blob.hash)
         FROM blob WHERE rowid > ?1 ORDER BY rowid LIMIT ?2",
    )?;
    let mut rows = statement.query(params![from, CONTENTS_MAX])?;
    let mut contents = HashMap::new();
    let (mut looked_at, mut last) = (0, None);
    while let Some(row) = rows.next()? {
        let id: i64 = row.get(0)?;
        (looked_at, last) = (looked_at + 1, Some(id));
        let (bytes, is_patch): (i64, bool) = (row.get(2)?, row.get(3)?);
        if !is_patch {
            contents.insert(row.get(1)?, (id, 1 + bytes / WEIGHT_BYTES));
        }
    }
    Ok(Candidates {
        contents,
        next: last.filter(|_| looked_at == CONTENTS_MAX),
        newest_turn,
        running,
    })
}

/// Returns the contents that some snapshots refer to, and where to continue.
fn named(tx: &Transaction<'_>, sql: &str, from: i64) -> Result<(HashSet<Hash>, Option<i64>), StoreError> {
    let mut statement = tx.prepare_cached(sql)?;
    let mut rows = statement.query(params![from, ROWS_READ_MAX])?;
    let mut named = HashSet::new();
    let (mut looked_at, mut last) = (0, None);
    let mut before = String::new();
    while let Some(row) = rows.next()? {
        (looked_at, last) = (looked_at + 1, Some(row.get(0)?));
        for column in [1, 2] {
            let snapshot: String = row.get(column)?;
            // Most snapshots equal the one before.
            if snapshot != before {
                named.extend(hashes(&snapshot)?);
                before = snapshot;
            }
        }
    }
    Ok((named, last.filter(|_| looked_at == ROWS_READ_MAX)))
}

/// Returns the contents in a snapshot. An unreadable snapshot is an error, because it could refer to any content.
fn hashes(snapshot: &str) -> Result<impl Iterator<Item = Hash> + use<>, StoreError> {
    let files: BTreeMap<String, Option<NamedContent>> = parse("snapshot", snapshot)?;
    Ok(files.into_values().flatten().map(|named| named.hash))
}

/// Removes contents that are still unreferenced. Removes none if too much happened in the meantime.
fn remove(
    tx: &Transaction<'_>,
    batch: &[(Hash, i64)],
    newest_turn: i64,
    running: &[i64],
) -> Result<Option<u64>, StoreError> {
    let Some(named) = named_since(tx, newest_turn, running)? else {
        return Ok(None);
    };
    let mut statement = tx.prepare_cached(
        "DELETE FROM blob WHERE rowid = ?1 AND hash = ?2
         AND NOT EXISTS (SELECT 1 FROM change WHERE patch = ?2)",
    )?;
    let mut removed = 0;
    for (hash, row) in batch {
        if !named.contains(hash) {
            removed += statement.execute(params![row, hash])?;
        }
    }
    Ok(Some(removed.try_into().unwrap_or(u64::MAX)))
}

/// Returns the contents that are referred to by turns that ran during the reads, and by their conversations; `None` if
/// there are too many such turns.
fn named_since(
    tx: &Transaction<'_>,
    newest_turn: i64,
    running: &[i64],
) -> Result<Option<HashSet<Hash>>, StoreError> {
    let mut statement = tx.prepare_cached("SELECT id FROM turn WHERE id > ?1 LIMIT ?2")?;
    let begun = statement
        .query_map(
            params![newest_turn, i64::try_from(RECENT_MAX).unwrap_or(i64::MAX)],
            |row| row.get(0),
        )?
        .collect::<rusqlite::Result<Vec<i64>>>()?;
    if begun.len() + running.len() >= RECENT_MAX {
        return Ok(None);
    }
    let mut statement = tx.prepare_cached(
        "SELECT edits_before, edits_after, conversation.edits FROM turn
         JOIN conversation ON conversation.id = turn.conversation WHERE turn.id = ?1",
    )?;
    let mut named = HashSet::new();
    for turn in begun.iter().chain(running) {
        let mut rows = statement.query([turn])?;
        while let Some(row) = rows.next()? {
            for column in 0..3 {
                named.extend(hashes(&row.get::<_, String>(column)?)?);
            }
        }
    }
    Ok(Some(named))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::candidates;
    use crate::base::model::UserId;
    use crate::state::store::TurnStart;
    use crate::state::store::fixture::{
        EndDraft, accept, answer, at, begin, claim, cost, edits, ends, fresh, says,
    };

    /// R29
    #[tokio::test]
    async fn a_blob_referenced_again_during_the_scan_is_kept() {
        let (_directory, store) = fresh();
        let (first, _, running) = begin(&store, "U1", 0).await;
        for name in ["one", "two", "three"] {
            let draft = edits(&[("web.yaml", Some(name.as_bytes()))]);
            store
                .write(move |tx| crate::state::store::edits::store(tx, &draft))
                .await
                .unwrap();
        }
        let found = store.read(|tx| candidates(tx, 0)).await.unwrap();
        assert_eq!(found.contents.len(), 3);
        // A turn that already ran refers to one of them, and a turn that began since refers to another.
        let one = edits(&[("web.yaml", Some(b"one"))]);
        store
            .record_step(&first, running, &answer("x"), &cost(1), Some(&one), at(1))
            .await
            .unwrap();
        store
            .finish_composed(
                &first,
                running,
                UserId(1),
                move |_| EndDraft::Answered(Box::new(ends(None))),
                at(1),
            )
            .await
            .unwrap();
        accept(&store, &says("U2", "x", &["2"]), 2).await;
        let second = claim(&store, "w1").await.unwrap();
        let inbox = store.work(&second, 40, usize::MAX).await.unwrap().unwrap().inbox;
        let begun = store
            .begin_turn(&second, inbox, TurnStart::quiet("x"), at(2))
            .await
            .unwrap();
        let two = edits(&[("web.yaml", Some(b"two"))]);
        store
            .record_step(&second, begun.turn, &answer("x"), &cost(1), Some(&two), at(2))
            .await
            .unwrap();
        assert_eq!(store.remove_contents(found).await, Ok(1));
        assert_eq!(store.edits(first.conversation).await, Ok(one));
        assert_eq!(store.edits(second.conversation).await, Ok(two));
    }
}
