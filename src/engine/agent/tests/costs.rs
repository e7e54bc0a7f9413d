//! Tests of budgets, and of what calls, attempts and lost answers cost.

use super::fixture::{MemoryJournal, TurnFixture};
use super::{READ_A, fixture, notice, write};
use crate::base::model::{History, Usage, Verdict};
use crate::engine::agent::EarlierAttempts;
use crate::interfaces::provider::scripted::{ScriptStep, ScriptedProvider, calls, says};
use crate::interfaces::provider::{LostCharge, ProviderError, ProviderFailureKind, SideCosts, UnusedAnswer};
use std::time::Duration;

/// T92
#[tokio::test]
async fn a_call_that_no_budget_covers_is_not_made() {
    let fixture = TurnFixture::new();
    let model = ScriptedProvider::new((0..9).map(|number| write("1", "a.txt", &format!("{number}\n"))));
    let journal = MemoryJournal {
        calls_allowed: Some(2),
        ..MemoryJournal::default()
    };
    let ran = fixture.run_on(&model, &mut History::default(), journal).await;
    assert_eq!((ran.outcome().verdict, ran.outcome().steps), (Verdict::Limit, 2));
    assert_eq!(notice(&ran), "I stopped: the budget is $1.00.");
    assert_eq!(
        (model.requests().len(), ran.reserved.len(), ran.failed_calls),
        (2, 3, 0)
    );
    // A later request is larger, and so is what it may cost.
    assert!(
        ran.reserved
            .windows(2)
            .all(|calls| calls[0].request_bytes < calls[1].request_bytes)
    );
}

/// T92
#[tokio::test]
async fn a_call_that_failed_or_was_not_sent_is_released_and_a_cancelled_one_stays_reserved() {
    let fixture = TurnFixture::new();
    let failed = fixture
        .run(&ScriptedProvider::new([ScriptStep::fails(
            ProviderFailureKind::Overloaded,
            "busy",
        )]))
        .await;
    assert_eq!(
        (failed.reserved.len(), failed.failed_calls, failed.lost_calls),
        (1, 1, 0)
    );
    for (step, lost_calls) in [(ScriptStep::Stall, 1), (ScriptStep::Wait, 0)] {
        let fixture = TurnFixture::new();
        let cancelled = ScriptedProvider::new([step]);
        let run = fixture.run(&cancelled);
        let stop = async {
            while cancelled.requests().is_empty() {
                tokio::task::yield_now().await;
            }
            fixture.cancel.cancel();
        };
        let (ran, ()) = tokio::join!(run, stop);
        assert_eq!(ran.outcome().verdict, Verdict::Cancelled);
        assert_eq!(
            (ran.reserved.len(), ran.failed_calls, ran.lost_calls),
            (1, 1, lost_calls)
        );
    }
}

/// T92
#[tokio::test(start_paused = true)]
async fn the_end_of_the_time_releases_a_call_that_was_not_sent() {
    for (step, lost_calls) in [(ScriptStep::Stall, 1), (ScriptStep::Wait, 0)] {
        let mut fixture = TurnFixture::new();
        fixture.limits.turn_time_max = Duration::from_secs(600);
        let ran = fixture.run(&ScriptedProvider::new([step])).await;
        assert_eq!(ran.outcome().verdict, Verdict::Limit);
        assert_eq!(
            (ran.reserved.len(), ran.failed_calls, ran.lost_calls),
            (1, 1, lost_calls)
        );
    }
}

/// T92
#[tokio::test]
async fn tokens_are_bounded_after_the_call_that_passed_the_bound() {
    let mut fixture = TurnFixture::new();
    fixture.limits.turn_tokens_max = 200;
    let lines = (0..9).map(|number| write("1", "a.txt", &format!("{number}\n")));
    let ran = fixture.run(&ScriptedProvider::new(lines)).await;
    assert_eq!((ran.outcome().verdict, ran.outcome().steps), (Verdict::Limit, 2));
    assert_eq!(
        notice(&ran),
        "I stopped at 220 tokens; the limit of one turn is 200."
    );
}

/// R23: the work that a restart interrupted belongs to the same message.
#[tokio::test]
async fn a_turn_that_goes_on_after_a_restart_counts_what_was_spent_before() {
    let mut fixture = TurnFixture::new();
    fixture.earlier_attempts = EarlierAttempts {
        turns: 1,
        steps: 3,
        usage: Usage {
            input: 300,
            output: 30,
            ..Usage::default()
        },
    };
    fixture.limits.turn_tokens_max = 400;
    let model = ScriptedProvider::new([calls(&[READ_A]), says("never")]);
    let ran = fixture.run(&model).await;
    assert_eq!(
        notice(&ran),
        "I stopped at 440 tokens; the limit of one turn is 400."
    );
    assert_eq!((ran.outcome().steps, ran.outcome().usage.total()), (1, 110));
    fixture.limits.turn_tokens_max = 330;
    let ran = fixture.run(&ScriptedProvider::new([says("never")])).await;
    assert_eq!(
        notice(&ran),
        "I stopped at 330 tokens; the limit of one turn is 330."
    );
    fixture.limits.turn_tokens_max = 0;
    fixture.limits.steps_max = 1;
    let ran = fixture.run(&ScriptedProvider::new([calls(&[READ_A])])).await;
    assert_eq!(notice(&ran), "I stopped after 1 steps without an answer.");
    fixture.cancel.cancel();
    let stopped = |ran: &fixture::TurnRun| notice(ran).to_owned();
    assert_eq!(
        stopped(&fixture.run(&ScriptedProvider::new([])).await),
        "Stopped at step 3."
    );
    fixture.earlier_attempts = EarlierAttempts {
        turns: 1,
        ..EarlierAttempts::default()
    };
    assert_eq!(
        stopped(&fixture.run(&ScriptedProvider::new([])).await),
        "Stopped at step 1."
    );
}

/// T92
#[tokio::test]
async fn a_call_whose_answer_was_lost_stays_reserved_and_an_unused_answer_is_paid() {
    let fixture = TurnFixture::new();
    for (kind, lost_calls) in [
        (ProviderFailureKind::RateLimiting, 0),
        (ProviderFailureKind::Overloaded, 0),
        (ProviderFailureKind::Faulty, 0),
        (ProviderFailureKind::Unreached, 0),
        (ProviderFailureKind::Refused, 0),
        (ProviderFailureKind::Rejected, 0),
        (ProviderFailureKind::Silent, 1),
        (ProviderFailureKind::Broken, 1),
        (ProviderFailureKind::Malformed, 1),
    ] {
        let script = ScriptedProvider::new([ScriptStep::fails(kind, "")]);
        let ran = fixture.run(&script).await;
        assert_eq!((ran.failed_calls, ran.lost_calls), (1, lost_calls), "{kind:?}");
    }
    let side = SideCosts {
        unused: Some(UnusedAnswer {
            model: "scripted-1".to_owned(),
            usage: Usage {
                output: 7,
                ..Usage::default()
            },
        }),
        lost: LostCharge::Possible,
    };
    let with_side = |mut step: ScriptStep| {
        match &mut step {
            ScriptStep::Answer(completion) => completion.side = side.clone(),
            ScriptStep::Fail(ProviderError::Failed(failure)) => failure.side = side.clone(),
            ScriptStep::Fail(ProviderError::Cancelled(_))
            | ScriptStep::Stall
            | ScriptStep::Wait
            | ScriptStep::Deaf => {}
        }
        step
    };
    for (step, output) in [
        (says("Here."), 17),
        (ScriptStep::fails(ProviderFailureKind::Overloaded, ""), 7),
    ] {
        let ran = fixture.run(&ScriptedProvider::new([with_side(step)])).await;
        assert_eq!(
            (ran.lost_calls, ran.discarded_tokens.as_slice()),
            (1, [7].as_slice())
        );
        assert_eq!(ran.outcome().usage.output, output);
    }
}

/// T92: an answer is recorded when it arrives, and once more with what became of it. If its check breaks, nothing else
/// records it.
#[tokio::test]
async fn an_answer_whose_check_breaks_is_paid() {
    let mut fixture = TurnFixture::new();
    fixture.postconditions.breaks = true;
    let model = ScriptedProvider::new([calls(&[READ_A]), says("Done.")]);
    let ran = fixture.run(&model).await;
    let error = ran.outcome.as_ref().unwrap_err();
    assert_eq!(error.to_string(), "the base is gone");
    assert_eq!(ran.received_tokens, [10, 10]);
    assert_eq!((ran.steps.len(), ran.discarded_tokens), (1, vec![10]));
}
