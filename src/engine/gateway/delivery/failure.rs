//! Rules for a failed call: whether it counts against the operation, and how long the operation waits.

use super::circuit::PlatformStatus;
use crate::interfaces::channel::SendError;
use crate::planted;
use crate::state::store::AttemptWeight;
use jiff::SignedDuration;
use std::time::Duration;

/// Maximum number of attempts. After that, an operation is given up and kept as a dead letter.
pub(super) const ATTEMPTS_MAX: u32 = 8;
/// Longest wait between two attempts.
const WAIT_MAX: Duration = Duration::from_secs(180);
/// The time that an operation may stay unanswered before the failure counts although the platform may be down. Both clocks
/// must show this time, because the system clock may jump: the age of the operation, and the monotonic time without an
/// answer.
const ALONE_MAX: SignedDuration = SignedDuration::from_hours(24);

/// Returns whether a failure counts as an attempt. An outage does not, because the operation is not its cause. A call
/// without an answer counts only if the platform answered the previous call, or if the operation has been tried for
/// very long.
pub(super) fn attempt_weight(
    error: &SendError,
    before: PlatformStatus,
    age: SignedDuration,
) -> AttemptWeight {
    let is_its_own = match error {
        SendError::Refused(_) | SendError::OtherHost { .. } => true,
        _ if planted::is("C2") => true,
        SendError::Unauthorised(_) | SendError::Limited { .. } | SendError::OtherForm(_) => false,
        SendError::Unreachable(_) | SendError::NotSent { .. } | SendError::Ambiguous(_) => {
            before.was_answered || (age > ALONE_MAX && before.silent_for > ALONE_MAX)
        }
    };
    match is_its_own {
        true => AttemptWeight::Counted,
        false => AttemptWeight::NotCounted,
    }
}

/// Returns the wait after this number of attempts, from 1 s to 3 min.
pub(super) fn retry_wait(attempts: u32) -> Duration {
    Duration::from_secs(1 << attempts.min(8)).min(WAIT_MAX)
}

#[cfg(test)]
mod tests {
    use super::{ALONE_MAX, attempt_weight};
    use crate::engine::gateway::delivery::circuit::PlatformStatus;
    use crate::interfaces::channel::SendError;
    use crate::state::store::AttemptWeight;
    use jiff::SignedDuration;

    fn answering(silent_for: SignedDuration) -> PlatformStatus {
        PlatformStatus {
            was_answered: true,
            silent_for,
        }
    }

    fn silent(silent_for: SignedDuration) -> PlatformStatus {
        PlatformStatus {
            was_answered: false,
            silent_for,
        }
    }

    fn is_counted(error: &SendError, before: PlatformStatus, age: SignedDuration) -> bool {
        attempt_weight(error, before, age) == AttemptWeight::Counted
    }

    #[test]
    fn a_failure_of_another_host_always_counts_as_an_attempt() {
        let other = SendError::OtherHost {
            why: "the host that slack named for this cannot be reached".to_owned(),
            retry_after: None,
        };
        let hour = SignedDuration::from_hours(1);
        assert!(is_counted(&other, answering(hour), hour) && is_counted(&other, silent(hour), hour));
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
            assert!(is_counted(&error, answering(hour), hour));
            assert!(is_counted(&error, silent(longer), longer));
            // The system clock said 1970 when the operation was enqueued.
            assert!(!is_counted(&error, silent(hour), longer));
            assert!(!is_counted(&error, silent(longer), hour));
        }
        let limited = SendError::Limited {
            why: "429".to_owned(),
            retry_after: None,
        };
        let other_form = SendError::OtherForm("no rich messages".to_owned());
        for error in [
            limited,
            other_form,
            SendError::Unauthorised("token_revoked".to_owned()),
        ] {
            assert!(!is_counted(&error, answering(longer), longer));
        }
    }
}
