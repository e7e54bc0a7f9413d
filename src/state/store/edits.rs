//! The edits of a workspace on top of its base. Each content is stored once, by its SHA-256. A snapshot is a small JSON
//! text that refers to contents.

use super::column::{json, parse};
use super::{StoreError, conversation};
use crate::base::model::{ConversationId, FileMode, FileVersion, RepoPath};
use bytes::Bytes;
use rusqlite::{OptionalExtension, Transaction, params};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// The files that differ from the base; `None` for a deleted one.
pub type FileEdits = BTreeMap<RepoPath, Option<FileVersion>>;

/// The snapshot without edits.
const NONE: &str = "{}";

/// A file of a snapshot.
#[derive(Serialize, Deserialize)]
pub(super) struct StoredFile {
    pub(super) mode: FileMode,
    /// The hash of its content.
    pub(super) hash: [u8; 32],
}

/// True for the snapshot without edits.
pub(super) fn is_empty_snapshot(snapshot: &str) -> bool {
    snapshot == NONE
}

/// Stores edits and returns their snapshot.
pub(super) fn store(tx: &Transaction<'_>, edits: &FileEdits) -> Result<String, StoreError> {
    let mut snapshot = BTreeMap::new();
    for (path, version) in edits {
        let stored = match version {
            Some(version) => Some(StoredFile {
                mode: version.mode,
                hash: store_blob(tx, &version.content)?,
            }),
            None => None,
        };
        snapshot.insert(path, stored);
    }
    json(&snapshot)
}

/// Loads the edits of a snapshot.
pub(super) fn load(tx: &Transaction<'_>, snapshot: &str) -> Result<FileEdits, StoreError> {
    let snapshot: BTreeMap<RepoPath, Option<StoredFile>> = parse("snapshot", snapshot)?;
    let version = |stored: StoredFile| -> Result<FileVersion, StoreError> {
        Ok(FileVersion {
            content: load_blob(tx, stored.hash)?,
            mode: stored.mode,
        })
    };
    snapshot
        .into_iter()
        .map(|(path, stored)| Ok((path, stored.map(version).transpose()?)))
        .collect()
}

/// Returns the current snapshot of a conversation.
pub(super) fn snapshot(tx: &Transaction<'_>, id: ConversationId) -> Result<String, StoreError> {
    tx.prepare_cached("SELECT edits FROM conversation WHERE id = ?1")?
        .query_row([id.0], |row| row.get(0))
        .optional()?
        .ok_or_else(|| StoreError::NotFound(format!("conversation {id}")))
}

/// Sets the snapshot of a conversation.
pub(super) fn set(tx: &Transaction<'_>, id: ConversationId, snapshot: &str) -> Result<(), StoreError> {
    let changed = tx
        .prepare_cached("UPDATE conversation SET edits = ?2 WHERE id = ?1")?
        .execute(params![id.0, snapshot])?;
    conversation::require_row(changed, id)
}

/// Removes the edits and closes the change. Earlier turns lose their snapshots, so an undo cannot restore anything from
/// before.
pub(super) fn forget(tx: &Transaction<'_>, id: ConversationId) -> Result<(), StoreError> {
    set(tx, id, NONE)?;
    tx.prepare_cached("UPDATE conversation SET change_number = NULL, withheld = NULL WHERE id = ?1")?
        .execute([id.0])?;
    // No turn can go on after steps whose edits are gone.
    tx.prepare_cached(
        "UPDATE turn SET undone_at = COALESCE(undone_at, finished_at, began_at)
         WHERE conversation = ?1 AND edits_after <> '{}'",
    )?
    .execute([id.0])?;
    tx.prepare_cached("UPDATE turn SET edits_before = '{}', edits_after = '{}' WHERE conversation = ?1")?
        .execute([id.0])?;
    Ok(())
}

/// Stores a content once, and returns its hash.
pub(super) fn store_blob(tx: &Transaction<'_>, content: &[u8]) -> Result<[u8; 32], StoreError> {
    let hash: [u8; 32] = Sha256::digest(content).into();
    tx.prepare_cached("INSERT INTO blob (hash, content) VALUES (?1, ?2) ON CONFLICT (hash) DO NOTHING")?
        .execute(params![hash, content])?;
    Ok(hash)
}

/// Loads the content with this hash and verifies it.
pub(super) fn load_blob(tx: &Transaction<'_>, hash: [u8; 32]) -> Result<Bytes, StoreError> {
    let content: Vec<u8> = tx
        .prepare_cached("SELECT content FROM blob WHERE hash = ?1")?
        .query_row(params![hash], |row| row.get(0))?;
    if <[u8; 32]>::from(Sha256::digest(&content)) != hash {
        return Err(StoreError::Unreadable {
            what: "file",
            why: "its content does not match its hash".to_owned(),
        });
    }
    Ok(Bytes::from(content))
}
