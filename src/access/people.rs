//! Users as an operator sees and changes them.

use super::Access;
use super::AccessError;
use super::Grant;
use super::Role;
use super::put;
use crate::model::Sender;
use crate::model::UserId;
use crate::store::audit_in;
use crate::store::people;
use crate::store::people::GrantRow;
use crate::store::people::PersonRow;
use globset::Glob;
use jiff::Timestamp;
use serde_json::json;
use std::sync::Arc;
use std::sync::PoisonError;

/// A user, admitted or revoked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Their row.
    pub id: UserId,
    /// The name given with the invite.
    pub name: String,
    /// Who invited them: `operator`, `configuration`, or a user's name.
    pub invited_by: String,
    /// Since when.
    pub created_at: Timestamp,
    /// Since when not any more.
    pub revoked_at: Option<Timestamp>,
    /// Their accounts.
    pub senders: Vec<Sender>,
    /// What they may do.
    pub grants: Vec<Grant>,
}

impl Access {
    /// Every user there ever was, oldest first.
    pub async fn users(&self) -> Result<Vec<User>, AccessError> {
        Ok(self.store.people().await?.iter().map(user).collect())
    }

    /// The user with this id (`7`), account (`slack:T0ACME:U0ALICE`) or name.
    pub async fn user(&self, who: &str) -> Result<User, AccessError> {
        let users = self.users().await?;
        let exact = |user: &User| {
            user.id.to_string() == who || user.senders.iter().any(|sender| sender.to_string() == who)
        };
        if let Some(user) = users.iter().find(|user| exact(user)) {
            return Ok(user.clone());
        }
        // A name that was given again means the person who still has it.
        let named: Vec<&User> = users.iter().filter(|user| user.name == who).collect();
        let active: Vec<&User> = named.iter().copied().filter(|user| user.revoked_at.is_none()).collect();
        match (active.as_slice(), named.as_slice()) {
            ([user], _) | ([], [user]) => Ok((*user).clone()),
            (_, []) => Err(AccessError::Unknown(who.to_owned())),
            (_, many) => Err(AccessError::Ambiguous {
                name: who.to_owned(),
                ids: many.iter().map(|user| user.id).collect(),
            }),
        }
    }

    /// Takes a user's access away, at once: from the answer on, [`Access::admit`] knows none of their
    /// accounts. False if it was taken before.
    pub async fn revoke(&self, user: UserId, by: &str, at: Timestamp) -> Result<bool, AccessError> {
        let (by, admitted) = (by.to_owned(), Arc::clone(&self.admitted));
        let (revoked, _) = self
            .store
            .write_then(
                move |tx| {
                    let revoked = people::revoke(tx, user, at)?;
                    let person = people::person(tx, user)?;
                    if revoked {
                        let data = json!({ "by": by, "name": person.name, "user": user });
                        audit_in(tx, "user.revoked", data, at)?;
                    }
                    Ok((revoked, person))
                },
                move |(_, person)| put(&mut admitted.write().unwrap_or_else(PoisonError::into_inner), person),
            )
            .await?;
        Ok(revoked)
    }

    /// Gives a user this grant and no other, at once.
    pub async fn set_grant(
        &self,
        user: UserId,
        grant: &Grant,
        by: &str,
        at: Timestamp,
    ) -> Result<(), AccessError> {
        check(grant)?;
        let (grant, by, admitted) = (row(grant), by.to_owned(), Arc::clone(&self.admitted));
        self.store
            .write_then(
                move |tx| {
                    people::set_grant(tx, user, &grant)?;
                    let person = people::person(tx, user)?;
                    let data = json!({ "by": by, "grant": grant, "name": person.name, "user": user });
                    audit_in(tx, "user.granted", data, at)?;
                    Ok(person)
                },
                move |person| put(&mut admitted.write().unwrap_or_else(PoisonError::into_inner), person),
            )
            .await?;
        Ok(())
    }
}

fn user(person: &PersonRow) -> User {
    User {
        id: person.id,
        name: person.name.clone(),
        invited_by: person.invited_by.clone(),
        created_at: person.created_at,
        revoked_at: person.revoked_at,
        senders: person.senders.clone(),
        grants: person.grants.iter().filter_map(grant).collect(),
    }
}

/// Refuses globs that would grant nothing.
pub(super) fn check(grant: &Grant) -> Result<(), AccessError> {
    for glob in grant.environments.iter().chain([&grant.repositories]) {
        Glob::new(glob).map_err(|_| AccessError::Glob(glob.clone()))?;
    }
    Ok(())
}

/// A grant as a row.
pub(super) fn row(grant: &Grant) -> GrantRow {
    (
        word(grant.role).to_owned(),
        grant.repositories.clone(),
        grant.environments.clone(),
    )
}

/// The grant of a row. A role this build does not know grants nothing.
pub(super) fn grant((role, repositories, environments): &GrantRow) -> Option<Grant> {
    Some(Grant {
        role: [Role::Viewer, Role::Editor, Role::Admin]
            .into_iter()
            .find(|known| word(*known) == role)?,
        repositories: repositories.clone(),
        environments: environments.clone(),
    })
}

fn word(role: Role) -> &'static str {
    match role {
        Role::Viewer => "viewer",
        Role::Editor => "editor",
        Role::Admin => "admin",
    }
}
