//! The kinds of provider failures and their texts. Every text about a failure, in a chat, a terminal, a log or a
//! status card, comes from this table.

use super::side_costs::LostCharge;
use std::fmt;

/// A kind of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProviderFailureKind {
    /// The provider gets too many requests; all callers should wait.
    RateLimiting,
    /// The provider is overloaded; all callers should wait.
    Overloaded,
    /// The provider has an internal error.
    Faulty,
    /// The provider cannot be reached.
    Unreached,
    /// The provider was reached, but no answer began.
    Silent,
    /// An answer began, but was not completed.
    Broken,
    /// The answer is not in the format of the API.
    Malformed,
    /// The provider refuses this key, account or model; an operator must act.
    Refused,
    /// The provider rejects this request, such as one that is too long.
    Rejected,
}

impl ProviderFailureKind {
    /// Returns the kind of failure for a status that implies a valid request; otherwise `None`.
    pub(super) fn from_status(status: u16) -> Option<Self> {
        match status {
            429 => Some(Self::RateLimiting),
            503 | 529 => Some(Self::Overloaded),
            408 | 409 | 500 | 502 | 504 | 520..=599 => Some(Self::Faulty),
            _ => None,
        }
    }

    /// Returns true if all callers of this provider should wait.
    pub(super) fn is_shared(self) -> bool {
        matches!(self, Self::RateLimiting | Self::Overloaded)
    }

    /// Returns the possible charge for a request that failed so. A request that was refused costs nothing.
    pub(super) fn lost_charge(self) -> LostCharge {
        match self {
            Self::Silent | Self::Broken | Self::Malformed => LostCharge::Possible,
            Self::RateLimiting
            | Self::Overloaded
            | Self::Faulty
            | Self::Unreached
            | Self::Refused
            | Self::Rejected => LostCharge::None,
        }
    }

    /// Returns true if an answer had begun.
    pub(super) fn is_mid_answer(self) -> bool {
        matches!(self, Self::Broken | Self::Malformed)
    }
}

impl fmt::Display for ProviderFailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::RateLimiting => "the model provider is rate-limiting",
            Self::Overloaded => "the model provider is overloaded",
            Self::Faulty => "the model provider has a fault",
            Self::Unreached => "the model provider could not be reached",
            Self::Silent => "the model provider did not answer",
            Self::Broken => "the answer of the model provider was interrupted",
            Self::Malformed => "the answer is not in the provider's format",
            Self::Refused => "the model provider refused the request",
            Self::Rejected => "the model provider rejected the request",
        })
    }
}
