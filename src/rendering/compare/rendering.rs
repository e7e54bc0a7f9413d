//! Renders both sides of the touched entry points, in one batch per side and without those in the cache.

use super::affected::TouchedEntrypoints;
use super::render_cache::{CachedRender, CrossCheckVerdict};
use super::render_result::{RedactedObjects, RedactionContext, RenderResult, render_result};
use super::request::Variables;
use super::{
    CompareError, CompareProgress, CompareRequest, Comparer, CrossCheckWanted, blocking, run_on_reader,
};
use crate::base::model::RepoPath;
use crate::base::parallel;
use crate::base::redact::KnownSecret;
use crate::rendering::jsonnet::CrossCheckMode;
use crate::rendering::review::RenderFailure;
use crate::rendering::tanka::MemoryPermit;
use crate::rendering::tanka::importers::{Closure, ImportGraph};
use crate::state::workspace::Tree;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// An entry point on one side: its objects, or the reason why there are none.
pub(super) type RenderOutcome = Result<Arc<CachedRender>, RenderFailure>;

/// The entry points on both sides. A missing entry point is not in the map of its side.
#[derive(Debug, Default)]
pub(super) struct RenderedSides {
    pub(super) base: BTreeMap<RepoPath, RenderOutcome>,
    pub(super) workspace: BTreeMap<RepoPath, RenderOutcome>,
    /// The newly rendered objects of the workspace.
    pub(super) values: BTreeMap<RepoPath, RedactedObjects>,
    /// The secrets known on both sides.
    pub(super) secrets: Vec<Arc<[KnownSecret]>>,
}

/// The entry points of one side.
#[derive(Debug, Default)]
pub(super) struct SideOutcomes {
    pub(super) outcomes: BTreeMap<RepoPath, RenderOutcome>,
    /// The secrets that each entry point knows.
    pub(super) secrets: BTreeMap<RepoPath, Arc<[KnownSecret]>>,
    values: BTreeMap<RepoPath, RedactedObjects>,
}

/// A side that will be rendered.
#[derive(Clone, Copy)]
pub(super) struct RenderSide<'a> {
    pub(super) tree: &'a Arc<dyn Tree>,
    pub(super) graph: &'a Arc<ImportGraph>,
    pub(super) variables: &'a Variables,
    /// True if the values are needed in addition to the cache entries.
    pub(super) wants_values: bool,
}

/// An entry point that is not cached.
pub(super) struct RenderJob {
    pub(super) entrypoint: RepoPath,
    /// The cache key.
    pub(super) key: String,
    pub(super) closure: Arc<Closure>,
    cross_check: CrossCheckMode,
}

impl RenderedSides {
    /// Returns the size of all objects as texts, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let outcomes = self.base.values().chain(self.workspace.values());
        outcomes.flatten().map(|rendered| rendered.bytes()).sum()
    }
}

impl RenderJob {
    fn needs_cross_check(&self, rendered: &CachedRender) -> bool {
        self.cross_check == CrossCheckMode::On && rendered.cross_check == CrossCheckVerdict::NotAsked
    }
}

impl Comparer {
    /// Renders the touched entry points, both sides concurrently. The workspace is cross-checked unless one engine
    /// is enough. The base is cross-checked only for entry points whose workspace side failed the cross-check.
    pub(super) async fn render(
        &self,
        asked: &CompareRequest,
        touched: &TouchedEntrypoints,
        progress: &watch::Sender<CompareProgress>,
        cancel: &CancellationToken,
    ) -> Result<RenderedSides, CompareError> {
        let entrypoints: Vec<RepoPath> = touched.rendered().cloned().collect();
        if entrypoints.is_empty() {
            return Ok(RenderedSides::default());
        }
        let base = RenderSide {
            tree: &asked.sides.base,
            graph: &touched.base,
            variables: &asked.variables,
            wants_values: false,
        };
        let workspace = RenderSide {
            tree: &asked.sides.workspace,
            graph: &touched.workspace,
            variables: &asked.variables,
            wants_values: true,
        };
        let relied_on: BTreeSet<RepoPath> = match asked.cross_check {
            CrossCheckWanted::Later | CrossCheckWanted::Never => BTreeSet::new(),
            CrossCheckWanted::Now => entrypoints.iter().cloned().collect(),
        };
        let total = 2 * entrypoints.len();
        progress.send_replace(CompareProgress { done: 0, total });
        // Entry points that both engines must evaluate again were already counted.
        let done = |count: usize| {
            progress.send_modify(|progress| progress.done = (progress.done + count).min(total))
        };
        let (workspace, before) = tokio::try_join!(
            self.render_side(workspace, &entrypoints, relied_on, &done, cancel),
            self.render_side(base, &entrypoints, BTreeSet::new(), &done, cancel),
        )?;
        let SideOutcomes {
            outcomes: workspace,
            values,
            secrets,
        } = workspace;
        let secrets = secrets
            .into_values()
            .chain(before.secrets.into_values())
            .collect();
        let against = workspace.iter().filter(|(_, outcome)| {
            let rendered = outcome.as_ref();
            rendered.is_ok_and(|rendered| rendered.cross_check.is_disagreement())
        });
        let against: Vec<RepoPath> = against.map(|(entrypoint, _)| entrypoint.clone()).collect();
        let again: BTreeSet<RepoPath> = against.iter().cloned().collect();
        let mut both = RenderedSides {
            base: before.outcomes,
            workspace,
            values,
            secrets,
        };
        if !against.is_empty() {
            let again = self.render_side(base, &against, again, &|_| {}, cancel).await?;
            both.base.extend(again.outcomes);
            both.secrets.extend(again.secrets.into_values());
        }
        Ok(both)
    }

    /// Renders entry points of one side. Missing ones are skipped. `done` is called for each entry point that is
    /// finished.
    pub(super) async fn render_side(
        &self,
        side: RenderSide<'_>,
        entrypoints: &[RepoPath],
        cross_checked: BTreeSet<RepoPath>,
        done: &(dyn Fn(usize) + Send + Sync),
        cancel: &CancellationToken,
    ) -> Result<SideOutcomes, CompareError> {
        let cross_checks = cross_checked.len();
        let jobs = jobs(&side, entrypoints, cross_checked).await?;
        let (mut found, mut left, mut unheard) = (SideOutcomes::default(), Vec::new(), Vec::new());
        for job in jobs {
            match self.render_cache().get(&job.key) {
                None => left.push(job),
                Some(rendered) => {
                    let secrets = Arc::clone(&rendered.secrets);
                    found.secrets.insert(job.entrypoint.clone(), secrets);
                    match job.needs_cross_check(&rendered) {
                        true => unheard.push((job, rendered)),
                        false => drop(found.outcomes.insert(job.entrypoint, Ok(rendered))),
                    }
                }
            }
        }
        let (all, count, heard) = (entrypoints.len(), left.len(), unheard.len());
        tracing::debug!(
            "rendering {count} of {all} entry points, {cross_checks} cross-checked, {heard} by the second engine only"
        );
        done(all.saturating_sub(count + heard));
        let heard = self.cross_check(side, unheard, done, cancel).await?;
        for (job, rendered, is_covered) in heard.checked {
            if is_covered {
                self.render_cache().put(job.key, &rendered);
            }
            found.outcomes.insert(job.entrypoint, Ok(rendered));
        }
        left.extend(heard.differing);
        let held = self.secrets_of_inner(side, &left, cancel).await?;
        // Held while values are read, and never during an evaluation.
        let permit = Arc::new(MemoryPermit::default());
        let targets = left.iter().map(|job| {
            side.variables
                .entrypoint(job.entrypoint.as_str(), job.cross_check)
        });
        let answers = match left.is_empty() {
            true => Vec::new(),
            false => {
                self.renderer(side.tree)
                    .with_memory_permit(&permit)
                    .render_all(targets.collect(), &|| done(1), cancel)
                    .await
            }
        };
        if cancel.is_cancelled() {
            return Err(CompareError::Cancelled);
        }
        let (redactor, spool, tree, graph) = (
            Arc::clone(&self.redactor),
            self.spool.clone(),
            Arc::clone(side.tree),
            Arc::clone(side.graph),
        );
        let answered: Vec<_> = left.into_iter().zip(answers).collect();
        // Large values are parsed again later, one at a time.
        let wants_values = side.wants_values && !permit.is_large();
        let to_result = move |answered| {
            let context = RedactionContext {
                redactor: &redactor,
                spool: &spool,
                tree: tree.as_ref(),
                graph: &graph,
                inner_secrets: &held,
            };
            let result = render_result(answered, context);
            RenderResult {
                values: match wants_values {
                    true => result.values,
                    false => RedactedObjects::new(),
                },
                ..result
            }
        };
        // The size class is that of all values together.
        let bytes = match permit.is_large() {
            true => usize::MAX,
            false => 0,
        };
        let results = run_on_reader(bytes, move || {
            // Moved into this task: the values stay in memory until the results exist, even if the caller no longer
            // waits.
            let _permit = permit;
            Ok(parallel::map(answered, to_result))
        });
        for result in results.await? {
            if let (Ok(rendered), Some(key)) = (&result.outcome, result.key) {
                self.render_cache().put(key, rendered);
            }
            found.secrets.insert(result.entrypoint.clone(), result.secrets);
            found.values.insert(result.entrypoint.clone(), result.values);
            found.outcomes.insert(result.entrypoint, result.outcome);
        }
        Ok(found)
    }
}

/// Returns the entry points that exist on this side, each with the hash of its inputs.
pub(super) async fn jobs(
    side: &RenderSide<'_>,
    entrypoints: &[RepoPath],
    cross_checked: BTreeSet<RepoPath>,
) -> Result<Vec<RenderJob>, CompareError> {
    let given = match side.variables == &Variables::default() {
        true => String::new(),
        false => format!("{:?}", side.variables),
    };
    let (graph, entrypoints) = (Arc::clone(side.graph), entrypoints.to_vec());
    blocking(move || {
        let there = entrypoints.into_iter().filter_map(|entrypoint| {
            let closure = Arc::clone(graph.closures().get(&entrypoint)?);
            Some((entrypoint, closure))
        });
        let jobs = there.map(|(entrypoint, closure)| RenderJob {
            cross_check: match cross_checked.contains(&entrypoint) {
                true => CrossCheckMode::On,
                false => CrossCheckMode::Off,
            },
            key: format!("{} {given}", closure.id()),
            entrypoint,
            closure,
        });
        Ok(jobs.collect())
    })
    .await
}
