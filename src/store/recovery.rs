//! Recovery after the end of a process, and what that end means for the messages that were in work then: which of
//! them may have caused it, and when one is given up.
//!
//! Nothing tells from inside whether a process was killed or ended by what it worked on. So a message is blamed
//! only where it was alone: it was all that was in work, or it ran as the one *suspect*. A message becomes a suspect
//! when it was in work at two ends of the process, and suspects run one at a time. A message that ends the
//! process is found that way, and those that ran beside it are not given up with it.

use super::claim::{Claim, check_fence};
use super::{Store, StoreError, inbox};
use crate::crash_point;
use rusqlite::{Connection, Transaction, params};

/// Ends of the process after which a message is a suspect.
pub(super) const SUSPECT_CRASHES_MIN: u32 = 2;
/// Ends of the process that a message may be blamed for before it is given up.
const OWN_CRASHES_MAX: u32 = 3;
/// Ends of the process a message may see, whoever is to blame, before it is given up.
const CRASHES_MAX: u32 = 12;

/// The ends of the process in which a message was in work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Crashes {
    /// All ends.
    pub all: u32,
    /// Ends that only this message can have caused.
    pub own: u32,
}

impl Crashes {
    /// True for a message that is not to be tried again.
    pub fn are_too_many(self) -> bool {
        self.own >= OWN_CRASHES_MAX || self.all >= CRASHES_MAX
    }

    /// True for a message that runs only while no other suspect does.
    pub fn is_suspect(self) -> bool {
        self.all >= SUSPECT_CRASHES_MIN
    }
}

impl Store {
    /// Counts a failure that only this message can have caused, such as a panic of its turn. It counts like an end of
    /// the process.
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

    /// Says that this process works on the messages from now on: should it end otherwise than by
    /// [`Store::end_work`], what was in work then is blamed.
    pub async fn begin_work(&self) -> Result<(), StoreError> {
        self.write_unsynced(|tx| Ok(set_working(tx, true)?)).await
    }

    /// Says that this process works on nothing any more, and gives back every claim.
    pub async fn end_work(&self) -> Result<(), StoreError> {
        self.write(|tx| {
            set_working(tx, false)?;
            Ok(void_claims(tx)?)
        })
        .await
    }
}

/// Voids what belongs to a process that is gone, and blames what was in work if that ended without notice. The
/// caller owns the database. What was being sent, or was ready to be, has an unknown outcome and is asked for
/// before it is sent again. Answers the number of this start.
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
        set_working(&tx, false)?;
    }
    void_claims(&tx)?;
    let sql = "UPDATE process SET starts = starts + 1 RETURNING starts";
    let number = tx.query_row(sql, [], |row| row.get(0))?;
    tx.commit()?;
    crash_point::after("recovery");
    Ok(number)
}

/// Returns the number of times this database was opened.
pub(super) fn starts(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("SELECT starts FROM process", [], |row| row.get(0))
}

fn set_working(tx: &Transaction<'_>, works: bool) -> rusqlite::Result<()> {
    tx.execute("UPDATE process SET works = ?1 WHERE works <> ?1", [works])?;
    Ok(())
}

/// A row of the inbox that was in work.
struct InWork {
    inbox: i64,
    is_turn: bool,
    crashes: u32,
}

/// The messages whose conversations were claimed, and the commands that were not answered.
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
