//! The parts that the gateway is built from, and what all of its work asks them.

use super::compose::Address;
use super::repositories::Repositories;
use crate::base::config::{Config, HookSettings};
use crate::base::health::Health;
use crate::base::model::{
    ConversationId, Inbound, InboundKind, InboxId, Limits, PipelineWork, ScheduledWork,
};
use crate::base::redact::Redactor;
use crate::engine::agent::ModelChain;
use crate::interfaces::provider::Providers;
use crate::interfaces::tool::Toolbox;
use crate::rendering::compare::Comparer;
use crate::rendering::sandbox::ProgramPath;
use crate::state::access::{Access, Identity};
use crate::state::store::{Store, StoreError};
use crate::state::workspace::{DeniedFiles, SecretGuard};
use jiff::Timestamp;
use std::borrow::Cow;
use std::sync::Arc;

/// The parts that the gateway is built from.
pub struct Parts {
    /// The durable storage.
    pub store: Store,
    /// The admitted people and their grants.
    pub access: Arc<Access>,
    /// The model providers.
    pub providers: Providers,
    /// The tools that agents may call.
    pub toolbox: Toolbox,
    /// The repositories that people change.
    pub repositories: Repositories,
    /// The comparer of changes with their base, per environment.
    pub comparer: Arc<Comparer>,
    /// The redactor that all outgoing text passes.
    pub redactor: Arc<Redactor>,
    /// Files of repositories that must not be read.
    pub denied: Arc<DeniedFiles>,
    /// The build of this program that starts again to execute the programs of tasks.
    pub launcher: ProgramPath,
    /// The settings.
    pub config: Arc<Config>,
    /// The current health problems.
    pub health: Health,
    /// The clock.
    pub now: fn() -> Timestamp,
    /// The source of randomness for tokens.
    pub random: fn() -> [u8; 32],
}

impl Parts {
    /// Returns the number of tokens of the default model's context window, if it is known.
    pub(super) fn context_tokens(&self) -> Option<u32> {
        let models = ModelChain::resolve(&self.config, &self.providers).ok()?;
        models.default_facts().context_tokens
    }

    /// Returns the identity of the sender if admitted. It is looked up again before each action for the person.
    pub(super) fn identity(&self, inbound: &Inbound) -> Option<Identity> {
        self.access.admit(&inbound.sender)
    }

    /// Returns the settings of the hook that sent an inbound.
    pub(super) fn hook(&self, inbound: &Inbound) -> Option<&HookSettings> {
        match &inbound.kind {
            InboundKind::Hook { .. } => self.config.hooks.get(&inbound.sender.id),
            InboundKind::Text { .. }
            | InboundKind::Command { .. }
            | InboundKind::Join { .. }
            | InboundKind::Click { .. }
            | InboundKind::HomeOpened
            | InboundKind::Schedule(_)
            | InboundKind::Pipeline(_)
            | InboundKind::Unsupported { .. } => None,
        }
    }

    /// True for an event of a hook, the work of a schedule and an agent step of a pipeline. Nobody waits for its answer, and
    /// it begins without edits and without a history.
    pub(super) fn is_event(&self, inbound: &Inbound) -> bool {
        self.hook(inbound).is_some() || scheduled(inbound).is_some() || agent_step(inbound).is_some()
    }

    /// Returns the limits of the turn of a message.
    pub(super) fn turn_limits(&self, inbound: &Inbound) -> Cow<'_, Limits> {
        let limits = &self.config.limits.turn;
        match agent_step(inbound) {
            Some(work) => Cow::Owned(limits.of_step(&work.bounds)),
            None => Cow::Borrowed(limits),
        }
    }

    /// Creates the guard that hides secrets in a workspace from one person's work.
    pub(super) fn guard(&self) -> SecretGuard {
        SecretGuard {
            denied: Arc::clone(&self.denied),
            redactor: Arc::new(self.redactor.fresh()),
        }
    }

    /// Returns the address for the answer to an unreadable message.
    pub(super) async fn address_in(
        &self,
        conversation: ConversationId,
        inbox: InboxId,
    ) -> Result<Address, StoreError> {
        let conversation = self.store.conversation(conversation).await?;
        let mut address = Address::for_conversation(&conversation, inbox);
        if let Some(hook) = self.config.hooks.get(&conversation.channel) {
            address.channel.clone_from(&hook.post_to.channel);
        }
        Ok(address)
    }

    /// Returns the text about an internal error for people.
    pub(super) fn internal_error_text(&self, error: &anyhow::Error, what: &str) -> String {
        let reference = self.log_internal_error(error, what);
        format!("I failed with an internal error; the change prepared before is kept. (ref {reference})")
    }

    /// Logs an internal error with a reference. People see only the reference.
    pub(super) fn log_internal_error(&self, error: &anyhow::Error, what: &str) -> String {
        let reference = hex::encode(&(self.random)()[..4]);
        tracing::error!(
            reference,
            what,
            error = format!("{error:#}"),
            "failed (ref {reference})"
        );
        reference
    }
}

/// Returns the work that a schedule has started with a message.
pub(super) fn scheduled(inbound: &Inbound) -> Option<&ScheduledWork> {
    match &inbound.kind {
        InboundKind::Schedule(work) => Some(work),
        InboundKind::Text { .. }
        | InboundKind::Command { .. }
        | InboundKind::Join { .. }
        | InboundKind::Click { .. }
        | InboundKind::Hook { .. }
        | InboundKind::Pipeline(_)
        | InboundKind::HomeOpened
        | InboundKind::Unsupported { .. } => None,
    }
}

/// Returns the work of an agent step that a pipeline has started with a message.
pub(super) fn agent_step(inbound: &Inbound) -> Option<&PipelineWork> {
    match &inbound.kind {
        InboundKind::Pipeline(work) => Some(work),
        InboundKind::Text { .. }
        | InboundKind::Command { .. }
        | InboundKind::Join { .. }
        | InboundKind::Click { .. }
        | InboundKind::Hook { .. }
        | InboundKind::Schedule(_)
        | InboundKind::HomeOpened
        | InboundKind::Unsupported { .. } => None,
    }
}
