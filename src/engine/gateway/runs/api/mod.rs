//! Runs over HTTP: programs start, list, watch, cancel and repeat runs with the token of a person or a service. Each request is authorised
//! anew, by the rules of `run` and `runs` in a chat. Nothing is posted about a run that a program has started, unless a step
//! of it replies; a repeated run is posted where the first one was.

mod answer;
mod document;
mod places;
mod start;
mod watch;
mod writer;

pub use document::{RunDocument, RunListDocument};
pub use start::RunStartRequest;
pub use watch::{RunWatch, RunWatchEvent};

use super::{Runs, is_own, may_see, needs_editor};
use crate::base::model::{Role, RunId, RunStatus};
use crate::engine::gateway::audit::IngressAudit;
use crate::engine::gateway::handover::{HandoverAnswer, token_holder};
use crate::engine::gateway::parts::Parts;
use crate::engine::pipeline::run::RunPlan;
use crate::state::access::{Identity, TokenScope};
use crate::state::store::{RunChange, RunHead, RunRow, StoreError};
use answer::{ApiRefusal, ApiResult, answered};
use jiff::Timestamp;
use places::ApiPlaces;
use start::retry_names;
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The most definitions that are read at once, for one person and for all.
const PLANNINGS_MAX: (usize, usize) = (4, 16);
/// The most runs that are watched at once, by one person and by all.
const WATCHES_MAX: (usize, usize) = (8, 64);

/// The most lists that are read at once. Each may look at many runs, and the store has more threads than this for reading.
const LISTS_AT_ONCE_MAX: usize = 1;

/// The requests of programs about runs.
pub struct RunApi {
    parts: Arc<Parts>,
    runs: Arc<Runs>,
    audit: Arc<IngressAudit>,
    plannings: ApiPlaces,
    watches: ApiPlaces,
    lists: Arc<Semaphore>,
    shutdown: CancellationToken,
    background: TaskTracker,
}

/// The runs that a program asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunFilter {
    /// Only those of this repository.
    pub repository: Option<String>,
    /// Only those of this pipeline.
    pub pipeline: Option<String>,
    /// Only those in this state.
    pub status: Option<RunStatus>,
    /// Only those before this run.
    pub before: Option<RunId>,
    /// The most runs of one answer.
    pub limit: usize,
}

impl RunFilter {
    fn accepts(&self, head: &RunHead) -> bool {
        let is = |wanted: &Option<String>, name: &str| wanted.as_deref().is_none_or(|wanted| wanted == name);
        is(&self.repository, &head.repository)
            && is(&self.pipeline, &head.pipeline)
            && self.status.is_none_or(|status| status == head.status)
    }
}

impl RunApi {
    pub(in crate::engine::gateway) fn new(
        parts: &Arc<Parts>,
        (runs, audit): (&Arc<Runs>, &Arc<IngressAudit>),
        (shutdown, background): (&CancellationToken, &TaskTracker),
    ) -> Self {
        Self {
            parts: Arc::clone(parts),
            runs: Arc::clone(runs),
            audit: Arc::clone(audit),
            plannings: ApiPlaces::new(PLANNINGS_MAX.0, PLANNINGS_MAX.1),
            watches: ApiPlaces::new(WATCHES_MAX.0, WATCHES_MAX.1),
            lists: Arc::new(Semaphore::new(LISTS_AT_ONCE_MAX)),
            shutdown: shutdown.clone(),
            background: background.clone(),
        }
    }

    /// Starts a run.
    pub async fn start(&self, token: &str, request: &RunStartRequest, at: Timestamp) -> HandoverAnswer {
        let started = Box::pin(self.start_for(token, request, at)).await;
        answered(started, "the start of a run")
    }

    /// Lists the runs that the person of a token may see, the newest first.
    pub async fn list(&self, token: &str, filter: RunFilter, at: Timestamp) -> HandoverAnswer {
        answered(self.list_for(token, filter, at).await, "a list of runs")
    }

    /// Returns a run.
    pub async fn show(&self, token: &str, id: RunId, at: Timestamp) -> HandoverAnswer {
        answered(self.show_for(token, id, at).await, "a run")
    }

    /// Cancels a run.
    pub async fn cancel(&self, token: &str, id: RunId, at: Timestamp) -> HandoverAnswer {
        answered(self.cancel_for(token, id, at).await, "the end of a run")
    }

    /// Repeats a run that did not succeed, from its first step that did not. A request that comes again with the same key
    /// returns the run that it started.
    pub async fn retry(&self, token: &str, id: RunId, key: Option<&str>, at: Timestamp) -> HandoverAnswer {
        let repeated = Box::pin(self.retry_for(token, (id, key), at)).await;
        answered(repeated, "the repetition of a run")
    }

    async fn list_for(&self, token: &str, filter: RunFilter, at: Timestamp) -> ApiResult {
        let person = self.person(token, TokenScope::RunsRead, at).await?;
        let access = Arc::clone(&self.parts.access);
        let (before, count_max) = (filter.before, filter.limit);
        let place = Arc::clone(&self.lists).acquire_owned().await?;
        let is_listed = move |head: &RunHead| {
            // The place is free when the store has read, also if the client does not wait for that.
            let _place = &place;
            filter.accepts(head) && may_see(&access, &person, head)
        };
        let store = &self.parts.store;
        let page = store.runs_before(before, is_listed, count_max).await?;
        let list = RunListDocument::of(&page, &self.parts.redactor);
        Ok(HandoverAnswer::Document(serde_json::to_string(&list)?))
    }

    async fn show_for(&self, token: &str, id: RunId, at: Timestamp) -> ApiResult {
        let person = self.person(token, TokenScope::RunsRead, at).await?;
        let row = self.visible(&person, id).await?;
        Ok(HandoverAnswer::Document(self.document(&row)?))
    }

    async fn cancel_for(&self, token: &str, id: RunId, at: Timestamp) -> ApiResult {
        let writer = self.writer(token, at).await?;
        let person = &writer.person;
        let head = self.visible(person, id).await?.head;
        let is_editor = person.role(&head.repository) >= Some(Role::Editor);
        if !is_editor && !is_own(&self.parts.access, person, &head) {
            let why = format!(
                "run {id} is of a service, and only an editor of `{}` may cancel it",
                head.repository
            );
            return Err(HandoverAnswer::Forbidden(why).into());
        }
        let (parts, runs) = (Arc::clone(&self.parts), Arc::clone(&self.runs));
        let by = person.name().to_owned();
        // It goes on if the client does not wait for its answer.
        let cancelling = self.background.spawn(async move {
            let cancelled = parts.store.cancel_run(id, by, None, (parts.now)()).await?;
            runs.stop(cancelled.stopped);
            runs.wake();
            Ok::<_, StoreError>(cancelled.outcome)
        });
        let outcome = cancelling.await??;
        let row = self.visible(person, id).await?;
        match (outcome, row.head.status) {
            (RunChange::Changed, _) | (RunChange::Unchanged, RunStatus::Cancelled) => {
                Ok(HandoverAnswer::Document(self.document_for(&writer, &row)?))
            }
            (RunChange::Unchanged, _) => {
                let why = format!("run {id} has ended already");
                Err(HandoverAnswer::Refused(why).into())
            }
            (RunChange::Gone, _) => Err(HandoverAnswer::NotFound.into()),
        }
    }

    async fn retry_for(&self, token: &str, (id, key): (RunId, Option<&str>), at: Timestamp) -> ApiResult {
        let writer = self.writer(token, at).await?;
        let person = &writer.person;
        let names = retry_names(person.user(), id, key);
        if let Some(known) = self.known(&names).await? {
            return self.created(known, &writer).await;
        }
        let row = self.visible(person, id).await?;
        if !is_own(&self.parts.access, person, &row.head) {
            let why = format!("run {id} is of a service; `drydock runs retry {id}` on the server repeats it");
            return Err(HandoverAnswer::Forbidden(why).into());
        }
        self.may_start_again(person, &row).await?;
        let (parts, runs) = (Arc::clone(&self.parts), Arc::clone(&self.runs));
        let repeating = self.background.spawn(async move {
            let at = (parts.now)();
            let (created, stopped) = parts.store.retry_run_of_request(id, names, at).await?;
            runs.stop(stopped);
            runs.wake();
            Ok::<_, StoreError>(created)
        });
        let created = repeating.await??;
        self.created(created, &writer).await
    }

    /// Checks that a person may start the pipeline of an own run now.
    async fn may_start_again(&self, person: &Identity, row: &RunRow) -> Result<(), ApiRefusal> {
        let head = &row.head;
        let is_editor = person.role(&head.repository) >= Some(Role::Editor);
        if head.status != RunStatus::Skipped {
            let plan = serde_json::from_str::<RunPlan>(&row.plan);
            if !plan.is_ok_and(|plan| is_editor || !needs_editor(&plan)) {
                let why = format!(
                    "it may change files, and the role in `{}` is viewer",
                    head.repository
                );
                return Err(HandoverAnswer::Forbidden(why).into());
            }
        }
        self.check_startable(person, &head.repository, &head.pipeline)
            .await
    }

    /// Returns the person of a token: the first of their accounts, of which each has the same grants.
    async fn person(&self, token: &str, scope: TokenScope, at: Timestamp) -> Result<Identity, ApiRefusal> {
        let holder = token_holder(&self.parts, &self.audit, (token, scope), at);
        let identities = holder.await??;
        let first = identities
            .into_iter()
            .min_by(|one, other| one.sender().cmp(other.sender()));
        Ok(first.ok_or(HandoverAnswer::Unauthenticated)?)
    }

    /// Returns a run that a person may see. That of somebody else is answered like one that does not exist.
    async fn visible(&self, person: &Identity, id: RunId) -> Result<RunRow, ApiRefusal> {
        let row = self.parts.store.run(id).await?;
        let seen = row.filter(|row| may_see(&self.parts.access, person, &row.head));
        Ok(seen.ok_or(HandoverAnswer::NotFound)?)
    }

    fn document(&self, row: &RunRow) -> serde_json::Result<String> {
        serde_json::to_string(&RunDocument::of(row, &self.parts.redactor))
    }
}
