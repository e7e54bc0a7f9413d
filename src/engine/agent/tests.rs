//! Tests of the loop with a scripted model on a real workspace.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod attachments;
mod endings;
mod fallbacks;
mod fixture;
mod postconditions;
mod questions;
mod steering;
mod strategies;
mod verdicts;

use super::{EarlierAttempts, TurnEvent};
use crate::base::model::{
    Assistant, ContentBlock, History, RepoPath, StopReason, ToolCall, Turn, Usage, Verdict,
};
use crate::interfaces::provider::scripted::{ScriptStep, ScriptedProvider, calls, says};
use crate::interfaces::provider::{
    Completion, LostCharge, ProviderError, ProviderFailureKind, SideCosts, UnusedAnswer,
};
use crate::interfaces::tool::testing::{LateAdmission, late_write};
use crate::rendering::compare::CompareProgress;
use crate::state::workspace::Tree;
use fixture::{MemoryJournal, SECRET, TurnFixture};
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop_oneof, proptest};
use std::collections::HashSet;
use std::time::Duration;
use tokio::time::Instant;

const READ_A: (&str, &str, &str) = ("1", "file_read", "{\"path\":\"a.txt\"}");

/// Sets the stop reason of an answer.
fn ends(line: ScriptStep, stop: StopReason) -> ScriptStep {
    match line {
        ScriptStep::Answer(mut completion) => {
            completion.assistant.stop = stop;
            ScriptStep::Answer(completion)
        }
        other => other,
    }
}

fn write(id: &'static str, path: &str, content: &str) -> ScriptStep {
    let arguments = serde_json::json!({ "path": path, "content": content }).to_string();
    calls(&[(id, "file_write", &arguments)])
}

fn notice(ran: &fixture::TurnRun) -> &str {
    ran.outcome().notice.as_deref().unwrap_or_default()
}

#[tokio::test]
async fn a_request_is_read_edited_and_answered_and_every_call_is_counted() {
    let fixture = TurnFixture::new();
    let model = ScriptedProvider::new([calls(&[READ_A]), write("2", "a.txt", "omega\n"), says("Done.")]);
    let ran = fixture.run(&model).await;
    let outcome = ran.outcome();
    assert_eq!(
        (outcome.verdict, outcome.answer.as_str(), &outcome.notice),
        (Verdict::Pass, "Done.", &None)
    );
    let usage = Usage {
        input: 300,
        output: 30,
        ..Usage::default()
    };
    assert_eq!((outcome.steps, outcome.tool_calls, outcome.usage), (3, 2, usage));
    let path = RepoPath::parse("a.txt").unwrap();
    assert_eq!(&fixture.overlay.read(&path).unwrap().content[..], b"omega\n");
    assert_eq!(ran.steps.len(), 3);
}

/// TK-1, REP-6
#[tokio::test]
async fn what_the_model_got_wrong_is_a_result_it_reads() {
    let fixture = TurnFixture::new();
    let wrong = calls(&[
        ("1", "file_raed", "{}"),
        ("2", "file_read", "{\"path\":"),
        ("3", "file_read", "{\"path\":\"../../etc/passwd\"}"),
        ("4", "file_read", "{\"path\":\"a.txt\"}"),
    ]);
    let ran = fixture.run(&ScriptedProvider::new([wrong, says("Sorry.")])).await;
    let results = ran.results();
    assert_eq!(
        results.iter().map(|(_, is_error)| *is_error).collect::<Vec<_>>(),
        [true, true, true, false]
    );
    for (index, says) in [
        "did you mean `file_read`?",
        "not valid JSON",
        "outside the repository",
        "alpha",
    ]
    .iter()
    .enumerate()
    {
        assert!(results[index].0.contains(says), "{}", results[index].0);
    }
    assert_eq!(ran.outcome().verdict, Verdict::Pass);
}

/// CI-18
#[tokio::test(start_paused = true)]
async fn reads_run_side_by_side_and_a_write_waits_for_those_before_it() {
    let fixture = TurnFixture::new();
    let step = calls(&[
        ("1", "slow_read", ""),
        ("2", "slow_read", ""),
        ("3", "slow_write", ""),
        ("4", "slow_read", ""),
    ]);
    let started = Instant::now();
    let ran = fixture.run(&ScriptedProvider::new([step, says("ok")])).await;
    assert_eq!(started.elapsed().as_millis(), 300);
    let log = fixture.log.lock().unwrap().join(", ");
    assert_eq!(
        log,
        "slow_read begins, slow_read begins, slow_read ends, slow_read ends, \
         slow_write begins, slow_write ends, slow_read begins, slow_read ends"
    );
    let order: Vec<&str> = ran.results().iter().map(|(content, _)| *content).collect();
    assert_eq!(order, ["slow_read", "slow_read", "slow_write", "slow_read"]);
}

/// REP-2
#[tokio::test]
async fn steps_are_bounded() {
    let mut fixture = TurnFixture::new();
    fixture.limits.steps_max = 3;
    let lines = (0..9).map(|number| write("1", "a.txt", &format!("{number}\n")));
    let model = ScriptedProvider::new(lines);
    let ran = fixture.run(&model).await;
    assert_eq!(ran.outcome().verdict, Verdict::Limit);
    assert_eq!(notice(&ran), "I stopped after 3 steps without an answer.");
    assert_eq!(model.requests().len(), 3);
}

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

/// R28
#[tokio::test(start_paused = true)]
async fn a_model_or_a_tool_that_never_answers_ends_with_the_time_of_the_turn() {
    let mut fixture = TurnFixture::new();
    fixture.limits.turn_time_max = Duration::from_secs(600);
    let ran = fixture.run(&ScriptedProvider::new([ScriptStep::Stall])).await;
    assert_eq!(
        (ran.outcome().verdict, notice(&ran)),
        (Verdict::Limit, "I stopped after 600 s without an answer.")
    );
    let started = Instant::now();
    let ran = fixture
        .run(&ScriptedProvider::new([
            calls(&[("1", "hang", "")]),
            says("never"),
        ]))
        .await;
    assert_eq!(ran.outcome().verdict, Verdict::Limit);
    assert_eq!(ran.results(), [("stopped: the turn ran out of time", true)]);
    assert_eq!(started.elapsed().as_secs(), 600);
}

/// R28
#[tokio::test]
async fn a_call_that_ran_out_of_time_writes_nothing_afterwards() {
    let (tool, steps, go_on) = late_write(LateAdmission::AfterWait);
    let mut fixture = TurnFixture::new().with_tool(tool);
    fixture.limits.turn_time_max = Duration::from_secs(1);
    let model = ScriptedProvider::new([calls(&[("1", "late_write", "{}")]), says("never")]);
    let ran = fixture.run(&model).await;
    assert_eq!(ran.results(), [("stopped: the turn ran out of time", true)]);
    assert_eq!(ran.outcome().verdict, Verdict::Limit);
    go_on.send(()).unwrap();
    let _ended = steps.ended.acquire().await.unwrap();
    assert!(fixture.overlay.is_untouched(), "it wrote after its turn");
}

/// R28
#[tokio::test]
async fn a_write_that_has_begun_when_the_time_is_up_belongs_to_its_step() {
    for by_stop in [false, true] {
        let (tool, steps, go_on) = late_write(LateAdmission::BeforeWait);
        let mut fixture = TurnFixture::new().with_tool(tool);
        if !by_stop {
            fixture.limits.turn_time_max = Duration::from_secs(1);
        }
        let model = ScriptedProvider::new([calls(&[("1", "late_write", "{}")]), says("never")]);
        let running = fixture.run(&model);
        tokio::pin!(running);
        let begun = async {
            let _waits = steps.waits.acquire().await.unwrap();
            if by_stop {
                fixture.cancel.cancel();
            }
            // The sleep is longer than the time limit of the turn.
            tokio::time::sleep(Duration::from_millis(1_200)).await;
        };
        tokio::select! {
            _ = &mut running => panic!("the step ended before its write"),
            () = begun => {}
        }
        go_on.send(()).unwrap();
        let ran = running.await;
        assert!(ran.outcome.is_ok(), "{:?}", ran.outcome);
        assert!(!fixture.overlay.is_untouched(), "by_stop: {by_stop}");
    }
}

#[tokio::test(start_paused = true)]
async fn no_call_of_an_answer_begins_after_the_time_is_up() {
    let mut fixture = TurnFixture::new();
    // The first call takes as long as the turn's time limit: both end at once.
    fixture.limits.turn_time_max = Duration::from_millis(100);
    let model = ScriptedProvider::new([
        calls(&[("1", "slow_write", ""), ("2", "slow_write", "")]),
        says("never"),
    ]);
    let ran = fixture.run(&model).await;
    assert_eq!(ran.outcome().verdict, Verdict::Limit);
    assert_eq!(ran.results()[1], ("stopped: the turn ran out of time", true));
    let begun = fixture
        .log
        .lock()
        .unwrap()
        .iter()
        .filter(|line| line.ends_with("begins"))
        .count();
    assert_eq!(begun, 1);
}

/// STK-43
#[tokio::test(start_paused = true)]
async fn a_stop_ends_a_stalled_model_and_a_hanging_tool_within_a_second() {
    for script in [
        vec![ScriptStep::Stall],
        vec![calls(&[("1", "hang", "")]), says("never")],
    ] {
        let fixture = TurnFixture::new();
        let cancel = fixture.cancel.clone();
        let model = ScriptedProvider::new(script);
        let stop = async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            cancel.cancel();
            Instant::now()
        };
        let (ran, stopped_at) = tokio::join!(fixture.run(&model), stop);
        assert!(stopped_at.elapsed() < Duration::from_secs(1));
        assert_eq!(
            (ran.outcome().verdict, notice(&ran)),
            (Verdict::Cancelled, "Stopped at step 1.")
        );
    }
}

#[tokio::test]
async fn a_stop_before_the_first_step_asks_nobody() {
    let fixture = TurnFixture::new();
    fixture.cancel.cancel();
    let model = ScriptedProvider::new([says("never")]);
    let ran = fixture.run(&model).await;
    assert_eq!(
        (ran.outcome().verdict, model.requests().len(), notice(&ran)),
        (Verdict::Cancelled, 0, "Stopped before the first step.")
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

/// R12, STK-35, STK-50
#[tokio::test]
async fn ids_that_repeat_are_made_unique_in_the_whole_conversation() {
    let fixture = TurnFixture::new();
    let twice = || {
        calls(&[
            ("x", "file_read", "{\"path\":\"a.txt\"}"),
            ("x", "file_read", "{\"path\":\"b.txt\"}"),
        ])
    };
    let model = ScriptedProvider::new([twice(), calls(&[("", "git_status", "")]), twice(), says("ok")]);
    let mut history = History::default();
    let ran = fixture
        .run_on(&model, &mut history, MemoryJournal::default())
        .await;
    assert_eq!(ran.outcome().verdict, Verdict::Pass);
    assert!(ran.results()[0].0.contains("alpha") && ran.results()[1].0.contains("beta"));
    assert_eq!(offences(history.turns()), [""; 0]);
}

/// STK-50
#[tokio::test]
async fn calls_of_an_answer_that_was_cut_are_not_run() {
    let fixture = TurnFixture::new();
    let cut = ends(write("1", "a.txt", "half"), StopReason::MaxTokens);
    let ran = fixture.run(&ScriptedProvider::new([cut, says("ok")])).await;
    assert!(ran.results()[0].1 && ran.results()[0].0.contains("was cut"));
    assert_eq!(fixture.overlay.changes().unwrap(), []);
    let cut = ends(says("half an ans"), StopReason::MaxTokens);
    let ran = fixture.run(&ScriptedProvider::new([cut])).await;
    assert_eq!(
        (ran.outcome().verdict, ran.outcome().answer.as_str()),
        (Verdict::Incomplete, "half an ans")
    );
    let refused = ends(says("No."), StopReason::Refusal);
    let ran = fixture.run(&ScriptedProvider::new([refused])).await;
    assert_eq!(
        (ran.outcome().verdict, notice(&ran)),
        (Verdict::Incomplete, "The model refused to continue.")
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

/// R12
#[tokio::test]
async fn an_empty_model_answer_is_retried_once_and_then_reported() {
    let fixture = TurnFixture::new();
    let ran = fixture
        .run(&ScriptedProvider::new([says(" "), says("Here.")]))
        .await;
    assert_eq!((ran.outcome().verdict, ran.outcome().steps), (Verdict::Pass, 2));
    // Each answer costs tokens, also a discarded one.
    assert_eq!((ran.steps.len(), ran.discarded_tokens.len()), (1, 1));
    let ran = fixture.run(&ScriptedProvider::new([says(""), says("\n")])).await;
    assert_eq!(notice(&ran), "The model gave an empty answer twice.");
    assert_eq!((ran.steps.len(), ran.discarded_tokens.len()), (0, 2));
    let paid: u64 = ran.discarded_tokens.iter().sum();
    assert_eq!(paid, ran.outcome().usage.output);
}

#[tokio::test]
async fn the_third_identical_call_ends_the_turn_and_so_does_the_third_malformed_one() {
    let fixture = TurnFixture::new();
    let again = |id| calls(&[(id, "file_read", "{\"path\":\"a.txt\"}")]);
    let ran = fixture
        .run(&ScriptedProvider::new([
            again("1"),
            again("2"),
            again("3"),
            says("never"),
        ]))
        .await;
    assert_eq!(
        notice(&ran),
        "I stopped: the model repeated the same `file_read` call 3 times."
    );
    let wrong = |id| calls(&[(id, "file_read", id)]);
    let ran = fixture
        .run(&ScriptedProvider::new([
            wrong("{"),
            wrong("["),
            wrong("x"),
            says("never"),
        ]))
        .await;
    assert_eq!(
        notice(&ran),
        "I stopped: the model made 3 malformed tool calls in a row."
    );
}

#[tokio::test]
async fn too_many_calls_in_one_answer_are_refused_and_the_rest_is_run() {
    let mut fixture = TurnFixture::new();
    fixture.limits.calls_per_step_max = 1;
    let step = calls(&[READ_A, ("2", "file_read", "{\"path\":\"b.txt\"}")]);
    let ran = fixture.run(&ScriptedProvider::new([step, says("ok")])).await;
    let results = ran.results();
    assert_eq!(
        (results[0].1, results[1]),
        (
            false,
            (
                "not run: at most 1 calls in one answer; call it in the next one",
                true
            )
        )
    );
}

/// T59
#[tokio::test]
async fn a_secret_is_gone_before_a_result_is_cut() {
    let mut fixture = TurnFixture::new();
    // The truncation would cut through the secret.
    fixture.limits.tool_output_bytes_max = 80;
    let ran = fixture
        .run(&ScriptedProvider::new([
            calls(&[("1", "tell_secret", "")]),
            says(SECRET),
        ]))
        .await;
    let visible = format!("{:?}{:?}{:?}", ran.results(), ran.events, ran.outcome());
    for part in [SECRET, "hunter2-h", "unter2-hunter2"] {
        let visible = visible.replace(&format!("Text({SECRET:?})"), "");
        assert!(!visible.contains(part), "{visible}");
    }
}

/// T59, T87: a call reveals a secret while another call has already answered, or after that.
#[tokio::test(start_paused = true)]
async fn a_secret_one_call_learns_is_redacted_from_parallel_results_before_truncation() {
    let tells = ("1", "tell_learnt", "");
    let learns = ("2", "learn", "");
    for (step, is_shown_early) in [
        (calls(&[tells, learns]), false),
        (calls(&[tells, ("3", "slow_write", ""), learns]), true),
    ] {
        let mut fixture = TurnFixture::new();
        // The truncation would cut through the secret.
        fixture.limits.tool_output_bytes_max = 80;
        let ran = fixture.run(&ScriptedProvider::new([step, says("Done.")])).await;
        let results = ran.results();
        assert!(results[0].0.ends_with("xx⟦secret:1⟧"), "{results:?}");
        let finished = ran.events.iter().filter_map(|event| match event {
            TurnEvent::ToolFinished { call, content, .. } => Some((call.as_str(), content.as_str())),
            _ => None,
        });
        let finished: Vec<_> = finished.collect();
        assert_eq!(finished.len(), results.len());
        for text in [format!("{results:?}"), format!("{:?}", finished.last())] {
            assert!(!text.contains("kept-to") && !text.contains("-4711"), "{text}");
        }
        // Users see the answer of a call at once, redacted with the secrets known at that time.
        assert_eq!(finished[0].1 != results[0].0, is_shown_early);
    }
}

#[tokio::test]
async fn a_journal_that_fails_ends_the_turn_at_the_last_durable_step() {
    let fixture = TurnFixture::new();
    let model = ScriptedProvider::new([calls(&[READ_A]), write("2", "a.txt", "x"), says("never")]);
    let journal = MemoryJournal {
        breaks_at: Some(1),
        ..MemoryJournal::default()
    };
    let ran = fixture.run_on(&model, &mut History::default(), journal).await;
    assert_eq!(
        ran.outcome.as_ref().unwrap_err().to_string(),
        "the journal is full"
    );
    assert_eq!((ran.steps.len(), model.requests().len()), (1, 2));
    let ran = fixture
        .run(&ScriptedProvider::new([
            calls(&[("1", "broken", "")]),
            says("never"),
        ]))
        .await;
    assert_eq!(ran.outcome.as_ref().unwrap_err().to_string(), "the disk is gone");
}

#[tokio::test]
async fn no_tool_runs_before_the_turn_is_stored() {
    let fixture = TurnFixture::new();
    let journal = MemoryJournal {
        never_begins: true,
        ..MemoryJournal::default()
    };
    let model = ScriptedProvider::new([write("1", "a.txt", "omega\n"), says("never")]);
    let ran = fixture.run_on(&model, &mut History::default(), journal).await;
    assert_eq!(
        ran.outcome.as_ref().unwrap_err().to_string(),
        "there is no such turn"
    );
    assert_eq!((ran.steps.len(), model.requests().len()), (0, 1));
    let path = RepoPath::parse("a.txt").unwrap();
    assert_eq!(&fixture.overlay.read(&path).unwrap().content[..], b"alpha\n");
}

/// R9, R10
#[tokio::test]
async fn a_provider_that_fails_closes_the_turn_and_says_why() {
    for (kind, says) in [
        (
            ProviderFailureKind::Overloaded,
            "the model provider is overloaded: why",
        ),
        (
            ProviderFailureKind::RateLimiting,
            "the model provider is rate-limiting: why",
        ),
        (ProviderFailureKind::Faulty, "the model provider has a fault: why"),
        (
            ProviderFailureKind::Malformed,
            "the answer is not in the provider's format: why",
        ),
        (
            ProviderFailureKind::Unreached,
            "the model provider could not be reached: why",
        ),
        (
            ProviderFailureKind::Refused,
            "the model provider refused the request: why",
        ),
    ] {
        let fixture = TurnFixture::new();
        let model = ScriptedProvider::new([write("1", "a.txt", "x"), ScriptStep::fails(kind, "why")]);
        let mut history = History::default();
        let ran = fixture
            .run_on(&model, &mut history, MemoryJournal::default())
            .await;
        assert_eq!(ran.outcome().verdict, Verdict::Error);
        assert!(
            notice(&ran).starts_with(&format!("No answer: {says}.")),
            "{}",
            notice(&ran)
        );
        assert_eq!(offences(history.turns()), [""; 0]);
        assert_eq!(fixture.overlay.changes().unwrap().len(), 1);
    }
}

#[tokio::test]
async fn people_see_each_step_and_each_tool() {
    let fixture = TurnFixture::new();
    let ran = fixture
        .run(&ScriptedProvider::new([
            calls(&[("1", "slow_read", "")]),
            says("ok"),
        ]))
        .await;
    let expected = [
        TurnEvent::StepStarted { step: 1 },
        TurnEvent::ToolStarted {
            call: "1".into(),
            name: "slow_read".into(),
            arguments: "".into(),
            subject: None,
        },
        TurnEvent::ToolFinished {
            call: "1".into(),
            name: "slow_read".into(),
            content: "slow_read".into(),
            is_error: false,
        },
        TurnEvent::StepStarted { step: 2 },
        TurnEvent::Text("ok".into()),
        TurnEvent::Checking(CompareProgress { done: 1, total: 2 }),
    ];
    assert_eq!(ran.events, expected);
}

/// People see what a call is about, under whatever name the model gave it, and no secret in it.
#[tokio::test]
async fn a_call_that_starts_shows_its_subject() {
    let fixture = TurnFixture::new();
    let secret = ["ghp_", "CANARYcanary0123456789CANARYcanary012345"].concat();
    let hidden = format!("{{\"path\":\"{secret}\"}}");
    let wanted = [
        ("1", "tanka_format_jsonnet", "{\"file_path\":\"lib/a.jsonnet\"}"),
        ("2", "tanka_format_jsonnet", "{\"path\":\"lib/b.jsonnet\"}"),
        ("3", "git_status", "{}"),
        ("4", "no_such_tool", "{\"path\":\"lib\"}"),
        ("5", "file_read", "{"),
        ("6", "file_read", &hidden),
    ];
    let ran = fixture
        .run(&ScriptedProvider::new([calls(&wanted), says("ok")]))
        .await;
    let subjects = ran.events.iter().filter_map(|event| match event {
        TurnEvent::ToolStarted { subject, .. } => Some(subject.as_deref()),
        _ => None,
    });
    let subjects: Vec<Option<&str>> = subjects.collect();
    let shown = [Some("lib/a.jsonnet"), Some("lib/b.jsonnet"), None, None, None];
    assert_eq!(subjects[..5], shown);
    let redacted = subjects[5].expect("a subject");
    assert!(!redacted.contains("CANARY"), "{redacted}");
}

#[tokio::test]
async fn running_tools_say_how_far_they_are_without_secrets_and_without_waiting() {
    let fixture = TurnFixture::new();
    let both = calls(&[
        ("1", "downloads", r#"{"path":"1"}"#),
        ("2", "downloads", r#"{"path":"1"}"#),
    ]);
    let flood = calls(&[("3", "downloads", r#"{"path":"1000"}"#)]);
    let ran = fixture
        .run(&ScriptedProvider::new([both, flood, says("ok")]))
        .await;
    let progress: Vec<(&str, &str, &str)> = ran
        .events
        .iter()
        .filter_map(|event| match event {
            TurnEvent::ToolProgress { call, name, text } => {
                Some((call.as_str(), name.as_str(), text.as_str()))
            }
            _ => None,
        })
        .collect();
    let words = "archive ⟦secret:1⟧ 4 MiB";
    assert_eq!(
        progress[..2],
        [("1", "downloads", words), ("2", "downloads", words)]
    );
    // Progress that is not received at once is dropped, and the tool continues.
    assert_eq!(progress.len(), 2 + 16);
    assert_eq!(ran.results(), [("downloaded", false); 3]);
}

/// Returns the errors that a provider would find in these turns.
fn offences(turns: &[Turn]) -> Vec<String> {
    let mut offences = Vec::new();
    let mut ids = HashSet::new();
    let mut offend = |what: String| offences.push(what);
    for (index, turn) in turns.iter().enumerate() {
        let last = turn.steps().len().saturating_sub(1);
        for (number, step) in turn.steps().iter().enumerate() {
            let assistant = step.assistant();
            for (call, result) in assistant.calls().zip(step.results()) {
                if call.id.is_empty() || !ids.insert(call.id.clone()) || call.id != result.call {
                    offend(format!("the id `{}` of turn {index}", call.id));
                }
            }
            let calls = assistant.calls().count();
            if calls != step.results().len()
                || (calls == 0) != (number == last && index + 1 < turns.len() || calls == 0)
            {
                offend(format!("step {number} of turn {index} does not pair"));
            }
            if calls == 0 && (assistant.text().is_empty() || step.is_final() && number != last) {
                offend(format!(
                    "step {number} of turn {index} says nothing, or too early"
                ));
            }
        }
        if index + 1 < turns.len() && turn.steps().last().is_none_or(|step| !step.is_final()) {
            offend(format!("turn {index} is open"));
        }
    }
    offences
}

#[derive(Clone, Debug)]
enum ModelAction {
    Says(String),
    Calls(Vec<(u8, u8)>, StopReason),
    Fails(u8),
    Stalls,
}

fn any_model_action() -> impl Strategy<Value = ModelAction> {
    let stop = prop_oneof![
        Just(StopReason::ToolUse),
        Just(StopReason::EndTurn),
        Just(StopReason::MaxTokens),
        Just(StopReason::Refusal)
    ];
    prop_oneof![
        2 => "[ a-z]{0,3}".prop_map(ModelAction::Says),
        6 => (proptest::collection::vec((0_u8..4, any::<u8>()), 1..5), stop).prop_map(|(calls, stop)| ModelAction::Calls(calls, stop)),
        1 => (0_u8..4).prop_map(ModelAction::Fails),
        1 => Just(ModelAction::Stalls),
    ]
}

fn line(does: &ModelAction) -> ScriptStep {
    match does {
        ModelAction::Says(text) => says(text),
        ModelAction::Calls(wanted, stop) => {
            let call = |(id, what): &(u8, u8)| {
                let (name, arguments) = match what % 8 {
                    0 | 1 => ("file_read", format!("{{\"path\":\"{}.txt\"}}", what / 8)),
                    2 => (
                        "file_write",
                        format!("{{\"path\":\"n{what}\",\"content\":\"{what}\"}}"),
                    ),
                    3 => ("no_such_tool", "{}".to_owned()),
                    4 => ("file_read", "{".to_owned()),
                    5 => ("slow_read", String::new()),
                    6 => ("slow_write", String::new()),
                    _ => ("hang", String::new()),
                };
                ContentBlock::Call(ToolCall {
                    id: ["", "a", "b", "call_0"][usize::from(*id)].to_owned(),
                    name: name.to_owned(),
                    arguments: arguments.into(),
                })
            };
            ScriptStep::Answer(Completion {
                assistant: Assistant {
                    blocks: wanted.iter().map(call).collect(),
                    raw: None,
                    stop: *stop,
                    usage: Usage::default(),
                },
                model: "scripted-1".to_owned(),
                side: SideCosts::default(),
            })
        }
        ModelAction::Fails(0) => ScriptStep::fails(ProviderFailureKind::RateLimiting, ""),
        ModelAction::Fails(1) => ScriptStep::fails(ProviderFailureKind::Broken, "reset"),
        ModelAction::Fails(_) => ScriptStep::fails(ProviderFailureKind::Rejected, "no"),
        ModelAction::Stalls => ScriptStep::Stall,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

    /// R13, STK-32, STK-64, STK-44
    #[test]
    fn no_ending_of_a_turn_ever_poisons_the_conversation(
        turns in proptest::collection::vec(
            (
                proptest::collection::vec(any_model_action(), 0..6),
                0_u64..2_000,
                proptest::collection::vec(0_usize..3, 0..6),
                any::<bool>(),
            ),
            1..4,
        ),
    ) {
        thread_local! {
            static BENCH: std::cell::RefCell<TurnFixture> = std::cell::RefCell::new(TurnFixture::new());
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        BENCH.with_borrow_mut(|fixture| runtime.block_on(async {
            let mut history = History::default();
            for (script, stop_after_ms, waiting, leaves_messages) in &turns {
                fixture.reset();
                fixture.limits.turn_time_max = Duration::from_millis(1_000);
                let model = ScriptedProvider::new(script.iter().map(line));
                let cancel = fixture.cancel.clone();
                let stop = async {
                    tokio::time::sleep(Duration::from_millis(*stop_after_ms)).await;
                    cancel.cancel();
                };
                let texts = waiting.iter().map(|count| (0..*count).map(|number| steering::message(1, &number.to_string())));
                let journal = MemoryJournal {
                    waiting: texts.map(Iterator::collect).collect(),
                    leaves_messages: *leaves_messages,
                    ..MemoryJournal::default()
                };
                let (ran, ()) = tokio::join!(fixture.run_on(&model, &mut history, journal), stop);
                assert!(ran.outcome.is_ok());
                for asked in model.requests() {
                    assert_eq!(offences(&asked.turns), [""; 0]);
                }
                assert!(history.begin("probe").is_ok(), "the turn is left open");
                history.close("probed");
                assert_eq!(offences(history.turns()), [""; 0]);
            }
        }));
    }
}
