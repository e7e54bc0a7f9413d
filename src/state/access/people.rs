//! Users in the form that operators see and change.

use super::{Access, AccessError, Grant, Role, put};
use crate::base::model::{Sender, UserId};
use crate::state::store::people::{AuditorRight, GrantRow, PersonRow};
use crate::state::store::{audit_in, people};
use globset::Glob;
use jiff::Timestamp;
use serde_json::json;
use std::sync::Arc;

/// A user, admitted or revoked.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct User {
    /// The row id of the user.
    pub id: UserId,
    /// The name from the invite.
    pub name: String,
    /// The inviter: `operator`, `configuration`, or a user's name.
    pub invited_by: String,
    /// The time of admission.
    pub created_at: Timestamp,
    /// The time of revocation, if any.
    pub revoked_at: Option<Timestamp>,
    /// The accounts of the user.
    pub senders: Vec<Sender>,
    /// The grants of the user.
    pub grants: Vec<Grant>,
    /// True for a user who may read the conversations of others. No role includes this.
    #[serde(default)]
    pub is_auditor: bool,
}

impl Access {
    /// Lists all users, including revoked ones, oldest first.
    pub async fn users(&self) -> Result<Vec<User>, AccessError> {
        Ok(self.store.people().await?.iter().map(user).collect())
    }

    /// Finds a user by id (`7`), account (`slack:T0ACME:U0ALICE`) or name.
    pub async fn user(&self, who: &str) -> Result<User, AccessError> {
        let users = self.users().await?;
        let exact = |user: &User| {
            user.id.to_string() == who || user.senders.iter().any(|sender| sender.to_string() == who)
        };
        if let Some(user) = users.iter().find(|user| exact(user)) {
            return Ok(user.clone());
        }
        // If several users had this name, the one who is not revoked is meant.
        let named: Vec<&User> = users.iter().filter(|user| user.name == who).collect();
        let active: Vec<&User> = named
            .iter()
            .copied()
            .filter(|user| user.revoked_at.is_none())
            .collect();
        match (active.as_slice(), named.as_slice()) {
            ([user], _) | ([], [user]) => Ok((*user).clone()),
            (_, []) => Err(AccessError::Unknown(who.to_owned())),
            (_, many) => Err(AccessError::Ambiguous {
                name: who.to_owned(),
                ids: many.iter().map(|user| user.id).collect(),
            }),
        }
    }

    /// Revokes a user's access at once. After this call, [`Access::admit`] admits none of their accounts. Returns the
    /// names of their tokens, which ended, or `None` if the user was already revoked.
    pub async fn revoke(
        &self,
        user: UserId,
        by: &str,
        at: Timestamp,
    ) -> Result<Option<Vec<String>>, AccessError> {
        let (by, admitted) = (by.to_owned(), Arc::clone(&self.admitted));
        let (revoked, _) = self
            .store
            .write_then(
                move |tx| {
                    let revoked = people::revoke(tx, user, at)?;
                    let person = people::person(tx, user)?;
                    if let Some(tokens) = &revoked {
                        let data = json!({ "by": by, "name": person.name, "user": user });
                        audit_in(tx, "user.revoked", data, at)?;
                        for token in tokens {
                            let data = json!({ "by": by, "name": person.name, "token": token, "user": user });
                            audit_in(tx, "token.revoked", data, at)?;
                        }
                    }
                    Ok((revoked, person))
                },
                move |(_, person)| put(&admitted, std::slice::from_ref(person)),
            )
            .await?;
        Ok(revoked)
    }

    /// Gives a user the right to read the conversations of others, or takes it away, at once. Returns false if nothing
    /// changed. A service identity never gets it.
    pub async fn set_auditor(
        &self,
        user: UserId,
        right: AuditorRight,
        by: &str,
        at: Timestamp,
    ) -> Result<bool, AccessError> {
        let by = by.to_owned();
        let set = self.store.write(move |tx| {
            let person = people::person(tx, user)?;
            if right == AuditorRight::Given
                && let Some(refused) = of_section(&person)
            {
                return Ok(Err(refused));
            }
            let changed = people::set_auditor(tx, user, right)?;
            if changed {
                let data = json!({ "auditor": right, "by": by, "name": person.name, "user": user });
                audit_in(tx, "user.granted", data, at)?;
            }
            Ok(Ok(changed))
        });
        set.await?
    }

    /// Replaces all grants of a user with this one, at once. Those of a service identity are not changed, because they are
    /// those of its section of the configuration.
    pub async fn set_grant(
        &self,
        user: UserId,
        grant: &Grant,
        by: &str,
        at: Timestamp,
    ) -> Result<(), AccessError> {
        check(grant)?;
        let (grant, by, admitted) = (row(grant), by.to_owned(), Arc::clone(&self.admitted));
        let granted = self.store.write_then(
            move |tx| {
                if let Some(refused) = of_section(&people::person(tx, user)?) {
                    return Ok(Err(refused));
                }
                people::set_grant(tx, user, &grant)?;
                let person = people::person(tx, user)?;
                let data = json!({ "by": by, "grant": grant, "name": person.name, "user": user });
                audit_in(tx, "user.granted", data, at)?;
                Ok(Ok(person))
            },
            move |granted| {
                if let Ok(person) = granted {
                    put(&admitted, std::slice::from_ref(person));
                }
            },
        );
        granted.await?.map(drop)
    }
}

/// Returns the refusal to change the rights of a service identity of the configuration; `None` for a person.
fn of_section(person: &PersonRow) -> Option<AccessError> {
    let section = person.senders.iter().find_map(Sender::section)?;
    Some(AccessError::OfSection {
        name: person.name.clone(),
        section,
    })
}

/// Converts a person's row to a [`User`].
pub(super) fn user(person: &PersonRow) -> User {
    User {
        id: person.id,
        name: person.name.clone(),
        invited_by: person.invited_by.clone(),
        created_at: person.created_at,
        revoked_at: person.revoked_at,
        senders: person.senders.clone(),
        grants: person.grants.iter().filter_map(grant).collect(),
        is_auditor: person.is_auditor,
    }
}

/// Refuses globs that do not compile, because they would grant nothing.
pub(super) fn check(grant: &Grant) -> Result<(), AccessError> {
    let mut globs = grant.environments.iter().chain([&grant.repositories]);
    globs.try_for_each(|glob| check_glob(glob))
}

/// Refuses a text that is not a valid glob. An empty one would grant nothing.
pub fn check_glob(text: &str) -> Result<(), AccessError> {
    if text.trim().is_empty() {
        return Err(AccessError::EmptyGlob);
    }
    match Glob::new(text) {
        Ok(_) => Ok(()),
        Err(_) => Err(AccessError::Glob(text.to_owned())),
    }
}

/// Returns true if a glob of a grant matches the name of a repository.
pub fn matches_glob(glob: &str, repository: &str) -> bool {
    Glob::new(glob).is_ok_and(|glob| glob.compile_matcher().is_match(repository))
}

/// Converts a grant to a row.
pub(super) fn row(grant: &Grant) -> GrantRow {
    (
        word(grant.role).to_owned(),
        grant.repositories.clone(),
        grant.environments.clone(),
    )
}

/// Converts a row to a grant. A role that this build does not know grants nothing.
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::base::config::{Grants, HookChange, HookScheme, HookSettings, PostTo};
    use crate::base::model::{Platform, Secret, Sender};
    use crate::state::access::fixture::{at, fresh, join, limits, telegram};
    use crate::state::access::{Access, AccessError, Grant, Role};
    use crate::state::store::Store;
    use std::collections::BTreeMap;

    /// T06
    #[tokio::test]
    async fn a_revoked_person_is_out_at_once_and_for_good() {
        let (directory, access) = fresh().await;
        join(&access, "alice", 1, &telegram("1")).await;
        let alice = access.user("alice").await.unwrap();
        assert_eq!(
            access.revoke(alice.id, "operator", at(5)).await,
            Ok(Some(Vec::new()))
        );
        assert!(access.admit(&telegram("1")).is_none());
        assert_eq!(access.revoke(alice.id, "operator", at(6)).await, Ok(None));
        drop(access);
        let access = Access::load(Store::open(directory.path()).unwrap(), &limits(10))
            .await
            .unwrap();
        assert!(access.admit(&telegram("1")).is_none());
        // Only a new invite brings the account back, as a new user.
        join(&access, "alice", 2, &telegram("1")).await;
        assert_ne!(access.admit(&telegram("1")).unwrap().user(), alice.id);
        assert_eq!(access.user("alice").await.unwrap().revoked_at, None);
    }

    /// T06
    #[tokio::test]
    async fn a_changed_grant_applies_to_identities_already_in_use() {
        let (_directory, access) = fresh().await;
        join(&access, "alice", 1, &telegram("1")).await;
        let working = access.admit(&telegram("1")).unwrap();
        let path = crate::base::model::RepoPath::parse("environments/dev/main.jsonnet").unwrap();
        let writes = |identity: &crate::state::access::Identity| {
            identity
                .may_write("infra-eu", &path, Some("environments/dev"))
                .is_ok()
        };
        assert!(writes(&working));
        let smaller = Grant {
            role: Role::Viewer,
            repositories: "infra-*".to_owned(),
            environments: vec!["dev".to_owned()],
        };
        access
            .set_grant(working.user(), &smaller, "operator", at(5))
            .await
            .unwrap();
        assert!(!writes(&working) && working.role("infra-eu") == Some(Role::Viewer));
        // A change stored by another process applies after the next load, in the same identity.
        let editor = Grant {
            role: Role::Editor,
            ..smaller
        };
        access
            .set_grant(working.user(), &editor, "operator", at(6))
            .await
            .unwrap();
        access.refresh().await.unwrap();
        assert!(writes(&working) && !working.is_revoked());
        let (shut_out, revoked) = (working.clone(), working.clone());
        let waiting = async {
            tokio::join!(
                shut_out.wait_until_locked_out("infra-eu"),
                revoked.wait_until_revoked()
            )
        };
        let revoking = access.revoke(working.user(), "operator", at(7));
        let (_, is_revoked) = tokio::join!(waiting, revoking);
        assert_eq!(is_revoked, Ok(Some(Vec::new())));
        assert!(working.is_revoked() && working.role("infra-eu").is_none() && !writes(&working));
        // The new invite creates a new user. The old identity stays without grants.
        join(&access, "alice", 2, &telegram("1")).await;
        assert!(working.is_revoked() && writes(&access.admit(&telegram("1")).unwrap()));
    }

    /// T03, T04
    #[tokio::test]
    async fn only_platform_workspace_and_user_id_admit() {
        let (_directory, access) = fresh().await;
        join(&access, "alice", 1, &telegram("1")).await;
        let others = [
            Sender {
                account: "43".into(),
                ..telegram("1")
            },
            Sender {
                platform: Platform::Slack,
                ..telegram("1")
            },
            telegram("alice"),
            telegram("1 "),
            telegram(""),
        ];
        for other in others {
            assert!(access.admit(&other).is_none(), "{other}");
        }
    }

    #[tokio::test]
    async fn users_are_found_by_id_account_and_name() {
        let (_directory, access) = fresh().await;
        join(&access, "alice", 1, &telegram("1")).await;
        join(&access, "bob", 2, &telegram("2")).await;
        join(&access, "bob", 3, &telegram("3")).await;
        assert_eq!(access.user("2").await.unwrap().senders, [telegram("2")]);
        assert_eq!(access.user("telegram:42:1").await.unwrap().name, "alice");
        assert_eq!(
            access.user("carol").await,
            Err(AccessError::Unknown("carol".into()))
        );
        let text = access.user("bob").await.unwrap_err().to_string();
        assert_eq!(text, "2 users have the name `bob`; use one of the ids 2, 3");
    }

    #[tokio::test]
    async fn a_new_grant_counts_at_once_and_replaces_the_old_one() {
        let (_directory, access) = fresh().await;
        join(&access, "alice", 1, &telegram("1")).await;
        let alice = access.user("alice").await.unwrap();
        let grant = Grant {
            role: Role::Viewer,
            repositories: "apps".into(),
            environments: vec!["**".into()],
        };
        access
            .set_grant(alice.id, &grant, "operator", at(5))
            .await
            .unwrap();
        let identity = access.admit(&telegram("1")).unwrap();
        assert_eq!(
            (identity.role("apps"), identity.role("infra-a")),
            (Some(Role::Viewer), None)
        );
        assert_eq!(access.user("alice").await.unwrap().grants, [grant]);
    }

    #[tokio::test]
    async fn a_hook_is_limited_to_its_repository_and_is_never_an_administrator() {
        let (_directory, access) = fresh().await;
        let mut settings = HookSettings {
            scheme: HookScheme::Github,
            secret: Secret::new("s".into()),
            previous_secret: None,
            events: Vec::new(),
            sources: Vec::new(),
            repository: "infra-*".into(),
            prompt: "p.md".into(),
            fields: BTreeMap::new(),
            starts_pipelines: false,
            change: HookChange::New,
            comments: None,
            post_to: PostTo {
                channel: "slack".into(),
                chat: "C1".into(),
            },
            grants: Grants {
                role: Role::Admin,
                environments: vec!["dev".into()],
            },
        };
        let sender = Sender::of_hook("release");
        let (none, no_services) = (BTreeMap::new(), BTreeMap::new());
        let hooks = BTreeMap::from([("release".to_owned(), settings.clone())]);
        let stored = access
            .service_identities(&hooks, &none, &no_services, at(0))
            .await;
        assert_eq!(stored, Ok(Vec::new()));
        let first = access.admit(&sender).unwrap();
        assert_eq!((first.name(), first.is_admin()), ("hook:release", false));
        assert_eq!(
            (first.role("infra-*"), first.role("infra-a")),
            (Some(Role::Editor), None)
        );
        settings.grants.role = Role::Viewer;
        let hooks = BTreeMap::from([("release".to_owned(), settings)]);
        let stored = access
            .service_identities(&hooks, &none, &no_services, at(1))
            .await;
        assert_eq!(stored, Ok(Vec::new()));
        let second = access.admit(&sender).unwrap();
        assert_eq!(
            (second.user(), second.role("infra-*")),
            (first.user(), Some(Role::Viewer))
        );
        assert_eq!(access.users().await.unwrap().len(), 1);
        // A token for a service leaves a hook as it is; a start without its section takes its grants until it is back.
        let stored = access.service_identities_of_programs(&no_services, at(2)).await;
        assert_eq!(
            (stored, second.role("infra-*")),
            (Ok(Vec::new()), Some(Role::Viewer))
        );
        for (hooks, role) in [(&BTreeMap::new(), None), (&hooks, Some(Role::Viewer))] {
            let stored = access.service_identities(hooks, &none, &no_services, at(2)).await;
            assert_eq!((stored, second.role("infra-*")), (Ok(Vec::new()), role));
        }
        access.revoke(first.user(), "operator", at(2)).await.unwrap();
        let revoked = access
            .service_identities(&hooks, &none, &no_services, at(3))
            .await;
        assert_eq!(revoked, Ok(vec!["hook:release".to_owned()]));
        assert!(access.admit(&sender).is_none());
    }
}
