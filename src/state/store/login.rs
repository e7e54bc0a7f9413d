//! Logins of people's machines: one-time codes, and the tokens that they are exchanged for. This table
//! has only keyed hashes; the outbox has the message that shows a code, until it is delivered (`login_message.rs`).

use super::audit::audit_in;
use super::column::{millis, parse, time};
use super::people::{PersonRow, person};
use super::{Store, StoreError, command, login_message};
use crate::base::model::{InboxId, Op, UserId};
use jiff::Timestamp;
use rusqlite::{OptionalExtension, Transaction, params};

/// Maximum number of logins of one person. A further one ends the oldest.
const LOGINS_OF_PERSON_MAX: u32 = 20;
/// The time by which the clock may be behind the creation time of a code or token, in milliseconds.
const CLOCK_DIFFERENCE_MS_MAX: i64 = 5 * 60 * 1_000;

/// A code for a login, to be stored with the answer that shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewLoginCode {
    /// The keyed hash of the code.
    pub hash: [u8; 32],
    /// The person who may use it.
    pub user: UserId,
    /// The time of expiry.
    pub expires_at: Timestamp,
}

/// A valid token of a person, as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ValidToken {
    pub(crate) user: UserId,
    pub(crate) origin: TokenOrigin,
}

/// The origin of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TokenOrigin {
    /// The login of a person's machine.
    Machine,
    /// A token that an operator made, with the words of its scopes and the last noted use.
    Operator {
        scopes: Vec<String>,
        used_at: Option<Timestamp>,
    },
}

impl Store {
    /// Marks a command as answered, enqueues its answers and stores the code that they show, in one transaction. Earlier
    /// codes of the person are no longer valid. A repeated call changes nothing.
    pub async fn finish_login_command(
        &self,
        inbox: InboxId,
        code: NewLoginCode,
        ops: Vec<Op>,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        self.write(move |tx| match command::finish(tx, inbox, &ops, at)? {
            true => replace_code(tx, &code, at),
            false => Ok(()),
        })
        .await
    }

    /// Exchanges a code for a token. Returns the person, or `None` if no such code is valid. The code is used then.
    pub(crate) async fn exchange_login_code(
        &self,
        code: [u8; 32],
        token: ([u8; 32], Timestamp),
        at: Timestamp,
    ) -> Result<Option<PersonRow>, StoreError> {
        self.write(move |tx| exchange(tx, code, token, at)).await
    }

    /// Returns the person to whom a valid token belongs, and its origin.
    pub(crate) async fn login_of(
        &self,
        token: [u8; 32],
        at: Timestamp,
    ) -> Result<Option<ValidToken>, StoreError> {
        type Row = (i64, Option<String>, Option<i64>);
        self.read(move |tx| {
            let row: Option<Row> = tx
                .prepare_cached(
                    "SELECT user_id, scopes, used_at FROM login JOIN users ON users.id = user_id
                     WHERE hash = ?1 AND kind IN ('token', 'personal') AND expires_at > ?2
                       AND login.created_at <= ?3 AND revoked_at IS NULL",
                )?
                .query_row(params![token, millis(at), not_later(at)], |row| row.try_into())
                .optional()?;
            let Some((user, scopes, used_at)) = row else {
                return Ok(None);
            };
            let origin = match scopes {
                None => TokenOrigin::Machine,
                Some(scopes) => TokenOrigin::Operator {
                    scopes: parse("scopes", &scopes)?,
                    used_at: used_at.map(time).transpose()?,
                },
            };
            Ok(Some(ValidToken {
                user: UserId(user),
                origin,
            }))
        })
        .await
    }

    /// Ends the login of a token. Returns false if there was none.
    pub(crate) async fn end_login(&self, token: [u8; 32], at: Timestamp) -> Result<bool, StoreError> {
        self.write(move |tx| {
            let user: Option<i64> = tx
                .prepare_cached("DELETE FROM login WHERE hash = ?1 AND kind = 'token' RETURNING user_id")?
                .query_row([token], |row| row.get(0))
                .optional()?;
            let Some(user) = user.map(UserId) else {
                return Ok(false);
            };
            let name = person(tx, user)?.name;
            audit_in(
                tx,
                "login.ended",
                serde_json::json!({ "name": name, "user": user }),
                at,
            )?;
            Ok(true)
        })
        .await
    }
}

/// Removes all codes and tokens of a person, and the codes from waiting messages. Returns the names of the tokens that an
/// operator had made.
pub(super) fn end_all(tx: &Transaction<'_>, user: UserId, at: Timestamp) -> Result<Vec<String>, StoreError> {
    let names: Vec<String> = tx
        .prepare_cached("SELECT name FROM login WHERE user_id = ?1 AND kind = 'personal' ORDER BY name")?
        .query_map([user.0], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    tx.prepare_cached("DELETE FROM login WHERE user_id = ?1")?
        .execute([user.0])?;
    login_message::forget_invalid(tx, at)?;
    Ok(names)
}

/// Returns the latest creation time that is not in the future.
fn not_later(at: Timestamp) -> i64 {
    millis(at).saturating_add(CLOCK_DIFFERENCE_MS_MAX)
}

fn replace_code(tx: &Transaction<'_>, code: &NewLoginCode, at: Timestamp) -> Result<(), StoreError> {
    let person = person(tx, code.user)?;
    if person.revoked_at.is_some() {
        return login_message::forget_invalid(tx, at);
    }
    tx.prepare_cached("DELETE FROM login WHERE user_id = ?1 AND kind = 'code'")?
        .execute([code.user.0])?;
    insert(tx, "code", code, at)?;
    login_message::forget_invalid(tx, at)?;
    let data = serde_json::json!({ "name": person.name, "user": code.user });
    audit_in(tx, "login.asked", data, at)
}

fn insert(tx: &Transaction<'_>, kind: &str, login: &NewLoginCode, at: Timestamp) -> Result<(), StoreError> {
    tx.prepare_cached(
        "INSERT INTO login (hash, kind, user_id, created_at, expires_at) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?
    .execute(params![
        login.hash,
        kind,
        login.user.0,
        millis(at),
        millis(login.expires_at)
    ])?;
    Ok(())
}

fn exchange(
    tx: &Transaction<'_>,
    code: [u8; 32],
    (token, expires_at): ([u8; 32], Timestamp),
    at: Timestamp,
) -> Result<Option<PersonRow>, StoreError> {
    let user: Option<i64> = tx
        .prepare_cached(
            "DELETE FROM login WHERE hash = ?1 AND kind = 'code' AND expires_at > ?2 AND created_at <= ?3
             RETURNING user_id",
        )?
        .query_row(params![code, millis(at), not_later(at)], |row| row.get(0))
        .optional()?;
    let Some(user) = user.map(UserId) else {
        return Ok(None);
    };
    login_message::forget_invalid(tx, at)?;
    let person = person(tx, user)?;
    if person.revoked_at.is_some() {
        return Ok(None);
    }
    tx.prepare_cached(
        "DELETE FROM login WHERE id IN (
            SELECT id FROM login WHERE user_id = ?1 AND kind = 'token' ORDER BY id DESC LIMIT -1 OFFSET ?2)",
    )?
    .execute(params![user.0, LOGINS_OF_PERSON_MAX - 1])?;
    let login = NewLoginCode {
        hash: token,
        user,
        expires_at,
    };
    insert(tx, "token", &login, at)?;
    let data = serde_json::json!({ "expires_at": millis(expires_at), "name": person.name, "user": user });
    audit_in(tx, "login.begun", data, at)?;
    Ok(Some(person))
}
