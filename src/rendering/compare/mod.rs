//! The comparison of a workspace with its base: finds the environments that a change affects, renders them on both
//! sides, has the results reviewed, and turns them into checks. It combines [`crate::rendering::tanka`], which renders, with
//! [`crate::rendering::review`], which examines the results without I/O.
//!
//! The result of a comparison contains no secret: values are redacted before the review, and the review masks the
//! values of `Secret`s.

mod affected;
mod prerender;
mod request;
mod checks;
mod environments;
mod failure;
mod render_cache;
mod import_resolver;
mod moves;
mod cross_check;
mod rendering;
mod report;
mod secrets;
mod render_result;
mod unresolved;
mod validate;
#[cfg(test)]
mod tests;

pub use checks::NO_ENVIRONMENTS;
pub(crate) use failure::kind_of_evaluation;
pub use failure::{BrokenEnvironment, reason, redacted_reason};
pub use prerender::{PrerenderEnd, PrerenderResult};
pub use report::{ChangeReport, Comparison, FailedComparison};
pub use request::{
    CompareProgress, CompareRequest, CrossCheckWanted, EnvironmentSelection, Sides, Variables,
};
pub use validate::{DependentEnvironment, FileValidation, Validation, ValidationStage};

use crate::base::model::RepoPath;
use crate::base::redact::Redactor;
use crate::base::spool::Spool;
use crate::rendering::jsonnet::{EvalError, ForegroundCount, yaml};
use crate::rendering::review::review;
use crate::rendering::tanka::importers::Importer;
use crate::rendering::tanka::{self, Evaluate, MemoryPermit, Renderer, TankaError};
use crate::state::workspace::{RepositoryError, Tree, TreeError};
use affected::{GraphCache, TouchedEntrypoints};
use moves::{EnvironmentMove, EnvironmentMoves, MoveReport};
use render_cache::RenderCache;
use rendering::RenderedSides;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Maximum number of entry points that one comparison renders. Further touched entry points are reported as not
/// examined.
const RENDERED_MAX: usize = 1_000;

/// A reason why there is no comparison.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// The caller cancelled the comparison.
    #[error("the comparison was stopped")]
    Cancelled,
    /// The requested environment is on neither side, or a tree could not be read.
    #[error(transparent)]
    Tanka(#[from] TankaError),
    /// The requested environment exists but is in no commit, because git ignores it.
    #[error(
        "`{0}` is ignored by git, so there is no base to compare it with; `drydock tanka env show` renders it"
    )]
    Ignored(String),
    /// The base could not be read.
    #[error(transparent)]
    Repository(#[from] RepositoryError),
    /// A tree could not be read.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// An internal error.
    #[error("the comparison ended with an internal error: {0}")]
    Internal(String),
}

/// Compares the base of a workspace with the workspace. Rendered entry points are cached, so that the next revision
/// renders only what has changed since. It is cheap to clone and shared by all users, because cache entries are
/// found by a hash of all their inputs.
pub struct Comparer {
    evaluator: Arc<dyn Evaluate>,
    redactor: Arc<Redactor>,
    mask_key: Vec<u8>,
    spool: Spool,
    rendered_max: usize,
    prerender_bytes_max: usize,
    /// The number of callers that wait for a comparison.
    waiting_callers: ForegroundCount,
    graphs: GraphCache,
    // The lock is held to look up and to add, never across an await.
    render_cache: Mutex<RenderCache>,
}

impl std::fmt::Debug for Comparer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Comparer").finish_non_exhaustive()
    }
}

impl Comparer {
    /// Creates a comparer with an empty cache. `mask_key` is random for this process. The marks of secret values
    /// are derived from it.
    pub fn new(evaluator: Arc<dyn Evaluate>, redactor: Arc<Redactor>, mask_key: Vec<u8>) -> Self {
        Self {
            evaluator,
            redactor,
            mask_key,
            spool: Spool::default(),
            rendered_max: RENDERED_MAX,
            prerender_bytes_max: prerender::BYTES_MAX,
            waiting_callers: ForegroundCount::default(),
            graphs: GraphCache::default(),
            render_cache: Mutex::default(),
        }
    }

    /// Returns the evaluator of programs.
    pub fn evaluator(&self) -> &Arc<dyn Evaluate> {
        &self.evaluator
    }

    /// Stores large texts in files in a private directory instead of in memory.
    #[must_use]
    pub fn with_spool_directory(self, directory: impl Into<PathBuf>) -> Self {
        Self {
            spool: Spool::in_directory(directory),
            ..self
        }
    }

    /// Compares two sides. An environment that does not render never hides another one. An error means that the
    /// effects are unknown.
    pub async fn compare(
        self: &Arc<Self>,
        asked: CompareRequest,
        cancel: &CancellationToken,
    ) -> Result<Comparison, CompareError> {
        self.compare_with_progress(asked, &mut |_| {}, cancel).await
    }

    /// Compares two sides and reports the progress to `progress`. Returns at once when cancelled.
    pub async fn compare_with_progress(
        self: &Arc<Self>,
        asked: CompareRequest,
        progress: &mut (dyn FnMut(CompareProgress) + Send),
        cancel: &CancellationToken,
    ) -> Result<Comparison, CompareError> {
        let _waits = self.waiting_callers.enter();
        let (sender, mut seen) = watch::channel(CompareProgress::default());
        let comparing = self.run(asked, &sender, cancel);
        tokio::pin!(comparing);
        loop {
            tokio::select! {
                compared = &mut comparing => {
                    progress(*seen.borrow());
                    return compared;
                }
                () = cancel.cancelled() => return Err(CompareError::Cancelled),
                Ok(()) = seen.changed() => progress(*seen.borrow_and_update()),
            }
        }
    }

    async fn run(
        self: &Arc<Self>,
        asked: CompareRequest,
        progress: &watch::Sender<CompareProgress>,
        cancel: &CancellationToken,
    ) -> Result<Comparison, CompareError> {
        let asked = Arc::new(asked);
        let (comparer, of) = (Arc::clone(self), Arc::clone(&asked));
        let subject = match blocking(move || comparer.first_pass(&of)).await? {
            FirstPass::Done(comparison) => return Ok(*comparison),
            FirstPass::NeedsRender(subject) => subject,
            FirstPass::NeedsName(only) => {
                let only = self.find_by_name(&asked, &only, cancel).await?;
                let (comparer, of) = (Arc::clone(self), Arc::clone(&asked));
                blocking(move || comparer.scope(&of, Some(only))).await?
            }
        };
        let both = self.render(&asked, &subject.touched, progress, cancel).await?;
        let moves = self.moves(&asked.sides, &subject, &both, cancel).await?;
        let (permit, comparer) = (MemoryPermit::default(), Arc::clone(self));
        let bytes = both.bytes();
        permit.acquire(bytes).await;
        let enough = cancel.clone();
        let stopped = move || enough.is_cancelled();
        run_on_reader(bytes, move || {
            // Moved into this task: the report stays in memory until the task ends, even if the caller no longer
            // waits.
            let _permit = permit;
            comparer.build_comparison(&asked, subject, both, &moves, &stopped)
        })
        .await
    }

    /// Returns the settings that differ or may differ, for a change that was not compared.
    pub async fn report_uncompared(self: &Arc<Self>, sides: Sides, error: CompareError) -> FailedComparison {
        let comparer = Arc::clone(self);
        let why = "the change was not compared".to_owned();
        let looking = move || {
            let redactor = comparer.learn_secrets(&sides, &RenderedSides::default());
            comparer
                .uncompared_moves(&sides, &why)
                .report(&redactor, &|| false)
        };
        let said = blocking(looking).await.unwrap_or_else(|_| MoveReport::unknown());
        FailedComparison {
            error,
            settings: said.changes,
            needs: said.needs,
        }
    }

    /// Compares as far as possible without an evaluation.
    fn first_pass(&self, asked: &CompareRequest) -> Result<FirstPass, CompareError> {
        let only = match &asked.only {
            None => None,
            Some(only) => match self.find_by_path(asked, only) {
                Some(only) => Some(only),
                None => return Ok(FirstPass::NeedsName(only.clone())),
            },
        };
        let subject = self.scope(asked, only)?;
        if !subject.touched.affected.is_empty() || !subject.static_moves.is_empty() {
            return Ok(FirstPass::NeedsRender(subject));
        }
        let comparison = self.build_comparison(
            asked,
            subject,
            RenderedSides::default(),
            &EnvironmentMoves::default(),
            &|| false,
        )?;
        Ok(FirstPass::Done(Box::new(comparison)))
    }

    fn scope(
        &self,
        asked: &CompareRequest,
        only: Option<EnvironmentSelection>,
    ) -> Result<ComparisonScope, CompareError> {
        let path = only.as_ref().map(|only| only.path.as_str());
        if let Some(path) = path {
            let is_listed = |tree: &Arc<dyn Tree>| {
                let files = tree.files()?;
                Ok::<_, TreeError>(files.iter().any(|file| file.as_str() == path))
            };
            if !is_listed(&asked.sides.workspace)? && !is_listed(&asked.sides.base)? {
                return Err(CompareError::Ignored(path.to_owned()));
            }
        }
        Ok(ComparisonScope {
            touched: self
                .graphs
                .touched_entrypoints(&asked.sides, path, self.rendered_max)?,
            static_moves: moves::static_moves(&asked.sides)?,
            only,
        })
    }

    fn build_comparison(
        &self,
        asked: &CompareRequest,
        subject: ComparisonScope,
        both: RenderedSides,
        moves: &EnvironmentMoves,
        stopped: &dyn Fn() -> bool,
    ) -> Result<Comparison, CompareError> {
        let ComparisonScope { touched, only, .. } = subject;
        let redactor = self.learn_secrets(&asked.sides, &both);
        let seen = checks::CheckInputs::new(asked, &touched, &both);
        let name = only.as_ref().and_then(|only| only.name.as_deref());
        let environments = environments::environments(&touched, both, &redactor);
        let environments = environments::find_by_name(environments, name)?;
        let MoveReport { changes, needs } = moves.report(&redactor, stopped)?;
        let input = asked.input(environments, changes);
        let report = review(input, &self.mask_key, &yaml::readable);
        let checked = seen.results(&report, &redactor);
        Ok(Comparison {
            checks: checked.checks,
            failing: checked.failing,
            unknown: checked.unknown,
            report,
            affected: touched.affected,
            needs,
        })
    }

    /// Returns the redactor for the secrets of a comparison. With a guard, the secrets are also learnt for the
    /// reader of the sides.
    fn learn_secrets(&self, sides: &Sides, both: &RenderedSides) -> Arc<Redactor> {
        let redactor = match &sides.guard {
            Some(guard) => Arc::clone(&guard.redactor),
            None => Arc::new(self.redactor.fresh()),
        };
        for change in &sides.changes {
            for version in change.before.iter().chain(&change.after) {
                redactor.learn_file(None, &version.content);
            }
        }
        both.secrets.iter().for_each(|known| redactor.learn(known));
        redactor
    }

    /// Returns the entry points of the workspace that depend on a file or on anything in a directory. Reads files
    /// and may block.
    pub fn importers(&self, sides: &Sides, path: &RepoPath) -> Result<Vec<Importer>, CompareError> {
        Ok(self.graphs.workspace(sides)?.importers(path))
    }

    /// Finds the entry point of one environment by its path, on either side.
    fn find_by_path(
        &self,
        asked: &CompareRequest,
        only: &EnvironmentSelection,
    ) -> Option<EnvironmentSelection> {
        let trees = [&asked.sides.workspace, &asked.sides.base].into_iter();
        let mut found =
            trees.filter_map(|tree| self.renderer(tree).find_entrypoint_blocking(&only.path).ok()?);
        let path = found.next()?.to_string();
        Some(EnvironmentSelection {
            path,
            name: only.name.clone(),
        })
    }

    /// Finds the entry point of one environment by its name.
    async fn find_by_name(
        &self,
        asked: &CompareRequest,
        only: &EnvironmentSelection,
        cancel: &CancellationToken,
    ) -> Result<EnvironmentSelection, CompareError> {
        let target = asked.variables.target(&only.path, only.name.clone());
        let mut failed = None;
        for tree in [&asked.sides.workspace, &asked.sides.base] {
            match self.renderer(tree).entrypoint(&target, cancel).await {
                Ok((entrypoint, name)) => {
                    return Ok(EnvironmentSelection {
                        path: entrypoint.to_string(),
                        name,
                    });
                }
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        let none = || TankaError::NoMatch {
            path: only.path.clone(),
        };
        match failed.unwrap_or_else(none) {
            TankaError::Evaluation(EvalError::Cancelled) => Err(CompareError::Cancelled),
            error => Err(error.into()),
        }
    }

    fn render_cache(&self) -> std::sync::MutexGuard<'_, RenderCache> {
        self.render_cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a renderer for `tree` with the same engines.
    pub fn renderer(&self, tree: &Arc<dyn crate::state::workspace::Tree>) -> Renderer {
        Renderer::new(Arc::clone(tree), Arc::clone(&self.evaluator))
    }
}

struct ComparisonScope {
    touched: TouchedEntrypoints,
    /// The static environments whose settings differ, in the whole tree.
    static_moves: Vec<EnvironmentMove>,
    /// The entry point, if a single environment was requested.
    only: Option<EnvironmentSelection>,
}

/// The result of the part that needs no evaluation.
enum FirstPass {
    /// The complete comparison, because nothing has to be rendered.
    Done(Box<Comparison>),
    NeedsRender(ComparisonScope),
    /// No path matches the requested environment, so it must be found by name.
    NeedsName(EnvironmentSelection),
}

/// Runs work on values with texts of this many bytes.
async fn run_on_reader<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> Result<T, CompareError> + Send + 'static,
) -> Result<T, CompareError> {
    let read = tanka::read(bytes, work).await;
    read.unwrap_or_else(|why| Err(CompareError::Internal(why)))
}

/// Runs work that may block, such as reading a tree.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, CompareError> + Send + 'static,
) -> Result<T, CompareError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(err) => Err(CompareError::Internal(err.to_string())),
    }
}
