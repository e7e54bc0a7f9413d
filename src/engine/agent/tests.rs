//! Tests of the loop with a scripted model on a real workspace.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod attachments;
mod costs;
mod endings;
mod events;
mod fallbacks;
mod fixture;
mod messages;
mod postconditions;
mod questions;
mod secrets;
mod steering;
mod stops;
mod strategies;
mod tool_hangs;
mod verdicts;
mod waits;

use crate::base::model::{History, RepoPath, StopReason, Turn, Usage, Verdict};
use crate::interfaces::provider::ProviderFailureKind;
use crate::interfaces::provider::scripted::{ScriptStep, ScriptedProvider, calls, says};
use crate::state::workspace::Tree;
use fixture::{MemoryJournal, TurnFixture};
use std::collections::HashSet;
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

/// CI-15
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

/// R12
#[tokio::test]
async fn an_answer_that_was_cut_or_refused_before_its_first_word_is_not_asked_for_again() {
    let fixture = TurnFixture::new();
    for (stop, why) in [
        (
            StopReason::MaxTokens,
            "reached its token limit before its first word",
        ),
        (StopReason::Refusal, "The model refused to answer."),
    ] {
        let provider = ScriptedProvider::new([ends(says(""), stop)]);
        let ran = fixture.run(&provider).await;
        assert!(notice(&ran).contains(why), "{}", notice(&ran));
        let outcome = (ran.outcome().verdict, ran.outcome().steps);
        assert_eq!(outcome, (Verdict::Incomplete, 1), "{stop:?}");
        assert_eq!(ran.discarded_tokens.len(), 1, "{stop:?}");
    }
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
    // The call of the model was made all the same.
    assert_eq!((ran.steps.len(), ran.discarded_tokens.as_slice()), (0, &[10][..]));
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
