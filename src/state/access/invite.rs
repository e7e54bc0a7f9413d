//! Invites. Each has one token, admits one person and is valid for one day by default. Unknown, expired, used and
//! foreign tokens get the same answer. Tokens are never stored.

use super::{Access, AccessError, Grant, NAME_CHARS_MAX, Role, people, put};
use crate::base::model::{Op, Platform, Secret, Sender, one_line};
use crate::state::store::invite::{InviteRow, Redemption, RedemptionPreview};
use crate::state::store::people::{PersonRow, person};
use crate::state::store::{enqueue_in, invite};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jiff::{SignedDuration, Timestamp};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// The window in which attempts are counted, in milliseconds.
const MINUTE_MS: i64 = 60_000;

/// An invite without its token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewInvite {
    /// The name of the new user.
    pub name: String,
    /// The role of the new user.
    pub role: Role,
    /// A glob over the repositories of the grant.
    pub repositories: String,
    /// Globs over the environments of the grant; `**` for all.
    pub environments: Vec<String>,
    /// The time for which the invite is valid.
    pub expires: Duration,
    /// The only account that may use the invite, if known.
    pub bound_to: Option<Sender>,
}

impl NewInvite {
    /// The default validity of an invite: one day.
    pub const EXPIRES: Duration = Duration::from_secs(24 * 60 * 60);
}

/// The token of an invite: 43 characters of base64url. It is shown once and never stored.
#[derive(Clone)]
pub struct InviteToken(Secret);

impl InviteToken {
    /// Returns the token for the invite link.
    pub fn expose(&self) -> &str {
        self.0.expose()
    }
}

/// The outcome of an attempt to join.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JoinOutcome {
    /// The sender is now admitted.
    Welcome {
        /// The person's name.
        name: String,
        /// The person's role.
        role: Role,
        /// The repositories of the grant.
        repositories: String,
        /// The environments of the grant.
        environments: Vec<String>,
        /// The inviter, who should be notified.
        invited_by: String,
    },
    /// The sender was already admitted. The invite stays valid.
    AlreadyAdmitted,
    /// The invite is not valid. The reason is never shown.
    Invalid,
    /// There is no answer: too many attempts, or the message was already handled.
    NoReply,
}

/// Attempts to join, counted per sender and minute.
pub(super) struct JoinAttempts {
    counted: HashMap<Sender, (i64, u32)>,
    per_minute_max: u32,
    senders_max: usize,
}

impl JoinAttempts {
    pub(super) fn new(per_minute_max: u32, senders_max: usize) -> Self {
        Self {
            counted: HashMap::new(),
            per_minute_max,
            senders_max,
        }
    }

    /// Counts an attempt. Returns false if there were too many.
    fn allow(&mut self, sender: &Sender, at: i64) -> bool {
        // Timestamps in the future come from a clock that was set back since.
        let is_recent = |since: i64| (0..MINUTE_MS).contains(&at.saturating_sub(since));
        if self.counted.len() >= self.senders_max && !self.counted.contains_key(sender) {
            self.counted.retain(|_, (since, _)| is_recent(*since));
            if self.counted.len() >= self.senders_max {
                return false;
            }
        }
        let (since, attempts) = self.counted.entry(sender.clone()).or_insert((at, 0));
        if !is_recent(*since) {
            (*since, *attempts) = (at, 0);
        }
        *attempts = attempts.saturating_add(1);
        *attempts <= self.per_minute_max
    }
}

impl Access {
    /// Issues an invite from 32 random bytes. The store keeps only a keyed hash of the token.
    pub async fn invite(
        &self,
        invite: NewInvite,
        issued_by: &str,
        token: [u8; 32],
        at: Timestamp,
    ) -> Result<InviteToken, AccessError> {
        check_name(&invite.name)?;
        let grant = Grant {
            role: invite.role,
            repositories: invite.repositories,
            environments: invite.environments,
        };
        people::check(&grant)?;
        let (role, repositories, environments) = people::row(&grant);
        let lasts = SignedDuration::try_from(invite.expires).unwrap_or(SignedDuration::MAX);
        let row = InviteRow {
            name: invite.name,
            role,
            repositories,
            environments,
            bound_to: invite.bound_to,
            issued_by: issued_by.to_owned(),
            expires_at: at.saturating_add(lasts).unwrap_or(Timestamp::MAX),
        };
        let token = InviteToken(Secret::new(BASE64_URL_SAFE_NO_PAD.encode(token)));
        let hash = self.hash(token.expose());
        self.store
            .write(move |tx| invite::insert(tx, hash, &row, at))
            .await?;
        Ok(token)
    }

    /// Counts a sender's attempt to use an invite. Returns false if there were too many in this minute.
    pub fn allow_attempt(&self, sender: &Sender, at: Timestamp) -> bool {
        let mut attempts = self.attempts.lock().unwrap_or_else(PoisonError::into_inner);
        attempts.allow(sender, at.as_millisecond())
    }

    /// Redeems a token for a sender. An invalid token stores nothing and does not call `answer`. One transaction
    /// contains the admission, the used token, the handled message and the operations from `answer`. After this call,
    /// [`Access::admit`] admits the sender.
    pub async fn redeem(
        &self,
        token: &str,
        sender: &Sender,
        delivery: &[String],
        answer: impl FnOnce(&JoinOutcome) -> Vec<Op> + Send + 'static,
        at: Timestamp,
    ) -> Result<JoinOutcome, AccessError> {
        if !self.allow_attempt(sender, at) {
            return Ok(JoinOutcome::NoReply);
        }
        let (hash, sender, delivery) = (self.hash(token), sender.clone(), delivery.to_vec());
        let (who, names) = (sender.clone(), delivery.clone());
        let looking = self
            .store
            .read(move |tx| invite::preview_redemption(tx, hash, &who, &names, at));
        match looking.await? {
            RedemptionPreview::Duplicate => return Ok(JoinOutcome::NoReply),
            RedemptionPreview::Invalid => return Ok(JoinOutcome::Invalid),
            RedemptionPreview::HasResult => {}
        }
        let admitted = Arc::clone(&self.admitted);
        let (redeemed, _) = self
            .store
            .write_then(
                move |tx| {
                    let redemption = invite::redeem(tx, hash, &sender, &delivery, at)?;
                    let joined = match &redemption {
                        Redemption::Admitted(user) => Some(person(tx, *user)?),
                        Redemption::Duplicate | Redemption::AlreadyAdmitted | Redemption::Invalid => None,
                    };
                    let redeemed = match (redemption, &joined) {
                        (Redemption::Admitted(_), Some(person)) => welcome(person),
                        (Redemption::AlreadyAdmitted, _) => JoinOutcome::AlreadyAdmitted,
                        (Redemption::Duplicate, _) => JoinOutcome::NoReply,
                        (Redemption::Invalid | Redemption::Admitted(_), _) => JoinOutcome::Invalid,
                    };
                    enqueue_in(tx, &answer(&redeemed), at)?;
                    Ok((redeemed, joined))
                },
                move |(_, joined)| {
                    put(&admitted, joined.as_slice());
                },
            )
            .await?;
        Ok(redeemed)
    }

    /// Revokes a token that others have seen, for example in a public channel. Returns false if it was not valid any
    /// more.
    pub async fn revoke_invite(&self, token: &str, at: Timestamp) -> Result<bool, AccessError> {
        let hash = self.hash(token);
        // A made-up token costs no write.
        if !self.store.read(move |tx| invite::is_live(tx, hash, at)).await? {
            return Ok(false);
        }
        Ok(self.store.write(move |tx| invite::revoke(tx, hash, at)).await?)
    }

    /// Returns the keyed hash under which a token is stored.
    pub(super) fn hash(&self, token: &str) -> [u8; 32] {
        Sha256::new()
            .chain_update(self.store.pepper())
            .chain_update(token.trim().as_bytes())
            .finalize()
            .into()
    }
}

fn welcome(person: &PersonRow) -> JoinOutcome {
    match person.grants.iter().find_map(people::grant) {
        Some(grant) => JoinOutcome::Welcome {
            name: person.name.clone(),
            role: grant.role,
            repositories: grant.repositories,
            environments: grant.environments,
            invited_by: person.invited_by.clone(),
        },
        None => JoinOutcome::Invalid,
    }
}

/// Names that stand for admission without a user.
const RESERVED_NAMES: [&str; 2] = ["operator", "configuration"];
/// Checks a person's name. Refuses names that cannot be shown on a line or that look like another name. Also refuses
/// names that could be read as an account, a number, the operator or the configuration.
pub fn check_name(name: &str) -> Result<(), AccessError> {
    let chars = name.chars().count();
    if !(1..=NAME_CHARS_MAX).contains(&chars) || name.trim() != name || one_line(name) != name {
        return Err(AccessError::Name);
    }
    let lower = name.to_lowercase();
    let is_account = |platform: &Platform| {
        let rest = lower.strip_prefix(platform.as_str());
        rest.is_some_and(|rest| rest.starts_with(':'))
    };
    let is_number = lower.chars().all(|char| char.is_ascii_digit());
    match RESERVED_NAMES.contains(&lower.as_str()) || is_number || Platform::ALL.iter().any(is_account) {
        true => Err(AccessError::ReservedName(name.to_owned())),
        false => Ok(()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::string_slice)]
#[allow(clippy::disallowed_methods, reason = "tests read their own files")]
mod tests;
