//! Writes answers of the Messages API.

use crate::simulation::emulator::model::script::{AnswerFault, ScriptedAnswer};
use serde_json::{Value, json};
use std::fmt::Write;

/// The number of characters of one delta.
const DELTA_CHARS: usize = 40;

/// Returns an error in the format of the API.
pub(in crate::simulation::emulator::model) fn error_body(status: u16, why: &str) -> String {
    let kind = match status {
        401 => "authentication_error",
        404 => "not_found_error",
        413 => "request_too_large",
        _ => "invalid_request_error",
    };
    json!({"type": "error", "error": {"type": kind, "message": why}}).to_string()
}

/// Returns an answer in one piece. `number` is used for ids.
pub(in crate::simulation::emulator::model) fn whole(
    answer: &ScriptedAnswer,
    model: &str,
    number: u64,
) -> String {
    let content: Vec<String> = blocks(answer, number)
        .into_iter()
        .map(|block| block.whole)
        .collect();
    // Formatted by hand so that intentionally broken arguments stay as they are.
    let mut head = message(answer, model, number);
    head["stop_reason"] = answer.stop("tool_use", "end_turn").into();
    head["usage"]["output_tokens"] = answer.usage.output.into();
    let head = head.to_string();
    let head = head.strip_suffix('}').unwrap_or(&head);
    format!("{head},\"content\":[{}]}}", content.join(","))
}

/// Returns an answer as events.
pub(in crate::simulation::emulator::model) fn stream(
    answer: &ScriptedAnswer,
    model: &str,
    number: u64,
) -> String {
    let mut events = String::new();
    let mut start = message(answer, model, number);
    start["content"] = json!([]);
    event(&mut events, &json!({"type": "message_start", "message": start}));
    event(&mut events, &json!({"type": "ping"}));
    for (index, block) in blocks(answer, number).into_iter().enumerate() {
        event(
            &mut events,
            &json!({"type": "content_block_start", "index": index, "content_block": block.start}),
        );
        for delta in block.deltas {
            event(
                &mut events,
                &json!({"type": "content_block_delta", "index": index, "delta": delta}),
            );
        }
        if let Some(AnswerFault::ErrorEvent(kind)) = &answer.fault {
            event(
                &mut events,
                &json!({"type": "error", "error": {"type": kind, "message": "scripted"}}),
            );
        }
        event(
            &mut events,
            &json!({"type": "content_block_stop", "index": index}),
        );
    }
    let delta = json!({"stop_reason": answer.stop("tool_use", "end_turn"), "stop_sequence": null});
    let usage = json!({"output_tokens": answer.usage.output});
    event(
        &mut events,
        &json!({"type": "message_delta", "delta": delta, "usage": usage}),
    );
    event(&mut events, &json!({"type": "message_stop"}));
    events
}

struct Block {
    whole: String,
    start: Value,
    deltas: Vec<Value>,
}

fn blocks(answer: &ScriptedAnswer, number: u64) -> Vec<Block> {
    let mut blocks = Vec::new();
    if let Some(thinking) = &answer.thinking {
        let signature = format!("c2lnbmVk{number:08}");
        let mut deltas: Vec<Value> = pieces(thinking)
            .map(|piece| json!({"type": "thinking_delta", "thinking": piece}))
            .collect();
        deltas.push(json!({"type": "signature_delta", "signature": signature}));
        blocks.push(Block {
            whole: json!({"type": "thinking", "thinking": thinking, "signature": signature}).to_string(),
            start: json!({"type": "thinking", "thinking": "", "signature": ""}),
            deltas,
        });
    }
    if !answer.text.is_empty() {
        blocks.push(Block {
            whole: json!({"type": "text", "text": answer.text}).to_string(),
            start: json!({"type": "text", "text": ""}),
            deltas: pieces(&answer.text)
                .map(|piece| json!({"type": "text_delta", "text": piece}))
                .collect(),
        });
    }
    for (index, (name, arguments)) in answer.calls.iter().enumerate() {
        let id = answer.call_id(format!("toolu_{number:012}{index:04}"));
        let arguments = answer.arguments(arguments);
        let named = json!({"type": "tool_use", "id": id, "name": name});
        let head = named.to_string();
        blocks.push(Block {
            whole: format!(
                "{},\"input\":{arguments}}}",
                head.strip_suffix('}').unwrap_or(&head)
            ),
            start: json!({"type": "tool_use", "id": id, "name": name, "input": {}}),
            deltas: pieces(&arguments)
                .map(|piece| json!({"type": "input_json_delta", "partial_json": piece}))
                .collect(),
        });
    }
    blocks
}

fn message(answer: &ScriptedAnswer, model: &str, number: u64) -> Value {
    let usage = &answer.usage;
    json!({
        "id": format!("msg_{number:016}"), "type": "message", "role": "assistant", "model": model,
        "stop_reason": null, "stop_sequence": null,
        "usage": {
            "input_tokens": usage.input, "output_tokens": 1,
            "cache_read_input_tokens": usage.cache_read, "cache_creation_input_tokens": usage.cache_write,
        },
    })
}

fn event(events: &mut String, data: &Value) {
    let kind = data["type"].as_str().unwrap_or_default();
    // Writing to a string cannot fail.
    let _ = write!(events, "event: {kind}\ndata: {data}\n\n");
}

/// Splits a text into pieces, as a model streams it.
pub(in crate::simulation::emulator::model) fn pieces(text: &str) -> impl Iterator<Item = String> + '_ {
    let mut rest = text.chars().peekable();
    std::iter::from_fn(move || {
        rest.peek()?;
        Some(rest.by_ref().take(DELTA_CHARS).collect())
    })
}
