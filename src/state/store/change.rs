//! Prepared changes: `CHG-42`, with numbered revisions. Numbers are never reused.

use super::column::{json, millis, parse};
use super::edits::FileEdits;
use super::{Store, StoreError, edits};
use crate::base::model::{Change, ChangeNumber, ChangeOverview, Check, ConversationId, RequiredGrant, Stats};
use bytes::Bytes;
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};

const COLUMNS: &str =
    "number, revision, repository, base, patch, stats, checks, effects, conversation, needs, overview";

/// A change without its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewChange {
    /// The configured repository name.
    pub repository: String,
    /// The base commit as 40 hex digits.
    pub base: String,
    /// The patch in git format, against the base. Secrets in it are masked.
    pub patch: Bytes,
    /// The SHA-256 of the unmasked patch. A changed secret makes a new revision, even if its mask stays the same.
    pub content: [u8; 32],
    /// The numbers of changed lines per file.
    pub stats: Vec<Stats>,
    /// The completed checks, in order.
    pub checks: Vec<Check>,
    /// The effects on environments, as text of this program; empty if there are none.
    pub effects: String,
    /// The same effects, short enough for the first screen of a phone.
    pub overview: ChangeOverview,
    /// The grants that the change needs.
    pub needs: Vec<RequiredGrant>,
}

/// A change with its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumberedChange {
    /// The change.
    pub change: Change,
    /// True if there is something new to report: a new revision, or a change that was withheld before.
    pub is_new: bool,
}

impl Store {
    /// Returns the open change of a conversation, at its newest revision.
    pub async fn current_change(&self, id: ConversationId) -> Result<Option<Change>, StoreError> {
        self.read(move |tx| current(tx, id)).await
    }

    /// Returns the open change of a conversation, with the edits that it was made from: while a turn edits further, those
    /// from before its message. `None` if no change is open, or later edits are withheld.
    pub async fn change_with_edits(
        &self,
        id: ConversationId,
    ) -> Result<Option<(Change, FileEdits)>, StoreError> {
        self.read(move |tx| {
            let Some(change) = current(tx, id)? else {
                return Ok(None);
            };
            let before = tx
                .prepare_cached(
                    "SELECT turn.edits_before FROM turn JOIN inbox ON inbox.id = turn.inbox
                     WHERE turn.conversation = ?1 AND inbox.done_at IS NULL ORDER BY turn.id LIMIT 1",
                )?
                .query_row([id.0], |row| row.get(0))
                .optional()?;
            let snapshot = match before {
                Some(before) => before,
                // The newest edits are not those of the change.
                None if is_withheld(tx, id)? => return Ok(None),
                None => edits::snapshot(tx, id)?,
            };
            Ok(Some((change, edits::load(tx, &snapshot)?)))
        })
        .await
    }

    /// Returns why the edits of a conversation are withheld; `None` if they are not.
    pub async fn withheld(&self, id: ConversationId) -> Result<Option<String>, StoreError> {
        self.read(move |tx| {
            tx.prepare_cached("SELECT withheld FROM conversation WHERE id = ?1")?
                .query_row([id.0], |row| row.get(0))
                .optional()?
                .ok_or_else(|| StoreError::NotFound(format!("conversation {id}")))
        })
        .await
    }

    /// Returns a change at its newest revision, and its conversation.
    pub async fn change(&self, number: ChangeNumber) -> Result<Option<(Change, ConversationId)>, StoreError> {
        self.read(move |tx| newest(tx, number)).await
    }
}

/// The state of a conversation that determines the name of its next change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ChangeState {
    pub(super) open: Option<OpenChange>,
    /// True if the edits are withheld.
    is_withheld: bool,
}

/// The newest revision of an open change, without its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OpenChange {
    number: ChangeNumber,
    revision: u32,
    repository: String,
    base: String,
    content: [u8; 32],
}

impl OpenChange {
    pub(super) fn name(&self) -> String {
        Change::name(self.number, self.revision)
    }

    /// True if the change is this revision again.
    fn is_same(&self, change: &NewChange) -> bool {
        self.content == change.content && self.base == change.base && self.repository == change.repository
    }
}

impl ChangeState {
    pub(super) fn read(tx: &Transaction<'_>, id: ConversationId) -> Result<Self, StoreError> {
        let is_withheld = tx
            .prepare_cached("SELECT withheld IS NOT NULL FROM conversation WHERE id = ?1")?
            .query_row([id.0], |row| row.get(0))
            .optional()?
            .ok_or_else(|| StoreError::NotFound(format!("conversation {id}")))?;
        Ok(Self {
            open: open(tx, id)?,
            is_withheld,
        })
    }

    /// Returns a change as it is stored while `open` is the open one. The same content keeps its revision.
    pub(super) fn revision_of(&self, open: &OpenChange, change: NewChange) -> NewRevision {
        match open.is_same(&change) {
            true => {
                let mut repeated = NewRevision::new(change, open.number, open.revision);
                repeated.is_repeated = true;
                repeated.numbered.is_new = self.is_withheld;
                repeated
            }
            false => NewRevision::new(change, open.number, open.revision + 1),
        }
    }
}

/// A change with the name under which it is stored, and the hash of its unmasked patch.
#[derive(Debug)]
pub(super) struct NewRevision {
    pub(super) numbered: NumberedChange,
    content: [u8; 32],
    /// True if the revision is stored already. Only its checks may be newer.
    is_repeated: bool,
}

/// True if no change has this number.
pub(super) fn is_free(tx: &Transaction<'_>, number: ChangeNumber) -> Result<bool, StoreError> {
    let is_used = tx
        .prepare_cached("SELECT 1 FROM change WHERE number = ?1")?
        .exists([number.0])?;
    Ok(!is_used)
}

impl NewRevision {
    /// Returns a change as it is stored under a reserved number.
    pub(super) fn first(change: NewChange, reserved: ChangeNumber) -> Self {
        Self::new(change, reserved, 1)
    }

    fn new(change: NewChange, number: ChangeNumber, revision: u32) -> Self {
        let content = change.content;
        let change = Change {
            number,
            revision,
            repository: change.repository,
            base: change.base,
            patch: change.patch,
            stats: change.stats,
            checks: change.checks,
            effects: change.effects,
            overview: change.overview,
            needs: change.needs,
        };
        Self {
            numbered: NumberedChange { change, is_new: true },
            content,
            is_repeated: false,
        }
    }

    /// Stores the revision as the open change of the conversation, which is not withheld.
    pub(super) fn store(
        &self,
        tx: &Transaction<'_>,
        id: ConversationId,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        let change = &self.numbered.change;
        if self.is_repeated {
            // The checks may have run again.
            tx.prepare_cached(
                "UPDATE change SET checks = ?3, effects = ?4, needs = ?5, overview = ?6
                 WHERE number = ?1 AND revision = ?2",
            )?
            .execute(params![
                change.number.0,
                change.revision,
                json(&change.checks)?,
                change.effects,
                json(&change.needs)?,
                json(&change.overview)?,
            ])?;
            withhold(tx, id, None)?;
            return Ok(());
        }
        let patch = edits::store_blob(tx, &change.patch)?;
        tx.prepare_cached(
            "INSERT INTO change (number, revision, repository, base, patch, stats, checks, effects, conversation,
                                 created_at, needs, content, overview)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
        )?
        .execute(params![
            change.number.0,
            change.revision,
            change.repository,
            change.base,
            patch,
            json(&change.stats)?,
            json(&change.checks)?,
            change.effects,
            id.0,
            millis(at),
            json(&change.needs)?,
            self.content,
            json(&change.overview)?,
        ])?;
        tx.prepare_cached("UPDATE conversation SET change_number = ?2, withheld = NULL WHERE id = ?1")?
            .execute(params![id.0, change.number.0])?;
        Ok(())
    }
}

/// Stores why the edits of a conversation are withheld, or that they are not. Returns false if nothing changed.
pub(super) fn withhold(
    tx: &Transaction<'_>,
    id: ConversationId,
    why: Option<&str>,
) -> Result<bool, StoreError> {
    let changed = tx
        .prepare_cached("UPDATE conversation SET withheld = ?2 WHERE id = ?1 AND withheld IS NOT ?2")?
        .execute(params![id.0, why])?;
    Ok(changed > 0)
}

/// Closes the open change, because the workspace equals its base again. It keeps its number and revisions. Returns its
/// name, such as `CHG-42 rev 2`, or `None` if no change was open.
pub(super) fn close(tx: &Transaction<'_>, id: ConversationId) -> Result<Option<String>, StoreError> {
    let name = current_name(tx, id)?;
    tx.prepare_cached(
        "UPDATE conversation SET change_number = NULL, withheld = NULL
         WHERE id = ?1 AND (change_number IS NOT NULL OR withheld IS NOT NULL)",
    )?
    .execute([id.0])?;
    Ok(name)
}

/// Returns the lowest number above those of all stored changes.
pub(super) fn next_number(tx: &Connection) -> Result<ChangeNumber, rusqlite::Error> {
    let number = tx.query_row("SELECT COALESCE(MAX(number), 0) + 1 FROM change", [], |row| {
        row.get(0)
    })?;
    Ok(ChangeNumber(number))
}

pub(super) fn current(tx: &Transaction<'_>, id: ConversationId) -> Result<Option<Change>, StoreError> {
    match current_number(tx, id)? {
        Some(number) => Ok(newest(tx, number)?.map(|(change, _)| change)),
        None => Ok(None),
    }
}

/// True if the edits of a conversation are withheld.
pub(super) fn is_withheld(tx: &Transaction<'_>, id: ConversationId) -> Result<bool, StoreError> {
    let withheld = "SELECT 1 FROM conversation WHERE id = ?1 AND withheld IS NOT NULL";
    Ok(tx.prepare_cached(withheld)?.exists([id.0])?)
}

/// Returns the newest revision of the open change, without its content.
fn open(tx: &Transaction<'_>, id: ConversationId) -> Result<Option<OpenChange>, StoreError> {
    let open = tx
        .prepare_cached(
            "SELECT change.number, revision, change.repository, change.base, content FROM conversation
             JOIN change ON change.number = conversation.change_number
             WHERE conversation.id = ?1 ORDER BY revision DESC LIMIT 1",
        )?
        .query_row([id.0], |row| {
            Ok(OpenChange {
                number: ChangeNumber(row.get(0)?),
                revision: row.get(1)?,
                repository: row.get(2)?,
                base: row.get(3)?,
                content: row.get(4)?,
            })
        })
        .optional()?;
    Ok(open)
}

/// Returns the number of the open change.
pub(super) fn current_number(
    tx: &Transaction<'_>,
    id: ConversationId,
) -> Result<Option<ChangeNumber>, StoreError> {
    let number: Option<i64> = tx
        .prepare_cached("SELECT change_number FROM conversation WHERE id = ?1")?
        .query_row([id.0], |row| row.get(0))
        .optional()?
        .ok_or_else(|| StoreError::NotFound(format!("conversation {id}")))?;
    Ok(number.map(ChangeNumber))
}

/// Returns the name of the open change, such as `CHG-42 rev 2`, even if the change cannot be read.
pub(super) fn current_name(tx: &Transaction<'_>, id: ConversationId) -> Result<Option<String>, StoreError> {
    let name = tx
        .prepare_cached(
            "SELECT change.number, MAX(change.revision) FROM conversation
             JOIN change ON change.number = conversation.change_number
             WHERE conversation.id = ?1 GROUP BY change.number",
        )?
        .query_row([id.0], |row| {
            Ok(Change::name(ChangeNumber(row.get(0)?), row.get(1)?))
        })
        .optional()?;
    Ok(name)
}

fn newest(
    tx: &Transaction<'_>,
    number: ChangeNumber,
) -> Result<Option<(Change, ConversationId)>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM change WHERE number = ?1 ORDER BY revision DESC LIMIT 1");
    let mut statement = tx.prepare_cached(&sql)?;
    let mut rows = statement.query([number.0])?;
    rows.next()?.map(|row| read(tx, row)).transpose()
}

fn read(tx: &Transaction<'_>, row: &Row<'_>) -> Result<(Change, ConversationId), StoreError> {
    let change = Change {
        number: ChangeNumber(row.get(0)?),
        revision: row.get(1)?,
        repository: row.get(2)?,
        base: row.get(3)?,
        patch: edits::load_blob(tx, row.get(4)?)?,
        stats: parse("change", &row.get::<_, String>(5)?)?,
        checks: parse("change", &row.get::<_, String>(6)?)?,
        effects: row.get(7)?,
        needs: parse("change", &row.get::<_, String>(9)?)?,
        overview: parse("change", &row.get::<_, String>(10)?)?,
    };
    Ok((change, ConversationId(row.get(8)?)))
}
