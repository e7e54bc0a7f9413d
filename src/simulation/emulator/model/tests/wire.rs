//! Tests of valid requests and answers, and of nonsense from a model.

use super::{ModelFixture, asking, expectations, failure_kind_of, ways};
use crate::base::config::{AnswerMode, KNOWN_PROVIDERS, known_provider};
use crate::base::model::{
    Assistant, ContentBlock, History, RawBlocks, Step, StopReason, ToolCall, ToolResult, Usage,
};
use crate::interfaces::provider::{ProviderFailureKind, StreamEvent, first_of_each_format};
use crate::simulation::emulator::model::{
    AnswerFault, RequestCall, RequestMessage, RequestResult, RequestRole, calls, queue, says,
};
use proptest::prelude::*;
use serde_json::value::RawValue;
use serde_json::{Value, json};

fn results(assistant: &Assistant, content: &str) -> Vec<ToolResult> {
    let result = |call: &ToolCall| ToolResult {
        call: call.id.clone(),
        content: content.to_owned(),
        is_error: false,
    };
    assistant.calls().map(result).collect()
}

fn failed_results(assistant: &Assistant, content: &str) -> Vec<ToolResult> {
    let mut results = results(assistant, content);
    results.iter_mut().for_each(|result| result.is_error = true);
    results
}

/// SDK-8, TK-75, TK-76, STK-37, STK-46, STK-39
#[tokio::test]
async fn a_turn_with_tools_goes_through_every_provider() {
    for way in ways() {
        let first = says("I look first. It takes more than forty characters to say.")
            .with_call("file_read", json!({"path": "a/ü.jsonnet"}))
            .with_call(
                "file_read",
                json!({"path": "b \"quoted\" and long enough for several deltas"}),
            )
            .with_usage(Usage {
                input: 900,
                output: 70,
                cache_read: 100,
                cache_write: 0,
            });
        let mut fixture = ModelFixture::new(way, queue([first, says("Done.")]));
        let mut history = asking("hello");
        let answer = fixture.ask(&history).await.expect("answer");
        assert_eq!(answer.model, fixture.model);
        assert_eq!(answer.assistant.stop, StopReason::ToolUse);
        assert_eq!(
            answer.assistant.usage,
            Usage {
                input: 900,
                output: 70,
                cache_read: 100,
                cache_write: 0
            }
        );
        assert_eq!(
            answer.assistant.text(),
            "I look first. It takes more than forty characters to say."
        );
        let arguments: Vec<&str> = answer
            .assistant
            .calls()
            .map(|call| call.arguments.text())
            .collect();
        let second = "{\"path\":\"b \\\"quoted\\\" and long enough for several deltas\"}";
        assert_eq!(arguments, ["{\"path\":\"a/ü.jsonnet\"}", second]);
        // An answer in one piece has the same events.
        let started = fixture
            .events
            .iter()
            .filter(|event| matches!(event, StreamEvent::CallStarted { name } if name == "file_read"))
            .count();
        assert_eq!((fixture.words(), started), (answer.assistant.text(), 2));

        let call_results = failed_results(&answer.assistant, "content");
        history
            .push(Step::new(answer.assistant, call_results).expect("step"))
            .expect("open");
        let last = fixture.ask(&history).await.expect("answer");
        assert_eq!(
            (last.assistant.text().as_str(), last.assistant.stop),
            ("Done.", StopReason::EndTurn)
        );
        let asked = fixture.emulator.requests();
        assert_eq!(asked[1].last_results().len(), 2);
        assert_eq!(asked[1].last_user_text(), "hello");
        let format = expectations(way.0);
        let sent: Value = serde_json::from_str(&asked[1].raw).expect("a body");
        let messages = sent[format.messages].as_array().expect("messages");
        assert_eq!(
            messages.last().expect("one")["role"].as_str(),
            format.results_role
        );
        let failed = &asked[1].last_results()[0];
        assert_eq!(
            (failed.content.clone(), failed.is_error),
            (format.failed_result)("content")
        );
        assert_eq!(
            (asked[0].system.as_str(), asked[0].tools.len()),
            ("You prepare changes.", 1)
        );
        fixture.assert_in_order();
    }
}

/// TK-76
#[tokio::test]
async fn streamed_and_whole_answers_are_the_same() {
    for known in KNOWN_PROVIDERS {
        let mut answers = Vec::new();
        for mode in [AnswerMode::Streamed, AnswerMode::Whole] {
            let line = says("Words.")
                .with_thinking("Hm.")
                .with_call("file_read", json!({"path": "a"}));
            let mut fixture = ModelFixture::new((known, mode), queue([line]));
            let answer = fixture.ask(&asking("hello")).await.expect("answer");
            let raw = answer.assistant.raw.as_ref().map(|raw| {
                raw.blocks
                    .iter()
                    .map(|block| serde_json::from_str(block.get()).expect("json"))
                    .collect::<Vec<serde_json::Value>>()
            });
            let assistant = answer.assistant.clone();
            answers.push((
                assistant.blocks,
                assistant.stop,
                assistant.usage,
                raw,
                answer.model,
            ));
        }
        assert_eq!(answers[0], answers[1]);
        assert_eq!(
            answers[0].3.as_ref().map(Vec::len),
            expectations(known).own_blocks
        );
    }
}

#[tokio::test]
async fn a_provider_reads_its_own_blocks_byte_for_byte_and_nobody_elses() {
    let known = |name| known_provider(name).expect("a known provider");
    let keeping = first_of_each_format()
        .into_iter()
        .filter(|known| expectations(known).own_blocks.is_some());
    let modes = [AnswerMode::Streamed, AnswerMode::Whole];
    for way in keeping.flat_map(|known| modes.map(|mode| (known, mode))) {
        let line = || {
            says("Words.")
                .with_thinking("Hm.\u{2028}")
                .with_call("file_read", json!({"path": "a"}))
        };
        let mut fixture = ModelFixture::new(way, queue([line(), says("ok")]));
        let mut history = asking("hello");
        let answer = fixture.ask(&history).await.expect("answer");
        let raw = answer.assistant.raw.clone().expect("raw");
        let call_results = results(&answer.assistant, "content");
        // The step is serialised and parsed again, as after a restart.
        let step =
            serde_json::to_string(&Step::new(answer.assistant, call_results).expect("step")).expect("json");
        history
            .push(serde_json::from_str(&step).expect("step"))
            .expect("open");
        fixture.ask(&history).await.expect("answer");
        let blocks: Vec<&str> = raw.blocks.iter().map(|block| block.get()).collect();
        let sent = &fixture.emulator.requests()[1].raw;
        assert!(sent.contains(&blocks.join(",")), "{way:?}: {sent}");
        fixture.assert_in_order();

        for other in ["anthropic", "openai", "google", "openrouter"] {
            if other == way.0.name {
                continue;
            }
            let mut other = ModelFixture::new((known(other), way.1), queue([says("ok")]));
            other.ask(&history).await.expect("answer");
            let sent = &other.emulator.requests()[0].raw;
            // The beginnings of signatures and of encrypted reasoning.
            assert!(
                !sent.contains("c2lnbmVk") && !sent.contains("gAAAAA"),
                "{way:?}: {sent}"
            );
            other.assert_in_order();
        }
    }
}

/// TK-76
#[tokio::test]
async fn a_model_that_does_not_reason_gets_no_reasoning_of_another() {
    let line = says("Words.")
        .with_thinking("Hm.")
        .with_call("file_read", json!({"path": "a"}));
    let openai = known_provider("openai").expect("a known provider");
    let mut fixture = ModelFixture::new((openai, AnswerMode::Streamed), queue([line, says("Done.")]));
    fixture.model = "gpt-5.1".into();
    let mut history = asking("hello");
    let answer = fixture.ask(&history).await.expect("answer").assistant;
    let call_results = results(&answer, "content");
    history
        .push(Step::new(answer, call_results).expect("step"))
        .expect("open");
    fixture.model = "gpt-4o".into();
    assert_eq!(
        fixture.ask(&history).await.expect("answer").assistant.text(),
        "Done."
    );
    let sent = fixture.emulator.requests();
    let includes = |index: usize| sent[index].raw.contains("reasoning.encrypted_content");
    assert_eq!((includes(0), includes(1)), (true, false));
    fixture.assert_in_order();
}

/// TK-76
#[tokio::test]
async fn another_model_of_the_same_provider_gets_no_blocks_of_the_first() {
    let keeping = first_of_each_format()
        .into_iter()
        .filter(|known| expectations(known).own_blocks.is_some());
    for known in keeping {
        let line = says("Words.")
            .with_thinking("Hm.")
            .with_call("file_read", json!({"path": "a"}));
        let script = queue([line, says("Done."), says("Done.")]);
        let mut fixture = ModelFixture::new((known, AnswerMode::Streamed), script);
        let first = fixture.model.clone();
        let mut history = asking("hello");
        let answer = fixture.ask(&history).await.expect("answer").assistant;
        let call_results = results(&answer, "content");
        history
            .push(Step::new(answer, call_results).expect("step"))
            .expect("open");
        fixture.model = "maker/other".into();
        fixture.ask(&history).await.expect("answer");
        fixture.model = first;
        fixture.ask(&history).await.expect("answer");
        let sent = fixture.emulator.requests();
        // The beginnings of signatures and of encrypted reasoning.
        let has_blocks = |index: usize| {
            let raw = &sent[index].raw;
            raw.contains("c2lnbmVk") || raw.contains("gAAAAA")
        };
        assert_eq!((has_blocks(1), has_blocks(2)), (false, true), "{}", known.name);
        fixture.assert_in_order();
    }
}

/// A conversation that was stored before blocks were marked with their model, and whose first call has no signature.
/// TK-76
#[tokio::test]
async fn a_gemini_model_that_checks_signatures_gets_no_unsigned_call_of_an_older_one() {
    let google = known_provider("google").expect("a known provider");
    let script = queue([says("Done."), says("Done.")]);
    let mut fixture = ModelFixture::new((google, AnswerMode::Streamed), script);
    let part = r#"{"functionCall":{"name":"file_read","args":{"path":"a"}}}"#;
    let raw = RawBlocks {
        provider: "google gemini-generate".to_owned(),
        blocks: vec![RawValue::from_string(part.to_owned()).expect("json")],
    };
    let call = ContentBlock::Call(ToolCall {
        id: "call_0".to_owned(),
        name: "file_read".to_owned(),
        arguments: "{\"path\":\"a\"}".into(),
    });
    let assistant = Assistant {
        blocks: vec![call],
        raw: Some(raw),
        stop: StopReason::ToolUse,
        usage: Usage::default(),
    };
    let call_results = results(&assistant, "content");
    let mut history = asking("hello");
    for step in [
        Step::new(assistant, call_results).expect("step"),
        Step::new(Assistant::synthetic("Done."), Vec::new()).expect("step"),
    ] {
        history.push(step).expect("open");
    }
    history.begin("again").expect("turn");
    for (model, is_as_it_was) in [("gemini-2.5-pro", true), ("gemini-3-pro", false)] {
        fixture.model = model.into();
        fixture.ask(&history).await.expect("answer");
        let sent = fixture.emulator.requests();
        let last = &sent.last().expect("a request").raw;
        assert_eq!(last.contains(part), is_as_it_was, "{model}: {last}");
    }
    fixture.assert_in_order();
}

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

/// STK-38, STK-49
#[tokio::test]
async fn each_request_begins_with_the_bytes_of_the_one_before() {
    for way in ways() {
        let mut fixture = ModelFixture::new(
            way,
            |asked: &crate::simulation::emulator::model::ModelRequest| match asked.messages.len() % 4 {
                1 => calls("file_read", json!({"path": "a"})),
                _ => says("Done."),
            },
        );
        let mut history = History::default();
        for turn in 0..4 {
            history.begin(format!("message {turn}")).expect("turn");
            loop {
                let answer = fixture.ask(&history).await.expect("answer").assistant;
                let call_results = results(&answer, "content");
                let is_last = call_results.is_empty();
                history
                    .push(Step::new(answer, call_results).expect("step"))
                    .expect("open");
                if is_last {
                    break;
                }
            }
        }
        let asked = fixture.emulator.requests();
        assert_eq!(asked.len(), 8);
        let format = expectations(way.0);
        for pair in asked.windows(2) {
            let before = &pair[0].raw;
            // A request has the marker of its own format, and no other.
            let unmarked = match format.cache_marker {
                Some(marker) => before.replace(marker, ""),
                None => before.clone(),
            };
            let is_marked = unmarked != *before;
            assert_eq!(is_marked, format.cache_marker.is_some(), "{}", way.0.name);
            assert!(!unmarked.contains("cache_control"), "{}", way.0.name);
            // The end of the common part: the marker, which moves, or the end of the list.
            let end = before.rfind(format.differs_from).expect("the end");
            assert!(
                pair[1].raw.as_bytes().starts_with(&before.as_bytes()[..end]),
                "{}",
                way.0.name
            );
        }
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

/// R12, STK-34, STK-37
#[tokio::test]
async fn a_history_of_another_provider_or_of_ours_is_accepted_by_all() {
    let call = |id: &str, name: &str, arguments: &str| {
        ContentBlock::Call(ToolCall {
            id: id.into(),
            name: name.into(),
            arguments: arguments.into(),
        })
    };
    let mut history = asking(" \n");
    for _ in 0..2 {
        let blocks = vec![
            ContentBlock::Text { text: " ".into() },
            call("call_1", "file_read", "not json"),
            call("functions.read:0", "", "[]"),
        ];
        let assistant = Assistant {
            blocks,
            raw: None,
            stop: StopReason::ToolUse,
            usage: Usage::default(),
        };
        let call_results = results(&assistant, " ");
        history
            .push(Step::new(assistant, call_results).expect("step"))
            .expect("open");
    }
    let nothing = Assistant {
        blocks: vec![],
        raw: None,
        stop: StopReason::EndTurn,
        usage: Usage::default(),
    };
    history
        .push(Step::new(nothing, vec![]).expect("step"))
        .expect("open");
    history.begin("next").expect("turn");
    history.close("I stopped.");
    history.begin("and now?").expect("turn");
    for way in ways() {
        let mut fixture = ModelFixture::new(way, queue([says("ok")]));
        fixture.ask(&history).await.expect("answer");
        fixture.assert_in_order();
    }
}

fn hostile() -> impl Strategy<Value = String> {
    let delimiters = prop::sample::select(vec![
        "</tool_result>",
        "\n\nHuman:",
        "\n\nAssistant:",
        "<|im_end|>",
        "\"}]}",
        "\u{0}",
        "\\",
        "\u{2028}",
        "]]>",
        "{\"role\":\"system\"}",
    ]);
    prop::collection::vec(
        prop_oneof![delimiters.prop_map(str::to_owned), any::<String>()],
        0..6,
    )
    .prop_map(|parts| format!("x{}", parts.concat()))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    /// T66
    #[test]
    fn any_text_arrives_as_exactly_the_blocks_it_was_put_in(
        user in hostile(), said in hostile(), path in hostile(), content in hostile(), is_error in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
        runtime.block_on(async {
            let modes = [AnswerMode::Streamed, AnswerMode::Whole].into_iter().cycle();
            for way in first_of_each_format().into_iter().zip(modes) {
                let mut fixture = ModelFixture::new(way, queue([says("ok")]));
                let arguments = json!({"path": path});
                let call = ToolCall { id: "id_1".into(), name: "file_read".into(), arguments: arguments.to_string().into() };
                let assistant = Assistant {
                    blocks: vec![ContentBlock::Text { text: said.clone() }, ContentBlock::Call(call)],
                    raw: None,
                    stop: StopReason::ToolUse,
                    usage: Usage::default(),
                };
                let result = ToolResult { call: "id_1".into(), content: content.clone(), is_error };
                let mut history = asking(&user);
                history.push(Step::new(assistant, vec![result]).expect("step")).expect("open");
                fixture.ask(&history).await.expect("answer");
                fixture.assert_in_order();
                let (sent, is_marked) = match is_error {
                    true => (expectations(way.0).failed_result)(&content),
                    false => (content.clone(), false),
                };
                let expected = [
                    RequestMessage { role: RequestRole::User, text: user.clone(), files: vec![], calls: vec![], results: vec![] },
                    RequestMessage {
                        role: RequestRole::Assistant,
                        text: said.clone(),
                        files: vec![],
                        calls: vec![RequestCall { id: "id_1".into(), name: "file_read".into(), arguments }],
                        results: vec![],
                    },
                    RequestMessage {
                        role: RequestRole::User,
                        text: String::new(),
                        files: vec![],
                        calls: vec![],
                        results: vec![RequestResult {
                            call: "id_1".into(),
                            content: sent,
                            is_error: is_marked,
                        }],
                    },
                ];
                assert_eq!(fixture.emulator.requests()[0].messages, expected);
            }
        });
    }
}
