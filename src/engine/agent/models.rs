//! The models that may answer the calls of a turn, in order: the default model, then its fallbacks.

use super::CallSize;
use super::context::ContextBudget;
use crate::base::config::{Config, ModelFacts};
use crate::base::model::{Limits, Spending};
use crate::interfaces::provider::{Provider, Providers};
use std::sync::Arc;

/// A model that may answer the calls of a turn.
#[derive(Clone, Copy)]
pub struct TurnModel<'a> {
    /// The provider of the model.
    pub provider: &'a dyn Provider,
    /// The name of the model, without its provider.
    pub name: &'a str,
    /// The limits and prices of the model.
    pub facts: ModelFacts,
}

impl TurnModel<'_> {
    /// Returns the name as `provider/model`.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.provider.id(), self.name)
    }

    /// Returns the maximum number of tokens of an answer.
    pub(super) fn answer_tokens_max(&self, limits: &Limits) -> u32 {
        let tokens = limits.answer_tokens_max;
        let tokens = self
            .facts
            .answer_tokens_max
            .map_or(tokens, |most| tokens.min(most));
        // An answer that takes the whole window leaves no room for a request.
        match self.facts.context_tokens {
            Some(window) if tokens >= window => window / 2,
            Some(_) | None => tokens,
        }
    }

    /// Returns the bounds of requests with `fixed` bytes of instructions and tools.
    pub(super) fn budget(&self, limits: &Limits, fixed: usize) -> ContextBudget {
        let limits = Limits {
            answer_tokens_max: self.answer_tokens_max(limits),
            ..limits.clone()
        };
        ContextBudget::new(&limits, self.facts.context_tokens, fixed)
    }
}

/// The configured models, in order. There is at least the default model.
#[derive(Clone)]
pub struct ModelChain {
    models: Vec<ChainedModel>,
}

#[derive(Clone)]
struct ChainedModel {
    provider: Arc<dyn Provider>,
    name: String,
    facts: ModelFacts,
}

impl ModelChain {
    /// Finds the providers of the configured models. The error names the key to set.
    pub fn resolve(config: &Config, providers: &Providers) -> Result<Self, String> {
        let models = config.model.in_order().map(|model| {
            let (provider, name) = providers.resolve(model)?;
            let facts = config.model_facts(provider.id(), &name);
            Ok(ChainedModel {
                provider,
                name,
                facts,
            })
        });
        Ok(Self {
            models: models.collect::<Result<_, String>>()?,
        })
    }

    /// Returns the models, in order.
    pub fn models(&self) -> Vec<TurnModel<'_>> {
        let models = self.models.iter().map(|model| TurnModel {
            provider: model.provider.as_ref(),
            name: &model.name,
            facts: model.facts,
        });
        models.collect()
    }

    /// Returns the facts about the default model.
    pub fn default_facts(&self) -> ModelFacts {
        self.models.first().map(|model| model.facts).unwrap_or_default()
    }
}

/// Returns the most that a call costs, whichever of the models answers it.
pub fn call_cost_max(models: &[ModelFacts], call: CallSize) -> Spending {
    let costs = models.iter().map(|facts| {
        Spending::of_call_max(
            call.request_bytes,
            call.bytes_per_1000_tokens,
            call.answer_tokens_max,
            facts.price.as_ref(),
        )
    });
    costs.reduce(Spending::max).unwrap_or_default()
}
