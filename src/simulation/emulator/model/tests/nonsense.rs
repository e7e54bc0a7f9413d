//! Tests of answers that are cut, refused or empty, and of nonsense from a model.

use super::{ModelFixture, asking, expectations, failed_results, failure_kind_of, results, ways};
use crate::base::config::{AnswerMode, known_provider};
use crate::base::model::{ContentBlock, Step, StopReason};
use crate::interfaces::provider::ProviderFailureKind;
use crate::simulation::emulator::model::{AnswerFault, calls, queue, says};
use serde_json::json;

/// R11, R12, TK-76
#[tokio::test]
async fn answers_that_are_cut_refused_or_empty_end_alike_in_every_format() {
    for way in ways() {
        let format = expectations(way.0);
        let line = |reason: &str| {
            let line = says("Words.").with_call("file_read", json!({"path": "a"}));
            line.with_fault(AnswerFault::Stop(reason.to_owned()))
        };
        // An empty answer is asked for once more.
        let lines = [
            line(format.cut_reason),
            line(format.refusal_reason),
            says(""),
            says(""),
            says("Done."),
        ];
        let mut fixture = ModelFixture::new(way, queue(lines));
        let mut history = asking("hello");
        let cut = fixture.ask(&history).await.expect("answer").assistant;
        let arguments: Vec<&str> = cut.calls().map(|call| call.arguments.text()).collect();
        assert_eq!(
            (cut.stop, arguments),
            (StopReason::MaxTokens, vec![""]),
            "{way:?}"
        );
        let call_results = failed_results(&cut, "it was cut");
        history
            .push(Step::new(cut, call_results).expect("step"))
            .expect("open");
        let words = vec![ContentBlock::Text {
            text: "Words.".into(),
        }];
        for (stop, blocks) in [(StopReason::Refusal, words), (StopReason::EndTurn, Vec::new())] {
            let answer = fixture.ask(&history).await.expect("answer").assistant;
            assert_eq!((answer.stop, &answer.blocks), (stop, &blocks), "{way:?}");
            history
                .push(Step::new(answer, Vec::new()).expect("step"))
                .expect("open");
            history.begin("again").expect("turn");
        }
        let last = fixture.ask(&history).await.expect("answer").assistant;
        assert_eq!(last.text(), "Done.", "{way:?}");
        fixture.assert_in_order();
    }
}

/// R12, STK-51
#[tokio::test]
async fn what_a_model_gets_wrong_never_breaks_the_conversation() {
    let bad = [
        "",
        "{",
        "{\"path\":",
        "[1]",
        "\"a\"",
        "null",
        "{\"path\": 7}",
        "{}",
        "true",
        "{\"a\":1}}",
    ];
    let mut faults: Vec<AnswerFault> = bad.map(|text| AnswerFault::Arguments(text.to_owned())).into();
    faults.extend(
        [
            "max_tokens",
            "length",
            "MAX_TOKENS",
            "max_output_tokens",
            "refusal",
            "content_filter",
            "SAFETY",
            "unheard_of",
        ]
        .map(|word| AnswerFault::Stop(word.to_owned())),
    );
    for way in ways() {
        for fault in &faults {
            let line = || {
                let line = says("Hm.").with_call("file_read", json!({"path": "a"}));
                line.with_call("no such tool", json!({}))
                    .with_fault(fault.clone())
            };
            let format = expectations(way.0);
            let has_arguments_as_text = match way.1 {
                AnswerMode::Streamed => format.streams_arguments_as_text,
                AnswerMode::Whole => format.has_arguments_as_text,
            };
            if !has_arguments_as_text && matches!(fault, AnswerFault::Arguments(_)) {
                // The arguments are part of the body, and the body would not be JSON.
                continue;
            }
            let mut fixture = ModelFixture::new(way, queue([line(), line(), says("Done.")]));
            let mut history = asking("hello");
            for _ in 0..2 {
                let answer = fixture.ask(&history).await.expect("answer").assistant;
                let call_results = failed_results(&answer, "");
                history
                    .push(Step::new(answer, call_results).expect("step"))
                    .expect("open");
                if history.begin("again").is_err() {
                    continue;
                }
            }
            fixture.ask(&history).await.unwrap_or_else(|error| {
                panic!("{way:?} {fault:?}: {error} {:?}", fixture.emulator.problems());
            });
            fixture.assert_in_order();
        }
    }
}

/// R12
#[tokio::test]
async fn an_answer_no_assistant_can_send_is_rejected_and_the_conversation_continues() {
    for way in ways() {
        let format = expectations(way.0);
        let status = AnswerFault::Status {
            status: 200,
            headers: vec![],
            body: format.forged_answer.to_string(),
        };
        let two = |fault| {
            let line = calls("file_read", json!({"path": "a"})).with_call("file_read", json!({}));
            line.with_fault(fault)
        };
        let lines = [
            two(status),
            two(AnswerFault::Ids("same".to_owned())),
            says("Done."),
        ];
        let mut fixture = ModelFixture::new(way, queue(lines));
        let history = asking("hello");
        for _ in 0..2 {
            let outcome = fixture.ask(&history).await;
            assert!(
                failure_kind_of(&outcome) == Some(ProviderFailureKind::Malformed),
                "{way:?}: {outcome:?}"
            );
        }
        let answer = fixture.ask(&history).await.expect("answer").assistant;
        assert_eq!(
            (answer.text().as_str(), answer.raw.is_some()),
            ("Done.", format.own_blocks.is_some())
        );
        fixture.assert_in_order();
    }
}

/// R12
#[tokio::test]
async fn calls_of_gemini_with_empty_ids_are_answered_by_their_place() {
    let google = known_provider("google").expect("a known provider");
    for mode in [AnswerMode::Streamed, AnswerMode::Whole] {
        let two = calls("file_read", json!({"path": "a"})).with_call("git_status", json!({}));
        let script = queue([two.with_fault(AnswerFault::Ids(String::new())), says("Done.")]);
        let mut fixture = ModelFixture::new((google, mode), script);
        let mut history = asking("hello");
        let answer = fixture.ask(&history).await.expect("answer").assistant;
        let call_results = results(&answer, "content");
        history
            .push(Step::new(answer, call_results).expect("step"))
            .expect("open");
        fixture.ask(&history).await.expect("answer");
        let sent = &fixture.emulator.requests()[1];
        assert_eq!(sent.last_results().len(), 2);
        assert!(!sent.raw.contains("\"functionResponse\":{\"id\""), "{}", sent.raw);
        fixture.assert_in_order();
    }
}
