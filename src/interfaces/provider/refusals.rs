//! The models that recently refused for a reason that an operator has to solve, such as a key that is not accepted. While
//! another model can answer, they are not asked again for a minute.

use super::failure::ProviderFailure;
use super::failure_kind::ProviderFailureKind;
use super::side_costs::SideCosts;
use super::{Completion, Patience, ProviderError};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// The time for which a refusal is remembered.
const REMEMBERED: Duration = Duration::from_secs(60);
/// The maximum number of models whose refusal is remembered.
const MODELS_MAX: usize = 64;

/// The recent refusals of one provider, by model.
#[derive(Debug, Default)]
pub(super) struct ModelRefusals {
    // The lock is never held across an await.
    by_model: Mutex<BTreeMap<String, (Instant, ProviderFailure)>>,
}

impl ModelRefusals {
    /// Returns an error if the model has refused recently and the caller has another one to ask.
    pub(super) fn check(&self, model: &str, patience: Patience) -> Result<(), ProviderError> {
        let refusal = (patience == Patience::Short).then(|| self.recent(model));
        match refusal.flatten() {
            Some(refusal) => Err(ProviderError::Failed(refusal)),
            None => Ok(()),
        }
    }

    /// Returns the refusal of a model, if it is recent.
    fn recent(&self, model: &str) -> Option<ProviderFailure> {
        let by_model = self.lock();
        let (until, failure) = by_model.get(model)?;
        (Instant::now() < *until).then(|| failure.clone())
    }

    /// Remembers a refusal, and forgets it after an answer.
    pub(super) fn record(&self, model: &str, outcome: &Result<Completion, ProviderError>) {
        let mut by_model = self.lock();
        match outcome {
            Ok(_) => {
                by_model.remove(model);
            }
            Err(ProviderError::Failed(failure)) if failure.kind == ProviderFailureKind::Refused => {
                let now = Instant::now();
                by_model.retain(|_, (until, _)| now < *until);
                if by_model.len() < MODELS_MAX {
                    let failure = ProviderFailure {
                        side: SideCosts::default(),
                        ..failure.clone()
                    };
                    by_model.insert(model.to_owned(), (now + REMEMBERED, failure));
                }
            }
            Err(_) => {}
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, (Instant, ProviderFailure)>> {
        self.by_model.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::{ModelRefusals, ProviderError, ProviderFailure, ProviderFailureKind};
    use std::time::Duration;

    fn failed(kind: ProviderFailureKind) -> Result<super::Completion, ProviderError> {
        Err(ProviderError::Failed(ProviderFailure::new(kind, "why")))
    }

    /// R9
    #[tokio::test(start_paused = true)]
    async fn a_refusal_is_remembered_for_a_minute_and_only_for_its_model() {
        let refusals = ModelRefusals::default();
        refusals.record("a", &failed(ProviderFailureKind::Refused));
        refusals.record("b", &failed(ProviderFailureKind::Overloaded));
        let known = |model: &str| refusals.recent(model).map(|failure| failure.detail);
        assert_eq!((known("a"), known("b")), (Some("why".to_owned()), None));
        tokio::time::advance(Duration::from_secs(59)).await;
        assert!(known("a").is_some());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(known("a"), None);
        for number in 0..100 {
            refusals.record(&number.to_string(), &failed(ProviderFailureKind::Refused));
        }
        assert_eq!((known("63").is_some(), known("64")), (true, None));
    }
}
