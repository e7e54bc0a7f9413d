//! The costs of model calls, as a journal records them: which model answered, and what was paid beside its answer.

use crate::base::model::Usage;
use crate::interfaces::provider::{LostCharge, SideCosts};

/// A model that answered a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnsweringModel<'a> {
    /// The name of its provider in the configuration.
    pub provider: &'a str,
    /// Its name in the configuration, without the provider. Its prices have this name.
    pub name: &'a str,
    /// Its name in the answer.
    pub reported: &'a str,
}

/// An answer that a provider charges for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PaidAnswer<'a> {
    /// The model that wrote it.
    pub model: AnsweringModel<'a>,
    /// The tokens that it used.
    pub usage: Usage,
}

/// The costs of a call beside those of its answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallLosses<'a> {
    /// The answers that were paid and not used.
    pub discarded: Vec<PaidAnswer<'a>>,
    /// The possible charge for answers that were lost. If there is one, the reservation of the call stays.
    pub lost: LostCharge,
}

impl<'a> CallLosses<'a> {
    /// Adds the costs of a call of one model, which is named by the configuration.
    pub(super) fn add(&mut self, (provider, name): (&'a str, &'a str), side: &'a SideCosts) {
        self.lost = self.lost.or(side.lost);
        self.discarded
            .extend(side.unused.as_ref().map(|unused| PaidAnswer {
                model: AnsweringModel {
                    provider,
                    name,
                    reported: &unused.model,
                },
                usage: unused.usage,
            }));
    }

    /// Returns the tokens of the answers that were not used.
    pub(super) fn usage(&self) -> Usage {
        let mut usage = Usage::default();
        self.discarded.iter().for_each(|answer| usage += answer.usage);
        usage
    }
}
