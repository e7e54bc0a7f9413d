//! Retries: a pure policy, and the loop that follows it. The loop waits, reports the reason to the user, and respects
//! the provider's gate.

use super::failure::ProviderFailure;
use super::failure_kind::ProviderFailureKind;
use super::gate::{GatePass, PROBE_INTERVAL, ProviderGate, SHARED_WAIT_MAX};
use super::side_costs::{LostCharge, SideCosts, UnusedAnswer};
use super::{Completion, EventSink, Patience, ProviderError, StreamEvent};
use crate::base::model::StopReason;
use async_trait::async_trait;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The longest time from the first attempt to the start of the last one.
const RETRY_TIME_MAX: Duration = Duration::from_secs(90);

/// The longest wait of a call for which another model can answer.
const SHORT_WAIT_MAX: Duration = Duration::from_secs(5);

/// The longest wait between two attempts that the backoff chooses.
const BACKOFF_SECONDS_MAX: u64 = 16;

/// The number of times that an answer may break off before the call fails.
const BROKEN_ANSWERS_MAX: u32 = 1;

/// The bounds of the attempts of one call.
#[derive(Clone, Copy, Debug)]
pub(super) struct RetryPolicy {
    /// The maximum number of attempts.
    pub(super) attempts_max: u32,
    /// The patience with the provider.
    pub(super) patience: Patience,
}

impl RetryPolicy {
    /// Decides whether to retry after an attempt. While another model can answer, a provider that refused everyone gets
    /// one attempt, and nothing waits for long.
    fn decide(
        self,
        failure: &ProviderFailure,
        pass: &GatePass,
        attempts: AttemptCounts,
        jitter: f64,
    ) -> RetryDecision {
        match (
            decide(failure, attempts, self.attempts_max, jitter),
            self.patience,
        ) {
            (RetryDecision::Wait(wait), Patience::Short)
                if pass.is_probe() && attempts.made == 1 || wait > SHORT_WAIT_MAX =>
            {
                RetryDecision::GiveUp
            }
            (decision, _) => decision,
        }
    }
}

/// The attempts so far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct AttemptCounts {
    /// The number of attempts; at least one.
    pub(super) made: u32,
    /// The number of attempts whose answers broke off.
    pub(super) broken: u32,
    /// The time since the first attempt began.
    pub(super) elapsed: Duration,
}

/// The step after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RetryDecision {
    /// The next attempt starts after this time.
    Wait(Duration),
    /// The failure is reported.
    GiveUp,
}

/// Decides whether to retry. `jitter` is in `0.0..1.0` and spreads calls that failed at the same time.
pub(super) fn decide(
    failure: &ProviderFailure,
    attempts: AttemptCounts,
    attempts_max: u32,
    jitter: f64,
) -> RetryDecision {
    let may_repeat = match failure.kind {
        ProviderFailureKind::RateLimiting
        | ProviderFailureKind::Overloaded
        | ProviderFailureKind::Faulty
        | ProviderFailureKind::Unreached
        | ProviderFailureKind::Silent => true,
        ProviderFailureKind::Broken | ProviderFailureKind::Malformed => attempts.broken <= BROKEN_ANSWERS_MAX,
        ProviderFailureKind::Refused | ProviderFailureKind::Rejected => false,
    };
    if !may_repeat || attempts.made >= attempts_max {
        return RetryDecision::GiveUp;
    }
    let jitter = jitter.clamp(0.0, 1.0);
    let wait = match failure.retry_after {
        // The wait is too long for a turn; the user gets its length with the failure.
        Some(asked) if asked > SHARED_WAIT_MAX => return RetryDecision::GiveUp,
        // The wait is never shorter than required.
        Some(asked) => asked.saturating_add(Duration::from_secs(1).mul_f64(jitter)),
        None => backoff(attempts.made).mul_f64(0.75 + jitter / 2.0),
    };
    if attempts.elapsed.saturating_add(wait) > RETRY_TIME_MAX {
        return RetryDecision::GiveUp;
    }
    RetryDecision::Wait(wait)
}

fn backoff(made: u32) -> Duration {
    let seconds = 1_u64
        .checked_shl(made.saturating_sub(1))
        .unwrap_or(BACKOFF_SECONDS_MAX);
    Duration::from_secs(seconds.clamp(1, BACKOFF_SECONDS_MAX))
}

/// A call that can be made several times.
#[async_trait]
pub(super) trait RetryableCall: Send + Sync {
    /// Makes one attempt.
    async fn attempt(&self, sink: EventSink<'_>) -> Result<Completion, ProviderFailure>;
}

/// Makes attempts until there is an answer, the policy gives up, or the call is cancelled. `seed` determines the jitter.
pub(super) async fn call_with_retries(
    ask: &dyn RetryableCall,
    gate: &ProviderGate,
    policy: RetryPolicy,
    seed: u64,
    sink: EventSink<'_>,
    cancel: &CancellationToken,
) -> Result<Completion, ProviderError> {
    let mut side = SideCosts::default();
    let answer = make_attempts(ask, gate, policy, seed, (sink, &mut side));
    let answer = tokio::select! {
        biased;
        () = cancel.cancelled() => None,
        answer = answer => Some(answer),
    };
    match answer {
        None => Err(ProviderError::Cancelled(side)),
        Some(Ok(completion)) => Ok(Completion { side, ..completion }),
        Some(Err(failure)) => Err(ProviderError::Failed(ProviderFailure { side, ..failure })),
    }
}

/// Makes attempts until there is an answer or the policy gives up. At each await `side` holds what the call costs beside
/// its answer if it ends there.
async fn make_attempts(
    ask: &dyn RetryableCall,
    gate: &ProviderGate,
    policy: RetryPolicy,
    seed: u64,
    (sink, side): (EventSink<'_>, &mut SideCosts),
) -> Result<Completion, ProviderFailure> {
    let begun = Instant::now();
    let mut attempts = AttemptCounts {
        made: 0,
        broken: 0,
        elapsed: Duration::ZERO,
    };
    let mut was_limited = false;
    loop {
        let pass = wait_for_gate(gate, begun, policy.patience, sink).await?;
        attempts.made += 1;
        // The provider may charge for a request whose answer nobody waits for any more.
        let lost_before = std::mem::replace(&mut side.lost, LostCharge::Possible);
        let attempted = ask.attempt(sink).await;
        side.lost = lost_before;
        let failure = match attempted {
            Ok(completion) if is_empty(&completion) && side.unused.is_none() => {
                gate.record_answer(pass);
                side.unused = Some(UnusedAnswer {
                    model: completion.model,
                    usage: completion.assistant.usage,
                });
                sink(StreamEvent::Retrying {
                    why: "the answer was empty".to_owned(),
                    wait: Duration::ZERO,
                });
                continue;
            }
            Ok(completion) => {
                gate.record_answer(pass);
                return Ok(completion);
            }
            Err(failure) => failure,
        };
        side.lost = side.lost.or(failure.side.lost);
        attempts.broken += u32::from(failure.kind.is_mid_answer());
        attempts.elapsed = begun.elapsed();
        let decision = policy.decide(&failure, &pass, attempts, jitter(seed, attempts.made));
        if failure.kind.is_shared() {
            let hold = match decision {
                // This call has already closed the gate once, so the limit may concern only this request.
                _ if was_limited => PROBE_INTERVAL,
                RetryDecision::Wait(wait) => wait.min(SHARED_WAIT_MAX),
                RetryDecision::GiveUp => failure.retry_after.unwrap_or_else(|| backoff(attempts.made)),
            };
            gate.close_for(&pass, failure.kind, hold);
            was_limited = true;
        }
        let RetryDecision::Wait(wait) = decision else {
            return Err(failure);
        };
        sink(StreamEvent::Retrying {
            why: failure.kind.to_string(),
            wait,
        });
        tokio::time::sleep(wait).await;
    }
}

/// Waits for the provider's gate. Reports the wait once, and gives up when the time limit is reached.
async fn wait_for_gate(
    gate: &ProviderGate,
    begun: Instant,
    patience: Patience,
    sink: EventSink<'_>,
) -> Result<GatePass, ProviderFailure> {
    let closed = gate.closed_until();
    let give_up = match patience {
        Patience::Full => begun + RETRY_TIME_MAX,
        Patience::Short => Instant::now() + SHORT_WAIT_MAX,
    };
    if let Some((kind, opens)) = closed
        && patience == Patience::Short
        && opens > give_up
    {
        return Err(ProviderFailure::new(kind, ""));
    }
    if let Some((kind, opens)) = closed
        && opens > Instant::now()
    {
        let wait = opens.saturating_duration_since(Instant::now());
        sink(StreamEvent::Retrying {
            why: kind.to_string(),
            wait,
        });
    }
    let waited = tokio::time::timeout_at(give_up, gate.acquire()).await;
    waited.map_err(|_| {
        let kind = gate.closed_until().or(closed).map(|(kind, _)| kind);
        ProviderFailure::new(kind.unwrap_or(ProviderFailureKind::RateLimiting), "")
    })
}

/// Returns true for an answer without text, calls or a reason for that.
fn is_empty(completion: &Completion) -> bool {
    completion.assistant.blocks.is_empty() && completion.assistant.stop == StopReason::EndTurn
}

/// Returns a number in `0.0..1.0` that differs between requests and attempts, and is reproducible.
fn jitter(seed: u64, attempt: u32) -> f64 {
    let mut mixed = seed ^ u64::from(attempt).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    let top = u32::try_from((mixed ^ (mixed >> 31)) >> 32).unwrap_or_default();
    f64::from(top) / (f64::from(u32::MAX) + 1.0)
}

#[cfg(test)]
mod tests;
