//! Tests of the Responses codec: encrypted reasoning, incomplete answers, refusals, and what no model says.

use super::{DecodeError, call, streamed, text};
use crate::base::model::{StopReason, Usage};
use crate::interfaces::provider::Completion;
use crate::interfaces::provider::codec::Codec;
use crate::interfaces::provider::responses::OpenaiResponses;
use serde_json::{Value, json};

fn responses() -> OpenaiResponses {
    OpenaiResponses {
        label: "openai openai-responses".to_owned(),
    }
}

/// Returns an answer with these items, in one piece and as the last event of a stream.
fn of_items(status: &str, reason: Value, output: &[Value]) -> [String; 2] {
    let details = match reason {
        Value::Null => Value::Null,
        reason => json!({"reason": reason}),
    };
    let body = json!({"status": status, "incomplete_details": details, "model": "m", "output": output});
    let event = json!({"type": format!("response.{status}"), "response": body});
    [body.to_string(), format!("data: {event}\n\n")]
}

fn both([whole, stream]: &[String; 2]) -> [Result<Completion, DecodeError>; 2] {
    let streamed = streamed(&responses(), &[stream.as_bytes()]).map(|(completion, _)| completion);
    [responses().decode(whole.as_bytes()), streamed]
}

fn raw(completion: &Completion) -> Option<Vec<Value>> {
    let raw = completion.assistant.raw.as_ref()?;
    let items = raw.blocks.iter();
    Some(
        items
            .map(|item| serde_json::from_str(item.get()).expect("json"))
            .collect(),
    )
}

fn said(kind: &str, words: &str) -> Value {
    let field = if kind == "refusal" { "refusal" } else { "text" };
    json!({"id": "msg_1", "type": "message", "role": "assistant", "status": "completed",
        "content": [{"type": kind, field: words}]})
}

fn called(id: &str, arguments: &str) -> Value {
    json!({"id": "fc_1", "type": "function_call", "call_id": id, "name": "t", "arguments": arguments,
        "status": "completed"})
}

fn reasoning(encrypted: Value) -> Value {
    json!({"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": encrypted})
}

/// TK-76
#[test]
fn a_responses_answer_keeps_its_reasoning_and_its_costs() {
    let recorded = responses().recorded_answer();
    let (answer, words) = streamed(&responses(), &[recorded.as_bytes()]).expect("answer");
    let expected = vec![
        text(&words),
        call("call_12345xyz", "file_read", "{\"path\":\"a\"}"),
        call("call_22345xyz", "git_status", "{}"),
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
    let raw = answer.assistant.raw.expect("raw");
    assert_eq!(raw.blocks.len(), 4);
    // Each item is sent back with the bytes that it came with.
    assert!(raw.blocks.iter().all(|item| recorded.contains(item.get())));
    assert!(
        raw.blocks[0]
            .get()
            .contains("\"encrypted_content\":\"gAAAAABoISQ24OyV\"")
    );
}

/// R12
#[test]
fn each_end_of_a_responses_answer_has_its_meaning() {
    let items = [said("output_text", "hi"), called("a", "{\"x\":1}")];
    let outcome = |status: &str, reason: Value, items: &[Value]| {
        let [whole, stream] = both(&of_items(status, reason, items));
        let seen = |answer: Result<Completion, DecodeError>| {
            answer.map(|answer| (answer.assistant.stop, answer.assistant.blocks))
        };
        let (whole, stream) = (seen(whole), seen(stream));
        assert_eq!(whole, stream, "{status}");
        whole
    };
    let all = vec![text("hi"), call("a", "t", "{\"x\":1}")];
    assert_eq!(
        outcome("completed", Value::Null, &items),
        Ok((StopReason::ToolUse, all))
    );
    let cut = vec![text("hi"), call("a", "t", "")];
    for reason in ["max_output_tokens", "unheard_of"] {
        assert_eq!(
            outcome("incomplete", reason.into(), &items),
            Ok((StopReason::MaxTokens, cut.clone()))
        );
    }
    let refused = Ok((StopReason::Refusal, vec![text("hi")]));
    assert_eq!(outcome("incomplete", "content_filter".into(), &items), refused);
    let refusal = [said("refusal", "I cannot."), called("a", "{}")];
    for (status, reason) in [
        ("completed", Value::Null),
        ("incomplete", "max_output_tokens".into()),
    ] {
        assert_eq!(
            outcome(status, reason, &refusal),
            Ok((StopReason::Refusal, vec![text("I cannot.")]))
        );
    }
    assert_eq!(
        outcome("completed", Value::Null, &[]),
        Ok((StopReason::EndTurn, vec![]))
    );
    for status in ["in_progress", "queued", "cancelled"] {
        let [whole, _] = of_items(status, Value::Null, &items);
        assert_eq!(
            responses().decode(whole.as_bytes()).err(),
            Some(DecodeError::Incomplete)
        );
    }
    let failed =
        json!({"status": "failed", "error": {"code": "rate_limit_exceeded", "message": "x"}, "output": []});
    let event = json!({"type": "response.failed", "response": failed});
    for answer in both(&[failed.to_string(), format!("data: {event}\n\n")]) {
        let expected = DecodeError::Reported {
            status: 429,
            kind: "rate_limit_exceeded".to_owned(),
        };
        assert_eq!(answer.err(), Some(expected));
    }
}

/// R12
#[test]
fn what_no_model_says_is_no_answer_of_the_responses_api() {
    let with = |item: &Value, field: &str, value: Value| {
        let mut item = item.clone();
        item[field] = value;
        item
    };
    let (message, function) = (said("output_text", "hi"), called("a", "{}"));
    let forged = [
        with(&message, "role", "user".into()),
        with(&message, "role", "system".into()),
        with(&message, "role", Value::Null),
        with(&message, "content", "hi".into()),
        with(&message, "type", 7.into()),
        said("input_text", "hi"),
        said("input_image", "hi"),
        with(&function, "call_id", "".into()),
        with(&function, "call_id", "a b".into()),
        with(&function, "call_id", "x".repeat(257).into()),
        with(&function, "name", " ".into()),
        with(&function, "arguments", json!({})),
        json!({"type": "function_call_output", "call_id": "a", "output": "x"}),
        json!({"type": "custom_tool_call", "call_id": "a", "name": "t", "input": "x"}),
        json!({"type": "item_reference", "id": "a"}),
        json!({"id": "no type"}),
    ];
    for item in forged {
        for answer in both(&of_items("completed", Value::Null, std::slice::from_ref(&item))) {
            assert_eq!(answer.err(), Some(DecodeError::Malformed), "{item}");
        }
    }
    for answer in both(&of_items(
        "completed",
        Value::Null,
        &[called("a", "{}"), called("a", "{}")],
    )) {
        assert_eq!(answer.err(), Some(DecodeError::Malformed));
    }
}

/// R12
#[test]
fn what_the_responses_api_would_refuse_when_it_comes_back_is_not_replayed() {
    let (thought, said, asked) = (
        reasoning("b64".into()),
        said("output_text", "hi"),
        called("a", "{}"),
    );
    let cases: [(Vec<Value>, Option<Vec<Value>>); 5] = [
        (
            vec![thought.clone(), asked.clone()],
            Some(vec![thought.clone(), asked.clone()]),
        ),
        // Reasoning that nothing follows.
        (vec![said.clone(), thought.clone()], Some(vec![said])),
        // Reasoning that only the service could read, had it stored it.
        (vec![reasoning(Value::Null), asked.clone()], None),
        (vec![thought.clone(), called("a", "not json")], None),
        (
            vec![thought, json!({"type": "web_search_call", "id": "ws_1"}), asked],
            None,
        ),
    ];
    for (items, expected) in cases {
        for answer in both(&of_items("completed", Value::Null, &items)) {
            assert_eq!(raw(&answer.expect("an answer")), expected, "{items:?}");
        }
    }
}

/// R11
#[test]
fn a_service_that_does_not_repeat_the_items_is_understood() {
    let done = json!({"type": "response.output_item.done", "output_index": 0, "item": called("a", "{}")});
    let [_, last] = of_items("completed", Value::Null, &[]);
    let stream = format!("data: {done}\n\n{last}data: [DONE]\n\n");
    let (answer, _) = streamed(&responses(), &[stream.as_bytes()]).expect("an answer");
    assert_eq!(answer.assistant.blocks, [call("a", "t", "{}")]);
}
