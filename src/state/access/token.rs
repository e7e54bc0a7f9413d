//! Tokens that an operator makes for a person or a service, for scripts and pipelines. Unlike the login of a machine, such a
//! token has a name and scopes. It never permits more than its person or service may do at the time of a request.

use super::{Access, AccessError, Identity, User};
use crate::base::model::{Secret, Sender, UserId};
use crate::state::store::token::{NewTokenRow, TOKENS_OF_PERSON_MAX, TokenCreation, TokenRow};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// The beginning of every token that an operator made, by which it is recognised in texts.
const PREFIX: &str = "drydock_";
/// The maximum number of characters of a name.
const NAME_CHARS_MAX: usize = 64;
/// The longest time for which a token is valid, in hours.
const HOURS_MAX: u32 = 366 * 24;

/// A permission of a token. A request needs one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum TokenScope {
    /// Fetches the changes of the person.
    #[serde(rename = "changes:read")]
    ChangesRead,
    /// Shows and watches the runs of pipelines that the person may see.
    #[serde(rename = "runs:read")]
    RunsRead,
    /// Starts, cancels and repeats runs of pipelines.
    #[serde(rename = "runs:write")]
    RunsWrite,
}

impl TokenScope {
    /// All scopes.
    pub const ALL: [Self; 3] = [Self::ChangesRead, Self::RunsRead, Self::RunsWrite];
    /// The scopes of the login of a machine.
    const OF_MACHINES: [Self; 1] = [Self::ChangesRead];

    /// Returns the word of the scope.
    pub const fn word(self) -> &'static str {
        match self {
            Self::ChangesRead => "changes:read",
            Self::RunsRead => "runs:read",
            Self::RunsWrite => "runs:write",
        }
    }
}

impl std::fmt::Display for TokenScope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for TokenScope {
    type Err = TokenError;

    fn from_str(text: &str) -> Result<Self, TokenError> {
        let known = Self::ALL.into_iter().find(|scope| scope.word() == text);
        known.ok_or_else(|| TokenError::Scope(text.to_owned()))
    }
}

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
    #[error("a token is valid for 1 hour to {} days", HOURS_MAX / 24)]
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

/// True if a token with these words of scopes has one.
pub(super) fn has_scope(words: &[String], scope: TokenScope) -> bool {
    words.iter().any(|word| word == scope.word())
}

/// True if the login of a machine has a scope.
pub(super) fn machine_has_scope(scope: TokenScope) -> bool {
    TokenScope::OF_MACHINES.contains(&scope)
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

fn words(scopes: &[TokenScope]) -> String {
    let words: Vec<String> = scopes.iter().map(|scope| format!("`{scope}`")).collect();
    words.join(", ")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{
        NewToken, PersonalToken, TokenError, TokenHolder, TokenScope, TokenState, check, token_hours,
    };
    use crate::base::model::{Secret, Sender, UserId};
    use crate::state::access::fixture::{at, fresh, join, telegram};
    use crate::state::access::{Access, AccessError, Grant, Role, User};

    const DAY: i64 = 86_400;

    fn token(name: &str, hours: u32) -> NewToken {
        NewToken {
            name: name.to_owned(),
            scopes: vec![TokenScope::ChangesRead],
            hours,
        }
    }

    async fn create(
        access: &Access,
        who: &str,
        new: &NewToken,
        random: u8,
        second: i64,
    ) -> Result<(Secret, PersonalToken), TokenError> {
        let user = access.user(who).await.unwrap();
        access
            .create_token(&user, new, "operator", [random; 32], at(second))
            .await
    }

    async fn refusal(access: &Access, new: &NewToken, second: i64) -> TokenError {
        create(access, "alice", new, 200, second).await.err().unwrap()
    }

    /// Returns `None` for a token that is not valid, and otherwise whether it has the scope.
    async fn may_read_changes(access: &Access, token: &Secret, second: i64) -> Option<bool> {
        let holder = access.holder_of_token(token.expose(), TokenScope::ChangesRead, at(second));
        match holder.await.unwrap() {
            TokenHolder::Person(identities) => {
                assert_eq!(identities.len(), 1);
                Some(true)
            }
            TokenHolder::OutOfScope => Some(false),
            TokenHolder::Invalid => None,
        }
    }

    #[tokio::test]
    async fn a_token_is_valid_until_its_time_ends_or_it_is_revoked() {
        let (_directory, access) = fresh().await;
        join(&access, "alice", 1, &telegram("1")).await;
        join(&access, "bob", 2, &telegram("2")).await;
        let (ci, listed) = create(&access, "alice", &token("ci", 24), 7, 10).await.unwrap();
        assert_eq!(ci.expose().len(), 51, "a prefix and 256 bits");
        assert_eq!(listed.expires_at, at(10 + DAY));
        assert_eq!(may_read_changes(&access, &ci, 10 + DAY - 1).await, Some(true));
        assert_eq!(may_read_changes(&access, &ci, 10 + DAY).await, None);
        // A clock that was set back makes no token valid.
        assert_eq!(may_read_changes(&access, &ci, -400).await, None);
        assert!(!access.end_login(ci.expose(), at(20)).await.unwrap());
        assert_eq!(may_read_changes(&access, &ci, 30).await, Some(true));

        // A name is that of one valid token of a person.
        let taken = refusal(&access, &token("ci", 24), 20).await;
        assert!(matches!(taken, TokenError::NameTaken { .. }), "{taken:?}");
        let (other, _) = create(&access, "bob", &token("ci", 24), 9, 20).await.unwrap();
        let several = access.revoke_token("ci", None, "operator", at(30)).await;
        let why = several.unwrap_err().to_string();
        assert_eq!(
            why,
            "2 people have a token `ci`; add `--for` with one of alice (1), bob (2)"
        );
        let bob = access.user("bob").await.unwrap();
        let ended = access.revoke_token("ci", Some(&bob), "operator", at(30)).await;
        assert_eq!(ended.unwrap().person, "bob");
        assert_eq!(may_read_changes(&access, &other, 30).await, None);
        let again = access.revoke_token("ci", Some(&bob), "operator", at(30)).await;
        assert_eq!(again, Err(TokenError::Unknown("ci".to_owned())));
        assert_eq!(may_read_changes(&access, &ci, 30).await, Some(true));

        // An expired one is listed, and makes room for another of its name.
        let state = |tokens: &[PersonalToken]| tokens.iter().map(|token| token.state).collect::<Vec<_>>();
        let tokens = access.tokens(at(10 + DAY)).await.unwrap();
        assert_eq!(state(&tokens), [TokenState::Expired]);
        let (ci, _) = create(&access, "alice", &token("ci", 1), 10, 10 + DAY)
            .await
            .unwrap();
        assert_eq!(may_read_changes(&access, &ci, 10 + DAY).await, Some(true));
        let alice = access.user("alice").await.unwrap();
        let ended = access.revoke(alice.id, "operator", at(20 + DAY)).await.unwrap();
        assert_eq!(ended, Some(vec!["ci".to_owned()]));
        assert_eq!(may_read_changes(&access, &ci, 20 + DAY).await, None);
        assert_eq!(access.tokens(at(20 + DAY)).await.unwrap(), []);
        let revoked = refusal(&access, &token("ci", 1), 20 + DAY).await;
        assert_eq!(revoked, AccessError::Revoked("alice".to_owned()).into());
    }

    #[tokio::test]
    async fn a_person_has_a_bounded_number_of_tokens_with_names_and_times_within_bounds() {
        let (_directory, access) = fresh().await;
        join(&access, "alice", 1, &telegram("1")).await;
        for number in 0..20 {
            let new = token(&format!("ci-{number}"), 24);
            create(&access, "alice", &new, 100 + number, 10).await.unwrap();
        }
        let refused = refusal(&access, &token("more", 24), 10).await;
        assert_eq!(refused, TokenError::TooMany("alice".to_owned()));
        create(&access, "alice", &token("more", 24), 99, 10 + DAY)
            .await
            .unwrap();
        assert_eq!(access.tokens(at(11 + DAY)).await.unwrap().len(), 1);

        for name in ["", "a b", "a/b", "ä", "a\n", &"x".repeat(65)] {
            let refused = refusal(&access, &token(name, 24), 10).await;
            assert_eq!(refused, TokenError::Name, "{name}");
        }
        for hours in [0, 366 * 24 + 1, u32::MAX] {
            let refused = refusal(&access, &token("x", hours), 10).await;
            assert_eq!(refused, TokenError::Lifetime, "{hours}");
        }
        let scopeless = NewToken {
            scopes: Vec::new(),
            ..token("x", 1)
        };
        assert_eq!(refusal(&access, &scopeless, 10).await, TokenError::NoScope);
    }

    #[tokio::test]
    async fn a_service_of_the_configuration_gets_a_token_and_a_hook_or_a_schedule_does_not() {
        let (_directory, access) = fresh().await;
        let grant = Grant {
            role: Role::Editor,
            repositories: "infra".to_owned(),
            environments: vec!["**".to_owned()],
        };
        let mut user = User {
            id: UserId(7),
            name: "release".to_owned(),
            invited_by: "configuration".to_owned(),
            created_at: at(0),
            revoked_at: None,
            senders: vec![Sender::of_service("release")],
            grants: vec![grant],
            is_auditor: false,
        };
        assert_eq!(check(&user, &token("ci", 1)), Ok(()));
        let without_section = User {
            grants: Vec::new(),
            ..user.clone()
        };
        let refused = TokenError::NoSection("release".to_owned());
        assert_eq!(check(&without_section, &token("ci", 1)), Err(refused));
        for sender in [Sender::of_hook("release"), Sender::of_schedule("release")] {
            user.senders = vec![sender];
            let refused = TokenError::Service("release".to_owned());
            assert_eq!(check(&user, &token("ci", 1)), Err(refused.clone()));
            let new = token("ci", 1);
            let made = access.create_token(&user, &new, "operator", [1; 32], at(1));
            assert_eq!(made.await.err(), Some(refused));
        }
        assert_eq!(access.tokens(at(1)).await.unwrap(), []);
    }

    #[tokio::test]
    async fn a_token_permits_only_its_scopes_and_its_use_is_noted_once_an_hour() {
        let (_directory, access) = fresh().await;
        join(&access, "alice", 1, &telegram("1")).await;
        let (ci, _) = create(&access, "alice", &token("ci", 24), 7, 10).await.unwrap();
        let noted = async || access.tokens(at(11)).await.unwrap().remove(0).used_at;
        assert_eq!(noted().await, None);
        for (second, expected) in [(20, 20), (3_619, 20), (3_620, 3_620), (3_630, 3_620)] {
            assert_eq!(may_read_changes(&access, &ci, second).await, Some(true));
            assert_eq!(noted().await, Some(at(expected)), "{second}");
        }
        // A token with a scope of a later version has none that this one knows.
        let stored = access
            .store
            .write(|tx| Ok(tx.execute("UPDATE login SET scopes = '[\"changes:write\"]'", [])?));
        assert_eq!(stored.await, Ok(1));
        assert_eq!(may_read_changes(&access, &ci, 20).await, Some(false));
        assert_eq!(access.tokens(at(20)).await.unwrap()[0].scopes, ["changes:write"]);
    }

    #[test]
    fn scopes_and_times_of_tokens_are_read_as_they_are_written() {
        for scope in TokenScope::ALL {
            assert_eq!(scope.word().parse::<TokenScope>(), Ok(scope));
            assert_eq!(serde_json::to_value(scope).unwrap(), scope.word());
        }
        let why = "changes:write".parse::<TokenScope>().unwrap_err().to_string();
        assert_eq!(
            why,
            "no scope `changes:write`; there are `changes:read`, `runs:read`, `runs:write`"
        );
        assert_eq!(token_hours("90d"), Ok(2_160));
        assert_eq!(token_hours("1h"), Ok(1));
        assert_eq!(token_hours("366d"), Ok(8_784));
        for text in ["", "d", "0d", "367d", "-1d", "90", "1.5d", "1w", "4294967295d"] {
            assert_eq!(token_hours(text), Err(TokenError::Lifetime), "{text}");
        }
    }
}
