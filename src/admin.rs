//! Administration of a server: invites, users, recordings, stored data. The same code answers a running server's
//! socket and a command line that finds no server running.

mod audit;
mod socket;

pub use audit::AUDIT_LINES_MAX;
pub use socket::{ask, listen, serve};

use crate::access::{Access, AccessError, Admitter, Grant, NewInvite, NewPerson, Role, User};
use crate::gateway::{ChannelHealth, Gateway, Holding, PrunedAmount, Retention, RoundStart};
use crate::model::{Installation, Platform};
use crate::recording;
use crate::store::{AuditLine, DatabaseSize, DeadLetter, DeadLetterFilter, Prune, Store, StoreError};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Operations that are listed at once.
const LETTERS_MAX: u32 = 1_000;

/// A request of an operator.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub enum AdminRequest {
    /// Makes an invite.
    Invite {
        /// The person's name, as it is shown to others.
        name: String,
        /// The role they get.
        role: Role,
        /// Glob over repository names.
        repositories: String,
        /// Globs over environments.
        environments: Vec<String>,
        /// The hours for which the invite is good.
        hours: u32,
    },
    /// Lists every person who was admitted.
    Users,
    /// Shows one person: by id, name or `slack:T0ACME:U0ALICE`.
    User {
        /// The id, name or account of the person.
        which: String,
    },
    /// Admits an account by its id.
    Add {
        /// The account, the name and the grant of the person.
        person: NewPerson,
    },
    /// Takes a person's access away, at once.
    Revoke {
        /// The id, name or account of the person.
        which: String,
    },
    /// Gives a person this grant and no other, at once.
    Grant {
        /// The id, name or account of the person.
        which: String,
        /// The grant.
        grant: Grant,
    },
    /// Shows the recording of a conversation: by its id, or a change such as `CHG-42`.
    Session {
        /// The id of the conversation, or the name of a change.
        which: String,
    },
    /// Checks the audit log's chain.
    Audit,
    /// Lists the newest lines of the audit log that fit everything that is given.
    AuditList {
        /// A kind such as `ingress.rejected`, or its part before the dot.
        kind: Option<String>,
        /// The person they are about: by id, name or `slack:T0ACME:U0ALICE`.
        person: Option<String>,
        /// The first moment that counts.
        since: Option<Timestamp>,
        /// Lines at most.
        limit: u32,
    },
    /// Reports how much is stored of each kind, and for how long it is kept.
    Data,
    /// Lists the operations that were given up, and reports whether the channels deliver.
    Outbox {
        /// A channel to list; `None` for all.
        channel: Option<String>,
    },
    /// Sends again what was given up.
    OutboxRetry {
        /// The operations to send again.
        which: DeadLetterFilter,
    },
    /// Drops what was given up: it is never sent.
    OutboxDrop {
        /// The operations to drop.
        which: DeadLetterFilter,
    },
    /// Removes what is older than it is kept: some seconds of it. Ask until it is done.
    Prune {
        /// The treatment of old rows: removed, or only counted.
        prune: Prune,
        /// The position of the request: it begins a round or goes on with one.
        begin: RoundStart,
    },
}

/// The answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum AdminReply {
    /// An invite. The token is shown this once.
    Invite {
        /// The token.
        token: String,
        /// Instructions for its use, one line per connected channel.
        how: Vec<String>,
        /// The time it stops working.
        expires: Timestamp,
    },
    /// The users that were asked for.
    Users {
        /// The users, sorted by id.
        users: Vec<User>,
    },
    /// The person is admitted.
    Added {
        /// The person, with their grants.
        user: User,
    },
    /// The person's access is taken away.
    Revoked {
        /// The person.
        user: User,
    },
    /// The person's grant is changed.
    Granted {
        /// The person, with their new grants.
        user: User,
    },
    /// A recording.
    Session {
        /// The records, oldest first.
        records: Vec<recording::SessionRecord>,
    },
    /// The audit log is whole.
    Audit {
        /// Number of its rows, since it was begun.
        rows: i64,
        /// Number of them that were cut from its beginning.
        #[serde(default)]
        cut: i64,
        /// The time of the first row that is left, once some were cut.
        #[serde(default)]
        since: Option<Timestamp>,
    },
    /// Lines of the audit log.
    AuditLines {
        /// The lines, the newest first.
        lines: Vec<AuditLine>,
        /// True if there may be older ones that fit.
        has_more: bool,
    },
    /// The amount of stored data.
    Data {
        /// The amount for each kind.
        kinds: Vec<Holding>,
        /// The file of the database.
        database: DatabaseSize,
    },
    /// The operations that were given up.
    Outbox {
        /// The channels of a running server.
        channels: Vec<ChannelHealth>,
        /// The operations, the oldest first, up to a bound.
        letters: Vec<DeadLetter>,
        /// The number of operations that were given up, also beyond the bound.
        #[serde(default)]
        total: u64,
    },
    /// The result of a retry or a drop.
    Letters {
        /// Number of operations.
        count: u64,
    },
    /// The rows that were removed, or would be.
    Pruned {
        /// The result for each kind.
        pruned: Vec<PrunedAmount>,
        /// The kinds that could not be removed, with the reason.
        failed: Vec<String>,
        /// True if the round is complete.
        is_done: bool,
    },
    /// The request failed.
    Failed {
        /// The reason, for the operator.
        why: String,
    },
}

/// A source of the instructions for invites on each connected channel.
pub trait Installations: Send + Sync {
    /// The connected channels by their configured names.
    fn installations(&self) -> Vec<(String, Installation)>;
}

/// Knows no channel: for a command line without a running server.
#[derive(Debug)]
pub struct NoInstallations;

impl Installations for NoInstallations {
    fn installations(&self) -> Vec<(String, Installation)> {
        Vec::new()
    }
}

/// The services that requests of operators need.
pub struct Admin {
    /// The store.
    pub store: Store,
    /// The admitted people and their grants.
    pub access: Arc<Access>,
    /// The data directory.
    pub data: PathBuf,
    /// The rules for how long stored data is kept.
    pub retention: Arc<Retention>,
    /// The configured channels by name.
    pub channels: BTreeSet<String>,
    /// The running gateway; `None` where no server runs.
    pub gateway: Option<Arc<Gateway>>,
    /// The connected channels.
    pub installations: Arc<dyn Installations>,
    /// The clock.
    pub now: fn() -> Timestamp,
    /// The source of randomness for tokens.
    pub random: fn() -> [u8; 32],
}

/// An error of a request that has no answer.
#[derive(Debug, thiserror::Error)]
enum AdminError {
    #[error(transparent)]
    Access(#[from] AccessError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{0}")]
    Other(String),
}

impl Admin {
    /// Answers one question. A failure is an answer, too.
    pub async fn answer(&self, request: AdminRequest) -> AdminReply {
        let result = match request {
            AdminRequest::Invite {
                name,
                role,
                repositories,
                environments,
                hours,
            } => self.invite(name, role, repositories, environments, hours).await,
            AdminRequest::Users => self.users().await,
            AdminRequest::User { which } => self.user(&which).await,
            AdminRequest::Add { person } => self.add(person).await,
            AdminRequest::Revoke { which } => self.revoke(&which).await,
            AdminRequest::Grant { which, grant } => self.grant(&which, &grant).await,
            AdminRequest::Session { which } => self.session(&which).await,
            AdminRequest::Audit => self.audit().await,
            AdminRequest::AuditList {
                kind,
                person,
                since,
                limit,
            } => self.audit_lines(kind, person.as_deref(), since, limit).await,
            AdminRequest::Data => self.holdings().await,
            AdminRequest::Outbox { channel } => self.outbox(channel.as_deref()).await,
            AdminRequest::OutboxRetry { which } => self.send_again(which).await,
            AdminRequest::OutboxDrop { which } => self.drop_letters(which).await,
            AdminRequest::Prune { prune, begin } => self.prune(begin, prune).await,
        };
        result.unwrap_or_else(|error| AdminReply::Failed {
            why: error.to_string(),
        })
    }

    async fn invite(
        &self,
        name: String,
        role: Role,
        repositories: String,
        environments: Vec<String>,
        hours: u32,
    ) -> Result<AdminReply, AdminError> {
        let at = (self.now)();
        let expires = Duration::from_secs(u64::from(hours) * 3_600);
        let invite = NewInvite {
            name,
            role,
            repositories,
            environments,
            expires,
            bound_to: None,
        };
        let token = self
            .access
            .invite(invite, "operator", (self.random)(), at)
            .await?;
        let token = token.expose().to_owned();
        let mut how: Vec<String> = self
            .installations
            .installations()
            .iter()
            .map(|(name, installation)| how_to(name, installation, &token))
            .collect();
        if how.is_empty() {
            how.push(format!("Telegram: send `/start {token}` to the bot"));
            how.push(format!(
                "Slack: send `join {token}` to the app in a direct message"
            ));
        }
        let expires = at
            .checked_add(expires)
            .map_err(|error| AdminError::Other(error.to_string()))?;
        Ok(AdminReply::Invite { token, how, expires })
    }

    async fn users(&self) -> Result<AdminReply, AdminError> {
        Ok(AdminReply::Users {
            users: self.access.users().await?,
        })
    }

    async fn user(&self, which: &str) -> Result<AdminReply, AdminError> {
        Ok(AdminReply::Users {
            users: vec![self.access.user(which).await?],
        })
    }

    async fn add(&self, person: NewPerson) -> Result<AdminReply, AdminError> {
        let installations = self.installations.installations();
        let connected = installations
            .into_iter()
            .map(|(_, installation)| installation.account)
            .collect();
        let added = self
            .access
            .add(person, connected, Admitter::Operator, (self.now)());
        Ok(AdminReply::Added { user: added.await? })
    }

    async fn revoke(&self, which: &str) -> Result<AdminReply, AdminError> {
        let user = self.access.user(which).await?;
        self.access.revoke(user.id, "operator", (self.now)()).await?;
        Ok(AdminReply::Revoked {
            user: self.access.user(&user.id.to_string()).await?,
        })
    }

    async fn grant(&self, which: &str, grant: &Grant) -> Result<AdminReply, AdminError> {
        let user = self.access.user(which).await?;
        if user.revoked_at.is_some() {
            return Err(AccessError::Revoked(user.name).into());
        }
        self.access
            .set_grant(user.id, grant, "operator", (self.now)())
            .await?;
        Ok(AdminReply::Granted {
            user: self.access.user(&user.id.to_string()).await?,
        })
    }

    async fn session(&self, which: &str) -> Result<AdminReply, AdminError> {
        let conversation = self.store.find_session(which).await?;
        let session = conversation.ok_or_else(|| AdminError::Other(format!("no session `{which}`")))?;
        let records =
            recording::read(&self.data, &session).map_err(|error| AdminError::Other(error.to_string()))?;
        Ok(AdminReply::Session { records })
    }

    async fn holdings(&self) -> Result<AdminReply, AdminError> {
        let (kinds, database) = self.retention.holdings().await?;
        Ok(AdminReply::Data { kinds, database })
    }

    async fn outbox(&self, channel: Option<&str>) -> Result<AdminReply, AdminError> {
        self.check_channel(channel).await?;
        let mut channels = match &self.gateway {
            Some(gateway) => gateway.channels().await?,
            None => Vec::new(),
        };
        channels.retain(|health| channel.is_none_or(|channel| health.channel == channel));
        Ok(AdminReply::Outbox {
            channels,
            letters: self.store.dead_letters(channel, LETTERS_MAX).await?,
            total: self.store.dead_letter_count(channel).await?,
        })
    }

    /// Refuses a channel that is neither configured nor in the outbox: it is a mistake.
    async fn check_channel(&self, channel: Option<&str>) -> Result<(), AdminError> {
        let Some(channel) = channel.filter(|channel| !self.channels.contains(*channel)) else {
            return Ok(());
        };
        if self.store.has_sent_to(channel).await? {
            return Ok(());
        }
        let configured: Vec<&str> = self.channels.iter().map(String::as_str).collect();
        let configured = match configured.is_empty() {
            true => "none is configured".to_owned(),
            false => format!("configured are: {}", configured.join(", ")),
        };
        Err(AdminError::Other(format!("no channel `{channel}`; {configured}")))
    }

    async fn drop_letters(&self, which: DeadLetterFilter) -> Result<AdminReply, AdminError> {
        self.check_channel(which.channel()).await?;
        let dropped = self.store.drop_letters(which, "operator", (self.now)()).await?;
        Ok(counted(dropped))
    }

    async fn send_again(&self, which: DeadLetterFilter) -> Result<AdminReply, AdminError> {
        self.check_channel(which.channel()).await?;
        let channels = self.store.send_again(which, "operator", (self.now)()).await?;
        if let Some(gateway) = &self.gateway {
            let woken: BTreeSet<&String> = channels.iter().collect();
            woken
                .into_iter()
                .for_each(|channel| gateway.retry_delivery(channel));
        }
        Ok(counted(channels))
    }

    async fn prune(&self, begin: RoundStart, prune: Prune) -> Result<AdminReply, AdminError> {
        let round = self.retention.run_requested(begin, prune, (self.now)()).await;
        let round = round.map_err(AdminError::Other)?;
        Ok(AdminReply::Pruned {
            pruned: round.pruned,
            failed: round.failed,
            is_done: round.is_done,
        })
    }
}

fn counted(channels: Vec<String>) -> AdminReply {
    AdminReply::Letters {
        count: channels.len() as u64,
    }
}

fn how_to(name: &str, installation: &Installation, token: &str) -> String {
    let bot = &installation.bot_name;
    match installation.account.platform {
        Platform::Telegram => format!("{name}: https://t.me/{bot}?start={token}"),
        Platform::Slack => format!("{name}: send `join {token}` to @{bot} in a direct message"),
        Platform::Hook | Platform::Terminal => format!("{name}: no invites"),
    }
}
