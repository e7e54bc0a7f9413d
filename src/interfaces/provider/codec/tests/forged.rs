//! Tests of answers with content that no assistant sends: they are refused in both wire formats and both answer
//! modes.

use super::{ANTHROPIC, Codec, DecodeError, OPENAI, streamed};
use crate::interfaces::provider::Completion;
use serde_json::{Value, json};

/// Returns a Messages answer with these blocks, whole and as events.
fn of_blocks(role: &str, blocks: &[Value]) -> [String; 2] {
    let whole = json!({
        "type": "message", "role": role, "model": "m", "content": blocks, "stop_reason": "tool_use",
    });
    let mut events = vec![json!({"type": "message_start", "message": {"role": role, "model": "m"}})];
    for (index, block) in blocks.iter().enumerate() {
        events.push(json!({"type": "content_block_start", "index": index, "content_block": block}));
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    events.push(json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}));
    events.push(json!({"type": "message_stop"}));
    let stream = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    [whole.to_string(), stream]
}

/// Returns a chat completion with this message, whole and as events.
fn of_message(message: &Value) -> [String; 2] {
    let choice = json!({"index": 0, "message": message, "finish_reason": "tool_calls"});
    let whole = json!({"model": "m", "choices": [choice]});
    let chunk =
        json!({"model": "m", "choices": [{"index": 0, "delta": message, "finish_reason": "tool_calls"}]});
    [whole.to_string(), format!("data: {chunk}\n\ndata: [DONE]\n\n")]
}

fn both(codec: &dyn Codec, [whole, stream]: &[String; 2]) -> [Result<Completion, DecodeError>; 2] {
    let streamed = streamed(codec, &[stream.as_bytes()]).map(|(completion, _)| completion);
    [codec.decode(whole.as_bytes()), streamed]
}

fn text() -> Value {
    json!({"type": "text", "text": "hi"})
}

fn used(id: &str, name: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": name, "input": {}})
}

fn called(id: &str, name: &str) -> Value {
    json!({"id": id, "type": "function", "function": {"name": name, "arguments": "{}"}})
}

/// R12
#[test]
fn what_no_assistant_says_is_no_answer_of_anthropic() {
    let long = "x".repeat(257);
    let forged: Vec<(&str, Vec<Value>)> = vec![
        (
            "assistant",
            vec![
                text(),
                json!({"type": "tool_result", "tool_use_id": "a", "content": "c"}),
            ],
        ),
        (
            "assistant",
            vec![json!({"type": "web_search_tool_result", "tool_use_id": "a", "content": []})],
        ),
        (
            "assistant",
            vec![json!({"type": "document", "source": {"type": "text", "data": "x"}})],
        ),
        (
            "assistant",
            vec![json!({"type": "image", "source": {"type": "url", "url": "x"}})],
        ),
        ("assistant", vec![json!({"type": "search_result", "content": []})]),
        ("assistant", vec![json!({"text": "no type"})]),
        ("assistant", vec![json!({"type": "text", "text": 7})]),
        ("assistant", vec![used("a", "t"), used("a", "t")]),
        ("assistant", vec![used("a", "")]),
        ("assistant", vec![used("a", " ")]),
        ("assistant", vec![used("", "t")]),
        ("assistant", vec![used("a b", "t")]),
        ("assistant", vec![used("ü", "t")]),
        ("assistant", vec![used(&long, "t")]),
        (
            "assistant",
            vec![json!({"type": "tool_use", "name": "t", "input": {}})],
        ),
        ("user", vec![text()]),
        ("system", vec![text()]),
        ("tool", vec![text()]),
        ("", vec![text()]),
    ];
    for (role, blocks) in forged {
        for answer in both(&ANTHROPIC, &of_blocks(role, &blocks)) {
            assert_eq!(answer.err(), Some(DecodeError::Malformed), "{role} {blocks:?}");
        }
    }
    // Different parsers read a duplicate field differently.
    let twice = of_blocks("assistant", &[text()])
        .map(|body| body.replace(r#""type":"text""#, r#""type":"text","type":"tool_result""#));
    for answer in both(&ANTHROPIC, &twice) {
        assert_eq!(answer.err(), Some(DecodeError::Malformed));
    }
}

/// R12
#[test]
fn what_no_assistant_says_is_no_answer_of_a_chat_completion() {
    let long = "x".repeat(257);
    let said = |fields: Value| {
        let mut message = json!({"role": "assistant", "content": "hi"});
        for (field, value) in fields.as_object().into_iter().flatten() {
            message[field] = value.clone();
        }
        message
    };
    let part = |kind: &str| said(json!({"content": [{"type": kind, "text": "x"}]}));
    let calls = |calls: Vec<Value>| said(json!({"tool_calls": calls}));
    let forged = [
        said(json!({"role": "user"})),
        said(json!({"role": "tool", "tool_call_id": "a"})),
        said(json!({"role": "developer"})),
        said(json!({"role": 7})),
        said(json!({"tool_call_id": "a"})),
        said(json!({"content": 7})),
        said(json!({"content": {"type": "text", "text": "x"}})),
        part("image_url"),
        part("input_audio"),
        part("file"),
        part("document"),
        part("tool_result"),
        calls(vec![called("a", "")]),
        calls(vec![called("a b", "t")]),
        calls(vec![called("ü", "t")]),
        calls(vec![called(&long, "t")]),
        calls(vec![
            json!({"id": "a", "type": "custom", "function": {"name": "t", "arguments": "{}"}}),
        ]),
    ];
    for message in &forged {
        for answer in both(&OPENAI, &of_message(message)) {
            assert_eq!(answer.err(), Some(DecodeError::Malformed), "{message}");
        }
    }
    let indexed = |index: u64| {
        let mut call = called("a", "t");
        call["index"] = index.into();
        call
    };
    for answer in both(&OPENAI, &of_message(&calls(vec![indexed(0), indexed(1)]))) {
        assert_eq!(answer.err(), Some(DecodeError::Malformed));
    }
}

/// R12
#[test]
fn what_a_provider_would_refuse_when_it_comes_back_is_not_replayed() {
    let thinking = |signature: Value| json!({"type": "thinking", "thinking": "Hm.", "signature": signature});
    let signed = thinking("c2ln".into());
    let cached = json!({"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}});
    let cases: [(Vec<Value>, Option<Vec<Value>>); 7] = [
        (
            vec![signed.clone(), used("a", "t")],
            Some(vec![signed.clone(), used("a", "t")]),
        ),
        (
            vec![thinking("".into()), used("a", "t")],
            Some(vec![used("a", "t")]),
        ),
        (
            vec![thinking(Value::Null), used("a", "t")],
            Some(vec![used("a", "t")]),
        ),
        (
            vec![json!({"type": "thinking", "thinking": "Hm."}), used("a", "t")],
            Some(vec![used("a", "t")]),
        ),
        (
            vec![json!({"type": "redacted_thinking"}), used("a", "t")],
            Some(vec![used("a", "t")]),
        ),
        (vec![signed.clone(), cached, used("a", "t")], None),
        (
            vec![signed, json!({"type": "block_of_the_future"}), used("a", "t")],
            None,
        ),
    ];
    for (blocks, expected) in cases {
        for answer in both(&ANTHROPIC, &of_blocks("assistant", &blocks)) {
            let assistant = answer.expect("an answer").assistant;
            assert_eq!(assistant.calls().count(), 1);
            let raw = assistant.raw.map(|raw| {
                let blocks = raw.blocks.iter();
                blocks
                    .map(|block| serde_json::from_str(block.get()).expect("json"))
                    .collect()
            });
            assert_eq!(raw, expected, "{blocks:?}");
        }
    }
    // The older form of a call is not sent back, and neither is a message without a role.
    for message in [
        json!({"role": "assistant", "content": "hi", "function_call": {"name": "t", "arguments": "{}"}}),
        json!({"role": "assistant", "content": "hi", "reasoning": "Hm.", "function_call": {"name": "t"}}),
    ] {
        for answer in both(&OPENAI, &of_message(&message)) {
            let raw = answer.expect("an answer").assistant.raw;
            let raw = raw.map(|raw| raw.blocks[0].get().to_owned()).unwrap_or_default();
            assert!(!raw.contains("function_call"), "{raw}");
        }
    }
    let unsaid = of_message(&json!({"content": "hi", "reasoning": "Hm."}));
    assert!(
        OPENAI
            .decode(unsaid[0].as_bytes())
            .expect("an answer")
            .assistant
            .raw
            .is_none()
    );
}
