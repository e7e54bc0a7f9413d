//! The costs of a call beside those of its answer. Attempts that are repeated may cost as much as the one that succeeds.

use crate::base::model::Usage;

/// The possibility of a charge for answers that did not arrive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LostCharge {
    /// Each request without an answer was refused before the provider worked on it.
    #[default]
    None,
    /// The provider accepted a request, and its answer was lost. Nobody knows what it did cost.
    Possible,
}

impl LostCharge {
    /// Returns the possibility of one charge or another.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        match self {
            Self::None => other,
            Self::Possible => Self::Possible,
        }
    }
}

/// A paid answer that is not used, because it was empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnusedAnswer {
    /// The model that wrote it, as named by the provider.
    pub model: String,
    /// The tokens that it used.
    pub usage: Usage,
}

/// The costs of a call beside those of its answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SideCosts {
    /// The answer that was paid and not used. An empty answer is requested only once more.
    pub unused: Option<UnusedAnswer>,
    /// The possible charge for answers that were lost.
    pub lost: LostCharge,
}

impl SideCosts {
    /// Returns the costs of a call of which nothing is known but that its request was sent.
    pub fn of_lost_answer() -> Self {
        Self {
            unused: None,
            lost: LostCharge::Possible,
        }
    }
}
