//! The models that may answer the calls of a turn, in order: the default model, then its fallbacks.

use super::CallSize;
use super::context::ContextBudget;
use crate::base::config::{Config, ModelFacts};
use crate::base::model::{AgentBounds, Attachment, Limits, MediaType, MediaTypes, Spending};
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

    /// Returns true if the model takes an attachment. A model about which this is not known takes none.
    pub(super) fn takes(&self, attachment: &Attachment) -> bool {
        let types = self.facts.attachments.unwrap_or_default();
        types.contains(attachment.media_type())
    }

    /// Returns the reason why the model cannot be asked about these attachments, with what to do; `None` if it takes all.
    pub fn refusal_of(&self, attachments: &[Attachment]) -> Option<String> {
        let refused = attachments.iter().find(|attachment| !self.takes(attachment))?;
        let (file, model) = (refused.file(), self.full_name());
        let kind = refused.media_type().name();
        Some(match self.facts.attachments {
            None => format!(
                "it is not known which files `{model}` takes, so {file} was not sent; set `attachments` of \
                 [models.\"{model}\"] to the types that it takes, or use another model"
            ),
            Some(types) => format!(
                "`{model}` does not take files of the type {kind}, so {file} was not sent; {}",
                remedy(types)
            ),
        })
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

/// Returns what to do about a file that a model with these types does not take.
fn remedy(types: MediaTypes) -> String {
    let known: Vec<&str> = types.iter().map(MediaType::word).collect();
    match known.is_empty() {
        true => "use another model".to_owned(),
        false => format!(
            "it takes {}; convert the file, or use another model",
            known.join(", ")
        ),
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

    /// Finds the model of an agent step of a pipeline, and no fallbacks. The definition comes from a repository, so it may
    /// name only what the operator has configured, and never where a key of the operator is sent. An error says what to do.
    pub fn of_step(config: &Config, providers: &Providers, bounds: &AgentBounds) -> Result<Self, String> {
        let model = &bounds.model;
        let (provider, name) = providers.resolve(model)?;
        let is_in_order = config.model.in_order().any(|known| {
            let known = providers.resolve(known);
            known.is_ok_and(|(known, known_name)| known.id() == provider.id() && known_name == name)
        });
        if !is_in_order && !config.models.is_listed(provider.id(), &name) {
            return Err(format!(
                "the operator of this server has not configured the model `{model}`; use one of {}, or ask for an entry \
                 [models.\"{model}\"]",
                config.model.in_order().collect::<Vec<_>>().join(", ")
            ));
        }
        if let Some(base_url) = &bounds.base_url {
            let prefix = model.split_once('/').map_or("", |(prefix, _)| prefix);
            let own = config
                .providers
                .get(prefix)
                .map(|settings| settings.base_url.as_str());
            if own.map(|own| own.trim_end_matches('/')) != Some(base_url.trim_end_matches('/')) {
                return Err(format!(
                    "`base_url` is not the address that the operator of this server has set for `{prefix}`; leave it out"
                ));
            }
        }
        let facts = config.model_facts(provider.id(), &name);
        if bounds.max_cents > 0 && facts.price.is_none() {
            return Err(format!(
                "the prices of `{model}` are not known, so a bound in cents cannot be kept; bound tokens instead, or ask the \
                 operator for price_input and price_output in [models.\"{model}\"]"
            ));
        }
        Ok(Self {
            models: vec![ChainedModel {
                provider,
                name,
                facts,
            }],
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
