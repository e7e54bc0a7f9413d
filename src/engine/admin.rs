//! Administration of a server: invites, users, recordings and stored data. The same code serves the socket of a running
//! server and the command line when no server runs.

mod audit;
mod runs;
mod schedules;
mod secrets;
mod socket;
mod status;
mod tokens;

pub use audit::AUDIT_LINES_MAX;
pub use runs::{RUNS_LISTED_MAX, RunOrder};
pub use schedules::ScheduleOrder;
pub use socket::{ask, listen, serve};
pub use status::{ServerFacts, ServerStatus};

use crate::base::model::{Installation, Platform, RunId, RunStatus};
use crate::base::webhook::{SecretPairs, SecretUse};
use crate::engine::gateway::{ChannelHealth, Gateway, Holding, PrunedAmount, Retention, RoundStart};
use crate::state::access::{
    Access, AccessError, Admitter, AuditorRight, Grant, NewInvite, NewPerson, NewToken, PersonalToken, Role,
    TokenError, User,
};
use crate::state::recording;
use crate::state::store::{
    AuditLine, DatabaseSize, DeadLetter, DeadLetterFilter, Prune, ResentLetters, RunHead, ScheduleFire,
    ScheduleRow, StepRow, Store, StoreError,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Longest list of operations in one answer.
const LETTERS_MAX: u32 = 1_000;

/// A request from an operator.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub enum AdminRequest {
    /// Creates an invite.
    Invite {
        /// The person's display name.
        name: String,
        /// The person's role.
        role: Role,
        /// Glob over repository names.
        repositories: String,
        /// Globs over environments.
        environments: Vec<String>,
        /// The hours for which the invite is valid.
        hours: u32,
    },
    /// Lists every admitted person, including revoked ones.
    Users,
    /// Shows one person, found by id, name or `slack:T0ACME:U0ALICE`.
    User {
        /// The id, name or account of the person.
        which: String,
    },
    /// Admits an account by its id.
    Add {
        /// The account, the name and the grant of the person.
        person: NewPerson,
    },
    /// Revokes a person's access at once.
    Revoke {
        /// The id, name or account of the person.
        which: String,
    },
    /// Replaces all grants of a person with this one, at once.
    Grant {
        /// The id, name or account of the person.
        which: String,
        /// The grant.
        grant: Grant,
    },
    /// Gives a person the right to read the conversations of others, or takes it away, at once.
    Auditor {
        /// The id, name or account of the person.
        which: String,
        /// The change of the right.
        right: AuditorRight,
    },
    /// Makes a token for a person.
    CreateToken {
        /// The id, name or account of the person.
        person: String,
        /// The token.
        token: NewToken,
    },
    /// Lists the tokens of all people.
    Tokens,
    /// Ends a token at once.
    RevokeToken {
        /// The name of the token.
        name: String,
        /// The id, name or account of its person; not needed if one person has a token of this name.
        person: Option<String>,
    },
    /// Lists the secrets of the sections that have two of them.
    Secrets,
    /// Refuses the previous secret of a key from now on.
    RetireSecret {
        /// The key, such as `hooks.release.previous_secret`.
        key: String,
    },
    /// Shows the recording of a conversation, found by its id or a change such as `CHG-42`.
    Session {
        /// The id of the conversation, or the name of a change.
        which: String,
    },
    /// Checks the hash chain of the audit log.
    Audit,
    /// Lists the newest lines of the audit log that match all given filters.
    AuditList {
        /// A kind such as `ingress.rejected`, or its part before the dot.
        kind: Option<String>,
        /// The person in the lines: an id, a name or `slack:T0ACME:U0ALICE`.
        person: Option<String>,
        /// The earliest time to include.
        since: Option<Timestamp>,
        /// Maximum number of lines.
        limit: u32,
    },
    /// Reports the state of the running server.
    Status,
    /// Reports the stored amount and the retention time of each kind of data.
    Data,
    /// Lists the dead letters, and reports the health of the channels.
    Outbox {
        /// A channel to list; `None` for all.
        channel: Option<String>,
    },
    /// Sends dead letters again.
    OutboxRetry {
        /// The dead letters to send again.
        which: DeadLetterFilter,
    },
    /// Drops dead letters. They are never sent.
    OutboxDrop {
        /// The dead letters to drop.
        which: DeadLetterFilter,
    },
    /// Lists the schedules of the configuration and of all people.
    Schedules,
    /// Shows or changes one schedule.
    Schedule {
        /// Its number, or its name if no other has it.
        which: String,
        /// The order.
        order: ScheduleOrder,
    },
    /// Lists the newest runs of pipelines that match all given filters.
    Runs {
        /// The repository of the runs.
        repository: Option<String>,
        /// Their state.
        status: Option<RunStatus>,
    },
    /// Shows or changes one run.
    Run {
        /// Its number.
        id: RunId,
        /// The order.
        order: RunOrder,
    },
    /// Prunes data that is older than its retention time. One request works for some seconds; repeat it until it is
    /// done.
    Prune {
        /// The choice between removing old rows and counting them.
        prune: Prune,
        /// The choice between starting a round and continuing one.
        begin: RoundStart,
    },
}

/// The answer to an operator.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum AdminReply {
    /// An invite. Its token is shown only in this answer.
    Invite {
        /// The token.
        token: String,
        /// Instructions for using it, one line per connected channel.
        how: Vec<String>,
        /// The time of expiry.
        expires: Timestamp,
    },
    /// The requested users.
    Users {
        /// The users, sorted by id.
        users: Vec<User>,
    },
    /// The person was admitted.
    Added {
        /// The person, with their grants.
        user: User,
    },
    /// The person's access was revoked.
    Revoked {
        /// The person.
        user: User,
        /// The names of their tokens, which ended.
        #[serde(default)]
        tokens: Vec<String>,
    },
    /// A token was made. It is shown only in this answer.
    TokenCreated {
        /// The token itself.
        secret: String,
        /// The token as it is listed.
        token: PersonalToken,
    },
    /// The tokens of all people.
    Tokens {
        /// The tokens, by person and name.
        tokens: Vec<PersonalToken>,
    },
    /// A token ended.
    TokenRevoked {
        /// The token.
        token: PersonalToken,
    },
    /// The person's grant was changed.
    Granted {
        /// The person, with their new grants.
        user: User,
    },
    /// The person is an auditor now, or no longer.
    Auditor {
        /// The person.
        user: User,
    },
    /// The secrets of the sections that have two of them.
    Secrets {
        /// The secrets, the current one of each section first.
        secrets: Vec<SecretUse>,
        /// The start of the server that counted their requests; `None` if no server runs.
        counted_since: Option<Timestamp>,
    },
    /// The secret is refused.
    SecretRetired {
        /// The key of the secret.
        key: String,
        /// The time since which it is refused.
        since: Timestamp,
    },
    /// A recording.
    Session {
        /// The records, oldest first.
        records: Vec<recording::SessionRecord>,
    },
    /// The audit log is intact.
    Audit {
        /// Number of rows since the log began.
        rows: i64,
        /// Number of rows that were cut from the start of the log.
        #[serde(default)]
        cut: i64,
        /// The time of the first remaining row, if rows were cut.
        #[serde(default)]
        since: Option<Timestamp>,
    },
    /// Lines of the audit log.
    AuditLines {
        /// The lines, newest first.
        lines: Vec<AuditLine>,
        /// True if there may be older matching lines.
        has_more: bool,
    },
    /// The state of the running server.
    Status {
        /// The state.
        #[serde(flatten)]
        status: Box<ServerStatus>,
    },
    /// The amount of stored data.
    Data {
        /// The amount for each kind.
        kinds: Vec<Holding>,
        /// The size of the database file.
        database: DatabaseSize,
    },
    /// The dead letters.
    Outbox {
        /// The health of the channels of a running server.
        channels: Vec<ChannelHealth>,
        /// The dead letters, oldest first, up to a bound.
        letters: Vec<DeadLetter>,
        /// Total number of dead letters, including those beyond the bound.
        #[serde(default)]
        total: u64,
    },
    /// The result of a retry or a drop.
    Letters {
        /// Number of dead letters.
        count: u64,
        /// The messages between people that are not sent again, because a sender was blocked or a person revoked.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        withdrawn: Vec<String>,
    },
    /// The schedules, each with its next time and its last fire.
    Schedules {
        /// The schedules, by owner and name.
        schedules: Vec<ScheduleRow>,
    },
    /// A schedule as it was before the request, and its state after it.
    ScheduleChanged {
        /// The schedule.
        schedule: Box<ScheduleRow>,
        /// The new state, or the result, in a few words.
        done: String,
    },
    /// The fires of a schedule.
    ScheduleFires {
        /// The schedule.
        schedule: Box<ScheduleRow>,
        /// Its fires, newest first, up to a bound.
        fires: Vec<ScheduleFire>,
    },
    /// Runs of pipelines.
    Runs {
        /// The runs, newest first.
        runs: Vec<RunHead>,
        /// True if there are older ones.
        has_more: bool,
    },
    /// A run with its steps.
    Run {
        /// The run.
        run: Box<RunHead>,
        /// The commit of its definition.
        commit: String,
        /// The time at which it has to end, if it has begun.
        deadline: Option<Timestamp>,
        /// The steps, in the order of the plan.
        steps: Vec<StepRow>,
    },
    /// A run was changed, or a new one was started.
    RunChanged {
        /// The run.
        run: RunId,
        /// The new state, or the result, in a few words.
        done: String,
    },
    /// The amount that was removed, or would be removed.
    Pruned {
        /// The result for each kind.
        pruned: Vec<PrunedAmount>,
        /// The kinds whose removal failed, with the reason.
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

/// The connected channels, and what the server waits for.
pub trait Installations: Send + Sync {
    /// Returns the connected channels by configured name.
    fn installations(&self) -> Vec<(String, Installation)>;

    /// Returns the reasons why the server is not ready, one line each.
    fn waiting_for(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns the problems that do not keep the server from being ready, one line each.
    fn degraded(&self) -> Vec<String> {
        Vec::new()
    }
}

/// An empty source, for a command line without a running server.
#[derive(Debug)]
pub struct NoInstallations;

impl Installations for NoInstallations {
    fn installations(&self) -> Vec<(String, Installation)> {
        Vec::new()
    }
}

/// The services that operator requests need.
pub struct Admin {
    /// The store.
    pub store: Store,
    /// The admitted people and their grants.
    pub access: Arc<Access>,
    /// The data directory.
    pub data: PathBuf,
    /// The retention rules for stored data.
    pub retention: Arc<Retention>,
    /// The configured channels by name.
    pub channels: BTreeSet<String>,
    /// The running gateway; `None` if no server runs.
    pub gateway: Option<Arc<Gateway>>,
    /// The facts about the running server; `None` if no server runs.
    pub facts: Option<ServerFacts>,
    /// The connected channels.
    pub installations: Arc<dyn Installations>,
    /// The sections of the configuration that have two secrets.
    pub secret_pairs: SecretPairs,
    /// The start of the server; `None` if no server runs.
    pub started_at: Option<Timestamp>,
    /// The clock.
    pub now: fn() -> Timestamp,
    /// The source of randomness for tokens.
    pub random: fn() -> [u8; 32],
}

#[derive(Debug, thiserror::Error)]
enum AdminError {
    #[error(transparent)]
    Access(#[from] AccessError),
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{0}")]
    Other(String),
}

impl Admin {
    /// Answers one request. A failure is also returned as an answer.
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
            AdminRequest::Auditor { which, right } => self.set_auditor(&which, right).await,
            AdminRequest::CreateToken { person, token } => self.create_token(&person, &token).await,
            AdminRequest::Tokens => self.tokens().await,
            AdminRequest::RevokeToken { name, person } => self.revoke_token(&name, person.as_deref()).await,
            AdminRequest::Secrets => Ok(self.secrets()),
            AdminRequest::RetireSecret { key } => self.retire_secret(&key).await,
            AdminRequest::Session { which } => self.session(&which).await,
            AdminRequest::Audit => self.audit().await,
            AdminRequest::AuditList {
                kind,
                person,
                since,
                limit,
            } => self.audit_lines(kind, person.as_deref(), since, limit).await,
            AdminRequest::Status => self.status().await,
            AdminRequest::Data => self.holdings().await,
            AdminRequest::Outbox { channel } => self.outbox(channel.as_deref()).await,
            AdminRequest::OutboxRetry { which } => self.send_again(which).await,
            AdminRequest::OutboxDrop { which } => self.drop_letters(which).await,
            AdminRequest::Schedules => self.schedules().await,
            AdminRequest::Schedule { which, order } => self.schedule(&which, order).await,
            AdminRequest::Runs { repository, status } => self.runs(repository, status).await,
            AdminRequest::Run { id, order } => self.run(id, order).await,
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
            // The newest platform is first.
            how.extend(Platform::chats().rev().map(|chat| (chat.invite)(None, &token)));
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
        let tokens = self.access.revoke(user.id, "operator", (self.now)()).await?;
        // Their runs are cancelled, and the next runs of their groups begin.
        if let Some(gateway) = &self.gateway {
            gateway.runs.wake();
        }
        Ok(AdminReply::Revoked {
            user: self.access.user(&user.id.to_string()).await?,
            tokens: tokens.unwrap_or_default(),
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

    async fn set_auditor(&self, which: &str, right: AuditorRight) -> Result<AdminReply, AdminError> {
        let user = self.access.user(which).await?;
        if user.revoked_at.is_some() {
            return Err(AccessError::Revoked(user.name).into());
        }
        self.access
            .set_auditor(user.id, right, "operator", (self.now)())
            .await?;
        Ok(AdminReply::Auditor {
            user: self.access.user(&user.id.to_string()).await?,
        })
    }

    async fn session(&self, which: &str) -> Result<AdminReply, AdminError> {
        let found = self.store.find_conversation(which).await?;
        let id = found.ok_or_else(|| AdminError::Other(format!("no session `{which}`")))?;
        let session = self.store.conversation(id).await?.session;
        let records =
            recording::read(&self.data, &session).map_err(|error| AdminError::Other(error.to_string()))?;
        let data = serde_json::json!({ "by": "operator", "conversation": id, "lines": records.len() });
        // The records are readable also while the store cannot be written, such as on a full disk.
        if let Err(error) = self.store.audit("session.exported", data, (self.now)()).await {
            tracing::warn!(%error, conversation = %id, "a recording is shown, but the audit log has no line about it");
        }
        Ok(AdminReply::Session { records })
    }

    async fn holdings(&self) -> Result<AdminReply, AdminError> {
        let (kinds, database) = self.retention.holdings().await?;
        Ok(AdminReply::Data { kinds, database })
    }

    async fn outbox(&self, channel: Option<&str>) -> Result<AdminReply, AdminError> {
        self.check_channel(channel).await?;
        let mut channels = match &self.gateway {
            Some(gateway) => gateway.outgoing.health().await?,
            None => Vec::new(),
        };
        channels.retain(|health| channel.is_none_or(|channel| health.channel == channel));
        Ok(AdminReply::Outbox {
            channels,
            letters: self.store.dead_letters(channel, LETTERS_MAX).await?,
            total: self.store.dead_letter_count(channel).await?,
        })
    }

    /// Refuses a channel that is neither configured nor in the outbox. Such a name is a mistake.
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
        Ok(AdminReply::Letters {
            count: dropped.len() as u64,
            withdrawn: Vec::new(),
        })
    }

    async fn send_again(&self, which: DeadLetterFilter) -> Result<AdminReply, AdminError> {
        self.check_channel(which.channel()).await?;
        let ResentLetters { queued, withdrawn } =
            self.store.send_again(which, "operator", (self.now)()).await?;
        if let Some(gateway) = &self.gateway {
            let woken: BTreeSet<&String> = queued.iter().collect();
            woken
                .into_iter()
                .for_each(|channel| gateway.outgoing.retry(channel));
        }
        Ok(AdminReply::Letters {
            count: queued.len() as u64,
            withdrawn,
        })
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

fn how_to(name: &str, installation: &Installation, token: &str) -> String {
    match installation.account.platform.chat() {
        Some(chat) => format!("{name}: {}", (chat.invite)(Some(&installation.bot_name), token)),
        None => format!("{name}: no invites"),
    }
}
