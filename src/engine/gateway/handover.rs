//! The requests of people's machines: they exchange a code for a token, end that login, and fetch a change. Each request
//! is authorised anew, by the rules of the command `patch`.

mod document;
mod holder;

pub(super) use holder::token_holder;

use super::audit::IngressAudit;
use super::change_view;
use super::commands::{CommandRunner, PreparedState};
use super::compose;
use super::parts::Parts;
use crate::base::model::{Change, ChangeNumber, ConversationId, PULLED_BYTES_MAX};
use crate::engine::command::Verb;
use crate::state::access::{Identity, LoginOutcome, TokenScope};
use crate::state::workspace::Overlay;
use document::document;
use jiff::Timestamp;
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// Longest time in which a change is read.
const READ_TIME_MAX: Duration = Duration::from_secs(30);
/// Maximum number of changes that are read at once. Further requests wait.
const READS_AT_ONCE_MAX: usize = 4;
/// The name of these requests in the audit log.
const NAME: &str = "api";

/// The answer to a request of a person's machine or program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HandoverAnswer {
    /// A JSON document.
    Document(String),
    /// Something was created. The document describes it.
    Created {
        /// The path of what was created.
        location: String,
        /// The JSON document.
        document: String,
    },
    /// The login was ended.
    Ended,
    /// The code or token is not valid. The reason is never shown.
    Unauthenticated,
    /// The token is valid, and does not permit the request. The text says why.
    Forbidden(String),
    /// There were too many wrong codes. The next attempt is possible after this number of seconds.
    TooManyAttempts(u64),
    /// There is nothing of this name that the person may have.
    NotFound,
    /// The person may not have it as it is now. The text says why, and what they can do.
    Refused(String),
    /// The request cannot be followed as it is.
    Unprocessable {
        /// The reason.
        why: String,
        /// The problems of single fields.
        problems: Vec<FieldProblem>,
    },
    /// There is too much of it now, which may pass.
    TooMany {
        /// The reason.
        why: String,
        /// The seconds after which a repeat may succeed.
        seconds: u64,
    },
    /// The store or the repository failed, and may work later.
    Unavailable,
}

/// A problem of a field of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FieldProblem {
    /// The name of the field or of the parameter.
    pub field: String,
    /// The problem in one sentence.
    pub problem: String,
}

/// The requests of people's machines.
pub struct Handover {
    parts: Arc<Parts>,
    commands: Arc<CommandRunner>,
    audit: Arc<IngressAudit>,
    reads: Arc<Semaphore>,
}

impl Handover {
    pub(super) fn new(parts: &Arc<Parts>, commands: &Arc<CommandRunner>, audit: &Arc<IngressAudit>) -> Self {
        Self {
            parts: Arc::clone(parts),
            commands: Arc::clone(commands),
            audit: Arc::clone(audit),
            reads: Arc::new(Semaphore::new(READS_AT_ONCE_MAX)),
        }
    }

    /// Exchanges a code for a token.
    pub async fn log_in(&self, code: &str, at: Timestamp) -> HandoverAnswer {
        let exchanged = self
            .parts
            .access
            .exchange_login_code(code, (self.parts.random)(), at);
        match exchanged.await {
            Ok(LoginOutcome::Begun(login)) => {
                let document = serde_json::json!({
                    "token": login.token.expose(),
                    "name": login.name,
                    "expires": login.expires_at,
                });
                HandoverAnswer::Document(document.to_string())
            }
            Ok(LoginOutcome::Invalid) => {
                self.audit.rejected(NAME, "login.code", at);
                HandoverAnswer::Unauthenticated
            }
            Ok(LoginOutcome::TooManyAttempts(seconds)) => {
                self.audit.rejected(NAME, "login.flood", at);
                HandoverAnswer::TooManyAttempts(seconds)
            }
            Err(error) => failed(&error.into(), "a login"),
        }
    }

    /// Ends the login of a token.
    pub async fn log_out(&self, token: &str, at: Timestamp) -> HandoverAnswer {
        match self.parts.access.end_login(token, at).await {
            Ok(true) => HandoverAnswer::Ended,
            Ok(false) => match self.parts.access.is_personal_token(token, at).await {
                Ok(true) => HandoverAnswer::Forbidden(
                    "this token is not the login of a machine; `drydock token revoke` on the server ends it"
                        .to_owned(),
                ),
                Ok(false) => {
                    self.audit.rejected(NAME, "login.token", at);
                    HandoverAnswer::Unauthenticated
                }
                Err(error) => failed(&error.into(), "the end of a login"),
            },
            Err(error) => failed(&error.into(), "the end of a login"),
        }
    }

    /// Returns a change for the machine of the person to whom a token belongs.
    pub async fn change(&self, token: &str, number: ChangeNumber, at: Timestamp) -> HandoverAnswer {
        let found = Box::pin(self.find(token, number, at)).await;
        found.unwrap_or_else(|error| failed(&error, "a change for a machine"))
    }

    async fn find(&self, token: &str, number: ChangeNumber, at: Timestamp) -> anyhow::Result<HandoverAnswer> {
        let scope = TokenScope::ChangesRead;
        let identities = match token_holder(&self.parts, &self.audit, (token, scope), at).await? {
            Ok(identities) => identities,
            Err(answer) => return Ok(answer),
        };
        let (identity, change, conversation) = match Box::pin(self.readable(identities, number)).await? {
            Ok(readable) => readable,
            Err(answer) => return Ok(answer),
        };
        let document = match Box::pin(self.written(&change, conversation)).await? {
            Ok(document) => document,
            Err(why) => return Ok(HandoverAnswer::Refused(why)),
        };
        // It may have taken long, and the grants may be others now.
        if identity.is_revoked() || identity.role(&change.repository).is_none() {
            return Ok(HandoverAnswer::NotFound);
        }
        if let Err(why) = identity.may_prepare(&change.repository, &change.needs) {
            return Ok(HandoverAnswer::Refused(compose::withheld(&why)));
        }
        self.record(&identity, &change, at).await?;
        Ok(HandoverAnswer::Document(document))
    }

    /// Returns a change that is prepared in a conversation of one of these identities, if `patch` would send it to them
    /// there; otherwise the answer.
    async fn readable(
        &self,
        identities: Vec<Identity>,
        number: ChangeNumber,
    ) -> anyhow::Result<Result<(Identity, Change, ConversationId), HandoverAnswer>> {
        let store = &self.parts.store;
        let Some((_, conversation)) = store.change(number).await? else {
            return Ok(Err(HandoverAnswer::NotFound));
        };
        let owner = store.conversation(conversation).await?.key.user;
        let mut identities = identities.into_iter();
        let Some(identity) = identities.find(|identity| *identity.sender() == owner) else {
            return Ok(Err(HandoverAnswer::NotFound));
        };
        let open = store.current_change(conversation).await?;
        if open.is_none_or(|open| open.number != number) {
            return Ok(Err(HandoverAnswer::NotFound));
        }
        let commands = &self.commands;
        let lost = commands.missing_grant_reply(Verb::Patch, &identity, conversation);
        if lost.await?.is_some() {
            return Ok(Err(HandoverAnswer::NotFound));
        }
        Ok(match commands.prepared_state(&identity, conversation).await? {
            PreparedState::Prepared(change) if change.number == number => {
                Ok((identity, *change, conversation))
            }
            PreparedState::Withheld(why) => Err(HandoverAnswer::Refused(compose::withheld(&why))),
            PreparedState::Prepared(_) | PreparedState::Nothing => Err(HandoverAnswer::NotFound),
        })
    }

    /// Returns the document of a change, or why there is none.
    async fn written(
        &self,
        change: &Change,
        conversation: ConversationId,
    ) -> anyhow::Result<Result<String, String>> {
        let store = &self.parts.store;
        // The edits take memory as well.
        let waiting = Arc::clone(&self.reads).acquire_owned();
        let slot = tokio::time::timeout(READ_TIME_MAX, waiting).await??;
        let edits = match store.change_with_edits(conversation).await? {
            Some((current, edits)) if current.to_string() == change.to_string() => edits,
            Some(_) | None => {
                return Ok(Err(format!(
                    "{change} was replaced or edited further just now; try again, or see `diff` in the chat"
                )));
            }
        };
        let earlier = store.earlier_versions(conversation).await?;
        let mut change = change.clone();
        change.patch = compose::masked(&change.patch, &self.parts.redactor);
        if compose::is_masked(&change) {
            return Ok(Err(format!(
                "a secret in {change} is masked; `patch` in the chat shows the rest"
            )));
        }
        for check in &mut change.checks {
            check.name = self.parts.redactor.redact(&check.name).into_owned();
            check.detail = self.parts.redactor.redact(&check.detail).into_owned();
        }
        let name = change.to_string();
        let reading = async {
            let repositories = &self.parts.repositories;
            let base = repositories.base(&change.repository, &change.base).await?;
            let warning = change_view::failing_count(&change);
            let warning = warning.map(|failing| format!("{change} is not ready: {failing}."));
            let written = tokio::task::spawn_blocking(move || {
                let _slot = slot;
                document(&change, &Overlay::new(base, edits), &earlier, warning)
            });
            written.await?
        };
        let document = tokio::time::timeout(READ_TIME_MAX, reading).await??;
        Ok(match document.len() > PULLED_BYTES_MAX {
            true => Err(format!(
                "{name} is too large to be pulled; `patch` in the chat sends it as a file"
            )),
            false => Ok(document),
        })
    }

    /// Records a pull before its answer is sent.
    async fn record(&self, identity: &Identity, change: &Change, at: Timestamp) -> anyhow::Result<()> {
        let data = serde_json::json!({
            "change": change.to_string(),
            "name": identity.name(),
            "user": identity.user(),
        });
        Ok(self.parts.store.audit("change.pulled", data, at).await?)
    }
}

fn failed(error: &anyhow::Error, what: &str) -> HandoverAnswer {
    tracing::error!(error = format!("{error:#}"), "{what} failed");
    HandoverAnswer::Unavailable
}
