//! Tokens that an operator makes for a person or a service, for scripts and pipelines. Unlike the login of a machine, such a
//! token has a name and scopes. It never permits more than its person or service may do at the time of a request.

mod scope;

pub use scope::TokenScope;
use scope::words;
pub(super) use scope::{has_scope, machine_has_scope};

use super::{Access, AccessError, Identity, User};
use crate::base::model::{Secret, Sender, UserId};
use crate::state::store::token::{NewTokenRow, TOKENS_OF_PERSON_MAX, TokenCreation, TokenRow};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// The beginning of every token that an operator made, by which it is recognised in texts.
const PREFIX: &str = "drydock_";
/// The maximum number of characters of a name.
const NAME_CHARS_MAX: usize = 64;
/// The longest time for which a token is valid, in hours.
const HOURS_MAX: u32 = 366 * 24;

/// The reason why a token was not created or ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// The person was not found, or the store failed.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The name is not one of a token.
    #[error("the name of a token has 1 to {NAME_CHARS_MAX} of a-z, A-Z, 0-9, `.`, `_` and `-`")]
    Name,
    /// The scope does not exist.
    #[error("no scope `{0}`; there are {known}", known = words(&TokenScope::ALL))]
    Scope(String),
    /// The token would have no scope.
    #[error("a token needs a scope; there are {}", words(&TokenScope::ALL))]
    NoScope,
    /// The time is out of bounds.
    #[error("a token is valid for 1 hour to {} days, written as `12h` or `90d`", HOURS_MAX / 24)]
    Lifetime,
    /// The user is the service identity of a hook or a schedule.
    #[error("`{0}` is a hook or a schedule; a token is for a person, or for a service of the configuration")]
    Service(String),
    /// The user is a service that the configuration does not have any more.
    #[error("`{0}` has no section in the configuration, so its token would permit nothing")]
    NoSection(String),
    /// The person has a valid token of this name.
    #[error("{person} has a token `{name}`; `drydock token revoke {name}` ends it, or choose another name")]
    NameTaken {
        /// The name of the person.
        person: String,
        /// The name of the token.
        name: String,
    },
    /// The person has as many valid tokens as possible.
    #[error(
        "{0} has {TOKENS_OF_PERSON_MAX} tokens, which are all that a person can have; `drydock token revoke` ends one"
    )]
    TooMany(String),
    /// There is no such token.
    #[error("no token `{0}`; `drydock token list` shows all")]
    Unknown(String),
    /// Several people have a token of this name.
    #[error("{} people have a token `{name}`; add `--for` with one of {}", .people.len(), .people.join(", "))]
    Ambiguous {
        /// The name of the token.
        name: String,
        /// The names of the people, with their ids.
        people: Vec<String>,
    },
}

/// A token to create.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewToken {
    /// Its name, unique for its person.
    pub name: String,
    /// Its scopes.
    pub scopes: Vec<TokenScope>,
    /// The hours for which it is valid.
    pub hours: u32,
}

/// A token as operators see it. Its secret is not known to the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PersonalToken {
    /// Its name.
    pub name: String,
    /// The person for whom it was made.
    pub person: String,
    /// The id of that person.
    pub user: UserId,
    /// The words of its scopes. One that this version does not know permits nothing.
    pub scopes: Vec<String>,
    /// The time of its creation.
    pub created_at: Timestamp,
    /// The last noted use, which is at most an hour before the last one.
    pub used_at: Option<Timestamp>,
    /// The time of its expiry.
    pub expires_at: Timestamp,
    /// Its state.
    pub state: TokenState,
}

/// The state of a token. A revoked one is not listed any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenState {
    /// It can be used.
    Active,
    /// Its time is over.
    Expired,
}

/// The holder of a token, for a request that needs a scope.
pub enum TokenHolder {
    /// The identities of the person, one for each of their accounts.
    Person(Vec<Identity>),
    /// The token is valid, and does not have the scope.
    OutOfScope,
    /// The token is not valid. The reason is never shown.
    Invalid,
}

impl Access {
    /// Creates a token of 32 random bytes for a user. It is returned once and never stored.
    pub async fn create_token(
        &self,
        user: &User,
        new: &NewToken,
        by: &str,
        random: [u8; 32],
        at: Timestamp,
    ) -> Result<(Secret, PersonalToken), TokenError> {
        check(user, new)?;
        let token = Secret::new(format!("{PREFIX}{}", BASE64_URL_SAFE_NO_PAD.encode(random)));
        let lasts = SignedDuration::from_hours(i64::from(new.hours));
        let mut scopes = new.scopes.clone();
        scopes.sort_unstable();
        scopes.dedup();
        let row = NewTokenRow {
            hash: self.hash(token.expose()),
            user: user.id,
            name: new.name.clone(),
            scopes: scopes.iter().map(ToString::to_string).collect(),
            expires_at: at.saturating_add(lasts).unwrap_or(Timestamp::MAX),
        };
        let created = PersonalToken {
            name: new.name.clone(),
            person: user.name.clone(),
            user: user.id,
            scopes: row.scopes.clone(),
            created_at: at,
            used_at: None,
            expires_at: row.expires_at,
            state: TokenState::Active,
        };
        let outcome = self.store.create_token(row, by, at).await;
        match outcome.map_err(AccessError::from)? {
            TokenCreation::Created => Ok((token, created)),
            TokenCreation::NameTaken => Err(TokenError::NameTaken {
                person: user.name.clone(),
                name: new.name.clone(),
            }),
            TokenCreation::TooMany => Err(TokenError::TooMany(user.name.clone())),
            TokenCreation::PersonRevoked => Err(AccessError::Revoked(user.name.clone()).into()),
        }
    }

    /// Lists the tokens that operators made, by person and name.
    pub async fn tokens(&self, at: Timestamp) -> Result<Vec<PersonalToken>, TokenError> {
        let tokens = self.store.tokens().await.map_err(AccessError::from)?;
        Ok(tokens.into_iter().map(|token| listed(token, at)).collect())
    }

    /// Ends a token at once. Without a user, only one person may have a token of this name.
    pub async fn revoke_token(
        &self,
        name: &str,
        user: Option<&User>,
        by: &str,
        at: Timestamp,
    ) -> Result<PersonalToken, TokenError> {
        let mut found = self.tokens(at).await?;
        found.retain(|token| token.name == name && user.is_none_or(|user| user.id == token.user));
        let token = match found.as_slice() {
            [token] => token.clone(),
            [] => return Err(TokenError::Unknown(name.to_owned())),
            several => {
                let people = several
                    .iter()
                    .map(|token| format!("{} ({})", token.person, token.user));
                return Err(TokenError::Ambiguous {
                    name: name.to_owned(),
                    people: people.collect(),
                });
            }
        };
        let ended = self.store.revoke_token(token.user, name, by, at).await;
        match ended.map_err(AccessError::from)? {
            true => Ok(token),
            false => Err(TokenError::Unknown(name.to_owned())),
        }
    }
}

/// Refuses a token that cannot be made, before anything is stored.
fn check(user: &User, new: &NewToken) -> Result<(), TokenError> {
    check_token_name(&new.name)?;
    if new.scopes.is_empty() {
        return Err(TokenError::NoScope);
    }
    if !(1..=HOURS_MAX).contains(&new.hours) {
        return Err(TokenError::Lifetime);
    }
    let may_hold = |sender: &Sender| sender.platform.chat().is_some() || sender.is_of_service();
    if !user.senders.is_empty() && !user.senders.iter().any(may_hold) {
        return Err(TokenError::Service(user.name.clone()));
    }
    // A start without the section took all of its grants.
    match user.grants.is_empty() && user.senders.iter().any(Sender::is_of_service) {
        true => Err(TokenError::NoSection(user.name.clone())),
        false => Ok(()),
    }
}

/// Refuses a text that is not the name of a token.
pub fn check_token_name(name: &str) -> Result<(), TokenError> {
    let fits = |char: char| char.is_ascii_alphanumeric() || ".-_".contains(char);
    match (1..=NAME_CHARS_MAX).contains(&name.len()) && name.chars().all(fits) {
        true => Ok(()),
        false => Err(TokenError::Name),
    }
}

/// Reads the time for which a token is valid, such as `90d` or `12h`. Returns hours.
pub fn token_hours(text: &str) -> Result<u32, TokenError> {
    let number = |digits: &str, hours: u32| digits.parse::<u32>().ok()?.checked_mul(hours);
    let hours = match (text.strip_suffix('d'), text.strip_suffix('h')) {
        (Some(days), _) => number(days, 24),
        (None, Some(hours)) => number(hours, 1),
        (None, None) => None,
    };
    let hours = hours.filter(|hours| (1..=HOURS_MAX).contains(hours));
    hours.ok_or(TokenError::Lifetime)
}

fn listed(row: TokenRow, at: Timestamp) -> PersonalToken {
    let state = match row.expires_at > at {
        true => TokenState::Active,
        false => TokenState::Expired,
    };
    PersonalToken {
        name: row.name,
        person: row.person,
        user: row.user,
        scopes: row.scopes,
        created_at: row.created_at,
        used_at: row.used_at,
        expires_at: row.expires_at,
        state,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
