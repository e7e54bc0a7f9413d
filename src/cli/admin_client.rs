//! The requests of an operator: sent to the running server, or applied to its database if no server runs.

use super::output::Output;
use super::serve::{host, is_unusable};
use super::{CliError, Global};
use crate::base::config::{Config, OperatorSettings};
use crate::base::webhook::SecretPairs;
use crate::engine::admin::{self, Admin, AdminReply, AdminRequest, NoInstallations};
use crate::engine::gateway::{Retention, store_configured};
use crate::server::app;
use crate::state::access::{self, Access};
use crate::state::store::{self, GroupAccess, Prune, Store};
use jiff::Timestamp;
use std::path::Path;
use std::sync::Arc;

/// The begin of the name of a service, before that of its section.
const SERVICE_PREFIX: &str = "service:";

/// Sends a request to the running server, or applies it to the database if no server runs. Returns the answer that is still
/// to be shown; `None` if it was printed as JSON.
pub(super) async fn answer_to_show(
    request: AdminRequest,
    global: &Global,
    output: &Output,
) -> Result<Option<AdminReply>, CliError> {
    AdminClient::new(global)?.answer_to_show(request, output).await
}

/// A client for an operator's requests. It uses the running server, or else opens the database and keeps it open.
pub(super) struct AdminClient {
    global: Global,
    settings: OperatorSettings,
    database: Option<Admin>,
}

impl AdminClient {
    pub(super) fn new(global: &Global) -> Result<Self, CliError> {
        Ok(Self {
            global: global.clone(),
            settings: Config::for_operator(global.sources()?).map_err(CliError::config)?,
            database: None,
        })
    }

    /// Returns the data directory of the server.
    pub(super) fn data(&self) -> &Path {
        &self.settings.data.directory
    }

    /// Warns if a glob matches none of the configured repositories. Without any, nothing is known about them.
    pub(super) fn warn_of_unknown_repositories(&self, glob: &str, output: &Output) {
        let known = &self.settings.repositories;
        if !known.is_empty() && !known.iter().any(|name| access::matches_glob(glob, name)) {
            let listed = known.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
            output.message(&format!(
                "`{glob}` matches none of the configured repositories, which are {listed}."
            ));
        }
    }

    /// True if a schedule of this name is in the configuration.
    pub(super) fn has_configured_schedule(&self, name: &str) -> bool {
        self.settings.schedules.contains_key(name)
    }

    pub(super) async fn send(&mut self, request: AdminRequest) -> Result<AdminReply, CliError> {
        let data = &self.settings.data.directory;
        let answered = match &self.database {
            Some(_) => None,
            None => {
                let asked = admin::ask(data, &request).await;
                asked.map_err(|error| CliError::of_data(data, &error))?
            }
        };
        let answer = match (answered, &self.database) {
            (Some(answer), _) => answer,
            (None, Some(admin)) => admin.answer(request).await,
            (None, None) => {
                let admin = self.open(&request).await?;
                self.database.insert(admin).answer(request).await
            }
        };
        match answer {
            AdminReply::Failed { why } => Err(CliError::failed(why)),
            answer => Ok(answer),
        }
    }

    /// Sends a request. Returns the answer that is still to be shown; `None` if it was printed as JSON.
    pub(super) async fn answer_to_show(
        &mut self,
        request: AdminRequest,
        output: &Output,
    ) -> Result<Option<AdminReply>, CliError> {
        let answer = self.send(request).await?;
        if output.json() {
            output.value(&serde_json::to_value(&answer).map_err(CliError::failed)?);
            return Ok(None);
        }
        Ok(Some(answer))
    }

    /// Stores what a request needs of the configuration, as the next start does. Without a configuration, nothing is known
    /// about its schedules and services.
    async fn store_configuration(
        &self,
        request: &AdminRequest,
        (store, access): (&Store, &Access),
        at: Timestamp,
    ) -> Result<(), CliError> {
        let OperatorSettings {
            schedules, services, ..
        } = &self.settings;
        match request {
            AdminRequest::Schedules | AdminRequest::Schedule { .. } if !schedules.is_empty() => {
                store_configured(store, schedules, at)
                    .await
                    .map_err(CliError::failed)
            }
            AdminRequest::CreateToken { .. } if !services.is_empty() => {
                let stored = access.service_identities_of_programs(services, at);
                stored.await.map(|_| ()).map_err(CliError::failed)
            }
            _ => Ok(()),
        }
    }

    /// True for an invite and for a token of a configured service. Any other request before the first start is a mistake.
    fn may_be_first(&self, request: &AdminRequest) -> bool {
        match request {
            AdminRequest::Invite { .. } => true,
            AdminRequest::CreateToken { person, .. } => {
                let service = person.strip_prefix(SERVICE_PREFIX);
                service.is_some_and(|name| self.settings.services.contains_key(name))
            }
            _ => false,
        }
    }

    async fn open(&self, request: &AdminRequest) -> Result<Admin, CliError> {
        let data = &self.settings.data.directory;
        // Without a configuration, the request would be for a server that does not exist.
        let may_create = self.settings.is_directory_named && self.may_be_first(request);
        if !may_create && !data.is_dir() {
            let why = format!(
                "there is no data directory `{}`; name the server's configuration with --config",
                data.display()
            );
            return Err(CliError::config(why));
        }
        let host = host();
        let group = GroupAccess::from_setting(self.settings.data.group_access);
        let opened = store::prepare_directory(data, group).and_then(|()| Store::open(data));
        let store = opened.map_err(|error| match is_unusable(&error) {
            true => CliError::config(error),
            false => CliError::failed(error),
        })?;
        let access = Access::load(store.clone(), &self.settings.limits).await;
        let access = access.map_err(CliError::failed)?;
        let retention = Retention::new(
            store.clone(),
            &self.settings.data,
            self.settings.retention.clone(),
            self.settings.repositories.clone(),
        );
        self.store_configuration(request, (&store, &access), (host.now)())
            .await?;
        if matches!(
            request,
            AdminRequest::Prune {
                prune: Prune::Remove,
                ..
            }
        ) {
            retention.clear_unfinished().await;
        }
        let needs_secrets = matches!(request, AdminRequest::Secrets | AdminRequest::RetireSecret { .. });
        let secret_pairs = match needs_secrets {
            true => {
                let config = Config::load(self.global.sources()?).map_err(CliError::config)?;
                app::secret_pairs(&config, &store)
                    .await
                    .map_err(CliError::failed)?
            }
            false => SecretPairs::default(),
        };
        Ok(Admin {
            store,
            access: Arc::new(access),
            data: data.clone(),
            retention: Arc::new(retention),
            channels: self.settings.channels.clone(),
            gateway: None,
            facts: None,
            installations: Arc::new(NoInstallations),
            secret_pairs,
            started_at: None,
            now: host.now,
            random: host.random,
        })
    }
}
