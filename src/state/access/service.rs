//! The service identities of configured hooks, schedules and services: `hook:<name>`, `schedule:<name>` and `service:<name>`.
//! Each is limited to the repository of its section and is never an administrator. The first start creates its user, which can
//! be revoked like any other. One without its section keeps its user and has no grants, because its tokens and its open runs
//! are still there.

use super::{Access, AccessError, Grant, Identity, Role, people, put};
use crate::base::config::{Grants, HookSettings, ScheduleSettings, ServiceSettings};
use crate::base::model::{Sender, UserId};
use crate::state::store::people::{store_service, withdraw_service};
use jiff::Timestamp;
use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, PoisonError};

/// A service of the configuration, with its grant.
struct ServiceAccount {
    sender: Sender,
    name: String,
    grant: Grant,
}

impl ServiceAccount {
    fn new(sender: Sender, (repository, grants): (&str, &Grants)) -> Self {
        let grant = Grant {
            role: grants.role.min(Role::Editor),
            // The setting is a name, not a glob, even if it looks like one.
            repositories: globset::escape(repository),
            environments: grants.environments.clone(),
        };
        Self {
            name: format!("{}:{}", sender.platform.as_str(), sender.id),
            grant,
            sender,
        }
    }
}

impl Access {
    /// Creates the service identities of configured hooks, schedules and services, all in one write, and gives each the grants
    /// of its section. Those without a section lose their grants. Returns the names of those that were revoked, which stay so.
    pub async fn service_identities(
        &self,
        hooks: &BTreeMap<String, HookSettings>,
        schedules: &BTreeMap<String, ScheduleSettings>,
        services: &BTreeMap<String, ServiceSettings>,
        at: Timestamp,
    ) -> Result<Vec<String>, AccessError> {
        let hooks = hooks.iter().map(|(name, hook)| {
            let grants = (hook.repository.as_str(), &hook.grants);
            ServiceAccount::new(Sender::of_hook(name), grants)
        });
        let schedules = schedules.iter().map(|(name, schedule)| {
            let grants = (schedule.definition.repository.as_str(), &schedule.grants);
            ServiceAccount::new(Sender::of_schedule(name), grants)
        });
        let accounts = hooks.chain(schedules).chain(service_accounts(services));
        self.store_sections(accounts.collect(), |sender| sender.section().is_some(), at)
            .await
    }

    /// Creates the identities of configured services like [`Self::service_identities`], and leaves those of hooks and schedules
    /// as they are.
    pub async fn service_identities_of_programs(
        &self,
        services: &BTreeMap<String, ServiceSettings>,
        at: Timestamp,
    ) -> Result<Vec<String>, AccessError> {
        let accounts = service_accounts(services).collect();
        self.store_sections(accounts, Sender::is_of_service, at).await
    }

    /// Gives each of these accounts the grants of its section, and takes those of the others for which `is_meant` is true.
    async fn store_sections(
        &self,
        accounts: Vec<ServiceAccount>,
        is_meant: fn(&Sender) -> bool,
        at: Timestamp,
    ) -> Result<Vec<String>, AccessError> {
        let removed = self.removed_services(&accounts, is_meant);
        let accounts = accounts.into_iter();
        let changed = accounts.filter(|account| !self.has_only(&account.sender, &account.grant));
        let changed: Vec<ServiceAccount> = changed.collect();
        changed
            .iter()
            .try_for_each(|account| people::check(&account.grant))?;
        let names = changed
            .iter()
            .map(|account| (account.sender.clone(), account.name.clone()));
        let names: Vec<(Sender, String)> = names.collect();
        self.store_services(changed, removed, at).await?;
        let revoked = names
            .into_iter()
            .filter(|(sender, _)| self.admit(sender).is_none());
        Ok(revoked.map(|(_, name)| name).collect())
    }

    /// Returns true if a service is admitted with exactly this grant.
    fn has_only(&self, sender: &Sender, grant: &Grant) -> bool {
        self.admit(sender)
            .is_some_and(|identity| identity.has_only(grant))
    }

    /// Returns the users of service identities with grants for which `is_meant` is true, and that have no section.
    fn removed_services(&self, accounts: &[ServiceAccount], is_meant: fn(&Sender) -> bool) -> Vec<UserId> {
        let configured: HashSet<&Sender> = accounts.iter().map(|account| &account.sender).collect();
        let admitted = self.admitted.read().unwrap_or_else(PoisonError::into_inner);
        let is_removed = |identity: &&Identity| {
            let sender = identity.sender();
            is_meant(sender) && !configured.contains(sender) && identity.has_grants()
        };
        admitted.values().filter(is_removed).map(Identity::user).collect()
    }

    async fn store_services(
        &self,
        accounts: Vec<ServiceAccount>,
        removed: Vec<UserId>,
        at: Timestamp,
    ) -> Result<(), AccessError> {
        if accounts.is_empty() && removed.is_empty() {
            return Ok(());
        }
        let admitted = Arc::clone(&self.admitted);
        self.store
            .write_then(
                move |tx| {
                    let mut changed = Vec::new();
                    for account in &accounts {
                        let grant = people::row(&account.grant);
                        let stored = store_service(tx, (&account.sender, &account.name), &grant, at)?;
                        changed.extend(stored);
                    }
                    for user in removed {
                        changed.extend(withdraw_service(tx, user, at)?);
                    }
                    Ok(changed)
                },
                move |changed| put(&admitted, changed),
            )
            .await?;
        Ok(())
    }
}

fn service_accounts(
    services: &BTreeMap<String, ServiceSettings>,
) -> impl Iterator<Item = ServiceAccount> + '_ {
    services.iter().map(|(name, service)| {
        let grants = (service.repository.as_str(), &service.grants);
        ServiceAccount::new(Sender::of_service(name), grants)
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::base::config::{Grants, ServiceSettings};
    use crate::base::model::Sender;
    use crate::state::access::fixture::{at, fresh, join, limits, telegram};
    use crate::state::access::{Access, AccessError, AuditorRight, Grant, Role};
    use crate::state::store::Store;
    use std::collections::BTreeMap;

    fn services(names: &[&str], role: Role) -> BTreeMap<String, ServiceSettings> {
        let settings = ServiceSettings {
            repository: "infra-*".to_owned(),
            grants: Grants {
                role,
                environments: vec!["dev".to_owned()],
            },
        };
        let named = names.iter().map(|name| ((*name).to_owned(), settings.clone()));
        named.collect()
    }

    /// Does what a start with these services does. Returns the names of those that were revoked.
    async fn start(
        access: &Access,
        services: &BTreeMap<String, ServiceSettings>,
        second: i64,
    ) -> Vec<String> {
        let (hooks, schedules) = (BTreeMap::new(), BTreeMap::new());
        let stored = access.service_identities(&hooks, &schedules, services, at(second));
        stored.await.unwrap()
    }

    #[tokio::test]
    async fn a_service_has_the_grants_of_its_section_and_none_without_it() {
        let (directory, access) = fresh().await;
        join(&access, "alice", 1, &telegram("1")).await;
        assert!(
            start(&access, &services(&["deploy", "bot"], Role::Admin), 2)
                .await
                .is_empty()
        );
        let sender = Sender::of_service("deploy");
        let deploy = access.admit(&sender).unwrap();
        assert_eq!((deploy.name(), deploy.is_admin()), ("service:deploy", false));
        assert_eq!(
            (deploy.role("infra-*"), deploy.role("infra-a")),
            (Some(Role::Editor), None)
        );
        // The next start has one section less. Work that goes on sees that at once.
        assert!(
            start(&access, &services(&["bot"], Role::Viewer), 3)
                .await
                .is_empty()
        );
        assert_eq!(deploy.role("infra-*"), None);
        let bot = access.admit(&Sender::of_service("bot")).unwrap();
        assert_eq!(bot.role("infra-*"), Some(Role::Viewer));
        assert!(access.admit(&telegram("1")).unwrap().role("infra-a").is_some());
        assert_eq!(access.user("service:deploy").await.unwrap().grants, []);
        let left = services(&[], Role::Viewer);
        assert!(start(&access, &left, 4).await.is_empty());
        assert_eq!(bot.role("infra-*"), None);
        drop(access);
        let store = Store::open(directory.path()).unwrap();
        let access = Access::load(store, &limits(10)).await.unwrap();
        assert_eq!(access.admit(&sender).unwrap().role("infra-*"), None);

        // The section comes back, with the same user.
        assert!(
            start(&access, &services(&["deploy"], Role::Editor), 5)
                .await
                .is_empty()
        );
        let again = access.admit(&sender).unwrap();
        assert_eq!(
            (again.user(), again.role("infra-*")),
            (deploy.user(), Some(Role::Editor))
        );
        access.revoke(again.user(), "operator", at(6)).await.unwrap();
        let revoked = start(&access, &services(&["deploy"], Role::Editor), 7).await;
        assert_eq!(revoked, ["service:deploy"]);
        assert!(access.admit(&sender).is_none());
    }

    #[tokio::test]
    async fn no_grant_exceeds_the_section_of_a_service() {
        let (_directory, access) = fresh().await;
        start(&access, &services(&["deploy"], Role::Viewer), 1).await;
        let sender = Sender::of_service("deploy");
        let deploy = access.admit(&sender).unwrap();
        let everything = Grant {
            role: Role::Admin,
            repositories: "*".to_owned(),
            environments: vec!["**".to_owned()],
        };
        let refused = AccessError::OfSection {
            name: "service:deploy".to_owned(),
            section: "services.deploy".to_owned(),
        };
        let granted = access.set_grant(deploy.user(), &everything, "operator", at(2));
        assert_eq!(granted.await, Err(refused.clone()));
        let right = AuditorRight::Given;
        let given = access.set_auditor(deploy.user(), right, "operator", at(3));
        assert_eq!(given.await, Err(refused.clone()));
        assert_eq!(
            (deploy.role("infra-*"), deploy.role("infra-a")),
            (Some(Role::Viewer), None)
        );
        // Nor without the section, which took the grants.
        start(&access, &services(&[], Role::Viewer), 4).await;
        let granted = access.set_grant(deploy.user(), &everything, "operator", at(5));
        assert_eq!(granted.await, Err(refused));
        assert_eq!((deploy.role("infra-*"), deploy.is_admin()), (None, false));
        let revoked = access.revoke(deploy.user(), "operator", at(6)).await;
        assert!(revoked.is_ok() && access.admit(&sender).is_none());
    }
}
