//! Invites: one token, one person, one day. Unknown, expired, used and somebody else's tokens look
//! the same from outside, and a token is stored nowhere.

use super::Access;
use super::AccessError;
use super::Grant;
use super::Role;
use super::people;
use super::put;
use crate::model::Secret;
use crate::model::Sender;
use crate::store::invite;
use crate::store::invite::InviteRow;
use crate::store::invite::Redemption;
use crate::store::people::PersonRow;
use crate::store::people::person;
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jiff::SignedDuration;
use jiff::Timestamp;
use sha2::Digest;
use sha2::Sha256;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::PoisonError;
use std::time::Duration;

/// The window that attempts are counted in.
const MINUTE_MS: i64 = 60_000;

/// An invite before it has a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewInvite {
    /// The name its user will have.
    pub name: String,
    /// What they may do.
    pub role: Role,
    /// In which repositories: a glob.
    pub repositories: String,
    /// In which environments: globs, `**` for all.
    pub environments: Vec<String>,
    /// How long it is good.
    pub expires: Duration,
    /// The only account that may use it, if it is known.
    pub bound_to: Option<Sender>,
}

impl NewInvite {
    /// How long an invite is good unless somebody says otherwise: a day.
    pub const EXPIRES: Duration = Duration::from_secs(24 * 60 * 60);
}

/// The token of an invite: 43 characters of base64url that are shown once and stored nowhere.
#[derive(Clone)]
pub struct InviteToken(Secret);

impl InviteToken {
    /// The token itself, for the link that is handed out.
    pub fn expose(&self) -> &str {
        self.0.expose()
    }
}

/// What became of an attempt to join.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Redeemed {
    /// They are admitted from now on.
    Welcome {
        /// Their name.
        name: String,
        /// What they may do.
        role: Role,
        /// In which repositories.
        repositories: String,
        /// In which environments.
        environments: Vec<String>,
        /// Who invited them, and should hear of it.
        invited_by: String,
    },
    /// They were admitted before. The invite is still good.
    AlreadyIn,
    /// The invite is not valid; nobody is told why.
    Invalid,
    /// Say nothing: too many attempts, or this message was handled before.
    Silent,
}

/// Attempts to join, counted per sender and minute.
pub(super) struct Attempts {
    counted: HashMap<Sender, (i64, u32)>,
    per_minute_max: u32,
    senders_max: usize,
}

impl Attempts {
    pub(super) fn new(per_minute_max: u32, senders_max: usize) -> Self {
        Self {
            counted: HashMap::new(),
            per_minute_max,
            senders_max,
        }
    }

    /// Counts an attempt; false if there were too many.
    fn allow(&mut self, sender: &Sender, at: i64) -> bool {
        let is_recent = |since: i64| at.saturating_sub(since) < MINUTE_MS;
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
    /// Issues an invite for these 32 random bytes. Only a keyed hash of the token is stored.
    pub async fn invite(
        &self,
        invite: NewInvite,
        issued_by: &str,
        token: [u8; 32],
        at: Timestamp,
    ) -> Result<InviteToken, AccessError> {
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

    /// Uses a token for a sender. Admission, the spent token and the message's being handled are one
    /// transaction; from the answer on [`Access::admit`] knows them.
    pub async fn redeem(
        &self,
        token: &str,
        sender: &Sender,
        delivery: &[String],
        at: Timestamp,
    ) -> Result<Redeemed, AccessError> {
        let allowed = self
            .attempts
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .allow(sender, at.as_millisecond());
        if !allowed {
            return Ok(Redeemed::Silent);
        }
        let (hash, sender, delivery) = (self.hash(token), sender.clone(), delivery.to_vec());
        let admitted = Arc::clone(&self.admitted);
        let redemption = self
            .store
            .write_then(
                move |tx| {
                    let redemption = invite::redeem(tx, hash, &sender, &delivery, at)?;
                    let joined = match &redemption {
                        Redemption::Admitted(user) => Some(person(tx, *user)?),
                        Redemption::Duplicate | Redemption::AlreadyIn | Redemption::Invalid => None,
                    };
                    Ok((redemption, joined))
                },
                move |(_, joined)| {
                    if let Some(person) = joined {
                        put(&mut admitted.write().unwrap_or_else(PoisonError::into_inner), person);
                    }
                },
            )
            .await?;
        Ok(match redemption {
            (Redemption::Admitted(_), Some(person)) => welcome(&person),
            (Redemption::AlreadyIn, _) => Redeemed::AlreadyIn,
            (Redemption::Duplicate, _) => Redeemed::Silent,
            (Redemption::Invalid | Redemption::Admitted(_), _) => Redeemed::Invalid,
        })
    }

    /// Makes a token worthless that others have seen, such as one pasted in a public channel. False if
    /// it was worthless already.
    pub async fn burn(&self, token: &str, at: Timestamp) -> Result<bool, AccessError> {
        let hash = self.hash(token);
        Ok(self.store.write(move |tx| invite::burn(tx, hash, at)).await?)
    }

    fn hash(&self, token: &str) -> [u8; 32] {
        Sha256::new()
            .chain_update(self.store.pepper())
            .chain_update(token.trim().as_bytes())
            .finalize()
            .into()
    }
}

fn welcome(person: &PersonRow) -> Redeemed {
    match person.grants.iter().find_map(people::grant) {
        Some(grant) => Redeemed::Welcome {
            name: person.name.clone(),
            role: grant.role,
            repositories: grant.repositories,
            environments: grant.environments,
            invited_by: person.invited_by.clone(),
        },
        None => Redeemed::Invalid,
    }
}
