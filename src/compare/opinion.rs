//! The cross-check of values that are there already: the second engine evaluates the same programs, and the
//! hashes of what comes out are compared.

use super::failure::{kind_of_evaluation, line};
use super::kept::{Opinion, Rendered};
use super::rendering::{Job, Side};
use super::secrets::knowing;
use super::settled::covers;
use super::{CompareError, Comparer};
use crate::jsonnet::{EvalError, SecondOpinion, SecondOpinionWanted};
use crate::redact::Redactor;
use crate::review::FailureKind;
use crate::tanka::TankaError;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// A job that was rendered by the first engine.
pub(super) type Unheard = (Job, Arc<Rendered>);

/// The jobs after the cross-check.
#[derive(Default)]
pub(super) struct Heard {
    /// The jobs the second engine had a verdict about; true where the verdict depends on no more than they do, so that
    /// it may be kept.
    pub(super) settled: Vec<(Job, Arc<Rendered>, bool)>,
    /// The jobs it wrote another value for: both engines have to evaluate them side by side.
    pub(super) apart: Vec<Job>,
}

impl Comparer {
    /// Has the second engine evaluate them. `done` is told of each.
    pub(super) async fn hear(
        &self,
        side: Side<'_>,
        unheard: Vec<Unheard>,
        done: &(dyn Fn(usize) + Send + Sync),
        cancel: &CancellationToken,
    ) -> Result<Heard, CompareError> {
        let mut heard = Heard::default();
        if unheard.is_empty() {
            return Ok(heard);
        }
        let target = |(job, _): &Unheard| {
            let entrypoint = job.entrypoint.as_str();
            side.variables.entrypoint(entrypoint, SecondOpinionWanted::Alone)
        };
        let targets = unheard.iter().map(target).collect();
        let renderer = self.renderer(side.tree);
        let answers = renderer.hash_all(targets, &|| done(1), cancel).await;
        if cancel.is_cancelled() {
            return Err(CompareError::Cancelled);
        }
        for ((job, rendered), answer) in unheard.into_iter().zip(answers) {
            let redactor = knowing(&self.redactor, &rendered.secrets);
            let (opinion, is_covered) = match answer {
                Ok((value, imports)) if value == rendered.value => {
                    (Opinion::Agrees, covers(&job.closure, &imports))
                }
                Ok(_) => {
                    heard.apart.push(job);
                    continue;
                }
                Err(TankaError::Evaluation(error)) => (failed(&error, &redactor), false),
                Err(error) => (unfinished(&error.to_string(), &redactor), false),
            };
            let rendered = Arc::new(Rendered {
                members: Arc::clone(&rendered.members),
                value: rendered.value,
                opinion,
                secrets: Arc::clone(&rendered.secrets),
            });
            heard.settled.push((job, rendered, is_covered));
        }
        Ok(heard)
    }
}

/// Returns the verdict that is kept of a cross-check.
pub(super) fn opinion(second: SecondOpinion, redactor: &Redactor) -> Opinion {
    match second {
        SecondOpinion::NotAsked => Opinion::NotAsked,
        SecondOpinion::Agrees => Opinion::Agrees,
        SecondOpinion::Differs {
            known: Some(known), ..
        } => Opinion::Known { known },
        SecondOpinion::Differs { path, .. } => Opinion::Differs {
            path: line(&redactor.redact(&path)),
        },
        SecondOpinion::Failed(error) => failed(&error, redactor),
    }
}

fn failed(error: &EvalError, redactor: &Redactor) -> Opinion {
    match kind_of_evaluation(error) {
        FailureKind::Program => Opinion::Refuses {
            why: line(&redactor.redact(&error.to_string())),
        },
        FailureKind::Objects | FailureKind::Disputed | FailureKind::Bound | FailureKind::Unavailable => {
            unfinished(&error.to_string(), redactor)
        }
    }
}

fn unfinished(why: &str, redactor: &Redactor) -> Opinion {
    Opinion::Unfinished {
        why: line(&redactor.redact(why)),
    }
}
