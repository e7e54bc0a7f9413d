//! Open changes of other conversations that edit the same files.

use super::column::parse;
use super::{Store, StoreError, key};
use crate::base::model::{ChangeName, ChatPlace, ConversationId, RepoPath, Stats};
use rusqlite::params;

/// Maximum number of open changes that are looked at, newest first.
const LOOKED_AT_MAX: u32 = 500;
/// Maximum number of changes that are returned.
const RETURNED_MAX: usize = 3;

/// An open change of another conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherChange {
    /// The number and the newest revision of the change.
    pub name: ChangeName,
    /// The name of the person or hook whose conversation it is.
    pub person: String,
    /// The first of the files that both edit.
    pub path: RepoPath,
    /// The place of the conversation.
    pub place: ChatPlace,
}

impl Store {
    /// Returns the newest open changes of other conversations in a repository that edit one of these files.
    pub async fn other_changes(
        &self,
        id: ConversationId,
        repository: &str,
        paths: Vec<RepoPath>,
    ) -> Result<Vec<OtherChange>, StoreError> {
        let repository = repository.to_owned();
        self.read(move |tx| {
            let mut statement = tx.prepare_cached(
                "SELECT change.number, change.revision, change.stats, conversation.key,
                        COALESCE(users.name, '')
                 FROM conversation INDEXED BY conversation_change
                 JOIN change ON change.number = conversation.change_number
                 LEFT JOIN identity ON identity.sender = conversation.sender
                 LEFT JOIN users ON users.id = identity.user_id
                 WHERE conversation.change_number IS NOT NULL AND conversation.id <> ?1 AND change.repository = ?2
                   AND change.revision = (SELECT MAX(newest.revision) FROM change AS newest
                                          WHERE newest.number = change.number)
                 ORDER BY conversation.change_number DESC LIMIT ?3",
            )?;
            let mut rows = statement.query(params![id.0, repository, LOOKED_AT_MAX])?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()?
                && found.len() < RETURNED_MAX
            {
                let stats: Vec<Stats> = parse("change", &row.get::<_, String>(2)?)?;
                let both = stats.into_iter().find(|stats| paths.contains(&stats.path));
                let Some(Stats { path, .. }) = both else { continue };
                let name = format!("CHG-{} rev {}", row.get::<_, i64>(0)?, row.get::<_, i64>(1)?);
                let Ok(name) = name.parse() else { continue };
                found.push(OtherChange {
                    name,
                    person: row.get(4)?,
                    path,
                    place: key::from_text(&row.get::<_, String>(3)?)?.place,
                });
            }
            Ok(found)
        })
        .await
    }
}
