//! Renders a base before anybody asks, so that a comparison with it finds that side done. Nothing of it is
//! shown by itself: it is kept, under the names a comparison looks for. It makes way for whoever waits.

use super::render_cache::CACHE_BYTES_MAX;
use super::render_result::{RedactionContext, render_result};
use super::rendering::{RenderJob, RenderSide, jobs};
use super::request::{Sides, Variables};
use super::secrets::EntrypointSecrets;
use super::{CompareError, Comparer, blocking};
use crate::jsonnet::{CrossCheckMode, EvalError, EvalRequest, Evaluation};
use crate::model::RepoPath;
use crate::tanka::importers::ImportGraph;
use crate::tanka::{Evaluate, RenderedEntrypoint, Renderer, TankaError};
use crate::workspace::Tree;
use async_trait::async_trait;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Bytes of one base that are rendered ahead. The other half of what can be kept is for what people make
/// of it: were it more, the first comparison of everything would push out what it needs.
pub(super) const BYTES_MAX: usize = CACHE_BYTES_MAX / 2;
/// Entry points that are rendered together, by one process.
const TOGETHER_MAX: usize = 32;

/// The result of rendering a base ahead of its use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrerenderResult {
    /// Entry points that are kept now and were not before.
    pub rendered: usize,
    /// Entry points that were kept before.
    pub known: usize,
    /// Entry points that do not render, or that may not be kept.
    pub failed: usize,
    /// The reason it went no further.
    pub end: PrerenderEnd,
}

/// The reason rendering ahead went no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrerenderEnd {
    /// All entry points are done.
    Done,
    /// The next entry points would not leave enough room for others.
    Full,
    /// No program can be evaluated here, or there is no place beside the one for people.
    NoWorker,
}

/// A base while it is rendered.
struct PrerenderState {
    tree: Arc<dyn Tree>,
    graph: Arc<ImportGraph>,
    remaining: VecDeque<RenderJob>,
    bytes: usize,
    result: PrerenderResult,
}

impl Comparer {
    /// Renders the base of these sides as far as it is to be kept, and makes its import graph. It waits
    /// while anybody has something compared or evaluated, and ends when it is dropped.
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
        let aside = Arc::new(BackgroundEvaluator(Arc::clone(&self.evaluator)));
        let renderer = Renderer::new(Arc::clone(&sides.base), aside);
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

    /// The next entry points that are not kept.
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

    /// Renders a batch, until somebody compares: what has an answer by then keeps it.
    async fn render_in_background(
        &self,
        renderer: &Renderer,
        batch: &[RenderJob],
    ) -> Vec<Result<RenderedEntrypoint, TankaError>> {
        let variables = Variables::default();
        let target = |job: &RenderJob| variables.entrypoint(job.entrypoint.as_str(), CrossCheckMode::Off);
        let stop = CancellationToken::new();
        // Whoever compares waits for no more than this batch.
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

    /// Keeps what was rendered. What was interrupted is left for another time.
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
        let settled = blocking(move || {
            // One that is built on another is kept by whoever renders both.
            let eyes = RedactionContext {
                redactor: &redactor,
                spool: &spool,
                tree: tree.as_ref(),
                graph: &graph,
                inner_secrets: &EntrypointSecrets::new(),
            };
            let settled = answered.into_iter().map(|answered| render_result(answered, eyes));
            Ok(settled.collect::<Vec<_>>())
        });
        for settled in settled.await? {
            let (Ok(rendered), Some(key)) = (settled.outcome, settled.key) else {
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

/// An evaluator as it is for work that nobody waits for.
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
