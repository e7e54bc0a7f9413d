//! Invites: hashes of tokens. Each can be used once until it expires.

use super::audit::audit_in;
use super::column::{json, millis, parse};
use super::{StoreError, delivery_name, people};
use crate::base::model::{Sender, UserId};
use jiff::Timestamp;
use rusqlite::{OptionalExtension, Transaction, params};

/// The time by which the clock may be behind the creation time of an invite, in milliseconds.
const CLOCK_DIFFERENCE_MS_MAX: i64 = 5 * 60 * 1_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InviteRow {
    pub(crate) name: String,
    pub(crate) role: String,
    pub(crate) repositories: String,
    pub(crate) environments: Vec<String>,
    pub(crate) bound_to: Option<Sender>,
    pub(crate) issued_by: String,
    pub(crate) expires_at: Timestamp,
}

/// The outcome of an attempt to use an invite.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Redemption {
    /// The message was already handled.
    Duplicate,
    /// The account is already admitted. The invite stays valid.
    AlreadyAdmitted,
    /// There is no valid invite with this token for this account.
    Invalid,
    /// The account is admitted as this user.
    Admitted(UserId),
}

pub(crate) fn insert(
    tx: &Transaction<'_>,
    hash: [u8; 32],
    invite: &InviteRow,
    at: Timestamp,
) -> Result<(), StoreError> {
    let bound_to = invite.bound_to.as_ref().map(json).transpose()?;
    tx.prepare_cached(
        "INSERT INTO invite (hash, name, role, repositories, environments, bound_to, issued_by, created_at, expires_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )?
    .execute(params![
        hash,
        invite.name,
        invite.role,
        invite.repositories,
        json(&invite.environments)?,
        bound_to,
        invite.issued_by,
        millis(at),
        millis(invite.expires_at),
    ])?;
    let data = serde_json::json!({
        "bound_to": invite.bound_to.as_ref().map(ToString::to_string),
        "environments": invite.environments,
        "expires_at": millis(invite.expires_at),
        "issued_by": invite.issued_by,
        "name": invite.name,
        "repositories": invite.repositories,
        "role": invite.role,
    });
    audit_in(tx, "invite.issued", data, at)
}

/// The expected outcome of an attempt to use an invite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RedemptionPreview {
    /// The message was already handled.
    Duplicate,
    /// The attempt would fail, because no valid invite has this token for this account. Failed attempts store no rows.
    Invalid,
    /// The attempt would have a result to store.
    HasResult,
}

/// Previews an attempt to use an invite, without any change.
pub(crate) fn preview_redemption(
    tx: &Transaction<'_>,
    hash: [u8; 32],
    sender: &Sender,
    delivery: &[String],
    at: Timestamp,
) -> Result<RedemptionPreview, StoreError> {
    if delivery_name::was_delivered(tx, delivery)? {
        return Ok(RedemptionPreview::Duplicate);
    }
    if let Some((_, false)) = people::user_of(tx, sender)? {
        return Ok(RedemptionPreview::HasResult);
    }
    let is_good = tx
        .prepare_cached(
            "SELECT 1 FROM invite
             WHERE hash = ?1 AND used_at IS NULL AND burned_at IS NULL AND expires_at > ?2 AND created_at <= ?4
               AND (bound_to IS NULL OR bound_to = ?3)",
        )?
        .exists(params![
            hash,
            millis(at),
            json(sender)?,
            millis(at).saturating_add(CLOCK_DIFFERENCE_MS_MAX)
        ])?;
    Ok(match is_good {
        true => RedemptionPreview::HasResult,
        false => RedemptionPreview::Invalid,
    })
}

/// True if there is an invite that [`revoke`] would revoke.
pub(crate) fn is_live(tx: &Transaction<'_>, hash: [u8; 32], at: Timestamp) -> Result<bool, StoreError> {
    let mut statement = tx.prepare_cached(
        "SELECT 1 FROM invite WHERE hash = ?1 AND used_at IS NULL AND burned_at IS NULL AND expires_at > ?2",
    )?;
    Ok(statement.exists(params![hash, millis(at)])?)
}

/// Redeems an invite. The used invite, the new person and the handled message are stored together or not at all.
/// Unknown, expired, used and foreign tokens take the same statement and give the same answer.
pub(crate) fn redeem(
    tx: &Transaction<'_>,
    hash: [u8; 32],
    sender: &Sender,
    delivery: &[String],
    at: Timestamp,
) -> Result<Redemption, StoreError> {
    if delivery_name::was_delivered(tx, delivery)? {
        return Ok(Redemption::Duplicate);
    }
    delivery_name::remember_delivery(tx, delivery, at)?;
    if let Some((_, false)) = people::user_of(tx, sender)? {
        return Ok(Redemption::AlreadyAdmitted);
    }
    type Row = (String, String, String, String, String);
    let spent: Option<Row> = tx
        .prepare_cached(
            "UPDATE invite SET used_at = ?2, used_by = ?3
             WHERE hash = ?1 AND used_at IS NULL AND burned_at IS NULL AND expires_at > ?2 AND created_at <= ?4
               AND (bound_to IS NULL OR bound_to = ?3)
             RETURNING name, role, repositories, environments, issued_by",
        )?
        .query_row(
            params![
                hash,
                millis(at),
                json(sender)?,
                millis(at).saturating_add(CLOCK_DIFFERENCE_MS_MAX)
            ],
            |row| row.try_into(),
        )
        .optional()?;
    let Some((name, role, repositories, environments, issued_by)) = spent else {
        return Ok(Redemption::Invalid);
    };
    let grant = (role, repositories, parse("invite", &environments)?);
    let user = people::add_person(tx, &name, &issued_by, sender, &grant, at)?;
    let data = serde_json::json!({
        "invited_by": issued_by,
        "name": name,
        "sender": sender.to_string(),
        "user": user,
    });
    audit_in(tx, "invite.redeemed", data, at)?;
    Ok(Redemption::Admitted(user))
}

/// Marks invites that have expired. They stay expired if the clock is set back.
pub(crate) fn expire(tx: &Transaction<'_>, at: Timestamp) -> Result<(), StoreError> {
    tx.prepare_cached(
        "UPDATE invite SET burned_at = ?1 WHERE used_at IS NULL AND burned_at IS NULL AND expires_at <= ?1",
    )?
    .execute([millis(at)])?;
    Ok(())
}

/// Revokes an invite. Returns false if it was not valid or never existed.
pub(crate) fn revoke(tx: &Transaction<'_>, hash: [u8; 32], at: Timestamp) -> Result<bool, StoreError> {
    let name: Option<String> = tx
        .prepare_cached(
            "UPDATE invite SET burned_at = ?2, expires_at = ?2
             WHERE hash = ?1 AND used_at IS NULL AND burned_at IS NULL AND expires_at > ?2 RETURNING name",
        )?
        .query_row(params![hash, millis(at)], |row| row.get(0))
        .optional()?;
    let Some(name) = name else {
        return Ok(false);
    };
    audit_in(tx, "invite.burned", serde_json::json!({ "name": name }), at)?;
    Ok(true)
}
