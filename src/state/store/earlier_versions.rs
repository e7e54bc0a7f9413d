//! The files of a conversation in earlier states of its workspace, which a person may have fetched as a revision.

use super::column::parse;
use super::edits::{StoredFile, load_blob};
use super::{Store, StoreError};
use crate::base::model::{ConversationId, FileVersion, RepoPath};
use rusqlite::Transaction;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of earlier states.
const STATES_MAX: u32 = 50;
/// Maximum number of bytes of files in earlier states. Further ones are left out.
const EARLIER_BYTES_MAX: usize = 32 << 20;

/// The versions of each file, newest first; `None` for a deleted file.
pub type EarlierVersions = BTreeMap<RepoPath, Vec<Option<FileVersion>>>;

impl Store {
    /// Returns the versions that the turns of a conversation made of its files, within a bound.
    pub async fn earlier_versions(&self, id: ConversationId) -> Result<EarlierVersions, StoreError> {
        self.read(move |tx| earlier_versions(tx, id)).await
    }
}

fn earlier_versions(tx: &Transaction<'_>, id: ConversationId) -> Result<EarlierVersions, StoreError> {
    let mut statement = tx.prepare_cached(
        "SELECT edits_after FROM turn WHERE conversation = ?1 AND edits_after <> '{}' GROUP BY edits_after
         ORDER BY MAX(id) DESC LIMIT ?2",
    )?;
    let mut rows = statement.query((id.0, STATES_MAX))?;
    let mut versions = EarlierVersions::new();
    let mut seen = BTreeSet::new();
    let mut bytes = 0;
    while let Some(row) = rows.next()? {
        let snapshot: BTreeMap<RepoPath, Option<StoredFile>> = parse("snapshot", &row.get::<_, String>(0)?)?;
        for (path, file) in snapshot {
            let key = file.as_ref().map(|file| (file.mode.as_octal(), file.hash));
            if !seen.insert((path.clone(), key)) {
                continue;
            }
            let version = match file {
                Some(file) => Some(FileVersion {
                    content: load_blob(tx, file.hash)?,
                    mode: file.mode,
                }),
                None => None,
            };
            bytes += version.as_ref().map_or(0, |version| version.content.len());
            if bytes > EARLIER_BYTES_MAX {
                return Ok(versions);
            }
            versions.entry(path).or_default().push(version);
        }
    }
    Ok(versions)
}
