//! Administration of a server: invites, users, recordings and stored data. The same code serves the socket of a running
//! server and the command line when no server runs.

mod audit;
mod data;
mod installations;
mod outbox;
mod people;
mod reply;
mod request;
mod runs;
mod schedules;
mod secrets;
mod socket;
mod status;
mod tokens;

pub use audit::AUDIT_LINES_MAX;
pub use installations::{Installations, NoInstallations};
pub use reply::AdminReply;
pub use request::AdminRequest;
pub use runs::{RUNS_LISTED_MAX, RunOrder};
pub use schedules::ScheduleOrder;
pub use socket::{ask, listen, serve};
pub use status::{ServerFacts, ServerStatus};

use crate::base::webhook::SecretPairs;
use crate::engine::gateway::{Gateway, Retention};
use crate::state::access::{Access, AccessError, TokenError};
use crate::state::store::{Store, StoreError};
use jiff::Timestamp;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

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
}
