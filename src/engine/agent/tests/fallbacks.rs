//! Tests of the models that answer when the one before them does not.

use super::fixture::{MemoryJournal, TurnFixture};
use super::{ends, notice, write};
use crate::base::config::ModelFacts;
use crate::base::model::{History, StopReason, Usage, Verdict};
use crate::engine::agent::TurnEvent;
use crate::interfaces::provider::ProviderFailureKind;
use crate::interfaces::provider::scripted::{ScriptStep, ScriptedProvider, calls, says};
use std::sync::Arc;

/// Adds models after the first one.
fn with_fallbacks(
    scripts: impl IntoIterator<Item = Vec<ScriptStep>>,
) -> (TurnFixture, Vec<Arc<ScriptedProvider>>) {
    let mut fixture = TurnFixture::new();
    for (script, name) in scripts.into_iter().zip(["second", "third", "fourth"]) {
        let facts = ModelFacts::default();
        fixture
            .fallbacks
            .push((Arc::new(ScriptedProvider::new(script)), name, facts));
    }
    let fallbacks = fixture.fallbacks.iter();
    let providers = fallbacks.map(|(provider, ..)| Arc::clone(provider)).collect();
    (fixture, providers)
}

fn models(provider: &ScriptedProvider) -> Vec<String> {
    let requests = provider.requests().into_iter();
    requests.map(|request| request.model).collect()
}

fn falls_back(event: &TurnEvent) -> bool {
    matches!(event, TurnEvent::FallingBack { .. })
}

/// R9, R10
#[tokio::test]
async fn each_failure_that_another_model_may_not_have_goes_to_the_next_one_once() {
    for kind in [
        ProviderFailureKind::RateLimiting,
        ProviderFailureKind::Overloaded,
        ProviderFailureKind::Faulty,
        ProviderFailureKind::Unreached,
        ProviderFailureKind::Silent,
        ProviderFailureKind::Broken,
        ProviderFailureKind::Malformed,
        ProviderFailureKind::Refused,
    ] {
        let (fixture, fallbacks) = with_fallbacks([vec![says("Here.")], vec![says("never")]]);
        let first = ScriptedProvider::new([ScriptStep::fails(kind, "why"), says("never")]);
        let ran = fixture.run(&first).await;
        let outcome = ran.outcome();
        assert_eq!(
            (outcome.verdict, outcome.answer.as_str()),
            (Verdict::Pass, "Here."),
            "{kind:?}"
        );
        assert_eq!(outcome.model, "scripted/second");
        let line = format!("`scripted/m` did not answer: {kind}: why. `scripted/second` answered instead.");
        assert_eq!(outcome.fallback.as_deref(), Some(line.as_str()));
        assert_eq!(
            (
                models(&first).len(),
                models(&fallbacks[0]).len(),
                models(&fallbacks[1]).len()
            ),
            (1, 1, 0)
        );
        let event = TurnEvent::FallingBack {
            from: "scripted/m".to_owned(),
            to: "scripted/second".to_owned(),
            why: kind.to_string(),
        };
        assert_eq!(ran.events.iter().filter(|seen| **seen == event).count(), 1);
        // One reservation covers all models.
        assert_eq!((ran.reserved.len(), ran.failed_calls), (1, 0));
        assert_eq!(ran.models, ["scripted/second"]);
    }
}

/// R9
#[tokio::test]
async fn what_every_model_would_reject_and_what_a_person_stops_goes_to_no_other() {
    let (fixture, fallbacks) = with_fallbacks([vec![says("never")]]);
    let rejects = ScriptStep::fails(ProviderFailureKind::Rejected, "it is invalid");
    let ran = fixture.run(&ScriptedProvider::new([rejects])).await;
    let expected = "No answer: the model provider rejected the request: it is invalid.";
    assert_eq!((ran.outcome().verdict, notice(&ran)), (Verdict::Error, expected));
    assert!(!ran.events.iter().any(falls_back) && models(&fallbacks[0]).is_empty());
    let first = ScriptedProvider::new([ScriptStep::Stall]);
    let run = fixture.run(&first);
    let stop = async {
        while first.requests().is_empty() {
            tokio::task::yield_now().await;
        }
        fixture.cancel.cancel();
    };
    let (ran, ()) = tokio::join!(run, stop);
    assert_eq!(ran.outcome().verdict, Verdict::Cancelled);
    assert!(models(&fallbacks[0]).is_empty());
    // A budget that does not cover the call covers none of the models.
    let (fixture, fallbacks) = with_fallbacks([vec![says("never")]]);
    let journal = MemoryJournal {
        calls_allowed: Some(0),
        ..MemoryJournal::default()
    };
    let first = ScriptedProvider::new([]);
    let ran = fixture.run_on(&first, &mut History::default(), journal).await;
    assert_eq!(ran.outcome().verdict, Verdict::Limit);
    assert!(models(&first).is_empty() && models(&fallbacks[0]).is_empty());
}

/// R9
#[tokio::test]
async fn if_no_model_answers_one_text_names_each_with_its_reason() {
    let fails = |kind, why| vec![ScriptStep::fails(kind, why)];
    let (fixture, _) = with_fallbacks([
        fails(ProviderFailureKind::Refused, "no credit"),
        fails(ProviderFailureKind::Unreached, ""),
    ]);
    let first = ScriptedProvider::new(fails(ProviderFailureKind::Broken, "reset"));
    let ran = fixture.run(&first).await;
    let expected = "No model answered. `scripted/m`: the answer of the model provider was interrupted: reset. \
                    `scripted/second`: the model provider refused the request: no credit. `scripted/third`: the model \
                    provider could not be reached.";
    assert_eq!((ran.outcome().verdict, notice(&ran)), (Verdict::Error, expected));
    // An answer of the first model may have been paid, so the reservation stays.
    assert_eq!((ran.failed_calls, ran.lost_calls), (1, 1));
    assert_eq!(ran.outcome().fallback, None);
}

#[tokio::test]
async fn a_turn_stays_with_the_model_that_answered_and_the_next_turn_begins_anew() {
    let (fixture, fallbacks) = with_fallbacks([
        vec![
            write("1", "a.txt", "beta\n"),
            ScriptStep::fails(ProviderFailureKind::Overloaded, ""),
        ],
        vec![says("Done."), says("never")],
    ]);
    let first = ScriptedProvider::new([
        ScriptStep::fails(ProviderFailureKind::Overloaded, ""),
        says("I am back."),
    ]);
    let mut history = History::default();
    let ran = fixture
        .run_on(&first, &mut history, MemoryJournal::default())
        .await;
    assert_eq!(ran.outcome().answer, "Done.");
    assert_eq!(ran.models, ["scripted/second", "scripted/third"]);
    assert_eq!(
        (
            models(&first).len(),
            models(&fallbacks[0]).len(),
            models(&fallbacks[1]).len()
        ),
        (1, 2, 1)
    );
    let line = ran.outcome().fallback.clone().unwrap();
    assert!(
        line.contains("`scripted/m` did not") && line.contains("`scripted/second` did not"),
        "{line}"
    );
    let ran = fixture
        .run_on(&first, &mut history, MemoryJournal::default())
        .await;
    assert_eq!(
        (ran.outcome().answer.as_str(), &ran.outcome().fallback),
        ("I am back.", &None)
    );
    assert_eq!(ran.models, ["scripted/m"]);
}

/// The tokens of a fallback say nothing about the size of the next request to the default model, and an answer in which
/// an unused one is contained says too much.
#[tokio::test]
async fn the_size_of_a_request_is_measured_by_one_answer_of_the_default_model() {
    let counted = |step: ScriptStep, input: u64| match step {
        ScriptStep::Answer(mut completion) => {
            completion.assistant.usage = Usage {
                input,
                ..Usage::default()
            };
            ScriptStep::Answer(completion)
        }
        other => other,
    };
    let (fixture, _) = with_fallbacks([vec![counted(says("Here."), 2_000)]]);
    let fails = ScriptStep::fails(ProviderFailureKind::Overloaded, "");
    let ran = fixture.run(&ScriptedProvider::new([fails])).await;
    assert_eq!(ran.outcome().context.bytes_per_1000_tokens, None);
    let ran = fixture
        .run(&ScriptedProvider::new([counted(says("Here."), 2_000)]))
        .await;
    assert!(ran.outcome().context.bytes_per_1000_tokens.is_some());
}

/// R9
#[tokio::test]
async fn a_fallback_with_a_smaller_window_gets_a_shorter_request_and_a_shorter_answer() {
    let read = |id: &'static str, arguments: &'static str| calls(&[(id, "file_read", arguments)]);
    let (mut fixture, fallbacks) = with_fallbacks([vec![says("never")], vec![says("Done.")]]);
    // The second model has no room for anything.
    fixture.fallbacks[0].2.context_tokens = Some(16);
    fixture.fallbacks[1].2 = ModelFacts {
        context_tokens: Some(20_000),
        answer_tokens_max: Some(1_000),
        ..ModelFacts::default()
    };
    let content = format!("{}\n", "x".repeat(99)).repeat(200);
    let script = [
        write("1", "a.txt", &content),
        write("2", "b.txt", &content),
        read("3", r#"{"path":"a.txt"}"#),
        read("4", r#"{"path":"b.txt"}"#),
        ScriptStep::fails(ProviderFailureKind::Overloaded, ""),
    ];
    let first = ScriptedProvider::new(script);
    let mut history = History::default();
    let ran = fixture
        .run_on(&first, &mut history, MemoryJournal::default())
        .await;
    assert_eq!(ran.outcome().answer, "Done.");
    assert!(models(&fallbacks[0]).is_empty());
    let line = ran.outcome().fallback.clone().unwrap();
    let skipped = "`scripted/m` did not answer: the model provider is overloaded. `scripted/second` was not asked: the \
                   request has at least ";
    assert!(line.starts_with(skipped), "{line}");
    let answered = "bytes fit into the context of the model (its `context_tokens` without an answer). `scripted/third` \
                    answered instead.";
    assert!(line.ends_with(answered), "{line}");
    let sent = |provider: &ScriptedProvider| {
        let last = provider.requests().pop().unwrap();
        let bytes = last.turns.iter().map(|turn| turn.bytes()).sum::<usize>();
        (bytes, last.answer_tokens_max)
    };
    let ((long, whole), (short, bounded)) = (sent(&first), sent(&fallbacks[1]));
    assert!(long > 80_000 && short < 57_000, "{long} {short}");
    assert_eq!((whole, bounded), (fixture.limits.answer_tokens_max, 1_000));
    // Nothing of the conversation is left out for good.
    assert!(history.turns()[0].bytes() > 80_000);
}

/// R9: the person reads why a fallback that is configured did not take over.
#[tokio::test]
async fn a_fallback_without_room_is_named_if_no_model_answers() {
    let (mut fixture, fallbacks) = with_fallbacks([vec![says("never")]]);
    fixture.fallbacks[0].2.context_tokens = Some(16);
    let fails = ScriptStep::fails(ProviderFailureKind::Overloaded, "");
    let ran = fixture.run(&ScriptedProvider::new([fails])).await;
    assert!(models(&fallbacks[0]).is_empty());
    let expected = "No model answered. `scripted/m`: the model provider is overloaded. `scripted/second` was not asked: \
                    the request has at least ";
    assert!(notice(&ran).starts_with(expected), "{}", notice(&ran));
}

/// An answer that was cut is one, and goes to no other model.
#[tokio::test]
async fn an_answer_that_is_cut_or_refused_is_an_answer() {
    for stop in [StopReason::MaxTokens, StopReason::Refusal] {
        let (fixture, fallbacks) = with_fallbacks([vec![says("never")]]);
        let ran = fixture
            .run(&ScriptedProvider::new([ends(says("No."), stop)]))
            .await;
        assert_eq!(ran.outcome().answer, "No.");
        assert!(models(&fallbacks[0]).is_empty());
    }
}
