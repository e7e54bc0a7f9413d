//! A base that is rendered before anybody asks.

use super::{Bench, Small, bench, repository, sides, standing, states, web};
use crate::compare::{Ahead, Asked, Comparer, Ended, Sides};
use crate::jsonnet::{EvalError, Evaluated, Request};
use crate::model::CheckState;
use crate::redact::Redactor;
use crate::review::{NotProven, Standing};
use crate::tanka::Evaluate;
use crate::tanka::testing::Files;
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

fn ahead(rendered: usize, known: usize, failed: usize, ended: Ended) -> Ahead {
    Ahead {
        rendered,
        known,
        failed,
        ended,
    }
}

impl Bench {
    async fn render_ahead(&self, files: &[(&str, &str)]) -> Ahead {
        self.comparer.render_ahead(sides(files, files)).await.unwrap()
    }
}

#[tokio::test]
async fn a_base_that_was_rendered_ahead_is_neither_read_nor_rendered_again() {
    let bench = bench();
    let (two, three) = (web(2), web(3));
    let base = repository(&[("lib/web.libsonnet", &two)]);
    let head = repository(&[("lib/web.libsonnet", &three)]);
    let done = bench.render_ahead(&base).await;
    assert_eq!(done, ahead(3, 0, 0, Ended::Done));
    assert_eq!(bench.evaluated(), entrypoints(&NAMES, ""));
    let sides = Sides {
        base: Files::new(&[]),
        ..sides(&base, &head)
    };
    let comparison = bench.compare(Asked::all(sides, "")).await.unwrap();
    assert_eq!(bench.evaluated(), entrypoints(&["dev", "prod"], " with opinion"));
    assert_eq!(states(&comparison), [(CheckState::Pass, ""); 4]);
    assert_eq!(comparison.report.counts.affected, 2);
    // What is known is not rendered ahead again, whoever rendered it.
    let again = bench.render_ahead(&base).await;
    assert_eq!(again, ahead(0, 3, 0, Ended::Done));
    assert!(bench.evaluated().is_empty());
}

#[tokio::test]
async fn what_does_not_render_ahead_is_asked_for_again_by_whoever_needs_it() {
    let bench = bench();
    let base = repository(&[("lib/web.libsonnet", "broken")]);
    let done = bench.render_ahead(&base).await;
    assert_eq!(done, ahead(1, 0, 2, Ended::Done));
    assert_eq!(bench.evaluated(), entrypoints(&NAMES, ""));
    let two = web(2);
    let head = repository(&[("lib/web.libsonnet", &two)]);
    let comparison = bench.all(&base, &head).await;
    assert!(matches!(
        standing(&comparison, "environments/dev"),
        Standing::NotProven {
            reason: NotProven::FailsOnBase { .. }
        }
    ));
    let both = ["dev", "prod"].map(|name| ["", " with opinion"].map(|mark| entrypoints(&[name], mark)));
    assert_eq!(bench.evaluated(), both.as_flattened().concat());
}

#[tokio::test]
async fn a_base_does_not_take_the_room_of_what_people_make_of_it() {
    let mut bench = bench();
    let two = web(2);
    let base = repository(&[("lib/web.libsonnet", &two)]);
    // Enough for two entry points and not for three.
    Arc::get_mut(&mut bench.comparer).unwrap().ahead_bytes_max = 2 * 1_024 + 2 * two.len();
    let done = bench.render_ahead(&base).await;
    assert_eq!(done, ahead(2, 0, 0, Ended::Full));
    let three = web(3);
    bench.evaluated();
    bench
        .all(&base, &repository(&[("lib/web.libsonnet", &three)]))
        .await;
    let rendered = [
        entrypoints(&["dev"], " with opinion"),
        entrypoints(&["prod"], ""),
        entrypoints(&["prod"], " with opinion"),
    ];
    assert_eq!(bench.evaluated(), rendered.concat());
}

/// Evaluates as often as it is allowed to, or ends as it is told to.
struct Gated {
    small: Small,
    allowed: Semaphore,
    error: Mutex<Option<EvalError>>,
}

#[async_trait]
impl Evaluate for Gated {
    async fn evaluate(&self, request: Request, cancel: &CancellationToken) -> Result<Evaluated, EvalError> {
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

fn gated(allowed: usize, error: Option<EvalError>) -> (Arc<Gated>, Arc<Comparer>) {
    let gated = Arc::new(Gated {
        small: Small::default(),
        allowed: Semaphore::new(allowed),
        error: Mutex::new(error),
    });
    let evaluator = Arc::clone(&gated) as Arc<dyn Evaluate>;
    let comparer = Comparer::new(evaluator, Arc::new(Redactor::new([])), b"key".to_vec());
    (gated, Arc::new(comparer))
}

/// The clock stands still, and a second is over as soon as everything waits for something else.
#[tokio::test(start_paused = true)]
async fn rendering_ahead_makes_way_for_a_comparison_and_goes_on_after_it() {
    let (two, three) = (web(2), web(3));
    let base = repository(&[("lib/web.libsonnet", &two)]);
    let head = repository(&[("lib/web.libsonnet", &three)]);
    let (gated, comparer) = gated(1, None);
    let asked = || std::mem::take(&mut *gated.small.asked.lock().unwrap());
    let second = Duration::from_secs(1);
    let rendering = comparer.render_ahead(sides(&base, &base));
    tokio::pin!(rendering);
    assert!(timeout(second, rendering.as_mut()).await.is_err());
    assert_eq!(asked(), entrypoints(&["dev"], ""));
    // As soon as somebody compares, nothing is begun any more, and what is done is kept.
    let never = CancellationToken::new();
    let comparing = comparer.compare(Asked::all(sides(&base, &head), ""), &never);
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
        entrypoints(&["dev"], " with opinion"),
        entrypoints(&["prod"], ""),
        entrypoints(&["prod"], " with opinion"),
    ];
    assert_eq!(rendered, both.concat());
    assert_eq!(rendering.await.unwrap(), ahead(2, 1, 0, Ended::Done));
    assert_eq!(asked(), entrypoints(&["other"], ""));
}

#[tokio::test]
async fn where_nothing_can_be_evaluated_nothing_is_rendered_ahead() {
    let error = EvalError::Jail("no layer holds".to_owned());
    let (gated, comparer) = gated(100, Some(error));
    let base = repository(&[("lib/web.libsonnet", "{}")]);
    let done = comparer.render_ahead(sides(&base, &base)).await.unwrap();
    assert_eq!(done, ahead(0, 0, 3, Ended::NoPlace));
    assert!(gated.small.asked.lock().unwrap().is_empty());
    let empty = comparer.render_ahead(sides(&[], &[])).await.unwrap();
    assert_eq!(empty, ahead(0, 0, 0, Ended::Done));
}
