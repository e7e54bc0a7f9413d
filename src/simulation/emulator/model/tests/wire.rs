//! Tests of valid requests and answers.

use super::{ModelFixture, asking, expectations, failed_results, results, ways};
use crate::base::config::{AnswerMode, KNOWN_PROVIDERS};
use crate::base::model::{Assistant, ContentBlock, History, Step, StopReason, ToolCall, ToolResult, Usage};
use crate::interfaces::provider::{StreamEvent, first_of_each_format};
use crate::simulation::emulator::model::{
    RequestCall, RequestMessage, RequestResult, RequestRole, calls, queue, says,
};
use proptest::prelude::*;
use serde_json::{Value, json};

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

/// Returns a request without its cache markers, and their positions in it.
fn without_markers(raw: &str, marker: &str) -> (String, Vec<usize>) {
    let mut text = String::new();
    let mut positions = Vec::new();
    for part in raw.split(marker) {
        text.push_str(part);
        positions.push(text.len());
    }
    positions.pop();
    (text, positions)
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
            // A request has the markers of its own format, and no others.
            let [before, next] = [&pair[0].raw, &pair[1].raw].map(|raw| match format.cache_marker {
                Some(marker) => without_markers(raw, marker),
                None => (raw.clone(), Vec::new()),
            });
            assert_eq!(
                before.1.is_empty(),
                format.cache_marker.is_none(),
                "{}",
                way.0.name
            );
            assert!(!before.0.contains("cache_control"), "{}", way.0.name);
            // Whatever the step added, the service finds the end of the previous request at a marker.
            assert!(
                before.1.last().is_none_or(|end| next.1.contains(end)),
                "{}",
                way.0.name
            );
            // The next request may differ from the end of the list.
            let end = before.0.rfind("]}").expect("the end");
            assert!(
                next.0.as_bytes().starts_with(&before.0.as_bytes()[..end]),
                "{}",
                way.0.name
            );
        }
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
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

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
