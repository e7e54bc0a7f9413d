//! The circuit breaker of a platform. A few unanswered calls close the channel. Single probes find out when the
//! platform answers again. Then one operation is tried before the others follow. No I/O; time is an argument.

use jiff::{SignedDuration, Timestamp};
use std::time::Duration;
use tokio::time::Instant;

/// Number of consecutive unanswered calls that close the channel.
const UNANSWERED_MAX: u32 = 3;
/// First and longest pause between two probes of an unreachable platform.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// First and longest pause between two probes of a platform that rejects the token. Only people can fix that.
const TOKEN_PAUSE: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(300));
/// Maximum number of parallel calls while it is unknown whether the platform answers.
const UNPROVEN_CALLS_MAX: usize = 3;
/// The time for which an answer counts as proof that the platform is reachable.
const PROVEN: Duration = Duration::from_secs(1);
/// Longest time for which a call delays others that must follow it.
const CALL_WAIT_MAX: Duration = Duration::from_secs(2);

/// The reason why a channel is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// The platform does not answer.
    Unreachable,
    /// The platform rejects the token.
    Unauthorised,
}

/// The cause and start of a closure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ClosedCircuit {
    pub(super) cause: Cause,
    pub(super) why: String,
    pub(super) since: Timestamp,
    probe_at: Instant,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) now: Instant,
    pub(super) at: Timestamp,
    /// A random number from 0 to 255. It keeps servers from probing at the same time.
    pub(super) jitter: u8,
}

/// The state of a platform before a call failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PlatformStatus {
    /// True if the platform answered the previous call.
    pub(super) was_answered: bool,
    /// The time without an answer since this process began to call the platform.
    pub(super) silent_for: SignedDuration,
}

/// The state of a channel.
#[derive(Debug)]
pub(super) struct Circuit {
    began: Instant,
    closed: Option<ClosedCircuit>,
    /// Number of consecutive unanswered calls.
    unanswered: u32,
    /// The time of the closure; `None` after an answer.
    since: Option<Timestamp>,
    pause: Duration,
    answered_at: Option<Instant>,
    /// The start times of the calls in progress.
    calls: Vec<Instant>,
}

impl Circuit {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            began: now,
            closed: None,
            unanswered: 0,
            since: None,
            pause: Duration::ZERO,
            answered_at: None,
            calls: Vec::new(),
        }
    }

    /// Records an answer: a delivery or a refusal shows that the platform is reachable. Returns true if the channel was
    /// closed before.
    pub(super) fn answered(&mut self, now: Instant) -> bool {
        let is_back = self.since.is_some();
        self.closed = None;
        self.since = None;
        self.pause = Duration::ZERO;
        self.unanswered = 0;
        self.answered_at = Some(now);
        is_back
    }

    /// Records a call without an answer. Returns true if an operator should be notified.
    pub(super) fn unanswered(&mut self, why: &str, moment: Moment) -> bool {
        self.unanswered = self.unanswered.saturating_add(1);
        self.unanswered >= UNANSWERED_MAX && self.close(Cause::Unreachable, why, moment)
    }

    /// Records a rejected token. Returns true if an operator should be notified.
    pub(super) fn unauthorised(&mut self, why: &str, moment: Moment) -> bool {
        self.close(Cause::Unauthorised, why, moment)
    }

    /// Returns the state before a failed call is counted.
    pub(super) fn platform_status(&self, now: Instant) -> PlatformStatus {
        let silent_for = now - self.answered_at.unwrap_or(self.began);
        PlatformStatus {
            was_answered: self.unanswered == 0 && self.answered_at.is_some(),
            silent_for: SignedDuration::try_from(silent_for).unwrap_or(SignedDuration::MAX),
        }
    }

    /// Records an answered probe. One operation may be tried next; its result decides whether the channel opens.
    pub(super) fn probed(&mut self) {
        if let Some(closed) = self.closed.take() {
            self.unanswered = match closed.cause {
                Cause::Unreachable => self.unanswered.max(UNANSWERED_MAX),
                Cause::Unauthorised => 0,
            };
        }
    }

    /// Records a failed probe. Returns true if an operator should be notified.
    pub(super) fn not_probed(&mut self, cause: Cause, why: &str, moment: Moment) -> bool {
        let is_news = self.closed.as_ref().is_none_or(|closed| closed.cause != cause);
        self.closed = None;
        self.close(cause, why, moment) || is_news
    }

    fn close(&mut self, cause: Cause, why: &str, moment: Moment) -> bool {
        if self.closed.as_ref().is_some_and(|closed| closed.cause == cause) {
            return false;
        }
        let (min, max) = match cause {
            Cause::Unreachable => PAUSE,
            Cause::Unauthorised => TOKEN_PAUSE,
        };
        self.pause = self.pause.saturating_mul(2).clamp(min, max);
        let is_news = self.since.is_none() || self.closed.is_some();
        let since = *self.since.get_or_insert(moment.at);
        // The result is between three quarters of the pause and the full pause.
        let spread = self.pause / 4 * u32::from(moment.jitter) / 255;
        self.closed = Some(ClosedCircuit {
            cause,
            why: why.to_owned(),
            since,
            probe_at: moment.now + (self.pause - spread),
        });
        is_news
    }

    /// Returns the closure while nothing is sent.
    pub(super) fn closed(&self) -> Option<&ClosedCircuit> {
        self.closed.as_ref()
    }

    /// Returns the time of the next probe while nothing is sent.
    pub(super) fn probe_at(&self) -> Option<Instant> {
        self.closed.as_ref().map(|closed| closed.probe_at)
    }

    /// Makes a probe due now, after an operator reports a change.
    pub(super) fn probe_now(&mut self, now: Instant) {
        if let Some(closed) = &mut self.closed {
            closed.probe_at = now;
        }
    }

    /// Returns how long a failed operation waits for others to go first.
    pub(super) fn pause(&self) -> Duration {
        self.pause
    }

    /// Returns how many further calls may be made now.
    pub(super) fn free_calls(&self, now: Instant) -> usize {
        let recent = self.calls.iter().filter(|began| now - **began < CALL_WAIT_MAX);
        let most = match self.closed {
            Some(_) => 0,
            None if self.unanswered >= UNANSWERED_MAX => 1,
            None if self.answered_at.is_some_and(|at| now - at < PROVEN) => usize::MAX,
            None => UNPROVEN_CALLS_MAX,
        };
        most.saturating_sub(recent.count())
    }

    pub(super) fn call_begins(&mut self, now: Instant) {
        self.calls.push(now);
    }

    pub(super) fn call_ends(&mut self, began: Instant) {
        if let Some(index) = self.calls.iter().position(|call| *call == began) {
            self.calls.swap_remove(index);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{Cause, Circuit, Moment, PAUSE, TOKEN_PAUSE, UNPROVEN_CALLS_MAX};
    use jiff::Timestamp;
    use std::time::Duration;
    use tokio::time::Instant;

    fn moment(now: Instant) -> Moment {
        Moment {
            now,
            at: Timestamp::UNIX_EPOCH,
            jitter: 0,
        }
    }

    #[test]
    fn a_few_calls_without_an_answer_close_a_channel_and_probes_become_rare() {
        let mut now = Instant::now();
        let mut circuit = Circuit::new(now);
        assert!(!circuit.unanswered("broke", moment(now)) && !circuit.unanswered("broke", moment(now)));
        assert_eq!(circuit.probe_at(), None);
        assert!(circuit.unanswered("broke", moment(now)), "this is news");
        assert_eq!(circuit.free_calls(now), 0);
        let mut pauses = Vec::new();
        for _ in 0..8 {
            pauses.push((circuit.probe_at().unwrap() - now).as_secs());
            now = circuit.probe_at().unwrap();
            assert!(
                !circuit.not_probed(Cause::Unreachable, "broke", moment(now)),
                "this is not"
            );
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
        // One operation is tried. If it is not answered, the pauses continue.
        circuit.probed();
        assert_eq!(
            (circuit.free_calls(now), circuit.platform_status(now).was_answered),
            (1, false)
        );
        assert!(!circuit.unanswered("broke", moment(now)));
        assert_eq!(circuit.probe_at(), Some(now + PAUSE.1));
        circuit.probed();
        assert!(circuit.answered(now), "it is back");
        assert_eq!(
            (circuit.free_calls(now), circuit.platform_status(now).was_answered),
            (usize::MAX, true)
        );
    }

    /// R19
    #[test]
    fn a_token_that_is_not_taken_closes_a_channel_at_once() {
        let now = Instant::now();
        let mut circuit = Circuit::new(now);
        assert!(circuit.unauthorised("invalid_auth", moment(now)));
        assert!(!circuit.unauthorised("invalid_auth", moment(now)), "told once");
        assert_eq!(circuit.probe_at(), Some(now + TOKEN_PAUSE.0));
        circuit.probed();
        assert_eq!(circuit.free_calls(now), UNPROVEN_CALLS_MAX);
    }

    #[test]
    fn a_few_calls_find_out_whether_the_platform_is_there_and_a_slow_one_holds_nobody_up() {
        let now = Instant::now();
        let mut circuit = Circuit::new(now);
        for _ in 0..UNPROVEN_CALLS_MAX {
            assert!(circuit.free_calls(now) > 0);
            circuit.call_begins(now);
        }
        assert_eq!(circuit.free_calls(now), 0);
        assert_eq!(
            circuit.free_calls(now + Duration::from_secs(2)),
            UNPROVEN_CALLS_MAX
        );
        circuit.call_ends(now);
        assert_eq!(circuit.free_calls(now), 1);
    }
}
