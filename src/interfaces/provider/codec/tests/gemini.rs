//! Tests of the Gemini codec: signed parts, ids, reasons for the end, and what no model says.

use super::{DecodeError, call, streamed, text};
use crate::base::model::{ContentBlock, StopReason, Usage};
use crate::interfaces::provider::Completion;
use crate::interfaces::provider::codec::Codec;
use crate::interfaces::provider::gemini::GeminiGenerate;
use serde_json::{Value, json};

fn gemini() -> GeminiGenerate {
    GeminiGenerate {
        label: "google gemini-generate".to_owned(),
    }
}

/// Returns an answer with these parts, in one piece and with a chunk for each part.
fn of_parts(role: &str, parts: &[Value], reason: &str) -> [String; 2] {
    let chunk = |parts: &[Value], reason: Value| {
        let content = json!({"role": role, "parts": parts});
        json!({"candidates": [{"content": content, "finishReason": reason, "index": 0}], "modelVersion": "m"})
    };
    let whole = chunk(parts, reason.into()).to_string();
    let mut stream: String = parts
        .iter()
        .map(|part| format!("data: {}\n\n", chunk(std::slice::from_ref(part), Value::Null)))
        .collect();
    stream.push_str(&format!("data: {}\n\n", chunk(&[], reason.into())));
    [whole, stream]
}

fn both([whole, stream]: &[String; 2]) -> [Result<Completion, DecodeError>; 2] {
    let streamed = streamed(&gemini(), &[stream.as_bytes()]).map(|(completion, _)| completion);
    [gemini().decode(whole.as_bytes()), streamed]
}

fn raw(completion: &Completion) -> Option<Vec<String>> {
    let raw = completion.assistant.raw.as_ref()?;
    Some(raw.blocks.iter().map(|part| part.get().to_owned()).collect())
}

/// TK-76
#[test]
fn a_gemini_answer_keeps_its_signatures_and_its_costs() {
    let (answer, words) = streamed(&gemini(), &[gemini().recorded_answer().as_bytes()]).expect("answer");
    let expected = vec![
        text(&words),
        call("call_0", "file_read", "{\"path\": \"a\"}"),
        call("call_1", "git_status", "{}"),
    ];
    assert_eq!(
        (answer.assistant.blocks.clone(), answer.assistant.stop),
        (expected, StopReason::ToolUse)
    );
    assert_eq!(
        answer.assistant.usage,
        Usage {
            input: 10,
            output: 42,
            cache_read: 8,
            cache_write: 0
        }
    );
    let raw = raw(&answer).expect("raw");
    assert_eq!(raw[0], r#"{"text":"**Checking the files**","thought":true}"#);
    assert_eq!(
        raw[2..],
        [
            r#"{"functionCall": {"name": "file_read","args": {"path": "a"}},"thoughtSignature": "EpoBCpcBAb4+9vv6"}"#,
            r#"{"functionCall": {"name": "git_status"}}"#,
            r#"{"text": "","thoughtSignature": "ErQBCrEBAb4+9vuA"}"#,
        ]
    );
}

/// R12
#[test]
fn each_reason_for_the_end_of_a_gemini_answer_has_its_meaning() {
    let parts = [
        json!({"text": "hi"}),
        json!({"functionCall": {"id": "a", "name": "t", "args": {"x": 1}}}),
    ];
    let outcome = |reason: &str| {
        let [whole, stream] = both(&of_parts("model", &parts, reason));
        let seen = |answer: Result<Completion, DecodeError>| {
            answer.map(|answer| (answer.assistant.stop, answer.assistant.blocks))
        };
        let (whole, stream) = (seen(whole), seen(stream));
        assert_eq!(whole, stream, "{reason}");
        whole
    };
    let all = vec![text("hi"), call("a", "t", "{\"x\":1}")];
    assert_eq!(outcome("STOP"), Ok((StopReason::ToolUse, all.clone())));
    assert_eq!(outcome("OTHER"), Ok((StopReason::ToolUse, all)));
    let cut = vec![text("hi"), call("a", "t", "")];
    assert_eq!(outcome("MAX_TOKENS"), Ok((StopReason::MaxTokens, cut)));
    for reason in [
        "SAFETY",
        "RECITATION",
        "LANGUAGE",
        "BLOCKLIST",
        "PROHIBITED_CONTENT",
        "SPII",
    ] {
        assert_eq!(
            outcome(reason),
            Ok((StopReason::Refusal, vec![text("hi")])),
            "{reason}"
        );
    }
    for reason in [
        "MALFORMED_FUNCTION_CALL",
        "UNEXPECTED_TOOL_CALL",
        "TOO_MANY_TOOL_CALLS",
    ] {
        assert_eq!(outcome(reason), Err(DecodeError::Malformed), "{reason}");
    }
    assert!(matches!(
        outcome("MISSING_THOUGHT_SIGNATURE"),
        Err(DecodeError::Reported { status: 400, .. })
    ));
    // The service tells no reason, and there is nothing to use.
    for reason in ["OTHER", "FINISH_REASON_UNSPECIFIED"] {
        for parts in [&[][..], &[json!({"text": " \n"})]] {
            for answer in both(&of_parts("model", parts, reason)) {
                assert_eq!(answer.err(), Some(DecodeError::Incomplete), "{reason}");
            }
        }
    }
    for answer in both(&of_parts("model", &[], "STOP")) {
        assert_eq!(
            answer.expect("an empty answer").assistant.stop,
            StopReason::EndTurn
        );
    }
    let blocked =
        json!({"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 7}});
    for answer in both(&[blocked.to_string(), format!("data: {blocked}\n\n")]) {
        let assistant = answer.expect("a refusal").assistant;
        assert_eq!(
            (assistant.stop, assistant.blocks, assistant.usage.input),
            (StopReason::Refusal, vec![], 7)
        );
    }
}

/// R12
#[test]
fn what_no_model_says_is_no_answer_of_gemini() {
    let named = |name: Value| json!({"functionCall": {"name": name, "args": {}}});
    let forged = [
        ("user", json!({"text": "hi"})),
        ("function", json!({"text": "hi"})),
        ("", json!({"text": "hi"})),
        (
            "model",
            json!({"functionResponse": {"name": "t", "response": {"output": "x"}}}),
        ),
        (
            "model",
            json!({"inlineData": {"mimeType": "image/png", "data": ""}}),
        ),
        ("model", json!({"fileData": {"fileUri": "x"}})),
        ("model", json!({"text": 7})),
        ("model", json!({"text": null})),
        ("model", named("".into())),
        ("model", named(7.into())),
        ("model", json!({"functionCall": {"args": {}}})),
        ("model", json!({"functionCall": {"id": "a b", "name": "t"}})),
        (
            "model",
            json!({"functionCall": {"id": "x".repeat(257), "name": "t"}}),
        ),
        ("model", json!("text")),
    ];
    for (role, part) in forged {
        for answer in both(&of_parts(role, std::slice::from_ref(&part), "STOP")) {
            assert_eq!(answer.err(), Some(DecodeError::Malformed), "{role} {part}");
        }
    }
    let twice = of_parts("model", &[json!({"text": "hi"})], "STOP")
        .map(|body| body.replace(r#""text":"hi""#, r#""text":"hi","text":"ho""#));
    for answer in both(&twice) {
        assert_eq!(answer.err(), Some(DecodeError::Malformed));
    }
}

/// R12
#[test]
fn what_gemini_would_refuse_when_it_comes_back_is_not_replayed() {
    let signed = json!({"functionCall": {"name": "t", "args": {}}, "thoughtSignature": "c2ln"});
    let cases: [(Vec<Value>, Option<Vec<Value>>); 4] = [
        (
            vec![json!({"text": ""}), signed.clone()],
            Some(vec![signed.clone()]),
        ),
        (
            vec![json!({"thoughtSignature": "c2ln"}), signed.clone()],
            Some(vec![signed.clone()]),
        ),
        (
            vec![json!({"executableCode": {"code": "1"}}), signed.clone()],
            None,
        ),
        (
            vec![signed, json!({"functionCall": {"name": "t", "args": [1]}})],
            None,
        ),
    ];
    for (parts, expected) in cases {
        for answer in both(&of_parts("model", &parts, "STOP")) {
            let answer = answer.expect("an answer");
            let raw = raw(&answer).map(|raw| {
                let parts = raw.iter();
                parts
                    .map(|part| serde_json::from_str(part).expect("json"))
                    .collect::<Vec<Value>>()
            });
            assert_eq!(raw, expected, "{parts:?}");
            let ids = answer.assistant.blocks.iter().filter_map(|block| match block {
                ContentBlock::Call(call) => Some(call.id.as_str()),
                ContentBlock::Text { .. } => None,
            });
            assert!(ids.clone().all(|id| id.starts_with("call_")));
        }
    }
}
