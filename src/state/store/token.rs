//! Tokens that an operator makes for a person, as rows beside the logins of machines. `access` decides what they mean.

use super::audit::audit_in;
use super::column::{json, millis, parse, time};
use super::people::person;
use super::{Store, StoreError};
use crate::base::model::UserId;
use jiff::Timestamp;
use rusqlite::{Row, Transaction, params};

/// Maximum number of such tokens of one person.
pub(crate) const TOKENS_OF_PERSON_MAX: u32 = 20;
/// Minimum time between two notes of a use of the same token, in milliseconds.
const USE_NOTED_MS_MIN: i64 = 60 * 60 * 1_000;

/// A token to store.
#[derive(Clone, Debug)]
pub(crate) struct NewTokenRow {
    /// The keyed hash of the token.
    pub(crate) hash: [u8; 32],
    pub(crate) user: UserId,
    pub(crate) name: String,
    /// The words of the scopes.
    pub(crate) scopes: Vec<String>,
    pub(crate) expires_at: Timestamp,
}

/// A token as stored, without its hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TokenRow {
    pub(crate) user: UserId,
    pub(crate) person: String,
    pub(crate) name: String,
    pub(crate) scopes: Vec<String>,
    pub(crate) created_at: Timestamp,
    pub(crate) used_at: Option<Timestamp>,
    pub(crate) expires_at: Timestamp,
}

/// The outcome of an attempt to store a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenCreation {
    Created,
    /// The person has a valid token of this name.
    NameTaken,
    /// The person has as many valid tokens as possible.
    TooMany,
    /// The access of the person was revoked.
    PersonRevoked,
}

impl Store {
    /// Stores a token. Expired tokens of the person are removed. If the outcome is another than
    /// [`TokenCreation::Created`], nothing is stored.
    pub(crate) async fn create_token(
        &self,
        new: NewTokenRow,
        by: &str,
        at: Timestamp,
    ) -> Result<TokenCreation, StoreError> {
        let by = by.to_owned();
        self.write(move |tx| create(tx, &new, &by, at)).await
    }

    /// Returns all tokens that operators made, by person and name.
    pub(crate) async fn tokens(&self) -> Result<Vec<TokenRow>, StoreError> {
        self.read(|tx| {
            let mut statement = tx.prepare_cached(
                "SELECT user_id, users.name, login.name, scopes, login.created_at, used_at, expires_at
                 FROM login JOIN users ON users.id = user_id WHERE kind = 'personal'
                 ORDER BY users.name, user_id, login.name",
            )?;
            let mut rows = statement.query([])?;
            let mut tokens = Vec::new();
            while let Some(row) = rows.next()? {
                tokens.push(token_row(row)?);
            }
            Ok(tokens)
        })
        .await
    }

    /// Ends a token. Returns false if there was none of this name.
    pub(crate) async fn revoke_token(
        &self,
        user: UserId,
        token: &str,
        by: &str,
        at: Timestamp,
    ) -> Result<bool, StoreError> {
        let (token, by) = (token.to_owned(), by.to_owned());
        self.write(move |tx| {
            let ended = tx
                .prepare_cached("DELETE FROM login WHERE user_id = ?1 AND name = ?2 AND kind = 'personal'")?
                .execute(params![user.0, token])?;
            if ended == 0 {
                return Ok(false);
            }
            let name = person(tx, user)?.name;
            let data = serde_json::json!({ "by": by, "name": name, "token": token, "user": user });
            audit_in(tx, "token.revoked", data, at)?;
            Ok(true)
        })
        .await
    }

    /// Notes the use of a token, unless the last note is less than an hour old.
    pub(crate) async fn note_token_use(
        &self,
        hash: [u8; 32],
        used_at: Option<Timestamp>,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        if !is_note_due(used_at, at) {
            return Ok(());
        }
        self.write(move |tx| {
            tx.prepare_cached("UPDATE login SET used_at = ?2 WHERE hash = ?1 AND used_at IS ?3")?
                .execute(params![hash, millis(at), used_at.map(millis)])?;
            Ok(())
        })
        .await
    }
}

/// True if the last note of a use is an hour old, or from a clock that was set back since.
fn is_note_due(used_at: Option<Timestamp>, at: Timestamp) -> bool {
    used_at.is_none_or(|used_at| {
        let passed = millis(at).saturating_sub(millis(used_at));
        !(0..USE_NOTED_MS_MIN).contains(&passed)
    })
}

fn create(
    tx: &Transaction<'_>,
    new: &NewTokenRow,
    by: &str,
    at: Timestamp,
) -> Result<TokenCreation, StoreError> {
    let person = person(tx, new.user)?;
    if person.revoked_at.is_some() {
        return Ok(TokenCreation::PersonRevoked);
    }
    let mut statement = tx.prepare_cached(
        "SELECT COUNT(*), COALESCE(MAX(name = ?3), 0) FROM login
         WHERE user_id = ?1 AND kind = 'personal' AND expires_at > ?2",
    )?;
    let (valid, is_taken): (u32, bool) =
        statement.query_row(params![new.user.0, millis(at), new.name], |row| row.try_into())?;
    if is_taken {
        return Ok(TokenCreation::NameTaken);
    }
    if valid >= TOKENS_OF_PERSON_MAX {
        return Ok(TokenCreation::TooMany);
    }
    tx.prepare_cached("DELETE FROM login WHERE user_id = ?1 AND kind = 'personal' AND expires_at <= ?2")?
        .execute(params![new.user.0, millis(at)])?;
    tx.prepare_cached(
        "INSERT INTO login (hash, kind, user_id, created_at, expires_at, name, scopes)
         VALUES (?1, 'personal', ?2, ?3, ?4, ?5, ?6)",
    )?
    .execute(params![
        new.hash,
        new.user.0,
        millis(at),
        millis(new.expires_at),
        new.name,
        json(&new.scopes)?
    ])?;
    let data = serde_json::json!({
        "by": by,
        "expires_at": millis(new.expires_at),
        "name": person.name,
        "scopes": new.scopes,
        "token": new.name,
        "user": new.user,
    });
    audit_in(tx, "token.created", data, at)?;
    Ok(TokenCreation::Created)
}

fn token_row(row: &Row<'_>) -> Result<TokenRow, StoreError> {
    let used_at: Option<i64> = row.get(5)?;
    Ok(TokenRow {
        user: UserId(row.get(0)?),
        person: row.get(1)?,
        name: row.get(2)?,
        scopes: parse("scopes", &row.get::<_, String>(3)?)?,
        created_at: time(row.get(4)?)?,
        used_at: used_at.map(time).transpose()?,
        expires_at: time(row.get(6)?)?,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::is_note_due;
    use jiff::Timestamp;

    #[test]
    fn the_use_of_a_token_is_noted_at_most_once_an_hour() {
        let at = |second| Timestamp::from_second(second).unwrap();
        assert!(is_note_due(None, at(0)));
        for (used, now, is_due) in [
            (100, 100, false),
            (100, 3_699, false),
            (100, 3_700, true),
            (100, 99, true),
        ] {
            assert_eq!(is_note_due(Some(at(used)), at(now)), is_due, "{used} {now}");
        }
    }
}
