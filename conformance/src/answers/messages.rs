//! Messages of Anthropic:
//!
//! - <https://docs.anthropic.com/en/docs/build-with-claude/streaming>, "Streaming request with tool use" and "with extended
//!   thinking"
//! - <https://docs.anthropic.com/en/docs/test-and-evaluate/strengthen-guardrails/handle-streaming-refusals>
//! - <https://docs.anthropic.com/en/api/handling-stop-reasons>, also for empty answers

use super::{ARGUMENTS, Answer, NAME, THOUGHTS, arguments};
use serde_json::{Value, json};

pub(super) const SIGNATURE: &str = "EqQBCgIYAhIM1gbcDa9GJwZA2b3hGgxBdjrkzLoky3dl1pkiMOYds";

fn usage() -> Value {
    json!({"input_tokens": 472, "cache_creation_input_tokens": 30, "cache_read_input_tokens": 100, "output_tokens": 89})
}

fn blocks(answer: Answer) -> Vec<Value> {
    let mut blocks = Vec::new();
    if matches!(answer, Answer::Calls | Answer::Thoughts) {
        blocks.push(json!({"type": "thinking", "thinking": THOUGHTS, "signature": SIGNATURE}));
    }
    if !answer.words().is_empty() {
        blocks.push(json!({"type": "text", "text": answer.words().concat()}));
    }
    blocks.extend((0..answer.calls()).map(|index| {
        json!({"type": "tool_use", "id": format!("toolu_0{index}"), "name": NAME, "input": arguments(index)})
    }));
    blocks
}

fn stop_reason(answer: Answer) -> &'static str {
    match answer {
        Answer::Calls => "tool_use",
        Answer::Thoughts | Answer::Empty => "end_turn",
        Answer::Cut => "max_tokens",
        Answer::Refused => "refusal",
    }
}

/// Returns the answer in one piece.
pub(super) fn message(answer: Answer) -> Value {
    json!({
        "id": "msg_014p7gG3wDgGV9EUtLvnow3U", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
        "content": blocks(answer), "stop_reason": stop_reason(answer), "stop_sequence": null, "usage": usage(),
    })
}

/// Returns the answer as events.
pub(super) fn events(answer: Answer) -> Vec<Value> {
    let mut start = message(answer);
    start["content"] = json!([]);
    start["stop_reason"] = Value::Null;
    start["usage"]["output_tokens"] = 2.into();
    let mut events = vec![
        json!({"type": "message_start", "message": start}),
        json!({"type": "ping"}),
    ];
    let mut calls = ARGUMENTS.iter();
    for (index, block) in blocks(answer).into_iter().enumerate() {
        let mut begun = block.clone();
        let deltas: Vec<Value> = match block["type"].as_str() {
            Some("thinking") => {
                begun["thinking"] = "".into();
                begun["signature"] = "".into();
                vec![
                    json!({"type": "thinking_delta", "thinking": THOUGHTS}),
                    json!({"type": "signature_delta", "signature": SIGNATURE}),
                ]
            }
            Some("text") => {
                begun["text"] = "".into();
                let words = answer.words().iter();
                words
                    .map(|words| json!({"type": "text_delta", "text": words}))
                    .collect()
            }
            _ => {
                begun["input"] = json!({});
                let (first, second) = calls.next().expect("a call").split_at(11);
                let parts = ["", first, second];
                parts
                    .map(|part| json!({"type": "input_json_delta", "partial_json": part}))
                    .into()
            }
        };
        events.push(json!({"type": "content_block_start", "index": index, "content_block": begun}));
        let place = |delta| json!({"type": "content_block_delta", "index": index, "delta": delta});
        events.extend(deltas.into_iter().map(place));
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    let end = json!({"stop_reason": stop_reason(answer), "stop_sequence": null});
    events.push(json!({"type": "message_delta", "delta": end, "usage": {"output_tokens": 89}}));
    events.push(json!({"type": "message_stop"}));
    events
}
