//! The service identities of configured hooks and schedules: `hook:<name>` and `schedule:<name>`. Each is limited to the
//! repository of its section and is never an administrator. The first start creates its user, which can be revoked like any
//! other.

use super::{Access, AccessError, Grant, Role, people, put};
use crate::base::config::{Grants, HookSettings, ScheduleSettings};
use crate::base::model::Sender;
use crate::state::store::people::{GrantRow, store_service};
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

/// A service of the configuration, with its grant.
struct ServiceAccount {
    sender: Sender,
    name: String,
    grant: GrantRow,
}

impl ServiceAccount {
    fn new(sender: Sender, (repository, grants): (&str, &Grants)) -> Result<Self, AccessError> {
        let grant = Grant {
            role: grants.role.min(Role::Editor),
            // The setting is a name, not a glob, even if it looks like one.
            repositories: globset::escape(repository),
            environments: grants.environments.clone(),
        };
        people::check(&grant)?;
        Ok(Self {
            name: format!("{}:{}", sender.platform.as_str(), sender.id),
            grant: people::row(&grant),
            sender,
        })
    }
}

impl Access {
    /// Creates the service identities of configured hooks and schedules, all in one write, and gives each the grants of its
    /// section. Returns the names of those that were revoked, which stay so.
    pub async fn service_identities(
        &self,
        hooks: &BTreeMap<String, HookSettings>,
        schedules: &BTreeMap<String, ScheduleSettings>,
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
        let services: Vec<ServiceAccount> = hooks.chain(schedules).collect::<Result<_, _>>()?;
        if services.is_empty() {
            return Ok(Vec::new());
        }
        let names = services
            .iter()
            .map(|service| (service.sender.clone(), service.name.clone()));
        let names: Vec<(Sender, String)> = names.collect();
        let admitted = Arc::clone(&self.admitted);
        self.store
            .write_then(
                move |tx| {
                    let mut changed = Vec::new();
                    for service in &services {
                        let stored = store_service(tx, (&service.sender, &service.name), &service.grant, at)?;
                        changed.extend(stored);
                    }
                    Ok(changed)
                },
                move |changed| {
                    let mut admitted = admitted.write().unwrap_or_else(PoisonError::into_inner);
                    changed.iter().for_each(|person| put(&mut admitted, person));
                },
            )
            .await?;
        let revoked = names
            .into_iter()
            .filter(|(sender, _)| self.admit(sender).is_none());
        Ok(revoked.map(|(_, name)| name).collect())
    }
}
