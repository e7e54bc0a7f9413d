//! The room for further runs of services. A message that starts runs waits in the inbox while its service has as many open runs
//! as it may have: its conversation is not claimed before one of them has ended.

use super::creation::{OPEN_RUNS_MAX, OPEN_RUNS_OF_OWNER_MAX};
use crate::base::model::{Account, Inbound, Sender};
use crate::state::store::column::json;
use crate::state::store::{StoreError, key};
use rusqlite::{Transaction, params};
use std::collections::HashMap;
use std::slice;

/// A service whose messages start runs: the events of a hook, or the times of a configured schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunStarter {
    /// The account for which its runs work.
    pub sender: Sender,
    /// The account of the places of its messages. Those of the agent steps of its runs have another one.
    pub account: Account,
}

/// The range of the keys of some conversations, without its ends.
type KeyRange = (String, String);

impl RunStarter {
    fn keys(&self) -> Result<KeyRange, StoreError> {
        key::account_key_range(&self.sender, &self.account)
    }

    fn has_sent(&self, inbound: &Inbound) -> bool {
        self.sender == inbound.sender && self.account == inbound.place.account
    }
}

/// Returns the keys of the messages that wait until a run has ended. The runs are counted only while a message of a service
/// waits.
pub(in crate::state::store) fn keys_without_room(
    tx: &Transaction<'_>,
    starters: &[RunStarter],
) -> Result<Vec<KeyRange>, StoreError> {
    match !starters.is_empty() && service_waits(tx)? {
        true => keys_of_full(tx, starters),
        false => Ok(Vec::new()),
    }
}

/// Returns the keys of the messages of those that have no room. A message in work may start a run, so it takes the room of one
/// already.
fn keys_of_full(tx: &Transaction<'_>, starters: &[RunStarter]) -> Result<Vec<KeyRange>, StoreError> {
    let open = open_by_owner(tx)?;
    let is_full = open.values().sum::<u32>() >= OPEN_RUNS_MAX;
    let mut waiting = Vec::new();
    for starter in starters {
        let owner = json(&starter.sender)?;
        let own = open.get(&owner).copied().unwrap_or(0);
        let has_room = match own {
            _ if is_full => false,
            // Without an open run, nothing would end the wait.
            0 => true,
            own => own + in_work(tx, &owner, &starter.keys()?)? < OPEN_RUNS_OF_OWNER_MAX,
        };
        if !has_room {
            waiting.push(starter.keys()?);
        }
    }
    Ok(waiting)
}

/// Returns true if a message may be claimed as it arrives. One that starts runs waits without room for a run, and behind the
/// earlier ones of its service that wait.
pub(in crate::state::store) fn may_begin_at_once(
    tx: &Transaction<'_>,
    starters: &[RunStarter],
    inbound: &Inbound,
) -> Result<bool, StoreError> {
    let Some(starter) = starters.iter().find(|starter| starter.has_sent(inbound)) else {
        return Ok(true);
    };
    if !keys_of_full(tx, slice::from_ref(starter))?.is_empty() {
        return Ok(false);
    }
    let (after, before) = starter.keys()?;
    let others_wait = tx
        .prepare_cached(
            "SELECT 1 FROM conversation INDEXED BY conversation_due
             WHERE pending > 0 AND owner IS NULL AND key > ?1 AND key < ?2",
        )?
        .exists([after, before])?;
    Ok(!others_wait)
}

/// Returns true if a message of a hook or of a configured schedule waits.
fn service_waits(tx: &Transaction<'_>) -> Result<bool, StoreError> {
    let (hooks, schedules) = (key::HOOKS, key::SCHEDULES);
    let waits = tx
        .prepare_cached(
            "SELECT 1 FROM conversation INDEXED BY conversation_due
             WHERE pending > 0 AND owner IS NULL AND (key BETWEEN ?1 AND ?2 OR key BETWEEN ?3 AND ?4)",
        )?
        .exists([hooks.0, hooks.1, schedules.0, schedules.1])?;
    Ok(waits)
}

/// Returns the numbers of runs that have not ended, by the account for which they work.
fn open_by_owner(tx: &Transaction<'_>) -> Result<HashMap<String, u32>, StoreError> {
    let mut statement = tx.prepare_cached(
        "SELECT owner, COUNT(*) FROM run INDEXED BY run_open WHERE ended_at IS NULL GROUP BY owner",
    )?;
    let counted = statement.query_map([], |row| <(String, u32)>::try_from(row))?;
    Ok(counted.collect::<rusqlite::Result<_>>()?)
}

/// Returns the number of messages of a service that are in work.
fn in_work(tx: &Transaction<'_>, sender: &str, (after, before): &KeyRange) -> Result<u32, StoreError> {
    let in_work = tx
        .prepare_cached(
            "SELECT COUNT(*) FROM conversation INDEXED BY conversation_in_work
             WHERE owner IS NOT NULL AND sender = ?1 AND key > ?2 AND key < ?3",
        )?
        .query_row(params![sender, after, before], |row| row.get(0))?;
    Ok(in_work)
}
