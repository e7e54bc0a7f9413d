//! The opening of a turn: repository, commit, edits and the text for the model. No model is called here.

use super::{ClaimedMessage, REVOKED, TurnRunner};
use crate::base::model::{ConversationId, Inbound, InboundKind, one_line};
use crate::engine::agent::prompt::{self, PromptFacts, RepositoryKind};
use crate::engine::command;
use crate::engine::gateway::agent_step::limited;
use crate::engine::gateway::choice::RepositoryChoiceError;
use crate::engine::gateway::joined::ConversationRights;
use crate::engine::gateway::parts::{agent_step, scheduled};
use crate::rendering::compare::Sides;
use crate::state::access::Identity;
use crate::state::store::{Conversation, StoreError};
use crate::state::workspace::{
    Base, Overlay, Repository, RepositoryError, SecretGuard, Tree, TreeError, Workspace, WorkspaceEdits,
};
use std::sync::Arc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// A turn that was admitted and has its workspace.
pub(super) struct OpenedTurn {
    pub(super) identity: Identity,
    pub(super) conversation: Conversation,
    pub(super) workspace: Workspace,
    pub(super) overlay: Arc<Overlay>,
    /// The start of the turn, including its opening.
    pub(super) began: Instant,
    /// The branch and its newest commit at the start of the turn.
    pub(super) branch: String,
    pub(super) head: String,
    /// The reason why the repository is not current, if a fetch failed.
    pub(super) stale: Option<String>,
    pub(super) system: String,
    pub(super) user_text: String,
    /// A line for each file of the message that was not read.
    pub(super) unread_files: Vec<String>,
    /// The line that says why the person may only ask in this conversation of another; none if they may do more.
    pub(super) only_asks: Option<String>,
    /// The repository and base to bind to the conversation, if they are new.
    pub(super) bind: Option<(String, String)>,
}

impl OpenedTurn {
    /// True once the person may no longer read the repository.
    pub(super) fn is_locked_out(&self) -> bool {
        self.identity.role(self.workspace.repository.name()).is_none()
    }

    /// Waits until the person may no longer read the repository.
    pub(super) async fn wait_until_locked_out(&self) {
        self.identity
            .wait_until_locked_out(self.workspace.repository.name())
            .await;
    }

    /// Returns the only text for the person in that case.
    pub(super) fn locked_out_text(&self) -> String {
        locked_out_text(&self.identity, self.workspace.repository.name())
    }
}

/// Returns the only text for a person who may no longer read a repository.
pub(in crate::engine::gateway) fn locked_out_text(identity: &Identity, repository: &str) -> String {
    match identity.is_revoked() {
        true => REVOKED.to_owned(),
        false => format!("You have no grant for `{repository}` any more."),
    }
}

pub(super) enum TurnRefusal {
    /// A reply for the person.
    WithReply(String),
    /// The person may read these repositories, and the message says not which of them it is about.
    WhichRepository(Vec<String>),
    /// An internal error. The person gets a reference.
    Internal(anyhow::Error),
}

impl From<StoreError> for TurnRefusal {
    fn from(error: StoreError) -> Self {
        Self::Internal(error.into())
    }
}

impl From<RepositoryError> for TurnRefusal {
    fn from(error: RepositoryError) -> Self {
        Self::WithReply(error.to_string())
    }
}

/// Returns the newest commit that the repository has, without fetching; `None` if it cannot be read.
async fn known_head(repository: &Arc<Repository>) -> Option<String> {
    let repository = Arc::clone(repository);
    let read = tokio::task::spawn_blocking(move || repository.head()).await;
    read.ok()?.ok()?
}

pub(super) fn refuse_with(text: impl Into<String>) -> TurnRefusal {
    TurnRefusal::WithReply(text.into())
}

impl TurnRunner {
    /// Opens the workspace of a turn within the time limit of the turn, which counts from `began`. An earlier attempt has
    /// something to show when it is stopped, and is shown on its own base then: the newest commit is not waited for.
    pub(super) async fn open(
        &self,
        assigned: &ClaimedMessage,
        identity: &Identity,
        (began, stop): (Instant, &CancellationToken),
    ) -> Result<OpenedTurn, TurnRefusal> {
        let repositories = &self.parts.repositories;
        let (inbound, conversation) = (assigned.inbound(), &assigned.work.conversation);
        let rights = self.parts.conversation_rights(identity, conversation).await?;
        let only_asks = match &rights {
            ConversationRights::Nothing(why) => return Err(refuse_with(why)),
            // Edits of this message, before a crash or a question, would stay in the change of the other person.
            ConversationRights::Questions(change) if assigned.work.has_edited => {
                return Err(refuse_with(change.refusal()));
            }
            ConversationRights::Questions(change) => Some(change.remark()),
            ConversationRights::Own | ConversationRights::Joined => None,
        };
        let identity = match only_asks {
            Some(_) => &identity.reading_only(),
            None => identity,
        };
        let step = agent_step(inbound);
        let limited = step.map(|work| limited(identity, &work.bounds));
        let identity = limited.as_ref().unwrap_or(identity);
        let (name, words) = self.choose_repository(identity, inbound, conversation)?;
        if let Some(work) = step {
            self.parts.step_model(&work.bounds).map_err(refuse_with)?;
        }
        let words = match rights {
            ConversationRights::Own => words,
            // The history of the conversation is read by both.
            ConversationRights::Joined
            | ConversationRights::Questions(_)
            | ConversationRights::Nothing(_)
                if !self.parts.owner_may_read(conversation, &name) =>
            {
                return Err(refuse_with(format!(
                    "The person of this conversation has no grant for `{name}`; ask in another thread."
                )));
            }
            ConversationRights::Joined
            | ConversationRights::Questions(_)
            | ConversationRights::Nothing(_) => {
                format!("{} writes:\n{words}", one_line(identity.name()))
            }
        };
        let goes_on = assigned.work.answered.is_some() || assigned.work.continues.is_some();
        // Its steps contain files of the repository that it began with.
        if let Some(bound) = conversation
            .repository
            .as_deref()
            .filter(|bound| goes_on && *bound != name)
        {
            return Err(refuse_with(locked_out_text(identity, bound)));
        }
        let edits = self.edits_of(assigned, &name).await?;
        // All steps of a run see its commit. Otherwise, without edits there is no base to keep, so the workspace starts from
        // the newest commit.
        let of_run = step.and_then(|work| work.commit.clone());
        let bound = of_run.or_else(|| conversation.base.clone().filter(|_| !edits.is_empty()));
        let own_base = conversation.base.clone();
        let own_base = own_base.filter(|_| conversation.repository.as_deref() == Some(name.as_str()));
        let stopped = async {
            match own_base {
                Some(base) => {
                    stop.cancelled().await;
                    base
                }
                None => std::future::pending().await,
            }
        };
        let files = async {
            let repository = repositories.get(&name).await?;
            let (head, own_base) = tokio::select! {
                biased;
                head = repositories.head(&name) => (head?, None),
                base = stopped => (known_head(&repository).await.unwrap_or_else(|| base.clone()), Some(base)),
            };
            let base = bound.or(own_base).unwrap_or_else(|| head.clone());
            let loaded = repositories.base(&name, &base).await?;
            Ok::<_, RepositoryError>((repository, head, base, loaded))
        };
        let time_max = self.parts.turn_limits(inbound).turn_time_max;
        let (repository, head, base, loaded) = tokio::time::timeout_at(began + time_max, files)
            .await
            .map_err(|_| {
                refuse_with(format!(
                    "{name} could not be opened within {} s. It is still being fetched or read; ask again later.",
                    time_max.as_secs()
                ))
            })??;
        let is_bound =
            conversation.base.as_ref() == Some(&base) && conversation.repository.as_ref() == Some(&name);
        let bind = (!is_bound).then(|| (name.clone(), base.clone()));
        let overlay = Arc::new(Overlay::new(loaded, edits));
        let kept = assigned
            .work
            .answered
            .as_ref()
            .and_then(|_| self.waiting_guards.take(conversation.id));
        let guard = kept.unwrap_or_else(|| self.parts.guard());
        if !overlay.is_untouched() {
            learn_edits(&guard, &overlay).await?;
        }
        let stale = repositories.stale(&name, (self.parts.now)());
        let branch = repositories.branch(&name).to_owned();
        // The kind is taken from the base, not from the edits. So it is listed once per base, and the prompt stays
        // byte-identical for as long as the base does.
        let kind = RepositoryKind::of_files(&overlay.base().files());
        if kind == RepositoryKind::Tanka && base == head && !stop.is_cancelled() {
            self.prerender(&repository, overlay.base());
        }
        let environments = identity.environments(&name);
        let facts = PromptFacts {
            repository: &name,
            branch: &branch,
            role: identity.role(&name),
            environments: &environments,
        };
        let mut system = prompt::system(kind, &facts);
        if let Some(lists) = step.and_then(|work| work.bounds.environments.as_ref()) {
            system.push_str(&prompt::environment_limits(lists));
        }
        let texts = self.read_files(inbound, &guard, began + time_max).await;
        let words = texts.with_words(words);
        let user_text = self.user_text(inbound, &words, &name, &guard).await?;
        let user_text = self
            .with_messages(user_text, assigned, identity, &guard.redactor)
            .await?;
        Ok(OpenedTurn {
            identity: identity.clone(),
            conversation: conversation.clone(),
            workspace: Workspace {
                repository,
                base: Some(base.clone()),
                tree: Arc::clone(&overlay) as Arc<dyn Tree>,
                guard,
            },
            overlay,
            began,
            branch,
            head,
            stale,
            system,
            user_text,
            unread_files: texts.unread,
            only_asks,
            bind,
        })
    }

    /// Begins to prerender the newest commit of a repository, unless the settings disable it.
    fn prerender(&self, repository: &Repository, head: &Arc<Base>) {
        if !self.parts.config.sandbox.renders_ahead {
            return;
        }
        let sides = Sides::unchanged_base(repository, Arc::clone(head));
        let commit = (repository.name(), head.commit());
        self.prerenderer
            .begin(commit, sides, &self.parts.comparer, &self.shutdown);
    }

    /// Returns the edits at the start of a turn. An event starts without edits, and its change becomes the next
    /// revision of the hook's earlier one.
    async fn edits_of(
        &self,
        assigned: &ClaimedMessage,
        repository: &str,
    ) -> Result<WorkspaceEdits, TurnRefusal> {
        if self.parts.is_event(assigned.inbound()) {
            return Ok(WorkspaceEdits::new());
        }
        let (conversation, edits) = (&assigned.work.conversation, &assigned.work.edits);
        let elsewhere = conversation
            .repository
            .as_deref()
            .filter(|bound| *bound != repository && !edits.is_empty());
        match elsewhere {
            Some(bound) => Err(self.prepared_elsewhere(conversation.id, bound).await?),
            None => Ok(edits.clone()),
        }
    }

    /// Returns the refusal to switch the repository. A switch would lose the edits, and only `discard` may do that.
    async fn prepared_elsewhere(&self, id: ConversationId, bound: &str) -> Result<TurnRefusal, StoreError> {
        let change = self.parts.store.current_change(id).await?;
        let what = change.map_or_else(|| "Something".to_owned(), |change| change.to_string());
        Ok(refuse_with(format!(
            "{what} is prepared here in `{bound}`. `discard` it first, or ask in another thread."
        )))
    }

    /// Returns the repository of a message, and its text without the word that named it.
    fn choose_repository(
        &self,
        identity: &Identity,
        inbound: &Inbound,
        conversation: &Conversation,
    ) -> Result<(String, String), TurnRefusal> {
        if let Some(hook) = self.parts.hook(inbound) {
            return Ok((hook.repository.clone(), String::new()));
        }
        let work = scheduled(inbound).map(|work| (&work.repository, &work.words));
        let work = work.or_else(|| agent_step(inbound).map(|work| (&work.repository, &work.words)));
        if let Some((repository, words)) = work {
            return match identity.role(repository) {
                Some(_) => Ok((repository.clone(), words.clone())),
                None => Err(refuse_with(locked_out_text(identity, repository))),
            };
        }
        let text = match &inbound.kind {
            InboundKind::Text { text, .. } => command::queued(text).unwrap_or(text).to_owned(),
            _ => String::new(),
        };
        let chosen = self
            .parts
            .resolve_repository(identity, &inbound.channel, conversation, &text);
        chosen.map_err(|why| match why {
            RepositoryChoiceError::NoGrant => {
                refuse_with("You have no grant for a repository here; ask an administrator for one.")
            }
            RepositoryChoiceError::Ambiguous(names) => TurnRefusal::WhichRepository(names),
        })
    }
}

/// Registers the secrets in earlier edits with the guard, until the call is dropped. If there are very many, the rest
/// is registered when their text is shown.
async fn learn_edits(guard: &SecretGuard, overlay: &Arc<Overlay>) -> Result<(), TurnRefusal> {
    let (guard, overlay, gone) = (guard.clone(), Arc::clone(overlay), CancellationToken::new());
    let _nobody_waits = gone.clone().drop_guard();
    let learning = tokio::task::spawn_blocking(move || {
        let changes = overlay.changes()?;
        guard.learn(&changes, overlay.as_ref(), &|| gone.is_cancelled());
        Ok::<(), TreeError>(())
    });
    let learnt = learning.await.map_err(anyhow::Error::from);
    learnt
        .and_then(|learnt| learnt.map_err(anyhow::Error::from))
        .map_err(TurnRefusal::Internal)
}
