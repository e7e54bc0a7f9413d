//! The state of a channel as it is told outside: whether it is open, and what waits for it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The state of a channel: whether it delivers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum ChannelState {
    /// The channel delivers.
    Open,
    /// The channel was not connected yet, or is not any more.
    NotConnected,
    /// The channel holds everything: nobody answers.
    Unreachable {
        /// The time since which it is closed.
        since: Timestamp,
        /// The failure seen last.
        why: String,
    },
    /// The channel holds everything: the platform does not take the token.
    Unauthorised {
        /// The time since which it is closed.
        since: Timestamp,
        /// The answer of the platform.
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
    /// The configured name.
    pub channel: String,
    /// The state of the channel: whether it delivers.
    #[serde(flatten)]
    pub state: ChannelState,
    /// Operations that wait to be delivered.
    pub waiting: u64,
    /// Operations that were given up.
    pub given_up: u64,
}
