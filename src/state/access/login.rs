//! Logins of people's machines. A person asks for a one-time code in a chat, and their machine exchanges it for a token.
//! The store keeps keyed hashes of both. A token proves who asks, and nothing about what they may do: that is decided at
//! each request.

use super::token::{self, TokenHolder, TokenScope};
use super::{Access, AccessError, Identity};
use crate::base::model::Secret;
use crate::state::store::NewLoginCode;
use crate::state::store::login::TokenOrigin;
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jiff::{SignedDuration, Timestamp};
use std::sync::{Mutex, PoisonError};

/// The time for which a code is valid.
const CODE_VALID: SignedDuration = SignedDuration::from_mins(10);
/// The time for which a token is valid.
const TOKEN_VALID: SignedDuration = SignedDuration::from_hours(90 * 24);
/// Maximum number of wrong codes per minute, from everybody.
const WRONG_CODES_PER_MINUTE_MAX: u32 = 10;
/// The window in which wrong codes are counted, in milliseconds.
const MINUTE_MS: i64 = 60_000;
/// The digits of a code: no letter that is read as another one.
const DIGITS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
/// The number of digits of a code: 128 bits, five in each digit.
const CODE_DIGITS: u32 = 26;
/// The number of digits between two hyphens of a code.
const GROUP_DIGITS: usize = 4;

/// A new login of a machine.
pub struct BegunLogin {
    /// The token: 43 characters of base64url. It is shown once and never stored.
    pub token: Secret,
    /// The name of the person.
    pub name: String,
    /// The time at which the token expires.
    pub expires_at: Timestamp,
}

/// The outcome of an attempt to exchange a code.
pub enum LoginOutcome {
    /// The code was valid, and is used now.
    Begun(BegunLogin),
    /// No such code is valid. The reason is never shown.
    Invalid,
    /// There were too many wrong codes. The next attempt is possible after this number of seconds.
    TooManyAttempts(u64),
}

/// The wrong codes of the current minute.
#[derive(Debug, Default)]
pub(super) struct CodeAttempts(Mutex<CountedMinute>);

#[derive(Debug, Default)]
struct CountedMinute {
    since: i64,
    attempts: u32,
}

impl CodeAttempts {
    /// Counts an attempt as a wrong one. Fails with the number of seconds to wait if there were too many.
    fn begin(&self, at: i64) -> Result<(), u64> {
        let mut minute = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A time in the future comes from a clock that was set back since.
        let passed = at.saturating_sub(minute.since);
        if !(0..MINUTE_MS).contains(&passed) {
            *minute = CountedMinute {
                since: at,
                attempts: 0,
            };
        }
        if minute.attempts >= WRONG_CODES_PER_MINUTE_MAX {
            let left = MINUTE_MS.saturating_sub(passed).max(1);
            return Err(u64::try_from(left).unwrap_or_default().div_ceil(1_000));
        }
        minute.attempts += 1;
        Ok(())
    }

    /// Takes back an attempt whose code was right.
    fn succeeded(&self) {
        let mut minute = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        minute.attempts = minute.attempts.saturating_sub(1);
    }
}

impl Access {
    /// Returns a new code for a person, and what is stored for it.
    pub fn new_login_code(
        &self,
        identity: &Identity,
        random: [u8; 32],
        at: Timestamp,
    ) -> (Secret, NewLoginCode) {
        let code = shown_code(random);
        let stored = NewLoginCode {
            hash: self.hash(&plain_code(&code)),
            user: identity.user(),
            expires_at: at.saturating_add(CODE_VALID).unwrap_or(Timestamp::MAX),
        };
        (Secret::new(code), stored)
    }

    /// Exchanges a code for a token of 32 random bytes. A code is used once, also if two requests have it at the same time.
    pub async fn exchange_login_code(
        &self,
        code: &str,
        random: [u8; 32],
        at: Timestamp,
    ) -> Result<LoginOutcome, AccessError> {
        if let Err(seconds) = self.code_attempts.begin(at.as_millisecond()) {
            return Ok(LoginOutcome::TooManyAttempts(seconds));
        }
        let token = Secret::new(BASE64_URL_SAFE_NO_PAD.encode(random));
        let expires_at = at.saturating_add(TOKEN_VALID).unwrap_or(Timestamp::MAX);
        let stored = (self.hash(token.expose()), expires_at);
        let code = self.hash(&plain_code(code));
        let person = self.store.exchange_login_code(code, stored, at).await?;
        let Some(person) = person else {
            return Ok(LoginOutcome::Invalid);
        };
        self.code_attempts.succeeded();
        Ok(LoginOutcome::Begun(BegunLogin {
            token,
            name: person.name,
            expires_at,
        }))
    }

    /// Returns the holder of a token for a request that needs a scope. The use of a token that an operator made is noted.
    pub async fn holder_of_token(
        &self,
        token: &str,
        scope: TokenScope,
        at: Timestamp,
    ) -> Result<TokenHolder, AccessError> {
        let hash = self.hash(token);
        let Some(valid) = self.store.login_of(hash, at).await? else {
            return Ok(TokenHolder::Invalid);
        };
        let has_scope = match valid.origin {
            TokenOrigin::Machine => token::machine_has_scope(scope),
            TokenOrigin::Operator { scopes, used_at } => {
                self.store.note_token_use(hash, used_at, at).await?;
                token::has_scope(&scopes, scope)
            }
        };
        if !has_scope {
            return Ok(TokenHolder::OutOfScope);
        }
        let admitted = self.admitted.read().unwrap_or_else(PoisonError::into_inner);
        let theirs = admitted.values().filter(|identity| identity.user() == valid.user);
        Ok(TokenHolder::Person(theirs.cloned().collect()))
    }

    /// True for a valid token that an operator made.
    pub async fn is_personal_token(&self, token: &str, at: Timestamp) -> Result<bool, AccessError> {
        let valid = self.store.login_of(self.hash(token), at).await?;
        Ok(valid.is_some_and(|valid| matches!(valid.origin, TokenOrigin::Operator { .. })))
    }

    /// Ends the login of a token. Returns false if it is not that of a machine.
    pub async fn end_login(&self, token: &str, at: Timestamp) -> Result<bool, AccessError> {
        Ok(self.store.end_login(self.hash(token), at).await?)
    }
}

/// Returns a code as a person reads it: `2RJW-K7Q3-…`.
fn shown_code(random: [u8; 32]) -> String {
    let number = random
        .first_chunk()
        .map_or(0, |bytes: &[u8; 16]| u128::from_be_bytes(*bytes));
    let digit = |at: u32| {
        let index = usize::try_from((number >> (5 * at)) & 31).unwrap_or_default();
        DIGITS.get(index).map_or('0', |digit| char::from(*digit))
    };
    let digits: Vec<char> = (0..CODE_DIGITS).rev().map(digit).collect();
    let groups: Vec<String> = digits.chunks(GROUP_DIGITS).map(String::from_iter).collect();
    groups.join("-")
}

/// Returns the digits of a code as it was drawn, whatever a person made of hyphens, case and similar letters.
fn plain_code(typed: &str) -> String {
    let digits = typed.chars().filter(|char| !char.is_whitespace() && *char != '-');
    digits
        .map(|char| match char.to_ascii_uppercase() {
            'O' => '0',
            'I' | 'L' => '1',
            digit => digit,
        })
        .collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{CodeAttempts, LoginOutcome, WRONG_CODES_PER_MINUTE_MAX, plain_code, shown_code};
    use crate::base::model::Secret;
    use crate::state::access::fixture::{accept_command, at, fresh, join, telegram};
    use crate::state::access::{Access, TokenHolder, TokenScope};
    use crate::state::store::{DataKind, Prune, PrunePosition};

    /// Gives the person of account 1 a code, with the answer to a command of this name.
    async fn code(access: &Access, name: &str, random: u8) -> Secret {
        let identity = access.admit(&telegram("1")).unwrap();
        let inbox = accept_command(access, name).await;
        let (code, stored) = access.new_login_code(&identity, [random; 32], at(10));
        for _ in 0..2 {
            let stored = stored.clone();
            let finished = access
                .store
                .finish_login_command(inbox, stored, Vec::new(), at(10));
            finished.await.unwrap();
        }
        code
    }

    async fn begin(access: &Access, code: &Secret, random: u8) -> String {
        let begun = access.exchange_login_code(code.expose(), [random; 32], at(20));
        match begun.await.unwrap() {
            LoginOutcome::Begun(login) => login.token.expose().to_owned(),
            LoginOutcome::Invalid | LoginOutcome::TooManyAttempts(_) => panic!("a good code"),
        }
    }

    async fn is_valid(access: &Access, token: &str, second: i64) -> bool {
        let holder = access.holder_of_token(token, TokenScope::ChangesRead, at(second));
        matches!(holder.await.unwrap(), TokenHolder::Person(identities) if identities.len() == 1)
    }

    #[tokio::test]
    async fn a_person_has_a_bounded_number_of_logins_and_expired_ones_are_removed() {
        let (_directory, access) = fresh().await;
        join(&access, "alice", 1, &telegram("1")).await;
        let mut tokens = Vec::new();
        for number in 0..21 {
            let code = code(&access, &format!("login-{number}"), number).await;
            tokens.push(begin(&access, &code, 100 + number).await);
        }
        assert!(!is_valid(&access, &tokens[0], 30).await);
        assert!(is_valid(&access, &tokens[1], 30).await && is_valid(&access, &tokens[20], 30).await);
        let end = 20 + 90 * 86_400;
        assert!(is_valid(&access, &tokens[20], end - 1).await);
        assert!(!is_valid(&access, &tokens[20], end).await);
        // A clock that was set back makes no login valid.
        assert!(!is_valid(&access, &tokens[20], -400).await);
        // A code that nobody used.
        code(&access, "unused", 200).await;
        let pruned = async |second| {
            let from = PrunePosition::default();
            let pruning =
                access
                    .store
                    .prune_slice(DataKind::Logins, at(second), &from, Prune::Remove, at(second));
            pruning.await.unwrap().rows
        };
        assert_eq!(pruned(601).await, 0);
        assert_eq!(pruned(611).await, 1);
        assert_eq!(pruned(end + 1).await, 20);
        let left = access.store.stored_amount(DataKind::Logins).await.unwrap();
        assert_eq!(left.rows, 0);
    }

    #[test]
    fn a_login_code_has_128_bits_and_is_read_however_it_is_typed() {
        let mut random = [0xff; 32];
        assert_eq!(shown_code(random), "7ZZZ-ZZZZ-ZZZZ-ZZZZ-ZZZZ-ZZZZ-ZZ");
        let all = shown_code(random);
        for byte in 0..16 {
            for bit in 0..8 {
                random[byte] ^= 1 << bit;
                assert_ne!(shown_code(random), all);
                random[byte] ^= 1 << bit;
            }
        }
        assert_eq!(plain_code(" 7zZ-o1il\n"), "7ZZ0111");
        assert_eq!(plain_code(&all), "7ZZZZZZZZZZZZZZZZZZZZZZZZZ");
    }

    #[test]
    fn wrong_login_codes_are_counted_for_a_minute_and_right_ones_are_not() {
        let attempts = CodeAttempts::default();
        for _ in 0..50 {
            assert_eq!(attempts.begin(601_000), Ok(()));
            attempts.succeeded();
        }
        for _ in 0..WRONG_CODES_PER_MINUTE_MAX {
            assert_eq!(attempts.begin(601_000), Ok(()));
        }
        assert_eq!(attempts.begin(601_000), Err(60));
        assert_eq!(attempts.begin(660_500), Err(1));
        assert_eq!(attempts.begin(661_000), Ok(()));
        // A clock that was set back.
        assert_eq!(attempts.begin(0), Ok(()));
    }
}
