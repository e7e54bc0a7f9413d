//! Tests of the policy, and of the loop with a paused clock.

#![allow(clippy::expect_used)]

use super::{AttemptCounts, RetryDecision, RetryPolicy, RetryableCall, decide, jitter};
use crate::base::model::{Assistant, StopReason, Usage};
use crate::interfaces::provider::failure::ProviderFailure;
use crate::interfaces::provider::failure_kind::ProviderFailureKind;
use crate::interfaces::provider::gate::ProviderGate;
use crate::interfaces::provider::side_costs::{LostCharge, SideCosts, UnusedAnswer};
use crate::interfaces::provider::{Completion, EventSink, Patience, ProviderError, StreamEvent};
use async_trait::async_trait;
use proptest::prelude::*;
use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The policy of calls for which no other model can answer.
const FULL: RetryPolicy = RetryPolicy {
    attempts_max: 5,
    patience: Patience::Full,
};

/// The policy of calls for which another model can answer.
const SHORT: RetryPolicy = RetryPolicy {
    patience: Patience::Short,
    ..FULL
};

/// A call with scripted answers that records the times of its attempts.
struct Scripted {
    begun: Instant,
    asked: Mutex<Vec<Duration>>,
    answers: Mutex<VecDeque<Result<Completion, ProviderFailure>>>,
}

impl Scripted {
    fn new(answers: impl IntoIterator<Item = Result<Completion, ProviderFailure>>) -> Self {
        Self {
            begun: Instant::now(),
            asked: Mutex::default(),
            answers: Mutex::new(answers.into_iter().collect()),
        }
    }

    fn asked(&self) -> Vec<Duration> {
        self.asked.lock().expect("lock").clone()
    }
}

#[async_trait]
impl RetryableCall for Scripted {
    async fn attempt(&self, _: EventSink<'_>) -> Result<Completion, ProviderFailure> {
        self.asked.lock().expect("lock").push(self.begun.elapsed());
        self.answers
            .lock()
            .expect("lock")
            .pop_front()
            .expect("one more answer")
    }
}

fn answer(text: &str) -> Completion {
    let mut assistant = Assistant::synthetic(text);
    assistant.blocks.retain(|_| !text.is_empty());
    assistant.usage = Usage {
        input: 10,
        output: 1,
        cache_read: 0,
        cache_write: 0,
    };
    Completion {
        assistant,
        model: "m".into(),
        side: SideCosts::default(),
    }
}

fn failed(kind: ProviderFailureKind, retry_after: Option<u64>) -> ProviderFailure {
    ProviderFailure {
        retry_after: retry_after.map(Duration::from_secs),
        ..ProviderFailure::new(kind, "why")
    }
}

/// Makes a call that nobody cancels.
async fn call_with_retries(
    ask: &dyn RetryableCall,
    gate: &ProviderGate,
    policy: RetryPolicy,
    seed: u64,
    sink: EventSink<'_>,
) -> Result<Completion, ProviderError> {
    super::call_with_retries(ask, gate, policy, seed, sink, &CancellationToken::new()).await
}

async fn run(
    scripted: &Scripted,
    gate: &ProviderGate,
    seed: u64,
) -> (Result<String, String>, Vec<StreamEvent>) {
    let mut events = Vec::new();
    let mut sink = |event| events.push(event);
    let outcome = call_with_retries(scripted, gate, FULL, seed, &mut sink).await;
    let outcome = outcome.map(|completion| completion.assistant.text());
    (outcome.map_err(|error| error.to_string()), events)
}

/// R8
#[tokio::test(start_paused = true)]
async fn a_limited_request_waits_as_long_as_it_was_told_and_says_so() {
    let scripted = Scripted::new([
        Err(failed(ProviderFailureKind::RateLimiting, Some(7))),
        Ok(answer("hi")),
    ]);
    let (outcome, events) = run(&scripted, &ProviderGate::default(), 7).await;
    assert_eq!(outcome, Ok("hi".to_owned()));
    let waited = scripted.asked()[1];
    assert!(
        Duration::from_secs(7) <= waited && waited <= Duration::from_secs(9),
        "{waited:?}"
    );
    let [StreamEvent::Retrying { why, wait }] = events.as_slice() else {
        panic!("{events:?}");
    };
    assert_eq!(why, "the model provider is rate-limiting");
    assert!(*wait >= Duration::from_secs(7) && *wait <= waited);
}

/// A provider that refuses all calls until a time.
struct LimitedUntil {
    begun: Instant,
    until: Duration,
    asked: Mutex<Vec<Duration>>,
}

#[async_trait]
impl RetryableCall for LimitedUntil {
    async fn attempt(&self, _: EventSink<'_>) -> Result<Completion, ProviderFailure> {
        let at = self.begun.elapsed();
        self.asked.lock().expect("lock").push(at);
        if at < self.until {
            return Err(failed(ProviderFailureKind::RateLimiting, Some(1)));
        }
        Ok(answer("hi"))
    }
}

/// R8
#[tokio::test(start_paused = true)]
async fn nobody_stampedes_after_a_limit() {
    let gate = ProviderGate::default();
    let until = Duration::from_secs(20);
    let limited = LimitedUntil {
        begun: Instant::now(),
        until,
        asked: Mutex::default(),
    };
    let one = |seed: u64| {
        let (gate, limited) = (&gate, &limited);
        async move {
            tokio::time::sleep(Duration::from_millis(seed)).await;
            call_with_retries(
                limited,
                gate,
                RetryPolicy {
                    attempts_max: 30,
                    ..FULL
                },
                seed,
                &mut |_| (),
            )
            .await
            .is_ok()
        }
    };
    let answered = futures_util::future::join_all((0..40).map(one)).await;
    assert_eq!(answered, vec![true; 40]);
    let asked = limited.asked.lock().expect("lock").clone();
    let probes: Vec<Duration> = asked.iter().copied().filter(|at| *at < until).collect();
    assert!(probes.len() >= 8, "{probes:?}");
    for pair in probes.windows(2) {
        assert!(pair[1] - pair[0] >= Duration::from_secs(1), "{probes:?}");
    }
    assert_eq!(asked.len(), probes.len() + 40);
}

/// R8
#[tokio::test(start_paused = true)]
async fn a_closed_gate_lets_one_through_each_second_until_one_is_answered() {
    let gate = ProviderGate::default();
    let begun = Instant::now();
    let (before, refused) = (gate.acquire().await, gate.acquire().await);
    gate.close_for(
        &refused,
        ProviderFailureKind::RateLimiting,
        Duration::from_secs(7),
    );
    // An answer to a request from before the limit does not open the gate.
    gate.record_answer(before);
    for second in 7..10 {
        gate.acquire().await;
        assert_eq!(begun.elapsed().as_secs(), second);
    }
    let probe = gate.acquire().await;
    gate.record_answer(probe);
    for _ in 0..100 {
        gate.acquire().await;
    }
    assert_eq!(begun.elapsed().as_secs(), 10);
}

/// R9
#[tokio::test(start_paused = true)]
async fn what_an_operator_has_to_solve_is_asked_once() {
    for kind in [ProviderFailureKind::Refused, ProviderFailureKind::Rejected] {
        let scripted = Scripted::new([Err(failed(kind, Some(1)))]);
        let (outcome, events) = run(&scripted, &ProviderGate::default(), 1).await;
        assert!(outcome.is_err_and(|text| text.ends_with(": why")));
        assert_eq!((scripted.asked().len(), events.len()), (1, 0));
    }
}

/// R10
#[tokio::test(start_paused = true)]
async fn faults_are_retried_with_growing_waits_and_a_bound() {
    for kind in [
        ProviderFailureKind::Overloaded,
        ProviderFailureKind::Faulty,
        ProviderFailureKind::Unreached,
        ProviderFailureKind::Silent,
    ] {
        for failures in [1, 3] {
            let faults = (0..failures).map(|_| Err(failed(kind, None)));
            let scripted = Scripted::new(faults.chain([Ok(answer("hi"))]));
            let (outcome, events) = run(&scripted, &ProviderGate::default(), 5).await;
            assert_eq!(
                (outcome, events.len()),
                (Ok("hi".to_owned()), failures),
                "{kind:?}"
            );
        }
        let scripted = Scripted::new((0..10).map(|_| Err(failed(kind, None))));
        let (outcome, events) = run(&scripted, &ProviderGate::default(), 5).await;
        assert!(outcome.is_err());
        assert_eq!((scripted.asked().len(), events.len()), (5, 4));
        let asked = scripted.asked();
        let waits = asked.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64());
        for (wait, base) in waits.zip([1.0, 2.0, 4.0, 8.0]) {
            assert!(
                base * 0.75 <= wait && wait <= base * 1.25 + 0.01,
                "{wait} for {base}"
            );
        }
    }
}

/// R11
#[tokio::test(start_paused = true)]
async fn a_broken_answer_is_asked_for_once_more() {
    let broken = || Err(failed(ProviderFailureKind::Broken, None));
    let scripted = Scripted::new([broken(), Ok(answer("hi"))]);
    assert_eq!(
        run(&scripted, &ProviderGate::default(), 1).await.0,
        Ok("hi".to_owned())
    );
    let scripted = Scripted::new([broken(), broken()]);
    let (outcome, events) = run(&scripted, &ProviderGate::default(), 1).await;
    assert_eq!(
        outcome,
        Err("the answer of the model provider was interrupted: why".to_owned())
    );
    assert_eq!((scripted.asked().len(), events.len()), (2, 1));
}

/// R12
#[tokio::test(start_paused = true)]
async fn an_empty_answer_is_asked_for_once_more_and_paid_for_twice() {
    for second in ["hi", ""] {
        let scripted = Scripted::new([Ok(answer("")), Ok(answer(second))]);
        let completion = call_with_retries(&scripted, &ProviderGate::default(), FULL, 1, &mut |_| ())
            .await
            .expect("answer");
        assert_eq!(completion.assistant.text(), second);
        assert_eq!(completion.assistant.stop, StopReason::EndTurn);
        let usage = Usage {
            input: 20,
            output: 2,
            cache_read: 0,
            cache_write: 0,
        };
        assert_eq!((completion.usage(), scripted.asked().len()), (usage, 2));
        // The two are counted apart, because the size of a request is measured by the usage of one answer.
        assert_eq!(
            (completion.assistant.usage, completion.side),
            (one(), paid(LostCharge::None))
        );
    }
}

/// Returns the usage of [`answer`].
fn one() -> Usage {
    Usage {
        input: 10,
        output: 1,
        cache_read: 0,
        cache_write: 0,
    }
}

/// Returns the costs beside an answer after an empty one.
fn paid(lost: LostCharge) -> SideCosts {
    let unused = UnusedAnswer {
        model: "m".to_owned(),
        usage: one(),
    };
    SideCosts {
        unused: Some(unused),
        lost,
    }
}

/// R12, T92
#[tokio::test(start_paused = true)]
async fn what_an_unused_answer_and_lost_ones_cost_is_never_forgotten() {
    let fails = |kind| Err(failed(kind, None));
    let refused = || fails(ProviderFailureKind::Refused);
    for (second, lost) in [
        (ProviderFailureKind::Silent, LostCharge::Possible),
        (ProviderFailureKind::Broken, LostCharge::Possible),
        (ProviderFailureKind::Overloaded, LostCharge::None),
        (ProviderFailureKind::Unreached, LostCharge::None),
    ] {
        let scripted = Scripted::new([Ok(answer("")), fails(second), Ok(answer("hi"))]);
        let outcome = call_with_retries(&scripted, &ProviderGate::default(), FULL, 1, &mut |_| ()).await;
        assert_eq!(outcome.expect("answer").side, paid(lost), "{second:?}");
        let scripted = Scripted::new([Ok(answer("")), fails(second), refused()]);
        let outcome = call_with_retries(&scripted, &ProviderGate::default(), FULL, 1, &mut |_| ()).await;
        let Err(ProviderError::Failed(failure)) = outcome else {
            panic!("{outcome:?}");
        };
        assert_eq!(failure.side, paid(lost), "{second:?}");
    }
}

/// A call whose attempts fail as scripted, and after that get no answer.
struct ThenSilence(Mutex<VecDeque<ProviderFailure>>);

#[async_trait]
impl RetryableCall for ThenSilence {
    async fn attempt(&self, _: EventSink<'_>) -> Result<Completion, ProviderFailure> {
        let failure = self.0.lock().expect("lock").pop_front();
        match failure {
            Some(failure) => Err(failure),
            None => std::future::pending().await,
        }
    }
}

/// T92
#[tokio::test(start_paused = true)]
async fn a_cancelled_call_says_whether_a_request_was_on_its_way() {
    let limited = || failed(ProviderFailureKind::RateLimiting, Some(30));
    let broken = || failed(ProviderFailureKind::Broken, None);
    let cases = [
        // The attempt runs.
        (vec![], Duration::ZERO, 5, LostCharge::Possible),
        // The call waits at the gate for others.
        (vec![], Duration::from_secs(20), 5, LostCharge::None),
        // The call waits before its next attempt.
        (vec![limited()], Duration::ZERO, 5, LostCharge::None),
        // The next attempt runs.
        (vec![limited()], Duration::ZERO, 40, LostCharge::Possible),
        // The call waits, but an answer was lost before.
        (
            vec![broken(), limited()],
            Duration::ZERO,
            15,
            LostCharge::Possible,
        ),
    ];
    for (failures, closed, cancelled_after, lost) in cases {
        let gate = ProviderGate::default();
        let refused = gate.acquire().await;
        if closed > Duration::ZERO {
            gate.close_for(&refused, ProviderFailureKind::RateLimiting, closed);
        }
        let case = format!("{failures:?} {closed:?} {cancelled_after}");
        let call = ThenSilence(Mutex::new(failures.into()));
        let cancel = CancellationToken::new();
        let mut sink = |_| ();
        let asked = super::call_with_retries(&call, &gate, FULL, 1, &mut sink, &cancel);
        let stop = async {
            tokio::time::sleep(Duration::from_secs(cancelled_after)).await;
            cancel.cancel();
        };
        let (outcome, ()) = tokio::join!(asked, stop);
        let Err(ProviderError::Cancelled(side)) = outcome else {
            panic!("{case}: {outcome:?}");
        };
        assert_eq!((side.lost, side.unused), (lost, None), "{case}");
    }
}

/// R8
#[tokio::test(start_paused = true)]
async fn a_wait_beyond_the_bound_is_reported_instead_and_keeps_nobody_else_waiting() {
    for asked in [61, 3_600, 31_536_000] {
        let gate = ProviderGate::default();
        let scripted = Scripted::new([Err(failed(ProviderFailureKind::RateLimiting, Some(asked)))]);
        let outcome = call_with_retries(&scripted, &gate, FULL, 1, &mut |_| ()).await;
        let wait = Some(Duration::from_secs(asked));
        assert!(
            matches!(&outcome, Err(ProviderError::Failed(failure)) if failure.retry_after == wait),
            "{outcome:?}"
        );
        let other = Scripted::new([Ok(answer("hi"))]);
        assert_eq!(run(&other, &gate, 2).await.0, Ok("hi".to_owned()));
        assert_eq!(other.asked(), [Duration::from_secs(1)], "{asked}");
    }
}

/// R8, R9
#[tokio::test(start_paused = true)]
async fn while_another_model_can_answer_nobody_waits_for_long() {
    let begun = Instant::now();
    let limited = |wait| Err(failed(ProviderFailureKind::RateLimiting, wait));
    // A short wait is worth it.
    let gate = ProviderGate::default();
    let scripted = Scripted::new([limited(Some(2)), Ok(answer("hi"))]);
    assert!(
        call_with_retries(&scripted, &gate, SHORT, 1, &mut |_| ())
            .await
            .is_ok()
    );
    // A long one is not, and the gate closes for it.
    let scripted = Scripted::new([limited(Some(30))]);
    assert!(
        call_with_retries(&scripted, &gate, SHORT, 1, &mut |_| ())
            .await
            .is_err()
    );
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    // While the gate is closed, nothing is sent, and the reason is known.
    let unasked = Scripted::new([]);
    let outcome = call_with_retries(&unasked, &gate, SHORT, 1, &mut |_| ()).await;
    let text = outcome.expect_err("closed").to_string();
    assert_eq!(text, "the model provider is rate-limiting");
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    // Then a single attempt tests it.
    tokio::time::advance(Duration::from_secs(30)).await;
    let overloaded = || Err(failed(ProviderFailureKind::Overloaded, None));
    let probe = Scripted::new([overloaded()]);
    assert!(
        call_with_retries(&probe, &gate, SHORT, 1, &mut |_| ())
            .await
            .is_err()
    );
    assert_eq!(probe.asked().len(), 1);
    let probe = Scripted::new([Ok(answer("hi"))]);
    assert!(
        call_with_retries(&probe, &gate, SHORT, 1, &mut |_| ())
            .await
            .is_ok()
    );
    // An open gate allows all attempts whose waits are short.
    let faults = Scripted::new((0..5).map(|_| overloaded()));
    assert!(
        call_with_retries(&faults, &gate, SHORT, 1, &mut |_| ())
            .await
            .is_err()
    );
    assert!((3..5).contains(&faults.asked().len()), "{:?}", faults.asked());
}

/// R8: a caller that waits at the gate gets the reason for which the provider refused.
#[tokio::test(start_paused = true)]
async fn a_wait_behind_others_has_the_reason_of_the_last_refusal() {
    for kind in [ProviderFailureKind::Overloaded, ProviderFailureKind::RateLimiting] {
        let gate = ProviderGate::default();
        let refused = gate.acquire().await;
        gate.close_for(&refused, kind, Duration::from_secs(7));
        let (outcome, events) = run(&Scripted::new([Ok(answer("hi"))]), &gate, 2).await;
        assert_eq!(outcome, Ok("hi".to_owned()));
        let why = kind.to_string();
        let wait = Duration::from_secs(7);
        assert_eq!(events, [StreamEvent::Retrying { why, wait }]);
    }
}

/// A conversation whose calls are always refused.
struct AlwaysLimited {
    asked: Mutex<u32>,
    retry_after: Option<u64>,
}

#[async_trait]
impl RetryableCall for AlwaysLimited {
    async fn attempt(&self, _: EventSink<'_>) -> Result<Completion, ProviderFailure> {
        *self.asked.lock().expect("lock") += 1;
        Err(failed(ProviderFailureKind::RateLimiting, self.retry_after))
    }
}

/// R8: a call that takes some time, as those of models do.
struct SlowAnswer;

#[async_trait]
impl RetryableCall for SlowAnswer {
    async fn attempt(&self, _: EventSink<'_>) -> Result<Completion, ProviderFailure> {
        tokio::time::sleep(Duration::from_secs(3)).await;
        Ok(answer("hi"))
    }
}

/// R8
#[tokio::test(start_paused = true)]
async fn a_conversation_that_is_limited_by_itself_does_not_starve_four_others() {
    for retry_after in [
        None,
        Some(0),
        Some(1),
        Some(20),
        Some(60),
        Some(61),
        Some(31_536_000),
    ] {
        let gate = ProviderGate::default();
        let (gate, begun) = (&gate, Instant::now());
        let angry = AlwaysLimited {
            asked: Mutex::default(),
            retry_after,
        };
        // One caller retries for five minutes, each time with all of its attempts.
        let angry = async {
            while begun.elapsed() < Duration::from_secs(300) {
                assert!(
                    call_with_retries(&angry, gate, FULL, 0, &mut |_| ())
                        .await
                        .is_err()
                );
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        let calm = |seed: u64| async move {
            let mut slowest = Duration::ZERO;
            while begun.elapsed() < Duration::from_secs(300) {
                let asked = Instant::now();
                assert!(
                    call_with_retries(&SlowAnswer, gate, FULL, seed, &mut |_| ())
                        .await
                        .is_ok()
                );
                slowest = slowest.max(asked.elapsed());
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            slowest
        };
        let four = futures_util::future::join_all((1..=4).map(calm));
        let ((), slowest) = tokio::join!(angry, four);
        // The bound is the sum of: the required wait, a probe of the refused caller, the own probe, and the answer.
        let asked = retry_after.filter(|asked| *asked <= 60).unwrap_or(1);
        let bound = Duration::from_secs(asked.max(1) + 1 + 4 + 3);
        assert!(
            slowest.iter().all(|slowest| *slowest <= bound),
            "{retry_after:?}: {slowest:?}"
        );
    }
}

/// R8
#[tokio::test(start_paused = true)]
async fn a_probe_that_fails_does_not_make_the_answer_to_an_earlier_one_worthless() {
    let gate = ProviderGate::default();
    let refused = gate.acquire().await;
    gate.close_for(
        &refused,
        ProviderFailureKind::RateLimiting,
        Duration::from_secs(7),
    );
    let (slow, failing) = (gate.acquire().await, gate.acquire().await);
    gate.close_for(
        &failing,
        ProviderFailureKind::RateLimiting,
        Duration::from_secs(60),
    );
    let (_, closed_until) = gate.closed_until().expect("closed");
    assert_eq!(closed_until - Instant::now(), Duration::from_secs(1));
    gate.record_answer(slow);
    assert_eq!(gate.closed_until(), None);
}

proptest! {
    /// R8, R10
    #[test]
    fn no_wait_is_shorter_than_asked_or_ends_after_the_bound(
        made in 1u32..40, broken in 0u32..3, elapsed in 0u64..200, asked in proptest::option::of(0u64..200),
        seed in any::<u64>(),
    ) {
        let attempts = AttemptCounts { made, broken, elapsed: Duration::from_secs(elapsed) };
        let failure = failed(ProviderFailureKind::RateLimiting, asked);
        match decide(&failure, attempts, 10, jitter(seed, made)) {
            RetryDecision::Wait(wait) => {
                prop_assert!(made < 10);
                prop_assert!(wait >= Duration::from_secs(asked.unwrap_or_default()));
                prop_assert!(attempts.elapsed + wait <= Duration::from_secs(90));
            }
            RetryDecision::GiveUp => prop_assert!(
                made >= 10 || elapsed + asked.unwrap_or(20) + 1 >= 90 || asked > Some(60)
            ),
        }
    }

    #[test]
    fn jitter_stays_in_its_range(seed in any::<u64>(), attempt in any::<u32>()) {
        prop_assert!((0.0..1.0).contains(&jitter(seed, attempt)));
    }
}
