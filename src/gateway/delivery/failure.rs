//! What a failed call means for its operation: whether it counts, and how long it waits.

use crate::channel::SendError;
use crate::planted;
use crate::store::Attempt;
use jiff::SignedDuration;
use std::time::Duration;

/// Attempts before an operation is given up and kept as a dead letter.
pub(super) const ATTEMPTS_MAX: u32 = 8;
/// Longest wait between two attempts.
const WAIT_MAX: Duration = Duration::from_secs(180);
/// How long an operation may be the only one that is not answered, before that is held against it.
const ALONE_MAX: SignedDuration = SignedDuration::from_hours(24);

/// Whether a failure is an attempt of the operation. An outage is not: it says nothing about what was to be sent. A
/// call without an answer is one only if the platform answered the call before it, or if the operation has been at
/// it for very long.
pub(super) fn attempt(error: &SendError, was_answered: bool, age: SignedDuration) -> Attempt {
    let is_its_own = match error {
        SendError::Refused(_) => true,
        _ if planted::is("C2") => true,
        SendError::Unreachable(_) | SendError::Unauthorised(_) | SendError::Limited { .. } => false,
        SendError::NotSent { .. } | SendError::Ambiguous(_) => was_answered || age > ALONE_MAX,
    };
    match is_its_own {
        true => Attempt::Counted,
        false => Attempt::NotCounted,
    }
}

/// How long an operation waits after so many attempts: 1 s at first, 3 min at most.
pub(super) fn patience(attempts: u32) -> Duration {
    Duration::from_secs(1 << attempts.min(8)).min(WAIT_MAX)
}
