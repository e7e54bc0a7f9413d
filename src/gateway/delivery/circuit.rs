//! The circuit breaker of a platform. A few calls without an answer close the channel; a probe at a time finds out when it is there again,
//! then one operation is tried before all go on. No I/O; time is an argument.

use jiff::{SignedDuration, Timestamp};
use std::time::Duration;
use tokio::time::Instant;

/// Calls in a row without an answer that close the channel.
const UNANSWERED_MAX: u32 = 3;
/// First and longest pause between two probes of a platform that cannot be reached.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// First and longest pause between two probes of a platform that does not take the token: only people can help.
const TOKEN_PAUSE: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(300));
/// Calls at once while nothing says that the platform is there.
const UNPROVEN_CALLS_MAX: usize = 3;
/// The time for which an answer proves that the platform is there.
const PROVEN: Duration = Duration::from_secs(1);
/// The longest time for which a call keeps others waiting that may go only after it.
const CALL_WAIT_MAX: Duration = Duration::from_secs(2);

/// The reason why a channel is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// The platform does not answer.
    Unreachable,
    /// The token is not taken.
    Unauthorised,
}

/// A channel that is closed, since when and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ClosedCircuit {
    pub(super) cause: Cause,
    pub(super) why: String,
    pub(super) since: Timestamp,
    probe_at: Instant,
}

/// The moment of an event.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) now: Instant,
    pub(super) at: Timestamp,
    /// A random number from 0 to 255, so that no two servers probe at the same time.
    pub(super) jitter: u8,
}

/// The state of a platform before a call failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PlatformStatus {
    /// True if the platform answered the last call.
    pub(super) was_answered: bool,
    /// The time without an answer, since this process began to call it.
    pub(super) silent_for: SignedDuration,
}

/// The state of a channel.
#[derive(Debug)]
pub(super) struct Circuit {
    began: Instant,
    closed: Option<ClosedCircuit>,
    /// Calls in a row without an answer.
    unanswered: u32,
    /// The moment at which the channel closed, until something is answered.
    since: Option<Timestamp>,
    pause: Duration,
    answered_at: Option<Instant>,
    /// The beginnings of the calls that are under way.
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

    /// Notes an answer: something was delivered, or refused, so the platform is there. True if it was not before.
    pub(super) fn answered(&mut self, now: Instant) -> bool {
        let is_back = self.since.is_some();
        self.closed = None;
        self.since = None;
        self.pause = Duration::ZERO;
        self.unanswered = 0;
        self.answered_at = Some(now);
        is_back
    }

    /// A call brought no answer. True if that is news for an operator.
    pub(super) fn unanswered(&mut self, why: &str, moment: Moment) -> bool {
        self.unanswered = self.unanswered.saturating_add(1);
        self.unanswered >= UNANSWERED_MAX && self.close(Cause::Unreachable, why, moment)
    }

    /// The token is not taken. True if that is news for an operator.
    pub(super) fn unauthorised(&mut self, why: &str, moment: Moment) -> bool {
        self.close(Cause::Unauthorised, why, moment)
    }

    /// Returns the state before a call that failed is counted.
    pub(super) fn platform_status(&self, now: Instant) -> PlatformStatus {
        let silent_for = now - self.answered_at.unwrap_or(self.began);
        PlatformStatus {
            was_answered: self.unanswered == 0 && self.answered_at.is_some(),
            silent_for: SignedDuration::try_from(silent_for).unwrap_or(SignedDuration::MAX),
        }
    }

    /// A probe was answered: an operation may be tried. What it brings says whether the channel is open.
    pub(super) fn probed(&mut self) {
        if let Some(closed) = self.closed.take() {
            self.unanswered = match closed.cause {
                Cause::Unreachable => self.unanswered.max(UNANSWERED_MAX),
                Cause::Unauthorised => 0,
            };
        }
    }

    /// A probe brought nothing. True if that is news for an operator.
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
        // From three quarters of it to all of it.
        let spread = self.pause / 4 * u32::from(moment.jitter) / 255;
        self.closed = Some(ClosedCircuit {
            cause,
            why: why.to_owned(),
            since,
            probe_at: moment.now + (self.pause - spread),
        });
        is_news
    }

    /// Returns the closure of the channel, while nothing is sent.
    pub(super) fn closed(&self) -> Option<&ClosedCircuit> {
        self.closed.as_ref()
    }

    /// Returns the time of the next probe, while nothing is sent.
    pub(super) fn probe_at(&self) -> Option<Instant> {
        self.closed.as_ref().map(|closed| closed.probe_at)
    }

    /// Probes at once: an operator says that something has changed.
    pub(super) fn probe_now(&mut self, now: Instant) {
        if let Some(closed) = &mut self.closed {
            closed.probe_at = now;
        }
    }

    /// Returns the pause in which an operation that failed lets others go first.
    pub(super) fn pause(&self) -> Duration {
        self.pause
    }

    /// Returns the number of further calls that may be made now.
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
        // One operation is tried, and if nobody answers it the pauses go on.
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
