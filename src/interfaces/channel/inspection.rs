//! The state of a configured channel as its platform reports it: the token, its permissions and the delivery of
//! messages. An inspection changes nothing.

use super::SendError;
use jiff::{SignedDuration, Timestamp};

/// The largest difference of two clocks that is not reported. Slack refuses, and Drydock refuses from Slack, a request that
/// is five minutes old.
const CLOCK_DIFFERENCE_MAX: SignedDuration = SignedDuration::from_secs(60);

/// The result of one check of a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelFinding {
    /// The part that was checked, such as `scopes`.
    pub subject: &'static str,
    /// The state, or the fault.
    pub outcome: Result<String, ChannelFault>,
}

/// A fault of a channel, and its correction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelFault {
    /// The reason, in one line.
    pub why: String,
    /// The correction, in one line.
    pub fix: String,
    /// The consequence.
    pub severity: FaultSeverity,
}

/// The consequence of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultSeverity {
    /// Something works worse than it could.
    Warning,
    /// Something does not work.
    Failure,
}

impl ChannelFinding {
    pub(super) fn fine(subject: &'static str, state: impl Into<String>) -> Self {
        Self {
            subject,
            outcome: Ok(state.into()),
        }
    }

    pub(super) fn failure(subject: &'static str, why: impl Into<String>, fix: impl Into<String>) -> Self {
        Self::fault(subject, FaultSeverity::Failure, why.into(), fix.into())
    }

    pub(super) fn warning(subject: &'static str, why: impl Into<String>, fix: impl Into<String>) -> Self {
        Self::fault(subject, FaultSeverity::Warning, why.into(), fix.into())
    }

    fn fault(subject: &'static str, severity: FaultSeverity, why: String, fix: String) -> Self {
        Self {
            subject,
            outcome: Err(ChannelFault { why, fix, severity }),
        }
    }
}

/// Returns the finding for a platform that did not identify the bot. `correction` says where its token is shown.
pub(super) fn unidentified(error: &SendError, name: &str, correction: &str) -> ChannelFinding {
    let fix = match error {
        SendError::Unauthorised(_) => format!("set channels.{name}.bot_token to {correction}"),
        SendError::Limited { .. } => "try again later".to_owned(),
        _ => format!("check the network of this machine, and channels.{name}.api_base_url if it is set"),
    };
    ChannelFinding::failure("token", error.to_string(), fix)
}

/// Compares the clock of this machine with that of a platform; `None` if the platform sent no time.
pub(super) fn clock(platform: &str, theirs: Option<Timestamp>, ours: Timestamp) -> Option<ChannelFinding> {
    let ahead = ours.duration_since(theirs?);
    if ahead.abs() <= CLOCK_DIFFERENCE_MAX {
        return Some(ChannelFinding::fine(
            "clock",
            format!("agrees with that of {platform}"),
        ));
    }
    let direction = match ahead.is_positive() {
        true => "ahead of",
        false => "behind",
    };
    Some(ChannelFinding::failure(
        "clock",
        format!(
            "the clock of this machine is {} s {direction} that of {platform}",
            ahead.abs().as_secs()
        ),
        "synchronise it, for example with chrony or systemd-timesyncd",
    ))
}
