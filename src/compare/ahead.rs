//! Renders a base before anybody asks, so that a comparison with it finds that side done. Nothing of it is
//! shown by itself: it is kept, under the names a comparison looks for. It makes way for whoever waits.

use super::asked::{Sides, Variables};
use super::kept::KEPT_BYTES_MAX;
use super::rendering::{Job, Side, jobs};
use super::secrets::Held;
use super::settled::{Eyes, settle};
use super::{CompareError, Comparer, blocking};
use crate::jsonnet::{EvalError, Evaluated, Request, SecondOpinionWanted};
use crate::model::RepoPath;
use crate::tanka::importers::ImportGraph;
use crate::tanka::{Evaluate, Renderer, TankaError, Whole};
use crate::workspace::Tree;
use async_trait::async_trait;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Bytes of one base that are rendered ahead. The other half of what can be kept is for what people make
/// of it: were it more, the first comparison of everything would push out what it needs.
pub(super) const BYTES_MAX: usize = KEPT_BYTES_MAX / 2;
/// Entry points that are rendered together, by one process.
const TOGETHER_MAX: usize = 32;

/// The result of rendering a base ahead of its use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ahead {
    /// Entry points that are kept now and were not before.
    pub rendered: usize,
    /// Entry points that were kept before.
    pub known: usize,
    /// Entry points that do not render, or that may not be kept.
    pub failed: usize,
    /// The reason it went no further.
    pub ended: Ended,
}

/// The reason rendering ahead went no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All entry points are done.
    Done,
    /// The next entry points would not leave enough room for others.
    Full,
    /// No program can be evaluated here, or there is no place beside the one for people.
    NoPlace,
}

/// A base while it is rendered.
struct Rendering {
    tree: Arc<dyn Tree>,
    graph: Arc<ImportGraph>,
    left: VecDeque<Job>,
    bytes: usize,
    ahead: Ahead,
}

impl Comparer {
    /// Renders the base of these sides as far as it is to be kept, and makes its import graph. It waits
    /// while anybody has something compared or evaluated, and ends when it is dropped.
    pub async fn render_ahead(self: &Arc<Self>, sides: Sides) -> Result<Ahead, CompareError> {
        let (comparer, of) = (Arc::clone(self), sides.clone());
        let graph = blocking(move || comparer.graphs.base(&of)).await?;
        let entrypoints = graph.closures().keys().take(self.rendered_max);
        let entrypoints: Vec<RepoPath> = entrypoints.cloned().collect();
        let side = Side {
            tree: &sides.base,
            graph: &graph,
            variables: &Variables::default(),
            wants_values: false,
        };
        let mut rendering = Rendering {
            tree: Arc::clone(&sides.base),
            graph: Arc::clone(&graph),
            left: jobs(&side, &entrypoints, BTreeSet::new()).await?.into(),
            bytes: 0,
            ahead: Ahead {
                rendered: 0,
                known: 0,
                failed: 0,
                ended: Ended::Done,
            },
        };
        let aside = Arc::new(Aside(Arc::clone(&self.evaluator)));
        let renderer = Renderer::new(Arc::clone(&sides.base), aside);
        loop {
            self.people.none().await;
            let batch = self.next(&mut rendering);
            if batch.is_empty() {
                return Ok(rendering.ahead);
            }
            let answers = self.aside(&renderer, &batch).await;
            let answered = batch.into_iter().zip(answers);
            if let Some(ended) = self.keep(answered, &mut rendering).await? {
                return Ok(Ahead {
                    ended,
                    ..rendering.ahead
                });
            }
        }
    }

    /// The next entry points that are not kept.
    fn next(&self, rendering: &mut Rendering) -> Vec<Job> {
        let mut batch = Vec::new();
        while batch.len() < TOGETHER_MAX
            && let Some(job) = rendering.left.pop_front()
        {
            match self.kept().get(&job.key) {
                Some(known) => {
                    rendering.bytes += known.bytes();
                    rendering.ahead.known += 1;
                }
                None => batch.push(job),
            }
        }
        batch
    }

    /// Renders a batch, until somebody compares: what has an answer by then keeps it.
    async fn aside(&self, renderer: &Renderer, batch: &[Job]) -> Vec<Result<Whole, TankaError>> {
        let variables = Variables::default();
        let target = |job: &Job| variables.entrypoint(job.entrypoint.as_str(), SecondOpinionWanted::No);
        let stop = CancellationToken::new();
        // Whoever compares waits for no more than this batch.
        let renderer = renderer.clone().in_room(&Arc::default());
        let rendering = renderer.show_all(batch.iter().map(target).collect(), &|| {}, &stop);
        tokio::pin!(rendering);
        tokio::select! {
            biased;
            () = self.people.some() => {
                stop.cancel();
                rendering.await
            }
            answers = &mut rendering => answers,
        }
    }

    /// Keeps what was rendered. What was interrupted is left for another time.
    async fn keep(
        &self,
        answered: impl Iterator<Item = (Job, Result<Whole, TankaError>)>,
        rendering: &mut Rendering,
    ) -> Result<Option<Ended>, CompareError> {
        let is_interrupted =
            |(_, answer): &_| matches!(answer, Err(TankaError::Evaluation(EvalError::Cancelled)));
        let (interrupted, answered): (Vec<_>, Vec<_>) = answered.partition(is_interrupted);
        rendering.left.extend(interrupted.into_iter().map(|(job, _)| job));
        let has_no_place = answered
            .iter()
            .any(|(_, answer)| matches!(answer, Err(TankaError::Evaluation(EvalError::Jail(_)))));
        let (redactor, spool, tree, graph) = (
            Arc::clone(&self.redactor),
            self.spool.clone(),
            Arc::clone(&rendering.tree),
            Arc::clone(&rendering.graph),
        );
        let settled = blocking(move || {
            // One that is built on another is kept by whoever renders both.
            let eyes = Eyes {
                redactor: &redactor,
                spool: &spool,
                tree: tree.as_ref(),
                graph: &graph,
                held: &Held::new(),
            };
            let settled = answered.into_iter().map(|answered| settle(answered, eyes));
            Ok(settled.collect::<Vec<_>>())
        });
        for settled in settled.await? {
            let (Ok(rendered), Some(key)) = (settled.outcome, settled.key) else {
                rendering.ahead.failed += 1;
                continue;
            };
            rendering.bytes += rendered.bytes();
            if rendering.bytes > self.ahead_bytes_max {
                return Ok(Some(Ended::Full));
            }
            self.kept().put(key, &rendered);
            rendering.ahead.rendered += 1;
        }
        Ok(has_no_place.then_some(Ended::NoPlace))
    }
}

/// An evaluator as it is for work that nobody waits for.
struct Aside(Arc<dyn Evaluate>);

#[async_trait]
impl Evaluate for Aside {
    async fn evaluate(&self, request: Request, cancel: &CancellationToken) -> Result<Evaluated, EvalError> {
        let answers = self.0.evaluate_aside(vec![request], cancel).await;
        answers.into_iter().next().unwrap_or(Err(EvalError::Cancelled))
    }

    async fn evaluate_all(
        &self,
        requests: Vec<Request>,
        _: &(dyn Fn() + Send + Sync),
        cancel: &CancellationToken,
    ) -> Vec<Result<Evaluated, EvalError>> {
        self.0.evaluate_aside(requests, cancel).await
    }
}
