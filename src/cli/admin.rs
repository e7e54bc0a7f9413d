//! `drydock invite`, `user`, `session`, `audit`, `data` and `outbox`: asked of the running server if there is one, and
//! of its database if there is none.

use super::output::Output;
use super::serve::{is_unusable, world};
use super::{Failure, Global};
use crate::access::{self, Access, AccessError, Grant, NewPerson, Role, User};
use crate::admin::{self, Admin, Answer, NoInstallations, Request};
use crate::config::{Config, OperatorSettings};
use crate::gateway::Retention;
use crate::model::Sender;
use crate::session;
use crate::store::{self, GroupAccess, Prune, Store};
use clap::{Args, Subcommand, ValueEnum};
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
    reach: Reach,
    /// Hours until the invite expires
    #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u32).range(1..=720))]
    hours: u32,
}

#[derive(Debug, Args)]
pub(super) struct Reach {
    /// Repositories the grant covers, as a glob
    #[arg(long = "repo", value_name = "GLOB", default_value = "*", value_parser = checked(access::check_glob))]
    repositories: String,
    /// Environments the grant covers, as globs such as `dev` or `prod-*`; all if it is not given
    #[arg(long = "env", value_name = "GLOB", value_parser = checked(access::check_glob))]
    environments: Vec<String>,
}

impl Reach {
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

/// A text that passes `check`: what is refused is told before anything is asked, as wrong usage.
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
    /// Lists everybody who was admitted
    List,
    /// Shows one person
    Show {
        /// Id, name or `slack:T0ACME:U0ALICE`
        which: String,
    },
    /// Lets somebody in by the ID that a stranger is told
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
        reach: Reach,
    },
    /// Takes a person's access away, at once
    Revoke {
        /// Id, name or `slack:T0ACME:U0ALICE`
        which: String,
    },
    /// Gives a person this grant and no other, at once
    Grant {
        /// Id, name or `slack:T0ACME:U0ALICE`
        which: String,
        /// The person's role
        #[arg(long, value_enum)]
        role: RoleName,
        #[command(flatten)]
        reach: Reach,
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
) -> Result<(), Failure> {
    let grant = arguments.reach.grant(arguments.role);
    let request = Request::Invite {
        name: arguments.name,
        role: grant.role,
        repositories: grant.repositories,
        environments: grant.environments,
        hours: arguments.hours,
    };
    let answer = ask(global, request).await?;
    if output.json() {
        return print_json(output, &answer);
    }
    if let Answer::Invite { how, expires, .. } = answer {
        for line in how {
            output.line(&line);
        }
        output.message(&format!(
            "Single use, good until {expires}. Nobody can show it again."
        ));
    }
    Ok(())
}

pub(super) async fn user(command: UserCommand, global: &Global, output: &Output) -> Result<(), Failure> {
    let request = match command {
        UserCommand::List => Request::Users,
        UserCommand::Show { which } => Request::User { which },
        UserCommand::Add {
            id: sender,
            name,
            role,
            reach,
        } => Request::Add {
            person: NewPerson {
                sender,
                name,
                grant: reach.grant(role),
            },
        },
        UserCommand::Revoke { which } => Request::Revoke { which },
        UserCommand::Grant { which, role, reach } => Request::Grant {
            which,
            grant: reach.grant(role),
        },
    };
    let answer = ask(global, request).await?;
    if output.json() {
        return print_json(output, &answer);
    }
    match answer {
        Answer::Users { users } => {
            let rows: Vec<Vec<String>> = users.iter().map(row).collect();
            output.table(&["ID", "NAME", "STATE", "GRANTS", "ACCOUNTS"], &rows);
        }
        Answer::Added { user } | Answer::Granted { user } => {
            let grants: Vec<String> = user.grants.iter().map(shown).collect();
            output.line(&format!("{} is {} now", user.name, grants.join("; ")));
        }
        Answer::Revoked { user } => output.line(&format!("{} has no access any more", user.name)),
        _ => {}
    }
    Ok(())
}

fn shown(grant: &Grant) -> String {
    let environments = grant.environments.join(",");
    format!("{} {} {environments}", grant.role, grant.repositories)
}

fn row(user: &User) -> Vec<String> {
    let grants: Vec<String> = user.grants.iter().map(shown).collect();
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
) -> Result<(), Failure> {
    let SessionCommand::Show { which } = command;
    let Answer::Session { records } = ask(global, Request::Session { which }).await? else {
        return Ok(());
    };
    if output.json() {
        for record in &records {
            output.value(&serde_json::to_value(record).map_err(Failure::failed)?);
        }
    } else {
        output.line(session::render(&records).trim_end());
    }
    Ok(())
}

pub(super) fn print_json(output: &Output, answer: &Answer) -> Result<(), Failure> {
    output.value(&serde_json::to_value(answer).map_err(Failure::failed)?);
    Ok(())
}

/// Asks the running server, else the database itself.
pub(super) async fn ask(global: &Global, request: Request) -> Result<Answer, Failure> {
    Operator::new(global)?.ask(request).await
}

/// An operator's requests: to the running server, else to the database itself, which stays open then.
pub(super) struct Operator {
    settings: OperatorSettings,
    database: Option<Admin>,
}

impl Operator {
    pub(super) fn new(global: &Global) -> Result<Self, Failure> {
        Ok(Self {
            settings: Config::for_operator(global.sources()?).map_err(Failure::config)?,
            database: None,
        })
    }

    pub(super) async fn ask(&mut self, request: Request) -> Result<Answer, Failure> {
        let data = &self.settings.data.directory;
        let answered = match &self.database {
            Some(_) => None,
            None => admin::ask(data, &request).await.map_err(Failure::failed)?,
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
            Answer::Failed { why } => Err(Failure::failed(why)),
            answer => Ok(answer),
        }
    }

    async fn open(&self, request: &Request) -> Result<Admin, Failure> {
        let data = &self.settings.data.directory;
        // Only an invite may come before the first start; a question about nothing is a mistake.
        if !matches!(request, Request::Invite { .. }) && !data.is_dir() {
            let why = format!(
                "there is no data directory `{}`; name the server's configuration with --config",
                data.display()
            );
            return Err(Failure::config(why));
        }
        let world = world();
        let group = GroupAccess::of(self.settings.data.group_access);
        let opened = store::prepare_directory(data, group).and_then(|()| Store::open(data));
        let store = opened.map_err(|error| match is_unusable(&error) {
            true => Failure::config(error),
            false => Failure::failed(error),
        })?;
        let access = Access::load(store.clone(), &self.settings.limits).await;
        let retention = Retention::new(
            store.clone(),
            &self.settings.data,
            self.settings.retention.clone(),
            self.settings.repositories.clone(),
        );
        if matches!(
            request,
            Request::Prune {
                prune: Prune::Remove,
                ..
            }
        ) {
            retention.clear_unfinished().await;
        }
        Ok(Admin {
            store,
            access: Arc::new(access.map_err(Failure::failed)?),
            data: data.clone(),
            retention: Arc::new(retention),
            channels: self.settings.channels.clone(),
            gateway: None,
            routes: Arc::new(NoInstallations),
            now: world.now,
            random: world.random,
        })
    }
}
