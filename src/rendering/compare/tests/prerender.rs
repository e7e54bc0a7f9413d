//! A base that is rendered in the background.

use super::{CompareFixture, fixture, impact, repository, sides, states, web};
use crate::base::model::CheckState;
use crate::base::redact::Redactor;
use crate::rendering::compare::{CompareRequest, Comparer, PrerenderEnd, PrerenderResult, Sides};
use crate::rendering::jsonnet::{EvalError, EvalRequest, Evaluation};
use crate::rendering::review::{Impact, NotProven};
use crate::rendering::tanka::Evaluate;
use crate::rendering::tanka::testing::JsonEvaluator;
use crate::rendering::tanka::testing::ReadOnlyTree;
use async_trait::async_trait;
use futures_util::FutureExt as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

const NAMES: [&str; 3] = ["dev", "other", "prod"];

fn entrypoints(names: &[&str], mark: &str) -> Vec<String> {
    let entrypoint = |name: &&str| format!("environments/{name}/main.jsonnet{mark}");
    names.iter().map(entrypoint).collect()
}

fn prerender_result(rendered: usize, known: usize, failed: usize, ended: PrerenderEnd) -> PrerenderResult {
    PrerenderResult {
        rendered,
        known,
        failed,
        end: ended,
    }
}

impl CompareFixture {
    async fn prerender(&self, files: &[(&str, &str)]) -> PrerenderResult {
        self.comparer.prerender(sides(files, files)).await.unwrap()
    }
}

#[tokio::test]
async fn a_prerendered_base_is_neither_read_nor_rendered_again() {
    let fixture = fixture();
    let (two, three) = (web(2), web(3));
    let base = repository(&[("lib/web.libsonnet", &two)]);
    let head = repository(&[("lib/web.libsonnet", &three)]);
    let done = fixture.prerender(&base).await;
    assert_eq!(done, prerender_result(3, 0, 0, PrerenderEnd::Done));
    assert_eq!(fixture.evaluated(), entrypoints(&NAMES, ""));
    let sides = Sides {
        base: ReadOnlyTree::new(&[]),
        ..sides(&base, &head)
    };
    let comparison = fixture.compare(CompareRequest::all(sides, "")).await.unwrap();
    assert_eq!(
        fixture.evaluated(),
        entrypoints(&["dev", "prod"], " cross-checked")
    );
    assert_eq!(states(&comparison), [(CheckState::Pass, ""); 4]);
    assert_eq!(comparison.report.counts.affected, 2);
    // Cached entries are not rendered again, even if a comparison rendered them.
    let again = fixture.prerender(&base).await;
    assert_eq!(again, prerender_result(0, 3, 0, PrerenderEnd::Done));
    assert!(fixture.evaluated().is_empty());
}

#[tokio::test]
async fn a_base_that_failed_to_prerender_is_evaluated_again_by_the_comparison() {
    let fixture = fixture();
    let base = repository(&[("lib/web.libsonnet", "broken")]);
    let done = fixture.prerender(&base).await;
    assert_eq!(done, prerender_result(1, 0, 2, PrerenderEnd::Done));
    assert_eq!(fixture.evaluated(), entrypoints(&NAMES, ""));
    let two = web(2);
    let head = repository(&[("lib/web.libsonnet", &two)]);
    let comparison = fixture.all(&base, &head).await;
    assert!(matches!(
        impact(&comparison, "environments/dev"),
        Impact::NotProven {
            reason: NotProven::FailsOnBase { .. }
        }
    ));
    let both = ["dev", "prod"].map(|name| ["", " cross-checked"].map(|mark| entrypoints(&[name], mark)));
    assert_eq!(fixture.evaluated(), both.as_flattened().concat());
}

#[tokio::test]
async fn prerendering_stops_at_its_share_of_the_render_cache() {
    let mut fixture = fixture();
    let two = web(2);
    let base = repository(&[("lib/web.libsonnet", &two)]);
    // Enough for two entry points but not for three.
    Arc::get_mut(&mut fixture.comparer).unwrap().prerender_bytes_max = 2 * 1_024 + 2 * two.len();
    let done = fixture.prerender(&base).await;
    assert_eq!(done, prerender_result(2, 0, 0, PrerenderEnd::Full));
    let three = web(3);
    fixture.evaluated();
    fixture
        .all(&base, &repository(&[("lib/web.libsonnet", &three)]))
        .await;
    let rendered = [
        entrypoints(&["dev"], " cross-checked"),
        entrypoints(&["prod"], ""),
        entrypoints(&["prod"], " cross-checked"),
    ];
    assert_eq!(fixture.evaluated(), rendered.concat());
}

/// Evaluates only with a permit, or fails with a given error.
struct GatedEvaluator {
    small: JsonEvaluator,
    allowed: Semaphore,
    error: Mutex<Option<EvalError>>,
}

#[async_trait]
impl Evaluate for GatedEvaluator {
    async fn evaluate(
        &self,
        request: EvalRequest,
        cancel: &CancellationToken,
    ) -> Result<Evaluation, EvalError> {
        if let Some(error) = self.error.lock().unwrap().clone() {
            return Err(error);
        }
        tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(EvalError::Cancelled),
            allowed = self.allowed.acquire() => allowed.unwrap().forget(),
        }
        self.small.evaluate(request, cancel).await
    }
}

fn gated_evaluator(allowed: usize, error: Option<EvalError>) -> (Arc<GatedEvaluator>, Arc<Comparer>) {
    let gated = Arc::new(GatedEvaluator {
        small: JsonEvaluator::default(),
        allowed: Semaphore::new(allowed),
        error: Mutex::new(error),
    });
    let evaluator = Arc::clone(&gated) as Arc<dyn Evaluate>;
    let comparer = Comparer::new(evaluator, Arc::new(Redactor::new([])), b"key".to_vec());
    (gated, Arc::new(comparer))
}

/// The clock is paused, so that a second passes once all tasks wait.
#[tokio::test(start_paused = true)]
async fn prerendering_pauses_during_a_comparison_and_resumes_after_it() {
    let (two, three) = (web(2), web(3));
    let base = repository(&[("lib/web.libsonnet", &two)]);
    let head = repository(&[("lib/web.libsonnet", &three)]);
    let (gated, comparer) = gated_evaluator(1, None);
    let asked = || std::mem::take(&mut *gated.small.requests.lock().unwrap());
    let second = Duration::from_secs(1);
    let rendering = comparer.prerender(sides(&base, &base));
    tokio::pin!(rendering);
    assert!(timeout(second, rendering.as_mut()).await.is_err());
    assert_eq!(asked(), entrypoints(&["dev"], ""));
    // Once a comparison begins, no evaluation is started, and finished ones are kept.
    let never = CancellationToken::new();
    let comparing = comparer.compare(CompareRequest::all(sides(&base, &head), ""), &never);
    tokio::pin!(comparing);
    assert!(comparing.as_mut().now_or_never().is_none());
    gated.allowed.add_permits(100);
    assert!(timeout(second, rendering.as_mut()).await.is_err());
    assert!(asked().is_empty());
    let comparison = comparing.await.unwrap();
    assert_eq!(comparison.report.counts.affected, 2);
    let mut rendered = asked();
    rendered.sort();
    let both = [
        entrypoints(&["dev"], " cross-checked"),
        entrypoints(&["prod"], ""),
        entrypoints(&["prod"], " cross-checked"),
    ];
    assert_eq!(rendered, both.concat());
    assert_eq!(
        rendering.await.unwrap(),
        prerender_result(2, 1, 0, PrerenderEnd::Done)
    );
    assert_eq!(asked(), entrypoints(&["other"], ""));
}

#[tokio::test]
async fn prerendering_ends_without_renders_if_the_sandbox_cannot_start() {
    let error = EvalError::Sandbox("no layer holds".to_owned());
    let (gated, comparer) = gated_evaluator(100, Some(error));
    let base = repository(&[("lib/web.libsonnet", "{}")]);
    let done = comparer.prerender(sides(&base, &base)).await.unwrap();
    assert_eq!(done, prerender_result(0, 0, 3, PrerenderEnd::NoWorker));
    assert!(gated.small.requests.lock().unwrap().is_empty());
    let empty = comparer.prerender(sides(&[], &[])).await.unwrap();
    assert_eq!(empty, prerender_result(0, 0, 0, PrerenderEnd::Done));
}
