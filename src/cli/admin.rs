//! `drydock invite`, `user` and `session`.

use super::admin_client::AdminClient;
use super::output::Output;
use super::{CliError, Global};
use crate::base::model::Sender;
use crate::engine::admin::{AdminReply, AdminRequest};
use crate::state::access::{self, AccessError, AuditorRight, Grant, NewPerson, Role, User};
use crate::state::recording;
use clap::{Args, Subcommand, ValueEnum};

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
