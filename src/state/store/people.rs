//! Admitted people and their grants, as rows. `access` decides what they mean.

use super::audit::audit_in;
use super::column::{json, millis, parse, time};
use super::{Store, StoreError, login, outbox, person_message, run, schedule};
use crate::base::model::{Account, Sender, UserId};
use jiff::Timestamp;
use rusqlite::{OptionalExtension, Row, Transaction, params};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The columns of a person.
const COLUMNS: &str = "name, invited_by, created_at, revoked_at, auditor";

/// A grant as stored: role word, repository glob, environment globs.
pub(crate) type GrantRow = (String, String, Vec<String>);

/// A person or service as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PersonRow {
    pub(crate) id: UserId,
    pub(crate) name: String,
    pub(crate) invited_by: String,
    pub(crate) created_at: Timestamp,
    pub(crate) revoked_at: Option<Timestamp>,
    pub(crate) senders: Vec<Sender>,
    pub(crate) grants: Vec<GrantRow>,
    pub(crate) is_auditor: bool,
}

/// A person to admit by their account.
pub(crate) struct Newcomer {
    pub(crate) name: String,
    pub(crate) sender: Sender,
    pub(crate) grant: GrantRow,
    /// The workspaces and bots that are connected.
    pub(crate) connected: Vec<Account>,
}

/// The operator or administrator who admits a person.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AdmittedBy<'a> {
    Operator,
    Administrator { user: UserId, name: &'a str },
}

/// The outcome of an admission. It is stored with the message that requested it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum AdmissionOutcome {
    /// The person is admitted as this user.
    Admitted(UserId),
    /// The person was already admitted.
    Before { name: String },
    /// The person's access was revoked. Only an operator can restore it.
    Revoked { name: String },
    /// The person's workspace or bot is not known here.
    Nowhere,
    /// The requesting administrator may not admit the person.
    NotGranted,
}

/// A change of the right to read the conversations of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditorRight {
    /// The person is an auditor now.
    Given,
    /// The person is no auditor any more.
    Withdrawn,
}

impl Store {
    /// Returns all people that were ever admitted, oldest first.
    pub(crate) async fn people(&self) -> Result<Vec<PersonRow>, StoreError> {
        self.read(people).await
    }

    /// True for a person who may read the conversations of others now.
    pub(crate) async fn is_auditor(&self, user: UserId) -> Result<bool, StoreError> {
        self.read(move |tx| is_auditor(tx, user)).await
    }
}

/// Reads all people that were ever admitted, oldest first. There may be thousands, so each table is read once.
pub(crate) fn people(tx: &Transaction<'_>) -> Result<Vec<PersonRow>, StoreError> {
    let mut people = BTreeMap::new();
    let mut statement = tx.prepare_cached(&format!("SELECT {COLUMNS}, id FROM users"))?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let id = UserId(row.get(5)?);
        people.insert(id, without_accounts(id, row)?);
    }
    let mut statement = tx.prepare_cached("SELECT sender, user_id FROM identity ORDER BY sender")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        if let Some(person) = people.get_mut(&UserId(row.get(1)?)) {
            person.senders.push(sender(row)?);
        }
    }
    let mut statement =
        tx.prepare_cached("SELECT role, repositories, environments, user_id FROM user_grant ORDER BY id")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        if let Some(person) = people.get_mut(&UserId(row.get(3)?)) {
            person.grants.push(grant(row)?);
        }
    }
    Ok(people.into_values().collect())
}

pub(crate) fn person(tx: &Transaction<'_>, id: UserId) -> Result<PersonRow, StoreError> {
    let mut statement = tx.prepare_cached(&format!("SELECT {COLUMNS} FROM users WHERE id = ?1"))?;
    let mut rows = statement.query([id.0])?;
    let row = rows.next()?;
    let row = row.ok_or_else(|| StoreError::NotFound(format!("user {id}")))?;
    let mut person = without_accounts(id, row)?;
    person.senders = accounts(tx, id)?;
    person.grants = grants(tx, id)?;
    Ok(person)
}

/// Returns the accounts of a person.
pub(crate) fn accounts(tx: &Transaction<'_>, id: UserId) -> Result<Vec<Sender>, StoreError> {
    let mut statement =
        tx.prepare_cached("SELECT sender FROM identity WHERE user_id = ?1 ORDER BY sender")?;
    let mut rows = statement.query([id.0])?;
    let mut accounts = Vec::new();
    while let Some(row) = rows.next()? {
        accounts.push(sender(row)?);
    }
    Ok(accounts)
}

/// Reads a person from a row of [`COLUMNS`], without accounts and grants.
fn without_accounts(id: UserId, row: &Row<'_>) -> Result<PersonRow, StoreError> {
    Ok(PersonRow {
        id,
        name: row.get(0)?,
        invited_by: row.get(1)?,
        created_at: time(row.get(2)?)?,
        revoked_at: row.get::<_, Option<i64>>(3)?.map(time).transpose()?,
        senders: Vec::new(),
        grants: Vec::new(),
        is_auditor: row.get(4)?,
    })
}

fn sender(row: &Row<'_>) -> Result<Sender, StoreError> {
    parse("sender", &row.get::<_, String>(0)?)
}

/// Returns the current grants of a person; `None` after revocation.
pub(crate) fn current_grants(tx: &Transaction<'_>, id: UserId) -> Result<Option<Vec<GrantRow>>, StoreError> {
    let mut statement = tx.prepare_cached(
        "SELECT role, repositories, environments FROM users LEFT JOIN user_grant ON user_grant.user_id = users.id
         WHERE users.id = ?1 AND users.revoked_at IS NULL ORDER BY user_grant.id",
    )?;
    let mut rows = statement.query([id.0])?;
    let mut standing = None;
    while let Some(row) = rows.next()? {
        let grants = standing.get_or_insert_with(Vec::new);
        // A person without grants gives one row with empty columns.
        if row.get::<_, Option<String>>(0)?.is_some() {
            grants.push(grant(row)?);
        }
    }
    Ok(standing)
}

fn grant(row: &Row<'_>) -> Result<GrantRow, StoreError> {
    Ok((
        row.get(0)?,
        row.get(1)?,
        parse("grant", &row.get::<_, String>(2)?)?,
    ))
}

fn grants(tx: &Transaction<'_>, id: UserId) -> Result<Vec<GrantRow>, StoreError> {
    let mut grants = Vec::new();
    let mut statement = tx.prepare_cached(
        "SELECT role, repositories, environments FROM user_grant WHERE user_id = ?1 ORDER BY id",
    )?;
    let mut rows = statement.query([id.0])?;
    while let Some(row) = rows.next()? {
        grants.push(grant(row)?);
    }
    Ok(grants)
}

/// Returns the user of an account, and whether it was revoked.
pub(crate) fn user_of(tx: &Transaction<'_>, sender: &Sender) -> Result<Option<(UserId, bool)>, StoreError> {
    let user = tx
        .prepare_cached(
            "SELECT users.id, users.revoked_at IS NOT NULL FROM identity
             JOIN users ON users.id = identity.user_id WHERE identity.sender = ?1",
        )?
        .query_row([json(sender)?], |row| Ok((UserId(row.get(0)?), row.get(1)?)))
        .optional()?;
    Ok(user)
}

/// Adds a person with one account and one grant. The account of a revoked person moves to the new one; the old row
/// keeps its history, and what was not sent to them is not sent any more.
pub(crate) fn add_person(
    tx: &Transaction<'_>,
    name: &str,
    invited_by: &str,
    sender: &Sender,
    grant: &GrantRow,
    at: Timestamp,
) -> Result<UserId, StoreError> {
    if let Some((_, true)) = user_of(tx, sender)? {
        outbox::withdraw_all_for(tx, std::slice::from_ref(sender), at)?;
    }
    tx.prepare_cached("INSERT INTO users (name, invited_by, created_at) VALUES (?1, ?2, ?3)")?
        .execute(params![name, invited_by, millis(at)])?;
    let user = UserId(tx.last_insert_rowid());
    tx.prepare_cached(
        "INSERT INTO identity (sender, user_id, created_at) VALUES (?1, ?2, ?3)
         ON CONFLICT (sender) DO UPDATE SET user_id = excluded.user_id, created_at = excluded.created_at",
    )?
    .execute(params![json(sender)?, user.0, millis(at)])?;
    set_grant(tx, user, grant)?;
    Ok(user)
}

/// Admits a person by their account. If its workspace or bot is not connected, it must be known from earlier.
pub(crate) fn admit(
    tx: &Transaction<'_>,
    new: &Newcomer,
    by: AdmittedBy<'_>,
    at: Timestamp,
) -> Result<AdmissionOutcome, StoreError> {
    if let Some((user, is_revoked)) = user_of(tx, &new.sender)? {
        let name = person(tx, user)?.name;
        match (is_revoked, by) {
            (false, _) => return Ok(AdmissionOutcome::Before { name }),
            (true, AdmittedBy::Administrator { .. }) => return Ok(AdmissionOutcome::Revoked { name }),
            (true, AdmittedBy::Operator) => {}
        }
    }
    let of = |account: &Account| account.platform == new.sender.platform && account.id == new.sender.account;
    if !new.connected.iter().any(of) && !was_seen(tx, &new.sender)? {
        return Ok(AdmissionOutcome::Nowhere);
    }
    let (by, by_user) = match by {
        AdmittedBy::Operator => ("operator", None),
        AdmittedBy::Administrator { user, name } => (name, Some(user)),
    };
    let user = add_person(tx, &new.name, by, &new.sender, &new.grant, at)?;
    let data = serde_json::json!({
        "by": by,
        "by_user": by_user,
        "grant": new.grant,
        "name": new.name,
        "sender": new.sender.to_string(),
        "user": user,
    });
    audit_in(tx, "user.created", data, at)?;
    Ok(AdmissionOutcome::Admitted(user))
}

/// True if the account was refused here before, or if other accounts of its workspace or bot were admitted.
fn was_seen(tx: &Transaction<'_>, sender: &Sender) -> Result<bool, StoreError> {
    let was_seen = tx
        .prepare_cached(
            "SELECT 1 FROM stranger WHERE sender = ?1
             UNION ALL
             SELECT 1 FROM identity WHERE sender ->> 'platform' = ?2 AND sender ->> 'account' = ?3
             LIMIT 1",
        )?
        .exists(params![json(sender)?, sender.platform.as_str(), sender.account])?;
    Ok(was_seen)
}

/// Replaces all grants of a person with this one.
pub(crate) fn set_grant(tx: &Transaction<'_>, user: UserId, grant: &GrantRow) -> Result<(), StoreError> {
    let (role, repositories, environments) = grant;
    tx.prepare_cached("DELETE FROM user_grant WHERE user_id = ?1")?
        .execute([user.0])?;
    tx.prepare_cached(
        "INSERT INTO user_grant (user_id, role, repositories, environments) VALUES (?1, ?2, ?3, ?4)",
    )?
    .execute(params![user.0, role, repositories, json(environments)?])?;
    Ok(())
}

/// Creates a service identity of the configuration, if there is none, and gives it the grant. Returns it if anything changed;
/// a revoked one does not change.
pub(crate) fn store_service(
    tx: &Transaction<'_>,
    (sender, name): (&Sender, &str),
    grant: &GrantRow,
    at: Timestamp,
) -> Result<Option<PersonRow>, StoreError> {
    let user = match user_of(tx, sender)? {
        Some((_, true)) => return Ok(None),
        Some((user, false)) if grants(tx, user)? == std::slice::from_ref(grant) => return Ok(None),
        Some((user, false)) => {
            set_grant(tx, user, grant)?;
            let data =
                serde_json::json!({ "by": "configuration", "grant": grant, "name": name, "user": user });
            audit_in(tx, "user.granted", data, at)?;
            user
        }
        None => {
            let data = serde_json::json!({ "name": name, "sender": sender.to_string() });
            audit_in(tx, "user.created", data, at)?;
            add_person(tx, name, "configuration", sender, grant, at)?
        }
    };
    person(tx, user).map(Some)
}

/// Takes all grants from a service identity that the configuration does not have any more. Returns it if it had any.
pub(crate) fn withdraw_service(
    tx: &Transaction<'_>,
    user: UserId,
    at: Timestamp,
) -> Result<Option<PersonRow>, StoreError> {
    let withdrawn = tx
        .prepare_cached("DELETE FROM user_grant WHERE user_id = ?1")?
        .execute([user.0])?;
    if withdrawn == 0 {
        return Ok(None);
    }
    let service = person(tx, user)?;
    let data =
        serde_json::json!({ "by": "configuration", "grant": null, "name": service.name, "user": user });
    audit_in(tx, "user.granted", data, at)?;
    Ok(Some(service))
}

/// Gives a person the right to read the conversations of others, or takes it away. Returns false if nothing changed.
pub(crate) fn set_auditor(
    tx: &Transaction<'_>,
    user: UserId,
    right: AuditorRight,
) -> Result<bool, StoreError> {
    let changed = tx
        .prepare_cached("UPDATE users SET auditor = ?2 WHERE id = ?1 AND auditor <> ?2")?
        .execute(params![user.0, right == AuditorRight::Given])?;
    Ok(changed == 1)
}

/// True for a person who may read the conversations of others now.
pub(crate) fn is_auditor(tx: &Transaction<'_>, user: UserId) -> Result<bool, StoreError> {
    let is_auditor = tx
        .prepare_cached("SELECT 1 FROM users WHERE id = ?1 AND auditor = 1 AND revoked_at IS NULL")?
        .exists([user.0])?;
    Ok(is_auditor)
}

/// Marks a person as revoked, removes the messages between them and others, turns their schedules off, cancels their runs and
/// withdraws what waits for them alone. Returns the names of their tokens, which ended, or `None` if they already were revoked.
pub(crate) fn revoke(
    tx: &Transaction<'_>,
    user: UserId,
    at: Timestamp,
) -> Result<Option<Vec<String>>, StoreError> {
    let revoked = tx
        .prepare_cached("UPDATE users SET revoked_at = ?2, zone = NULL WHERE id = ?1 AND revoked_at IS NULL")?
        .execute(params![user.0, millis(at)])?;
    person_message::forget_person(tx, user)?;
    let tokens = login::end_all(tx, user, at)?;
    schedule::turn_off_all(tx, user, at)?;
    run::cancel_all(tx, user, at)?;
    if revoked == 0 {
        return Ok(None);
    }
    outbox::withdraw_all_for(tx, &accounts(tx, user)?, at)?;
    Ok(Some(tokens))
}
