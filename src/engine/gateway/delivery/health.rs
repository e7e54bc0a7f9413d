//! The reported health of a channel: its state and its waiting operations.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The state of a channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum ChannelState {
    /// The channel delivers.
    Open,
    /// The channel is not connected yet, or not any more.
    NotConnected,
    /// The channel holds all operations, because the platform does not answer.
    Unreachable {
        /// The time of the closure.
        since: Timestamp,
        /// The last failure.
        why: String,
    },
    /// The channel holds all operations, because the platform rejects the token.
    Unauthorised {
        /// The time of the closure.
        since: Timestamp,
        /// The platform's answer.
        why: String,
    },
}

impl std::fmt::Display for ChannelState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Open => f.write_str("open"),
            Self::NotConnected => f.write_str("not connected"),
            Self::Unreachable { since, why } => write!(
                f,
                "closed since {since:.0}, the platform does not answer: \
                                                           {why}"
            ),
            Self::Unauthorised { since, why } => {
                write!(f, "closed since {since:.0}, the token is refused: {why}")
            }
        }
    }
}

/// A channel with its state and its waiting operations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelHealth {
    /// The configured name.
    pub channel: String,
    /// The state of the channel.
    #[serde(flatten)]
    pub state: ChannelState,
    /// Number of operations that wait for delivery.
    pub waiting: u64,
    /// Number of dead letters.
    pub given_up: u64,
}
