//! Recovery after a crash, and its effect on the messages that were active then: which may have caused it, and when one
//! is given up.
//!
//! A process cannot know whether it was killed or a message made it crash. So a crash counts against a message only if
//! it was alone: the only active message, or the one running *suspect*. A message becomes a suspect after two crashes
//! while it was active, and suspects run one at a time. This finds the message that causes crashes, and the others are
//! not given up with it.

use super::claim::{Claim, check_fence};
use super::{Store, StoreError, inbox};
use crate::crash_point;
use rusqlite::{Connection, Transaction, params};

/// Number of crashes after which a message is a suspect.
pub(super) const SUSPECT_CRASHES_MIN: u32 = 2;
/// Number of crashes counted against a message before it is given up.
const OWN_CRASHES_MAX: u32 = 3;
/// Number of crashes during a message, whatever their cause, before it is given up.
const CRASHES_MAX: u32 = 12;

/// The crashes while a message was active.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Crashes {
    /// All crashes.
    pub all: u32,
    /// Crashes that only this message can have caused.
    pub own: u32,
}

impl Crashes {
    /// True if the message must not be tried again.
    pub fn are_too_many(self) -> bool {
        self.own >= OWN_CRASHES_MAX || self.all >= CRASHES_MAX
    }

    /// True if the message may run only while no other suspect does.
    pub fn is_suspect(self) -> bool {
        self.all >= SUSPECT_CRASHES_MIN
    }
}

impl Store {
    /// Counts a failure that only this message can have caused, such as a panic of its turn. It counts like a crash.
    pub async fn blame(&self, claim: &Claim) -> Result<(), StoreError> {
        let claim = *claim;
        self.write(move |tx| {
            check_fence(tx, claim)?;
            if let Some((message, _)) = inbox::next(tx, claim.conversation)? {
                tx.prepare_cached(
                    "UPDATE inbox SET crashes = crashes + 1, own_crashes = own_crashes + 1 WHERE id = ?1",
                )?
                .execute([message.0])?;
            }
            Ok(())
        })
        .await
    }

    /// Records that this process works on messages. If it ends without [`Store::end_work`], that counts as a crash.
    pub async fn begin_work(&self) -> Result<(), StoreError> {
        self.write_unsynced(|tx| Ok(set_working(tx)?)).await
    }

    /// Records that this process has stopped working, and releases all claims.
    pub async fn end_work(&self) -> Result<(), StoreError> {
        self.write(|tx| {
            unset_working(tx)?;
            Ok(void_claims(tx)?)
        })
        .await
    }
}

/// Voids the claims and leases of an ended process, and counts a crash if it ended without notice. The caller owns the
/// database. Operations that were in flight or ready become ambiguous, and are looked up before they are sent again.
/// Returns the number of this start.
pub(super) fn recover(connection: &mut Connection) -> rusqlite::Result<i64> {
    crash_point::before("recovery");
    let tx = connection.transaction()?;
    tx.execute(
        "UPDATE outbox SET state = 'doubtful', why = 'the process ended while it was sent', attempts = attempts + (state <> 'ready')
         WHERE state IN ('sending', 'looking', 'repeating', 'ready')",
        [],
    )?;
    if tx.query_row("SELECT works FROM process", [], |row| row.get(0))? {
        let in_work = in_work(&tx)?;
        blame_all(&tx, &in_work)?;
        unset_working(&tx)?;
    }
    void_claims(&tx)?;
    let sql = "UPDATE process SET starts = starts + 1 RETURNING starts";
    let number = tx.query_row(sql, [], |row| row.get(0))?;
    tx.commit()?;
    crash_point::after("recovery");
    Ok(number)
}

/// Returns how many times this database was opened.
pub(super) fn starts(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("SELECT starts FROM process", [], |row| row.get(0))
}

fn set_working(tx: &Transaction<'_>) -> rusqlite::Result<()> {
    tx.execute("UPDATE process SET works = 1 WHERE works = 0", [])?;
    Ok(())
}

fn unset_working(tx: &Transaction<'_>) -> rusqlite::Result<()> {
    tx.execute("UPDATE process SET works = 0 WHERE works = 1", [])?;
    Ok(())
}

/// An inbox row that was active.
struct InWork {
    inbox: i64,
    is_turn: bool,
    crashes: u32,
}

/// Returns the messages of claimed conversations, and the unanswered commands.
fn in_work(tx: &Transaction<'_>) -> rusqlite::Result<Vec<InWork>> {
    let mut statement = tx.prepare(
        "SELECT inbox.id, inbox.lane = 'turn', inbox.crashes FROM conversation JOIN inbox ON inbox.id =
           (SELECT MIN(id) FROM inbox WHERE inbox.conversation = conversation.id AND lane = 'turn' AND done_at IS NULL)
         WHERE conversation.pending > 0 AND conversation.owner IS NOT NULL
         UNION ALL
         SELECT id, 0, crashes FROM inbox WHERE done_at IS NULL AND lane <> 'turn'",
    )?;
    let rows = statement.query_map([], |row| {
        Ok(InWork {
            inbox: row.get(0)?,
            is_turn: row.get(1)?,
            crashes: row.get(2)?,
        })
    })?;
    rows.collect()
}

fn blame_all(tx: &Transaction<'_>, in_work: &[InWork]) -> rusqlite::Result<()> {
    let is_suspect = |row: &InWork| row.is_turn && row.crashes >= SUSPECT_CRASHES_MIN;
    let has_suspect = in_work.iter().any(is_suspect);
    let mut statement =
        tx.prepare("UPDATE inbox SET crashes = crashes + 1, own_crashes = own_crashes + ?2 WHERE id = ?1")?;
    for row in in_work {
        let is_own = match has_suspect {
            true => is_suspect(row),
            false => in_work.len() == 1,
        };
        statement.execute(params![row.inbox, is_own])?;
    }
    Ok(())
}

fn void_claims(tx: &Transaction<'_>) -> rusqlite::Result<()> {
    tx.execute("UPDATE conversation SET owner = NULL WHERE owner IS NOT NULL", [])?;
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests;
