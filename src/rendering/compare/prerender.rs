//! Renders a base in the background, so that a later comparison finds that side in the cache. Nothing is shown. The
//! entries have the cache keys that a comparison looks up. Waiting callers have priority.

use super::render_cache::CACHE_BYTES_MAX;
use super::render_result::{RedactionContext, render_result};
use super::rendering::{RenderJob, RenderSide, jobs};
use super::request::{Sides, Variables};
use super::secrets::EntrypointSecrets;
use super::{CompareError, Comparer, blocking};
use crate::base::model::RepoPath;
use crate::rendering::jsonnet::{CrossCheckMode, EvalError, EvalRequest, Evaluation};
use crate::rendering::tanka::importers::ImportGraph;
use crate::rendering::tanka::{Evaluate, RenderedEntrypoint, Renderer, TankaError};
use crate::state::workspace::Tree;
use async_trait::async_trait;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Maximum size of the prerendered entries of one base in bytes. The other half of the cache is for the workspaces
/// of people: otherwise, the first comparison of everything would evict entries that it needs.
pub(super) const BYTES_MAX: usize = CACHE_BYTES_MAX / 2;
/// Number of entry points that one process renders in a batch.
const TOGETHER_MAX: usize = 32;

/// The result of prerendering a base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrerenderResult {
    /// Entry points that are newly cached.
    pub rendered: usize,
    /// Entry points that were already cached.
    pub known: usize,
    /// Entry points that do not render, or that must not be cached.
    pub failed: usize,
    /// The reason why prerendering ended.
    pub end: PrerenderEnd,
}

/// The reason why prerendering ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrerenderEnd {
    /// All entry points are done.
    Done,
    /// The next entry points would leave too little cache space for others.
    Full,
    /// No program can be evaluated here, or there is no sandbox worker beside the one for people.
    NoWorker,
}

/// The state of prerendering a base.
struct PrerenderState {
    tree: Arc<dyn Tree>,
    graph: Arc<ImportGraph>,
    remaining: VecDeque<RenderJob>,
    bytes: usize,
    result: PrerenderResult,
}

impl Comparer {
    /// Renders the base of these sides as far as it may be cached, and builds its import graph. Pauses while a
    /// caller compares or evaluates, and ends when it is dropped.
    pub async fn prerender(self: &Arc<Self>, sides: Sides) -> Result<PrerenderResult, CompareError> {
        let (comparer, of) = (Arc::clone(self), sides.clone());
        let graph = blocking(move || comparer.graphs.base(&of)).await?;
        let entrypoints = graph.closures().keys().take(self.rendered_max);
        let entrypoints: Vec<RepoPath> = entrypoints.cloned().collect();
        let side = RenderSide {
            tree: &sides.base,
            graph: &graph,
            variables: &Variables::default(),
            wants_values: false,
        };
        let mut rendering = PrerenderState {
            tree: Arc::clone(&sides.base),
            graph: Arc::clone(&graph),
            remaining: jobs(&side, &entrypoints, BTreeSet::new()).await?.into(),
            bytes: 0,
            result: PrerenderResult {
                rendered: 0,
                known: 0,
                failed: 0,
                end: PrerenderEnd::Done,
            },
        };
        let background = Arc::new(BackgroundEvaluator(Arc::clone(&self.evaluator)));
        let renderer = Renderer::new(Arc::clone(&sides.base), background);
        loop {
            self.waiting_callers.wait_until_idle().await;
            let batch = self.next_batch(&mut rendering);
            if batch.is_empty() {
                return Ok(rendering.result);
            }
            let answers = self.render_in_background(&renderer, &batch).await;
            let answered = batch.into_iter().zip(answers);
            if let Some(ended) = self.cache_answers(answered, &mut rendering).await? {
                return Ok(PrerenderResult {
                    end: ended,
                    ..rendering.result
                });
            }
        }
    }

    /// Returns the next entry points that are not cached.
    fn next_batch(&self, rendering: &mut PrerenderState) -> Vec<RenderJob> {
        let mut batch = Vec::new();
        while batch.len() < TOGETHER_MAX
            && let Some(job) = rendering.remaining.pop_front()
        {
            match self.render_cache().get(&job.key) {
                Some(known) => {
                    rendering.bytes += known.bytes();
                    rendering.result.known += 1;
                }
                None => batch.push(job),
            }
        }
        batch
    }

    /// Renders a batch until a comparison begins. Results that are ready by then are kept.
    async fn render_in_background(
        &self,
        renderer: &Renderer,
        batch: &[RenderJob],
    ) -> Vec<Result<RenderedEntrypoint, TankaError>> {
        let variables = Variables::default();
        let target = |job: &RenderJob| variables.entrypoint(job.entrypoint.as_str(), CrossCheckMode::Off);
        let stop = CancellationToken::new();
        // The separate memory permit limits the wait of a comparison to this batch.
        let renderer = renderer.clone().with_memory_permit(&Arc::default());
        let rendering = renderer.render_all(batch.iter().map(target).collect(), &|| {}, &stop);
        tokio::pin!(rendering);
        tokio::select! {
            biased;
            () = self.waiting_callers.wait_until_busy() => {
                stop.cancel();
                rendering.await
            }
            answers = &mut rendering => answers,
        }
    }

    /// Caches the rendered entry points. Interrupted ones are tried again later.
    async fn cache_answers(
        &self,
        answered: impl Iterator<Item = (RenderJob, Result<RenderedEntrypoint, TankaError>)>,
        rendering: &mut PrerenderState,
    ) -> Result<Option<PrerenderEnd>, CompareError> {
        let is_interrupted =
            |(_, answer): &_| matches!(answer, Err(TankaError::Evaluation(EvalError::Cancelled)));
        let (interrupted, answered): (Vec<_>, Vec<_>) = answered.partition(is_interrupted);
        rendering
            .remaining
            .extend(interrupted.into_iter().map(|(job, _)| job));
        let has_no_place = answered
            .iter()
            .any(|(_, answer)| matches!(answer, Err(TankaError::Evaluation(EvalError::Sandbox(_)))));
        let (redactor, spool, tree, graph) = (
            Arc::clone(&self.redactor),
            self.spool.clone(),
            Arc::clone(&rendering.tree),
            Arc::clone(&rendering.graph),
        );
        let results = blocking(move || {
            // An entry point that imports other entry points is not cached here, but by a comparison that renders
            // both.
            let context = RedactionContext {
                redactor: &redactor,
                spool: &spool,
                tree: tree.as_ref(),
                graph: &graph,
                inner_secrets: &EntrypointSecrets::new(),
            };
            let results = answered
                .into_iter()
                .map(|answered| render_result(answered, context));
            Ok(results.collect::<Vec<_>>())
        });
        for result in results.await? {
            let (Ok(rendered), Some(key)) = (result.outcome, result.key) else {
                rendering.result.failed += 1;
                continue;
            };
            rendering.bytes += rendered.bytes();
            if rendering.bytes > self.prerender_bytes_max {
                return Ok(Some(PrerenderEnd::Full));
            }
            self.render_cache().put(key, &rendered);
            rendering.result.rendered += 1;
        }
        Ok(has_no_place.then_some(PrerenderEnd::NoWorker))
    }
}

/// An evaluator for background work.
struct BackgroundEvaluator(Arc<dyn Evaluate>);

#[async_trait]
impl Evaluate for BackgroundEvaluator {
    async fn evaluate(
        &self,
        request: EvalRequest,
        cancel: &CancellationToken,
    ) -> Result<Evaluation, EvalError> {
        let answers = self.0.evaluate_in_background(vec![request], cancel).await;
        answers.into_iter().next().unwrap_or(Err(EvalError::Cancelled))
    }

    async fn evaluate_all(
        &self,
        requests: Vec<EvalRequest>,
        _: &(dyn Fn() + Send + Sync),
        cancel: &CancellationToken,
    ) -> Vec<Result<Evaluation, EvalError>> {
        self.0.evaluate_in_background(requests, cancel).await
    }
}
