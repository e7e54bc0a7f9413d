//! What can be told of a channel from outside: whether it is open, and what waits for it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Whether a channel delivers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum ChannelState {
    /// It does.
    Open,
    /// It was not connected yet, or not any more.
    NotConnected,
    /// It holds everything: nobody answers.
    Unreachable {
        /// Since when.
        since: Timestamp,
        /// What was seen last.
        why: String,
    },
    /// It holds everything: the platform does not take the token.
    Unauthorised {
        /// Since when.
        since: Timestamp,
        /// What the platform said.
        why: String,
    },
}

impl std::fmt::Display for ChannelState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Open => f.write_str("open"),
            Self::NotConnected => f.write_str("not connected"),
            Self::Unreachable { since, why } => write!(f, "closed since {since:.0}, nobody answers: {why}"),
            Self::Unauthorised { since, why } => {
                write!(f, "closed since {since:.0}, the token is not taken: {why}")
            }
        }
    }
}

/// A channel and what waits for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelHealth {
    /// Its configured name.
    pub channel: String,
    /// Whether it delivers.
    #[serde(flatten)]
    pub state: ChannelState,
    /// Operations that wait to be delivered.
    pub waiting: u64,
    /// Operations that were given up.
    pub given_up: u64,
}
