//! The meaning of a failed call for its operation: whether it counts, and how long it waits.

use super::circuit::PlatformStatus;
use crate::channel::SendError;
use crate::planted;
use crate::store::AttemptWeight;
use jiff::SignedDuration;
use std::time::Duration;

/// Attempts before an operation is given up and kept as a dead letter.
pub(super) const ATTEMPTS_MAX: u32 = 8;
/// Longest wait between two attempts.
const WAIT_MAX: Duration = Duration::from_secs(180);
/// The longest time an operation may be the only one without an answer before that is held against it. The clock of the
/// machine may jump, so nothing may have been answered for as long by a clock that does not.
const ALONE_MAX: SignedDuration = SignedDuration::from_hours(24);

/// Returns whether a failure counts as an attempt of the operation. An outage does not: it says nothing about what was to be sent. A call
/// without an answer counts only if the platform answered the call before it, or if the operation has been at it for very long.
pub(super) fn attempt_weight(
    error: &SendError,
    before: PlatformStatus,
    age: SignedDuration,
) -> AttemptWeight {
    let is_its_own = match error {
        SendError::Refused(_) | SendError::OtherHost { .. } => true,
        _ if planted::is("C2") => true,
        SendError::Unauthorised(_) | SendError::Limited { .. } => false,
        SendError::Unreachable(_) | SendError::NotSent { .. } | SendError::Ambiguous(_) => {
            before.was_answered || (age > ALONE_MAX && before.silent_for > ALONE_MAX)
        }
    };
    match is_its_own {
        true => AttemptWeight::Counted,
        false => AttemptWeight::NotCounted,
    }
}

/// Returns the time an operation waits after so many attempts: 1 s at first, 3 min at most.
pub(super) fn retry_wait(attempts: u32) -> Duration {
    Duration::from_secs(1 << attempts.min(8)).min(WAIT_MAX)
}

#[cfg(test)]
mod tests {
    use super::{ALONE_MAX, attempt_weight};
    use crate::channel::SendError;
    use crate::gateway::delivery::circuit::PlatformStatus;
    use crate::store::AttemptWeight;
    use jiff::SignedDuration;

    fn is_counted(
        error: &SendError,
        was_answered: bool,
        silent: SignedDuration,
        age: SignedDuration,
    ) -> bool {
        let before = PlatformStatus {
            was_answered,
            silent_for: silent,
        };
        attempt_weight(error, before, age) == AttemptWeight::Counted
    }

    #[test]
    fn a_failure_of_another_host_always_counts_as_an_attempt() {
        let other = SendError::OtherHost {
            why: "slack's host for it cannot be reached".to_owned(),
            retry_after: None,
        };
        let hour = SignedDuration::from_hours(1);
        assert!(is_counted(&other, true, hour, hour) && is_counted(&other, false, hour, hour));
    }

    /// R18, R20
    #[test]
    fn a_failure_counts_if_others_succeed_or_after_a_day_by_both_clocks() {
        let (hour, longer) = (
            SignedDuration::from_hours(1),
            ALONE_MAX + SignedDuration::from_hours(1),
        );
        let not_sent = SendError::NotSent {
            why: "slack answered 500".to_owned(),
            retry_after: None,
        };
        for error in [
            not_sent,
            SendError::Ambiguous("broke".to_owned()),
            SendError::Unreachable("no".to_owned()),
        ] {
            assert!(is_counted(&error, true, hour, hour));
            assert!(is_counted(&error, false, longer, longer));
            // It was enqueued in 1970, as the clock of the machine had it.
            assert!(!is_counted(&error, false, hour, longer));
            assert!(!is_counted(&error, false, longer, hour));
        }
        let limited = SendError::Limited {
            why: "429".to_owned(),
            retry_after: None,
        };
        for error in [limited, SendError::Unauthorised("token_revoked".to_owned())] {
            assert!(!is_counted(&error, true, longer, longer));
        }
    }
}
