//! The open changes of a person, in all of their conversations.

use super::column::{count, parse, time};
use super::{Store, StoreError, key};
use crate::base::model::{
    Change, ChangeNumber, ChangeOverview, ChatPlace, Check, RequiredGrant, Stats, UserId,
};
use jiff::Timestamp;
use rusqlite::{Row, params};

/// The newest open changes of a person, and the number of all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersonChanges {
    /// The newest changes, newest first.
    pub newest: Vec<PersonChange>,
    /// The number of open changes.
    pub all: u64,
}

/// An open change at its newest revision, without its patch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersonChange {
    /// The number of the change.
    pub number: ChangeNumber,
    /// The revision.
    pub revision: u32,
    /// The configured repository name.
    pub repository: String,
    /// The changed lines of each file.
    pub stats: Vec<Stats>,
    /// The checks of the revision.
    pub checks: Vec<Check>,
    /// The grants that the change needs.
    pub needs: Vec<RequiredGrant>,
    /// The effects on environments.
    pub overview: ChangeOverview,
    /// The time at which the revision was prepared.
    pub prepared_at: Timestamp,
    /// The reason why later edits of the conversation are withheld, if they are.
    pub withheld: Option<String>,
    /// The newest request of the person in the conversation, if it is still stored and the history was not cleared after
    /// it.
    pub request: Option<String>,
    /// The place of the conversation.
    pub place: ChatPlace,
}

impl PersonChange {
    /// Returns the name of the revision.
    pub fn name(&self) -> String {
        Change::name(self.number, self.revision)
    }
}

impl Store {
    /// Returns the newest open changes of the conversations of a person, with all of their accounts.
    pub async fn changes_of(&self, user: UserId, newest_max: u32) -> Result<PersonChanges, StoreError> {
        self.read(move |tx| {
            let all = tx
                .prepare_cached(
                    "SELECT COUNT(*) FROM conversation INDEXED BY conversation_change
                     JOIN identity ON identity.sender = conversation.sender
                     WHERE conversation.change_number IS NOT NULL AND identity.user_id = ?1",
                )?
                .query_row([user.0], |row| row.get(0))?;
            let mut statement = tx.prepare_cached(
                "SELECT change.number, change.revision, change.repository, change.stats, change.checks, change.needs,
                        change.overview, change.created_at, conversation.withheld, conversation.key,
                        (SELECT user_text FROM turn WHERE turn.conversation = conversation.id
                         AND turn.id > conversation.cleared_turn AND continues IS NULL
                           AND (turn.person IS NULL OR turn.person = ?1) ORDER BY turn.id DESC LIMIT 1)
                 FROM conversation INDEXED BY conversation_change
                 JOIN identity ON identity.sender = conversation.sender
                 JOIN change ON change.number = conversation.change_number
                 WHERE conversation.change_number IS NOT NULL AND identity.user_id = ?1
                   AND change.revision = (SELECT MAX(newest.revision) FROM change AS newest
                                          WHERE newest.number = change.number)
                 ORDER BY conversation.change_number DESC LIMIT ?2",
            )?;
            let mut rows = statement.query(params![user.0, newest_max])?;
            let mut newest = Vec::new();
            while let Some(row) = rows.next()? {
                newest.push(read(row)?);
            }
            Ok(PersonChanges {
                newest,
                all: count(all),
            })
        })
        .await
    }
}

fn read(row: &Row<'_>) -> Result<PersonChange, StoreError> {
    Ok(PersonChange {
        number: ChangeNumber(row.get(0)?),
        revision: row.get(1)?,
        repository: row.get(2)?,
        stats: parse("change", &row.get::<_, String>(3)?)?,
        checks: parse("change", &row.get::<_, String>(4)?)?,
        needs: parse("change", &row.get::<_, String>(5)?)?,
        overview: parse("change", &row.get::<_, String>(6)?)?,
        prepared_at: time(row.get(7)?)?,
        withheld: row.get(8)?,
        place: key::from_text(&row.get::<_, String>(9)?)?.place,
        request: row.get(10)?,
    })
}
