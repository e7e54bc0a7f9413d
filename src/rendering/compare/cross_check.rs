//! The cross-check of values that are already rendered: the second engine evaluates the same programs, and the
//! hashes of the values are compared.

use super::failure::{kind_of_evaluation, line};
use super::render_cache::{CachedRender, CrossCheckVerdict};
use super::render_result::covers_imports;
use super::rendering::{RenderJob, RenderSide};
use super::secrets::with_secrets;
use super::{CompareError, Comparer};
use crate::base::redact::Redactor;
use crate::rendering::jsonnet::{CrossCheckMode, CrossCheckResult, EvalError};
use crate::rendering::review::FailureKind;
use crate::rendering::tanka::TankaError;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// A job that only the first engine has rendered.
pub(super) type UncheckedRender = (RenderJob, Arc<CachedRender>);

/// The jobs after the cross-check.
#[derive(Default)]
pub(super) struct CrossCheckedJobs {
    /// The jobs with a verdict. The flag is true if the verdict depends only on the inputs of the job, so that it
    /// can be cached.
    pub(super) checked: Vec<(RenderJob, Arc<CachedRender>, bool)>,
    /// The jobs with a different hash. Both engines must evaluate these again to compare the values.
    pub(super) differing: Vec<RenderJob>,
}

impl Comparer {
    /// Evaluates the jobs with the second engine. `done` is called after each job.
    pub(super) async fn cross_check(
        &self,
        side: RenderSide<'_>,
        unheard: Vec<UncheckedRender>,
        done: &(dyn Fn(usize) + Send + Sync),
        cancel: &CancellationToken,
    ) -> Result<CrossCheckedJobs, CompareError> {
        let mut heard = CrossCheckedJobs::default();
        if unheard.is_empty() {
            return Ok(heard);
        }
        let target = |(job, _): &UncheckedRender| {
            let entrypoint = job.entrypoint.as_str();
            side.variables
                .entrypoint(entrypoint, CrossCheckMode::SecondEngineOnly)
        };
        let targets = unheard.iter().map(target).collect();
        let renderer = self.renderer(side.tree);
        let answers = renderer.hash_all(targets, &|| done(1), cancel).await;
        if cancel.is_cancelled() {
            return Err(CompareError::Cancelled);
        }
        for ((job, rendered), answer) in unheard.into_iter().zip(answers) {
            let redactor = with_secrets(&self.redactor, &rendered.secrets);
            let (cross_check, is_covered) = match answer {
                Ok((value, imports)) if value == rendered.value => {
                    (CrossCheckVerdict::Agrees, covers_imports(&job.closure, &imports))
                }
                Ok(_) => {
                    heard.differing.push(job);
                    continue;
                }
                Err(TankaError::Evaluation(error)) => (failed_verdict(&error, &redactor), false),
                Err(error) => (unfinished_verdict(&error.to_string(), &redactor), false),
            };
            let rendered = Arc::new(CachedRender {
                members: Arc::clone(&rendered.members),
                value: rendered.value,
                cross_check,
                secrets: Arc::clone(&rendered.secrets),
            });
            heard.checked.push((job, rendered, is_covered));
        }
        Ok(heard)
    }
}

/// Converts the result of a cross-check to the verdict that is cached.
pub(super) fn verdict(second: CrossCheckResult, redactor: &Redactor) -> CrossCheckVerdict {
    match second {
        CrossCheckResult::NotRun => CrossCheckVerdict::NotAsked,
        CrossCheckResult::Agrees => CrossCheckVerdict::Agrees,
        CrossCheckResult::Differs {
            known: Some(known), ..
        } => CrossCheckVerdict::DiffersAsKnown { known },
        CrossCheckResult::Differs { path, .. } => CrossCheckVerdict::Differs {
            path: line(&redactor.redact(&path)),
        },
        CrossCheckResult::Failed(error) => failed_verdict(&error, redactor),
    }
}

fn failed_verdict(error: &EvalError, redactor: &Redactor) -> CrossCheckVerdict {
    match kind_of_evaluation(error) {
        FailureKind::Program => CrossCheckVerdict::Refuses {
            why: line(&redactor.redact(&error.to_string())),
        },
        FailureKind::Objects | FailureKind::Disputed | FailureKind::Bound | FailureKind::Unavailable => {
            unfinished_verdict(&error.to_string(), redactor)
        }
    }
}

fn unfinished_verdict(why: &str, redactor: &Redactor) -> CrossCheckVerdict {
    CrossCheckVerdict::Unfinished {
        why: line(&redactor.redact(why)),
    }
}
