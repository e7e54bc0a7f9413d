//! The kinds of trouble with a provider, and the words for them. Every text about one, in a chat, in a terminal, in a log
//! and on a card, is made from this table.

use std::fmt;

/// A kind of trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProviderFailureKind {
    /// The provider gets too many requests: everybody should wait.
    RateLimiting,
    /// The provider has more work than it can do: everybody should wait.
    Overloaded,
    /// The provider has a fault of its own.
    Faulty,
    /// The provider cannot be reached.
    Unreached,
    /// The provider was reached, and no answer began.
    Silent,
    /// An answer began and was not finished.
    Broken,
    /// The answer is not in the format of the API.
    Malformed,
    /// The provider refuses this key, account or model: an operator has to act.
    Refused,
    /// The provider rejects this request, such as one that is too long.
    Rejected,
}

impl ProviderFailureKind {
    /// The trouble behind a status, where the status says that the request itself is in order.
    pub(super) fn from_status(status: u16) -> Option<Self> {
        match status {
            429 => Some(Self::RateLimiting),
            503 | 529 => Some(Self::Overloaded),
            408 | 409 | 500 | 502 | 504 | 520..=599 => Some(Self::Faulty),
            _ => None,
        }
    }

    /// True if everybody who asks this provider should wait.
    pub(super) fn is_shared(self) -> bool {
        matches!(self, Self::RateLimiting | Self::Overloaded)
    }

    /// True if an answer had begun.
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
            Self::Broken => "the answer of the model provider broke off",
            Self::Malformed => "the answer is not in the provider's format",
            Self::Refused => "the model provider refused the request",
            Self::Rejected => "the model provider rejected the request",
        })
    }
}
