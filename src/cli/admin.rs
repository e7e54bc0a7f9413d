//! `drydock invite`, `user`, `token`, `recording`, `audit`, `data`, `secrets`, `outbox`, `schedule` and `runs`: sent to the running server, or applied
//! to its database if no server runs.

use super::output::Output;
use super::serve::{host, is_unusable};
use super::{CliError, Global};
use crate::base::config::{Config, OperatorSettings};
use crate::base::model::Sender;
use crate::base::webhook::SecretPairs;
use crate::engine::admin::{self, Admin, AdminReply, AdminRequest, NoInstallations};
use crate::engine::gateway::{Retention, store_configured};
use crate::server::app;
use crate::state::access::{self, Access, AccessError, AuditorRight, Grant, NewPerson, Role, User};
use crate::state::recording;
use crate::state::store::{self, GroupAccess, Prune, Store};
use clap::{Args, Subcommand, ValueEnum};
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

#[derive(Debug, Args)]
pub(super) struct InviteArguments {
    /// The person's name, as others see it
    #[arg(value_parser = checked(access::check_name))]
    name: String,
    /// The person's role
    #[arg(long, value_enum, default_value = "editor")]
    role: RoleName,
    #[command(flatten)]
    scope: GrantScope,
    /// Hours until the invite expires
    #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u32).range(1..=720))]
    hours: u32,
}

#[derive(Debug, Args)]
pub(super) struct GrantScope {
    /// Repositories the grant covers, as a glob
    #[arg(long = "repo", value_name = "GLOB", default_value = "*", value_parser = checked(access::check_glob))]
    repositories: String,
    /// Environments the grant covers, as globs such as `dev` or `prod-*`; all if it is not given
    #[arg(long = "env", value_name = "GLOB", value_parser = checked(access::check_glob))]
    environments: Vec<String>,
}

impl GrantScope {
    fn grant(self, role: RoleName) -> Grant {
        let environments = match self.environments.is_empty() {
            true => vec!["**".to_owned()],
            false => self.environments,
        };
        Grant {
            role: role.into(),
            repositories: self.repositories,
            environments,
        }
    }
}

/// Returns a parser for a text that must pass `check`. A refused text is reported as wrong usage, before any request.
fn checked(
    check: impl Fn(&str) -> Result<(), AccessError> + Clone + Send + Sync + 'static,
) -> impl Fn(&str) -> Result<String, AccessError> + Clone + Send + Sync + 'static {
    move |text| check(text).map(|()| text.to_owned())
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum RoleName {
    Viewer,
    Editor,
    Admin,
}

impl From<RoleName> for Role {
    fn from(name: RoleName) -> Self {
        match name {
            RoleName::Viewer => Self::Viewer,
            RoleName::Editor => Self::Editor,
            RoleName::Admin => Self::Admin,
        }
    }
}

#[derive(Debug, Subcommand)]
pub(super) enum UserCommand {
    /// Lists all admitted people
    List,
    /// Shows one person
    Show {
        /// Id, name or `slack:T0ACME:U0ALICE`
        which: String,
    },
    /// Admits a person by the ID that Drydock sent to an unknown sender
    Add {
        /// The ID, such as `slack:T0ACME:U0ALICE` or `telegram:42:4201`
        #[arg(value_parser = access::account_of)]
        id: Sender,
        /// The person's name, as others see it
        #[arg(value_parser = checked(access::check_name))]
        name: String,
        /// The person's role
        #[arg(long, value_enum)]
        role: RoleName,
        #[command(flatten)]
        scope: GrantScope,
    },
    /// Revokes a person's access, at once
    Revoke {
        /// Id, name or `slack:T0ACME:U0ALICE`
        which: String,
    },
    /// Replaces the grants of a person by this one, at once
    Grant {
        /// Id, name or `slack:T0ACME:U0ALICE`
        which: String,
        /// The person's role
        #[arg(long, value_enum)]
        role: RoleName,
        #[command(flatten)]
        scope: GrantScope,
    },
    /// Gives a person the right to export the conversations of everybody, which no role includes
    Auditor {
        /// Id, name or `slack:T0ACME:U0ALICE`
        which: String,
        /// Takes the right away
        #[arg(long)]
        withdraw: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum SessionCommand {
    /// Prints a recording
    Show {
        /// The session, or a change such as `CHG-42`
        which: String,
    },
}

pub(super) async fn invite(
    arguments: InviteArguments,
    global: &Global,
    output: &Output,
) -> Result<(), CliError> {
    let grant = arguments.scope.grant(arguments.role);
    let mut client = AdminClient::new(global)?;
    client.warn_of_unknown_repositories(&grant.repositories, output);
    let request = AdminRequest::Invite {
        name: arguments.name,
        role: grant.role,
        repositories: grant.repositories,
        environments: grant.environments,
        hours: arguments.hours,
    };
    let Some(answer) = client.answer_to_show(request, output).await? else {
        return Ok(());
    };
    if let AdminReply::Invite { how, expires, .. } = answer {
        for line in how {
            output.line(&line);
        }
        output.message(&format!(
            "Single use, valid until {expires}. It cannot be shown again."
        ));
    }
    Ok(())
}

pub(super) async fn user(command: UserCommand, global: &Global, output: &Output) -> Result<(), CliError> {
    let mut client = AdminClient::new(global)?;
    if let UserCommand::Add { scope, .. } | UserCommand::Grant { scope, .. } = &command {
        client.warn_of_unknown_repositories(&scope.repositories, output);
    }
    let request = match command {
        UserCommand::List => AdminRequest::Users,
        UserCommand::Show { which } => AdminRequest::User { which },
        UserCommand::Add {
            id: sender,
            name,
            role,
            scope: reach,
        } => AdminRequest::Add {
            person: NewPerson {
                sender,
                name,
                grant: reach.grant(role),
            },
        },
        UserCommand::Revoke { which } => AdminRequest::Revoke { which },
        UserCommand::Grant {
            which,
            role,
            scope: reach,
        } => AdminRequest::Grant {
            which,
            grant: reach.grant(role),
        },
        UserCommand::Auditor { which, withdraw } => AdminRequest::Auditor {
            which,
            right: match withdraw {
                true => AuditorRight::Withdrawn,
                false => AuditorRight::Given,
            },
        },
    };
    let Some(answer) = client.answer_to_show(request, output).await? else {
        return Ok(());
    };
    match answer {
        AdminReply::Users { users } => {
            let rows: Vec<Vec<String>> = users.iter().map(row).collect();
            output.table(&["ID", "NAME", "STATE", "GRANTS", "ACCOUNTS"], &rows);
        }
        AdminReply::Added { user } | AdminReply::Granted { user } => {
            let grants: Vec<String> = user.grants.iter().map(shown).collect();
            output.line(&format!("{} is {} now", user.name, grants.join("; ")));
        }
        AdminReply::Auditor { user } => output.line(&match user.is_auditor {
            true => format!("{} can export the conversations of everybody now", user.name),
            false => format!("{} can export only their own conversations now", user.name),
        }),
        AdminReply::Revoked { user, tokens } => {
            output.line(&format!("{} has no access any more", user.name));
            if !tokens.is_empty() {
                output.line(&format!("ended with it: tokens {}", tokens.join(", ")));
            }
        }
        _ => {}
    }
    Ok(())
}

fn shown(grant: &Grant) -> String {
    let environments = grant.environments.join(",");
    format!("{} {} {environments}", grant.role, grant.repositories)
}

fn row(user: &User) -> Vec<String> {
    let auditor = user.is_auditor.then(|| "auditor".to_owned());
    let grants: Vec<String> = user.grants.iter().map(shown).chain(auditor).collect();
    let accounts: Vec<String> = user.senders.iter().map(ToString::to_string).collect();
    let state = if user.revoked_at.is_some() {
        "revoked"
    } else {
        "active"
    };
    vec![
        user.id.to_string(),
        user.name.clone(),
        state.to_owned(),
        grants.join("; "),
        accounts.join(", "),
    ]
}

pub(super) async fn session(
    command: SessionCommand,
    global: &Global,
    output: &Output,
) -> Result<(), CliError> {
    let SessionCommand::Show { which } = command;
    let request = AdminRequest::Session { which };
    let AdminReply::Session { records } = AdminClient::new(global)?.send(request).await? else {
        return Ok(());
    };
    if output.json() {
        for record in &records {
            output.value(&serde_json::to_value(record).map_err(CliError::failed)?);
        }
    } else {
        output.line(recording::render(&records).trim_end());
    }
    Ok(())
}

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
    fn warn_of_unknown_repositories(&self, glob: &str, output: &Output) {
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
            None => admin::ask(data, &request).await.map_err(CliError::failed)?,
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
                let (hooks, schedules) = (BTreeMap::new(), BTreeMap::new());
                let stored = access.service_identities(&hooks, &schedules, services, at);
                stored.await.map(|_| ()).map_err(CliError::failed)
            }
            _ => Ok(()),
        }
    }

    async fn open(&self, request: &AdminRequest) -> Result<Admin, CliError> {
        let data = &self.settings.data.directory;
        // Only an invite can come before the first start; any other request without a data directory is a mistake.
        // Without a configuration, the invite would be for a server that does not exist.
        let may_create = matches!(request, AdminRequest::Invite { .. }) && self.settings.is_directory_named;
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
